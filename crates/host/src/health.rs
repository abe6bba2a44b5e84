//! Findings: problems of a volume as data. Text, JSON, the verdict and every exit status follow
//! from them.

use crate::Config;
use crate::config::Former;
use crate::control::{
    DeviceReport, DeviceWord, EventReport, RangeReport, ScrubReport, ServerReport, StatusReport, Verdict,
};
use crate::memory::BLOCK;
use pantile_device::path_in;
use pantile_format::volume::{Claim, Claimant};
use pantile_volume::{DeviceNote, EventKind, EventNote, RangeNote, Reason};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A problem of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Its kind.
    pub kind: FindingKind,
    /// The verdict that it causes.
    pub verdict: Verdict,
    /// The device that it concerns, if any.
    pub device: Option<u32>,
    /// A sentence about it.
    pub text: String,
}

/// Kinds of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// The volume cannot be opened.
    DoesNotOpen,
    /// More devices are lost than the code tolerates.
    TooManyLost,
    /// Blocks in the log are lost.
    LogLost,
    /// Data are lost permanently, or until a device comes back.
    DataLost,
    /// Writes wait for space.
    NoRoom,
    /// A device is lost.
    DeviceLost,
    /// A device is being rebuilt.
    DeviceRebuilding,
    /// A device is in use and has a problem.
    DeviceInTrouble,
    /// Stripes wait for repair.
    StripesWait,
    /// A scrub has found errors that are not repaired.
    ScrubFound,
    /// A device is far slower than the others.
    DeviceSlow,
    /// The copy of a device that was to be replaced has failed.
    CopyFailed,
    /// Some of a device's content is known to be bad, and counts as lost.
    DeviceBad,
    /// A device has returned wrong blocks or failed reads.
    DeviceErred,
    /// A spare cannot be used.
    SpareUnusable,
    /// The server died and was restarted.
    ServerDied,
    /// The server has ended without an order.
    ServerEnded,
    /// Another server, on any host, serves the volume by another path, or may do so.
    ServedElsewhere,
    /// The past events are lost.
    HistoryLost,
    /// A part of the server panicked and was restarted.
    Mishap,
}

impl Finding {
    pub(crate) fn new(kind: FindingKind, verdict: Verdict, text: String) -> Finding {
        Finding { kind, verdict, device: None, text }
    }

    pub(crate) fn of(kind: FindingKind, verdict: Verdict, device: u32, text: String) -> Finding {
        Finding { device: Some(device), ..Finding::new(kind, verdict, text) }
    }
}

impl StatusReport {
    /// Adds findings to the report, the worst first, otherwise in their order.
    pub(crate) fn judged(mut self, findings: Vec<Finding>) -> StatusReport {
        self.verdict = findings.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::Clean);
        self.wrong = findings.iter().map(|finding| finding.text.clone()).collect();
        self.findings = findings;
        self
    }

    /// True if the report has a finding of this kind.
    pub fn has(&self, kind: FindingKind) -> bool {
        self.findings.iter().any(|finding| finding.kind == kind)
    }

    /// Adds the finding that the last server ended without an order and no server runs. `vol`: the
    /// folder in shell syntax.
    pub fn server_ended(self, why: &str, vol: &str) -> StatusReport {
        let text = format!(
            "The last server was not stopped: {why} What was not flushed then is lost; serve.log says more, 'pantile serve {vol}' starts another."
        );
        let ended = Finding::new(FindingKind::ServerEnded, Verdict::Warned, text);
        let mut findings = self.findings.clone();
        // The reason from the log is more exact than the finding from the claims.
        findings.retain(|finding| finding.kind != FindingKind::ServerEnded);
        let before = findings.iter().position(|finding| finding.verdict <= Verdict::Warned);
        findings.insert(before.unwrap_or(findings.len()), ended);
        self.judged(findings)
    }
}

/// Returns the finding for a part of the server that was restarted after a panic.
pub(crate) fn of_mishap(text: String) -> Finding {
    Finding::new(FindingKind::Mishap, Verdict::Warned, text)
}

