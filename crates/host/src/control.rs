//! What the commands and a served volume say to each other: one definition for both sides, and both
//! sides.
//!
//! Over the socket `control.sock` in the volume's folder: one order a line, one answer a line, each
//! a JSON object. docs/control-socket.md describes it for other programs.

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

/// What a server says, as a line, when it is told to stop: it is not started again, whatever it
/// dies of on its way.
pub const TOLD_TO_STOP: &str = "pantile: told to stop";

/// How the line begins that says why there is no server any more, though nobody stopped it.
pub const ENDED: &str = "pantile-ended ";

/// What a server says on standard error when it serves: one that never did has not ended, it was
/// refused.
pub const SERVING: &str = "pantile: serves";

/// The longest line that is read.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// Conversations at a time, each with a thread of its own. Of one more the connection is closed,
/// and whoever made it may try again.
const CONVERSATIONS_MAX: usize = 64;

/// How long an order may take to come, and an answer to go.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long the answer to an order that changes something may take.
pub(crate) const PATIENCE_LONG: Duration = Duration::from_secs(300);

/// What a volume is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Order {
    /// Say how you are.
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
        /// Whether what it holds may be destroyed.
        #[serde(default)]
        overwrite: bool,
    },
    /// End the copy that is to take the place of a device, which stays.
    CancelReplace {
        /// The slot.
        device: u32,
    },
    /// Keep a device for the next loss.
    AddSpare {
        /// The device: an absolute path.
        path: PathBuf,
        /// Whether what it holds may be destroyed.
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
        /// Write anew what is found bad.
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
        /// Where its range begins; none: at the beginning.
        #[serde(default)]
        offset: Option<u64>,
        /// How long it is; none: to the end.
        #[serde(default)]
        len_bytes: Option<u64>,
        /// Bytes whose parity may be owed; none: 256 MiB.
        #[serde(default)]
        owed_bytes_max: Option<u64>,
        /// Seconds after which what is owed gets its parity; none: 30; 0: however old.
        #[serde(default)]
        age_max_s: Option<u64>,
        /// Seconds without a request after which it ends; none: 300; 0: never.
        #[serde(default)]
        idle_max_s: Option<u64>,
        /// How it ends then, and when this connection is closed: `seal` or `abort`; none: abort.
        #[serde(default)]
        on_timeout: Option<OnTimeout>,
        /// It goes on when this connection is closed.
        #[serde(default)]
        detached: bool,
    },
    /// Make the parity that an epoch owes, and seal it.
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

/// What it says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// It is done, or begun.
    Done {
        /// What, in a sentence.
        text: String,
    },
    /// How the volume is.
    Status(Box<StatusReport>),
    /// An epoch has begun.
    Epoch {
        /// Its number.
        epoch: u64,
        /// Where its range begins: at a stripe.
        offset: u64,
        /// How long it is.
        len_bytes: u64,
    },
    /// It is not done.
    Fault {
        /// What kind of fault.
        kind: FaultKind,
        /// The fact, the limit, what to do.
        text: String,
    },
}

impl Answer {
    /// The answer for an error.
    pub fn fault(error: &FolderError) -> Answer {
        Answer::Fault { kind: error.kind(), text: error.to_string() }
    }

    /// The answer where this program has panicked.
    pub(crate) fn own_fault<T>(_panic: T) -> Answer {
        let text = "a fault of pantile itself, not of yours: nothing was changed but what 'pantile status' shows; please report it with serve.log".into();
        Answer::Fault { kind: FaultKind::System, text }
    }
}

