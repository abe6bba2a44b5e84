//! Requests of an epoch: writes, trims and reads.

use super::owed::{OwedId, Task};
use super::{EpochRead, ranges_of};
use crate::engine::{Engine, IoOwner};
use crate::fetch::Requester;
use crate::staging::PLACES_LEFT;
use crate::{Action, EpochId, EpochState, Failure, IoResult, Operand, Request, RequestId, Slot, UserBlock};
use std::collections::BTreeSet;

impl Engine {
    pub(super) fn within(&mut self, id: RequestId, epoch: EpochId, request: Request) {
        if let Err((failure, request)) =
            self.may_do_within(epoch, request).and_then(|request| match self.try_within(id, epoch, request) {
                None => Ok(()),
                Some(refused) => Err(refused),
            })
        {
            if let Request::Write { contents: buffers, .. } = request {
                buffers.into_iter().for_each(|buffer| self.io.act(Action::Release(buffer)));
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
            Request::Write { first, contents: buffers, .. } => (first.0, buffers.len() as u64, true),
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
        if self.service.has_failed() && !matches!(request, Request::Read { .. }) {
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

    /// Performs a request; returns the request with the failure if it is refused.
    fn try_within(&mut self, id: RequestId, epoch: EpochId, request: Request) -> Option<(Failure, Request)> {
        match request {
            Request::Read { first, count } => self.user_read(id, Some(epoch), first, count),
            Request::Flush => self.flush_epoch(id, epoch),
            Request::Write { first, contents: buffers, durable } => {
                let blocks = first.0..first.0 + buffers.len() as u64;
                let logicals: BTreeSet<u32> =
                    blocks.map(|block| self.geometry.locate(UserBlock(block)).0).collect();
                match self.make_stripes(epoch, &logicals) {
                    Ok(()) => {}
                    Err(None) => {
                        let request = Box::new(Request::Write { first, contents: buffers, durable });
                        self.delayed.stalled.push_back((id, Request::Within { epoch, request }));
                        return None;
                    }
                    Err(Some(failure)) => {
                        return Some((failure, Request::Write { first, contents: buffers, durable }));
                    }
                }
                for (block, buffer) in (first.0..).map(UserBlock).zip(buffers) {
                    self.io.adopt(buffer);
                    self.put_within(epoch, block, Operand::Buffer(buffer));
                }
                self.written_within(id, epoch, &logicals, durable);
            }
            Request::Trim { first, count } => return self.trim_within(id, epoch, first, count),
            request => return Some((Failure::NoSuchEpoch { epoch }, request)),
        }
        None
    }

    /// Notes that stripes were written to.
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

    /// Returns the failure if one record could not switch all stripes of an epoch together with new
    /// ones.
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

    /// Finds places for stripes that an epoch has not written yet. `None`: no place is free until
    /// writes under way are done.
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
            self.snapshots.want();
            return Err(None);
        }
        if new.is_empty() {
            return Ok(());
        }
        if let Some(failure) = self.record_refusal(epoch, &new, &BTreeSet::new()) {
            return Err(Some(failure));
        }
        let is_extra =
            |logical: &u32| self.maps.mapping(*logical).is_some() || self.maps.logged().contains_key(logical);
        let extra = new.iter().filter(|logical| is_extra(logical)).count();
        let spare = (self.geometry.physical_stripes() - self.geometry.logical_stripes()) as usize;
        if extra > 0 && spare < self.delayed.extra_places + extra + PLACES_LEFT {
            // Places of aborted stripes become free when their last writes are reported.
            let waits = self.delayed.stripes.values().any(|owed| owed.dropped);
            return Err((!waits).then_some(Failure::NoRoom { epoch }));
        }
        let free = self.maps.free().iter().filter(|place| !self.pins.holds(*place));
        let places: Vec<u32> = free.take(new.len()).collect();
        if places.len() < new.len() {
            if self.staging.is_empty() && self.commit.is_none() && self.is_idle() {
                return Err(Some(Failure::NoRoom { epoch }));
            }
            if !self.staging.is_empty() {
                self.memory.want_commit();
            }
            return Err(None);
        }
        for (logical, physical) in new.into_iter().zip(places) {
            let extra = self.maps.mapping(logical).is_some() || self.maps.logged().contains_key(&logical);
            self.make_owed(epoch, logical, physical, extra);
        }
        Ok(())
    }

    /// Finds the blocks of an epoch's read, given as indexes into the read.
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

    /// Delivers a block of a stripe whose parity is made; `None`: it could not be read.
    pub(crate) fn deliver_within(
        &mut self,
        (id, index): (RequestId, usize),
        (owed, version): (OwedId, u64),
        block: UserBlock,
        content: Option<Operand>,
    ) {
        match content {
            None if !self.is_settled_as_of(owed, version) => self.resolve_within(id, vec![index]),
            content => {
                self.deliver(Requester::User(id, index), block, content);
                if let Some(Operand::Buffer(buffer)) = content {
                    // The delivery took another reference to it.
                    self.io.release(buffer);
                }
            }
        }
    }

    /// Returns true if the parity of a stripe is made, and the stripe has not been written since
    /// this version.
    pub(crate) fn is_settled_as_of(&self, owed: OwedId, version: u64) -> bool {
        self.delayed.stripes.get(&owed).is_some_and(|owed| owed.version == version && owed.settled)
    }

    /// Begins to read a block from where the epoch wrote it.
    pub(crate) fn read_in_place(&mut self, (id, index): (RequestId, usize), owed: OwedId, at: usize) {
        let Some(stripe) = self.delayed.stripes.get(&owed) else { return };
        let (Some(expected), physical, generation) = (stripe.sums[at], stripe.physical, stripe.generation)
        else {
            unreachable!("what is held has a checksum")
        };
        let (slot, address) = self.owed_place(physical, at);
        let (buffer, read) = (self.io.new_buffer(), self.io.next_id());
        self.pins.pin(physical);
        let waiting = EpochRead { id, index, owed, physical, at, expected, buffer };
        self.delayed.reads.insert(read, waiting);
        let io = self.io.new_io(slot, IoOwner::EpochRead(read));
        let (into, urgency) = (vec![buffer], crate::Urgency::User);
        self.io.act(Action::Read { io, slot, at: address, into, generation, urgency });
    }

    pub(crate) fn epoch_read(&mut self, read: u64, slot: Slot, result: &IoResult) {
        let Some(EpochRead { id, index, owed, physical, at, expected, buffer }) =
            self.delayed.reads.remove(&read)
        else {
            return;
        };
        self.pins.unpin(physical);
        if matches!(result, IoResult::Checksums(sums) if sums[..] == [expected]) {
            self.noting.count_read(slot, 1);
            if let Some((_, first)) = self.read_of(id) {
                let block = UserBlock(first.0 + index as u64);
                self.deliver(Requester::User(id, index), block, Some(Operand::Buffer(buffer)));
            }
            self.io.release(buffer);
            return;
        }
        self.io.release(buffer);
        self.rotted(owed, at, expected, slot, result);
        self.resolve_within(id, vec![index]);
    }

    /// Returns the failure of an epoch's read that needs lost blocks.
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

    /// Answers a flush of an epoch when all writes before it are on the devices.
    fn flush_epoch(&mut self, id: RequestId, epoch: EpochId) {
        if let Some(known) = self.delayed.epochs.get_mut(&epoch) {
            known.flushes.push(id);
        }
    }
}
