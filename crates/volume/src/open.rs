//! Opening: from the content of devices to an engine that serves.
//!
//! 1. Read the superblocks and the journal of every device. The newest superblock counts. A session
//!    that has written neither record nor snapshot has changed nothing, and counts no more than the
//!    session it began from: the other devices may have continued without its device. If a session
//!    changed something and the newest session does not continue from it, its device ran
//!    separately: the volume does without that device, or is not opened ([`lineage`]). Rings are
//!    read a few at a time and piece by piece; only their whole records are kept, each once
//!    ([`crate::rings`]).
//! 2. Read the newest snapshot from any device that has it whole, and replay the records that
//!    follow in sequence, each at the block behind the one before. Records from `first_record` of
//!    the newest session on must be of that session. Of older records with one number the one of
//!    the highest session counts: content of a record that an opening has discarded after a crash
//!    can never come back.
//! 3. All but the last record were durable before the last was written. The last is durable only if
//!    every block that it wrote, on every device that is present, has its checksum. If a block
//!    cannot be read or computed, the record is discarded. Otherwise the record, with all of its
//!    stripes and rows, is written again to the devices that lack a part of it, byte for byte. Only
//!    then it counts; until then the state before it is left untouched.
//! 4. All of this is flushed, and a new session begins. Its superblock is durable on every device
//!    that is present before anything else is written; its copies follow. As long as the session
//!    has written nothing, a missing device may bring an unknown record and undo it (see 1). So if
//!    not all devices are present the session writes a record before it serves.

mod blank;
mod error;
mod journal;
pub(crate) mod lineage;

use crate::engine::Engine;
use crate::maps::Maps;
use crate::records::Records;
use crate::rings::{Kept, Rings};
use crate::stored::{SnapshotReader, counts_on, superblock_of};
use crate::{Action, Bearing, DeviceBlock, Event, Found, Geometry, IoId, IoResult, Piece, Slot, Urgency};
pub use blank::{Birth, format_volume};
pub use error::OpenError;
use lineage::{Chosen, Known};
pub use lineage::{choose_side, histories_are_forgotten};
use pantile_format::volume::{HistoryId, MemberState, RecordNumber, Session, Superblock, Zones};
use pantile_format::{FormatError, Generation};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Bytes of rings that are read at a time, so that the rings of 64 devices are not in memory at
/// once.
const RINGS_BYTES: u64 = 32 << 20;

/// The blocks of a ring that one read gets: 1 MiB.
const RING_PIECE_BLOCKS: u32 = 256;

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
    WriteCopies,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// A superblock, and which of the two places in front it is read from; `None`: the copy.
    Superblock(Slot, Option<u64>),
    Snapshot(Slot),
    State(Slot),
    /// A piece of a ring, from this block on.
    Journal(Slot, u32),
    /// A block of a ring, of a piece that could not be read as a whole.
    JournalBlock(Slot, u32),
    Begin(Slot),
}

/// The highest numbers in any superblock, including those that do not count.
#[derive(Clone, Copy, Debug)]
struct Seen {
    session: Session,
    update: u64,
    floor: u64,
}

/// The ring of a device that is being read.
#[derive(Debug)]
struct Ring {
    /// Content; zeros where it could not be read.
    bytes: Vec<u8>,
    /// The first block that has not been asked for.
    next: u32,
    outstanding: u32,
}

/// The superblocks of all devices.
#[derive(Debug)]
struct Superblocks {
    /// By slot, the superblocks of this volume that were found, each with the turn of its place;
    /// the copy at the end has none.
    found: Vec<Vec<(Option<u64>, Superblock)>>,
    /// By slot, true if the device has a superblock of another volume or for another slot.
    others: Vec<bool>,
    newest: Option<Superblock>,
    /// The newest session that has changed anything.
    base_session: Session,
    seen: Seen,
}

