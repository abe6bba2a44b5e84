//! What keeps others from a volume can be opened by its owner alone, from the moment that it is
//! there.

use crate::common::folders::*;
use pantile_host::{
    CONTROL_SOCKET, ControlServer, Folder, FolderError, NewDevices, Order, Plan, Service, open_private,
};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The rights of group and others.
fn of_others(path: &Path) -> u32 {
    path.symlink_metadata().expect("it is there").mode() & 0o077
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
    drop(open_private(&log, true).expect("it opens"));
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

/// Between `bind` and a change of the mode anybody could connect, so the name is looked at without
/// a pause while it is made 300 times.
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
fn what_a_killed_server_left_of_its_socket_is_no_hindrance() {
    let (_folder, root, service) = served();
    std::fs::create_dir(root.join(".private")).expect("a folder");
    std::fs::write(root.join(".private/s"), "").expect("it writes");
    std::fs::write(root.join(CONTROL_SOCKET), "").expect("it writes");
    let service = Arc::new(service);
    drop(ControlServer::start(&root, service.clone()).expect("it listens"));
    assert!(!root.join(".private").exists());
    service.stop().expect("it stops");
}

/// A folder whose configuration others may write names any file as a device that is made anew.
#[test]
fn a_folder_whose_devices_others_may_choose_is_looked_at_and_not_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("v");
    create(&root);
    let elsewhere = folder.path().join("elsewhere");
    std::fs::write(&elsewhere, "").expect("it writes");
    widen(&elsewhere);
    std::fs::remove_file(root.join("lock")).expect("it goes");
    std::fs::hard_link(&elsewhere, root.join("lock")).expect("a second name");
    for changed in [root.clone(), root.join("volume.conf")] {
        let mode =
            |bits| std::fs::set_permissions(&changed, std::fs::Permissions::from_mode(bits)).expect("a mode");
        mode(0o777);
        let refused = Service::start(Folder::open(&root).expect("it can be looked at"), None).err();
        assert!(matches!(refused, Some(FolderError::OfAnother { .. })), "{refused:?}");
        assert_eq!(of_others(&elsewhere), 0o066, "what the name is of is as it was");
        let looked_at = Folder::open(&root).expect("a folder");
        assert_eq!(looked_at.at("serve.log"), None, "there is no place to write to");
        drop(Service::look(looked_at).expect("it is looked at"));
        mode(0o755);
    }
    let own = Folder::open(&root).expect("a folder");
    assert!(own.at("serve.log").is_some());
    Service::start(own, None).expect("it opens").stop().expect("it stops");
}

/// A pipe in the place of the lock keeps nobody waiting, whoever put it there.
#[test]
fn a_lock_that_is_a_pipe_is_refused_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("v");
    create(&root);
    let lock = root.join("lock");
    std::fs::remove_file(&lock).expect("it goes");
    assert!(std::process::Command::new("mkfifo").arg(&lock).status().expect("mkfifo").success());
    for mode in [0o755, 0o777] {
        std::fs::set_permissions(&root, std::fs::Permissions::from_mode(mode)).expect("a mode");
        let (told, refused) = std::sync::mpsc::channel();
        let root = root.clone();
        std::thread::spawn(move || told.send(Folder::open(&root).map(drop)));
        let refused = refused.recv_timeout(std::time::Duration::from_secs(60)).expect("nobody waits for it");
        match mode {
            0o755 => assert!(matches!(refused, Err(FolderError::File { .. })), "{refused:?}"),
            _ => assert_eq!(refused, Ok(()), "the configuration is locked in its place, to look"),
        }
    }
}

/// Root may write anywhere, and so must not be led by a directory that a user can exchange.
#[test]
fn of_root_no_directory_on_the_way_is_anothers() {
    if std::fs::metadata("/proc/self").expect("a process").uid() != 0 {
        println!("not root: only root can make a directory of another user");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path().join("home");
    std::fs::create_dir(&home).expect("a folder");
    let root = home.join("v");
    create(&root);
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&home, &link).expect("a link");
    std::os::unix::fs::chown(&home, Some(1000), Some(1000)).expect("it is root");
    for root in [root.clone(), link.join("v")] {
        match pantile_host::refuse_if_of_another(&root) {
            Err(FolderError::OfAnother { path, owner: Some(1000) }) => assert!(path.ends_with("home")),
            other => panic!("{other:?}"),
        }
        assert!(
            ControlServer::start(
                &root,
                Service::look(Folder::open(&root).expect("a folder")).expect("it is looked at").into()
            )
            .is_err()
        );
    }
    std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o1777)).expect("a mode");
    assert!(pantile_host::refuse_if_of_another(&root).is_err(), "its owner may exchange names all the same");
    std::os::unix::fs::chown(&home, Some(0), Some(0)).expect("it is root");
    assert_eq!(pantile_host::refuse_if_of_another(&root), Ok(()), "as in /tmp");
}

