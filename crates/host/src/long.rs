//! The choice for each long read: direct, or by the engine, which reads ahead.
//!
//! A single reader waits for each of its reads, and the devices are idle in between unless the
//! engine reads ahead. Several concurrent readers keep the devices busy, and the engine's thread is
//! slower than the devices. Two concurrent reads can be those of two readers, or of one with queue
//! depth 2: the engine does them as long as its read-aheads are used.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Number of other pending reads from which on a read is in a crowd.
const CROWD: usize = 2;

/// Number of reads after one in a crowd that are direct, too: even in a crowd a read is alone at
/// times.
const CROWDED_FOR: u32 = 32;

/// Number of reads, of one or two readers, that the engine does after a read-ahead was used.
const LEFT_AFTER_AHEAD: u32 = 8;

/// State of the long reads of a volume.
#[derive(Debug, Default)]
pub(crate) struct LongReads {
    /// Number of pending reads, direct or not.
    waited_for: AtomicUsize,
    /// Number of next reads that the engine does although another one is pending.
    left: AtomicU32,
    /// Number of next reads that are direct.
    crowded: AtomicU32,
}

/// A pending long read.
#[derive(Debug)]
pub(crate) struct LongRead<'r> {
    all: &'r LongReads,
    others: usize,
}

impl LongReads {
    /// Begins a read.
    pub(crate) fn begin(&self) -> LongRead<'_> {
        LongRead { all: self, others: self.waited_for.fetch_add(1, Ordering::Relaxed) }
    }

    /// Records that a read-ahead of the engine was used.
    pub(crate) fn was_read_ahead(&self) {
        self.left.store(LEFT_AFTER_AHEAD, Ordering::Relaxed);
    }
}

impl LongRead<'_> {
    /// True if the engine is to do the read. Call it once for each read: it decrements counters.
    pub(crate) fn is_left(&self) -> bool {
        if self.others >= CROWD {
            self.all.crowded.store(CROWDED_FOR, Ordering::Relaxed);
            return false;
        }
        !use_up(&self.all.crowded) && (self.others == 0 || use_up(&self.all.left))
    }
}

impl Drop for LongRead<'_> {
    fn drop(&mut self) {
        self.all.waited_for.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Decrements a counter; true if it was above 0.
fn use_up(count: &AtomicU32) -> bool {
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lone_reader_is_read_ahead() {
        let reads = LongReads::default();
        assert!(reads.begin().is_left() && reads.begin().is_left(), "one behind the other");
        let first = reads.begin();
        assert!(!reads.begin().is_left(), "nothing was read ahead");
        reads.was_read_ahead();
        let left = || (0..LEFT_AFTER_AHEAD).all(|_| reads.begin().is_left());
        assert!(left() && !reads.begin().is_left(), "so many and no more");
        reads.was_read_ahead();
        let second = reads.begin();
        assert!(!reads.begin().is_left(), "the third is in a crowd");
        drop(second);
        let crowded = || (0..CROWDED_FOR).all(|_| !reads.begin().is_left());
        assert!(crowded() && left(), "the crowd is over, and what was counted before it still counts");
        drop((first, reads.begin(), reads.begin()));
        assert!(reads.begin().is_left(), "all have gone");
    }
}
