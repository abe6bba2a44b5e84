//! Regular maintenance of an open volume. It uses spares for lost devices, brings back members on
//! servers, updates the folder's lines of new members, and takes samples for rates.

use super::mishap::Part;
use super::status::{Rebuilding, rebuilding};
use super::{SAMPLES, Service, State};
use crate::superblocks::newest_superblock;
use crate::timely::Timely;
use pantile_device::Device;
use pantile_volume::{DeviceState, EventKind, Found, Reason, Slot};
use std::sync::Arc;
use std::time::Instant;

impl Service {
    /// Runs one turn of the maintenance. Call it regularly, unless a thread is in
    /// [`wait_for_end`](Self::wait_for_end).
    pub fn look_after(&self) {
        if !self.only_looks {
            // A panic appears in the status, and the next turn tries again.
            let _ = self.mishaps.guard(Part::Care, || self.look_after_it());
        }
        if self.host().taken_by().is_some() {
            // Another host now serves the volume on the same devices, so this server must end.
            self.end();
        }
    }

    fn look_after_it(&self) {
        let mut state = self.lock();
        let Ok(report) = self.host().report() else { return };
        self.planted.panic_in(Part::Care);
        self.look_after_replacements(&mut state, &report);
        state.look_for_strays(Instant::now());
        // A replacement may have put a device into an empty slot.
        let Ok(report) = self.host().report() else { return };
        self.look_after_copies(&mut state, &report);
        self.look_for_overwritten(&mut state, &report, Instant::now());
        let Ok(report) = self.host().report() else { return };
        for device in &report.status.devices {
            let slot = device.slot;
            let is_copied = state.replacements.contains_key(&slot.0);
            if report.members[slot.0 as usize].fails_reads && !is_copied {
                // A device that the volume needs stays. Otherwise a spare replaces it in the next
                // turn.
                let _ = self.host().give_up_unreadable(slot);
                continue;
            }
            if report.members[slot.0 as usize].attached {
                self.has_joined(&mut state, slot, device.state);
            } else if device.state == DeviceState::Lost {
                state.devices[slot.0 as usize] = None;
                if report.status.failed {
                    // A failed volume cannot rebuild a spare, and the folder would lose the path of
                    // a device that has to come back.
                    continue;
                }
                let Some((path, spare)) = state.spares.pop() else { continue };
                match self.put(&mut state, slot, &path, spare, Found::Blank) {
                    Ok(()) => {
                        let none = (Reason::NONE, 0);
                        let _ = self.host().note_event(Some(slot), EventKind::SPARE_TAKEN, none);
                    }
                    Err(error) => drop(state.problems.insert(slot.0, error.to_string())),
                }
            }
        }
        self.look_for_returning(&mut state, &report);
        let rebuilding = rebuilding(&report);
        match rebuilding {
            None => state.samples.clear(),
            Some(Rebuilding { done, first_pass, .. }) => {
                let done = first_pass.unwrap_or(done);
                if state.samples.back().is_some_and(|&(_, before, _)| done < before) {
                    // The progress is lower than before, so another pass has begun.
                    state.samples.clear();
                }
                state.samples.push_back((Instant::now(), done, report.status.rebuilt_blocks));
                if state.samples.len() > SAMPLES {
                    state.samples.pop_front();
                }
            }
        }
    }

    /// Records that a blank device has become a member, once it has a superblock of the volume.
    fn has_joined(&self, state: &mut State, slot: Slot, device: DeviceState) {
        let Some(folder) = &mut state.folder else { return };
        let joining = folder.config().devices.get(&slot.0).is_some_and(|place| place.joining);
        let known = state.devices[slot.0 as usize].as_ref();
        let has = |device: &Arc<dyn Device>| {
            newest_superblock(&Timely::of(device), Some(self.geometry.volume)).is_some()
        };
        if joining && device != DeviceState::Lost && known.is_some_and(has) {
            // If that fails, the next turn tries again.
            let _ = folder.change(|config| {
                if let Some(place) = config.devices.get_mut(&slot.0) {
                    place.joining = false;
                }
            });
        }
    }
}
