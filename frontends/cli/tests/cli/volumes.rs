//! The commands on volumes without a server: the life of a volume, statuses, faults.
//! `tests/clients.sh` tests served volumes.

use crate::common::*;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;

fn at(folder: &Path, arguments: &str) -> Run {
    pantile_in(folder, &arguments.split(' ').collect::<Vec<_>>())
}

fn ok(folder: &Path, arguments: &str) -> String {
    let run = at(folder, arguments);
    assert_eq!(run.status, 0, "{arguments}: {}{}", run.stdout, run.stderr);
    run.stdout
}

fn json_of(folder: &Path, arguments: &str) -> serde_json::Value {
    let run = at(folder, &format!("{arguments} --json"));
    serde_json::from_str(&run.stdout)
        .unwrap_or_else(|e| panic!("{arguments}: {e}\n{}{}", run.stdout, run.stderr))
}

/// Checks the status of a volume that cannot be opened: a fault of one line, and the content of
/// each path, as text and as JSON.
fn unopened(folder: &Path, vol: &str, says: &[&str], devices: &[(&str, &str)]) {
    let run = at(folder, &format!("status {vol}"));
    for needle in says {
        assert!(run.stdout.contains(needle), "'{needle}' is missing in: {}", run.stdout);
    }
    let json = json_of(folder, &format!("status {vol}"));
    assert_eq!(
        (&json["opens"], &json["served"], &json["verdict"]),
        (&false.into(), &false.into(), &"failed".into())
    );
    let shown = json["devices"].as_array().expect("a list");
    assert_eq!(shown.len(), devices.len(), "{shown:?}");
    for (shown, (state, problem)) in shown.iter().zip(devices) {
        assert_eq!(shown["state"], *state, "{shown}");
        assert!(shown["problem"].as_str().unwrap_or_default().contains(problem), "{shown}");
    }
    assert!(
        run.stdout.lines().filter(|line| line.contains("  here ")).count()
            == devices.iter().filter(|(state, _)| *state == "present").count(),
        "{}",
        run.stdout
    );
    let fault = Run { stdout: String::new(), ..run };
    assert_fault(&fault, 2, says, "status");
}

#[test]
fn a_volume_lives_through_losses() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    assert!(ok(folder, "create vol --size 8M").contains("any 2 of them can fail"));
    assert!(ok(folder, "status vol").starts_with("2 more devices can fail without data loss, 3 cannot.\n"));
    ok(folder, "fail vol 3");
    let run = at(folder, "status vol");
    assert_eq!(run.status, 1);
    assert!(
        run.stdout.contains("Device 3 is lost")
            && run.stdout.starts_with("1 more device can fail without data loss")
    );
    // The device is not there.
    std::fs::rename(folder.join("vol/device-03.pantile"), folder.join("away")).expect("a device");
    let run = at(folder, "rebuild vol");
    assert_eq!((run.status, run.stdout.contains("Device 3 is lost")), (1, true), "{}", run.stdout);
    ok(folder, "replace vol 3 away");
    assert!(ok(folder, "rebuild vol").contains("Everything is whole"));
    assert!(ok(folder, "scrub vol --repair").contains("ended at"));
    let status = json_of(folder, "status vol");
    assert_eq!(status["verdict"], "clean");
    assert_eq!(status["served"], false);
    assert_eq!(status["margin"]["any_more"], 2);
    assert_eq!(status["output_version"], 1);
    assert_eq!(status["devices"].as_array().map(Vec::len), Some(6));
    assert!(ok(folder, "stop vol").contains("not served"));
    for device in 0..6 {
        let from = if device == 3 { "away".into() } else { format!("vol/device-0{device}.pantile") };
        std::fs::rename(folder.join(from), folder.join(format!("disk{}", (device * 5 + 1) % 6)))
            .expect("a device");
    }
    let assembled = ok(folder, "assemble disk0 disk1 disk2 disk3 disk4 disk5 --into again");
    assert!(assembled.contains("6 of 6 devices"), "{assembled}");
    ok(folder, "status again");
    let some = at(folder, "assemble disk0 disk1 disk2 disk3 disk4 --into some");
    assert_eq!(some.status, 1);
    assert!(some.stdout.contains("missing") && some.stdout.contains("Serve it"), "{}", some.stdout);
    let few = at(folder, "assemble disk0 disk1 disk2 --into few");
    assert_eq!(few.status, 1);
    assert!(few.stdout.contains("too few to serve it") && !few.stdout.contains("Serve it"), "{}", few.stdout);
    assert_eq!(json_of(folder, "assemble disk0 disk1 disk2 --into fewer")["enough"], false);
}

