//! Bytes written at any offset are read back: compared with a model, by many threads, after a stop,
//! after a crash, and without some devices.

use crate::common::{
    format, geometry, geometry_of, memory, memory_with_faulty, open, open_with, painted, until,
};
use pantile_device::{
    Device, DeviceError, Fault, FileDevice, Layer, Layered, MemoryDevice, OpKind, Operation,
};
use pantile_host::{EpochOptions, HostError, HostOptions};
use pantile_volume::{BLOCK_BYTES, DeviceState, Found, Geometry, OpenError, Slot};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Random reads, writes, zeroes, trims and flushes of any byte range, compared with a plain array.
#[test]
fn every_range_of_bytes_is_read_back() {
    for (seed, code) in [(1, "raid6:4"), (2, "rdp:5"), (3, "cauchy:3+3"), (4, "mirror:3")] {
        let geometry = geometry(code);
        let devices = memory(&geometry);
        format(&geometry, &devices);
        let mut host = open(&geometry, &devices).expect("it opens");
        let len = host.handle().len_bytes();
        let mut model = vec![0u8; len as usize];
        let mut random = fastrand::Rng::with_seed(seed);
        for step in 0..600 {
            let handle = host.handle();
            let most = if random.bool() { 3 * BLOCK_BYTES } else { len / 4 };
            let at = random.u64(0..len);
            let count = random.u64(0..=most.min(len - at));
            let range = at as usize..(at + count) as usize;
            match random.u8(0..20) {
                0..9 => {
                    let data = painted(seed << 32 | step, count as usize);
                    handle.write(at, &data, random.u8(0..8) == 0).expect("it writes");
                    model[range].copy_from_slice(&data);
                }
                9..11 => {
                    handle.zero(at, count, random.bool()).expect("it zeroes");
                    model[range].fill(0);
                }
                11 => {
                    handle.trim(at, count).expect("it trims");
                    let (first, behind) = (at.div_ceil(BLOCK_BYTES), (at + count) / BLOCK_BYTES);
                    if first < behind {
                        model[(first * BLOCK_BYTES) as usize..(behind * BLOCK_BYTES) as usize].fill(0);
                    }
                }
                12 => handle.flush().expect("it flushes"),
                14 => {
                    let (mut at, extents) = (at, handle.extents(at, count).expect("it knows"));
                    assert!(extents.windows(2).all(|two| two[0].1 != two[1].1), "{extents:?}");
                    for (len, hole) in &extents {
                        let part = &model[at as usize..(at + len) as usize];
                        assert!(
                            !hole || part.iter().all(|&byte| byte == 0),
                            "{code}, seed {seed}, step {step}"
                        );
                        at += len;
                    }
                    assert_eq!(at, range.end as u64);
                }
                13 if random.u8(0..4) == 0 => {
                    host.stop().expect("it stops");
                    assert_eq!(handle.flush(), Err(HostError::Stopped));
                    host = open(&geometry, &devices).expect("it opens again");
                }
                _ => {
                    let mut found = vec![1; count as usize];
                    handle.read(at, &mut found).expect("it reads");
                    assert!(found == model[range], "{code}, seed {seed}, step {step}: {at} + {count}");
                }
            }
        }
        let mut found = vec![1; len as usize];
        host.handle().read(0, &mut found).expect("it reads");
        assert!(found == model, "{code}, seed {seed}: at the end");
        assert!(host.report().expect("it serves").blocks_in_memory < 100_000);
    }
}

