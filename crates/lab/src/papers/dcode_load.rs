//! Section IV of the D-Code paper: load balancing factor and I/O cost.
//!
//! 2000 tuples <S, L, T>; each is a read or a write of L elements from element S of the stripe,
//! done T times. L(i) is the number of accesses to disk i, LF = max L(i) / min L(i), Cost = sum
//! L(i). The paper does not define a write. Of sixteen readings one reproduces its numbers: the
//! new elements and each affected parity element once, per stripe touched, and no read of old
//! content ([`Convention::Paper`]).

use super::median;
use super::requests::{LEN_MOST, all, pieces};
use super::rivals::{PRIMES, Rival};
use crate::figure::{Chart, Figure, Series};
use crate::{Kind, Printed, Report, parallel, printed};
use pantile::plan::Planner;
use pantile::{CellIndex, CellSet, Code, Costs};
use pantile_sim::Random;
use std::collections::HashMap;

/// The name of the experiment.
pub const NAME: &str = "dcode-load";

/// Accesses that a write counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Convention {
    /// New data and each affected parity element once; nothing is read.
    Paper,
    /// New data and parity twice: the old content is read before.
    Rmw,
    /// The cheapest of read-modify-write, reconstruct-write and full stripe, as the volume
    /// executes it.
    Min,
}

impl Convention {
    /// All conventions.
    pub const ALL: [Convention; 3] = [Convention::Paper, Convention::Rmw, Convention::Min];

    /// Returns the name that the option takes.
    pub fn name(self) -> &'static str {
        match self {
            Convention::Paper => "paper",
            Convention::Rmw => "rmw",
            Convention::Min => "min",
        }
    }
}

/// Share of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Reads to writes, as the paper writes it.
    pub name: &'static str,
    /// Writes among ten requests.
    pub writes_of_ten: u64,
}

/// The workloads of the paper.
pub const WORKLOADS: [Workload; 3] = [
    Workload { name: "1:0", writes_of_ten: 0 },
    Workload { name: "7:3", writes_of_ten: 3 },
    Workload { name: "1:1", writes_of_ten: 5 },
];

/// Amount of work.
#[derive(Clone, Debug)]
pub struct Options {
    /// Runs of the Monte Carlo, of 2000 tuples each.
    pub runs: usize,
    /// Seed of the Monte Carlo.
    pub seed: u64,
    /// Threads; the result does not depend on their number.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { runs: 30, seed: 2015, threads: 1 }
    }
}

const TUPLES: usize = 2000;
const TIMES_MOST: u64 = 1000;

/// Accesses per disk of every request on one code, reads and writes.
pub struct Accesses {
    disks: usize,
    data: usize,
    /// Reads by start and length, see [`Accesses::of`].
    reads: Vec<Vec<u32>>,
    writes: Vec<Vec<u32>>,
}

impl Accesses {
    /// Counts the accesses of a code. Cost: one update plan per start and length.
    pub fn count(code: &Code, convention: Convention) -> Accesses {
        let planner = Planner::new(code);
        let (disks, data) = (code.columns(), code.data().len());
        let nothing = CellSet::empty(code);
        let mut known: HashMap<(usize, usize), Vec<u32>> = HashMap::new();
        let mut piece = |start: usize, end: usize| -> Vec<u32> {
            let made = known.entry((start, end)).or_insert_with(|| {
                let written = &code.data()[start..end];
                let plan = planner.update(written, &nothing, &Costs::uniform());
                let Ok(plan) = plan else { unreachable!("nothing is lost") };
                let mut loads = vec![0; disks];
                let factor = if convention == Convention::Rmw { 2 } else { 1 };
                plan.writes.iter().for_each(|&cell| loads[code.column_of(cell)] += factor);
                if convention == Convention::Min {
                    plan.old.reads.iter().for_each(|&cell| loads[code.column_of(cell)] += 1);
                }
                loads
            });
            made.clone()
        };
        let column = |&cell: &CellIndex| code.column_of(cell);
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for (start, len) in all(data) {
            let (mut read, mut write) = (vec![0; disks], vec![0; disks]);
            for part in pieces(data, start, len) {
                code.data()[part.clone()].iter().map(column).for_each(|disk| read[disk] += 1);
                write.iter_mut().zip(piece(part.start, part.end)).for_each(|(sum, n)| *sum += n);
            }
            reads.push(read);
            writes.push(write);
        }
        Accesses { disks, data, reads, writes }
    }

