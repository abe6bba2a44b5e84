//! Everyday work with sealed files; every command in a message runs as printed.

use crate::common::*;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

const SEAL: [&str; 7] = ["seal", "my photos", "--out", "my parity", "--code", "rs:2+2", "--beside"];

/// Makes a folder with a space in its name, for shards in another one.
fn photos() -> Place {
    let place = Place::empty();
    fs::create_dir_all(place.path("my photos/2026")).expect("made");
    for i in 0..14usize {
        let bytes: Vec<u8> = (0..5000 + i).map(|at| ((at * 7 + i * 13) % 251) as u8).collect();
        fs::write(place.path(&format!("my photos/2026/{i:02}.raw")), bytes).expect("written");
    }
    fs::write(place.path("my photos/x.tmp"), "nobody needs this").expect("written");
    place
}

#[test]
fn every_command_that_is_proposed_can_be_run_as_it_stands() {
    let place = photos();
    place.good(&SEAL);
    // The file was deleted on purpose or not: there is a proposed command for each case, and both
    // work.
    let broken = place.path("my photos/2026/03.raw");
    for is_kept in [false, true] {
        fs::remove_file(&broken).expect("removed");
        let found = place.run(&["verify", "my parity"]);
        let commands: Vec<&str> =
            found.stdout.split('\'').filter(|part| part.starts_with("pantile ")).collect();
        assert_eq!((found.status, commands.len()), (1, 2), "{}", found.stdout);
        place.follow(&format!("'{}'", commands[usize::from(is_kept)]));
        assert!(broken.exists() == is_kept && place.run(&["verify", "my parity"]).status == 0);
        if !is_kept {
            fs::write(&broken, "new").expect("written");
            place.good(&SEAL);
        }
    }
    // The file is changed; then its folder is sealed under another name and moved.
    fs::write(&broken, "something new").expect("written");
    let found = place.run(&["verify", "my parity"]);
    assert!(found.status == 1 && place.follow(&found.stdout) >= 1, "{}", found.stdout);
    assert_eq!(place.run(&["verify", "my parity"]).status, 0);
    place.good(&[&SEAL[..], &["--name", "other name"]].concat());
    fs::rename(place.path("my photos"), place.path("moved")).expect("renamed");
    fs::write(place.path("moved/2026/05.raw"), "new again").expect("written");
    let moved = ["verify", "my parity", "--name", "other name", "--disk", "my photos=moved"];
    let found = place.run(&moved);
    assert!(found.status == 1 && place.follow(&found.stdout) >= 1, "{}", found.stdout);
    assert_eq!(place.run(&moved).status, 0);
}

#[test]
fn a_missing_original_of_a_set_with_the_data_is_named_until_it_is_restored() {
    let place = photos();
    place.good(&["seal", "my photos", "--out", "shards", "--code", "rs:2+2"]);
    fs::remove_file(place.path("my photos/2026/03.raw")).expect("removed");
    let clean = place.run(&["verify", "shards"]);
    assert!(clean.status == 0 && clean.stdout.contains("1 sealed original is missing"), "{}", clean.stdout);
    fs::remove_file(place.path("shards/my photos.01.shard")).expect("removed");
    let found = place.run(&["verify", "shards"]).stdout;
    assert!(
        found.contains("run 'pantile heal shards'") && found.contains("'heal' repairs shards alone"),
        "{found}"
    );
    for healed in [place.good(&["heal", "shards"]), place.good(&["heal", "shards"])] {
        assert!(healed.contains("1 sealed original is missing"), "{healed}");
        assert_eq!(place.follow(&healed), 1, "{healed}");
        let restored = fs::read(place.path("as-sealed/2026/03.raw")).expect("it is restored");
        assert_eq!(restored.len(), 5003);
        fs::remove_dir_all(place.path("as-sealed")).expect("removed");
    }
}

