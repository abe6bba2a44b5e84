//! Compares a pool that leaves reads and writes of files to the system with one that uses threads.
//! The bytes and the errors are the same.
//!
//! On a system without io_uring both use threads, and the tests pass.

use pantile_device::*;
use std::fs::OpenOptions as StdOptions;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

fn pool(ring: bool) -> IoPool {
    IoPool::new(PoolOptions { ring, ..PoolOptions::default() })
}

/// Performs one operation, and returns its completion.
fn one(pool: &IoPool, op: Op) -> Completion {
    pool.submit(Request { token: 7, device: 0, priority: Priority::User, op }).unwrap();
    let mut done = Vec::new();
    while done.is_empty() {
        assert!(Instant::now() < soon());
        pool.wait(&mut done, soon());
    }
    done.remove(0)
}

fn read(offset_bytes: u64, len: usize) -> Op {
    Op::Read { offset_bytes, buffer: AlignedBuf::zeroed(len), range: 0..len }
}

fn written(offset_bytes: u64, len: usize, byte: u8) -> Op {
    let mut buffer = AlignedBuf::zeroed(len);
    buffer.fill(byte);
    Op::Write { offset_bytes, parts: vec![Segment::whole(buffer)] }
}

/// Random reads and writes of many pieces, some of them in the background, compared with a model.
/// Two files with the same operations have the same content at the end.
#[test]
fn both_write_and_read_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let files = [true, false].map(|ring| {
        let path = dir.path().join(ring.to_string());
        let pool = pool(ring);
        pool.attach(Arc::new(FileDevice::create(&path, 4 * MIB as u64).unwrap())).unwrap();
        let (mut rng, mut model) = (fastrand::Rng::with_seed(3), vec![0u8; 4 * MIB]);
        for token in 0..600 {
            let blocks = rng.usize(1..=40);
            let offset = rng.usize(0..=1024 - blocks) * 4096;
            let here = offset..offset + blocks * 4096;
            let op = match rng.bool() {
                true => Op::Read {
                    offset_bytes: offset as u64,
                    buffer: AlignedBuf::zeroed(41 * 4096),
                    range: 4096..4096 + blocks * 4096,
                },
                false => {
                    let mut buffer = AlignedBuf::zeroed(blocks * 4096);
                    buffer.chunks_mut(4096).for_each(|block| block.fill(rng.u8(..)));
                    model[here.clone()].copy_from_slice(&buffer);
                    let buffer = Arc::new(buffer);
                    let part = |at| Segment { buffer: buffer.clone(), range: at * 4096..(at + 1) * 4096 };
                    Op::Write { offset_bytes: offset as u64, parts: (0..blocks).map(part).collect() }
                }
            };
            let priority = [Priority::User, Priority::Background][rng.usize(..2)];
            pool.submit(Request { token, device: 0, priority, op }).unwrap();
            let mut done = Vec::new();
            while pool.wait(&mut done, soon()) == 0 {}
            let completion = done.remove(0);
            assert_eq!((completion.token, completion.result), (token, Ok(())));
            if let Op::Read { buffer, range, .. } = completion.op {
                assert!(buffer[range] == model[here], "{token}");
            }
        }
        drop(pool);
        assert!(std::fs::read(&path).unwrap() == model);
        std::fs::read(path).unwrap()
    });
    assert!(files[0] == files[1]);
}

/// Operations past the end, unaligned ones, and those on a truncated file have the same error as on
/// a thread, in every field. Without direct I/O no alignment is required.
#[test]
fn both_say_the_same_of_what_cannot_be_done() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    if FileDevice::create(&path, MIB as u64).unwrap().mode() != Mode::Direct {
        return println!("left out: {} is not on a disk with direct I/O", path.display());
    }
    std::fs::remove_file(&path).unwrap();
    let said = [true, false].map(|ring| {
        let device = FileDevice::create(&path, MIB as u64).unwrap();
        let pool = pool(ring);
        pool.attach(Arc::new(device)).unwrap();
        let past_the_end = one(&pool, read(MIB as u64 - 4096, 8192)).result;
        let beyond = one(&pool, written(u64::MAX - 4095, 4096, 1)).result;
        let unaligned = one(&pool, read(1, 4096)).result;
        let odd = Op::Read { offset_bytes: 0, buffer: AlignedBuf::zeroed(8192), range: 3..4099 };
        let odd = one(&pool, odd).result;
        StdOptions::new().write(true).open(&path).unwrap().set_len(MIB as u64 / 2).unwrap();
        let cut = one(&pool, read(MIB as u64 / 2 - 4096, 8192)).result;
        let behind_the_cut = one(&pool, read(MIB as u64 / 2 + 4096, 4096)).result;
        let before_the_cut = one(&pool, read(0, 4096)).result;
        assert_eq!(pool.outstanding(0), 0);
        drop(pool);
        std::fs::remove_file(&path).unwrap();
        [past_the_end, beyond, unaligned, odd, cut, behind_the_cut, before_the_cut]
    });
    assert_eq!(said[0], said[1]);
    assert!(said[0][..6].iter().all(Result::is_err) && said[0][6].is_ok(), "{:?}", said[0]);
}

