//! Opening the devices of volumes: through no link of others, and with patience for whoever has just
//! closed them.
//!
//! What it deliberately does not do: ask whose a device is ([`crate::whose`]), or what it holds.

use crate::FolderError;
use crate::timely::{PATIENCE, open_within};
use crate::whose::{identity_at, way_to_look};
use pantile_device::{Access, Device, DeviceError, FileDevice, Identity, OpKind, OpenOptions, Site};
use rustix::io::Errno;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long devices may take to be closed by whoever had them.
pub(crate) const CLOSING: Duration = Duration::from_secs(3);

/// How long a path may take to say what it leads to.
const DESCRIBING: Duration = Duration::from_secs(3);

/// Returns which file or block device a path leads to; `None` if to neither, or if its file system
/// does not answer.
pub(crate) fn identity_soon(path: &Path) -> Option<Identity> {
    open_within(path, DESCRIBING, |path| Ok(identity_at(path))).ok().flatten()
}

/// Opens a device. What others may have put on the way to it is not gone along: who does so shows
/// them what is there.
///
/// Errors: as [`FileDevice::open_with`]; `LinkOfAnother`.
pub fn open_device(path: &Path, options: OpenOptions) -> Result<FileDevice, DeviceError> {
    let at = || Site { device: path.to_path_buf(), op: OpKind::Open, offset_bytes: 0, len_bytes: 0 };
    match way_to_look(path) {
        Ok(Ok(end)) => FileDevice::open_found(&end.file.into(), path, options),
        Ok(Err(errno)) => Err(DeviceError::NotThere { at: at(), errno: errno.raw_os_error() }),
        Err(FolderError::OfAnother { .. }) => Err(DeviceError::LinkOfAnother { at: at() }),
        Err(_) => Err(DeviceError::NotThere { at: at(), errno: Errno::NOENT.raw_os_error() }),
    }
}

/// Opens a device, and waits until a time for whoever has it. One that was just given up takes a
/// moment to be closed, and what a process that was killed had under way keeps its devices open
/// until the system has ended it. Taken for lost meanwhile, they would have to be made again.
///
/// Errors: as of a device that is gone, if it hangs.
pub(crate) fn open_soon(path: &Path, until: Instant) -> Result<Arc<dyn Device>, DeviceError> {
    open_as(path, Access::ReadWrite, until)
}

/// The same to look at it, if it may be that nobody can write to it.
pub(crate) fn open_to_look(path: &Path, until: Instant) -> Result<Arc<dyn Device>, DeviceError> {
    match open_soon(path, until) {
        Err(DeviceError::ReadOnly { .. } | DeviceError::NotThere { .. }) => {
            open_as(path, Access::ReadOnly, until)
        }
        result => result,
    }
}

/// Opens a device to be read or to be written, and waits until a time for whoever has it.
pub(crate) fn open_as(path: &Path, access: Access, until: Instant) -> Result<Arc<dyn Device>, DeviceError> {
    let options = OpenOptions { access, ..OpenOptions::default() };
    open_until(path, until, move |path| open_device(path, options))
}

/// Opens a device in whatever way, and waits until a time for whoever has it.
pub(crate) fn open_until(
    path: &Path,
    until: Instant,
    open: impl Fn(&Path) -> Result<FileDevice, DeviceError> + Send + 'static,
) -> Result<Arc<dyn Device>, DeviceError> {
    let open = move |path: &Path| loop {
        match open(path) {
            Err(DeviceError::InUse { .. }) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(5));
            }
            result => return result.map(|device| Arc::new(device) as Arc<dyn Device>),
        }
    };
    open_within(path, until.saturating_duration_since(Instant::now()) + PATIENCE, open)
}
