//! The maps: what the volume knows, and the changes that a record makes to it.
//!
//! Invariants, checked by [`Maps::check`]: a physical stripe has at most one logical owner and its
//! owner maps to it; the live count of a log row is the number of user blocks mapped to it; a row
//! without live blocks is free; a generation is used once.

use crate::notes::Notes;
use crate::{Geometry, Slot, UserBlock};
use pantile_code::CellIndex;
use pantile_format::volume::{LogicalStripe, MemberState, Note, Policy};
use pantile_format::{Crc64, Generation};
use std::collections::{BTreeMap, BTreeSet};

/// Where a logical stripe lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) physical: u32,
    pub(crate) generation: u64,
}

/// Logical stripes of one part of the table.
const PART_STRIPES: usize = 256;

/// Where each logical stripe lies. Parts of the table in which nothing is mapped take no memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StripeTable {
    len: usize,
    parts: Vec<Option<Box<[Option<Mapping>; PART_STRIPES]>>>,
}

impl StripeTable {
    fn new(len: usize) -> StripeTable {
        StripeTable { len, parts: vec![None; len.div_ceil(PART_STRIPES)] }
    }

    /// Maps a stripe, or unmaps it; gives what it was mapped to.
    pub(crate) fn set(&mut self, logical: u32, mapping: Option<Mapping>) -> Option<Mapping> {
        let logical = logical as usize;
        assert!(logical < self.len, "stripe {logical} of {}", self.len);
        let part = &mut self.parts[logical / PART_STRIPES];
        if part.is_none() && mapping.is_none() {
            return None;
        }
        let stripes = part.get_or_insert_with(|| Box::new([None; PART_STRIPES]));
        let before = std::mem::replace(&mut stripes[logical % PART_STRIPES], mapping);
        if mapping.is_none() && stripes.iter().all(Option::is_none) {
            *part = None;
        }
        before
    }

    /// The first stripe from one on that is mapped.
    pub(crate) fn mapped_from(&self, first: u32) -> Option<(u32, Mapping)> {
        let first = first as usize;
        let parts = self.parts.iter().enumerate().skip(first / PART_STRIPES);
        parts.filter_map(|(part, stripes)| Some((part * PART_STRIPES, stripes.as_ref()?))).find_map(
            |(start, stripes)| {
                let mut there = stripes.iter().enumerate().skip(first.saturating_sub(start));
                there.find_map(|(i, mapping)| Some(((start + i) as u32, (*mapping)?)))
            },
        )
    }

    /// Every stripe that is mapped, ascending.
    pub(crate) fn mapped(&self) -> impl Iterator<Item = (u32, Mapping)> {
        let mut next = 0;
        std::iter::from_fn(move || {
            let found = self.mapped_from(next)?;
            next = found.0 + 1;
            Some(found)
        })
    }
}

impl std::ops::Index<usize> for StripeTable {
    type Output = Option<Mapping>;

    fn index(&self, logical: usize) -> &Option<Mapping> {
        assert!(logical < self.len, "stripe {logical} of {}", self.len);
        self.parts[logical / PART_STRIPES].as_ref().map_or(&None, |part| &part[logical % PART_STRIPES])
    }
}

/// Some of the numbers below a bound: a bit for each, whatever is in it.
#[derive(Clone, Debug)]
pub(crate) struct Numbers {
    words: Vec<u64>,
    len: usize,
    /// No word before it has a bit.
    first: usize,
}

