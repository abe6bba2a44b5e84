//! Proof of the survivable sets of lost columns: counted, with witnesses, as a certificate.
//!
//! A set of columns is survivable exactly when the equations, restricted to its cells, have full
//! rank: the vectors that the cells of the set have in the equations are linearly independent. Sets
//! are walked depth first, so that a set is tested by adding one column's vectors to an elimination
//! already done, and a set with a fatal subset is never visited.
//!
//! A level (all sets of t columns) is counted exactly unless it has more sets, or costs more work,
//! than the options allow. Then a seeded sample is drawn, and the level reports this with the bound
//! that the sample supports. One random order serves all levels: its first t columns are a random
//! set of t, and up to some length these sets are survivable.
//!
//! Three facts reduce the work of large levels. A code whose generator is a Cauchy matrix survives
//! the loss of any m columns, with m parities, by a theorem (`cauchy.rs`), so none of these sets is
//! tested. Codes whose data columns are powers of one matrix (the Plank codes of RAIDq) are the
//! same after a shift of all data columns. Then only sets that contain the first data column are
//! visited, and each is counted with its shifts. And a subset of a survivable set is survivable:
//! where a higher level has fewer sets, as in mirrors, it is walked first, and if all its sets
//! survive, so do those of all levels below.
//!
//! Devices fail, not columns. If a [`Placement`] moves columns from stripe to stripe, a set of
//! devices is survivable if the columns on it are in every turn. If all sets of columns of a level
//! survive, or none, the same is true of its sets of devices; only the other levels are counted
//! again.

use crate::cauchy::is_cauchy;
use crate::independence::{Blocks, Placed, TestKind, random_order};
use pantile_code::{Claim, Code, Placement};
use pantile_gf::choose;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Method by which the sets of one level were examined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    /// Every set, or one of each class of sets that a shift of the data columns makes equal.
    Exact,
    /// Sets drawn at random. With 95 % confidence the share of fatal sets is at most
    /// `fatal_share_most`.
    Sampled {
        /// The number of sets drawn, with repetition.
        drawn: u64,
        /// The upper end of the one-sided 95 % interval of the share of fatal sets.
        fatal_share_most: f64,
    },
}

/// The result for all sets of `lost` columns, or of `lost` devices that hold columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// The number of lost columns or devices.
    pub lost: usize,
    /// The number of sets of this size (saturating at 2^64 - 1).
    pub sets: u64,
    /// The number of survivable sets; for a sample, among the sets drawn.
    pub survived: u64,
    /// The method of counting.
    pub method: Method,
}

impl Level {
    /// True if every set is known to be survivable.
    pub fn all_survive(&self) -> bool {
        self.method == Method::Exact && self.survived == self.sets
    }

    /// Number of examined sets: all, or those drawn.
    pub fn looked_at(&self) -> u64 {
        match self.method {
            Method::Exact => self.sets,
            Method::Sampled { drawn, .. } => drawn,
        }
    }

    /// The share of the examined sets that are survivable; 0 if no set was examined.
    pub fn survived_share(&self) -> f64 {
        self.survived as f64 / self.looked_at().max(1) as f64
    }
}

/// Proofs about the tolerance of a code.
#[derive(Clone, Debug, PartialEq)]
pub struct Certificate {
    /// The canonical spec of the code.
    pub code: String,
    /// Placement of columns on devices: all sets below are sets of devices.
    pub placement: Placement,
    /// The number of columns, and of devices.
    pub columns: usize,
    /// Level by level from one lost column, up to the first at which no set survives.
    pub levels: Vec<Level>,
    /// The smallest fatal sets, ascending, at most as many as the options request.
    pub fatal: Vec<Vec<usize>>,
    /// The number of fatal sets of the smallest size (for a sample: of those drawn).
    pub fatal_count: u64,
    /// The number of columns that can be lost, whichever they are, by Cauchy's determinant: no
    /// minor of the generator is zero. 0 if the theorem does not apply.
    pub tolerance_by_cauchy: usize,
    /// True if shift invariance was used.
    pub by_shift: bool,
    /// True if levels were decided by a higher level of which every set survives.
    pub by_inclusion: bool,
    /// True if higher levels are missing: because the options exclude them or allow no set to be
    /// drawn, or because the caller ended the proof.
    pub cut: bool,
    /// The steps that were taken, each of about a nanosecond of one core; they do not depend on the
    /// number of threads.
    pub work: u64,
}

