//! Claim: what a command is told to write goes through no link that somebody else may have put
//! there.

use crate::common::*;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

/// A command that writes, the name that it writes to, and what it is given for that.
const WRITERS: &[(&str, &[&str])] = &[
    ("out", &["show", "raid6:4", "--svg", "shared/out"]),
    ("out", &["prove", "raid6:4", "--certificate", "shared/out"]),
    ("out", &["lab", "generate", "sequential", "--requests", "10", "--out", "shared/out"]),
    ("out", &["lab", "replay", "trace", "--codes", "raid6:4", "--html", "shared/out"]),
    ("pantile.1", &["man", "shared"]),
    ("chunk.1", &["encode", "data", "--code", "raid6:2", "--out", "shared", "--overwrite"]),
    ("chunks.txt", &["encode", "data", "--code", "raid6:2", "--out", "shared", "--overwrite"]),
    ("out", &["decode", "chunks", "--out", "shared/out", "--overwrite"]),
];

fn mode(path: &Path, bits: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(bits)).expect("a mode");
}

/// A folder with data, chunks, a trace and a secret, and one in it that others may write to.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    fs::write(at.join("data"), [7; 10_000]).expect("a file");
    for arguments in [
        &["encode", "data", "--code", "raid6:2", "--out", "chunks"][..],
        &["lab", "generate", "sequential", "--requests", "10", "--out", "trace"],
    ] {
        let run = pantile_in(at, arguments);
        assert_eq!(run.status, 0, "{arguments:?}: {}", run.stderr);
    }
    fs::write(at.join("secret"), "secret").expect("a file");
    fs::create_dir(at.join("secrets")).expect("a folder");
    folder
}

fn is_untouched(at: &Path) -> bool {
    let inside = fs::read_dir(at.join("secrets")).expect("a folder").count();
    fs::read(at.join("secret")).expect("a file") == b"secret" && inside == 0
}

#[test]
fn a_link_that_others_may_have_put_there_is_not_followed() {
    let is_root = fs::metadata("/proc/self").expect("a process").uid() == 0;
    for &(name, arguments) in WRITERS {
        let folder = folder();
        let (at, shared) = (folder.path(), folder.path().join("shared"));
        for of_user in [false, true] {
            // A directory that everybody may write to, or one of another user, which root alone
            // could write to.
            if of_user && !is_root {
                continue;
            }
            let _ = fs::remove_dir_all(&shared);
            fs::create_dir(&shared).expect("a folder");
            symlink("../secret", shared.join(name)).expect("a link");
            match of_user {
                false => mode(&shared, 0o777),
                true => std::os::unix::fs::chown(&shared, Some(65534), None).expect("it is root"),
            }
            let run = pantile_in(at, arguments);
            assert!(is_untouched(at), "{arguments:?}");
            // What says how chunks were made is replaced, link or not; all else is refused.
            if name != "chunks.txt" {
                assert_fault(&run, 3, &["other users may write to"], &arguments.join(" "));
            }
        }
    }
}

#[test]
fn a_folder_that_others_may_have_put_there_is_not_followed() {
    let folder = folder();
    let at = folder.path();
    fs::create_dir(at.join("shared")).expect("a folder");
    mode(&at.join("shared"), 0o777);
    symlink("../secrets", at.join("shared/out")).expect("a link");
    for arguments in [
        &["encode", "data", "--code", "raid6:2", "--out", "shared/out"][..],
        &["encode", "data", "--code", "raid6:2", "--out", "shared/out/new"],
        &["man", "shared/out"],
        &["decode", "chunks", "--out", "shared/out/file"],
    ] {
        let run = pantile_in(at, arguments);
        assert!(is_untouched(at), "{arguments:?}");
        assert_fault(&run, 3, &["other users may write to"], &arguments.join(" "));
    }
    let run = pantile_in(at, &["lab", "delayed", "--quick", "--execute", "shared"]);
    assert_fault(&run, 2, &["shared", "others may exchange"], "lab delayed");
    // What is missing others may make, in a directory for everybody.
    mode(&at.join("shared"), 0o1777);
    let run = pantile_in(at, &["lab", "delayed", "--quick", "--execute", "shared/new"]);
    assert_fault(&run, 2, &["shared/new", "No such file"], "lab delayed");
}

/// Root installs nowhere that a link of a user leads to, nor within what a user may exchange.
#[test]
fn a_prefix_that_others_lead_elsewhere_is_refused() {
    use std::os::unix::fs::{chown, lchown};
    if fs::metadata("/proc/self").expect("a process").uid() != 0 {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    mode(at, 0o755);
    for name in ["shared", "secrets", "home", "home/ours", "built"] {
        fs::create_dir(at.join(name)).expect("a folder");
    }
    mode(&at.join("shared"), 0o1777);
    chown(at.join("home"), Some(65534), None).expect("it is root");
    symlink("../secrets", at.join("shared/of_user")).expect("a link");
    lchown(at.join("shared/of_user"), Some(65534), None).expect("it is root");
    symlink("../home/ours", at.join("shared/into_home")).expect("a link");
    // A link of root's that leads on by one of the user, and a folder in which others may put what
    // is not there yet.
    symlink("../secrets", at.join("home/of_user")).expect("a link");
    lchown(at.join("home/of_user"), Some(65534), None).expect("it is root");
    symlink("home/of_user", at.join("by_two")).expect("a link");
    fs::create_dir_all(at.join("open/bin")).expect("a folder");
    mode(&at.join("open/bin"), 0o1777);
    // Nothing is built for it.
    fs::write(at.join("built/cargo"), "#!/bin/sh\n").expect("a file");
    mode(&at.join("built/cargo"), 0o755);
    let path = format!("{}:{}", at.join("built").display(), std::env::var("PATH").expect("a path"));
    for prefix in ["shared/of_user", "shared/into_home", "by_two", "open"] {
        let run = std::process::Command::new("bash")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/install.sh"))
            .args(["--profile", "test", "--prefix"])
            .arg(at.join(prefix))
            .env("PATH", &path)
            .env_remove("SUDO_UID")
            .output()
            .expect("bash");
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.code() == Some(2) && said.contains("is of another user"), "{prefix}: {said}");
        assert!(is_empty(&at.join("secrets")) && is_empty(&at.join("home/ours")), "{prefix}");
        assert_eq!(fs::read_dir(at.join("open")).expect("a folder").count(), 1, "{prefix}");
    }
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).expect("a folder").count() == 0
}

/// Links of one's own lead where they did.
#[test]
fn a_link_of_ones_own_stays_a_link_and_is_followed() {
    for &(name, arguments) in WRITERS {
        let folder = folder();
        let (at, shared) = (folder.path(), folder.path().join("shared"));
        fs::create_dir(&shared).expect("a folder");
        mode(&shared, 0o755);
        symlink("../secret", shared.join(name)).expect("a link");
        let run = pantile_in(at, arguments);
        assert_eq!(run.status, 0, "{arguments:?}: {}", run.stderr);
        if name != "chunks.txt" {
            assert!(shared.join(name).is_symlink() && !is_untouched(at), "{arguments:?}");
        }
    }
}
