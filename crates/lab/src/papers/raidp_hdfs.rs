//! RAIDP in clusters of HDFS: the record that `integrations/hdfs/experiments` prints, for the
//! slides' bars of writing, reading, TeraSort and their network, and their table of recovery.
//!
//! Lines before the table state the circumstances. Each row is one run; runs of equal system and
//! experiment are rounds, and their median counts. The slides' bars have no numbers in their text,
//! so these are in notes.

use super::median;
use crate::Report;
use crate::figure::{Figure, Listing};

/// The committed record.
const COMMITTED: &str = include_str!("../../records/raidp-hdfs.txt");

const CASE: &str = "RAIDP : three replicas in a cluster of HDFS";
const RECOVERY: &str = "two of 12 nodes lost in a cluster of HDFS";

/// Values of a run, in the order of the record's columns, with their number of digits.
const COLUMNS: [(&str, usize); 8] = [
    ("time, s", 1),
    ("sent, MB", 0),
    ("disks wrote, MB", 0),
    ("disks read, MB", 0),
    ("add-ons wrote, MB", 0),
    ("add-ons read, MB", 0),
    ("processor, s", 1),
    ("machine busy", 2),
];
const SECONDS: usize = 0;
const SENT: usize = 1;
const WROTE: usize = 2;
const ADD_ONS_WROTE: usize = 4;

/// One run.
#[derive(Clone, Debug)]
struct Run {
    system: &'static str,
    experiment: &'static str,
    values: [f64; COLUMNS.len()],
}

/// Reads a row: system, experiment, round, then a number for each column.
fn run(line: &'static str) -> Option<Run> {
    let mut words = line.split(" | ");
    let (system, experiment) = (words.next()?, words.next()?);
    words.next()?.trim().parse::<usize>().ok()?;
    let numbers: Vec<f64> = words.map(|word| word.trim().parse().ok()).collect::<Option<_>>()?;
    Some(Run { system, experiment, values: numbers.try_into().ok()? })
}

/// Returns the lines of the record before its table, and the lines of its table.
fn parts() -> (Vec<&'static str>, impl Iterator<Item = &'static str>) {
    let is_head = |line: &&str| line.starts_with("system ");
    let circumstances = COMMITTED.lines().take_while(|line| !is_head(line)).collect();
    (circumstances, COMMITTED.lines().skip_while(move |line| !is_head(line)).skip(1))
}

/// Adds the record to the report of the paper.
pub(super) fn report(report: &mut Report) {
    let (circumstances, rows) = parts();
    let runs: Vec<Run> = rows.filter_map(run).collect();
    report.say(format!(
        "Writing, reading, sorting and recovery in clusters of HDFS on one machine: {}",
        circumstances.join(" ")
    ));
    let of = |system: &str, experiment: &str, column: usize| -> Option<f64> {
        let of_both = runs.iter().filter(|run| run.system == system && run.experiment == experiment);
        let values: Vec<f64> = of_both.map(|run| run.values[column]).collect();
        (!values.is_empty()).then(|| median(values))
    };
    let slides = |bar: &str| {
        Some(format!("the slides' bars: {bar} per cent on 16 nodes of two copies and an add-on in memory"))
    };
    for (experiment, column, quantity, bar) in [
        ("write", SECONDS, "time to write", "-22"),
        ("write", SENT, "bytes sent for a write", "-50"),
        ("write", WROTE, "bytes written to disks", ""),
        ("read", SECONDS, "time to read", "+3"),
        ("sort", SECONDS, "time to sort", "-9"),
        ("sort", SENT, "bytes sent for a sort", "-54"),
        ("write anew", SECONDS, "time to write anew", "+21"),
    ] {
        for (system, name) in
            [("raidp", "add-on beside its disk"), ("raidp-next", "add-on with the next node")]
        {
            if let (Some(ours), Some(theirs)) =
                (of(system, experiment, column), of("hdfs-3", experiment, column))
            {
                let change = 100.0 * (ours / theirs - 1.0);
                let quantity = format!("{quantity}, {name}, change in per cent");
                report.measured(CASE, quantity, change, None).note =
                    if bar.is_empty() { None } else { slides(bar) };
            }
        }
    }
    if let (Some(add_ons), Some(disks)) = (of("raidp", "write", ADD_ONS_WROTE), of("raidp", "write", WROTE)) {
        report.measured(CASE, "bytes written to add-ons per byte written to disks", add_ons / disks, None);
    }
    recovery(report, of);
    listing(report, &runs, &circumstances);
}