impl Certificate {
    /// Returns the number of columns that can be lost, whichever they are. It is proved exactly, by
    /// levels or by a theorem for this or a higher number.
    pub fn tolerance(&self) -> usize {
        let by_levels = self.levels.iter().take_while(|level| level.all_survive()).count();
        by_levels.max(self.tolerance_by_cauchy)
    }

    /// True if every level was counted exactly.
    pub fn is_exact(&self) -> bool {
        self.levels.iter().all(|level| level.method == Method::Exact)
    }

    /// True if a set no larger than the claimed tolerance was found fatal.
    pub fn contradicts(&self, claim: Claim) -> bool {
        let within = |level: &&Level| level.lost <= claim.tolerance;
        self.levels.iter().filter(within).any(|level| level.survived < level.looked_at())
    }
}

/// Limits of a proof.
#[derive(Clone, Debug)]
pub struct ProveOptions {
    /// Placement of columns on devices.
    pub placement: Placement,
    /// The highest level; `None`: until no set survives.
    pub lost_most: Option<usize>,
    /// True if sets are counted even where a theorem decides them, which checks the theorem, too.
    pub counts_all: bool,
    /// A level with more sets (after shift invariance) than this is sampled.
    pub sets_most: u64,
    /// The most steps per level, each of about a nanosecond of one core. A level that would take
    /// more is sampled, and sampling stops at this number.
    pub work_most: u64,
    /// The most steps of all levels together, including the measurement of the cost per set. A
    /// level that needs more than what remains is sampled. If what remains is too small for a
    /// single set, the proof ends.
    pub work_all: u64,
    /// The most sets drawn for the sampled levels.
    pub sample: u64,
    /// The seed of the samples.
    pub seed: u64,
    /// The number of witnesses to return.
    pub fatal_most: usize,
    /// The number of threads; the result does not depend on it.
    pub threads: usize,
}

impl Default for ProveOptions {
    fn default() -> ProveOptions {
        ProveOptions {
            placement: Placement::Fixed,
            lost_most: None,
            counts_all: false,
            sets_most: 20_000_000,
            work_most: 20_000_000_000,
            work_all: u64::MAX,
            sample: 200_000,
            seed: 1,
            fatal_most: 1000,
            threads: 1,
        }
    }
}

/// Proves which sets of columns, or of devices that hold columns, are survivable.
///
/// `progress` gets the level, the sets done and the sets in all. It is called at the start of each
/// level and often while the level is counted, also from several threads. If it returns `false`,
/// the proof ends and returns the levels finished so far, with `cut` set. Cost: at most `work_most`
/// steps per counted level, and `work_most` for the sample of all other levels together; in all
/// about `work_all`. If the placement moves columns, twice that.
pub fn prove(
    code: &Code,
    options: &ProveOptions,
    progress: &(dyn Fn(usize, u64, u64) -> bool + Sync),
) -> Certificate {
    let mut certificate = Certificate {
        code: code.spec().to_string(),
        placement: Placement::Fixed,
        columns: code.columns(),
        levels: Vec::new(),
        fatal: Vec::new(),
        fatal_count: 0,
        tolerance_by_cauchy: 0,
        by_shift: false,
        by_inclusion: false,
        cut: false,
        work: 0,
    };
    if !progress(1, 0, code.columns() as u64) {
        certificate.cut = true;
        return Certificate { placement: options.placement, ..certificate };
    }
    if !options.counts_all && is_cauchy(code) {
        certificate.tolerance_by_cauchy = code.parity().len();
    }
    let blocks = Blocks::new(code);
    let mut proof = Proof {
        placement: Placement::Fixed,
        rows_least: rows_least(code),
        equations: code.equations().len(),
        none_survives: usize::MAX,
        shift: blocks.shiftable(),
        blocks: &blocks,
        options,
        progress,
        walked: BTreeMap::new(),
        all_survive: certificate.tolerance_by_cauchy,
        sampled: None,
        fatal_met: false,
        shift_used: false,
        inclusion_used: false,
        costs: BTreeMap::new(),
        work: 0,
    };
    proof.levels(&mut certificate);
    if options.placement.turns(code.columns()) == 1 {
        return Certificate { placement: options.placement, ..certificate };
    }
    let is_hopeless = |level: &&Level| level.method == Method::Exact && level.survived == 0;
    let mut proof = Proof {
        placement: options.placement,
        none_survives: certificate.levels.iter().find(is_hopeless).map_or(usize::MAX, |level| level.lost),
        shift: None,
        all_survive: certificate.tolerance(),
        walked: BTreeMap::new(),
        sampled: None,
        fatal_met: false,
        costs: BTreeMap::new(),
        ..proof
    };
    let before = certificate;
    let mut certificate = Certificate {
        placement: options.placement,
        levels: Vec::new(),
        fatal: Vec::new(),
        fatal_count: 0,
        cut: false,
        ..before
    };
    proof.levels(&mut certificate);
    certificate
}

