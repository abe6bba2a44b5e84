//! The part of a scrub's state that survives a restart: position, findings, times.

use super::metadata::Metadata;
use super::{Engine, Scrubbing, Scrubs};
use crate::notes::kept_count;
use crate::{ScrubStatus, Slot};
use pantile_format::volume::{EventKind, LogicalStripe, Note, ScrubNote, ScrubState};
use std::collections::{BTreeMap, BTreeSet};

impl Scrubbing {
    pub(super) fn new(status: ScrubStatus, metadata: Metadata, barrier: u64) -> Scrubbing {
        Scrubbing {
            only: None,
            has_old_records: false,
            is_interrupted: false,
            at_rest: (0, status.clone()),
            status,
            metadata,
            mends: false,
            next_row: 0,
            next_stripe: 0,
            checking: BTreeMap::new(),
            rows: BTreeMap::new(),
            outstanding: 0,
            barrier,
            flagged: BTreeSet::new(),
            repaired: 0,
            beyond_repair: BTreeSet::new(),
            unnamed: 0,
            before: (0, 0),
            windows: 0,
        }
    }
}

impl Engine {
    /// Returns the state of the last scrub: of this session, or as the devices have recorded it.
    /// One that a stop or a crash has cut off is paused.
    pub(crate) fn scrub_status(&self) -> Option<ScrubStatus> {
        let Some(scrub) = self.whole_scrub() else {
            let total = u64::from(self.geometry.logical_stripes());
            return self.maps.notes().scrub.map(|note| {
                let status = status_of(&note, total);
                ScrubStatus { paused: status.running, ..status }
            });
        };
        let (repaired, left) = self.scrub_outcome(scrub);
        Some(ScrubStatus { repaired, left, ..scrub.status.clone() })
    }

    /// Returns this session's scrub of all devices, under way or suspended.
    fn whole_scrub(&self) -> Option<&Scrubbing> {
        let Scrubs { current, aside, .. } = &self.scrubs;
        current.as_ref().filter(|scrub| scrub.only.is_none()).or(aside.as_ref())
    }

    pub(super) fn whole_scrub_mut(&mut self) -> Option<&mut Scrubbing> {
        let Scrubs { current, aside, .. } = &mut self.scrubs;
        current.as_mut().filter(|scrub| scrub.only.is_none()).or(aside.as_mut())
    }

    /// Calls a function for the scrub under way and for the suspended one.
    fn with_scrubs(&mut self, change: impl Fn(&mut Scrubbing)) {
        let Scrubs { current, aside, .. } = &mut self.scrubs;
        current.iter_mut().chain(aside).for_each(change);
    }

    /// Returns the numbers of stripes that were repaired, and of bad ones that could not be.
    /// Stripes that users or another device have repaired since are in neither number.
    pub(super) fn scrub_outcome(&self, scrub: &Scrubbing) -> (u64, u64) {
        let broken = scrub.beyond_repair.iter().filter(|logical| self.damage.is_broken(**logical)).count();
        let left = if scrub.status.repair { broken as u64 + scrub.unnamed } else { 0 };
        (scrub.before.0 + scrub.repaired, scrub.before.1 + left)
    }

    /// Notes that a stripe is written again: by users, or from its other chunks.
    pub(crate) fn is_written_anew(&mut self, logical: u32, is_users: bool) {
        self.damage.mend(logical);
        self.with_scrubs(|scrub| scrub.repaired += u64::from(scrub.flagged.remove(&logical) && !is_users));
    }

    /// Notes that a stripe cannot be written again for the scrub.
    pub(crate) fn is_not_written_anew(&mut self, logical: u32) {
        self.with_scrubs(|scrub| {
            if scrub.flagged.remove(&logical) {
                scrub.beyond_repair.insert(logical);
            }
        });
    }

