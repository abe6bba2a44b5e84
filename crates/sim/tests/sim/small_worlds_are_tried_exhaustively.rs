//! Toys with a power failure at every step of a few requests, with every subset of unflushed writes
//! up to a bound.

use crate::common::{Bug, Toy};
use pantile_sim::{Config, Exhausted, Failure, exhaust};

fn config(devices: u32) -> Config {
    let mut config = Toy::config(devices);
    config.requests = 12;
    config.load.blocks_most = 2;
    config.load.open_most = 3;
    config
}

fn run(seed: u64, devices: u32, bug: Option<Bug>) -> Result<Exhausted, Box<Failure>> {
    exhaust(seed, |start| Toy::start(start, bug), &config(devices), 300).map_err(Box::new)
}

#[test]
fn a_sound_toy_survives_every_power_failure() {
    for (devices, seeds) in [(1, 10), (2, 4)] {
        let mut total = Exhausted::default();
        for seed in 0..seeds {
            match run(seed, devices, None) {
                Ok(done) => total += done,
                Err(failure) => panic!("{failure}"),
            }
        }
        println!("{devices} devices: {total:?}");
        assert!(total.points_by_sector > 0 && total.points_by_block > 0);
    }
}

#[test]
fn planted_bugs_are_caught_in_sixteen_small_worlds() {
    for (bug, devices) in [
        (Bug::AnswersBeforeFlush, 1),
        (Bug::WritesInPlace, 1),
        (Bug::TakesTornBlock, 1),
        (Bug::ForgetsOneFlush, 2),
        (Bug::AnswersBeforeFlush, 2),
    ] {
        let failure = (0..16).find_map(|seed| run(seed, devices, Some(bug)).err());
        let failure = failure.unwrap_or_else(|| panic!("{bug:?} is not caught"));
        println!("{bug:?} on {devices}: seed {}: {}", failure.seed, failure.cause);
    }
}
