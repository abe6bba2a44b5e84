//! Makes a fast device as slow as a disk, by a queue that exists in time only.
//!
//! Each of `lanes` serves one operation at a time. An operation takes the lane that is free first, begins when both
//! are ready, and costs `positioning` (unless it continues where its lane stopped) plus its bytes at the bandwidth.
//! It is done at once on the device within and answered when its time is over. Because lanes are booked by
//! schedule, not by sleeping, a thread that wakes late delays its own answer and no rate.
//!
//! What it is not: a disk's own cache or reordering. Operations are served in order of arrival.

use crate::device::parts_len;
use crate::{Device, DeviceError, Identity, OpKind, Part, PartMut};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How slow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Throttle {
    /// Before an operation that does not begin where the last one of its lane ended.
    pub positioning: Duration,
    /// Of reads and writes; fillings with zeros and discards cost positioning only.
    pub bytes_per_s: u64,
    /// Of a flush, in place of positioning; it waits for all lanes, and they for it.
    pub flush: Duration,
    /// Operations at a time: 1 is a disk's arm.
    pub lanes: usize,
}

impl Throttle {
    /// A disk of 7200 turns a minute: 8 ms to a random place, 200 MB/s from there on.
    pub const DISK: Self = Self {
        positioning: Duration::from_millis(8),
        bytes_per_s: 200_000_000,
        flush: Duration::from_millis(8),
        lanes: 1,
    };

    /// `DISK`, `times` as fast in everything: the same proportions in less of a test's time.
    pub fn disk_times(times: u32) -> Self {
        let disk = Self::DISK;
        Self {
            positioning: disk.positioning / times,
            bytes_per_s: disk.bytes_per_s * u64::from(times),
            flush: disk.flush / times,
            lanes: 1,
        }
    }
}

/// A slow device.
pub struct Throttled<D> {
    inner: D,
    throttle: Throttle,
    lanes: Mutex<Vec<Lane>>,
}

#[derive(Clone, Copy)]
struct Lane {
    free_at: Instant,
    /// Where the last operation ended.
    head_bytes: u64,
}

impl<D: Device> Throttled<D> {
    /// A device as slow as `throttle` says, at rest, its arms at byte 0.
    ///
    /// Panics: if there is no lane or no bandwidth.
    pub fn new(inner: D, throttle: Throttle) -> Self {
        assert!(throttle.lanes > 0 && throttle.bytes_per_s > 0, "a device that never answers: {throttle:?}");
        let rest = Lane { free_at: Instant::now(), head_bytes: 0 };
        Self { inner, throttle, lanes: Mutex::new(vec![rest; throttle.lanes]) }
    }

    /// The device within.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Books a lane from now on and says when the operation is over.
    fn book(&self, kind: OpKind, offset: u64, len: u64) -> Instant {
        let now = Instant::now();
        let mut lanes = self.lanes.lock().expect("booking does not panic");
        if kind == OpKind::Flush {
            let start = lanes.iter().map(|lane| lane.free_at).fold(now, Instant::max);
            let end = start + self.throttle.flush;
            lanes.iter_mut().for_each(|lane| lane.free_at = end);
            return end;
        }
        let lane = lanes.iter_mut().min_by_key(|lane| lane.free_at).expect("at least one lane");
        let seek = if lane.head_bytes == offset { Duration::ZERO } else { self.throttle.positioning };
        let transfer = match kind {
            OpKind::Read | OpKind::Write => {
                Duration::from_secs_f64(len as f64 / self.throttle.bytes_per_s as f64)
            }
            _ => Duration::ZERO,
        };
        lane.free_at = lane.free_at.max(now) + seek + transfer;
        lane.head_bytes = offset + len;
        lane.free_at
    }

    fn slowly(
        &self,
        (kind, offset, len): (OpKind, u64, u64),
        does: impl FnOnce(&D) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let end = self.book(kind, offset, len);
        let result = does(&self.inner);
        let left = end.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            std::thread::sleep(left);
        }
        result
    }
}

impl<D: Device> Device for Throttled<D> {
    fn path(&self) -> &Path {
        self.inner.path()
    }
    fn len_bytes(&self) -> u64 {
        self.inner.len_bytes()
    }
    fn block_len_bytes(&self) -> u32 {
        self.inner.block_len_bytes()
    }
    fn identity(&self) -> Identity {
        self.inner.identity()
    }
    fn read_at(&self, offset: u64, into: PartMut<'_>) -> Result<(), DeviceError> {
        self.slowly((OpKind::Read, offset, into.len() as u64), |inner| inner.read_at(offset, into))
    }
    fn write_at(&self, offset: u64, parts: &[Part<'_>]) -> Result<(), DeviceError> {
        self.slowly((OpKind::Write, offset, parts_len(parts)), |inner| inner.write_at(offset, parts))
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.slowly((OpKind::Flush, 0, 0), |inner| inner.flush())
    }
    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.slowly((OpKind::Discard, offset, len), |inner| inner.discard(offset, len))
    }
    fn zero(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.slowly((OpKind::Zero, offset, len), |inner| inner.zero(offset, len))
    }
}