/// Entry t is the number of cells of the t shortest columns.
fn rows_least(code: &Code) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..code.columns()).map(|c| code.rows(c)).collect();
    rows.sort_unstable();
    let mut sums = vec![0];
    rows.iter().for_each(|row| sums.push(sums[sums.len() - 1] + row));
    sums
}

#[derive(Clone, Default)]
struct Outcome {
    survived: u64,
    fatal: Vec<Vec<usize>>,
    fatal_count: u64,
}

/// The way to decide one level.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Approach {
    /// No set survives: each has more lost cells than there are equations.
    Hopeless,
    Walk(TestKind),
    Sample,
}

/// Intermediate results while levels are decided one by one.
struct Proof<'p> {
    placement: Placement,
    rows_least: Vec<usize>,
    equations: usize,
    /// The smallest size of which no set is known to survive.
    none_survives: usize,
    shift: Option<usize>,
    blocks: &'p Blocks,
    options: &'p ProveOptions,
    progress: &'p (dyn Fn(usize, u64, u64) -> bool + Sync),
    /// The outcomes of levels that were counted before their turn.
    walked: BTreeMap<usize, Outcome>,
    /// The largest size of which every set is known to survive.
    all_survive: usize,
    /// The sample, drawn when the first level needs it.
    sampled: Option<Sample>,
    /// True if a fatal set was found, so that no more witnesses are needed.
    fatal_met: bool,
    shift_used: bool,
    inclusion_used: bool,
    /// For each level, the cheaper test and its cost per set; `None` if a single set costs more
    /// than the work that remains.
    costs: BTreeMap<usize, Option<(TestKind, u64)>>,
    /// The steps taken so far.
    work: u64,
}

