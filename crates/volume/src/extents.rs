//! Ranges that hold something, and ranges that read as zeros because they were never written.
//!
//! Ranges are found in the maps and in memory, without reading a device: a range that is called a
//! hole is one, but a written block of zeros counts as data. Cost: the stripes of the range, and
//! the blocks of those stripes that are in memory or in the log.

use crate::Operand;
use crate::UserBlock;
use crate::engine::Engine;

/// Consecutive blocks of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The number of blocks.
    pub blocks: u64,
    /// True if the range was never written, or not since it was trimmed: it reads as zeros and
    /// takes no space.
    pub hole: bool,
}

impl Engine {
    /// Returns the extents of a range in order; neighbours are of different kinds. Cut at the end
    /// of the volume.
    pub(crate) fn extents(&self, first: UserBlock, count: u64) -> Vec<Extent> {
        let end = first.0.saturating_add(count).min(self.geometry.user_blocks());
        let mut extents: Vec<Extent> = Vec::new();
        let mut note = |blocks: u64, hole: bool| match extents.last_mut() {
            Some(last) if last.hole == hole => last.blocks += blocks,
            _ => extents.push(Extent { blocks, hole }),
        };
        let mut at = first.0;
        while at < end {
            let (logical, place) = self.geometry.locate(UserBlock(at));
            let behind = ((u64::from(logical) + 1) * self.geometry.stripe_blocks()).min(end);
            let (from, to) = (UserBlock(at), UserBlock(behind));
            let in_pieces = self.maps.logged_within(from..to).next().is_some()
                || self.memory.has_blocks(logical, place..place + (behind - at) as u32);
            match in_pieces {
                true => (at..behind).for_each(|block| note(1, self.is_hole(UserBlock(block)))),
                false => note(behind - at, self.is_hole(from)),
            }
            at = behind;
        }
        extents
    }

    fn is_hole(&self, block: UserBlock) -> bool {
        let (logical, place) = self.geometry.locate(block);
        match self.memory.content(logical, place) {
            Some(content) => content == Operand::Zeros,
            None => !self.maps.is_logged(block) && self.maps.mapping(logical).is_none(),
        }
    }
}
