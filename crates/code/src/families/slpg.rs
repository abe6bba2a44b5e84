//! Simple local parity groups: k / l independent groups, to which the m parities are assigned in
//! turn.
//!
//! Let G = k / l. Parity i covers group i mod G with the coefficients of [`reed_sol_van`] of (k,
//! m). The SHEC paper compares SHEC with this code: it has as many parities of the same length,
//! which do not overlap.
//!
//! Claim: each group is a separate Reed-Solomon code, with a part of a matrix that has no zero
//! minor, so it tolerates exactly as many losses as it has parities. The weakest group has floor(m
//! / G) parities, which is the tolerance; it is MDS only if there is one group.
//!
//! Limits: l divides k; k + m <= 256. With m < G some group has no parity and the tolerance is 0.
//!
//! Source: Miyamae, Nakao, Shiozawa (HotDep 2014), figure 3: slpg:6,4,3 loses data in 20 of 120
//! triples, shec:6,4,3 in 10.

use super::{Family, Width};
use crate::parts::one_row;
use crate::parts::reed_sol_van::reed_sol_van;
use crate::{Arguments, Claim, Code, CodeError};
use pantile_gf::{Gf, Matrix};

pub(super) const FAMILY: Family = Family {
    name: "slpg",
    summary: "separate Reed-Solomon groups, the measure that shec is held against",
    forms: &["slpg:k,m,l"],
    examples: &["slpg:6,4,3", "slpg:12,6,4"],
    small: &[],
    width: Width::Undecided(choices),
    source: "Miyamae, Nakao, Shiozawa, Erasure code with shingled local parity groups (HotDep 2014)",
    build,
};

/// Lists the spec with two groups that each tolerate the losses.
fn choices(disks: usize, survive: usize) -> Vec<String> {
    let m = 2 * survive;
    match disks.checked_sub(m).filter(|&k| m > 0 && k >= 4 && k.is_multiple_of(2)) {
        Some(k) => vec![format!("slpg:{k},{m},{}", k / 2)],
        None => Vec::new(),
    }
}

fn build(arguments: &mut Arguments) -> Result<Code, CodeError> {
    let k = arguments.count("k, the number of data columns,", 1, 255, "k + m is at most 256")?;
    let m = arguments.count("m, the number of parities,", 1, 255, "k + m is at most 256")?;
    let l = arguments.count("l, the size of a group,", 1, k, "a group has at most all data columns")?;
    arguments.finish()?;
    arguments.in_range("k + m", k + m, 2, 256, "GF(2^8) has no more elements")?;
    if !k.is_multiple_of(l) {
        return Err(arguments.unsuitable(format!("{k} data columns cannot be split into groups of {l}")));
    }
    let groups = k / l;
    let full = reed_sol_van(k, m);
    let inside = |i: usize, j: usize| j / l == i % groups;
    let matrix = Matrix::from_fn(m, k, |i, j| if inside(i, j) { full.get(i, j) } else { Gf::ZERO });
    let claim = Claim { tolerance: m / groups, mds: groups == 1 };
    Ok(one_row::systematic(&matrix).finish(format!("slpg:{k},{m},{l}"), "slpg", claim))
}
