//! Reading many blocks of one stripe together: few inputs, one plan.
//!
//! A span reads runs of consecutive blocks and, at the same time, the headers that have their checksums. Cells on devices that are
//! lost are computed by the cheapest plan for just these cells. When all is well everything is delivered; when any block is
//! not what it should be, the stripe is noted as suspect and every block that is wanted is fetched for itself
//! ([`crate::fetch`]), with its own set of losses.

use crate::engine::{Engine, IoOwner, JobOwner};
use crate::fetch::{ChunkSums, Requester};
use crate::maps::Mapping;
use crate::{
    Action, BufferId, Bug, Compute, Computed, DeviceBlock, IoResult, Operand, Seed, Slot, Sum, Urgency,
    UserBlock,
};
use pantile_code::CellIndex;
use pantile_plan::{CellSet, Plan};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Names a span within the engine.
pub(crate) type SpanId = u64;

/// One block of a stripe: its cell, and which block of the cell.
pub(crate) type Place = (CellIndex, u32);

/// A block that somebody wants. `block` is only a name for answers about blocks that cannot be had.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) place: Place,
    pub(crate) block: UserBlock,
    pub(crate) requester: Requester,
}

#[derive(Clone, Debug)]
enum Purpose {
    Deliver(Vec<Target>),
    /// Every block of every device that should have its part is read; what is bad is told to the scrub, nothing is delivered.
    Check,
}

/// Blocks of one stripe that are read together.
#[derive(Debug)]
pub(crate) struct Span {
    logical: u32,
    mapping: Mapping,
    purpose: Purpose,
    /// For the cells that are computed: the plan, and the blocks of each cell.
    plan: Option<(Arc<Plan>, std::ops::Range<u32>)>,
    runs: Vec<Vec<(Place, BufferId)>>,
    /// What has been read and its checksum as found.
    found: BTreeMap<Place, (BufferId, u64)>,
    made: BTreeMap<Place, BufferId>,
    outstanding: usize,
    /// Devices of which a block or header could not be read or is not what it should be.
    bad: BTreeSet<Slot>,
}

impl Engine {
    /// Begins to read user blocks of one mapped stripe, none of them in the log.
    pub(crate) fn read_together(&mut self, logical: u32, wanted: Vec<(UserBlock, Requester)>) {
        let target = |(block, requester)| {
            let (_, place) = self.geometry.locate(block);
            Target { place: self.geometry.cell_of(place), block, requester }
        };
        let targets = wanted.into_iter().map(target).collect();
        self.read_targets(logical, targets, Urgency::User);
    }

    /// Begins to read blocks of one mapped stripe.
    pub(crate) fn read_targets(&mut self, logical: u32, targets: Vec<Target>, urgency: Urgency) {
        let Some(mapping) = self.maps.stripes[logical as usize] else {
            unreachable!("unmapped blocks are zeros and are not read")
        };
        let lost = self.lost_cells(logical, mapping);
        let missing = targets.iter().filter(|t| lost.contains(t.place.0));
        let wanted: BTreeSet<CellIndex> = missing.clone().map(|t| t.place.0).collect();
        let first = missing.clone().map(|t| t.place.1).min().unwrap_or(0);
        let end = missing.map(|t| t.place.1 + 1).max().unwrap_or(0);
        let mut needed: BTreeSet<Place> =
            targets.iter().map(|t| t.place).filter(|(cell, _)| !lost.contains(*cell)).collect();
        let mut plan = None;
        if !wanted.is_empty() {
            let Some(cheapest) = self.planners.recover_in_stripe(&lost, &wanted) else {
                self.read_one_by_one(logical, mapping, targets);
                return;
            };
            needed.extend(cheapest.reads.iter().flat_map(|&cell| (first..end).map(move |o| (cell, o))));
            plan = Some((cheapest, first..end));
        }
        self.start_span(logical, mapping, Purpose::Deliver(targets), plan, &needed, urgency);
    }

