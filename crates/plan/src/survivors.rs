//! Surviving sets of devices, for a code under a placement.
//!
//! A set of devices survives if, all that they hold of every stripe can be computed from the
//! others: the equations, restricted to the cells of the columns that they hold, have full rank.
//! Stripes whose columns are on the same devices are alike, so one stripe of each turn of the
//! placement decides.
//!
//! A device that is being rebuilt has some cells before others. Where a few cells raise the number
//! of further losses that every stripe tolerates, [`Survivors::cells_ahead`] returns them: the two
//! copies of raidp that were lost together, and no cell of an MDS code, which needs at least half
//! of a column.

use crate::independence::{Blocks, TestKind};
use pantile_code::{CellIndex, Code, Placement};
use std::sync::Arc;

/// The part of a column, as a divisor, that may be rebuilt ahead of the rest: reading for a second
/// pass must be worth it.
const PART_AHEAD: usize = 3;

/// Steps, of about a nanosecond each, to look for cells to rebuild ahead.
const AHEAD_WORK_MOST: u64 = 300_000_000;

/// The sets of devices that survive.
#[derive(Clone, Debug)]
pub struct Survivors {
    blocks: Arc<Blocks>,
    placement: Placement,
    tolerance: usize,
}

impl Survivors {
    /// For a code with a true claim: sets within the claim are not examined.
    pub fn new(code: &Code, placement: Placement) -> Survivors {
        let (blocks, tolerance) = (Arc::new(Blocks::new(code)), code.claim().tolerance);
        Survivors { blocks, placement, tolerance }
    }

    /// Returns the number of devices: one for each column.
    pub fn devices(&self) -> usize {
        self.blocks.count()
    }

    /// Any so many devices can be lost.
    pub fn tolerance(&self) -> usize {
        self.tolerance
    }

    /// Returns true if every stripe can be read without these devices.
    ///
    /// Cost: none where the code tolerates any so many, or where more cells are lost than there are
    /// equations; else an elimination for every turn.
    pub fn survive(&self, devices: &[usize]) -> bool {
        if devices.len() <= self.tolerance {
            return true;
        }
        let cells = |&device: &usize| self.blocks.rows(device);
        // In the first turn each device holds the column of its number.
        let is_hopeless = devices.iter().map(cells).sum::<usize>() > self.blocks.equations();
        !is_hopeless && self.blocks.placed(TestKind::Sparse, self.placement).first_fatal(devices, 0).is_none()
    }

    /// Returns true if every stripe can be read without these devices but for some cells of theirs,
    /// which are in order and still there. Under a placement that rotates no cell counts as there.
    ///
    /// Cost: as [`Survivors::survive`].
    pub fn survive_but(&self, devices: &[usize], there: &[CellIndex]) -> bool {
        let is_plain = there.is_empty() || self.placement != Placement::Fixed;
        self.survive(devices) || (!is_plain && self.blocks.sparse().survives_but(devices, there))
    }

    /// Returns the cells to rebuild before others when devices are `lost`, some of them are
    /// `rebuilt`, and one more loss would be fatal: with these cells none is. They are in order.
    /// `None` if they would be more than a third of some column, under a placement that rotates, or
    /// if there are too many devices to find out.
    ///
    /// Cost: at most 0.3 s, for the largest codes.
    pub fn cells_ahead(&self, lost: &[usize], rebuilt: &[usize]) -> Option<Vec<CellIndex>> {
        if self.placement != Placement::Fixed || !self.survive(lost) {
            return None;
        }
        let mut test = self.blocks.sparse();
        let mut survives = |device: usize, there: &[CellIndex]| {
            let set: Vec<usize> = lost.iter().copied().chain([device]).collect();
            test.work() <= AHEAD_WORK_MOST && test.survives_but(&set, there)
        };
        let others = (0..self.devices()).filter(|device| !lost.contains(device));
        let mut fatal: Vec<usize> = others.filter(|&device| !survives(device, &[])).collect();
        let part = |&device: &usize| (device, self.blocks.rows(device) / PART_AHEAD);
        let mut left: Vec<(usize, usize)> = rebuilt.iter().map(part).collect();
        let mut there: Vec<CellIndex> = Vec::new();
        // One cell after the other, each time the one with which the fewest losses are fatal.
        while !fatal.is_empty() {
            let open = left.iter().filter(|(_, cells)| *cells > 0);
            let open =
                open.flat_map(|&(device, _)| self.blocks.cells(device).map(move |cell| (cell, device)));
            let with = open.map(|(cell, device)| {
                let mut with = there.clone();
                with.insert(with.partition_point(|&other| other < cell), cell);
                let still: Vec<usize> =
                    fatal.iter().copied().filter(|&other| !survives(other, &with)).collect();
                (still, device, with)
            });
            let (still, device, with) = with.min_by_key(|(still, ..)| still.len())?;
            if still.len() == fatal.len() {
                return None;
            }
            left.iter_mut().filter(|(of, _)| *of == device).for_each(|(_, cells)| *cells -= 1);
            (fatal, there) = (still, with);
        }
        (!there.is_empty()).then_some(there)
    }

