//! Links that the user put in the place of shards: they are followed.

use crate::disk::{Access, Disk, MetaKind};
use crate::set::names::parent;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// A path without links, as the kernel follows them.
pub(crate) fn kernel_path(path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path)
}

/// True for a file or directory by which the kernel shows the open files of processes.
pub(crate) fn is_of_kernel(seen: &OwnedFd) -> bool {
    rustix::fs::fstatfs(seen).is_ok_and(|system| system.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

/// The most links that the system follows.
const LINKS_MOST: usize = 40;

/// Where a path below a root leads: to itself, or along its links to a file that may not be there.
/// The directories that links lead to become roots to be read.
///
/// Errors: `PermissionDenied` for a link of the kernel's, such as those below `/proc/self/fd`.
pub(crate) fn resolve(disk: &dyn Disk, path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..LINKS_MOST {
        let Ok(link) = disk.look(&path) else { return Ok(path) };
        if link.meta()?.kind != MetaKind::Symlink {
            return Ok(path);
        }
        if link.is_of_kernel() {
            let why = "it is a link of the kernel's to what is open; name the file itself";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        let to = parent(&path).join(link.target()?);
        match disk.root(&parent(&to), Access::Read) {
            // In a missing directory the target is missing, too.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => path = to,
        }
    }
    Err(io::Error::other("its links lead in a circle"))
}
