//! The mark of `unseal`: a file in the target that names the directories that a run makes, as long
//! as these are open to their owner alone. The next run finishes them if this one is cut off.
//!
//! A directory gets the sealed rights once everything in it is there. After a kill nothing but the
//! mark tells it from one that its owner keeps private: without the mark the one would stay closed,
//! or the other be opened.

use crate::disk::{Disk, DiskFile, FileId, Meta, MetaKind, is_own};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// The file, from when the first directory was made.
pub(crate) struct Mark {
    path: PathBuf,
    /// The digest of the manifest that is restored: what it says of rights is not given to what
    /// another set of the same number made.
    state: String,
    /// `None`: there is none yet, or what has its name is not to be obeyed or replaced.
    file: Option<Box<dyn DiskFile>>,
    /// Whether the name is free, or that of a mark.
    may_be_made: bool,
    /// Bytes written to it, whole directories.
    len: u64,
    /// The directories that the run before names.
    made: HashSet<Made>,
}

/// A directory that was made: the numbers of its device and its inode, and half a digest of the
/// state that was restored and of the path below the target at which it was made. Whoever can move it elsewhere gets no rights to it.
type Made = [u8; DIR_BYTES];

const DIR_BYTES: usize = 32;
/// More directories than fit are finished by nobody.
const BYTES_MOST: u64 = 64 << 20;

impl Mark {
    /// The one that a run of this user left, or none yet.
    ///
    /// One of this user's that no other may write to is obeyed. It is never written to, since it may
    /// have another name elsewhere: what it names is copied to a new one, by way of a temporary file.
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

    /// Whether the run before named a directory, at this path below the target.
    pub(crate) fn has(&self, dir: FileId, below: &[u8]) -> bool {
        self.made.contains(&made(dir, &self.state, below))
    }

    /// Takes the place of what the run before left. Best effort, as all of this: where nothing can
    /// be written, nobody finishes what is cut off.
    fn copy(&mut self, disk: &dyn Disk, temp: &Path) {
        let Ok(file) = disk.create(temp) else { return };
        let bytes: Vec<u8> = self.made.iter().flatten().copied().collect();
        if file.write_at(&bytes, 0).and_then(|()| file.give_name(&self.path)).is_ok() {
            (self.file, self.len) = (Some(file), bytes.len() as u64);
        } else {
            let _ = file.discard();
        }
    }

    /// Names one more.
    pub(crate) fn add(&mut self, disk: &dyn Disk, dir: FileId, below: &[u8]) {
        if self.may_be_made && self.file.is_none() && self.len == 0 {
            self.file = disk.create(&self.path).ok();
        }
        let bytes = made(dir, &self.state, below);
        if self.file.as_ref().is_some_and(|file| file.write_at(&bytes, self.len).is_ok()) {
            self.len += bytes.len() as u64;
        }
    }

    /// Removes it: nothing is unfinished any more.
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

/// What a mark names; `None` if it is not a file of this user's.
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
