//! Stripes of which more is bad than the code can bear, and what could not be had of each.
//!
//! Such a stripe is not written anew: that takes what is lost. What users write of it goes to the
//! log, and there it stays; where there is no log it waits until it is all that is lost. The stripe
//! is written anew once nothing is missing any more: every missing block is written again, or could
//! be read after all, or another device has come.
//!
//! A try that fails finds a block missing that nobody has written since, so no stripe is tried over
//! and over.

use crate::UserBlock;
use crate::commit::runs_of;
use crate::engine::Engine;
use crate::span::Place;
use std::collections::{BTreeMap, BTreeSet};

/// Logical stripes, and of each the missing blocks as runs: a stripe of 15 MiB that has lost all
/// takes some bytes for each of its cells. Blocks are numbered by cell, then by their place in it.
#[derive(Debug, Default)]
pub(crate) struct Broken(BTreeMap<u32, Vec<(u32, u32)>>);

impl Broken {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn contains(&self, logical: &u32) -> bool {
        self.0.contains_key(logical)
    }

    pub(crate) fn remove(&mut self, logical: &u32) {
        self.0.remove(logical);
    }

    /// All of them, of which none is broken any more.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = u32> + use<> {
        std::mem::take(&mut self.0).into_keys()
    }

    fn missing(&self, logical: u32) -> BTreeSet<u32> {
        let runs = self.0.get(&logical).into_iter().flatten();
        runs.flat_map(|&(first, count)| first..first + count).collect()
    }

    fn set(&mut self, logical: u32, missing: &BTreeSet<u32>) {
        self.0.insert(logical, runs_of(missing));
    }
}

impl Engine {
    fn block_number(&self, (cell, offset): Place) -> u32 {
        cell.0 * self.geometry.element_blocks() + offset
    }

    /// These blocks of a stripe cannot be had, nor be computed. Parity is missing only together
    /// with data of the same offset.
    pub(crate) fn break_stripe(&mut self, logical: u32, missing: impl IntoIterator<Item = Place>) {
        let mut all = self.broken.missing(logical);
        all.extend(missing.into_iter().map(|place| self.block_number(place)));
        self.broken.set(logical, &all);
        self.is_not_written_anew(logical);
    }

    /// Blocks are written to devices, or could be read from them: stripes that miss nothing any
    /// more are written anew.
    pub(crate) fn miss_no_longer(&mut self, blocks: impl Iterator<Item = UserBlock>) {
        if self.broken.is_empty() {
            return;
        }
        let mut found: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for block in blocks {
            let (logical, place) = self.geometry.locate(block);
            if self.broken.contains(&logical) {
                let number = self.block_number(self.geometry.cell_of(place));
                found.entry(logical).or_default().insert(number);
            }
        }
        for (logical, found) in found {
            let missing: BTreeSet<u32> = &self.broken.missing(logical) - &found;
            self.broken.set(logical, &missing);
            if self.missing_data(logical).next().is_none() {
                self.broken.remove(&logical);
                self.repair.insert(logical);
            }
        }
    }

    /// The missing blocks that users have, by their place in the stripe.
    fn missing_data(&self, logical: u32) -> impl Iterator<Item = u32> {
        let elements = self.geometry.element_blocks();
        let missing = self.broken.missing(logical);
        let data = (0..).zip(self.geometry.code.data());
        data.flat_map(move |(nth, cell)| {
            let of_cell = missing.range(cell.0 * elements..(cell.0 + 1) * elements);
            of_cell.map(|number| nth * elements + number % elements).collect::<Vec<u32>>()
        })
    }

    /// Whether a stripe cannot be written as a whole, what is committing of it included.
    pub(crate) fn is_beyond_repair(&self, logical: u32) -> bool {
        let is_committing = |place| self.memory.is_committing(logical, place);
        self.broken.contains(&logical) && !self.missing_data(logical).all(is_committing)
    }
}