/// shec:4,3,2 tolerates any single loss and many pairs. The last flush can be only on the two lost
/// devices: then the opening is undecided, and nothing is dropped.
#[test]
fn the_last_flush_is_not_forgotten_on_a_guess() {
    let geometry = geometry("shec:4,3,2");
    let devices = memory(&geometry);
    format(&geometry, &devices);
    let (large, small) = (painted(1, 15 * 16 * BLOCK_BYTES as usize), painted(2, 4096));
    let host = open(&geometry, &devices).expect("it opens");
    host.handle().write(0, &large, true).expect("it writes");
    host.handle().write(2_000_000, &small, true).expect("it writes");
    host.kill();
    let there_is = |missing: &[usize]| {
        let mut there = devices.clone();
        missing.iter().for_each(|&slot| there[slot] = None);
        open(&geometry, &there)
    };
    let (mut undecided, mut refused) = (0, 0);
    for (a, b) in (0..7).flat_map(|a| (0..a).map(move |b| (a, b))) {
        match there_is(&[a, b]) {
            Ok(host) => {
                let (mut first, mut second) = (vec![0; large.len()], [0; 4096]);
                host.handle().read(0, &mut first).expect("it reads");
                assert!(first == large, "without {a} and {b}");
                // The block may be lost, because more devices are missing than the log tolerates.
                // But it must not have other content.
                if host.handle().read(2_000_000, &mut second).is_ok() {
                    assert!(second[..] == small, "without {a} and {b}");
                }
                host.kill();
                // An opening with all devices: this session has recorded which devices were
                // missing.
                return_of(&geometry, &devices);
            }
            Err(HostError::Open(OpenError::Undecided { have: 5, need: 6 })) => undecided += 1,
            Err(HostError::Open(OpenError::TooFewDevices { .. })) => refused += 1,
            Err(error) => panic!("without {a} and {b}: {error}"),
        }
    }
    assert!(undecided > 0 && refused > 0, "{undecided} undecided, {refused} refused");
    let host = open(&geometry, &devices).expect("with all of them it opens");
    let mut found = [0; 4096];
    host.handle().read(2_000_000, &mut found).expect("it reads");
    assert!(found[..] == small);
    host.stop().expect("it stops");
}

/// Opens a volume with all devices, waits until each is rebuilt, and ends it like a crash.
fn return_of(geometry: &Geometry, devices: &[Option<Arc<dyn Device>>]) {
    let host = open(geometry, devices).expect("it opens");
    while !host.is_clean().expect("it serves") {
        std::thread::sleep(Duration::from_millis(2));
    }
    host.handle().write(2_000_000, &painted(2, 4096), true).expect("it writes");
    host.kill();
}

/// Unwritten and trimmed blocks are holes, and no other blocks are, before and after they are
/// durable.
#[test]
fn holes_and_data_are_distinguished() {
    let geometry = geometry("raid6:4");
    let devices = memory(&geometry);
    format(&geometry, &devices);
    let host = open(&geometry, &devices).expect("it opens");
    let (handle, stripe) = (host.handle(), 4 * 4 * BLOCK_BYTES);
    let all = || handle.extents(0, handle.len_bytes()).expect("it knows");
    assert_eq!(all(), [(48 * stripe, true)]);
    handle.write(stripe + 100, &[1; 5000], false).expect("it writes");
    let holes = [(stripe, true), (2 * BLOCK_BYTES, false), (46 * stripe + 14 * BLOCK_BYTES, true)];
    assert_eq!(all(), holes);
    handle.flush().expect("it flushes");
    assert_eq!(all(), holes, "in the log");
    let cut = [(100, false), (2 * BLOCK_BYTES - 100, true)];
    assert_eq!(handle.extents(stripe + 2 * BLOCK_BYTES - 100, 2 * BLOCK_BYTES).expect("it knows"), cut);
    handle.write(0, &vec![2; stripe as usize], true).expect("it writes");
    assert_eq!(all()[0], (stripe + 2 * BLOCK_BYTES, false), "a stripe of its own");
    handle.trim(0, 2 * stripe).expect("it trims");
    assert_eq!(all(), [(48 * stripe, true)]);
    handle.flush().expect("it flushes");
    assert_eq!(all(), [(48 * stripe, true)]);
    assert!(handle.extents(0, handle.len_bytes() + 1).is_err());
    host.stop().expect("it stops");
}

/// Eight threads write their own bytes into the same blocks, while a ninth writes adjacent whole
/// blocks.
#[test]
fn writers_of_one_block_do_not_undo_each_other() {
    let geometry = geometry("raid6:4");
    let devices = memory(&geometry);
    format(&geometry, &devices);
    let host = open(&geometry, &devices).expect("it opens");
    let rounds = 60u8;
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let handle = host.handle();
            scope.spawn(move || {
                for round in 1..=rounds {
                    // Each thread writes every eighth piece of 512 bytes in 8 blocks. Some pieces
                    // cross the end of a block.
                    for piece in 0..8u64 {
                        let at = 300 + (piece * 8 + thread) * 512;
                        handle.write(at, &[round + thread as u8; 512], false).expect("it writes");
                    }
                }
            });
        }
    });
    let mut found = vec![0; 64 * 512];
    host.handle().read(300, &mut found).expect("it reads");
    for (piece, bytes) in found.chunks(512).enumerate() {
        assert!(bytes.iter().all(|&byte| byte == rounds + (piece % 8) as u8), "piece {piece}: {}", bytes[0]);
    }
}

