//! The times and the counts of a throttled device, measured by the clock.
//!
//! It is a separate program because delays are faults here: few other tests may run at the same
//! time.

use pantile_device::*;
use std::time::{Duration, Instant};

fn took(does: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    does();
    begun.elapsed()
}

const SLOW: Throttle = Throttle {
    positioning: Duration::from_millis(4),
    bytes_per_s: 64 << 20,
    flush: Duration::from_millis(10),
    lanes: 1,
};

fn device(lanes: usize) -> Throttled<MemoryDevice> {
    Throttled::new(MemoryDevice::new("memory", 64 << 20), Throttle { lanes, ..SLOW })
}

#[test]
fn a_stream_costs_bandwidth_and_a_jump_costs_positioning() {
    let (device, buffer) = (device(1), AlignedBuf::zeroed(1 << 20));
    let stream = took(|| (0..8).for_each(|i| device.write_at(i << 20, &[buffer.whole()]).unwrap()));
    // 8 MiB at 64 MiB/s. A late wake-up delays its own answer, never the schedule of others.
    assert!(stream >= Duration::from_millis(124) && stream < Duration::from_millis(400), "{stream:?}");
    let jumps =
        took(|| (0..20).for_each(|i| device.write_at((i * 7 % 20) << 20, &[buffer.part(0..4096)]).unwrap()));
    assert!(jumps >= Duration::from_millis(80) && jumps < Duration::from_millis(400), "{jumps:?}");
    let flush = took(|| device.flush().unwrap());
    assert!(flush >= Duration::from_millis(10), "{flush:?}");
}

#[test]
fn one_lane_serves_one_at_a_time_and_four_serve_four() {
    let threads = |device: &Throttled<MemoryDevice>| {
        took(|| {
            std::thread::scope(|scope| {
                for i in 1..=16u64 {
                    scope
                        .spawn(move || device.read_at(i << 21, AlignedBuf::zeroed(512).whole_mut()).unwrap());
                }
            });
        })
    };
    let [one, four] = [1, 4].map(|lanes| threads(&device(lanes)));
    assert!(one >= Duration::from_millis(64), "{one:?}");
    assert!(four >= Duration::from_millis(16) && four < one.mul_f64(0.7), "{four:?} of {one:?}");
}

#[test]
fn operations_are_counted_by_kind() {
    let faulty = Faulty::new(MemoryDevice::new("memory", 1 << 20));
    faulty.fail_nth(OpKind::Write, 2, Fault::Errno(5));
    let device = Counted::new(faulty);
    let mut buffer = AlignedBuf::zeroed(4096);
    device.write_at(0, &[buffer.part(0..512), buffer.part(1024..4096)]).unwrap();
    device.write_at(0, &[buffer.whole()]).unwrap_err();
    device.read_at(0, buffer.part_mut(0..1024)).unwrap();
    device.zero(0, 8192).unwrap();
    device.discard(4096, 512).unwrap();
    (0..3).for_each(|_| device.flush().unwrap());
    let count = |ops, bytes, errors| Count { ops, bytes, errors };
    let (read, write, flush) = (count(1, 1024, 0), count(2, 3584 + 4096, 1), count(3, 0, 0));
    let expected = Counts { read, write, flush, discard: count(1, 512, 0), zero: count(1, 8192, 0) };
    assert_eq!(device.counts(), expected);
    assert_eq!((expected.of(OpKind::Write), expected.of(OpKind::Open)), (write, Count::default()));
}
