//! A file layer over a real directory that counts, fails, fills up, and loses power.
//!
//! Operations are passed to the real files at once, so that the code under test sees a running
//! system. The layer also keeps the durable state: the content of each file as of its last sync,
//! and the names as of the last sync of their directory. A crash turns the real directory into one
//! of the possible states after a loss of power. That state has the first name changes since the
//! last sync, as many as a seed draws, and a seeded choice of the writes since the last sync of
//! each file, some of them torn.

use super::Seed;
use pantile_format::Timestamp;
use pantile_seal::disk::{
    Access, Disk, DiskFile, DiskSystem, Dress, FileId, Held, MadeRoot, Meta, Seen, SystemDisk,
};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

/// Faults to plant.
#[derive(Clone, Copy, Default)]
pub struct Faults {
    /// After this many changing operations each further one fails: the power is off.
    pub crash_after: Option<u64>,
    /// After this many operations writes fail because the disk is full; removing a file still
    /// works.
    pub full_after: Option<u64>,
    /// Files whose path has this ending cannot be opened, and directories not examined; with an
    /// empty ending no file can be opened.
    pub unreadable: Option<&'static str>,
    /// Offsets of bytes that cannot be read, each in the files whose path has this ending.
    pub bad_sectors: &'static [(&'static str, u64)],
    /// The number of the opening of a file for writing that fails, once.
    pub fails_to_open: Option<u64>,
    /// The free bytes that the layer reports.
    pub free: Option<u64>,
    /// A planted bug: syncs of files with this ending are skipped, but report success.
    pub skip_sync_of: Option<&'static str>,
    /// The umask that the layer reports.
    pub umask: Option<u32>,
    /// True to refuse changes of the owner of a file.
    pub owners_stay: bool,
    /// True to refuse symbolic links, as exFAT does.
    pub has_no_links: bool,
    /// A planted bug: the journal gets its name only after everything was applied.
    pub journal_late: bool,
    /// Device numbers that the layer reports for directories of these names and everything in them.
    pub devices: &'static [(&'static str, u64)],
}

/// A file that reports another device.
struct OnDevice {
    seen: Box<dyn Seen>,
    device: u64,
}

impl Seen for OnDevice {
    fn meta(&self) -> io::Result<Meta> {
        let meta = self.seen.meta()?;
        Ok(Meta { id: FileId { device: self.device, ..meta.id }, ..meta })
    }

    fn attributes(&self) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.seen.attributes()
    }

    fn names(&self) -> io::Result<Vec<PathBuf>> {
        self.seen.names()
    }

    fn target(&self) -> io::Result<PathBuf> {
        self.seen.target()
    }

    fn is_of_kernel(&self) -> bool {
        self.seen.is_of_kernel()
    }
}

#[derive(Clone)]
enum Change {
    Write(u64, Vec<u8>),
    Length(u64),
}

#[derive(Default, Clone)]
struct Content {
    durable: Vec<u8>,
    pending: Vec<Change>,
    meta: Option<(u32, Timestamp)>,
    /// The mtime that a write gave the file, unless one was set since. It may be lost before the
    /// next sync.
    written: Option<Timestamp>,
}

impl Content {
    fn make_durable(&mut self) {
        if let (Some(time), Some((_, mtime))) = (self.written.take(), &mut self.meta) {
            *mtime = time;
        }
        for change in std::mem::take(&mut self.pending) {
            match change {
                Change::Length(len) => self.durable.resize(len as usize, 0),
                Change::Write(at, new) => {
                    let end = at as usize + new.len();
                    if self.durable.len() < end {
                        self.durable.resize(end, 0);
                    }
                    self.durable[at as usize..end].copy_from_slice(&new);
                }
            }
        }
    }
}

#[derive(Clone)]
enum NameChange {
    Link(PathBuf, u64),
    Unlink(PathBuf),
    /// A rename, in one step: both names change, or neither.
    Move(PathBuf, PathBuf, u64),
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<PathBuf, u64>) {
        match self {
            NameChange::Link(path, number) => {
                names.insert(path.clone(), *number);
            }
            NameChange::Unlink(path) => {
                names.remove(path);
            }
            NameChange::Move(from, to, number) => {
                names.remove(from);
                names.insert(to.clone(), *number);
            }
        }
    }

    fn is_in(&self, dir: &Path) -> bool {
        let (NameChange::Link(path, _) | NameChange::Unlink(path) | NameChange::Move(_, path, _)) = self;
        path.parent() == Some(dir)
    }
}

