//! The scrub of one device: of one that became the copy of another, byte for byte, with all that
//! had rotted there.
//!
//! It reads the superblocks, the journal, the maps, the log blocks and the chunks of that device,
//! and judges them by their checksums; with what is bad it does as every scrub with repair. The
//! equations of stripes are judged by a scrub of all devices. No record says where it is: whoever
//! wants it orders it again after a restart.

use super::Scrubbing;
use crate::engine::Engine;
use crate::{BadMetadata, DeviceScrub, ScrubStatus, Slot};
use pantile_format::volume::EventKind;

impl Scrubbing {
    /// Returns true if it judges what a device holds.
    pub(super) fn is_of(&self, slot: Slot) -> bool {
        self.only.is_none_or(|only| only == slot)
    }
}

impl Engine {
    /// Returns the state of the last scrub of one device.
    pub(crate) fn device_scrub_status(&self) -> Option<DeviceScrub> {
        let known = self.device_scrub?;
        match self.scrubbing.as_ref().filter(|scrub| scrub.only == Some(known.slot)) {
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
        if is_known && self.device_scrub.is_none_or(|scrub| !scrub.running) {
            let total = u64::from(self.geometry.logical_stripes());
            self.device_scrub = Some(DeviceScrub { slot, done: 0, total, running: true, found: 0, left: 0 });
        }
    }

    /// Sets the scrub of all devices aside for one of a device that is wanted, once nothing of it
    /// is under way.
    pub(super) fn turn_to_device_scrub(&mut self) {
        let Some(DeviceScrub { slot, running: true, .. }) = self.device_scrub else { return };
        let is_free = |scrub: &Scrubbing| scrub.only.is_none() && scrub.outstanding == 0;
        if !self.scrubbing.as_ref().is_none_or(is_free) {
            return;
        }
        if !self.maps.is_present(slot) {
            self.device_scrub = None;
            return;
        }
        let fresh = self.fresh_scrub(true);
        let aside = self.scrubbing.take().map(Box::new);
        self.scrubbing = Some(Scrubbing { only: Some(slot), aside, ..fresh });
    }

    /// A device is lost: a scrub of it ends before it is over.
    pub(crate) fn interrupt_device_scrub(&mut self, slot: Slot) {
        let scrub = self.scrubbing.as_mut().filter(|scrub| scrub.only == Some(slot));
        scrub.into_iter().for_each(|scrub| scrub.is_interrupted = true);
    }

    /// Ends the scrub of a device, of which nothing is under way: it is over, or its device is
    /// gone. The one of all devices goes on.
    pub(super) fn end_device_scrub(&mut self, is_over: bool) {
        let known = self.device_scrub_status().filter(|_| is_over);
        self.device_scrub = known.map(|known| DeviceScrub { running: false, ..known });
        self.scrubbing = self.scrubbing.take().and_then(|scrub| scrub.aside).map(|aside| *aside);
        let Some(DeviceScrub { slot, found, left, .. }) = self.device_scrub else { return };
        // What another scrub had found in its superblocks and maps was written again.
        self.forget_scrub_of(slot);
        // Its wrong blocks were those of the device that it is a copy of.
        self.forget_errors(slot);
        self.event(EventKind::COPY_VERIFIED, Some(slot), found.saturating_sub(left));
        self.want_record_of_notes();
    }
}

/// Returns the number of parts of a device that its scrub found bad.
fn parts_found(status: &ScrubStatus) -> u64 {
    let of_metadata = |bad: &BadMetadata| {
        u64::from(bad.superblocks)
            + [bad.journal, bad.snapshot, bad.definition].into_iter().map(u64::from).sum::<u64>()
    };
    let in_stripes = status.checksum + status.unreadable;
    let in_log = status.log_checksum + status.log_unreadable;
    in_stripes + in_log + status.metadata.iter().map(of_metadata).sum::<u64>()
}
