//! Where blocks lie: cells and shards on one side, files on the other.

use pantile::{CellIndex, CellSet, Codec};
use pantile_format::{BlockLen, Crc64, Entry, EntryKind, Extent, Lane, Mode, Stripe};
use std::ops::Range;

/// The cells of a stripe and their places in shards.
pub(crate) struct Geometry {
    pub(crate) codec: Codec,
    pub(crate) block_len: BlockLen,
    /// The cell of each lane: the data cells by column and row.
    pub(crate) lanes: Vec<CellIndex>,
    /// The lane of each cell, `None` for parity.
    pub(crate) lane_of: Vec<Option<u32>>,
    /// The cells that each column's shard stores, by row.
    pub(crate) stored: Vec<Vec<CellIndex>>,
    /// The parity cells of each column, by row.
    pub(crate) parity: Vec<Vec<CellIndex>>,
    /// For each cell its column, and its row among the stored cells if it is stored.
    pub(crate) place: Vec<(usize, Option<u32>)>,
    /// The checksum of a block of zeros.
    pub(crate) zero_crc: Crc64,
}

impl Geometry {
    pub(crate) fn new(codec: &Codec, mode: Mode, block_len: BlockLen) -> Geometry {
        let code = codec.code();
        let lanes: Vec<CellIndex> = code.cells().filter(|&cell| !code.is_parity(cell)).collect();
        let mut lane_of = vec![None; code.cell_count()];
        lanes.iter().enumerate().for_each(|(lane, cell)| lane_of[cell.usize()] = Some(lane as u32));
        let parity: Vec<Vec<CellIndex>> = (0..code.columns())
            .map(|column| code.column_cells(column).filter(|&cell| code.is_parity(cell)).collect())
            .collect();
        let stored: Vec<Vec<CellIndex>> = match mode {
            Mode::Full => (0..code.columns()).map(|column| code.column_cells(column).collect()).collect(),
            Mode::Beside => parity.clone(),
        };
        let mut place: Vec<(usize, Option<u32>)> =
            code.cells().map(|cell| (code.column_of(cell), None)).collect();
        for cells in &stored {
            cells.iter().enumerate().for_each(|(row, cell)| place[cell.usize()].1 = Some(row as u32));
        }
        let zero_crc = Crc64::of(&vec![0; block_len.bytes() as usize]);
        Geometry { codec: codec.clone(), block_len, lanes, lane_of, stored, parity, place, zero_crc }
    }

    pub(crate) fn columns(&self) -> usize {
        self.stored.len()
    }

    pub(crate) fn cell_count(&self) -> usize {
        self.place.len()
    }

    /// Bytes of a block.
    pub(crate) fn block(&self) -> usize {
        self.block_len.bytes() as usize
    }

    /// The columns that have a shard.
    pub(crate) fn stored_columns(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.columns()).filter(|&column| !self.stored[column].is_empty())
    }

    /// Bytes that one stripe adds to all shards.
    pub(crate) fn stripe_bytes(&self) -> u64 {
        self.stored.iter().map(|cells| cells.len() as u64).sum::<u64>() * self.block_len.bytes()
    }

    /// The index of a parity cell's checksum in its shard's check table.
    pub(crate) fn check_index(&self, cell: CellIndex, stripe: u64) -> usize {
        let parity = &self.parity[self.place[cell.usize()].0];
        stripe as usize * parity.len() + parity.partition_point(|&p| p < cell)
    }

    pub(crate) fn no_cells(&self) -> CellSet {
        CellSet::empty(self.codec.code())
    }

    /// Stripes that are worked on at a time: about `WINDOW_BYTES` of all cells.
    pub(crate) fn window_stripes(&self) -> u64 {
        (WINDOW_BYTES / (self.cell_count() as u64 * self.block_len.bytes())).max(1)
    }
}

/// Large enough that reads and writes are long, small enough to stay near the caches.
const WINDOW_BYTES: u64 = 8 << 20;

/// Blocks of a file that lie in a row on one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// The entry of the manifest.
    pub(crate) entry: usize,
    /// The block of the file at `first`.
    pub(crate) block: u64,
}

/// Which file owns which block of the grid.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grid {
    /// For each lane its runs, ascending, never overlapping.
    lanes: Vec<Vec<Run>>,
}

impl Grid {
    pub(crate) fn new(lanes: usize, entries: &[Entry]) -> Grid {
        let mut grid = Grid { lanes: vec![Vec::new(); lanes] };
        for (index, entry) in entries.iter().enumerate() {
            let EntryKind::File { extents, .. } = &entry.kind else { continue };
            let mut block = 0;
            for extent in extents {
                let run = Run { first: extent.first.0, count: extent.count, entry: index, block };
                grid.lanes[extent.lane.0 as usize].push(run);
                block += extent.count;
            }
        }
        grid.lanes.iter_mut().for_each(|lane| lane.sort_unstable_by_key(|run| run.first));
        grid
    }

