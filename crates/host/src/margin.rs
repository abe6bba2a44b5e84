//! The margin: which devices can still fail.
//!
//! The engine's own rule computes it ([`pantile_volume::margin`]), from the data that can be read
//! now.

use pantile_volume::Slot;
use serde::{Deserialize, Serialize};

/// Further losses that a volume tolerates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Margin {
    /// Devices that are lost or not rebuilt completely.
    pub lost: Vec<u32>,
    /// True if the code tolerates the loss of these devices.
    pub survives: bool,
    /// Number of arbitrary devices that can fail: the minimum of what the stripes with their known
    /// bad chunks, the log, and the maps tolerate.
    pub any_more: u32,
    /// Number of devices that can fail so that all of the log can still be read; `None`: the log is
    /// empty.
    #[serde(default)]
    pub log_any_more: Option<u32>,
    /// The smallest number of devices of which some sets are fatal for stripes. `None`: not
    /// counted, because there are too many sets or because the log or the maps tolerate less.
    pub next: Option<NextLoss>,
}

/// Counts of the sets of one device more than `any_more`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextLoss {
    /// Number of devices in a set.
    pub devices: u32,
    /// Number of sets of this size among the present devices.
    pub sets: u64,
    /// Number of these sets that can fail without loss.
    pub survived: u64,
    /// Some of the fatal sets.
    pub fatal: Vec<Vec<u32>>,
}

impl From<pantile_volume::Margin> for Margin {
    fn from(counted: pantile_volume::Margin) -> Margin {
        let pantile_volume::Margin { lost, survives, any_more, log_any_more, next } = counted;
        let numbers = |slots: Vec<Slot>| slots.into_iter().map(|slot| slot.0).collect();
        let next = next.map(|next| NextLoss {
            devices: next.devices,
            sets: next.sets,
            survived: next.survived,
            fatal: next.fatal.into_iter().map(numbers).collect(),
        });
        Margin { lost: numbers(lost), survives, any_more, log_any_more, next }
    }
}
