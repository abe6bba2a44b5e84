//! The maps, and the changes that a record makes to them.
//!
//! Invariants, checked by [`Maps::check`]:
//!
//! * a physical stripe has at most one logical owner, which maps to it;
//! * the live count of a log row is the number of user blocks mapped to it;
//! * a row without live blocks is free; a generation is used once.

mod stripes;

use self::stripes::StripeTable;
use crate::notes::Notes;
use crate::{Geometry, Slot, UserBlock};
use pantile_code::CellIndex;
use pantile_format::volume::{LogicalStripe, Member, MemberState, Note, RowsAhead};
use pantile_format::{Crc64, Generation};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeBounds;

/// The place of a logical stripe: the physical stripe, and the generation written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) physical: u32,
    pub(crate) generation: u64,
}

/// A set of numbers as runs of consecutive ones: its memory depends on the number of gaps, not of
/// members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbers {
    /// The last number of each run by its first; no two runs touch.
    runs: BTreeMap<u32, u32>,
    len: usize,
}

impl Numbers {
    pub(crate) fn all_below(bound: u32) -> Numbers {
        let mut numbers = Numbers::default();
        if let Some(last) = bound.checked_sub(1) {
            numbers.insert_run(0, last);
        }
        numbers
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds a number; `false`: it was there already.
    pub(crate) fn insert(&mut self, number: u32) -> bool {
        let is_new = !self.contains(number);
        if is_new {
            self.insert_run(number, number);
        }
        is_new
    }

    /// Removes a number; `false`: it was not there.
    pub(crate) fn remove(&mut self, number: u32) -> bool {
        let was_there = self.contains(number);
        if was_there {
            self.remove_run(number, number);
        }
        was_there
    }

    pub(crate) fn insert_run(&mut self, first: u32, last: u32) {
        let (mut from, mut to) = (first, last);
        let touches = |other: &u32| other.saturating_add(1) >= first;
        while let Some((start, end)) = self.last_run(last.saturating_add(1)).filter(|(_, end)| touches(end)) {
            self.take_run(start, end);
            (from, to) = (from.min(start), to.max(end));
        }
        self.put_run(from, to);
    }

    pub(crate) fn remove_run(&mut self, first: u32, last: u32) {
        while let Some((start, end)) = self.last_run(last).filter(|&(_, end)| end >= first) {
            self.take_run(start, end);
            if start < first {
                self.put_run(start, first - 1);
            }
            if end > last {
                self.put_run(last + 1, end);
            }
        }
    }

    /// Returns the last run that begins at or before a number.
    fn last_run(&self, number: u32) -> Option<(u32, u32)> {
        self.runs.range(..=number).next_back().map(|(&first, &last)| (first, last))
    }

    fn put_run(&mut self, first: u32, last: u32) {
        self.runs.insert(first, last);
        self.len += (last - first) as usize + 1;
    }

    fn take_run(&mut self, first: u32, last: u32) {
        self.runs.remove(&first);
        self.len -= (last - first) as usize + 1;
    }

    pub(crate) fn contains(&self, number: u32) -> bool {
        self.last_run(number).is_some_and(|(_, last)| last >= number)
    }

    /// Returns all numbers, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.runs().flat_map(|(first, last)| first..=last)
    }

    /// Returns the first and the last number of each run, ascending.
    pub(crate) fn runs(&self) -> impl ExactSizeIterator<Item = (u32, u32)> {
        self.runs.iter().map(|(&first, &last)| (first, last))
    }
}

/// A place in the log: the row, and the index among the row's user blocks.
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

/// Protection of the blocks of a log row.
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
    /// The user block at each index of the row; `None`: the log has forgotten it.
    pub(crate) blocks: Vec<Option<UserBlock>>,
}

impl Row {
    /// Returns the number of user blocks that are still current in this row.
    pub(crate) fn live(&self) -> usize {
        self.blocks.iter().flatten().count()
    }

    /// Returns any user block of the row, for requests that need to name one.
    pub(crate) fn any_block(&self) -> UserBlock {
        self.blocks.iter().flatten().next().copied().expect("a row in use has a live block")
    }
}

