//! Errors of a volume in a folder: each has a text, which names the command that helps, and an exit
//! status.

use crate::HostError;
use crate::text::quoted;
use pantile_code::{CodeError, StudyOnly};
use pantile_device::{DeviceError, Remedy};
use pantile_format::FormatError;
use pantile_format::volume::VolumeId;
use pantile_volume::{Failure, OpenError, Slot};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// EFBIG, ENOSPC, EDQUOT.
const NO_SPACE: [i32; 3] = [27, 28, 122];

/// An error of a folder or its devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FolderError {
    /// The folder contains no volume.
    NotAVolume {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder is not empty.
    NotEmpty {
        /// The folder.
        folder: PathBuf,
    },
    /// The path of the folder is that of a file.
    IsAFile {
        /// The file.
        path: PathBuf,
    },
    /// The folder belongs to another user, so the devices that it names are not formatted.
    OfAnother {
        /// The folder.
        path: PathBuf,
        /// The user id of the owner.
        owner: u32,
    },
    /// Another process has locked the folder.
    Busy {
        /// The folder.
        folder: PathBuf,
    },
    /// A file could not be used.
    File {
        /// The verb of the message: "cannot {verb} path".
        verb: &'static str,
        /// The file.
        path: PathBuf,
        /// Number of the system's error.
        errno: i32,
    },
    /// A line of the configuration is invalid.
    Config {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// The expected text.
        expected: &'static str,
    },
    /// The configuration cannot represent this path.
    Path {
        /// The path.
        path: PathBuf,
    },
    /// A device could not be used.
    Device(DeviceError),
    /// The volume did not open, or does not run.
    Host(HostError),
    /// The format has no volume with these numbers.
    Format(FormatError),
    /// The code cannot be constructed.
    Code(CodeError),
    /// The proved tolerance of the code is less than its claim.
    NotProved {
        /// Its spec.
        spec: String,
        /// Its proved tolerance.
        proved: usize,
        /// Its claimed tolerance.
        claimed: usize,
    },
    /// The code is for study only.
    StudyOnly(StudyOnly),
    /// A wrong number of devices.
    DeviceCount {
        /// The spec of the code.
        spec: String,
        /// Devices given.
        have: usize,
        /// Devices needed.
        need: usize,
    },
    /// A device is too short for the smallest volume of this code.
    TooShort {
        /// The path of the shortest device.
        path: PathBuf,
        /// Its length.
        have: u64,
        /// Bytes needed.
        need: u64,
    },
    /// A device is too short for a volume that exists.
    TooShortFor {
        /// The device.
        path: PathBuf,
        /// The slot that it is meant for; none: it is meant as a spare.
        slot: Option<Slot>,
        /// Its length.
        have: u64,
        /// Bytes needed.
        need: u64,
    },
    /// The limit of memory is below the minimum of this volume.
    TooLittleMemory {
        /// Bytes allowed.
        have: u64,
        /// Bytes needed.
        need: u64,
    },
    /// A device had the slot earlier, or is a copy of an earlier time.
    IsOlder {
        /// The device.
        path: PathBuf,
        /// The slot of its superblock.
        slot: Slot,
    },
    /// A device is already part of a volume.
    HoldsVolume {
        /// The device.
        path: PathBuf,
        /// The volume.
        volume: VolumeId,
        /// The name of the volume.
        name: String,
    },
    /// A device already contains data.
    HoldsData {
        /// The device.
        path: PathBuf,
        /// The file system or partition table on it, if its magic number is known.
        holds: Option<String>,
    },
    /// None of the given devices has a superblock.
    NoSuperblockLeft,
    /// The order would write, but the volume is open read-only.
    ReadOnly,
    /// None of the volume's devices could be found.
    NoDevices {
        /// The folder.
        folder: PathBuf,
        /// The problem of the first device, if the folder names one.
        why: Option<String>,
    },
    /// None of the given devices belongs to a volume.
    NothingFound {
        /// The first device and its problem, if one was given.
        first: Option<(PathBuf, String)>,
    },
    /// The code that the spec of the superblock names has other equations in this program.
    OtherCode {
        /// Its spec.
        spec: String,
    },
    /// The superblock has numbers with which this program makes no volume.
    OtherNumbers {
        /// The device.
        path: PathBuf,
    },
    /// The text of the volume's code, which no family names, is intact on none of the devices.
    NoDefinition {
        /// The devices that were read.
        devices: Vec<PathBuf>,
    },
    /// The given devices belong to several volumes.
    SeveralVolumes {
        /// One of the volumes.
        first: VolumeId,
        /// Another of the volumes.
        second: VolumeId,
    },
    /// Two devices have superblocks of the same slot, and neither is known to be newer.
    SlotTwice {
        /// The slot.
        slot: Slot,
        /// One of the devices.
        first: PathBuf,
        /// The other device.
        second: PathBuf,
    },
    /// Data could not be read without a device that was to be removed.
    WouldLose {
        /// Its slot.
        slot: Slot,
        /// True if the equations of the code tolerate the loss. Then only blocks in the log, or
        /// stripes that are bad on other devices, would be lost.
        bears: bool,
        /// Stripes that would be unreadable because other devices are bad there.
        stripes: u64,
        /// Blocks in the log that would be unreadable.
        log_blocks: u64,
        /// Devices that can be removed instead.
        instead: Vec<Slot>,
    },
    /// An intact device was to be removed, and no further device can be spared.
    Needed {
        /// Its slot.
        slot: Slot,
    },
    /// The device is not being replaced, so there is no copy to cancel.
    NotReplaced {
        /// Its slot.
        slot: Slot,
    },
    /// The replacement of a device was cancelled, and one of both devices has not answered since.
    BeingReplaced {
        /// Its slot.
        slot: Slot,
        /// The new device.
        by: PathBuf,
    },
    /// A device was to be brought back to a volume that cannot be opened, but another device is at
    /// its path.
    NotThatDevice {
        /// The path.
        path: PathBuf,
        /// The expected slot.
        slot: Slot,
        /// The slot found, if it is a device of the volume.
        found: Option<Slot>,
    },
    /// The device is already under construction as the copy of a member.
    BecomesDevice {
        /// The path of the device.
        path: PathBuf,
        /// The slot that it takes.
        slot: Slot,
    },
    /// The device already belongs to the volume.
    OwnDevice {
        /// The path of the device.
        path: PathBuf,
        /// Its slot; none: it is a spare.
        slot: Option<Slot>,
    },
    /// The path is relative: the server would resolve it from another folder.
    RelativePath {
        /// The path given.
        path: PathBuf,
    },
    /// The volume has no such spare.
    NoSuchSpare {
        /// The path given.
        path: PathBuf,
        /// The spares of the volume.
        spares: Vec<PathBuf>,
    },
    /// Too few devices are available: some of them lack writes from while they were lost.
    Lacking {
        /// The available devices that lack writes.
        here: Vec<Slot>,
        /// The missing devices.
        gone: Vec<Slot>,
    },
    /// More devices are lost than the volume tolerates. A new device in place of a lost one would
    /// make the loss of its data permanent.
    NeedsTheOld {
        /// The lost device.
        slot: Slot,
    },
    /// The volume has failed, and could not be opened from the available devices.
    HasFailed {
        /// The reason.
        why: Box<FolderError>,
    },
    /// The server accepts connections but does not answer.
    NoAnswer {
        /// The volume's folder.
        folder: PathBuf,
        /// How long the caller waited.
        after: Duration,
    },
    /// The code does not permit a rotated placement, because its columns are not interchangeable.
    CannotRotate {
        /// The code.
        spec: String,
    },
    /// The requested room for epochs exceeds that of one record, which ends an epoch.
    EpochsTooLarge {
        /// Bytes requested for epochs.
        epoch_bytes: u64,
        /// Most bytes that one record can end.
        most_bytes: u64,
    },
    /// There is no scrub for this order.
    NoScrub,
    /// The volume already has the maximum number of spares.
    TooManySpares,
    /// The volume would have more stripes than the format can number.
    TooLarge {
        /// Requested bytes.
        user_bytes: u64,
        /// Approximate maximum of a volume of this code in bytes.
        most_bytes: u64,
    },
    /// No device has this number.
    NoSuchDevice {
        /// The number given.
        device: u32,
        /// The number of devices.
        devices: usize,
    },
}

