//! A stripe of an epoch: its data in a free place, its parity pending until it is *settled*.
//!
//! Blocks are stored in their cells of a free place and are overwritten there. Their checksums are
//! in memory alone, and verify the blocks that are read back. A stripe has one activity at a time:
//!
//! * *write*: dirty blocks go to their cells;
//! * *fill*: all data are in memory: parity is computed and kept in memory, and data and headers
//!   are written together. If none of the data is on a device yet, this is a *settle* instead, and
//!   parity is written with them;
//! * *settle*: missing blocks are fetched from memory, the epoch's own cells, or the content from
//!   before the epoch. Lost ones are computed if their parity is made. Parity is made unless memory
//!   has it. All blocks and headers that a present device lacks are written.
//!
//! Invariant: a block is `held` if its device has its current content, written and reported. A
//! block that is neither held nor in memory nor computable is *lost*; the stripe cannot be settled
//! until the block is written again.

mod losses;
mod settle;
mod write;

use crate::engine::Engine;
use crate::fetch::Requester;
use crate::maps::Mapping;
use crate::{BufferId, DeviceBlock, EpochId, Operand, Slot, UserBlock};
use pantile_code::CellIndex;
use pantile_format::Crc64;
use std::collections::BTreeSet;

/// Names a stripe of an epoch within the engine.
pub(crate) type OwedId = u64;

/// The way in which a read of a block within an epoch goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// The epoch delivers the block itself.
    Done,
    /// The epoch has not written the block: its content from before the epoch is read.
    Base,
}

/// A stripe that an epoch writes. Its blocks are numbered by cell, then by offset in the cell.
#[derive(Debug)]
pub(super) struct Owed {
    pub(super) epoch: EpochId,
    pub(super) logical: u32,
    pub(super) physical: u32,
    pub(super) generation: u64,
    /// The number of its last write.
    pub(super) version: u64,
    /// The number of the last write that is on the devices.
    pub(super) clean: u64,
    /// The number of the first write whose parity is pending.
    since: u64,
    content: Vec<Option<Operand>>,
    /// Data blocks whose content the epoch has; the others have their content from before the
    /// epoch.
    known: Vec<bool>,
    /// Of these blocks, those that the epoch has written. The others were copied from before the
    /// epoch, and can be read from there again.
    own: Vec<bool>,
    held: Vec<bool>,
    pub(super) sums: Vec<Option<u64>>,
    pub(super) lost: BTreeSet<usize>,
    /// Blocks that were written to and are not on their way to a device.
    dirty: BTreeSet<usize>,
    /// By slot, true if its header is up to date.
    headers: Vec<bool>,
    pub(super) digests: Vec<Option<Crc64>>,
    /// Parity of the current data is in memory or on devices.
    has_parity: bool,
    /// Parity was written to devices.
    wrote_parity: bool,
    /// A header was written under this generation, or its write was begun.
    wrote_header: bool,
    /// Every device that is present has all of its chunk.
    pub(super) settled: bool,
    activity: Option<Activity>,
    waiting: Vec<(crate::RequestId, usize)>,
    /// The blocks of a lost device must stay in memory, because parity that could compute them is
    /// about to be overwritten.
    pub(super) recalled: bool,
    /// The stripe is dropped: its writes under way are of no use.
    pub(super) dropped: bool,
    /// The stripe uses a place in addition to the one that its logical stripe is mapped to.
    extra: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Write,
    Fill,
    Settle,
    Recall,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Gather,
    Compute,
    Write,
}

#[derive(Debug)]
struct Activity {
    kind: Kind,
    phase: Phase,
    version: u64,
    generation: u64,
    outstanding: usize,
    /// Content that each block has or will have; its buffers are held until the activity ends.
    have: Vec<Option<Operand>>,
    /// Blocks that could not be read from the device that should have them.
    bad: BTreeSet<usize>,
    /// Blocks whose content from before the epoch is lost as well.
    groundless: BTreeSet<usize>,
    /// Blocks that were asked for, and are not asked for again.
    asked: BTreeSet<usize>,
    runs: Vec<Vec<(usize, BufferId)>>,
    /// Buffers that the computation fills: lost blocks here, then parity.
    recovered: Vec<(usize, BufferId)>,
    made: Vec<(usize, BufferId)>,
    sums: Vec<u64>,
    /// Blocks and headers that are being written to devices.
    blocks: Vec<usize>,
    headers: Vec<Slot>,
    /// Devices that have been lost since the activity began.
    gone: BTreeSet<Slot>,
}

