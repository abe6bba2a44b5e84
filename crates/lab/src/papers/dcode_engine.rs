//! Sections IV and V of the D-Code paper on the volume's own engine, in virtual time: volumes of
//! every code get the requests of the paper, and the operations of their devices are counted and
//! timed.
//!
//! The counts of [`super::dcode_load`] and [`super::dcode_read`] multiply plans; these are of a
//! volume. Its stripes are turned one against the next, and its plans read the fewest elements.
//! Writes are those of a standard RAID, in place, which reads the old content that it needs.
//! Accesses are counted by column of a stripe too, so that the disks of the paper, which do not
//! rotate, can be compared.

use super::array::Array;
use super::dcode_load::{self, Convention, WORKLOADS, Workload, load_factor};
use super::dcode_read::{ABSOLUTE, infer, published};
use super::executed::ExecuteError;
use super::requests::all;
use super::rivals::{PRIMES, Rival};
use crate::exascale::Device;
use crate::figure::{Chart, Figure, Listing, Series};
use crate::{Kind, Report, parallel};
use pantile::Code;
use pantile_sim::{IoKind, Random};
use pantile_volume::{DeviceBlock, Slot};
use std::collections::BTreeMap;

/// The name of the experiment.
pub const NAME: &str = "dcode-engine";

/// A disk of the array.
#[derive(Clone, Debug)]
pub enum Disk {
    /// A constant cost per element: the model that gives the paper's percentages, see
    /// [`super::dcode_read`].
    Element,
    /// A positioning time and a rate, or measured times. Over a gap shorter than a positioning, the
    /// head waits instead.
    Of(Device),
}

impl Disk {
    /// Returns the paper's disk, a Seagate Savvio 10K.3 of 300 GB: half a turn at 10,000 a minute
    /// is 3.0 ms, the rate the middle of 67 to 124 MB/s (product manual 100516229, rev. G, section
    /// 5.2.3). A seek is 4.0 ms, from the manual of the first Savvio of 10,000 turns (rev. D,
    /// section 4.2.1); the one for the 10K.3 was not found.
    pub fn savvio() -> Disk {
        Disk::Of(Device {
            name: "savvio",
            position_ns: 7_000_000,
            read_bytes_per_s: 95_500_000,
            write_bytes_per_s: 95_500_000,
            channels: 1,
            merge_most: 1,
            service: None,
        })
    }

    /// Returns all disks: `element`, `savvio`, and the record of a virtual disk.
    pub fn all() -> [Disk; 3] {
        [Disk::Element, Disk::savvio(), Disk::Of(Device::virtual_disk())]
    }

    /// Returns the name that cases use.
    pub fn name(&self) -> &'static str {
        match self {
            Disk::Element => "element",
            Disk::Of(device) => device.name,
        }
    }

    /// Returns true if the paper's numbers apply: the build machine's disk is not the paper's.
    fn is_the_papers(&self) -> bool {
        !matches!(self, Disk::Of(Device { service: Some(_), .. }))
    }

    fn unit(&self) -> &'static str {
        match self {
            Disk::Element => "elements per service time",
            Disk::Of(_) => "MB/s",
        }
    }

    /// Returns the speed of a number of elements in a time, in its unit.
    fn speed(&self, elements: u64, ns: u64, element_bytes: u64) -> f64 {
        let per_ns = elements as f64 / ns.max(1) as f64;
        match self {
            Disk::Element => per_ns * ELEMENT_NS as f64,
            Disk::Of(_) => per_ns * element_bytes as f64 * 1e3,
        }
    }
}

/// Cost of an element on [`Disk::Element`]; every number is in units of it.
const ELEMENT_NS: u64 = 1_000_000;

/// Amount of work, and the disks.
#[derive(Clone, Debug)]
pub struct Options {
    /// Primes whose codes are read and written.
    pub primes: Vec<usize>,
    /// The disks.
    pub disks: Vec<Disk>,
    /// Reads of a healthy array; the paper has 2000.
    pub reads: usize,
    /// Reads with each disk lost; the paper has 200.
    pub reads_lost: usize,
    /// Maximum of requests of section IV, read and written; if it exceeds their number, each runs
    /// once.
    pub requests: usize,
    /// Bytes of an element, where they matter.
    pub element_bytes: u64,
    /// Seed of the requests.
    pub seed: u64,
    /// Threads; the result does not depend on their number.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            primes: PRIMES.to_vec(),
            disks: Disk::all().to_vec(),
            reads: 2000,
            reads_lost: 200,
            requests: usize::MAX,
            element_bytes: 64 << 10,
            seed: 2015,
            threads: 1,
        }
    }
}

