//! Epochs of delayed parity: who writes where, what is owed, and how an epoch ends.
//!
//! An epoch holds a range of whole stripes. What it writes goes to stripes of its own in free places ([`crate::owed`]), data only; the maps
//! know nothing of it. So a crash or an abort needs no work, others read what was there before, and nothing that is committed shares a
//! stripe with what has no parity. The end makes what is owed and switches all stripes with one record.
//!
//! Invariants: a logical stripe is in at most one epoch; nobody else has anything dirty in it; what is owed stays below the epoch's budget, but
//! for the write that has just exceeded it and is not answered, and for stripes that cannot be made whole because something is lost;
//! the stripes of an epoch fit one record, and leave those places free that commits need.
//!
//! Deliberately not here: clocks. The driver says when to make parity in advance, and ends or aborts who has been silent.

use crate::commit::Commit;
use crate::engine::{Engine, IoOwner};
use crate::fetch::Requester;
use crate::owed::{InMemory, Owed, OwedId, Task};
use crate::staging::PLACES_LEFT;
use crate::{
    Action, BufferId, Bug, EpochId, EpochState, EpochStatus, Failure, IoResult, Operand, Reply, Request,
    RequestId, Slot, UserBlock,
};
use pantile_format::Crc64;
use pantile_format::volume::Policy;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Blocks of data that epochs keep in memory so that parity needs no reading: 32 MiB.
const DATA_BLOCKS_MOST: usize = 8192;

/// Blocks of parity that is made and not written: 128 MiB.
const PARITY_BLOCKS_MOST: usize = 32768;

/// Blocks of stripes whose parity is made and written at a time, unless it is one stripe: 32 MiB.
const SETTLING_BLOCKS_MOST: u64 = 8192;

/// Epochs of a session have the numbers from the session's number times this on.
const EPOCHS_OF_SESSION: u64 = 1_000_000;

/// All epochs and what they have in memory.
#[derive(Debug)]
pub(crate) struct Delayed {
    pub(crate) epochs: BTreeMap<EpochId, Epoch>,
    pub(crate) stripes: BTreeMap<OwedId, Owed>,
    beginning: BTreeMap<RequestId, EpochId>,
    pub(crate) reads: BTreeMap<u64, EpochRead>,
    /// Written and not answered, because too much is owed.
    blocked: VecDeque<(RequestId, EpochId)>,
    /// Requests that wait for a place or a generation, and those behind them.
    stalled: VecDeque<(RequestId, Request)>,
    begun: u64,
    /// Counts writes to stripes.
    pub(crate) writes: u64,
    /// Stripes with data in memory, by their last write.
    pub(crate) in_memory: BTreeSet<(u64, OwedId)>,
    pub(crate) memory: InMemory,
    data_blocks_most: usize,
    parity_blocks_most: usize,
    pub(crate) settling_blocks: u64,
    /// Stripes that take a place beside the one that their logical stripe has already.
    pub(crate) extra_places: usize,
    pub(crate) wasted: u64,
}

/// A range whose parity is owed.
#[derive(Debug)]
pub(crate) struct Epoch {
    first: u32,
    end: u32,
    owed_blocks_max: u64,
    pub(crate) state: EpochState,
    pub(crate) stripes: BTreeMap<u32, OwedId>,
    /// Trimmed as a whole before what is in `stripes` was written.
    pub(crate) unmapped: BTreeSet<u32>,
    /// Stripes whose parity is owed and can be made, by the first write that it is owed of.
    pub(crate) owed: BTreeMap<u64, OwedId>,
    /// Those with something lost.
    pub(crate) lost: BTreeSet<OwedId>,
    pub(crate) owed_blocks: u64,
    /// Stripes that something is being done with.
    pub(crate) active: usize,
    /// Parity is made of what was written up to this number.
    advance_through: u64,
    /// Devices written to since their last flush.
    pub(crate) unflushed: BTreeSet<Slot>,
    round: Option<Round>,
    flushes: Vec<RequestId>,
    ends: Vec<RequestId>,
    pub(crate) wasted: u64,
}

/// A flush under way: first the stripes are written, then the devices flushed.
#[derive(Debug)]
struct Round {
    requests: Vec<RequestId>,
    /// By stripe, the version that is to be written.
    stripes: BTreeMap<OwedId, u64>,
    flushing: Option<usize>,
}

/// A block of an epoch that is read from where it lies.
#[derive(Debug)]
pub(crate) struct EpochRead {
    id: RequestId,
    index: usize,
    owed: OwedId,
    physical: u32,
    at: usize,
    expected: u64,
    buffer: BufferId,
}

/// What the record of an end says of a stripe.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) logical: u32,
    pub(crate) physical: u32,
    pub(crate) generation: u64,
    pub(crate) digests: Vec<Option<Crc64>>,
}

