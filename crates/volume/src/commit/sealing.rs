//! The beginning of a commit: when it is due, and which blocks are sealed for it.

use crate::commit::Commit;
use crate::engine::Engine;
use crate::memory::Age;
use crate::{Failure, Reply};

/// The most blocks of a record that has only the states of all devices and some notes.
const FIRST_RECORD_BLOCKS: u32 = 4;

/// The blocks that a commit should take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Amount {
    Nothing,
    Written,
    All,
}

impl Engine {
    /// Starts a commit if one is wanted and none is under way.
    pub(crate) fn drive_commit(&mut self) {
        if self.commit.is_some() || self.snapshots.is_under_way() || self.service.has_failed() {
            self.give_up_if_failed();
            return;
        }
        if self.patching.is_going() {
            return;
        }
        if self.patching.has_redo() {
            // This comes before any new record: an opening redoes only the patches of the last one.
            self.redo_patches();
            return;
        }
        if self.records.is_provisional()
            && self.records.is_wanted()
            && self.journal_has_blocks(FIRST_RECORD_BLOCKS)
        {
            // The session counts from its first record on, so this is a record and not a snapshot.
            // A snapshot could overwrite the one that an absent device refers to. If that device
            // later has the newest superblock again, no other device would have the snapshot that
            // it refers to.
            self.records.take_wanted();
            self.commit = Some(Commit::of_members(self.maps.generation()));
            self.phase_part_done();
            return;
        }
        // Devices are admitted only when all stripes written ahead are recorded.
        let may_admit = !self.members.have_arrivals() || self.staging.is_empty();
        if self.members.have_arrivals() && may_admit && self.snapshots.is_closed() {
            // Before an arriving device gets a superblock of this history, the superblocks of the
            // others must say that it may have one.
            self.snapshots.open_history();
            self.begin_snapshot();
            return;
        }
        if (self.members.have_arrivals() || self.snapshots.is_wanted()) && may_admit {
            self.admit_arrivals();
            self.begin_snapshot();
            return;
        }
        if !self.memory.has_committing() {
            self.answer_sealed();
            let wanted = self.memory.has_flushes() || self.records.is_wanted();
            let wanted = wanted || !may_admit || self.memory.is_wanted();
            match if wanted { Amount::All } else { self.amount_to_seal() } {
                Amount::All => self.seal_all(),
                Amount::Written => self.seal_written(),
                Amount::Nothing => {}
            }
            let ends = self.epoch_to_end().is_some();
            let cleaning = self.log_is_low() || self.log_is_cleaned_at_rest();
            let cleaning = cleaning || self.damage.suspects().len() > 0 || self.is_redoing();
            let changes = self.records.is_wanted() || cleaning || ends;
            if !self.memory.has_committing() && !changes {
                return self.prove();
            }
        }
        if self.journal_is_low() {
            self.begin_snapshot();
            return;
        }
        if let Some(epoch) = self.epoch_to_end() {
            self.begin_end(epoch);
            return;
        }
        if (self.log_is_low() || self.log_is_cleaned_at_rest()) && self.begin_patch() {
            return;
        }
        self.begin_commit();
        if !self.memory.has_committing() && self.commit.is_none() && !self.service.has_failed() {
            // Blocks that wait for a merge or repair can wait for ever: the proof is written
            // without them.
            self.prove();
        }
    }

    /// Returns how much of the dirty blocks should be made durable, although no flush waits.
    ///
    /// Stripes that are being written ahead are not taken, and stripes that are dirty in part may
    /// soon be whole. A commit that took these now would write their blocks to the log, and its
    /// flush would wait for writes that it does not need.
    fn amount_to_seal(&self) -> Amount {
        if !self.above_mark() {
            return Amount::Nothing;
        }
        let per_stripe = self.geometry.stripe_blocks() as usize;
        let whole = self.memory.dirty_wholes() * per_stripe;
        let staged = self.memory.staged(Age::Dirty).len();
        let written = staged.saturating_sub(self.staging.under_way() as usize);
        if self.staging.under_way() == 0 || self.memory.dirty_blocks() >= whole + self.memory.mark() {
            Amount::All
        } else if self.are_worth_a_flush(written) {
            Amount::Written
        } else {
            Amount::Nothing
        }
    }

    fn seal_all(&mut self) {
        self.memory.seal_all();
        if !self.memory.has_committing() {
            self.answer_sealed();
        }
    }

    /// Seals the stripes that have been written ahead.
    fn seal_written(&mut self) {
        let (written, _) = self.staging.by_state(self.memory.staged(Age::Dirty));
        self.memory.seal_staged(written);
    }

    /// Answers the flushes of sealed blocks, which are durable now. They wait on if a device was
    /// lost and no record says so yet, or if a record is to prove that the last one is durable.
    pub(super) fn answer_sealed(&mut self) {
        if !self.records.is_wanted() && !self.owes_proof() {
            self.memory.take_committed().into_iter().for_each(|id| self.reply(id, Reply::Done));
        }
    }

    /// Fails the waiting flushes if the volume has failed.
    pub(crate) fn give_up_if_failed(&mut self) {
        if !self.service.has_failed() {
            return;
        }
        let waiting = self.memory.take_flushes();
        waiting.into_iter().for_each(|id| self.reply(id, Reply::Failed(Failure::NotDurable)));
    }
}
