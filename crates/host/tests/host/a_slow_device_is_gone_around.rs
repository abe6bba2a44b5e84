//! Reads avoid a device while it takes far longer than the others. If that lasts, the device is
//! called slow.

use crate::common::{Devices, format, geometry, memory, open_with, painted, until};
use pantile_device::{Device, DeviceError, Layer, Layered, MemoryDevice, OpKind, Operation};
use pantile_format::volume::Reason;
use pantile_host::{Host, HostOptions};
use pantile_volume::{BLOCK_BYTES, DeviceState, Slot};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const SLOW: usize = 1;

/// A layer that counts reads, and delays each of them.
#[derive(Default)]
struct Lazy {
    is_slow: AtomicBool,
    reads: AtomicU64,
}

impl Layer for Lazy {
    fn around(
        &self,
        _: &dyn Device,
        operation: Operation,
        does: &mut dyn FnMut(u64) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        if operation.kind == OpKind::Read {
            self.reads.fetch_add(1, Relaxed);
            if self.is_slow.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(150));
            }
        }
        does(operation.len_bytes)
    }
}

/// Returns a full volume, the device that can be slowed down, and the content of the volume.
fn volume(options: impl FnOnce(&mut HostOptions)) -> (Host, Arc<Layered<MemoryDevice, Lazy>>, Vec<u8>) {
    let geometry = geometry("raid6:4");
    let mut devices: Devices = memory(&geometry);
    let len = geometry.device_blocks(Slot(SLOW as u32)) * BLOCK_BYTES;
    let lazy = Arc::new(Layered::with(MemoryDevice::new("lazy", len), Lazy::default()));
    devices[SLOW] = Some(lazy.clone());
    format(&geometry, &devices);
    let mut chosen = HostOptions { reads_more: false, ..HostOptions::for_devices(devices.len()) };
    options(&mut chosen);
    let host = open_with(&geometry, &devices, &chosen).expect("it opens");
    let data = painted(4, host.handle().len_bytes() as usize);
    host.handle().write(0, &data, true).expect("it writes");
    (host, lazy, data)
}

/// Reads blocks at random offsets, and checks them.
fn read_some(host: &Host, data: &[u8], blocks: u64, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let handle = host.handle();
    let mut found = vec![0; BLOCK_BYTES as usize];
    for _ in 0..blocks {
        let at = random.u64(..data.len() as u64 / BLOCK_BYTES) * BLOCK_BYTES;
        handle.read(at, &mut found).expect("it reads");
        assert!(found[..] == data[at as usize..][..found.len()], "block at {at}");
    }
}

fn times_as_long(host: &Host) -> u32 {
    host.report().expect("it serves").members[SLOW].times_as_long
}

#[test]
fn reads_go_around_a_device_that_is_slow_until_it_is_not() {
    let (host, lazy, data) = volume(|_| {});
    read_some(&host, &data, 300, 1);
    assert_eq!(times_as_long(&host), 1);
    lazy.layer().is_slow.store(true, Relaxed);
    // The first reads wait for the device, which shows that it is slow.
    let (host_of, data_of) = (&host, &data);
    std::thread::scope(|scope| {
        (0..4).for_each(|seed| drop(scope.spawn(move || read_some(host_of, data_of, 40, seed))));
    });
    until(|| times_as_long(&host) > 1);
    let member = host.report().expect("it serves").members[SLOW].clone();
    assert!(member.reads.expect("it has read").median_us >= 150_000, "{member:?}");
    let before = lazy.layer().reads.load(Relaxed);
    read_some(&host, &data, 600, 2);
    let read = lazy.layer().reads.load(Relaxed) - before;
    // A sixth of the blocks are on this device. Its remaining reads are probes, a few times a
    // second.
    assert!(read < 50, "{read} reads of a device that is slow");
    assert_eq!(host.report().expect("it serves").status.devices[SLOW].state, DeviceState::Present);
    lazy.layer().is_slow.store(false, Relaxed);
    until(|| times_as_long(&host) == 1);
    let before = lazy.layer().reads.load(Relaxed);
    read_some(&host, &data, 600, 3);
    assert!(lazy.layer().reads.load(Relaxed) - before > 50, "it is read again");
    host.stop().expect("it stops");
}

fn is_called_slow(host: &Host) -> bool {
    let members = host.report().expect("it serves").members;
    assert!((0..).zip(&members).all(|(slot, member)| slot == SLOW || member.slow.is_none()), "{members:?}");
    members[SLOW].slow.is_some()
}

#[test]
fn a_device_is_called_slow_only_when_it_has_been_for_long_and_no_more_when_it_was_well_for_long() {
    let slow_after = Duration::from_secs(3);
    let (host, lazy, data) = volume(|options| options.slow_after = slow_after);
    read_some(&host, &data, 300, 1);
    let loads = |host: &Host, until: &dyn Fn(Duration) -> bool| {
        let begun = std::time::Instant::now();
        let mut seed = 10;
        while !until(begun.elapsed()) {
            assert!(begun.elapsed() < Duration::from_secs(120), "it waits in vain");
            seed += 1;
            read_some(host, &data, 60, seed);
        }
        begun.elapsed()
    };
    lazy.layer().is_slow.store(true, Relaxed);
    let called_after = loads(&host, &|_| is_called_slow(&host));
    assert!(called_after >= slow_after * 5 / 6, "after {called_after:?}");
    let slow = host.report().expect("it serves").members[SLOW].slow.expect("it is slow");
    assert!(slow.median_us >= 100_000 && slow.times >= 4, "{slow:?}");
    lazy.layer().is_slow.store(false, Relaxed);
    let well_after = loads(&host, &|_| !is_called_slow(&host));
    assert!(well_after >= slow_after, "after {well_after:?}");
    host.stop().expect("it stops");
}

#[test]
fn a_slow_device_stays_unless_it_is_wished_that_it_goes_and_another_may_be_lost() {
    for (wished, lost_before, goes) in [(false, false, false), (true, false, true), (true, true, false)] {
        let (host, lazy, data) = volume(|options| {
            options.evicts_slow = wished;
            options.slow_after = Duration::from_millis(900);
        });
        if lost_before {
            host.fail(Slot(5)).expect("it is known");
        }
        read_some(&host, &data, 100, 1);
        lazy.layer().is_slow.store(true, Relaxed);
        let (host_of, data_of) = (&host, &data);
        std::thread::scope(|scope| {
            (0..4).for_each(|seed| drop(scope.spawn(move || read_some(host_of, data_of, 40, seed))));
        });
        let is_lost = || {
            let devices = host.report().expect("it serves").status.devices;
            matches!(devices[SLOW].state, DeviceState::Lost)
        };
        if goes {
            until(|| {
                read_some(&host, &data, 20, 6);
                is_lost()
            });
            let report = host.report().expect("it serves");
            assert_eq!(report.status.devices[SLOW].known.reason, Reason::SLOW);
            let member = &report.members[SLOW];
            // A server that was slow is not taken back by itself.
            assert!(member.error.is_none() && member.was_slow, "{member:?}");
        } else {
            until(|| {
                read_some(&host, &data, 20, 6);
                is_called_slow(&host)
            });
            // Some more probes are awaited.
            let before = lazy.layer().reads.load(Relaxed);
            until(|| lazy.layer().reads.load(Relaxed) >= before + 4);
            assert!(!is_lost(), "wished: {wished}, another was lost: {lost_before}");
        }
        read_some(&host, &data, 100, 5);
        host.stop().expect("it stops");
    }
}