    /// Returns the most products in GF(2^8) that [`Survivors::survive`] takes for so many devices.
    pub fn products(&self, devices: usize) -> f64 {
        let rows = || (0..self.devices()).map(|column| self.blocks.rows(column));
        let (longest, fewest) = (rows().max().unwrap_or(0), rows().min().unwrap_or(0));
        if devices <= self.tolerance || devices * fewest > self.blocks.equations() {
            return 0.0;
        }
        let turns = self.placement.turns(self.devices());
        turns as f64 * ((devices * longest) as f64).powi(2) * self.blocks.equations() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survivors(spec: &str, placement: Placement) -> (Code, Survivors) {
        let code = Code::parse(spec).expect("a spec");
        let survivors = Survivors::new(&code, placement);
        (code, survivors)
    }

    #[test]
    fn two_lost_disks_of_raidp_are_safe_again_with_the_one_superchunk_that_they_share() {
        for disks in [4, 5, 6, 9, 16] {
            let (code, survivors) = survivors(&format!("raidp:{disks}"), Placement::Fixed);
            for (a, b) in [(0, 1), (1, disks - 1), (0, disks / 2)] {
                let ahead = survivors.cells_ahead(&[a, b], &[a, b]).expect("a few cells");
                assert_eq!(ahead.len(), 1, "raidp:{disks} without {a} and {b}: {ahead:?}");
                // Any one of the others can be lost beside them, and could not before.
                let all = (0..code.columns()).filter(|device| ![a, b].contains(device));
                let sets: Vec<Vec<usize>> = all.map(|device| vec![a, b, device]).collect();
                assert!(sets.iter().all(|set| survivors.survive_but(set, &ahead)));
                assert!(!sets.iter().all(|set| survivors.survive(set)));
                // With one new disk it is the same cell or its copy.
                let ahead = survivors.cells_ahead(&[a, b], &[a]).expect("a few cells");
                assert_eq!((ahead.len(), code.cell(ahead[0]).column), (1, a));
            }
        }
    }

    #[test]
    fn codes_that_need_most_of_a_column_have_no_cells_ahead() {
        let specs =
            [("raid6:4", vec![0, 1]), ("dcode:7", vec![0, 3]), ("mirror:2", vec![0]), ("raidp:6", vec![0])];
        for (spec, lost) in specs {
            let (_, survivors) = survivors(spec, Placement::Fixed);
            assert_eq!(survivors.cells_ahead(&lost, &lost), None, "{spec}");
        }
        assert_eq!(
            survivors("raidp:6", Placement::Fixed).1.cells_ahead(&[0, 1, 2], &[0]),
            None,
            "data are lost"
        );
    }

    #[test]
    fn the_cells_ahead_of_the_widest_raidp_are_found_in_time() {
        let (_, survivors) = survivors("raidp:64", Placement::Fixed);
        assert_eq!(survivors.cells_ahead(&[3, 40], &[3, 40]).map(|cells| cells.len()), Some(1));
    }
}
