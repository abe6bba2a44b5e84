//! Direct reads: short reads bypass the engine's thread, and so do long ones of several concurrent
//! readers. They only differ in speed: they return the newest writes, whatever happens to these and
//! to the devices.

use crate::common::{Devices, format, geometry, geometry_of, open, open_with, painted};
use pantile_device::{AlignedBuf, BufferPool, Device, FileDevice, Layer, Layered, Mode};
use pantile_host::{Handle, Host, HostError, HostOptions};
use pantile_volume::{BLOCK_BYTES, DeviceState, Geometry, Slot};
use std::io::{PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

const BLOCK: usize = BLOCK_BYTES as usize;

fn files(geometry: &Geometry, dir: &Path) -> Devices {
    let file = |slot: u32| {
        let len = geometry.device_blocks(Slot(slot)) * BLOCK_BYTES;
        let device = FileDevice::create(dir.join(slot.to_string()), len).expect("a file");
        assert_eq!(device.mode(), Mode::Direct, "{}: the test has to lie on a disk", dir.display());
        Some(Arc::new(device) as Arc<dyn Device>)
    };
    let devices: Devices = (0..geometry.slots() as u32).map(file).collect();
    format(geometry, &devices);
    devices
}

fn direct(host: &Host) -> u64 {
    host.report().expect("it serves").blocks_read_directly
}

fn read(host: &Host, offset: u64, len: usize) -> Vec<u8> {
    read_of(&host.handle(), offset, len)
}

/// Reads a range in one of two ways; which one depends on offset and length.
fn read_of(handle: &Handle, offset: u64, len: usize) -> Vec<u8> {
    let gives_away = (offset / BLOCK_BYTES + len as u64).count_ones().is_multiple_of(2);
    if gives_away {
        return read_into(handle, offset, AlignedBuf::zeroed(len)).to_vec();
    }
    let mut found = vec![0xee; len];
    handle.read(offset, &mut found).expect("it reads");
    found
}

/// Reads a range into a buffer that is given away.
fn read_into(handle: &Handle, offset: u64, mut buffer: AlignedBuf) -> AlignedBuf {
    buffer.fill(0xee);
    let len = buffer.len();
    let found = handle.read_buffer(offset, buffer).expect("it reads");
    assert_eq!(found.len(), len);
    found
}

/// Returns a block that begins with an 8-byte number and is filled with bytes computed from it.
fn numbered(number: u64) -> Vec<u8> {
    let mut block = painted(number, BLOCK);
    block[..8].copy_from_slice(&number.to_le_bytes());
    block
}

/// The writers count up in some blocks, while others read these. A reader never finds a number
/// older than the last one acknowledged before its read, nor one whose write has not begun.
/// Meanwhile stripes are written as a whole, merged, flushed and trimmed.
#[test]
fn readers_beside_writers_see_the_last_write() {
    for code in ["raid6:4", "dcode:5", "raid5:3"] {
        let dir = tempfile::tempdir().expect("a folder");
        let geometry = geometry_of(code, 48);
        let host = open(&geometry, &files(&geometry, dir.path())).expect("it opens");
        let len = host.handle().len_bytes();
        host.handle().write(0, &painted(1, len as usize), true).expect("it writes");
        drop(read(&host, 0, len as usize));
        let places: Vec<u64> = (0..24).map(|i| i * 7 % (len / BLOCK_BYTES)).collect();
        let begun: Vec<AtomicU64> = places.iter().map(|_| AtomicU64::new(1)).collect();
        let answered: Vec<AtomicU64> = places.iter().map(|_| AtomicU64::new(1)).collect();
        for &place in &places {
            host.handle().write(place * BLOCK_BYTES, &numbered(1), false).expect("it writes");
        }
        host.handle().flush().expect("it flushes");
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (places, begun, answered, stop) = (&places, &begun, &answered, &stop);
            for writer in 0..2 {
                let handle = host.handle();
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(writer);
                    for number in 2.. {
                        let which = random.usize(..places.len() / 2) * 2 + writer as usize;
                        begun[which].fetch_max(number, Ordering::SeqCst);
                        let at = places[which] * BLOCK_BYTES;
                        handle.write(at, &numbered(number), random.u8(..8) == 0).expect("it writes");
                        answered[which].fetch_max(number, Ordering::SeqCst);
                        if stop.load(Ordering::SeqCst) {
                            break;
                        }
                        // From time to time a writer pauses, so that all writes are on the devices.
                        if random.u8(..16) == 0 {
                            std::thread::sleep(Duration::from_millis(5));
                        }
                    }
                });
            }
            let mut readers = Vec::new();
            for reader in 0..3 {
                let handle = host.handle();
                readers.push(scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(100 + reader);
                    for round in 0..4000 {
                        if round % 16 == 0 {
                            // A read of this length is direct, with stripes of 16 blocks and chunks
                            // of 4.
                            let first = random.u64(..len / BLOCK_BYTES - 60);
                            let least: Vec<u64> =
                                answered.iter().map(|number| number.load(Ordering::SeqCst)).collect();
                            let found = read_of(&handle, first * BLOCK_BYTES, random.usize(17..60) * BLOCK);
                            for (which, &place) in places.iter().enumerate() {
                                let at = place.checked_sub(first).map(|block| block as usize * BLOCK);
                                let Some(block) = at.and_then(|at| found.get(at..at + BLOCK)) else {
                                    continue;
                                };
                                let number = u64::from_le_bytes(block[..8].try_into().expect("eight bytes"));
                                let most = begun[which].load(Ordering::SeqCst);
                                assert!((least[which]..=most).contains(&number), "{code}: {number}");
                                assert!(block == numbered(number), "{code}: a torn {number}");
                            }
                        }
                        let which = random.usize(..places.len());
                        let least = answered[which].load(Ordering::SeqCst);
                        let found = read_of(&handle, places[which] * BLOCK_BYTES, BLOCK);
                        let number = u64::from_le_bytes(found[..8].try_into().expect("eight bytes"));
                        let most = begun[which].load(Ordering::SeqCst);
                        assert!(
                            (least..=most).contains(&number),
                            "{code}: {number} is not in {least} to {most}"
                        );
                        assert!(found == numbered(number), "{code}: a torn {number}");
                    }
                }));
            }
            let ends: Vec<_> = readers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
            stop.store(true, Ordering::SeqCst);
            ends.into_iter().for_each(|end| end.expect("what readers saw is right"));
        });
        assert!(direct(&host) > 0, "{code}: no read went to a device");
        let report = host.report().expect("it serves");
        assert!(report.status.devices.iter().all(|device| device.counts.checksum_errors == 0));
    }
}

