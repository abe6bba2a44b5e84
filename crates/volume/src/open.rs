//! Opening: from what the devices hold to an engine that serves.
//!
//! 1. Read the superblocks; the newest counts. Read its snapshot from any device that has it whole, and the journal of
//!    every device.
//! 2. Replay the records that follow the snapshot in sequence, each at the block behind the one before. Records from
//!    `first_record` of the newest session on must be of that session; of older ones the highest session counts: what a
//!    crash made us forget can never come back.
//! 3. All but the last record were durable before the last was written. The last is durable only if what it maps is there:
//!    every block that it wrote, on every device that is present, is read and held against its checksum. If a block cannot
//!    be had even from the others, the record is forgotten. If it can, the record counts once it and all of its stripes and
//!    rows are on every device that is present, written again, byte for byte: until then nothing of the state before it has been touched.
//! 4. A new session begins: its superblock is durable on every device that is present before anything else is written.

use crate::engine::Engine;
use crate::journal::record_runs;
use crate::maps::{Change, Maps};
use crate::stored::{change, decode_snapshot, superblock_of};
use crate::{Action, BLOCK_BYTES, DeviceBlock, Event, Geometry, IoId, IoResult, Piece, Slot, Urgency};
use pantile_format::volume::{
    DefinitionRef, HistoryId, Policy, Record, RecordNumber, Session, SnapshotRef, Superblock,
};
use pantile_format::{FormatError, Generation, Part};
use std::collections::BTreeMap;
use std::fmt;

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
    },
    /// No device has the snapshot whole.
    NoSnapshot,
    /// The code cannot be laid out on the devices.
    Code(String),
}

impl fmt::Display for OpenError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::NotThere => {
                write!(out, "none of the devices belongs to the volume; give the right ones")
            }
            OpenError::TooFewDevices { have, need } => {
                write!(out, "{have} devices are there, {need} are needed; bring back {} more", need - have)
            }
            OpenError::NoSnapshot => write!(out, "no device has the maps of the volume whole"),
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
    WriteSuperblocks,
    FlushSuperblocks,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Superblock(Slot),
    Snapshot,
    Journal(Slot),
    Begin,
}

/// The way to an engine. Drive it like one until [`Opening::finish`] gives the engine.
#[derive(Debug)]
pub struct Opening {
    geometry: Geometry,
    phase: Phase,
    gone: Vec<bool>,
    superblocks: Vec<Option<Superblock>>,
    newest: Option<Superblock>,
    /// Devices to try for the snapshot.
    sources: Vec<Slot>,
    base: Option<Maps>,
    journals: BTreeMap<Slot, Vec<u8>>,
    ios: BTreeMap<IoId, Reading>,
    next_io: u64,
    actions: std::collections::VecDeque<Action>,
    /// During verification and after: the engine, whose reads do the work.
    engine: Option<Engine>,
    /// Stripes and rows that the last record maps.
    last: (Vec<u32>, Vec<u32>),
    /// The last record for the devices that lack it.
    copies: Vec<(Slot, DeviceBlock, Vec<u8>)>,
    /// The maps without the last record, to fall back to.
    before: Option<(Maps, u64, u32)>,
    error: Option<OpenError>,
}

impl Opening {
    /// Begins to open a volume with this geometry on devices of which `there` answer.
    pub fn new(geometry: Geometry, there: &[bool]) -> Opening {
        let slots = geometry.slots();
        let mut opening = Opening {
            geometry,
            phase: Phase::Superblocks,
            gone: there.iter().map(|t| !t).collect(),
            superblocks: vec![None; slots],
            newest: None,
            sources: Vec::new(),
            base: None,
            journals: BTreeMap::new(),
            ios: BTreeMap::new(),
            next_io: 0,
            actions: std::collections::VecDeque::new(),
            engine: None,
            last: (Vec::new(), Vec::new()),
            copies: Vec::new(),
            before: None,
            error: None,
        };
        for slot in (0..slots as u32).map(Slot).filter(|s| there[s.0 as usize]) {
            for turn in 0..2 {
                let at = opening.geometry.zones(slot).superblock(turn);
                opening.read(slot, at, 1, Reading::Superblock(slot));
            }
        }
        opening.next_phase_if_done();
        opening
    }

