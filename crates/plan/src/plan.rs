//! A plan: the cells to read, and the sum that yields each output.

use crate::{CellSet, Costs};
use pantile_code::{CellIndex, Code};
use pantile_gf::Gf;
use std::fmt;

/// A sum of coefficient times cell: no coefficient is zero, no cell occurs twice.
pub type Combination = Vec<(CellIndex, Gf)>;

/// One combination: target = sum of coefficient * cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The cell that is computed.
    pub target: CellIndex,
    /// The sum, over cells that are read or computed by an earlier step.
    pub terms: Combination,
}

/// Quality of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Optimality {
    /// No plan of any form costs less.
    Exact,
    /// The search ended at its limit of effort; no plan can cost less than this.
    Bound {
        /// A proven lower bound on the cost.
        at_least: u64,
    },
}

/// Cells to read, and the steps that compute the wanted cells from them.
///
/// Invariants: reads are ascending and never lost; each step uses only cells read or computed by an
/// earlier step; every output is read or computed. Units: cells; valid for any element length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The cells to read, ascending.
    pub reads: Vec<CellIndex>,
    /// The combinations, in an order in which they can be computed.
    pub steps: Vec<Step>,
    /// The wanted cells, in the order of the request.
    pub outputs: Vec<CellIndex>,
    /// The sum of the costs of the reads.
    pub cost: u64,
    /// Quality of the cost.
    pub optimality: Optimality,
}

impl Plan {
    /// The number of cells read from each column.
    pub fn reads_per_column(&self, code: &Code) -> Vec<usize> {
        let mut reads = vec![0; code.columns()];
        self.reads.iter().for_each(|&cell| reads[code.column_of(cell)] += 1);
        reads
    }

    /// The number of additions of one element to another (XORs, in a code whose coefficients are
    /// all 1).
    pub fn additions(&self) -> usize {
        self.steps.iter().map(|step| step.terms.len().saturating_sub(1)).sum()
    }

    /// The number of multiplications of an element by a coefficient other than 1.
    pub fn multiplications(&self) -> usize {
        self.steps.iter().flat_map(|step| &step.terms).filter(|(_, c)| *c != Gf::ONE).count()
    }

    /// True if the plan keeps its invariants and every step follows from the equations of the code.
    ///
    /// Cost: every step is expanded to the data cells through the generator. Meant for tests and
    /// for `explain`..
    pub fn is_sound(&self, code: &Code, lost: &CellSet) -> bool {
        let generator = code.generator();
        let mut row_of = vec![usize::MAX; code.cell_count()];
        code.parity().iter().enumerate().for_each(|(i, p)| row_of[p.usize()] = i);
        let expand = |sum: &mut [Gf], cell: CellIndex, factor: Gf| match code.data_position(cell) {
            Some(position) => sum[position] += factor,
            None => {
                let row = generator.row(row_of[cell.usize()]);
                sum.iter_mut().zip(row).for_each(|(x, &y)| *x += factor * y);
            }
        };
        let mut known = CellSet::empty(code);
        for &cell in &self.reads {
            if lost.contains(cell) || known.contains(cell) {
                return false;
            }
            known.insert(cell);
        }
        for step in &self.steps {
            let mut sum = vec![Gf::ZERO; code.data().len()];
            expand(&mut sum, step.target, Gf::ONE);
            for &(cell, coefficient) in &step.terms {
                if !known.contains(cell) || coefficient.is_zero() {
                    return false;
                }
                expand(&mut sum, cell, coefficient);
            }
            if known.contains(step.target) || sum.iter().any(|x| !x.is_zero()) {
                return false;
            }
            known.insert(step.target);
        }
        self.reads.is_sorted() && self.outputs.iter().all(|&cell| known.contains(cell))
    }

    /// The cost of a set of reads.
    pub(crate) fn cost_of(code: &Code, costs: &Costs, reads: impl Iterator<Item = CellIndex>) -> u64 {
        reads.map(|cell| costs.of(code.column_of(cell))).sum()
    }
}

