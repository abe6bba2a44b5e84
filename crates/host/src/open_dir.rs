//! Directories that are held open: what is done in one is done in that very directory, whatever has
//! its name by then.
//!
//! A path that was looked at leads elsewhere as soon as another user exchanges a name on it, or
//! makes one that was not there. So whoever writes in the folder of a volume walks to it once
//! ([`crate::whose`]), asks of the directory that is open whose it is, and from then on names only
//! what lies in it, through the descriptor.

use crate::FolderError;
use crate::folder::CONFIG;
use crate::private::{create_dir, fault};
use crate::whose::way_to;
use pantile_trust::Caller;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, unlinkat};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A directory that is open, and what it was called.
#[derive(Debug)]
pub(crate) struct OpenDir {
    path: PathBuf,
    dir: File,
}

impl OpenDir {
    /// Opens the folder of a volume to write in it.
    ///
    /// Errors: `OfAnother` if somebody else may choose the devices of the volume: by a link or,
    /// with root, a name on the way, or by writing to the folder or its configuration. `File` if it
    /// is not there or no directory.
    pub(crate) fn to_write(path: &Path) -> Result<OpenDir, FolderError> {
        OpenDir::to_write_as(&Caller::or_by_sudo(), path)
    }

    pub(crate) fn to_write_as(caller: &Caller, path: &Path) -> Result<OpenDir, FolderError> {
        let folder = OpenDir::walked_to(caller, path)?;
        folder.refuse_if_of_another(caller)?;
        Ok(folder)
    }

    /// Opens a directory only to look at what is in it, by whatever way.
    pub(crate) fn to_look(path: &Path) -> std::io::Result<OpenDir> {
        let dir = File::from(openat(CWD, path, DIRECTORY, Mode::empty())?);
        Ok(OpenDir { path: path.to_path_buf(), dir })
    }

    /// Opens the directory in which something has its name, or is to get it; and that name, if the
    /// path ends with one.
    fn around(caller: &Caller, path: &Path) -> Result<Option<(OpenDir, OsString)>, FolderError> {
        let absolute = std::path::absolute(path).map_err(|error| FolderError::file("find", path, &error))?;
        let (Some(above), Some(name)) = (absolute.parent(), absolute.file_name()) else { return Ok(None) };
        let above = OpenDir::walked_to(caller, above)?;
        let found = above.found()?;
        if caller.is_root() && caller.names_may_be_exchanged(&found) {
            return Err(fault(caller, above.path, found.uid()));
        }
        Ok(Some((above, name.to_os_string())))
    }

    fn walked_to(caller: &Caller, path: &Path) -> Result<OpenDir, FolderError> {
        let failed = |error: ErrorKind| {
            let errno = if error == ErrorKind::NotFound { NOT_FOUND } else { NOT_A_DIRECTORY };
            FolderError::file("open", path, &std::io::Error::from_raw_os_error(errno))
        };
        let absolute = std::path::absolute(path).map_err(|error| FolderError::file("find", path, &error))?;
        let end = way_to(caller, &absolute)?.ok_or_else(|| failed(ErrorKind::NotFound))?;
        match end.found.is_dir() {
            true => Ok(OpenDir { path: path.to_path_buf(), dir: end.file }),
            false => Err(failed(ErrorKind::NotADirectory)),
        }
    }

    fn found(&self) -> Result<Metadata, FolderError> {
        self.dir.metadata().map_err(|error| FolderError::file("look at", &self.path, &error))
    }

    /// Errors: `OfAnother` if somebody else may write to it, or to the configuration in it.
    pub(crate) fn refuse_if_of_another(&self, caller: &Caller) -> Result<(), FolderError> {
        let found = self.found()?;
        if caller.is_of_another(&found) {
            return Err(fault(caller, self.path.clone(), found.uid()));
        }
        match std::fs::metadata(self.at(CONFIG)).ok().filter(|found| caller.is_of_another(found)) {
            Some(found) => Err(fault(caller, self.called(CONFIG), found.uid())),
            None => Ok(()),
        }
    }