impl Proof<'_> {
    /// Decides one level after the other.
    fn levels(&mut self, certificate: &mut Certificate) {
        for lost in 1..=self.blocks.count() {
            if self.options.lost_most.is_some_and(|most| lost > most) {
                certificate.cut = true;
                break;
            }
            let Some((outcome, method)) = self.level(lost) else {
                certificate.cut = true;
                break;
            };
            if certificate.fatal_count == 0 {
                certificate.fatal = outcome.fatal;
                certificate.fatal_count = outcome.fatal_count;
            }
            let level = Level { lost, sets: self.sets(lost), survived: outcome.survived, method };
            certificate.levels.push(level);
            if outcome.survived == 0 {
                break;
            }
        }
        certificate.by_shift = self.shift_used;
        certificate.by_inclusion = self.inclusion_used;
        certificate.work = self.work;
    }

    fn sets(&self, lost: usize) -> u64 {
        choose(self.blocks.count() as u64, lost as u64)
    }

    /// Returns the number of sets that a walk of the level visits.
    fn visits(&self, lost: usize) -> u64 {
        let columns = self.blocks.count();
        match self.shift {
            Some(data) => sets_with_shift(data as u64, (columns - data) as u64, lost as u64),
            None => self.sets(lost),
        }
    }

    fn is_hopeless(&self, lost: usize) -> bool {
        lost >= self.none_survives || self.rows_least[lost] > self.equations
    }

    fn way(&mut self, lost: usize) -> Approach {
        let visits = self.visits(lost);
        if self.is_hopeless(lost) {
            return Approach::Hopeless;
        }
        // A saturated number is not the real count.
        if visits > self.options.sets_most || visits == u64::MAX {
            return Approach::Sample;
        }
        match self.cost(lost) {
            Some((kind, cost)) if visits.saturating_mul(cost) <= self.left() => Approach::Walk(kind),
            _ => Approach::Sample,
        }
    }

    /// Returns the number of steps that the next level may take.
    fn left(&self) -> u64 {
        self.options.work_most.min(self.options.work_all.saturating_sub(self.work))
    }

    fn cost(&mut self, lost: usize) -> Option<(TestKind, u64)> {
        if let Some(&known) = self.costs.get(&lost) {
            return known;
        }
        let turns = self.placement.turns(self.blocks.count()) as u64;
        let (cheaper, work) = self.blocks.cheaper_test(lost, self.left() / turns);
        let cheaper = cheaper.map(|(kind, cost)| (kind, cost.saturating_mul(turns)));
        self.work += work;
        self.costs.insert(lost, cheaper);
        cheaper
    }

    /// Decides one level. `None` if the caller ended the proof, or if the options allow no set of
    /// it to be tested.
    fn level(&mut self, lost: usize) -> Option<(Outcome, Method)> {
        let sets = self.sets(lost);
        if lost <= self.all_survive {
            return Some((Outcome { survived: sets, ..Outcome::default() }, Method::Exact));
        }
        let way = self.way(lost);
        if way == Approach::Hopeless {
            let fatal = first_sets(self.blocks.count(), lost, self.witnesses());
            self.fatal_met = true;
            return Some((Outcome { survived: 0, fatal, fatal_count: sets }, Method::Exact));
        }
        self.look_above(lost)?;
        if lost <= self.all_survive {
            return Some((Outcome { survived: sets, ..Outcome::default() }, Method::Exact));
        }
        let (outcome, method) = match (self.walked.remove(&lost), way) {
            (Some(outcome), _) => (outcome, Method::Exact),
            (None, Approach::Walk(kind)) => (self.walk(lost, kind)?, Method::Exact),
            (None, _) => self.sampled(lost)?,
        };
        if outcome.fatal_count == 0 && method == Method::Exact {
            self.all_survive = lost;
        }
        self.fatal_met |= outcome.fatal_count > 0;
        Some((outcome, method))
    }

    /// Walks the levels above this one that have fewer sets, from the highest down, until all sets
    /// of one survive.
    fn look_above(&mut self, lost: usize) -> Option<()> {
        if lost <= self.all_survive || self.walked.contains_key(&lost) || self.fatal_met {
            return Some(());
        }
        let here = self.visits(lost);
        for above in (lost + 1..=self.blocks.count()).rev() {
            if self.is_hopeless(above) || self.walked.contains_key(&above) {
                continue;
            }
            if self.visits(above) >= here {
                break;
            }
            let Approach::Walk(kind) = self.way(above) else { break };
            let outcome = self.walk(above, kind)?;
            if outcome.fatal_count == 0 {
                self.all_survive = above;
                self.inclusion_used = true;
                break;
            }
            self.walked.insert(above, outcome);
        }
        Some(())
    }

    /// Returns the number of witnesses that are still wanted.
    fn witnesses(&self) -> usize {
        if self.fatal_met { 0 } else { self.options.fatal_most }
    }

    fn walk(&mut self, lost: usize, kind: TestKind) -> Option<Outcome> {
        let visits = self.visits(lost);
        if !(self.progress)(lost, 0, visits) {
            return None;
        }
        self.shift_used |= self.shift.is_some();
        let walk = Walk {
            blocks: self.blocks,
            placement: self.placement,
            kind,
            lost,
            shift: self.shift,
            visits,
            witnesses: self.witnesses(),
            progress: self.progress,
            done: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            work: AtomicU64::new(0),
        };
        let outcome = walk.all(self.options.threads);
        self.work += walk.work.into_inner();
        outcome
    }

    /// Returns the outcome of a level by a sample.
    fn sampled(&mut self, lost: usize) -> Option<(Outcome, Method)> {
        if self.sampled.is_none() {
            self.sampled = Some(self.draw(lost)?);
        }
        let sample = self.sampled.as_ref()?;
        let fatal_count = sample.first_fatal.range(..=lost).map(|(_, count)| count).sum();
        let method = Method::Sampled {
            drawn: sample.drawn,
            fatal_share_most: share_at_most(fatal_count, sample.drawn),
        };
        let is_smallest = sample.first_fatal.keys().next() == Some(&lost);
        let fatal = if is_smallest && !self.fatal_met { sample.witnesses.clone() } else { Vec::new() };
        Some((Outcome { survived: sample.drawn - fatal_count, fatal, fatal_count }, method))
    }

    /// Draws random orders, for this level and all above it, until there are enough or the limit of
    /// work is reached. `None` if no order could be drawn, since an empty sample proves nothing.
    fn draw(&mut self, lost: usize) -> Option<Sample> {
        // The work is compared with its limit only between rounds, so that the number of orders
        // drawn does not depend on the threads.
        const ROUND_MOST: u64 = 512;
        let (kind, cost) = self.cost(lost)?;
        let limit = self.left();
        let round_most = (limit / cost.max(1)).clamp(1, ROUND_MOST);
        let asked = self.options.lost_most.unwrap_or(usize::MAX);
        let length = (lost..=self.blocks.count().min(asked)).rev().find(|&t| !self.is_hopeless(t))?;
        let mut sample = Sample { drawn: 0, first_fatal: BTreeMap::new(), witnesses: Vec::new() };
        let mut work = 0;
        while sample.drawn < self.options.sample && work < limit {
            let round = sample.drawn..self.options.sample.min(sample.drawn + round_most);
            let next = AtomicU64::new(round.start);
            let ended = AtomicBool::new(false);
            let results: Mutex<Vec<(FirstFatal, u64)>> = Mutex::new(Vec::new());
            let draw = || {
                let mut test = self.blocks.placed(kind, self.placement);
                let mut fatal = Vec::new();
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= round.end || ended.load(Ordering::Relaxed) {
                        break;
                    }
                    let mut order = random_order(self.blocks.count(), length, self.options.seed, i);
                    if let Some(first) = test.first_fatal(&order, self.all_survive) {
                        order.truncate(first);
                        order.sort_unstable();
                        fatal.push((first, order));
                    }
                    if i.is_multiple_of(16) && !(self.progress)(lost, i, self.options.sample) {
                        ended.store(true, Ordering::Relaxed);
                    }
                }
                results.lock().unwrap_or_else(|e| e.into_inner()).push((fatal, test.work()));
            };
            on_threads(self.options.threads, &draw);
            if ended.into_inner() {
                return None;
            }
            for (fatal, steps) in results.into_inner().unwrap_or_else(|e| e.into_inner()) {
                work += steps;
                fatal.into_iter().for_each(|(first, set)| sample.take(first, set));
            }
            sample.drawn = round.end;
            sample.witnesses.sort_unstable();
            sample.witnesses.dedup();
            sample.witnesses.truncate(self.options.fatal_most);
        }
        self.work += work;
        (sample.drawn > 0).then_some(sample)
    }
}

