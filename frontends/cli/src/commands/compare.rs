//! `pantile compare`: codes side by side, by what they cost and what they bear.

use crate::args;
use crate::commands::prove;
use crate::describe;
use crate::failure::{Failure, Outcome, Verdict};
use crate::interrupt;
use crate::json::{self, ClaimJson, OUTPUT_VERSION, rounded};
use crate::progress::Progress;
use crate::render::table::Table;
use crate::terminal::{Terminal, print, print_json};
use clap::{Args, ValueEnum};
use pantile::plan::{Planner, ProveOptions, Request};
use pantile::{CellIndex, CellSet, Code, Costs, Effort};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Compare codes by space, tolerance, update cost, rebuild reads and encoding work
///
/// Answers: which of these codes suits my disks? Each line is one code; every number is counted
/// from its equations and plans, the same ones that store data, not taken from a paper.
#[derive(Args)]
#[command(after_long_help = "\
Columns:
  overhead   bytes stored per byte of user data        rate    user data per byte stored
  claimed    columns that may be lost, as claimed      proved  the same, proved (with --prove)
  updates    parity elements changed by one data element: mean and most
  rebuild    elements read to rebuild one column, as a share of the stripe's data: mean and worst
  xor, mult  additions and multiplications of elements to encode, per data element

Rebuild numbers are those of the best plan found with --effort; '~' marks a bound: the search could not prove that no \
plan reads less. Of a stripe of more than 1500 cells some columns of each kind are planned, and '*' says so. With --prove, exit status 1 means that a claim was contradicted.

Examples:
  pantile compare dcode:7 rdp:8 raid6:6 rs:6+2
  pantile compare rs:12+4 lrc:12,2,2 shec:12,4,4 --sort rebuild
  pantile compare shec:6,4,3 cauchy:6+4 --prove --json")]
pub struct Compare {
    /// The codes: specs such as dcode:7, or paths of code files.
    #[arg(required = true, num_args = 1..)]
    codes: Vec<String>,
    /// Order the lines by this column instead of as given.
    #[arg(long, value_enum, value_name = "COLUMN")]
    sort: Option<Sort>,
    /// Order from large to small.
    #[arg(long, requires = "sort")]
    reverse: bool,
    /// Prove how many columns may be lost, on all cores; up to one more than is claimed.
    #[arg(long)]
    prove: bool,
    /// How long to look for cheaper rebuilds: fast, thorough, or a number of search steps per
    /// column.
    #[arg(long, value_name = "EFFORT", default_value = "fast", value_parser = args::effort)]
    effort: Effort,
    /// Plan the rebuild of every column, however large the stripe is.
    #[arg(long)]
    all_columns: bool,
    /// Print JSON: one object per code.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sort {
    Code,
    Columns,
    Overhead,
    Rate,
    Claimed,
    Updates,
    Rebuild,
    Worst,
    Xor,
    Mult,
}

#[derive(Serialize)]
struct CompareJson {
    output_version: u32,
    codes: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    code: String,
    columns: usize,
    data: usize,
    parity: usize,
    overhead: f64,
    rate: f64,
    claim: ClaimJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    proved: Option<Proved>,
    parities_updated: MeanAndMost,
    rebuild: Rebuild,
    encode: Encode,
}

#[derive(Serialize)]
struct Proved {
    tolerance: usize,
    exact: bool,
    holds: bool,
}

#[derive(Serialize)]
struct MeanAndMost {
    mean: f64,
    most: usize,
}

/// Elements read to rebuild one column; shares are of the data elements of the stripe.
#[derive(Serialize)]
struct Rebuild {
    mean_reads: f64,
    mean_share: f64,
    worst_column: usize,
    worst_reads: usize,
    worst_share: f64,
    /// All columns were planned, and no plan reads less.
    exact: bool,
    /// Some plan may read more than is needed.
    bound: bool,
    /// How many columns were planned; fewer than there are: the numbers are a sample's.
    planned: usize,
    rebuildable: bool,
}

#[derive(Serialize)]
struct Encode {
    additions_per_element: f64,
    multiplications_per_element: f64,
}

impl Compare {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        let codes: Vec<Code> = self
            .codes
            .iter()
            .map(|text| args::code(text, self.effort.into()))
            .collect::<Result<_, Failure>>()?;
        interrupt::listen();
        let progress = Progress::start(terminal, "comparing");
        let mut lines = Vec::new();
        for code in &codes {
            let rebuild = rebuild(code, self.effort, self.all_columns, &progress).ok_or_else(ended)?;
            let proved = if self.prove { Some(proved(code, &progress)) } else { None };
            if interrupt::asked() {
                return Err(ended());
            }
            lines.push(line(code, rebuild, proved));
        }
        drop(progress);
        if let Some(sort) = self.sort {
            lines.sort_by(|a, b| order(sort, a, b));
            if self.reverse {
                lines.reverse();
            }
        }
        let holds = lines.iter().all(|line| line.proved.as_ref().is_none_or(|p| p.holds));
        match self.json {
            true => print_json(&CompareJson { output_version: OUTPUT_VERSION, codes: lines })?,
            false => print(&table(&lines, self.prove, terminal))?,
        }
        Ok(if holds { Verdict::Good } else { Verdict::Bad })
    }
}

