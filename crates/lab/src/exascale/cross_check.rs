//! A cross-check of one small configuration: in the simulation, and on the volume's own engine
//! over devices of the same service times.
//!
//! Each writer writes one block per round, every write durable. A round fills one stripe or
//! several; with delayed parity it is an epoch. The engine runs on the devices of `pantile_sim`'s
//! world, with one queue each and virtual time, so every number here is exact and the same on every
//! machine. The operations of the devices are counted by their [`Use`]:
//!
//! * *data* and *parity*, read and written: the paper's model counts them too. One request at a
//!   time, both sides do the same, operation for operation and block for block, with two
//!   exceptions. The volume's log needs no old parity (the model's wcl reads it), and epochs keep
//!   their data in memory ([`Memory::Kept`]; with [`Memory::None`] the end reads back the same
//!   data as the model);
//! * *headers* (checksums of chunks), *records* (of the journal, on every device) and *flushes*: a
//!   durable volume needs them, and the model leaves them out. Their number follows from the
//!   numbers of the setup ([`terms`]).
//!
//! `raid0` and `std` are standard RAIDs, which write in place and have no headers and no records.
//! Moving data back is not compared, since no log fills here.

use super::model::{Device, Log, Messages, Network, Placement, Run, Scheme, Stripe};
use super::service::ServiceTimes;
use super::simulate;
use crate::engine::{Devices, Engine, EngineFault, Held, Machine, Watch, opened};
use crate::standard::Standard;
use pantile::Code;
use pantile::code::Placement as Columns;
use pantile_device::{
    AlignedBuf, Count, Counted, Counts, Device as _, DeviceError, FileDevice, Throttle, Throttled,
};
use pantile_format::FormatError;
use pantile_format::volume::{HistoryId, Place, VolumeId};
use pantile_host::{EpochOptions, Host, HostError, HostOptions};
use pantile_sim::{Ask, IoKind};
use pantile_volume::{
    Action, BLOCK_BYTES, Birth, BufferId, DeviceBlock, ENGINE_BUFFERS, EpochId, Geometry, NewVolume, Operand,
    Piece, Slot, UserBlock, format_volume,
};
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Inputs of both sides.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The code, of one row.
    pub code: Code,
    /// Blocks of an element, the paper's stripe unit.
    pub element_blocks: u32,
    /// Stripes filled by a round.
    pub round_stripes: u32,
    /// The devices: one lane, and every operation begins with positioning.
    pub throttle: Throttle,
    /// Uses that take no time here, to measure the cost of each part that the model leaves out.
    pub free: Vec<Use>,
}

impl Setup {
    /// Returns the setup of the volume benchmarks: half a millisecond for positioning and for a
    /// flush, then 1 GB/s.
    pub fn small(code: Code) -> Setup {
        let half = Duration::from_micros(500);
        let throttle = Throttle { positioning: half, bytes_per_s: 1_000_000_000, flush: half, lanes: 1 };
        Setup { code, element_blocks: 4, round_stripes: 1, throttle, free: Vec::new() }
    }

    /// Returns the number of writers, one for each block of a round's stripes.
    pub fn writers(&self) -> u32 {
        self.rounds() * self.round_stripes
    }

    /// Returns the number of rounds: the blocks of a stripe, so that a writer's blocks fill a
    /// stripe.
    pub fn rounds(&self) -> u32 {
        self.code.data().len() as u32 * self.element_blocks
    }

    /// Returns the number of stripes filled in all.
    pub fn stripes(&self) -> u32 {
        self.rounds() * self.round_stripes
    }

    /// Returns the number of blocks written in all.
    pub fn writes(&self) -> u64 {
        u64::from(self.writers()) * u64::from(self.rounds())
    }

    /// Returns the block that a writer writes in a round.
    fn block(&self, layout: Layout, writer: u64, round: u64) -> u64 {
        match layout {
            Layout::Together => round * u64::from(self.writers()) + writer,
            Layout::Apart => writer * u64::from(self.rounds()) + round,
        }
    }