/// Fatal sets with their sizes: each is the shortest fatal prefix of a random order.
type FirstFatal = Vec<(usize, Vec<usize>)>;

/// The results of random orders, each tested up to its first fatal length.
struct Sample {
    drawn: u64,
    /// The number of orders whose shortest fatal prefix has each length.
    first_fatal: BTreeMap<usize, u64>,
    /// The fatal sets of the smallest such length.
    witnesses: Vec<Vec<usize>>,
}

impl Sample {
    fn take(&mut self, first: usize, set: Vec<usize>) {
        match self.witnesses.first().map_or(usize::MAX, Vec::len) {
            size if first < size => self.witnesses = vec![set],
            size if first == size => self.witnesses.push(set),
            _ => {}
        }
        *self.first_fatal.entry(first).or_insert(0) += 1;
    }
}

/// Runs `work` on `threads` threads, or on fewer if the system starts no more; the result does not
/// depend on their number.
pub(crate) fn on_threads(threads: usize, work: &(dyn Fn() + Sync)) {
    std::thread::scope(|scope| {
        let start = || std::thread::Builder::new().spawn_scoped(scope, work).is_ok();
        let _ = (1..threads.max(1)).all(|_| start());
        work();
    });
}

/// One level, visited depth first.
struct Walk<'w> {
    blocks: &'w Blocks,
    placement: Placement,
    kind: TestKind,
    lost: usize,
    shift: Option<usize>,
    visits: u64,
    witnesses: usize,
    progress: &'w (dyn Fn(usize, u64, u64) -> bool + Sync),
    done: AtomicU64,
    ended: AtomicBool,
    work: AtomicU64,
}

