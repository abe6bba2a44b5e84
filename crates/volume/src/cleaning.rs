//! Cleaning of the log: when blocks go home from it, and which ones.
//!
//! A block that is written again in the log, or with its whole stripe, needs no writing home. So
//! blocks stay in the log until their rows are needed, or until they are old:
//!
//! * *low*: fewer than a quarter of the rows are free. Writers may need them now, so every commit
//!   cleans;
//! * *need*: the volume is at rest, and the free rows are fewer than that quarter plus half of the
//!   rows of a recent burst, this half being at most another quarter. The next burst of this size
//!   then finds room for its first half, and the second half is cleaned as it comes;
//! * *age*: the volume is at rest, and blocks have been in the log for [`LOG_AGE`], in stripes with
//!   a 32nd of their blocks there or more. Sequential reads then need no detours.
//!
//! Blocks go home as a patch of their stripe ([`crate::patch`]) or by a merge, which writes the
//! whole stripe; the cheaper way is taken. The cost is counted in blocks at the devices while the
//! volume is at rest, else in blocks and operations.
//!
//! A volume is at *rest* from an idle event to the next request. While a device is lost or being
//! rebuilt only a low log is cleaned, because a rebuild goes first.

use crate::engine::Engine;
use crate::{BLOCK_BYTES, Slot};
use pantile_format::volume::StripePatch;
use std::collections::BTreeSet;

/// Seconds after which blocks of the log are old: an hour. Ages are known to within an hour, and
/// count from the opening of the volume.
pub const LOG_AGE: i64 = 3600;

/// The most stripes that one commit merges to empty the log.
pub(crate) const MERGES_MOST: usize = 8;

/// A stripe is merged at rest if at least one in this many of its blocks is in the log. A block or
/// two of a stripe of 15 MiB are left there: they can be written again before their rows are
/// needed.
const IDLE_SHARE: u64 = 32;

/// The number of blocks that cost as much as one operation while requests come.
const OPERATION_BLOCKS: u64 = 4;

/// Bytes of a cell of the log in a record.
const CELL_BYTES: u64 = 16;

/// State from which the number of rows to keep free and the old blocks are derived.
#[derive(Debug, Default)]
pub(crate) struct Cleaning {
    /// The volume is at rest, and something may be left to clean.
    is_at_rest: bool,
    /// Rows that commits have written since the last rest.
    written: usize,
    /// Rows that the largest recent burst has written.
    burst: usize,
    /// A time in seconds, and the next generation at that time.
    mark: Option<(i64, u64)>,
    /// Stripes whose blocks in the log are old.
    old: BTreeSet<u32>,
}

impl Cleaning {
    /// Counts rows of users' blocks that a commit writes.
    pub(crate) fn rows_are_written(&mut self, rows: usize) {
        self.written += rows;
    }

    pub(crate) fn is_at_rest(&self) -> bool {
        self.is_at_rest
    }

    /// Notes that a request comes.
    pub(crate) fn end_rest(&mut self) {
        self.is_at_rest = false;
    }
}

impl Engine {
    /// Ends a burst, and marks blocks as old that were in the log an hour ago.
    pub(crate) fn begin_rest(&mut self) {
        self.cleaning.is_at_rest = true;
        let written = std::mem::take(&mut self.cleaning.written);
        if written > 0 {
            // The maximum decays by half: one small burst says little about the next one.
            self.cleaning.burst = written.max(self.cleaning.burst / 2);
        }
        let now = (self.noting.now(), self.maps.generation());
        match self.cleaning.mark {
            Some((since, generation)) if since.saturating_add(LOG_AGE) <= now.0 => {
                self.cleaning.old = self.stripes_logged_before(generation);
                self.cleaning.mark = Some(now);
            }
            Some((since, _)) if since <= now.0 => {}
            _ => self.cleaning.mark = Some(now),
        }
    }

    /// Returns stripes with a block in a row older than a generation.
    fn stripes_logged_before(&self, generation: u64) -> BTreeSet<u32> {
        let rows = self.maps.rows().values().filter(|row| row.generation < generation);
        let blocks = rows.flat_map(|row| row.blocks.iter().flatten());
        let of_users = blocks.filter(|&&block| !self.geometry.is_home(block));
        of_users.map(|&block| self.geometry.locate(block).0).collect()
    }

    /// Tests whether fewer than a quarter of the rows are free.
    pub(crate) fn log_is_low(&self) -> bool {
        self.maps.log_blocks() > 0 && self.maps.free_rows().len() < self.geometry.log_rows() as usize / 4
    }

    /// Tests whether there is a reason to clean a log that is not low.
    pub(crate) fn log_is_cleaned_at_rest(&self) -> bool {
        let is_wanted = self.needs_rows_for_a_burst() || !self.cleaning.old.is_empty();
        self.cleaning.is_at_rest && is_wanted && self.maps.has_all_members()
    }

