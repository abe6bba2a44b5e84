//! Devices that answer more slowly than the others, and reads that avoid them.
//!
//! The driver measures how many times as long as the others a device takes. A cell that is read
//! from a slow device costs this factor; the cheapest plan of the code without the device costs one
//! for each cell that it reads. The cheaper way is taken. An avoided device is not lost: it is
//! written like any other, and is read if the others are not enough. None of this is stored.
//!
//! Only users' reads avoid devices. Repairs, verification and scrubs read each block in its place,
//! however slow. Computed blocks are verified if memory has the chunk's header, as with a lost
//! device.

use crate::Slot;
use crate::engine::Engine;
use crate::maps::Mapping;
use pantile_code::CellIndex;
use pantile_plan::{CellSet, Plan};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Engine {
    /// Sets the pace of a device: a read takes this many times as long as on the others; 1: as
    /// long.
    pub(crate) fn set_pace(&mut self, slot: Slot, times: u32) {
        if (slot.0 as usize) < self.geometry.slots() {
            self.members.set_pace(slot, times);
        }
    }

    /// Returns the cell to read for a data cell of a stripe: itself, or its copy. Even and odd
    /// stripes alternate, so that both devices read equally much. A device that lacks its cell, has
    /// a bad one or is slow is avoided if the other is better.
    pub(crate) fn cell_to_read(&self, logical: u32, mapping: Mapping, cell: CellIndex) -> CellIndex {
        let Some(copy) = self.geometry.copy_of(cell) else { return cell };
        let faults = |cell: CellIndex| {
            let (slot, _) = self.geometry.cell_block(mapping.physical, cell, 0);
            let row = self.geometry.code.cell(cell).row;
            let is_bad = !self.maps.has_row(slot, mapping.generation, logical, row)
                || self.maps.notes().bad.has_stripe(slot, logical);
            (is_bad, self.members.is_slow(slot))
        };
        let (first, second) = if logical.is_multiple_of(2) { (cell, copy) } else { (copy, cell) };
        if faults(second) < faults(first) { second } else { first }
    }

    /// Returns the cells of a stripe to compute. These are the cells that are gone, and also those
    /// on slow devices if that costs less than to read them.
    pub(crate) fn avoided_cells(
        &mut self,
        mapping: Mapping,
        gone: CellSet,
        wanted: &BTreeSet<CellIndex>,
    ) -> CellSet {
        let Some((avoided, made)) = self.could_avoid(mapping, &gone, wanted) else { return gone };
        let Some(around) = self.planners.recover_in_stripe(&avoided, &made) else { return gone };
        let lost: BTreeSet<CellIndex> = wanted.iter().copied().filter(|&cell| gone.contains(cell)).collect();
        let through = if lost.is_empty() { None } else { self.planners.recover_in_stripe(&gone, &lost) };
        match self.is_cheaper(mapping, &around, through.as_ref(), wanted, &gone) {
            true => avoided,
            false => gone,
        }
    }

    /// Returns [`Engine::avoided_cells`] from plans made before; `None`: one was not made.
    pub(crate) fn avoided_cells_known(
        &self,
        mapping: Mapping,
        gone: CellSet,
        wanted: &BTreeSet<CellIndex>,
    ) -> Option<CellSet> {
        let Some((avoided, made)) = self.could_avoid(mapping, &gone, wanted) else { return Some(gone) };
        let around = self.planners.known_in_stripe(&avoided, &made)?;
        let lost: BTreeSet<CellIndex> = wanted.iter().copied().filter(|&cell| gone.contains(cell)).collect();
        let through = if lost.is_empty() { None } else { Some(self.planners.known_in_stripe(&gone, &lost)?) };
        match self.is_cheaper(mapping, &around, through.as_ref(), wanted, &gone) {
            true => Some(avoided),
            false => Some(gone),
        }
    }

    /// Returns the cells that are gone or on slow devices, and those of them that are wanted.
    /// `None`: no device is slow, or no wanted cell is gone or on a slow device.
    fn could_avoid(
        &self,
        mapping: Mapping,
        gone: &CellSet,
        wanted: &BTreeSet<CellIndex>,
    ) -> Option<(CellSet, BTreeSet<CellIndex>)> {
        if self.members.slow().len() == 0 {
            return None;
        }
        let mut avoided = gone.clone();
        for slot in self.members.slow() {
            let column = self.geometry.column(mapping.physical, slot);
            self.geometry.code.column_cells(column).for_each(|cell| avoided.insert(cell));
        }
        let made: BTreeSet<CellIndex> =
            wanted.iter().copied().filter(|&cell| avoided.contains(cell)).collect();
        (!made.is_empty()).then_some((avoided, made))
    }

    /// Returns true if a plan that reads no slow device costs less than the plain way. That way
    /// reads the wanted cells in their places, and computes those that are gone by the plan
    /// `through`.
    fn is_cheaper(
        &self,
        mapping: Mapping,
        around: &Plan,
        through: Option<&Arc<Plan>>,
        wanted: &BTreeSet<CellIndex>,
        gone: &CellSet,
    ) -> bool {
        let cost = |cell: CellIndex| {
            let slot = self.geometry.slot(mapping.physical, self.geometry.code.cell(cell).column);
            u64::from(self.members.pace(slot))
        };
        // Cells on devices that are not slow are read by both plans.
        let there = wanted.iter().copied().filter(|&cell| !gone.contains(cell) && cost(cell) > 1);
        let read: BTreeSet<CellIndex> =
            there.chain(through.iter().flat_map(|plan| plan.reads.iter().copied())).collect();
        (around.reads.len() as u64) < read.into_iter().map(cost).sum()
    }
}