#[derive(Default)]
struct State {
    /// Files by number.
    contents: HashMap<u64, Content>,
    next: u64,
    /// Names as the running system sees them; the next field has them as they are after a loss of
    /// power.
    names: BTreeMap<PathBuf, u64>,
    durable_names: BTreeMap<PathBuf, u64>,
    pending_names: Vec<NameChange>,
    operations: u64,
    syncs: u64,
    opened: u64,
    pub bytes_written: u64,
    pub bytes_read: BTreeMap<PathBuf, u64>,
    delayed: Option<(PathBuf, PathBuf)>,
}

pub struct FaultDisk {
    inner: SystemDisk,
    root: PathBuf,
    faults: Faults,
    state: Arc<Mutex<State>>,
}

/// The whole directory, as one file system.
struct FaultSystem {
    faults: Faults,
    state: Arc<Mutex<State>>,
}

struct FaultFile {
    inner: Box<dyn DiskFile>,
    path: PathBuf,
    number: u64,
    faults: Faults,
    state: Arc<Mutex<State>>,
}

impl FaultDisk {
    /// Creates a layer over everything below `root`, all of which counts as durable.
    pub fn new(root: &Path, faults: Faults) -> FaultDisk {
        let mut state = State::default();
        let mut todo = vec![root.to_path_buf()];
        while let Some(dir) = todo.pop() {
            for entry in fs::read_dir(&dir).unwrap() {
                let path = entry.unwrap().path();
                let meta = fs::symlink_metadata(&path).unwrap();
                if meta.is_dir() {
                    todo.push(path);
                } else if meta.is_file() {
                    let mtime = Timestamp { seconds: meta.mtime(), nanos: meta.mtime_nsec() as u32 };
                    let content = Content {
                        durable: fs::read(&path).unwrap(),
                        pending: vec![],
                        written: None,
                        meta: Some((meta.mode() & 0o7777, mtime)),
                    };
                    state.contents.insert(state.next, content);
                    state.names.insert(path, state.next);
                    state.next += 1;
                }
            }
        }
        state.durable_names = state.names.clone();
        FaultDisk {
            inner: SystemDisk::new(),
            root: root.to_path_buf(),
            faults,
            state: Arc::new(Mutex::new(state)),
        }
    }

    pub fn operations(&self) -> u64 {
        self.state.lock().unwrap().operations
    }

    /// Returns how often files, directories and file systems were made durable.
    pub fn syncs(&self) -> u64 {
        self.state.lock().unwrap().syncs
    }

    pub fn bytes_written(&self) -> u64 {
        self.state.lock().unwrap().bytes_written
    }

    /// Returns the bytes read from files whose path has this ending.
    pub fn bytes_read(&self, end: &str) -> u64 {
        let state = self.state.lock().unwrap();
        state
            .bytes_read
            .iter()
            .filter(|(path, _)| path.to_string_lossy().ends_with(end))
            .map(|(_, n)| n)
            .sum()
    }

    /// Loses power: the files below the root get one of the possible states afterwards.
    pub fn lose_power(self, seed: u64) {
        let mut seed = Seed(seed);
        let state = self.state.lock().unwrap();
        let mut names = state.durable_names.clone();
        let kept = seed.below(state.pending_names.len() as u64 + 1) as usize;
        for change in &state.pending_names[..kept] {
            change.apply(&mut names);
        }
        for path in state.names.keys().filter(|path| !names.contains_key(*path)) {
            let _ = fs::remove_file(path);
        }
        for (path, number) in &names {
            let content = &state.contents[number];
            let bytes = after_crash(content, &mut seed);
            if fs::read(path).ok().as_ref() != Some(&bytes) {
                let _ = fs::remove_file(path);
                fs::write(path, bytes).unwrap();
            }
            if let Some((mode, mtime)) = content.meta {
                let written = content.written.filter(|_| seed.below(2) == 0);
                set_meta(path, mode, written.unwrap_or(mtime));
            }
        }
        assert!(self.root.is_dir());
    }
}