impl Options {
    /// Returns a share of the work, for the report of all papers.
    pub fn quick() -> Options {
        Options { reads: 300, reads_lost: 30, requests: 400, ..Options::default() }
    }
}

/// Returns a function of a device's service times, which depend on where its last operation ended.
fn service(
    disk: &Disk,
    element_bytes: u64,
    seed: u64,
) -> impl FnMut(Slot, DeviceBlock, u64) -> u64 + 'static {
    let (disk, mut random) = (disk.clone(), Random::new(seed));
    let mut ends: BTreeMap<Slot, u64> = BTreeMap::new();
    move |slot, at, blocks| {
        let Disk::Of(device) = &disk else { return blocks * ELEMENT_NS };
        let end = ends.insert(slot, at.0 + blocks);
        let passed = end.and_then(|end| at.0.checked_sub(end)).map(|gap| gap * element_bytes);
        let waits = |bytes: &u64| bytes * 1_000_000_000 / device.read_bytes_per_s.max(1) < device.position_ns;
        let passed = passed.filter(|bytes| device.service.is_none() && waits(bytes));
        let bytes = blocks * element_bytes + passed.unwrap_or(0);
        device.service_ns(false, bytes, passed.is_some(), &mut random)
    }
}

/// Elements and nanoseconds of all requests of one state.
#[derive(Clone, Copy, Debug, Default)]
struct Ran {
    elements: u64,
    ns: u64,
}

fn reads(code: &Code, disk: &Disk, lost: Option<usize>, options: &Options) -> Result<Ran, ExecuteError> {
    let slot = lost.map(|slot| Slot(slot as u32));
    let state = lost.map_or(0, |slot| slot as u64 + 1);
    let seed = options.seed ^ state << 40;
    let mut array = Array::new(code, slot, service(disk, options.element_bytes, seed))?;
    let (stripes, mut random) = (array.stripes(), Random::new(seed));
    let mut ran = Ran::default();
    for _ in 0..if lost.is_none() { options.reads } else { options.reads_lost } {
        let Some((first, count)) = array.draw(&stripes, &mut random) else { break };
        ran.ns += array.read(first, count)?;
        ran.elements += u64::from(count);
    }
    Ok(ran)
}

/// Returns the speed of a healthy array, and with each disk lost in turn.
fn speeds(code: &Code, disk: &Disk, options: &Options) -> Result<[f64; 2], ExecuteError> {
    let healthy = reads(code, disk, None, options)?;
    let mut lost = Ran::default();
    for slot in 0..code.columns() {
        let ran = reads(code, disk, Some(slot), options)?;
        (lost.elements, lost.ns) = (lost.elements + ran.elements, lost.ns + ran.ns);
    }
    Ok([healthy, lost].map(|ran| disk.speed(ran.elements, ran.ns, options.element_bytes)))
}

/// Returns the requests of section IV, each once, or a sample of them: the first element of the
/// volume, and the number of elements. They begin in one stripe after the other.
pub(super) fn requests(array: &Array, code: &Code, options: &Options) -> Vec<(u64, u32)> {
    let data = code.data().len();
    let mut requests: Vec<(usize, usize)> = all(data).collect();
    let mut random = Random::new(options.seed ^ 4);
    if requests.len() > options.requests {
        requests = (0..options.requests).filter_map(|_| random.pick(&requests).copied()).collect();
    }
    let stripes = array.stripes();
    let first = |stripe: u32, start: usize| u64::from(stripe) * data as u64 + start as u64;
    let placed = requests.into_iter().zip(stripes.iter().cycle());
    placed.map(|((start, len), &stripe)| (first(stripe, start), len as u32)).collect()
}

/// Accesses per request.
struct Accesses {
    /// Accesses by column: reads, writes (new data and parity), and reads that writes need.
    columns: [Vec<f64>; 3],
    /// Accesses by device.
    devices: [Vec<f64>; 3],
}

