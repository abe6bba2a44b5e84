//! One command at a time in a directory, by an advisory lock on the directory itself, which leaves no file behind.

use crate::SealError;
use crate::disk::Disk;
use crate::names::parent;
use crate::shard::{behind_links, led_to};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Held until dropped. The default is on nothing.
#[derive(Default)]
pub(crate) struct Lock {
    /// By device and inode; a lock ends when its file closes.
    held: BTreeMap<(u64, u64), File>,
}

impl Lock {
    /// Locks a directory that is written to, alone, whether this is on it or not: if this is on it together with others, they have to end first. What is returned is to be held as
    /// well; what lies behind links in the directory and is locked by this already stays as it is.
    ///
    /// Errors: as [`lock`]. This may have lost the directory then.
    pub(crate) fn with_alone(&self, disk: &dyn Disk, dir: &Path) -> Result<Lock, SealError> {
        let number = std::fs::metadata(dir).map(|meta| (meta.dev(), meta.ino()));
        match number.ok().and_then(|number| self.held.get(&number)) {
            Some(file) => try_lock(file, dir, true).map(|()| Lock::default()),
            None => lock_beside(self, disk, &[dir.to_path_buf()], &[], true),
        }
    }
}

/// Locks directories, and those in which the shards that are links there, or among the paths that were named, really lie: alone, or
/// together with others that only read.
///
/// Whoever is told the one and whoever is told the other exclude each other. A file system that knows no locks is not a
/// reason to refuse the work, nor is a directory behind a link that is not there or cannot be read. A directory that is
/// named by two paths is one: a lock of its own would keep the second out. Nobody waits for a lock, and all take them in
/// one order, so that of two who want the same ones the first gets them.
pub(crate) fn lock(
    disk: &dyn Disk,
    dirs: &[PathBuf],
    named: &[PathBuf],
    alone: bool,
) -> Result<Lock, SealError> {
    lock_beside(&Lock::default(), disk, dirs, named, alone)
}

/// As [`lock`], but for what one who asks has locked already.
fn lock_beside(
    own: &Lock,
    disk: &dyn Disk,
    dirs: &[PathBuf],
    named: &[PathBuf],
    alone: bool,
) -> Result<Lock, SealError> {
    const TRIES_MOST: usize = 8;
    let mut expected = behind(disk, dirs, named);
    for _ in 0..TRIES_MOST {
        let lock = lock_all(own, dirs, &expected, alone)?;
        // A link may have been changed before the lock was had.
        let now = behind(disk, dirs, named);
        if now == expected {
            return Ok(lock);
        }
        expected = now;
    }
    Err(SealError::Busy { dir: dirs.first().cloned().unwrap_or_default() })
}

fn lock_all(
    own: &Lock,
    dirs: &[PathBuf],
    behind: &BTreeSet<PathBuf>,
    alone: bool,
) -> Result<Lock, SealError> {
    let mut all = BTreeMap::new();
    let told = dirs.iter().map(|dir| (dir, true));
    for (dir, is_told) in told.chain(behind.iter().map(|dir| (dir, false))) {
        match File::open(dir).and_then(|file| file.metadata().map(|meta| (file, meta))) {
            Ok((file, meta)) if is_told || meta.is_dir() => {
                all.entry((meta.dev(), meta.ino())).or_insert((dir, file));
            }
            Err(error) if is_told => return Err(SealError::io("opening", dir, error)),
            _ => {}
        }
    }
    let mut held = BTreeMap::new();
    for (number, (dir, file)) in all {
        if !own.held.contains_key(&number) {
            try_lock(&file, dir, alone)?;
            held.insert(number, file);
        }
    }
    Ok(Lock { held })
}

fn try_lock(file: &File, dir: &Path, alone: bool) -> Result<(), SealError> {
    match if alone { file.try_lock() } else { file.try_lock_shared() } {
        Err(TryLockError::WouldBlock) => Err(SealError::Busy { dir: dir.to_path_buf() }),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

/// The directories in which shards lie that are links.
fn behind(disk: &dyn Disk, dirs: &[PathBuf], named: &[PathBuf]) -> BTreeSet<PathBuf> {
    let listed = dirs.iter().flat_map(|dir| behind_links(disk, dir));
    let named = named.iter().filter_map(|path| led_to(disk, path));
    listed.chain(named).map(|shard| parent(&shard)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Disk, SystemDisk};

    fn disk(dirs: &[PathBuf]) -> SystemDisk {
        let disk = SystemDisk::new();
        dirs.iter().for_each(|dir| drop(disk.root(dir, crate::disk::Access::Read).unwrap()));
        disk
    }

    fn lock(dirs: &[PathBuf], alone: bool) -> Result<Lock, SealError> {
        super::lock(&disk(dirs), dirs, &[], alone)
    }

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

    #[test]
    fn who_writes_where_others_read_with_it_waits_for_their_end() {
        let dir = tempfile::tempdir().unwrap();
        let names = ["shards", "links", "other"].map(|name| dir.path().join(name));
        names.iter().for_each(|name| std::fs::create_dir(name).unwrap());
        let [shards, links, other] = &names;
        std::os::unix::fs::symlink(shards.join("x"), links.join("x.00.shard")).unwrap();
        let shared = |of: &PathBuf| lock(std::slice::from_ref(of), false);
        let [own, beside] = [shared(shards).unwrap(), shared(shards).unwrap()];
        let busy = own.with_alone(&disk(&names), shards);
        assert!(matches!(busy, Err(SealError::Busy { dir }) if dir == *shards));
        drop((own, beside));
        let own = shared(shards).unwrap();
        let _alone = own.with_alone(&disk(&names), shards).unwrap();
        assert!(shared(shards).is_err());
        // What lies behind the links of a directory is no obstacle if it is our own.
        let held = [links, other].map(|of| own.with_alone(&disk(&names), of).unwrap());
        assert!([links, other].iter().all(|of| shared(of).is_err()));
        drop((held, own));
        assert!(names.iter().all(|of| shared(of).is_ok()));
    }

    #[test]
    fn a_directory_of_links_and_those_that_they_lead_to_exclude_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let names = ["links", "one", "two", "other"].map(|name| dir.path().join(name));
        names.iter().for_each(|name| std::fs::create_dir(name).unwrap());
        let [links, one, two, other] = &names;
        let link = |name: &str, to: PathBuf| std::os::unix::fs::symlink(to, links.join(name)).unwrap();
        link("x.00.shard", one.join("x"));
        link("x.01.shard", two.join("not there"));
        link("x.02.shard", dir.path().join("not mounted/x"));
        link("x.03.shard", "x.03.shard".into());
        link("diary", other.join("diary"));
        let is_busy = |of: &PathBuf, alone: bool| lock(std::slice::from_ref(of), alone).is_err();
        for dir in [links, one, two] {
            let held = lock(std::slice::from_ref(dir), true).unwrap();
            assert!(is_busy(links, true) && is_busy(links, false), "{dir:?}");
            drop(held);
            let held = lock(std::slice::from_ref(links), true).unwrap();
            assert!(is_busy(dir, true) && is_busy(dir, false) && !is_busy(other, true), "{dir:?}");
            drop(held);
            let held = lock(std::slice::from_ref(dir), false).unwrap();
            assert!(is_busy(links, true) && !is_busy(links, false), "{dir:?}");
            drop(held);
        }
        // A link that was named, whatever it is called.
        let held = super::lock(&disk(&names), std::slice::from_ref(other), &[links.join("x.00.shard")], true)
            .unwrap();
        assert!(is_busy(one, false) && is_busy(links, false) && !is_busy(two, true));
        drop(held);
    }
}
