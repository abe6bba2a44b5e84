//! The memory blocks that the engine names: shared, never changed once filled, never copied.
//!
//! A read of many blocks has one buffer, and each block is a part of it; so has a write of a user,
//! and the result of a computation. A buffer is returned when the last of its blocks is dropped.

use pantile_device::{AlignedBuf, BufferPool, Segment};
use pantile_volume::{BLOCK_BYTES, BufferId, ENGINE_BUFFERS, Operand};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a block.
pub(crate) const BLOCK: usize = BLOCK_BYTES as usize;

/// Longest buffer that is kept for reuse, in blocks.
const KEPT_BLOCKS_MAX: usize = 1024;

/// One block of a buffer.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    buffer: Arc<AlignedBuf>,
    start: usize,
}

impl Block {
    /// Returns the blocks of a buffer, in order.
    pub(crate) fn all_of(buffer: AlignedBuf) -> Vec<Block> {
        let range = 0..buffer.len();
        Block::all_in(&Arc::new(buffer), range)
    }

    /// Returns the blocks of a part of a buffer, in order.
    pub(crate) fn all_in(buffer: &Arc<AlignedBuf>, range: Range<usize>) -> Vec<Block> {
        range.step_by(BLOCK).map(|start| Block { buffer: buffer.clone(), start }).collect()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.range()]
    }

    /// Returns the bytes of this block and those behind it in its buffer, for `blocks` blocks.
    pub(crate) fn bytes_of(&self, blocks: usize) -> &[u8] {
        &self.buffer[self.start..self.start + blocks * BLOCK]
    }

    /// True if this block directly follows another one in memory.
    pub(crate) fn follows(&self, other: &Block) -> bool {
        Arc::ptr_eq(&self.buffer, &other.buffer) && self.start == other.start + BLOCK
    }

    fn range(&self) -> Range<usize> {
        self.start..self.start + BLOCK
    }

    /// Appends the block to the segments of a write; the last segment is extended if the block
    /// follows it in memory.
    pub(crate) fn gather(&self, into: &mut Vec<Segment>) {
        match into.last_mut() {
            Some(last) if Arc::ptr_eq(&last.buffer, &self.buffer) && last.range.end == self.start => {
                last.range.end += BLOCK;
            }
            _ => into.push(Segment { buffer: self.buffer.clone(), range: self.range() }),
        }
    }
}

/// Buffers for the engine. A request always gets one; buffers beyond the bound are not kept for
/// reuse.
///
/// No request waits for the bound, because only writes of the engine free the memory of users.
#[derive(Clone, Debug)]
pub(crate) struct Buffers {
    kept: BufferPool,
}

impl Buffers {
    pub(crate) fn new(kept_bytes: usize) -> Buffers {
        Buffers { kept: BufferPool::new(kept_bytes) }
    }

    /// Returns a buffer of so many blocks, at least one, with arbitrary content.
    pub(crate) fn take(&self, blocks: usize) -> AlignedBuf {
        let bytes = blocks.max(1) * BLOCK;
        let kept = if blocks <= KEPT_BLOCKS_MAX { self.kept.take(bytes) } else { None };
        kept.unwrap_or_else(|| self.kept.take_beyond(bytes))
    }

    /// Returns the bytes of all buffers, with those kept for reuse.
    pub(crate) fn bytes(&self) -> usize {
        self.kept.held_bytes() + self.kept.beyond_bytes()
    }
}

/// Blocks by name. The lower half of a name is an index, and no two existing blocks have the same.
#[derive(Debug, Default)]
struct Places {
    places: Vec<Option<(BufferId, Block)>>,
    taken: usize,
}

impl Places {
    fn put(&mut self, id: BufferId, block: Block) {
        let place = id.0 as u32 as usize;
        if place >= self.places.len() {
            self.places.resize(place + 1, None);
        }
        self.taken += usize::from(self.places[place].replace((id, block)).is_none());
    }

    fn get(&self, id: BufferId) -> Option<&Block> {
        let found = self.places.get(id.0 as u32 as usize)?.as_ref();
        found.filter(|(name, _)| *name == id).map(|(_, block)| block)
    }

    /// Removes a block; true if it existed.
    fn remove(&mut self, id: BufferId) -> bool {
        let is_there = self.get(id).is_some();
        if is_there {
            self.places[id.0 as u32 as usize] = None;
            self.taken -= 1;
        }
        is_there
    }
}

/// Blocks of users and of the engine, by name.
#[derive(Debug)]
pub(crate) struct Table {
    users: Places,
    /// Free indexes of `users`.
    free: Vec<u32>,
    engines: Places,
    zeros: Block,
    named: u64,
}

impl Table {
    pub(crate) fn new() -> Table {
        let zeros = Block { buffer: Arc::new(AlignedBuf::zeroed(BLOCK)), start: 0 };
        Table { users: Places::default(), free: Vec::new(), engines: Places::default(), zeros, named: 0 }
    }

    /// Names the blocks of a user's write.
    pub(crate) fn name(&mut self, blocks: impl IntoIterator<Item = Block>) -> Vec<BufferId> {
        let mut ids = Vec::new();
        for block in blocks {
            let place = self.free.pop().unwrap_or(self.users.places.len() as u32);
            // The upper half is a counter, so that no name is used twice.
            let id = BufferId(self.named << 32 & (ENGINE_BUFFERS - 1) | u64::from(place));
            self.named += 1;
            self.users.put(id, block);
            ids.push(id);
        }
        ids
    }

    /// Stores a block under a name that the engine has chosen.
    pub(crate) fn fill(&mut self, id: BufferId, block: Block) {
        self.engines.put(id, block);
    }

    /// Returns the content of a filled buffer.
    ///
    /// Panics if the buffer is not filled: a bug of the engine, which may only use buffers whose
    /// I/O or computation was reported.
    pub(crate) fn get(&self, id: BufferId) -> Block {
        let places = if id.0 < ENGINE_BUFFERS { &self.users } else { &self.engines };
        places.get(id).unwrap_or_else(|| panic!("{id:?} is used and was not filled")).clone()
    }

    pub(crate) fn operand(&self, operand: Operand) -> Block {
        match operand {
            Operand::Buffer(id) => self.get(id),
            Operand::Zeros => self.zeros.clone(),
        }
    }

    /// Releases a buffer. It is not filled if the action that fills it failed.
    pub(crate) fn release(&mut self, id: BufferId) {
        if id.0 >= ENGINE_BUFFERS {
            self.engines.remove(id);
        } else if self.users.remove(id) {
            self.free.push(id.0 as u32);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.users.taken + self.engines.taken
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

    #[test]
    fn a_place_is_used_again_under_another_name() {
        let mut table = Table::new();
        let block = |byte: u8| {
            let mut buffer = AlignedBuf::zeroed(BLOCK);
            buffer.fill(byte);
            Block::all_of(buffer)
        };
        let first = table.name(block(1))[0];
        table.release(first);
        let second = table.name(block(2))[0];
        assert!(first != second && first.0 as u32 == second.0 as u32);
        assert_eq!(table.get(second).bytes()[0], 2);
        table.release(first);
        assert_eq!(table.len(), 1, "the place is another's");
        let own = |number: u64| BufferId(ENGINE_BUFFERS | number << 32);
        table.fill(own(7), block(3).remove(0));
        table.release(own(6));
        assert_eq!((table.len(), table.get(own(7)).bytes()[0]), (2, 3));
        table.release(own(7));
        table.release(second);
        assert_eq!(table.len(), 0);
    }
}
