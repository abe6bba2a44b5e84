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

/// What a recovery of a code of one row knows and wants, by position in the lists of data and parities of the code.
struct Loss {
    known: Few<usize, 32>,
    unknown: Few<usize, 8>,
    /// The parities whose sums are formed: first those that are used, as many as data are unknown if so many are left; then
    /// the lost ones.
    rows: Few<usize, 8>,
    unread: CellSet,
}

impl Loss {
    fn of(code: &Code, lost: &CellSet) -> Loss {
        // Filled where it lies: to move lists that were just written costs a quarter of the plan.
        let mut loss =
            Loss { known: Few::new(), unknown: Few::new(), rows: Few::new(), unread: lost.clone() };
        for (position, &cell) in code.data().iter().enumerate() {
            if lost.contains(cell) { loss.unknown.push(position) } else { loss.known.push(position) }
        }
        let mut lost_rows = Few::<usize, 8>::new();
        for (row, &cell) in code.parity().iter().enumerate() {
            match lost.contains(cell) {
                true => lost_rows.push(row),
                false if loss.rows.len() < loss.unknown.len() => loss.rows.push(row),
                false => loss.unread.insert(cell),
            }
        }
        lost_rows.iter().for_each(|&row| loss.rows.push(row));
        loss
    }

    /// Whether data are lost, of `lost` cells, and as many parities are left.
    fn has_parities(&self, lost: usize) -> bool {
        !self.unknown.is_empty() && self.rows.len() == lost
    }

    /// Writes each lost cell in terms of the sums, a line for each: first data, then parities. `false` if the sums that
    /// can be had do not determine the data. There must be parities enough.
    fn solve(&self, code: &Code, solution: &mut [u8]) -> bool {
        let (used, count) = (self.unknown.len(), self.rows.len());
        let coefficient = |row: usize, position: usize| code.generator().get(row, position);
        // [A | I] becomes [I | A^-1].
        let mut work: Few<Gf, 128> = smallvec![Gf::ZERO; 2 * used * used];
        for (r, line) in work.chunks_exact_mut(2 * used).enumerate() {
            line.iter_mut().zip(&self.unknown).for_each(|(x, &u)| *x = coefficient(self.rows[r], u));
            line[used + r] = Gf::ONE;
        }
        if !eliminate(used, &mut work) {
            return false;
        }
        let (of_data, of_parities) = solution.split_at_mut(used * count);
        for (line, inverse) in of_data.chunks_exact_mut(count).zip(work.chunks_exact(2 * used)) {
            line.iter_mut().zip(&inverse[used..]).for_each(|(x, c)| *x = c.0);
        }
        for (own, line) in of_parities.chunks_exact_mut(count).enumerate() {
            // A lost parity: what is known under it, and the unknown data in terms of the sums.
            for (&u, inverse) in self.unknown.iter().zip(work.chunks_exact(2 * used)) {
                let g = coefficient(self.rows[used + own], u);
                line.iter_mut().zip(&inverse[used..]).for_each(|(x, &c)| *x ^= (g * c).0);
            }
            line[used + own] = 1;
        }
        true
    }
}

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
    let mut loss = Loss::of(code, lost);
    let count = lost.len();
    // Parities alone are encoded.
    if !loss.has_parities(count) {
        return None;
    }
    let mut solution: Few<u8, 64> = smallvec![0; count * count];
    if !loss.solve(code, &mut solution) {
        return None;
    }
    let mut coefficients: Few<u8, 128> = smallvec![0; loss.known.len() * count];
    for (of_source, &position) in coefficients.chunks_exact_mut(count).zip(&loss.known) {
        let of_rows = of_source.iter_mut().zip(&loss.rows);
        of_rows.for_each(|(x, &row)| *x = code.generator().get(row, position).0);
    }
    // From positions to cells.
    let (used, lost_rows) = loss.rows.split_at(loss.unknown.len());
    loss.known.iter_mut().for_each(|position| *position = code.data()[*position].usize());
    loss.unknown.iter_mut().for_each(|position| *position = code.data()[*position].usize());
    let parity_cell = |row: usize| code.parity()[row].usize();
    let mut starts = Few::<Option<usize>, 8>::new();
    used.iter().for_each(|&row| starts.push(Some(parity_cell(row))));
    for &row in lost_rows {
        starts.push(None);
        loss.unknown.push(parity_cell(row));
    }
    let system = System {
        sources: &loss.known,
        coefficients: &coefficients,
        starts: &starts,
        outputs: &loss.unknown,
        solution: &solution,
    };
    match Program::solving(code.cell_count(), &system) {
        Ok(program) => Some(Whole { program, unread: loss.unread }),
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
