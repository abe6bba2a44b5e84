//! One trace on many codes: the blocks that each reads and writes on its disks.
//!
//! A [`trace`] is read once, streaming. Usually a code has a [`Counter`], which counts the plans of
//! writes in place, each durable before the next, and a [`Window`] for each delay, which counts the
//! savings of gathered writes. Otherwise it has a [`Driven`] volume: the engine itself, on devices
//! without contents. [`generate`] makes synthetic traces.
//!
//! The address space of a trace is that of the volume, from byte 0; a code's volume is as long as
//! it needs to be.

mod comparison;
pub mod count;
pub mod counts;
pub mod driven;
pub mod generate;
mod latency;
mod ledger;
mod lines;
pub mod trace;
mod window;

pub use count::Counter;
pub use counts::{BLOCK_BYTES, Blocks, Cause, Counts};
pub use driven::{Circumstances, Driven, Ending};
pub use latency::Latencies;
pub use trace::{
    BadLine, Columns, ColumnsError, Format, Request, SeveralVolumes, Trace, TraceError, TraceOptions,
    Volumes, Writer, unpacked,
};
pub use window::Window;

use crate::bars::{Panel, Share, Shares, Stacks};
use crate::exascale::Device;
use crate::figure::{Chart, Figure, Heat, HeatRow, Series, number};
use crate::lay::Lay;
use crate::matrix::Matrix;
use crate::{Report, parallel};
use pantile::code::Placement;
use pantile::plan::{Method, ProveOptions, prove};
use pantile::{Code, PlanError};
use pantile_format::FormatError;
use pantile_format::volume::VolumeId;
use pantile_volume::{Geometry, NewVolume};
use std::fmt;
use std::io::{self, BufRead};
use std::sync::Mutex;

/// The name of the experiment.
pub const NAME: &str = "replay";

/// Method of counting. By default in place, with elements of 64 KiB.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of an element: a multiple of 4096.
    pub element_bytes: u64,
    /// Placement of the columns of a stripe on devices.
    pub lay: Lay,
    /// Drives the engine of a volume, which logs its writes, instead of counting plans in place.
    pub is_driven: bool,
    /// Times at which writes become durable, and at which devices are lost and return.
    pub circumstances: Circumstances,
    /// Bytes of the volume; a driven volume needs them from the start.
    pub space_bytes: u64,
    /// Delays, in requests, for which gathering writes is counted.
    pub windows: Vec<u64>,
    /// Devices whose service times give latencies; the engine is then driven.
    pub device: Option<Device>,
    /// Threads; the result does not depend on their number.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            element_bytes: 64 << 10,
            lay: Lay::Usual,
            is_driven: false,
            circumstances: Circumstances::default(),
            space_bytes: 0,
            windows: Vec::new(),
            device: None,
            threads: 1,
        }
    }
}

impl Options {
    /// Returns true if the engine is driven: the options request it, or have effects that counting
    /// plans leaves out.
    pub fn is_driven(&self) -> bool {
        let Circumstances { flush_every, lost_at, rebuilt_at, .. } = self.circumstances;
        self.is_driven || flush_every != 1 || lost_at > 0 || rebuilt_at.is_some() || self.device.is_some()
    }
}

/// Reason why a trace cannot be replayed on a code.
#[derive(Debug)]
pub enum ReplayError {
    /// No volume has this shape.
    Shape(FormatError),
    /// Lost content cannot be recovered.
    Lost(PlanError),
    /// A lost device that the code does not have.
    NoDevice {
        /// Number of the device.
        device: usize,
        /// Number of devices.
        devices: usize,
    },
    /// Without these devices, stripes cannot be recovered.
    Unbearable {
        /// Numbers of the devices.
        lost: Vec<usize>,
    },
    /// The volume has more stripes than the engine can hold in memory.
    TooLong {
        /// Bytes of the volume.
        space_bytes: u64,
        /// Bytes of the longest volume with these elements.
        most_bytes: u64,
    },
    /// The trace cannot be read.
    Trace(TraceError),
}

