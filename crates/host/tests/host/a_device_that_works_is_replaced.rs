//! A working device that is being replaced stays in the volume until the new one is a copy of it.

use crate::common::folders::*;
use crate::common::painted;
use pantile_host::{
    Answer, DeviceWord, FaultKind, FindingKind, Folder, Order, Service, StatusReport, Verdict,
};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A rate at which the copy of a device of some MiB does not end while a test runs.
const SLOW: u64 = 200_000;

fn throttle(service: &Service, rate: u64) {
    done(service.obey(&Order::Rebuild { throttle_bytes_per_s: Some(rate) }));
}

fn replace(service: &Service, path: &Path) -> Answer {
    service.obey(&Order::Replace { device: 5, path: path.to_path_buf(), overwrite: false })
}

fn copied(report: &StatusReport) -> Option<u64> {
    report.devices[5].replacement.as_ref().map(|copy| copy.copied_bytes)
}

fn is_replaced(report: &StatusReport) -> bool {
    report.devices[5].replacement.is_none()
}

/// Returns a volume with data, and a blank device that fits it.
fn with_data(seed: u64) -> (TempDir, PathBuf, Service, Vec<u8>, PathBuf) {
    let (folder, root, service) = served();
    let data = painted(seed, 7_000_000);
    service.handle().write(0, &data, true).expect("it writes");
    let len = root.join("device-05.pantile").metadata().expect("a device").len();
    let new = file(folder.path().join("new"), len);
    (folder, root, service, data, new)
}

#[test]
fn replacing_a_device_that_works_never_lowers_the_margin() {
    let (_folder, root, service, mut data, new) = with_data(1);
    // After these two losses no further device can fail, so this one cannot be spared for a moment.
    done(service.obey(&Order::Fail { device: 1, lose_data: false }));
    done(service.obey(&Order::Fail { device: 2, lose_data: false }));
    throttle(&service, SLOW);
    done(replace(&service, &new));
    let copies = |report: &StatusReport| {
        let device = &report.devices[5];
        assert_eq!(device.state, DeviceWord::Present, "{:?}", report.wrong);
        assert!(report.margin.survives && report.margin.lost == [1, 2], "{:?}", report.margin);
        assert_eq!(device.path.as_deref(), Some(&*root.join("device-05.pantile")));
    };
    copies(&status(&service));
    assert!(copied(&status(&service)).is_some());
    assert!(matches!(replace(&service, &new), Answer::Fault { kind: FaultKind::Input, .. }));
    // Writes during the copy, to the part that is copied already and to the rest.
    for (number, at) in (0..8u64).map(|number| (number, number as usize * 800_000)) {
        let piece = painted(20 + number, 50_000);
        service.handle().write(at as u64, &piece, true).expect("it writes");
        data[at..at + piece.len()].copy_from_slice(&piece);
        copies(&status(&service));
        assert!(read(&service, data.len()) == data);
    }
    throttle(&service, 0);
    until(&service, |report| {
        service.look_after();
        assert_eq!(report.devices[5].state, DeviceWord::Present);
        assert!(report.margin.survives);
        is_replaced(report)
    });
    assert_eq!(status(&service).devices[5].path.as_deref(), Some(&*new));
    assert!(read(&service, data.len()) == data);
    let piece = painted(50, 100_000);
    service.handle().write(5000, &piece, true).expect("it writes");
    data[5000..105_000].copy_from_slice(&piece);
    // The old device no longer belongs to the volume, and the new one is complete without it.
    service.stop().expect("it stops");
    std::fs::remove_file(root.join("device-05.pantile")).expect("a file");
    let service = start(&root);
    assert!(read(&service, data.len()) == data);
    for device in [1, 2] {
        let path = root.join(format!("device-0{device}.pantile"));
        done(service.obey(&Order::Replace { device, path, overwrite: true }));
    }
    until_clean(&service);
    done(service.obey(&Order::ScrubStart { repair: false }));
    until(&service, |report| report.scrub.as_ref().is_some_and(|scrub| !scrub.running));
    let scrub = status(&service).scrub.expect("it has been scrubbed");
    assert!(!scrub.is_bad(), "{scrub:?}");
    service.stop().expect("it stops");
}

