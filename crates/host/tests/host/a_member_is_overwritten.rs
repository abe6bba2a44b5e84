//! A member that is overwritten while it is served is reported, and counts as lost.

use crate::common::folders::*;
use crate::common::painted;
use pantile_host::{AlignedBuf, DeviceWord, FindingKind, Order, Service, StatusReport};
use rustix::fs::{OFlags, fcntl_setfl};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Opens a device for writes beside the server. The page cache is bypassed: otherwise the system
/// would report a conflict with the server's direct writes as a failed flush.
fn to_write(device: &Path) -> File {
    let file = OpenOptions::new().write(true).open(device).expect("a device");
    // A file system in memory only has the page cache.
    let _ = fcntl_setfl(&file, OFlags::DIRECT);
    file
}

/// Overwrites a device: with zeros, or with the content of another one.
fn overwrite(device: &Path, with: Option<&Path>) {
    let len = device.metadata().expect("a device").len() as usize;
    let mut bytes = AlignedBuf::zeroed(len);
    if let Some(other) = with {
        let held = std::fs::read(other).expect("another device");
        let len = len.min(held.len());
        bytes[..len].copy_from_slice(&held[..len]);
    }
    to_write(device).write_all_at(&bytes, 0).expect("it writes");
}

fn text_on(report: &StatusReport, kind: FindingKind, device: u32) -> Option<String> {
    let mut findings = report.findings.iter();
    findings.find(|one| one.kind == kind && one.device == Some(device)).map(|one| one.text.clone())
}

/// Reads everything and runs maintenance turns until the status fulfils a condition.
fn read_until(service: &Service, data: &[u8], is_so: impl Fn(&StatusReport) -> bool) {
    until(service, |report| {
        assert!(read(service, data.len()) == data);
        service.look_after();
        is_so(report)
    });
}

#[test]
fn a_member_that_is_overwritten_is_taken_out_and_its_message_has_the_command_that_helps() {
    for with_another in [false, true] {
        let (folder, root, service) = served();
        let data = painted(1, 7_000_000);
        service.handle().write(0, &data, true).expect("it writes");
        let all = status(&service).margin.any_more;
        let stranger = folder.path().join("stranger");
        create(&stranger);
        let with = device_path(&stranger, 3);
        overwrite(&device_path(&root, 3), with_another.then_some(&*with));
        read_until(&service, &data, |report| report.devices[3].state == DeviceWord::Lost);
        let report = status(&service);
        assert_eq!((report.margin.any_more, &*report.margin.lost), (all - 1, &[3][..]));
        let text = text_on(&report, FindingKind::DeviceLost, 3).expect("it is named");
        let path = device_path(&root, 3);
        let command = format!("'pantile replace {} 3 {} --yes'", root.display(), path.display());
        assert!(text.contains("overwritten") && text.contains(&command), "{text}");
        assert!(
            report.events.iter().any(|event| event.device == Some(3) && event.text.contains("overwritten"))
        );
        // This order is that of the command in the text.
        done(service.obey(&Order::Replace { device: 3, path, overwrite: true }));
        until_clean(&service);
        assert_eq!(status(&service).margin.any_more, all);
        is_read_without(&service, [0, 1], &data);
        service.stop().expect("it stops");
    }
}

#[test]
fn a_member_that_is_overwritten_and_that_data_need_stays_and_counts_as_lost() {
    let (_folder, root, service) = served();
    let data = painted(2, 7_000_000);
    service.handle().write(0, &data, true).expect("it writes");
    done(service.obey(&Order::Fail { device: 0, lose_data: false }));
    done(service.obey(&Order::Fail { device: 1, lose_data: false }));
    overwrite(&device_path(&root, 3), None);
    let mut found = vec![0; data.len()];
    until(&service, |report| {
        let _ = service.handle().read(0, &mut found.clone());
        service.look_after();
        text_on(report, FindingKind::DeviceInTrouble, 3).is_some()
    });
    let _ = service.handle().read(0, &mut found);
    let report = status(&service);
    let text = text_on(&report, FindingKind::DeviceInTrouble, 3).expect("it is named");
    assert!(text.contains(&format!("'pantile scrub {} --repair'", root.display())), "{text}");
    assert_eq!((report.devices[3].state, report.margin.any_more), (DeviceWord::Present, 0));
    let said = |report: &StatusReport| {
        let of_it = |text: &str| text.contains("was found overwritten");
        report.events.iter().filter(|event| event.device == Some(3) && of_it(&event.text)).count()
    };
    for _ in 0..5 {
        service.look_after();
    }
    assert_eq!(said(&status(&service)), 1);
    service.stop().expect("it stops");
}

#[test]
fn a_member_with_wrong_blocks_and_its_superblocks_stays() {
    let (_folder, root, service) = served();
    let data = painted(3, 7_000_000);
    service.handle().write(0, &data, true).expect("it writes");
    let device = device_path(&root, 3);
    let len = device.metadata().expect("a device").len();
    // The front and the end of the device are not overwritten.
    let (half, zeros) = (len / 8192 * 4096, AlignedBuf::zeroed(len as usize / 8192 * 4096 - 4096));
    to_write(&device).write_all_at(&zeros, half).expect("it writes");
    read_until(&service, &data, |report| report.devices[3].checksum_errors >= 16);
    for _ in 0..5 {
        service.look_after();
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let report = status(&service);
    assert_eq!((report.devices[3].state, &report.devices[3].problem), (DeviceWord::Present, &None));
    service.stop().expect("it stops");
}

#[test]
fn a_spare_takes_the_place_of_a_member_that_is_overwritten() {
    let (folder, root, service) = served();
    let data = painted(4, 7_000_000);
    service.handle().write(0, &data, true).expect("it writes");
    let len = device_path(&root, 3).metadata().expect("a device").len();
    let path = file(folder.path().join("spare"), len);
    done(service.obey(&Order::AddSpare { path: path.clone(), overwrite: false }));
    overwrite(&device_path(&root, 3), None);
    read_until(&service, &data, |report| report.devices[3].path.as_deref() == Some(&*path));
    until_clean(&service);
    service.stop().expect("it stops");
}