/// The whole volume is read in pieces of any length. That is done when the checksums are in memory,
/// after the loss of a device, after its return, and after a trim.
#[test]
fn all_ways_of_reading_agree() {
    let dir = tempfile::tempdir().expect("a folder");
    let geometry = geometry("raid6:4");
    let devices = files(&geometry, dir.path());
    let host = open(&geometry, &devices).expect("it opens");
    let len = host.handle().len_bytes() as usize;
    let model = painted(5, len);
    host.handle().write(0, &model, true).expect("it writes");
    let mut random = fastrand::Rng::with_seed(6);
    let mut check = |host: &Host| {
        let before = direct(host);
        for _ in 0..400 {
            let count = random.usize(1..5 * BLOCK);
            let at = random.usize(..len - count);
            assert!(read(host, at as u64, count) == model[at..at + count], "{at} + {count}");
        }
        direct(host) - before
    };
    // Makes long reads by several threads. Returns the number of blocks that were read directly,
    // and of all blocks.
    let check_long = |host: &Host| {
        let before = direct(host);
        let wanted = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for reader in 0..3 {
                let (model, wanted) = (&model, &wanted);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(reader);
                    for round in 0..200 {
                        let whole = if round % 2 == 0 { 1 } else { BLOCK };
                        let count = random.usize(16 * BLOCK + 1..56 * BLOCK) / whole * whole;
                        let at = random.usize(..len - count) / whole * whole;
                        assert!(read(host, at as u64, count) == model[at..at + count], "{at} + {count}");
                        wanted.fetch_add((count / BLOCK) as u64, Ordering::SeqCst);
                    }
                });
            }
        });
        (direct(host) - before, wanted.into_inner())
    };
    drop(read(&host, 0, len));
    assert!(check(&host) > 300, "few went to the devices");
    let (went, wanted) = check_long(&host);
    assert!(went > wanted / 2, "{went} of {wanted} went to the devices");
    host.fail(Slot(2)).expect("it is there");
    assert!(check(&host) > 300, "blocks of the lost device can be computed");
    let (went, wanted) = check_long(&host);
    assert!(went > wanted / 4, "{went} of {wanted} went to the devices");
    host.stop().expect("it stops");
    let mut byte = [0];
    assert_eq!(host.handle().read(0, &mut byte), Err(HostError::Stopped));
    let pool = BufferPool::new(BLOCK);
    let buffer = || pool.take(1).expect("it has come back");
    assert_eq!(host.handle().read_buffer(0, buffer()).map(drop), Err(HostError::Stopped));
    let outside = HostError::OutOfRange { end_bytes: len as u64 + 1, len_bytes: len as u64 };
    assert_eq!(host.handle().read_buffer(len as u64, buffer()).map(drop), Err(outside));

    let mut there = devices.clone();
    there[1] = None;
    let host = open(&geometry, &there).expect("it opens");
    check(&host);
    check_long(&host);
    crate::common::until(|| {
        host.report().expect("it serves").status.devices[2].state == DeviceState::Present
    });
    host.fail(Slot(4)).expect("it is there");
    assert!(check(&host) > 200, "blocks of the two lost devices can be computed");
    check_long(&host);
    host.handle().trim(0, 8 * BLOCK_BYTES).expect("it trims");
    assert!(read(&host, 0, 8 * BLOCK).iter().all(|&byte| byte == 0));
    assert!(read(&host, BLOCK_BYTES, BLOCK).iter().all(|&byte| byte == 0));
    host.stop().expect("it stops");
}