/// A device that was declared failed keeps its path, so an order finds it by each name, and brings
/// it back.
#[test]
fn a_device_declared_failed_is_known_by_its_path_and_comes_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::create_dir(folder.join("disks")).expect("a folder");
    let disks: Vec<String> = (0..5).map(|disk| format!("disks/d{disk}")).collect();
    for disk in disks.iter().map(String::as_str).chain(["new", "spare"]) {
        std::fs::File::create(folder.join(disk)).and_then(|file| file.set_len(32 << 20)).expect("a file");
    }
    ok(folder, &format!("create vol --code raid6:3 {}", disks.join(" ")));
    ok(folder, "fail vol disks/d1");
    let device = || json_of(folder, "status vol")["devices"][1].clone();
    let path = folder.join("disks/d1").display().to_string();
    assert_eq!((&device()["state"], &device()["path"]), (&"lost".into(), &path.as_str().into()));
    // With a limit of the speed alone, no device is brought back.
    assert_eq!(at(folder, "rebuild vol --throttle 1G").status, 1);
    assert!(ok(folder, "rebuild vol").contains("Everything is whole"));
    assert_eq!(device()["state"], "present");
    assert!(ok(folder, "events vol").contains("/disks/d1) came back."), "it was caught up, not rebuilt");

    // Nothing is at the path any more.
    ok(folder, "add-spare vol spare");
    std::fs::remove_file(folder.join("spare")).expect("it goes");
    std::os::unix::fs::symlink("spare", folder.join("to-spare")).expect("a link");
    ok(folder, "remove-spare vol to-spare");
    ok(folder, "fail vol d1");
    std::fs::remove_file(folder.join("disks/d1")).expect("it goes");
    std::os::unix::fs::symlink("disks/d1", folder.join("link")).expect("a link");
    let run = at(folder, "rebuild vol");
    assert_eq!(run.status, 1);
    let said = "Device 1 is lost: 'pantile status vol' says why, 'pantile replace vol 1 NEW' puts in another";
    assert!(run.stdout.starts_with(said), "{}", run.stdout);
    for name in ["disks/d1", "link", &path, "d1", "disks/../disks/d1"] {
        ok(folder, &format!("fail vol {name}"));
    }
    assert!(ok(folder, "replace vol link new").contains("new is device 1 now"));
    assert!(ok(folder, "rebuild vol").contains("Everything is whole"));
    assert_fault(&at(folder, "fail vol link"), 2, &["link is no device of vol"], "another has its slot");
    assert!(!std::fs::read_to_string(folder.join("vol/volume.conf")).expect("lines").contains("failed"));
}

#[test]
fn events_are_kept_over_restarts() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    ok(folder, "create vol --size 8M");
    assert_eq!(ok(folder, "events vol"), "");
    // Each of these commands opens the volume and closes it again.
    ok(folder, "fail vol 3");
    ok(folder, "replace vol 3 vol/device-03.pantile");
    ok(folder, "rebuild vol");
    let said = ok(folder, "events vol");
    let texts: Vec<&str> =
        said.lines().filter_map(|line| line.split_once("  ")).map(|(_, text)| text).collect();
    let at = |start: &str| texts.iter().position(|text| text.starts_with(start)).expect(&said);
    let device = format!("Device 3 ({})", folder.join("vol/device-03.pantile").display());
    let has = format!("{device} has all that it should have.");
    assert!(at(&format!("{device} was lost")) < at(&has), "{said}");
    assert!(!said.contains("not stopped in order"), "each command has closed it: {said}");
    assert_eq!(ok(folder, "status vol --events"), said);
    let json = json_of(folder, "events vol");
    assert_eq!((&json["output_version"], &json["events"][0]["device"]), (&1.into(), &3.into()));
    assert_fault(&at_follow(folder), 2, &["not served; 'pantile serve vol'"], "--follow");
}

fn at_follow(folder: &Path) -> Run {
    at(folder, "events vol --follow")
}