/// An error: the wanted cells cannot be computed from the surviving cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotRecoverable {
    /// The lost cells.
    pub lost: CellSet,
    /// The columns that have lost cells, ascending.
    pub columns: Vec<usize>,
    /// The tolerance that the code claims.
    pub tolerance: usize,
    /// Wanted cells that cannot be computed.
    pub unrecoverable: Vec<CellIndex>,
    /// The number of lost cells that the equations can determine.
    pub rank: usize,
}

impl NotRecoverable {
    pub(crate) fn new(
        code: &Code,
        lost: &CellSet,
        unrecoverable: Vec<CellIndex>,
        rank: usize,
    ) -> NotRecoverable {
        let (columns, tolerance) = (lost.columns(code), code.claim().tolerance);
        NotRecoverable { lost: lost.clone(), columns, tolerance, unrecoverable, rank }
    }
}

impl fmt::Display for NotRecoverable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} of the wanted cells do not follow from what is left: ", self.unrecoverable.len())?;
        write_columns(out, &self.columns)?;
        write!(
            out,
            " lost cells ({} in all), and the equations left determine {} of them; ",
            self.lost.len(),
            self.rank
        )?;
        match self.tolerance {
            0 => write!(out, "not any one column of this code may be lost")?,
            1 => write!(out, "any 1 column of this code may be lost")?,
            most => write!(out, "any {most} columns of this code may be lost")?,
        }
        write!(out, ", and 'pantile prove' shows which sets besides")
    }
}

/// Writes for example "columns 0, 2 and 5 have"; of many columns only the first few.
fn write_columns(out: &mut fmt::Formatter<'_>, columns: &[usize]) -> fmt::Result {
    const NAMED: usize = 12;
    match columns {
        [] => write!(out, "no column has"),
        [one] => write!(out, "column {one} has"),
        [most @ .., last] => {
            let named: Vec<String> = most.iter().take(NAMED).map(usize::to_string).collect();
            write!(out, "columns {}", named.join(", "))?;
            match columns.len() - named.len() {
                1 => write!(out, " and {last} have"),
                more => write!(out, " and {more} more have"),
            }
        }
    }
}

impl std::error::Error for NotRecoverable {}

/// Reason why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// Too much is lost.
    NotRecoverable(NotRecoverable),
    /// A set of cells was made for another code.
    OtherCode {
        /// The number of cells of the set's code.
        have: usize,
        /// The number of cells of the planner's code.
        need: usize,
    },
    /// The code lacks a cell.
    NoSuchCell {
        /// The cell that was named.
        cell: usize,
        /// The number of cells of the code.
        cells: usize,
    },
    /// The code lacks a column.
    NoSuchColumn {
        /// The column that was named.
        column: usize,
        /// The number of columns of the code.
        columns: usize,
    },
    /// A cell occurs more than once in the list of wanted cells.
    WantedTwice {
        /// The cell.
        cell: usize,
    },
    /// A column that must be recovered from the others is not lost.
    NotLost {
        /// The column.
        column: usize,
    },
    /// A parity cell occurs in the list of written cells.
    ParityWritten {
        /// The cell.
        cell: usize,
    },
}

impl fmt::Display for PlanError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::NotRecoverable(error) => error.fmt(out),
            PlanError::OtherCode { have, need } => {
                write!(out, "a set of {have} cells was given for a code of {need}; make it for that code")
            }
            PlanError::NoSuchCell { cell, cells } => {
                write!(out, "the code has no cell {cell}: its {cells} cells count from 0")
            }
            PlanError::NoSuchColumn { column, columns } => {
                write!(out, "the code has no column {column}: its {columns} columns count from 0")
            }
            PlanError::WantedTwice { cell } => {
                write!(out, "cell {cell} is wanted twice; name each cell once")
            }
            PlanError::NotLost { column } => {
                write!(out, "column {column} is wanted and not lost; name only lost columns, or name it lost")
            }
            PlanError::ParityWritten { cell } => {
                write!(
                    out,
                    "cell {cell} is parity, which follows from the data; name the data cells that are written"
                )
            }
        }
    }
}

impl std::error::Error for PlanError {}

impl From<NotRecoverable> for PlanError {
    fn from(error: NotRecoverable) -> PlanError {
        PlanError::NotRecoverable(error)
    }
}
