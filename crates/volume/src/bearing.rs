//! Sets of devices that can be lost: those that a code survives as a volume lays it.

use crate::Slot;
use pantile_code::{Code, Placement};
use pantile_plan::Survivors;

/// The sets of devices that a volume survives.
#[derive(Clone, Debug)]
pub struct Bearing(Survivors);

impl Bearing {
    /// Takes the sets of a code whose claims are true.
    pub fn new(code: &Code, placement: Placement) -> Bearing {
        Bearing(Survivors::new(code, placement))
    }

    /// Devices of the volume.
    pub fn devices(&self) -> u32 {
        self.0.devices() as u32
    }

    /// Returns the number of devices that can be lost, whichever they are.
    pub fn tolerance(&self) -> usize {
        self.0.tolerance()
    }

    /// Returns true if every stripe can be read without these devices.
    pub fn bears(&self, slots: &[Slot]) -> bool {
        let devices: Vec<usize> = slots.iter().map(|slot| slot.0 as usize).collect();
        self.0.survive(&devices)
    }

    /// Returns the most products in GF(2^8) that [`Bearing::bears`] takes for this many devices.
    pub fn products(&self, devices: usize) -> f64 {
        self.0.products(devices)
    }
}
