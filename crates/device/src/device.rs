//! The interface of every device: five positioned operations on whole blocks.

use crate::{DeviceError, FileDevice, OpenOptions, Part, PartMut, ServerDevice, Site, Standing, is_server};
use std::fmt;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

/// A fixed-length array of bytes, read and written in whole blocks by any number of threads at
/// once.
///
/// Invariant: offsets and lengths are multiples of [`block_len_bytes`](Self::block_len_bytes), and
/// so is the offset of a part in its buffer; `offset + len <= len_bytes()`. Any other request is
/// refused before it is tried. Order: concurrent operations on the same block take effect in any
/// order, block by block. Errors: a read that failed may have changed its buffer; a write that
/// failed may have written any of its blocks.
pub trait Device: Send + Sync {
    /// Returns the device's name in errors: its path.
    fn path(&self) -> &Path;

    /// Returns the usable length, a multiple of the block length. It never changes.
    fn len_bytes(&self) -> u64;

    /// Returns the unit of offsets and lengths: the logical sector, or the block length that direct
    /// I/O requires for a file.
    fn block_len_bytes(&self) -> u32;

    /// Returns the identity of the device, which is the same under every name.
    fn identity(&self) -> Identity;

    /// Fills all of `into` with the bytes at `offset_bytes`.
    fn read_at(&self, offset_bytes: u64, into: PartMut<'_>) -> Result<(), DeviceError>;

    /// Writes the parts one after another, from `offset_bytes` on.
    ///
    /// An acknowledged write is not durable before the next [`flush`](Self::flush).
    fn write_at(&self, offset_bytes: u64, parts: &[Part<'_>]) -> Result<(), DeviceError>;

    /// Makes every operation that was acknowledged before this call durable.
    ///
    /// Errors: `FlushFailed`, then on every later call, too: writes since the last successful flush
    /// can be lost.
    fn flush(&self) -> Result<(), DeviceError>;

    /// Reports that the content of a range is no longer needed. A device may ignore it.
    ///
    /// Afterwards each block reads as zeros or as its old content, and may change from one to the
    /// other.
    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DeviceError>;

    /// Fills a range with zeros, and keeps its space allocated. Like a write it is durable after a
    /// flush.
    fn zero(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DeviceError>;

    /// Returns the file that a pool may read and write directly in place of this device, at aligned
    /// offsets. `None`: the device does more than such I/O on a file. Operations that the system
    /// does not complete in full are repeated on the device, which reports the error.
    ///
    /// Invariant: the system accepts such operations, and reads the file's length, without waiting
    /// for the device. They are submitted by a thread that must not wait.
    fn direct_file(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Reports the result of a flush by the caller on [`direct_file`](Self::direct_file): the
    /// number of the system's error, or `None`. A device without such a file does the
    /// [`flush`](Self::flush) itself.
    ///
    /// The system reports an error of a flush once, so a second flush would hide it.
    fn flushed_directly(&self, errno: Option<i32>) -> Result<(), DeviceError> {
        let _ = errno;
        self.flush()
    }

    /// Returns whether the next opening of the same path would find this device. May wait for the
    /// file system of the path.
    fn standing(&self) -> Standing {
        Standing::Kept
    }
}

/// Identity by the numbers of the system: equal for one file under two names.
///
/// A loop device and the file below it have different identities; only the operator knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Identity {
    /// A regular file.
    File {
        /// Number of its file system.
        device: u64,
        /// Number within it.
        inode: u64,
    },
    /// A block device.
    Block {
        /// Its number.
        device: u64,
    },
    /// An export of a server; with another name of the server its identity differs.
    Server {
        /// A number computed from its server, port and name.
        export: u64,
    },
    /// A device in the memory of this process.
    Memory {
        /// Its address.
        address: usize,
    },
}

/// An operation of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OpKind {
    /// Opening the device.
    Open,
    /// Making the device.
    Create,
    /// [`Device::read_at`].
    Read,
    /// [`Device::write_at`].
    Write,
    /// [`Device::flush`].
    Flush,
    /// [`Device::discard`].
    Discard,
    /// [`Device::zero`].
    Zero,
}

impl fmt::Display for OpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "opening",
            Self::Create => "creating",
            Self::Read => "reading",
            Self::Write => "writing",
            Self::Flush => "flushing",
            Self::Discard => "discarding",
            Self::Zero => "zeroing",
        })
    }
}

