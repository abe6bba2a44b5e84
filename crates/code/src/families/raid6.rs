//! RAID-6 as Linux md stores it: P is the XOR of the data, Q = sum a^i d_i.
//!
//! Source: H. P. Anvin, "The mathematics of RAID-6". MDS for k <= 255, because the elements a^i are
//! distinct and non-zero exactly that far.
//!
//! With `w=16` or `w=32` the same over GF(2^16) and GF(2^32), as Jerasure's `reed_sol_r6_op` writes
//! it: 2 or 4 rows, the bytes of little-endian words in a basis ([`crate::words`]).

use super::{Family, Width, long_words};
use crate::words::of_coefficients;
use crate::{Arguments, Claim, Code, CodeBuilder, CodeError};
use pantile_gf::Gf;

pub(super) const FAMILY: Family = Family {
    name: "raid6",
    summary: "two parities, P and Q, byte-identical to Linux md: any 2 columns can be lost",
    forms: &["raid6:k", "raid6:k,w=W"],
    examples: &["raid6:4", "raid6:8"],
    small: &["raid6:1", "raid6:9", "raid6:3,w=16"],
    width: Width::DataAnd(2),
    source: "H. P. Anvin, The mathematics of RAID-6 (Linux md)",
    build,
};

fn build(arguments: &mut Arguments) -> Result<Code, CodeError> {
    let k = arguments.count("k, the number of data columns,", 1, 255, "the powers of a repeat after 255")?;
    let words = long_words(arguments)?;
    arguments.finish()?;
    let claim = Claim { tolerance: 2, mds: true };
    if let Some(field) = words {
        let code = of_coefficients(&field, &[vec![1; k], field.powers(2).take(k).collect()]);
        return Ok(code.finish(format!("raid6:{k},w={}", field.word()), "raid6", claim));
    }
    let mut code = CodeBuilder::uniform(k + 2, 1);
    code.define_xor((0, k), (0..k).map(|i| (0, i)));
    code.define((0, k + 1), (0..k).map(|i| ((0, i), Gf::alpha_pow(i as i64))));
    Ok(code.finish(format!("raid6:{k}"), "raid6", claim))
}
