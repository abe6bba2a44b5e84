//! Files that a command makes for its user.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Writes a file whole or not at all: into another beside it, which then takes its name.
///
/// A link stays a link. What is no file, such as a device, and a link that leads to nothing have no
/// content to lose.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let before = match std::fs::metadata(path) {
        Ok(meta) if !meta.is_file() => return std::fs::write(path, bytes),
        Err(_) if path.is_symlink() => return std::fs::write(path, bytes),
        other => other.ok(),
    };
    let path = match before {
        Some(_) => path.canonicalize()?,
        None => path.to_path_buf(),
    };
    let temp = path.with_file_name(format!(".pantile-{}.tmp", std::process::id()));
    let written = File::create_new(&temp).and_then(|mut file| {
        file.write_all(bytes)?;
        if let Some(before) = before {
            file.set_permissions(before.permissions())?;
        }
        file.sync_all()
    });
    let done = written.and_then(|()| std::fs::rename(&temp, &path));
    if done.is_err() {
        // Best effort: the error at hand says more than a second one would.
        let _ = std::fs::remove_file(&temp);
    }
    done
}
