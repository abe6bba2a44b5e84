//! Volumes in folders, as the commands use them: made, opened, served, with lost devices and
//! spares.

use crate::common::folders::*;
use crate::common::painted;
use pantile_code::Placement;
use pantile_device::DeviceError;
use pantile_host::{
    Answer, CONTROL_SOCKET, ControlServer, DeviceWord, FaultKind, Folder, FolderError, HostOptions,
    NewDevices, NewFolder, Order, Service, StatusReport, Verdict, files_of, find_volumes, order,
};
use pantile_volume::BLOCK_BYTES;
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

#[test]
fn a_code_that_is_here_to_be_studied_makes_no_volume() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("v");
    let error = Folder::create(&root, &new("dcode:9,raw", NewDevices::Made { user_bytes: 8 << 20 }));
    let Err(error @ FolderError::StudyOnly { .. }) = error else {
        panic!("made, or refused for another reason")
    };
    assert!(error.kind() == FaultKind::Input && error.to_string().contains("dcode:9,raw"), "{error}");
    assert!(!root.exists(), "nothing is left");
}

#[test]
fn a_volume_in_a_folder_is_locked_and_keeps_its_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("photos");
    create(&root);
    let service = start(&root);
    assert_eq!(Folder::open(&root).err(), Some(FolderError::Busy { folder: root.clone() }));
    let data = painted(1, 3_000_000);
    service.handle().write(0, &data, false).expect("it writes");
    let report = status(&service);
    assert_eq!((report.name.as_str(), report.verdict), ("photos", Verdict::Clean));
    assert!(report.len_bytes >= 8 << 20);
    assert_eq!(report.margin.any_more, 2);
    service.stop().expect("it stops");
    let service = start(&root);
    assert!(read(&service, data.len()) == data);
    service.stop().expect("it stops");
    assert!(matches!(
        Folder::create(&root, &new("raid6:4", NewDevices::Made { user_bytes: 1 })),
        Err(FolderError::NotEmpty { .. })
    ));
}

/// A server locks its devices, and other processes can only read its claim. A device that is locked
/// without such a claim is left out.
#[test]
fn a_served_volume_is_found_with_its_server() {
    let (_folder, root, service) = served();
    let files = || files_of(&root).expect("a folder").into_iter();
    let paths: Vec<PathBuf> =
        files().filter(|path| path.extension().is_some_and(|end| end == "pantile")).collect();
    let found = find_volumes(&paths);
    let [volume] = &found.volumes[..] else { panic!("{found:?}") };
    assert_eq!(volume.served_by.as_ref().map(|by| by.0), Some(std::process::id()), "{found:?}");
    assert!(volume.state.as_ref().is_ok_and(|state| state.enough && state.stale.is_empty()), "{found:?}");
    assert!(found.left_out.is_empty() && volume.paths.len() == paths.len(), "{found:?}");
    service.stop().expect("it stops");
    let held = std::fs::File::open(&paths[0]).expect("a device");
    held.lock().expect("it locks");
    let found = find_volumes(&paths);
    assert!(found.volumes[0].served_by.is_none(), "{found:?}");
    assert!(matches!(&found.left_out[..], [(path, why)] if *path == paths[0] && why.contains("in use")));
}

/// Unflushed writes are lost with a server that is killed. The events say so when its volume is
/// opened again.
#[test]
fn a_server_that_was_not_stopped_is_an_event_of_the_next_one() {
    let (_folder, root, service) = served();
    let ends = |service: &Service| {
        let events = status(service).events;
        events.iter().filter(|event| event.text.contains("was not stopped in order")).count()
    };
    assert_eq!(ends(&service), 0);
    drop(service);
    let service = start(&root);
    assert_eq!(ends(&service), 1);
    service.stop().expect("it stops");
    let service = start(&root);
    assert_eq!(ends(&service), 1, "the last one was stopped");
    service.stop().expect("it stops");
}

#[test]
fn a_spare_takes_the_place_of_a_lost_device() {
    let (folder, root, service) = served();
    let data = painted(2, 5_000_000);
    service.handle().write(0, &data, true).expect("it writes");
    let len = root.join("device-00.pantile").metadata().expect("a device").len();
    done(service.obey(&Order::Fail { device: 2, lose_data: false }));
    let report = status(&service);
    assert_eq!((report.verdict, report.margin.any_more), (Verdict::Degraded, 1));
    assert_eq!(report.devices[2].state, DeviceWord::Lost);
    assert!(read(&service, data.len()) == data);
    let spare = file(folder.path().join("spare"), len);
    done(service.obey(&Order::AddSpare { path: spare.clone(), overwrite: false }));
    until_clean(&service);
    assert_eq!(status(&service).devices[2].path, Some(spare.clone()));
    let old = root.join("device-02.pantile");
    let events = status(&service).events;
    for (text, path) in [
        (format!("Device 2 ({}) was lost: its operator took it out.", old.display()), &old),
        (format!("A spare, {}, took the place of device 2.", spare.display()), &spare),
    ] {
        let said = events.iter().find(|event| event.text == text).unwrap_or_else(|| panic!("{events:?}"));
        assert_eq!((said.device, said.path.as_ref()), (Some(2), Some(path)));
    }
    is_read_without(&service, [0, 1], &data);
    service.stop().expect("it stops");
    // A device that was removed stays out of the volume, a new one stays in it.
    let service = start(&root);
    let report = status(&service);
    assert_eq!(report.margin.lost, [0, 1]);
    assert!(report.devices[..2].iter().all(|device| device.state == DeviceWord::Lost));
    assert_eq!(report.margin.any_more, 0);
    assert!(read(&service, data.len()) == data);
    service.stop().expect("it stops");
}

