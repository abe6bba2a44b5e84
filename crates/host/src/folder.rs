//! The folder of a volume: the paths of its devices, a lock, sockets. The superblocks decide which
//! device is which; the folder only says where to look for devices.
//!
//! docs/volume-folder.md describes it.

mod assembled;

pub use assembled::Assembled;
pub(crate) use assembled::{Looked, NOTHING, of_devices};

use crate::claim::{self, Beating, Own};
use crate::config::one_line;
use crate::geometry::{self, Wanted};
use crate::memory::BLOCK;
use crate::new_dir::NewDir;
use crate::opening::{CLOSING, identity_at, open_as, open_soon, open_to_look};
use crate::private::{LOCK, lock, lock_to_read};
use crate::signature;
use crate::superblocks::{
    DEFINITION_AT, TAIL_BLOCKS, all_superblocks, copy_near_end, definition_of, geometry_of,
    newest_superblock, newest_superblock_of, nothing_on,
};
use crate::timely::Timely;
use crate::{Config, FolderError, Host, HostError, HostOptions, Place, least_memory_bytes};
use assembled::scan;
use pantile_code::{Code, Placement};
use pantile_device::{
    Access, AlignedBuf, Device, DeviceError, FileDevice, Identity, OpKind, OpenOptions, Site, absolute_path,
    open_device, path_in,
};
use pantile_format::volume::{HistoryId, Superblock, VolumeId};
use pantile_paths::{Dir, formatting_is_mine, other_writer};
use pantile_plan::{ProveOptions, prove};
use pantile_volume::{Birth, DeviceState, Found, Geometry, OpenError, Slot, format_volume};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// The file with the paths of the devices.
pub(crate) const CONFIG: &str = "volume.conf";

/// Longest configuration that is read: for 256 devices and some hundred spares, each with the
/// longest path.
const CONFIG_BYTES_MAX: u64 = 4 << 20;

/// Length of the front of a device that must be empty: file systems and partition tables have their
/// magic numbers there.
pub(crate) const FRONT_BYTES: u64 = 128 << 10;

/// An opened device: its slot in the folder, true if it is joining, the device, and its superblock.
type There = (u32, bool, Arc<dyn Device>, Option<Superblock>);

/// A volume's folder that this process has locked.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
    /// The open directory.
    dir: Dir,
    config: Config,
    /// The claimant of this host; set by the first claim.
    own: Option<Own>,
    /// Limit of the volume's buffers in bytes, if it is not the default.
    memory_bytes: Option<u64>,
    /// The lock, which is held until this value is dropped.
    _lock: File,
}

/// Parameters of a new volume.
#[derive(Clone, Debug)]
pub struct NewFolder {
    /// Its code.
    pub code: Code,
    /// Its devices.
    pub devices: NewDevices,
    /// The placement of columns on devices; if not given, the default of the code.
    pub placement: Option<Placement>,
    /// Bytes of existing data that epochs of delayed parity may overwrite at a time, beyond the
    /// reserve of every volume. Each overwritten block needs a second place until its epoch ends.
    pub epoch_bytes: u64,
    /// Its name; if not given, the name of the folder.
    pub name: Option<String>,
    /// Permits devices that contain data, which is lost.
    pub overwrite: bool,
}

/// Devices of a new volume.
#[derive(Clone, Debug)]
pub enum NewDevices {
    /// Existing devices, by slot.
    Given(Vec<PathBuf>),
    /// Sparse files that are made in the folder, for a volume of at least `user_bytes`.
    Made {
        /// Bytes for the user's data.
        user_bytes: u64,
    },
}

/// The devices of a folder, opened.
pub struct Opened {
    /// The geometry of the volume.
    pub geometry: Geometry,
    /// The newest superblock.
    pub superblock: Superblock,
    /// The devices by slot; `None`: there is none.
    pub devices: Vec<Option<Arc<dyn Device>>>,
    /// Devices to rebuild: they were assigned to a slot and are still blank.
    pub joining: Vec<(Slot, Arc<dyn Device>)>,
    /// By slot, the problem of a device that is missing or is not the expected one.
    pub problems: BTreeMap<u32, String>,
    /// True if the last process that opened the volume for writing did not stop it in order.
    pub left_behind: bool,
    /// Corrected lines of the folder: each of its paths in the slot of the device there.
    pub places: BTreeMap<u32, Place>,
}

/// Returns 16 random bytes.
pub(crate) fn random_id() -> Result<[u8; 16], FolderError> {
    let path = Path::new("/dev/urandom");
    let mut id = [0; 16];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut id));
    read.map_err(|error| FolderError::file("read", path, &error))?;
    Ok(id)
}

