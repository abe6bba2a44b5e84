//! Which sets of lost columns are survivable: counted, with witnesses, as a certificate.
//!
//! A set of columns is survivable exactly when the equations, restricted to its cells, have full rank: the vectors
//! that the cells of the set have in the equations are linearly independent. Sets are walked depth first, so that a
//! set is tested by adding one column's vectors to an elimination already done, and a set with a fatal subset is
//! never visited.
//!
//! A level (all sets of t columns) is counted exactly unless it has more sets than the option allows; then a seeded
//! sample is drawn and the level says so, with the bound that the sample supports. Codes whose data columns are powers of
//! one matrix (the Plank codes of RAIDq) look the same after a shift of all data columns; only sets that contain the
//! first data column are then visited, and each is counted with its shifts.

use pantile_code::Code;
use pantile_gf::{Gf, Matrix};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// How the sets of one level were examined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    /// Every set, or one of each class of sets that a shift of the data columns makes equal.
    Exact,
    /// So many sets drawn at random; with 95 % confidence the share of fatal sets is at most `fatal_share_most`.
    Sampled {
        /// Sets drawn, with repetition.
        drawn: u64,
        /// Upper end of the one-sided 95 % interval.
        fatal_share_most: f64,
    },
}

/// All sets of so many columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// Columns lost.
    pub lost: usize,
    /// The number of such sets (saturating at 2^64 - 1).
    pub sets: u64,
    /// How many are survivable; of a sample, how many of those drawn.
    pub survived: u64,
    /// How it was counted.
    pub method: Method,
}

impl Level {
    /// Whether every set is known to be survivable.
    pub fn all_survive(&self) -> bool {
        self.method == Method::Exact && self.survived == self.sets
    }
}

/// What has been proved of a code.
#[derive(Clone, Debug, PartialEq)]
pub struct Certificate {
    /// The canonical spec.
    pub code: String,
    /// The number of columns.
    pub columns: usize,
    /// Level by level from one lost column, up to the first at which nothing survives.
    pub levels: Vec<Level>,
    /// The smallest fatal sets, ascending, up to the number asked for.
    pub fatal: Vec<Vec<usize>>,
    /// How many of the smallest size there are (of a sample: were met).
    pub fatal_count: u64,
    /// Whether shift invariance was used.
    pub by_shift: bool,
    /// Whether higher levels were left out because the option said so.
    pub cut: bool,
}

impl Certificate {
    /// Any so many columns may be lost, proved exactly.
    pub fn tolerance(&self) -> usize {
        self.levels.iter().take_while(|level| level.all_survive()).count()
    }

    /// Whether every level was counted exactly.
    pub fn is_exact(&self) -> bool {
        self.levels.iter().all(|level| level.method == Method::Exact)
    }
}

/// How far to go.
#[derive(Clone, Debug)]
pub struct ProveOptions {
    /// The highest level; `None`: until nothing survives.
    pub lost_most: Option<usize>,
    /// A level with more sets (after shift invariance) than this is sampled.
    pub sets_most: u64,
    /// Sets drawn for a sampled level.
    pub sample: u64,
    /// The seed of the samples.
    pub seed: u64,
    /// How many witnesses to keep.
    pub fatal_most: usize,
    /// Threads; the result does not depend on it.
    pub threads: usize,
}

impl Default for ProveOptions {
    fn default() -> ProveOptions {
        ProveOptions {
            lost_most: None,
            sets_most: 20_000_000,
            sample: 200_000,
            seed: 1,
            fatal_most: 1000,
            threads: 1,
        }
    }
}

