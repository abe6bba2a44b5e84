//! Uses of the raw space of a new volume.

use crate::render::table::Table;
use crate::sets;
use crate::terminal::Terminal;
use pantile_host::{Geometry, Slot};
use serde::Serialize;

/// Bytes of all devices, by use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Space {
    /// User data.
    pub data_bytes: u64,
    /// Parity and copies.
    pub parity_bytes: u64,
    /// Log of writes that were flushed before their stripe was full.
    pub log_bytes: u64,
    /// Spare places for stripes that are written again, and for delayed parity.
    pub spare_bytes: u64,
    /// Superblocks, journal, maps and checksums.
    pub metadata_bytes: u64,
    /// Space after the end of the volume on each device.
    pub unused_bytes: u64,
    /// All bytes.
    pub raw_bytes: u64,
}

const BLOCK: u64 = 4096;

impl Space {
    /// Counts the blocks of a volume; `len_bytes` has the length of each device.
    pub fn of(geometry: &Geometry, len_bytes: &[u64]) -> Space {
        let (logical, physical) =
            (u64::from(geometry.logical_stripes()), u64::from(geometry.physical_stripes()));
        let slots = || (0..geometry.slots() as u32).map(Slot);
        let chunks = |stripes: u64| -> u64 {
            slots().map(|slot| stripes * geometry.zones(slot).shape().chunk_blocks() * BLOCK).sum()
        };
        let used: u64 = slots().map(|slot| geometry.device_blocks(slot) * BLOCK).sum();
        let raw: u64 = len_bytes.iter().sum();
        let data = geometry.user_blocks() * BLOCK;
        let log = u64::from(geometry.log_rows()) * geometry.slots() as u64 * BLOCK;
        let (stored, spare) = (chunks(logical), chunks(physical - logical));
        Space {
            data_bytes: data,
            parity_bytes: stored.saturating_sub(data),
            log_bytes: log,
            spare_bytes: spare,
            metadata_bytes: used.saturating_sub(stored + spare + log),
            unused_bytes: raw.saturating_sub(used),
            raw_bytes: raw.max(used),
        }
    }

    /// Returns a line for each use, with its share.
    pub fn table(&self, len_bytes: &[u64], terminal: &Terminal) -> String {
        let mut table = Table::new(&[">bytes", ">share", "for"]);
        let mut row = |bytes: u64, name: String| {
            let share = 100.0 * bytes as f64 / self.raw_bytes.max(1) as f64;
            if bytes > 0 {
                table.row(vec![sets::bytes(bytes), format!("{share:.1} %"), name]);
            }
        };
        row(self.data_bytes, "data".into());
        row(self.parity_bytes, "parity".into());
        row(self.log_bytes, "write log: small flushed writes, until their stripe is full".into());
        row(self.spare_bytes, "places for stripes that are rewritten, and for delayed parity".into());
        row(self.metadata_bytes, "superblocks, journal, maps and checksums".into());
        row(self.unused_bytes, format!("unused{}", unequal(len_bytes)));
        table.render(terminal)
    }
}

/// Returns a note if unequal devices are the reason for unused space.
fn unequal(len_bytes: &[u64]) -> String {
    let (least, most) =
        (len_bytes.iter().min().copied().unwrap_or(0), len_bytes.iter().max().copied().unwrap_or(0));
    // A smaller difference is the rest of a stripe.
    match most - least > most / 100 {
        true => format!(
            ": devices of {} to {} are used as far as the shortest goes",
            sets::bytes(least),
            sets::bytes(most)
        ),
        false => String::new(),
    }
}
