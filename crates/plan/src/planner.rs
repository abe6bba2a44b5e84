//! Recovery plans.
//!
//! There are five solvers. None depends on the family of the code:
//!
//! 1. One row per column and a code that claims to be MDS: any k surviving cells are enough and
//!    fewer never are, so the k cheapest are exact, and only an m x m system is solved.
//! 2. Along the code's own sparse equations ([`crate::chain`]): fast at any size, few additions.
//! 3. Over all equations of the code ([`crate::dual`]): exact where its search ends within the
//!    allowed effort, as for codes of one row and small array codes.
//! 4. By an elimination over bits ([`crate::bits`]): for a code of XORs that lost as many cells as
//!    it has equations, if single equations do not yield all lost cells.
//! 5. From the rows that a code itself names, and from whole columns ([`crate::parts`]): for codes
//!    that say how parts of other columns yield a column. For these its result is the plan.
//!
//! Otherwise the cheaper result of 2 and 3 is the plan. If as many cells are lost and wanted as
//! there are equations, every plan reads the same, and nothing is searched. Then solver 2 computes
//! each cell from an equation in which no other cell is missing. If combinations are needed, solver
//! 4 makes the plan; for a code with coefficients other than 1 solver 2 does, with combinations.
//!
//! [`Planner::decode`] does not search either if a code of XORs with dense equations lost two or
//! more columns: it uses solver 4 on the first equations that are enough.

use crate::bits::{self, BitEquations, Chains};
use crate::chain::{Progress, choose, recipes};
use crate::dual::{DualSearch, Space, Word, search};
use crate::{CellSet, Combination, Costs, NotRecoverable, Optimality, Plan, PlanError, Step};
use pantile_code::{CellIndex, Code, Equation};
use pantile_gf::{Echelon, Gf, Matrix};
use std::sync::OnceLock;

/// A request for a recovery plan.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Cells that cannot be read.
    pub lost: &'a CellSet,
    /// Cells to recover or read, lost or not, each once.
    pub wanted: &'a [CellIndex],
    /// Costs of the reads.
    pub costs: &'a Costs,
    /// Effort of the search for a cheaper plan.
    pub effort: Effort,
}

/// Effort of the search for a cheaper plan. The same effort on the same request gives the same
/// plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effort {
    /// For a read path: microseconds for one-row codes, below ten milliseconds for array codes.
    Fast,
    /// For a request by a user: up to `nodes` steps of search.
    Thorough {
        /// Steps of about a microsecond; in a code of many equations and cells fewer steps are
        /// made.
        nodes: usize,
    },
}

impl Effort {
    /// An effort that gives exact plans for all one-row codes and for array codes of up to about 7
    /// columns.
    pub const THOROUGH: Effort = Effort::Thorough { nodes: 2_000_000 };

    fn nodes(self) -> usize {
        match self {
            Effort::Fast => 2_000,
            Effort::Thorough { nodes } => nodes,
        }
    }
}

/// A plan under construction. Its cost excludes the cells that every plan reads.
struct Draft {
    cost: u64,
    read: CellSet,
    steps: Vec<Step>,
}

/// The span of parity cells, as vectors over the unknown data cells.
struct ParitySpan<'p> {
    planner: &'p Planner,
    /// The indices of the unknown data cells in user order.
    unknown: Vec<usize>,
    span: Echelon,
}

impl ParitySpan<'_> {
    /// Adds a parity cell; true if it is independent of the known data and of the cells inserted
    /// before.
    fn insert(&mut self, parity: CellIndex) -> bool {
        let code = &self.planner.code;
        if self.span.rank() == self.unknown.len() {
            return false;
        }
        let Some(row) = self.planner.row_of(parity) else { return false };
        let coefficients = code.generator().row(row);
        self.span.insert(self.unknown.iter().map(|&position| coefficients[position]).collect())
    }
}

/// True if the equation has three cells or more of one column.
fn has_dense_column(code: &Code, equation: &Equation) -> bool {
    let mut columns = equation.terms().windows(3).map(|terms| [terms[0].0, terms[2].0]);
    columns.any(|[first, third]| {
        third.0 - first.0 < code.rows_max() as u32 && code.column_of(first) == code.column_of(third)
    })
}

