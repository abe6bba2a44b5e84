//! The protocol between a served volume and the commands, with both its sides.
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

/// Line that a server prints when an order or a signal stops it: it is not started again, however
/// it then dies.
pub const TOLD_TO_STOP: &str = "pantile: told to stop";

/// Beginning of the line that says why the server ended though no order stopped it.
pub const ENDED: &str = "pantile-ended ";

/// Line that a server prints on standard error when it serves. Without it a server was refused and
/// has not ended.
pub const SERVING: &str = "pantile: serves";

/// Longest line that is read.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// Conversations at a time, each with a thread of its own. The connection of one more is closed;
/// its client may try again.
const CONVERSATIONS_MAX: usize = 64;

/// Longest time for an order to come, and for an answer to go.
const PATIENCE: Duration = Duration::from_secs(60);

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
    /// A device has failed.
    Fail {
        /// Its slot.
        device: u32,
        /// Even if data cannot be read without it.
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
    /// Keep a device for the next loss.
    AddSpare {
        /// The device: an absolute path.
        path: PathBuf,
        /// Permits to destroy the content of the device.
        #[serde(default)]
        overwrite: bool,
    },
    /// Give a spare back.
    RemoveSpare {
        /// The device: an absolute path.
        path: PathBuf,
    },
    /// Bring back lost devices that are there again, and set the rate of background work.
    Rebuild {
        /// Bytes a second; 0: as fast as it goes; none: as before.
        #[serde(default)]
        throttle_bytes_per_s: Option<u64>,
    },
    /// Begin a scrub.
    ScrubStart {
        /// Repair what is found bad.
        #[serde(default)]
        repair: bool,
    },
    /// Let the scrub wait.
    ScrubPause,
    /// Let the scrub go on.
    ScrubResume,
    /// End the scrub.
    ScrubStop,
    /// Clear the errors of a device: they are counted from now on.
    ClearErrors {
        /// The device.
        device: u32,
    },
    /// Begin an epoch of delayed parity.
    DelayedStart {
        /// Beginning of its range; none: 0.
        #[serde(default)]
        offset: Option<u64>,
        /// Length of its range; none: to the end.
        #[serde(default)]
        len_bytes: Option<u64>,
        /// Bytes whose parity may be pending; none: 256 MiB.
        #[serde(default)]
        owed_bytes_max: Option<u64>,
        /// Seconds after which pending parity is written; none: 30; 0: never for its age.
        #[serde(default)]
        age_max_s: Option<u64>,
        /// Seconds without a request after which it ends; none: 300; 0: never.
        #[serde(default)]
        idle_max_s: Option<u64>,
        /// Its end then, and when this connection is closed: `seal` or `abort`; none: abort.
        #[serde(default)]
        on_timeout: Option<OnTimeout>,
        /// It goes on when this connection is closed.
        #[serde(default)]
        detached: bool,
    },
    /// Write the parity that is pending in an epoch, and seal it.
    DelayedEnd {
        /// The epoch.
        epoch: u64,
    },
    /// Leave everything as it was before an epoch.
    DelayedAbort {
        /// The epoch.
        epoch: u64,
    },
}