/// One change of the maps; a record is a list of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A logical stripe is written to another place, and mapped there.
    Switch { logical: u32, physical: u32, generation: u64, digests: Vec<Option<Crc64>> },
    /// Logical stripes are unmapped, and read as zeros.
    Unmap { first: u32, count: u32 },
    /// A log row has been written.
    Row { row: u32, content: Row },
    /// Blocks are no longer in the log: they went home or are forgotten.
    Forget { first: UserBlock, count: u64 },
    /// A device's state.
    Member(Member),
    /// An event, a fault, or another note.
    Note(Note),
    /// Blocks of a stripe that the log has are written to the stripe.
    Patch(StripePatch),
    /// The patch of a stripe is in place: the log forgets its home blocks.
    WentHome { logical: u32 },
}

/// A stripe of which some blocks are replaced in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StripePatch {
    pub(crate) logical: u32,
    pub(crate) generation: u64,
    pub(crate) chunks: Vec<ChunkPatch>,
}

/// A chunk of which some blocks are replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkPatch {
    pub(crate) slot: Slot,
    /// The digest of its header after the patch.
    pub(crate) digest: Crc64,
    /// The indexes of these blocks in the chunk, and their checksums after the patch.
    pub(crate) blocks: Vec<(u32, u64)>,
}

impl StripePatch {
    /// Returns device, cell, offset in the cell and checksum of each written block, for a stripe
    /// that is stored at `physical`.
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
    /// Returns the generation of the write that the change maps.
    pub(crate) fn generation(&self) -> Option<u64> {
        match self {
            Change::Switch { generation, .. } => Some(*generation),
            Change::Row { content, .. } => Some(content.generation),
            // A device that lacks the patch counts as lacking the stripe.
            Change::Patch(patch) => Some(patch.generation),
            _ => None,
        }
    }
}

/// The maps: everything that survives a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Maps {
    stripes: StripeTable,
    /// Physical stripes that nothing is mapped to.
    free: Numbers,
    log: BTreeMap<UserBlock, LogPlace>,
    /// The number of user blocks in the log by logical stripe; stripes without any have no entry.
    logged: BTreeMap<u32, u32>,
    stripe_blocks: u64,
    /// The number of user blocks. Higher block numbers in the log are home blocks, `home_blocks` of
    /// them per stripe.
    user_blocks: u64,
    home_blocks: u64,
    rows: BTreeMap<u32, Row>,
    free_rows: Numbers,
    members: Vec<MemberState>,
    /// By slot, the lowest update that the newest superblock of its device can have.
    first_updates: Vec<u64>,
    /// The next generation.
    generation: u64,
    /// The notes: events and faults.
    notes: Notes,
}

impl Maps {
    /// Makes the maps of an empty volume: nothing is written.
    pub(crate) fn new(geometry: &Geometry) -> Maps {
        Maps {
            stripes: StripeTable::new(geometry.logical_stripes() as usize),
            free: Numbers::all_below(geometry.physical_stripes()),
            log: BTreeMap::new(),
            logged: BTreeMap::new(),
            stripe_blocks: geometry.stripe_blocks(),
            user_blocks: geometry.user_blocks(),
            home_blocks: geometry.home_blocks(),
            rows: BTreeMap::new(),
            free_rows: Numbers::all_below(geometry.log_rows()),
            members: vec![MemberState::Present; geometry.slots()],
            first_updates: vec![0; geometry.slots()],
            generation: 1,
            notes: Notes::new(geometry),
        }
    }

    pub(crate) fn mapping(&self, logical: u32) -> Option<Mapping> {
        self.stripes.get(logical)
    }

    pub(crate) fn stripes(&self) -> &StripeTable {
        &self.stripes
    }

    pub(crate) fn free(&self) -> &Numbers {
        &self.free
    }

    pub(crate) fn free_rows(&self) -> &Numbers {
        &self.free_rows
    }

    /// Returns the place of a block in the log.
    pub(crate) fn log_place(&self, block: UserBlock) -> Option<LogPlace> {
        self.log.get(&block).copied()
    }

    pub(crate) fn is_logged(&self, block: UserBlock) -> bool {
        self.log.contains_key(&block)
    }

    /// Returns the blocks of a range that are in the log, ascending.
    pub(crate) fn logged_within(
        &self,
        range: impl RangeBounds<UserBlock>,
    ) -> impl Iterator<Item = UserBlock> {
        self.log.range(range).map(|(&block, _)| block)
    }

    /// Returns the number of blocks in the log.
    pub(crate) fn log_blocks(&self) -> usize {
        self.log.len()
    }

