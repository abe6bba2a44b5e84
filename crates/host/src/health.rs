//! Findings: problems of a volume as values. Text, JSON, the verdict and every exit status follow
//! from them.

use crate::control::{
    DeviceReport, DeviceWord, EventReport, RangeReport, ScrubReport, ServerReport, StatusReport, Verdict,
};
use crate::memory::BLOCK;
use pantile_format::volume::{Claim, Claimant};
use pantile_volume::{DeviceNote, EventKind, EventNote, RangeNote, Reason};
use serde::{Deserialize, Serialize};

/// A problem of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Its kind.
    pub kind: FindingKind,
    /// The verdict on a volume that has it.
    pub verdict: Verdict,
    /// The device, if it concerns one.
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
    /// Data are lost for good, or until a device comes back.
    DataLost,
    /// Writes wait for room.
    NoRoom,
    /// A device is lost.
    DeviceLost,
    /// A device is being made whole.
    DeviceRebuilding,
    /// A device is in use and in trouble.
    DeviceInTrouble,
    /// Stripes wait to be repaired.
    StripesWait,
    /// A scrub has found something and left it, or could not repair it.
    ScrubFound,
    /// A device is far slower than the others.
    DeviceSlow,
    /// The copy that was to replace a device failed.
    CopyFailed,
    /// Some of a device's content is known to be bad, and counts as lost.
    DeviceBad,
    /// A device has given wrong blocks or failed reads.
    DeviceErred,
    /// A spare cannot be used.
    SpareUnusable,
    /// The server has died and was started again.
    ServerDied,
    /// The server has ended, though no order stopped it.
    ServerEnded,
    /// Another server, on this host or another, serves the volume by another path, or may.
    ServedElsewhere,
    /// The past events are lost.
    HistoryLost,
    /// A part of the server ended by a fault of its own and was started again.
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
    /// Takes findings into the report: the worst first, otherwise in their order.
    pub(crate) fn judged(mut self, findings: Vec<Finding>) -> StatusReport {
        self.verdict = findings.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::Clean);
        self.wrong = findings.iter().map(|finding| finding.text.clone()).collect();
        self.findings = findings;
        self
    }

    /// True if it has a finding of this kind.
    pub fn has(&self, kind: FindingKind) -> bool {
        self.findings.iter().any(|finding| finding.kind == kind)
    }

    /// Adds the finding that the last server ended without an order and none is running.
    pub fn server_ended(self, why: &str) -> StatusReport {
        let text = format!(
            "The last server was not stopped: {why} What was not flushed then is lost; serve.log says more, 'pantile serve' starts another."
        );
        let ended = Finding::new(FindingKind::ServerEnded, Verdict::Warned, text);
        let mut findings = self.findings.clone();
        // The log says more than the claim on the devices.
        findings.retain(|finding| finding.kind != FindingKind::ServerEnded);
        let before = findings.iter().position(|finding| finding.verdict <= Verdict::Warned);
        findings.insert(before.unwrap_or(findings.len()), ended);
        self.judged(findings)
    }
}

/// Returns the finding for a part of the server that was started again.
pub(crate) fn of_mishap(text: String) -> Finding {
    Finding::new(FindingKind::Mishap, Verdict::Warned, text)
}

