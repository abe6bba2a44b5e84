//! Blocks in memory by logical stripe: the dirty ones, the sealed ones, or those taken by a commit.
//!
//! A stripe's blocks are adjacent, in the order of their places. Sequential writes append; taking a
//! stripe takes one list.

use crate::Operand;
use std::collections::BTreeMap;
use std::ops::Range;

/// Blocks of one stripe: place and content, ascending.
pub(crate) type StripeBlocks = Vec<(u32, Operand)>;

/// Blocks by logical stripe and place in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    /// No list is empty.
    stripes: BTreeMap<u32, StripeBlocks>,
    len: usize,
}

impl Contents {
    /// Returns the number of blocks in all stripes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the stripes that have blocks, ascending.
    pub(crate) fn stripes(&self) -> impl Iterator<Item = (u32, &StripeBlocks)> {
        self.stripes.iter().map(|(&logical, blocks)| (logical, blocks))
    }

    /// Returns the blocks of a stripe; empty if there are none.
    pub(crate) fn stripe(&self, logical: u32) -> &[(u32, Operand)] {
        self.stripes.get(&logical).map_or(&[], |blocks| blocks)
    }

    pub(crate) fn get(&self, (logical, place): (u32, u32)) -> Option<Operand> {
        let blocks = self.stripe(logical);
        blocks.binary_search_by_key(&place, |&(at, _)| at).ok().map(|index| blocks[index].1)
    }

    /// Returns true if it has a block in a range of places of a stripe.
    pub(crate) fn has_any(&self, logical: u32, places: Range<u32>) -> bool {
        let blocks = self.stripe(logical);
        let from = blocks.partition_point(|&(at, _)| at < places.start);
        blocks.get(from).is_some_and(|&(at, _)| at < places.end)
    }

    /// Sets the content of a block; returns the content that was there before.
    pub(crate) fn insert(&mut self, (logical, place): (u32, u32), content: Operand) -> Option<Operand> {
        let blocks = self.stripes.entry(logical).or_default();
        if blocks.last().is_none_or(|&(last, _)| last < place) {
            blocks.push((place, content));
        } else {
            match blocks.binary_search_by_key(&place, |&(at, _)| at) {
                Ok(index) => return Some(std::mem::replace(&mut blocks[index].1, content)),
                Err(index) => blocks.insert(index, (place, content)),
            }
        }
        self.len += 1;
        None
    }

    /// Takes out the blocks of a stripe; empty if there are none.
    pub(crate) fn take(&mut self, logical: u32) -> StripeBlocks {
        let blocks = self.stripes.remove(&logical).unwrap_or_default();
        self.len -= blocks.len();
        blocks
    }

    /// Takes out the stripes that a function accepts.
    pub(crate) fn take_if(&mut self, mut wanted: impl FnMut(u32) -> bool) -> Contents {
        let stripes: BTreeMap<u32, StripeBlocks>;
        (stripes, self.stripes) =
            std::mem::take(&mut self.stripes).into_iter().partition(|(logical, _)| wanted(*logical));
        let len = stripes.values().map(Vec::len).sum();
        self.len -= len;
        Contents { stripes, len }
    }

    /// Puts the blocks of a stripe back, which must have none here.
    pub(crate) fn put_back(&mut self, logical: u32, blocks: StripeBlocks) {
        if !blocks.is_empty() {
            self.len += blocks.len();
            let before = self.stripes.insert(logical, blocks);
            debug_assert!(before.is_none(), "stripe {logical} has blocks in two places");
        }
    }

    /// Puts the blocks of stripes back, which must have none here.
    pub(crate) fn put_all_back(&mut self, others: Contents) {
        others.stripes.into_iter().for_each(|(logical, blocks)| self.put_back(logical, blocks));
    }

    pub(crate) fn into_values(self) -> impl Iterator<Item = Operand> {
        self.stripes.into_values().flatten().map(|(_, content)| content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BufferId;

    #[test]
    fn blocks_are_found_whatever_their_order_was() {
        let mut contents = Contents::default();
        let content = |n: u64| Operand::Buffer(BufferId(n));
        for place in [3, 1, 7, 2, 8] {
            assert_eq!(contents.insert((5, place), content(place.into())), None);
        }
        assert_eq!(contents.insert((5, 7), content(70)), Some(content(7)));
        contents.insert((6, 0), Operand::Zeros);
        assert_eq!(
            (contents.len(), contents.get((5, 7)), contents.get((5, 4))),
            (6, Some(content(70)), None)
        );
        assert!(contents.stripe(5).is_sorted_by_key(|&(place, _)| place));
        let taken = contents.take_if(|logical| logical == 5);
        assert_eq!((taken.len(), contents.len(), contents.stripe(5)), (5, 1, &[][..]));
        contents.put_all_back(taken);
        assert_eq!((contents.len(), contents.take(5).len(), contents.len()), (6, 5, 1));
    }
}
