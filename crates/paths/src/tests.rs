use super::*;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

/// Makes a directory `in` with a file, and a directory `out` beside it with a secret.
fn place() -> (TempDir, Dir) {
    let around = tempfile::tempdir().expect("a folder");
    for (dir, file) in [("in", "file"), ("out", "secret")] {
        std::fs::create_dir(around.path().join(dir)).expect("a folder");
        std::fs::write(around.path().join(dir).join(file), file).expect("a file");
    }
    let dir = Dir::open_named(&around.path().join("in")).expect("it is there");
    (around, dir)
}

fn names(path: &Path) -> usize {
    std::fs::read_dir(path).expect("a folder").count()
}

#[test]
fn the_kernel_follows_links_to_a_named_directory_and_none_beneath_it() {
    let (around, dir) = place();
    let at = |name: &str| around.path().join(name);
    symlink("in", at("link")).expect("a link");
    let named = Dir::open_named(&at("link")).expect("the kernel follows it");
    assert_eq!(named.list().expect("it is listed"), ["file"]);
    assert_eq!(open_named(&at("link/file")).expect("a file").metadata().expect("a file").len(), 4);
    symlink("../out", at("in/link")).expect("a link");
    symlink("file", at("in/file-link")).expect("a link");
    for below in ["link", "link/secret", "file-link", "../out/secret", "/etc/passwd"] {
        assert!(dir.open_file(below).is_err(), "{below}");
        assert!(walked(dir.as_fd(), Path::new(below), TO_READ | OFlags::NOFOLLOW).is_err(), "{below}");
    }
    assert!(dir.open_dir("link").is_err() && dir.look("link").expect("itself").is_symlink());
    assert!(dir.open_private("file-link", false).is_err(), "what it leads to is not locked");
}

#[test]
fn a_directory_stays_the_one_that_was_opened() {
    let (around, dir) = place();
    let at = |name: &str| around.path().join(name);
    std::fs::rename(at("in"), at("aside")).expect("it is moved");
    symlink("out", at("in")).expect("a link");
    drop(dir.open_private("lock", false).expect("it is made"));
    dir.make_dir("dir", 0o700).expect("it is made");
    dir.create("new").and_then(|new| new.finish(0o644, false)).expect("it is made");
    assert_eq!((names(&at("aside")), names(&at("out"))), (4, 1));
    dir.remove("new").and_then(|()| dir.remove_dir("dir")).expect("they go");
    assert!(dir.sync().is_ok() && names(&at("aside")) == 2);
}

#[test]
fn a_new_file_is_its_owners_until_it_has_its_name() {
    let (around, dir) = place();
    let path = around.path().join("in/file");
    let new = || {
        let mut new = dir.create("file").expect("it is made");
        assert_eq!(new.file().metadata().expect("a file").mode() & 0o777, 0o600);
        new.write_all(b"new").expect("it writes");
        new
    };
    drop(new());
    assert_eq!((names(dir.path()), std::fs::read(&path).expect("a file")), (1, b"file".to_vec()));
    let refused = new().finish(0o644, false);
    assert_eq!(refused.map_err(|error| error.kind()), Err(ErrorKind::AlreadyExists));
    assert_eq!(dir.create("other").expect("it is made").usual_mode(), 0o666 & !umask());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).expect("a mode");
    let new = new();
    let mode = new.usual_mode();
    new.finish(mode, true).expect("it is replaced");
    let made = path.metadata().expect("a file");
    assert_eq!((names(dir.path()), made.mode() & 0o777, made.len()), (1, 0o640, 3));
}

#[test]
fn a_private_file_is_taken_from_others_and_a_pipe_is_refused_at_once() {
    let (around, dir) = place();
    let path = around.path().join("in/file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).expect("a mode");
    drop(dir.open_private("file", true).expect("it opens"));
    assert_eq!(path.metadata().expect("a file").mode() & 0o777, 0o600);
    let pipe = around.path().join("in/pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let kind = |done: io::Result<File>| done.map(drop).map_err(|error| error.kind());
    let refused = Err(ErrorKind::InvalidInput);
    assert_eq!([kind(dir.open_private("pipe", false)), kind(dir.open_file("pipe"))], [refused, refused]);
    assert_eq!(kind(open_named(&pipe)), refused);
}

/// Exchanges a directory beneath for a link to one outside while files are made in it.
#[test]
fn an_exchanged_directory_leads_nothing_outside() {
    const ROUNDS: usize = 20_000;
    let (around, dir) = place();
    let at = |name: &str| around.path().join(name);
    std::fs::create_dir(at("in/dir")).expect("a folder");
    let is_done = AtomicBool::new(false);
    let made = std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                std::fs::rename(at("in/dir"), at("in/aside")).expect("it is moved");
                symlink("../out", at("in/dir")).expect("a link");
                std::fs::remove_file(at("in/dir")).expect("it goes");
                std::fs::rename(at("in/aside"), at("in/dir")).expect("it is moved back");
            }
            is_done.store(true, Ordering::Relaxed);
        });
        let mut made = 0;
        while !is_done.load(Ordering::Relaxed) {
            assert!(dir.open_file("dir/secret").is_err(), "it was led outside");
            let file = dir.open_dir("dir").and_then(|below| below.create("new")?.finish(0o600, true));
            made += usize::from(file.is_ok());
        }
        made
    });
    assert!(made > 0 && names(&at("out")) == 1 && names(&at("in/dir")) == 1);
}

#[test]
fn formatting_asks_for_the_owner_of_the_directory() {
    let (around, _) = place();
    let found = || around.path().metadata().expect("a folder");
    let writer = || other_writer(found().uid(), found().gid(), found().mode());
    assert_eq!((formatting_is_mine(&found()), writer()), (Ok(()), None));
    std::fs::set_permissions(around.path(), std::fs::Permissions::from_mode(0o777)).expect("a mode");
    assert_eq!(formatting_is_mine(&found()), Ok(()), "only its owner counts");
    assert_eq!(writer().as_deref(), Some("every user"));
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(around.path(), Some(1234), Some(0)).expect("it is root");
        std::fs::set_permissions(around.path(), std::fs::Permissions::from_mode(0o755)).expect("a mode");
        assert_eq!(formatting_is_mine(&found()), Err(1234));
        assert_eq!(writer().as_deref(), Some("user 1234"));
    }
}
