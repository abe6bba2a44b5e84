//! Lock and socket of a volume: only their owner can open them, from their creation on.

use crate::common::folders::*;
use pantile_host::{CONTROL_SOCKET, ControlServer, Folder, FolderError, NewDevices, Order, Plan};
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Returns the rights of group and others.
fn of_others(path: &Path) -> u32 {
    path.symlink_metadata().expect("it is there").mode() & 0o077
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").expect("a process").uid() == 0
}

fn widen(path: &Path) {
    std::fs::set_permissions(path, Permissions::from_mode(0o666)).expect("a mode");
}

#[test]
fn lock_and_configuration_are_their_owners_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("v");
    create(&root);
    assert_eq!((of_others(&root.join("lock")), of_others(&root.join("volume.conf"))), (0, 0));
    assert_eq!(of_others(&root) & 0o022, 0, "nobody else may make names in the folder");
}

#[test]
fn the_lock_of_a_volume_that_an_older_program_made_is_taken_from_others_when_it_is_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("v");
    create(&root);
    widen(&root.join("lock"));
    drop(Folder::open(&root).expect("it opens"));
    assert_eq!(of_others(&root.join("lock")), 0);
    let log = root.join("serve.log");
    std::fs::write(&log, "before\n").expect("it writes");
    widen(&log);
    drop(Folder::open(&root).expect("it opens").open_private("serve.log").expect("it opens"));
    assert_eq!((of_others(&log), std::fs::read(&log).expect("it reads")), (0, b"before\n".to_vec()));
}

#[test]
fn a_link_in_the_place_of_the_lock_is_not_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("v");
    create(&root);
    let elsewhere = folder.path().join("elsewhere");
    std::fs::write(&elsewhere, "").expect("it writes");
    widen(&elsewhere);
    std::fs::remove_file(root.join("lock")).expect("it goes");
    std::os::unix::fs::symlink(&elsewhere, root.join("lock")).expect("a link");
    assert!(matches!(Folder::open(&root), Err(FolderError::File { .. })));
    assert_eq!(of_others(&elsewhere), 0o066, "what the link leads to is as it was");
}

/// Between `bind` and a change of the mode any user could connect. So the name is watched
/// continuously while the socket is made 300 times.
#[test]
fn the_control_socket_is_its_owners_alone_from_the_start() {
    let (_folder, root, service) = served();
    let (path, service) = (root.join(CONTROL_SOCKET), Arc::new(service));
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut widest = 0;
            while !ended.load(Ordering::Relaxed) {
                widest |= path.symlink_metadata().map_or(0, |found| found.mode() & 0o077);
            }
            widest
        });
        for _ in 0..300 {
            let control = ControlServer::start(&root, service.clone()).expect("it listens");
            assert_eq!(path.symlink_metadata().expect("a socket").mode() & 0o777, 0o600);
            drop(control);
        }
        ended.store(true, Ordering::Relaxed);
        assert_eq!(looking.join().expect("it looks"), 0, "others had rights on it for a moment");
    });
    assert!(!root.join(".private").exists(), "the folder in which it was made is gone");
    service.stop().expect("it stops");
}

#[test]
fn the_socket_of_a_killed_server_is_no_hindrance() {
    let (_folder, root, service) = served();
    std::fs::create_dir(root.join(".private")).expect("a folder");
    std::fs::write(root.join(".private/s"), "").expect("it writes");
    std::fs::write(root.join(CONTROL_SOCKET), "").expect("it writes");
    let service = Arc::new(service);
    drop(ControlServer::start(&root, service.clone()).expect("it listens"));
    assert!(!root.join(".private").exists());
    service.stop().expect("it stops");
}

/// If a pipe is in place of the lock, opening does not wait.
#[test]
fn a_lock_that_is_a_pipe_is_refused_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("v");
    create(&root);
    let lock = root.join("lock");
    std::fs::remove_file(&lock).expect("it goes");
    assert!(std::process::Command::new("mkfifo").arg(&lock).status().expect("mkfifo").success());
    let (told, refused) = std::sync::mpsc::channel();
    std::thread::spawn(move || told.send(Folder::open(&root).map(drop)));
    let refused = refused.recv_timeout(std::time::Duration::from_secs(60)).expect("it does not wait");
    assert!(matches!(refused, Err(FolderError::File { .. })), "{refused:?}");
}

