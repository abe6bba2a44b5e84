//! The second policy: every stripe has one place, and small writes change it there. The textbook's,
//! and the baseline of every comparison.
//!
//! Logical stripe L lies in physical stripe L. There is no log. A commit is one of three:
//!
//! * of the record alone: members, trims, and the *marks* of stripes that the next one writes in
//!   place; durable before that begins;
//! * of data: of each stripe that is dirty, unpinned and marked or unmapped, the blocks that are
//!   dirty. Old contents are read and verified as the cheapest [`UpdatePlan`] says, parity and
//!   checksums are computed, and data, parity and headers are written where they lie; then one
//!   round of flushes. The generation stays, and there is no record;
//! * of stripes written as a whole at their place with a new generation and a record, by the
//!   machinery of [`crate::commit`]: those that were unmapped, that lack a device (so that
//!   generations still say what it missed), or that did not verify.
//!
//! The last two go together. While a stripe is written no user reads it from the devices, because
//! what is read may be of two times.
//!
//! After a crash a stripe that is marked may be of before or after each of its writes, block by
//! block. Before requests are answered its data is read *raw*, whatever its checksums say, and
//! written again with parity and headers that fit. What that means:
//!
//! * **the write hole**: what a lost device held of a marked stripe is computed from parity that
//!   may be of another time. It may come out wrong, also in blocks that nobody wrote, and nothing
//!   notices. [`Status::write_hole_stripes`](crate::Status) counts such stripes;
//! * a block that is torn, that rotted, or whose last write was lost is taken for what was written,
//!   if its stripe was marked;
//! * the generation of a stripe does not change with a write in place: if a device loses the writes
//!   of a block *and* of its header, both old ones fit.
//!
//! Invariant: a stripe that is not marked is on the devices as the maps say, whole and of one time.

use crate::commit::{Commit, StripeWrite, runs_of};
use crate::engine::{Dirty, Engine, IoOwner, JobOwner};
use crate::fetch::{ChunkSums, Requester};
use crate::maps::{Change, Mapping};
use crate::patch::in_runs;
use crate::span::{Place, Target};
use crate::{
    Action, BufferId, Bug, Compute, Computed, DeviceBlock, IoResult, Operand, Piece, Seed, Slot, Sum,
    Urgency, UserBlock,
};
use pantile_code::CellIndex;
use pantile_format::volume::Policy;
use pantile_plan::{CellSet, Content, Costs, Plan, UpdatePlan};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Commits of data after which the mark of a stripe that none of them wrote is taken away with the
/// next record.
const MARK_KEPT_COMMITS: u64 = 16;

/// Blocks read at a time to write stripes as a whole: 16 MiB.
const WHOLE_BLOCKS_MOST: u64 = 4096;

/// Plans kept.
const PLANS_MOST: usize = 1024;

/// What the policy remembers between commits.
#[derive(Debug, Default)]
pub(crate) struct Inplace {
    /// The next record takes away the marks of all stripes that are of one time.
    settles: bool,
    /// Stripes that were marked when the volume was opened and are not written again yet. Requests
    /// wait for that.
    resync: BTreeSet<u32>,
    /// Stripes that the commit under way writes.
    pub(crate) locked: BTreeSet<u32>,
    /// Stripes that are read just now and that a commit waits for: no user begins to read them.
    awaited: BTreeSet<u32>,
    /// Reads of users that wait for such stripes.
    held: Vec<(UserBlock, Requester)>,
    /// Stripes of which a device that was lost meanwhile may lack the last write, although their
    /// generation says it has it. They are written as a whole before that device may come back.
    unsure: BTreeSet<u32>,
    /// Stripes that are perhaps of two times and cannot be written as a whole, because they are
    /// broken. They stay marked.
    torn: BTreeSet<u32>,
    /// By stripe, the last commit that wrote it in place.
    touched: BTreeMap<u32, u64>,
    commits: u64,
    plans: BTreeMap<Vec<CellIndex>, Arc<UpdatePlan>>,
    /// Stripes of which something was computed from parity after a crash.
    pub(crate) write_holes: u64,
    /// The last commit was undone: another may be begun at once.
    undone: bool,
}

/// The part of a commit that only this policy has.
#[derive(Debug, Default)]
pub(crate) struct InplaceCommit {
    pub(crate) updates: Vec<Update>,
    /// Marks that its record sets or takes away.
    pub(crate) marks: Vec<Change>,
    raws: Vec<Raw>,
    /// A device was lost since it began.
    pub(crate) has_lost: bool,
    asked_headers: bool,
}

