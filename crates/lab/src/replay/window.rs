//! Savings of gathering writes for a while before parity is computed.

use super::Gathered;
use super::counts::BLOCK_BYTES;
use super::trace::Request;
use pantile::plan::Planner;
use pantile::{CellIndex, CellSet, Code, Costs};
use std::collections::HashMap;

/// Gathers the writes of a number of requests, then counts each stripe once: per offset, the
/// cheapest plan for all its new cells.
pub struct Window {
    requests: u64,
    seen: u64,
    code: Code,
    planner: Planner,
    element_blocks: u64,
    stripe_blocks: u64,
    /// A bitmap of the dirty blocks of each stripe.
    dirty: HashMap<u64, Vec<u64>>,
    /// Cost of one offset, by the bitmap of its new cells.
    costs: HashMap<Vec<u64>, u64>,
    user_blocks: u64,
    moved_blocks: u64,
    /// Number of times that stripes were counted early, because memory was full.
    early: u64,
}

/// The most bytes of costs that are kept; random writes have many patterns.
const PLAN_BYTES_MOST: usize = 8 << 20;

/// The most bytes of bitmaps; when they are full, the gathered stripes are counted early. 32 MiB
/// suffice for some 150 GiB in stripes of 96 blocks.
const DIRTY_BYTES_MOST: usize = 32 << 20;

/// Bytes of an entry of a map beside its bits.
const ENTRY_BYTES: usize = 64;

impl Window {
    /// Returns a window for volumes of a geometry.
    pub fn new(geometry: &pantile_volume::Geometry, requests: u64) -> Window {
        Window {
            requests: requests.max(1),
            seen: 0,
            code: geometry.code.clone(),
            planner: Planner::new(&geometry.code),
            element_blocks: geometry.element_blocks().into(),
            stripe_blocks: geometry.stripe_blocks(),
            dirty: HashMap::new(),
            costs: HashMap::new(),
            user_blocks: 0,
            moved_blocks: 0,
            early: 0,
        }
    }

    /// Counts a request. A read only counts as one of the window's requests.
    pub fn push(&mut self, request: &Request) {
        if request.is_write {
            let end = (request.offset + request.len).div_ceil(BLOCK_BYTES);
            let words = (self.stripe_blocks.div_ceil(64)) as usize;
            let stripes_most = (DIRTY_BYTES_MOST / (ENTRY_BYTES + 8 * words)).max(1);
            let mut block = request.offset / BLOCK_BYTES;
            while block < end {
                let stripe = block / self.stripe_blocks;
                if self.dirty.len() >= stripes_most && !self.dirty.contains_key(&stripe) {
                    self.early += 1;
                    self.write();
                }
                let bits = self.dirty.entry(stripe).or_insert_with(|| vec![0; words]);
                let to = end.min((stripe + 1) * self.stripe_blocks);
                self.user_blocks += to - block;
                set(bits, block - stripe * self.stripe_blocks, to - stripe * self.stripe_blocks);
                block = to;
            }
        }
        self.seen += 1;
        if self.seen.is_multiple_of(self.requests) {
            self.write();
        }
    }

    /// Counts the gathered blocks as written, and returns the counts.
    pub fn finish(mut self) -> Gathered {
        self.write();
        let Window { requests, user_blocks, moved_blocks, early, .. } = self;
        Gathered { requests, user_blocks, moved_blocks, early }
    }

    fn write(&mut self) {
        let data = self.code.data().len();
        for (_, bits) in std::mem::take(&mut self.dirty) {
            for offset in 0..self.element_blocks {
                let mut pattern = vec![0u64; data.div_ceil(64)];
                for element in 0..data {
                    let place = element as u64 * self.element_blocks + offset;
                    let is_new = bits[(place / 64) as usize] >> (place % 64) & 1;
                    pattern[element / 64] |= is_new << (element % 64);
                }
                if pattern.iter().any(|&word| word != 0) {
                    self.moved_blocks += self.cost(pattern);
                }
            }
        }
    }

    fn cost(&mut self, pattern: Vec<u64>) -> u64 {
        if let Some(&known) = self.costs.get(&pattern) {
            return known;
        }
        let is_new = |element: &usize| pattern[element / 64] >> (element % 64) & 1 == 1;
        let cells: Vec<CellIndex> =
            (0..self.code.data().len()).filter(is_new).map(|element| self.code.data()[element]).collect();
        let plan = self.planner.update(&cells, &CellSet::empty(&self.code), &Costs::uniform());
        let cost = plan.map_or(0, |plan| plan.cost);
        if self.costs.len() >= PLAN_BYTES_MOST / (ENTRY_BYTES + 8 * pattern.len()) {
            self.costs.clear();
        }
        self.costs.insert(pattern, cost);
        cost
    }
}

/// Sets the bits `from..to`.
fn set(bits: &mut [u64], from: u64, to: u64) {
    let mut at = from;
    while at < to {
        let (word, first) = ((at / 64) as usize, at % 64);
        let n = (to - at).min(64 - first);
        bits[word] |= (u64::MAX >> (64 - n)) << first;
        at += n;
    }
}

#[cfg(test)]
mod tests {
    use super::set;

    #[test]
    fn bits_are_set_from_anywhere_to_anywhere() {
        for from in 0..130u64 {
            for to in from..=192 {
                let mut bits = [0u64; 3];
                set(&mut bits, from, to);
                for at in 0..192 {
                    let is_set = bits[at as usize / 64] >> (at % 64) & 1 == 1;
                    assert_eq!(is_set, (from..to).contains(&at), "{at} of {from}..{to}");
                }
            }
        }
    }
}
