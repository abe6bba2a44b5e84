//! A plan made ready to run: its steps as a program of the kernel over the cells of a stripe.
//!
//! The recovery of whole columns of an MDS code of one row is not compiled from steps: the kernel solves the m x m system
//! itself, for less than the final coefficients of every step would cost.

use crate::stripe::StripeError;
use pantile_code::{CellIndex, Code};
use pantile_gf::{Gf, Matrix};
use pantile_kernel::{Program, ShapeError, Step, System, SystemSum};
use pantile_plan::CellSet;

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

/// A program that recovers everything lost, made without a plan.
pub(crate) struct Whole {
    pub(crate) program: Program,
    /// What it reads: cells that are independent and determine the stripe.
    pub(crate) reads: Vec<CellIndex>,
}

/// The program that recovers everything lost from the first cells that are left, if the code is MDS and of one row, and
/// two cells or more are lost.
///
/// The reads are those of the plan at uniform costs: all data left, then the first parities left. Sources: the sum under
/// parity a of what is left is the sum over the lost data u of g_au x_u; x = A^-1 S with A the m x m matrix of these g.
pub(crate) fn solving(code: &Code, lost: &CellSet) -> Option<Whole> {
    if code.rows_max() > 1 || !code.claim().mds || code.cell_count() != code.columns() || lost.len() < 2 {
        return None;
    }
    let (data, parity, generator) = (code.data(), code.parity(), code.generator());
    let unknown: Vec<usize> = (0..data.len()).filter(|&position| lost.contains(data[position])).collect();
    let (gone, left): (Vec<usize>, Vec<usize>) =
        (0..parity.len()).partition(|&row| lost.contains(parity[row]));
    // Parities alone are encoded; what is left of the rows must determine the data.
    let used = left.get(..unknown.len()).filter(|used| !used.is_empty())?;
    let system = Matrix::from_fn(used.len(), unknown.len(), |r, c| generator.get(used[r], unknown[c]));
    let inverse = system.inverse()?;
    let known: Vec<usize> =
        (0..data.len()).filter(|position| unknown.binary_search(position).is_err()).collect();
    let sum = |row: usize, start: Option<CellIndex>| SystemSum {
        start: start.map(CellIndex::usize),
        terms: known
            .iter()
            .map(|&position| (data[position].usize(), generator.get(row, position).0))
            .collect(),
    };
    let sums =
        used.iter().map(|&row| sum(row, Some(parity[row]))).chain(gone.iter().map(|&row| sum(row, None)));
    let mut outputs: Vec<(usize, Vec<u8>)> = Vec::with_capacity(lost.len());
    for (u, &position) in unknown.iter().enumerate() {
        let coefficients = (0..used.len()).map(|a| inverse.get(u, a).0).chain(gone.iter().map(|_| 0));
        outputs.push((data[position].usize(), coefficients.collect()));
    }
    for (own, &row) in gone.iter().enumerate() {
        // A lost parity: what is left under it, and the lost data in terms of the sums.
        let of_sum = |a: usize| {
            let products = (0..unknown.len()).map(|u| generator.get(row, unknown[u]) * inverse.get(u, a));
            products.fold(Gf::ZERO, |sum, x| sum + x).0
        };
        let coefficients =
            (0..used.len()).map(of_sum).chain((0..gone.len()).map(|other| u8::from(other == own)));
        outputs.push((parity[row].usize(), coefficients.collect()));
    }
    let reads =
        known.iter().map(|&position| data[position]).chain(used.iter().map(|&row| parity[row])).collect();
    match Program::solving(code.cell_count(), &System { sums: sums.collect(), outputs }) {
        Ok(program) => Some(Whole { program, reads }),
        Err(error) => unreachable!("lost cells are written and others read: {error}"),
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