impl Default for Delayed {
    fn default() -> Delayed {
        Delayed {
            epochs: BTreeMap::new(),
            stripes: BTreeMap::new(),
            beginning: BTreeMap::new(),
            reads: BTreeMap::new(),
            blocked: VecDeque::new(),
            stalled: VecDeque::new(),
            begun: 0,
            writes: 0,
            in_memory: BTreeSet::new(),
            memory: InMemory::default(),
            data_blocks_most: DATA_BLOCKS_MOST,
            parity_blocks_most: PARITY_BLOCKS_MOST,
            settling_blocks: 0,
            extra_places: 0,
            wasted: 0,
        }
    }
}

impl Delayed {
    /// Keeps no more in memory than this many blocks of data, and as many of parity.
    pub(crate) fn keep(&mut self, blocks: usize) {
        (self.data_blocks_most, self.parity_blocks_most) = (blocks, blocks);
    }

    /// Places that epochs take beyond those of the user's stripes.
    pub(crate) fn places(&self) -> usize {
        self.extra_places
    }

    pub(crate) fn blocks_in_memory(&self) -> usize {
        self.memory.data_blocks + self.memory.parity_blocks
    }
}

impl Engine {
    /// The epoch that holds a part of what a request of others writes.
    pub(crate) fn epoch_in_the_way(&self, request: &Request) -> Option<EpochId> {
        let (first, count) = match request {
            Request::Write { first, buffers, .. } => (*first, buffers.len() as u64),
            Request::Trim { first, count } => (*first, *count),
            _ => return None,
        };
        if count == 0 || self.delayed.epochs.is_empty() || self.planted.is(Bug::LetsOthersWrite) {
            return None;
        }
        let (from, _) = self.geometry.locate(first);
        let (to, _) = self.geometry.locate(UserBlock(first.0 + count - 1));
        let in_the_way = |epoch: &&Epoch| from < epoch.end && epoch.first <= to;
        self.delayed.epochs.iter().find(|(_, epoch)| in_the_way(epoch)).map(|(&id, _)| id)
    }

    /// A request that only epochs have.
    pub(crate) fn delayed_request(&mut self, id: RequestId, request: Request) {
        if !self.delayed.stalled.is_empty() && matches!(request, Request::Within { .. } | Request::End { .. })
        {
            self.delayed.stalled.push_back((id, request));
            return;
        }
        match request {
            Request::Begin { first, count, owed_blocks_max } => self.begin(id, first, count, owed_blocks_max),
            Request::Within { epoch, request } => self.within(id, epoch, *request),
            Request::End { epoch } => self.end_epoch(id, epoch),
            Request::Abort { epoch } => self.abort_epoch(id, epoch),
            Request::Advance { epoch, through } => match self.delayed.epochs.get_mut(&epoch) {
                Some(known) => {
                    known.advance_through = known.advance_through.max(through);
                    self.reply(id, Reply::Done);
                }
                None => self.refuse_within(id, Failure::NoSuchEpoch { epoch }),
            },
            _ => unreachable!("only requests of epochs come here"),
        }
    }

    fn refuse_within(&mut self, id: RequestId, failure: Failure) {
        self.reply(id, Reply::Failed(failure));
    }

    fn begin(&mut self, id: RequestId, first: UserBlock, count: u64, owed_blocks_max: u64) {
        let end = first.0.checked_add(count).filter(|&end| count > 0 && end <= self.geometry.user_blocks());
        let Some(end) = end else {
            let end = UserBlock(self.geometry.user_blocks());
            return self.refuse_within(id, Failure::OutOfRange { end });
        };
        let (first, end) = (self.geometry.locate(first).0, self.geometry.locate(UserBlock(end - 1)).0 + 1);
        let overlaps = self.delayed.epochs.iter().filter(|(_, epoch)| first < epoch.end && epoch.first < end);
        let epochs: Vec<EpochId> = overlaps.map(|(&id, _)| id).collect();
        if self.geometry.policy != Policy::Wcl {
            return self.refuse_within(id, Failure::NoEpochs);
        }
        if self.failed {
            return self.refuse_within(id, Failure::NotDurable);
        }
        if !epochs.is_empty() {
            return self.refuse_within(id, Failure::EpochsOverlap { epochs });
        }
        self.delayed.begun += 1;
        let epoch = EpochId(self.superblock.session.0 * EPOCHS_OF_SESSION + self.delayed.begun);
        let new = Epoch {
            first,
            end,
            owed_blocks_max,
            state: EpochState::Beginning,
            stripes: BTreeMap::new(),
            unmapped: BTreeSet::new(),
            owed: BTreeMap::new(),
            lost: BTreeSet::new(),
            owed_blocks: 0,
            active: 0,
            advance_through: 0,
            unflushed: BTreeSet::new(),
            round: None,
            flushes: Vec::new(),
            ends: Vec::new(),
            wasted: 0,
        };
        self.delayed.epochs.insert(epoch, new);
        self.delayed.beginning.insert(id, epoch);
        // From now on nobody else writes there: when this is answered nothing of it is dirty.
        self.flush(id);
    }

