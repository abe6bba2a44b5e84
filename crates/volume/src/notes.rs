//! Events and faults of the volume, kept in memory and as notes in records on the devices.
//!
//! [`Notes`] are the valid notes. [`Noting`] has the notes that no record has yet, and the reads
//! and errors of each device in this session. The total errors of a device are those of earlier
//! sessions plus those of this one.
//!
//! A note takes effect in memory at once. It gets into the next record that is written; if the note
//! must be durable, a record is written for it. A snapshot contains all notes (as the state), so
//! that none is pending afterwards.
//!
//! * *Events*, and the history of *devices*: every loss with its reason, every return, and the
//!   errors of a device for as long as it is the same device.
//! * Lost *ranges*: blocks that could not be read, or not be written again. A range needs no note
//!   when it is written: the record that maps the blocks removes it ([`crate::maps::Maps::apply`]).
//! * The last *scrub*, so that it continues after a restart.
//! * Chunks and log blocks that are *bad* ([`crate::bad`]).

use crate::bad::BadChunks;
use crate::engine::Engine;
use crate::maps::Change;
use crate::status::DeviceCounts;
use crate::{Geometry, Slot, UserBlock};
use pantile_format::volume::{
    BadNote, DeviceNote, EventKind, EventNote, Note, RangeNote, Reason, ScrubNote, State, StateRoom,
};
use std::collections::{BTreeMap, VecDeque};

/// Bytes of notes in one record; the rest goes into the next one.
const RECORD_NOTE_BYTES: usize = 3072;

/// The number of pending notes among which a note of bad chunks looks for one to extend: one for
/// each device.
const JOINED_NOTES: usize = 64;

/// The largest count of anything: no device errs a million times a second for eight years. A record
/// also maps data, so it is not refused for an impossible count. Such a count is replaced by this
/// one: it still says that there were errors, and sums do not overflow.
const COUNT_MOST: u64 = 1 << 48;

/// Returns a count as it is stored.
pub(crate) fn kept_count(count: u64) -> u64 {
    count.min(COUNT_MOST)
}

/// A lost range: its end, and the time since when it is lost.
type Range = (u64, i64);

/// All valid notes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notes {
    room: StateRoom,
    pub(crate) devices: BTreeMap<Slot, DeviceNote>,
    pub(crate) events: VecDeque<EventNote>,
    pub(crate) scrub: Option<ScrubNote>,
    pub(crate) bad: BadChunks,
    /// Lost ranges by their first block; none overlap.
    ranges: BTreeMap<u64, Range>,
    /// True if the notes were read from a state.
    pub(crate) is_read: bool,
    /// True if there was a state that could not be read from any device.
    pub(crate) are_lost: bool,
}

impl Notes {
    pub(crate) fn new(geometry: &Geometry) -> Notes {
        Notes {
            room: StateRoom::of(geometry.slots() as u32),
            bad: BadChunks::new(geometry),
            devices: BTreeMap::new(),
            events: VecDeque::new(),
            scrub: None,
            ranges: BTreeMap::new(),
            is_read: false,
            are_lost: false,
        }
    }

    pub(crate) fn apply(&mut self, note: &Note) {
        match *note {
            Note::Device(note) => {
                let checksum_errors = kept_count(note.checksum_errors);
                let media_errors = kept_count(note.media_errors);
                if note.all_bad {
                    self.bad.all_are_bad(note.slot);
                }
                let all_bad = false;
                self.devices.insert(note.slot, DeviceNote { all_bad, checksum_errors, media_errors, ..note });
            }
            Note::Event(note) => {
                self.events.push_back(note);
                if self.events.len() > self.room.events {
                    self.events.pop_front();
                }
            }
            Note::Scrub(note) => {
                self.scrub = Some(ScrubNote { counts: note.counts.map(kept_count), ..note });
            }
            Note::Bad(note) => self.bad.apply(&note),
            Note::Range(RangeNote { first, count, is_lost, since }) => {
                self.cut(first.0, first.0 + count);
                if is_lost {
                    self.ranges.insert(first.0, (first.0 + count, since));
                    self.join();
                }
            }
        }
    }

