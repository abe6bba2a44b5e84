//! Written content in memory until it is durable, and the requests that wait until then.
//!
//! Content has three ages: *dirty*, as users write it; *committing*, sealed for one commit after
//! another; *taken*, by the commit under way. The newest age that has a block counts. Within an
//! age, a trim of a whole stripe is older than the blocks.
//!
//! A stripe is in at most one of committing and taken. A flush waits for blocks that were dirty
//! when it came, a write only while memory is full.

use crate::contents::{Contents, StripeBlocks};
use crate::staging::StageId;
use crate::{Operand, RequestId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// The number of dirty blocks that start a commit without a flush: 16 MiB.
pub const DIRTY_BLOCKS_MARK: usize = 4096;

/// The number of blocks in memory, dirty or being made durable, beyond which answers to writes
/// wait: 128 MiB.
pub const DIRTY_BLOCKS_MOST: usize = 8 * DIRTY_BLOCKS_MARK;

/// Bytes in a record for a run of trimmed stripes.
const TRIM_BYTES: u64 = 24 + 24;

/// Content of one age.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dirty {
    /// The written blocks; `Zeros` for a block that was trimmed alone.
    pub(crate) blocks: Contents,
    /// Logical stripes that were trimmed as a whole, before the writes in `blocks`.
    pub(crate) unmapped: BTreeSet<u32>,
    /// Logical stripes whose `blocks` are being written ahead of the commit, or are already.
    staged: BTreeMap<u32, StageId>,
    /// Logical stripes that will be written ahead when less is under way.
    unstaged: BTreeSet<u32>,
}

impl Dirty {
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.unmapped.is_empty()
    }

    /// Returns the content of a block, if this age has it.
    pub(crate) fn content(&self, logical: u32, place: u32) -> Option<Operand> {
        let trimmed = || self.unmapped.contains(&logical).then_some(Operand::Zeros);
        self.blocks.get((logical, place)).or_else(trimmed)
    }

    fn is_of_a_whole(&self, logical: u32) -> bool {
        self.staged.contains_key(&logical)
            || self.unstaged.contains(&logical)
            || self.unmapped.contains(&logical)
    }
}

/// An age whose stripes can be written ahead.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Age {
    Dirty,
    Committing,
}

/// All content that was written and is not durable.
#[derive(Debug)]
pub(crate) struct Memory {
    dirty: Dirty,
    committing: Dirty,
    taken: Dirty,
    /// Flushes that wait for dirty blocks.
    flushes: Vec<RequestId>,
    /// Flushes that wait for committing or taken blocks.
    committing_flushes: Vec<RequestId>,
    /// Writes that are answered when memory holds less.
    writes: VecDeque<RequestId>,
    /// The number of dirty blocks that start a commit.
    mark: usize,
    /// Dirty blocks must be made durable although no flush waits.
    is_wanted: bool,
}

impl Memory {
    /// Makes an empty memory in which this many dirty blocks start a commit.
    pub(crate) fn with_mark(mark: usize) -> Memory {
        Memory {
            dirty: Dirty::default(),
            committing: Dirty::default(),
            taken: Dirty::default(),
            flushes: Vec::new(),
            committing_flushes: Vec::new(),
            writes: VecDeque::new(),
            mark,
            is_wanted: false,
        }
    }

    pub(crate) fn mark(&self) -> usize {
        self.mark
    }

    pub(crate) fn set_mark(&mut self, mark: usize) {
        self.mark = mark;
    }

    fn ages(&self) -> [&Dirty; 3] {
        [&self.dirty, &self.committing, &self.taken]
    }

    /// Returns the newest content of a block; `None`: it is not in memory.
    pub(crate) fn content(&self, logical: u32, place: u32) -> Option<Operand> {
        self.ages().into_iter().find_map(|age| age.content(logical, place))
    }

