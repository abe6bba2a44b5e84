//! Reads many blocks of one stripe together, with few inputs and one plan.
//!
//! A span reads runs of consecutive blocks and, at the same time, the headers with their checksums.
//! Cells on lost devices are computed by the cheapest plan for these cells together. If all blocks
//! are good, everything is delivered. Otherwise the stripe becomes suspect and every wanted block
//! is fetched alone ([`crate::fetch`]), with a plan for its own losses.

use crate::engine::{Engine, IoOwner, JobOwner};
use crate::fetch::{ChunkSums, Requester};
use crate::maps::Mapping;
use crate::{
    Action, BufferId, Compute, Computed, DeviceBlock, IoResult, Operand, Seed, Slot, Sum, Urgency, UserBlock,
};
use pantile_code::CellIndex;
use pantile_format::volume::NOT_STORED;
use pantile_gf::Gf;
use pantile_plan::{CellSet, Plan};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// Names a span within the engine.
pub(crate) type SpanId = u64;

/// One block of a stripe: its cell, and its offset in the cell.
pub(crate) type Place = (CellIndex, u32);

/// A wanted block. `block` only names it in answers about lost blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) place: Place,
    pub(crate) block: UserBlock,
    pub(crate) requester: Requester,
}

#[derive(Clone, Debug)]
enum Purpose {
    Deliver(Vec<Target>),
    /// Reads every block of every device that should have its chunk. The scrub gets the bad
    /// devices; nothing is delivered.
    Check,
}

/// Consecutive blocks of one column, adjacent on its device.
#[derive(Debug)]
struct Run {
    slot: Slot,
    /// The index of the first block in the stripe, whose cells are numbered column by column.
    first: u32,
    /// The index of the first block in its column.
    in_column: u32,
    /// The buffers; empty if the blocks could not be read.
    buffers: Vec<BufferId>,
    /// The checksums of the blocks that were read.
    sums: Vec<u64>,
}

/// Cells of lost devices that are computed.
#[derive(Clone, Debug)]
struct Making {
    plan: Arc<Plan>,
    /// The range of blocks that is computed of each cell.
    offsets: Range<u32>,
    /// The computed blocks: for each step of the plan, one per offset.
    made: Vec<Vec<BufferId>>,
}

/// Blocks of one stripe that are read together.
#[derive(Debug)]
pub(crate) struct Span {
    logical: u32,
    mapping: Mapping,
    purpose: Purpose,
    making: Option<Making>,
    urgency: Urgency,
    /// Devices whose headers are being read.
    unknown: Vec<Slot>,
    /// The number of blocks of all runs, including those that could not be read.
    read_blocks: usize,
    /// The runs in the order of the stripe.
    runs: Vec<Run>,
    outstanding: usize,
    /// Devices with a block or header that could not be read or is wrong; true if any of that could
    /// be read.
    bad: BTreeMap<Slot, bool>,
}

impl Span {
    /// Returns the number of blocks that the span reads and computes.
    pub(crate) fn blocks(&self) -> usize {
        let made = self.making.iter().map(|making| making.plan.steps.len() * making.offsets.len());
        self.read_blocks + made.sum::<usize>()
    }

    pub(crate) fn urgency(&self) -> Urgency {
        self.urgency
    }

    /// Returns adjacent blocks that were read, from an index on that is counted like
    /// [`Run::first`].
    fn read_from(&self, number: u32) -> &[BufferId] {
        let behind = self.runs.partition_point(|run| run.first <= number);
        let Some(run) = behind.checked_sub(1).map(|run| &self.runs[run]) else { return &[] };
        run.buffers.get((number - run.first) as usize..).unwrap_or(&[])
    }

