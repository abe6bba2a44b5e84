//! Members: devices that come back or are new, and their rebuild.
//!
//! A device that comes takes part from a moment on in which nothing is being made durable: it
//! becomes *rebuilding*, misses the generations from its loss up to that moment, and gets the maps
//! as a snapshot. From then on it gets every record and every write. The blocks that it lacks are
//! made again in their mapped places, log rows first, then stripes in order, several devices
//! together:
//!
//! * nothing that the maps point to is overwritten: on this device these places hold nothing of
//!   use;
//! * places are pinned while they are written, so that none becomes another's meanwhile;
//! * stripes are read, made and written at the same time, as many as the window holds; a flush now
//!   and then goes on beside them;
//! * the cursor moves behind stripes that are written and flushed, and gets into a record now and
//!   then, so that a restart goes on there.
//!
//! A stripe that a commit writes in between is written to the device like to any other and needs no
//! rebuilding.

use crate::engine::{Engine, IoOwner, JobOwner};
use crate::fetch::Requester;
use crate::maps::Mapping;
use crate::span::{Place, Target};
use crate::{
    Action, BufferId, Compute, Computed, DeviceBlock, Found, Operand, Piece, Seed, Slot, Urgency, UserBlock,
};
use pantile_format::volume::{EventKind, HistoryId, MemberState};
use std::collections::{BTreeMap, BTreeSet};

/// Blocks made again at a time: 8 MiB. When fewer than half of them are under way, more are begun.
const WINDOW_BLOCKS: u64 = 2048;

/// Blocks made again between two flushes: 16 MiB.
const FLUSHED_BLOCKS: u64 = 1 << 12;

/// Blocks made again between two records of the cursor: 32 MiB, which are made once more after a
/// crash. A record costs a flush.
const RECORDED_BLOCKS: u64 = 1 << 13;

/// Rebuild of devices.
#[derive(Debug, Default)]
struct Rebuild {
    /// The devices that the work under way is for. One that is lost leaves.
    slots: BTreeSet<Slot>,
    /// Devices whose log rows are all written.
    rows_done: BTreeSet<Slot>,
    /// The next log row to look at.
    next_row: u32,
    rows: BTreeMap<(u32, usize), (Slot, DeviceBlock)>,
    /// Content that rows are made of, until they are flushed.
    buffers: Vec<BufferId>,
    /// Rows under way, and the flush after them.
    rows_outstanding: usize,
    rows_flushing: bool,
    /// The next logical stripe to begin.
    next: u32,
    /// Logical stripes under way.
    stripes: BTreeMap<u32, StripeAgain>,
    blocks_under_way: u64,
    /// A flush of rebuilt blocks, or of nothing.
    flush: Option<Flush>,
    blocks_since_flush: u64,
    blocks_since_record: u64,
    /// Blocks written in all.
    blocks_written: u64,
}

#[derive(Debug)]
struct StripeAgain {
    mapping: Mapping,
    slots: Vec<Slot>,
    places: Vec<Place>,
    content: Vec<Option<Operand>>,
    missing: usize,
    writes: usize,
}

/// A flush of devices that are being rebuilt.
#[derive(Debug)]
struct Flush {
    outstanding: usize,
    /// Logical stripes before this one are on them when it is done.
    behind: u32,
}

impl Rebuild {
    fn is_idle(&self) -> bool {
        self.rows_outstanding == 0 && self.stripes.is_empty() && self.flush.is_none()
    }

    /// All logical stripes before this one are written.
    fn behind(&self) -> u32 {
        self.stripes.keys().next().copied().unwrap_or(self.next)
    }
}