/// Whole blocks and parts of them are written at the same time. The part has its old or new
/// content, and the rest is never older than the whole write.
#[test]
fn a_whole_block_is_not_undone_by_a_part_of_it() {
    let geometry = geometry("raid6:4");
    let devices = memory(&geometry);
    format(&geometry, &devices);
    let host = open(&geometry, &devices).expect("it opens");
    for round in 1..=200u8 {
        let (whole, part) = (host.handle(), host.handle());
        std::thread::scope(|scope| {
            scope.spawn(move || part.write(100, &[255; 8], false).expect("it writes"));
            scope.spawn(move || whole.write(0, &[round; 4096], false).expect("it writes"));
        });
        let mut found = [0; 4096];
        host.handle().read(0, &mut found).expect("it reads");
        assert!(found[..100].iter().chain(&found[108..]).all(|&byte| byte == round), "round {round}");
        assert!(found[100..108] == [255; 8] || found[100..108] == [round; 8], "round {round}");
    }
}

/// Flushed writes survive a kill of the process, on devices that are files, with some devices
/// missing.
#[test]
fn flushed_writes_survive_a_kill() {
    let folder = tempfile::tempdir().expect("a folder");
    let geometry = geometry("raid6:4");
    let path = |slot: u32| folder.path().join(format!("d{slot}"));
    let open_files = |without: &[u32]| -> Vec<Option<Arc<dyn Device>>> {
        (0..6u32)
            .map(|slot| match without.contains(&slot) {
                true => None,
                false => Some(Arc::new(FileDevice::open(path(slot)).expect("it is free")) as Arc<dyn Device>),
            })
            .collect()
    };
    for slot in 0..6 {
        let len = geometry.device_blocks(Slot(slot)) * BLOCK_BYTES;
        drop(FileDevice::create(path(slot), len).expect("a file"));
    }
    format(&geometry, &open_files(&[]));
    let data = painted(5, 1_000_000);
    let host = open(&geometry, &open_files(&[])).expect("it opens");
    host.handle().write(12_345, &data, false).expect("it writes");
    host.handle().flush().expect("it flushes");
    host.handle().write(12_345, &painted(6, 5000), false).expect("it writes");
    host.kill();
    for without in [&[][..], &[0], &[0, 2]] {
        let host = open(&geometry, &open_files(without)).expect("it opens");
        let mut found = vec![0; data.len()];
        host.handle().read(12_345, &mut found).expect("it reads");
        assert!(found[8000..] == data[8000..], "without {without:?}");
        host.handle().write(12_345, &data, true).expect("it writes");
        host.stop().expect("it stops");
    }
    assert!(matches!(
        open(&geometry, &open_files(&[0, 1, 2])).err(),
        Some(HostError::Open(OpenError::TooFewDevices { .. }))
    ));
}

