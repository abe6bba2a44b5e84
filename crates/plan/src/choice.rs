//! Default placement for a volume of a code.
//!
//! Rotated columns spread the load over all devices. But a set of devices then has to be survivable
//! in every turn, so fewer sets are than with fixed columns. Columns stay fixed if rotation gains
//! nothing, or if it makes sets fatal and the load stays within [`BUSIEST_MOST`].

use crate::prove::{Level, ProveOptions, prove};
use pantile_code::{Code, Placement};

/// The highest load of the busiest device of fixed columns, as a multiple of the mean; above it
/// columns rotate.
pub const BUSIEST_MOST: f64 = 2.0;

/// The load of the busiest device, as a multiple of the mean, up to which rotation gains nothing.
const EVEN: f64 = 1.1;

/// The number of levels above the tolerance in which placements are compared.
const LEVELS_BEYOND: usize = 3;

/// The kind of writes to the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Writes {
    /// Stripes are written as a whole, to all devices alike: reads decide which is busiest.
    Whole,
    /// A block is changed in place, with each parity that depends on it: writes count towards the
    /// load, too.
    InPlace,
}

/// A placement, and its comparison with another one.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The placement.
    pub placement: Placement,
    /// The load of the busiest device divided by the mean load, if columns are fixed.
    pub busiest: f64,
    /// The sets that are survivable with fixed columns only; `None` if none was found.
    pub loss: Option<RotationLoss>,
}

/// Counts for the smallest size of sets of which fewer survive if columns rotate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RotationLoss {
    /// The number of devices in a set.
    pub devices: usize,
    /// The number of sets that were tried: all, or a sample.
    pub sets: u64,
    /// The number of tried sets that survive with fixed columns.
    pub fixed: u64,
    /// The number of tried sets that survive with rotated columns.
    pub rotated: u64,
    /// True if the tried sets are a sample.
    pub is_sample: bool,
}

/// Returns the load of the busiest device divided by the mean load, if columns are fixed. The load
/// is reads of single blocks, and with writes in place as many writes.
pub fn busiest(code: &Code, writes: Writes) -> f64 {
    let mut loads = vec![0u64; code.columns()];
    let mut add = |cell, load| loads[code.cell(cell).column] += load;
    match writes {
        Writes::Whole => code.data().iter().for_each(|&cell| add(cell, 1)),
        // One read, and one write in place, which reads and writes the cell.
        Writes::InPlace => {
            code.data().iter().for_each(|&cell| add(cell, 3));
            let generator = code.generator();
            for (row, &parity) in code.parity().iter().enumerate() {
                let of = (0..generator.columns()).filter(|&j| !generator.get(row, j).is_zero());
                add(parity, 2 * of.count() as u64);
            }
        }
    }
    let (most, sum) = (loads.iter().max().copied().unwrap_or(0), loads.iter().sum::<u64>());
    most as f64 * code.columns() as f64 / sum.max(1) as f64
}

/// Returns the smallest sets of which a rotation survives fewer than fixed columns do. The counts
/// are exact, or from one sample for both if there are too many sets. Cost: a second at most.
pub fn rotation_loss(code: &Code, rotated: Placement) -> Option<RotationLoss> {
    if code.claim().mds || !code.columns_are_interchangeable() {
        return None;
    }
    let proved = |placement| {
        let options = ProveOptions {
            placement,
            lost_most: Some(code.claim().tolerance + LEVELS_BEYOND),
            sets_most: 200_000,
            work_most: 200_000_000,
            work_all: 500_000_000,
            sample: 2_000,
            fatal_most: 1,
            ..ProveOptions::default()
        };
        prove(code, &options, &|_, _, _| true).levels
    };
    let (fixed, rotated) = (proved(Placement::Fixed), proved(rotated));
    let differ = |&(fixed, rotated): &(&Level, &Level)| fixed.survived_share() > rotated.survived_share();
    fixed.iter().zip(&rotated).find(differ).map(|(fixed, rotated)| RotationLoss {
        devices: fixed.lost,
        sets: rotated.looked_at(),
        fixed: (fixed.survived_share() * rotated.looked_at() as f64).round() as u64,
        rotated: rotated.survived,
        is_sample: !(fixed.looked_at() == fixed.sets && rotated.looked_at() == rotated.sets),
    })
}

/// Returns the placement of a volume whose creator chose none.
pub fn usual_placement(code: &Code, writes: Writes) -> Choice {
    let busiest = busiest(code, writes);
    let loss = rotation_loss(code, Placement::ROTATED);
    let placement = match loss {
        _ if busiest <= EVEN => Placement::Fixed,
        Some(_) if busiest <= BUSIEST_MOST => Placement::Fixed,
        _ => Placement::spread(code),
    };
    Choice { placement, busiest, loss }
}
