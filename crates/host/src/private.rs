//! The lock, the log and the sockets of a folder: files that only their owner can open, from their
//! creation on and with any umask.
//!
//! Every user who can open a lock file can take the lock: `flock` needs only a descriptor. So the
//! lock of a volume, and the log of its server, which is locked while it serves, have mode 0600
//! ([`Dir::open_private`]).

use crate::FolderError;
use pantile_paths::Dir;
use rustix::fs::OFlags;
use std::fs::{File, Permissions, TryLockError};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

const OWNER_ALONE: u32 = 0o600;

/// The file of a folder that is locked.
pub(crate) const LOCK: &str = "lock";

/// EACCES, EPERM, EROFS.
const CANNOT_WRITE: [i32; 3] = [13, 1, 30];

/// Locks a folder for this process alone.
pub(crate) fn lock(folder: &Dir) -> Result<File, FolderError> {
    let path = folder.called(LOCK);
    let file = folder.open_private(LOCK, false);
    let file = file.map_err(|error| FolderError::file("open", &path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(FolderError::Busy { folder: folder.path().to_path_buf() }),
        Err(TryLockError::Error(error)) => Err(FolderError::file("lock", &path, &error)),
    }
}

/// Locks a folder that cannot be written, together with other read-only servers: locks its lock
/// file, or `config` if it has none.
///
/// Errors: `error`, if the folder can be written or another process has locked it.
pub(crate) fn lock_to_read(folder: &Dir, config: &str, error: FolderError) -> Result<File, FolderError> {
    match &error {
        FolderError::File { errno, .. } if CANNOT_WRITE.contains(errno) => {}
        _ => return Err(error),
    }
    let Ok(file) = folder.open_file(LOCK).or_else(|_| folder.open_file(config)) else {
        return Err(error);
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(FolderError::Busy { folder: folder.path().to_path_buf() }),
        Err(TryLockError::Error(_)) => Err(error),
    }
}

/// Listens at a name in a folder, only for its owner from the beginning. An older socket is
/// replaced.
///
/// `bind` creates the name before its mode can be set. So the socket is made in a folder that is
/// closed to others, and moved from there. A user who can write to `folder` can exchange that inner
/// folder, so it is accessed only by its descriptor.
pub(crate) fn listen_private(folder: &Dir, name: &str) -> std::io::Result<UnixListener> {
    const ASIDE: &str = ".private";
    const SOCKET: &str = "s";
    let clear = || match folder.open_dir(ASIDE) {
        Ok(aside) => {
            let _ = aside.remove(SOCKET);
            let _ = folder.remove_dir(ASIDE);
        }
        // A symbolic link, which is not followed.
        Err(_) => drop(folder.remove(ASIDE)),
    };
    // A killed process can have left the inner folder behind.
    clear();
    let aside = folder.make_dir(ASIDE, 0o700)?;
    let found = aside.metadata()?;
    if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o077 != 0 {
        return Err(Error::other("another directory took the place of .private just now"));
    }
    let made = UnixListener::bind(aside.at(SOCKET)).and_then(|listener| {
        std::fs::set_permissions(aside.at(SOCKET), Permissions::from_mode(OWNER_ALONE))?;
        std::fs::rename(aside.at(SOCKET), folder.at(name))?;
        Ok(listener)
    });
    let _ = aside.remove(SOCKET);
    let _ = folder.remove_dir(ASIDE);
    made
}

/// Reason why no socket can be made at a path.
#[derive(Debug)]
pub enum SocketFault {
    /// The name is not that of a socket.
    NoSocket,
    /// A process listens at this socket.
    InUse,
    /// The system refused an operation.
    Folder(FolderError),
}

/// Removes a socket that a server left behind when it was killed.
pub fn remove_dead_socket(path: &Path) -> Result<(), SocketFault> {
    let failed = |error: Error| SocketFault::Folder(FolderError::file("remove", path, &error));
    let (folder, name) = Dir::around(path).map_err(failed)?;
    let id = |found: std::fs::Metadata| (found.dev(), found.ino());
    // It is held open until the end, so that its inode number is not reused.
    let seen = match folder.open(&name, OFlags::PATH) {
        Ok(seen) => File::from(seen),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    let found = seen.metadata().map_err(failed)?;
    if !found.file_type().is_socket() {
        return Err(SocketFault::NoSocket);
    }
    if UnixStream::connect(folder.at(&name)).is_ok() {
        return Err(SocketFault::InUse);
    }
    if folder.look(&name).map(id).map_err(failed)? != id(found) {
        return Err(failed(Error::other("another file took its place just now")));
    }
    folder.remove(&name).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::write;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_in_the_place_of_the_private_folder_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let elsewhere = tempfile::tempdir().expect("a folder");
        let precious = elsewhere.path().join("s");
        write(&precious, "precious").expect("it writes");
        symlink(elsewhere.path(), folder.path().join(".private")).expect("a link");
        let dir = Dir::open_named(folder.path()).expect("it opens");
        let listener = listen_private(&dir, "control.sock").expect("it listens");
        assert_eq!(std::fs::read(&precious).expect("it is there"), b"precious");
        let socket = folder.path().join("control.sock");
        assert_eq!(std::fs::metadata(&socket).expect("a socket").mode() & 0o777, OWNER_ALONE);
        assert!(UnixStream::connect(&socket).is_ok() && listener.local_addr().is_ok());
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing is left");
    }

    #[test]
    fn only_a_socket_without_a_listener_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("nbd.sock");
        let removed = || remove_dead_socket(&socket);
        assert!(removed().is_ok(), "there is none");
        drop(UnixListener::bind(&socket).expect("it listens"));
        assert!(removed().is_ok() && !socket.exists());
        let live = UnixListener::bind(&socket).expect("it listens");
        assert!(matches!(removed(), Err(SocketFault::InUse)));
        drop(live);
        let elsewhere = folder.path().join("elsewhere");
        std::fs::rename(&socket, &elsewhere).expect("it is moved");
        symlink(&elsewhere, &socket).expect("a link");
        assert!(matches!(removed(), Err(SocketFault::NoSocket)), "a link");
        std::fs::remove_file(&socket).expect("it goes");
        write(&socket, "precious").expect("it writes");
        assert!(matches!(removed(), Err(SocketFault::NoSocket)), "a file");
        assert!(socket.is_file() && elsewhere.exists());
    }
}
