//! An architecture without engines.

use crate::engine::{Engine, Kernel, Summing};
use crate::horner::HornerEngine;
use crate::packets::SpreadLoop;
use crate::streams::FewStreams;
use crate::tier::Tier;
use crate::xor_rows::RowLoop;

#[cfg(feature = "fft")]
mod transforms;

/// An unknown processor.
pub(crate) mod cpu {
    /// From which footprint on outputs would be stored past the cache.
    pub(crate) fn streaming_footprint_bytes() -> usize {
        crate::streams::STREAMING_FOOTPRINT_BYTES
    }

    /// Does work that counts bits; there are no instructions for it here.
    pub(crate) fn counting<R>(work: impl FnOnce() -> R) -> R {
        work()
    }

    /// Does nothing: no store bypasses the cache.
    pub(crate) fn fence() {}
}

/// Hands a macro the engines, a tier each.
macro_rules! for_engines {
    ($what:ident($($with:tt)*)) => {
        $what! { [NoEngine] $($with)* }
    };
}
pub(crate) use for_engines;

/// No engine has a kernel for these.
pub(crate) fn horner_engine(_: Tier, _planes: usize, _kinds: u32, _classes: u32) -> Option<HornerEngine> {
    None
}

/// No engine has loops over rows.
pub(crate) fn row_loops(_: Tier, _streaming: bool) -> &'static [(RowLoop, usize)] {
    &[]
}

/// Nor such that spread a change.
pub(crate) fn spread_loops(_: Tier) -> &'static [(SpreadLoop, usize)] {
    &[]
}

/// An engine that no machine has, so that code for engines compiles.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NoEngine {}

impl NoEngine {
    pub(crate) const TIER: Tier = Tier::Portable;

    pub(crate) fn new() -> Option<NoEngine> {
        None
    }
}

impl Engine for NoEngine {
    type Coefficient = u8;

    const MULTIPLY_COST: usize = 2;

    const STREAM_ALIGN_BYTES: usize = 1;

    fn coefficient(c: u8) -> u8 {
        c
    }

    fn kernel(self, _streaming: bool, _shape: Summing) -> Kernel<u8> {
        match self {}
    }

    fn few_streams(self) -> Option<FewStreams> {
        match self {}
    }

    fn fence(self) {
        match self {}
    }
}