/// The engine reads ahead of a single sequential reader. Several concurrent readers read directly,
/// as if it had not.
#[test]
fn a_crowd_is_not_read_ahead_of() {
    let dir = tempfile::tempdir().expect("a folder");
    let geometry = geometry("raid6:4");
    let host = open(&geometry, &files(&geometry, dir.path())).expect("it opens");
    let len = host.handle().len_bytes() as usize;
    let model = painted(9, len);
    host.handle().write(0, &model, true).expect("it writes");
    drop(read(&host, 0, len));
    let one = 16 * BLOCK;
    let places: Vec<usize> = (0..len / one).map(|i| i * one).collect();
    let check = |at: usize| assert!(read(&host, at as u64, one) == model[at..at + one], "{at}");
    let before = direct(&host);
    places.iter().for_each(|&at| check(at));
    assert_eq!(direct(&host), before, "one reader is read ahead of");
    let (next, count) = (AtomicU64::new(0), 40 * places.len());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let read = next.fetch_add(1, Ordering::SeqCst) as usize;
                    if read >= count {
                        return;
                    }
                    check(places[read % places.len()]);
                }
            });
        }
    });
    let went = direct(&host) - before;
    let wanted = (count * 16) as u64;
    assert!(went > wanted / 2, "{went} of {wanted} went to the devices");
}

/// A direct read that finds a wrong checksum is left to the engine, which counts it and repairs the
/// block.
#[test]
fn wrong_blocks_are_seen_and_repaired() {
    let dir = tempfile::tempdir().expect("a folder");
    let geometry = geometry("raid6:4");
    let host = open(&geometry, &files(&geometry, dir.path())).expect("it opens");
    let len = host.handle().len_bytes() as usize;
    let model = painted(7, len);
    host.handle().write(0, &model, true).expect("it writes");
    drop(read(&host, 0, len));
    let path = dir.path().join("3");
    let bytes = std::fs::read(&path).expect("a file");
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("a file");
    let wanted = |block: usize| &model[block * BLOCK..(block + 1) * BLOCK];
    let found = (0..len / BLOCK).find_map(|block| {
        let at = bytes.chunks_exact(BLOCK).position(|on_device| on_device == wanted(block))?;
        Some((block, at * BLOCK))
    });
    let (block, at) = found.expect("the device has something of the user's");
    file.write_all_at(&[!bytes[at + 9]], at as u64 + 9).expect("it lies");
    let errors = |host: &Host| {
        let devices = host.report().expect("it serves").status.devices;
        devices.iter().map(|device| device.counts.checksum_errors).collect::<Vec<u64>>()
    };
    let before = direct(&host);
    assert!(read(&host, (block * BLOCK) as u64, BLOCK) == wanted(block));
    assert_eq!(direct(&host), before, "that was no answer");
    let counted = errors(&host);
    assert!(counted[3] > 0 && counted.iter().sum::<u64>() == counted[3], "{counted:?}");
    host.handle().flush().expect("it flushes");
    crate::common::until(|| host.is_clean().expect("it serves"));
    assert!(read(&host, (block * BLOCK) as u64, BLOCK) == wanted(block));
    assert_eq!(errors(&host), counted);
}

