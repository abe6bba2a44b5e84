//! Opening: from what the devices hold to an engine that serves.
//!
//! 1. Read the superblocks and the journal of every device. The newest superblock counts, but a session that has written
//!    neither record nor snapshot has changed nothing and counts no more than the session it began from: it may be on a device
//!    that the others went on without. A device whose session did change something that the newest does not go on from
//!    ran separately: then nothing is opened.
//!    Rings are read a few at a time and piece by piece; only their whole records are kept, each once ([`crate::rings`]).
//! 2. Read the newest snapshot from any device that has it whole and replay the records that follow in sequence, each at the block behind
//!    the one before. Records from `first_record` of the newest session on must be of that session; of older ones the highest
//!    session counts: what a crash made us forget can never come back.
//! 3. All but the last record were durable before the last was written. The last is durable only if what it maps is there:
//!    every block that it wrote, on every device that is present, is read and held against its checksum. If a block cannot
//!    be had even from the others, the record is forgotten. If it can, the record counts once it and all of its stripes and
//!    rows are on every device that is present, written again, byte for byte: until then nothing of the state before it has been touched.
//! 4. What was found is flushed, and a new session begins: its superblock is durable on every device that is present before anything
//!    else is written.

use crate::engine::Engine;
use crate::journal::{definition_bytes, record_runs};
use crate::maps::{Change, Maps};
use crate::rings::{Kept, Rings};
use crate::stored::{NUMBERS_END, SnapshotReader, change, superblock_of};
use crate::{
    Action, BLOCK_BYTES, Bearing, Bug, DeviceBlock, Event, Found, Geometry, IoId, IoResult, Piece, Planted,
    Slot, Urgency,
};
use pantile_format::volume::{
    DefinitionRef, HistoryId, MemberState, PIECE_BLOCKS, Record, RecordNumber, Session, SnapshotRef,
    Superblock,
};
use pantile_format::{FormatError, Generation, Part};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// Bytes of rings that are read at a time: so that 64 devices are not held at once.
const RINGS_BYTES: u64 = 32 << 20;

/// Blocks of a ring that are read at once: 1 MiB.
const RING_PIECE_BLOCKS: u32 = 256;

/// Why a volume cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// No device has a superblock of this volume.
    NotThere,
    /// More devices are missing than the code can bear.
    TooFewDevices {
        /// Devices that answer.
        have: usize,
        /// Devices needed.
        need: usize,
        /// Devices that answer and are of an earlier time than the newest: they do not count.
        older: Vec<Slot>,
    },
    /// Whether the last change was flushed cannot be told: more devices are missing than its copies can bear.
    Undecided {
        /// Devices that answer.
        have: usize,
        /// Devices with which it can be told.
        need: usize,
    },
    /// No device has the snapshot whole.
    NoSnapshot,
    /// A record that no volume writes, under a checksum that fits.
    Impossible {
        /// Its number.
        record: RecordNumber,
    },
    /// Devices that ran separately: each side has written what the other has not.
    RanSeparately {
        /// The newest history.
        newest: HistoryId,
        /// Devices with another one, which the newest does not go on from.
        others: Vec<(Slot, HistoryId)>,
    },
    /// The code cannot be laid out on the devices.
    Code(String),
}

impl fmt::Display for OpenError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::NotThere => {
                write!(out, "none of the devices belongs to the volume; give the right ones")
            }
            OpenError::TooFewDevices { have, need, older } => {
                write!(out, "{have} devices are there, {need} are needed")?;
                older.iter().try_for_each(|slot| {
                    write!(
                        out,
                        ", device {} is of an earlier time (a copy or a backup) and does not count",
                        slot.0
                    )
                })?;
                write!(out, "; bring back {} more", need - have)
            }
            OpenError::Undecided { have, need } => write!(
                out,
                "{have} devices are there, which cannot tell whether the last change was flushed; bring back {} more",
                need - have
            ),
            OpenError::NoSnapshot => {
                write!(
                    out,
                    "no device that is here has the newest maps whole; bring back those that were lost last"
                )
            }
            OpenError::Impossible { record } => write!(
                out,
                "record {} gives away what is in use, and its checksum fits all the same; open the volume without the device that holds it",
                record.0
            ),
            OpenError::RanSeparately { newest, others } => {
                write!(out, "devices ran separately: the newest have history {newest}")?;
                others.iter().try_for_each(|(slot, its)| write!(out, ", device {} has {its}", slot.0))?;
                write!(out, "; open one side alone, then replace the devices of the other")
            }
            OpenError::Code(error) => write!(out, "{error}"),
        }
    }
}