/// Returns a new random history.
pub(crate) fn fresh_history() -> Result<HistoryId, FolderError> {
    random_id().map(HistoryId)
}

impl Folder {
    /// Makes a volume.
    ///
    /// Errors: the tolerance of the code is not proved, or devices are in use, too short or not
    /// empty. Given devices are changed only after all checks; files that were made are removed
    /// again.
    pub fn create(root: &Path, new: &NewFolder) -> Result<(Folder, Geometry), FolderError> {
        check_code(&new.code)?;
        if new.placement.is_some_and(|placement| placement != Placement::Fixed)
            && !new.code.columns_are_interchangeable()
        {
            return Err(FolderError::CannotRotate { spec: new.code.spec().to_owned() });
        }
        let mut id = random_id()?;
        // A version 4 UUID.
        id[6] = id[6] & 0x0f | 0x40;
        id[8] = id[8] & 0x3f | 0x80;
        let volume = VolumeId(id);
        in_new_root(root, |folder, lock| Folder::create_in(folder, root, new, (volume, lock)))
    }

    /// Returns the geometry of the volume that [`Folder::create`] would make. Nothing is written.
    ///
    /// Errors: those errors of `create` that are detected before it writes.
    pub fn rehearse(root: &Path, new: &NewFolder) -> Result<Geometry, FolderError> {
        check_code(&new.code)?;
        NewDir::check(root)?;
        let volume = VolumeId([0; 16]);
        match &new.devices {
            NewDevices::Given(paths) => Ok(given(new, volume, paths)?.0),
            NewDevices::Made { user_bytes } => sized(new, volume, *user_bytes),
        }
    }

    fn create_in(
        folder: &Dir,
        root: &Path,
        new: &NewFolder,
        (volume, lock): (VolumeId, File),
    ) -> Result<(Folder, Geometry), FolderError> {
        check_formatting(folder)?;
        let (geometry, places, devices) = match &new.devices {
            NewDevices::Given(paths) => given(new, volume, paths)?,
            NewDevices::Made { user_bytes } => made(folder, new, volume, *user_bytes)?,
        };
        let own = matches!(new.devices, NewDevices::Made { .. });
        let written = write_new(root, new, &geometry, &devices).and_then(|()| {
            let devices =
                (0..).zip(places.clone()).map(|(slot, path)| (slot, Place { path, joining: false }));
            let config = Config {
                volume,
                devices: devices.collect(),
                replacing: BTreeMap::new(),
                failed: BTreeMap::new(),
                former: Vec::new(),
                verifying: BTreeSet::new(),
                spares: Vec::new(),
                throttle_bytes_per_s: None,
            };
            let folder = Folder::with(root, folder.clone(), config, lock);
            folder.save()?;
            Ok(folder)
        });
        if written.is_err() && own {
            places.iter().for_each(|path| drop(folder.remove(path)));
        }
        Ok((written?, geometry))
    }

    fn with(root: &Path, dir: Dir, config: Config, lock: File) -> Folder {
        let root = root.to_path_buf();
        Folder { root, dir, config, own: None, memory_bytes: None, _lock: lock }
    }

    /// Locks the folder of a volume for this process.
    ///
    /// Errors: `Busy` if another process has locked it; `NotAVolume`; an invalid configuration.
    pub fn open(root: &Path) -> Result<Folder, FolderError> {
        let dir = open_root(root)?;
        let lock = lock(&dir).or_else(|error| lock_to_read(&dir, CONFIG, error))?;
        let config = read_config(&dir)?;
        Ok(Folder::with(root, dir, config, lock))
    }

    /// Reads the configuration of a volume without a lock.
    ///
    /// Errors: `NotAVolume`; an invalid configuration.
    pub fn named_in(root: &Path) -> Result<Config, FolderError> {
        read_config(&open_root(root)?)
    }

    /// Returns the slot of a device that the folder no longer names, from its superblock.
    ///
    /// `None`: the device cannot be read, belongs to another volume, or its slot has another
    /// device.
    pub fn lost_slot_of(root: &Path, path: &Path) -> Option<u32> {
        let config = Folder::named_in(root).ok()?;
        let device = open_as(path, Access::ReadOnly, Instant::now()).ok()?;
        let slot = newest_superblock(&Timely::of(&device), Some(config.volume))?.slot.0;
        (!config.devices.contains_key(&slot)).then_some(slot)
    }

