//! The policy `inplace`: what it keeps, at what cost, and what it cannot keep.
//!
//! It keeps what was flushed through crashes while all devices are there, and through losses,
//! returns and replacements of devices while nothing crashes, on devices that write a block whole
//! or not at all. Through both together it does not: the write hole, which a test here falls into.
//! That is what the other policy is for.

use crate::real::{hush, number, rest};
use pantile_code::{Code, Placement};
use pantile_format::volume::{HistoryId, VolumeId};
use pantile_plan::{CellSet, Costs, Planner};
use pantile_sim::{
    self as sim, Ask, Cause, Config, Content, Data, Exhausted, Fault, IoKind, Kill, Promise, Refusal, Start,
    Stats, Told, Verdict, World, WorldConfig, Wrong,
};
use pantile_volume::{
    Action, Birth, Bug, DeviceBlock, EpochId, Event, EventKind, Failure, Found, Geometry, Lookup, NewVolume,
    Policy, RangeKind, Scrub, ScrubStatus, Slot, State, Status, UserBlock, Volume, format_volume,
};
use std::collections::BTreeSet;

/// Elements of blocks, stripes, and codes of every kind.
const CODES: [&str; 10] = [
    "raid5:2",
    "raid5:4",
    "raid6:3",
    "mirror:3",
    "dcode:5",
    "raidp:4",
    "shec:4,3,2",
    "lrc:4,2,1",
    "rs:3+3",
    "xcode:5",
];

struct Driven(Volume);

impl sim::Engine for Driven {
    fn handle(&mut self, event: Event) {
        self.0.handle(event);
        self.0.check();
    }

    fn next_action(&mut self) -> Option<Action> {
        self.0.next_action()
    }

    fn is_ready(&self) -> bool {
        self.0.state() == State::Serving
    }

    fn is_clean(&self) -> bool {
        self.0.is_clean()
    }

    fn refused(&self) -> Option<String> {
        match self.0.state() {
            State::Refused(error) => Some(error.to_string()),
            State::Opening | State::Serving => None,
        }
    }

    fn scrubbed(&self) -> Option<ScrubStatus> {
        self.0.status()?.scrub
    }

    fn lookup(&self, first: UserBlock, count: u32) -> Option<Lookup> {
        self.0.lookup(first, count)
    }
}

struct Worlds {
    geometry: Geometry,
    config: Config,
    bug: Option<Bug>,
}

fn geometry(code: &str, element_blocks: u32, journal_blocks: u32) -> Geometry {
    geometry_of(code, element_blocks, journal_blocks, 8)
}

fn geometry_of(code: &str, element_blocks: u32, journal_blocks: u32, logical_stripes: u32) -> Geometry {
    let code = Code::parse(code).expect("the code is known");
    Geometry::new(NewVolume {
        volume: VolumeId(*b"pantile-sim-test"),
        placement: Placement::spread(&code),
        code,
        element_blocks,
        logical_stripes,
        spare_stripes: 0,
        log_rows: 0,
        journal_blocks,
        policy: Policy::Inplace,
    })
    .expect("a volume may have this shape")
}

fn world_config(geometry: &Geometry) -> WorldConfig {
    let blocks = (0..geometry.slots() as u32).map(|slot| geometry.device_blocks(Slot(slot))).max();
    WorldConfig {
        volume: *b"pantile-sim-test",
        devices: geometry.slots() as u32,
        device_blocks: blocks.expect("there are slots"),
        tears: false,
    }
}

fn format(geometry: &Geometry, disks: &mut [sim::Disk]) {
    let birth = Birth { history: HistoryId([7; 16]), name: "sim".into(), created: 0 };
    for (slot, at, bytes) in format_volume(geometry, &birth).expect("the code has a short name") {
        for (at, block) in (at.0..).zip(bytes.chunks(4096)) {
            disks[slot.0 as usize].put(DeviceBlock(at), Content::of_bytes(block));
        }
    }
}