/// One stripe that is written in part, where it lies.
#[derive(Debug)]
pub(crate) struct Update {
    pub(crate) logical: u32,
    pub(crate) mapping: Mapping,
    pub(crate) new: BTreeMap<Place, Operand>,
    /// By offset in the element.
    plans: Vec<(u32, Arc<UpdatePlan>)>,
    old: BTreeMap<Place, Operand>,
    pub(crate) made: BTreeMap<Place, BufferId>,
    /// What is written, in the order of the checksums that are computed.
    pub(crate) places: Vec<Place>,
    /// The checksums of the chunks that are written to.
    pub(crate) sums: BTreeMap<Slot, Vec<u64>>,
    /// Old content cannot be had: this.
    pub(crate) is_hopeless: bool,
    lost: Vec<Place>,
    /// A header cannot be had: the stripe is written as a whole.
    pub(crate) lacks_header: bool,
}

/// One stripe that is read raw.
#[derive(Debug)]
struct Raw {
    /// Which of the commit's stripes it is.
    stripe: usize,
    mapping: Mapping,
    lost: CellSet,
    have: BTreeMap<Place, BufferId>,
    runs: Vec<Run>,
    outstanding: usize,
    plan: Option<Arc<Plan>>,
}

/// Consecutive blocks of a device.
type Run = Vec<(Place, BufferId)>;

impl Inplace {
    /// Whether a stripe is being written in place.
    pub(crate) fn is_locked(&self, logical: u32) -> bool {
        self.locked.contains(&logical)
    }
}

impl Engine {
    /// What was marked when the volume was opened is made of one time, before anything else; under
    /// the only policy that does so, or it would be waited for, for ever.
    pub(crate) fn begin_resync(&mut self) {
        if self.geometry.policy == Policy::Inplace {
            self.inplace.resync = self.maps.marked().collect();
        }
    }

    pub(crate) fn is_resyncing(&self) -> bool {
        !self.inplace.resync.is_empty() || self.is_redoing()
    }

    /// Whether a device may take part again: nothing that it may lack without the maps saying so.
    pub(crate) fn may_admit(&self) -> bool {
        self.inplace.unsure.is_empty()
    }

    /// Whether a stripe is being written in place.
    pub(crate) fn is_locked(&self, logical: u32) -> bool {
        self.inplace.is_locked(logical)
    }

    /// Whether a stripe is written in place, or is about to be, so that users' reads of it wait.
    pub(crate) fn waits_in_place(&self, logical: u32) -> bool {
        self.is_locked(logical) || self.inplace.awaited.contains(&logical)
    }

    /// Keeps a user's read of a stripe that is written, or is about to be; whether it did.
    pub(crate) fn hold_read(&mut self, block: UserBlock, requester: Requester) -> bool {
        let (logical, _) = self.geometry.locate(block);
        let holds = self.waits_in_place(logical) && matches!(requester, Requester::User(..));
        if holds {
            self.inplace.held.push((block, requester));
        }
        holds
    }

    /// Begins what has waited for this policy.
    pub(crate) fn drive_inplace(&mut self) {
        while std::mem::take(&mut self.inplace.undone) {
            self.drive_commit();
        }
        if !self.serves_nobody() {
            for (id, request) in std::mem::take(&mut self.early) {
                self.request(id, request);
            }
            self.drive_commit();
        }
        let nothing_to_write = self.failed || (self.sealed.is_empty() && self.repair.is_empty());
        if nothing_to_write && self.commit.is_none() && !self.inplace.awaited.is_empty() {
            self.unlock();
        }
    }

    /// No stripe is written any more: readers go on.
    fn unlock(&mut self) {
        self.inplace.locked.clear();
        self.inplace.awaited.clear();
        let held = std::mem::take(&mut self.inplace.held);
        self.resolve_all(held);
    }

    /// Lets the next record take away all marks that it can; whether there are any.
    pub(crate) fn settle_marks(&mut self) -> bool {
        self.inplace.settles = self.maps.marked().next().is_some();
        self.inplace.settles
    }

    fn is_marked(&self, logical: u32) -> bool {
        self.maps.is_marked(logical) || self.planted.is(Bug::ForgetsMark)
    }

    /// Begins whichever commit comes next.
    pub(crate) fn begin_inplace(&mut self) {
        let dirty: BTreeSet<u32> = self.sealed.blocks.stripes().map(|(logical, _)| logical).collect();
        let is_mapped = |logical: &u32| self.maps.stripes[*logical as usize].is_some();
        self.repair.retain(is_mapped);
        self.inplace.unsure.retain(is_mapped);
        self.inplace.torn.retain(is_mapped);
        // A mark that nothing is written under would have what is lost be read raw after a crash.
        let waits = |logical: &u32| self.is_beyond_repair(*logical) && !self.is_beside_the_missing(*logical);
        let touched: BTreeSet<u32> =
            dirty.iter().chain(&self.repair).copied().filter(|logical| !waits(logical)).collect();
        let unmarked = |logical: &&u32| is_mapped(logical) && !self.is_marked(**logical);
        let new_marks: BTreeSet<u32> = touched.iter().filter(unmarked).copied().collect();
        if self.members_changed || !self.sealed.unmapped.is_empty() {
            self.commit_record(&touched, &new_marks);
        } else if !self.inplace.resync.is_empty() {
            self.commit_resync();
        } else if !new_marks.is_empty() {
            self.commit_record(&touched, &new_marks);
        } else {
            self.commit_data(&dirty, &touched);
        }
    }

