//! Records of the journal: the place of the next one, wishes for one, and proofs by those on the
//! devices.
//!
//! * One record is written at a time; its number is given when it is durable.
//! * A record is *wanted* while the state of a device changed, or something was noted, and no
//!   record says so.
//! * The last record is *unproven* while it maps something and nothing behind it says that it is
//!   durable ([`crate::proof`]).
//! * A session is *provisional* until its first record or snapshot: a missing device may have a
//!   record that the session does not know. With that device the next session would go on from
//!   there and undo all that this one answered, so it answers nothing.

use pantile_format::volume::RecordNumber;

/// State of the journal: its place for the next record, and records still to be written.
#[derive(Debug)]
pub(crate) struct Records {
    /// The number of the next record, and where it goes.
    next: u64,
    head: u32,
    /// Blocks that hold records newer than the snapshot.
    used: u32,
    /// Those of them that a commit under way writes.
    under_way: u32,
    /// The first generation that no durable record can have.
    generation: u64,
    is_wanted: bool,
    is_unproven: bool,
    /// If unproven, a record is to prove it, because no writes come.
    proof_is_wanted: bool,
    is_provisional: bool,
}

impl Records {
    /// Begins with the number and the place of the next record; `used` blocks are in use.
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

    /// The number of the last record.
    pub(crate) fn last(&self) -> RecordNumber {
        RecordNumber(self.next - 1)
    }

    pub(crate) fn head(&self) -> u32 {
        self.head
    }

    /// Blocks that hold whole records newer than the snapshot.
    pub(crate) fn written(&self) -> u32 {
        self.used - self.under_way
    }

    /// True if less than half of a ring of this length is certain to be free.
    pub(crate) fn is_low(&self, ring_blocks: u32) -> bool {
        2 * self.used > ring_blocks
    }

    /// True if this number of further blocks of a ring is certain to be free.
    pub(crate) fn has_free(&self, blocks: u32, ring_blocks: u32) -> bool {
        self.used + blocks < ring_blocks
    }

    /// Writes a record of this many blocks at the head, which moves behind it.
    pub(crate) fn write(&mut self, blocks: u32, head: u32) {
        self.head = head;
        self.used += blocks;
        self.under_way = blocks;
    }

    /// Ends a write: it is durable, or its commit failed. `newest` is the last generation that it
    /// maps; one that maps nothing proves all before it, and there is nothing that it could lack.
    pub(crate) fn end_commit(&mut self, has_record: bool, newest: Option<u64>) {
        self.under_way = 0;
        self.generation = self.generation.max(newest.map_or(0, |newest| newest + 1));
        if has_record {
            self.next += 1;
            self.is_unproven = newest.is_some();
            self.is_provisional = false;
        }
    }

    /// A durable snapshot has all that the records said, and no generation from this one on.
    pub(crate) fn end_snapshot(&mut self, generation: u64) {
        self.used = 0;
        self.generation = self.generation.max(generation);
        self.is_unproven = false;
        self.is_provisional = false;
    }

    /// A session begins: no durable record can have this generation.
    pub(crate) fn begin_session(&mut self, generation: u64) {
        self.generation = generation;
    }

    /// The session begins without all devices: it writes a record before it serves.
    pub(crate) fn begin_provisionally(&mut self) {
        (self.is_provisional, self.is_wanted) = (true, true);
    }

    pub(crate) fn is_provisional(&self) -> bool {
        self.is_provisional
    }

    /// Generations up to this one that no durable record has.
    pub(crate) fn unrecorded(&self, generation: u64) -> u64 {
        generation.saturating_sub(self.generation)
    }

    /// Wants a record, if `is_new`.
    pub(crate) fn want_if(&mut self, is_new: bool) {
        self.is_wanted |= is_new;
    }

    pub(crate) fn want(&mut self) {
        self.want_if(true);
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// Takes the wish for a record, which is begun; returns whether there was one.
    pub(crate) fn take_wanted(&mut self) -> bool {
        std::mem::take(&mut self.is_wanted)
    }

    /// Notes the last record that an opening found, and whether it is unproven.
    pub(crate) fn found(&mut self, is_unproven: bool) {
        self.is_unproven = is_unproven;
    }

    /// Wants a record that proves the last one, because no writes come.
    pub(crate) fn want_proof(&mut self) {
        self.proof_is_wanted = true;
    }

    /// A record will follow that proves as much.
    pub(crate) fn need_no_proof(&mut self) {
        self.proof_is_wanted = false;
    }

    /// Returns true if a record that proves the last one is wanted.
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
