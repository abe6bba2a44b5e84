//! HDP: p - 1 disks of p - 1 rows, p prime, with parities on both diagonals to balance the load.
//!
//! \[i\]\[i\] is the XOR of all other cells of row i, including its anti-diagonal parity;
//! \[i\]\[p-2-i\] is the XOR of \[2i + j + 2\]\[j\], rows mod p, over the j other than p - 2 - i
//! for which that row exists. Every write changes three parities, which is the price of having no
//! parity disk at this size.
//!
//! Fewer disks: no disk has only data, so the last disks are removed by shortening with promotion
//! (`parts/chains.rs`), for any number from 4 on.
//!
//! Source: C. Wu et al., "HDP code: a horizontal-diagonal parity code to optimize I/O load
//! balancing in RAID-6" (DSN 2011).

use super::{Family, Width};
use crate::parts::chains::{Chains, Construction, array};
use crate::{Arguments, Code, CodeError};

pub(super) const FAMILY: Family = Family {
    name: "hdp",
    summary: "XOR RAID-6 without parity disks, parities on both diagonals: any 2 of n disks",
    forms: &["hdp:n"],
    examples: &["hdp:6", "hdp:8"],
    small: &["hdp:4", "hdp:5"],
    width: Width::Disks,
    source: "Wu et al., HDP code (DSN 2011)",
    build,
};

const CONSTRUCTION: Construction =
    Construction { family: "hdp", chains, columns_more: -1, least_prime: 5, data_only: |_| vec![], last_kept: 0 };

fn build(arguments: &mut Arguments) -> Result<Code, CodeError> {
    let (n, _) = array(arguments, 4, false)?;
    Ok(CONSTRUCTION.code(n))
}

fn chains(p: usize) -> Chains {
    let mut code = Chains::new(p - 1, p - 1);
    (0..p - 1).for_each(|i| code.chain((i, i), (0..p - 1).filter(|&j| j != i).map(|j| (i, j))));
    for i in 0..p - 1 {
        let anti_diagonal = (0..p - 1).map(|j| ((2 * i + j + 2) % p, j));
        let stored = anti_diagonal.filter(|&(row, j)| j != p - 2 - i && row != p - 1);
        code.chain((i, p - 2 - i), stored);
    }
    code
}
