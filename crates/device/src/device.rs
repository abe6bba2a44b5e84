//! The interface of every device: five positioned operations on whole blocks.

use crate::{DeviceError, FileDevice, OpenOptions, Part, PartMut, ServerDevice, Site, Standing, is_server};
use std::fmt;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

/// A row of bytes of fixed length, read and written in whole blocks, by any number of threads at
/// once.
///
/// Invariant: offsets and lengths are multiples of [`block_len_bytes`](Self::block_len_bytes), and
/// so is the place of a part within its buffer; `offset + len <= len_bytes()`. Anything else is
/// refused before it is tried. Order: operations that overlap in time and in place happen in any
/// order, block by block. Errors: a read that failed may have changed its buffer; a write that
/// failed may have written any of its blocks.
pub trait Device: Send + Sync {
    /// Returns the device's name in errors: its path.
    fn path(&self) -> &Path;

    /// Bytes that can be used, a multiple of the block length. Never changes.
    fn len_bytes(&self) -> u64;

    /// The unit of addresses and lengths: the logical sector, or the block length that direct I/O
    /// demands of a file.
    fn block_len_bytes(&self) -> u32;

    /// Identity of the device, the same under every name.
    fn identity(&self) -> Identity;

    /// Fills all of `into` with the bytes at `offset_bytes`.
    fn read_at(&self, offset_bytes: u64, into: PartMut<'_>) -> Result<(), DeviceError>;

    /// Writes the parts one behind the other, from `offset_bytes` on.
    ///
    /// Acknowledged is not stable: see [`flush`](Self::flush).
    fn write_at(&self, offset_bytes: u64, parts: &[Part<'_>]) -> Result<(), DeviceError>;

    /// Makes every operation that was acknowledged before this call survive a crash.
    ///
    /// Errors: `FlushFailed`, and then for ever: writes since the last good flush can be lost.
    fn flush(&self) -> Result<(), DeviceError>;

    /// Says that the content of a range is no longer needed. A device may ignore it.
    ///
    /// Afterwards each block reads as zeros or as it was before, and need not stay the one or the
    /// other.
    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DeviceError>;

    /// Fills a range with zeros, and keeps the space for it. It is as stable as a write.
    fn zero(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DeviceError>;

    /// The file whose direct, positioned, aligned reads and writes are those of this device, if
    /// there is nothing more to them: then a pool may leave them to the system. Operations not done
    /// in full are repeated on the device, for its error.
    ///
    /// Invariant: the system takes them, and looks at the file's length, without waiting for the
    /// device. A thread that must not wait submits them.
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

    /// Its standing: found or not at the next opening in the same place. May wait for the file
    /// system of its path.
    fn standing(&self) -> Standing {
        Standing::Kept
    }
}

/// Identity by the system's own numbers: equal for the same file under two names.
///
/// A loop device and the file below it are different here; only the person who attached them knows.
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
    /// An export of a server; two names of one server are two.
    Server {
        /// A number of its server, port and name.
        export: u64,
    },
    /// Memory of this process.
    Memory {
        /// Where it lies.
        address: usize,
    },
}

/// An operation of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OpKind {
    /// To be opened.
    Open,
    /// To be made.
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

/// Sum of the lengths of some parts.
pub(crate) fn parts_len(parts: &[Part<'_>]) -> u64 {
    parts.iter().map(|part| part.len() as u64).sum()
}

/// An operation on a device, for errors.
pub(crate) fn site(device: &Path, op: OpKind, offset_bytes: u64, len_bytes: u64) -> Site {
    Site { device: device.to_path_buf(), op, offset_bytes, len_bytes }
}

/// Refuses operations outside of the device or off its blocks; `starts_and_lens` are those of the
/// parts in memory.
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
    // A buffer begins on a page, so a start is as aligned as its buffer's place allows.
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