impl std::error::Error for OpenError {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Superblocks,
    Snapshot,
    Journals,
    Verify,
    Again,
    FlushFound,
    WriteSuperblocks,
    FlushSuperblocks,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// And at which of its two turns; the copy has none.
    Superblock(Slot, Option<u64>),
    Snapshot(Slot),
    /// A piece of a ring, from this block on.
    Journal(Slot, u32),
    /// One block of a ring that could not be read at once.
    JournalBlock(Slot, u32),
    Begin(Slot),
}

/// The highest numbers in any superblock, whether it counts or not.
#[derive(Clone, Copy, Debug)]
struct Seen {
    session: Session,
    update: u64,
    floor: u64,
}

/// A ring that is being read.
#[derive(Debug)]
struct Ring {
    /// What could not be read is zeros.
    bytes: Vec<u8>,
    /// The first block that is not asked for.
    next: u32,
    outstanding: u32,
}

/// The way to an engine. Drive it like one until [`Opening::finish`] gives the engine.
#[derive(Debug)]
pub(crate) struct Opening {
    geometry: Geometry,
    phase: Phase,
    gone: Vec<bool>,
    /// By slot, those that are this volume's, each with the turn that it was found at; the copy at the end has none.
    superblocks: Vec<Vec<(Option<u64>, Superblock)>>,
    /// By slot, whether the device has a superblock of another volume or for another slot.
    others: Vec<bool>,
    newest: Option<Superblock>,
    /// Devices to try for the snapshot.
    sources: Vec<Slot>,
    snapshot: Option<SnapshotReader>,
    base: Option<Maps>,
    /// Devices whose ring is still to be read, and those whose ring is being read.
    unread: VecDeque<Slot>,
    reading: BTreeMap<Slot, Ring>,
    rings: Rings,
    /// What `fresh` was given to [`Opening::new`].
    fresh: HistoryId,
    ios: BTreeMap<IoId, Reading>,
    counter: u64,
    actions: std::collections::VecDeque<Action>,
    /// During verification and after: the engine, whose reads do the work.
    engine: Option<Engine>,
    /// Stripes and rows that the last record maps.
    last: (Vec<u32>, Vec<u32>),
    /// The last record for the devices that lack it.
    copies: Vec<(Slot, DeviceBlock, Vec<u8>)>,
    /// The maps without the last record, to fall back to.
    before: Option<(Maps, u64, u32)>,
    /// What that says of members is in no record if the last is forgotten.
    unrecorded: bool,
    /// The newest session that has changed anything.
    base_session: Session,
    seen: Seen,
    /// The first generation of the last record: what a device that is not there may lack.
    since: u64,
    /// Devices that answer and hold nothing of the volume.
    blank: Vec<Slot>,
    error: Option<OpenError>,
    /// Ends when the maps are known, before anything is written.
    pub(crate) only_looks: bool,
    pub(crate) planted: Planted,
}

impl Opening {
    /// Begins to open a volume with this geometry on devices of which `there` answer.
    ///
    /// `fresh` becomes the history if not all devices take part.
    pub(crate) fn new(geometry: Geometry, there: &[bool], fresh: HistoryId) -> Opening {
        let slots = geometry.slots();
        let mut opening = Opening {
            geometry,
            phase: Phase::Superblocks,
            gone: there.iter().map(|t| !t).collect(),
            superblocks: vec![Vec::new(); slots],
            others: vec![false; slots],
            newest: None,
            sources: Vec::new(),
            snapshot: None,
            base: None,
            unread: VecDeque::new(),
            reading: BTreeMap::new(),
            rings: Rings::default(),
            ios: BTreeMap::new(),
            fresh,
            counter: 0,
            actions: std::collections::VecDeque::new(),
            engine: None,
            last: (Vec::new(), Vec::new()),
            copies: Vec::new(),
            before: None,
            unrecorded: false,
            base_session: Session(0),
            seen: Seen { session: Session(0), update: 0, floor: 0 },
            since: 0,
            blank: Vec::new(),
            error: None,
            only_looks: false,
            planted: Planted::default(),
        };
        for slot in (0..slots as u32).map(Slot).filter(|s| there[s.0 as usize]) {
            let zones = opening.geometry.zones(slot);
            let places = [
                (zones.superblock(0), Some(0)),
                (zones.superblock(1), Some(1)),
                (zones.superblock_copy(), None),
            ];
            for (at, turn) in places {
                opening.read(slot, at, 1, Reading::Superblock(slot, turn));
            }
        }
        opening.next_phase_if_done();
        opening
    }

