//! RAIDP beside copies and RAID-6 on the volume's own engine, in virtual time: equal data on equal
//! disks are written, written again, read, and recovered after the loss of one disk and of two.
//!
//! The slides measure a cluster, whose network is the limit of a recovery; here the disks are, and
//! computing and network take no time.

use super::executed::ExecuteError;
use crate::engine::{Devices, Engine, Held, opened};
use crate::exascale::Device;
use crate::figure::{Figure, Listing, number};
use crate::{EngineFault, Report, parallel, printed};
use pantile::Code;
use pantile_code::{Claim, CodeBuilder};
use pantile_format::volume::VolumeId;
use pantile_host::{numbers, usual_placement};
use pantile_sim::{Ask, Data, IoKind, Random};
use pantile_volume::{BLOCK_BYTES, DeviceBlock, DeviceState, Event, Found, Geometry, Slot, UserBlock};
use std::collections::BTreeMap;

/// The name of the experiment.
pub const NAME: &str = "raidp-engine";

/// Blocks of an element: a superchunk, or a disk's part of a stripe.
const ELEMENT_BLOCKS: u32 = 16;

/// Blocks of a sequential request, and the number of requests under way.
const PIECE_BLOCKS: u64 = 256;
const DEPTH: usize = 16;

/// Rate of an add-on, which is memory in the slides as well.
const ADD_ON_BYTES_PER_S: u64 = 1_000_000_000;

/// Steps between two checks of the devices that can be lost.
const LOOK: u32 = 64;

/// Amount of work.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of disks; the slides have 16.
    pub disks: usize,
    /// Data of users, in MiB.
    pub user_mib: u64,
    /// Number of durable writes, and of reads, of 4 KiB at random places.
    pub random: u64,
    /// Threads; the result does not depend on their number.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { disks: 16, user_mib: 480, random: 2000, threads: 1 }
    }
}

/// A layout of redundant data on the disks.
struct System {
    name: String,
    code: Code,
    /// Number of equal volumes that share the disks. One is run; it has its share of the data.
    volumes: usize,
}

/// Results of a system, in the order of the table; `None` if an earlier loss has lost data.
type Values = [Option<f64>; QUANTITIES.len()];

const QUANTITIES: [&str; 13] = [
    "write, MB/s",
    "write again, MB/s",
    "read, MB/s",
    "4 KiB, durable writes per s",
    "4 KiB, reads per s",
    "disk bytes written per byte, written again",
    "one lost: until whole, s",
    "one lost: disks read, MB",
    "one lost: busiest disk reads, MB",
    "two lost: until safe, s",
    "two lost: until whole, s",
    "two lost: disks read, MB",
    "two lost: busiest disk reads, MB",
];
const SAFE: usize = 9;
const WHOLE: usize = 10;
const READ: usize = 11;

/// Returns a code with `copies` copies of each element, spread so that any two disks share few
/// elements, as in the layout of RAIDP.
fn copies(disks: usize, copies: usize) -> Code {
    let offsets = |t: usize| match copies {
        2 => vec![t],
        _ => vec![t, 2 * t + 1],
    };
    let classes = (disks - 1) / 2;
    let mut builder = CodeBuilder::ragged(&vec![classes * copies; disks]);
    for t in 1..=classes {
        for i in 0..disks {
            for (copy, offset) in offsets(t).into_iter().enumerate() {
                builder
                    .define_xor((copies * (t - 1) + copy + 1, (i + offset) % disks), [(copies * (t - 1), i)]);
            }
        }
    }
    let claim = Claim { tolerance: copies - 1, mds: false };
    builder.finish(format!("{copies}-copies-on-{disks}-disks"), "copies", claim)
}

fn systems(disks: usize) -> Vec<System> {
    let parse = |spec: String| match Code::parse(&spec) {
        Ok(code) => code,
        Err(error) => unreachable!("the codes of the experiment exist: {error}"),
    };
    let one = |name: &str, code| System { name: name.to_string(), code, volumes: 1 };
    vec![
        one("raidp", parse(format!("raidp:{disks}"))),
        one("two copies, spread", copies(disks, 2)),
        System { name: "mirror:2".into(), code: parse("mirror:2".into()), volumes: disks / 2 },
        one("three copies, spread", copies(disks, 3)),
        System { name: "mirror:3".into(), code: parse("mirror:3".into()), volumes: disks / 3 },
        one(&format!("raid6:{}", disks - 2), parse(format!("raid6:{}", disks - 2))),
    ]
}

