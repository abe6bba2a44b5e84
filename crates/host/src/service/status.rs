//! How a volume is, as it is said to its operator: of each device, of what is under way, and what is wrong in words.

use super::{Service, State};
use crate::control::{
    DeviceReport, DeviceWord, LatencyReport, MetadataReport, RebuildReport, ReplacementReport, ScrubReport,
    ServerReport, StatusReport, Verdict,
};
use crate::folder::Folder;
use crate::geometry::policy_name;
use crate::margin::margin;
use crate::memory::BLOCK;
use crate::{FolderError, Latency, Report};
use pantile_volume::{BadMetadata, DeviceState, Slot};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::time::Instant;

impl Service {
    /// How the volume is, in words and numbers.
    pub(super) fn status(&self) -> Result<StatusReport, FolderError> {
        let report = self.host().report()?;
        let state = self.lock();
        let status = &report.status;
        let not_whole = |device: &&pantile_volume::DeviceStatus| device.state != DeviceState::Present;
        let lost: Vec<Slot> = status.devices.iter().filter(not_whole).map(|device| device.slot).collect();
        let margin = margin(&self.geometry.code, self.geometry.placement, &lost);
        let device = |device: &pantile_volume::DeviceStatus| {
            let member = &report.members[device.slot.0 as usize];
            let listed = state.folder.as_ref().and_then(|f| f.config().devices.get(&device.slot.0));
            let path = member.path.clone().or_else(|| listed.map(|place| place.path.clone()));
            let waits = member.attached && device.state == DeviceState::Lost;
            let (state_word, done_stripes) = match device.state {
                DeviceState::Present => (DeviceWord::Present, None),
                // It has come, and takes part as soon as what is being made durable is.
                DeviceState::Lost if waits && !self.only_looks && !status.failed => {
                    (DeviceWord::Rebuilding, Some(0))
                }
                DeviceState::Lost => (DeviceWord::Lost, None),
                DeviceState::Rebuilding { done_stripes, .. } => (DeviceWord::Rebuilding, Some(done_stripes)),
            };
            let problem = member.error.as_ref().map(ToString::to_string);
            let problem = problem.or_else(|| match (waits, self.only_looks) {
                (true, true) => Some("it is here again and is caught up when the volume is served".into()),
                // Nothing can be recorded any more, so nobody can be taken in.
                (true, false) if status.failed => {
                    Some("it is here again, and is used when enough of the others are".into())
                }
                _ => None,
            });
            DeviceReport {
                device: device.slot.0,
                path,
                state: state_word,
                done_stripes,
                blocks_read: device.counts.blocks_read,
                checksum_errors: device.counts.checksum_errors,
                media_errors: device.counts.media_errors,
                problem: problem.or_else(|| state.problems.get(&device.slot.0).cloned()),
                reads: member.reads.map(latency_report),
                writes: member.writes.map(latency_report),
                times_as_long: Some(member.times_as_long).filter(|times| *times > 1),
                replacement: self.replacement(&state, device.slot),
            }
        };
        let devices: Vec<DeviceReport> = status.devices.iter().map(device).collect();
        let damaged = state.folder.as_ref().map_or(0, |folder| damaged(folder, &report));
        let server = state.serves.map(|(since, deaths)| ServerReport {
            pid: std::process::id(),
            up_s: since.elapsed().as_secs(),
            deaths: deaths.of_its_own,
            client_deaths: deaths.by_clients,
        });
        let mut wrong = wrong(&report, &margin.survives, damaged, &devices, self.only_looks);
        let mut warnings = warnings(&devices, &state.bad_spares, server.as_ref(), damaged > 0);
        warnings.extend(self.mishaps.said());
        let verdict = match () {
            () if status.failed || !margin.survives || damaged > 0 => Verdict::Failed,
            () if status.log_blocks_lost > 0 => Verdict::Failed,
            () if !wrong.is_empty() => Verdict::Degraded,
            () if !warnings.is_empty() => Verdict::Warned,
            () => Verdict::Clean,
        };
        wrong.extend(warnings);
        Ok(StatusReport {
            name: self.superblock.name.clone(),
            volume: self.geometry.volume.to_string(),
            code: self.geometry.code.spec().to_owned(),
            policy: policy_name(self.superblock.policy).to_owned(),
            len_bytes: self.host().handle().len_bytes(),
            verdict,
            wrong,
            margin,
            devices,
            spares: state.spares.iter().map(|(path, _)| path.clone()).collect(),
            rebuild: rebuilding(&report).map(|(done, total)| progress(&state.samples, done, total)),
            scrub: status.scrub.as_ref().map(|scrub| ScrubReport {
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
            }),
            throttle_bytes_per_s: report.throttle_bytes_per_s,
            dirty_blocks: status.dirty_blocks,
            log_rows_used: status.log_rows_used,
            log_rows: status.log_rows,
            log_blocks: status.log_blocks,
            log_blocks_lost: status.log_blocks_lost,
            log_bears: self.geometry.tolerance() as u32,
            stripes_used: status.stripes_used,
            free_stripes: status.free_stripes,
            broken_stripes: damaged,
            suspect_stripes: status.suspect_stripes,
            epochs: report.epochs.clone(),
            wasted_stripes: status.wasted_stripes,
            server,
            reads_only: self.reads_only,
            opens: true,
        })
    }
}

