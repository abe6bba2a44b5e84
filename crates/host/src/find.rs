//! Search for all volumes on the block devices of this machine, or in the files of a folder.
//!
//! Devices are only read. They are read concurrently and each with a time limit, so that a dead
//! disk costs one wait and not one for each volume.

use crate::FolderError;
use crate::claim::{self, Own};
use crate::disks::{Mount, plain};
use crate::folder::{Assembled, Folder, Looked, NOTHING, of_devices};
use crate::memory::BLOCK;
use crate::opening::open_as;
use crate::superblocks::{copy_under_way, newest_superblock};
use crate::timely::{PATIENCE, Timely};
use pantile_device::{Access, AlignedBuf, Device, DeviceError};
use pantile_format::volume::{Claim, Superblock, VolumeId};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use std::{fmt, fs};

/// Number of devices that are read at a time.
const BESIDE: usize = 64;

/// ENOMEDIUM: the drive has no medium.
const NO_MEDIUM: i32 = 123;

/// The volumes that were found on some devices.
#[derive(Debug, Default)]
pub struct FoundVolumes {
    /// The volumes by name.
    pub volumes: Vec<FoundVolume>,
    /// Number of devices that hold no part of a volume.
    pub others: usize,
    /// Devices that could not be read, or were not, with the reason.
    pub left_out: Vec<(PathBuf, String)>,
}

/// A volume that was found.
#[derive(Debug)]
pub struct FoundVolume {
    /// The name in its newest superblock.
    pub name: String,
    /// The id.
    pub volume: VolumeId,
    /// The devices whose superblock names the volume.
    pub paths: Vec<PathBuf>,
    /// Process and host that serve it.
    pub served_by: Option<(u32, String)>,
    /// Process and host of a claim that was not given back: only watching it shows whether the
    /// volume is served.
    pub claimed_by: Option<(u32, String)>,
    /// Its folder, from the arguments of the server on this machine.
    pub served_from: Option<PathBuf>,
    /// Its devices, or an error if they contradict each other.
    pub state: Result<Assembled, FolderError>,
}

/// A device, and the result of reading its superblocks.
struct Seen {
    device: Arc<dyn Device>,
    superblock: Option<Superblock>,
    /// The superblock of a copy under construction.
    copy: Option<Superblock>,
    /// The error of a device that another process has open.
    in_use: Option<String>,
}

/// Returns the volumes to which these devices belong. Nothing is written. A device that another
/// process has open counts only if its claim says that its volume is served.
pub fn find_volumes(paths: &[PathBuf]) -> FoundVolumes {
    find_by(paths, PATIENCE, |path, access| open_as(path, access, Instant::now()))
}

fn find_by(
    paths: &[PathBuf],
    patience: Duration,
    open: impl Fn(&Path, Access) -> Result<Arc<dyn Device>, DeviceError> + Sync,
) -> FoundVolumes {
    let look = |path: &PathBuf| {
        let mut in_use = None;
        let opened = open(path, Access::ReadOnly).or_else(|error| match error {
            DeviceError::InUse { .. } => {
                in_use = Some(error.to_string());
                open(path, Access::Beside)
            }
            error => Err(error),
        });
        let device = match opened {
            Err(DeviceError::Gone { errno: NO_MEDIUM, .. } | DeviceError::TooSmall { .. }) => return None,
            Err(error) => return Some(Err(error.to_string())),
            Ok(device) => device,
        };
        Some(see(device, patience).map(|seen| Seen { in_use, ..seen }))
    };
    let own = Own::new().ok();
    let mut found = FoundVolumes::default();
    let mut seen: Vec<(PathBuf, Seen)> = Vec::new();
    for paths in paths.chunks(BESIDE) {
        thread::scope(|scope| {
            let look = &look;
            let begin = |path| thread::Builder::new().spawn_scoped(scope, move || look(path));
            let begun: Vec<_> = paths.iter().map(|path| (path, begin(path))).collect();
            for (path, thread) in begun {
                let ended = match thread {
                    Ok(thread) => thread.join().unwrap_or_else(|_| Some(Err("its reader ended".into()))),
                    Err(error) => Some(Err(format!("it was not read: {error}"))),
                };
                match ended {
                    Some(Ok(seen)) if seen.in_use.is_some() && !seen.is_served(own.as_ref()) => {
                        found.left_out.push((path.clone(), seen.in_use.unwrap_or_default()));
                    }
                    Some(Ok(device)) => seen.push((path.clone(), device)),
                    Some(Err(why)) => found.left_out.push((path.clone(), why)),
                    None => {}
                }
            }
        });
    }
    let ids: BTreeSet<VolumeId> = seen.iter().filter_map(|(_, seen)| Some(seen.of()?.volume)).collect();
    found.volumes = ids.into_iter().filter_map(|id| volume_of(id, &seen, own.as_ref())).collect();
    found.volumes.sort_by(|one, other| (&one.name, one.volume).cmp(&(&other.name, other.volume)));
    let used: BTreeSet<&PathBuf> = found.volumes.iter().flat_map(FoundVolume::members).collect();
    found.others = seen.iter().filter(|(path, seen)| seen.of().is_none() && !used.contains(path)).count();
    found
}

