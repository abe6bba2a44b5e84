//! The records of the journal: the place of the next one, whether one is wanted, and whether the
//! last one is proven durable.
//!
//! * One record is written at a time; its number counts as given once it is durable.
//! * A record is *wanted* while the state of a device has changed, or something was noted, and no
//!   record says so.
//! * The last record is *unproven* while it maps something and nothing after it says that it is
//!   durable ([`crate::proof`]).
//! * A session is *provisional* until its first record or snapshot: a missing device may have a
//!   record that the session does not know. With that device the next session would continue from
//!   that record and undo everything that this session has answered, so a provisional session
//!   answers nothing.

use pantile_format::volume::RecordNumber;

/// State of the journal: the place of the next record, and the records that are wanted.
#[derive(Debug)]
pub(crate) struct Records {
    /// The number of the next record, and the block of the ring where it begins.
    next: u64,
    head: u32,
    /// Blocks that hold records newer than the snapshot.
    used: u32,
    /// Of these, the blocks that a commit under way is writing.
    under_way: u32,
    /// The first generation that no durable record can have.
    generation: u64,
    is_wanted: bool,
    is_unproven: bool,
    /// An unproven record must be proved by an empty one, because no writes come.
    proof_is_wanted: bool,
    is_provisional: bool,
}

impl Records {
    /// Makes the state from the number and the place of the next record; `used`: blocks in use.
    pub(crate) fn at(next: u64, head: u32, used: u32) -> Records {
        Records {
            next,
            head,
            used,
            under_way: 0,
            generation: 0,
            is_wanted: false,
            is_unproven: false,
            proof_is_wanted: false,
            is_provisional: false,
        }
    }

    pub(crate) fn next(&self) -> RecordNumber {
        RecordNumber(self.next)
    }

    /// Returns the number of the last record.
    pub(crate) fn last(&self) -> RecordNumber {
        RecordNumber(self.next - 1)
    }

    pub(crate) fn head(&self) -> u32 {
        self.head
    }

    /// Returns the number of blocks that hold whole records newer than the snapshot.
    pub(crate) fn written(&self) -> u32 {
        self.used - self.under_way
    }

    /// Returns true if less than half of a ring of this length is certain to be free.
    pub(crate) fn is_low(&self, ring_blocks: u32) -> bool {
        2 * self.used > ring_blocks
    }

    /// Returns true if this many further blocks of a ring are certain to be free.
    pub(crate) fn has_free(&self, blocks: u32, ring_blocks: u32) -> bool {
        self.used + blocks < ring_blocks
    }

    /// Notes that a record of this many blocks is being written at the head, which moves behind it.
    pub(crate) fn write(&mut self, blocks: u32, head: u32) {
        self.head = head;
        self.used += blocks;
        self.under_way = blocks;
    }

    /// Ends a commit: its record is durable, or it failed. `newest`: the highest generation that
    /// the record maps. A record that maps nothing proves all before it, and names no block that
    /// could be missing.
    pub(crate) fn end_commit(&mut self, has_record: bool, newest: Option<u64>) {
        self.under_way = 0;
        self.generation = self.generation.max(newest.map_or(0, |newest| newest + 1));
        if has_record {
            self.next += 1;
            self.is_unproven = newest.is_some();
            self.is_provisional = false;
        }
    }

    /// Ends a snapshot, which is durable: it contains all records, and no generation from this one
    /// on.
    pub(crate) fn end_snapshot(&mut self, generation: u64) {
        self.used = 0;
        self.generation = self.generation.max(generation);
        self.is_unproven = false;
        self.is_provisional = false;
    }

    /// Begins a session: no durable record can have this generation or a higher one.
    pub(crate) fn begin_session(&mut self, generation: u64) {
        self.generation = generation;
    }

    /// Begins a session without all devices: it writes a record before it serves.
    pub(crate) fn begin_provisionally(&mut self) {
        (self.is_provisional, self.is_wanted) = (true, true);
    }

    pub(crate) fn is_provisional(&self) -> bool {
        self.is_provisional
    }

    /// Returns the number of generations below this one that no durable record can have.
    pub(crate) fn unrecorded(&self, generation: u64) -> u64 {
        generation.saturating_sub(self.generation)
    }

    /// Wants a record if `is_new`.
    pub(crate) fn want_if(&mut self, is_new: bool) {
        self.is_wanted |= is_new;
    }

    pub(crate) fn want(&mut self) {
        self.want_if(true);
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// Clears the wish for a record, which is begun now; returns whether there was one.
    pub(crate) fn take_wanted(&mut self) -> bool {
        std::mem::take(&mut self.is_wanted)
    }

    /// Sets whether the last record that an opening has found is unproven.
    pub(crate) fn found(&mut self, is_unproven: bool) {
        self.is_unproven = is_unproven;
    }

    /// Wants an empty record that proves the last one, because no writes come.
    pub(crate) fn want_proof(&mut self) {
        self.proof_is_wanted = true;
    }

    /// Drops the wish for a proof: another record will follow and prove as much.
    pub(crate) fn need_no_proof(&mut self) {
        self.proof_is_wanted = false;
    }

    /// Returns true if a proof of the last record is wanted and missing.
    pub(crate) fn lack_proof(&self) -> bool {
        self.is_unproven && self.proof_is_wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_maps_something_is_unproven_until_another_follows() {
        let mut records = Records::at(1, 0, 0);
        records.begin_provisionally();
        records.want_proof();
        records.write(1, 1);
        records.end_commit(true, Some(7));
        assert!(records.lack_proof() && !records.is_provisional());
        assert_eq!((records.last(), records.unrecorded(9)), (RecordNumber(1), 1));
        records.write(1, 2);
        records.end_commit(false, None);
        assert!(records.lack_proof());
        records.end_commit(true, None);
        assert!(!records.lack_proof());
        assert_eq!((records.last(), records.written()), (RecordNumber(2), 2));
    }

    #[test]
    fn a_wish_for_a_record_is_taken_by_one_commit() {
        let mut records = Records::at(1, 0, 0);
        records.want_if(false);
        assert!(!records.take_wanted());
        records.want();
        assert!(records.take_wanted() && !records.is_wanted());
    }
}
