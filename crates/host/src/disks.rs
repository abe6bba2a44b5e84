//! Disks that contain several members of a volume, and the effect of the loss of a disk.
//!
//! A code counts devices, but partitions of one disk fail together; so do files of one file system,
//! and exports of one server. The system provides the mapping: `/sys/dev/block` has the disk of a
//! partition and of a mapped device, `/proc/self/mountinfo` the source of a file system. Both are
//! read without access to a member, so a member that hangs delays nothing. A device on several
//! disks (an array, a volume over two) may survive the loss of one of them, so it counts as a
//! separate disk.

use crate::Folder;
use crate::opening::identity_at;
use pantile_device::{Identity, ServerAddress};
use pantile_gf::choose;
use pantile_plan::SetTally;
use pantile_volume::{Bearing, Geometry, Slot};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Most layers of devices on top of one another.
const DEPTH_MOST: usize = 8;

/// Most sets of disks that are tested for each number of disks.
const SETS_MOST: u64 = 20_000;

/// Most fatal sets of disks that are named.
const NAMED_MOST: usize = 8;

/// The disks of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisksReport {
    /// The disks, by name. Members whose disk the system does not report are missing.
    pub disks: Vec<DiskReport>,
    /// Losses of sets of 1, 2, .. disks from a volume without other losses, up to the code's
    /// tolerance. Empty if no two members share a disk.
    pub losses: Vec<DiskLosses>,
    /// A sentence, if the volume survives fewer losses of disks than of devices.
    pub warning: Option<String>,
}

/// A disk, or other storage that fails as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskReport {
    /// Its name in the system: `sda`, `server HOST`, `file system at /mnt`.
    pub name: String,
    /// The model, if the system reports it.
    pub model: Option<String>,
    /// The serial number, if the system reports it.
    pub serial: Option<String>,
    /// The slots of the members on it.
    pub devices: Vec<u32>,
}

/// Losses of sets of a certain number of disks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskLosses {
    /// Number of disks in a set.
    pub disks: u32,
    /// Number of sets.
    pub sets: u64,
    /// Number of sets whose loss loses no data.
    pub survived: u64,
    /// Some of the other sets, by the names of their disks.
    pub fatal: Vec<Vec<String>>,
}

/// A disk as the system describes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Disk {
    name: String,
    model: Option<String>,
    serial: Option<String>,
}

/// The devices and file systems that the system knows.
pub(crate) struct System {
    /// `/sys`, or a replacement in tests.
    sys: PathBuf,
    /// The lines of `/proc/self/mountinfo`.
    mounts: String,
}

impl System {
    /// Reads the devices and file systems of this machine.
    pub(crate) fn here() -> System {
        let mounts = fs::read("/proc/self/mountinfo").unwrap_or_default();
        System { sys: "/sys".into(), mounts: String::from_utf8_lossy(&mounts).into_owned() }
    }

    /// Returns the disk of a member, or its server; `None`: the member is memory of this process.
    pub(crate) fn disk_of(&self, path: &Path, identity: Identity) -> Option<Disk> {
        match identity {
            Identity::Server { .. } => of_server(path),
            Identity::Memory { .. } => None,
            Identity::Block { device } => Some(self.of_number(device)),
            Identity::File { device, .. } => Some(self.of_file_system(device)),
        }
    }

    /// Returns the disk of a block device.
    fn of_number(&self, device: u64) -> Disk {
        let number = number(device);
        let found = fs::canonicalize(self.sys.join("dev/block").join(&number));
        found.map_or_else(|_| Disk::named(format!("block device {number}")), |at| of_folder(&at, 0))
    }

    /// Returns the disk of a file system, or its source.
    fn of_file_system(&self, device: u64) -> Disk {
        let number = number(device);
        if self.sys.join("dev/block").join(&number).exists() {
            return self.of_number(device);
        }
        let mount = self.mounts.lines().find_map(|line| Mount::of(line).filter(|m| m.number == number));
        let Some(mount) = mount else { return Disk::named(format!("file system {number}")) };
        let host = mount.source.strip_prefix("//").map(|rest| rest.split('/').next());
        let host = host.flatten().or_else(|| mount.source.rsplit_once(":/").map(|(host, _)| host));
        match (mount.kind, host) {
            (kind, Some(host)) if is_remote(kind) => Disk::named(format!("server {}", plain(host))),
            ("zfs", _) => {
                let pool = mount.source.split('/').next().unwrap_or_default();
                Disk::named(format!("pool {}", plain(pool)))
            }
            // btrfs has a device number of its own; its source is the device that it is on.
            _ if mount.source.starts_with("/dev/") => of_node(mount.source)
                .map_or_else(|| Disk::named(mount.source.to_string()), |device| self.of_number(device)),
            _ => Disk::named(format!("file system at {}", plain(mount.at))),
        }
    }
}

