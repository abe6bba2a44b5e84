//! Epochs of delayed parity in the world that fails on purpose: an end is seen as a whole or not at
//! all, nobody else is touched, and what a lost device costs is said.
//!
//! `SIM_FIRST=7 SIM_SEEDS=1` runs that seed again, `SIM_SEEDS=20000` so many.

#![allow(clippy::result_large_err, reason = "one a run")]

use crate::real::{Real, SHAPES, Shape, WEATHERS, hush, number, rest};
use pantile_format::volume::HistoryId;
use pantile_sim::{self as sim, Ask, Data, Exhausted, Failure, Stats, Told, World, exhaust};
use pantile_volume::{Bug, EpochId, Event, Slot, UserBlock, Volume};
use std::collections::BTreeSet;

/// Every shape in every weather, with more places in some, because epochs need them, and less
/// memory in most, because what is in memory is not lost.
fn worlds(bug: Option<Bug>) -> Vec<Real> {
    let world = |(index, (faults, shape)): (usize, (&&[sim::Fault], &Shape))| {
        let spare_stripes = shape.spare_stripes + [0, 4, 12][index % 3];
        let mut real = Real::new(&Shape { spare_stripes, ..*shape }, faults);
        real.config.epochs = true;
        real.config.replay =
            "SIM_FIRST={seed} SIM_SEEDS=1 cargo test --release -p pantile-sim --test sim epochs_end_whole_or_leave_no_trace"
                .to_owned();
        Real { bug, epoch_blocks: [Some(0), None, Some(6), Some(30)][index % 4], ..real }
    };
    let pairs = WEATHERS.iter().flat_map(|faults| SHAPES.iter().map(move |shape| (faults, shape)));
    pairs.enumerate().map(world).collect()
}

fn run(worlds: &[Real], seed: u64) -> Result<Stats, Failure> {
    let world = (seed % worlds.len() as u64) as usize;
    worlds[world].run(seed).map_err(|mut failure| {
        let (shape, faults) = (&SHAPES[world % SHAPES.len()], WEATHERS[world / SHAPES.len()]);
        failure.tail = format!("{shape:?}\n{faults:?}\n{}", failure.tail);
        failure
    })
}

