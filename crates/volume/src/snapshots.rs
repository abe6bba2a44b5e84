//! Snapshots, which let the ring of the journal be overwritten, and the superblocks that refer to
//! them.
//!
//! * Nothing is committed while a snapshot is written: it is made from the maps as it is written.
//! * Two areas hold snapshots in turns, two places in front hold superblocks in turns, and a third
//!   has a copy. A place is written only when what replaces it is durable elsewhere.
//! * A superblock that refers to a snapshot is written when the snapshot is durable, and only if
//!   every device that it calls present is there still.
//! * The history is *open* once a device was lost or is to be let in: that device may have it.

use crate::engine::{Engine, IoOwner};
use crate::journal::definition_bytes;
use crate::open::lineage::{is_closed, open_up};
use crate::records::Records;
use crate::stored::{SnapshotWriter, superblock_of};
use crate::{Action, BLOCK_BYTES, DeviceBlock, Piece, Slot, Urgency};
use pantile_format::Generation;
use pantile_format::volume::{SnapshotHead, SnapshotRef, SnapshotSum, State, StateRef, Superblock};
use std::collections::BTreeSet;

/// Blocks of a snapshot that are under way at a time, on all devices together: 16 MiB.
const SNAPSHOT_BLOCKS: usize = 4096;

/// The longest write of a snapshot: 1 MiB.
const SNAPSHOT_WRITE_BLOCKS: usize = 256;

/// The snapshot under way, those that are wanted, and the superblock that counts.
#[derive(Debug)]
pub(crate) struct Snapshots {
    under_way: Option<Snapshot>,
    /// One is written as soon as nothing is being made durable, even with room in the journal.
    is_wanted: bool,
    /// All three superblocks of each device are written with it.
    everywhere: bool,
    /// Devices that have never had a snapshot: they get the text of the code, too.
    blank: BTreeSet<Slot>,
    /// As it is on the devices; each has it with its own slot.
    superblock: Superblock,
    /// By slot, counts the writes of the superblock: in turns to the one place and the other.
    turns: Vec<u64>,
    history_is_open: bool,
}

impl Snapshots {
    pub(crate) fn new(superblock: Superblock, slots: usize) -> Snapshots {
        Snapshots {
            under_way: None,
            is_wanted: false,
            everywhere: false,
            blank: BTreeSet::new(),
            superblock,
            turns: vec![0; slots],
            history_is_open: false,
        }
    }

    /// The superblock that is on the devices.
    pub(crate) fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// A session has this superblock, which the caller makes durable.
    pub(crate) fn begin_session(&mut self, superblock: Superblock) {
        self.superblock = superblock;
    }

    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// Tests whether superblocks are being written, or will be soon.
    pub(crate) fn is_pending(&self) -> bool {
        self.is_wanted || self.is_under_way()
    }

    /// Wants a snapshot, even with room in the journal.
    pub(crate) fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Wants a snapshot that writes all three superblocks of each device.
    pub(crate) fn want_everywhere(&mut self) {
        (self.is_wanted, self.everywhere) = (true, true);
    }

    /// The next snapshot writes the text of the code to devices, too.
    pub(crate) fn lack_text(&mut self, slots: impl IntoIterator<Item = Slot>) {
        self.blank.extend(slots);
    }

    /// A device that is not here may have the history.
    pub(crate) fn open_history(&mut self) {
        self.history_is_open = true;
    }

    /// Tests whether the superblock says that no device which is away has the history.
    pub(crate) fn is_closed(&self) -> bool {
        is_closed(&self.superblock)
    }

    /// The writes of a device's superblock so far.
    pub(crate) fn turn(&self, slot: Slot) -> u64 {
        self.turns[slot.0 as usize]
    }

    /// The next superblock of a device goes there.
    pub(crate) fn set_turn(&mut self, slot: Slot, turn: u64) {
        self.turns[slot.0 as usize] = turn;
    }

    /// Takes a device's turn: the place in front for its next superblock.
    pub(crate) fn take_turn(&mut self, slot: Slot) -> u64 {
        let turn = &mut self.turns[slot.0 as usize];
        *turn += 1;
        *turn - 1
    }

    /// The area that holds the older snapshot.
    fn area(&self) -> u8 {
        match &self.superblock.snapshot {
            Some(SnapshotRef { area: 0, .. }) => 1,
            _ => 0,
        }
    }