/// Properties of devices beside their states, which are in the maps.
#[derive(Debug, Default)]
pub(crate) struct Members {
    /// Devices that have come and take part from the next moment on in which nothing is being made
    /// durable. All are lost until then.
    arrivals: BTreeMap<Slot, Found>,
    rebuild: Option<Rebuild>,
    /// The pace of each slow device: this many times as long as the others, more than once.
    pace: BTreeMap<Slot, u32>,
    /// Devices that were here when the volume was opened, ran separately and take no part.
    apart: Vec<(Slot, HistoryId)>,
}

impl Members {
    pub(crate) fn have_arrivals(&self) -> bool {
        !self.arrivals.is_empty()
    }

    /// Forgets the work and the pace of a device that is lost.
    pub(crate) fn lose(&mut self, slot: Slot) {
        self.arrivals.remove(&slot);
        self.pace.remove(&slot);
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.slots.remove(&slot);
            rebuild.rows_done.remove(&slot);
        }
    }

    /// Blocks written to devices that came.
    pub(crate) fn rebuilt_blocks(&self) -> u64 {
        self.rebuild.as_ref().map_or(0, |rebuild| rebuild.blocks_written)
    }

    /// Returns true if a rebuild is further than any record says.
    pub(crate) fn have_unrecorded_rebuild(&self) -> bool {
        self.rebuild.as_ref().is_some_and(|rebuild| rebuild.blocks_since_record > 0)
    }

    /// Sets the pace of a device: this many times as long as the others; 1: as long.
    pub(crate) fn set_pace(&mut self, slot: Slot, times: u32) {
        match times {
            0 | 1 => _ = self.pace.remove(&slot),
            _ => _ = self.pace.insert(slot, times),
        }
    }

    /// Devices that are slower than the others.
    pub(crate) fn slow(&self) -> impl ExactSizeIterator<Item = Slot> {
        self.pace.keys().copied()
    }

    pub(crate) fn is_slow(&self, slot: Slot) -> bool {
        self.pace.contains_key(&slot)
    }

    /// Returns the pace of a device: this many times as long as the others.
    pub(crate) fn pace(&self, slot: Slot) -> u32 {
        self.pace.get(&slot).copied().unwrap_or(1)
    }

    pub(crate) fn set_apart(&mut self, apart: &[(Slot, HistoryId)]) {
        self.apart = apart.to_vec();
    }

    pub(crate) fn apart(&self) -> &[(Slot, HistoryId)] {
        &self.apart
    }
}

impl Engine {
    /// Begins a session without all devices: it writes a record before it serves.
    pub(crate) fn begin_provisionally(&mut self) {
        self.records.begin_provisionally();
    }

    /// A device answers in a slot that was lost.
    pub(crate) fn device_came(&mut self, slot: Slot, found: Found) {
        let known = self.maps.members().get(slot.0 as usize);
        if matches!(known, Some(MemberState::Lost { .. })) {
            self.members.arrivals.insert(slot, found);
            // If a superblock must be written first, flushes wait for it: an orderly end lets the
            // device in.
            self.records.want_if(self.snapshots.is_closed());
        }
    }

    /// Lets those take part that have come. Nothing is being made durable.
    pub(crate) fn admit_arrivals(&mut self) {
        for (slot, found) in std::mem::take(&mut self.members.arrivals) {
            if !self.maps.admit(slot, found == Found::Blank) {
                continue;
            }
            self.note_arrival(slot, found == Found::Blank);
            self.snapshots.lack_text([slot]);
            self.records.want();
        }
        self.admitted_to_owed();
        // Lost blocks may be readable with another device.
        self.damage.retry_broken();
    }

    /// The devices that are being rebuilt, and how far each is.
    fn rebuilding(&self) -> Vec<(Slot, u32)> {
        let members = (0..).map(Slot).zip(self.maps.members());
        members
            .filter_map(|(slot, state)| match state {
                MemberState::Rebuilding { cursor, .. } => Some((slot, cursor.0 as u32)),
                _ => None,
            })
            .collect()
    }

