//! The stripe as a grid: the lost cells, the cells read for them, and the order of recovery.

use crate::bars::open;
use crate::figure::{Picture, WIDTH_MOST, colour, escape};
use pantile::{Cell, CellIndex, CellSet, Code, Plan};
use std::fmt::Write;

/// One stripe of a code, and a plan that recovers its lost columns.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// The heading.
    pub title: String,
    /// Explanation printed below it.
    pub caption: String,
    code: Code,
    lost: CellSet,
    plan: Plan,
}

const CELL: (f64, f64) = (44.0, 26.0);
const GAP: f64 = 3.0;
const LEFT: f64 = 34.0;

impl Matrix {
    /// Returns the stripe with these columns lost; `None` if they cannot be recovered, or if the
    /// picture would be too dense to read.
    pub fn new(code: &Code, columns: &[usize]) -> Option<Matrix> {
        const CELLS_MOST: usize = 900;
        if code.cell_count() > CELLS_MOST || columns.is_empty() {
            return None;
        }
        let lost = CellSet::of_columns(code, columns);
        let wanted: Vec<CellIndex> = lost.iter().collect();
        let costs = pantile::Costs::uniform();
        let effort = pantile::Effort::Fast;
        let request = pantile::plan::Request { lost: &lost, wanted: &wanted, costs: &costs, effort };
        let plan = pantile::plan::Planner::new(code).recover(&request).ok()?;
        let named: Vec<String> = columns.iter().map(usize::to_string).collect();
        let (noun, verb) = if columns.len() == 1 { ("column", "is") } else { ("columns", "are") };
        Some(Matrix {
            title: format!("One stripe of {}, {noun} {} lost", code.spec(), named.join(", ")),
            caption: format!(
                "Orange {verb} lost, numbered in the order in which elements are recovered; blue is read, {} elements; of the \
                 rest D is data by its number, P parity.",
                plan.reads.len()
            ),
            code: code.clone(),
            lost,
            plan,
        })
    }

    /// Returns the number of the step that computes a cell, from 1.
    fn step_of(&self, cell: CellIndex) -> Option<usize> {
        self.plan.steps.iter().position(|step| step.target == cell).map(|i| i + 1)
    }

    fn name(&self, cell: CellIndex) -> String {
        self.code.data_position(cell).map_or("P".into(), |position| format!("D{position}"))
    }
}

impl Picture for Matrix {
    fn words(&self) -> (&str, &str) {
        (&self.title, &self.caption)
    }

    fn svg(&self) -> String {
        let per_panel = (((WIDTH_MOST - LEFT) / (CELL.0 + GAP)) as usize).max(1);
        let columns = self.code.columns();
        let across = columns.min(per_panel);
        let panel = 24.0 + (CELL.1 + GAP) * self.code.rows_max() as f64 + 10.0;
        let panels = columns.div_ceil(per_panel);
        let read = CellSet::of_cells(&self.code, &self.plan.reads);
        let mut svg = open(LEFT + (CELL.0 + GAP) * across as f64 + 4.0, panel * panels as f64, &self.title);
        for column in 0..columns {
            let x = LEFT + (CELL.0 + GAP) * (column % per_panel) as f64;
            let top = panel * (column / per_panel) as f64;
            let middle = x + CELL.0 / 2.0;
            let _ = write!(
                svg,
                "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-weight=\"600\">{column}</text>",
                top + 16.0
            );
            for row in 0..self.code.rows(column) {
                let Some(cell) = self.code.index(Cell { row, column }) else { continue };
                let y = top + 24.0 + (CELL.1 + GAP) * row as f64;
                if column.is_multiple_of(per_panel) {
                    let _ = write!(
                        svg,
                        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{row}</text>",
                        LEFT - 8.0,
                        y + 17.0
                    );
                }
                let (fill, opacity, text) = match () {
                    () if self.lost.contains(cell) => {
                        (colour(1), "0.75", self.step_of(cell).map_or(String::new(), |i| i.to_string()))
                    }
                    () if read.contains(cell) => (colour(0), "0.45", self.name(cell)),
                    () => ("currentColor".to_string(), "0.06", self.name(cell)),
                };
                let _ = write!(
                    svg,
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{}\" height=\"{}\" rx=\"4\" fill=\"{fill}\" fill-opacity=\"{opacity}\" \
                     stroke=\"currentColor\" stroke-opacity=\".25\"/><text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                    CELL.0,
                    CELL.1,
                    y + 17.0,
                    escape(&text)
                );
            }
        }
        svg.push_str("</svg>");
        svg
    }

    fn data(&self) -> Vec<Vec<String>> {
        let place = |cell: CellIndex| {
            let Cell { row, column } = self.code.cell(cell);
            format!("[{row}][{column}]")
        };
        let mut rows = vec![vec!["step".to_string(), "made".to_string(), "from".to_string()]];
        for (i, step) in self.plan.steps.iter().enumerate() {
            let terms: Vec<String> = step.terms.iter().map(|&(cell, _)| place(cell)).collect();
            rows.push(vec![(i + 1).to_string(), place(step.target), terms.join(" ")]);
        }
        rows
    }
}