#[test]
fn options_that_a_fault_names_help() {
    let place = photos();
    place.good(&["seal", "my photos", "--out", "shards", "--code", "rs:2+2"]);
    // A file with other content is overwritten. A path of another kind is not, and the message does
    // not propose to try that.
    fs::create_dir_all(place.path("to/x.tmp")).expect("made");
    let unseal = ["unseal", "shards", "--to", "to"];
    let run = place.run(&unseal);
    assert!(run.status == 2 && !run.stderr.contains("--overwrite"), "{}", run.stderr);
    fs::remove_dir(place.path("to/x.tmp")).expect("removed");
    fs::write(place.path("to/x.tmp"), "else").expect("written");
    let run = place.run(&unseal);
    assert!(run.status == 2 && run.stderr.contains("say --overwrite"), "{}", run.stderr);
    place.good(&[&unseal[..], &["--overwrite"]].concat());
    // There are two sets of one name.
    place.good(&["seal", "my photos", "--out", "others", "--code", "rs:2+2"]);
    let run = place.run(&["info", "shards", "others", "--name", "my photos"]);
    assert!(run.status == 2 && run.stderr.contains("UUID"), "{}", run.stderr);
    let id = run.stderr.split('(').nth(1).and_then(|rest| rest.split(',').next()).expect("a UUID");
    place.good(&["info", "shards", "others", "--name", id]);
    // The folder of an unmounted disk is empty.
    for file in fs::read_dir(place.path("my photos/2026")).expect("a folder") {
        fs::remove_file(file.expect("an entry").path()).expect("removed");
    }
    let seal = ["seal", "my photos", "--out", "shards"];
    let run = place.run(&seal);
    assert!(run.status == 2 && run.stderr.contains("not mounted"), "{}", run.stderr);
    assert!(run.stderr.contains("--removed-max 100%"), "{}", run.stderr);
    place.good(&[&seal[..], &["--removed-max", "100%"]].concat());
    // Malware has encrypted the remaining files.
    let files = fs::read_dir(place.path("my photos")).expect("a folder").flatten().map(|file| file.path());
    for file in files.filter(|path| path.is_file()) {
        fs::write(file, [9; 99]).expect("written");
    }
    let run = place.run(&[&seal[..], &["--changed-max", "10%"]].concat());
    assert!(run.status == 2 && run.stderr.contains("were changed: by malware?"), "{}", run.stderr);
    place.good(&[&seal[..], &["--changed-max", "100%"]].concat());
}

#[test]
fn a_quiet_command_says_one_line_for_each_fault_and_nothing_else() {
    let place = photos();
    let quiet = |arguments: &[&str]| {
        let run = place.run(&[arguments, &["--quiet"]].concat());
        assert_eq!(run.stderr, "", "{arguments:?}");
        (run.status, run.stdout.lines().map(str::to_string).collect::<Vec<_>>())
    };
    assert_eq!(quiet(&SEAL), (0, vec![]));
    assert_eq!(quiet(&["verify", "my parity"]), (0, vec![]));
    fs::remove_file(place.path("my photos/2026/03.raw")).expect("removed");
    fs::remove_file(place.path("my parity/my photos.03.shard")).expect("removed");
    let (status, lines) = quiet(&["verify", "my parity"]);
    assert_eq!((status, lines.len()), (1, 2), "{lines:?}");
    assert!(lines[0].starts_with("shard 3: missing: "), "{lines:?}");
    assert!(lines[1].starts_with("file missing, 2 lost blocks: 2026/03.raw"), "{lines:?}");
    assert_eq!(quiet(&["heal", "my parity", "--dry-run"]), (1, lines));
    let (status, lines) = quiet(&["heal", "my parity"]);
    assert_eq!((status, lines.len()), (0, 2), "{lines:?}");
    assert_eq!(quiet(&["heal", "my parity"]), (0, vec![]));
    assert_eq!(quiet(&["unseal", "my parity", "--to", "to"]), (0, vec![]));
}