#[test]
fn a_device_declared_failed_is_closed_and_read_around() {
    let geometry = geometry("raid6:4");
    let devices = memory(&geometry);
    format(&geometry, &devices);
    let host = open(&geometry, &devices).expect("it opens");
    let data = painted(9, 700_000);
    host.handle().write(0, &data, true).expect("it writes");
    let read = |host: &pantile_host::Host| {
        let mut found = vec![0; data.len()];
        host.handle().read(0, &mut found).map(|()| found == data)
    };
    for slot in [4, 1] {
        host.fail(Slot(slot)).expect("there is one");
        assert_eq!(read(&host), Ok(true));
        host.handle().write(0, &data, true).expect("it writes");
    }
    let report = host.report().expect("it serves");
    assert_eq!(report.status.devices[4].state, DeviceState::Lost);
    assert!(!report.members[1].attached && report.members[0].attached);
    assert_eq!(host.fail(Slot(6)), Err(HostError::NoSuchSlot { slot: Slot(6), slots: 6 }));
    host.fail(Slot(0)).expect("there is one");
    assert!(matches!(host.handle().write(0, &data, true), Err(HostError::Failed(_))));
    host.kill();
    // The end waits for attached devices. The thread of a device that was declared failed ends
    // later.
    let begun = Instant::now();
    let holders = |slot: usize| Arc::strong_count(devices[slot].as_ref().expect("ours"));
    assert_eq!([2, 3, 5].map(holders), [1; 3]);
    while [0, 1, 4].map(holders) != [1; 3] {
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", [0, 1, 4].map(holders));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Holds the reads of a device while it is shut. All clones share one state.
#[derive(Clone, Default)]
struct Gate(Arc<Latch>);

#[derive(Default)]
struct Latch {
    is_shut: Mutex<bool>,
    opened: Condvar,
    held: AtomicUsize,
}

impl Gate {
    fn shut(&self, is_shut: bool) {
        *self.0.is_shut.lock().expect("nothing panics under it") = is_shut;
        self.0.opened.notify_all();
    }
}

impl Layer for Gate {
    fn around(
        &self,
        _: &dyn Device,
        operation: Operation,
        does: &mut dyn FnMut(u64) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let mut is_shut = self.0.is_shut.lock().expect("nothing panics under it");
        while *is_shut && operation.kind == OpKind::Read {
            self.0.held.fetch_add(1, Ordering::Relaxed);
            is_shut = self.0.opened.wait(is_shut).expect("nothing panics under it");
        }
        drop(is_shut);
        does(operation.len_bytes)
    }
}

/// A block has two copies. The device of one copy is missing, so a read uses the other. During that
/// read the missing device returns, and the other one is lost.
#[test]
fn a_read_outlasts_the_return_of_a_device_and_the_loss_of_the_next() {
    let geometry = geometry("raid5:2");
    let gates: Vec<Gate> = (0..3).map(|_| Gate::default()).collect();
    let gated = |(device, gate): (Option<Arc<dyn Device>>, &Gate)| {
        device.map(|device| Arc::new(Layered::with(device, gate.clone())) as Arc<dyn Device>)
    };
    let devices: Vec<Option<Arc<dyn Device>>> =
        memory(&geometry).into_iter().zip(&gates).map(gated).collect();
    format(&geometry, &devices);
    let host = open(&geometry, &devices).expect("it opens");
    let data = painted(3, 4096);
    host.handle().write(40960, &data, true).expect("it writes");
    let read = || {
        let mut found = vec![0; data.len()];
        host.handle().read(40960, &mut found).map(|()| found == data)
    };
    // Returns the device that a read of the block uses.
    let place = || {
        let counts = || {
            let report = host.report().expect("it serves");
            report.status.devices.iter().map(|device| device.counts.blocks_read).collect::<Vec<_>>()
        };
        let before = counts();
        assert_eq!(read(), Ok(true));
        let read: Vec<usize> = (0..3).filter(|&slot| counts()[slot] > before[slot]).collect();
        assert_eq!(read.len(), 1, "one copy is read");
        read[0]
    };
    let first = place();
    host.fail(Slot(first as u32)).expect("there is one");
    let second = place();
    assert_ne!(first, second);
    gates[second].shut(true);
    std::thread::scope(|scope| {
        let reader = scope.spawn(read);
        until(|| gates[second].0.held.load(Ordering::Relaxed) > 0);
        let returns = devices[first].clone().expect("it is ours");
        until(|| host.attach(Slot(first as u32), returns.clone(), Found::Stale).is_ok());
        until(|| host.is_clean().expect("it serves"));
        host.fail(Slot(second as u32)).expect("there is one");
        assert_eq!(reader.join().expect("it ends"), Ok(true));
        gates[second].shut(false);
    });
    host.stop().expect("it stops");
}

/// Read-aheads of a sequential reader never hide newer writes, nor those of an epoch.
#[test]
fn blocks_read_ahead_are_the_newest() {
    let geometry = geometry_of("raid6:4", 600);
    let devices = memory(&geometry);
    format(&geometry, &devices);
    let host = open(&geometry, &devices).expect("it opens");
    let handle = host.handle();
    let mut model = painted(9, handle.len_bytes() as usize);
    handle.write(0, &model, false).expect("it writes");
    let mut random = fastrand::Rng::with_seed(9);
    for step in 0..2000u64 {
        let piece = 64 * BLOCK_BYTES;
        let at = step * piece % (handle.len_bytes() / piece * piece);
        let mut found = vec![1; piece as usize];
        handle.read(at, &mut found).expect("it reads");
        assert!(found == model[at as usize..(at + piece) as usize], "step {step}: {at}");
        // These blocks are those of the next read, or of one soon after.
        let from = (at + random.u64(1..4 * piece)).min(handle.len_bytes() - 1);
        let len = random.u64(1..=2 * BLOCK_BYTES).min(handle.len_bytes() - from);
        let part = &mut model[from as usize..(from + len) as usize];
        match random.u8(0..8) {
            0..3 => {
                part.copy_from_slice(&painted(step, len as usize));
                handle.write(from, part, false).expect("it writes");
            }
            3 => {
                let from = from / BLOCK_BYTES * BLOCK_BYTES;
                model[from as usize..(from + BLOCK_BYTES) as usize].fill(0);
                handle.trim(from, BLOCK_BYTES).expect("it trims");
            }
            4 => {
                let options = EpochOptions { range: Some((from, len)), ..EpochOptions::default() };
                let mut epoch = handle.begin(&options).expect("it begins");
                part.copy_from_slice(&painted(step, len as usize));
                epoch.write(from, part, false).expect("it writes");
                handle.read(at, &mut found).expect("it reads beside it");
                epoch.end().expect("it ends");
            }
            _ => {}
        }
    }
    host.stop().expect("it stops");
}

/// An idle volume makes writes durable without a flush, and frees room in its log for half of a
/// burst.
#[test]
fn an_idle_volume_frees_half_of_its_log() {
    let geometry = geometry_of("raid6:4", 160);
    let devices = memory(&geometry);
    format(&geometry, &devices);
    let options =
        HostOptions { idle_after: Duration::from_millis(300), ..HostOptions::for_devices(devices.len()) };
    let host = open_with(&geometry, &devices, &options).expect("it opens");
    let handle = host.handle();
    let mut model = painted(5, handle.len_bytes() as usize);
    // All blocks of each stripe except the first are written, so that no stripe is written as a
    // whole.
    let stripe = geometry.stripe_blocks() * BLOCK_BYTES;
    for at in (0..handle.len_bytes()).step_by(stripe as usize) {
        let hole = at as usize..(at + BLOCK_BYTES) as usize;
        handle.write(hole.end as u64, &model[hole.end..(at + stripe) as usize], false).expect("it writes");
        model[hole].fill(0);
    }
    handle.flush().expect("it flushes");
    let status = || host.report().expect("it serves").status;
    let used = status().log_rows_used;
    assert!(used > status().log_rows / 2, "{:?}", status());
    until(|| status().log_rows_used <= status().log_rows / 2);
    model[..4].copy_from_slice(b"last");
    handle.write(0, &model[..4], false).expect("it writes");
    until(|| host.report().expect("it serves").blocks_in_memory == 0);
    host.kill();
    let host = open(&geometry, &devices).expect("it opens again");
    let mut found = vec![1; model.len()];
    host.handle().read(0, &mut found).expect("it reads");
    assert!(found == model);
    host.stop().expect("it stops");
}

/// A device that no longer answers costs its deadline, and nothing else.
#[test]
fn a_device_that_hangs_is_given_up() {
    let geometry = geometry("raid6:4");
    let (devices, faulty) = memory_with_faulty(&geometry, Slot(2));
    format(&geometry, &devices);
    let options = HostOptions { device_deadline: Duration::from_millis(400), ..HostOptions::for_devices(6) };
    let host = open_with(&geometry, &devices, &options).expect("it opens");
    faulty.fail_from(OpKind::Write, 1, Fault::Delay(Duration::from_secs(4)));
    let begun = Instant::now();
    host.handle().write(0, &painted(1, 300_000), true).expect("it writes without the device");
    assert!(begun.elapsed() < Duration::from_secs(4), "it waited for the device");
    let report = host.report().expect("it serves");
    assert_eq!(report.status.devices[2].state, DeviceState::Lost);
    assert!(report.members[2].error.is_some());
    host.stop().expect("it stops");
}

/// Blocks that a device cannot read are read from the others; a device that is gone is lost.
#[test]
fn errors_of_devices_do_not_reach_the_reader() {
    let geometry = geometry("raid6:4");
    for (errno, state) in [(5, DeviceState::Present), (19, DeviceState::Lost)] {
        let (devices, faulty) = memory_with_faulty(&geometry, Slot(1));
        format(&geometry, &devices);
        let host = open(&geometry, &devices).expect("it opens");
        let data = painted(3, 2_000_000);
        host.handle().write(0, &data, true).expect("it writes");
        faulty.fail_from(OpKind::Read, 1, Fault::Errno(errno));
        let mut found = vec![0; data.len()];
        host.handle().read(0, &mut found).expect("it reads");
        assert!(found == data, "errno {errno}");
        assert_eq!(host.report().expect("it serves").status.devices[1].state, state, "errno {errno}");
        faulty.heal();
        host.stop().expect("it stops");
    }
}

/// The most common failure of a disk: it can be read, but not written. It is closed and its error
/// is reported. Then the slot is free for another device or, when it works again, for the same one.
#[test]
fn a_device_that_cannot_write_leaves_its_slot() {
    let geometry = geometry("raid6:4");
    let (devices, faulty) = memory_with_faulty(&geometry, Slot(1));
    format(&geometry, &devices);
    let host = open(&geometry, &devices).expect("it opens");
    let mut data = painted(3, 2_000_000);
    host.handle().write(0, &data, true).expect("it writes");
    faulty.fail_from(OpKind::Write, 1, Fault::Errno(5));
    data[..300_000].copy_from_slice(&painted(4, 300_000));
    host.handle().write(0, &data[..300_000], true).expect("it writes without the device");
    let report = host.report().expect("it serves");
    assert_eq!((report.status.devices[1].state, report.members[1].attached), (DeviceState::Lost, false));
    let error = report.members[1].error.as_ref().map(ToString::to_string).unwrap_or_default();
    assert!(error.contains("writing") && error.contains("cannot write there"), "{error}");
    faulty.heal();
    host.attach(Slot(1), faulty.clone(), Found::Stale).expect("the slot is free");
    until(|| host.report().expect("it serves").status.devices[1].state == DeviceState::Present);
    host.fail(Slot(0)).expect("it goes");
    host.fail(Slot(5)).expect("it goes");
    let mut found = vec![0; data.len()];
    host.handle().read(0, &mut found).expect("it reads");
    assert!(found == data);
    host.stop().expect("it stops");
}

/// Adjacent blocks are read as one I/O. A bad spot in it affects only its own blocks.
#[test]
fn a_bad_place_spoils_only_its_blocks() {
    let geometry = geometry("raid6:4");
    let (devices, faulty) = memory_with_faulty(&geometry, Slot(1));
    format(&geometry, &devices);
    let host = open(&geometry, &devices).expect("it opens");
    let data = painted(5, 2_000_000);
    host.handle().write(0, &data, true).expect("it writes");
    host.stop().expect("it stops");
    let host = open(&geometry, &devices).expect("it opens");
    let errors = || host.report().expect("it serves").status.devices[1].counts;
    assert_eq!((errors().media_errors, errors().checksum_errors), (0, 0));
    let stripe = (3..).find(|&stripe| geometry.column(stripe, Slot(1)) < 4).expect("it has data");
    let place = geometry.chunk_start(stripe, Slot(1)).0 + 2;
    let bytes = place * BLOCK_BYTES..(place + 1) * BLOCK_BYTES;
    faulty.fail_within(OpKind::Read, bytes.clone(), Fault::Errno(5));
    let mut found = vec![0; data.len()];
    host.handle().read(0, &mut found).expect("it reads");
    assert!(found == data);
    // Several reads fail at this spot: that of the chunk, that of the block alone, and that of the
    // repair, which may be under way.
    let found_bad = errors();
    assert!(matches!((found_bad.media_errors, found_bad.checksum_errors), (1..=4, 0)), "{found_bad:?}");
    faulty.heal();
    faulty.fail_within(OpKind::Write, bytes, Fault::Errno(5));
    host.handle().write(0, &data, true).expect("it writes");
    host.handle().read(0, &mut found).expect("it reads");
    assert!(found == data);
    host.stop().expect("it stops");
}

/// A write waits while a device has no space, and no device is given up.
#[test]
fn a_write_waits_for_space() {
    let geometry = geometry("raid6:4");
    let (devices, faulty) = memory_with_faulty(&geometry, Slot(0));
    format(&geometry, &devices);
    let host = open(&geometry, &devices).expect("it opens");
    faulty.fail_from(OpKind::Write, 1, Fault::Errno(28));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(500));
            assert!(host.report().expect("it serves").members[0].error.is_some());
            faulty.heal();
        });
        host.handle().write(0, &painted(1, 100_000), true).expect("it writes in the end");
    });
    let report = host.report().expect("it serves");
    assert_eq!(report.status.devices[0].state, DeviceState::Present);
    assert!(report.members[0].error.is_none());
}

