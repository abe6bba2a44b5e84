//! One array and its sets of lost columns: the rebuild time of each, the further losses that are
//! fatal, and the probability that the rebuild needs an unreadable sector.
//!
//! Lost cells are recoverable exactly when their vectors in the equations are independent. So the
//! loss of a further column, or of a single cell, is fatal if its vectors are not independent of
//! each other and of those of the lost columns.

use super::disks::{Disks, Domains};
use pantile::code::{ColumnRole, Placement};
use pantile::gf::{Echelon, Gf};
use pantile::plan::{Planner, Request};
use pantile::{CellIndex, CellSet, Code, Costs, Effort};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, RwLock};

/// Lost columns, ascending.
pub(crate) type Columns = Box<[u16]>;

/// Lost columns, and those of them that are rebuilt.
type LostAndRebuilt = (Columns, Columns);

/// Consequences of losing one set of columns that the code tolerates.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Loss {
    fatal: Fatal,
    /// Number of other columns whose loss, too, would be fatal.
    pub fatal_count: usize,
    /// Hours to rebuild the first j of the lost columns at once, at index j - 1.
    pub hours: Vec<f64>,
    /// Probability that a rebuild needs an unreadable sector.
    pub unreadable: f64,
}

#[derive(Clone, Debug, PartialEq)]
enum Fatal {
    None,
    All,
    Some(Vec<bool>),
}

impl Loss {
    pub fn is_fatal(&self, column: usize) -> bool {
        match &self.fatal {
            Fatal::None => false,
            Fatal::All => true,
            Fatal::Some(columns) => columns[column],
        }
    }
}

/// A code on disks.
pub(crate) struct Array<'c> {
    code: &'c Code,
    /// The column on each disk, for each turn of the placement.
    turns: Vec<Vec<u16>>,
    /// Results of [`Array::beside`] by lost columns, kept if there are several turns.
    stripes: RwLock<HashMap<Columns, Arc<Beside>>>,
    /// Number of cells read from each column, by lost columns and those that are rebuilt.
    reads: RwLock<HashMap<LostAndRebuilt, Arc<Vec<usize>>>>,
    planner: Planner,
    pub disks: &'c Disks,
    /// Lost columns that are always tolerated.
    pub safe: usize,
    /// Maximum of lost columns examined; more count as a loss of data.
    pub top: usize,
    /// True if all sets of one size are alike: one row per column, any k columns determine all, and
    /// no domain contains several columns.
    pub is_alike: bool,
    /// Columns of each domain, if any domain has several; the losses of a domain with one column
    /// are those of its column.
    pub groups: Vec<Columns>,
    vectors: Vectors,
    /// Mean hours by the number of lost columns, from a sample where planning all sets would take
    /// too long.
    mean_hours: HashMap<usize, Vec<f64>>,
    known: RwLock<HashMap<Columns, Arc<Loss>>>,
}

impl<'c> Array<'c> {
    pub fn new(
        (code, placement): (&'c Code, Placement),
        disks: &'c Disks,
        safe: usize,
        top: usize,
    ) -> Array<'c> {
        let groups = groups(code, disks);
        let devices = code.columns();
        let column = |turn, device| placement.column(turn as u64, device, devices) as u16;
        let turn = |turn| (0..devices).map(|device| column(turn, device)).collect();
        let is_one_row = code.rows_max() == 1 && code.cell_count() == code.columns();
        Array {
            code,
            turns: (0..placement.turns(devices)).map(turn).collect(),
            stripes: RwLock::new(HashMap::new()),
            reads: RwLock::new(HashMap::new()),
            planner: Planner::new(code),
            disks,
            safe,
            top,
            is_alike: code.claim().mds && code.claim().tolerance == safe && is_one_row && groups.is_empty(),
            groups,
            vectors: Vectors::new(code),
            mean_hours: HashMap::new(),
            known: RwLock::new(HashMap::new()),
        }
    }

    pub fn columns(&self) -> usize {
        self.code.columns()
    }

    /// Returns the failures per hour of one working column: those of its disk, and those of its
    /// domain if no other column is in it.
    pub fn failures_per_hour(&self) -> f64 {
        let own = self.disks.domains.as_ref().filter(|_| self.groups.is_empty());
        self.disks.failures_per_hour() + own.map_or(0.0, Domains::losses_per_hour)
    }

    /// Returns the lost columns after the loss of a further domain; `None` if that is a loss of
    /// data.
    pub fn without(&self, lost: &[u16], group: &[u16]) -> Option<Vec<u16>> {
        let mut all: Vec<u16> = lost.iter().chain(group).copied().collect();
        all.sort_unstable();
        all.dedup();
        (all.len() <= self.top && self.survives(&all)).then_some(all)
    }

