//! Permits only one writing command at a time in a directory, by a file there that only its owner
//! can open.
//!
//! An advisory lock on the directory itself could be held by any user who can read it, to keep its
//! owner out. A command that only reads takes no lock: it does not begin during a write, and at its
//! end it checks for changes.

use crate::Fault;
use crate::disk::{Access, Disk, FileId, Held};
use crate::set::names::parent;
use crate::set::shard::{behind_links, led_to, read_header};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Locks on directories until it is dropped. The default holds none.
#[derive(Default)]
pub(crate) struct Lock {
    held: BTreeMap<FileId, Option<Box<dyn Held>>>,
}

impl Lock {
    /// Locks one more directory for writing, unless this lock includes it. The caller must keep
    /// both.
    ///
    /// Errors: as [`lock`].
    pub(crate) fn with(&self, disk: &dyn Disk, dir: &Path) -> Result<Lock, Fault> {
        lock_beside(self, disk, &[dir.to_path_buf()], &[])
    }
}

/// Locks directories, and the directories of shards to which links among `dirs` and `named` lead.
///
/// Commands that name the links and commands that name the shards exclude each other. If the file
/// system has no locks, or a directory behind a link is missing or read-only, the work is not
/// refused. Two paths of one directory get one lock. No command waits, and all commands lock in the
/// same order, so that one of two competing commands gets every lock.
pub(crate) fn lock(disk: &dyn Disk, dirs: &[PathBuf], named: &[PathBuf]) -> Result<Lock, Fault> {
    lock_beside(&Lock::default(), disk, dirs, named)
}

/// Refuses to begin while another command writes there.
pub(crate) fn refuse_if_locked(disk: &dyn Disk, dirs: &[PathBuf], named: &[PathBuf]) -> Result<(), Fault> {
    let behind = behind(disk, dirs, named);
    match dirs.iter().chain(&behind).find(|dir| disk.is_locked(dir)) {
        Some(dir) => Err(Fault::busy(dir)),
        None => Ok(()),
    }
}

/// As [`lock`], except for the directories that the caller has locked.
fn lock_beside(own: &Lock, disk: &dyn Disk, dirs: &[PathBuf], named: &[PathBuf]) -> Result<Lock, Fault> {
    const TRIES_MOST: usize = 8;
    let mut expected = behind(disk, dirs, named);
    for _ in 0..TRIES_MOST {
        let lock = lock_all(own, disk, dirs, &expected)?;
        // A link may have been changed before the lock was taken.
        let now = behind(disk, dirs, named);
        if now == expected {
            return Ok(lock);
        }
        expected = now;
    }
    Err(Fault::busy(dirs.first().map_or(Path::new(""), |dir| dir.as_path())))
}

fn lock_all(
    own: &Lock,
    disk: &dyn Disk,
    dirs: &[PathBuf],
    behind: &BTreeSet<PathBuf>,
) -> Result<Lock, Fault> {
    let mut all: BTreeMap<FileId, &PathBuf> = BTreeMap::new();
    for dir in dirs {
        let meta = disk.meta(dir).map_err(|e| Fault::io("opening", dir, e))?;
        all.entry(meta.id).or_insert(dir);
    }
    for dir in behind.iter().filter(|dir| disk.root(dir, Access::Write).is_ok()) {
        if let Ok(meta) = disk.meta(dir) {
            all.entry(meta.id).or_insert(dir);
        }
    }
    let mut held = BTreeMap::new();
    for (id, dir) in all {
        if own.held.contains_key(&id) {
            continue;
        }
        match disk.lock(dir) {
            Ok(lock) => drop(held.insert(id, lock)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Err(Fault::busy(dir));
            }
            Err(error) => return Err(Fault::io("locking", dir, error)),
        }
    }
    Ok(Lock { held })
}

