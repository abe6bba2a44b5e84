//! The files of this system, reached through opened directories alone.
//!
//! A root is opened once; later only its descriptor counts. The kernel resolves a path below it
//! from that descriptor (`openat2`, beneath it and through no link); where a kernel or a sandbox
//! lacks that call, it is opened name by name. Files are accessed through their descriptor, or by
//! Files are accessed through their descriptor, or by name in their opened directory. So a user who
//! exchanges names meanwhile can make the work fail, or divert it to files of that user, but not to
//! any others.
//!
//! Deliberately not here: permission to write. The caller of `root` decides it.

use crate::disk::{
    Access, Disk, DiskFile, DiskSystem, Dress, FileId, Held, MadeRoot, Meta, MetaKind, PRIVATE_DIR, ROOT_DIR,
    Seen,
};
use crate::set::names::LOCK;
use pantile_format::Timestamp;
use pantile_paths::{Dir as NamedDir, TO_LIST, TO_READ, TO_SEARCH, TO_WRITE, beneath};
use rustix::buffer::spare_capacity;
use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps, XattrFlags,
};
use rustix::fs::{Gid, Uid};
use rustix::io::Errno;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// An opened directory.
struct Root {
    dir: Arc<OwnedFd>,
    access: Access,
}

/// The files of this system.
#[derive(Default)]
pub struct SystemDisk {
    /// The named directories, both by the path as named and by the path without links. Callers pass
    /// paths, and each is resolved from the descriptor here.
    roots: RwLock<HashMap<PathBuf, Root>>,
    /// The identity of the directory that was first found at each path. `openat2` refuses links,
    /// but not a directory that was renamed to the path later; this table does.
    known: Mutex<HashMap<PathBuf, FileId>>,
    /// The parent directory of the last path that was looked at: neighbours follow one another.
    last: Mutex<Option<(PathBuf, Arc<OwnedFd>)>>,
    /// New directories of roots: the path of the root, the directory above, the name in it.
    made: Mutex<Vec<(PathBuf, OwnedFd, OsString)>>,
}

/// A file, and the place where it was created.
struct SystemFile {
    file: File,
    created: Option<(Arc<OwnedFd>, OsString)>,
}

/// A file opened with `O_PATH`, only to be described.
struct SystemSeen(OwnedFd);

/// A file system, represented by a directory on it.
struct FileSystem(OwnedFd);

/// A locked file. It is removed before the lock ends, so that it leaves no trace.
struct LockFile {
    dir: OwnedFd,
    _file: OwnedFd,
    /// The mtime of the directory before the lock file was created, and after.
    changed: Option<(Timestamp, Timestamp)>,
}

impl Held for LockFile {}

impl Drop for LockFile {
    fn drop(&mut self) {
        let now = changed(&self.dir);
        // A lock file that cannot be removed is harmless: the next command locks it again.
        let _ = rustix::fs::unlinkat(&self.dir, LOCK, AtFlags::empty());
        // The time of the directory is set back, so that the lock leaves no trace. Best effort:
        // only the owner can set it.
        let left = match (self.changed, now) {
            (Some((before, by_lock)), Some(now)) if now == by_lock => Some(before),
            (_, now) => now,
        };
        if let Some(left) = left {
            let _ = rustix::fs::utimensat(&self.dir, ".", &modified(left), AtFlags::SYMLINK_NOFOLLOW);
        }
    }
}

impl SystemDisk {
    /// Creates it without roots.
    pub fn new() -> SystemDisk {
        SystemDisk::default()
    }