    /// Returns the nanoseconds that a device takes for operations that move these blocks.
    pub fn service_ns(&self, of: Use, amount: Amount) -> u64 {
        let each = if of == Use::Flush { self.throttle.flush } else { self.throttle.positioning };
        amount.ops * each.as_nanos() as u64 + self.transfer_ns(amount.blocks)
    }

    fn transfer_ns(&self, blocks: u64) -> u64 {
        blocks * BLOCK_BYTES * 1_000_000_000 / self.throttle.bytes_per_s.max(1)
    }
}

/// Purpose of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Use {
    /// Data is read: old data, or that of an epoch that ends.
    DataRead,
    /// Data is written, to its place or to the log.
    DataWrite,
    /// Old parity is read.
    ParityRead,
    /// Parity is written, or a copy in the log.
    ParityWrite,
    /// A chunk's checksums are written. None are read: they are in memory.
    Header,
    /// The journal.
    Record,
    /// A flush.
    Flush,
    /// Snapshots and superblocks: a run this small has none.
    Other,
}

impl Use {
    /// All uses.
    pub const ALL: [Use; 8] = [
        Use::DataRead,
        Use::DataWrite,
        Use::ParityRead,
        Use::ParityWrite,
        Use::Header,
        Use::Record,
        Use::Flush,
        Use::Other,
    ];

    /// Returns the name that tables print.
    pub fn name(self) -> &'static str {
        match self {
            Use::DataRead => "data read",
            Use::DataWrite => "data written",
            Use::ParityRead => "parity read",
            Use::ParityWrite => "parity written",
            Use::Header => "headers",
            Use::Record => "records",
            Use::Flush => "flushes",
            Use::Other => "other",
        }
    }
}

/// Operations of devices and the blocks that they move.
///
/// An operation that moves blocks of several uses counts for the first of them in the order data,
/// parity, header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Operations.
    pub ops: u64,
    /// Blocks.
    pub blocks: u64,
}

/// Operations of devices, as the devices themselves count them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Reads.
    pub reads: Amount,
    /// Writes.
    pub writes: Amount,
    /// Flushes.
    pub flushes: u64,
}

/// Results of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// Amounts by use.
    pub amounts: BTreeMap<Use, Amount>,
    /// Time of all devices together.
    pub device_ns: u64,
    /// Time from the first request to the last answer.
    pub elapsed_ns: u64,
}

impl Ran {
    /// Returns all reads, writes and flushes of all uses. The model flushes nothing.
    pub fn totals(&self) -> Totals {
        let sum = |uses: &[Use]| {
            uses.iter().map(|&of| self.of(of)).fold(Amount::default(), |sum, amount| Amount {
                ops: sum.ops + amount.ops,
                blocks: sum.blocks + amount.blocks,
            })
        };
        Totals {
            reads: sum(&[Use::DataRead, Use::ParityRead]),
            writes: sum(&[Use::DataWrite, Use::ParityWrite, Use::Header, Use::Record, Use::Other]),
            flushes: self.of(Use::Flush).ops,
        }
    }

    /// Returns the amount of a use.
    pub fn of(&self, of: Use) -> Amount {
        self.amounts.get(&of).copied().unwrap_or_default()
    }

    fn add(&mut self, of: Use, amount: Amount) {
        let of = self.amounts.entry(of).or_default();
        of.ops += amount.ops;
        of.blocks += amount.blocks;
    }
}

/// Arrival of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Coming {
    /// One at a time: nothing is gathered. Every operation begins with positioning.
    OneByOne,
    /// One of every writer: the volume makes waiting writes durable together. An operation that
    /// begins where the device's last one ended needs no positioning, as on the devices of the
    /// benchmarks; in the simulation the cache zone is sequential.
    AtOnce,
}

/// Blocks that the writers of a round write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Layout {
    /// Neighbours, which fill a stripe: a checkpoint of one file. Epochs write these, here and in
    /// the paper, whose applications have a row each.
    Together,
    /// A stripe for each writer: the paper's "each client its own region", on servers drawn at
    /// random.
    Apart,
}