/// Reads the superblocks of a device. Errors: the reason why it cannot be read.
fn see(device: Arc<dyn Device>, patience: Duration) -> Result<Seen, String> {
    let timely = Timely::new(device.clone(), patience);
    let superblock = newest_superblock(&timely, None);
    let copy = if superblock.is_none() { copy_under_way(&timely) } else { None };
    if superblock.is_none() && copy.is_none() {
        let mut front = AlignedBuf::zeroed(BLOCK);
        timely.read_at(0, front.whole_mut()).map_err(|error| error.to_string())?;
    }
    Ok(Seen { device, superblock, copy, in_use: None })
}

impl Seen {
    fn of(&self) -> Option<&Superblock> {
        self.superblock.as_ref().or(self.copy.as_ref())
    }

    /// True if a process of this machine serves the volume of the device, as its claim says.
    fn is_served(&self, own: Option<&Own>) -> bool {
        let Some((of, own)) = self.of().zip(own) else { return false };
        let claims = claim::held(&[Some(self.device.clone())], of, None);
        claims.iter().any(|claim| own.serves(&claim.claimant) == Some(true))
    }
}

impl FoundVolume {
    /// Returns the devices that name the volume, and those that belong to it according to the place
    /// of their last superblock.
    fn members(&self) -> impl Iterator<Item = &PathBuf> {
        let known =
            self.state.iter().flat_map(|found| found.devices.values().chain(found.replacing.values()));
        self.paths.iter().chain(known)
    }
}

fn volume_of(id: VolumeId, seen: &[(PathBuf, Seen)], own: Option<&Own>) -> Option<FoundVolume> {
    let is_own = |seen: &Seen| seen.of().is_some_and(|found| found.volume == id);
    let members = || seen.iter().filter(|(_, seen)| is_own(seen));
    let newest = members().filter_map(|(_, seen)| seen.of()).max_by_key(|of| (of.session, of.update))?;
    let devices: Vec<Option<Arc<dyn Device>>> =
        members().map(|(_, seen)| Some(seen.device.clone())).collect();
    let claims = claim::held(&devices, newest, None);
    let claimant = |serves: Option<bool>| {
        let is_it = |claim: &&Claim| own.and_then(|own| own.serves(&claim.claimant)) == serves;
        let claim = claims.iter().find(is_it)?;
        Some((claim.claimant.process, claim.claimant.host.clone()))
    };
    let (served_by, claimed_by) = (claimant(Some(true)), claimant(None));
    let served_from = served_by.as_ref().and_then(|(process, _)| folder_of(*process, id));
    // A device whose front was overwritten still has the superblock behind its chunks.
    let can_be_its = seen.iter().filter(|(_, seen)| seen.of().is_none() || is_own(seen));
    let looked: Vec<Looked> =
        can_be_its.map(|(path, seen)| (path.clone(), seen.device.clone(), seen.superblock.clone())).collect();
    let paths: Vec<PathBuf> = members().map(|(path, _)| path.clone()).collect();
    let mut state = of_devices(looked, Vec::new());
    if let Ok(found) = &mut state {
        found.left_out.retain(|(path, why)| why != NOTHING || paths.contains(path));
    }
    Some(FoundVolume {
        name: newest.name.clone(),
        volume: id,
        paths,
        served_by,
        claimed_by,
        served_from,
        state,
    })
}

/// Returns the folder of the volume that a process serves, from its arguments; `None`: they name no
/// folder of that volume.
fn folder_of(process: u32, id: VolumeId) -> Option<PathBuf> {
    let words = fs::read(format!("/proc/{process}/cmdline")).ok()?;
    let folders = words.split(|&byte| byte == 0).filter_map(|word| word.strip_prefix(b"volume="));
    let mut folders = folders.map(|folder| PathBuf::from(OsStr::from_bytes(folder)));
    folders.find(|folder| Folder::named_in(folder).is_ok_and(|config| config.volume == id))
}

/// Use of a block device by the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceUse {
    /// Mounted as a file system at this path.
    Mounted(String),
    /// Swap space.
    Swap,
    /// Part of this device, such as an array.
    Part(String),
}

