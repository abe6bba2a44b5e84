//! Evidence for a tolerance: the facts by which an independent program can check it.
//!
//! Any t columns can be lost if and only if the equations, restricted to the cells of each set of t
//! columns, have full rank. The evidence has one of two forms:
//!
//! * **Sets.** For each set of t columns, in ascending order, as many equations as the set has
//!   cells, whose square matrix of coefficients on these cells is invertible. A subset of a
//!   survivable set is survivable.
//! * **Cauchy.** Vectors u_i and v_j of two coordinates with 1 / g_ij = u_i . v_j for every
//!   coefficient of the generator, where no two u_i are proportional and no two v_j. By Cauchy's
//!   determinant no minor is then zero ([`crate::cauchy`]).
//!
//! A codeword proves that t is not higher. It gives values, not all zero, to the cells of t + 1
//! columns; with zeros in all other cells they satisfy every equation. If these columns are lost,
//! its stripe cannot be distinguished from a stripe of zeros.
//!
//! Sets are found by elimination, vectors of Cauchy codes from inverses of the generator. The
//! checker uses determinants and sums, and shares no code: `reference/check_certificate.py`.

use crate::cauchy;
use pantile_code::{CellIndex, Code};
use pantile_gf::{Echelon, Gf, Matrix, choose};
use std::fmt;
use std::ops::ControlFlow;

/// Evidence that any set of a given number of columns can be lost.
#[derive(Clone, Debug)]
pub enum Evidence<'c> {
    /// Two coordinates for each parity, and for each data cell.
    Cauchy {
        /// u_i, parity by parity.
        parities: Vec<[Gf; 2]>,
        /// v_j, data cell by data cell in user order.
        data: Vec<[Gf; 2]>,
    },
    /// For each set of columns, ascending, the indices of its equations. They are computed one set
    /// at a time and not stored.
    Sets(Witnesses<'c>),
    /// Every set has as many cells as there are equations, so each set uses all equations.
    SquareSets,
}

/// Limits on the cost of evidence. They are checked before any work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvidenceLimits {
    /// The most sets of columns.
    pub sets_most: u64,
    /// The most steps, each of about a nanosecond of one core: once for the evidence, and once for
    /// the codeword.
    pub work_most: u64,
    /// The most bytes that the indices of the equations take as text.
    pub text_bytes_most: u64,
}

/// Values of cells that satisfy every equation if all other cells are zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codeword {
    /// Columns of its cells, ascending.
    pub columns: Vec<usize>,
    /// The cells that are not zero.
    pub cells: Vec<(CellIndex, Gf)>,
}

/// Reason why there is no evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvidenceError {
    /// More sets than were allowed.
    TooManySets {
        /// The number of sets.
        have: u64,
        /// The most that were allowed.
        most: u64,
    },
    /// More work than was allowed.
    TooMuchWork {
        /// A number of steps that suffices.
        suffices: u64,
        /// The most that were allowed.
        most: u64,
    },
    /// More text than was allowed.
    TooLong {
        /// A number of bytes that suffices.
        suffices: u64,
        /// The most that were allowed.
        most: u64,
    },
    /// The caller ended the work.
    Ended,
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
                write!(out, "evidence for each of {have} sets of columns, where {most} are allowed")
            }
            EvidenceError::TooMuchWork { suffices, most } => {
                write!(out, "the evidence takes up to {suffices} steps, where {most} are allowed")
            }
            EvidenceError::TooLong { suffices, most } => {
                write!(out, "the evidence takes up to {suffices} bytes, where {most} are allowed")
            }
            EvidenceError::Ended => write!(out, "it was ended before the evidence was complete"),
            EvidenceError::Fatal { columns } => {
                write!(out, "columns {columns:?} cannot be lost together; certify fewer lost columns")
            }
        }
    }
}

impl std::error::Error for EvidenceError {}