impl fmt::Display for ReplayError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::Shape(error) => error.fmt(out),
            ReplayError::Lost(error) => error.fmt(out),
            ReplayError::NoDevice { device, devices } => {
                write!(out, "there is no device {device}; the code has {devices}, from 0 to {}", devices - 1)
            }
            ReplayError::Unbearable { lost } => {
                write!(
                    out,
                    "the code cannot recover what devices {lost:?} hold; name fewer of them, or a code that tolerates their loss"
                )
            }
            ReplayError::TooLong { space_bytes, most_bytes } => write!(
                out,
                "a volume of {space_bytes} bytes has more stripes than the engine takes, which is up to {most_bytes} bytes; give longer \
                 elements, or leave out the options that need the engine: --driven, --flush, --lost-at, --rebuild-at, --device"
            ),
            ReplayError::Trace(error) => error.fmt(out),
        }
    }
}

impl std::error::Error for ReplayError {}

impl From<io::Error> for ReplayError {
    fn from(error: io::Error) -> ReplayError {
        ReplayError::Trace(TraceError::Io(error))
    }
}

/// Properties of a trace.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Requests.
    pub requests: u64,
    /// Requests that are writes.
    pub writes: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// The offset of the first byte behind all requests.
    pub end: u64,
    /// Microseconds from the first request to the last.
    pub duration_us: u64,
    /// Lines that could not be read.
    pub bad: u64,
    /// The first of these lines.
    pub first_bad: Vec<BadLine>,
    /// The first requests, at most [`FIRST_KEPT`].
    pub first: Vec<Request>,
}

/// Maximum of requests kept of a trace: a megabyte of them.
pub const FIRST_KEPT: usize = 20_000;

const BAD_SHOWN: usize = 10;

/// Requests handed to all counters at a time, and the least number for codes whose plans take
/// long.
const BATCH: usize = 1 << 16;
const BATCH_LEAST: usize = 1 << 10;

/// The most data cells times requests of a batch: the time of a new plan depends on the number of
/// cells.
const BATCH_CELLS: usize = 1 << 23;

/// The most bytes of a batch, so that progress is reported however long the requests are.
const BATCH_BYTES: u64 = 1 << 36;

/// The most bytes of a batch where the engine is driven, block by block.
const BATCH_BYTES_DRIVEN: u64 = 1 << 28;

/// Returns the volume of a code, long enough for any trace: only the shape of stripes matters.
pub fn geometry((code, placement): (&Code, Placement), element_bytes: u64) -> Result<Geometry, FormatError> {
    Geometry::new(NewVolume {
        volume: VolumeId(*b"pantile-the-lab-"),
        code: code.clone(),
        placement,
        element_blocks: u32::try_from(element_bytes / BLOCK_BYTES).unwrap_or(u32::MAX),
        logical_stripes: 1024,
        spare_stripes: 0,
        log_rows: 0,
        journal_blocks: 16,
    })
}

/// Results of a trace on one code.
pub struct Replayed {
    /// The code.
    pub code: Code,
    /// Placement of the columns of a stripe on devices.
    pub placement: Placement,
    /// The blocks of each device.
    pub counts: Counts,
    /// Savings of gathered writes, by delay.
    pub gathered: Vec<Gathered>,
    /// State of a driven volume at the end.
    pub ending: Option<Ending>,
    /// Latencies of requests, if requested.
    pub latencies: Option<Latencies>,
}

/// Cost of writes that are gathered over some requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gathered {
    /// Number of requests gathered.
    pub requests: u64,
    /// Blocks that users wrote, counted at each write.
    pub user_blocks: u64,
    /// Blocks read and written for them.
    pub moved_blocks: u64,
    /// Number of times that the gathered writes were counted before the end of a window, because
    /// memory was full.
    pub early: u64,
}

/// One method of counting one code.
enum Lane {
    Plans(Box<Counter>),
    Window(Box<Window>),
    Engine(Box<Driven>),
}

impl Lane {
    fn push(&mut self, request: &Request) {
        match self {
            Lane::Plans(counter) => counter.push(request),
            Lane::Window(window) => window.push(request),
            Lane::Engine(driven) => driven.push(request),
        }
    }