    /// A commit of nothing but its record.
    fn commit_record(&mut self, touched: &BTreeSet<u32>, new_marks: &BTreeSet<u32>) {
        let mut commit = Commit::new(self.maps.generation);
        commit.members_changed = std::mem::take(&mut self.members_changed);
        // A run of trims takes two entries of 24 bytes, a run of marks one of 32; a stripe is a run
        // at worst.
        let room = self.record_room();
        let (trims, marks, clears) = (room / 2 / 48, room / 4 / 32, room / 4 / 32);
        let mut trimmed = std::mem::take(&mut self.sealed.unmapped);
        if trimmed.len() as u64 > trims {
            let runs = runs_of(&trimmed);
            if let Some(&(first, _)) = runs.get(trims as usize) {
                self.sealed.unmapped = trimmed.split_off(&first);
            }
        }
        let is_trimmed = |logical: &&u32| trimmed.contains(logical) || self.sealed.unmapped.contains(logical);
        let set =
            new_marks.iter().filter(|logical| !is_trimmed(logical)).take(marks as usize).copied().collect();
        let is_old = |logical: &u32| {
            let last = self.inplace.touched.get(logical).copied().unwrap_or(0);
            // The record that says what a broken stripe has lost says that it is of one time.
            let is_broken = self.broken.contains(logical);
            is_broken || self.inplace.settles || last + MARK_KEPT_COMMITS <= self.inplace.commits
        };
        let in_use = |logical: &u32| {
            touched.contains(logical)
                || self.inplace.unsure.contains(logical)
                || self.inplace.torn.contains(logical)
                || self.inplace.resync.contains(logical)
        };
        let idle = self.maps.marked().filter(|l| is_old(l) && !in_use(l));
        let cleared: BTreeSet<u32> = idle.take(clears as usize).collect();
        self.inplace.touched.retain(|logical, _| !cleared.contains(logical));
        // More than one record takes is for the next one.
        self.inplace.settles =
            self.inplace.settles && !cleared.is_empty() && self.maps.marked().nth(cleared.len()).is_some();
        self.members_changed |= self.inplace.settles;
        commit.inplace.marks = marks_of(&cleared, false).chain(marks_of(&set, true)).collect();
        commit.taken = Dirty { unmapped: trimmed, ..Dirty::default() };
        commit.outstanding = 1;
        self.commit = Some(commit);
        self.phase_part_done();
    }

    /// A commit of stripes that were marked at a crash.
    fn commit_resync(&mut self) {
        let mut commit = Commit::new(self.maps.generation);
        let mut room = self.record_room();
        let per_stripe = self.geometry.stripe_blocks();
        let mut blocks = 0;
        let mut cleared = BTreeSet::new();
        for &logical in &self.inplace.resync {
            // Each data cell of it may become suspect.
            let notes = 40 * self.geometry.code.data().len() as u64;
            let bytes = self.switch_bytes() + 32 + notes;
            let Some(mapping) = self.maps.stripes[logical as usize] else { continue };
            if !cleared.is_empty() && (blocks + per_stripe > WHOLE_BLOCKS_MOST || room < bytes) {
                break;
            }
            (blocks, room) = (blocks + per_stripe, room.saturating_sub(bytes));
            let (stripe, generation) =
                (commit.stripes.len(), self.maps.generation + commit.stripes.len() as u64);
            commit.stripes.push(StripeWrite::new(logical, mapping.physical, generation, per_stripe as usize));
            let lost = self.lost_cells(logical, mapping);
            let (have, runs) = (BTreeMap::new(), Vec::new());
            let raw = Raw { stripe, mapping, lost, have, runs, outstanding: 0, plan: None };
            commit.inplace.raws.push(raw);
            cleared.insert(logical);
        }
        commit.inplace.marks = marks_of(&cleared, false).collect();
        self.give_generations(&commit);
        commit.outstanding = 1 + commit.inplace.raws.len();
        let raws = commit.inplace.raws.len();
        self.inplace.locked = cleared;
        self.commit = Some(commit);
        (0..raws).for_each(|raw| self.advance_raw(raw));
        self.phase_part_done();
    }

