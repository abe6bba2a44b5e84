//! Snapshots, which let the ring of the journal be overwritten, and the superblocks that refer to
//! them.
//!
//! * Nothing is committed while a snapshot is written, so it contains the maps of one moment.
//! * Two areas hold snapshots in turns. Two places in front hold superblocks in turns, and a third
//!   place has a copy. A place is written only when its successor is durable elsewhere.
//! * A superblock that refers to a snapshot is written when the snapshot is durable, and only if
//!   every device that the snapshot calls present is still present.
//! * The history is *open* once a device was lost or is about to be admitted: that device may have
//!   it.

use crate::engine::{Engine, IoOwner};
use crate::journal::definition_bytes;
use crate::open::lineage::{is_closed, open_up};
use crate::records::Records;
use crate::stored::{SnapshotWriter, superblock_of};
use crate::{Action, BLOCK_BYTES, DeviceBlock, Piece, Slot, Urgency};
use pantile_format::Generation;
use pantile_format::volume::{SnapshotHead, SnapshotRef, SnapshotSum, State, StateRef, Superblock};
use std::collections::BTreeSet;

/// The most blocks of a snapshot that are being written, on all devices together: 16 MiB.
const SNAPSHOT_BLOCKS: usize = 4096;

/// The longest write of a snapshot: 1 MiB.
const SNAPSHOT_WRITE_BLOCKS: usize = 256;

/// Updates that are skipped for a new device. A device that had its slot earlier can have begun a
/// few sessions whose superblocks no other device got.
const UPDATES_SKIPPED: u64 = 1024;

/// The snapshot under way, whether another is wanted, and the valid superblock.
#[derive(Debug)]
pub(crate) struct Snapshots {
    under_way: Option<Snapshot>,
    /// A snapshot is written as soon as no commit is under way, even with room in the journal.
    is_wanted: bool,
    /// The next snapshot writes all three superblocks of each device.
    everywhere: bool,
    /// Devices that have never had a snapshot: they also get the text of the code.
    blank: BTreeSet<Slot>,
    /// The superblock on the devices; each device has it with its own slot.
    superblock: Superblock,
    /// By slot, the number of writes of the superblock; they alternate between the two places in
    /// front.
    turns: Vec<u64>,
    history_is_open: bool,
    /// The lowest update of the next superblock.
    least_update: u64,
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
            least_update: 0,
        }
    }

    /// Returns the superblock that is on the devices.
    pub(crate) fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Begins a session with this superblock, which the caller makes durable.
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

    /// Lets the next snapshot write the text of the code to these devices, too.
    pub(crate) fn lack_text(&mut self, slots: impl IntoIterator<Item = Slot>) {
        self.blank.extend(slots);
    }

    /// Returns the lowest update of superblocks from now on; no device has it yet.
    pub(crate) fn update_for_new(&mut self) -> u64 {
        self.least_update = self.superblock.update + UPDATES_SKIPPED;
        self.least_update
    }

    /// Notes that a device which is not present may have the history.
    pub(crate) fn open_history(&mut self) {
        self.history_is_open = true;
    }

    /// Tests whether the superblock proves that no absent device has the history.
    pub(crate) fn is_closed(&self) -> bool {
        is_closed(&self.superblock)
    }

    /// Returns the number of writes of a device's superblock so far.
    pub(crate) fn turn(&self, slot: Slot) -> u64 {
        self.turns[slot.0 as usize]
    }

    /// Sets the turn, and so the place, of a device's next superblock.
    pub(crate) fn set_turn(&mut self, slot: Slot, turn: u64) {
        self.turns[slot.0 as usize] = turn;
    }

    /// Returns a device's turn for its next superblock, and counts it.
    pub(crate) fn take_turn(&mut self, slot: Slot) -> u64 {
        let turn = &mut self.turns[slot.0 as usize];
        *turn += 1;
        *turn - 1
    }

    /// Returns the area that the next snapshot is written to: the one with the older snapshot.
    fn area(&self) -> u8 {
        match &self.superblock.snapshot {
            Some(SnapshotRef { area: 0, .. }) => 1,
            _ => 0,
        }
    }

    /// Returns the superblock that refers to the snapshot under way.
    fn superblock_with(&self, SnapshotSum { blocks, crc }: SnapshotSum, records: &Records) -> Superblock {
        let (session, replay_at) = (self.superblock.session, records.head());
        let (area, record) = (self.area(), records.last());
        Superblock {
            update: self.least_update.max(self.superblock.update + 1),
            snapshot: Some(SnapshotRef { area, record, blocks, crc, replay_at, session }),
            state: self.under_way.as_ref().map(|snapshot| snapshot.state),
            ..self.superblock.clone()
        }
    }

    /// Makes the snapshot wait for one more write or flush.
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
    /// The next generation as of the snapshot.
    generation: u64,
    /// The current superblock; once the snapshot is written, the one that refers to it.
    superblock: Superblock,
    /// The devices that the snapshot calls present.
    on: Vec<Slot>,
    /// Both superblocks in front are written, rather than only the one whose turn it is.
    everywhere: bool,
    /// The state that is stored with the snapshot.
    state: StateRef,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SnapshotPhase {
    Write,
    Flush,
    WriteSuperblock,
    FlushSuperblock,
    /// Only if all three superblocks are written.
    WriteOther,
    FlushOther,
    /// The copy is not flushed unless all three are written: the next flush makes it durable, and
    /// the superblock in front is durable already.
    WriteCopy,
    FlushCopy,
}

impl Engine {
    /// Begins to write the maps. No commit is under way.
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
            // The superblocks of a device that has just come may be torn, or zeros, and a scrub
            // would call them bad.
            everywhere: std::mem::take(&mut self.snapshots.everywhere) || !self.snapshots.blank.is_empty(),
            state,
        });
        for slot in self.present() {
            self.snapshot_write_to(slot, at, bytes.clone());
        }
        // A device that has just come does not even have the text of the code.
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
        // Small snapshots are also written in several pieces, so that small volumes test what large
        // ones do.
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

    /// Writes the superblock to the place in front whose turn it is, or at the end to the copy.
    /// Never both at once: of three places at most one is being written, so a crash and a bad block
    /// together leave one.
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
            // The snapshot calls a lost device present, so no superblock may refer to it.
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
