//! Sets of devices that can be lost: those that the code of a volume survives under its placement.

use crate::Slot;
use pantile_code::{CellIndex, Code, Placement};
use pantile_plan::Survivors;
use std::collections::BTreeMap;

/// The sets of devices that a volume survives.
#[derive(Clone, Debug)]
pub struct Bearing {
    survivors: Survivors,
    code: Code,
}

impl Bearing {
    /// Computes the sets for a code whose claims are true.
    pub fn new(code: &Code, placement: Placement) -> Bearing {
        Bearing { survivors: Survivors::new(code, placement), code: code.clone() }
    }

    /// Returns the number of devices of the volume.
    pub fn devices(&self) -> u32 {
        self.survivors.devices() as u32
    }

    /// Returns the number of devices that can be lost, whichever they are.
    pub fn tolerance(&self) -> usize {
        self.survivors.tolerance()
    }

    /// Returns true if every stripe can be read without these devices.
    pub fn bears(&self, slots: &[Slot]) -> bool {
        let devices: Vec<usize> = slots.iter().map(|slot| slot.0 as usize).collect();
        self.survivors.survive(&devices)
    }

    /// Returns true if every stripe can be read without these devices, if the cells `there` can
    /// still be read from them.
    pub fn bears_but(&self, slots: &[Slot], there: &[CellIndex]) -> bool {
        let devices: Vec<usize> = slots.iter().map(|slot| slot.0 as usize).collect();
        self.survivors.survive_but(&devices, there)
    }

    /// Returns the rows to rebuild ahead of others when devices are `lost` and some of them are
    /// `rebuilt`: by device, bit r for row r of its column. Until these rows are rebuilt one more
    /// loss can be fatal; afterwards none is. Empty if the rows would be a large part of a column.
    ///
    /// Cost: at most 0.3 s, for the largest codes.
    pub(crate) fn rows_ahead(&self, lost: &[Slot], rebuilt: &[Slot]) -> BTreeMap<Slot, u64> {
        let numbers = |slots: &[Slot]| slots.iter().map(|slot| slot.0 as usize).collect::<Vec<usize>>();
        let mut rows = BTreeMap::new();
        let cells = self.survivors.cells_ahead(&numbers(lost), &numbers(rebuilt));
        for cell in cells.unwrap_or_default() {
            let cell = self.code.cell(cell);
            if cell.row >= u64::BITS as usize {
                return BTreeMap::new();
            }
            *rows.entry(Slot(cell.column as u32)).or_default() |= 1 << cell.row;
        }
        rows
    }

    /// Returns the most products in GF(2^8) that [`Bearing::bears`] computes for this many devices.
    pub fn products(&self, devices: usize) -> f64 {
        self.survivors.products(devices)
    }
}