impl Accesses {
    /// Runs each request of section IV: reads on a volume, writes on a standard RAID, which writes
    /// in place.
    fn count(code: &Code, options: &Options) -> Result<Accesses, ExecuteError> {
        let mut volume = Array::new(code, None, |_, _, blocks| blocks)?;
        let mut standard = Array::standard(code, |_, _, blocks| blocks)?;
        let requests = requests(&volume, code, options);
        let zeros = || [0, 1, 2].map(|_| vec![0.0; code.columns()]);
        let (mut columns, mut devices) = (zeros(), zeros());
        let share = 1.0 / requests.len() as f64;
        for (first, count) in requests {
            for is_write in [false, true] {
                let array = if is_write { &mut standard } else { &mut volume };
                match is_write {
                    true => array.write(first, count)?,
                    false => array.read(first, count)?,
                };
                for op in array.ops() {
                    let of = match op.kind {
                        IoKind::Write => 1,
                        _ if is_write => 2,
                        _ => 0,
                    };
                    for at in op.at.0..op.at.0 + op.blocks {
                        let Some((stripe, _)) = array.element(op.slot, DeviceBlock(at)) else { continue };
                        columns[of][array.column(stripe, op.slot)] += share;
                        devices[of][op.slot.0 as usize] += share;
                    }
                }
            }
        }
        Ok(Accesses { columns, devices })
    }

    /// Returns the accesses of a request of the workload, by disk.
    fn loads(of: &[Vec<f64>; 3], workload: Workload, convention: Convention) -> Vec<f64> {
        let writes = workload.writes_of_ten as f64 / 10.0;
        let old = if convention == Convention::Min { writes } else { 0.0 };
        let [read, written, before] = of;
        let all = read.iter().zip(written).zip(before);
        all.map(|((read, written), before)| (1.0 - writes) * read + writes * written + old * before).collect()
    }
}

/// Runs both sections.
///
/// Errors: a fault of the engine. Cost: by default about half a minute of one core.
pub fn run(options: &Options) -> Result<Report, ExecuteError> {
    let mut report = Report::new(NAME, "D-Code, sections IV and V on the volume's engine in virtual time");
    report.say(
        "Which operations do the paper's requests cause on the devices of a volume, and how long do they take? The volume's own engine gets one request at a time, and its \
         devices have one queue each and a virtual clock; every element that is read is compared with what was written.",
    );
    report.say(format!(
        "Disks: \"element\" takes a constant time for each element, the model that gives the paper's percentages. \"savvio\" is the paper's disk as a formula, 7 ms to a \
         place and 95.5 MB/s. \"virtual-disk\" has the times that fio measured of the build machine's disk. An element has {} KiB, which the paper does not say. {} reads healthy, {} with each device lost, \
         in stripes of which that device holds data.",
        options.element_bytes / 1024,
        options.reads,
        options.reads_lost
    ));
    report.say(
        "Differences from the paper: stripes are turned one against the next. A lost element is rebuilt by the plan that reads fewest elements; the paper took the \
         first chain, so that X-Code and HDP gain most. An access that continues the last one costs no position on the paper's disk.",
    );
    section_4(&mut report, options)?;
    section_5(&mut report, options)?;
    Ok(report)
}

fn section_4(report: &mut Report, options: &Options) -> Result<(), ExecuteError> {
    let tasks: Vec<(usize, Rival)> =
        options.primes.iter().flat_map(|&p| Rival::ALL.map(|rival| (p, rival))).collect();
    let counted =
        parallel::map(options.threads, &tasks, |&(p, rival)| Accesses::count(&rival.code(p), options));
    for (&(p, rival), accesses) in tasks.iter().zip(counted) {
        let accesses = accesses?;
        for (convention, workload) in
            [Convention::Paper, Convention::Min].into_iter().flat_map(|c| WORKLOADS.map(|w| (c, w)))
        {
            let case = dcode_load::case(rival, p, workload, convention);
            let loads = Accesses::loads(&accesses.columns, workload, convention);
            let print = match convention {
                Convention::Paper => dcode_load::published_load_factor(rival, p, workload),
                _ => None,
            };
            let note = match convention {
                Convention::Paper => "elements read for users and written; each by the column that it is of",
                _ => "with the elements that writes read before; each by the column that it is of",
            };
            report.measured(&case, "load factor", load_factor(&loads), print).note = Some(note.into());
            report.measured(&case, "cost per request", loads.iter().sum(), None);
            let turned = load_factor(&Accesses::loads(&accesses.devices, workload, convention));
            report.measured(&case, "load factor of devices", turned, None).note =
                Some("stripes are turned".into());
        }
    }
    if options.primes == PRIMES {
        dcode_load::ranges(report, Kind::Measured);
        dcode_load::costs(report, Kind::Measured);
    }
    Ok(())
}

