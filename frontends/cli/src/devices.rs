//! Devices of a volume by number, by path, or by the last part of the path.

use crate::failure::Failure;
use crate::sets;
use crate::volumes;
use pantile_host::{Config, Folder, absolute_path, path_in};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A device of a volume: its number, as `pantile status` shows it, or its path or name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceName {
    /// The number of the device.
    Number(u32),
    /// The path of the device, or the last part of it.
    Path(PathBuf),
}

impl From<OsString> for DeviceName {
    fn from(text: OsString) -> DeviceName {
        let digits = text.to_str().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        match digits.and_then(|digits| digits.parse().ok()) {
            Some(number) => DeviceName::Number(number),
            None => DeviceName::Path(text.into()),
        }
    }
}

impl DeviceName {
    /// Returns the number of the device in the volume of a folder.
    ///
    /// Errors: the folder is no volume, or the volume has no such device.
    pub fn number(&self, root: &Path) -> Result<u32, Failure> {
        let path = match self {
            DeviceName::Number(number) => return Ok(*number),
            DeviceName::Path(path) => path,
        };
        if !volumes::is_volume(root) && volumes::is_volume(path) {
            return Err(Failure::Input(format!(
                "the volume is named first, then its device: {} {}",
                sets::quoted(path),
                sets::quoted(root)
            )));
        }
        let config = Folder::named_in(root).map_err(|error| volumes::failure(&error))?;
        let lost = || places_of(root, path).iter().find_map(|place| Folder::lost_slot_of(root, place));
        number_in(&config, root, path).or_else(lost).ok_or_else(|| {
            let (given, vol) = (sets::name(&path.to_string_lossy()), sets::quoted(root));
            Failure::Input(format!("{given} is no device of {vol}; 'pantile status {vol}' lists its devices"))
        })
    }
}

/// Returns the two paths that a name can mean: as it is, and in the folder of the volume.
pub fn places_of(root: &Path, name: &Path) -> [PathBuf; 2] {
    [name.to_path_buf(), path_in(root, name)]
}

/// Returns the number of the device at a path; `None` if no line of the folder's configuration
/// names it, or if the last part of several does.
pub fn number_in(config: &Config, root: &Path, path: &Path) -> Option<u32> {
    let known = || config.devices.iter().map(|(&slot, place)| (slot, path_in(root, &place.path)));
    let same = |slot_at: &(u32, PathBuf)| is_same(&slot_at.1, path);
    if let Some((slot, _)) = known().find(same) {
        return Some(slot);
    }
    let mut by_name = known().filter(|(_, at)| at.file_name() == Some(path.as_os_str()));
    let found = by_name.next()?;
    by_name.next().is_none().then_some(found.0)
}

/// True if two paths are equal, or are links below /dev to the same device. Other paths are not
/// examined: a file system that hangs would block the command.
fn is_same(one: &Path, other: &Path) -> bool {
    let absolute = |path: &Path| absolute_path(path).ok();
    let real = |path: &Path| path.starts_with("/dev").then(|| std::fs::canonicalize(path).ok()).flatten();
    absolute(one) == absolute(other) || real(one).is_some_and(|one| Some(one) == real(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_a_number_and_all_else_a_path() {
        for (text, name) in [
            ("3", DeviceName::Number(3)),
            ("/dev/sdb", DeviceName::Path("/dev/sdb".into())),
            ("sdb", DeviceName::Path("sdb".into())),
            ("99999999999", DeviceName::Path("99999999999".into())),
            ("+3", DeviceName::Path("+3".into())),
        ] {
            assert_eq!(DeviceName::from(OsString::from(text)), name);
        }
    }
}