/// The answer to an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// It is done, or begun.
    Done {
        /// A sentence about it.
        text: String,
    },
    /// The state of the volume.
    Status(Box<StatusReport>),
    /// An epoch has begun.
    Epoch {
        /// Its number.
        epoch: u64,
        /// Beginning of its range, a multiple of a stripe.
        offset: u64,
        /// Length of its range.
        len_bytes: u64,
    },
    /// It is not done.
    Fault {
        /// Kind of the fault.
        kind: FaultKind,
        /// The fact, the limit, what to do.
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
    /// Its length.
    pub len_bytes: u64,
    /// Bytes of it that hold data: whole stripes, and blocks of the log.
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
    /// Losses that the volume tolerates beyond those that it has.
    pub margin: Margin,
    /// The disks that the members are on, and what the loss of some costs.
    #[serde(default)]
    pub disks: DisksReport,
    /// By slot.
    pub devices: Vec<DeviceReport>,
    /// Devices for the next loss.
    pub spares: Vec<PathBuf>,
    /// Devices being made whole.
    pub rebuild: Option<RebuildReport>,
    /// The scrub of this opening.
    pub scrub: Option<ScrubReport>,
    /// Bytes a second that rebuild and scrub may read and write; none: as fast as it goes.
    pub throttle_bytes_per_s: Option<u64>,
    /// Blocks that are not durable yet.
    pub dirty_blocks: u64,
    /// Rows of the log in use.
    pub log_rows_used: u64,
    /// Rows of the log.
    pub log_rows: u64,
    /// Blocks of users in the log.
    pub log_blocks: u64,
    /// Those of them that are lost: more devices are lost than the log tolerates.
    pub log_blocks_lost: u64,
    /// Places for stripes in use.
    pub stripes_used: u64,
    /// Places for stripes that are free.
    pub free_stripes: u64,
    /// Stripes with more bad columns than the code tolerates.
    pub broken_stripes: u64,
    /// Stripes that wait to be repaired.
    pub suspect_stripes: u64,
    /// Data that are lost or suspect, from the lowest on.
    #[serde(default)]
    pub ranges: Vec<RangeReport>,
    /// Past events, the oldest first.
    #[serde(default)]
    pub events: Vec<EventReport>,
    /// Epochs of delayed parity that are open.
    #[serde(default)]
    pub epochs: Vec<EpochReport>,
    /// Stripes of epochs whose parity was written and then not needed, since the volume was opened.
    #[serde(default)]
    pub wasted_stripes: u64,
    /// The server, if one serves it.
    #[serde(default)]
    pub server: Option<ServerReport>,
    /// True if it is served read-only: nothing is written to its devices.
    #[serde(default)]
    pub reads_only: bool,
    /// True if it could be opened. Otherwise only devices and findings are known, and numbers are
    /// 0.
    #[serde(default = "opens")]
    pub opens: bool,
}

fn opens() -> bool {
    true
}

/// The process that serves a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerReport {
    /// Its number.
    pub pid: u32,
    /// Seconds for which it has served.
    pub up_s: u64,
    /// Servers before it that died of a fault of their own since the volume was served.
    pub deaths: u32,
    /// Servers before it that died because a client went away, a fault of nbdkit before 1.34. They
    /// do not count as `deaths`.
    #[serde(default)]
    pub client_deaths: u32,
    /// Bytes that the volume may have in buffers.
    #[serde(default)]
    pub memory_bytes_max: u64,
    /// Bytes that it has in buffers, with those kept for reuse.
    #[serde(default)]
    pub memory_bytes: u64,
    /// Bytes of memory that the process occupies, with maps, checksums and clients' requests.
    #[serde(default)]
    pub resident_bytes: u64,
    /// Threads of the process, those for clients included.
    #[serde(default)]
    pub threads: u32,
    /// Stripes patched in place; none where patches are not allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patched_stripes: Option<u64>,
}

/// A volume in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// No finding, and no device has erred since the volume was opened.
    Clean,
    /// No loss, but a device has erred since the volume was opened.
    Warned,
    /// Everything can be read and written, and something is wrong.
    Degraded,
    /// Data are lost, or nothing can be written.
    #[default]
    Failed,
}

/// One device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceReport {
    /// Its slot.
    pub device: u32,
    /// Where it is, or was.
    pub path: Option<PathBuf>,
    /// Its part in the volume.
    pub state: DeviceWord,
    /// Stripes rebuilt or found right so far, while it is rebuilt.
    pub done_stripes: Option<u64>,
    /// Blocks read since the volume was opened.
    pub blocks_read: u64,
    /// Wrong blocks read since the volume knows this device.
    pub checksum_errors: u64,
    /// Reads that failed since the volume knows this device.
    pub media_errors: u64,
    /// Its chunks of stripes and blocks of the log that were wrong or unreadable when last read,
    /// and were not written since. The margin counts the device as lost there.
    #[serde(default)]
    pub bad_chunks: u64,
    /// Reason why it is lost or in trouble.
    pub problem: Option<String>,
    /// Durations of its last reads; none: too few reads so far.
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
    /// Set while a device that took another's place as its copy is verified by its checksums.
    #[serde(default)]
    pub verification: Option<VerificationReport>,
}

