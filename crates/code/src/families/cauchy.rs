//! Extended Cauchy: up to 6 parities over up to 251 data columns, the first two RAID-6's P and Q.
//!
//! Row 0 is all ones, row 1 is a^i, row j + 1 is 1/(a^-i + a^j) scaled to begin with 1. With x_i =
//! a^-i, y_0 = 0, y_j = a^j the rows below the first form a Cauchy matrix, and the row of ones is
//! the row for y = infinity. So no square minor is zero as long as all x and y differ. 251 x and 5
//! y use up the whole field, which gives both limits.
//!
//! Source: SnapRAID (A. Mazzoleni) and the Linux patches derived from it; the matrix is the same,
//! row for row.

use super::{Family, Width};
use crate::parts::cauchy::{MOST_DATA, MOST_ROWS, extended_cauchy};
use crate::parts::one_row;
use crate::{Arguments, Claim, Code, CodeError};

pub(super) const FAMILY: Family = Family {
    name: "cauchy",
    summary: "1 to 6 parities that begin with RAID-6's P and Q: any m columns can be lost",
    forms: &["cauchy:k+m"],
    examples: &["cauchy:4+2", "cauchy:8+3", "cauchy:20+6"],
    small: &["cauchy:5+1", "cauchy:6+4", "cauchy:6+6"],
    width: Width::DataPlus(3),
    source: "A. Mazzoleni, SnapRAID, raid/raid.c (Cauchy matrix)",
    build,
};

fn build(arguments: &mut Arguments) -> Result<Code, CodeError> {
    let (k, m) = arguments.sum()?;
    arguments.finish()?;
    arguments.in_range("k, the number of data columns,", k, 1, MOST_DATA, "use rs, which holds up to 255")?;
    arguments.in_range("m, the number of parity columns,", m, 1, MOST_ROWS, "use rs for more")?;
    let code = one_row::systematic(&extended_cauchy(k, m));
    Ok(code.finish(format!("cauchy:{k}+{m}"), "cauchy", Claim { tolerance: m, mds: true }))
}
