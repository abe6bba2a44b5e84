//! Users who read devices themselves: the engine tells them where blocks lie, and what they find there counts if it has the checksums.
//!
//! Between the question and the look anything may happen. What was read is held to the model as any answer is, and what does not count is asked
//! of the engine after all, under the same name.

use pantile_volume::{Event, Lookup, RequestId};

use crate::{Data, Random};
use std::collections::VecDeque;

/// A read of which the engine knows nothing.
#[derive(Debug)]
pub(crate) struct DirectRead {
    pub(crate) request: RequestId,
    /// What the engine is told if the devices do not answer.
    pub(crate) event: Event,
    /// Where to look, in order.
    pub(crate) pieces: VecDeque<Lookup>,
    /// What was found at those before.
    pub(crate) found: Vec<Option<Data>>,
}

/// Those that are under way.
pub(crate) struct DirectReads {
    random: Random,
    under_way: Vec<DirectRead>,
}

impl DirectReads {
    pub(crate) fn new(seed: u64) -> DirectReads {
        DirectReads { random: Random::new(seed), under_way: Vec::new() }
    }

    /// Whether the next read that could be is one of these.
    pub(crate) fn wants(&mut self) -> bool {
        self.random.chance(1, 2)
    }

    pub(crate) fn begin(&mut self, read: DirectRead) {
        self.under_way.push(read);
    }

    /// One whose time has come, if any; surely if nothing else will happen.
    pub(crate) fn next(&mut self, nothing_else: bool) -> Option<DirectRead> {
        let is_time = !self.under_way.is_empty() && (nothing_else || self.random.chance(1, 4));
        is_time.then(|| {
            let which = self.random.below(self.under_way.len() as u64) as usize;
            self.under_way.swap_remove(which)
        })
    }

    pub(crate) fn forget(&mut self) {
        self.under_way.clear();
    }
}