/// Kind of an error; it determines the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// The order or the input is wrong.
    Input,
    /// The system or a device failed.
    System,
    /// More devices are lost than the code tolerates.
    Losses,
}

impl FolderError {
    /// Returns the kind of the error.
    pub fn kind(&self) -> FaultKind {
        match self {
            FolderError::Host(HostError::Open(
                OpenError::TooFewDevices { .. } | OpenError::NoSnapshot | OpenError::Undecided { .. },
            ))
            | FolderError::Host(HostError::Failed(
                Failure::Lost { .. } | Failure::NotDurable | Failure::NotOpen | Failure::EpochLost { .. },
            ))
            | FolderError::NoDevices { .. }
            | FolderError::NothingFound { .. }
            | FolderError::NoSuperblockLeft
            | FolderError::NoDefinition { .. }
            | FolderError::Lacking { .. }
            | FolderError::NeedsTheOld { .. }
            | FolderError::HasFailed { .. } => FaultKind::Losses,
            FolderError::File { errno, .. } if NO_SPACE.contains(errno) => FaultKind::Input,
            FolderError::File { .. } | FolderError::Busy { .. } | FolderError::NoAnswer { .. } => {
                FaultKind::System
            }
            FolderError::Device(error) => match error {
                error if error.remedy() == Remedy::MakeSpace => FaultKind::Input,
                DeviceError::InUse { .. }
                | DeviceError::SameDevice { .. }
                | DeviceError::NotThere { .. }
                | DeviceError::NotADevice { .. }
                | DeviceError::TooSmall { .. }
                | DeviceError::Server { .. } => FaultKind::Input,
                _ => FaultKind::System,
            },
            FolderError::Host(
                HostError::Failed(_)
                | HostError::NoSuchSlot { .. }
                | HostError::NoDevice { .. }
                | HostError::SlotTaken { .. }
                | HostError::TooShort { .. }
                | HostError::OutOfRange { .. },
            ) => FaultKind::Input,
            FolderError::Host(HostError::Open(OpenError::RanSeparately { .. })) => FaultKind::Input,
            FolderError::Host(HostError::NoRoom { error, .. }) if error.remedy() == Remedy::MakeSpace => {
                FaultKind::Input
            }
            FolderError::Host(_) => FaultKind::System,
            _ => FaultKind::Input,
        }
    }