/// Returns a volume in which a spare has taken the slot of device 2, has got data that this device
/// did not get, and is lost as well; and the data.
fn with_lost_spare() -> (TempDir, PathBuf, Service, Vec<u8>) {
    let (folder, root, service) = served();
    let len = root.join("device-00.pantile").metadata().expect("a device").len();
    let spare = file(folder.path().join("spare"), len);
    done(service.obey(&Order::AddSpare { path: spare, overwrite: false }));
    done(service.obey(&Order::Fail { device: 2, lose_data: false }));
    until_clean(&service);
    let data = painted(3, 5_000_000);
    service.handle().write(0, &data, true).expect("it writes");
    done(service.obey(&Order::Fail { device: 2, lose_data: false }));
    (folder, root, service, data)
}

/// Gives the device that had slot 2 first back to it: all of it has to be rebuilt.
fn first_comes_back(root: &Path, service: &Service, data: &[u8]) {
    let first = root.join("device-02.pantile");
    let again = |overwrite| service.obey(&Order::Replace { device: 2, path: first.clone(), overwrite });
    let refused = again(false);
    let says = |text: &str| text.contains("is an earlier device 2 of this volume");
    assert!(matches!(&refused, Answer::Fault { kind: FaultKind::Input, text } if says(text)), "{refused:?}");
    let answer = again(true);
    let is_rebuilt = |text: &str| text.ends_with("is device 2 now and is being rebuilt.");
    assert!(matches!(&answer, Answer::Done { text } if is_rebuilt(text)), "{answer:?}");
    until_clean(service);
    is_read_without(service, [0, 1], data);
}

#[test]
fn a_device_whose_slot_a_spare_had_in_between_is_not_caught_up() {
    let (_folder, root, service, data) = with_lost_spare();
    first_comes_back(&root, &service, &data);
    service.stop().expect("it stops");
}

#[test]
fn a_device_whose_slot_a_spare_had_before_a_restart_is_not_caught_up() {
    let (_folder, root, service, data) = with_lost_spare();
    service.stop().expect("it stops");
    // A server that the first device knows and that ended in order is not called killed.
    let report = Service::look(Folder::open(&root).expect("a folder")).expect("it is looked at");
    let wrong = status(&report).wrong;
    assert!(!wrong.iter().any(|text| text.contains("not stopped in order")), "{wrong:?}");
    drop(report);
    let service = start(&root);
    first_comes_back(&root, &service, &data);
    service.stop().expect("it stops");
}

#[test]
fn a_volume_has_no_more_spares_than_its_folder_can_name() {
    let (folder, root, service) = served();
    service.stop().expect("it stops");
    drop(service);
    let said = std::fs::read_to_string(root.join("volume.conf")).expect("it reads");
    let spares = (0..256).map(|i| format!("spare absent-{i}\n")).collect::<String>();
    std::fs::write(root.join("volume.conf"), said + &spares).expect("it writes");
    let service = start(&root);
    let path = file(folder.path().join("spare"), 32 << 20);
    match service.obey(&Order::AddSpare { path, overwrite: false }) {
        Answer::Fault { text, .. } => assert!(text.contains("has 256 spares"), "{text}"),
        other => panic!("{other:?}"),
    }
    service.stop().expect("it stops");
    drop(service);
    start(&root).stop().expect("what the folder says is read again");
}

#[test]
fn paths_that_are_not_absolute_are_refused() {
    let (_folder, _, service) = served();
    // Relative to the folder of this process the file exists.
    let path = PathBuf::from("Cargo.toml");
    assert!(path.exists());
    let orders = [
        Order::AddSpare { path: path.clone(), overwrite: false },
        Order::Replace { device: 1, path: path.clone(), overwrite: false },
        Order::RemoveSpare { path: path.clone() },
    ];
    for order in orders {
        match service.obey(&order) {
            Answer::Fault { kind: FaultKind::Input, text } => {
                assert!(text.starts_with("Cargo.toml is not absolute"), "{order:?}: {text}");
            }
            other => panic!("{order:?}: {other:?}"),
        }
    }
    let report = status(&service);
    assert_eq!((report.verdict, report.spares.len()), (Verdict::Clean, 0));
    service.stop().expect("it stops");
}

