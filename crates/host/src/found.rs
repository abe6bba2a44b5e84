//! Stretches of a direct read: their destinations, and how the answer is computed from them.
//!
//! A stretch is read directly into the answer if its blocks are adjacent there, too, and the
//! request gave its buffer away. All others are read to a side buffer, from which blocks are copied
//! or computed.

use crate::memory::BLOCK;
use crate::work::{Matrices, checksum};
use pantile_format::volume::VolumeId;
use pantile_volume::{Lookup, Mixture, Seed, Source, Stretch};

/// Destination of a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spot {
    /// Byte offset in the answer.
    Answer(usize),
    /// Byte offset in the side buffer.
    Side(usize),
}

/// The locations of a request's blocks, and the requested range within them.
pub(crate) struct Found {
    volume: VolumeId,
    pub(crate) lookup: Lookup,
    /// Number of bytes of the first block before the requested range.
    skipped: usize,
    /// Length of the requested range in bytes.
    len: usize,
}

impl Found {
    /// Describes a request for `len` bytes, from byte `skipped` of the first block on.
    pub(crate) fn new(volume: VolumeId, lookup: Lookup, skipped: usize, len: usize) -> Found {
        Found { volume, lookup, skipped, len }
    }

    /// True if the answer can be computed here. Blocks are computed in place, so a request for
    /// parts of blocks must not need computed ones.
    pub(crate) fn is_makeable(&self) -> bool {
        self.is_whole() || self.lookup.mixtures.is_empty()
    }

    fn is_whole(&self) -> bool {
        self.skipped == 0 && self.len.is_multiple_of(BLOCK)
    }

    /// Returns the number of bytes that are read.
    pub(crate) fn bytes(&self) -> usize {
        self.lookup.stretches.iter().map(Stretch::len_bytes).sum()
    }

    /// Returns an offset in the side buffer for each stretch.
    pub(crate) fn beside(&self) -> Vec<Spot> {
        self.spots(vec![None; self.lookup.stretches.len()])
    }

    /// Returns the offset in the answer for each stretch, or one in the side buffer if it has none.
    pub(crate) fn in_place(&self) -> Vec<Spot> {
        let mut places = vec![None; self.lookup.stretches.len()];
        let mut at = 0;
        for &(source, blocks) in self.lookup.parts.iter().filter(|_| self.is_whole()) {
            if let Source::Read(stretch, 0) = source
                && self.lookup.stretches[stretch].blocks() == blocks
            {
                places[stretch] = Some(at);
            }
            at += blocks as usize * BLOCK;
        }
        self.spots(places)
    }

    fn spots(&self, places: Vec<Option<usize>>) -> Vec<Spot> {
        let mut side = 0;
        let spot = |(stretch, place): (&Stretch, Option<usize>)| match place {
            Some(at) => Spot::Answer(at),
            None => {
                side += stretch.len_bytes();
                Spot::Side(side - stretch.len_bytes())
            }
        };
        self.lookup.stretches.iter().zip(places).map(spot).collect()
    }

    /// True if a stretch matches its checksums.
    pub(crate) fn is_right(&self, stretch: usize, bytes: &[u8]) -> bool {
        self.has_checksums(self.lookup.stretches[stretch].checks(), bytes)
    }

