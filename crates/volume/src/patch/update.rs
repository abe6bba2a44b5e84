//! Partial updates of stripes: the cheapest plan, the old contents that it reads, new parity, and
//! the checksums of the chunks that change.

use crate::engine::{Engine, IoOwner, JobOwner};
use crate::maps::Mapping;
use crate::span::Place;
use crate::{Action, BufferId, Compute, Computed, IoResult, Operand, Seed, Slot, Sum, Urgency};
use pantile_code::CellIndex;
use pantile_plan::{CellSet, Content, Costs, UpdatePlan};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const PLANS_MOST: usize = 1024;

/// The part of a commit that patches stripes.
#[derive(Debug, Default)]
pub(crate) struct Updates {
    pub(crate) stripes: Vec<Update>,
    /// A device has been lost since the commit began.
    pub(crate) has_lost: bool,
    asked_headers: bool,
}

/// A stripe that is patched.
#[derive(Debug)]
pub(crate) struct Update {
    pub(crate) logical: u32,
    pub(crate) mapping: Mapping,
    pub(crate) new: BTreeMap<Place, Operand>,
    /// The plan for each offset in the element.
    plans: Vec<(u32, Arc<UpdatePlan>)>,
    old: BTreeMap<Place, Operand>,
    pub(crate) made: BTreeMap<Place, BufferId>,
    /// The blocks that are written, in the order of the checksums that are computed.
    pub(crate) places: Vec<Place>,
    /// The new checksums of the chunks that are written to, by device.
    pub(crate) sums: BTreeMap<Slot, Vec<u64>>,
    /// Content or a header cannot be read: the commit is undone, and the stripe will be merged.
    pub(crate) is_hopeless: bool,
}

impl Updates {
    pub(crate) fn new(stripes: Vec<Update>) -> Updates {
        Updates { stripes, ..Updates::default() }
    }
}