#[test]
fn a_replacement_that_is_cut_off_leaves_the_old_device_and_begins_again() {
    let (_folder, root, mut service, data, new) = with_data(2);
    throttle(&service, SLOW);
    done(replace(&service, &new));
    for in_order in [false, true, false] {
        assert!(copied(&status(&service)).is_some());
        if in_order {
            service.stop().expect("it stops");
        }
        // Without a stop this is like a kill of the process.
        drop(service);
        service = start(&root);
        let report = status(&service);
        assert_eq!(report.devices[5].path.as_deref(), Some(&*root.join("device-05.pantile")));
        assert_eq!(report.verdict, Verdict::Clean, "{:?}", report.wrong);
        assert!(read(&service, data.len()) == data);
        service.look_after();
    }
    throttle(&service, 0);
    until(&service, |report| {
        service.look_after();
        is_replaced(report)
    });
    let report = status(&service);
    assert_eq!((report.devices[5].path.as_deref(), report.verdict), (Some(&*new), Verdict::Clean));
    drop(service);
    let service = start(&root);
    assert!(read(&service, data.len()) == data);
    assert_eq!(status(&service).devices[5].path.as_deref(), Some(&*new));
    service.stop().expect("it stops");
}

#[test]
fn a_device_that_is_lost_while_it_is_replaced_is_rebuilt_on_the_new_one() {
    let (_folder, root, service, data, new) = with_data(3);
    throttle(&service, SLOW);
    done(replace(&service, &new));
    done(service.obey(&Order::Fail { device: 5, lose_data: false }));
    throttle(&service, 0);
    until(&service, |report| {
        service.look_after();
        report.verdict == Verdict::Clean && report.rebuild.is_none() && is_replaced(report)
    });
    assert_eq!(status(&service).devices[5].path.as_deref(), Some(&*new));
    is_read_without(&service, [0, 1], &data);
    service.stop().expect("it stops");
    drop(root);
}

const BLOCK: u64 = 4096;

/// Returns the blocks of superblocks, in the order in which the end of a copy writes them.
fn superblocks(device: &Path) -> [u64; 3] {
    [0, 1, device.metadata().expect("a device").len() / BLOCK - 1]
}

/// Copies blocks from one device to another, as files.
fn copy_blocks(from: &Path, to: &Path, blocks: impl IntoIterator<Item = u64>) {
    let from = std::fs::File::open(from).expect("a device");
    let to = OpenOptions::new().write(true).open(to).expect("a device");
    for block in blocks {
        let mut bytes = [0; BLOCK as usize];
        from.read_exact_at(&mut bytes, block * BLOCK).expect("it reads");
        to.write_all_at(&bytes, block * BLOCK).expect("it writes");
    }
}

fn until_replaced(service: &Service, new: &Path) {
    throttle(service, 0);
    until(service, |report| {
        service.look_after();
        assert_eq!(report.verdict, Verdict::Clean, "{:?}", report.wrong);
        is_replaced(report)
    });
    assert_eq!(status(service).devices[5].path.as_deref(), Some(new));
}

/// Returns the events of device 5, the oldest first.
fn events(service: &Service) -> Vec<String> {
    let events = status(service).events;
    events.into_iter().filter(|event| event.device == Some(5)).map(|event| event.text).collect()
}

#[test]
fn a_crash_while_superblocks_of_a_copy_are_written_leaves_a_copy_that_goes_on_by_itself() {
    // The number of superblocks that were written, of three, and whether the old device ran without
    // the new one afterwards.
    for (written, runs_on) in [(0, false), (1, false), (2, false), (3, false), (3, true)] {
        let (_folder, root, service, data, new) = with_data(4);
        let old = root.join("device-05.pantile");
        throttle(&service, SLOW);
        done(replace(&service, &new));
        until(&service, |report| copied(report).is_some_and(|bytes| bytes > 0));
        service.stop().expect("it stops");
        drop(service);
        let places = superblocks(&old);
        copy_blocks(&old, &new, (0..=places[2]).filter(|block| !places.contains(block)));
        copy_blocks(&old, &new, places[..written].iter().copied());
        if runs_on {
            let away = new.with_extension("away");
            std::fs::rename(&new, &away).expect("it is renamed");
            let service = start(&root);
            service.handle().write(0, &data[..50_000], true).expect("it writes");
            service.stop().expect("it stops");
            std::fs::rename(&away, &new).expect("it is renamed");
        }
        let service = start(&root);
        assert_eq!(status(&service).devices[5].path.as_deref(), Some(&*old), "{written} written");
        service.look_after();
        assert!(copied(&status(&service)).is_some(), "{written} written: {:?}", status(&service).wrong);
        until_replaced(&service, &new);
        assert!(read(&service, data.len()) == data, "{written} written");
        service.stop().expect("it stops");
    }
}