    /// Returns a warning if other users can write to the folder and so choose the devices.
    pub fn warning(&self) -> Option<String> {
        let found = self.dir.metadata().ok()?;
        let writer = other_writer(found.uid(), found.gid(), found.mode())?;
        Some(format!("{writer} can change which devices {} names", self.root.display()))
    }

    /// Refuses to format devices that a folder of another user names.
    pub(crate) fn check_formatting(&self) -> Result<(), FolderError> {
        check_formatting(&self.dir)
    }

    /// Reads the configuration again. If it cannot be read, the present one stays.
    pub(crate) fn read_again(&mut self) {
        if let Ok(config) = read_config(&self.dir) {
            self.config = config;
        }
    }

    /// Finds the devices of a volume among `paths`, and makes a folder for them.
    pub fn assemble(root: &Path, paths: &[PathBuf]) -> Result<(Folder, Assembled), FolderError> {
        let mut found = scan(paths)?;
        let mut folder = in_new_root(root, |dir, lock| Folder::assemble_in(dir, root, &found, lock))?;
        folder.judge(&mut found)?;
        Ok((folder, found))
    }

    /// Marks devices as stale that lack writes. Their superblocks have the history of the others,
    /// so only an opening detects that.
    fn judge(&mut self, found: &mut Assembled) -> Result<(), FolderError> {
        match self.look() {
            Ok((host, _)) => {
                let status = host.report()?.status;
                let lacks = status.devices.iter().filter(|device| device.state != DeviceState::Present);
                let slots = lacks.map(|device| device.slot.0);
                found.stale = slots.filter(|slot| found.devices.contains_key(slot)).collect();
                found.enough = !status.failed;
            }
            Err(FolderError::Host(HostError::Open(OpenError::TooFewDevices { older, .. }))) => {
                found.stale.extend(older.iter().map(|slot| slot.0));
                found.stale.sort_unstable();
                found.stale.dedup();
                found.enough = false;
            }
            // The next opening reports the error. The places of the devices are known anyway.
            Err(_) => found.enough = false,
        }
        Ok(())
    }

    fn assemble_in(dir: &Dir, root: &Path, found: &Assembled, lock: File) -> Result<Folder, FolderError> {
        let devices = found.devices.iter().map(|(&slot, path)| {
            let path = absolute_path(path).unwrap_or_else(|_| path.clone());
            (slot, Place { path, joining: false })
        });
        let config = Config {
            volume: found.superblock.volume,
            devices: devices.collect(),
            replacing: found.replacing.clone(),
            failed: BTreeMap::new(),
            former: Vec::new(),
            verifying: BTreeSet::new(),
            spares: Vec::new(),
            throttle_bytes_per_s: None,
        };
        let folder = Folder::with(root, dir.clone(), config, lock);
        folder.save()?;
        Ok(folder)
    }

    /// Returns the name of the volume that some devices belong to.
    pub fn name_on(paths: &[PathBuf]) -> Result<String, FolderError> {
        scan(paths).map(|found| found.superblock.name)
    }

    /// Returns the folder's path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Opens a file of the folder for appending; only its owner can read it.
    pub fn open_private(&self, name: &str) -> std::io::Result<File> {
        self.dir.open_private(name, true)
    }

    /// Returns the configuration: the place of each device.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Changes the configuration, first on disk.
    pub fn change(&mut self, change: impl FnOnce(&mut Config)) -> Result<(), FolderError> {
        let mut config = self.config.clone();
        change(&mut config);
        let before = std::mem::replace(&mut self.config, config);
        let saved = self.save();
        if saved.is_err() {
            self.config = before;
        }
        saved
    }

    /// Records the path of a slot's device, for a volume that cannot be opened without it.
    ///
    /// Errors: the device at the path is another one. The next opening shows whether this one
    /// suffices.
    pub fn bring_back(&mut self, slot: u32, path: &Path) -> Result<(), FolderError> {
        let device = open_device(path, OpenOptions::default())?;
        let found = newest_superblock(&device, Some(self.config.volume)).map(|held| held.slot);
        if found != Some(Slot(slot)) {
            return Err(FolderError::NotThatDevice { path: path.to_path_buf(), slot: Slot(slot), found });
        }
        let place = Place { path: path.to_path_buf(), joining: false };
        self.change(|config| config.give(slot, place))
    }

    /// Returns the path of a device; a relative one is beneath the folder.
    pub fn path(&self, path: &Path) -> PathBuf {
        path_in(&self.root, path)
    }

