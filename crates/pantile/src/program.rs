//! A plan made ready to run: its steps as a program of the kernel over the cells of a stripe.
//!
//! The recovery of whole columns of an MDS code of one row is not compiled from steps: the kernel
//! solves the m x m system itself, in less time than computing the coefficients of every step
//! takes.

use pantile_code::Code;
use pantile_gf::{Gf, eliminate};
use pantile_kernel::{Program, Step, System};
use pantile_plan::CellSet;
use smallvec::SmallVec;

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

/// Returns the cells that a recovery without a plan does not read: the lost ones, and all surviving
/// parities except the first ones, one per lost data cell. The cells that it reads are independent
/// and determine the stripe.
pub(crate) fn unread(code: &Code, lost: &CellSet) -> CellSet {
    let data_lost = code.data().iter().filter(|&&cell| lost.contains(cell)).count();
    let mut unread = lost.clone();
    let left = code.parity().iter().filter(|&&cell| !lost.contains(cell));
    left.skip(data_lost).for_each(|&cell| unread.insert(cell));
    unread
}

/// A list that is stored inline if it is short, as for most codes.
type Few<T, const N: usize> = SmallVec<[T; N]>;

/// Returns `count` zeros, in `few` on the stack if they fit there: moving a list costs more.
fn zeros<'a, T: Copy, const N: usize>(
    zero: T,
    count: usize,
    few: &'a mut [T; N],
    many: &'a mut Vec<T>,
) -> &'a mut [T] {
    if count <= N {
        return &mut few[..count];
    }
    many.resize(count, zero);
    many
}

/// The known and the wanted cells of a recovery of a code of one row, by position in the lists of
/// data and parities of the code.
struct Loss {
    known: Few<usize, 32>,
    unknown: Few<usize, 8>,
    /// The parities whose sums are computed: first surviving ones, one for each unknown data cell
    /// as far as available; then the lost ones.
    rows: Few<usize, 8>,
}

impl Loss {
    /// An empty loss, filled in place: moving the filled lists costs a quarter of the plan.
    fn new() -> Loss {
        Loss { known: Few::new(), unknown: Few::new(), rows: Few::new() }
    }

    fn fill(&mut self, code: &Code, lost: &CellSet) {
        for (position, &cell) in code.data().iter().enumerate() {
            if lost.contains(cell) { self.unknown.push(position) } else { self.known.push(position) }
        }
        let mut lost_rows = Few::<usize, 8>::new();
        for (row, &cell) in code.parity().iter().enumerate() {
            match lost.contains(cell) {
                true => lost_rows.push(row),
                false if self.rows.len() < self.unknown.len() => self.rows.push(row),
                false => {}
            }
        }
        lost_rows.iter().for_each(|&row| self.rows.push(row));
    }

    /// True if data are among the `lost` lost cells and enough parities survive.
    fn has_parities(&self, lost: usize) -> bool {
        !self.unknown.is_empty() && self.rows.len() == lost
    }

    /// Writes the coefficients of each lost cell over the sums, one line per cell: first data, then
    /// parities. Returns `false` if the available sums do not determine the data. Requires enough
    /// parities.
    fn solve(&self, code: &Code, solution: &mut [u8]) -> bool {
        let (used, count) = (self.unknown.len(), self.rows.len());
        let coefficient = |row: usize, position: usize| code.generator().get(row, position);
        // [A | I] becomes [I | A^-1].
        let (mut few, mut many) = ([Gf::ZERO; 128], Vec::new());
        let work = zeros(Gf::ZERO, 2 * used * used, &mut few, &mut many);
        for (r, &row) in self.rows[..used].iter().enumerate() {
            let line = &mut work[r * 2 * used..][..2 * used];
            line.iter_mut().zip(&self.unknown).for_each(|(x, &u)| *x = coefficient(row, u));
            line[used + r] = Gf::ONE;
        }
        if !eliminate(used, work) {
            return false;
        }
        let inverse = |u: usize| &work[u * 2 * used + used..][..used];
        for u in 0..used {
            solution[u * count..].iter_mut().zip(inverse(u)).for_each(|(x, c)| *x = c.0);
        }
        for (own, &row) in self.rows.iter().enumerate().skip(used) {
            // A lost parity is the sum of the known data (`line[own]`) plus the unknown data, as
            // combinations of the sums.
            let line = &mut solution[own * count..][..count];
            for (u, &position) in self.unknown.iter().enumerate() {
                let g = coefficient(row, position);
                line.iter_mut().zip(inverse(u)).for_each(|(x, &c)| *x ^= (g * c).0);
            }
            line[own] = 1;
        }
        true
    }
}

/// Returns the program that recovers everything lost from the first surviving cells, if the code is
/// MDS and has one row, and if two or more cells are lost.
///
/// The reads are those of the plan at uniform costs: all surviving data, then the first surviving
/// parities. S_a, parity a plus the terms of the surviving data, is the sum over the lost data u of
/// g_au x_u. So x = A^-1 S, where A is the m x m matrix of these g.
///
/// Cost: m^3 + (k + m) m products, and for most codes three allocations: a recovery that runs once
/// should not spend more time on its plan than on its bytes.
pub(crate) fn solving(code: &Code, lost: &CellSet) -> Option<Program> {
    if !code.claim().mds || code.cell_count() != code.columns() || code.rows_max() > 1 || lost.len() < 2 {
        return None;
    }
    let mut loss = Loss::new();
    loss.fill(code, lost);
    let count = lost.len();
    // If only parities are lost, they are encoded.
    if !loss.has_parities(count) {
        return None;
    }
    let (mut few, mut many) = ([0; 64], Vec::new());
    let solution = zeros(0, count * count, &mut few, &mut many);
    if !loss.solve(code, solution) {
        return None;
    }
    let (mut few, mut many) = ([0; 128], Vec::new());
    let coefficients = zeros(0, loss.known.len() * count, &mut few, &mut many);
    let generator = code.generator();
    for (s, &position) in loss.known.iter().enumerate() {
        let of_rows = coefficients[s * count..].iter_mut().zip(&loss.rows);
        of_rows.for_each(|(x, &row)| *x = generator.get(row, position).0);
    }
    // Converts positions to cells.
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
    let system =
        System { sources: &loss.known, coefficients, starts: &starts, outputs: &loss.unknown, solution };
    match Program::solving(code.cell_count(), &system) {
        Ok(program) => Some(program),
        Err(error) => unreachable!("lost cells are written and others read: {error}"),
    }
}
