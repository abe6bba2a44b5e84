//! Detects, from the equations, codes whose parities have powers as coefficients. Horner's rule
//! encodes and decodes them; one or two lost columns are computed as sums, without a plan.
//!
//! Such a code has d = 2 or 3 rows, data columns 0 .. k - 1 and four parity columns. Parity p of
//! column i is G_p^i, a d x d matrix over GF(2^8) that the kernel knows by its form (RAIDq over
//! GF(2^16) and GF(2^24)). The family of the code is not used: the generator is compared.

use pantile_code::{Cell, Code};
use pantile_gf::{Gf, Matrix};
use pantile_kernel::{Horner, HornerOutputs, HornerStep, Program, Step};
use pantile_plan::CellSet;

/// The number of parity columns of such a code.
const PARITIES: usize = 4;

/// The most lost columns that are computed as sums of surviving ones: up to it, sums take fewer
/// products than states do. For one lost column there are no products; for two, those of one
/// output. Speed as a share of the limit on Zen 3 (AVX2, 64 KiB): 0.7 and 0.46 for one and two
/// columns, 0.25 and 0.23 with states; for four columns 0.12, and 0.17 with states.
const SUMMED_MOST: usize = 2;

/// The matrices whose powers are the coefficients of a code.
#[derive(Debug)]
pub(crate) struct Plank {
    planes: usize,
    data_columns: usize,
    steps: Vec<HornerStep>,
    /// `blocks[p][i]` is G_p^i.
    blocks: Vec<Vec<Matrix>>,
}

impl Plank {
    /// `None` if the coefficients of the code are not such powers. Cost: one pass over its
    /// generator.
    pub(crate) fn of(code: &Code) -> Option<Plank> {
        let planes = code.rows_max();
        let data_columns = code.columns().checked_sub(PARITIES).filter(|&k| k > 1)?;
        if !(2..=3).contains(&planes) || code.cell_count() != planes * code.columns() {
            return None;
        }
        let generator = code.generator();
        let position =
            |row, column| code.index(Cell { row, column }).and_then(|cell| code.data_position(cell));
        let parity_row = |row, column| {
            let cell = code.index(Cell { row, column })?;
            code.parity().iter().position(|&parity| parity == cell)
        };
        let block = |p: usize, column: usize| -> Option<Matrix> {
            let mut block = Matrix::zero(planes, planes);
            for t in 0..planes {
                for s in 0..planes {
                    block.set(t, s, generator.get(parity_row(t, data_columns + p)?, position(s, column)?));
                }
            }
            Some(block)
        };
        let mut blocks = Vec::new();
        let mut steps = Vec::new();
        for p in 0..PARITIES {
            let powers: Vec<Matrix> =
                (0..data_columns).map(|column| block(p, column)).collect::<Option<_>>()?;
            let step = powers[1].clone();
            let is_made_of_powers = powers[0] == Matrix::identity(planes)
                && powers.windows(2).all(|pair| pair[1] == &pair[0] * &step);
            if !is_made_of_powers {
                return None;
            }
            steps.push(form_of(&step)?);
            blocks.push(powers);
        }
        Some(Plank { planes, data_columns, steps, blocks })
    }

    /// The program that computes every parity; `None` if this machine has no kernel for it.
    pub(crate) fn encoder(&self, code: &Code) -> Option<Program> {
        let columns = (0..self.data_columns).map(|column| Some(self.cells(code, column))).collect();
        let parities = (0..PARITIES).flat_map(|p| self.cells(code, self.data_columns + p)).collect();
        self.program(code, columns, HornerOutputs::States(parities))
    }

    /// The program that recovers whole columns, at least one of them data. `None` for other losses,
    /// and for more than two columns also if this machine has no kernel for it.
    ///
    /// It reads all surviving data and the first surviving parity columns, one for each lost data
    /// column. For one lost column a plan may read less.
    pub(crate) fn decoder(&self, code: &Code, lost: &CellSet) -> Option<Program> {
        let columns = lost.columns(code);
        if lost.len() != columns.len() * self.planes || columns.len() > PARITIES {
            return None;
        }
        let (unknown, gone): (Vec<usize>, Vec<usize>) =
            columns.iter().partition(|&&column| column < self.data_columns);
        let gone: Vec<usize> = gone.into_iter().map(|column| column - self.data_columns).collect();
        let used: Vec<usize> = (0..PARITIES).filter(|p| !gone.contains(p)).take(unknown.len()).collect();
        if unknown.is_empty() || used.len() < unknown.len() {
            return None;
        }
        let d = self.planes;
        let entry = |p: usize, column: usize, t: usize, s: usize| self.blocks[p][column].get(t, s);
        let size = d * unknown.len();
        let system = Matrix::from_fn(size, size, |r, c| entry(used[r / d], unknown[c / d], r % d, c % d));
        let inverse = system.inverse()?;
        let mut rows = Vec::new();
        for (u, &column) in unknown.iter().enumerate() {
            for (t, cell) in self.cells(code, column).into_iter().enumerate() {
                let mut row = vec![0; PARITIES * d];
                (0..size).for_each(|x| row[used[x / d] * d + x % d] = inverse.get(u * d + t, x).0);
                rows.push((cell, row));
            }
        }
        for &p in &gone {
            for (t, cell) in self.cells(code, self.data_columns + p).into_iter().enumerate() {
                let mut row = vec![0; PARITIES * d];
                row[p * d + t] = 1;
                for x in 0..size {
                    let products = (0..size).map(|y| entry(p, unknown[y / d], t, y % d) * inverse.get(y, x));
                    row[used[x / d] * d + x % d] = products.fold(Gf::ZERO, |sum, product| sum + product).0;
                }
                rows.push((cell, row));
            }
        }
        let mut adds = vec![None; PARITIES * d];
        for &p in &used {
            for (t, cell) in self.cells(code, self.data_columns + p).into_iter().enumerate() {
                adds[p * d + t] = Some(cell);
            }
        }
        let columns: Vec<_> = (0..self.data_columns)
            .map(|column| (!unknown.contains(&column)).then(|| self.cells(code, column)))
            .collect();
        if lost.columns(code).len() > SUMMED_MOST {
            return self.program(code, columns, HornerOutputs::Solved { adds, rows });
        }
        match Program::new(code.cell_count(), &self.sums(&columns, &adds, &rows)) {
            Ok(program) => Some(program),
            Err(error) => unreachable!("lost cells are written and others read: {error}"),
        }
    }

