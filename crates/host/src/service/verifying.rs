//! Verification of a device that took the place of a working one as its copy.
//!
//! The copy is byte for byte, with all that had rotted unseen on the old device. So the engine
//! scrubs the new one, and rebuilds what is bad from the others. The folder has a line for that
//! from the renaming on that names the new device. After a restart the verification begins again. A
//! scrub of all devices with repair that began later does the same and counts as it.

use super::{Service, State};
use crate::Report;
use crate::engine::unix_time;
use pantile_volume::{DeviceState, Scrub, ScrubStatus, Slot};

/// The verification of a device.
#[derive(Clone, Copy)]
pub(super) struct Proof {
    /// Scrubs that began later cover the device.
    since: i64,
    /// The engine was told to scrub it.
    is_ordered: bool,
}

impl Proof {
    pub(super) fn since(since: i64) -> Proof {
        Proof { since, is_ordered: false }
    }

    /// Returns true if a scrub of all devices does what the verification does.
    fn is_covered_by(&self, scrub: &ScrubStatus) -> bool {
        scrub.repair && scrub.begun_at > self.since && !scrub.stopped && !scrub.paused
    }
}

impl Service {
    /// Begins verifications that the folder has a line for, one at a time, and ends those that are
    /// over.
    pub(super) fn look_after_copies(&self, state: &mut State, report: &Report) {
        let Some(folder) = &mut state.folder else { return };
        let wanted = folder.config().verifying.clone();
        state.proofs.retain(|slot, _| wanted.contains(slot));
        let under_way = report.status.device_scrub.filter(|scrub| scrub.running);
        let mut waits = None;
        for number in wanted {
            let proof = state.proofs.entry(number).or_insert(Proof::since(unix_time()));
            let device = report.status.devices.iter().find(|device| device.slot.0 == number);
            if device.is_none_or(|device| device.state != DeviceState::Present) {
                proof.is_ordered = false;
                continue;
            }
            let own = report.status.device_scrub.filter(|own| own.slot.0 == number && proof.is_ordered);
            let all = report.status.scrub.as_ref().filter(|all| proof.is_covered_by(all));
            match own.map(|own| own.running).or(all.map(|all| all.running)) {
                Some(true) => {}
                // If the folder cannot be written, this is tried again.
                Some(false) => _ = folder.change(|config| _ = config.verifying.remove(&number)),
                None => waits = waits.or(Some(number)),
            }
        }
        let Some(number) = waits.filter(|_| under_way.is_none() && !report.status.failed) else { return };
        let is_ordered = self.host().scrub(Scrub::Device(Slot(number))).is_ok();
        state.proofs.entry(number).and_modify(|proof| proof.is_ordered = is_ordered);
    }
}
