//! Access to directories and files that a user names, and to names beneath these directories.
//!
//! (a) Files of other people are read and written only beneath directories that the user named. (b)
//! Another user who exchanges names or plants links beneath such a directory cannot redirect a
//! command out of it. (c) Locks, logs, sockets and temporary files have mode 0600. No other attack
//! is defended here.
//!
//! A path that the user names is resolved once, by the kernel, with all links: [`Dir::open_named`],
//! [`open_named`]. Beneath a [`Dir`] all access uses its descriptor, in one call of `openat2` that
//! follows no link, or name by name if the kernel or a sandbox lacks that call.
//!
//! Not here, on purpose: refusals because of other owners. [`other_writer`] is for a warning, and
//! [`formatting_is_mine`] for whole devices only.

#![forbid(unsafe_code)]

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, ResolveFlags, openat, openat2, unlinkat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The mode of files that only their owner may access.
const OWNER_ALONE: u32 = 0o600;

/// The longest name that is repeated in its temporary name; the system's limit is 255 bytes.
const NAME_BYTES_MOST: usize = 200;

/// Flags of a directory that is opened to be searched.
pub const TO_SEARCH: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);
/// Flags of a directory that is opened to be listed.
pub const TO_LIST: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);
/// Flags of a file that is opened to be read: a pipe does not block, and a terminal does not become
/// the controlling one.
pub const TO_READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
/// Flags of a file that is opened to be read and written; otherwise like [`TO_READ`].
pub const TO_WRITE: OFlags = OFlags::RDWR.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// An open directory, and the path by which the user named it. Clones share the descriptor.
#[derive(Clone, Debug)]
pub struct Dir {
    fd: Arc<OwnedFd>,
    path: PathBuf,
}

impl Dir {
    /// Opens the directory that a user names. The kernel follows every link on the way.
    ///
    /// Errors: `NotADirectory` for anything else.
    pub fn open_named(path: &Path) -> io::Result<Dir> {
        let name = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let fd = openat(CWD, name, TO_SEARCH | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Dir { fd: Arc::new(fd), path: path.to_path_buf() })
    }