fn set_meta(path: &Path, mode: u32, mtime: Timestamp) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let time = UNIX_EPOCH + Duration::new(mtime.seconds as u64, mtime.nanos);
    fs::File::open(path).unwrap().set_modified(time).unwrap();
}

/// Returns the durable content with a seeded choice of unsynced writes.
fn after_crash(content: &Content, seed: &mut Seed) -> Vec<u8> {
    let mut bytes = content.durable.clone();
    let all = seed.below(4) == 0;
    for change in &content.pending {
        let fate = if all { 0 } else { seed.below(3) };
        match (change, fate) {
            (_, 1) => {}
            (Change::Length(len), _) => bytes.resize(*len as usize, 0),
            (Change::Write(at, new), fate) => {
                // The write is torn at a sector.
                let keep = if fate == 2 {
                    (seed.below(new.len() as u64 / 512 + 1) * 512) as usize
                } else {
                    new.len()
                };
                let end = *at as usize + keep;
                if keep == 0 {
                    continue;
                }
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[*at as usize..end].copy_from_slice(&new[..keep]);
            }
        }
    }
    bytes
}

fn power_is_gone() -> io::Error {
    io::Error::other("the power is gone")
}

/// Counts a changing operation, and returns an error if it must fail.
fn count(state: &mut State, faults: &Faults, grows: bool) -> io::Result<()> {
    if faults.crash_after.is_some_and(|limit| state.operations >= limit) {
        return Err(power_is_gone());
    }
    if grows && faults.full_after.is_some_and(|limit| state.operations >= limit) {
        return Err(io::ErrorKind::StorageFull.into());
    }
    state.operations += 1;
    Ok(())
}

/// Records a rename that was done. Links are not tracked through a loss of power.
fn note_rename(state: &mut State, faults: &Faults, from: &Path, to: &Path) {
    let Some(number) = state.names.remove(from) else { return };
    state.names.insert(to.to_path_buf(), number);
    if faults.journal_late && to.to_string_lossy().ends_with(".journal") {
        state.delayed = Some((from.to_path_buf(), to.to_path_buf()));
        return;
    }
    state.pending_names.push(NameChange::Move(from.to_path_buf(), to.to_path_buf(), number));
}

impl FaultDisk {
    fn wrap(&self, path: &Path, inner: Box<dyn DiskFile>, number: u64) -> Box<dyn DiskFile> {
        let (path, faults, state) = (path.to_path_buf(), self.faults, self.state.clone());
        Box::new(FaultFile { inner, path, number, faults, state })
    }

    fn alive(&self) -> io::Result<()> {
        let state = self.state.lock().unwrap();
        match self.faults.crash_after.is_some_and(|limit| state.operations > limit) {
            true => Err(power_is_gone()),
            false => Ok(()),
        }
    }
}

impl Disk for FaultDisk {
    fn root(&self, path: &Path, access: Access) -> io::Result<PathBuf> {
        self.alive()?;
        self.inner.root(path, access)
    }

    fn root_through_no_link(&self, path: &Path, access: Access) -> io::Result<()> {
        self.inner.root_through_no_link(path, access)
    }

    fn make_root(&self, path: &Path, mode: u32) -> io::Result<MadeRoot> {
        self.alive()?;
        self.inner.make_root(path, mode)
    }

    fn unmake_root(&self, path: &Path) {
        if self.alive().is_ok() {
            self.inner.unmake_root(path);
        }
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.alive()?;
        if self.faults.unreadable.is_some_and(|end| path.to_string_lossy().ends_with(end)) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let inner = self.inner.open(path)?;
        let number = self.state.lock().unwrap().names.get(path).copied().unwrap_or(u64::MAX);
        Ok(self.wrap(path, inner, number))
    }

