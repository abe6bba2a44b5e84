//! Worlds with epochs of delayed parity, and a volume that a test drives through an epoch.

#![allow(clippy::result_large_err, reason = "one a run")]

use super::{Real, SHAPES, Shape, WEATHERS, rest};
use pantile_format::volume::HistoryId;
use pantile_sim::{self as sim, Ask, Data, Failure, Stats, Told, World};
use pantile_volume::{EpochId, Event, Slot, UserBlock, Volume};
use std::collections::BTreeSet;

/// Makes every shape in every weather. Some have more places, because epochs need them; most have
/// less memory, because blocks in memory are not lost.
pub fn worlds() -> Vec<Real> {
    let world = |(index, (faults, shape)): (usize, (&&[sim::Fault], &Shape))| {
        let spare_stripes = shape.spare_stripes + [0, 4, 12][index % 3];
        let mut real = Real::new(&Shape { spare_stripes, ..*shape }, faults);
        real.config.epochs = true;
        real.config.replay =
            "SIM_FIRST={seed} SIM_SEEDS=1 cargo test --release -p pantile-sim --test sim epochs_end_whole_or_leave_no_trace"
                .to_owned();
        Real { epoch_blocks: [Some(0), None, Some(6), Some(30)][index % 4], ..real }
    };
    let pairs = WEATHERS.iter().flat_map(|faults| SHAPES.iter().map(move |shape| (faults, shape)));
    pairs.enumerate().map(world).collect()
}

pub fn run(worlds: &[Real], seed: u64) -> Result<Stats, Failure> {
    let world = (seed % worlds.len() as u64) as usize;
    worlds[world].run(seed).map_err(|mut failure| {
        let (shape, faults) = (&SHAPES[world % SHAPES.len()], WEATHERS[world / SHAPES.len()]);
        failure.tail = format!("{shape:?}\n{faults:?}\n{}", failure.tail);
        failure
    })
}

/// One volume that gets one request after the other.
pub struct Bench {
    pub real: Real,
    pub world: World,
    pub volume: Volume,
}

impl Bench {
    /// Makes a volume in which every block is `old`, without memory for epochs.
    pub fn new(code: &'static str) -> Bench {
        let shape = Shape { code, spare_stripes: 12, ..SHAPES[0] };
        let real = Real::new(&shape, &[]);
        let mut world = World::new(&real.config.world, 1);
        real.format(world.disks_mut()).expect("it can be made");
        let there = vec![true; real.geometry.slots()];
        let mut volume = Volume::open(real.geometry.clone(), &there, HistoryId([9; 16]));
        volume.keep_epoch_blocks(0);
        let mut bench = Bench { real, world, volume };
        bench.rest(None);
        let blocks = bench.real.geometry.user_blocks();
        bench.ask(&Ask::Write { first: UserBlock(0), contents: vec![OLD; blocks as usize], durable: true });
        bench
    }

    pub fn ask(&mut self, ask: &Ask) -> Told {
        let (_, event) = self.world.ask(ask);
        self.rest(Some(event)).expect("it is answered")
    }

    pub fn rest(&mut self, event: Option<Event>) -> Option<Told> {
        rest(&mut self.world, &mut self.volume, event)
    }

    pub fn begin(&mut self, owed_blocks_max: u64) -> EpochId {
        let count = self.real.geometry.user_blocks();
        match self.ask(&Ask::Begin { first: UserBlock(0), count, owed_blocks_max }) {
            Told::Begun { epoch, .. } => epoch,
            other => panic!("{other:?}"),
        }
    }

    pub fn write(&mut self, epoch: EpochId, block: u64, durable: bool) {
        let write = Ask::Write { first: UserBlock(block), contents: vec![NEW], durable };
        assert_eq!(self.ask(&Ask::Within { epoch, request: Box::new(write) }), Told::Done);
    }

    pub fn lose(&mut self, slot: u32) {
        self.world.pull_out(Slot(slot), true);
        self.rest(None);
    }

    pub fn read(&mut self, block: u64) -> Data {
        match self.ask(&Ask::Read { first: UserBlock(block), count: 1 }) {
            Told::Blocks(blocks) => blocks[0].expect("no zeros were written"),
            other => panic!("{other:?}"),
        }
    }
}

pub const OLD: Data = [1; 16];
pub const NEW: Data = [2; 16];

fn lost_of(told: &Told) -> BTreeSet<u64> {
    match told {
        Told::Failed(pantile_volume::Failure::EpochLost { ranges, .. }) => {
            ranges.iter().flat_map(|&(first, count)| first.0..first.0 + count).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// Loses each device in turn: exactly the blocks that it alone had are reported as lost. Once these
/// are written again the epoch can be sealed.
pub fn losses_are_exact(code: &'static str) {
    let slots = Bench::new(code).real.geometry.slots() as u32;
    let mut losses = 0;
    for slot in 0..slots {
        let mut bench = Bench::new(code);
        let epoch = bench.begin(1 << 20);
        // A part of every stripe is written: no parity can be made from memory, and no block stays
        // in memory.
        let all = bench.real.geometry.user_blocks();
        let written: Vec<u64> = (0..all).filter(|block| block % 3 != 0).collect();
        written.iter().for_each(|&block| bench.write(epoch, block, true));
        bench.lose(slot);
        let within = |bench: &mut Bench, block: u64| {
            let read = Ask::Read { first: UserBlock(block), count: 1 };
            bench.ask(&Ask::Within { epoch, request: Box::new(read) })
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
            assert_eq!(lost_of(&bench.ask(&Ask::End { epoch })), gone);
            gone.iter().for_each(|&block| bench.write(epoch, block, false));
        }
        assert_eq!(bench.ask(&Ask::End { epoch }), Told::Done);
        for block in 0..all {
            assert_eq!(bench.read(block), if block % 3 == 0 { OLD } else { NEW }, "block {block}");
        }
    }
    assert!(losses > 0, "{code}: no device held anything alone");
}
