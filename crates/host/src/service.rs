//! A volume with its folder: executes orders, uses spares, and records the path of each device.
//!
//! The same code is used for a served volume, whose orders come over the control socket, and for
//! one that is opened for a single command.

mod care;
mod checks;
mod known;
mod mishap;
mod overwritten;
mod replacing;
mod returning;
mod status;
mod strays;
mod verifying;

use self::checks::{check_absolute, check_every_len, check_len, check_strange, is_rebuilt, takes_part};
use self::known::{Held, Known};
use self::mishap::{Mishaps, Part, Planted};
use self::overwritten::Overwritten;
use self::replacing::Replacement;
use self::returning::Returning;
use self::strays::Strays;
use self::verifying::Proof;
use crate::Place;
use crate::claim::{self, Own};
use crate::config::SPARES_MAX;
use crate::control::{Answer, Order};
use crate::engine::unix_time;
use crate::folder::{Folder, Opened, check_no_volume, check_to_make, ran_separately, wipe};
use crate::health;
use crate::locks::{lock, wait_for};
use crate::opening::{CLOSING, identity_soon, open_soon};
use crate::superblocks::newest_superblock_of;
use crate::text::quoted;
use crate::timely::Timely;
use crate::{
    EpochId, EpochOptions, FolderError, Handle, Host, HostError, HostOptions, MemberReport, OnTimeout, Report,
};
use pantile_code::CellIndex;
use pantile_device::Device;
use pantile_format::volume::{Claim, Claimant, Superblock};
use pantile_volume::{
    Bearing, DeviceState, DeviceStatus, EventKind, Found, Geometry, Losses, Reason, Scrub, Slot,
};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Interval of the maintenance turns ([`Service::look_after`]).
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Number of intervals over which a rate is computed.
const SAMPLES: usize = 20;

/// Text for the case that a failed volume is in service again.
const BACK: &str = "The volume is back in service: clients have to connect again, and writes that were not flushed are lost.";

/// A volume with its folder.
pub struct Service {
    /// The running volume; it is exchanged when a failed volume is opened again.
    running: Mutex<Arc<Host>>,
    options: Option<HostOptions>,
    geometry: Geometry,
    superblock: Superblock,
    only_looks: bool,
    /// True if the volume is served read-only.
    reads_only: bool,
    /// For a volume that is only reported on: a claim that was not given back, and whether its
    /// claimant serves, if that is known.
    claimed: Option<(Option<bool>, Claim)>,
    state: Mutex<State>,
    /// Copy of the state for status reports.
    known: Mutex<Arc<Known>>,
    /// True while the volume is being opened again.
    revives: AtomicBool,
    /// Path of the folder.
    root: PathBuf,
    ending: Mutex<bool>,
    ended: Condvar,
    mishaps: Mishaps,
    planted: Planted,
}

struct State {
    /// The folder; `None`: it was given back.
    folder: Option<Folder>,
    devices: Vec<Option<Arc<dyn Device>>>,
    spares: Vec<(PathBuf, Arc<dyn Device>)>,
    /// Spares that cannot be used, with the reason.
    bad_spares: BTreeMap<PathBuf, String>,
    problems: BTreeMap<u32, String>,
    /// By slot, the replacement of a device that still works.
    replacements: BTreeMap<u32, Replacement>,
    /// Samples for rates: a time, the number of rebuilt stripes and of written blocks.
    samples: VecDeque<(Instant, u64, u64)>,
    /// The time since which clients are served, and the deaths of earlier servers.
    serves: Option<(Instant, Deaths)>,
    /// True if a device that is far slower than the others is to be given up.
    evicts_slow: bool,
    strays: Strays,
    returning: Returning,
    /// By slot, the verification of a device that became a member as the copy of another one.
    proofs: BTreeMap<u32, Proof>,
    overwritten: Overwritten,
}

/// Numbers of deaths of a volume's servers since it was first served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deaths {
    /// Deaths because of a bug of the server.
    pub of_its_own: u32,
    /// Deaths of the NBD server when a client went away with pending requests; these are not in
    /// `of_its_own`.
    pub by_clients: u32,
}

