//! Criteria of the ranking, and their weights.

use std::fmt;

/// Criteria that codes are ranked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Criterion {
    /// Stored bytes per user byte.
    Space,
    /// Blocks moved for the trace.
    Io,
    /// Hours to rebuild a disk.
    Rebuild,
    /// Nines of the probability that a year brings no loss.
    Durability,
}

impl Criterion {
    /// All criteria, in the order of tables.
    pub const ALL: [Criterion; 4] =
        [Criterion::Space, Criterion::Io, Criterion::Rebuild, Criterion::Durability];

    /// Returns the name that options use.
    pub fn name(self) -> &'static str {
        match self {
            Criterion::Space => "space",
            Criterion::Io => "io",
            Criterion::Rebuild => "rebuild",
            Criterion::Durability => "durability",
        }
    }
}

/// A weight for each criterion; at least one is above 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights([f64; 4]);

impl Default for Weights {
    /// 2, 2, 1, 1: space and I/O are paid every day, rebuild and durability when a disk fails.
    fn default() -> Weights {
        Weights([2.0, 2.0, 1.0, 1.0])
    }
}

/// Reason why a text holds no weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WeightsError {
    /// A part that is not `criterion=number`.
    Part(String),
    /// A criterion named twice.
    Twice(&'static str),
    /// All weights are 0.
    Nothing,
}

impl fmt::Display for WeightsError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WeightsError::Part(part) => write!(
                out,
                "'{part}' is no weight; write space, io, rebuild or durability with a number from 0 to 100, such as space=2,io=1"
            ),
            WeightsError::Twice(name) => write!(out, "{name} has two weights; give one"),
            WeightsError::Nothing => write!(out, "nothing counts; give one of them a weight above 0"),
        }
    }
}

impl std::error::Error for WeightsError {}

impl Weights {
    /// Reads `space=2,io=1`; a criterion that is not named has weight 0.
    pub fn parse(text: &str) -> Result<Weights, WeightsError> {
        let mut weights = [None; 4];
        for part in text.split(',') {
            let wrong = || WeightsError::Part(part.to_string());
            let (name, weight) = part.split_once('=').ok_or_else(wrong)?;
            let named = |of: &Criterion| of.name() == name.trim();
            let of = Criterion::ALL.into_iter().find(named).ok_or_else(wrong)?;
            let is_plain = weight.bytes().all(|b| b.is_ascii_digit() || b == b'.');
            let weight: f64 = weight.parse().ok().filter(|_| is_plain).ok_or_else(wrong)?;
            if !(0.0..=100.0).contains(&weight) {
                return Err(wrong());
            }
            if weights[of as usize].replace(weight).is_some() {
                return Err(WeightsError::Twice(of.name()));
            }
        }
        let weights = weights.map(|weight| weight.unwrap_or(0.0));
        if weights.iter().sum::<f64>() > 0.0 { Ok(Weights(weights)) } else { Err(WeightsError::Nothing) }
    }

    /// Returns the weight of a criterion.
    pub fn of(&self, criterion: Criterion) -> f64 {
        self.0[criterion as usize]
    }

    /// Returns the weighted geometric mean.
    pub(super) fn mean(&self, values: [f64; 4]) -> f64 {
        let sum: f64 = self.0.iter().zip(values).map(|(weight, value)| weight * value.ln()).sum();
        (sum / self.0.iter().sum::<f64>()).exp()
    }
}

impl fmt::Display for Weights {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = Criterion::ALL.map(|of| format!("{}={}", of.name(), self.of(of)));
        write!(out, "{}", all.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn criteria_not_named_have_weight_0() {
        let weights = Weights::parse("io=3,space=1").expect("weights");
        assert_eq!(weights, Weights([1.0, 3.0, 0.0, 0.0]));
        assert!((weights.mean([16.0, 1.0, 9.0, 9.0]) - 2.0).abs() < 1e-12);
        assert_eq!(weights.to_string(), "space=1,io=3,rebuild=0,durability=0");
        assert_eq!(Weights::parse(&Weights::default().to_string()), Ok(Weights::default()));
    }

    #[test]
    fn bad_weights_are_named_in_the_message() {
        for wrong in
            ["", "space", "space=", "speed=1", "io=-1", "io=1e9", "io=nan", "io=inf", "io=101", "io=1,"]
        {
            assert!(matches!(Weights::parse(wrong), Err(WeightsError::Part(_))), "{wrong}");
        }
        assert_eq!(Weights::parse("io=1,io=2"), Err(WeightsError::Twice("io")));
        assert_eq!(Weights::parse("io=0,space=0"), Err(WeightsError::Nothing));
    }
}
