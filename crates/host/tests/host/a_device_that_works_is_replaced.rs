//! A device that works and is replaced stays in the volume until the new one is a copy of it.

use crate::common::folders::*;
use crate::common::painted;
use pantile_host::{Answer, DeviceWord, FaultKind, Order, Service, StatusReport, Verdict};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// So slow that a copy of a device of some MiB does not end by itself while a test looks.
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

/// A volume with data, and a new device for it.
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
    // Nothing more may be lost: the device could not be spared for a moment.
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
    // What is written meanwhile, where the copy was and where it comes to.
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
    // The old one is nobody's any more, and the new one holds what it must without it.
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
        // As if the process were killed, if it did not stop.
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
fn a_device_that_is_lost_while_it_is_replaced_is_made_anew_on_the_new_one() {
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
    done(service.obey(&Order::Fail { device: 0, lose_data: false }));
    done(service.obey(&Order::Fail { device: 1, lose_data: false }));
    assert!(read(&service, data.len()) == data);
    service.stop().expect("it stops");
    drop(root);
}