    fn made(&self, (cell, offset): Place) -> Option<BufferId> {
        let Making { plan, offsets, made } = self.making.as_ref()?;
        let step = plan.steps.iter().position(|step| step.target == cell)?;
        let index = offset.checked_sub(offsets.start)?;
        made.get(step)?.get(index as usize).copied()
    }
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
    pub(crate) fn read_targets(&mut self, logical: u32, mut targets: Vec<Target>, urgency: Urgency) {
        let Some(mapping) = self.maps.mapping(logical) else {
            unreachable!("unmapped blocks are zeros and are not read")
        };
        let gone = self.lost_cells(logical, mapping);
        // Checks and repairs read every device in its place, however slow.
        let are_users = targets.iter().all(|t| matches!(t.requester, Requester::User(..)));
        if are_users {
            for Target { place: (cell, _), .. } in &mut targets {
                *cell = self.cell_to_read(logical, mapping, *cell);
            }
        }
        let lost = match are_users {
            true => self.avoided_cells(mapping, gone, &targets.iter().map(|t| t.place.0).collect()),
            false => gone,
        };
        let missing = targets.iter().filter(|t| lost.contains(t.place.0));
        let wanted: BTreeSet<CellIndex> = missing.clone().map(|t| t.place.0).collect();
        let first = missing.clone().map(|t| t.place.1).min().unwrap_or(0);
        let end = missing.map(|t| t.place.1 + 1).max().unwrap_or(0);
        let mut needed: Vec<Place> =
            targets.iter().map(|t| t.place).filter(|(cell, _)| !lost.contains(*cell)).collect();
        let mut making = None;
        if !wanted.is_empty() {
            let Some(cheapest) = self.planners.recover_in_stripe(&lost, &wanted) else {
                self.read_one_by_one(logical, mapping, targets);
                return;
            };
            needed.extend(cheapest.reads.iter().flat_map(|&cell| (first..end).map(move |o| (cell, o))));
            making = Some(Making { plan: cheapest, offsets: first..end, made: Vec::new() });
        }
        needed.sort_unstable();
        needed.dedup();
        self.start_span(logical, mapping, Purpose::Deliver(targets), making, &needed, urgency);
    }

    /// Begins to read everything of a mapped stripe that devices should have; with `only`, of that
    /// device alone.
    pub(crate) fn check_stripe(&mut self, logical: u32, mapping: Mapping, only: Option<Slot>) {
        // The header of a chunk that is rebuilt in part is not yet the one to check.
        let is_meant = |&slot: &Slot| {
            let is_whole = self.maps.has(slot, mapping.generation, Some(logical));
            is_whole && only.is_none_or(|only| only == slot)
        };
        let slots = (0..self.geometry.slots() as u32).map(Slot).filter(is_meant);
        let columns: Vec<usize> = slots.map(|slot| self.geometry.column(mapping.physical, slot)).collect();
        let checked = CellSet::of_columns(&self.geometry.code, &columns);
        let cells = checked.iter();
        let elements = self.geometry.element_blocks();
        let needed: Vec<Place> =
            cells.flat_map(|cell| (0..elements).map(move |offset| (cell, offset))).collect();
        self.start_span(logical, mapping, Purpose::Check, None, &needed, Urgency::Background);
    }

    /// Begins to read or compute all of a mapped stripe, including the cells of lost devices.
    pub(crate) fn verify_together(&mut self, logical: u32, mapping: Mapping) {
        if self.maps.mapping(logical) != Some(mapping) {
            return;
        }
        let block = UserBlock(u64::from(logical) * self.geometry.stripe_blocks());
        let elements = self.geometry.element_blocks();
        let places = self.geometry.code.cells().flat_map(|cell| (0..elements).map(move |o| (cell, o)));
        let targets = places.map(|place| Target { place, block, requester: Requester::Verify }).collect();
        self.read_targets(logical, targets, Urgency::User);
    }

    /// Returns the cells of a stripe that their devices do not have.
    pub(crate) fn lost_cells(&self, logical: u32, mapping: Mapping) -> CellSet {
        let code = &self.geometry.code;
        let mut lost = CellSet::empty(code);
        for slot in (0..self.geometry.slots() as u32).map(Slot) {
            if !self.maps.has(slot, mapping.generation, Some(logical)) {
                let column = self.geometry.column(mapping.physical, slot);
                let rows = (0..).zip(code.column_cells(column));
                let lacks = |&(row, _): &(usize, CellIndex)| {
                    !self.maps.has_row(slot, mapping.generation, logical, row)
                };
                rows.filter(lacks).for_each(|(_, cell)| lost.insert(cell));
            }
        }
        lost
    }

