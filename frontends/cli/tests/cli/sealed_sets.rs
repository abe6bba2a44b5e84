//! A file goes through seal, verify, heal and unseal, with faults in between.

use crate::common::*;
use serde_json::{Value, json as value};
use std::fs;
use std::path::{Path, PathBuf};

/// A directory with a small tree to protect.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { directory: tempfile::tempdir().expect("a directory") };
        fs::create_dir_all(place.path("photos/2026")).expect("made");
        fs::write(place.path("photos/a.raw"), painted(100_000, 1)).expect("written");
        fs::write(place.path("photos/2026/b.raw"), painted(33_333, 2)).expect("written");
        fs::write(place.path("photos/empty"), b"").expect("written");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> Run {
        pantile_in(self.directory.path(), arguments)
    }

    fn json(&self, status: i32, arguments: &[&str]) -> Value {
        let run = self.run(arguments);
        assert_eq!(run.status, status, "{arguments:?}: {}{}", run.stdout, run.stderr);
        serde_json::from_str(&run.stdout).unwrap_or_else(|e| panic!("{arguments:?}: {e}\n{}", run.stdout))
    }

    fn seal(&self, code: &str) -> Value {
        self.json(0, &["seal", "photos", "--code", code, "--out", "shards", "--block", "4K", "--json"])
    }

    /// The shards, by column.
    fn shards(&self) -> Vec<PathBuf> {
        let info = self.json(0, &["info", "shards", "--json"]);
        let shards = info["shards"].as_array().expect("shards").clone();
        shards.iter().map(|s| self.path(s["path"].as_str().expect("a path"))).collect()
    }

    fn assert_same_tree(&self, restored: &str) {
        for name in ["a.raw", "2026/b.raw", "empty"] {
            let original = fs::read(self.path("photos").join(name)).expect("there");
            assert_eq!(fs::read(self.path(restored).join(name)).expect("restored"), original, "{name}");
        }
    }
}

/// Returns bytes with period 251, never only zeros.
fn painted(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| ((i * 7 + seed * 13) % 251) as u8).collect()
}

/// Changes bytes in the middle of a file, and keeps its mtime.
fn spoil(path: &Path, from: usize) {
    let mut bytes = fs::read(path).expect("there");
    // The offset is behind the two copies of the header. The metadata at the end of the file have
    // copies too.
    let at = 8192 + from;
    // Enough bytes for a proof by the equations alone.
    bytes[at..].iter_mut().take(8).for_each(|byte| *byte ^= 0x5a);
    fs::write(path, bytes).expect("written");
}

#[test]
fn a_tree_comes_back_from_any_sufficient_shards() {
    let place = Place::new();
    let report = place.seal("rs:4+2");
    assert_eq!((&report["output_version"], &report["code"]), (&value!(1), &value!("rs:4+2")));
    assert_eq!(
        (&report["files"], &report["file_bytes"], &report["first_time"]),
        (&value!(3), &value!(133_333), &value!(true))
    );
    let shards = place.shards();
    assert_eq!(shards.len(), 6);
    assert_eq!(place.run(&["verify", "shards"]).status, 0);
    let enough: Vec<&str> = shards[1..5].iter().filter_map(|s| s.to_str()).collect();
    let arguments = [&["unseal"][..], &enough, &["--to", "restored"]].concat();
    let run = place.run(&arguments);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert!(run.stdout.contains("Restored 3 files"), "{}", run.stdout);
    place.assert_same_tree("restored");
}

#[test]
fn too_few_open_files_are_said_and_are_no_verdict() {
    let place = Place::new();
    place.seal("rs:60+20");
    let limited = |most: u32, command: &str| {
        let text = format!("ulimit -n {most}; exec \"$0\" {command} shards");
        let run = std::process::Command::new("sh")
            .args(["-c", &text, env!("CARGO_BIN_EXE_pantile")])
            .current_dir(place.path("."))
            .output()
            .expect("a shell");
        (run.status.code(), String::from_utf8_lossy(&run.stderr).into_owned())
    };
    for command in ["verify", "heal"] {
        let (status, error) = limited(64, command);
        assert_eq!(status, Some(3), "{error}");
        assert!(error.contains("may have 64") && error.contains("ulimit -n"), "{error}");
    }
    // The command raises a soft limit.
    assert_eq!(limited(1024, "verify").0, Some(0));
}

