//! Whose a long read is: its reader's, who goes to the devices, or the engine's, who reads ahead.
//!
//! One who reads alone waits for each read, so the devices stand still while they look at what they
//! got, unless somebody reads ahead. Several who read at a time keep devices at work by themselves,
//! and the engine's thread does less than they do. Two may be either: two who read on their own, or
//! one who has two requests under way; they are the engine's while what it reads ahead is asked
//! for.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Others that wait at the same time who make a crowd of a reader.
const CROWD: usize = 2;

/// Long reads behind one in a crowd that are not the engine's either: of a crowd, too, somebody is
/// alone now and then.
const CROWDED_FOR: u32 = 32;

/// Long reads of one or two that are left to the engine behind one that it has read ahead of.
const LEFT_AFTER_AHEAD: u32 = 8;

/// The long reads of a volume.
#[derive(Debug, Default)]
pub(crate) struct LongReads {
    /// Those that somebody waits for, whoever does them.
    waited_for: AtomicUsize,
    /// So many of the next are the engine's, which has read ahead of some.
    left: AtomicU32,
    /// So many of the next are not.
    crowded: AtomicU32,
}

/// Somebody waits for a long read as long as this is here.
#[derive(Debug)]
pub(crate) struct LongRead<'r> {
    all: &'r LongReads,
    others: usize,
}

impl LongReads {
    /// Somebody waits for one from now on.
    pub(crate) fn begin(&self) -> LongRead<'_> {
        LongRead { all: self, others: self.waited_for.fetch_add(1, Ordering::Relaxed) }
    }

    /// The engine had what somebody asked for before they did.
    pub(crate) fn was_read_ahead(&self) {
        self.left.store(LEFT_AFTER_AHEAD, Ordering::Relaxed);
    }
}

impl LongRead<'_> {
    /// Whether it is to be asked of the engine. Asked once for each read: those that are counted
    /// are used up by it.
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

/// Whether there was one.
fn use_up(count: &AtomicU32) -> bool {
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_alone_is_read_ahead_of_and_a_crowd_is_not() {
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
