//! One command at a time in a directory, by an advisory lock on the directory itself, which leaves no file behind.

use crate::SealError;
use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Held until dropped.
pub(crate) struct Lock(#[allow(dead_code, reason = "the lock ends when the files close")] Vec<File>);

/// Locks directories: alone, or together with others that only read.
///
/// A file system that knows no locks is not a reason to refuse the work. A directory that is named by two paths is one:
/// a lock of its own would keep the second out.
pub(crate) fn lock(dirs: &[PathBuf], alone: bool) -> Result<Lock, SealError> {
    let mut seen = BTreeSet::new();
    let mut held = Vec::new();
    for dir in dirs {
        let opened = File::open(dir).and_then(|file| file.metadata().map(|meta| (file, meta)));
        let (file, meta) = opened.map_err(|e| SealError::io("opening", dir, e))?;
        if !seen.insert((meta.dev(), meta.ino())) {
            continue;
        }
        let locked = if alone { file.try_lock() } else { file.try_lock_shared() };
        if let Err(TryLockError::WouldBlock) = locked {
            return Err(SealError::Busy { dir: dir.clone() });
        }
        held.push(file);
    }
    Ok(Lock(held))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_directory_is_locked_once_however_it_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        let names = [dir.path().to_path_buf(), dir.path().join("."), link];
        let held = lock(&names, true).unwrap();
        assert!(
            names
                .iter()
                .all(|name| matches!(lock(std::slice::from_ref(name), true), Err(SealError::Busy { .. })))
        );
        drop(held);
        assert!(lock(&names, false).is_ok(), "and is free afterwards");
    }
}
