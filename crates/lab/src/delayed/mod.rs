//! One page on delayed parity: its gain, the data that can be lost, and for how long.
//!
//! Four reports: the answer ([`NAME`]); the paper's figure 3, simulated ([`crate::exascale`]); the
//! measurements of a real volume ([`record`]: the committed record, with its circumstances); and
//! the comparison of both ([`compared`]).
//!
//! Every printed bound is the constant or the default that the volume uses, and the printed
//! program is the example.

pub mod compared;
pub mod record;

use crate::Report;
use crate::exascale::{self, Scaling};
use crate::figure::{Figure, Listing, Quote};
use compared::Compared;
use pantile_host::EpochOptions;
use pantile_volume::{BLOCK_BYTES, DIRTY_BLOCKS_MARK, DIRTY_BLOCKS_MOST};
use record::{Record, RecordError};
use std::fmt;
use std::path::PathBuf;

/// The name of the experiment.
pub const NAME: &str = "delayed";

/// Options of the page.
#[derive(Clone, Debug)]
pub struct Options {
    /// The simulation.
    pub exascale: exascale::Options,
    /// Record of a real volume; by default the committed one.
    pub record: String,
    /// Codes for which simulation and volume are compared.
    pub codes: Vec<pantile::Code>,
    /// Folder for throttled files, on which real volumes do the same; it takes some 300 MB, and
    /// seconds of this machine.
    pub folder: Option<PathBuf>,
}

/// Reason why there is no page.
#[derive(Debug)]
pub enum DelayedError {
    /// The record cannot be read.
    Record(RecordError),
    /// Simulation and volume could not be compared.
    Check(exascale::cross_check::CheckError),
}

impl fmt::Display for DelayedError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DelayedError::Record(error) => error.fmt(out),
            DelayedError::Check(error) => error.fmt(out),
        }
    }
}

impl std::error::Error for DelayedError {}

