//! A stripe of an epoch: its data where nothing maps to, its parity owed until it is *settled*.
//!
//! Blocks lie at their home cells in a free place and are overwritten there. The checksums of what was written are in memory alone, so
//! what is read back is verified. One thing is done with a stripe at a time:
//!
//! * *write*: what is dirty goes to its cells;
//! * *fill*: all data are in memory: parity is computed and kept in memory, data and headers are written as one;
//! * *settle*: what is missing is fetched (memory, the epoch's own cells, what was committed before), what is lost is computed if there is
//!   parity of it, parity is made unless memory has it, and everything is written that a present device lacks, headers too.
//!
//! Invariant: `held` means that the device has the block as it is now, written and reported; a block that is neither held nor in memory
//! nor computable is *lost*, and then the stripe cannot be settled until the block is written again.

use crate::engine::{Engine, IoOwner, JobOwner};
use crate::fetch::Requester;
use crate::maps::Mapping;
use crate::{
    Action, BufferId, Bug, Compute, Computed, DeviceBlock, EpochId, IoResult, Operand, Piece, Seed, Slot,
    Sum, Urgency, UserBlock,
};
use pantile_code::CellIndex;
use pantile_format::Crc64;
use pantile_plan::CellSet;
use std::collections::{BTreeMap, BTreeSet};

/// Names a stripe of an epoch within the engine.
pub(crate) type OwedId = u64;

/// Whether a read of a stripe's block is seen to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// It is.
    Done,
    /// The epoch has not written it: what was there before counts.
    Base,
}

/// A stripe that an epoch writes. Blocks are numbered by cell, then by their place in it.
#[derive(Debug)]
pub(crate) struct Owed {
    pub(crate) epoch: EpochId,
    pub(crate) logical: u32,
    pub(crate) physical: u32,
    pub(crate) generation: u64,
    /// The number of its last write.
    pub(crate) version: u64,
    /// That of the last write that is on the devices.
    pub(crate) clean: u64,
    /// The number of the first write whose parity is owed.
    since: u64,
    content: Vec<Option<Operand>>,
    /// What the epoch has; of other blocks what was there before counts.
    known: Vec<bool>,
    /// What the epoch has written of that; the rest was filled in from before, and can be had from there again.
    own: Vec<bool>,
    held: Vec<bool>,
    pub(crate) sums: Vec<Option<u64>>,
    pub(crate) lost: BTreeSet<usize>,
    /// Written to and not on the way to a device.
    dirty: BTreeSet<usize>,
    /// By slot, whether its header is of now.
    headers: Vec<bool>,
    pub(crate) digests: Vec<Option<Crc64>>,
    /// Parity of the data as they are now is in memory or on devices.
    has_parity: bool,
    /// Parity was written to devices.
    wrote_parity: bool,
    /// A header was written, or begun to be, under this generation.
    wrote_header: bool,
    /// Every device that is present has all of it.
    pub(crate) settled: bool,
    activity: Option<Activity>,
    waiting: Vec<(crate::RequestId, usize)>,
    /// What a lost device had of it is to stay in memory, because its parity is about to be spoiled.
    pub(crate) recalled: bool,
    /// Nobody wants it any more.
    pub(crate) dropped: bool,
    /// It takes a place beside the one that its logical stripe has.
    extra: bool,
    /// Its place is not its own any more: only planted bugs do that.
    placeless: bool,
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

/// What is being done with a stripe.
#[derive(Debug)]
struct Activity {
    kind: Kind,
    phase: Phase,
    version: u64,
    generation: u64,
    outstanding: usize,
    /// What is or will be there of each block; held for as long as this lasts.
    have: Vec<Option<Operand>>,
    /// Blocks that were looked for and cannot be had where they were.
    bad: BTreeSet<usize>,
    /// What was there before cannot be had either.
    groundless: BTreeSet<usize>,
    /// Asked for, and not to be asked for again.
    asked: BTreeSet<usize>,
    runs: Vec<Vec<(usize, BufferId)>>,
    /// Buffers that the computation makes: what was lost, then parity.
    recovered: Vec<(usize, BufferId)>,
    made: Vec<(usize, BufferId)>,
    sums: Vec<u64>,
    /// Blocks and headers on their way to devices.
    blocks: Vec<usize>,
    headers: Vec<Slot>,
    /// Devices that were lost meanwhile.
    gone: BTreeSet<Slot>,
}

impl Owed {
    pub(crate) fn is_idle(&self) -> bool {
        self.activity.is_none()
    }

    pub(crate) fn is_settling(&self) -> bool {
        self.activity.as_ref().is_some_and(|activity| activity.kind == Kind::Settle)
    }

    /// Whether it is being settled and nothing but writes is left to be done.
    pub(crate) fn is_encoded(&self) -> bool {
        let writes = |activity: &Activity| activity.kind == Kind::Settle && activity.phase == Phase::Write;
        self.activity.as_ref().is_some_and(writes)
    }

    /// A block cannot be had from where it was. One that was filled in is as before it was; how many of them that makes.
    fn lose(&mut self, at: usize) -> u64 {
        if self.own[at] {
            self.lost.insert(at);
            return 0;
        }
        u64::from(std::mem::replace(&mut self.known[at], false))
    }

