//! Files and sockets that only their owner may open, from the moment that they are there and
//! whatever the umask says.
//!
//! A lock that others may open is a lock that others may take: `flock` asks for no more than a
//! descriptor. So the lock of a volume and the log of its server, which is locked as long as
//! anybody serves, are files of mode 0600. Those of a volume that was made by an older program get
//! that mode when their owner opens them.

use crate::FolderError;
use crate::open_dir::OpenDir;
use pantile_trust::Caller;
use rustix::fs::OFlags;
use std::fs::{DirBuilder, File, Metadata, Permissions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

const OWNER_ALONE: u32 = 0o600;

/// The file of a folder that is locked.
pub(crate) const LOCK: &str = "lock";

/// EACCES, EPERM, EROFS.
const CANNOT_WRITE: [i32; 3] = [13, 1, 30];

/// As many links as the system follows.
pub(crate) const LINKS_MOST: usize = 40;

/// Why something is another's.
pub(crate) fn fault(caller: &Caller, path: PathBuf, owner: u32) -> FolderError {
    FolderError::OfAnother { path, owner: Some(owner).filter(|&owner| !caller.trusts(owner)) }
}

/// Refuses to write in the folder of a volume whose devices somebody else may choose: a device that
/// is made anew may be any file of whoever serves it, and a lock or log another name of any file.
///
/// Of root, who may write anywhere, no directory on the way may be another's either.
///
/// Errors: `OfAnother`. What is not there is nobody's yet: whoever writes there opens it, and asks
/// then.
pub fn refuse_if_of_another(root: &Path) -> Result<(), FolderError> {
    match OpenDir::to_write(root) {
        Err(error) if error.is_not_there() => Ok(()),
        done => done.map(drop),
    }
}

/// Why a configuration that was opened is another's, if somebody else may choose what it says.
pub(crate) fn chosen_by(path: &Path, found: &Metadata) -> Option<FolderError> {
    let caller = Caller::or_by_sudo();
    caller.is_of_another(found).then(|| fault(&caller, path.to_path_buf(), found.uid()))
}

/// Opens a file to read it, through no link. A pipe in its place keeps nobody waiting.
pub fn open_to_read(path: &Path) -> std::io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(std::io::Error::new(ErrorKind::InvalidInput, "it is no file")),
    }
}

/// The same of a name in the folder of a volume, to which no link of others leads.
pub fn open_to_read_in(root: &Path, name: &str) -> std::io::Result<File> {
    let dir = OpenDir::to_look(root).map_err(|error| std::io::Error::other(error.to_string()))?;
    open_to_read(&dir.at(name))
}

/// Opens a file for reading and writing, makes it if it is not there, and takes from everybody but
/// its owner what rights they have on it.
///
/// A link is not followed, or whoever may make names in the folder could choose what is locked or
/// written. Errors: what the system says; not that the file is another's, whose mode only its owner
/// can change.
pub fn open_private(path: &Path, append: bool) -> std::io::Result<File> {
    // A pipe in the place of the file must not keep the process waiting.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let mut options = File::options();
    options.create(true).truncate(false).read(true).mode(OWNER_ALONE).custom_flags(flags);
    let file = if append { options.append(true).open(path)? } else { options.write(true).open(path)? };
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(std::io::Error::new(ErrorKind::InvalidInput, "it is no file"));
    }
    let mode = found.mode() & 0o777;
    if mode & !OWNER_ALONE != 0 {
        match file.set_permissions(Permissions::from_mode(mode & OWNER_ALONE)) {
            // Somebody whom the owner lets write to it: the owner will take that back, nobody else
            // may.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {}
            result => result?,
        }
    }
    Ok(file)
}

/// Locks a folder for this process alone.
pub(crate) fn lock(folder: &OpenDir) -> Result<File, FolderError> {
    let path = folder.called(LOCK);
    let file = open_private(&folder.at(LOCK), false);
    let file = file.map_err(|error| FolderError::file("open", &path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(FolderError::Busy { folder: folder.path().to_path_buf() }),
        Err(TryLockError::Error(error)) => Err(FolderError::file("lock", &path, &error)),
    }
}

/// Locks a folder that cannot be written, or that is not to be, beside others that only read: its
/// lock, or `config` where there is none.
///
/// Errors: `error`, if the folder can be written or another process has it.
pub(crate) fn lock_to_read(dir: &OpenDir, config: &str, error: FolderError) -> Result<File, FolderError> {
    match &error {
        FolderError::OfAnother { .. } => {}
        FolderError::File { errno, .. } if CANNOT_WRITE.contains(errno) => {}
        _ => return Err(error),
    }
    let Ok(file) = open_to_read(&dir.at(LOCK)).or_else(|_| open_to_read(&dir.at(config))) else {
        return Err(error);
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(FolderError::Busy { folder: dir.path().to_path_buf() }),
        Err(TryLockError::Error(_)) => Err(error),
    }
}

/// Makes an empty file that is not there yet, for its owner alone; what stands there is removed.
pub(crate) fn create_private(path: &Path) -> std::io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::options().write(true).create_new(true).mode(OWNER_ALONE).open(path)
}

/// Makes a folder that nobody but its owner may write to, whatever the umask says.
pub(crate) fn create_dir(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().mode(0o755).create(path)
}

/// Makes a folder that nobody but its owner may look into, whatever the umask says.
pub(crate) fn create_dir_for_owner(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Listens at a path, in place of whatever stands there, for its owner alone from the start.
///
/// `bind` makes a name before its mode can be set, so the socket is made in a folder that is closed
/// to others and renamed from there. The way there is no longer than `path` if the name that `path`
/// ends with has ten bytes or more.
pub(crate) fn listen_private(path: &Path) -> std::io::Result<UnixListener> {
    let folder = path.with_file_name(".private");
    let aside = folder.join("s");
    let clear = || {
        let _ = std::fs::remove_file(&aside);
        let _ = std::fs::remove_dir(&folder);
    };
    // One that a process left behind that was killed between two of these steps.
    clear();
    DirBuilder::new().mode(0o700).create(&folder)?;
    let made = UnixListener::bind(&aside).and_then(|listener| {
        std::fs::set_permissions(&aside, Permissions::from_mode(OWNER_ALONE))?;
        std::fs::rename(&aside, path)?;
        Ok(listener)
    });
    clear();
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever made it chooses which of a person's own volumes she takes a device out of.
    #[test]
    fn a_link_of_another_user_names_no_volume() {
        let folder = tempfile::tempdir().expect("a folder");
        let (volume, link) = (folder.path().join("volume"), folder.path().join("link"));
        create_dir(&volume).expect("a folder");
        std::os::unix::fs::symlink(&volume, &link).expect("a link");
        let maker = volume.metadata().expect("it is there").uid();
        let asked = |caller: u32| OpenDir::to_write_as(&Caller::of(caller), &link).map(drop);
        assert_eq!(asked(maker), Ok(()));
        // What root made is trusted by all.
        assert_eq!(asked(if maker == 0 { 0 } else { maker + 1 }).is_ok(), maker == 0);
        if maker == 0 {
            std::os::unix::fs::lchown(&link, Some(1000), None).expect("it is root");
            let refused = FolderError::OfAnother { path: link.clone(), owner: Some(1000) };
            assert_eq!(asked(1001), Err(refused));
            assert_eq!(asked(1000), Ok(()));
        }
    }
}
