//! Plans of cheapest reads, and comparisons of codes.

use crate::code::{CodeLike, Place, Term, place, terms, threads};
use crate::error;
use crate::interrupt::interruptible;
use pantile::plan::{Planner, Request};
use pantile::{Cell, CellIndex, CellSet, Costs, Effort, Optimality};
use pantile_lab::compare::{Line, Options, line};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

/// A column, or one cell of it.
pub enum Named {
    /// All cells of a column.
    Column(usize),
    /// A cell.
    Cell(Place),
}

impl FromPyObject<'_, '_> for Named {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Named> {
        if let Ok(column) = object.extract() {
            return Ok(Named::Column(column));
        }
        object.extract().map(Named::Cell).map_err(|_| {
            let said = object.repr().map_or_else(|_| object.get_type().to_string(), |repr| repr.to_string());
            PyTypeError::new_err(format!(
                "{said} names no cells; give a column, or a cell as (row, column), both from 0"
            ))
        })
    }
}

/// The cells that are named, ascending.
fn cells(code: &pantile::Code, named: &[Named]) -> PyResult<BTreeSet<CellIndex>> {
    let mut cells = BTreeSet::new();
    for name in named {
        match *name {
            Named::Column(column) => {
                check_column(code, column)?;
                cells.extend(code.column_cells(column));
            }
            Named::Cell((row, column)) => match code.index(Cell { row, column }) {
                Some(cell) => {
                    cells.insert(cell);
                }
                None => {
                    return Err(PyValueError::new_err(format!(
                        "{code} has no cell in row {row} of column {column}; rows and columns count from 0"
                    )));
                }
            },
        }
    }
    Ok(cells)
}

/// Refuses a column that the code lacks.
pub fn check_column(code: &pantile::Code, column: usize) -> PyResult<()> {
    let columns = code.columns();
    match column < columns {
        true => Ok(()),
        false => Err(error::of_plan(pantile::PlanError::NoSuchColumn { column, columns })),
    }
}

fn effort(text: &str) -> PyResult<Effort> {
    match text {
        "fast" => Ok(Effort::Fast),
        "thorough" => Ok(Effort::THOROUGH),
        _ => Err(PyValueError::new_err(format!("effort is '{text}'; say 'fast' or 'thorough'"))),
    }
}

/// The cells to read, and the computation from them.
#[pyclass(frozen, get_all, module = "pantile")]
pub struct Plan {
    /// The cells to read, as (row, column).
    reads: Vec<Place>,
    /// The sums, in an order in which they can be done: the target, and its terms.
    steps: Vec<(Place, Vec<Term>)>,
    /// The cells that were asked for.
    outputs: Vec<Place>,
    /// Cells read from each column.
    reads_per_column: Vec<usize>,
    /// The sum of the costs of the reads.
    cost: u64,
    /// The least cost proven; ``cost`` itself if the plan is proven cheapest.
    cost_least: u64,
    /// Additions of one element to another.
    additions: usize,
    /// Multiplications of an element by a coefficient other than 1.
    multiplications: usize,
}

#[pymethods]
impl Plan {
    /// True if no plan costs less.
    #[getter]
    fn is_exact(&self) -> bool {
        self.cost == self.cost_least
    }

    fn __repr__(&self) -> String {
        let (reads, steps) = (self.reads.len(), self.steps.len());
        let mark = if self.is_exact() { "" } else { ", a cheaper one is not ruled out" };
        format!("Plan({reads} cells read, {steps} computed, cost {}{mark})", self.cost)
    }
}

/// Plans the cheapest reads to recover the lost or the wanted cells.
///
/// ``lost`` and ``wanted`` name columns by number and cells as (row, column). ``costs`` is the cost
/// of reading a cell of a column, 1 unless given. Without ``wanted`` every lost cell is recovered.
/// Raises ``NotRecoverable``, which names the cells that cannot be recovered.
///
/// >>> pantile.plan("lrc:12,2,2", lost=[3])
/// Plan(6 cells read, 1 computed, cost 6)
/// >>> pantile.plan("rs:4+2", lost=[0], costs={5: 9}).reads_per_column
/// [0, 1, 1, 1, 1, 0]
#[pyfunction]
#[pyo3(signature = (code, *, lost=Vec::new(), wanted=None, costs=BTreeMap::new(), effort="fast"))]
pub fn plan(
    py: Python<'_>,
    code: CodeLike,
    lost: Vec<Named>,
    wanted: Option<Vec<Named>>,
    costs: BTreeMap<usize, u32>,
    effort: &str,
) -> PyResult<Plan> {
    let code = code.code()?;
    let effort = self::effort(effort)?;
    let lost: Vec<CellIndex> = cells(&code, &lost)?.into_iter().collect();
    let wanted: Vec<CellIndex> = match wanted {
        Some(named) => cells(&code, &named)?.into_iter().collect(),
        None => lost.clone(),
    };
    let mut prices = Costs::uniform();
    for (column, cost) in costs {
        check_column(&code, column)?;
        if cost > Costs::MOST {
            return Err(PyValueError::new_err(format!(
                "column {column} costs {cost}, more than the limit of {} for a cell",
                Costs::MOST
            )));
        }
        prices.set(column, cost);
    }
    let lost = CellSet::of_cells(&code, &lost);
    let request = Request { lost: &lost, wanted: &wanted, costs: &prices, effort };
    let made = py.detach(|| Planner::new(&code).recover(&request)).map_err(error::of_plan)?;
    let cost_least = match made.optimality {
        Optimality::Exact => made.cost,
        Optimality::Bound { at_least } => at_least,
    };
    Ok(Plan {
        reads: made.reads.iter().map(|&cell| place(&code, cell)).collect(),
        steps: (made.steps.iter())
            .map(|step| (place(&code, step.target), terms(&code, &step.terms)))
            .collect(),
        outputs: made.outputs.iter().map(|&cell| place(&code, cell)).collect(),
        reads_per_column: made.reads_per_column(&code),
        cost: made.cost,
        cost_least,
        additions: made.additions(),
        multiplications: made.multiplications(),
    })
}

/// Counts codes, one after the other, as JSON: `pantile.compare` makes a table of it.
#[pyfunction]
pub fn compare(py: Python<'_>, codes: Vec<CodeLike>, prove: bool, effort: &str) -> PyResult<String> {
    let codes: Vec<pantile::Code> = codes.into_iter().map(CodeLike::code).collect::<PyResult<_>>()?;
    let effort = self::effort(effort)?;
    let options = Options { effort, all_columns: false, proves: prove, threads: threads() };
    let lines = interruptible(
        py,
        |ended| {
            let hear = |_, _, _| !ended.load(Ordering::Relaxed);
            codes.iter().map_while(|code| line(code, &options, &hear)).collect::<Vec<Line>>()
        },
        |_| Ok(()),
    )?;
    serde_json::to_string(&lines).map_err(|error| PyValueError::new_err(error.to_string()))
}