    /// Tests whether there are too few free rows for half of a recent burst on top of the quarter
    /// that stays free.
    fn needs_rows_for_a_burst(&self) -> bool {
        let quarter = self.geometry.log_rows() as usize / 4;
        let kept = quarter + (self.cleaning.burst / 2).min(quarter);
        self.maps.log_blocks() > 0 && self.maps.free_rows().len() < kept
    }

    /// Returns stripes to merge so that the log empties, fullest first. If `patches_go_on`, stripes
    /// that are cheaper to patch are left out.
    pub(crate) fn stripes_to_merge(&self, patches_go_on: bool) -> Vec<u32> {
        let is_low = self.log_is_low();
        if !is_low && !self.log_is_cleaned_at_rest() {
            return Vec::new();
        }
        let least = if is_low { 0 } else { self.least_at_rest() };
        let takes_all = is_low || self.needs_rows_for_a_burst();
        let is_meant = |count: u32, logical: u32| {
            u64::from(count) >= least
                && (takes_all || self.cleaning.old.contains(&logical))
                && !self.damage.is_broken(logical)
                && !(patches_go_on && self.is_left_to_patches(count, logical))
        };
        let logged = self.maps.logged().iter().map(|(&logical, &count)| (count, logical));
        let mut heavy: Vec<(u32, u32)> = logged.filter(|&(count, l)| is_meant(count, l)).collect();
        heavy.sort_unstable_by(|a, b| b.cmp(a));
        heavy.into_iter().take(MERGES_MOST).map(|(_, logical)| logical).collect()
    }

    /// Returns true if a stripe with this many blocks in the log is due to be patched now.
    pub(crate) fn is_cleaned_now(&self, count: u32, logical: u32) -> bool {
        let is_old = || self.cleaning.old.contains(&logical) && u64::from(count) >= self.least_at_rest();
        self.log_is_low() || self.needs_rows_for_a_burst() || is_old()
    }

    fn least_at_rest(&self) -> u64 {
        self.geometry.stripe_blocks() / IDLE_SHARE
    }

    /// Returns the cost to merge a stripe with this many blocks in the log: all of its data is
    /// read, all chunks are written, and the record goes to every device.
    pub(crate) fn cost_of_merge(&self, blocks: u64) -> u64 {
        let slots = self.geometry.slots() as u64;
        let headers = slots * u64::from(self.geometry.header_blocks(Slot(0)));
        let cells = self.geometry.code.cell_count() as u64 * u64::from(self.geometry.element_blocks());
        let written = cells + headers + slots * self.switch_bytes() / BLOCK_BYTES;
        self.cost(self.geometry.stripe_blocks() + written, blocks + 2 * slots)
    }

    /// Returns the cost of a patch, from its blocks, parity blocks, old blocks and chunks. Blocks
    /// are read from the log and parity is written to it. All of them are written home, headers are
    /// read again, and the record is longer.
    pub(crate) fn cost_of_patch(&self, blocks: u64, parity: u64, old: u64, chunks: usize) -> u64 {
        let slots = self.geometry.slots() as u64;
        let logged = (parity * slots).div_ceil(self.planners.row.code().data().len() as u64);
        let headers = chunks as u64 * u64::from(self.geometry.header_blocks(Slot(0)));
        let entry = StripePatch::len_of(chunks, (blocks + parity) as usize) as u64 + CELL_BYTES * logged;
        let (read, written) = (blocks + old + headers, logged + blocks + parity + headers);
        self.cost(read + written + slots * entry / BLOCK_BYTES, read + written)
    }

    /// Returns the cost in blocks: operations count too, except at rest, when no request waits.
    fn cost(&self, blocks: u64, operations: u64) -> u64 {
        blocks + if self.cleaning.is_at_rest { 0 } else { OPERATION_BLOCKS * operations }
    }

    /// Returns true if a patch of this many blocks of a stripe always costs less than a merge,
    /// whichever blocks they are.
    pub(crate) fn is_cheap_to_patch(&self, blocks: u64) -> bool {
        let each = self.geometry.tolerance() as u64;
        let parity = (each * blocks).min(self.geometry.home_blocks());
        let chunks = ((1 + each) * blocks).min(self.geometry.slots() as u64);
        self.cost_of_patch(blocks, parity, blocks + parity, chunks as usize) < self.cost_of_merge(blocks)
    }

    /// Ends the cleaning at rest until the next idle event, because no other stripe can or should
    /// go home.
    pub(crate) fn end_cleaning(&mut self) {
        self.cleaning.end_rest();
        self.cleaning.old.clear();
    }

    /// Removes stripes without blocks in the log from the old ones.
    pub(crate) fn forget_clean_stripes(&mut self) {
        let logged = self.maps.logged();
        self.cleaning.old.retain(|logical| logged.contains_key(logical));
    }
}