impl Folder {
    /// Reports the disks of a volume whose devices are all available. Waits for their file systems.
    pub fn disks(&self, geometry: &Geometry) -> DisksReport {
        let system = System::here();
        let disk = |slot: u32| {
            let place = self.config().devices.get(&slot)?;
            let path = self.path(&place.path);
            system.disk_of(&path, identity_at(&path)?)
        };
        let disks: Vec<Option<Disk>> = (0..geometry.slots() as u32).map(disk).collect();
        judge(&Bearing::new(&geometry.code, geometry.placement), &disks)
    }
}

/// Returns the server of an export: all exports of one server fail together.
fn of_server(path: &Path) -> Option<Disk> {
    let address = ServerAddress::parse(path).ok()?;
    Some(Disk::named(format!("server {}", address.server())))
}

/// Returns the device number of a block device in `/dev`.
fn of_node(path: &str) -> Option<u64> {
    let found = fs::metadata(path).ok().filter(|found| found.file_type().is_block_device())?;
    Some(found.rdev())
}

fn is_remote(kind: &str) -> bool {
    kind.starts_with("nfs") || ["cifs", "smb3", "ceph", "9p", "fuse.sshfs"].contains(&kind)
}

/// A line of `/proc/self/mountinfo`.
pub(crate) struct Mount<'m> {
    pub(crate) number: String,
    pub(crate) at: &'m str,
    kind: &'m str,
    pub(crate) source: &'m str,
}

impl Mount<'_> {
    pub(crate) fn of(line: &str) -> Option<Mount<'_>> {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(2);
        let (number, at) = (left.next()?.to_string(), left.nth(1)?);
        let mut right = right.split(' ');
        Some(Mount { number, at, kind: right.next()?, source: right.next()? })
    }
}