/// Returns the finding for a claim that is held although the volume is not served here.
pub(crate) fn of_claim(serves: Option<bool>, claim: &Claim) -> Finding {
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
                "The last server, {who}, was not stopped in order: unflushed writes are lost; 'pantile serve' starts another."
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

/// Returns a number with its noun.
pub(crate) fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Returns a time in words.
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

/// Returns the reason of a device's loss, in words.
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

/// Returns why a device is lost, as the other devices recorded it; `None`: they did not.
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

pub(crate) fn event_report(event: &EventNote) -> EventReport {
    let device = event.slot.map(|slot| slot.0);
    let which = device.map_or("A device".into(), |device| format!("Device {device}"));
    let at_byte = event.value.saturating_mul(BLOCK as u64);
    let text = match event.what {
        EventKind::LOST => format!("{which} was lost: {}.", reason(event.reason, event.errno)),
        EventKind::BACK => format!("{which} came back."),
        EventKind::NEW => format!("{which} is a new one from then on."),
        EventKind::WHOLE => format!("{which} has all that it should have."),
        EventKind::SCRUB_BEGUN => "A scrub began.".into(),
        EventKind::SCRUB_ENDED if event.value == 0 => "The scrub ended and had found nothing bad.".into(),
        EventKind::SCRUB_ENDED => format!("The scrub ended; stripes found bad: {}.", event.value),
        EventKind::DATA_LOST => format!("Data were lost, from byte {at_byte} on."),
        EventKind::COPY_BEGUN => format!("{which} began to be copied to a new one that is to replace it."),
        EventKind::COPY_TAKEN => format!("{which} was replaced by its copy."),
        EventKind::COPY_VERIFIED if event.value == 0 => {
            format!("{which}, which was copied, was verified by its checksums: nothing on it was bad.")
        }
        EventKind::COPY_VERIFIED => format!(
            "{which}, which was copied, was verified by its checksums; bad parts rebuilt from other devices: {}.",
            event.value
        ),
        EventKind::OVERWRITTEN => format!(
            "{which} was found overwritten with something else; it stays, because data need what is left on it."
        ),
        EventKind::COPY_CANCELLED => {
            format!("The copy that was to replace {which} was cancelled; {which} stays.")
        }
        EventKind::COPY_FAILED => {
            let why = copy_reason(event);
            format!("The copy that was to replace {which} failed{why}; {which} stays.")
        }
        EventKind::ERRORS_CLEARED if event.slot.is_some() => {
            format!("A person called {which} good; its errors are counted from now on.")
        }
        EventKind::ERRORS_CLEARED => format!("A person called suspect data good, from byte {at_byte} on."),
        _ => "Something happened that this version does not know.".into(),
    };
    EventReport { at: event.at, text, device }
}

/// Returns the reason of a failed copy, in words.
fn copy_reason(event: &EventNote) -> String {
    let is_known = event.reason != Reason::NONE;
    if is_known { format!(": {}", reason(event.reason, event.errno)) } else { String::new() }
}

/// Findings on failed copies, unless a new copy, another device or an operator's `--clear`
/// followed.
pub(crate) fn of_failed_copies(devices: &[DeviceReport], events: &[EventNote]) -> Vec<Finding> {
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
        // The problem has said so already, with the name of the new device.
        let is_said = device.state != DeviceWord::Present || device.problem.is_some();
        let text = format!(
            "The copy that was to replace device {slot} failed, {}{}; the device stays. Replace it by another, or 'pantile scrub VOL --clear {slot}' to keep it.",
            when(last.at),
            copy_reason(last)
        );
        (!is_said).then(|| Finding::of(FindingKind::CopyFailed, Verdict::Warned, slot, text))
    };
    devices.iter().filter_map(say).collect()
}