    /// Returns the root above a path, and the path relative to it.
    fn find(&self, path: &Path, access: Access) -> io::Result<(Arc<OwnedFd>, PathBuf)> {
        let path = plain(path);
        let roots = self.roots.read().unwrap_or_else(PoisonError::into_inner);
        // Roots are few and short, so deep paths are not looked up component by component.
        let longest = roots.keys().map(|root| root.as_os_str().len()).max().unwrap_or(0);
        let mut above = path.ancestors().filter(|above| above.as_os_str().len() <= longest);
        let found = above.find_map(|above| Some((above, roots.get(above)?)));
        let Some((above, root)) = found else {
            let why = "it is in no directory that was named";
            return Err(io::Error::new(io::ErrorKind::NotFound, why));
        };
        if access > root.access {
            let why = "its directory was opened to be read only";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        let below = path.strip_prefix(above).unwrap_or(&path).to_path_buf();
        match below.components().all(|part| matches!(part, Component::Normal(_))) {
            true => Ok((Arc::clone(&root.dir), below)),
            false => Err(Errno::INVAL.into()),
        }
    }

    /// Returns the opened parent directory of a path, and the name in it. A root has no parent.
    fn at(&self, path: &Path, access: Access) -> io::Result<(Arc<OwnedFd>, OsString)> {
        let (root, below) = self.find(path, access)?;
        let name = below.file_name().ok_or(Errno::BUSY)?.to_os_string();
        match below.parent() {
            Some(above) if !above.as_os_str().is_empty() => {
                let dir = beneath(root.as_fd(), above, TO_SEARCH)?;
                self.know(&crate::set::names::parent(path), describe(&rustix::fs::fstat(&dir)?).id)?;
                Ok((Arc::new(dir), name))
            }
            _ => Ok((root, name)),
        }
    }

    /// As [`SystemDisk::at`], to look at what is there: the parent directory of the last path is
    /// kept, since neighbours follow one another.
    fn at_to_look(&self, path: &Path) -> io::Result<(Arc<OwnedFd>, OsString)> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let parent = plain(&crate::set::names::parent(path));
        if let (Some((_, dir)), Some(name)) =
            (last.as_ref().filter(|(path, _)| *path == parent), path.file_name())
        {
            return Ok((Arc::clone(dir), name.to_os_string()));
        }
        let (dir, name) = self.at(path, Access::Read)?;
        *last = Some((parent, Arc::clone(&dir)));
        Ok((dir, name))
    }

    fn open_at(&self, path: &Path, access: Access, flags: OFlags) -> io::Result<OwnedFd> {
        let (root, below) = self.find(path, access)?;
        if below.as_os_str().is_empty() {
            return beneath(root.as_fd(), &below, flags);
        }
        let (dir, name) = self.at(path, access)?;
        let file = beneath(dir.as_fd(), Path::new(&name), flags)?;
        // Only paths that are opened to be listed or described can be directories.
        if flags.intersects(OFlags::PATH.union(OFlags::DIRECTORY)) {
            let found = describe(&rustix::fs::fstat(&file)?);
            if found.kind == MetaKind::Dir {
                self.know(path, found.id)?;
            }
        }
        Ok(file)
    }

    /// Notes the identity of the directory at a path, or compares it with the noted one.
    fn know(&self, path: &Path, id: FileId) -> io::Result<()> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match known.entry(plain(path)) {
            Entry::Vacant(new) => drop(new.insert(id)),
            Entry::Occupied(there) if *there.get() == id => {}
            Entry::Occupied(_) => return Err(io::Error::other("another directory took its place just now")),
        }
        Ok(())
    }

    /// Forgets the identity at a path that is removed or renamed.
    fn forget(&self, path: &Path) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&plain(path));
    }

    fn add_root(&self, names: [PathBuf; 2], dir: OwnedFd, access: Access) {
        let dir = Arc::new(dir);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let mut roots = self.roots.write().unwrap_or_else(PoisonError::into_inner);
        // The first descriptor of a directory remains in use, wherever its path leads later.
        let dir = names.iter().find_map(|name| Some(Arc::clone(&roots.get(name)?.dir))).unwrap_or(dir);
        for name in names {
            let root = roots.entry(name).or_insert_with(|| Root { dir: Arc::clone(&dir), access });
            root.access = root.access.max(access);
        }
    }

    /// Opens a regular file, and describes any other kind; refuses a file that replaced it in
    /// between.
    fn open_file(&self, path: &Path, access: Access, flags: OFlags) -> io::Result<File> {
        let seen = self.open_at(path, access, OFlags::PATH)?;
        let stat = rustix::fs::fstat(&seen)?;
        match describe(&stat).kind {
            MetaKind::File => {}
            MetaKind::Symlink => return Err(Errno::LOOP.into()),
            MetaKind::Dir | MetaKind::Other => return Ok(File::from(seen)),
        }
        let file = File::from(self.open_at(path, access, flags)?);
        match describe(&rustix::fs::fstat(&file)?).id == describe(&stat).id {
            true => Ok(file),
            false => Err(io::Error::other("another file took its place just now")),
        }
    }
}