    /// Returns the note of this session's scrub.
    pub(crate) fn scrub_note(&self) -> Option<ScrubNote> {
        let scrub = self.whole_scrub()?;
        let (position, status) = match scrub.outstanding {
            0 => (scrub.next_stripe, &scrub.status),
            _ => (scrub.at_rest.0, &scrub.at_rest.1),
        };
        let (repaired, left) = self.scrub_outcome(scrub);
        let state = match () {
            () if scrub.status.running && scrub.status.paused => ScrubState::Paused,
            () if scrub.status.running => ScrubState::Running,
            () if scrub.status.stopped => ScrubState::Stopped,
            () => ScrubState::Ended,
        };
        let ScrubStatus { clean, checksum, unreadable, located, ambiguous, unlocatable, .. } = *status;
        let ScrubStatus { log_blocks, log_checksum, log_unreadable, metadata_devices, .. } = *status;
        Some(ScrubNote {
            state,
            repair: scrub.status.repair,
            begun_at: scrub.status.begun_at,
            ended_at: scrub.status.ended_at,
            position: LogicalStripe(position.into()),
            counts: [
                clean,
                checksum,
                unreadable,
                located,
                ambiguous,
                unlocatable,
                log_blocks,
                log_checksum,
                log_unreadable,
                metadata_devices,
                repaired,
                left,
            ]
            .map(kept_count),
        })
    }

    /// Forgets what a scrub has found in the superblocks, journal and maps of a device that was
    /// replaced.
    pub(crate) fn forget_scrub_of(&mut self, slot: Slot) {
        let Some(scrub) = self.whole_scrub_mut() else { return };
        let status = &mut scrub.status;
        let before = status.metadata.len();
        status.metadata.retain(|bad| bad.slot != slot);
        let forgotten = before - status.metadata.len();
        if forgotten > 0 {
            status.metadata_devices = status.metadata_devices.saturating_sub(forgotten as u64);
            let note = self.scrub_note();
            note.into_iter().for_each(|note| self.note(Note::Scrub(note), true));
        }
    }

    /// Notes the end of a scrub, or its stop.
    pub(super) fn note_scrub_end(&mut self) {
        let now = self.noting.now();
        let Some(scrub) = self.whole_scrub_mut() else { return };
        scrub.status.ended_at = now;
        let status = &scrub.status;
        let bad =
            status.checksum + status.unreadable + status.located + status.ambiguous + status.unlocatable;
        self.event(EventKind::SCRUB_ENDED, None, bad);
        let note = self.scrub_note();
        note.into_iter().for_each(|note| self.note(Note::Scrub(note), true));
    }

    /// Resumes a scrub that a stop or a crash has cut off; it begins again if it had not come to
    /// the stripes.
    pub(crate) fn resume_scrub(&mut self) {
        let Some(note) = self.maps.notes().scrub else { return };
        if !matches!(note.state, ScrubState::Running | ScrubState::Paused) {
            return;
        }
        let total = u64::from(self.geometry.logical_stripes());
        let known = status_of(&note, total);
        let name = self.io.next_id();
        let barrier = self.io.counter();
        let scrub = match note.position.0 {
            0 => {
                let ScrubStatus { repair, running, paused, begun_at, .. } = known;
                let status =
                    ScrubStatus { total, repair, running, paused, begun_at, ..ScrubStatus::default() };
                Scrubbing::new(status, Metadata::new(name), barrier)
            }
            position => {
                let before = (known.repaired, known.left);
                let next_row = self.geometry.log_rows();
                let fresh = Scrubbing::new(known, Metadata::over(name), barrier);
                let next_stripe = position as u32;
                Scrubbing {
                    before,
                    next_row,
                    next_stripe,
                    at_rest: (next_stripe, fresh.status.clone()),
                    ..fresh
                }
            }
        };
        self.scrubs.current = Some(scrub);
    }
}

fn status_of(note: &ScrubNote, total: u64) -> ScrubStatus {
    let [clean, checksum, unreadable, located, ambiguous, unlocatable, log @ ..] = note.counts;
    let [log_blocks, log_checksum, log_unreadable, metadata_devices, repaired, left] = log;
    ScrubStatus {
        done: note.position.0.min(total),
        total,
        repair: note.repair,
        paused: note.state == ScrubState::Paused,
        running: matches!(note.state, ScrubState::Running | ScrubState::Paused),
        stopped: note.state == ScrubState::Stopped,
        begun_at: note.begun_at,
        ended_at: note.ended_at,
        clean,
        checksum,
        unreadable,
        located,
        ambiguous,
        unlocatable,
        log_blocks,
        log_checksum,
        log_unreadable,
        metadata: Vec::new(),
        metadata_devices,
        repaired,
        left,
    }
}
