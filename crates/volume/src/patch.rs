//! Single blocks go home: they are written to their places in the stripe while the log still holds
//! them.
//!
//! A log that is full of blocks from all over a volume of wide stripes frees a row only by merging
//! as many stripes as the row has blocks, each of which is read and written as a whole. A *patch*
//! writes only changed blocks of a stripe, parity, and the headers of their chunks. Two steps, and
//! between them a flush:
//!
//! 1. a commit of its own: old contents are read and verified, and new parity goes to rows of the
//!    log like anything else, as *home blocks*, numbered behind the user's. The new data is there
//!    already. The record has the rows, and for each stripe a [`StripePatch`];
//! 2. [`Going`](home::Going): blocks and headers are written where they belong, flushed, and the
//!    headers read again, so that a device that loses a write is found before the log forgets.
//!
//! The next record begins with the forgetting of blocks that went home; only then the rows are
//! free. So the patches of the last record are the only ones that a crash may have cut off. An
//! opening writes all of them again before anything else. Their content is in the log, whichever
//! devices are missing and whatever the others hold.
//!
//! A stripe keeps its generation. A device that is lost in between lacks the patch and looks as if
//! it had it; so it is said to have missed all from the lowest generation of a patched stripe on.
//!
//! Patches begin only while every device has everything and no epoch is open. Users do not begin to
//! read a stripe from the beginning of step 1 to the end of step 2, and none with a reader is
//! chosen.

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

/// The longest entry of a record.
const ENTRY_BYTES: usize = 8192;

/// Most blocks of users that one commit patches.
const BLOCKS_MOST: usize = 1024;

/// Rows of the log code whose blocks one commit patches, or more: a record on every device and two
/// flushes are the same for one row.
const ROWS_AT_A_TIME: usize = 4;

/// State of patches between commits.
#[derive(Debug, Default)]
pub(crate) struct Patching {
    /// Blocks that the last commit wrote to the log: as many should go home.
    logged: usize,
    /// A patch has just gone home: the next commit leaves stripes to patches that are cheaper to
    /// patch than to merge.
    goes_on: bool,
    /// Stripes that went home, and the user's blocks that did: the next record forgets them.
    home: BTreeMap<u32, Vec<UserBlock>>,
    /// Patches of the last record when the volume was opened.
    redo: BTreeMap<u32, StripePatch>,
    going: Option<Going>,
    /// Stripes that are patched: no user begins to read them.
    locked: BTreeSet<u32>,
    /// Reads of users that wait for such stripes.
    held: Vec<(UserBlock, Requester)>,
    /// By the cells of one offset that change.
    plans: BTreeMap<Vec<CellIndex>, Arc<UpdatePlan>>,
    /// Stripes that went home since the volume was opened.
    stripes: u64,
}

impl Patching {
    /// Tests whether stripes are on their way home.
    pub(crate) fn is_going(&self) -> bool {
        self.going.is_some()
    }

    /// Writes a patch of the last record again, before anything else.
    pub(crate) fn redo(&mut self, patch: StripePatch) {
        self.redo.insert(patch.logical, patch);
    }

    /// Returns true if patches of the last record are still to be written.
    pub(crate) fn has_redo(&self) -> bool {
        !self.redo.is_empty()
    }

    /// Returns true if the commit that begins leaves stripes to patches. Once only, because it
    /// follows a patch, so that there is a record to be written in any case.
    pub(crate) fn take_turn(&mut self) -> bool {
        std::mem::take(&mut self.goes_on)
    }

    /// Notes that a commit writes this many blocks to the log: as many should go home.
    pub(crate) fn set_logged(&mut self, blocks: usize) {
        self.logged = blocks;
    }

    /// Returns true if a stripe is patched, so that users' reads of it wait.
    pub(crate) fn is_locked(&self, logical: u32) -> bool {
        self.locked.contains(&logical)
    }

    pub(crate) fn stripes(&self) -> u64 {
        self.stripes
    }
}

