//! Plans of cheapest reads, and comparisons of codes.

use crate::code::{CodeLike, Place, Term, place, terms, threads};
use crate::error;
use crate::interrupt::interruptible;
use crate::memory::{Access, Borrows, Bytes, NewBytes};
use pantile::plan::{Planner, Request};
use pantile::{Buffer, Cell, CellIndex, CellSet, Codec, Costs, Effort, Optimality, Recovery, Use};
use pantile_lab::compare::{Line, Options, line};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
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
#[pyclass(frozen, module = "pantile")]
pub struct Plan {
    code: pantile::Code,
    plan: pantile::Plan,
    /// Compiled by the first run.
    recovery: OnceLock<Recovery>,
}

impl Plan {
    fn places(&self, cells: &[CellIndex]) -> Vec<Place> {
        cells.iter().map(|&cell| place(&self.code, cell)).collect()
    }

    /// The content of the cells that are read.
    fn contents(&self, contents: &[Bound<'_, PyAny>]) -> PyResult<Vec<(Bytes, Access)>> {
        let (have, need) = (contents.len(), self.plan.reads.len());
        if have != need {
            return Err(error::ShapeError::new_err(format!(
                "the plan reads {need} cells, the content of {have} was given; give one for each of reads"
            )));
        }
        let buffer = |(object, place): (&Bound<'_, PyAny>, Place)| {
            let bytes = Bytes::of(object, || format!("the content of cell {place:?}"))?;
            Ok((bytes, Access::Read))
        };
        let buffers: Vec<(Bytes, Access)> =
            contents.iter().zip(self.places(&self.plan.reads)).map(buffer).collect::<PyResult<_>>()?;
        let len = buffers.first().map_or(0, |(bytes, _)| bytes.len());
        match buffers.iter().find(|(bytes, _)| bytes.len() != len) {
            None => Ok(buffers),
            Some((bytes, _)) => Err(error::ShapeError::new_err(format!(
                "one cell has {len} bytes and another has {}; give the same part of each",
                bytes.len()
            ))),
        }
    }
}

#[pymethods]
impl Plan {
    /// The cells to read, as (row, column).
    #[getter]
    fn reads(&self) -> Vec<Place> {
        self.places(&self.plan.reads)
    }

    /// The sums, in an order in which they can be done: the target, and its terms.
    #[getter]
    fn steps(&self) -> Vec<(Place, Vec<Term>)> {
        let steps = self.plan.steps.iter();
        steps.map(|step| (place(&self.code, step.target), terms(&self.code, &step.terms))).collect()
    }

    /// The cells that were asked for.
    #[getter]
    fn outputs(&self) -> Vec<Place> {
        self.places(&self.plan.outputs)
    }

    /// Cells read from each column.
    #[getter]
    fn reads_per_column(&self) -> Vec<usize> {
        self.plan.reads_per_column(&self.code)
    }

    /// The sum of the costs of the reads.
    #[getter]
    fn cost(&self) -> u64 {
        self.plan.cost
    }

    /// The least cost proven; ``cost`` itself if the plan is proven cheapest.
    #[getter]
    fn cost_least(&self) -> u64 {
        match self.plan.optimality {
            Optimality::Exact => self.plan.cost,
            Optimality::Bound { at_least } => at_least,
        }
    }

    /// Additions of one element to another.
    #[getter]
    fn additions(&self) -> usize {
        self.plan.additions()
    }

    /// Multiplications of an element by a coefficient other than 1.
    #[getter]
    fn multiplications(&self) -> usize {
        self.plan.multiplications()
    }

    /// True if no plan costs less.
    #[getter]
    fn is_exact(&self) -> bool {
        self.cost() == self.cost_least()
    }

    /// Computes the cells of ``outputs``, in that order, from the content of those of ``reads``.
    ///
    /// ``contents`` has a buffer for each of ``reads``, in that order: whole cells, or the same
    /// range of bytes of each, which gives that range of the outputs.
    ///
    /// >>> shards = pantile.Codec("lrc:12,2,2").encode(bytes(range(240)))
    /// >>> plan = pantile.plan("lrc:12,2,2", lost=[3])
    /// >>> plan.run([shards[column][5:9] for row, column in plan.reads]) == [shards[3][5:9]]
    /// True
    fn run<'py>(
        &self,
        py: Python<'py>,
        contents: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let buffers = self.contents(&contents)?;
        let borrows = Borrows::new(&buffers)?;
        let len = buffers.first().map_or(0, |(bytes, _)| bytes.len());
        let outputs = &self.plan.outputs;
        let mut new = NewBytes::new(py, vec![len; outputs.len()])?;
        let mut made: BTreeMap<CellIndex, &mut [u8]> = outputs.iter().copied().zip(new.contents()).collect();
        let read: BTreeMap<CellIndex, &[u8]> =
            self.plan.reads.iter().enumerate().map(|(i, &cell)| (cell, borrows.read(i))).collect();
        py.detach(|| {
            let compile = || Codec::new(&self.code).compiled(self.plan.clone());
            let recovery = self.recovery.get_or_init(compile);
            let is_between = |cell: &CellIndex| !made.contains_key(cell);
            let between = recovery.written().into_iter().filter(is_between).count();
            let mut aside = vec![0; between * len];
            let mut aside = aside.chunks_mut(len.max(1));
            let mut cells = Vec::with_capacity(self.code.cell_count());
            for cell in self.code.cells() {
                let (own, content) = (made.remove(&cell), read.get(&cell));
                cells.push(match (recovery.use_of(cell), own, content) {
                    (Use::Written, Some(bytes), _) => Buffer::Write(bytes),
                    (Use::Written, None, _) => Buffer::Write(aside.next().unwrap_or_default()),
                    (_, own, Some(&content)) => {
                        // A cell that is there and wanted is read, and no more.
                        if let Some(own) = own {
                            own.copy_from_slice(content);
                        }
                        Buffer::Read(content)
                    }
                    (_, _, None) => Buffer::Absent,
                });
            }
            recovery.run_given(&mut cells)
        })
        .map_err(error::of_stripe)?;
        Ok(new.into_objects())
    }

    fn __repr__(&self) -> String {
        let (reads, steps) = (self.plan.reads.len(), self.plan.steps.len());
        let mark = if self.is_exact() { "" } else { ", a cheaper one is not ruled out" };
        format!("Plan({reads} cells read, {steps} computed, cost {}{mark})", self.plan.cost)
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
    let plan = py.detach(|| Planner::new(&code).recover(&request)).map_err(error::of_plan)?;
    Ok(Plan { code, plan, recovery: OnceLock::new() })
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