/// Progress of the verification of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerificationReport {
    /// Stripes whose part on the device is verified.
    pub done_stripes: u64,
    /// Stripes in all.
    pub total_stripes: u64,
    /// Bad parts found so far, which are rebuilt.
    pub found: u64,
}

/// How slow a device is, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowReport {
    /// Median of its reads divided by that of the others.
    pub times_as_long: u32,
    /// Microseconds; half of its reads took less.
    pub median_us: u32,
    /// Seconds for which it has been so.
    pub for_s: u64,
}

/// Durations of the last operations of a kind on a device, at most 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyReport {
    /// Microseconds; half of them took less.
    pub median_us: u32,
    /// Microseconds of the longest.
    pub worst_us: u32,
}

/// Progress of the copy of a device that still works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplacementReport {
    /// The new device.
    pub path: PathBuf,
    /// Bytes copied.
    pub copied_bytes: u64,
    /// Bytes read back from the complete copy and found equal.
    #[serde(default)]
    pub verified_bytes: u64,
    /// Bytes to copy.
    pub total_bytes: u64,
    /// Blocks that the old device could not read. They are reconstructed from other devices when
    /// the copy is complete.
    pub unreadable_blocks: u64,
}

/// Part of a device in the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceWord {
    /// It holds everything.
    Present,
    /// It is not there.
    Lost,
    /// It is being made whole.
    Rebuilding,
}

/// Progress of a rebuild.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebuildReport {
    /// Stripes done, of the device that is furthest behind.
    pub done_stripes: u64,
    /// Stripes to do.
    pub total_stripes: u64,
    /// Bytes written to devices in a second, recently.
    pub bytes_per_s: u64,
    /// Seconds left at this rate of stripes; none: not known yet.
    pub seconds_left: Option<u64>,
    /// The first pass, after which one more device can fail; none: there is none, or it is over.
    pub first_pass: Option<FirstPassReport>,
}

/// Progress of the pass that rebuilds the rows with which every stripe tolerates one more loss.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstPassReport {
    /// Stripes done, of the device that is furthest behind.
    pub done_stripes: u64,
    /// Seconds left at this rate of stripes; none: not known yet.
    pub seconds_left: Option<u64>,
}

/// Progress of a scrub and its findings, in stripes and in blocks of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubReport {
    /// Stripes verified.
    pub done: u64,
    /// Stripes to verify.
    pub total: u64,
    /// True if it repairs.
    pub repair: bool,
    /// True if it is paused.
    pub paused: bool,
    /// True until it ends.
    pub running: bool,
    /// Stripes without a finding.
    pub clean: u64,
    /// Stripes with blocks that do not match their checksums.
    pub checksum: u64,
    /// Stripes whose equations do not hold; one column explains it.
    pub located: u64,
    /// Stripes whose equations do not hold; several columns could explain it.
    pub ambiguous: u64,
    /// Stripes whose equations do not hold; no single column explains it.
    pub unlocatable: u64,
    /// Stripes with unreadable blocks, all others matching their checksums.
    #[serde(default)]
    pub unreadable: u64,
    /// Blocks of the log that were verified; each copy and each parity counts.
    #[serde(default)]
    pub log_blocks: u64,
    /// Those of them that do not match their checksums.
    #[serde(default)]
    pub log_checksum: u64,
    /// Those of them that cannot be read.
    #[serde(default)]
    pub log_unreadable: u64,
    /// Devices with bad metadata: superblocks, journal, maps or definition.
    #[serde(default)]
    pub metadata: Vec<MetadataReport>,
    /// Number of devices with bad metadata; it outlives a restart, `metadata` does not.
    #[serde(default)]
    pub metadata_devices: u64,
    /// Beginning, in seconds since 1970; 0: not known.
    #[serde(default)]
    pub begun_at: i64,
    /// End, in seconds since 1970; 0: it has not ended.
    #[serde(default)]
    pub ended_at: i64,
    /// True if it was stopped before its end.
    #[serde(default)]
    pub stopped: bool,
    /// Bad stripes that were repaired.
    #[serde(default)]
    pub repaired: u64,
    /// Bad stripes that could not be repaired, or only by a guess.
    #[serde(default)]
    pub left: u64,
}