/// Returns the finding for a claim that was not given back although the volume is not served here.
pub(crate) fn of_claim(serves: Option<bool>, claim: &Claim, vol: &str) -> Finding {
    let Claimant { host, process, .. } = &claim.claimant;
    let who = format!("process {process} on host '{host}'");
    let (kind, text) = match serves {
        Some(true) => (
            FindingKind::ServedElsewhere,
            format!("The volume is served by {who}, which reaches the same devices by another path."),
        ),
        Some(false) => (
            FindingKind::ServerEnded,
            format!(
                "The last server, {who}, was not stopped in order: unflushed writes are lost; 'pantile serve {vol}' starts another."
            ),
        ),
        None => (
            FindingKind::ServedElsewhere,
            format!(
                "The volume was claimed by {who} {} and not given back: it may be served there still. Opening it takes 5 s, in which the claim is watched.",
                when(claim.at)
            ),
        ),
    };
    Finding::new(kind, Verdict::Warned, text)
}

/// Returns a sentence about lost devices. `vol`: the volume in shell syntax.
pub fn of_lost(lost: &[u32], vol: &str) -> String {
    let numbers: Vec<String> = lost.iter().map(u32::to_string).collect();
    let are = match lost {
        [_] => format!("Device {} is lost", numbers[0]),
        _ => format!("Devices {} are lost", numbers.join(", ")),
    };
    let first = numbers.first().map_or("0", String::as_str);
    format!(
        "{are}: 'pantile status {vol}' says why, 'pantile replace {vol} {first} NEW' puts in another, 'pantile add-spare {vol} NEW' does so each time."
    )
}

