//! Folded shards: a few bytes for each row of a shard that satisfy the equations of its code.
//!
//! Equations hold at every byte offset of a stripe, so they hold for every sum of products of
//! offsets, with the same coefficients in each shard. A fold adds up all blocks of a shard, each
//! times a coefficient of its place. Shards on different machines are compared by their
//! folds, and a wrong shard has a wrong fold.
//!
//! Byte x of a block reaches byte x of the fold alone: wrong bytes of a fold are at most as many as
//! those of the shard, and evidence that is counted in them is never too large. Wrong bytes at one
//! place of several blocks cancel once in 255 times, and a single one never does.
//!
//! Words of 16 and 32 bits are folded by the bytes of their rows: word x of a block reaches byte x
//! of each row of the fold. A place counts once, whatever rows are wrong there.

use pantile::code::foreign::{Cut, Profile, Rows};
use pantile::words::Words;
use pantile_kernel::Dot;
use std::fmt;

/// Bytes of a block of codes of one row.
const BLOCK_BYTES: usize = 1024;
/// The least bytes of a row of a fold.
const LANES: usize = 64;
/// Blocks that are added at once.
const BATCH: usize = 32;
/// Cells of a stripe up to which exchanged columns can be distinguished from wrong ones. It takes
/// more bytes than there are cells, of which about each third is looked at.
const EXCHANGE_CELLS_MOST: usize = 400;
const EXCHANGE_BYTES_MORE: usize = 16;

/// Reasons why shards of a profile have no fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoldError {
    /// The chunk of a stripe is not the rows of the code.
    Chunk {
        /// Its bytes.
        chunk: usize,
        /// Rows.
        rows: usize,
    },
}

impl fmt::Display for FoldError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FoldError::Chunk { chunk, rows } => {
                write!(out, "chunks of {chunk} bytes are not {rows} equal rows")
            }
        }
    }
}

impl std::error::Error for FoldError {}

/// The way in which shards of a pool are folded.
pub struct Folding {
    rows: usize,
    /// Takes groups of words apart into rows.
    words: Option<Words>,
    /// Bytes of a row in a group of rows.
    block: usize,
    lanes: usize,
    /// One for each batch of groups, as far as shards have reached.
    batches: Vec<Dot>,
    ends: Dot,
}

impl Folding {
    /// Folds for a profile whose chunks have so many bytes in each stripe.
    ///
    /// Errors: the equations of the code do not hold byte by byte.
    pub fn new(profile: &Profile, chunk: usize) -> Result<Folding, FoldError> {
        let rows = profile.code.rows_max();
        let block = match profile.rows {
            Rows::Words => BLOCK_BYTES,
            Rows::Packets(packet) => packet,
            Rows::Pieces if rows == 1 => BLOCK_BYTES,
            Rows::Pieces if chunk > 0 && chunk.is_multiple_of(rows) => chunk / rows,
            Rows::Pieces => return Err(FoldError::Chunk { chunk, rows }),
        };
        let cells = profile.code.cell_count();
        let is_large = profile.code.claim().tolerance > 2 || cells > EXCHANGE_CELLS_MOST;
        let lanes = match is_large {
            true => LANES,
            false => (3 * (cells + EXCHANGE_BYTES_MORE)).next_multiple_of(LANES),
        };
        let ends = batch(usize::MAX, block.div_ceil(lanes));
        let words = (profile.rows == Rows::Words).then(|| Words::new(rows)).flatten();
        Ok(Folding { rows, words, block, lanes, batches: Vec::new(), ends })
    }

    /// The profile of the folds: the same code, whose chunk is one fold.
    pub fn profile(&self, profile: &Profile) -> Profile {
        let chunk = self.fold_len();
        let cut = Cut::Stripes { usual: chunk, multiple_of: chunk };
        Profile { rows: Rows::Pieces, cut, ..profile.clone() }
    }

    /// Bytes of a fold.
    pub fn fold_len(&self) -> usize {
        self.rows * self.lanes
    }

    /// Starts with an empty shard.
    pub fn start(&self) -> Fold {
        Fold { sums: vec![vec![0; self.block]; self.rows], pending: Vec::new(), done: 0, len: 0 }
    }
}

/// The fold of a shard that is being read.
pub struct Fold {
    sums: Vec<Vec<u8>>,
    pending: Vec<u8>,
    /// Batches that were added.
    done: usize,
    len: u64,
}

impl Fold {
    /// Adds the next bytes of the shard; `folding` is the one that it was started with.
    pub fn add(&mut self, folding: &mut Folding, mut bytes: &[u8]) {
        self.len += bytes.len() as u64;
        let whole = folding.rows * folding.block * BATCH;
        while self.pending.len() + bytes.len() >= whole {
            let (now, rest) = bytes.split_at(whole - self.pending.len());
            self.pending.extend_from_slice(now);
            bytes = rest;
            self.batch(folding);
        }
        self.pending.extend_from_slice(bytes);
    }

    /// Bytes of the shard until now.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if the shard has no bytes until now.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the fold, one row behind the other. Zeros at the end of a shard do not change it.
    pub fn end(mut self, folding: &mut Folding) -> Vec<u8> {
        if !self.pending.is_empty() {
            self.pending.resize(folding.rows * folding.block * BATCH, 0);
            self.batch(folding);
        }
        let mut fold = vec![0; folding.fold_len()];
        let Folding { lanes, ends, .. } = folding;
        for (sum, row) in self.sums.iter_mut().zip(fold.chunks_exact_mut(*lanes)) {
            sum.resize(ends.sources() * *lanes, 0);
            let parts: Vec<&[u8]> = sum.chunks_exact(*lanes).collect();
            ends.apply(&parts, &mut [row]).expect("parts of one length");
        }
        fold
    }

