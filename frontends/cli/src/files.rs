//! Files that a command makes for its user.

use pantile_format::Timestamp;
use pantile_seal::disk::{Access, Disk, SystemDisk, is_led_to_by_nobody_else, real_path};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Do not follow a link at the end of a path.
const NO_LINK: i32 = 0o400000;

/// Where a file is written that a person names.
pub enum Place {
    /// It is a file, or nothing yet; without links.
    File(PathBuf),
    /// A device or a pipe, or a link that leads to nothing: written to, never replaced.
    Special(PathBuf),
}

/// Where a path leads.
///
/// Errors: `PermissionDenied` for a link that somebody else may have put there.
pub fn place(path: &Path) -> io::Result<Place> {
    match real_path(path) {
        Ok(real) if real.symlink_metadata().is_ok_and(|meta| meta.is_file()) => Ok(Place::File(real)),
        Ok(real) => Ok(Place::Special(real)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
            // Such as /dev/stdout, which leads to a pipe that has no name.
            match is_led_to_by_nobody_else(dir) && path.is_symlink() {
                true => Ok(Place::Special(path.to_path_buf())),
                false => Ok(Place::File(path.to_path_buf())),
            }
        }
        Err(error) => Err(error),
    }
}

/// Writes a file whole or not at all: into another beside it, which then takes its name.
///
/// A link stays a link, and is followed only if nobody else can have put it there. What is no file,
/// such as a device, and a link that leads to nothing have no content to lose.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let path = match place(path)? {
        Place::File(path) => path,
        Place::Special(path) => {
            let flags = if path.is_symlink() { 0 } else { NO_LINK };
            let mut to = std::fs::File::options().write(true).create(true).custom_flags(flags).open(path)?;
            return to.write_all(bytes);
        }
    };
    let disk = SystemDisk::new();
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let dir = disk.root(dir, Access::Write)?;
    let to = dir.join(path.file_name().ok_or(ErrorKind::InvalidInput)?);
    let temp = dir.join(format!(".pantile-{}.tmp", std::process::id()));
    let file = disk.create(&temp)?;
    let mode = to.symlink_metadata().map_or(0o666 & !disk.umask(), |before| before.mode() & 0o777);
    let done = file
        .write_at(bytes, 0)
        .and_then(|()| file.set_meta(mode, now()))
        .and_then(|()| file.sync())
        .and_then(|()| file.give_name(&to));
    if done.is_err() {
        // Best effort: the error at hand says more than a second one would.
        let _ = disk.remove(&temp);
    }
    done
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() }
}