impl Walk<'_> {
    /// Counts the level. `None` if the caller ended the proof.
    fn all(&self, threads: usize) -> Option<Outcome> {
        // One part for each choice of the first one or two columns, which is enough parts for all
        // cores.
        let starts: Vec<Vec<usize>> = first_sets(self.blocks.count(), self.lost.min(2), usize::MAX)
            .into_iter()
            .filter(|start| self.shift.is_none_or(|data| start[0] == 0 || start[0] >= data))
            .collect();
        let next = AtomicUsize::new(0);
        let sum = Mutex::new(Outcome::default());
        on_threads(threads, &|| {
            let mut visitor = Visitor {
                walk: self,
                test: self.blocks.placed(self.kind, self.placement),
                outcome: Outcome::default(),
                unreported: 0,
                reported_work: 0,
            };
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= starts.len() || self.ended.load(Ordering::Relaxed) {
                    self.work.fetch_add(visitor.test.work(), Ordering::Relaxed);
                    return;
                }
                visitor.part(&starts[i]);
                let outcome = std::mem::take(&mut visitor.outcome);
                let mut sum = sum.lock().unwrap_or_else(|e| e.into_inner());
                sum.survived += outcome.survived;
                sum.fatal_count += outcome.fatal_count;
                sum.fatal.extend(outcome.fatal);
                // Only the smallest witnesses are kept, so the order in which parts end does not
                // matter.
                if sum.fatal.len() > self.witnesses.saturating_mul(2) {
                    sum.fatal.sort_unstable();
                    sum.fatal.truncate(self.witnesses);
                }
            }
        });
        if self.ended.load(Ordering::Relaxed) || !(self.progress)(self.lost, self.visits, self.visits) {
            return None;
        }
        let mut sum = sum.into_inner().unwrap_or_else(|e| e.into_inner());
        sum.fatal.sort_unstable();
        sum.fatal.truncate(self.witnesses);
        Some(sum)
    }
}

struct Visitor<'v> {
    walk: &'v Walk<'v>,
    test: Placed<'v>,
    outcome: Outcome,
    unreported: u64,
    reported_work: u64,
}

