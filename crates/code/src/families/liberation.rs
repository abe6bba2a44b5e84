//! Plank's Liberation codes: k + 2 columns of w rows, w prime, only XORs; Jerasure's and Ceph's
//! `liberation`.
//!
//! Row r of P is the XOR of row r of all data columns. Row r of Q has element r + j (mod w) of each
//! data column j. For each j except the first, one row y has one more element, y + j - 1, with 2
//! y + j = 0 (mod w).
//!
//! Any two columns can be lost if all X_j and X_i + X_j are invertible (`parts/bit_matrices.rs`).
//! All numbers are mod w.
//!
//! - X_j is a permutation plus one entry outside it, so its determinant is 1.
//! - Of X_i + X_j take the permutations alone. Row r is an edge from r + i to r + j in a graph
//!   whose nodes are the columns of the matrix. Steps of d = j - i meet all nodes, since w is
//!   prime, so the graph is a circle. Such a matrix has determinant 0, and each minor of one row
//!   less is 1.
//! - With i = 0 one entry is added, and with it one such minor: the determinant is 1.
//! - Else two are added, and with them two such minors, which add up to 0. There remains the minor
//!   without the rows and the columns of both. Without the two edges the circle is two paths, and
//!   the minor is 1 if each path has lost one node. Count in steps of d from i/2. The edges are 0
//!   to 1 and (w - 1)/2 to (w + 1)/2, and the paths are 1 .. (w - 1)/2 and (w + 1)/2 .. w. The
//!   columns i/2 - 1 and j/2 - 1 are at s = -1/d and at s + (w + 1)/2. From any s except 0,
//!   (w + 1)/2 steps lead from one path to the other.
//!
//! Source: J. S. Plank, "The RAID-6 Liberation codes" (FAST 2008); Jerasure 2, liberation.c.

use super::{Family, Width};
use crate::parts::bit_matrices::{Words, minimum_density};
use crate::{Arguments, Claim, Code, CodeError};

pub(super) const FAMILY: Family = Family {
    name: "liberation",
    summary: "XOR RAID-6 with the fewest updates, as Jerasure and Ceph write it: any 2 of k + 2 columns",
    forms: &["liberation:k", "liberation:k,w=W"],
    examples: &["liberation:5", "liberation:6,w=11"],
    small: &["liberation:3,w=7"],
    width: Width::DataAnd(2),
    source: "Plank, The RAID-6 Liberation codes (FAST 2008); Jerasure 2",
    build,
};

const WORDS: Words = Words { prime_less: 0, rule: "w must be a prime", tolerated: None };

fn build(arguments: &mut Arguments) -> Result<Code, CodeError> {
    let (k, word, spec) = WORDS.take(arguments)?;
    let code = minimum_density(k, word, |r, j| {
        let mut rows = vec![(r + j) % word];
        if j > 0 && (2 * r + j) % word == 0 {
            rows.push((r + j - 1) % word);
        }
        rows
    });
    Ok(code.finish(format!("liberation:{spec}"), "liberation", Claim { tolerance: 2, mds: true }))
}
