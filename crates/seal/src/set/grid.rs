//! Where blocks are: maps cells and shards to files and back.

use crate::set::bound::Bound;
use pantile::{CellIndex, CellSet, Checker, Codec, Costs};
use pantile_format::{BlockLen, Crc64, Entry, EntryKind, Extent, Lane, Mode, Stripe};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

/// The cells of a stripe and their places in shards.
pub(crate) struct Geometry {
    pub(crate) codec: Codec,
    pub(crate) block_len: BlockLen,
    /// The cell of each lane: the data cells, ascending by column and row.
    pub(crate) lanes: Vec<CellIndex>,
    /// The lane of each cell, `None` for parity.
    pub(crate) lane_of: Vec<Option<u32>>,
    /// The cells that each column's shard stores, by row.
    pub(crate) stored: Vec<Vec<CellIndex>>,
    /// The parity cells of each column, by row.
    pub(crate) parity: Vec<Vec<CellIndex>>,
    /// For each cell its column, and its row among the cells that the shard stores; `None` if it is
    /// not stored.
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

    /// Returns the checks of stripes with `erased` cells.
    pub(crate) fn checker(&self, erased: &CellSet) -> Arc<Checker> {
        let checker = self.codec.checker(erased);
        checker.unwrap_or_else(|error| unreachable!("sets are made for the code of the set: {error}"))
    }

    pub(crate) fn columns(&self) -> usize {
        self.stored.len()
    }

    pub(crate) fn cell_count(&self) -> usize {
        self.place.len()
    }

    /// Returns the bytes of a block.
    pub(crate) fn block(&self) -> usize {
        self.block_len.bytes() as usize
    }

    /// Returns the columns that have a shard.
    pub(crate) fn stored_columns(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.columns()).filter(|&column| !self.stored[column].is_empty())
    }

    /// Returns the bytes that one stripe adds to all shards together.
    pub(crate) fn stripe_bytes(&self) -> u64 {
        self.stored.iter().map(|cells| cells.len() as u64).sum::<u64>() * self.block_len.bytes()
    }

    /// Returns the index of a parity cell's checksum in the check table of its shard.
    pub(crate) fn check_index(&self, cell: CellIndex, stripe: u64) -> usize {
        let parity = &self.parity[self.place[cell.usize()].0];
        stripe as usize * parity.len() + parity.partition_point(|&p| p < cell)
    }

    pub(crate) fn no_cells(&self) -> CellSet {
        CellSet::empty(self.codec.code())
    }

    /// Returns the number of stripes in a window: about `WINDOW_BYTES` for all cells.
    pub(crate) fn window_stripes(&self) -> u64 {
        (WINDOW_BYTES / (self.cell_count() as u64 * self.block_len.bytes())).max(1)
    }
}

/// A window is large enough for long reads and writes, and small enough for the caches.
const WINDOW_BYTES: u64 = 8 << 20;

/// Adjacent blocks of a file on one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// Index of the file's entry in the manifest.
    pub(crate) entry: usize,
    /// The index in the file of the block at `first`.
    pub(crate) block: u64,
}

/// The owner of each block of the grid.
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

    /// Returns the runs of a lane that overlap a range of stripes, cut to the range.
    pub(crate) fn runs(&self, lane: u32, stripes: Range<u64>) -> impl Iterator<Item = Run> + '_ {
        let runs = &self.lanes[lane as usize];
        let from = runs.partition_point(|run| run.first + run.count <= stripes.start);
        runs[from..].iter().take_while(move |run| run.first < stripes.end).map(move |run| {
            let first = run.first.max(stripes.start);
            let end = (run.first + run.count).min(stripes.end);
            Run { first, count: end - first, entry: run.entry, block: run.block + (first - run.first) }
        })
    }

    /// Returns the owner of a block: the entry, and the index of the block in its file.
    pub(crate) fn owner(&self, lane: u32, stripe: u64) -> Option<(usize, u64)> {
        self.runs(lane, stripe..stripe + 1).next().map(|run| (run.entry, run.block))
    }

    /// Returns the free blocks of the first `stripes` stripes, by lane and stripe.
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
    /// The number of stripes, including new ones.
    pub(crate) stripes: u64,
}

impl Allocator {
    /// Creates an allocator with at least `needed` free blocks; missing stripes are appended.
    pub(crate) fn new(grid: &Grid, stripes: u64, needed: u64) -> Allocator {
        let mut free = grid.free(stripes);
        let have: u64 = free.iter().map(|extent| extent.count).sum();
        let lanes = grid.lanes.len() as u64;
        let more = needed.saturating_sub(have).div_ceil(lanes);
        if more > 0 {
            let lanes = (0..lanes as u32).map(Lane);
            free.extend(lanes.map(|lane| Extent { lane, first: Stripe(stripes), count: more }));
        }
        // Blocks are taken from the end of the list.
        free.reverse();
        Allocator { free, stripes: stripes + more }
    }