/// How a volume is.
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
    /// In one word.
    pub verdict: Verdict,
    /// What is wrong, in sentences; the worst first.
    pub wrong: Vec<String>,
    /// The same, each with its kind: of them the verdict and every exit status are made.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// What may be lost beyond what is lost.
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
    /// Those of them that cannot be had, because more devices are lost than the log bears.
    pub log_blocks_lost: u64,
    /// Places for stripes in use.
    pub stripes_used: u64,
    /// Places for stripes that are free.
    pub free_stripes: u64,
    /// Stripes of which more is bad than the code can bear.
    pub broken_stripes: u64,
    /// Stripes that wait to be written anew.
    pub suspect_stripes: u64,
    /// Data that are lost or suspect, from the lowest on.
    #[serde(default)]
    pub ranges: Vec<RangeReport>,
    /// What happened, the oldest first.
    #[serde(default)]
    pub events: Vec<EventReport>,
    /// Epochs of delayed parity that are open.
    #[serde(default)]
    pub epochs: Vec<EpochReport>,
    /// Stripes of epochs whose parity was made in vain since the volume was opened.
    #[serde(default)]
    pub wasted_stripes: u64,
    /// The server, if one serves it.
    #[serde(default)]
    pub server: Option<ServerReport>,
    /// Whether it is served to be read only: nothing is written to its devices.
    #[serde(default)]
    pub reads_only: bool,
    /// Whether it could be opened. If not, devices and what is wrong is all that is known, and
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
    /// Its number.
    pub pid: u32,
    /// How long it has served.
    pub up_s: u64,
    /// How many before it have died of a fault of their own since the volume was served.
    pub deaths: u32,
    /// How many before it have died because a client went away, a fault of nbdkit before 1.34; not
    /// among those.
    #[serde(default)]
    pub client_deaths: u32,
    /// Bytes that the volume may have in buffers.
    #[serde(default)]
    pub memory_bytes_max: u64,
    /// Bytes that it has, of those kept for reuse too.
    #[serde(default)]
    pub memory_bytes: u64,
    /// Bytes of memory that the process occupies, with maps, checksums and clients' requests.
    #[serde(default)]
    pub resident_bytes: u64,
    /// Threads of the process, those for clients included.
    #[serde(default)]
    pub threads: u32,
    /// Stripes that it has patched where they lie; none where none may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patched_stripes: Option<u64>,
}

/// A volume in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Nothing is wrong, and nothing was since the volume was opened.
    Clean,
    /// Nothing is wrong now, and a device has erred since the volume was opened.
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
    /// Whether it takes part.
    pub state: DeviceWord,
    /// Stripes that are looked after, while it is rebuilt.
    pub done_stripes: Option<u64>,
    /// Blocks read since the volume was opened.
    pub blocks_read: u64,
    /// Blocks that were not what they should be, since it is this device.
    pub checksum_errors: u64,
    /// Reads that failed, since it is this device.
    pub media_errors: u64,
    /// Its chunks of stripes and blocks of the log that were wrong or unreadable when they were read
    /// last, and that were not written since: the margin counts the device as lost there.
    #[serde(default)]
    pub bad_chunks: u64,
    /// Why it is not there, or what ails it.
    pub problem: Option<String>,
    /// How long its last reads took; none: it has read too little since it came.
    #[serde(default)]
    pub reads: Option<LatencyReport>,
    /// How long its last writes took.
    #[serde(default)]
    pub writes: Option<LatencyReport>,
    /// It has been far slower than the others for half a minute or longer.
    #[serde(default)]
    pub slow: Option<SlowReport>,
    /// The device that takes its place when it is a copy of it.
    #[serde(default)]
    pub replacement: Option<ReplacementReport>,
}

/// How slow a device is, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowReport {
    /// How many times as long as the others it takes for a read.
    pub times_as_long: u32,
    /// Microseconds; half of its reads took less.
    pub median_us: u32,
    /// Seconds for which it has been so.
    pub for_s: u64,
}

/// How long a device took for its last operations of a kind, 16 at the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyReport {
    /// Microseconds; half of them took less.
    pub median_us: u32,
    /// Microseconds of the longest.
    pub worst_us: u32,
}

/// How far the copy of a device is that still works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplacementReport {
    /// The new device.
    pub path: PathBuf,
    /// Bytes copied.
    pub copied_bytes: u64,
    /// Bytes of the whole copy that were read back and are the same.
    #[serde(default)]
    pub verified_bytes: u64,
    /// Of so many.
    pub total_bytes: u64,
    /// Blocks that the old device could not read: they are made of the others when the copy is
    /// whole.
    pub unreadable_blocks: u64,
}

/// Whether a device takes part.
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

/// How far a rebuild is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebuildReport {
    /// Stripes looked after, of the device that is furthest behind.
    pub done_stripes: u64,
    /// Of so many.
    pub total_stripes: u64,
    /// Bytes written to devices a second, of late.
    pub bytes_per_s: u64,
    /// Seconds left at this rate of stripes; none: not known yet.
    pub seconds_left: Option<u64>,
}

