//! Surviving sets of devices, for a code under a placement.
//!
//! A set of devices survives if, all that they hold of every stripe can be computed from the
//! others: the equations, restricted to the cells of the columns that they hold, have full rank.
//! Stripes whose columns are on the same devices are alike, so one stripe of each turn of the
//! placement decides.

use crate::independence::{Blocks, TestKind};
use pantile_code::{Code, Placement};
use std::sync::Arc;

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
