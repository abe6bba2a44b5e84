//! Layers between a device and its caller: one wrapper type for all of them.

use crate::device::parts_len;
use crate::{Device, DeviceError, Identity, OpKind, Part, PartMut, Standing};
use std::os::fd::BorrowedFd;
use std::path::Path;

/// An operation that passes a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Kind of the operation.
    pub kind: OpKind,
    /// First byte; 0 for a flush.
    pub offset_bytes: u64,
    /// Number of bytes; 0 for a flush.
    pub len_bytes: u64,
}

/// Intercepts every operation, and performs all of it, a part of it, or nothing.
pub trait Layer: Send + Sync {
    /// Answers an operation.
    ///
    /// `does(len)` performs the first `len` bytes of the operation on the wrapped device and
    /// returns its result. A layer need not call it; then its own answer is the result.
    fn around(
        &self,
        within: &dyn Device,
        operation: Operation,
        does: &mut dyn FnMut(u64) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let _ = within;
        does(operation.len_bytes)
    }

    /// Returns the wrapped device's file for direct I/O, as [`Device::direct_file`] does, if the
    /// layer does nothing to operations, so that they may bypass it.
    fn direct_file<'a>(&'a self, within: &'a dyn Device) -> Option<BorrowedFd<'a>> {
        let _ = within;
        None
    }

    /// Returns the standing of the wrapped device, as [`Device::standing`] does.
    fn standing(&self, within: &dyn Device) -> Standing {
        within.standing()
    }
}

/// A device wrapped by a layer.
pub struct Layered<D, L> {
    inner: D,
    pub(crate) layer: L,
}

impl<D: Device, L: Layer> Layered<D, L> {
    /// Wraps a device: all of its operations pass the layer.
    pub fn with(inner: D, layer: L) -> Self {
        Self { inner, layer }
    }

    /// Returns the wrapped device.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Returns the layer.
    pub fn layer(&self) -> &L {
        &self.layer
    }

    fn pass(
        &self,
        (kind, offset_bytes, len_bytes): (OpKind, u64, u64),
        mut does: impl FnMut(u64) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        self.layer.around(&self.inner, Operation { kind, offset_bytes, len_bytes }, &mut does)
    }
}

impl<D: Device, L: Layer> Device for Layered<D, L> {
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
    fn read_at(&self, offset: u64, mut into: PartMut<'_>) -> Result<(), DeviceError> {
        let len = into.len() as u64;
        self.pass((OpKind::Read, offset, len), |first| self.inner.read_at(offset, into.first(first as usize)))
    }
    fn write_at(&self, offset: u64, parts: &[Part<'_>]) -> Result<(), DeviceError> {
        let len = parts_len(parts);
        self.pass((OpKind::Write, offset, len), |first| match first == len {
            true => self.inner.write_at(offset, parts),
            false => self.inner.write_at(offset, &first_of(parts, first as usize)),
        })
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.pass((OpKind::Flush, 0, 0), |_| self.inner.flush())
    }
    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.pass((OpKind::Discard, offset, len), |first| self.inner.discard(offset, first))
    }
    fn zero(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.pass((OpKind::Zero, offset, len), |first| self.inner.zero(offset, first))
    }
    fn direct_file(&self) -> Option<BorrowedFd<'_>> {
        self.layer.direct_file(&self.inner)
    }
    fn flushed_directly(&self, errno: Option<i32>) -> Result<(), DeviceError> {
        self.inner.flushed_directly(errno)
    }
    fn standing(&self) -> Standing {
        self.layer.standing(&self.inner)
    }
}

/// Returns the first `bytes` bytes of some parts.
fn first_of<'p>(parts: &[Part<'p>], mut bytes: usize) -> Vec<Part<'p>> {
    let mut some = Vec::with_capacity(parts.len());
    for part in parts {
        let len = part.len().min(bytes);
        bytes -= len;
        some.extend((len > 0).then(|| part.first(len)));
    }
    some
}