    /// Removes blocks that are written again, or read as zeros, from the lost ranges.
    pub(crate) fn written(&mut self, first: UserBlock, count: u64) {
        self.cut(first.0, first.0 + count);
    }

    /// Removes a range of blocks from the lost ranges.
    fn cut(&mut self, from: u64, to: u64) {
        if self.ranges.is_empty() {
            return;
        }
        let touched = self.ranges.range(..to).filter(|(_, (end, _))| *end > from);
        let touched: Vec<(u64, Range)> = touched.map(|(&first, &range)| (first, range)).collect();
        for (first, (end, since)) in touched {
            self.ranges.remove(&first);
            if first < from {
                self.ranges.insert(first, (from, since));
            }
            if end > to {
                self.ranges.insert(to, (end, since));
            }
        }
        if self.ranges.len() > self.room.ranges {
            // The cut has split a range.
            self.join();
        }
    }

    /// Joins ranges that touch. While there are more than there is room for, joins the nearest
    /// ones.
    fn join(&mut self) {
        loop {
            let pairs = self.ranges.iter().zip(self.ranges.iter().skip(1));
            let gaps = pairs.map(|((&first, range), (&second, _))| (second - range.0, first, second));
            let Some((gap, first, second)) = gaps.min() else { return };
            if gap > 0 && self.ranges.len() <= self.room.ranges {
                return;
            }
            let Some((end, since)) = self.ranges.remove(&second) else { return };
            if let Some(range) = self.ranges.get_mut(&first) {
                *range = (end, range.1.min(since));
            }
        }
    }

    /// Returns the lost ranges, ascending.
    pub(crate) fn ranges(&self) -> Vec<RangeNote> {
        let range = |(&first, &(end, since)): (&u64, &Range)| RangeNote {
            first: UserBlock(first),
            count: end - first,
            is_lost: true,
            since,
        };
        self.ranges.iter().map(range).collect()
    }

    /// Returns true if any block is lost.
    pub(crate) fn has_ranges(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Tests whether any block of a range is lost.
    fn is_lost(&self, first: UserBlock, count: u64) -> bool {
        let end = first.0 + count;
        self.ranges.range(..end).any(|(_, range)| range.0 > first.0)
    }

    /// Returns the lost parts of a range, as first block and count.
    pub(crate) fn lost_within(&self, first: UserBlock, count: u64) -> impl Iterator<Item = (UserBlock, u64)> {
        let end = first.0 + count;
        self.ranges.range(..end).filter_map(move |(&from, range)| {
            let (from, to) = (from.max(first.0), range.0.min(end));
            (from < to).then(|| (UserBlock(from), to - from))
        })
    }

    /// Returns all notes, for a snapshot.
    fn all(&self) -> Vec<Note> {
        let (all_bad, bad) = self.bad.kept(self.room.bad);
        let mut devices = self.devices.clone();
        for slot in all_bad {
            devices.entry(slot).or_insert(nothing_known(slot)).all_bad = true;
        }
        let devices = devices.into_values().map(Note::Device);
        let events = self.events.iter().copied().map(Note::Event);
        let ranges = self.ranges().into_iter().map(Note::Range);
        let notes = devices.chain(events).chain(self.scrub.map(Note::Scrub)).chain(ranges);
        notes.chain(bad.into_iter().map(Note::Bad)).collect()
    }

    /// Returns the notes of a state that was read.
    pub(crate) fn of_state(state: &State, geometry: &Geometry) -> Notes {
        let mut notes = Notes::new(geometry);
        state.notes.iter().for_each(|note| notes.apply(note));
        notes.is_read = true;
        notes
    }
}

/// Returns the note of a device of which nothing is known.
fn nothing_known(slot: Slot) -> DeviceNote {
    DeviceNote {
        slot,
        reason: Reason::NONE,
        errno: 0,
        since: 0,
        all_bad: false,
        checksum_errors: 0,
        media_errors: 0,
    }
}

/// The notes that no record has yet, and counts for later ones.
#[derive(Debug)]
pub(crate) struct Noting {
    owed: VecDeque<Note>,
    /// Seconds since 1970, as the driver set the clock last; 0: it never did.
    now: i64,
    /// The driver's reason for a device that it will report as gone.
    why: BTreeMap<Slot, (Reason, i32)>,
    /// A write has just failed, and the volume takes that for the loss of its device.
    write_failed: bool,
    /// Checksum and media errors of each device from before this session, by slot.
    before: BTreeMap<Slot, (u64, u64)>,
    /// Reads and errors of each device in this session, by slot.
    counts: Vec<DeviceCounts>,
}

impl Noting {
    /// Begins a session with the notes on devices from earlier ones.
    pub(crate) fn after(notes: &Notes, slots: usize) -> Noting {
        let known = notes.devices.iter();
        let before = known.map(|(&slot, note)| (slot, (note.checksum_errors, note.media_errors)));
        Noting {
            owed: VecDeque::new(),
            now: 0,
            why: BTreeMap::new(),
            write_failed: false,
            before: before.collect(),
            counts: vec![DeviceCounts::default(); slots],
        }
    }

