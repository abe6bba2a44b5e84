//! The stand-in where no code is made at run time: [`crate::xor_rows`] is used.

use crate::packets::Packets;
use crate::sums::SharedSums;
use crate::tier::Tier;

/// The machine code of sums, of which there is none.
#[derive(Debug)]
pub(crate) enum Code {}

impl Code {
    /// Returns false: there is no code.
    pub(crate) fn is_possible() -> bool {
        false
    }

    pub(crate) fn new(_: &SharedSums, _: Tier, _: Option<&Packets>) -> Option<Code> {
        None
    }

    pub(crate) fn is_of_pieces(&self, _len: usize) -> bool {
        match *self {}
    }

    pub(crate) unsafe fn run(&self, _streaming: bool, _buffer: impl Fn(usize) -> *mut u8, _len: usize) {
        match *self {}
    }

    pub(crate) fn is_of_packets(&self) -> bool {
        match *self {}
    }

    pub(crate) unsafe fn run_packets(&self, _: bool, _column: impl Fn(usize) -> *mut u8, _groups: usize) {
        match *self {}
    }
}