/// Speeds by code and prime, healthy and with a disk lost, and the number of disks.
type Speeds = BTreeMap<(Rival, usize), ([f64; 2], usize)>;

fn section_5(report: &mut Report, options: &Options) -> Result<(), ExecuteError> {
    let mut tasks: Vec<(usize, usize, Rival)> = Vec::new();
    for disk in 0..options.disks.len() {
        tasks.extend(options.primes.iter().flat_map(|&p| Rival::ALL.map(|rival| (disk, p, rival))));
    }
    let found = parallel::map(options.threads, &tasks, |&(disk, p, rival)| {
        speeds(&rival.code(p), &options.disks[disk], options)
    });
    let mut by_disk: Vec<Speeds> = vec![Speeds::new(); options.disks.len()];
    for ((disk, p, rival), speeds) in tasks.into_iter().zip(found) {
        by_disk[disk].insert((rival, p), (speeds?, rival.code(p).columns()));
    }
    for (disk, speeds) in options.disks.iter().zip(&by_disk) {
        one(report, disk, speeds);
        report.figures.extend(charts(disk, speeds));
    }
    let orders: Vec<Vec<String>> = (0..STATEMENTS.len())
        .map(|i| {
            let holds = by_disk.iter().map(|speeds| holds_at(&STATEMENTS[i], speeds));
            std::iter::once(STATEMENTS[i].words()).chain(holds.map(|primes| words(&primes))).collect()
        })
        .collect();
    report.figures.push(Figure::Listing(Listing {
        title: "What the text says of D-Code's order, and at which p it holds".into(),
        caption: "Of the engine's speeds, by disk.".into(),
        head: std::iter::once("D-Code")
            .chain(options.disks.iter().map(Disk::name))
            .map(String::from)
            .collect(),
        rows: orders,
    }));
    Ok(())
}

fn one(report: &mut Report, disk: &Disk, speeds: &Speeds) {
    const HEALTHY: &str = "stripes are turned";
    const LOST: &str =
        "the volume's plans read fewest elements, the paper rebuilt from the first chain; stripes are turned";
    for (&(rival, p), &([healthy, lost], disks)) in speeds {
        let case = format!("{} p={p} {}", rival.name(), disk.name());
        let print = ABSOLUTE.iter().find(|(of, at, _)| (*of, *at) == (rival, p)).map(|(.., print)| *print);
        let print = print.filter(|_| disk.is_the_papers() && disk.unit() == "MB/s");
        let speed = report.measured(&case, format!("healthy, {}", disk.unit()), healthy, print);
        if print.is_some() {
            speed.note = Some("the paper does not say how large its elements are".into());
        }
        report.measured(&case, format!("one disk lost, {}", disk.unit()), lost, None);
        report.measured(&case, format!("healthy, {} per disk", disk.unit()), healthy / disks as f64, None);
    }
    for (&(rival, p), &(theirs, their_disks)) in
        speeds.iter().filter(|((rival, _), _)| *rival != Rival::DCode)
    {
        let Some(&(ours, disks)) = speeds.get(&(Rival::DCode, p)) else { continue };
        let per_disk = their_disks as f64 / disks as f64;
        let percent = |i: usize, factor: f64| 100.0 * (ours[i] / theirs[i] * factor - 1.0);
        let print = published(rival, p).map(|print| print.filter(|_| disk.is_the_papers()));
        let case = format!("{} p={p} {}", rival.name(), disk.name());
        for (quantity, value, print, why) in [
            ("D-Code faster, healthy, per cent", percent(0, 1.0), print[0], HEALTHY),
            ("D-Code faster, healthy per disk, per cent", percent(0, per_disk), print[1], HEALTHY),
            ("D-Code faster, degraded, per cent", percent(1, 1.0), print[2], LOST),
            ("D-Code faster, degraded per disk, per cent", percent(1, per_disk), print[3], LOST),
        ] {
            let measure = report.measured(&case, quantity, value, print);
            if let Some(apart) = measure.note.take() {
                measure.note = Some(format!("{apart}; {why}"));
            }
            print.iter().for_each(|printed| infer(measure, printed));
        }
    }
    let kept = STATEMENTS.iter().map(|statement| holds_at(statement, speeds).len()).sum::<usize>();
    let said = STATEMENTS.iter().map(|statement| statement.at(speeds).count()).sum::<usize>();
    report
        .measured(disk.name(), "D-Code before or behind another code as the text says", kept as f64, None)
        .note = Some(format!("of {said}: each statement at each p"));
}

