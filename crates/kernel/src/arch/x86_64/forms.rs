//! Constant parameters of the kernels of these instruction sets: forms of sums and of stores, and
//! products as bit matrices.

use super::cpu::Kind;
pub(super) use crate::arch::common::forms::*;
use crate::portable;

/// Multiplication by c as the 8 x 8 bit matrix that `vgf2p8affineqb` takes.
///
/// The instruction computes bit i of its result as the parity of `matrix.byte[7 - i] & x`. Bit i of
/// c * x is the sum over j of x_j times bit i of c * 2^j, so byte 7 - i has bit j = bit i of c *
/// 2^j. Source: Intel SDM, volume 2, GF2P8AFFINEQB; checked against the portable table by every
/// kernel test.
pub(super) fn affine_matrix(c: u8) -> u64 {
    AFFINE_MATRICES[usize::from(c)]
}

/// All of them: a recovery that is planned for one stripe must not take longer to compile than to
/// run.
pub(super) static AFFINE_MATRICES: [u64; 256] = affine_matrices();

const fn affine_matrices() -> [u64; 256] {
    let mut matrices = [0; 256];
    let mut c = 0;
    while c < 256 {
        let mut images = [0; 8];
        let mut j = 0;
        while j < 8 {
            images[j] = portable::product(c as u8, 1 << j);
            j += 1;
        }
        matrices[c] = matrix_of(images);
        c += 1;
    }
    matrices
}

/// A linear map of bytes as such a matrix, by the images of single bits.
pub(super) const fn matrix_of(images: [u8; 8]) -> u64 {
    let mut matrix = 0;
    let mut j = 0;
    while j < 8 {
        let mut i = 0;
        while i < 8 {
            matrix |= ((images[j] >> i & 1) as u64) << (8 * (7 - i) + j);
            i += 1;
        }
        j += 1;
    }
    matrix
}

/// The values that a kernel stores: its sums; or outputs of them by
/// [`Job::solution`](crate::engine::Job::solution); or these, with the last output as sum 0 less
/// the others. Engines can add bits.
pub(super) const PLAIN: u8 = 0;
pub(super) const SOLVED: u8 = 1;
pub(super) const LAST_BY_SUM: u8 = 2;

/// A form of its own: all sums but sum 0 are outputs, and the last output is sum 0 less the `taken`
/// ones ([`crate::expand`]).
pub(super) const EXPANDED: u8 = 8;

/// Added to a form: each visit looks for zeros and ones of the solution. If parities are lost with
/// data, half of the products are such; a solution without them loses time.
pub(super) const LOOKING: u8 = 4;

/// Ways of the first-level cache of Zen 3 and Zen 4. It does not hold a line of each of more
/// page-aligned buffers: lines that come with a read one are evicted before the next visit. So a
/// visit is as wide as possible.
pub(super) const WAYS: usize = 8;

/// Forms of kernels that prefetch into the first-level cache while they store through the cache or
/// past it: the lines of the next visit, those of a visit after it, or lines that are used much
/// later.
pub(super) const CACHED_NEXT: u8 = 1;
pub(super) const CACHED_LATER: u8 = 2;
pub(super) const PAST_NEXT: u8 = 5;
pub(super) const PAST_LATER: u8 = 6;
pub(super) const PAST_AHEAD: u8 = 7;

/// Returns the form of stores for this processor. Far prefetch helps hardware that follows many
/// streams (Sapphire Rapids: 16 % gained at (16,4) from memory; Ice Lake: 16 to 29). It harms
/// hardware that follows few (Zen 4: half is lost at (10,4)), which gains by prefetch of the next
/// lines (Zen 3, Zen 4) or by none (Zen 5).
pub(super) fn stores(streaming: bool) -> u8 {
    match (streaming, Kind::of_this_processor()) {
        (false, _) => CACHED,
        (true, Kind::SapphireRapids | Kind::IceLake) => PAST_AHEAD,
        (true, Kind::Zen3 | Kind::Zen4) => PAST_NEXT,
        (true, Kind::Zen5) => PAST,
    }
}

/// Returns the prefetch distance of a kernel; 0: none. NOTES.md has the figures for twice the
/// distance and for `prefetchnta`.
pub(super) const fn fetched_ahead_bytes(stores: u8) -> usize {
    match stores {
        PAST_NEXT | CACHED_NEXT => 128,
        PAST_LATER | CACHED_LATER => 256,
        PAST_AHEAD => 1024,
        _ => 0,
    }
}