    /// Tests whether memory has newer content than the maps for some places of a stripe.
    pub(crate) fn has_any(&self, logical: u32, places: Range<u32>) -> bool {
        let mut ages = self.ages().into_iter();
        ages.any(|age| age.unmapped.contains(&logical) || age.blocks.has_any(logical, places.clone()))
    }

    /// Tests whether some places of a stripe have blocks that were written or trimmed one by one.
    pub(crate) fn has_blocks(&self, logical: u32, places: Range<u32>) -> bool {
        self.ages().into_iter().any(|age| age.blocks.has_any(logical, places.clone()))
    }

    /// Tests whether the next commits write or trim a stripe as a whole.
    pub(crate) fn is_of_a_whole(&self, logical: u32) -> bool {
        self.committing.is_of_a_whole(logical) || self.dirty.is_of_a_whole(logical)
    }

    /// Returns the number of blocks that are not durable.
    pub(crate) fn blocks(&self) -> usize {
        self.ages().into_iter().map(|age| age.blocks.len()).sum()
    }

    fn is_full(&self) -> bool {
        self.blocks() > self.mark * (DIRTY_BLOCKS_MOST / DIRTY_BLOCKS_MARK)
    }

    /// Stores a new content; returns the one that it replaces.
    pub(crate) fn put(&mut self, logical: u32, place: u32, content: Operand) -> Option<Operand> {
        self.dirty.blocks.insert((logical, place), content)
    }

    /// Trims a whole stripe; returns its dirty blocks.
    pub(crate) fn trim(&mut self, logical: u32) -> StripeBlocks {
        self.dirty.unmapped.insert(logical);
        self.dirty.blocks.take(logical)
    }

    /// Returns true if there are enough dirty blocks to start a commit.
    pub(crate) fn is_at_mark(&self) -> bool {
        self.dirty.blocks.len() >= self.mark
    }

    pub(crate) fn dirty_blocks(&self) -> usize {
        self.dirty.blocks.len()
    }

    pub(crate) fn dirty_blocks_of(&self, logical: u32) -> usize {
        self.dirty.blocks.stripe(logical).len()
    }

    /// Holds the answer to a write until memory has room; `false`: there is room now.
    pub(crate) fn hold_write(&mut self, id: RequestId) -> bool {
        let holds = self.is_full();
        if holds {
            self.writes.push_back(id);
        }
        holds
    }

    /// Returns a write to answer: one that there is room for now, or with `any` the next one.
    pub(crate) fn next_write(&mut self, any: bool) -> Option<RequestId> {
        if any || !self.is_full() { self.writes.pop_front() } else { None }
    }

    /// Holds a flush until everything before it is durable; `false`: it is durable now.
    pub(crate) fn hold_flush(&mut self, id: RequestId, needs_record: bool, commits: bool) -> bool {
        if !self.dirty.is_empty() || needs_record {
            self.flushes.push(id);
        } else if !self.committing.is_empty() || commits {
            self.committing_flushes.push(id);
        } else {
            return false;
        }
        true
    }

    /// Holds requests until the committing blocks are durable.
    pub(crate) fn hold_until_committed(&mut self, ids: impl IntoIterator<Item = RequestId>) {
        self.committing_flushes.extend(ids);
    }

    /// Returns true if a flush waits for dirty blocks.
    pub(crate) fn has_flushes(&self) -> bool {
        !self.flushes.is_empty()
    }

    /// Returns the flushes that waited for committing blocks.
    pub(crate) fn take_committed(&mut self) -> Vec<RequestId> {
        std::mem::take(&mut self.committing_flushes)
    }

    pub(crate) fn take_flushes(&mut self) -> Vec<RequestId> {
        self.flushes.drain(..).chain(self.committing_flushes.drain(..)).collect()
    }

    /// Makes dirty blocks durable although no flush waits.
    pub(crate) fn want_commit(&mut self) {
        self.is_wanted = true;
    }

    /// Returns true if dirty blocks must be committed without a flush.
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// Tests whether a commit has something to take.
    pub(crate) fn has_committing(&self) -> bool {
        !self.committing.is_empty()
    }