/// How far a scrub is, and what it has found, in stripes and in blocks of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubReport {
    /// Looked at.
    pub done: u64,
    /// Of so many.
    pub total: u64,
    /// Whether what is bad is written anew.
    pub repair: bool,
    /// Whether it waits.
    pub paused: bool,
    /// Whether it is not at its end.
    pub running: bool,
    /// Nothing is wrong.
    pub clean: u64,
    /// Blocks are not what their checksums say.
    pub checksum: u64,
    /// Equations do not hold, and one column explains it.
    pub located: u64,
    /// Several columns could explain it.
    pub ambiguous: u64,
    /// No single column explains it.
    pub unlocatable: u64,
    /// Blocks cannot be read, and all that can are what their checksums say.
    #[serde(default)]
    pub unreadable: u64,
    /// Blocks of the log that were looked at, each copy and each parity for itself.
    #[serde(default)]
    pub log_blocks: u64,
    /// Those of them that are not what their checksums say.
    #[serde(default)]
    pub log_checksum: u64,
    /// Those of them that cannot be read.
    #[serde(default)]
    pub log_unreadable: u64,
    /// Devices of which that is bad which says where stripes and log are.
    #[serde(default)]
    pub metadata: Vec<MetadataReport>,
    /// How many those are, also where a restart has forgotten which.
    #[serde(default)]
    pub metadata_devices: u64,
    /// When it began: seconds since 1970; 0: not known.
    #[serde(default)]
    pub begun_at: i64,
    /// When it ended or was stopped; 0: it has not.
    #[serde(default)]
    pub ended_at: i64,
    /// Whether it was stopped before its end.
    #[serde(default)]
    pub stopped: bool,
    /// Stripes that were bad and have been written anew.
    #[serde(default)]
    pub repaired: u64,
    /// Stripes that are bad and could not be made good, or not without a guess.
    #[serde(default)]
    pub left: u64,
}

/// Data that are lost or suspect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeReport {
    /// Where they begin.
    pub offset: u64,
    /// How long they are.
    pub len_bytes: u64,
    /// When that was found: seconds since 1970; 0: not known.
    pub since: i64,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventReport {
    /// When: seconds since 1970; 0: not known.
    pub at: i64,
    /// What, in a sentence.
    pub text: String,
    /// The device, if it is of one.
    pub device: Option<u32>,
}

/// What a scrub has found bad of a device, beside its stripes and its log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetadataReport {
    /// Its slot.
    pub device: u32,
    /// So many of its three superblocks.
    pub superblocks: u32,
    /// A record of the journal that the next opening would replay.
    pub journal: bool,
    /// The maps that the superblock refers to.
    pub snapshot: bool,
    /// The text of a code that no family names.
    pub definition: bool,
}

impl MetadataReport {
    /// What is bad, as one says it: "2 superblocks and the journal".
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
    /// Whether it has found anything that is not as it should be.
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

/// The same with a bound on how long an answer may take, at least a millisecond.
///
/// Errors: as [`order_until`].
pub fn order_within(root: &Path, order: &Order, patience: Duration) -> Result<Option<Answer>, FolderError> {
    order_until(root, order, patience, &|| false)
}

/// The same, until `is_ended`, which is asked ten times a second.
///
/// A link in the place of the socket is refused.
///
/// Errors: `NoAnswer` when the time is over, or `is_ended`; the order may be obeyed all the same.
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

/// How long one read of an answer waits.
const SLICE: Duration = Duration::from_millis(100);

/// Reads a line, or what there is before the other side ends or has said as much as a line may be.
///
/// Errors: `TimedOut` when the whole line is not there in time, however it comes.
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

/// Whether the other side has gone.
fn is_end(error: &std::io::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// Listens on the control socket of a folder that this process has locked.
pub struct ControlServer {
    folder: Dir,
    /// The listening socket once more: shut down, it ends the wait for a connection, whatever has
    /// become of its name.
    listener: UnixStream,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ControlServer {
    /// Begins to listen for orders to `service`. The lock on the folder makes sure that nobody else
    /// does.
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

/// Epochs that a connection has begun and not detached: they end by their policy when it does.
struct Begun<'s> {
    service: &'s Service,
    epochs: Vec<EpochId>,
}

impl Begun<'_> {
    /// Whether one of them has not ended. Cost: a report of the engine.
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

/// Answers orders, line by line, until the other side ends or talks nonsense without an end.
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

/// A line, or what stands before the end of the connection or is as long as a line may be. Where
/// the reader's patience ends it begins anew while `waits`: whoever holds an epoch open writes to
/// it elsewhere, and need not talk here.
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
