//! X-Code: n disks of n rows, n prime; the parities of two families of diagonals fill the last two
//! rows.
//!
//! Row n-2 of column i is the XOR of \[k\]\[i + k + 2\], row n-1 of \[k\]\[i - k - 2\], k = 0 ..
//! n-3, columns mod n. Two lost columns cut each family of diagonals into chains, each of which
//! begins at a diagonal that avoids one of the two columns; with n prime the steps of length
//! +-(distance of the two) reach every lost element. Update cost is optimal: two parities per
//! element.
//!
//! For other n >= 4 the next prime is shortened (`parts/chains.rs`); `raw` is the construction
//! itself for a composite n, which has fatal pairs and is for study only.
//!
//! Source: L. Xu, J. Bruck, "X-Code: MDS array codes with optimal encoding" (IEEE Trans.
//! Information Theory 45, 1999).

use super::{Family, Width};
use crate::parts::chains::{Chains, Construction, array, raw};
use crate::{Arguments, Code, CodeError};

pub(super) const FAMILY: Family = Family {
    name: "xcode",
    summary: "XOR RAID-6 without parity disks, two families of diagonals: any 2 of n disks",
    forms: &["xcode:n", "xcode:n,raw"],
    examples: &["xcode:7", "xcode:8"],
    small: &["xcode:5", "xcode:6"],
    width: Width::Disks,
    source: "Xu, Bruck, X-Code (IEEE Trans. Information Theory 1999)",
    build,
};

const CONSTRUCTION: Construction =
    Construction { family: "xcode", chains, columns_more: 0, least_prime: 5, data_only: |_| vec![], last_kept: 0 };

fn build(arguments: &mut Arguments) -> Result<Code, CodeError> {
    let (n, bare) = array(arguments, 4, true)?;
    Ok(if bare { raw(&CONSTRUCTION, n) } else { CONSTRUCTION.code(n) })
}

fn chains(n: usize) -> Chains {
    let mut code = Chains::new(n, n);
    (0..n).for_each(|i| code.chain((n - 2, i), (0..n - 2).map(|k| (k, (i + k + 2) % n))));
    (0..n).for_each(|i| code.chain((n - 1, i), (0..n - 2).map(|k| (k, (i + 2 * n - k - 2) % n))));
    code
}