    /// The superblock that refers to the snapshot.
    fn superblock_with(&self, SnapshotSum { blocks, crc }: SnapshotSum, records: &Records) -> Superblock {
        let (session, replay_at) = (self.superblock.session, records.head());
        let (area, record) = (self.area(), records.last());
        Superblock {
            update: self.superblock.update + 1,
            snapshot: Some(SnapshotRef { area, record, blocks, crc, replay_at, session }),
            state: self.under_way.as_ref().map(|snapshot| snapshot.state),
            ..self.superblock.clone()
        }
    }

    /// The snapshot waits for one more write or flush.
    fn wait(&mut self) {
        if let Some(snapshot) = &mut self.under_way {
            snapshot.outstanding += 1;
        }
    }
}

#[derive(Debug)]
struct Snapshot {
    phase: SnapshotPhase,
    outstanding: usize,
    writer: SnapshotWriter,
    /// Blocks that are written or being written.
    blocks: u32,
    /// The next generation that it says.
    generation: u64,
    /// The present superblock, until the snapshot is written.
    superblock: Superblock,
    /// The devices that it calls present.
    on: Vec<Slot>,
    /// Both superblocks in front are written, not only the one in its turn.
    everywhere: bool,
    /// The state that goes with it.
    state: StateRef,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SnapshotPhase {
    Write,
    Flush,
    WriteSuperblock,
    FlushSuperblock,
    /// If all three are to be written.
    WriteOther,
    FlushOther,
    /// Not flushed, unless all three are to be written: the next flush makes them durable, and the
    /// superblock in its turn is durable.
    WriteCopy,
    FlushCopy,
}

impl Engine {
    /// Begins to write the maps as they are. No commit is under way.
    pub(crate) fn begin_snapshot(&mut self) {
        self.snapshots.is_wanted = false;
        let (at, bytes, state) = self.state_of_now();
        let head = SnapshotHead {
            volume: self.geometry.volume,
            session: self.snapshots.superblock.session,
            record: self.records.last(),
            next_generation: Generation(self.maps.generation()),
        };
        self.snapshots.under_way = Some(Snapshot {
            phase: SnapshotPhase::Write,
            outstanding: 1,
            writer: SnapshotWriter::new(&self.maps, head, &self.geometry),
            blocks: 0,
            generation: self.maps.generation(),
            superblock: self.snapshots.superblock.clone(),
            on: self.present(),
            // A device that has just come may have torn ones, or zeros: a scrub would take them for
            // bad.
            everywhere: std::mem::take(&mut self.snapshots.everywhere) || !self.snapshots.blank.is_empty(),
            state,
        });
        for slot in self.present() {
            self.snapshot_write_to(slot, at, bytes.clone());
        }
        // A device that has just come has not even the code.
        let text = self.geometry.code.definition().map(definition_bytes);
        for slot in std::mem::take(&mut self.snapshots.blank) {
            if let Some(text) = text.clone().filter(|_| self.maps.is_present(slot)) {
                let at = self.geometry.zones(slot).definition().first;
                self.snapshot_write_to(slot, at, text);
            }
        }
        self.snapshot_write_on();
        self.snapshot_part_done();
    }

    /// Returns the state for the next snapshot: its place, its bytes, and its entry in the
    /// superblock.
    fn state_of_now(&mut self) -> (DeviceBlock, Vec<u8>, StateRef) {
        let notes = self.notes_for_snapshot();
        let (volume, session) = (self.geometry.volume, self.snapshots.superblock.session);
        let state = State { volume, session, record: self.records.last(), notes };
        let (bytes, crc) = state.encode(self.geometry.shape());
        let blocks = (bytes.len() as u64 / BLOCK_BYTES) as u32;
        let place = self.geometry.common().state(self.snapshots.area());
        (place.first, bytes, StateRef { blocks, crc })
    }

    /// Writes the next blocks of the snapshot; `false`: all are written.
    fn snapshot_write_on(&mut self) -> bool {
        let area = self.geometry.common().snapshot(self.snapshots.area());
        let most = (SNAPSHOT_BLOCKS / self.geometry.slots()).clamp(1, SNAPSHOT_WRITE_BLOCKS);
        // In several pieces also where it is short, so that small volumes go the way of large ones.
        let most = most.min((area.blocks as usize).div_ceil(4));
        let Some(snapshot) = &mut self.snapshots.under_way else { return false };
        let bytes = snapshot.writer.next_blocks(most, &self.maps, &self.geometry);
        let at = DeviceBlock(area.first.0 + u64::from(snapshot.blocks));
        snapshot.blocks += (bytes.len() as u64 / BLOCK_BYTES) as u32;
        if bytes.is_empty() {
            return false;
        }
        for slot in self.present() {
            self.snapshot_write_to(slot, at, bytes.clone());
        }
        true
    }