/// Makes plans for one code.
#[derive(Clone, Debug)]
pub struct Planner {
    code: Code,
    touching: Vec<Vec<u32>>,
    is_xor: bool,
    /// True if each column has one row and any k cells determine all others.
    is_uniform: bool,
    /// True for a code of XORs with an equation that has three cells or more of one column; set
    /// when a decoder is first planned.
    is_dense: OnceLock<bool>,
    /// The steps of [`Planner::encode`], set at first use: every write is compared with them.
    encoding: OnceLock<Vec<Step>>,
    /// The equations of a code of XORs, set when a recovery first needs combinations of them.
    in_bits: OnceLock<BitEquations>,
}

impl Planner {
    /// A planner for the code. Cost: one pass over its equations.
    pub fn new(code: &Code) -> Planner {
        let mut touching = vec![Vec::new(); code.cell_count()];
        for (i, equation) in code.equations().iter().enumerate() {
            equation.terms().iter().for_each(|t| touching[t.0.usize()].push(i as u32));
        }
        Planner {
            is_dense: OnceLock::new(),
            is_uniform: code.claim().mds && code.rows_max() == 1 && code.cell_count() == code.columns(),
            is_xor: code.is_xor(),
            touching,
            encoding: OnceLock::new(),
            in_bits: OnceLock::new(),
            code: code.clone(),
        }
    }

    /// The code.
    pub fn code(&self) -> &Code {
        &self.code
    }

    pub(crate) fn is_xor(&self) -> bool {
        self.is_xor
    }

    /// For each cell, the equations that contain it.
    pub(crate) fn touching(&self) -> &[Vec<u32>] {
        &self.touching
    }

    /// Plans the recovery of the cells `wanted` without reading the cells `lost`, at the least cost
    /// that the search finds.
    ///
    /// Wanted cells that are not lost are read, unless the others yield them for less. Errors: too
    /// much is lost, or the request does not fit this code. Cost: see [`Effort`]; callers on a read
    /// path should cache plans by request.
    pub fn recover(&self, request: &Request<'_>) -> Result<Plan, PlanError> {
        self.check(request)?;
        let mut price = vec![0; self.code.cell_count()];
        for column in 0..self.code.columns() {
            let of_column = request.costs.of(column);
            self.code.column_cells(column).for_each(|cell| price[cell.usize()] = of_column);
        }
        let mut missing = Vec::with_capacity(request.wanted.len());
        missing.extend(request.wanted.iter().copied().filter(|&cell| request.lost.contains(cell)));
        let there = |cell: &CellIndex| !request.lost.contains(*cell);
        let direct: Vec<CellIndex> = request.wanted.iter().copied().filter(there).collect();
        let by_parts = self.by_parts(request, &missing, &direct, &price);
        let (read, steps, optimality) = if let Some(found) = by_parts {
            found
        } else if self.is_uniform {
            let (read, steps) = self.cheapest_k(request.wanted, &missing, &price, request.lost)?;
            (read, steps, Optimality::Exact)
        } else if direct.is_empty() && [request.lost.len(), missing.len()] == [self.code.equations().len(); 2]
        {
            let (read, steps) = self.only_way(request, &missing, &price)?;
            (read, steps, Optimality::Exact)
        } else {
            self.cheapest_known(request, missing, direct, &price)?
        };
        let mut reads = Vec::with_capacity(read.len());
        reads.extend(read.iter());
        let cost = reads.iter().map(|cell| price[cell.usize()]).sum();
        Ok(Plan { reads, steps, outputs: request.wanted.to_vec(), cost, optimality })
    }

    /// Plans the recovery of all lost cells for a caller that has all surviving cells in memory:
    /// with few additions and a short planning time.
    ///
    /// After losses of two columns or more of a code of XORs with dense equations, the plan can
    /// read more than that of [`Planner::recover`]. Otherwise it is that plan, at uniform costs
    /// with [`Effort::Fast`]. Errors: those of [`Planner::recover`]. Cost: in that case some
    /// microseconds, from 32 equations on some tens of microseconds; otherwise that of
    /// [`Planner::recover`].
    pub fn decode(&self, lost: &CellSet) -> Result<Plan, PlanError> {
        lost.check(&self.code)?;
        if let Some(plan) = self.by_first_equations(lost) {
            return Ok(plan);
        }
        let wanted: Vec<CellIndex> = lost.iter().collect();
        self.recover(&Request { lost, wanted: &wanted, costs: &Costs::uniform(), effort: Effort::Fast })
    }