    /// Tests whether the next commits write a block.
    pub(crate) fn is_committing(&self, logical: u32, place: u32) -> bool {
        self.committing.blocks.get((logical, place)).is_some()
    }

    /// Returns the number of blocks of each stripe that the next commits write.
    pub(crate) fn committing_stripes(&self) -> BTreeMap<u32, usize> {
        self.committing.blocks.stripes().map(|(logical, blocks)| (logical, blocks.len())).collect()
    }

    /// Seals all dirty blocks. Nothing may be committing.
    pub(crate) fn seal_all(&mut self) {
        self.is_wanted = false;
        self.committing = std::mem::take(&mut self.dirty);
        self.committing_flushes.append(&mut self.flushes);
    }

    /// Seals the stripes that are written ahead. Nothing may be committing.
    pub(crate) fn seal_staged(&mut self, stripes: Vec<(u32, StageId)>) {
        for (logical, id) in stripes {
            self.committing.blocks.put_back(logical, self.dirty.blocks.take(logical));
            self.dirty.staged.remove(&logical);
            self.committing.staged.insert(logical, id);
            if self.dirty.unmapped.remove(&logical) {
                self.committing.unmapped.insert(logical);
            }
        }
    }

    /// Returns the stripes of an age that are written ahead.
    pub(crate) fn staged(&self, age: Age) -> &BTreeMap<u32, StageId> {
        match age {
            Age::Dirty => &self.dirty.staged,
            Age::Committing => &self.committing.staged,
        }
    }

    /// Returns the number of dirty stripes that are written ahead, or will be.
    pub(crate) fn dirty_wholes(&self) -> usize {
        self.dirty.staged.len() + self.dirty.unstaged.len()
    }

    /// Lets a wholly dirty stripe be written ahead when less is under way.
    pub(crate) fn stage_later(&mut self, logical: u32) {
        self.dirty.unstaged.insert(logical);
    }

    /// Returns the next stripe to write ahead, committing ones first.
    pub(crate) fn next_to_stage(&self) -> Option<(Age, u32)> {
        let committing = self.committing.unstaged.first().map(|&logical| (Age::Committing, logical));
        committing.or_else(|| self.dirty.unstaged.first().map(|&logical| (Age::Dirty, logical)))
    }

    fn age_mut(&mut self, age: Age) -> &mut Dirty {
        match age {
            Age::Dirty => &mut self.dirty,
            Age::Committing => &mut self.committing,
        }
    }

    /// Begins to write a stripe ahead; returns its content.
    pub(crate) fn begin_to_stage(&mut self, age: Age, logical: u32) -> Vec<Operand> {
        let of = self.age_mut(age);
        of.unstaged.remove(&logical);
        of.blocks.stripe(logical).iter().map(|&(_, content)| content).collect()
    }

    /// Notes the stage that writes a stripe ahead.
    pub(crate) fn is_staged(&mut self, age: Age, logical: u32, id: StageId) {
        self.age_mut(age).staged.insert(logical, id);
    }

    /// Cancels writing a dirty stripe ahead, because it is written to or trimmed. Returns its
    /// stage, if that had begun.
    pub(crate) fn unstage(&mut self, logical: u32) -> Option<StageId> {
        self.dirty.unstaged.remove(&logical);
        self.dirty.staged.remove(&logical)
    }

    /// Returns the stripes that this commit leaves to be written ahead; if not `leaves`, it takes
    /// them all.
    pub(crate) fn leave_to_staging(&mut self, leaves: bool) -> BTreeSet<u32> {
        if !leaves {
            self.committing.unstaged.clear();
        }
        self.committing.unstaged.clone()
    }