#[test]
fn all_volumes_are_found_and_looking_writes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let folder = directory.path();
    let disks = folder.join("disks");
    std::fs::create_dir(&disks).expect("a folder");
    for (vol, code, devices) in [("tank", "raid5:2", 3), ("pond", "mirror:2", 2), ("lake", "raid6:2", 4)] {
        ok(folder, &format!("create {vol} --size 8M --code {code}"));
        for device in 0..devices {
            let from = folder.join(format!("{vol}/device-0{device}.pantile"));
            std::fs::rename(from, disks.join(format!("{}{device}", &vol[..1]))).expect("a device");
        }
        std::fs::remove_dir_all(folder.join(vol)).expect("it goes");
    }
    std::fs::write(disks.join("photo"), vec![7; 100_000]).expect("a file");
    // One device of the mirror is left, which is enough. Three devices of raid6:2 are gone, and one
    // is not enough.
    std::fs::remove_file(disks.join("p1")).expect("it goes");
    ["l0", "l1", "l3"].iter().for_each(|name| std::fs::remove_file(disks.join(name)).expect("it goes"));
    let kept = || -> Vec<Vec<u8>> {
        ["t0", "t1", "t2", "p0", "l2"].map(|name| std::fs::read(disks.join(name)).expect("a file")).into()
    };
    let before = kept();

    let run = at(folder, "assemble --scan --dry-run --dir disks");
    assert_eq!(run.status, 1, "{}{}", run.stdout, run.stderr);
    for part in [
        "tank (raid5:2): 3 of 3 devices\n    0  disks/t0\n    1  disks/t1\n    2  disks/t2\n",
        "Assemble it: pantile assemble disks/t0 disks/t1 disks/t2 --into tank\n",
        "pond (mirror:2): 1 of 2 devices\n    0  disks/p0\n    1  missing\n",
        "lake (raid6:2): 1 of 4 devices\n",
        "too few to serve it. Bring more of its devices, or go on: pantile assemble disks/l2 --into lake\n",
        "No part of a volume is on 1 other device.\nNothing was written.\n",
    ] {
        assert!(run.stdout.contains(part), "'{part}' is missing in:\n{}", run.stdout);
    }
    assert!(!folder.join("tank").exists() && kept() == before);

    let json = json_of(folder, "assemble --scan --dir disks");
    let shown = |key: &str| -> Vec<String> {
        json["volumes"].as_array().expect("a list").iter().map(|volume| volume[key].to_string()).collect()
    };
    assert_eq!(shown("name"), ["\"lake\"", "\"pond\"", "\"tank\""]);
    assert_eq!(
        (shown("enough"), shown("made")),
        (shown("made"), vec!["false".into(), "true".into(), "true".into()])
    );
    assert!(folder.join("tank/volume.conf").exists() && !folder.join("lake").exists());
    assert!(kept() == before, "a folder is all that is written");
    assert!(ok(folder, "status tank").contains("clean"));
    let again = at(folder, "assemble --scan --dir disks").stdout;
    assert!(again.contains("It has its folder: pantile status tank\n"), "{again}");

    std::fs::remove_dir_all(folder.join("tank")).expect("it goes");
    std::fs::create_dir(folder.join("tank")).expect("a folder");
    let taken = at(folder, "assemble --scan --dir disks").stdout;
    let line = taken.lines().find_map(|line| line.strip_prefix("Assemble it: pantile ")).expect(&taken);
    assert!(line.contains("--into tank-"), "{line}");
    ok(folder, line);

    at(folder, "assemble --scan --dir disks --into other");
    assert!(folder.join("other/volume.conf").exists(), "the name of the user is free");
    std::fs::remove_dir_all(folder.join("pond")).expect("it goes");
    let into = at(folder, "assemble --scan --dir disks --into more");
    assert_fault(&into, 2, &["--into names one folder, and 2 volumes can be assembled"], "--into");
    std::fs::create_dir(folder.join("none")).expect("a folder");
    let none = at(folder, "assemble --scan --dir none");
    assert_eq!((none.status, none.stdout.as_str()), (1, "No volume was found.\n"));
}

/// An attacker's superblock can have any name of a volume.
#[test]
fn a_command_that_is_proposed_is_one_command() {
    let directory = tempfile::tempdir().expect("a directory");
    let folder = directory.path();
    let created = ok(folder, "create a;b --size 16M --code mirror:2");
    assert!(created.ends_with("Serve it: pantile serve a\\;b\n"), "{created}");
    std::fs::create_dir(folder.join("moved")).expect("a folder");
    for device in ["device-00.pantile", "device-01.pantile"] {
        std::fs::rename(folder.join("a;b").join(device), folder.join("moved").join(device))
            .expect("a device");
    }
    let assembled = ok(folder, "assemble moved/device-00.pantile moved/device-01.pantile --into c;d");
    assert!(assembled.ends_with("Serve it: pantile serve c\\;d\n"), "{assembled}");
}

