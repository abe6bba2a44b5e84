//! Files of any length, content or kind, as a device, a spare or in a volume's folder, cause no
//! panic and no hang, and do not lose another device. Each try runs in a separate process, for at
//! most five seconds.

use crate::common::*;
use std::io::Read;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(5);

/// A volume of raid6:4 whose device 1 is replaced by a file of any kind.
const VICTIM: &str = "vol/device-01.pantile";

fn run(folder: &Path, arguments: &str) -> Run {
    let mut child = begun_in(folder, arguments);
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        if begun.elapsed() > PATIENCE {
            child.kill().expect("it is still there");
            panic!("{arguments}: no answer within 5 s");
        }
        std::thread::sleep(Duration::from_millis(3));
    };
    let (mut stdout, mut stderr) = (String::new(), String::new());
    child.stdout.take().expect("a pipe").read_to_string(&mut stdout).expect("answers are UTF-8");
    child.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("faults are UTF-8");
    Run { status: status.code().unwrap_or(-1), stdout, stderr }
}

/// Runs a command, which may refuse and must not panic.
fn answered(folder: &Path, arguments: &str, what: &str) -> Run {
    let run = run(folder, arguments);
    assert!((0..=3).contains(&run.status), "{what}: {arguments}: status {}\n{}", run.status, run.stderr);
    assert!(!run.stderr.contains("panicked"), "{what}: {arguments}: {}", run.stderr);
    run
}

/// A name for messages, and a function that makes the file.
type Thing = (String, Box<dyn Fn(&Path)>);

fn file(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).expect("a file");
}

fn node(path: &Path, arguments: &[&str]) {
    // Without permission to make a node, the test continues without the file.
    let _ = Command::new("mknod").arg(path).args(arguments).stderr(Stdio::null()).status();
}

/// Returns files of many lengths: zeros, text, and the beginning of a member.
fn lengths(member: &[u8]) -> Vec<Thing> {
    let mut lengths: Vec<usize> =
        vec![0, 1, 511, 512, 513, 2000, 4095, 4096, 4097, 8191, 8192, 12288, 65535, 65536];
    let mut seed = 39_u64;
    for _ in 0..6 {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        lengths.push((seed >> 33) as usize % 65537);
    }
    let mut things: Vec<Thing> = Vec::new();
    for (n, len) in lengths.into_iter().enumerate() {
        let content = match n % 3 {
            0 => member[..len].to_vec(),
            1 => vec![0; len],
            _ => b"root:x:0:0:root:/root:/bin/bash\n".iter().copied().cycle().take(len).collect(),
        };
        things.push((format!("{len} bytes"), Box::new(move |path| file(path, &content))));
    }
    for extra in [1, 512, 5000, 1 << 20] {
        let mut longer = member.to_vec();
        longer.resize(member.len() + extra, 0x5a);
        things.push((format!("{extra} bytes more"), Box::new(move |path| file(path, &longer))));
    }
    let mut torn = member.to_vec();
    torn[..64 << 10].fill(0xff);
    torn.truncate(member.len() / 2 + 700);
    things.push(("half a member without a front".into(), Box::new(move |path| file(path, &torn))));
    things
}

fn kinds() -> Vec<Thing> {
    let mut things: Vec<Thing> = vec![
        ("nothing".into(), Box::new(|_: &Path| {})),
        ("a folder".into(), Box::new(|path: &Path| std::fs::create_dir(path).expect("a folder"))),
        ("a socket".into(), Box::new(|path: &Path| drop(UnixListener::bind(path).expect("a socket")))),
        ("a pipe".into(), Box::new(|path: &Path| node(path, &["p"]))),
        (
            "a link to itself".into(),
            Box::new(|path: &Path| std::os::unix::fs::symlink(path, path).expect("a link")),
        ),
        (
            "a link to nothing".into(),
            Box::new(|path: &Path| std::os::unix::fs::symlink("nowhere", path).expect("a link")),
        ),
    ];
    // The devices null, zero, full, tty and random; a loop device without a file, and a disk
    // without a driver.
    for (kind, major, minor) in [
        ("c", "1", "3"),
        ("c", "1", "5"),
        ("c", "1", "7"),
        ("c", "5", "0"),
        ("c", "1", "8"),
        ("b", "7", "199"),
        ("b", "211", "9"),
    ] {
        let make = move |path: &Path| node(path, &[kind, major, minor]);
        things.push((format!("node {kind} {major} {minor}"), Box::new(make)));
    }
    things
}

fn remove(path: &Path) {
    let Ok(found) = std::fs::symlink_metadata(path) else { return };
    let removed = if found.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    removed.expect("it can be removed");
}