    /// Begins a span. `needed`: the places to read, ascending and without duplicates.
    fn start_span(
        &mut self,
        logical: u32,
        mapping: Mapping,
        purpose: Purpose,
        making: Option<Making>,
        needed: &[Place],
        urgency: Urgency,
    ) {
        let id = self.io.next_id();
        self.pins.pin(mapping.physical);
        let runs = self.runs_of(mapping, needed);
        // A check reads all headers from the devices, even if they are in memory.
        let fresh = matches!(purpose, Purpose::Check);
        let mut unknown: Vec<Slot> = runs.iter().map(|run| run.slot).collect();
        unknown.sort_unstable();
        unknown.dedup();
        unknown.retain(|&slot| fresh || self.known_sums(mapping, slot).is_none());
        let outstanding = runs.len() + unknown.len() + 1;
        let read_blocks = needed.len();
        let span = Span {
            logical,
            mapping,
            purpose,
            making,
            urgency,
            unknown,
            read_blocks,
            runs,
            outstanding,
            bad: BTreeMap::new(),
        };
        if self.reads.add_span(id, span) {
            self.begin_span(id);
        }
    }

    pub(crate) fn begin_span(&mut self, id: SpanId) {
        let Some(Span { mapping, urgency, unknown, runs, .. }) = self.reads.span_mut(id) else { return };
        let (mapping, urgency, unknown) = (*mapping, *urgency, std::mem::take(unknown));
        let reads: Vec<(Slot, u32, Vec<BufferId>)> =
            runs.iter().map(|run| (run.slot, run.in_column, run.buffers.clone())).collect();
        for &slot in &unknown {
            let io = self.io.new_io(slot, IoOwner::SpanHeader { span: id, slot });
            let at = self.geometry.chunk_start(mapping.physical, slot);
            let blocks = self.geometry.header_blocks(slot);
            self.io.act(Action::ReadBytes { io, slot, at, blocks, urgency });
        }
        for (number, (slot, in_column, into)) in reads.into_iter().enumerate() {
            let start = self.geometry.chunk_start(mapping.physical, slot).0;
            let at = DeviceBlock(start + u64::from(self.geometry.header_blocks(slot) + in_column));
            let io = self.io.new_io(slot, IoOwner::SpanRun { span: id, run: number });
            let generation = mapping.generation;
            self.io.act(Action::Read { io, slot, at, into, generation, urgency });
        }
        self.span_part_done(id);
    }

    /// Splits blocks of a stripe into runs of adjacent ones, with buffers.
    fn runs_of(&mut self, mapping: Mapping, needed: &[Place]) -> Vec<Run> {
        let elements = self.geometry.element_blocks();
        let mut runs: Vec<Run> = Vec::new();
        let mut behind_column = 0;
        for &(cell, offset) in needed {
            let number = cell.0 * elements + offset;
            let buffer = self.io.new_buffer();
            match runs.last_mut() {
                Some(run) if number < behind_column && run.first + run.buffers.len() as u32 == number => {
                    run.buffers.push(buffer);
                }
                _ => {
                    let column = self.geometry.code.cell(cell).column;
                    let slot = self.geometry.slot(mapping.physical, column);
                    let rows = self.geometry.code.column_cells(column).len() as u32;
                    let in_column = self.geometry.index_in_column(cell, offset) as u32;
                    behind_column = number - in_column + rows * elements;
                    let buffers = vec![buffer];
                    runs.push(Run { slot, first: number, in_column, buffers, sums: Vec::new() });
                }
            }
        }
        runs
    }

    /// Returns the checksums of a chunk, if they are in memory.
    pub(crate) fn known_sums(&self, mapping: Mapping, slot: Slot) -> Option<&ChunkSums> {
        self.headers.sums(mapping.physical, slot, mapping.generation)
    }

    pub(crate) fn span_header_read(&mut self, id: SpanId, slot: Slot, result: &IoResult) {
        let Some(span) = self.reads.span(id) else { return };
        let (logical, mapping) = (span.logical, span.mapping);
        let sums = match result {
            IoResult::Bytes(bytes) => self.chunk_sums(bytes, logical, mapping, slot),
            _ => None,
        };
        self.count_header(slot, result, sums.is_some());
        match sums {
            Some(sums) => self.headers.keep(mapping.physical, slot, sums, &self.pins),
            None => {
                // The header in memory differs from the one on the device.
                self.headers.forget(mapping.physical, slot);
                self.chunk_is_bad(slot, logical, mapping, result);
                if let Some(span) = self.reads.span_mut(id) {
                    *span.bad.entry(slot).or_default() |= matches!(result, IoResult::Bytes(_));
                }
            }
        }
        self.span_part_done(id);
    }

