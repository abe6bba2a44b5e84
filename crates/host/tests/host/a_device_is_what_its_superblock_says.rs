//! Identity of a device: it follows from its superblock, not from its path. A copy of a device is
//! not the device.

use crate::common::folders::*;
use crate::common::painted;
use pantile_code::Code;
use pantile_device::{Device, FileDevice};
use pantile_host::{
    Answer, DeviceWord, FaultKind, Folder, FolderError, NewDevices, NewFolder, Order, Service, StatusReport,
    Verdict,
};
use std::io::Write;
use std::path::{Path, PathBuf};

#[test]
fn a_spare_that_is_another_device_by_now_is_left_alone() {
    let (folder, root, service) = served();
    let len = root.join("device-00.pantile").metadata().expect("a device").len();
    let [filled, other, gone] =
        ["filled", "other", "gone"].map(|name| file(folder.path().join(name), len + (1 << 20)));
    for path in [&filled, &other, &gone] {
        done(service.obey(&Order::AddSpare { path: path.clone(), overwrite: false }));
    }
    service.stop().expect("it stops");
    // The paths now are those of another user's data, of a device of another volume, and of
    // nothing.
    let precious = painted(3, len as usize);
    std::fs::write(&filled, &precious).expect("a file");
    create(&folder.path().join("u"));
    std::fs::copy(folder.path().join("u/device-03.pantile"), &other).expect("a copy");
    let of_other = std::fs::read(&other).expect("a file");
    std::fs::remove_file(&gone).expect("it is there");
    let service = start(&root);
    let report = status(&service);
    assert_eq!((report.verdict, report.spares.len()), (Verdict::Warned, 0), "{report:?}");
    for path in [&filled, &other, &gone] {
        let name = format!("The spare {}", path.display());
        assert!(report.wrong.iter().any(|wrong| wrong.starts_with(&name)), "{:?}", report.wrong);
    }
    done(service.obey(&Order::Fail { device: 2, lose_data: false }));
    service.look_after();
    assert_eq!(status(&service).devices[2].state, DeviceWord::Lost);
    // The operator may offer this one again, whatever it contains.
    done(service.obey(&Order::AddSpare { path: filled.clone(), overwrite: true }));
    until(&service, |report| report.margin.any_more == 2);
    let report = status(&service);
    assert_eq!((report.wrong.len(), &report.devices[2].path), (2, &Some(filled.clone())), "{report:?}");
    service.stop().expect("it stops");
    assert!(std::fs::read(&other).expect("a file") == of_other);
}

#[test]
fn a_device_that_joins_is_not_another_one_by_now() {
    let (folder, root, service) = served();
    service.stop().expect("it stops");
    create(&folder.path().join("u"));
    let (own, strange) = (root.join("device-02.pantile"), folder.path().join("u/device-02.pantile"));
    std::fs::copy(&strange, &own).expect("a copy");
    let config = root.join("volume.conf");
    let text = std::fs::read_to_string(&config).expect("a text").replace("device 2", "joining 2");
    std::fs::write(&config, text).expect("a text");
    let service = start(&root);
    done(service.obey(&Order::Rebuild { throttle_bytes_per_s: None }));
    let report = status(&service);
    assert_eq!(report.devices[2].state, DeviceWord::Lost);
    assert!(report.wrong[0].contains("belongs to the volume 'u'"), "{:?}", report.wrong);
    service.stop().expect("it stops");
    assert!(std::fs::read(own).expect("a file") == std::fs::read(strange).expect("a file"));
}

#[test]
fn a_volume_is_assembled_whatever_its_devices_are_called() {
    let (folder, root, service) = served();
    let data = painted(5, 1_000_000);
    service.handle().write(0, &data, false).expect("it writes");
    service.stop().expect("it stops");
    let mut paths: Vec<PathBuf> = Vec::new();
    for i in [4, 1, 5, 0, 2] {
        let path = folder.path().join(format!("disk{}", 9 - i));
        std::fs::rename(root.join(format!("device-{i:02}.pantile")), &path).expect("a device");
        paths.push(path);
    }
    paths.push(folder.path().join("text"));
    std::fs::write(&paths[5], [7; 8192]).expect("a file");
    let again = folder.path().join("again");
    let (made, found) = Folder::assemble(&again, &paths).expect("a volume");
    assert_eq!((found.slots, found.devices.len(), found.left_out.len()), (6, 5, 1));
    assert_eq!(found.devices[&4], paths[0]);
    drop(made);
    let service = start(&again);
    assert!(read(&service, data.len()) == data);
    assert_eq!(status(&service).margin.lost, [3]);
    service.stop().expect("it stops");
}

