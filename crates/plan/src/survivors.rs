//! Surviving sets of devices, for a code under a placement.
//!
//! A set of devices is survivable if all its cells of every stripe can be computed from the other
//! devices: the equations, restricted to these cells, have full rank. Stripes whose columns are on
//! the same devices give the same result, so one stripe per turn of the placement is tested.
//!
//! A device that is being rebuilt has some cells before others. If a few rebuilt cells raise the
//! number of further losses that every stripe tolerates, [`Survivors::cells_ahead`] returns them.
//! For raidp these are the two copies that were lost together; an MDS code would need at least half
//! of a column, so it returns none.

use crate::independence::{Blocks, TestKind};
use pantile_code::{CellIndex, Code, Placement};
use std::sync::Arc;

/// The largest part of a column that is rebuilt ahead of the rest, as a divisor: a larger part is
/// not worth the reads of a second pass.
const PART_AHEAD: usize = 3;

/// The most steps, each of about a nanosecond, of a search for cells to rebuild ahead.
const AHEAD_WORK_MOST: u64 = 300_000_000;

/// The survivable sets of devices, for a code under a placement.
#[derive(Clone, Debug)]
pub struct Survivors {
    blocks: Arc<Blocks>,
    placement: Placement,
    tolerance: usize,
}

impl Survivors {
    /// Assumes that the code's claim is true: sets no larger than the claimed tolerance are not
    /// examined.
    pub fn new(code: &Code, placement: Placement) -> Survivors {
        let (blocks, tolerance) = (Arc::new(Blocks::new(code)), code.claim().tolerance);
        Survivors { blocks, placement, tolerance }
    }

    /// Returns the number of devices: one for each column.
    pub fn devices(&self) -> usize {
        self.blocks.count()
    }

    /// Returns the number of devices that can be lost, whichever they are, by the claim of the
    /// code.
    pub fn tolerance(&self) -> usize {
        self.tolerance
    }

    /// Returns true if every stripe can be read without these devices.
    ///
    /// Cost: one elimination per turn of the placement; none if there are no more devices than the
    /// claimed tolerance, or if more cells are lost than there are equations.
    pub fn survive(&self, devices: &[usize]) -> bool {
        if devices.len() <= self.tolerance {
            return true;
        }
        let cells = |&device: &usize| self.blocks.rows(device);
        // In the first turn each device stores the column with its number.
        let is_hopeless = devices.iter().map(cells).sum::<usize>() > self.blocks.equations();
        !is_hopeless && self.blocks.placed(TestKind::Sparse, self.placement).first_fatal(devices, 0).is_none()
    }

    /// Returns true if every stripe can be read without these devices, except for their cells
    /// `there`, which are available and in ascending order. Under a placement that rotates `there`
    /// is ignored.
    ///
    /// Cost: as [`Survivors::survive`].
    pub fn survive_but(&self, devices: &[usize], there: &[CellIndex]) -> bool {
        let is_plain = there.is_empty() || self.placement != Placement::Fixed;
        self.survive(devices) || (!is_plain && self.blocks.sparse().survives_but(devices, there))
    }

    /// Returns the cells to rebuild first, in ascending order, after which no further single loss
    /// is fatal. `lost` devices are lost, and `rebuilt` are those of them that are being rebuilt.
    /// `None` if no single loss is fatal already, if more than a third of a column would be needed,
    /// under a placement that rotates, or if the search would take too long.
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
        // Adds one cell at a time: the one that leaves the fewest fatal losses.
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

    /// Returns the most products in GF(2^8) that [`Survivors::survive`] takes for `devices`
    /// devices.
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
                // With the cell rebuilt, each third disk can be lost; without it, not every one
                // can.
                let all = (0..code.columns()).filter(|device| ![a, b].contains(device));
                let sets: Vec<Vec<usize>> = all.map(|device| vec![a, b, device]).collect();
                assert!(sets.iter().all(|set| survivors.survive_but(set, &ahead)));
                assert!(!sets.iter().all(|set| survivors.survive(set)));
                // If only one disk is rebuilt, the cell is on that disk.
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
