//! A status is answered at once while a device hangs, whichever operation the device is performing.

use super::*;
use crate::control::{Answer, Order};
use crate::gate::{Gate, Gated};
use crate::opening::open_soon;
use crate::{Folder, NewDevices, NewFolder, Place};
use pantile_code::Code;
use pantile_device::{Device, FileDevice, OpKind};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// Time limit of a status on an overloaded machine; a device that hangs here never answers.
const AT_ONCE: Duration = Duration::from_secs(4);

const SLOT: u32 = 1;
const ALL: Range<u64> = 0..u64::MAX;
/// The range of the superblocks at the front.
const FRONT: Range<u64> = 0..2 * BLOCK as u64;

fn service() -> (TempDir, Arc<Service>) {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("v");
    let code = Code::parse("raid6:3").expect("a code");
    let new = NewFolder::new(code, NewDevices::Made { user_bytes: 1 << 20 });
    let (made, _) = Folder::create(&root, &new).expect("a volume");
    (folder, Arc::new(Service::start(made, None).expect("it opens")))
}

fn report(service: &Service) -> StatusReport {
    let begun = Instant::now();
    let answer = service.obey(&Order::Status);
    assert!(begun.elapsed() < AT_ONCE, "a status took {:?}", begun.elapsed());
    match answer {
        Answer::Status(report) => *report,
        other => panic!("no status: {other:?}"),
    }
}

fn fresh(folder: &Path, service: &Service) -> Arc<dyn Device> {
    let len = service.geometry.device_blocks(Slot(SLOT)) * BLOCK as u64;
    drop(FileDevice::create(folder.join("new"), len).expect("a file"));
    open_soon(&folder.join("new"), Instant::now()).expect("it opens")
}

/// Begins to replace the device of the slot. Returns the old and the new device, each behind a
/// gate.
fn replacing(folder: &Path, service: &Service) -> [Arc<Gated>; 2] {
    let new = Gate::before(fresh(folder, service));
    let mut state = service.lock();
    let old = Gate::before(state.devices[SLOT as usize].clone().expect("it is there"));
    state.devices[SLOT as usize] = Some(old.clone());
    let path = folder.join("new");
    service.begin_replacing(&mut state, Slot(SLOT), &path, new.clone()).expect("it begins");
    [old, new]
}

/// Maintains a volume until an operation waits at a device, checks that the service still answers,
/// and releases the device.
fn asked_while_it_hangs(service: &Arc<Service>, device: &Gated, what: &str) {
    let cared_for = service.clone();
    let care = std::thread::spawn(move || cared_for.wait_for_end());
    device.layer().until_one_waits();
    for _ in 0..3 {
        let said = report(service);
        let member = said.devices.iter().find(|device| device.device == SLOT).expect("a device");
        assert_eq!(member.state, DeviceWord::Present, "{what}: {:?}", said.wrong);
    }
    // The lock of the service's state is not held for ever, either.
    let begun = Instant::now();
    let answer = service.obey(&Order::Fail { device: 3, lose_data: false });
    assert!(matches!(answer, Answer::Done { .. }), "{what}: {answer:?}");
    assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
    assert_eq!(report(service).margin.lost, [3], "{what}");
    device.layer().open();
    service.end();
    assert!(care.join().expect("it ends"));
    service.stop().expect("it stops");
}

#[test]
fn a_status_does_not_wait_for_a_device_that_hangs_when_a_replacement_ends() {
    let cases = [
        ("the new one gets superblocks", 1, OpKind::Write, FRONT),
        ("the new one is flushed", 1, OpKind::Flush, ALL),
        ("superblocks of the old one are read", 0, OpKind::Read, FRONT),
        ("the old one is wiped", 0, OpKind::Write, FRONT),
    ];
    std::thread::scope(|scope| {
        for (what, which, kind, bytes) in cases {
            scope.spawn(move || {
                let (folder, service) = service();
                service.handle().write(0, &[7; 100_000], true).expect("it writes");
                let devices = replacing(folder.path(), &service);
                let copied = || {
                    let state = service.lock();
                    state.replacements.get(&SLOT).is_none_or(|one| one.twin.is_copied())
                };
                let begun = Instant::now();
                while !copied() {
                    assert!(begun.elapsed() < Duration::from_secs(60), "{what}: it is not copied");
                    std::thread::sleep(Duration::from_millis(5));
                }
                devices[which].layer().keep(kind, bytes);
                asked_while_it_hangs(&service, &devices[which], what);
            });
        }
    });
}

#[test]
fn a_status_does_not_wait_for_a_read_of_a_superblock() {
    let (_folder, service) = service();
    let mut state = service.lock();
    let gated = Gate::before(state.devices[SLOT as usize].clone().expect("it is there"));
    gated.layer().keep(OpKind::Read, ALL);
    state.devices[SLOT as usize] = Some(gated.clone());
    let folder = state.folder.as_mut().expect("it is open");
    let place = |place: &Place| Place { joining: true, ..place.clone() };
    folder
        .change(|config| {
            let joins = place(&config.devices[&SLOT]);
            config.devices.insert(SLOT, joins);
        })
        .expect("it is written");
    drop(state);
    asked_while_it_hangs(&service, &gated, "it has joined");
}

/// Opens the devices of a volume that is not served.
#[test]
fn a_device_that_hangs_is_missing_from_a_volume_that_is_opened() {
    let (folder, service) = service();
    service.stop().expect("it stops");
    let hangs = Arc::new(std::sync::Mutex::new(None::<Arc<Gated>>));
    // Releases a request that waits for so long; then the test fails.
    let late = hangs.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(90));
        lock(&late).iter().for_each(|gated| gated.layer().open());
    });
    let own = Folder::open(&folder.path().join("v")).expect("a folder");
    let begun = Instant::now();
    let open = |path: &Path, until: Instant| -> Result<Arc<dyn Device>, pantile_device::DeviceError> {
        let device = open_soon(path, until)?;
        if !path.ends_with("device-01.pantile") {
            return Ok(device);
        }
        let gated = Gate::before(device);
        gated.layer().keep(OpKind::Read, ALL);
        *lock(&hangs) = Some(gated.clone());
        Ok(gated)
    };
    let opened = own.open_devices_by(open);
    let opened = opened.expect("the others suffice");
    assert!(begun.elapsed() < Duration::from_secs(60), "it took {:?}", begun.elapsed());
    assert!(opened.devices[SLOT as usize].is_none() && opened.devices[0].is_some());
    lock(&hangs).as_ref().expect("it was opened").layer().open();
}

#[test]
fn stripes_of_ranges_are_counted_by_their_ends() {
    assert_eq!(count_in(vec![(5, 9), (0, 2), (2, 3), (9, 9)]), 9);
    assert_eq!(count_in(Vec::new()), 0);
    // Counting the numbers one by one would take days.
    assert_eq!(count_in(vec![(0, u64::MAX / 2), (3, 8)]), u64::MAX / 2 + 1);
}