    /// Returns the accesses per disk of one request.
    pub fn of(&self, start: usize, len: usize, is_write: bool) -> &[u32] {
        let all = if is_write { &self.writes } else { &self.reads };
        &all[(len - 1) * self.data + start]
    }

    /// Returns the expected accesses per disk of one read and of one write, exact except for
    /// rounding.
    pub fn expected(&self) -> (Vec<f64>, Vec<f64>) {
        let mean = |all: &[Vec<u32>]| -> Vec<f64> {
            let sums = (0..self.disks).map(|disk| all.iter().map(|v| u64::from(v[disk])).sum::<u64>());
            sums.map(|sum| sum as f64 / all.len() as f64).collect()
        };
        (mean(&self.reads), mean(&self.writes))
    }

    /// Returns the expected accesses per disk of a request of the workload.
    pub fn expected_of(&self, workload: Workload) -> Vec<f64> {
        let (reads, writes) = self.expected();
        let share = workload.writes_of_ten as f64 / 10.0;
        reads.iter().zip(&writes).map(|(read, write)| (1.0 - share) * read + share * write).collect()
    }
}

/// Returns LF: the busiest disk over the idlest; infinite if one has nothing to do.
pub fn load_factor(loads: &[f64]) -> f64 {
    let most = loads.iter().copied().fold(0.0, f64::max);
    let least = loads.iter().copied().fold(f64::INFINITY, f64::min);
    most / least
}

/// A tuple of the paper; the start is a share of the stripe, so that one list serves all codes.
struct Tuple {
    start_of_2_64: u64,
    len: usize,
    times: u64,
    is_write: bool,
}

fn tuples(random: &mut Random, workload: Workload) -> Vec<Tuple> {
    let mut tuple = || Tuple {
        start_of_2_64: random.bits(),
        len: random.between(1, LEN_MOST as u64) as usize,
        times: random.between(1, TIMES_MOST),
        is_write: random.chance(workload.writes_of_ten, 10),
    };
    (0..TUPLES).map(|_| tuple()).collect()
}

/// Returns the loads of one list; with rotation, each tuple hits its own stripe, whose map is
/// turned by one more disk.
fn monte_carlo(accesses: &Accesses, tuples: &[Tuple], random: Option<&mut Random>) -> Vec<f64> {
    let mut loads = vec![0u64; accesses.disks];
    let mut random = random;
    for tuple in tuples {
        let start = ((u128::from(tuple.start_of_2_64) * accesses.data as u128) >> 64) as usize;
        let turn = random.as_mut().map_or(0, |random| random.below(accesses.disks as u64) as usize);
        for (disk, &n) in accesses.of(start, tuple.len, tuple.is_write).iter().enumerate() {
            loads[(disk + turn) % accesses.disks] += tuple.times * u64::from(n);
        }
    }
    loads.into_iter().map(|load| load as f64).collect()
}

/// Returns the case of a code and workload under a convention; the paper's own is not named.
pub(super) fn case(rival: Rival, p: usize, workload: Workload, convention: Convention) -> String {
    let convention = match convention {
        Convention::Paper => String::new(),
        other => format!(" {}", other.name()),
    };
    format!("{} p={p} {}{convention}", rival.name(), workload.name)
}

/// Returns the number that the paper prints.
pub(super) fn published_load_factor(rival: Rival, p: usize, workload: Workload) -> Option<Printed> {
    const LINE: &str = "The LF in H-Code are 2.61, 2.35, 2.07 and 1.97 over $p = 5, 7, 11, 13$ respectively";
    let value = match (rival, workload.name, p) {
        (Rival::HCode, "7:3", 5) => 2.61,
        (Rival::HCode, "7:3", 7) => 2.35,
        (Rival::HCode, "7:3", 11) => 2.07,
        (Rival::HCode, "7:3", 13) => 1.97,
        _ => return None,
    };
    Some(printed(value, LINE))
}