impl Worlds {
    fn new(code: &str, faults: &[Fault], kills_most: u32) -> Worlds {
        Worlds::with(geometry(code, 2, 24), faults, kills_most)
    }

    fn with(geometry: Geometry, faults: &[Fault], kills_most: u32) -> Worlds {
        let tolerance = geometry.tolerance() as u32;
        let world = world_config(&geometry);
        let mut config = Config::small(world.devices, world.device_blocks, geometry.user_blocks(), tolerance);
        config.world = world;
        config.promise = Promise::whole_devices(tolerance);
        config.load.blocks_most = 16;
        config.faults = faults.to_vec();
        config.kills_most = kills_most;
        config.scrubs = true;
        config.direct_reads = true;
        Worlds { geometry, config, bug: None }
    }

    fn make(&self, start: Start<'_>) -> Result<Driven, Refusal> {
        if start.session == 0 {
            format(&self.geometry, start.disks);
        }
        let there: Vec<bool> = start.disks.iter().map(sim::Disk::is_present).collect();
        let mut fresh = [1; 16];
        fresh[..4].copy_from_slice(&start.session.to_le_bytes());
        let mut volume = Volume::open(self.geometry.clone(), &there, HistoryId(fresh));
        if let Some(bug) = self.bug {
            volume.plant(bug);
        }
        Ok(Driven(volume))
    }

    #[allow(clippy::result_large_err, reason = "one a run")]
    fn run(&self, seed: u64) -> Result<Stats, sim::Failure> {
        sim::run_seed(seed, |start| self.make(start), &self.config)
    }
}

fn worlds(faults: &[Fault], kills_most: u32, bug: Option<Bug>) -> Vec<Worlds> {
    CODES.iter().map(|code| Worlds { bug, ..Worlds::new(code, faults, kills_most) }).collect()
}

#[allow(clippy::result_large_err, reason = "one a run")]
fn run_one(worlds: &[Worlds], seed: u64) -> Result<Stats, sim::Failure> {
    worlds[(seed % worlds.len() as u64) as usize].run(seed)
}

/// `SIM_FIRST=7 SIM_SEEDS=1` runs that seed again, `SIM_SEEDS=20000` so many.
#[allow(clippy::result_large_err, reason = "one a run")]
fn all_pass(worlds: &[Worlds]) {
    hush();
    let (first, seeds) = (number("SIM_FIRST", 0), number("SIM_SEEDS", 120));
    let run = |seed| run_one(worlds, seed);
    match sim::each_seed(first..first + seeds, number("SIM_THREADS", 2), run) {
        Ok(stats) => println!("{seeds} seeds: {} kills, {:?}", stats.kills, stats.faults),
        Err(failure) => panic!("{}: {failure}", CODES[failure.seed as usize % CODES.len()]),
    }
}

#[test]
fn what_was_flushed_survives_crashes_while_all_devices_are_there() {
    all_pass(&worlds(&[], 8, None));
}

#[test]
fn what_was_flushed_survives_lost_devices_while_nothing_crashes() {
    all_pass(&worlds(&[Fault::Gone, Fault::Slow, Fault::Refused, Fault::Returns, Fault::Replaced], 0, None));
}

/// Each is borne alone, and one after the other: a crash of a volume that was whole, a loss, a
/// return, a crash again.
#[test]
fn what_was_flushed_survives_crashes_and_losses_that_take_turns() {
    all_pass(&in_turns(None));
}

fn in_turns(bug: Option<Bug>) -> Vec<Worlds> {
    let faults = [Fault::Gone, Fault::Slow, Fault::Refused, Fault::Returns, Fault::Replaced];
    let mut worlds = worlds(&faults, 8, bug);
    worlds.iter_mut().for_each(|world| world.config.in_turns = true);
    worlds
}

#[test]
fn rot_is_found_and_repaired_while_nothing_crashes() {
    all_pass(&worlds(&[Fault::Unreadable, Fault::Flip], 0, None));
}