#[test]
fn an_impossible_volume_is_refused_in_one_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    ok(folder, "create vol --size 1M");
    ok(folder, "create other --size 1M --code mirror:2");
    std::fs::write(folder.join("text"), vec![7; 64 << 20]).expect("a file");
    for i in 0..3 {
        std::fs::File::create(folder.join(format!("d{i}")))
            .and_then(|f| f.set_len(32 << 20))
            .expect("a file");
    }
    let cases: &[(&str, i32, &[&str])] = &[
        ("create vol --size 1M", 2, &["not empty"]),
        ("create new --devices text", 2, &["one device"]),
        ("create new --devices d0 d1 text", 2, &["text is not empty", "--yes"]),
        ("create new d0 d1 text", 2, &["text is not empty", "--yes"]),
        ("create new --devices d0 d1 vol/device-00.pantile", 2, &["belongs to the volume 'vol'", "--yes"]),
        ("create new --devices d0 d1 d1", 2, &["the same device as d1", "once"]),
        ("create new --code raid6:4 --devices d0 d1", 2, &["6 columns", "2 devices"]),
        ("create new --code nosuch:3 --size 1M", 2, &["nosuch"]),
        ("create new --devices d0 d1 nowhere", 2, &["nowhere"]),
        ("status nowhere", 2, &["nowhere does not exist, and is not the folder of a volume"]),
        ("stop nowhere", 2, &["nowhere does not exist, and is not the folder of a volume"]),
        ("fail vol 6", 2, &["0 to 5"]),
        ("replace vol 2 text", 2, &["not empty", "--yes"]),
        ("replace vol 2 nowhere", 2, &["nowhere"]),
        ("add-spare vol other/device-00.pantile", 2, &["other"]),
        ("assemble d0 text --into new", 2, &["none of the devices"]),
        ("assemble vol/device-00.pantile other/device-00.pantile --into new", 2, &["volumes"]),
        ("serve vol --tcp 1.2.3.4:1", 2, &["tls-certificates"]),
        ("scrub vol --pause --repair", 2, &["--repair"]),
        ("delayed start vol", 2, &["not served", "pantile serve"]),
        ("delayed end vol 7", 2, &["not served"]),
        ("delayed status vol 7", 2, &["no epoch 7"]),
        ("delayed start vol --range 5", 2, &["OFFSET+LENGTH"]),
        ("delayed start vol --idle soon", 2, &["30s"]),
    ];
    for (arguments, status, needles) in cases {
        assert_fault(&at(folder, arguments), *status, needles, arguments);
        assert!(!folder.join("new").exists(), "{arguments} left a folder behind");
    }
    let weird = folder.join("two\nlines");
    std::fs::copy(folder.join("vol/device-00.pantile"), &weird).expect("a copy");
    let run = pantile_in(folder, &["assemble", "two\nlines", "--into", "new"]);
    assert_fault(&run, 2, &["not text of one line"], "assemble");
    assert!(!folder.join("new").exists(), "assemble left a folder behind");
}

/// Changes each data block of the first devices, more than any code tolerates.
fn spoil(folder: &Path, devices: u32, holds: u8) {
    for device in 0..devices {
        let path = folder.join(format!("vol/device-0{device}.pantile"));
        let mut bytes = std::fs::read(&path).expect("a device");
        let ours = bytes.chunks_exact_mut(4096).filter(|block| block.iter().all(|&byte| byte == holds));
        ours.for_each(|block| block[100] ^= 1);
        std::fs::write(&path, &bytes).expect("it lies");
    }
}

fn write(folder: &Path, holds: u8, len: usize) {
    let folder = pantile_host::Folder::open(&folder.join("vol")).expect("a folder");
    let service = pantile_host::Service::start(folder, None).expect("it opens");
    service.handle().write(0, &vec![holds; len], true).expect("it writes");
    service.stop().expect("it stops");
}