/// A folder that a group can write to, a disk of another user, a folder behind a link: the volume
/// is served, with one warning.
#[test]
fn a_folder_that_others_can_write_to_is_used_with_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("v");
    create(&root);
    let link = folder.path().join("link");
    symlink(&root, &link).expect("a link");
    let opened = || Folder::open(&link).expect("it opens");
    assert_eq!(opened().warning(), None);
    std::fs::set_permissions(&root, Permissions::from_mode(0o777)).expect("a mode");
    let warning = opened().warning().expect("others can write to it");
    assert!(warning.starts_with("every user can change"), "{warning}");
    start(&link).stop().expect("it stops");
    if is_root() {
        std::fs::set_permissions(&root, Permissions::from_mode(0o755)).expect("a mode");
        std::os::unix::fs::chown(&root, Some(1000), Some(1000)).expect("it is root");
        let warning = opened().warning().expect("its owner can write to it");
        assert!(warning.starts_with("user 1000 can change"), "{warning}");
        std::fs::remove_file(root.join("lock")).expect("it goes");
        let service = start(&link);
        done(service.obey(&Order::Rebuild { throttle_bytes_per_s: Some(1 << 20) }));
        service.stop().expect("it stops");
        for name in ["lock", "volume.conf"] {
            let owner = root.join(name).metadata().expect("it is there").uid();
            assert_eq!(owner, 1000, "{name}: its owner can open it");
        }
    }
}

/// The folder of another user can name any device of root, so root formats no device that it names.
#[test]
fn root_formats_no_device_that_a_folder_of_another_user_names() {
    use std::os::unix::fs::chown;
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let paths = ["a", "b", "c", "d", "spare"].map(|name| folder.path().join(name));
    for path in &paths {
        std::fs::File::create(path).and_then(|file| file.set_len(32 << 20)).expect("a device");
    }
    let root = folder.path().join("v");
    let new = new("raid6:2", NewDevices::Given(paths[..4].to_vec()));
    std::fs::create_dir(&root).expect("a folder");
    chown(&root, Some(1000), None).expect("it is root");
    let refused = FolderError::OfAnother { path: root.clone(), owner: 1000 };
    assert_eq!(Folder::create(&root, &new).err(), Some(refused.clone()));
    chown(&root, Some(0), None).expect("it is root");
    drop(Folder::create(&root, &new).expect("it is made"));
    chown(&root, Some(1000), None).expect("it is root");
    let is_blank = |path: &Path| std::fs::read(path).expect("it reads").iter().all(|&byte| byte == 0);
    let spare = paths[4].clone();
    let service = start(&root);
    for order in [
        Order::Replace { device: 0, path: spare.clone(), overwrite: true },
        Order::AddSpare { path: spare.clone(), overwrite: true },
    ] {
        let said = format!("{:?}", service.obey(&order));
        assert!(said.contains(&refused.to_string()), "{said}");
    }
    service.stop().expect("it stops");
    // The same holds for spares, copies and joining devices in the configuration.
    let said = std::fs::read_to_string(root.join("volume.conf")).expect("it reads");
    let joining =
        said.replace(&format!("device 1 {}", paths[1].display()), &format!("joining 1 {}", spare.display()));
    assert_ne!(joining, said);
    let [spares, copies] = [format!("spare {}", spare.display()), format!("replacing 0 {}", spare.display())];
    for text in [format!("{said}{copies}\n"), format!("{said}{spares}\n"), joining] {
        std::fs::write(root.join("volume.conf"), &text).expect("it writes");
        let service = start(&root);
        if text.contains(&spares) {
            done(service.obey(&Order::Fail { device: 2, lose_data: false }));
        }
        service.stop().expect("it stops");
        assert!(is_blank(&spare), "{text}");
    }
}

/// The path of a device is exchanged between the scan of its chunks and the recovery's writes.
#[test]
fn a_recovery_writes_to_the_devices_that_it_scanned() {
    let (folder, root, service) = served();
    service.handle().write(0, &[5; 1 << 16], true).expect("it writes");
    service.stop().expect("it stops");
    drop(service);
    let paths: Vec<PathBuf> = (0..6).map(|slot| root.join(format!("device-{slot:02}.pantile"))).collect();
    let mut bytes = std::fs::read(&paths[0]).expect("a device");
    let last = bytes.len() - 4096;
    bytes[..8192].fill(0);
    bytes[last..].fill(0);
    std::fs::write(&paths[0], &bytes).expect("it writes");
    let important = vec![7; bytes.len()];
    let (aside, elsewhere) = (folder.path().join("aside"), folder.path().join("important"));
    std::fs::write(&elsewhere, &important).expect("it writes");
    let plan = Plan::of(&paths).expect("it can be recovered");
    assert_eq!(plan.without_superblock, [0]);
    std::fs::rename(&paths[0], &aside).expect("it is moved");
    std::fs::rename(&elsewhere, &paths[0]).expect("something else is there");
    plan.carry_out().expect("it is written");
    assert!(std::fs::read(&paths[0]).expect("it reads") == important, "nothing is written to it");
    assert!(std::fs::read(&aside).expect("it reads") != bytes, "it is written to the device");
    std::fs::rename(&aside, &paths[0]).expect("it is moved back");
    drop(plan);
    start(&root).stop().expect("it stops");
}