fn ended() -> Failure {
    Failure::Interrupted("the comparison was ended before it had all numbers; nothing is printed".into())
}

fn line(code: &Code, rebuild: Rebuild, proved: Option<Proved>) -> Line {
    let (mean, most) = describe::update_cost(code);
    let encode = Planner::new(code).encode();
    let per_element = |count: usize| rounded(count as f64 / code.data().len() as f64);
    Line {
        code: code.spec().to_string(),
        columns: code.columns(),
        data: code.data().len(),
        parity: code.parity().len(),
        overhead: rounded(1.0 / code.rate()),
        rate: rounded(code.rate()),
        claim: json::claim(code),
        proved,
        parities_updated: MeanAndMost { mean: rounded(mean), most },
        rebuild,
        encode: Encode {
            additions_per_element: per_element(encode.additions()),
            multiplications_per_element: per_element(encode.multiplications()),
        },
    }
}

/// Columns of the same height with as many parity cells, which cost about the same to rebuild: all
/// of them, and those that are planned.
struct Alike {
    columns: Vec<usize>,
    planned: Vec<usize>,
}

/// The columns in groups, and of each group those that there is time for, evenly spread.
fn alike(code: &Code, all: bool) -> Vec<Alike> {
    // A plan takes about as long as the stripe has cells: all columns are planned up to a stripe of
    // 39 by 39.
    const CELLS_MOST: usize = 60_000;
    const OF_EACH_LEAST: usize = 2;
    let mut groups: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for column in 0..code.columns() {
        let parities = code.column_cells(column).filter(|&cell| code.is_parity(cell)).count();
        groups.entry((code.rows(column), parities)).or_default().push(column);
    }
    let most = match all || code.rows_max() == 1 {
        true => code.columns(),
        false => CELLS_MOST / code.cell_count(),
    };
    let spread = |columns: &[usize]| -> Vec<usize> {
        let share =
            (most * columns.len() / code.columns()).clamp(OF_EACH_LEAST.min(columns.len()), columns.len());
        (0..share).map(|i| columns[i * (columns.len() - 1) / (share - 1).max(1)]).collect()
    };
    groups.into_values().map(|columns| Alike { planned: spread(&columns), columns }).collect()
}

/// Plans the rebuild of each column, or of as many as there is time for, on all cores. `None` if
/// the user ended it.
fn rebuild(code: &Code, effort: Effort, all: bool, progress: &Progress) -> Option<Rebuild> {
    let planner = Planner::new(code);
    let costs = Costs::uniform();
    let groups = alike(code, all);
    let columns: Vec<usize> = groups.iter().flat_map(|group| group.planned.iter().copied()).collect();
    let next = AtomicUsize::new(0);
    let plans = Mutex::new(vec![None; code.columns()]);
    let work = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(&column) = columns.get(i) else { return };
            if interrupt::asked() {
                return;
            }
            progress.set(format!("{code}: rebuilds"), "columns", i as u64, columns.len() as u64);
            let lost = CellSet::of_columns(code, &[column]);
            let wanted: Vec<CellIndex> = code.column_cells(column).collect();
            let plan = planner.recover(&Request { lost: &lost, wanted: &wanted, costs: &costs, effort }).ok();
            let reads = plan.map(|plan| (plan.reads.len(), plan.optimality == pantile::Optimality::Exact));
            plans.lock().unwrap_or_else(|e| e.into_inner())[column] = reads;
        }
    };
    std::thread::scope(|scope| {
        (1..prove::threads().min(columns.len())).for_each(|_| {
            scope.spawn(work);
        });
        work();
    });
    if interrupt::asked() {
        return None;
    }
    let plans = plans.into_inner().unwrap_or_else(|e| e.into_inner());
    let data = code.data().len() as f64;
    let known: Vec<(usize, bool)> = plans.iter().copied().flatten().collect();
    let reads = |column: usize| plans[column].map_or(0, |p| p.0);
    // Each planned column stands for as many of its group as were left out.
    let (mut sum, mut weights) = (0.0, 0.0);
    for group in &groups {
        let weight = group.columns.len() as f64 / group.planned.len() as f64;
        for &column in group.planned.iter().filter(|&&column| plans[column].is_some()) {
            sum += weight * reads(column) as f64;
            weights += weight;
        }
    }
    let mean = sum / f64::max(weights, 1.0);
    let worst_column = (0..code.columns()).rev().max_by_key(|&c| reads(c)).unwrap_or(0);
    Some(Rebuild {
        mean_reads: rounded(mean),
        mean_share: rounded(mean / data),
        worst_column,
        worst_reads: reads(worst_column),
        worst_share: rounded(reads(worst_column) as f64 / data),
        exact: known.iter().all(|p| p.1) && columns.len() == code.columns(),
        bound: known.iter().any(|p| !p.1),
        planned: columns.len(),
        rebuildable: known.len() == columns.len(),
    })
}

