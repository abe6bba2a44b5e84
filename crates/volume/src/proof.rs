//! The proof that flushed blocks are durable: an empty record after the last one that maps
//! something.
//!
//! An opening believes every record that another record follows. A crash may have cut off the last
//! one, so that one counts only if all of its blocks are there. So when writes stop, an empty
//! record is written, after the flushes of the record before have ended. It is valid wherever it is
//! whole, and as the last record it names no blocks that could be missing. If blocks of the record
//! before cannot be read later, they are then lost, and the record is not undone.

use crate::commit::Commit;
use crate::engine::Engine;

impl Engine {
    /// Returns true if an empty record must prove that the last one is durable; flushes wait for
    /// it.
    pub(crate) fn owes_proof(&self) -> bool {
        self.records.lack_proof() && !self.is_redoing()
    }

    /// Writes an empty record, if a proof is wanted. Its number proves that the record before it
    /// was durable, even if blocks of that record cannot be read. No commit or snapshot is under
    /// way.
    pub(crate) fn prove(&mut self) {
        if !self.owes_proof() {
            return;
        }
        if self.journal_is_low() {
            // A snapshot proves as much.
            return self.begin_snapshot();
        }
        self.commit = Some(Commit::proof(self.maps.generation()));
        self.phase_part_done();
    }
}
