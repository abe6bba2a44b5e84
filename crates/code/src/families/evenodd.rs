//! EVENODD: p + 2 disks of p - 1 rows, p prime, with a row parity and an adjusted diagonal parity
//! disk.
//!
//! Disk p is the row parity, disk p + 1 the diagonal parity.
//!
//! Row i of disk p + 1 is diagonal i of the data disks XOR S, where S is diagonal p - 1, which no
//! row stores. So a write to a cell of S changes every diagonal parity; RDP avoids that by
//! including the row parity in the diagonals instead. The proof is a zigzag as for RDP, after S is
//! computed as the XOR of all cells of both parity disks.
//!
//! Fewer disks: the highest data disks are removed (`parts/chains.rs`), for any number from 3 on.
//!
//! Source: M. Blaum, J. Brady, J. Bruck, J. Menon, "EVENODD: an efficient scheme for tolerating
//! double disk failures in RAID architectures" (IEEE Trans. Computers 44, 1995).

use super::{Family, Width};
use crate::parts::chains::{Chains, Construction, array};
use crate::{Arguments, Code, CodeError};

pub(super) const FAMILY: Family = Family {
    name: "evenodd",
    summary: "XOR RAID-6 with a row parity disk and an adjusted diagonal parity disk: any 2 of n disks",
    forms: &["evenodd:n"],
    examples: &["evenodd:7", "evenodd:8"],
    small: &["evenodd:3", "evenodd:5"],
    width: Width::Disks,
    source: "Blaum, Brady, Bruck, Menon, EVENODD (IEEE Trans. Computers 1995)",
    build,
};

const CONSTRUCTION: Construction = Construction {
    family: "evenodd",
    chains,
    columns_more: 2,
    least_prime: 3,
    data_only: |p| (0..p).rev().collect(),
    last_kept: 0,
};

fn build(arguments: &mut Arguments) -> Result<Code, CodeError> {
    let (n, _) = array(arguments, 3, false)?;
    Ok(CONSTRUCTION.code(n))
}

fn chains(p: usize) -> Chains {
    let mut code = Chains::new(p - 1, p + 2);
    (0..p - 1).for_each(|i| code.chain((i, p), (0..p).map(|j| (i, j))));
    for i in 0..p - 1 {
        let adjuster = (1..p).map(|j| (p - 1 - j, j));
        let diagonal = (0..p).map(|j| ((i + p - j) % p, j)).filter(|cell| cell.0 != p - 1);
        code.chain((i, p + 1), adjuster.chain(diagonal));
    }
    code
}
