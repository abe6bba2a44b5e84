//! The stand-in for an architecture without engines.

use crate::engine::{Engine, Kernel, Summing};
use crate::horner::HornerEngine;
use crate::packets::SpreadLoop;
use crate::streams::FewStreams;
use crate::tier::Tier;
use crate::xor_rows::RowLoop;

#[cfg(feature = "fft")]
mod transforms;

/// The traits of an unknown processor.
pub(crate) mod cpu {
    /// Returns the footprint in bytes above which outputs would be stored past the cache.
    pub(crate) fn streaming_footprint_bytes() -> usize {
        crate::streams::STREAMING_FOOTPRINT_BYTES
    }

    /// Runs work that counts bits, without special instructions.
    pub(crate) fn counting<R>(work: impl FnOnce() -> R) -> R {
        work()
    }

    /// Does nothing: no store bypasses the cache.
    pub(crate) fn fence() {}
}

/// Passes the engines to a macro, one per tier.
macro_rules! for_engines {
    ($what:ident($($with:tt)*)) => {
        $what! { [NoEngine] $($with)* }
    };
}
pub(crate) use for_engines;

/// Returns `None`: there is no engine.
pub(crate) fn horner_engine(_: Tier, _planes: usize, _kinds: u32, _classes: u32) -> Option<HornerEngine> {
    None
}

/// Returns no loops over rows: there is no engine.
pub(crate) fn row_loops(_: Tier, _streaming: bool) -> &'static [(RowLoop, usize)] {
    &[]
}

/// Returns no loops that add a change: there is no engine.
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
