//! Configuration of a volume's folder: the paths of its devices, in a file of lines that
//! docs/volume-folder.md describes.

use crate::FolderError;
use pantile_format::volume::VolumeId;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The first line of the file.
const CONFIG_MAGIC: &str = "pantile volume 1";

/// Most spares: as many as a volume can have devices.
pub(crate) const SPARES_MAX: usize = 256;

/// Most former devices that are listed.
const FORMER_MAX: usize = 64;

/// Devices of a volume and their paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The volume.
    pub volume: VolumeId,
    /// The device of each slot, if it has one. Relative paths are within the folder.
    pub devices: BTreeMap<u32, Place>,
    /// By slot, the new device that replaces a working one when its copy is complete.
    pub replacing: BTreeMap<u32, PathBuf>,
    /// By slot, devices that were declared failed and are not replaced yet: an opening does not use
    /// them.
    pub failed: BTreeMap<u32, PathBuf>,
    /// Devices that were replaced, the oldest first: reports of past events show their paths.
    pub former: Vec<Former>,
    /// Slots whose device became a member as the copy of a working one, and has not been verified
    /// completely by its checksums since.
    pub verifying: BTreeSet<u32>,
    /// Spares: devices that replace a lost one.
    pub spares: Vec<PathBuf>,
    /// Bytes a second that rebuild and scrub may read and write.
    pub throttle_bytes_per_s: Option<u64>,
}

/// A device that was replaced by another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Former {
    /// The slot.
    pub slot: u32,
    /// The time of the replacement, in seconds since 1970.
    pub until: i64,
    /// Its path.
    pub path: PathBuf,
}

/// A device in a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its path.
    pub path: PathBuf,
    /// True if the device was assigned to the slot and can still be blank.
    pub joining: bool,
}

impl Config {
    /// Removes the device of a slot and records it as declared failed.
    pub(crate) fn declare_failed(&mut self, slot: u32) {
        if let Some(place) = self.devices.remove(&slot) {
            self.failed.insert(slot, place.path);
        }
    }

    /// Assigns a device to a slot, in place of the present one.
    pub(crate) fn give(&mut self, slot: u32, place: Place) {
        self.failed.retain(|&one, path| one != slot && *path != place.path);
        self.devices.insert(slot, place);
    }

    /// Assigns a new device to a slot. `now`: seconds since 1970.
    pub(crate) fn give_new(&mut self, slot: u32, place: Place, now: i64) {
        let before = self.path_of(slot).filter(|path| **path != place.path).cloned();
        self.former.extend(before.map(|path| Former { slot, until: now, path }));
        self.former.drain(..self.former.len().saturating_sub(FORMER_MAX));
        self.give(slot, place);
    }

    /// Returns the path of the device of a slot, or of the one that was declared failed in it.
    pub fn path_of(&self, slot: u32) -> Option<&PathBuf> {
        let place = self.devices.get(&slot).map(|place| &place.path);
        place.or_else(|| self.failed.get(&slot))
    }

    /// Returns the text of the file. Errors: a path that would not be read back unchanged.
    pub(crate) fn text(&self) -> Result<String, FolderError> {
        if self.spares.len() > SPARES_MAX {
            return Err(FolderError::TooManySpares);
        }
        let mut text = format!("{CONFIG_MAGIC}\nid {}\n", self.volume);
        for (slot, place) in &self.devices {
            let word = if place.joining { "joining" } else { "device" };
            text.push_str(&format!("{word} {slot} {}\n", one_line(&place.path)?));
        }
        for (slot, path) in &self.replacing {
            text.push_str(&format!("replacing {slot} {}\n", one_line(path)?));
        }
        for (slot, path) in &self.failed {
            text.push_str(&format!("failed {slot} {}\n", one_line(path)?));
        }
        for Former { slot, until, path } in &self.former {
            text.push_str(&format!("former {slot} {until} {}\n", one_line(path)?));
        }
        for slot in &self.verifying {
            text.push_str(&format!("verifying {slot}\n"));
        }
        for path in &self.spares {
            text.push_str(&format!("spare {}\n", one_line(path)?));
        }
        if let Some(rate) = self.throttle_bytes_per_s {
            text.push_str(&format!("throttle {rate}\n"));
        }
        Ok(text)
    }

