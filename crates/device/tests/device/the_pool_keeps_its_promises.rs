//! Threads, order, priorities, bounds and the end of a pool.

use pantile_device::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(20);

fn soon() -> Instant {
    Instant::now() + LONG
}

/// A device in memory whose operations wait at a door, which records the start and end of each.
type Gated = Layered<MemoryDevice, Door>;

struct Door {
    open: Mutex<bool>,
    opened: Condvar,
    log: Mutex<Vec<(OpKind, u64, &'static str)>>,
}

/// Opens the door when the test ends, even after a panic: a pool that is dropped waits for its
/// devices.
struct Gate(Arc<Gated>);

impl Drop for Gate {
    fn drop(&mut self) {
        self.set(true);
    }
}

impl Gate {
    fn new(open: bool) -> Gate {
        let door = Door { open: Mutex::new(open), opened: Condvar::new(), log: Mutex::default() };
        Gate(Arc::new(Layered::with(MemoryDevice::new("gated", 1 << 20), door)))
    }

    fn set(&self, open: bool) {
        *self.0.layer().open.lock().unwrap() = open;
        self.0.layer().opened.notify_all();
    }

    fn log(&self) -> Vec<(OpKind, u64, &'static str)> {
        self.0.layer().log.lock().unwrap().clone()
    }

    fn begun(&self) -> usize {
        self.log().iter().filter(|entry| entry.2 == "begins").count()
    }

