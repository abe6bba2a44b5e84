//! Replacement of a device that still works: it stays in the volume until the new device is a copy
//! of it ([`crate::twin`]).
//!
//! The folder has a line for the replacement, and the new device has a mark. So a copy that is
//! interrupted by a stop or a crash is restarted at the next start, even without the folder. The
//! line of the slot names the old device until the copy is complete, and then the new one; one
//! rename of the file changes it. If a new device has superblocks of the slot before that rename,
//! its copy was interrupted between the two steps and is restarted. If the old device is lost
//! before the copy is complete, the new one replaces it as a spare would.
//!
//! Afterwards the new device is verified by its checksums ([`super::verifying`]).
//!
//! A replacement that failed or was cancelled leaves the old device in the volume, and an event on
//! the devices.

use super::verifying::Proof;
use super::{Service, State};
use crate::engine::{reason_of, unix_time};
use crate::folder::{check_no_volume, wipe};
use crate::memory::BLOCK;
use crate::opening::{CLOSING, open_soon};
use crate::superblocks::newest_superblock;
use crate::timely::Timely;
use crate::twin::{Ended, Patience, Phase, Step, Twin};
use crate::{FolderError, Host, HostError, Place, Report};
use pantile_device::{Device, Identity};
use pantile_volume::{DeviceState, EventKind, Found, Geometry, Reason, Slot};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval at which a copy checks whether writes that bypass the twin have ended, or whether the
/// old device answers again.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Longest wait of an order until the old device serves alone again.
const ALONE_AGAIN: Duration = Duration::from_secs(10);

/// A replacement under way. When dropped, the copying ends.
pub(super) struct Replacement {
    pub(super) path: PathBuf,
    old: Arc<dyn Device>,
    new: Arc<dyn Device>,
    pub(super) twin: Arc<Twin>,
    control: Arc<Control>,
    copier: Option<JoinHandle<()>>,
}

/// Controls of the copying thread.
struct Control {
    stops: Mutex<bool>,
    told: Condvar,
    /// Most bytes a second that it may read and write; 0: no limit.
    rate: AtomicU64,
}

impl Control {
    /// Waits; returns true if the copying is to continue.
    fn wait(&self, time: Duration) -> bool {
        let stops = self.stops.lock().expect("nothing panics under the lock");
        let wait = self.told.wait_timeout_while(stops, time, |stops| !*stops);
        !*wait.expect("nothing panics under the lock").0
    }
}

impl Replacement {
    /// Returns the identity of the new device.
    pub(super) fn new_identity(&self) -> Identity {
        self.new.identity()
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        *self.control.stops.lock().expect("nothing panics under the lock") = true;
        self.control.told.notify_all();
        let Some(copier) = self.copier.take() else { return };
        // The new device is closed with its thread. If a device hangs, the thread is not waited
        // for: it ends when the device answers.
        let until = Instant::now() + CLOSING;
        while !copier.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        if copier.is_finished() {
            drop(copier.join());
        }
    }
}

/// Copies until only superblocks are missing, or the replacement has ended.
fn copy(twin: &Twin, host: &Host, slot: Slot, control: &Control) {
    loop {
        match host.is_drained(slot) {
            Ok(true) => break,
            Ok(false) if control.wait(AGAIN_AFTER) => {}
            _ => return,
        }
    }
    loop {
        let pause = match twin.step() {
            Ok(Step::Copied(bytes)) => match control.rate.load(Ordering::Relaxed) {
                0 => Duration::ZERO,
                // The rate counts each byte twice: it is read and written.
                rate => Duration::from_secs_f64(2.0 * bytes as f64 / rate as f64),
            },
            Ok(Step::Ready | Step::Over) => return,
            // If the old device does not answer any more, the volume gives it up.
            Err(_) => AGAIN_AFTER,
        };
        if !control.wait(pause) {
            return;
        }
    }
}