    pub(crate) fn parse(path: &Path, text: &str) -> Result<Config, FolderError> {
        let wrong = |line, expected| FolderError::Config { path: path.to_path_buf(), line, expected };
        let mut lines = (1..).zip(text.lines());
        if lines.next().is_none_or(|(_, line)| line != CONFIG_MAGIC) {
            return Err(wrong(1, "'pantile volume 1'"));
        }
        let mut volume = None;
        let mut config = Config {
            volume: VolumeId([0; 16]),
            devices: BTreeMap::new(),
            replacing: BTreeMap::new(),
            failed: BTreeMap::new(),
            former: Vec::new(),
            verifying: BTreeSet::new(),
            spares: Vec::new(),
            throttle_bytes_per_s: None,
        };
        for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "id" => {
                    volume =
                        Some(parse_id(rest).ok_or(wrong(number, "a volume id of 32 hexadecimal digits"))?)
                }
                "device" | "joining" => {
                    let expected = "'device NUMBER PATH', each number once, 0 to 255";
                    let (slot, path) = rest.split_once(' ').ok_or(wrong(number, expected))?;
                    let slot = slot.parse().ok().filter(|slot| *slot < 256).ok_or(wrong(number, expected))?;
                    let place = Place { path: path.into(), joining: word == "joining" };
                    if path.is_empty() || config.devices.insert(slot, place).is_some() {
                        return Err(wrong(number, expected));
                    }
                }
                "replacing" | "failed" => {
                    let (expected, paths) = match word {
                        "failed" => ("'failed NUMBER PATH', each number once, 0 to 255", &mut config.failed),
                        _ => ("'replacing NUMBER PATH', each number once, 0 to 255", &mut config.replacing),
                    };
                    let (slot, path) = rest.split_once(' ').ok_or(wrong(number, expected))?;
                    let slot = slot.parse().ok().filter(|slot| *slot < 256).ok_or(wrong(number, expected))?;
                    if path.is_empty() || paths.insert(slot, path.into()).is_some() {
                        return Err(wrong(number, expected));
                    }
                }
                "former" => {
                    let expected = "'former NUMBER SECONDS PATH', at most 64";
                    let former = parse_former(rest).ok_or(wrong(number, expected))?;
                    if config.former.len() >= FORMER_MAX {
                        return Err(wrong(number, expected));
                    }
                    config.former.push(former);
                }
                "verifying" => {
                    let slot = rest.parse().ok().filter(|slot| *slot < 256);
                    config.verifying.insert(slot.ok_or(wrong(number, "'verifying NUMBER', 0 to 255"))?);
                }
                // A second line with the same spare changes nothing.
                "spare" if config.spares.iter().any(|spare| spare.as_os_str() == rest) => {}
                "spare" if config.spares.len() >= SPARES_MAX => {
                    return Err(wrong(number, "no more than 256 spares"));
                }
                "spare" if !rest.is_empty() => config.spares.push(rest.into()),
                "throttle" => {
                    let rate = rest.parse().ok().filter(|rate| *rate > 0);
                    config.throttle_bytes_per_s =
                        Some(rate.ok_or(wrong(number, "a number of bytes a second"))?);
                }
                _ => {
                    return Err(wrong(
                        number,
                        "id, device, joining, replacing, verifying, failed, former, spare, throttle or a comment",
                    ));
                }
            }
        }
        config.volume = volume.ok_or(wrong(1, "a line 'id' with the volume's id"))?;
        Ok(config)
    }
}

pub(crate) fn one_line(path: &Path) -> Result<&str, FolderError> {
    let text = path.to_str().filter(|text| !text.contains(['\n', '\r']) && !text.is_empty());
    text.ok_or_else(|| FolderError::Path { path: path.to_path_buf() })
}

fn parse_former(text: &str) -> Option<Former> {
    let (slot, rest) = text.split_once(' ')?;
    let (until, path) = rest.split_once(' ')?;
    let slot = slot.parse().ok().filter(|slot| *slot < 256)?;
    (!path.is_empty()).then_some(Former { slot, until: until.parse().ok()?, path: path.into() })
}

fn parse_id(text: &str) -> Option<VolumeId> {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
    let mut id = [0; 16];
    if digits.len() != 32 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    for (byte, pair) in id.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(VolumeId(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_read_back_and_nonsense_is_refused() {
        let place = |path: &str, joining| Place { path: path.into(), joining };
        let config = Config {
            volume: VolumeId([0xab; 16]),
            devices: [(0, place("device-00.pantile", false)), (3, place("/dev/disk with spaces", true))]
                .into(),
            replacing: [(0, "new disk".into())].into(),
            failed: [(1, "/dev/old disk".into())].into(),
            former: vec![Former { slot: 2, until: 1_700_000_000, path: "/dev/older disk".into() }],
            verifying: [3, 7].into(),
            spares: vec!["/dev/spare".into()],
            throttle_bytes_per_s: Some(5000),
        };
        let text = config.text().expect("paths of one line");
        assert_eq!(Config::parse(Path::new("c"), &text), Ok(config.clone()));
        for (from, to) in [
            ("pantile volume 1", "pantile volume 2"),
            ("abababab-", "xbababab-"),
            ("device 0 ", "device 256 "),
            ("device 0 device", "device 3 device"),
            ("replacing 0 new", "replacing 256 new"),
            ("replacing 0 new disk", "replacing 0"),
            ("former 2 ", "former 256 "),
            ("former 2 1700000000 /dev/older disk", "former 2 1700000000"),
            ("failed 1 ", "failed 256 "),
            ("failed 1 /dev/old disk", "failed 1"),
            ("verifying 7", "verifying 256"),
            ("throttle 5000", "throttle 0"),
            ("spare /dev/spare", "spare"),
            ("spare", "spar"),
        ] {
            let wrong = text.replacen(from, to, 1);
            assert_ne!(wrong, text, "{from}");
            assert!(matches!(Config::parse(Path::new("c"), &wrong), Err(FolderError::Config { .. })), "{to}");
        }
        let spares = |most: usize| (0..most).map(|i| format!("spare /dev/{i}\n")).collect::<String>();
        let read = |text: String| Config::parse(Path::new("c"), &text);
        let spare = "spare /dev/spare\n";
        let named = read(text.replace(spare, &spares(256).repeat(2))).expect("each counts once");
        assert_eq!(named.spares.len(), 256);
        assert!(matches!(read(text.replace(spare, &spares(257))), Err(FolderError::Config { .. })));
        let full = |most: u32| Config {
            spares: (0..most).map(|i| format!("{i}").into()).collect(),
            ..config.clone()
        };
        assert!(full(256).text().is_ok());
        assert_eq!(full(257).text(), Err(FolderError::TooManySpares));
        let config = Config { spares: vec!["a\nb".into()], ..config };
        assert!(matches!(config.text(), Err(FolderError::Path { .. })));
    }
}