/// The cause of the first of some seeds that fails.
#[allow(clippy::result_large_err, reason = "one a run")]
fn first_failure(worlds: &[Worlds], seeds: u64) -> Option<Cause> {
    hush();
    let run = |seed| run_one(worlds, seed);
    sim::each_seed(0..seeds, 2, run).err().map(|failure| failure.cause)
}

#[test]
fn without_marks_a_crash_in_the_middle_of_a_write_is_not_healed() {
    for worlds in [worlds(&[], 8, Some(Bug::ForgetsMark)), in_turns(Some(Bug::ForgetsMark))] {
        let cause = first_failure(&worlds, 300);
        assert!(cause.is_some(), "300 seeds pass without a mark");
        println!("{}", cause.expect("it failed"));
    }
}

/// A volume so small that every state after a power failure can be tried, in which all devices
/// stay.
#[allow(clippy::result_large_err, reason = "one a run")]
fn exhausted(code: &str, bug: Option<Bug>, seed: u64) -> Result<Exhausted, sim::Failure> {
    let mut small = Worlds { bug, ..Worlds::with(geometry_of(code, 1, 16, 3), &[], 0) };
    small.config.promise = Promise::whole_devices(0);
    small.config.requests = 12;
    small.config.load.blocks_most = 3;
    small.config.load.open_most = 3;
    sim::exhaust(seed, |start| small.make(start), &small.config, number("SIM_STATES", 64))
}

/// A power failure after every step, with every subset of the blocks that were not flushed where
/// that is not too many. `SIM_STATES=4096` tries more subsets at each step, `SIM_SEEDS=10` more
/// scripts.
#[test]
fn no_power_failure_of_a_small_volume_loses_what_was_flushed() {
    hush();
    for code in ["mirror:2", "raid5:2", "raid6:2"] {
        let mut total = Exhausted::default();
        for seed in 0..number("SIM_SEEDS", 4) {
            total += exhausted(code, None, seed).unwrap_or_else(|failure| panic!("{code}: {failure}"));
        }
        println!("{code}: {total:?}");
        assert!(total.points_by_sector + total.points_by_block > 0, "{code}: {total:?}");
    }
    let failure = (0..8).find_map(|seed| exhausted("raid5:2", Some(Bug::ForgetsMark), seed).err());
    println!("{}", failure.expect("a stripe without a mark is not healed").cause);
}

/// A block that nobody wrote to changes. It is what the policy cannot keep, and this fails on the
/// day that it can.
#[test]
fn a_crash_with_a_device_lost_falls_into_the_write_hole() {
    let cause = first_failure(&worlds(&[Fault::Gone], 8, None), 2000);
    let is_hole = matches!(cause, Some(Cause::Wrong(Wrong::Content { verdict: Verdict::Garbage, .. })));
    assert!(is_hole, "{cause:?}");
}

/// One volume and one user, one request at a time.
struct Bench {
    geometry: Geometry,
    world: World,
    volume: Volume,
    sessions: u8,
}

impl Bench {
    fn new(code: &str) -> Bench {
        let geometry = geometry(code, 4, 64);
        let mut world = World::new(&world_config(&geometry), 1);
        format(&geometry, world.disks_mut());
        let volume = Volume::open(geometry.clone(), &vec![true; geometry.slots()], HistoryId([9; 16]));
        let mut bench = Bench { geometry, world, volume, sessions: 0 };
        bench.rest(None);
        bench
    }

    /// The volume ends as if the power failed, and is opened again.
    fn open_again(&mut self) {
        self.world.kill(Kill::Power);
        self.sessions += 1;
        let there: Vec<bool> = self.world.disks().iter().map(sim::Disk::is_present).collect();
        self.volume = Volume::open(self.geometry.clone(), &there, HistoryId([self.sessions; 16]));
        self.rest(None);
        assert_eq!(self.volume.state(), State::Serving);
    }

