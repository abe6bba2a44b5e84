//! The protocol between the server of a volume and the commands: both sides.
//!
//! Each line on the socket `control.sock` in the volume's folder is a JSON object: an order, then
//! its answer. docs/control-socket.md describes it for other programs.

use crate::disks::DisksReport;
use crate::epochs::{EpochReport, OnTimeout};
use crate::health::Finding;
use crate::margin::Margin;
use crate::private::listen_private;
use crate::service::Service;
use crate::{EpochId, FaultKind, FolderError};
use pantile_paths::Dir;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The socket's name in the folder.
pub const CONTROL_SOCKET: &str = "control.sock";

/// Line that a server prints when an order or a signal stops it. After this line the server is not
/// restarted, however its process ends.
pub const TOLD_TO_STOP: &str = "pantile: told to stop";

/// Beginning of the line with the reason why a server ended without an order.
pub const ENDED: &str = "pantile-ended ";

/// Line that a server prints on standard error when it serves. Without this line, the server was
/// refused before it served.
pub const SERVING: &str = "pantile: serves";

/// Longest line that is accepted.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// Most conversations at a time, each with its own thread. A further connection is closed; its
/// client may try again.
const CONVERSATIONS_MAX: usize = 64;

/// Time limit for receiving an order, and for sending an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longest time for a status. Each command asks for one before its order.
const PATIENCE_STATUS: Duration = Duration::from_secs(10);

/// Longest time for the answer to an order that changes something.
pub(crate) const PATIENCE_LONG: Duration = Duration::from_secs(300);

/// An order to a served volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Order {
    /// Report the state.
    Status,
    /// Make everything durable and end.
    Stop,
    /// Declare a device failed.
    Fail {
        /// Its slot.
        device: u32,
        /// Permits that data cannot be read without it.
        #[serde(default)]
        lose_data: bool,
    },
    /// Put a device into a slot.
    Replace {
        /// The slot.
        device: u32,
        /// The device: an absolute path.
        path: PathBuf,
        /// Permits to destroy the content of the device.
        #[serde(default)]
        overwrite: bool,
    },
    /// Stop copying a device to its replacement; the device stays.
    CancelReplace {
        /// The slot.
        device: u32,
    },
    /// Add a spare, a device for the next loss.
    AddSpare {
        /// The device: an absolute path.
        path: PathBuf,
        /// Permits to destroy the content of the device.
        #[serde(default)]
        overwrite: bool,
    },
    /// Remove a spare.
    RemoveSpare {
        /// The device: an absolute path.
        path: PathBuf,
    },
    /// Bring back lost devices that are available again, and set the rate of background work.
    Rebuild {
        /// Bytes a second; 0: no limit; none: unchanged.
        #[serde(default)]
        throttle_bytes_per_s: Option<u64>,
    },
    /// Begin a scrub.
    ScrubStart {
        /// True to repair bad content.
        #[serde(default)]
        repair: bool,
    },
    /// Pause the scrub.
    ScrubPause,
    /// Resume the scrub.
    ScrubResume,
    /// Stop the scrub before its end.
    ScrubStop,
    /// Clear the error counters of a device.
    ClearErrors {
        /// The device.
        device: u32,
    },
    /// Begin an epoch of delayed parity.
    DelayedStart {
        /// Beginning of the range of the epoch in bytes; none: 0.
        #[serde(default)]
        offset: Option<u64>,
        /// Length of the range in bytes; none: to the end of the volume.
        #[serde(default)]
        len_bytes: Option<u64>,
        /// Most bytes whose parity may be pending; none: 256 MiB.
        #[serde(default)]
        owed_bytes_max: Option<u64>,
        /// Seconds after which pending parity is written; none: 30; 0: no limit.
        #[serde(default)]
        age_max_s: Option<u64>,
        /// Seconds without a request after which the epoch ends; none: 300; 0: never.
        #[serde(default)]
        idle_max_s: Option<u64>,
        /// The way in which it ends then, and when this connection is closed: `seal` or `abort`;
        /// none: abort.
        #[serde(default)]
        on_timeout: Option<OnTimeout>,
        /// True if it stays open when this connection is closed.
        #[serde(default)]
        detached: bool,
    },
    /// Write the parity that is pending in an epoch, and seal it.
    DelayedEnd {
        /// The epoch.
        epoch: u64,
    },
    /// Restore the state before an epoch.
    DelayedAbort {
        /// The epoch.
        epoch: u64,
    },
}