/// Data of an epoch that stays in memory until the epoch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Memory {
    /// All of it, as volumes do up to 32 MiB.
    Kept,
    /// No data: the end reads it, as in the paper.
    None,
}

/// Maximum of devices of a code: records go to all of them, and requests are proportional to them,
/// so that the time grows at least with the square.
const COLUMNS_MOST: usize = 16;

/// Reason why the comparison failed.
#[derive(Debug)]
pub enum CheckError {
    /// A code of several rows: the model's stripe unit is a whole column.
    Rows {
        /// Rows of the code.
        rows: usize,
    },
    /// A code of so many devices that the run would take minutes.
    Wide {
        /// Devices of the code.
        columns: usize,
    },
    /// No volume has this shape.
    Shape(FormatError),
    /// A fault of the engine.
    Engine(EngineFault),
    /// A device of the real volume failed.
    Device(DeviceError),
    /// The real volume failed.
    Host(HostError),
}

impl fmt::Display for CheckError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckError::Rows { rows } => {
                write!(
                    out,
                    "a code of {rows} rows cannot be held against the simulation; give one of 1 row, such as raid6:6"
                )
            }
            CheckError::Wide { columns } => {
                write!(
                    out,
                    "a code of {columns} devices would be held against the simulation for minutes; give one of at most {COLUMNS_MOST}"
                )
            }
            CheckError::Shape(error) => error.fmt(out),
            CheckError::Device(error) => error.fmt(out),
            CheckError::Host(error) => error.fmt(out),
            CheckError::Engine(error) => error.fmt(out),
        }
    }
}

impl std::error::Error for CheckError {}

impl From<EngineFault> for CheckError {
    fn from(error: EngineFault) -> CheckError {
        CheckError::Engine(error)
    }
}

impl From<DeviceError> for CheckError {
    fn from(error: DeviceError) -> CheckError {
        CheckError::Device(error)
    }
}

impl From<HostError> for CheckError {
    fn from(error: HostError) -> CheckError {
        CheckError::Host(error)
    }
}

impl From<FormatError> for CheckError {
    fn from(error: FormatError) -> CheckError {
        CheckError::Shape(error)
    }
}

/// Returns the operations and blocks, by use, that a volume needs for one request at a time and
/// the model leaves out.
///
/// There are N writes, R rounds, S stripes and n devices, of which d hold data and q parity. A
/// write in place flushes the 1 + q devices that it writes. A write to the log has its own record.
/// The end of an epoch writes every header, those of parity together with it, and one record.
/// Records go to all devices, and all are flushed after each; within an epoch only the written
/// device is flushed.
pub fn terms(setup: &Setup, scheme: Scheme) -> BTreeMap<Use, Amount> {
    let (writes, rounds) = (setup.writes(), u64::from(setup.rounds()));
    let stripes = u64::from(setup.stripes());
    let (n, d) = (setup.code.columns() as u64, setup.code.data().len() as u64);
    let q = n - d;
    let terms = match scheme {
        Scheme::Raid0 => vec![(Use::Flush, writes, 0)],
        Scheme::Std => vec![(Use::Flush, (1 + q) * writes, 0)],
        Scheme::Wcl => {
            vec![(Use::Header, 0, 0), (Use::Record, n * writes, n * writes), (Use::Flush, n * writes, 0)]
        }
        Scheme::Delayed => vec![
            (Use::Header, d * stripes, n * stripes),
            (Use::Record, n * rounds, n * rounds),
            (Use::Flush, writes + n * rounds, 0),
        ],
    };
    terms.into_iter().map(|(of, ops, blocks)| (of, Amount { ops, blocks })).collect()
}