    /// Returns the number of user blocks in the log by logical stripe; stripes without any have no
    /// entry.
    pub(crate) fn logged(&self) -> &BTreeMap<u32, u32> {
        &self.logged
    }

    /// Returns the number of user blocks that a logical stripe has in the log.
    pub(crate) fn logged_of(&self, logical: u32) -> u32 {
        self.logged.get(&logical).copied().unwrap_or(0)
    }

    pub(crate) fn rows(&self) -> &BTreeMap<u32, Row> {
        &self.rows
    }

    pub(crate) fn row(&self, number: u32) -> Option<&Row> {
        self.rows.get(&number)
    }

    /// Returns a row, if it is still the one that was written in a generation.
    pub(crate) fn row_as_of(&self, number: u32, generation: u64) -> Option<&Row> {
        self.row(number).filter(|row| row.generation == generation)
    }

    /// Returns the states of devices, by slot.
    pub(crate) fn members(&self) -> &[MemberState] {
        &self.members
    }

    pub(crate) fn notes(&self) -> &Notes {
        &self.notes
    }

    pub(crate) fn notes_mut(&mut self) -> &mut Notes {
        &mut self.notes
    }

    /// Returns the next generation.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns a new generation for a write.
    pub(crate) fn new_generation(&mut self) -> u64 {
        self.use_generations(1);
        self.generation - 1
    }

    /// Uses up this many generations, beginning with the next one.
    pub(crate) fn use_generations(&mut self, count: usize) {
        self.generation += count as u64;
    }

    /// Gives no generation below this one from now on.
    pub(crate) fn raise_generation(&mut self, least: u64) {
        self.generation = self.generation.max(least);
    }

    /// Notes that a device is lost and misses the writes from a generation on; `false`: it was lost
    /// before.
    pub(crate) fn lose(&mut self, slot: Slot, since: u64) -> bool {
        let missed_from = match self.members[slot.0 as usize] {
            MemberState::Lost { .. } => return false,
            MemberState::Present => since,
            MemberState::Rebuilding { missed_from, .. } => missed_from.0,
        };
        self.set_lost(slot, missed_from);
        true
    }

    /// Returns the lowest update that the newest superblock of a slot's device can have. A device
    /// with an older one had the slot earlier, or is a copy of an earlier time.
    pub(crate) fn first_update(&self, slot: Slot) -> u64 {
        self.first_updates[slot.0 as usize]
    }

    /// Notes that superblocks of a slot below this update are not of its present device.
    pub(crate) fn raise_first_update(&mut self, slot: Slot, update: u64) {
        let first = &mut self.first_updates[slot.0 as usize];
        *first = update.max(*first);
    }

    /// Admits a lost device, which is rebuilt from now on; `false`: it is not lost.
    pub(crate) fn admit(&mut self, slot: Slot, is_blank: bool) -> bool {
        let MemberState::Lost { missed_from } = self.members[slot.0 as usize] else { return false };
        let missed_until = Generation(self.generation);
        let missed_from = if is_blank { Generation(0) } else { missed_from.min(missed_until) };
        let (cursor, ahead) = (LogicalStripe(0), RowsAhead::default());
        self.members[slot.0 as usize] = MemberState::Rebuilding { missed_from, missed_until, cursor, ahead };
        true
    }

    /// Notes that these rows of a device are rebuilt ahead of the others, beginning at the first
    /// stripe.
    pub(crate) fn rebuild_ahead(&mut self, slot: Slot, rows: u64) {
        if let MemberState::Rebuilding { ahead, .. } = &mut self.members[slot.0 as usize] {
            *ahead = RowsAhead { rows, until: LogicalStripe(0) };
        }
    }

    /// Notes that a device under rebuild has its rows ahead for all stripes before one.
    pub(crate) fn move_ahead(&mut self, slot: Slot, behind: u32) {
        if let MemberState::Rebuilding { ahead, .. } = &mut self.members[slot.0 as usize] {
            ahead.until = ahead.until.max(LogicalStripe(behind.into()));
        }
    }

    /// Returns the rows that a device rebuilds ahead of the others; none for most devices.
    pub(crate) fn rows_ahead(&self, slot: Slot) -> RowsAhead {
        match self.members[slot.0 as usize] {
            MemberState::Rebuilding { ahead, .. } => ahead,
            _ => RowsAhead::default(),
        }
    }

