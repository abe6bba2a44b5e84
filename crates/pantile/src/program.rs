//! A plan made ready to run: its steps as a program of the kernel over the cells of a stripe.
//!
//! The recovery of whole columns of an MDS code of one row is not compiled from steps: the kernel solves the m x m system
//! itself, for less than the final coefficients of every step would cost.

use crate::stripe::StripeError;
use pantile_code::Code;
use pantile_gf::{Gf, eliminate};
use pantile_kernel::{Program, ShapeError, Step, System};
use pantile_plan::CellSet;
use smallvec::{SmallVec, smallvec};

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
    /// What it does not read. The other cells are independent and determine the stripe.
    pub(crate) unread: CellSet,
}

/// Lists that are short for most codes.
type Few<T, const N: usize> = SmallVec<[T; N]>;

/// The program that recovers everything lost from the first cells that are left, if the code is MDS and of one row, and
/// two cells or more are lost.
///
/// The reads are those of the plan at uniform costs: all data left, then the first parities left. Sources: the sum under
/// parity a of what is left is the sum over the lost data u of g_au x_u; x = A^-1 S with A the m x m matrix of these g.
///
/// Cost: m^3 + (k + m) m products, and for most codes three allocations: a recovery that is needed once should not wait for its
/// plan longer than for its bytes.
pub(crate) fn solving(code: &Code, lost: &CellSet) -> Option<Whole> {
    if !code.claim().mds || code.cell_count() != code.columns() || code.rows_max() > 1 || lost.len() < 2 {
        return None;
    }
    let (data, parity, generator) = (code.data(), code.parity(), code.generator());
    let (mut unknown, mut known) = (Few::<usize, 8>::new(), Few::<usize, 32>::new());
    for (position, &cell) in data.iter().enumerate() {
        if lost.contains(cell) { unknown.push(position) } else { known.push(position) }
    }
    // The parities of the sums: first the used ones, then the lost ones.
    let (mut rows, mut lost_parities) = (Few::<usize, 8>::new(), Few::<usize, 8>::new());
    let mut unread = lost.clone();
    for (row, &cell) in parity.iter().enumerate() {
        match lost.contains(cell) {
            true => lost_parities.push(row),
            false if rows.len() < unknown.len() => rows.push(row),
            false => unread.insert(cell),
        }
    }
    let used = rows.len();
    // Parities alone are encoded; what is left of the rows must determine the data.
    if used == 0 || used < unknown.len() {
        return None;
    }
    lost_parities.iter().for_each(|&row| rows.push(row));
    // [A | I] becomes [I | A^-1].
    let mut work: Few<Gf, 128> = smallvec![Gf::ZERO; 2 * used * used];
    for (r, line) in work.chunks_exact_mut(2 * used).enumerate() {
        let row = generator.row(rows[r]);
        line.iter_mut().zip(&unknown).for_each(|(x, &position)| *x = row[position]);
        line[used + r] = Gf::ONE;
    }
    if !eliminate(used, &mut work) {
        return None;
    }
    let count = rows.len();
    let mut solution: Few<u8, 64> = smallvec![0; count * count];
    let (of_data, of_parities) = solution.split_at_mut(used * count);
    for (line, inverse) in of_data.chunks_exact_mut(count).zip(work.chunks_exact(2 * used)) {
        line.iter_mut().zip(&inverse[used..]).for_each(|(x, c)| *x = c.0);
    }
    for ((own, line), &parity) in of_parities.chunks_exact_mut(count).enumerate().zip(&lost_parities) {
        // A lost parity: what is left under it, and the lost data in terms of the sums.
        let row = generator.row(parity);
        for (&position, inverse) in unknown.iter().zip(work.chunks_exact(2 * used)) {
            line.iter_mut().zip(&inverse[used..]).for_each(|(x, &c)| *x ^= (row[position] * c).0);
        }
        line[used + own] = 1;
    }
    let mut coefficients: Few<u8, 128> = smallvec![0; known.len() * count];
    for (of_source, &position) in coefficients.chunks_exact_mut(count).zip(&known) {
        of_source.iter_mut().zip(&rows).for_each(|(x, &row)| *x = generator.get(row, position).0);
    }
    // From positions to cells.
    known.iter_mut().for_each(|position| *position = data[*position].usize());
    unknown.iter_mut().for_each(|position| *position = data[*position].usize());
    let mut starts = Few::<Option<usize>, 8>::new();
    for &row in &rows[..used] {
        starts.push(Some(parity[row].usize()));
    }
    for &row in &lost_parities {
        starts.push(None);
        unknown.push(parity[row].usize());
    }
    let system = System {
        sources: &known,
        coefficients: &coefficients,
        starts: &starts,
        outputs: &unknown,
        solution: &solution,
    };
    match Program::solving(code.cell_count(), &system) {
        Ok(program) => Some(Whole { program, unread }),
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
