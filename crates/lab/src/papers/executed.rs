//! Section V of the D-Code paper on a real volume: the requests are read through the engine from
//! devices in memory that are as slow as the model's disks. Each element costs its device one
//! service time, and nothing else takes time.
//!
//! The measured speed is compared with the paper's model, and with the time of the volume's own
//! plans on its own layout, whose stripes are turned unlike the paper's. It measures this machine
//! in one respect only: late wake-ups, and a service time is long for that reason.

use super::dcode_read::{NAME, ReadPlanner, Reads};
use super::requests::{LEN_MOST, pieces};
use super::rivals::Rival;
use crate::figure::{Chart, Figure, Series};
use crate::{EngineFault, Report};
use pantile::code::Placement;
use pantile::plan::{Planner, Request};
use pantile::{CellIndex, CellSet, Code, Costs, Effort};
use pantile_device::{AlignedBuf, Device, MemoryDevice, Throttle, Throttled};
use pantile_format::FormatError;
use pantile_format::volume::{HistoryId, VolumeId};
use pantile_host::{FolderError, Host, HostError, HostOptions};
use pantile_sim::Random;
use pantile_volume::{Birth, Geometry, NewVolume, Slot, format_volume};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Amount of work.
#[derive(Clone, Debug)]
pub struct Options {
    /// Primes whose codes are read.
    pub primes: Vec<usize>,
    /// Requests for each state: all disks present, and each disk with data lost.
    pub requests: usize,
    /// Cost of an element on its device.
    pub service: Duration,
    /// Seed of the requests.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { primes: vec![5], requests: 40, service: Duration::from_millis(16), seed: 2015 }
    }
}

/// Reason why a volume could not be read.
#[derive(Debug)]
pub enum ExecuteError {
    /// No volume has this shape.
    Shape(FormatError),
    /// The volume could not be opened, or failed.
    Host(HostError),
    /// A device refused its first content, or could not be read.
    Device(pantile_device::DeviceError),
    /// A device cannot be opened for writing.
    Folder(FolderError),
    /// A fault of the engine.
    Engine(EngineFault),
    /// Fewer devices than the narrowest code has columns.
    Few {
        /// Number of devices.
        have: usize,
        /// Number of devices needed.
        need: usize,
    },
    /// A device whose blocks do not divide an element.
    Blocks {
        /// The device.
        device: String,
        /// Bytes of its block.
        block: u64,
        /// Bytes of an element.
        element: u64,
    },
    /// A device that cannot hold the stripes that are read and written.
    Short {
        /// The device.
        device: String,
        /// Its bytes.
        have: u64,
        /// Bytes needed.
        need: u64,
    },
    /// Read bytes differ from the written ones: a fault of the volume.
    WrongBytes {
        /// The code.
        code: String,
        /// The first byte of the request.
        offset: u64,
    },
}

impl fmt::Display for ExecuteError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExecuteError::Shape(error) => error.fmt(out),
            ExecuteError::Host(error) => error.fmt(out),
            ExecuteError::Device(error) => error.fmt(out),
            ExecuteError::Folder(error) => error.fmt(out),
            ExecuteError::Engine(error) => error.fmt(out),
            ExecuteError::Few { have, need } => {
                write!(
                    out,
                    "{have} devices are too few: the narrowest code has {need} columns; name {need} or more"
                )
            }
            ExecuteError::Blocks { device, block, element } => write!(
                out,
                "blocks of {device} have {block} bytes, which do not divide an element of {element} bytes; make --element a \
                 multiple of {block}"
            ),
            ExecuteError::Short { device, have, need } => write!(
                out,
                "{device} has {have} bytes, but the stripes need {need}; name a larger one, or make --element smaller"
            ),
            ExecuteError::WrongBytes { code, offset } => {
                write!(out, "a volume of {code} gave other bytes at {offset} than were written; report this")
            }
        }
    }
}

impl std::error::Error for ExecuteError {}

impl From<FormatError> for ExecuteError {
    fn from(error: FormatError) -> ExecuteError {
        ExecuteError::Shape(error)
    }
}

impl From<EngineFault> for ExecuteError {
    fn from(error: EngineFault) -> ExecuteError {
        ExecuteError::Engine(error)
    }
}

impl From<HostError> for ExecuteError {
    fn from(error: HostError) -> ExecuteError {
        ExecuteError::Host(error)
    }
}

impl From<FolderError> for ExecuteError {
    fn from(error: FolderError) -> ExecuteError {
        ExecuteError::Folder(error)
    }
}

impl From<pantile_device::DeviceError> for ExecuteError {
    fn from(error: pantile_device::DeviceError) -> ExecuteError {
        ExecuteError::Device(error)
    }
}

const BLOCK_BYTES: u64 = 4096;
const ELEMENT_BLOCKS: u32 = 4;
const ELEMENT_BYTES: u64 = BLOCK_BYTES * ELEMENT_BLOCKS as u64;

/// Stripes of a volume: enough for the longest request from the last element of a stripe on, and
/// for stripes of different turns.
pub(super) const STRIPES: u32 = 16;