    /// Notes that a device under rebuild has all stripes before one.
    pub(crate) fn move_cursor(&mut self, slot: Slot, behind: u32) {
        if let MemberState::Rebuilding { cursor, .. } = &mut self.members[slot.0 as usize] {
            *cursor = (*cursor).max(LogicalStripe(behind.into()));
        }
    }

    /// Notes that a device has everything.
    pub(crate) fn is_whole(&mut self, slot: Slot) {
        self.members[slot.0 as usize] = MemberState::Present;
    }

    /// Takes over the states of all devices; `true`: they were others.
    pub(crate) fn take_members(&mut self, of: &Maps) -> bool {
        let differs = (&self.members, &self.first_updates) != (&of.members, &of.first_updates);
        self.members.clone_from(&of.members);
        self.first_updates.clone_from(&of.first_updates);
        differs
    }

    /// Sets that a device is lost and misses the writes from a generation on.
    pub(crate) fn set_lost(&mut self, slot: Slot, since: u64) {
        self.members[slot.0 as usize] = MemberState::Lost { missed_from: Generation(since) };
    }

    /// Returns the states of devices as entries of a record or snapshot.
    pub(crate) fn member_entries(&self) -> impl Iterator<Item = Member> {
        let states = (0..).map(Slot).zip(&self.members).zip(&self.first_updates);
        states.map(|((slot, &state), &first_update)| Member { slot, state, first_update })
    }

    pub(crate) fn load_member(&mut self, Member { slot, state, first_update }: Member) {
        self.members[slot.0 as usize] = state;
        self.first_updates[slot.0 as usize] = first_update;
    }

    /// Loads the mapping of a stripe; `false`: its place belongs to another one.
    pub(crate) fn load_stripe(&mut self, logical: u32, mapping: Mapping) -> bool {
        let is_free = self.free.remove(mapping.physical);
        if is_free {
            self.stripes.set(logical, Some(mapping));
        }
        is_free
    }

    /// Loads a row of the log; `false`: the row is in use already, or one of its blocks is in
    /// another row.
    pub(crate) fn load_row(&mut self, number: u32, content: Row) -> bool {
        if !self.free_rows.remove(number) {
            return false;
        }
        for (index, &block) in content.blocks.iter().enumerate() {
            let Some(block) = block else { continue };
            if !self.place_in_log(block, LogPlace { row: number, index: index as u32 }) {
                return false;
            }
        }
        self.rows.insert(number, content);
        true
    }

    pub(crate) fn load_generation(&mut self, generation: u64) {
        self.generation = generation;
    }

    pub(crate) fn load_notes(&mut self, notes: Notes) {
        self.notes = notes;
    }

    /// Notes that stripes are written again, or read as zeros.
    fn stripes_written(&mut self, first: u32, count: u32) {
        self.notes.bad.stripes_are_written(first, count);
        let first = UserBlock(u64::from(first) * self.stripe_blocks);
        self.notes.written(first, u64::from(count) * self.stripe_blocks);
    }

