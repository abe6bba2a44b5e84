//! One command at a time in a directory, by an advisory lock on the directory itself, which leaves no file behind.

use crate::SealError;
use std::fs::{File, TryLockError};
use std::path::PathBuf;

/// Held until dropped.
pub(crate) struct Lock(#[allow(dead_code, reason = "the lock ends when the files close")] Vec<File>);

/// Locks directories: alone, or together with others that only read.
///
/// A file system that knows no locks is not a reason to refuse the work.
pub(crate) fn lock(dirs: &[PathBuf], alone: bool) -> Result<Lock, SealError> {
    let mut dirs = dirs.to_vec();
    dirs.sort_unstable();
    dirs.dedup();
    let mut held = Vec::new();
    for dir in dirs {
        let file = File::open(&dir).map_err(|e| SealError::io("opening", &dir, e))?;
        let locked = if alone { file.try_lock() } else { file.try_lock_shared() };
        if let Err(TryLockError::WouldBlock) = locked {
            return Err(SealError::Busy { dir });
        }
        held.push(file);
    }
    Ok(Lock(held))
}