#[test]
fn a_spare_that_was_given_whatever_it_held_is_one_after_a_restart() {
    let (folder, root, service) = served();
    let len = root.join("device-00.pantile").metadata().expect("a device").len();
    let path = file(folder.path().join("full"), len);
    std::fs::write(&path, painted(4, len as usize)).expect("a file");
    done(service.obey(&Order::AddSpare { path: path.clone(), overwrite: true }));
    service.stop().expect("it stops");
    let service = start(&root);
    assert_eq!(status(&service).spares, [path]);
    service.stop().expect("it stops");
}

#[test]
fn a_device_that_comes_back_is_caught_up() {
    let (_folder, root, service) = served();
    service.handle().write(0, &painted(3, 4_000_000), true).expect("it writes");
    done(service.obey(&Order::Fail { device: 3, lose_data: false }));
    let data = painted(4, 2_000_000);
    service.handle().write(0, &data, true).expect("it writes");
    done(service.obey(&Order::Fail { device: 4, lose_data: false }));
    // It is a device of this volume, but of another slot: it is not caught up, and not overwritten
    // without permission.
    let other = root.join("device-04.pantile");
    let answer = service.obey(&Order::Replace { device: 3, path: other.clone(), overwrite: false });
    assert!(matches!(&answer, Answer::Fault { kind: FaultKind::Input, .. }), "{answer:?}");
    done(service.obey(&Order::Replace { device: 4, path: other, overwrite: false }));
    let path = root.join("device-03.pantile");
    let answer = service.obey(&Order::Replace { device: 3, path, overwrite: false });
    assert!(matches!(&answer, Answer::Done { text } if text.contains("caught up")), "{answer:?}");
    until_clean(&service);
    is_read_without(&service, [0, 5], &data);
    service.stop().expect("it stops");
}

/// A device takes part once the present commit is durable, such as that of the preceding loss.
/// Until then it must not be reported as lost.
#[test]
fn a_device_that_has_come_is_not_called_lost_until_it_takes_part() {
    let (folder, root, service) = served();
    service.handle().write(0, &painted(7, 2_000_000), true).expect("it writes");
    let len = root.join("device-00.pantile").metadata().expect("a device").len();
    for round in 0..12 {
        let path = file(folder.path().join(format!("new-{round}")), len);
        let device = round % 6;
        done(service.obey(&Order::Replace { device, path, overwrite: false }));
        let report = status(&service);
        assert_ne!(report.devices[device as usize].state, DeviceWord::Lost, "{:?}", report.wrong);
        let answer = service.obey(&Order::Rebuild { throttle_bytes_per_s: None });
        // The device may already be rebuilt.
        let is_told =
            |text: &str| text.contains("Every slot has a device") || text.contains("Every device is whole");
        assert!(matches!(&answer, Answer::Done { text } if is_told(text)), "{answer:?}");
        until(&service, |report| report.devices.iter().all(|device| device.state != DeviceWord::Rebuilding));
        assert_eq!(status(&service).margin.any_more, 2, "what is not rebuilt any more is whole");
    }
    service.stop().expect("it stops");
}

#[test]
fn devices_with_something_on_them_are_not_overwritten() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (folder.path().join("a"), folder.path().join("b"));
    let paths: Vec<PathBuf> = (0..6).map(|i| file(folder.path().join(format!("d{i}")), 16 << 20)).collect();
    let given = || new("raid6:4", NewDevices::Given(paths.clone()));
    let (made, geometry) = Folder::create(&first, &given()).expect("a volume");
    assert!(geometry.user_blocks() * 4096 > 40 << 20, "{} blocks", geometry.user_blocks());
    assert!(matches!(
        Folder::create(&second, &given()),
        Err(FolderError::Device(DeviceError::InUse { .. })) | Err(FolderError::HoldsVolume { .. })
    ));
    drop(made);
    let refused = Folder::create(&second, &given());
    assert!(matches!(refused, Err(FolderError::HoldsVolume { ref name, .. }) if name == "a"));
    assert!(!second.exists(), "a folder without a volume was left behind");
    std::fs::write(folder.path().join("text"), vec![7; 16 << 20]).expect("a file");
    let service = start(&first);
    let path = folder.path().join("text");
    let replace = |overwrite| Order::Replace { device: 1, path: path.clone(), overwrite };
    assert!(matches!(service.obey(&replace(false)), Answer::Fault { kind: FaultKind::Input, .. }));
    assert_eq!(std::fs::read(&path).expect("a file")[0], 7);
    done(service.obey(&replace(true)));
    until_clean(&service);
    service.stop().expect("it stops");
    let overwriting = NewFolder { overwrite: true, ..given() };
    assert!(Folder::create(&second, &overwriting).is_ok());
    let few = new("raid6:4", NewDevices::Given(paths[..5].to_vec()));
    assert!(matches!(
        Folder::create(&folder.path().join("c"), &few),
        Err(FolderError::DeviceCount { have: 5, need: 6, .. })
    ));
    // The same path is given twice, once by another name.
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&paths[0], &link).expect("a link");
    for again in [paths[0].clone(), link] {
        let twice: Vec<PathBuf> = paths[..5].iter().chain([&again]).cloned().collect();
        let twice = NewFolder { overwrite: true, ..new("raid6:4", NewDevices::Given(twice)) };
        let refused = Folder::create(&folder.path().join("c"), &twice);
        assert!(
            matches!(
                &refused,
                Err(FolderError::Device(DeviceError::SameDevice { at, known_as }))
                    if (&at.device, known_as) == (&again, &paths[0])
            ),
            "{refused:?}"
        );
    }
}

