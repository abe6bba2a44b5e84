//! Damaged stripes: *suspect* ones, which the next commit writes again, and *broken* ones, of which
//! more is bad than the code tolerates.
//!
//! A stripe is suspect from the moment that something in it does not verify until a record says
//! that it is written again. A broken stripe cannot be written again, because blocks of it are
//! lost. Its writes go to the log and stay there; without a log they wait until they are all that
//! is lost. The stripe is written again once nothing is missing any more: every missing block is
//! written again, or could be read after all, or another device has come.
//!
//! No stripe is both. A try that fails finds a missing block without a write since, so no stripe is
//! tried over and over.

use crate::UserBlock;
use crate::commit::runs_of;
use crate::engine::Engine;
use crate::span::Place;
use std::collections::{BTreeMap, BTreeSet};

/// Logical stripes that are not as they should be.
#[derive(Debug, Default)]
pub(crate) struct Damage {
    suspect: BTreeSet<u32>,
    /// Missing blocks of each as runs: a stripe of 15 MiB that has lost all takes some bytes for
    /// each of its cells. Blocks are numbered by cell, then by their place in it.
    broken: BTreeMap<u32, Vec<(u32, u32)>>,
}

impl Damage {
    /// Tests whether every stripe is sound.
    pub(crate) fn is_empty(&self) -> bool {
        self.suspect.is_empty() && self.broken.is_empty()
    }

    /// Tests whether a stripe is neither suspect nor broken.
    pub(crate) fn is_sound(&self, logical: u32) -> bool {
        !self.is_suspect(logical) && !self.is_broken(logical)
    }

    pub(crate) fn is_suspect(&self, logical: u32) -> bool {
        self.suspect.contains(&logical)
    }

    pub(crate) fn is_broken(&self, logical: u32) -> bool {
        self.broken.contains_key(&logical)
    }

    pub(crate) fn has_broken(&self) -> bool {
        !self.broken.is_empty()
    }

    pub(crate) fn broken_stripes(&self) -> usize {
        self.broken.len()
    }

    /// Suspect stripes, ascending.
    pub(crate) fn suspects(&self) -> impl ExactSizeIterator<Item = u32> {
        self.suspect.iter().copied()
    }

    /// Something in a stripe does not verify. One that is broken stays so.
    pub(crate) fn suspect(&mut self, logical: u32) {
        if !self.is_broken(logical) {
            self.suspect.insert(logical);
        }
    }

    /// Writes a stripe again, also if that could not be done before.
    pub(crate) fn retry(&mut self, logical: u32) {
        self.broken.remove(&logical);
        self.suspect.insert(logical);
    }

    /// Writes all broken stripes again: with another device to read from that can be possible.
    pub(crate) fn retry_broken(&mut self) {
        self.suspect.extend(std::mem::take(&mut self.broken).into_keys());
    }

    /// A stripe is written again.
    pub(crate) fn mend(&mut self, logical: u32) {
        self.broken.remove(&logical);
        self.suspect.remove(&logical);
    }

    /// Notes that all suspect stripes are written again.
    pub(crate) fn mend_suspects(&mut self) {
        self.suspect.clear();
    }

    fn missing(&self, logical: u32) -> BTreeSet<u32> {
        let runs = self.broken.get(&logical).into_iter().flatten();
        runs.flat_map(|&(first, count)| first..first + count).collect()
    }

    /// Sets the missing blocks of a stripe.
    fn set(&mut self, logical: u32, missing: &BTreeSet<u32>) {
        self.suspect.remove(&logical);
        self.broken.insert(logical, runs_of(missing));
    }
}

impl Engine {
    fn block_number(&self, (cell, offset): Place) -> u32 {
        cell.0 * self.geometry.element_blocks() + offset
    }

    /// Notes blocks of a stripe that can neither be read nor computed. Parity is missing only
    /// together with data of the same offset.
    pub(crate) fn break_stripe(&mut self, logical: u32, missing: impl IntoIterator<Item = Place>) {
        let mut all = self.damage.missing(logical);
        all.extend(missing.into_iter().map(|place| self.block_number(place)));
        self.damage.set(logical, &all);
        self.is_not_written_anew(logical);
    }

    /// Notes blocks that were written or could be read. Stripes that miss nothing any more are
    /// written again.
    pub(crate) fn miss_no_longer(&mut self, blocks: impl Iterator<Item = UserBlock>) {
        if !self.damage.has_broken() {
            return;
        }
        let mut found: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for block in blocks {
            let (logical, place) = self.geometry.locate(block);
            if self.damage.is_broken(logical) {
                let number = self.block_number(self.geometry.cell_of(place));
                found.entry(logical).or_default().insert(number);
            }
        }
        for (logical, found) in found {
            let missing: BTreeSet<u32> = &self.damage.missing(logical) - &found;
            self.damage.set(logical, &missing);
            if self.missing_data(logical).next().is_none() {
                self.damage.retry(logical);
            }
        }
    }

    /// The missing blocks that users have, by their place in the stripe.
    fn missing_data(&self, logical: u32) -> impl Iterator<Item = u32> {
        let elements = self.geometry.element_blocks();
        let missing = self.damage.missing(logical);
        let data = (0..).zip(self.geometry.code.data());
        data.flat_map(move |(nth, cell)| {
            let of_cell = missing.range(cell.0 * elements..(cell.0 + 1) * elements);
            of_cell.map(|number| nth * elements + number % elements).collect::<Vec<u32>>()
        })
    }

    /// Returns true if a stripe cannot be written as a whole, even with its committing blocks.
    pub(crate) fn is_beyond_repair(&self, logical: u32) -> bool {
        let is_committing = |place| self.memory.is_committing(logical, place);
        self.damage.is_broken(logical) && !self.missing_data(logical).all(is_committing)
    }
}
