//! Volumes in memory and in files, small enough for tests with many openings.
#![allow(dead_code, reason = "each test uses its part")]

pub mod folders;

use pantile_code::{Code, Placement};
use pantile_device::{AlignedBuf, Device, Faulty, MemoryDevice};
use pantile_format::volume::{HistoryId, VolumeId};
use pantile_host::{Host, HostError, HostOptions};
use pantile_volume::{BLOCK_BYTES, Birth, Geometry, NewVolume, format_volume};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Devices by slot.
pub type Devices = Vec<Option<Arc<dyn Device>>>;

/// Returns a volume of 48 stripes with elements of 16 KiB.
pub fn geometry(code: &str) -> Geometry {
    geometry_of(code, 48)
}

/// Returns the geometry of a code with this many stripes.
pub fn geometry_of(code: &str, logical_stripes: u32) -> Geometry {
    let code = Code::parse(code).expect("a spec");
    Geometry::new(NewVolume {
        volume: VolumeId([7; 16]),
        placement: Placement::spread(&code),
        code,
        element_blocks: 4,
        logical_stripes,
        spare_stripes: 16,
        log_rows: 600,
        journal_blocks: 256,
    })
    .expect("a geometry")
}

/// Formats the devices of a new volume.
pub fn format(geometry: &Geometry, devices: &[Option<Arc<dyn Device>>]) {
    let birth = Birth { history: HistoryId([1; 16]), name: "test".into(), created: 0 };
    for (slot, at, bytes) in format_volume(geometry, &birth).expect("it can be written") {
        let device = devices[slot.0 as usize].as_ref().expect("all are there");
        let mut buffer = AlignedBuf::zeroed(bytes.len());
        buffer.copy_from_slice(&bytes);
        device.write_at(at.0 * BLOCK_BYTES, &[buffer.whole()]).expect("memory writes");
        device.flush().expect("memory flushes");
    }
}

/// Returns devices in memory, as long as their slots need.
pub fn memory(geometry: &Geometry) -> Vec<Option<Arc<dyn Device>>> {
    let device = |slot: u32| {
        let len = geometry.device_blocks(pantile_volume::Slot(slot)) * BLOCK_BYTES;
        Some(Arc::new(MemoryDevice::new(format!("memory {slot}"), len)) as Arc<dyn Device>)
    };
    (0..geometry.slots() as u32).map(device).collect()
}

/// Returns devices in memory, one of which can be made to fail.
pub fn memory_with_faulty(
    geometry: &Geometry,
    slot: pantile_volume::Slot,
) -> (Devices, Arc<Faulty<MemoryDevice>>) {
    let mut devices = memory(geometry);
    let len = geometry.device_blocks(slot) * BLOCK_BYTES;
    let faulty = Arc::new(Faulty::new(MemoryDevice::new("faulty", len)));
    devices[slot.0 as usize] = Some(faulty.clone());
    (devices, faulty)
}

pub fn open(geometry: &Geometry, devices: &[Option<Arc<dyn Device>>]) -> Result<Host, HostError> {
    open_with(geometry, devices, &HostOptions::for_devices(devices.len()))
}

pub fn open_with(
    geometry: &Geometry,
    devices: &[Option<Arc<dyn Device>>],
    options: &HostOptions,
) -> Result<Host, HostError> {
    static FRESH: AtomicU64 = AtomicU64::new(10);
    let mut fresh = HistoryId([10; 16]);
    fresh.0[..8].copy_from_slice(&FRESH.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    Host::open(geometry.clone(), devices.to_vec(), fresh, options)
}

/// Returns bytes from which place and time of a write can be identified.
pub fn painted(seed: u64, len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..len).map(|_| random.u8(..)).collect()
}

/// Waits until a condition is true.
pub fn until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it takes too long");
        std::thread::sleep(Duration::from_millis(2));
    }
}
