//! Recovery from parts of columns, which the construction of a code names
//! ([`pantile_code::PartialRepair`]), or from whole columns of such a code.
//!
//! Codes that couple the planes of their columns (Clay) repair one column from a few rows of each
//! of the others. No search over hundreds of coupled equations finds these rows, so the code names
//! them. The named rows are only a hint. The plan comes from an elimination over the equations of
//! these rows; if they do not yield the wanted cells, this solver has no plan.
//!
//! Three ways are tried, and the cheapest is the plan:
//!
//! * single equations that lack one cell: for a few lost cells;
//! * the rows that the code names, in the cheapest columns that it allows: for lost cells of one
//!   column;
//! * any k whole columns of a code that claims to be MDS: for lost cells of several columns.
//!
//! The lower bound is the cut-set bound. In an MDS code, k - 1 - j whole columns leave 1 + j of the
//! wanted columns undetermined. So any n - (k - 1 - j) of n columns must supply that part.

use crate::chain::Progress;
use crate::dual::Space;
use crate::{CellSet, Combination, Optimality, Planner, Request, Step};
use pantile_code::{CellIndex, Equation};
use pantile_gf::Gf;

/// Reads of a recovery, and the steps from them to the missing cells.
struct PartRecovery {
    cost: u64,
    read: CellSet,
    steps: Vec<Step>,
}

impl Planner {
    /// Solver 5. `None` if the code names no parts, or if neither these nor whole columns yield all
    /// missing cells.
    ///
    /// Cost: eliminations over the equations of the named rows; over all equations where whole
    /// columns are read.
    pub(crate) fn by_parts(
        &self,
        request: &Request<'_>,
        missing: &[CellIndex],
        direct: &[CellIndex],
        price: &[u64],
    ) -> Option<(CellSet, Vec<Step>, Optimality)> {
        let code = self.code();
        if missing.is_empty() || (0..code.columns()).all(|column| code.partial_repair(column).is_none()) {
            return None;
        }
        let direct = CellSet::of_cells(code, direct);
        let mut best = self.by_single_equations(request, missing, &direct, price);
        if let &[column] = &CellSet::of_cells(code, missing).columns(code)[..] {
            best = cheaper(best, self.by_named_rows(request, column, missing, &direct, price));
        }
        let at_least = self.cut_of_mds(request, missing, price);
        if best.as_ref().is_none_or(|best| best.cost > at_least) {
            best = cheaper(best, self.by_whole_columns(request, missing, &direct, price));
        }
        let best = best?;
        let optimality = match best.cost <= at_least {
            true => Optimality::Exact,
            false => Optimality::Bound { at_least },
        };
        Some((best.read, best.steps, optimality))
    }

    fn by_single_equations(
        &self,
        request: &Request<'_>,
        missing: &[CellIndex],
        direct: &CellSet,
        price: &[u64],
    ) -> Option<PartRecovery> {
        let mut progress = Progress::new(self.code(), self.touching(), request.lost, price, direct.clone());
        let rest = progress.peel(missing);
        rest.is_empty().then(|| PartRecovery {
            cost: progress.cost(),
            read: progress.read,
            steps: progress.steps,
        })
    }

    fn by_named_rows(
        &self,
        request: &Request<'_>,
        column: usize,
        missing: &[CellIndex],
        direct: &CellSet,
        price: &[u64],
    ) -> Option<PartRecovery> {
        let code = self.code();
        let named = code.partial_repair(column)?;
        let mut is_row = vec![false; code.rows_max()];
        named.rows.iter().for_each(|&row| is_row[row] = true);
        let of_rows =
            |of: usize| code.column_cells(of).zip(&is_row).filter(|(_, is)| **is).map(|(cell, _)| cell);
        let mut helpers: Vec<usize> = (0..code.columns())
            .filter(|&of| of != column && of_rows(of).all(|cell| !request.lost.contains(cell)))
            .collect();
        let costs = |of: usize| -> u64 {
            of_rows(of).filter(|&cell| !direct.contains(cell)).map(|cell| price[cell.usize()]).sum()
        };
        helpers.sort_by_key(|&of| (!named.among.contains(&of), costs(of), of));
        helpers.truncate(named.helpers);
        if helpers.len() < named.helpers || !named.among.iter().all(|of| helpers.contains(of)) {
            return None;
        }
        let is_of = |cell: CellIndex| {
            let cell = code.cell(cell);
            cell.column == column || is_row[cell.row]
        };
        let inside = code.equations().iter().filter(|e| e.terms().iter().all(|term| is_of(term.0)));
        let others = (0..code.columns()).filter(|of| *of != column && !helpers.contains(of));
        let unread: Vec<CellIndex> = code.column_cells(column).chain(others.flat_map(of_rows)).collect();
        self.by_elimination(inside, &unread, missing, direct, price)
    }

