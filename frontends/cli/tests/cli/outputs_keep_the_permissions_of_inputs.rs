//! Claim: files that 'encode' and 'decode' make have mode 0600, unless every user can read all the
//! files from which they are made.

use crate::common::*;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
}

fn ok(folder: &Path, arguments: &[&str]) {
    let run = pantile_in(folder, arguments);
    assert_eq!(run.status, 0, "{arguments:?}: {}", run.stderr);
}

/// A folder with a private file and its chunks, which all users can read.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("secret"), [7; 1000]).expect("a file");
    ok(folder.path(), &["encode", "secret", "--code", "mirror:2", "--chunk", "1000", "--out", "chunks"]);
    folder
}

#[test]
fn outputs_are_readable_by_all_only_if_every_input_is() {
    let folder = folder();
    let at = folder.path();
    // The mode of a new file under the umask.
    let new = mode_of(&at.join("secret"));
    let encode = |from: &str, out: &str| {
        let command =
            format!("{} encode - --code mirror:2 --out {out} < {from}", env!("CARGO_BIN_EXE_pantile"));
        let done = std::process::Command::new("sh").args(["-c", &command]).current_dir(at).status();
        assert!(done.expect("a shell").success());
        mode_of(&at.join(out).join("chunk.1"))
    };
    assert_eq!([mode_of(&at.join("chunks/chunk.0")), encode("secret", "of-all")], [new; 2]);
    ok(at, &["decode", "chunks", "--out", "all"]);
    assert_eq!(mode_of(&at.join("all")), new);
    for (mode, most) in [(0o600, 0o600), (0o640, 0o600), (0o644, new)] {
        set_mode(&at.join("secret"), mode);
        ok(at, &["encode", "secret", "--code", "mirror:2", "--out", "chunks", "--overwrite"]);
        assert_eq!(mode_of(&at.join("chunks/chunk.1")), most & new, "{mode:o}");
        assert_eq!(encode("secret", &format!("given{mode}")), most & new, "{mode:o}");
        set_mode(&at.join("chunks/chunk.0"), 0o644);
        // A file that is replaced loses the permissions that its chunks do not have.
        ok(at, &["decode", "chunks", "--out", "all", "--overwrite"]);
        assert_eq!(mode_of(&at.join("all")), most & new, "{mode:o}");
        set_mode(&at.join("all"), 0o644);
        set_mode(&at.join("chunks/chunk.1"), 0o644);
    }
}

#[test]
fn a_replaced_file_keeps_its_mode_only_if_the_caller_owned_it() {
    let folder = folder();
    let at = folder.path();
    let new = mode_of(&at.join("secret"));
    for name in ["own", "theirs"] {
        fs::write(at.join(name), "x").expect("a file");
        set_mode(&at.join(name), 0o604);
    }
    ok(at, &["decode", "chunks", "--out", "own", "--overwrite"]);
    assert_eq!(mode_of(&at.join("own")), 0o604);
    if fs::metadata(at).expect("a folder").uid() == 0 {
        chown(at.join("theirs"), Some(65534), None).expect("it is root");
        ok(at, &["decode", "chunks", "--out", "theirs", "--overwrite"]);
        let made = fs::metadata(at.join("theirs")).expect("it is there");
        assert_eq!((made.uid(), made.mode() & 0o777), (0, new));
    }
}

#[test]
fn outputs_of_a_private_code_file_are_private() {
    let folder = folder();
    let at = folder.path();
    let code = "pantile-code 1\nname two\ncolumns 2\nrows 1\n[0][1] = [0][0]\n";
    fs::write(at.join("c.code"), code).expect("a file");
    let new = mode_of(&at.join("c.code"));
    for (mode, most) in [(0o600, 0o600), (0o644, new)] {
        set_mode(&at.join("c.code"), mode);
        ok(at, &["encode", "secret", "--code", "./c.code", "--out", "of-code", "--overwrite"]);
        ok(at, &["show", "./c.code", "--svg", "c.svg"]);
        // Data and parity reveal the code.
        for made in ["of-code/chunks.code", "of-code/chunk.0", "of-code/chunk.1", "c.svg"] {
            assert_eq!(mode_of(&at.join(made)), most & new, "{mode:o}: {made}");
            fs::remove_file(at.join(made)).expect("it was made");
        }
    }
}

#[test]
fn outputs_of_standard_input_are_readable_by_all_only_if_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    ok(at, &["pantile-lab", "generate", "zipf", "--requests", "50", "--out", "trace"]);
    let new = mode_of(&at.join("trace"));
    for (mode, most) in [(0o600, 0o600), (0o644, new)] {
        set_mode(&at.join("trace"), mode);
        let command =
            format!("{} replay - --codes raid5:3 --html page < trace", env!("CARGO_BIN_EXE_pantile"));
        let done = std::process::Command::new("sh").args(["-c", &command]).current_dir(at).output();
        let done = done.expect("a shell");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        assert_eq!(mode_of(&at.join("page")), most & new, "{mode:o}");
        fs::remove_file(at.join("page")).expect("it was made");
    }
}
