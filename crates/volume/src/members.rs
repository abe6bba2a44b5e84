//! Members: devices that come back or are new, and making again what they lack.
//!
//! A device that comes takes part from a moment on in which nothing is being made durable: it becomes *rebuilding*, misses the
//! generations from its loss up to that moment, and gets the maps as a snapshot. From then on it has every record and whatever is
//! written. What it lacks is made again where the maps say that it lies, log rows first, then stripes in order, several devices together:
//!
//! * nothing that the maps point to is overwritten: on this device these places hold nothing of use;
//! * places are pinned while they are written, so that none becomes another's meanwhile;
//! * the cursor moves behind stripes that are written and flushed, and gets into a record now and then, so that a restart goes on there.
//!
//! A stripe that a commit writes meanwhile is written to the device like to any other and needs no rebuilding.

use crate::engine::{Engine, IoOwner, JobOwner};
use crate::fetch::Requester;
use crate::maps::Mapping;
use crate::span::{Place, Target};
use crate::{
    Action, BufferId, Bug, Compute, Computed, DeviceBlock, Found, Operand, Piece, Seed, Slot, Urgency,
    UserBlock,
};
use pantile_format::Generation;
use pantile_format::volume::{LogicalStripe, MemberState};
use std::collections::{BTreeMap, BTreeSet};

/// Blocks made again at a time: 8 MiB.
const WINDOW_BLOCKS: u64 = 2048;

/// Blocks made again between two records of the cursor: 32 MiB, so much is made once more after a crash. A record costs a flush.
const RECORDED_BLOCKS: u64 = 1 << 13;

/// Making again what devices lack.
#[derive(Debug, Default)]
pub(crate) struct Rebuild {
    /// The devices that the work under way is for. One that is lost meanwhile leaves.
    slots: BTreeSet<Slot>,
    /// Devices whose log rows are all written.
    rows_done: BTreeSet<Slot>,
    /// The next log row to look at.
    next_row: u32,
    /// Logical stripes under way.
    window: std::ops::Range<u32>,
    stripes: BTreeMap<u32, StripeAgain>,
    rows: BTreeMap<(u32, usize), (Slot, DeviceBlock)>,
    buffers: Vec<BufferId>,
    pinned: Vec<u32>,
    outstanding: usize,
    flushing: bool,
    blocks_since_record: u64,
    /// Blocks written in all.
    pub(crate) blocks_written: u64,
}

#[derive(Debug)]
struct StripeAgain {
    mapping: Mapping,
    slots: Vec<Slot>,
    places: Vec<Place>,
    content: Vec<Option<Operand>>,
    missing: usize,
}

impl Engine {
    /// A device answers in a slot that was lost.
    pub(crate) fn device_came(&mut self, slot: Slot, found: Found) {
        let known = self.maps.members.get(slot.0 as usize);
        if matches!(known, Some(MemberState::Lost { .. })) {
            self.arrivals.insert(slot, found);
        }
    }

    /// Lets those take part that have come. Nothing is being made durable.
    pub(crate) fn admit_arrivals(&mut self) {
        let missed_until = Generation(self.maps.generation);
        for (slot, found) in std::mem::take(&mut self.arrivals) {
            let missed_from = match (self.maps.members[slot.0 as usize], found) {
                (MemberState::Lost { .. }, Found::Blank) => Generation(0),
                (MemberState::Lost { missed_from }, Found::Stale) => missed_from.min(missed_until),
                _ => continue,
            };
            if self.planted.is(Bug::TrustsStaleDevice) && found == Found::Stale {
                self.maps.members[slot.0 as usize] = MemberState::Present;
                self.members_changed = true;
                continue;
            }
            let cursor = LogicalStripe(0);
            self.maps.members[slot.0 as usize] =
                MemberState::Rebuilding { missed_from, missed_until, cursor };
            self.blank.insert(slot);
            self.members_changed = true;
        }
        self.admitted_to_owed();
        // With another device to read from, what could not be had may be.
        self.repair.append(&mut self.broken);
    }

