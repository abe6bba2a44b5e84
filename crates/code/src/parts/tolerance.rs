//! Proof of a tolerance by trying every set of columns, within a bound on the work.
//!
//! A set of columns can be lost exactly when the columns of the parity-check matrix that belong to
//! its cells are independent. A depth-first walk over the sets keeps one [`Echelon`] and inserts
//! only the cells of the newest column, so a set costs one reduction, and a dependent set ends the
//! walk: nothing larger can be tolerated.

use super::binary_field::BinaryField;
use crate::{Claim, Code};
use pantile_gf::{Echelon, Gf, choose};

/// The products of two symbols that one proof may cost, a few milliseconds: enough for all triples
/// of 30 one-row columns.
pub(crate) const WORK_MAX: u64 = 3_000_000;

/// The largest t for which every set of t columns was shown to be survivable, from `known` on.
///
/// `known` is the tolerance that the construction guarantees. The walk stops at a fatal set, at
/// `most`, or when the next level would exceed `work`. The answer is then the level reached, which
/// can be below the true tolerance.
pub(crate) fn proven(code: &Code, known: usize, most: usize, mut work: u64) -> usize {
    let columns = check_columns(code);
    let equations = code.equations().len() as u64;
    let rows = code.rows_max() as u64;
    let mut proven = known;
    while proven < most.min(code.columns()) {
        let sets = choose(code.columns() as u64, proven as u64 + 1);
        let one_set = rows * rows * (proven as u64 + 1) * equations.max(1);
        let cost = sets.saturating_mul(one_set);
        if cost > work || !level_survives(&columns, proven + 1, equations as usize) {
            break;
        }
        work -= cost;
        proven += 1;
    }
    proven
}

/// Works like [`proven`], for data columns and a parity for each row of coefficients in a field of
/// words: in rows of bytes the same proof would cost up to 64 times as much.
pub(crate) fn proven_of_words(field: &BinaryField, rows: &[Vec<usize>], most: usize, mut work: u64) -> usize {
    let (k, m) = (rows[0].len(), rows.len());
    let data = (0..k).map(|j| rows.iter().map(|row| row[j]).collect());
    let parity = (0..m).map(|i| (0..m).map(|at| usize::from(at == i)).collect());
    let columns: Vec<Vec<usize>> = data.chain(parity).collect();
    let mut proven = 0;
    while proven < most {
        let sets = choose(columns.len() as u64, proven as u64 + 1);
        let cost = sets.saturating_mul((proven as u64 + 1) * m as u64);
        if cost > work || !all_independent(field, &columns, proven + 1, &mut Vec::new()) {
            break;
        }
        work -= cost;
        proven += 1;
    }
    proven
}

/// True if any `count` of the columns are independent of each other and of the chosen ones. Each
/// chosen column begins at its pivot with 1.
fn all_independent(
    field: &BinaryField,
    columns: &[Vec<usize>],
    left: usize,
    chosen: &mut Vec<(usize, Vec<usize>)>,
) -> bool {
    left == 0
        || (0..=columns.len() - left).all(|first| {
            let mut column = columns[first].clone();
            for (pivot, other) in chosen.iter() {
                let factor = column[*pivot];
                column.iter_mut().zip(other).for_each(|(entry, &term)| *entry ^= field.product(factor, term));
            }
            let Some(pivot) = column.iter().position(|&entry| entry != 0) else { return false };
            let scale = field.inverse(column[pivot]);
            column.iter_mut().for_each(|entry| *entry = field.product(*entry, scale));
            chosen.push((pivot, column));
            let survives = all_independent(field, &columns[first + 1..], left - 1, chosen);
            chosen.pop();
            survives
        })
}

/// A claim of that tolerance, mds exactly if the redundancy is that many columns.
pub(crate) fn claim(code: &Code, tolerance: usize) -> Claim {
    let mut tallest: Vec<usize> = (0..code.columns()).map(|c| code.rows(c)).collect();
    tallest.sort_unstable_by(|a, b| b.cmp(a));
    let redundancy: usize = tallest.iter().take(tolerance).sum();
    Claim { tolerance, mds: redundancy == code.parity().len() && tolerance < code.columns() }
}

fn check_columns(code: &Code) -> Vec<Vec<Vec<Gf>>> {
    let equations = code.equations();
    let mut vectors = vec![vec![Gf::ZERO; equations.len()]; code.cell_count()];
    for (i, equation) in equations.iter().enumerate() {
        equation.terms().iter().for_each(|&(cell, c)| vectors[cell.usize()][i] = c);
    }
    (0..code.columns())
        .map(|column| {
            code.column_cells(column).map(|cell| std::mem::take(&mut vectors[cell.usize()])).collect()
        })
        .collect()
}

fn level_survives(columns: &[Vec<Vec<Gf>>], size: usize, equations: usize) -> bool {
    fn walk(columns: &[Vec<Vec<Gf>>], first: usize, left: usize, echelon: &mut Echelon) -> bool {
        if left == 0 {
            return true;
        }
        let rank = echelon.rank();
        (first..=columns.len() - left).all(|column| {
            let independent = columns[column].iter().all(|vector| echelon.insert(vector.clone()));
            let survives = independent && walk(columns, column + 1, left - 1, echelon);
            echelon.truncate(rank);
            survives
        })
    }
    walk(columns, 0, size, &mut Echelon::new(equations))
}
