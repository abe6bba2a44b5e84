//! The end of an epoch: rounds that make the pending parity, and the record that switches all
//! stripes of the epoch.

use super::owed::{Owed, OwedId};
use super::{Ended, Epoch, Round, SETTLING_BLOCKS_MOST};
use crate::commit::Commit;
use crate::engine::{Engine, IoOwner};
use crate::{Action, EpochId, EpochState, Failure, Reply, RequestId, Slot};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

impl Engine {
    pub(super) fn end_epoch(&mut self, id: RequestId, epoch: EpochId) {
        let failure = match self.delayed.epochs.get_mut(&epoch) {
            None => Failure::NoSuchEpoch { epoch },
            Some(known) if known.state == EpochState::Beginning => Failure::NoSuchEpoch { epoch },
            Some(_) if self.service.has_failed() => Failure::NotDurable,
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

    pub(super) fn abort_epoch(&mut self, id: RequestId, epoch: EpochId) {
        match self.delayed.epochs.get(&epoch) {
            None => return self.refuse_within(id, Failure::NoSuchEpoch { epoch }),
            // The record of the epoch's end may be durable already.
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

    /// Begins all work for epochs that can begin.
    pub(crate) fn drive_delayed(&mut self) {
        if self.delayed.epochs.is_empty() && self.delayed.stalled.is_empty() {
            return;
        }
        self.retry_stalled();
        if self.service.has_failed() {
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

    /// Fails every request, as nothing can be made durable.
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

    /// Makes the parity of the oldest stripes that are due. All stripes of an ending epoch are due;
    /// otherwise those beyond the budget, or to be made in advance.
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
            // The parity under way may be enough to come below the budget.
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

    /// Returns the number of blocks of an epoch whose parity is being written.
    fn settling_within(&self, epoch: EpochId) -> u64 {
        let Some(known) = self.delayed.epochs.get(&epoch) else { return 0 };
        let stripes = known.owed.values().filter_map(|owed| self.delayed.stripes.get(owed));
        // Stripes that are being settled are among the oldest.
        stripes.take(known.active + 1).filter(|owed| owed.is_settling()).map(Owed::known_blocks).sum()
    }

    /// Writes data of the oldest stripes to the devices, so that they can leave memory.
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
                        let io = self.io.new_io(slot, IoOwner::EpochFlush(epoch));
                        self.io.act(Action::Flush { io, slot });
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

    /// Notes that a part of a stripe is written, or that the stripe is dropped. A flush under way
    /// may wait for this version or a later one.
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

    /// Opens an epoch for writes again if it was to end and has lost something.
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
            // If parity can never be made until its writer overwrites a lost block, the writer must
            // not wait for it.
            let owes = known.owed_blocks > known.owed_blocks_max && !known.owed.is_empty();
            let full =
                self.delayed.memory.data_blocks > 2 * self.delayed.data_blocks_most && known.active > 0;
            match known.state == EpochState::Open && (owes || full) {
                true => self.delayed.blocked.push_back((id, epoch)),
                false => self.reply(id, Reply::Done),
            }
        }
    }

    /// Returns the epoch whose record can be written now.
    pub(crate) fn epoch_to_end(&self) -> Option<EpochId> {
        let is_ready = |known: &Epoch| {
            let written = known.owed.is_empty() && known.active == 0 && known.round.is_none();
            known.state == EpochState::Ending && written && known.lost.is_empty()
        };
        self.delayed.epochs.iter().find(|(_, known)| is_ready(known)).map(|(&id, _)| id)
    }

    /// Begins a commit that consists of an epoch's end record alone. Everything that the record
    /// names was reported written; the flush of the commit covers it.
    pub(crate) fn begin_end(&mut self, epoch: EpochId) {
        let Some(known) = self.delayed.epochs.get_mut(&epoch) else { return };
        known.state = EpochState::Sealing;
        let mut commit = Commit::new(self.maps.generation());
        commit.ends = Some(epoch);
        commit.members_changed = self.records.take_wanted();
        commit.outstanding = 1;
        self.commit = Some(commit);
        self.phase_part_done();
    }

    /// Returns the content of an end's record: stripes that are switched, and stripes that are
    /// trimmed.
    pub(crate) fn ended_stripes(&self, epoch: EpochId) -> (Vec<Ended>, BTreeSet<u32>) {
        let Some(known) = self.delayed.epochs.get(&epoch) else { return (Vec::new(), BTreeSet::new()) };
        let ended: Vec<Ended> = known
            .stripes
            .iter()
            .filter_map(|(&logical, id)| {
                let owed = self.delayed.stripes.get(id)?;
                let (physical, generation, digests) = (owed.physical, owed.generation, owed.digests.clone());
                Some(Ended { logical, physical, generation, digests })
            })
            .collect();
        let trimmed = known.unmapped.iter().filter(|logical| !known.stripes.contains_key(logical));
        (ended, trimmed.copied().collect())
    }

    /// Ends an epoch whose record is durable.
    pub(crate) fn ended(&mut self, epoch: EpochId) {
        let Some(known) = self.delayed.epochs.remove(&epoch) else { return };
        for logical in known.unmapped.iter().chain(known.stripes.keys()) {
            self.is_written_anew(*logical, true);
        }
        known.stripes.values().for_each(|&owed| self.keep_ended(owed));
        // The ends are answered when a record names all devices that were lost in between.
        self.memory.hold_until_committed(known.ends);
        let flushes = known.flushes.into_iter().chain(known.round.into_iter().flat_map(|r| r.requests));
        self.memory.hold_until_committed(flushes);
    }
}
