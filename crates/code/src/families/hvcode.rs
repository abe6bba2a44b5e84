//! HV Code: p - 1 disks of p - 1 rows, p prime, a horizontal and a vertical parity in every row.
//!
//! In the paper rows and columns are numbered from 1 to p - 1, and <x> is x mod p. The horizontal
//! parity \[i, <2i>\] is the XOR of the rest of row i without \[i, <4i>\]. That cell is the
//! vertical parity: the XOR of \[k, j\] over the columns j other than <4i> and <8i>, with the row k
//! such that <2k + 4i> = j. Every column has one parity of each kind, so reads and writes are
//! balanced, and a data element is in exactly two chains. From p = 5 on, 2 and 4 are invertible and
//! differ from 1 mod p.
//!
//! Any two columns can be lost by the paper's theorem 1. This is counted for every code up to 25
//! columns (`claims_are_true_where_small`) and for p up to 23 by the independent reference.
//!
//! Fewer disks: no disk has only data, so the last disks are removed by shortening with promotion
//! (`parts/chains.rs`), for any number from 4 on.
//!
//! Source: Z. Shen, J. Shu, "HV code: an all-around MDS code to improve efficiency and reliability
//! of RAID-6 systems" (DSN 2014).

use super::{Family, Width};
use crate::parts::chains::{Chains, Construction, array};
use crate::{Arguments, Code, CodeError};

pub(super) const FAMILY: Family = Family {
    name: "hvcode",
    summary: "XOR RAID-6 without parity disks, short vertical chains: any 2 of n disks",
    forms: &["hvcode:n"],
    examples: &["hvcode:6", "hvcode:8"],
    small: &["hvcode:4", "hvcode:5"],
    width: Width::Disks,
    source: "Shen, Shu, HV code (DSN 2014)",
    build,
};

const CONSTRUCTION: Construction = Construction {
    family: "hvcode",
    chains,
    columns_more: -1,
    least_prime: 5,
    data_only: |_| vec![],
    last_kept: 0,
};

fn build(arguments: &mut Arguments) -> Result<Code, CodeError> {
    let (n, _) = array(arguments, 4, false)?;
    Ok(CONSTRUCTION.code(n))
}

fn chains(p: usize) -> Chains {
    // Converts a cell of the paper, whose rows and columns start at 1.
    let cell = |row: usize, column: usize| (row - 1, column - 1);
    let mut code = Chains::new(p - 1, p - 1);
    for i in 1..p {
        let (horizontal, vertical) = (2 * i % p, 4 * i % p);
        let rest = (1..p).filter(|&j| j != horizontal && j != vertical);
        code.chain(cell(i, horizontal), rest.map(|j| cell(i, j)));
    }
    let half = p.div_ceil(2); // 2 * half = 1 mod p
    for i in 1..p {
        let (vertical, skipped) = (4 * i % p, 8 * i % p);
        let row = |j: usize| (j + p - vertical) * half % p;
        let columns = (1..p).filter(|&j| j != vertical && j != skipped);
        code.chain(cell(i, vertical), columns.map(|j| cell(row(j), j)));
    }
    code
}