    /// Sets the rebuild time of every set of `lost` columns to a mean.
    pub fn take_mean_hours(&mut self, lost: usize, hours: Vec<f64>) {
        self.mean_hours.insert(lost, hours);
        self.known.get_mut().unwrap_or_else(|e| e.into_inner()).retain(|set, _| set.len() != lost);
    }

    /// Returns the consequences of losing a tolerated set, and keeps them for the next call.
    pub fn loss(&self, lost: &[u16]) -> Arc<Loss> {
        let key: Columns = match self.is_alike {
            true => (0..lost.len() as u16).collect(),
            false => lost.into(),
        };
        if let Some(known) = self.known.read().unwrap_or_else(|e| e.into_inner()).get(&key) {
            return Arc::clone(known);
        }
        let found = Arc::new(self.examine(&key));
        self.known.write().unwrap_or_else(|e| e.into_inner()).insert(key, Arc::clone(&found));
        found
    }

    /// Returns true if the code tolerates the loss of a set.
    pub fn survives(&self, lost: &[u16]) -> bool {
        let survives = |turn: &Vec<u16>| self.vectors.span(self.code, &on(turn, lost)).is_some();
        lost.len() <= self.safe || (!self.is_alike && self.turns.iter().all(survives))
    }

    /// Returns the steps, of about a nanosecond, that one set of `lost` columns takes.
    pub fn work(&self, lost: usize) -> u64 {
        let cells = self.code.cell_count() as u64;
        let of_set = cells * lost as u64 / self.columns() as u64;
        let independence = match lost < self.safe || of_set >= self.code.equations().len() as u64 {
            true => 0,
            false => 2 * cells * of_set * self.vectors.words().div_ceil(self.vectors.skipped()) as u64,
        };
        let planning = match (self.is_planned(&(0..lost as u16).collect::<Vec<_>>()), self.code.rows_max()) {
            (false, _) => 0,
            (true, 1) => 100_000,
            (true, _) => 3_000_000,
        };
        500 + (independence + planning) * self.turns.len() as u64
    }

    fn examine(&self, lost: &[u16]) -> Loss {
        let (fatal, vulnerable) = self.fatal(lost);
        let columns = self.columns();
        let fatal_count = match &fatal {
            Fatal::None => 0,
            Fatal::All => columns - lost.len(),
            Fatal::Some(fatal) => fatal.iter().filter(|&&is_fatal| is_fatal).count(),
        };
        let share = vulnerable / self.code.rows_max() as f64;
        let hours = match self.mean_hours.get(&lost.len()) {
            Some(hours) => hours.clone(),
            // With unlimited spares, all lost columns are rebuilt at once, so that only this time
            // is needed.
            None => (1..=lost.len())
                .map(|of| match of < lost.len() && self.disks.spares.is_none() {
                    true => f64::NAN,
                    false => self.hours(lost, of),
                })
                .collect(),
        };
        Loss { fatal, fatal_count, hours, unreadable: -(-share * self.disks.unreadable_per_disk()).exp_m1() }
    }

    /// Returns the disks whose loss in addition to `lost` is fatal, and the number of such cells in
    /// a stripe, as the mean over the turns.
    fn fatal(&self, lost: &[u16]) -> (Fatal, f64) {
        let is_top = lost.len() >= self.top;
        if lost.len() < self.safe {
            return (if is_top { Fatal::All } else { Fatal::None }, 0.0);
        }
        let cells: usize = lost.iter().map(|&c| self.code.rows(c.into())).sum();
        // As many unknowns as equations: any further loss is fatal.
        if self.is_alike || cells == self.code.equations().len() {
            return (Fatal::All, (self.code.cell_count() - cells) as f64);
        }
        let mut fatal = vec![false; self.columns()];
        let mut vulnerable = 0;
        for turn in &self.turns {
            let beside = self.beside(on(turn, lost));
            for (is_fatal, &column) in fatal.iter_mut().zip(turn) {
                *is_fatal |= beside.fatal[column as usize];
            }
            vulnerable += beside.vulnerable;
        }
        let vulnerable = vulnerable as f64 / self.turns.len() as f64;
        (if is_top { Fatal::All } else { Fatal::Some(fatal) }, vulnerable)
    }