impl State {
    /// Takes over the devices of an opening.
    fn take(
        &mut self,
        devices: Vec<Option<Arc<dyn Device>>>,
        joining: Vec<(Slot, Arc<dyn Device>)>,
        problems: BTreeMap<u32, String>,
    ) {
        (self.devices, self.problems) = (devices, problems);
        for (slot, device) in joining {
            self.devices[slot.0 as usize] = Some(device);
        }
        let State { devices, problems, .. } = self;
        // A present device has no problem.
        problems.retain(|&slot, _| devices.get(slot as usize).is_none_or(Option::is_none));
        self.samples.clear();
        (self.proofs, self.overwritten) = (BTreeMap::new(), Overwritten::default());
    }

    /// Closes devices that ran separately and that the volume does not use. Nothing is written to
    /// them before the operator orders it.
    fn leave_those_apart(&mut self, host: &Host, vol: &str) {
        let Ok(Report { status, .. }) = host.report() else { return };
        for (slot, history) in status.apart {
            let _ = host.fail(slot);
            self.devices[slot.0 as usize] = None;
            let what_to_do =
                format!("'pantile replace {vol} {} NEW --yes' with it or another rebuilds it", slot.0);
            let why = ran_separately(history, status.histories_forgotten);
            self.problems.insert(slot.0, format!("{why}, and is left as it is; {what_to_do}"));
        }
    }

    /// Refuses to format devices that a folder of another user names.
    fn check_formatting(&self) -> Result<(), FolderError> {
        self.folder.as_ref().map_or(Ok(()), Folder::check_formatting)
    }

    /// Opens the spares that the folder lists.
    fn open_spares(&mut self, geometry: &Geometry) {
        // Open spares are closed first; otherwise this process itself would have their files in
        // use.
        (self.spares, self.bad_spares) = (Vec::new(), BTreeMap::new());
        let Some(folder) = &self.folder else { return };
        let closed = Instant::now() + CLOSING;
        for path in &folder.config().spares {
            let tried = open_soon(&folder.path(path), closed).map_err(FolderError::from);
            // The path may now refer to another device, which the operator has not offered.
            let is_good = |device: &Arc<dyn Device>| {
                folder.check_formatting()?;
                check_every_len(geometry, device)?;
                check_to_make(&Timely::of(device), false)
            };
            match tried.and_then(|device| is_good(&device).map(|()| device)) {
                Ok(device) => self.spares.push((path.clone(), device)),
                Err(error) => drop(self.bad_spares.insert(path.clone(), error.to_string())),
            }
        }
    }
}

impl Service {
    /// Opens the volume of a folder for reads and writes.
    pub fn start(mut folder: Folder, options: Option<HostOptions>) -> Result<Service, FolderError> {
        let (host, opened) = folder.host(options.clone())?;
        let left_behind = opened.left_behind;
        let service = Service::with(folder, (host, options), opened, false);
        if left_behind {
            let _ = service.host().note_event(None, EventKind::SERVER_KILLED, (Reason::NONE, 0));
        }
        service.look_after();
        Ok(service)
    }

    /// Opens the volume of a folder to report its state. Nothing is written to its devices, and
    /// only [`Order::Status`] is executed.
    pub fn look(mut folder: Folder) -> Result<Service, FolderError> {
        let (host, opened) = folder.look()?;
        let claimed = match claim::newest_held(&opened.devices, &opened.superblock) {
            Some(claim) => Some((Own::new()?.serves(&claim.claimant), claim)),
            None => None,
        };
        Ok(Service { claimed, ..Service::with(folder, (host, None), opened, true) })
    }

    /// Opens the volume of a folder read-only. Nothing is written, so neither its devices nor the
    /// folder need be writable.
    pub fn start_to_read(mut folder: Folder, options: Option<HostOptions>) -> Result<Service, FolderError> {
        let (host, opened) = folder.host_to_read(options.clone())?;
        Ok(Service { reads_only: true, ..Service::with(folder, (host, options), opened, true) })
    }

    fn with(
        folder: Folder,
        (host, options): (Host, Option<HostOptions>),
        opened: Opened,
        only_looks: bool,
    ) -> Service {
        let root = folder.root().to_path_buf();
        let mut state = State {
            folder: Some(folder),
            devices: Vec::new(),
            spares: Vec::new(),
            bad_spares: BTreeMap::new(),
            problems: BTreeMap::new(),
            replacements: BTreeMap::new(),
            samples: VecDeque::new(),
            serves: None,
            evicts_slow: false,
            strays: Strays::default(),
            returning: Returning::default(),
            proofs: BTreeMap::new(),
            overwritten: Overwritten::default(),
        };
        state.open_spares(&opened.geometry);
        state.take(opened.devices, opened.joining, opened.problems);
        state.leave_those_apart(&host, &quoted(&root));
        Service {
            running: Mutex::new(Arc::new(host)),
            options,
            geometry: opened.geometry,
            superblock: opened.superblock,
            only_looks,
            reads_only: false,
            claimed: None,
            known: Mutex::new(Arc::new(Known::of(&state))),
            state: Mutex::new(state),
            revives: AtomicBool::new(false),
            root,
            ending: Mutex::new(false),
            ended: Condvar::new(),
            mishaps: Mishaps::default(),
            planted: Planted::default(),
        }
    }

