//! Read-ahead for sequential readers: with few requests at a time, devices are idle while a reader
//! handles each answer.
//!
//! A run is a series of reads of one length, each beginning where an earlier one ended. After some
//! reads of a run the next ones are read before they are requested. A read-ahead answers only a
//! request for exactly its blocks, once. It is dropped when one of its blocks is written or
//! trimmed, by an epoch, too, and when the volume is idle. While an epoch is open, whose end
//! changes the data, nothing is read ahead. Only the engine's thread accesses these blocks, so no
//! read is answered with data from before a write.

use crate::memory::Block;
use pantile_volume::{RequestId, UserBlock};
use std::collections::BTreeMap;
use std::ops::Range;

/// Number of runs that are tracked at a time.
const STREAMS: usize = 8;

/// Number of reads of a run before blocks are read ahead.
const BEFORE: u32 = 3;

/// Shortest read that can begin a run, in blocks.
const BLOCKS_LEAST: u32 = 16;

/// Most blocks that are read ahead of one run: 4 MiB.
const WINDOW_BLOCKS: u64 = 1024;

/// Most blocks that are read ahead of all runs together: 16 MiB.
const BLOCKS_MOST: u64 = 4096;

/// Number of reads after which an unused read-ahead is dropped if room is needed.
const READS_KEPT: u64 = 256;

/// A run of reads.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// First block of the expected next read.
    next: u64,
    /// Length of each read in blocks.
    count: u32,
    reads: u32,
    /// Time of its last read, counted in reads of all runs.
    at: u64,
}

/// State of a read-ahead: under way or complete.
#[derive(Debug)]
pub(crate) enum Early {
    UnderWay(RequestId),
    There(Vec<Option<Block>>),
}

#[derive(Debug)]
struct Entry {
    count: u32,
    at: u64,
    found: Early,
}

/// The read-aheads, and the runs.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    streams: [Stream; STREAMS],
    /// Read-aheads by first block. Invariant: no two overlap.
    entries: BTreeMap<u64, Entry>,
    /// Number of blocks of all entries.
    blocks: u64,
    reads: u64,
}

impl Ahead {
    /// Removes and returns the read-ahead of exactly these blocks.
    pub(crate) fn take(&mut self, first: UserBlock, count: u32) -> Option<Early> {
        let is_it = self.entries.get(&first.0).is_some_and(|entry| entry.count == count);
        is_it.then(|| self.remove(first.0)).flatten()
    }

    /// Records a read. Returns the read-aheads to begin, none beyond `end`.
    pub(crate) fn asked(&mut self, first: UserBlock, count: u32, end: UserBlock) -> Vec<(UserBlock, u32)> {
        self.reads += 1;
        if count < BLOCKS_LEAST {
            return Vec::new();
        }
        let goes_on = |stream: &&mut Stream| stream.next == first.0 && stream.count == count;
        let next = first.0 + u64::from(count);
        let Some(stream) = self.streams.iter_mut().find(goes_on) else {
            let oldest = self.streams.iter_mut().min_by_key(|stream| stream.at).expect("there are some");
            *oldest = Stream { next, count, reads: 1, at: self.reads };
            return Vec::new();
        };
        *stream = Stream { next, count, reads: stream.reads + 1, at: self.reads };
        if stream.reads <= BEFORE {
            return Vec::new();
        }
        let window = next..end.0.min(next + WINDOW_BLOCKS);
        let starts = window.clone().step_by(count as usize);
        let whole =
            starts.map(|start| start..start + u64::from(count)).filter(|range| range.end <= window.end);
        let wanted: Vec<Range<u64>> = whole.filter(|range| !self.overlaps(range)).collect();
        let blocks: u64 = wanted.iter().map(|range| range.end - range.start).sum();
        if self.blocks + blocks > BLOCKS_MOST {
            self.forget_old();
        }
        let room = BLOCKS_MOST.saturating_sub(self.blocks) / u64::from(count);
        wanted.into_iter().take(room as usize).map(|range| (UserBlock(range.start), count)).collect()
    }

    /// Records that a read-ahead which [`asked`](Self::asked) returned has begun.
    pub(crate) fn begun(&mut self, first: UserBlock, count: u32, id: RequestId) {
        self.entries.insert(first.0, Entry { count, at: self.reads, found: Early::UnderWay(id) });
        self.blocks += u64::from(count);
    }

    /// Stores the blocks of a read-ahead. `None`: it failed and is dropped, so that a request for
    /// it reads again.
    pub(crate) fn came(&mut self, id: RequestId, blocks: Option<Vec<Option<Block>>>) {
        let is_it = |entry: &Entry| matches!(entry.found, Early::UnderWay(under_way) if under_way == id);
        let Some((&first, _)) = self.entries.iter().find(|(_, entry)| is_it(entry)) else { return };
        match (blocks, self.entries.get_mut(&first)) {
            (Some(blocks), Some(entry)) => entry.found = Early::There(blocks),
            _ => drop(self.remove(first)),
        }
    }