/// Creates a directory in an opened one, and opens it; returns its identity if it is certainly new.
fn make_in(dir: BorrowedFd<'_>, name: &OsStr, mode: u32) -> io::Result<(OwnedFd, Option<FileId>)> {
    rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(mode))?;
    let made = beneath(dir, Path::new(name), TO_LIST)?;
    let id = is_empty(&made)?.then_some(describe(&rustix::fs::fstat(&made)?).id);
    Ok((made, id))
}

/// Opens a directory for listing if that is permitted, else only for searching.
fn listed(dir: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    match beneath(dir, Path::new(""), TO_LIST) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(dir.try_clone_to_owned()?),
        done => done,
    }
}

/// Raises the limit of open files as far as permitted; returns it.
pub(crate) fn open_files_most() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised =
        current != maximum && setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
    if raised { maximum } else { current }.unwrap_or(u64::MAX)
}

/// The most bytes that this process may write to a file; `None` without such a limit.
pub(crate) fn file_bytes_most() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Fsize).current
}

/// Returns a path without the last components, as many as `below` has.
fn path_above(path: &Path, below: &Path) -> PathBuf {
    plain(path).ancestors().nth(below.components().count()).unwrap_or(path).to_path_buf()
}

/// Returns a path without dots, which is the key of a root.
fn plain(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != Component::CurDir).collect()
}

impl Disk for SystemDisk {
    fn root(&self, path: &Path, access: Access) -> io::Result<PathBuf> {
        let dir = NamedDir::open_named(path)?;
        let real = dir.real_path()?;
        self.add_root([plain(path), real.clone()], listed(dir.as_fd())?, access);
        Ok(real)
    }

    fn root_through_no_link(&self, path: &Path, access: Access) -> io::Result<()> {
        let top = rustix::fs::open("/", TO_SEARCH | OFlags::CLOEXEC, Mode::empty())?;
        let below = path.strip_prefix("/").map_err(|_| Errno::INVAL)?;
        let dir = beneath(top.as_fd(), below, TO_SEARCH)?;
        self.add_root([plain(path), path.to_path_buf()], listed(dir.as_fd())?, access);
        Ok(())
    }