/// Returns the run in the simulation: the same number of clients, in one application, on the same
/// number of servers, and a network that takes no time.
///
/// The operations do not depend on the arrival of requests; the time does.
pub fn simulated(setup: &Setup, scheme: Scheme, coming: Coming, seed: u64) -> Ran {
    let run = Run {
        scheme,
        stripe: Stripe::of(&setup.code),
        servers: setup.code.columns() as u16,
        clients: setup.writers(),
        clients_per_app: setup.writers(),
        reads_per_mille: 0,
        write_bytes: BLOCK_BYTES as u32,
        has_plots: false,
        has_own_regions: true,
        unit_bytes: setup.element_blocks * BLOCK_BYTES as u32,
        device: Device::measured(table(setup)),
        network: Network {
            latency_ns: 0,
            server_bytes_per_s: u64::MAX,
            client_bytes_per_s: u64::MAX,
            messages: Messages::NONE,
        },
        placement: Placement::Random,
        log: if coming == Coming::AtOnce { Log::Sequential } else { Log::Random },
        move_back: false,
        writes_each: Some(setup.rounds()),
        batch_ns: 1 << 60,
        warm_up_batches: 0,
        batches_most: 1,
        events_most: u64::MAX,
    };
    let outcome = simulate(&run, seed);
    let operations = outcome.operations;
    let mut ran = Ran { elapsed_ns: outcome.ended_ns, ..Ran::default() };
    // The end of an epoch reads and writes whole units.
    let unit = if scheme == Scheme::Delayed { u64::from(setup.element_blocks) } else { 1 };
    for (of, ops, blocks_each) in [
        (Use::DataRead, operations.data_reads, unit),
        (Use::DataWrite, operations.data_writes, 1),
        (Use::ParityRead, operations.parity_reads, 1),
        (Use::ParityWrite, operations.parity_writes, unit),
    ] {
        let amount = Amount { ops, blocks: ops * blocks_each };
        ran.add(of, amount);
        ran.device_ns += setup.service_ns(of, amount);
    }
    ran
}

/// Returns the devices' service times in the form of the simulation: on the line through two
/// sizes.
fn table(setup: &Setup) -> ServiceTimes {
    let mut log = String::new();
    for blocks in [1, 256] {
        let ns = setup.service_ns(Use::DataRead, Amount { ops: 1, blocks });
        for direction in [0, 1] {
            let line = format!("0, {ns}, {direction}, {}, 0, 0\n", blocks * BLOCK_BYTES);
            log.push_str(&line.repeat(100));
        }
    }
    ServiceTimes::parse(log.as_bytes()).expect("a log of two sizes")
}

/// Returns the volume of a scheme: written once before the run, with a log for all writes of the
/// run.
fn geometry(setup: &Setup, scheme: Scheme) -> Result<Geometry, CheckError> {
    let rows = setup.code.rows_max();
    if rows != 1 {
        return Err(CheckError::Rows { rows });
    }
    let columns = setup.code.columns();
    if columns > COLUMNS_MOST {
        return Err(CheckError::Wide { columns });
    }
    let code = match scheme {
        Scheme::Raid0 => Code::parse(&format!("raid0:{}", setup.code.columns())).expect("raid0 of any width"),
        _ => setup.code.clone(),
    };
    let writes = setup.writes() as u32;
    Ok(Geometry::new(NewVolume {
        volume: VolumeId(*b"pantile-the-lab-"),
        placement: Columns::spread(&code),
        code,
        element_blocks: setup.element_blocks,
        logical_stripes: setup.stripes(),
        spare_stripes: setup.stripes() + 4,
        // The log never runs low: every write can take a row.
        log_rows: 2 * writes,
        journal_blocks: (8 * writes).max(64),
    })?)
}

/// Returns the machine of a scheme: a volume, or a standard RAID.
fn machine(geometry: &Geometry, scheme: Scheme, memory: Memory) -> Box<dyn Machine> {
    if matches!(scheme, Scheme::Raid0 | Scheme::Std) {
        return Box::new(Standard::new(geometry.clone()));
    }
    let mut volume = opened(geometry);
    if memory == Memory::None {
        volume.keep_epoch_blocks(0);
    }
    Box::new(volume)
}

