//! Headers of chunks in memory: the checksums by which blocks are verified.

use crate::Slot;
use crate::fetch::ChunkSums;
use crate::pins::Pins;
use std::collections::{BTreeMap, VecDeque};

/// The headers that were read or written last, by physical stripe and device.
#[derive(Debug)]
pub(crate) struct Headers {
    sums: BTreeMap<(u32, Slot), ChunkSums>,
    /// The keys of `sums`, oldest first; some may no longer be in `sums`.
    order: VecDeque<(u32, Slot)>,
    most: usize,
}

impl Headers {
    /// Makes a cache of at most this many headers, beside those in use.
    pub(crate) fn at_most(most: usize) -> Headers {
        Headers { sums: BTreeMap::new(), order: VecDeque::new(), most }
    }

    /// Limits the headers from the next one on, beside those in use.
    pub(crate) fn keep_at_most(&mut self, most: usize) {
        self.most = most;
    }

    /// Returns the checksums of a chunk, if they are in memory and of this generation.
    pub(crate) fn sums(&self, physical: u32, slot: Slot, generation: u64) -> Option<&ChunkSums> {
        self.sums.get(&(physical, slot)).filter(|sums| sums.generation == generation)
    }

    pub(crate) fn keep(&mut self, physical: u32, slot: Slot, sums: ChunkSums, pins: &Pins) {
        // The oldest headers are dropped first, but none of a stripe that is being read: its blocks
        // are verified by them.
        for _ in 0..self.order.len() {
            if self.sums.len() < self.most {
                break;
            }
            let Some(oldest) = self.order.pop_front() else {
                break;
            };
            if pins.holds(oldest.0) {
                self.order.push_back(oldest);
            } else {
                self.sums.remove(&oldest);
            }
        }
        if self.sums.insert((physical, slot), sums).is_none() {
            self.order.push_back((physical, slot));
        }
        if self.order.len() > 2 * self.most.max(1024) {
            self.order = self.sums.keys().copied().collect();
        }
    }

    pub(crate) fn forget(&mut self, physical: u32, slot: Slot) {
        self.sums.remove(&(physical, slot));
    }

    /// Forgets the headers of a device.
    pub(crate) fn forget_device(&mut self, slot: Slot) {
        self.sums.retain(|&(_, of), _| of != slot);
    }
}