    fn make_root(&self, path: &Path, mode: u32) -> io::Result<MadeRoot> {
        let path = &if path.as_os_str().is_empty() { PathBuf::from(".") } else { path.to_path_buf() };
        let mut missing: Vec<OsString> = Vec::new();
        let mut above = path.as_path();
        let dir = loop {
            match (NamedDir::open_named(above), above.file_name()) {
                (Err(error), Some(name)) if error.kind() == io::ErrorKind::NotFound => {
                    missing.push(name.to_os_string());
                    above = above.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
                }
                (done, _) => break done?,
            }
        };
        let mut real = dir.real_path()?;
        let mut dir = listed(dir.as_fd())?;
        let mut last = None;
        for (left, name) in missing.into_iter().enumerate().rev() {
            let mode = if left == 0 { mode } else { ROOT_DIR };
            (dir, last) = match make_in(dir.as_fd(), &name, mode) {
                Ok((made, id)) => {
                    let mut all = self.made.lock().unwrap_or_else(PoisonError::into_inner);
                    all.push((plain(path), dir, name.clone()));
                    (made, id)
                }
                // Another process may have created the directory in the meantime.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    (beneath(dir.as_fd(), Path::new(&name), TO_LIST)?, None)
                }
                Err(error) => return Err(error),
            };
            real.push(name);
        }
        self.add_root([plain(path), real.clone()], dir, Access::Write);
        Ok(MadeRoot { path: real, made: last })
    }

    fn unmake_root(&self, path: &Path) {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let path = plain(path);
        let (ours, others) = made.drain(..).partition(|(root, ..)| *root == path);
        *made = others;
        let ours: Vec<(PathBuf, OwnedFd, OsString)> = ours;
        // From the innermost directory outwards; a directory with content is not removed.
        for (_, dir, name) in ours.iter().rev() {
            let _ = rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR);
        }
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = self.open_file(path, Access::Read, TO_READ)?;
        Ok(Box::new(SystemFile { file, created: None }))
    }

    fn open_write(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = self.open_file(path, Access::Write, TO_WRITE)?;
        Ok(Box::new(SystemFile { file, created: None }))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let (dir, name) = self.at(path, Access::Write)?;
        match rustix::fs::unlinkat(&dir, &name, AtFlags::empty()) {
            Err(error) if error != Errno::NOENT => return Err(error.into()),
            _ => {}
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&dir, &name, flags, Mode::from_raw_mode(0o600))?;
        Ok(Box::new(SystemFile { file: File::from(file), created: Some((dir, name)) }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ((dir, old), (new_dir, new)) = (self.at(from, Access::Write)?, self.at(to, Access::Write)?);
        rustix::fs::renameat(&dir, &old, &new_dir, &new)?;
        self.forget(from);
        self.forget(to);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let (dir, name) = self.at(path, Access::Write)?;
        Ok(rustix::fs::unlinkat(&dir, &name, AtFlags::empty())?)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        Ok(rustix::fs::fsync(self.open_at(path, Access::Write, TO_LIST)?)?)
    }

    fn open_system(&self, dir: &Path) -> io::Result<Box<dyn DiskSystem>> {
        match syncfs_tells() {
            true => Ok(Box::new(FileSystem(self.open_at(dir, Access::Read, TO_LIST)?))),
            false => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        if self.meta(path).is_ok_and(|meta| meta.kind == MetaKind::Dir) {
            return Ok(());
        }
        let (dir, name) = self.at(path, Access::Write)?;
        Ok(rustix::fs::mkdirat(&dir, &name, Mode::from_raw_mode(0o777))?)
    }

    fn make_private_dir(&self, path: &Path) -> io::Result<FileId> {
        let (dir, name) = self.at(path, Access::Write)?;
        let (_, made) = make_in(dir.as_fd(), &name, PRIVATE_DIR)?;
        let id = made.ok_or_else(|| io::Error::other("another directory took its place just now"))?;
        self.forget(path);
        self.know(path, id)?;
        Ok(id)
    }

    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let dir = self.open_at(path, Access::Write, TO_LIST)?;
        Ok(Box::new(SystemFile { file: File::from(dir), created: None }))
    }

    fn add_name(&self, path: &Path, name: &Path) -> io::Result<()> {
        let (dir, old) = self.at(path, Access::Write)?;
        let (to, new) = self.at(name, Access::Write)?;
        Ok(rustix::fs::linkat(&dir, &old, &to, &new, AtFlags::empty())?)
    }

    fn make_link(&self, target: &Path, path: &Path, (mtime, owner): Dress) -> io::Result<()> {
        let (dir, name) = self.at(path, Access::Write)?;
        rustix::fs::symlinkat(target, &dir, &name)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = rustix::fs::openat(&dir, &name, flags, Mode::empty()).map(SystemSeen);
        let is_it = |made: &SystemSeen| {
            let is_own =
                made.meta().is_ok_and(|made| made.kind == MetaKind::Symlink && crate::disk::is_own(&made));
            is_own && made.target().is_ok_and(|to| to == target)
        };
        if let Some(SystemSeen(made)) = made.ok().filter(is_it) {
            let _ = rustix::fs::utimensat(&made, "", &modified(mtime), AtFlags::EMPTY_PATH);
            if let Some((owner, group)) = owner {
                let (owner, group) = (Some(Uid::from_raw(owner)), Some(Gid::from_raw(group)));
                // Only root can change the owner.
                let _ = rustix::fs::chownat(&made, "", owner, group, AtFlags::EMPTY_PATH);
            }
        }
        Ok(())
    }

    fn set_time(&self, path: &Path, mtime: Timestamp) -> io::Result<()> {
        let seen = self.open_at(path, Access::Write, OFlags::PATH)?;
        match describe(&rustix::fs::fstat(&seen)?).kind {
            MetaKind::Dir => Ok(rustix::fs::utimensat(&seen, "", &modified(mtime), AtFlags::EMPTY_PATH)?),
            // Files of other kinds may belong to other users, or have another name elsewhere.
            MetaKind::Symlink | MetaKind::File | MetaKind::Other => Err(Errno::INVAL.into()),
        }
    }

    fn look(&self, path: &Path) -> io::Result<Box<dyn Seen>> {
        let (root, below) = self.find(path, Access::Read)?;
        let seen = match below.as_os_str().is_empty() {
            true => beneath(root.as_fd(), &below, OFlags::PATH)?,
            false => {
                let (dir, name) = self.at_to_look(path)?;
                beneath(dir.as_fd(), Path::new(&name), OFlags::PATH)?
            }
        };
        let found = describe(&rustix::fs::fstat(&seen)?);
        if found.kind == MetaKind::Dir {
            self.know(path, found.id)?;
        }
        Ok(Box::new(SystemSeen(seen)))
    }

    fn meta(&self, path: &Path) -> io::Result<Meta> {
        let (root, below) = self.find(path, Access::Read)?;
        if below.as_os_str().is_empty() {
            return Ok(describe(&rustix::fs::fstat(&root)?));
        }
        let (dir, name) = self.at_to_look(path)?;
        let found = describe(&rustix::fs::statat(&dir, &name, AtFlags::SYMLINK_NOFOLLOW)?);
        if found.kind == MetaKind::Dir {
            self.know(path, found.id)?;
        }
        Ok(found)
    }

    fn way(&self, path: &Path) -> io::Result<Vec<Meta>> {
        let (root, below) = self.find(path, Access::Read)?;
        let mut dir = beneath(root.as_fd(), Path::new(""), OFlags::PATH)?;
        let mut way = Vec::new();
        let mut path = path_above(path, &below);
        for name in below.components() {
            let flags = TO_SEARCH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let next = rustix::fs::openat(&dir, name.as_os_str(), flags, Mode::empty())?;
            way.push(describe(&rustix::fs::fstat(&dir)?));
            dir = next;
            path.push(name);
            self.know(&path, describe(&rustix::fs::fstat(&dir)?).id)?;
        }
        way.push(describe(&rustix::fs::fstat(&dir)?));
        Ok(way)
    }

    fn lock(&self, dir: &Path) -> io::Result<Option<Box<dyn Held>>> {
        const TRIES_MOST: usize = 10;
        // A command that only checks the lock holds it briefly, so the lock is tried again after a
        // pause.
        const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);
        let (root, below) = self.find(dir, Access::Write)?;
        let dir = beneath(root.as_fd(), &below, TO_SEARCH)?;
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let anew = flags | OFlags::CREATE | OFlags::EXCL;
        let busy = || Err(io::ErrorKind::WouldBlock.into());
        let before = changed(&dir);
        for _ in 0..TRIES_MOST {
            let file = match rustix::fs::openat(&dir, LOCK, anew, Mode::from_raw_mode(0o600)) {
                Ok(file) => {
                    pantile_paths::give_to_owner(file.as_fd(), dir.as_fd());
                    Ok(file)
                }
                Err(Errno::EXIST) => rustix::fs::openat(&dir, LOCK, flags, Mode::empty()),
                Err(error) => Err(error),
            };
            let file = match file {
                Ok(file) => file,
                // Another command removed the lock file in the meantime.
                Err(Errno::NOENT) => continue,
                // The lock file is of another user's command, which runs or was killed.
                Err(Errno::ACCESS | Errno::PERM)
                    if rustix::fs::statat(&dir, LOCK, AtFlags::SYMLINK_NOFOLLOW).is_ok() =>
                {
                    return busy();
                }
                Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let there = describe(&rustix::fs::fstat(&file)?);
            if there.kind != MetaKind::File {
                return Err(io::Error::other(format!("what is called {LOCK} there is no file; remove it")));
            }
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    std::thread::sleep(PAUSE);
                    continue;
                }
                // The file system has no locks.
                Err(_) => {}
            }
            // The holder may have removed the lock file just before.
            let now = rustix::fs::statat(&dir, LOCK, AtFlags::SYMLINK_NOFOLLOW);
            if now.is_ok_and(|now| describe(&now).id == there.id) {
                let changed = before.zip(changed(&dir));
                return Ok(Some(Box::new(LockFile { dir, _file: file, changed })));
            }
        }
        busy()
    }

    fn is_locked(&self, dir: &Path) -> bool {
        let Ok((root, below)) = self.find(dir, Access::Read) else { return false };
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let Ok(file) = beneath(root.as_fd(), &below.join(LOCK), flags) else { return false };
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
    }

    fn umask(&self) -> u32 {
        pantile_paths::umask()
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let stat = rustix::fs::fstatvfs(self.open_at(path, Access::Read, TO_LIST)?)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

/// True if `syncfs` reports failed writes: since Linux 5.8. Earlier it always succeeds.
fn syncfs_tells() -> bool {
    const SINCE: (u32, u32) = (5, 8);
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= SINCE
}

impl DiskSystem for FileSystem {
    fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.0)?)
    }
}

