//! The journals while a volume is opened: reads rings and snapshots, and replays the records.

use super::{OpenError, Opening, Phase, RING_PIECE_BLOCKS, RINGS_BYTES, Reading, Ring};
use crate::engine::Engine;
use crate::journal::record_runs;
use crate::maps::Change;
use crate::notes::Notes;
use crate::records::Records;
use crate::rings::{Kept, Rings};
use crate::stored::{SnapshotReader, change};
use crate::{BLOCK_BYTES, DeviceBlock, Slot};
use pantile_format::volume::{
    PIECE_BLOCKS, Reason, Record, RecordNumber, SnapshotRef, State, StateRef, Superblock,
};

impl Opening {
    pub(super) fn read_journals(&mut self) {
        self.phase = Phase::Journals;
        let slots = (0..self.geometry.slots() as u32).map(Slot);
        self.journals.unread = slots.filter(|slot| !self.gone[slot.0 as usize]).collect();
        self.begin_rings();
        self.next_phase_if_done();
    }

    /// Begins to read rings, as many at a time as fit into the memory for them.
    pub(super) fn begin_rings(&mut self) {
        let blocks = self.geometry.journal_blocks();
        let ring_bytes = u64::from(blocks) * BLOCK_BYTES;
        while (self.journals.reading.len() as u64 + 1) * ring_bytes <= RINGS_BYTES
            || self.journals.reading.is_empty()
        {
            let Some(slot) = self.journals.unread.pop_front() else { return };
            if !self.gone[slot.0 as usize] {
                let ring = Ring { bytes: vec![0; ring_bytes as usize], next: 0, outstanding: 0 };
                self.journals.reading.insert(slot, ring);
                self.read_on(slot);
            }
        }
    }

    /// Reads the next piece of a ring; after the last piece keeps its records.
    fn read_on(&mut self, slot: Slot) {
        let blocks = self.geometry.journal_blocks();
        let Some(ring) = self.journals.reading.get_mut(&slot) else { return };
        let from = ring.next;
        if from < blocks {
            let count = RING_PIECE_BLOCKS.min(blocks - from);
            (ring.next, ring.outstanding) = (from + count, 1);
            let at = DeviceBlock(self.geometry.common().journal().first.0 + u64::from(from));
            self.read(slot, at, count, Reading::Journal(slot, from));
            return;
        }
        if let Some(ring) = self.journals.reading.remove(&slot) {
            let replays = self.superblock(slot).and_then(|superblock| superblock.snapshot);
            let from = replays.map_or(0, |snapshot| snapshot.replay_at);
            self.journals.rings.take(slot, &ring.bytes, from, &self.geometry);
        }
        self.begin_rings();
    }

    pub(super) fn read_piece_by_block(&mut self, slot: Slot, from: u32) {
        let Some(ring) = self.journals.reading.get_mut(&slot) else { return };
        let piece = from..ring.next;
        ring.outstanding = piece.len() as u32;
        for block in piece {
            let at = DeviceBlock(self.geometry.common().journal().first.0 + u64::from(block));
            self.read(slot, at, 1, Reading::JournalBlock(slot, block));
        }
    }