    /// Creates an allocator for sources with separate lanes; `files` has the source and the blocks
    /// of each file. The source that lacks the most stripes decides how many are appended.
    pub(crate) fn new_bound(grid: &Grid, stripes: u64, bound: &Bound, files: &[(u32, u64)]) -> Allocator {
        let mut free = grid.free(stripes);
        let mut needed: BTreeMap<u32, u64> = BTreeMap::new();
        files.iter().for_each(|&(source, blocks)| *needed.entry(source).or_default() += blocks);
        let lacking = |(&source, &blocks): (&u32, &u64)| {
            let lanes = bound.lanes(source);
            let have: u64 = free.iter().filter(|x| lanes.contains(&x.lane.0)).map(|x| x.count).sum();
            blocks.saturating_sub(have).div_ceil(lanes.len() as u64)
        };
        let more = needed.iter().map(lacking).max().unwrap_or(0);
        if more > 0 {
            for lane in (0..grid.lanes.len() as u32).map(Lane) {
                let ends = |x: &&mut Extent| x.lane == lane && x.first.0 + x.count == stripes;
                match free.iter_mut().find(ends) {
                    Some(last) => last.count += more,
                    None => free.push(Extent { lane, first: Stripe(stripes), count: more }),
                }
            }
        }
        free.reverse();
        Allocator { free, stripes: stripes + more }
    }

    /// Takes blocks on some of the lanes: from the shortest free run that holds all of them, or
    /// else from the next free runs in order.
    pub(crate) fn take_on(&mut self, blocks: u64, lanes: &[u32]) -> Vec<Extent> {
        self.take_where(blocks, |lane| lanes.contains(&lane.0))
    }

    /// As [`Allocator::take_on`], on any lane.
    pub(crate) fn take(&mut self, blocks: u64) -> Vec<Extent> {
        self.take_where(blocks, |_| true)
    }

