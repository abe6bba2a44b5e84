//! The volume itself in worlds of many shapes.

pub mod epochs;
pub mod hand;
pub mod pairs;
pub mod sides;
pub mod small;

use pantile_code::{Code, Placement};
use pantile_format::volume::{HistoryId, Superblock, VolumeId};
use pantile_sim::{self as sim, Config, Content, Failure, Fault, Promise, Refusal, Start, Stats};
use pantile_volume::{
    Action, Birth, DeviceBlock, Event, Found, Geometry, LOG_AGE, Lookup, Margin, NewVolume, ScrubStatus,
    Slot, State, Status, UserBlock, Volume, format_volume,
};
use std::cell::Cell;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// A volume as the simulation drives it.
pub struct Driven {
    pub volume: Volume,
    /// True if all maps are checked after each event.
    pub checks: bool,
    /// True if the devices only have crashes: then none may be blamed for wrong blocks.
    pub is_sound: bool,
    /// Seconds since 1970 at its last idle event. Each idle event is half an hour after the one
    /// before, so that blocks in the log become old. `None`: time stands still.
    clock: Option<i64>,
    /// The number of stripes that the volume has patched and that [`PATCHED`] counts already.
    patched: u64,
}

/// The number of stripes that volumes of this process have patched.
pub static PATCHED: AtomicU64 = AtomicU64::new(0);

impl Driven {
    /// Returns the status of the volume while it serves.
    pub fn status(&self) -> Option<Status> {
        self.volume.status()
    }
}

impl sim::Engine for Driven {
    fn handle(&mut self, event: Event) {
        let matters = !matches!(event, Event::Request(..));
        if let Some(clock) = self.clock.as_mut().filter(|_| matches!(event, Event::Idle)) {
            *clock += LOG_AGE / 2;
            self.volume.tell_time(*clock);
        }
        self.volume.handle(event);
        let patched = self.volume.patched_stripes().unwrap_or(0);
        PATCHED.fetch_add(patched - self.patched, Ordering::Relaxed);
        self.patched = patched;
        if matters && self.checks {
            self.volume.check();
        }
        if matters && self.is_sound {
            let status = self.volume.status();
            let wrong = status.iter().flat_map(|status| &status.devices);
            assert!(
                wrong.map(|device| device.counts.checksum_errors).sum::<u64>() == 0,
                "a sound device is blamed"
            );
        }
    }

    fn next_action(&mut self) -> Option<Action> {
        self.volume.next_action()
    }

    fn is_ready(&self) -> bool {
        self.volume.state() == State::Serving
    }

    fn is_clean(&self) -> bool {
        self.volume.is_clean()
    }

    fn refused(&self) -> Option<String> {
        match self.volume.state() {
            State::Refused(error) => Some(error.to_string()),
            State::Opening | State::Serving => None,
        }
    }

    fn scrubbed(&self) -> Option<ScrubStatus> {
        self.volume.status()?.scrub
    }

    fn found(&self, slot: Slot, heads: &[Vec<u8>]) -> Option<Found> {
        let found = heads.iter().filter_map(|head| Superblock::decode(head).ok());
        match found.max_by_key(|found| (found.session, found.update)) {
            Some(own) => self.volume.found(slot, &own),
            None => Some(Found::Blank),
        }
    }

    fn margin(&self) -> Option<Margin> {
        self.volume.margin()
    }

    fn lookup(&self, first: UserBlock, count: u32) -> Option<Lookup> {
        self.volume.lookup(first, count)
    }

    fn describe(&self) -> String {
        format!("{:?}, {:?}", self.volume.state(), self.volume.status())
    }
}

/// The parameters of a volume, and the most blocks of a request.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub code: &'static str,
    /// `None`: rotated if the columns of the code are interchangeable, else fixed.
    pub placement: Option<Placement>,
    pub element_blocks: u32,
    pub logical_stripes: u32,
    pub spare_stripes: u32,
    pub log_rows: u32,
    pub journal_blocks: u32,
    pub blocks_most: u32,
}

pub const fn usual(code: &'static str) -> Shape {
    Shape {
        code,
        placement: None,
        element_blocks: 2,
        logical_stripes: 6,
        spare_stripes: 3,
        log_rows: 12,
        journal_blocks: 24,
        blocks_most: 16,
    }
}

/// A code whose columns have different numbers of rows, with general coefficients, and with
/// relations that do not name their parity.
const CODE_FILE: &str = "pantile-code 1
name triangle
columns 6
rows 2 2 2 1 1 1
order [0][1] [0][0] [0][2]
[1][1] = [0][0]
[1][2] = 0x8e*[0][1]
[1][0] = [0][2]
[0][3] = [0][0] + 2*[1][0]
0 = [0][1] + 3*[1][1] + 4*[0][4]
0 = 0x53*[0][2] + [1][2] + [0][5]
parity [0][4] [0][5]
";

