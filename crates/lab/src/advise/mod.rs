//! Advice on a code for a workload: candidates for a number of disks, ranked by the cost of one
//! trace, a lost disk and a year on each.
//!
//! * [`Candidates`]: the candidate codes, from what the families declare
//!   ([`pantile::code::families`]), for a volume, Ceph or HDFS;
//! * the trace is replayed on all of them ([`crate::replay`]), in place;
//! * [`Advice::of`] examines rebuild and durability, ranks, and gives reasons.
//!
//! Codes are ranked by score. For each of space, I/O, rebuild and durability, the cost of a code is
//! divided by the cost of the best candidate; the score is the weighted geometric mean of these
//! quotients. A code with the score 1 is the best by every criterion that has a weight. Every
//! number is also printed by another command: `replay`, `compare`, `durability`.

mod candidates;
mod reasons;
mod report;
mod target;
mod timing;
mod weights;

pub use candidates::{Candidate, Candidates, NoCandidate, Skipped};
pub use reasons::notes;
pub use report::{Asked, report};
pub use target::Target;
pub use timing::{Timed, Timing};
pub use weights::{Criterion, Weights, WeightsError};

use crate::compare::{self, Line};
use crate::durability::{self, HOURS_PER_YEAR};
use crate::parallel;
use crate::replay::{BLOCK_BYTES, Cause, Replayed, Seen};
use pantile::code::Placement;
use pantile::plan::Level;
use pantile::{Code, Effort};
use std::collections::HashMap;
use std::sync::Mutex;

/// Options of an advice.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Criteria and their weights.
    pub weights: Weights,
    /// Disks assumed for rebuild and durability; the Monte Carlo does not run.
    pub durability: durability::Options,
    /// Threads; the result does not depend on their number.
    pub threads: usize,
    /// True for pools and files: many groups, each of which keeps its columns on its disks. Sets
    /// of disks are then counted as fixed, even where the load is spread.
    pub has_groups: bool,
    /// Devices whose service times give latencies.
    pub timed: Option<Timed>,
}

/// Factor by which less work is spent on durability than in the command `durability`: there are
/// dozens of codes, and a tenth of a nine changes no order.
pub const HASTE: u64 = 10;

/// Nines that count: beyond them, arrays are lost by causes that no code prevents.
pub const NINES_ENOUGH: f64 = 9.0;

/// One code, examined.
#[derive(Clone, Debug)]
pub struct Ranked {
    /// The candidate.
    pub candidate: Candidate,
    /// Other candidates that are equal in every number.
    pub same: Vec<String>,
    /// Stored bytes per user byte.
    pub space: f64,
    /// Blocks that all disks read and write per block requested by the trace.
    pub io: f64,
    /// Share of these blocks that is user data; the rest is old content, parity, checksums.
    pub user_share: f64,
    /// Load of the busiest disk over the mean of the disks.
    pub busiest: f64,
    /// Contents of disks read to rebuild a lost one, mean.
    pub rebuild_disks: f64,
    /// True if no plan reads less.
    pub rebuild_is_least: bool,
    /// Hours to rebuild a disk.
    pub rebuild_hours: f64,
    /// Nines of the probability that a year brings no loss.
    pub nines: f64,
    /// Mean years to a loss.
    pub mttdl_years: f64,
    /// Name of the stand-in code that `nines` and `mttdl_years` were computed for, if any.
    pub durability_of: Option<String>,
    /// True if `nines` and `mttdl_years` are of a sample of the sets of lost disks.
    pub is_sampled: bool,
    /// Latencies of requests; not part of the score.
    pub timing: Timing,
    /// Lost disks that are always tolerated.
    pub tolerance: usize,
    /// True if the tolerance was proved here; otherwise it is claimed.
    pub is_proved: bool,
    /// Placement of the columns of a stripe on disks.
    pub placement: Placement,
    /// Sets with one lost disk more than the tolerance; `None` if a stand-in was examined.
    pub next: Option<Level>,
    /// Score, at least 1; lower is better.
    pub score: f64,
    /// Name of another candidate that is no worse by any criterion or in balance, and at least 5 %
    /// better in one of these.
    pub beaten_by: Option<String>,
}

impl Ranked {
    /// Returns the nines as tables show them: `≈` where sets were sampled, `*` where a stand-in was
    /// examined.
    pub fn nines_shown(&self) -> String {
        let sampled = if self.is_sampled { "\u{2248}" } else { "" };
        let stand_in = if self.durability_of.is_some() { "*" } else { "" };
        format!("{sampled}{:.1}{stand_in}", self.nines)
    }