#[test]
fn a_rebuild_without_a_server_is_said_to_wait_and_its_rate_is_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    ok(folder, "create vol --size 8M");
    write(folder, 7, 8 << 20);
    ok(folder, "fail vol 3");
    write(folder, 9, 8 << 20);
    at(folder, "rebuild vol --throttle 4K");
    let status = at(folder, "status vol").stdout;
    assert!(status.contains("held to 4.00 KiB/s"), "{status}");
    ok(folder, "replace vol 3 vol/device-03.pantile");
    let status = at(folder, "status vol").stdout;
    assert!(status.contains("waits until the volume is served") && status.contains("waits, "), "{status}");
    assert!(!status.contains("being rebuilt") && !status.contains("0 B/s"), "{status}");
    assert_eq!(json_of(folder, "status vol")["throttle_bytes_per_s"], 4096);
}

#[test]
fn several_devices_are_replaced_by_one_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    ok(folder, "create vol --size 8M");
    write(folder, 7, 8 << 20);
    let len = std::fs::metadata(folder.join("vol/device-00.pantile")).expect("a device").len();
    for (device, new) in [(1, "a"), (3, "b")] {
        ok(folder, &format!("fail vol {device}"));
        std::fs::File::create(folder.join(new)).and_then(|file| file.set_len(len)).expect("a file");
    }
    let alone = at(folder, "replace vol 1 a 3");
    assert_fault(&alone, 2, &["3 has no new device", "DEVICE NEW DEVICE NEW"], "replace");
    assert_eq!(
        json_of(folder, "status vol")["margin"]["lost"].as_array().map(Vec::len),
        Some(2),
        "no change"
    );
    ok(folder, "replace vol 1 a 3 b");
    ok(folder, "rebuild vol --wait");
    let status = json_of(folder, "status vol");
    assert_eq!(status["margin"]["any_more"], 2, "{status}");
    let path = |device: usize| status["devices"][device]["path"].as_str().map(str::to_owned).expect("a path");
    assert!(path(1).ends_with("/a") && path(3).ends_with("/b"), "{status}");
}

/// Two devices are being rebuilt when a third is away: a new device in the place of the third would
/// lose data.
#[test]
fn a_device_that_alone_holds_data_is_wanted_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    ok(folder, "create vol --size 8M");
    write(folder, 7, 8 << 20);
    let len = std::fs::metadata(folder.join("vol/device-00.pantile")).expect("a device").len();
    let blank = |name: &str| std::fs::File::create(folder.join(name)).and_then(|file| file.set_len(len));
    at(folder, "rebuild vol --throttle 4K");
    for (device, new) in [(1, "a"), (3, "b")] {
        ok(folder, &format!("fail vol {device}"));
        blank(new).expect("a file");
    }
    ok(folder, "replace vol 1 a 3 b");
    std::fs::rename(folder.join("vol/device-00.pantile"), folder.join("away")).expect("it is away");
    blank("c").expect("a file");
    let status = at(folder, "status vol");
    assert!(status.stdout.contains("Next: bring device 0 back"), "{}", status.stdout);
    assert_fault(&at(folder, "replace vol 0 c"), 2, &["bring device 0 back", "--yes"], "replace");
    std::fs::rename(folder.join("away"), folder.join("vol/device-00.pantile")).expect("it is back");
    at(folder, "rebuild vol --throttle 0");
    ok(folder, "rebuild vol --wait");
    let status = json_of(folder, "status vol");
    assert_eq!((&status["margin"]["any_more"], &status["ranges"]), (&2.into(), &serde_json::json!([])));
}

#[test]
fn a_volume_that_cannot_be_opened_takes_moved_devices_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    ok(folder, "create vol --size 1M");
    for device in 0..4 {
        let name = format!("vol/device-0{device}.pantile");
        std::fs::rename(folder.join(name), folder.join(format!("moved{device}"))).expect("a device");
    }
    std::fs::File::create(folder.join("blank")).and_then(|f| f.set_len(32 << 20)).expect("a file");
    assert_fault(&at(folder, "replace vol 0 blank --yes"), 2, &["holds nothing of this volume"], "replace");
    assert_fault(&at(folder, "replace vol 0 moved1"), 2, &["is device 1, not device 0"], "replace");
    let run = at(folder, "replace vol 2 moved2");
    let told = run.stdout;
    assert_eq!(run.status, 1, "one more is needed: {told}");
    assert!(told.contains("device 2 again") && told.contains("bring back 1 more"), "{told}");
    assert!(ok(folder, "replace vol 0 moved0").contains("can be opened again"));
    assert_eq!(json_of(folder, "status vol")["margin"]["lost"], serde_json::json!([1, 3]));
    for device in [1, 3] {
        ok(folder, &format!("replace vol {device} moved{device}"));
    }
    ok(folder, "rebuild vol");
    ok(folder, "status vol");
}

