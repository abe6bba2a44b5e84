//! Costs of recoveries in clusters of Ceph: the table that `integrations/ceph/e2e figures` prints,
//! for the SHEC paper's Figures 10 to 12.
//!
//! Lines before the table state the circumstances. Each row is one run; runs of equal profile and
//! number of lost OSDs are rounds, and their median counts.

use super::median;
use crate::figure::{Figure, Listing};
use crate::{Printed, Report, printed};

/// The committed record.
const COMMITTED: &str = include_str!("../../records/ceph-recovery.txt");

/// Share of busy processors above which processors, and not disks, decide the time of a run.
const BUSY_MOST: f64 = 0.5;

/// One run.
#[derive(Clone, Debug)]
struct Run {
    profile: String,
    lost: usize,
    /// Bytes read for the recovery over bytes of the objects.
    read: f64,
    sent_mb: f64,
    processor_s: f64,
    seconds: f64,
    /// Read rate of the busiest disk, as a share of the disk's limit.
    disk: f64,
    /// Share of the machine's processors that was busy with any process.
    machine: f64,
}

/// Reads a row: profile, lost, then ten numbers.
fn run(line: &str) -> Option<Run> {
    let mut words = line.split(" | ");
    let (profile, lost) = (words.next()?.to_string(), words.next()?.trim().parse().ok()?);
    let numbers: Vec<f64> = words.map(|word| word.trim().parse().ok()).collect::<Option<_>>()?;
    let &[read, _, _, sent_mb, _, processor_s, seconds, disk, _, machine] = &numbers[..] else { return None };
    Some(Run { profile, lost, read, sent_mb, processor_s, seconds, disk, machine })
}

const OF_RS: &str = "SHEC(6,4,3) : RS(6,4) in a cluster of Ceph";
const RS: &str = "plugin=jerasure technique=reed_sol_van k=6 m=4";
const SHEC: &str = "plugin=shec technique=single k=6 m=4 c=2";
const OURS: &str = "plugin=pantile technique=single k=6 m=4 c=2";

const READ: Printed = printed(
    74.0,
    "though the amount of data read from the disks was 74%, the actual recovery time was 81.4% of RS(6,4)",
);
const TIME: Printed = Printed { value: 81.4, ..READ };
const PROCESSOR: Printed =
    printed(20.0, "the SHEC(6,4,3)'s total CPU overhead was about 20% less than that of RS(6,4)");

/// Adds the record to the report of the paper.
pub(super) fn report(report: &mut Report) {
    let is_head = |line: &&str| line.starts_with("profile ");
    let circumstances: Vec<&str> = COMMITTED.lines().take_while(|line| !is_head(line)).collect();
    let rows = COMMITTED.lines().skip_while(|line| !is_head(line)).skip(1);
    let runs: Vec<Run> = rows.filter_map(run).collect();
    report.say(format!(
        "Figures 10 to 12 in clusters of Ceph on one machine, every set of lost shards once: {}",
        circumstances.join(" ")
    ));
    let of = |profile: &str, lost: usize| -> Vec<&Run> {
        runs.iter().filter(|run| run.profile == profile && run.lost == lost).collect()
    };
    let cost = |runs: &[&Run], of: fn(&Run) -> f64| median(runs.iter().map(|&run| of(run)).collect());
    let (rs, shec, ours) = (of(RS, 2), of(SHEC, 2), of(OURS, 2));
    if [&rs, &shec, &ours].iter().any(|runs| runs.is_empty()) {
        return;
    }
    for (name, runs, published) in [
        ("Ceph's own plug-in", &shec, [Some(READ), Some(TIME), Some(PROCESSOR)]),
        ("Pantile's plan", &ours, [None; 3]),
    ] {
        let ratio = |of: fn(&Run) -> f64| 100.0 * cost(runs, of) / cost(&rs, of);
        let busy = runs.iter().chain(&rs).filter(|run| run.machine > BUSY_MOST).count();
        let note = format!(
            "medians of {} rounds; in {busy} of {} runs the machine did other work as well, and times there are not those \
             of disks alone",
            runs.len(),
            runs.len() + rs.len()
        );
        report.measured(OF_RS, format!("bytes read, {name}, per cent"), ratio(|run| run.read), published[0]);
        report
            .measured(
                OF_RS,
                format!("recovery time, {name}, per cent"),
                ratio(|run| run.seconds),
                published[1],
            )
            .note = Some(note);
        report
            .measured(
                OF_RS,
                format!("processor time of OSDs below RS, {name}, per cent"),
                100.0 - ratio(|run| run.processor_s),
                published[2],
            )
            .note = Some("of everything that an OSD does, not of the code alone".into());
        report.measured(OF_RS, format!("bytes sent, {name}, per cent"), ratio(|run| run.sent_mb), None);
    }
    listing(report, &runs, &circumstances);
}

/// Returns all codes of the record.
fn listing(report: &mut Report, runs: &[Run], circumstances: &[&str]) {
    let mut rows: Vec<(&str, usize, Vec<&Run>)> = Vec::new();
    for run in runs {
        match rows.iter_mut().find(|row| row.0 == run.profile && row.1 == run.lost) {
            Some(row) => row.2.push(run),
            None => rows.push((&run.profile, run.lost, vec![run])),
        }
    }
    /// A heading, the value of a run, and its number of digits.
    type Column = (&'static str, fn(&Run) -> f64, usize);
    let columns: [Column; 6] = [
        ("read/object", |run| run.read, 3),
        ("sent, MB", |run| run.sent_mb, 0),
        ("processor, s", |run| run.processor_s, 1),
        ("time, s", |run| run.seconds, 1),
        ("busiest disk", |run| run.disk, 2),
        ("machine busy", |run| run.machine, 2),
    ];
    let head = ["profile", ">lost", ">rounds"].into_iter().map(String::from);
    report.figures.push(Figure::Listing(Listing {
        title: "Recovery in clusters of Ceph (Figures 10 to 12)".into(),
        caption: format!(
            "{} Medians of rounds. Where the machine was busy for more than {BUSY_MOST} bytes stand and times do not.",
            circumstances.join(" ")
        ),
        head: head.chain(columns.iter().map(|column| format!(">{}", column.0))).collect(),
        rows: rows
            .into_iter()
            .map(|(profile, lost, runs)| {
                let words = [profile.trim_start_matches("plugin=").to_string(), lost.to_string(), runs.len().to_string()];
                let values = columns.iter().map(|&(_, of, digits)| {
                    format!("{:.digits$}", median(runs.iter().map(|&run| of(run)).collect()))
                });
                words.into_iter().chain(values).collect()
            })
            .collect(),
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_record_is_read() {
        let rows = COMMITTED.lines().skip_while(|line| !line.starts_with("profile ")).skip(1);
        for line in rows {
            assert!(run(line).is_some(), "{line}");
        }
        for profile in [RS, SHEC, OURS] {
            assert!(COMMITTED.contains(profile), "{profile}");
        }
    }
}
