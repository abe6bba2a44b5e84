//! Local reconstruction codes: l groups with an XOR parity each, and g parities over all data.
//!
//! One lost column is repaired within its group; the global parities (globals) are for more losses.
//! Every code of the family tolerates any g + 1 losses, and no code of this shape tolerates more:
//! losing a data column, its local parity and all globals is fatal. Derivation: let t <= g + 1
//! columns be lost, D of them data. The locals add up to the row of ones, and the globals together
//! with the row of ones form a matrix in which no square minor on the needed columns is zero. If no
//! local is lost, the row of ones and the surviving globals are enough rows for D; if one is lost,
//! D <= g - lost globals and the surviving globals are enough.
//!
//! The globals, by g:
//!
//! - g = 0: none. One loss.
//! - g = 1: the coefficient of a data column is 1 + its index in its group. Two lost columns of one
//!   group have different coefficients; in two groups each is repaired locally. Groups have up to
//!   255 columns.
//! - g = 2: rows alpha and alpha^2, as in Azure's LRC. Element e of group q has alpha = a^q z_e,
//!   z_e = a^(17 e) in the multiplicative group of GF(16), so each group is a coset of it. A coset
//!   together with 0 is closed under addition, and two cosets meet only in 0, so **every pattern
//!   that could be decodable is**: lrc:12,2,2 survives 1568 of the 1820 sets of four. Limits: 17
//!   groups of up to 15; with GF(4) instead, 85 groups of up to 3.
//! - g = 3..5: rows 1 .. g of the extended Cauchy matrix of g + 1 rows; its row 0 is the row of
//!   ones. Up to 251 data columns.
//!
//! Source: C. Huang et al., "Erasure coding in Windows Azure Storage" (USENIX ATC 2012). The paper
//! gives its alphas only for (12,2,2) in GF(2^4); the cosets extend its condition to every number
//! of groups. Ceph's plugin `lrc` is another layout (its locals also cover globals); it can be
//! written as a code file.

use super::{Family, Width, equal_groups};
use crate::parts::cauchy::{MOST_DATA, extended_cauchy};
use crate::parts::{MOST_COLUMNS, one_row};
use crate::{Arguments, Claim, Code, CodeError};
use pantile_gf::{Gf, Matrix};

pub(super) const FAMILY: Family = Family {
    name: "lrc",
    summary: "local groups with an XOR parity each and g global parities: cheap repair of one column, any g + 1 lost",
    forms: &["lrc:k,l,g"],
    examples: &["lrc:12,2,2", "lrc:6,2,1", "lrc:12,3,4"],
    small: &["lrc:6,2,0", "lrc:6,3,1", "lrc:6,2,2", "lrc:6,2,3"],
    width: Width::Undecided(choices),
    source: "Huang et al., Erasure coding in Windows Azure Storage (USENIX ATC 2012)",
    build,
};

/// Lists the specs with the least number of global parities that suffices, and with one more.
fn choices(disks: usize, survive: usize) -> Vec<String> {
    let globals = survive.saturating_sub(1)..=survive;
    globals.flat_map(|g| equal_groups(disks, g).map(move |(l, k)| format!("lrc:{k},{l},{g}"))).collect()
}

fn build(arguments: &mut Arguments) -> Result<Code, CodeError> {
    let k = arguments.count("k, the number of data columns,", 1, MOST_COLUMNS, "no code has more columns")?;
    let l = arguments.count("l, the number of groups,", 1, k, "a group has at least one data column")?;
    let g = arguments.count("g, the number of global parities,", 0, 5, "the Cauchy rows are used up")?;
    arguments.finish()?;
    if !k.is_multiple_of(l) {
        return Err(arguments.unsuitable(format!("{k} data columns cannot be split into {l} equal groups")));
    }
    arguments.in_range("k + l + g", k + l + g, 2, MOST_COLUMNS, "no code has more columns")?;
    let size = k / l;
    let globals = match g {
        0 => Matrix::zero(0, k),
        1 => {
            arguments.in_range("k / l, the group size,", size, 1, 255, "with g=1 a group needs distinct coefficients")?;
            Matrix::from_fn(1, k, |_, j| Gf((1 + j % size) as u8))
        }
        2 => {
            let alphas = coset_alphas(arguments, l, size)?;
            Matrix::from_fn(2, k, |r, j| if r == 0 { alphas[j] } else { alphas[j] * alphas[j] })
        }
        _ => {
            arguments.in_range("k, the number of data columns,", k, 1, MOST_DATA, "with g of 3 or more the Cauchy rows end there")?;
            let rows = extended_cauchy(k, g + 1);
            Matrix::from_fn(g, k, |r, j| rows.get(r + 1, j))
        }
    };
    let coefficients = Matrix::from_fn(l + g, k, |r, j| match r {
        _ if r >= l => globals.get(r - l, j),
        _ if j / size == r => Gf::ONE,
        _ => Gf::ZERO,
    });
    let claim = Claim { tolerance: g + 1, mds: l == 1 };
    Ok(one_row::systematic(&coefficients).finish(format!("lrc:{k},{l},{g}"), "lrc", claim))
}

/// One coset of the multiplicative group of GF(16), or of GF(4), per group.
fn coset_alphas(arguments: &Arguments, groups: usize, size: usize) -> Result<Vec<Gf>, CodeError> {
    // The exponent step between elements of the subgroup is the number of its cosets.
    let cosets = match (size, groups) {
        (1..=15, 1..=17) => 17,
        (1..=3, 18..=85) => 85,
        _ => {
            return Err(arguments.unsuitable(format!(
                "{groups} groups of {size} with g=2 do not fit: at most 17 groups of up to 15, or 85 groups of up to 3; \
                 use g=3, which takes any groups"
            )));
        }
    };
    let alpha = |j: usize| Gf::alpha_pow((j / size + cosets * (j % size)) as i64);
    Ok((0..groups * size).map(alpha).collect())
}
