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

    /// Whether every stripe can be had without these devices.
    ///
    /// Cost: none where the code bears any so many; else a rank for every turn.
    pub fn bears(&self, slots: &[Slot]) -> bool {
        let turns = match self.placement {
            Placement::Fixed => 1,
            Placement::Rotate => u64::from(self.devices),
        };
        if slots.len() <= self.tolerance {
            return true;
        }
        (0..turns).all(|turn| {
            let mut echelon = Echelon::new(self.equations);
            slots.iter().all(|&slot| {
                let column = self.placement.column(PhysicalStripe(turn), slot, self.devices);
                self.vectors[column.0 as usize].iter().all(|vector| echelon.insert(vector.clone()))
            })
        })
    }
}