    /// A commit of data: what is marked or unmapped, and not being read.
    fn commit_data(&mut self, dirty: &BTreeSet<u32>, touched: &BTreeSet<u32>) {
        let mut commit = Commit::new(self.maps.generation);
        let per_stripe = self.geometry.stripe_blocks();
        let (mut room, mut blocks) = (self.record_room(), 0);
        let (mut updates, mut awaited) = (Vec::new(), BTreeSet::new());
        for &logical in touched {
            if self.pins.contains_key(&logical) {
                awaited.insert(logical);
                continue;
            }
            let is_sound = !self.broken.contains(&logical) || self.is_beside_the_missing(logical);
            match self.maps.stripes[logical as usize] {
                Some(mapping)
                    if is_sound
                        && !self.repair.contains(&logical)
                        && !self.inplace.torn.contains(&logical)
                        && !self.inplace.unsure.contains(&logical)
                        && self.lost_cells(logical, mapping).is_empty() =>
                {
                    updates.push((logical, mapping));
                }
                _ => {
                    let has_room = room >= self.switch_bytes() && blocks < WHOLE_BLOCKS_MOST;
                    if !has_room || self.is_beyond_repair(logical) {
                        continue;
                    }
                    (room, blocks) = (room - self.switch_bytes(), blocks + per_stripe);
                    let generation = self.maps.generation + commit.stripes.len() as u64;
                    commit.stripes.push(StripeWrite::new(logical, logical, generation, per_stripe as usize));
                }
            }
        }
        self.inplace.awaited = awaited;
        let whole = commit.stripes.iter().map(|stripe| stripe.logical);
        self.inplace.locked = updates.iter().map(|&(logical, _)| logical).chain(whole).collect();
        if self.inplace.locked.is_empty() {
            // What is read just now is tried again when it is not. What is broken can go nowhere.
            let stuck = self.inplace.awaited.is_empty() && !dirty.is_empty();
            self.failed |= stuck && self.is_idle() && !self.broken.is_empty();
            self.give_up_if_failed();
            if self.inplace.awaited.is_empty() {
                self.unlock();
            }
            return;
        }
        self.give_generations(&commit);
        self.inplace.commits += 1;
        commit.taken.blocks = self.sealed.blocks.take_if(|logical| self.inplace.locked.contains(&logical));
        for (logical, mapping) in updates {
            self.inplace.touched.insert(logical, self.inplace.commits);
            let blocks = commit.taken.blocks.stripe(logical).iter();
            let new = blocks.map(|&(place, content)| (self.geometry.cell_of(place), content)).collect();
            let update = self.plan_update(logical, mapping, new);
            commit.inplace.updates.push(update);
        }
        let wanted: Vec<(UserBlock, Requester)> = (0..)
            .zip(&commit.stripes)
            .flat_map(|(stripe, write)| {
                let first = u64::from(write.logical) * per_stripe;
                (0..per_stripe as u32).map(move |place| {
                    (UserBlock(first + u64::from(place)), Requester::Commit { stripe, place })
                })
            })
            .collect();
        let mut targets: Vec<(u32, Vec<Target>)> = Vec::new();
        for (index, update) in commit.inplace.updates.iter().enumerate() {
            let block = UserBlock(u64::from(update.logical) * per_stripe);
            let target =
                |place: Place| Target { place, block, requester: Requester::Update { update: index, place } };
            targets.push((update.logical, update.old_places().into_iter().map(target).collect()));
        }
        commit.outstanding =
            1 + wanted.len() + targets.iter().map(|(_, targets)| targets.len()).sum::<usize>();
        self.commit = Some(commit);
        self.gather(wanted);
        for (logical, targets) in targets.into_iter().filter(|(_, targets)| !targets.is_empty()) {
            self.read_targets(logical, targets, Urgency::User);
        }
        self.phase_part_done();
    }

    /// The generations of stripes that are written as a whole are given, and their places held.
    fn give_generations(&mut self, commit: &Commit) {
        self.maps.generation += commit.stripes.len() as u64;
        for stripe in &commit.stripes {
            *self.pins.entry(stripe.logical).or_default() += 1;
        }
    }

    /// Bytes that a stripe switch takes in a record, with the forgetting that goes with it.
    pub(crate) fn switch_bytes(&self) -> u64 {
        2 * 64 + 8 * self.geometry.slots() as u64
    }

    pub(crate) fn plan_update(
        &mut self,
        logical: u32,
        mapping: Mapping,
        new: BTreeMap<Place, Operand>,
    ) -> Update {
        let mut cells: BTreeMap<u32, Vec<CellIndex>> = BTreeMap::new();
        for &(cell, offset) in new.keys() {
            cells.entry(offset).or_default().push(cell);
        }
        let plans = cells.into_iter().map(|(offset, cells)| (offset, self.update_plan(cells))).collect();
        Update {
            logical,
            mapping,
            new,
            plans,
            old: BTreeMap::new(),
            made: BTreeMap::new(),
            places: Vec::new(),
            sums: BTreeMap::new(),
            is_hopeless: false,
            lost: Vec::new(),
            lacks_header: false,
        }
    }

