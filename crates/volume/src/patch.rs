//! Patches: single blocks of the log are written to their places in the stripe while the log still
//! has them.
//!
//! If the log is full of blocks scattered over a volume of wide stripes, freeing one row means
//! merging as many stripes as the row has blocks, each of which is read and written as a whole. A
//! *patch* writes only the changed blocks of a stripe, parity, and the headers of their chunks.
//! There are two steps with a flush between them:
//!
//! 1. a commit of its own: old contents are read and verified, and new parity goes to rows of the
//!    log as *home blocks*, numbered behind the user blocks. The new data is in the log already.
//!    The record has the rows, and for each stripe a [`StripePatch`];
//! 2. [`Going`](home::Going): blocks and headers are written to their places in the stripe and
//!    flushed, and the headers are read again, so that a device that loses a write is found before
//!    the log forgets the blocks.
//!
//! The next record begins with entries by which the log forgets the blocks that went home; only
//! then the rows are free. So only the patches of the last record can have been cut off by a crash,
//! and an opening writes all of these again before anything else. Their content is in the log,
//! whichever devices are missing and whatever the present ones have written.
//!
//! A stripe keeps its generation. So a device that is lost meanwhile would look as if it had the
//! patch; it counts as missing everything from the lowest generation of a patched stripe on.
//!
//! Patches begin only while every device has everything and no epoch is open. Stripes with readers
//! are not chosen, and from the beginning of step 1 to the end of step 2 no user's read of a
//! patched stripe begins.

mod home;
mod update;

use crate::commit::Commit;
use crate::engine::Engine;
use crate::fetch::Requester;
use crate::maps::{Change, ChunkPatch, Mapping, StripePatch};
use crate::span::{Place, Target};
use crate::{Operand, Slot, Urgency, UserBlock};
pub(crate) use home::Going;
use pantile_code::CellIndex;
use pantile_format::volume;
use pantile_plan::UpdatePlan;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
pub(crate) use update::{Update, Updates};

/// The longest entry for a patch in a record.
const ENTRY_BYTES: usize = 8192;

/// The most user blocks that one commit patches.
const BLOCKS_MOST: usize = 1024;

/// The least number of rows of the log code whose blocks one commit patches. A commit costs a
/// record on every device and two flushes, however few rows it patches.
const ROWS_AT_A_TIME: usize = 4;

/// State of patches between commits.
#[derive(Debug, Default)]
pub(crate) struct Patching {
    /// The number of blocks that the last commit wrote to the log: as many should go home.
    logged: usize,
    /// A patch has just gone home: the next commit merges no stripes that are cheaper to patch.
    goes_on: bool,
    /// Stripes that went home, with the user blocks that did; the next record makes the log forget
    /// them.
    home: BTreeMap<u32, Vec<UserBlock>>,
    /// Patches of the last record that this opening has found, to write again.
    redo: BTreeMap<u32, StripePatch>,
    going: Option<Going>,
    /// Stripes that are being patched: no user's read of them begins.
    locked: BTreeSet<u32>,
    /// Users' reads that wait for such stripes.
    held: Vec<(UserBlock, Requester)>,
    /// Plans by the cells that change at one offset.
    plans: BTreeMap<Vec<CellIndex>, Arc<UpdatePlan>>,
    /// Stripes that went home since the volume was opened.
    stripes: u64,
}

impl Patching {
    /// Tests whether patched blocks are being written home.
    pub(crate) fn is_going(&self) -> bool {
        self.going.is_some()
    }

    /// Lets a patch of the last record be written again, before anything else.
    pub(crate) fn redo(&mut self, patch: StripePatch) {
        self.redo.insert(patch.logical, patch);
    }

    /// Returns true if patches of the last record are still to be written.
    pub(crate) fn has_redo(&self) -> bool {
        !self.redo.is_empty()
    }

    /// Returns true if the commit that begins leaves stripes to patches. True once after each
    /// patch: that commit has a record to write anyway.
    pub(crate) fn take_turn(&mut self) -> bool {
        std::mem::take(&mut self.goes_on)
    }

    /// Notes that a commit writes this many blocks to the log: as many should go home.
    pub(crate) fn set_logged(&mut self, blocks: usize) {
        self.logged = blocks;
    }

    /// Returns true if a stripe is being patched, so that users' reads of it wait.
    pub(crate) fn is_locked(&self, logical: u32) -> bool {
        self.locked.contains(&logical)
    }

    pub(crate) fn stripes(&self) -> u64 {
        self.stripes
    }
}

/// A stripe that is chosen for a patch.
struct Chosen {
    update: Update,
    blocks: Vec<(UserBlock, Place)>,
}

