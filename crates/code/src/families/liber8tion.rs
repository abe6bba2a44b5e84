//! Plank's Liber8tion code: k + 2 columns of 8 rows, k up to 8, only XORs; Jerasure's and Ceph's
//! `liber8tion`.
//!
//! Row r of P is the XOR of row r of all data columns. Row r of Q has one element of each data
//! column j, by a permutation of the column. For each j except the first, one row has one more
//! element. No code with two parities can have fewer elements. Liberation codes have as few, but
//! none exists for 8 rows. No rule for these matrices is known. Plank found them by a search, so
//! the tolerance is counted when a code is built.
//!
//! Source: J. S. Plank, "The RAID-6 Liber8Tion code" (International Journal of High Performance
//! Computing Applications 23, 2009); Jerasure 2, liberation.c.

use super::{Family, Width};
use crate::parts::bit_matrices::minimum_density;
use crate::parts::tolerance::{WORK_MAX, proven};
use crate::{Arguments, Code, CodeError};

pub(super) const FAMILY: Family = Family {
    name: "liber8tion",
    summary: "XOR RAID-6 with the fewest updates, rows a power of two, as Jerasure and Ceph write it: any 2 of k + 2 columns",
    forms: &["liber8tion:k"],
    examples: &["liber8tion:6", "liber8tion:8"],
    small: &["liber8tion:4"],
    width: Width::DataAnd(2),
    source: "Plank, The RAID-6 Liber8Tion code (IJHPCA 2009); Jerasure 2",
    build,
};

const WORD: usize = 8;

/// The matrices of all data columns except the first, whose matrix is the identity. Each has the
/// element in rows 0 to 7 of Q, one octal digit each; then the row of Q with a second element, and
/// that element.
const MATRICES: [(u32, usize, usize); WORD - 1] = [
    (0o73026154, 4, 7),
    (0o62407315, 1, 3),
    (0o25760341, 5, 4),
    (0o56172430, 2, 0),
    (0o12345670, 7, 2),
    (0o30651742, 6, 5),
    (0o47153206, 3, 1),
];

fn build(arguments: &mut Arguments) -> Result<Code, CodeError> {
    let hint = "there are eight matrices; use liberation, raid6 or an array code for more";
    let k = arguments.count("k, the number of data columns,", 1, WORD, hint)?;
    arguments.finish()?;
    let code = minimum_density(k, WORD, |r, j| {
        let Some(&(elements, row, more)) = j.checked_sub(1).map(|i| &MATRICES[i]) else { return vec![r] };
        let element = elements >> (3 * (WORD - 1 - r)) & 7;
        std::iter::once(element as usize).chain((r == row).then_some(more)).collect()
    });
    Ok(code.finish_proven(format!("liber8tion:{k}"), "liber8tion", |code| proven(code, 1, 2, WORK_MAX)))
}