    /// The cheapest way to write cells of one offset, once for each pattern.
    fn update_plan(&mut self, cells: Vec<CellIndex>) -> Arc<UpdatePlan> {
        if let Some(known) = self.inplace.plans.get(&cells) {
            return known.clone();
        }
        let nothing = CellSet::empty(&self.geometry.code);
        let Ok(plan) = self.planners.stripe.update(&cells, &nothing, &Costs::uniform()) else {
            unreachable!("nothing is lost")
        };
        if self.inplace.plans.len() >= PLANS_MOST {
            self.inplace.plans.clear();
        }
        let plan = Arc::new(plan);
        self.inplace.plans.insert(cells, plan.clone());
        plan
    }

    /// Old content of a stripe that is written in part is there, or cannot be had.
    pub(crate) fn update_read(&mut self, index: usize, place: Place, content: Option<Operand>) {
        let Some(commit) = &mut self.commit else { return };
        let update = &mut commit.inplace.updates[index];
        match content {
            Some(content) => _ = update.old.insert(place, content),
            None => {
                update.is_hopeless = true;
                update.lost.push(place);
            }
        }
        self.phase_part_done();
    }

    /// What gathering is at its end for; `false`: more is asked for, or all of it is undone.
    pub(crate) fn inplace_gathered(&mut self) -> bool {
        let Some(commit) = &mut self.commit else { return false };
        let part = &commit.inplace;
        let undone = (part.has_lost && !part.updates.is_empty())
            || part.updates.iter().any(|update| update.is_hopeless || update.lacks_header);
        if undone {
            self.undo_commit();
            return false;
        }
        if part.asked_headers || part.updates.is_empty() {
            return true;
        }
        commit.inplace.asked_headers = true;
        let mut commit = self.commit.take().expect("it is there");
        let mut headers = Vec::new();
        for (index, update) in commit.inplace.updates.iter_mut().enumerate() {
            for slot in self.chunks_written(update) {
                let chunk_blocks = self.geometry.zones(slot).shape().chunk_blocks() as usize;
                let written = update.written_places();
                let of_slot = |place: &&Place| self.place_in_chunk(update.mapping, **place).0 == slot;
                if written.iter().filter(of_slot).count() == chunk_blocks {
                    update.sums.insert(slot, vec![0; chunk_blocks]);
                } else if let Some(known) = self.known_sums(update.mapping, slot) {
                    update.sums.insert(slot, known.sums.clone());
                } else {
                    headers.push((index, slot, self.geometry.chunk_start(update.mapping.physical, slot)));
                }
            }
        }
        commit.outstanding = 1 + headers.len();
        self.commit = Some(commit);
        for (update, slot, at) in headers {
            let io = self.new_io(slot, IoOwner::UpdateHeader { update, slot });
            let blocks = self.geometry.header_blocks(slot);
            self.act(Action::ReadBytes { io, slot, at, blocks, urgency: Urgency::User });
        }
        self.phase_part_done();
        false
    }

    pub(crate) fn update_header_read(&mut self, index: usize, slot: Slot, result: &IoResult) {
        let Some(update) = self.commit.as_ref().and_then(|commit| commit.inplace.updates.get(index)) else {
            return;
        };
        let (logical, mapping) = (update.logical, update.mapping);
        let sums = match result {
            IoResult::Bytes(bytes) => self.chunk_sums(bytes, logical, mapping, slot),
            _ => None,
        };
        self.count_header(slot, result, sums.is_some());
        if let Some(update) = self.commit.as_mut().and_then(|commit| commit.inplace.updates.get_mut(index)) {
            match sums {
                Some(known) => _ = update.sums.insert(slot, known.sums),
                None => update.lacks_header = true,
            }
        }
        self.phase_part_done();
    }

    /// The slot of a block of a stripe, and which block of its chunk it is.
    pub(crate) fn place_in_chunk(&self, mapping: Mapping, (cell, offset): Place) -> (Slot, usize) {
        let (slot, _) = self.geometry.cell_block(mapping.physical, cell, offset);
        let row = self.geometry.code.cell(cell).row;
        (slot, row * self.geometry.element_blocks() as usize + offset as usize)
    }

    pub(crate) fn chunks_written(&self, update: &Update) -> BTreeSet<Slot> {
        let places = update.written_places();
        places.iter().map(|&place| self.place_in_chunk(update.mapping, place).0).collect()
    }