    /// Whether a rebuild is further than any record says.
    pub(crate) fn has_unrecorded_rebuild(&self) -> bool {
        self.rebuild.as_ref().is_some_and(|rebuild| rebuild.blocks_since_record > 0)
    }

    /// The devices that are being rebuilt, and how far each is.
    fn rebuilding(&self) -> Vec<(Slot, u32)> {
        let members = (0..).map(Slot).zip(&self.maps.members);
        members
            .filter_map(|(slot, state)| match state {
                MemberState::Rebuilding { cursor, .. } => Some((slot, cursor.0 as u32)),
                _ => None,
            })
            .collect()
    }

    /// Begins the next part if none is under way.
    pub(crate) fn drive_rebuild(&mut self) {
        while !self.failed && self.rebuild.as_ref().is_none_or(|rebuild| rebuild.outstanding == 0) {
            let rebuilding = self.rebuilding();
            if rebuilding.is_empty() {
                self.rebuild = None;
                return;
            }
            let slots: BTreeSet<Slot> = rebuilding.iter().map(|&(slot, _)| slot).collect();
            let mut rebuild = self.rebuild.take().unwrap_or_default();
            if !slots.is_subset(&rebuild.slots) {
                // One more: it lacks rows that have been passed.
                rebuild.next_row = 0;
            }
            rebuild.rows_done.retain(|slot| slots.contains(slot));
            rebuild.slots = slots;
            rebuild.outstanding = 1;
            let start = rebuilding.iter().map(|&(_, cursor)| cursor).min().unwrap_or(0);
            if self.is_resyncing() || (rebuild.rows_done == rebuild.slots && self.is_locked(start)) {
                // It goes on when what is being written is written.
                rebuild.outstanding = 0;
                self.rebuild = Some(rebuild);
                return;
            }
            if rebuild.rows_done != rebuild.slots {
                self.rebuild_rows(rebuild);
            } else if start < self.geometry.logical_stripes() {
                self.rebuild_stripes(rebuild, start);
            } else {
                for slot in rebuild.slots {
                    self.maps.members[slot.0 as usize] = MemberState::Present;
                }
                self.members_changed = true;
                self.drive_commit();
            }
        }
    }

    /// Makes the next rows again.
    fn rebuild_rows(&mut self, mut rebuild: Rebuild) {
        let mut wanted: Vec<(u32, usize)> = Vec::new();
        let mut next = None;
        for (&number, row) in self.maps.rows.range(rebuild.next_row..) {
            if wanted.len() as u64 >= WINDOW_BLOCKS / 8 {
                next = Some(number);
                break;
            }
            for (index, cell) in row.cells.iter().enumerate() {
                if rebuild.slots.contains(&cell.slot) && !self.maps.has(cell.slot, row.generation, None) {
                    wanted.push((number, index));
                    rebuild.rows.insert((number, index), (cell.slot, self.geometry.row_block(number)));
                }
            }
        }
        rebuild.next_row = next.unwrap_or(u32::MAX);
        rebuild.outstanding += wanted.len();
        self.pinned_rows.extend(wanted.iter().map(|&(row, _)| row));
        self.rebuild = Some(rebuild);
        for (row, cell) in wanted {
            self.fetch_row_cell(row, cell, Requester::RebuildRow { row, cell });
        }
        self.rebuild_part_done();
    }

