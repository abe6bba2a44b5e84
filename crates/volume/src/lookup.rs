//! Where blocks lie, told without beginning anything: for drivers that read them themselves.
//!
//! A [`Lookup`] is true at the moment it is given, and needs not stay so: what it names may be written over right after. That is why it says
//! the checksums. Content that has them was the newest at some moment since the question, so it is a right answer to a read that was asked
//! before; content that has not is no answer at all, and whoever got it makes an ordinary request.

use crate::engine::Engine;
use crate::maps::RowKind;
use crate::{Bug, DeviceBlock, Seed, Slot, UserBlock};
use std::ops::Range;

/// Blocks that lie side by side on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The device.
    pub slot: Slot,
    /// The first of them.
    pub at: DeviceBlock,
    /// What they were written with.
    pub generation: u64,
    /// The checksum of each.
    pub checksums: Vec<u64>,
}

impl Lookup {
    /// Each block's seed and checksum, in order.
    pub fn blocks(&self) -> impl Iterator<Item = (Seed, u64)> {
        let seed = |at| Seed { slot: self.slot, address: DeviceBlock(at), generation: self.generation };
        (self.at.0..).map(seed).zip(self.checksums.iter().copied())
    }
}

impl Engine {
    /// Where blocks lie, if the newest content of each lies on a device that has it and memory has its checksum: pieces, in order.
    pub(crate) fn lookup(&self, first: UserBlock, count: u32) -> Option<Vec<Lookup>> {
        // A volume that puts things away goes on until it gets a request.
        if self.failed || self.idle || self.serves_nobody() || count == 0 {
            return None;
        }
        let end = first.0.checked_add(u64::from(count))?;
        if end > self.geometry.user_blocks() {
            return None;
        }
        let mut pieces = Vec::new();
        let mut at = first;
        while at.0 < end {
            let piece = self.lookup_piece(at, (end - at.0) as u32)?;
            at.0 += piece.checksums.len() as u64;
            pieces.push(piece);
        }
        Some(pieces)
    }

    /// Where the first of some blocks lies, and as many as lie behind it on the same device.
    fn lookup_piece(&self, first: UserBlock, count: u32) -> Option<Lookup> {
        let (logical, place) = self.geometry.locate(first);
        let in_log = self.maps.log.range(first..UserBlock(first.0 + u64::from(count))).next();
        let count = match in_log {
            Some((&block, _)) => (block.0 - first.0) as u32,
            None => count,
        };
        if self.waits_in_place(logical) {
            return None;
        }
        if count == 0 {
            return if self.has_in_memory(logical, place..place + 1) {
                None
            } else {
                self.lookup_in_log(first)
            };
        }
        let mapping = self.maps.stripes[logical as usize]?;
        let at = |place| {
            let (cell, offset) = self.geometry.cell_of(place);
            self.geometry.cell_block(mapping.physical, cell, offset)
        };
        let (slot, start) = at(place);
        // What follows in a cell follows on its device; what follows in the next may.
        let element = self.geometry.element_blocks();
        let most = count.min(self.geometry.stripe_blocks() as u32 - place);
        let mut behind = (element - place % element).min(most);
        while behind < most && at(place + behind) == (slot, DeviceBlock(start.0 + u64::from(behind))) {
            behind = (behind + element).min(most);
        }
        if self.has_in_memory(logical, place..place + behind)
            || !self.maps.has(slot, mapping.generation, Some(logical))
        {
            return None;
        }
        let header = self.geometry.chunk_start(mapping.physical, slot).0
            + u64::from(self.geometry.header_blocks(slot));
        let in_column = usize::try_from(start.0.checked_sub(header)?).ok()?;
        let known = &self.known_sums(mapping, slot)?.sums;
        let checksums = known.get(in_column..in_column + behind as usize)?.to_vec();
        Some(Lookup { slot, at: start, generation: mapping.generation, checksums })
    }

    fn lookup_in_log(&self, block: UserBlock) -> Option<Lookup> {
        let log = self.maps.log.get(&block)?;
        let row = self.maps.rows.get(&log.row)?;
        let index = match row.kind {
            RowKind::Coded => log.index as usize,
            RowKind::Copies => log.index as usize * (self.geometry.tolerance() + 1),
        };
        let cell = row.cells.get(index)?;
        let has = self.maps.has(cell.slot, row.generation, None);
        has.then(|| Lookup {
            slot: cell.slot,
            at: self.geometry.row_block(log.row),
            generation: row.generation,
            checksums: vec![cell.checksum],
        })
    }

    /// Whether anything of some places of a stripe is newer than what the maps know.
    fn has_in_memory(&self, logical: u32, places: Range<u32>) -> bool {
        !self.planted.is(Bug::LooksPastMemory)
            && self.memories().any(|memory| {
                memory.unmapped.contains(&logical) || memory.blocks.has_any(logical, places.clone())
            })
    }
}