#[test]
fn a_device_is_taken_out_only_for_one_that_can_take_its_place() {
    let (folder, root, service) = served();
    let data = painted(6, 2_000_000);
    service.handle().write(0, &data, true).expect("it writes");
    let replace = |path: &Path, overwrite| {
        service.obey(&Order::Replace { device: 1, path: path.to_path_buf(), overwrite })
    };
    let refused = |path: &Path, overwrite| {
        let before = std::fs::read(root.join("volume.conf")).expect("a configuration");
        let answer = replace(path, overwrite);
        assert!(matches!(answer, Answer::Fault { kind: FaultKind::Input, .. }), "{answer:?}");
        assert_eq!(status(&service).devices[1].state, DeviceWord::Present, "{}", path.display());
        assert_eq!(std::fs::read(root.join("volume.conf")).expect("a configuration"), before);
    };
    let len = root.join("device-00.pantile").metadata().expect("a device").len();
    let short = file(folder.path().join("short"), len - 4096);
    refused(&short, true);
    refused(&folder.path().join("nowhere"), true);
    std::fs::write(folder.path().join("text"), vec![7; len as usize]).expect("a file");
    refused(&folder.path().join("text"), false);
    // The code tolerates no further loss. A device that stays until the new one is complete can
    // still be replaced.
    done(service.obey(&Order::Fail { device: 4, lose_data: false }));
    done(service.obey(&Order::Fail { device: 5, lose_data: false }));
    let good = file(folder.path().join("good"), len);
    refused(&short, true);
    done(service.obey(&Order::Replace { device: 4, path: root.join("device-04.pantile"), overwrite: false }));
    until(&service, |report| report.margin.any_more == 1);
    done(replace(&good, false));
    until(&service, |report| report.margin.any_more == 1);
    assert!(read(&service, data.len()) == data);
    service.stop().expect("it stops");
}

/// RAIDP tolerates many sets of losses beyond its tolerance. `fail` accepts those that the status
/// counts, and without them the volume can be read, written and opened again.
#[test]
fn only_survivable_devices_are_taken_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("v");
    let made = Folder::create(&root, &new("raidp:5", NewDevices::Made { user_bytes: 4 << 20 }));
    drop(made.expect("a volume"));
    let service = start(&root);
    let fail = |service: &Service, device, lose_data| service.obey(&Order::Fail { device, lose_data });
    let mut data = painted(8, service.handle().len_bytes() as usize);
    // Whole stripes are written, so that the log is empty: its rows tolerate fewer losses.
    let stripe_blocks = service.host().geometry().stripe_blocks();
    let stripe = stripe_blocks as usize * BLOCK_BYTES as usize;
    for (at, piece) in (0..).step_by(stripe).zip(data.chunks(stripe)) {
        service.handle().write(at, piece, true).expect("it writes");
    }
    assert_eq!(status(&service).log_blocks, 0);
    let lost = (0..8).find(|&device| {
        done(fail(&service, device, false));
        status(&service).margin.any_more == 0
    });
    assert!(lost.is_some());
    let mut beyond = 0;
    let fatal = loop {
        let report = status(&service);
        assert_ne!(report.verdict, Verdict::Failed, "{:?}", report.wrong);
        assert!(read(&service, data.len()) == data, "{:?}", report.margin);
        let next = report.margin.next.expect("not all may be lost");
        let there = (0..report.devices.len() as u32).filter(|device| !report.margin.lost.contains(device));
        let spared: Vec<u32> = there.filter(|device| !next.fatal.contains(&vec![*device])).collect();
        if spared.is_empty() {
            break next.fatal[0][0];
        }
        let answer = fail(&service, next.fatal[0][0], false);
        let Answer::Fault { kind: FaultKind::Input, text } = answer else { panic!("{answer:?}") };
        assert!(text.contains("may go") && text.contains("--yes"), "{text}");
        // The last write can be in the log, in a row that does not tolerate the loss.
        let may_go = |device: u32| match fail(&service, device, false) {
            Answer::Fault { text, .. } => {
                assert!(text.contains("in the log could not be read"), "{text}");
                false
            }
            _ => true,
        };
        if !spared.into_iter().any(may_go) {
            assert!(status(&service).log_blocks > 0, "the log is empty, and none may go");
            break next.fatal[0][0];
        }
        beyond += 1;
        let piece = painted(9 + beyond, 12_345);
        service.handle().write(beyond * 50_000, &piece, true).expect("it writes");
        data[beyond as usize * 50_000..][..piece.len()].copy_from_slice(&piece);
        if status(&service).log_blocks > 0 && beyond > 1 {
            break status(&service).margin.next.expect("not all may be lost").fatal[0][0];
        }
    };
    assert!(beyond > 0, "nothing beyond the promise was borne");
    service.stop().expect("it stops");
    let service = start(&root);
    assert!(read(&service, data.len()) == data, "after another start");
    assert!(matches!(fail(&service, fatal, false), Answer::Fault { .. }));
    done(fail(&service, fatal, true));
    assert_eq!(status(&service).verdict, Verdict::Failed);
    let _ = service.stop();
}

