//! Striping without redundancy: k data columns and no equation. Every lost column loses data; the
//! tolerance is 0.

use super::{Family, Width};
use crate::parts::MOST_COLUMNS;
use crate::{Arguments, Claim, Code, CodeBuilder, CodeError};

pub(super) const FAMILY: Family = Family {
    name: "raid0",
    summary: "striping alone: all the space, no column can be lost",
    forms: &["raid0:k"],
    examples: &["raid0:1", "raid0:4"],
    small: &[],
    width: Width::Disks,
    source: "Patterson, Gibson, Katz, A case for redundant arrays of inexpensive disks, and its successors",
    build,
};

fn build(arguments: &mut Arguments) -> Result<Code, CodeError> {
    let k = arguments.count("k, the number of columns,", 1, MOST_COLUMNS, "no code has more columns")?;
    arguments.finish()?;
    Ok(CodeBuilder::uniform(k, 1).finish(format!("raid0:{k}"), "raid0", Claim { tolerance: 0, mds: true }))
}
