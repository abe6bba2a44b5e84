//! x86-64: 32-byte vectors since 2013 (AVX2), one-instruction products since 2019 (GFNI), 64-byte
//! vectors.

#[macro_use]
mod pick;

#[cfg(feature = "run-time-code")]
mod ahead;
#[cfg(feature = "run-time-code")]
mod assembler;
mod avx2;
mod avx2_gfni;
mod avx512_gfni;
pub(crate) mod cpu;
mod forms;
mod partial;
#[cfg(feature = "run-time-code")]
pub(crate) mod xor_code;
mod zip;

pub(crate) use avx2::Avx2;
pub(crate) use avx2_gfni::Avx2Gfni;
pub(crate) use avx512_gfni::Avx512Gfni;

use crate::horner::HornerEngine;
use crate::packets::SpreadLoop;
use crate::tier::Tier;
use crate::xor_rows::RowLoop;

/// Hands a macro the engines, a tier each.
macro_rules! for_engines {
    ($what:ident($($with:tt)*)) => {
        $what! { [Avx2 Avx2Gfni Avx512Gfni] $($with)* }
    };
}
pub(crate) use for_engines;

/// Returns the kernel of a tier for states of these kinds, and of these classes of factors if it
/// depends on them; `None` if the tier has none, or this machine not the tier.
pub(crate) fn horner_engine(tier: Tier, planes: usize, kinds: u32, classes: u32) -> Option<HornerEngine> {
    match tier {
        Tier::Avx2 => Avx2::new().and_then(|_| avx2::horner(planes, kinds, classes)),
        Tier::Avx2Gfni => Avx2Gfni::new().and_then(|_| avx2_gfni::horner(planes, kinds, classes)),
        Tier::Avx512Gfni => Avx512Gfni::new().and_then(|_| avx512_gfni::horner(planes, kinds, classes)),
        _ => None,
    }
}

/// The loops over rows for ever narrower slices, and the bytes of these.
pub(crate) fn row_loops(tier: Tier, streaming: bool) -> &'static [(RowLoop, usize)] {
    match (tier, streaming) {
        (Tier::Avx512Gfni, false) => &[
            (avx512_gfni::rows::<4, false>, 256),
            (avx512_gfni::rows::<2, false>, 128),
            (avx512_gfni::rows::<1, false>, 64),
        ],
        (Tier::Avx512Gfni, true) => &[
            (avx512_gfni::rows::<4, true>, 256),
            (avx512_gfni::rows::<2, true>, 128),
            (avx512_gfni::rows::<1, true>, 64),
        ],
        (Tier::Avx2 | Tier::Avx2Gfni, false) => {
            &[(avx2::rows::<8, false>, 256), (avx2::rows::<2, false>, 64), (avx2::rows::<1, false>, 32)]
        }
        (Tier::Avx2 | Tier::Avx2Gfni, true) => {
            &[(avx2::rows::<8, true>, 256), (avx2::rows::<2, true>, 64), (avx2::rows::<1, true>, 32)]
        }
        _ => &[],
    }
}

/// The loops that spread a change, for ever narrower slices, and the bytes of these.
pub(crate) fn spread_loops(tier: Tier) -> &'static [(SpreadLoop, usize)] {
    match tier {
        Tier::Avx512Gfni => &[(avx512_gfni::spread::<1>, 64), (avx2::spread::<1>, 32)],
        Tier::Avx2 | Tier::Avx2Gfni => &[(avx2::spread::<2>, 64), (avx2::spread::<1>, 32)],
        _ => &[],
    }
}
