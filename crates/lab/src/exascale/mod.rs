//! The exascale simulation of the Write Cache Layer paper, rebuilt: many light clients, hundreds
//! of servers, parity between servers.
//!
//! Discrete events in integer time; equal seeds give equal runs. A *cell* is a level of
//! redundancy, a kind of device, a way of scaling and a number of clients: `raid5-hdd-weak-80000`.
//! The result is how much faster raid0, the cache layer and delayed parity write than a standard
//! RAID in the same cell. Each run ends when the 95 % interval of its throughput is below 2 %, or
//! at its limit; several seeds give the interval of the ratios.
//!
//! The paper leaves some inputs open; they are decided here. Service times are a position and a
//! rate: the paper's tables, measured by replaying, are not public ([`ServiceTimes`] reads such a
//! table from fio's log). Links are serial. Applications have 147 clients (250,000 / 1,700, the
//! paper's own numbers).

pub mod cross_check;
mod model;
mod service;
mod world;

pub use model::{Device, FLASH, Log, Message, Messages, Network, Placement, Run, Scheme, Stripe};
pub use service::{ServiceError, ServiceTimes};
pub use world::{Operations, Outcome};

use crate::figure::{Chart, Figure, Series};
use crate::{Printed, Report, parallel, printed};
use std::collections::BTreeMap;
use world::World;

/// The name of the experiment.
pub const NAME: &str = "exascale";

/// Clients of an application: "250 K parity updates become 1.7 K".
pub const CLIENTS_PER_APP: u32 = 147;

/// Bytes of a write under weak scaling.
const WEAK_BYTES: u32 = 128 << 10;

/// Bytes of an iteration under strong scaling: 8 KiB of each of 500,000 clients.
const STRONG_BYTES: u64 = 4_096_000_000;

/// Simulates one run with one seed.
pub fn simulate(run: &Run, seed: u64) -> Outcome {
    World::new(run, seed).run(|batches| interval_share(batches) < 0.02)
}

/// Returns half the 95 % interval of the mean over the mean; infinite with fewer than eight
/// batches.
fn interval_share(batches: &[u64]) -> f64 {
    if batches.len() < 8 {
        return f64::INFINITY;
    }
    let values: Vec<f64> = batches.iter().map(|&b| b as f64).collect();
    let (mean, half) = interval(&values);
    half / mean
}

/// Returns the mean and half the 95 % interval, by Student's t.
pub fn interval(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    if values.len() < 2 {
        return (mean, f64::INFINITY);
    }
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    const T: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    let t = T.get(values.len() - 2).copied().unwrap_or(2.0 + 2.4 / n);
    (mean, t * (variance / n).sqrt())
}

/// Growth of the load with the number of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scaling {
    /// Every client writes 128 KiB at a time.
    Weak,
    /// All clients together write 4.1 GB an iteration.
    Strong,
}

impl Scaling {
    /// Returns the name that cases use.
    pub fn name(self) -> &'static str {
        match self {
            Scaling::Weak => "weak",
            Scaling::Strong => "strong",
        }
    }

    /// Returns the bytes of a write: whole KiB, at most a stripe unit.
    fn write_bytes(self, clients: u32) -> u32 {
        match self {
            Scaling::Weak => WEAK_BYTES,
            Scaling::Strong => {
                ((STRONG_BYTES / u64::from(clients.max(1))) as u32 / 1024 * 1024).clamp(1024, 1 << 20)
            }
        }
    }
}

/// Width of the stripes of a level.
#[derive(Clone, Debug)]
pub enum Width {
    /// A number of parities, and data on all other servers.
    AllServers(u32),
    /// The stripe of a code.
    Of(Stripe),
}

/// A level of redundancy: its name in cases, and its stripes.
#[derive(Clone, Debug)]
pub struct Level {
    /// `raid5`.
    pub name: String,
    /// Its stripes.
    pub width: Width,
}

impl Level {
    /// Returns RAID-5: one parity, and data on all other servers.
    pub fn raid5() -> Level {
        Level { name: "raid5".into(), width: Width::AllServers(1) }
    }

    /// Returns RAID-6: two parities, and data on all other servers.
    pub fn raid6() -> Level {
        Level { name: "raid6".into(), width: Width::AllServers(2) }
    }

    /// Returns the level of any code: a unit is an element, and changes the parities of its
    /// equations.
    pub fn of(code: &pantile::Code) -> Level {
        Level { name: code.spec().replace(':', ""), width: Width::Of(Stripe::of(code)) }
    }
}