    fn snapshot_write_to(&mut self, slot: Slot, at: DeviceBlock, bytes: Vec<u8>) {
        let io = self.io.new_io(slot, IoOwner::Snapshot);
        self.snapshots.wait();
        let pieces = vec![Piece::Bytes(bytes)];
        self.io.act(Action::Write { io, slot, at, pieces, urgency: Urgency::User });
    }

    /// Writes the superblock in its turn, or its copy at the end. Never both at once: at most one
    /// of three places is being written, so that a crash and a bad block together leave one.
    fn write_superblocks(&mut self, superblock: &Superblock, copies: bool) {
        let lost = self.maps.absent();
        for slot in self.present() {
            let bytes = superblock_of(slot, &lost, &self.geometry, superblock).encode();
            let zones = self.geometry.zones(slot);
            let at = match copies {
                true => zones.superblock_copy(),
                false => zones.superblock(self.snapshots.take_turn(slot)),
            };
            self.snapshot_write_to(slot, at, bytes);
        }
        self.snapshot_part_done();
    }

    fn snapshot_flush(&mut self) {
        for slot in self.present() {
            let io = self.io.new_io(slot, IoOwner::Snapshot);
            self.snapshots.wait();
            self.io.act(Action::Flush { io, slot });
        }
        self.snapshot_part_done();
    }

    pub(crate) fn snapshot_part_done(&mut self) {
        let Some(snapshot) = &mut self.snapshots.under_way else { return };
        snapshot.outstanding -= 1;
        if snapshot.outstanding > 0 {
            return;
        }
        snapshot.outstanding = 1;
        if snapshot.phase == SnapshotPhase::Write {
            if self.snapshot_write_on() {
                self.snapshot_part_done();
                return;
            }
            let sum = self.snapshots.under_way.as_ref().and_then(|snapshot| snapshot.writer.done());
            let sum = sum.expect("what is written has an end");
            let superblock = self.snapshots.superblock_with(sum, &self.records);
            let Some(snapshot) = &mut self.snapshots.under_way else { return };
            snapshot.superblock = superblock;
        }
        let is_open = self.snapshots.history_is_open;
        let Some(snapshot) = &mut self.snapshots.under_way else { return };
        if is_open {
            open_up(&mut snapshot.superblock);
        }
        let superblock = snapshot.superblock.clone();
        let lost_one = snapshot.on.iter().any(|&slot| !self.maps.is_present(slot));
        match snapshot.phase {
            SnapshotPhase::Write => {
                snapshot.phase = SnapshotPhase::Flush;
                self.snapshot_flush();
            }
            // It calls a lost device present: nothing may begin from it.
            SnapshotPhase::Flush if lost_one => {
                self.snapshots.everywhere |= snapshot.everywhere;
                self.snapshots.under_way = None;
                self.begin_snapshot();
            }
            SnapshotPhase::Flush => {
                snapshot.phase = SnapshotPhase::WriteSuperblock;
                self.write_superblocks(&superblock, false);
            }
            SnapshotPhase::WriteSuperblock => {
                snapshot.phase = SnapshotPhase::FlushSuperblock;
                self.snapshot_flush();
            }
            SnapshotPhase::FlushSuperblock if snapshot.everywhere => {
                snapshot.phase = SnapshotPhase::WriteOther;
                snapshot.superblock.update += 1;
                let superblock = snapshot.superblock.clone();
                self.write_superblocks(&superblock, false);
            }
            SnapshotPhase::WriteOther => {
                snapshot.phase = SnapshotPhase::FlushOther;
                self.snapshot_flush();
            }
            SnapshotPhase::FlushSuperblock | SnapshotPhase::FlushOther => {
                snapshot.phase = SnapshotPhase::WriteCopy;
                self.write_superblocks(&superblock, true);
            }
            SnapshotPhase::WriteCopy if snapshot.everywhere => {
                snapshot.phase = SnapshotPhase::FlushCopy;
                self.snapshot_flush();
            }
            SnapshotPhase::WriteCopy | SnapshotPhase::FlushCopy => {
                self.records.end_snapshot(snapshot.generation);
                self.snapshots.under_way = None;
                self.snapshots.superblock = superblock;
            }
        }
    }
}