#[test]
fn a_device_that_holds_another_device_of_the_volume_is_not_copied_to_under_the_name_of_the_new_one() {
    let (_folder, root, service, data, new) = with_data(5);
    throttle(&service, SLOW);
    done(replace(&service, &new));
    service.stop().expect("it stops");
    // The path is now that of a copy of device 4.
    std::fs::copy(root.join("device-04.pantile"), &new).expect("it is copied");
    let service = start(&root);
    service.look_after();
    let report = status(&service);
    assert!(report.wrong.iter().any(|line| line.contains("belongs to the volume")), "{:?}", report.wrong);
    // The order only removes the replacement from the folder.
    done(service.obey(&Order::CancelReplace { device: 5 }));
    assert_eq!(status(&service).verdict, Verdict::Clean, "{:?}", status(&service).wrong);
    assert!(read(&service, data.len()) == data);
    service.stop().expect("it stops");
    let same = std::fs::read(root.join("device-04.pantile")).expect("it reads").len();
    assert_eq!(std::fs::read(&new).expect("it reads").len(), same);
}

#[test]
fn a_replacement_is_cancelled_and_the_old_device_stays() {
    let (_folder, root, service, mut data, new) = with_data(6);
    let old = root.join("device-05.pantile");
    let none = service.obey(&Order::CancelReplace { device: 5 });
    assert!(matches!(none, Answer::Fault { kind: FaultKind::Input, .. }), "{none:?}");
    done(service.obey(&Order::Fail { device: 1, lose_data: false }));
    for by_the_old in [false, true] {
        throttle(&service, SLOW);
        // The new device is as blank as before the first replacement.
        done(replace(&service, &new));
        until(&service, |report| copied(report).is_some_and(|bytes| bytes > 0));
        match by_the_old {
            false => done(service.obey(&Order::CancelReplace { device: 5 })),
            true => done(replace(&service, &old)),
        }
        let report = status(&service);
        assert!(
            is_replaced(&report) && report.margin.lost == [1] && report.margin.any_more == 1,
            "{report:?}"
        );
        assert_eq!(report.devices[5].path.as_deref(), Some(&*old));
        assert!(report.devices[5].problem.is_none(), "{report:?}");
        let piece = painted(60, 40_000);
        service.handle().write(9000, &piece, true).expect("it writes");
        data[9000..49_000].copy_from_slice(&piece);
        assert!(
            events(&service).last().is_some_and(|text| text.contains("cancelled")),
            "{:?}",
            events(&service)
        );
    }
    service.stop().expect("it stops");
    drop(service);
    std::fs::remove_file(&new).expect("a file");
    let service = start(&root);
    service.look_after();
    assert!(is_replaced(&status(&service)) && read(&service, data.len()) == data);
    service.stop().expect("it stops");
}

#[test]
fn a_replacement_by_the_wrong_device_is_corrected_to_another() {
    let (folder, root, service, data, wrong) = with_data(7);
    let right = file(folder.path().join("right"), wrong.metadata().expect("a device").len());
    throttle(&service, SLOW);
    done(replace(&service, &wrong));
    until(&service, |report| copied(report).is_some_and(|bytes| bytes > 0));
    // An order with a device that does not fit does not end the present replacement.
    let short = file(folder.path().join("short"), 1 << 20);
    assert!(matches!(replace(&service, &short), Answer::Fault { .. }));
    let by = |report: &StatusReport| report.devices[5].replacement.as_ref().map(|copy| copy.path.clone());
    assert_eq!(by(&status(&service)), Some(wrong.clone()));
    done(replace(&service, &right));
    assert_eq!(by(&status(&service)), Some(right.clone()));
    assert_eq!(status(&service).devices[5].state, DeviceWord::Present);
    until_replaced(&service, &right);
    assert!(read(&service, data.len()) == data);
    // The first device is released, and as blank as before.
    done(service.obey(&Order::AddSpare { path: wrong, overwrite: false }));
    service.stop().expect("it stops");
    drop(root);
}