/// Proves which sets of columns are survivable.
///
/// `progress` is told the level, the sets done and the sets in all; it may be called from several threads, and ends
/// the proof by answering `false`: the levels finished so far are then returned with `cut` set.
/// Cost: at most `sets_most` eliminations of one column's vectors per level.
pub fn prove(
    code: &Code,
    options: &ProveOptions,
    progress: &(dyn Fn(usize, u64, u64) -> bool + Sync),
) -> Certificate {
    let columns = code.columns();
    let blocks = Blocks::new(code);
    let shift = blocks.shiftable();
    let mut certificate = Certificate {
        code: code.spec().to_string(),
        columns,
        levels: Vec::new(),
        fatal: Vec::new(),
        fatal_count: 0,
        by_shift: false,
        cut: false,
    };
    let rows_least = |lost: usize| -> usize {
        let mut rows: Vec<usize> = (0..columns).map(|c| code.rows(c)).collect();
        rows.sort_unstable();
        rows[..lost].iter().sum()
    };
    for lost in 1..=columns {
        if options.lost_most.is_some_and(|most| lost > most) {
            certificate.cut = true;
            break;
        }
        let sets = choose(columns as u64, lost as u64);
        let visits = match shift {
            Some(data) => sets_with_shift(data as u64, (columns - data) as u64, lost as u64),
            None => sets,
        };
        let witnesses = if certificate.fatal_count == 0 { options.fatal_most } else { 0 };
        let hopeless = rows_least(lost) > code.equations().len();
        let outcome = if hopeless {
            // More unknown cells than equations: no set survives, by counting.
            Some(Outcome { survived: 0, fatal: first_sets(columns, lost, witnesses), fatal_count: sets })
        } else if visits <= options.sets_most {
            certificate.by_shift |= shift.is_some();
            walk(&blocks, lost, shift, visits, witnesses, options.threads, progress)
        } else {
            sample(&blocks, lost, witnesses, options, progress)
        };
        let Some(outcome) = outcome else {
            certificate.cut = true;
            break;
        };
        let exact = hopeless || visits <= options.sets_most;
        let method = match exact {
            true => Method::Exact,
            false => Method::Sampled {
                drawn: options.sample,
                fatal_share_most: share_at_most(outcome.fatal_count, options.sample),
            },
        };
        if certificate.fatal_count == 0 {
            certificate.fatal = outcome.fatal;
            certificate.fatal_count = outcome.fatal_count;
        }
        certificate.levels.push(Level { lost, sets, survived: outcome.survived, method });
        if outcome.survived == 0 {
            break;
        }
    }
    certificate
}

struct Outcome {
    survived: u64,
    fatal: Vec<Vec<usize>>,
    fatal_count: u64,
}

/// For each column the vectors that its cells have in the equations.
struct Blocks {
    equations: usize,
    is_xor: bool,
    /// Entries per vector: equations, or machine words of 64 of them.
    columns: Vec<Vec<Vec<Gf>>>,
    bits: Vec<Vec<Vec<u64>>>,
    /// Data columns 0..this carry data only.
    data_columns: usize,
}

impl Blocks {
    fn new(code: &Code) -> Blocks {
        let equations = code.equations().len();
        let is_xor = code.is_xor();
        let mut columns: Vec<Vec<Vec<Gf>>> = Vec::new();
        let mut bits: Vec<Vec<Vec<u64>>> = Vec::new();
        for column in 0..code.columns() {
            columns.push(vec![vec![Gf::ZERO; if is_xor { 0 } else { equations }]; code.rows(column)]);
            bits.push(vec![vec![0u64; if is_xor { equations.div_ceil(64) } else { 0 }]; code.rows(column)]);
        }
        for (e, equation) in code.equations().iter().enumerate() {
            for &(cell, coefficient) in equation.terms() {
                let cell = code.cell(cell);
                match is_xor {
                    true => bits[cell.column][cell.row][e / 64] |= 1 << (e % 64),
                    false => columns[cell.column][cell.row][e] = coefficient,
                }
            }
        }
        let data_columns = (0..code.columns())
            .take_while(|&c| code.column_cells(c).all(|cell| !code.is_parity(cell)))
            .count();
        Blocks { equations, is_xor, columns, bits, data_columns }
    }

