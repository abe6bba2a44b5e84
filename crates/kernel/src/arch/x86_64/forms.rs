//! What the kernels of these instruction sets are told by constants: forms of sums and of stores,
//! and products as bit matrices.

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
        let mut j = 0;
        while j < 8 {
            let image = portable::product(c as u8, 1 << j);
            let mut i = 0;
            while i < 8 {
                matrices[c] |= ((image >> i & 1) as u64) << (8 * (7 - i) + j);
                i += 1;
            }
            j += 1;
        }
        c += 1;
    }
    matrices
}

/// What a kernel stores: its sums; what follows from them by
/// [`Job::solution`](crate::engine::Job::solution); the same, the last output being what the others
/// leave of sum 0. Engines may add bits of their own.
pub(super) const PLAIN: u8 = 0;
pub(super) const SOLVED: u8 = 1;
pub(super) const LAST_BY_SUM: u8 = 2;

/// A form of its own: all sums but sum 0 are outputs, and the last output is what those taken leave
/// of it ([`crate::expand`]).
pub(super) const EXPANDED: u8 = 8;

/// Added to a form: zeros and ones of the solution are looked for, visit by visit. Where parities
/// are lost with data half of its products are such; whoever has none loses by looking.
pub(super) const LOOKING: u8 = 4;

/// Ways of the first-level cache of Zen 3 and Zen 4: of more page-aligned buffers than that it does
/// not hold a line each. What comes with a line that is read is evicted before the next visit then;
/// so a visit takes all that it can.
pub(super) const WAYS: usize = 8;

/// How else a kernel stores, through the cache or past it, by what it fetches into the first-level
/// cache while it reads: what its next visit reads, what one of the visits after it does, or what
/// comes much later.
pub(super) const CACHED_NEXT: u8 = 1;
pub(super) const CACHED_LATER: u8 = 2;
pub(super) const PAST_NEXT: u8 = 5;
pub(super) const PAST_LATER: u8 = 6;
pub(super) const PAST_AHEAD: u8 = 7;

/// How kernels store here. To fetch far ahead helps hardware that follows many streams (Sapphire
/// Rapids: 16 % gained at (16,4) from memory; Ice Lake: 16 to 29), and takes from hardware that
/// follows few what it has (Zen 4: half is lost at (10,4)). That wants to be told what comes next,
/// not more; or nothing at all (Zen 5).
pub(super) fn stores(streaming: bool) -> u8 {
    match (streaming, Kind::of_this_processor()) {
        (false, _) => CACHED,
        (true, Kind::SapphireRapids | Kind::IceLake) => PAST_AHEAD,
        (true, Kind::Zen3 | Kind::Zen4) => PAST_NEXT,
        (true, Kind::Zen5) => PAST,
    }
}

/// How far ahead a kernel fetches; 0: nothing. What twice as far gains and loses, and
/// `prefetchnta`, is in NOTES.md.
pub(super) const fn fetched_ahead_bytes(stores: u8) -> usize {
    match stores {
        PAST_NEXT | CACHED_NEXT => 128,
        PAST_LATER | CACHED_LATER => 256,
        PAST_AHEAD => 1024,
        _ => 0,
    }
}