impl Service {
    /// How far the copy of a device is, if it is being replaced, or is to be.
    fn replacement(&self, state: &State, slot: Slot) -> Option<ReplacementReport> {
        let total_bytes = self.geometry.device_blocks(slot) * BLOCK as u64;
        let (path, copied_bytes, unreadable_blocks) = match state.replacements.get(&slot.0) {
            Some(one) => (one.path.clone(), one.twin.progress().1, one.twin.unreadable_blocks()),
            None => (state.folder.as_ref()?.config().replacing.get(&slot.0)?.clone(), 0, 0),
        };
        Some(ReplacementReport { path, copied_bytes, total_bytes, unreadable_blocks })
    }
}

fn latency_report(Latency { median_us, worst_us }: Latency) -> LatencyReport {
    LatencyReport { median_us, worst_us }
}

fn metadata_report(bad: &BadMetadata) -> MetadataReport {
    let BadMetadata { slot, superblocks, journal, snapshot, definition } = *bad;
    MetadataReport { device: slot.0, superblocks, journal, snapshot, definition }
}

/// Stripes done and in all, of the device that is furthest behind; `None`: nothing is rebuilt.
pub(super) fn rebuilding(report: &Report) -> Option<(u64, u64)> {
    let states = report.status.devices.iter().filter_map(|device| match device.state {
        DeviceState::Rebuilding { done_stripes, total_stripes } => Some((done_stripes, total_stripes)),
        _ => None,
    });
    states.min()
}

fn progress(samples: &VecDeque<(Instant, u64, u64)>, done: u64, total: u64) -> RebuildReport {
    let mut report =
        RebuildReport { done_stripes: done, total_stripes: total, bytes_per_s: 0, seconds_left: None };
    let (Some(&(from, stripes, blocks)), Some(&(to, _, last_blocks))) = (samples.front(), samples.back())
    else {
        return report;
    };
    let seconds = (to - from).as_secs_f64();
    if seconds > 0.0 {
        report.bytes_per_s = (last_blocks.saturating_sub(blocks) as f64 * BLOCK as f64 / seconds) as u64;
        let rate = done.saturating_sub(stripes) as f64 / from.elapsed().as_secs_f64();
        report.seconds_left = (rate > 0.0).then(|| (total.saturating_sub(done) as f64 / rate).ceil() as u64);
    }
    report
}

/// Stripes that have lost data, as far as is known: what was found before counts until a scrub has looked at everything.
pub(super) fn damaged(folder: &Folder, report: &Report) -> u64 {
    let found = report.status.broken_stripes;
    let has_looked = |scrub: &pantile_volume::ScrubStatus| !scrub.running && scrub.done == scrub.total;
    match report.status.scrub.as_ref().is_some_and(has_looked) {
        true => found,
        false => found.max(folder.config().damaged_stripes),
    }
}

