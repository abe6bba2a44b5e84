//! Errors of a running volume and of requests to it.

use crate::epochs::lost_ranges;
use crate::memory::BLOCK;
use pantile_device::DeviceError;
use pantile_volume::{Failure, OpenError, Slot};
use std::collections::BTreeSet;
use std::fmt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Reason why a volume does not run, or a request to it fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostError {
    /// The volume could not be opened.
    Open(OpenError),
    /// The engine refused or failed.
    Failed(Failure),
    /// The range reaches beyond the end.
    OutOfRange {
        /// The first byte behind the requested range.
        end_bytes: u64,
        /// The length of the volume.
        len_bytes: u64,
    },
    /// The engine has stopped.
    Stopped,
    /// Another host has claimed the volume while it was opened here, by any path to its devices.
    Taken {
        /// The other host.
        host: String,
        /// The number of the process there.
        process: u32,
    },
    /// No memory became free in time: the devices are too slow for the writes, or hang.
    NoMemory {
        /// The limit of memory for writes, in bytes.
        max_bytes: usize,
    },
    /// A thread could not be started.
    Thread {
        /// Number of the system's error.
        errno: i32,
    },
    /// A device could not be used.
    Device(DeviceError),
    /// Devices that the volume needs to be opened have no space left. None of them was given up.
    NoRoom {
        /// The devices without space, with their paths.
        devices: Vec<(Slot, Option<PathBuf>)>,
        /// The error of one of these devices.
        error: DeviceError,
    },
    /// A device is shorter than its slot needs.
    TooShort {
        /// The slot.
        slot: Slot,
        /// Its length in bytes.
        have: u64,
        /// The needed length in bytes.
        need: u64,
    },
    /// There is no such slot.
    NoSuchSlot {
        /// The slot.
        slot: Slot,
        /// The number of slots.
        slots: usize,
    },
    /// The slot has no device.
    NoDevice {
        /// The slot.
        slot: Slot,
    },
    /// The slot has a device already.
    SlotTaken {
        /// The slot.
        slot: Slot,
    },
}