    pub(crate) fn run_read(&mut self, id: SpanId, number: usize, slot: Slot, result: &IoResult) {
        let Some(span) = self.reads.span_mut(id) else { return };
        let run = &mut span.runs[number];
        match result {
            IoResult::Checksums(sums) if sums.len() == run.buffers.len() => {
                run.sums.clone_from(sums);
                self.noting.count_read(slot, sums.len() as u64);
            }
            _ => {
                let buffers = std::mem::take(&mut run.buffers);
                *span.bad.entry(slot).or_default() |= matches!(result, IoResult::Checksums(_));
                let (logical, mapping) = (span.logical, span.mapping);
                self.noting.count_unreadable(slot, *result == IoResult::MediaError);
                buffers.into_iter().for_each(|buffer| self.io.release(buffer));
                self.chunk_is_bad(slot, logical, mapping, result);
            }
        }
        self.span_part_done(id);
    }

    fn span_part_done(&mut self, id: SpanId) {
        let Some(span) = self.reads.span_mut(id) else { return };
        span.outstanding -= 1;
        if span.outstanding > 0 {
            return;
        }
        let Some(span) = self.reads.span(id) else { return };
        let wrong: Vec<(Slot, u64, bool)> = (span.runs.iter())
            .map(|run| {
                let is_known = self.known_sums(span.mapping, run.slot).is_some();
                (run.slot, self.wrong_of(span.mapping, run), is_known)
            })
            .filter(|&(_, wrong, _)| wrong > 0)
            .collect();
        let Some(span) = self.reads.span_mut(id) else { return };
        for &(slot, count, is_known) in &wrong {
            // If a device was lost meanwhile, its expected checksums are gone, and its last answers
            // prove nothing.
            if is_known && !span.bad.contains_key(&slot) {
                self.noting.count_wrong(slot, count);
            }
        }
        for &(slot, _, is_known) in &wrong {
            // Without the chunk's header the checksum of a block is not known.
            *span.bad.entry(slot).or_insert(!is_known) |= is_known;
        }
        let (logical, mapping) = (span.logical, span.mapping);
        for (slot, ..) in wrong.into_iter().filter(|&(.., is_known)| is_known) {
            self.chunk_is_bad(slot, logical, mapping, &IoResult::Checksums(Vec::new()));
        }
        let Some(span) = self.reads.span_mut(id) else { return };
        if matches!(span.purpose, Purpose::Check) {
            self.end_check(id);
        } else if span.bad.is_empty() {
            self.compute_span(id);
        } else {
            self.end_span_one_by_one(id);
        }
    }

    /// Returns the checksum that a block of a stripe must have, if the header of its chunk is in
    /// memory and has one for it.
    pub(crate) fn expected_in_stripe(&self, mapping: Mapping, (cell, offset): Place) -> Option<u64> {
        let (slot, _) = self.geometry.cell_block(mapping.physical, cell, offset);
        let sums = &self.known_sums(mapping, slot)?.sums;
        sums.get(self.geometry.index_in_column(cell, offset)).copied().filter(|sum| *sum != NOT_STORED.0)
    }

    /// Returns the number of wrong blocks of a run.
    fn wrong_of(&self, mapping: Mapping, run: &Run) -> u64 {
        let first = run.in_column as usize;
        let known = self.known_sums(mapping, run.slot);
        let expected = known.and_then(|known| known.sums.get(first..first + run.sums.len()));
        match expected {
            Some(expected) => {
                expected.iter().zip(&run.sums).filter(|(expected, sum)| expected != sum).count() as u64
            }
            None => run.sums.len() as u64,
        }
    }

    fn compute_span(&mut self, id: SpanId) {
        let Some(span) = self.reads.span(id) else { return };
        let Some(Making { plan, offsets, .. }) = span.making.clone() else {
            self.end_span(id);
            return;
        };
        let (mapping, count) = (span.mapping, offsets.len());
        let elements = self.geometry.element_blocks();
        // The blocks of each cell, in the order of `offsets`.
        let mut cells: BTreeMap<CellIndex, Vec<BufferId>> = BTreeMap::new();
        for &cell in &plan.reads {
            let read = span.read_from(cell.0 * elements + offsets.start);
            cells.insert(cell, read[..count].to_vec());
        }
        let (mut made, mut sums, mut checksums) = (Vec::new(), Vec::new(), Vec::new());
        for step in &plan.steps {
            let buffers: Vec<BufferId> = (0..count).map(|_| self.io.new_buffer()).collect();
            for (index, &into) in buffers.iter().enumerate() {
                let term = |&(cell, c): &(CellIndex, Gf)| (Operand::Buffer(cells[&cell][index]), c);
                sums.push(Sum { into, terms: step.terms.iter().map(term).collect() });
                let place = (step.target, offsets.start + index as u32);
                if self.expected_in_stripe(mapping, place).is_some() {
                    let (slot, address) = self.geometry.cell_block(mapping.physical, place.0, place.1);
                    let seed = Seed { slot, address, generation: mapping.generation };
                    checksums.push((Operand::Buffer(into), seed));
                }
            }
            cells.insert(step.target, buffers.clone());
            made.push(buffers);
        }
        if let Some(making) = self.reads.span_mut(id).and_then(|span| span.making.as_mut()) {
            making.made = made;
        }
        self.io.compute(JobOwner::Span(id), Compute { sums, checksums, ..Compute::default() });
    }

