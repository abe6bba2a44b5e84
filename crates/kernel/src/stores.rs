//! How outputs are written: through the cache or past it, anew or on top of what is there.

use crate::arch::native::cpu;

/// How outputs are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Stores {
    /// Streaming if sources and outputs together exceed what a second-level cache holds, cached
    /// below that, and where outputs are added to.
    #[default]
    Auto,
    /// Through the cache: for outputs that are read again at once.
    Cached,
    /// Past the cache wherever alignment allows: for outputs that go to a device.
    Streaming,
}

impl Stores {
    /// Whether outputs go past the cache where so many buffers of `len` bytes are read or written.
    pub(crate) fn streams(self, buffers: usize, len: usize) -> bool {
        match self {
            Stores::Cached => false,
            Stores::Streaming => true,
            Stores::Auto => buffers.saturating_mul(len) > cpu::streaming_footprint_bytes(),
        }
    }
}

/// What happens to the bytes that an output held before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// They are overwritten.
    Apply,
    /// The sum is added to them.
    Accumulate,
}