/// The answer to an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// The order was executed, or its execution has begun.
    Done {
        /// A sentence about the result.
        text: String,
    },
    /// The state of the volume.
    Status(Box<StatusReport>),
    /// An epoch has begun.
    Epoch {
        /// Its number.
        epoch: u64,
        /// Beginning of its range in bytes, a multiple of a stripe.
        offset: u64,
        /// Length of its range in bytes.
        len_bytes: u64,
    },
    /// The order was not executed.
    Fault {
        /// Kind of the fault.
        kind: FaultKind,
        /// The cause, the limit, and the remedy.
        text: String,
    },
}

impl Answer {
    /// Returns the answer for an error.
    pub fn fault(error: &FolderError) -> Answer {
        Answer::Fault { kind: error.kind(), text: error.to_string() }
    }

    /// Returns the answer for an order to a volume that failed; `vol` is the folder in shell
    /// syntax.
    pub(crate) fn fault_of(error: &FolderError, vol: &str) -> Answer {
        Answer::Fault { kind: error.kind(), text: error.text_of(vol) }
    }

    /// Returns the answer after a panic of this program.
    pub(crate) fn own_fault(vol: &str) -> Answer {
        let text = format!(
            "a fault of pantile itself, not of yours: nothing was changed but what 'pantile status {vol}' shows; please report it with serve.log"
        );
        Answer::Fault { kind: FaultKind::System, text }
    }
}

/// The state of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusReport {
    /// Its name.
    pub name: String,
    /// Its id.
    pub volume: String,
    /// Its code.
    pub code: String,
    /// Which device holds which column of a stripe: `fixed`, `rotated` or `rotated:STEP`.
    #[serde(default)]
    pub placement: String,
    /// Its length in bytes.
    pub len_bytes: u64,
    /// Bytes of the volume that hold data: whole stripes, and blocks of the log.
    #[serde(default)]
    pub used_bytes: u64,
    /// All findings in one word.
    pub verdict: Verdict,
    /// Texts of the findings, the worst first.
    pub wrong: Vec<String>,
    /// Findings with their kinds, in the same order; the verdict and every exit status follow from
    /// them.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// Further losses that the volume tolerates.
    pub margin: Margin,
    /// The disks that the members are on, and the effect of the loss of disks.
    #[serde(default)]
    pub disks: DisksReport,
    /// The devices, by slot.
    pub devices: Vec<DeviceReport>,
    /// The spares.
    pub spares: Vec<PathBuf>,
    /// Progress of the rebuild.
    pub rebuild: Option<RebuildReport>,
    /// The last scrub.
    pub scrub: Option<ScrubReport>,
    /// Bytes a second that rebuild and scrub may read and write; none: no limit.
    pub throttle_bytes_per_s: Option<u64>,
    /// Number of blocks that are not durable yet.
    pub dirty_blocks: u64,
    /// Number of used rows of the log.
    pub log_rows_used: u64,
    /// Number of rows of the log.
    pub log_rows: u64,
    /// Number of users' blocks in the log.
    pub log_blocks: u64,
    /// Number of these blocks that are lost, because more devices are lost than the log tolerates.
    pub log_blocks_lost: u64,
    /// Number of used places for stripes.
    pub stripes_used: u64,
    /// Number of free places for stripes.
    pub free_stripes: u64,
    /// Number of stripes with more bad columns than the code tolerates.
    pub broken_stripes: u64,
    /// Number of stripes that wait for repair.
    pub suspect_stripes: u64,
    /// Ranges of data that are lost or suspect, by offset.
    #[serde(default)]
    pub ranges: Vec<RangeReport>,
    /// Past events, the oldest first.
    #[serde(default)]
    pub events: Vec<EventReport>,
    /// Open epochs of delayed parity.
    #[serde(default)]
    pub epochs: Vec<EpochReport>,
    /// Number of stripes of epochs whose parity was written in advance and then not needed, since
    /// the volume was opened.
    #[serde(default)]
    pub wasted_stripes: u64,
    /// The server, if the volume is served.
    #[serde(default)]
    pub server: Option<ServerReport>,
    /// True if it is served read-only: nothing is written to its devices.
    #[serde(default)]
    pub reads_only: bool,
    /// True if the volume could be opened. Otherwise only devices and findings are known, and
    /// numbers are 0.
    #[serde(default = "opens")]
    pub opens: bool,
}