    /// Verifies computed blocks of a lost device if their checksums are in memory.
    pub(crate) fn span_computed(&mut self, id: SpanId, computed: &Computed) {
        let Some(span) = self.reads.span(id) else { return };
        let Computed { checksums: sums, .. } = computed;
        let Some(Making { plan, offsets, .. }) = &span.making else { return };
        let places =
            plan.steps.iter().flat_map(|step| offsets.clone().map(move |offset| (step.target, offset)));
        let expected = places.filter_map(|place| self.expected_in_stripe(span.mapping, place));
        if expected.eq(sums.iter().copied()) {
            self.end_span(id);
        } else {
            self.end_span_one_by_one(id);
        }
    }

    /// Ends a span whose blocks have all arrived: delivers them.
    fn end_span(&mut self, id: SpanId) {
        let Some(span) = self.reads.end_span(id) else { return };
        if let Purpose::Deliver(targets) = &span.purpose {
            let elements = self.geometry.element_blocks();
            let (mut next, mut side_by_side): (u32, &[BufferId]) = (0, &[]);
            for &Target { place, block, requester } in targets {
                let number = place.0.0 * elements + place.1;
                if number != next || side_by_side.is_empty() {
                    side_by_side = span.read_from(number);
                }
                let read = side_by_side.split_first().map(|(&buffer, others)| {
                    side_by_side = others;
                    buffer
                });
                next = number + 1;
                let buffer = read.or_else(|| span.made(place));
                self.deliver(requester, block, buffer.map(Operand::Buffer));
            }
        }
        self.let_go(span);
    }

    fn end_span_one_by_one(&mut self, id: SpanId) {
        let Some(mut span) = self.reads.end_span(id) else { return };
        let (logical, mapping) = (span.logical, span.mapping);
        // A device that has been lost meanwhile is no reason to write the stripe again.
        if span.bad.keys().any(|&slot| self.maps.has_some(slot, mapping.generation, logical)) {
            self.suspect_stripe(logical, mapping);
        }
        if let Purpose::Deliver(targets) = std::mem::replace(&mut span.purpose, Purpose::Check) {
            self.read_one_by_one(logical, mapping, targets);
        }
        self.let_go(span);
    }

    fn read_one_by_one(&mut self, logical: u32, mapping: Mapping, targets: Vec<Target>) {
        if targets.iter().all(|target| target.requester == Requester::Verify) {
            self.verify_cells(logical, mapping, targets.into_iter().map(|target| target.place));
            return;
        }
        for Target { place: (cell, offset), block, requester } in targets {
            self.fetch_cell(block, requester, logical, mapping, cell, offset);
        }
    }

    /// Ends the check of a stripe, and reports it to the scrub.
    fn end_check(&mut self, id: SpanId) {
        let Some(span) = self.reads.end_span(id) else { return };
        let elements = self.geometry.element_blocks();
        let place = |number: u32| (CellIndex(number / elements), number % elements);
        let blocks = span.runs.iter().flat_map(|run| (run.first..).zip(run.buffers.iter().copied()));
        let found = blocks.map(|(number, buffer)| (place(number), buffer)).collect();
        self.stripe_checked(span.logical, span.mapping, &span.bad, found);
        self.let_go(span);
    }

    fn let_go(&mut self, span: Span) {
        self.reads.span_is_over(span.blocks());
        let read = span.runs.into_iter().flat_map(|run| run.buffers);
        let made = span.making.into_iter().flat_map(|making| making.made.into_iter().flatten());
        read.chain(made).for_each(|buffer| self.io.release(buffer));
        self.pins.unpin(span.mapping.physical);
    }
}
