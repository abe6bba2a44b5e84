//! Replaces `cosets.rs` if additive FFTs are not compiled in: no code has cosets, and sums of
//! products are used.

use pantile_code::Code;
use pantile_kernel::Program;
use pantile_plan::CellSet;

/// The cosets of a code, of which there are none.
#[derive(Debug)]
pub(crate) enum Cosets {}

impl Cosets {
    pub(crate) fn of(_: &Code) -> Option<Cosets> {
        None
    }

    pub(crate) fn encoder(&self, _: &Code) -> Option<Program> {
        match *self {}
    }

    pub(crate) fn decoder(&self, _: &Code, _: &CellSet) -> Option<Program> {
        match *self {}
    }
}
