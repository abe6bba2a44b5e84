//! The mark of `unseal`: a file in the target that names the directories that a run makes, as long
//! as these are open to their owner alone. The next run finishes them if this one is cut off.
//!
//! Rights go to no directory that merely looks like one of these: it may be private to whoever runs
//! this.

use crate::disk::{Disk, DiskFile, FileId, MetaKind};
use crate::records::is_ours;
use std::collections::HashSet;
use std::path::PathBuf;

/// The file, from when the first directory was made.
pub(crate) struct Mark {
    path: PathBuf,
    /// `None`: there is none yet, or none that this user can write.
    file: Option<Box<dyn DiskFile>>,
    /// Its bytes, whole directories.
    len: u64,
}

impl Mark {
    /// Bytes of a directory: the numbers of its device and its inode.
    const DIR_BYTES: usize = 16;
    /// More directories than fit are finished by nobody.
    const BYTES_MOST: u64 = 64 << 20;

    /// The one that a run of this user left, or none yet.
    pub(crate) fn found(disk: &dyn Disk, path: PathBuf) -> Mark {
        let file = disk.open_write(&path).ok();
        let meta = file.as_ref().and_then(|file| file.meta().ok());
        let is_ours = meta.is_some_and(|meta| is_ours(&meta, MetaKind::File));
        let len = meta.map_or(0, |meta| meta.size / Mark::DIR_BYTES as u64 * Mark::DIR_BYTES as u64);
        match is_ours {
            true => Mark { path, file, len },
            false => Mark { path, file: None, len: 0 },
        }
    }

    /// What it names.
    pub(crate) fn made(&self) -> HashSet<FileId> {
        let Some(file) = self.file.as_ref().filter(|_| self.len <= Mark::BYTES_MOST) else {
            return HashSet::new();
        };
        let mut bytes = vec![0; self.len as usize];
        let have = file.read_at(&mut bytes, 0).unwrap_or(0);
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 of 16"));
        let dir = |bytes: &[u8]| FileId { device: number(&bytes[..8]), inode: number(&bytes[8..]) };
        bytes[..have].chunks_exact(Mark::DIR_BYTES).map(dir).collect()
    }

    /// Names one more. Best effort: where it cannot be written, nobody finishes what is cut off.
    pub(crate) fn add(&mut self, disk: &dyn Disk, made: FileId) {
        if self.file.is_none() && self.len == 0 {
            self.file = disk.create(&self.path).ok();
        }
        let bytes = [made.device.to_le_bytes(), made.inode.to_le_bytes()].concat();
        if self.file.as_ref().is_some_and(|file| file.write_at(&bytes, self.len).is_ok()) {
            self.len += bytes.len() as u64;
        }
    }

    /// Removes it: nothing is unfinished any more.
    pub(crate) fn take(&mut self, disk: &dyn Disk) {
        if self.file.take().is_some() {
            let _ = disk.remove(&self.path);
        }
    }
}