    fn read(&mut self, slot: Slot, at: DeviceBlock, blocks: u32, reading: Reading) {
        self.next_io += 1;
        let io = IoId(self.next_io);
        self.ios.insert(io, reading);
        self.actions.push_back(Action::ReadBytes { io, slot, at, blocks });
    }

    /// Takes an event.
    pub fn handle(&mut self, event: Event) {
        if matches!(self.phase, Phase::Verify | Phase::Again) {
            if let Some(engine) = &mut self.engine {
                engine.handle_while_opening(event);
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
            Event::DeviceGone(slot) => self.gone[slot.0 as usize] = true,
            Event::Request(..) | Event::Computed(..) => {}
        }
    }

    /// The next thing to be done, until there is none.
    pub fn next_action(&mut self) -> Option<Action> {
        match (&mut self.engine, self.phase) {
            (Some(engine), Phase::Verify | Phase::Again) => engine.next_action(),
            _ => self.actions.pop_front(),
        }
    }

    /// The engine, when all is done; `None` while there is more to do.
    pub fn finish(&mut self) -> Option<Result<Engine, OpenError>> {
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
            (Reading::Superblock(slot), IoResult::Bytes(bytes)) => {
                let found = Superblock::decode(bytes).ok().filter(|found| self.is_ours(slot, found));
                let known = &mut self.superblocks[slot.0 as usize];
                let order = |b: &Superblock| (b.session, b.update);
                if found.as_ref().map(order) > known.as_ref().map(order) {
                    *known = found;
                }
            }
            (Reading::Snapshot, IoResult::Bytes(bytes)) => {
                let reference = self.newest.as_ref().and_then(|newest| newest.snapshot);
                self.base = reference.and_then(|r| decode_snapshot(bytes, &self.geometry, &r));
            }
            (Reading::Journal(slot), IoResult::Bytes(bytes)) => {
                self.journals.entry(slot).or_default().extend(bytes);
            }
            (Reading::Superblock(slot) | Reading::Journal(slot), IoResult::Gone) => {
                self.gone[slot.0 as usize] = true
            }
            _ => {}
        }
    }

    /// Whether a superblock is one of this volume for this slot, and says what the geometry says.
    fn is_ours(&self, slot: Slot, found: &Superblock) -> bool {
        let Geometry { volume, code, placement, .. } = &self.geometry;
        found.volume == *volume
            && found.slot == slot
            && found.shape == *self.geometry.zones(slot).shape()
            && found.placement == *placement
            && found.fingerprint == code.fingerprint()
    }

    fn next_phase_if_done(&mut self) {
        if !self.ios.is_empty() || self.error.is_some() {
            return;
        }
        match self.phase {
            Phase::Superblocks => self.choose_superblock(),
            Phase::Snapshot => self.snapshot_read(),
            Phase::Journals => self.replay(),
            Phase::WriteSuperblocks => self.flush_superblocks(),
            Phase::FlushSuperblocks => self.phase = Phase::Done,
            Phase::Verify | Phase::Again | Phase::Done => {}
        }
    }

