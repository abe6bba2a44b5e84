//! Volumes of a few places and requests, so that every crash can be tried.

use super::{Real, Shape};
use pantile_sim::{Exhausted, Failure, exhaust};

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

fn small(code: &'static str) -> Real {
    let mut real = Real::new(&Shape { code, ..SMALL }, &[]);
    real.config.requests = 12;
    real.config.load.open_most = 3;
    real
}

#[allow(clippy::result_large_err, reason = "one a run")]
pub fn run(code: &'static str, seed: u64, states_most: u64) -> Result<Exhausted, Failure> {
    let real = small(code);
    exhaust(seed, |start| real.make_watched(start), &real.config, states_most)
}
