//! Damaged stripes: *suspect* ones, which the next commit writes again, and *broken* ones, of which
//! more is bad than the code tolerates.
//!
//! A stripe is suspect from the moment that something in it does not verify until a record says
//! that it is written again. A broken stripe cannot be written again, because blocks of it are
//! lost. Its writes go to the log and stay there; without a log they wait in memory until they
//! replace all lost blocks. The stripe is written again once no block is missing: each was written
//! or could be read after all, or another device has come.
//!
//! No stripe is both. A failed attempt to write a suspect stripe finds a missing block, which makes
//! it broken, so no stripe is tried over and over.

use crate::UserBlock;
use crate::commit::runs_of;
use crate::engine::Engine;
use crate::span::Place;
use std::collections::{BTreeMap, BTreeSet};

/// Logical stripes that are suspect or broken.
#[derive(Debug, Default)]
pub(crate) struct Damage {
    suspect: BTreeSet<u32>,
    /// Missing blocks of each stripe as runs: a stripe of 15 MiB that has lost everything takes
    /// some bytes per cell. Blocks are numbered by cell, then by offset in the cell.
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

    /// Notes that something in a stripe does not verify. A broken stripe stays broken.
    pub(crate) fn suspect(&mut self, logical: u32) {
        if !self.is_broken(logical) {
            self.suspect.insert(logical);
        }
    }

    /// Makes a stripe suspect, so that it is written again, even if that failed before.
    pub(crate) fn retry(&mut self, logical: u32) {
        self.broken.remove(&logical);
        self.suspect.insert(logical);
    }

    /// Makes all broken stripes suspect: with another device to read from, writing them can
    /// succeed.
    pub(crate) fn retry_broken(&mut self) {
        self.suspect.extend(std::mem::take(&mut self.broken).into_keys());
    }

    /// Notes that a stripe is written again.
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

    /// Notes blocks of a stripe that can neither be read nor computed. Missing parity always comes
    /// with missing data at the same offset.
    pub(crate) fn break_stripe(&mut self, logical: u32, missing: impl IntoIterator<Item = Place>) {
        let mut all = self.damage.missing(logical);
        all.extend(missing.into_iter().map(|place| self.block_number(place)));
        self.damage.set(logical, &all);
        self.is_not_written_anew(logical);
    }

    /// Removes blocks that were written or could be read from the missing ones. Stripes without
    /// missing blocks are written again.
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

    /// Returns the missing data blocks, by their place in the stripe.
    fn missing_data(&self, logical: u32) -> impl Iterator<Item = u32> {
        let elements = self.geometry.element_blocks();
        let missing = self.damage.missing(logical);
        let data = (0..).zip(self.geometry.code.data());
        data.flat_map(move |(nth, cell)| {
            let of_cell = missing.range(cell.0 * elements..(cell.0 + 1) * elements);
            of_cell.map(|number| nth * elements + number % elements).collect::<Vec<u32>>()
        })
    }

    /// Returns true if a stripe cannot be written as a whole, even with the blocks of it that are
    /// being committed.
    pub(crate) fn is_beyond_repair(&self, logical: u32) -> bool {
        let is_committing = |place| self.memory.is_committing(logical, place);
        self.damage.is_broken(logical) && !self.missing_data(logical).all(is_committing)
    }
}