    /// The volume ends as if the power failed, and is looked at: nothing is written.
    fn only_look(&mut self) {
        self.world.kill(Kill::Power);
        let there: Vec<bool> = self.world.disks().iter().map(sim::Disk::is_present).collect();
        self.volume = Volume::look(self.geometry.clone(), &there);
        self.rest(None);
    }

    fn ask(&mut self, ask: &Ask) -> Told {
        let (_, event) = self.world.ask(ask);
        self.rest(Some(event)).expect("it is answered")
    }

    /// Tells an event and steps until there is nothing to do.
    fn rest(&mut self, event: Option<Event>) -> Option<Told> {
        rest(&mut self.world, &mut self.volume, event)
    }

    fn write(&mut self, first: u64, fill: impl Iterator<Item = u8>) {
        let contents: Vec<Data> = fill.map(|byte| [byte; 16]).collect();
        let told = self.ask(&Ask::Write { first: UserBlock(first), contents, durable: true });
        assert_eq!(told, Told::Done);
    }

    fn fill(&mut self) {
        let blocks = self.geometry.user_blocks();
        self.write(0, (0..blocks).map(|block| 1 + (block % 251) as u8));
    }

    fn status(&self) -> Status {
        self.volume.status().expect("it serves")
    }

    /// Inputs and outputs of each kind, and their blocks.
    fn counts(&self) -> ([u64; 4], [u64; 4]) {
        let sum = |of: &dyn Fn(&sim::Counts) -> u64| self.world.counts().iter().map(of).sum();
        (IoKind::ALL.map(|kind| sum(&|c| c.ios(kind))), IoKind::ALL.map(|kind| sum(&|c| c.blocks(kind))))
    }

    /// What writing these blocks costs: inputs and outputs, and their blocks.
    fn cost_of(&mut self, blocks: &[u64]) -> ([u64; 4], [u64; 4]) {
        let before = self.counts();
        let (last, others) = blocks.split_last().expect("there are some");
        for &block in others {
            let write = Ask::Write { first: UserBlock(block), contents: vec![[7; 16]], durable: false };
            assert_eq!(self.ask(&write), Told::Done);
        }
        self.write(*last, std::iter::once(9));
        let after = self.counts();
        let minus = |a: [u64; 4], b: [u64; 4]| std::array::from_fn(|i| a[i] - b[i]);
        (minus(after.0, before.0), minus(after.1, before.1))
    }
}

/// A write of 4 KiB in RAID-5 is two reads and two writes, and two writes of headers; the first in
/// a stripe costs a round of records more, and the first since the volume was opened two reads of
/// headers.
#[test]
fn a_small_write_in_raid5_is_two_reads_and_two_writes_and_two_of_headers() {
    let mut bench = Bench::new("raid5:4");
    bench.fill();
    // Opening reads what the last record maps: let that be another stripe.
    let elsewhere = 5 * bench.geometry.stripe_blocks();
    bench.cost_of(&[elsewhere]);
    bench.open_again();
    bench.open_again();
    // Reads, reads of metadata, writes, flushes; five devices.
    assert_eq!(bench.cost_of(&[1]).0, [2, 2, 2 + 2 + 5, 5 + 5], "cold and without a mark");
    assert_eq!(bench.cost_of(&[1]).0, [2, 0, 2 + 2, 5], "warm and with a mark");
    assert_eq!(bench.cost_of(&[2]).0, [2, 0, 2 + 2, 5], "another block of the stripe");
    // Three of four cells: one is read and parity made anew. Of three chunks the headers are not
    // known yet.
    assert_eq!(bench.cost_of(&[1, 5, 9]).0, [1, 3, 4 + 4, 5]);
    assert_eq!(bench.cost_of(&[1, 5, 9]).0, [1, 0, 4 + 4, 5]);
    // Behind its header a block needs no write of its own.
    assert_eq!(bench.cost_of(&[0]).0, [2, 0, 2, 5]);
}