    /// The runs of a lane that have blocks in a range of stripes, cut to it.
    pub(crate) fn runs(&self, lane: u32, stripes: Range<u64>) -> impl Iterator<Item = Run> + '_ {
        let runs = &self.lanes[lane as usize];
        let from = runs.partition_point(|run| run.first + run.count <= stripes.start);
        runs[from..].iter().take_while(move |run| run.first < stripes.end).map(move |run| {
            let first = run.first.max(stripes.start);
            let end = (run.first + run.count).min(stripes.end);
            Run { first, count: end - first, entry: run.entry, block: run.block + (first - run.first) }
        })
    }

    /// The owner of a block: entry, and block of the file.
    pub(crate) fn owner(&self, lane: u32, stripe: u64) -> Option<(usize, u64)> {
        self.runs(lane, stripe..stripe + 1).next().map(|run| (run.entry, run.block))
    }

    /// What no file owns in the first `stripes` stripes, by lane and stripe.
    fn free(&self, stripes: u64) -> Vec<Extent> {
        let mut free = Vec::new();
        for (lane, runs) in self.lanes.iter().enumerate() {
            let mut at = 0;
            let end = std::iter::once((stripes, 0));
            for (first, count) in runs.iter().map(|run| (run.first, run.count)).chain(end) {
                if first > at {
                    let lane = Lane(lane as u32);
                    free.push(Extent { lane, first: Stripe(at), count: first - at });
                }
                at = first + count;
            }
        }
        free
    }
}

/// Hands out free blocks: those of existing stripes first, then new stripes.
pub(crate) struct Allocator {
    free: Vec<Extent>,
    /// Stripes in all.
    pub(crate) stripes: u64,
}

impl Allocator {
    /// For so many blocks in all; as many stripes are appended as they need.
    pub(crate) fn new(grid: &Grid, stripes: u64, needed: u64) -> Allocator {
        let mut free = grid.free(stripes);
        let have: u64 = free.iter().map(|extent| extent.count).sum();
        let lanes = grid.lanes.len() as u64;
        let more = needed.saturating_sub(have).div_ceil(lanes);
        if more > 0 {
            let lanes = (0..lanes as u32).map(Lane);
            free.extend(lanes.map(|lane| Extent { lane, first: Stripe(stripes), count: more }));
        }
        // Taken from the end.
        free.reverse();
        Allocator { free, stripes: stripes + more }
    }

    /// So many blocks: the shortest free run that holds them all, or else the next ones in order.
    pub(crate) fn take(&mut self, mut blocks: u64) -> Vec<Extent> {
        let mut taken = Vec::new();
        while blocks > 0 {
            let fits = (0..self.free.len()).rev().filter(|&i| self.free[i].count >= blocks);
            // A first seal takes from the end every time: the search is for updates, and bounded.
            let best = fits.take(4096).min_by_key(|&i| self.free[i].count);
            let Some(at) = best.or(self.free.len().checked_sub(1)) else {
                unreachable!("the allocator was made for all blocks that are taken")
            };
            let free = &mut self.free[at];
            let count = free.count.min(blocks);
            taken.push(Extent { lane: free.lane, first: free.first, count });
            free.first.0 += count;
            free.count -= count;
            if free.count == 0 {
                self.free.remove(at);
            }
            blocks -= count;
        }
        taken
    }
}

/// The block length for a set of so many bytes: about 65,536 blocks, and a stripe of at most 64 MiB.
pub(crate) fn choose_block_len(bytes: u64, cells: usize) -> BlockLen {
    let wanted = bytes.div_ceil(65_536).max(1).next_power_of_two();
    let most = (64u64 << 20) / cells as u64;
    let most = if most.is_power_of_two() { most } else { most.next_power_of_two() / 2 };
    let len = wanted.min(most).clamp(BlockLen::LEAST.bytes(), BlockLen::MOST.bytes());
    BlockLen::new(len).unwrap_or(BlockLen::LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantile_format::Timestamp;

    fn file(extents: Vec<Extent>) -> Entry {
        let kind = EntryKind::File { size: 0, extents, crcs: vec![] };
        Entry { source: 0, path: vec![], mode: 0, mtime: Timestamp { seconds: 0, nanos: 0 }, kind }
    }

    #[test]
    fn blocks_are_handed_out_once_and_found_again() {
        let mut allocator = Allocator::new(&Grid::new(3, &[]), 0, 10);
        assert_eq!(allocator.stripes, 4);
        let entries: Vec<Entry> = [1, 5, 0, 4].map(|blocks| file(allocator.take(blocks))).into();
        let grid = Grid::new(3, &entries);
        let mut owned = vec![0u64; 4];
        for lane in 0..3 {
            for stripe in 0..4 {
                if let Some((entry, _)) = grid.owner(lane, stripe) {
                    owned[entry] += 1;
                }
            }
        }
        assert_eq!(owned, [1, 5, 0, 4]);
        // What is freed is used again before the grid grows.
        let grid = Grid::new(3, &entries[..2]);
        let mut again = Allocator::new(&grid, 4, 6);
        assert_eq!(again.stripes, 4);
        again.take(6);
        assert_eq!(Allocator::new(&grid, 4, 7).stripes, 5);
    }

    #[test]
    fn a_gigabyte_has_about_65536_blocks() {
        assert_eq!(choose_block_len(1 << 30, 14).bytes(), 16 << 10);
        assert_eq!(choose_block_len(0, 14).bytes(), 4 << 10);
        assert_eq!(choose_block_len(1 << 50, 14).bytes(), 1 << 20);
        assert_eq!(choose_block_len(1 << 50, 1000).bytes(), 64 << 10);
    }
}