fn opens() -> bool {
    true
}

/// The process that serves a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerReport {
    /// The number of the process.
    pub pid: u32,
    /// Seconds for which it has served.
    pub up_s: u64,
    /// Number of earlier servers that died of a fault of their own since the volume was first
    /// served.
    pub deaths: u32,
    /// Number of earlier servers that died because a client went away, a fault of nbdkit before
    /// 1.34. They do not count in `deaths`.
    #[serde(default)]
    pub client_deaths: u32,
    /// Limit of the volume's buffers in bytes.
    #[serde(default)]
    pub memory_bytes_max: u64,
    /// Bytes in the volume's buffers, including those kept for reuse.
    #[serde(default)]
    pub memory_bytes: u64,
    /// Resident memory of the process in bytes, including maps, checksums and clients' requests.
    #[serde(default)]
    pub resident_bytes: u64,
    /// Number of threads of the process, including those for clients.
    #[serde(default)]
    pub threads: u32,
    /// Number of stripes patched in place; none if patches are not allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patched_stripes: Option<u64>,
}

/// Verdict on a volume, in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// No finding, and no device has erred since the volume was opened.
    Clean,
    /// No loss, but a device has erred since the volume was opened.
    Warned,
    /// All data can be read and written, but there is a problem.
    Degraded,
    /// Data are lost, or writes are impossible.
    #[default]
    Failed,
}

/// Report on one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceReport {
    /// Its slot.
    pub device: u32,
    /// Its path, or its last path.
    pub path: Option<PathBuf>,
    /// Its state in the volume.
    pub state: DeviceWord,
    /// While it is rebuilt, number of stripes that are rebuilt or were found intact.
    pub done_stripes: Option<u64>,
    /// Blocks read since the volume was opened.
    pub blocks_read: u64,
    /// Number of wrong blocks that were read since it became a member.
    pub checksum_errors: u64,
    /// Number of failed reads since it became a member.
    pub media_errors: u64,
    /// Number of its chunks and log blocks that were wrong or unreadable when last read, and were
    /// not written since. There the margin counts the device as lost.
    #[serde(default)]
    pub bad_chunks: u64,
    /// Reason why it is lost, or its problem.
    pub problem: Option<String>,
    /// Durations of its last reads; none: too few reads.
    #[serde(default)]
    pub reads: Option<LatencyReport>,
    /// Durations of its last writes.
    #[serde(default)]
    pub writes: Option<LatencyReport>,
    /// Set if it has been far slower than the others for half a minute or longer.
    #[serde(default)]
    pub slow: Option<SlowReport>,
    /// The device that replaces it when the copy is complete.
    #[serde(default)]
    pub replacement: Option<ReplacementReport>,
    /// Progress of the verification, if the device became a member as the copy of another one and
    /// is not verified yet.
    #[serde(default)]
    pub verification: Option<VerificationReport>,
}

