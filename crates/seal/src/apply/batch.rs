//! Originals that become durable together: written under temporary names, synced as a whole, then
//! named one by one.
//!
//! Invariant: a file gets its name only when its content is durable, so that whoever is killed or
//! loses power at any moment finds under each path what was there or the whole new file. What is
//! left under temporary names the next `heal` removes.
//!
//! One sync of the file system costs as much as that of one small file, but also writes what other
//! programs have not written back: a few files are therefore synced one by one.

use crate::Fault;
use crate::disk::{Disk, DiskFile, DiskSystem, Meta, MetaKind};
use crate::set::names::{NO_COLUMN, stray};
use crate::set::times::is_same_time;
use pantile_format::{SetId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Up to so many files or directories are synced one by one.
const FEW: usize = 8;
/// A batch takes as much room as its files beside what they replace.
const BYTES_MOST: u64 = 64 << 20;
/// Each is open until it has its name, with its directory; a process has 1024 files as a rule.
const FILES_MOST: usize = 192;

/// A file that is written and waits for its name.
pub(crate) struct Written {
    pub(crate) file: Box<dyn DiskFile>,
    pub(crate) path: PathBuf,
    pub(crate) temp: PathBuf,
    /// The directory of both.
    pub(crate) dir: PathBuf,
    pub(crate) size: u64,
    pub(crate) mtime: Timestamp,
    /// What was there before it was written.
    pub(crate) there: Option<Meta>,
    /// Whether what is there was touched since it was sealed, and is kept.
    pub(crate) is_kept: bool,
    /// Blocks that were computed.
    pub(crate) blocks: u64,
}

/// A file that has its name.
pub(crate) struct Named {
    pub(crate) path: PathBuf,
    pub(crate) blocks: u64,
    /// Where what was there was kept.
    pub(crate) aside: Option<PathBuf>,
}

/// What became of each file: its name, or why not.
pub(crate) type Outcome = Result<Named, (PathBuf, Fault)>;

pub(crate) struct Batch<'d> {
    disk: &'d dyn Disk,
    set: SetId,
    waiting: Vec<Written>,
    bytes: u64,
    /// Directories in which names were given that are not durable yet.
    dirs: BTreeSet<PathBuf>,
    /// The file systems written to, by their number; `None` where each file must be synced for
    /// itself.
    systems: BTreeMap<u64, Option<Box<dyn DiskSystem>>>,
}

