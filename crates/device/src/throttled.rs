//! Makes a fast device as slow as a disk, by a simulated queue.
//!
//! Each of `lanes` serves one operation at a time. An operation takes the lane that is free first,
//! begins when both are ready, and costs `positioning` (unless it continues where its lane stopped)
//! plus its bytes at the bandwidth. It is performed at once on the wrapped device and answered when
//! its time is over. Lanes are booked by schedule, not by sleeping, so a thread that wakes late
//! delays its own answer and reduces no rate.
//!
//! It does not model a disk's own cache or reordering. Operations are served in order of arrival.

use crate::{Device, DeviceError, Layer, Layered, OpKind, Operation};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Parameters of a slow device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Throttle {
    /// Time before an operation that does not begin where the last one of its lane ended.
    pub positioning: Duration,
    /// Bandwidth of reads and writes in bytes a second; zeros and discards cost positioning only.
    pub bytes_per_s: u64,
    /// Time of a flush, in place of positioning. It begins when all lanes are free, and blocks all
    /// of them.
    pub flush: Duration,
    /// Operations at a time; 1: a disk with one arm.
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
}

/// A device that is slowed down.
pub type Throttled<D> = Layered<D, Throttling>;

/// State of a slow device: when its lanes are free again.
pub struct Throttling {
    throttle: Throttle,
    is_slow: AtomicBool,
    worked_ns: AtomicU64,
    lanes: Mutex<Vec<Lane>>,
}

#[derive(Clone, Copy)]
struct Lane {
    free_at: Instant,
    /// Offset at which the last operation ended.
    head_bytes: u64,
}

impl<D: Device> Layered<D, Throttling> {
    /// Wraps a device. It is idle, its lanes at byte 0.
    ///
    /// Panics: if there is no lane or no bandwidth.
    pub fn new(inner: D, throttle: Throttle) -> Self {
        assert!(throttle.lanes > 0 && throttle.bytes_per_s > 0, "a device that never answers: {throttle:?}");
        let rest = Lane { free_at: Instant::now(), head_bytes: 0 };
        let (is_slow, lanes) = (AtomicBool::new(true), Mutex::new(vec![rest; throttle.lanes]));
        Self::with(inner, Throttling { throttle, is_slow, worked_ns: AtomicU64::new(0), lanes })
    }

    /// Returns the time for which lanes were busy: the sum over all operations begun so far, over
    /// all lanes.
    pub fn worked(&self) -> Duration {
        Duration::from_nanos(self.layer.worked_ns.load(Relaxed))
    }

    /// Makes the device slow, or as fast as the wrapped device while a measurement is prepared.
    pub fn set_slow(&self, is_slow: bool) {
        self.layer.is_slow.store(is_slow, Relaxed);
    }
}

impl Throttling {
    /// Books a lane from now on and returns the end of the operation.
    fn book(&self, Operation { kind, offset_bytes, len_bytes }: Operation) -> Instant {
        let now = Instant::now();
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if kind == OpKind::Flush {
            let start = lanes.iter().map(|lane| lane.free_at).fold(now, Instant::max);
            let end = start + self.throttle.flush;
            self.work(self.throttle.flush);
            lanes.iter_mut().for_each(|lane| lane.free_at = end);
            return end;
        }
        let lane = lanes.iter_mut().min_by_key(|lane| lane.free_at).expect("at least one lane");
        let seek = if lane.head_bytes == offset_bytes { Duration::ZERO } else { self.throttle.positioning };
        let transfer = match kind {
            OpKind::Read | OpKind::Write => {
                Duration::from_secs_f64(len_bytes as f64 / self.throttle.bytes_per_s as f64)
            }
            _ => Duration::ZERO,
        };
        lane.free_at = lane.free_at.max(now) + seek + transfer;
        self.work(seek + transfer);
        lane.head_bytes = offset_bytes + len_bytes;
        lane.free_at
    }

    fn work(&self, time: Duration) {
        self.worked_ns.fetch_add(time.as_nanos() as u64, Relaxed);
    }
}

impl Layer for Throttling {
    fn around(
        &self,
        _within: &dyn Device,
        operation: Operation,
        does: &mut dyn FnMut(u64) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        if !self.is_slow.load(Relaxed) {
            return does(operation.len_bytes);
        }
        let end = self.book(operation);
        let result = does(operation.len_bytes);
        let left = end.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            std::thread::sleep(left);
        }
        result
    }
}
