//! Counts of the operations that reach a device.

use crate::{Device, DeviceError, Layer, Layered, OpKind, Operation};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A device that counts its operations.
pub type Counted<D> = Layered<D, Counting>;

/// Counters of operations and bytes.
#[derive(Default)]
pub struct Counting {
    /// One counter for each field of [`Counts`], in their order.
    kinds: [Counter; 5],
}

/// Operations of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Operations that ended, with or without success.
    pub ops: u64,
    /// Sum of the lengths of these operations.
    pub bytes: u64,
    /// Number of these operations that failed.
    pub errors: u64,
}

/// Operations by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads.
    pub read: Count,
    /// Writes; a write of several parts counts once.
    pub write: Count,
    /// Flushes.
    pub flush: Count,
    /// Discards.
    pub discard: Count,
    /// Fillings with zeros.
    pub zero: Count,
}

#[derive(Default)]
struct Counter {
    ops: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
}

impl<D: Device> Layered<D, Counting> {
    /// Wraps a device; all counters are zero.
    pub fn new(inner: D) -> Self {
        Self::with(inner, Counting::default())
    }

    /// Returns the counts so far. An operation that ends during the call may be in some numbers and
    /// not in others.
    pub fn counts(&self) -> Counts {
        let [read, write, flush, discard, zero] = [0, 1, 2, 3, 4].map(|kind: usize| {
            let counter = &self.layer.kinds[kind];
            let (ops, bytes, errors) = (&counter.ops, &counter.bytes, &counter.errors);
            Count { ops: ops.load(Relaxed), bytes: bytes.load(Relaxed), errors: errors.load(Relaxed) }
        });
        Counts { read, write, flush, discard, zero }
    }
}

impl Layer for Counting {
    fn around(
        &self,
        _within: &dyn Device,
        operation: Operation,
        does: &mut dyn FnMut(u64) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let result = does(operation.len_bytes);
        let kind = match operation.kind {
            OpKind::Read => 0,
            OpKind::Write => 1,
            OpKind::Flush => 2,
            OpKind::Discard => 3,
            OpKind::Zero => 4,
            OpKind::Open | OpKind::Create => unreachable!("a device is opened before it has a layer"),
        };
        let counter = &self.kinds[kind];
        counter.ops.fetch_add(1, Relaxed);
        counter.bytes.fetch_add(operation.len_bytes, Relaxed);
        counter.errors.fetch_add(u64::from(result.is_err()), Relaxed);
        result
    }
}

impl Counts {
    /// Returns the counter of one kind; opening and making are not counted.
    pub fn of(&self, kind: OpKind) -> Count {
        match kind {
            OpKind::Read => self.read,
            OpKind::Write => self.write,
            OpKind::Flush => self.flush,
            OpKind::Discard => self.discard,
            OpKind::Zero => self.zero,
            OpKind::Open | OpKind::Create => Count::default(),
        }
    }
}
