//! What the commands on volumes share: the way to a volume, served or not, what a fault means for
//! the exit status, the status text.

use crate::describe::count;
use crate::failure::{Failure, Outcome, Verdict, note};
use crate::interrupt;
use crate::json::OUTPUT_VERSION;
use crate::render::table::Table;
use crate::sets::{self, Versioned};
use crate::terminal::{Terminal, print, print_json};
use anstyle::{AnsiColor, Style};
use pantile_host::{
    Answer, DeviceReport, DeviceWord, DisksReport, FaultKind, Folder, FolderError, Margin, Order, RangeWord,
    Service, StatusReport, Verdict as VolumeVerdict, order, order_until, order_within, when,
};
use pantile_paths::Dir;
use serde::Serialize;
use std::fmt::Write;
use std::fs::{File, TryLockError};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a volume may be between being served and not.
const BETWEEN: Duration = Duration::from_secs(10);

/// What a server says, in the folder. It is locked as long as there is a server, or somebody who
/// starts it again.
pub const SERVE_LOG: &str = "serve.log";

/// Of the log, so many bytes at its end are looked at for that.
const TAIL_BYTES: u64 = 64 << 10;

/// How often progress is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The fault of a run for an error of a volume.
pub fn failure(error: &FolderError) -> Failure {
    fault(error.kind(), error.to_string())
}

pub fn fault(kind: FaultKind, text: String) -> Failure {
    match kind {
        FaultKind::Input => Failure::Input(text),
        FaultKind::System => Failure::System(text),
        FaultKind::Losses => Failure::Losses(text),
    }
}

/// A path that means the same to a server in another directory.
pub fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|error| Failure::file("find", path, &error))
}

/// What a server has for an answer at the least, however little of a wait is left.
const ANSWER_LEAST: Duration = Duration::from_secs(1);

/// What it has where nobody says how long to wait.
const ANSWER_MOST: Duration = Duration::from_secs(60);

/// A volume that orders can be given to.
pub enum Reached {
    /// Another process serves it.
    Served(PathBuf),
    /// It is open in this process, until the command ends.
    Here(Box<Service>),
}

/// Reaches the volume of a folder over its control socket, or opens it here if nobody serves it.
pub fn reach(root: &Path) -> Result<Reached, Failure> {
    reach_within(root, None)
}

/// The same; a server has so long to answer.
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

/// The same to ask for its status only: nothing is written.
pub fn look(root: &Path) -> Result<Reached, Failure> {
    reach_by(root, Service::look)?.map_err(|error| failure(&error))
}

/// The same, and what its folder says of a volume that cannot be opened.
pub fn look_or_survey(root: &Path) -> Result<Result<Reached, (Box<StatusReport>, Failure)>, Failure> {
    let error = match reach_by(root, Service::look)? {
        Ok(reached) => return Ok(Ok(reached)),
        Err(error) => error,
    };
    let folder = Folder::open(root).map_err(|error| failure(&error))?;
    Ok(Err((Box::new(folder.survey(&error)), failure(&error))))
}

/// Errors: the folder could not be had; or, within, the volume could not be opened.
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