#[test]
fn a_spare_is_given_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    ok(folder, "create vol --size 1M");
    let refused = at(folder, "remove-spare vol spare");
    assert_fault(&refused, 2, &["no spare of the volume", "it has none"], "remove-spare");
    for name in ["spare", "gone"] {
        std::fs::File::create(folder.join(name)).and_then(|f| f.set_len(32 << 20)).expect("a file");
        ok(folder, &format!("add-spare vol {name}"));
    }
    for (arguments, says) in [
        ("replace vol 0 vol/device-00.pantile", "is device 0 of this volume"),
        ("replace vol 0 vol/device-01.pantile", "is device 1 of this volume"),
        ("add-spare vol vol/device-01.pantile", "is device 1 of this volume"),
        ("add-spare vol spare", "is a spare of this volume"),
        ("replace vol 0 spare", "is a spare of this volume"),
    ] {
        assert_fault(&at(folder, arguments), 2, &[says], arguments);
    }
    let refused = at(folder, "remove-spare vol vol/device-00.pantile");
    assert_fault(&refused, 2, &["no spare of the volume", "/spare, "], "remove-spare");
    // The same holds for a spare whose file is gone, and by another name of it.
    std::fs::remove_file(folder.join("gone")).expect("it is there");
    assert_eq!(json_of(folder, "remove-spare vol gone")["served"], false);
    std::os::unix::fs::symlink("spare", folder.join("link")).expect("a link");
    assert!(ok(folder, "remove-spare vol link").contains("no spare any more"));
    ok(folder, "fail vol 3");
    let status = json_of(folder, "status vol");
    assert_eq!((&status["spares"], &status["devices"][3]["state"]), (&serde_json::json!([]), &"lost".into()));
}

#[test]
fn the_margin_is_that_of_stripes_without_losses() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    ok(folder, "create vol --size 8M");
    write(folder, 7, 8 << 20);
    assert!(!ok(folder, "status vol").contains("other stripes"));
    spoil(folder, 3, 7);
    assert_eq!(at(folder, "scrub vol --repair").status, 2);
    let run = at(folder, "status vol");
    assert_eq!(run.status, 2, "{}", run.stdout);
    assert!(run.stdout.contains("3 cannot.\nThat is true of the other stripes only"), "{}", run.stdout);
}

#[test]
fn devices_of_another_process_are_said_to_be_in_use() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    ok(folder, "create vol --size 1M --code mirror:2");
    ok(folder, "assemble vol/device-00.pantile vol/device-01.pantile --into again");
    let used = [0, 1].map(|device| {
        let file =
            std::fs::File::open(folder.join(format!("vol/device-0{device}.pantile"))).expect("a device");
        file.lock().expect("a lock");
        file
    });
    unopened(folder, "again", &["in use"], &[("lost", "in use"), ("lost", "in use")]);
    let arguments = "assemble vol/device-00.pantile vol/device-01.pantile --into new";
    assert_fault(&at(folder, arguments), 2, &["in use"], arguments);
    drop(used);
    ok(folder, "status again");
}

#[test]
fn too_many_losses_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    ok(folder, "create vol --size 1M");
    for device in 0..3 {
        std::fs::remove_file(folder.join(format!("vol/device-0{device}.pantile"))).expect("a device");
    }
    let (gone, here) = (("lost", "device-0"), ("present", ""));
    unopened(folder, "vol", &["3 devices are there, 4 are needed"], &[gone, gone, gone, here, here, here]);
    for (name, from) in [("device-00", "other/device-00.pantile"), ("device-01", "vol/device-03.pantile")] {
        ok(folder, &format!("create other --size 1M --code mirror:2 --name {name}"));
        std::fs::copy(folder.join(from), folder.join(format!("vol/{name}.pantile"))).expect("a copy");
        std::fs::remove_dir_all(folder.join("other")).expect("it is there");
    }
    let (other, twice) =
        (("lost", "belongs to the volume 'device-00'"), ("lost", "says that it is device 3"));
    unopened(folder, "vol", &["3 devices are there, 4 are needed"], &[other, twice, gone, here, here, here]);
    for device in 0..6 {
        let _ = std::fs::remove_file(folder.join(format!("vol/device-0{device}.pantile")));
    }
    unopened(folder, "vol", &["none of the devices"], &[gone; 6]);
}

