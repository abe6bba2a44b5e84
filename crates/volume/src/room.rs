//! The memory of a volume, divided by use so that the whole stays within a bound.

/// Limits of blocks in memory, by use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Dirty blocks that start a commit; writes are answered up to eight times this number.
    pub(crate) dirty_mark: usize,
    /// Data of epochs that are kept so that their parity can be computed without reads.
    pub(crate) epoch_data: usize,
    /// Parity of epochs that is computed and not written.
    pub(crate) epoch_parity: usize,
    /// Blocks that one commit reads of stripes to write them as a whole, unless it is one stripe.
    /// Each is in memory until the commit ends.
    pub(crate) gather: usize,
    /// Blocks that spans read together.
    pub(crate) spans: usize,
    /// Blocks that fetches read one by one, including those that compute a bad block.
    pub(crate) fetches: usize,
    /// Chunk headers, beside those in use.
    pub(crate) headers: usize,
}

impl Room {
    /// Divides a bound in blocks: of 512 MiB, 16 MiB of dirty blocks start a commit.
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