impl SystemFile {
    /// Returns the directory in which the file was created, its name there if it still has that,
    /// and the new name.
    fn renaming<'a>(&'a self, path: &'a Path) -> io::Result<(&'a OwnedFd, &'a OsStr, &'a OsStr)> {
        let (Some((dir, old)), Some(new)) = (&self.created, path.file_name()) else {
            return Err(Errno::INVAL.into());
        };
        let there = describe(&rustix::fs::statat(dir, old, AtFlags::SYMLINK_NOFOLLOW)?);
        match there.id == self.meta()?.id {
            true => Ok((dir, old, new)),
            false => Err(io::Error::other("another file took its place just now")),
        }
    }
}

/// Renames a file to a free name, on a file system that cannot check and rename in one step.
fn rename_after_a_look(dir: &OwnedFd, old: &OsStr, new: &OsStr) -> io::Result<()> {
    match rustix::fs::statat(dir, new, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Err(Errno::EXIST.into()),
        Err(Errno::NOENT) => Ok(rustix::fs::renameat(dir, old, dir, new)?),
        Err(error) => Err(error.into()),
    }
}

impl DiskFile for SystemFile {
    fn read_at(&self, mut bytes: &mut [u8], mut offset: u64) -> io::Result<usize> {
        let mut total = 0;
        while !bytes.is_empty() {
            match self.file.read_at(bytes, offset) {
                Ok(0) => break,
                Ok(read) => {
                    total += read;
                    offset += read as u64;
                    bytes = &mut bytes[read..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(total)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    fn write_back(&self) -> io::Result<()> {
        match rustix::fs::fdatasync(&self.file) {
            // The file system has nothing to write back.
            Err(Errno::INVAL | Errno::ROFS | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(()),
            done => Ok(done?),
        }
    }

    fn meta(&self) -> io::Result<Meta> {
        Ok(describe(&rustix::fs::fstat(&self.file)?))
    }

    fn is_stored(&self, at: u64, len: u64) -> bool {
        // This moves the file position, which has no effect: everything is read at an offset.
        rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Hole(at))
            .map_or(true, |hole| hole >= at.saturating_add(len))
    }

    fn set_meta(&self, mode: u32, mtime: Timestamp) -> io::Result<()> {
        rustix::fs::fchmod(&self.file, Mode::from_raw_mode(mode))?;
        Ok(rustix::fs::futimens(&self.file, &modified(mtime))?)
    }

    fn attributes(&self) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let names = |buffer: &mut Vec<u8>| rustix::fs::flistxattr(&self.file, spare_capacity(buffer));
        let value = |name: &[u8], buffer: &mut Vec<u8>| {
            rustix::fs::fgetxattr(&self.file, name, spare_capacity(buffer))
        };
        attributes_by(names, value)
    }

    fn set_attribute(&self, name: &[u8], value: Option<&[u8]>) -> io::Result<()> {
        match value {
            Some(value) => Ok(rustix::fs::fsetxattr(&self.file, name, value, XattrFlags::empty())?),
            None => Ok(rustix::fs::fremovexattr(&self.file, name)?),
        }
    }

    fn set_owner(&self, owner: u32, group: u32) -> io::Result<()> {
        std::os::unix::fs::fchown(&self.file, Some(owner), Some(group))
    }

    fn give_name(&self, path: &Path) -> io::Result<()> {
        let (dir, old, new) = self.renaming(path)?;
        Ok(rustix::fs::renameat(dir, old, dir, new)?)
    }

    fn give_free_name(&self, path: &Path) -> io::Result<()> {
        let (dir, old, new) = self.renaming(path)?;
        match rustix::fs::renameat_with(dir, old, dir, new, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS) => rename_after_a_look(dir, old, new),
            done => Ok(done?),
        }
    }

    fn discard(&self) -> io::Result<()> {
        let (dir, name) = self.created.as_ref().ok_or(Errno::INVAL)?;
        let there = describe(&rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?);
        match there.id == self.meta()?.id {
            true => Ok(rustix::fs::unlinkat(dir, name, AtFlags::empty())?),
            false => Err(io::Error::other("another file took its place just now")),
        }
    }

    fn beside(&self, name: Option<&OsStr>) -> io::Result<Box<dyn Seen>> {
        let (dir, _) = self.created.as_ref().ok_or(Errno::INVAL)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let seen = rustix::fs::openat(dir, name.unwrap_or(OsStr::new(".")), flags, Mode::empty())?;
        Ok(Box::new(SystemSeen(seen)))
    }
}

impl Seen for SystemSeen {
    fn meta(&self) -> io::Result<Meta> {
        Ok(describe(&rustix::fs::fstat(&self.0)?))
    }

    /// An `O_PATH` descriptor gives no attributes, but its path in `/proc` does, without the right
    /// to read.
    fn attributes(&self) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let path = format!("/proc/self/fd/{}", self.0.as_raw_fd());
        let names = |buffer: &mut Vec<u8>| rustix::fs::listxattr(&path, spare_capacity(buffer));
        let value =
            |name: &[u8], buffer: &mut Vec<u8>| rustix::fs::getxattr(&path, name, spare_capacity(buffer));
        attributes_by(names, value)
    }

    fn names(&self) -> io::Result<Vec<PathBuf>> {
        names_in(rustix::fs::openat(&self.0, ".", TO_LIST | OFlags::CLOEXEC, Mode::empty())?)
    }

    fn target(&self) -> io::Result<PathBuf> {
        let to = rustix::fs::readlinkat(&self.0, "", Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(to.into_bytes())))
    }

    fn is_of_kernel(&self) -> bool {
        crate::links::is_of_kernel(&self.0)
    }
}

/// Returns all attributes that these two queries can read.
fn attributes_by(
    names: impl Fn(&mut Vec<u8>) -> rustix::io::Result<usize>,
    value: impl Fn(&[u8], &mut Vec<u8>) -> rustix::io::Result<usize>,
) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    // The largest list that the system returns at once.
    const MOST_BYTES: usize = 64 << 10;
    let mut list = Vec::with_capacity(MOST_BYTES);
    match names(&mut list) {
        Ok(_) => {}
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    }
    let mut all = Vec::new();
    for name in list.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        let mut bytes = Vec::with_capacity(MOST_BYTES);
        match value(name, &mut bytes) {
            Ok(_) => all.push((name.to_vec(), bytes.as_slice().to_vec())),
            // The attribute was removed in the meantime, or is private.
            Err(Errno::NODATA | Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(all)
}

/// True for an empty directory: a directory with content is not the new one.
fn is_empty(made: &OwnedFd) -> io::Result<bool> {
    let listed = rustix::fs::openat(made, ".", TO_LIST | OFlags::CLOEXEC, Mode::empty())?;
    Ok(names_in(listed)?.is_empty())
}

/// The names in a directory, sorted.
fn names_in(dir: OwnedFd) -> io::Result<Vec<PathBuf>> {
    let mut names = Vec::new();
    for entry in Dir::new(dir)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            names.push(PathBuf::from(name));
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Returns the mtime of a directory.
fn changed(dir: &OwnedFd) -> Option<Timestamp> {
    rustix::fs::fstat(dir).ok().map(|stat| describe(&stat).mtime)
}

fn modified(mtime: Timestamp) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
        last_modification: Timespec { tv_sec: mtime.seconds, tv_nsec: mtime.nanos.into() },
    }
}

pub(crate) fn describe(stat: &Stat) -> Meta {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => MetaKind::Dir,
        FileType::RegularFile => MetaKind::File,
        FileType::Symlink => MetaKind::Symlink,
        _ => MetaKind::Other,
    };
    #[allow(clippy::unnecessary_cast, reason = "some processors have 32 bits there")]
    let names = stat.st_nlink as u64;
    Meta {
        names,
        kind,
        size: stat.st_size as u64,
        mode: stat.st_mode & 0o7777,
        mtime: Timestamp { seconds: stat.st_mtime, nanos: stat.st_mtime_nsec as u32 },
        ctime: Timestamp { seconds: stat.st_ctime, nanos: stat.st_ctime_nsec as u32 },
        id: FileId { device: stat.st_dev, inode: stat.st_ino },
        owner: stat.st_uid,
        group: stat.st_gid,
    }
}

#[cfg(test)]
mod tests;