    fn take_where(&mut self, mut blocks: u64, allowed: impl Fn(Lane) -> bool) -> Vec<Extent> {
        let mut taken = Vec::new();
        while blocks > 0 {
            let on = |&i: &usize| allowed(self.free[i].lane);
            let fits = (0..self.free.len()).rev().filter(on).filter(|&i| self.free[i].count >= blocks);
            // The first seal takes from the end every time. The search is for updates, and its
            // length is limited.
            let best = fits.take(4096).min_by_key(|&i| self.free[i].count);
            let Some(at) = best.or_else(|| (0..self.free.len()).rev().find(on)) else {
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

/// Limits the columns in which a file has blocks, so that the loss of the file is survivable. Only
/// for sets whose data are the files themselves.
pub(crate) struct Apart {
    /// The column of each lane.
    columns: Vec<usize>,
    /// The number of columns of one stripe in which one file may have blocks.
    most: usize,
}

impl Apart {
    pub(crate) fn new(geometry: &Geometry) -> Apart {
        let code = geometry.codec.code();
        let columns = geometry.lanes.iter().map(|&cell| code.column_of(cell)).collect();
        Apart { columns, most: code.claim().tolerance.max(1) }
    }

    /// Returns the runs of stripes in which these extents have blocks in `most` or more columns,
    /// each run with these columns.
    fn full(&self, extents: &[Extent]) -> Vec<(Range<u64>, Vec<usize>)> {
        let all = stretches(extents).into_iter();
        let with_columns = all.map(|(range, lanes)| {
            let mut columns: Vec<usize> = lanes.iter().map(|&lane| self.columns[lane as usize]).collect();
            columns.sort_unstable();
            columns.dedup();
            (range, columns)
        });
        with_columns.filter(|(_, columns)| columns.len() >= self.most).collect()
    }
}

/// Returns the stripes of extents as runs, each with its lanes in ascending order.
pub(crate) fn stretches(extents: &[Extent]) -> Vec<(Range<u64>, Vec<u32>)> {
    let mut events: BTreeMap<u64, (Vec<u32>, Vec<u32>)> = BTreeMap::new();
    for extent in extents {
        events.entry(extent.first.0).or_default().0.push(extent.lane.0);
        events.entry(extent.first.0 + extent.count).or_default().1.push(extent.lane.0);
    }
    let mut stretches = Vec::new();
    let mut lanes: Vec<u32> = Vec::new();
    let mut from = 0;
    for (at, (begin, end)) in events {
        if !lanes.is_empty() {
            stretches.push((from..at, lanes.clone()));
        }
        lanes.retain(|lane| !end.contains(lane));
        lanes.extend(begin);
        lanes.sort_unstable();
        from = at;
    }
    stretches
}

impl Allocator {
    /// As [`take`](Self::take), for a file that already has the extents `had`. The file gets blocks
    /// in at most `apart.most` columns of each stripe; new stripes are appended if that requires
    /// them.
    ///
    /// A file that is too large for the grid gets any blocks: its loss is fatal, and `exposed`
    /// reports it.
    pub(crate) fn take_apart(&mut self, mut blocks: u64, had: &[Extent], apart: &Apart) -> Vec<Extent> {
        let had_blocks: u64 = had.iter().map(|extent| extent.count).sum();
        let fits_one = |free: &Extent| free.count >= blocks;
        if (had.is_empty() && self.free.iter().any(fits_one))
            || had_blocks + blocks > self.stripes.saturating_mul(apart.most as u64)
        {
            return self.take(blocks);
        }
        let mut all = had.to_vec();
        let mut taken = Vec::new();
        while blocks > 0 {
            let Some((at, piece)) = self.best_apart(blocks, &apart.full(&all), apart) else {
                let lanes = 0..apart.columns.len() as u32;
                let count = blocks.div_ceil(apart.most as u64);
                let first = Stripe(self.stripes);
                self.free.extend(lanes.map(|lane| Extent { lane: Lane(lane), first, count }));
                self.stripes += count;
                continue;
            };
            let count = (piece.end - piece.start).min(blocks);
            let free = self.free.remove(at);
            let extent = Extent { lane: free.lane, first: Stripe(piece.start), count };
            let end = free.first.0 + free.count;
            for (from, to) in [(piece.start + count, end), (free.first.0, piece.start)] {
                if from < to {
                    let rest = Extent { lane: free.lane, first: Stripe(from), count: to - from };
                    self.free.insert(at, rest);
                }
            }
            all.push(extent);
            taken.push(extent);
            blocks -= count;
        }
        taken
    }

    /// Returns the shortest free piece outside the `full` columns that holds that many blocks; if
    /// there is none, the longest piece.
    fn best_apart(
        &self,
        blocks: u64,
        full: &[(Range<u64>, Vec<usize>)],
        apart: &Apart,
    ) -> Option<(usize, Range<u64>)> {
        let mut best: Option<(usize, Range<u64>)> = None;
        let len = |piece: &Range<u64>| piece.end - piece.start;
        for (at, free) in self.free.iter().enumerate().rev() {
            let column = apart.columns[free.lane.0 as usize];
            let end = free.first.0 + free.count;
            let mut from = free.first.0;
            let blocked =
                full.iter().filter(|(_, columns)| !columns.contains(&column)).map(|(range, _)| range);
            for range in blocked.cloned().chain(std::iter::once(end..end)) {
                let piece = from..range.start.clamp(from, end);
                from = from.max(range.end.min(end));
                let better = best.as_ref().is_none_or(|(_, best)| {
                    let (now, before) = (len(&piece), len(best));
                    if before >= blocks { now >= blocks && now < before } else { now > before }
                });
                if !piece.is_empty() && better {
                    best = Some((at, piece));
                }
            }
        }
        best
    }
}

/// Returns the files whose loss alone exceeds the tolerance of the code. Only for sets whose data
/// are the files themselves.
pub(crate) fn exposed(geometry: &Geometry, entries: &[Entry]) -> Vec<usize> {
    let code = geometry.codec.code();
    let apart = Apart::new(geometry);
    let mut known: HashMap<Vec<u32>, bool> = HashMap::new();
    let mut bears = |lanes: Vec<u32>| {
        *known.entry(lanes).or_insert_with_key(|lanes| {
            let mut lost = CellSet::empty(code);
            lanes.iter().for_each(|&lane| lost.insert(geometry.lanes[lane as usize]));
            let wanted: Vec<CellIndex> = lost.iter().collect();
            geometry.codec.recovery(&lost, &wanted, &Costs::uniform()).is_ok()
        })
    };
    let is_exposed = |&index: &usize| match &entries[index].kind {
        EntryKind::File { extents, .. } if extents.len() > 1 || apart.most == 0 => {
            let stretches = stretches(extents).into_iter();
            stretches.filter(|(_, lanes)| lanes.len() > 1).any(|(_, lanes)| !bears(lanes))
        }
        _ => false,
    };
    (0..entries.len()).filter(is_exposed).collect()
}

/// Returns the block length for a set of this size: about 65,536 blocks, and a stripe of at most 64
/// MiB.
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
    use pantile_format::{Fields, Timestamp};

    fn file(extents: Vec<Extent>) -> Entry {
        let kind = EntryKind::File { size: 0, extents, crcs: vec![] };
        Entry {
            source: 0,
            path: vec![],
            mode: 0,
            mtime: Timestamp { seconds: 0, nanos: 0 },
            kind,
            fields: Fields::default(),
        }
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
        // Freed blocks are used again before the grid grows.
        let grid = Grid::new(3, &entries[..2]);
        let mut again = Allocator::new(&grid, 4, 6);
        assert_eq!(again.stripes, 4);
        again.take(6);
        assert_eq!(Allocator::new(&grid, 4, 7).stripes, 5);
    }

    #[test]
    fn a_file_never_lies_in_more_columns_of_a_stripe_than_its_loss_may_cost() {
        let geometry = |spec: &str| {
            let codec = Codec::new(&pantile::Code::parse(spec).unwrap());
            Geometry::new(&codec, Mode::Beside, BlockLen::LEAST)
        };
        for spec in ["rs:6+2", "raid5:5", "dcode:5", "lrc:6,2,2"] {
            let geometry = geometry(spec);
            let (lanes, apart) = (geometry.lanes.len(), Apart::new(&geometry));
            for seed in 1..200u64 {
                let mut state = seed;
                let mut number = |below: u64| {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    (state >> 33) % below
                };
                // Some files are placed and some of them removed; then other files take their
                // blocks and grow.
                let sizes: Vec<u64> = (0..12).map(|_| number(9)).collect();
                let mut allocator = Allocator::new(&Grid::new(lanes, &[]), 0, sizes.iter().sum());
                // A file that is too large for the grid when it is placed gets any blocks.
                let mut too_large: Vec<bool> = Vec::new();
                let mut entries: Vec<Entry> = Vec::new();
                for n in sizes {
                    too_large.push(n > allocator.stripes * apart.most as u64);
                    entries.push(file(allocator.take_apart(n, &[], &apart)));
                }
                let mut stripes = allocator.stripes;
                for _ in 0..8 {
                    let gone = number(entries.len() as u64) as usize;
                    entries[gone] = file(vec![]);
                    let (grows, more) = (number(entries.len() as u64) as usize, number(7));
                    let mut allocator = Allocator::new(&Grid::new(lanes, &entries), stripes, more);
                    let EntryKind::File { extents, .. } = &mut entries[grows].kind else { unreachable!() };
                    let all = more + extents.iter().map(|extent| extent.count).sum::<u64>();
                    too_large[grows] |= more > 0 && all > allocator.stripes * apart.most as u64;
                    let added = allocator.take_apart(more, extents, &apart);
                    assert_eq!(added.iter().map(|extent| extent.count).sum::<u64>(), more);
                    extents.extend(added);
                    stripes = allocator.stripes;
                }
                // No blocks overlap, and only files that are too large for the grid are exposed.
                let mut taken = std::collections::HashSet::new();
                for (index, entry) in entries.iter().enumerate() {
                    let EntryKind::File { extents, .. } = &entry.kind else { unreachable!() };
                    for extent in extents {
                        for stripe in extent.first.0..extent.first.0 + extent.count {
                            assert!(stripe < stripes && taken.insert((extent.lane, stripe)), "{spec} {seed}");
                        }
                    }
                    let columns = |lanes: &[u32]| {
                        let mut columns: Vec<usize> =
                            lanes.iter().map(|&lane| apart.columns[lane as usize]).collect();
                        columns.sort_unstable();
                        columns.dedup();
                        columns.len()
                    };
                    let widest = stretches(extents).iter().map(|(_, lanes)| columns(lanes)).max();
                    let bound = widest.unwrap_or(0) <= apart.most;
                    assert!(bound || too_large[index], "{spec} {seed} {index}: {widest:?}");
                    let exposed = exposed(&geometry, &entries).contains(&index);
                    // Other codes tolerate some sets of more columns, or parts of them.
                    let bears_no_more = spec.starts_with('r');
                    assert!(bound || exposed || !bears_no_more, "{spec} {seed} {index}");
                    assert!(!bound || !exposed, "{spec} {seed} {index}");
                }
            }
        }
    }

    #[test]
    fn a_gigabyte_has_about_65536_blocks() {
        assert_eq!(choose_block_len(1 << 30, 14).bytes(), 16 << 10);
        assert_eq!(choose_block_len(0, 14).bytes(), 4 << 10);
        assert_eq!(choose_block_len(1 << 50, 14).bytes(), 1 << 20);
        assert_eq!(choose_block_len(1 << 50, 1000).bytes(), 64 << 10);
    }
}
