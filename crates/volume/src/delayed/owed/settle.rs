//! Settling a stripe: missing blocks are gathered, lost ones computed, and parity is made.

use super::{Kind, Owed, OwedId, Phase};
use crate::engine::{Engine, IoOwner, JobOwner};
use crate::fetch::Requester;
use crate::{Action, BufferId, Computed, DeviceBlock, IoResult, Operand, Slot, Sum, Urgency, UserBlock};
use pantile_code::CellIndex;
use pantile_plan::CellSet;
use std::collections::{BTreeMap, BTreeSet};

impl Engine {
    /// Begins to settle a stripe: makes its parity, and writes everything that devices lack of it.
    pub(crate) fn settle_owed(&mut self, id: OwedId) {
        let Some(owed) = self.delayed.stripes.get(&id) else { return };
        if !owed.is_idle() || owed.settled || owed.dropped || !owed.lost.is_empty() {
            return;
        }
        self.begin_activity(id, Kind::Settle);
        self.gather_owed(id);
        self.owed_part_done(id);
    }

    /// Returns true if the parity is known and memory has everything that present devices lack.
    fn has_all_that_lacks(&self, owed: &Owed) -> bool {
        owed.has_parity
            && owed.sums.iter().all(Option::is_some)
            && self.present().into_iter().all(|slot| {
                let of_slot = self.indexes_on(owed.physical, slot);
                of_slot.into_iter().all(|at| owed.held[at] || owed.content[at].is_some())
            })
    }

    /// Asks for blocks that are not in memory: from the epoch's own cells, or from before the
    /// epoch.
    pub(super) fn gather_owed(&mut self, id: OwedId) {
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
            let run: Vec<(usize, BufferId)> = run.into_iter().map(|at| (at, self.io.new_buffer())).collect();
            let into = run.iter().map(|&(_, buffer)| buffer).collect();
            let number = self.act_on(id, |activity| {
                activity.asked.extend(run.iter().map(|&(at, _)| at));
                activity.outstanding += 1;
                activity.runs.push(run);
                activity.runs.len() - 1
            });
            let Some(run) = number else { return };
            let io = self.io.new_io(slot, IoOwner::OwedRun { owed: id, run });
            let urgency = Urgency::User;
            self.io.act(Action::Read { io, slot, at: address, into, generation, urgency });
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

    /// Takes a block's content from before the epoch; `None`: it is lost.
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
            None => content.into_iter().for_each(|operand| self.io.release_operand(operand)),
        }
    }

    /// Takes blocks that were read back from the epoch's own cells, or notes that they are
    /// unreadable.
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
            let good = sum.is_some() && owed.sums[at] == sum;
            let Some(activity) = &mut owed.activity else { return };
            if good {
                activity.have[at] = Some(Operand::Buffer(buffer));
                self.noting.count_read(slot, 1);
                continue;
            }
            activity.bad.insert(at);
            if !is_current {
                // The block was written in between; the activity is of an older version and will
                // come to nothing.
                self.io.release(buffer);
                continue;
            }
            owed.held[at] = false;
            self.noting.count_unreadable(slot, *result == IoResult::MediaError);
            self.noting.count_wrong(slot, u64::from(sum.is_some()));
            self.io.release(buffer);
        }
        self.owed_part_done(id);
    }

    /// Ends a part of a stripe's activity.
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

    /// Continues when all answers are here: asks for more, computes, or notes that something is
    /// lost.
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
        // The one outstanding part that guarded the gathering is the computation from now on.
        let Some(recovery) = self.recovery_of(id) else { return self.end_activity(id) };
        if recovery.is_empty() && self.act_on(id, |activity| activity.kind) == Some(Kind::Recall) {
            return self.end_activity(id);
        }
        self.encode_with(id, recovery);
        self.owed_part_done(id);
    }

    /// Returns the sums that give missing data blocks; `None`: something is lost, and is noted.
    fn recovery_of(&mut self, id: OwedId) -> Option<Vec<(Sum, usize, bool)>> {
        let data = self.data_indexes();
        let element = self.geometry.element_blocks() as usize;
        let owed = self.delayed.stripes.get(&id)?;
        let have = owed.activity.as_ref()?.have.clone();
        let has_parity = owed.has_parity;
        // A recall needs only the blocks that the epoch itself has written.
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
            // Blocks that were written in between are not lost.
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
                let into = self.io.new_buffer();
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

    /// Computes parity and checksums of a stripe whose data are all in memory.
    pub(super) fn encode_owed(&mut self, id: OwedId) {
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
        self.io.compute(JobOwner::Owed(id), work);
    }

    pub(crate) fn owed_computed(&mut self, id: OwedId, computed: &Computed) {
        let Computed { checksums: sums, .. } = computed;
        self.act_on(id, |activity| activity.sums.clone_from(sums));
        self.owed_part_done(id);
    }

    /// Parity is computed, or memory had it: writes everything that a present device lacks.
    fn encoded_owed(&mut self, id: OwedId) {
        let Some(owed) = self.delayed.stripes.get_mut(&id) else { return };
        let (dropped, version) = (owed.dropped, owed.version);
        let mut wrong = Vec::new();
        let Some(activity) = &mut owed.activity else { return };
        let recalls = activity.kind == Kind::Recall;
        // Parity that memory had is computed again only together with something that was lost.
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
        spare.into_iter().for_each(|operand| self.io.release_operand(operand));
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
}
