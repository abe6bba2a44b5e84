//! The entry of a record that patches a stripe: the blocks that are written in place, and the
//! resulting headers of their chunks. The content of the blocks is in the log.
//!
//! A patch without chunks ends an earlier patch: all of its blocks are in the stripe, and the log
//! no longer holds the home blocks of the stripe.

use super::entry::{ENTRY_HEAD_BYTES, KIND_PATCH, begin};
use super::{LogicalStripe, Shape, Slot, must_be_zero};
use crate::layout::layout;
use crate::{Crc64, FormatError, Generation, Part};

pub(super) const PATCH_BYTES: usize = 24;
const CHUNK_BYTES: usize = 16;
const BLOCK_BYTES: usize = 16;

layout! {
    /// A patch of a stripe, behind the head. The chunks follow.
    PATCH_LAYOUT {
        P_LOGICAL: "logical stripe" @ 8 + 8, "the stripe that is patched";
        P_GENERATION: "generation" @ 16 + 8, "that it has, and keeps; 0 in one without chunks";
    }
}

layout! {
    /// One chunk of a patch. Its blocks follow.
    PATCH_CHUNK_LAYOUT {
        H_SLOT: "slot" @ 0 + 4, "the device";
        H_BLOCKS: "blocks" @ 4 + 4, "how many of the chunk's blocks are written, at least 1";
        H_DIGEST: "digest" @ 8 + 8, "of the chunk's header from then on";
    }
}

layout! {
    /// One block of a chunk of a patch.
    PATCH_BLOCK_LAYOUT {
        B_PLACE: "place" @ 0 + 4, "which of the chunk's blocks, from 0";
        B_RESERVED: "reserved" @ 4 + 4, "zero";
        B_CHECKSUM: "checksum" @ 8 + 8, "of the block from then on";
    }
}

/// A patch of a stripe: some of its blocks are written in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StripePatch {
    /// The stripe.
    pub logical: LogicalStripe,
    /// Generation of the stripe, which stays the same; 0 if there are no chunks.
    pub generation: Generation,
    /// The chunks that are to be written, in ascending order of slots; empty if the patch has
    /// ended.
    pub chunks: Vec<ChunkPatch>,
}

/// A chunk of which some blocks are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkPatch {
    /// The device.
    pub slot: Slot,
    /// Digest of the chunk's header after the patch.
    pub digest: Crc64,
    /// Blocks of the chunk, ascending, at least one, with their checksums after the patch.
    pub blocks: Vec<(u32, Crc64)>,
}

impl StripePatch {
    /// Returns the length of the encoded patch.
    pub fn len_bytes(&self) -> usize {
        let chunk = |chunk: &ChunkPatch| CHUNK_BYTES + BLOCK_BYTES * chunk.blocks.len();
        PATCH_BYTES + self.chunks.iter().map(chunk).sum::<usize>()
    }

    /// Returns the longest encoding of a patch of so many blocks in so many chunks.
    pub fn len_of(chunks: usize, blocks: usize) -> usize {
        PATCH_BYTES + CHUNK_BYTES * chunks + BLOCK_BYTES * blocks
    }

    pub(super) fn check(&self, part: Part, shape: &Shape) -> Result<(), FormatError> {
        let rule = |holds: bool, field, rule| {
            if holds { Ok(()) } else { Err(FormatError::Invalid { part, field, rule }) }
        };
        let fits = self.logical.0 < shape.logical_stripes;
        rule(fits, "logical stripe", "must be one of the volume's")?;
        let is_over = self.chunks.is_empty();
        rule(!is_over || self.generation.0 == 0, "generation", "must be 0 without chunks")?;
        let fits = self.len_bytes() <= super::entry::ENTRY_BYTES_MOST;
        rule(fits, "length", "must be 8192 bytes or less")?;
        let ascending = self.chunks.windows(2).all(|pair| pair[0].slot < pair[1].slot);
        rule(ascending, "slot", "must be above the one before")?;
        let known = self.chunks.iter().all(|chunk| chunk.slot.0 < shape.devices);
        rule(known, "slot", "must be below the number of devices")?;
        let has_some = self.chunks.iter().all(|chunk| !chunk.blocks.is_empty());
        rule(has_some, "blocks", "must be 1 or more")?;
        let ascend = |chunk: &ChunkPatch| chunk.blocks.windows(2).all(|pair| pair[0].0 < pair[1].0);
        rule(self.chunks.iter().all(ascend), "place", "must be above the one before")
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let head = begin(out, KIND_PATCH, self.chunks.len(), PATCH_BYTES, self.len_bytes());
        P_LOGICAL.put_u64(head, self.logical.0);
        P_GENERATION.put_u64(head, self.generation.0);
        for chunk in &self.chunks {
            let mut bytes = [0; CHUNK_BYTES];
            H_SLOT.put_u32(&mut bytes, chunk.slot.0);
            H_BLOCKS.put_u32(&mut bytes, chunk.blocks.len() as u32);
            H_DIGEST.put_u64(&mut bytes, chunk.digest.0);
            out.extend_from_slice(&bytes);
            for &(place, checksum) in &chunk.blocks {
                let mut bytes = [0; BLOCK_BYTES];
                B_PLACE.put_u32(&mut bytes, place);
                B_CHECKSUM.put_u64(&mut bytes, checksum.0);
                out.extend_from_slice(&bytes);
            }
        }
    }

    pub(super) fn decode(
        part: Part,
        head: &[u8],
        count: usize,
        mut rest: &[u8],
    ) -> Result<StripePatch, FormatError> {
        debug_assert!(head.len() >= ENTRY_HEAD_BYTES);
        let short = FormatError::Invalid { part, field: "length", rule: "must fit the kind" };
        let mut chunks = Vec::new();
        for _ in 0..count {
            let (bytes, behind) = rest.split_at_checked(CHUNK_BYTES).ok_or_else(|| short.clone())?;
            let len = (H_BLOCKS.u32(bytes) as usize).saturating_mul(BLOCK_BYTES);
            let (blocks, behind) = behind.split_at_checked(len).ok_or_else(|| short.clone())?;
            rest = behind;
            let block = |bytes: &[u8]| {
                must_be_zero(part, &B_RESERVED.get::<4>(bytes))?;
                Ok((B_PLACE.u32(bytes), Crc64(B_CHECKSUM.u64(bytes))))
            };
            let blocks = blocks.chunks_exact(BLOCK_BYTES).map(block).collect::<Result<_, FormatError>>()?;
            let (slot, digest) = (Slot(H_SLOT.u32(bytes)), Crc64(H_DIGEST.u64(bytes)));
            chunks.push(ChunkPatch { slot, digest, blocks });
        }
        if !rest.is_empty() {
            return Err(short);
        }
        Ok(StripePatch {
            logical: LogicalStripe(P_LOGICAL.u64(head)),
            generation: Generation(P_GENERATION.u64(head)),
            chunks,
        })
    }
}