    /// Opens the directory that a user names. It and the directories above it are made if they are
    /// missing.
    pub fn make_named(path: &Path) -> io::Result<Dir> {
        match Dir::open_named(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let mut builder = std::fs::DirBuilder::new();
                std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o755);
                builder.recursive(true).create(path)?;
                Dir::open_named(path)
            }
            done => done,
        }
    }

    /// Opens the directory that contains a file that a user names, and returns the file's name
    /// there.
    ///
    /// Errors: `InvalidInput` for a path that ends with no name.
    pub fn around(path: &Path) -> io::Result<(Dir, OsString)> {
        let name = path.file_name().ok_or(ErrorKind::InvalidInput)?.to_os_string();
        Ok((Dir::open_named(path.parent().unwrap_or(Path::new("")))?, name))
    }

    /// Returns the path by which the user named it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its path without links, as the kernel knows it now.
    pub fn real_path(&self) -> io::Result<PathBuf> {
        let path = if self.path.as_os_str().is_empty() { Path::new(".") } else { &self.path };
        let by_fd = Path::new("/proc/self/fd").join(self.fd.as_raw_fd().to_string());
        std::fs::read_link(by_fd).or_else(|_| path.canonicalize())
    }

    /// Returns a name in the directory as a path, in the way in which the user named the directory.
    pub fn called(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    /// Returns a path by which this process reaches a name in the directory, for calls that accept
    /// only paths. It is short enough for a socket, and valid while a clone of this value exists.
    pub fn at(&self, name: impl AsRef<Path>) -> PathBuf {
        Path::new("/proc/self/fd").join(self.fd.as_raw_fd().to_string()).join(name)
    }

    /// Returns the metadata of the directory.
    pub fn metadata(&self) -> io::Result<Metadata> {
        File::from(self.fd.as_fd().try_clone_to_owned()?).metadata()
    }

    /// Returns the metadata of a name in the directory; a link is not followed.
    pub fn look(&self, name: impl AsRef<Path>) -> io::Result<Metadata> {
        File::from(self.open(name, OFlags::PATH)?).metadata()
    }

    /// Opens a path beneath the directory without following links. With `PATH` a link at the end is
    /// opened itself.
    pub fn open(&self, below: impl AsRef<Path>, flags: OFlags) -> io::Result<OwnedFd> {
        beneath(self.as_fd(), below.as_ref(), flags)
    }

    /// Opens a regular file beneath the directory for reading.
    ///
    /// Errors: `InvalidInput` for anything but a regular file.
    pub fn open_file(&self, below: impl AsRef<Path>) -> io::Result<File> {
        regular(self.open(below, TO_READ)?.into())
    }

    /// Opens a directory beneath the directory.
    pub fn open_dir(&self, below: impl AsRef<Path>) -> io::Result<Dir> {
        let fd = self.open(&below, TO_SEARCH)?;
        Ok(Dir { fd: Arc::new(fd), path: self.called(below) })
    }

    /// Makes a directory in the directory with this mode, less the umask, and opens it.
    ///
    /// Errors: `AlreadyExists`.
    pub fn make_dir(&self, name: impl AsRef<Path>, mode: u32) -> io::Result<Dir> {
        rustix::fs::mkdirat(&self.fd, name.as_ref(), Mode::from_raw_mode(mode))?;
        self.open_dir(name)
    }

    /// Opens a file in the directory for reading and writing by its owner alone. It is made if it
    /// is missing; if it exists, the rights of others are removed, if this user may do that.
    ///
    /// A file that root makes is given to the owner of the directory, who could otherwise not open
    /// it. Errors: `InvalidInput` for anything but a regular file.
    pub fn open_private(&self, name: impl AsRef<Path>, append: bool) -> io::Result<File> {
        let name = name.as_ref();
        let mode = Mode::from_raw_mode(OWNER_ALONE);
        let flags = TO_WRITE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let flags = if append { flags | OFlags::APPEND } else { flags };
        let file = match openat(&self.fd, name, flags | OFlags::CREATE | OFlags::EXCL, mode) {
            Ok(file) => {
                give_to_owner(file.as_fd(), self.as_fd());
                file
            }
            Err(Errno::EXIST) => openat(&self.fd, name, flags, Mode::empty())?,
            Err(error) => return Err(error.into()),
        };
        let file = regular(file.into())?;
        let mode = file.metadata()?.mode() & 0o777;
        if mode & !OWNER_ALONE != 0 {
            match rustix::fs::fchmod(&file, Mode::from_raw_mode(mode & OWNER_ALONE)) {
                // The file belongs to another user, and this user may write to it. Only its owner
                // can change its mode.
                Err(Errno::PERM) => {}
                done => done?,
            }
        }
        Ok(file)
    }

    /// Begins a new file, which gets this name when it is finished.
    pub fn create(&self, name: impl AsRef<OsStr>) -> io::Result<NewFile> {
        NewFile::create(self, name.as_ref())
    }

    /// Lists the names in the directory, sorted.
    pub fn list(&self) -> io::Result<Vec<OsString>> {
        let entries = std::fs::read_dir(self.at("."))?;
        let mut names = entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
        names.sort_unstable();
        Ok(names)
    }

    /// Removes a name in the directory that is not a directory.
    pub fn remove(&self, name: impl AsRef<Path>) -> io::Result<()> {
        Ok(unlinkat(&self.fd, name.as_ref(), AtFlags::empty())?)
    }

    /// Removes an empty directory in the directory.
    pub fn remove_dir(&self, name: impl AsRef<Path>) -> io::Result<()> {
        Ok(unlinkat(&self.fd, name.as_ref(), AtFlags::REMOVEDIR)?)
    }

    /// Makes the names in the directory durable.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(self.open(".", TO_LIST)?)?)
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A file under a temporary name, mode 0600, that gets its name at the end or is removed.
#[derive(Debug)]
pub struct NewFile {
    dir: Dir,
    file: File,
    temp: OsString,
    name: OsString,
}

impl NewFile {
    fn create(dir: &Dir, name: &OsStr) -> io::Result<NewFile> {
        let mut temp = OsString::from(".");
        if name.len() <= NAME_BYTES_MOST {
            temp.push(name);
            temp.push(".");
        }
        temp.push(format!("pantile-{}.tmp", std::process::id()));
        match unlinkat(dir, &temp, AtFlags::empty()) {
            Err(error) if error != Errno::NOENT => return Err(error.into()),
            _ => {}
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(dir, &temp, flags, Mode::from_raw_mode(OWNER_ALONE))?;
        Ok(NewFile { dir: dir.clone(), file: file.into(), temp, name: name.to_os_string() })
    }

    /// Returns the open file, to be written.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the permission bits of this user's file that the new one would replace. Without such
    /// a file, those of a new file under the umask.
    pub fn usual_mode(&self) -> u32 {
        let own = |found: &Metadata| found.is_file() && found.uid() == rustix::process::geteuid().as_raw();
        let before = self.dir.look(&self.name).ok().filter(own);
        before.map_or_else(|| 0o666 & !umask(), |before| before.mode() & 0o777)
    }

    /// Gives the file to the owner of its directory, if root made it there.
    pub fn give_to_owner(&self) {
        give_to_owner(self.file.as_fd(), self.dir.as_fd());
    }

    /// Sets the permission bits of the file and gives it its name. If `replaces`, an existing file
    /// of that name is replaced.
    ///
    /// Errors: `AlreadyExists`. If the file system has no rename that refuses to replace, a file
    /// that gets the name between the check and the rename is replaced.
    pub fn finish(self, mode: u32, replaces: bool) -> io::Result<()> {
        let (dir, temp, name) = (&self.dir, self.temp.as_os_str(), self.name.as_os_str());
        rustix::fs::fchmod(&self.file, Mode::from_raw_mode(mode))?;
        if replaces {
            return Ok(rustix::fs::renameat(dir, temp, dir, name)?);
        }
        match rustix::fs::renameat_with(dir, temp, dir, name, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS) => match dir.look(name) {
                Ok(_) => Err(ErrorKind::AlreadyExists.into()),
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    Ok(rustix::fs::renameat(dir, temp, dir, name)?)
                }
                Err(error) => Err(error),
            },
            done => Ok(done?),
        }
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for NewFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // The temporary name is gone if the file has its final name. Best effort: an earlier error
        // says more.
        let _ = unlinkat(&self.dir, &self.temp, AtFlags::empty());
    }
}

