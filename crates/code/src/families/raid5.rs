//! One parity: P is the XOR of the data, so any one column is the XOR of the others.

use super::{Family, Width};
use crate::{Arguments, Claim, Code, CodeBuilder, CodeError};

pub(super) const FAMILY: Family = Family {
    name: "raid5",
    summary: "one XOR parity: any 1 column can be lost",
    forms: &["raid5:k"],
    examples: &["raid5:2", "raid5:4"],
    small: &["raid5:1", "raid5:5"],
    width: Width::DataAnd(1),
    source: "Patterson, Gibson, Katz, A case for redundant arrays of inexpensive disks",
    build,
};

fn build(arguments: &mut Arguments) -> Result<Code, CodeError> {
    let k = arguments.count("k, the number of data columns,", 1, 255, "two parities are due long before")?;
    arguments.finish()?;
    let mut code = CodeBuilder::uniform(k + 1, 1);
    code.define_xor((0, k), (0..k).map(|i| (0, i)));
    Ok(code.finish(format!("raid5:{k}"), "raid5", Claim { tolerance: 1, mds: true }))
}
