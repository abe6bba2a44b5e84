//! Verification of a device that became a member as the copy of a working one.
//!
//! A copy is byte for byte, with all undetected errors of the old device. So the engine scrubs the
//! new device, and rebuilds its bad blocks from the others. The folder has a line for the
//! verification from the rename on that makes the new device the member. After a restart the
//! verification begins again. A scrub of all devices with repair that begins later includes the
//! verification.

use super::{Service, State};
use crate::Report;
use crate::engine::unix_time;
use pantile_volume::{DeviceState, Scrub, ScrubStatus, Slot};

/// State of the verification of a device.
#[derive(Clone, Copy)]
pub(super) struct Proof {
    /// Time after which a scrub of all devices includes the verification, in seconds since 1970.
    since: i64,
    /// True if the engine was ordered to scrub the device.
    is_ordered: bool,
}

impl Proof {
    pub(super) fn since(since: i64) -> Proof {
        Proof { since, is_ordered: false }
    }

    /// Returns true if a scrub of all devices includes the verification.
    fn is_covered_by(&self, scrub: &ScrubStatus) -> bool {
        scrub.repair && scrub.begun_at > self.since && !scrub.stopped && !scrub.paused
    }
}

impl Service {
    /// Begins the verifications that are listed in the folder, one at a time, and ends those that
    /// are complete.
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
                // If the folder cannot be written, the next turn tries again.
                Some(false) => _ = folder.change(|config| _ = config.verifying.remove(&number)),
                None => waits = waits.or(Some(number)),
            }
        }
        let Some(number) = waits.filter(|_| under_way.is_none() && !report.status.failed) else { return };
        let is_ordered = self.host().scrub(Scrub::Device(Slot(number))).is_ok();
        state.proofs.entry(number).and_modify(|proof| proof.is_ordered = is_ordered);
    }
}