    /// Solver 4 for fewer lost cells than equations, if the equations are dense.
    ///
    /// It reads as many of the first surviving parity cells as data cells are lost, and excludes
    /// the equations of all other parity cells. Then exactly one solution is left. The first
    /// equations of bit matrices are the shortest. If the code has no more than two columns of
    /// parities, all equations are used.
    ///
    /// `None` in these cases: the loss is a single column, or as many cells as there are equations;
    /// no equation has three cells of one column. It is also `None` if a parity to be left out is
    /// in several equations, or if the other equations do not determine the lost cells.
    ///
    /// With fewer lost columns than parity columns this elimination takes 2 to 35 us; the search of
    /// [`Planner::recover`] takes 36 to 5000 us (36 bit matrices, Zen 3). Decoders of two and more
    /// columns then have 3 to 37 % fewer terms and up to 4 % more reads, and take 0.77 to 1.0 of
    /// the time. For a single column the search is used, because elimination would raise its reads
    /// by 8 to 40 %.
    ///
    /// Codes with sparse equations are not decoded this way: a column would take up to 25 % fewer
    /// terms, but up to 41 % more reads and 0.96 to 1.5 of the time (evenodd:13, rdp:14,
    /// liber8tion:6).
    fn by_first_equations(&self, lost: &CellSet) -> Option<Plan> {
        let count = self.code.equations().len();
        if lost.len() >= count || lost.columns(&self.code).len() < 2 || !self.is_dense() {
            return None;
        }
        let data_lost = self.code.data().iter().filter(|&&cell| lost.contains(cell)).count();
        let mut lost_of = vec![0; count];
        let mut chains = Chains::Tried;
        if count > 2 * self.code.rows_max() {
            chains = Chains::Untried;
            let left = self.code.parity().iter().filter(|&&cell| !lost.contains(cell));
            for parity in left.skip(data_lost) {
                let &[equation] = &self.touching[parity.usize()][..] else { return None };
                lost_of[equation as usize] = bits::UNUSED;
            }
        }
        let mut wanted = Vec::with_capacity(lost.len());
        wanted.extend(lost.iter());
        let touched = wanted.iter().flat_map(|cell| &self.touching[cell.usize()]);
        touched.for_each(|&equation| lost_of[equation as usize] += 1);
        let price = vec![1; self.code.cell_count()];
        let fresh = Progress::new(&self.code, &self.touching, lost, &price, CellSet::empty(&self.code));
        let equations = self.in_bits.get_or_init(|| BitEquations::new(&self.code));
        let progress = bits::finish(fresh, equations, &self.touching, lost_of, &wanted, chains)?;
        let mut reads = Vec::with_capacity(progress.read.len());
        reads.extend(progress.read.iter());
        // Data cells are independent, so each lost data cell needs one read. A better bound would
        // take longer than the plan.
        let (cost, at_least) = (reads.len() as u64, data_lost as u64);
        let optimality = match cost == at_least {
            true => Optimality::Exact,
            false => Optimality::Bound { at_least },
        };
        Some(Plan { reads, steps: progress.steps, outputs: wanted, cost, optimality })
    }

    fn is_dense(&self) -> bool {
        let has_dense = |equation: &Equation| has_dense_column(&self.code, equation);
        *self.is_dense.get_or_init(|| self.is_xor && self.code.equations().iter().any(has_dense))
    }

    /// Returns the error of [`Planner::recover`] for a request with cells of another code, or with
    /// a cell that is wanted twice.
    pub fn check(&self, request: &Request<'_>) -> Result<(), PlanError> {
        request.lost.check(&self.code)?;
        let mut seen = CellSet::empty(&self.code);
        for &cell in request.wanted {
            self.check_cell(cell)?;
            if seen.contains(cell) {
                return Err(PlanError::WantedTwice { cell: cell.usize() });
            }
            seen.insert(cell);
        }
        Ok(())
    }

    pub(crate) fn check_cell(&self, cell: CellIndex) -> Result<(), PlanError> {
        let cells = self.code.cell_count();
        match cell.usize() < cells {
            true => Ok(()),
            false => Err(PlanError::NoSuchCell { cell: cell.usize(), cells }),
        }
    }