    /// Returns the folder in shell syntax, for the commands in messages.
    fn vol(&self) -> String {
        quoted(&self.root)
    }

    /// Returns a client's handle.
    pub fn handle(&self) -> Handle {
        self.host().handle()
    }

    /// Records that this process serves clients from now on, and the deaths of earlier servers.
    pub fn serves(&self, deaths: Deaths) {
        self.lock().serves = Some((Instant::now(), deaths));
    }

    /// Sets whether a device that is far slower than the others is given up, if one more device can
    /// be lost afterwards.
    pub fn evict_slow(&self, evicts_slow: bool) -> Result<(), FolderError> {
        self.lock().evicts_slow = evicts_slow;
        Ok(self.host().set_evicts_slow(evicts_slow)?)
    }

    /// Returns the running volume.
    pub fn host(&self) -> Arc<Host> {
        lock(&self.running).clone()
    }

    /// Maintains the volume until its end is requested. `false`: its engine has panicked, so that
    /// only another process can open it again.
    pub fn wait_for_end(&self) -> bool {
        let mut ending = lock(&self.ending);
        while !*ending {
            ending = wait_for(&self.ended, ending, LOOK_EVERY);
            if !*ending {
                drop(ending);
                if self.host().has_panicked() {
                    return false;
                }
                self.look_after();
                ending = lock(&self.ending);
            }
        }
        true
    }

    /// Returns the host that has taken the volume from this server and so ended it.
    pub fn taken_by(&self) -> Option<Claimant> {
        self.host().taken_by()
    }

    /// Requests the end: [`wait_for_end`](Self::wait_for_end) returns.
    pub fn end(&self) {
        *lock(&self.ending) = true;
        self.ended.notify_all();
    }

    /// Makes all writes durable, closes the devices and gives the folder back.
    pub fn stop(&self) -> Result<(), FolderError> {
        self.end();
        self.host().hurry();
        self.look_after();
        // The clients that began these epochs have gone.
        for epoch in self.host().report().map(|report| report.epochs).unwrap_or_default() {
            let (handle, id) = (self.host().handle(), EpochId(epoch.epoch));
            let sealed = epoch.on_timeout == OnTimeout::Seal && handle.close_epoch(id, true).is_ok();
            if !sealed {
                // The epoch has ended already, or is to be aborted.
                let _ = handle.close_epoch(id, false);
            }
        }
        // The copies are restarted when the volume is opened again.
        let copies = std::mem::take(&mut self.lock().replacements);
        let stopped = self.host().stop();
        drop(copies);
        let mut state = self.lock();
        if stopped.is_ok() && !self.only_looks && !self.reads_only && self.host().taken_by().is_none() {
            let State { folder, devices, .. } = &*state;
            folder.iter().for_each(|folder| folder.release(devices, &self.superblock));
        }
        state.devices.clear();
        state.spares.clear();
        state.folder = None;
        stopped.map_err(FolderError::from)
    }

