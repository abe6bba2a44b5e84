//! Blaum-Roth codes: k + 2 columns of w rows, p = w + 1 prime, only XORs; Jerasure's and Ceph's
//! `blaum_roth`.
//!
//! Rows are numbered from 1 here, and all numbers are mod p. Row r of P is the XOR of row r of all
//! data columns. Row r of Q has element r + j of each data column j; if r + j is 0, which is no
//! row, it has elements j and j/2 instead.
//!
//! Any two columns can be lost if all X_j and X_i + X_j are invertible (`parts/bit_matrices.rs`):
//!
//! - X_j without row -j is a permutation that lacks column j, and row -j has column j and one more
//!   entry: the determinant is 1.
//! - Read row r of X_i + X_j as an edge from r + i to r + j. The nodes are the numbers mod p;
//!   column 0 of the matrix does not exist. A row 0, which does not exist, would be the edge from i
//!   to j; the others are a path from i to j through all numbers, so as a matrix they have
//!   determinant
//!   1. There remain the sums j + j/2 in row -j and i + i/2 in row -i.
//! - i = 0: column 0 is the end of the path, where row -j is. The inverse takes row -j to all
//!   columns together, and of these the sum of two is 0: the determinant stays 1.
//! - Else rows -i and -j are the edges at 0. The inverse takes them to the parts A, which ends with
//!   i, and B, which ends with j, of the path on both sides of 0. So the determinant is that of the
//!   2 x 2 matrix with a = \[i/2 in A\], b = \[j/2 in A\] in one column and 1 + a, 1 + b in the
//!   other: a + b. Count in steps of j - i from 0: A is 1 .. t, its end i; B is t + 1 .. w, its
//!   beginning j. If t is even, i/2 is at t/2, in A, and j/2 at (t + 1 + p)/2, in B; if t is odd,
//!   i/2 is at (t + p)/2, in B, and j/2 at (t + 1)/2, in A.
//!
//! Ceph also accepts w = 7, its default if a profile has no w, although 8 is no prime. Pantile
//! accepts it with its true tolerance: one lost column, and two only for k = 1 and 2. There j/2 of
//! an odd j is (j + 9)/2.
//!
//! Source: M. Blaum, R. M. Roth, "On lowest density MDS codes" (IEEE Trans. Information Theory 45,
//! 1999); Jerasure 2, liberation.c.

use super::{Family, Width};
use crate::parts::bit_matrices::{Words, minimum_density};
use crate::parts::tolerance::{WORK_MAX, proven};
use crate::{Arguments, Claim, Code, CodeError};

pub(super) const FAMILY: Family = Family {
    name: "blaumroth",
    summary: "XOR RAID-6 with the fewest updates, as Jerasure and Ceph write it (blaum_roth): any 2 of k + 2 columns",
    forms: &["blaumroth:k", "blaumroth:k,w=W"],
    examples: &["blaumroth:6", "blaumroth:4,w=10"],
    small: &["blaumroth:4", "blaumroth:5,w=7"],
    width: Width::DataAnd(2),
    source: "Blaum, Roth, On lowest density MDS codes (IEEE Trans. IT 1999); Jerasure 2",
    build,
};

/// Ceph's default.
const NOT_PRIME: usize = 7;

const WORDS: Words = Words { prime_less: 1, rule: "w must be one less than a prime", tolerated: Some(NOT_PRIME) };

fn build(arguments: &mut Arguments) -> Result<Code, CodeError> {
    let (k, word, spec) = WORDS.take(arguments)?;
    let prime = word + 1;
    // `prime` is 8 for w = 7; `prime | 1` is odd in any case, so that its sum with an odd j is
    // even.
    let half = |j: usize| if j.is_multiple_of(2) { j / 2 } else { (j + (prime | 1)) / 2 };
    let mut code = minimum_density(k, word, |r, j| match (r + 1 + j) % prime {
        0 => vec![j - 1, half(j) - 1],
        element => vec![element - 1],
    });
    let spec = format!("blaumroth:{spec}");
    if word != NOT_PRIME {
        return Ok(code.finish(spec, "blaumroth", Claim { tolerance: 2, mds: true }));
    }
    if k > 2 {
        code.study_only("w=7 is kept for chunks that Ceph wrote; 8 is no prime, and there are fatal pairs of columns, {0,2} the first");
    }
    Ok(code.finish_proven(spec, "blaumroth", |code| proven(code, 1, 2, WORK_MAX)))
}