/// Returns the run on the volume's engine, or on a standard RAID.
///
/// Errors: no volume has this shape; a fault of the engine.
pub fn driven(
    setup: &Setup,
    scheme: Scheme,
    coming: Coming,
    layout: Layout,
    memory: Memory,
) -> Result<Ran, CheckError> {
    let geometry = geometry(setup, scheme)?;
    let mut driver = Driver::new(setup, &geometry, machine(&geometry, scheme, memory), coming)?;
    driver.engine.fill(&geometry, |_| [7; 16])?;
    driver.measured(|driver| match scheme {
        Scheme::Delayed => driver.epochs(coming),
        _ => driver.writes(coming, layout),
    })
}

/// Runs `wcl` or `delayed`, one request at a time, on a real volume: a host with its threads and
/// buffers, and a throttled file for each device in a folder.
///
/// Returns the devices' counts and the seconds that it took on this machine; devices are slow only
/// during the measurement.
///
/// Errors: no volume has this shape; files cannot be made; the volume failed.
pub fn executed(setup: &Setup, scheme: Scheme, folder: &Path) -> Result<(Totals, f64), CheckError> {
    let geometry = geometry(setup, scheme)?;
    let mut disks: Vec<Arc<Counted<Throttled<FileDevice>>>> = Vec::new();
    for slot in (0..geometry.slots() as u32).map(Slot) {
        let code: String = setup.code.spec().chars().filter(char::is_ascii_alphanumeric).collect();
        let path = folder.join(format!("{code}-{}-{}", scheme.name(), slot.0));
        let file = FileDevice::create(path, geometry.device_blocks(slot) * BLOCK_BYTES)?;
        let disk = Throttled::new(file, setup.throttle);
        disk.set_slow(false);
        disks.push(Arc::new(Counted::new(disk)));
    }
    let birth = Birth { history: HistoryId([1; 16]), name: "lab".into(), created: 0 };
    for (slot, at, bytes) in format_volume(&geometry, &birth)? {
        let mut buffer = AlignedBuf::zeroed(bytes.len());
        buffer.copy_from_slice(&bytes);
        disks[slot.0 as usize].write_at(at.0 * BLOCK_BYTES, &[buffer.whole()])?;
    }
    let there = disks.iter().map(|disk| Some(Arc::clone(disk) as Arc<dyn pantile_device::Device>)).collect();
    // Writes of an idle volume do not belong to the scheme, and a busy machine can make the volume
    // look idle.
    let idle_after = Duration::from_secs(3600);
    let options =
        HostOptions { idle_after, goes_around_slow: false, ..HostOptions::for_devices(disks.len()) };
    let host = Host::open(geometry, there, HistoryId([2; 16]), &options)?;
    let handle = host.handle();
    let stripe = vec![7; (u64::from(setup.writers()) * BLOCK_BYTES) as usize];
    for first in (0..handle.len_bytes()).step_by(stripe.len()) {
        let len = (handle.len_bytes() - first).min(stripe.len() as u64);
        handle.write(first, &stripe[..len as usize], true)?;
    }
    let before = counted(&disks);
    disks.iter().for_each(|disk| disk.inner().set_slow(true));
    let begun = Instant::now();
    let block = vec![1; BLOCK_BYTES as usize];
    for (round, blocks) in
        (0..setup.writes()).collect::<Vec<_>>().chunks(setup.writers() as usize).enumerate()
    {
        if scheme != Scheme::Delayed {
            blocks.iter().try_for_each(|at| handle.write(at * BLOCK_BYTES, &block, true))?;
            continue;
        }
        let len = u64::from(setup.writers()) * BLOCK_BYTES;
        let range = Some((round as u64 * len, len));
        let mut epoch = handle.begin(&EpochOptions { range, age_max: None, ..EpochOptions::default() })?;
        blocks.iter().try_for_each(|at| epoch.write(at * BLOCK_BYTES, &block, true))?;
        epoch.end()?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    disks.iter().for_each(|disk| disk.inner().set_slow(false));
    let after = counted(&disks);
    host.stop()?;
    let less = |a: Amount, b: Amount| Amount { ops: a.ops - b.ops, blocks: a.blocks - b.blocks };
    let totals = Totals {
        reads: less(after.reads, before.reads),
        writes: less(after.writes, before.writes),
        flushes: after.flushes - before.flushes,
    };
    Ok((totals, seconds))
}

fn counted(disks: &[Arc<Counted<Throttled<FileDevice>>>]) -> Totals {
    let amount = |of: fn(&Counts) -> Count| {
        let counts = disks.iter().map(|disk| of(&disk.counts()));
        counts.fold(Amount::default(), |sum, count| Amount {
            ops: sum.ops + count.ops,
            blocks: sum.blocks + count.bytes / BLOCK_BYTES,
        })
    };
    Totals { reads: amount(|c| c.read), writes: amount(|c| c.write), flushes: amount(|c| c.flush).ops }
}

/// The engine with the uses of its devices' operations.
struct Driver<'s> {
    setup: &'s Setup,
    engine: Engine<Held<Uses>, Box<dyn Machine>>,
}

