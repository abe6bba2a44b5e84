//! One trace, many codes: what each would do to the disks.
//!
//! A [`trace`] is read once, streaming; every code has a [`Counter`] that counts the plans a volume with the policy `inplace` would
//! execute, and a [`Window`] per delay that counts what gathering writes saves. [`generate`] makes traces up.
//!
//! The address space of a trace is that of the volume, from byte 0; a code's volume is as long as it must be.

pub mod count;
pub mod generate;
pub mod trace;
mod window;

pub use count::{BLOCK_BYTES, Blocks, Cause, Counter, Counts};
pub use trace::{BadLine, Format, Request, Trace, TraceError, Writer};
pub use window::Window;

use crate::bars::{Panel, Share, Shares, Stacks};
use crate::figure::{Chart, Figure, Heat, HeatRow, Series};
use crate::matrix::Matrix;
use crate::{Report, parallel};
use pantile::plan::{Method, ProveOptions, prove};
use pantile::{Code, NotRecoverable};
use pantile_format::FormatError;
use pantile_format::volume::VolumeId;
use pantile_volume::{Geometry, NewVolume, Policy};
use std::fmt;
use std::io::{self, BufRead};
use std::sync::Mutex;

/// The name of the experiment.
pub const NAME: &str = "replay";

/// Under what circumstances.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of an element: a multiple of 4096.
    pub element_bytes: u64,
    /// Devices that are lost all the time.
    pub lost: Vec<usize>,
    /// Delays, in requests, for which gathering writes is counted.
    pub windows: Vec<u64>,
    /// Threads; they change no number.
    pub threads: usize,
}