    /// Returns the columns and cells of one stripe whose loss in addition to lost columns is fatal.
    fn beside(&self, lost: Columns) -> Arc<Beside> {
        known_or(&self.stripes, self.turns.len() > 1, lost, |lost| {
            let Some(mut span) = self.vectors.span(self.code, lost) else {
                unreachable!("{lost:?} may be lost: it was reached without a loss")
            };
            let is_lost = |column: &usize| lost.binary_search(&(*column as u16)).is_ok();
            let mut vulnerable = 0;
            let mut fatal = vec![false; self.columns()];
            for column in (0..self.columns()).filter(|column| !is_lost(column)) {
                let rank = span.rank();
                for cell in self.code.column_cells(column) {
                    let before = span.rank();
                    let is_independent = self.vectors.insert(&mut span, cell);
                    fatal[column] |= !is_independent;
                    // The cell can depend on earlier cells of its own column; it is then tested
                    // without them.
                    let is_alone = before == rank;
                    vulnerable += usize::from(match (is_independent, is_alone) {
                        (true, _) => false,
                        (false, true) => true,
                        (false, false) => {
                            let mut alone = span.clone();
                            alone.truncate(rank);
                            !self.vectors.insert(&mut alone, cell)
                        }
                    });
                }
                span.truncate(rank);
            }
            Beside { fatal, vulnerable }
        })
    }

    /// Returns true if reads can decide the time of a rebuild, so that a plan is needed. Writing
    /// takes longest if the sum of all reads has no limit, and no disk that is read holds more than
    /// the largest written one.
    fn is_planned(&self, lost: &[u16]) -> bool {
        let is_lost = |column: &usize| lost.binary_search(&(*column as u16)).is_ok();
        let of = |is_written: bool| {
            let columns = (0..self.columns()).filter(|c| is_lost(c) == is_written);
            columns.map(|c| self.code.rows(c)).max().unwrap_or(0)
        };
        self.disks.repair_bytes_per_s.is_some() || of(false) > of(true)
    }

    /// Returns the hours to rebuild the first `of` lost columns at once: the slowest of the disks
    /// read, the disks written, and the limit of all reads.
    fn hours(&self, lost: &[u16], of: usize) -> f64 {
        let rows_max = self.code.rows_max() as f64;
        let rebuilt: Vec<usize> = lost[..of].iter().map(|&c| c.into()).collect();
        let written = rebuilt.iter().map(|&c| self.code.rows(c)).max().unwrap_or(0);
        let write_hours = self.disks.pass_hours(written as f64 / rows_max);
        if !self.is_planned(&lost[..of]) {
            return write_hours;
        }
        let mut reads = vec![0; self.columns()];
        for turn in &self.turns {
            let of_columns = self.reads(on(turn, lost), on(turn, &lost[..of]));
            reads.iter_mut().zip(turn).for_each(|(sum, &column)| *sum += of_columns[column as usize]);
        }
        // A disk has equally many stripes of each turn.
        let stripes = self.turns.len() as f64 * rows_max;
        let most = reads.iter().max().copied().unwrap_or(0);
        let read_hours = self.disks.pass_hours(most as f64 / stripes);
        let traffic_hours = self.disks.traffic_hours(reads.iter().sum::<usize>() as f64 / stripes);
        write_hours.max(read_hours).max(traffic_hours)
    }

    /// Returns the cells read of each column to rebuild some of the lost columns of one stripe.
    fn reads(&self, lost: Columns, rebuilt: Columns) -> Arc<Vec<usize>> {
        known_or(&self.reads, self.turns.len() > 1, (lost, rebuilt), |(lost, rebuilt)| {
            let columns: Vec<usize> = lost.iter().map(|&c| c.into()).collect();
            let lost = CellSet::of_columns(self.code, &columns);
            let wanted: Vec<CellIndex> =
                rebuilt.iter().flat_map(|&c| self.code.column_cells(c.into())).collect();
            let costs = Costs::uniform();
            let request = Request { lost: &lost, wanted: &wanted, costs: &costs, effort: Effort::Fast };
            match self.planner.recover(&request) {
                Ok(plan) => plan.reads_per_column(self.code),
                Err(_) => unreachable!("{columns:?} may be lost: the equations are independent there"),
            }
        })
    }
}

/// Columns and cells whose loss in addition to lost columns is fatal.
struct Beside {
    /// True for each column whose loss, too, is a loss of data.
    fatal: Vec<bool>,
    /// Number of single cells whose loss, too, is a loss of data.
    vulnerable: usize,
}

/// Returns the columns on these disks in a turn, ascending.
fn on(turn: &[u16], disks: &[u16]) -> Columns {
    let mut columns: Columns = disks.iter().map(|&disk| turn[disk as usize]).collect();
    columns.sort_unstable();
    columns
}