    fn until_begun(&self, count: usize) {
        let end = soon();
        while self.begun() < count {
            assert!(Instant::now() < end, "only {} of {count} began", self.begun());
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

impl Layer for Door {
    fn around(
        &self,
        _within: &dyn Device,
        Operation { kind, offset_bytes, len_bytes }: Operation,
        does: &mut dyn FnMut(u64) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        self.log.lock().unwrap().push((kind, offset_bytes, "begins"));
        drop(self.opened.wait_while(self.open.lock().unwrap(), |open| !*open).unwrap());
        let result = does(len_bytes);
        self.log.lock().unwrap().push((kind, offset_bytes, "ends"));
        result
    }
}

fn options(workers: usize, background: usize, depth: usize) -> PoolOptions {
    PoolOptions {
        workers_per_device: workers,
        background_workers_per_device: background,
        depth_per_device: depth,
        ring: true,
    }
}

fn write(token: u64, device: usize, priority: Priority) -> Request {
    let parts = vec![Segment::whole(AlignedBuf::zeroed(512))];
    Request { token, device, priority, op: Op::Write { offset_bytes: token * 512, parts } }
}

fn flush(token: u64, device: usize) -> Request {
    Request { token, device, priority: Priority::User, op: Op::Flush }
}

/// Returns the tokens of the next `count` completions, ascending. All of them must be successful.
fn tokens(pool: &IoPool, count: usize) -> Vec<u64> {
    let (mut done, end) = (Vec::new(), soon());
    while done.len() < count {
        assert!(pool.wait(&mut done, end) > 0, "{} of {count} completed", done.len());
    }
    done.iter().for_each(|completion| assert_eq!(completion.result, Ok(())));
    let mut tokens: Vec<_> = done.iter().map(|completion| completion.token).collect();
    tokens.sort_unstable();
    tokens
}

#[test]
fn threads_on_their_own_ranges_find_what_they_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let pool = IoPool::new(PoolOptions::default());
    let buffers = BufferPool::new(8 << 20);
    for index in 0..3 {
        let path = dir.path().join(index.to_string());
        pool.attach(Arc::new(FileDevice::create(path, 4 << 20).unwrap())).unwrap();
    }
    // One thread submits and one takes completions, concurrently. Each device has 8 lanes of 64
    // KiB; each is written, read and checked.
    let rounds = 60;
    let mut generation = [[0u8; 8]; 3];
    let byte = |device: usize, lane: usize, generation: u8| (device * 80 + lane * 10) as u8 ^ generation;
    let start = |device: usize, lane: usize, generation: u8| {
        let mut buffer = buffers.take(65_536).unwrap();
        let token = (device * 8 + lane) as u64;
        let (offset_bytes, even) = (lane as u64 * 65_536, generation.is_multiple_of(2));
        let op = if even {
            buffer.fill(byte(device, lane, generation));
            let buffer = Arc::new(buffer);
            let part = |range| Segment { buffer: buffer.clone(), range };
            Op::Write { offset_bytes, parts: vec![part(0..4096), part(4096..65_536)] }
        } else {
            Op::Read { offset_bytes, buffer, range: 0..65_536 }
        };
        pool.submit(Request { token, device, priority: Priority::User, op }).unwrap();
    };
    for device in 0..3 {
        (0..8).for_each(|lane| start(device, lane, 0));
    }
    let (mut done, mut over) = (Vec::new(), 0);
    while over < 24 {
        assert!(pool.wait(&mut done, soon()) > 0);
        for completion in done.drain(..) {
            let (device, lane) = (completion.device, completion.token as usize % 8);
            completion.result.unwrap();
            let now = generation[device][lane];
            if let Op::Read { buffer, .. } = completion.op {
                assert!(
                    buffer.iter().all(|&found| found == byte(device, lane, now - 1)),
                    "{device} {lane} {now}"
                );
            }
            generation[device][lane] += 1;
            match generation[device][lane] {
                next if next < rounds => start(device, lane, next),
                _ => over += 1,
            }
        }
    }
    drop(pool);
    assert_eq!(buffers.used_bytes(), 0);
}

/// Two devices in memory, which threads serve, and two files, which the ring serves if there is
/// one.
#[test]
fn many_submitters_and_takers_lose_and_double_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let pool = IoPool::new(options(4, 2, 64));
    for index in 0..2 {
        pool.attach(Arc::new(MemoryDevice::new("memory", 1 << 20))).unwrap();
        let path = dir.path().join(index.to_string());
        pool.attach(Arc::new(FileDevice::create(path, 1 << 20).unwrap())).unwrap();
    }
    let (each, seen) = (4000, Mutex::new(vec![0u8; 4 * 4000]));
    let left = AtomicUsize::new(4 * each);
    std::thread::scope(|scope| {
        for submitter in 0..4 {
            let pool = &pool;
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(submitter as u64);
                for i in 0..each {
                    let priority = [Priority::User, Priority::Background][rng.usize(0..2)];
                    let mut request = write((submitter * each + i) as u64, rng.usize(0..4), priority);
                    if let Op::Write { offset_bytes, .. } = &mut request.op {
                        *offset_bytes = rng.u64(0..2048) * 512;
                    }
                    if rng.u32(0..20) == 0 {
                        request.op = Op::Flush;
                    }
                    while let Err(rejected) = pool.submit(request) {
                        assert_eq!(rejected.why, Refusal::Full);
                        request = *rejected.request;
                        std::thread::yield_now();
                    }
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                let mut done = Vec::new();
                while left.load(SeqCst) > 0 {
                    pool.wait(&mut done, Instant::now() + Duration::from_millis(20));
                    for completion in done.drain(..) {
                        seen.lock().unwrap()[completion.token as usize] += 1;
                        left.fetch_sub(1, SeqCst);
                    }
                }
            });
        }
    });
    assert!(seen.lock().unwrap().iter().all(|&count| count == 1));
    assert_eq!((0..4).map(|device| pool.outstanding(device)).sum::<usize>(), 0);
}

#[test]
fn a_device_that_hangs_blocks_no_other() {
    let pool = IoPool::new(options(2, 1, 16));
    let (hung, well) = (Gate::new(false), Gate::new(true));
    pool.attach(hung.0.clone()).unwrap();
    pool.attach(well.0.clone()).unwrap();
    (0..10).for_each(|token| pool.submit(write(token, 0, Priority::User)).unwrap());
    hung.until_begun(2);
    (100..110).for_each(|token| pool.submit(write(token, 1, Priority::User)).unwrap());
    assert_eq!(tokens(&pool, 10), (100..110).collect::<Vec<_>>());
    // After the device is detached, requests that have not begun are returned, and its slot is
    // empty.
    assert_eq!(pool.detach(0).len(), 8);
    assert_eq!(pool.submit(write(1, 0, Priority::User)).unwrap_err().why, Refusal::Detached);
    pool.submit(write(111, 1, Priority::User)).unwrap();
    assert_eq!(tokens(&pool, 1), [111]);
    hung.set(true);
    assert_eq!(tokens(&pool, 2), [0, 1]);
}

#[test]
fn a_flush_begins_after_what_it_covers_and_those_that_wait_are_one() {
    let pool = IoPool::new(options(4, 1, 64));
    let device = Gate::new(false);
    pool.attach(device.0.clone()).unwrap();
    pool.submit(flush(0, 0)).unwrap();
    device.until_begun(1);
    // A write and its completion end while flush 0 runs: only a flush that begins later covers the
    // write.
    device.set(true);
    assert_eq!(tokens(&pool, 1), [0]);
    device.set(false);
    pool.submit(flush(1, 0)).unwrap();
    device.until_begun(2);
    (2..7).for_each(|token| pool.submit(flush(token, 0)).unwrap());
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(device.begun(), 2, "a second flush ran beside the first");
    device.set(true);
    assert_eq!(tokens(&pool, 6), (1..7).collect::<Vec<_>>());
    // Flush 1 began before 2..7 were submitted, so it does not cover them; one further flush covers
    // all.
    assert_eq!(device.begun(), 3);
}

#[test]
fn every_flush_covers_the_writes_taken_back_before_it() {
    for seed in 0..20 {
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        let pool = IoPool::new(options(4, 1, 64));
        let device = Gate::new(true);
        pool.attach(device.0.clone()).unwrap();
        // Writes are numbered by their offsets. Of each flush, the length of the log at its
        // submission is recorded.
        let (mut written, mut waiting, mut done) = (0, Vec::new(), Vec::new());
        for token in 0..300 {
            if rng.u32(0..3) == 0 {
                waiting.push((token, device.log().len()));
                pool.submit(flush(token, 0)).unwrap();
            } else {
                written += 1;
                pool.submit(write(token, 0, Priority::User)).unwrap();
            }
            if rng.bool() {
                pool.poll(&mut done);
            }
            while pool.outstanding(0) > 40 {
                pool.wait(&mut done, soon());
            }
            for completion in done.drain(..).filter(|completion| matches!(completion.op, Op::Flush)) {
                let place = waiting.iter().position(|(token, _)| *token == completion.token).unwrap();
                let (_, before) = waiting.swap_remove(place);
                let later = &device.log()[before..];
                let begins = later.iter().position(|entry| entry.0 == OpKind::Flush && entry.2 == "begins");
                let ends = later.iter().rposition(|entry| entry.0 == OpKind::Flush && entry.2 == "ends");
                assert!(
                    begins.is_some() && begins < ends,
                    "no whole flush after the submission of {}",
                    completion.token
                );
            }
        }
        assert!(written > 100);
    }
}

#[test]
fn users_go_before_the_background_and_find_a_free_worker() {
    let pool = IoPool::new(options(3, 2, 64));
    let device = Gate::new(false);
    pool.attach(device.0.clone()).unwrap();
    (0..10).for_each(|token| pool.submit(write(token, 0, Priority::Background)).unwrap());
    device.until_begun(2);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(device.begun(), 2, "the background took the user's worker");
    (10..15).for_each(|token| pool.submit(write(token, 0, Priority::User)).unwrap());
    device.until_begun(3);
    device.set(true);
    assert_eq!(tokens(&pool, 15), (0..15).collect::<Vec<_>>());
    let begins: Vec<_> =
        device.log().iter().filter(|entry| entry.2 == "begins").map(|entry| entry.1 / 512).collect();
    let last_user = begins.iter().rposition(|&token| token >= 10).unwrap();
    assert!(last_user < 8, "the background passed users: {begins:?}");
}

#[test]
fn depth_is_bounded_until_completions_are_taken() {
    let pool = IoPool::new(options(2, 1, 5));
    pool.attach(Arc::new(MemoryDevice::new("memory", 1 << 20))).unwrap();
    (0..5).for_each(|token| pool.submit(write(token, 0, Priority::Background)).unwrap());
    // All requests may have ended, but no completion was taken.
    std::thread::sleep(Duration::from_millis(20));
    let rejected = pool.submit(write(5, 0, Priority::Background)).unwrap_err();
    assert_eq!((rejected.why, rejected.request.token), (Refusal::Full, 5));
    pool.submit(write(6, 0, Priority::User)).unwrap();
    assert_eq!(pool.outstanding(0), 6);
    assert_eq!(tokens(&pool, 6), [0, 1, 2, 3, 4, 6]);
    pool.submit(*rejected.request).unwrap();
    assert_eq!(tokens(&pool, 1), [5]);
}

#[test]
fn a_dropped_pool_has_done_everything_and_lets_go_of_its_devices() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    // The proportions of a disk, twenty times as fast.
    let twentieth = Throttle::DISK.positioning / 20;
    let fast = Throttle {
        positioning: twentieth,
        bytes_per_s: 20 * Throttle::DISK.bytes_per_s,
        flush: twentieth,
        lanes: 1,
    };
    for round in 0..20u8 {
        let device = match round {
            0 => FileDevice::create(&path, 1 << 20).unwrap(),
            _ => FileDevice::open(&path).unwrap(),
        };
        let pool = IoPool::new(options(3, 1, 64));
        pool.attach(Arc::new(Throttled::new(device, fast))).unwrap();
        for place in 0..30 {
            let mut buffer = AlignedBuf::zeroed(4096);
            buffer.fill(round + 1);
            let op = Op::Write { offset_bytes: place * 8192, parts: vec![Segment::whole(buffer)] };
            let priority = if place % 2 == 0 { Priority::User } else { Priority::Background };
            pool.submit(Request { token: place, device: 0, priority, op }).unwrap();
        }
        drop(pool);
        let bytes = std::fs::read(&path).unwrap();
        assert!((0..30).all(|place| bytes[place * 8192..][..4096].iter().all(|&byte| byte == round + 1)));
    }
}