    /// An answer to what began an epoch: it is open now.
    pub(crate) fn begun(&mut self, id: RequestId, reply: Reply) -> Reply {
        let Some(epoch) = self.delayed.beginning.remove(&id) else { return reply };
        let per_stripe = self.geometry.stripe_blocks();
        match (reply, self.delayed.epochs.get_mut(&epoch)) {
            (Reply::Done, Some(known)) => {
                known.state = EpochState::Open;
                let first = UserBlock(u64::from(known.first) * per_stripe);
                Reply::Begun { epoch, first, count: u64::from(known.end - known.first) * per_stripe }
            }
            (Reply::Done, None) => Reply::Failed(Failure::NoSuchEpoch { epoch }),
            (reply, _) => {
                self.delayed.epochs.remove(&epoch);
                reply
            }
        }
    }

    fn within(&mut self, id: RequestId, epoch: EpochId, request: Request) {
        if let Err((failure, request)) =
            self.may_do_within(epoch, request).and_then(|request| match self.try_within(id, epoch, request) {
                None => Ok(()),
                Some(refused) => Err(refused),
            })
        {
            if let Request::Write { buffers, .. } = request {
                buffers.into_iter().for_each(|buffer| self.act(Action::Release(buffer)));
            }
            self.refuse_within(id, failure);
        }
    }

    fn may_do_within(&self, epoch: EpochId, request: Request) -> Result<Request, (Failure, Request)> {
        let Some(known) = self.delayed.epochs.get(&epoch) else {
            return Err((Failure::NoSuchEpoch { epoch }, request));
        };
        let (first, count, writes) = match &request {
            Request::Read { first, count } => (first.0, u64::from(*count), false),
            Request::Write { first, buffers, .. } => (first.0, buffers.len() as u64, true),
            Request::Trim { first, count } => (first.0, *count, true),
            _ => (0, 0, false),
        };
        let end = first.checked_add(count).filter(|&end| end <= self.geometry.user_blocks());
        let Some(end) = end else {
            let end = UserBlock(self.geometry.user_blocks());
            return Err((Failure::OutOfRange { end }, request));
        };
        let per_stripe = self.geometry.stripe_blocks();
        let (from, to) = (u64::from(known.first) * per_stripe, u64::from(known.end) * per_stripe);
        if self.failed && !matches!(request, Request::Read { .. }) {
            return Err((Failure::NotDurable, request));
        }
        if writes && known.state != EpochState::Open {
            return Err((Failure::EpochEnding { epoch }, request));
        }
        if writes && count > 0 && (first < from || end > to) {
            let (first, end) = (UserBlock(from), UserBlock(to));
            return Err((Failure::OutsideEpoch { epoch, first, end }, request));
        }
        Ok(request)
    }

    /// Does it; gives it back if it cannot be.
    fn try_within(&mut self, id: RequestId, epoch: EpochId, request: Request) -> Option<(Failure, Request)> {
        match request {
            Request::Read { first, count } => self.read_within(id, epoch, first, count),
            Request::Flush => self.flush_epoch(id, epoch),
            Request::Write { first, buffers, durable } => {
                let blocks = first.0..first.0 + buffers.len() as u64;
                let logicals: BTreeSet<u32> =
                    blocks.map(|block| self.geometry.locate(UserBlock(block)).0).collect();
                match self.make_stripes(epoch, &logicals) {
                    Ok(()) => {}
                    Err(None) => {
                        let request = Box::new(Request::Write { first, buffers, durable });
                        self.delayed.stalled.push_back((id, Request::Within { epoch, request }));
                        return None;
                    }
                    Err(Some(failure)) => return Some((failure, Request::Write { first, buffers, durable })),
                }
                for (block, buffer) in (first.0..).map(UserBlock).zip(buffers) {
                    self.adopt(buffer);
                    self.put_within(epoch, block, Operand::Buffer(buffer));
                }
                self.written_within(id, epoch, &logicals, durable);
            }
            Request::Trim { first, count } => return self.trim_within(id, epoch, first, count),
            request => return Some((Failure::NoSuchEpoch { epoch }, request)),
        }
        None
    }

    /// Stripes are written to.
    fn written_within(&mut self, id: RequestId, epoch: EpochId, logicals: &BTreeSet<u32>, durable: bool) {
        for logical in logicals {
            let owed = self.delayed.epochs.get(&epoch).and_then(|e| e.stripes.get(logical)).copied();
            owed.into_iter().for_each(|owed| self.owed_written(owed));
        }
        if durable {
            self.flush_epoch(id, epoch);
        } else {
            self.delayed.blocked.push_back((id, epoch));
        }
    }

