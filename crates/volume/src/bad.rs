//! Chunks and log blocks that are known to be bad. At their last read they were wrong or
//! unreadable, and they have not been written since.
//!
//! Reads and scrubs find them. [`crate::standing`] counts them among the losses of their stripe or
//! log row. They are notes ([`crate::notes`]), so a restart knows them. The record that maps a
//! written chunk also makes it good ([`crate::maps::Maps::apply`]), without a note.

use crate::engine::Engine;
use crate::maps::{Mapping, Numbers};
use crate::{Geometry, IoResult, Slot};
use pantile_format::volume::{BadNote, Note};
use std::collections::{BTreeMap, BTreeSet};

/// The most runs in memory, of all devices together: some MB. Beyond that the device with the most
/// runs counts as bad as a whole.
const RUNS_MOST: usize = 1 << 14;

/// Known bad content by device. A device without any has no entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadChunks {
    stripes: u32,
    rows: u32,
    devices: BTreeMap<Slot, OfDevice>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OfDevice {
    /// Logical stripes of which the device's chunk is bad.
    stripes: Numbers,
    /// Log rows of which the device's block is bad.
    rows: Numbers,
}

impl OfDevice {
    fn runs(&self) -> usize {
        self.stripes.runs().len() + self.rows.runs().len()
    }

    fn is_empty(&self) -> bool {
        self.stripes.len() + self.rows.len() == 0
    }
}

