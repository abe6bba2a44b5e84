//! Claim: what 'encode' and 'decode' make is for nobody to read who could not read what it was made
//! of, and no link of another user leads them to what is not that user's.

use crate::common::*;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::Path;

/// Any user but root.
const USER: u32 = 65534;

fn is_root() -> bool {
    let is_root = fs::metadata("/proc/self").expect("a process").uid() == 0;
    if !is_root {
        println!("skipped: only root can make files of another user");
    }
    is_root
}

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

/// A folder with a secret, and its chunks, which everybody may read.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("secret"), [7; 1000]).expect("a file");
    ok(folder.path(), &["encode", "secret", "--code", "mirror:2", "--chunk", "1000", "--out", "chunks"]);
    folder
}

#[test]
fn chunks_are_for_everybody_only_if_the_file_is_and_a_file_only_if_all_its_chunks_are() {
    let folder = folder();
    let at = folder.path();
    // What the umask leaves of a new file.
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
        // One that was there before keeps no rights that its chunks do not give.
        ok(at, &["decode", "chunks", "--out", "all", "--overwrite"]);
        assert_eq!(mode_of(&at.join("all")), most & new, "{mode:o}");
        set_mode(&at.join("all"), 0o644);
        set_mode(&at.join("chunks/chunk.1"), 0o644);
    }
}

#[test]
fn a_new_file_has_no_rights_of_one_that_somebody_else_put_there() {
    if !is_root() {
        return;
    }
    let folder = folder();
    let at = folder.path();
    let new = mode_of(&at.join("secret"));
    fs::create_dir(at.join("shared")).expect("a folder");
    set_mode(&at.join("shared"), 0o1777);
    // His, or one of root's that he moved there.
    for owner in [USER, 0] {
        fs::write(at.join("shared/out"), "x").expect("a file");
        set_mode(&at.join("shared/out"), 0o666);
        chown(at.join("shared/out"), Some(owner), None).expect("it is root");
        ok(at, &["decode", "chunks", "--out", "shared/out", "--overwrite"]);
        let made = fs::metadata(at.join("shared/out")).expect("it is there");
        assert_eq!((made.uid(), made.mode() & 0o777), (0, new), "{owner}");
    }
    // Her own keeps what she gave it.
    fs::write(at.join("own"), "x").expect("a file");
    set_mode(&at.join("own"), 0o604);
    ok(at, &["decode", "chunks", "--out", "own", "--overwrite"]);
    assert_eq!(mode_of(&at.join("own")), 0o604);
}

#[test]
fn a_link_of_a_user_leads_root_to_no_chunk_or_file_of_others() {
    if !is_root() {
        return;
    }
    let folder = folder();
    let at = folder.path();
    set_mode(&at.join("secret"), 0o600);
    let theirs = at.join("theirs");
    fs::create_dir(&theirs).expect("a folder");
    for name in ["chunk.1", "chunks.txt"] {
        fs::copy(at.join("chunks").join(name), theirs.join(name)).expect("a copy");
    }
    fs::write(theirs.join("chunk.1"), [1; 1000]).expect("a file");
    fs::write(theirs.join("own"), [2; 1000]).expect("a file");
    symlink("../secret", theirs.join("chunk.0")).expect("a link");
    let give = |name: &str| lchown(theirs.join(name), Some(USER), Some(USER)).expect("it is root");
    ["", "chunk.0", "chunk.1", "chunks.txt", "own"].iter().for_each(|name| give(name));
    let run = pantile_in(at, &["decode", "theirs", "--out", "got"]);
    assert_eq!((run.status, fs::read(at.join("got")).expect("a file")), (0, vec![1; 1000]), "{}", run.stderr);
    assert!(run.stderr.contains("name what it leads to"), "{}", run.stderr);
    let encode = ["encode", "theirs/chunk.0", "--code", "mirror:2", "--out", "again"];
    assert_fault(&pantile_in(at, &encode), 3, &["name what it leads to"], "encode");
    assert!(!at.join("again").exists());
    // Nor does it lead to what is hers: on the way lies what she likes.
    fs::remove_file(theirs.join("chunk.0")).expect("a link");
    symlink("own", theirs.join("chunk.0")).expect("a link");
    give("chunk.0");
    let run = pantile_in(at, &["decode", "theirs", "--out", "got", "--overwrite"]);
    assert_eq!((run.status, fs::read(at.join("got")).expect("a file")), (0, vec![1; 1000]), "{}", run.stderr);
    assert!(run.stderr.contains("name what it leads to"), "{}", run.stderr);
    assert_fault(&pantile_in(at, &encode), 3, &["name what it leads to"], "encode");
    // What says how the chunks were made is not told either.
    fs::remove_file(theirs.join("chunks.txt")).expect("a file");
    symlink("../secret", theirs.join("chunks.txt")).expect("a link");
    give("chunks.txt");
    let run = pantile_in(at, &["decode", "theirs", "--out", "got", "--overwrite"]);
    assert_fault(&run, 3, &["name what it leads to"], "decode");
}

#[test]
fn what_is_made_of_a_code_file_is_for_everybody_only_if_that_is() {
    let folder = folder();
    let at = folder.path();
    let code = "pantile-code 1\nname two\ncolumns 2\nrows 1\n[0][1] = [0][0]\n";
    fs::write(at.join("c.code"), code).expect("a file");
    let new = mode_of(&at.join("c.code"));
    for (mode, most) in [(0o600, 0o600), (0o644, new)] {
        set_mode(&at.join("c.code"), mode);
        ok(at, &["encode", "secret", "--code", "./c.code", "--out", "of-code", "--overwrite"]);
        ok(at, &["show", "./c.code", "--svg", "c.svg"]);
        // Data and parity tell the code.
        for made in ["of-code/chunks.code", "of-code/chunk.0", "of-code/chunk.1", "c.svg"] {
            assert_eq!(mode_of(&at.join(made)), most & new, "{mode:o}: {made}");
            fs::remove_file(at.join(made)).expect("it was made");
        }
    }
}

#[test]
fn what_is_made_of_standard_input_is_for_everybody_only_if_that_is_a_file_for_everybody() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    ok(at, &["lab", "generate", "zipf", "--requests", "50", "--out", "trace"]);
    let new = mode_of(&at.join("trace"));
    for (mode, most) in [(0o600, 0o600), (0o644, new)] {
        set_mode(&at.join("trace"), mode);
        let command =
            format!("{} lab replay - --codes raid5:3 --html page < trace", env!("CARGO_BIN_EXE_pantile"));
        let done = std::process::Command::new("sh").args(["-c", &command]).current_dir(at).output();
        let done = done.expect("a shell");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        assert_eq!(mode_of(&at.join("page")), most & new, "{mode:o}");
        fs::remove_file(at.join("page")).expect("it was made");
    }
}