    /// Begins to read all of a mapped stripe that should be there.
    pub(crate) fn check_stripe(&mut self, logical: u32, mapping: Mapping) {
        let lost = self.lost_cells(logical, mapping);
        let cells = self.geometry.code.cells().filter(|&cell| !lost.contains(cell));
        let elements = self.geometry.element_blocks();
        let needed = cells.flat_map(|cell| (0..elements).map(move |offset| (cell, offset))).collect();
        self.start_span(logical, mapping, Purpose::Check, None, &needed, Urgency::Background);
    }

    /// The cells of a stripe that lie on devices without it.
    pub(crate) fn lost_cells(&self, logical: u32, mapping: Mapping) -> CellSet {
        let code = &self.geometry.code;
        let mut lost = CellSet::empty(code);
        for slot in (0..self.geometry.slots() as u32).map(Slot) {
            if !self.maps.has(slot, mapping.generation, Some(logical)) {
                let column = self.geometry.column(mapping.physical, slot);
                code.column_cells(column).for_each(|cell| lost.insert(cell));
            }
        }
        lost
    }

    fn start_span(
        &mut self,
        logical: u32,
        mapping: Mapping,
        purpose: Purpose,
        plan: Option<(Arc<Plan>, std::ops::Range<u32>)>,
        needed: &BTreeSet<Place>,
        urgency: Urgency,
    ) {
        let id = self.next_id();
        *self.pins.entry(mapping.physical).or_default() += 1;
        // By device and address, so that what is consecutive is read at once.
        let mut order: BTreeMap<(Slot, DeviceBlock), Place> = BTreeMap::new();
        for &(cell, offset) in needed {
            order.insert(self.geometry.cell_block(mapping.physical, cell, offset), (cell, offset));
        }
        let mut runs: Vec<(Slot, DeviceBlock, Vec<Place>)> = Vec::new();
        for ((slot, at), place) in order {
            match runs.last_mut() {
                Some((s, first, places)) if *s == slot && first.0 + places.len() as u64 == at.0 => {
                    places.push(place)
                }
                _ => runs.push((slot, at, vec![place])),
            }
        }
        let slots: BTreeSet<Slot> = runs.iter().map(|(slot, ..)| *slot).collect();
        // A check reads the headers from the devices, whatever memory says.
        let fresh = matches!(purpose, Purpose::Check);
        let unknown: Vec<Slot> =
            slots.into_iter().filter(|&slot| fresh || self.known_sums(mapping, slot).is_none()).collect();
        let mut span = Span {
            logical,
            mapping,
            purpose,
            plan,
            runs: Vec::new(),
            found: BTreeMap::new(),
            made: BTreeMap::new(),
            outstanding: runs.len() + unknown.len() + 1,
            bad: BTreeSet::new(),
        };
        for slot in unknown {
            let io = self.new_io(slot, IoOwner::SpanHeader { span: id, slot });
            let at = self.geometry.chunk_start(mapping.physical, slot);
            let blocks = self.geometry.header_blocks(slot);
            self.act(Action::ReadBytes { io, slot, at, blocks, urgency });
        }
        for (number, (slot, at, places)) in runs.into_iter().enumerate() {
            let run: Vec<(Place, BufferId)> =
                places.into_iter().map(|place| (place, self.new_buffer())).collect();
            let into = run.iter().map(|&(_, buffer)| buffer).collect();
            let io = self.new_io(slot, IoOwner::SpanRun { span: id, run: number });
            self.act(Action::Read { io, slot, at, into, generation: mapping.generation, urgency });
            span.runs.push(run);
        }
        self.spans.insert(id, span);
        self.span_part_done(id);
    }

    /// The checksums of a chunk, if memory has them.
    pub(crate) fn known_sums(&self, mapping: Mapping, slot: Slot) -> Option<&ChunkSums> {
        self.sums.get(&(mapping.physical, slot)).filter(|sums| sums.generation == mapping.generation)
    }