/// Much more is written than fits into memory, and one block of each buffer stays in use.
#[test]
fn writers_wait_for_memory_and_are_served() {
    let geometry = geometry("raid6:4");
    let devices = memory(&geometry);
    format(&geometry, &devices);
    let options = HostOptions { write_bytes: 2 << 20, read_bytes: 1 << 20, ..HostOptions::for_devices(6) };
    let host = open_with(&geometry, &devices, &options).expect("it opens");
    let len = host.handle().len_bytes();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let handle = host.handle();
            scope.spawn(move || {
                let data = painted(thread, 1 << 20);
                for round in 0..40 {
                    let at = (round * 37 + thread * 11) * 4096 % (len - (1 << 20));
                    handle.write(at, &data, false).expect("it writes");
                    let mut found = vec![0; 1 << 20];
                    handle.read(at, &mut found).expect("it reads");
                }
            });
        }
    });
    host.stop().expect("it stops");
}

#[test]
fn wrong_requests_and_devices_are_refused() {
    let geometry = geometry("raid6:4");
    let mut devices = memory(&geometry);
    format(&geometry, &devices);
    let host = open(&geometry, &devices).expect("it opens");
    let (handle, len) = (host.handle(), host.handle().len_bytes());
    assert!(matches!(handle.read(len, &mut [0]), Err(HostError::OutOfRange { .. })));
    assert!(matches!(handle.write(u64::MAX, &[0], false), Err(HostError::OutOfRange { .. })));
    assert!(matches!(handle.trim(len - 1, 2), Err(HostError::OutOfRange { .. })));
    assert_eq!(handle.read(len, &mut []), Ok(()));
    assert_eq!(handle.write(len, &[], true), Ok(()));
    let spare: Arc<dyn Device> = Arc::new(MemoryDevice::new("spare", 1 << 20));
    let attached = host.attach(Slot(0), spare.clone(), pantile_volume::Found::Blank);
    assert_eq!(attached, Err(HostError::SlotTaken { slot: Slot(0) }));
    host.stop().expect("it stops");
    devices[3] = Some(spare);
    assert!(matches!(open(&geometry, &devices), Err(HostError::TooShort { slot: Slot(3), .. })));
    devices[3] = devices[2].clone();
    assert!(matches!(open(&geometry, &devices), Err(HostError::Device(_))));
}

