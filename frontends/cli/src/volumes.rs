//! Shared parts of the commands on volumes: access to a volume, served or not, exit statuses of
//! faults, the status text.

mod text;

use crate::failure::{Failure, Outcome, Verdict, note};
use crate::interrupt;
use crate::json::OUTPUT_VERSION;
use crate::machine::smart::{DiskSmart, of_disks};
use crate::progress::Last;
use crate::sets::{self, Versioned};
use crate::terminal::{Terminal, print, print_json};
use crate::typed;
use pantile_host::{
    Answer, FaultKind, Folder, FolderError, Order, Service, StatusReport, Verdict as VolumeVerdict,
    absolute_path, order, order_until, order_within,
};
use pantile_paths::Dir;
use serde::Serialize;
use std::fs::{File, TryLockError};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use text::{Seen, status_text};
pub use text::{disks_text, margin_text, next_step, ranges_text, scrub_text, under_way_text, used_text};

/// Longest time in which a server can be starting or ending.
const BETWEEN: Duration = Duration::from_secs(10);

/// Name of the server's log in the folder. It is locked while a server runs or is about to be
/// started again.
pub const SERVE_LOG: &str = "serve.log";

/// Begins the first line of the log: the URI at which the volume is served.
pub const SERVES_AT: &str = "pantile-uri ";

/// Longest first line.
const URI_BYTES_MAX: u64 = 16 << 10;

/// Length of the end of the log that is searched for the reason of an end.
const TAIL_BYTES: u64 = 64 << 10;

/// Time between two checks of progress.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The file that makes a folder that of a volume.
const CONFIG: &str = "volume.conf";

/// True if a path is the folder of a volume.
pub fn is_volume(path: &Path) -> bool {
    path.join(CONFIG).is_file()
}

/// Returns the failure of a run for an error of a volume.
pub fn failure(error: &FolderError) -> Failure {
    let instead = match error {
        FolderError::NotAVolume { folder } => instead_of_volume(folder),
        FolderError::NotEmpty { folder } => of_full_folder(folder),
        _ => None,
    };
    instead.map_or_else(|| fault(error.kind(), error.to_string()), Failure::Input)
}

/// Describes a path that was named as a volume and is none.
fn instead_of_volume(path: &Path) -> Option<String> {
    let (name, word) = (sets::name(&path.to_string_lossy()), sets::quoted(path));
    if !path.exists() {
        return Some(format!(
            "{name} does not exist, and is not the folder of a volume; make one with 'pantile create {word} DEVICE...'"
        ));
    }
    if typed::holds_shards(path) {
        return Some(format!(
            "{name} is a sealed set, not a volume; look at it with 'pantile verify {word}'"
        ));
    }
    let above = path.parent().filter(|above| is_volume(above));
    match (path.is_dir(), above) {
        (false, Some(above)) => Some(format!(
            "{name} is a file of the volume in {}; name that folder",
            sets::name(&above.to_string_lossy())
        )),
        (false, None) => Some(format!(
            "{name} is not the folder of a volume, which the commands 'create' and 'assemble' make"
        )),
        (true, _) => None,
    }
}

/// Describes the obstacle to a new volume in a folder.
fn of_full_folder(path: &Path) -> Option<String> {
    let (name, word) = (sets::name(&path.to_string_lossy()), sets::quoted(path));
    is_volume(path)
        .then(|| format!("{name} is not empty, it is a volume ('pantile status {word}'); name a new folder"))
}

pub fn fault(kind: FaultKind, text: String) -> Failure {
    match kind {
        FaultKind::Input => Failure::Input(text),
        FaultKind::System => Failure::System(text),
        FaultKind::Losses => Failure::Losses(text),
    }
}

/// Returns a path that a server in another directory can use.
pub fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    absolute_path(path).map_err(|error| Failure::file("find", path, &error))
}

/// Shortest wait for a server's answer, however little time is left.
const ANSWER_LEAST: Duration = Duration::from_secs(1);