impl Engine {
    /// Returns true if patches of an earlier session are still to be written.
    pub(crate) fn is_redoing(&self) -> bool {
        let goes = self.patching.going.as_ref().is_some_and(|going| going.is_redo);
        goes || (!self.patching.redo.is_empty() && !self.service.has_failed())
    }

    /// Returns true if a patch of the stripe was cut off and is not yet being redone. Its blocks
    /// may be old or new, and are not read.
    pub(crate) fn is_unread(&self, logical: u32) -> bool {
        self.patching.redo.contains_key(&logical)
    }

    /// Returns the lowest generation of a stripe that is being patched: a device that is lost now
    /// may lack the patch.
    pub(crate) fn patched_generation(&self) -> Option<u64> {
        let going = self.patching.going.iter().flat_map(|going| &going.patches);
        going.chain(self.patching.redo.values()).map(|patch| patch.generation).min()
    }

    /// Begins a session: home blocks in the log that no patch of the last record names are home.
    pub(crate) fn begin_patching(&mut self) {
        let known = self.maps.on_the_way_home();
        let home = known.into_iter().filter(|logical| !self.patching.redo.contains_key(logical));
        self.patching.home = home.map(|logical| (logical, Vec::new())).collect();
    }

    /// Returns true if the next record must say which blocks went home.
    pub(crate) fn has_gone_home(&self) -> bool {
        !self.patching.home.is_empty()
    }

    /// Returns the first changes of the next record, by which the log forgets the blocks that went
    /// home.
    pub(crate) fn forgets_of_home(&self) -> Vec<Change> {
        let forgets = |(&logical, blocks): (&u32, &Vec<UserBlock>)| {
            let of_user = blocks.iter().map(|&first| Change::Forget { first, count: 1 });
            std::iter::once(Change::WentHome { logical }).chain(of_user).collect::<Vec<Change>>()
        };
        self.patching.home.iter().flat_map(forgets).collect()
    }

    /// Returns the bytes that these changes take in a record.
    pub(crate) fn forget_bytes(&self) -> u64 {
        let blocks: usize = self.patching.home.values().map(|blocks| 1 + blocks.len()).sum();
        24 * blocks as u64
    }

    /// Notes that a record says which blocks went home.
    pub(crate) fn home_is_recorded(&mut self) {
        self.patching.home.clear();
    }

    /// Returns true if a stripe with this many blocks in the log will be patched rather than
    /// merged.
    pub(crate) fn is_left_to_patches(&self, count: u32, logical: u32) -> bool {
        self.maps.mapping(logical).is_some()
            && self.damage.is_sound(logical)
            && self.is_cheap_to_patch(count.into())
    }

    /// Returns the number of log rows that are kept for patches: an eighth.
    pub(crate) fn rows_for_patches(&self) -> usize {
        self.geometry.log_rows() as usize / 8
    }

    fn may_patch(&self) -> bool {
        let is_quiet = self.delayed.is_empty();
        let is_whole =
            self.maps.has_all_members() && !self.records.is_wanted() && !self.members.have_arrivals();
        self.geometry.may_patch() && is_whole && is_quiet
    }

    /// Begins to patch stripes, those with the oldest blocks of the log first. `false`: nothing can
    /// be patched now, or no record says yet which blocks went home.
    pub(crate) fn begin_patch(&mut self) -> bool {
        if self.has_gone_home() {
            return false;
        }
        self.patching.goes_on = false;
        if !self.may_patch() {
            return false;
        }
        let chosen = self.choose_patches();
        if chosen.is_empty() {
            return false;
        }
        let mut commit = Commit::new(self.maps.generation());
        let (mut wanted, mut targets, mut updates) = (Vec::new(), Vec::new(), Vec::new());
        for (index, Chosen { update, blocks }) in chosen.into_iter().enumerate() {
            let first = UserBlock(u64::from(update.logical) * self.geometry.stripe_blocks());
            let old = update.old_places().into_iter().map(|place| Target {
                place,
                block: first,
                requester: Requester::Update { update: index, place },
            });
            targets.push((update.logical, old.collect::<Vec<Target>>()));
            let new = |(block, place)| (block, Requester::PatchOf { update: index, place });
            wanted.extend(blocks.into_iter().map(new));
            updates.push(update);
        }
        commit.patch = Some(Updates::new(updates));
        self.patching.locked = targets.iter().map(|&(logical, _)| logical).collect();
        commit.outstanding = 1 + wanted.len() + targets.iter().map(|(_, old)| old.len()).sum::<usize>();
        self.commit = Some(commit);
        for (block, requester) in wanted {
            self.fetch(block, requester);
        }
        for (logical, targets) in targets.into_iter().filter(|(_, targets)| !targets.is_empty()) {
            self.read_targets(logical, targets, Urgency::User);
        }
        self.phase_part_done();
        true
    }