#[test]
fn a_dropped_pool_holds_no_device() {
    for round in 0..300 {
        let device = Arc::new(MemoryDevice::new("memory", 1 << 20));
        let pool = IoPool::new(options(8, 4, 64));
        pool.attach(device.clone()).unwrap();
        (0..16).for_each(|token| pool.submit(write(token, 0, Priority::User)).unwrap());
        drop(pool);
        assert_eq!(Arc::strong_count(&device), 1, "round {round}");
    }
}

#[test]
fn shutdown_hands_back_what_is_done_and_leaves_the_hung_behind() {
    let pool = IoPool::new(options(2, 1, 16));
    let (hung, well) = (Gate::new(false), Gate::new(true));
    pool.attach(well.0.clone()).unwrap();
    pool.attach(hung.0.clone()).unwrap();
    (0..5).for_each(|token| pool.submit(write(token, 0, Priority::User)).unwrap());
    pool.submit(write(9, 1, Priority::User)).unwrap();
    hung.until_begun(1);
    let begun = Instant::now();
    let drained = pool.shutdown(begun + Duration::from_millis(100));
    assert!(begun.elapsed() < LONG / 2);
    assert_eq!((drained.completions.len(), drained.stuck), (5, vec![1]));
    hung.set(true);
}

#[test]
fn waiting_ends_at_the_deadline_and_at_a_call() {
    let pool = IoPool::new(PoolOptions::default());
    let (begun, mut done) = (Instant::now(), Vec::new());
    assert_eq!(pool.wait(&mut done, begun + Duration::from_millis(30)), 0);
    assert!(begun.elapsed() >= Duration::from_millis(30));
    let woken = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(pool.wait(&mut Vec::new(), soon()), 0);
            woken.store(true, SeqCst);
        });
        std::thread::sleep(Duration::from_millis(20));
        assert!(!woken.load(SeqCst));
        pool.wake();
    });
    assert!(begun.elapsed() < LONG / 2);
    // One call of `wake` ends one wait.
    let again = Instant::now();
    pool.wait(&mut done, again + Duration::from_millis(30));
    assert!(again.elapsed() >= Duration::from_millis(30));
}