/// A statement of the text on D-Code and another code.
struct Statement {
    rival: Rival,
    is_lost: bool,
    per_disk: bool,
    is_faster: bool,
    primes: &'static [usize],
}

const ALL_PRIMES: &[usize] = &PRIMES;

const fn faster(rival: Rival, is_lost: bool, per_disk: bool) -> Statement {
    Statement { rival, is_lost, per_disk, is_faster: true, primes: ALL_PRIMES }
}

const fn slower(rival: Rival, is_lost: bool, per_disk: bool) -> Statement {
    Statement { rival, is_lost, per_disk, is_faster: false, primes: ALL_PRIMES }
}

const STATEMENTS: [Statement; 13] = [
    faster(Rival::Rdp, false, false),
    faster(Rival::HCode, false, false),
    faster(Rival::Hdp, false, false),
    faster(Rival::Rdp, false, true),
    faster(Rival::HCode, false, true),
    faster(Rival::XCode, true, false),
    slower(Rival::Rdp, true, false),
    slower(Rival::HCode, true, false),
    faster(Rival::Hdp, true, false),
    faster(Rival::Rdp, true, true),
    faster(Rival::HCode, true, true),
    Statement { primes: &[5, 7], ..faster(Rival::Hdp, true, true) },
    Statement { primes: &[11, 13], ..slower(Rival::Hdp, true, true) },
];

impl Statement {
    fn words(&self) -> String {
        format!(
            "{}{} {} than {}{}",
            if self.is_lost { "one disk lost" } else { "healthy" },
            if self.per_disk { ", per disk:" } else { ":" },
            if self.is_faster { "faster" } else { "slower" },
            self.rival.name(),
            if self.primes.len() < PRIMES.len() {
                format!(" at p = {}", words(self.primes))
            } else {
                String::new()
            }
        )
    }

    /// Returns the primes of the statement that were run.
    fn at<'s>(&'s self, speeds: &'s Speeds) -> impl Iterator<Item = usize> + 's {
        self.primes.iter().copied().filter(|&p| speeds.contains_key(&(Rival::DCode, p)))
    }
}

/// Returns the primes at which a statement holds.
fn holds_at(statement: &Statement, speeds: &Speeds) -> Vec<usize> {
    let of = |rival: Rival, p: usize| {
        let (values, disks) = speeds[&(rival, p)];
        let divisor = if statement.per_disk { disks as f64 } else { 1.0 };
        values[usize::from(statement.is_lost)] / divisor
    };
    let holds = |&p: &usize| (of(Rival::DCode, p) > of(statement.rival, p)) == statement.is_faster;
    statement.at(speeds).filter(holds).collect()
}

fn words(primes: &[usize]) -> String {
    match primes {
        [] => "nowhere".into(),
        _ => primes.iter().map(usize::to_string).collect::<Vec<_>>().join(", "),
    }
}

fn charts(disk: &Disk, speeds: &Speeds) -> Vec<Figure> {
    let chart = |i: usize, title: &str| {
        let series = Rival::ALL.into_iter().map(|rival| Series {
            name: rival.name().into(),
            points: speeds
                .iter()
                .filter(|((of, _), _)| *of == rival)
                .map(|((_, p), s)| (*p as f64, s.0[i]))
                .collect(),
            is_reference: false,
        });
        let title = format!("{title}, the engine on {}", disk.name());
        Figure::Chart(Chart::lines(title, "p", disk.unit(), series.collect(), "In virtual time."))
    };
    vec![chart(0, "Read speed, healthy"), chart(1, "Read speed with one disk lost")]
}