/// Of two names in a folder of another user one is exchanged for the other while root makes a
/// volume there: it is refused, and nothing is removed where the link leads.
#[test]
fn what_a_refused_folder_leads_to_is_left_alone() {
    use std::os::unix::fs::{chown, lchown};
    let folder = tempfile::tempdir().expect("a folder");
    if folder.path().metadata().expect("it is there").uid() != 0 {
        return;
    }
    let [home, victim] = ["home", "victim"].map(|name| folder.path().join(name));
    for path in [&home, &victim] {
        std::fs::create_dir(path).expect("a folder");
    }
    let [root, link] = ["v", "link"].map(|name| home.join(name));
    std::fs::create_dir(&root).expect("a folder");
    std::os::unix::fs::symlink(&victim, &link).expect("a link");
    chown(&home, Some(1000), None).expect("it is root");
    chown(&root, Some(1000), None).expect("it is root");
    lchown(&link, Some(1000), None).expect("it is root");
    let precious = victim.join("lock");
    std::fs::write(&precious, "").expect("it writes");
    let new = new("raid5:2", NewDevices::Made { user_bytes: 1 << 20 });
    let ended = AtomicBool::new(false);
    let is_left = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                renameat_with(CWD, &root, CWD, &link, RenameFlags::EXCHANGE).expect("they are exchanged");
            }
        });
        let is_left = (0..5000).all(|_| Folder::create(&root, &new).is_err() && precious.exists());
        ended.store(true, Ordering::Relaxed);
        is_left
    });
    assert!(is_left, "it was made, or removed what the link leads to");
}

/// Root names a device below a folder of a user, who may put a link to any file in its place before
/// it is written.
#[test]
fn root_makes_no_device_anew_that_another_user_may_exchange() {
    use std::os::unix::fs::chown;
    let folder = tempfile::tempdir().expect("a folder");
    if folder.path().metadata().expect("it is there").uid() != 0 {
        return;
    }
    let home = folder.path().join("home");
    std::fs::create_dir(&home).expect("a folder");
    let paths = ["a", "b", "c", "d"].map(|name| home.join(name));
    for path in &paths {
        std::fs::File::create(path).and_then(|file| file.set_len(32 << 20)).expect("a device");
    }
    let root = folder.path().join("v");
    let new = new("raid5:2", NewDevices::Given(paths[..3].to_vec()));
    chown(&home, Some(1000), None).expect("it is root");
    let refused = Folder::create(&root, &new).err();
    assert!(matches!(&refused, Some(FolderError::OfAnother { path, .. }) if *path == home), "{refused:?}");
    chown(&home, Some(0), None).expect("it is root");
    drop(Folder::create(&root, &new).expect("it is made"));
    let service = start(&root);
    chown(&home, Some(1000), None).expect("it is root");
    let path = paths[3].clone();
    for order in [
        Order::Replace { device: 0, path: path.clone(), overwrite: true },
        Order::AddSpare { path: path.clone(), overwrite: true },
    ] {
        let said = format!("{:?}", service.obey(&order));
        assert!(said.contains("others than you may write to"), "{said}");
    }
    // What a folder says of one that was offered counts no more either.
    service.stop().expect("it stops");
    let said = std::fs::read_to_string(root.join("volume.conf")).expect("it reads");
    std::fs::write(root.join("volume.conf"), format!("{said}spare {}\n", path.display())).expect("it writes");
    let service = start(&root);
    done(service.obey(&Order::Fail { device: 0, lose_data: false }));
    assert!(std::fs::read(&path).expect("it reads").iter().all(|&byte| byte == 0), "nothing is written");
    service.stop().expect("it stops");
}

/// Between the look at devices and the writing of what was found out, a name of one is exchanged.
#[test]
fn what_the_scan_of_stripes_found_out_is_written_to_the_devices_that_it_looked_at() {
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
    let plan = Plan::of(&paths).expect("it can be had again");
    assert_eq!(plan.without_superblock, [0]);
    std::fs::rename(&paths[0], &aside).expect("it is moved");
    for exchange in [&|| std::fs::rename(&elsewhere, &paths[0]), &|| {
        std::fs::rename(&paths[0], &elsewhere).and(symlink(&elsewhere, &paths[0]))
    }] as [&dyn Fn() -> std::io::Result<()>; 2]
    {
        exchange().expect("something else is there");
        let exchanged = FolderError::Exchanged { path: paths[0].clone() };
        assert_eq!(plan.carry_out(), Err(exchanged));
        assert!(std::fs::read(&paths[0]).expect("it reads") == important, "nothing is written");
    }
    assert!(std::fs::read(&aside).expect("it reads") == bytes, "nor is it to the device");
    std::fs::rename(&aside, &paths[0]).expect("it is moved back");
    plan.carry_out().expect("it is written");
    drop(plan);
    start(&root).stop().expect("it stops");
    assert!(std::fs::read(&elsewhere).expect("it reads") == important);
}