    fn read(&mut self, slot: Slot, at: DeviceBlock, blocks: u32, reading: Reading) {
        let io = self.new_io(reading);
        self.actions.push_back(Action::ReadBytes { io, slot, at, blocks, urgency: Urgency::User });
    }

    fn new_io(&mut self, reading: Reading) -> IoId {
        self.counter += 1;
        self.ios.insert(IoId(self.counter), reading);
        IoId(self.counter)
    }

    /// Takes an event.
    pub(crate) fn handle(&mut self, event: Event) {
        if matches!(self.phase, Phase::Verify | Phase::Again) {
            if let Event::DeviceGone(slot) = event {
                self.went(slot);
            }
            if let Some(engine) = &mut self.engine {
                let before = engine.maps.absent();
                engine.handle_while_opening(event);
                let lost = engine.maps.absent().into_iter().filter(|slot| !before.contains(slot));
                lost.collect::<Vec<_>>().into_iter().for_each(|slot| self.went(slot));
            }
            self.verified_if_done();
            return;
        }
        match event {
            Event::IoDone(io, result) => {
                let Some(reading) = self.ios.remove(&io) else { return };
                self.had(reading, &result);
                self.next_phase_if_done();
            }
            Event::DeviceGone(slot) => self.lost(slot),
            Event::Request(..)
            | Event::Computed(..)
            | Event::DeviceCame(..)
            | Event::Scrub(..)
            | Event::Settle => {}
        }
    }

