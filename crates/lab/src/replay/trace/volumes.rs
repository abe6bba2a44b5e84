//! Volumes of a trace: those of its requests, and the one that is read.

use std::collections::HashMap;
use std::fmt;

/// Requests of each volume of a trace, the most first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volumes {
    /// The name of each volume, and the number of its requests.
    pub found: Vec<(String, u64)>,
    /// True if there can be more: the trace was not read to its end, or has very many.
    pub is_part: bool,
}

impl fmt::Display for Volumes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        for (i, (name, requests)) in self.found.iter().take(SHOWN).enumerate() {
            let (comma, unit) = (if i == 0 { "" } else { ", " }, if i == 0 { " requests" } else { "" });
            write!(out, "{comma}{name} ({requests}{unit})")?;
        }
        match (self.found.len().saturating_sub(SHOWN), self.is_part) {
            (0, false) => Ok(()),
            (0, true) => out.write_str(" and possibly more"),
            (more, is_part) => write!(out, " and {more} more{}", if is_part { " at least" } else { "" }),
        }
    }
}

/// Volumes of a trace that cannot be replayed as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeveralVolumes(pub Volumes);

impl fmt::Display for SeveralVolumes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "it has requests of several volumes: {}; choose one with --volume", self.0)
    }
}

impl std::error::Error for SeveralVolumes {}

/// Counts the requests of the skipped volumes.
#[derive(Default)]
pub(super) struct Tally {
    requests: HashMap<Vec<u8>, u64>,
    is_part: bool,
}

impl Tally {
    /// Maximum of volumes that are counted.
    const MOST: usize = 4096;

    pub(super) fn add(&mut self, name: &[u8], requests: u64) {
        if let Some(sum) = self.requests.get_mut(name) {
            *sum += requests;
        } else if self.requests.len() < Tally::MOST {
            self.requests.insert(name.to_vec(), requests);
        } else {
            self.is_part = true;
        }
    }

    pub(super) fn listed(&self, is_part: bool) -> Volumes {
        let name = |name: &[u8]| String::from_utf8_lossy(name).replace(|c: char| c.is_control(), "?");
        let all = self.requests.iter();
        let mut found: Vec<(String, u64)> = all.map(|(volume, &sum)| (name(volume), sum)).collect();
        found.sort_by(|(a, more), (b, less)| less.cmp(more).then(a.cmp(b)));
        Volumes { found, is_part: is_part || self.is_part }
    }
}