/// Returns the offsets of the superblocks of a slot's device.
pub(super) fn superblocks(geometry: &Geometry, slot: Slot) -> Vec<u64> {
    let zones = geometry.zones(slot);
    let places = [zones.superblock(0), zones.superblock(1), zones.superblock_copy()];
    places.map(|place| place.0 * BLOCK as u64).to_vec()
}

impl Service {
    /// Begins to copy a working device to one that will replace it. The new device has no
    /// superblock.
    pub(super) fn begin_replacing(
        &self,
        state: &mut State,
        slot: Slot,
        path: &Path,
        new: Arc<dyn Device>,
    ) -> Result<(), FolderError> {
        let old = state.devices[slot.0 as usize].clone().ok_or(HostError::NoDevice { slot })?;
        let folder = state.folder.as_mut().ok_or(HostError::Stopped)?;
        let rate = folder.config().throttle_bytes_per_s.unwrap_or(0);
        let is_new = folder.config().replacing.get(&slot.0).is_none_or(|named| named != path);
        if is_new {
            folder.change(|config| {
                config.replacing.insert(slot.0, path.to_path_buf());
                config.spares.retain(|spare| spare != path);
            })?;
        }
        let len_bytes = self.geometry.device_blocks(slot) * BLOCK as u64;
        let superblocks = superblocks(&self.geometry, slot);
        let own = newest_superblock(&Timely::of(&old), Some(self.geometry.volume));
        let mark = own.map(|own| own.of_copy(unix_time()).encode());
        let both = (old.clone(), new.clone());
        let twin = Twin::new(both, len_bytes, superblocks, &mark.unwrap_or_default(), Patience::USUAL);
        let twin = Arc::new(twin);
        self.host().exchange(slot, twin.clone(), false)?;
        let control = Control { stops: Mutex::new(false), told: Condvar::new(), rate: rate.into() };
        let control = Arc::new(control);
        let (of_twin, host, of_control) = (twin.clone(), self.host(), control.clone());
        let builder = std::thread::Builder::new().name(format!("copy-{}", slot.0));
        let copier = builder.spawn(move || copy(&of_twin, &host, slot, &of_control));
        let copier =
            copier.map_err(|error| HostError::Thread { errno: error.raw_os_error().unwrap_or(0) })?;
        let (path, copier) = (path.to_path_buf(), Some(copier));
        state.problems.remove(&slot.0);
        state.replacements.insert(slot.0, Replacement { path, old, new, twin, control, copier });
        if is_new {
            self.note_copy(slot, EventKind::COPY_BEGUN, (Reason::NONE, 0));
        }
        Ok(())
    }

    /// Records an event of a replacement on the devices. A volume that has failed records nothing.
    fn note_copy(&self, slot: Slot, what: EventKind, why: (Reason, i32)) {
        let _ = self.host().note_event(Some(slot), what, why);
    }

    /// True if a device is being replaced, or its replacement was ordered.
    pub(super) fn is_being_replaced(state: &State, slot: Slot) -> bool {
        let named =
            state.folder.as_ref().is_some_and(|folder| folder.config().replacing.contains_key(&slot.0));
        named || state.replacements.contains_key(&slot.0)
    }