/// The time in which a device that came back counts again: it does when a record says so.
const RECORDED_WITHIN: Duration = Duration::from_secs(5);

/// Wait for a server's answer if no time is given.
const ANSWER_MOST: Duration = Duration::from_secs(60);

/// A volume that accepts orders.
pub enum Reached {
    /// Served by another process.
    Served(PathBuf),
    /// Open in this process until the command ends.
    Here(Box<Service>),
}

/// Returns the status of a volume, or the survey of one that cannot be opened; and if it is served.
pub fn status_or_survey(root: &Path) -> Result<(Box<StatusReport>, bool), Failure> {
    let reached = match look_or_survey(root)? {
        Ok(reached) => reached,
        Err((survey, _)) => return Ok((survey, false)),
    };
    let (report, served) = (reached.status(), reached.is_served());
    reached.end()?;
    Ok((Box::new(report?), served))
}

/// Reaches the volume of a folder over its control socket, or opens it here if it is not served.
pub fn reach(root: &Path) -> Result<Reached, Failure> {
    reach_within(root, None)
}

/// Reaches a volume as `reach` does; a server must answer within `patience`.
pub fn reach_within(root: &Path, patience: Option<Duration>) -> Result<Reached, Failure> {
    if let Some(patience) = patience {
        order_within(root, &Order::Status, patience).map_err(|error| failure(&error))?;
    }
    let start = |folder: Folder| {
        folder.warning().iter().for_each(|warning| note(warning));
        Service::start(folder, None)
    };
    reach_by(root, start)?.map_err(|error| failure(&error))
}

/// Reaches a volume only to read its status: nothing is written.
pub fn look(root: &Path) -> Result<Reached, Failure> {
    reach_by(root, Service::look)?.map_err(|error| failure(&error))
}

/// Reaches a volume as `look` does; if it cannot be opened, returns the survey of its folder and
/// the reason.
pub fn look_or_survey(root: &Path) -> Result<Result<Reached, (Box<StatusReport>, Failure)>, Failure> {
    let error = match reach_by(root, Service::look)? {
        Ok(reached) => return Ok(Ok(reached)),
        Err(error) => error,
    };
    let folder = Folder::open(root).map_err(|error| failure(&error))?;
    Ok(Err((Box::new(folder.survey(&error)), failure(&error))))
}

/// Reaches a volume, opened by `open` if it is not served. Errors: outer: the folder cannot be
/// used; inner: the volume cannot be opened.
fn reach_by(
    root: &Path,
    open: impl Fn(Folder) -> Result<Service, FolderError>,
) -> Result<Result<Reached, FolderError>, Failure> {
    let begun = Instant::now();
    loop {
        if order(root, &Order::Status).map_err(|error| failure(&error))?.is_some() {
            return Ok(Ok(Reached::Served(root.to_path_buf())));
        }
        if is_kept(root) {
            between(root, begun)?;
            continue;
        }
        if let Some(folder) = take(root, begun)? {
            return Ok(open(folder).map(|service| Reached::Here(Box::new(service))));
        }
    }
}

