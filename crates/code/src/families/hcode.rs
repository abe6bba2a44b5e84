//! H-Code: p + 1 disks of p - 1 rows, p prime, with one parity disk and spread anti-diagonal
//! parities.
//!
//! Disk p is the row parity; the anti-diagonal parities are the cells (i, i + 1).
//!
//! Row i of disk p is the XOR of row i without \[i\]\[i+1\]; \[i\]\[i+1\] is the XOR of
//! \[p - 2 - i + j\]\[j\], rows mod p, over j other than i + 1. Two elements in a row share their
//! row parity, and consecutive elements across a row's end share an anti-diagonal, so partial
//! writes are cheap; every element is in exactly two chains.
//!
//! Fewer disks: disk 0 has only data and is removed first. Then the last disk before the row parity
//! is removed by shortening with promotion, one at a time (`parts/chains.rs`), for any number from
//! 4 on. The row-parity disk is kept: without it a cell of every row would have to be promoted, and
//! each small write would change three parities.
//!
//! Source: C. Wu et al., "H-Code: a hybrid MDS array code to optimize partial stripe writes in
//! RAID-6" (IPDPS 2011).

use super::{Family, Width};
use crate::parts::chains::{Chains, Construction, array};
use crate::{Arguments, Code, CodeError};

pub(super) const FAMILY: Family = Family {
    name: "hcode",
    summary: "XOR RAID-6 with one parity disk and spread anti-diagonals, cheap partial writes: any 2 of n disks",
    forms: &["hcode:n"],
    examples: &["hcode:6", "hcode:8"],
    small: &["hcode:4", "hcode:5"],
    width: Width::Disks,
    source: "Wu et al., H-Code (IPDPS 2011)",
    build,
};

const CONSTRUCTION: Construction =
    Construction { family: "hcode", chains, columns_more: 1, least_prime: 5, data_only: |_| vec![0], last_kept: 1 };

fn build(arguments: &mut Arguments) -> Result<Code, CodeError> {
    let (n, _) = array(arguments, 4, false)?;
    Ok(CONSTRUCTION.code(n))
}

fn chains(p: usize) -> Chains {
    let mut code = Chains::new(p - 1, p + 1);
    let others = |i: usize| (0..p).filter(move |&j| j != i + 1);
    (0..p - 1).for_each(|i| code.chain((i, p), others(i).map(|j| (i, j))));
    (0..p - 1).for_each(|i| code.chain((i, i + 1), others(i).map(|j| ((p - 2 - i + j) % p, j))));
    code
}