    /// Begins work that can begin.
    pub(crate) fn drive_rebuild(&mut self) {
        while !self.service.has_failed() {
            let rebuilding = self.rebuilding();
            let mut rebuild = self.members.rebuild.take().unwrap_or_default();
            let slots: BTreeSet<Slot> = rebuilding.iter().map(|&(slot, _)| slot).collect();
            if slots.is_empty() || slots != rebuild.slots {
                if !rebuild.is_idle() {
                    // A new device waits until the work begun for others is done.
                    self.members.rebuild = Some(rebuild);
                    return;
                }
                if slots.is_empty() {
                    return;
                }
                if !slots.is_subset(&rebuild.slots) {
                    // A new device lacks rows that have been passed.
                    rebuild.next_row = 0;
                }
                rebuild.rows_done.retain(|slot| slots.contains(slot));
                rebuild.slots = slots;
                rebuild.next = rebuilding.iter().map(|&(_, cursor)| cursor).min().unwrap_or(0);
            }
            if self.is_redoing() || rebuild.rows_outstanding > 0 {
                // It goes on when writes under way are done.
                self.members.rebuild = Some(rebuild);
                return;
            }
            if rebuild.rows_done != rebuild.slots {
                self.rebuild_rows(rebuild);
                continue;
            }
            let (ends, cursor) = (self.geometry.logical_stripes(), rebuilding.iter().map(|&(_, c)| c).min());
            if cursor.is_none_or(|cursor| cursor >= ends) {
                for &slot in &rebuild.slots {
                    self.maps.is_whole(slot);
                    self.event(EventKind::WHOLE, Some(slot), 0);
                }
                self.members.rebuild = Some(rebuild);
                self.records.want();
                self.drive_commit();
                continue;
            }
            self.rebuild_stripes(rebuild);
            if !self.flush_rebuild() {
                return;
            }
        }
    }