/// What is wrong, the worst first.
fn wrong(
    report: &Report,
    survives: &bool,
    damaged: u64,
    devices: &[DeviceReport],
    only_looks: bool,
) -> Vec<String> {
    let status = &report.status;
    let mut wrong = Vec::new();
    if status.failed || !survives {
        wrong.push(
            "More devices are lost than the code can bear: bring one back; nothing is written until then."
                .into(),
        );
    }
    if status.log_blocks_lost > 0 {
        wrong.push(format!(
            "{} blocks in the log cannot be had, which bears fewer losses than the stripes do: bring a device back.",
            status.log_blocks_lost
        ));
    }
    if damaged > 0 {
        let known = if status.broken_stripes > 0 {
            "more of them is bad than the code can bear"
        } else {
            "so it was when they were read last; a scrub says what is left"
        };
        wrong.push(format!("{damaged} stripes have lost data: {known}."));
    }
    if status.write_hole_stripes > 0 {
        wrong.push(format!(
            "{} stripes were being written in place when the volume went down, and a device that holds data of them was missing when it came up: what was computed for that device may be wrong in any of its blocks, under checksums that fit; compare with a copy.",
            status.write_hole_stripes
        ));
    }
    let short = (0..).zip(&report.members).filter(|(_, member)| member.is_short);
    let short: Vec<String> = short.map(|(slot, _): (u32, _)| slot.to_string()).collect();
    if !short.is_empty() && !status.failed {
        let word = if short.len() == 1 { "device" } else { "devices" };
        wrong.push(format!(
            "Writes and flushes wait until there is room for {word} {}; what is there can be read.",
            short.join(", ")
        ));
    }
    for device in devices {
        let why = device.problem.as_ref().map_or(String::new(), |problem| format!(": {problem}"));
        match device.state {
            DeviceWord::Lost => wrong.push(format!("Device {} is lost{why}.", device.device)),
            DeviceWord::Rebuilding if only_looks => wrong.push(format!(
                "Device {} is not whole: its rebuild waits until the volume is served, or for 'pantile rebuild'.",
                device.device
            )),
            DeviceWord::Rebuilding => wrong.push(format!("Device {} is being rebuilt.", device.device)),
            DeviceWord::Present if device.problem.is_some() => {
                wrong.push(format!("Device {} is in trouble{why}.", device.device));
            }
            DeviceWord::Present => {}
        }
    }
    if status.suspect_stripes > 0 {
        wrong.push(format!("{} stripes wait to be written anew.", status.suspect_stripes));
    }
    if let Some(scrub) = &status.scrub {
        let unnamed = scrub.located + scrub.ambiguous + scrub.unlocatable;
        for bad in scrub.metadata.iter().filter(|_| !scrub.repair) {
            let what = metadata_report(bad).what();
            wrong.push(format!(
                "The scrub found {what} of device {} bad and left them: scrub with --repair.",
                bad.slot.0
            ));
        }
        let left = [
            (scrub.checksum, "stripes with wrong checksums"),
            (scrub.unreadable, "stripes with blocks that cannot be read"),
            (scrub.log_checksum, "blocks in the log with wrong checksums"),
            (scrub.log_unreadable, "blocks in the log that cannot be read"),
        ];
        for (number, what) in left.into_iter().filter(|&(number, _)| number > 0 && !scrub.repair) {
            wrong.push(format!("The scrub found {number} {what} and left them: scrub with --repair."));
        }
        if unnamed > 0 {
            wrong.push(format!(
                "The scrub found {unnamed} stripes whose equations do not hold: scrub again with --repair to see what is left."
            ));
        }
    }
    wrong
}

/// What was wrong since the volume was opened and no longer is: no reason to bring anything back, but to look.
fn warnings(
    devices: &[DeviceReport],
    bad_spares: &BTreeMap<PathBuf, String>,
    server: Option<&ServerReport>,
    has_lost_data: bool,
) -> Vec<String> {
    let erred = devices.iter().filter(|device| device.checksum_errors + device.media_errors > 0);
    let whence = if has_lost_data { " where they had it" } else { "" };
    let say = |device: &DeviceReport| {
        format!(
            "Device {} gave {} wrong blocks and failed {} reads since the volume was opened; what it lacked was read from the others{whence}.",
            device.device, device.checksum_errors, device.media_errors
        )
    };
    let unusable = |(path, why): (&PathBuf, &String)| {
        format!("The spare {} will not take the place of anything: {why}.", path.display())
    };
    let died = server.filter(|server| server.deaths > 0).map(|server| {
        let times = if server.deaths == 1 { "once".into() } else { format!("{} times", server.deaths) };
        format!(
            "The server has died {times} and was started again, the last time {} ago: what was not flushed then is lost. serve.log says why; stop and serve it to forget this.",
            span(server.up_s)
        )
    });
    let slow = devices.iter().filter_map(|device| {
        let (times, took) = (device.times_as_long?, device.reads?.median_us);
        Some(format!(
            "Device {} takes {times} times as long as the others for a read, {} ms: reads go around it where that costs less, writes and flushes wait for it; 'pantile replace' puts another in its place.",
            device.device,
            took.div_ceil(1000)
        ))
    });
    let by_clients = server.filter(|server| server.client_deaths > 0).map(|server| {
        let times = if server.client_deaths == 1 { "once".into() } else { format!("{} times", server.client_deaths) };
        format!(
            "nbdkit has ended {times} because a client went away with requests under way, and was started again, the last time {} ago: what was not flushed then is lost. It is a fault of nbdkit before 1.34: install a newer one; stop and serve the volume to forget this.",
            span(server.up_s)
        )
    });
    let died = died.into_iter().chain(by_clients).chain(slow);
    died.chain(erred.map(say)).chain(bad_spares.iter().map(unusable)).collect()
}

/// Seconds, as people say them.
fn span(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}