    fn choose_superblock(&mut self) {
        let need = self.geometry.slots() - self.geometry.tolerance();
        let have = self.gone.iter().filter(|gone| !**gone).count();
        if have < need {
            self.error = Some(OpenError::TooFewDevices { have, need });
            return;
        }
        let newest = self.superblocks.iter().flatten().max_by_key(|b| (b.session, b.update)).cloned();
        let Some(newest) = newest else {
            self.error = Some(OpenError::NotThere);
            return;
        };
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

    fn try_snapshot(&mut self) {
        let Some(reference) = self.newest.as_ref().and_then(|n| n.snapshot) else { return };
        let SnapshotRef { area, blocks, .. } = reference;
        match self.sources.pop() {
            Some(slot) => {
                let at = self.geometry.common().snapshot(area).first;
                self.read(slot, at, blocks, Reading::Snapshot);
            }
            None => self.error = Some(OpenError::NoSnapshot),
        }
    }

    fn snapshot_read(&mut self) {
        if self.base.is_none() {
            self.try_snapshot();
            return;
        }
        self.phase = Phase::Journals;
        // In pieces, so that one bad sector does not cost the whole ring.
        for slot in (0..self.geometry.slots() as u32).map(Slot) {
            if !self.gone[slot.0 as usize] {
                self.journals.insert(slot, Vec::new());
                let at = self.geometry.common().journal().first;
                self.read(slot, at, self.geometry.journal_blocks(), Reading::Journal(slot));
            }
        }
        self.next_phase_if_done();
    }

    /// The bytes of a ring from a block on, around its end if need be; `None` if the ring could not be read.
    fn in_ring(&self, ring: &[u8], at: u32, blocks: u32) -> Option<Vec<u8>> {
        if blocks > self.geometry.journal_blocks() {
            return None;
        }
        let zones = self.geometry.common();
        let (front, rest) = zones.record(at, blocks);
        let mut bytes = Vec::new();
        for run in std::iter::once(front).chain(rest) {
            let from = ((run.first.0 - zones.journal().first.0) * BLOCK_BYTES) as usize;
            bytes.extend_from_slice(ring.get(from..from + (run.blocks * BLOCK_BYTES) as usize)?);
        }
        Some(bytes)
    }

    /// The record of this number at a block of the ring, from any device that has it whole, and what it changes.
    fn record_at(&self, at: u32, number: u64, newest: &Superblock) -> Option<(Record, Vec<Change>)> {
        let shape = self.geometry.shape();
        let mut best: Option<(Record, Vec<Change>)> = None;
        for ring in self.journals.values() {
            let first = self.in_ring(ring, at, 1);
            let Some(head) = first.and_then(|block| Record::peek(&block, newest.volume).ok()) else {
                continue;
            };
            let allowed = match RecordNumber(number) >= newest.first_record {
                true => head.session == newest.session,
                false => head.session < newest.session,
            };
            let better = best.as_ref().is_none_or(|(other, _)| other.session < head.session);
            if head.number != RecordNumber(number) || !allowed || !better {
                continue;
            }
            let bytes = self.in_ring(ring, at, head.blocks);
            let record = bytes.and_then(|bytes| Record::decode(&bytes, newest.volume, shape).ok());
            let Some(record) = record else { continue };
            let changes: Option<Vec<Change>> =
                record.entries.iter().map(|entry| change(entry, &self.geometry)).collect();
            best = changes.map(|changes| (record, changes)).or(best);
        }
        best
    }

    fn replay(&mut self) {
        let (Some(newest), Some(mut maps)) = (self.newest.clone(), self.base.take()) else { return };
        let (mut number, mut head) = newest.snapshot.map_or((0, 0), |s| (s.record.0, s.replay_at));
        let mut last: Option<(Record, Vec<Change>)> = None;
        let mut before = (maps.clone(), number, head);
        while let Some((record, changes)) = self.record_at(head, number + 1, &newest) {
            before = (maps.clone(), number, head);
            changes.iter().for_each(|change| maps.apply(change));
            number += 1;
            head = self.geometry.common().record_after(head, record.len_blocks() as u32);
            last = Some((record, changes));
        }
        let last_at = before.2;
        if RecordNumber(number + 1) < newest.first_record {
            // The session was begun after more than is here: the devices that are here do not reach it.
            self.error = Some(OpenError::NoSnapshot);
            return;
        }
        let mut engine = match Engine::resume(self.geometry.clone(), maps, newest.clone(), number + 1, head) {
            Ok(engine) => engine,
            Err(error) => {
                self.error = Some(OpenError::Code(error.to_string()));
                return;
            }
        };
        for (slot, gone) in self.gone.iter().enumerate() {
            if *gone {
                engine.missing_at_start(Slot(slot as u32));
            }
        }
        self.before = Some(before);
        self.phase = Phase::Verify;
        // Of an older session the last record has been verified when the newest began.
        let last = last.filter(|(record, _)| record.session == newest.session);
        if let Some((record, _)) = &last {
            let bytes = record.encode(self.geometry.shape());
            let blocks = record.len_blocks() as u32;
            for (&slot, ring) in &self.journals {
                let there = self.in_ring(ring, last_at, blocks).is_some_and(|there| there == bytes);
                if !there && !self.gone[slot.0 as usize] {
                    let runs = record_runs(self.geometry.common(), last_at, &bytes);
                    self.copies.extend(runs.into_iter().map(|(at, bytes)| (slot, at, bytes)));
                }
            }
        }
        for change in last.iter().flat_map(|(_, changes)| changes) {
            match change {
                Change::Switch { logical, .. } => {
                    engine.verify_stripe(*logical);
                    self.last.0.push(*logical);
                }
                Change::Row { row, .. } => {
                    engine.verify_row(*row);
                    self.last.1.push(*row);
                }
                Change::Unmap { .. } | Change::Forget { .. } | Change::Member { .. } => {}
            }
        }
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
        let (Some(newest), Some((maps, number, head))) = (self.newest.clone(), self.before.take()) else {
            return;
        };
        if engine.verify_failed() {
            let gone = self.gone.clone();
            let resumed = Engine::resume(self.geometry.clone(), maps, newest, number + 1, head);
            let Ok(mut old) = resumed else { return };
            gone.iter()
                .enumerate()
                .filter(|(_, g)| **g)
                .for_each(|(s, _)| old.missing_at_start(Slot(s as u32)));
            self.engine = Some(old);
        }
        self.begin_session();
    }

    fn begin_session(&mut self) {
        let (Some(newest), Some(engine)) = (&self.newest, &mut self.engine) else { return };
        // Behind all that the session before can have given: what its maps have, and one commit that was forgotten.
        let given = engine.maps.generation.max(newest.generation_floor.0);
        let most = u64::from(self.geometry.physical_stripes()) + u64::from(self.geometry.log_rows());
        let superblock = Superblock {
            session: Session(newest.session.0 + 1),
            update: newest.update + 1,
            first_record: RecordNumber(engine.next_record()),
            generation_floor: Generation(given + most),
            ..newest.clone()
        };
        engine.enter_session(superblock.clone());
        let (present, lost) = (engine.present(), engine.maps.absent());
        self.phase = Phase::WriteSuperblocks;
        for slot in present {
            self.next_io += 1;
            let io = IoId(self.next_io);
            self.ios.insert(io, Reading::Begin);
            let bytes = superblock_of(slot, &lost, &self.geometry, &superblock).encode();
            let pieces = vec![Piece::Bytes(bytes)];
            let at = self.geometry.zones(slot).superblock(superblock.update);
            self.actions.push_back(Action::Write { io, slot, at, pieces, urgency: Urgency::User });
        }
        self.next_phase_if_done();
    }

    fn flush_superblocks(&mut self) {
        self.phase = Phase::FlushSuperblocks;
        let present = self.engine.as_ref().map(Engine::present).unwrap_or_default();
        for slot in present {
            self.next_io += 1;
            let io = IoId(self.next_io);
            self.ios.insert(io, Reading::Begin);
            self.actions.push_back(Action::Flush { io, slot });
        }
        self.next_phase_if_done();
    }
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
        policy: Policy::Wcl,
        snapshot: None,
        lost: Vec::new(),
    };
    let mut writes = Vec::new();
    for slot in (0..geometry.slots() as u32).map(Slot) {
        let (superblock, zones) = (superblock_of(slot, &[], geometry, &any), geometry.zones(slot));
        superblock.check()?;
        writes.push((slot, zones.superblock(superblock.update), superblock.encode()));
        if let Some(text) = code.definition() {
            let mut bytes = text.as_bytes().to_vec();
            bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES as usize), 0);
            writes.push((slot, zones.definition().first, bytes));
        }
    }
    Ok(writes)
}