/// Operations of devices, by use.
struct Uses {
    geometry: Geometry,
    ran: Ran,
    /// Users' blocks that have a copy in the log.
    logged: HashSet<BufferId>,
}

impl<'s> Driver<'s> {
    fn new(
        setup: &'s Setup,
        geometry: &Geometry,
        machine: Box<dyn Machine>,
        coming: Coming,
    ) -> Result<Driver<'s>, CheckError> {
        let (of_setup, zones) = (setup.clone(), geometry.clone());
        let mut ends = vec![None; geometry.slots()];
        let service_ns = move |slot: Slot, kind, at: DeviceBlock, blocks| {
            let of = match zones.zones(slot).place(at) {
                _ if kind == IoKind::Flush => Use::Flush,
                Some(Place::ChunkHeader { .. }) if blocks == u64::from(zones.header_blocks(slot)) => {
                    Use::Header
                }
                Some(Place::Journal(_)) => Use::Record,
                _ => Use::Other,
            };
            if of_setup.free.contains(&of) {
                return 0;
            }
            if of == Use::Flush {
                return of_setup.service_ns(of, Amount { ops: 1, blocks: 0 });
            }
            let end = ends[slot.0 as usize].replace(at.0 + blocks);
            let follows = coming == Coming::AtOnce && end == Some(at.0);
            of_setup.service_ns(of, Amount { ops: u64::from(!follows), blocks })
        };
        let uses = Uses { geometry: geometry.clone(), ran: Ran::default(), logged: HashSet::new() };
        let mut engine = Engine::new(geometry, machine, uses, service_ns)?;
        engine.rest()?;
        Ok(Driver { setup, engine })
    }

    /// Returns the operations that `run` causes, without earlier ones; it first completes all work
    /// under way.
    fn measured(
        mut self,
        run: impl FnOnce(&mut Driver<'s>) -> Result<(), EngineFault>,
    ) -> Result<Ran, CheckError> {
        let (begun_ns, worked_ns) = (self.engine.devices.now_ns(), self.engine.devices.world.worked_ns());
        self.engine.devices.watch.ran = Ran::default();
        run(&mut self)?;
        let elapsed_ns = self.engine.devices.now_ns() - begun_ns;
        self.engine.rest()?;
        let device_ns = self.engine.devices.world.worked_ns() - worked_ns;
        Ok(Ran { elapsed_ns, device_ns, ..self.engine.devices.watch.ran })
    }

    /// Runs the rounds, each as an epoch.
    fn epochs(&mut self, coming: Coming) -> Result<(), EngineFault> {
        let writers = u64::from(self.setup.writers());
        for round in 0..u64::from(self.setup.rounds()) {
            let first = round * writers;
            let epoch = self.begin(first, writers, u64::MAX)?;
            for writer in 0..writers {
                let write = Ask::Within { epoch, request: Box::new(write(first + writer)) };
                self.engine.ask(writer, &write)?;
                if coming == Coming::OneByOne {
                    self.engine.answers()?;
                }
            }
            self.engine.answers()?;
            self.engine.ask(0, &Ask::End { epoch })?;
            self.engine.answers()?;
        }
        Ok(())
    }

    fn begin(&mut self, first: u64, count: u64, owed_blocks_max: u64) -> Result<EpochId, EngineFault> {
        self.engine.ask(0, &Ask::Begin { first: UserBlock(first), count, owed_blocks_max })?;
        self.engine.answers()?;
        self.engine.devices.begun.take().ok_or_else(|| EngineFault("an epoch was not begun".into()))
    }

    /// Runs the writes. With [`Coming::AtOnce`], each writer writes its next block when its last
    /// one is answered.
    fn writes(&mut self, coming: Coming, layout: Layout) -> Result<(), EngineFault> {
        let (writers, rounds) = (u64::from(self.setup.writers()), u64::from(self.setup.rounds()));
        if coming == Coming::OneByOne {
            for (round, writer) in (0..rounds).flat_map(|round| (0..writers).map(move |w| (round, w))) {
                self.engine.ask(writer, &write(self.setup.block(layout, writer, round)))?;
                self.engine.answers()?;
            }
            return Ok(());
        }
        let mut next = vec![0; writers as usize];
        self.engine.devices.answered = (0..writers).collect();
        loop {
            for writer in std::mem::take(&mut self.engine.devices.answered) {
                let round = next[writer as usize];
                if round < rounds {
                    next[writer as usize] += 1;
                    self.engine.ask(writer, &write(self.setup.block(layout, writer, round)))?;
                }
            }
            if self.engine.is_answered() {
                return Ok(());
            }
            while self.engine.devices.answered.is_empty() {
                self.engine.step_on()?;
            }
        }
    }
}