    /// Chooses stripes with blocks in the oldest rows of the log, as many as the log and a record
    /// have room for. Of each stripe it takes the blocks in the log that one entry of a record can
    /// name.
    fn choose_patches(&mut self) -> Vec<Chosen> {
        let mut rows: Vec<(u64, u32)> =
            self.maps.rows().iter().map(|(&number, row)| (row.generation, number)).collect();
        rows.sort_unstable();
        let free_rows = self.maps.free_rows().len().saturating_sub(self.pins.row_count());
        let least = ROWS_AT_A_TIME * self.planners.row.code().data().len();
        let most = self.patching.logged.max(least).min(BLOCKS_MOST);
        let mut room = self.record_room() / 2;
        let (mut users, mut homes) = (0, 0);
        let mut seen = BTreeSet::new();
        let mut chosen: Vec<Chosen> = Vec::new();
        let log_bytes = 24 + 16 * (self.geometry.tolerance() as u64 + 1).max(2);
        for (_, row) in rows {
            let blocks = self.maps.row(row).into_iter().flat_map(|row| row.blocks.iter().flatten());
            let stripes: Vec<u32> = blocks.map(|&block| self.geometry.locate(block).0).collect();
            for logical in stripes {
                if users >= most {
                    return chosen;
                }
                let Some(mapping) = self.patchable(logical).filter(|_| seen.insert(logical)) else {
                    continue;
                };
                let Some(one) = self.choose(logical, mapping) else { continue };
                let (home, entry) = self.len_of_patch(&one);
                let bytes = entry as u64 + home as u64 * log_bytes;
                if self.rows_needed(homes + home) > free_rows || bytes > room {
                    continue;
                }
                (users, homes, room) = (users + one.blocks.len(), homes + home, room - bytes);
                chosen.push(one);
            }
        }
        chosen
    }

    /// Returns the mapping of a stripe that can be patched, unless a merge is better.
    fn patchable(&self, logical: u32) -> Option<Mapping> {
        let mapping = self.maps.mapping(logical)?;
        let count = self.maps.logged_of(logical);
        let is_free = !self.pins.holds(mapping.physical)
            && self.damage.is_sound(logical)
            && !self.memory.is_of_a_whole(logical);
        let is_meant = count > 0 && self.is_cleaned_now(count, logical);
        (is_free && is_meant && self.is_cheap_to_patch(count.into())).then_some(mapping)
    }

    /// Plans the patch of a stripe. If all offsets are too many for an entry of a record, half or a
    /// quarter of them is patched. `None`: merging the stripe costs no more.
    fn choose(&mut self, logical: u32, mapping: Mapping) -> Option<Chosen> {
        let first = u64::from(logical) * self.geometry.stripe_blocks();
        let logged =
            self.maps.logged_within(UserBlock(first)..UserBlock(first + self.geometry.stripe_blocks()));
        let place = |block: UserBlock| (block, self.geometry.cell_of(self.geometry.locate(block).1));
        let mut blocks: Vec<(UserBlock, Place)> = logged.map(place).collect();
        let all = blocks.len() as u64;
        loop {
            let new = blocks.iter().map(|&(_, place)| (place, Operand::Zeros)).collect();
            let one = Chosen { update: self.plan_update(logical, mapping, new), blocks };
            let (home, entry) = self.len_of_patch(&one);
            if entry <= ENTRY_BYTES {
                let (part, chunks) = (one.blocks.len() as u64, self.chunks_written(&one.update).len());
                let cost =
                    self.cost_of_patch(part, home as u64, one.update.old_places().len() as u64, chunks);
                return (cost * all < self.cost_of_merge(all) * part).then_some(one);
            }
            let offsets: BTreeSet<u32> = one.blocks.iter().map(|&(_, (_, offset))| offset).collect();
            let middle = *offsets.iter().nth(offsets.len() / 2)?;
            blocks = one.blocks;
            blocks.retain(|&(_, (_, offset))| offset < middle);
            if blocks.is_empty() {
                return None;
            }
        }
    }

    /// Returns the number of home blocks of a patch, and the bytes of its entry in a record.
    fn len_of_patch(&self, one: &Chosen) -> (usize, usize) {
        let (written, chunks) = (one.update.written_places().len(), self.chunks_written(&one.update).len());
        (written - one.blocks.len(), volume::StripePatch::len_of(chunks, written))
    }