#[test]
fn damage_is_found_and_healed() {
    let place = Place::new();
    place.seal("rs:4+2");
    let shards = place.shards();
    spoil(&shards[2], 3000);
    fs::remove_file(&shards[5]).expect("removed");
    let report = place.json(1, &["verify", "shards", "--json"]);
    assert_eq!((&report["clean"], &report["recoverable"]), (&value!(false), &value!(true)));
    let text = place.run(&["verify", "shards"]);
    assert!(
        text.status == 1 && text.stdout.contains("missing") && text.stdout.contains("pantile heal"),
        "{}",
        text.stdout
    );
    let before = fs::read(&shards[2]).expect("there");
    let rehearsal = place.run(&["heal", "shards", "--dry-run"]);
    assert!(rehearsal.status == 1 && rehearsal.stdout.contains("Nothing was healed"), "{}", rehearsal.stdout);
    assert!(
        fs::read(&shards[2]).expect("there") == before && !shards[5].exists(),
        "a rehearsal writes nothing"
    );
    let healed = place.json(0, &["heal", "shards", "--json"]);
    assert_eq!(healed["blocks_left"], 0);
    assert!(healed["blocks_repaired"].as_u64() > Some(0), "{healed}");
    assert_eq!(place.run(&["verify", "shards"]).status, 0);
    assert!(place.run(&["heal", "shards"]).stdout.contains("nothing to repair"));
}

#[test]
fn silent_damage_is_located_without_checksums() {
    let place = Place::new();
    place.seal("rs:4+2");
    spoil(&place.shards()[3], 3000);
    let report = place.json(1, &["verify", "shards", "--ignore-checksums", "--json"]);
    assert_eq!(report["by_checksums"], false);
    assert_eq!(report["findings"][0]["verdict"]["is"], "located");
    assert_eq!(report["findings"][0]["verdict"]["columns"], value!([3]));
    assert!(place.run(&["verify", "shards", "--ignore-checksums"]).stdout.contains("column 3 is wrong"));
}

#[test]
fn losses_beyond_the_tolerance_are_refused() {
    let place = Place::new();
    place.seal("rs:4+2");
    for shard in &place.shards()[..3] {
        fs::remove_file(shard).expect("removed");
    }
    for arguments in [
        &["verify", "shards"][..],
        &["heal", "shards"],
        &["heal", "shards", "--dry-run"],
        &["unseal", "shards", "--to", "restored"],
    ] {
        let run = place.run(arguments);
        assert_eq!(run.status, 2, "{arguments:?}: {}{}", run.stdout, run.stderr);
        assert!(
            run.stderr.lines().last().is_some_and(|l| l.contains("bring back any 1")),
            "{arguments:?}: {}",
            run.stderr
        );
        assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    }
}

#[test]
fn an_update_reads_only_what_changed() {
    let place = Place::new();
    place.seal("rdp:6");
    fs::write(place.path("photos/new.txt"), b"hello").expect("written");
    let report = place.json(0, &["seal", "photos", "--out", "shards", "--json"]);
    assert_eq!(
        (&report["first_time"], &report["added"], &report["unchanged"]),
        (&value!(false), &value!(1), &value!(3))
    );
    // Only the bytes of the new file are read.
    assert_eq!(report["source_bytes_read"], 5, "{report}");
    assert_eq!(place.run(&["unseal", "shards", "--to", "restored"]).status, 0);
    assert_eq!(fs::read(place.path("restored/new.txt")).expect("restored"), b"hello");
    assert!(place.run(&["seal", "photos", "--out", "shards"]).stdout.contains("0 paths added"));
}

#[test]
fn beside_keeps_parity_only() {
    let place = Place::new();
    let arguments =
        ["seal", "photos", "--code", "raid6:4", "--out", "parity", "--beside", "--block", "4K", "--json"];
    let report = place.json(0, &arguments);
    assert_eq!(report["shards"].as_array().map(Vec::len), Some(2));
    let info = place.run(&["info", "parity"]);
    assert!(info.status == 0 && info.stdout.contains("parity only"), "{}", info.stdout);
    assert_eq!(place.run(&["verify", "parity"]).status, 0);
}