    pub(crate) fn now(&self) -> i64 {
        self.now
    }

    pub(crate) fn tell_time(&mut self, now: i64) {
        self.now = now;
    }

    /// Sets whether the I/O that has just ended is a write that failed.
    pub(crate) fn set_write_failed(&mut self, is_failed: bool) {
        self.write_failed = is_failed;
    }

    /// Returns reads and errors of each device since the volume was opened, by slot.
    pub(crate) fn counts(&self) -> &[DeviceCounts] {
        &self.counts
    }

    /// Counts blocks of a device that were read.
    pub(crate) fn count_read(&mut self, slot: Slot, blocks: u64) {
        self.counts[slot.0 as usize].blocks_read += blocks;
    }

    /// Counts wrong blocks and wrong headers of a device.
    pub(crate) fn count_wrong(&mut self, slot: Slot, wrong: u64) {
        self.counts[slot.0 as usize].checksum_errors += wrong;
    }

    /// Counts a media error of a device, if its read has failed.
    pub(crate) fn count_unreadable(&mut self, slot: Slot, has_failed: bool) {
        self.counts[slot.0 as usize].media_errors += u64::from(has_failed);
    }

    /// Counts a bad chunk of a device, if the read of it has failed.
    pub(crate) fn count_bad_chunk(&mut self, slot: Slot, has_failed: bool) {
        self.counts[slot.0 as usize].unreadable_chunks += u64::from(has_failed);
    }

    /// Resets the error counts of a device. `false`: there is no such device.
    fn forget_errors(&mut self, slot: Slot) -> bool {
        let Some(counts) = self.counts.get_mut(slot.0 as usize) else { return false };
        (counts.checksum_errors, counts.media_errors) = (0, 0);
        self.before.remove(&slot);
        true
    }

    /// Queues a note for the next record. A note of bad chunks that continues the last one of its
    /// device is merged with it, so that the scrub of a bad device needs few notes.
    fn owe(&mut self, note: Note) {
        if let Note::Bad(new) = note {
            let of_device = |owed: &&mut Note| matches!(owed, Note::Bad(known) if known.slot == new.slot);
            let last = self.owed.iter_mut().rev().take(JOINED_NOTES).find(of_device);
            if let Some(Note::Bad(last)) = last
                && last.is_bad == new.is_bad
                && last.first + last.count == new.first
            {
                last.count += new.count;
                return;
            }
        }
        self.owed.push_back(note);
    }
}

impl Engine {
    /// Applies a note and queues it for a record; `at_once`: a record is written for it.
    pub(crate) fn note(&mut self, note: Note, at_once: bool) {
        self.maps.notes_mut().apply(&note);
        self.noting.owe(note);
        self.records.want_if(at_once);
    }

    pub(crate) fn event(&mut self, what: EventKind, slot: Option<Slot>, value: u64) {
        let (reason, errno) = (Reason::NONE, 0);
        let at = self.noting.now;
        self.note(Note::Event(EventNote { what, reason, slot, errno, at, value }), false);
    }

    /// Keeps the driver's reason for the device that it reports as gone next.
    pub(crate) fn tell_why(&mut self, slot: Slot, reason: Reason, errno: i32) {
        self.noting.why.insert(slot, (reason, errno));
    }