#[test]
fn every_write_reads_and_writes_what_its_plan_says() {
    for code in CODES {
        let mut bench = Bench::new(code);
        let geometry = bench.geometry.clone();
        let (planner, nothing) = (Planner::new(&geometry.code), CellSet::empty(&geometry.code));
        bench.fill();
        // Headers in memory, and the mark.
        let all: Vec<u64> = (0..geometry.code.data().len() as u64).map(|cell| 4 * cell).collect();
        all.iter().for_each(|&block| _ = bench.cost_of(&[block]));
        for first in 0..all.len() {
            for last in first..all.len() {
                let cells = &geometry.code.data()[first..=last];
                let plan = planner.update(cells, &nothing, &Costs::uniform()).expect("nothing is lost");
                let chunks: BTreeSet<usize> =
                    plan.writes.iter().map(|&cell| geometry.code.cell(cell).column).collect();
                let blocks: Vec<u64> = (first..=last).map(|cell| 4 * cell as u64 + 2).collect();
                let (_, cost) = bench.cost_of(&blocks);
                let headers = chunks.len();
                let expected = [plan.old.reads.len(), 0, plan.writes.len() + headers, 0].map(|n| n as u64);
                assert_eq!(cost, expected, "{code}, {cells:?}, {}", plan.strategy);
            }
        }
    }
}

#[test]
fn stripes_that_were_made_whole_from_perhaps_older_parity_are_counted() {
    for code in CODES {
        let mut bench = Bench::new(code);
        bench.fill();
        bench.cost_of(&[0]);
        let per_stripe = bench.geometry.stripe_blocks();
        bench.cost_of(&[3 * per_stripe]);
        assert_eq!(bench.status().marked_stripes, 2, "{code}");
        // All devices are there: nothing is computed from parity.
        bench.open_again();
        let status = bench.status();
        assert_eq!((status.marked_stripes, status.write_hole_stripes), (0, 0), "{code}");
        bench.cost_of(&[0]);
        bench.cost_of(&[3 * per_stripe]);
        let column_with_data = bench.geometry.code.cell(bench.geometry.code.data()[0]).column;
        let slot = bench.geometry.slot(0, column_with_data);
        let stripes = [0, 3].into_iter().filter(|&stripe| {
            let column = bench.geometry.column(stripe, slot);
            bench.geometry.code.data().iter().any(|&cell| bench.geometry.code.cell(cell).column == column)
        });
        let holes = stripes.count() as u64;
        bench.world.pull_out(slot, true);
        bench.open_again();
        let status = bench.status();
        assert_eq!((status.marked_stripes, status.write_hole_stripes), (0, holes), "{code}");
        // Nothing was being written, so what was computed is right.
        let blocks = bench.geometry.user_blocks();
        let Told::Blocks(read) = bench.ask(&Ask::Read { first: UserBlock(0), count: blocks as u32 }) else {
            panic!("{code}: not read")
        };
        for (block, content) in (0..).zip(read) {
            let written = if block == 0 || block == 3 * per_stripe { 9 } else { 1 + (block % 251) as u8 };
            assert_eq!(content, Some([written; 16]), "{code}, block {block}");
        }
    }
}