/// Data that are lost or suspect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeReport {
    /// Their beginning.
    pub offset: u64,
    /// Their length.
    pub len_bytes: u64,
    /// Time of the finding: seconds since 1970; 0: not known.
    pub since: i64,
}

/// An event of the past.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventReport {
    /// Seconds since 1970; 0: not known.
    pub at: i64,
    /// A sentence about it.
    pub text: String,
    /// The device, if it is of one.
    pub device: Option<u32>,
    /// The path that this device had then, if it is known.
    #[serde(default)]
    pub path: Option<PathBuf>,
}

/// Bad metadata of a device, found by a scrub.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetadataReport {
    /// Its slot.
    pub device: u32,
    /// Number of bad ones of its three superblocks.
    pub superblocks: u32,
    /// A record of the journal that the next opening would replay.
    pub journal: bool,
    /// The maps that the superblock refers to.
    pub snapshot: bool,
    /// The text of a code that no family names.
    pub definition: bool,
}

impl MetadataReport {
    /// Names the bad parts: "2 superblocks and the journal".
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
    /// True if the scrub has found anything bad.
    pub fn is_bad(&self) -> bool {
        let stripes = self.checksum + self.unreadable + self.located + self.ambiguous + self.unlocatable;
        let metadata = self.metadata_devices.max(self.metadata.len() as u64);
        stripes + self.log_checksum + self.log_unreadable + metadata > 0
    }
}

/// Gives an order to the volume that is served from a folder; `None`: none is.
///
/// Errors: `File` if it does not answer.
pub fn order(root: &Path, order: &Order) -> Result<Option<Answer>, FolderError> {
    let patience = if *order == Order::Status { PATIENCE } else { PATIENCE_LONG };
    order_within(root, order, patience)
}

/// As [`order`], but waits at most `patience` for the answer, and at least a millisecond.
///
/// Errors: as [`order_until`].
pub fn order_within(root: &Path, order: &Order, patience: Duration) -> Result<Option<Answer>, FolderError> {
    order_until(root, order, patience, &|| false)
}

/// As [`order_within`], but also ends when `is_ended`, which is asked ten times a second.
///
/// A link in the place of the socket is refused.
///
/// Errors: `NoAnswer` after `patience` or `is_ended`; the order may be obeyed all the same.
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
        // It was just killed, or is ending: nothing was asked of it that could be half done.
        Err(error) if matches!(order, Order::Status | Order::Stop) && is_end(&error) => Ok(None),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Err(FolderError::NoAnswer { folder: root.to_path_buf(), after: begun.elapsed().min(patience) })
        }
        Err(error) => Err(FolderError::file("talk to", &root.join(CONTROL_SOCKET), &error)),
    }
}

/// Connects to the server of a folder; `None`: there is none. A link in the place of the socket is
/// refused.
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

/// Sends an order and waits for its answer until a moment, or until `is_ended`.
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

/// Longest wait of one read of an answer.
const SLICE: Duration = Duration::from_millis(100);

/// Reads a line. It ends at the end of the stream or at the longest length, too.
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

/// True if the other side has gone.
fn is_end(error: &std::io::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// Listens on the control socket of a folder that this process has locked.
pub struct ControlServer {
    folder: Dir,
    /// A second handle of the listening socket. Its shutdown ends the wait for a connection, even
    /// if the socket was renamed.
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
                // Each conversation has a copy, so that the copies are counted.
                let conversation = conversations.clone();
                if Arc::strong_count(&conversations) > CONVERSATIONS_MAX + 1 {
                    continue;
                }
                let builder = std::thread::Builder::new().name("order".into());
                // Without a thread the client finds its connection closed, and may try again.
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

/// Epochs that a connection has begun and not detached. They end with it, by their policy.
struct Begun<'s> {
    service: &'s Service,
    epochs: Vec<EpochId>,
}

impl Begun<'_> {
    /// True if one of them has not ended. Cost: a report of the engine.
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

/// Reads a line. It ends at the end of the connection or at the longest length, too. A read that
/// times out is repeated while `waits`: a client that holds an epoch open need not talk here.
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