/// Shapes for every kind of code, and with parameters at their limits.
pub const SHAPES: [Shape; 23] = [
    usual("mirror:3"),
    usual("raid5:2"),
    usual("raid6:3"),
    usual("rs:3+3"),
    usual("dcode:5"),
    usual("raidp:4"),
    usual("raidq:2+4"),
    usual("lrc:4,2,1"),
    usual("shec:4,3,2"),
    usual("xcode:5"),
    usual(CODE_FILE),
    usual("mirror:2"),
    Shape { element_blocks: 4, ..usual("raid0:1") },
    // The smallest ring, with records so long that most wrap around its end.
    Shape { element_blocks: 64, logical_stripes: 3, journal_blocks: 16, blocks_most: 96, ..usual("raid5:2") },
    Shape {
        element_blocks: 64,
        logical_stripes: 3,
        journal_blocks: 16,
        log_rows: 80,
        blocks_most: 64,
        ..usual("mirror:3")
    },
    // A log of one row, no log, and a log that holds more than the stripes do.
    Shape { log_rows: 1, ..usual("raid6:2") },
    Shape { log_rows: 0, ..usual("raid5:3") },
    Shape { log_rows: 64, blocks_most: 3, ..usual("raid6:2") },
    // One spare stripe, and many spare stripes.
    Shape { spare_stripes: 1, ..usual("raid6:2") },
    Shape { spare_stripes: 20, logical_stripes: 4, log_rows: 2, ..usual("raid5:2") },
    // A placement that is fixed, and one that rotates by two.
    Shape { placement: Some(Placement::Fixed), ..usual("shec:4,3,2") },
    Shape { placement: Some(Placement::Fixed), ..usual("raid6:3") },
    Shape { placement: Some(Placement::Rotated { step: 2 }), ..usual("lrc:4,2,1") },
];

/// Shapes in which single blocks are patched: wide stripes or long chunks, with a log of a few
/// rows.
pub const PATCHED_SHAPES: [Shape; 8] = [
    patched("raid5:6", 8, 12, 3),
    patched("raid6:8", 4, 16, 2),
    patched("raid5:3", 16, 16, 3),
    patched("raid6:4", 16, 20, 2),
    patched("raidq:6+3", 16, 24, 4),
    patched("xcode:5", 4, 20, 3),
    // The smallest number of spare stripes, and writes of single blocks.
    Shape { spare_stripes: 1, ..patched("rs:5+2", 16, 16, 1) },
    patched("lrc:8,2,1", 32, 20, 6),
];

const fn patched(code: &'static str, element_blocks: u32, log_rows: u32, blocks_most: u32) -> Shape {
    let (logical_stripes, journal_blocks) = (12, 48);
    Shape { element_blocks, logical_stripes, log_rows, blocks_most, journal_blocks, ..usual(code) }
}

/// Makes each of these shapes in every weather.
pub fn patched_worlds() -> Vec<Real> {
    let shapes = WEATHERS.iter().flat_map(|faults| PATCHED_SHAPES.iter().map(move |shape| (faults, shape)));
    let world = |(number, (faults, shape)): (usize, (&&[Fault], &Shape))| {
        let dirty_mark = [None, Some(4)][(number + number / PATCHED_SHAPES.len()) % 2];
        let mut real = Real { dirty_mark, ..Real::new(shape, faults) };
        // An idle volume merges its log.
        real.config.idles = number % 4 == 3;
        real.config.requests = 500;
        real
    };
    shapes.enumerate().map(world).collect()
}

/// The faults other than crashes in each weather.
pub const WEATHERS: [&[Fault]; 6] = [
    &[],
    &[Fault::Gone, Fault::Slow],
    &[Fault::Gone, Fault::Slow, Fault::Refused, Fault::Returns, Fault::Replaced],
    &[Fault::Unreadable, Fault::Flip],
    &[Fault::Lost, Fault::Misdirected, Fault::Refused],
    &Fault::ALL,
];

/// A volume that can be made, killed and opened again.
pub struct Real {
    pub geometry: Geometry,
    pub config: Config,
    /// True if devices that only have crashes must not be blamed.
    pub watches: bool,
    /// The limit of epochs' blocks in memory; `None`: the default.
    pub epoch_blocks: Option<usize>,
    /// The number of dirty blocks that start a commit; `None`: the default, which no small world
    /// reaches.
    pub dirty_mark: Option<usize>,
}

impl Real {
    pub fn new(shape: &Shape, faults: &[Fault]) -> Real {
        let code = match shape.code.starts_with("pantile-code") {
            true => Code::from_text(shape.code),
            false => Code::parse(shape.code),
        };
        let code = code.expect("the code is known");
        let geometry = Geometry::new(NewVolume {
            volume: VolumeId(*b"pantile-sim-test"),
            placement: shape.placement.unwrap_or(Placement::spread(&code)),
            code,
            element_blocks: shape.element_blocks,
            logical_stripes: shape.logical_stripes,
            spare_stripes: shape.spare_stripes,
            log_rows: shape.log_rows,
            journal_blocks: shape.journal_blocks,
        })
        .expect("a volume may have this shape");
        let blocks = (0..geometry.slots() as u32).map(|s| geometry.device_blocks(Slot(s))).max();
        let (devices, tolerance) = (geometry.slots() as u32, geometry.tolerance() as u32);
        let mut config =
            Config::small(devices, blocks.expect("there are slots"), geometry.user_blocks(), tolerance);
        config.promise = Promise::whole_devices(tolerance);
        config.heads = (0..devices)
            .map(|slot| geometry.zones(Slot(slot)))
            .map(|zones| vec![zones.superblock(0), zones.superblock(1), zones.superblock_copy()])
            .collect();
        config.load.blocks_most = shape.blocks_most;
        config.faults = faults.to_vec();
        config.scrubs = true;
        config.idles = true;
        config.direct_reads = true;
        config.tail_lines = number("SIM_LINES", config.tail_lines as u64) as usize;
        config.replay = "tools/simulate.sh 1 {seed}".to_owned();
        Real { geometry, config, watches: true, epoch_blocks: None, dirty_mark: None }
    }

