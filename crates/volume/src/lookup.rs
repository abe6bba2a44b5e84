//! Where blocks are stored, for drivers that read blocks themselves.
//!
//! A [`Lookup`] is valid at the moment it is given; its places may be overwritten right after. This
//! is why it contains the checksums. Content that matches them was the newest at some moment since
//! the lookup, so it is a right answer to a read that began before. If the content does not match,
//! the driver makes an ordinary request.
//!
//! Blocks of a lost device are given as sums of blocks of others, by the plan that the engine made
//! when it read the same cells. Source blocks that match their checksums are of one stripe and one
//! generation, so their sum is the lost block.

use crate::engine::Engine;
use crate::maps::{Mapping, RowKind};
use crate::{BLOCK_BYTES, DeviceBlock, Seed, Slot, UserBlock};
use pantile_code::CellIndex;
use pantile_gf::Gf;
use pantile_plan::{CellSet, Plan};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// Adjacent blocks of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The device.
    pub slot: Slot,
    /// The first of them.
    pub at: DeviceBlock,
    /// The generation under which the blocks were written.
    pub generation: u64,
    /// The checksum of each.
    pub checksums: Vec<u64>,
}

/// Blocks to compute, each as a sum of blocks that are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mixture {
    /// The number of blocks.
    pub blocks: u32,
    /// The terms of each sum: index of a stretch, first block of the stretch to use, and factor.
    /// Without terms the blocks are zeros.
    pub terms: Vec<(usize, u32, Gf)>,
    /// The place of the computed blocks and their checksums, if memory has these.
    pub instead_of: Option<Stretch>,
}

/// The source of a part of the blocks that were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Read from a stretch: its index, and the first block in it.
    Read(usize, u32),
    /// Computed in a mixture: its index, and the first block in it.
    Made(usize, u32),
}

/// Places of blocks, and the sums to compute from them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lookup {
    /// The blocks to read.
    pub stretches: Vec<Stretch>,
    /// The sums to compute.
    pub mixtures: Vec<Mixture>,
    /// The sources of the blocks that were asked for, in order, with the number of blocks from
    /// each.
    pub parts: Vec<(Source, u32)>,
}

impl Stretch {
    /// Returns the number of blocks.
    pub fn blocks(&self) -> u32 {
        self.checksums.len() as u32
    }

    /// Returns the length in bytes.
    pub fn len_bytes(&self) -> usize {
        self.checksums.len() * BLOCK_BYTES as usize
    }

    /// Returns the seed and checksum of each block, in order.
    pub fn checks(&self) -> impl Iterator<Item = (Seed, u64)> {
        let seed = |at| Seed { slot: self.slot, address: DeviceBlock(at), generation: self.generation };
        (self.at.0..).map(seed).zip(self.checksums.iter().copied())
    }
}

/// Blocks of one cell.
type CellRange = (CellIndex, Range<u32>);

/// For each cell, the smallest range that has all blocks wanted of it.
type CellRanges = BTreeMap<CellIndex, Range<u32>>;

/// The place of a cell's blocks in the stretches that are read.
struct Placed {
    stretch: usize,
    /// The index in the stretch of the cell's first block that is read.
    first: u32,
    /// The offset of this block in the cell.
    start: u32,
}

impl Placed {
    /// Returns the stretch of a block of the cell, given by offset, and its index in the stretch.
    fn of(&self, offset: u32) -> (usize, u32) {
        (self.stretch, self.first + (offset - self.start))
    }
}

/// The computation of lost cells.
struct Making {
    plan: Arc<Plan>,
    wanted: BTreeSet<CellIndex>,
    /// The range of blocks that is computed of each wanted cell.
    offsets: Range<u32>,
}

impl Engine {
    /// Returns the places of blocks, if the newest content of each is on devices that have it and
    /// memory has the checksums.
    pub(crate) fn lookup(&self, first: UserBlock, count: u32) -> Option<Lookup> {
        // A volume at rest cleans its log until it gets a request, so it must get one.
        if !self.service.can_be_read() || self.cleaning.is_at_rest() || self.serves_nobody() || count == 0 {
            return None;
        }
        let end = first.0.checked_add(u64::from(count))?;
        if end > self.geometry.user_blocks() {
            return None;
        }
        let mut found = Lookup::default();
        let mut at = first;
        while at.0 < end {
            let (logical, place) = self.geometry.locate(at);
            let most = self.geometry.stripe_blocks() - u64::from(place);
            let behind = place + most.min(end - at.0) as u32;
            self.look_into(logical, place..behind, &mut found)?;
            at.0 += u64::from(behind - place);
        }
        Some(found)
    }

