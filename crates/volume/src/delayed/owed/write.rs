//! Writing a stripe: blocks that are dirty or that a device lacks go to their cells, and the new
//! state is noted.

use super::{Activity, Kind, Owed, OwedId, Phase};
use crate::engine::{Engine, IoOwner, JobOwner};
use crate::{Action, Compute, DeviceBlock, Operand, Piece, Seed, Slot, Urgency};
use std::collections::BTreeSet;

impl Engine {
    /// Notes that a request has written to a stripe.
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

    /// Begins to compute the parity of a stripe whose data are all in memory.
    fn fill_if_whole(&mut self, id: OwedId) {
        let data = self.data_indexes();
        let Some(owed) = self.delayed.stripes.get(&id) else { return };
        let is_whole = data.iter().all(|&at| owed.content[at].is_some());
        if owed.is_idle() && is_whole && !owed.has_parity && !owed.dirty.is_empty() {
            // All data go to the devices now, with the parity, chunk after chunk, without seeks. If
            // a part of the data is there already, parity waits for the end: headers are stored
            // apart from the data, and the user would wait for those writes too.
            let at_once = owed.dirty.len() == data.len();
            self.begin_activity(id, if at_once { Kind::Settle } else { Kind::Fill });
            self.encode_owed(id);
            self.owed_part_done(id);
        }
    }

    /// Begins to write the dirty blocks of a stripe.
    pub(crate) fn write_owed(&mut self, id: OwedId) {
        self.fill_if_whole(id);
        let Some(owed) = self.delayed.stripes.get(&id) else { return };
        if !owed.is_idle() || owed.clean >= owed.version {
            return;
        }
        // Blocks of a lost device stay in memory.
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
        self.io.compute(JobOwner::Owed(id), Compute { checksums, ..Compute::default() });
        self.write_activity(id, false);
        self.owed_part_done(id);
    }

    /// Writes the blocks of an activity: the dirty ones, and after a computation also others that a
    /// device lacks.
    pub(super) fn write_activity(&mut self, id: OwedId, encoded: bool) {
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
            let io = self.io.new_io(slot, IoOwner::OwedWrite(id));
            self.io.act(Action::Write { io, slot, at, pieces, urgency: Urgency::User });
        }
    }

    /// Ends the activity of a stripe, which is done or has become obsolete.
    pub(super) fn end_activity(&mut self, id: OwedId) {
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
            // Nothing was written: dirty blocks stay dirty.
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
            // Blocks of a lost device stay in memory until the stripe is settled, and so do those
            // computed in their place.
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
            self.io.release_operand(operand);
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

    /// Notes that the writes of a stripe were reported.
    fn note_written(
        &mut self,
        owed: &mut Owed,
        activity: &mut Activity,
        data: &BTreeSet<usize>,
        present: &BTreeSet<Slot>,
    ) {
        if owed.generation != activity.generation {
            // The stripe has another generation since: all of it is written again.
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
            // Content from before the epoch belongs to the epoch from now on.
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

    /// Marks a stripe as settled if every present device has all of its chunk, and releases its
    /// memory.
    pub(crate) fn settled_if_so(&mut self, id: OwedId) {
        if self.delayed.stripes.get(&id).is_some_and(|owed| owed.has_parity && !owed.recalled) {
            // Data that were written leave memory; those of a lost device can be computed once
            // parity is written.
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
        released.into_iter().for_each(|operand| self.io.release_operand(operand));
    }
}