    fn save(&self) -> Result<(), FolderError> {
        let text = self.config.text()?;
        let write = || {
            let new = self.dir.create(CONFIG)?;
            new.give_to_owner();
            new.file().write_all(text.as_bytes())?;
            new.file().sync_all()?;
            new.finish(0o600, true)?;
            self.dir.sync()
        };
        write().map_err(|error| FolderError::file("write", &self.root.join(CONFIG), &error))
    }

    /// Opens the devices. A missing, busy or unexpected device is reported as a problem, not as an
    /// error.
    pub fn open_devices(&self) -> Result<Opened, FolderError> {
        self.open_devices_by(open_soon)
    }

    pub(crate) fn open_devices_by(
        &self,
        open: impl Fn(&Path, Instant) -> Result<Arc<dyn Device>, DeviceError>,
    ) -> Result<Opened, FolderError> {
        let mut problems = BTreeMap::new();
        let mut there: Vec<There> = Vec::new();
        let closed = Instant::now() + CLOSING;
        for (&slot, place) in &self.config.devices {
            match open(&self.path(&place.path), closed) {
                Ok(device) => {
                    let superblock = newest_superblock(&Timely::of(&device), Some(self.config.volume));
                    there.push((slot, place.joining, device, superblock));
                }
                Err(error) => drop(problems.insert(slot, error.to_string())),
            }
        }
        let order = |superblock: &Superblock| (superblock.session, superblock.update);
        let held = || there.iter().filter_map(|(_, _, device, found)| Some((found.as_ref()?, device)));
        let Some((superblock, _)) = held().max_by_key(|(found, _)| order(found)) else {
            let why = problems.first_key_value().map(|(slot, problem)| format!("device {slot}: {problem}"));
            return Err(FolderError::NoDevices { folder: self.root.clone(), why });
        };
        let asked: Vec<Timely> = held().map(|(_, device)| Timely::of(device)).collect();
        let geometry = geometry_of(superblock, asked.iter().map(|device| device as &dyn Device))?;
        let first = superblock.clone();
        let without = there.iter_mut().filter(|(_, joining, _, found)| found.is_none() && !joining);
        without
            .for_each(|(_, _, device, found)| *found = newest_superblock_of(&Timely::of(device), &geometry));
        let all = there.iter().filter_map(|(.., found)| found.as_ref());
        let superblock = all.max_by_key(|found| order(found)).cloned().unwrap_or(first);
        let mut devices: Vec<Option<Arc<dyn Device>>> = vec![None; geometry.slots()];
        let (mut joining, mut blank) = (Vec::new(), Vec::new());
        // By slot, the slot of the folder's line that names its device.
        let mut lines: BTreeMap<u32, u32> = BTreeMap::new();
        // The superblock decides the slot of a device. Of two devices of one slot the newer is
        // used, and of two equally new ones the one that is named in the line of this slot.
        there.sort_by_key(|(line, _, _, found)| {
            let claim = |found: &Superblock| (order(found), found.slot == Slot(*line));
            std::cmp::Reverse(found.as_ref().map(claim))
        });
        for (line, is_joining, device, found) in there {
            let Some(found) = found else {
                blank.push((line, is_joining, device));
                continue;
            };
            let own = found.slot.0 as usize;
            let need = geometry.device_blocks(Slot(found.slot.0.min(geometry.slots() as u32 - 1)));
            let (have, need) = (device.len_bytes(), need * BLOCK as u64);
            if own >= geometry.slots() {
                problems.insert(line, "the volume has no such device".into());
            } else if let Some(used) = &devices[own] {
                problems.insert(line, as_another_one(device.path(), own, used.path()));
            } else if have < need {
                problems.insert(line, format!("it has {have} bytes and had {need}: its end is missing"));
            } else {
                devices[own] = Some(device);
                lines.insert(found.slot.0, line);
            }
        }
        for (line, is_joining, device) in blank {
            let need = geometry.device_blocks(Slot(line.min(geometry.slots() as u32 - 1))) * BLOCK as u64;
            match devices.get(line as usize) {
                None => drop(problems.insert(line, "the volume has no such device".into())),
                // The name may now be that of another device, which the operator has not offered.
                Some(None) if is_joining && device.len_bytes() >= need => {
                    match self.check_formatting().and_then(|()| check_no_volume(&Timely::of(&device))) {
                        Ok(()) => {
                            joining.push((Slot(line), device));
                            lines.insert(line, line);
                        }
                        Err(error) => drop(problems.insert(line, error.to_string())),
                    }
                }
                Some(_) => drop(problems.insert(line, nothing_on(&Timely::of(&device)))),
            }
        }
        let places = self.follow(lines, &mut problems);
        Ok(Opened { geometry, superblock, devices, joining, problems, left_behind: false, places })
    }