/// Runs the experiment.
pub fn run(options: &Options) -> Report {
    let mut report = Report::new(NAME, "D-Code, section IV: load balance and I/O cost");
    report.say(
        "Which disks do reads and small writes hit? Requests of 1 to 20 elements start anywhere in the stripe (tuples <S, L, T> of the paper); LF is the \
         load of the busiest disk over that of the idlest, Cost the accesses per request. Columns stay on their disks from stripe to stripe.",
    );
    report.say(
        "Convention \"paper\": a write accesses its new elements and each affected parity element once per stripe, and reads nothing; a request that runs past the \
         stripe goes on in the next. Of sixteen readings of the text this one fits. \"rmw\" also counts reads of old content, \"min\" is the cheapest \
         of read-modify-write, reconstruct-write and full stripe: the plan that the volume executes.",
    );
    let tasks: Vec<(Rival, usize, Convention)> = PRIMES
        .iter()
        .flat_map(|&p| Rival::ALL.map(|rival| (rival, p)))
        .flat_map(|(rival, p)| Convention::ALL.map(|convention| (rival, p, convention)))
        .collect();
    let counted = parallel::map(options.threads, &tasks, |&(rival, p, c)| Accesses::count(&rival.code(p), c));
    let accesses: HashMap<(Rival, usize, Convention), Accesses> = tasks.into_iter().zip(counted).collect();
    for convention in Convention::ALL {
        for workload in WORKLOADS {
            for p in PRIMES {
                for rival in Rival::ALL {
                    one(
                        &mut report,
                        &accesses[&(rival, p, convention)],
                        (rival, p, workload, convention),
                        options,
                    );
                }
            }
        }
    }
    ranges(&mut report, Kind::Counted);
    costs(&mut report, Kind::Counted);
    report.figures = figures(&report);
    report
}

fn one(
    report: &mut Report,
    accesses: &Accesses,
    (rival, p, workload, convention): (Rival, usize, Workload, Convention),
    options: &Options,
) {
    let case = case(rival, p, workload, convention);
    let loads = accesses.expected_of(workload);
    let published = match convention {
        Convention::Paper => published_load_factor(rival, p, workload),
        _ => None,
    };
    let factor = load_factor(&loads);
    let measure = report.counted(&case, "load factor", factor, published);
    if factor.is_infinite() {
        measure.note = Some("infinite: a disk of parity alone is never read".into());
    }
    report.counted(&case, "cost per request", loads.iter().sum(), None);
    if convention != Convention::Paper {
        return;
    }
    // One seed per workload and run: the same lists for all codes.
    let run = |run: usize, rotated: bool| {
        let mut random = Random::new(options.seed ^ (run as u64) << 32 ^ workload.writes_of_ten << 56);
        let tuples = tuples(&mut random, workload);
        load_factor(&monte_carlo(accesses, &tuples, rotated.then_some(&mut random)))
    };
    let runs = options.runs.max(1);
    let fixed: Vec<f64> = (0..runs).map(|i| run(i, false)).collect();
    let rotated: Vec<f64> = (0..runs).map(|i| run(i, true)).collect();
    if factor.is_finite() {
        let least = fixed.iter().copied().fold(f64::INFINITY, f64::min);
        let most = fixed.iter().copied().fold(0.0, f64::max);
        report.simulated(&case, "load factor, Monte Carlo, median", median(fixed), None).note =
            Some(format!("{runs} runs of {TUPLES} tuples: {least:.2} to {most:.2}"));
    }
    report.simulated(&case, "load factor, Monte Carlo, rotated placement, median", median(rotated), None);
}

/// Adds the ranges that the text gives for all p together, of load factors in the report.
pub(super) fn ranges(report: &mut Report, kind: Kind) {
    let mixed = WORKLOADS[2];
    let over = |report: &Report, rivals: &[Rival]| -> Vec<f64> {
        let cases = rivals.iter().flat_map(|&rival| PRIMES.map(|p| case(rival, p, mixed, Convention::Paper)));
        cases.filter_map(|case| report.find(&case, "load factor")).collect()
    };
    let balanced = [Rival::Hdp, Rival::XCode, Rival::DCode];
    for (name, rivals, least, most, line) in [
        ("RDP", &[Rival::Rdp][..], 1.66, 5.44, "the LF in RDP code is 1.66 to 5.44"),
        ("H-Code", &[Rival::HCode], 1.38, 1.63, "in H-Code is 1.38 to 1.63"),
        (
            "HDP, X-Code, D-Code",
            &balanced,
            1.03,
            1.07,
            "in HDP code, X-Code and D-Code are only 1.03 to 1.07",
        ),
    ] {
        let factors = over(report, rivals);
        let case = format!("{name} p=5..13 {}", mixed.name);
        let lowest = factors.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = factors.iter().copied().fold(0.0, f64::max);
        report.row(kind, &case, "least load factor", lowest, printed(least, line));
        report.row(kind, &case, "largest load factor", highest, printed(most, line));
    }
}