    pub(crate) fn file(verb: &'static str, path: &Path, error: &std::io::Error) -> FolderError {
        use std::io::ErrorKind;
        // An error without a system call has no number: the nearest one is chosen.
        let errno = error.raw_os_error().unwrap_or(match error.kind() {
            ErrorKind::InvalidInput => 22,   // EINVAL
            ErrorKind::InvalidData => 74,    // EBADMSG
            ErrorKind::UnexpectedEof => 104, // ECONNRESET
            _ => 5,                          // EIO
        });
        FolderError::File { verb, path: path.to_path_buf(), errno }
    }
}

impl From<DeviceError> for FolderError {
    fn from(error: DeviceError) -> FolderError {
        FolderError::Device(error)
    }
}

impl From<HostError> for FolderError {
    fn from(error: HostError) -> FolderError {
        FolderError::Host(error)
    }
}

impl From<FormatError> for FolderError {
    fn from(error: FormatError) -> FolderError {
        FolderError::Format(error)
    }
}

impl fmt::Display for FolderError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FolderError::NotAVolume { folder } => write!(
                out,
                "{} is not the folder of a volume; 'pantile create {} DEVICE...' makes one, 'pantile assemble --scan --dry-run' finds those that are there",
                folder.display(),
                quoted(folder)
            ),
            FolderError::NotEmpty { folder } => {
                write!(out, "{} is there and not empty; name a new folder", folder.display())
            }
            FolderError::IsAFile { path } => {
                write!(out, "{} is a file; name a new folder for the volume", path.display())
            }
            FolderError::OfAnother { path, owner } => {
                let path = path.display();
                write!(
                    out,
                    "{path} is of user {owner}, and devices that it names are formatted for its owner alone; run this as \
                     user {owner}, with sudo if it must be root, or take it over: 'chown root {path}'"
                )
            }
            FolderError::Busy { folder } => write!(
                out,
                "another process works on the volume in {} and does not answer; wait for it or end it",
                folder.display()
            ),
            FolderError::File { verb, path, errno } => {
                let error = std::io::Error::from_raw_os_error(*errno);
                write!(out, "cannot {verb} {}: {error}", path.display())?;
                if NO_SPACE.contains(errno) {
                    write!(out, "; nothing was changed, free some space")
                } else {
                    Ok(())
                }
            }
            FolderError::Config { path, line, expected } => write!(
                out,
                "{}, line {line}: expected {expected}; mend it, or let 'pantile assemble DEVICE... --into NEW' make another folder from the devices",
                path.display()
            ),
            FolderError::Path { path } => {
                write!(out, "the path {path:?} is not text of one line; give the device such a name")
            }
            FolderError::Device(error) => write!(out, "{error}"),
            FolderError::Host(error @ HostError::Open(OpenError::TooFewDevices { .. })) => write!(
                out,
                "{error}; 'pantile assemble DEVICE... --into NEW' takes all that are there, also those that were declared failed"
            ),
            FolderError::Host(error) => write!(out, "{error}"),
            FolderError::Format(error) => write!(out, "{error}"),
            FolderError::Code(error) => write!(out, "{error}"),
            FolderError::NotProved { spec, proved, claimed } => write!(
                out,
                "{spec} claims to tolerate any {claimed} lost devices, but only {proved} could be proved; choose a code that 'pantile prove' proves"
            ),
            FolderError::StudyOnly(error) => error.fmt(out),
            FolderError::DeviceCount { spec, have, need } => {
                write!(out, "{spec} has {need} columns and {have} devices are given; give one for each")
            }
            FolderError::TooShort { path, have, need } => write!(
                out,
                "{} has {have} bytes, the smallest volume of this code needs {need} on a device; give longer ones",
                path.display()
            ),
            FolderError::TooShortFor { path, slot, have, need } => {
                let whose = match slot {
                    Some(slot) => format!("device {} of this volume", slot.0),
                    None => "a spare, which may take the place of any device,".into(),
                };
                write!(out, "{} has {have} bytes and {whose} needs {need}; give a longer one", path.display())
            }
            FolderError::TooLittleMemory { have, need } => write!(
                out,
                "the volume cannot be held to {have} bytes of memory: with stripes as long as its own it needs {need}; give --memory as many or more"
            ),
            FolderError::IsOlder { path, slot } => write!(
                out,
                "{} is an earlier device {} of this volume, or an old copy, and its content is out of date; give another device, or --yes to rebuild it",
                path.display(),
                slot.0
            ),
            FolderError::HoldsVolume { path, volume, name } => write!(
                out,
                "{} belongs to the volume '{name}' ({volume}); give another device, or --yes to destroy what it holds",
                path.display()
            ),
            FolderError::HoldsData { path, holds } => {
                write!(out, "{} is not empty", path.display())?;
                if let Some(holds) = holds {
                    write!(out, ", it is {holds}")?;
                }
                write!(out, "; give another device, or --yes to destroy what it holds")
            }
            FolderError::NoDevices { folder, why } => {
                write!(
                    out,
                    "none of the devices that {} names is there and of this volume",
                    folder.display()
                )?;
                if let Some(why) = why {
                    write!(out, " ({why})")?;
                }
                write!(out, "; bring them back, or name others: 'pantile assemble DEVICE... --into NEW'")
            }
            FolderError::NothingFound { first } => {
                write!(out, "none of the devices given is one of a volume")?;
                if let Some((path, why)) = first {
                    write!(out, " ({}: {why})", path.display())?;
                }
                write!(out, "; name those of a volume that nothing else uses")
            }
            FolderError::OtherCode { spec } => write!(
                out,
                "the code {spec} of the volume has other equations in this version; use the version that made it"
            ),
            FolderError::OtherNumbers { path } => write!(
                out,
                "the superblock of {} has numbers that this version does not give a volume; use the version that made it",
                path.display()
            ),
            FolderError::NoDefinition { devices } => {
                write!(out, "the text of the volume's code (bytes 8192 to 65536) is whole on none of ")?;
                for (nth, path) in devices.iter().enumerate() {
                    write!(out, "{}{}", if nth > 0 { ", " } else { "" }, path.display())?;
                }
                write!(out, "; bring back another device of the volume")
            }
            FolderError::SeveralVolumes { first, second } => {
                write!(out, "the devices are of the volumes {first} and {second}; name those of one")
            }
            FolderError::SlotTwice { slot, first, second } => write!(
                out,
                "{} and {} both are device {} of the volume, and nothing on them tells which was written last; give only one of them: not the copy if one is, and either if nobody has served the volume since it was made",
                first.display(),
                second.display(),
                slot.0
            ),
            FolderError::WouldLose { slot, bears, stripes, log_blocks, instead } => {
                let slot = slot.0;
                match (bears, stripes, log_blocks) {
                    (true, 0, 1) => write!(out, "without device {slot}, 1 block in the log")?,
                    (true, 0, _) => write!(out, "without device {slot}, {log_blocks} blocks in the log")?,
                    (true, 1, _) => {
                        write!(out, "without device {slot}, 1 stripe that is bad on another device")?;
                    }
                    (true, ..) => {
                        write!(
                            out,
                            "without device {slot}, {stripes} stripes that are bad on other devices"
                        )?;
                    }
                    (false, ..) => write!(out, "without device {slot}, data of every stripe")?,
                }
                write!(out, " could not be read and the volume may not open; ")?;
                match &instead[..] {
                    [] => write!(out, "no device that is here may go")?,
                    [first, rest @ ..] => {
                        write!(out, "these may go: {}", first.0)?;
                        rest.iter().try_for_each(|slot| write!(out, " {}", slot.0))?;
                    }
                }
                match (bears, stripes) {
                    (true, 1..) => write!(out, "; scrub with --repair first, or give --yes"),
                    _ => write!(out, "; bring a lost one back first, or give --yes"),
                }
            }
            FolderError::Needed { slot } => write!(
                out,
                "device {} is whole, and no further device can fail for certain; bring a lost one back or wait for the rebuild first",
                slot.0
            ),
            FolderError::BeingReplaced { slot, by } => write!(
                out,
                "device {} is not replaced by {} any more, but one of the two does not answer yet; try again when the status shows no copy",
                slot.0,
                by.display()
            ),
            FolderError::NotReplaced { slot } => {
                write!(out, "device {} is not being replaced by a copy: there is nothing to cancel", slot.0)
            }
            FolderError::NotThatDevice { path, slot, found } => {
                write!(
                    out,
                    "the volume cannot be opened, so only a device that was lost helps; {} ",
                    path.display()
                )?;
                match found {
                    Some(found) => write!(out, "is device {}, not device {}", found.0, slot.0)?,
                    None => write!(out, "holds nothing of this volume")?,
                }
                Ok(())
            }
            FolderError::OwnDevice { path, slot: Some(slot) } => {
                write!(out, "{} is device {} of this volume; give another", path.display(), slot.0)
            }
            FolderError::BecomesDevice { path, slot } => write!(
                out,
                "{} becomes a copy of device {} of this volume; give another",
                path.display(),
                slot.0
            ),
            FolderError::OwnDevice { path, slot: None } => write!(
                out,
                "{} is a spare of this volume and takes the place of the next device that is lost",
                path.display()
            ),
            FolderError::RelativePath { path } => write!(
                out,
                "{} is not absolute, and the server has a folder of its own; give the whole path, from / on",
                path.display()
            ),
            FolderError::NoSuchSpare { path, spares } => {
                write!(out, "{} is no spare of the volume; ", path.display())?;
                match &spares[..] {
                    [] => write!(out, "it has none"),
                    [first, rest @ ..] => {
                        write!(out, "its spares: {}", first.display())?;
                        rest.iter().try_for_each(|path| write!(out, ", {}", path.display()))
                    }
                }
            }
            FolderError::Lacking { here, gone } => {
                write!(out, "{} not here", named(gone))?;
                if !here.is_empty() {
                    write!(out, ", {} back and lacking what was written meanwhile", named(here))?;
                }
                write!(out, "; bring back those that were lost last")
            }
            FolderError::NeedsTheOld { slot } => write!(
                out,
                "more devices are lost than the volume tolerates: bring device {} back, since data are only on it; --yes gives its place to a new one, without these data",
                slot.0
            ),
            FolderError::HasFailed { why } => write!(
                out,
                "the volume has failed and serves again when enough of the devices that were lost are put back: {why}"
            ),
            FolderError::NoSuperblockLeft => write!(
                out,
                "none of the devices has a superblock of a volume, in any of its three places, and chunks alone do not say by which code they belong together; give the device that has one"
            ),
            FolderError::ReadOnly => {
                write!(
                    out,
                    "the volume is served to be read only; stop it and serve it without --read-only first"
                )
            }
            FolderError::TooManySpares => write!(
                out,
                "the volume has {} spares, and no more fit its folder; give one back first",
                crate::config::SPARES_MAX
            ),
            FolderError::NoScrub => {
                write!(out, "no scrub is under way")
            }
            FolderError::NoAnswer { folder, after } => write!(
                out,
                "the server of {} does not answer, for {:.0} s now; a device may hang (see the system's log): try again, or end its process",
                folder.display(),
                after.as_secs_f64().ceil()
            ),
            FolderError::CannotRotate { spec } => write!(
                out,
                "the columns of {spec} cannot change places, so they cannot be rotated; leave out --placement"
            ),
            FolderError::EpochsTooLarge { epoch_bytes, most_bytes } => write!(
                out,
                "epochs over {epoch_bytes} bytes are more than one record can end, {most_bytes}; give a smaller --epochs"
            ),
            FolderError::TooLarge { user_bytes, most_bytes } => write!(
                out,
                "{user_bytes} bytes are more than a volume of this code holds, {most_bytes}; give a smaller --size"
            ),
            FolderError::NoSuchDevice { device, devices } => {
                write!(out, "there is no device {device}; the volume has devices 0 to {}", devices - 1)
            }
        }
    }
}