/// Returns evidence that any `lost` columns can be lost. `goes_on` is called often; the work ends
/// when it returns `false`.
///
/// Errors: a limit that the evidence could exceed, where no theorem decides the sets; a fatal set,
/// which is also reported while [`Witnesses`] are read. Cost: one elimination per set, here or
/// while [`Witnesses`] are read.
pub fn evidence<'c>(
    code: &'c Code,
    lost: usize,
    limits: &EvidenceLimits,
    goes_on: &'c dyn Fn() -> bool,
) -> Result<Evidence<'c>, EvidenceError> {
    if lost <= code.parity().len() && cauchy::is_cauchy(code) {
        return Ok(of_cauchy(code.generator()));
    }
    let have = choose(code.columns() as u64, lost as u64);
    if have > limits.sets_most {
        return Err(EvidenceError::TooManySets { have, most: limits.sets_most });
    }
    let mut heights: Vec<usize> = (0..code.columns()).map(|column| code.rows(column)).collect();
    heights.sort_unstable();
    let least: usize = heights.iter().take(lost).sum();
    let most: usize = heights.iter().rev().take(lost).sum();
    let suffices = u64::try_from(u128::from(have) * elimination(code, most)).unwrap_or(u64::MAX);
    if suffices > limits.work_most {
        return Err(EvidenceError::TooMuchWork { suffices, most: limits.work_most });
    }
    let mut witnesses = Witnesses { code, sets: Sets::new(code.columns(), lost), goes_on };
    let count = code.equations().len();
    if (least, most) == (count, count) {
        // Each set uses all equations, so no list is stored; the sets are only tested.
        witnesses.try_for_each(|witness| witness.map(drop))?;
        return Ok(Evidence::SquareSets);
    }
    let suffices = text_bytes(code, lost, have);
    if suffices > limits.text_bytes_most {
        return Err(EvidenceError::TooLong { suffices, most: limits.text_bytes_most });
    }
    Ok(Evidence::Sets(witnesses))
}

/// The steps of looking up and storing one coefficient.
const LOOK_UP: u128 = 8;

/// The most steps of the elimination of one set with `cells` cells: each equation is looked up and
/// reduced by those chosen before.
fn elimination(code: &Code, cells: usize) -> u128 {
    let cells = cells as u128;
    code.equations().len() as u128 * cells * (cells + LOOK_UP) + 1
}

/// The most bytes that the indices of the equations take for all sets as JSON.
fn text_bytes(code: &Code, lost: usize, sets: u64) -> u64 {
    const OF_A_SET: u128 = "[],".len() as u128;
    let number = code.equations().len().saturating_sub(1).to_string().len() as u128 + 1;
    // A column is in as many sets as there are sets of `lost - 1` other columns.
    let others = (code.columns() as u64).saturating_sub(1);
    let of_a_column = lost.checked_sub(1).map_or(0, |lost| choose(others, lost as u64));
    let cells: usize = (0..code.columns()).map(|column| code.rows(column)).sum();
    let numbers = u128::from(of_a_column).saturating_mul(cells as u128);
    let bytes = numbers.saturating_mul(number).saturating_add(u128::from(sets) * OF_A_SET);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// An iterator that finds the equations of one set after the other. It ends after an error.
#[derive(Clone)]
pub struct Witnesses<'c> {
    code: &'c Code,
    sets: Sets,
    goes_on: &'c dyn Fn() -> bool,
}

impl Witnesses<'_> {
    fn of(&self, columns: Vec<usize>) -> Result<Vec<usize>, EvidenceError> {
        let cells = cells_of(self.code, &columns);
        let mut known = Echelon::new(cells.len());
        let mut chosen = Vec::with_capacity(cells.len());
        for (number, equation) in self.code.equations().iter().enumerate() {
            if !(self.goes_on)() {
                return Err(EvidenceError::Ended);
            }
            if chosen.len() == cells.len() {
                break;
            }
            if known.insert(cells.iter().map(|&cell| equation.coefficient(cell)).collect()) {
                chosen.push(number);
            }
        }
        match chosen.len() < cells.len() {
            true => Err(EvidenceError::Fatal { columns }),
            false => Ok(chosen),
        }
    }
}

impl Iterator for Witnesses<'_> {
    type Item = Result<Vec<usize>, EvidenceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let columns = self.sets.next()?;
        let found = self.of(columns);
        if found.is_err() {
            self.sets.next = None;
        }
        Some(found)
    }
}

