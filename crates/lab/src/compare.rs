//! Codes side by side, by cost and tolerated losses.
//!
//! Every number is counted from the equations and plans that also store data. None is taken from a
//! paper.

use crate::words::{self, rounded};
use pantile::plan::{Planner, ProveOptions, Request, prove};
use pantile::{CellIndex, CellSet, Code, Costs, Effort};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Extent of the counting.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Effort of the search for a cheaper rebuild of each column.
    pub effort: Effort,
    /// Plans the rebuild of every column, however large the stripe is. Otherwise, above 1500
    /// cells, only some columns of each kind are planned.
    pub all_columns: bool,
    /// Proves how many lost columns are tolerated, up to one more than claimed.
    pub proves: bool,
    /// Threads; the result does not depend on their number.
    pub threads: usize,
}

/// Stage of the work under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Rebuilds are planned, column by column.
    Rebuilds,
    /// Sets of `lost` columns are decided.
    Sets {
        /// Columns lost.
        lost: usize,
    },
}

/// Receives the stage, the amount of its work that is done, and its whole amount; returning `false`
/// ends the comparison.
pub type Hear<'h> = dyn Fn(Stage, u64, u64) -> bool + Sync + 'h;

/// One code.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// The spec.
    pub code: String,
    /// Columns.
    pub columns: usize,
    /// Data elements of a stripe.
    pub data: usize,
    /// Parity elements of a stripe.
    pub parity: usize,
    /// Bytes stored per byte of user data.
    pub overhead: f64,
    /// User data per byte stored.
    pub rate: f64,
    /// Tolerance that the code claims.
    pub claim: Claim,
    /// Tolerance that was proved, if a proof was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proved: Option<Proved>,
    /// Parity elements changed by one data element.
    pub parities_updated: MeanAndMost,
    /// Elements read to rebuild one column.
    pub rebuild: Rebuild,
    /// Work to encode.
    pub encode: Encode,
}

/// Result of a proof.
#[derive(Clone, Debug, Serialize)]
pub struct Proved {
    /// Lost columns that are always tolerated, proved exactly.
    pub tolerance: usize,
    /// True if every level was counted.
    pub exact: bool,
    /// True if the claim was not contradicted.
    pub holds: bool,
}

/// Mean and maximum over all data elements.
#[derive(Clone, Debug, Serialize)]
pub struct MeanAndMost {
    /// The mean.
    pub mean: f64,
    /// The maximum.
    pub most: usize,
}

/// Elements read to rebuild one column; shares are of the data elements of the stripe.
#[derive(Clone, Debug, Serialize)]
pub struct Rebuild {
    /// Mean over all columns.
    pub mean_reads: f64,
    /// Mean reads as a share.
    pub mean_share: f64,
    /// Column whose rebuild reads most.
    pub worst_column: usize,
    /// Elements read to rebuild that column.
    pub worst_reads: usize,
    /// Reads of that column as a share.
    pub worst_share: f64,
    /// True if all columns were planned, and no plan can read less.
    pub exact: bool,
    /// True if some plan could read more than is needed.
    pub bound: bool,
    /// Columns planned; if fewer than the code has, the numbers are of a sample.
    pub planned: usize,
    /// True if each planned column can be rebuilt.
    pub rebuildable: bool,
}

/// Work of elements to encode a stripe, per data element.
#[derive(Clone, Debug, Serialize)]
pub struct Encode {
    /// Additions of one element to another.
    pub additions_per_element: f64,
    /// Multiplications of an element by a coefficient other than 1.
    pub multiplications_per_element: f64,
}

/// Tolerance that a code claims.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Claim {
    /// Lost columns that are always tolerated.
    pub tolerance: usize,
    /// True if no code tolerates more at this rate.
    pub mds: bool,
}

