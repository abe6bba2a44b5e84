//! Patches of stripes lose no flushed content in any crash or loss of a device, and old content
//! without the patch does not come back.

#![allow(clippy::result_large_err, reason = "one a run")]

use crate::real::hand::Hand;
use crate::real::{PATCHED, Real, Shape, hush, number, patched_worlds};
use pantile_sim::{Ask, Counts, Failure, IoKind, Stats, each_seed};
use pantile_volume::UserBlock;
use std::sync::atomic::Ordering;

fn run(worlds: &[Real], seed: u64) -> Result<Stats, Failure> {
    worlds[(seed % worlds.len() as u64) as usize].run(seed)
}

/// `SIM_FIRST=7 SIM_SEEDS=1` repeats that seed, `SIM_SEEDS=20000` runs that many.
#[test]
fn no_flushed_block_is_lost_to_a_patch() {
    hush();
    let worlds = patched_worlds();
    let (first, seeds) = (number("SIM_FIRST", 0), number("SIM_SEEDS", 6 * worlds.len() as u64));
    if std::env::var("SIM_ALL").is_ok() {
        let mut failed = 0;
        for seed in first..first + seeds {
            if let Err(failure) = run(&worlds, seed) {
                failed += 1;
                let world = seed as usize % worlds.len();
                println!("{seed} {}: {}", worlds[world].geometry.code.spec(), failure.cause);
            }
        }
        assert_eq!(failed, 0, "of {seeds} seeds");
        return;
    }
    match each_seed(first..first + seeds, number("SIM_THREADS", 2), |seed| run(&worlds, seed)) {
        Ok(stats) => {
            let patched = PATCHED.load(Ordering::Relaxed);
            println!(
                "{seeds} seeds, {patched} stripes patched, {} kills, {:?}, digest {:016x}",
                stats.kills, stats.faults, stats.trace_hash
            );
            assert!(patched > seeds / 2, "hardly anything was patched: {patched}");
        }
        Err(failure) => panic!("{failure}"),
    }
}

/// Returns the milliseconds that a hard disk needs for the operations of each device: 8 for each
/// operation, and 200 MB/s.
fn arms(hand: &Hand) -> Vec<f64> {
    let of = |counts: &Counts| {
        let all = |of: &dyn Fn(IoKind) -> u64| IoKind::ALL.into_iter().map(of).sum::<u64>() as f64;
        8.0 * all(&|kind| counts.ios(kind)) + all(&|kind| counts.blocks(kind)) * 4096.0 / 200_000.0
    };
    hand.world.counts().iter().map(of).collect()
}

/// Writes durable random blocks to a volume of 64 devices, 32 at a time, with a full log. Returns
/// the blocks a second that hard disks allow, and the milliseconds of the busiest device by batch,
/// ascending. There are many stripes, so that each has few blocks in the log; chunks are short,
/// which does not affect patches.
fn random_blocks() -> (f64, Vec<f64>) {
    let shape = Shape {
        placement: None,
        code: "raidq:60+4",
        element_blocks: 8,
        logical_stripes: 600,
        spare_stripes: 12,
        log_rows: 32,
        journal_blocks: 512,
        blocks_most: 1,
    };
    let mut hand = Hand::of(Real::new(&shape, &[]));
    hand.volume.checks = false;
    hand.fill(7);
    let (blocks, mut state) = (hand.real.config.user_blocks, 11u64);
    let mut batch = |hand: &mut Hand| {
        let before = arms(hand);
        for _ in 0..32 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let first = UserBlock((state >> 20) % blocks);
            let (_, event) = hand.world.ask(&Ask::Write { first, contents: vec![[9; 16]], durable: false });
            hand.tell(event);
        }
        hand.ask(&Ask::Flush);
        arms(hand).iter().zip(before).map(|(after, before)| after - before).collect::<Vec<f64>>()
    };
    (0..60).for_each(|_| _ = batch(&mut hand));
    let batches: Vec<Vec<f64>> = (0..40).map(|_| batch(&mut hand)).collect();
    let all: f64 = batches.iter().flatten().sum();
    let mut busiest: Vec<f64> =
        batches.iter().map(|devices| devices.iter().copied().fold(0.0, f64::max)).collect();
    busiest.sort_by(f64::total_cmp);
    (40.0 * 32.0 / (all / 64.0 / 1000.0), busiest)
}

/// Blocks a second, by counted operations, of the same volume when stripes were written in place
/// without a log.
const IN_PLACE: f64 = 353.0;

/// The rate is computed from counted operations, not measured.
#[test]
fn random_blocks_on_a_wide_volume_with_a_full_log_reach_three_fifths_of_in_place() {
    let (patched, busiest) = random_blocks();
    println!("patched {patched:.0} blocks a second");
    println!("busiest device {:.0} ms in the median, {:.0} at most", busiest[20], busiest[39]);
    assert!(patched >= 0.6 * IN_PLACE, "{patched:.0} of {IN_PLACE:.0} blocks a second");
}