    /// Returns the folder's lines with each path in the slot of its device. `lines`: by slot, the
    /// line whose device is used. Any other path keeps its slot with its problem, so that its
    /// missing device is searched there; if the slot now belongs to another path, it gets the slot
    /// that became free.
    fn follow(
        &self,
        mut lines: BTreeMap<u32, u32>,
        problems: &mut BTreeMap<u32, String>,
    ) -> BTreeMap<u32, Place> {
        let named = &self.config.devices;
        let used: BTreeSet<u32> = lines.values().copied().collect();
        for line in named.keys().copied().filter(|line| !used.contains(line)) {
            // No two lines share a slot, so the search for a free slot ends.
            let mut slot = line;
            while let Some(&taken_by) = lines.get(&slot) {
                slot = taken_by;
            }
            lines.insert(slot, line);
        }
        let told = std::mem::take(problems);
        problems.extend(lines.iter().filter_map(|(&slot, line)| Some((slot, told.get(line)?.clone()))));
        lines.into_iter().map(|(slot, line)| (slot, named[&line].clone())).collect()
    }

    /// Corrects the paths of devices in the configuration, so that later changes by slot are right.
    /// A failure to write it does no harm: the devices are found in the same way again, and the
    /// next change writes all paths.
    fn take_places(&mut self, places: &BTreeMap<u32, Place>) {
        if self.config.devices != *places {
            self.config.devices = places.clone();
            let _ = self.save();
        }
    }

    /// Sets the limit of the buffers of a volume that is opened later.
    pub fn keep_within(&mut self, memory_bytes: u64) {
        self.memory_bytes = Some(memory_bytes);
    }

    fn options(&self, options: Option<HostOptions>, geometry: &Geometry) -> Result<HostOptions, FolderError> {
        let options = options.unwrap_or_else(|| HostOptions::for_devices(geometry.slots()));
        let Some(have) = self.memory_bytes else { return Ok(options) };
        let need = least_memory_bytes(geometry);
        match have < need {
            true => Err(FolderError::TooLittleMemory { have, need }),
            false => Ok(options.within(have)),
        }
    }

    /// Opens the devices and runs the volume on them.
    pub fn host(&mut self, options: Option<HostOptions>) -> Result<(Host, Opened), FolderError> {
        let mut opened = self.open_devices()?;
        let mut options = self.options(options, &opened.geometry)?;
        options.background_bytes_per_s = self.config.throttle_bytes_per_s.or(options.background_bytes_per_s);
        let fresh = fresh_history()?;
        if self.own.is_none() {
            self.own = Some(Own::new()?);
        }
        let own = self.own.as_ref().expect("it was just made");
        opened.left_behind = claim::take(&opened.devices, &opened.superblock, own, claim::WATCH)?;
        mend_definitions(&opened);
        let beating = Beating::new(&opened.superblock, own);
        let opening =
            Host::open_claimed(opened.geometry.clone(), opened.devices.clone(), fresh, &options, beating);
        let host = opening.inspect_err(|_| claim::give_back(&opened.devices, &opened.superblock, own))?;
        for (slot, device) in &opened.joining {
            host.attach(*slot, device.clone(), Found::Blank)?;
        }
        self.take_places(&opened.places);
        Ok((host, opened))
    }

    /// Gives back the claims on the devices, because the volume was stopped in order.
    pub(crate) fn release(&self, devices: &[Option<Arc<dyn Device>>], superblock: &Superblock) {
        if let Some(own) = &self.own {
            claim::give_back(devices, superblock, own);
        }
    }

    /// Opens the devices to report the state of the volume; nothing is written.
    pub fn look(&mut self) -> Result<(Host, Opened), FolderError> {
        let opened = self.open_devices_by(open_to_look)?;
        self.config.devices = opened.places.clone();
        let mut options = HostOptions::for_devices(opened.geometry.slots());
        options.background_bytes_per_s = self.config.throttle_bytes_per_s;
        Ok((Host::look(opened.geometry.clone(), opened.devices.clone(), &options)?, opened))
    }

    /// Opens the devices for reading and runs the volume on them without a session. Nothing is
    /// written, neither to them nor to the folder.
    pub fn host_to_read(&mut self, options: Option<HostOptions>) -> Result<(Host, Opened), FolderError> {
        let opened = self.open_devices_by(|path, until| open_as(path, Access::ReadOnly, until))?;
        self.config.devices = opened.places.clone();
        let options = self.options(options, &opened.geometry)?;
        Ok((Host::open_to_read(opened.geometry.clone(), opened.devices.clone(), &options)?, opened))
    }
}