#[test]
fn columns_are_where_the_volume_was_made_to_have_them() {
    for (code, placement) in [
        ("shec:6,4,3", Placement::Fixed),
        ("shec:6,4,3", Placement::ROTATED),
        ("raid6:4", Placement::Rotated { step: 4 }),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("v");
        let made = new(code, NewDevices::Made { user_bytes: 8 << 20 });
        let made = NewFolder { placement: Some(placement), ..made };
        let (made, geometry) = Folder::create(&root, &made).expect("a volume");
        assert_eq!(geometry.placement, placement);
        drop(made);
        let service = start(&root);
        let data = painted(20, 5_000_000);
        service.handle().write(0, &data, true).expect("it writes");
        service.host().kill();
        drop(service);
        let service = start(&root);
        assert_eq!(status(&service).placement, placement.to_string());
        done(service.obey(&Order::Fail { device: 1, lose_data: false }));
        done(service.obey(&Order::Fail { device: 4, lose_data: false }));
        assert!(read(&service, data.len()) == data, "{code} {placement}");
        service.stop().expect("it stops");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let made = new("raidp:4", NewDevices::Made { user_bytes: 8 << 20 });
    let made = NewFolder { placement: Some(Placement::ROTATED), ..made };
    let refused = Folder::create(&folder.path().join("v"), &made).expect_err("add-ons stay");
    assert!(matches!(refused, FolderError::CannotRotate { .. }), "{refused}");
}

#[test]
fn to_look_at_a_volume_changes_nothing() {
    let (_folder, root, service) = served();
    service.handle().write(0, &painted(11, 3_000_000), true).expect("it writes");
    done(service.obey(&Order::Fail { device: 2, lose_data: false }));
    service.handle().write(0, &painted(12, 50_000), true).expect("it writes");
    let served = status(&service);
    // This is like a crash.
    service.host().kill();
    drop(service);
    let bytes = || {
        let device = |i: usize| std::fs::read(root.join(format!("device-{i:02}.pantile"))).expect("a device");
        (0..6).map(device).chain([std::fs::read(root.join("volume.conf")).expect("a file")]).collect()
    };
    let before: Vec<Vec<u8>> = bytes();
    let service = Service::look(Folder::open(&root).expect("a folder")).expect("it is looked at");
    let seen = status(&service);
    assert_eq!((seen.verdict, &seen.margin), (served.verdict, &served.margin));
    assert_eq!((seen.log_rows_used, seen.stripes_used), (served.log_rows_used, served.stripes_used));
    assert!(service.handle().read(0, &mut [0; 10]).is_err(), "nobody is served");
    service.stop().expect("it stops");
    assert!(bytes() == before, "something was written");
    let service = start(&root);
    service.stop().expect("it stops");
    assert!(bytes() != before, "a start is seen");
}

#[test]
fn orders_reach_a_served_volume_over_its_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("v");
    create(&root);
    assert_eq!(order(&root, &Order::Status), Ok(None));
    let service = Arc::new(start(&root));
    let control = ControlServer::start(&root, service.clone()).expect("a socket");
    let answer = order(&root, &Order::Fail { device: 9, lose_data: false })
        .expect("it answers")
        .expect("it is served");
    assert!(matches!(answer, Answer::Fault { kind: FaultKind::Input, .. }), "{answer:?}");
    done(
        order(&root, &Order::Fail { device: 1, lose_data: false })
            .expect("it answers")
            .expect("it is served"),
    );
    let Ok(Some(Answer::Status(report))) = order(&root, &Order::Status) else { panic!("no status") };
    assert_eq!(report.margin.lost, [1]);
    let waits = std::thread::spawn({
        let service = service.clone();
        move || service.wait_for_end()
    });
    done(order(&root, &Order::Stop).expect("it answers").expect("it is served"));
    waits.join().expect("no panic");
    service.stop().expect("it stops");
    drop(control);
    assert_eq!(order(&root, &Order::Status), Ok(None));
    drop(Folder::open(&root).expect("it is free"));
}