impl Numbers {
    fn all_below(bound: u32) -> Numbers {
        let mut words = vec![u64::MAX; (bound as usize).div_ceil(64)];
        if let Some(last) = words.last_mut().filter(|_| !bound.is_multiple_of(64)) {
            *last = (1 << (bound % 64)) - 1;
        }
        Numbers { words, len: bound as usize, first: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// `false`: it was there already.
    pub(crate) fn insert(&mut self, number: u32) -> bool {
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.len += usize::from(is_new);
        self.first = self.first.min(word);
        is_new
    }

    /// `false`: it was not there.
    pub(crate) fn remove(&mut self, number: u32) -> bool {
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        let was_there = self.words.get(word).is_some_and(|word| word & bit != 0);
        if was_there {
            self.words[word] &= !bit;
            self.len -= 1;
            while self.words.get(self.first) == Some(&0) {
                self.first += 1;
            }
        }
        was_there
    }

    pub(crate) fn contains(&self, number: u32) -> bool {
        self.words.get(number as usize / 64).is_some_and(|word| word & (1 << (number % 64)) != 0)
    }

    /// Ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.words.iter().enumerate().skip(self.first).flat_map(|(word, &bits)| {
            std::iter::successors(Some(bits), |bits| Some(bits & bits.wrapping_sub(1)))
                .take_while(|&bits| bits != 0)
                .map(move |bits| word as u32 * 64 + bits.trailing_zeros())
        })
    }
}

/// `first` may differ between sets of the same numbers.
impl PartialEq for Numbers {
    fn eq(&self, other: &Numbers) -> bool {
        self.words == other.words
    }
}

impl Eq for Numbers {}

/// Where a block in the log lies: its row, and which block of the row's user blocks it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogPlace {
    pub(crate) row: u32,
    pub(crate) index: u32,
}

/// One block of a log row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowCell {
    pub(crate) slot: Slot,
    pub(crate) checksum: u64,
}

/// How the blocks of a log row protect each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowKind {
    /// All columns of the log code: user blocks first, then parity.
    Coded,
    /// Each user block t + 1 times, one after another.
    Copies,
}

/// A log row in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) kind: RowKind,
    pub(crate) generation: u64,
    pub(crate) cells: Vec<RowCell>,
    /// The user block that each index of the row holds; `None`: one that was forgotten.
    pub(crate) blocks: Vec<Option<UserBlock>>,
}

impl Row {
    /// How many of its blocks are current.
    pub(crate) fn live(&self) -> usize {
        self.blocks.iter().flatten().count()
    }

    /// A user block that stands for the row where none is meant.
    pub(crate) fn any_block(&self) -> UserBlock {
        self.blocks.iter().flatten().next().copied().expect("a row in use has a live block")
    }
}

/// One change of the maps; a record is a list of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A logical stripe has been written anew.
    Switch { logical: u32, physical: u32, generation: u64, digests: Vec<Option<Crc64>> },
    /// Logical stripes read as zeros.
    Unmap { first: u32, count: u32 },
    /// A log row has been written.
    Row { row: u32, content: Row },
    /// Blocks are no longer in the log: they have moved home or are forgotten.
    Forget { first: UserBlock, count: u64 },
    /// A device's state.
    Member { slot: Slot, state: MemberState },
    /// Logical stripes are perhaps being written in place, or not any more.
    Mark { first: u32, count: u32, is_marked: bool },
    /// What happened, or what is wrong.
    Note(Note),
    /// Blocks of a stripe are written where they lie, with what the log has of them.
    Patch(StripePatch),
    /// A stripe has what its patch said: the log holds its home blocks no more.
    WentHome { logical: u32 },
}

/// A stripe of which some blocks are written where they lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StripePatch {
    pub(crate) logical: u32,
    pub(crate) generation: u64,
    pub(crate) chunks: Vec<ChunkPatch>,
}

/// A chunk of which some blocks are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkPatch {
    pub(crate) slot: Slot,
    /// Of its header from then on.
    pub(crate) digest: Crc64,
    /// Which of its blocks, and their checksums from then on.
    pub(crate) blocks: Vec<(u32, u64)>,
}

impl StripePatch {
    /// By block that is written: the device, its cell, its offset in that and its checksum; of a
    /// stripe that lies there.
    pub(crate) fn places<'a>(
        &'a self,
        physical: u32,
        geometry: &'a Geometry,
    ) -> impl Iterator<Item = (Slot, CellIndex, u32, u64)> + 'a {
        let elements = geometry.element_blocks();
        self.chunks.iter().flat_map(move |chunk| {
            let cells: Vec<CellIndex> =
                geometry.code.column_cells(geometry.column(physical, chunk.slot)).collect();
            let of_chunk = chunk.blocks.iter();
            of_chunk.filter_map(move |&(place, sum)| {
                let row = place / elements;
                let cell = cells.iter().find(|&&cell| geometry.code.cell(cell).row == row as usize)?;
                Some((chunk.slot, *cell, place % elements, sum))
            })
        })
    }
}