    /// Puts new parity, which has just been computed, into rows of the log. `false`: this was done
    /// before, or the commit patches nothing.
    pub(crate) fn patch_goes_on(&mut self) -> bool {
        let is_begun = |commit: &mut Commit| commit.patch.is_some() && commit.rows.is_empty();
        let Some(mut commit) = self.commit.take_if(is_begun) else { return false };
        let patch = commit.patch.as_ref();
        let has_lost = patch.is_some_and(|patch| patch.has_lost);
        let mut home: Vec<(UserBlock, Operand)> = Vec::new();
        for update in patch.iter().flat_map(|patch| &patch.stripes) {
            let parity = update.made.iter().filter(|(place, _)| update.places.contains(place));
            home.extend(parity.map(|(&(cell, offset), &buffer)| {
                (self.geometry.block_of(update.logical, cell, offset), Operand::Buffer(buffer))
            }));
        }
        commit.rows = self.fill_rows(&home, self.maps.generation());
        self.maps.use_generations(commit.rows.len());
        let laid_out: usize = commit.rows.iter().map(|row| row.blocks.len()).sum();
        if has_lost || laid_out < home.len() {
            self.commit = Some(commit);
            self.undo_commit();
            return true;
        }
        let jobs = self.compute_rows(&mut commit.rows);
        commit.outstanding = 1 + jobs.len();
        self.commit = Some(commit);
        for (owner, work) in jobs {
            self.io.compute(owner, work);
        }
        self.phase_part_done();
        true
    }

    /// Returns the record entries of stripes that are patched.
    pub(crate) fn patches_of(&self, updates: &Updates) -> Vec<StripePatch> {
        let patch = |update: &Update| {
            let Mapping { physical, generation } = update.mapping;
            let mut blocks: BTreeMap<Slot, Vec<(u32, u64)>> = BTreeMap::new();
            for &place in &update.places {
                let (slot, block) = self.place_in_chunk(update.mapping, place);
                if let Some(sums) = update.sums.get(&slot) {
                    blocks.entry(slot).or_default().push((block as u32, sums[block]));
                }
            }
            let chunk = |(slot, mut blocks): (Slot, Vec<(u32, u64)>)| {
                blocks.sort_unstable();
                let (_, digest) =
                    self.chunk_header(update.logical, physical, generation, slot, &update.sums[&slot]);
                ChunkPatch { slot, digest, blocks }
            };
            let chunks = blocks.into_iter().map(chunk).collect();
            StripePatch { logical: update.logical, generation, chunks }
        };
        updates.stripes.iter().map(patch).collect()
    }

    /// Begins to write patched blocks home: their record is durable.
    pub(crate) fn patch_finished(&mut self, updates: Updates) {
        let patches = self.patches_of(&updates);
        let (mut content, mut headers) = (BTreeMap::new(), BTreeMap::new());
        for (index, mut update) in updates.stripes.into_iter().enumerate() {
            for &(cell, offset) in &update.places {
                let of_place = update.content((cell, offset));
                if let Operand::Buffer(buffer) = of_place {
                    self.io.hold(buffer);
                }
                content.insert(self.geometry.block_of(update.logical, cell, offset), of_place);
            }
            let sums = std::mem::take(&mut update.sums);
            headers.extend(sums.into_iter().map(|(slot, sums)| ((index, slot), sums)));
            self.release_update(update);
        }
        self.go_home(patches, content, headers, false);
    }

    /// Undoes a commit of patches: nothing was written. Lost blocks are found when the stripe is
    /// merged.
    pub(crate) fn patch_undone(&mut self, updates: Updates) {
        self.patching.goes_on = false;
        for update in updates.stripes {
            if update.is_hopeless {
                self.damage.suspect(update.logical);
            }
            self.release_update(update);
        }
        self.unlock();
    }

    /// Holds a user's read of a stripe that is being patched.
    pub(crate) fn hold_read(&mut self, block: UserBlock, requester: Requester) {
        self.patching.held.push((block, requester));
    }

    /// Resumes the reads of stripes that were patched.
    fn unlock(&mut self) {
        self.patching.locked.clear();
        let held = std::mem::take(&mut self.patching.held);
        self.resolve_all(held);
    }

    /// Keeps the list of the patched blocks that are home, until a record says so.
    fn came_home(&mut self, patch: &StripePatch) {
        let physical = self.maps.mapping(patch.logical).map_or(0, |mapping| mapping.physical);
        let blocks = patch
            .places(physical, &self.geometry)
            .map(|(_, cell, offset, _)| self.geometry.block_of(patch.logical, cell, offset))
            .filter(|&block| !self.geometry.is_home(block));
        let blocks = blocks.collect();
        self.patching.home.insert(patch.logical, blocks);
    }
}