    /// Blocks of data that the epoch has.
    pub(crate) fn known_blocks(&self) -> u64 {
        self.known.iter().filter(|known| **known).count() as u64
    }
}

/// Blocks of epochs in memory.
#[derive(Debug, Default)]
pub(crate) struct InMemory {
    pub(crate) data_blocks: usize,
    pub(crate) parity_blocks: usize,
}

impl InMemory {
    /// A stripe has more or less of its data in memory.
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
    /// The number of a block of a stripe, by its place in the stripe's data.
    pub(crate) fn owed_index(&self, place: u32) -> usize {
        let (cell, offset) = self.geometry.cell_of(place);
        cell.usize() * self.geometry.element_blocks() as usize + offset as usize
    }

    /// The device and address of a block.
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

    /// Begins a stripe in a free place.
    pub(crate) fn make_owed(&mut self, epoch: EpochId, logical: u32, physical: u32, extra: bool) {
        let (blocks, slots) = (self.owed_blocks(), self.geometry.slots());
        let generation = self.maps.generation;
        self.maps.generation += 1;
        *self.pins.entry(physical).or_default() += 1;
        self.delayed.extra_places += usize::from(extra);
        self.delayed.writes += 1;
        let (id, since) = (self.next_id(), self.delayed.writes);
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
            placeless: false,
        };
        self.delayed.stripes.insert(id, owed);
        if let Some(known) = self.delayed.epochs.get_mut(&epoch) {
            known.stripes.insert(logical, id);
            known.owed.insert(since, id);
        }
    }