/// A wrong block makes the volume degraded until it is repaired. Then it is a warning.
#[test]
fn a_device_that_lied_is_named_also_when_nothing_is_wrong_any_more() {
    let (_folder, root, service) = served();
    let data = painted(9, 3_000_000);
    service.handle().write(0, &data, true).expect("it writes");
    // An opening reads the newest writes, so they are not in the spoiled block.
    service.handle().write(4_000_000, &painted(10, 50_000), true).expect("it writes");
    service.stop().expect("it stops");
    let path = root.join("device-02.pantile");
    let mut device = std::fs::read(&path).expect("a device");
    let blocks: HashSet<&[u8]> = data.chunks_exact(4096).collect();
    let at = device.chunks_exact(4096).position(|block| blocks.contains(block)).expect("it holds data");
    device[4096 * at + 77] ^= 1;
    std::fs::write(&path, &device).expect("it lies");
    let service = start(&root);
    assert_eq!(status(&service).verdict, Verdict::Clean, "nobody has looked");
    let scrub = |repair| {
        done(service.obey(&Order::ScrubStart { repair }));
        until(&service, |report| report.scrub.as_ref().is_some_and(|scrub| !scrub.running));
        status(&service)
    };
    let found = scrub(false);
    assert_eq!(
        (found.verdict, found.scrub.as_ref().map(|scrub| scrub.checksum + scrub.log_checksum)),
        (Verdict::Degraded, Some(1))
    );
    assert!(found.wrong.iter().any(|wrong| wrong.contains("--repair")), "{:?}", found.wrong);
    scrub(true);
    until(&service, |report| report.suspect_stripes == 0);
    let repaired = scrub(false);
    assert_eq!(repaired.verdict, Verdict::Warned, "{:?}", repaired.wrong);
    assert!(repaired.wrong.iter().any(|wrong| wrong.contains("Device 2 gave")), "{:?}", repaired.wrong);
    service.stop().expect("it stops");
    // The errors of the device are still reported after a restart.
    let service = start(&root);
    assert_eq!(status(&service).verdict, Verdict::Warned);
    assert_eq!(status(&service).devices[2].checksum_errors, repaired.devices[2].checksum_errors);
    assert!(read(&service, data.len()) == data);
    service.stop().expect("it stops");
}

/// No device records which data are lost, but the folder does, until a scrub finds no loss.
#[test]
fn data_that_are_lost_are_not_forgotten() {
    let (_folder, root, service) = served();
    let data = painted(9, 3_000_000);
    service.handle().write(0, &data, true).expect("it writes");
    service.handle().write(4_000_000, &painted(10, 50_000), true).expect("it writes");
    service.stop().expect("it stops");
    let blocks: HashSet<&[u8]> = data.chunks_exact(4096).collect();
    for device in 0..3 {
        let path = root.join(format!("device-0{device}.pantile"));
        let mut bytes = std::fs::read(&path).expect("a device");
        let ours = bytes.chunks_exact_mut(4096).filter(|block| blocks.contains(&block[..]));
        ours.for_each(|block| block[100] ^= 1);
        std::fs::write(&path, &bytes).expect("it lies");
    }
    let lost = |report: &StatusReport| {
        let told = report.wrong.iter().any(|wrong| wrong.contains("have lost data"));
        told && report.verdict == Verdict::Failed && report.broken_stripes > 0
    };
    let scrub = |service: &Service| {
        done(service.obey(&Order::ScrubStart { repair: true }));
        until(service, |report| {
            report.suspect_stripes == 0 && report.scrub.as_ref().is_some_and(|scrub| !scrub.running)
        });
    };
    let service = start(&root);
    scrub(&service);
    assert!(lost(&status(&service)), "{:?}", status(&service).wrong);
    service.stop().expect("it stops");
    let looks = Service::look(Folder::open(&root).expect("a folder")).expect("it is looked at");
    assert!(lost(&status(&looks)), "{:?}", status(&looks).wrong);
    drop(looks);
    let service = start(&root);
    assert!(lost(&status(&service)), "nobody has read them yet");
    service.handle().write(0, &data, true).expect("they are written anew");
    scrub(&service);
    assert!(!lost(&status(&service)), "{:?}", status(&service).wrong);
    service.stop().expect("it stops");
    assert_eq!(status(&start(&root)).broken_stripes, 0);
}