impl Owed {
    pub(super) fn is_idle(&self) -> bool {
        self.activity.is_none()
    }

    pub(super) fn is_settling(&self) -> bool {
        self.activity.as_ref().is_some_and(|activity| activity.kind == Kind::Settle)
    }

    /// Notes a block that cannot be read where it was. One that was filled in falls back to its
    /// content before the epoch; returns the number of such blocks.
    fn lose(&mut self, at: usize) -> u64 {
        if self.own[at] {
            self.lost.insert(at);
            return 0;
        }
        u64::from(std::mem::replace(&mut self.known[at], false))
    }

    /// Returns the number of data blocks whose content the epoch has.
    pub(super) fn known_blocks(&self) -> u64 {
        self.known.iter().filter(|known| **known).count() as u64
    }
}

/// Blocks of epochs in memory.
#[derive(Debug, Default)]
pub(super) struct InMemory {
    pub(super) data_blocks: usize,
    pub(super) parity_blocks: usize,
}

impl InMemory {
    /// Counts a change of a stripe's data in memory.
    fn count_data(&mut self, before: Option<Operand>, after: Option<Operand>) {
        let blocks = |content: Option<Operand>| usize::from(matches!(content, Some(Operand::Buffer(_))));
        self.data_blocks = self.data_blocks + blocks(after) - blocks(before);
    }

    fn count_parity(&mut self, before: Option<Operand>, after: Option<Operand>) {
        let blocks = |content: Option<Operand>| usize::from(content.is_some());
        self.parity_blocks = self.parity_blocks + blocks(after) - blocks(before);
    }
}

impl Engine {
    /// Returns the index of a block of a stripe, from its place in the stripe's data.
    pub(crate) fn owed_index(&self, place: u32) -> usize {
        let (cell, offset) = self.geometry.cell_of(place);
        cell.usize() * self.geometry.element_blocks() as usize + offset as usize
    }

    /// Returns the device and address of a block.
    pub(crate) fn owed_place(&self, physical: u32, at: usize) -> (Slot, DeviceBlock) {
        let element = self.geometry.element_blocks() as usize;
        self.geometry.cell_block(physical, CellIndex((at / element) as u32), (at % element) as u32)
    }

    fn owed_blocks(&self) -> usize {
        self.geometry.code.cell_count() * self.geometry.element_blocks() as usize
    }

    fn data_indexes(&self) -> Vec<usize> {
        (0..self.geometry.stripe_blocks() as u32).map(|place| self.owed_index(place)).collect()
    }

    fn indexes_on(&self, physical: u32, slot: Slot) -> Vec<usize> {
        let element = self.geometry.element_blocks() as usize;
        let column = self.geometry.column(physical, slot);
        let cells = self.geometry.code.column_cells(column);
        cells.flat_map(|cell| (0..element).map(move |offset| cell.usize() * element + offset)).collect()
    }

    pub(crate) fn owed_generations(&self) -> impl Iterator<Item = u64> {
        self.delayed.stripes.values().map(|owed| owed.generation)
    }

    /// Begins a stripe of an epoch in a free place.
    pub(crate) fn make_owed(&mut self, epoch: EpochId, logical: u32, physical: u32, extra: bool) {
        let (blocks, slots) = (self.owed_blocks(), self.geometry.slots());
        let generation = self.maps.new_generation();
        self.pins.pin(physical);
        self.delayed.extra_places += usize::from(extra);
        self.delayed.writes += 1;
        let (id, since) = (self.io.next_id(), self.delayed.writes);
        let owed = Owed {
            epoch,
            logical,
            physical,
            generation,
            version: since,
            clean: since,
            since,
            content: vec![None; blocks],
            known: vec![false; blocks],
            own: vec![false; blocks],
            held: vec![false; blocks],
            sums: vec![None; blocks],
            lost: BTreeSet::new(),
            dirty: BTreeSet::new(),
            headers: vec![false; slots],
            digests: vec![None; slots],
            has_parity: false,
            wrote_parity: false,
            wrote_header: false,
            settled: false,
            activity: None,
            waiting: Vec::new(),
            recalled: false,
            dropped: false,
            extra,
        };
        self.delayed.stripes.insert(id, owed);
        if let Some(known) = self.delayed.epochs.get_mut(&epoch) {
            known.stripes.insert(logical, id);
            known.owed.insert(since, id);
        }
    }

