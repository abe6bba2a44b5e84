//! The scrub of one device, for a device that became the byte-for-byte copy of another, with all
//! that was bad on that one.
//!
//! It reads the superblocks, the journal, the maps, the log blocks and the chunks of that device,
//! and verifies them by their checksums. What is bad is repaired like by every scrub with repair.
//! Equations of stripes are checked by a scrub of all devices alone. Its position is not recorded:
//! after a restart the driver has to start it again.

use super::Scrubbing;
use crate::engine::Engine;
use crate::{BadMetadata, DeviceScrub, ScrubStatus, Slot};
use pantile_format::volume::EventKind;

impl Scrubbing {
    /// Returns true if the scrub verifies this device.
    pub(super) fn is_of(&self, slot: Slot) -> bool {
        self.only.is_none_or(|only| only == slot)
    }
}

impl Engine {
    /// Returns the state of the last scrub of one device.
    pub(crate) fn device_scrub_status(&self) -> Option<DeviceScrub> {
        let known = self.scrubs.of_device?;
        match self.scrubs.current.as_ref().filter(|scrub| scrub.only == Some(known.slot)) {
            Some(scrub) => Some(self.judged(known, scrub)),
            None => Some(known),
        }
    }

    fn judged(&self, known: DeviceScrub, scrub: &Scrubbing) -> DeviceScrub {
        let (_, left) = self.scrub_outcome(scrub);
        DeviceScrub { done: scrub.status.done, found: parts_found(&scrub.status), left, ..known }
    }

    /// Wants a scrub of a device, unless one is under way.
    pub(super) fn want_device_scrub(&mut self, slot: Slot) {
        let is_known = (slot.0 as usize) < self.geometry.slots();
        if is_known && self.scrubs.of_device.is_none_or(|scrub| !scrub.running) {
            let total = u64::from(self.geometry.logical_stripes());
            self.scrubs.of_device =
                Some(DeviceScrub { slot, done: 0, total, running: true, found: 0, left: 0 });
        }
    }

    /// Suspends the scrub of all devices for the scrub of one that is wanted, once nothing of it is
    /// under way.
    pub(super) fn turn_to_device_scrub(&mut self) {
        let Some(DeviceScrub { slot, running: true, .. }) = self.scrubs.of_device else { return };
        let is_free = |scrub: &Scrubbing| scrub.only.is_none() && scrub.outstanding == 0;
        if !self.scrubs.current.as_ref().is_none_or(is_free) {
            return;
        }
        if !self.maps.is_present(slot) {
            self.scrubs.of_device = None;
            return;
        }
        let fresh = self.fresh_scrub(true);
        let only = Scrubbing { only: Some(slot), ..fresh };
        self.scrubs.aside = self.scrubs.current.replace(only);
    }

    /// Notes that a device is lost: a scrub of it ends early.
    pub(crate) fn interrupt_device_scrub(&mut self, slot: Slot) {
        let scrub = self.scrubs.current.as_mut().filter(|scrub| scrub.only == Some(slot));
        scrub.into_iter().for_each(|scrub| scrub.is_interrupted = true);
    }

    /// Ends the scrub of one device when nothing of it is under way: it is over, or the device is
    /// gone. The scrub of all devices goes on.
    pub(super) fn end_device_scrub(&mut self, is_over: bool) {
        let known = self.device_scrub_status().filter(|_| is_over);
        self.scrubs.of_device = known.map(|known| DeviceScrub { running: false, ..known });
        self.scrubs.current = self.scrubs.aside.take();
        let Some(DeviceScrub { slot, found, left, .. }) = self.scrubs.of_device else { return };
        // Superblocks and maps of the device that another scrub had found bad were written again.
        self.forget_scrub_of(slot);
        // Its wrong blocks were those of the device that it was copied from.
        self.forget_errors(slot);
        self.event(EventKind::COPY_VERIFIED, Some(slot), found.saturating_sub(left));
        self.want_record_of_notes();
    }
}

/// Returns the number of parts of a device that a scrub of it found bad.
fn parts_found(status: &ScrubStatus) -> u64 {
    let of_metadata = |bad: &BadMetadata| {
        u64::from(bad.superblocks)
            + [bad.journal, bad.snapshot, bad.definition].into_iter().map(u64::from).sum::<u64>()
    };
    let in_stripes = status.checksum + status.unreadable;
    let in_log = status.log_checksum + status.log_unreadable;
    in_stripes + in_log + status.metadata.iter().map(of_metadata).sum::<u64>()
}