/// The superblock decides the slot of a device. A later change in the folder concerns the device
/// that was found, not the line that named it.
#[test]
fn devices_in_another_order_are_taken_out_and_replaced_one_by_one() {
    let (folder, root, service) = served();
    let data = painted(40, 3_000_000);
    service.handle().write(0, &data, true).expect("it writes");
    service.stop().expect("it stops");
    let path = |device: u32| root.join(format!("device-0{device}.pantile"));
    // Three paths are exchanged in a circle; the device of slot 5 is at none of the listed paths.
    for (from, to) in [(0, 6), (3, 0), (4, 3), (6, 4), (5, 7)] {
        std::fs::rename(path(from), path(to)).expect("a device");
    }
    let looks = Service::look(Folder::open(&root).expect("a folder")).expect("it is looked at");
    assert_eq!(status(&looks).margin.lost, [5]);
    drop(looks);
    let service = start(&root);
    assert_eq!(status(&service).margin.lost, [5]);
    done(service.obey(&Order::Fail { device: 0, lose_data: false }));
    service.stop().expect("it stops");
    let service = start(&root);
    assert_eq!(status(&service).margin.lost, [0, 5], "{:?}", status(&service).wrong);
    let len = path(0).metadata().expect("a device").len();
    let new = file(folder.path().join("new"), len);
    done(service.obey(&Order::Replace { device: 0, path: new.clone(), overwrite: false }));
    std::fs::rename(path(7), path(5)).expect("a device");
    done(service.obey(&Order::Rebuild { throttle_bytes_per_s: None }));
    until_clean(&service);
    service.stop().expect("it stops");
    let service = start(&root);
    let report = status(&service);
    assert_eq!(report.verdict, Verdict::Clean, "{:?}", report.wrong);
    let places: Vec<PathBuf> = report.devices.into_iter().filter_map(|device| device.path).collect();
    assert_eq!(places, [new, path(1), path(2), path(0), path(3), path(5)]);
    assert!(read(&service, data.len()) == data);
    service.stop().expect("it stops");
}

#[test]
fn devices_too_short_for_any_volume_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let small = file(folder.path().join("small"), 1 << 16);
    let others: Vec<PathBuf> = (0..5).map(|i| file(folder.path().join(format!("d{i}")), 16 << 20)).collect();
    let paths: Vec<PathBuf> = others.into_iter().chain([small.clone()]).collect();
    let refused = Folder::create(&folder.path().join("v"), &new("raid6:4", NewDevices::Given(paths)));
    assert!(matches!(refused, Err(FolderError::TooShort { path, have: 65536, .. }) if path == small));
    assert!(FileDevice::open(&small).expect("closed again").len_bytes() == 1 << 16);
}

#[test]
fn a_device_whose_end_is_missing_counts_as_lost() {
    let (_folder, root, service) = served();
    let data = painted(8, 3_000_000);
    service.handle().write(0, &data, true).expect("it writes");
    service.stop().expect("it stops");
    let cut = |device: u32| {
        let path = root.join(format!("device-{device:02}.pantile"));
        let file = std::fs::OpenOptions::new().write(true).open(&path).expect("a device");
        file.set_len(path.metadata().expect("a device").len() - 4096).expect("it can be cut");
    };
    cut(1);
    let service = start(&root);
    let report = status(&service);
    assert_eq!((report.verdict, report.devices[1].state), (Verdict::Degraded, DeviceWord::Lost));
    let problem = report.devices[1].problem.clone().unwrap_or_default();
    assert!(problem.contains("its end is missing"), "{problem}");
    assert!(read(&service, data.len()) == data);
    service.stop().expect("it stops");
    (2..4).for_each(cut);
    let refused = Service::start(Folder::open(&root).expect("a folder"), None).err();
    let says = refused.map(|error| error.to_string()).unwrap_or_default();
    assert!(says.contains("3 devices are there, 4 are needed"), "{says}");
}

