//! The volume itself in small worlds: a power failure after every step of a few requests, with
//! every subset of what was not flushed where that is not too many, with all devices and with each
//! of them lost.

use crate::real::{Real, Shape, hush, number};
use pantile_sim::{Exhausted, Failure, exhaust};
use pantile_volume::Bug;

const SMALL: Shape = Shape {
    placement: None,
    code: "mirror:2",
    element_blocks: 1,
    logical_stripes: 3,
    spare_stripes: 2,
    log_rows: 4,
    journal_blocks: 16,
    blocks_most: 3,
};

fn small(code: &'static str, bug: Option<Bug>) -> Real {
    let mut real = Real::new(&Shape { code, ..SMALL }, &[]);
    real.config.requests = 12;
    real.config.load.open_most = 3;
    Real { bug, ..real }
}

#[allow(clippy::result_large_err, reason = "one a run")]
fn run(code: &'static str, bug: Option<Bug>, seed: u64, states_most: u64) -> Result<Exhausted, Failure> {
    let real = small(code, bug);
    exhaust(seed, |start| real.make_watched(start), &real.config, states_most)
}

/// `SIM_STATES=4096` tries more subsets at each step, `SIM_SEEDS=10` more scripts.
#[test]
fn no_power_failure_of_a_small_volume_loses_what_was_flushed() {
    hush();
    let (seeds, states_most) = (number("SIM_SEEDS", 4), number("SIM_STATES", 64));
    let codes = ["mirror:2", "raid5:2", "raid6:2"];
    let total = |code: &'static str| {
        let mut total = Exhausted::default();
        for seed in 0..seeds {
            total += run(code, None, seed, states_most).unwrap_or_else(|failure| panic!("{code}: {failure}"));
        }
        println!("{code}: {total:?}");
        assert!(total.points_by_sector > 0 && total.points_by_block > 0, "{code}: {total:?}");
    };
    std::thread::scope(|scope| {
        let threads = codes.map(|code| scope.spawn(move || total(code)));
        for thread in threads {
            thread.join().expect("no state loses anything");
        }
    });
}

#[test]
fn bugs_planted_in_small_volumes_are_caught() {
    hush();
    for bug in [Bug::AnswersBeforeFlush, Bug::BelievesLastRecord, Bug::ReusesFreedTooEarly] {
        let failure = (0..8).find_map(|seed| run("mirror:2", Some(bug), seed, 16).err());
        let failure = failure.unwrap_or_else(|| panic!("{bug:?} is not caught"));
        println!("{bug:?}: seed {}: {}", failure.seed, failure.cause);
    }
}
