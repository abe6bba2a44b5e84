//! aarch64: 16-byte vectors, which every such processor has.

mod neon;

pub(crate) use neon::Neon;

use crate::horner::HornerEngine;
use crate::packets::SpreadLoop;
use crate::tier::Tier;
use crate::xor_rows::RowLoop;

/// A processor without measurements.
pub(crate) mod cpu {
    /// From which footprint on outputs would be stored past the cache.
    pub(crate) fn streaming_footprint_bytes() -> usize {
        crate::streams::STREAMING_FOOTPRINT_BYTES
    }

    /// Does work that counts bits; the instructions for it are always available.
    pub(crate) fn counting<R>(work: impl FnOnce() -> R) -> R {
        work()
    }

    /// Does nothing: no line is prefetched.
    #[cfg(feature = "fft")]
    pub(crate) fn fetch(_line: *const u8) {}

    /// Does nothing: no store bypasses the cache.
    pub(crate) fn fence() {}
}

/// Hands a macro the engines, a tier each.
macro_rules! for_engines {
    ($what:ident($($with:tt)*)) => {
        $what! { [Neon] $($with)* }
    };
}
pub(crate) use for_engines;

/// The kernel of a tier for states of these kinds, with the factors of these classes; `None` if it
/// has none.
pub(crate) fn horner_engine(tier: Tier, planes: usize, kinds: u32, classes: u32) -> Option<HornerEngine> {
    match tier {
        Tier::Neon => Neon::new().and_then(|_| neon::horner(planes, kinds, classes)),
        _ => None,
    }
}

/// The loops over rows for ever narrower slices, and the bytes of these.
pub(crate) fn row_loops(tier: Tier, _streaming: bool) -> &'static [(RowLoop, usize)] {
    match tier {
        Tier::Neon => {
            &[(neon::rows::<16, false>, 256), (neon::rows::<4, false>, 64), (neon::rows::<1, false>, 16)]
        }
        _ => &[],
    }
}

/// The loops that spread a change, for ever narrower slices, and the bytes of these.
pub(crate) fn spread_loops(tier: Tier) -> &'static [(SpreadLoop, usize)] {
    match tier {
        Tier::Neon => &[(neon::spread::<4>, 64), (neon::spread::<1>, 16)],
        _ => &[],
    }
}
