//! The mark of `unseal`: a file in the target that names the new directories of a run as long as
//! they are private to their owner. If this run is cut off, the next one finishes them.
//!
//! A directory gets the sealed rights once its content is complete. After a kill only the mark
//! distinguishes such a directory from a private one of the user. Without the mark, either the
//! former would stay private, or the latter would be opened to others.

use crate::disk::{Disk, DiskFile, FileId, Meta, MetaKind, is_own};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// The mark, which is a file once the first directory was created.
pub(crate) struct Mark {
    path: PathBuf,
    /// The digest of the restored manifest. So a forged set with the same UUID cannot give its
    /// rights to these directories.
    state: String,
    /// `None` if there is no file yet, or another file has the name of the mark.
    file: Option<Box<dyn DiskFile>>,
    /// True if the name is free, or the file there is a mark.
    may_be_made: bool,
    /// Bytes written to the file; only whole directory records.
    len: u64,
    /// The directories that the previous run named.
    made: HashSet<Made>,
}

/// A new directory: its device and inode, and half a digest of the restored state and of its path
/// below the target. A user who moves the directory elsewhere does not get its rights there.
type Made = [u8; DIR_BYTES];

const DIR_BYTES: usize = 32;
/// Limit of the length of a mark; directories beyond it are not finished by the next run.
const BYTES_MOST: u64 = 64 << 20;

impl Mark {
    /// Returns the mark that a run of this user left, or an empty one.
    ///
    /// A mark is used only if no other user can write to it. It may have another name elsewhere, so
    /// it is not written to; its directories are copied to a new file.
    pub(crate) fn found(disk: &dyn Disk, path: PathBuf, temp: &Path, state: String) -> Mark {
        let there = disk.meta(&path).ok();
        let may_be_made = there.is_none_or(|meta| is_ours(&meta));
        let made = if may_be_made { read(disk, &path).unwrap_or_default() } else { HashSet::new() };
        let mut mark = Mark { path, state, file: None, may_be_made, len: 0, made };
        if there.is_some() && may_be_made {
            mark.copy(disk, temp);
        }
        mark
    }

    /// True if the previous run named this directory, at this path below the target.
    pub(crate) fn has(&self, dir: FileId, below: &[u8]) -> bool {
        self.made.contains(&made(dir, &self.state, below))
    }

    /// Replaces the mark of the previous run. Best effort, as everything here: if the mark cannot
    /// be written, a run that is cut off is not finished.
    fn copy(&mut self, disk: &dyn Disk, temp: &Path) {
        let Ok(file) = disk.create(temp) else { return };
        let bytes: Vec<u8> = self.made.iter().flatten().copied().collect();
        if file.write_at(&bytes, 0).and_then(|()| file.give_name(&self.path)).is_ok() {
            (self.file, self.len) = (Some(file), bytes.len() as u64);
        } else {
            let _ = file.discard();
        }
    }

    pub(crate) fn add(&mut self, disk: &dyn Disk, dir: FileId, below: &[u8]) {
        if self.may_be_made && self.file.is_none() && self.len == 0 {
            self.file = disk.create(&self.path).ok();
        }
        let bytes = made(dir, &self.state, below);
        if self.file.as_ref().is_some_and(|file| file.write_at(&bytes, self.len).is_ok()) {
            self.len += bytes.len() as u64;
        }
    }

    /// Removes the mark, since no directory is unfinished.
    pub(crate) fn take(&mut self, disk: &dyn Disk) {
        let Some(file) = self.file.take() else { return };
        let there = file.beside(self.path.file_name()).and_then(|seen| seen.meta());
        if file.meta().is_ok_and(|own| there.is_ok_and(|there| there.id == own.id)) {
            let _ = disk.remove(&self.path);
        }
    }
}

fn made(dir: FileId, state: &str, below: &[u8]) -> Made {
    let mut bytes = [0; DIR_BYTES];
    bytes[..8].copy_from_slice(&dir.device.to_le_bytes());
    bytes[8..16].copy_from_slice(&dir.inode.to_le_bytes());
    let at = blake3::hash(&[state.as_bytes(), below].concat());
    bytes[16..].copy_from_slice(&at.as_bytes()[..16]);
    bytes
}

/// Returns the directories in a mark; `None` if it is not a file of this user.
fn read(disk: &dyn Disk, path: &Path) -> Option<HashSet<Made>> {
    let file = disk.open(path).ok()?;
    let meta = file.meta().ok()?;
    if !is_ours(&meta) || meta.size > BYTES_MOST {
        return None;
    }
    let mut bytes = vec![0; meta.size as usize];
    let have = file.read_at(&mut bytes, 0).ok()?;
    let made = bytes[..have].chunks_exact(DIR_BYTES);
    Some(made.map(|made| made.try_into().expect("as many bytes")).collect())
}

/// True for a file that only this user and root can write to.
fn is_ours(meta: &Meta) -> bool {
    const OTHERS_WRITE: u32 = 0o022;
    meta.kind == MetaKind::File && is_own(meta) && meta.mode & OTHERS_WRITE == 0
}
