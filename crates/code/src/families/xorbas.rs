//! Xorbas: Reed-Solomon codes with added XOR parities of groups (locals), with coefficients such
//! that the Reed-Solomon parities need no stored local.
//!
//! The g = m - s Reed-Solomon parities are defined by the parity checks sum_j a^(r j) c_j = 0, r =
//! 0..g-1, over the data and these parities (j counts both). Check 0 is the row of ones. So with
//! S_q = XOR of group q, the sum S_1 + .. + S_s equals the sum of the Reed-Solomon parities. They
//! form a group whose local parity is implied, and one lost Reed-Solomon parity is repaired from
//! the other g - 1 and the s locals.
//!
//! Claims. Any g losses are survived by construction: of the k + g Reed-Solomon columns any g can
//! be lost, and locals follow from data. If a group has g + 1 columns or more (l > g), their loss
//! is fatal, because its local check repeats check 0 there; so g is exact. Codes with smaller
//! groups can survive more. Their tolerance is counted when the code is built, within a bound on
//! the work. xorbas:10,6,5 tolerates 4 (distance 5), the paper's figure.
//!
//! Limits: l divides k, g >= 2 (with g = 1 the only Reed-Solomon parity would be the sum of the
//! locals), and `k + g <= 255` (powers of a repeat after that).
//!
//! Source: M. Sathiamoorthy et al., "XORing elephants: novel erasure codes for big data" (VLDB
//! 2013). Theorem 5 there proves existence for general sizes; the explicit form with all c_i = 1 is
//! in its section 2.1 and is built here for every size.

use super::{Family, Width, equal_groups};
use crate::parts::{MOST_COLUMNS, tolerance};
use crate::{Arguments, Claim, Code, CodeBuilder, CodeError};
use pantile_gf::Gf;

pub(super) const FAMILY: Family = Family {
    name: "xorbas",
    summary: "Reed-Solomon plus XOR locals, one of them implied: every column has a cheap repair",
    forms: &["xorbas:k,m,l"],
    examples: &["xorbas:10,6,5", "xorbas:12,6,6"],
    small: &["xorbas:4,4,2"],
    width: Width::Undecided(choices),
    source: "Sathiamoorthy et al., XORing elephants (VLDB 2013)",
    build,
};

/// Lists the specs with as many Reed-Solomon parities as columns that can be lost, at least two.
fn choices(disks: usize, survive: usize) -> Vec<String> {
    let g = survive.max(2);
    equal_groups(disks, g).map(|(groups, k)| format!("xorbas:{k},{},{}", groups + g, k / groups)).collect()
}

fn build(arguments: &mut Arguments) -> Result<Code, CodeError> {
    let k = arguments.count("k, the number of data columns,", 1, 253, "k + g is at most 255")?;
    let m = arguments.count("m, the number of parities,", 1, MOST_COLUMNS, "no code has more columns")?;
    let l = arguments.count("l, the size of a group,", 1, k, "a group has at most all data columns")?;
    arguments.finish()?;
    if !k.is_multiple_of(l) {
        return Err(arguments.unsuitable(format!("{k} data columns cannot be split into groups of {l}")));
    }
    let locals = k / l;
    if m < locals + 2 {
        return Err(arguments.unsuitable(format!(
            "{k} data columns in groups of {l} take {locals} local parities, and at least 2 Reed-Solomon parities \
             are needed besides, so m is at least {}, not {m}",
            locals + 2
        )));
    }
    let g = m - locals;
    arguments.in_range("k + g, data and Reed-Solomon columns,", k + g, 3, 255, "the powers of a repeat after 255")?;
    arguments.in_range("k + m", k + m, 3, MOST_COLUMNS, "no code has more columns")?;
    let mut code = CodeBuilder::uniform(k + m, 1);
    for r in 0..g {
        code.parity_cell((0, k + r));
        code.equation((0..k + g).map(|j| ((0, j), Gf::alpha_pow((r * j) as i64))));
    }
    for q in 0..locals {
        code.define_xor((0, k + g + q), (q * l..(q + 1) * l).map(|j| (0, j)));
    }
    let spec = format!("xorbas:{k},{m},{l}");
    match l > g {
        true => Ok(code.finish(spec, "xorbas", Claim { tolerance: g, mds: false })),
        false => Ok(code.finish_proven(spec, "xorbas", |draft| {
            tolerance::proven(draft, g, m, tolerance::WORK_MAX)
        })),
    }
}