    /// Makes the next rows again.
    fn rebuild_rows(&mut self, mut rebuild: Rebuild) {
        let mut wanted: Vec<(u32, usize)> = Vec::new();
        let mut next = None;
        for (&number, row) in self.maps.rows().range(rebuild.next_row..) {
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
        rebuild.rows_outstanding = wanted.len() + 1;
        self.pins.pin_rows(wanted.iter().map(|&(row, _)| row));
        self.members.rebuild = Some(rebuild);
        for (row, cell) in wanted {
            self.fetch_row_cell(row, cell, Requester::RebuildRow { row, cell });
        }
        self.rebuild_part_done();
    }

    /// Takes a cell of a row; `None`: it is lost.
    pub(crate) fn rebuilt_row_cell(&mut self, row: u32, cell: usize, content: Option<Operand>) {
        let Some(rebuild) = &mut self.members.rebuild else { return };
        let place = rebuild.rows.remove(&(row, cell));
        match (place, content) {
            (Some((slot, at)), Some(content)) if self.maps.is_present(slot) => {
                if let Operand::Buffer(buffer) = content {
                    rebuild.buffers.push(buffer);
                }
                rebuild.blocks_written += 1;
                self.row_block_is_good(slot, row);
                // The part that is done is this write from now on.
                let io = self.io.new_io(slot, IoOwner::RebuildRow);
                let (pieces, urgency) = (vec![Piece::Block(content)], Urgency::Background);
                self.io.act(Action::Write { io, slot, at, pieces, urgency });
            }
            (_, Some(Operand::Buffer(buffer))) => {
                self.io.release(buffer);
                self.rebuild_part_done();
            }
            (place, _) => {
                if let Some((slot, _)) = place {
                    let first = u64::from(self.geometry.logical_stripes()) + u64::from(row);
                    self.was_not_made_again(slot, first);
                }
                self.rebuild_part_done();
            }
        }
    }

    /// Makes the next stripes again, if few are under way.
    fn rebuild_stripes(&mut self, mut rebuild: Rebuild) {
        let mut reads: Vec<(u32, Vec<Place>)> = Vec::new();
        let most = if rebuild.blocks_under_way < WINDOW_BLOCKS / 2 { WINDOW_BLOCKS } else { 0 };
        while rebuild.next < self.geometry.logical_stripes() && rebuild.blocks_under_way < most {
            let logical = rebuild.next;
            if self.patching.is_locked(logical) {
                // It goes on when writes under way are done.
                break;
            }
            rebuild.next += 1;
            let Some(mapping) = self.maps.mapping(logical) else { continue };
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
            rebuild.blocks_under_way += places.len() as u64;
            self.pins.pin(mapping.physical);
            reads.push((logical, places.clone()));
            let (content, missing, writes) = (vec![None; places.len()], places.len(), 0);
            let again = StripeAgain { mapping, slots, places, content, missing, writes };
            rebuild.stripes.insert(logical, again);
        }
        self.members.rebuild = Some(rebuild);
        for (logical, places) in reads {
            let block = UserBlock(u64::from(logical) * self.geometry.stripe_blocks());
            let target = |(index, place)| {
                let requester = Requester::Rebuild { logical, index };
                Target { place, block, requester }
            };
            let targets = places.into_iter().enumerate().map(target).collect();
            self.read_targets(logical, targets, Urgency::Background);
        }
    }

    /// Flushes rebuilt blocks, now and then and at the end; `true`: the cursor has moved already.
    fn flush_rebuild(&mut self) -> bool {
        let ends = self.geometry.logical_stripes();
        let cursor = self.rebuilding().iter().map(|&(_, cursor)| cursor).min().unwrap_or(ends);
        let Some(rebuild) = &mut self.members.rebuild else { return false };
        let behind = rebuild.behind();
        let is_much = rebuild.blocks_since_flush >= FLUSHED_BLOCKS || behind == ends;
        if rebuild.flush.is_some() || behind <= cursor || !is_much {
            return false;
        }
        rebuild.blocks_since_flush = 0;
        let slots: Vec<Slot> = rebuild.slots.iter().copied().collect();
        rebuild.flush = Some(Flush { outstanding: slots.len(), behind });
        for slot in slots {
            let io = self.io.new_io(slot, IoOwner::RebuildFlush);
            self.io.act(Action::Flush { io, slot });
        }
        false
    }

    /// Takes a block of a stripe; `None`: it is lost.
    pub(crate) fn rebuilt_block(&mut self, logical: u32, index: usize, content: Option<Operand>) {
        let Some(rebuild) = &mut self.members.rebuild else { return };
        let Some(stripe) = rebuild.stripes.get_mut(&logical) else { return };
        stripe.content[index] = content;
        stripe.missing -= 1;
        if stripe.missing > 0 {
            return;
        }
        let generation = stripe.mapping.generation;
        let Some(content) = stripe.content.iter().copied().collect::<Option<Vec<Operand>>>() else {
            // Too much is lost to rebuild the stripe. Its lost data blocks are found when it is
            // written again.
            for slot in stripe.slots.clone() {
                self.was_not_made_again(slot, logical.into());
            }
            self.damage.suspect(logical);
            self.rebuilt_stripe(logical);
            return;
        };
        let seed = |(cell, offset): Place| {
            let (slot, address) = self.geometry.cell_block(stripe.mapping.physical, cell, offset);
            Seed { slot, address, generation }
        };
        let checksums = content.into_iter().zip(stripe.places.iter().map(|&place| seed(place))).collect();
        self.io.compute(JobOwner::RebuildStripe(logical), Compute { checksums, ..Compute::default() });
    }

    /// The checksums of a stripe's blocks are there: writes its chunks.
    pub(crate) fn rebuild_computed(&mut self, logical: u32, computed: &Computed) {
        let Computed { checksums: sums, .. } = computed;
        let Some(rebuild) = &self.members.rebuild else { return };
        let Some(stripe) = rebuild.stripes.get(&logical) else { return };
        let &StripeAgain { mapping, ref slots, ref content, .. } = stripe;
        let mut writes = Vec::new();
        let mut from = 0;
        for &slot in slots {
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
        if let Some(rebuild) = &mut self.members.rebuild {
            let blocks: usize = writes.iter().map(|(_, _, pieces)| pieces.len()).sum();
            rebuild.blocks_written += blocks as u64;
            rebuild.blocks_since_flush += blocks as u64;
            rebuild.blocks_since_record += blocks as u64;
            if let Some(stripe) = rebuild.stripes.get_mut(&logical) {
                stripe.writes = writes.len();
            }
        }
        if writes.is_empty() {
            self.rebuilt_stripe(logical);
        }
        for (slot, at, pieces) in writes {
            self.headers.forget(mapping.physical, slot);
            self.chunk_is_good(slot, logical);
            let io = self.io.new_io(slot, IoOwner::RebuildStripe(logical));
            self.io.act(Action::Write { io, slot, at, pieces, urgency: Urgency::Background });
        }
    }

    pub(crate) fn rebuild_io_done(&mut self, owner: &IoOwner) {
        let Some(rebuild) = &mut self.members.rebuild else { return };
        match (owner, &mut rebuild.flush) {
            (IoOwner::RebuildStripe(logical), _) => {
                let Some(stripe) = rebuild.stripes.get_mut(logical) else { return };
                stripe.writes -= 1;
                if stripe.writes == 0 {
                    self.rebuilt_stripe(*logical);
                }
            }
            (IoOwner::RebuildFlush, Some(flush)) => {
                flush.outstanding -= 1;
                if flush.outstanding == 0 {
                    self.rebuild_flushed();
                }
            }
            _ => self.rebuild_part_done(),
        }
    }

    /// A stripe is written, or cannot be.
    fn rebuilt_stripe(&mut self, logical: u32) {
        let Some(rebuild) = &mut self.members.rebuild else { return };
        let Some(stripe) = rebuild.stripes.remove(&logical) else { return };
        rebuild.blocks_under_way -= stripe.places.len() as u64;
        stripe.content.into_iter().flatten().for_each(|content| self.io.release_operand(content));
        self.pins.unpin(stripe.mapping.physical);
    }

    /// Moves the cursor: all that was made again before a flush began is on the devices.
    fn rebuild_flushed(&mut self) {
        let Some(rebuild) = &mut self.members.rebuild else { return };
        let Some(flush) = rebuild.flush.take() else { return };
        if rebuild.blocks_since_record >= RECORDED_BLOCKS {
            rebuild.blocks_since_record = 0;
            self.records.want();
        }
        for slot in &rebuild.slots {
            self.maps.move_cursor(*slot, flush.behind);
        }
    }

    /// Ends a part of the rows under way; after all of them they are flushed.
    fn rebuild_part_done(&mut self) {
        let Some(rebuild) = &mut self.members.rebuild else { return };
        rebuild.rows_outstanding -= 1;
        if rebuild.rows_outstanding > 0 {
            return;
        }
        if !rebuild.rows_flushing {
            rebuild.rows_flushing = true;
            let slots: Vec<Slot> = rebuild.slots.iter().copied().collect();
            rebuild.rows_outstanding = slots.len() + 1;
            for slot in slots {
                let io = self.io.new_io(slot, IoOwner::RebuildRow);
                self.io.act(Action::Flush { io, slot });
            }
            self.rebuild_part_done();
            return;
        }
        rebuild.rows_flushing = false;
        let buffers = std::mem::take(&mut rebuild.buffers);
        if rebuild.next_row == u32::MAX {
            rebuild.rows_done.clone_from(&rebuild.slots);
            rebuild.next_row = 0;
        }
        self.pins.unpin_rows();
        buffers.into_iter().for_each(|buffer| self.io.release(buffer));
    }
}
