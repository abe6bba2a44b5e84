//! The simulation is not blind: bugs planted in the copy of the volume are caught, and without them
//! the same seeds pass.
//!
//! `SIM_BUG=SkipsFlush` looks for that one alone.

#![allow(clippy::result_large_err, reason = "one a run")]

extern crate pantile_sim_planted as pantile_sim;

#[allow(dead_code, reason = "the tests of the volume itself have more of it")]
#[path = "../../../tests/sim/real/mod.rs"]
mod real;

mod bugs_planted_in_epochs_are_caught;
mod bugs_planted_in_patches_are_caught;
mod bugs_planted_in_small_volumes_are_caught;
mod bugs_planted_in_the_volume_are_caught;

use pantile_sim::{Failure, Stats, each_seed};
use pantile_volume::{Bug, with};
use real::Real;
use std::ops::Range;

/// Runs a seed in its world.
fn run(worlds: &[Real], bug: Option<Bug>, seed: u64) -> Result<Stats, Failure> {
    with(bug, || worlds[(seed % worlds.len() as u64) as usize].run(seed))
}

/// Returns true if some seed of a range fails with a bug, and passes without it.
///
/// Blame of a device is no failure beside a bug: a loss is.
fn is_caught(bug: Bug, worlds: Vec<Real>, seeds: Range<u64>) -> bool {
    let unwatched: Vec<Real> = worlds.into_iter().map(|real| Real { watches: false, ..real }).collect();
    let Err(failure) = each_seed(seeds, 2, |seed| run(&unwatched, Some(bug), seed)) else { return false };
    println!("{bug:?}: seed {}: {}", failure.seed, failure.cause);
    let worlds: Vec<Real> = unwatched.into_iter().map(|real| Real { watches: true, ..real }).collect();
    if let Err(failure) = run(&worlds, None, failure.seed) {
        panic!("without a bug: {failure}");
    }
    true
}

/// Returns the bugs of a list that are looked for: all, or the one that `SIM_BUG` names.
fn meant(bugs: &[Bug]) -> Vec<Bug> {
    let is_meant = |bug: &Bug| std::env::var("SIM_BUG").map_or(true, |only| only == format!("{bug:?}"));
    bugs.iter().copied().filter(is_meant).collect()
}