/// A device that hangs for direct reads: they get the empty end of a pipe instead of its file.
struct Hangs {
    pipe: PipeReader,
    /// The reading thread. Other threads, such as the engine's, only ask whether the device is a
    /// file.
    reader: ThreadId,
    hangs: AtomicBool,
    asked: AtomicU64,
}

impl Layer for Hangs {
    fn direct_file<'a>(&'a self, _: &'a dyn Device) -> Option<BorrowedFd<'a>> {
        if std::thread::current().id() != self.reader || !self.hangs.load(Ordering::SeqCst) {
            return None;
        }
        self.asked.fetch_add(1, Ordering::SeqCst);
        Some(self.pipe.as_fd())
    }
}

/// A direct read that waits for a device that hangs is answered after a while, from other devices
/// or by the engine. Then only the engine reads from this device. The volume can be stopped before
/// and after the device answers.
#[test]
fn a_device_that_is_late_is_left_to_the_engine() {
    for (answers, gives_away) in [(true, false), (true, true), (false, true)] {
        let dir = tempfile::tempdir().expect("a folder");
        let geometry = geometry("raid6:4");
        let mut devices = files(&geometry, dir.path());
        devices[0] = None;
        let (pipe, mut writer): (PipeReader, PipeWriter) = std::io::pipe().expect("a pipe");
        let file = FileDevice::open(dir.path().join("0")).expect("a file");
        let reader = std::thread::current().id();
        let layer = Hangs { pipe, reader, hangs: AtomicBool::new(false), asked: AtomicU64::new(0) };
        let hangs = Arc::new(Layered::with(file, layer));
        devices[0] = Some(hangs.clone());
        let options = HostOptions { idle_after: Duration::from_secs(3600), ..HostOptions::for_devices(6) };
        let host = open_with(&geometry, &devices, &options).expect("it opens");
        let len = host.handle().len_bytes() as usize;
        let model = painted(8, len);
        host.handle().write(0, &model, true).expect("it writes");
        drop(read(&host, 0, len));
        hangs.layer().hangs.store(true, Ordering::SeqCst);
        let begun = Instant::now();
        let pool = BufferPool::new(len);
        let read_all = || {
            for block in 0..len / BLOCK {
                let at = (block * BLOCK) as u64;
                let wanted = &model[block * BLOCK..][..BLOCK];
                if gives_away {
                    let buffer = pool.take(BLOCK).expect("at most one is kept");
                    assert!(read_into(&host.handle(), at, buffer)[..] == *wanted);
                } else {
                    let mut found = vec![0xee; BLOCK];
                    host.handle().read(at, &mut found).expect("it reads");
                    assert!(found == wanted);
                }
            }
        };
        read_all();
        assert!(begun.elapsed() > Duration::from_millis(900));
        read_all();
        // A busy machine may take longer than the time for which only the engine reads from the
        // device.
        let asked_again = hangs.layer().asked.load(Ordering::SeqCst) > 1;
        assert!(!asked_again || begun.elapsed() > Duration::from_secs(30), "it is not asked again soon");
        let kept = if gives_away { BLOCK } else { 0 };
        assert_eq!(pool.used_bytes(), kept, "the device may still write to what was given");
        let device = host.report().expect("it serves").status.devices[0].state;
        assert_eq!(device, DeviceState::Present);
        if answers {
            writer.write_all(&[0; BLOCK]).expect("a pipe takes a page");
            crate::common::until(|| pool.used_bytes() == 0);
            let before = Instant::now();
            host.stop().expect("it stops");
            assert!(before.elapsed() < Duration::from_secs(20), "the device has answered");
        } else {
            let (done, waiting) = std::sync::mpsc::channel();
            let thread = std::thread::spawn(move || {
                host.stop().expect("it stops");
                done.send(()).expect("the test waits");
            });
            assert!(waiting.recv_timeout(Duration::from_secs(1)).is_err(), "the device is still being read");
            writer.write_all(&[0; BLOCK]).expect("a pipe takes a page");
            waiting.recv_timeout(Duration::from_secs(20)).expect("it has ended");
            thread.join().expect("it has ended");
        }
        drop(devices);
        assert_eq!(Arc::strong_count(&hangs), 1, "nobody has it any more");
        assert_eq!(pool.used_bytes(), 0, "and what was given has come back");
    }
}
