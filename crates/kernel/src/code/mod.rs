//! Programs of XORs as machine code made at run time: the shapes of the code ([`braid`],
//! [`straight`]), and its memory ([`executable`]). The instructions come from the architecture
//! ([`crate::arch`]).
//!
//! Other modules use only [`Code`]. Without the feature `run-time-code`, and without an assembler
//! for the architecture, `no_code.rs` takes its place.

pub(crate) mod braid;
pub(crate) mod executable;
pub(crate) mod form;
mod meetings;
pub(crate) mod straight;

use crate::arch::native::xor_code;
use crate::packets::Packets;
use crate::sums::SharedSums;
use crate::tier::Tier;
use braid::{Braid, Vectors};
use executable::Executable;
use form::Form;
use straight::{Straight, is_dense};

/// The machine code of sums.
#[derive(Debug)]
pub(crate) enum Code {
    Pieces(xor_code::Code),
    /// For whole columns of packets.
    Packets(xor_code::PacketCode),
}

impl Code {
    /// True if code will probably get memory. Otherwise callers need not plan code.
    pub(crate) fn is_possible() -> bool {
        Executable::is_possible()
    }

    /// Compiles sums to code with the vectors of a tier that this machine has; for columns of
    /// packets, `packets` describes them. `None` if the system forbids execution of written memory,
    /// if there is no code for such sums, if packets are not whole slices, or if columns are longer
    /// than an instruction can reach.
    pub(crate) fn new(sums: &SharedSums, tier: Tier, packets: Option<&Packets>) -> Option<Code> {
        let vectors = if tier == Tier::Avx512Gfni { Vectors::Zmm } else { Vectors::Ymm };
        let braid = || Braid::new(sums, vectors);
        let Some(packets) = packets else {
            return xor_code::Code::new(&braid()?).map(Code::Pieces);
        };
        // Straight lines are for dense sums and for sums without a common buffer, and only for
        // columns of packets. A line reads buffers four and more times. Separate buffers that begin
        // at the same offset of their pages would then compete for one set of the first-level
        // cache. A bit matrix of 10 + 4 columns, 64 KiB, runs at 2 GB/s as a line (16 if columns
        // are staggered), and at 5 GB/s as a braid (12 if staggered).
        let braid = if is_dense(sums) { None } else { braid() };
        let straight = if braid.is_none() { Straight::new(sums, vectors) } else { None };
        let form = braid.as_ref().map(Form::Braid).or(straight.as_ref().map(Form::Straight))?;
        xor_code::PacketCode::new(form, packets).map(Code::Packets)
    }

    /// True if [`Code::run`] accepts buffers of `len` bytes.
    pub(crate) fn is_of_pieces(&self, len: usize) -> bool {
        matches!(self, Code::Pieces(code) if len >= code.slice_bytes())
    }

    /// Computes every sum.
    ///
    /// # Safety
    ///
    /// As [`xor_code::Code::run`], of buffers that it takes.
    pub(crate) unsafe fn run(&self, streaming: bool, buffer: impl Fn(usize) -> *mut u8, len: usize) {
        let Code::Pieces(code) = self else { unreachable!("code is asked first what it takes") };
        // SAFETY: the caller's promise.
        unsafe { code.run(streaming, buffer, len) };
    }

    /// True if the code is for columns of packets.
    pub(crate) fn is_of_packets(&self) -> bool {
        matches!(self, Code::Packets(_))
    }

    /// Computes every sum on `groups` groups of packets.
    ///
    /// # Safety
    ///
    /// As [`xor_code::PacketCode::run`], of code for columns of packets.
    pub(crate) unsafe fn run_packets(
        &self,
        streaming: bool,
        column: impl Fn(usize) -> *mut u8,
        groups: usize,
    ) {
        let Code::Packets(code) = self else { unreachable!("code is asked first what it takes") };
        // SAFETY: the caller's promise.
        unsafe { code.run(streaming, column, groups) };
    }
}
