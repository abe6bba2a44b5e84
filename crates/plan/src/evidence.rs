//! Evidence for a tolerance that somebody else can check: what an independent program needs to be
//! convinced.
//!
//! Any t columns may be lost exactly if the equations, restricted to the cells of any t columns,
//! have full rank. What shows it is one of two things:
//!
//! * **Sets.** For each set of t columns, in ascending order, as many equations as it has cells,
//!   whose square matrix of coefficients on these cells is invertible. A set within a set that
//!   survives survives.
//! * **Cauchy.** Vectors u_i and v_j of two coordinates with 1 / g_ij = u_i . v_j for every
//!   coefficient of the generator, no two u proportional and no two v: no minor is zero then, by
//!   Cauchy's determinant ([`crate::cauchy`]).
//!
//! What shows that t is not more is a codeword: values, not all zero, of the cells of t + 1 columns
//! that fit all equations with zeros everywhere else. Nobody who has lost these columns can tell it
//! from a stripe of zeros.
//!
//! The evidence is found by elimination, and checked by determinants and sums:
//! `reference/check_certificate.py`.

use crate::cauchy;
use pantile_code::{CellIndex, Code};
use pantile_gf::{Echelon, Gf, Matrix, choose};
use std::fmt;

/// Why any so many columns may be lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Two coordinates for each parity, and for each data cell.
    Cauchy {
        /// u_i, parity by parity.
        parities: Vec<[Gf; 2]>,
        /// v_j, data cell by data cell in user order.
        data: Vec<[Gf; 2]>,
    },
    /// For each set of columns, ascending, the numbers of the equations; all of them if there are
    /// no more.
    Sets(Vec<Vec<usize>>),
    /// The sets have as many cells as there are equations: all of them, for every set.
    SquareSets,
}

/// Values of cells that fit every equation with zeros everywhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codeword {
    /// The columns that it lies in, ascending.
    pub columns: Vec<usize>,
    /// The cells that are not zero.
    pub cells: Vec<(CellIndex, Gf)>,
}

/// Why there is no evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvidenceError {
    /// More sets than were allowed.
    TooManySets {
        /// Sets of so many columns.
        have: u64,
        /// The most that were allowed.
        most: u64,
    },
    /// A set that does not survive.
    Fatal {
        /// Its columns.
        columns: Vec<usize>,
    },
}

impl fmt::Display for EvidenceError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EvidenceError::TooManySets { have, most } => {
                write!(
                    out,
                    "evidence for each of {have} sets of columns, where {most} are allowed; allow more, or certify fewer lost columns"
                )
            }
            EvidenceError::Fatal { columns } => {
                write!(out, "columns {columns:?} cannot be lost together; certify fewer lost columns")
            }
        }
    }
}

impl std::error::Error for EvidenceError {}

/// Evidence that any `lost` columns may be lost.
///
/// Errors: a set does not survive, or there are more than `sets_most` sets and no theorem that
/// decides them. Cost: an elimination for each set.
pub fn evidence(code: &Code, lost: usize, sets_most: u64) -> Result<Evidence, EvidenceError> {
    if lost <= code.parity().len() && cauchy::is_cauchy(code) {
        return Ok(of_cauchy(code.generator()));
    }
    let have = choose(code.columns() as u64, lost as u64);
    if have > sets_most {
        return Err(EvidenceError::TooManySets { have, most: sets_most });
    }
    let count = code.equations().len();
    let mut sets = Vec::new();
    let mut is_square = true;
    for columns in Sets::new(code.columns(), lost) {
        let cells = cells_of(code, &columns);
        let mut known = Echelon::new(cells.len());
        let mut chosen = Vec::with_capacity(cells.len());
        for (number, equation) in code.equations().iter().enumerate() {
            if chosen.len() == cells.len() {
                break;
            }
            if known.insert(cells.iter().map(|&cell| equation.coefficient(cell)).collect()) {
                chosen.push(number);
            }
        }
        if chosen.len() < cells.len() {
            return Err(EvidenceError::Fatal { columns });
        }
        is_square &= chosen.len() == count;
        sets.push(chosen);
    }
    Ok(if is_square { Evidence::SquareSets } else { Evidence::Sets(sets) })
}

/// A codeword within some set of `lost` columns, the first that there is; `None` if all survive or
/// there are more sets than allowed.
pub fn codeword(code: &Code, lost: usize, sets_most: u64) -> Option<Codeword> {
    if lost > code.columns() || choose(code.columns() as u64, lost as u64) > sets_most {
        // The first set will do where every set has more cells than there are equations.
        let first: Vec<usize> = (0..lost.min(code.columns())).collect();
        return of_kernel(code, first);
    }
    Sets::new(code.columns(), lost).find_map(|columns| of_kernel(code, columns))
}