impl Change {
    /// The generation of what it maps.
    pub(crate) fn generation(&self) -> Option<u64> {
        match self {
            Change::Switch { generation, .. } => Some(*generation),
            Change::Row { content, .. } => Some(content.generation),
            // A device that lacks the patch lacks the stripe.
            Change::Patch(patch) => Some(patch.generation),
            _ => None,
        }
    }
}

/// Everything that survives a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Maps {
    pub(crate) stripes: StripeTable,
    /// Those that are perhaps being written in place; all of them mapped.
    pub(crate) marked: BTreeSet<u32>,
    /// Physical stripes without an owner.
    pub(crate) free: Numbers,
    pub(crate) log: BTreeMap<UserBlock, LogPlace>,
    /// Blocks in the log, by logical stripe; no zeros.
    pub(crate) logged: BTreeMap<u32, u32>,
    stripe_blocks: u64,
    /// Blocks of the log from here on are home blocks, so many of each stripe.
    user_blocks: u64,
    home_blocks: u64,
    pub(crate) rows: BTreeMap<u32, Row>,
    pub(crate) free_rows: BTreeSet<u32>,
    pub(crate) members: Vec<MemberState>,
    /// The next generation.
    pub(crate) generation: u64,
    /// What happened, and what is wrong.
    pub(crate) notes: Notes,
}

impl Maps {
    /// An empty volume: nothing is written.
    pub(crate) fn new(geometry: &Geometry) -> Maps {
        Maps {
            stripes: StripeTable::new(geometry.logical_stripes() as usize),
            marked: BTreeSet::new(),
            free: Numbers::all_below(geometry.physical_stripes()),
            log: BTreeMap::new(),
            logged: BTreeMap::new(),
            stripe_blocks: geometry.stripe_blocks(),
            user_blocks: geometry.user_blocks(),
            home_blocks: geometry.home_blocks(),
            rows: BTreeMap::new(),
            free_rows: (0..geometry.log_rows()).collect(),
            members: vec![MemberState::Present; geometry.slots()],
            generation: 1,
            notes: Notes::new(geometry.slots()),
        }
    }

    pub(crate) fn stripe_blocks(&self) -> u64 {
        self.stripe_blocks
    }

    /// Whether a volume may write a record of these changes: what it writes lies where nothing lay
    /// before it, or, in place, the same.
    pub(crate) fn may_become(&self, changes: &[Change], geometry: &Geometry) -> bool {
        let (mut places, mut rows) = (BTreeSet::new(), BTreeSet::new());
        let new_rows = changes.iter().filter_map(|change| match change {
            Change::Row { content, .. } => Some(content),
            _ => None,
        });
        let logged: BTreeSet<UserBlock> =
            new_rows.flat_map(|row| row.blocks.iter().flatten().copied()).collect();
        let in_log = |block: UserBlock| logged.contains(&block) || self.log.contains_key(&block);
        changes.iter().all(|change| match change {
            Change::Patch(patch) => {
                let mapping = self.stripes[patch.logical as usize];
                let fits = mapping.is_some_and(|mapping| mapping.generation == patch.generation);
                fits && geometry.may_patch()
                    && patch
                        .places(mapping.map_or(0, |mapping| mapping.physical), geometry)
                        .all(|(_, cell, offset, _)| in_log(geometry.block_of(patch.logical, cell, offset)))
            }
            Change::Switch { logical, physical, .. } => {
                let own =
                    self.stripes[*logical as usize].is_some_and(|mapping| mapping.physical == *physical);
                (own || self.free.contains(*physical)) && places.insert(*physical)
            }
            Change::Row { row, .. } => self.free_rows.contains(row) && rows.insert(*row),
            Change::Unmap { .. }
            | Change::Forget { .. }
            | Change::Member { .. }
            | Change::Mark { .. }
            | Change::WentHome { .. }
            | Change::Note(_) => true,
        })
    }