/// Refuses to format devices if the folder that names them is another user's.
fn check_formatting(dir: &Dir) -> Result<(), FolderError> {
    let path = dir.path();
    let found = dir.metadata().map_err(|error| FolderError::file("look at", path, &error))?;
    formatting_is_mine(&found).map_err(|owner| FolderError::OfAnother { path: path.to_path_buf(), owner })
}

/// Opens the folder of a volume.
fn open_root(root: &Path) -> Result<Dir, FolderError> {
    let nothing = || FolderError::NotAVolume { folder: root.to_path_buf() };
    let dir = Dir::open_named(root).map_err(|_| nothing())?;
    match dir.look(CONFIG).is_ok_and(|found| !found.is_dir()) {
        true => Ok(dir),
        false => Err(nothing()),
    }
}

fn read_config(dir: &Dir) -> Result<Config, FolderError> {
    let path = &dir.called(CONFIG);
    let mut bytes = Vec::new();
    let read = dir.open_file(CONFIG).and_then(|file| file.take(CONFIG_BYTES_MAX + 1).read_to_end(&mut bytes));
    read.map_err(|error| FolderError::file("read", path, &error))?;
    if bytes.len() as u64 > CONFIG_BYTES_MAX {
        let expected = "no more than 4 MiB in all";
        return Err(FolderError::Config { path: path.to_path_buf(), line: 1, expected });
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + good.iter().filter(|&&byte| byte == b'\n').count();
        FolderError::Config { path: path.to_path_buf(), line, expected: "text in UTF-8" }
    })?;
    Config::parse(path, &text)
}

/// Returns the problem of a device whose slot is occupied by another device.
pub(crate) fn as_another_one(path: &Path, slot: usize, used: &Path) -> String {
    let (path, used) = (path.display(), used.display());
    format!("{path} says that it is device {slot}, as {used} does, which is as new or newer and is used")
}

/// Returns the problem of a device that the volume does not use. It has writes that the others
/// lack, or the others have dropped its history.
pub(crate) fn ran_separately(history: HistoryId, are_forgotten: bool) -> String {
    match are_forgotten {
        false => format!("it ran separately, with history {history}"),
        true => format!(
            "it ran separately, or was away while devices were lost more often than the {} times that the others remember, with history {history}",
            Superblock::ANCESTORS_MOST - 2
        ),
    }
}

/// Runs `make` in a new, locked folder. If it fails, everything is removed.
fn in_new_root<T>(
    root: &Path,
    make: impl FnOnce(&Dir, File) -> Result<T, FolderError>,
) -> Result<T, FolderError> {
    let new = NewDir::make(root)?;
    let locked = lock(&new.folder);
    let is_locked = locked.is_ok();
    let result = locked.and_then(|lock| make(&new.folder, lock));
    if result.is_err() && is_locked {
        let _ = new.folder.remove(LOCK);
    }
    if result.is_err() {
        new.unmake();
    }
    result
}

/// Refuses a code for study only, and a code whose tolerance is not proved.
fn check_code(code: &Code) -> Result<(), FolderError> {
    code.check_stores().map_err(FolderError::StudyOnly)?;
    let claimed = code.claim().tolerance;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let options = ProveOptions { lost_most: Some(claimed.max(1)), threads, ..ProveOptions::default() };
    let proved = prove(code, &options, &|_, _, _| true).tolerance();
    match proved >= claimed {
        true => Ok(()),
        false => Err(FolderError::NotProved { spec: code.spec().to_owned(), proved, claimed }),
    }
}

impl NewFolder {
    /// Returns the default parameters: the volume has the name of its folder, and its devices must
    /// be empty.
    pub fn new(code: Code, devices: NewDevices) -> NewFolder {
        NewFolder { code, devices, placement: None, epoch_bytes: 0, name: None, overwrite: false }
    }

    fn wanted(&self, volume: VolumeId) -> Wanted<'_> {
        let usual = || geometry::usual_placement(&self.code).placement;
        let placement = self.placement.unwrap_or_else(usual);
        Wanted { code: &self.code, placement, volume, epoch_bytes: self.epoch_bytes }
    }
}

