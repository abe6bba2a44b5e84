//! The reasons why a volume cannot be opened.

use crate::Slot;
use pantile_format::volume::{HistoryId, RecordNumber};
use std::fmt;

/// The reason why a volume cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// No device has a superblock of this volume.
    NotThere,
    /// More devices are missing than the code tolerates.
    TooFewDevices {
        /// Devices that answer.
        have: usize,
        /// Devices needed.
        need: usize,
        /// Devices that answer but whose content is older than the newest: they do not count.
        older: Vec<Slot>,
    },
    /// The last change may or may not have been flushed: too many devices are missing to decide it.
    Undecided {
        /// Devices that answer.
        have: usize,
        /// Devices needed to decide it.
        need: usize,
    },
    /// No device has a whole snapshot.
    NoSnapshot,
    /// A record has a right checksum and content that no volume writes.
    Impossible {
        /// The number of the record.
        record: RecordNumber,
    },
    /// No session can begin. A number from which it would have to count on is higher than any
    /// volume can reach, although its checksum is right.
    Counted,
    /// Devices ran separately: each side has writes that the other lacks.
    RanSeparately {
        /// The newest history.
        newest: HistoryId,
        /// Devices with another history, from which the newest does not continue.
        others: Vec<(Slot, HistoryId)>,
    },
    /// The volume has features with which this program may read it but must not write it.
    NeedsNewer {
        /// The bits of these features.
        features: u64,
    },
    /// The code cannot be laid out on the devices.
    Code(String),
}

impl fmt::Display for OpenError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::NeedsNewer { features } => write!(
                out,
                "the volume has features that this program does not know (bits {features:#x}) and may not be written by it; use a newer pantile"
            ),
            OpenError::NotThere => {
                write!(out, "none of the devices belongs to the volume; give the right ones")
            }
            OpenError::TooFewDevices { have, need, older } => {
                write!(out, "{have} devices are there, {need} are needed")?;
                older.iter().try_for_each(|slot| {
                    write!(
                        out,
                        ", device {} is of an earlier time (a copy or a backup) and does not count",
                        slot.0
                    )
                })?;
                write!(out, "; bring back {} more", need - have)
            }
            OpenError::Undecided { have, need } => write!(
                out,
                "{have} devices are there, which cannot tell whether the last change was flushed; bring back {} more",
                need - have
            ),
            OpenError::NoSnapshot => {
                write!(
                    out,
                    "no device that is here has the newest maps whole; bring back those that were lost last"
                )
            }
            OpenError::Impossible { record } => write!(
                out,
                "record {} gives away what is in use, and its checksum fits all the same; open the volume without the device that holds it",
                record.0
            ),
            OpenError::Counted => write!(
                out,
                "a device has numbers that no volume counts to, and their checksum fits all the same; read the volume, \
                 or open it without that device"
            ),
            OpenError::RanSeparately { newest, others } => {
                write!(out, "devices ran separately: the newest have history {newest}")?;
                others.iter().try_for_each(|(slot, its)| write!(out, ", device {} has {its}", slot.0))?;
                write!(out, "; open one side alone, then replace the devices of the other")
            }
            OpenError::Code(error) => write!(out, "{error}"),
        }
    }
}

impl std::error::Error for OpenError {}
