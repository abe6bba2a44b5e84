//! Opening: from what the devices hold to an engine that serves.
//!
//! 1. Read the session blocks; the newest counts. Read its snapshot from any device that has it whole, and the journal of
//!    every device.
//! 2. Replay the records that follow the snapshot in sequence. Records from `first_record` of the newest session on must be
//!    of that session; of older ones the highest session counts: what a crash made us forget can never come back.
//! 3. All but the last record were durable before the last was written. The last is durable only if what it maps is there:
//!    every block that it wrote, on every device that is present, is read and held against its checksum. If a block cannot
//!    be had even from the others, the record is forgotten. If it can, the record counts once it and all of its stripes and
//!    rows are on every device that is present, written again, byte for byte: until then nothing of the state before it has been touched.
//! 4. A new session begins: its block is durable on every device that is present before anything else is written.

use crate::engine::Engine;
use crate::maps::{Change, Maps};
use crate::store::{Record, SessionBlock, decode_snapshot};
use crate::{
    Action, BLOCK_BYTES, DeviceBlock, Event, Geometry, IoId, IoResult, Piece, Slot, Urgency, UserBlock,
};
use std::collections::BTreeMap;
use std::fmt;

/// Why a volume cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// No device has a session block of this volume.
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
    Sessions,
    Snapshot,
    Journals,
    Verify,
    Again,
    WriteSession,
    FlushSession,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Session(Slot),
    Snapshot,
    Journal(Slot),
    Session2,
}