impl fmt::Display for HostError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostError::Open(error) => write!(out, "{error}"),
            HostError::Failed(Failure::OutOfRange { end }) => {
                write!(out, "the volume ends at block {}; ask for less", end.0)
            }
            HostError::Failed(Failure::Lost { block }) => write!(
                out,
                "block {} cannot be read: more is lost than the code tolerates; bring devices back",
                block.0
            ),
            HostError::Failed(Failure::NotDurable) => {
                write!(out, "too many devices are gone to write anything that lasts; bring devices back")
            }
            HostError::Failed(Failure::NotOpen) => {
                write!(out, "the volume could not be opened; its status says why")
            }
            HostError::Failed(Failure::ReadOnly) => {
                write!(out, "the volume is open to be read only; serve it without --read-only to write")
            }
            HostError::Failed(Failure::Busy { epoch }) => write!(
                out,
                "epoch {} of delayed parity holds the range; write in it, or when it has ended",
                epoch.0
            ),
            HostError::Failed(Failure::EpochsOverlap { epochs }) => {
                let names: Vec<String> = epochs.iter().map(|epoch| epoch.0.to_string()).collect();
                write!(
                    out,
                    "a part of the range is held by open epochs ({}); end or abort them first",
                    names.join(", ")
                )
            }
            HostError::Failed(Failure::NoSuchEpoch { epoch }) => write!(
                out,
                "there is no epoch {}: it has ended, was aborted, or the volume was opened again since; begin another",
                epoch.0
            ),
            HostError::Failed(Failure::EpochEnding { epoch }) => {
                write!(out, "epoch {} is ending and takes no more writes; begin another", epoch.0)
            }
            HostError::Failed(Failure::OutsideEpoch { epoch, first, end }) => write!(
                out,
                "epoch {} holds bytes {} to {}; write elsewhere without it",
                epoch.0,
                first.0 * BLOCK as u64,
                end.0 * BLOCK as u64
            ),
            HostError::Failed(Failure::EpochLost { epoch, ranges }) => {
                let lost = lost_ranges(ranges);
                let bytes: u64 = lost.iter().map(|range| range.len_bytes).sum();
                let named: Vec<String> = lost
                    .iter()
                    .take(8)
                    .map(|range| format!("{}+{}", range.offset, range.len_bytes))
                    .collect();
                let more =
                    if lost.len() > 8 { format!(" and {} more", lost.len() - 8) } else { String::new() };
                write!(
                    out,
                    "{bytes} bytes of epoch {} were lost with a device before their parity was made ({}{more}); write them again and end it, or abort it",
                    epoch.0,
                    named.join(", ")
                )
            }
            HostError::Failed(Failure::EpochFull { epoch, stripes }) => write!(
                out,
                "epoch {} has written {stripes} stripes, as many as one record can seal; end it and begin another",
                epoch.0
            ),
            HostError::Failed(Failure::NoRoom { epoch }) => write!(
                out,
                "no space for more of epoch {}, only the reserve for cleaning: end or abort it, or trim its range before it begins; a volume made with --epochs SIZE has more space",
                epoch.0
            ),
            HostError::OutOfRange { end_bytes, len_bytes } => {
                write!(
                    out,
                    "the request ends at byte {end_bytes}, the volume has {len_bytes} bytes; ask for less"
                )
            }
            HostError::Stopped => write!(out, "the volume has stopped; serve it again"),
            HostError::Taken { host, process } => write!(
                out,
                "the volume is served already, by process {process} on host '{host}', which reaches the same devices; stop that server, or serve it there"
            ),
            HostError::NoMemory { max_bytes } => write!(
                out,
                "the {max_bytes} bytes for writes under way did not become free in time; a device hangs, as its status shows"
            ),
            HostError::Thread { errno } => write!(
                out,
                "no thread could be made: {}; raise the limit on processes",
                std::io::Error::from_raw_os_error(*errno)
            ),
            HostError::Device(error) => write!(out, "{error}"),
            HostError::NoRoom { devices, error } => {
                let slots: Vec<String> = devices.iter().map(|(slot, _)| slot.0.to_string()).collect();
                let word = if slots.len() == 1 { "device" } else { "devices" };
                write!(
                    out,
                    "the volume cannot be opened without room for {word} {}: {error}",
                    slots.join(", ")
                )?;
                let paths = devices.iter().filter_map(|(_, path)| path.as_deref());
                let full: BTreeSet<PathBuf> = paths.filter_map(file_system_of).collect();
                if !full.is_empty() {
                    let full: Vec<String> = full.iter().map(|root| root.display().to_string()).collect();
                    write!(out, " (mounted at {})", full.join(", "))?;
                }
                write!(
                    out,
                    "; an opening writes 8 KiB to each device, and again what a crash cut off. Nothing is lost and no device was given up: make room and open it again"
                )
            }
            HostError::TooShort { slot, have, need } => {
                write!(out, "device {} has {have} bytes, its slot needs {need}; choose a larger one", slot.0)
            }
            HostError::NoSuchSlot { slot, slots } => {
                write!(out, "there is no device {}; the volume has devices 0 to {}", slot.0, slots - 1)
            }
            HostError::NoDevice { slot } => {
                write!(out, "slot {} has no device; give it one", slot.0)
            }
            HostError::SlotTaken { slot } => {
                write!(out, "slot {} has a device; declare it failed first", slot.0)
            }
        }
    }
}

impl std::error::Error for HostError {}

/// Returns the mount point of the file system of a file; `None`: the path is a block device, or
/// cannot be examined.
fn file_system_of(path: &Path) -> Option<PathBuf> {
    let path = std::fs::canonicalize(path).ok()?;
    let found = std::fs::metadata(&path).ok()?;
    let is_within = |above: &&Path| std::fs::metadata(above).is_ok_and(|above| above.dev() == found.dev());
    let root = path.ancestors().skip(1).take_while(is_within).last()?;
    (!found.file_type().is_block_device()).then(|| root.to_path_buf())
}

impl From<DeviceError> for HostError {
    fn from(error: DeviceError) -> HostError {
        HostError::Device(error)
    }
}