    /// Completes the answer from stretches that have been read. Returns true if computed blocks
    /// match their checksums, as far as these are known.
    pub(crate) fn finish(&self, answer: &mut [u8], side: &[u8], spots: &[Spot], matrices: &Matrices) -> bool {
        let behind = self.skipped + answer.len();
        let mut rest = answer;
        let mut in_place: Vec<&[u8]> = vec![&[]; spots.len()];
        let mut to_make = Vec::new();
        let mut at = 0;
        for &(source, blocks) in &self.lookup.parts {
            let next = at + blocks as usize * BLOCK;
            let (start, end) = (at.max(self.skipped), next.min(behind));
            let (part, others) = rest.split_at_mut(end - start);
            rest = others;
            match source {
                Source::Read(stretch, first) => match spots[stretch] {
                    Spot::Answer(_) => in_place[stretch] = part,
                    Spot::Side(from) => {
                        let from = from + first as usize * BLOCK + (start - at);
                        part.copy_from_slice(&side[from..][..part.len()]);
                    }
                },
                Source::Made(mixture, first) => to_make.push((&self.lookup.mixtures[mixture], first, part)),
            }
            at = next;
        }
        let bytes_of = |stretch: usize, first: u32| match spots[stretch] {
            Spot::Answer(_) => &in_place[stretch][first as usize * BLOCK..],
            Spot::Side(from) => &side[from + first as usize * BLOCK..],
        };
        to_make.into_iter().all(|(mixture, first, part)| self.make(mixture, first, part, bytes_of, matrices))
    }

    /// Computes some blocks of a mixture, from block `first` on.
    fn make<'b>(
        &self,
        mixture: &Mixture,
        first: u32,
        into: &mut [u8],
        bytes_of: impl Fn(usize, u32) -> &'b [u8],
        matrices: &Matrices,
    ) -> bool {
        let source = |&(stretch, from, _): &(usize, u32, _)| &bytes_of(stretch, from + first)[..into.len()];
        let sources: Vec<&[u8]> = mixture.terms.iter().map(source).collect();
        if sources.is_empty() {
            into.fill(0);
        } else {
            let factors = mixture.terms.iter().map(|(_, _, factor)| factor.0).collect();
            let applied = matrices.get(vec![factors]).apply(&sources, &mut [&mut *into]);
            applied.expect("blocks have one length");
        }
        let checks = mixture.instead_of.iter().flat_map(Stretch::checks).skip(first as usize);
        self.has_checksums(checks, into)
    }

    /// True if blocks match their checksums, as far as these are known.
    fn has_checksums(&self, checks: impl Iterator<Item = (Seed, u64)>, bytes: &[u8]) -> bool {
        let is_it = |((seed, sum), block)| checksum(self.volume, seed, block) == sum;
        checks.zip(bytes.chunks_exact(BLOCK)).all(is_it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantile_volume::{DeviceBlock, Slot};

    /// Returns a stretch of this many blocks, with dummy checksums.
    fn stretch(blocks: usize) -> Stretch {
        Stretch { slot: Slot(0), at: DeviceBlock(0), generation: 0, checksums: vec![0; blocks] }
    }

    #[test]
    fn adjacent_blocks_are_read_to_their_place() {
        let lookup = Lookup {
            stretches: vec![stretch(2), stretch(3), stretch(1), stretch(4)],
            mixtures: Vec::new(),
            // Of the second stretch the middle block is not wanted, of the last one the first
            // block.
            parts: [(0, 0, 2), (1, 0, 1), (2, 0, 1), (1, 2, 1), (3, 1, 3)]
                .map(|(stretch, first, blocks)| (Source::Read(stretch, first), blocks))
                .to_vec(),
        };
        let found = |skipped, len| Found::new(VolumeId([0; 16]), lookup.clone(), skipped, len);
        let blocks = |spots: Vec<Spot>| -> Vec<(bool, usize)> {
            let block = |spot| match spot {
                Spot::Answer(at) => (true, at / BLOCK),
                Spot::Side(at) => (false, at / BLOCK),
            };
            spots.into_iter().map(block).collect()
        };
        let beside = vec![(false, 0), (false, 2), (false, 5), (false, 6)];
        let whole = found(0, 8 * BLOCK);
        assert_eq!(blocks(whole.in_place()), [(true, 0), (false, 0), (true, 3), (false, 3)]);
        assert_eq!(blocks(whole.beside()), beside);
        for other in [found(1, 8 * BLOCK - 1), found(0, 8 * BLOCK - 1)] {
            assert_eq!(blocks(other.in_place()), beside, "a part of a block is copied");
        }
    }
}