    /// Adds the results to `known`, the earlier results of the code; the first lane of a code has
    /// `None` and counts all causes.
    fn finish(self, code: &Code, known: Option<Replayed>) -> Replayed {
        let mut latencies = None;
        let placement = match &self {
            Lane::Plans(counter) => counter.placement(),
            Lane::Engine(driven) => driven.placement(),
            Lane::Window(_) => Placement::Fixed,
        };
        let (counts, ending) = match (self, known) {
            (Lane::Window(window), Some(known)) => return known.with(window.finish()),
            (Lane::Engine(driven), Some(known)) => {
                let requests = driven.flush_every();
                let (_, Ending { user_blocks, moved_blocks, .. }) = driven.finish();
                return known.with(Gathered { requests, user_blocks, moved_blocks, early: 0 });
            }
            (Lane::Engine(driven), None) => {
                latencies = driven.latencies().cloned();
                let (counts, ending) = driven.finish();
                (counts, Some(ending))
            }
            (Lane::Plans(counter), _) => (counter.finish(), None),
            (Lane::Window(_), None) => unreachable!("what counts all causes comes first"),
        };
        Replayed { code: code.clone(), placement, counts, gathered: Vec::new(), ending, latencies }
    }
}

impl Replayed {
    fn with(mut self, gathered: Gathered) -> Replayed {
        self.gathered.push(gathered);
        self
    }
}

/// Returns the lanes of a code: first the one that counts all causes, then one for each window.
fn lanes(code: &Code, options: &Options) -> Result<Vec<Lane>, ReplayError> {
    let Circumstances { lost, .. } = &options.circumstances;
    let devices = code.columns();
    if let Some(&device) = lost.iter().find(|&&device| device >= devices) {
        return Err(ReplayError::NoDevice { device, devices });
    }
    let (windows, placement) = (options.windows.iter(), options.lay.of(code));
    if options.is_driven() {
        let geometry = driven::geometry((code, placement), options.element_bytes, options.space_bytes)?;
        let first = Driven::new(geometry.clone(), options.circumstances.clone())
            .map(|driven| options.device.iter().fold(driven, Driven::timed));
        let others = windows.map(|&flush_every| {
            Driven::new(geometry.clone(), Circumstances { flush_every, ..options.circumstances.clone() })
        });
        return std::iter::once(first).chain(others).map(|lane| Ok(Lane::Engine(Box::new(lane?)))).collect();
    }
    let geometry = geometry((code, placement), options.element_bytes).map_err(ReplayError::Shape)?;
    let counter = Counter::new(&geometry, lost).map_err(ReplayError::Lost)?;
    let others = windows.map(|&requests| Lane::Window(Box::new(Window::new(&geometry, requests))));
    Ok(std::iter::once(Lane::Plans(Box::new(counter))).chain(others).collect())
}

/// Replays a trace on every code.
///
/// `progress` receives the number of requests so far and ends the replay by returning `false`; the
/// counts up to there are returned.
/// Errors: a code that cannot be used, or a trace that cannot be read. Bad lines are no errors;
/// they are counted.
pub fn run<R: BufRead>(
    trace: &mut Trace<R>,
    codes: &[Code],
    options: &Options,
    progress: &dyn Fn(u64) -> bool,
) -> Result<(Seen, Vec<Replayed>), ReplayError> {
    let mut all = Vec::new();
    for (number, code) in codes.iter().enumerate() {
        all.extend(lanes(code, options)?.into_iter().map(|lane| (number, Mutex::new(lane))));
    }
    let mut seen = Seen::default();
    let cells = codes.iter().map(|code| code.data().len()).max().unwrap_or(1);
    let (batch_most, batch_bytes) = match options.is_driven() {
        true => (BATCH_LEAST, BATCH_BYTES_DRIVEN),
        false => ((BATCH_CELLS / cells).clamp(BATCH_LEAST, BATCH), BATCH_BYTES),
    };
    let mut batch = Vec::with_capacity(batch_most);
    let mut is_over = false;
    while !is_over {
        batch.clear();
        let (mut bytes, mut bad_lines) = (0, 0);
        while batch.len() + bad_lines < batch_most && bytes < batch_bytes && !is_over {
            match trace.next_item()? {
                Some(Ok(request)) => {
                    bytes += request.len;
                    batch.push(request);
                }
                Some(Err(bad)) => {
                    bad_lines += 1;
                    seen.bad += 1;
                    if seen.first_bad.len() < BAD_SHOWN {
                        seen.first_bad.push(bad);
                    }
                }
                None => is_over = true,
            }
        }
        seen.first.extend(batch.iter().take(FIRST_KEPT - seen.first.len()));
        for request in &batch {
            seen.requests += 1;
            seen.writes += u64::from(request.is_write);
            let bytes = if request.is_write { &mut seen.bytes_written } else { &mut seen.bytes_read };
            *bytes += request.len;
            seen.end = seen.end.max(request.offset + request.len);
            seen.duration_us = seen.duration_us.max(request.at_us);
        }
        parallel::map(options.threads, &all, |(_, lane)| {
            let mut lane = lane.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            batch.iter().for_each(|request| lane.push(request));
        });
        is_over |= !progress(seen.requests);
    }
    let mut replayed: Vec<Replayed> = Vec::new();
    for (number, lane) in all {
        let lane = lane.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        let known = if replayed.len() > number { replayed.pop() } else { None };
        replayed.push(lane.finish(&codes[number], known));
    }
    Ok((seen, replayed))
}