impl Watch for Uses {
    fn sees(&mut self, action: &Action) {
        let mut uses: BTreeMap<Use, u64> = BTreeMap::new();
        match action {
            Action::Read { slot, at, into, .. } => {
                for block in at.0..at.0 + into.len() as u64 {
                    *uses.entry(self.read_for(*slot, DeviceBlock(block))).or_default() += 1;
                }
            }
            Action::ReadBytes { slot, at, blocks, .. } => {
                *uses.entry(self.read_for(*slot, *at)).or_default() += u64::from(*blocks);
            }
            Action::Write { slot, at, pieces, .. } => {
                let mut at = *at;
                for piece in pieces {
                    let (content, blocks) = match piece {
                        Piece::Block(content) => (Some(*content), 1),
                        Piece::Bytes(bytes) => (None, bytes.len() as u64 / BLOCK_BYTES),
                    };
                    *uses.entry(self.written_for(*slot, at, content)).or_default() += blocks;
                    at.0 += blocks;
                }
            }
            Action::Flush { .. } => _ = uses.insert(Use::Flush, 0),
            Action::Compute { .. } | Action::Release(_) | Action::Reply(..) => {}
        }
        for (i, (of, blocks)) in uses.into_iter().enumerate() {
            self.ran.add(of, Amount { ops: u64::from(i == 0), blocks });
        }
    }
}

impl Uses {
    fn read_for(&self, slot: Slot, at: DeviceBlock) -> Use {
        match self.geometry.zones(slot).place(at) {
            Some(Place::Element { stripe, row, .. }) if self.is_parity(slot, stripe.0 as u32, row) => {
                Use::ParityRead
            }
            Some(Place::Element { .. } | Place::Log(_)) => Use::DataRead,
            _ => Use::Other,
        }
    }

    fn written_for(&mut self, slot: Slot, at: DeviceBlock, content: Option<Operand>) -> Use {
        let is_parity = match self.geometry.zones(slot).place(at) {
            Some(Place::Element { stripe, row, .. }) => self.is_parity(slot, stripe.0 as u32, row),
            // The log holds a user's block once; its other blocks serve recovery.
            Some(Place::Log(_)) => match content {
                Some(Operand::Buffer(buffer)) if buffer.0 < ENGINE_BUFFERS => !self.logged.insert(buffer),
                _ => true,
            },
            Some(Place::ChunkHeader { .. }) => return Use::Header,
            Some(Place::Journal(_)) => return Use::Record,
            _ => return Use::Other,
        };
        if is_parity { Use::ParityWrite } else { Use::DataWrite }
    }

