//! RAID-6 as Linux md stores it: P is the XOR of the data, Q = sum a^i d_i.
//!
//! Source: H. P. Anvin, "The mathematics of RAID-6". MDS for k <= 255, because the elements a^i are
//! distinct and non-zero exactly that far.

use super::{Family, Width};
use crate::{Arguments, Claim, Code, CodeBuilder, CodeError};
use pantile_gf::Gf;

pub(super) const FAMILY: Family = Family {
    name: "raid6",
    summary: "two parities, P and Q, byte-identical to Linux md: any 2 columns may be lost",
    forms: &["raid6:k"],
    examples: &["raid6:4", "raid6:8"],
    small: &["raid6:1", "raid6:9"],
    width: Width::DataAnd(2),
    source: "H. P. Anvin, The mathematics of RAID-6 (Linux md)",
    build,
};

fn build(arguments: &mut Arguments) -> Result<Code, CodeError> {
    let k = arguments.count("k, the number of data columns,", 1, 255, "the powers of a repeat after 255")?;
    arguments.finish()?;
    let mut code = CodeBuilder::uniform(k + 2, 1);
    code.define_xor((0, k), (0..k).map(|i| (0, i)));
    code.define((0, k + 1), (0..k).map(|i| ((0, i), Gf::alpha_pow(i as i64))));
    Ok(code.finish(format!("raid6:{k}"), "raid6", Claim { tolerance: 2, mds: true }))
}