    fn program(
        &self,
        code: &Code,
        columns: Vec<Option<Vec<usize>>>,
        outputs: HornerOutputs,
    ) -> Option<Program> {
        let horner = Horner { planes: self.planes, columns, steps: self.steps.clone(), outputs };
        match Program::horner(code.cell_count(), &horner) {
            Ok(program) => program,
            Err(error) => unreachable!("what is lost or parity is written, the rest is read: {error}"),
        }
    }

    /// Returns each output as a sum over the cells of `columns` and of `adds`. The state of parity
    /// p is the sum over columns i of G_p^i times column i. If one of the parities is a plain sum,
    /// the last lost data column is its state minus the other lost ones.
    fn sums(
        &self,
        columns: &[Option<Vec<usize>>],
        adds: &[Option<usize>],
        rows: &[(usize, Vec<u8>)],
    ) -> Vec<Step> {
        let d = self.planes;
        let of_row = |(target, row): &(usize, Vec<u8>)| {
            let of_cell = |column: usize, s: usize| {
                let of_state =
                    |(state, &c): (usize, &u8)| Gf(c) * self.blocks[state / d][column].get(state % d, s);
                row.iter().enumerate().map(of_state).fold(Gf::ZERO, |sum, product| sum + product).0
            };
            let of_column = |(column, cells): (usize, &Option<Vec<usize>>)| {
                let cells = cells.iter().flatten().enumerate();
                cells.map(|(s, &cell)| (cell, of_cell(column, s))).collect::<Vec<_>>()
            };
            let known = columns.iter().enumerate().flat_map(of_column);
            let added = adds.iter().zip(row).filter_map(|(cell, &c)| Some(((*cell)?, c)));
            Step { target: *target, terms: known.chain(added).filter(|&(_, c)| c != 0).collect() }
        };
        let mut sums: Vec<Step> = rows.iter().map(of_row).collect();
        // The rows of lost data come first.
        let lost = columns.iter().filter(|cells| cells.is_none()).count();
        let plain = (0..PARITIES).find(|&p| self.steps[p] == HornerStep::One && adds[p * d].is_some());
        if let (Some(p), Some(last)) = (plain, lost.checked_sub(1)) {
            for t in 0..d {
                let known = columns.iter().flatten().map(|cells| cells[t]).chain(adds[p * d + t]);
                let others = (0..last).map(|u| rows[u * d + t].0);
                sums[last * d + t].terms = known.chain(others).map(|cell| (cell, 1)).collect();
            }
        }
        sums
    }

    fn cells(&self, code: &Code, column: usize) -> Vec<usize> {
        code.column_cells(column).map(|cell| cell.usize()).collect()
    }
}

/// The step of a matrix, if it has one of the forms that the kernel knows.
fn form_of(step: &Matrix) -> Option<HornerStep> {
    let d = step.rows();
    let shift_by = |by: usize| {
        let is_shift = (0..d).all(|t| (0..d).all(|s| (s + by) % d == t || step.get(t, s).is_zero()));
        let mut factors = [0; 3];
        (0..d).for_each(|t| factors[t] = step.get(t, (t + d - by) % d).0);
        is_shift.then_some(factors)
    };
    if let Some(factors) = shift_by(0) {
        let g = factors[0];
        return match factors[..d].iter().all(|&factor| factor == g) {
            true if g == 1 => Some(HornerStep::One),
            true => Some(HornerStep::Byte(g)),
            false => None,
        };
    }
    if d == 2 {
        let is_quadratic = step.get(0, 0).is_zero() && step.get(1, 0) == Gf::ONE;
        return is_quadratic.then(|| HornerStep::Quadratic { b: step.get(1, 1).0, c: step.get(0, 1).0 });
    }
    (1..d).find_map(|by| shift_by(by).map(|factors| HornerStep::Shift { by, factors }))
}