#[test]
fn completions_say_how_long_it_took() {
    let pool = IoPool::new(options(1, 1, 16));
    let slow = Throttle { positioning: Duration::from_millis(20), ..Throttle::DISK };
    pool.attach(Arc::new(Throttled::new(MemoryDevice::new("memory", 1 << 20), slow))).unwrap();
    [5, 9].into_iter().for_each(|token| pool.submit(write(token, 0, Priority::User)).unwrap());
    let mut done = Vec::new();
    while done.len() < 2 {
        pool.wait(&mut done, soon());
    }
    let [first, second] = &done[..] else { panic!() };
    let least = Duration::from_millis(19);
    assert!(first.service >= least && second.service >= least && second.queued >= least, "{done:?}");
}

#[test]
fn a_panic_of_a_device_reaches_the_caller() {
    struct Bad;
    impl Layer for Bad {
        fn around(
            &self,
            _within: &dyn Device,
            _operation: Operation,
            _does: &mut dyn FnMut(u64) -> Result<(), DeviceError>,
        ) -> Result<(), DeviceError> {
            panic!("our own fault")
        }
    }
    for request in [write(1, 0, Priority::User), flush(1, 0)] {
        let pool = IoPool::new(options(2, 1, 16));
        pool.attach(Arc::new(Layered::with(MemoryDevice::new("bad", 1 << 20), Bad))).unwrap();
        pool.submit(request).unwrap();
        let caught =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| pool.wait(&mut Vec::new(), soon())));
        assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"our own fault"));
    }
}