    /// A block of an epoch has a new content.
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
        before.into_iter().for_each(|operand| self.release_operand(operand));
    }

    /// Whether a stripe may be written to. Where parity or headers have been written, all its data must be in memory first: a lost device's
    /// are known by parity alone, which the write spoils; and all are written again under a new generation, or old data with their old
    /// header could pass for the new ones on a device that lost both writes. If they are not there, they are being read.
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

    /// A settled stripe is owed again.
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

    /// The data of a stripe change: what was made of them does not count any more, and is owed again.
    fn spoil_parity(&mut self, id: OwedId) {
        let data: BTreeSet<usize> = match self.delayed.stripes.get(&id) {
            Some(owed) if owed.has_parity || owed.settled || owed.wrote_header => {
                self.data_indexes().into_iter().collect()
            }
            _ => return,
        };
        let keeps = self.planted.is(Bug::KeepsStaleParity);
        let generation = self.maps.generation;
        let Some(owed) = self.delayed.stripes.get_mut(&id) else { return };
        let mut released = Vec::new();
        owed.has_parity = false;
        for at in (0..owed.held.len()).filter(|at| !data.contains(at)) {
            owed.held[at] &= keeps;
            owed.sums[at] = None;
            let before = owed.content[at].take();
            self.delayed.memory.count_parity(before, None);
            released.extend(before);
        }
        owed.headers.fill(false);
        if std::mem::take(&mut owed.wrote_header) && !keeps {
            // From here on it is another stripe in the same place; what was read for this is in memory.
            owed.generation = generation;
            self.maps.generation += 1;
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
        released.into_iter().for_each(|operand| self.release_operand(operand));
    }

    fn count_wasted(&mut self, epoch: EpochId, wasted: bool) {
        self.delayed.wasted += u64::from(wasted);
        if let Some(known) = self.delayed.epochs.get_mut(&epoch) {
            known.wasted += u64::from(wasted);
        }
    }

    /// A request has written to a stripe.
    pub(crate) fn owed_written(&mut self, id: OwedId) {
        self.delayed.writes += 1;
        let version = self.delayed.writes;
        let Some(owed) = self.delayed.stripes.get_mut(&id) else { return };
        self.delayed.in_memory.remove(&(owed.version, id));
        owed.version = version;
        self.delayed.in_memory.insert((version, id));
        self.look_at_losses(id);
        self.fill_if_whole(id);
    }

    /// A stripe is with those that have lost something, or with those whose parity can be made.
    fn look_at_losses(&mut self, id: OwedId) {
        let Some(owed) = self.delayed.stripes.get(&id) else { return };
        let Some(known) = self.delayed.epochs.get_mut(&owed.epoch) else { return };
        if owed.dropped || owed.settled {
            return;
        }
        if owed.lost.is_empty() {
            known.lost.remove(&id);
            known.owed.insert(owed.since, id);
        } else {
            known.owed.remove(&owed.since);
            known.lost.insert(id);
        }
    }

    /// Begins parity of a stripe whose data are all in memory.
    fn fill_if_whole(&mut self, id: OwedId) {
        let data = self.data_indexes();
        let Some(owed) = self.delayed.stripes.get(&id) else { return };
        let is_whole = data.iter().all(|&at| owed.content[at].is_some());
        if owed.is_idle() && is_whole && !owed.has_parity && !owed.dirty.is_empty() {
            self.begin_activity(id, Kind::Fill);
            self.encode_owed(id);
            self.owed_part_done(id);
        }
    }

    /// Writes what is dirty.
    pub(crate) fn write_owed(&mut self, id: OwedId) {
        self.fill_if_whole(id);
        let Some(owed) = self.delayed.stripes.get(&id) else { return };
        if !owed.is_idle() || owed.clean >= owed.version {
            return;
        }
        // What a lost device should have stays in memory.
        let on_present = |at: &usize| self.maps.is_present(self.owed_place(owed.physical, *at).0);
        let dirty: Vec<usize> = owed.dirty.iter().copied().filter(on_present).collect();
        self.begin_activity(id, Kind::Write);
        let Some(owed) = self.delayed.stripes.get_mut(&id) else { return };
        let (physical, generation) = (owed.physical, owed.generation);
        let contents: Vec<Option<Operand>> = dirty.iter().map(|&at| owed.content[at]).collect();
        let mut checksums = Vec::new();
        for (&at, content) in dirty.iter().zip(contents) {
            let (slot, address) = self.owed_place(physical, at);
            let Some(content) = content else { continue };
            checksums.push((content, Seed { slot, address, generation }));
        }
        self.act_on(id, |activity| {
            activity.blocks = dirty;
            activity.outstanding += 1;
            activity.phase = Phase::Write;
        });
        let job = self.new_job(JobOwner::Owed(id));
        self.act(Action::Compute { job, work: Compute { sums: Vec::new(), checksums } });
        self.write_activity(id, false);
        self.owed_part_done(id);
    }

    /// Takes data of a stripe out of memory, or sees to it that they can be; how many there are.
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
                // What a lost device should have can be let go when there is parity of it.
                let stays = |owed: &Owed| data.iter().any(|&at| owed.content[at].is_some());
                if self.delayed.stripes.get(&id).is_some_and(|owed| stays(owed) && owed.lost.is_empty()) {
                    self.settle_owed(id);
                }
            }
        }
        blocks
    }

    /// Lets data go that devices have.
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
        released.into_iter().for_each(|operand| self.release_operand(operand));
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
                self.hold(buffer);
            }
        }
    }

    fn act_on<T>(&mut self, id: OwedId, what: impl FnOnce(&mut Activity) -> T) -> Option<T> {
        self.delayed.stripes.get_mut(&id)?.activity.as_mut().map(what)
    }

    /// Makes the parity of a stripe durable-to-be: everything that it lacks is written.
    pub(crate) fn settle_owed(&mut self, id: OwedId) {
        let Some(owed) = self.delayed.stripes.get(&id) else { return };
        if !owed.is_idle() || owed.settled || owed.dropped || !owed.lost.is_empty() {
            return;
        }
        self.begin_activity(id, Kind::Settle);
        self.gather_owed(id);
        self.owed_part_done(id);
    }

    /// Whether the stripe's parity is known and all that present devices lack is in memory.
    fn has_all_that_lacks(&self, owed: &Owed) -> bool {
        owed.has_parity
            && owed.sums.iter().all(Option::is_some)
            && self.present().into_iter().all(|slot| {
                let of_slot = self.indexes_on(owed.physical, slot);
                of_slot.into_iter().all(|at| owed.held[at] || owed.content[at].is_some())
            })
    }

    /// Asks for what is not in memory: from the epoch's own cells, or from before.
    fn gather_owed(&mut self, id: OwedId) {
        let data = self.data_indexes();
        let is_data: BTreeSet<usize> = data.iter().copied().collect();
        let Some(owed) = self.delayed.stripes.get(&id) else { return };
        if owed.is_settling() && self.has_all_that_lacks(owed) {
            return;
        }
        let Some(activity) = &owed.activity else { return };
        let (physical, generation, logical) = (owed.physical, owed.generation, owed.logical);
        let lacks = |at: usize| activity.have[at].is_none() && !activity.bad.contains(&at);
        let recalls = activity.kind == Kind::Recall;
        let missing = |at: &usize| activity.have[*at].is_none() && !owed.held[*at];
        let recovers = owed.has_parity && data.iter().any(|at| missing(at) || activity.bad.contains(at));
        let wanted = |at: usize| is_data.contains(&at) || recovers;
        let mut reads: BTreeMap<(Slot, DeviceBlock), usize> = BTreeMap::new();
        let mut before: Vec<usize> = Vec::new();
        for at in (0..owed.held.len()).filter(|&at| wanted(at) && lacks(at) && !activity.asked.contains(&at))
        {
            if owed.held[at] {
                reads.insert(self.owed_place(physical, at), at);
            } else if is_data.contains(&at) && !owed.known[at] && !owed.has_parity && !recalls {
                before.push(at);
            }
        }
        let is_unmapped =
            self.delayed.epochs.get(&owed.epoch).is_some_and(|known| known.unmapped.contains(&logical));
        let mut runs: Vec<(Slot, DeviceBlock, Vec<usize>)> = Vec::new();
        for ((slot, address), at) in reads {
            match runs.last_mut() {
                Some((s, first, run)) if *s == slot && first.0 + run.len() as u64 == address.0 => {
                    run.push(at)
                }
                _ => runs.push((slot, address, vec![at])),
            }
        }
        for (slot, address, run) in runs {
            let run: Vec<(usize, BufferId)> = run.into_iter().map(|at| (at, self.new_buffer())).collect();
            let into = run.iter().map(|&(_, buffer)| buffer).collect();
            let number = self.act_on(id, |activity| {
                activity.asked.extend(run.iter().map(|&(at, _)| at));
                activity.outstanding += 1;
                activity.runs.push(run);
                activity.runs.len() - 1
            });
            let Some(run) = number else { return };
            let io = self.new_io(slot, IoOwner::OwedRun { owed: id, run });
            let urgency = Urgency::User;
            self.act(Action::Read { io, slot, at: address, into, generation, urgency });
        }
        if before.is_empty() {
            return;
        }
        self.act_on(id, |activity| {
            activity.asked.extend(&before);
            activity.outstanding += before.len();
        });
        let first = u64::from(logical) * self.geometry.stripe_blocks();
        let place_of: BTreeMap<usize, u64> = (0..).zip(&data).map(|(place, &at)| (at, place)).collect();
        let mut elsewhere = Vec::new();
        for at in before {
            let (block, requester) =
                (UserBlock(first + place_of[&at]), Requester::Settle { owed: id, index: at });
            match is_unmapped {
                true => self.deliver(requester, block, Some(Operand::Zeros)),
                false => elsewhere.push((block, requester)),
            }
        }
        self.resolve_all(elsewhere);
    }

    /// What was there before of a block is here, or cannot be had.
    pub(crate) fn settle_had(&mut self, id: OwedId, at: usize, content: Option<Operand>) {
        let had = self.act_on(id, |activity| match content {
            Some(content) => activity.have[at] = Some(content),
            None => {
                activity.bad.insert(at);
                activity.groundless.insert(at);
            }
        });
        match had {
            Some(()) => self.owed_part_done(id),
            None => content.into_iter().for_each(|operand| self.release_operand(operand)),
        }
    }

    /// Blocks of the epoch's own were read back, or could not be.
    pub(crate) fn owed_run_read(&mut self, id: OwedId, number: usize, slot: Slot, result: &IoResult) {
        let Some(run) = self.act_on(id, |activity| std::mem::take(&mut activity.runs[number])) else {
            return;
        };
        let sums: Vec<Option<u64>> = match result {
            IoResult::Checksums(sums) => sums.iter().copied().map(Some).collect(),
            _ => vec![None; run.len()],
        };
        for ((at, buffer), sum) in run.into_iter().zip(sums) {
            let Some(owed) = self.delayed.stripes.get_mut(&id) else { return };
            let is_current = !owed.dirty.contains(&at);
            let good = sum.is_some() && (owed.sums[at] == sum || self.planted.is(Bug::DropsChecksum));
            let Some(activity) = &mut owed.activity else { return };
            if good {
                activity.have[at] = Some(Operand::Buffer(buffer));
                self.counts[slot.0 as usize].blocks_read += 1;
                continue;
            }
            activity.bad.insert(at);
            if !is_current {
                // Written meanwhile: of a later version, with which all of this ends in nothing.
                self.release(buffer);
                continue;
            }
            owed.held[at] = false;
            let counts = &mut self.counts[slot.0 as usize];
            counts.media_errors += u64::from(*result == IoResult::MediaError);
            counts.checksum_errors += u64::from(sum.is_some());
            self.release(buffer);
        }
        self.owed_part_done(id);
    }

    /// A part of what is being done with a stripe is done.
    pub(crate) fn owed_part_done(&mut self, id: OwedId) {
        let left = self.act_on(id, |activity| {
            activity.outstanding -= 1;
            (activity.outstanding, activity.kind, activity.phase)
        });
        match left {
            Some((0, Kind::Settle | Kind::Recall, Phase::Gather)) => self.gathered_owed(id),
            Some((0, _, Phase::Gather | Phase::Compute)) => self.encoded_owed(id),
            Some((0, _, Phase::Write)) => self.end_activity(id),
            _ => {}
        }
    }

    /// All that was asked for is here: asks for more, computes, or finds that something is lost.
    fn gathered_owed(&mut self, id: OwedId) {
        let Some(owed) = self.delayed.stripes.get(&id) else { return };
        if owed.dropped || owed.activity.as_ref().is_some_and(|activity| activity.version != owed.version) {
            return self.end_activity(id);
        }
        if owed.is_settling() && self.has_all_that_lacks(owed) {
            let sums: Vec<u64> = owed.sums.iter().map(|sum| sum.unwrap_or(0)).collect();
            self.act_on(id, |activity| activity.sums = sums);
            return self.encoded_owed(id);
        }
        self.act_on(id, |activity| activity.outstanding = 1);
        self.gather_owed(id);
        if self.act_on(id, |activity| activity.outstanding) != Some(1) {
            return self.owed_part_done(id);
        }
        // The guard stays with the computation.
        let Some(recovery) = self.recovery_of(id) else {
            return self.end_activity(id);
        };
        if recovery.is_empty() && self.act_on(id, |activity| activity.kind) == Some(Kind::Recall) {
            return self.end_activity(id);
        }
        self.encode_with(id, recovery);
        self.owed_part_done(id);
    }

    /// The sums that give what is missing of the data; `None`: something is lost, and is noted.
    fn recovery_of(&mut self, id: OwedId) -> Option<Vec<(Sum, usize, bool)>> {
        let data = self.data_indexes();
        let element = self.geometry.element_blocks() as usize;
        let owed = self.delayed.stripes.get(&id)?;
        let have = owed.activity.as_ref()?.have.clone();
        let has_parity = owed.has_parity;
        // Only what the epoch has written is worth to be recalled.
        let recalls = owed.activity.as_ref().is_some_and(|activity| activity.kind == Kind::Recall);
        let is_wanted = |at: usize| !recalls || owed.own[at];
        let wanted_data: Vec<usize> = data.iter().copied().filter(|&at| is_wanted(at)).collect();
        let mut lost: Vec<usize> = Vec::new();
        let mut plans = Vec::new();
        for offset in 0..element {
            let missing: Vec<usize> = wanted_data
                .iter()
                .copied()
                .filter(|at| at % element == offset && have[*at].is_none())
                .collect();
            if missing.is_empty() {
                continue;
            }
            let absent: Vec<CellIndex> = (0..self.geometry.code.cell_count())
                .filter(|cell| have[cell * element + offset].is_none())
                .map(|cell| CellIndex(cell as u32))
                .collect();
            let wanted: BTreeSet<CellIndex> =
                missing.iter().map(|at| CellIndex((at / element) as u32)).collect();
            let absent = CellSet::of_cells(&self.geometry.code, &absent);
            let plan = match has_parity {
                true => self.planners.recover_in_stripe(&absent, &wanted),
                false => None,
            };
            match plan {
                Some(plan) => plans.push((offset, wanted, plan)),
                None => lost.extend(missing),
            }
        }
        if !lost.is_empty() {
            // What was written meanwhile is not lost.
            let owed = self.delayed.stripes.get_mut(&id)?;
            owed.lost.extend(owed.activity.iter().flat_map(|activity| &activity.groundless));
            self.lose_blocks(id, &lost);
            self.spoil_parity(id);
            return None;
        }
        let mut sums = Vec::new();
        for (offset, wanted, plan) in plans {
            let mut made: BTreeMap<CellIndex, BufferId> = BTreeMap::new();
            for step in &plan.steps {
                let into = self.new_buffer();
                let of = |cell: CellIndex| match made.get(&cell) {
                    Some(&buffer) => Operand::Buffer(buffer),
                    None => have[cell.usize() * element + offset].expect("a step uses what is there or made"),
                };
                let terms = step.terms.iter().map(|&(cell, c)| (of(cell), c)).collect();
                made.insert(step.target, into);
                let at = step.target.usize() * element + offset;
                sums.push((Sum { into, terms }, at, wanted.contains(&step.target)));
            }
        }
        Some(sums)
    }

    /// Blocks of a stripe cannot be had from the devices, nor be computed.
    fn lose_blocks(&mut self, id: OwedId, blocks: &[usize]) {
        let Some(owed) = self.delayed.stripes.get_mut(&id) else { return };
        let gone: Vec<usize> = blocks.iter().copied().filter(|at| owed.content[*at].is_none()).collect();
        let forgotten: u64 = gone.into_iter().map(|at| owed.lose(at)).sum();
        let (epoch, settled) = (owed.epoch, owed.settled || owed.dropped);
        if let Some(known) = self.delayed.epochs.get_mut(&epoch) {
            known.owed_blocks -= if settled { 0 } else { forgotten };
        }
        self.look_at_losses(id);
    }

    /// Parity and checksums of a stripe whose data are all in memory.
    fn encode_owed(&mut self, id: OwedId) {
        self.encode_with(id, Vec::new());
    }

    fn encode_with(&mut self, id: OwedId, recovery: Vec<(Sum, usize, bool)>) {
        let data = self.data_indexes();
        let Some(owed) = self.delayed.stripes.get(&id) else { return };
        let (physical, generation) = (owed.physical, owed.generation);
        let Some(activity) = &owed.activity else { return };
        let mut have = activity.have.clone();
        let mut recovered = Vec::new();
        for (sum, at, is_wanted) in &recovery {
            if *is_wanted {
                have[*at] = Some(Operand::Buffer(sum.into));
            }
            recovered.push((if *is_wanted { *at } else { usize::MAX }, sum.into));
        }
        let content: Vec<Operand> = data.iter().map(|&at| have[at].unwrap_or(Operand::Zeros)).collect();
        let (blocks, parity, mut work) = self.encoded(physical, generation, &content);
        let made: BTreeSet<BufferId> = parity.into_iter().collect();
        let made = (0..).zip(&blocks).filter_map(|(at, block)| match block {
            Operand::Buffer(buffer) if made.contains(buffer) => Some((at, *buffer)),
            _ => None,
        });
        let made: Vec<(usize, BufferId)> = made.collect();
        work.sums.splice(0..0, recovery.into_iter().map(|(sum, ..)| sum));
        self.act_on(id, |activity| {
            activity.phase = Phase::Compute;
            activity.outstanding += 1;
            activity.recovered = recovered;
            activity.made = made;
        });
        let job = self.new_job(JobOwner::Owed(id));
        self.act(Action::Compute { job, work });
    }

    pub(crate) fn owed_computed(&mut self, id: OwedId, computed: &Computed) {
        let Computed::Checksums(sums) = computed;
        self.act_on(id, |activity| activity.sums.clone_from(sums));
        self.owed_part_done(id);
    }

    /// Parity is made, or was there: everything that a present device lacks is written.
    fn encoded_owed(&mut self, id: OwedId) {
        let Some(owed) = self.delayed.stripes.get_mut(&id) else { return };
        let (dropped, version) = (owed.dropped, owed.version);
        let mut wrong = Vec::new();
        let Some(activity) = &mut owed.activity else { return };
        let recalls = activity.kind == Kind::Recall;
        // Parity that memory had before is made again only with something that was lost.
        let mut spare = Vec::new();
        for &(at, buffer) in &activity.made {
            spare.extend(activity.have[at].replace(Operand::Buffer(buffer)));
        }
        for &(at, buffer) in &activity.recovered {
            match at {
                usize::MAX => spare.push(Operand::Buffer(buffer)),
                _ => {
                    if owed.sums[at].is_some_and(|sum| sum != activity.sums[at]) {
                        wrong.push(at);
                    }
                    let is_wrong = wrong.last() == Some(&at);
                    let before = activity.have[at].replace(Operand::Buffer(buffer));
                    spare.extend(if is_wrong { activity.have[at].take() } else { before });
                }
            }
        }
        let ends = dropped || !wrong.is_empty() || recalls || activity.version != version;
        spare.into_iter().for_each(|operand| self.release_operand(operand));
        if ends {
            if !wrong.is_empty() {
                self.lose_blocks(id, &wrong);
                self.spoil_parity(id);
            }
            return self.end_activity(id);
        }
        self.act_on(id, |activity| {
            activity.phase = Phase::Write;
            activity.outstanding = 1;
        });
        self.write_activity(id, true);
        self.owed_part_done(id);
    }

    /// The writes of what is being done: blocks that are dirty, and after a computation what else a device lacks.
    fn write_activity(&mut self, id: OwedId, encoded: bool) {
        let data: BTreeSet<usize> = self.data_indexes().into_iter().collect();
        let Some(owed) = self.delayed.stripes.get(&id) else { return };
        let Some(activity) = &owed.activity else { return };
        let (physical, generation, logical) = (owed.physical, owed.generation, owed.logical);
        let settles = activity.kind == Kind::Settle;
        let dirty: BTreeSet<usize> = activity.blocks.iter().copied().collect();
        let element = self.geometry.element_blocks() as usize;
        let (mut blocks, mut headers) = (Vec::new(), Vec::new());
        let mut writes: Vec<(Slot, DeviceBlock, Vec<Piece>)> = Vec::new();
        let mut digests = owed.digests.clone();
        for slot in self.present() {
            let of_slot = self.indexes_on(physical, slot);
            let wants = |at: &usize| match (encoded, settles) {
                (false, _) => dirty.contains(at),
                (true, false) => data.contains(at) && !owed.held[*at],
                (true, true) => !owed.held[*at],
            };
            let mut runs: Vec<(DeviceBlock, u64, Vec<Piece>)> = Vec::new();
            let begins = of_slot.first().is_some_and(wants);
            if encoded && !owed.headers[slot.0 as usize] && (settles || begins) {
                let sums: Vec<u64> = of_slot.iter().map(|&at| activity.sums[at]).collect();
                debug_assert_eq!(sums.len() % element, 0);
                let (header, digest) = self.chunk_header(logical, physical, generation, slot, &sums);
                digests[slot.0 as usize] = Some(digest);
                headers.push(slot);
                let blocks = u64::from(self.geometry.header_blocks(slot));
                runs.push((self.geometry.chunk_start(physical, slot), blocks, vec![Piece::Bytes(header)]));
            }
            for at in of_slot.into_iter().filter(wants) {
                let Some(content) = activity.have[at] else { continue };
                let (_, address) = self.owed_place(physical, at);
                blocks.push(at);
                match runs.last_mut() {
                    Some((first, len, pieces)) if first.0 + *len == address.0 => {
                        pieces.push(Piece::Block(content));
                        *len += 1;
                    }
                    _ => runs.push((address, 1, vec![Piece::Block(content)])),
                }
            }
            writes.extend(runs.into_iter().map(|(address, _, pieces)| (slot, address, pieces)));
        }
        let epoch = owed.epoch;
        if let Some(known) = self.delayed.epochs.get_mut(&epoch) {
            known.unflushed.extend(writes.iter().map(|(slot, ..)| *slot));
        }
        let Some(owed) = self.delayed.stripes.get_mut(&id) else { return };
        owed.digests = digests;
        owed.wrote_header |= !headers.is_empty();
        owed.wrote_parity |= settles;
        if let Some(activity) = &mut owed.activity {
            activity.outstanding += writes.len();
            activity.headers = headers;
            if encoded {
                activity.blocks = blocks;
            }
        }
        for (slot, at, pieces) in writes {
            let io = self.new_io(slot, IoOwner::OwedWrite(id));
            self.act(Action::Write { io, slot, at, pieces, urgency: Urgency::User });
        }
    }

    /// What was being done with a stripe is done, or came to nothing.
    fn end_activity(&mut self, id: OwedId) {
        let blocks = self.owed_blocks() as u64;
        let data: BTreeSet<usize> = self.data_indexes().into_iter().collect();
        let present: BTreeSet<Slot> = self.present().into_iter().collect();
        let Some(mut owed) = self.delayed.stripes.remove(&id) else { return };
        let Some(mut activity) = owed.activity.take() else {
            self.delayed.stripes.insert(id, owed);
            return;
        };
        if activity.kind == Kind::Settle {
            self.delayed.settling_blocks -= blocks;
        }
        if let Some(known) = self.delayed.epochs.get_mut(&owed.epoch) {
            known.active -= 1;
        }
        if activity.phase == Phase::Write && !owed.dropped {
            self.note_written(&mut owed, &mut activity, &data, &present);
        } else if !owed.dropped {
            // Nothing was written: what was dirty is dirty as before.
            let (physical, content) = (owed.physical, &owed.content);
            let on_present = |at: &usize| present.contains(&self.owed_place(physical, *at).0);
            let again: Vec<usize> = data
                .iter()
                .copied()
                .filter(|&at| content[at].is_some() && !owed.held[at])
                .filter(on_present)
                .collect();
            owed.dirty.extend(again);
        }
        if !owed.dropped {
            if activity.kind == Kind::Recall && activity.version == owed.version {
                for &at in data.iter().filter(|&&at| owed.own[at]) {
                    if owed.content[at].is_some() {
                        continue;
                    }
                    owed.content[at] = activity.have[at].take();
                    self.delayed.memory.count_data(None, owed.content[at]);
                }
            }
            // What a lost device should hold, and what was computed of it, stays in memory until all is settled.
            for &at in
                data.iter().filter(|&&at| owed.known[at] && !owed.held[at] && !owed.dirty.contains(&at))
            {
                if owed.content[at].is_none() && !owed.held[at] {
                    owed.content[at] = activity.have[at].take();
                    self.delayed.memory.count_data(None, owed.content[at]);
                }
                if owed.content[at].is_some() {
                    owed.lost.remove(&at);
                }
            }
        }
        for operand in activity.have.into_iter().flatten() {
            self.release_operand(operand);
        }
        let (epoch, waiting) = (owed.epoch, std::mem::take(&mut owed.waiting));
        let version = owed.version;
        let has_data = data.iter().any(|&at| owed.content[at].is_some());
        self.delayed.stripes.insert(id, owed);
        if self.delayed.stripes.get(&id).is_some_and(|owed| owed.dropped) {
            self.free_owed(id);
        } else {
            if has_data {
                self.delayed.in_memory.insert((version, id));
            }
            self.look_at_losses(id);
            self.settled_if_so(id);
            self.fill_if_whole(id);
        }
        self.round_of(epoch, id);
        waiting.into_iter().for_each(|(request, index)| self.resolve_within(request, vec![index]));
    }

    /// Writes of a stripe were reported.
    fn note_written(
        &mut self,
        owed: &mut Owed,
        activity: &mut Activity,
        data: &BTreeSet<usize>,
        present: &BTreeSet<Slot>,
    ) {
        if owed.generation != activity.generation {
            // All of it is written again.
            let wasted = activity.kind == Kind::Settle;
            self.count_wasted(owed.epoch, wasted);
            return;
        }
        let is_current = owed.version == activity.version;
        let fits = |slot: Slot| present.contains(&slot) && !activity.gone.contains(&slot);
        let encoded = activity.kind != Kind::Write;
        if encoded {
            for at in 0..owed.sums.len() {
                let is_data = data.contains(&at);
                if (is_data && !owed.dirty.contains(&at)) || (!is_data && is_current) {
                    owed.sums[at] = Some(activity.sums[at]);
                }
            }
        } else {
            for (&at, &sum) in activity.blocks.iter().zip(&activity.sums) {
                if !owed.dirty.contains(&at) {
                    owed.sums[at] = Some(sum);
                }
            }
        }
        for &at in &activity.blocks {
            let is_data = data.contains(&at);
            let (slot, _) = self.owed_place(owed.physical, at);
            if fits(slot) && !owed.dirty.contains(&at) && (is_data || is_current) {
                owed.held[at] = true;
            }
        }
        if activity.kind == Kind::Settle {
            // What was there before is the epoch's from now on.
            let mut new = 0;
            for &at in data {
                if !std::mem::replace(&mut owed.known[at], true) {
                    new += 1;
                }
            }
            if let Some(known) = self.delayed.epochs.get_mut(&owed.epoch) {
                known.owed_blocks += new;
            }
        }
        owed.clean = owed.clean.max(activity.version);
        if !is_current {
            let wasted = activity.kind == Kind::Settle && std::mem::take(&mut owed.wrote_parity);
            self.count_wasted(owed.epoch, wasted);
        } else if encoded {
            for &slot in activity.headers.iter().filter(|slot| fits(**slot)) {
                owed.headers[slot.0 as usize] = true;
            }
            owed.has_parity = true;
            for at in (0..owed.held.len()).filter(|at| !data.contains(at)) {
                if owed.content[at].is_none() && !owed.held[at] {
                    owed.content[at] = activity.have[at].take();
                    self.delayed.memory.count_parity(None, owed.content[at]);
                }
            }
        }
    }

    /// A stripe of which every device that is present has everything is settled, and leaves memory.
    pub(crate) fn settled_if_so(&mut self, id: OwedId) {
        if self.delayed.stripes.get(&id).is_some_and(|owed| owed.has_parity && !owed.recalled) {
            // Data that were written go; those that a lost device should have can be computed once parity is written.
            self.release_held(id);
        }
        let Some(owed) = self.delayed.stripes.get(&id) else { return };
        let lacks = |slot: &Slot| {
            !owed.headers[slot.0 as usize]
                || self.indexes_on(owed.physical, *slot).iter().any(|&at| !owed.held[at])
        };
        let is_whole = owed.has_parity && owed.dirty.is_empty() && !self.present().iter().any(lacks);
        if owed.settled || owed.recalled || !is_whole {
            return;
        }
        let data: BTreeSet<usize> = self.data_indexes().into_iter().collect();
        let Some(owed) = self.delayed.stripes.get_mut(&id) else { return };
        owed.settled = true;
        let mut released = Vec::new();
        for at in 0..owed.content.len() {
            let before = owed.content[at].take();
            match data.contains(&at) {
                true => self.delayed.memory.count_data(before, None),
                false => self.delayed.memory.count_parity(before, None),
            }
            released.extend(before);
        }
        self.delayed.in_memory.remove(&(owed.version, id));
        let (since, blocks) = (owed.since, owed.known_blocks());
        if let Some(known) = self.delayed.epochs.get_mut(&owed.epoch) {
            known.owed.remove(&since);
            known.lost.remove(&id);
            known.owed_blocks -= blocks;
        }
        released.into_iter().for_each(|operand| self.release_operand(operand));
    }

    /// Nobody wants a stripe any more. Its place is free when all that is under way has been reported.
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
        } else if self.planted.is(Bug::FreesEpochTooEarly) {
            self.let_place_go(id);
        }
        self.round_of(epoch, id);
        waiting.into_iter().for_each(|(request, index)| self.resolve_within(request, vec![index]));
    }

    /// Lets go of a stripe's memory and place.
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
            before.into_iter().for_each(|operand| self.release_operand(operand));
        }
        self.delayed.extra_places -= usize::from(owed.extra);
        if !owed.placeless {
            self.unpin(owed.physical);
        }
    }

    /// What a planted bug does: anybody may have the place of a stripe that something is under way to.
    fn let_place_go(&mut self, id: OwedId) {
        let Some(owed) = self.delayed.stripes.get_mut(&id) else { return };
        owed.placeless = true;
        let physical = owed.physical;
        self.unpin(physical);
    }

    /// The record that maps a stripe is durable.
    pub(crate) fn keep_ended(&mut self, id: OwedId) {
        let Some(owed) = self.delayed.stripes.get_mut(&id) else { return };
        owed.wrote_parity = false;
        let (physical, generation) = (owed.physical, owed.generation);
        let sums: Option<Vec<u64>> = owed.sums.iter().copied().collect();
        if let Some(sums) = sums {
            self.keep_stripe_sums(physical, generation, &sums);
        }
        if self.planted.is(Bug::EndsBeforeParity)
            && let Some(owed) = self.delayed.stripes.get_mut(&id).filter(|owed| !owed.is_idle())
        {
            owed.dropped = true;
            return self.let_place_go(id);
        }
        self.free_owed(id);
    }

    /// A device is lost, with what it alone had.
    pub(crate) fn lose_owed(&mut self, slot: Slot) {
        let ids: Vec<OwedId> = self.delayed.stripes.keys().copied().collect();
        let data: BTreeSet<usize> = self.data_indexes().into_iter().collect();
        let forgets = self.planted.is(Bug::ForgetsEpochLosses);
        for id in ids {
            let Some(physical) = self.delayed.stripes.get(&id).map(|owed| owed.physical) else { continue };
            let of_slot = self.indexes_on(physical, slot);
            let Some(owed) = self.delayed.stripes.get_mut(&id) else { continue };
            owed.headers[slot.0 as usize] = false;
            if let Some(activity) = &mut owed.activity {
                activity.gone.insert(slot);
            }
            let mut lost = Vec::new();
            for at in of_slot {
                let held = std::mem::replace(&mut owed.held[at], false);
                if held && data.contains(&at) && !owed.has_parity {
                    owed.own[at] &= !forgets;
                    lost.push(at);
                }
            }
            self.lose_blocks(id, &lost);
        }
    }

    /// Devices take part again: they lack what they should have of stripes that were settled without them.
    pub(crate) fn admitted_to_owed(&mut self) {
        let ids: Vec<OwedId> = self.delayed.stripes.keys().copied().collect();
        let present = self.present();
        for id in ids {
            let Some(owed) = self.delayed.stripes.get(&id) else { continue };
            let lacks = |slot: &Slot| {
                !owed.headers[slot.0 as usize]
                    || self.indexes_on(owed.physical, *slot).iter().any(|&at| !owed.held[at])
            };
            if !owed.dropped && present.iter().any(lacks) {
                self.owe_again(id);
            }
        }
    }

    /// A block was read from where the epoch wrote it and is not what it should be.
    pub(crate) fn rotted(&mut self, id: OwedId, at: usize, expected: u64, slot: Slot, result: &IoResult) {
        let Some(owed) = self.delayed.stripes.get_mut(&id) else { return };
        if owed.dropped || owed.sums[at] != Some(expected) || !owed.held[at] {
            return;
        }
        let counts = &mut self.counts[slot.0 as usize];
        counts.media_errors += u64::from(*result == IoResult::MediaError);
        counts.checksum_errors += u64::from(*result != IoResult::MediaError);
        owed.held[at] = false;
        if !owed.has_parity {
            self.lose_blocks(id, &[at]);
        }
    }

    /// Reads a block of a stripe of an epoch.
    pub(crate) fn read_owed(
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
            // Computed when the stripe is settled, or recalled.
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