    fn trim_within(
        &mut self,
        id: RequestId,
        epoch: EpochId,
        first: UserBlock,
        count: u64,
    ) -> Option<(Failure, Request)> {
        let per_stripe = self.geometry.stripe_blocks();
        let end = first.0 + count;
        let (mut whole, mut parts, mut blocks) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        let mut at = first.0;
        while at < end {
            let (logical, place) = self.geometry.locate(UserBlock(at));
            let stop = end.min(at - u64::from(place) + per_stripe);
            if stop - at == per_stripe {
                whole.insert(logical);
            } else {
                parts.insert(logical);
                blocks.extend((at..stop).map(UserBlock));
            }
            at = stop;
        }
        let mut refused = self.record_refusal(epoch, &BTreeSet::new(), &whole);
        if refused.is_none() {
            match self.make_stripes(epoch, &parts) {
                Ok(()) => {}
                Err(None) => {
                    let request = Box::new(Request::Trim { first, count });
                    self.delayed.stalled.push_back((id, Request::Within { epoch, request }));
                    return None;
                }
                Err(Some(failure)) => refused = Some(failure),
            }
        }
        if let Some(failure) = refused {
            return Some((failure, Request::Trim { first, count }));
        }
        for &logical in &whole {
            let known = self.delayed.epochs.get_mut(&epoch)?;
            known.unmapped.insert(logical);
            if let Some(owed) = known.stripes.remove(&logical) {
                self.drop_owed(owed);
            }
        }
        blocks.into_iter().for_each(|block| self.put_within(epoch, block, Operand::Zeros));
        self.written_within(id, epoch, &parts, false);
        None
    }

    /// Why one record could not switch all of an epoch with these, too.
    fn record_refusal(
        &self,
        epoch: EpochId,
        new: &BTreeSet<u32>,
        unmapped: &BTreeSet<u32>,
    ) -> Option<Failure> {
        let known = self.delayed.epochs.get(&epoch)?;
        let each = 2 * 64 + 8 * self.geometry.slots() as u64;
        let stripes = known.stripes.len() + new.iter().filter(|l| !known.stripes.contains_key(l)).count();
        let trims = known.unmapped.len() + unmapped.iter().filter(|l| !known.unmapped.contains(l)).count();
        let room = self.record_room();
        let fits = stripes as u64 * each + trims as u64 * 64 <= room;
        (!fits).then_some(Failure::EpochFull { epoch, stripes: room / each })
    }

    /// Finds places for stripes that an epoch has not written yet. `None`: not now, but when what is under way is done.
    fn make_stripes(&mut self, epoch: EpochId, logicals: &BTreeSet<u32>) -> Result<(), Option<Failure>> {
        let known = self.delayed.epochs.get(&epoch).ok_or(Some(Failure::NoSuchEpoch { epoch }))?;
        let new: BTreeSet<u32> =
            logicals.iter().copied().filter(|logical| !known.stripes.contains_key(logical)).collect();
        let old: Vec<OwedId> =
            logicals.iter().filter_map(|logical| known.stripes.get(logical)).copied().collect();
        let waits = old.into_iter().filter(|&owed| !self.recall(owed)).count() > 0;
        if waits {
            return Err(None);
        }
        if self.generations_left() < logicals.len() as u64 {
            self.snapshot_wanted = true;
            return Err(None);
        }
        if new.is_empty() {
            return Ok(());
        }
        if let Some(failure) = self.record_refusal(epoch, &new, &BTreeSet::new()) {
            return Err(Some(failure));
        }
        let is_extra = |logical: &u32| {
            self.maps.stripes[*logical as usize].is_some() || self.maps.logged.contains_key(logical)
        };
        let extra = new.iter().filter(|logical| is_extra(logical)).count();
        let spare = (self.geometry.physical_stripes() - self.geometry.logical_stripes()) as usize;
        if extra > 0 && spare < self.delayed.extra_places + extra + PLACES_LEFT {
            // Places of what was aborted become free when its last write is reported.
            let waits = self.delayed.stripes.values().any(|owed| owed.dropped);
            return Err((!waits).then_some(Failure::NoRoom { epoch }));
        }
        let free = self.maps.free.iter().filter(|place| !self.pins.contains_key(place));
        let places: Vec<u32> = free.take(new.len()).collect();
        if places.len() < new.len() {
            if self.staged.is_empty() && self.commit.is_none() && self.is_idle() {
                return Err(Some(Failure::NoRoom { epoch }));
            }
            self.commit_wanted |= !self.staged.is_empty();
            return Err(None);
        }
        for (logical, physical) in new.into_iter().zip(places) {
            let extra =
                self.maps.stripes[logical as usize].is_some() || self.maps.logged.contains_key(&logical);
            self.make_owed(epoch, logical, physical, extra);
        }
        Ok(())
    }

    /// Blocks of an epoch's read, by their place in it.
    pub(crate) fn resolve_within(&mut self, id: RequestId, indexes: Vec<usize>) {
        let Some((epoch, first)) = self.read_of(id) else { return };
        let mut elsewhere = Vec::new();
        for index in indexes {
            let block = UserBlock(first.0 + index as u64);
            let (logical, place) = self.geometry.locate(block);
            let requester = Requester::User(id, index);
            let Some(known) = self.delayed.epochs.get(&epoch) else {
                self.deliver(requester, block, None);
                continue;
            };
            let is_unmapped = known.unmapped.contains(&logical);
            match known.stripes.get(&logical).copied() {
                Some(owed) => match self.read_owed((id, index), owed, place) {
                    Task::Done => {}
                    Task::Base if is_unmapped => self.deliver(requester, block, Some(Operand::Zeros)),
                    Task::Base => elsewhere.push((block, requester)),
                },
                None if is_unmapped => self.deliver(requester, block, Some(Operand::Zeros)),
                None => elsewhere.push((block, requester)),
            }
        }
        self.resolve_all(elsewhere);
    }