    /// A cell of a row is there, or cannot be had.
    pub(crate) fn rebuilt_row_cell(&mut self, row: u32, cell: usize, content: Option<Operand>) {
        let Some(rebuild) = &mut self.rebuild else { return };
        let place = rebuild.rows.remove(&(row, cell));
        match (place, content) {
            (Some((slot, at)), Some(content)) if self.maps.is_present(slot) => {
                if let Operand::Buffer(buffer) = content {
                    rebuild.buffers.push(buffer);
                }
                rebuild.blocks_written += 1;
                // The part that is done is this write from now on.
                let io = self.new_io(slot, IoOwner::RebuildWrite);
                let (pieces, urgency) = (vec![Piece::Block(content)], Urgency::Background);
                self.act(Action::Write { io, slot, at, pieces, urgency });
            }
            (_, Some(Operand::Buffer(buffer))) => {
                self.release(buffer);
                self.rebuild_part_done();
            }
            _ => self.rebuild_part_done(),
        }
    }

    /// Makes the next stripes again.
    fn rebuild_stripes(&mut self, mut rebuild: Rebuild, start: u32) {
        let (mut end, mut blocks) = (start, 0);
        while end < self.geometry.logical_stripes() && blocks < WINDOW_BLOCKS {
            let logical = end;
            if self.is_locked(logical) {
                break;
            }
            end += 1;
            let Some(mapping) = self.maps.stripes[logical as usize] else { continue };
            let slots: Vec<Slot> = rebuild
                .slots
                .iter()
                .copied()
                .filter(|&slot| !self.maps.has(slot, mapping.generation, Some(logical)))
                .collect();
            if slots.is_empty() {
                continue;
            }
            let mut places = Vec::new();
            for &slot in &slots {
                let column = self.geometry.column(mapping.physical, slot);
                for cell in self.geometry.code.column_cells(column) {
                    places.extend((0..self.geometry.element_blocks()).map(|offset| (cell, offset)));
                }
            }
            blocks += places.len() as u64;
            *self.pins.entry(mapping.physical).or_default() += 1;
            rebuild.pinned.push(mapping.physical);
            let (content, missing) = (vec![None; places.len()], places.len());
            rebuild.stripes.insert(logical, StripeAgain { mapping, slots, places, content, missing });
        }
        rebuild.window = start..end;
        rebuild.outstanding += rebuild.stripes.len();
        let reads: Vec<(u32, Vec<Place>)> =
            rebuild.stripes.iter().map(|(&logical, stripe)| (logical, stripe.places.clone())).collect();
        self.rebuild = Some(rebuild);
        for (logical, places) in reads {
            let block = UserBlock(u64::from(logical) * self.geometry.stripe_blocks());
            let target = |(index, place)| {
                let requester = Requester::Rebuild { logical, index };
                Target { place, block, requester }
            };
            let targets = places.into_iter().enumerate().map(target).collect();
            self.read_targets(logical, targets, Urgency::Background);
        }
        self.rebuild_part_done();
    }

    /// A block of a stripe is there, or cannot be had.
    pub(crate) fn rebuilt_block(&mut self, logical: u32, index: usize, content: Option<Operand>) {
        let Some(rebuild) = &mut self.rebuild else { return };
        let Some(stripe) = rebuild.stripes.get_mut(&logical) else { return };
        stripe.content[index] = content;
        stripe.missing -= 1;
        if let Some(Operand::Buffer(buffer)) = content {
            rebuild.buffers.push(buffer);
        }
        if stripe.missing > 0 {
            return;
        }
        let generation = stripe.mapping.generation;
        let Some(content) = stripe.content.iter().copied().collect::<Option<Vec<Operand>>>() else {
            // More is lost than can be made again. What is lost stays lost, and is found so when it is read.
            rebuild.stripes.remove(&logical);
            self.rebuild_part_done();
            return;
        };
        let seed = |(cell, offset): Place| {
            let (slot, address) = self.geometry.cell_block(stripe.mapping.physical, cell, offset);
            Seed { slot, address, generation }
        };
        let checksums = content.into_iter().zip(stripe.places.iter().map(|&place| seed(place))).collect();
        let job = self.new_job(JobOwner::RebuildStripe(logical));
        self.act(Action::Compute { job, work: Compute { sums: Vec::new(), checksums } });
    }

