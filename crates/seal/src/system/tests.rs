use super::*;
use rustix::fs::CWD;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

#[test]
fn paths_below_no_root_do_not_exist() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("x"), "x").unwrap();
    let disk = SystemDisk::new();
    let error = disk.meta(&dir.path().join("x")).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    disk.root(dir.path(), Access::Read).unwrap();
    assert_eq!(disk.meta(&dir.path().join("x")).unwrap().size, 1);
    assert_eq!(disk.meta(&dir.path().join("./x")).unwrap().size, 1);
    assert!(disk.meta(&dir.path().join("../x")).is_err());
}

#[test]
fn below_a_root_that_is_read_nothing_can_be_changed() {
    let dir = tempfile::tempdir().unwrap();
    let x = dir.path().join("x");
    fs::write(&x, "x").unwrap();
    let disk = SystemDisk::new();
    disk.root(dir.path(), Access::Read).unwrap();
    let y = dir.path().join("y");
    let zero = Timestamp { seconds: 0, nanos: 0 };
    let refused = [
        disk.open_write(&x).map(drop),
        disk.create(&y).map(drop),
        disk.rename(&x, &y),
        disk.remove(&x),
        disk.make_dir(&y),
        disk.make_private_dir(&y).map(drop),
        disk.open_dir(dir.path()).map(drop),
        disk.add_name(&x, &y),
        disk.make_link(&x, &y, (zero, None)),
        disk.set_time(&x, zero),
        disk.sync_dir(dir.path()),
    ];
    for (i, refused) in refused.into_iter().enumerate() {
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::PermissionDenied, "{i}");
    }
    disk.root(dir.path(), Access::Write).unwrap();
    disk.create(&y).unwrap();
    disk.remove(&y).unwrap();
}

#[test]
fn no_link_below_a_root_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
    fs::create_dir_all(root.join("d")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    symlink(&outside, root.join("away")).unwrap();
    symlink("../../outside", root.join("d/away")).unwrap();
    symlink("../outside/secret", root.join("file")).unwrap();
    let disk = SystemDisk::new();
    disk.root(&root, Access::Write).unwrap();
    for path in ["away/secret", "d/away/secret", "file"] {
        assert!(disk.open(&root.join(path)).is_err(), "{path}");
        assert!(disk.open_write(&root.join(path)).is_err(), "{path}");
    }
    for path in ["away/new", "d/away/new"] {
        assert!(disk.create(&root.join(path)).is_err(), "{path}");
        assert!(disk.make_dir(&root.join(path)).is_err(), "{path}");
        assert!(disk.rename(&root.join("file"), &root.join(path)).is_err(), "{path}");
    }
    assert!(disk.list(&root.join("away")).is_err());
    assert_eq!(disk.meta(&root.join("file")).unwrap().kind, MetaKind::Symlink);
    assert_eq!(disk.read_link(&root.join("d/away")).unwrap(), Path::new("../../outside"));
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn an_opened_file_is_described_after_its_name_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("d")).unwrap();
    fs::write(at("d/inner"), "").unwrap();
    symlink("there", at("link")).unwrap();
    fs::write(at("file"), "12345").unwrap();
    let value = b"1";
    let has_attributes = rustix::fs::setxattr(at("file"), "user.a", value, XattrFlags::empty()).is_ok();
    let disk = SystemDisk::new();
    disk.root(dir.path(), Access::Read).unwrap();
    let seen = ["d", "link", "file"].map(|name| disk.look(&at(name)).unwrap());
    for name in ["d", "link", "file"] {
        fs::rename(at(name), at(&format!("{name} aside"))).unwrap();
        fs::write(at(name), "another").unwrap();
    }
    assert_eq!(seen[0].names().unwrap(), [PathBuf::from("inner")]);
    assert_eq!(seen[1].target().unwrap(), Path::new("there"));
    assert_eq!(seen[2].meta().unwrap().size, 5);
    let attributes = seen[2].attributes().unwrap();
    assert!(!has_attributes || attributes == [(b"user.a".to_vec(), value.to_vec())]);
    assert!(seen[2].names().is_err() && seen[2].target().is_err());
    for name in ["d", "link", "file"] {
        fs::remove_file(at(name)).unwrap();
        fs::rename(at(&format!("{name} aside")), at(name)).unwrap();
    }
}

#[test]
fn a_root_stays_the_directory_that_it_was_when_it_was_opened() {
    let dir = tempfile::tempdir().unwrap();
    let disk = SystemDisk::new();
    let root = dir.path().join("root");
    fs::create_dir(&root).unwrap();
    disk.root(&root, Access::Write).unwrap();
    fs::rename(&root, dir.path().join("moved")).unwrap();
    symlink(std::env::temp_dir(), &root).unwrap();
    disk.create(&root.join("x")).unwrap();
    disk.root(&root, Access::Read).unwrap();
    disk.create(&root.join("y")).unwrap();
    assert!(dir.path().join("moved/x").exists());
    assert!(dir.path().join("moved/y").exists());
}

