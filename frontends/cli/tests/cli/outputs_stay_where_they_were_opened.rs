//! Claim: a command writes to the directory or file that it opened, even if another one takes over
//! the name, and replaces files only with the option for it.

use crate::common::*;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Any user but root.
const ANOTHER: u32 = 65533;

fn is_root() -> bool {
    let is_root = fs::metadata("/proc/self").expect("a process").uid() == 0;
    if !is_root {
        println!("skipped: only root can make files of another user");
    }
    is_root
}

fn mode(path: &Path, bits: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(bits)).expect("a mode");
}

fn pantile(at: &Path, arguments: &[&str], stdin: Stdio) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pantile"));
    command.args(arguments).current_dir(at).stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the built command can be run")
}

fn ended(child: Child) -> Run {
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    let status = output.status.code().unwrap_or(-1);
    Run { status, stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Waits for a condition, for a limited time.
fn wait_for(what: &str, is_so: impl FnMut() -> bool) {
    assert!(comes(is_so), "{what}");
}

fn comes(mut is_so: impl FnMut() -> bool) -> bool {
    const MOST: Duration = Duration::from_secs(20);
    let since = Instant::now();
    while since.elapsed() < MOST {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// Encodes data from a pipe into `at/dir`. `meanwhile` runs while the files of the chunks are open
/// under temporary names.
fn encode_and_meanwhile(at: &Path, options: &[&str], meanwhile: impl FnOnce()) -> Run {
    let arguments = ["encode", "-", "--code", "mirror:2", "--chunk", "1K", "--out", "dir"];
    let mut child = pantile(at, &[&arguments, options].concat(), Stdio::piped());
    let mut data = child.stdin.take().expect("a pipe");
    data.write_all(&[7; 1000]).expect("it is read");
    let is_begun = |column: u32| at.join(format!("dir/.chunk.{column}.pantile-{}.tmp", child.id())).exists();
    wait_for("it begins to write", || is_begun(0) && is_begun(1));
    meanwhile();
    drop(data);
    ended(child)
}

fn exchange(at: &Path, one: &str, other: &str) {
    let name = |from: &str, to: &str| fs::rename(at.join(from), at.join(to)).expect("it is there");
    name(one, "aside");
    name(other, one);
    name("aside", other);
}

#[test]
fn encode_writes_all_files_to_the_directory_that_it_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    for (options, before) in [(&[][..], None), (&["--overwrite"][..], Some("old"))] {
        let _ = ["dir", "theirs"].map(|name| fs::remove_dir_all(at.join(name)));
        for name in ["dir", "theirs"] {
            fs::create_dir(at.join(name)).expect("a folder");
        }
        if is_root() {
            chown(at.join("theirs"), Some(ANOTHER), None).expect("it is root");
        }
        for name in ["chunk.0", "chunk.1", "chunks.txt"] {
            fs::write(at.join("theirs").join(name), "theirs").expect("a file");
            if let Some(before) = before {
                fs::write(at.join("dir").join(name), before).expect("a file");
            }
        }
        let run = encode_and_meanwhile(at, options, || exchange(at, "dir", "theirs"));
        for name in ["chunk.0", "chunk.1", "chunks.txt"] {
            let [kept, made] = ["dir", "theirs"].map(|dir| fs::read(at.join(dir).join(name)));
            assert_eq!(kept.expect("it is there"), b"theirs", "{name}");
            assert!(made.is_ok_and(|made| made != b"old"), "{name}: {}", run.stderr);
        }
        assert_eq!((run.status, fs::read_dir(at.join("theirs")).expect("a folder").count()), (0, 3));
    }
}

#[test]
fn files_that_appear_meanwhile_are_not_replaced_without_overwrite() {
    for name in ["chunk.1", "chunks.txt"] {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        let run =
            encode_and_meanwhile(at, &[], || fs::write(at.join("dir").join(name), "hers").expect("a file"));
        assert_fault(&run, 2, &[&format!("dir/{name} is there already"), "--overwrite"], name);
        assert_eq!(fs::read(at.join("dir").join(name)).expect("it is there"), b"hers");
    }
}

#[test]
fn a_chunk_keeps_the_mode_of_the_one_that_it_replaces_and_of_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    for (dir, bits) in [("dir", 0o600), ("other", 0o666)] {
        fs::create_dir(at.join(dir)).expect("a folder");
        fs::write(at.join(dir).join("chunk.0"), "").expect("a file");
        mode(&at.join(dir).join("chunk.0"), bits);
    }
    let run = encode_and_meanwhile(at, &["--overwrite"], || exchange(at, "dir", "other"));
    let made = fs::metadata(at.join("other/chunk.0")).expect("it is there");
    assert_eq!((run.status, made.mode() & 0o777, made.len() > 0), (0, 0o600, true), "{}", run.stderr);
}

/// The user chose a named path, so the kernel follows its links, and opening a pipe waits.
#[test]
fn a_link_to_a_named_file_stays_a_link_and_a_pipe_is_written_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let draw = |to: &str| pantile(at, &["show", "raid6:2", "--svg", to], Stdio::null());
    fs::create_dir(at.join("real")).expect("a folder");
    fs::set_permissions(at, fs::Permissions::from_mode(0o777)).expect("a mode");
    symlink("real/out", at.join("link")).expect("a link");
    for _ in 0..2 {
        assert_eq!(ended(draw("link")).status, 0);
        assert!(at.join("link").is_symlink());
        assert!(fs::read_to_string(at.join("real/out")).expect("it is there").starts_with("<svg"));
    }
    let pipe = at.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let waiting = draw("pipe");
    assert!(fs::read_to_string(&pipe).expect("it is written to").starts_with("<svg"));
    assert_eq!(ended(waiting).status, 0);
    // The shell's open file is appended to, not replaced.
    let command = format!("{} show raid6:2 --svg /dev/stdout >> log", env!("CARGO_BIN_EXE_pantile"));
    fs::write(at.join("log"), "before\n").expect("a file");
    assert!(Command::new("sh").args(["-c", &command]).current_dir(at).status().expect("a shell").success());
    assert!(fs::read_to_string(at.join("log")).expect("it is there").starts_with("before\n<svg"));
}

/// Beneath the named directory, no link leads outside.
#[test]
fn a_link_in_the_place_of_a_chunk_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    fs::create_dir(at.join("dir")).expect("a folder");
    fs::write(at.join("data"), [7; 1000]).expect("a file");
    fs::write(at.join("secret"), "secret").expect("a file");
    for name in ["chunk.1", "chunks.txt"] {
        symlink("../secret", at.join("dir").join(name)).expect("a link");
    }
    let arguments = ["encode", "data", "--code", "mirror:2", "--out", "dir"];
    assert_eq!(ended(pantile(at, &arguments, Stdio::null())).status, 2, "something is there");
    let overwriting = [&arguments[..], &["--overwrite"]].concat();
    assert_eq!(ended(pantile(at, &overwriting, Stdio::null())).status, 0);
    assert_eq!(fs::read(at.join("secret")).expect("a file"), b"secret");
    assert!(!at.join("dir/chunk.1").is_symlink() && !at.join("dir/chunks.txt").is_symlink());
}
