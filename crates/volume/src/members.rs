//! Devices that come back or are new, and their rebuild.
//!
//! A device that comes is admitted at a moment when no commit or snapshot is under way. It becomes
//! *rebuilding*, misses the generations from its loss up to that moment, and gets the maps as a
//! snapshot. From then on it gets every record and every write. The blocks that it lacks are
//! rebuilt in their mapped places: log rows first, then stripes in order, for several devices
//! together:
//!
//! * nothing that the maps point to is overwritten: on this device these places hold nothing of
//!   use;
//! * places are pinned while they are written, so that no stripe takes them meanwhile;
//! * stripes are read, computed and written at the same time, as many as the window holds; flushes
//!   now and then run beside them;
//! * the cursor moves behind stripes that are written and flushed, and is recorded now and then, so
//!   that a restart continues there.
//!
//! A stripe that a commit writes meanwhile is written to this device too, and needs no rebuilding.
//!
//! If a few rows raise the number of losses that every stripe tolerates
//! ([`Bearing::cells_ahead`](crate::Bearing)), a first pass writes these rows alone, with headers
//! that say so. The volume then tolerates one more loss long before the device is whole. The first
//! pass has its own cursor, which is part of the member's state. The second pass writes whole
//! chunks over these rows.

use crate::engine::{Engine, IoOwner, JobOwner};
use crate::fetch::Requester;
use crate::maps::Mapping;
use crate::span::{Place, Target};
use crate::{
    Action, BufferId, Compute, Computed, DeviceBlock, Found, Operand, Piece, Seed, Slot, Urgency, UserBlock,
};
use pantile_code::CellIndex;
use pantile_format::volume::{EventKind, HistoryId, MemberState, NOT_STORED, RecordNumber, Superblock};
use std::collections::{BTreeMap, BTreeSet};

/// Blocks rebuilt at a time: 8 MiB. When fewer than half of them are under way, more are begun.
const WINDOW_BLOCKS: u64 = 2048;

/// Blocks rebuilt between two flushes: 16 MiB.
const FLUSHED_BLOCKS: u64 = 1 << 12;

/// Blocks rebuilt between two records of the cursor: 32 MiB, which are rebuilt once more after a
/// crash. A record costs a flush.
const RECORDED_BLOCKS: u64 = 1 << 13;

/// Rebuild of devices.
#[derive(Debug, Default)]
struct Rebuild {
    /// The devices that the rebuild under way is for. One that is lost is removed.
    slots: BTreeSet<Slot>,
    /// Devices whose log rows are all written.
    rows_done: BTreeSet<Slot>,
    /// The next log row to check.
    next_row: u32,
    rows: BTreeMap<(u32, usize), (Slot, DeviceBlock)>,
    /// Content from which rows are computed, held until the rows are flushed.
    buffers: Vec<BufferId>,
    /// The number of parts of the rows under way.
    rows_outstanding: usize,
    rows_flushing: bool,
    /// The pass under way; `None`: not chosen yet.
    pass: Option<Pass>,
    /// The next logical stripe to begin.
    next: u32,
    /// Logical stripes under way.
    stripes: BTreeMap<u32, StripeAgain>,
    blocks_under_way: u64,
    /// The flush under way; `None`: no flush.
    flush: Option<Flush>,
    blocks_since_flush: u64,
    blocks_since_record: u64,
    /// Blocks written in all.
    blocks_written: u64,
}

/// The part of the chunks that is rebuilt, from the first stripe to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// The rows after which every stripe tolerates one more loss.
    Ahead,
    /// Whole chunks.
    Whole,
}

#[derive(Debug)]
struct StripeAgain {
    mapping: Mapping,
    /// The devices, and the rows of their columns that are written, ascending.
    slots: Vec<(Slot, Vec<usize>)>,
    /// The blocks that are rebuilt, device by device, each row by row.
    places: Vec<Place>,
    content: Vec<Option<Operand>>,
    missing: usize,
    writes: usize,
}

/// A flush of devices that are being rebuilt.
#[derive(Debug)]
struct Flush {
    outstanding: usize,
    pass: Pass,
    /// Logical stripes before this one are durable on the devices once the flush is done.
    behind: u32,
}

impl Rebuild {
    fn is_idle(&self) -> bool {
        self.rows_outstanding == 0 && self.stripes.is_empty() && self.flush.is_none()
    }

