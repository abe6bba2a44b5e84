//! Writes to the ring of the journal, and headers of chunks that records name.
//!
//! Invariant: the records that the newest durable snapshot does not contain, from the oldest of
//! them up to the head of the ring, are never overwritten.

use crate::engine::Engine;
use crate::fetch::ChunkSums;
use crate::maps::{Change, Mapping};
use crate::stored::entry;
use crate::{BLOCK_BYTES, DeviceBlock, Slot};
use pantile_format::volume::{BlockRun, ChunkHeader, LogicalStripe, PhysicalStripe, Record, Zones};
use pantile_format::{Column, Crc64, Generation};

impl Engine {
    /// Encodes the next record and moves the head behind it. Returns one run of blocks, or two if
    /// the record wraps around the end of the ring.
    ///
    /// One commit runs at a time, so the record before it is durable.
    pub(crate) fn write_record(&mut self, changes: &[Change]) -> Vec<(DeviceBlock, Vec<u8>)> {
        let record = Record {
            volume: self.geometry.volume,
            session: self.snapshots.superblock().session,
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

    /// Returns true if a snapshot must precede the next record: less than half of the ring is
    /// certain to be free.
    pub(crate) fn journal_is_low(&self) -> bool {
        self.records.is_low(self.geometry.journal_blocks())
    }

    /// Returns true if this many more blocks of the ring are certain to be free.
    pub(crate) fn journal_has_blocks(&self, blocks: u32) -> bool {
        self.records.has_free(blocks, self.geometry.journal_blocks())
    }

    /// Returns the header of a chunk, and its digest.
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

    /// Returns the checksums in a header, if the header is the one that the map expects. While the
    /// last record is verified it must also have the digest in that record.
    pub(crate) fn chunk_sums(
        &self,
        bytes: &[u8],
        logical: u32,
        mapping: Mapping,
        slot: Slot,
    ) -> Option<ChunkSums> {
        let header = ChunkHeader::decode(bytes, self.geometry.volume).ok()?;
        let digest = self.service.opening().digest(mapping.physical, slot);
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

    pub(crate) fn present(&self) -> Vec<Slot> {
        let slots = (0..self.geometry.slots() as u32).map(Slot);
        slots.filter(|&slot| self.maps.is_present(slot)).collect()
    }
}

/// Returns the text of a code as whole blocks.
pub(crate) fn definition_bytes(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES as usize), 0);
    bytes
}

/// Splits a record that begins at a block of the ring into runs, at the end of the ring.
pub(crate) fn record_runs(zones: &Zones, at: u32, bytes: &[u8]) -> Vec<(DeviceBlock, Vec<u8>)> {
    let (front, rest) = zones.record(at, (bytes.len() as u64 / BLOCK_BYTES) as u32);
    let (head, tail) = bytes.split_at((front.blocks * BLOCK_BYTES) as usize);
    let run = |run: BlockRun, bytes: &[u8]| (run.first, bytes.to_vec());
    std::iter::once(run(front, head)).chain(rest.map(|rest| run(rest, tail))).collect()
}