    /// Takes a new content of a block of an epoch.
    pub(crate) fn put_within(&mut self, epoch: EpochId, block: UserBlock, content: Operand) {
        let (logical, place) = self.geometry.locate(block);
        let at = self.owed_index(place);
        let id = self.delayed.epochs.get(&epoch).and_then(|known| known.stripes.get(&logical)).copied();
        let Some(id) = id else { return };
        self.spoil_parity(id);
        let Some(owed) = self.delayed.stripes.get_mut(&id) else { return };
        let before = owed.content[at].replace(content);
        let is_new = !std::mem::replace(&mut owed.known[at], true);
        owed.own[at] = true;
        owed.held[at] = false;
        owed.sums[at] = None;
        owed.lost.remove(&at);
        owed.dirty.insert(at);
        if let Some(known) = self.delayed.epochs.get_mut(&epoch) {
            known.owed_blocks += u64::from(is_new);
        }
        self.delayed.memory.count_data(before, Some(content));
        before.into_iter().for_each(|operand| self.io.release_operand(operand));
    }

    /// Returns true if a stripe can be written to. If parity or headers have been written, all of
    /// its data must be in memory first; missing blocks are then being read. There are two reasons.
    /// A lost device's data can only be computed from the parity, which the write invalidates. And
    /// all data are written again under a new generation: otherwise old data with their old header
    /// could pass for new ones on a device that lost both writes.
    pub(crate) fn recall(&mut self, id: OwedId) -> bool {
        let data = self.data_indexes();
        let Some(owed) = self.delayed.stripes.get_mut(&id) else { return true };
        let is_away = |at: &usize| owed.own[*at] && owed.content[*at].is_none() && !owed.lost.contains(at);
        let is_needed =
            |at: &usize| is_away(at) && (owed.wrote_header || (owed.has_parity && !owed.held[*at]));
        if !data.iter().any(is_needed) {
            return true;
        }
        owed.recalled = true;
        if owed.is_idle() {
            self.begin_activity(id, Kind::Recall);
            self.gather_owed(id);
            self.owed_part_done(id);
        }
        false
    }

    /// Makes the parity of a settled stripe pending again.
    fn owe_again(&mut self, id: OwedId) {
        let Some(owed) = self.delayed.stripes.get_mut(&id) else { return };
        if !std::mem::take(&mut owed.settled) {
            return;
        }
        self.delayed.writes += 1;
        owed.since = self.delayed.writes;
        let (epoch, since, blocks) = (owed.epoch, owed.since, owed.known_blocks());
        if let Some(known) = self.delayed.epochs.get_mut(&epoch) {
            known.owed.insert(since, id);
            known.owed_blocks += blocks;
        }
    }

    /// Invalidates the parity of a stripe whose data change, and makes it pending again.
    fn spoil_parity(&mut self, id: OwedId) {
        let data: BTreeSet<usize> = match self.delayed.stripes.get(&id) {
            Some(owed) if owed.has_parity || owed.settled || owed.wrote_header => {
                self.data_indexes().into_iter().collect()
            }
            _ => return,
        };
        let generation = self.maps.generation();
        let Some(owed) = self.delayed.stripes.get_mut(&id) else { return };
        let mut released = Vec::new();
        owed.has_parity = false;
        for at in (0..owed.held.len()).filter(|at| !data.contains(at)) {
            owed.held[at] = false;
            owed.sums[at] = None;
            let before = owed.content[at].take();
            self.delayed.memory.count_parity(before, None);
            released.extend(before);
        }
        owed.headers.fill(false);
        if std::mem::take(&mut owed.wrote_header) {
            // From here on it is another stripe in the same place; what was read for this is in
            // memory.
            owed.generation = generation;
            self.maps.use_generations(1);
            for &at in &data {
                owed.held[at] = false;
                owed.sums[at] = None;
                if owed.own[at] && owed.content[at].is_some() {
                    owed.dirty.insert(at);
                }
            }
        }
        let (epoch, wasted) = (owed.epoch, std::mem::take(&mut owed.wrote_parity));
        let gone = |at: &usize| {
            owed.known[*at] && !owed.held[*at] && owed.content[*at].is_none() && !owed.lost.contains(at)
        };
        let gone: Vec<usize> = data.iter().copied().filter(gone).collect();
        self.owe_again(id);
        self.lose_blocks(id, &gone);
        self.count_wasted(epoch, wasted);
        released.into_iter().for_each(|operand| self.io.release_operand(operand));
    }

