//! The state of a volume for its operator: devices, work under way, findings.

use super::Service;
use super::known::Known;
use super::returning::TRIED;
use crate::control::{
    DeviceReport, DeviceWord, FirstPassReport, LatencyReport, MetadataReport, RebuildReport,
    ReplacementReport, ScrubReport, ServerReport, SlowReport, StatusReport, Verdict, VerificationReport,
};
use crate::disks::{Disk, System, judge};
use crate::engine::MemberReport;
use crate::health::{self, Finding, FindingKind};
use crate::locks::lock;
use crate::memory::BLOCK;
use crate::text::quoted;
use crate::{FolderError, HostError, Latency, Margin, Report, Slow};
use pantile_volume::{BadMetadata, Bearing, DeviceState, ScrubStatus, Slot, margin};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Longest wait of a status for a volume that is being opened again.
const REVIVES: Duration = Duration::from_secs(10);

impl Service {
    /// Returns the engine's report. While the volume is being opened again, it waits some time for
    /// that.
    fn report_soon(&self) -> Result<Report, HostError> {
        let until = Instant::now() + REVIVES;
        loop {
            match self.host().report() {
                Err(HostError::Stopped) if self.revives.load(Ordering::Acquire) && Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                result => return result,
            }
        }
    }

    /// Returns the status report. It waits neither for a device nor for the lock of the service's
    /// state.
    pub(super) fn status(&self) -> Result<StatusReport, FolderError> {
        let report = self.report_soon()?;
        let known = lock(&self.known).clone();
        let status = &report.status;
        let bearing = Bearing::new(&self.geometry.code, self.geometry.placement);
        let counted = Margin::from(margin(&bearing, &report.standing));
        let strays: Vec<Slot> = known.strays.keys().map(|&slot| Slot(slot)).collect();
        // A stray can be read now, but will be gone when the server ends. Overwritten members count
        // as lost already.
        let margin = match Margin::from(margin(&bearing, &report.standing.without(&strays))) {
            with_strays if with_strays.survives || !counted.survives => with_strays,
            none_left => Margin { survives: true, ..none_left },
        };
        let system = System::here();
        let disk = |member: &MemberReport| system.disk_of(member.path.as_deref()?, member.identity?);
        let disks = judge(&bearing, &report.members.iter().map(disk).collect::<Vec<Option<Disk>>>());
        let device = |device: &pantile_volume::DeviceStatus| {
            let member = &report.members[device.slot.0 as usize];
            let listed = known.config.as_ref().and_then(|config| config.path_of(device.slot.0));
            let path = member.path.clone().or_else(|| listed.cloned());
            let waits = member.attached && device.state == DeviceState::Lost;
            let (state_word, done_stripes) = match device.state {
                DeviceState::Present => (DeviceWord::Present, None),
                // The device is attached, and takes part once the present commit is durable.
                DeviceState::Lost if waits && !self.only_looks && !status.failed => {
                    (DeviceWord::Rebuilding, Some(0))
                }
                DeviceState::Lost => (DeviceWord::Lost, None),
                DeviceState::Rebuilding { done_stripes, .. } => (DeviceWord::Rebuilding, Some(done_stripes)),
            };
            let tried = known.problems.get(&device.slot.0).filter(|problem| problem.starts_with(TRIED));
            let tried = tried.map_or(String::new(), |tried| format!("; {tried}"));
            let problem = member.error.as_ref().map(|error| format!("{error}{tried}"));
            let problem = problem.or_else(|| match (waits, self.only_looks) {
                (true, true) => Some("it is here again and is caught up when the volume is served".into()),
                // A failed volume records nothing, so no device can join it.
                (true, false) if status.failed => {
                    Some("it is here again, and is used when enough of the others are".into())
                }
                _ => None,
            });
            let strays = || known.strays.get(&device.slot.0).cloned().filter(|_| member.attached);
            let told = || {
                let told = known.problems.get(&device.slot.0).cloned();
                let is_lost = state_word == DeviceWord::Lost;
                told.or_else(|| if is_lost { health::kept_reason(&device.known) } else { None })
            };
            DeviceReport {
                device: device.slot.0,
                path,
                state: state_word,
                done_stripes,
                blocks_read: device.counts.blocks_read,
                checksum_errors: device.known.checksum_errors,
                media_errors: device.known.media_errors,
                bad_chunks: report.standing.bad_chunks.get(&device.slot).copied().unwrap_or(0),
                problem: problem.or_else(strays).or_else(told),
                reads: member.reads.map(latency_report),
                writes: member.writes.map(latency_report),
                slow: member.slow.map(slow_report),
                replacement: self.replacement(&known, device.slot),
                verification: self.verification(&known, &report, device.slot),
            }
        };
        let devices: Vec<DeviceReport> = status.devices.iter().map(device).collect();
        let stripe_bytes = self.geometry.stripe_blocks() * BLOCK as u64;
        let damaged = damaged(&report, stripe_bytes);
        let server = known.serves.map(|(since, deaths)| ServerReport {
            pid: std::process::id(),
            up_s: since.elapsed().as_secs(),
            deaths: deaths.of_its_own,
            client_deaths: deaths.by_clients,
            memory_bytes_max: report.memory_bytes_max,
            memory_bytes: report.memory_bytes,
            resident_bytes: resident_bytes(),
            threads: std::fs::read_dir("/proc/self/task").map_or(0, |tasks| tasks.count() as u32),
            patched_stripes: report.patched_stripes,
        });
        let scrub = status.scrub.as_ref().map(scrub_report);
        let vol = &self.vol();
        let mut findings = of_volume(&report, margin.survives, damaged, vol);
        findings.extend(health::of_devices(&devices, self.only_looks, vol));
        findings.extend(health::of_failed_copies(&devices, &status.events, vol));
        let fails_reads = |slot: u32| report.members[slot as usize].fails_reads;
        findings.extend(health::of_content(&devices, fails_reads, vol));
        if status.suspect_stripes > 0 {
            let text = match status.suspect_stripes {
                1 => "1 stripe waits to be written again.".into(),
                stripes => format!("{stripes} stripes wait to be written again."),
            };
            findings.push(Finding::new(FindingKind::StripesWait, Verdict::Degraded, text));
        }
        findings.extend(scrub.iter().flat_map(|scrub| health::of_scrub(scrub, &devices, vol)));
        findings.extend(self.claimed.iter().map(|(serves, claim)| health::of_claim(*serves, claim, vol)));
        findings.extend(warnings(&devices, &known.bad_spares, server.as_ref(), vol));
        findings.extend(self.mishaps.said().into_iter().map(health::of_mishap));
        let opened = StatusReport {
            name: self.superblock.name.clone(),
            volume: self.geometry.volume.to_string(),
            code: self.geometry.code.spec().to_owned(),
            placement: self.geometry.placement.to_string(),
            len_bytes: self.host().handle().len_bytes(),
            used_bytes: (status.stripes_used.saturating_mul(stripe_bytes))
                .saturating_add(status.log_blocks.saturating_mul(BLOCK as u64))
                .min(self.host().handle().len_bytes()),
            margin,
            disks,
            devices,
            spares: known.spares.clone(),
            rebuild: rebuilding(&report).map(|rebuilding| progress(&known.samples, rebuilding)),
            scrub,
            throttle_bytes_per_s: report.throttle_bytes_per_s,
            dirty_blocks: status.dirty_blocks,
            log_rows_used: status.log_rows_used,
            log_rows: status.log_rows,
            log_blocks: status.log_blocks,
            log_blocks_lost: status.log_blocks_lost,
            stripes_used: status.stripes_used,
            free_stripes: status.free_stripes,
            broken_stripes: damaged,
            suspect_stripes: status.suspect_stripes,
            epochs: report.epochs.clone(),
            wasted_stripes: status.wasted_stripes,
            server,
            reads_only: self.reads_only,
            opens: true,
            ranges: status.ranges.iter().map(health::range_report).collect(),
            events: health::event_reports(&status.events, &self.root, known.config.as_ref()),
            ..StatusReport::default()
        };
        Ok(opened.judged(findings))
    }
}