impl<D: Device + ?Sized> Device for Arc<D> {
    fn path(&self) -> &Path {
        (**self).path()
    }
    fn len_bytes(&self) -> u64 {
        (**self).len_bytes()
    }
    fn block_len_bytes(&self) -> u32 {
        (**self).block_len_bytes()
    }
    fn identity(&self) -> Identity {
        (**self).identity()
    }
    fn read_at(&self, offset_bytes: u64, into: PartMut<'_>) -> Result<(), DeviceError> {
        (**self).read_at(offset_bytes, into)
    }
    fn write_at(&self, offset_bytes: u64, parts: &[Part<'_>]) -> Result<(), DeviceError> {
        (**self).write_at(offset_bytes, parts)
    }
    fn flush(&self) -> Result<(), DeviceError> {
        (**self).flush()
    }
    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DeviceError> {
        (**self).discard(offset_bytes, len_bytes)
    }
    fn zero(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DeviceError> {
        (**self).zero(offset_bytes, len_bytes)
    }
    fn direct_file(&self) -> Option<BorrowedFd<'_>> {
        (**self).direct_file()
    }
    fn flushed_directly(&self, errno: Option<i32>) -> Result<(), DeviceError> {
        (**self).flushed_directly(errno)
    }
    fn standing(&self) -> Standing {
        (**self).standing()
    }
}

/// Opens the device of a path: a file, a block device, or the URI of an export.
///
/// Errors: those of [`FileDevice::open_with`] and [`ServerDevice::open`].
pub fn open_device(path: &Path, options: OpenOptions) -> Result<Arc<dyn Device>, DeviceError> {
    match is_server(path) {
        true => Ok(Arc::new(ServerDevice::open(path, options.access)?)),
        false => Ok(Arc::new(FileDevice::open_with(path, options)?)),
    }
}

/// Returns the sum of the lengths of some parts.
pub(crate) fn parts_len(parts: &[Part<'_>]) -> u64 {
    parts.iter().map(|part| part.len() as u64).sum()
}

/// Returns the operation on a device that an error reports.
pub(crate) fn site(device: &Path, op: OpKind, offset_bytes: u64, len_bytes: u64) -> Site {
    Site { device: device.to_path_buf(), op, offset_bytes, len_bytes }
}

/// Refuses operations outside of the device or not aligned to its blocks. `starts_and_lens`: the
/// offsets of the parts in their buffers, and their lengths.
pub(crate) fn check(
    device: &(impl Device + ?Sized),
    op: OpKind,
    offset_bytes: u64,
    len_bytes: u64,
    starts_and_lens: impl Iterator<Item = (usize, usize)>,
) -> Result<(), DeviceError> {
    let block = u64::from(device.block_len_bytes());
    let at = || site(device.path(), op, offset_bytes, len_bytes);
    let mut unaligned = offset_bytes | len_bytes;
    // A buffer begins on a page, so the alignment of a part follows from its offset in the buffer.
    let memory_mask = block.min(crate::PAGE_BYTES as u64) - 1;
    for (start, len) in starts_and_lens {
        unaligned |= (start as u64 & memory_mask) | len as u64;
    }
    if unaligned & (block - 1) != 0 {
        return Err(DeviceError::Misaligned { at: at(), block_len_bytes: device.block_len_bytes() });
    }
    match offset_bytes.checked_add(len_bytes) {
        Some(end) if end <= device.len_bytes() => Ok(()),
        _ => Err(DeviceError::OutOfRange { at: at(), device_len_bytes: device.len_bytes() }),
    }
}