impl fmt::Debug for Witnesses<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Witnesses").field("code", &self.code.spec()).field("sets", &self.sets).finish()
    }
}

/// Returns a codeword within the first fatal set of `lost` columns. `None` if all sets survive, if
/// the limits are reached first, or if `goes_on` returns `false`.
pub fn codeword(
    code: &Code,
    lost: usize,
    limits: &EvidenceLimits,
    goes_on: &dyn Fn() -> bool,
) -> Option<Codeword> {
    let mut left = u128::from(limits.work_most);
    let mut of_set = |columns: Vec<usize>| -> ControlFlow<Option<Codeword>> {
        match left.checked_sub(kernel(code, &columns)).filter(|_| goes_on()) {
            Some(rest) => left = rest,
            None => return ControlFlow::Break(None),
        }
        match of_kernel(code, columns, goes_on) {
            None => ControlFlow::Continue(()),
            found => ControlFlow::Break(found),
        }
    };
    let found = if lost > code.columns() || choose(code.columns() as u64, lost as u64) > limits.sets_most {
        // Where every set has more cells than there are equations, the first set has a codeword.
        of_set((0..lost.min(code.columns())).collect())
    } else {
        Sets::new(code.columns(), lost).try_for_each(of_set)
    };
    found.break_value().flatten()
}

/// The most steps that [`of_kernel`] takes: of one row more than there are equations, one is a sum
/// of the others.
fn kernel(code: &Code, columns: &[usize]) -> u128 {
    let cells = columns.iter().map(|&column| code.rows(column)).sum::<usize>();
    let count = code.equations().len();
    let (rows, length) = (cells.min(count + 1) as u128, (count + cells) as u128);
    rows * length * (rows.div_ceil(2) + LOOK_UP)
}

/// Returns vectors with 1 / g_ij = u_i . v_j: each normalised row of inverses is the first one plus
/// f_i times one common row ([`crate::cauchy`]).
fn of_cauchy(generator: &Matrix) -> Evidence<'static> {
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