/// Makes a copy fail, because the new device reads back other bytes than were written.
fn fails(service: &Service, new: &Path) {
    throttle(service, SLOW * 10);
    done(service.obey(&Order::Replace { device: 5, path: new.to_path_buf(), overwrite: true }));
    until(service, |report| copied(report).is_some_and(|bytes| bytes >= 2 << 20));
    let device = OpenOptions::new().write(true).open(new).expect("a device");
    device.write_all_at(&[0x5a; 16 * BLOCK as usize], 100 * BLOCK).expect("it writes");
    throttle(service, 0);
    until(service, |report| {
        service.look_after();
        is_replaced(report)
    });
}

#[test]
fn a_copy_that_reads_back_other_bytes_fails_and_that_is_remembered_until_it_is_known_or_another_succeeds() {
    let (folder, root, mut service, data, new) = with_data(8);
    let old = root.join("device-05.pantile");
    let failed = |service: &Service| {
        let report = status(service);
        assert_eq!(report.devices[5].path.as_deref(), Some(&*old));
        assert!(report.verdict > Verdict::Clean, "{report:?}");
        assert!(
            report.wrong.iter().any(|line| line.contains("other bytes than were written")),
            "{:?}",
            report.wrong
        );
        report.has(FindingKind::CopyFailed)
    };
    for is_known in [true, false] {
        fails(&service, &new);
        assert!(!failed(&service), "it is said once");
        assert!(
            events(&service).last().is_some_and(|text| text.contains("failed: it read back other bytes"))
        );
        service.stop().expect("it stops");
        drop(service);
        service = start(&root);
        service.look_after();
        assert!(failed(&service), "{:?}", status(&service).wrong);
        assert!(read(&service, data.len()) == data);
        match is_known {
            true => done(service.obey(&Order::ClearErrors { device: 5 })),
            false => {
                let other = file(folder.path().join("other"), new.metadata().expect("a device").len());
                done(replace(&service, &other));
                until_replaced(&service, &other);
                assert!(events(&service).iter().any(|text| text.contains("was replaced by its copy")));
            }
        }
        assert_eq!(status(&service).verdict, Verdict::Clean, "{:?}", status(&service).wrong);
    }
    service.stop().expect("it stops");
    drop(service);
    let service = start(&root);
    assert_eq!(status(&service).verdict, Verdict::Clean, "{:?}", status(&service).wrong);
    service.stop().expect("it stops");
}

#[test]
fn devices_alone_say_which_of_them_is_a_copy_under_way() {
    let (folder, root, service, data, new) = with_data(9);
    throttle(&service, SLOW);
    done(replace(&service, &new));
    until(&service, |report| copied(report).is_some_and(|bytes| bytes > 0));
    service.stop().expect("it stops");
    drop(service);
    let mut paths: Vec<PathBuf> = (0..6).map(|slot| root.join(format!("device-0{slot}.pantile"))).collect();
    paths.insert(0, new.clone());
    let again = folder.path().join("again");
    let (made, found) = Folder::assemble(&again, &paths).expect("it is assembled");
    assert!(found.enough && found.stale.is_empty() && found.devices.len() == 6, "{found:?}");
    assert!(
        found.left_out.iter().any(|(path, why)| *path == new && why.contains("copy of device 5")),
        "{found:?}"
    );
    drop(made);
    let service = start(&again);
    assert_eq!(status(&service).devices[5].path.as_deref(), Some(&*paths[6]));
    service.look_after();
    until_replaced(&service, &new);
    assert!(read(&service, data.len()) == data);
    service.stop().expect("it stops");
}

/// Changes a byte in each used block in the second half of a device, as undetected bit rot would.
/// Returns the number of these blocks.
fn rot(device: &Path) -> usize {
    let file = OpenOptions::new().read(true).write(true).open(device).expect("a device");
    let blocks = file.metadata().expect("a device").len() / BLOCK;
    let mut rotten = 0;
    for block in (blocks / 2..blocks - 1).step_by(3) {
        let mut bytes = [0; BLOCK as usize];
        file.read_exact_at(&mut bytes, block * BLOCK).expect("it reads");
        if bytes.iter().any(|&byte| byte != 0) {
            bytes[77] ^= 1;
            file.write_all_at(&bytes, block * BLOCK).expect("it writes");
            rotten += 1;
        }
    }
    rotten
}