/// Refuses epochs whose stripes do not fit into one record.
fn check_epochs(new: &NewFolder, wanted: &Wanted<'_>, geometry: &Geometry) -> Result<(), FolderError> {
    let most_bytes = wanted.most_epoch_bytes(geometry.element_blocks());
    match new.epoch_bytes > most_bytes {
        true => Err(FolderError::EpochsTooLarge { epoch_bytes: new.epoch_bytes, most_bytes }),
        false => Ok(()),
    }
}

type NewParts = (Geometry, Vec<PathBuf>, Vec<Arc<dyn Device>>);

fn given(new: &NewFolder, volume: VolumeId, paths: &[PathBuf]) -> Result<NewParts, FolderError> {
    let spec = || new.code.spec().to_owned();
    if paths.len() != new.code.columns() {
        return Err(FolderError::DeviceCount { spec: spec(), have: paths.len(), need: new.code.columns() });
    }
    let mut devices: Vec<Arc<dyn Device>> = Vec::new();
    for (nth, path) in paths.iter().enumerate() {
        check_once(path, &paths[..nth])?;
        let device = open_device(path, OpenOptions::default())?;
        check_to_make(&device, new.overwrite)?;
        devices.push(device);
    }
    let len: Vec<u64> = devices.iter().map(|device| device.len_bytes()).collect();
    let wanted = new.wanted(volume);
    let Some(geometry) = geometry::for_devices(&wanted, &len) else {
        let shortest = devices.iter().min_by_key(|device| device.len_bytes());
        let (path, have) =
            shortest.map_or_else(Default::default, |d| (d.path().to_path_buf(), d.len_bytes()));
        return Err(FolderError::TooShort { path, have, need: geometry::least_bytes(&wanted)? });
    };
    check_epochs(new, &wanted, &geometry)?;
    let places = paths.iter().map(|path| absolute_path(path).unwrap_or_else(|_| path.clone()));
    let places: Vec<PathBuf> = places.collect();
    places.iter().try_for_each(|path| one_line(path).map(drop))?;
    Ok((geometry, places, devices))
}

/// Refuses a device that is named twice, even by different names: the second opening would find it
/// in use by this process.
pub(crate) fn check_once(path: &Path, before: &[PathBuf]) -> Result<(), FolderError> {
    let Some(own) = identity_at(path) else { return Ok(()) };
    match before.iter().find(|other| identity_at(other) == Some(own)) {
        None => Ok(()),
        Some(other) => {
            let at = Site { device: path.to_path_buf(), op: OpKind::Open, offset_bytes: 0, len_bytes: 0 };
            Err(DeviceError::SameDevice { at, known_as: other.clone() }.into())
        }
    }
}

/// Returns the geometry of a volume of at least `user_bytes`.
fn sized(new: &NewFolder, volume: VolumeId, user_bytes: u64) -> Result<Geometry, FolderError> {
    let most_bytes = geometry::most_user_bytes(&new.code);
    if user_bytes > most_bytes {
        return Err(FolderError::TooLarge { user_bytes, most_bytes });
    }
    let wanted = new.wanted(volume);
    let geometry = geometry::for_user_bytes(&wanted, user_bytes)?;
    check_epochs(new, &wanted, &geometry)?;
    Ok(geometry)
}

fn made(folder: &Dir, new: &NewFolder, volume: VolumeId, user_bytes: u64) -> Result<NewParts, FolderError> {
    let geometry = sized(new, volume, user_bytes)?;
    let places: Vec<PathBuf> =
        (0..geometry.slots()).map(|slot| format!("device-{slot:02}.pantile").into()).collect();
    let mut devices: Vec<Arc<dyn Device>> = Vec::new();
    for (slot, place) in (0..).map(Slot).zip(&places) {
        let len = geometry.device_blocks(slot) * BLOCK as u64;
        match FileDevice::create_in(folder, place, &folder.called(place), len) {
            Ok(device) => devices.push(Arc::new(device)),
            Err(error) => {
                places[..devices.len()].iter().for_each(|path| drop(folder.remove(path)));
                return Err(error.into());
            }
        }
    }
    Ok((geometry, places, devices))
}

/// Refuses a device that is part of a volume or has data at its front.
fn check_blank(device: &dyn Device) -> Result<(), FolderError> {
    check_no_volume(device)?;
    let path = device.path().to_path_buf();
    let len = FRONT_BYTES.min(device.len_bytes()) as usize;
    let mut front = AlignedBuf::zeroed(len);
    device.read_at(0, front.whole_mut())?;
    match front.iter().any(|&byte| byte != 0) {
        true => Err(FolderError::HoldsData { path, holds: signature::of_front(&front) }),
        false => Ok(()),
    }
}