/// Simulates, compares and returns the reports. `progress` receives the stage, the work done and
/// the work in all.
///
/// Errors: the record cannot be read; a code has no place in the simulation.
pub fn run(
    options: &Options,
    progress: &(dyn Fn(&'static str, u64, u64) + Sync),
) -> Result<Vec<Report>, DelayedError> {
    let record = Record::parse(&options.record).map_err(DelayedError::Record)?;
    let mut compared = Vec::new();
    for (done, code) in (0..).zip(&options.codes) {
        progress("volumes", done, options.codes.len() as u64);
        compared.push(Compared::new(code, options.folder.as_deref()).map_err(DelayedError::Check)?);
    }
    let simulated = exascale::run(&options.exascale, &|done, of| progress("simulations", done, of));
    let answer = answer(&simulated, &record, &compared);
    Ok(vec![answer, simulated, record.report(), compared::report(&compared)])
}

/// Returns the gain and the possible losses.
fn answer(simulated: &Report, record: &Record, compared: &[Compared]) -> Report {
    let mut report = Report::new(NAME, "Gain and possible losses");
    report.say(
        "A program that writes a checkpoint can write it again. So it can use an epoch: until the epoch ends, its writes are answered when the data are on the devices, and \
         parity is pending. The end makes all parity at once and commits it with one record. Until then other clients read the old content.",
    );
    report.answer = format!("{} {}", bought_on_a_volume(record), bought_in_the_model(simulated));
    if let Some(first) = compared.first() {
        report.say(format!(
            "Why they differ: in the model every write makes its own parity, and a volume commits waiting writes together. For {} the model has delayed/std {:.2} and wcl/std {:.2} where the \
             volume, on devices of the same service times, has {:.2} and {:.2}. One request at a time both do the same operations, with the exceptions named below.",
            first.code, first.model.delayed, first.model.wcl, first.volume().delayed, first.volume().wcl
        ));
    }
    let losses = losses(&mut report);
    report.figures.push(Figure::Listing(losses));
    report.figures.push(Figure::Quote(three_lines()));
    report
}

fn bought_in_the_model(simulated: &Report) -> String {
    let of = |level: &str| {
        let prefix = format!("{level}-hdd-{}", Scaling::Weak.name());
        let found =
            simulated.measures.iter().filter(|m| m.case.starts_with(&prefix) && m.quantity == "delayed/std");
        let values: Vec<f64> = found.filter_map(|measure| measure.value).collect();
        let (least, most) = values.iter().fold((f64::INFINITY, 0.0_f64), |(l, m), &v| (l.min(v), m.max(v)));
        (!values.is_empty()).then(|| format!("{least:.1} to {most:.1} times ({level})"))
    };
    let said: Vec<String> = ["raid5", "raid6"].into_iter().filter_map(of).collect();
    match said.is_empty() {
        true => "In the paper's model: see below.".into(),
        false => format!(
            "In the paper's model, with hard disks and weak scaling, delayed parity writes {} as fast as a standard RAID, the more the more clients there are; the paper says up to 3 times for RAID-5.",
            said.join(" and ")
        ),
    }
}

fn bought_on_a_volume(record: &Record) -> String {
    let range = |piece: &str| {
        let ratios: Vec<f64> =
            record.rows.iter().filter(|row| row.piece == piece).map(record::Row::delayed_over_wcl).collect();
        let (least, most) = ratios.iter().fold((f64::INFINITY, 0.0_f64), |(l, m), &v| (l.min(v), m.max(v)));
        format!("{least:.2} to {most:.2} times with pieces of {piece}")
    };
    let mut pieces: Vec<&str> = record.rows.iter().map(|row| row.piece.as_str()).collect();
    pieces.sort_unstable();
    pieces.dedup();
    pieces.sort_by_key(|piece| piece.len());
    let lost = record.lost_cells();
    let losing = match lost.is_empty() {
        true => "Never slower.".to_string(),
        false => format!("Slower in {} of {} cells: {}.", lost.len(), record.rows.len(), lost.join(", ")),
    };
    format!(
        "On a real volume, against strict wcl with every write durable: {}. {losing} \"Up to 3 times\" is not reached.",
        pieces.into_iter().map(range).collect::<Vec<_>>().join(", ")
    )
}

/// Returns the possible losses by a crash, by lost devices, and by both.
fn losses(report: &mut Report) -> Listing {
    let EpochOptions { owed_bytes_max, age_max, idle_max, .. } = EpochOptions::default();
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    let memory = mib(DIRTY_BLOCKS_MOST as u64 * BLOCK_BYTES);
    let seconds = age_max.map_or("no limit".to_string(), |age| format!("{} s", age.as_secs()));
    let idle = idle_max.map_or("ever".to_string(), |idle| format!("{} min", idle.as_secs() / 60));
    let measured = [
        ("epoch, before END", "bytes without parity at most, by default", owed_bytes_max as f64),
        (
            "epoch, before END",
            "seconds until parity is made in advance, by default",
            age_max.map_or(f64::INFINITY, |age| age.as_secs_f64()),
        ),
        (
            "epoch, before END",
            "seconds of silence until it is aborted, by default",
            idle_max.map_or(f64::INFINITY, |idle| idle.as_secs_f64()),
        ),
        ("plain, before FLUSH", "bytes not durable at most", (DIRTY_BLOCKS_MOST as u64 * BLOCK_BYTES) as f64),
    ];
    for (case, quantity, value) in measured {
        report.computed(case, quantity, value, None);
    }
    let row = |cells: [&str; 5]| cells.map(String::from).to_vec();
    let (owed, mark) = (mib(owed_bytes_max), mib(DIRTY_BLOCKS_MARK as u64 * BLOCK_BYTES));
    Listing {
        title: "What can be lost".into(),
        caption: format!(
            "A crash: the power fails, or the program that serves the volume is killed. Devices lost: as many as the code tolerates, while everything runs. Strict: each write durable before it is answered, or \
             flushed. Data that was durable before is never lost: an epoch's stripes are its own. Each epoch has a budget, which can be set: {owed} of pending parity. Blocks older than {seconds} get their parity in \
             advance, and writers wait while more is pending. An epoch that is silent for {idle} is aborted, or sealed if that was asked. Held by simulations with crashes, lost devices and planted faults: cargo \
             test --release -p pantile-sim --test sim -- epochs_end_whole_or_leave_no_trace the_volume_loses_nothing."
        ),
        head: ["written how", "what happens", ">at most", "for how long", "what is lost"]
            .map(String::from)
            .to_vec(),
        rows: vec![
            row(["strict wcl", "a crash, devices lost, both", "0", "never", "nothing"]),
            row([
                "plain, before FLUSH",
                "a crash, or both",
                &memory,
                "until FLUSH",
                &format!(
                    "any of these writes; each block is as before or as written. A commit begins by itself at {mark}; no clock begins one"
                ),
            ]),
            row([
                "plain, before FLUSH",
                "devices lost",
                "0",
                "never",
                "nothing: data stay in memory until they are durable with their parity",
            ]),
            row([
                "epoch, before END",
                "a crash",
                "the epoch",
                "until END",
                "the epoch as a whole: the content from before its begin is back. A FLUSH within it does not change that",
            ]),
            row([
                "epoch, before END",
                "devices lost",
                &owed,
                &format!("{seconds}, then parity is made"),
                "the epoch's blocks that only those devices had: no longer in memory, without parity yet; so at most their share of the pending parity. The ranges are reported, and END is refused until they are written again",
            ]),
            row([
                "epoch, before END",
                "both",
                "the epoch",
                "until END",
                "the epoch as a whole, and nothing else",
            ]),
            row([
                "epoch, while END runs",
                "a crash, or both",
                "the epoch",
                "while it runs",
                "all of the epoch or nothing of it: one record decides",
            ]),
            row(["epoch, after END", "a crash, devices lost, both", "0", "never", "nothing"]),
        ],
    }
}

/// Returns the function of the example, without its heading.
fn three_lines() -> Quote {
    let from =
        pantile_host::CHECKPOINT_EXAMPLE.lines().skip_while(|line| !line.starts_with("fn checkpoint("));
    let mut lines: Vec<String> = Vec::new();
    for line in from {
        lines.push(line.to_string());
        if line == "}" {
            break;
        }
    }
    Quote {
        title: "Three lines: begin, write, end".into(),
        caption: "From crates/host/examples/checkpoint.rs, a program that is killed in the middle and continues from the last sealed checkpoint: cargo run --release -p pantile-host \
                  --example checkpoint -- FOLDER 100. Over the control socket: pantile delayed start, end, abort, status."
            .into(),
        lines,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_are_those_of_the_example() {
        let lines = three_lines().lines;
        for word in ["handle.begin(", "epoch.write(", "epoch.end()"] {
            assert_eq!(lines.iter().filter(|line| line.contains(word)).count(), 1, "{word} in {lines:?}");
        }
        assert_eq!(lines.last().map(String::as_str), Some("}"));
    }

    #[test]
    fn the_bounds_are_those_of_the_volume() {
        let mut report = Report::new(NAME, "");
        let listing = losses(&mut report);
        let of = |quantity| report.find("epoch, before END", quantity);
        assert_eq!(of("bytes without parity at most, by default"), Some(268_435_456.0));
        assert_eq!(of("seconds until parity is made in advance, by default"), Some(30.0));
        assert_eq!(listing.rows[4][2..4], ["256 MiB", "30 s, then parity is made"], "{:?}", listing.rows[4]);
        assert_eq!((&listing.rows[1][2][..], listing.rows[1][4].contains("at 16 MiB")), ("128 MiB", true));
        assert!(listing.rows.iter().all(|row| row.len() == listing.head.len()));
    }
}