/// Adds the bytes moved until no block was missing, by the command's own count, and until all
/// blocks had their copies.
fn recovery(report: &mut Report, of: impl Fn(&str, &str, usize) -> Option<f64>) {
    const ALL: &str = "recover and restore";
    for (column, what) in [(SENT, "bytes sent"), (SECONDS, "time")] {
        let shared = of("raidp", "recover, by its own count", column);
        let (raidp, rs, three) =
            (of("raidp", ALL, column), of("rs-6-3", ALL, column), of("hdfs-3", ALL, column));
        let to_raidp = "RAIDP, until all is whole";
        for (name, ours, theirs, note) in [
            (
                "RS-6-3 until all is whole : RAIDP until nothing is missing",
                shared,
                rs,
                Some(
                    "the slides compare a RAID-6 that rebuilds a disk with a RAIDP that rebuilds a superchunk: 14",
                ),
            ),
            (&format!("RS-6-3 : {to_raidp}")[..], raidp, rs, None),
            (&format!("three replicas : {to_raidp}")[..], raidp, three, None),
        ] {
            if let (Some(ours), Some(theirs)) = (ours, theirs) {
                report.measured(RECOVERY, format!("{what}, {name}"), theirs / ours, None).note =
                    note.map(String::from);
            }
        }
    }
}

/// Returns a line for each system and experiment: medians of its rounds.
fn lines(runs: &[Run]) -> Vec<Vec<String>> {
    let mut groups: Vec<(&str, &str, Vec<&Run>)> = Vec::new();
    for run in runs {
        match groups.iter_mut().find(|group| group.0 == run.system && group.1 == run.experiment) {
            Some(group) => group.2.push(run),
            None => groups.push((run.system, run.experiment, vec![run])),
        }
    }
    let line = |(system, experiment, runs): (&str, &str, Vec<&Run>)| {
        let words = [system.to_string(), experiment.to_string(), runs.len().to_string()];
        let values = COLUMNS.iter().enumerate().map(|(column, &(_, digits))| {
            format!("{:.digits$}", median(runs.iter().map(|run| run.values[column]).collect()))
        });
        words.into_iter().chain(values).collect()
    };
    groups.into_iter().map(line).collect()
}

/// Returns all runs of the record.
fn listing(report: &mut Report, runs: &[Run], circumstances: &[&str]) {
    let head = ["system", "experiment", ">rounds"].into_iter().map(String::from);
    report.figures.push(Figure::Listing(Listing {
        title: "Clusters of HDFS: writes, reads, sorts, and two nodes lost".into(),
        caption: format!("{} Medians of rounds.", circumstances.join(" ")),
        head: head.chain(COLUMNS.iter().map(|column| format!(">{}", column.0))).collect(),
        rows: lines(runs),
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Run> {
        parts().1.map(|line| run(line).unwrap_or_else(|| panic!("{line}"))).collect()
    }

    #[test]
    fn every_line_of_the_record_is_read() {
        let runs = all();
        for (system, experiment) in [
            ("hdfs-3", "write"),
            ("raidp", "write"),
            ("raidp", "recover, by its own count"),
            ("rs-6-3", "recover and restore"),
        ] {
            let is_there = runs.iter().any(|run| run.system == system && run.experiment == experiment);
            assert!(is_there, "{system} {experiment}");
        }
    }

    #[test]
    fn the_page_has_the_record() {
        let page = include_str!("../../../../docs/hdfs.md");
        for line in lines(&all()) {
            let line = format!("| {} |", line.join(" | "));
            assert!(page.contains(&line), "docs/hdfs.md lacks {line}");
        }
    }
}
