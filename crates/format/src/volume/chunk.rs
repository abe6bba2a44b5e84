//! The header of a chunk: the identity of the chunk, and a checksum for each of its blocks.
//!
//! The header is stored before the elements and written with them in one I/O, so that a full-stripe
//! write needs no second I/O and no shared block. It identifies the chunk, so that a volume whose
//! maps are lost can be read by a scan. The reader checks that it has the wanted chunk: by the
//! generation, which comes from the stripe table, and for the newest writes by the digest, which
//! comes from the journal.

use super::{
    BLOCK_BYTES, CHUNK_BLOCKS_MAX, LogicalStripe, PhysicalStripe, Slot, VOLUME_VERSION, VolumeId,
    check_start, must_be_volume, must_be_zero, seal, unseal,
};
use crate::layout::layout;
use crate::{Column, Crc64, FormatError, Generation, Part};

const MAGIC_BYTES: &[u8; 8] = b"PANTCHNK";
const FIXED_BYTES: usize = 64;

layout! {
    /// The header of a chunk. The checksums of its blocks follow, then zeros, then a CRC at the end
    /// of the last block.
    CHUNK_LAYOUT {
        MAGIC: "magic" @ 0 + 8, "`PANTCHNK`";
        VERSION: "version" @ 8 + 4, "format version, 3";
        SLOT: "slot" @ 12 + 4, "the device's place in the volume, from 0";
        VOLUME: "volume" @ 16 + 16, "the volume's UUID";
        PHYSICAL: "physical stripe" @ 32 + 8, "where it lies";
        LOGICAL: "logical stripe" @ 40 + 8, "whose content it holds";
        GENERATION: "generation" @ 48 + 8, "of the stripe write";
        COLUMN: "column" @ 56 + 4, "the column of the code that it holds";
        BLOCKS: "blocks" @ 60 + 4, "blocks of the chunk without the header: 1 to 65536, each with 8 bytes of checksum";
    }
}

/// In place of the checksum of a block that is not stored yet, because its chunk is rebuilt in
/// part.
pub const NOT_STORED: Crc64 = Crc64(u64::MAX);

/// Identity of a chunk, stored before its elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// The volume.
    pub volume: VolumeId,
    /// The device that it was written to.
    pub slot: Slot,
    /// The physical stripe in which it is stored.
    pub physical: PhysicalStripe,
    /// Logical stripe whose content it holds.
    pub logical: LogicalStripe,
    /// Generation of the stripe write.
    pub generation: Generation,
    /// The column of the code that it holds.
    pub column: Column,
    /// Checksums of the blocks, row by row; see [`block_checksum`](super::block_checksum).
    /// [`NOT_STORED`] for blocks that are not rebuilt yet.
    pub checksums: Vec<Crc64>,
}

impl ChunkHeader {
    /// Returns the length in blocks of the header of a chunk of so many blocks.
    pub const fn blocks(chunk_blocks: u64) -> u64 {
        (FIXED_BYTES as u64 + 8 * chunk_blocks + 8).div_ceil(BLOCK_BYTES as u64)
    }

    /// Returns true if all of its blocks are stored.
    pub fn is_whole(&self) -> bool {
        !self.checksums.contains(&NOT_STORED)
    }

    /// Returns the encoded header, whole blocks.
    ///
    /// Panics unless it has 1 to [`CHUNK_BLOCKS_MAX`] checksums.
    pub fn encode(&self) -> Vec<u8> {
        let count = self.checksums.len() as u64;
        assert!((1..=CHUNK_BLOCKS_MAX).contains(&count), "a chunk of {count} blocks");
        let mut bytes = vec![0; ChunkHeader::blocks(count) as usize * BLOCK_BYTES];
        MAGIC.put(&mut bytes, MAGIC_BYTES);
        VERSION.put_u32(&mut bytes, VOLUME_VERSION);
        SLOT.put_u32(&mut bytes, self.slot.0);
        VOLUME.put(&mut bytes, &self.volume.0);
        PHYSICAL.put_u64(&mut bytes, self.physical.0);
        LOGICAL.put_u64(&mut bytes, self.logical.0);
        GENERATION.put_u64(&mut bytes, self.generation.0);
        COLUMN.put_u32(&mut bytes, self.column.0);
        BLOCKS.put_u32(&mut bytes, count as u32);
        for (place, crc) in bytes[FIXED_BYTES..].chunks_exact_mut(8).zip(&self.checksums) {
            place.copy_from_slice(&crc.0.to_le_bytes());
        }
        seal(&mut bytes);
        bytes
    }

    /// Decodes a header at the front of `bytes`, which may be longer.
    ///
    /// The header belongs to the volume. The caller has to check that it is the wanted one, by
    /// slot, physical and logical stripe, generation, column, and the number of checksums.
    ///
    /// Errors: no magic, a newer version, cut off, a checksum that does not fit, another volume, or
    /// no blocks.
    pub fn decode(bytes: &[u8], volume: VolumeId) -> Result<ChunkHeader, FormatError> {
        let part = Part::ChunkHeader;
        check_start(part, MAGIC_BYTES, bytes, BLOCK_BYTES as u64)?;
        let count = u64::from(BLOCKS.u32(bytes));
        if !(1..=CHUNK_BLOCKS_MAX).contains(&count) {
            return Err(FormatError::Invalid { part, field: "blocks", rule: "must be 1 to 65536" });
        }
        let need = ChunkHeader::blocks(count) * BLOCK_BYTES as u64;
        check_start(part, MAGIC_BYTES, bytes, need)?;
        let bytes = &bytes[..need as usize];
        unseal(part, bytes)?;
        must_be_volume(part, VOLUME.get(bytes), volume)?;
        let (table, rest) = bytes[FIXED_BYTES..bytes.len() - 8].split_at(8 * count as usize);
        must_be_zero(part, rest)?;
        let crc = |bytes: &[u8]| Crc64(u64::from_le_bytes(bytes.try_into().expect("chunks of 8")));
        Ok(ChunkHeader {
            volume,
            slot: Slot(SLOT.u32(bytes)),
            physical: PhysicalStripe(PHYSICAL.u64(bytes)),
            logical: LogicalStripe(LOGICAL.u64(bytes)),
            generation: Generation(GENERATION.u64(bytes)),
            column: Column(COLUMN.u32(bytes)),
            checksums: table.chunks_exact(8).map(crc).collect(),
        })
    }

    /// Returns the first `count` checksums of a header that may be torn between its sectors; `None`
    /// if the bytes are too few. Only a digest can verify them.
    pub fn checksums_of_torn(bytes: &[u8], count: usize) -> Option<Vec<Crc64>> {
        let table = bytes.get(FIXED_BYTES..FIXED_BYTES + 8 * count)?;
        let crc = |bytes: &[u8; 8]| Crc64(u64::from_le_bytes(*bytes));
        Some(table.as_chunks::<8>().0.iter().map(crc).collect())
    }

    /// Returns the header's CRC, which the record of its write stores. Cost: an encoding; see
    /// [`ChunkHeader::digest_of`].
    pub fn digest(&self) -> Crc64 {
        ChunkHeader::digest_of(&self.encode())
    }

    /// Returns the digest of an encoded header.
    ///
    /// Panics on fewer than 8 bytes.
    pub fn digest_of(encoded: &[u8]) -> Crc64 {
        let end = encoded.last_chunk().expect("a header is a block or more");
        Crc64(u64::from_le_bytes(*end))
    }
}