    /// Parity and checksums of what is written in place; how many computations there are.
    pub(crate) fn compute_updates(&mut self, part: &mut InplaceCommit) -> Vec<(JobOwner, Compute)> {
        let mut jobs = Vec::new();
        for (index, update) in part.updates.iter_mut().enumerate() {
            let mut sums = Vec::new();
            for (offset, plan) in update.plans.clone() {
                // What old content is cheaper to compute than to read.
                for step in &plan.old.steps {
                    let into = self.new_buffer();
                    let terms =
                        step.terms.iter().map(|&(cell, factor)| (update.old[&(cell, offset)], factor));
                    sums.push(Sum { into, terms: terms.collect() });
                    update.old.insert((step.target, offset), Operand::Buffer(into));
                }
                for (target, terms) in &plan.steps {
                    let into = self.new_buffer();
                    let of = |content: Content| match content {
                        Content::Old(cell) => update.old[&(cell, offset)],
                        Content::New(cell) => {
                            let made =
                                update.made.get(&(cell, offset)).map(|&buffer| Operand::Buffer(buffer));
                            made.unwrap_or_else(|| update.new[&(cell, offset)])
                        }
                    };
                    let terms = terms.iter().map(|&(content, factor)| (of(content), factor)).collect();
                    sums.push(Sum { into, terms });
                    update.made.insert((*target, offset), into);
                }
            }
            update.places = update.written_places().into_iter().collect();
            let checksums = update.places.iter().map(|&(cell, offset)| {
                let (slot, address) = self.geometry.cell_block(update.mapping.physical, cell, offset);
                let seed = Seed { slot, address, generation: update.mapping.generation };
                (update.content((cell, offset)), seed)
            });
            let checksums = checksums.collect();
            jobs.push((JobOwner::CommitUpdate(index), Compute { sums, checksums, ..Compute::default() }));
        }
        jobs
    }

    pub(crate) fn update_computed(&mut self, index: usize, computed: &Computed) {
        let Computed { checksums: found, .. } = computed;
        let Some(mut commit) = self.commit.take() else { return };
        if let Some(update) = commit.inplace.updates.get_mut(index) {
            for (&place, &sum) in update.places.iter().zip(found) {
                let (slot, block) = self.place_in_chunk(update.mapping, place);
                if let Some(sums) = update.sums.get_mut(&slot) {
                    sums[block] = sum;
                }
            }
        }
        self.commit = Some(commit);
        self.phase_part_done();
    }

    /// Blocks and headers, as few writes as there are runs of blocks.
    pub(crate) fn update_writes(&self, part: &InplaceCommit) -> Vec<(Slot, DeviceBlock, Vec<Piece>)> {
        let mut pieces: BTreeMap<(Slot, DeviceBlock), (u64, Piece)> = BTreeMap::new();
        for update in &part.updates {
            let Mapping { physical, generation } = update.mapping;
            for &(cell, offset) in &update.places {
                let at = self.geometry.cell_block(physical, cell, offset);
                pieces.insert(at, (1, Piece::Block(update.content((cell, offset)))));
            }
            for (&slot, sums) in &update.sums {
                let (header, _) = self.chunk_header(update.logical, physical, generation, slot, sums);
                let at = (slot, self.geometry.chunk_start(physical, slot));
                pieces.insert(at, (self.geometry.header_blocks(slot).into(), Piece::Bytes(header)));
            }
        }
        pieces.retain(|(slot, _), _| self.maps.is_present(*slot));
        in_runs(pieces)
    }

    /// Blocks of users in stripes that a crash caught: those that are computed from parity, and
    /// those that were lost and are read raw.
    pub(crate) fn suspect_blocks(&self, part: &InplaceCommit) -> Vec<(UserBlock, u64)> {
        let of_raw = part.raws.iter().map(|raw| self.suspect_in_stripe(raw.mapping.physical, &raw.lost));
        of_raw.flatten().collect()
    }

    /// As runs: the first block and how many.
    fn suspect_in_stripe(&self, logical: u32, lost: &CellSet) -> Vec<(UserBlock, u64)> {
        let first = UserBlock(u64::from(logical) * self.geometry.stripe_blocks());
        let elements = u64::from(self.geometry.element_blocks());
        let cells = (0..).zip(self.geometry.code.data()).filter(|(_, cell)| lost.contains(**cell));
        let computed = cells.map(|(nth, _): (u64, _)| (UserBlock(first.0 + nth * elements), elements));
        let lost = self.maps.notes.lost_within(first, self.geometry.stripe_blocks());
        computed.chain(lost).collect()
    }

    /// What the next session calls suspect, if it begins with the devices that are here: nobody has
    /// read the stripes that a crash caught.
    pub(crate) fn suspect_to_be(&self) -> impl Iterator<Item = (UserBlock, u64)> {
        let of_stripe = |logical: u32| -> Option<Vec<(UserBlock, u64)>> {
            let mapping = self.maps.stripes[logical as usize]?;
            Some(self.suspect_in_stripe(logical, &self.lost_cells(logical, mapping)))
        };
        self.maps.marked().filter_map(of_stripe).flatten()
    }