#[test]
fn one_path_is_listed_healed_and_restored() {
    let place = photos();
    place.good(&[&SEAL[..], &["--exclude", "*.tmp"]].concat());
    let listed = place.good(&["info", "--files", "my parity", "--include", "03.raw"]);
    assert!(listed.starts_with("-rw") && listed.trim_end().ends_with("2026/03.raw"), "{listed}");
    assert!(!place.good(&["info", "--files", "my parity"]).contains("x.tmp"));
    let json: Value =
        serde_json::from_str(&place.good(&["info", "--files", "my parity", "--json"])).expect("JSON");
    assert_eq!(
        (json["paths"].as_array().map(Vec::len), &json["paths"][2]["bytes"]),
        (Some(16), &5000.into())
    );
    for name in ["03", "04"] {
        fs::remove_file(place.path(&format!("my photos/2026/{name}.raw"))).expect("removed");
    }
    // A present original among the shards would suggest that everything is healed.
    let mistaken = place.run(&["heal", "my parity", "my photos/2026/05.raw"]);
    assert_fault(&mistaken, 2, &["05.raw is an original", "behind --"], "an original among shards");
    let healed = place.good(&["heal", "my parity", "--", "my photos/2026/03.raw"]);
    assert!(healed.contains("what was named is whole again"), "{healed}");
    assert!(!place.path("my photos/2026/04.raw").exists());
    place.good(&["heal", "my parity", "--include", "04.raw"]);
    place.good(&["unseal", "my parity", "--to", "to", "--include", "2026/1*.raw"]);
    assert_eq!(fs::read_dir(place.path("to/2026")).expect("a folder").count(), 4);
    assert!(Path::new(&place.path("to/2026/10.raw")).exists());
    let run = place.run(&["unseal", "my parity", "--to", "to", "--include", "nosuch"]);
    assert_fault(&run, 2, &["nosuch", "info my\\ parity --files'"], "a pattern that fits nothing");
}

#[test]
fn words_fit_what_they_are_said_of() {
    let place = photos();
    place.good(&["seal", "my photos", "--out", "one", "--code", "raid5:2", "--beside"]);
    let clean = place.good(&["verify", "one"]);
    assert!(clean.contains("The one shard is good."), "{clean}");
    // The shards are whole and an original is missing, so the message does not say "nothing is
    // missing".
    place.good(&["seal", "my photos", "--out", "full", "--code", "rs:2+2"]);
    fs::remove_file(place.path("my photos/2026/03.raw")).expect("removed");
    let found = place.run(&["verify", "full"]);
    assert!(!found.stdout.contains("nothing is missing"), "{}", found.stdout);
    assert!(place.good(&["info", "full"]).contains("2 directories, 0 links"));
    // The message prints ranges, not 200 numbers.
    place.good(&["seal", "my photos/x.tmp", "--out", "wide", "--code", "lch:128+128"]);
    for column in 0..200 {
        fs::remove_file(place.path(&format!("wide/x.tmp.{column:03}.shard"))).expect("removed");
    }
    let run = place.run(&["verify", "wide"]);
    assert_eq!(run.status, 2, "{}", run.stderr);
    assert!(run.stderr.contains("0-199") && !run.stderr.contains("17, 18"), "{}", run.stderr);
}

/// Returns the temporary files of a command that is running or was killed.
#[cfg(unix)]
fn temporaries(folders: &[PathBuf]) -> Vec<PathBuf> {
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_temporary = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with(".pantile") || name.ends_with(".tmp") || name.ends_with(".journal")
    };
    paths.filter(is_temporary).collect()
}