/// The actions of a layer must not be skipped: the ring does not serve a device with layers.
#[test]
fn the_ring_does_not_bypass_layers() {
    struct Says(bool);
    impl Layer for Says {
        fn direct_file<'a>(&'a self, within: &'a dyn Device) -> Option<BorrowedFd<'a>> {
            within.direct_file().filter(|_| self.0)
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let file = Arc::new(FileDevice::create(dir.path().join("file"), MIB as u64).unwrap());
    let is_direct = |device: &dyn Device| device.direct_file().map(|_: BorrowedFd<'_>| ()).is_some();
    // Nor does it serve a file system that may block the submitting thread.
    let is_for_ring = is_direct(&file);
    assert!(!is_for_ring || file.mode() == Mode::Direct);
    assert_eq!(is_direct(&Layered::with(file.clone(), Says(true))), is_for_ring);
    assert!(!is_direct(&Layered::with(file.clone(), Says(false))));
    let faulty = Faulty::new(file.clone());
    assert!(!is_direct(&faulty));
    drop(faulty);
    drop(file);
    // A device that is open for reading only refuses writes itself.
    let read_only = OpenOptions { access: Access::ReadOnly, ..OpenOptions::default() };
    let read_only = FileDevice::open_with(dir.path().join("file"), read_only).unwrap();
    assert_eq!(is_direct(&read_only), is_for_ring);
}

#[test]
fn accepted_requests_are_done_when_the_pool_ends() {
    let dir = tempfile::tempdir().unwrap();
    for shuts_down in [false, true] {
        let path = dir.path().join(shuts_down.to_string());
        let pool = pool(true);
        pool.attach(Arc::new(FileDevice::create(&path, 16 * MIB as u64).unwrap())).unwrap();
        for token in 0..64 {
            let op = written(token * 256 * 1024, 256 * 1024, token as u8 + 1);
            pool.submit(Request { token, device: 0, priority: Priority::User, op }).unwrap();
        }
        match shuts_down {
            false => drop(pool),
            true => {
                let drained = pool.shutdown(soon());
                assert_eq!((drained.completions.len(), drained.stuck.len()), (64, 0));
                assert!(drained.completions.iter().all(|completion| completion.result.is_ok()));
            }
        }
        let bytes = std::fs::read(&path).unwrap();
        assert!((0..64).all(|at| bytes[at * 256 * 1024..][..256 * 1024].iter().all(|&b| b == at as u8 + 1)));
        // The device is closed everywhere.
        FileDevice::open(&path).unwrap();
    }
}

#[test]
fn running_requests_complete_after_their_device_was_detached() {
    let dir = tempfile::tempdir().unwrap();
    let pool = pool(true);
    let path = dir.path().join("file");
    pool.attach(Arc::new(FileDevice::create(&path, 16 * MIB as u64).unwrap())).unwrap();
    for token in 0..16 {
        let op = written(token * MIB as u64, MIB, 9);
        pool.submit(Request { token, device: 0, priority: Priority::User, op }).unwrap();
    }
    let taken_back = pool.detach(0).len();
    let mut done = Vec::new();
    while done.len() + taken_back < 16 {
        assert!(pool.wait(&mut done, soon()) > 0);
    }
    drop(done);
    FileDevice::open(&path).unwrap();
}

/// Calls of `wake` from another thread end a wait, in the ring and outside, at any moment; no call
/// is lost.
#[test]
fn a_call_ends_a_wait_at_any_moment() {
    let dir = tempfile::tempdir().unwrap();
    let pool = pool(true);
    pool.attach(Arc::new(FileDevice::create(dir.path().join("file"), 16 * MIB as u64).unwrap())).unwrap();
    pool.attach(Arc::new(MemoryDevice::new("memory", MIB as u64))).unwrap();
    let calls = 300;
    let mut rng = fastrand::Rng::with_seed(11);
    for _ in 0..calls {
        let mut left = rng.usize(0..4);
        for token in 0..left as u64 {
            let op = read(token * MIB as u64, (64 * 1024) << rng.u32(0..4));
            let (device, op) = if rng.bool() { (0, op) } else { (1, read(0, 4096)) };
            pool.submit(Request { token, device, priority: Priority::User, op }).unwrap();
        }
        std::thread::scope(|scope| {
            let pause = Duration::from_micros(rng.u64(0..300));
            let pool = &pool;
            scope.spawn(move || {
                std::thread::sleep(pause);
                pool.wake();
            });
            let (mut done, mut called) = (Vec::new(), false);
            while left > 0 || !called {
                let count = pool.wait(&mut done, soon());
                assert!(count > 0 || Instant::now() < soon());
                called |= count == 0;
                left -= count;
                if left == 0 && !called {
                    // The call may have ended together with the last completion.
                    called = pool.wait(&mut done, Instant::now() + pause + Duration::from_millis(20)) == 0;
                }
            }
        });
    }
}

/// A file in memory, or on a file system without direct I/O, works as usual.
#[test]
fn a_file_through_the_page_cache_needs_no_ring() {
    let path = Path::new("/dev/shm").join(format!("pantile-ring-{}", std::process::id()));
    if let Ok(device) = FileDevice::create(&path, MIB as u64) {
        let pool = pool(true);
        pool.attach(Arc::new(device)).unwrap();
        assert_eq!(one(&pool, written(4096, 4096, 5)).result, Ok(()));
        let Op::Read { buffer, .. } = one(&pool, read(4096, 4096)).op else { unreachable!("it was a read") };
        assert!(buffer.iter().all(|&byte| byte == 5));
        drop(pool);
        std::fs::remove_file(&path).unwrap();
    }
}