    /// The next thing to be done, until there is none.
    pub(crate) fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front().or_else(|| self.engine.as_mut()?.next_action())
    }

    /// The engine, when all is done; `None` while there is more to do.
    pub(crate) fn finish(&mut self) -> Option<Result<Engine, OpenError>> {
        if let Some(error) = self.error.take() {
            return Some(Err(error));
        }
        match self.phase {
            Phase::Done => self.engine.take().map(Ok),
            _ => None,
        }
    }

    fn had(&mut self, reading: Reading, result: &IoResult) {
        match (reading, result) {
            (Reading::Superblock(slot, turn), IoResult::Bytes(bytes)) => match Superblock::decode(bytes) {
                Ok(found) if self.is_ours(slot, &found) => {
                    self.superblocks[slot.0 as usize].push((turn, found));
                }
                Ok(_) => self.others[slot.0 as usize] = true,
                Err(_) => {}
            },
            (Reading::Snapshot(slot), IoResult::Bytes(bytes)) => self.had_of_snapshot(slot, bytes),
            (Reading::Snapshot(_), _) => self.snapshot = None,
            (Reading::Journal(slot, from) | Reading::JournalBlock(slot, from), IoResult::Bytes(bytes)) => {
                self.had_of_ring(slot, from, bytes);
            }
            // What cannot be read may be what nobody needs: the piece is read block by block.
            (Reading::Journal(slot, from), IoResult::MediaError) => self.read_piece_by_block(slot, from),
            (Reading::JournalBlock(slot, from), IoResult::MediaError) => self.had_of_ring(slot, from, &[]),
            (
                Reading::Superblock(slot, _)
                | Reading::Journal(slot, _)
                | Reading::JournalBlock(slot, _)
                | Reading::Begin(slot),
                IoResult::Gone,
            ) => {
                self.lost(slot);
            }
            // A device that cannot take the new session's superblock would be taken for one of the session before.
            (Reading::Begin(slot), IoResult::MediaError) => self.lost(slot),
            _ => {}
        }
    }

    /// A device does not answer any more: it takes part again when the driver says so, and not by itself at the end.
    fn went(&mut self, slot: Slot) {
        self.gone[slot.0 as usize] = true;
        self.blank.retain(|blank| *blank != slot);
    }

    fn lost(&mut self, slot: Slot) {
        self.went(slot);
        if self.reading.remove(&slot).is_some() {
            self.begin_rings();
        }
        if let Some(engine) = &mut self.engine {
            engine.missing_at_start(slot, self.since);
        }
    }

    /// Whether a superblock is one of this volume for this slot, and says what the geometry says.
    fn is_ours(&self, slot: Slot, found: &Superblock) -> bool {
        let Geometry { volume, code, placement, policy, .. } = &self.geometry;
        found.volume == *volume
            && found.slot == slot
            && found.shape == *self.geometry.zones(slot).shape()
            && found.placement == *placement
            && found.policy == *policy
            && found.fingerprint == code.fingerprint()
            && counts_on(found)
    }

    fn next_phase_if_done(&mut self) {
        if !self.ios.is_empty() || self.error.is_some() {
            return;
        }
        match self.phase {
            Phase::Superblocks => self.read_journals(),
            Phase::Journals => self.choose_superblock(),
            Phase::Snapshot => self.snapshot_read(),
            Phase::FlushFound => self.write_superblocks(),
            Phase::WriteSuperblocks => self.flush(Phase::FlushSuperblocks),
            Phase::FlushSuperblocks => self.serve(),
            Phase::Verify | Phase::Again | Phase::Done => {}
        }
    }

    fn read_journals(&mut self) {
        self.phase = Phase::Journals;
        let slots = (0..self.geometry.slots() as u32).map(Slot);
        self.unread = slots.filter(|slot| !self.gone[slot.0 as usize]).collect();
        self.begin_rings();
        self.next_phase_if_done();
    }

    /// Begins to read as many rings as may be held at a time.
    fn begin_rings(&mut self) {
        let blocks = self.geometry.journal_blocks();
        let ring_bytes = u64::from(blocks) * BLOCK_BYTES;
        while (self.reading.len() as u64 + 1) * ring_bytes <= RINGS_BYTES || self.reading.is_empty() {
            let Some(slot) = self.unread.pop_front() else { return };
            if !self.gone[slot.0 as usize] {
                let ring = Ring { bytes: vec![0; ring_bytes as usize], next: 0, outstanding: 0 };
                self.reading.insert(slot, ring);
                self.read_on(slot);
            }
        }
    }

    /// Reads the next piece of a ring; after the last its records are kept.
    fn read_on(&mut self, slot: Slot) {
        let blocks = self.geometry.journal_blocks();
        let Some(ring) = self.reading.get_mut(&slot) else { return };
        let from = ring.next;
        if from < blocks {
            let count = RING_PIECE_BLOCKS.min(blocks - from);
            (ring.next, ring.outstanding) = (from + count, 1);
            let at = DeviceBlock(self.geometry.common().journal().first.0 + u64::from(from));
            self.read(slot, at, count, Reading::Journal(slot, from));
            return;
        }
        if let Some(ring) = self.reading.remove(&slot) {
            self.rings.take(slot, &ring.bytes, &self.geometry);
        }
        self.begin_rings();
    }

    fn read_piece_by_block(&mut self, slot: Slot, from: u32) {
        let Some(ring) = self.reading.get_mut(&slot) else { return };
        let piece = from..ring.next;
        ring.outstanding = piece.len() as u32;
        for block in piece {
            let at = DeviceBlock(self.geometry.common().journal().first.0 + u64::from(block));
            self.read(slot, at, 1, Reading::JournalBlock(slot, block));
        }
    }

    /// A part of a ring is there, or (empty) cannot be read.
    fn had_of_ring(&mut self, slot: Slot, from: u32, bytes: &[u8]) {
        let Some(ring) = self.reading.get_mut(&slot) else { return };
        let start = from as usize * BLOCK_BYTES as usize;
        if let Some(place) = ring.bytes.get_mut(start..start + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        ring.outstanding -= 1;
        if ring.outstanding == 0 {
            self.read_on(slot);
        }
    }

    /// The superblock of a device that counts.
    fn superblock(&self, slot: Slot) -> Option<&Superblock> {
        let found = self.superblocks[slot.0 as usize].iter().map(|(_, superblock)| superblock);
        found.max_by_key(|superblock| (superblock.session, superblock.update))
    }

    /// Whether a device has something that the session of its superblock wrote.
    fn is_established(&self, slot: Slot, superblock: &Superblock) -> bool {
        let Superblock { session, first_record, .. } = *superblock;
        let has_snapshot = superblock.snapshot.is_some_and(|snapshot| snapshot.session == session);
        let is_its = |kept: &Kept| {
            kept.head.session == session && kept.head.number >= first_record && kept.on.contains(&slot)
        };
        has_snapshot || self.rings.all().any(is_its)
    }

    fn choose_superblock(&mut self) {
        let slots = (0..self.geometry.slots() as u32).map(Slot).filter(|slot| !self.gone[slot.0 as usize]);
        let known: Vec<(Superblock, bool)> = slots
            .filter_map(|slot| {
                let superblock = self.superblock(slot)?;
                Some((superblock.clone(), self.is_established(slot, superblock)))
            })
            .collect();
        let level = |(block, established): &(Superblock, bool)| {
            (if *established { block.session } else { block.base }, block.session, block.update)
        };
        let Some(newest) = known.iter().max_by_key(|known| level(known)) else {
            self.error = Some(OpenError::NotThere);
            return;
        };
        self.base_session = level(newest).0;
        let mut newest = newest.0.clone();
        let goes_on_from =
            |history: &HistoryId| newest.history == *history || newest.ancestors.contains(history);
        let others: Vec<(Slot, HistoryId)> = known
            .iter()
            .filter(|(block, established)| *established && !goes_on_from(&block.history))
            .map(|(block, _)| (block.slot, block.history))
            .collect();
        if !others.is_empty() {
            self.error = Some(OpenError::RanSeparately { newest: newest.history, others });
            return;
        }
        // Sessions that changed nothing are gone on from, too: what was begun is never begun again under the same name.
        let begun: Vec<HistoryId> =
            known.iter().map(|(block, _)| block.history).filter(|history| !goes_on_from(history)).collect();
        newest.ancestors.extend(begun);
        self.seen = Seen {
            session: known.iter().map(|(block, _)| block.session).max().unwrap_or(newest.session),
            update: known.iter().map(|(block, _)| block.update).max().unwrap_or(newest.update),
            floor: known.iter().map(|(block, _)| block.generation_floor.0).max().unwrap_or(0),
        };
        for slot in (0..self.geometry.slots() as u32).map(Slot) {
            if self.superblocks[slot.0 as usize].is_empty() && !self.gone[slot.0 as usize] {
                // What is another's is not written to: it counts as not there.
                if !self.others[slot.0 as usize] {
                    self.blank.push(slot);
                }
                self.gone[slot.0 as usize] = true;
            }
        }
        if !self.are_enough(Vec::new()) {
            return;
        }
        let has_snapshot = newest.snapshot.is_some();
        self.newest = Some(newest);
        self.sources =
            (0..self.geometry.slots() as u32).map(Slot).filter(|s| !self.gone[s.0 as usize]).collect();
        self.phase = Phase::Snapshot;
        if has_snapshot {
            self.try_snapshot();
        } else {
            self.base = Some(Maps::new(&self.geometry));
            self.next_phase_if_done();
        }
    }

    /// Whether as many devices are there as are needed; else that is the end.
    fn are_enough(&mut self, older: Vec<Slot>) -> bool {
        let need = self.geometry.slots() - self.geometry.tolerance();
        let have = self.gone.iter().filter(|gone| !**gone).count();
        let gone = (0..).map(Slot).zip(&self.gone).filter(|(_, gone)| **gone).map(|(slot, _)| slot);
        let bearing = Bearing::new(&self.geometry.code, self.geometry.placement);
        let are_enough = bearing.bears(&gone.collect::<Vec<Slot>>());
        if !are_enough {
            self.error = Some(OpenError::TooFewDevices { have, need, older });
        }
        are_enough
    }

    /// Devices that the maps count on and that are of a time before: copies, or put back from a backup. A session begins with its superblock
    /// on every device that takes part; a device without that of the newest session that has changed anything was not there. What it lacks
    /// is not known, so all of it is made anew.
    fn older(&self, maps: &Maps) -> Vec<Slot> {
        let counts = |slot: &Slot| match maps.members[slot.0 as usize] {
            MemberState::Present => true,
            MemberState::Lost { .. } => false,
            // One that was let in just now may have got the maps, and its superblock not yet.
            MemberState::Rebuilding { cursor, .. } => cursor.0 > 0,
        };
        let is_old = |slot: &Slot| self.superblock(*slot).is_some_and(|own| own.session < self.base_session);
        let here = (0..self.geometry.slots() as u32).map(Slot).filter(|slot| !self.gone[slot.0 as usize]);
        here.filter(counts).filter(is_old).collect()
    }

    /// Begins with the snapshot on the next device.
    fn try_snapshot(&mut self) {
        let Some(reference) = self.newest.as_ref().and_then(|n| n.snapshot) else { return };
        match self.sources.pop() {
            Some(slot) => {
                self.snapshot = Some(SnapshotReader::new(&self.geometry, &reference));
                self.read_snapshot_on(slot);
            }
            None => self.error = Some(OpenError::NoSnapshot),
        }
    }

    /// Reads the next piece of the snapshot; after the last the maps are there, if they are.
    fn read_snapshot_on(&mut self, slot: Slot) {
        let Some(SnapshotRef { area, blocks, .. }) = self.newest.as_ref().and_then(|n| n.snapshot) else {
            return;
        };
        let Some(reader) = &self.snapshot else { return };
        match reader.wanted() {
            Some(block) => {
                let at = DeviceBlock(self.geometry.common().snapshot(area).first.0 + u64::from(block));
                self.read(slot, at, PIECE_BLOCKS.min(blocks - block), Reading::Snapshot(slot));
            }
            None => self.base = self.snapshot.take().and_then(SnapshotReader::finish),
        }
    }

    fn had_of_snapshot(&mut self, slot: Slot, bytes: &[u8]) {
        let Some(reader) = &mut self.snapshot else { return };
        if reader.push(bytes, &self.geometry) {
            self.read_snapshot_on(slot);
        } else {
            self.snapshot = None;
        }
    }

    fn snapshot_read(&mut self) {
        if self.base.is_none() {
            self.try_snapshot();
            return;
        }
        self.replay();
    }

    /// Blocks from one place of the ring up to another. Records never fill it, so that equal places mean none.
    fn ring_blocks(&self, from: u32, to: u32) -> u32 {
        let blocks = self.geometry.journal_blocks();
        (to + blocks - from) % blocks
    }

    /// The record of this number at a block of the ring, from any device that has it whole, and what it changes.
    fn record_at(&self, at: u32, number: u64, newest: &Superblock) -> Option<(&Kept, Record, Vec<Change>)> {
        let shape = self.geometry.shape();
        let mut best: Option<(&Kept, Record, Vec<Change>)> = None;
        for kept in self.rings.at(at) {
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
        let (Some(newest), Some(mut maps)) = (self.newest.clone(), self.base.take()) else { return };
        let (mut number, mut head) = newest.snapshot.map_or((0, 0), |s| (s.record.0, s.replay_at));
        let mut last: Option<(Kept, u32, Vec<Change>)> = None;
        // The last record is applied when it is known to be the last, so that the maps before it need not be kept for each.
        while let Some((kept, record, changes)) = self.record_at(head, number + 1, &newest) {
            let after = self.geometry.common().record_after(head, record.len_blocks() as u32);
            last.iter().flat_map(|(_, _, changes)| changes).for_each(|change| maps.apply(change));
            if !maps.may_become(&changes) {
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
        self.rings = Rings::default();
        // What the last record says of members is true even if it is forgotten: it is about what was written before it. But then no
        // record says so.
        self.unrecorded = before.0.members != maps.members;
        before.0.members.clone_from(&maps.members);
        if RecordNumber(number + 1) < newest.first_record {
            // The session was begun after more than is here: the devices that are here do not reach it.
            self.error = Some(OpenError::NoSnapshot);
            return;
        }
        let older = self.older(&maps);
        for &slot in &older {
            self.gone[slot.0 as usize] = true;
            self.blank.push(slot);
        }
        if !self.are_enough(older.clone()) {
            return;
        }
        // Stripes written ahead have lower generations than what was recorded before them.
        let generations = last.iter().flat_map(|(_, _, changes)| changes).filter_map(Change::generation);
        self.since = generations.fold(before.0.generation, u64::min);
        let replay_at = newest.snapshot.map_or(0, |snapshot| snapshot.replay_at);
        let used = self.ring_blocks(replay_at, head);
        let (geometry, counter) = (self.geometry.clone(), self.counter);
        let mut engine = match Engine::resume(geometry, maps, newest.clone(), number + 1, head, used, counter)
        {
            Ok(engine) => engine,
            Err(error) => {
                self.error = Some(OpenError::Code(error.to_string()));
                return;
            }
        };
        engine.planted = self.planted;
        engine.opening_since = Some(self.since);
        for (slot, gone) in (0..).map(Slot).zip(&self.gone) {
            if *gone {
                engine.missing_at_start(slot, if older.contains(&slot) { 0 } else { self.since });
            }
        }
        self.before = Some(before);
        self.phase = Phase::Verify;
        // Also if an earlier opening has done so: a device that is here now may not have been there then, and no record says so.
        if let Some((kept, at, _)) = &last {
            let runs = record_runs(self.geometry.common(), *at, &kept.bytes);
            let slots = (0..self.geometry.slots() as u32).map(Slot);
            for slot in slots.filter(|slot| !self.gone[slot.0 as usize] && !kept.on.contains(slot)) {
                self.copies.extend(runs.iter().map(|(at, bytes)| (slot, *at, bytes.clone())));
            }
        }
        if self.only_looks {
            self.phase = Phase::Done;
            self.engine = Some(engine);
            return;
        }
        let believed = self.planted.is(Bug::BelievesLastRecord);
        for change in last.iter().flat_map(|(_, _, changes)| changes).filter(|_| !believed) {
            match change {
                // It may have been written in place since; all of it is read and written again.
                Change::Switch { logical, .. } if engine.maps.marked.contains(logical) => {}
                Change::Switch { logical, physical, digests, .. } => {
                    let written = (0..).map(Slot).zip(digests).filter_map(|(slot, d)| Some((slot, (*d)?)));
                    engine.digests.extend(written.map(|(slot, digest)| ((*physical, slot), digest)));
                    engine.verify_stripe(*logical);
                    self.last.0.push(*logical);
                }
                Change::Row { row, .. } => {
                    engine.verify_row(*row);
                    self.last.1.push(*row);
                }
                Change::Unmap { .. }
                | Change::Forget { .. }
                | Change::Member { .. }
                | Change::Mark { .. } => {}
            }
        }
        engine.begin_later();
        self.engine = Some(engine);
        self.verified_if_done();
    }

    fn verified_if_done(&mut self) {
        let Some(engine) = &mut self.engine else { return };
        if !engine.is_idle() {
            return;
        }
        let lacking = engine.has_suspects() || !self.copies.is_empty();
        if self.phase == Phase::Verify && !engine.verify_failed() && lacking {
            // What a device lacks is written again before the record counts.
            self.phase = Phase::Again;
            engine.begin_again(&self.last.0, &self.last.1, std::mem::take(&mut self.copies));
            if !engine.is_idle() {
                return;
            }
        }
        let absent = engine.maps.absent();
        if absent.len() > self.geometry.tolerance() && engine.verify_failed() {
            // It may have been flushed, and lie in the log on devices that are not here, or nothing that is left could tell it from one
            // that was forgotten: nothing is forgotten on a guess.
            let have = self.geometry.slots() - absent.len();
            let need = self.geometry.slots() - self.geometry.tolerance();
            self.actions.extend(std::iter::from_fn(|| engine.next_action()));
            self.error = Some(match engine.planners.stripes_bear.bears(&absent) {
                true => OpenError::Undecided { have, need },
                false => OpenError::TooFewDevices { have, need, older: Vec::new() },
            });
            return;
        }
        let (Some(newest), Some((maps, number, head))) = (self.newest.clone(), self.before.take()) else {
            return;
        };
        if engine.verify_failed() {
            // What is still to be let go comes first.
            self.actions.extend(std::iter::from_fn(|| engine.next_action()));
            let (absent, counter) = (engine.maps.absent(), engine.counter());
            let used = self.ring_blocks(newest.snapshot.map_or(0, |snapshot| snapshot.replay_at), head);
            let resumed =
                Engine::resume(self.geometry.clone(), maps, newest, number + 1, head, used, counter);
            let Ok(mut old) = resumed else { return };
            old.planted = self.planted;
            old.opening_since = Some(self.since);
            old.members_changed = self.unrecorded;
            absent.into_iter().for_each(|slot| old.missing_at_start(slot, self.since));
            self.engine = Some(old);
        }
        self.begin_session();
    }

    fn begin_session(&mut self) {
        let (Some(newest), Some(engine)) = (&self.newest, &mut self.engine) else { return };
        // Behind all that the session before can have given: what its maps have, and one commit that was forgotten.
        let given = engine.maps.generation.max(self.seen.floor);
        let most = 2 * (u64::from(self.geometry.physical_stripes()) + u64::from(self.geometry.log_rows()));
        // Without all devices it could be that the others are opened elsewhere.
        let (mut history, mut ancestors) = (newest.history, newest.ancestors.clone());
        if !engine.maps.absent().is_empty() && history != self.fresh {
            ancestors.insert(0, history);
            ancestors.truncate(Superblock::ANCESTORS_MOST);
            history = self.fresh;
        }
        let superblock = Superblock {
            history,
            ancestors,
            session: Session(self.seen.session.0 + u64::from(!self.planted.is(Bug::KeepsSessionNumber))),
            base: self.base_session,
            update: self.seen.update + 1,
            first_record: RecordNumber(engine.next_record()),
            generation_floor: Generation(given + most),
            ..newest.clone()
        };
        engine.enter_session(superblock);
        // From here on names are given here until the engine serves.
        self.counter = engine.counter();
        // What was found may lie in a cache only, if the process died and the devices did not; then the place that is not written now
        // would not be there after a power failure, nor the two that are.
        self.flush(Phase::FlushFound);
    }

    /// The superblock of the new session, in its turn, and its copy.
    fn write_superblocks(&mut self) {
        let Some(engine) = &mut self.engine else { return };
        let (present, lost) = (engine.present(), engine.maps.absent());
        let superblock = engine.superblock.clone();
        self.phase = Phase::WriteSuperblocks;
        for slot in present.iter().copied() {
            // The place that does not hold what counts.
            let found = self.superblocks[slot.0 as usize].iter().filter(|(turn, _)| turn.is_some());
            let newest = found.max_by_key(|(_, block)| (block.session, block.update));
            engine.turns[slot.0 as usize] = newest.and_then(|(turn, _)| *turn).map_or(0, |turn| turn + 1);
        }
        let turns = engine.turns.clone();
        engine.turns.iter_mut().for_each(|turn| *turn += 1);
        for slot in present {
            let bytes = superblock_of(slot, &lost, &self.geometry, &superblock).encode();
            let zones = self.geometry.zones(slot);
            for at in [zones.superblock(turns[slot.0 as usize]), zones.superblock_copy()] {
                let io = self.new_io(Reading::Begin(slot));
                let pieces = vec![Piece::Bytes(bytes.clone())];
                self.actions.push_back(Action::Write { io, slot, at, pieces, urgency: Urgency::User });
            }
        }
        self.next_phase_if_done();
    }

    /// The session has begun. Devices that are here and are called lost come back.
    fn serve(&mut self) {
        self.phase = Phase::Done;
        let Some(engine) = &mut self.engine else { return };
        engine.go_on_from(self.counter);
        engine.opening_since = None;
        for slot in engine.maps.absent() {
            let is_blank = self.blank.contains(&slot);
            if is_blank || !self.gone[slot.0 as usize] {
                engine.device_came(slot, if is_blank { Found::Blank } else { Found::Stale });
            }
        }
        engine.begin_resync();
        engine.drive();
    }

    fn flush(&mut self, phase: Phase) {
        self.phase = phase;
        let present = self.engine.as_ref().map(Engine::present).unwrap_or_default();
        for slot in present {
            let io = self.new_io(Reading::Begin(slot));
            self.actions.push_back(Action::Flush { io, slot });
        }
        self.next_phase_if_done();
    }
}

/// Whether the numbers of a superblock can be counted on from there.
fn counts_on(found: &Superblock) -> bool {
    let Superblock { session, update, first_record, generation_floor, snapshot, .. } = found;
    let record = snapshot.map_or(0, |snapshot| snapshot.record.0);
    [session.0, *update, first_record.0, generation_floor.0, record].into_iter().all(|n| n < NUMBERS_END)
}

/// What a new volume is called, beside its geometry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Birth {
    /// Drawn at random.
    pub history: HistoryId,
    /// A name of at most 64 bytes.
    pub name: String,
    /// Now, in seconds since 1970.
    pub created: i64,
}

/// The first blocks of a new volume's devices, to be written and flushed before it is opened.
///
/// Errors: `Invalid` with what no superblock can say: a name or a code that is too long.
pub fn format_volume(
    geometry: &Geometry,
    birth: &Birth,
) -> Result<Vec<(Slot, DeviceBlock, Vec<u8>)>, FormatError> {
    let code = &geometry.code;
    let too_long = FormatError::Invalid {
        part: Part::Superblock,
        field: "definition length",
        rule: "must be 57344 at most",
    };
    let definition = match code.definition() {
        Some(text) => Some(DefinitionRef::of(text).ok_or(too_long)?),
        None => None,
    };
    let any = Superblock {
        volume: geometry.volume,
        history: birth.history,
        ancestors: Vec::new(),
        slot: Slot(0),
        update: 0,
        session: Session(1),
        base: Session(1),
        generation_floor: Generation(1),
        first_record: RecordNumber(1),
        created: birth.created,
        name: birth.name.clone(),
        spec: code.spec().to_owned(),
        code_version: code.version().into(),
        fingerprint: code.fingerprint(),
        definition,
        shape: *geometry.shape(),
        placement: geometry.placement,
        policy: geometry.policy,
        snapshot: None,
        lost: Vec::new(),
    };
    let mut writes = Vec::new();
    for slot in (0..geometry.slots() as u32).map(Slot) {
        let (superblock, zones) = (superblock_of(slot, &[], geometry, &any), geometry.zones(slot));
        superblock.check()?;
        let bytes = superblock.encode();
        writes.push((slot, zones.superblock(superblock.update), bytes.clone()));
        writes.push((slot, zones.superblock_copy(), bytes));
        if let Some(text) = code.definition() {
            writes.push((slot, zones.definition().first, definition_bytes(text)));
        }
    }
    Ok(writes)
}