#[cfg(unix)]
#[test]
fn a_signal_ends_seal_heal_and_unseal_with_a_message_and_leaves_no_temporary_files() {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("big")).expect("made");
    let bytes: Vec<u8> = (0..24usize << 20).map(|i| (i % 251) as u8).collect();
    for name in ["a", "b"] {
        fs::write(at("big").join(name), &bytes).expect("written");
    }
    let seal = ["seal", "big", "--code", "rs:4+2", "--out", "shards", "--block", "4K"];
    let run = |arguments: &[&str]| pantile_in(directory.path(), arguments);
    let folders = [at("shards"), at("to")];
    let is_written = |path: &PathBuf| fs::metadata(path).is_ok_and(|meta| meta.len() > 0);
    for command in [&seal[..], &["heal", "shards"], &["unseal", "shards", "--to", "to"]] {
        // A command that ends before the signal reaches it is started again.
        let mut begun = 0;
        for signal in ["-TERM", "-HUP"] {
            let output = loop {
                begun += 1;
                assert!(begun < 20, "{command:?} is always done before {signal} reaches it");
                match command[0] {
                    "seal" => drop(fs::remove_dir_all(at("shards"))),
                    // The file does not exist if the previous signal ended its healing.
                    "heal" => drop(fs::remove_file(at("shards/big.00.shard"))),
                    _ => drop(fs::remove_dir_all(at("to"))),
                }
                let mut child = Command::new(env!("CARGO_BIN_EXE_pantile"))
                    .args(command)
                    .current_dir(directory.path())
                    .env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"))
                    .stdout(Stdio::null())
                    .stderr(Stdio::piped())
                    .spawn()
                    .expect("the built command can be run");
                let began = Instant::now();
                let mut is_over = false;
                while !is_over && !temporaries(&folders).iter().any(is_written) {
                    assert!(began.elapsed() < Duration::from_secs(60), "{command:?} writes nothing");
                    std::thread::sleep(Duration::from_millis(1));
                    is_over = child.try_wait().expect("a child").is_some();
                }
                if !is_over {
                    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status();
                    assert!(sent.is_ok_and(|status| status.success()), "it is not waited for yet");
                }
                let output = child.wait_with_output().expect("it ends");
                if output.status.code() != Some(0) {
                    break output;
                }
            };
            let said = String::from_utf8(output.stderr).expect("UTF-8");
            assert_eq!(output.status.code(), Some(130), "{command:?} {signal}: {said}");
            assert!(said.lines().last().is_some_and(|line| line.contains("ended on request")), "{said}");
            assert_eq!(temporaries(&folders), Vec::<PathBuf>::new(), "{command:?} {signal}");
        }
        // This completes the set for the next command.
        let done = run(command);
        assert_eq!(done.status, 0, "{}", done.stderr);
    }
}

#[cfg(unix)]
#[test]
fn a_limit_on_the_length_of_files_is_named_and_leaves_no_temporary_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("tree")).expect("made");
    fs::write(at("tree/large"), vec![7; 2 << 20]).expect("written");
    fs::write(at("tree/small"), "small").expect("written");
    let limited = |arguments: &str| {
        let line = format!("ulimit -f 256; exec '{}' {arguments}", env!("CARGO_BIN_EXE_pantile"));
        let mut shell = std::process::Command::new("bash");
        shell.env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"));
        let output = shell.args(["-c", &line]).current_dir(directory.path()).output().expect("a shell");
        (output.status.code(), String::from_utf8(output.stderr).expect("UTF-8"))
    };
    let seal = "seal tree --code rs:2+2 --out shards";
    let (status, said) = limited(seal);
    assert!(status == Some(2) && said.contains("262144 bytes") && said.contains("ulimit -f"), "{said}");
    assert!(!at("shards").exists(), "nothing is left");
    let sealed = pantile_in(directory.path(), &seal.split(' ').collect::<Vec<_>>());
    assert_eq!(sealed.status, 0, "{}", sealed.stderr);
    fs::remove_file(at("shards/tree.01.shard")).expect("removed");
    let (status, said) = limited("heal shards");
    assert!(status == Some(3) && said.contains("262144 bytes"), "{status:?} {said}");
    let (status, said) = limited("unseal shards --to to");
    assert!(status == Some(2) && said.contains("262144 bytes"), "{status:?} {said}");
    assert!(at("to/small").exists() && !at("to/large").exists(), "one file does not stop the others");
    assert_eq!(temporaries(&[at("shards"), at("to")]), Vec::<PathBuf>::new());
}