/// Returns the resident memory of the process in bytes; 0 if the system does not report it.
fn resident_bytes() -> u64 {
    let said = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = said.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = resident.and_then(|said| said.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn scrub_report(scrub: &ScrubStatus) -> ScrubReport {
    ScrubReport {
        done: scrub.done,
        total: scrub.total,
        repair: scrub.repair,
        paused: scrub.paused,
        running: scrub.running,
        clean: scrub.clean,
        checksum: scrub.checksum,
        located: scrub.located,
        ambiguous: scrub.ambiguous,
        unlocatable: scrub.unlocatable,
        unreadable: scrub.unreadable,
        log_blocks: scrub.log_blocks,
        log_checksum: scrub.log_checksum,
        log_unreadable: scrub.log_unreadable,
        metadata: scrub.metadata.iter().map(metadata_report).collect(),
        metadata_devices: scrub.metadata_devices,
        begun_at: scrub.begun_at,
        ended_at: scrub.ended_at,
        stopped: scrub.stopped,
        repaired: scrub.repaired,
        left: scrub.left,
    }
}

impl Service {
    /// Returns the progress of the copy of a device, under way or ordered.
    fn replacement(&self, known: &Known, slot: Slot) -> Option<ReplacementReport> {
        let total_bytes = self.geometry.device_blocks(slot) * BLOCK as u64;
        let (path, copied_bytes, verified_bytes, unreadable_blocks) = match known.replacements.get(&slot.0) {
            // The twin of a replacement that has just ended is gone: all bytes are copied.
            Some((path, twin)) => match twin.upgrade() {
                Some(twin) => {
                    let unreadable = twin.unreadable_blocks();
                    (path.clone(), twin.progress().1, twin.verified_bytes(), unreadable)
                }
                None => (path.clone(), total_bytes, total_bytes, 0),
            },
            None => (known.config.as_ref()?.replacing.get(&slot.0)?.clone(), 0, 0, 0),
        };
        Some(ReplacementReport { path, copied_bytes, verified_bytes, total_bytes, unreadable_blocks })
    }

    /// Returns the progress of the verification of a copy; `None`: it needs none.
    fn verification(&self, known: &Known, report: &Report, slot: Slot) -> Option<VerificationReport> {
        known.config.as_ref()?.verifying.get(&slot.0)?;
        let total_stripes = self.geometry.logical_stripes().into();
        let scrub = report.status.device_scrub.filter(|scrub| scrub.slot == slot);
        let (done_stripes, found) = scrub.map_or((0, 0), |scrub| (scrub.done, scrub.found));
        Some(VerificationReport { done_stripes, total_stripes, found })
    }
}

fn slow_report(Slow { times, median_us, for_time }: Slow) -> SlowReport {
    SlowReport { times_as_long: times, median_us, for_s: for_time.as_secs() }
}

fn latency_report(Latency { median_us, worst_us }: Latency) -> LatencyReport {
    LatencyReport { median_us, worst_us }
}

fn metadata_report(bad: &BadMetadata) -> MetadataReport {
    let BadMetadata { slot, superblocks, journal, snapshot, definition } = *bad;
    MetadataReport { device: slot.0, superblocks, journal, snapshot, definition }
}

/// Progress of a rebuild, for the device that is furthest behind: stripes done and stripes in
/// total.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rebuilding {
    pub(super) done: u64,
    pub(super) total: u64,
    /// Number of stripes done in the first pass, while that is under way.
    pub(super) first_pass: Option<u64>,
}

/// Returns the progress of a rebuild; `None`: no device is being rebuilt.
pub(super) fn rebuilding(report: &Report) -> Option<Rebuilding> {
    let states = report.status.devices.iter().filter_map(|device| match device.state {
        DeviceState::Rebuilding { done_stripes, ahead_stripes, total_stripes } => {
            Some((done_stripes, total_stripes, ahead_stripes.filter(|&ahead| ahead < total_stripes)))
        }
        _ => None,
    });
    let states: Vec<(u64, u64, Option<u64>)> = states.collect();
    let &(done, total, _) = states.iter().min()?;
    Some(Rebuilding { done, total, first_pass: states.iter().filter_map(|&(.., first)| first).min() })
}

fn progress(samples: &VecDeque<(Instant, u64, u64)>, rebuilding: Rebuilding) -> RebuildReport {
    let Rebuilding { done, total, first_pass } = rebuilding;
    let mut report = RebuildReport {
        done_stripes: done,
        total_stripes: total,
        bytes_per_s: 0,
        seconds_left: None,
        first_pass: first_pass.map(|done_stripes| FirstPassReport { done_stripes, seconds_left: None }),
    };
    let (Some(&(from, stripes, blocks)), Some(&(to, _, last_blocks))) = (samples.front(), samples.back())
    else {
        return report;
    };
    let seconds = (to - from).as_secs_f64();
    if seconds > 0.0 {
        report.bytes_per_s = (last_blocks.saturating_sub(blocks) as f64 * BLOCK as f64 / seconds) as u64;
        let done = first_pass.unwrap_or(done);
        let rate = done.saturating_sub(stripes) as f64 / from.elapsed().as_secs_f64();
        let left = (rate > 0.0).then(|| (total.saturating_sub(done) as f64 / rate).ceil() as u64);
        match &mut report.first_pass {
            Some(first_pass) => first_pass.seconds_left = left,
            None => report.seconds_left = left,
        }
    }
    report
}

/// Counts the stripes that are known to have lost data.
fn damaged(report: &Report, stripe_bytes: u64) -> u64 {
    let blocks = stripe_bytes / BLOCK as u64;
    let ends = report
        .status
        .ranges
        .iter()
        .filter(|range| range.count > 0)
        .map(|range| (range.first.0 / blocks, range.first.0.saturating_add(range.count - 1) / blocks));
    report.status.broken_stripes.max(count_in(ends.collect()))
}

/// Counts the distinct numbers in ranges, each given by its first and last number. It does not
/// iterate over the numbers, because a range can cover all stripes of a huge empty volume.
fn count_in(mut ranges: Vec<(u64, u64)>) -> u64 {
    ranges.sort_unstable();
    let mut next = 0;
    let mut all = 0;
    for (first, last) in ranges {
        let first = first.max(next);
        if first <= last {
            all += last - first + 1;
            next = last.saturating_add(1);
        }
    }
    all
}

/// Returns findings on the volume as a whole, the worst first.
fn of_volume(report: &Report, survives: bool, damaged: u64, vol: &str) -> Vec<Finding> {
    let status = &report.status;
    let mut findings = Vec::new();
    let mut say = |kind, verdict, text: String| findings.push(Finding::new(kind, verdict, text));
    if status.failed && survives {
        let text = format!(
            "What was written last can go nowhere and is not flushed: it is of stripes that have lost data. Run 'pantile stop {vol} && pantile serve {vol}', and write what 'pantile status {vol} --lost' lists, all of it before a flush."
        );
        say(FindingKind::DataLost, Verdict::Failed, text);
    } else if status.failed || !survives {
        let text =
            "More devices are lost than the code tolerates: bring one back; nothing is written until then.";
        say(FindingKind::TooManyLost, Verdict::Failed, text.into());
    }
    if status.log_blocks_lost > 0 {
        let text = format!(
            "{} in the log cannot be read; the log tolerates fewer losses than the stripes: bring a device back.",
            health::count(status.log_blocks_lost, "block")
        );
        say(FindingKind::LogLost, Verdict::Failed, text);
    }
    let lost: u64 = status.ranges.iter().map(|range| range.count * BLOCK as u64).sum();
    if damaged > 0 {
        let known = match (lost, status.broken_stripes) {
            (0, 0) => "so it was when they were read last; a scrub says what is left".to_string(),
            (0, _) => "more of them is bad than the code tolerates".to_string(),
            (lost, _) => {
                format!(
                    "{lost} bytes cannot be read until they are written again; 'pantile status {vol} --lost' says where"
                )
            }
        };
        let stripes = match damaged {
            1 => "1 stripe has".to_string(),
            several => format!("{several} stripes have"),
        };
        let text = format!("{stripes} lost data: {known}.");
        say(FindingKind::DataLost, Verdict::Failed, text);
    }
    let short = (0..).zip(&report.members).filter(|(_, member)| member.is_short);
    let short: Vec<String> = short.map(|(slot, _): (u32, _)| slot.to_string()).collect();
    if !short.is_empty() && !status.failed {
        let word = if short.len() == 1 { "device" } else { "devices" };
        let text = format!(
            "Writes and flushes wait until there is room for {word} {}; what is there can be read.",
            short.join(", ")
        );
        say(FindingKind::NoRoom, Verdict::Degraded, text);
    }
    if status.notes_lost {
        let text = "What had happened before, and which data were lost or suspect, could be read on no device: scrub it, and look at the data.";
        say(FindingKind::HistoryLost, Verdict::Degraded, text.into());
    }
    findings
}

/// Returns findings on past errors, which need no device to be brought back.
fn warnings(
    devices: &[DeviceReport],
    bad_spares: &BTreeMap<PathBuf, String>,
    server: Option<&ServerReport>,
    vol: &str,
) -> Vec<Finding> {
    let erred = devices.iter().filter(|device| device.checksum_errors + device.media_errors > 0);
    let say = |device: &DeviceReport| {
        let text = format!(
            "Device {} gave {} and failed {} since it is part of the volume or its errors were cleared; what it lacked was read from the others where they had it. 'pantile scrub {vol} --repair' finds all that is wrong and writes it again, 'pantile scrub {vol} --clear {}' then counts from zero.",
            device.device,
            health::count(device.checksum_errors, "wrong block"),
            health::count(device.media_errors, "read"),
            device.device
        );
        Finding::of(FindingKind::DeviceErred, Verdict::Warned, device.device, text)
    };
    let unusable = |(path, why): (&PathBuf, &String)| {
        let text = format!(
            "The spare {} will not take the place of anything: {why}. 'pantile remove-spare {vol} {}' gives it back.",
            path.display(),
            quoted(path)
        );
        Finding::new(FindingKind::SpareUnusable, Verdict::Warned, text)
    };
    let died = server.and_then(|server| health::of_server(server, &span(server.up_s), vol));
    let slow = devices.iter().filter_map(|device| {
        let SlowReport { times_as_long, median_us, for_s } = device.slow?;
        let text = format!(
            "Device {} takes {times_as_long} times as long as the others for a read, {} ms, for {} by now: reads go around it where that costs less, writes and flushes wait for it; 'pantile replace {vol} {} NEW' puts another in its place.",
            device.device,
            median_us.div_ceil(1000),
            span(for_s),
            device.device
        );
        Some(Finding::of(FindingKind::DeviceSlow, Verdict::Warned, device.device, text))
    });
    let by_clients = server.filter(|server| server.client_deaths > 0).map(|server| {
        let times = if server.client_deaths == 1 { "once".into() } else { format!("{} times", server.client_deaths) };
        let text = format!(
            "nbdkit has ended {times} because a client went away with requests under way, and was started again, the last time {} ago: what was not flushed then is lost. It is a fault of nbdkit before 1.34: install a newer one; 'pantile stop {vol} && pantile serve {vol}' forgets this.",
            span(server.up_s)
        );
        Finding::new(FindingKind::ServerDied, Verdict::Warned, text)
    });
    let died = died.into_iter().chain(by_clients).chain(slow);
    died.chain(erred.map(say)).chain(bad_spares.iter().map(unusable)).collect()
}

/// Returns a duration as text.
fn span(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests;