/// Findings on lost, rebuilding and ailing devices.
pub(crate) fn of_devices(devices: &[DeviceReport], only_looks: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for device in devices {
        let slot = device.device;
        let why = device.problem.as_ref().map_or(String::new(), |problem| format!(": {problem}"));
        let (kind, text) = match device.state {
            DeviceWord::Lost => (FindingKind::DeviceLost, format!("Device {slot} is lost{why}.")),
            DeviceWord::Rebuilding if only_looks => (
                FindingKind::DeviceRebuilding,
                format!(
                    "Device {slot} is not whole: its rebuild waits until the volume is served, or for 'pantile rebuild'."
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

/// Findings on known bad content of devices.
pub(crate) fn of_content(devices: &[DeviceReport], fails_reads: impl Fn(u32) -> bool) -> Vec<Finding> {
    let bad = devices.iter().filter(|device| device.state == DeviceWord::Present && device.bad_chunks > 0);
    let say = |device: &DeviceReport| {
        let slot = device.device;
        let stays = match fails_reads(slot) {
            true => " So many of its reads fail that it would be taken out if the others had everything.",
            false => "",
        };
        let text = format!(
            "Device {slot} counts as lost in {} that {} wrong or unreadable there: scrub with --repair; if that does not last, replace it.{stays}",
            count(device.bad_chunks, "chunk"),
            if device.bad_chunks == 1 { "is" } else { "are" },
        );
        Finding::of(FindingKind::DeviceBad, Verdict::Degraded, slot, text)
    };
    bad.map(say).collect()
}

/// Findings of the last scrub that it left or could not repair. Data among the latter have a
/// `DataLost` finding, too.
pub(crate) fn of_scrub(scrub: &ScrubReport, devices: &[DeviceReport]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut say =
        |text: String| findings.push(Finding::new(FindingKind::ScrubFound, Verdict::Degraded, text));
    if !scrub.repair {
        for bad in &scrub.metadata {
            say(format!(
                "The scrub found {} of device {} bad and left them: scrub with --repair.",
                bad.what(),
                bad.device
            ));
        }
        if scrub.metadata_devices > scrub.metadata.len() as u64 {
            say(format!(
                "The scrub found superblocks, journals or maps of {} bad and left them: scrub with --repair.",
                count(scrub.metadata_devices, "device")
            ));
        }
        // Content that was written again since, or with a new device, is left no longer.
        let is_left = devices.iter().any(|device| device.bad_chunks > 0);
        let left = [
            (scrub.checksum, "stripe", "with wrong checksums"),
            (scrub.unreadable, "stripe", "with blocks that cannot be read"),
            (scrub.log_checksum, "block", "in the log with wrong checksums"),
            (scrub.log_unreadable, "block", "in the log that cannot be read"),
        ];
        for (number, noun, what) in left.into_iter().filter(|&(number, ..)| is_left && number > 0) {
            let (found, them) = (count(number, noun), if number == 1 { "it" } else { "them" });
            say(format!("The scrub found {found} {what} and left {them}: scrub with --repair."));
        }
    }
    let unnamed = scrub.located + scrub.ambiguous + scrub.unlocatable;
    if unnamed > 0 {
        say(format!(
            "The scrub found {} whose equations do not hold: scrub again with --repair to see what is left.",
            count(unnamed, "stripe")
        ));
    }
    findings
}

/// Finding on past deaths of the running server.
pub(crate) fn of_server(server: &ServerReport, up: &str) -> Option<Finding> {
    let times = match server.deaths {
        0 => return None,
        1 => "once".into(),
        more => format!("{more} times"),
    };
    let text = format!(
        "The server has died {times} and was started again, the last time {up} ago: what was not flushed then is lost. serve.log says why; stop and serve it to forget this."
    );
    Some(Finding::new(FindingKind::ServerDied, Verdict::Warned, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_said_as_a_date() {
        assert_eq!(when(1), "1970-01-01 00:00:01 UTC");
        assert_eq!(when(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(when(1_700_000_000), "2023-11-14 22:13:20 UTC");
        assert_eq!(when(-1), "1969-12-31 23:59:59 UTC");
    }

    /// A verdict is the worst of the findings, also of one that is added last.
    #[test]
    fn a_server_that_died_is_never_clean() {
        let clean = StatusReport::default().judged(Vec::new());
        assert_eq!(clean.verdict, Verdict::Clean);
        let ended = clean.clone().server_ended("it was killed (SIGKILL).");
        assert_eq!((ended.verdict, ended.wrong.len()), (Verdict::Warned, 1));
        assert!(ended.has(FindingKind::ServerEnded));
        let lost = Finding::new(FindingKind::DataLost, Verdict::Failed, "x".into());
        let failed = clean.judged(vec![lost]).server_ended("it was killed.");
        assert_eq!((failed.verdict, failed.wrong[0].as_str()), (Verdict::Failed, "x"));
    }
}