/// Refuses a device that is not empty, unless it is to be overwritten.
pub(crate) fn check_to_make(device: &dyn Device, overwrite: bool) -> Result<(), FolderError> {
    if overwrite { Ok(()) } else { check_blank(device) }
}

/// Refuses a device that is part of a volume.
pub(crate) fn check_no_volume(device: &dyn Device) -> Result<(), FolderError> {
    let path = device.path().to_path_buf();
    match newest_superblock(device, None) {
        Some(found) => Err(FolderError::HoldsVolume { path, volume: found.volume, name: found.name }),
        None => Ok(()),
    }
}

/// Overwrites superblocks and the front of a device with zeros, so that [`check_blank`] accepts it.
///
/// Errors: the device cannot be written.
pub fn wipe(device: &dyn Device) -> Result<(), FolderError> {
    let zeros = AlignedBuf::zeroed(FRONT_BYTES as usize);
    let wipe_block = |block: u64| device.write_at(block * BLOCK as u64, &[zeros.part(0..BLOCK)]);
    // The copy is wiped first, because the superblocks at the front name its place.
    all_superblocks(device).into_iter().rev().try_for_each(|(block, _)| wipe_block(block))?;
    let front = zeros.len().min(device.len_bytes() as usize);
    device.write_at(0, &[zeros.part(0..front)])?;
    if let Some(last) = (device.len_bytes() / BLOCK as u64).checked_sub(1) {
        wipe_block(last)?;
    }
    // Older copies can be stored before the last block. The loop ends even if a device does not
    // store what is written.
    for _ in 0..TAIL_BLOCKS {
        let Some((block, _)) = copy_near_end(device) else { break };
        wipe_block(block)?;
    }
    device.flush()?;
    Ok(())
}

fn write_new(
    root: &Path,
    new: &NewFolder,
    geometry: &Geometry,
    devices: &[Arc<dyn Device>],
) -> Result<(), FolderError> {
    let own = root.file_name().and_then(|name| name.to_str()).unwrap_or("volume");
    let mut name = new.name.clone().unwrap_or_else(|| own.to_owned());
    if new.name.is_none() {
        while name.len() > 64 {
            name.pop();
        }
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let created = now.map_or(0, |since| since.as_secs() as i64);
    let birth = Birth { history: fresh_history()?, name, created };
    let writes = format_volume(geometry, &birth)?;
    devices.iter().try_for_each(|device| wipe(device))?;
    for (slot, at, bytes) in writes {
        let mut buffer = AlignedBuf::zeroed(bytes.len());
        buffer.copy_from_slice(&bytes);
        devices[slot.0 as usize].write_at(at.0 * BLOCK as u64, &[buffer.whole()])?;
    }
    devices.iter().try_for_each(|device| device.flush())?;
    check_apart(devices)
}

/// Refuses exports that are one device: the superblock written to one appears on the other.
fn check_apart(devices: &[Arc<dyn Device>]) -> Result<(), FolderError> {
    let exports = (0..).map(Slot).zip(devices);
    let exports = exports.filter(|(_, device)| matches!(device.identity(), Identity::Server { .. }));
    for (slot, device) in exports {
        let found = newest_superblock(device, None).map(|found| found.slot);
        if let Some(other) = found.filter(|&found| found != slot) {
            let path = |slot: Slot| devices.get(slot.0 as usize).map(|device| device.path().to_path_buf());
            let device = device.path().to_path_buf();
            let at = Site { device, op: OpKind::Open, offset_bytes: 0, len_bytes: 0 };
            return Err(DeviceError::SameDevice { at, known_as: path(other).unwrap_or_default() }.into());
        }
    }
    Ok(())
}

/// Repairs damaged copies of the text of a code that no family names. While the volume runs, no
/// other access would detect that the last copy is lost.
fn mend_definitions(opened: &Opened) {
    if opened.superblock.definition.is_none() {
        return;
    }
    let devices = || opened.devices.iter().flatten();
    let areas: Vec<Option<AlignedBuf>> =
        devices().map(|device| definition_of(&opened.superblock, &Timely::of(device))).collect();
    let Some(whole) = areas.iter().flatten().next() else { return };
    for (device, _) in devices().zip(&areas).filter(|(_, area)| area.is_none()) {
        // Errors are ignored: the volume detects a device that fails.
        let asked = Timely::of(device);
        let _ = asked.write_at(DEFINITION_AT, &[whole.whole()]).and_then(|()| asked.flush());
    }
}