/// Progress of the verification of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerificationReport {
    /// Number of stripes whose part on the device is verified.
    pub done_stripes: u64,
    /// Number of all stripes.
    pub total_stripes: u64,
    /// Bad parts found so far, which are rebuilt.
    pub found: u64,
}

/// How slow a device is, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowReport {
    /// Median duration of its reads divided by that of the other devices.
    pub times_as_long: u32,
    /// Median duration of its reads in microseconds.
    pub median_us: u32,
    /// Seconds for which it has been slow.
    pub for_s: u64,
}

/// Durations of the last operations of one kind on a device, at most 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyReport {
    /// Median in microseconds.
    pub median_us: u32,
    /// Maximum in microseconds.
    pub worst_us: u32,
}

/// Progress of the copy of a device that is being replaced while it still works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplacementReport {
    /// The new device.
    pub path: PathBuf,
    /// Number of bytes copied.
    pub copied_bytes: u64,
    /// Number of bytes of the complete copy that were read back and found equal.
    #[serde(default)]
    pub verified_bytes: u64,
    /// Number of bytes to copy.
    pub total_bytes: u64,
    /// Number of blocks that the old device could not read. When the copy is complete they are
    /// reconstructed from other devices.
    pub unreadable_blocks: u64,
}

/// State of a device in the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceWord {
    /// It has all of its content.
    Present,
    /// It is not available.
    Lost,
    /// It is being rebuilt.
    Rebuilding,
}

/// Progress of a rebuild.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebuildReport {
    /// Number of stripes done, for the device that is furthest behind.
    pub done_stripes: u64,
    /// Number of stripes to rebuild.
    pub total_stripes: u64,
    /// Bytes written to devices a second, recently.
    pub bytes_per_s: u64,
    /// Estimated seconds left; none: not known yet.
    pub seconds_left: Option<u64>,
    /// The first pass, after which one more device can fail; none: there is no such pass, or it has
    /// ended.
    pub first_pass: Option<FirstPassReport>,
}

/// Progress of the first pass, which rebuilds the rows with which every stripe tolerates one more
/// loss.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstPassReport {
    /// Number of stripes done, for the device that is furthest behind.
    pub done_stripes: u64,
    /// Estimated seconds left; none: not known yet.
    pub seconds_left: Option<u64>,
}

/// Progress of a scrub and its findings, in stripes and in blocks of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubReport {
    /// Number of verified stripes.
    pub done: u64,
    /// Number of stripes to verify.
    pub total: u64,
    /// True if it repairs.
    pub repair: bool,
    /// True if it is paused.
    pub paused: bool,
    /// True until the scrub ends.
    pub running: bool,
    /// Number of stripes without a finding.
    pub clean: u64,
    /// Number of stripes with blocks that do not match their checksums.
    pub checksum: u64,
    /// Number of stripes whose equations do not hold; one bad column explains it.
    pub located: u64,
    /// Number of stripes whose equations do not hold; one of several columns could explain it.
    pub ambiguous: u64,
    /// Number of stripes whose equations do not hold; no single bad column explains it.
    pub unlocatable: u64,
    /// Number of stripes with unreadable blocks and otherwise matching checksums.
    #[serde(default)]
    pub unreadable: u64,
    /// Number of verified blocks of the log; each copy and each parity block counts.
    #[serde(default)]
    pub log_blocks: u64,
    /// Number of blocks of the log that do not match their checksums.
    #[serde(default)]
    pub log_checksum: u64,
    /// Number of blocks of the log that cannot be read.
    #[serde(default)]
    pub log_unreadable: u64,
    /// Devices with bad metadata: superblocks, journal, maps or definition.
    #[serde(default)]
    pub metadata: Vec<MetadataReport>,
    /// Number of devices with bad metadata. It survives a restart, `metadata` does not.
    #[serde(default)]
    pub metadata_devices: u64,
    /// Time of its beginning, in seconds since 1970; 0: not known.
    #[serde(default)]
    pub begun_at: i64,
    /// Time of its end, in seconds since 1970; 0: it has not ended.
    #[serde(default)]
    pub ended_at: i64,
    /// True if it was stopped before its end.
    #[serde(default)]
    pub stopped: bool,
    /// Number of bad stripes that were repaired.
    #[serde(default)]
    pub repaired: u64,
    /// Number of bad stripes that were not repaired, or only by a guess.
    #[serde(default)]
    pub left: u64,
}