/// Options of the simulation.
#[derive(Clone, Debug)]
pub struct Options {
    /// Levels.
    pub levels: Vec<Level>,
    /// Devices.
    pub devices: Vec<Device>,
    /// Ways of scaling.
    pub scalings: Vec<Scaling>,
    /// Numbers of clients.
    pub clients: Vec<u32>,
    /// Divisor of servers and clients; the load of a server stays the same.
    pub scale: u32,
    /// Seeds.
    pub seeds: u64,
    /// Reads among 1000 requests of a client.
    pub reads_per_mille: u32,
    /// Bytes of a write, overriding the scaling.
    pub write_bytes: Option<u32>,
    /// True if two of three writes have the size of small plot files: [`FLASH`].
    pub has_plots: bool,
    /// Placement of units on servers.
    pub placement: Placement,
    /// Cost of writes to the cache zone.
    pub log: Log,
    /// True if data is moved back.
    pub move_back: bool,
    /// Maximum of events of a run.
    pub events_most: u64,
    /// Threads; the result does not depend on their number.
    pub threads: usize,
}

impl Options {
    /// Returns the paper's figure 3 at its size.
    pub fn paper() -> Options {
        Options {
            levels: vec![Level::raid5(), Level::raid6()],
            devices: vec![Device::hdd(), Device::ssd()],
            scalings: vec![Scaling::Weak, Scaling::Strong],
            clients: vec![2_000, 10_000, 40_000, 80_000, 250_000, 500_000],
            scale: 1,
            seeds: 3,
            reads_per_mille: 0,
            write_bytes: None,
            has_plots: false,
            placement: Placement::Striped,
            log: Log::Random,
            move_back: false,
            events_most: 100_000_000,
            threads: 1,
        }
    }

    /// Returns figure 3 at a sixteenth of the size, with fewer cells: it takes seconds.
    pub fn quick() -> Options {
        Options {
            clients: vec![2_000, 80_000, 250_000],
            scale: 16,
            seeds: 2,
            events_most: 2_500_000,
            ..Options::paper()
        }
    }
}

impl Options {
    /// Returns true if the paper simulated all that these options request, so that its numbers
    /// apply.
    fn is_the_papers(&self) -> bool {
        let devices = self.devices.iter().all(|device| device.service.is_none());
        let place = self.log == Log::Random && !self.move_back && !self.has_plots;
        devices && place && self.reads_per_mille == 0 && self.write_bytes.is_none()
    }
}

/// Servers of the paper.
const SERVERS: u32 = 512;

/// Ratios of raid0, wcl and delayed to std, by the number of clients.
type Line = Vec<(u32, [f64; 3])>;

/// One cell.
#[derive(Clone, Debug)]
struct Cell {
    level: usize,
    device: usize,
    scaling: Scaling,
    clients: u32,
}

/// Returns a run of a cell.
fn run_of(options: &Options, cell: &Cell, scheme: Scheme) -> Run {
    let clients = (cell.clients / options.scale).max(1);
    let servers = (SERVERS / options.scale).clamp(4, 4096);
    let mut run = Run {
        scheme,
        stripe: match &options.levels[cell.level].width {
            Width::AllServers(parities) => {
                Stripe::row(servers.saturating_sub(*parities).max(1) as usize, *parities)
            }
            Width::Of(stripe) => stripe.clone(),
        },
        servers: servers as u16,
        clients,
        clients_per_app: CLIENTS_PER_APP,
        reads_per_mille: options.reads_per_mille,
        write_bytes: options.write_bytes.unwrap_or(cell.scaling.write_bytes(cell.clients)),
        has_plots: options.has_plots,
        has_own_regions: false,
        unit_bytes: 1 << 20,
        device: options.devices[cell.device].clone(),
        network: Network::default(),
        placement: options.placement,
        log: options.log,
        move_back: options.move_back,
        writes_each: None,
        batch_ns: 0,
        warm_up_batches: 8,
        batches_most: 200,
        events_most: options.events_most,
    };
    // A batch is half a cycle of the closed loop, and at least the end of an epoch: a unit is read
    // and sent, and a parity written.
    run.batch_ns = (run.cycle_ns() / 2).max(4 * run.device.mean_ns(true, run.unit_bytes.into()));
    run
}