impl fmt::Display for DeviceUse {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceUse::Mounted(at) => write!(out, "it is mounted at {at}"),
            DeviceUse::Swap => out.write_str("it is swap space"),
            DeviceUse::Part(holder) => write!(out, "{holder} is built on it"),
        }
    }
}

/// The block devices that the system knows, and its mounts and swaps.
struct System {
    /// `/sys/class/block`, or a replacement in tests.
    block: PathBuf,
    mounts: String,
    swaps: String,
}

impl System {
    fn here() -> System {
        let text = |path: &str| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
        let (mounts, swaps) = (text("/proc/self/mountinfo"), text("/proc/swaps"));
        System { block: "/sys/class/block".into(), mounts, swaps }
    }

    /// Returns the use of the device with this name in `/sys`.
    fn use_of(&self, name: &str, path: &Path) -> Option<DeviceUse> {
        let folder = self.block.join(name);
        if let Some((holder, _)) = entries(&folder.join("holders")).into_iter().next() {
            return Some(DeviceUse::Part(holder));
        }
        let is_it = |swap: &str| swap.split_whitespace().next().map(Path::new) == Some(path);
        if self.swaps.lines().any(is_it) {
            return Some(DeviceUse::Swap);
        }
        // Mounts of btrfs have a device number of their own, so they are found by their source.
        let number = said(&folder, "dev");
        let is_it =
            |mount: &Mount| !number.is_empty() && mount.number == number || Path::new(mount.source) == path;
        let mount = self.mounts.lines().filter_map(Mount::of).find(is_it)?;
        Some(DeviceUse::Mounted(plain(mount.at)))
    }

    fn idle_devices(&self) -> (Vec<PathBuf>, Vec<(PathBuf, String)>) {
        let (mut idle, mut used) = (Vec::new(), Vec::new());
        for (name, folder) in entries(&self.block) {
            if said(&folder, "size").parse::<u64>().unwrap_or(0) == 0 {
                continue;
            }
            let path = Path::new("/dev").join(name.replace('!', "/"));
            let has_parts = || entries(&folder).iter().any(|(_, at)| at.join("partition").exists());
            match self.use_of(&name, &path) {
                Some(by) => used.push((path, by.to_string())),
                None if has_parts() => {
                    used.push((path, "it has partitions, which are looked at instead".into()))
                }
                None => idle.push(path),
            }
        }
        (idle, used)
    }
}

/// Returns the use of a block device, if it has one.
pub fn use_of_device(path: &Path) -> Option<DeviceUse> {
    let below = path.strip_prefix("/dev").unwrap_or(path);
    System::here().use_of(&below.to_string_lossy().replace('/', "!"), path)
}

/// Returns the unused block devices of this machine, and the other ones with their use. Drives
/// without a medium are in neither list.
pub fn idle_devices() -> (Vec<PathBuf>, Vec<(PathBuf, String)>) {
    System::here().idle_devices()
}

/// Returns the names and paths in a folder, by name.
fn entries(folder: &Path) -> BTreeMap<String, PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path())).collect()
}

fn said(folder: &Path, file: &str) -> String {
    fs::read_to_string(folder.join(file)).unwrap_or_default().trim().to_string()
}