    fn open_write(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.alive()?;
        let mut state = self.state.lock().unwrap();
        state.opened += 1;
        if self.faults.fails_to_open == Some(state.opened) {
            return Err(io::Error::other("a cable is loose"));
        }
        let inner = self.inner.open_write(path)?;
        let number = state.names[path];
        drop(state);
        Ok(self.wrap(path, inner, number))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state.lock().unwrap();
        count(&mut state, &self.faults, true)?;
        let inner = self.inner.create(path)?;
        let number = state.next;
        state.next += 1;
        state.contents.insert(number, Content::default());
        state.names.insert(path.to_path_buf(), number);
        state.pending_names.push(NameChange::Link(path.to_path_buf(), number));
        drop(state);
        Ok(self.wrap(path, inner, number))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        count(&mut state, &self.faults, false)?;
        self.inner.rename(from, to)?;
        note_rename(&mut state, &self.faults, from, to);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        count(&mut state, &self.faults, false)?;
        self.inner.remove(path)?;
        state.names.remove(path);
        if let Some((from, to)) = state.delayed.take_if(|(_, to)| to == path) {
            state.pending_names.push(NameChange::Unlink(from));
            state.pending_names.push(NameChange::Unlink(to));
            return Ok(());
        }
        state.pending_names.push(NameChange::Unlink(path.to_path_buf()));
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        count(&mut state, &self.faults, false)?;
        state.syncs += 1;
        let (here, elsewhere): (Vec<NameChange>, Vec<NameChange>) =
            state.pending_names.drain(..).partition(|change| change.is_in(path));
        state.pending_names = elsewhere;
        here.iter().for_each(|change| change.apply(&mut state.durable_names));
        Ok(())
    }

    fn open_system(&self, _dir: &Path) -> io::Result<Box<dyn DiskSystem>> {
        self.alive()?;
        Ok(Box::new(FaultSystem { faults: self.faults, state: self.state.clone() }))
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        self.alive()?;
        self.inner.make_dir(path)
    }

    fn mount_point(&self, path: &Path) -> PathBuf {
        let is_one = |above: &&Path| self.faults.devices.iter().any(|(dir, _)| above.ends_with(dir));
        path.ancestors().find(is_one).unwrap_or(Path::new("/")).to_path_buf()
    }

    fn look(&self, path: &Path) -> io::Result<Box<dyn Seen>> {
        self.alive()?;
        let is_unreadable = |end: &str| !end.is_empty() && path.to_string_lossy().ends_with(end);
        if path.is_dir() && self.faults.unreadable.is_some_and(is_unreadable) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let seen = self.inner.look(path)?;
        let is_on = |(dir, _): &&(&str, u64)| path.iter().any(|name| name == OsStr::new(dir));
        Ok(match self.faults.devices.iter().find(is_on) {
            Some(&(_, device)) => Box::new(OnDevice { seen, device }),
            None => seen,
        })
    }

    fn add_name(&self, path: &Path, name: &Path) -> io::Result<()> {
        // The new name is durable at once in this layer: it protects content, and is not required
        // to be durable.
        count(&mut self.state.lock().unwrap(), &self.faults, false)?;
        self.inner.add_name(path, name)
    }

    fn make_private_dir(&self, path: &Path) -> io::Result<FileId> {
        self.alive()?;
        self.inner.make_private_dir(path)
    }

    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.alive()?;
        let inner = self.inner.open_dir(path)?;
        Ok(self.wrap(path, inner, u64::MAX))
    }

    fn make_link(&self, target: &Path, path: &Path, dress: Dress) -> io::Result<()> {
        self.alive()?;
        if self.faults.has_no_links {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.inner.make_link(target, path, dress)
    }

    fn set_time(&self, path: &Path, mtime: Timestamp) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        count(&mut state, &self.faults, false)?;
        self.inner.set_time(path, mtime)?;
        Ok(())
    }

    fn way(&self, dir: &Path) -> io::Result<Vec<Meta>> {
        self.alive()?;
        self.inner.way(dir)
    }

    fn lock(&self, dir: &Path) -> io::Result<Option<Box<dyn Held>>> {
        self.inner.lock(dir)
    }

    fn is_locked(&self, dir: &Path) -> bool {
        self.inner.is_locked(dir)
    }

    fn umask(&self) -> u32 {
        self.faults.umask.unwrap_or_else(|| self.inner.umask())
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.faults.free.map_or_else(|| self.inner.free_bytes(path), Ok)
    }
}