    /// Plans the computation of every parity cell from the data cells.
    ///
    /// The plan reads all data and has one step per parity cell. A step uses the code's own
    /// equation where possible (RDP's diagonals use its row parities), else the data alone.
    pub fn encode(&self) -> Plan {
        Plan {
            reads: CellSet::of_cells(&self.code, self.code.data()).iter().collect(),
            steps: self.encoding().to_vec(),
            outputs: self.code.parity().to_vec(),
            cost: self.code.data().len() as u64,
            optimality: Optimality::Exact,
        }
    }

    /// The steps of the encoding. Cost: computed once, in a tenth of a second for a code of
    /// thousands of cells.
    pub(crate) fn encoding(&self) -> &[Step] {
        self.encoding.get_or_init(|| self.make_encoding())
    }

    fn make_encoding(&self) -> Vec<Step> {
        let lost = CellSet::of_cells(&self.code, self.code.parity());
        let read = CellSet::of_cells(&self.code, self.code.data());
        let price = vec![0; self.code.cell_count()];
        let mut progress = Progress::new(&self.code, &self.touching, &lost, &price, read);
        progress.peel(self.code.parity());
        for (row, &parity) in self.code.parity().iter().enumerate() {
            if !progress.made.contains(parity) {
                progress.take(parity, self.generator_terms(row));
            }
        }
        progress.steps
    }

    /// Returns the row of a parity cell in the generator.
    fn row_of(&self, parity: CellIndex) -> Option<usize> {
        self.code.parity().iter().position(|&p| p == parity)
    }

    /// Returns one parity cell as a combination of data cells, from the generator.
    pub(crate) fn generator_terms(&self, row: usize) -> Combination {
        let coefficients = self.code.generator().row(row);
        let mut terms: Combination = self
            .code
            .data()
            .iter()
            .zip(coefficients)
            .filter(|(_, c)| !c.is_zero())
            .map(|(&cell, &c)| (cell, c))
            .collect();
        terms.sort_unstable_by_key(|t| t.0);
        terms
    }

    /// Solver 1: the wanted cells themselves, or any k cells.
    fn cheapest_k(
        &self,
        wanted: &[CellIndex],
        missing: &[CellIndex],
        price: &[u64],
        avoided: &CellSet,
    ) -> Result<(CellSet, Vec<Step>), NotRecoverable> {
        let k = self.code.data().len();
        let mut order: Vec<CellIndex> = self.code.cells().filter(|&cell| !avoided.contains(cell)).collect();
        order.sort_by_key(|cell| price[cell.usize()]);
        let cost = |cells: &[CellIndex]| cells.iter().map(|c| price[c.usize()]).sum::<u64>();
        if missing.is_empty() && (order.len() < k || cost(wanted) <= cost(&order[..k])) {
            return Ok((CellSet::of_cells(&self.code, wanted), Vec::new()));
        }
        if order.len() < k {
            let rank = self.code.equations().len().min(avoided.len());
            return Err(NotRecoverable::new(&self.code, avoided, missing.to_vec(), rank));
        }
        let read = CellSet::of_cells(&self.code, &order[..k]);
        let unread: Vec<usize> =
            (0..k).filter(|&position| !read.contains(self.code.data()[position])).collect();
        let rows: Vec<usize> =
            (0..self.code.parity().len()).filter(|&r| read.contains(self.code.parity()[r])).collect();
        let generator = self.code.generator();
        let system = Matrix::from_fn(rows.len(), unread.len(), |r, c| generator.get(rows[r], unread[c]));
        let Some(inverse) = system.inverse() else {
            unreachable!("{} claims to be MDS and is not; claims are held by the law suite", self.code)
        };
        // Each unread data cell as a combination of the cells that are read: inverse * (parity +
        // generator * data read).
        let mut expressions = Matrix::zero(unread.len(), self.code.cell_count());
        for u in 0..unread.len() {
            for (i, &row) in rows.iter().enumerate() {
                let factor = inverse.get(u, i);
                expressions.set(u, self.code.parity()[row].usize(), factor);
                for (position, &cell) in self.code.data().iter().enumerate() {
                    if read.contains(cell) {
                        let value = expressions.get(u, cell.usize()) + factor * generator.get(row, position);
                        expressions.set(u, cell.usize(), value);
                    }
                }
            }
        }
        let place = |cell: CellIndex| self.code.parity().iter().position(|&p| p == cell);
        let steps = wanted
            .iter()
            .filter(|&&cell| !read.contains(cell))
            .map(|&target| {
                let mut sum = vec![Gf::ZERO; self.code.cell_count()];
                let mut add = |row: &[Gf], factor: Gf| {
                    sum.iter_mut().zip(row).for_each(|(x, &y)| *x += factor * y);
                };
                match (self.code.data_position(target), place(target)) {
                    (Some(position), _) => {
                        let u = unread.iter().position(|&p| p == position);
                        u.into_iter().for_each(|u| add(expressions.row(u), Gf::ONE));
                    }
                    (None, Some(row)) => {
                        for (u, &position) in unread.iter().enumerate() {
                            add(expressions.row(u), generator.get(row, position));
                        }
                        for (position, &cell) in self.code.data().iter().enumerate() {
                            if read.contains(cell) {
                                sum[cell.usize()] += generator.get(row, position);
                            }
                        }
                    }
                    (None, None) => unreachable!("a cell is data or parity"),
                }
                let terms = sum
                    .iter()
                    .enumerate()
                    .filter(|(_, c)| !c.is_zero())
                    .map(|(cell, &c)| (CellIndex(cell as u32), c))
                    .collect();
                Step { target, terms }
            })
            .collect();
        Ok((read, steps))
    }

