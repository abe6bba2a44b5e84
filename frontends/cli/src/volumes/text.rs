//! The status of a volume in the words of its operator: remaining tolerance, faults, space used,
//! next step.

use crate::describe::count;
use crate::machine::smart::DiskSmart;
use crate::render::table::Table;
use crate::sets;
use crate::terminal::Terminal;
use anstyle::{AnsiColor, Style};
use pantile_host::{
    DeviceReport, DeviceWord, DisksReport, FindingKind, Margin, StatusReport, Verdict as VolumeVerdict, when,
};
use std::fmt::Write;
use std::path::Path;

/// Source of a status.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'s> {
    /// The folder of the volume.
    pub root: &'s Path,
    /// True if a server answered.
    pub served: bool,
    /// URI of that server, if its log has it.
    pub uri: Option<&'s str>,
    /// The health of its disks, where it is known.
    pub smart: &'s [DiskSmart],
}

/// Returns the status as text.
pub fn status_text(report: &StatusReport, seen: Seen<'_>, terminal: &Terminal) -> String {
    let served = seen.served;
    let mut out = String::new();
    let worst = report.wrong.first().filter(|_| report.verdict == VolumeVerdict::Failed);
    match worst {
        Some(worst) if report.opens => {
            let _ = writeln!(out, "{}", terminal.bold(sets::name(worst)));
        }
        _ if report.opens => {
            let _ = writeln!(out, "{}", terminal.bold(margin_text(&report.margin)));
        }
        _ => {
            let _ = writeln!(out, "{}", terminal.bold("The volume cannot be opened."));
        }
    }
    let _ = writeln!(out, "{}\n", summary(report, seen, terminal));
    for wrong in report.wrong.iter().skip(usize::from(worst.is_some() && report.opens)) {
        let _ = writeln!(out, "{}", sets::name(wrong));
    }
    if report.opens {
        out.push_str(&margin_lines(report, worst.is_some()));
        out.push_str(&disks_text(&report.disks));
        for (_, _, text) in seen.smart.iter().flat_map(|disk| disk.sentences(seen.root)) {
            let _ = writeln!(out, "{text}");
        }
    }
    out.push_str(&under_way_text(report, seen.root, served));
    if report.opens {
        let _ = writeln!(out, "{}", used_text(report));
        let _ = writeln!(out, "{}", scrub_text(report, seen.root));
    }
    out.push('\n');
    out.push_str(&devices_table(report, seen, terminal));
    for epoch in &report.epochs {
        out.push_str(&crate::commands::delayed::text(epoch));
    }
    if report.opens {
        out.push_str(&details(report));
    }
    if let Some(next) = next_step(report, seen.root, served) {
        let _ = writeln!(out, "\nNext: {next}");
    }
    out
}

/// Returns the second line: name, verdict, code, placement, and the URI of the server.
fn summary(report: &StatusReport, seen: Seen<'_>, terminal: &Terminal) -> String {
    let (word, colour) = match report.verdict {
        VolumeVerdict::Clean => ("clean", AnsiColor::Green),
        VolumeVerdict::Warned => ("whole, with warnings", AnsiColor::Yellow),
        VolumeVerdict::Degraded => ("degraded", AnsiColor::Yellow),
        VolumeVerdict::Failed => ("failed", AnsiColor::Red),
    };
    let mode = if report.reads_only { " to be read only" } else { "" };
    let served = match (seen.served, seen.uri) {
        (true, Some(uri)) => format!("served{mode} at {uri}"),
        (true, None) => format!("served{mode}"),
        (false, _) => "not served".into(),
    };
    format!(
        "{}: {}, {}, {}, {served}",
        terminal.bold(sets::name(&report.name)),
        terminal.paint(Style::new().bold().fg_color(Some(colour.into())), word),
        sets::name(&report.code),
        sets::name(&report.placement),
    )
}

/// Returns the cost of disks that hold several devices; empty if there are none.
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