/// The copy has the volume, the slot and the history of the removed device, but is of an earlier
/// time.
#[test]
fn a_copy_of_an_earlier_time_is_not_taken_for_the_device() {
    let (folder, root, service) = served();
    service.handle().write(0, &painted(9, 3_000_000), true).expect("it writes");
    service.stop().expect("it stops");
    let (device, copy) = (root.join("device-03.pantile"), folder.path().join("copy"));
    std::fs::copy(&device, &copy).expect("a copy");
    let service = start(&root);
    let data = painted(10, 3_000_000);
    service.handle().write(0, &data, true).expect("it writes");
    done(service.obey(&Order::Fail { device: 3, lose_data: false }));
    let replace = |path: &Path, overwrite| {
        service.obey(&Order::Replace { device: 3, path: path.to_path_buf(), overwrite })
    };
    let answer = replace(&copy, false);
    assert!(matches!(&answer, Answer::Fault { kind: FaultKind::Input, .. }), "{answer:?}");
    let answer = replace(&device, false);
    assert!(matches!(&answer, Answer::Done { text } if text.contains("caught up")), "{answer:?}");
    until_clean(&service);
    service.stop().expect("it stops");
    // A copy that replaces the device while the volume is stopped is rebuilt.
    std::fs::copy(&copy, &device).expect("a copy");
    let service = start(&root);
    until_clean(&service);
    is_read_without(&service, [0, 5], &data);
    service.stop().expect("it stops");
}

/// The copy has the superblock of the session, but lacks its last records.
#[test]
fn a_copy_from_within_the_last_session_is_rebuilt() {
    let (folder, root, service) = served();
    service.handle().write(0, &painted(70, 3_000_000), true).expect("it writes");
    let (device, copy) = (root.join("device-03.pantile"), folder.path().join("copy"));
    std::fs::copy(&device, &copy).expect("a copy");
    let data = painted(71, 3_000_000);
    service.handle().write(0, &data[..1_000_000], true).expect("it writes");
    service.handle().write(1_000_000, &data[1_000_000..], true).expect("it writes");
    service.stop().expect("it stops");
    std::fs::copy(&copy, &device).expect("a copy");
    let service = start(&root);
    until_clean(&service);
    is_read_without(&service, [0, 5], &data);
    service.stop().expect("it stops");
}

/// The copy has the superblock from before the loss, but lacks writes of that time. It is caught up
/// from the loss on, and the verification finds the others.
#[test]
fn a_copy_from_before_the_loss_is_verified_after_it_is_caught_up() {
    let (folder, root, service) = served();
    service.handle().write(0, &painted(80, 3_000_000), true).expect("it writes");
    let copy = folder.path().join("copy");
    std::fs::copy(root.join("device-03.pantile"), &copy).expect("a copy");
    let data = painted(81, 3_000_000);
    service.handle().write(0, &data, true).expect("it writes");
    done(service.obey(&Order::Fail { device: 3, lose_data: false }));
    let answer = service.obey(&Order::Replace { device: 3, path: copy, overwrite: false });
    let says = |text: &str| text.contains("caught up") && text.contains("verified");
    assert!(matches!(&answer, Answer::Done { text } if says(text)), "{answer:?}");
    until(&service, |status| {
        service.look_after();
        status.devices[3].verification.is_none() && status.verdict == Verdict::Clean
    });
    is_read_without(&service, [0, 5], &data);
    service.stop().expect("it stops");
}

/// The copy has the newest superblock, but lacks later writes, and no record shows that.
#[test]
fn a_copy_of_a_device_that_is_here_is_rebuilt() {
    let (folder, root, service) = served();
    service.handle().write(0, &painted(60, 3_000_000), true).expect("it writes");
    let copy = folder.path().join("copy");
    std::fs::copy(root.join("device-02.pantile"), &copy).expect("a copy");
    let data = painted(61, 3_000_000);
    service.handle().write(0, &data, true).expect("it writes");
    let replace = |overwrite| service.obey(&Order::Replace { device: 2, path: copy.clone(), overwrite });
    let answer = replace(false);
    let says = |text: &str| text.contains("belongs to the volume 'v'") && text.contains("--yes");
    assert!(matches!(&answer, Answer::Fault { kind: FaultKind::Input, text } if says(text)), "{answer:?}");
    assert_eq!(status(&service).devices[2].state, DeviceWord::Present);
    let answer = replace(true);
    assert!(
        matches!(&answer, Answer::Done { text } if text.contains("becomes a copy of device 2")),
        "{answer:?}"
    );
    until_clean(&service);
    is_read_without(&service, [0, 1], &data);
    service.stop().expect("it stops");
}