/// 1 / g_ij = u_i . v_j: what is beyond the first row's inverses is f_i times one row
/// ([`crate::cauchy`]).
fn of_cauchy(generator: &Matrix) -> Evidence {
    let one_over = |i: usize, j: usize| Gf::ONE / generator.get(i, j);
    let inverse = |i: usize, j: usize| generator.get(i, 0) / generator.get(i, j);
    let beyond = |i: usize, j: usize| inverse(i, j) + inverse(0, j);
    let pivot = (1..generator.columns()).find(|&j| !beyond(1, j).is_zero());
    let Some(pivot) = pivot else { unreachable!("a Cauchy matrix has rows that are not proportional") };
    let parities = (0..generator.rows())
        .map(|i| [one_over(i, 0), one_over(i, 0) * (beyond(i, pivot) / beyond(1, pivot))])
        .collect();
    let data = (0..generator.columns()).map(|j| [inverse(0, j), beyond(1, j)]).collect();
    Evidence::Cauchy { parities, data }
}

fn cells_of(code: &Code, columns: &[usize]) -> Vec<CellIndex> {
    columns.iter().flat_map(|&column| code.column_cells(column)).collect()
}

/// Values of the cells of these columns that fit all equations, if there are any but zeros.
fn of_kernel(code: &Code, columns: Vec<usize>) -> Option<Codeword> {
    let cells = cells_of(code, &columns);
    // One row per cell: its coefficients, and which cells it is the sum of. A row that is
    // eliminated to zero says how its cells add up to nothing.
    let count = code.equations().len();
    let mut rows: Vec<Vec<Gf>> = Vec::new();
    for (place, &cell) in cells.iter().enumerate() {
        let of_cell = code.equations().iter().map(|equation| equation.coefficient(cell));
        let mut row: Vec<Gf> = of_cell.collect();
        row.extend((0..cells.len()).map(|other| if other == place { Gf::ONE } else { Gf::ZERO }));
        for known in &rows {
            let Some(pivot) = known[..count].iter().position(|x| !x.is_zero()) else { continue };
            let factor = row[pivot] / known[pivot];
            row.iter_mut().zip(known).for_each(|(x, &y)| *x += factor * y);
        }
        if row[..count].iter().all(|x| x.is_zero()) {
            let values = cells.iter().zip(&row[count..]).filter(|(_, value)| !value.is_zero());
            return Some(Codeword { columns, cells: values.map(|(&cell, &value)| (cell, value)).collect() });
        }
        rows.push(row);
    }
    None
}

/// All sets of so many of 0..n, ascending.
struct Sets {
    n: usize,
    next: Option<Vec<usize>>,
}

impl Sets {
    fn new(n: usize, size: usize) -> Sets {
        Sets { n, next: (size <= n).then(|| (0..size).collect()) }
    }
}

impl Iterator for Sets {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        let set = self.next.take()?;
        let size = set.len();
        if let Some(at) = (0..size).rev().find(|&at| set[at] < self.n - size + at) {
            let mut later = set.clone();
            later[at] += 1;
            (at + 1..size).for_each(|i| later[i] = later[i - 1] + 1);
            self.next = Some(later);
        }
        Some(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_stands_once() {
        for (n, size) in [(5, 0), (5, 1), (5, 3), (5, 5), (3, 4)] {
            let sets: Vec<Vec<usize>> = Sets::new(n, size).collect();
            assert_eq!(sets.len() as u64, choose(n as u64, size as u64));
            assert!(sets.is_sorted_by(|a, b| a < b));
        }
    }

    #[test]
    fn evidence_says_what_it_is_of() {
        for (spec, lost) in
            [("dcode:7", 2), ("shec:6,4,3", 2), ("lrc:12,2,2", 3), ("raidq:6+4", 4), ("mirror:3", 2)]
        {
            let code = Code::parse(spec).unwrap();
            match evidence(&code, lost, 1 << 20).unwrap() {
                Evidence::Sets(sets) => {
                    assert_eq!(sets.len() as u64, choose(code.columns() as u64, lost as u64))
                }
                Evidence::SquareSets => assert!(code.claim().mds, "{spec}"),
                Evidence::Cauchy { .. } => panic!("{spec} is no Cauchy matrix"),
            }
            assert!(matches!(evidence(&code, lost + 1, 1 << 20), Err(EvidenceError::Fatal { .. })), "{spec}");
            let word = codeword(&code, lost + 1, 1 << 20).unwrap();
            assert!(!word.cells.is_empty());
            for equation in code.equations() {
                let sum: Gf =
                    word.cells.iter().map(|&(cell, value)| equation.coefficient(cell) * value).sum();
                assert!(sum.is_zero(), "{spec}");
            }
            assert_eq!(codeword(&code, lost, 1 << 20), None, "{spec}");
        }
        assert_eq!(
            evidence(&Code::parse("dcode:7").unwrap(), 2, 20),
            Err(EvidenceError::TooManySets { have: 21, most: 20 })
        );
    }

    #[test]
    fn vectors_of_a_cauchy_matrix_give_its_inverses() {
        for spec in ["rs:10+4", "raid6:250", "cauchy:20+6", "lch:20+8"] {
            let code = Code::parse(spec).unwrap();
            let m = code.parity().len();
            let Ok(Evidence::Cauchy { parities, data }) = evidence(&code, m, 0) else { panic!("{spec}") };
            let generator = code.generator();
            for (i, u) in parities.iter().enumerate() {
                for (j, v) in data.iter().enumerate() {
                    assert_eq!(generator.get(i, j) * (u[0] * v[0] + u[1] * v[1]), Gf::ONE, "{spec} {i} {j}");
                }
            }
        }
    }
}