    /// Moves committing blocks to a commit, except stripes that wait and trims that its record has
    /// no room for.
    pub(crate) fn take(&mut self, waiting: &BTreeSet<u32>, room: u64) {
        let mut unmapped = BTreeSet::new();
        let blocks = self.committing.blocks.take_if(|logical| !waiting.contains(&logical));
        let mut runs_left = room / TRIM_BYTES;
        let mut last = None;
        for logical in std::mem::take(&mut self.committing.unmapped) {
            let goes_on = last == Some(logical.wrapping_sub(1));
            // The trim of a stripe that is written afterwards is recorded with the writes.
            if waiting.contains(&logical) || (blocks.stripe(logical).is_empty() && !goes_on && runs_left == 0)
            {
                self.committing.unmapped.insert(logical);
                continue;
            }
            runs_left = runs_left.saturating_sub(u64::from(!goes_on));
            last = Some(logical);
            unmapped.insert(logical);
        }
        let all = std::mem::take(&mut self.committing.staged);
        let (late, staged) = all.into_iter().partition(|(logical, _)| waiting.contains(logical));
        self.committing.staged = late;
        self.taken = Dirty { blocks, unmapped, staged, unstaged: BTreeSet::new() };
    }

    /// Returns the blocks that the commit under way has taken.
    pub(crate) fn taken(&self) -> &Dirty {
        &self.taken
    }

    /// Ends a commit that is durable; its blocks leave memory and are returned.
    pub(crate) fn end_commit(&mut self) -> Dirty {
        std::mem::take(&mut self.taken)
    }

    /// Undoes a commit: its blocks become committing again.
    pub(crate) fn undo_commit(&mut self) {
        let taken = std::mem::take(&mut self.taken);
        self.committing.blocks.put_all_back(taken.blocks);
        self.committing.staged.extend(taken.staged);
        self.committing.unmapped.extend(taken.unmapped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Operand = Operand::Buffer(crate::BufferId(1));
    const B: Operand = Operand::Buffer(crate::BufferId(2));

    #[test]
    fn the_newest_content_counts_until_a_commit_ends_or_is_undone() {
        let mut memory = Memory::with_mark(1);
        memory.put(0, 1, A);
        memory.seal_all();
        memory.take(&BTreeSet::new(), 1 << 10);
        assert_eq!(memory.content(0, 1), Some(A));
        assert!(memory.trim(0).is_empty());
        assert_eq!((memory.content(0, 1), memory.blocks()), (Some(Operand::Zeros), 1));
        memory.put(0, 1, B);
        memory.undo_commit();
        assert!(memory.has_committing() && memory.is_committing(0, 1));
        assert_eq!((memory.content(0, 1), memory.content(0, 2)), (Some(B), Some(Operand::Zeros)));
        memory.take(&BTreeSet::new(), 1 << 10);
        let ended: Vec<Operand> = memory.end_commit().blocks.into_values().collect();
        assert_eq!((ended, memory.has_committing(), memory.blocks()), (vec![A], false, 1));
    }

    #[test]
    fn a_flush_waits_for_what_was_dirty_when_it_came() {
        let mut memory = Memory::with_mark(1);
        let [first, second, third] = [1, 2, 3].map(RequestId);
        assert!(!memory.hold_flush(first, false, false));
        memory.put(0, 0, A);
        assert!(memory.hold_flush(first, false, false));
        memory.seal_all();
        assert!(memory.hold_flush(second, false, false));
        memory.put(0, 0, B);
        assert!(memory.hold_flush(third, false, false));
        assert_eq!(memory.take_committed(), [first, second]);
        assert_eq!(memory.take_flushes(), [third]);
    }

    #[test]
    fn a_write_waits_only_while_memory_is_full() {
        let mut memory = Memory::with_mark(1);
        (0..8).for_each(|place| _ = memory.put(0, place, A));
        assert!(!memory.hold_write(RequestId(1)));
        memory.put(0, 8, A);
        assert!(memory.hold_write(RequestId(2)));
        assert_eq!(memory.next_write(false), None);
        memory.trim(0);
        assert_eq!(memory.next_write(false), Some(RequestId(2)));
    }
}
