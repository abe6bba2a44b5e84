//! A Clay volume works like any other, although its columns have several rows, coupled by
//! equations.

use crate::common::folders::*;
use crate::common::painted;
use pantile_host::{Folder, NewDevices, Order};

/// The volume is written, read and overwritten without two devices, rebuilt onto new ones, and
/// scrubbed; then it is read without two other devices.
#[test]
fn after_two_devices_are_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("v");
    drop(
        Folder::create(&root, &new("clay:4,2,5", NewDevices::Made { user_bytes: 8 << 20 }))
            .expect("a volume"),
    );
    let device = |number: u32| root.join(format!("device-0{number}.pantile"));
    let len = device(0).metadata().expect("a device").len();
    let mut data = painted(1, 5_000_000);
    let service = start(&root);
    service.handle().write(0, &data, true).expect("it writes");
    service.stop().expect("it stops");

    for lost in [1, 4] {
        std::fs::remove_file(device(lost)).expect("a file");
    }
    let service = start(&root);
    assert!(read(&service, data.len()) == data, "without two");
    let piece = painted(2, 300_001);
    service.handle().write(70_003, &piece, true).expect("it writes without two");
    data[70_003..370_004].copy_from_slice(&piece);
    for lost in [1, 4] {
        let path = file(folder.path().join(format!("new{lost}")), len);
        done(service.obey(&Order::Replace { device: lost, path, overwrite: true }));
    }
    until_clean(&service);
    done(service.obey(&Order::ScrubStart { repair: false }));
    until(&service, |report| report.scrub.as_ref().is_some_and(|scrub| !scrub.running));
    let scrub = status(&service).scrub.expect("it has been scrubbed");
    assert!(!scrub.is_bad(), "{scrub:?}");
    service.stop().expect("it stops");

    for lost in [0, 5] {
        std::fs::remove_file(device(lost)).expect("a file");
    }
    let service = start(&root);
    assert!(read(&service, data.len()) == data, "what was rebuilt stands in for two others");
    service.stop().expect("it stops");
}
