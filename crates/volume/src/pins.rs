//! Places that must not be written to although they are free, because they are being read or
//! rebuilt.

use std::collections::{BTreeMap, BTreeSet};

/// Physical stripes and rows of the log that are pinned.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    /// The number of holders of each stripe.
    stripes: BTreeMap<u32, u32>,
    /// Rows of which a device that lacks its block is getting it.
    rows: BTreeSet<u32>,
}

impl Pins {
    /// Adds a holder of a physical stripe.
    pub(crate) fn pin(&mut self, physical: u32) {
        *self.stripes.entry(physical).or_default() += 1;
    }

    /// Removes a holder of a physical stripe.
    pub(crate) fn unpin(&mut self, physical: u32) {
        if let Some(count) = self.stripes.get_mut(&physical) {
            *count -= 1;
            if *count == 0 {
                self.stripes.remove(&physical);
            }
        }
    }

    pub(crate) fn holds(&self, physical: u32) -> bool {
        self.stripes.contains_key(&physical)
    }

    /// Pins rows of the log until [`Pins::unpin_rows`].
    pub(crate) fn pin_rows(&mut self, rows: impl IntoIterator<Item = u32>) {
        self.rows.extend(rows);
    }

    /// Unpins all rows.
    pub(crate) fn unpin_rows(&mut self) {
        self.rows.clear();
    }

    pub(crate) fn holds_row(&self, row: u32) -> bool {
        self.rows.contains(&row)
    }

    pub(crate) fn row_count(&self) -> usize {
        self.rows.len()
    }
}
