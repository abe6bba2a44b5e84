//! Epochs of delayed parity in the simulation. An end is seen as a whole or not at all, other users
//! are not affected, and the data lost with a device is reported.
//!
//! `SIM_FIRST=7 SIM_SEEDS=1` runs that seed again, `SIM_SEEDS=20000` that many.

#![allow(clippy::result_large_err, reason = "one a run")]

use crate::real::epochs::{Bench, NEW, losses_are_exact, run, worlds};
use crate::real::{Real, SHAPES, Shape, WEATHERS, hush, number};
use pantile_sim::{self as sim, Ask, Exhausted, Told, exhaust};

#[test]
fn an_epoch_ends_as_a_whole_and_costs_nobody_else_anything() {
    hush();
    let worlds = worlds();
    let (first, seeds) = (number("SIM_FIRST", 0), number("SIM_SEEDS", 2 * worlds.len() as u64));
    let before = std::time::Instant::now();
    if std::env::var("SIM_ALL").is_ok() {
        let failed = (first..first + seeds).filter_map(|seed| run(&worlds, seed).err());
        let failed = failed.inspect(|failure| {
            let world = (failure.seed % worlds.len() as u64) as usize;
            println!(
                "{} {} {}: {}",
                failure.seed,
                SHAPES[world % SHAPES.len()].code,
                failure.step,
                failure.cause
            );
        });
        assert_eq!(failed.count(), 0, "of {seeds} seeds");
        return;
    }
    match sim::each_seed(first..first + seeds, number("SIM_THREADS", 2), |seed| run(&worlds, seed)) {
        Ok(stats) => println!(
            "{seeds} seeds in {:.1?}: {} requests, {} ends of epochs, {} steps, {} kills, {:?}, digest {:016x}",
            before.elapsed(),
            stats.requests,
            stats.ends,
            stats.steps,
            stats.kills,
            stats.faults,
            stats.trace_hash
        ),
        Err(failure) => panic!("{failure}"),
    }
}

/// An end has no answer yet while a device is admitted, and another user writes to the same blocks.
/// A crash leaves these writes.
#[test]
fn writes_behind_an_end_may_be_there_before_its_answer() {
    hush();
    let worlds: Vec<Real> = worlds().into_iter().map(Real::in_the_old_world).collect();
    if let Err(failure) = run(&worlds, 205_435) {
        panic!("{failure}");
    }
}

/// A power failure tears a superblock and its copy, which were written at the same time, and the
/// older superblock has rotted. The device was as good as lost.
const TEARS_A_SUPERBLOCK: u64 = 46_670;

#[test]
fn a_crash_and_a_bad_block_leave_a_superblock() {
    hush();
    if let Err(failure) = run(&worlds(), TEARS_A_SUPERBLOCK) {
        panic!("{failure}");
    }
}

/// Makes worlds without crashes whose devices come, go and are slow: rebuilds and reads overlap
/// more often than in other worlds.
fn restless() -> Vec<Real> {
    let bears_one = ["mirror", "raid5", "raid0"];
    let shapes = SHAPES.iter().filter(|shape| !bears_one.iter().any(|kind| shape.code.starts_with(kind)));
    let world = |shape: &Shape| {
        let mut real = Real::new(&Shape { spare_stripes: shape.spare_stripes + 8, ..*shape }, WEATHERS[2]);
        real.config.epochs = true;
        real.config.kills_most = 0;
        Real { epoch_blocks: Some(0), ..real }
    };
    shapes.map(world).collect()
}

#[test]
fn devices_that_come_and_go_while_blocks_are_read_cost_nobody_anything() {
    hush();
    let worlds = restless();
    let (first, seeds) = (number("SIM_FIRST", 0), number("SIM_SEEDS", 100));
    let run = |seed| worlds[(seed % worlds.len() as u64) as usize].run(seed);
    if let Err(failure) = sim::each_seed(first..first + seeds, number("SIM_THREADS", 2), run) {
        panic!("{failure}");
    }
}

#[test]
fn the_cost_of_a_lost_device_is_exact() {
    for code in ["raid5:3", "raid6:3", "raidq:2+4", "dcode:5"] {
        losses_are_exact(code);
    }
}

/// With a budget of zero every write waits for its parity, and no block is lost with a device.
#[test]
fn blocks_without_pending_parity_are_not_lost() {
    for code in ["raid5:3", "dcode:5"] {
        let mut bench = Bench::new(code);
        let epoch = bench.begin(0);
        (0..7).for_each(|block| bench.write(epoch, block * 3, false));
        let status = bench.volume.epochs().remove(0);
        assert_eq!((status.owed_blocks, status.oldest), (0, None), "{code}");
        bench.lose(1);
        assert_eq!(bench.ask(&Ask::End { epoch }), Told::Done);
        assert!((0..7).all(|block| bench.read(block * 3) == NEW), "{code}");
    }
}

/// Power failures follow every step of small scripts with epochs, with every subset of unflushed
/// writes up to a bound.
#[test]
fn no_power_failure_leaves_a_part_of_an_epoch() {
    hush();
    let (seeds, states_most) = (number("SIM_SEEDS", 6).min(60), number("SIM_STATES", 32));
    for code in ["mirror:2", "raid5:2"] {
        let shape = Shape {
            placement: None,
            code,
            element_blocks: 1,
            logical_stripes: 3,
            spare_stripes: 6,
            log_rows: 4,
            journal_blocks: 16,
            blocks_most: 3,
        };
        let mut real = Real::new(&shape, &[]);
        real.config.requests = 16;
        real.config.load.open_most = 3;
        real.config.epochs = true;
        let mut total = Exhausted::default();
        for seed in 0..seeds {
            total += exhaust(seed, |start| real.make_watched(start), &real.config, states_most)
                .unwrap_or_else(|failure| panic!("{code}: {failure}"));
        }
        println!("{code}: {total:?}");
    }
}
