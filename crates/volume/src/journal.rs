//! The journal ring, and the snapshots that let it be overwritten.
//!
//! Invariant: the blocks from the oldest record that the newest durable snapshot does not contain
//! up to the head are never overwritten.

use crate::engine::{Engine, IoOwner};
use crate::fetch::ChunkSums;
use crate::maps::{Change, Mapping};
use crate::open::lineage::open_up;
use crate::stored::{SnapshotWriter, entry, superblock_of};
use crate::{Action, BLOCK_BYTES, DeviceBlock, Piece, Slot, Urgency};
use pantile_format::volume::{
    BlockRun, ChunkHeader, LogicalStripe, PhysicalStripe, Record, SnapshotHead, SnapshotRef, SnapshotSum,
    State, StateRef, Superblock, Zones,
};
use pantile_format::{Column, Crc64, Generation};

/// Blocks of a snapshot that are under way at a time, on all devices together: 16 MiB.
const SNAPSHOT_BLOCKS: usize = 4096;

/// The longest write of a snapshot: 1 MiB.
const SNAPSHOT_WRITE_BLOCKS: usize = 256;

/// A snapshot under way. Nothing is committed meanwhile, so that it is made from the maps as it is
/// written.
#[derive(Debug)]
pub(crate) struct Snapshot {
    phase: SnapshotPhase,
    outstanding: usize,
    writer: SnapshotWriter,
    /// Blocks that are written or being written.
    blocks: u32,
    /// The next generation that it says.
    generation: u64,
    /// That of now, until the snapshot is written.
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
    /// Not flushed, unless all three are to be written: whatever flushes next does, and the
    /// superblock in its turn is durable.
    WriteCopy,
    FlushCopy,
}

impl Engine {
    /// The next record: what is to be written where, one run or two around the end of the ring.
    /// Moves the head behind it.
    ///
    /// One commit runs at a time, so the record before is durable.
    pub(crate) fn write_record(&mut self, changes: &[Change]) -> Vec<(DeviceBlock, Vec<u8>)> {
        let record = Record {
            volume: self.geometry.volume,
            session: self.superblock.session,
            number: self.records.next(),
            flushed_through: self.records.last(),
            entries: changes.iter().map(|change| entry(change, &self.geometry)).collect(),
        };
        let bytes = record.encode(self.geometry.shape());
        let blocks = (bytes.len() as u64 / BLOCK_BYTES) as u32;
        let zones = self.geometry.common();
        let head = self.records.head();
        let after = zones.record_after(head, blocks);
        let runs = record_runs(zones, head, &bytes);
        self.records.write(blocks, after);
        runs
    }

    /// Whether a snapshot must come before the next record: less than half of the ring is certain
    /// to be free.
    pub(crate) fn journal_is_low(&self) -> bool {
        self.records.is_low(self.geometry.journal_blocks())
    }

    /// Whether so many more blocks of the ring are certain to be free.
    pub(crate) fn journal_has_blocks(&self, blocks: u32) -> bool {
        self.records.has_free(blocks, self.geometry.journal_blocks())
    }

    /// The header of a chunk, and its digest.
    pub(crate) fn chunk_header(
        &self,
        logical: u32,
        physical: u32,
        generation: u64,
        slot: Slot,
        sums: &[u64],
    ) -> (Vec<u8>, Crc64) {
        let header = self.geometry.chunk_header(slot, (physical, logical), generation, sums.iter().copied());
        let bytes = header.encode();
        let digest = ChunkHeader::digest_of(&bytes);
        (bytes, digest)
    }

    /// The checksums in a header, if it is the one that the map asks for, and while the last record
    /// is verified the one that it says.
    pub(crate) fn chunk_sums(
        &self,
        bytes: &[u8],
        logical: u32,
        mapping: Mapping,
        slot: Slot,
    ) -> Option<ChunkSums> {
        let header = ChunkHeader::decode(bytes, self.geometry.volume).ok()?;
        let digest = self.verification.digest(mapping.physical, slot);
        if digest.is_some_and(|digest| *digest != ChunkHeader::digest_of(bytes)) {
            return None;
        }
        let fits = header.physical == PhysicalStripe(mapping.physical.into())
            && header.logical == LogicalStripe(logical.into())
            && header.column == Column(self.geometry.column(mapping.physical, slot) as u32)
            && header.slot == slot
            && header.generation == Generation(mapping.generation)
            && header.checksums.len() as u64 == self.geometry.zones(slot).shape().chunk_blocks();
        let sums = || header.checksums.iter().map(|sum| sum.0).collect();
        fits.then(|| ChunkSums { generation: mapping.generation, sums: sums() })
    }

    /// Begins to write the maps as they are. No commit is under way.
    pub(crate) fn begin_snapshot(&mut self) {
        self.snapshot_wanted = false;
        let (at, bytes, state) = self.state_of_now();
        let head = SnapshotHead {
            volume: self.geometry.volume,
            session: self.superblock.session,
            record: self.records.last(),
            next_generation: Generation(self.maps.generation),
        };
        self.snapshot = Some(Snapshot {
            phase: SnapshotPhase::Write,
            outstanding: 1,
            writer: SnapshotWriter::new(&self.maps, head, &self.geometry),
            blocks: 0,
            generation: self.maps.generation,
            superblock: self.superblock.clone(),
            on: self.present(),
            // A device that has just come may have torn ones, and what it does not have is zeros: a
            // scrub would take them for bad.
            everywhere: std::mem::take(&mut self.snapshot_everywhere) || !self.blank.is_empty(),
            state,
        });
        for slot in self.present() {
            self.snapshot_write_to(slot, at, bytes.clone());
        }
        // A device that has just come has not even the code.
        let text = self.geometry.code.definition().map(definition_bytes);
        for slot in std::mem::take(&mut self.blank) {
            if let Some(text) = text.clone().filter(|_| self.maps.is_present(slot)) {
                let at = self.geometry.zones(slot).definition().first;
                self.snapshot_write_to(slot, at, text);
            }
        }
        self.snapshot_write_on();
        self.snapshot_part_done();
    }