/// Returns the line of one code; `None` if `hear` ended it.
///
/// Cost: a plan for each column; with a proof, about one second of one core for each level.
pub fn line(code: &Code, options: &Options, hear: &Hear<'_>) -> Option<Line> {
    let ended = AtomicBool::new(false);
    let hear = |stage, done, of| {
        let goes_on = hear(stage, done, of);
        ended.fetch_or(!goes_on, Ordering::Relaxed);
        goes_on
    };
    let rebuild = rebuild(code, options, &hear)?;
    let proved = options.proves.then(|| proved(code, options.threads, &hear));
    if ended.into_inner() {
        return None;
    }
    let (mean, most) = words::update_cost(code);
    let encode = Planner::new(code).encode();
    let per_element = |count: usize| rounded(count as f64 / code.data().len() as f64);
    Some(Line {
        code: code.spec().to_string(),
        columns: code.columns(),
        data: code.data().len(),
        parity: code.parity().len(),
        overhead: rounded(1.0 / code.rate()),
        rate: rounded(code.rate()),
        claim: Claim { tolerance: code.claim().tolerance, mds: code.claim().mds },
        proved,
        parities_updated: MeanAndMost { mean: rounded(mean), most },
        rebuild,
        encode: Encode {
            additions_per_element: per_element(encode.additions()),
            multiplications_per_element: per_element(encode.multiplications()),
        },
    })
}

/// Columns of equal height and equal number of parity cells, which cost about the same to rebuild:
/// all of them, and the planned ones.
struct Alike {
    columns: Vec<usize>,
    planned: Vec<usize>,
}

/// Returns the columns in groups, and of each group the planned ones, evenly spread.
fn alike(code: &Code, all: bool) -> Vec<Alike> {
    // A plan takes time proportional to the cells of the stripe: all columns are planned up to a
    // stripe of 39 by 39.
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

/// Plans the rebuild of the chosen columns on all cores. `None` if `hear` ended it.
fn rebuild(code: &Code, options: &Options, hear: &Hear<'_>) -> Option<Rebuild> {
    let planner = Planner::new(code);
    let costs = Costs::uniform();
    let effort = options.effort;
    let groups = alike(code, options.all_columns);
    let columns: Vec<usize> = groups.iter().flat_map(|group| group.planned.iter().copied()).collect();
    let (next, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
    let plans = Mutex::new(vec![None; code.columns()]);
    let work = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(&column) = columns.get(i) else { return };
            if !hear(Stage::Rebuilds, i as u64, columns.len() as u64) {
                ended.store(true, Ordering::Relaxed);
                return;
            }
            let lost = CellSet::of_columns(code, &[column]);
            let wanted: Vec<CellIndex> = code.column_cells(column).collect();
            let plan = planner.recover(&Request { lost: &lost, wanted: &wanted, costs: &costs, effort }).ok();
            let reads = plan.map(|plan| (plan.reads.len(), plan.optimality == pantile::Optimality::Exact));
            plans.lock().unwrap_or_else(|e| e.into_inner())[column] = reads;
        }
    };
    std::thread::scope(|scope| {
        (1..options.threads.min(columns.len())).for_each(|_| {
            scope.spawn(work);
        });
        work();
    });
    if ended.into_inner() {
        return None;
    }
    let plans = plans.into_inner().unwrap_or_else(|e| e.into_inner());
    let data = code.data().len() as f64;
    let known: Vec<(usize, bool)> = plans.iter().copied().flatten().collect();
    let reads = |column: usize| plans[column].map_or(0, |p| p.0);
    // Each planned column is weighted by the columns that it stands for.
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

fn proved(code: &Code, threads: usize, hear: &Hear<'_>) -> Proved {
    let options = ProveOptions {
        lost_most: Some(code.claim().tolerance + 1),
        // The line of a table gets a short proof: about one second of one core for each level.
        sets_most: 5_000_000,
        work_most: 1_000_000_000,
        fatal_most: 1,
        threads,
        ..ProveOptions::default()
    };
    let certificate = prove(code, &options, &|lost, done, of| hear(Stage::Sets { lost }, done, of));
    Proved {
        tolerance: certificate.tolerance(),
        exact: certificate.is_exact(),
        holds: !certificate.contradicts(code.claim()),
    }
}
