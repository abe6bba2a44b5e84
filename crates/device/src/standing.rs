//! Standing of an open device: whether its path still refers to it, and whether its file was
//! deleted or truncated.

use crate::Identity;
use rustix::fs::{FileType, Stat, fstat, stat};
use rustix::io::Errno;
use std::fmt;
use std::os::fd::AsFd;
use std::path::Path;

/// The name and the length of a device, compared with those at its opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Both are unchanged, or cannot be examined.
    Kept,
    /// The file has no name any more: it is freed when it is closed.
    Deleted,
    /// No file or device is at its path.
    NameGone,
    /// Another file or device is at its path.
    Replaced,
    /// The file is shorter than the device.
    Truncated {
        /// Its length now.
        have_bytes: u64,
        /// The length of the device.
        need_bytes: u64,
    },
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept => f.write_str("it stands where it was opened"),
            Self::Deleted => f.write_str("its file was deleted"),
            Self::NameGone => f.write_str("nothing is at its path any more"),
            Self::Replaced => f.write_str("another file or device is at its path"),
            Self::Truncated { have_bytes, need_bytes } => {
                write!(f, "its file was cut to {have_bytes} bytes of {need_bytes}")
            }
        }
    }
}

/// Returns the identity of a file or block device.
pub(crate) fn identity_of(found: &Stat) -> Option<Identity> {
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Some(Identity::File { device: found.st_dev, inode: found.st_ino }),
        FileType::BlockDevice => Some(Identity::Block { device: found.st_rdev }),
        _ => None,
    }
}

/// Returns the standing of an open file or block device of this identity and length. Waits for the
/// file system.
pub(crate) fn standing(file: impl AsFd, path: &Path, identity: Identity, len_bytes: u64) -> Standing {
    if let (Identity::File { .. }, Ok(found)) = (identity, fstat(file)) {
        if found.st_nlink == 0 {
            return Standing::Deleted;
        }
        let have_bytes = found.st_size as u64;
        if have_bytes < len_bytes {
            return Standing::Truncated { have_bytes, need_bytes: len_bytes };
        }
    }
    match stat(path) {
        Ok(found) if identity_of(&found) == Some(identity) => Standing::Kept,
        Ok(_) => Standing::Replaced,
        Err(Errno::NOENT | Errno::NOTDIR) => Standing::NameGone,
        // The path cannot be examined, which proves nothing.
        Err(_) => Standing::Kept,
    }
}