    fn is_parity(&self, slot: Slot, physical: u32, row: u32) -> bool {
        let code = &self.geometry.code;
        let mut cells = code.column_cells(self.geometry.column(physical, slot));
        cells.nth(row as usize).is_none_or(|cell| code.is_parity(cell))
    }
}

/// Returns a write of a block.
fn write(block: u64) -> Ask {
    Ask::Write { first: UserBlock(block), contents: vec![[block as u8 | 1; 16]], durable: true }
}

/// Writers of a checkpoint in [`checkpoint`], the same number as in the benchmark of volumes.
const CHECKPOINT_WRITERS: u64 = 32;

/// Runs a checkpoint of `pieces` pieces on the volume's engine, written as by the benchmark
/// (`crates/host/examples/delayed`). The volume has 512 MiB in a range that was never written,
/// elements of 64 KiB and 32 writers; each piece is durable when it is answered. Delayed parity
/// uses one epoch, including its end. Time is virtual: that of the devices, without the
/// processor's.
///
/// Errors: those of [`driven`].
pub fn checkpoint(code: &Code, scheme: Scheme, piece_blocks: u32, pieces: u64) -> Result<Ran, CheckError> {
    const ELEMENT_BLOCKS: u32 = 16;
    const USER_BLOCKS: u64 = (512 << 20) / BLOCK_BYTES;
    let setup = Setup { element_blocks: ELEMENT_BLOCKS, ..Setup::small(code.clone()) };
    let stripes = (USER_BLOCKS / (code.data().len() as u64 * u64::from(ELEMENT_BLOCKS))) as u32;
    let geometry = Geometry::new(NewVolume {
        volume: VolumeId(*b"pantile-the-lab-"),
        code: code.clone(),
        placement: Columns::spread(code),
        element_blocks: ELEMENT_BLOCKS,
        logical_stripes: stripes,
        spare_stripes: (stripes / 32).max(16),
        log_rows: stripes * code.rows_max() as u32 * ELEMENT_BLOCKS / 10,
        journal_blocks: 1024,
    })?;
    let driver = Driver::new(&setup, &geometry, machine(&geometry, scheme, Memory::Kept), Coming::AtOnce)?;
    driver.measured(|driver| driver.checkpoint(scheme, u64::from(piece_blocks), pieces))
}

impl Driver<'_> {
    fn checkpoint(&mut self, scheme: Scheme, piece: u64, pieces: u64) -> Result<(), EngineFault> {
        let owed_blocks_max = EpochOptions::default().owed_bytes_max / BLOCK_BYTES;
        let epoch = match scheme {
            Scheme::Delayed => Some(self.begin(0, pieces * piece, owed_blocks_max)?),
            _ => None,
        };
        let mut next = 0;
        self.engine.devices.answered = (0..CHECKPOINT_WRITERS).collect();
        while next < pieces || !self.engine.is_answered() {
            for writer in std::mem::take(&mut self.engine.devices.answered) {
                if next == pieces {
                    break;
                }
                let contents = vec![[next as u8 | 1; 16]; piece as usize];
                let write = Ask::Write { first: UserBlock(next * piece), contents, durable: true };
                next += 1;
                match epoch {
                    Some(epoch) => {
                        self.engine.ask(writer, &Ask::Within { epoch, request: Box::new(write) })?
                    }
                    None => self.engine.ask(writer, &write)?,
                }
            }
            while self.engine.devices.answered.is_empty() && !self.engine.is_answered() {
                self.engine.step_on()?;
            }
        }
        if let Some(epoch) = epoch {
            self.engine.ask(0, &Ask::End { epoch })?;
            self.engine.answers()?;
        }
        Ok(())
    }
}
