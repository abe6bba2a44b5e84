//! Limits of a processor's prefetchers and caches: the number of streams that it follows, and the
//! bytes that it keeps near.

/// The footprint above which [`Stores::Auto`](crate::Stores) streams, unless the architecture
/// defines another one: the largest second-level cache of the machines in NOTES.md.
pub(crate) const STREAMING_FOOTPRINT_BYTES: usize = 2 << 20;

/// Limits of processors whose prefetchers fail with many streams. Groups are small enough to be
/// followed, and are processed for many pages at a time, with the sums in a quarter of a
/// second-level cache. Measured on Zen 4, where such groups gain up to 100 %; NOTES.md has the
/// figures.
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

/// The size of groups: the streams that are read together over a tile. They are sources, and in the
/// first group also the initial sums.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Groups {
    pub(crate) reads: usize,
    pub(crate) tile_bytes: usize,
}

/// The limits above which streams are too many for a processor, and the remedies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FewStreams {
    /// The most streams that the processor follows, wherever they begin.
    pub(crate) most: usize,
    /// Like `most`, for streams that begin at different offsets of their pages, so that few of
    /// their lines share a set of the first-level cache.
    pub(crate) most_apart: usize,
    /// Like `most_apart`, for kernels that double
    /// ([`doubling_kernel`](crate::engine::Engine::doubling_kernel)).
    pub(crate) most_apart_doubling: usize,
    /// The least length: shorter streams are read without groups, because finding the streams of
    /// each group costs more than it gains.
    pub(crate) len_least: usize,
    pub(crate) groups: Groups,
    /// The most far streams that the processor follows, if they begin apart as for `most_apart`.
    pub(crate) most_far: usize,
    /// The most far streams that need not begin apart, if outputs are stored through the cache and
    /// if past it: the first-level cache keeps a line of each.
    pub(crate) ways: [usize; 2],
    /// The total bytes of streams above which they are far: they do not stay in a second-level
    /// cache, but may be in the third.
    pub(crate) far_bytes: usize,
    /// The total bytes of streams above which they come from memory, from where the processor
    /// follows them.
    pub(crate) most_far_bytes: usize,
}

impl FewStreams {
    /// True if `reads` streams of `len` bytes are more than the processor follows.
    pub(crate) fn loses(self, reads: usize, len: usize) -> bool {
        reads > self.most && len >= self.len_least
    }
}

/// True if at most 4 streams begin in any sixteenth of a page.
pub(crate) fn are_apart(mut streams: impl Iterator<Item = *const u8>) -> bool {
    // Sixteen counters of four bits.
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