/// The way to an engine. Drive it like one until [`Opening::finish`] gives the engine.
#[derive(Debug)]
pub struct Opening {
    geometry: Geometry,
    phase: Phase,
    gone: Vec<bool>,
    sessions: Vec<Option<SessionBlock>>,
    newest: Option<SessionBlock>,
    /// Devices to try for the snapshot.
    sources: Vec<Slot>,
    base: Option<(Maps, u64)>,
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
            phase: Phase::Sessions,
            gone: there.iter().map(|t| !t).collect(),
            sessions: vec![None; slots],
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
            opening.read(slot, DeviceBlock(0), 1, Reading::Session(slot));
            opening.read(slot, DeviceBlock(1), 1, Reading::Session(slot));
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
            (Reading::Session(slot), IoResult::Bytes(bytes)) => {
                let found = SessionBlock::decode(bytes, &self.geometry.volume);
                let known = &mut self.sessions[slot.0 as usize];
                let order = |b: &SessionBlock| (b.session, b.update);
                if found.as_ref().map(order) > known.as_ref().map(order) {
                    *known = found;
                }
            }
            (Reading::Snapshot, IoResult::Bytes(bytes)) => self.base = decode_snapshot(bytes, &self.geometry),
            (Reading::Journal(slot), IoResult::Bytes(bytes)) => {
                self.journals.entry(slot).or_default().extend(bytes);
            }
            (Reading::Session(slot) | Reading::Journal(slot), IoResult::Gone) => {
                self.gone[slot.0 as usize] = true
            }
            _ => {}
        }
    }

    fn next_phase_if_done(&mut self) {
        if !self.ios.is_empty() || self.error.is_some() {
            return;
        }
        match self.phase {
            Phase::Sessions => self.choose_session(),
            Phase::Snapshot => self.snapshot_read(),
            Phase::Journals => self.replay(),
            Phase::WriteSession => self.flush_session(),
            Phase::FlushSession => self.phase = Phase::Done,
            Phase::Verify | Phase::Again | Phase::Done => {}
        }
    }

    fn choose_session(&mut self) {
        let need = self.geometry.slots() - self.geometry.tolerance();
        let have = self.gone.iter().filter(|gone| !**gone).count();
        if have < need {
            self.error = Some(OpenError::TooFewDevices { have, need });
            return;
        }
        let newest = self.sessions.iter().flatten().max_by_key(|b| (b.session, b.update)).copied();
        let Some(newest) = newest else {
            self.error = Some(OpenError::NotThere);
            return;
        };
        self.newest = Some(newest);
        self.sources =
            (0..self.geometry.slots() as u32).map(Slot).filter(|s| !self.gone[s.0 as usize]).collect();
        self.phase = Phase::Snapshot;
        match newest.snapshot {
            None => {
                self.base = Some((Maps::new(&self.geometry), 0));
                self.next_phase_if_done();
            }
            Some(_) => self.try_snapshot(),
        }
    }

    fn try_snapshot(&mut self) {
        let Some((area, blocks, _)) = self.newest.and_then(|n| n.snapshot) else { return };
        match self.sources.pop() {
            Some(slot) => {
                let at = self.geometry.snapshot_start[usize::from(area)];
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
                self.read(
                    slot,
                    self.geometry.journal_start,
                    self.geometry.journal_blocks,
                    Reading::Journal(slot),
                );
            }
        }
        self.next_phase_if_done();
    }

    /// Every record that some device has whole, by number.
    fn records(&self, newest: SessionBlock) -> BTreeMap<u64, (Record, u32)> {
        let mut found: BTreeMap<u64, (Record, u32)> = BTreeMap::new();
        for ring in self.journals.values() {
            for (block, at) in (0..ring.len()).step_by(BLOCK_BYTES as usize).enumerate() {
                let Some(record) = Record::decode(&ring[at..], &self.geometry) else { continue };
                let allowed = match record.number >= newest.first_record {
                    true => record.session == newest.session,
                    false => record.session < newest.session,
                };
                let better =
                    found.get(&record.number).is_none_or(|(other, _)| other.session < record.session);
                if allowed && better {
                    let end = block as u32
                        + (record.encode(&self.geometry.volume).len() as u64 / BLOCK_BYTES) as u32;
                    found.insert(record.number, (record, end));
                }
            }
        }
        found
    }

    fn replay(&mut self) {
        let (Some(newest), Some((mut maps, snapshot_number))) = (self.newest, self.base.take()) else {
            return;
        };
        let records = self.records(newest);
        let mut number = snapshot_number;
        let mut head = 0;
        let mut last: Option<Record> = None;
        let mut before = (maps.clone(), number, head);
        while let Some((record, end)) = records.get(&(number + 1)) {
            before = (maps.clone(), number, head);
            record.changes.iter().for_each(|change| maps.apply(change));
            number += 1;
            head = *end;
            last = Some(record.clone());
        }
        if number + 1 < newest.first_record {
            // The session was begun after more than is here: the devices that are here do not reach it.
            self.error = Some(OpenError::NoSnapshot);
            return;
        }
        let mut engine = match Engine::resume(self.geometry.clone(), maps, newest, number + 1, head) {
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
        let last = last.filter(|record| record.session == newest.session);
        if let Some(record) = &last {
            let bytes = record.encode(&self.geometry.volume);
            let start = head - (bytes.len() as u64 / BLOCK_BYTES) as u32;
            for (&slot, ring) in &self.journals {
                let there =
                    ring.get(start as usize * BLOCK_BYTES as usize..).is_some_and(|r| r.starts_with(&bytes));
                if !there && !self.gone[slot.0 as usize] {
                    let at = DeviceBlock(self.geometry.journal_start.0 + u64::from(start));
                    self.copies.push((slot, at, bytes.clone()));
                }
            }
        }
        for change in last.iter().flat_map(|record| &record.changes) {
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
        let (Some(newest), Some((maps, number, head))) = (self.newest, self.before.take()) else { return };
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
        let (Some(newest), Some(engine)) = (self.newest, &mut self.engine) else { return };
        let block = SessionBlock {
            session: newest.session + 1,
            update: newest.update + 1,
            first_record: engine.next_record(),
            ..newest
        };
        engine.enter_session(block);
        let present = engine.present();
        let bytes = block.encode(&self.geometry.volume);
        self.phase = Phase::WriteSession;
        for slot in present {
            self.next_io += 1;
            let io = IoId(self.next_io);
            self.ios.insert(io, Reading::Session2);
            let pieces = vec![Piece::Bytes(bytes.clone())];
            let at = DeviceBlock(block.update % 2);
            self.actions.push_back(Action::Write { io, slot, at, pieces, urgency: Urgency::User });
        }
        self.next_phase_if_done();
    }

    fn flush_session(&mut self) {
        self.phase = Phase::FlushSession;
        let present = self.engine.as_ref().map(Engine::present).unwrap_or_default();
        for slot in present {
            self.next_io += 1;
            let io = IoId(self.next_io);
            self.ios.insert(io, Reading::Session2);
            self.actions.push_back(Action::Flush { io, slot });
        }
        self.next_phase_if_done();
    }
}

/// The first blocks of a new volume's devices, to be written and flushed before it is opened.
pub fn format_volume(geometry: &Geometry) -> Vec<(Slot, DeviceBlock, Vec<u8>)> {
    let block = SessionBlock { session: 1, update: 0, first_record: 1, snapshot: None };
    let bytes = block.encode(&geometry.volume);
    (0..geometry.slots() as u32).map(|slot| (Slot(slot), DeviceBlock(0), bytes.clone())).collect()
}

impl UserBlock {
    /// The block after so many more.
    pub fn plus(self, blocks: u64) -> UserBlock {
        UserBlock(self.0 + blocks)
    }
}