fn proved(code: &Code, progress: &Progress) -> Proved {
    let options = ProveOptions {
        lost_most: Some(code.claim().tolerance + 1),
        // A line of a table is not worth the work of a proof: a second or so of one core for each
        // level.
        sets_most: 5_000_000,
        work_most: 1_000_000_000,
        fatal_most: 1,
        threads: prove::threads(),
        ..ProveOptions::default()
    };
    let certificate = prove::run(code, &options, progress);
    Proved {
        tolerance: certificate.tolerance(),
        exact: certificate.is_exact(),
        holds: !prove::contradicted(code, &certificate),
    }
}

fn order(sort: Sort, a: &Line, b: &Line) -> std::cmp::Ordering {
    let by = |key: fn(&Line) -> f64| key(a).total_cmp(&key(b));
    match sort {
        Sort::Code => a.code.cmp(&b.code),
        Sort::Columns => a.columns.cmp(&b.columns),
        Sort::Overhead => by(|l| l.overhead),
        Sort::Rate => by(|l| l.rate),
        Sort::Claimed => a.claim.tolerance.cmp(&b.claim.tolerance),
        Sort::Updates => by(|l| l.parities_updated.mean),
        Sort::Rebuild => by(|l| l.rebuild.mean_share),
        Sort::Worst => by(|l| l.rebuild.worst_share),
        Sort::Xor => by(|l| l.encode.additions_per_element),
        Sort::Mult => by(|l| l.encode.multiplications_per_element),
    }
}

fn table(lines: &[Line], with_proof: bool, terminal: &Terminal) -> String {
    let mut head = vec!["code", ">columns", ">overhead", ">rate", ">claimed"];
    if with_proof {
        head.push(">proved");
    }
    head.extend([">updates", ">most", ">rebuild", ">worst", ">xor", ">mult"]);
    let mut table = Table::new(&head);
    for line in lines {
        let mut row = vec![
            line.code.clone(),
            line.columns.to_string(),
            format!("{:.3}", line.overhead),
            format!("{:.1} %", 100.0 * line.rate),
            line.claim.tolerance.to_string(),
        ];
        if let Some(proved) = &line.proved {
            let mark = if proved.exact { "" } else { "+" };
            row.push(match proved.holds {
                true => format!("{}{mark}", proved.tolerance),
                false => format!("{} BELOW", proved.tolerance),
            });
        }
        let mark = if line.rebuild.bound { "~" } else { "" };
        let sampled = if line.rebuild.planned < line.columns { "*" } else { "" };
        let share = |share: f64| match line.rebuild.rebuildable {
            true => format!("{mark}{:.1} %{sampled}", 100.0 * share),
            false => "not".to_string(),
        };
        row.extend([
            format!("{:.2}", line.parities_updated.mean),
            line.parities_updated.most.to_string(),
            share(line.rebuild.mean_share),
            share(line.rebuild.worst_share),
            format!("{:.2}", line.encode.additions_per_element),
            format!("{:.2}", line.encode.multiplications_per_element),
        ]);
        table.row(row);
    }
    let mut out = table.render(terminal);
    out.push_str(
        "\nrebuild, worst: elements read to rebuild one column, as a share of the stripe's data (mean, worst column).\n",
    );
    if lines.iter().any(|line| line.rebuild.bound) {
        out.push_str("~: a bound: a cheaper plan is not ruled out; '--effort thorough' looks longer.\n");
    }
    let sampled: Vec<String> = lines
        .iter()
        .filter(|line| line.rebuild.planned < line.columns)
        .map(|line| format!("{} of {} of {}", line.rebuild.planned, line.columns, line.code))
        .collect();
    if !sampled.is_empty() {
        let sampled = sampled.join(", ");
        out.push_str(&format!("*: sampled columns ({sampled}); '--all-columns' plans all.\n"));
    }
    if lines.iter().any(|line| line.proved.as_ref().is_some_and(|p| !p.exact)) {
        out.push_str("+: proved so far; the next level was sampled ('pantile prove CODE' takes the time to count it).\n");
    }
    if lines.iter().any(|line| !line.rebuild.rebuildable) {
        out.push_str("not: the loss of a single column is fatal.\n");
    }
    out
}