/// Returns the content of a block after a number of writes.
fn content(block: u64, writes: u64) -> Data {
    let mut data = [1; 16];
    data[..8].copy_from_slice(&((block + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ writes).to_le_bytes());
    data
}

/// Returns the service times of disks and of add-ons. Disks have 7200 turns a minute and no cache;
/// over a short gap the head waits. Add-ons are memory.
fn service(disks: usize) -> impl FnMut(Slot, IoKind, DeviceBlock, u64) -> u64 + 'static {
    let (disk, mut random) = (Device::hdd(), Random::new(16));
    let mut ends: BTreeMap<Slot, u64> = BTreeMap::new();
    move |slot, kind, at, blocks| {
        let bytes = blocks * BLOCK_BYTES;
        if kind == IoKind::Flush {
            return 0;
        }
        if slot.0 as usize >= disks {
            return bytes * 1_000_000_000 / ADD_ON_BYTES_PER_S;
        }
        let end = ends.insert(slot, at.0 + blocks);
        let gap = end.and_then(|end| at.0.checked_sub(end)).map(|blocks| blocks * BLOCK_BYTES);
        let gap = gap.filter(|gap| gap * 1_000_000_000 / disk.read_bytes_per_s < disk.position_ns);
        disk.service_ns(kind == IoKind::Write, bytes + gap.unwrap_or(0), gap.is_some(), &mut random)
    }
}

/// One volume of a system.
struct Run<'s> {
    system: &'s System,
    geometry: Geometry,
    engine: Engine<Held<()>>,
    disks: usize,
    writes: u64,
}

