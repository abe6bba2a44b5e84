//! Reports of a volume after a restart: losses with their reasons, scrubs, its version.

use crate::common::folders::*;
use crate::common::{format, geometry, memory_with_faulty, open, painted};
use pantile_device::{Fault, OpKind};
use pantile_format::Column;
use pantile_format::volume::{ChunkHeader, DeviceBlock, VolumeId, block_checksum};
use pantile_host::{
    Answer, DeviceWord, FaultKind, FindingKind, Folder, Order, Service, StatusReport, Verdict,
};
use pantile_volume::Slot;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

fn scrubbed(service: &Service, repair: bool) -> StatusReport {
    done(service.obey(&Order::ScrubStart { repair }));
    until(service, |status| status.scrub.as_ref().is_some_and(|scrub| !scrub.running));
    status(service)
}

fn looked_at(root: &Path) -> StatusReport {
    let looks = Service::look(Folder::open(root).expect("a folder")).expect("it can be looked at");
    let report = status(&looks);
    looks.stop().expect("it ends");
    report
}

/// Overwrites data of [`filled`] with zeros on some devices, while the volume is closed.
fn spoil(root: &Path, devices: impl IntoIterator<Item = usize>, bytes: usize) {
    let first_of = |slot| {
        let content = std::fs::read(device_path(root, slot)).expect("a device");
        content.chunks(4096).position(|block| block.iter().all(|&byte| byte == 7)).expect("data")
    };
    let first = (0..6).map(first_of).max().expect("six devices");
    for slot in devices {
        let device = File::options().write(true).open(device_path(root, slot)).expect("a device");
        device.write_all_at(&vec![0; bytes], 4096 * first as u64).expect("it is written");
    }
}

fn filled() -> (tempfile::TempDir, std::path::PathBuf) {
    let (folder, root, service) = served();
    service.handle().write(0, &vec![7; 8 << 20], true).expect("it is written");
    service.stop().expect("it stops");
    (folder, root)
}

#[test]
fn a_scrub_with_repair_reports_repairs_and_losses_apart() {
    let (_folder, root) = filled();
    spoil(&root, [1], 256 << 10);
    let service = start(&root);
    let mended = scrubbed(&service, true);
    let scrub = mended.scrub.clone().expect("a scrub");
    assert!(scrub.repaired > 0 && scrub.left == 0, "{scrub:?}");
    assert_eq!((mended.verdict, mended.ranges.len()), (Verdict::Warned, 0), "{:?}", mended.wrong);
    service.stop().expect("it stops");

    // The repaired stripes are stored elsewhere now.
    spoil(&root, [1, 2, 3], 1 << 20);
    let service = start(&root);
    let lost = scrubbed(&service, true);
    let scrub = lost.scrub.clone().expect("a scrub");
    assert!(scrub.left > 0, "{scrub:?}");
    assert!(lost.verdict == Verdict::Failed && lost.has(FindingKind::DataLost), "{:?}", lost.wrong);
    assert!(!lost.ranges.is_empty());
    // Exactly these ranges are unreadable, before and after a restart, until they are written
    // again.
    let handle = service.handle();
    let is_lost = |at: u64| lost.ranges.iter().any(|r| (r.offset..r.offset + r.len_bytes).contains(&at));
    for at in (0..8 << 20).step_by(4096) {
        assert_eq!(handle.read(at, &mut [0; 4096]).is_err(), is_lost(at), "{at}");
    }
    service.stop().expect("it stops");
    assert_eq!(looked_at(&root).ranges, lost.ranges);
    let service = start(&root);
    assert_eq!(status(&service).scrub.expect("it is kept").left, scrub.left);
    for range in &lost.ranges {
        let written = service.handle().write(range.offset, &vec![7; range.len_bytes as usize], true);
        written.expect("it is written");
    }
    let after = status(&service);
    assert_eq!((after.ranges, after.broken_stripes), (Vec::new(), 0), "{:?}", after.wrong);
    assert_eq!(read(&service, 8 << 20), vec![7; 8 << 20]);
    service.stop().expect("it stops");
}

