//! The placement of the columns of a stripe on devices. It is not part of the code.
//!
//! A code defines which sets of *columns* are survivable, but devices fail. If columns stay on
//! their devices, both are the same. If columns move from stripe to stripe, a set of devices is
//! survivable only if the columns on it are in every stripe. The superchunks of RAIDP need no
//! placement: they are cells of its code, whose columns are fixed.

use crate::Code;
use std::fmt;
use std::str::FromStr;

/// The largest step that is accepted: volumes have at most 256 devices.
const STEP_MOST: u32 = 255;

/// The device of each column, stripe by stripe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Placement {
    /// Device d holds column d of every stripe.
    #[default]
    Fixed,
    /// Device (c + step * s) mod n holds column c of stripe s.
    Rotated {
        /// The number of devices by which a column moves from one stripe to the next, from 1.
        step: u32,
    },
}

impl Placement {
    /// Columns move by one device from stripe to stripe.
    pub const ROTATED: Placement = Placement::Rotated { step: 1 };

    /// Returns the placement with the most even load: rotated if the columns are interchangeable.
    pub fn spread(code: &Code) -> Placement {
        match code.columns_are_interchangeable() {
            true => Placement::ROTATED,
            false => Placement::Fixed,
        }
    }

    /// Returns the number of the placement in the stored format: 0 for fixed, otherwise the step.
    pub fn number(self) -> u32 {
        match self {
            Placement::Fixed => 0,
            Placement::Rotated { step } => step,
        }
    }

    /// Returns the placement with a number; `None` if there is none.
    pub fn of_number(number: u32) -> Option<Placement> {
        match number {
            0 => Some(Placement::Fixed),
            1..=STEP_MOST => Some(Placement::Rotated { step: number }),
            _ => None,
        }
    }

    /// Returns the column of a stripe that a device stores. Panics unless device < devices.
    pub fn column(self, stripe: u64, device: usize, devices: usize) -> usize {
        assert!(device < devices, "device {device} of {devices}");
        (device + devices - self.shift(stripe, devices)) % devices
    }

    /// Returns the device that stores a column of a stripe. Panics unless column < devices.
    pub fn device(self, stripe: u64, column: usize, devices: usize) -> usize {
        assert!(column < devices, "column {column} of {devices}");
        (column + self.shift(stripe, devices)) % devices
    }

    /// Returns the number of turns: after so many stripes the columns are on their first devices
    /// again.
    pub fn turns(self, devices: usize) -> usize {
        match self {
            Placement::Fixed => 1,
            Placement::Rotated { step } => devices / common(devices, step as usize % devices.max(1)),
        }
    }

    fn shift(self, stripe: u64, devices: usize) -> usize {
        let (step, devices) = (u64::from(self.number()), devices as u64);
        ((stripe % devices) * (step % devices) % devices) as usize
    }
}

/// Returns the greatest common divisor; of 0 and n it is n.
fn common(a: usize, b: usize) -> usize {
    if b == 0 { a.max(1) } else { common(b, a % b) }
}

impl fmt::Display for Placement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::Fixed => out.write_str("fixed"),
            Placement::Rotated { step: 1 } => out.write_str("rotated"),
            Placement::Rotated { step } => write!(out, "rotated:{step}"),
        }
    }
}

/// An error: a word names no placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPlacement {
    /// The word.
    pub word: String,
}

impl fmt::Display for NoPlacement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "'{}' is no placement: write fixed, rotated, or rotated:STEP with a step from 1 to {STEP_MOST}",
            self.word
        )
    }
}

impl std::error::Error for NoPlacement {}

impl FromStr for Placement {
    type Err = NoPlacement;

    fn from_str(word: &str) -> Result<Placement, NoPlacement> {
        let step = word.strip_prefix("rotated:").and_then(|step| step.parse().ok());
        match (word, step) {
            ("fixed", _) => Ok(Placement::Fixed),
            ("rotated", _) => Ok(Placement::ROTATED),
            (_, Some(step @ 1..=STEP_MOST)) => Ok(Placement::Rotated { step }),
            _ => Err(NoPlacement { word: word.to_string() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_and_devices_are_each_others_inverse() {
        for devices in 1..=12 {
            for placement in [Placement::Fixed, Placement::ROTATED, Placement::Rotated { step: 3 }] {
                for (stripe, device) in (0..40).flat_map(|s| (0..devices).map(move |d| (s, d))) {
                    let column = placement.column(stripe, device, devices);
                    assert_eq!(placement.device(stripe, column, devices), device);
                    let again = stripe + placement.turns(devices) as u64;
                    assert_eq!(placement.column(again, device, devices), column);
                }
            }
        }
        assert_eq!(Placement::ROTATED.column(7, 4, 5), 2);
        assert_eq!(Placement::Rotated { step: 2 }.device(3, 1, 5), 2);
        assert_eq!(Placement::ROTATED.column(u64::MAX, 0, 256), 1);
    }

    #[test]
    fn a_step_that_divides_the_devices_has_fewer_turns() {
        let turns = |step| Placement::Rotated { step }.turns(8);
        assert_eq!([1, 2, 3, 4, 6, 8, 9].map(turns), [8, 4, 8, 2, 4, 1, 8]);
        assert_eq!((Placement::Fixed.turns(8), Placement::ROTATED.turns(1)), (1, 1));
    }

    #[test]
    fn every_name_is_read_as_it_is_written() {
        for placement in [Placement::Fixed, Placement::ROTATED, Placement::Rotated { step: 255 }] {
            assert_eq!(placement.to_string().parse(), Ok(placement));
            assert_eq!(Placement::of_number(placement.number()), Some(placement));
        }
        for word in ["", "rotate", "rotated:", "rotated:0", "rotated:256", "rotated:-1", "Fixed"] {
            assert!(word.parse::<Placement>().is_err(), "{word}");
        }
        assert_eq!(Placement::of_number(256), None);
    }

    #[test]
    fn add_ons_stay_where_they_are() {
        let of = |spec| Placement::spread(&Code::parse(spec).expect("a spec"));
        assert_eq!((of("raid6:4"), of("raidp:4")), (Placement::ROTATED, Placement::Fixed));
    }
}