/// A range of data that is lost or suspect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeReport {
    /// Its offset in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub len_bytes: u64,
    /// Time of the finding, in seconds since 1970; 0: not known.
    pub since: i64,
}

/// An event of the past.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventReport {
    /// Its time, in seconds since 1970; 0: not known.
    pub at: i64,
    /// A sentence about it.
    pub text: String,
    /// The device that it concerns, if any.
    pub device: Option<u32>,
    /// The path that this device had at that time, if it is known.
    #[serde(default)]
    pub path: Option<PathBuf>,
}

/// Bad metadata of a device, found by a scrub.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetadataReport {
    /// Its slot.
    pub device: u32,
    /// Number of bad superblocks, of three.
    pub superblocks: u32,
    /// True if a record of the journal is bad that the next opening would replay.
    pub journal: bool,
    /// True if the snapshot of the maps is bad.
    pub snapshot: bool,
    /// True if the text of the code is bad, of a code that no family names.
    pub definition: bool,
}

impl MetadataReport {
    /// Returns the names of the bad parts: "2 superblocks and the journal".
    pub fn what(&self) -> String {
        let superblocks = match self.superblocks {
            0 => None,
            1 => Some("1 superblock".to_string()),
            more => Some(format!("{more} superblocks")),
        };
        let named = |is_bad: bool, name: &str| is_bad.then(|| name.to_string());
        let all = [
            superblocks,
            named(self.journal, "the journal"),
            named(self.snapshot, "the snapshot of the maps"),
            named(self.definition, "the text of the code"),
        ];
        let mut all: Vec<String> = all.into_iter().flatten().collect();
        let last = all.pop().unwrap_or_default();
        if all.is_empty() { last } else { format!("{} and {last}", all.join(", ")) }
    }
}

impl ScrubReport {
    /// True if the scrub has found any problem.
    pub fn is_bad(&self) -> bool {
        let stripes = self.checksum + self.unreadable + self.located + self.ambiguous + self.unlocatable;
        let metadata = self.metadata_devices.max(self.metadata.len() as u64);
        stripes + self.log_checksum + self.log_unreadable + metadata > 0
    }
}

/// Sends an order to the server of a volume's folder and returns its answer; `None`: there is no
/// server.
///
/// Errors: as [`order_until`]; the server must answer a status within ten seconds.
pub fn order(root: &Path, order: &Order) -> Result<Option<Answer>, FolderError> {
    let patience = if *order == Order::Status { PATIENCE_STATUS } else { PATIENCE_LONG };
    order_within(root, order, patience)
}

/// Does the same as [`order`], but waits at most `patience` for the answer, and at least a
/// millisecond.
///
/// Errors: as [`order_until`].
pub fn order_within(root: &Path, order: &Order, patience: Duration) -> Result<Option<Answer>, FolderError> {
    order_until(root, order, patience, &|| false)
}