/// Runs in a separate namespace, in which any user can mount a small file system.
#[cfg(target_os = "linux")]
#[test]
fn a_full_target_does_not_stop_healing_elsewhere() {
    use std::process::Command;
    if !Command::new("unshare").args(["-rm", "true"]).output().is_ok_and(|output| output.status.success()) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("tree")).expect("made");
    fs::write(at("tree/large"), vec![7; 2 << 20]).expect("written");
    let seal = ["seal", "tree", "--code", "rs:2+2", "--out", "shards"];
    assert_eq!(pantile_in(directory.path(), &seal).status, 0);
    fs::create_dir(at("small")).expect("made");
    for column in ["01", "02"] {
        fs::remove_file(at(&format!("shards/tree.{column}.shard"))).expect("removed");
    }
    std::os::unix::fs::symlink("../small/tree.01.shard", at("shards/tree.01.shard")).expect("a link");
    let line = format!(
        "mount -t tmpfs -o size=256k,mode=755 none small && '{}' heal shards small; status=$?; echo left: $(ls -A small).; exit $status",
        env!("CARGO_BIN_EXE_pantile")
    );
    let output = Command::new("unshare")
        .args(["-rm", "sh", "-c", &line])
        .env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"))
        .current_dir(directory.path())
        .output()
        .expect("a shell");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("is full") && said.contains("not healed"), "{said}");
    assert!(said.contains("left: ."), "{said}");
    assert!(fs::metadata(at("shards/tree.02.shard")).is_ok_and(|meta| meta.len() > 1 << 20), "{said}");
}

#[cfg(unix)]
#[test]
fn under_any_umask_sets_stay_closed_and_what_is_restored_has_the_mode_that_was_sealed() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("tree")).expect("made");
    fs::write(at("tree/file"), "text").expect("written");
    fs::set_permissions(at("tree/file"), fs::Permissions::from_mode(0o666)).expect("set");
    let run = |umask: &str, arguments: &str| {
        let line = format!("umask {umask}; exec '{}' {arguments}", env!("CARGO_BIN_EXE_pantile"));
        let mut shell = std::process::Command::new("sh");
        shell.env("XDG_STATE_HOME", at("state"));
        let output = shell.args(["-c", &line]).current_dir(directory.path()).output().expect("a shell");
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let mode = |path: &Path| fs::metadata(path).expect("there").mode() & 0o7777;
    run("000", "seal tree --code rs:2+2 --out shards --beside --pin pinned");
    let mut open: Vec<PathBuf> = vec![at("pinned")];
    let mut todo = vec![at("shards"), at("state")];
    while let Some(folder) = todo.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() { todo.push(path) } else { open.push(path) }
        }
    }
    assert!(open.len() >= 4, "{open:?}");
    open.iter().for_each(|path| assert_eq!(mode(path), 0o600, "{}", path.display()));
    for (umask, option, expected) in [("000", "", 0o666), ("077", "", 0o666), ("077", "--modes", 0o666)] {
        fs::remove_file(at("tree/file")).expect("removed");
        run(umask, &format!("heal shards {option}"));
        assert_eq!(mode(&at("tree/file")), expected, "heal {umask} {option}");
    }
    for (umask, option, expected) in [("027", "", 0o666), ("027", "--modes", 0o666)] {
        run(umask, &format!("unseal shards --to to{option} {option}"));
        assert_eq!(mode(&at(&format!("to{option}/file"))), expected, "unseal {umask} {option}");
    }
}