#[test]
fn progress_away_from_a_terminal_is_a_line_per_phase() {
    let place = Place::new();
    let run = place.run(&["seal", "photos", "--code", "rs:4+2", "--out", "shards"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert!(
        run.stderr.lines().count() <= 20 && !run.stderr.contains('\r') && !run.stderr.contains('\x1b'),
        "{}",
        run.stderr
    );
    assert!(run.stdout.contains("shards     6"), "{}", run.stdout);
}

#[test]
fn names_with_control_characters_are_shown_as_escapes() {
    let place = Place::new();
    fs::write(place.path("photos/evil\n\x1b[2Jname"), painted(9000, 5)).expect("written");
    for arguments in [&["--beside"][..], &[]] {
        let out = if arguments.is_empty() { "full" } else { "beside" };
        let seal = [&["seal", "photos", "--code", "rs:4+2", "--out", out], arguments].concat();
        assert_eq!(place.run(&seal).status, 0);
        fs::remove_file(place.path("photos/evil\n\x1b[2Jname")).expect("removed");
        for command in ["verify", "heal"] {
            let run = place.run(&[command, out]);
            assert!(!run.stdout.contains('\x1b') && !run.stderr.contains('\x1b'), "{}", run.stdout);
            assert!(run.stdout.contains("evil\\n\\u{1b}[2Jname") || command == "heal", "{}", run.stdout);
        }
        fs::write(place.path("photos/evil\n\x1b[2Jname"), painted(9000, 5)).expect("written");
    }
}

#[test]
fn a_touched_file_beside_its_parity_says_seal_and_not_heal() {
    let place = Place::new();
    fs::write(place.path("photos/c.raw"), painted(50_000, 4)).expect("written");
    let seal = ["seal", "photos", "--code", "rs:4+2", "--out", "parity", "--beside", "--block", "4K"];
    assert_eq!(place.run(&seal).status, 0);
    fs::write(place.path("photos/c.raw"), painted(50_000, 6)).expect("written");
    for (status, arguments) in
        [(1, &["verify", "parity"][..]), (0, &["heal", "parity", "--dry-run"]), (0, &["heal", "parity"])]
    {
        let run = place.run(arguments);
        assert_eq!(run.status, status, "{arguments:?}: {}{}", run.stdout, run.stderr);
        assert!(run.stdout.contains("run 'pantile seal "), "{arguments:?}: {}", run.stdout);
        assert!(
            !run.stdout.contains("pantile heal") && !run.stdout.contains("whole again"),
            "{}",
            run.stdout
        );
    }
    assert_eq!(place.run(&["seal", "photos", "--out", "parity"]).status, 0);
    assert_eq!(place.run(&["verify", "parity"]).status, 0);
}

#[test]
fn unrestored_files_are_listed_and_the_status_says_so() {
    let place = Place::new();
    place.seal("rs:4+2");
    fs::create_dir_all(place.path("restored")).expect("made");
    fs::write(place.path("restored/a.raw"), painted(100_000, 9)).expect("written");
    let run = place.run(&["unseal", "shards", "--to", "restored"]);
    assert_eq!(run.status, 2, "{}", run.stderr);
    assert!(
        run.stdout.contains("Not restored: a.raw") && run.stdout.contains("Restored 2 files"),
        "{}",
        run.stdout
    );
    let report = place.json(2, &["unseal", "shards", "--to", "restored", "--json"]);
    assert_eq!((&report["not_restored_count"], &report["already_there"]), (&value!(1), &value!(2)));
    // A directory is not overwritten, and the message does not propose the option that was already
    // given.
    fs::remove_file(place.path("restored/a.raw")).expect("removed");
    fs::create_dir(place.path("restored/a.raw")).expect("made");
    let run = place.run(&["unseal", "shards", "--to", "restored", "--overwrite"]);
    assert_eq!(run.status, 2, "{}", run.stderr);
    assert!(run.stderr.contains("a.raw is in the way") && !run.stderr.contains("ask to"), "{}", run.stderr);
    // Without checksums, and with one parity, the wrong block cannot be located.
    let seal = [
        "seal",
        "photos",
        "--code",
        "raid5:3",
        "--out",
        "plain",
        "--no-checksums",
        "--block",
        "4K",
        "--json",
    ];
    let report = place.json(0, &seal);
    spoil(Path::new(report["shards"][0].as_str().expect("a path")), 20_000);
    let run = place.run(&["unseal", "plain", "--to", "other"]);
    assert_eq!(run.status, 2, "{}{}", run.stdout, run.stderr);
    assert!(run.stderr.contains("cannot be restored with certainty"), "{}", run.stderr);
}

#[test]
fn misnamed_shards_are_reported_and_renamed() {
    let place = Place::new();
    place.seal("rs:4+2");
    let shards = place.shards();
    let copy = place.path("shards/photos.03 (copy).shard");
    fs::copy(&shards[3], &copy).expect("copied");
    let run = place.run(&["verify", "shards"]);
    assert!(
        run.status == 0
            && run.stdout.contains("photos.03 (copy).shard is superfluous: a copy of the shard of column 3"),
        "{}",
        run.stdout
    );
    fs::remove_file(&copy).expect("removed");
    fs::rename(&shards[0], &copy).expect("renamed");
    fs::rename(&shards[1], &shards[0]).expect("renamed");
    fs::rename(&copy, &shards[1]).expect("renamed");
    let run = place.run(&["verify", "shards"]);
    assert!(run.status == 1 && run.stdout.contains("good, but under a wrong name"), "{}", run.stdout);
    assert!(
        run.stdout
            .contains("nothing is damaged, but shards have the names of others: run 'pantile heal shards'"),
        "{}",
        run.stdout
    );
    let run = place.run(&["heal", "shards"]);
    assert!(run.status == 0 && run.stdout.matches("  renamed    ").count() == 2, "{}", run.stdout);
    // A shard of another set is in the place of one of this set: it is kept, and its new path is
    // reported.
    let other = place.json(0, &["seal", "photos", "--code", "rs:4+2", "--out", "other", "--json"]);
    fs::copy(place.path("other/photos.02.shard"), &shards[2]).expect("copied");
    let aside = format!("aside to {}.of-{}", shards[2].display(), other["set"].as_str().expect("a UUID"));
    let run = place.run(&["heal", "shards"]);
    let shown = aside.replace(&format!("{}/", place.directory.path().display()), "");
    assert!(run.status == 0 && run.stdout.contains(&shown), "{shown}: {}", run.stdout);
    assert_eq!(place.run(&["verify", "shards"]).status, 0);
}

/// The text refers to JSON for the complete list.
#[test]
fn json_lists_everything_that_is_not_restored() {
    let place = Place::new();
    for i in 0..150 {
        fs::write(place.path(&format!("photos/{i}")), painted(5000, i)).expect("written");
    }
    place.seal("rs:4+2");
    for shard in &place.shards()[..3] {
        fs::remove_file(shard).expect("removed");
    }
    let report = place.json(2, &["unseal", "shards", "--to", "restored", "--json"]);
    let listed = report["not_restored"].as_array().expect("a list").len();
    assert!(listed > 100, "{listed}");
    assert_eq!(report["not_restored_count"], listed);
    let text = place.run(&["unseal", "shards", "--to", "restored"]).stdout;
    assert!(text.contains(&format!("... and {} more; --json lists them", listed - 30)), "{text}");
}

#[test]
fn sources_that_are_not_there_are_said() {
    let place = Place::new();
    place.seal("rs:4+2");
    let run = place.run(&["verify", "shards", "--disk", "photos=nosuch"]);
    assert!(run.status == 2 && run.stderr.contains("nosuch does not exist"), "{}{}", run.stdout, run.stderr);
    fs::rename(place.path("photos"), place.path("moved")).expect("renamed");
    let run = place.run(&["verify", "shards"]);
    assert!(run.status == 0 && run.stdout.contains("were not compared"), "{}", run.stdout);
    let run = place.run(&["verify", "shards", "--disk", "photos=moved"]);
    assert!(run.status == 0 && run.stdout.contains("3 original files as sealed"), "{}", run.stdout);
}

#[test]
fn an_impossible_set_is_status_2() {
    let place = Place::new();
    place.seal("rs:4+2");
    fs::write(place.path("file"), b"in the way").expect("written");
    fs::create_dir(place.path("nothing")).expect("made");
    fs::create_dir(place.path("other")).expect("made");
    fs::write(place.path("other/x"), b"other content").expect("written");
    assert_eq!(place.run(&["seal", "other", "--code", "rs:4+2", "--out", "shards2"]).status, 0);
    let first = place.shards()[0].to_str().expect("UTF-8").to_string();
    let second = place.json(0, &["info", "shards2", "--json"]);
    let second = second["shards"][1]["path"].as_str().expect("a path").to_string();
    let cases: &[(&[&str], &[&str])] = &[
        (&["seal", "photos", "--out", "new"], &["rs:10+4"]),
        (&["seal", "photos", "--code", "dcode:9,raw", "--out", "new"], &["studied", "dcode:9,raw"]),
        (&["seal", "nosuch", "--code", "rs:4+2", "--out", "new"], &["nosuch"]),
        (&["seal", "photos", "--code", "rs:4", "--out", "new"], &["rs:k+m"]),
        (
            &["seal", "photos", "--code", "rs:4+2", "--out", "new", "--block", "5000"],
            &["5000", "power of two"],
        ),
        (&["seal", "photos", "--code", "rs:4+2", "--out", "new", "--block", "2M"], &["1048576"]),
        (&["seal", "photos", "--code", "rs:4+2", "--out", "new", "--name", "a/b"], &["a/b"]),
        (&["seal", "photos", "--code", "rs:6+2", "--out", "shards"], &["rs:4+2", "rs:6+2"]),
        (&["seal", "photos", "--out", "shards", "--block", "8K"], &["8192"]),
        (&["seal", "photos", "photos", "--code", "rs:4+2", "--out", "new"], &["one name"]),
        (
            &["seal", "photos", "photos/2026", "--code", "rs:4+2", "--out", "new"],
            &["photos/2026 lies in photos"],
        ),
        (
            &["seal", "photos/2026", "photos", "--code", "rs:4+2", "--out", "new"],
            &["photos/2026 lies in photos"],
        ),
        (&["seal", "photos", "--code", "raid0:3", "--out", "new", "--beside"], &["no parity", "raid6:4"]),
        (&["verify", "nothing"], &["no shard"]),
        (&["verify", "nosuch"], &["nosuch"]),
        (&["info", "file"], &["file"]),
        (&["heal", "nothing"], &["no shard"]),
        (&["unseal", "nothing", "--to", "restored"], &["no shard"]),
        (&["verify", &first, &second], &["several sets"]),
    ];
    for (arguments, needles) in cases {
        let run = place.run(arguments);
        // A phase can begin before the fault; the fault is the last line.
        let last = run.stderr.lines().last().unwrap_or_default().to_string();
        assert_eq!(run.status, 2, "{arguments:?}: {}{}", run.stdout, run.stderr);
        assert!(last.starts_with("pantile: ") && last.ends_with(['.', '?']), "{arguments:?}: {last}");
        assert!(!run.stderr.contains("panicked"), "{arguments:?}: {}", run.stderr);
        for needle in *needles {
            assert!(last.contains(needle), "{arguments:?}: '{needle}' is missing in: {last}");
        }
    }
    assert!(!place.path("new").exists());
}

/// A refused `seal` removes everything that it made, and nothing else.
#[test]
fn a_refused_seal_leaves_no_folders() {
    let place = Place::new();
    fs::create_dir_all(place.path("there/empty")).expect("made");
    let huge = fs::File::create(place.path("huge")).expect("created");
    huge.set_len(1 << 42).expect("a file of holes");
    for (from, arguments) in [
        ("photos", &["--out", "new/a/b"][..]),
        ("photos", &["--out", "./new/a/"]),
        ("photos", &["--out", "new/../other/a"]),
        ("photos", &["--out", "there/empty/a/b"]),
        ("photos", &["--out", "there/empty"]),
        ("photos", &["--out", "new/a", "--code", "dcode:9,raw"]),
        ("huge", &["--out", "new/a", "--code", "rs:4+2"]),
        ("photos", &["--out", "file/a/b", "--code", "rs:4+2"]),
    ] {
        fs::write(place.path("file"), b"in the way").expect("written");
        let before = tree_of(place.directory.path());
        let run = place.run(&[&["seal", from][..], arguments].concat());
        assert_eq!(run.status, 2, "{arguments:?}: {}{}", run.stdout, run.stderr);
        assert_eq!(tree_of(place.directory.path()), before, "{arguments:?}: {}", run.stderr);
    }
}

/// Space for a file of holes is checked before checksums of its blocks are computed.
#[cfg(target_os = "linux")]
#[test]
fn a_file_of_holes_without_space_is_refused_in_little_memory() {
    let place = Place::new();
    assert_eq!(
        place.run(&["seal", "photos", "--code", "rs:4+2", "--out", "shards", "--block", "4K"]).status,
        0
    );
    let huge = fs::File::create(place.path("photos/huge")).expect("created");
    huge.set_len(1 << 42).expect("a file of holes");
    for arguments in
        ["--out shards", "--code rs:4+2 --block 4K --out new", "--code rs:4+2 --block 4K --out new --beside"]
    {
        let command =
            format!("ulimit -v 4000000; exec '{}' seal photos {arguments}", env!("CARGO_BIN_EXE_pantile"));
        let output = std::process::Command::new("bash")
            .args(["-c", &command])
            .current_dir(place.directory.path())
            .output()
            .expect("a shell");
        let fault = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(2), "{arguments}: {fault}");
        assert!(fault.contains("bytes free") || fault.contains("bytes of memory"), "{arguments}: {fault}");
        assert!(!place.path("new").exists());
    }
}

/// Returns every path below a directory.
fn tree_of(root: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(root).expect("a directory").flatten() {
        if entry.path().is_dir() {
            paths.extend(tree_of(&entry.path()));
        }
        paths.push(entry.path());
    }
    paths.sort();
    paths
}

#[test]
fn a_code_that_repairs_nothing_is_warned_of() {
    let place = Place::new();
    for (code, warning) in [
        ("raid0:3", Some("pantile: warning: raid0:3 has no parity: ")),
        ("slpg:4,1,2", Some("pantile: warning: slpg:4,1,2 does not survive every loss")),
        ("raid5:3", None),
    ] {
        let run = place.run(&["seal", "photos", "--code", code, "--out", code]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let said = run.stderr.lines().find(|line| line.contains("warning"));
        assert_eq!(
            said.map(|line| warning.is_some_and(|w| line.starts_with(w))),
            warning.map(|_| true),
            "{said:?}"
        );
    }
    let report = place.json(0, &["seal", "photos", "--out", "raid0:3", "--json"]);
    assert_eq!(report["tolerance"], 0);
}

/// Shards that cannot be read are still shards, for every command that is given their names.
#[test]
fn shards_that_cannot_be_read_are_not_said_to_be_missing() {
    let place = Place::new();
    place.seal("rs:4+2");
    for shard in place.shards() {
        fs::write(shard, b"").expect("emptied");
    }
    for arguments in [
        &["seal", "photos", "--out", "shards"][..],
        &["seal", "photos", "--out", "shards", "--code", "rs:4+2"],
        &["verify", "shards", "--name", "photos"],
        &["verify", "shards"],
    ] {
        let run = place.run(arguments);
        assert_eq!(run.status, 2, "{arguments:?}: {}{}", run.stdout, run.stderr);
        assert!(
            run.stderr.contains("no shard there can be used; the first"),
            "{arguments:?}: {}",
            run.stderr
        );
    }
    assert!(place.run(&["verify", "shards", "--name", "other"]).stderr.contains("there is no shard in"));
}

/// Each loss is counted once, by every command.
#[test]
fn unseal_counts_the_losses_as_verify_does() {
    let place = Place::new();
    place.seal("rs:4+2");
    for shard in &place.shards()[..3] {
        fs::remove_file(shard).expect("removed");
    }
    let verified = place.json(2, &["verify", "shards", "--json"])["losses"].clone();
    assert!(verified["stripes"].as_u64() > Some(1), "{verified}");
    let said = |run: Run| {
        let line = run.stderr.lines().last().unwrap_or_default().to_string();
        line.split("; bring back").next().unwrap_or_default().to_string()
    };
    assert_eq!(
        said(place.run(&["unseal", "shards", "--to", "restored"])),
        said(place.run(&["verify", "shards"]))
    );
}

#[test]
fn an_out_that_is_a_file_is_refused() {
    let place = Place::new();
    fs::write(place.path("file"), b"in the way").expect("written");
    for arguments in [
        &["seal", "photos", "--code", "rs:4+2", "--out", "file"][..],
        &["seal", "photos", "--code", "rs:4+2", "--out", "file/below"],
    ] {
        let run = place.run(arguments);
        assert_eq!(run.status, 2, "{arguments:?}: {}", run.stderr);
        assert!(run.stderr.lines().last().is_some_and(|l| l.contains("file")), "{}", run.stderr);
        assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
        assert_eq!(fs::read(place.path("file")).expect("there"), b"in the way");
    }
}

#[test]
fn files_in_the_way_are_not_replaced_unasked() {
    let place = Place::new();
    place.seal("rs:4+2");
    fs::create_dir(place.path("restored")).expect("made");
    fs::write(place.path("restored/a.raw"), b"mine").expect("written");
    let run = place.run(&["unseal", "shards", "--to", "restored"]);
    assert_eq!(run.status, 2, "{}", run.stderr);
    assert!(run.stderr.contains("a.raw is in the way"), "{}", run.stderr);
    assert_eq!(fs::read(place.path("restored/a.raw")).expect("there"), b"mine");
    assert_eq!(place.run(&["unseal", "shards", "--to", "restored", "--overwrite"]).status, 0);
    place.assert_same_tree("restored");
}

/// Two sets of one name are reported, even if one of them has fewer shards.
#[test]
fn two_sets_that_are_named_are_two_sets() {
    let place = Place::new();
    for (tree, out) in [("photos", "one"), ("photos", "two")] {
        assert_eq!(place.run(&["seal", tree, "--code", "rs:4+2", "--out", out]).status, 0);
    }
    let lost = fs::read_dir(place.path("two")).expect("a folder").flatten().map(|entry| entry.path()).min();
    fs::remove_file(lost.expect("shards")).expect("removed");
    for command in ["verify", "unseal"] {
        let mut arguments = vec![command, "one", "two"];
        arguments.extend(["--to", "back"].iter().filter(|_| command == "unseal"));
        let run = place.run(&arguments);
        assert_eq!(run.status, 2, "{}{}", run.stdout, run.stderr);
        assert!(run.stderr.contains("several sets"), "{}", run.stderr);
    }
}

#[test]
fn heal_names_each_file_that_it_cannot_recover() {
    let place = Place::new();
    for name in ["one/f1", "one/f2", "one/f3", "two/g1", "two/g2", "two/g3"] {
        let path = place.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, painted(9000, name.len())).expect("written");
    }
    let sealed =
        place.run(&["seal", "one", "two", "--code", "raid6:2", "--beside", "--out", "shards", "--name", "s"]);
    assert_eq!(sealed.status, 0, "{}", sealed.stderr);
    for name in ["one/f1", "one/f2", "one/f3", "two/g1", "two/g2", "two/g3", "shards/s.02.shard"] {
        fs::remove_file(place.path(name)).expect("removed");
    }
    for quiet in [&["heal", "shards"][..], &["heal", "shards", "--quiet"]] {
        let healed = place.run(quiet);
        assert_eq!(healed.status, 2, "{}", healed.stderr);
        let names =
            |name: &&str| healed.stdout.lines().any(|line| line.contains(&format!("{name}: 3 blocks lost")));
        let all = ["one/f1", "one/f2", "one/f3", "two/g1", "two/g2", "two/g3"];
        assert!(all.iter().all(names), "{}", healed.stdout);
    }
}