    /// Solvers 2 and 4 for as many lost cells as equations, if all lost cells are wanted.
    ///
    /// Every plan reads the same cells: all survivors that occur in an equation. If the lost cells
    /// are determined, there are as many survivors as data cells, and the survivors can have any
    /// content. If one survivor in an equation changes alone, some lost cell must change with it,
    /// so a plan has to read that survivor. A survivor that occurs in no equation is read by no
    /// plan.
    fn only_way(
        &self,
        request: &Request<'_>,
        missing: &[CellIndex],
        price: &[u64],
    ) -> Result<(CellSet, Vec<Step>), NotRecoverable> {
        let nothing = CellSet::empty(&self.code);
        let fresh = || Progress::new(&self.code, &self.touching, request.lost, price, nothing.clone());
        let mut lost_of = vec![0; self.code.equations().len()];
        let touched = missing.iter().flat_map(|cell| &self.touching[cell.usize()]);
        touched.for_each(|&equation| lost_of[equation as usize] += 1);
        let mut progress = fresh();
        if lost_of.contains(&1) && progress.peel_all(missing, &mut lost_of.clone()) {
            return Ok((progress.read, progress.steps));
        }
        let by_bits = self.is_xor.then(|| {
            let equations = self.in_bits.get_or_init(|| BitEquations::new(&self.code));
            bits::finish(fresh(), equations, &self.touching, lost_of, missing, Chains::Tried)
        });
        if let Some(progress) = by_bits.flatten() {
            return Ok((progress.read, progress.steps));
        }
        let mut progress = fresh();
        self.combine_and_peel(&mut progress, missing, missing)?;
        Ok((progress.read, progress.steps))
    }

