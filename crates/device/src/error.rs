//! Errors of a device, each with its location, its cause and its remedy.

use crate::{OpKind, is_server};
use std::fmt;
use std::path::{Path, PathBuf};

/// The device, the operation and the range of an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// Path of the device.
    pub device: PathBuf,
    /// Operation that failed.
    pub op: OpKind,
    /// Offset of the first byte; 0 for an operation without an offset.
    pub offset_bytes: u64,
    /// Number of bytes; 0 where an operation has no length.
    pub len_bytes: u64,
}

/// Reason why an operation is not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceError {
    /// The device could not read or write these blocks; other blocks may be intact.
    Media {
        /// The operation.
        at: Site,
        /// Number of the system's error.
        errno: i32,
    },
    /// The device does not answer any more.
    Gone {
        /// The operation.
        at: Site,
        /// Number of the system's error.
        errno: i32,
    },
    /// The file became shorter than it was when it was opened.
    Truncated {
        /// The operation.
        at: Site,
        /// End of the file, as far as the operation saw.
        end_bytes: u64,
        /// End of the file when it was opened.
        device_len_bytes: u64,
    },
    /// A flush failed, now or earlier: every write since the last successful flush may be lost.
    FlushFailed {
        /// The operation.
        at: Site,
        /// Number of the system's error, of the flush that failed first.
        errno: i32,
    },
    /// The file system below a sparse file is full.
    NoSpace {
        /// The operation.
        at: Site,
        /// Number of the system's error.
        errno: i32,
    },
    /// Offset, length or a part is not a multiple of the block length.
    Misaligned {
        /// The operation.
        at: Site,
        /// The block length.
        block_len_bytes: u32,
    },
    /// The range exceeds the device.
    OutOfRange {
        /// The operation.
        at: Site,
        /// Length of the device.
        device_len_bytes: u64,
    },
    /// The device is read-only.
    ReadOnly {
        /// The operation.
        at: Site,
        /// Number of the system's error; 0 if the device was opened read-only.
        errno: i32,
    },
    /// Another program has it open, or has mounted it.
    InUse {
        /// The operation.
        at: Site,
    },
    /// A device that is already in use under another name.
    SameDevice {
        /// The operation.
        at: Site,
        /// The path by which it is in use.
        known_as: PathBuf,
    },
    /// The name already exists.
    AlreadyThere {
        /// The operation.
        at: Site,
    },
    /// The name does not exist, or may not be opened.
    NotThere {
        /// The operation.
        at: Site,
        /// Number of the system's error.
        errno: i32,
    },
    /// The name is of neither a regular file nor a block device.
    NotADevice {
        /// The operation.
        at: Site,
    },
    /// The device is shorter than one block.
    TooSmall {
        /// The operation.
        at: Site,
        /// Its length.
        len_bytes: u64,
        /// The block length.
        block_len_bytes: u32,
    },
    /// The export of a server cannot be opened.
    Server {
        /// The operation.
        at: Site,
        /// The cause and the remedy, as text.
        why: String,
    },
    /// Any other error of the system.
    System {
        /// The operation.
        at: Site,
        /// Number of the system's error.
        errno: i32,
    },
}

/// The reaction to an error by the program that uses the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Remedy {
    /// Compute the lost blocks from other devices, and write them again.
    RepairRange,
    /// Go on without the device: it will not recover.
    DropDevice,
    /// Make space on the file system below; the stored bytes are intact.
    MakeSpace,
    /// Correct the request, which was wrong; the device is intact.
    FixCaller,
    /// Choose another device, or free this one: a decision of the operator.
    ChooseDevice,
    /// Repeat the request later: the system was short of some resource.
    Retry,
}

impl DeviceError {
    /// Returns the error for an error number of the system.
    ///
    /// The numbers are those that Linux's block layer and file systems return for failed reads and
    /// writes (`blk_errors` in block/blk-core.c). There is one list, so that a simulated fault
    /// means the same as a real one.
    pub fn from_errno(at: Site, errno: i32) -> Self {
        use rustix::io::Errno as E;
        let one_of = |known: &[E]| known.iter().any(|known| known.raw_os_error() == errno);
        if at.op == OpKind::Flush {
            Self::FlushFailed { at, errno }
        } else if one_of(&[E::IO, E::NODATA, E::ILSEQ, E::REMOTEIO, E::TIMEDOUT, E::BADMSG, E::UCLEAN]) {
            // Medium, protection information, target, timeout, and the checksums of a file system.
            Self::Media { at, errno }
        } else if one_of(&[E::NODEV, E::NXIO, E::NOMEDIUM, E::NOLINK, E::STALE])
            || one_of(&[E::NOTCONN, E::SHUTDOWN, E::CONNABORTED, E::CONNRESET, E::HOSTDOWN])
        {
            // Unplugged, offline, transport lost; the server of a FUSE or network file system is
            // dead.
            Self::Gone { at, errno }
        } else if one_of(&[E::NOSPC, E::DQUOT, E::FBIG]) {
            Self::NoSpace { at, errno }
        } else if one_of(&[E::ROFS, E::BADF, E::PERM]) {
            Self::ReadOnly { at, errno }
        } else {
            Self::System { at, errno }
        }
    }