#[test]
fn devices_removed_beyond_the_tolerance_come_back_by_assembling() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    ok(folder, "create vol --size 1M --code raid5:2");
    ok(folder, "fail vol 0");
    at(folder, "fail vol 1 --yes");
    let out = |device: u32| {
        format!("declared failed; 'pantile replace vol {device} vol/device-0{device}.pantile' brings it back")
    };
    let (first, second) = (out(0), out(1));
    let devices = [("lost", first.as_str()), ("lost", &second), ("present", "")];
    unopened(folder, "vol", &["bring back 1 more", "pantile assemble"], &devices);
    let run =
        at(folder, "assemble vol/device-00.pantile vol/device-01.pantile vol/device-02.pantile --into again");
    assert_eq!(run.status, 1, "{}{}", run.stdout, run.stderr);
    ok(folder, "rebuild again");
    ok(folder, "status again");
}

#[test]
fn a_folder_too_deep_for_a_socket_is_a_volume_all_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let deep = "d".repeat(120);
    ok(folder, &format!("create {deep} --size 1M --code mirror:2"));
    ok(folder, &format!("status {deep}"));
    let run = at(folder, &format!("serve {deep} --socket short.sock"));
    assert_fault(&run, 2, &["107 bytes", "shorter"], "serve");
}

/// Erases the three copies of the superblock on each of the first devices.
fn without_superblocks(folder: &Path, devices: u32) {
    for device in 0..devices {
        let path = folder.join(format!("vol/device-0{device}.pantile"));
        let mut bytes = std::fs::read(&path).expect("a device");
        let last = bytes.len() - 4096;
        bytes[..8192].fill(0);
        bytes[last..].fill(0);
        std::fs::write(&path, &bytes).expect("it lies");
    }
}

fn bytes_of_all(folder: &Path) -> Vec<Vec<u8>> {
    (0..6)
        .map(|device| std::fs::read(folder.join(format!("vol/device-0{device}.pantile"))).expect("a device"))
        .collect()
}

fn holds(folder: &Path, vol: &str, holds: u8, len: usize) -> bool {
    let folder = pantile_host::Folder::open(&folder.join(vol)).expect("a folder");
    let service = pantile_host::Service::start(folder, None).expect("it opens");
    let mut found = vec![0; len];
    service.handle().read(0, &mut found).expect("it reads");
    service.stop().expect("it stops");
    found.iter().all(|&byte| byte == holds)
}

#[test]
fn a_volume_whose_superblocks_are_gone_is_found_by_its_stripes() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    ok(folder, "create vol --size 8M --code raid6:4");
    write(folder, 5, 8 << 20);
    without_superblocks(folder, 5);
    let devices: Vec<String> = (0..6).map(|device| format!("vol/device-0{device}.pantile")).collect();
    let devices = devices.join(" ");
    let before = bytes_of_all(folder);
    let plain = at(folder, &format!("assemble {devices} --into again"));
    assert!(plain.stdout.contains("1 of 6 devices") && plain.stdout.contains("too few"), "{}", plain.stdout);
    std::fs::remove_dir_all(folder.join("again")).expect("a folder");
    let dry = at(folder, &format!("assemble {devices} --into again --scan-stripes"));
    assert_eq!(dry.status, 1, "{}{}", dry.stdout, dry.stderr);
    assert!(
        dry.stdout.contains("Nothing was written") && dry.stdout.contains("5 superblocks are rebuilt"),
        "{}",
        dry.stdout
    );
    assert!(before == bytes_of_all(folder) && !folder.join("again").exists());
    let json = json_of(folder, &format!("assemble {devices} --into again --scan-stripes"));
    assert_eq!((json["maps_lost"].as_bool(), json["written"].as_bool()), (Some(false), Some(false)));
    let done = ok(folder, &format!("assemble {devices} --into again --scan-stripes --yes"));
    assert!(done.contains("6 of 6 devices"), "{done}");
    assert!(holds(folder, "again", 5, 8 << 20));
    assert_eq!(json_of(folder, "status again")["verdict"], "clean");
}