    /// Returns the hours of a rebuild as tables show them: `~` where fewer reads may suffice.
    pub fn rebuild_shown(&self) -> String {
        format!("{}{:.1} h", if self.rebuild_is_least { "" } else { "~" }, self.rebuild_hours)
    }

    /// Returns the cost by a criterion, in its unit; lower is better.
    pub fn cost(&self, criterion: Criterion) -> f64 {
        match criterion {
            Criterion::Space => self.space,
            Criterion::Io => self.io,
            Criterion::Rebuild => self.rebuild_hours,
            Criterion::Durability => 1.0 / self.nines.clamp(0.1, NINES_ENOUGH),
        }
    }

    /// Returns true if this code is no worse by any criterion or in balance, and better in one of
    /// these by more than the traces of two days differ.
    fn beats(&self, other: &Ranked) -> bool {
        // A code that has to be installed does not replace one that is built in.
        if other.candidate.is_built_in && !self.candidate.is_built_in {
            return false;
        }
        let costs = |one: &Ranked| Criterion::ALL.map(|of| one.cost(of)).into_iter().chain([one.busiest]);
        let pairs = || costs(self).zip(costs(other));
        const ROUNDING: f64 = 1.0 + 1e-9;
        const CLEARLY: f64 = 0.95;
        pairs().all(|(a, b)| a <= b * ROUNDING) && pairs().any(|(a, b)| a < b * CLEARLY)
    }

    fn is_like(&self, other: &Ranked) -> bool {
        let numbers = |one: &Ranked| [one.space, one.io, one.busiest, one.rebuild_disks, one.nines];
        let are_equal = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs();
        numbers(self).into_iter().zip(numbers(other)).all(|(a, b)| are_equal(a, b))
            && (self.tolerance, self.is_proved, &self.timing)
                == (other.tolerance, other.is_proved, &other.timing)
    }
}

/// Ranked candidates, and the codes left out.
#[derive(Clone, Debug)]
pub struct Advice {
    /// Codes by score, the best first; where scores are equal, in the order of families. Codes
    /// built into Ceph come before those of the plug-in, and beaten codes last.
    pub ranked: Vec<Ranked>,
    /// Codes left out, each with the reason.
    pub skipped: Vec<Skipped>,
}

/// Receives the number of examined candidates; `false` ends the work.
pub type Hear<'h> = dyn Fn(usize) -> bool + Sync + 'h;

impl Advice {
    /// Examines and ranks candidates that a trace was replayed on, in their order. `None` if
    /// `hear` ended it.
    ///
    /// Cost: a plan for each disk of each candidate; at most one second for each distinct
    /// durability, and another for latencies.
    pub fn of(
        candidates: Candidates,
        seen: &Seen,
        replayed: &[Replayed],
        options: &Options,
        hear: &Hear<'_>,
    ) -> Option<Advice> {
        let durabilities = Mutex::new(HashMap::new());
        let done = std::sync::atomic::AtomicUsize::new(0);
        let both: Vec<(&Candidate, &Replayed)> = candidates.candidates.iter().zip(replayed).collect();
        let found = parallel::map(options.threads, &both, |(candidate, replayed)| {
            let ranked = examined(candidate, seen, replayed, options, &durabilities, hear, &done);
            done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            ranked
        });
        let mut ranked: Vec<Ranked> = Vec::new();
        for one in found {
            let one = one?;
            match ranked.iter_mut().find(|other| other.is_like(&one)) {
                Some(other) => other.same.push(one.candidate.name),
                None => ranked.push(one),
            }
        }
        let best =
            Criterion::ALL.map(|of| ranked.iter().map(|one| one.cost(of)).fold(f64::INFINITY, f64::min));
        for one in &mut ranked {
            let worse = Criterion::ALL.map(|of| one.cost(of) / best[of as usize]);
            one.score = options.weights.mean(worse);
        }
        for place in 0..ranked.len() {
            let better = ranked.iter().filter(|other| other.beats(&ranked[place]));
            let best = better.min_by(|a, b| a.score.total_cmp(&b.score));
            ranked[place].beaten_by = best.map(|best| best.candidate.name.clone());
        }
        // Codes that the target itself contains need no installation.
        ranked.sort_by(|a, b| {
            let key = |one: &Ranked| (!one.candidate.is_built_in, one.beaten_by.is_some());
            key(a).cmp(&key(b)).then(a.score.total_cmp(&b.score))
        });
        Some(Advice { ranked, skipped: candidates.skipped })
    }
}