/// After a kill under any load all devices are closed: a server that starts at once finds all of
/// them.
#[test]
fn a_volume_that_is_killed_at_work_can_be_opened_at_once() {
    let (_folder, root, service) = served();
    service.handle().write(0, &vec![7; 8 << 20], true).expect("it is written");
    service.stop().expect("it stops");
    drop(service);
    for _ in 0..20 {
        let service = start(&root);
        let members = service.host().report().expect("it serves").members;
        assert!(members.iter().all(|member| member.attached));
        std::thread::scope(|scope| {
            for reader in 0..8 {
                let handle = service.handle();
                scope.spawn(move || {
                    let mut bytes = vec![0; 1 << 20];
                    while handle.read(reader << 20, &mut bytes).is_ok() {}
                });
            }
            std::thread::sleep(Duration::from_millis(5));
            service.host().kill();
        });
    }
}

/// Lines that are similar to orders, or arbitrary; without orders that would end the volume or
/// remove a device.
///
/// `FUZZ_SEEDS=100000` runs more seeds, `FUZZ_FIRST=7 FUZZ_SEEDS=1` repeats one.
#[test]
fn whatever_is_said_over_the_socket_the_volume_goes_on() {
    const SAID: [&str; 6] = [
        r#"{"do":"status"}"#,
        r#"{"do":"rebuild","throttle-bytes-per-s":1000000000}"#,
        r#"{"do":"scrub-start","repair":false}"#,
        r#"{"do":"scrub-pause"}"#,
        r#"{"do":"fail","device":4000000000}"#,
        r#"{"do":"replace","device":70,"path":"/nowhere","overwrite":false}"#,
    ];
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().map_or(default, |value| value.parse().expect("a number"))
    };
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("v");
    create(&root);
    let service = Arc::new(start(&root));
    let control = ControlServer::start(&root, service.clone()).expect("a socket");
    let (first, seeds) = (number("FUZZ_FIRST", 0), number("FUZZ_SEEDS", 1000));
    for seed in first..first + seeds {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut line = random.choice(SAID).expect("there are some").as_bytes().to_vec();
        for _ in 0..random.usize(0..4) {
            let at = random.usize(0..line.len());
            match random.u8(0..5) {
                0 => line[at] = random.u8(..),
                1 => line[at] = *random.choice(b"{}[]\",:0123456789-+eE.\\untrfalse\n").expect("bytes"),
                2 => drop(line.drain(at..)),
                3 => {
                    let part = line[at..].to_vec();
                    line.extend(part);
                }
                _ => {
                    line.splice(at..at, vec![*random.choice(b"[{\"9 ").expect("bytes"); 2000]).for_each(drop)
                }
            }
            if line.is_empty() {
                line.push(b'x');
            }
        }
        line.push(b'\n');
        let mut stream = UnixStream::connect(root.join(CONTROL_SOCKET)).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
        let sent = stream.write_all(&line).and_then(|()| stream.shutdown(Shutdown::Write));
        let mut said = Vec::new();
        // A line that is not UTF-8 ends the conversation, perhaps before all of it was sent.
        let heard = stream.read_to_end(&mut said);
        let is_text = std::str::from_utf8(&line).is_ok();
        assert!(!is_text || (sent.is_ok() && heard.is_ok()), "seed {seed}: {sent:?}, {heard:?}");
        for answer in said.split(|&byte| byte == b'\n').filter(|answer| !answer.is_empty()) {
            let answer = serde_json::from_slice::<Answer>(answer);
            assert!(answer.is_ok(), "seed {seed}: {answer:?}");
        }
        assert!(!is_text || !said.is_empty(), "seed {seed}: no answer");
    }
    let report = status(&service);
    assert_eq!((report.verdict, report.margin.any_more), (Verdict::Clean, 2));
    drop(control);
    service.stop().expect("it stops");
}

