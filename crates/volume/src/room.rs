//! Memory of a volume in blocks, by use, so that all of it stays within a bound.

/// Blocks in memory, by use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Dirty blocks that start a commit; writes are answered up to eight times as many.
    pub(crate) dirty_mark: usize,
    /// Data of epochs that are kept so that parity needs no reading.
    pub(crate) epoch_data: usize,
    /// Parity of epochs that is made and not written.
    pub(crate) epoch_parity: usize,
    /// Blocks of stripes that one commit reads to write them as a whole, unless it is one stripe.
    /// Each is in memory until the commit ends.
    pub(crate) gather: usize,
    /// Blocks that are read together.
    pub(crate) spans: usize,
    /// Blocks that are fetched one by one, with those that each needs if it is bad.
    pub(crate) fetches: usize,
    /// Chunk headers, beside those in use.
    pub(crate) headers: usize,
}

impl Room {
    /// Divides a bound in blocks: with 512 MiB 16 MiB start a commit.
    pub(crate) fn within(blocks: usize) -> Room {
        Room {
            dirty_mark: (blocks / 32).max(1),
            epoch_data: blocks / 16,
            epoch_parity: blocks / 8,
            gather: blocks / 16,
            spans: blocks / 16 * 3,
            fetches: blocks / 16,
            headers: blocks / 4,
        }
    }
}