/// Returns a number with its noun, in singular or plural.
pub(crate) fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Returns a point in time as text.
pub fn when(at: i64) -> String {
    if at == 0 {
        return "at a time that is not known".into();
    }
    let (days, seconds) = (at.div_euclid(86_400), at.rem_euclid(86_400));
    // Days since 0000-03-01, in eras of 400 years: H. Hinnant, "chrono-compatible low-level date
    // algorithms".
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3600, seconds % 3600 / 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Returns the reason for the loss of a device as text.
fn reason(reason: Reason, errno: i32) -> String {
    let system = match errno {
        0 => String::new(),
        errno => format!(" ({})", std::io::Error::from_raw_os_error(errno)),
    };
    let why = match reason {
        Reason::NOT_THERE => "it was not there when the volume was opened",
        Reason::GONE => "it did not answer any more",
        Reason::WRITE_FAILED => "it failed a write",
        Reason::OPERATOR => "its operator took it out",
        Reason::HANGS => "it answered nothing for longer than a device may",
        Reason::OLDER => "it was of an earlier time than the volume",
        Reason::NO_SPACE => "it was short of space",
        Reason::READS_FAILED => "too many of its reads failed",
        Reason::SLOW => "it was slower than the others for long",
        Reason::OVERWRITTEN => "it was overwritten with something else while it was in use",
        Reason::DIFFERS => "it read back other bytes than were written",
        _ => "for a reason that this version does not know",
    };
    format!("{why}{system}")
}

/// Returns the reason for the loss of a device as the other devices recorded it; `None`: they did
/// not.
pub(crate) fn kept_reason(known: &DeviceNote) -> Option<String> {
    let is_known = known.reason != Reason::NONE;
    is_known.then(|| format!("{}, {}", reason(known.reason, known.errno), when(known.since)))
}

pub(crate) fn range_report(range: &RangeNote) -> RangeReport {
    RangeReport {
        offset: range.first.0 * BLOCK as u64,
        len_bytes: range.count * BLOCK as u64,
        since: range.since,
    }
}

/// Longest time between a change in the folder and the event of this change on the devices.
const CHANGE_S_MAX: i64 = 60;

/// Returns the events, each with the path that its device had at that time. `root`: the folder of
/// the volume.
pub(crate) fn event_reports(events: &[EventNote], root: &Path, config: Option<&Config>) -> Vec<EventReport> {
    // By slot, the path of its device before the events that are processed; they are processed
    // backwards.
    let mut paths: BTreeMap<u32, Option<PathBuf>> = BTreeMap::new();
    let mut former: Vec<&Former> = config.map_or(Vec::new(), |config| config.former.iter().collect());
    // By slot, the path of the new device, if the event processed before is that of its coming.
    let mut comes: BTreeMap<u32, Option<PathBuf>> = BTreeMap::new();
    let mut reports: Vec<EventReport> = Vec::new();
    for event in events.iter().rev() {
        let slot = event.slot.map(|slot| slot.0);
        let mut path = None;
        if let Some(slot) = slot {
            let now = || config.and_then(|config| config.path_of(slot)).cloned();
            let known = paths.entry(slot).or_insert_with(now);
            path.clone_from(known);
            let came = comes.remove(&slot);
            if let (EventKind::SPARE_TAKEN, Some(new)) = (event.what, came) {
                path = new;
            }
            if matches!(event.what, EventKind::NEW | EventKind::COPY_TAKEN) {
                comes.insert(slot, known.clone());
                // Later replacements without an event are skipped.
                former.retain(|one| one.slot != slot || one.until <= event.at + CHANGE_S_MAX);
                let last = former.iter().rposition(|one| one.slot == slot);
                let last = last.filter(|&at| former[at].until >= event.at - CHANGE_S_MAX);
                *known = last.map(|at| former.remove(at).path.clone());
            }
        }
        reports.push(event_report(event, path.map(|path| path_in(root, &path))));
    }
    reports.reverse();
    reports
}

fn event_report(event: &EventNote, path: Option<PathBuf>) -> EventReport {
    let device = event.slot.map(|slot| slot.0);
    let at = path.as_ref().map(|path| path.display().to_string());
    let which = device.map_or("A device".into(), |device| format!("Device {device}"));
    // The device of the event, and the new device if the event is about it.
    let of = at.as_ref().map_or(which.clone(), |at| format!("{which} ({at})"));
    let new = at.as_ref().map_or(String::new(), |at| format!(", {at},"));
    let at_byte = event.value.saturating_mul(BLOCK as u64);
    let text = match event.what {
        EventKind::LOST => format!("{of} was lost: {}.", reason(event.reason, event.errno)),
        EventKind::BACK => format!("{of} came back."),
        EventKind::NEW => format!("{of} is a new one from then on."),
        EventKind::WHOLE => format!("{of} has all that it should have."),
        EventKind::SCRUB_BEGUN => "A scrub began.".into(),
        EventKind::SCRUB_ENDED if event.value == 0 => "The scrub ended and had found nothing bad.".into(),
        EventKind::SCRUB_ENDED => format!("The scrub ended; stripes found bad: {}.", event.value),
        EventKind::DATA_LOST => format!("Data were lost, from byte {at_byte} on."),
        EventKind::COPY_BEGUN => format!("{of} began to be copied to a new one that is to replace it."),
        EventKind::COPY_TAKEN => format!("{which} was replaced by its copy{}.", new.trim_end_matches(',')),
        EventKind::COPY_VERIFIED if event.value == 0 => {
            format!("{which} was verified by its checksums: nothing on it was bad.")
        }
        EventKind::COPY_VERIFIED => format!(
            "{which} was verified by its checksums; bad parts rebuilt from other devices: {}.",
            event.value
        ),
        EventKind::OVERWRITTEN => format!(
            "{which} was found overwritten with something else; it stays, because data need what is left on it."
        ),
        EventKind::COPY_CANCELLED => {
            format!("The copy that was to replace {of} was cancelled; the device stays.")
        }
        EventKind::COPY_FAILED => {
            let why = copy_reason(event);
            format!("The copy that was to replace {of} failed{why}; the device stays.")
        }
        EventKind::SPARE_TAKEN => {
            format!("A spare{new} took the place of {}.", which.replacen("Device", "device", 1))
        }
        EventKind::SERVER_KILLED => {
            "The volume was opened again: the server before was not stopped in order, and what was not flushed then is lost.".into()
        }
        EventKind::ERRORS_CLEARED if event.slot.is_some() => {
            format!("A person called {of} good; its errors are counted from now on.")
        }
        EventKind::ERRORS_CLEARED => format!("A person called suspect data good, from byte {at_byte} on."),
        _ => "Something happened that this version does not know.".into(),
    };
    EventReport { at: event.at, text, device, path }
}

/// Returns the reason of a failed copy as text.
fn copy_reason(event: &EventNote) -> String {
    let is_known = event.reason != Reason::NONE;
    if is_known { format!(": {}", reason(event.reason, event.errno)) } else { String::new() }
}

/// Returns findings on failed copies that were not followed by a new copy, another device or an
/// operator's `--clear`.
pub(crate) fn of_failed_copies(devices: &[DeviceReport], events: &[EventNote], vol: &str) -> Vec<Finding> {
    let counts = |event: &&EventNote| {
        matches!(
            event.what,
            EventKind::COPY_BEGUN
                | EventKind::COPY_TAKEN
                | EventKind::COPY_FAILED
                | EventKind::COPY_CANCELLED
                | EventKind::ERRORS_CLEARED
                | EventKind::LOST
                | EventKind::NEW
        )
    };
    let say = |device: &DeviceReport| {
        let slot = device.device;
        let mut own = events.iter().filter(|event| event.slot.is_some_and(|of| of.0 == slot));
        let last = own.rfind(counts).filter(|last| last.what == EventKind::COPY_FAILED)?;
        // The problem of the device already has this text, with the name of the new device.
        let is_said = device.state != DeviceWord::Present || device.problem.is_some();
        let text = format!(
            "The copy that was to replace device {slot} failed, {}{}; the device stays. 'pantile replace {vol} {slot} NEW' replaces it by another, 'pantile scrub {vol} --clear {slot}' keeps it.",
            when(last.at),
            copy_reason(last)
        );
        (!is_said).then(|| Finding::of(FindingKind::CopyFailed, Verdict::Warned, slot, text))
    };
    devices.iter().filter_map(say).collect()
}

/// Returns findings on devices that are lost, being rebuilt or have problems.
pub(crate) fn of_devices(devices: &[DeviceReport], only_looks: bool, vol: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for device in devices {
        let slot = device.device;
        let why = device.problem.as_ref().map_or(String::new(), |problem| format!(": {problem}"));
        let (kind, text) = match device.state {
            DeviceWord::Lost => (FindingKind::DeviceLost, format!("Device {slot} is lost{why}.")),
            DeviceWord::Rebuilding if only_looks => (
                FindingKind::DeviceRebuilding,
                format!(
                    "Device {slot} is not whole: its rebuild waits until the volume is served, or for 'pantile rebuild {vol}'."
                ),
            ),
            DeviceWord::Rebuilding => {
                (FindingKind::DeviceRebuilding, format!("Device {slot} is being rebuilt."))
            }
            DeviceWord::Present if device.problem.is_some() => {
                (FindingKind::DeviceInTrouble, format!("Device {slot} is in trouble{why}."))
            }
            DeviceWord::Present => continue,
        };
        findings.push(Finding::of(kind, Verdict::Degraded, slot, text));
    }
    findings
}

/// Returns findings on known bad content of devices.
pub(crate) fn of_content(
    devices: &[DeviceReport],
    fails_reads: impl Fn(u32) -> bool,
    vol: &str,
) -> Vec<Finding> {
    let bad = devices.iter().filter(|device| device.state == DeviceWord::Present && device.bad_chunks > 0);
    let say = |device: &DeviceReport| {
        let slot = device.device;
        let stays = match fails_reads(slot) {
            true => " So many of its reads fail that it would be taken out if the others had everything.",
            false => "",
        };
        let text = format!(
            "Device {slot} counts as lost in {} that {} wrong or unreadable there: 'pantile scrub {vol} --repair'; if that does not last, 'pantile replace {vol} {slot} NEW'.{stays}",
            count(device.bad_chunks, "chunk"),
            if device.bad_chunks == 1 { "is" } else { "are" },
        );
        Finding::of(FindingKind::DeviceBad, Verdict::Degraded, slot, text)
    };
    bad.map(say).collect()
}

/// Returns findings of the last scrub that are not repaired. Unreadable data among them have a
/// `DataLost` finding, too.
pub(crate) fn of_scrub(scrub: &ScrubReport, devices: &[DeviceReport], vol: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut say =
        |text: String| findings.push(Finding::new(FindingKind::ScrubFound, Verdict::Degraded, text));
    if !scrub.repair {
        for bad in &scrub.metadata {
            say(format!(
                "The scrub found {} of device {} bad and left them: 'pantile scrub {vol} --repair'.",
                bad.what(),
                bad.device
            ));
        }
        if scrub.metadata_devices > scrub.metadata.len() as u64 {
            say(format!(
                "The scrub found superblocks, journals or maps of {} bad and left them: 'pantile scrub {vol} --repair'.",
                count(scrub.metadata_devices, "device")
            ));
        }
        // Bad content that was written again since, or replaced with its device, no longer counts.
        let is_left = devices.iter().any(|device| device.bad_chunks > 0);
        let left = [
            (scrub.checksum, "stripe", "with wrong checksums"),
            (scrub.unreadable, "stripe", "with blocks that cannot be read"),
            (scrub.log_checksum, "block", "in the log with wrong checksums"),
            (scrub.log_unreadable, "block", "in the log that cannot be read"),
        ];
        for (number, noun, what) in left.into_iter().filter(|&(number, ..)| is_left && number > 0) {
            let (found, them) = (count(number, noun), if number == 1 { "it" } else { "them" });
            say(format!("The scrub found {found} {what} and left {them}: 'pantile scrub {vol} --repair'."));
        }
    }
    let unnamed = scrub.located + scrub.ambiguous + scrub.unlocatable;
    if unnamed > 0 {
        say(format!(
            "The scrub found {} whose equations do not hold: 'pantile scrub {vol} --repair' says what is left.",
            count(unnamed, "stripe")
        ));
    }
    findings
}

/// Returns the finding on deaths of earlier servers.
pub(crate) fn of_server(server: &ServerReport, up: &str, vol: &str) -> Option<Finding> {
    let times = match server.deaths {
        0 => return None,
        1 => "once".into(),
        more => format!("{more} times"),
    };
    let text = format!(
        "The server has died {times} and was started again, the last time {up} ago: what was not flushed then is lost. serve.log says why; 'pantile stop {vol} && pantile serve {vol}' forgets this."
    );
    Some(Finding::new(FindingKind::ServerDied, Verdict::Warned, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An event names the path of the folder at its time, or none.
    #[test]
    fn an_event_names_the_path_that_its_device_had_then() {
        let event = |what, slot, at| EventNote {
            what,
            reason: Reason::NONE,
            slot: Some(pantile_volume::Slot(slot)),
            errno: 0,
            at,
            value: 0,
        };
        let (lost, new) = (EventKind::LOST, EventKind::NEW);
        let events = [
            event(lost, 1, 50),
            event(new, 1, 60),
            event(lost, 1, 1000),
            event(EventKind::SPARE_TAKEN, 1, 1000),
            event(new, 1, 1000),
            event(lost, 2, 1500),
            event(EventKind::COPY_TAKEN, 1, 2000),
            event(lost, 1, 2001),
        ];
        let mut config = Config::parse(
            Path::new("c"),
            "pantile volume 1\nid 00000000-0000-0000-0000-000000000000\ndevice 1 c\nfailed 2 x\n\
             former 1 1000 a\nformer 1 1999 b\nformer 1 9000 gone\n",
        )
        .expect("lines");
        let paths = |config: &Config| -> Vec<Option<String>> {
            let reports = event_reports(&events, Path::new("/"), Some(config)).into_iter();
            reports.map(|one| one.path.map(|path| path.display().to_string())).collect()
        };
        let known = |path: &str| Some(format!("/{path}"));
        let (a, b, c, x) = (known("a"), known("b"), known("c"), known("x"));
        // The event of the spare precedes that of its coming.
        let mut wanted = vec![None, a.clone(), a, b.clone(), b, x, c.clone(), c];
        assert_eq!(paths(&config), wanted);
        config.former.clear();
        wanted[1..5].fill(None);
        assert_eq!(paths(&config), wanted);
        let texts = |at: usize| event_reports(&events, Path::new("/"), Some(&config))[at].text.clone();
        assert_eq!(texts(5), "Device 2 (/x) was lost: for a reason that this version does not know.");
        assert_eq!(texts(6), "Device 1 was replaced by its copy, /c.");
        assert_eq!(texts(3), "A spare took the place of device 1.");
    }

    #[test]
    fn a_time_is_said_as_a_date() {
        assert_eq!(when(1), "1970-01-01 00:00:01 UTC");
        assert_eq!(when(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(when(1_700_000_000), "2023-11-14 22:13:20 UTC");
        assert_eq!(when(-1), "1969-12-31 23:59:59 UTC");
    }

    /// The verdict is that of the worst finding, even if that was added last.
    #[test]
    fn a_server_that_died_is_never_clean() {
        let clean = StatusReport::default().judged(Vec::new());
        assert_eq!(clean.verdict, Verdict::Clean);
        let ended = clean.clone().server_ended("it was killed (SIGKILL).", "v");
        assert_eq!((ended.verdict, ended.wrong.len()), (Verdict::Warned, 1));
        assert!(ended.has(FindingKind::ServerEnded));
        let lost = Finding::new(FindingKind::DataLost, Verdict::Failed, "x".into());
        let failed = clean.judged(vec![lost]).server_ended("it was killed.", "v");
        assert_eq!((failed.verdict, failed.wrong[0].as_str()), (Verdict::Failed, "x"));
    }
}