impl FolderError {
    /// Returns the text with the command that helps; `vol` is the folder in shell syntax.
    pub fn text_of(&self, vol: &str) -> String {
        let helps = match self {
            FolderError::BeingReplaced { .. } | FolderError::NotReplaced { .. } => {
                format!("'pantile status {vol}' shows what is replaced")
            }
            FolderError::NotThatDevice { .. } => format!("'pantile status {vol}' says what is missing"),
            FolderError::OwnDevice { path, slot: None } => {
                format!("'pantile remove-spare {vol} {}' takes it back", quoted(path))
            }
            FolderError::TooManySpares => format!("'pantile remove-spare {vol} SPARE' gives it back"),
            FolderError::NoScrub => format!("begin one with: pantile scrub {vol}"),
            FolderError::ReadOnly => format!("'pantile stop {vol} && pantile serve {vol}' does so"),
            FolderError::Host(HostError::NoDevice { slot }) => {
                format!("'pantile replace {vol} {} NEW' does so", slot.0)
            }
            FolderError::Host(HostError::NoMemory { .. } | HostError::Failed(Failure::NotOpen)) => {
                format!("'pantile status {vol}' prints it")
            }
            _ => return self.to_string(),
        };
        format!("{self}; {helps}")
    }
}

impl std::error::Error for FolderError {}

/// Devices as the subject of a sentence.
fn named(slots: &[Slot]) -> String {
    let numbers: Vec<String> = slots.iter().map(|slot| slot.0.to_string()).collect();
    match numbers.len() {
        1 => format!("device {} is", numbers[0]),
        _ => format!("devices {} are", numbers.join(", ")),
    }
}