/// Runs every cell for each size of a write, and draws the ratios by size for the most clients.
/// Cases end in the size.
pub fn sweep(options: &Options, sizes: &[u32], progress: &(dyn Fn(u64, u64) + Sync)) -> Report {
    let mut report = Report::new(NAME, "Write Cache Layer at exascale: sizes of writes");
    say(&mut report, options);
    let mut lines: BTreeMap<(usize, usize, Scaling), Line> = BTreeMap::new();
    for (done, &size) in (0..).zip(sizes) {
        let of_all = |part, of| progress(done * of + part, sizes.len() as u64 * of);
        let options = Options { write_bytes: Some(size), ..options.clone() };
        for (key, line) in cells(&mut report, &options, &format!("-{size}"), &of_all) {
            let most = line.into_iter().max_by_key(|(clients, _)| *clients);
            lines.entry(key).or_default().extend(most.map(|(_, ratios)| (size, ratios)));
        }
    }
    for ((level, device, scaling), points) in lines {
        report.figures.push(figure(options, level, device, scaling, "bytes of a write", &points));
    }
    report.answer = answer(&report);
    report
}

/// Runs every cell. `progress` receives the runs done and the runs in all.
pub fn run(options: &Options, progress: &(dyn Fn(u64, u64) + Sync)) -> Report {
    let mut report = Report::new(NAME, "Write Cache Layer at exascale: figure 3 again");
    say(&mut report, options);
    for ((level, device, scaling), points) in cells(&mut report, options, "", progress) {
        report.figures.push(figure(options, level, device, scaling, "clients", &points));
    }
    report.answer = answer(&report);
    report
}

/// Returns the range of the gains over a standard RAID, with the cases at its ends.
fn answer(report: &Report) -> String {
    let range = |quantity: &str| {
        let found = report.measures.iter().filter(|measure| measure.quantity == quantity);
        let values = || found.clone().filter_map(|measure| Some((measure.value?, &measure.case)));
        let least = values().min_by(|a, b| a.0.total_cmp(&b.0));
        let most = values().max_by(|a, b| a.0.total_cmp(&b.0));
        let said = |end: Option<(f64, &String)>| {
            end.map_or("?".into(), |(value, case)| format!("{value:.2} ({case})"))
        };
        format!("{} to {} times", said(least), said(most))
    };
    format!(
        "Delayed parity writes {} as fast as a standard RAID, a write cache layer {}.",
        range("delayed/std"),
        range("wcl/std")
    )
}

