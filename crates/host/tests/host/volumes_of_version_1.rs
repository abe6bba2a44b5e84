//! Volumes that the build of commit 7fa41de made, in format version 1: every later build opens,
//! repairs and writes them, and leaves them what they are.

use crate::common::folders::*;
use crate::common::images::{Expected, OF_VERSION_1, device_path, unpack};
use pantile_host::{Order, Service, StatusReport};
use std::path::Path;

/// Where this test writes: behind what the images hold.
const OWN: u64 = 600 << 10;

fn has(service: &Service, expected: &Expected, name: &str) {
    for &(at, len, byte) in expected {
        let mut found = vec![0; len];
        service.handle().read(at, &mut found).unwrap_or_else(|error| panic!("{name}, {at}: {error}"));
        assert!(found.iter().all(|&found| found == byte), "{name}, {at}: {} for {byte}", found[0]);
    }
}

/// The format versions that stand in front of a device.
fn versions(path: &Path) -> Vec<u32> {
    let bytes = std::fs::read(path).expect("a device");
    let places = [0, 4096].into_iter().filter(|&at| bytes[at..at + 8] == *b"PANTVOLM");
    places.map(|at| u32::from_le_bytes(bytes[at + 8..at + 12].try_into().expect("4 bytes"))).collect()
}

fn scrubbed(service: &Service, repair: bool) -> StatusReport {
    done(service.obey(&Order::ScrubStart { repair }));
    until(service, |status| status.scrub.as_ref().is_some_and(|scrub| !scrub.running));
    status(service)
}

#[test]
fn every_volume_of_version_1_is_opened_repaired_and_written_and_stays_one() {
    for name in OF_VERSION_1 {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("v");
        let expected = unpack(name, &root);
        let service = start(&root);
        has(&service, &expected, name);
        let report = scrubbed(&service, true);
        assert_eq!(report.broken_stripes, 0, "{name}: {:?}", report.wrong);
        // One that is lost is given anew, or, where none is, one is taken out first.
        let lost = report.margin.lost.first().copied();
        let slot = lost.unwrap_or(0);
        if lost.is_none() {
            done(service.obey(&Order::Fail { device: slot, lose_data: false }));
        }
        service.handle().write(OWN, &[77; 8192], true).expect("it is written");
        let len = std::fs::metadata(device_path(&root, slot as usize)).expect("a device").len();
        let path = file(root.join("another"), len);
        done(service.obey(&Order::Replace { device: slot, path: path.clone(), overwrite: false }));
        until(&service, |status| status.margin.lost.is_empty());
        has(&service, &expected, name);
        let after = scrubbed(&service, true);
        assert_eq!(after.broken_stripes, 0, "{name}: {:?}", after.wrong);
        service.stop().expect("it stops");
        let again = start(&root);
        has(&again, &expected, name);
        has(&again, &vec![(OWN, 8192, 77)], name);
        again.stop().expect("it stops");
        for device in (0..after.devices.len()).filter(|&device| device != slot as usize) {
            assert_eq!(versions(&device_path(&root, device)), [1, 1], "{name}, device {device}");
        }
        assert_eq!(versions(&path), [1, 1], "{name}, the new device");
    }
}