    /// Returns the operation that failed.
    pub fn at(&self) -> &Site {
        match self {
            Self::Media { at, .. }
            | Self::Gone { at, .. }
            | Self::Truncated { at, .. }
            | Self::FlushFailed { at, .. }
            | Self::NoSpace { at, .. }
            | Self::Misaligned { at, .. }
            | Self::OutOfRange { at, .. }
            | Self::ReadOnly { at, .. }
            | Self::InUse { at }
            | Self::SameDevice { at, .. }
            | Self::AlreadyThere { at }
            | Self::NotThere { at, .. }
            | Self::NotADevice { at }
            | Self::TooSmall { at, .. }
            | Self::Server { at, .. }
            | Self::System { at, .. } => at,
        }
    }

    /// Returns the remedy.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Media { .. } => Remedy::RepairRange,
            Self::Gone { .. } | Self::Truncated { .. } | Self::FlushFailed { .. } | Self::ReadOnly { .. } => {
                Remedy::DropDevice
            }
            Self::NoSpace { .. } => Remedy::MakeSpace,
            Self::Misaligned { .. } | Self::OutOfRange { .. } => Remedy::FixCaller,
            Self::InUse { .. }
            | Self::SameDevice { .. }
            | Self::AlreadyThere { .. }
            | Self::NotThere { .. }
            | Self::NotADevice { .. }
            | Self::TooSmall { .. }
            | Self::Server { .. } => Remedy::ChooseDevice,
            Self::System { errno, .. } => {
                use rustix::io::Errno as E;
                let passing = [E::NOMEM, E::AGAIN, E::MFILE, E::NFILE, E::BUSY];
                match passing.iter().any(|known| known.raw_os_error() == *errno) {
                    true => Remedy::Retry,
                    false => Remedy::DropDevice,
                }
            }
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.op, self.device.display())?;
        match self.op {
            OpKind::Open | OpKind::Create | OpKind::Flush => Ok(()),
            _ => write!(f, " at byte {}, {} bytes", self.offset_bytes, self.len_bytes),
        }
    }
}

/// The system's text for an error number.
struct Said(i32);

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", std::io::Error::from_raw_os_error(self.0))
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.at())?;
        match self {
            Self::Media { at, errno } if at.op == OpKind::Write => {
                write!(f, "{}; it cannot write there, replace the device", Said(*errno))
            }
            Self::Media { errno, .. } => {
                write!(f, "{}; these blocks are lost, compute them from the other devices", Said(*errno))
            }
            Self::Gone { at, errno } if is_server(&at.device) => {
                write!(f, "{}; the server is gone, and is used again when it answers", Said(*errno))
            }
            Self::Gone { errno, .. } => {
                write!(f, "{}; the device is gone, go on without it or attach it again", Said(*errno))
            }
            Self::Truncated { end_bytes, device_len_bytes, .. } => write!(
                f,
                "it ends at byte {end_bytes} and was {device_len_bytes} bytes long when opened; \
                 another program shortened it: replace it"
            ),
            Self::FlushFailed { errno, .. } => write!(
                f,
                "{}; everything written since the last good flush may be lost, replace the device",
                Said(*errno)
            ),
            Self::NoSpace { errno, .. } => {
                write!(f, "{}; make room on the file system below it", Said(*errno))
            }
            Self::Misaligned { block_len_bytes, .. } => {
                write!(f, "not whole blocks of {block_len_bytes} bytes; align the request")
            }
            Self::OutOfRange { device_len_bytes, .. } => {
                write!(f, "the device has {device_len_bytes} bytes; ask for less")
            }
            Self::ReadOnly { errno: 0, .. } => {
                f.write_str("it was opened for reading only; open it for writing")
            }
            Self::ReadOnly { errno, .. } => write!(f, "{}; make it writable or replace it", Said(*errno)),
            Self::InUse { .. } => {
                f.write_str("it is in use, mounted or held by another process; release it or choose another")
            }
            Self::SameDevice { known_as, .. } => {
                write!(f, "it is the same device as {}; name each device once", known_as.display())
            }
            Self::AlreadyThere { .. } => f.write_str("it exists already; choose another name or remove it"),
            Self::NotThere { errno, .. } => write!(f, "{}; check the path and its permissions", Said(*errno)),
            Self::NotADevice { .. } => {
                f.write_str("it is neither a regular file nor a block device; choose one of these")
            }
            Self::TooSmall { len_bytes, block_len_bytes, .. } => write!(
                f,
                "it is {len_bytes} bytes long and one block takes {block_len_bytes}; choose a larger one"
            ),
            Self::Server { why, .. } => f.write_str(why),
            Self::System { errno, .. } => match self.remedy() {
                Remedy::Retry => write!(f, "{}; try again later", Said(*errno)),
                _ => write!(f, "{}; replace the device", Said(*errno)),
            },
        }
    }
}

impl std::error::Error for DeviceError {}

/// Returns the error of opening or making a device.
pub(crate) fn opening(path: &Path, op: OpKind, errno: rustix::io::Errno) -> DeviceError {
    use rustix::io::Errno as E;
    let at = crate::device::site(path, op, 0, 0);
    let number = errno.raw_os_error();
    match errno {
        E::NOENT | E::ACCESS | E::PERM | E::NOTDIR | E::LOOP => DeviceError::NotThere { at, errno: number },
        E::BUSY | E::WOULDBLOCK | E::TXTBSY => DeviceError::InUse { at },
        E::EXIST => DeviceError::AlreadyThere { at },
        _ => DeviceError::from_errno(at, number),
    }
}