/// Returns the value of a key, from the map or computed; keeps it if `keeps`.
fn known_or<K: Eq + Hash, V>(
    known: &RwLock<HashMap<K, Arc<V>>>,
    keeps: bool,
    key: K,
    find: impl FnOnce(&K) -> V,
) -> Arc<V> {
    if !keeps {
        return Arc::new(find(&key));
    }
    if let Some(known) = known.read().unwrap_or_else(|e| e.into_inner()).get(&key) {
        return Arc::clone(known);
    }
    let found = Arc::new(find(&key));
    known.write().unwrap_or_else(|e| e.into_inner()).insert(key, Arc::clone(&found));
    found
}

/// Returns the columns of each domain, if one has several: devices in turn, each with its add-on.
fn groups(code: &Code, disks: &Disks) -> Vec<Columns> {
    let Some(domains) = &disks.domains else { return Vec::new() };
    let mut device_number = vec![0; code.columns()];
    let devices = (0..code.columns()).filter(|&c| code.role(c) == ColumnRole::Device);
    devices.enumerate().for_each(|(number, column)| device_number[column] = number);
    let mut groups = vec![Vec::new(); domains.count.max(1)];
    for column in 0..code.columns() {
        let device = match code.role(column) {
            ColumnRole::Device => column,
            ColumnRole::AddOn { of } => of,
        };
        groups[device_number[device] % domains.count.max(1)].push(column as u16);
    }
    groups.retain(|group| !group.is_empty());
    match groups.iter().any(|group| group.len() > 1) {
        true => groups.into_iter().map(Vec::into_boxed_slice).collect(),
        false => Vec::new(),
    }
}

/// The vector of each cell in the equations.
enum Vectors {
    Bits(Vec<Vec<u64>>),
    Bytes(Vec<Vec<Gf>>),
}

/// A set of independent vectors.
#[derive(Clone)]
enum Span {
    Bits(Vec<(usize, Vec<u64>)>),
    Bytes(Echelon),
}

impl Vectors {
    fn new(code: &Code) -> Vectors {
        let equations = code.equations().len();
        let mut bits = vec![vec![0u64; equations.div_ceil(64)]; code.cell_count()];
        let mut bytes = vec![Vec::new(); code.cell_count()];
        if !code.is_xor() {
            bytes.iter_mut().for_each(|vector| vector.resize(equations, Gf::ZERO));
        }
        for (e, equation) in code.equations().iter().enumerate() {
            for &(cell, coefficient) in equation.terms() {
                match code.is_xor() {
                    true => bits[cell.usize()][e / 64] |= 1 << (e % 64),
                    false => bytes[cell.usize()][e] = coefficient,
                }
            }
        }
        if code.is_xor() { Vectors::Bits(bits) } else { Vectors::Bytes(bytes) }
    }

    /// Returns the machine words, or bytes, of a vector.
    fn words(&self) -> usize {
        match self {
            Vectors::Bits(vectors) => vectors.first().map_or(0, Vec::len),
            Vectors::Bytes(vectors) => vectors.first().map_or(0, Vec::len),
        }
    }

    /// Returns the factor of work saved by leaving out steps that add nothing: 8 for vectors of
    /// bytes, which are mostly zeros; 1 for bits, where the test is not worth its cost.
    fn skipped(&self) -> usize {
        match self {
            Vectors::Bits(_) => 1,
            Vectors::Bytes(_) => 8,
        }
    }

    /// Returns the span of the columns' vectors; `None` if they are not independent.
    fn span(&self, code: &Code, columns: &[u16]) -> Option<Span> {
        let mut span = match self {
            Vectors::Bits(_) => Span::Bits(Vec::new()),
            Vectors::Bytes(_) => Span::Bytes(Echelon::new(self.words())),
        };
        let mut cells = columns.iter().flat_map(|&c| code.column_cells(c.into()));
        cells.all(|cell| self.insert(&mut span, cell)).then_some(span)
    }

    /// Adds the vector of a cell; `false`, with no change, if it depends on those present.
    fn insert(&self, span: &mut Span, cell: CellIndex) -> bool {
        match (self, span) {
            (Vectors::Bits(vectors), Span::Bits(basis)) => {
                let mut rest = vectors[cell.usize()].clone();
                for (pivot, base) in basis.iter() {
                    if rest[pivot / 64] >> (pivot % 64) & 1 == 1 {
                        rest.iter_mut().zip(base).for_each(|(x, &y)| *x ^= y);
                    }
                }
                let Some(word) = rest.iter().position(|&w| w != 0) else { return false };
                basis.push((word * 64 + rest[word].trailing_zeros() as usize, rest));
                true
            }
            (Vectors::Bytes(vectors), Span::Bytes(echelon)) => echelon.insert(vectors[cell.usize()].clone()),
            _ => unreachable!("a span is of the kind of the vectors that it was made from"),
        }
    }
}