impl<'s> Run<'s> {
    /// Returns a volume of the system with its share of the data.
    fn new(system: &'s System, options: &Options) -> Result<Run<'s>, ExecuteError> {
        let code = &system.code;
        let per_stripe = code.data().len() as u64 * u64::from(ELEMENT_BLOCKS) * BLOCK_BYTES;
        let user_bytes = (options.user_mib << 20) / system.volumes as u64;
        let placement = usual_placement(code).placement;
        let volume = VolumeId(*b"pantile-the-lab-");
        let new = numbers((code, placement), volume, ELEMENT_BLOCKS, user_bytes.div_ceil(per_stripe));
        let geometry = Geometry::new(new)?;
        let disks = code.columns().min(options.disks);
        let mut engine = Engine::new(&geometry, opened(&geometry), (), service(disks))?;
        engine.rest()?;
        Ok(Run { system, geometry, engine, disks, writes: 0 })
    }

    /// Performs requests, at most [`DEPTH`] at a time, and returns the seconds until the last is
    /// answered.
    fn perform(&mut self, asks: impl Iterator<Item = Ask>) -> Result<f64, ExecuteError> {
        let (begun_ns, mut asks) = (self.engine.devices.now_ns(), asks.peekable());
        let mut under_way = 0;
        loop {
            while under_way < DEPTH
                && let Some(ask) = asks.next()
            {
                self.engine.ask(0, &ask)?;
                under_way += 1;
            }
            under_way -= std::mem::take(&mut self.engine.devices.answered).len();
            if under_way == 0 && asks.peek().is_none() {
                return Ok((self.engine.devices.now_ns() - begun_ns) as f64 / 1e9);
            }
            if under_way > 0 {
                self.engine.step_on()?;
            }
        }
    }

    fn pieces(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let blocks = self.geometry.user_blocks();
        (0..blocks).step_by(PIECE_BLOCKS as usize).map(move |at| (at, PIECE_BLOCKS.min(blocks - at)))
    }

    /// Writes everything, the last request being a flush; returns MB/s of all volumes.
    fn write(&mut self) -> Result<f64, ExecuteError> {
        self.writes += 1;
        let writes = self.writes;
        let piece = move |(first, count): (u64, u64)| Ask::Write {
            first: UserBlock(first),
            contents: (first..first + count).map(|block| content(block, writes)).collect(),
            durable: false,
        };
        let written_s = self.perform(self.pieces().map(piece))?;
        let flushed_s = self.perform([Ask::Flush].into_iter())?;
        self.engine.rest()?;
        Ok(self.rate(written_s + flushed_s))
    }

    fn rate(&self, seconds: f64) -> f64 {
        let bytes = self.geometry.user_blocks() * BLOCK_BYTES;
        bytes as f64 * self.system.volumes as f64 / seconds / 1e6
    }

    fn read(&mut self) -> Result<f64, ExecuteError> {
        let piece = |(first, count): (u64, u64)| Ask::Read { first: UserBlock(first), count: count as u32 };
        let seconds = self.perform(self.pieces().map(piece))?;
        self.engine.rest()?;
        Ok(self.rate(seconds))
    }

    /// Reads everything, one request after the other, and compares it.
    fn check(&mut self) -> Result<(), ExecuteError> {
        for (first, count) in self.pieces() {
            self.engine.ask(0, &Ask::Read { first: UserBlock(first), count: count as u32 })?;
            self.engine.answers()?;
            let read = self.engine.devices.blocks.iter();
            let same = (first..).zip(read).all(|(block, data)| *data == Some(content(block, self.writes)));
            if !same || self.engine.devices.blocks.len() != count as usize {
                let code = self.system.code.spec().to_string();
                return Err(ExecuteError::WrongBytes { code, offset: first * BLOCK_BYTES });
            }
        }
        Ok(())
    }

    /// Performs requests of a block at random places; returns those of all volumes per second.
    fn at_random(&mut self, count: u64, is_write: bool) -> Result<f64, ExecuteError> {
        let (blocks, writes) = (self.geometry.user_blocks(), self.writes);
        let mut random = Random::new(4 + u64::from(is_write));
        let one = move |_| {
            let block = random.below(blocks);
            let first = UserBlock(block);
            match is_write {
                // The present content, so that a later comparison holds.
                true => Ask::Write { first, contents: vec![content(block, writes)], durable: true },
                false => Ask::Read { first, count: 1 },
            }
        };
        let seconds = self.perform((0..count).map(one))?;
        self.engine.rest()?;
        Ok(count as f64 * self.system.volumes as f64 / seconds)
    }

    /// Returns the bytes that operations of a kind have moved, by device.
    fn moved(&self, kind: IoKind) -> Vec<u64> {
        let counts = self.engine.devices.world.counts().iter();
        counts.map(|counts| counts.blocks(kind) * BLOCK_BYTES).collect()
    }

    /// Replaces lost disks by empty ones. Returns the seconds until any further device can be lost,
    /// the seconds until everything is rebuilt, the MB that all disks read, and the MB that the
    /// busiest disk read; `None` if data is lost with these disks.
    fn lose(&mut self, lost: &[Slot]) -> Result<Option<[f64; 4]>, ExecuteError> {
        for &slot in lost {
            self.engine.devices.world.pull_out(slot, true);
        }
        self.engine.rest()?;
        if !self.engine.volume.margin().is_some_and(|margin| margin.survives) {
            return Ok(None);
        }
        let (begun_ns, before) = (self.engine.devices.now_ns(), self.moved(IoKind::Read));
        for &slot in lost {
            self.engine.devices.world.put_back(slot, Found::Blank);
            self.engine.volume.handle(Event::DeviceCame(slot, Found::Blank));
        }
        // A flush makes the volume use the new devices at once.
        self.engine.ask(0, &Ask::Flush)?;
        let since = |run: &Run<'_>| (run.engine.devices.now_ns() - begun_ns) as f64 / 1e9;
        let (mut safe, mut whole) = (None, None);
        let mut steps = 0u32;
        while whole.is_none() {
            let is_over = self.engine.devices.world.is_idle();
            if !is_over {
                self.engine.step_on()?;
            }
            steps += 1;
            if !is_over && !steps.is_multiple_of(LOOK) {
                continue;
            }
            if safe.is_none() && self.engine.volume.margin().is_some_and(|margin| margin.any_more > 0) {
                safe = Some(since(self));
            }
            let status = self.engine.volume.status();
            let is_whole =
                status.is_some_and(|status| status.devices.iter().all(|d| d.state == DeviceState::Present));
            if is_whole {
                whole = Some(since(self));
            } else if is_over {
                return Err(EngineFault("a disk is not rebuilt and nothing is under way".into()).into());
            }
        }
        self.engine.answers()?;
        self.engine.rest()?;
        let read: Vec<u64> =
            self.moved(IoKind::Read).iter().zip(before).map(|(now, before)| now - before).collect();
        let on_disks = &read[..self.disks];
        let (all, most) = (on_disks.iter().sum::<u64>(), on_disks.iter().max().copied().unwrap_or(0));
        let (safe, whole) = (safe.unwrap_or(f64::INFINITY), whole.unwrap_or(f64::INFINITY));
        Ok(Some([safe, whole, all as f64 / 1e6, most as f64 / 1e6]))
    }
}

fn run_one(system: &System, options: &Options) -> Result<Values, ExecuteError> {
    let mut run = Run::new(system, options)?;
    let write = run.write()?;
    let before: u64 = run.moved(IoKind::Write)[..run.disks].iter().sum();
    let again = run.write()?;
    let after: u64 = run.moved(IoKind::Write)[..run.disks].iter().sum();
    let written = (after - before) as f64 / (run.geometry.user_blocks() * BLOCK_BYTES) as f64;
    let read = run.read()?;
    let small = run.at_random(options.random, true)?;
    let reads = run.at_random(options.random, false)?;
    // What small writes left in the log is merged first.
    run.write()?;
    let one = run.lose(&[Slot(0)])?;
    run.check()?;
    let two = run.lose(&[Slot(0), Slot(1)])?;
    if two.is_some() {
        run.check()?;
    }
    let of = |lost: Option<[f64; 4]>, i: usize| lost.map(|values| values[i]);
    Ok([
        Some(write),
        Some(again),
        Some(read),
        Some(small),
        Some(reads),
        Some(written),
        of(one, 1),
        of(one, 2),
        of(one, 3),
        of(two, 0),
        of(two, 1),
        of(two, 2),
        of(two, 3),
    ])
}

/// Runs all systems.
///
/// Errors: a fault of the engine. Cost: by default some ten seconds of one core for each system.
pub fn run(options: &Options) -> Result<Report, ExecuteError> {
    let mut report = Report::new(NAME, "RAIDP, copies and RAID-6 on the volume's engine in virtual time");
    report.say(format!(
        "{} MiB of data on {} disks of 7200 turns (13 ms to a place, 100 MB/s, no cache of their own); add-ons are memory of 1 GB/s, network and computing take no time. Requests of 1 MiB, {DEPTH} \
         at a time. Spread copies are on {} disks as RAIDP's superchunks are, without add-ons; mirror:2 and mirror:3 are {} and {} volumes of their own.",
        options.user_mib,
        options.disks,
        options.disks,
        options.disks / 2,
        options.disks / 3
    ));
    report.say(
        "Lost disks are replaced by empty ones at once. Safe: the loss of any other device loses nothing. Whole: everything is on the new disks. Everything is read and compared \
         afterwards. Every number is exact and the same on every machine.",
    );
    let systems = systems(options.disks);
    let found = parallel::map(options.threads, &systems, |system| run_one(system, options));
    let found: Vec<Values> = found.into_iter().collect::<Result<_, _>>()?;
    for (system, values) in systems.iter().zip(&found) {
        for (quantity, value) in QUANTITIES.iter().zip(values) {
            match value {
                Some(value) => drop(report.measured(&system.name, *quantity, *value, None)),
                None => {
                    report.measured(&system.name, *quantity, f64::NAN, None).note =
                        Some("two disks with the same copies: data are lost".into());
                }
            }
        }
    }
    ratios(&mut report, &systems, &found);
    let head = ["system"].into_iter().map(String::from);
    let heads = systems.iter().map(|system| format!(">{}", system.name));
    let row = |(i, quantity): (usize, &&str)| {
        let cells = found.iter().map(|values| {
            values[i].map_or("lost".to_string(), |value| number((value * 100.0).round() / 100.0))
        });
        std::iter::once(quantity.to_string()).chain(cells).collect()
    };
    report.figures.push(Figure::Listing(Listing {
        title: "The same data on the same disks".into(),
        caption: "In virtual time.".into(),
        head: head.chain(heads).collect(),
        rows: QUANTITIES.iter().enumerate().map(row).collect(),
    }));
    Ok(report)
}

/// Adds the ratios that the slides print, or show as bars.
fn ratios(report: &mut Report, systems: &[System], found: &[Values]) {
    let of = |name: &str, i: usize| {
        let at = systems.iter().position(|system| system.name.starts_with(name));
        at.and_then(|at| found[at][i])
    };
    const FASTER: &str = "RAIDP recovers 14x faster!";
    for (i, name) in [(SAFE, "until safe"), (WHOLE, "until whole")] {
        if let (Some(raid6), Some(raidp)) = (of("raid6", i), of("raidp", i)) {
            let print = (i == SAFE).then(|| printed(14.0, FASTER));
            report.measured("RAID-6 : RAIDP", format!("two lost, {name}, time"), raid6 / raidp, print).note =
                Some("the slides: one superchunk of RAIDP beside a disk of RAID-6, over the network".into());
        }
    }
    if let (Some(raid6), Some(raidp)) = (of("raid6", READ), of("raidp", READ)) {
        report.measured("RAID-6 : RAIDP", QUANTITIES[READ], raid6 / raidp, None);
    }
    for (i, quantity) in QUANTITIES.iter().enumerate().filter(|(i, _)| *i < 5) {
        if let (Some(raidp), Some(three)) = (of("raidp", i), of("three copies", i)) {
            report
                .measured(
                    "RAIDP : three copies, spread",
                    format!("{quantity}, change in per cent"),
                    100.0 * (raidp / three - 1.0),
                    None,
                )
                .note = Some("the slides' bars of HDFS have no numbers in their text".into());
        }
    }
}