impl Engine {
    /// Plans an update of some blocks of a stripe.
    pub(super) fn plan_update(
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
        }
    }

    /// Returns the cheapest plan that writes cells of one offset, computed once for each pattern.
    fn update_plan(&mut self, cells: Vec<CellIndex>) -> Arc<UpdatePlan> {
        if let Some(known) = self.patching.plans.get(&cells) {
            return known.clone();
        }
        let nothing = CellSet::empty(&self.geometry.code);
        let Ok(plan) = self.planners.stripe.update(&cells, &nothing, &Costs::uniform()) else {
            unreachable!("nothing is lost")
        };
        if self.patching.plans.len() >= PLANS_MOST {
            self.patching.plans.clear();
        }
        let plan = Arc::new(plan);
        self.patching.plans.insert(cells, plan.clone());
        plan
    }

    /// Takes old content of a stripe that is patched; `None` if it cannot be read.
    pub(crate) fn update_read(&mut self, index: usize, place: Place, content: Option<Operand>) {
        let Some(update) = self.update(index) else { return };
        match content {
            Some(content) => _ = update.old.insert(place, content),
            None => update.is_hopeless = true,
        }
        self.phase_part_done();
    }

    /// Takes new content, as the log has it; `None` if it cannot be read.
    pub(crate) fn patch_read(&mut self, index: usize, place: Place, content: Option<Operand>) {
        let Some(update) = self.update(index) else { return };
        match content {
            Some(content) => _ = update.new.insert(place, content),
            None => update.is_hopeless = true,
        }
        self.phase_part_done();
    }

    fn update(&mut self, index: usize) -> Option<&mut Update> {
        self.commit.as_mut()?.patch.as_mut()?.stripes.get_mut(index)
    }

    /// Asks for the headers of the chunks that change once all contents are there; `true`: nothing
    /// is missing.
    pub(crate) fn patch_gathered(&mut self) -> bool {
        let Some(mut commit) = self.commit.take() else { return false };
        let Some(patch) = &mut commit.patch else {
            self.commit = Some(commit);
            return true;
        };
        let asked = std::mem::replace(&mut patch.asked_headers, true);
        if patch.has_lost || patch.stripes.iter().any(|update| update.is_hopeless) {
            self.commit = Some(commit);
            self.undo_commit();
            return false;
        }
        if asked {
            self.commit = Some(commit);
            return true;
        }
        let mut headers = Vec::new();
        for (index, update) in patch.stripes.iter_mut().enumerate() {
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
            let io = self.io.new_io(slot, IoOwner::UpdateHeader { update, slot });
            let blocks = self.geometry.header_blocks(slot);
            self.io.act(Action::ReadBytes { io, slot, at, blocks, urgency: Urgency::User });
        }
        self.phase_part_done();
        false
    }

    pub(crate) fn update_header_read(&mut self, index: usize, slot: Slot, result: &IoResult) {
        let Some(update) = self.update(index) else { return };
        let (logical, mapping) = (update.logical, update.mapping);
        let sums = match result {
            IoResult::Bytes(bytes) => self.chunk_sums(bytes, logical, mapping, slot),
            _ => None,
        };
        self.count_header(slot, result, sums.is_some());
        let Some(update) = self.update(index) else { return };
        match sums {
            Some(known) => _ = update.sums.insert(slot, known.sums),
            None => update.is_hopeless = true,
        }
        self.phase_part_done();
    }

    /// Returns the slot of a block of a stripe, and the index of the block in its chunk.
    pub(super) fn place_in_chunk(&self, mapping: Mapping, (cell, offset): Place) -> (Slot, usize) {
        let (slot, _) = self.geometry.cell_block(mapping.physical, cell, offset);
        let row = self.geometry.code.cell(cell).row;
        (slot, row * self.geometry.element_blocks() as usize + offset as usize)
    }

    /// Returns the slots of the chunks that change.
    pub(super) fn chunks_written(&self, update: &Update) -> BTreeSet<Slot> {
        let places = update.written_places();
        places.iter().map(|&place| self.place_in_chunk(update.mapping, place).0).collect()
    }

    /// Returns the computations of new parity and checksums.
    pub(crate) fn compute_updates(&mut self, patch: &mut Updates) -> Vec<(JobOwner, Compute)> {
        let mut jobs = Vec::new();
        for (index, update) in patch.stripes.iter_mut().enumerate() {
            let mut sums = Vec::new();
            for (offset, plan) in update.plans.clone() {
                // Computes the old contents that are cheaper to compute than to read.
                for step in &plan.old.steps {
                    let into = self.io.new_buffer();
                    let terms =
                        step.terms.iter().map(|&(cell, factor)| (update.old[&(cell, offset)], factor));
                    sums.push(Sum { into, terms: terms.collect() });
                    update.old.insert((step.target, offset), Operand::Buffer(into));
                }
                for (target, terms) in &plan.steps {
                    let into = self.io.new_buffer();
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
        if let Some(update) = commit.patch.as_mut().and_then(|patch| patch.stripes.get_mut(index)) {
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

    pub(super) fn release_update(&mut self, update: Update) {
        for content in update.old.into_values().chain(update.new.into_values()) {
            self.io.release_operand(content);
        }
        update.made.into_values().for_each(|buffer| self.io.release(buffer));
    }
}

impl Update {
    /// Returns the blocks whose old content is read.
    pub(crate) fn old_places(&self) -> Vec<Place> {
        self.plans
            .iter()
            .flat_map(|(offset, plan)| plan.old.reads.iter().map(|&cell| (cell, *offset)))
            .collect()
    }

    /// Returns the blocks that are written: new data and the parity that it changes.
    pub(crate) fn written_places(&self) -> BTreeSet<Place> {
        self.plans.iter().flat_map(|(offset, plan)| plan.writes.iter().map(|&cell| (cell, *offset))).collect()
    }

    /// Returns the new content of a block.
    pub(crate) fn content(&self, place: Place) -> Operand {
        let made = self.made.get(&place).map(|&buffer| Operand::Buffer(buffer));
        made.unwrap_or_else(|| self.new[&place])
    }
}