/// Returns a volume of `element_blocks` blocks per element.
pub(super) fn geometry(code: &Code, element_blocks: u32) -> Result<Geometry, FormatError> {
    Geometry::new(NewVolume {
        volume: VolumeId(*b"pantile-the-lab-"),
        code: code.clone(),
        placement: Placement::spread(code),
        element_blocks,
        logical_stripes: STRIPES,
        spare_stripes: 4,
        log_rows: 64,
        journal_blocks: 64,
    })
}

fn content(len: u64) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 4096) as u8).collect()
}

/// Returns devices that hold a volume that was written once; they are not slow yet.
fn filled(geometry: &Geometry) -> Result<Vec<Arc<MemoryDevice>>, ExecuteError> {
    let device = |slot: u32| {
        let len = geometry.device_blocks(Slot(slot)) * BLOCK_BYTES;
        Arc::new(MemoryDevice::with_block_len(format!("lab-{slot}"), len, BLOCK_BYTES as u32))
    };
    let devices: Vec<Arc<MemoryDevice>> = (0..geometry.slots() as u32).map(device).collect();
    let birth = Birth { history: HistoryId([1; 16]), name: "lab".into(), created: 0 };
    for (slot, at, bytes) in format_volume(geometry, &birth)? {
        let mut buffer = AlignedBuf::zeroed(bytes.len());
        buffer.copy_from_slice(&bytes);
        devices[slot.0 as usize].write_at(at.0 * BLOCK_BYTES, &[buffer.whole()])?;
    }
    let there = devices.iter().map(|device| Some(Arc::clone(device) as Arc<dyn Device>)).collect();
    let host = Host::open(
        geometry.clone(),
        there,
        HistoryId([2; 16]),
        &HostOptions { goes_around_slow: false, ..HostOptions::for_devices(devices.len()) },
    )?;
    host.handle().write(0, &content(geometry.user_blocks() * BLOCK_BYTES), true)?;
    host.stop()?;
    Ok(devices)
}

/// Returns first elements and lengths in elements; every stripe is begun equally often.
fn requests(code: &Code, options: &Options, state: u64) -> Vec<(usize, usize)> {
    let mut random = Random::new(options.seed ^ state << 40);
    let data = code.data().len();
    let stripes = STRIPES as usize - LEN_MOST.div_ceil(data) - 1;
    let one = |_| {
        let stripe = random.below(stripes as u64) as usize;
        (stripe * data + random.below(data as u64) as usize, random.between(1, LEN_MOST as u64) as usize)
    };
    (0..options.requests).map(one).collect()
}

/// Returns the service times of a request by the volume's plans on its layout.
fn planned(geometry: &Geometry, planner: &Planner, lost: Option<usize>, start: usize, len: usize) -> u64 {
    let code = &geometry.code;
    let data = code.data().len();
    let mut loads = vec![0u64; geometry.slots()];
    for (i, part) in pieces(data, start % data, len).into_iter().enumerate() {
        let stripe = (start / data + i) as u32;
        let slot = |cell: CellIndex| geometry.slot(stripe, code.column_of(cell)).0 as usize;
        let wanted = &code.data()[part];
        let (missing, there): (Vec<CellIndex>, Vec<CellIndex>) =
            wanted.iter().partition(|&&cell| Some(slot(cell)) == lost);
        let mut read = CellSet::of_cells(code, &there);
        if !missing.is_empty() {
            let cells: Vec<CellIndex> = code.cells().filter(|&cell| Some(slot(cell)) == lost).collect();
            let lost = CellSet::of_cells(code, &cells);
            let costs = Costs::uniform();
            let request = Request { lost: &lost, wanted: &missing, costs: &costs, effort: Effort::Fast };
            let plan = planner.recover(&request);
            plan.iter().flat_map(|plan| &plan.reads).for_each(|&cell| read.insert(cell));
        }
        read.iter().for_each(|cell| loads[slot(cell)] += 1);
    }
    loads.into_iter().max().unwrap_or(0)
}

/// Sums over the requests of one state: elements, planned service times, and measured service
/// times.
struct Ran {
    elements: u64,
    planned: u64,
    measured: f64,
}

