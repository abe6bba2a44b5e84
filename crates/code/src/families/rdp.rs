//! Row-Diagonal Parity: p + 1 disks of p - 1 rows, p prime. Disk p - 1 is the row parity, disk p
//! the diagonal parity.
//!
//! Cell \[i\]\[j\], row parity included, is on diagonal i + j mod p; row i of disk p is the XOR of
//! diagonal i, and diagonal p - 1 is not stored. After two losses some diagonal lacks only one
//! cell. From there row and diagonal parities recover cells in turn, and because p is prime this
//! zigzag reaches every lost cell. Since the diagonals contain the row parity, a small write
//! touches up to 3 parities.
//!
//! Fewer disks: data disks have only data, so the highest ones are removed (`parts/chains.rs`), for
//! any number from 3 on.
//!
//! Source: P. Corbett et al., "Row-diagonal parity for double disk failure correction" (FAST 2004).

use super::{Family, Width};
use crate::parts::chains::{Chains, Construction, array};
use crate::{Arguments, Code, CodeError};

pub(super) const FAMILY: Family = Family {
    name: "rdp",
    summary: "XOR RAID-6 with a row and a diagonal parity disk: any 2 of n disks",
    forms: &["rdp:n"],
    examples: &["rdp:6", "rdp:8"],
    small: &["rdp:3", "rdp:4", "rdp:7"],
    width: Width::Disks,
    source: "Corbett et al., Row-diagonal parity (FAST 2004)",
    build,
};

const CONSTRUCTION: Construction = Construction {
    family: "rdp",
    chains,
    columns_more: 1,
    least_prime: 3,
    data_only: |p| (0..p - 1).rev().collect(),
    last_kept: 0,
};

fn build(arguments: &mut Arguments) -> Result<Code, CodeError> {
    let (n, _) = array(arguments, 3, false)?;
    Ok(CONSTRUCTION.code(n))
}

fn chains(p: usize) -> Chains {
    let mut code = Chains::new(p - 1, p + 1);
    (0..p - 1).for_each(|i| code.chain((i, p - 1), (0..p - 1).map(|j| (i, j))));
    for i in 0..p - 1 {
        let diagonal = (0..p).map(|j| ((i + p - j) % p, j)).filter(|cell| cell.0 != p - 1);
        code.chain((i, p), diagonal);
    }
    code
}