    /// Cancels the replacement of a working device, which stays in the volume. Returns the path of
    /// the new device, which is closed.
    ///
    /// Errors: `NotReplaced`; `BeingReplaced` if a device does not answer: the old one serves alone
    /// again only after that.
    pub(super) fn cancel_replacing(&self, state: &mut State, slot: Slot) -> Result<PathBuf, FolderError> {
        let not_replaced = FolderError::NotReplaced { slot };
        let named = state.folder.as_ref().and_then(|folder| folder.config().replacing.get(&slot.0));
        let under_way = state.replacements.get(&slot.0).map(|one| &one.path);
        let path = named.or(under_way).cloned().ok_or(not_replaced)?;
        // The folder is changed first: a copy that it does not list is not restarted.
        let folder = state.folder.as_mut().ok_or(HostError::Stopped)?;
        folder.change(|config| drop(config.replacing.remove(&slot.0)))?;
        state.problems.remove(&slot.0);
        if let Some(one) = state.replacements.get(&slot.0) {
            one.twin.cancel();
        }
        self.note_copy(slot, EventKind::COPY_CANCELLED, (Reason::NONE, 0));
        let until = Instant::now() + ALONE_AGAIN;
        while state.replacements.contains_key(&slot.0) && self.end_replacement(state, slot).is_none() {
            if Instant::now() >= until {
                return Err(FolderError::BeingReplaced { slot, by: path });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(path)
    }

    /// Refuses a new device that the folder lists for a replacement, if it has other data than such
    /// a copy.
    ///
    /// Superblocks of the slot on it are those of a copy that was interrupted at its end. The old
    /// device works, so overwriting them loses no data.
    fn check_resumed(&self, state: &State, slot: Slot, new: &Arc<dyn Device>) -> Result<(), FolderError> {
        let asked = Timely::of(new);
        let old = state.devices[slot.0 as usize].as_ref();
        let newest = |device: &dyn Device| newest_superblock(device, Some(self.geometry.volume));
        let (Some(found), Some(old)) = (newest(&asked), old.and_then(|old| newest(&Timely::of(old)))) else {
            return check_no_volume(&asked);
        };
        let goes_on = found.history == old.history || old.ancestors.contains(&found.history);
        if found.slot == slot && goes_on { Ok(()) } else { check_no_volume(&asked) }
    }

    /// Limits the bytes a second that copies read and write; 0: no limit.
    pub(super) fn set_copy_rate(state: &State, rate: u64) {
        state.replacements.values().for_each(|one| one.control.rate.store(rate, Ordering::Relaxed));
    }

    /// Ends copies that are complete or have failed, and begins those that are listed in the
    /// folder.
    pub(super) fn look_after_replacements(&self, state: &mut State, report: &Report) {
        for number in state.replacements.keys().copied().collect::<Vec<u32>>() {
            let slot = Slot(number);
            let Some(one) = state.replacements.get(&number) else { continue };
            if !report.members[number as usize].attached {
                // The old device is lost, so the new one is rebuilt in its place.
                if let Some(one) = state.replacements.remove(&number) {
                    let (path, new) = (one.path.clone(), one.new.clone());
                    drop(one);
                    state.devices[number as usize] = None;
                    if let Err(error) = self.put(state, slot, &path, new, Found::Blank) {
                        state.problems.insert(number, error.to_string());
                    }
                }
                continue;
            }
            match one.twin.progress().0 {
                Phase::Abandoned(why) => self.abandon(state, slot, &why, None),
                Phase::Copies if one.twin.is_copied() => self.finish(state, slot),
                Phase::Copies | Phase::Retired => {}
            }
        }
        let Some(folder) = &state.folder else { return };
        let wanted: Vec<(u32, PathBuf)> =
            folder.config().replacing.iter().map(|(&slot, path)| (slot, path.clone())).collect();
        for (number, path) in wanted {
            if state.replacements.contains_key(&number) {
                continue;
            }
            let found = report.status.devices.iter().find(|device| device.slot.0 == number);
            let is_attached = report.members.get(number as usize).is_some_and(|member| member.attached);
            let is_whole = found.is_some_and(|device| device.state == DeviceState::Present);
            if found.is_none() || report.status.failed || (is_attached && !is_whole) {
                continue;
            }
            let Some(folder) = &state.folder else { return };
            let tried = open_soon(&folder.path(&path), Instant::now());
            let tried = tried.map_err(FolderError::from).and_then(|new| {
                state.check_formatting()?;
                self.check_len(Slot(number), &new)?;
                if is_attached {
                    self.check_resumed(state, Slot(number), &new)?;
                    return self.begin_replacing(state, Slot(number), &path, new);
                }
                check_no_volume(&Timely::of(&new))?;
                self.put(state, Slot(number), &path, new, Found::Blank)
            });
            if let Err(error) = tried {
                let why = format!("it is to be replaced by {}: {error}", path.display());
                state.problems.insert(number, why);
            }
        }
    }

    /// Makes the new device of a complete copy the member.
    fn finish(&self, state: &mut State, slot: Slot) {
        let Some(one) = state.replacements.remove(&slot.0) else { return };
        let Some(folder) = &mut state.folder else { return };
        let name = || {
            folder.change(|config| {
                config.give_new(slot.0, Place { path: one.path.clone(), joining: false }, unix_time());
                config.replacing.remove(&slot.0);
                config.verifying.insert(slot.0);
            })
        };
        match one.twin.finish(name) {
            Ok(true) => {}
            Ok(false) => {
                // The copy failed at its end, or is to be tried again; the next turn handles that.
                state.replacements.insert(slot.0, one);
                return;
            }
            Err(error) => {
                state.replacements.insert(slot.0, one);
                return self.abandon(state, slot, &Ended::NotNamed, Some(&error));
            }
        }
        state.devices[slot.0 as usize] = Some(one.new.clone());
        // Until the exchange succeeds the twin stays in the slot, and uses only the new device.
        let _ = self.host().exchange(slot, one.new.clone(), true);
        self.note_copy(slot, EventKind::COPY_TAKEN, (Reason::NONE, 0));
        // A failure does no harm: from the next session on the old device is stale.
        let _ = wipe(&Timely::of(&one.old));
        // Blocks that were bad or unreadable on the old device are bad on the new one.
        state.proofs.insert(slot.0, Proof::since(unix_time()));
    }

    /// Makes the old device serve alone again, and records the reason.
    fn abandon(&self, state: &mut State, slot: Slot, why: &Ended, unnamed: Option<&FolderError>) {
        let (reason, errno) = match why {
            Ended::Failed(error) => reason_of(Some(error)),
            Ended::Differs { .. } => (Reason::DIFFERS, 0),
            Ended::NotNamed | Ended::Cancelled => (Reason::NONE, 0),
        };
        let Some(path) = self.end_replacement(state, slot) else { return };
        if *why == Ended::Cancelled {
            return;
        }
        if let Some(folder) = &mut state.folder {
            let _ = folder.change(|config| drop(config.replacing.remove(&slot.0)));
        }
        let said = match why {
            Ended::Failed(error) => error.to_string(),
            Ended::Differs { at } => format!("from byte {at} on it reads back other bytes than were written"),
            Ended::NotNamed | Ended::Cancelled => unnamed.map_or_else(
                || "the folder cannot be written".into(),
                |error| format!("the folder cannot be written: {error}"),
            ),
        };
        let text = format!(
            "it was to be replaced by {}, which failed: {said}; it goes on. 'pantile replace {vol} {slot} NEW' replaces it by another, 'pantile scrub {vol} --clear {slot}' keeps it",
            path.display(),
            vol = self.vol(),
            slot = slot.0
        );
        state.problems.insert(slot.0, text);
        self.note_copy(slot, EventKind::COPY_FAILED, (reason, errno));
    }

    /// Makes the old device serve alone again, and closes the new one. Returns the path of the new
    /// one; `None`: not yet possible, because a device has a pending request. Until then the twin
    /// reads only from the old device.
    fn end_replacement(&self, state: &mut State, slot: Slot) -> Option<PathBuf> {
        let one = state.replacements.get(&slot.0)?;
        if !self.host().is_drained(slot).unwrap_or(false)
            || self.host().exchange(slot, one.old.clone(), true).is_err()
        {
            return None;
        }
        let one = state.replacements.remove(&slot.0)?;
        one.twin.let_go_of_new();
        Some(one.path.clone())
    }
}