    /// Returns true if a volume can have written a record of these changes. Stripes and rows must
    /// go to free places, or to their own, and the log must have all blocks of a patch.
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
                let mapping = self.stripes.get(patch.logical);
                let fits = mapping.is_some_and(|mapping| mapping.generation == patch.generation);
                fits && geometry.may_patch()
                    && patch
                        .places(mapping.map_or(0, |mapping| mapping.physical), geometry)
                        .all(|(_, cell, offset, _)| in_log(geometry.block_of(patch.logical, cell, offset)))
            }
            Change::Switch { logical, physical, .. } => {
                let own = self.stripes.get(*logical).is_some_and(|mapping| mapping.physical == *physical);
                (own || self.free.contains(*physical)) && places.insert(*physical)
            }
            Change::Row { row, .. } => self.free_rows.contains(*row) && rows.insert(*row),
            Change::Unmap { .. }
            | Change::Forget { .. }
            | Change::Member(_)
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
                self.stripes_written(*first, *count);
            }
            Change::Row { row, content } => {
                self.free_rows.remove(*row);
                self.notes.bad.row_is_written(*row);
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
            Change::Member(member) => self.load_member(*member),
            Change::Note(note) => self.notes.apply(note),
        }
    }

    /// Puts a block into the log; `false`: it was there already.
    fn place_in_log(&mut self, block: UserBlock, place: LogPlace) -> bool {
        if block.0 < self.user_blocks {
            *self.logged.entry((block.0 / self.stripe_blocks) as u32).or_default() += 1;
        }
        self.log.insert(block, place).is_none()
    }

    /// Returns the stripes with home blocks in the log: patched, but not known to be home.
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

    /// Returns true if a device takes part: it is written to, and read if it has the content.
    pub(crate) fn is_present(&self, slot: Slot) -> bool {
        !matches!(self.members[slot.0 as usize], MemberState::Lost { .. })
    }

    /// Returns true if a device has its part of a write of a generation; `logical` is `None` for
    /// log rows.
    pub(crate) fn has(&self, slot: Slot, generation: u64, logical: Option<u32>) -> bool {
        let (member, generation) = (self.members[slot.0 as usize], Generation(generation));
        match logical {
            Some(logical) => member.has(generation, LogicalStripe(logical.into())),
            None => member.has_log(generation),
        }
    }

    /// Returns true if a device has a row of its chunk of a stripe.
    pub(crate) fn has_row(&self, slot: Slot, generation: u64, logical: u32, row: usize) -> bool {
        let member = self.members[slot.0 as usize];
        member.has_row(Generation(generation), LogicalStripe(logical.into()), row)
    }

    /// Returns true if a device has its chunk of a stripe, or at least the rows rebuilt ahead.
    pub(crate) fn has_some(&self, slot: Slot, generation: u64, logical: u32) -> bool {
        let is_ahead = LogicalStripe(logical.into()) < self.rows_ahead(slot).until;
        is_ahead || self.has(slot, generation, Some(logical))
    }

    /// Returns true if no device is lost or being rebuilt.
    pub(crate) fn has_all_members(&self) -> bool {
        self.members.iter().all(|state| *state == MemberState::Present)
    }

    /// Returns the slots of lost devices, which cannot be read at all.
    pub(crate) fn absent(&self) -> Vec<Slot> {
        (0..self.members.len() as u32).map(Slot).filter(|&slot| !self.is_present(slot)).collect()
    }

    /// Asserts the invariants. Cheap enough for the simulation, but not for every commit of a large
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
    use super::stripes::Part;
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

    fn geometry(stripes: u32, log_rows: u32) -> Geometry {
        let new = crate::NewVolume {
            logical_stripes: stripes,
            spare_stripes: 16,
            log_rows,
            ..crate::NewVolume::small()
        };
        Geometry::new(new).expect("a geometry")
    }

    #[test]
    fn numbers_alone_take_no_memory() {
        let geometry = geometry(1 << 31, 1 << 20);
        let mut maps = Maps::new(&geometry);
        assert_eq!((maps.free.runs.len(), maps.free_rows.runs.len(), maps.stripes.parts.len()), (1, 1, 0));
        // One stripe of each part is mapped: each takes a few times its 24 bytes in a snapshot.
        for part in 0..1000 {
            let logical = 1_000_000 * part + 255;
            let digests = Vec::new();
            maps.apply(&Change::Switch { logical, physical: logical, generation: 1, digests });
        }
        let one = |part: &Part| matches!(part, Part::Few(few) if few.capacity() == 1);
        assert!(maps.stripes.parts.values().all(one));
        assert_eq!(maps.free.runs.len(), 1001);
        assert_eq!(maps.free.len(), (1 << 31) + 16 - 1000);
        maps.apply(&Change::Unmap { first: 0, count: 1 << 31 });
        assert!(maps == Maps { generation: 2, ..Maps::new(&geometry) });
    }

    #[test]
    fn entries_cost_what_they_are_long() {
        // If each change went through the stripes that it names, this would take more than a day.
        let stripes = 1 << 31;
        let mut maps = Maps::new(&geometry(stripes, 0));
        for nth in 0..100_000 {
            let logical = 2 * nth;
            maps.apply(&Change::Switch { logical, physical: logical, generation: 1, digests: Vec::new() });
        }
        for _ in 0..50_000 {
            maps.apply(&Change::Unmap { first: 150_000, count: stripes - 150_000 });
            maps.apply(&Change::Unmap { first: stripes - 1, count: 1 });
        }
        assert_eq!(maps.stripes.mapped().count(), 75_000);
    }
}