    /// A block of a stripe whose parity is made has been fetched, or could not be.
    pub(crate) fn deliver_within(
        &mut self,
        (id, index): (RequestId, usize),
        (owed, version): (OwedId, u64),
        block: UserBlock,
        content: Option<Operand>,
    ) {
        let as_it_was = self.delayed.stripes.get(&owed).is_some_and(|o| o.version == version && o.settled);
        match content {
            None if !as_it_was => self.resolve_within(id, vec![index]),
            content => {
                self.deliver(Requester::User(id, index), block, content);
                if let Some(Operand::Buffer(buffer)) = content {
                    // It was held for this delivery, too.
                    self.release(buffer);
                }
            }
        }
    }

    /// Begins to read a block from where the epoch wrote it.
    pub(crate) fn read_in_place(&mut self, (id, index): (RequestId, usize), owed: OwedId, at: usize) {
        let Some(stripe) = self.delayed.stripes.get(&owed) else { return };
        let (Some(expected), physical, generation) = (stripe.sums[at], stripe.physical, stripe.generation)
        else {
            unreachable!("what is held has a checksum")
        };
        let (slot, address) = self.owed_place(physical, at);
        let (buffer, read) = (self.new_buffer(), self.next_id());
        *self.pins.entry(physical).or_default() += 1;
        let waiting = EpochRead { id, index, owed, physical, at, expected, buffer };
        self.delayed.reads.insert(read, waiting);
        let io = self.new_io(slot, IoOwner::EpochRead(read));
        let (into, urgency) = (vec![buffer], crate::Urgency::User);
        self.act(Action::Read { io, slot, at: address, into, generation, urgency });
    }

    pub(crate) fn epoch_read(&mut self, read: u64, slot: Slot, result: &IoResult) {
        let Some(EpochRead { id, index, owed, physical, at, expected, buffer }) =
            self.delayed.reads.remove(&read)
        else {
            return;
        };
        self.unpin(physical);
        if matches!(result, IoResult::Checksums(sums) if sums[..] == [expected]) {
            self.counts[slot.0 as usize].blocks_read += 1;
            if let Some((_, first)) = self.read_of(id) {
                let block = UserBlock(first.0 + index as u64);
                self.deliver(Requester::User(id, index), block, Some(Operand::Buffer(buffer)));
            }
            self.release(buffer);
            return;
        }
        self.release(buffer);
        self.rotted(owed, at, expected, slot, result);
        self.resolve_within(id, vec![index]);
    }

    /// The failure of a read of an epoch, of blocks that cannot be had.
    pub(crate) fn lost_within(
        &self,
        epoch: Option<EpochId>,
        lost: impl Iterator<Item = UserBlock>,
    ) -> Failure {
        let epoch = epoch.unwrap_or(EpochId(0));
        match self.delayed.epochs.contains_key(&epoch) {
            true => Failure::EpochLost { epoch, ranges: ranges_of(lost) },
            false => Failure::NoSuchEpoch { epoch },
        }
    }

    /// Answers when what was written before is on the devices.
    fn flush_epoch(&mut self, id: RequestId, epoch: EpochId) {
        if let Some(known) = self.delayed.epochs.get_mut(&epoch) {
            known.flushes.push(id);
        }
    }

    /// Ranges of an epoch's blocks that are lost.
    fn losses_within(&self, epoch: EpochId) -> Vec<(UserBlock, u64)> {
        let Some(known) = self.delayed.epochs.get(&epoch) else { return Vec::new() };
        let per_stripe = self.geometry.stripe_blocks();
        let mut lost: Vec<UserBlock> = Vec::new();
        for stripe in known.lost.iter().filter_map(|id| self.delayed.stripes.get(id)) {
            let first = u64::from(stripe.logical) * per_stripe;
            let of_stripe =
                (0..per_stripe).filter(|&place| stripe.lost.contains(&self.owed_index(place as u32)));
            lost.extend(of_stripe.map(|place| UserBlock(first + place)));
        }
        lost.sort_unstable();
        ranges_of(lost.into_iter())
    }

    fn end_epoch(&mut self, id: RequestId, epoch: EpochId) {
        let failure = match self.delayed.epochs.get_mut(&epoch) {
            None => Failure::NoSuchEpoch { epoch },
            Some(known) if known.state == EpochState::Beginning => Failure::NoSuchEpoch { epoch },
            Some(_) if self.failed => Failure::NotDurable,
            Some(known) => {
                if known.state == EpochState::Open {
                    known.state = EpochState::Ending;
                }
                known.ends.push(id);
                return;
            }
        };
        self.refuse_within(id, failure);
    }

