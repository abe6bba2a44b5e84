//! D-Code: X-Code rearranged so that one of an element's two parities covers consecutive user
//! elements.
//!
//! n disks of n rows, n prime; rows 0 .. n-3 are data. Number the data elements row-major: group k
//! is the elements k(n-2) .. k(n-2) + n - 3, and its XOR is in row n-2, in the column after that of
//! its last element. The second family follows a walk from \[0\]\[0\] that goes one column to the
//! left and one row down, but stays in its row when it wraps around from column 0. Each group of
//! n - 2 elements along the walk has its XOR in row n-1, group k in column 2(k+1) mod n. So an
//! element is in exactly two chains.
//!
//! Any two columns can be lost: the map that sends row i of column j to row (n-3)/2 (j - i) mod
//! (n-2) turns X-Code into D-Code column by column, so D-Code inherits X-Code's proof, which needs
//! n prime. For other n >= 4 the next prime is shortened (`parts/chains.rs`); a composite n without
//! shortening, such as `dcode:9,raw`, has fatal pairs (9 of 36) and is for study only.
//!
//! Source: Y. Fu, J. Shu, "D-Code: an efficient RAID-6 code to optimize I/O loads and read
//! performance" (IPDPS 2015). Errata: the printed subscripts of equations (1) and (2) are damaged;
//! (6) and (7) are right. The starting chains for two lost columns f1 < f2 are P\[n-2\]\[f1-1\],
//! P\[n-2\]\[f2-1\], P\[n-1\]\[f1+1\], P\[n-1\]\[f2+1\] (printed with n-2 in all four). The
//! parities left at the end of its example are P52 and P63 (printed P62).

use super::{Family, Width};
use crate::parts::chains::{Chains, Construction, array, raw};
use crate::{Arguments, Code, CodeError};

pub(super) const FAMILY: Family = Family {
    name: "dcode",
    summary: "XOR RAID-6 without parity disks, horizontal parity over consecutive elements: any 2 of n disks",
    forms: &["dcode:n", "dcode:n,raw"],
    examples: &["dcode:7", "dcode:8", "dcode:9,raw"],
    small: &["dcode:4", "dcode:5", "dcode:6"],
    width: Width::Disks,
    source: "Fu, Shu, D-Code (IPDPS 2015)",
    build,
};

const CONSTRUCTION: Construction =
    Construction { family: "dcode", chains, columns_more: 0, least_prime: 5, data_only: |_| vec![], last_kept: 0 };

fn build(arguments: &mut Arguments) -> Result<Code, CodeError> {
    let (n, bare) = array(arguments, 4, true)?;
    if !bare {
        return Ok(CONSTRUCTION.code(n));
    }
    if n < 5 || n.is_multiple_of(2) {
        return Err(arguments.unsuitable(format!("the bare construction needs an odd n of 5 or more, not {n}")));
    }
    Ok(raw(&CONSTRUCTION, n))
}

fn chains(n: usize) -> Chains {
    let depth = n - 2;
    let mut code = Chains::new(n, n);
    for group in 0..n {
        let ids = group * depth..(group + 1) * depth;
        let after_last = (ids.end - 1) % n + 1;
        code.chain((n - 2, after_last % n), ids.map(|id| (id / n, id % n)));
    }
    let walk: Vec<(usize, usize)> = std::iter::successors(Some((0, 0)), |&(row, column)| match column {
        0 => Some((row, n - 1)),
        _ => Some(((row + 1) % depth, column - 1)),
    })
    .take(n * depth)
    .collect();
    for (group, steps) in walk.chunks(depth).enumerate() {
        code.chain((n - 1, 2 * (group + 1) % n), steps.iter().copied());
    }
    code
}