/// Adds how much cheaper D-Code is, in per cent of D-Code, by costs in the report.
pub(super) fn costs(report: &mut Report, kind: Kind) {
    const INTENSIVE: &str = "when $p = 13$, D-Code provides 16.0% and 15.3% lower I/O cost than HDP code and X-Code under read-intensive workload";
    const MIXED: &str = "achieves 23.1% and 22.2% lower I/O cost than HDP code and X-Code under read-write evenly mixed workload";
    const AT_MOST: &str =
        "RDP code and H-Code gains a little (at most 3.4%) lower I/O Cost than our proposed D-Code";
    for convention in Convention::ALL {
        for workload in &WORKLOADS[1..] {
            for p in PRIMES {
                for rival in Rival::ALL.into_iter().filter(|&rival| rival != Rival::DCode) {
                    let cost =
                        |rival| report.find(&case(rival, p, *workload, convention), "cost per request");
                    let (Some(theirs), Some(ours)) = (cost(rival), cost(Rival::DCode)) else { continue };
                    let published = match (convention, rival, p, workload.name) {
                        (Convention::Paper, Rival::Hdp, 13, "7:3") => Some(printed(16.0, INTENSIVE)),
                        (Convention::Paper, Rival::Hdp, 13, "1:1") => Some(printed(23.1, MIXED)),
                        (Convention::Paper, Rival::XCode, 13, "7:3") => Some(printed(15.3, INTENSIVE)),
                        (Convention::Paper, Rival::XCode, 13, "1:1") => Some(printed(22.2, MIXED)),
                        _ => None,
                    };
                    let percent = 100.0 * (theirs / ours - 1.0);
                    report.row(
                        kind,
                        case(rival, p, *workload, convention),
                        "cost above D-Code, per cent",
                        percent,
                        published,
                    );
                }
            }
        }
    }
    let cheaper = |primes: &[usize]| {
        let shares = primes.iter().flat_map(|&p| {
            [Rival::Rdp, Rival::HCode]
                .into_iter()
                .flat_map(move |rival| WORKLOADS[1..].iter().map(move |&workload| (rival, p, workload)))
        });
        let share = |(rival, p, workload)| {
            let cost = |rival| report.find(&case(rival, p, workload, Convention::Paper), "cost per request");
            100.0 * (1.0 - cost(rival).unwrap_or(f64::NAN) / cost(Rival::DCode).unwrap_or(f64::NAN))
        };
        shares.map(share).fold(0.0, f64::max)
    };
    let (all, large) = (cheaper(&PRIMES), cheaper(&PRIMES[1..]));
    const CHEAPER: &str = "cheaper than D-Code at most, per cent";
    report.row(kind, "RDP, H-Code p=5..13", CHEAPER, all, printed(3.4, AT_MOST)).note =
        Some("fits no reading of the text at p = 5; from p = 7 on it holds".into());
    report.row(kind, "RDP, H-Code p=7..13", CHEAPER, large, None);
}

fn figures(report: &Report) -> Vec<Figure> {
    let chart = |workload: Workload, quantity: &'static str, title: String, cap: f64| {
        let series = Rival::ALL
            .into_iter()
            .map(|rival| {
                let points = PRIMES.iter().map(|&p| {
                    let value = report.find(&case(rival, p, workload, Convention::Paper), quantity);
                    (p as f64, value.unwrap_or(cap))
                });
                Series { name: rival.name().into(), points: points.collect(), is_reference: false }
            })
            .collect();
        let caption = format!(
            "Reads to writes {}; infinite factors are drawn at {cap}, as the paper does.",
            workload.name
        );
        Figure::Chart(Chart::lines(title, "p", quantity, series, caption))
    };
    WORKLOADS
        .iter()
        .flat_map(|&workload| {
            [
                chart(workload, "load factor", format!("Load balancing factor, {}", workload.name), 30.0),
                chart(workload, "cost per request", format!("Accesses per request, {}", workload.name), 30.0),
            ]
        })
        .collect()
}