impl BadChunks {
    pub(crate) fn new(geometry: &Geometry) -> BadChunks {
        let (stripes, rows) = (geometry.logical_stripes(), geometry.log_rows());
        BadChunks { stripes, rows, devices: BTreeMap::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    /// Devices with bad content.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.devices.keys().copied()
    }

    pub(crate) fn has_stripe(&self, slot: Slot, logical: u32) -> bool {
        self.devices.get(&slot).is_some_and(|of| of.stripes.contains(logical))
    }

    pub(crate) fn has_row(&self, slot: Slot, row: u32) -> bool {
        self.devices.get(&slot).is_some_and(|of| of.rows.contains(row))
    }

    /// Returns true if any block of the log is bad.
    pub(crate) fn has_rows(&self) -> bool {
        self.devices.values().any(|of| of.rows.len() > 0)
    }

    /// Returns runs of stripes as first, last, and the devices whose chunks are bad in the whole
    /// run. Ascending; every run names a device.
    pub(crate) fn stripes_by_devices(&self) -> Vec<(u32, u32, BTreeSet<Slot>)> {
        let mut turns: BTreeMap<u64, Vec<(Slot, bool)>> = BTreeMap::new();
        for (&slot, of) in &self.devices {
            for (first, last) in of.stripes.runs() {
                turns.entry(first.into()).or_default().push((slot, true));
                turns.entry(u64::from(last) + 1).or_default().push((slot, false));
            }
        }
        let (mut runs, mut from, mut devices) = (Vec::new(), 0, BTreeSet::new());
        for (at, turns) in turns {
            if !devices.is_empty() {
                runs.push((from as u32, (at - 1) as u32, devices.clone()));
            }
            from = at;
            for (slot, begins) in turns {
                match begins {
                    true => devices.insert(slot),
                    false => devices.remove(&slot),
                };
            }
        }
        runs
    }

    /// Returns the stripes of which a device's chunk is bad.
    pub(crate) fn stripes_of(&self, slot: Slot) -> Option<&Numbers> {
        self.devices.get(&slot).map(|of| &of.stripes)
    }

    /// Notes that stripes are written, or read as zeros: their chunks are good on every device.
    pub(crate) fn stripes_are_written(&mut self, first: u32, count: u32) {
        let Some(others) = count.checked_sub(1) else { return };
        self.change_all(|of| of.stripes.remove_run(first, first + others));
    }

    pub(crate) fn row_is_written(&mut self, row: u32) {
        self.change_all(|of| of.rows.remove_run(row, row));
    }

    fn change_all(&mut self, change: impl Fn(&mut OfDevice)) {
        if !self.is_empty() {
            self.devices.values_mut().for_each(change);
            self.devices.retain(|_, of| !of.is_empty());
            self.keep_within_bounds();
        }
    }

    pub(crate) fn apply(&mut self, note: &BadNote) {
        let of = self.devices.entry(note.slot).or_default();
        let stripes = u64::from(self.stripes);
        let (first, last) = (note.first, note.first + note.count.saturating_sub(1));
        let set = |numbers: &mut Numbers, first: u64, last: u64| match note.is_bad {
            true => numbers.insert_run(first as u32, last as u32),
            false => numbers.remove_run(first as u32, last as u32),
        };
        if first < stripes {
            set(&mut of.stripes, first, last.min(stripes - 1));
        }
        if last >= stripes {
            set(&mut of.rows, first.max(stripes) - stripes, last - stripes);
        }
        if of.is_empty() {
            self.devices.remove(&note.slot);
        }
        self.keep_within_bounds();
    }

    /// Notes that all content of a device is bad.
    pub(crate) fn all_are_bad(&mut self, slot: Slot) {
        let (stripes, rows) = (Numbers::all_below(self.stripes), Numbers::all_below(self.rows));
        self.devices.insert(slot, OfDevice { stripes, rows });
    }

    fn keep_within_bounds(&mut self) {
        while self.devices.values().map(OfDevice::runs).sum::<usize>() > RUNS_MOST {
            let Some(slot) = self.most_runs(&BTreeSet::new()) else { return };
            self.all_are_bad(slot);
        }
    }

    /// Returns the device with the most runs, except those in `but`.
    fn most_runs(&self, but: &BTreeSet<Slot>) -> Option<Slot> {
        let others = self.devices.iter().filter(|(slot, _)| !but.contains(slot));
        others.max_by_key(|(_, of)| of.runs()).map(|(&slot, _)| slot)
    }

    /// Returns all bad content as at most `room` notes, and the devices that count as bad as a
    /// whole instead.
    pub(crate) fn kept(&self, room: usize) -> (BTreeSet<Slot>, Vec<BadNote>) {
        let mut whole = BTreeSet::new();
        loop {
            let of_runs = self.devices.iter().filter(|(slot, _)| !whole.contains(*slot));
            let notes: Vec<BadNote> = of_runs.flat_map(|(&slot, of)| self.notes_of(slot, of)).collect();
            let most = self.most_runs(&whole).filter(|_| notes.len() > room);
            match most {
                Some(slot) => _ = whole.insert(slot),
                None => return (whole, notes),
            }
        }
    }

    fn notes_of(&self, slot: Slot, of: &OfDevice) -> Vec<BadNote> {
        let note = |base: u32| {
            move |(first, last): (u32, u32)| BadNote {
                slot,
                first: u64::from(base) + u64::from(first),
                count: u64::from(last - first) + 1,
                is_bad: true,
            }
        };
        of.stripes.runs().map(note(0)).chain(of.rows.runs().map(note(self.stripes))).collect()
    }

    /// Returns the parts of a note that are still bad.
    pub(crate) fn still_bad(&self, note: &BadNote) -> Vec<BadNote> {
        let Some(of) = self.devices.get(&note.slot) else { return Vec::new() };
        let end = note.first + note.count;
        let parts = self.notes_of(note.slot, of).into_iter().filter_map(|known| {
            let (from, to) = (known.first.max(note.first), (known.first + known.count).min(end));
            (from < to).then(|| BadNote { first: from, count: to - from, ..known })
        });
        parts.collect()
    }
}

impl Engine {
    /// Notes that a device's chunk, read under a mapping, is bad, unless the device is gone. A
    /// chunk whose read failed is also counted.
    pub(crate) fn chunk_is_bad(&mut self, slot: Slot, logical: u32, mapping: Mapping, result: &IoResult) {
        let is_current = self.maps.mapping(logical) == Some(mapping);
        if is_current && self.maps.has_some(slot, mapping.generation, logical) {
            self.note_bad(slot, logical.into(), result);
        }
    }

    /// Notes that a device's block of a log row, read as of a generation, is bad.
    pub(crate) fn row_block_is_bad(&mut self, slot: Slot, row: u32, generation: u64, result: &IoResult) {
        let is_current = self.maps.row_as_of(row, generation).is_some();
        if is_current && self.maps.has(slot, generation, None) {
            self.note_bad(slot, u64::from(self.geometry.logical_stripes()) + u64::from(row), result);
        }
    }

    fn note_bad(&mut self, slot: Slot, first: u64, result: &IoResult) {
        // Bad chunks found while the volume is opened are written again before it serves.
        if *result == IoResult::Gone || self.service.is_opening() || self.is_bad(slot, first) {
            return;
        }
        self.noting.count_bad_chunk(slot, *result == IoResult::MediaError);
        self.note(Note::Bad(BadNote { slot, first, count: 1, is_bad: true }), false);
    }