    /// Returns the history of a device, including this session.
    pub(crate) fn device_note(&self, slot: Slot) -> DeviceNote {
        let known = self.maps.notes().devices.get(&slot).copied().unwrap_or(nothing_known(slot));
        let (checksum, media) = self.noting.before.get(&slot).copied().unwrap_or_default();
        let counts = &self.noting.counts[slot.0 as usize];
        DeviceNote {
            checksum_errors: kept_count(checksum + counts.checksum_errors),
            media_errors: kept_count(media + counts.media_errors),
            ..known
        }
    }

    /// Notes the loss of a device, with its reason in the same record.
    pub(crate) fn note_loss(&mut self, slot: Slot) {
        let own = match () {
            () if self.service.is_opening() => Reason::NOT_THERE,
            () if self.noting.write_failed => Reason::WRITE_FAILED,
            () => Reason::GONE,
        };
        let (reason, errno) = self.noting.why.remove(&slot).unwrap_or((own, 0));
        let at = self.noting.now;
        let known = DeviceNote { reason, errno, since: at, ..self.device_note(slot) };
        self.note(Note::Device(known), false);
        self.interrupt_device_scrub(slot);
        let (what, slot, value) = (EventKind::LOST, Some(slot), 0);
        self.note(Note::Event(EventNote { what, reason, slot, errno, at, value }), false);
    }

    /// Notes that a device takes part from now on: the one that was lost, or a new one.
    pub(crate) fn note_arrival(&mut self, slot: Slot, is_new: bool) {
        self.noting.why.remove(&slot);
        if is_new {
            // Errors of the old device are not those of the new one.
            self.noting.forget_errors(slot);
            let lost = self.device_note(slot);
            self.note(Note::Device(lost), false);
            self.all_is_good(slot);
            self.forget_scrub_of(slot);
        }
        self.event(if is_new { EventKind::NEW } else { EventKind::BACK }, Some(slot), 0);
    }

    /// Notes lost blocks, until they are written again or can be read.
    pub(crate) fn note_lost(&mut self, blocks: &[UserBlock]) {
        let lost = |block: &&UserBlock| !self.maps.notes().is_lost(**block, 1);
        let new: Vec<UserBlock> = blocks.iter().filter(lost).copied().collect();
        let since = self.noting.now;
        for (first, count) in runs(&new) {
            self.event(EventKind::DATA_LOST, None, first.0);
            self.note(Note::Range(RangeNote { first, count, is_lost: true, since }), true);
        }
    }

    /// Notes that blocks on the devices could be read, so that they are not lost.
    pub(crate) fn note_had(&mut self, first: UserBlock, count: u64) {
        let lost: Vec<(UserBlock, u64)> = self.maps.notes().lost_within(first, count).collect();
        for (first, count) in lost {
            self.note_good(first, count);
        }
    }

    fn note_good(&mut self, first: UserBlock, count: u64) {
        if self.maps.notes().is_lost(first, count) {
            let (is_lost, since) = (false, self.noting.now);
            self.note(Note::Range(RangeNote { first, count, is_lost, since }), false);
        }
    }

    /// Notes that users' blocks are durable. If some were lost, users wait for the record of their
    /// return.
    pub(crate) fn note_rewritten(&mut self, blocks: &[UserBlock]) {
        if !self.maps.notes().has_ranges() {
            return;
        }
        for (first, count) in runs(blocks) {
            self.records.want_if(self.maps.notes().is_lost(first, count));
            self.note_good(first, count);
        }
    }

    /// Resets the counts of wrong blocks that a crash left in the last record. These blocks are
    /// written again, and no device is to blame.
    pub(crate) fn forgive_what_a_crash_left(&mut self) {
        self.noting.counts.iter_mut().for_each(|counts| counts.checksum_errors = 0);
    }

    /// Resets the error counts of a device, because an operator knows of the errors so far.
    pub(crate) fn clear_errors(&mut self, slot: Slot) {
        if !self.noting.forget_errors(slot) {
            return;
        }
        self.event(EventKind::ERRORS_CLEARED, Some(slot), 0);
        let known = self.device_note(slot);
        self.note(Note::Device(known), true);
    }