fn state(code: &Code, lost: Option<usize>, options: &Options) -> Result<Ran, ExecuteError> {
    let geometry = geometry(code, ELEMENT_BLOCKS)?;
    let throttle = Throttle {
        positioning: Duration::ZERO,
        bytes_per_s: (ELEMENT_BYTES as f64 / options.service.as_secs_f64()) as u64,
        flush: Duration::ZERO,
        lanes: 1,
    };
    let slow =
        |device: Arc<MemoryDevice>| Some(Arc::new(Throttled::new(device, throttle)) as Arc<dyn Device>);
    let devices: Vec<Option<Arc<dyn Device>>> = filled(&geometry)?.into_iter().map(slow).collect();
    let host_options =
        HostOptions { reads_more: false, goes_around_slow: false, ..HostOptions::for_devices(devices.len()) };
    let host = Host::open(geometry.clone(), devices, HistoryId([2; 16]), &host_options)?;
    if let Some(slot) = lost {
        host.fail(Slot(slot as u32))?;
    }
    let handle = host.handle();
    handle.flush()?;
    let planner = Planner::new(code);
    let written = content(geometry.user_blocks() * BLOCK_BYTES);
    let mut ran = Ran { elements: 0, planned: 0, measured: 0.0 };
    for (start, len) in requests(code, options, lost.map_or(0, |slot| slot as u64 + 1)) {
        let (offset, bytes) = (start as u64 * ELEMENT_BYTES, len as u64 * ELEMENT_BYTES);
        let mut into = vec![0; bytes as usize];
        let begin = Instant::now();
        handle.read(offset, &mut into)?;
        ran.measured += begin.elapsed().as_secs_f64() / options.service.as_secs_f64();
        ran.planned += planned(&geometry, &planner, lost, start, len);
        ran.elements += len as u64;
        if into != written[offset as usize..(offset + bytes) as usize] {
            return Err(ExecuteError::WrongBytes { code: code.spec().to_string(), offset });
        }
    }
    host.stop()?;
    Ok(ran)
}

/// Reads volumes of every code, and adds the results to the report of the model.
///
/// `progress` receives the work done and the work in all. Cost: some three minutes with the
/// default options.
pub fn add(report: &mut Report, options: &Options, progress: &dyn Fn(u64, u64)) -> Result<(), ExecuteError> {
    debug_assert_eq!(report.experiment, NAME);
    report.say(format!(
        "Executed: {} requests per state on volumes of devices in memory, each with one queue and {} ms per element of {} KiB. \"By its plans\" is the time of the volume's own \
         plans (fewest reads) on its own layout. Its stripes are turned one against the next; those of the model are not.",
        options.requests,
        options.service.as_millis(),
        ELEMENT_BYTES / 1024
    ));
    let all: Vec<(usize, Rival)> =
        options.primes.iter().flat_map(|&p| Rival::ALL.map(|rival| (p, rival))).collect();
    let of = all.iter().map(|(p, rival)| rival.code(*p).columns() as u64 + 1).sum();
    let mut done = 0;
    let mut points: Vec<(String, Vec<(f64, f64)>)> =
        ["healthy", "one disk lost"].map(|name| (name.to_string(), Vec::new())).into();
    for (p, rival) in all {
        let code = rival.code(p);
        let reads = Reads::new(&code);
        let case = format!("{} p={p} executed", rival.name());
        let mut speeds = Vec::new();
        let states: [Vec<Option<usize>>; 2] = [vec![None], (0..code.columns()).map(Some).collect()];
        for (name, states) in ["healthy", "one disk lost"].into_iter().zip(states) {
            let mut sum = Ran { elements: 0, planned: 0, measured: 0.0 };
            for lost in states {
                let ran = state(&code, lost, options)?;
                sum.elements += ran.elements;
                sum.planned += ran.planned;
                sum.measured += ran.measured;
                done += 1;
                progress(done, of);
            }
            let elements = sum.elements as f64;
            let (measured, planned) = (elements / sum.measured, elements / sum.planned as f64);
            let model = match name {
                "healthy" => reads.normal(),
                _ => reads.degraded(ReadPlanner::Balanced),
            };
            report.measured(&case, format!("{name}, elements per service time"), measured, None);
            report.measured(&case, format!("{name}, by its plans"), planned, None);
            report.measured(&case, format!("{name}, measured over its plans"), measured / planned, None);
            report.measured(&case, format!("{name}, measured over the model"), measured / model, None).note =
                Some(
                    if name == "healthy" {
                        "the paper's layout"
                    } else {
                        "the paper's layout, balanced chains"
                    }
                    .into(),
                );
            speeds.push((planned, measured));
        }
        let [(plan_healthy, healthy), (plan_lost, lost)] = speeds[..] else { continue };
        report.measured(&case, "one disk lost over healthy, measured", lost / healthy, None);
        report.measured(&case, "one disk lost over healthy, by its plans", plan_lost / plan_healthy, None);
        points[0].1.push((plan_healthy, healthy));
        points[1].1.push((plan_lost, lost));
    }
    let mut series: Vec<Series> = points
        .into_iter()
        .map(|(name, mut points)| {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Series { name, points, is_reference: false }
        })
        .collect();
    let most = series.iter().flat_map(|s| s.points.iter().map(|p| p.0)).fold(1.0, f64::max);
    let steps = (0..=8).map(|i| most * f64::from(i) / 8.0).map(|x| (x, x)).collect();
    series.push(Series { name: "as planned".into(), points: steps, is_reference: true });
    report.figures.push(Figure::Chart(Chart::scatter(
        "Read speed of real volumes against their plans",
        "elements per service time, by the plans",
        "elements per service time, measured",
        series,
        "A point per code; what is below the diagonal is lost to the engine and to waking up late.",
    )));
    Ok(())
}
