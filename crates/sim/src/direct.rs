//! Users who read devices themselves, at the places that the engine gives. The content counts if it
//! has the checksums.
//!
//! Anything may happen between the lookup and the read. The model checks this content like any
//! answer. If it does not have the checksums, the engine gets the same request.

use pantile_volume::{Event, Lookup, Mixture, RequestId, Seed, Source, Stretch};

use crate::content::data_checksum;
use crate::world::add_times;
use crate::{Data, Random};

/// A read of devices without the engine.
#[derive(Debug)]
pub(crate) struct DirectRead {
    pub(crate) request: RequestId,
    /// The event for the engine if the content on the devices does not count.
    pub(crate) event: Event,
    pub(crate) lookup: Lookup,
    /// The content of its stretches that have been read so far.
    pub(crate) found: Vec<Vec<Data>>,
}

impl DirectRead {
    /// Returns the wanted blocks, once all stretches are read; `None`: a computed block is wrong.
    pub(crate) fn answer(&self, volume: &[u8; 16]) -> Option<Vec<Option<Data>>> {
        let mixed = |mixture: &Mixture, index: u32| {
            let mut total = [0; 16];
            for &(stretch, first, factor) in &mixture.terms {
                add_times(&mut total, factor, &self.found[stretch][(first + index) as usize]);
            }
            total
        };
        let mut answer = Vec::new();
        for &(source, blocks) in &self.lookup.parts {
            match source {
                Source::Read(stretch, first) => {
                    let range = first as usize..(first + blocks) as usize;
                    answer.extend(self.found[stretch][range].iter().copied().map(Some));
                }
                Source::Made(mixture, first) => {
                    let mixture = &self.lookup.mixtures[mixture];
                    let made: Vec<Data> =
                        (first..first + blocks).map(|index| mixed(mixture, index)).collect();
                    let checks = mixture.instead_of.iter().flat_map(Stretch::checks).skip(first as usize);
                    let is_right =
                        |(data, (seed, sum)): (&Data, (Seed, u64))| data_checksum(data, volume, seed) == sum;
                    if !made.iter().zip(checks).all(is_right) {
                        return None;
                    }
                    answer.extend(made.into_iter().map(Some));
                }
            }
        }
        Some(answer)
    }
}

/// Reads of devices that are under way.
pub(crate) struct DirectReads {
    random: Random,
    under_way: Vec<DirectRead>,
}

impl DirectReads {
    pub(crate) fn new(seed: u64) -> DirectReads {
        DirectReads { random: Random::new(seed), under_way: Vec::new() }
    }

    /// Returns true if the next suitable read is made without the engine.
    pub(crate) fn wants(&mut self) -> bool {
        self.random.chance(1, 2)
    }

    pub(crate) fn begin(&mut self, read: DirectRead) {
        self.under_way.push(read);
    }

    /// Returns a read that is due now, if any; always one if no other event is left.
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