    /// The state for the next snapshot: where it goes, its bytes, and what the superblock will say
    /// of it.
    fn state_of_now(&mut self) -> (DeviceBlock, Vec<u8>, StateRef) {
        let notes = self.notes_for_snapshot();
        let (volume, session) = (self.geometry.volume, self.superblock.session);
        let state = State { volume, session, record: self.records.last(), notes };
        let (bytes, crc) = state.encode(self.geometry.shape());
        let blocks = (bytes.len() as u64 / BLOCK_BYTES) as u32;
        let place = self.geometry.common().state(self.snapshot_area());
        (place.first, bytes, StateRef { blocks, crc })
    }

    /// The area that holds the older snapshot.
    fn snapshot_area(&self) -> u8 {
        match &self.superblock.snapshot {
            Some(SnapshotRef { area: 0, .. }) => 1,
            _ => 0,
        }
    }

    /// Writes the next blocks of the snapshot; `false`: all are written.
    fn snapshot_write_on(&mut self) -> bool {
        let area = self.geometry.common().snapshot(self.snapshot_area());
        let most = (SNAPSHOT_BLOCKS / self.geometry.slots()).clamp(1, SNAPSHOT_WRITE_BLOCKS);
        // In several pieces also where it is short, so that small volumes go the way of large ones.
        let most = most.min((area.blocks as usize).div_ceil(4));
        let Some(snapshot) = &mut self.snapshot else { return false };
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

    /// The superblock that refers to the snapshot.
    fn superblock_with_snapshot(&self, SnapshotSum { blocks, crc }: SnapshotSum) -> Superblock {
        let (session, replay_at) = (self.superblock.session, self.records.head());
        let (area, record) = (self.snapshot_area(), self.records.last());
        Superblock {
            update: self.superblock.update + 1,
            snapshot: Some(SnapshotRef { area, record, blocks, crc, replay_at, session }),
            state: self.snapshot.as_ref().map(|snapshot| snapshot.state),
            ..self.superblock.clone()
        }
    }

    fn snapshot_write_to(&mut self, slot: Slot, at: DeviceBlock, bytes: Vec<u8>) {
        let io = self.io.new_io(slot, IoOwner::Snapshot);
        self.snapshot_waits();
        let pieces = vec![Piece::Bytes(bytes)];
        self.io.act(Action::Write { io, slot, at, pieces, urgency: Urgency::User });
    }

    /// The superblock in its turn, or its copy at the end. Never both at once: of three places one
    /// is being written at the most, so that a crash and a bad block together leave one.
    fn write_superblocks(&mut self, superblock: &Superblock, copies: bool) {
        let lost = self.maps.absent();
        for slot in self.present() {
            let bytes = superblock_of(slot, &lost, &self.geometry, superblock).encode();
            let zones = self.geometry.zones(slot);
            let turn = &mut self.turns[slot.0 as usize];
            let at = if copies { zones.superblock_copy() } else { zones.superblock(*turn) };
            *turn += u64::from(!copies);
            self.snapshot_write_to(slot, at, bytes);
        }
        self.snapshot_part_done();
    }

    fn snapshot_flush(&mut self) {
        for slot in self.present() {
            let io = self.io.new_io(slot, IoOwner::Snapshot);
            self.snapshot_waits();
            self.io.act(Action::Flush { io, slot });
        }
        self.snapshot_part_done();
    }

    fn snapshot_waits(&mut self) {
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.outstanding += 1;
        }
    }

    pub(crate) fn snapshot_part_done(&mut self) {
        let Some(snapshot) = &mut self.snapshot else { return };
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
            let sum = self.snapshot.as_ref().and_then(|snapshot| snapshot.writer.done());
            let superblock = self.superblock_with_snapshot(sum.expect("what is written has an end"));
            let Some(snapshot) = &mut self.snapshot else { return };
            snapshot.superblock = superblock;
        }
        let is_open = self.history_is_open;
        let Some(snapshot) = &mut self.snapshot else { return };
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
            // It calls a device present that does not have it: nothing may begin from it.
            SnapshotPhase::Flush if lost_one => {
                self.snapshot_everywhere |= snapshot.everywhere;
                self.snapshot = None;
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
                self.snapshot = None;
                self.superblock = superblock;
            }
        }
    }

    pub(crate) fn present(&self) -> Vec<Slot> {
        let slots = (0..self.geometry.slots() as u32).map(Slot);
        slots.filter(|&slot| self.maps.is_present(slot)).collect()
    }
}

/// A code's text as whole blocks.
pub(crate) fn definition_bytes(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES as usize), 0);
    bytes
}

/// Where the bytes of a record lie that begins at a block of the ring.
pub(crate) fn record_runs(zones: &Zones, at: u32, bytes: &[u8]) -> Vec<(DeviceBlock, Vec<u8>)> {
    let (front, rest) = zones.record(at, (bytes.len() as u64 / BLOCK_BYTES) as u32);
    let (head, tail) = bytes.split_at((front.blocks * BLOCK_BYTES) as usize);
    let run = |run: BlockRun, bytes: &[u8]| (run.first, bytes.to_vec());
    std::iter::once(run(front, head)).chain(rest.map(|rest| run(rest, tail))).collect()
}
