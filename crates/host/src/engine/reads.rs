//! Failed reads of each device. A device with too many is given up if all data can be read without
//! it.

use super::Engine;
use crate::HostError;
use pantile_format::volume::Reason;
use pantile_volume::Slot;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Number of chunks whose reads fail within [`FAILED_WITHIN`] before a device is given up: the
/// limit of Linux's md, 20 read errors an hour. A chunk counts once until it is written or read
/// successfully, so repeated reads of one bad spot count once.
const FAILED_MOST: usize = 20;

/// The period of [`FAILED_MOST`].
const FAILED_WITHIN: Duration = Duration::from_secs(3600);

/// Reads of a device that failed.
#[derive(Debug, Default)]
pub(super) struct FailedReads {
    /// Number of failed reads that the volume has counted.
    counted: u64,
    /// Times of the newest ones, at most [`FAILED_MOST`].
    at: VecDeque<Instant>,
}

impl FailedReads {
    /// Updates the number of failed reads from the volume's count.
    fn note(&mut self, counted: u64, now: Instant) {
        let new = counted.saturating_sub(self.counted).min(FAILED_MOST as u64);
        self.counted = counted;
        self.at.extend((0..new).map(|_| now));
        self.at.drain(..self.at.len().saturating_sub(FAILED_MOST));
        while self.at.front().is_some_and(|&at| now.duration_since(at) > FAILED_WITHIN) {
            self.at.pop_front();
        }
    }

    pub(super) fn are_too_many(&self) -> bool {
        self.at.len() == FAILED_MOST
    }
}

impl Engine {
    /// Records the reads that failed since the last call.
    pub(super) fn look_at_failed_reads(&mut self, now: Instant) {
        let counted = self.volume.unreadable_chunks();
        for (member, counted) in self.members.iter_mut().zip(counted) {
            member.failed_reads.note(counted, now);
        }
    }

    /// Gives up a device with too many failed reads, if all data can be read without it. True if it
    /// was given up.
    pub(crate) fn give_up_unreadable(&mut self, slot: Slot) -> Result<bool, HostError> {
        self.known(slot)?;
        let fails = self.members[slot.0 as usize].failed_reads.are_too_many();
        Ok(fails && self.give_up_if_spared(slot, Reason::READS_FAILED))
    }

    /// Gives up a device that was overwritten, if all data can be read without it. True if it was
    /// given up.
    pub(crate) fn give_up_overwritten(&mut self, slot: Slot) -> Result<bool, HostError> {
        self.known(slot)?;
        Ok(self.give_up_if_spared(slot, Reason::OVERWRITTEN))
    }

    fn give_up_if_spared(&mut self, slot: Slot, why: Reason) -> bool {
        let member = &self.members[slot.0 as usize];
        let goes = member.number.is_some() && self.volume.can_spare(&[slot]) == Some(true);
        if goes {
            self.drop_device_for(slot, why, 0, None);
        }
        goes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_that_failed_long_ago_do_not_count() {
        let mut failed = FailedReads::default();
        let begin = Instant::now();
        for nth in 0..100 {
            failed.note(nth, begin + Duration::from_secs(240) * nth as u32);
            assert!(!failed.are_too_many(), "15 an hour are tolerated: {nth}");
        }
        let now = begin + Duration::from_secs(240 * 100);
        failed.note(103, now);
        assert!(!failed.are_too_many());
        failed.note(104, now);
        assert!(failed.are_too_many());
        failed.note(104, now + FAILED_WITHIN + Duration::from_secs(1));
        assert!(!failed.are_too_many());
        failed.note(1_000_000, now + FAILED_WITHIN);
        assert!(failed.are_too_many() && failed.at.len() == FAILED_MOST);
    }
}
