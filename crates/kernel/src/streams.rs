//! The number of streams that a processor follows, and the bytes that it keeps near: limits of its
//! prefetchers and of its caches.

/// Auto streams above this footprint, unless an architecture knows better: the largest second-level
/// cache of the machines in NOTES.md.
pub(crate) const STREAMING_FOOTPRINT_BYTES: usize = 2 << 20;

/// Limits of processors whose prefetchers fail with many streams: groups small enough to be
/// followed, for many pages at a time, with the sums in a quarter of a second-level cache. Measured
/// on Zen 4, where such groups gain up to 100 %; NOTES.md has the figures.
pub(crate) const FEW_STREAMS: FewStreams = FewStreams {
    most: 13,
    most_apart: 16,
    most_apart_doubling: 16,
    len_least: 16 * 1024,
    groups: Groups { reads: 10, tile_bytes: 64 * 1024 },
    most_far: 9,
    ways: [0; 2],
    far_bytes: 768 * 1024,
    most_far_bytes: usize::MAX,
};

/// Streams taken together over a tile of the length: sources, and with the first of them the sums
/// so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Groups {
    pub(crate) reads: usize,
    pub(crate) tile_bytes: usize,
}

/// The limits above which streams are too many for a processor, and the remedies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FewStreams {
    /// Streams that it follows while it reads them, wherever they begin.
    pub(crate) most: usize,
    /// As `most`, for streams that begin at different places of their pages, so that few of their
    /// lines share a set of the first-level cache.
    pub(crate) most_apart: usize,
    /// As `most_apart`, for kernels that double
    /// ([`doubling_kernel`](crate::engine::Engine::doubling_kernel)).
    pub(crate) most_apart_doubling: usize,
    /// Shorter streams are read without groups: finding the streams of each group costs more than
    /// it gains.
    pub(crate) len_least: usize,
    pub(crate) groups: Groups,
    /// Streams that it follows while they come from afar, if they begin apart as above.
    pub(crate) most_far: usize,
    /// Up to this many far streams need not begin apart, where outputs are stored through the cache
    /// and past it: the first-level cache keeps a line of each.
    pub(crate) ways: [usize; 2],
    /// Streams are far if they are more bytes together: they do not stay in a second-level cache,
    /// but may be in the third.
    pub(crate) far_bytes: usize,
    /// Streams of more bytes together come from memory, and are followed.
    pub(crate) most_far_bytes: usize,
}

impl FewStreams {
    /// True if `reads` reads of `len` bytes are more than the processor follows.
    pub(crate) fn loses(self, reads: usize, len: usize) -> bool {
        reads > self.most && len >= self.len_least
    }
}

/// True if at most 4 streams begin in any sixteenth of a page.
pub(crate) fn are_apart(mut streams: impl Iterator<Item = *const u8>) -> bool {
    // Sixteen counts of four bits.
    let mut counts = 0u64;
    streams.all(|stream| {
        let at = stream.addr() >> 8 << 2 & 60;
        counts += 1 << at;
        counts >> at & 15 <= 4
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_one_set_of_the_cache_are_not_apart() {
        let begin =
            |pitch: usize, streams: usize| (0..streams).map(move |s| std::ptr::without_provenance(s * pitch));
        assert!(are_apart(begin((1 << 20) + 256, 64)) && are_apart(begin(1 << 20, 4)));
        assert!(!are_apart(begin(1 << 20, 5)) && !are_apart(begin((1 << 20) + 2048, 9)));
    }
}
