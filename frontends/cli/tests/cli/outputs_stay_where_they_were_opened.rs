//! Claim: whoever exchanges names while a command writes leads what it makes nowhere else, and has
//! nothing replaced that nobody asked to replace.

use crate::common::*;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Any user but root.
const USER: u32 = 65534;
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

/// Waits for something, but not for ever.
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

/// Encodes what comes from a pipe into `at/dir`; in the middle of it, when the files of the chunks
/// are open under other names, something is done.
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

/// What is flipped between nothing and a link while a drawing is written to it, so many times.
fn draw_while_a_link_comes_and_goes(
    at: &Path,
    to: &Path,
    stdin: impl Fn() -> Stdio,
    is_led: impl Fn() -> bool,
) {
    const ROUNDS: usize = 400;
    let out = at.join("shared/out");
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                let _ = symlink(to, &out);
                let _ = fs::remove_file(&out);
            }
        });
        for _ in 0..ROUNDS {
            ended(pantile(at, &["show", "raid6:2", "--svg", "shared/out"], stdin()));
            if is_led() {
                break;
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert!(!is_led(), "it was led to {}", to.display());
}

/// A link of others to what root has open comes between two looks at it.
#[test]
fn what_a_process_has_open_is_written_on_by_no_link_of_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    fs::create_dir(at.join("shared")).expect("a folder");
    mode(&at.join("shared"), 0o777);
    fs::write(at.join("kept"), "kept").expect("a file");
    let given = || Stdio::from(File::open(at.join("kept")).expect("a file"));
    let is_led = || fs::read(at.join("kept")).expect("a file") != b"kept";
    draw_while_a_link_comes_and_goes(at, Path::new("/proc/self/fd/0"), given, is_led);
}

/// In a folder where names cannot be exchanged, but where anybody may put a link.
#[test]
fn what_has_no_name_is_written_to_by_no_link_of_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    fs::create_dir(at.join("shared")).expect("a folder");
    mode(&at.join("shared"), 0o1777);
    let copy = File::create(at.join("copy")).expect("a file");
    let mut reader = Command::new("cat").stdin(Stdio::piped()).stdout(copy).spawn().expect("cat can be run");
    let pipe = format!("/proc/{}/fd/0", reader.id());
    let is_led = || fs::metadata(at.join("copy")).expect("a file").len() > 0;
    draw_while_a_link_comes_and_goes(at, Path::new(&pipe), Stdio::null, is_led);
    drop(reader.stdin.take());
    reader.wait().expect("it ends");
    assert!(!is_led());
}

#[test]
fn all_that_encode_makes_is_in_one_directory_whatever_has_its_path() {
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
fn what_comes_meanwhile_is_not_replaced_unless_asked() {
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

/// Nobody reads a pipe that somebody put there to have others wait.
#[test]
fn a_pipe_of_a_stranger_is_refused_and_one_of_ones_own_is_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let shared = at.join("shared");
    fs::create_dir(&shared).expect("a folder");
    mode(&shared, 0o1777);
    let pipe = shared.join("out");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let draw = || pantile(at, &["show", "raid6:2", "--svg", "shared/out"], Stdio::null());
    let mut waiting = draw();
    let drawing = fs::read_to_string(&pipe).expect("it is written to");
    assert!(drawing.starts_with("<svg") && waiting.wait().expect("it ends").success(), "{drawing}");
    if !is_root() {
        return;
    }
    for (dir_owner, pipe_owner) in [(0, USER), (USER, USER), (USER, ANOTHER)] {
        chown(&shared, Some(dir_owner), None).expect("it is root");
        lchown(&pipe, Some(pipe_owner), None).expect("it is root");
        let mut refused = draw();
        let has_ended = comes(|| refused.try_wait().expect("a process").is_some());
        let _ = refused.kill();
        assert!(has_ended, "it waits");
        assert_fault(&ended(refused), 3, &["pipe, socket or device of another user"], "a pipe");
    }
    // Where only root can have put it, it is as good as root's.
    chown(&shared, Some(0), None).expect("it is root");
    mode(&shared, 0o755);
    let waiting = draw();
    assert!(fs::read_to_string(&pipe).expect("it is written to").starts_with("<svg"));
    assert_eq!(ended(waiting).status, 0);
}
