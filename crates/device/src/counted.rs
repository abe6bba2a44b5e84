//! Counts what reaches a device.

use crate::device::parts_len;
use crate::{Device, DeviceError, Identity, OpKind, Part, PartMut};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A device that counts its operations.
pub struct Counted<D> {
    inner: D,
    /// In the order of the fields of [`Counts`].
    kinds: [Counter; 5],
}

/// Operations of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Operations that ended, with or without success.
    pub ops: u64,
    /// Bytes they were about.
    pub bytes: u64,
    /// Those of `ops` that failed.
    pub errors: u64,
}

/// Operations by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads.
    pub read: Count,
    /// Writes; one of several parts is one.
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

impl<D: Device> Counted<D> {
    /// Counts from zero.
    pub fn new(inner: D) -> Self {
        Self { inner, kinds: Default::default() }
    }

    /// The device within.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// What was counted so far. Of operations that end meanwhile, each number may or may not know.
    pub fn counts(&self) -> Counts {
        let [read, write, flush, discard, zero] = [0, 1, 2, 3, 4].map(|kind: usize| {
            let counter = &self.kinds[kind];
            let (ops, bytes, errors) = (&counter.ops, &counter.bytes, &counter.errors);
            Count { ops: ops.load(Relaxed), bytes: bytes.load(Relaxed), errors: errors.load(Relaxed) }
        });
        Counts { read, write, flush, discard, zero }
    }

    fn count(&self, kind: usize, bytes: u64, result: Result<(), DeviceError>) -> Result<(), DeviceError> {
        let counter = &self.kinds[kind];
        counter.ops.fetch_add(1, Relaxed);
        counter.bytes.fetch_add(bytes, Relaxed);
        counter.errors.fetch_add(u64::from(result.is_err()), Relaxed);
        result
    }
}

impl Counts {
    /// Those of one kind; opening and making are not counted.
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

impl<D: Device> Device for Counted<D> {
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
    fn read_at(&self, offset_bytes: u64, into: PartMut<'_>) -> Result<(), DeviceError> {
        let len = into.len() as u64;
        self.count(0, len, self.inner.read_at(offset_bytes, into))
    }
    fn write_at(&self, offset_bytes: u64, parts: &[Part<'_>]) -> Result<(), DeviceError> {
        self.count(1, parts_len(parts), self.inner.write_at(offset_bytes, parts))
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.count(2, 0, self.inner.flush())
    }
    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DeviceError> {
        self.count(3, len_bytes, self.inner.discard(offset_bytes, len_bytes))
    }
    fn zero(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DeviceError> {
        self.count(4, len_bytes, self.inner.zero(offset_bytes, len_bytes))
    }
}