/// Returns the files and block devices of a folder, by name.
pub fn files_of(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let kind = fs::metadata(&path).map(|found| found.file_type());
        found.extend(kind.is_ok_and(|kind| kind.is_file() || kind.is_block_device()).then_some(path));
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Gate;
    use pantile_device::{MemoryDevice, OpKind};

    #[test]
    fn a_dead_disk_costs_one_wait_and_is_named() {
        let memory = |name: &str| -> Arc<dyn Device> { Arc::new(MemoryDevice::new(name, 16 << 20)) };
        let dead = Gate::before(memory("dead"));
        dead.layer().keep(OpKind::Read, 0..u64::MAX);
        let paths = ["dead", "well", "empty"].map(PathBuf::from);
        let begun = Instant::now();
        let found = find_by(&paths, Duration::from_millis(200), |path, _| match path.to_str() {
            Some("dead") => Ok(dead.clone()),
            Some("empty") => {
                let at = pantile_device::Site {
                    device: path.into(),
                    op: OpKind::Open,
                    offset_bytes: 0,
                    len_bytes: 0,
                };
                Err(DeviceError::from_errno(at, NO_MEDIUM))
            }
            _ => Ok(memory("well")),
        });
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        let [(path, why)] = &found.left_out[..] else { panic!("{found:?}") };
        assert!(path == Path::new("dead") && why.contains("dead"), "{why}");
        assert_eq!((found.volumes.len(), found.others), (0, 1));
        dead.layer().open();
    }

    #[test]
    fn a_claim_of_a_server_is_told_from_one_that_was_left_behind() {
        let (_, devices, superblock) = crate::claim::tests::volume();
        let devices: Vec<Arc<dyn Device>> = devices.into_iter().flatten().collect();
        let members: Vec<Option<Arc<dyn Device>>> = devices.iter().cloned().map(Some).collect();
        let paths: Vec<PathBuf> = (0..devices.len()).map(|at| PathBuf::from(at.to_string())).collect();
        let find = || {
            let open = |path: &Path, _| {
                let at: usize = path.to_string_lossy().parse().expect("a number");
                Ok(devices[at].clone())
            };
            let mut found = find_by(&paths, PATIENCE, open).volumes;
            let volume = found.pop().expect("a volume");
            assert!(found.is_empty() && volume.state.as_ref().is_ok_and(|state| state.enough), "{volume:?}");
            (volume.served_by.map(|by| by.0), volume.claimed_by.map(|by| by.0))
        };
        assert_eq!(find(), (None, None));
        let mut own = Own::new().expect("a claimant");
        claim::take(&members, &superblock, &own, Duration::ZERO).expect("it is free");
        let process = std::process::id();
        assert_eq!(find(), (Some(process), None));
        own.claimant.boot = [9; 16];
        claim::take(&members, &superblock, &own, Duration::ZERO).expect("it is its own");
        assert_eq!(find(), (None, Some(process)), "it is of another machine");
        claim::give_back(&members, &superblock, &own);
        assert_eq!(find(), (None, None));
    }

    #[test]
    fn the_folder_of_a_server_is_that_of_its_arguments_if_it_is_its_volume() {
        let folder = tempfile::tempdir().expect("a folder");
        let id = VolumeId([7; 16]);
        let text = format!("pantile volume 1\nid {id}\n");
        fs::write(folder.path().join("volume.conf"), text).expect("a file");
        let mut server = std::process::Command::new("sh")
            .args(["-c", "read line", "sh"])
            .arg(format!("volume={}", folder.path().display()))
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("a shell");
        let of = |id| folder_of(server.id(), id);
        // The system sets the arguments of a process a moment after it has begun.
        let begun = Instant::now();
        while of(id).is_none() && begun.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!((of(id).as_deref(), of(VolumeId([8; 16]))), (Some(folder.path()), None));
        drop(server.stdin.take());
        let _ = server.wait();
    }

    #[test]
    fn devices_in_use_and_empty_drives_are_not_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let class = folder.path().join("class/block");
        let make = |name: &str, number: &str, size: &str| {
            let at = class.join(name);
            fs::create_dir_all(at.join("holders")).expect("a folder");
            fs::write(at.join("dev"), format!("{number}\n")).expect("a file");
            fs::write(at.join("size"), format!("{size}\n")).expect("a file");
            at
        };
        let sda = make("sda", "8:0", "1000");
        fs::create_dir(sda.join("sda1")).expect("a folder");
        fs::write(sda.join("sda1/partition"), "1\n").expect("a file");
        make("sda1", "8:1", "900");
        fs::create_dir(make("sdb", "8:16", "1000").join("holders/md0")).expect("a folder");
        make("sdc", "8:32", "1000");
        make("sdd", "8:48", "1000");
        make("sde", "8:64", "1000");
        make("sr0", "11:0", "0");
        make("cciss!c0d0", "104:0", "1000");
        let mounts =
            "36 35 8:1 / /srv/a\\040b rw - ext4 /dev/root rw\n37 35 0:45 / /mnt rw - btrfs /dev/sdd rw";
        let swaps = "Filename Type Size Used Priority\n/dev/sde partition 1 0 -2\n";
        let system = System { block: class, mounts: mounts.into(), swaps: swaps.into() };
        let (idle, used) = system.idle_devices();
        assert_eq!(idle, ["/dev/cciss/c0d0", "/dev/sdc"].map(PathBuf::from));
        let said: Vec<(&str, &str)> =
            used.iter().map(|(path, why)| (path.to_str().unwrap_or(""), why.as_str())).collect();
        assert_eq!(
            said,
            [
                ("/dev/sda", "it has partitions, which are looked at instead"),
                ("/dev/sda1", "it is mounted at /srv/a b"),
                ("/dev/sdb", "md0 is built on it"),
                ("/dev/sdd", "it is mounted at /mnt"),
                ("/dev/sde", "it is swap space"),
            ]
        );
    }
}