/// Returns the table and pictures of a replay.
pub fn report(seen: &Seen, replayed: &[Replayed], options: &Options) -> Report {
    let mut report = Report::new(NAME, "One trace, many codes");
    report.say(format!(
        "{} requests, {} of them writes; {:.2} GB read, {:.2} GB written within {:.2} GB of addresses and {:.0} s. {} lines could not be read.",
        seen.requests,
        seen.writes,
        seen.bytes_read as f64 / 1e9,
        seen.bytes_written as f64 / 1e9,
        seen.end as f64 / 1e9,
        seen.duration_us as f64 / 1e6,
        seen.bad
    ));
    report.say(how(options));
    let Circumstances { lost_at, rebuilt_at, .. } = options.circumstances;
    let come_too_late = [(Some(lost_at).filter(|&at| at > 0), "lost"), (rebuilt_at, "rebuilt")];
    for (at, what) in come_too_late {
        if let Some(at) = at.filter(|&at| at >= seen.requests) {
            report.say(format!(
                "The trace ended before a device was to be {what}, after {at} requests: none was."
            ));
        }
    }
    for Replayed { code, ending, .. } in replayed {
        if let Some(Ending { requests_beyond: beyond @ 1.., .. }) = ending {
            report.say(format!(
                "Requests that reach beyond the end of the volume of {} and were left out: {beyond}.",
                code.spec()
            ));
        }
    }
    let mut loads = Vec::new();
    for Replayed { code, counts, ending, latencies, .. } in replayed {
        one(&mut report, seen, code, counts);
        if let Some(ending) = ending {
            report.counted(code.spec(), "blocks in the log at the end", ending.log_blocks as f64, None);
            let quantity = "requests while devices were rebuilt";
            report.counted(code.spec(), quantity, ending.requests_while_rebuilding as f64, None);
        }
        if let Some(latencies) = latencies {
            for (is_write, share, quantity) in LATENCIES {
                if let Some(ns) = latencies.within(is_write, share) {
                    report.simulated(code.spec(), quantity, ns as f64 / 1e6, None);
                }
            }
        }
        let per_device = counts.per_device();
        let most = per_device.iter().map(|b| b.read + b.written).max().unwrap_or(0).max(1);
        loads.push(HeatRow {
            name: code.spec().to_string(),
            values: per_device.iter().map(|b| Some((b.read + b.written) as f64)).collect(),
            shades: per_device.iter().map(|b| Some((b.read + b.written) as f64 / most as f64)).collect(),
        });
    }
    let columns = loads.iter().map(|row| row.values.len()).max().unwrap_or(0);
    loads.iter_mut().for_each(|row| row.values.resize(columns, None));
    report.figures.push(Figure::Heat(Heat {
        title: "Blocks per device".into(),
        caption: "Read and written, all causes; darker is busier within a code.".into(),
        columns: (0..columns).map(|device| device.to_string()).collect(),
        rows: loads,
    }));
    report.figures.push(loads_by_cause(replayed));
    causes(&mut report, replayed);
    delays(&mut report, replayed);
    cumulative(&mut report, replayed);
    tolerance(&mut report, replayed, options);
    stripes(&mut report, replayed, options);
    let compared = comparison::comparison(&report, replayed, options);
    report.figures.insert(0, Figure::Listing(compared));
    report.answer = answer(&report, replayed);
    report
}