    pub fn make(&self, start: Start<'_>) -> Result<Driven, Refusal> {
        if start.session == 0 {
            self.format(start.disks)?;
        }
        let there: Vec<bool> = start.disks.iter().map(sim::Disk::is_present).collect();
        let mut fresh = [1; 16];
        fresh[..4].copy_from_slice(&start.session.to_le_bytes());
        let mut volume = Volume::open(self.geometry.clone(), &there, HistoryId(fresh));
        if let Some(blocks) = self.epoch_blocks {
            volume.keep_epoch_blocks(blocks);
        }
        if let Some(blocks) = self.dirty_mark {
            volume.commit_at(blocks);
        }
        Ok(Driven { volume, checks: true, is_sound: false, clock: None, patched: 0 })
    }

    /// Makes a volume like [`Real::make`]. Devices that only have crashes must not be blamed for
    /// wrong blocks.
    pub fn make_watched(&self, start: Start<'_>) -> Result<Driven, Refusal> {
        let is_sound = self.watches && self.config.faults.is_empty();
        Ok(Driven { is_sound, clock: Some(0), ..self.make(start)? })
    }

    /// Opens the volume read only.
    pub fn make_to_read(&self, disks: &[sim::Disk]) -> Driven {
        let there: Vec<bool> = disks.iter().map(sim::Disk::is_present).collect();
        Driven {
            volume: Volume::open_to_read(self.geometry.clone(), &there),
            checks: true,
            is_sound: false,
            clock: None,
            patched: 0,
        }
    }

    pub fn format(&self, disks: &mut [sim::Disk]) -> Result<(), Refusal> {
        let birth = Birth { history: HistoryId([7; 16]), name: "sim".into(), created: 0 };
        for (slot, at, bytes) in format_volume(&self.geometry, &birth)? {
            for (at, block) in (at.0..).zip(bytes.chunks(4096)) {
                disks[slot.0 as usize].put(DeviceBlock(at), Content::of_bytes(block));
            }
        }
        Ok(())
    }

    /// Returns the world without idle events, direct reads and commits that the engine starts
    /// itself: it is the world in which some older seeds failed.
    pub fn in_the_old_world(mut self) -> Real {
        (self.config.idles, self.config.direct_reads, self.dirty_mark) = (false, false, None);
        self
    }

    #[allow(clippy::result_large_err, reason = "one a run")]
    pub fn run(&self, seed: u64) -> Result<Stats, Failure> {
        sim::run_seed(seed, |start| self.make_watched(start), &self.config)
    }
}

/// Makes every shape in every weather.
pub fn all_worlds() -> Vec<Real> {
    let worlds = WEATHERS.iter().flat_map(|faults| SHAPES.iter().map(|shape| Real::new(shape, faults)));
    let marked = |(number, real): (usize, Real)| {
        let stripe = real.geometry.stripe_blocks() as usize;
        // Commits start at a few stripes, or at a part of one.
        Real {
            dirty_mark: [None, Some(2 * stripe), None, Some(stripe / 2)]
                [(number + number / SHAPES.len()) % 4],
            ..real
        }
    };
    worlds.enumerate().map(marked).collect()
}

thread_local! {
    static IS_HUSHED: Cell<bool> = const { Cell::new(false) };
}

/// Silences panics of this test, and of threads without a name, which run its seeds: they are
/// reported as failures of their seed. Panics of other tests in this process are still printed.
pub fn hush() {
    static HOOK: Once = Once::new();
    IS_HUSHED.set(true);
    HOOK.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let of_a_seed = IS_HUSHED.get() || std::thread::current().name().is_none();
            if !of_a_seed || info.location().is_some_and(|at| at.file().contains("tests/")) {
                loud(info);
            }
        }));
    });
}

pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |value| value.parse().expect("a number"))
}

/// Sends a volume an event and continues until it is at rest; returns the last answer to a user.
pub fn rest(world: &mut sim::World, volume: &mut Volume, mut event: Option<Event>) -> Option<sim::Told> {
    let mut told = None;
    loop {
        event.into_iter().for_each(|event| volume.handle(event));
        while let Some(action) = volume.next_action() {
            let answer = world.perform(action).expect("no rule is broken");
            told = answer.map(|answer| answer.told).or(told);
        }
        volume.check();
        event = match world.step(sim::Lie::Honest) {
            None => return told,
            event => event,
        };
    }
}
