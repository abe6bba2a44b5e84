//! Devices that can still fail: what an operator asks first when a device has died.
//!
//! Counted by the engine's own rule ([`pantile_volume::margin`]), from what can be read now.

use pantile_volume::Slot;
use serde::{Deserialize, Serialize};

/// Losses that the volume tolerates beyond those that it has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Margin {
    /// Devices that are not whole now.
    pub lost: Vec<u32>,
    /// True if the code tolerates the loss of these.
    pub survives: bool,
    /// Number of devices, whichever they are, that can fail: the least of those that stripes with
    /// their known bad chunks, the log and the maps tolerate.
    pub any_more: u32,
    /// Number of devices that can fail with all of the log read; `None`: the log is empty.
    #[serde(default)]
    pub log_any_more: Option<u32>,
    /// The first number of devices of which not every set can fail, as far as stripes go; `None`:
    /// not counted, because there are too many sets or because the log or the maps tolerate less.
    pub next: Option<NextLoss>,
}

/// All sets of one more device than any.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextLoss {
    /// Devices in a set.
    pub devices: u32,
    /// Sets of this size among the devices that are here.
    pub sets: u64,
    /// Those that can fail.
    pub survived: u64,
    /// Some of those that cannot.
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