    fn count(&self) -> usize {
        self.columns.len()
    }

    /// The number of data columns, if they are the powers of one block-diagonal matrix and parity columns are unit
    /// blocks: then any set of columns and the same set with all data columns shifted survive alike.
    fn shiftable(&self) -> Option<usize> {
        let k = self.data_columns;
        if self.is_xor || k < 3 || k == self.count() {
            return None;
        }
        let rows = self.columns[0].len();
        let even =
            self.columns.iter().all(|c| c.len() == rows) && self.equations == rows * (self.count() - k);
        if !even || rows == 0 {
            return None;
        }
        // The block of a column in one parity: rows x rows, transposed alike everywhere.
        let block = |column: usize, parity: usize| {
            Matrix::from_fn(rows, rows, |e, r| self.columns[column][r][parity * rows + e])
        };
        let identity = Matrix::identity(rows);
        let zero = Matrix::zero(rows, rows);
        let parities = self.count() - k;
        for p in 0..parities {
            let step = block(1, p);
            let mut power = identity.clone();
            for column in 0..k {
                if block(column, p) != power {
                    return None;
                }
                power = &step * &power;
            }
            for other in 0..parities {
                let expected = if other == p { &identity } else { &zero };
                if &block(k + other, p) != expected {
                    return None;
                }
            }
        }
        Some(k)
    }
}

/// An elimination that can be undone, in bits or in bytes.
struct Basis<'b> {
    blocks: &'b Blocks,
    bytes: Vec<(usize, Vec<Gf>)>,
    bits: Vec<(usize, Vec<u64>)>,
}

impl<'b> Basis<'b> {
    fn new(blocks: &'b Blocks) -> Basis<'b> {
        Basis { blocks, bytes: Vec::new(), bits: Vec::new() }
    }

    fn rank(&self) -> usize {
        self.bytes.len() + self.bits.len()
    }

    fn truncate(&mut self, rank: usize) {
        match self.blocks.is_xor {
            true => self.bits.truncate(rank),
            false => self.bytes.truncate(rank),
        }
    }

    /// Adds a column's vectors; `false` if they are not independent of what is there (the caller truncates).
    fn add(&mut self, column: usize) -> bool {
        if self.blocks.is_xor {
            self.blocks.bits[column].iter().all(|vector| self.add_bits(vector))
        } else {
            self.blocks.columns[column].iter().all(|vector| self.add_bytes(vector))
        }
    }

    fn add_bits(&mut self, vector: &[u64]) -> bool {
        let mut rest = vector.to_vec();
        for (pivot, base) in &self.bits {
            if rest[pivot / 64] >> (pivot % 64) & 1 == 1 {
                rest.iter_mut().zip(base).for_each(|(x, &y)| *x ^= y);
            }
        }
        let Some(word) = rest.iter().position(|&w| w != 0) else { return false };
        self.bits.push((word * 64 + rest[word].trailing_zeros() as usize, rest));
        true
    }

    fn add_bytes(&mut self, vector: &[Gf]) -> bool {
        let mut rest = vector.to_vec();
        for (pivot, base) in &self.bytes {
            let factor = rest[*pivot];
            if !factor.is_zero() {
                rest.iter_mut().zip(base).for_each(|(x, &y)| *x += factor * y);
            }
        }
        let Some(pivot) = rest.iter().position(|x| !x.is_zero()) else { return false };
        let scale = Gf::ONE / rest[pivot];
        rest.iter_mut().for_each(|x| *x *= scale);
        self.bytes.push((pivot, rest));
        true
    }
}

/// A part of a level: all sets that start with these columns, and how often each counts.
struct Part {
    start: Vec<usize>,
}

/// Walks a level. `None` if the caller ended it.
fn walk(
    blocks: &Blocks,
    lost: usize,
    shift: Option<usize>,
    visits: u64,
    witnesses: usize,
    threads: usize,
    progress: &(dyn Fn(usize, u64, u64) -> bool + Sync),
) -> Option<Outcome> {
    let columns = blocks.count();
    // One part per first one or two columns: enough for every core, and in ascending order.
    let depth = lost.min(2);
    let parts: Vec<Part> = first_sets(columns, depth, usize::MAX)
        .into_iter()
        .filter(|start| shift.is_none_or(|data| start[0] == 0 || start[0] >= data))
        .map(|start| Part { start })
        .collect();
    let next = AtomicUsize::new(0);
    let done = AtomicU64::new(0);
    let ended = AtomicBool::new(false);
    let results: Mutex<Vec<(usize, Outcome)>> = Mutex::new(Vec::new());
    let work = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= parts.len() || ended.load(Ordering::Relaxed) {
                return;
            }
            let mut visitor = Visitor {
                basis: Basis::new(blocks),
                lost,
                shift,
                witnesses,
                outcome: Outcome { survived: 0, fatal: Vec::new(), fatal_count: 0 },
                unreported: 0,
                done: &done,
                visits,
                progress,
                ended: &ended,
            };
            visitor.part(&parts[i].start);
            let counted = visitor.unreported;
            done.fetch_add(counted, Ordering::Relaxed);
            let outcome = visitor.outcome;
            results.lock().unwrap_or_else(|e| e.into_inner()).push((i, outcome));
        }
    };
    std::thread::scope(|scope| {
        (1..threads.max(1)).for_each(|_| {
            scope.spawn(work);
        });
        work();
    });
    if ended.load(Ordering::Relaxed) || !progress(lost, visits, visits) {
        return None;
    }
    let mut results = results.into_inner().unwrap_or_else(|e| e.into_inner());
    results.sort_by_key(|(i, _)| *i);
    let mut sum = Outcome { survived: 0, fatal: Vec::new(), fatal_count: 0 };
    for (_, outcome) in results {
        sum.survived += outcome.survived;
        sum.fatal_count += outcome.fatal_count;
        sum.fatal.extend(outcome.fatal);
    }
    sum.fatal.sort_unstable();
    sum.fatal.truncate(witnesses);
    Some(sum)
}