    /// Takes a piece of a ring; empty bytes mean that it cannot be read.
    pub(super) fn had_of_ring(&mut self, slot: Slot, from: u32, bytes: &[u8]) {
        let Some(ring) = self.journals.reading.get_mut(&slot) else { return };
        let start = from as usize * BLOCK_BYTES as usize;
        if let Some(place) = ring.bytes.get_mut(start..start + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        ring.outstanding -= 1;
        if ring.outstanding == 0 {
            self.read_on(slot);
        }
    }

    /// Begins to read the snapshot on the next device.
    pub(super) fn try_snapshot(&mut self) {
        let Some(reference) = self.superblocks.newest.as_ref().and_then(|n| n.snapshot) else { return };
        match self.snapshot.sources.pop() {
            Some(slot) => {
                self.snapshot.reader = Some(SnapshotReader::new(&self.geometry, &reference));
                self.read_snapshot_on(slot);
            }
            None => self.error = Some(OpenError::NoSnapshot),
        }
    }

    /// Reads the next piece of the snapshot; after the last builds the maps, if it is whole.
    fn read_snapshot_on(&mut self, slot: Slot) {
        let Some(SnapshotRef { area, blocks, .. }) =
            self.superblocks.newest.as_ref().and_then(|n| n.snapshot)
        else {
            return;
        };
        let Some(reader) = &self.snapshot.reader else { return };
        match reader.wanted() {
            Some(block) => {
                let at = DeviceBlock(self.geometry.common().snapshot(area).first.0 + u64::from(block));
                self.read(slot, at, PIECE_BLOCKS.min(blocks - block), Reading::Snapshot(slot));
            }
            None => self.base = self.snapshot.reader.take().and_then(SnapshotReader::finish),
        }
    }

    pub(super) fn had_of_snapshot(&mut self, slot: Slot, bytes: &[u8]) {
        let Some(reader) = &mut self.snapshot.reader else { return };
        if reader.push(bytes, &self.geometry) {
            self.read_snapshot_on(slot);
        } else {
            self.snapshot.reader = None;
        }
    }

    pub(super) fn snapshot_read(&mut self) {
        if self.base.is_none() {
            self.try_snapshot();
            return;
        }
        if !self.read_state() {
            self.replay();
        }
    }

    /// Asks the next device for the state that goes with the snapshot; `false`: the state is read
    /// already, or no device is left to ask.
    fn read_state(&mut self) -> bool {
        let newest = self.superblocks.newest.as_ref();
        let reference = newest.and_then(|newest| Some((newest.snapshot?.area, newest.state?)));
        let Some((area, StateRef { blocks, .. })) = reference else { return false };
        let gone = &self.gone;
        let all = (0..self.geometry.slots() as u32).map(Slot).filter(|slot| !gone[slot.0 as usize]);
        let sources = self.snapshot.state_sources.get_or_insert_with(|| all.collect());
        let Some(slot) = sources.pop() else {
            let was_read = self.base.as_ref().is_some_and(|maps| maps.notes().is_read);
            self.base.iter_mut().for_each(|maps| maps.notes_mut().are_lost = !was_read);
            return false;
        };
        self.read(slot, self.geometry.common().state(area).first, blocks, Reading::State(slot));
        true
    }

    /// Takes a device's state, if the superblock refers to it.
    pub(super) fn had_of_state(&mut self, bytes: &[u8]) {
        let Some(newest) = &self.superblocks.newest else { return };
        let wanted = newest.state.map(|state| state.crc);
        let record = newest.snapshot.map(|snapshot| snapshot.record);
        let found = State::decode(bytes, newest.volume, self.geometry.shape()).ok();
        let found = found.filter(|(state, crc)| Some(*crc) == wanted && Some(state.record) == record);
        if let (Some((state, _)), Some(maps)) = (found, &mut self.base) {
            maps.load_notes(Notes::of_state(&state, &self.geometry));
            self.snapshot.state_sources = Some(Vec::new());
        }
    }

    /// Returns the number of blocks from one place of the ring to another. Records never fill the
    /// ring, so equal places mean 0.
    pub(super) fn ring_blocks(&self, from: u32, to: u32) -> u32 {
        let blocks = self.geometry.journal_blocks();
        (to + blocks - from) % blocks
    }

    /// Returns the record of this number at a block of the ring, from any device that has it whole,
    /// and its changes.
    fn record_at(&self, at: u32, number: u64, newest: &Superblock) -> Option<(&Kept, Record, Vec<Change>)> {
        let shape = self.geometry.shape();
        let mut best: Option<(&Kept, Record, Vec<Change>)> = None;
        for kept in self.journals.rings.at(at) {
            let head = &kept.head;
            let allowed = match RecordNumber(number) >= newest.first_record {
                true => head.session == newest.session,
                false => head.session < newest.session,
            };
            let better = best.as_ref().is_none_or(|(_, other, _)| other.session < head.session);
            if head.number != RecordNumber(number) || !allowed || !better {
                continue;
            }
            let Ok(record) = Record::decode(&kept.bytes, newest.volume, shape) else { continue };
            let changes: Option<Vec<Change>> =
                record.entries.iter().map(|entry| change(entry, &self.geometry)).collect();
            best = changes.map(|changes| (kept, record, changes)).or(best);
        }
        best
    }

    fn replay(&mut self) {
        let (Some(newest), Some(mut maps)) = (self.superblocks.newest.clone(), self.base.take()) else {
            return;
        };
        let (mut number, mut head) = newest.snapshot.map_or((0, 0), |s| (s.record.0, s.replay_at));
        let mut last: Option<(Kept, u32, Vec<Change>)> = None;
        // A record is applied only when the next one is found: this keeps the maps from before the
        // last record without a copy for each record.
        while let Some((kept, record, changes)) = self.record_at(head, number + 1, &newest) {
            let after = self.geometry.common().record_after(head, record.len_blocks() as u32);
            last.iter().flat_map(|(_, _, changes)| changes).for_each(|change| maps.apply(change));
            if !maps.may_become(&changes, &self.geometry) {
                self.error = Some(OpenError::Impossible { record: RecordNumber(number + 1) });
                return;
            }
            last = Some((kept.clone(), head, changes));
            (number, head) = (number + 1, after);
        }
        let mut before = match &last {
            Some((_, at, _)) => (maps.clone(), number - 1, *at),
            None => (maps.clone(), number, head),
        };
        last.iter().flat_map(|(_, _, changes)| changes).for_each(|change| maps.apply(change));
        let older = self.older(&maps, &newest, number);
        self.journals.rings = Rings::default();
        // The states of members in the last record are true even if it is discarded, because they
        // are about earlier writes. But then no record says so.
        self.last.unrecorded = before.0.take_members(&maps);
        self.away = maps.absent();
        if RecordNumber(number + 1) < newest.first_record {
            // The session continued from records that the present devices do not have.
            self.error = Some(OpenError::NoSnapshot);
            return;
        }
        for &slot in &older {
            self.gone[slot.0 as usize] = true;
            self.blank.push(slot);
        }
        if !self.are_enough(older.clone()) {
            return;
        }
        // Stripes written ahead have lower generations than writes that were recorded before them.
        let generations = last.iter().flat_map(|(_, _, changes)| changes).filter_map(Change::generation);
        self.last.since = generations.fold(before.0.generation(), u64::min);
        let replay_at = newest.snapshot.map_or(0, |snapshot| snapshot.replay_at);
        let used = self.ring_blocks(replay_at, head);
        let (geometry, counter) = (self.geometry.clone(), self.io.counter);
        let mut engine = match Engine::resume(
            geometry,
            maps,
            newest.clone(),
            Records::at(number + 1, head, used),
            counter,
        ) {
            Ok(engine) => engine,
            Err(error) => {
                self.error = Some(OpenError::Code(error.to_string()));
                return;
            }
        };
        engine.noting.tell_time(self.now);
        engine.service.opening_mut().begin(self.last.since);
        engine.members.set_apart(&self.apart);
        for (slot, gone) in (0..).map(Slot).zip(&self.gone) {
            if *gone {
                if older.contains(&slot) {
                    engine.tell_why(slot, Reason::OLDER, 0);
                }
                engine.missing_at_start(slot, if older.contains(&slot) { 0 } else { self.last.since });
            }
        }
        self.last.before = Some(before);
        self.phase = Phase::Verify;
        // This is repeated even if an earlier opening has verified the record: a device that is
        // present now may have been missing then, and no record says so.
        if let Some((kept, at, _)) = &last {
            let runs = record_runs(self.geometry.common(), *at, &kept.bytes);
            // A lost device gets a snapshot when it comes back. The record must not be written to
            // it before: with it the device could look as if it had run separately. Its superblock
            // may be of a session that was begun with it and changed nothing, but has the same
            // number as the session of the record.
            for slot in engine.present().into_iter().filter(|slot| !kept.on.contains(slot)) {
                self.last.copies.extend(runs.iter().map(|(at, bytes)| (slot, *at, bytes.clone())));
            }
        }
        if self.only_looks {
            self.phase = Phase::Done;
            self.engine = Some(engine);
            return;
        }
        for change in last.iter().flat_map(|(_, _, changes)| changes) {
            match change {
                Change::Switch { logical, physical, digests, .. } => {
                    let written = (0..).map(Slot).zip(digests).filter_map(|(slot, d)| Some((slot, (*d)?)));
                    written.for_each(|(slot, digest)| {
                        engine.service.opening_mut().expect(*physical, slot, digest)
                    });
                    engine.verify_stripe(*logical);
                    self.last.places.0.push(*logical);
                }
                Change::Row { row, .. } => {
                    engine.verify_row(*row);
                    self.last.places.1.push(*row);
                }
                Change::Patch(patch) => engine.patching.redo(patch.clone()),
                Change::Unmap { .. }
                | Change::Forget { .. }
                | Change::Member(_)
                | Change::WentHome { .. }
                | Change::Note(_) => {}
            }
        }
        engine.records.found(!self.last.places.0.is_empty() || !self.last.places.1.is_empty());
        engine.begin_later();
        self.engine = Some(engine);
        self.verified_if_done();
    }
}