/// Does the same as [`order_within`], but also stops waiting when `is_ended`, which is called ten
/// times a second, returns true.
///
/// Refuses a symbolic link in place of the socket.
///
/// Errors: `NoAnswer` after `patience` or `is_ended`; the order may still be executed.
pub fn order_until(
    root: &Path,
    order: &Order,
    patience: Duration,
    is_ended: &dyn Fn() -> bool,
) -> Result<Option<Answer>, FolderError> {
    let begun = Instant::now();
    let patience = patience.max(Duration::from_millis(1));
    let Some(mut stream) = connect(root)? else { return Ok(None) };
    match say(&mut stream, order, begun + patience, is_ended) {
        Ok(answer) => Ok(Some(answer)),
        // The server was just killed, or is ending: none of these orders can be half done.
        Err(error) if matches!(order, Order::Status | Order::Stop) && is_end(&error) => Ok(None),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Err(FolderError::NoAnswer { folder: root.to_path_buf(), after: begun.elapsed().min(patience) })
        }
        Err(error) => Err(FolderError::file("talk to", &root.join(CONTROL_SOCKET), &error)),
    }
}

/// Connects to the server of a folder; `None`: there is none. Refuses a symbolic link in place of
/// the socket.
pub(crate) fn connect(root: &Path) -> Result<Option<UnixStream>, FolderError> {
    let failed = |error: std::io::Error| FolderError::file("reach", &root.join(CONTROL_SOCKET), &error);
    let folder = match Dir::open_named(root) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        folder => folder.map_err(|error| FolderError::file("open", root, &error))?,
    };
    if folder.look(CONTROL_SOCKET).is_ok_and(|found| found.is_symlink()) {
        return Err(failed(rustix::io::Errno::LOOP.into()));
    }
    match UnixStream::connect(folder.at(CONTROL_SOCKET)) {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// Sends an order and waits for its answer until a deadline, or until `is_ended` returns true.
pub(crate) fn say(
    stream: &mut UnixStream,
    order: &Order,
    until: Instant,
    is_ended: &dyn Fn() -> bool,
) -> std::io::Result<Answer> {
    stream.set_write_timeout(Some(until.saturating_duration_since(Instant::now()).max(SLICE)))?;
    let mut line = serde_json::to_string(order)?;
    line.push('\n');
    stream.write_all(line.as_bytes())?;
    Ok(serde_json::from_slice(&answer_line(stream, until, is_ended)?)?)
}

/// Longest duration of one read of an answer, between two calls of `is_ended`.
const SLICE: Duration = Duration::from_millis(100);

/// Reads a line, up to its end, the end of the stream, or the longest length.
///
/// Errors: `TimedOut` if the line is not complete in time.
fn answer_line(
    stream: &mut UnixStream,
    until: Instant,
    is_ended: &dyn Fn() -> bool,
) -> std::io::Result<Vec<u8>> {
    use ErrorKind::{Interrupted, TimedOut, WouldBlock};
    let mut line = Vec::new();
    let mut piece = [0; 16 << 10];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || is_ended() {
            return Err(TimedOut.into());
        }
        stream.set_read_timeout(Some(left.min(SLICE)))?;
        let have = match stream.read(&mut piece) {
            Ok(have) => have,
            Err(error) if matches!(error.kind(), WouldBlock | TimedOut | Interrupted) => continue,
            Err(error) => return Err(error),
        };
        let end = piece[..have].iter().position(|&byte| byte == b'\n');
        line.extend_from_slice(&piece[..end.unwrap_or(have)]);
        if have == 0 || end.is_some() || line.len() as u64 >= LINE_BYTES_MAX {
            return Ok(line);
        }
    }
}