fn examined(
    candidate: &Candidate,
    seen: &Seen,
    replayed: &Replayed,
    options: &Options,
    durabilities: &Mutex<HashMap<String, Durable>>,
    hear: &Hear<'_>,
    done: &std::sync::atomic::AtomicUsize,
) -> Option<Ranked> {
    let code = &candidate.code;
    let how = compare::Options { effort: Effort::Fast, all_columns: false, proves: false, threads: 1 };
    let goes_on = |_, _, _| hear(done.load(std::sync::atomic::Ordering::Relaxed));
    let line: Line = compare::line(code, &how, &goes_on)?;
    let hears = || hear(done.load(std::sync::atomic::Ordering::Relaxed));
    let timing = match &options.timed {
        Some(timed) => timed.on((candidate, replayed.placement), seen, hears)?,
        None => Timing::NotAsked,
    };
    let placement = if options.has_groups { Placement::Fixed } else { replayed.placement };
    let durable = durable((code, placement), options, durabilities);
    let total = replayed.counts.total();
    let asked = (seen.bytes_read + seen.bytes_written) as f64 / BLOCK_BYTES as f64;
    let moved = (total.read + total.written) as f64;
    let of_users = replayed.counts.of(Cause::User);
    let loads: Vec<u64> = replayed.counts.per_device().iter().map(|b| b.read + b.written).collect();
    let most = loads.iter().copied().max().unwrap_or(0) as f64;
    let rebuild_disks = line.rebuild.mean_reads / code.rows_max() as f64;
    let disks = &options.durability.disks;
    Some(Ranked {
        candidate: candidate.clone(),
        same: Vec::new(),
        space: line.overhead,
        io: moved / asked,
        user_share: (of_users.read + of_users.written) as f64 / moved.max(1.0),
        busiest: most * loads.len() as f64 / moved.max(1.0),
        rebuild_disks,
        rebuild_is_least: line.rebuild.exact,
        rebuild_hours: disks.pass_hours(1.0).max(disks.traffic_hours(rebuild_disks)),
        nines: durable.nines,
        mttdl_years: durable.mttdl_years,
        durability_of: durable.stands_for_it,
        is_sampled: durable.is_sampled,
        timing,
        tolerance: durable.tolerance.unwrap_or(code.claim().tolerance),
        is_proved: durable.is_proved,
        placement,
        next: durable.next,
        score: 1.0,
        beaten_by: None,
    })
}

#[derive(Clone)]
struct Durable {
    nines: f64,
    mttdl_years: f64,
    stands_for_it: Option<String>,
    is_sampled: bool,
    /// Proved tolerance; `None` if a stand-in was examined.
    tolerance: Option<usize>,
    is_proved: bool,
    next: Option<Level>,
}

/// Computes each durability once: the codes that tolerate any m lost columns share one.
fn durable(
    (code, placement): (&Code, Placement),
    options: &Options,
    known: &Mutex<HashMap<String, Durable>>,
) -> Durable {
    let other = durability::stand_in(code);
    let of = other.as_ref().unwrap_or(code);
    // Placement changes nothing for a code that loses data with every set beyond its tolerance.
    let placement = if of.claim().mds { Placement::Fixed } else { placement };
    let lock = || known.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let key = format!("{} {placement}", of.spec());
    let cached = lock().get(&key).cloned();
    let found = cached.unwrap_or_else(|| {
        let (cycles, threads, haste) = (0, 1, HASTE);
        let how = durability::Options { placement, cycles, threads, haste, ..options.durability.clone() };
        let found = match durability::examine(of, &how) {
            Ok(found) => Durable {
                nines: found.nines(),
                mttdl_years: found.hours / HOURS_PER_YEAR,
                stands_for_it: None,
                is_sampled: found.is_sampled(),
                tolerance: Some(found.tolerance),
                is_proved: found.is_proved,
                next: found.certificate.levels.get(found.tolerance).cloned(),
            },
            Err(_) => unreachable!("without counted spares nothing is refused"),
        };
        lock().insert(key, found.clone());
        found
    });
    match other {
        None => found,
        // The tolerance of this code is claimed by its family; the proof is of the stand-in.
        Some(other) => Durable {
            stands_for_it: Some(other.spec().to_string()),
            tolerance: None,
            is_proved: false,
            next: None,
            ..found
        },
    }
}