impl<'d> Batch<'d> {
    pub(crate) fn new(disk: &'d dyn Disk, set: SetId) -> Batch<'d> {
        Batch { disk, set, waiting: Vec::new(), bytes: 0, dirs: BTreeSet::new(), systems: BTreeMap::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The temporary name of the next file in a directory.
    pub(crate) fn temp(&self, dir: &Path) -> PathBuf {
        stray(dir, self.set, Some(NO_COLUMN - 1 - self.waiting.len()))
    }

    /// Makes the next file; it is written after this only, so that its file system tells of every
    /// fault in writing it.
    pub(crate) fn create(&mut self, dir: &Path, temp: &Path) -> Result<Box<dyn DiskFile>, Fault> {
        let io = |e| Fault::io("creating", temp, e);
        let file = self.disk.create(temp).map_err(io)?;
        let device = file.meta().map_err(io)?.id.device;
        self.systems.entry(device).or_insert_with(|| self.disk.open_system(dir).ok());
        Ok(file)
    }

    pub(crate) fn add(&mut self, written: Written) {
        self.bytes += written.size;
        self.waiting.push(written);
    }

    /// Whether no more can be added before the batch is finished.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= FILES_MOST || self.bytes >= BYTES_MOST
    }

    /// Makes durable what waits, and the names that were given.
    pub(crate) fn end(&mut self, mut tell: impl FnMut(Outcome)) {
        self.finish(&mut tell);
        let dirs = std::mem::take(&mut self.dirs);
        self.sync_names(&dirs, &mut tell);
    }

    /// Makes durable what waits, and names it. That the names are durable is for the
    /// [`end`](Batch::end) alone: until then what was there may come back after a loss of power, as
    /// a whole.
    pub(crate) fn finish(&mut self, mut tell: impl FnMut(Outcome)) {
        let waiting = std::mem::take(&mut self.waiting);
        if waiting.is_empty() {
            return;
        }
        let faults = self.sync_contents(&waiting);
        for (written, fault) in waiting.into_iter().zip(faults) {
            let named = fault.map_or_else(|| self.name(&written), Err);
            match named {
                Ok(aside) => {
                    self.dirs.insert(written.dir);
                    tell(Ok(Named { path: written.path, blocks: written.blocks, aside }));
                }
                Err(error) => {
                    // Best effort: the next heal removes it.
                    let _ = written.file.discard();
                    tell(Err((written.path, error)));
                }
            }
        }
        self.bytes = 0;
    }

    /// For each file that waits why it is not durable, if it is not.
    fn sync_contents(&self, waiting: &[Written]) -> Vec<Option<Fault>> {
        let error = |written: &Written, e| Fault::io("syncing", &written.temp, e);
        if waiting.len() <= FEW || self.systems.values().any(Option::is_none) {
            let sync = |written: &Written| written.file.sync().err().map(|e| error(written, e));
            return waiting.iter().map(sync).collect();
        }
        let fault = self.sync_systems();
        let of = |written| fault.as_ref().map(|e| error(written, std::io::Error::from(e.kind())));
        waiting.iter().map(of).collect()
    }

    /// The first fault, if there is one: which file it is of, the system does not say.
    fn sync_systems(&self) -> Option<std::io::Error> {
        let results: Vec<_> = self.systems.values().flatten().map(|system| system.sync()).collect();
        results.into_iter().find_map(Result::err)
    }

    fn sync_names(&self, dirs: &BTreeSet<PathBuf>, tell: &mut impl FnMut(Outcome)) {
        let is_told = self.systems.values().all(Option::is_some);
        if dirs.len() > FEW && is_told {
            let (Some(error), Some(dir)) = (self.sync_systems(), dirs.first()) else { return };
            return tell(Err((dir.clone(), Fault::io("syncing", dir, error))));
        }
        for dir in dirs {
            if let Err(error) = self.disk.sync_dir(dir) {
                tell(Err((dir.clone(), Fault::io("syncing", dir, error))));
            }
        }
    }

    /// Gives a file its name, unless somebody has changed what is there; where that is kept.
    fn name(&self, written: &Written) -> Result<Option<PathBuf>, Fault> {
        let Written { file, path, there, size, mtime, .. } = written;
        // Someone may have changed it since it was looked at: then it is not ours to replace. Asked
        // in the directory in which it is named, whatever lies at its path by now.
        let same = match file.beside(path.file_name()).and_then(|seen| seen.meta()) {
            Ok(now) => {
                now.kind == MetaKind::File
                    && now.size == *size
                    && is_same_time(*mtime, now.mtime)
                    && there.is_some_and(|there| (there.id, there.ctime) == (now.id, now.ctime))
            }
            Err(_) => there.is_none(),
        };
        if !same {
            return Err(Fault::changed(path));
        }
        let aside = written.is_kept.then(|| keep_aside(self.disk, path)).transpose()?;
        name(&**file, path, there.is_some())?;
        Ok(aside)
    }
}

/// Gives a file that was created its name: one that nothing has, unless what has it is replaced.
pub(crate) fn name(file: &dyn DiskFile, path: &Path, replaces: bool) -> Result<(), Fault> {
    let named = if replaces { file.give_name(path) } else { file.give_free_name(path) };
    named.map_err(|e| match e.kind() {
        std::io::ErrorKind::AlreadyExists => Fault::changed(path),
        _ => Fault::io("creating", path, e),
    })
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        // Of a run that ends with an error; what cannot be removed the next heal removes.
        self.waiting.iter().for_each(|written| drop(written.file.discard()));
    }
}

/// Gives what a file holds a second name, under which it stays when the first is taken from it.
fn keep_aside(disk: &dyn Disk, path: &Path) -> Result<PathBuf, Fault> {
    let aside = crate::heal::free_name(disk, path, "before-heal");
    disk.add_name(path, &aside).map_err(|e| Fault::io("keeping what is there as", &aside, e))?;
    Ok(aside)
}
