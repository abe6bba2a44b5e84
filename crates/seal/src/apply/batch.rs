//! Originals that become durable together: they are written under temporary names, synced as a
//! whole, then renamed one by one.
//!
//! Invariant: a file gets its name only when its content is durable. After a kill or a loss of
//! power at any moment each path holds the old file or the whole new one. The next `heal` removes
//! leftover temporary files.
//!
//! One sync of the file system costs as much as the sync of one small file, but also writes pending
//! data of other programs. A few files are therefore synced one by one.

use crate::Fault;
use crate::disk::{Disk, DiskFile, DiskSystem, Meta, MetaKind};
use crate::set::names::{NO_COLUMN, stray};
use crate::set::times::is_same_time;
use pantile_format::{SetId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Up to this many files or directories are synced one by one.
const FEW: usize = 8;
/// A batch needs the space of its files in addition to that of the replaced ones.
const BYTES_MOST: u64 = 64 << 20;
/// Each file is open until it has its name, and so is its directory. The usual limit of a process
/// is 1024 open files.
const FILES_MOST: usize = 192;

/// A file that is written and waits for its name.
pub(crate) struct Written {
    pub(crate) file: Box<dyn DiskFile>,
    pub(crate) path: PathBuf,
    pub(crate) temp: PathBuf,
    /// The directory of both paths.
    pub(crate) dir: PathBuf,
    pub(crate) size: u64,
    pub(crate) mtime: Timestamp,
    /// Metadata of the replaced file, if there was one.
    pub(crate) there: Option<Meta>,
    /// True if the replaced file was touched since it was sealed, and is kept.
    pub(crate) is_kept: bool,
    /// The number of blocks that were computed.
    pub(crate) blocks: u64,
}

/// A file that has its name.
pub(crate) struct Named {
    pub(crate) path: PathBuf,
    pub(crate) blocks: u64,
    /// The path at which the replaced file was kept.
    pub(crate) aside: Option<PathBuf>,
}

/// Result for each file: it has its name, or the fault.
pub(crate) type Outcome = Result<Named, (PathBuf, Fault)>;

pub(crate) struct Batch<'d> {
    disk: &'d dyn Disk,
    set: SetId,
    waiting: Vec<Written>,
    bytes: u64,
    /// Directories in which files were renamed that are not synced yet.
    dirs: BTreeSet<PathBuf>,
    /// The file systems that are written to, by device number; `None` if each file there must be
    /// synced by itself.
    systems: BTreeMap<u64, Option<Box<dyn DiskSystem>>>,
}

impl<'d> Batch<'d> {
    pub(crate) fn new(disk: &'d dyn Disk, set: SetId) -> Batch<'d> {
        Batch { disk, set, waiting: Vec::new(), bytes: 0, dirs: BTreeSet::new(), systems: BTreeMap::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the temporary name of the next file in a directory.
    pub(crate) fn temp(&self, dir: &Path) -> PathBuf {
        stray(dir, self.set, Some(NO_COLUMN - 1 - self.waiting.len()))
    }

    /// Creates the next file. Its file system is opened before anything is written to it, so that a
    /// sync reports every failed write.
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

    /// True if the batch must be finished before another file is added.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= FILES_MOST || self.bytes >= BYTES_MOST
    }

    /// Makes the files of the batch and their names durable.
    pub(crate) fn end(&mut self, mut tell: impl FnMut(Outcome)) {
        self.finish(&mut tell);
        let dirs = std::mem::take(&mut self.dirs);
        self.sync_names(&dirs, &mut tell);
    }

    /// Makes the files of the batch durable, and gives them their names. Only [`end`](Batch::end)
    /// makes the names durable: a loss of power before it can bring back whole old files.
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

    /// Returns for each file of the batch the fault that keeps it from being durable, if any.
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

    /// Returns the first fault, if any: the system does not report which file it concerns.
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

    /// Gives a file its name, unless another program has changed the file to be replaced; returns
    /// the path at which the latter is kept.
    fn name(&self, written: &Written) -> Result<Option<PathBuf>, Fault> {
        let Written { file, path, there, size, mtime, .. } = written;
        // If another program has changed the old file since it was examined, it must not be
        // replaced. The check uses the opened directory, whatever is at its path now.
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

/// Gives a created file its name. The name must be free, unless another file is to be replaced.
pub(crate) fn name(file: &dyn DiskFile, path: &Path, replaces: bool) -> Result<(), Fault> {
    let named = if replaces { file.give_name(path) } else { file.give_free_name(path) };
    named.map_err(|e| match e.kind() {
        std::io::ErrorKind::AlreadyExists => Fault::changed(path),
        _ => Fault::io("creating", path, e),
    })
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        // Files that a failed run leaves are removed here; heal removes any others.
        self.waiting.iter().for_each(|written| drop(written.file.discard()));
    }
}

/// Gives a file a second name, under which it remains when the first name goes to another file.
fn keep_aside(disk: &dyn Disk, path: &Path) -> Result<PathBuf, Fault> {
    let aside = crate::heal::free_name(disk, path, "before-heal");
    disk.add_name(path, &aside).map_err(|e| Fault::io("keeping what is there as", &aside, e))?;
    Ok(aside)
}
