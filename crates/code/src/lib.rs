//! Codes as values: identity, shape, equations, source. One file per family.
//!
//! A redundancy scheme is a value, [`Code`]: columns of cells, some of which hold user data, and
//! linear equations over GF(2^8) that the cells of a stripe satisfy. RAID-6, Reed-Solomon, D-Code,
//! SHEC and RAIDP are all values of this one type; encoding, cheapest reads, proof and location are
//! computed from it elsewhere, by programs that do not know which family it came from. A code
//! therefore has no verbs here, and no buffers.
//!
//! [`Code::parse`] reads the one text form ([`CodeSpec`]), `dcode:7` or `shec:6,4,3`;
//! [`Code::from_text`] reads a user's own code from a short file of shape and equations
//! ([`custom`]), and [`foreign`] knows the names of codes in other systems. [`Code::parse_typed`]
//! also takes `RAID-6` or `4+2`, as people type them. [`families()`] lists the families; a new
//! family is one file in `families/`, entered in the list there.
#![forbid(unsafe_code)]

mod budget;
mod code;
pub mod custom;
mod error;
pub mod families;
pub mod foreign;
mod labels;
mod parts;
mod placement;
pub mod plank;
mod spec;
mod typed;
pub mod words;

pub use budget::{Budget, Overspent};
pub use code::{
    Cell, CellIndex, Claim, Code, CodeBuilder, ColumnRole, Equation, PartialRepair, Purpose, StudyOnly,
};
pub use error::{CodeError, FileFault};
pub use families::{Family, Width, WidthError, families};
pub use labels::{Label, Labels};
pub use placement::{NoPlacement, Placement};
pub use spec::{Arguments, CodeSpec, Hint};
