//! A volume of many devices stays within its memory limit under any load.

use crate::common::folders::new;
use crate::common::{Devices, format, memory, open_with, painted, until};
use pantile_code::{Code, Placement};
use pantile_format::volume::VolumeId;
use pantile_host::{
    Folder, FolderError, Host, HostOptions, MEMORY_BYTES, MEMORY_LEAST, NewDevices, least_memory_bytes,
};
use pantile_volume::{DeviceState, Found, Geometry, NewVolume, Scrub, Slot};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Returns a volume of 64 devices and 24 stripes of 4 MiB.
fn wide() -> Geometry {
    Geometry::new(NewVolume {
        volume: VolumeId([7; 16]),
        code: Code::parse("raidq:60+4").expect("a spec"),
        placement: Placement::ROTATED,
        element_blocks: 16,
        logical_stripes: 24,
        spare_stripes: 8,
        log_rows: 64,
        journal_blocks: 256,
    })
    .expect("a geometry")
}

const MIB: usize = 1 << 20;

/// Calls `what` while four threads read pieces of 1 MiB from the whole volume and compare them with
/// `flushed`. Returns the maximum of the bytes in buffers.
fn most_memory(host: &Host, flushed: &[u8], what: impl FnOnce()) -> u64 {
    let (ends, most) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for reader in 0..4 {
            let (ends, handle) = (&ends, host.handle());
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(reader);
                let mut found = vec![0; MIB];
                while !ends.load(Ordering::Relaxed) {
                    let at = random.usize(..flushed.len() - MIB);
                    handle.read(at as u64, &mut found).expect("it reads");
                    assert!(found == flushed[at..at + MIB], "at {at}");
                }
            });
        }
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                let report = host.report().expect("it runs");
                most.fetch_max(report.memory_bytes, Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        what();
        ends.store(true, Ordering::Relaxed);
    });
    most.into_inner()
}

/// The loads are degraded reads, a rebuild of four devices, a scrub, and writes of the whole
/// volume.
#[test]
fn sixty_four_devices_keep_to_the_memory_that_they_may_have() {
    let geometry = wide();
    let devices: Devices = memory(&geometry);
    format(&geometry, &devices);
    let bound = least_memory_bytes(&geometry);
    assert_eq!(bound, MEMORY_LEAST);
    let options = HostOptions::for_devices(devices.len()).within(bound);
    let host = open_with(&geometry, &devices, &options).expect("it opens");
    let flushed = painted(5, 24 * 60 * 16 * 4096);
    let handle = host.handle();
    handle.write(0, &flushed, true).expect("it writes");
    let slots = [3, 17, 18, 60].map(Slot);
    slots.iter().for_each(|&slot| host.fail(slot).expect("it is there"));

    let reading = most_memory(&host, &flushed, || std::thread::sleep(Duration::from_secs(1)));
    let blank = memory(&geometry);
    let rebuilding = most_memory(&host, &flushed, || {
        for slot in slots {
            let device = blank[slot.0 as usize].clone().expect("one of each");
            until(|| host.attach(slot, device.clone(), Found::Blank).is_ok());
        }
        let is_whole = |report: pantile_host::Report| {
            report.status.devices.iter().all(|device| device.state == DeviceState::Present)
        };
        until(|| is_whole(host.report().expect("it runs")));
    });
    let scrubbing = most_memory(&host, &flushed, || {
        host.scrub(Scrub::Start { repair: false }).expect("it runs");
        let is_over = |report: pantile_host::Report| report.status.scrub.is_some_and(|scrub| !scrub.running);
        until(|| is_over(host.report().expect("it runs")));
    });
    let writing = most_memory(&host, &flushed, || handle.write(0, &flushed, true).expect("it writes"));
    let report = host.report().expect("it runs");
    assert_eq!(report.memory_bytes_max, bound);
    let all = [reading, rebuilding, scrubbing, writing];
    assert!(all.iter().all(|&most| most <= bound && most > 0), "{all:?} of {bound}");
}

#[test]
fn less_memory_than_stripes_need_is_refused_with_the_least() {
    let place = tempfile::tempdir().expect("a folder");
    let path = place.path().join("v");
    let made = Folder::create(&path, &new("raidq:60+4", NewDevices::Made { user_bytes: 4 << 30 }));
    drop(made.expect("it is created"));
    let mut folder = Folder::open(&path).expect("it opens");
    folder.keep_within(MEMORY_LEAST);
    let Err(FolderError::TooLittleMemory { have, need }) = folder.host(None) else {
        panic!("stripes are 16 MiB long");
    };
    assert!(have == MEMORY_LEAST && need > have && need < MEMORY_BYTES);
    let error = FolderError::TooLittleMemory { have, need }.to_string();
    assert!(error.contains(&need.to_string()) && error.contains("--memory"), "{error}");
    folder.keep_within(need);
    let (host, _) = folder.host(None).expect("it is enough");
    assert_eq!(host.report().expect("it runs").memory_bytes_max, need);
    host.stop().expect("it stops");
}