/// A rebuild continues where a stop interrupted it.
#[test]
fn a_stop_keeps_how_far_a_rebuild_is() {
    let geometry = geometry_of("mirror:2", 2000);
    let mut devices = memory(&geometry);
    format(&geometry, &devices);
    let slow = HostOptions { background_bytes_per_s: Some(32 << 20), ..HostOptions::for_devices(2) };
    let host = open_with(&geometry, &devices, &slow).expect("it opens");
    host.handle().write(0, &vec![7; host.handle().len_bytes() as usize], true).expect("it writes");
    host.fail(Slot(1)).expect("it goes");
    devices[1] = memory(&geometry).swap_remove(1);
    let device = devices[1].clone().expect("it is there");
    host.attach(Slot(1), device, pantile_volume::Found::Blank).expect("it comes");
    let done = |host: &pantile_host::Host| match host.report().expect("it serves").status.devices[1].state {
        DeviceState::Rebuilding { done_stripes, .. } => done_stripes,
        // The device takes part once no commit is under way.
        DeviceState::Lost => 0,
        DeviceState::Present => u64::MAX,
    };
    let begun = Instant::now();
    while done(&host) == 0 && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let before = done(&host);
    assert!((1..2000).contains(&before), "{before}");
    host.stop().expect("it stops");
    let host = open_with(&geometry, &devices, &slow).expect("it opens");
    assert!(done(&host) >= before, "{} of {before}", done(&host));
    host.stop().expect("it stops");
}