    /// Adds the places of some blocks of one stripe.
    fn look_into(&self, logical: u32, places: Range<u32>, found: &mut Lookup) -> Option<()> {
        let is_newer = self.memory.has_any(logical, places.clone());
        if self.patching.is_locked(logical) || self.is_unread(logical) || is_newer {
            return None;
        }
        let first = u64::from(logical) * self.geometry.stripe_blocks();
        let user = |place: u32| UserBlock(first + u64::from(place));
        // The blocks in the log, and the ranges of cells between them.
        let mut from_log: Vec<u32> = Vec::new();
        let mut from_cells: Vec<CellRange> = Vec::new();
        let mut at = places.start;
        for block in self.maps.logged_within(user(places.start)..user(places.end)) {
            let place = (block.0 - first) as u32;
            self.add_cells(at..place, &mut from_cells);
            from_log.push(place);
            at = place + 1;
        }
        self.add_cells(at..places.end, &mut from_cells);
        let sources = self.look_into_cells(logical, &from_cells, found)?;
        let mut parts = sources.into_iter().zip(from_cells).peekable();
        let mut log = from_log.into_iter().peekable();
        let mut at = places.start;
        while at < places.end {
            if log.next_if_eq(&at).is_some() {
                found.parts.push((Source::Read(found.stretches.len(), 0), 1));
                found.stretches.push(self.look_into_log(user(at))?);
                at += 1;
            } else {
                let (source, (_, offsets)) = parts.next()?;
                found.parts.push((source, offsets.end - offsets.start));
                at += offsets.end - offsets.start;
            }
        }
        Some(())
    }

    fn add_cells(&self, places: Range<u32>, cells: &mut Vec<CellRange>) {
        let mut at = places.start;
        while at < places.end {
            let (cell, offset) = self.geometry.cell_of(at);
            let behind = (offset + places.end - at).min(self.geometry.element_blocks());
            cells.push((cell, offset..behind));
            at += behind - offset;
        }
    }

    /// Returns the source of each range of cells of a stripe.
    fn look_into_cells(&self, logical: u32, wanted: &[CellRange], found: &mut Lookup) -> Option<Vec<Source>> {
        if wanted.is_empty() {
            return Some(Vec::new());
        }
        let mapping = self.maps.mapping(logical)?;
        let to_read =
            |(cell, offsets): &CellRange| (self.cell_to_read(logical, mapping, *cell), offsets.clone());
        let wanted: Vec<CellRange> = wanted.iter().map(to_read).collect();
        let gone = self.lost_cells(logical, mapping);
        let cells = wanted.iter().map(|(cell, _)| *cell).collect();
        let gone = self.avoided_cells_known(mapping, gone, &cells)?;
        let lost = wanted.iter().filter(|(cell, _)| gone.contains(*cell));
        let making = self.making_of(&gone, lost)?;
        let mut read = CellRanges::new();
        let there = wanted.iter().filter(|(cell, _)| !gone.contains(*cell));
        there.for_each(|(cell, offsets)| widen(&mut read, *cell, offsets));
        if let Some(making) = &making {
            making.plan.reads.iter().for_each(|&cell| widen(&mut read, cell, &making.offsets));
        }
        let placed = self.add_stretches(mapping, read, found)?;
        let made = match &making {
            Some(making) => self.add_mixtures(mapping, making, &placed, found)?,
            None => BTreeMap::new(),
        };
        let source = |(cell, offsets): &CellRange| match made.get(cell) {
            Some(&mixture) => Some(Source::Made(mixture, offsets.start - making.as_ref()?.offsets.start)),
            None => {
                let (stretch, first) = placed.get(cell)?.of(offsets.start);
                Some(Source::Read(stretch, first))
            }
        };
        wanted.iter().map(source).collect()
    }