    fn by_whole_columns(
        &self,
        request: &Request<'_>,
        missing: &[CellIndex],
        direct: &CellSet,
        price: &[u64],
    ) -> Option<PartRecovery> {
        let code = self.code();
        let k = code.columns().checked_sub(code.claim().tolerance).filter(|_| code.claim().mds)?;
        let costs = |of: usize| -> u64 {
            code.column_cells(of).filter(|&cell| !direct.contains(cell)).map(|cell| price[cell.usize()]).sum()
        };
        let mut there: Vec<usize> = (0..code.columns())
            .filter(|&of| code.column_cells(of).all(|cell| !request.lost.contains(cell)))
            .collect();
        there.sort_by_key(|&of| (costs(of), of));
        there.truncate(k);
        if there.len() < k {
            return None;
        }
        let others = (0..code.columns()).filter(|of| !there.contains(of));
        let unread: Vec<CellIndex> = others.flat_map(|of| code.column_cells(of)).collect();
        self.by_elimination(code.equations().iter(), &unread, missing, direct, price)
    }

    /// Computes the missing cells from these equations, without the cells in `unread`.
    fn by_elimination<'e>(
        &self,
        equations: impl Iterator<Item = &'e Equation>,
        unread: &[CellIndex],
        missing: &[CellIndex],
        direct: &CellSet,
        price: &[u64],
    ) -> Option<PartRecovery> {
        let equations: Vec<&Equation> = equations.collect();
        let found = match self.is_xor() {
            true => {
                Space::<u64>::over(self.code(), &equations, unread, missing, &[]).map(|s| s.combinations())
            }
            false => {
                Space::<Gf>::over(self.code(), &equations, unread, missing, &[]).map(|s| s.combinations())
            }
        };
        let found: Vec<(CellIndex, Combination)> = found.ok()?;
        let mut read = direct.clone();
        found.iter().flat_map(|(_, terms)| terms).for_each(|term| read.insert(term.0));
        let cost = read.iter().map(|cell| price[cell.usize()]).sum();
        let steps = found.into_iter().map(|(target, terms)| Step { target, terms }).collect();
        Some(PartRecovery { cost, read, steps })
    }

    /// Returns the least cost of whole lost columns of an MDS code.
    fn cut_of_mds(&self, request: &Request<'_>, missing: &[CellIndex], price: &[u64]) -> u64 {
        let code = self.code();
        if !code.claim().mds {
            return 0;
        }
        let rows = code.rows_max();
        let gone = |of: usize| code.column_cells(of).all(|cell| request.lost.contains(cell));
        let missing = CellSet::of_cells(code, missing);
        let whole = |of: &usize| code.column_cells(*of).all(|cell| missing.contains(cell));
        let wanted = (0..code.columns()).filter(whole).count();
        let left: Vec<usize> = (0..code.columns()).filter(|&of| !gone(of)).collect();
        let k = code.columns() - code.claim().tolerance;
        let cells = left.iter().flat_map(|&of| code.column_cells(of));
        let least = cells.filter(|&cell| !request.lost.contains(cell)).map(|cell| price[cell.usize()]).min();
        let open = (1..=wanted.min(k)).map(|open| {
            let group = (left.len() + open).saturating_sub(k).max(1);
            (open * rows * left.len()).div_ceil(group)
        });
        open.max().unwrap_or(0) as u64 * least.unwrap_or(0)
    }
}

fn cheaper(best: Option<PartRecovery>, other: Option<PartRecovery>) -> Option<PartRecovery> {
    match (best, other) {
        (Some(best), Some(other)) if other.cost < best.cost => Some(other),
        (best, other) => best.or(other),
    }
}