/// Returns the directories of the shards to which links lead. Targets that are not shards are
/// excluded.
fn behind(disk: &dyn Disk, dirs: &[PathBuf], named: &[PathBuf]) -> BTreeSet<PathBuf> {
    let listed = dirs.iter().flat_map(|dir| behind_links(disk, dir));
    let named = named.iter().filter_map(|path| led_to(disk, path));
    let is_shard = |path: &PathBuf| disk.open(path).is_ok_and(|file| read_header(&*file).is_ok());
    listed.chain(named).filter(is_shard).map(|shard| parent(&shard)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FaultKind;
    use crate::disk::SystemDisk;

    fn disk(dirs: &[PathBuf]) -> SystemDisk {
        let disk = SystemDisk::new();
        dirs.iter().for_each(|dir| drop(disk.root(dir, Access::Write).unwrap()));
        disk
    }

    fn is_busy(fault: Fault) -> bool {
        matches!(fault.kind, FaultKind::Busy)
    }

    #[test]
    fn one_directory_is_locked_once_however_it_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        let names = [dir.path().to_path_buf(), dir.path().join("."), link];
        let disk = disk(&names);
        let held = lock(&disk, &names, &[]).unwrap();
        for name in &names {
            let name = std::slice::from_ref(name);
            assert!(lock(&disk, name, &[]).is_err_and(is_busy));
            assert!(refuse_if_locked(&disk, name, &[]).is_err_and(is_busy));
        }
        drop(held);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left behind");
        refuse_if_locked(&disk, &names, &[]).unwrap();
        assert!(lock(&disk, &names, &[]).is_ok(), "and is free afterwards");
    }

    #[test]
    fn readers_of_a_directory_cannot_lock_it() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let names = [dir.path().to_path_buf()];
        let disk = disk(&names);
        // This is what another user with read access to the directory can do.
        let open = std::fs::File::open(dir.path()).unwrap();
        open.lock().unwrap();
        let held = lock(&disk, &names, &[]).unwrap();
        let mode = std::fs::metadata(dir.path().join(crate::set::names::LOCK)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(held);
        // The lock file of a killed command is locked again.
        std::fs::write(dir.path().join(crate::set::names::LOCK), "").unwrap();
        let _held = lock(&disk, &names, &[]).unwrap();
    }

    /// Root may be killed while it works in a directory of a user. The user can then work there.
    #[test]
    fn a_lock_of_root_in_a_directory_of_a_user_is_that_users() {
        use std::os::unix::fs::{MetadataExt, chown};
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can make files of another user");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let names = [dir.path().to_path_buf()];
        chown(dir.path(), Some(65534), Some(65534)).unwrap();
        let held = lock(&disk(&names), &names, &[]).unwrap();
        let of_root = dir.path().join("kept");
        let there = dir.path().join(crate::set::names::LOCK);
        assert_eq!(std::fs::metadata(&there).unwrap().uid(), 65534);
        drop(held);
        // An existing file may have another name elsewhere.
        std::fs::write(&of_root, "").unwrap();
        std::fs::hard_link(&of_root, &there).unwrap();
        let _held = lock(&disk(&names), &names, &[]).unwrap();
        assert_eq!(std::fs::metadata(&there).unwrap().uid(), 0);
    }

    #[test]
    fn a_locked_directory_needs_no_second_lock() {
        let dir = tempfile::tempdir().unwrap();
        let names = ["shards", "other"].map(|name| dir.path().join(name));
        names.iter().for_each(|name| std::fs::create_dir(name).unwrap());
        let disk = disk(&names);
        let own = lock(&disk, &names[..1], &[]).unwrap();
        let more = names.iter().map(|dir| own.with(&disk, dir).unwrap()).collect::<Vec<_>>();
        assert!(names.iter().all(|dir| lock(&disk, std::slice::from_ref(dir), &[]).is_err()));
        drop((own, more));
        assert!(names.iter().all(|dir| lock(&disk, std::slice::from_ref(dir), &[]).is_ok()));
    }
}
