//! Lost and returning devices and their wrong answers, for stripes with pending parity.

use super::OwedId;
use crate::engine::Engine;
use crate::{IoResult, Slot};
use std::collections::BTreeSet;

impl Engine {
    /// Lists a stripe among those that have lost something, or among those whose parity can be
    /// made.
    pub(super) fn look_at_losses(&mut self, id: OwedId) {
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

    /// Notes blocks of a stripe as lost that can neither be read from the devices nor computed.
    pub(super) fn lose_blocks(&mut self, id: OwedId, blocks: &[usize]) {
        let Some(owed) = self.delayed.stripes.get_mut(&id) else { return };
        let gone: Vec<usize> = blocks.iter().copied().filter(|at| owed.content[*at].is_none()).collect();
        let forgotten: u64 = gone.into_iter().map(|at| owed.lose(at)).sum();
        let (epoch, settled) = (owed.epoch, owed.settled || owed.dropped);
        if let Some(known) = self.delayed.epochs.get_mut(&epoch) {
            known.owed_blocks -= if settled { 0 } else { forgotten };
        }
        self.look_at_losses(id);
    }

    /// Notes the loss of a device, and of the blocks that it alone had.
    pub(crate) fn lose_owed(&mut self, slot: Slot) {
        let ids: Vec<OwedId> = self.delayed.stripes.keys().copied().collect();
        let data: BTreeSet<usize> = self.data_indexes().into_iter().collect();
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
                    lost.push(at);
                }
            }
            self.lose_blocks(id, &lost);
        }
    }

    /// Notes that devices are admitted again: they lack their parts of stripes that were settled
    /// without them.
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

    /// Notes that a block which was read from the epoch's own cell is wrong.
    pub(crate) fn rotted(&mut self, id: OwedId, at: usize, expected: u64, slot: Slot, result: &IoResult) {
        let Some(owed) = self.delayed.stripes.get_mut(&id) else { return };
        if owed.dropped || owed.sums[at] != Some(expected) || !owed.held[at] {
            return;
        }
        self.noting.count_unreadable(slot, *result == IoResult::MediaError);
        self.noting.count_wrong(slot, u64::from(*result != IoResult::MediaError));
        owed.held[at] = false;
        if !owed.has_parity {
            self.lose_blocks(id, &[at]);
        }
    }
}