    /// Resets the error counts of a slot whose device was replaced.
    pub(crate) fn forget_errors(&mut self, slot: Slot) {
        self.noting.forget_errors(slot);
        let known = self.device_note(slot);
        self.note(Note::Device(known), false);
    }

    /// Notes an event that only the driver knows.
    pub(crate) fn note_event(&mut self, slot: Option<Slot>, what: EventKind, (reason, errno): (Reason, i32)) {
        if slot.is_some_and(|slot| slot.0 as usize >= self.geometry.slots()) {
            return;
        }
        if let (Some(slot), EventKind::COPY_TAKEN) = (slot, what) {
            // The errors of the old device are not those of the new one.
            self.forget_errors(slot);
        }
        let (at, value) = (self.noting.now, 0);
        self.note(Note::Event(EventNote { what, reason, slot, errno, at, value }), true);
    }

    /// Notes the current counts of devices and of the scrub, if they have changed.
    fn refresh_notes(&mut self) {
        for slot in (0..self.geometry.slots() as u32).map(Slot) {
            let now = self.device_note(slot);
            let known = self.maps.notes().devices.get(&slot);
            let is_worth_it = known.is_some() || now.checksum_errors + now.media_errors > 0;
            if is_worth_it && known != Some(&now) {
                self.note(Note::Device(now), false);
            }
        }
        if let Some(scrub) = self.scrub_note().filter(|scrub| self.maps.notes().scrub != Some(*scrub)) {
            self.note(Note::Scrub(scrub), false);
        }
    }

    /// Wants a record if any note is in no record yet.
    pub(crate) fn want_record_of_notes(&mut self) {
        self.refresh_notes();
        self.records.want_if(!self.noting.owed.is_empty());
    }

    /// Returns the notes for the record that is about to be written.
    pub(crate) fn notes_for_record(&mut self) -> Vec<Change> {
        self.refresh_notes();
        let mut left = RECORD_NOTE_BYTES;
        let mut changes = Vec::new();
        while let Some(note) = self.noting.owed.front().filter(|note| note.len_bytes() <= left).copied() {
            self.noting.owed.pop_front();
            if let Note::Bad(bad @ BadNote { is_bad: true, .. }) = note {
                // Chunks written since are good, by a record that may be older than the next one.
                let parts = self.maps.notes().bad.still_bad(&bad);
                if parts[..] != [bad] {
                    parts.into_iter().rev().for_each(|part| self.noting.owed.push_front(Note::Bad(part)));
                    continue;
                }
            }
            left -= note.len_bytes();
            changes.push(Change::Note(note));
        }
        // Notes that have no room here go into the next record.
        self.records.want_if(!self.noting.owed.is_empty());
        changes
    }

