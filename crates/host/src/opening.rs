//! Opening of the devices of volumes; it waits for a process that has just closed them. The kernel
//! resolves their paths, including links.
//!
//! Not here: checks of owners, and of the content of devices.

use crate::timely::{PATIENCE, open_within};
use pantile_device::{
    Access, Device, DeviceError, Identity, OpenOptions, ServerAddress, is_server, open_device,
};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest wait for another process to close devices.
pub(crate) const CLOSING: Duration = Duration::from_secs(3);

/// Longest wait for the examination of a path.
const DESCRIBING: Duration = Duration::from_secs(3);

/// Returns the identity of the file, block device or export at a path; `None` if it is none of
/// them.
pub(crate) fn identity_at(path: &Path) -> Option<Identity> {
    if is_server(path) {
        return ServerAddress::parse(path).ok().map(|address| address.identity());
    }
    let found = std::fs::metadata(path).ok()?;
    let kind = found.file_type();
    match () {
        () if kind.is_file() => Some(Identity::File { device: found.dev(), inode: found.ino() }),
        () if kind.is_block_device() => Some(Identity::Block { device: found.rdev() }),
        () => None,
    }
}

/// Returns the identity of the file or block device at a path; `None` if it is neither, or if its
/// file system does not answer.
pub(crate) fn identity_soon(path: &Path) -> Option<Identity> {
    open_within(path, DESCRIBING, |path| Ok(identity_at(path))).ok().flatten()
}

/// Opens a device, and waits until a deadline for a process that has it open. A device that was
/// just given up takes a moment to be closed, and pending requests of a killed process keep its
/// devices open. Without the wait these devices would count as lost and be rebuilt.
///
/// Errors: if the device hangs, that of a device that is gone.
pub(crate) fn open_soon(path: &Path, until: Instant) -> Result<Arc<dyn Device>, DeviceError> {
    open_as(path, Access::ReadWrite, until)
}

/// Does the same as [`open_soon`], but read-only if the device cannot be written.
pub(crate) fn open_to_look(path: &Path, until: Instant) -> Result<Arc<dyn Device>, DeviceError> {
    match open_soon(path, until) {
        Err(DeviceError::ReadOnly { .. } | DeviceError::NotThere { .. }) => {
            open_as(path, Access::ReadOnly, until)
        }
        result => result,
    }
}

/// Opens a device with these rights, and waits until a deadline for a process that has it open.
pub(crate) fn open_as(path: &Path, access: Access, until: Instant) -> Result<Arc<dyn Device>, DeviceError> {
    let options = OpenOptions { access, ..OpenOptions::default() };
    let open = move |path: &Path| loop {
        match open_device(path, options) {
            Err(DeviceError::InUse { .. }) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(5));
            }
            result => return result,
        }
    };
    open_within(path, until.saturating_duration_since(Instant::now()) + PATIENCE, open)
}

/// Returns the length of an export; 0 if it cannot be opened.
pub fn export_len(path: &Path) -> u64 {
    open_as(path, Access::ReadOnly, Instant::now()).map_or(0, |device| device.len_bytes())
}
