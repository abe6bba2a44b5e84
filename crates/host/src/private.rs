//! Files and sockets that only their owner may open, from the moment that they are there and
//! whatever the umask says.
//!
//! A lock that others may open is a lock that others may take: `flock` asks for no more than a
//! descriptor. So the lock of a volume and the log of its server, which is locked as long as
//! anybody serves, are files of mode 0600. Those of a volume that was made by an older program get
//! that mode when their owner opens them.

use crate::FolderError;
use crate::folder::CONFIG;
use rustix::fs::OFlags;
use std::fs::{DirBuilder, File, Metadata, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

const OWNER_ALONE: u32 = 0o600;

/// Whether somebody else than the user who runs this and root may choose what a file or folder
/// holds.
fn is_of_another(found: &Metadata) -> bool {
    let me = rustix::process::geteuid().as_raw();
    // Groups of ordinary users are what they have made them; the group of root is root's.
    let by_group = me == 0 && found.gid() != 0 && found.mode() & 0o020 != 0;
    (found.uid() != 0 && found.uid() != me) || found.mode() & 0o002 != 0 || by_group
}

/// Refuses to write in the folder of a volume whose devices somebody else may choose: a device that
/// is made anew may be any file of whoever serves it, and a lock or log another name of any file.
///
/// Errors: `OfAnother`. What is not there is nobody's.
pub fn refuse_if_of_another(root: &Path) -> Result<(), FolderError> {
    for path in [root.to_path_buf(), root.join(CONFIG)] {
        if let Some(found) = std::fs::metadata(&path).ok().filter(is_of_another) {
            return Err(FolderError::OfAnother { path, owner: found.uid() });
        }
    }
    Ok(())
}

/// Opens a file to read it, through no link. A pipe in its place keeps nobody waiting.
pub(crate) fn open_to_read(path: &Path) -> std::io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(std::io::Error::new(ErrorKind::InvalidInput, "it is no file")),
    }
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