    fn abort_epoch(&mut self, id: RequestId, epoch: EpochId) {
        match self.delayed.epochs.get(&epoch) {
            None => return self.refuse_within(id, Failure::NoSuchEpoch { epoch }),
            // Its record may be durable already.
            Some(known) if known.state == EpochState::Sealing => {
                return self.refuse_within(id, Failure::EpochEnding { epoch });
            }
            Some(_) => {}
        }
        let Some(mut known) = self.delayed.epochs.remove(&epoch) else { return };
        let mut waiting = std::mem::take(&mut known.flushes);
        waiting.append(&mut known.ends);
        waiting.extend(known.round.into_iter().flat_map(|round| round.requests));
        let (blocked, others) =
            std::mem::take(&mut self.delayed.blocked).into_iter().partition(|&(_, e)| e == epoch);
        self.delayed.blocked = others;
        let blocked: VecDeque<(RequestId, EpochId)> = blocked;
        waiting.extend(blocked.into_iter().map(|(id, _)| id));
        for owed in known.stripes.into_values() {
            self.drop_owed(owed);
        }
        waiting.into_iter().for_each(|id| self.refuse_within(id, Failure::NoSuchEpoch { epoch }));
        self.reply(id, Reply::Done);
    }

    /// Begins whatever can be begun for epochs.
    pub(crate) fn drive_delayed(&mut self) {
        if self.delayed.epochs.is_empty() && self.delayed.stalled.is_empty() {
            return;
        }
        self.retry_stalled();
        if self.failed {
            return self.give_up_epochs();
        }
        self.relieve_memory();
        let epochs: Vec<EpochId> = self.delayed.epochs.keys().copied().collect();
        for epoch in epochs {
            self.settle_what_is_due(epoch);
            self.drive_round(epoch);
            self.answer_if_lost(epoch);
        }
        self.unblock_within();
    }

    fn retry_stalled(&mut self) {
        if self.delayed.stalled.is_empty() {
            return;
        }
        let stalled = std::mem::take(&mut self.delayed.stalled);
        let mut stalled = stalled.into_iter();
        for (id, request) in stalled.by_ref() {
            self.delayed_request(id, request);
            if !self.delayed.stalled.is_empty() {
                break;
            }
        }
        self.delayed.stalled.extend(stalled);
        if self.delayed.stalled.is_empty() {
            let recalled = self.delayed.stripes.iter_mut().filter(|(_, owed)| owed.recalled);
            let recalled: Vec<OwedId> = recalled
                .map(|(&id, owed)| {
                    owed.recalled = false;
                    id
                })
                .collect();
            for owed in recalled {
                self.release_held(owed);
                self.settled_if_so(owed);
            }
        }
    }

    /// Nothing lasts any more: everybody is told so.
    fn give_up_epochs(&mut self) {
        let blocked = std::mem::take(&mut self.delayed.blocked);
        let mut waiting: Vec<RequestId> = blocked.into_iter().map(|(id, _)| id).collect();
        for known in self.delayed.epochs.values_mut() {
            waiting.append(&mut known.flushes);
            waiting.extend(known.round.take().into_iter().flat_map(|round| round.requests));
            if known.state != EpochState::Sealing {
                waiting.append(&mut known.ends);
            }
        }
        waiting.into_iter().for_each(|id| self.refuse_within(id, Failure::NotDurable));
    }

    /// Makes parity of the oldest stripes that are due: all of an epoch that ends, else what is beyond the budget or old.
    fn settle_what_is_due(&mut self, epoch: EpochId) {
        let blocks = self.geometry.code.cell_count() as u64 * u64::from(self.geometry.element_blocks());
        loop {
            let Some(known) = self.delayed.epochs.get(&epoch) else { return };
            let settling = self.delayed.settling_blocks;
            if settling > 0 && settling + blocks > SETTLING_BLOCKS_MOST {
                return;
            }
            let over = known.owed_blocks > known.owed_blocks_max
                || self.delayed.memory.parity_blocks > self.delayed.parity_blocks_most;
            let all = known.state == EpochState::Ending;
            let is_due = |due: &(&u64, &OwedId)| all || over || *due.0 <= known.advance_through;
            let is_idle =
                |owed: &OwedId| self.delayed.stripes.get(owed).is_some_and(|o| o.is_idle() && !o.recalled);
            let next = known.owed.iter().take_while(is_due).map(|(_, &owed)| owed).find(is_idle);
            // What is under way may be enough to come below the budget again.
            let enough = !all && over && known.active > 0 && {
                let under_way = self.settling_within(epoch);
                known.owed_blocks.saturating_sub(under_way) <= known.owed_blocks_max
                    && self.delayed.memory.parity_blocks <= self.delayed.parity_blocks_most
            };
            match next {
                Some(owed) if !enough => self.settle_owed(owed),
                _ => return,
            }
        }
    }

    /// Blocks of an epoch whose parity is just being written.
    fn settling_within(&self, epoch: EpochId) -> u64 {
        let Some(known) = self.delayed.epochs.get(&epoch) else { return 0 };
        let stripes = known.owed.values().filter_map(|owed| self.delayed.stripes.get(owed));
        // Those under way are among the oldest.
        stripes.take(known.active + 1).filter(|owed| owed.is_settling()).map(Owed::known_blocks).sum()
    }