fn cells(
    report: &mut Report,
    options: &Options,
    suffix: &str,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> BTreeMap<(usize, usize, Scaling), Line> {
    let mut cells = Vec::new();
    for level in 0..options.levels.len() {
        for device in 0..options.devices.len() {
            for &scaling in &options.scalings {
                cells.extend(options.clients.iter().map(|&clients| Cell { level, device, scaling, clients }));
            }
        }
    }
    let mut tasks: Vec<(usize, Scheme, u64)> = Vec::new();
    for cell in 0..cells.len() {
        for scheme in Scheme::ALL {
            tasks.extend((0..options.seeds.max(1)).map(|seed| (cell, scheme, seed)));
        }
    }
    let done = std::sync::atomic::AtomicU64::new(0);
    let of = tasks.len() as u64;
    let outcomes = parallel::map(options.threads, &tasks, |&(cell, scheme, seed)| {
        let outcome = simulate(&run_of(options, &cells[cell], scheme), seed + 1);
        progress(done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1, of);
        outcome
    });
    let found: BTreeMap<(usize, Scheme, u64), Outcome> = tasks.into_iter().zip(outcomes).collect();
    let mut lines: BTreeMap<(usize, usize, Scaling), Line> = BTreeMap::new();
    for (index, cell) in cells.iter().enumerate() {
        let ratios = one(report, options, cell, suffix, &|scheme, seed| &found[&(index, scheme, seed)]);
        lines.entry((cell.level, cell.device, cell.scaling)).or_default().push((cell.clients, ratios));
    }
    lines
}

fn say(report: &mut Report, options: &Options) {
    report.say(
        "How much faster do many light clients write without parity, with a write cache layer, and with parity delayed to the end of an epoch, than with a standard \
         RAID across servers? Closed loop: each client writes again when it was answered; with delayed parity an application's clients wait for its parity.",
    );
    report.say(format!(
        "{} servers, {} clients per application, units of 1 MiB, {} placement, cache zone {}, {}, {}. Operations are counted exactly; ratios are of throughput in the same cell, with 95 % \
         intervals over {} seeds. Every run ends when the interval of its throughput is below 2 %, or after {} million events.",
        (SERVERS / options.scale).max(4),
        CLIENTS_PER_APP,
        match options.placement {
            Placement::Random => "random",
            Placement::Striped => "striped",
            Placement::Aligned => "aligned",
        },
        if options.log == Log::Random { "as costly as any place" } else { "sequential, neighbours merged" },
        match options.reads_per_mille {
            0 => "writes only".to_string(),
            reads => format!("{} % of requests read", f64::from(reads) / 10.0),
        },
        if options.move_back { "data moved back" } else { "data not moved back, as in the paper" },
        options.seeds,
        options.events_most / 1_000_000
    ));
    report.say(
        "The paper says WCL is 2x for RAID-5 and 1.18x for RAID-6. Both cannot hold under one rule: device time gives 4/3 and 6/5 (the 25 % and 16 % fewer operations that it prints), \
         latency of dependent steps gives 2 for both. Here devices are the limit.",
    );
}

/// Adds the measures of one cell; returns the three ratios.
fn one<'o>(
    report: &mut Report,
    options: &Options,
    cell: &Cell,
    suffix: &str,
    outcome: &dyn Fn(Scheme, u64) -> &'o Outcome,
) -> [f64; 3] {
    let level = &options.levels[cell.level];
    let device = options.devices[cell.device].name;
    let case = format!("{}-{device}-{}-{}{suffix}", level.name, cell.scaling.name(), cell.clients);
    let rate = |outcome: &Outcome| {
        let bytes: u64 = outcome.batches.iter().sum();
        // NaN, shown as none, if the event limit came before the end of the warm-up.
        bytes as f64 / (outcome.batches.len() as f64 * outcome.batch_ns as f64 / 1e9)
    };
    let mut ratios = [f64::NAN; 3];
    for (i, scheme) in [Scheme::Raid0, Scheme::Wcl, Scheme::Delayed].into_iter().enumerate() {
        let of_seeds: Vec<f64> = (0..options.seeds.max(1))
            .map(|seed| rate(outcome(scheme, seed)) / rate(outcome(Scheme::Std, seed)))
            .collect();
        let (mean, half) = interval(&of_seeds);
        ratios[i] = mean;
        let note = match half.is_finite() {
            _ if mean.is_nan() => {
                "the limit of events came before the first measurement; raise it with --events".into()
            }
            true => format!("95 % interval {:.3} to {:.3}", mean - half, mean + half),
            false => "one seed".to_string(),
        };
        let quantity = format!("{}/std", scheme.name());
        let published = if options.is_the_papers() { published(level, device, cell, scheme) } else { None };
        report.simulated(&case, quantity, mean, published).note = Some(note);
    }
    const LOSS: &str = "they can represent a loss of performance of up to 85 % for update operations when compared to storing raw data";
    let is_raid6_on_disks = level.name == "raid6" && device == "hdd" && cell.scaling == Scaling::Weak;
    let loss = printed(85.0, LOSS);
    report.simulated(
        &case,
        "std below raid0, per cent",
        100.0 * (1.0 - 1.0 / ratios[0]),
        (is_raid6_on_disks && options.is_the_papers()).then_some(loss),
    );
    fewer(report, options, cell, &case, outcome);
    for scheme in Scheme::ALL {
        let first = outcome(scheme, 0);
        let scaled = rate(first) * f64::from(options.scale) / 1e6;
        report.simulated(&case, format!("{}, MB/s of all servers", scheme.name()), scaled, None);
        let operations = &first.operations;
        let acknowledged = operations.acknowledged.max(1) as f64;
        let of = |count: u64| count as f64 / acknowledged;
        report
            .counted(
                &case,
                format!("{}, device operations per write", scheme.name()),
                of(operations.all()),
                None,
            )
            .note = Some("with those of writes that are still under way at the end".into());
        let busiest = first.per_server.iter().max().copied().unwrap_or(0) as f64;
        let mean = first.per_server.iter().sum::<u64>() as f64 / first.per_server.len() as f64;
        report.simulated(
            &case,
            format!("{}, busiest server over the mean", scheme.name()),
            busiest / mean,
            None,
        );
    }
    ratios
}