#[test]
fn maps_lost_on_all_devices_are_rebuilt_from_the_stripes() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    ok(folder, "create vol --size 8M --code raid6:4");
    write(folder, 5, 8 << 20);
    without_superblocks(folder, 5);
    for device in 0..6 {
        let path = folder.join(format!("vol/device-0{device}.pantile"));
        let mut bytes = std::fs::read(&path).expect("a device");
        // Everything before the first chunk except the superblocks: journal, snapshots, log.
        let chunk = bytes.chunks(4096).position(|block| block.starts_with(b"PANTCHNK")).expect("a chunk");
        bytes[8192..4096 * chunk].fill(0);
        std::fs::write(&path, &bytes).expect("it lies");
    }
    let devices: Vec<String> = (0..6).map(|device| format!("vol/device-0{device}.pantile")).collect();
    let devices = devices.join(" ");
    let dry = at(folder, &format!("assemble {devices} --into again --scan-stripes"));
    assert_eq!(dry.status, 1, "{}{}", dry.stdout, dry.stderr);
    for says in ["The maps cannot be read", "only in the log are lost", "Nothing was written"] {
        assert!(dry.stdout.contains(says), "{}", dry.stdout);
    }
    ok(folder, &format!("assemble {devices} --into again --scan-stripes --yes"));
    assert!(holds(folder, "again", 5, 8 << 20));
    assert!(ok(folder, "scrub again").contains("clean"));
}

/// An attacker who made the folder of a volume also answers at its control socket.
#[test]
fn a_terminal_obeys_nothing_that_a_strangers_server_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    ok(folder, "create vol --size 1M --code mirror:2");
    let mut status = json_of(folder, "status vol");
    let strange = "\u{1b}[31m\u{1b}]0;owned\u{7}\u{9b}2J";
    for name in ["name", "code", "placement"] {
        status[name] = strange.into();
    }
    status["answer"] = "status".into();
    status["events"] = serde_json::json!([{ "at": 5, "text": strange, "device": null }]);
    status["epochs"] = serde_json::json!([{
        "epoch": 1, "offset": 0, "len_bytes": 1, "state": strange, "stripes": 1, "owed_stripes": 1, "owed_bytes": 1,
        "owed_bytes_max": 1, "oldest_s": null, "idle_s": 0, "idle_max_s": null, "on_timeout": "abort", "wasted_stripes": 0, "lost": []
    }]);
    let done = serde_json::json!({ "answer": "done", "text": strange });
    let socket = UnixListener::bind(folder.join("vol/control.sock")).expect("it listens");
    // The thread runs until the test ends; each line of a connection is an order.
    std::thread::spawn(move || {
        for connection in socket.incoming() {
            let Ok(mut answers) = connection else { return };
            let Ok(orders) = answers.try_clone() else { return };
            for order in BufReader::new(orders).lines().map_while(Result::ok) {
                let answer = if order.contains("\"status\"") { &status } else { &done };
                let _ = writeln!(answers, "{answer}");
            }
        }
    });
    for arguments in
        ["status vol", "status vol --events", "delayed status vol", "delayed end vol 1", "fail vol 0"]
    {
        let run = at(folder, &format!("--color never {arguments}"));
        let said = run.stdout + &run.stderr;
        assert!(said.contains("\\u{1b}]0;owned\\u{7}"), "{arguments}: {said:?}");
        assert!(!said.contains(['\u{1b}', '\u{7}', '\u{9b}']), "{arguments}: {said:?}");
    }
    let json = at(folder, "status vol --json").stdout;
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["code"], strange, "programs have it as it is");
}

/// Each byte of the answer arrives soon, but the line never ends.
#[test]
fn ctrl_c_ends_the_wait_for_a_server_whose_answer_drips() {
    use std::process::Command;
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    ok(folder, "create vol --size 1M --code mirror:2");
    let mut status = json_of(folder, "status vol");
    status["answer"] = "status".into();
    status["devices"][0]["state"] = "rebuilding".into();
    let done = serde_json::json!({ "answer": "done", "text": "begun" });
    let socket = UnixListener::bind(folder.join("vol/control.sock")).expect("it listens");
    let (told, drips) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // The orders are status, the requested order, and status again.
        for (connection, answer) in socket.incoming().zip([Some(&status), Some(&done), Some(&status), None]) {
            let Ok(mut connection) = connection else { return };
            let _ = BufReader::new(&connection).read_line(&mut String::new());
            if let Some(answer) = answer {
                let _ = writeln!(connection, "{answer}");
                continue;
            }
            let _ = told.send(());
            while connection.write_all(b" ").is_ok() {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
    });
    let child = begun_in(folder, "rebuild vol --wait");
    drips.recv_timeout(std::time::Duration::from_secs(60)).expect("it is asked how it is");
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.is_ok_and(|sent| sent.success()), "still at work");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
}