#[test]
fn a_free_name_is_given_to_what_replaces_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let at = |path: &str| dir.path().join(path);
    fs::write(at("there"), "there").unwrap();
    let disk = SystemDisk::new();
    disk.root(dir.path(), Access::Write).unwrap();
    let file = disk.create(&at("temp")).unwrap();
    file.write_at(b"new", 0).unwrap();
    assert_eq!(file.give_free_name(&at("there")).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    file.give_free_name(&at("free")).unwrap();
    assert_eq!(fs::read(at("free")).unwrap(), b"new");
    // As on a file system that cannot check and rename in one step.
    let opened = rustix::fs::open(dir.path(), TO_SEARCH, Mode::empty()).unwrap();
    let rename = |to: &str| rename_after_a_look(&opened, OsStr::new("free"), OsStr::new(to));
    assert_eq!(rename("there").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    rename("moved").unwrap();
    assert_eq!(
        [fs::read(at("moved")).unwrap(), fs::read(at("there")).unwrap()],
        [b"new".to_vec(), b"there".to_vec()]
    );
}

#[test]
fn new_files_are_named_in_the_directory_of_their_creation() {
    let dir = tempfile::tempdir().unwrap();
    let disk = SystemDisk::new();
    let at = |path: &str| dir.path().join(path);
    fs::create_dir_all(at("d")).unwrap();
    disk.root(dir.path(), Access::Write).unwrap();
    let file = disk.create(&at("d/temp")).unwrap();
    fs::rename(at("d"), at("moved")).unwrap();
    fs::create_dir(at("d")).unwrap();
    file.give_name(&at("d/name")).unwrap();
    assert!(at("moved/name").exists() && !at("d/name").exists());
    // The file that has the path now is left alone.
    fs::write(at("d/there"), "").unwrap();
    for refused in [
        disk.create(&at("d/temp")).map(drop),
        disk.open(&at("d/there")).map(drop),
        disk.look(&at("d/there")).map(drop),
        disk.list(&at("d")).map(drop),
        disk.make_private_dir(&at("d/dir")).map(drop),
        disk.way(&at("d")).map(drop),
    ] {
        assert!(refused.unwrap_err().to_string().contains("another directory took its place"));
    }
    let disk = SystemDisk::new();
    disk.root(dir.path(), Access::Write).unwrap();
    let file = disk.create(&at("d/temp")).unwrap();
    fs::remove_file(at("d/temp")).unwrap();
    fs::write(at("d/temp"), "of another").unwrap();
    assert!(file.give_name(&at("d/name")).is_err() && !at("d/name").exists());
    fs::remove_dir_all(at("d")).unwrap();
    fs::remove_dir_all(at("moved")).unwrap();
}

#[test]
fn directories_that_were_made_for_a_root_go_again_as_far_as_they_are_empty() {
    let dir = tempfile::tempdir().unwrap();
    let disk = SystemDisk::new();
    fs::create_dir(dir.path().join("a")).unwrap();
    let deep = dir.path().join("a/b/c/d");
    let made = disk.make_root(&deep, ROOT_DIR).unwrap();
    assert_eq!(made.path, deep.canonicalize().unwrap());
    assert_eq!(made.made, Some(disk.meta(&deep).unwrap().id));
    assert_eq!(disk.make_root(&deep, ROOT_DIR).unwrap().made, None, "it is there");
    fs::write(dir.path().join("a/b/kept"), "").unwrap();
    disk.unmake_root(&deep);
    assert!(dir.path().join("a/b").is_dir() && !dir.path().join("a/b/c").exists());
    fs::remove_dir_all(dir.path().join("a/b")).unwrap();
    disk.make_root(&deep, ROOT_DIR).unwrap();
    disk.unmake_root(&deep);
    assert!(dir.path().join("a").is_dir() && !dir.path().join("a/b").exists());
}

#[test]
fn later_changes_do_not_look_older_than_the_clock() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    let disk = SystemDisk::new();
    disk.root(dir.path(), Access::Read).unwrap();
    let changed = || {
        fs::write(&path, "x").unwrap();
        disk.meta(&path).unwrap().ctime
    };
    for round in 0..2000 {
        let asked = crate::disk::now();
        let changed = changed();
        assert!(changed >= asked, "round {round}: {changed:?} after {asked:?}");
    }
    for round in 0..100 {
        let (before, asked, after) = (changed(), crate::disk::next_tick(), changed());
        assert!(before < asked && asked <= after, "round {round}: {before:?}, {asked:?}, {after:?}");
    }
}

/// A user with the right to rename a new link exchanges it for a directory at once.
#[test]
fn a_link_that_is_made_gives_its_time_and_owner_to_nothing_else() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let dir = tempfile::tempdir().unwrap();
    let [link, other] = ["link", "other"].map(|name| dir.path().join(name));
    fs::create_dir(&other).unwrap();
    let time = Timestamp { seconds: 1_000_000, nanos: 0 };
    let disk = SystemDisk::new();
    disk.root(dir.path(), Access::Write).unwrap();
    let owner = Some((4711, 4711));
    disk.make_link(Path::new("to"), &link, (time, owner)).unwrap();
    assert_eq!(fs::symlink_metadata(&link).unwrap().mtime(), time.seconds);
    assert!(disk.set_time(&link, time).is_err(), "by its name none gets one");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let _ = rustix::fs::renameat_with(CWD, &link, CWD, &other, RenameFlags::EXCHANGE);
            }
        });
        for _ in 0..20_000 {
            for path in [&link, &other] {
                if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
                    let _ = fs::remove_file(path);
                }
            }
            let _ = fs::rename(&link, &other);
            let _ = disk.make_link(Path::new("to"), &link, (time, owner));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let found = [&link, &other].map(|path| fs::symlink_metadata(path).ok());
    let directory = found.iter().flatten().find(|found| found.is_dir()).unwrap();
    assert_ne!(directory.mtime(), time.seconds);
    assert_ne!(directory.uid(), 4711);
}