/// The devices from which the snapshot and the state are read.
#[derive(Debug, Default)]
struct SnapshotSource {
    /// Devices to try for the snapshot.
    sources: Vec<Slot>,
    reader: Option<SnapshotReader>,
    /// Devices to try for the state, once there is one to be read.
    state_sources: Option<Vec<Slot>>,
}

/// The journals: not read yet, under way, and those that were read.
#[derive(Debug, Default)]
struct Journals {
    /// Devices whose ring has not been read yet.
    unread: VecDeque<Slot>,
    reading: BTreeMap<Slot, Ring>,
    rings: Rings,
}

/// The I/O of an opening before its engine exists.
#[derive(Debug, Default)]
struct OpeningIo {
    under_way: BTreeMap<IoId, Reading>,
    counter: u64,
    actions: VecDeque<Action>,
}

/// The last record, and what remains if it is discarded.
#[derive(Debug, Default)]
struct LastRecord {
    /// Stripes and rows that it maps.
    places: (Vec<u32>, Vec<u32>),
    /// Its blocks, for the devices that lack it.
    copies: Vec<(Slot, DeviceBlock, Vec<u8>)>,
    /// The maps before it.
    before: Option<(Maps, u64, u32)>,
    /// True if it alone has the current states of members: if it is discarded, no record does.
    unrecorded: bool,
    /// Its first generation; missing devices may lack the writes from here on.
    since: u64,
}

/// An opening under way. It is driven like an engine until [`Opening::finish`] returns the engine.
#[derive(Debug)]
pub(crate) struct Opening {
    geometry: Geometry,
    phase: Phase,
    gone: Vec<bool>,
    superblocks: Superblocks,
    snapshot: SnapshotSource,
    journals: Journals,
    base: Option<Maps>,
    /// The argument `fresh` of [`Opening::new`].
    fresh: HistoryId,
    io: OpeningIo,
    /// The engine, from verification on: its reads do the work.
    engine: Option<Engine>,
    last: LastRecord,
    /// Devices that answer and have no superblock of any volume.
    blank: Vec<Slot>,
    /// Devices that ran separately, and their histories.
    apart: Vec<(Slot, HistoryId)>,
    /// Devices that the records call lost.
    away: Vec<Slot>,
    /// On some device both superblocks in front were bad when it was opened; one of them stays bad.
    leaves_torn: bool,
    error: Option<OpenError>,
    /// The opening ends when the maps are known, before anything is written.
    pub(crate) only_looks: bool,
    /// The opening ends when it is known whether the last record counts, before anything is
    /// written.
    pub(crate) reads_only: bool,
    /// Seconds since 1970, as the driver set the clock last.
    pub(crate) now: i64,
}

