//! aarch64: 16-byte vectors, which every such processor has.

mod neon;

pub(crate) use neon::Neon;

use crate::horner::HornerEngine;
use crate::packets::SpreadLoop;
use crate::tier::Tier;
use crate::xor_rows::RowLoop;

/// The traits of an aarch64 processor, none of which was measured.
pub(crate) mod cpu {
    /// Returns the footprint in bytes above which outputs would be stored past the cache.
    pub(crate) fn streaming_footprint_bytes() -> usize {
        crate::streams::STREAMING_FOOTPRINT_BYTES
    }

    /// Runs work that counts bits; the instructions for it are always available.
    pub(crate) fn counting<R>(work: impl FnOnce() -> R) -> R {
        work()
    }

    /// Does nothing: no line is prefetched.
    #[cfg(feature = "fft")]
    pub(crate) fn fetch(_line: *const u8) {}

    /// Does nothing: no store bypasses the cache.
    pub(crate) fn fence() {}
}

/// Passes the engines to a macro, one per tier.
macro_rules! for_engines {
    ($what:ident($($with:tt)*)) => {
        $what! { [Neon] $($with)* }
    };
}
pub(crate) use for_engines;

/// Returns the kernel of a tier for states of these kinds and factors of these classes; `None` if
/// the tier has none.
pub(crate) fn horner_engine(tier: Tier, planes: usize, kinds: u32, classes: u32) -> Option<HornerEngine> {
    match tier {
        Tier::Neon => Neon::new().and_then(|_| neon::horner(planes, kinds, classes)),
        _ => None,
    }
}

/// Returns the loops over rows, from wide to narrow slices, each with the bytes of its slice.
pub(crate) fn row_loops(tier: Tier, _streaming: bool) -> &'static [(RowLoop, usize)] {
    match tier {
        Tier::Neon => {
            &[(neon::rows::<16, false>, 256), (neon::rows::<4, false>, 64), (neon::rows::<1, false>, 16)]
        }
        _ => &[],
    }
}

/// Returns the loops that add a change to targets, from wide to narrow slices, each with the bytes
/// of its slice.
pub(crate) fn spread_loops(tier: Tier) -> &'static [(SpreadLoop, usize)] {
    match tier {
        Tier::Neon => &[(neon::spread::<4>, 64), (neon::spread::<1>, 16)],
        _ => &[],
    }
}