/// True if the error means that the other side has closed the connection.
fn is_end(error: &std::io::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// Listens on the control socket of a folder that this process has locked.
pub struct ControlServer {
    folder: Dir,
    /// A second handle of the listening socket. Shutting it down ends the wait for a connection,
    /// even if the socket was renamed.
    listener: UnixStream,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ControlServer {
    /// Begins to listen for orders to `service`. The caller holds the lock on the folder, so no
    /// other process listens.
    pub fn start(root: &Path, service: Arc<Service>) -> Result<ControlServer, FolderError> {
        let path = root.join(CONTROL_SOCKET);
        let failed = |error: std::io::Error| FolderError::file("listen on", &path, &error);
        let folder = Dir::open_named(root).map_err(failed)?;
        let listener = listen_private(&folder, CONTROL_SOCKET).map_err(failed)?;
        let again = UnixStream::from(OwnedFd::from(listener.try_clone().map_err(failed)?));
        let ended = Arc::new(AtomicBool::new(false));
        let flag = ended.clone();
        let conversations = Arc::new(());
        let accept = move || {
            for stream in listener.incoming() {
                if flag.load(Ordering::Acquire) {
                    return;
                }
                let (Ok(stream), service) = (stream, service.clone()) else { continue };
                // Each conversation holds a clone, so that the conversations are counted.
                let conversation = conversations.clone();
                if Arc::strong_count(&conversations) > CONVERSATIONS_MAX + 1 {
                    continue;
                }
                let builder = std::thread::Builder::new().name("order".into());
                // If no thread can be started, the connection is closed, and the client may try
                // again.
                let _ = builder.spawn(move || {
                    let _ = converse(&stream, &service);
                    drop(conversation);
                });
            }
        };
        let thread = std::thread::Builder::new().name("control".into()).spawn(accept).map_err(failed)?;
        Ok(ControlServer { folder, listener: again, ended, thread: Some(thread) })
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        let _ = self.listener.shutdown(Shutdown::Both);
        self.thread.take().into_iter().for_each(|thread| drop(thread.join()));
        let _ = self.folder.remove(CONTROL_SOCKET);
    }
}

/// Epochs that a connection has begun and not detached. They end with the connection, by their
/// policy.
struct Begun<'s> {
    service: &'s Service,
    epochs: Vec<EpochId>,
}

impl Begun<'_> {
    /// True if one of these epochs has not ended. Cost: a report of the engine.
    fn is_one_open(&self) -> bool {
        let open = match self.epochs.is_empty() {
            true => Vec::new(),
            false => self.service.host().report().map_or(Vec::new(), |report| report.epochs),
        };
        open.iter().any(|report| self.epochs.contains(&EpochId(report.epoch)))
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.epochs.drain(..).for_each(|epoch| self.service.handle().leave_epoch(epoch));
    }
}

/// Answers orders, line by line, until the other side ends or sends a line that is too long.
fn converse(stream: &UnixStream, service: &Service) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut begun = Begun { service, epochs: Vec::new() };
    let mut reader = BufReader::new(stream);
    loop {
        let line = next_line(&mut reader, || begun.is_one_open())?;
        if line.is_empty() {
            return Ok(());
        }
        let (order, answer) = match serde_json::from_slice::<Order>(&line) {
            Ok(order) => {
                let answer = service.obey(&order);
                if let (Order::DelayedStart { detached: false, .. }, Answer::Epoch { epoch, .. }) =
                    (&order, &answer)
                {
                    begun.epochs.push(EpochId(*epoch));
                }
                (Some(order), answer)
            }
            Err(error) => {
                let text = format!("not an order: {error}; docs/control-socket.md lists them");
                (None, Answer::Fault { kind: FaultKind::Input, text })
            }
        };
        let mut text = serde_json::to_string(&answer)?;
        text.push('\n');
        let mut writer = stream;
        writer.write_all(text.as_bytes())?;
        if order == Some(Order::Stop) {
            service.end();
            return Ok(());
        }
        if !line.ends_with(b"\n") {
            return Ok(());
        }
    }
}

/// Reads a line, up to its end, the end of the connection, or the longest length. A read that times
/// out is repeated while `waits` is true, because a client with an open epoch may be silent here.
fn next_line(reader: &mut impl BufRead, waits: impl Fn() -> bool) -> std::io::Result<Vec<u8>> {
    let mut line = Vec::new();
    loop {
        let left = LINE_BYTES_MAX - line.len() as u64;
        match reader.by_ref().take(left).read_until(b'\n', &mut line) {
            Ok(_) => return Ok(line),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) && waits() => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