/// The text of a user's own code is stored on every device. One intact copy suffices, and the
/// others are repaired.
#[test]
fn a_code_of_ones_own_is_read_from_any_device() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("v");
    let text = Code::parse("raid6:3").expect("a spec").to_text();
    let code = Code::from_text(&text).expect("a code");
    let made = NewFolder { code, ..new("raid6:3", NewDevices::Made { user_bytes: 4 << 20 }) };
    drop(Folder::create(&root, &made).expect("a volume"));
    let path = |device: u32| root.join(format!("device-0{device}.pantile"));
    let service = start(&root);
    let data = painted(70, 2_000_000);
    service.handle().write(0, &data, true).expect("it writes");
    service.stop().expect("it stops");
    let rot = |device| {
        let mut bytes = std::fs::read(path(device)).expect("a device");
        bytes[8192 + 7] ^= 1;
        std::fs::write(path(device), bytes).expect("it rots");
    };
    let paths: Vec<PathBuf> = (0..5).map(path).collect();
    let text_on = |device| std::fs::read(path(device)).expect("a device")[8192..8192 + text.len()].to_vec();
    for whole in [2, 4] {
        (0..5).filter(|device| *device != whole).for_each(rot);
        let looks = Service::look(Folder::open(&root).expect("a folder")).expect("it is looked at");
        assert_eq!(status(&looks).verdict, Verdict::Clean);
        drop(looks);
        let (again, found) =
            Folder::assemble(&folder.path().join(format!("again-{whole}")), &paths).expect("a volume");
        assert_eq!((found.slots, found.devices.len()), (5, 5));
        drop(again);
        let service = start(&root);
        assert!(read(&service, data.len()) == data);
        service.stop().expect("it stops");
        assert!((0..5).all(|device| text_on(device) == text_on(whole)), "it is not written again");
    }
    (0..5).for_each(rot);
    let refused = Service::start(Folder::open(&root).expect("a folder"), None).err();
    let says = refused.as_ref().map(ToString::to_string).unwrap_or_default();
    assert_eq!(refused.map(|error| error.kind()), Some(FaultKind::Losses));
    let names = |device| says.contains(&path(device).display().to_string());
    assert!(
        (0..5).all(names) && says.contains("text of the volume's code") && says.contains("bring back"),
        "{says}"
    );
}

/// The given devices are longer than the volume needs, one of them by far. The last superblock of
/// each is at the end of the volume, not of the device.
#[test]
fn a_device_whose_front_was_overwritten_is_found_by_its_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("v");
    let len = |device: u64| 50_000_000 + if device == 1 { 64 << 20 } else { device * 4096 };
    let paths: Vec<PathBuf> = (0..6).map(|i| file(folder.path().join(format!("d{i}")), len(i))).collect();
    drop(Folder::create(&root, &new("raid6:4", NewDevices::Given(paths.clone()))).expect("a volume"));
    let service = start(&root);
    let data = painted(80, 2_000_000);
    service.handle().write(0, &data, true).expect("it writes");
    service.stop().expect("it stops");
    let overwrite = |path: &PathBuf| {
        let mut file = std::fs::OpenOptions::new().write(true).open(path).expect("a device");
        file.write_all(&[0; 8192]).expect("it is written");
    };
    // Even if its own front is overwritten, the long device is identified from the others.
    for spoiled in [3, 6] {
        paths[..spoiled].iter().for_each(overwrite);
        let (again, found) =
            Folder::assemble(&folder.path().join(spoiled.to_string()), &paths).expect("a volume");
        assert_eq!((found.devices.len(), found.left_out.len()), (6, 0), "{:?}", found.left_out);
        drop(again);
        let service = start(&root);
        assert_eq!(status(&service).margin.lost, [0; 0], "{:?}", status(&service).wrong);
        assert!(read(&service, data.len()) == data);
        service.stop().expect("it stops");
    }
    // A device whose front alone was overwritten is not blank; a device that was wiped is.
    let stray = folder.path().join("stray");
    std::fs::copy(&paths[0], &stray).expect("a copy");
    overwrite(&stray);
    let service = start(&root);
    let spare = |overwrite| service.obey(&Order::AddSpare { path: stray.clone(), overwrite });
    let answer = spare(false);
    assert!(
        matches!(&answer, Answer::Fault { text, .. } if text.contains("belongs to the volume")),
        "{answer:?}"
    );
    done(spare(true));
    done(service.obey(&Order::RemoveSpare { path: stray.clone() }));
    done(spare(false));
    service.stop().expect("it stops");
}

