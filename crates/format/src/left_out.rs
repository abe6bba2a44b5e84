//! Exclusions of a set, stated once and stored in the set.
//!
//! A reader that does not know the exclusions may ignore them: the sealed files are the same, and
//! only excluded files look new to it. A writer that does not know them clears the feature bit.
//! Then nothing is excluded any more, because the fields are valid only with the bit.

use crate::fields::{SET_ONE_FILE_SYSTEM, SET_PATTERN};
use crate::{Features, Manifest};

/// Exclusions of a set from its sources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LeftOut {
    /// Patterns in the words of a `.gitignore`, in their order.
    pub patterns: Vec<String>,
    /// True if other file systems mounted below a source are excluded.
    pub other_systems: bool,
}

impl LeftOut {
    /// The most patterns.
    pub const PATTERNS_MOST: usize = 1000;
    /// The most bytes of all patterns together: the cost of matching a path grows with this length.
    pub const BYTES_MOST: usize = 64 << 10;

    /// True if nothing is left out.
    pub fn is_nothing(&self) -> bool {
        self.patterns.is_empty() && !self.other_systems
    }

    /// True if the exclusions are within the limits of the format.
    pub fn fits(&self) -> bool {
        let bytes: usize = self.patterns.iter().map(String::len).sum();
        self.patterns.len() <= LeftOut::PATTERNS_MOST && bytes <= LeftOut::BYTES_MOST
    }
}

impl Manifest {
    /// Returns the exclusions of the set; none if they exceed the limits of the format.
    pub fn left_out(&self) -> LeftOut {
        if self.features.ignorable & Features::LEFT_OUT == 0 {
            return LeftOut::default();
        }
        let patterns = self.fields.get(SET_PATTERN).take(LeftOut::PATTERNS_MOST + 1);
        let patterns = patterns.filter_map(|bytes| String::from_utf8(bytes.to_vec()).ok()).collect();
        let other_systems = self.fields.get(SET_ONE_FILE_SYSTEM).next().is_some();
        Some(LeftOut { patterns, other_systems }).filter(LeftOut::fits).unwrap_or_default()
    }

    /// Sets the exclusions of the set.
    pub fn set_left_out(&mut self, left_out: &LeftOut) {
        self.fields.0.retain(|field| ![SET_PATTERN, SET_ONE_FILE_SYSTEM].contains(&field.tag));
        self.features.ignorable &= !Features::LEFT_OUT;
        if left_out.is_nothing() {
            return;
        }
        self.features.ignorable |= Features::LEFT_OUT;
        left_out.patterns.iter().for_each(|pattern| self.fields.push(SET_PATTERN, pattern.as_bytes()));
        if left_out.other_systems {
            self.fields.push(SET_ONE_FILE_SYSTEM, &[]);
        }
    }
}