    /// The checksums of a stripe's blocks are there: writes its chunks.
    pub(crate) fn rebuild_computed(&mut self, logical: u32, computed: &Computed) {
        let Computed::Checksums(sums) = computed;
        let Some(rebuild) = &mut self.rebuild else { return };
        let Some(stripe) = rebuild.stripes.remove(&logical) else { return };
        let StripeAgain { mapping, slots, content, .. } = stripe;
        let mut writes = Vec::new();
        let mut from = 0;
        for slot in slots {
            // Places were laid out slot by slot, each in the order of its chunk.
            let column = self.geometry.column(mapping.physical, slot);
            let len = self.geometry.code.rows(column) * self.geometry.element_blocks() as usize;
            let range = from..from + len;
            from += len;
            if !self.maps.is_present(slot) {
                continue;
            }
            let sums = &sums[range.clone()];
            let (header, _) = self.chunk_header(logical, mapping.physical, mapping.generation, slot, sums);
            let mut pieces = vec![Piece::Bytes(header)];
            pieces.extend(content[range].iter().flatten().map(|&operand| Piece::Block(operand)));
            writes.push((slot, self.geometry.chunk_start(mapping.physical, slot), pieces));
        }
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.outstanding += writes.len();
            let blocks: usize = writes.iter().map(|(_, _, pieces)| pieces.len()).sum();
            rebuild.blocks_written += blocks as u64;
            rebuild.blocks_since_record += blocks as u64;
        }
        for (slot, at, pieces) in writes {
            self.sums.remove(&(mapping.physical, slot));
            let io = self.new_io(slot, IoOwner::RebuildWrite);
            self.act(Action::Write { io, slot, at, pieces, urgency: Urgency::Background });
        }
        self.rebuild_part_done();
    }

    pub(crate) fn rebuild_io_done(&mut self) {
        self.rebuild_part_done();
    }

    fn rebuild_part_done(&mut self) {
        let Some(rebuild) = &mut self.rebuild else { return };
        rebuild.outstanding -= 1;
        if rebuild.outstanding > 0 {
            return;
        }
        if !rebuild.flushing && !self.planted.is(Bug::MovesCursorBeforeFlush) {
            rebuild.flushing = true;
            let slots: Vec<Slot> = rebuild.slots.iter().copied().collect();
            rebuild.outstanding = slots.len() + 1;
            for slot in slots {
                let io = self.new_io(slot, IoOwner::RebuildFlush);
                self.act(Action::Flush { io, slot });
            }
            self.rebuild_part_done();
            return;
        }
        rebuild.flushing = false;
        let (buffers, pinned) = (std::mem::take(&mut rebuild.buffers), std::mem::take(&mut rebuild.pinned));
        let window = std::mem::take(&mut rebuild.window);
        let slots = rebuild.slots.clone();
        let rows_end = rebuild.next_row == u32::MAX && rebuild.rows_done != rebuild.slots;
        if rows_end {
            rebuild.rows_done.clone_from(&slots);
            rebuild.next_row = 0;
        }
        if rebuild.blocks_since_record >= RECORDED_BLOCKS {
            rebuild.blocks_since_record = 0;
            self.members_changed = true;
        }
        for slot in slots {
            if let MemberState::Rebuilding { cursor, .. } = &mut self.maps.members[slot.0 as usize] {
                *cursor = (*cursor).max(LogicalStripe(window.end.into()));
            }
        }
        self.pinned_rows.clear();
        buffers.into_iter().for_each(|buffer| self.release(buffer));
        pinned.into_iter().for_each(|physical| self.unpin(physical));
    }

    /// A device that is being rebuilt is lost: the work under way is not for it any more.
    pub(crate) fn leave_rebuild(&mut self, slot: Slot) {
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.slots.remove(&slot);
            rebuild.rows_done.remove(&slot);
        }
    }
}