    fn count_wasted(&mut self, epoch: EpochId, wasted: bool) {
        self.delayed.wasted += u64::from(wasted);
        if let Some(known) = self.delayed.epochs.get_mut(&epoch) {
            known.wasted += u64::from(wasted);
        }
    }

    /// Takes data of a stripe out of memory, or begins the writes that allow it; returns the number
    /// of blocks.
    pub(crate) fn relieve(&mut self, id: OwedId) -> usize {
        let data = self.data_indexes();
        let Some(owed) = self.delayed.stripes.get(&id) else { return 0 };
        let blocks = data.iter().filter(|&&at| matches!(owed.content[at], Some(Operand::Buffer(_)))).count();
        if owed.is_idle() {
            if owed.recalled {
                return 0;
            }
            if owed.clean < owed.version {
                self.write_owed(id);
            } else {
                self.release_held(id);
                // Blocks of a lost device can leave memory once they have parity.
                let stays = |owed: &Owed| data.iter().any(|&at| owed.content[at].is_some());
                if self.delayed.stripes.get(&id).is_some_and(|owed| stays(owed) && owed.lost.is_empty()) {
                    self.settle_owed(id);
                }
            }
        }
        blocks
    }

    /// Releases data that devices have.
    pub(crate) fn release_held(&mut self, id: OwedId) {
        let data = self.data_indexes();
        let Some(owed) = self.delayed.stripes.get_mut(&id) else { return };
        let mut released = Vec::new();
        for &at in data.iter().filter(|&&at| owed.held[at]) {
            let before = owed.content[at].take();
            self.delayed.memory.count_data(before, None);
            released.extend(before);
        }
        if data.iter().all(|&at| owed.content[at].is_none()) {
            self.delayed.in_memory.remove(&(owed.version, id));
        }
        released.into_iter().for_each(|operand| self.io.release_operand(operand));
    }

    fn begin_activity(&mut self, id: OwedId, kind: Kind) {
        let blocks = self.owed_blocks();
        let Some(owed) = self.delayed.stripes.get_mut(&id) else { return };
        let have = owed.content.clone();
        owed.dirty.clear();
        owed.activity = Some(Activity {
            kind,
            phase: Phase::Gather,
            version: owed.version,
            generation: owed.generation,
            outstanding: 1,
            have: have.clone(),
            bad: BTreeSet::new(),
            groundless: BTreeSet::new(),
            asked: BTreeSet::new(),
            runs: Vec::new(),
            recovered: Vec::new(),
            made: Vec::new(),
            sums: Vec::new(),
            blocks: Vec::new(),
            headers: Vec::new(),
            gone: BTreeSet::new(),
        });
        if let Some(known) = self.delayed.epochs.get_mut(&owed.epoch) {
            known.active += 1;
        }
        if kind == Kind::Settle {
            self.delayed.settling_blocks += blocks as u64;
        }
        for operand in have.into_iter().flatten() {
            if let Operand::Buffer(buffer) = operand {
                self.io.hold(buffer);
            }
        }
    }

    fn act_on<T>(&mut self, id: OwedId, what: impl FnOnce(&mut Activity) -> T) -> Option<T> {
        self.delayed.stripes.get_mut(&id)?.activity.as_mut().map(what)
    }