/// Returns a name of mountinfo with its escaped spaces restored.
pub(crate) fn plain(name: &str) -> String {
    name.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

/// Returns `MAJOR:MINOR` of a device number.
fn number(device: u64) -> String {
    let major = (device >> 8 & 0xfff) | (device >> 32 & 0xffff_f000);
    let minor = (device & 0xff) | (device >> 12 & 0xffff_ff00);
    format!("{major}:{minor}")
}

/// Returns the disk of a device's folder in `/sys`, through partitions and mapped devices.
fn of_folder(folder: &Path, depth: usize) -> Disk {
    if folder.join("partition").exists()
        && let Some(parent) = folder.parent()
    {
        return of_folder(parent, depth + 1);
    }
    let below: Vec<PathBuf> = fs::read_dir(folder.join("slaves"))
        .map(|entries| entries.filter_map(|entry| fs::canonicalize(entry.ok()?.path()).ok()).collect())
        .unwrap_or_default();
    if let ([below], true) = (&below[..], depth < DEPTH_MOST) {
        return of_folder(below, depth + 1);
    }
    let said = |name: &str| {
        let text = fs::read_to_string(folder.join(name)).ok()?;
        // The vital product data of SCSI begin with four bytes that are no text.
        let text = text.trim_matches(|c: char| c.is_whitespace() || c.is_control());
        (!text.is_empty()).then(|| text.to_string())
    };
    let name = folder.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    let serial = said("device/serial").or_else(|| said("device/vpd_pg80")).or_else(|| said("serial"));
    Disk { name, model: said("device/model"), serial }
}

impl Disk {
    fn named(name: String) -> Disk {
        Disk { name, model: None, serial: None }
    }
}

/// Reports the effect of the loss of disks. `members`: by slot, the disk of each member, if known.
pub(crate) fn judge(bearing: &Bearing, members: &[Option<Disk>]) -> DisksReport {
    let mut on: BTreeMap<&Disk, Vec<u32>> = BTreeMap::new();
    for (slot, disk) in (0..).zip(members) {
        if let Some(disk) = disk {
            on.entry(disk).or_default().push(slot);
        }
    }
    let disks: Vec<DiskReport> = on
        .into_iter()
        .map(|(Disk { name, model, serial }, devices)| DiskReport {
            name: name.clone(),
            model: model.clone(),
            serial: serial.clone(),
            devices,
        })
        .collect();
    let is_shared = disks.iter().any(|disk| disk.devices.len() > 1);
    let most = if is_shared { bearing.tolerance().min(disks.len()) } else { 0 };
    let losses: Vec<DiskLosses> = (1..=most).map_while(|count| losses(bearing, &disks, count)).collect();
    let warning = losses.iter().find(|one| one.survived < one.sets).map(|one| warning(bearing, &disks, one));
    DisksReport { disks, losses, warning }
}

/// Counts the losses of all sets of `count` disks; `None`: there are too many sets.
fn losses(bearing: &Bearing, disks: &[DiskReport], count: usize) -> Option<DiskLosses> {
    let sets = choose(disks.len() as u64, count as u64);
    (sets <= SETS_MOST).then_some(())?;
    let bears = |set: &[usize]| {
        let slots: BTreeSet<u32> = set.iter().flat_map(|&disk| disks[disk].devices.iter().copied()).collect();
        bearing.bears(&slots.into_iter().map(Slot).collect::<Vec<Slot>>())
    };
    let SetTally { survived, fatal, .. } = SetTally::of(disks.len(), count, (sets, NAMED_MOST), bears);
    let names = |set: &Vec<usize>| set.iter().map(|&disk| disks[disk].name.clone()).collect();
    let fatal = fatal.iter().map(names).collect();
    Some(DiskLosses { disks: count as u32, sets, survived, fatal })
}

fn warning(bearing: &Bearing, disks: &[DiskReport], least: &DiskLosses) -> String {
    let promise = match bearing.tolerance() {
        1 => "although any 1 device can fail".to_string(),
        more => format!("although any {more} devices can fail"),
    };
    let fatal = least.fatal.first().map_or(String::new(), |set| set.join(" and "));
    let of_fatal = disks.iter().find(|disk| disk.name == fatal);
    match (least.disks, of_fatal) {
        (1, Some(disk)) if disk.devices.len() == bearing.devices() as usize => {
            format!(
                "All {} devices are on {}: its loss loses all data, {promise}.",
                bearing.devices(),
                said(disk)
            )
        }
        (1, Some(disk)) => {
            let others = match least.sets - least.survived - 1 {
                0 => String::new(),
                1 => ", and so does that of another".to_string(),
                more => format!(", and so does that of each of {more} others"),
            };
            let (devices, disk) = (listed(&disk.devices), said(disk));
            format!("{devices} are on {disk}: the loss of this disk alone loses data{others}, {promise}.")
        }
        (count, _) => {
            let shared = disks.iter().filter(|disk| disk.devices.len() > 1);
            let shared: Vec<String> = shared
                .take(3)
                .map(|disk| format!("{} are on {}", listed(&disk.devices), said(disk)))
                .collect();
            format!(
                "{}: {} of {} sets of {count} disks can fail, without {fatal} data are lost, {promise}.",
                shared.join("; "),
                least.survived,
                least.sets
            )
        }
    }
}

/// Returns the name of a disk with its model and serial number.
fn said(disk: &DiskReport) -> String {
    let model = disk.model.as_ref().map(|model| format!(" ({model}"));
    match (model, &disk.serial) {
        (Some(model), Some(serial)) => format!("{}{model}, serial {serial})", disk.name),
        (Some(model), None) => format!("{}{model})", disk.name),
        (None, Some(serial)) => format!("{} (serial {serial})", disk.name),
        (None, None) => disk.name.clone(),
    }
}

fn listed(devices: &[u32]) -> String {
    let names: Vec<String> = devices.iter().map(u32::to_string).collect();
    match names.split_last() {
        Some((last, [])) => format!("Device {last}"),
        Some((last, rest)) => format!("Devices {} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests;