/// An old copy of a device at the path of another device never replaces an intact device, whichever
/// line comes first. The report names both.
#[test]
fn of_two_that_are_the_same_device_the_newer_is_used() {
    let (folder, root, service) = served();
    let path = |device: u32| root.join(format!("device-0{device}.pantile"));
    service.handle().write(0, &painted(50, 3_000_000), true).expect("it writes");
    service.stop().expect("it stops");
    let old = folder.path().join("old");
    std::fs::copy(path(3), &old).expect("a copy");
    let service = start(&root);
    let data = painted(51, 3_000_000);
    service.handle().write(0, &data, true).expect("it writes");
    service.stop().expect("it stops");
    for (kept, taken) in [(3, 0), (3, 5)] {
        let hidden = folder.path().join("hidden");
        std::fs::rename(path(taken), &hidden).expect("a device");
        std::fs::copy(&old, path(taken)).expect("a copy");
        let told = |report: &StatusReport| {
            assert_eq!(report.margin.lost, [taken], "{:?}", report.wrong);
            let problem = report.devices[taken as usize].problem.clone().unwrap_or_default();
            let names = |device: u32| problem.contains(&path(device).display().to_string());
            assert!(names(kept) && names(taken) && problem.contains("device 3"), "{problem}");
        };
        let looks = Service::look(Folder::open(&root).expect("a folder")).expect("it is looked at");
        told(&status(&looks));
        drop(looks);
        let service = start(&root);
        told(&status(&service));
        assert_eq!(status(&service).devices[3].path, Some(path(kept)));
        assert!(read(&service, data.len()) == data);
        service.stop().expect("it stops");
        assert!(
            std::fs::read(path(taken)).expect("a file") == std::fs::read(&old).expect("a file"),
            "left alone"
        );
        // The device that was at this path replaces the copy.
        std::fs::rename(&hidden, path(taken)).expect("a device");
        let service = start(&root);
        until_clean(&service);
        service.stop().expect("it stops");
    }
    // The newer one is at the path of slot 0, and the old copy at that of slot 3: the newer one is
    // used.
    std::fs::rename(path(3), path(0)).expect("a device");
    std::fs::copy(&old, path(3)).expect("a copy");
    let service = start(&root);
    let report = status(&service);
    assert_eq!(
        (&report.margin.lost[..], &report.devices[3].path),
        (&[0][..], &Some(path(0))),
        "{:?}",
        report.wrong
    );
    assert!(report.wrong[0].contains(&path(3).display().to_string()), "{:?}", report.wrong);
    assert!(read(&service, data.len()) == data);
    service.stop().expect("it stops");
}

/// A copy from before the last session is certainly older. For a copy from within this session that
/// is not certain, and nothing is guessed.
#[test]
fn of_two_copies_the_newer_is_assembled_and_equal_ones_are_refused() {
    let (folder, root, service) = served();
    let path = |device: u32| root.join(format!("device-0{device}.pantile"));
    service.handle().write(0, &painted(60, 3_000_000), true).expect("it writes");
    service.stop().expect("it stops");
    let [old, equal] = ["old", "equal"].map(|name| folder.path().join(name));
    std::fs::copy(path(3), &old).expect("a copy");
    let service = start(&root);
    let data = painted(61, 3_000_000);
    service.handle().write(0, &data, true).expect("it writes");
    service.stop().expect("it stops");
    std::fs::copy(path(3), &equal).expect("a copy");
    let all: Vec<PathBuf> = (0..6).map(path).collect();
    let with = |more: &Path, first: bool| {
        let mut paths = all.clone();
        paths.insert(if first { 0 } else { 6 }, more.to_path_buf());
        paths
    };
    for first in [true, false] {
        let again = folder.path().join(format!("again {first}"));
        let (made, found) = Folder::assemble(&again, &with(&old, first)).expect("it is assembled");
        drop(made);
        assert_eq!((&found.devices[&3], found.devices.len(), found.enough), (&path(3), 6, true));
        assert_eq!(found.left_out[0].0, old);
        assert!(found.left_out[0].1.contains("older copy of device 3"), "{:?}", found.left_out);
        let refused =
            Folder::assemble(&folder.path().join("refused"), &with(&equal, first)).expect_err("a guess");
        assert!(matches!(&refused, FolderError::SlotTwice { slot, .. } if slot.0 == 3), "{refused:?}");
        assert!(refused.to_string().contains("give only one of them"), "{refused}");
    }
    let service = start(&folder.path().join("again true"));
    assert_eq!(status(&service).verdict, Verdict::Clean);
    assert!(read(&service, data.len()) == data);
    service.stop().expect("it stops");
    // A device that ran alone is not used, even if its superblock is the newest.
    let others: Vec<PathBuf> = (0..4).map(path).chain([old.clone()]).collect();
    let alone = folder.path().join("alone");
    drop(Folder::assemble(&alone, &others).expect("four are enough"));
    let service = start(&alone);
    service.handle().write(0, &data[..9999], true).expect("it writes");
    service.stop().expect("it stops");
    let stale = Folder::assemble(&folder.path().join("stale"), &with(&equal, true)).expect("it is assembled");
    assert_eq!(stale.1.left_out.len(), 1);
    assert_eq!((stale.1.devices[&3].as_path(), &stale.1.stale[..]), (path(3).as_path(), &[4, 5][..]));
}