    /// Runs solvers 2 and 3, and returns the cheaper plan.
    ///
    /// Wanted cells that survive and cost no more than any other cell are always read: in each set
    /// that yields such a cell, another cell can be replaced by it at no higher cost. Only an
    /// independent set of such cells is read; the others are computed from it. Wanted cells on more
    /// expensive columns may be read or computed.
    fn cheapest_known(
        &self,
        request: &Request<'_>,
        mut missing: Vec<CellIndex>,
        direct: Vec<CellIndex>,
        price: &[u64],
    ) -> Result<(CellSet, Vec<Step>, Optimality), NotRecoverable> {
        let least = price.iter().copied().min().unwrap_or(0);
        let (cheap, dear): (Vec<CellIndex>, Vec<CellIndex>) =
            direct.into_iter().partition(|cell| price[cell.usize()] == least);
        let (certain, derived) = self.independent(cheap);
        let certain = CellSet::of_cells(&self.code, &certain);
        let mut unread = request.lost.clone();
        derived.iter().for_each(|&cell| unread.insert(cell));
        // Each of these cells is computed from the certain reads alone, whatever else is lost.
        let derived_count = derived.len();
        missing.extend(derived);
        if missing.is_empty() && dear.is_empty() {
            return Ok((certain, Vec::new(), Optimality::Exact));
        }
        let mut open: Vec<u64> = price.to_vec();
        certain.iter().for_each(|cell| open[cell.usize()] = 0);
        let paid: u64 = certain.iter().map(|cell| price[cell.usize()]).sum();

        let first = self.around(&[], &dear, &missing, &open, &unread, &certain);
        let mut best = first.map_err(|error| {
            let rank = error.rank - derived_count;
            NotRecoverable::new(&self.code, request.lost, error.unrecoverable, rank)
        })?;
        let mut columns: Vec<usize> = dear.iter().map(|&cell| self.code.column_of(cell)).collect();
        columns.sort_unstable();
        columns.dedup();
        let each = columns.iter().map(std::slice::from_ref);
        for avoided in each.chain((columns.len() > 1).then_some(&columns[..])) {
            match self.around(avoided, &dear, &missing, &open, &unread, &certain) {
                Ok(other) if other.cost < best.cost => best = other,
                _ => {}
            }
        }
        let lost: Vec<CellIndex> = unread.iter().collect();
        let (found, at_least) = if self.is_xor {
            self.over_all::<u64>(request.effort, &missing, &dear, &open, &lost, best.cost)
        } else {
            self.over_all::<Gf>(request.effort, &missing, &dear, &open, &lost, best.cost)
        };
        let at_least = match at_least < best.cost {
            true => at_least.max(self.rank_bound(&missing, &certain, &open, &unread)),
            false => at_least,
        };
        let mut complete = best.cost <= at_least;
        if let Some((combinations, all)) = found {
            best = self.adopt(combinations, &dear, &certain, &open);
            complete = all || best.cost <= at_least;
        }
        let optimality = match complete {
            true => Optimality::Exact,
            false => Optimality::Bound { at_least: at_least + paid },
        };
        Ok((best.read, best.steps, optimality))
    }

    /// Splits cells into a largest independent set, data before parity, and the cells that it
    /// determines.
    fn independent(&self, cells: Vec<CellIndex>) -> (Vec<CellIndex>, Vec<CellIndex>) {
        let (mut chosen, parity): (Vec<CellIndex>, Vec<CellIndex>) =
            cells.into_iter().partition(|&cell| !self.code.is_parity(cell));
        let mut span = self.span_beside(&chosen);
        let (more, derived): (Vec<CellIndex>, Vec<CellIndex>) =
            parity.into_iter().partition(|&cell| span.insert(cell));
        chosen.extend(more);
        (chosen, derived)
    }