/// This is checked without a restart.
#[test]
fn after_every_range_that_is_lost_is_written_again_no_stripe_has_lost_data() {
    let (_folder, root) = filled();
    spoil(&root, [1, 2, 3], 1 << 20);
    let service = start(&root);
    let lost = scrubbed(&service, true);
    assert!(lost.broken_stripes > 0 && lost.scrub.is_some_and(|scrub| scrub.left > 0));
    for range in &lost.ranges {
        let written = service.handle().write(range.offset, &vec![7; range.len_bytes as usize], false);
        written.expect("it is taken");
    }
    service.handle().flush().expect("it is flushed");
    until(&service, |status| status.broken_stripes == 0 && status.suspect_stripes == 0);
    let after = status(&service);
    assert!(after.ranges.is_empty() && !after.has(FindingKind::DataLost), "{:?}", after.wrong);
    assert_eq!(after.scrub.map(|scrub| (scrub.repaired, scrub.left)), Some((0, 0)));
    assert_eq!(read(&service, 8 << 20), vec![7; 8 << 20]);
    service.stop().expect("it stops");
}

#[test]
fn the_losses_and_errors_of_a_device_are_reported_after_a_restart() {
    let (_folder, root) = filled();
    spoil(&root, [1], 256 << 10);
    let service = start(&root);
    let erred = scrubbed(&service, true).devices[1].checksum_errors;
    assert!(erred > 0);
    done(service.obey(&Order::Fail { device: 2, lose_data: false }));
    service.stop().expect("it stops");
    let report = looked_at(&root);
    assert_eq!(report.devices[1].checksum_errors, erred);
    let told = report.devices[2].problem.clone().unwrap_or_default();
    assert!(told.starts_with("its operator took it out, 20"), "{told}");
    assert!(report.events.iter().any(|event| event.device == Some(2) && event.at > 1_700_000_000));
    let service = start(&root);
    let again = status(&service);
    assert_eq!(again.devices[1].checksum_errors, erred);
    assert!(again.wrong.iter().any(|wrong| wrong.contains("its operator took it out")), "{:?}", again.wrong);
    service.stop().expect("it stops");
}

#[test]
fn a_device_that_erred_and_was_called_good_is_no_warning_until_it_errs_again() {
    let (_folder, root) = filled();
    spoil(&root, [1], 256 << 10);
    let service = start(&root);
    scrubbed(&service, true);
    let warned = scrubbed(&service, false);
    assert!(warned.verdict == Verdict::Warned && warned.has(FindingKind::DeviceErred), "{:?}", warned.wrong);
    assert!(matches!(service.obey(&Order::ClearErrors { device: 6 }), Answer::Fault { .. }));
    done(service.obey(&Order::ClearErrors { device: 1 }));
    assert_eq!(status(&service).wrong, Vec::<String>::new());
    // This is like a crash: an acknowledged order is not lost.
    service.host().kill();
    drop(service);
    assert!(!looked_at(&root).has(FindingKind::DeviceErred));
    spoil(&root, [1], 4 << 20);
    let service = start(&root);
    let report = scrubbed(&service, true);
    assert!(report.has(FindingKind::DeviceErred) && report.devices[1].checksum_errors > 0);
    let device = root.join("device-01.pantile");
    let said =
        format!("A person called Device 1 ({}) good; its errors are counted from now on.", device.display());
    let is_it = |text: &str| text == said;
    assert!(report.events.iter().any(|event| is_it(&event.text)), "{:?}", report.events);
    service.stop().expect("it stops");
}