/// A stripe to be patched.
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

    /// Returns true if home blocks of a stripe may be of two times, without a patch under way:
    /// nothing is read there.
    pub(crate) fn is_unread(&self, logical: u32) -> bool {
        self.patching.redo.contains_key(&logical)
    }

    /// Returns the lowest generation of a stripe that is on its way home: a device that is lost now
    /// may lack it.
    pub(crate) fn patched_generation(&self) -> Option<u64> {
        let going = self.patching.going.iter().flat_map(|going| &going.patches);
        going.chain(self.patching.redo.values()).map(|patch| patch.generation).min()
    }

    /// Begins a session: home blocks that no patch of the last record names are home.
    pub(crate) fn begin_patching(&mut self) {
        let known = self.maps.on_the_way_home();
        let home = known.into_iter().filter(|logical| !self.patching.redo.contains_key(logical));
        self.patching.home = home.map(|logical| (logical, Vec::new())).collect();
    }

    /// Returns true if a record is to say which blocks went home.
    pub(crate) fn has_gone_home(&self) -> bool {
        !self.patching.home.is_empty()
    }

    /// Returns the first changes of the next record: the log forgets the blocks that went home.
    pub(crate) fn forgets_of_home(&self) -> Vec<Change> {
        let forgets = |(&logical, blocks): (&u32, &Vec<UserBlock>)| {
            let of_user = blocks.iter().map(|&first| Change::Forget { first, count: 1 });
            std::iter::once(Change::WentHome { logical }).chain(of_user).collect::<Vec<Change>>()
        };
        self.patching.home.iter().flat_map(forgets).collect()
    }

    /// Returns the bytes of these changes in a record.
    pub(crate) fn forget_bytes(&self) -> u64 {
        let blocks: usize = self.patching.home.values().map(|blocks| 1 + blocks.len()).sum();
        24 * blocks as u64
    }

    /// Forgets these blocks: a record has said so.
    pub(crate) fn home_is_recorded(&mut self) {
        self.patching.home.clear();
    }

    /// Returns true if a stripe with this many blocks in the log is patched sooner or later, not
    /// merged.
    pub(crate) fn is_left_to_patches(&self, count: u32, logical: u32) -> bool {
        self.maps.mapping(logical).is_some()
            && self.damage.is_sound(logical)
            && self.is_cheap_to_patch(count.into())
    }

    /// Rows of the log that are kept for patches: an eighth.
    pub(crate) fn rows_for_patches(&self) -> usize {
        self.geometry.log_rows() as usize / 8
    }

    fn may_patch(&self) -> bool {
        let is_quiet = self.delayed.is_empty();
        let is_whole =
            self.maps.has_all_members() && !self.records.is_wanted() && !self.members.have_arrivals();
        self.geometry.may_patch() && is_whole && is_quiet
    }

    /// Begins to patch stripes, those first whose blocks are the oldest of the log; `false`:
    /// nothing can be patched now, or blocks that went home are still to be recorded.
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

    /// Stripes with blocks in the oldest rows of the log, as many as the log and a record have room
    /// for; each with all of its blocks in the log that one entry of a record can name.
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

    /// Returns the place of a stripe that can be patched, and is not better merged.
    fn patchable(&self, logical: u32) -> Option<Mapping> {
        let mapping = self.maps.mapping(logical)?;
        let count = self.maps.logged_of(logical);
        let is_free = !self.pins.holds(mapping.physical)
            && self.damage.is_sound(logical)
            && !self.memory.is_of_a_whole(logical);
        let is_meant = count > 0 && self.is_cleaned_now(count, logical);
        (is_free && is_meant && self.is_cheap_to_patch(count.into())).then_some(mapping)
    }

    /// Plans the patch of a stripe; of half of the offsets, or a quarter, where all are too many
    /// for an entry of a record. `None`: to merge the stripe costs no more.
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

    /// Returns the home blocks of a patch, and the bytes of its entry in a record.
    fn len_of_patch(&self, one: &Chosen) -> (usize, usize) {
        let (written, chunks) = (one.update.written_places().len(), self.chunks_written(&one.update).len());
        (written - one.blocks.len(), volume::StripePatch::len_of(chunks, written))
    }

    /// The new parity has been computed: lays it out in rows of the log. `false`: it is laid out,
    /// or this is no patch.
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

    /// Returns the entries of a record for stripes that are patched.
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

    /// Sends patched blocks home: the record is durable.
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

    /// Keeps a user's read of a stripe that is patched.
    pub(crate) fn hold_read(&mut self, block: UserBlock, requester: Requester) {
        self.patching.held.push((block, requester));
    }

    /// Lets readers of stripes that were patched go on.
    fn unlock(&mut self) {
        self.patching.locked.clear();
        let held = std::mem::take(&mut self.patching.held);
        self.resolve_all(held);
    }

    /// Keeps the blocks of a patch that are home until a record says so.
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