#[test]
fn an_epoch_ends_as_a_whole_and_costs_nobody_else_anything() {
    hush();
    let worlds = worlds(None);
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

/// The end of an epoch is not answered yet, because a device is just let in, and somebody writes to
/// what the epoch held. A crash leaves that.
#[test]
fn what_is_written_behind_an_end_may_be_there_before_its_answer() {
    hush();
    let worlds: Vec<Real> = worlds(None).into_iter().map(Real::in_the_old_world).collect();
    if let Err(failure) = run(&worlds, 205_435) {
        panic!("{failure}");
    }
}

/// A power failure tears a superblock and its copy, which were written together, and the one before
/// has rotted: the device was as good as lost.
const TEARS_A_SUPERBLOCK: u64 = 46_670;

#[test]
fn a_crash_and_a_bad_block_leave_a_superblock() {
    hush();
    if let Err(failure) = run(&worlds(None), TEARS_A_SUPERBLOCK) {
        panic!("{failure}");
    }
}

/// Devices that come, go and are slow, and no crashes: rebuilds overlap with reads more often than
/// in other worlds.
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

/// The least seed below a bound that fails, and why.
fn first_failure(bug: Option<Bug>, seeds: u64) -> Option<Failure> {
    let worlds = worlds(bug);
    sim::each_seed(0..seeds, 2, |seed| run(&worlds, seed)).err()
}

/// Seeds within which every bug is caught.
const SEEDS: u64 = 2000;

/// One volume, one request after the other.
struct Bench {
    real: Real,
    world: World,
    volume: Volume,
}

impl Bench {
    /// With every block `old`, and no memory for epochs.
    fn new(code: &'static str, bug: Option<Bug>) -> Bench {
        let shape = Shape { code, spare_stripes: 12, ..SHAPES[0] };
        let real = Real::new(&shape, &[]);
        let mut world = World::new(&real.config.world, 1);
        real.format(world.disks_mut()).expect("it can be made");
        let there = vec![true; real.geometry.slots()];
        let mut volume = Volume::open(real.geometry.clone(), &there, HistoryId([9; 16]));
        bug.into_iter().for_each(|bug| volume.plant(bug));
        volume.keep_epoch_blocks(0);
        let mut bench = Bench { real, world, volume };
        bench.rest(None);
        let blocks = bench.real.geometry.user_blocks();
        bench.ask(&Ask::Write { first: UserBlock(0), contents: vec![OLD; blocks as usize], durable: true });
        bench
    }

    fn ask(&mut self, ask: &Ask) -> Told {
        let (_, event) = self.world.ask(ask);
        self.rest(Some(event)).expect("it is answered")
    }

    fn rest(&mut self, event: Option<Event>) -> Option<Told> {
        rest(&mut self.world, &mut self.volume, event)
    }

    fn begin(&mut self, owed_blocks_max: u64) -> EpochId {
        let count = self.real.geometry.user_blocks();
        match self.ask(&Ask::Begin { first: UserBlock(0), count, owed_blocks_max }) {
            Told::Begun { epoch, .. } => epoch,
            other => panic!("{other:?}"),
        }
    }

    fn write(&mut self, epoch: EpochId, block: u64, durable: bool) {
        let write = Ask::Write { first: UserBlock(block), contents: vec![NEW], durable };
        assert_eq!(self.ask(&Ask::Within(epoch, Box::new(write))), Told::Done);
    }

    fn lose(&mut self, slot: u32) {
        self.world.pull_out(Slot(slot), true);
        self.rest(None);
    }

    fn read(&mut self, block: u64) -> Data {
        match self.ask(&Ask::Read { first: UserBlock(block), count: 1 }) {
            Told::Blocks(blocks) => blocks[0].expect("no zeros were written"),
            other => panic!("{other:?}"),
        }
    }
}

const OLD: Data = [1; 16];
const NEW: Data = [2; 16];

fn lost_of(told: &Told) -> BTreeSet<u64> {
    match told {
        Told::Failed(pantile_volume::Failure::EpochLost { ranges, .. }) => {
            ranges.iter().flat_map(|&(first, count)| first.0..first.0 + count).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// Each device in turn: what it alone had is named, block by block; nothing else is lost; written
/// again it can be sealed.
fn losses_are_exact(code: &'static str, bug: Option<Bug>) {
    let slots = Bench::new(code, None).real.geometry.slots() as u32;
    let mut losses = 0;
    for slot in 0..slots {
        let mut bench = Bench::new(code, bug);
        let epoch = bench.begin(1 << 20);
        // Some of every stripe: no parity can be made, and nothing stays in memory.
        let all = bench.real.geometry.user_blocks();
        let written: Vec<u64> = (0..all).filter(|block| block % 3 != 0).collect();
        written.iter().for_each(|&block| bench.write(epoch, block, true));
        bench.lose(slot);
        let within = |bench: &mut Bench, block: u64| {
            let read = Ask::Read { first: UserBlock(block), count: 1 };
            bench.ask(&Ask::Within(epoch, Box::new(read)))
        };
        let gone: BTreeSet<u64> =
            (0..all).filter(|&block| matches!(within(&mut bench, block), Told::Failed(_))).collect();
        assert!(gone.iter().all(|block| written.contains(block)), "what was there before is there: {gone:?}");
        for &block in written.iter().filter(|block| !gone.contains(block)) {
            assert_eq!(within(&mut bench, block), Told::Blocks(vec![Some(NEW)]), "block {block}");
        }
        assert!((0..all).all(|block| bench.read(block) == OLD), "others see what was there before");
        losses += gone.len();
        if !gone.is_empty() {
            assert_eq!(lost_of(&bench.ask(&Ask::End(epoch))), gone);
            gone.iter().for_each(|&block| bench.write(epoch, block, false));
        }
        assert_eq!(bench.ask(&Ask::End(epoch)), Told::Done);
        for block in 0..all {
            assert_eq!(bench.read(block), if block % 3 == 0 { OLD } else { NEW }, "block {block}");
        }
    }
    assert!(losses > 0, "{code}: no device held anything alone");
}

#[test]
fn what_a_lost_device_costs_is_said_exactly() {
    for code in ["raid5:3", "raid6:3", "raidq:2+4", "dcode:5"] {
        losses_are_exact(code, None);
    }
    hush();
    let forgotten = std::panic::catch_unwind(|| losses_are_exact("raid5:3", Some(Bug::ForgetsEpochLosses)));
    assert!(forgotten.is_err(), "the planted bug is not caught");
}

/// With a budget of nothing every write waits for parity, and no device costs anything.
#[test]
fn what_is_not_owed_is_not_lost() {
    for code in ["raid5:3", "dcode:5"] {
        let mut bench = Bench::new(code, None);
        let epoch = bench.begin(0);
        (0..7).for_each(|block| bench.write(epoch, block * 3, false));
        let status = bench.volume.epochs().remove(0);
        assert_eq!((status.owed_blocks, status.oldest), (0, None), "{code}");
        bench.lose(1);
        assert_eq!(bench.ask(&Ask::End(epoch)), Told::Done);
        assert!((0..7).all(|block| bench.read(block * 3) == NEW), "{code}");
    }
}

#[test]
fn bugs_planted_in_epochs_are_caught_and_without_them_the_same_seeds_pass() {
    hush();
    let only = std::env::var("SIM_BUG").ok();
    // Too rare in random loads; `what_a_lost_device_costs_is_said_exactly` catches it.
    let is_rare = |bug: &Bug| *bug == Bug::ForgetsEpochLosses;
    let is_meant = |bug: &Bug| only.as_ref().map_or(!is_rare(bug), |only| *only == format!("{bug:?}"));
    let (mut missed, mut last) = (Vec::new(), 0);
    for bug in Bug::OF_EPOCHS.into_iter().filter(is_meant) {
        match first_failure(Some(bug), SEEDS) {
            Some(failure) => {
                last = failure.seed.max(last);
                println!("{bug:?}: seed {}: {}", failure.seed, failure.cause);
            }
            None => missed.push(bug),
        }
    }
    assert_eq!(missed, [], "not caught within {SEEDS} seeds");
    if let Some(failure) = first_failure(None, last + 1) {
        panic!("without a bug: {failure}");
    }
    println!("without a bug, seeds 0 to {last} pass");
}

/// Power failures after every step of small scripts with epochs, with every subset of what was not
/// flushed up to a bound.
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