/// Returns the used and total space.
pub fn used_text(report: &StatusReport) -> String {
    let share = 100.0 * report.used_bytes as f64 / report.len_bytes.max(1) as f64;
    format!("Used {} of {} ({share:.0} %).", sets::bytes(report.used_bytes), sets::bytes(report.len_bytes))
}

/// Returns lines on work in progress: rebuild, copies, limits.
pub fn under_way_text(report: &StatusReport, root: &Path, served: bool) -> String {
    let vol = sets::quoted(root);
    let mut out = String::new();
    if let (Some(rebuild), false) = (&report.rebuild, served) {
        let _ = writeln!(
            out,
            "Rebuild: {} of {}; it waits until the volume is served, or for 'pantile rebuild {vol}'.",
            rebuild.done_stripes,
            count(rebuild.total_stripes as usize, "stripe")
        );
    } else if let Some((rebuild, first)) =
        report.rebuild.as_ref().and_then(|rebuild| Some((rebuild, rebuild.first_pass.as_ref()?)))
    {
        let left = first.seconds_left.map_or(String::new(), |s| format!(", {} left", duration(s)));
        let _ = writeln!(
            out,
            "Rebuild, first what makes the volume safe against one more failure: {} of {}, {}/s{left}.",
            first.done_stripes,
            count(rebuild.total_stripes as usize, "stripe"),
            sets::bytes(rebuild.bytes_per_s)
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
        let waits = format!("; the copy waits until the volume is served, or for 'pantile rebuild {vol}'");
        let waits = if served { "" } else { &waits };
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
    for device in &report.devices {
        let Some(proof) = &device.verification else { continue };
        let waits = format!("; it waits until the volume is served, or for 'pantile rebuild {vol}'");
        let waits = if served { "" } else { &waits };
        let _ = writeln!(
            out,
            "Device {} took the place of another as its copy, and is being verified by its checksums: {} of {} done, {} found bad{waits}.",
            device.device,
            proof.done_stripes,
            count(proof.total_stripes as usize, "stripe"),
            count(proof.found as usize, "part"),
        );
    }
    if let Some(rate) = report.throttle_bytes_per_s {
        let _ = writeln!(out, "Rebuild and scrub are held to {}/s.", sets::bytes(rate));
    }
    out
}

/// Returns lines on the write log, spare places and memory.
fn details(report: &StatusReport) -> String {
    let mut out = String::new();
    let durable = match report.dirty_blocks {
        0 => "all writes are durable".to_string(),
        blocks => format!("{} not durable yet", count(blocks as usize, "block")),
    };
    let _ = writeln!(
        out,
        "\nWrite log: {} of {} rows in use; stripes: {} of {} places in use; {durable}.",
        report.log_rows_used,
        report.log_rows,
        report.stripes_used,
        report.stripes_used.saturating_add(report.free_stripes),
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
        if let Some(stripes) = server.patched_stripes.filter(|&stripes| stripes > 0) {
            let _ = writeln!(
                out,
                "Blocks went home from the log as patches of {}.",
                count(stripes as usize, "stripe")
            );
        }
    }
    out
}

/// Returns the command that the operator runs next; `None` if none is necessary.
pub fn next_step(report: &StatusReport, root: &Path, served: bool) -> Option<String> {
    let vol = sets::quoted(root);
    let lost = report.devices.iter().find(|device| device.state == DeviceWord::Lost);
    let is_running = |device: &DeviceReport| {
        let is_copied = device.replacement.is_some() || device.verification.is_some();
        device.state == DeviceWord::Rebuilding || is_copied
    };
    if !report.opens {
        return None;
    }
    if report.broken_stripes > 0 || report.has(FindingKind::DataLost) {
        return Some(format!("'pantile status {vol} --lost' lists the data that are lost"));
    }
    if let Some(lost) = lost.filter(|_| !report.margin.survives) {
        return Some(format!(
            "bring device {} back, which holds data that no other has; then: pantile rebuild {vol}",
            lost.device
        ));
    }
    if let Some(lost) = lost {
        return Some(format!(
            "put in a new disk: pantile replace {vol} {} NEW; if the device is there again: pantile rebuild {vol}",
            lost.device
        ));
    }
    if report.rebuild.is_some() || report.devices.iter().any(is_running) {
        return Some(match served {
            true => format!("wait, or watch it: pantile rebuild {vol} --wait"),
            false => format!("pantile serve {vol}"),
        });
    }
    match (served, &report.scrub) {
        (false, _) => Some(format!("pantile serve {vol}")),
        (true, None) => Some(format!("read everything once: pantile scrub {vol}")),
        (true, Some(_)) => None,
    }
}

fn margin_lines(report: &StatusReport, is_failed: bool) -> String {
    let mut out = String::new();
    if is_failed {
        let _ = writeln!(out, "{}", margin_text(&report.margin));
    }
    if report.broken_stripes > 0 && report.margin.survives {
        let _ = writeln!(out, "That is true of the other stripes only: those that have lost data stay so.");
    }
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

fn devices_table(report: &StatusReport, seen: Seen<'_>, terminal: &Terminal) -> String {
    let rebuilding = if seen.served { "rebuilding" } else { "waits" };
    let labels: Vec<Option<String>> =
        report.devices.iter().map(|device| label(report, device.device)).collect();
    let has_labels = labels.iter().any(Option::is_some);
    let mut head = vec![">device", "state", ">read", ">wrong", ">failed", ">a read takes"];
    head.extend((!seen.smart.is_empty()).then_some("disk health"));
    head.extend(has_labels.then_some("model and serial"));
    head.push("path");
    let mut table = Table::new(&head);
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
    let unknown = || "-".to_string();
    for (device, label) in report.devices.iter().zip(labels) {
        let mut row = vec![
            device.device.to_string(),
            state(device),
            number(device.blocks_read),
            number(device.checksum_errors),
            number(device.media_errors),
            device
                .reads
                .map_or_else(unknown, |reads| format!("{:.1} ms", f64::from(reads.median_us) / 1000.0)),
        ];
        let health = seen.smart.iter().find(|disk| disk.devices.contains(&device.device));
        let health = health.map_or_else(unknown, |disk| disk.smart.short());
        row.extend((!seen.smart.is_empty()).then_some(health));
        row.extend(has_labels.then(|| label.map_or_else(unknown, |label| sets::name(&label))));
        row.push(device.path.as_ref().map_or_else(unknown, |path| sets::name(&path.to_string_lossy())));
        table.row(row);
    }
    for spare in &report.spares {
        let mut row = vec![unknown(), "spare".into()];
        row.extend(["-", "-", "-", "-"].map(String::from));
        row.extend((!seen.smart.is_empty()).then(unknown));
        row.extend(has_labels.then(unknown));
        row.push(sets::name(&spare.to_string_lossy()));
        table.row(row);
    }
    table.render(terminal)
}

/// Returns model and serial number of the disk that holds this device alone, as its server knows
/// them, so that no member that hangs is opened.
fn label(report: &StatusReport, device: u32) -> Option<String> {
    let disk = report.disks.disks.iter().find(|disk| disk.devices == [device])?;
    let known: Vec<&str> = [&disk.model, &disk.serial].into_iter().flatten().map(String::as_str).collect();
    (!known.is_empty()).then(|| known.join(" "))
}

/// Returns how many more devices can fail: the first line of the status.
pub fn margin_text(margin: &Margin) -> String {
    if !margin.survives {
        return "More devices are lost than the code tolerates.".into();
    }
    let more = margin.any_more;
    let can = match more {
        1 => "1 more device can fail without data loss".to_string(),
        more => format!("{more} more devices can fail without data loss"),
    };
    let Some(next) = &margin.next else {
        return match more {
            0 => "No further device can fail for certain without data loss.".into(),
            _ => can + ".",
        };
    };
    let fatal = next.sets.saturating_sub(next.survived);
    let named: Vec<String> = next.fatal.iter().map(|set| describe_set(set)).collect();
    let others = match (fatal as usize).saturating_sub(named.len()) {
        0 => String::new(),
        others => format!(" and {others} more"),
    };
    let fatal_are = format!("{}{others}", named.join(" "));
    match (more, next.survived) {
        (0, 0) => "No further device can fail without data loss.".into(),
        (0, survived) => format!(
            "It depends on the next device: {survived} of {} can fail without data loss, these cannot: {fatal_are}.",
            next.sets
        ),
        (_, 0) => format!("{can}, {} cannot.", next.devices),
        (_, survived) => format!(
            "{can}; {survived} of {} sets of {} can, these cannot: {fatal_are}.",
            next.sets, next.devices
        ),
    }
}

fn describe_set(set: &[u32]) -> String {
    let set: Vec<usize> = set.iter().map(|&device| device as usize).collect();
    crate::describe::set(&set)
}

/// Returns progress and findings of a scrub.
pub fn scrub_text(report: &StatusReport, root: &Path) -> String {
    let Some(scrub) = &report.scrub else { return "Last scrub: never.".into() };
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
        stripes(scrub.ambiguous, "wrong in an uncertain place"),
        stripes(scrub.unlocatable, "wrong in an unknown place"),
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
            " Repaired: {}; {} could not be: 'pantile status {} --lost' says which data are lost still.",
            count(repaired as usize, "stripe"),
            count(left as usize, "stripe"),
            sets::quoted(root)
        ),
    };
    format!(
        "The scrub{of}{repair} {how} {} of {}{found}{log}{metadata}.{mended}",
        scrub.done,
        count(scrub.total as usize, "stripe")
    )
}

/// Returns the ranges of lost data, one per line.
pub fn ranges_text(report: &StatusReport) -> String {
    if report.ranges.is_empty() {
        return match report.broken_stripes {
            0 => "No data are known to be lost.\n".into(),
            stripes => format!(
                "{} have lost data, and it is not known which: scrub with --repair, or read all of it.\n",
                count(stripes as usize, "stripe")
            ),
        };
    }
    let mut out = String::new();
    for range in &report.ranges {
        let _ = writeln!(out, "{}+{}  lost since {}", range.offset, range.len_bytes, when(range.since));
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
    fn a_scrub_reports_stripes_and_log_separately() {
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
        let text = |scrub: ScrubReport| {
            scrub_text(&StatusReport { scrub: Some(scrub), ..StatusReport::default() }, Path::new("vol"))
        };
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

    /// An attacker's server at the socket of a volume's folder can send any answer.
    #[test]
    fn answers_of_an_attackers_server_are_shown_and_not_obeyed() {
        let strange = || String::from("\x1b[31m\x1b]0;owned\x07\n");
        let next = NextLoss { devices: u32::MAX, sets: 0, survived: u64::MAX, fatal: vec![vec![0]] };
        let next = Some(next);
        let margin = Margin { lost: vec![1], survives: true, any_more: 1, log_any_more: Some(1), next };
        let report = StatusReport {
            name: strange(),
            code: strange(),
            placement: strange(),
            wrong: vec![strange()],
            spares: vec![strange().into()],
            opens: true,
            margin,
            stripes_used: u64::MAX,
            free_stripes: u64::MAX,
            log_blocks: 1,
            ..StatusReport::default()
        };
        let terminal = Terminal { colour: false, width: 100, is_terminal: false, progress: false };
        let seen = Seen { root: Path::new("vol"), served: true, uri: None, smart: &[] };
        let text = status_text(&report, seen, &terminal);
        assert!(!text.contains(['\x1b', '\x07']), "{text:?}");
        assert_eq!(text.matches("\\u{1b}[31m\\u{1b}]0;owned\\u{7}\\n").count(), 5, "{text:?}");
    }

    #[test]
    fn the_margin_is_said_as_an_operator_wants_it() {
        let next = |devices, sets, survived, fatal| Some(NextLoss { devices, sets, survived, fatal });
        let log_any_more = None;
        let margin = |any_more, next| Margin { lost: vec![], survives: true, any_more, log_any_more, next };
        let fatal = || vec![vec![0, 1], vec![2, 3], vec![4, 5], vec![1, 6]];
        for (margin, text) in [
            (margin(2, next(3, 20, 0, vec![])), "2 more devices can fail without data loss, 3 cannot."),
            (
                margin(1, next(2, 21, 17, fatal())),
                "1 more device can fail without data loss; 17 of 21 sets of 2 can, these cannot: {0,1} {2,3} {4,5} {1,6}.",
            ),
            (margin(4, None), "4 more devices can fail without data loss."),
            (margin(0, next(1, 4, 0, vec![])), "No further device can fail without data loss."),
            (
                margin(0, next(1, 4, 3, vec![vec![2]])),
                "It depends on the next device: 3 of 4 can fail without data loss, these cannot: {2}.",
            ),
            (margin(0, None), "No further device can fail for certain without data loss."),
        ] {
            assert_eq!(margin_text(&margin), text);
        }
        let gone = Margin { lost: vec![1], survives: false, any_more: 0, log_any_more, next: None };
        assert_eq!(margin_text(&gone), "More devices are lost than the code tolerates.");
    }

    #[test]
    fn the_status_begins_with_the_margin_and_ends_with_the_next_step() {
        let next = Some(NextLoss { devices: 3, sets: 20, survived: 0, fatal: vec![] });
        let margin = Margin { lost: vec![], survives: true, any_more: 2, log_any_more: None, next };
        let device = DeviceReport { device: 0, path: Some("d0".into()), ..device() };
        let report = StatusReport {
            name: "vol".into(),
            verdict: VolumeVerdict::Clean,
            opens: true,
            margin,
            devices: vec![device.clone()],
            used_bytes: 3 << 20,
            len_bytes: 12 << 20,
            ..StatusReport::default()
        };
        let terminal = Terminal { colour: false, width: 100, is_terminal: false, progress: false };
        let said = |report: &StatusReport, served: bool| {
            let uri = served.then_some("nbd+unix:///?socket=s");
            status_text(report, Seen { root: Path::new("my vol"), served, uri, smart: &[] }, &terminal)
        };
        let text = said(&report, true);
        assert!(
            text.starts_with("2 more devices can fail without data loss, 3 cannot.\nvol: clean, "),
            "{text}"
        );
        for piece in
            ["served at nbd+unix:///?socket=s\n", "Used 3.00 MiB of 12.0 MiB (25 %).", "Last scrub: never."]
        {
            assert!(text.contains(piece), "{piece}: {text}");
        }
        assert!(text.ends_with("\nNext: read everything once: pantile scrub my\\ vol\n"), "{text}");
        assert!(said(&report, false).ends_with("\nNext: pantile serve my\\ vol\n"));
        let lost = DeviceReport { state: DeviceWord::Lost, ..device };
        let text = said(&StatusReport { devices: vec![lost], ..report }, true);
        assert!(text.contains("\nNext: put in a new disk: pantile replace my\\ vol 0 NEW;"), "{text}");
    }

    fn device() -> DeviceReport {
        DeviceReport {
            device: 0,
            path: None,
            state: DeviceWord::Present,
            done_stripes: None,
            blocks_read: 0,
            checksum_errors: 0,
            media_errors: 0,
            bad_chunks: 0,
            problem: None,
            reads: None,
            writes: None,
            slow: None,
            replacement: None,
            verification: None,
        }
    }
}