    /// Everything is durable, or a device was lost: then what was written in place waits on, and is
    /// written as a whole.
    pub(crate) fn inplace_finished(&mut self, commit: &mut Commit) {
        let part = std::mem::take(&mut commit.inplace);
        for stripe in &commit.stripes {
            self.inplace.unsure.remove(&stripe.logical);
            self.inplace.torn.remove(&stripe.logical);
            self.inplace.resync.remove(&stripe.logical);
        }
        let data = &self.geometry.code.data().iter().copied().collect::<BTreeSet<CellIndex>>();
        let holes = part.raws.iter().filter(|raw| raw.lost.iter().any(|cell| data.contains(&cell)));
        self.inplace.write_holes += holes.count() as u64;
        for update in part.updates {
            for (&slot, sums) in &update.sums {
                if self.maps.is_present(slot) {
                    let (generation, sums) = (update.mapping.generation, sums.clone());
                    self.keep_sums(update.mapping.physical, slot, ChunkSums { generation, sums });
                }
            }
            // A record takes the mark away: read raw after a crash, what is lost would not be.
            self.members_changed |= self.broken.contains(&update.logical);
            if part.has_lost {
                self.inplace.unsure.insert(update.logical);
                let back = commit.taken.blocks.take(update.logical);
                self.sealed.blocks.put_back(update.logical, back);
            }
            self.release_update(update);
        }
    }

    /// The locks of the commit that has just ended are let go.
    pub(crate) fn inplace_ended(&mut self) {
        if !self.inplace.locked.is_empty() {
            self.unlock();
        }
    }

    /// Nothing was written: what was taken has been given back.
    pub(crate) fn inplace_undone(&mut self, part: InplaceCommit) {
        self.inplace.undone = true;
        for update in part.updates {
            if update.is_hopeless {
                self.break_stripe(update.logical, update.lost.iter().copied());
                self.note_lost(&self.users_of(update.logical, &update.lost));
            } else if update.lacks_header && self.broken.contains(&update.logical) {
                self.break_stripe(update.logical, update.written_places());
            } else if update.lacks_header {
                self.repair.insert(update.logical);
            }
            self.release_update(update);
        }
        for raw in part.raws {
            raw.have.into_values().for_each(|buffer| self.release(buffer));
        }
        let broken = &self.broken;
        self.repair.retain(|logical| !broken.contains(logical));
        let (unsure, resync) = (&mut self.inplace.unsure, &mut self.inplace.resync);
        let of_two_times = unsure.iter().chain(&*resync).filter(|logical| broken.contains(logical));
        self.inplace.torn.extend(of_two_times);
        unsure.retain(|logical| !broken.contains(logical));
        resync.retain(|logical| !broken.contains(logical));
    }

    /// The users' blocks among places of a stripe.
    fn users_of(&self, logical: u32, places: &[Place]) -> Vec<UserBlock> {
        let first = u64::from(logical) * self.geometry.stripe_blocks();
        let of = |&(cell, offset): &Place| {
            let nth = self.geometry.code.data_position(cell)? as u64;
            Some(UserBlock(first + nth * u64::from(self.geometry.element_blocks()) + u64::from(offset)))
        };
        places.iter().filter_map(of).collect()
    }

    pub(crate) fn release_update(&mut self, update: Update) {
        for content in update.old.into_values() {
            self.release_operand(content);
        }
        update.made.into_values().for_each(|buffer| self.release(buffer));
    }

    /// Reads what is missing of a stripe, raw; ends if nothing is.
    fn advance_raw(&mut self, index: usize) {
        let Some(raw) = self.commit.as_ref().map(|commit| &commit.inplace.raws[index]) else { return };
        let (mapping, lost) = (raw.mapping, raw.lost.clone());
        let data: BTreeSet<CellIndex> = self.geometry.code.data().iter().copied().collect();
        let wanted: BTreeSet<CellIndex> = data.iter().copied().filter(|&cell| lost.contains(cell)).collect();
        let mut needed: BTreeSet<CellIndex> = data.difference(&wanted).copied().collect();
        let mut plan = None;
        if !wanted.is_empty() {
            let Some(cheapest) = self.planners.recover_in_stripe(&lost, &wanted) else {
                if let Some(commit) = &mut self.commit {
                    commit.hopeless = true;
                }
                self.phase_part_done();
                return;
            };
            needed.extend(cheapest.reads.iter().copied());
            plan = Some(cheapest);
        }
        let Some(raw) = self.commit.as_ref().map(|commit| &commit.inplace.raws[index]) else { return };
        let elements = self.geometry.element_blocks();
        let places = needed.iter().flat_map(|&cell| (0..elements).map(move |offset| (cell, offset)));
        let missing: BTreeMap<(Slot, DeviceBlock), Place> = places
            .filter(|place| !raw.have.contains_key(place))
            .map(|place| (self.geometry.cell_block(mapping.physical, place.0, place.1), place))
            .collect();
        let mut runs: Vec<(Slot, DeviceBlock, Run)> = Vec::new();
        for ((slot, at), place) in missing {
            let buffer = self.new_buffer();
            match runs.last_mut() {
                Some((s, first, run)) if *s == slot && first.0 + run.len() as u64 == at.0 => {
                    run.push((place, buffer))
                }
                _ => runs.push((slot, at, vec![(place, buffer)])),
            }
        }
        let reads: Vec<(Slot, DeviceBlock, Vec<BufferId>)> = runs
            .iter()
            .map(|(slot, at, run)| (*slot, *at, run.iter().map(|&(_, buffer)| buffer).collect()))
            .collect();
        if let Some(commit) = &mut self.commit {
            let raw = &mut commit.inplace.raws[index];
            (raw.plan, raw.outstanding) = (plan, runs.len());
            raw.runs = runs.into_iter().map(|(_, _, run)| run).collect();
        }
        if reads.is_empty() {
            self.combine_raw(index);
        }
        for (run, (slot, at, into)) in reads.into_iter().enumerate() {
            let io = self.new_io(slot, IoOwner::RawRun { raw: index, run });
            self.act(Action::Read {
                io,
                slot,
                at,
                into,
                generation: mapping.generation,
                urgency: Urgency::User,
            });
        }
    }