    /// What a name in it is called for people.
    pub(crate) fn called(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    /// A path by which this process reaches a name in it, short enough for a socket.
    pub(crate) fn at(&self, name: impl AsRef<Path>) -> PathBuf {
        Path::new("/proc/self/fd").join(self.dir.as_raw_fd().to_string()).join(name)
    }

    /// Makes the names in it durable.
    pub(crate) fn sync(&self) -> std::io::Result<()> {
        File::open(self.at("."))?.sync_all()
    }

    /// Whether nothing is in it.
    fn is_empty(&self) -> std::io::Result<bool> {
        Ok(std::fs::read_dir(self.at("."))?.next().is_none())
    }
}

impl AsFd for OpenDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

/// ENOENT and ENOTDIR.
const NOT_FOUND: i32 = 2;
const NOT_A_DIRECTORY: i32 = 20;

/// The folder of a volume that is being made.
pub(crate) struct NewDir {
    pub(crate) folder: Arc<OpenDir>,
    /// Where it was made, if it was not there.
    made: Option<(OpenDir, OsString)>,
}

impl NewDir {
    /// Makes a folder, or opens one that is empty.
    ///
    /// Errors: `NotEmpty`; as [`OpenDir::to_write`].
    pub(crate) fn make(path: &Path) -> Result<NewDir, FolderError> {
        let caller = Caller::or_by_sudo();
        if let Some((above, name)) = OpenDir::around(&caller, path)? {
            match create_dir(&above.at(&name)) {
                Ok(()) => return NewDir::made(&caller, path, (above, name)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(FolderError::file("make", path, &error)),
            }
        }
        let folder = OpenDir::to_write_as(&caller, path)?;
        match folder.is_empty() {
            Ok(true) => Ok(NewDir { folder: Arc::new(folder), made: None }),
            Ok(false) => Err(FolderError::NotEmpty { folder: path.to_path_buf() }),
            Err(error) => Err(FolderError::file("read", path, &error)),
        }
    }

    /// Opens what was made. Another may stand there by now, where others may exchange names.
    fn made(caller: &Caller, path: &Path, above: (OpenDir, OsString)) -> Result<NewDir, FolderError> {
        let flags = DIRECTORY | OFlags::NOFOLLOW;
        let dir = openat(&above.0, &above.1, flags, Mode::empty());
        let dir = File::from(dir.map_err(|error| FolderError::file("open", path, &error.into()))?);
        let folder = OpenDir { path: path.to_path_buf(), dir };
        folder.refuse_if_of_another(caller)?;
        match folder.is_empty() {
            Ok(true) => Ok(NewDir { folder: Arc::new(folder), made: Some(above) }),
            _ => Err(FolderError::NotEmpty { folder: path.to_path_buf() }),
        }
    }

    /// Removes it again, if it was made and nothing is in it.
    pub(crate) fn unmake(&self) {
        if let Some((above, name)) = &self.made {
            let _ = unlinkat(above, name, AtFlags::REMOVEDIR);
        }
    }
}

/// Why a socket cannot be made at a path.
#[derive(Debug)]
pub enum SocketFault {
    /// Something else stands there.
    NoSocket,
    /// Somebody listens there.
    InUse,
    /// The way leads through what others may exchange, or the system says no.
    Folder(FolderError),
}

/// Removes a socket that a server left behind when it was killed, in the directory that the way
/// leads to: links of others are not followed, and nobody exchanges what is removed.
pub fn remove_dead_socket(path: &Path) -> Result<(), SocketFault> {
    let around = OpenDir::around(&Caller::or_by_sudo(), path).map_err(SocketFault::Folder)?;
    let Some((above, name)) = around else { return Err(SocketFault::NoSocket) };
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(seen) = openat(&above, &name, flags, Mode::empty()).map(File::from) else { return Ok(()) };
    let is_socket = |file: &File| file.metadata().is_ok_and(|found| found.file_type().is_socket());
    if !is_socket(&seen) {
        return Err(SocketFault::NoSocket);
    }
    if UnixStream::connect(above.at(&name)).is_ok() {
        return Err(SocketFault::InUse);
    }
    remove_seen(&above, &name, &seen)
        .map_err(|error| SocketFault::Folder(FolderError::file("remove", path, &error)))
}

/// Removes a name that still is what was seen.
fn remove_seen(above: &OpenDir, name: &OsStr, seen: &File) -> std::io::Result<()> {
    let (now, seen) = (std::fs::symlink_metadata(above.at(name))?, seen.metadata()?);
    if (now.dev(), now.ino()) != (seen.dev(), seen.ino()) {
        return Err(std::io::Error::other("another file took its place just now"));
    }
    Ok(unlinkat(above, name, AtFlags::empty())?)
}