    /// Returns the plan that computes lost cells; `None`: the engine has not made it before.
    fn making_of<'w>(
        &self,
        gone: &CellSet,
        lost: impl Iterator<Item = &'w CellRange>,
    ) -> Option<Option<Making>> {
        let mut wanted = CellRanges::new();
        lost.for_each(|(cell, offsets)| widen(&mut wanted, *cell, offsets));
        let offsets = wanted.values().cloned().reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
        let Some(offsets) = offsets else { return Some(None) };
        let wanted: BTreeSet<CellIndex> = wanted.into_keys().collect();
        let plan = self.planners.known_in_stripe(gone, &wanted)?;
        Some(Some(Making { plan, wanted, offsets }))
    }

    /// Adds the sums that compute lost cells; returns the index of each cell's mixture.
    fn add_mixtures(
        &self,
        mapping: Mapping,
        Making { plan, wanted, offsets }: &Making,
        placed: &BTreeMap<CellIndex, Placed>,
        found: &mut Lookup,
    ) -> Option<BTreeMap<CellIndex, usize>> {
        let mut made = BTreeMap::new();
        for step in plan.steps.iter().filter(|step| wanted.contains(&step.target)) {
            // A step that uses other computed cells is left to the engine.
            let term = |(cell, factor): &(CellIndex, Gf)| {
                let (stretch, first) = placed.get(cell)?.of(offsets.start);
                Some((stretch, first, *factor))
            };
            let terms = step.terms.iter().map(term).collect::<Option<_>>()?;
            let instead_of = self.stretch_of(mapping, step.target, offsets);
            made.insert(step.target, found.mixtures.len());
            found.mixtures.push(Mixture { blocks: offsets.len() as u32, terms, instead_of });
        }
        Some(made)
    }

    /// Adds the cells' blocks to read, adjacent ones as one stretch; returns the place of each
    /// cell's first block.
    fn add_stretches(
        &self,
        mapping: Mapping,
        cells: CellRanges,
        found: &mut Lookup,
    ) -> Option<BTreeMap<CellIndex, Placed>> {
        let mut placed = BTreeMap::new();
        let begin = found.stretches.len();
        for (cell, offsets) in cells {
            let next = self.stretch_of(mapping, cell, &offsets)?;
            let goes_on = |last: &&mut Stretch| {
                last.slot == next.slot && last.at.0 + u64::from(last.blocks()) == next.at.0
            };
            let first = match found.stretches[begin..].last_mut().filter(goes_on) {
                Some(last) => {
                    last.checksums.extend(next.checksums);
                    last.blocks() - offsets.len() as u32
                }
                None => {
                    found.stretches.push(next);
                    0
                }
            };
            placed.insert(cell, Placed { stretch: found.stretches.len() - 1, first, start: offsets.start });
        }
        Some(placed)
    }

    /// Returns the place of a cell's blocks and their checksums, if memory has these.
    fn stretch_of(&self, mapping: Mapping, cell: CellIndex, offsets: &Range<u32>) -> Option<Stretch> {
        let (slot, at) = self.geometry.cell_block(mapping.physical, cell, offsets.start);
        let first = self.geometry.index_in_column(cell, offsets.start);
        let known = &self.known_sums(mapping, slot)?.sums;
        let checksums = known.get(first..first + offsets.len())?.to_vec();
        Some(Stretch { slot, at, generation: mapping.generation, checksums })
    }

    fn look_into_log(&self, block: UserBlock) -> Option<Stretch> {
        let log = self.maps.log_place(block)?;
        let row = self.maps.rows().get(&log.row)?;
        let index = match row.kind {
            RowKind::Coded => log.index as usize,
            RowKind::Copies => log.index as usize * (self.geometry.tolerance() + 1),
        };
        let cell = row.cells.get(index)?;
        let has = self.maps.has(cell.slot, row.generation, None) && !self.members.is_slow(cell.slot);
        has.then(|| Stretch {
            slot: cell.slot,
            at: self.geometry.row_block(log.row),
            generation: row.generation,
            checksums: vec![cell.checksum],
        })
    }
}

/// Extends the range that is wanted of a cell.
fn widen(ranges: &mut CellRanges, cell: CellIndex, offsets: &Range<u32>) {
    let range = ranges.entry(cell).or_insert_with(|| offsets.clone());
    *range = range.start.min(offsets.start)..range.end.max(offsets.end);
}