    pub(crate) fn span_header_read(&mut self, id: SpanId, slot: Slot, result: &IoResult) {
        let Some(span) = self.spans.get(&id) else { return };
        let (logical, mapping) = (span.logical, span.mapping);
        let sums = match result {
            IoResult::Bytes(bytes) => self.chunk_sums(bytes, logical, mapping, slot),
            _ => None,
        };
        self.count_header(slot, result, sums.is_some());
        match sums {
            Some(sums) => self.keep_sums(mapping.physical, slot, sums),
            None => {
                // What memory may have of it is not on the device.
                self.sums.remove(&(mapping.physical, slot));
                if let Some(span) = self.spans.get_mut(&id) {
                    span.bad.insert(slot);
                }
            }
        }
        self.span_part_done(id);
    }

    pub(crate) fn run_read(&mut self, id: SpanId, number: usize, slot: Slot, result: &IoResult) {
        let Some(span) = self.spans.get_mut(&id) else { return };
        let run = std::mem::take(&mut span.runs[number]);
        match result {
            IoResult::Checksums(sums) if sums.len() == run.len() => {
                span.found
                    .extend(run.iter().zip(sums).map(|(&(place, buffer), &sum)| (place, (buffer, sum))));
                self.counts[slot.0 as usize].blocks_read += run.len() as u64;
            }
            _ => {
                span.bad.insert(slot);
                self.counts[slot.0 as usize].media_errors += u64::from(*result == IoResult::MediaError);
                run.into_iter().for_each(|(_, buffer)| self.release(buffer));
            }
        }
        self.span_part_done(id);
    }

    fn span_part_done(&mut self, id: SpanId) {
        let Some(span) = self.spans.get_mut(&id) else { return };
        span.outstanding -= 1;
        if span.outstanding > 0 {
            return;
        }
        let (mapping, places) =
            (span.mapping, span.found.iter().map(|(&p, &(_, sum))| (p, sum)).collect::<Vec<_>>());
        let mut wrong: BTreeMap<Slot, u64> = BTreeMap::new();
        for (place, sum) in places {
            let (slot, _) = self.geometry.cell_block(mapping.physical, place.0, place.1);
            if self.expected_in_stripe(mapping, place) != Some(sum) && !self.planted.is(Bug::DropsChecksum) {
                *wrong.entry(slot).or_default() += 1;
            }
        }
        let Some(span) = self.spans.get_mut(&id) else { return };
        for (&slot, &count) in &wrong {
            if !span.bad.contains(&slot) {
                self.counts[slot.0 as usize].checksum_errors += count;
            }
        }
        span.bad.extend(wrong.into_keys());
        if matches!(span.purpose, Purpose::Check) {
            self.end_check(id);
        } else if span.bad.is_empty() {
            self.compute_span(id);
        } else {
            self.end_span_one_by_one(id);
        }
    }

    /// The checksum that a block of a stripe must have, if memory has its header.
    pub(crate) fn expected_in_stripe(&self, mapping: Mapping, (cell, offset): Place) -> Option<u64> {
        let (slot, _) = self.geometry.cell_block(mapping.physical, cell, offset);
        let row = self.geometry.code.cell(cell).row as u32;
        let index = (row * self.geometry.element_blocks() + offset) as usize;
        self.known_sums(mapping, slot)?.sums.get(index).copied()
    }