impl Opening {
    /// Begins to open a volume of this geometry; `there`: by slot, true if the device answers.
    ///
    /// `fresh` becomes the history if not all devices take part.
    pub(crate) fn new(geometry: Geometry, there: &[bool], fresh: HistoryId) -> Opening {
        let slots = geometry.slots();
        let mut opening = Opening {
            geometry,
            phase: Phase::Superblocks,
            gone: there.iter().map(|t| !t).collect(),
            superblocks: Superblocks {
                found: vec![Vec::new(); slots],
                others: vec![false; slots],
                newest: None,
                base_session: Session(0),
                seen: Seen { session: Session(0), update: 0, floor: 0 },
            },
            snapshot: SnapshotSource::default(),
            journals: Journals::default(),
            base: None,
            fresh,
            io: OpeningIo::default(),
            engine: None,
            last: LastRecord::default(),
            blank: Vec::new(),
            apart: Vec::new(),
            away: Vec::new(),
            leaves_torn: false,
            error: None,
            only_looks: false,
            reads_only: false,
            now: 0,
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
        self.io.actions.push_back(Action::ReadBytes { io, slot, at, blocks, urgency: Urgency::User });
    }

    fn new_io(&mut self, reading: Reading) -> IoId {
        self.io.counter += 1;
        self.io.under_way.insert(IoId(self.io.counter), reading);
        IoId(self.io.counter)
    }

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
                let Some(reading) = self.io.under_way.remove(&io) else { return };
                self.had(reading, &result);
                self.next_phase_if_done();
            }
            Event::DeviceGone(slot) => self.lost(slot),
            Event::Request(..)
            | Event::Computed(..)
            | Event::DeviceCame(..)
            | Event::Scrub(..)
            | Event::Settle
            | Event::Still
            | Event::Pace(..)
            | Event::Idle
            | Event::ClearErrors(_)
            | Event::Happened { .. } => {}
        }
    }

    /// Returns the next action for the driver, until there is none.
    pub(crate) fn next_action(&mut self) -> Option<Action> {
        self.io.actions.pop_front().or_else(|| self.engine.as_mut()?.next_action())
    }

    /// Returns the engine, when the opening is done; `None` while there is more to do.
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
                    self.superblocks.found[slot.0 as usize].push((turn, found));
                }
                Ok(_) => self.superblocks.others[slot.0 as usize] = true,
                // Content of a newer version of the program is not overwritten.
                Err(FormatError::Newer { .. } | FormatError::Features { .. }) => {
                    self.superblocks.others[slot.0 as usize] = true;
                }
                Err(_) => {}
            },
            (Reading::Snapshot(slot), IoResult::Bytes(bytes)) => self.had_of_snapshot(slot, bytes),
            (Reading::Snapshot(_), _) => self.snapshot.reader = None,
            (Reading::State(_), IoResult::Bytes(bytes)) => self.had_of_state(bytes),
            (Reading::Journal(slot, from) | Reading::JournalBlock(slot, from), IoResult::Bytes(bytes)) => {
                self.had_of_ring(slot, from, bytes);
            }
            // The blocks that cannot be read may be unused ones: the piece is read block by block.
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
            // Without the superblock of the new session a later opening would take the device's
            // content for that of the session before.
            (Reading::Begin(slot), IoResult::MediaError) => self.lost(slot),
            _ => {}
        }
    }

    /// Notes that a device does not answer any more. It is admitted when the driver says that it
    /// came, not at the end of the opening.
    fn went(&mut self, slot: Slot) {
        self.gone[slot.0 as usize] = true;
        self.blank.retain(|blank| *blank != slot);
    }

    fn lost(&mut self, slot: Slot) {
        self.went(slot);
        if self.journals.reading.remove(&slot).is_some() {
            self.begin_rings();
        }
        if let Some(engine) = &mut self.engine {
            engine.missing_at_start(slot, self.last.since);
            // The session has begun, so the device may have the superblock of the new history.
            engine.snapshots.open_history();
        }
    }

    /// Returns true if a superblock is of this volume and slot, and fits the geometry.
    fn is_ours(&self, slot: Slot, found: &Superblock) -> bool {
        let Geometry { volume, code, placement, .. } = &self.geometry;
        found.volume == *volume
            && found.slot == slot
            && found.shape == *self.geometry.zones(slot).shape()
            && found.placement == *placement
            && found.fingerprint == code.fingerprint()
            && counts_on(found)
    }

    fn next_phase_if_done(&mut self) {
        if !self.io.under_way.is_empty() || self.error.is_some() {
            return;
        }
        match self.phase {
            Phase::Superblocks => self.read_journals(),
            Phase::Journals => self.choose_superblock(),
            Phase::Snapshot => self.snapshot_read(),
            Phase::FlushFound => self.write_superblocks(),
            Phase::WriteSuperblocks => self.flush(Phase::FlushSuperblocks),
            Phase::FlushSuperblocks => self.write_copies(),
            Phase::WriteCopies => self.serve(),
            Phase::Verify | Phase::Again | Phase::Done => {}
        }
    }

    /// Returns the newest superblock of a device.
    fn superblock(&self, slot: Slot) -> Option<&Superblock> {
        let found = self.superblocks.found[slot.0 as usize].iter().map(|(_, superblock)| superblock);
        found.max_by_key(|superblock| (superblock.session, superblock.update))
    }

    /// Returns true if a device has something that the session of its superblock wrote: the session
    /// is established.
    fn is_established(&self, slot: Slot, superblock: &Superblock) -> bool {
        let Superblock { session, first_record, .. } = *superblock;
        let has_snapshot = superblock.snapshot.is_some_and(|snapshot| snapshot.session == session);
        let is_its = |kept: &Kept| {
            kept.head.session == session && kept.head.number >= first_record && kept.on.contains(&slot)
        };
        has_snapshot || self.journals.rings.all().any(is_its)
    }

    fn choose_superblock(&mut self) {
        let slots = self.here();
        let known: Vec<Known> = slots
            .filter_map(|slot| {
                let superblock = self.superblock(slot)?;
                let is_established = self.is_established(slot, superblock);
                Some(Known { superblock: superblock.clone(), is_established })
            })
            .collect();
        let able = lineage::can_do_with(&self.geometry);
        let Chosen { mut newest, base_session, apart } = match lineage::choose(&known, able) {
            Ok(chosen) => chosen,
            Err(error) => {
                self.error = Some(error);
                return;
            }
        };
        self.superblocks.base_session = base_session;
        // Devices that ran separately are not written to, and count as missing.
        for (slot, _) in &apart {
            self.gone[slot.0 as usize] = true;
            self.superblocks.others[slot.0 as usize] = true;
        }
        let blocks = || {
            let known = known.iter().map(|known| &known.superblock);
            known.filter(|block| apart.iter().all(|(slot, _)| *slot != block.slot))
        };
        // Histories of sessions that changed nothing become ancestors too, and session numbers
        // continue after theirs.
        let is_new = |history: &HistoryId| newest.history != *history && !newest.ancestors.contains(history);
        let begun: BTreeSet<HistoryId> = blocks().map(|block| block.history).filter(is_new).collect();
        let behind = newest.ancestors.len().min(2);
        newest.ancestors.splice(behind..behind, begun);
        newest.ancestors.truncate(Superblock::ANCESTORS_MOST);
        self.superblocks.seen = Seen {
            session: blocks().map(|block| block.session).max().unwrap_or(newest.session),
            update: blocks().map(|block| block.update).max().unwrap_or(newest.update),
            floor: blocks().map(|block| block.generation_floor.0).max().unwrap_or(0),
        };
        self.apart = apart;
        for slot in (0..self.geometry.slots() as u32).map(Slot) {
            if self.superblocks.found[slot.0 as usize].is_empty() && !self.gone[slot.0 as usize] {
                // Devices of other volumes are not written to: they count as missing.
                if !self.superblocks.others[slot.0 as usize] {
                    self.blank.push(slot);
                }
                self.gone[slot.0 as usize] = true;
            }
        }
        if !self.are_enough(Vec::new()) {
            return;
        }
        let features = newest.features.unknown_to_write();
        if features != 0 && !self.only_looks {
            self.error = Some(OpenError::NeedsNewer { features });
            return;
        }
        let has_snapshot = newest.snapshot.is_some();
        self.superblocks.newest = Some(newest);
        self.snapshot.sources = self.here().collect();
        self.phase = Phase::Snapshot;
        if has_snapshot {
            self.try_snapshot();
        } else {
            self.base = Some(Maps::new(&self.geometry));
            self.next_phase_if_done();
        }
    }

    /// Returns true if there are enough devices; else ends the opening with an error.
    fn are_enough(&mut self, older: Vec<Slot>) -> bool {
        let need = self.geometry.slots() - self.geometry.tolerance();
        let have = self.gone.iter().filter(|gone| !**gone).count();
        let are_enough = self.tolerates(&[]);
        if !are_enough {
            self.error = Some(OpenError::TooFewDevices { have, need, older });
        }
        are_enough
    }

    /// Returns true if everything can be read without the devices that are gone and these.
    fn tolerates(&self, also: &[Slot]) -> bool {
        let gone = (0..).map(Slot).zip(&self.gone).filter(|(_, gone)| **gone).map(|(slot, _)| slot);
        let bearing = Bearing::new(&self.geometry.code, self.geometry.placement);
        bearing.bears(&gone.chain(also.iter().copied()).collect::<Vec<Slot>>())
    }

    /// Returns the devices that take part.
    fn here(&self) -> impl Iterator<Item = Slot> {
        (0..).map(Slot).zip(&self.gone).filter(|(_, gone)| !**gone).map(|(slot, _)| slot)
    }

    /// Returns devices that the maps take for present although their content is older: they are
    /// copies, had the slot earlier, or were restored from a backup. A session begins with its
    /// superblock on every device that takes part, so a device without the superblock of the newest
    /// session that has changed anything did not take part. All of it is rebuilt, because no record
    /// says which blocks it lacks.
    ///
    /// `last`: the number of the last record.
    fn older(&self, maps: &Maps, newest: &Superblock, last: u64) -> Vec<Slot> {
        let counts = |slot: &Slot| match maps.members()[slot.0 as usize] {
            MemberState::Present => true,
            MemberState::Lost { .. } => false,
            // A device that was admitted a moment ago may have the maps already, and its superblock
            // not yet.
            MemberState::Rebuilding { cursor, ahead, .. } => cursor.max(ahead.until).0 > 0,
        };
        let is_old =
            |slot: &Slot, own: &Superblock| own.session < self.superblocks.base_session && counts(slot);
        // The device had the slot before the one that the maps are about.
        let is_another =
            |slot: &Slot, own: &Superblock| maps.is_present(*slot) && own.update < maps.first_update(*slot);
        let own = |slot: &Slot| self.superblock(*slot);
        let is_older = |slot: &Slot| own(slot).is_some_and(|own| is_old(slot, own) || is_another(slot, own));
        let mut older: Vec<Slot> = self.here().filter(is_older).collect();
        let mut behind = self.behind(maps, newest, last);
        behind.retain(|slot| !older.contains(slot));
        // A journal that cannot be read looks the same as one without the records.
        if self.tolerates(&[&older[..], &behind].concat()) {
            older.extend(behind);
        }
        older
    }

    /// Returns devices that lack the two last records of the newest session, of which the last but
    /// one was flushed on every device that was present: they are copies from within the session.
    fn behind(&self, maps: &Maps, newest: &Superblock, last: u64) -> Vec<Slot> {
        let Some(needed) = last.checked_sub(1).map(RecordNumber).filter(|n| *n >= newest.first_record) else {
            return Vec::new();
        };
        let has = |slot: &Slot| {
            let mut records = self.journals.rings.all().filter(|kept| kept.head.session == newest.session);
            records.any(|kept| kept.head.number >= needed && kept.on.contains(slot))
        };
        let is_present = |slot: &Slot| maps.members()[slot.0 as usize] == MemberState::Present;
        self.here().filter(is_present).filter(|slot| !has(slot)).collect()
    }

    fn verified_if_done(&mut self) {
        let Some(engine) = &mut self.engine else { return };
        if !engine.is_idle() {
            return;
        }
        let lacking = engine.has_suspects() || !self.last.copies.is_empty();
        if self.phase == Phase::Verify && !engine.verify_failed() && lacking && !self.reads_only {
            // Blocks that a device lacks are written again before the record counts.
            self.phase = Phase::Again;
            engine.begin_again(
                &self.last.places.0,
                &self.last.places.1,
                std::mem::take(&mut self.last.copies),
            );
            if !engine.is_idle() {
                return;
            }
        }
        let absent = engine.maps.absent();
        if absent.len() > self.geometry.tolerance() && engine.verify_failed() {
            // The record may have been flushed, and be durable on missing devices; or the remaining
            // ones cannot distinguish it from a discarded one. The opening fails rather than guess.
            let have = self.geometry.slots() - absent.len();
            let need = self.geometry.slots() - self.geometry.tolerance();
            self.io.actions.extend(std::iter::from_fn(|| engine.next_action()));
            self.error = Some(match engine.planners.stripes_bear.bears(&absent) {
                true => OpenError::Undecided { have, need },
                false => OpenError::TooFewDevices { have, need, older: Vec::new() },
            });
            return;
        }
        let (Some(newest), Some((maps, number, head))) =
            (self.superblocks.newest.clone(), self.last.before.take())
        else {
            return;
        };
        if engine.verify_failed() {
            // Releases that the old engine has queued come first.
            self.io.actions.extend(std::iter::from_fn(|| engine.next_action()));
            let (absent, counter) = (engine.maps.absent(), engine.io.counter());
            let used = self.ring_blocks(newest.snapshot.map_or(0, |snapshot| snapshot.replay_at), head);
            let resumed = Engine::resume(
                self.geometry.clone(),
                maps,
                newest,
                Records::at(number + 1, head, used),
                counter,
            );
            let Ok(mut old) = resumed else { return };
            old.noting.tell_time(self.now);
            // The record that is discarded here was the only proof that the one before it is
            // durable.
            old.records.found(used > 0);
            old.service.opening_mut().begin(self.last.since);
            old.members.set_apart(&self.apart);
            old.records.want_if(self.last.unrecorded);
            absent.into_iter().for_each(|slot| old.missing_at_start(slot, self.last.since));
            self.engine = Some(old);
        }
        if let Some(engine) = &mut self.engine {
            engine.forgive_what_a_crash_left();
        }
        match &mut self.engine {
            Some(engine) if self.reads_only => {
                engine.only_read();
                self.phase = Phase::Done;
            }
            _ => self.begin_session(),
        }
    }

    fn begin_session(&mut self) {
        let (Some(newest), Some(engine)) = (&self.superblocks.newest, &self.engine) else { return };
        // Higher than all generations that the session before can have given: those of its maps,
        // and of one commit that was cut off.
        let given = engine.maps.generation().max(self.superblocks.seen.floor);
        let most = 2 * (u64::from(self.geometry.physical_stripes()) + u64::from(self.geometry.log_rows()));
        let absent = engine.maps.absent();
        // Without all devices it could be that the others are opened elsewhere.
        let keeps = self.nobody_has_the_history(newest, &absent);
        let (history, ancestors) = match () {
            () if absent.is_empty() => {
                // All devices that were away when the history was drawn are here.
                let mut opened = newest.clone();
                lineage::open_up(&mut opened);
                (opened.history, opened.ancestors)
            }
            () if keeps || newest.history == self.fresh => (newest.history, newest.ancestors.clone()),
            () => lineage::drawn(newest, self.fresh),
        };
        let Some(engine) = &mut self.engine else { return };
        let superblock = Superblock {
            history,
            ancestors,
            session: Session(self.superblocks.seen.session.0 + 1),
            base: self.superblocks.base_session,
            update: self.superblocks.seen.update + 1,
            first_record: engine.records.next(),
            generation_floor: Generation(given + most),
            ..newest.clone()
        };
        if !counts_on(&superblock) {
            self.error = Some(OpenError::Counted);
            return;
        }
        engine.enter_session(superblock);
        // From here on the opening gives the names of I/O, until the engine serves.
        self.io.counter = engine.io.counter();
        // If the process died and the devices kept running, content that was read may be in their
        // caches only. Without this flush a power failure could then destroy all three superblocks:
        // those written now, and the other one.
        self.flush(Phase::FlushFound);
    }

    /// Returns true if no device that the session begins without can have the newest history: see
    /// [`lineage`].
    fn nobody_has_the_history(&self, newest: &Superblock, absent: &[Slot]) -> bool {
        let of_it = self.superblocks.found.iter().flatten().map(|(_, superblock)| superblock);
        let mut of_it = of_it.filter(|superblock| superblock.history == newest.history);
        let names_all = |found: &Superblock| absent.iter().all(|slot| found.lost.contains(slot));
        absent.iter().all(|slot| self.away.contains(slot))
            && of_it.all(|found| lineage::is_closed(found) && names_all(found))
    }

    /// Writes the superblock of the new session to the place in front whose turn it is.
    fn write_superblocks(&mut self) {
        let Some(engine) = &mut self.engine else { return };
        self.phase = Phase::WriteSuperblocks;
        for slot in engine.present() {
            // This is the place that does not hold the valid superblock.
            let found = self.superblocks.found[slot.0 as usize].iter().filter(|(turn, _)| turn.is_some());
            let newest = found.max_by_key(|(_, block)| (block.session, block.update));
            self.leaves_torn |= newest.is_none();
            engine.snapshots.set_turn(slot, newest.and_then(|(turn, _)| *turn).map_or(0, |turn| turn + 1));
        }
        let slots = (0..self.geometry.slots() as u32).map(Slot);
        let turns: Vec<u64> = slots.map(|slot| engine.snapshots.take_turn(slot)).collect();
        self.write_each(|slot, zones| zones.superblock(turns[slot.0 as usize]));
    }

    /// Writes the copies once the superblocks are durable: of three places at most one is being
    /// written.
    fn write_copies(&mut self) {
        self.phase = Phase::WriteCopies;
        self.write_each(|_, zones| zones.superblock_copy());
    }

    /// Writes the superblock of the new session to a place on each device that is present.
    fn write_each(&mut self, place: impl Fn(Slot, &Zones) -> DeviceBlock) {
        let Some(engine) = &self.engine else { return };
        let (present, lost, superblock) =
            (engine.present(), engine.maps.absent(), engine.snapshots.superblock().clone());
        for slot in present {
            let bytes = superblock_of(slot, &lost, &self.geometry, &superblock).encode();
            let io = self.new_io(Reading::Begin(slot));
            let (at, pieces) = (place(slot, self.geometry.zones(slot)), vec![Piece::Bytes(bytes)]);
            self.io.actions.push_back(Action::Write { io, slot, at, pieces, urgency: Urgency::User });
        }
        self.next_phase_if_done();
    }

    /// Returns the devices that answer but that the maps call lost, and their content.
    fn came_back(&self) -> Vec<(Slot, Found)> {
        let Some(engine) = &self.engine else { return Vec::new() };
        let found = |slot: Slot| match self.blank.contains(&slot) {
            true => Some((slot, Found::Blank)),
            false if self.gone[slot.0 as usize] => None,
            false => {
                let own = self.superblock(slot);
                Some((slot, own.map_or(Found::Blank, |own| engine.found(slot, own))))
            }
        };
        engine.maps.absent().into_iter().filter_map(found).collect()
    }

    /// Begins to serve; devices that answer but that the maps call lost come back.
    fn serve(&mut self) {
        self.phase = Phase::Done;
        let came = self.came_back();
        let Some(engine) = &mut self.engine else { return };
        engine.io.go_on_from(self.io.counter);
        engine.service.opening_mut().end();
        if self.leaves_torn {
            engine.snapshots.want_everywhere();
        }
        came.into_iter().for_each(|(slot, found)| engine.device_came(slot, found));
        if !engine.maps.absent().is_empty() {
            engine.begin_provisionally();
        }
        engine.begin_patching();
        engine.resume_scrub();
        engine.drive();
    }

    fn flush(&mut self, phase: Phase) {
        self.phase = phase;
        let present = self.engine.as_ref().map(Engine::present).unwrap_or_default();
        for slot in present {
            let io = self.new_io(Reading::Begin(slot));
            self.io.actions.push_back(Action::Flush { io, slot });
        }
        self.next_phase_if_done();
    }
}
