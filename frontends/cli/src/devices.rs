//! Devices of a volume by number, by path, or by the last part of the path.

use crate::failure::Failure;
use crate::sets;
use crate::volumes;
use pantile_host::{Answer, Config, Folder, Order, absolute_path, is_server, order_within, path_in};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

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
        let found = number_in(&config, root, path).or_else(lost).or_else(|| number_in_status(root, path));
        found.ok_or_else(|| {
            let (given, vol) = (sets::name(&path.to_string_lossy()), sets::quoted(root));
            Failure::Input(format!("{given} is no device of {vol}; 'pantile status {vol}' lists its devices"))
        })
    }
}

/// Returns the two paths that a name can mean: as it is, and in the folder of the volume.
pub fn places_of(root: &Path, name: &Path) -> [PathBuf; 2] {
    [name.to_path_buf(), path_in(root, name)]
}

/// Longest wait for file systems to say where paths lead, and for a server to name its devices.
const PATIENCE: Duration = Duration::from_secs(3);

/// Returns the number of the device at a path; `None` if no line of the folder's configuration
/// names it, or if the last part of several does.
///
/// Devices of slots count before those that were declared failed.
pub fn number_in(config: &Config, root: &Path, path: &Path) -> Option<u32> {
    let devices = config.devices.iter().map(|(&slot, place)| (slot, path_in(root, &place.path)));
    let failed = config.failed.iter().map(|(&slot, path)| (slot, path_in(root, path)));
    number_of(devices.chain(failed).collect(), path)
}

/// Returns the number of the device that the server of a volume names by a path.
fn number_in_status(root: &Path, path: &Path) -> Option<u32> {
    let Ok(Some(Answer::Status(report))) = order_within(root, &Order::Status, PATIENCE) else { return None };
    let known = report.devices.into_iter().filter_map(|device| Some((device.device, device.path?)));
    number_of(known.map(|(slot, at)| (slot, path_in(root, &at))).collect(), path)
}

/// Returns the number of the device at a path, or of the only one with such a last part.
fn number_of(known: Vec<(u32, PathBuf)>, path: &Path) -> Option<u32> {
    let paths = known.iter().map(|(_, at)| at.clone()).collect();
    if let Some(same) = same_path(paths, path) {
        return known.iter().find(|(_, at)| *at == same).map(|(slot, _)| *slot);
    }
    let mut by_name = known.iter().filter(|(_, at)| at.file_name() == Some(path.as_os_str()));
    let found = by_name.next()?;
    by_name.next().is_none().then_some(found.0)
}

/// Returns the first of some paths that is a given one: by its text, or by where both lead, also if
/// nothing is there. A file system that hangs is waited for [`PATIENCE`] at most.
pub fn same_path(known: Vec<PathBuf>, path: &Path) -> Option<PathBuf> {
    let absolute = |path: &Path| absolute_path(path).ok();
    if let Some(same) = known.iter().find(|one| absolute(one) == absolute(path)) {
        return Some(same.clone());
    }
    if is_server(path) {
        return None;
    }
    let (told, answer) = channel();
    let path = path.to_path_buf();
    // Each path has a thread of its own, so that one that hangs holds up no other.
    for one in known.into_iter().filter(|one| !is_server(one)).map(Some).chain([None]) {
        let (told, at) = (told.clone(), one.clone().unwrap_or_else(|| path.clone()));
        std::thread::spawn(move || drop(told.send((one, resolved(&at, LINKS_MAX)))));
    }
    drop(told);
    let until = Instant::now() + PATIENCE;
    let (mut wanted, mut seen) = (None, Vec::new());
    while let Ok((one, at)) = answer.recv_timeout(until.saturating_duration_since(Instant::now())) {
        match one {
            Some(one) => seen.push((one, at)),
            None => wanted = Some(at),
        }
        let same = seen.iter().find(|(_, at)| Some(at) == wanted.as_ref());
        if let Some((one, _)) = same {
            return Some(one.clone());
        }
    }
    None
}

/// Longest chain of links that is followed, as in the system.
const LINKS_MAX: usize = 40;

/// Returns where a path leads: its links are followed, as far as they are there.
fn resolved(path: &Path, links_left: usize) -> PathBuf {
    if let Ok(real) = std::fs::canonicalize(path) {
        return real;
    }
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let Some(folder) = path.parent() else { return path };
    if let (Ok(link), true) = (std::fs::read_link(&path), links_left > 0) {
        return resolved(&folder.join(link), links_left - 1);
    }
    let folder = resolved(folder, links_left);
    match path.file_name() {
        Some(name) => folder.join(name),
        None => folder.parent().map_or(folder.clone(), Path::to_path_buf),
    }
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

    #[test]
    fn a_path_is_known_by_where_it_leads_also_if_nothing_is_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("disks")).expect("a folder");
        for (link, to) in [("link", "disks/gone"), ("again", "link"), ("folder", "disks"), ("loop", "loop")] {
            std::os::unix::fs::symlink(to, at(link)).expect("a link");
        }
        let known = vec![at("disks/other"), at("loop"), at("disks/gone")];
        for same in ["disks/gone", "link", "again", "folder/gone", "disks/../disks/gone"] {
            assert_eq!(same_path(known.clone(), &at(same)), Some(at("disks/gone")), "{same}");
        }
        assert_eq!(same_path(known.clone(), &at("gone")), None);
        assert_eq!(same_path(known, &at("loop")), Some(at("loop")));
        assert_eq!(same_path(vec![at("again")], &at("folder/gone")), Some(at("again")));
    }
}