    /// Applies a change. Physical stripes and log rows that nothing maps to any more become free.
    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::Switch { logical, physical, generation, .. } => {
                let new = Mapping { physical: *physical, generation: *generation };
                if let Some(old) = self.stripes.set(*logical, Some(new)) {
                    self.free.insert(old.physical);
                }
                // The same, where it was written in place.
                self.free.remove(*physical);
                self.generation = self.generation.max(generation + 1);
                self.stripes_written(*logical, 1);
            }
            Change::Unmap { first, count } => {
                while let Some((logical, old)) =
                    self.stripes.mapped_from(*first).filter(|(logical, _)| logical - first < *count)
                {
                    self.stripes.set(logical, None);
                    self.free.insert(old.physical);
                }
                self.marked.retain(|logical| !(*first..*first + *count).contains(logical));
                self.stripes_unmapped(*first, *count);
            }
            Change::Row { row, content } => {
                self.free_rows.remove(row);
                self.generation = self.generation.max(content.generation + 1);
                self.rows.insert(*row, content.clone());
                for (index, &block) in content.blocks.iter().enumerate() {
                    let Some(block) = block else { continue };
                    self.forget(block);
                    if block.0 < self.user_blocks {
                        self.notes.written(block, 1);
                    }
                    self.place_in_log(block, LogPlace { row: *row, index: index as u32 });
                }
            }
            Change::Forget { first, count } => self.forget_range(*first, *count),
            Change::WentHome { logical } => {
                let first = self.user_blocks + u64::from(*logical) * self.home_blocks;
                self.forget_range(UserBlock(first), self.home_blocks);
            }
            Change::Patch(_) => {}
            Change::Member { slot, state } => self.members[slot.0 as usize] = *state,
            Change::Mark { first, count, is_marked } => {
                for logical in *first..*first + *count {
                    match *is_marked && self.stripes[logical as usize].is_some() {
                        true => self.marked.insert(logical),
                        false => self.marked.remove(&logical),
                    };
                }
            }
            Change::Note(note) => self.notes.apply(note),
        }
    }

    /// A block lies in the log from now on; `false`: it did already.
    pub(crate) fn place_in_log(&mut self, block: UserBlock, place: LogPlace) -> bool {
        if block.0 < self.user_blocks {
            *self.logged.entry((block.0 / self.stripe_blocks) as u32).or_default() += 1;
        }
        self.log.insert(block, place).is_none()
    }

    /// The stripes that have home blocks in the log.
    pub(crate) fn on_the_way_home(&self) -> BTreeSet<u32> {
        let homes = self.log.range(UserBlock(self.user_blocks)..);
        homes.map(|(block, _)| ((block.0 - self.user_blocks) / self.home_blocks) as u32).collect()
    }

    fn forget_range(&mut self, first: UserBlock, count: u64) {
        let end = UserBlock(first.0 + count);
        let blocks: Vec<UserBlock> = self.log.range(first..end).map(|(&block, _)| block).collect();
        blocks.into_iter().for_each(|block| self.forget(block));
    }

    fn forget(&mut self, block: UserBlock) {
        let Some(place) = self.log.remove(&block) else { return };
        let logical = (block.0 / self.stripe_blocks) as u32;
        let count = self.logged.get_mut(&logical).filter(|_| block.0 < self.user_blocks);
        if let Some(count) = count {
            *count -= 1;
            if *count == 0 {
                self.logged.remove(&logical);
            }
        }
        let Some(row) = self.rows.get_mut(&place.row) else { return };
        row.blocks[place.index as usize] = None;
        if row.live() == 0 {
            self.rows.remove(&place.row);
            self.free_rows.insert(place.row);
        }
    }

    /// Whether a device takes part: it is written to, and read where it has what is wanted.
    pub(crate) fn is_present(&self, slot: Slot) -> bool {
        !matches!(self.members[slot.0 as usize], MemberState::Lost { .. })
    }

    /// Whether a device has its part of something written with a generation; `logical` for stripes,
    /// `None` for log rows.
    pub(crate) fn has(&self, slot: Slot, generation: u64, logical: Option<u32>) -> bool {
        // What is no stripe lies before no cursor.
        let logical = LogicalStripe(logical.map_or(u64::MAX, u64::from));
        self.members[slot.0 as usize].has(Generation(generation), logical)
    }

    /// Whether no device is lost or being rebuilt.
    pub(crate) fn has_all_members(&self) -> bool {
        self.members.iter().all(|state| *state == MemberState::Present)
    }

    /// The slots that cannot be read at all.
    pub(crate) fn absent(&self) -> Vec<Slot> {
        (0..self.members.len() as u32).map(Slot).filter(|&slot| !self.is_present(slot)).collect()
    }

    /// Asserts the invariants; cheap enough for the simulation, not for every commit of a large
    /// volume.
    pub(crate) fn check(&self, geometry: &Geometry) {
        let mut owned = BTreeSet::new();
        for (_, mapping) in self.stripes.mapped() {
            assert!(owned.insert(mapping.physical), "physical stripe {} has two owners", mapping.physical);
            assert!(mapping.generation < self.generation, "a generation from the future");
        }
        assert!(
            !owned.iter().any(|&stripe| self.free.contains(stripe)),
            "a physical stripe is owned and free"
        );
        assert_eq!(
            owned.len() + self.free.len(),
            geometry.physical_stripes() as usize,
            "physical stripes leak"
        );
        for &logical in &self.marked {
            assert!(self.stripes[logical as usize].is_some(), "stripe {logical} is marked and not mapped");
        }
        if geometry.policy == Policy::Inplace {
            for (logical, mapping) in self.stripes.mapped() {
                assert!(mapping.physical == logical, "stripe {logical} lies elsewhere");
            }
        }
        let users = self.log.range(..UserBlock(self.user_blocks)).count();
        assert_eq!(self.logged.values().map(|&n| n as usize).sum::<usize>(), users, "logged blocks");
        assert_eq!(self.rows.len() + self.free_rows.len(), geometry.log_rows() as usize, "log rows leak");
        for (number, row) in &self.rows {
            let live = self.log.values().filter(|place| place.row == *number).count();
            assert_eq!(live, row.live(), "live count of row {number}");
            assert!(live > 0, "row {number} is in use without a live block");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_numbers_is_a_set_of_numbers() {
        for bound in [1, 63, 64, 65, 200] {
            let (mut set, mut model) = (Numbers::all_below(bound), (0..bound).collect::<BTreeSet<u32>>());
            let mut state = 7u32;
            for _ in 0..2000 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let number = (state >> 16) % bound;
                match state >> 31 {
                    0 => assert_eq!(set.insert(number), model.insert(number)),
                    _ => assert_eq!(set.remove(number), model.remove(&number)),
                }
                assert_eq!(set.len(), model.len());
                assert_eq!(set.contains(number), model.contains(&number));
                assert!(set.iter().eq(model.iter().copied()), "{bound}");
            }
        }
    }

    #[test]
    fn a_table_with_parts_is_a_table() {
        let len = 3 * PART_STRIPES as u32 - 5;
        let (mut table, mut model) = (StripeTable::new(len as usize), vec![None; len as usize]);
        let mut state = 3u32;
        for step in 0..4000u32 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let logical = (state >> 12) % len;
            // Fuller in the first half, emptier in the second.
            let full = (state >> 8) % 4 < if step < 2000 { 3 } else { 1 };
            let mapping = full.then_some(Mapping { physical: step, generation: u64::from(state) });
            assert_eq!(table.set(logical, mapping), std::mem::replace(&mut model[logical as usize], mapping));
            assert_eq!(table[logical as usize], mapping);
            let next = (logical..len).find_map(|l| Some((l, model[l as usize]?)));
            assert_eq!(table.mapped_from(logical), next);
        }
        for logical in 0..len {
            table.set(logical, None);
        }
        assert!(table.parts.iter().all(Option::is_none) && table.mapped().next().is_none());
    }
}