    /// Returns an empty span of parity cells over the data cells other than `data`.
    fn span_beside(&self, data: &[CellIndex]) -> ParitySpan<'_> {
        let known = CellSet::of_cells(&self.code, data);
        let unknown: Vec<usize> =
            (0..self.code.data().len()).filter(|&p| !known.contains(self.code.data()[p])).collect();
        ParitySpan { planner: self, span: Echelon::new(unknown.len()), unknown }
    }

    /// Returns the rank of these cells: the size of a largest independent set of them.
    fn rank(&self, cells: impl Iterator<Item = CellIndex>) -> usize {
        let (chosen, _) = self.independent(cells.collect());
        chosen.len()
    }

    /// Returns a lower bound on the cost of the missing cells. It counts one read at the least
    /// price for each cell that is independent of the others and of the certain reads.
    fn rank_bound(&self, missing: &[CellIndex], certain: &CellSet, open: &[u64], unread: &CellSet) -> u64 {
        let least = self
            .code
            .cells()
            .filter(|&cell| !unread.contains(cell) && !certain.contains(cell))
            .map(|cell| open[cell.usize()])
            .min()
            .unwrap_or(0);
        // The certain reads were chosen to be independent.
        let all = self.rank(certain.iter().chain(missing.iter().copied()));
        (all - certain.len()) as u64 * least
    }

    /// Solver 2 where the cells in `dear` are read, except for those on the avoided columns, which
    /// are computed.
    fn around(
        &self,
        avoided: &[usize],
        dear: &[CellIndex],
        missing: &[CellIndex],
        open: &[u64],
        unread: &CellSet,
        certain: &CellSet,
    ) -> Result<Draft, NotRecoverable> {
        let (mut missing, mut unread, mut read) = (missing.to_vec(), unread.clone(), certain.clone());
        let mut price = open.to_vec();
        let mut paid = 0;
        for &cell in dear {
            if !avoided.contains(&self.code.column_of(cell)) {
                read.insert(cell);
                paid += std::mem::take(&mut price[cell.usize()]);
            }
        }
        if !avoided.is_empty() {
            CellSet::of_columns(&self.code, avoided).iter().for_each(|cell| unread.insert(cell));
            missing.extend(dear.iter().filter(|cell| !read.contains(**cell)));
        }
        let lost: Vec<CellIndex> = unread.iter().collect();
        let chain = self.along_equations(&missing, &price, &unread, &read, &lost)?;
        Ok(Draft { cost: chain.cost() + paid, read: chain.read, steps: chain.steps })
    }

    /// Converts a solution of solver 3 to a plan.
    fn adopt(
        &self,
        combinations: Vec<(CellIndex, Combination)>,
        dear: &[CellIndex],
        certain: &CellSet,
        open: &[u64],
    ) -> Draft {
        let mut read = certain.clone();
        combinations.iter().flat_map(|c| &c.1).for_each(|t| read.insert(t.0));
        let cells = self.code.cell_count();
        let steps = combinations
            .into_iter()
            .map(|(target, terms)| match target.usize().checked_sub(cells) {
                Some(copy) => Step { target: dear[copy], terms },
                None => Step { target, terms },
            })
            .filter(|step| !read.contains(step.target))
            .collect();
        Draft { cost: read.iter().map(|cell| open[cell.usize()]).sum(), read, steps }
    }

    /// Solver 3. Returns a solution that costs less than the limit, if there is one, and a lower
    /// bound on the cost.
    #[allow(clippy::type_complexity)]
    fn over_all<W: Word>(
        &self,
        effort: Effort,
        missing: &[CellIndex],
        dear: &[CellIndex],
        price: &[u64],
        lost: &[CellIndex],
        limit: u64,
    ) -> (Option<(Vec<(CellIndex, Combination)>, bool)>, u64) {
        // Each level of the search stores a copy of the space. Above this size it would take much
        // memory and find little, so the plan of solver 2 is used.
        const WORDS_MOST: usize = 1 << 14;
        let words = self.code.equations().len() * self.code.cell_count().div_ceil(W::CELLS);
        // A step in a larger space takes longer, and the effort limits the time: fewer steps are
        // allowed.
        let nodes = effort.nodes().saturating_mul(64) / words.max(64);
        if words > WORDS_MOST || limit == 0 {
            return (None, 0);
        }
        let Ok(space) = Space::<W>::new(&self.code, lost, missing, dear) else {
            return (None, 0);
        };
        let mut open = price.to_vec();
        open.resize(price.len() + dear.len(), 0);
        if space.freedom() == 0 {
            let DualSearch { forced, .. } = search(space, &open, 0, 1);
            return (None, forced);
        }
        let cut = match effort {
            Effort::Thorough { .. } if dear.is_empty() => self.cut_bound(missing, price, lost),
            _ => 0,
        };
        let DualSearch { best, complete, forced } = search(space, &open, limit, nodes);
        let floor = forced.max(cut);
        match best {
            Some(space) => (Some((space.combinations(), complete)), floor),
            None if complete => (None, limit),
            None => (None, floor),
        }
    }

    /// Solver 2.
    fn along_equations<'c>(
        &'c self,
        missing: &[CellIndex],
        price: &'c [u64],
        avoided: &'c CellSet,
        direct: &CellSet,
        lost: &[CellIndex],
    ) -> Result<Progress<'c>, NotRecoverable> {
        const CHOICES: usize = 20_000;
        let fresh = || Progress::new(&self.code, &self.touching, avoided, price, direct.clone());
        let mut progress = fresh();
        self.combine_and_peel(&mut progress, missing, lost)?;
        if let Some(recipes) = recipes(&self.code, &self.touching, avoided, missing) {
            let pick = choose(&self.code, &recipes, price, direct, CHOICES);
            let mut chosen = fresh();
            for ((&target, recipes), pick) in missing.iter().zip(recipes).zip(pick) {
                chosen.take(target, recipes[pick].clone());
            }
            if chosen.cost() < progress.cost() {
                return Ok(chosen);
            }
        }
        Ok(progress)
    }

    /// Computes the missing cells from single equations, and from combinations where no single
    /// equation helps.
    fn combine_and_peel(
        &self,
        progress: &mut Progress<'_>,
        missing: &[CellIndex],
        lost: &[CellIndex],
    ) -> Result<(), NotRecoverable> {
        loop {
            let rest = progress.peel(missing);
            if rest.is_empty() {
                return Ok(());
            }
            for (target, terms) in self.combinations(&rest, lost, progress)? {
                progress.take(target, terms);
            }
        }
    }

    /// Returns combinations of equations for cells that no single equation yields. It is only the
    /// shortest one, after which single equations may help again; for a large code, where each
    /// elimination takes long, it is all of them.
    fn combinations(
        &self,
        rest: &[CellIndex],
        lost: &[CellIndex],
        progress: &Progress<'_>,
    ) -> Result<Vec<(CellIndex, Combination)>, NotRecoverable> {
        const SYMBOLS_MOST: usize = 1 << 22;
        let is_large = self.code.equations().len() * self.code.cell_count() > SYMBOLS_MOST;
        let unknown: Vec<CellIndex> =
            lost.iter().copied().filter(|&cell| !progress.made.contains(cell)).collect();
        fn of<W: Word>(space: Space<W>, all: bool) -> Vec<(CellIndex, Combination)> {
            if all { space.combinations() } else { space.shortest().into_iter().collect() }
        }
        let combinations = if self.is_xor {
            Space::<u64>::new(&self.code, &unknown, rest, &[]).map(|space| of(space, is_large))
        } else {
            Space::<Gf>::new(&self.code, &unknown, rest, &[]).map(|space| of(space, is_large))
        };
        match combinations {
            Ok(found) => Ok(found),
            Err((unrecoverable, rank)) => {
                let rank = rank + progress.made.len();
                Err(NotRecoverable::new(&self.code, progress.lost, unrecoverable, rank))
            }
        }
    }

    /// The cut-set bound on the cost: the part that a group of columns must supply because the
    /// others do not.
    ///
    /// If the survivors outside a pair of columns leave u of the missing cells undetermined, at
    /// least u cells of the pair are read. Each column is in equally many pairs, so on average over
    /// all pairs the reads cost at least sum(u * cheapest of the pair) / (columns - 1), and
    /// likewise for single columns.
    fn cut_bound(&self, missing: &[CellIndex], price: &[u64], lost: &[CellIndex]) -> u64 {
        let gone = CellSet::of_cells(&self.code, lost);
        let columns: Vec<usize> = (0..self.code.columns())
            .filter(|&c| self.code.column_cells(c).any(|cell| !gone.contains(cell)))
            .collect();
        // Above this size the eliminations would take longer than the bound is worth.
        if columns.len() > 40 || self.code.cell_count() > 1200 {
            return 0;
        }
        let undetermined = |group: &[usize]| -> u64 {
            let mut all = gone.clone();
            CellSet::of_columns(&self.code, group).iter().for_each(|cell| all.insert(cell));
            let unwanted: Vec<CellIndex> = all.iter().filter(|cell| !missing.contains(cell)).collect();
            let known = if self.is_xor {
                Space::<u64>::determined(&self.code, &unwanted, missing)
            } else {
                Space::<Gf>::determined(&self.code, &unwanted, missing)
            };
            let cheapest = CellSet::of_columns(&self.code, group)
                .iter()
                .filter(|&cell| !gone.contains(cell))
                .map(|cell| price[cell.usize()])
                .min()
                .unwrap_or(0);
            (missing.len() - known) as u64 * cheapest
        };
        let single: u64 = columns.iter().map(|&c| undetermined(&[c])).sum();
        let mut pairs = 0;
        for (i, &a) in columns.iter().enumerate() {
            for &b in &columns[i + 1..] {
                pairs += undetermined(&[a, b]);
            }
        }
        single.max(pairs.div_ceil(columns.len().saturating_sub(1).max(1) as u64))
    }
}