    /// A run has been read, or could not be.
    pub(crate) fn raw_read(&mut self, index: usize, run: usize, slot: Slot, result: &IoResult) {
        let code = self.geometry.code.clone();
        let Some(raw) = self.commit.as_mut().and_then(|commit| commit.inplace.raws.get_mut(index)) else {
            return;
        };
        let run = std::mem::take(&mut raw.runs[run]);
        raw.outstanding -= 1;
        let is_last = raw.outstanding == 0;
        let counts = &mut self.counts[slot.0 as usize];
        if matches!(result, IoResult::Checksums(sums) if sums.len() == run.len()) {
            counts.blocks_read += run.len() as u64;
            raw.have.extend(run);
        } else {
            counts.media_errors += u64::from(*result == IoResult::MediaError);
            let column = self.geometry.column(raw.mapping.physical, slot);
            code.column_cells(column).for_each(|cell| raw.lost.insert(cell));
            run.into_iter().for_each(|(_, buffer)| self.release(buffer));
        }
        if is_last {
            self.advance_raw(index);
        }
    }

    /// Everything that is needed is there: computes what is lost.
    fn combine_raw(&mut self, index: usize) {
        let Some(raw) = self.commit.as_ref().map(|commit| &commit.inplace.raws[index]) else { return };
        let Some(plan) = raw.plan.clone() else {
            self.end_raw(index, BTreeMap::new());
            return;
        };
        let have = raw.have.clone();
        let mut made: BTreeMap<Place, BufferId> = BTreeMap::new();
        let mut sums = Vec::new();
        for offset in 0..self.geometry.element_blocks() {
            for step in &plan.steps {
                let into = self.new_buffer();
                let of =
                    |cell: CellIndex| *made.get(&(cell, offset)).unwrap_or_else(|| &have[&(cell, offset)]);
                let terms = step.terms.iter().map(|&(cell, c)| (Operand::Buffer(of(cell)), c)).collect();
                sums.push(Sum { into, terms });
                made.insert((step.target, offset), into);
            }
        }
        let job = self.new_job(JobOwner::Raw { raw: index, made });
        self.act(Action::Compute { job, work: Compute { sums, ..Compute::default() } });
    }

    /// The data of a stripe is there, of whatever time.
    pub(crate) fn end_raw(&mut self, index: usize, made: BTreeMap<Place, BufferId>) {
        let Some(mut commit) = self.commit.take() else { return };
        let raw = &mut commit.inplace.raws[index];
        let mut blocks = std::mem::take(&mut raw.have);
        for (place, buffer) in made {
            if let Some(old) = blocks.insert(place, buffer) {
                self.release(old);
            }
        }
        let content = &mut commit.stripes[raw.stripe].content;
        for (place, content) in (0..).zip(content) {
            *content = blocks.remove(&self.geometry.cell_of(place)).map(Operand::Buffer);
        }
        blocks.into_values().for_each(|buffer| self.release(buffer));
        self.commit = Some(commit);
        self.phase_part_done();
    }
}

impl Update {
    /// The blocks whose old content is read.
    pub(crate) fn old_places(&self) -> Vec<Place> {
        self.plans
            .iter()
            .flat_map(|(offset, plan)| plan.old.reads.iter().map(|&cell| (cell, *offset)))
            .collect()
    }

    /// The blocks that are written: new data and the parity that it changes.
    pub(crate) fn written_places(&self) -> BTreeSet<Place> {
        self.plans.iter().flat_map(|(offset, plan)| plan.writes.iter().map(|&cell| (cell, *offset))).collect()
    }

    pub(crate) fn content(&self, place: Place) -> Operand {
        let made = self.made.get(&place).map(|&buffer| Operand::Buffer(buffer));
        made.unwrap_or_else(|| self.new[&place])
    }
}

/// Marks set or taken away, as few changes as there are runs.
fn marks_of(stripes: &BTreeSet<u32>, is_marked: bool) -> impl Iterator<Item = Change> + use<> {
    runs_of(stripes).into_iter().map(move |(first, count)| Change::Mark { first, count, is_marked })
}
