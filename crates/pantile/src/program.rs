//! A plan made ready to run: its steps as a program of the kernel over the cells of a stripe.

use crate::stripe::StripeError;
use pantile_code::Code;
use pantile_kernel::{Program, ShapeError, Step};

/// Compiles the steps of a plan.
pub(crate) fn compile(code: &Code, steps: &[pantile_plan::Step]) -> Program {
    let steps: Vec<Step> = steps
        .iter()
        .map(|step| Step {
            target: step.target.usize(),
            terms: step.terms.iter().map(|&(cell, c)| (cell.usize(), c.0)).collect(),
        })
        .collect();
    match Program::new(code.cell_count(), &steps) {
        Ok(program) => program,
        Err(error) => unreachable!("a plan writes each cell once, before it is read: {error}"),
    }
}

impl From<ShapeError> for StripeError {
    fn from(error: ShapeError) -> StripeError {
        match error {
            ShapeError::BufferCount { have, need } => StripeError::CellCount { have, need },
            ShapeError::BufferLen { index, have, need } => {
                StripeError::UnequalLengths { cell: index, have, need }
            }
            other => unreachable!("a program counts buffers, not sources and outputs: {other}"),
        }
    }
}
