//! Disks for benchmarks: memory that does one operation at a time. A seek takes half a millisecond,
//! and so does a flush; the transfer rate is 1 GB/s.
#![allow(dead_code, reason = "each benchmark uses its part")]

use pantile_code::{Code, Placement};
use pantile_device::{Counted, Counts, MemoryDevice, Throttle, Throttled};
use pantile_format::volume::VolumeId;
use pantile_volume::{BLOCK_BYTES, Geometry, NewVolume, Slot};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

pub const MIB: u64 = 1 << 20;
const SEEK: Duration = Duration::from_micros(500);
const BYTES_PER_S: u64 = 1_000_000_000;
const ELEMENT_BLOCKS: u32 = 16;

/// A simulated disk in memory that counts its operations.
pub type Disk = Counted<Throttled<MemoryDevice>>;

/// Cost of one measurement, over all disks.
pub struct Cost {
    pub seconds: f64,
    pub reads: u64,
    pub writes: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
}

pub fn counts(disks: &[Arc<Disk>]) -> [u64; 4] {
    let sum = |of: fn(&Counts) -> u64| disks.iter().map(|disk| of(&disk.counts())).sum();
    [sum(|c| c.read.ops), sum(|c| c.write.ops), sum(|c| c.read.bytes), sum(|c| c.write.bytes)]
}

pub fn measured(disks: &[Arc<Disk>], what: impl FnOnce()) -> Cost {
    let (before, begun) = (counts(disks), Instant::now());
    what();
    let (seconds, after) = (begun.elapsed().as_secs_f64(), counts(disks));
    let [reads, writes, bytes_read, bytes_written] = std::array::from_fn(|i| after[i] - before[i]);
    Cost { seconds, reads, writes, bytes_read, bytes_written }
}

pub fn geometry(code: &Code) -> Geometry {
    let per_stripe = code.data().len() as u64 * u64::from(ELEMENT_BLOCKS) * BLOCK_BYTES;
    let stripes = (512 * MIB / per_stripe) as u32;
    let chunk = code.rows_max() as u32 * ELEMENT_BLOCKS;
    Geometry::new(NewVolume {
        volume: VolumeId([9; 16]),
        code: code.clone(),
        placement: Placement::spread(code),
        element_blocks: ELEMENT_BLOCKS,
        logical_stripes: stripes,
        spare_stripes: (stripes / 32).max(16),
        log_rows: stripes * chunk / 10,
        journal_blocks: 1024,
    })
    .expect("a geometry")
}

pub fn disks_of(geometry: &Geometry) -> Vec<Arc<Disk>> {
    let disk = |slot: u32| {
        let len = geometry.device_blocks(Slot(slot)) * BLOCK_BYTES;
        let memory = MemoryDevice::with_block_len(format!("disk-{slot}"), len, 4096);
        let throttle = Throttle { positioning: SEEK, bytes_per_s: BYTES_PER_S, flush: SEEK, lanes: 1 };
        let disk = Throttled::new(memory, throttle);
        disk.set_slow(false);
        Arc::new(Counted::new(disk))
    };
    (0..geometry.slots() as u32).map(disk).collect()
}

/// Calls `each` with the numbers below `count`, on this many threads.
pub fn at_once(threads: u64, count: u64, each: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Relaxed);
                    if i >= count {
                        return;
                    }
                    each(i);
                }
            });
        }
    });
}
