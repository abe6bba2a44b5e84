//! Which devices may be lost: by the equations, not by their number.
//!
//! A set of devices may be lost if, of every stripe, what lies on them can be had from the others:
//! the equations, restricted to the cells of the set, have full rank. Where columns are turned from
//! stripe to stripe, that has to hold for every turn.

use crate::Slot;
use pantile_code::Code;
use pantile_format::volume::{PhysicalStripe, Placement};
use pantile_gf::{Echelon, Gf};

/// What a code bears as it is laid over devices.
#[derive(Clone, Debug)]
pub struct Bearing {
    devices: u32,
    tolerance: usize,
    placement: Placement,
    equations: usize,
    /// By column and cell: its coefficient in every equation.
    vectors: Vec<Vec<Vec<Gf>>>,
}

impl Bearing {
    /// Of a code that claims what is true.
    pub fn new(code: &Code, placement: Placement) -> Bearing {
        let vector = |cell| code.equations().iter().map(|equation| equation.coefficient(cell)).collect();
        let column = |column| code.column_cells(column).map(vector).collect();
        Bearing {
            devices: code.columns() as u32,
            tolerance: code.claim().tolerance,
            placement,
            equations: code.equations().len(),
            vectors: (0..code.columns()).map(column).collect(),
        }
    }

    /// Devices of the volume.
    pub fn devices(&self) -> u32 {
        self.devices
    }

    /// Any so many devices can be lost.
    pub fn tolerance(&self) -> usize {
        self.tolerance
    }

    /// Whether every stripe can be had without these devices.
    ///
    /// Cost: none where the code bears any so many, or where more cells are lost than there are
    /// equations; else a rank for every turn.
    pub fn bears(&self, slots: &[Slot]) -> bool {
        if slots.len() <= self.tolerance {
            return true;
        }
        (0..self.turns()).all(|turn| {
            let lost: Vec<&Vec<Vec<Gf>>> = slots.iter().map(|&slot| self.column(turn, slot)).collect();
            if lost.iter().map(|column| column.len()).sum::<usize>() > self.equations {
                return false;
            }
            let mut echelon = Echelon::new(self.equations);
            lost.into_iter().flatten().all(|vector| echelon.insert(vector.clone()))
        })
    }

    /// Products in GF(2^8) that [`Bearing::bears`] takes at most for one set of so many devices.
    pub fn products(&self, devices: usize) -> f64 {
        let longest = self.vectors.iter().map(Vec::len).max().unwrap_or(0);
        let fewest = self.vectors.iter().map(Vec::len).min().unwrap_or(0);
        if devices <= self.tolerance || devices * fewest > self.equations {
            return 0.0;
        }
        self.turns() as f64 * ((devices * longest) as f64).powi(2) * self.equations as f64
    }

    fn turns(&self) -> u64 {
        match self.placement {
            Placement::Fixed => 1,
            Placement::Rotate => u64::from(self.devices),
        }
    }

    /// The cells on a device in stripes of this turn.
    fn column(&self, turn: u64, slot: Slot) -> &Vec<Vec<Gf>> {
        let column = self.placement.column(PhysicalStripe(turn), slot, self.devices);
        &self.vectors[column.0 as usize]
    }
}