/// A copy from an earlier session has the same history, but does not count as an intact device.
#[test]
fn assembling_says_of_a_device_of_an_earlier_session_that_it_is_one() {
    let (folder, root) = filled();
    let copy = folder.path().join("copy");
    std::fs::copy(device_path(&root, 3), &copy).expect("a copy");
    for byte in 0..3 {
        let service = start(&root);
        service.handle().write(0, &vec![byte; 1 << 20], true).expect("it is written");
        service.stop().expect("it stops");
    }
    let mut paths: Vec<_> = (0..6).map(|slot| device_path(&root, slot)).collect();
    paths[3] = copy;
    let (_, found) = Folder::assemble(&folder.path().join("w"), &paths).expect("it is found");
    assert_eq!((found.stale, found.enough), (vec![3], true));
}

#[test]
fn a_rebuild_of_a_whole_volume_does_not_say_that_it_rebuilds() {
    let (_folder, _root, service) = served();
    let Answer::Done { text } = service.obey(&Order::Rebuild { throttle_bytes_per_s: Some(1 << 20) }) else {
        panic!("it is not done");
    };
    assert_eq!(text, "Every device is whole: there is nothing to rebuild.");
    assert!(status(&service).devices.iter().all(|device| device.state == DeviceWord::Present));
    service.stop().expect("it stops");
}

/// Changes some bytes of a parity block on a device of a closed volume, and updates its checksum.
/// It is as if memory had been wrong when the stripe was written.
fn miscompute(root: &Path, bytes: usize) {
    const PARITY: Column = Column(4);
    for slot in 0..6 {
        let path = device_path(root, slot);
        let device = File::options().read(true).write(true).open(&path).expect("a device");
        let content = std::fs::read(&path).expect("it can be read");
        let header_of = |at: usize| {
            let volume = VolumeId(content[at + 16..at + 32].try_into().expect("16 bytes"));
            ChunkHeader::decode(&content[at..], volume).ok().filter(|header| header.column == PARITY)
        };
        let places = (0..content.len()).step_by(4096).filter(|&at| content[at..].starts_with(b"PANTCHNK"));
        let Some((at, mut header)) = places.filter_map(|at| Some((at, header_of(at)?))).next() else {
            continue;
        };
        let block_at = at + ChunkHeader::blocks(header.checksums.len() as u64) as usize * 4096;
        let mut block = content[block_at..block_at + 4096].to_vec();
        block[..bytes].iter_mut().for_each(|byte| *byte ^= 0x5a);
        let address = DeviceBlock((block_at / 4096) as u64);
        header.checksums[0] = block_checksum(header.volume, header.slot, address, header.generation, &block);
        device.write_all_at(&block, block_at as u64).expect("it is written");
        device.write_all_at(&header.encode(), at as u64).expect("it is written");
        return;
    }
    panic!("no chunk of parity");
}

#[test]
fn wrong_parity_under_right_checksums_is_rebuilt_only_with_enough_evidence() {
    // With two parities, six wrong bytes are more than 40 bits of evidence; five are not.
    for (bytes, is_mended) in [(1, false), (5, false), (6, true), (4096, true)] {
        let (_folder, root, service) = served();
        service.handle().write(0, &painted(3, 8 << 20), true).expect("it is written");
        // After a snapshot no record has the checksum of a header.
        scrubbed(&service, true);
        service.stop().expect("it stops");
        miscompute(&root, bytes);
        let service = start(&root);
        let scrub = scrubbed(&service, true).scrub.expect("a scrub");
        let found = (scrub.located, scrub.ambiguous, scrub.unlocatable, scrub.repaired, scrub.left);
        let mended = u64::from(is_mended);
        assert_eq!(found, (1, 0, 0, mended, 1 - mended), "{bytes} bytes: {scrub:?}");
        let again = scrubbed(&service, false).scrub.expect("a scrub");
        assert_eq!(again.located, 1 - mended, "{bytes} bytes: {again:?}");
        assert_eq!(read(&service, 8 << 20), painted(3, 8 << 20));
        service.stop().expect("it stops");
    }
}

