//! P-Code: p - 1 disks of (p - 1) / 2 rows, p prime, one parity and otherwise data in every column.
//!
//! Columns are numbered from 1 to p - 1. A data element is a pair {a, b} of different columns whose
//! sum is not 0 mod p. It is in column a + b mod p and belongs to the parities of columns a and b,
//! which are the first row. So a column has (p - 3) / 2 data elements, and each is in exactly two
//! chains, which is optimal for updates. Within a column the pairs are ordered by their smaller
//! number. This order is Pantile's choice: the paper names pairs but no rows.
//!
//! Any two columns can be lost, by the paper's proof. This is counted for every code up to 25
//! columns (`claims_are_true_where_small`) and for p up to 23 by the independent reference.
//!
//! Fewer disks: no disk has only data, so the last disks are removed by shortening with promotion
//! (`parts/chains.rs`), for any number from 4 on. The paper's variant with p columns, whose last
//! column has only data, is not implemented.
//!
//! Source: C. Jin, H. Jiang, D. Feng, L. Tian, "P-Code: a new RAID-6 code with optimal properties"
//! (ICS 2009).

use super::{Family, Width};
use crate::parts::chains::{Chains, Construction, array};
use crate::{Arguments, Code, CodeError};

pub(super) const FAMILY: Family = Family {
    name: "pcode",
    summary: "XOR RAID-6 without parity disks, half as many rows as others: any 2 of n disks",
    forms: &["pcode:n"],
    examples: &["pcode:6", "pcode:8"],
    small: &["pcode:4", "pcode:5"],
    width: Width::Disks,
    source: "Jin et al., P-Code (ICS 2009)",
    build,
};

const CONSTRUCTION: Construction = Construction {
    family: "pcode",
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
    let mut code = Chains::new((p - 1) / 2, p - 1);
    // The next free row of each column; row 0 is parity.
    let mut next = vec![1; p];
    let mut members = vec![Vec::new(); p];
    for a in 1..p {
        for b in (a + 1..p).filter(|b| a + b != p) {
            let column = (a + b) % p;
            let cell = (next[column], column - 1);
            next[column] += 1;
            members[a].push(cell);
            members[b].push(cell);
        }
    }
    (1..p).for_each(|column| code.chain((0, column - 1), members[column].iter().copied()));
    code
}