    /// Notes a chunk or row block that a rebuild could not recover, because the device counts as
    /// whole after the rebuild.
    pub(crate) fn was_not_made_again(&mut self, slot: Slot, first: u64) {
        if !self.is_bad(slot, first) {
            self.note(Note::Bad(BadNote { slot, first, count: 1, is_bad: true }), false);
        }
    }

    fn is_bad(&self, slot: Slot, first: u64) -> bool {
        let (bad, stripes) = (&self.maps.notes().bad, u64::from(self.geometry.logical_stripes()));
        match first < stripes {
            true => bad.has_stripe(slot, first as u32),
            false => bad.has_row(slot, (first - stripes) as u32),
        }
    }

    /// Notes that a device's chunk of a stripe is good: all of it was read and is right, or it is
    /// written.
    pub(crate) fn chunk_is_good(&mut self, slot: Slot, logical: u32) {
        self.is_good(slot, logical.into());
    }

    pub(crate) fn row_block_is_good(&mut self, slot: Slot, row: u32) {
        self.is_good(slot, u64::from(self.geometry.logical_stripes()) + u64::from(row));
    }

    fn is_good(&mut self, slot: Slot, first: u64) {
        if self.is_bad(slot, first) {
            self.note(Note::Bad(BadNote { slot, first, count: 1, is_bad: false }), false);
        }
    }

    /// Notes that a new device has no bad content.
    pub(crate) fn all_is_good(&mut self, slot: Slot) {
        if self.maps.notes().bad.slots().any(|bad| bad == slot) {
            let count = u64::from(self.geometry.logical_stripes()) + u64::from(self.geometry.log_rows());
            self.note(Note::Bad(BadNote { slot, first: 0, count, is_bad: false }), false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bad() -> BadChunks {
        BadChunks { stripes: 100_000, rows: 50, devices: BTreeMap::new() }
    }

    fn note(slot: u32, first: u64, count: u64, is_bad: bool) -> BadNote {
        BadNote { slot: Slot(slot), first, count, is_bad }
    }

    #[test]
    fn chunks_of_a_written_stripe_are_good_on_every_device() {
        let mut bad = bad();
        bad.apply(&note(1, 10, 20, true));
        bad.apply(&note(2, 25, 5, true));
        bad.apply(&note(2, 99_999, 3, true));
        assert!(bad.has_stripe(Slot(2), 99_999) && bad.has_row(Slot(2), 1) && !bad.has_row(Slot(2), 2));
        let slots = |slots: &[u32]| slots.iter().copied().map(Slot).collect::<BTreeSet<Slot>>();
        let runs = vec![(10, 24, slots(&[1])), (25, 29, slots(&[1, 2])), (99_999, 99_999, slots(&[2]))];
        assert_eq!(bad.stripes_by_devices(), runs);
        bad.stripes_are_written(20, 7);
        let runs = vec![(10, 19, slots(&[1])), (27, 29, slots(&[1, 2])), (99_999, 99_999, slots(&[2]))];
        assert_eq!(bad.stripes_by_devices(), runs);
        bad.row_is_written(1);
        bad.apply(&note(1, 0, 100_050, false));
        bad.apply(&note(2, 0, 100_050, false));
        assert!(!bad.has_row(Slot(2), 0) && bad.is_empty());
    }

    #[test]
    fn with_more_runs_than_there_is_room_for_more_counts_as_bad_and_never_less() {
        let mut bad = bad();
        bad.apply(&note(3, 7, 2, true));
        for nth in 0..40 {
            bad.apply(&note(1, 2 * nth, 1, true));
        }
        let (whole, notes) = bad.kept(20);
        assert_eq!((whole, notes), (BTreeSet::from([Slot(1)]), vec![note(3, 7, 2, true)]));
        assert_eq!(bad.kept(41).1.len(), 41);
        for nth in 0..=RUNS_MOST as u64 {
            bad.apply(&note(1, 2 * nth, 1, true));
        }
        assert!(bad.has_stripe(Slot(1), 1) && bad.has_row(Slot(1), 49) && !bad.has_stripe(Slot(3), 6));
        assert!(bad.has_stripe(Slot(3), 7));
        // Parts of a note that have become good are left out.
        bad.apply(&note(1, 5, 3, false));
        assert_eq!(bad.still_bad(&note(1, 4, 5, true)), [note(1, 4, 1, true), note(1, 8, 1, true)]);
    }
}