/// What was computed from parity of a stripe that a crash caught is suspect, block for block, until
/// it is written or a person calls it good.
#[test]
fn what_a_crash_made_doubtful_stays_suspect_until_it_is_written_or_called_good() {
    for code in CODES {
        let mut bench = Bench::new(code);
        bench.volume.tell_time(77);
        bench.fill();
        bench.cost_of(&[0]);
        let column = bench.geometry.code.cell(bench.geometry.code.data()[0]).column;
        let slot = bench.geometry.slot(0, column);
        let elements = u64::from(bench.geometry.element_blocks());
        let of_slot = (0..).zip(bench.geometry.code.data());
        let of_slot = of_slot.filter(|(_, cell)| bench.geometry.code.cell(**cell).column == column);
        let expected: Vec<u64> =
            of_slot.flat_map(|(nth, _): (u64, _)| nth * elements..(nth + 1) * elements).collect();
        let suspect = |bench: &Bench| -> Vec<u64> {
            let ranges = bench.status().ranges.into_iter().filter(|range| range.kind == RangeKind::Suspect);
            ranges.flat_map(|range| range.first.0..range.first.0 + range.count).collect()
        };
        bench.world.pull_out(slot, true);
        bench.only_look();
        assert_eq!(suspect(&bench), expected, "{code}: it is known before it is served");
        bench.open_again();
        assert_eq!(suspect(&bench), expected, "{code}");
        bench.only_look();
        assert_eq!(suspect(&bench), expected, "{code}");
        bench.open_again();
        // A stop and other crashes do not forget it, nor does the device that comes back.
        bench.rest(Some(Event::Settle));
        bench.open_again();
        bench.world.put_back(slot, Found::Stale);
        bench.rest(Some(Event::DeviceCame(slot, Found::Stale)));
        bench.open_again();
        assert_eq!(suspect(&bench), expected, "{code}");
        let scrub = bench.rest(Some(Event::Scrub(Scrub::Start { repair: true })));
        assert_eq!((scrub, suspect(&bench)), (None, expected.clone()), "{code}: no checksum can tell");
        // What is written is what was written.
        bench.write(expected[0], std::iter::once(5));
        bench.rest(Some(Event::Settle));
        bench.open_again();
        assert_eq!(suspect(&bench), expected[1..], "{code}");
        bench.rest(Some(Event::Checked { first: UserBlock(0), count: u64::MAX }));
        bench.open_again();
        assert_eq!(suspect(&bench), [], "{code}");
        let events = bench.status().events;
        assert!(events.iter().any(|event| event.what == EventKind::DATA_SUSPECT), "{code}: {events:?}");
    }
}

/// Marks are taken away again: they do not grow to the whole volume.
#[test]
fn stripes_that_rest_are_not_marked_for_ever() {
    let mut bench = Bench::new("raid5:2");
    bench.fill();
    let per_stripe = bench.geometry.stripe_blocks();
    for stripe in 0..7 {
        bench.cost_of(&[stripe * per_stripe]);
    }
    assert_eq!(bench.status().marked_stripes, 7);
    (0..40).for_each(|_| _ = bench.cost_of(&[0]));
    bench.cost_of(&[7 * per_stripe]);
    assert_eq!(bench.status().marked_stripes, 2, "the one that is written again and again, and the new one");
    bench.open_again();
    assert_eq!(bench.status().marked_stripes, 0);
}

/// An epoch needs free places, and this policy has none: it is refused, and nothing of the volume
/// is touched or held.
#[test]
fn epochs_are_refused_and_leave_nothing_behind() {
    let mut bench = Bench::new("raid5:4");
    bench.fill();
    let before = bench.counts();
    let blocks = bench.geometry.user_blocks();
    for (first, count) in [(0, blocks), (3, 1)] {
        let told = bench.ask(&Ask::Begin { first: UserBlock(first), count, owed_blocks_max: u64::MAX });
        assert_eq!(told, Told::Failed(Failure::NoEpochs));
    }
    let epoch = EpochId(1);
    let write = Ask::Write { first: UserBlock(0), contents: vec![[9; 16]], durable: true };
    for ask in [Ask::Within(epoch, Box::new(write)), Ask::End(epoch), Ask::Abort(epoch), Ask::Advance(epoch)]
    {
        assert_eq!(bench.ask(&ask), Told::Failed(Failure::NoSuchEpoch { epoch }), "{ask:?}");
    }
    assert_eq!(bench.counts(), before, "nothing was read or written");
    assert!(bench.volume.epochs().is_empty());
    // Nobody holds the range: others write there as ever.
    bench.write(0, [7].into_iter());
    let told = bench.ask(&Ask::Read { first: UserBlock(0), count: 1 });
    assert_eq!(told, Told::Blocks(vec![Some([7; 16])]));
}
