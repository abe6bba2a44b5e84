//! The pool stays within its bound, for any number of threads and any lengths of buffers.
//!
//! A separate program, because it measures the memory of the whole process.

use pantile_device::*;
use std::time::{Duration, Instant};

#[test]
fn buffers_stay_within_the_bound() {
    let pool = BufferPool::new(10 * 4096 + 100);
    let held: Vec<_> = (0..10).map(|_| pool.take(4096).unwrap()).collect();
    assert!(pool.take(1).is_none());
    assert_eq!(pool.used_bytes(), 10 * 4096);
    drop(held);
    assert!(
        pool.take(11 * 4096).is_none()
            && pool.take_until(11 * 4096, Instant::now() + Duration::from_secs(60)).is_none()
    );
    assert!(pool.take(10 * 4096).is_some());
}

#[test]
fn threads_share_the_bound_and_no_bytes() {
    for bound in [8 << 20, (4 << 20) + 4096] {
        let pool = BufferPool::new(bound);
        std::thread::scope(|scope| {
            for thread in 0..6u8 {
                let pool = &pool;
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(thread.into());
                    for _ in 0..400 {
                        let len = 1 << rng.u32(0..=22);
                        let mut buffer =
                            pool.take_until(len, Instant::now() + Duration::from_secs(30)).unwrap();
                        assert!(buffer.len() == len && (buffer.as_ptr() as usize).is_multiple_of(PAGE_BYTES));
                        let ends = [0, len - 1];
                        ends.iter().for_each(|&end| buffer[end] = thread);
                        assert!(pool.held_bytes() <= bound);
                        std::thread::yield_now();
                        assert!(ends.iter().all(|&end| buffer[end] == thread));
                    }
                });
            }
        });
        assert_eq!(pool.used_bytes(), 0);
    }
}

#[test]
fn waiting_for_a_buffer_ends_when_one_returns_or_at_the_deadline() {
    let pool = BufferPool::new(4096);
    let held = pool.take(10).unwrap();
    let begun = Instant::now();
    assert!(pool.take_until(1, begun + Duration::from_millis(30)).is_none());
    assert!(begun.elapsed() >= Duration::from_millis(30));
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(pool.take_until(1, Instant::now() + Duration::from_secs(30)).is_some()));
        std::thread::sleep(Duration::from_millis(20));
        drop(held);
    });
    assert!(begun.elapsed() < Duration::from_secs(15));
}

#[test]
fn a_buffer_outlives_its_pool() {
    let pool = BufferPool::new(4096);
    let mut buffer = pool.take(4096).unwrap();
    drop(pool);
    buffer.fill(251);
    assert!(buffer.iter().all(|&byte| byte == 251));
}

#[test]
fn the_system_gets_its_pages_back() {
    // 4096 buffers of one page each cost only their pages, and nothing after the pool is dropped.
    let resident = || {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    };
    let before = resident();
    let pool = BufferPool::new(64 << 20);
    let mut held: Vec<_> = (0..16_384).map(|_| pool.take(4096).unwrap()).collect();
    held.iter_mut().for_each(|buffer| buffer.fill(1));
    let during = resident();
    drop((held, pool));
    // Other tests of this program free pages meanwhile, and the system may reclaim free ones.
    let more = during.saturating_sub(before);
    assert!((48 << 20..90 << 20).contains(&more), "{more} bytes");
    assert!(resident() < before + (24 << 20), "{before} bytes before, {} after", resident());
}