impl Span {
    fn rank(&self) -> usize {
        match self {
            Span::Bits(basis) => basis.len(),
            Span::Bytes(echelon) => echelon.rank(),
        }
    }

    fn truncate(&mut self, rank: usize) {
        match self {
            Span::Bits(basis) => basis.truncate(rank),
            Span::Bytes(echelon) => echelon.truncate(rank),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns true if the planner can recover all of these cells at once.
    fn is_recoverable(code: &Code, cells: &[CellIndex]) -> bool {
        let lost = CellSet::of_cells(code, cells);
        let wanted: Vec<CellIndex> = lost.iter().collect();
        let costs = Costs::uniform();
        let request = Request { lost: &lost, wanted: &wanted, costs: &costs, effort: Effort::Fast };
        Planner::new(code).recover(&request).is_ok()
    }

    #[test]
    fn fatal_columns_and_cells_are_those_that_no_plan_recovers() {
        let mut seen = [0; 3];
        for spec in
            ["shec:6,4,3", "lrc:6,2,2", "dcode:5", "raidp:5", "raidp:5,weighted", "raid5:3", "raid0:3"]
        {
            let code = Code::parse(spec).expect("a spec");
            let disks = Disks::default();
            let tolerance = code.claim().tolerance;
            let array = Array::new((&code, Placement::Fixed), &disks, tolerance, tolerance + 3);
            let n = code.columns() as u16;
            let sets = (0..1u32 << n.min(10)).filter(|set| (set.count_ones() as usize) <= tolerance + 1);
            for set in sets {
                let set: Vec<u16> = (0..n).filter(|c| set >> c & 1 == 1).collect();
                let cells: Vec<CellIndex> = set.iter().flat_map(|&c| code.column_cells(c.into())).collect();
                let with = |more: Vec<CellIndex>| [cells.clone(), more].concat();
                let survives = is_recoverable(&code, &cells);
                assert_eq!(array.survives(&set), survives, "{spec} {set:?}");
                if !survives {
                    continue;
                }
                let loss = array.loss(&set);
                let others: Vec<usize> =
                    (0..code.columns()).filter(|&c| !set.contains(&(c as u16))).collect();
                for &column in &others {
                    let is_fatal = !is_recoverable(&code, &with(code.column_cells(column).collect()));
                    assert_eq!(loss.is_fatal(column), is_fatal, "{spec} {set:?} and {column}");
                    seen[usize::from(is_fatal)] += 1;
                }
                let alone = others.iter().flat_map(|&c| code.column_cells(c));
                let vulnerable = alone.filter(|&cell| !is_recoverable(&code, &with(vec![cell]))).count();
                assert_eq!(array.fatal(&set).1, vulnerable as f64, "{spec} {set:?}");
                seen[2] += vulnerable;
            }
        }
        assert!(seen.iter().all(|&n| n > 100), "{seen:?}");
    }

    #[test]
    fn a_rebuild_takes_as_long_as_its_slowest_part() {
        let code = Code::parse("lrc:6,2,2").expect("a spec");
        let fast = Disks::default();
        let array = Array::new((&code, Placement::Fixed), &fast, 3, 4);
        assert_eq!(array.loss(&[0]).hours, [fast.pass_hours(1.0)]);
        // Three chunks are read for one of a group, six for a global parity.
        let limit = Disks { repair_bytes_per_s: Some(fast.bytes_per_s), ..fast.clone() };
        let array = Array::new((&code, Placement::Fixed), &limit, 3, 4);
        assert!((array.loss(&[0]).hours[0] / fast.pass_hours(3.0) - 1.0).abs() < 1e-12);
        assert!((array.loss(&[9]).hours[0] / fast.pass_hours(6.0) - 1.0).abs() < 1e-12);
        // An add-on has a fifteenth of its disk, and is rebuilt from that disk or from one mirror
        // each.
        let code = Code::parse("raidp:16").expect("a spec");
        let array = Array::new((&code, Placement::Fixed), &fast, 2, 5);
        let hours = array.loss(&[16]).hours[0];
        assert!((fast.pass_hours(1.0 / 15.0)..=fast.pass_hours(1.0)).contains(&hours), "{hours}");
    }
}