struct Visitor<'v> {
    basis: Basis<'v>,
    lost: usize,
    shift: Option<usize>,
    witnesses: usize,
    outcome: Outcome,
    unreported: u64,
    done: &'v AtomicU64,
    visits: u64,
    progress: &'v (dyn Fn(usize, u64, u64) -> bool + Sync),
    ended: &'v AtomicBool,
}

impl Visitor<'_> {
    fn part(&mut self, start: &[usize]) {
        let mut set = Vec::with_capacity(self.lost);
        for &column in start {
            set.push(column);
            if !self.basis.add(column) {
                self.all_fatal(&mut set.clone(), start);
                return;
            }
        }
        self.descend(&mut set);
    }

    fn descend(&mut self, set: &mut Vec<usize>) {
        if self.ended.load(Ordering::Relaxed) {
            return;
        }
        if set.len() == self.lost {
            self.outcome.survived += self.weight(set);
            self.tick(1);
            return;
        }
        let columns = self.basis.blocks.count();
        let first = set.last().map_or(0, |c| c + 1);
        for column in first..=columns - (self.lost - set.len()) {
            let rank = self.basis.rank();
            set.push(column);
            match self.basis.add(column) {
                true => self.descend(set),
                false => self.fatal_below(set),
            }
            set.pop();
            self.basis.truncate(rank);
        }
    }

    /// Every set of the level that starts with `start`, whose own prefix `set` is already fatal.
    fn all_fatal(&mut self, set: &mut Vec<usize>, start: &[usize]) {
        set.clear();
        set.extend_from_slice(start);
        self.fatal_below(set);
    }

    /// Counts all sets of the level that start with this fatal set, and keeps witnesses.
    fn fatal_below(&mut self, set: &mut Vec<usize>) {
        let columns = self.basis.blocks.count();
        let missing = self.lost - set.len();
        let first = set.last().map_or(0, |c| c + 1);
        if missing == 0 {
            let weight = self.weight(set);
            self.outcome.fatal_count += weight;
            self.tick(1);
            self.keep(set);
            return;
        }
        if self.outcome.fatal.len() >= self.witnesses && self.shift.is_none() {
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

    /// How many sets of the level this one stands for.
    fn weight(&self, set: &[usize]) -> u64 {
        match self.shift {
            Some(data) => shifts(set, data) as u64,
            None => 1,
        }
    }

    fn keep(&mut self, set: &[usize]) {
        let data = self.shift.unwrap_or(0);
        let count = self.shift.map_or(1, |data| shifts(set, data));
        for shift in 0..count {
            if self.outcome.fatal.len() >= self.witnesses {
                return;
            }
            self.outcome.fatal.push(set.iter().map(|&c| if c < data { c + shift } else { c }).collect());
        }
    }

    fn tick(&mut self, sets: u64) {
        self.unreported += sets;
        if self.unreported >= 1 << 16 {
            let done = self.done.fetch_add(self.unreported, Ordering::Relaxed) + self.unreported;
            self.unreported = 0;
            if !(self.progress)(self.lost, done.min(self.visits), self.visits) {
                self.ended.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// The number of sets made from this one by shifting its data columns, which start at column 0 if there are any.
fn shifts(set: &[usize], data: usize) -> usize {
    set.iter().rfind(|&&c| c < data).map_or(1, |&last| data - last)
}

/// The number of sets of `lost` columns that have no data column or contain data column 0.
fn sets_with_shift(data: u64, parity: u64, lost: u64) -> u64 {
    let mut sum = choose(parity, lost);
    for of_data in 1..=lost.min(data) {
        sum =
            sum.saturating_add(choose(data - 1, of_data - 1).saturating_mul(choose(parity, lost - of_data)));
    }
    sum
}

fn sample(
    blocks: &Blocks,
    lost: usize,
    witnesses: usize,
    options: &ProveOptions,
    progress: &(dyn Fn(usize, u64, u64) -> bool + Sync),
) -> Option<Outcome> {
    let columns = blocks.count();
    let mut state = options.seed ^ (lost as u64) << 32;
    let mut outcome = Outcome { survived: 0, fatal: Vec::new(), fatal_count: 0 };
    let mut order: Vec<usize> = (0..columns).collect();
    for drawn in 0..options.sample {
        for i in 0..lost {
            let j = i + (splitmix(&mut state) % (columns - i) as u64) as usize;
            order.swap(i, j);
        }
        let mut set = order[..lost].to_vec();
        set.sort_unstable();
        let mut basis = Basis::new(blocks);
        if set.iter().all(|&column| basis.add(column)) {
            outcome.survived += 1;
        } else {
            outcome.fatal_count += 1;
            if outcome.fatal.len() < witnesses && !outcome.fatal.contains(&set) {
                outcome.fatal.push(set);
            }
        }
        if drawn % 4096 == 0 && !progress(lost, drawn, options.sample) {
            return None;
        }
    }
    outcome.fatal.sort_unstable();
    Some(outcome)
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// The upper end of the one-sided 95 % interval of a share of which `hits` of `drawn` were met.
///
/// For no hit it is 3 / drawn (exact to 0.2 %); else Wilson's score bound.
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

/// n over k, saturating.
fn choose(n: u64, k: u64) -> u64 {
    if k > n {
        return 0;
    }
    let k = k.min(n - k);
    let mut value: u128 = 1;
    for i in 0..u128::from(k) {
        value = value * (u128::from(n) - i) / (i + 1);
        if value > u128::from(u64::MAX) {
            return u64::MAX;
        }
    }
    value as u64
}