#[test]
fn a_nightly_check_reports_rot_and_not_edits() {
    let place = photos();
    fs::create_dir(place.path("tree")).expect("a folder");
    for name in ["edited", "rotten"] {
        fs::write(place.path(&format!("tree/{name}")), [7; 50_000]).expect("written");
    }
    place.good(&["seal", "--beside", "tree", "--code", "rs:4+2", "--out", "parity"]);
    fs::write(place.path("tree/edited"), [7; 50_001]).expect("written");
    assert_eq!(place.run(&["verify", "parity", "--quiet"]).status, 1);
    let night = ["verify", "parity", "--quiet", "--ignore-changes"];
    let run = place.run(&night);
    assert_eq!((run.status, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    let path = place.path("tree/rotten");
    let file = fs::File::options().write(true).open(&path).expect("open");
    let time = file.metadata().and_then(|meta| meta.modified()).expect("a time");
    std::os::unix::fs::FileExt::write_at(&file, b"x", 9).expect("written");
    file.set_modified(time).expect("a time");
    let run = place.run(&night);
    assert!(run.status == 1 && run.stdout.starts_with("file rotten"), "{}", run.stdout);
    assert_eq!(run.stdout.lines().count(), 1, "{}", run.stdout);
}

#[test]
fn rotten_or_changed_files_are_left_to_the_user_with_commands_that_work() {
    let place = photos();
    fs::create_dir(place.path("tree")).expect("a folder");
    let sealed: Vec<u8> = (0..300_000u32).map(|i| (i * 31 % 251) as u8).collect();
    fs::write(place.path("tree/big [1]*"), &sealed).expect("written");
    place.good(&["seal", "--beside", "tree", "--code", "rs:4+2", "--out", "parity"]);
    let mut other = sealed.clone();
    other[150_000] ^= 1;
    fs::write(place.path("tree/big [1]*"), &other).expect("written");
    let early = std::time::SystemTime::now() - std::time::Duration::from_secs(9);
    fs::File::options()
        .write(true)
        .open(place.path("tree/big [1]*"))
        .and_then(|file| file.set_modified(early))
        .expect("a time");

    let healed = place.run(&["heal", "parity"]);
    assert!(healed.stdout.contains("left alone big [1]* (rotten, or changed"), "{}", healed.stdout);
    let refused = place.run(&["seal", "--beside", "tree", "--out", "parity"]);
    assert_eq!(refused.status, 1, "{}", refused.stderr);
    for word in ["1 file has an earlier time", "pantile unseal", "--accept-changes"] {
        assert!(refused.stderr.contains(word), "{}", refused.stderr);
    }
    assert_eq!(place.follow(&healed.stdout), 2, "{}", healed.stdout);
    assert!(fs::read(place.path("as-sealed/big [1]*")).expect("it is there") == sealed);
    assert!(place.good(&["verify", "parity"]).contains("Verdict: clean"));
}

/// Shards that root heals still belong to their user.
#[test]
fn a_shard_that_root_makes_again_belongs_to_the_owner_of_the_others() {
    use std::os::unix::fs::{MetadataExt, chown};
    const USER: u32 = 65534;
    let place = photos();
    place.good(&["seal", "my photos", "--out", "my parity", "--code", "rs:2+2"]);
    let parity = place.path("my parity");
    let shard = parity.join("my photos.01.shard");
    fs::remove_file(&shard).expect("removed");
    if chown(&parity, Some(USER), Some(USER)).is_err() {
        println!("skipped: only root can make files of another user");
        return;
    }
    for file in fs::read_dir(&parity).expect("a directory") {
        chown(file.expect("an entry").path(), Some(USER), Some(USER)).expect("it is root");
    }
    let heal = std::process::Command::new(env!("CARGO_BIN_EXE_pantile"))
        .args(["heal", "my parity"])
        .env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"))
        .current_dir(place.directory.path())
        .output()
        .expect("it runs");
    assert!(heal.status.success());
    assert_eq!(fs::metadata(&shard).expect("it is there").uid(), USER);
}

/// Shards on two real devices, if the machine has two: each answer names once the disks that can
/// fail.
#[test]
fn disks_that_can_fail_are_named_by_seal_info_and_verify() {
    let place = photos();
    let sealed = place.good(&["seal", "my photos", "--out", "copies", "--code", "mirror:2"]);
    let one = "Warning: all shards are on one disk: if it fails, 15 of 15 files are lost. mirror:2 tolerates 1 lost \
               disk where each shard has its own.";
    let count = |text: &str, sentence: &str| text.matches(sentence).count();
    for text in [sealed, place.good(&["info", "copies"]), place.good(&["verify", "copies"])] {
        assert_eq!(count(&text, one), 1, "{text}");
    }
    let quiet = place.good(&["seal", "my photos", "--out", "copies", "--name", "my photos", "--quiet"]);
    assert_eq!(quiet, "");
    let other = Path::new("/dev/shm");
    let device =
        |path: &Path| std::fs::metadata(path).map(|meta| std::os::unix::fs::MetadataExt::dev(&meta)).ok();
    if device(other).is_none() || device(other) == device(place.directory.path()) {
        return;
    }
    let other = tempfile::tempdir_in(other).expect("a directory");
    let (shard, to) = (place.path("copies/my photos.01.shard"), other.path().join("my photos.01.shard"));
    fs::copy(&shard, &to).expect("copied");
    fs::remove_file(&shard).expect("removed");
    std::os::unix::fs::symlink(&to, &shard).expect("linked");
    for text in [
        place.good(&["seal", "my photos", "--out", "copies"]),
        place.good(&["info", "copies"]),
        place.good(&["verify", "copies"]),
    ] {
        assert_eq!(count(&text, "Any 1 of these 2 disks can fail: "), 1, "{text}");
        assert_eq!(count(&text, "Warning"), 0, "{text}");
    }
}

/// Three disks: one is missing, then at another path, then replaced.
#[test]
fn a_disk_is_named_asked_for_and_healed_by_its_name() {
    let place = photos();
    for disk in ["disk1/films", "disk2/films", "disk3/films"] {
        fs::create_dir_all(place.path(disk)).expect("made");
        fs::write(place.path(&format!("{disk}/f")), disk.repeat(3000)).expect("written");
    }
    let disks = ["disk1/films", "disk2/films", "disk3/films"];
    let seal = ["--beside", "--code", "raid6:3", "--out", "par", "--name", "pool"];
    place.good(&[&["seal"], &disks[..], &seal[..]].concat());
    assert!(place.good(&["info", "par"]).contains("disk2-films, sealed from "));
    assert!(place.good(&["seal", "--out", "par"]).contains("0 paths added, 0 changed, 0 removed"));
    fs::rename(place.path("disk2"), place.path("away")).expect("renamed");
    let text = place.run(&["verify", "par"]).stdout;
    let asked = format!("is {} mounted?", place.path("disk2/films").display());
    assert!(text.contains("disk disk2-films") && text.contains(&asked), "{text}");
    let lines = place.run(&["verify", "par", "--quiet"]).stdout;
    assert!(lines.starts_with("disk disk2-films: nothing that was sealed is in "), "{lines}");
    assert_eq!(lines.lines().count(), 1, "{lines}");
    // The disk is at another path, which the user has to name only once.
    let healed = place.run(&["heal", "par", "--disk", "disk2-films=away/films"]);
    assert_eq!(healed.status, 0, "{}{}", healed.stdout, healed.stderr);
    place.good(&["verify", "par"]);
    // The disk was replaced.
    fs::remove_dir_all(place.path("away")).expect("removed");
    fs::create_dir_all(place.path("away/films")).expect("made");
    let healed = place.good(&["heal", "par", "--disk", "disk2-films"]);
    assert!(healed.contains("away/films/f"), "{healed}");
    place.good(&["verify", "par"]);
    place.good(&["seal", "--out", "par", "--quiet"]);
    let run = place.run(&["verify", "par", "--disk", "disk2-films"]);
    assert!(run.status == 2 && run.stderr.contains("say where the disk is now"), "{}", run.stderr);
    let run = place.run(&["seal", "--out", "nothing-there"]);
    assert!(run.status == 2 && run.stderr.contains("nothing to seal"), "{}", run.stderr);
}
