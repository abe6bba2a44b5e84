//! The volume itself in the simulation: no flushed content is lost, and every run ends clean.
//!
//! One number decides a whole run: the shape of the volume, the weather, and every random choice of
//! the world. `tools/simulate.sh` runs many.

#![allow(clippy::result_large_err, reason = "one a run")]

use crate::real::{Real, SHAPES, WEATHERS, all_worlds, hush, number};
use pantile_sim::{self as sim, Failure, Stats};

#[allow(clippy::result_large_err, reason = "one a run")]
fn run(worlds: &[Real], seed: u64) -> Result<Stats, Failure> {
    worlds[(seed % worlds.len() as u64) as usize].run(seed).map_err(|mut failure| {
        let world = (seed % worlds.len() as u64) as usize;
        let (shape, faults) = (&SHAPES[world % SHAPES.len()], WEATHERS[world / SHAPES.len()]);
        failure.tail = format!("{shape:?}\n{faults:?}\n{}", failure.tail);
        failure
    })
}

/// `SIM_FIRST=7 SIM_SEEDS=1` repeats that seed, `SIM_SEEDS=20000` runs that many.
#[test]
fn flushed_blocks_are_not_lost() {
    hush();
    let worlds = all_worlds();
    let (first, seeds) = (number("SIM_FIRST", 0), number("SIM_SEEDS", 2 * worlds.len() as u64));
    let threads = number("SIM_THREADS", 2);
    let before = std::time::Instant::now();
    if std::env::var("SIM_ALL").is_ok() {
        // Prints each failure on a line, to see how many there are.
        let mut failed = 0;
        for seed in first..first + seeds {
            if let Err(failure) = run(&worlds, seed) {
                failed += 1;
                let world = (seed % worlds.len() as u64) as usize;
                let (shape, faults) = (&SHAPES[world % SHAPES.len()], WEATHERS[world / SHAPES.len()]);
                println!("{seed} {} {world} {faults:?}: {}", shape.code, failure.cause);
            }
        }
        assert_eq!(failed, 0, "of {seeds} seeds");
        return;
    }
    match sim::each_seed(first..first + seeds, threads, |seed| run(&worlds, seed)) {
        Ok(stats) => {
            println!(
                "{seeds} seeds in {:.1?}: {} requests ({} reads without the engine, {} of them of lost devices), {} steps, {} kills, {} of them in recovery, {} times without {} devices in all that could fail, {:?}, digest {:016x}",
                before.elapsed(),
                stats.requests,
                stats.direct_reads,
                stats.direct_mixtures,
                stats.steps,
                stats.kills,
                stats.kills_in_recovery,
                stats.margins,
                stats.margin_devices,
                stats.faults,
                stats.trace_hash
            );
            assert!(seeds < 1000 || stats.direct_mixtures > 0, "nobody made anything of what others have");
        }
        Err(failure) => panic!("{failure}"),
    }
}

/// Seeds that once failed, in a world and engine with the fault; `docs/simulation.md` explains
/// each.
const FAILED_ONCE: [u64; 3] = [2094, 2213, 405_154];

#[test]
fn seeds_that_failed_once_pass() {
    hush();
    let worlds: Vec<Real> = all_worlds().into_iter().map(Real::in_the_old_world).collect();
    for seed in FAILED_ONCE {
        if let Err(failure) = run(&worlds, seed) {
            panic!("{failure}");
        }
    }
}

#[test]
fn a_seed_is_a_run_and_gives_it_again() {
    hush();
    let worlds = all_worlds();
    let hashes = |seeds: std::ops::Range<u64>| -> Vec<u64> {
        seeds
            .map(|seed| run(&worlds, seed).unwrap_or_else(|failure| panic!("{failure}")).trace_hash)
            .collect()
    };
    let first = hashes(0..60);
    assert_eq!(first, hashes(0..60));
    assert_eq!(first.iter().collect::<std::collections::BTreeSet<_>>().len(), 60);
}
