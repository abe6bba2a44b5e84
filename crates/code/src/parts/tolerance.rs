//! Proof of a tolerance by trying every set of columns, within a bound on the work.
//!
//! A set of columns may be lost exactly when the columns of the parity-check matrix that belong to
//! its cells are independent. A depth-first walk over the sets keeps one [`Echelon`] and inserts
//! only the cells of the newest column, so a set costs one reduction, and a dependent set ends the
//! walk: nothing larger can be tolerated.

use crate::{Claim, Code};
use pantile_gf::{Echelon, Gf, choose};

/// The products of two symbols that one proof may cost, a few milliseconds: enough for all triples
/// of 30 one-row columns.
pub(crate) const WORK_MAX: u64 = 3_000_000;

/// The largest t for which every set of t columns was shown to be survivable, from `known` on.
///
/// `known` is what the construction guarantees. The walk stops at a fatal set, at `most`, or when
/// the next level would cost more than what is left of `work`; the answer is then the level
/// reached, which may be below the truth.
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
