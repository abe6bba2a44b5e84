//! Copies: column 0 holds the data and each further column equals it, cell0 + cell_i = 0.
//!
//! Any one surviving column determines all others, so n - 1 columns can be lost. The code is MDS:
//! n - 1 of n columns are redundant.

use super::{Family, Width};
use crate::parts::MOST_COLUMNS;
use crate::{Arguments, Claim, Code, CodeBuilder, CodeError, Hint};

pub(super) const FAMILY: Family = Family {
    name: "mirror",
    summary: "n equal copies: all columns but one can be lost",
    forms: &["mirror:n"],
    examples: &["mirror:2", "mirror:3"],
    small: &["mirror:4"],
    width: Width::Disks,
    source: "RAID-1; three copies are the default of HDFS and of Ceph",
    build,
};

fn build(arguments: &mut Arguments) -> Result<Code, CodeError> {
    let hint = Hint { below: "a single copy is raid0:1", above: "no code has more columns" };
    let n = arguments.count("n, the number of copies,", 2, MOST_COLUMNS, hint)?;
    arguments.finish()?;
    let mut code = CodeBuilder::uniform(n, 1);
    (1..n).for_each(|copy| code.define_xor((0, copy), [(0, 0)]));
    Ok(code.finish(format!("mirror:{n}"), "mirror", Claim { tolerance: n - 1, mds: true }))
}