fn is_verified(report: &StatusReport) -> bool {
    is_replaced(report) && report.devices[5].verification.is_none()
}

/// Waits for a copy, and begins its verification, which does not end while a test runs.
fn begin_slow_verification(service: &Service) {
    let is_read_back = |report: &StatusReport| {
        let copy = report.devices[5].replacement.as_ref().expect("it is copied");
        copy.verified_bytes == copy.total_bytes
    };
    until(service, is_read_back);
    throttle(service, 20_000);
    // An order also runs a maintenance turn.
    until(service, |report| {
        service.look_after();
        is_replaced(report)
    });
    service.look_after();
    assert!(status(service).devices[5].verification.is_some());
}

#[test]
fn blocks_that_rotted_unseen_on_the_old_device_are_right_on_the_new_one() {
    let (_folder, root, service, data, new) = with_data(7);
    assert!(rot(&root.join("device-05.pantile")) > 20);
    done(replace(&service, &new));
    until(&service, |report| {
        service.look_after();
        is_verified(report)
    });
    let said = events(&service);
    let last = said.last().expect("events");
    assert!(last.contains("was verified") && last.contains("bad parts rebuilt"), "{said:?}");
    let report = status(&service);
    assert_eq!(report.scrub, None, "no scrub of all devices");
    assert_eq!(
        (report.verdict, report.devices[5].checksum_errors),
        (Verdict::Clean, 0),
        "{:?}",
        report.wrong
    );
    is_read_without(&service, [0, 1], &data);
    service.stop().expect("it stops");
}

#[test]
fn a_copy_is_verified_from_the_front_again_after_a_crash_and_once() {
    let (_folder, root, service, data, new) = with_data(8);
    done(service.obey(&Order::ScrubStart { repair: false }));
    until(&service, |report| report.scrub.as_ref().is_some_and(|scrub| !scrub.running));
    let scrubbed = status(&service).scrub;
    assert!(rot(&root.join("device-05.pantile")) > 20);
    done(replace(&service, &new));
    begin_slow_verification(&service);
    let report = status(&service);
    assert!(report.devices[5].verification.is_some() && report.devices[5].path.as_deref() == Some(&*new));
    // This is like a kill of the process.
    drop(service);
    let service = start(&root);
    let report = status(&service);
    assert!(report.devices[5].verification.is_some_and(|proof| proof.done_stripes < proof.total_stripes));
    throttle(&service, 0);
    until(&service, |report| {
        service.look_after();
        is_verified(report)
    });
    assert_eq!(status(&service).scrub, scrubbed, "the last scrub of all devices is the last one");
    is_read_without(&service, [0, 1], &data);
    let said = events(&service).into_iter().filter(|text| text.contains("was verified")).count();
    service.stop().expect("it stops");
    let service = start(&root);
    service.look_after();
    assert!(is_verified(&status(&service)));
    assert_eq!(events(&service).iter().filter(|text| text.contains("was verified")).count(), said);
    service.stop().expect("it stops");
}

#[test]
fn a_scrub_with_repair_that_begins_meanwhile_counts_as_the_verification() {
    let (_folder, root, service, data, new) = with_data(9);
    assert!(rot(&root.join("device-05.pantile")) > 20);
    done(replace(&service, &new));
    begin_slow_verification(&service);
    // Times have a resolution of a second, and the engine's clock can be a second late.
    std::thread::sleep(std::time::Duration::from_millis(2100));
    done(service.obey(&Order::ScrubStart { repair: true }));
    throttle(&service, 0);
    until(&service, |report| {
        service.look_after();
        is_verified(report)
    });
    let scrub = status(&service).scrub.expect("it was ordered");
    assert!(!scrub.running && scrub.repaired > 0, "{scrub:?}");
    assert!(!events(&service).iter().any(|text| text.contains("was verified")));
    is_read_without(&service, [0, 1], &data);
    service.stop().expect("it stops");
}