    /// Drops a stripe. Its place becomes free when all I/O of it has been reported.
    pub(crate) fn drop_owed(&mut self, id: OwedId) {
        let Some(owed) = self.delayed.stripes.get_mut(&id) else { return };
        owed.dropped = true;
        let (epoch, since, settled) = (owed.epoch, owed.since, owed.settled);
        let (blocks, wasted) = (owed.known_blocks(), std::mem::take(&mut owed.wrote_parity));
        let is_idle = owed.is_idle();
        let waiting = std::mem::take(&mut owed.waiting);
        if let Some(known) = self.delayed.epochs.get_mut(&epoch) {
            known.owed.remove(&since);
            known.lost.remove(&id);
            known.owed_blocks -= if settled { 0 } else { blocks };
        }
        self.count_wasted(epoch, wasted);
        if is_idle {
            self.free_owed(id);
        }
        self.round_of(epoch, id);
        waiting.into_iter().for_each(|(request, index)| self.resolve_within(request, vec![index]));
    }

    /// Releases a stripe's memory and place.
    fn free_owed(&mut self, id: OwedId) {
        let data: BTreeSet<usize> = self.data_indexes().into_iter().collect();
        let Some(mut owed) = self.delayed.stripes.remove(&id) else { return };
        self.delayed.in_memory.remove(&(owed.version, id));
        for (at, content) in owed.content.iter_mut().enumerate() {
            let before = content.take();
            match data.contains(&at) {
                true => self.delayed.memory.count_data(before, None),
                false => self.delayed.memory.count_parity(before, None),
            }
            before.into_iter().for_each(|operand| self.io.release_operand(operand));
        }
        self.delayed.extra_places -= usize::from(owed.extra);
        self.pins.unpin(owed.physical);
    }

    /// Notes that the record which maps a stripe is durable.
    pub(crate) fn keep_ended(&mut self, id: OwedId) {
        let Some(owed) = self.delayed.stripes.get_mut(&id) else { return };
        owed.wrote_parity = false;
        let (physical, generation) = (owed.physical, owed.generation);
        let sums: Option<Vec<u64>> = owed.sums.iter().copied().collect();
        if let Some(sums) = sums {
            self.keep_stripe_sums(physical, generation, &sums);
        }
        self.free_owed(id);
    }

    /// Reads a block of a stripe of an epoch.
    pub(super) fn read_owed(
        &mut self,
        (id, index): (crate::RequestId, usize),
        owed_id: OwedId,
        place: u32,
    ) -> Task {
        let at = self.owed_index(place);
        let Some(owed) = self.delayed.stripes.get(&owed_id) else { return Task::Base };
        let block = UserBlock(u64::from(owed.logical) * self.geometry.stripe_blocks() + u64::from(place));
        let requester = Requester::User(id, index);
        if let Some(content) = owed.content[at] {
            self.deliver(requester, block, Some(content));
        } else if owed.lost.contains(&at) {
            self.deliver(requester, block, None);
        } else if !owed.known[at] {
            return Task::Base;
        } else if owed.settled {
            let (logical, physical, generation, version) =
                (owed.logical, owed.physical, owed.generation, owed.version);
            if let Some(sums) = owed.sums.iter().copied().collect::<Option<Vec<u64>>>() {
                self.keep_stripe_sums(physical, generation, &sums);
            }
            let (cell, offset) = self.geometry.cell_of(place);
            let requester = Requester::Epoch { id, index, owed: owed_id, version };
            self.fetch_cell(block, requester, logical, Mapping { physical, generation }, cell, offset);
        } else if owed.held[at] {
            self.read_in_place((id, index), owed_id, at);
        } else if owed.has_parity && owed.own[at] && owed.lost.is_empty() {
            // The block is computed when the stripe is settled or recalled.
            let (is_idle, recalled) = (owed.is_idle(), owed.recalled);
            if let Some(owed) = self.delayed.stripes.get_mut(&owed_id) {
                owed.waiting.push((id, index));
            }
            match (is_idle, recalled) {
                (true, true) => drop(self.recall(owed_id)),
                (true, false) => self.settle_owed(owed_id),
                (false, _) => {}
            }
        } else {
            self.lose_blocks(owed_id, &[at]);
            if self.delayed.stripes.get(&owed_id).is_none_or(|owed| !owed.known[at]) {
                return Task::Base;
            }
            self.deliver(requester, block, None);
        }
        Task::Done
    }
}