/// True if a server runs or is about to be started, so that no other process may open the volume.
pub fn is_kept(root: &Path) -> bool {
    let log = open_log(root);
    log.is_ok_and(|log| matches!(log.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Opens the log for reading, following no link. Anything but a regular file is refused, so that
/// opening it never blocks.
fn open_log(root: &Path) -> std::io::Result<File> {
    Dir::open_named(root)?.open_file(SERVE_LOG)
}

/// Waits a moment for a server that does not answer. Errors: `Busy` after [`BETWEEN`].
pub fn between(root: &Path, begun: Instant) -> Result<(), Failure> {
    if begun.elapsed() > BETWEEN {
        return Err(failure(&FolderError::Busy { folder: root.to_path_buf() }));
    }
    std::thread::sleep(LOOK_EVERY / 4);
    Ok(())
}

/// Returns the reason why the last server ended, unless it was asked to.
fn ended(root: &Path) -> Option<String> {
    let tail = tail(root)?;
    tail.lines().rev().find_map(|line| line.strip_prefix(pantile_host::ENDED)).map(str::to_owned)
}

/// Returns the last [`TAIL_BYTES`] of the server's log.
pub fn tail(root: &Path) -> Option<String> {
    let mut log = open_log(root).ok()?;
    let len = log.metadata().ok()?.len();
    log.seek(SeekFrom::Start(len.saturating_sub(TAIL_BYTES))).ok()?;
    let mut tail = Vec::new();
    log.take(TAIL_BYTES).read_to_end(&mut tail).ok()?;
    Some(String::from_utf8_lossy(&tail).into_owned())
}

/// Returns the URI of the last server, if its log has it.
pub fn uri(root: &Path) -> Option<String> {
    let mut head = Vec::new();
    open_log(root).ok()?.take(URI_BYTES_MAX).read_to_end(&mut head).ok()?;
    let head = String::from_utf8_lossy(&head);
    let uri = head.lines().next()?.strip_prefix(SERVES_AT)?;
    Some(sets::name(uri))
}

/// Opens a folder. `None` after a moment if another process holds it, which may soon answer.
pub fn take(root: &Path, begun: Instant) -> Result<Option<Folder>, Failure> {
    match Folder::open(root) {
        Ok(folder) => Ok(Some(folder)),
        // A server that starts or ends holds the lock, but not the socket, for a moment.
        Err(FolderError::Busy { .. }) if begun.elapsed() < BETWEEN => {
            std::thread::sleep(LOOK_EVERY / 4);
            Ok(None)
        }
        Err(error) => Err(failure(&error)),
    }
}

impl Reached {
    pub fn is_served(&self) -> bool {
        matches!(self, Reached::Served(_))
    }

    /// Sends an order and returns the answer; a fault ends the run.
    pub fn order(&self, what: &Order) -> Result<Answer, Failure> {
        self.order_by(what, |root| order(root, what))
    }

    fn order_by(
        &self,
        what: &Order,
        ask: impl Fn(&Path) -> Result<Option<Answer>, FolderError>,
    ) -> Result<Answer, Failure> {
        let answer = match self {
            Reached::Here(service) => service.obey(what),
            Reached::Served(root) => match ask(root).map_err(|error| failure(&error))? {
                Some(answer) => answer,
                None => return Err(Failure::System("the server has ended meanwhile; try again.".into())),
            },
        };
        match answer {
            Answer::Fault { kind, text } => Err(fault(kind, text)),
            answer => Ok(answer),
        }
    }

    /// Returns the status. After Ctrl-C the wait is limited to the time that a healthy server
    /// needs.
    pub fn status(&self) -> Result<StatusReport, Failure> {
        self.status_within(if interrupt::asked() { ANSWER_LEAST } else { ANSWER_MOST })
    }

    /// Returns the status; a server must answer within `patience`, and Ctrl-C ends the wait.
    fn status_within(&self, patience: Duration) -> Result<StatusReport, Failure> {
        let (what, before) = (Order::Status, interrupt::asked());
        let is_ended = || !before && interrupt::asked();
        status_in(self.order_by(&what, |root| order_until(root, &what, patience, &is_ended))?)
    }

    /// Closes the volume if it is open here.
    pub fn end(self) -> Result<(), Failure> {
        match self {
            Reached::Served(_) => Ok(()),
            Reached::Here(service) => service.stop().map_err(|error| failure(&error)),
        }
    }

    /// Waits until `is_done`, showing `line` on standard error; Ctrl-C ends the wait, not the work
    /// of a server. Errors: `timeout` is over first.
    pub fn wait(
        &self,
        terminal: &Terminal,
        timeout: Option<Duration>,
        is_done: impl Fn(&StatusReport) -> bool,
        line: impl Fn(&StatusReport) -> String,
    ) -> Result<bool, Failure> {
        interrupt::listen();
        let begun = Instant::now();
        let (mut shown_at, mut last, mut lost_since) = (begun, Last::default(), None::<Instant>);
        loop {
            let left = timeout.map(|timeout| timeout.saturating_sub(begun.elapsed()));
            let report = match self.status_within(left.unwrap_or(ANSWER_MOST).max(ANSWER_LEAST)) {
                Err(_) if interrupt::asked() => return Ok(false),
                report => report?,
            };
            if is_done(&report) {
                return Ok(true);
            }
            lost_since = match report.margin.survives {
                true => None,
                false => lost_since.or_else(|| Some(Instant::now())),
            };
            if lost_since.is_some_and(|since| since.elapsed() >= RECORDED_WITHIN) {
                let worst = report.wrong.first().cloned();
                return Err(Failure::Losses(worst.unwrap_or_else(|| "the volume has failed".into())));
            }
            if interrupt::asked() {
                return Ok(false);
            }
            if left.is_some_and(|left| left.is_zero()) {
                let goes_on = match self {
                    Reached::Served(root) => {
                        let vol = sets::quoted(root);
                        format!("the server goes on with it, and 'pantile status {vol}' shows how far")
                    }
                    Reached::Here(_) => {
                        "it goes on when the volume is served, or with this command again".to_string()
                    }
                };
                return Err(Failure::System(format!(
                    "--timeout: not done in {} s ({}); {goes_on}.",
                    begun.elapsed().as_secs(),
                    line(&report)
                )));
            }
            let every = if terminal.progress { Duration::from_secs(1) } else { Duration::from_secs(10) };
            if shown_at.elapsed() >= every {
                let line = line(&report);
                last.is_new(&line).then(|| note(&line));
                shown_at = Instant::now();
            }
            if let Reached::Here(service) = self {
                service.look_after();
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

fn status_in(answer: Answer) -> Result<StatusReport, Failure> {
    match answer {
        Answer::Status(report) => Ok(*report),
        _ => Err(other_version()),
    }
}

/// Returns the failure for an answer of the server that this command does not know.
pub fn other_version() -> Failure {
    Failure::System("the server is of another version; stop and serve the volume again.".into())
}

/// The answer to an order, in JSON.
#[derive(Serialize)]
pub struct DoneJson<'t> {
    pub output_version: u32,
    pub done: &'t str,
    /// True if a server carried out the order.
    pub served: bool,
}

/// Prints the result of an order.
pub fn print_done(text: &str, served: bool, json: bool) -> Outcome {
    match json {
        true => print_json(&DoneJson { output_version: OUTPUT_VERSION, done: text, served })?,
        false => print(&format!("{}\n", sets::name(text)))?,
    }
    Ok(Verdict::Good)
}

/// Sends one order and prints its answer.
pub fn run_order(root: &Path, what: &Order, json: bool) -> Outcome {
    run_order_to(reach(root)?, what, json)
}

/// Puts a device into a volume. A volume that cannot be opened accepts only a device that it lacks.
pub fn replace(root: &Path, device: u32, path: &Path, overwrite: bool, json: bool) -> Outcome {
    let start = |folder| Service::start(folder, None);
    match reach_by(root, start)? {
        Ok(reached) => {
            let what = Order::Replace { device, path: path.to_path_buf(), overwrite };
            let served = reached.is_served();
            let verdict = run_order_to(reached, &what, json)?;
            // A failed volume that is still served takes a device back, and may need more of them.
            let stands = if served { order(root, &Order::Status) } else { Ok(None) };
            match stands {
                Ok(Some(Answer::Status(report))) if !report.margin.survives => Ok(Verdict::Bad),
                _ => Ok(verdict),
            }
        }
        Err(why) if why.kind() == FaultKind::Losses => {
            let mut folder = Folder::open(root).map_err(|error| failure(&error))?;
            let vol = sets::quoted(root);
            folder.bring_back(device, path).map_err(|error| fault(error.kind(), error.text_of(&vol)))?;
            drop(folder);
            let is = format!("{} is device {device} again.", path.display());
            match reach_by(root, start)? {
                Ok(reached) => {
                    reached.end()?;
                    print_done(&format!("{is} The volume can be opened again; serve it."), false, json)
                }
                Err(why) => {
                    print_done(&format!("{is} The volume still cannot be opened: {why}."), false, json)?;
                    Ok(Verdict::Bad)
                }
            }
        }
        Err(why) => Err(failure(&why)),
    }
}

fn run_order_to(reached: Reached, what: &Order, json: bool) -> Outcome {
    let answer = reached.order(what);
    let served = reached.is_served();
    let ended = reached.end();
    let text = match answer? {
        Answer::Done { text } => text,
        _ => {
            return Err(Failure::System(
                "the server is of another version; stop and serve the volume again.".into(),
            ));
        }
    };
    ended?;
    print_done(&text, served, json)
}

#[derive(Serialize)]
struct StatusJson<'r> {
    served: bool,
    /// URI of the server, if its log has it.
    uri: Option<String>,
    /// Reason why it is not served any more.
    ended: Option<String>,
    #[serde(flatten)]
    report: &'r StatusReport,
    /// The health of its disks, where smartctl can read it.
    smart: &'r [DiskSmart],
}

pub fn print_status(
    root: &Path,
    report: &StatusReport,
    served: bool,
    json: bool,
    terminal: &Terminal,
) -> Outcome {
    let ended = if served { None } else { ended(root) };
    let uri = if served { uri(root) } else { None };
    let report = &match &ended {
        Some(why) => report.clone().server_ended(&sets::name(why), &sets::quoted(root)),
        None => report.clone(),
    };
    let smart = &of_disks(&report.disks.disks);
    match json {
        true => print_json(&Versioned::new(&StatusJson { served, uri, ended, report, smart }))?,
        false => {
            let seen = Seen { root, served, uri: uri.as_deref(), smart };
            print(&status_text(report, seen, terminal))?;
        }
    }
    outcome(report)
}

/// Returns the exit status for the verdict of a volume.
pub fn outcome(report: &StatusReport) -> Outcome {
    match report.verdict {
        VolumeVerdict::Clean => Ok(Verdict::Good),
        VolumeVerdict::Warned | VolumeVerdict::Degraded => Ok(Verdict::Bad),
        VolumeVerdict::Failed => Err(Failure::Losses(match report.wrong.first() {
            Some(worst) => worst.clone(),
            None => "more is lost than the code tolerates; bring devices back".into(),
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A volume folder of an attacker can name any file as its log, to be read or locked for a
    /// moment.
    #[test]
    fn a_log_that_is_a_link_is_not_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let (secret, log) = (folder.path().join("secret"), folder.path().join(SERVE_LOG));
        std::fs::write(&secret, format!("{}secret\n", pantile_host::ENDED)).expect("it writes");
        let held = File::open(&secret).expect("it opens");
        held.lock().expect("it locks");
        std::os::unix::fs::symlink(&secret, &log).expect("a link");
        assert_eq!((ended(folder.path()), is_kept(folder.path())), (None, false));
        std::fs::remove_file(&log).expect("it goes");
        std::fs::rename(&secret, &log).expect("it is moved");
        assert_eq!((ended(folder.path()), is_kept(folder.path())), (Some("secret".into()), true));
        assert_eq!(uri(folder.path()), None, "its first line is no address");
        std::fs::write(&log, format!("{SERVES_AT}nbd://h\x1b[2J:1\nmore\n")).expect("it writes");
        assert_eq!(uri(folder.path()).as_deref(), Some("nbd://h\\u{1b}[2J:1"));
    }
}