/// Adds the paper's statements on operations, beside the counted ones.
fn fewer<'o>(
    report: &mut Report,
    options: &Options,
    cell: &Cell,
    case: &str,
    outcome: &dyn Fn(Scheme, u64) -> &'o Outcome,
) {
    const FEWER: &str =
        "reducing the number of operations when writing new data by 25 % in RAID-5 and 16 % in RAID-6";
    const UPDATES: &str =
        "we go from 250 K parity updates (clients \u{b7} appl. iterations) to 1.7 K parity updates";
    let level = options.levels[cell.level].name.as_str();
    let per_write = |scheme, count: fn(&Operations) -> u64| {
        let operations = &outcome(scheme, 0).operations;
        count(operations) as f64 / operations.acknowledged.max(1) as f64
    };
    let is_the_papers = options.is_the_papers() && cell.scaling == Scaling::Weak;
    let printed_share = match level {
        "raid5" if is_the_papers => Some(printed(25.0, FEWER)),
        "raid6" if is_the_papers => Some(printed(16.0, FEWER)),
        _ => None,
    };
    let share = 1.0 - per_write(Scheme::Wcl, Operations::all) / per_write(Scheme::Std, Operations::all);
    report.counted(case, "wcl, operations fewer than std, per cent", 100.0 * share, printed_share);
    let is_of_text =
        options.is_the_papers() && (level, cell.scaling, cell.clients) == ("raid5", Scaling::Strong, 250_000);
    for (scheme, thousands) in [(Scheme::Std, 250.0), (Scheme::Delayed, 1.7)] {
        let updates = per_write(scheme, |o| o.parity_writes) * f64::from(cell.clients) / 1000.0;
        let quantity = format!("{}, thousands of parity updates an iteration", scheme.name());
        report.counted(case, quantity, updates, is_of_text.then_some(printed(thousands, UPDATES)));
    }
}

/// Returns the paper's statement on a cell of figure 3.
fn published(level: &Level, device: &str, cell: &Cell, scheme: Scheme) -> Option<Printed> {
    const FOUR: &str =
        "the performance of writes is four times slower on STD-RAID w.r.t. RAID-0 both in HDDs and SSDs";
    const TWICE: &str = "the WCL scenario results in a speedup of 2x";
    const UP_TO: &str = "delaying the parity calculation and improving the performance up to a 300 %";
    const RAID6: &str = "the improvement on performance using WCL is a bit lower (1.18x speedup)";
    let is_large = cell.clients >= 250_000;
    match (level.name.as_str(), cell.scaling, scheme) {
        ("raid5", Scaling::Weak, Scheme::Raid0) => Some(printed(4.0, FOUR)),
        ("raid5", Scaling::Weak, Scheme::Wcl) => Some(printed(2.0, TWICE)),
        ("raid5", Scaling::Weak, Scheme::Delayed) if device == "hdd" && is_large => Some(printed(3.0, UP_TO)),
        ("raid6", Scaling::Weak, Scheme::Wcl) => Some(printed(1.18, RAID6)),
        _ => None,
    }
}

fn figure(
    options: &Options,
    level: usize,
    device: usize,
    scaling: Scaling,
    by: &str,
    points: &[(u32, [f64; 3])],
) -> Figure {
    let series = |name: &str, i: usize| Series {
        name: name.into(),
        points: points.iter().map(|&(at, ratios)| (f64::from(at), ratios[i])).collect(),
        is_reference: i == 0,
    };
    let mut all = vec![series("raid0", 0), series("wcl", 1), series("delayed", 2)];
    let schemes =
        [Scheme::Raid0, Scheme::Wcl, Scheme::Delayed].into_iter().filter(|_| options.is_the_papers());
    for scheme in schemes {
        let of = |&(clients, _): &(u32, [f64; 3])| {
            let cell = Cell { level, device, scaling, clients };
            let value = published(&options.levels[level], options.devices[device].name, &cell, scheme)?;
            Some((f64::from(clients), value.value))
        };
        let stated: Vec<(f64, f64)> = points.iter().filter_map(of).collect();
        if !stated.is_empty() {
            all.push(Series {
                name: format!("{}, the paper", scheme.name()),
                points: stated,
                is_reference: true,
            });
        }
    }
    let (name, device) = (&options.levels[level].name, options.devices[device].name);
    let mut chart = Chart::lines(
        format!("{name}, {device}, {} scaling", scaling.name()),
        by,
        "write throughput over std",
        all,
        "Throughput relative to a standard RAID with as many clients. Thin lines with a name of the paper: what its text states.",
    );
    chart.logarithmic_x = true;
    Figure::Chart(chart)
}
