//! The journal ring, and the snapshots that let it be overwritten.
//!
//! Invariant: the blocks from the oldest record that the newest durable snapshot does not contain up to the head are never
//! overwritten. A record lies in consecutive blocks; one that does not fit before the end of the ring begins at its start.

use crate::engine::{Engine, IoOwner};
use crate::fetch::ChunkSums;
use crate::maps::{Change, Mapping};
use crate::store::{ChunkHeader, Record, SessionBlock, encode_snapshot};
use crate::{Action, BLOCK_BYTES, DeviceBlock, Piece, Slot, Urgency};

/// A snapshot under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    phase: SnapshotPhase,
    outstanding: usize,
    session_block: SessionBlock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SnapshotPhase {
    Write,
    Flush,
    WriteSession,
    FlushSession,
}

impl Engine {
    pub(crate) fn encode_record(&self, changes: &[Change]) -> Vec<u8> {
        let record = Record { session: self.session, number: self.record, changes: changes.to_vec() };
        record.encode(&self.geometry.volume)
    }

    /// Where a record of so many bytes goes.
    pub(crate) fn journal_place(&self, bytes: usize) -> DeviceBlock {
        let blocks = (bytes as u64 / BLOCK_BYTES) as u32;
        let head =
            if self.journal_head + blocks > self.geometry.journal_blocks { 0 } else { self.journal_head };
        DeviceBlock(self.geometry.journal_start.0 + u64::from(head))
    }

    /// Moves the head behind a record that goes to [`Engine::journal_place`].
    pub(crate) fn advance_journal(&mut self, bytes: usize) {
        let blocks = (bytes as u64 / BLOCK_BYTES) as u32;
        if self.journal_head + blocks > self.geometry.journal_blocks {
            self.journal_used += self.geometry.journal_blocks - self.journal_head;
            self.journal_head = 0;
        }
        self.journal_head += blocks;
        self.journal_used += blocks;
    }

    /// Whether a snapshot must come before the next record: less than half of the ring is certain to be free.
    pub(crate) fn journal_is_low(&self) -> bool {
        2 * self.journal_used > self.geometry.journal_blocks
    }

    /// The header of a chunk, and its digest.
    pub(crate) fn chunk_header(
        &self,
        logical: u32,
        physical: u32,
        generation: u64,
        slot: Slot,
        sums: &[u64],
    ) -> (Vec<u8>, u64) {
        let column = self.geometry.column(physical, slot) as u32;
        ChunkHeader { physical, logical, column, slot, generation, sums: sums.to_vec() }
            .encode(&self.geometry.volume)
    }

    /// The checksums in a header, if it is the one that the map asks for.
    pub(crate) fn chunk_sums(
        &self,
        bytes: &[u8],
        logical: u32,
        mapping: Mapping,
        slot: Slot,
    ) -> Option<ChunkSums> {
        let header = ChunkHeader::decode(bytes, &self.geometry.volume)?;
        let column = self.geometry.column(mapping.physical, slot);
        let blocks = self.geometry.code.rows(column) * self.geometry.element_blocks as usize;
        let fits = header.physical == mapping.physical
            && header.logical == logical
            && header.column as usize == column
            && header.slot == slot
            && header.generation == mapping.generation
            && header.sums.len() == blocks;
        fits.then_some(ChunkSums { generation: header.generation, sums: header.sums })
    }

    /// Begins to write the maps as they are. No commit is under way.
    pub(crate) fn begin_snapshot(&mut self) {
        let area = match self.session_block.snapshot {
            Some((0, _, _)) => 1,
            _ => 0,
        };
        let (bytes, digest) = encode_snapshot(&self.maps, self.record - 1, &self.geometry.volume);
        let blocks = (bytes.len() as u64 / BLOCK_BYTES) as u32;
        assert!(blocks <= self.geometry.snapshot_blocks, "a snapshot is larger than its area");
        let session_block = SessionBlock {
            update: self.session_block.update + 1,
            snapshot: Some((area, blocks, digest)),
            ..self.session_block
        };
        let at = self.geometry.snapshot_start[usize::from(area)];
        self.snapshot = Some(Snapshot { phase: SnapshotPhase::Write, outstanding: 1, session_block });
        self.snapshot_write(at, &bytes);
    }

    fn snapshot_write(&mut self, at: DeviceBlock, bytes: &[u8]) {
        for slot in self.present() {
            let io = self.new_io(slot, IoOwner::Snapshot);
            self.snapshot_waits();
            let pieces = vec![Piece::Bytes(bytes.to_vec())];
            self.act(Action::Write { io, slot, at, pieces, urgency: Urgency::User });
        }
        self.snapshot_part_done();
    }

    fn snapshot_flush(&mut self) {
        for slot in self.present() {
            let io = self.new_io(slot, IoOwner::Snapshot);
            self.snapshot_waits();
            self.act(Action::Flush { io, slot });
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
        let block = snapshot.session_block;
        match snapshot.phase {
            SnapshotPhase::Write => {
                snapshot.phase = SnapshotPhase::Flush;
                self.snapshot_flush();
            }
            SnapshotPhase::Flush => {
                snapshot.phase = SnapshotPhase::WriteSession;
                let bytes = block.encode(&self.geometry.volume);
                self.snapshot_write(DeviceBlock(block.update % 2), &bytes);
            }
            SnapshotPhase::WriteSession => {
                snapshot.phase = SnapshotPhase::FlushSession;
                self.snapshot_flush();
            }
            SnapshotPhase::FlushSession => {
                self.snapshot = None;
                self.session_block = block;
                self.journal_used = 0;
            }
        }
    }

    pub(crate) fn present(&self) -> Vec<Slot> {
        let slots = (0..self.geometry.slots() as u32).map(Slot);
        slots.filter(|slot| self.maps.members[slot.0 as usize].present).collect()
    }
}