    /// Data of the oldest stripes go to the devices, and out of memory.
    fn relieve_memory(&mut self) {
        let mut left = self.delayed.memory.data_blocks.saturating_sub(self.delayed.data_blocks_most);
        if left == 0 {
            return;
        }
        let oldest: Vec<OwedId> = self.delayed.in_memory.iter().map(|&(_, owed)| owed).take(512).collect();
        for owed in oldest {
            if left == 0 {
                return;
            }
            left = left.saturating_sub(self.relieve(owed));
        }
    }

    fn drive_round(&mut self, epoch: EpochId) {
        loop {
            let Some(known) = self.delayed.epochs.get_mut(&epoch) else { return };
            let Some(round) = &mut known.round else {
                if known.flushes.is_empty() {
                    return;
                }
                let requests = std::mem::take(&mut known.flushes);
                let owed = known.stripes.values().filter_map(|id| Some((*id, self.delayed.stripes.get(id)?)));
                let stripes: BTreeMap<OwedId, u64> = owed
                    .filter(|(_, owed)| owed.clean < owed.version)
                    .map(|(id, owed)| (id, owed.version))
                    .collect();
                let dirty: Vec<OwedId> = stripes.keys().copied().collect();
                known.round = Some(Round { requests, stripes, flushing: None });
                dirty.into_iter().for_each(|owed| self.write_owed(owed));
                continue;
            };
            match round.flushing {
                None => {
                    if !round.stripes.is_empty() {
                        return;
                    }
                    let slots = std::mem::take(&mut known.unflushed);
                    let slots: Vec<Slot> = slots.into_iter().filter(|s| self.maps.is_present(*s)).collect();
                    let Some(Epoch { round: Some(round), .. }) = self.delayed.epochs.get_mut(&epoch) else {
                        return;
                    };
                    round.flushing = Some(slots.len());
                    for slot in slots {
                        let io = self.new_io(slot, IoOwner::EpochFlush(epoch));
                        self.act(Action::Flush { io, slot });
                    }
                }
                Some(0) => {
                    let requests = known.round.take().map(|round| round.requests).unwrap_or_default();
                    let ranges = self.losses_within(epoch);
                    for id in requests {
                        let reply = match ranges.is_empty() {
                            true => Reply::Done,
                            false => Reply::Failed(Failure::EpochLost { epoch, ranges: ranges.clone() }),
                        };
                        self.reply(id, reply);
                    }
                }
                Some(_) => return,
            }
        }
    }

    /// Something of a stripe is written, or nobody wants it any more: a flush may wait for it, or for what was written meanwhile.
    pub(crate) fn round_of(&mut self, epoch: EpochId, owed: OwedId) {
        let Some(Epoch { round: Some(round), .. }) = self.delayed.epochs.get_mut(&epoch) else { return };
        let Some(&version) = round.stripes.get(&owed) else { return };
        match self.delayed.stripes.get(&owed) {
            Some(stripe) if !stripe.dropped && stripe.clean < version => self.write_owed(owed),
            _ => drop(round.stripes.remove(&owed)),
        }
    }

    pub(crate) fn epoch_flushed(&mut self, epoch: EpochId) {
        let round = self.delayed.epochs.get_mut(&epoch).and_then(|known| known.round.as_mut());
        if let Some(Round { flushing: Some(left), .. }) = round {
            *left = left.saturating_sub(1);
        }
    }

    /// An epoch that is to end and has lost something takes writes again.
    fn answer_if_lost(&mut self, epoch: EpochId) {
        let Some(known) = self.delayed.epochs.get_mut(&epoch) else { return };
        let is_lost = known.state == EpochState::Ending
            && known.active == 0
            && known.owed.is_empty()
            && !known.lost.is_empty();
        if !is_lost {
            return;
        }
        known.state = EpochState::Open;
        let ends = std::mem::take(&mut known.ends);
        let ranges = self.losses_within(epoch);
        for id in ends {
            self.refuse_within(id, Failure::EpochLost { epoch, ranges: ranges.clone() });
        }
    }

    fn unblock_within(&mut self) {
        let blocked = std::mem::take(&mut self.delayed.blocked);
        for (id, epoch) in blocked {
            let Some(known) = self.delayed.epochs.get(&epoch) else {
                self.refuse_within(id, Failure::NoSuchEpoch { epoch });
                continue;
            };
            // What can never be made waits for its writer, so its writer may not wait for it.
            let owes = known.owed_blocks > known.owed_blocks_max && !known.owed.is_empty();
            let full =
                self.delayed.memory.data_blocks > 2 * self.delayed.data_blocks_most && known.active > 0;
            match known.state == EpochState::Open && (owes || full) {
                true => self.delayed.blocked.push_back((id, epoch)),
                false => self.reply(id, Reply::Done),
            }
        }
    }