#[test]
fn findings_of_a_scrub_on_a_device_end_with_its_rebuild() {
    let (folder, root) = filled();
    let service = start(&root);
    let old = device_path(&root, 3);
    let len = old.metadata().expect("a device").len();
    let zeros = vec![0; len as usize];
    File::options().write(true).open(&old).expect("it opens").write_all_at(&zeros, 0).expect("it writes");
    let found = scrubbed(&service, false);
    let of_metadata = |report: &StatusReport| report.scrub.as_ref().expect("a scrub").metadata.len();
    assert_eq!((of_metadata(&found), found.margin.any_more), (1, 1), "{:?}", found.wrong);
    done(service.obey(&Order::Fail { device: 3, lose_data: false }));
    let new = file(folder.path().join("new"), len);
    done(service.obey(&Order::Replace { device: 3, path: new, overwrite: false }));
    until(&service, |status| status.rebuild.is_none() && status.margin.lost.is_empty());
    let after = status(&service);
    assert_eq!(
        (of_metadata(&after), after.margin.any_more, after.verdict),
        (0, 2, Verdict::Clean),
        "{:?}",
        after.wrong
    );
    service.stop().expect("it stops");
    assert_eq!(looked_at(&root).verdict, Verdict::Clean, "also after a restart");
}

/// A device that is removed while it is read gets no checksum errors for its late answers.
#[test]
fn a_device_that_is_taken_out_while_it_is_read_has_given_nothing_wrong() {
    let geometry = geometry("raid6:3");
    let (devices, slow) = memory_with_faulty(&geometry, Slot(1));
    format(&geometry, &devices);
    let host = open(&geometry, &devices).expect("it opens");
    let data = painted(31, 600_000);
    host.handle().write(0, &data, true).expect("it writes");
    let read = || {
        let mut found = vec![0; data.len()];
        host.handle().read(0, &mut found).expect("it reads");
        assert!(found == data);
    };
    read();
    slow.fail_from(OpKind::Read, 1, Fault::Delay(Duration::from_millis(400)));
    std::thread::scope(|scope| {
        scope.spawn(read);
        std::thread::sleep(Duration::from_millis(100));
        host.fail(Slot(0)).expect("there is one");
    });
    slow.heal();
    read();
    for device in &host.report().expect("it serves").status.devices {
        assert_eq!(device.known.checksum_errors, 0, "device {} is blamed", device.slot.0);
    }
}

/// A refusal shows the given path, not that of a device of the volume.
#[test]
fn a_refused_device_is_not_called_one_of_the_volume() {
    let (folder, root, service) = served();
    let len = root.join("device-00.pantile").metadata().expect("a device").len();
    let short = file(folder.path().join("short"), len - 512);
    let one = file(folder.path().join("one"), len);
    let refused = |answer: Answer, says: &[&str]| match answer {
        Answer::Fault { kind: FaultKind::Input, text } => {
            assert!(says.iter().all(|word| text.contains(word)), "{text}");
        }
        other => panic!("{other:?}"),
    };
    let add_spare = |path: &Path| service.obey(&Order::AddSpare { path: path.into(), overwrite: false });
    let replace = |device: u32, path: &Path| {
        service.obey(&Order::Replace { device, path: path.into(), overwrite: false })
    };
    let (have, need) = ((len - 512).to_string(), len.to_string());
    refused(add_spare(&short), &["/short has", &have, "a spare", &need]);
    refused(replace(2, &short), &["/short has", &have, "device 2 of this volume", &need]);
    done(service.obey(&Order::Rebuild { throttle_bytes_per_s: Some(100_000) }));
    done(replace(1, &one));
    refused(add_spare(&one), &["/one becomes a copy of device 1"]);
    refused(replace(2, &one), &["/one becomes a copy of device 1"]);
    service.stop().expect("it stops");
}