/// Whether there is a server, or somebody who is about to start one: not for others to open the
/// volume.
pub fn is_kept(root: &Path) -> bool {
    let log = open_log(root);
    log.is_ok_and(|log| matches!(log.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// The log, to be read, through no link. What is no file there has nobody at its other end, and is
/// not waited for.
fn open_log(root: &Path) -> std::io::Result<File> {
    Dir::open_named(root)?.open_file(SERVE_LOG)
}

/// Waits a moment for a server that does not answer; not for ever.
pub fn between(root: &Path, begun: Instant) -> Result<(), Failure> {
    if begun.elapsed() > BETWEEN {
        return Err(failure(&FolderError::Busy { folder: root.to_path_buf() }));
    }
    std::thread::sleep(LOOK_EVERY / 4);
    Ok(())
}

/// Why the last server ended, if nobody asked it to.
fn ended(root: &Path) -> Option<String> {
    let tail = tail(root)?;
    tail.lines().rev().find_map(|line| line.strip_prefix(pantile_host::ENDED)).map(str::to_owned)
}

/// The end of what the last server said, of which no more is read, however long it is.
pub fn tail(root: &Path) -> Option<String> {
    let mut log = open_log(root).ok()?;
    let len = log.metadata().ok()?.len();
    log.seek(SeekFrom::Start(len.saturating_sub(TAIL_BYTES))).ok()?;
    let mut tail = Vec::new();
    log.take(TAIL_BYTES).read_to_end(&mut tail).ok()?;
    Some(String::from_utf8_lossy(&tail).into_owned())
}

/// Takes a folder; `None` after a moment if another process has it, which may be about to answer.
pub fn take(root: &Path, begun: Instant) -> Result<Option<Folder>, Failure> {
    match Folder::open(root) {
        Ok(folder) => Ok(Some(folder)),
        // A server that starts or ends has the lock and not the socket, for a moment.
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

    /// Gives an order and holds its answer; a fault ends the run.
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

    /// How it is. Who has asked to end waits for that no longer than a server takes that is well.
    pub fn status(&self) -> Result<StatusReport, Failure> {
        self.status_within(if interrupt::asked() { ANSWER_LEAST } else { ANSWER_MOST })
    }

    /// The same; a server has so long to answer, and Ctrl-C ends that.
    fn status_within(&self, patience: Duration) -> Result<StatusReport, Failure> {
        let (what, before) = (Order::Status, interrupt::asked());
        let is_ended = || !before && interrupt::asked();
        status_in(self.order_by(&what, |root| order_until(root, &what, patience, &is_ended))?)
    }

    /// Gives the volume back.
    pub fn end(self) -> Result<(), Failure> {
        match self {
            Reached::Served(_) => Ok(()),
            Reached::Here(service) => service.stop().map_err(|error| failure(&error)),
        }
    }

    /// Waits until `is_done`, showing `line` on standard error; Ctrl-C ends the wait, not the work
    /// of a server. Errors: it is not done when `timeout` is over.
    pub fn wait(
        &self,
        terminal: &Terminal,
        timeout: Option<Duration>,
        is_done: impl Fn(&StatusReport) -> bool,
        line: impl Fn(&StatusReport) -> String,
    ) -> Result<bool, Failure> {
        interrupt::listen();
        let begun = Instant::now();
        let mut shown_at = begun;
        loop {
            let left = timeout.map(|timeout| timeout.saturating_sub(begun.elapsed()));
            let report = match self.status_within(left.unwrap_or(ANSWER_MOST).max(ANSWER_LEAST)) {
                Err(_) if interrupt::asked() => return Ok(false),
                report => report?,
            };
            if is_done(&report) {
                return Ok(true);
            }
            if !report.margin.survives {
                let worst = report.wrong.first().cloned();
                return Err(Failure::Losses(worst.unwrap_or_else(|| "the volume has failed".into())));
            }
            if interrupt::asked() {
                return Ok(false);
            }
            if left.is_some_and(|left| left.is_zero()) {
                let goes_on = match self {
                    Reached::Served(_) => "the server goes on with it, and 'pantile status' shows how far",
                    Reached::Here(_) => "it goes on when the volume is served, or with this command again",
                };
                return Err(Failure::System(format!(
                    "--timeout: not done in {} s ({}); {goes_on}.",
                    begun.elapsed().as_secs(),
                    line(&report)
                )));
            }
            let every = if terminal.progress { Duration::from_secs(1) } else { Duration::from_secs(10) };
            if shown_at.elapsed() >= every {
                crate::failure::note(&line(&report));
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

/// The server says what this command does not know.
pub fn other_version() -> Failure {
    Failure::System("the server is of another version; stop and serve the volume again.".into())
}

/// The answer to an order, in JSON.
#[derive(Serialize)]
pub struct DoneJson<'t> {
    pub output_version: u32,
    pub done: &'t str,
    /// Whether a server did it.
    pub served: bool,
}

/// Prints what an order has led to.
pub fn print_done(text: &str, served: bool, json: bool) -> Outcome {
    match json {
        true => print_json(&DoneJson { output_version: OUTPUT_VERSION, done: text, served })?,
        false => print(&format!("{}\n", sets::name(text)))?,
    }
    Ok(Verdict::Good)
}

/// Gives one order and prints its answer.
pub fn run_order(root: &Path, what: &Order, json: bool) -> Outcome {
    run_order_to(reach(root)?, what, json)
}

/// Puts a device into a volume; into one that cannot be opened only what it lacks.
pub fn replace(root: &Path, device: u32, path: &Path, overwrite: bool, json: bool) -> Outcome {
    let start = |folder| Service::start(folder, None);
    match reach_by(root, start)? {
        Ok(reached) => {
            let what = Order::Replace { device, path: path.to_path_buf(), overwrite };
            let served = reached.is_served();
            let verdict = run_order_to(reached, &what, json)?;
            // One that has failed and is served takes a device back, and may need more.
            let stands = if served { order(root, &Order::Status) } else { Ok(None) };
            match stands {
                Ok(Some(Answer::Status(report))) if !report.margin.survives => Ok(Verdict::Bad),
                _ => Ok(verdict),
            }
        }
        Err(why) if why.kind() == FaultKind::Losses => {
            let mut folder = Folder::open(root).map_err(|error| failure(&error))?;
            folder.bring_back(device, path).map_err(|error| failure(&error))?;
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
    /// Why nobody serves it any more.
    ended: Option<String>,
    #[serde(flatten)]
    report: &'r StatusReport,
}

pub fn print_status(
    root: &Path,
    report: &StatusReport,
    served: bool,
    json: bool,
    terminal: &Terminal,
) -> Outcome {
    let ended = if served { None } else { ended(root) };
    let report = &match &ended {
        Some(why) => report.clone().server_ended(&sets::name(why)),
        None => report.clone(),
    };
    match json {
        true => print_json(&Versioned::new(&StatusJson { served, ended, report }))?,
        false => print(&status_text(report, served, terminal))?,
    }
    outcome(report)
}

/// What a volume that is so means for the exit status.
pub fn outcome(report: &StatusReport) -> Outcome {
    match report.verdict {
        VolumeVerdict::Clean => Ok(Verdict::Good),
        VolumeVerdict::Warned | VolumeVerdict::Degraded => Ok(Verdict::Bad),
        VolumeVerdict::Failed => Err(Failure::Losses(match report.wrong.first() {
            Some(worst) => worst.clone(),
            None => "more is lost than the code can bear; bring devices back".into(),
        })),
    }
}

fn status_text(report: &StatusReport, served: bool, terminal: &Terminal) -> String {
    let (word, colour) = match report.verdict {
        VolumeVerdict::Clean => ("clean", AnsiColor::Green),
        VolumeVerdict::Warned => ("whole, with warnings", AnsiColor::Yellow),
        VolumeVerdict::Degraded => ("degraded", AnsiColor::Yellow),
        VolumeVerdict::Failed => ("failed", AnsiColor::Red),
    };
    let mut out = format!(
        "{}: {}, {}, {}, {} for data, {}{}\n\n",
        terminal.bold(sets::name(&report.name)),
        sets::name(&report.code),
        sets::name(&report.placement),
        sets::name(&report.policy),
        if report.len_bytes > 0 { sets::bytes(report.len_bytes) } else { "unknown".into() },
        terminal.paint(Style::new().bold().fg_color(Some(colour.into())), word),
        match (served, report.reads_only) {
            (true, true) => ", served to be read only",
            (true, false) => ", served",
            (false, _) => ", not served",
        }
    );
    for wrong in &report.wrong {
        let _ = writeln!(out, "{}", sets::name(wrong));
    }
    if report.opens {
        out.push_str(&margin_lines(report));
        out.push_str(&disks_text(&report.disks));
    }
    if let (Some(rebuild), false) = (&report.rebuild, served) {
        let _ = writeln!(
            out,
            "Rebuild: {} of {}; it waits until the volume is served, or for 'pantile rebuild'.",
            rebuild.done_stripes,
            count(rebuild.total_stripes as usize, "stripe")
        );
    } else if let Some(rebuild) = &report.rebuild {
        let left = rebuild
            .seconds_left
            .map_or("time left not known yet".into(), |s| format!("{} left", duration(s)));
        let _ = writeln!(
            out,
            "Rebuild: {} of {}, {}/s, {left}.",
            rebuild.done_stripes,
            count(rebuild.total_stripes as usize, "stripe"),
            sets::bytes(rebuild.bytes_per_s)
        );
    }
    for device in &report.devices {
        let Some(copy) = &device.replacement else { continue };
        let waits =
            if served { "" } else { "; the copy waits until the volume is served, or for 'pantile rebuild'" };
        let _ = writeln!(
            out,
            "Device {} is being replaced by {} and stays until that is a copy of it: {} of {} copied, {} read back{waits}.",
            device.device,
            sets::name(&copy.path.display().to_string()),
            sets::bytes(copy.copied_bytes),
            sets::bytes(copy.total_bytes),
            sets::bytes(copy.verified_bytes)
        );
    }
    if let Some(rate) = report.throttle_bytes_per_s {
        let _ = writeln!(out, "Rebuild and scrub are held to {}/s.", sets::bytes(rate));
    }
    if report.scrub.is_some() {
        let _ = writeln!(out, "{}", scrub_text(report));
    }
    out.push('\n');
    out.push_str(&devices(report, served, terminal));
    for epoch in &report.epochs {
        out.push_str(&crate::commands::delayed::text(epoch));
    }
    if !report.opens {
        return out;
    }
    let _ = writeln!(
        out,
        "\nLog {} of {} rows, {} of {} places for stripes in use, {} blocks not durable yet.",
        report.log_rows_used,
        report.log_rows,
        report.stripes_used,
        report.stripes_used.saturating_add(report.free_stripes),
        report.dirty_blocks
    );
    if let Some(server) = &report.server {
        let _ = writeln!(
            out,
            "{} of {} of memory in use, {} with maps and requests; {} threads.",
            sets::bytes(server.memory_bytes),
            sets::bytes(server.memory_bytes_max),
            sets::bytes(server.resident_bytes),
            server.threads
        );
        if let Some(stripes) = server.patched_stripes {
            let _ = writeln!(
                out,
                "Single blocks go home as patches: {} so far.",
                count(stripes as usize, "stripe")
            );
        }
    }
    out
}

fn margin_lines(report: &StatusReport) -> String {
    let mut out = String::new();
    let _ = write!(out, "{}", margin_text(&report.margin));
    if report.broken_stripes > 0 && report.margin.survives {
        let _ = write!(out, " That is true of the other stripes only: those that have lost data stay so.");
    }
    out.push('\n');
    let next_survives = report.margin.next.as_ref().is_none_or(|next| next.survived > 0);
    if report.margin.log_any_more == Some(report.margin.any_more) && report.margin.survives && next_survives {
        let _ = writeln!(
            out,
            "The {} in the log {} the loss of no more than that for certain.",
            count(report.log_blocks as usize, "block"),
            if report.log_blocks == 1 { "survives" } else { "survive" }
        );
    }
    out
}

/// Says what disks that hold several devices cost; nothing if there are none.
pub fn disks_text(disks: &DisksReport) -> String {
    let shared = || disks.disks.iter().filter(|disk| disk.devices.len() > 1);
    if shared().next().is_none() {
        return String::new();
    }
    let mut out = String::new();
    if disks.disks.len() > 1 {
        let counted = disks.losses.iter().map(|losses| {
            let sets = match losses.disks {
                1 => "single disks".to_string(),
                2 => "pairs of disks".to_string(),
                more => format!("sets of {more} disks"),
            };
            format!("{} of {} {sets}", losses.survived, losses.sets)
        });
        let counted: Vec<String> = counted.collect();
        let _ = writeln!(
            out,
            "The devices are on {}; can fail: {}.",
            count(disks.disks.len(), "disk"),
            counted.join(", ")
        );
    }
    if let Some(warning) = &disks.warning {
        let _ = writeln!(out, "{}", sets::name(warning));
    }
    out
}

fn devices(report: &StatusReport, served: bool, terminal: &Terminal) -> String {
    let rebuilding = if served { "rebuilding" } else { "waits" };
    let mut table = Table::new(&[">device", "state", ">read", ">wrong", ">failed", ">a read takes", "path"]);
    let state = |device: &DeviceReport| match (device.state, &report.rebuild) {
        (DeviceWord::Present, _) if !report.opens => "here".to_string(),
        (DeviceWord::Present, _) => "present".to_string(),
        (DeviceWord::Lost, _) => "lost".to_string(),
        (DeviceWord::Rebuilding, Some(rebuild)) => {
            let done = device.done_stripes.unwrap_or(0).saturating_mul(100) / rebuild.total_stripes.max(1);
            format!("{rebuilding}, {done} %")
        }
        (DeviceWord::Rebuilding, None) => rebuilding.to_string(),
    };
    let number = |number: u64| if report.opens { number.to_string() } else { "-".into() };
    for device in &report.devices {
        table.row(vec![
            device.device.to_string(),
            state(device),
            number(device.blocks_read),
            number(device.checksum_errors),
            number(device.media_errors),
            device.reads.map_or("-".into(), |reads| format!("{:.1} ms", f64::from(reads.median_us) / 1000.0)),
            device.path.as_ref().map_or("-".into(), |path| sets::name(&path.to_string_lossy())),
        ]);
    }
    for spare in &report.spares {
        let mut row = vec![String::from("-"), "spare".into()];
        row.extend(["-", "-", "-", "-"].map(String::from));
        row.push(sets::name(&spare.to_string_lossy()));
        table.row(row);
    }
    table.render(terminal)
}

/// How much more may be lost: the first thing to know at three in the morning.
pub fn margin_text(margin: &Margin) -> String {
    if !margin.survives {
        return "What is lost now is more than the code can bear.".into();
    }
    let mut text = match margin.any_more {
        0 if margin.next.is_none() => "No further device may fail for certain".to_string(),
        0 => "It depends on which device fails next".to_string(),
        1 => "Any 1 more device may fail".to_string(),
        more => format!("Any {more} more devices may fail"),
    };
    let Some(next) = &margin.next else { return text + "." };
    let sets = match next.devices {
        1 => "single devices".to_string(),
        2 => "pairs".to_string(),
        3 => "triples".to_string(),
        devices => format!("sets of {devices}"),
    };
    if next.survived == 0 && margin.any_more == 0 {
        return "No further device may fail.".into();
    }
    if next.survived == 0 {
        let _ = write!(text, "; none of the {} {sets} may.", next.sets);
        return text;
    }
    let fatal = next.sets.saturating_sub(next.survived);
    let columns = |set: &Vec<u32>| describe_set(set);
    let named: Vec<String> = next.fatal.iter().map(columns).collect();
    let more = match (fatal as usize).saturating_sub(named.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let kill = if fatal == 1 { "this one kills it" } else { "these kill it" };
    let _ =
        write!(text, "; {} of {} {sets} may; {kill}: {}{more}.", next.survived, next.sets, named.join(" "));
    text
}

fn describe_set(set: &[u32]) -> String {
    let set: Vec<usize> = set.iter().map(|&device| device as usize).collect();
    crate::describe::set(&set)
}

/// How far a scrub is, and what it has found.
pub fn scrub_text(report: &StatusReport) -> String {
    let Some(scrub) = &report.scrub else { return "No scrub has been begun.".into() };
    let how = match (scrub.running, scrub.paused) {
        (true, true) => "waits at",
        (true, false) => "is at",
        (false, _) if scrub.stopped => "was stopped at",
        (false, _) => "ended at",
    };
    let stripes = |number: u64, word: &str| {
        (number > 0).then(|| format!("{} {word}", count(number as usize, "stripe")))
    };
    let found = [
        stripes(scrub.clean, "clean"),
        stripes(scrub.checksum, "with wrong checksums"),
        stripes(scrub.unreadable, "with blocks that cannot be read"),
        stripes(scrub.located, "wrong in one place that the equations name"),
        stripes(scrub.ambiguous, "wrong in a place that is not certain"),
        stripes(scrub.unlocatable, "wrong in a place that cannot be told"),
    ];
    let found: Vec<String> = found.into_iter().flatten().collect();
    let found = if found.is_empty() { String::new() } else { format!(": {}", found.join(", ")) };
    let of_log =
        [(scrub.log_checksum, "with wrong checksums"), (scrub.log_unreadable, "that cannot be read")];
    let of_log: Vec<String> = (of_log.into_iter())
        .filter(|&(number, _)| number > 0)
        .map(|(number, word)| format!("{number} {word}"))
        .collect();
    let log = match (scrub.log_blocks, &of_log[..]) {
        (0, _) => String::new(),
        (blocks, []) => format!("; {} in the log, all good", count(blocks as usize, "block")),
        (blocks, bad) => format!("; {} in the log: {}", count(blocks as usize, "block"), bad.join(", ")),
    };
    let metadata: String = (scrub.metadata.iter())
        .map(|bad| format!("; bad of device {}: {}", bad.device, bad.what()))
        .collect();
    let repair = if scrub.repair { ", with repair," } else { "" };
    let of = match scrub.begun_at {
        0 => String::new(),
        at => format!(" of {}", when(at)),
    };
    let mended = match (scrub.repair, scrub.repaired, scrub.left) {
        (false, ..) | (true, 0, 0) => String::new(),
        (true, repaired, 0) => format!(" Repaired: {}.", count(repaired as usize, "stripe")),
        (true, repaired, left) => format!(
            " Repaired: {}; {} could not be: 'pantile status --lost' says which data are lost still.",
            count(repaired as usize, "stripe"),
            count(left as usize, "stripe")
        ),
    };
    format!(
        "The scrub{of}{repair} {how} {} of {}{found}{log}{metadata}.{mended}",
        scrub.done,
        count(scrub.total as usize, "stripe")
    )
}

/// Which data are lost or suspect, a range a line.
pub fn ranges_text(report: &StatusReport) -> String {
    if report.ranges.is_empty() {
        return match report.broken_stripes {
            0 => "No data are known to be lost or suspect.\n".into(),
            stripes => format!(
                "{} have lost data, and it is not known which: scrub with --repair, or read all of it.\n",
                count(stripes as usize, "stripe")
            ),
        };
    }
    let mut out = String::new();
    for range in &report.ranges {
        let what = match range.is {
            RangeWord::Lost => "lost",
            RangeWord::Suspect => "suspect",
        };
        let _ = writeln!(out, "{}+{}  {what} since {}", range.offset, range.len_bytes, when(range.since));
    }
    out
}

fn duration(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantile_host::{MetadataReport, NextLoss, ScrubReport};

    #[test]
    fn a_scrub_tells_stripes_from_the_log() {
        let scrub = ScrubReport {
            done: 171,
            total: 171,
            repair: false,
            paused: false,
            running: false,
            clean: 169,
            checksum: 1,
            located: 0,
            ambiguous: 0,
            unlocatable: 0,
            unreadable: 1,
            log_blocks: 738,
            log_checksum: 246,
            log_unreadable: 3,
            ..ScrubReport::default()
        };
        let text =
            |scrub: ScrubReport| scrub_text(&StatusReport { scrub: Some(scrub), ..StatusReport::default() });
        assert_eq!(
            text(scrub.clone()),
            "The scrub ended at 171 of 171 stripes: 169 stripes clean, 1 stripe with wrong checksums, 1 stripe with blocks that cannot be read; \
             738 blocks in the log: 246 with wrong checksums, 3 that cannot be read."
        );
        let bad =
            MetadataReport { device: 2, superblocks: 3, journal: true, snapshot: false, definition: false };
        let with_bad = ScrubReport { metadata: vec![bad], ..scrub.clone() };
        assert!(text(with_bad).ends_with("cannot be read; bad of device 2: 3 superblocks and the journal."));
        let sound = ScrubReport { checksum: 0, unreadable: 0, log_checksum: 0, log_unreadable: 0, ..scrub };
        assert!(text(sound).ends_with("; 738 blocks in the log, all good."));
    }

    /// Whoever answers at the socket of a volume's folder may be anybody, and answer anything.
    #[test]
    fn what_a_strangers_server_answers_is_shown_and_not_obeyed() {
        let strange = || String::from("\x1b[31m\x1b]0;owned\x07\n");
        let next = NextLoss { devices: u32::MAX, sets: 0, survived: u64::MAX, fatal: vec![vec![0]] };
        let next = Some(next);
        let margin = Margin { lost: vec![1], survives: true, any_more: 1, log_any_more: Some(1), next };
        let report = StatusReport {
            name: strange(),
            code: strange(),
            placement: strange(),
            policy: strange(),
            wrong: vec![strange()],
            spares: vec![strange().into()],
            opens: true,
            margin,
            stripes_used: u64::MAX,
            free_stripes: u64::MAX,
            log_blocks: 1,
            ..StatusReport::default()
        };
        let terminal = Terminal { colour: false, width: 100, progress: false };
        let text = status_text(&report, true, &terminal);
        assert!(!text.contains(['\x1b', '\x07']), "{text:?}");
        assert_eq!(text.matches("\\u{1b}[31m\\u{1b}]0;owned\\u{7}\\n").count(), 6, "{text:?}");
    }

    /// A stranger's folder could name any file as its log, to be read or locked for a moment.
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
    }

    #[test]
    fn the_margin_is_said_as_an_operator_wants_it() {
        let next = |devices, sets, survived, fatal| Some(NextLoss { devices, sets, survived, fatal });
        let log_any_more = None;
        let margin = |any_more, next| Margin { lost: vec![], survives: true, any_more, log_any_more, next };
        assert_eq!(
            margin_text(&margin(1, next(2, 21, 17, vec![vec![0, 1], vec![2, 3], vec![4, 5], vec![1, 6]]))),
            "Any 1 more device may fail; 17 of 21 pairs may; these kill it: {0,1} {2,3} {4,5} {1,6}."
        );
        assert_eq!(
            margin_text(&margin(2, next(3, 20, 0, vec![]))),
            "Any 2 more devices may fail; none of the 20 triples may."
        );
        assert_eq!(margin_text(&margin(4, None)), "Any 4 more devices may fail.");
        let gone = Margin { lost: vec![1], survives: false, any_more: 0, log_any_more, next: None };
        assert!(margin_text(&gone).contains("more than the code can bear"));
    }
}
