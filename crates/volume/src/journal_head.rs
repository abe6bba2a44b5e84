//! The place of the next record in the ring of the journal, and how much of the ring is in use.

use pantile_format::volume::RecordNumber;

/// Where records go.
#[derive(Debug)]
pub(crate) struct JournalHead {
    /// The number of the next record, and where it goes.
    next: u64,
    head: u32,
    /// Blocks that hold records newer than the snapshot.
    used: u32,
    /// Those of them that a commit under way writes.
    under_way: u32,
}

impl JournalHead {
    /// The next record has this number and goes there; so many blocks are in use.
    pub(crate) fn at(next: u64, head: u32, used: u32) -> JournalHead {
        JournalHead { next, head, used, under_way: 0 }
    }

    pub(crate) fn next(&self) -> RecordNumber {
        RecordNumber(self.next)
    }

    /// The number of the last record.
    pub(crate) fn last(&self) -> RecordNumber {
        RecordNumber(self.next - 1)
    }

    /// Where the next record goes.
    pub(crate) fn head(&self) -> u32 {
        self.head
    }

    /// Blocks that hold whole records newer than the snapshot.
    pub(crate) fn written(&self) -> u32 {
        self.used - self.under_way
    }

    /// A record of so many blocks is written where the head is, which moves behind it.
    pub(crate) fn write(&mut self, blocks: u32, head: u32) {
        self.head = head;
        self.used += blocks;
        self.under_way = blocks;
    }

    /// Ends a write: it is durable, or its commit failed.
    pub(crate) fn end_commit(&mut self, has_record: bool) {
        self.next += u64::from(has_record);
        self.under_way = 0;
    }

    /// A snapshot has all that the records said.
    pub(crate) fn clear(&mut self) {
        self.used = 0;
    }

    /// True if less than half of a ring of this length is certain to be free.
    pub(crate) fn is_low(&self, ring_blocks: u32) -> bool {
        2 * self.used > ring_blocks
    }

    /// True if this number of further blocks of a ring is certain to be free.
    pub(crate) fn has_free(&self, blocks: u32, ring_blocks: u32) -> bool {
        self.used + blocks < ring_blocks
    }
}