/// Returns values, not all zero, of the cells of these columns that satisfy all equations. `None`
/// if there are none, or if the caller ends the search.
fn of_kernel(code: &Code, columns: Vec<usize>, goes_on: &dyn Fn() -> bool) -> Option<Codeword> {
    let cells = cells_of(code, &columns);
    // One row per cell: its coefficients, then the factors of the cells that were added to it. In a
    // row that is eliminated to zero, these factors are the codeword.
    let count = code.equations().len();
    let mut rows: Vec<Vec<Gf>> = Vec::new();
    for (place, &cell) in cells.iter().enumerate() {
        if !goes_on() {
            return None;
        }
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

/// An iterator over all sets of one size out of 0..n, ascending.
#[derive(Clone, Debug)]
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

    const LIMITS: EvidenceLimits =
        EvidenceLimits { sets_most: 1 << 20, work_most: 1 << 40, text_bytes_most: 1 << 20 };
    const ON: &dyn Fn() -> bool = &|| true;

    /// Returns all witnesses of the evidence.
    fn whole(code: &Code, lost: usize, limits: &EvidenceLimits) -> Result<Vec<Vec<usize>>, EvidenceError> {
        match evidence(code, lost, limits, ON)? {
            Evidence::Sets(witnesses) => witnesses.collect(),
            Evidence::SquareSets | Evidence::Cauchy { .. } => Ok(Vec::new()),
        }
    }

    #[test]
    fn evidence_says_what_it_is_of() {
        for (spec, lost) in
            [("dcode:7", 2), ("shec:6,4,3", 2), ("lrc:12,2,2", 3), ("raidq:6+4", 4), ("mirror:3", 2)]
        {
            let code = Code::parse(spec).unwrap();
            match evidence(&code, lost, &LIMITS, ON).unwrap() {
                Evidence::Sets(sets) => {
                    assert_eq!(sets.count() as u64, choose(code.columns() as u64, lost as u64))
                }
                Evidence::SquareSets => assert!(code.claim().mds, "{spec}"),
                Evidence::Cauchy { .. } => panic!("{spec} is no Cauchy matrix"),
            }
            assert!(matches!(whole(&code, lost + 1, &LIMITS), Err(EvidenceError::Fatal { .. })), "{spec}");
            let word = codeword(&code, lost + 1, &LIMITS, ON).unwrap();
            assert!(!word.cells.is_empty());
            for equation in code.equations() {
                let sum: Gf =
                    word.cells.iter().map(|&(cell, value)| equation.coefficient(cell) * value).sum();
                assert!(sum.is_zero(), "{spec}");
            }
            assert_eq!(codeword(&code, lost, &LIMITS, ON), None, "{spec}");
        }
        let (code, few) = (Code::parse("dcode:7").unwrap(), EvidenceLimits { sets_most: 20, ..LIMITS });
        assert_eq!(whole(&code, 2, &few), Err(EvidenceError::TooManySets { have: 21, most: 20 }));
    }

    /// A limit is never exceeded, and the error states a limit that suffices.
    #[test]
    fn limits_are_asked_before_anything_is_spent() {
        for (spec, lost) in [("shec:6,4,3", 2), ("lrc:12,2,2", 3), ("dcode:7", 1)] {
            let code = Code::parse(spec).unwrap();
            let never: &dyn Fn() -> bool = &|| panic!("work is done");
            let none = EvidenceLimits { text_bytes_most: 0, ..LIMITS };
            let Err(EvidenceError::TooLong { suffices, most: 0 }) = evidence(&code, lost, &none, never)
            else {
                panic!("{spec}");
            };
            let enough = EvidenceLimits { text_bytes_most: suffices, ..LIMITS };
            let sets = whole(&code, lost, &enough).unwrap();
            let text: u64 = sets.iter().map(|set| format!("{set:?},").replace(' ', "").len() as u64).sum();
            assert!((suffices / 2..=suffices).contains(&text), "{spec}: {text} of {suffices}");
            let none = EvidenceLimits { work_most: 0, ..LIMITS };
            let Err(EvidenceError::TooMuchWork { suffices, most: 0 }) = evidence(&code, lost, &none, never)
            else {
                panic!("{spec}");
            };
            let enough = EvidenceLimits { work_most: suffices, ..LIMITS };
            assert_eq!(whole(&code, lost, &enough), Ok(sets), "{spec}");
            assert_eq!(codeword(&code, lost + 1, &none, &|| true), None, "{spec}");
        }
    }

    #[test]
    fn it_ends_when_somebody_wants_it_to() {
        for (spec, lost) in [("shec:6,4,3", 2), ("dcode:7", 2)] {
            let code = Code::parse(spec).unwrap();
            let asked = std::cell::Cell::new(0);
            let three_times = || asked.replace(asked.get() + 1) < 3;
            let found = match evidence(&code, lost, &LIMITS, &three_times) {
                Ok(Evidence::Sets(sets)) => sets.collect::<Result<Vec<_>, _>>().map(drop),
                other => other.map(drop),
            };
            assert_eq!((found, asked.get()), (Err(EvidenceError::Ended), 4), "{spec}");
            assert_eq!(codeword(&code, lost + 1, &LIMITS, &three_times), None, "{spec}");
        }
    }

    #[test]
    fn vectors_of_a_cauchy_matrix_give_its_inverses() {
        for spec in ["rs:10+4", "raid6:250", "cauchy:20+6", "lch:20+8"] {
            let code = Code::parse(spec).unwrap();
            let m = code.parity().len();
            let none = EvidenceLimits { sets_most: 0, work_most: 0, text_bytes_most: 0 };
            let Ok(Evidence::Cauchy { parities, data }) = evidence(&code, m, &none, ON) else {
                panic!("{spec}")
            };
            let generator = code.generator();
            for (i, u) in parities.iter().enumerate() {
                for (j, v) in data.iter().enumerate() {
                    assert_eq!(generator.get(i, j) * (u[0] * v[0] + u[1] * v[1]), Gf::ONE, "{spec} {i} {j}");
                }
            }
        }
    }
}
