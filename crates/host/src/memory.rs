//! The blocks of memory that the engine names: shared, never changed once filled, never copied.
//!
//! One read of many blocks is one buffer, of which each block is a part; so is one write of a user, and all that one computation makes.
//! A buffer goes back when the last of its blocks does.

use pantile_device::{AlignedBuf, BufferPool, Segment};
use pantile_volume::{BLOCK_BYTES, BufferId, Operand};
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::sync::Arc;

/// A block as a number of bytes in memory.
pub(crate) const BLOCK: usize = BLOCK_BYTES as usize;

/// The longest run of blocks in one buffer that is kept for reuse.
const KEPT_BLOCKS_MAX: usize = 1024;

/// One block of a buffer.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    buffer: Arc<AlignedBuf>,
    start: usize,
}

impl Block {
    /// The blocks of a buffer, in order.
    pub(crate) fn all_of(buffer: AlignedBuf) -> Vec<Block> {
        let range = 0..buffer.len();
        Block::all_in(&Arc::new(buffer), range)
    }

    /// The blocks of a part of a buffer, in order.
    pub(crate) fn all_in(buffer: &Arc<AlignedBuf>, range: Range<usize>) -> Vec<Block> {
        range.step_by(BLOCK).map(|start| Block { buffer: buffer.clone(), start }).collect()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.range()]
    }

    fn range(&self) -> Range<usize> {
        self.start..self.start + BLOCK
    }

    /// Appends the block to what a write gathers: to the last segment if it continues it in memory.
    pub(crate) fn gather(&self, into: &mut Vec<Segment>) {
        match into.last_mut() {
            Some(last) if Arc::ptr_eq(&last.buffer, &self.buffer) && last.range.end == self.start => {
                last.range.end += BLOCK;
            }
            _ => into.push(Segment { buffer: self.buffer.clone(), range: self.range() }),
        }
    }
}

/// Buffers for the engine. There is always one: those beyond the bound are not kept for reuse.
///
/// The bound cannot be waited for here, because what the engine writes is what frees the memory of its users.
#[derive(Clone, Debug)]
pub(crate) struct Buffers {
    kept: BufferPool,
}

impl Buffers {
    pub(crate) fn new(kept_bytes: usize) -> Buffers {
        Buffers { kept: BufferPool::new(kept_bytes) }
    }

    /// A buffer of so many blocks, at least one. Its content is arbitrary.
    pub(crate) fn take(&self, blocks: usize) -> AlignedBuf {
        let bytes = blocks.max(1) * BLOCK;
        let kept = if blocks <= KEPT_BLOCKS_MAX { self.kept.take(bytes) } else { None };
        kept.unwrap_or_else(|| AlignedBuf::zeroed(bytes))
    }
}

/// The buffers there are, by name.
#[derive(Debug)]
pub(crate) struct Table {
    blocks: FxHashMap<BufferId, Block>,
    zeros: Block,
    named: u64,
}

impl Table {
    pub(crate) fn new() -> Table {
        let zeros = Block { buffer: Arc::new(AlignedBuf::zeroed(BLOCK)), start: 0 };
        Table { blocks: FxHashMap::default(), zeros, named: 0 }
    }

    /// Names the blocks of a user's write.
    pub(crate) fn name(&mut self, blocks: impl IntoIterator<Item = Block>) -> Vec<BufferId> {
        let mut ids = Vec::new();
        for block in blocks {
            let id = BufferId(self.named);
            self.named += 1;
            self.blocks.insert(id, block);
            ids.push(id);
        }
        ids
    }

    /// A buffer that the engine named is filled.
    pub(crate) fn fill(&mut self, id: BufferId, block: Block) {
        self.blocks.insert(id, block);
    }

    /// The content of a filled buffer.
    ///
    /// Panics if it is not filled: a fault of the engine's, which may use only what was reported.
    pub(crate) fn get(&self, id: BufferId) -> Block {
        self.blocks.get(&id).unwrap_or_else(|| panic!("{id:?} is used and was not filled")).clone()
    }

    pub(crate) fn operand(&self, operand: Operand) -> Block {
        match operand {
            Operand::Buffer(id) => self.get(id),
            Operand::Zeros => self.zeros.clone(),
        }
    }

    /// A buffer that was never filled, because the action that makes it failed, may be released as well.
    pub(crate) fn release(&mut self, id: BufferId) {
        self.blocks.remove(&id);
    }

    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_in_memory_become_one_segment() {
        let blocks = Block::all_of(AlignedBuf::zeroed(4 * BLOCK));
        let other = Block::all_of(AlignedBuf::zeroed(BLOCK));
        let mut segments = Vec::new();
        for block in [&blocks[1], &blocks[2], &other[0], &blocks[3], &blocks[0]] {
            block.gather(&mut segments);
        }
        let ranges: Vec<_> = segments.iter().map(|segment| segment.range.clone()).collect();
        assert_eq!(ranges, [BLOCK..3 * BLOCK, 0..BLOCK, 3 * BLOCK..4 * BLOCK, 0..BLOCK]);
    }

    #[test]
    fn a_buffer_returns_with_its_last_block() {
        let buffers = Buffers::new(1 << 20);
        let mut blocks = Block::all_of(buffers.take(3));
        assert_eq!(buffers.kept.used_bytes(), 3 * BLOCK);
        blocks.truncate(1);
        assert_eq!(buffers.kept.used_bytes(), 3 * BLOCK);
        drop(blocks);
        assert_eq!(buffers.kept.used_bytes(), 0);
    }
}