/// Unflushed writes are lost with the engine that failed, so their client must not be told that
/// they are durable.
#[test]
fn a_failed_volume_serves_again_when_a_device_is_put_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("v");
    create(&root);
    // The volume must do nothing by itself: a device that is removed during a flush stays in use
    // until the flush ends, and could not be put back before.
    let options = HostOptions { idle_after: Duration::from_secs(3600), ..HostOptions::for_devices(6) };
    let service = Service::start(Folder::open(&root).expect("a folder"), Some(options)).expect("it opens");
    let old = service.handle();
    let data = painted(30, 3_000_000);
    old.write(0, &data, true).expect("it writes");
    let len = root.join("device-00.pantile").metadata().expect("a device").len();
    let path = |device: u32| root.join(format!("device-0{device}.pantile"));
    let replace = |device, path: &Path| {
        service.obey(&Order::Replace { device, path: path.to_path_buf(), overwrite: false })
    };
    let fail = |device| done(service.obey(&Order::Fail { device, lose_data: true }));
    // Later writes must record that these devices are lost. The second device stays until it has
    // the record of the loss of the first.
    for device in [1, 3] {
        fail(device);
        old.flush().expect("it flushes");
    }
    old.write(4_000_000, &painted(31, 50_000), false).expect("it is answered from memory");
    [4, 5].into_iter().for_each(fail);
    assert_eq!(status(&service).verdict, Verdict::Failed);
    old.flush().expect_err("nothing can be made durable");
    // Too few devices are left for a rebuild, so a new device is not used, nor is a spare.
    let blank = file(folder.path().join("blank"), len);
    let answer = replace(1, &blank);
    assert!(
        matches!(&answer, Answer::Fault { kind: FaultKind::Losses, text } if text.contains("bring back")),
        "{answer:?}"
    );
    done(service.obey(&Order::AddSpare { path: blank.clone(), overwrite: false }));
    assert_eq!(status(&service).spares, std::slice::from_ref(&blank));
    // A device that lacks writes does not suffice, nor do others while one is missing. The answer
    // says so.
    for device in [3, 5] {
        let answer = replace(device, &path(device));
        let says = |text: &str| text.contains("not back in service") && text.contains("bring back");
        assert!(matches!(&answer, Answer::Done { text } if says(text)), "{answer:?}");
        assert_eq!(status(&service).verdict, Verdict::Failed);
    }
    let answer = replace(4, &path(4));
    assert!(
        matches!(&answer, Answer::Done { text } if text.contains("back in service: clients")),
        "{answer:?}"
    );
    old.flush().expect_err("what was answered before is lost");
    old.write(0, &data[..4096], false).expect_err("this client does not know");
    assert!(read(&service, data.len()) == data, "what was flushed");
    // The spare replaces the device that did not return.
    service.look_after();
    until_clean(&service);
    assert_eq!(status(&service).devices[1].path, Some(blank));
    let data = painted(32, 2_000_000);
    service.handle().write(0, &data, true).expect("it writes");
    is_read_without(&service, [0, 2], &data);
    service.stop().expect("it stops");
}

/// The folder is on a full file system, or was removed.
#[test]
fn changes_that_the_folder_cannot_record_are_refused() {
    let (_folder, root, service) = served();
    let new = root.join(format!(".volume.conf.pantile-{}.tmp", std::process::id()));
    // A directory has the temporary name of the configuration, so that it cannot be written.
    std::fs::create_dir(&new).expect("a folder");
    let before = std::fs::read(root.join("volume.conf")).expect("a configuration");
    for order in [
        Order::Fail { device: 1, lose_data: false },
        Order::Rebuild { throttle_bytes_per_s: Some(5 << 20) },
        Order::Replace { device: 1, path: root.join("device-01.pantile"), overwrite: true },
    ] {
        let answer = service.obey(&order);
        assert!(matches!(answer, Answer::Fault { .. }), "{order:?}: {answer:?}");
        let report = status(&service);
        assert_eq!((report.verdict, report.throttle_bytes_per_s), (Verdict::Clean, None), "{order:?}");
        assert_eq!(std::fs::read(root.join("volume.conf")).expect("a configuration"), before);
    }
    std::fs::remove_dir(&new).expect("it is empty");
    done(service.obey(&Order::Fail { device: 1, lose_data: false }));
    service.stop().expect("it stops");
}

#[test]
fn a_failed_volume_begins_no_scrub() {
    let (_folder, _root, service) = served();
    for device in 0..3 {
        done(service.obey(&Order::Fail { device, lose_data: true }));
    }
    let answer = service.obey(&Order::ScrubStart { repair: false });
    assert!(matches!(&answer, Answer::Fault { kind: FaultKind::Losses, .. }), "{answer:?}");
    assert_eq!(status(&service).scrub, None);
    let _ = service.stop();
}

#[test]
fn a_configuration_that_is_no_text_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("v");
    create(&root);
    std::fs::write(root.join("volume.conf"), b"pantile volume 1\nid \xff\n").expect("a file");
    let refused = Folder::open(&root).expect_err("no text");
    assert!(matches!(refused, FolderError::Config { line: 2, .. }), "{refused:?}");
}

#[test]
fn a_server_ends_also_when_its_socket_was_removed() {
    let (_folder, root, service) = served();
    let service = Arc::new(service);
    let control = ControlServer::start(&root, service.clone()).expect("a socket");
    std::fs::remove_file(root.join(CONTROL_SOCKET)).expect("it is there");
    let ends = std::thread::spawn(move || drop(control));
    let begun = Instant::now();
    while !ends.is_finished() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it waits for a connection that nobody can make");
        std::thread::sleep(Duration::from_millis(5));
    }
    service.stop().expect("it stops");
}