/// Latencies in the report: true for writes, the share of requests, and the name of the time
/// within which they were answered.
const LATENCIES: [(bool, f64, &str); 4] = [
    (false, 0.5, "latency of reads, p50, ms"),
    (false, 0.99, "latency of reads, p99, ms"),
    (true, 0.5, "latency of writes, p50, ms"),
    (true, 0.99, "latency of writes, p99, ms"),
];

/// Returns the code that moves the fewest blocks, and the one that moves the most.
fn answer(report: &Report, replayed: &[Replayed]) -> String {
    let of = |one: &Replayed| {
        Some((one.code.spec().to_string(), report.find(one.code.spec(), "blocks per user block")?))
    };
    let mut moved: Vec<(String, f64)> = replayed.iter().filter_map(of).collect();
    moved.sort_by(|a, b| a.1.total_cmp(&b.1));
    match &moved[..] {
        [] => String::new(),
        [(only, blocks)] => format!("Blocks for each block of this trace: {only}, {}.", number(*blocks)),
        [(first, least), .., (last, most)] => format!(
            "Fewest blocks for each block of this trace: {first}, {}; most: {last}, {}.",
            number(*least),
            number(*most)
        ),
    }
}

/// Returns the method of counting as text.
fn how(options: &Options) -> String {
    let Circumstances { flush_every, lost, lost_at, rebuilt_at, rebuild_pace } = &options.circumstances;
    let kib = options.element_bytes / 1024;
    let how = if options.is_driven() { "by the engine of a volume" } else { "in place, by plans" };
    let mut text = format!("Blocks of 4 KiB that devices read and write, elements of {kib} KiB, {how}: ");
    text += match (options.is_driven(), flush_every) {
        (false, _) => {
            "requests one at a time, each durable before the next, on a volume that was written before. A write takes the cheapest of \
             read-modify-write, reconstruct-write and full stripe."
                .into()
        }
        (true, every) => format!(
            "the volume's own engine, its log empty at first and everything else written once; requests one at a time, each when the volume \
             is idle, and a flush after every {every} of them. A busier volume gathers more writes, and does fewer operations."
        ),
    }
    .as_str();
    if let Some(device) = &options.device {
        text += &format!(
            " Latencies are of each request alone on devices of the model {}, from its issue until it is answered, or durable where a flush \
             follows; arithmetic and links take no time.",
            device.name
        );
    }
    if lost.is_empty() {
        return text + " No device is lost.";
    }
    let from = if *lost_at == 0 { "from the start".into() } else { format!("after {lost_at} requests") };
    let (names, is_one) = (lost.iter().map(usize::to_string).collect::<Vec<_>>().join(", "), lost.len() == 1);
    text += &match is_one {
        true => format!(" Device {names} is lost {from}"),
        false => format!(" Devices {names} are lost {from}"),
    };
    text += match (options.is_driven(), rebuilt_at) {
        (false, _) => "; from then on, stripes are written as a whole.".into(),
        (true, None) => ".".into(),
        (true, Some(at)) => format!(
            "; {} after {at} and {} rebuilt {}.",
            if is_one { "an empty one comes" } else { "empty ones come, one after the other," },
            if is_one { "is" } else { "are" },
            match rebuild_pace {
                Some(blocks) => format!("by {blocks} blocks per request"),
                None => "before the next request".into(),
            }
        ),
    }
    .as_str();
    text
}

/// Returns the causes that occur.
fn causes_of(replayed: &[Replayed]) -> Vec<Cause> {
    let occurs = |&cause: &Cause| replayed.iter().any(|one| one.counts.of(cause) != Blocks::default());
    Cause::ALL.into_iter().filter(occurs).collect()
}