impl Visitor<'_> {
    fn part(&mut self, start: &[usize]) {
        let mut set = Vec::with_capacity(self.walk.lost);
        self.test.clear();
        for &column in start {
            set.push(column);
            if !self.test.push(column) {
                self.all_fatal(&mut set.clone(), start);
                return;
            }
        }
        self.descend(&mut set);
    }

    fn descend(&mut self, set: &mut Vec<usize>) {
        if self.walk.ended.load(Ordering::Relaxed) {
            return;
        }
        if set.len() == self.walk.lost {
            self.outcome.survived += self.weight(set);
            self.tick(1);
            return;
        }
        let columns = self.walk.blocks.count();
        let first = set.last().map_or(0, |c| c + 1);
        for column in first..=columns - (self.walk.lost - set.len()) {
            let mark = self.test.mark();
            set.push(column);
            match self.test.push(column) {
                true => self.descend(set),
                false => self.fatal_below(set),
            }
            set.pop();
            self.test.truncate(mark);
        }
    }

    /// Counts every set of the level that starts with `start`, whose prefix `set` is already fatal.
    fn all_fatal(&mut self, set: &mut Vec<usize>, start: &[usize]) {
        set.clear();
        set.extend_from_slice(start);
        self.fatal_below(set);
    }

    /// Counts all sets of the level that start with this fatal set, and keeps witnesses.
    fn fatal_below(&mut self, set: &mut Vec<usize>) {
        let columns = self.walk.blocks.count();
        let missing = self.walk.lost - set.len();
        let first = set.last().map_or(0, |c| c + 1);
        if missing == 0 {
            let weight = self.weight(set);
            self.outcome.fatal_count += weight;
            self.tick(1);
            self.keep(set);
            return;
        }
        if self.outcome.fatal.len() >= self.walk.witnesses && self.walk.shift.is_none() {
            let count = choose((columns - first) as u64, missing as u64);
            self.outcome.fatal_count += count;
            self.tick(count);
            return;
        }
        for column in first..=columns - missing {
            set.push(column);
            self.fatal_below(set);
            set.pop();
        }
    }

    /// Number of sets of the level that this one represents.
    fn weight(&self, set: &[usize]) -> u64 {
        match self.walk.shift {
            Some(data) => shifts(set, data) as u64,
            None => 1,
        }
    }

    fn keep(&mut self, set: &[usize]) {
        let data = self.walk.shift.unwrap_or(0);
        let count = self.walk.shift.map_or(1, |data| shifts(set, data));
        for shift in 0..count {
            if self.outcome.fatal.len() >= self.walk.witnesses {
                return;
            }
            self.outcome.fatal.push(set.iter().map(|&c| if c < data { c + shift } else { c }).collect());
        }
    }

    fn tick(&mut self, sets: u64) {
        const SETS: u64 = 1 << 16;
        const WORK: u64 = 1 << 22;
        self.unreported += sets;
        if self.unreported >= SETS || self.test.work() - self.reported_work >= WORK {
            let walk = self.walk;
            let done = walk.done.fetch_add(self.unreported, Ordering::Relaxed) + self.unreported;
            (self.unreported, self.reported_work) = (0, self.test.work());
            if !(walk.progress)(walk.lost, done.min(walk.visits), walk.visits) {
                walk.ended.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// Returns the number of sets that shifting its data columns makes of this set. The first data
/// column of the set, if it has one, is column 0.
fn shifts(set: &[usize], data: usize) -> usize {
    set.iter().rfind(|&&c| c < data).map_or(1, |&last| data - last)
}

/// Returns the number of sets of `lost` columns that have no data column or contain column 0.
fn sets_with_shift(data: u64, parity: u64, lost: u64) -> u64 {
    let mut sum = choose(parity, lost);
    for of_data in 1..=lost.min(data) {
        sum =
            sum.saturating_add(choose(data - 1, of_data - 1).saturating_mul(choose(parity, lost - of_data)));
    }
    sum
}

/// Returns the upper end of the one-sided 95 % interval of a share, from `hits` among `drawn`
/// samples.
///
/// Without a hit it is 3 / drawn (exact to 0.2 %), otherwise Wilson's score bound.
fn share_at_most(hits: u64, drawn: u64) -> f64 {
    let (hits, drawn) = (hits as f64, drawn as f64);
    if hits == 0.0 {
        return (3.0 / drawn).min(1.0);
    }
    let z = 1.6449;
    let share = hits / drawn;
    let centre = share + z * z / (2.0 * drawn);
    let spread = z * (share * (1.0 - share) / drawn + z * z / (4.0 * drawn * drawn)).sqrt();
    ((centre + spread) / (1.0 + z * z / drawn)).min(1.0)
}

/// The first `most` sets of `size` out of `columns`, in ascending order.
fn first_sets(columns: usize, size: usize, most: usize) -> Vec<Vec<usize>> {
    let mut sets = Vec::new();
    if size > columns {
        return sets;
    }
    let mut set: Vec<usize> = (0..size).collect();
    while sets.len() < most {
        sets.push(set.clone());
        let Some(i) = (0..size).rev().find(|&i| set[i] < columns - size + i) else { break };
        set[i] += 1;
        for j in i + 1..size {
            set[j] = set[j - 1] + 1;
        }
    }
    sets
}