/// Why a code cannot be replayed on.
#[derive(Debug)]
pub enum ReplayError {
    /// No volume has this shape.
    Shape(FormatError),
    /// What is lost cannot be recovered.
    Lost(NotRecoverable),
    /// A lost device that the code does not have.
    NoDevice {
        /// Its number.
        device: usize,
        /// How many there are.
        devices: usize,
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

/// What a trace was.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Requests.
    pub requests: u64,
    /// Of them writes.
    pub writes: u64,
    /// Bytes read and written.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// The first byte that no request reached.
    pub end: u64,
    /// Microseconds from the first to the last.
    pub duration_us: u64,
    /// Lines that could not be read.
    pub bad: u64,
    /// The first of them.
    pub first_bad: Vec<BadLine>,
}

const BAD_SHOWN: usize = 10;

/// Requests that are handed to all counters at a time, and how many at least of codes whose plans take long.
const BATCH: usize = 1 << 16;
const BATCH_LEAST: usize = 1 << 10;

/// Data cells times requests of a batch: a new plan takes time by the number of cells.
const BATCH_CELLS: usize = 1 << 23;

/// Bytes of a batch, so that whoever waits is told of progress however long the requests are.
const BATCH_BYTES: u64 = 1 << 36;

/// The volume that a code would be: long enough for any trace, as the shape of stripes is all that counts.
pub fn geometry(code: &Code, element_bytes: u64) -> Result<Geometry, FormatError> {
    Geometry::new(NewVolume {
        volume: VolumeId(*b"pantile-the-lab-"),
        code: code.clone(),
        element_blocks: u32::try_from(element_bytes / BLOCK_BYTES).unwrap_or(u32::MAX),
        logical_stripes: 1024,
        spare_stripes: 0,
        log_rows: 0,
        journal_blocks: 16,
        policy: Policy::Inplace,
    })
}

/// What a trace was to one code.
pub struct Replayed {
    /// The code.
    pub code: Code,
    /// The blocks of each device.
    pub counts: Counts,
    /// What gathering writes would save, by delay.
    pub windows: Vec<Window>,
}

/// One code's part.
struct Lane {
    counter: Counter,
    windows: Vec<Window>,
}

/// Replays a trace on every code.
///
/// `progress` is told requests so far and ends the replay by answering `false`; what was counted by then is returned.
/// Errors: a code that cannot be used, or a trace that cannot be read; bad lines are no errors, they are counted.
pub fn run<R: BufRead>(
    trace: &mut Trace<R>,
    codes: &[Code],
    options: &Options,
    progress: &dyn Fn(u64) -> bool,
) -> Result<(Seen, Vec<Replayed>), ReplayError> {
    let mut lanes = Vec::new();
    for code in codes {
        let geometry = geometry(code, options.element_bytes).map_err(ReplayError::Shape)?;
        let devices = code.columns();
        if let Some(&device) = options.lost.iter().find(|&&device| device >= devices) {
            return Err(ReplayError::NoDevice { device, devices });
        }
        let counter = Counter::new(&geometry, &options.lost).map_err(ReplayError::Lost)?;
        let windows = options.windows.iter().map(|&requests| Window::new(&geometry, requests)).collect();
        lanes.push(Mutex::new(Lane { counter, windows }));
    }
    let mut seen = Seen::default();
    let cells = codes.iter().map(|code| code.data().len()).max().unwrap_or(1);
    let batch_most = (BATCH_CELLS / cells).clamp(BATCH_LEAST, BATCH);
    let mut batch = Vec::with_capacity(batch_most);
    let mut is_over = false;
    while !is_over {
        batch.clear();
        let (mut bytes, mut bad_lines) = (0, 0);
        while batch.len() + bad_lines < batch_most && bytes < BATCH_BYTES && !is_over {
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
        for request in &batch {
            seen.requests += 1;
            seen.writes += u64::from(request.is_write);
            let bytes = if request.is_write { &mut seen.bytes_written } else { &mut seen.bytes_read };
            *bytes += request.len;
            seen.end = seen.end.max(request.offset + request.len);
            seen.duration_us = seen.duration_us.max(request.at_us);
        }
        parallel::map(options.threads, &lanes, |lane| {
            let mut lane = lane.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let Lane { counter, windows } = &mut *lane;
            batch.iter().for_each(|request| counter.push(request));
            windows.iter_mut().for_each(|window| batch.iter().for_each(|request| window.push(request)));
        });
        is_over |= !progress(seen.requests);
    }
    let finish = |(code, lane): (&Code, Mutex<Lane>)| {
        let mut lane = lane.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        lane.windows.iter_mut().for_each(Window::finish);
        Replayed { code: code.clone(), counts: lane.counter.finish(), windows: lane.windows }
    };
    Ok((seen, codes.iter().zip(lanes).map(finish).collect()))
}

/// The table and pictures of a replay.
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
    report.say(format!(
        "Blocks of 4 KiB that devices read and write, elements of {} KiB, policy inplace: requests one at a time, each durable before the next, on a volume that was \
         written before. A write takes the cheapest of read-modify-write, reconstruct-write and full stripe. {}",
        options.element_bytes / 1024,
        match options.lost.as_slice() {
            [] => "No device is lost.".to_string(),
            lost => format!("Lost devices: {lost:?}; a stripe that is written then is written as a whole."),
        }
    ));
    let mut loads = Vec::new();
    for Replayed { code, counts, .. } in replayed {
        one(&mut report, seen, code, counts);
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
    report
}

/// What each device bears, by cause.
fn loads_by_cause(replayed: &[Replayed]) -> Figure {
    let panel = |Replayed { code, counts, .. }: &Replayed| Panel {
        name: code.spec().to_string(),
        bars: counts
            .devices
            .iter()
            .map(|device| {
                let blocks = |cause| device.get(cause).copied().unwrap_or_default();
                Cause::ALL.iter().map(|cause| (blocks(cause).read + blocks(cause).written) as f64).collect()
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

/// Which losses each code survives, counted by the same proof as `pantile prove`, within bounds.
fn tolerance(report: &mut Report, replayed: &[Replayed], options: &Options) {
    let bounds = ProveOptions {
        lost_most: Some(5),
        sets_most: 100_000,
        work_most: 100_000_000,
        sample: 20_000,
        fatal_most: 3,
        threads: options.threads,
        ..ProveOptions::default()
    };
    let mut rows = Vec::new();
    for Replayed { code, .. } in replayed {
        let certificate = prove(code, &bounds, &|_, _, _| true);
        let tolerance = certificate.tolerance();
        report.measure(code.spec(), "any so many devices may be lost, proved", tolerance as f64, None);
        for level in &certificate.levels {
            // From the last level without loss on: what is below it says no more.
            if level.lost < tolerance {
                continue;
            }
            let (of, kind) = match level.method {
                Method::Exact => (level.sets, ""),
                Method::Sampled { drawn, .. } => (drawn.max(1), " of a sample"),
            };
            let share = level.survived as f64 / of as f64;
            let words = format!("{} of {of} sets{kind}", level.survived);
            report
                .measure(code.spec(), format!("share of sets of {} that survive", level.lost), share, None)
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
        caption: "Share of all sets of so many lost columns that can be recovered, from the largest number that always can be; \
                  beside it a smallest set that is fatal."
            .into(),
        head: ["columns lost".into(), "share that survives".into(), "sets".into()],
        rows,
    }));
}

/// A stripe of each code: the devices that are lost, or its first one, and how it comes back.
fn stripes(report: &mut Report, replayed: &[Replayed], options: &Options) {
    let lost = if options.lost.is_empty() { vec![0] } else { options.lost.clone() };
    let drawn = replayed.iter().filter_map(|one| Matrix::new(&one.code, &lost));
    report.figures.extend(drawn.map(Figure::Matrix));
}

fn one(report: &mut Report, seen: &Seen, code: &Code, counts: &Counts) {
    let case = code.spec();
    let total = counts.total();
    let user_blocks = (seen.bytes_read + seen.bytes_written) as f64 / BLOCK_BYTES as f64;
    report.measure(case, "blocks read", total.read as f64, None);
    report.measure(case, "blocks written", total.written as f64, None);
    report.measure(case, "blocks per user block", (total.read + total.written) as f64 / user_blocks, None);
    let user_written = seen.bytes_written as f64 / BLOCK_BYTES as f64;
    if user_written > 0.0 {
        report.measure(case, "write amplification", total.written as f64 / user_written, None);
    }
    for cause in Cause::ALL {
        let blocks = counts.of(cause);
        report.measure(case, format!("{}, blocks read", cause.name()), blocks.read as f64, None);
        report.measure(case, format!("{}, blocks written", cause.name()), blocks.written as f64, None);
    }
    let per_device = counts.per_device();
    let loads: Vec<f64> = per_device.iter().map(|b| (b.read + b.written) as f64).collect();
    let most = loads.iter().copied().fold(0.0, f64::max);
    let mean = loads.iter().sum::<f64>() / loads.len() as f64;
    report.measure(case, "busiest device over the mean", most / mean, None);
    for (strategy, often) in &counts.strategies {
        report.measure(case, format!("offsets written by {strategy}"), *often as f64, None);
    }
    if counts.refused > 0 {
        report.measure(case, "requests that need what is lost", counts.refused as f64, None);
    }
    let (reads, is_exact) = crate::papers::recovery::reads_of(code, pantile::Effort::Fast);
    let share = reads.iter().sum::<usize>() as f64 / reads.len() as f64 / code.data().len() as f64;
    report.measure(case, "rebuild reads over the stripe's data, mean over devices", share, None).note =
        Some(if is_exact { "proved least".into() } else { "best found".to_string() });
}

fn causes(report: &mut Report, replayed: &[Replayed]) {
    let blocks = |one: &Replayed| one.counts.total().read + one.counts.total().written;
    let most = replayed.iter().map(blocks).max().unwrap_or(1).max(1) as f64;
    let rows = replayed.iter().map(|Replayed { code, counts, .. }| {
        let of = |cause| (counts.of(cause).read + counts.of(cause).written) as f64;
        HeatRow {
            name: code.spec().to_string(),
            values: Cause::ALL.iter().map(|&cause| Some(of(cause))).collect(),
            shades: Cause::ALL.iter().map(|&cause| Some(of(cause) / most)).collect(),
        }
    });
    report.figures.push(Figure::Heat(Heat {
        title: "Blocks by cause".into(),
        caption: "Read and written by all devices.".into(),
        columns: Cause::ALL.iter().map(|cause| cause.name().to_string()).collect(),
        rows: rows.collect(),
    }));
}

fn delays(report: &mut Report, replayed: &[Replayed]) {
    let mut series = Vec::new();
    for Replayed { code, windows, .. } in replayed {
        let mut points = Vec::new();
        for window in windows.iter().filter(|window| window.user_blocks() > 0) {
            let amplification = window.amplification();
            let quantity =
                format!("blocks moved per block written, gathered over {} requests", window.requests());
            let measure = report.measure(code.spec(), quantity, amplification, None);
            if window.early() > 0 {
                measure.note = Some(format!("{} times gathered less, for want of memory", window.early()));
            }
            points.push((window.requests() as f64, amplification));
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
        "Writes of a window to the same block count once; the rest of a stripe is written as its plan says.",
    );
    chart.logarithmic_x = true;
    report.figures.push(Figure::Chart(chart));
}

/// The share of requests that cost at most so many blocks.
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