    /// Drops read-aheads that overlap these blocks, because the blocks are written or trimmed.
    pub(crate) fn forget(&mut self, first: UserBlock, count: u64) {
        if self.entries.is_empty() {
            return;
        }
        let range = first.0..first.0 + count;
        while let Some(entry) = self.overlapping(&range) {
            self.remove(entry);
        }
    }

    /// Drops all read-aheads.
    pub(crate) fn clear(&mut self) {
        *self = Ahead { reads: self.reads, ..Ahead::default() };
    }

    fn forget_old(&mut self) {
        let is_old = |entry: &Entry| entry.at + READS_KEPT < self.reads;
        let old: Vec<u64> =
            self.entries.iter().filter(|(_, entry)| is_old(entry)).map(|(&first, _)| first).collect();
        old.into_iter().for_each(|first| drop(self.remove(first)));
    }

    fn remove(&mut self, first: u64) -> Option<Early> {
        let entry = self.entries.remove(&first)?;
        self.blocks -= u64::from(entry.count);
        Some(entry.found)
    }

    fn overlaps(&self, range: &Range<u64>) -> bool {
        self.overlapping(range).is_some()
    }

    /// Returns the first block of a read-ahead that overlaps the range.
    fn overlapping(&self, range: &Range<u64>) -> Option<u64> {
        // No two entries overlap, so only the last one that begins before the end can overlap the
        // range.
        let (&first, entry) = self.entries.range(..range.end).next_back()?;
        (first + u64::from(entry.count) > range.start && !range.is_empty()).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: UserBlock = UserBlock(10_000);

    fn wants(ahead: &mut Ahead, first: u64, count: u32) -> Vec<u64> {
        ahead.asked(UserBlock(first), count, END).iter().map(|(first, _)| first.0).collect()
    }

    #[test]
    fn only_a_run_of_reads_is_read_ahead() {
        let mut ahead = Ahead::default();
        for at in [0, 256, 512] {
            assert!(wants(&mut ahead, at, 256).is_empty());
            assert!(wants(&mut ahead, 9000 - at, 256).is_empty(), "backwards");
            assert!(wants(&mut ahead, 4000 + at / 256, 1).is_empty(), "too short");
        }
        assert_eq!(wants(&mut ahead, 768, 256), [1024, 1280, 1536, 1792]);
        ahead.begun(UserBlock(1024), 256, RequestId(1));
        assert_eq!(wants(&mut ahead, 1024, 256), [1280, 1536, 1792, 2048], "the first is under way");
        let mut ahead = Ahead::default();
        let last: Vec<Vec<u64>> = (0..4).map(|i| wants(&mut ahead, 8700 + i * 256, 256)).collect();
        assert_eq!(last[3], [9724], "the volume ends");
    }

    #[test]
    fn written_blocks_are_dropped() {
        let mut ahead = Ahead::default();
        for (id, first) in [(1, 100), (2, 120), (3, 140)] {
            ahead.begun(UserBlock(first), 20, RequestId(id));
        }
        ahead.forget(UserBlock(119), 2);
        assert!(ahead.take(UserBlock(100), 20).is_none() && ahead.take(UserBlock(120), 20).is_none());
        ahead.forget(UserBlock(120), 20);
        ahead.forget(UserBlock(160), 20);
        assert!(ahead.take(UserBlock(140), 19).is_none(), "another length");
        ahead.came(RequestId(1), Some(Vec::new()));
        ahead.came(RequestId(3), Some(Vec::new()));
        assert!(matches!(ahead.take(UserBlock(140), 20), Some(Early::There(_))));
        assert!(ahead.take(UserBlock(140), 20).is_none() && ahead.blocks == 0, "once");
    }

    #[test]
    fn unused_blocks_make_way() {
        let mut ahead = Ahead::default();
        let read = |ahead: &mut Ahead, first: u64| {
            let wanted = ahead.asked(UserBlock(first), 256, UserBlock(u64::MAX));
            wanted.iter().for_each(|&(first, count)| ahead.begun(first, count, RequestId(first.0)));
            wanted.len()
        };
        for run in 0..8u64 {
            let begun: usize = (0..4).map(|i| read(&mut ahead, run * 100_000 + i * 256)).sum();
            assert_eq!(begun, if run < 4 { 4 } else { 0 }, "{run}");
        }
        let (all, kept) = (ahead.blocks, READS_KEPT + 1);
        assert_eq!(all, BLOCKS_MOST);
        assert!((0..kept).all(|i| read(&mut ahead, 2_000_000 + i * 1000) == 0));
        let begun: usize = (0..5).map(|i| read(&mut ahead, 5_000_000 + i * 256)).sum();
        assert_eq!(begun, 5);
        assert_eq!(ahead.blocks, 5 * 256);
    }
}