#[test]
fn a_volume_opens_without_a_member_that_is_anything_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    assert_eq!(run(folder, "create vol --size 1M --code raid6:4").status, 0);
    let victim = folder.join(VICTIM);
    let member = std::fs::read(&victim).expect("a device");
    let devices: Vec<String> = (0..6).map(|slot| format!("vol/device-0{slot}.pantile")).collect();
    let assemble = format!("assemble --into again {}", devices.join(" "));
    for (what, make) in lengths(&member).into_iter().chain(kinds()) {
        remove(&victim);
        make(&victim);
        let status = answered(folder, "status vol", &what);
        assert!(status.stdout.contains("present"), "{what}: the others are here\n{}", status.stdout);
        assert_ne!(status.status, 2, "{what}: {}{}", status.stdout, status.stderr);
        answered(folder, &assemble, &what);
        remove(&folder.join("again"));
        // This command opens the file for writing.
        let rebuilt = answered(folder, "rebuild vol", &what);
        assert_ne!(rebuilt.status, 2, "{what}: {}{}", rebuilt.stdout, rebuilt.stderr);
    }
    remove(&victim);
    file(&victim, &member);
    assert_eq!(run(folder, "rebuild vol").status, 0);
}

#[test]
fn any_file_as_device_or_spare_is_taken_or_refused_in_one_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    assert_eq!(run(folder, "create vol --size 1M --code raid6:4").status, 0);
    let member = std::fs::read(folder.join(VICTIM)).expect("a device");
    let conf = std::fs::read_to_string(folder.join("vol/volume.conf")).expect("lines");
    let given = folder.join("given");
    std::fs::File::create(folder.join("fine")).and_then(|file| file.set_len(32 << 20)).expect("a file");
    for (what, make) in lengths(&member[..1 << 20]).into_iter().chain(kinds()) {
        remove(&given);
        make(&given);
        let refusals = ["replace vol 0 given", "replace vol 0 given --yes", "add-spare vol given --yes"];
        for (nth, arguments) in refusals.into_iter().chain(["create new --devices given fine"]).enumerate() {
            // There are too many combinations for every run, so half of them are skipped.
            if what.contains("bytes") && nth % 2 == 1 && what.len() % 2 == 0 {
                continue;
            }
            let run = answered(folder, arguments, &what);
            assert_fault(&run, run.status.clamp(2, 3), &[], &format!("{what}: {arguments}"));
        }
        assert!(!folder.join("new").exists(), "{what}");
        file(&folder.join("vol/volume.conf"), format!("{conf}spare ../given\n").as_bytes());
        let status = answered(folder, "status vol", &what);
        assert!(
            status.stdout.contains("spare ../given will not take the place"),
            "{what}: {}",
            status.stdout
        );
        file(&folder.join("vol/volume.conf"), conf.as_bytes());
    }
    assert_eq!(run(folder, "status vol").status, 0, "nothing was taken out");
}

#[test]
fn no_file_in_the_folder_makes_a_command_hang() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    assert_eq!(run(folder, "create vol --size 1M --code raid6:4").status, 0);
    let conf = std::fs::read_to_string(folder.join("vol/volume.conf")).expect("lines");
    for name in ["serve.log", "control.sock", "nbd.sock", "lock", "volume.conf"] {
        for (what, make) in kinds() {
            let path = folder.join("vol").join(name);
            remove(&path);
            make(&path);
            for arguments in ["status vol", "stop vol"] {
                answered(folder, arguments, &format!("{what} as {name}"));
            }
            remove(&path);
            if name == "volume.conf" {
                file(&path, conf.as_bytes());
            }
        }
    }
    assert_eq!(run(folder, "status vol").status, 0);
}

#[test]
fn a_file_that_vanishes_while_it_is_opened_is_one_that_is_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    assert_eq!(run(folder, "create vol --size 1M --code raid6:4").status, 0);
    let (there, away, stop) = (folder.join(VICTIM), folder.join("away"), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::fs::rename(&there, &away).expect("it is here");
                std::thread::yield_now();
                std::fs::rename(&away, &there).expect("it is there");
            }
        });
        for arguments in ["status vol", "rebuild vol", "scrub vol", "status vol"].iter().cycle().take(12) {
            let run = run(folder, arguments);
            let is_right = (0..=1).contains(&run.status) && !run.stderr.contains("panicked");
            // The other thread ends with a failure, too.
            stop.store(!is_right, Ordering::Relaxed);
            assert!(is_right, "{arguments}: {}{}", run.stdout, run.stderr);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(run(folder, "rebuild vol").status, 0);
}