/// Returns the load of each device, by cause.
fn loads_by_cause(replayed: &[Replayed]) -> Figure {
    let panel = |Replayed { code, counts, .. }: &Replayed| Panel {
        name: code.spec().to_string(),
        bars: counts
            .devices
            .iter()
            .map(|device| {
                let blocks = |cause: &Cause| device.get(cause).copied().unwrap_or_default();
                Cause::ALL
                    .iter()
                    .map(|&cause| (blocks(&cause).read + blocks(&cause).written) as f64)
                    .collect()
            })
            .collect(),
    };
    Figure::Stacks(Stacks {
        title: "Blocks per device, by cause".into(),
        caption: "Read and written; all codes to one scale, devices from left to right.".into(),
        parts: Cause::ALL.iter().map(|cause| cause.name().to_string()).collect(),
        panels: replayed.iter().map(panel).collect(),
    })
}

/// Adds the losses that each code survives in its placement, counted by the proof of `pantile
/// prove`, within bounds.
fn tolerance(report: &mut Report, replayed: &[Replayed], options: &Options) {
    const LOST_LOOKED_AT: usize = 5;
    let bounds = |code: &Code, placement| ProveOptions {
        placement,
        // Up to its claim a theorem proves a code without examining sets.
        lost_most: Some(code.claim().tolerance.max(LOST_LOOKED_AT)),
        sets_most: 100_000,
        work_most: 100_000_000,
        sample: 20_000,
        fatal_most: 3,
        threads: options.threads,
        ..ProveOptions::default()
    };
    let mut rows = Vec::new();
    for &Replayed { ref code, placement, .. } in replayed {
        let certificate = prove(code, &bounds(code, placement), &|_, _, _| true);
        let tolerance = certificate.tolerance();
        report.counted(code.spec(), "any so many devices may be lost, proved", tolerance as f64, None).note =
            Some(format!("placement {placement}"));
        for level in &certificate.levels {
            // Only levels from the last one without a loss on are listed. A theorem can cover more
            // levels than were examined.
            if level.lost < tolerance.min(certificate.levels.len()) {
                continue;
            }
            let kind = if level.method == Method::Exact { "" } else { " of a sample" };
            let share = level.survived_share();
            let words = format!("{} of {} sets{kind}", level.survived, level.looked_at());
            report
                .counted(code.spec(), format!("share of sets of {} that survive", level.lost), share, None)
                .note = Some(words.clone());
            let witness = certificate.fatal.iter().find(|set| set.len() == level.lost);
            let remark = match witness {
                Some(set) => {
                    let set: Vec<String> = set.iter().map(usize::to_string).collect();
                    format!("{words}; fatal: {}", set.join(" "))
                }
                None => words,
            };
            rows.push(Share {
                group: code.spec().to_string(),
                name: format!("{} lost", level.lost),
                share,
                remark,
            });
        }
    }
    report.figures.push(Figure::Shares(Shares {
        title: "Losses that each code survives".into(),
        caption: "Share of all sets of so many lost devices that can be recovered, from the largest number that always can be; \
                  beside it a smallest set that is fatal. Columns are where the placement of each code has them."
            .into(),
        head: ["devices lost".into(), "share that survives".into(), "sets".into()],
        rows,
    }));
}

/// Adds a stripe of each code, with the lost devices, or its first one, and their recovery.
fn stripes(report: &mut Report, replayed: &[Replayed], options: &Options) {
    let lost =
        if options.circumstances.lost.is_empty() { vec![0] } else { options.circumstances.lost.clone() };
    let drawn = replayed.iter().filter_map(|one| Matrix::new(&one.code, &lost));
    report.figures.extend(drawn.map(Figure::Matrix));
}

fn one(report: &mut Report, seen: &Seen, code: &Code, counts: &Counts) {
    let case = code.spec();
    let total = counts.total();
    let user_blocks = (seen.bytes_read + seen.bytes_written) as f64 / BLOCK_BYTES as f64;
    report.counted(case, "blocks read", total.read as f64, None);
    report.counted(case, "blocks written", total.written as f64, None);
    report.counted(case, "blocks per user block", (total.read + total.written) as f64 / user_blocks, None);
    let user_written = seen.bytes_written as f64 / BLOCK_BYTES as f64;
    if user_written > 0.0 {
        report.counted(case, "write amplification", total.written as f64 / user_written, None);
    }
    for cause in Cause::ALL {
        let blocks = counts.of(cause);
        report.counted(case, format!("{}, blocks read", cause.name()), blocks.read as f64, None);
        report.counted(case, format!("{}, blocks written", cause.name()), blocks.written as f64, None);
    }
    let per_device = counts.per_device();
    let loads: Vec<f64> = per_device.iter().map(|b| (b.read + b.written) as f64).collect();
    let most = loads.iter().copied().fold(0.0, f64::max);
    let mean = loads.iter().sum::<f64>() / loads.len() as f64;
    report.counted(case, "busiest device over the mean", most / mean, None);
    for (strategy, often) in &counts.strategies {
        report.counted(case, format!("offsets written by {strategy}"), *often as f64, None);
    }
    if counts.refused > 0 {
        report.counted(case, "requests that need what is lost", counts.refused as f64, None);
    }
    let (reads, is_exact) = crate::papers::recovery::reads_of(code, pantile::Effort::Fast);
    let share = reads.iter().sum::<usize>() as f64 / reads.len() as f64 / code.data().len() as f64;
    report.counted(case, "rebuild reads over the stripe's data, mean over devices", share, None).note =
        Some(if is_exact { "proved least".into() } else { "best found".to_string() });
}