    /// Takes the lock. If a panic has poisoned it, the state is repaired first.
    fn lock(&self) -> Held<'_> {
        let state = self.state.lock().unwrap_or_else(|poisoned| {
            let mut state = poisoned.into_inner();
            self.put_in_order(&mut state);
            self.state.clear_poison();
            state
        });
        Held { service: self, state }
    }

    /// Executes an order. If the execution panics, that is a bug of this program: the answer says
    /// so, and the service continues.
    pub fn obey(&self, order: &Order) -> Answer {
        let obeyed = self.mishaps.guard(Part::Orders, || self.obey_it(order));
        obeyed.unwrap_or_else(|_| Answer::own_fault(&self.vol()))
    }

    fn obey_it(&self, order: &Order) -> Answer {
        let done = |text: String| Answer::Done { text };
        if self.reads_only && !matches!(order, Order::Status | Order::Stop) {
            return Answer::fault_of(&FolderError::ReadOnly, &self.vol());
        }
        let result = match order {
            Order::Status => self.status().map(|report| Answer::Status(Box::new(report))),
            Order::Stop => {
                self.host().hurry();
                self.host().handle().flush().map_err(FolderError::from).map(|()| done("Stopping.".into()))
            }
            Order::Fail { device, lose_data } => self.fail(*device, *lose_data).map(done),
            Order::Replace { device, path, overwrite } => self.replace(*device, path, *overwrite).map(done),
            Order::CancelReplace { device } => self.cancel_replace(*device).map(done),
            Order::AddSpare { path, overwrite } => self.add_spare(path, *overwrite).map(done),
            Order::RemoveSpare { path } => self.remove_spare(path).map(done),
            Order::Rebuild { throttle_bytes_per_s } => self.rebuild(*throttle_bytes_per_s).map(done),
            Order::ScrubStart { repair } => {
                let what = if *repair { "Scrubbing, and repairing bad blocks." } else { "Scrubbing." };
                self.scrub(Scrub::Start { repair: *repair }, what).map(done)
            }
            Order::ScrubPause => self.order_scrub(Scrub::Pause, "The scrub waits.").map(done),
            Order::ScrubResume => self.order_scrub(Scrub::Resume, "The scrub goes on.").map(done),
            Order::ScrubStop => self.order_scrub(Scrub::Stop, "The scrub has ended.").map(done),
            Order::ClearErrors { device } => self.clear_errors(*device).map(done),
            Order::DelayedStart {
                offset,
                len_bytes,
                owed_bytes_max,
                age_max_s,
                idle_max_s,
                on_timeout,
                ..
            } => {
                let defaults = EpochOptions::default();
                let handle = self.host().handle();
                let offset = offset.unwrap_or(0);
                let len = len_bytes.unwrap_or(handle.len_bytes().saturating_sub(offset));
                let time = |seconds: &Option<u64>, default| match seconds {
                    Some(0) => None,
                    Some(seconds) => Some(Duration::from_secs(*seconds)),
                    None => default,
                };
                let options = EpochOptions {
                    range: Some((offset, len)),
                    owed_bytes_max: owed_bytes_max.unwrap_or(defaults.owed_bytes_max),
                    age_max: time(age_max_s, defaults.age_max),
                    idle_max: time(idle_max_s, defaults.idle_max),
                    on_timeout: on_timeout.unwrap_or(defaults.on_timeout),
                };
                handle.begin(&options).map_err(FolderError::from).map(|epoch| {
                    let (offset, len_bytes) = epoch.range();
                    Answer::Epoch { epoch: epoch.detach().0, offset, len_bytes }
                })
            }
            Order::DelayedEnd { epoch } => {
                let ended =
                    self.host().handle().close_epoch(EpochId(*epoch), true).map_err(FolderError::from);
                ended.map(|()| done(format!("Epoch {epoch} is sealed.")))
            }
            Order::DelayedAbort { epoch } => {
                let ended =
                    self.host().handle().close_epoch(EpochId(*epoch), false).map_err(FolderError::from);
                ended.map(|()| done(format!("Epoch {epoch} is aborted; everything is as before it.")))
            }
        };
        result.unwrap_or_else(|error| Answer::fault_of(&error, &self.vol()))
    }

    fn scrub(&self, what: Scrub, text: &str) -> Result<String, FolderError> {
        if matches!(what, Scrub::Start { .. } | Scrub::Resume) && self.host().report()?.status.failed {
            return Err(HostError::Failed(pantile_volume::Failure::NotDurable).into());
        }
        self.host().scrub(what)?;
        Ok(text.to_owned())
    }

    /// Clears the errors of a device, durably.
    fn clear_errors(&self, device: u32) -> Result<String, FolderError> {
        self.host().clear_errors(Slot(device))?;
        self.host().handle().flush()?;
        let mut state = self.lock();
        if state.devices.get(device as usize).is_some_and(Option::is_some) {
            state.problems.remove(&device);
        }
        drop(state);
        Ok(format!("Errors of device {device} are counted from now on."))
    }

    /// Starts, pauses, resumes or stops a scrub.
    fn order_scrub(&self, what: Scrub, text: &str) -> Result<String, FolderError> {
        match self.host().report()?.status.scrub {
            Some(scrub) if scrub.running => self.scrub(what, text),
            _ => Err(FolderError::NoScrub),
        }
    }

    fn slot(&self, device: u32) -> Result<Slot, FolderError> {
        let devices = self.geometry.slots();
        if (device as usize) < devices {
            Ok(Slot(device))
        } else {
            Err(FolderError::NoSuchDevice { device, devices })
        }
    }

    fn fail(&self, device: u32, lose_data: bool) -> Result<String, FolderError> {
        let slot = self.slot(device)?;
        let mut state = self.lock();
        if !lose_data {
            self.check_survived(&state, slot)?;
        }
        // The folder is changed first, so that a command that fails has changed nothing.
        self.forget(&mut state, slot)?;
        self.host().fail(slot)?;
        state.problems.insert(device, "declared failed by its operator".into());
        drop(state);
        self.look_after();
        Ok(format!("Device {device} is out of the volume."))
    }

    /// Refuses to remove a device if that makes data unreadable which can be read now.
    fn check_survived(&self, state: &State, slot: Slot) -> Result<(), FolderError> {
        let report = self.host().report()?;
        let devices = || report.status.devices.iter();
        // A stray will be gone when this server ends; an overwritten device has no data.
        let is_lost = |d: &&DeviceStatus| {
            let is_to_go = [&state.strays.problems, &state.overwritten.problems];
            d.state != DeviceState::Present || is_to_go.iter().any(|those| those.contains_key(&d.slot.0))
        };
        let lost: Vec<Slot> = devices().filter(is_lost).map(|d| d.slot).filter(|&one| one != slot).collect();
        let without = |slot: Slot| {
            let also: Vec<Slot> = lost.iter().copied().chain([slot]).collect();
            self.host().losses(also)
        };
        let (before, after) = (self.host().losses(Vec::new())?, without(slot)?);
        let is_worse =
            |after: Losses| !after.bears || after.stripes > 0 || after.log_blocks > before.log_blocks;
        if devices().any(|d| d.slot == slot && d.state == DeviceState::Lost) || !is_worse(after) {
            return Ok(());
        }
        let mut instead = Vec::new();
        for device in devices().filter(|d| d.state == DeviceState::Present && d.slot != slot) {
            if !is_worse(without(device.slot)?) {
                instead.push(device.slot);
            }
        }
        let Losses { bears, stripes, log_blocks } = after;
        Err(FolderError::WouldLose { slot, bears, stripes, log_blocks, instead })
    }

    /// Records that a device was removed on purpose, so that the next start does not bring it back.
    fn forget(&self, state: &mut State, slot: Slot) -> Result<(), FolderError> {
        let folder = state.folder.as_mut().ok_or(HostError::Stopped)?;
        folder.change(|config| config.declare_failed(slot.0))?;
        state.devices[slot.0 as usize] = None;
        Ok(())
    }

    /// Replaces a device. The new one is checked completely, and prepared, before the old one is
    /// touched.
    fn replace(&self, device: u32, path: &Path, overwrite: bool) -> Result<String, FolderError> {
        let slot = self.slot(device)?;
        check_absolute(path)?;
        let mut state = self.lock();
        self.planted.panic_in(Part::Orders);
        let report = self.host().report()?;
        let member = &report.members[slot.0 as usize];
        let own = state.devices[slot.0 as usize].as_ref().map(|own| own.identity());
        let is_own = member.attached && own.is_some() && identity_soon(path) == own;
        if is_own && Service::is_being_replaced(&state, slot) {
            // The given device is that of the slot, so its replacement is no longer wanted.
            return self.cancel_in(&mut state, slot);
        }
        check_strange(&state, &report, path)?;
        if !member.attached {
            // The given device may be the one that was given up, which this process may still have
            // open.
            state.devices[slot.0 as usize] = None;
        }
        let whole = |device: &DeviceStatus| device.slot == slot && device.state == DeviceState::Present;
        // An intact device stays until the new one is complete, so the volume need not spare it.
        let stays =
            takes_part(&report, slot) && !report.status.failed && report.status.devices.iter().any(whole);
        if !stays {
            self.check_dispensable(&state, &report, slot)?;
        }
        let new = open_soon(path, Instant::now() + CLOSING)?;
        let asked = Timely::of(&new);
        let found = match takes_part(&report, slot) {
            // The device of the slot is present. So another one with its identity is a copy, and no
            // record says what that lacks.
            true => Found::Blank,
            false => self.found(slot, &asked)?,
        };
        // Errors that no confirmation overrides come first.
        self.check_len(slot, &*new)?;
        match found {
            Found::Blank => {
                state.check_formatting()?;
                let own = newest_superblock_of(&asked, &self.geometry).filter(|own| own.slot == slot);
                if let (Some(_), false, false) = (own, overwrite, takes_part(&report, slot)) {
                    return Err(FolderError::IsOlder { path: path.to_path_buf(), slot });
                }
                check_to_make(&asked, overwrite)?;
            }
            Found::Stale => {}
        }
        let has_failed = report.status.failed;
        if found == Found::Blank {
            if has_failed && let Err(why) = self.attached(&state).and_then(|here| self.check_opens(here)) {
                return Err(FolderError::HasFailed { why: Box::new(why) });
            }
            if !stays && !overwrite && !self.tolerates_losses(&report) {
                return Err(FolderError::NeedsTheOld { slot });
            }
            wipe(&asked)?;
        }
        // The device must be closed before the volume can be opened again.
        drop(asked);
        if stays {
            if Service::is_being_replaced(&state, slot) {
                self.cancel_replacing(&mut state, slot)?;
            }
            self.begin_replacing(&mut state, slot, path, new)?;
            return Ok(format!(
                "{} becomes a copy of device {device}, which stays in the volume until the copy is whole.",
                path.display()
            ));
        }
        let (again, becomes) = match found {
            Found::Blank => ("now", "is being rebuilt"),
            Found::Stale if is_another(member, &*new) => ("again", "is being caught up, then verified"),
            Found::Stale => ("again", "is being caught up"),
        };
        self.put(&mut state, slot, path, new, found)?;
        let is = format!("{} is device {device} {again}", path.display());
        Ok(match has_failed {
            false => format!("{is} and {becomes}."),
            true => match self.revive(&mut state) {
                Ok(()) => format!("{is} and {becomes}. {BACK}"),
                Err(why) => format!("{is}. The volume is not back in service: {why}."),
            },
        })
    }

    /// Cancels the copy that is to replace a device.
    fn cancel_replace(&self, device: u32) -> Result<String, FolderError> {
        let slot = self.slot(device)?;
        self.cancel_in(&mut self.lock(), slot)
    }

    fn cancel_in(&self, state: &mut State, slot: Slot) -> Result<String, FolderError> {
        let new = self.cancel_replacing(state, slot)?;
        Ok(format!("Device {} stays; {} is not part of the volume.", slot.0, new.display()))
    }

    /// Returns the attached devices, by slot.
    fn attached(&self, state: &State) -> Result<Vec<Option<Arc<dyn Device>>>, FolderError> {
        let members = self.host().report()?.members;
        let devices = state.devices.iter().zip(members);
        Ok(devices.map(|(device, member)| device.clone().filter(|_| member.attached)).collect())
    }

    /// Refuses devices with which the volume could not be opened.
    fn check_opens(&self, devices: Vec<Option<Arc<dyn Device>>>) -> Result<(), FolderError> {
        let is_here: Vec<bool> = devices.iter().map(Option::is_some).collect();
        let host =
            Host::look(self.geometry.clone(), devices, &HostOptions::for_devices(self.geometry.slots()))?;
        let status = host.report()?.status;
        if !status.failed {
            return Ok(());
        }
        let absent = status.devices.iter().filter(|device| device.state != DeviceState::Present);
        let (here, gone) = absent.map(|device| device.slot).partition(|slot| is_here[slot.0 as usize]);
        Err(FolderError::Lacking { here, gone })
    }

    /// Opens a failed volume again, from the present devices, as a start of the server would.
    ///
    /// Unflushed writes are lost with the engine that failed. They were acknowledged, so a later
    /// flush must not tell their clients that they are durable: old handles return
    /// [`HostError::Stopped`] for ever, and clients that reconnect get new ones.
    ///
    /// Errors: the volume cannot be opened. It stays as it was, for reads of the remaining data.
    fn revive(&self, state: &mut State) -> Result<(), FolderError> {
        self.check_opens(self.attached(state)?)?;
        self.open_again(state)
    }

    /// Opens the volume from the devices that the folder lists, and exchanges the running one for
    /// it.
    fn open_again(&self, state: &mut State) -> Result<(), FolderError> {
        self.revives.store(true, Ordering::Release);
        let revived = self.open_anew(state);
        self.revives.store(false, Ordering::Release);
        revived
    }

    fn open_anew(&self, state: &mut State) -> Result<(), FolderError> {
        state.replacements.clear();
        self.host().kill();
        state.devices.clear();
        let folder = state.folder.as_mut().ok_or(HostError::Stopped)?;
        let opened = folder.host(self.options.clone());
        let (host, opened) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                state.devices = vec![None; self.geometry.slots()];
                return Err(error);
            }
        };
        state.take(opened.devices, opened.joining, opened.problems);
        let _ = host.set_evicts_slow(state.evicts_slow);
        state.leave_those_apart(&host, &self.vol());
        *lock(&self.running) = Arc::new(host);
        Ok(())
    }

    /// Refuses to remove an intact device if that would make data unreadable.
    fn check_dispensable(&self, state: &State, report: &Report, slot: Slot) -> Result<(), FolderError> {
        let mut devices = report.status.devices.iter();
        let is_whole = devices.any(|d| d.slot == slot && d.state == DeviceState::Present);
        match is_whole && self.check_survived(state, slot).is_err() {
            true => Err(FolderError::Needed { slot }),
            false => Ok(()),
        }
    }

    /// Returns true if all data can be read without the devices that are lost or not rebuilt
    /// completely.
    fn tolerates_losses(&self, report: &Report) -> bool {
        let mut there: Vec<CellIndex> = report.standing.there.values().flatten().copied().collect();
        there.sort_unstable();
        let bearing = Bearing::new(&self.geometry.code, self.geometry.placement);
        bearing.bears_but(&report.standing.lost, &there)
    }

    fn check_len(&self, slot: Slot, device: &dyn Device) -> Result<(), FolderError> {
        check_len(&self.geometry, slot, device)
    }

    /// Determines whether a device has older content of this slot, or counts as blank.
    fn found(&self, slot: Slot, device: &dyn Device) -> Result<Found, FolderError> {
        match newest_superblock_of(device, &self.geometry) {
            Some(own) => Ok(self.host().found(slot, own)?),
            None => Ok(Found::Blank),
        }
    }

    /// Puts a device into a slot, first in the folder. A present device of the slot is removed.
    fn put(
        &self,
        state: &mut State,
        slot: Slot,
        path: &Path,
        device: Arc<dyn Device>,
        found: Found,
    ) -> Result<(), FolderError> {
        let place = Place { path: path.to_path_buf(), joining: found == Found::Blank };
        let folder = state.folder.as_mut().ok_or(HostError::Stopped)?;
        let member = &self.host().report()?.members[slot.0 as usize];
        folder.change(|config| {
            config.replacing.remove(&slot.0);
            match found {
                Found::Blank => {
                    config.give_new(slot.0, place, unix_time());
                    config.verifying.remove(&slot.0);
                }
                Found::Stale => {
                    config.give(slot.0, place);
                    // A copy of the lost device can be from any time before its loss.
                    config.verifying.extend(is_another(member, &*device).then_some(slot.0));
                }
            }
            config.spares.retain(|spare| spare != path);
        })?;
        if member.attached {
            self.host().fail(slot)?;
            state.devices[slot.0 as usize] = None;
        }
        self.host().attach(slot, device.clone(), found)?;
        state.devices[slot.0 as usize] = Some(device);
        state.problems.remove(&slot.0);
        Ok(())
    }

    fn add_spare(&self, path: &Path, overwrite: bool) -> Result<String, FolderError> {
        check_absolute(path)?;
        check_strange(&self.lock(), &self.host().report()?, path)?;
        let others = |folder: &Folder| folder.config().spares.iter().filter(|spare| *spare != path).count();
        // The number is checked before the device is written. If two orders come at once, the
        // folder refuses the second.
        if self.lock().folder.as_ref().map_or(0, others) >= SPARES_MAX {
            return Err(FolderError::TooManySpares);
        }
        self.lock().check_formatting()?;
        let device = open_soon(path, Instant::now())?;
        check_every_len(&self.geometry, &device)?;
        let asked = Timely::of(&device);
        check_to_make(&asked, overwrite)?;
        wipe(&asked)?;
        let mut state = self.lock();
        let folder = state.folder.as_mut().ok_or(HostError::Stopped)?;
        folder.change(|config| {
            config.spares.retain(|spare| spare != path);
            config.failed.retain(|_, failed| failed != path);
            config.spares.push(path.to_path_buf());
        })?;
        state.bad_spares.remove(path);
        state.spares.push((path.to_path_buf(), device));
        drop(state);
        self.look_after();
        Ok(format!("{} takes the place of the next device that is lost.", path.display()))
    }

    /// Removes a spare, whether it was usable or not.
    fn remove_spare(&self, path: &Path) -> Result<String, FolderError> {
        check_absolute(path)?;
        let mut state = self.lock();
        let folder = state.folder.as_mut().ok_or(HostError::Stopped)?;
        let meant_path = folder.path(path);
        let identity = identity_soon(&meant_path);
        let is_meant = |spare: &PathBuf| {
            let spare = folder.path(spare);
            spare == meant_path || (identity.is_some() && identity_soon(&spare) == identity)
        };
        let spares = &folder.config().spares;
        let meant: Vec<PathBuf> = spares.iter().filter(|spare| is_meant(spare)).cloned().collect();
        if meant.is_empty() {
            return Err(FolderError::NoSuchSpare { path: path.to_path_buf(), spares: spares.clone() });
        }
        folder.change(|config| config.spares.retain(|spare| !meant.contains(spare)))?;
        state.spares.retain(|(spare, _)| !meant.contains(spare));
        state.bad_spares.retain(|spare, _| !meant.contains(spare));
        Ok(format!("{} is no spare any more.", path.display()))
    }

    /// Takes the device that the folder lists for a slot into the volume again.
    fn come_back(
        &self,
        state: &mut State,
        slot: Slot,
        place: &Place,
        device: Arc<dyn Device>,
    ) -> Result<(), FolderError> {
        let asked = Timely::of(&device);
        let found = self.found(slot, &asked)?;
        if found != Found::Stale && !place.joining {
            // The device counts as blank, and only the operator may permit the loss of its content.
            return check_to_make(&asked, false);
        }
        // The path may now refer to another device, which the operator has not offered.
        if newest_superblock_of(&asked, &self.geometry).is_none() {
            state.check_formatting()?;
            check_no_volume(&asked)?;
        }
        self.put(state, slot, &place.path, device, found)
    }

    fn rebuild(&self, throttle: Option<u64>) -> Result<String, FolderError> {
        let mut state = self.lock();
        if let Some(rate) = throttle {
            let rate = Some(rate).filter(|rate| *rate > 0);
            let folder = state.folder.as_mut().ok_or(HostError::Stopped)?;
            folder.change(|config| config.throttle_bytes_per_s = rate)?;
            self.host().set_throttle(rate)?;
            Service::set_copy_rate(&state, rate.unwrap_or(0));
        }
        let report = self.host().report()?;
        // An order that only sets the rate does not bring back devices that the operator has
        // removed.
        let failed = |folder: &Folder, slot: Slot| {
            let path = folder.config().failed.get(&slot.0).filter(|_| throttle.is_none())?;
            Some(Place { path: path.clone(), joining: false })
        };
        for (slot, member) in (0..).map(Slot).zip(&report.members) {
            let folder = state.folder.as_ref().ok_or(HostError::Stopped)?;
            let place = folder.config().devices.get(&slot.0).cloned().or_else(|| failed(folder, slot));
            let (Some(place), false) = (place, member.attached) else { continue };
            let path = folder.path(&place.path);
            state.devices[slot.0 as usize] = None;
            let tried = open_soon(&path, Instant::now() + CLOSING).map_err(FolderError::from);
            let tried = tried.and_then(|device| self.come_back(&mut state, slot, &place, device));
            if let Err(error) = tried {
                state.problems.insert(slot.0, error.to_string());
            }
        }
        let revived = report.status.failed.then(|| self.revive(&mut state));
        drop(state);
        self.look_after();
        // An attached device that does not take part yet is not missing.
        let lost = |report: &Report| -> Vec<u32> {
            let devices = report.status.devices.iter().zip(&report.members);
            let lost =
                devices.filter(|(device, member)| device.state == DeviceState::Lost && !member.attached);
            lost.map(|(device, _)| device.slot.0).collect()
        };
        if let Some(Err(why)) = revived {
            return Err(FolderError::HasFailed { why: Box::new(why) });
        }
        let back = if revived.is_some() { format!(" {BACK}") } else { String::new() };
        let text: String = match lost(&self.host().report()?)[..] {
            [] if is_rebuilt(&self.host().report()?) && self.lock().replacements.is_empty() => {
                "Every device is whole: there is nothing to rebuild.".into()
            }
            [] => "Every slot has a device; what is missing is being rebuilt.".into(),
            ref lost => health::of_lost(lost, &self.vol()),
        };
        Ok(text + &back)
    }
}

/// Returns true if a device is not the one that its slot had last.
fn is_another(member: &MemberReport, device: &dyn Device) -> bool {
    member.identity.is_some_and(|known| known != device.identity())
}