impl DiskSystem for FaultSystem {
    fn sync(&self) -> io::Result<()> {
        let mut guard = self.state.lock().unwrap();
        let state = &mut *guard;
        count(state, &self.faults, false)?;
        state.syncs += 1;
        let skipped = |path: &PathBuf| {
            self.faults.skip_sync_of.is_some_and(|end| path.to_string_lossy().ends_with(end))
        };
        let left: Vec<u64> =
            state.names.iter().filter(|(path, _)| skipped(path)).map(|(_, number)| *number).collect();
        for (number, content) in &mut state.contents {
            if !left.contains(number) {
                content.make_durable();
            }
        }
        let names = std::mem::take(&mut state.pending_names);
        names.iter().for_each(|change| change.apply(&mut state.durable_names));
        Ok(())
    }
}

impl DiskFile for FaultFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let is_here = |(end, at): &&(&str, u64)| {
            self.path.to_string_lossy().ends_with(end) && (offset..offset + bytes.len() as u64).contains(at)
        };
        if self.faults.bad_sectors.iter().any(|sector| is_here(&sector)) {
            return Err(io::Error::from_raw_os_error(5));
        }
        let have = self.inner.read_at(bytes, offset)?;
        let mut state = self.state.lock().unwrap();
        *state.bytes_read.entry(self.path.clone()).or_default() += have as u64;
        Ok(have)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        let torn = self.faults.crash_after == Some(state.operations);
        if let Err(error) = count(&mut state, &self.faults, true) {
            // The write during which the power was lost may have happened in part.
            if torn {
                let content = state.contents.get_mut(&self.number).unwrap();
                content.pending.push(Change::Write(offset, bytes.to_vec()));
                state.operations += 1;
            }
            return Err(error);
        }
        self.inner.write_at(bytes, offset)?;
        state.bytes_written += bytes.len() as u64;
        let content = state.contents.get_mut(&self.number).unwrap();
        content.written = Some(self.inner.meta()?.mtime);
        content.pending.push(Change::Write(offset, bytes.to_vec()));
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        count(&mut state, &self.faults, false)?;
        self.inner.set_len(len)?;
        state.contents.get_mut(&self.number).unwrap().pending.push(Change::Length(len));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        count(&mut state, &self.faults, false)?;
        state.syncs += 1;
        if self.faults.skip_sync_of.is_some_and(|end| self.path.to_string_lossy().ends_with(end)) {
            return Ok(());
        }
        state.contents.get_mut(&self.number).unwrap().make_durable();
        Ok(())
    }

    fn write_back(&self) -> io::Result<()> {
        self.inner.write_back()
    }

    fn meta(&self) -> io::Result<Meta> {
        self.inner.meta()
    }

    fn set_meta(&self, mode: u32, mtime: Timestamp) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        count(&mut state, &self.faults, false)?;
        self.inner.set_meta(mode, mtime)?;
        // A directory has no content.
        if let Some(content) = state.contents.get_mut(&self.number) {
            (content.meta, content.written) = (Some((mode, mtime)), None);
        }
        Ok(())
    }

    fn beside(&self, name: Option<&OsStr>) -> io::Result<Box<dyn Seen>> {
        self.inner.beside(name)
    }

    fn attributes(&self) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.inner.attributes()
    }

    fn set_attribute(&self, name: &[u8], value: Option<&[u8]>) -> io::Result<()> {
        self.inner.set_attribute(name, value)
    }

    fn set_owner(&self, owner: u32, group: u32) -> io::Result<()> {
        match self.faults.owners_stay {
            true => Err(io::ErrorKind::PermissionDenied.into()),
            false => self.inner.set_owner(owner, group),
        }
    }

    fn discard(&self) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        count(&mut state, &self.faults, false)?;
        self.inner.discard()?;
        state.names.remove(&self.path);
        state.pending_names.push(NameChange::Unlink(self.path.clone()));
        Ok(())
    }

    fn give_name(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        count(&mut state, &self.faults, false)?;
        self.inner.give_name(path)?;
        note_rename(&mut state, &self.faults, &self.path, path);
        Ok(())
    }

    fn give_free_name(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        count(&mut state, &self.faults, false)?;
        self.inner.give_free_name(path)?;
        note_rename(&mut state, &self.faults, &self.path, path);
        Ok(())
    }
}