    fn compute_span(&mut self, id: SpanId) {
        let Some(span) = self.spans.get(&id) else { return };
        let Some((plan, offsets)) = span.plan.clone() else {
            self.end_span(id);
            return;
        };
        let mapping = span.mapping;
        let found: BTreeMap<Place, BufferId> =
            span.found.iter().map(|(&place, &(b, _))| (place, b)).collect();
        let mut made: BTreeMap<Place, BufferId> = BTreeMap::new();
        let mut sums = Vec::new();
        let mut checksums = Vec::new();
        for offset in offsets {
            for step in &plan.steps {
                let into = self.new_buffer();
                let buffer = |cell: CellIndex| {
                    let place = (cell, offset);
                    *made.get(&place).or_else(|| found.get(&place)).expect("a step uses what is read or made")
                };
                let terms = step.terms.iter().map(|&(cell, c)| (Operand::Buffer(buffer(cell)), c)).collect();
                sums.push(Sum { into, terms });
                let place = (step.target, offset);
                made.insert(place, into);
                if self.expected_in_stripe(mapping, place).is_some() {
                    let (slot, address) = self.geometry.cell_block(mapping.physical, step.target, offset);
                    let seed = Seed { slot, address, generation: mapping.generation };
                    checksums.push((Operand::Buffer(into), seed));
                }
            }
        }
        if let Some(span) = self.spans.get_mut(&id) {
            span.made = made;
        }
        let job = self.new_job(JobOwner::Span(id));
        self.act(Action::Compute { job, work: Compute { sums, checksums } });
    }

    /// What a lost device held has been computed. Where memory still knows what it must be, it is held against that.
    pub(crate) fn span_computed(&mut self, id: SpanId, computed: &Computed) {
        let Some(span) = self.spans.get(&id) else { return };
        let Computed::Checksums(sums) = computed;
        let Some((plan, offsets)) = &span.plan else { return };
        let places =
            offsets.clone().flat_map(|offset| plan.steps.iter().map(move |step| (step.target, offset)));
        let expected = places.filter_map(|place| self.expected_in_stripe(span.mapping, place));
        if expected.eq(sums.iter().copied()) {
            self.end_span(id);
        } else {
            self.end_span_one_by_one(id);
        }
    }

    /// Everything is there: delivers it.
    fn end_span(&mut self, id: SpanId) {
        let Some(span) = self.spans.remove(&id) else { return };
        if let Purpose::Deliver(targets) = &span.purpose {
            for target in targets {
                let found = span.found.get(&target.place).map(|&(buffer, _)| buffer);
                let buffer = found.or_else(|| span.made.get(&target.place).copied());
                self.deliver(target.requester, target.block, buffer.map(Operand::Buffer));
            }
        }
        self.let_go(span);
    }

    fn end_span_one_by_one(&mut self, id: SpanId) {
        let Some(mut span) = self.spans.remove(&id) else { return };
        let (logical, mapping) = (span.logical, span.mapping);
        // A device that is lost by now is no reason to write the stripe anew.
        if span.bad.iter().any(|&slot| self.maps.has(slot, mapping.generation, Some(logical))) {
            self.suspect_stripe(logical, mapping);
        }
        if let Purpose::Deliver(targets) = std::mem::replace(&mut span.purpose, Purpose::Check) {
            self.read_one_by_one(logical, mapping, targets);
        }
        self.let_go(span);
    }

    fn read_one_by_one(&mut self, logical: u32, mapping: Mapping, targets: Vec<Target>) {
        for Target { place: (cell, offset), block, requester } in targets {
            self.fetch_cell(block, requester, logical, mapping, cell, offset);
        }
    }

    /// The check of a stripe is done: tells what is bad, and what else there is to look at.
    fn end_check(&mut self, id: SpanId) {
        let Some(span) = self.spans.remove(&id) else { return };
        let found = span.found.iter().map(|(&place, &(buffer, _))| (place, buffer)).collect();
        self.stripe_checked(span.logical, span.mapping, &span.bad, found);
        self.let_go(span);
    }

    fn let_go(&mut self, span: Span) {
        span.found.into_values().for_each(|(buffer, _)| self.release(buffer));
        span.made.into_values().for_each(|buffer| self.release(buffer));
        self.unpin(span.mapping.physical);
    }
}
