//! Cauchy Reed-Solomon by bit matrices: k + m columns of w rows, only XORs, the chunks of
//! Jerasure's `cauchy_good` and `cauchy_orig`.
//!
//! Multiplication by an element e of GF(2^w) is linear over bits: row r, column x of its matrix is
//! bit r of e a^x. So each coefficient of an m x k matrix over GF(2^w) becomes w x w bits, and row
//! r of parity i is the XOR of those rows x of data columns j whose bit is set.
//!
//! - `orig`: the coefficient of data j in parity i is 1 / (i xor (m + j)). The numbers i and m + j
//!   all differ, so it is a Cauchy matrix as long as k + m <= 2^w.
//! - Without `orig` there are fewer XORs: each column is divided by its first coefficient, so that
//!   row 0 is all ones. Each other row is then divided by the one of its coefficients that leaves
//!   the fewest one bits in the row (among equals the first), if these are fewer than before. For m
//!   = 2 the second row is instead the k elements whose matrices have the fewest ones, among equals
//!   the smaller first; Jerasure has this row in tables, up to w = 11. It has different elements
//!   for up to 2^w - 1 data columns.
//!
//! Any m columns can be lost. No square minor of a Cauchy matrix is zero, and scaling rows and
//! columns keeps that. For m = 2 it holds because the second row has different elements, none of
//! them 0. Matrices of elements add and multiply as the elements do, so a square of blocks is
//! invertible over bits as its minor is over GF(2^w); and 0 and 1 are the same in GF(2^8).
//!
//! Source: J. Bloemer et al., "An XOR-based erasure-resilient coding scheme" (1995); J. S. Plank,
//! L. Xu, "Optimizing Cauchy Reed-Solomon codes" (2006); Jerasure 2, cauchy.c.

use super::{Family, Width};
use crate::parts::binary_field::{BinaryField, WORDS};
use crate::parts::bit_matrices::of_coefficients;
use crate::{Arguments, Claim, Code, CodeError, Hint};

pub(super) const FAMILY: Family = Family {
    name: "crs",
    summary: "Cauchy Reed-Solomon by XORs alone, as Jerasure and Ceph write it: any m columns can be lost",
    forms: &["crs:k+m", "crs:k+m,w=W", "crs:k+m,orig", "crs:k+m,w=W,orig"],
    examples: &["crs:6+3", "crs:10+4,w=4", "crs:4+2,w=3,orig"],
    small: &["crs:3+2,w=3", "crs:6+3,w=4", "crs:4+2,orig", "crs:2+2,w=16"],
    width: Width::DataPlus(3),
    source: "Bloemer et al., 1995; Plank, Xu, Optimizing Cauchy Reed-Solomon codes (2006); Jerasure 2",
    build,
};

/// The most parities. There are w equations for each, and the plan of a recovery searches the sums
/// of all equations. With 16 and w = 8 the first plan for one lost column takes about a second,
/// with 128 most of a minute.
const MOST_PARITIES: usize = 16;

/// The most rows of all parities together, for the same reason.
const MOST_PARITY_ROWS: usize = 8 * MOST_PARITIES;

/// The most columns, also for longer words: the number of elements of GF(2^8) plus one. Longer
/// words exist only for chunks of other systems.
const MOST_COLUMNS_OF_WORDS: usize = 257;

/// The longest words for which Jerasure has tables.
const TABLE_WORD_MAX: usize = 11;

/// Coefficients over GF(2^w), one list per parity.
type Coefficients = Vec<Vec<usize>>;

fn build(arguments: &mut Arguments) -> Result<Code, CodeError> {
    let (k, m) = arguments.sum()?;
    let word_hint = Hint {
        below: "two columns are raid5:1",
        above: "Jerasure has none, and w=8 has room for 256 columns",
    };
    let word = arguments.count_value("w", *WORDS.start(), *WORDS.end(), word_hint)?.unwrap_or(8);
    let is_original = arguments.flag("orig");
    arguments.finish()?;
    let limit = "GF(2^w) has one element for each column";
    arguments.in_range("k, the number of data columns,", k, 1, 255, limit)?;
    let most = MOST_PARITIES.min(MOST_PARITY_ROWS / word);
    arguments.in_range("m, the number of parity columns,", m, 1, most, "use rs or lch for more")?;
    let field = BinaryField::new(word);
    let has_table = m == 2 && !is_original && word <= TABLE_WORD_MAX;
    let most = (field.size() + usize::from(has_table)).min(MOST_COLUMNS_OF_WORDS);
    let hint = match word {
        0..8 => "GF(2^w) has no more elements; take a larger w",
        8 => "GF(2^8) has no more elements",
        _ => "no code has longer stripes",
    };
    arguments.in_range("k + m", k + m, 2, most, hint)?;
    let coefficients = match (is_original, has_table) {
        (true, _) => cauchy(&field, k, m),
        (_, true) => fewest_ones(&field, k),
        _ => improved(&field, cauchy(&field, k, m)),
    };
    let mut spec = format!("crs:{k}+{m}");
    if word != 8 {
        spec += &format!(",w={word}");
    }
    if is_original {
        spec += ",orig";
    }
    Ok(of_coefficients(&field, &coefficients).finish(spec, "crs", Claim { tolerance: m, mds: true }))
}

/// Returns the coefficients of Jerasure's `cauchy_original_coding_matrix`.
fn cauchy(field: &BinaryField, k: usize, m: usize) -> Coefficients {
    (0..m).map(|i| (0..k).map(|j| field.inverse(i ^ (m + j))).collect()).collect()
}

/// Returns the coefficients after Jerasure's `cauchy_improve_coding_matrix`.
fn improved(field: &BinaryField, mut rows: Coefficients) -> Coefficients {
    let scales: Vec<usize> = rows[0].iter().map(|&first| field.inverse(first)).collect();
    for row in &mut rows {
        row.iter_mut().zip(&scales).for_each(|(coefficient, &scale)| *coefficient = field.product(*coefficient, scale));
    }
    for row in &mut rows[1..] {
        let ones = |scale: usize| row.iter().map(|&c| field.ones(field.product(c, scale))).sum::<u32>();
        // `min_by_key` takes the first of equals, and 1 comes first.
        let scales = std::iter::once(1).chain(row.iter().map(|&coefficient| field.inverse(coefficient)));
        let scale = scales.min_by_key(|&scale| ones(scale)).unwrap_or(1);
        row.iter_mut().for_each(|coefficient| *coefficient = field.product(*coefficient, scale));
    }
    rows
}

/// Returns the coefficients of Jerasure's tables for two parities (`cbest_2` and following), by the
/// rule behind them.
fn fewest_ones(field: &BinaryField, k: usize) -> Coefficients {
    let mut second: Vec<usize> = (1..field.size()).collect();
    second.sort_by_cached_key(|&element| field.ones(element));
    second.truncate(k);
    vec![vec![1; k], second]
}
