//! Links that the user put in the place of shards: they are followed.

use crate::disk::{Access, Disk, MetaKind};
use crate::set::names::parent;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Returns a path without links, as the kernel resolves it.
pub(crate) fn kernel_path(path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path)
}

/// True for a file or directory in `/proc`, by which the kernel shows the open files of processes.
pub(crate) fn is_of_kernel(seen: &OwnedFd) -> bool {
    rustix::fs::fstatfs(seen).is_ok_and(|system| system.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

/// The most links that the system follows.
const LINKS_MOST: usize = 40;

/// Returns where a path below a root leads: the path itself, or the target of its links, which may
/// be missing. The directories of targets become roots for reading.
///
/// Errors: `PermissionDenied` for a link of the kernel, such as those below `/proc/self/fd`.
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
            // If the directory is missing, so is the target.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => path = to,
        }
    }
    Err(io::Error::other("its links lead in a circle"))
}