    fn batch(&mut self, folding: &mut Folding) {
        let Folding { rows, words, block, batches, .. } = folding;
        if let Some(words) = words {
            let chunk = std::mem::take(&mut self.pending);
            self.pending.resize(chunk.len(), 0);
            let groups = chunk.chunks_exact(*rows * *block);
            let apart = self.pending.chunks_exact_mut(*rows * *block);
            groups.zip(apart).for_each(|(group, rows)| words.split(group, rows));
        }
        while batches.len() <= self.done {
            batches.push(batch(batches.len(), BATCH));
        }
        for (row, sum) in self.sums.iter_mut().enumerate() {
            let blocks: Vec<&[u8]> = self.pending.chunks_exact(*block).skip(row).step_by(*rows).collect();
            batches[self.done].accumulate(&blocks, &mut [sum]).expect("blocks of one length");
        }
        self.pending.clear();
        self.done += 1;
    }
}

/// The sum of so many blocks, with coefficients that depend on the number of the batch alone and
/// are never zero.
fn batch(number: usize, blocks: usize) -> Dot {
    let row = (0..blocks).map(|block| {
        let mixed = mixed((number as u64).wrapping_mul(1 << 16).wrapping_add(block as u64));
        (block, (mixed % 255) as u8 + 1)
    });
    Dot::new(blocks, &[row.collect()]).expect("each source is one of the blocks")
}

/// The finalizer of SplitMix64: the same numbers on every machine.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantile::Chunks;
    use std::collections::BTreeSet;
    use std::io::{Read, Write};

    /// Folds of the shards of an object, and the layout of the folds.
    fn folds(name: &str, change: impl Fn(&mut [Vec<u8>])) -> (Chunks, Vec<Vec<u8>>) {
        let profile = Profile::parse(name).unwrap();
        let Cut::Stripes { usual: chunk, .. } = profile.cut else { panic!("{name} has stripes") };
        let chunks = Chunks::new(&profile, Some(chunk)).unwrap();
        let object: Vec<u8> = (0..300_000u64).map(|i| mixed(i) as u8).collect();
        let mut shards = vec![Vec::new(); profile.code.columns()];
        let mut writers: Vec<&mut dyn Write> = shards.iter_mut().map(|shard| shard as _).collect();
        chunks.encode(&mut &object[..], &mut writers).unwrap();
        change(&mut shards);
        let mut folding = Folding::new(&profile, chunk).unwrap();
        let folds = shards.iter().map(|shard| {
            let mut fold = folding.start();
            shard.chunks(7777).for_each(|part| fold.add(&mut folding, part));
            fold.end(&mut folding)
        });
        let folds: Vec<Vec<u8>> = folds.collect();
        (Chunks::new(&folding.profile(&profile), None).unwrap(), folds)
    }

    fn wrong(chunks: &Chunks, folds: &[Vec<u8>]) -> (Vec<usize>, u64) {
        let mut readers: Vec<&[u8]> = folds.iter().map(|fold| &fold[..]).collect();
        let mut readers: Vec<Option<&mut dyn Read>> =
            readers.iter_mut().map(|reader| Some(reader as _)).collect();
        let len = chunks.data_len_of(folds[0].len() as u64).unwrap();
        let found = chunks.verify(&mut readers, len).unwrap();
        (found.wrong.iter().map(|wrong| wrong.column).collect(), found.doubts)
    }

    #[test]
    fn folds_satisfy_the_equations_and_name_the_wrong_shard() {
        for name in [
            "ceph:plugin=isa k=4 m=2",
            "ceph:plugin=jerasure technique=reed_sol_van k=3 m=2",
            "ceph:plugin=jerasure technique=cauchy_good k=4 m=2 packetsize=512",
            "ceph:plugin=jerasure technique=liberation k=4 m=2 w=7 packetsize=64",
            "ceph:plugin=shec k=6 m=4 c=3",
            "ceph:plugin=clay k=4 m=2 d=5",
            "ceph:plugin=lrc k=4 m=2 l=3",
            "ceph:plugin=jerasure technique=reed_sol_van k=4 m=2 w=16",
            "ceph:plugin=jerasure technique=reed_sol_r6_op k=4 m=2 w=32",
            "ceph:plugin=shec k=6 m=4 c=3 w=16",
            "ceph:plugin=pantile code=raidq:5+3",
        ] {
            let (chunks, right) = folds(name, |_| {});
            assert_eq!(wrong(&chunks, &right), (vec![], 0), "{name}");
            // A block of a disk.
            let (_, lie) = folds(name, |shards| {
                shards[2][4096..6144]
                    .iter_mut()
                    .enumerate()
                    .for_each(|(i, byte)| *byte ^= mixed(i as u64) as u8);
            });
            assert_eq!(wrong(&chunks, &lie), (vec![2], 0), "{name}");
            // A single byte leaves a difference, which too little evidence belongs to.
            let (_, lie) = folds(name, |shards| shards[1][5000] ^= 4);
            let (found, doubts) = wrong(&chunks, &lie);
            assert!(found == [1] || doubts == 1, "{name}: {found:?} {doubts}");
            let folds = lie[1].iter().zip(&right[1]).enumerate();
            let lanes = right[1].len() / chunks.code().rows_max();
            let differ = folds.filter(|(_, (lie, right))| lie != right).map(|(at, _)| at % lanes);
            assert_eq!(differ.collect::<BTreeSet<_>>().len(), 1, "{name}");
            assert!((0..right.len()).all(|shard| shard == 1 || lie[shard] == right[shard]), "{name}");
        }
    }
}