fn causes(report: &mut Report, replayed: &[Replayed]) {
    let blocks = |one: &Replayed| one.counts.total().read + one.counts.total().written;
    let most = replayed.iter().map(blocks).max().unwrap_or(1).max(1) as f64;
    let all = causes_of(replayed);
    let rows = replayed.iter().map(|Replayed { code, counts, .. }| {
        let of = |cause| (counts.of(cause).read + counts.of(cause).written) as f64;
        HeatRow {
            name: code.spec().to_string(),
            values: all.iter().map(|&cause| Some(of(cause))).collect(),
            shades: all.iter().map(|&cause| Some(of(cause) / most)).collect(),
        }
    });
    report.figures.push(Figure::Heat(Heat {
        title: "Blocks by cause".into(),
        caption: "Read and written by all devices.".into(),
        columns: all.iter().map(|cause| cause.name().to_string()).collect(),
        rows: rows.collect(),
    }));
}

fn delays(report: &mut Report, replayed: &[Replayed]) {
    let mut series = Vec::new();
    for Replayed { code, gathered, .. } in replayed {
        let mut points = Vec::new();
        for one in gathered.iter().filter(|one| one.user_blocks > 0) {
            let amplification = one.moved_blocks as f64 / one.user_blocks as f64;
            let quantity = format!("blocks moved per block written, gathered over {} requests", one.requests);
            let measure = report.counted(code.spec(), quantity, amplification, None);
            if one.early > 0 {
                measure.note = Some(format!("{} times gathered less, for want of memory", one.early));
            }
            points.push((one.requests as f64, amplification));
        }
        series.push(Series { name: code.spec().to_string(), points, is_reference: false });
    }
    if series.iter().all(|series| series.points.is_empty()) {
        return;
    }
    let mut chart = Chart::lines(
        "What gathering writes saves",
        "requests gathered before parity is made",
        "blocks read and written per block the user wrote",
        series,
        match replayed.iter().any(|one| one.ending.is_some()) {
            true => {
                "A flush after so many requests; with all that follows: log, move-back, checksums and journal."
            }
            false => {
                "Writes of a window to the same block count once; the rest of a stripe is written as its plan says."
            }
        },
    );
    chart.logarithmic_x = true;
    report.figures.push(Figure::Chart(chart));
}

/// Adds the share of requests by the blocks that they cost at most.
fn cumulative(report: &mut Report, replayed: &[Replayed]) {
    let series = replayed.iter().map(|Replayed { code, counts, .. }| {
        let all = counts.blocks_per_request.iter().sum::<u64>().max(1) as f64;
        let mut sum = 0;
        let last = counts.blocks_per_request.iter().rposition(|&n| n > 0).unwrap_or(0);
        let points = counts.blocks_per_request[..=last].iter().enumerate().map(|(class, &n)| {
            sum += n;
            (f64::from(1u32 << class.min(31)), sum as f64 / all)
        });
        Series { name: code.spec().to_string(), points: points.collect(), is_reference: false }
    });
    let mut chart = Chart::lines(
        "Blocks per request",
        "blocks read and written for a request, less than",
        "share of requests",
        series.collect(),
        "Classes are powers of two.",
    );
    chart.logarithmic_x = true;
    report.figures.push(Figure::Chart(chart));
}
