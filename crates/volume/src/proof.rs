//! The proof that flushed blocks are durable: a record of nothing behind the last one that maps
//! something.
//!
//! An opening believes a record that another follows. A crash may have cut off the last one, so it
//! counts only if all of its blocks are there. So when no writes come any more, a record without
//! entries follows it. It is written when the flushes of the one before have ended: it is true
//! wherever it is whole, and as the last record it can lack nothing. Unreadable blocks of the one
//! before are then lost, and not undone.

use crate::commit::Commit;
use crate::engine::Engine;

impl Engine {
    /// Returns true if a record is to say that the last one is durable; flushes wait for it.
    pub(crate) fn owes_proof(&self) -> bool {
        self.records.lack_proof() && !self.is_redoing()
    }

    /// Writes a record of nothing, if it is wanted. Its number proves that the record before it was
    /// durable, even where its blocks cannot be read. Nothing is being made durable.
    pub(crate) fn prove(&mut self) {
        if !self.owes_proof() {
            return;
        }
        if self.journal_is_low() {
            // The snapshot says as much.
            return self.begin_snapshot();
        }
        self.commit = Some(Commit::proof(self.maps.generation()));
        self.phase_part_done();
    }
}