    /// The epoch whose record can be written now.
    pub(crate) fn epoch_to_end(&self) -> Option<EpochId> {
        let early = self.planted.is(Bug::EndsBeforeParity);
        let is_ready = |known: &Epoch| {
            let written = known.owed.is_empty() && known.active == 0 && known.round.is_none();
            let written = written
                || (early
                    && known.stripes.values().all(|id| {
                        self.delayed.stripes.get(id).is_some_and(|owed| owed.settled || owed.is_encoded())
                    }));
            known.state == EpochState::Ending && written && known.lost.is_empty()
        };
        self.delayed.epochs.iter().find(|(_, known)| is_ready(known)).map(|(&id, _)| id)
    }

    /// A commit of nothing but the record of an end. Everything that it names was reported written; its flush covers it.
    pub(crate) fn begin_end(&mut self, epoch: EpochId) {
        let Some(known) = self.delayed.epochs.get_mut(&epoch) else { return };
        known.state = EpochState::Sealing;
        let mut commit = Commit::new(self.maps.generation);
        commit.ends = Some(epoch);
        commit.members_changed = std::mem::take(&mut self.members_changed);
        commit.outstanding = 1;
        self.commit = Some(commit);
        self.phase_part_done();
    }

    /// What the record of an end says: stripes that are switched, and those that are trimmed.
    pub(crate) fn ended_stripes(&self, epoch: EpochId) -> (Vec<Ended>, BTreeSet<u32>) {
        let Some(known) = self.delayed.epochs.get(&epoch) else { return (Vec::new(), BTreeSet::new()) };
        let mut ended: Vec<Ended> = known
            .stripes
            .iter()
            .filter_map(|(&logical, id)| {
                let owed = self.delayed.stripes.get(id)?;
                let (physical, generation, digests) = (owed.physical, owed.generation, owed.digests.clone());
                Some(Ended { logical, physical, generation, digests })
            })
            .collect();
        if self.planted.is(Bug::EndsInPart) && ended.len() > 1 {
            ended.pop();
        }
        let trimmed = known.unmapped.iter().filter(|logical| !known.stripes.contains_key(logical));
        (ended, trimmed.copied().collect())
    }

    /// The record of an end is durable.
    pub(crate) fn ended(&mut self, epoch: EpochId) {
        let Some(mut known) = self.delayed.epochs.remove(&epoch) else { return };
        for logical in known.unmapped.iter().chain(known.stripes.keys()) {
            self.broken.remove(logical);
            self.repair.remove(logical);
        }
        known.stripes.values().for_each(|&owed| self.keep_ended(owed));
        // Answered when a record says of all devices that were lost meanwhile.
        self.sealed_waiters.append(&mut known.ends);
        let flushes = known.flushes.into_iter().chain(known.round.into_iter().flat_map(|r| r.requests));
        self.sealed_waiters.extend(flushes);
    }

    pub(crate) fn epoch_statuses(&self) -> Vec<EpochStatus> {
        let per_stripe = self.geometry.stripe_blocks();
        let status = |(&epoch, known): (&EpochId, &Epoch)| EpochStatus {
            epoch,
            first: UserBlock(u64::from(known.first) * per_stripe),
            count: u64::from(known.end - known.first) * per_stripe,
            state: known.state,
            stripes: known.stripes.len() as u64,
            owed_stripes: (known.owed.len() + known.lost.len()) as u64,
            owed_blocks: known.owed_blocks,
            owed_blocks_max: known.owed_blocks_max,
            newest: self.delayed.writes,
            oldest: known.owed.keys().next().copied(),
            wasted_stripes: known.wasted,
            lost: self.losses_within(epoch),
        };
        self.delayed.epochs.iter().map(status).collect()
    }

    /// Asserts what must hold between events.
    pub(crate) fn check_delayed(&self) {
        for (id, owed) in &self.delayed.stripes {
            let physical = owed.physical;
            if owed.dropped {
                continue;
            }
            assert!(self.maps.free.contains(physical), "place {physical} of an epoch is mapped");
            assert!(self.pins.contains_key(&physical), "place {physical} of an epoch is not held");
            let known = &self.delayed.epochs[&owed.epoch];
            assert!(known.first <= owed.logical && owed.logical < known.end, "stripe of no epoch");
            let listed = known.owed.values().any(|other| other == id) || known.lost.contains(id);
            assert_eq!(listed, !owed.settled, "stripe {} is owed or settled", owed.logical);
        }
        for known in self.delayed.epochs.values() {
            let owed = known.stripes.values().map(|id| &self.delayed.stripes[id]);
            let blocks: u64 = owed.filter(|owed| !owed.settled).map(Owed::known_blocks).sum();
            assert_eq!(blocks, known.owed_blocks, "blocks owed");
        }
    }
}

/// Ascending blocks as first and count.
pub(crate) fn ranges_of(blocks: impl Iterator<Item = UserBlock>) -> Vec<(UserBlock, u64)> {
    let mut ranges: Vec<(UserBlock, u64)> = Vec::new();
    for block in blocks {
        match ranges.last_mut() {
            Some((first, count)) if first.0 + *count == block.0 => *count += 1,
            _ => ranges.push((block, 1)),
        }
    }
    ranges
}