    /// Returns the first logical stripe that is not written yet.
    fn behind(&self) -> u32 {
        self.stripes.keys().next().copied().unwrap_or(self.next)
    }
}

/// Properties of devices other than their states, which are in the maps.
#[derive(Debug, Default)]
pub(crate) struct Members {
    /// Devices that have come and are admitted at the next moment when no commit or snapshot is
    /// under way. All of them are lost until then.
    arrivals: BTreeMap<Slot, Found>,
    rebuild: Option<Rebuild>,
    /// By device, the first record that says what has been rebuilt of it. After a restart before
    /// that record is durable the volume knows of less.
    recorded_in: BTreeMap<Slot, RecordNumber>,
    /// The pace of each slow device: a read takes this many times as long as on the others, at
    /// least twice.
    pace: BTreeMap<Slot, u32>,
    /// Devices that were present when the volume was opened, but ran separately and take no part.
    apart: Vec<(Slot, HistoryId)>,
}

impl Members {
    pub(crate) fn have_arrivals(&self) -> bool {
        !self.arrivals.is_empty()
    }

    /// Forgets the rebuild and the pace of a device that is lost.
    pub(crate) fn lose(&mut self, slot: Slot) {
        self.arrivals.remove(&slot);
        self.recorded_in.remove(&slot);
        self.pace.remove(&slot);
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.slots.remove(&slot);
            rebuild.rows_done.remove(&slot);
        }
    }

    /// Returns the devices whose rebuilt rows or stripes no record up to `last` mentions.
    pub(crate) fn unrecorded(&self, last: RecordNumber) -> BTreeSet<Slot> {
        let unrecorded = self.recorded_in.iter().filter(|(_, record)| **record > last);
        unrecorded.map(|(&slot, _)| slot).collect()
    }

    /// Returns the number of blocks rebuilt on devices that came.
    pub(crate) fn rebuilt_blocks(&self) -> u64 {
        self.rebuild.as_ref().map_or(0, |rebuild| rebuild.blocks_written)
    }

    /// Returns true if a rebuild has progressed further than any record says.
    pub(crate) fn have_unrecorded_rebuild(&self) -> bool {
        self.rebuild.as_ref().is_some_and(|rebuild| rebuild.blocks_since_record > 0)
    }

    /// Sets the pace of a device: a read takes this many times as long as on the others; 1: as
    /// long.
    pub(crate) fn set_pace(&mut self, slot: Slot, times: u32) {
        match times {
            0 | 1 => _ = self.pace.remove(&slot),
            _ => _ = self.pace.insert(slot, times),
        }
    }

    /// Returns the devices that are slower than the others.
    pub(crate) fn slow(&self) -> impl ExactSizeIterator<Item = Slot> {
        self.pace.keys().copied()
    }

    pub(crate) fn is_slow(&self, slot: Slot) -> bool {
        self.pace.contains_key(&slot)
    }

    /// Returns the pace of a device: a read takes this many times as long as on the others.
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

    /// Returns the content of a device that comes to a slot, by its newest superblock.
    ///
    /// Its content is of use only if it is the device that was lost last, as it was then, and if
    /// the present history continues from its own.
    pub(crate) fn found(&self, slot: Slot, own: &Superblock) -> Found {
        let now = self.snapshots.superblock();
        let goes_on = now.history == own.history || now.ancestors.contains(&own.history);
        let is_its = own.volume == now.volume && own.slot == slot;
        match is_its && goes_on && own.update >= self.maps.first_update(slot) {
            true => Found::Stale,
            false => Found::Blank,
        }
    }

    /// Notes that a device answers in a slot that was lost.
    pub(crate) fn device_came(&mut self, slot: Slot, found: Found) {
        let known = self.maps.members().get(slot.0 as usize);
        if matches!(known, Some(MemberState::Lost { .. })) {
            self.members.arrivals.insert(slot, found);
            // If a superblock must be written first, flushes wait for it, so a volume that is
            // closed in order has admitted the device.
            self.records.want_if(self.snapshots.is_closed());
        }
    }

    /// Admits the devices that have come. No commit or snapshot is under way.
    pub(crate) fn admit_arrivals(&mut self) {
        for (slot, found) in std::mem::take(&mut self.members.arrivals) {
            if !self.maps.admit(slot, found == Found::Blank) {
                continue;
            }
            if found == Found::Blank {
                self.maps.raise_first_update(slot, self.snapshots.update_for_new());
            }
            self.note_arrival(slot, found == Found::Blank);
            self.snapshots.lack_text([slot]);
            self.records.want();
        }
        self.admitted_to_owed();
        // Lost blocks may be readable with another device.
        self.damage.retry_broken();
    }

    /// Returns the devices under rebuild, and the first stripe that each lacks.
    fn rebuilding(&self) -> Vec<(Slot, u32)> {
        let members = (0..).map(Slot).zip(self.maps.members());
        members
            .filter_map(|(slot, state)| match state {
                MemberState::Rebuilding { cursor, .. } => Some((slot, cursor.0 as u32)),
                _ => None,
            })
            .collect()
    }

    /// Returns true if stripes that are not rebuilt yet can be read only with a device that is
    /// absent.
    fn needs_absent(&self) -> bool {
        if self.maps.absent().is_empty() {
            return false;
        }
        let lacking: Vec<Slot> = self.not_whole().into_iter().collect();
        let mut there: Vec<CellIndex> = self.cells_ahead().into_values().flatten().collect();
        there.sort_unstable();
        !self.planners.stripes_bear.bears_but(&lacking, &there)
    }

    /// Begins rebuild work that can begin.
    pub(crate) fn drive_rebuild(&mut self) {
        while !self.service.has_failed() {
            let rebuilding = self.rebuilding();
            let mut rebuild = self.members.rebuild.take().unwrap_or_default();
            let slots: BTreeSet<Slot> = rebuilding.iter().map(|&(slot, _)| slot).collect();
            if slots.is_empty() || slots != rebuild.slots {
                if !rebuild.is_idle() {
                    // A new device waits until the work begun for the others is done.
                    self.members.rebuild = Some(rebuild);
                    return;
                }
                if slots.is_empty() {
                    return;
                }
                if !slots.is_subset(&rebuild.slots) {
                    // A new device lacks rows that the rebuild has passed.
                    rebuild.next_row = 0;
                }
                rebuild.rows_done.retain(|slot| slots.contains(slot));
                rebuild.slots = slots;
                rebuild.pass = None;
            }
            if rebuild.is_idle() && self.needs_absent() {
                // Blocks that cannot be read now become readable when the absent device comes back.
                self.members.rebuild = Some(rebuild);
                return;
            }
            if self.is_redoing() || rebuild.rows_outstanding > 0 {
                // The rebuild goes on when these writes are done.
                self.members.rebuild = Some(rebuild);
                return;
            }
            if rebuild.rows_done != rebuild.slots {
                self.rebuild_rows(rebuild);
                continue;
            }
            let ends = self.geometry.logical_stripes();
            let pass = match rebuild.pass {
                Some(pass) => pass,
                None => {
                    let pass = self.choose_pass(&rebuild.slots);
                    rebuild.next = self.cursor(&rebuild.slots, pass);
                    *rebuild.pass.insert(pass)
                }
            };
            let is_over = self.cursor(&rebuild.slots, pass) >= ends;
            if pass == Pass::Ahead && is_over {
                rebuild.pass = Some(Pass::Whole);
                rebuild.next = self.cursor(&rebuild.slots, Pass::Whole);
                self.members.rebuild = Some(rebuild);
                self.record_rebuilt();
                self.drive_commit();
                continue;
            }
            if is_over {
                for &slot in &rebuild.slots {
                    self.maps.is_whole(slot);
                    self.event(EventKind::WHOLE, Some(slot), 0);
                }
                self.members.rebuild = Some(rebuild);
                self.record_rebuilt();
                self.drive_commit();
                continue;
            }
            if !self.members.unrecorded(self.records.last()).is_empty() {
                // The rows rebuilt ahead are recorded before the many other rows are begun.
                self.members.rebuild = Some(rebuild);
                if self.commit.is_none() && !self.records.is_wanted() {
                    // The commit that would have recorded them was undone, or a snapshot took its
                    // place.
                    self.records.want();
                    self.drive_commit();
                }
                return;
            }
            self.rebuild_stripes(rebuild, pass);
            if !self.flush_rebuild(pass) {
                return;
            }
        }
    }

    /// Wants a record of what has been rebuilt.
    fn record_rebuilt(&mut self) {
        // A commit under way has the state from before, so the record after it counts.
        let next = RecordNumber(self.records.next().0 + u64::from(self.commit.is_some()));
        let slots = self.members.rebuild.iter().flat_map(|rebuild| rebuild.slots.iter().copied());
        let recorded = slots.map(|slot| (slot, next)).collect::<Vec<_>>();
        self.members.recorded_in.extend(recorded);
        self.records.want();
    }

    /// Chooses the rows that devices rebuild ahead, if they are worth a pass of their own and none
    /// were chosen before.
    fn choose_pass(&mut self, slots: &BTreeSet<Slot>) -> Pass {
        let ends = self.geometry.logical_stripes();
        if slots.iter().all(|&slot| self.maps.rows_ahead(slot).rows == 0) {
            let lost: Vec<Slot> = self.not_whole().into_iter().collect();
            let rebuilt: Vec<Slot> = slots.iter().copied().collect();
            for (slot, rows) in self.planners.stripes_bear.rows_ahead(&lost, &rebuilt) {
                self.maps.rebuild_ahead(slot, rows);
            }
        }
        let is_behind = |&slot: &Slot| self.maps.rows_ahead(slot).rows != 0;
        match slots.iter().any(is_behind) && self.cursor(slots, Pass::Ahead) < ends {
            true => Pass::Ahead,
            false => Pass::Whole,
        }
    }

    /// Returns the first logical stripe that some of the devices still lack in a pass.
    fn cursor(&self, slots: &BTreeSet<Slot>, pass: Pass) -> u32 {
        let cursor = |&slot: &Slot| match (pass, self.maps.members()[slot.0 as usize]) {
            (Pass::Whole, MemberState::Rebuilding { cursor, .. }) => Some(cursor.0 as u32),
            (Pass::Ahead, MemberState::Rebuilding { ahead, .. }) if ahead.rows != 0 => {
                Some(ahead.until.0 as u32)
            }
            _ => None,
        };
        slots.iter().filter_map(cursor).min().unwrap_or(self.geometry.logical_stripes())
    }

    /// Returns the rows of a device's column that a pass writes.
    fn rows_of_pass(&self, slot: Slot, physical: u32, pass: Pass) -> Vec<usize> {
        let rows = 0..self.geometry.code.rows(self.geometry.column(physical, slot));
        let ahead = self.maps.rows_ahead(slot).rows;
        match pass {
            Pass::Whole => rows.collect(),
            Pass::Ahead => rows.take(u64::BITS as usize).filter(|row| ahead >> row & 1 == 1).collect(),
        }
    }

    /// Rebuilds the next log rows.
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

    /// Takes a cell of a log row and writes it; `None`: it is lost.
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
                // The part under way ends with this write.
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

    /// Rebuilds the next stripes, if few are under way.
    fn rebuild_stripes(&mut self, mut rebuild: Rebuild, pass: Pass) {
        let mut reads: Vec<(u32, Vec<Place>)> = Vec::new();
        let most = if rebuild.blocks_under_way < WINDOW_BLOCKS / 2 { WINDOW_BLOCKS } else { 0 };
        while rebuild.next < self.geometry.logical_stripes() && rebuild.blocks_under_way < most {
            let logical = rebuild.next;
            if self.patching.is_locked(logical) {
                // It goes on when the writes of the patch are done.
                break;
            }
            rebuild.next += 1;
            let Some(mapping) = self.maps.mapping(logical) else { continue };
            let lacks = |slot: &Slot| !self.maps.has(*slot, mapping.generation, Some(logical));
            let rows = |slot: Slot| (slot, self.rows_of_pass(slot, mapping.physical, pass));
            let slots = rebuild.slots.iter().copied().filter(lacks).map(rows);
            let slots: Vec<(Slot, Vec<usize>)> = slots.filter(|(_, rows)| !rows.is_empty()).collect();
            if slots.is_empty() {
                continue;
            }
            let mut places = Vec::new();
            for (slot, rows) in &slots {
                let column = self.geometry.column(mapping.physical, *slot);
                let cells: Vec<CellIndex> = self.geometry.code.column_cells(column).collect();
                for &row in rows {
                    places.extend((0..self.geometry.element_blocks()).map(|offset| (cells[row], offset)));
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

    /// Flushes rebuilt blocks now and then and at the end; `true`: the cursor has moved already.
    fn flush_rebuild(&mut self, pass: Pass) -> bool {
        let ends = self.geometry.logical_stripes();
        let Some(rebuild) = &self.members.rebuild else { return false };
        let cursor = self.cursor(&rebuild.slots, pass);
        let Some(rebuild) = &mut self.members.rebuild else { return false };
        let behind = rebuild.behind();
        let is_much = rebuild.blocks_since_flush >= FLUSHED_BLOCKS || behind == ends;
        if rebuild.flush.is_some() || behind <= cursor || !is_much {
            return false;
        }
        rebuild.blocks_since_flush = 0;
        let slots: Vec<Slot> = rebuild.slots.iter().copied().collect();
        rebuild.flush = Some(Flush { outstanding: slots.len(), pass, behind });
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
            // Too much is lost to rebuild the stripe. Its lost data blocks are noted when it is
            // written again.
            for (slot, _) in stripe.slots.clone() {
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

    /// Takes the checksums of a stripe's blocks, and writes the chunks.
    pub(crate) fn rebuild_computed(&mut self, logical: u32, computed: &Computed) {
        let Computed { checksums: sums, .. } = computed;
        let Some(rebuild) = &self.members.rebuild else { return };
        let Some(stripe) = rebuild.stripes.get(&logical) else { return };
        let &StripeAgain { mapping, ref slots, ref content, .. } = stripe;
        let elements = self.geometry.element_blocks() as usize;
        let mut writes = Vec::new();
        let mut whole = Vec::new();
        let mut from = 0;
        for (slot, rows) in slots {
            // Places are ordered by slot, and within a slot in the order of its chunk.
            let (slot, range) = (*slot, from..from + rows.len() * elements);
            from = range.end;
            if !self.maps.is_present(slot) {
                continue;
            }
            let all_rows = self.geometry.code.rows(self.geometry.column(mapping.physical, slot));
            let mut all = vec![NOT_STORED.0; all_rows * elements];
            for (&row, sums) in rows.iter().zip(sums[range.clone()].chunks(elements)) {
                all[row * elements..(row + 1) * elements].copy_from_slice(sums);
            }
            let (header, _) = self.chunk_header(logical, mapping.physical, mapping.generation, slot, &all);
            let start = self.geometry.chunk_start(mapping.physical, slot);
            let blocks = content[range].chunks(elements);
            let blocks = blocks.map(|row| row.iter().flatten().map(|&operand| Piece::Block(operand)));
            if rows.len() == all_rows {
                whole.push(slot);
                let pieces = std::iter::once(Piece::Bytes(header)).chain(blocks.flatten()).collect();
                writes.push((slot, start, pieces));
                continue;
            }
            writes.push((slot, start, vec![Piece::Bytes(header)]));
            let behind = start.0 + u64::from(self.geometry.header_blocks(slot));
            for (&row, blocks) in rows.iter().zip(blocks) {
                writes.push((slot, DeviceBlock(behind + (row * elements) as u64), blocks.collect()));
            }
        }
        if let Some(rebuild) = &mut self.members.rebuild {
            let blocks: usize = writes.iter().map(|(_, _, pieces): &(_, _, Vec<Piece>)| pieces.len()).sum();
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
        whole.into_iter().for_each(|slot| self.chunk_is_good(slot, logical));
        for (slot, at, pieces) in writes {
            self.headers.forget(mapping.physical, slot);
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

    /// Ends a stripe that is written, or cannot be.
    fn rebuilt_stripe(&mut self, logical: u32) {
        let Some(rebuild) = &mut self.members.rebuild else { return };
        let Some(stripe) = rebuild.stripes.remove(&logical) else { return };
        rebuild.blocks_under_way -= stripe.places.len() as u64;
        stripe.content.into_iter().flatten().for_each(|content| self.io.release_operand(content));
        self.pins.unpin(stripe.mapping.physical);
    }

    /// Moves the cursor: everything rebuilt before the flush began is durable on the devices.
    fn rebuild_flushed(&mut self) {
        let Some(rebuild) = &mut self.members.rebuild else { return };
        let Some(flush) = rebuild.flush.take() else { return };
        if rebuild.blocks_since_record >= RECORDED_BLOCKS {
            rebuild.blocks_since_record = 0;
            self.records.want();
        }
        for &slot in &rebuild.slots {
            match flush.pass {
                Pass::Ahead if self.maps.rows_ahead(slot).rows != 0 => {
                    self.maps.move_ahead(slot, flush.behind)
                }
                Pass::Ahead => {}
                Pass::Whole => self.maps.move_cursor(slot, flush.behind),
            }
        }
    }

    /// Ends a part of the log rows under way; after the last part they are flushed.
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
