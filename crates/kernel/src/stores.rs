//! The ways to write outputs: through the cache or past it, and overwriting the content or added to
//! it.

use crate::arch::native::cpu;

/// The way to store outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Stores {
    /// Streaming if sources and outputs together exceed a second-level cache; cached if they do
    /// not, or if outputs are added to.
    #[default]
    Auto,
    /// Through the cache: for outputs that are read again at once.
    Cached,
    /// Past the cache wherever alignment allows: for outputs that go to a device.
    Streaming,
}

impl Stores {
    /// True if outputs go past the cache when `buffers` buffers of `len` bytes are read or written.
    pub(crate) fn streams(self, buffers: usize, len: usize) -> bool {
        match self {
            Stores::Cached => false,
            Stores::Streaming => true,
            Stores::Auto => buffers.saturating_mul(len) > cpu::streaming_footprint_bytes(),
        }
    }
}

/// The treatment of an output's old content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It is overwritten.
    Apply,
    /// The sum is added to it.
    Accumulate,
}