    /// Returns all notes, for the snapshot that is about to be written. None is pending for a
    /// record afterwards.
    pub(crate) fn notes_for_snapshot(&mut self) -> Vec<Note> {
        self.refresh_notes();
        self.noting.owed.clear();
        self.maps.notes().all()
    }
}

/// Adds notes to the changes of a record. Those of bad chunks come first, so that the changes that
/// write a stripe make it good when the record is read.
pub(crate) fn add_notes(changes: &mut Vec<Change>, notes: Vec<Change>) {
    let is_bad = |change: &Change| matches!(change, Change::Note(Note::Bad(_)));
    let (bad, mut others) = notes.into_iter().partition::<Vec<Change>, _>(is_bad);
    changes.splice(0..0, bad);
    changes.append(&mut others);
}

/// Returns blocks as runs; the blocks may be in any order.
fn runs(blocks: &[UserBlock]) -> Vec<(UserBlock, u64)> {
    merged(blocks.iter().map(|&block| (block, 1)).collect())
}

/// Returns runs of blocks, as first and count, sorted and joined where they touch.
fn merged(mut runs: Vec<(UserBlock, u64)>) -> Vec<(UserBlock, u64)> {
    runs.sort_unstable();
    let mut joined: Vec<(UserBlock, u64)> = Vec::new();
    for (first, count) in runs {
        match joined.last_mut() {
            Some((before, all)) if before.0 + *all >= first.0 => {
                *all = (*all).max(first.0 + count - before.0);
            }
            _ => joined.push((first, count)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantile_format::volume::{LogicalStripe, ScrubState};

    #[test]
    fn runs_that_touch_are_joined() {
        let runs =
            |runs: &[(u64, u64)]| runs.iter().map(|&(first, count)| (UserBlock(first), count)).collect();
        let joined: Vec<(UserBlock, u64)> =
            merged(runs(&[(20, 5), (0, 8), (8, 2), (3, 1), (25, 1), (30, 1)]));
        assert!(joined == runs(&[(0, 10), (20, 6), (30, 1)]) as Vec<_>);
    }

    fn range(first: u64, count: u64, is_lost: bool) -> Note {
        Note::Range(RangeNote { first: UserBlock(first), count, is_lost, since: 7 })
    }

    fn notes(code: &str) -> Notes {
        let code = pantile_code::Code::parse(code).expect("a spec");
        let new = crate::NewVolume { code, ..crate::NewVolume::small() };
        Notes::new(&Geometry::new(new).expect("a geometry"))
    }

    #[test]
    fn written_blocks_are_not_lost() {
        let of = |notes: &Notes| -> Vec<(u64, u64)> {
            notes.ranges().iter().map(|range| (range.first.0, range.count)).collect()
        };
        let mut notes = notes("raid6:2");
        notes.apply(&range(10, 10, true));
        notes.apply(&range(30, 10, true));
        notes.written(UserBlock(12), 2);
        notes.written(UserBlock(25), 5);
        assert_eq!(of(&notes), [(10, 2), (14, 6), (30, 10)]);
        notes.written(UserBlock(0), 35);
        assert_eq!(of(&notes), [(35, 5)]);
        notes.apply(&range(36, 1, false));
        assert_eq!(of(&notes), [(35, 1), (37, 3)]);
        notes.apply(&range(36, 1, true));
        assert_eq!(of(&notes), [(35, 5)]);
    }

    /// Counts of a hostile device are capped, so that sums of them do not overflow.
    #[test]
    fn counts_that_cannot_be_are_the_most_that_may_be_and_never_none() {
        let mut notes = notes("raid6:2");
        let (slot, reason) = (Slot(1), Reason::NONE);
        let (checksum_errors, media_errors) = (u64::MAX, 1);
        notes.apply(&Note::Device(DeviceNote {
            slot,
            reason,
            errno: 0,
            since: 0,
            all_bad: false,
            checksum_errors,
            media_errors,
        }));
        let state = ScrubState::Running;
        let (repair, position) = (true, LogicalStripe(1));
        let counts = [u64::MAX; 12];
        notes.apply(&Note::Scrub(ScrubNote { state, repair, begun_at: 0, ended_at: 0, position, counts }));
        let device = notes.devices[&slot];
        assert_eq!((device.checksum_errors, device.media_errors), (COUNT_MOST, 1));
        let kept = notes.scrub.expect("it is kept").counts;
        assert_eq!(kept.iter().try_fold(0u64, |sum, &count| sum.checked_add(count)), Some(12 * COUNT_MOST));
    }

    #[test]
    fn with_too_many_ranges_more_is_called_lost_and_never_less() {
        let mut notes = notes("raid6:198");
        let most = notes.room.ranges as u64;
        for n in 0..3 * most {
            notes.apply(&range(n * n, 1, true));
            assert!(notes.ranges.len() as u64 <= most);
            for known in 0..=n {
                assert!(notes.is_lost(UserBlock(known * known), 1), "{known} of {n}");
            }
        }
    }

    /// Blocks written again in the middle of lost ranges split them.
    #[test]
    fn lost_ranges_that_are_written_in_part_fit_the_room_of_a_state() {
        let mut notes = notes("raid6:198");
        let most = notes.room.ranges as u64;
        notes.apply(&range(0, 8 * most, true));
        for n in 0..3 * most {
            notes.written(UserBlock(2 * n + 1), 1);
            assert!(notes.ranges.len() as u64 <= most, "{n}");
            assert!(notes.is_lost(UserBlock(2 * n + 2), 1), "{n}");
        }
    }
}