/// Opens a path beneath a directory without following links. With `PATH` a link at the end is
/// opened itself; an empty path is the directory.
pub fn beneath(dir: BorrowedFd<'_>, below: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    const TRIES_MOST: usize = 100;
    let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..TRIES_MOST {
        match openat2(dir, below, flags, Mode::empty(), resolve) {
            // The kernel could not decide, since a name on the way was exchanged at that moment.
            Err(Errno::AGAIN | Errno::INTR | Errno::XDEV) => {}
            Err(Errno::NOSYS | Errno::PERM) => return walked(dir, below, flags),
            done => return Ok(done?),
        }
    }
    Err(Errno::XDEV.into())
}

/// Does the same as [`beneath`], name by name.
fn walked(dir: BorrowedFd<'_>, below: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let mut dir = dir.try_clone_to_owned()?;
    let mut parts = below.components().peekable();
    while let Some(part) = parts.next() {
        use std::path::Component::{CurDir, Normal};
        if !matches!(part, CurDir | Normal(_)) {
            return Err(Errno::XDEV.into());
        }
        let here = match parts.peek() {
            Some(_) => TO_SEARCH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            None => flags,
        };
        dir = openat(&dir, part.as_os_str(), here, Mode::empty())?;
    }
    Ok(dir)
}

/// Opens a file that a user names, for reading. The kernel follows every link on the way.
///
/// Errors: `InvalidInput` for anything but a regular file; a pipe does not block.
pub fn open_named(path: &Path) -> io::Result<File> {
    regular(openat(CWD, path, TO_READ | OFlags::CLOEXEC, Mode::empty())?.into())
}

fn regular(file: File) -> io::Result<File> {
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(ErrorKind::InvalidInput, "it is no regular file")),
    }
}

/// Returns the umask: the permission bits that the system removes from every file that this process
/// makes.
pub fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    // Without that line, reading the umask requires setting it. It is set to the narrowest one, so
    // that files made meanwhile have too few rights, not too many.
    line.and_then(|bits| u32::from_str_radix(bits.trim(), 8).ok()).unwrap_or_else(|| {
        let umask = rustix::process::umask(Mode::from_raw_mode(0o077));
        rustix::process::umask(umask);
        umask.as_raw_mode()
    })
}

/// Checks that devices that a directory names may be formatted. The directory must belong to this
/// user, to root or to the user who called `sudo`; git applies the same rule to a repository.
///
/// Errors: the number of the owner.
pub fn formatting_is_mine(dir: &Metadata) -> Result<(), u32> {
    let me = rustix::process::geteuid().as_raw();
    let by_sudo = std::env::var("SUDO_UID").ok().filter(|_| me == 0).and_then(|user| user.parse().ok());
    let is_mine = [0, me].contains(&dir.uid()) || Some(dir.uid()) == by_sudo;
    if is_mine { Ok(()) } else { Err(dir.uid()) }
}

/// Returns a text about the users that can write to a directory beside its owner and root; for a
/// warning.
pub fn other_writer(owner: u32, group: u32, mode: u32) -> Option<String> {
    const BY_ALL: u32 = 0o002;
    const BY_GROUP: u32 = 0o020;
    let (me, my_group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if mode & BY_ALL != 0 {
        return Some("every user".into());
    }
    if owner != me && owner != 0 {
        return Some(format!("user {owner}"));
    }
    (mode & BY_GROUP != 0 && group != my_group).then(|| format!("group {group}"))
}

/// Gives a file that root made in a directory of another user to that user. Best effort.
pub fn give_to_owner(file: BorrowedFd<'_>, dir: BorrowedFd<'_>) {
    if let Ok(dir) = rustix::fs::fstat(dir)
        && rustix::process::geteuid().is_root()
        && dir.st_uid != 0
    {
        let _ = std::os::unix::fs::fchown(file, Some(dir.st_uid), Some(dir.st_gid));
    }
}

#[cfg(test)]
mod tests;
