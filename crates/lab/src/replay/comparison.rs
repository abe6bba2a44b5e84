//! The codes of a replay side by side: the table that the terminal prints and the page includes.

use super::{Options, Replayed};
use crate::Report;
use crate::figure::{Listing, number};

/// Heading of each column, and the quantity that it shows.
const COLUMNS: [(&str, &str); 8] = [
    (">read", "blocks read"),
    (">written", "blocks written"),
    (">per user block", "blocks per user block"),
    (">write ampl.", "write amplification"),
    (">old read", "read-modify-write, blocks read"),
    (">parity", "parity, blocks written"),
    (">busiest/mean", "busiest device over the mean"),
    (">rebuild", "rebuild reads over the stripe's data, mean over devices"),
];

/// Further columns where the engine was driven.
const DRIVEN: [(&str, &str); 3] = [
    (">moved back", "move-back, blocks written"),
    (">rebuild read", "rebuild, blocks read"),
    (">in log", "blocks in the log at the end"),
];

/// Further columns where devices take time.
const TIMED: [(&str, &str); 4] = [
    (">read p50", "latency of reads, p50, ms"),
    (">read p99", "latency of reads, p99, ms"),
    (">write p50", "latency of writes, p50, ms"),
    (">write p99", "latency of writes, p99, ms"),
];

/// Returns a line per code, of numbers in the report.
pub(super) fn comparison(report: &Report, replayed: &[Replayed], options: &Options) -> Listing {
    let driven = DRIVEN.iter().filter(|_| options.is_driven());
    let timed = TIMED.iter().filter(|_| options.device.is_some());
    let delays = options.windows.iter().map(|window| {
        (
            format!(">after {window}"),
            format!("blocks moved per block written, gathered over {window} requests"),
        )
    });
    let columns: Vec<(String, String)> = COLUMNS
        .iter()
        .chain(driven)
        .chain(timed)
        .map(|&(head, of)| (head.into(), of.into()))
        .chain(delays)
        .collect();
    let rows = replayed.iter().map(|one| {
        let case = one.code.spec();
        let value = |quantity: &str| report.find(case, quantity).map_or("-".to_string(), number);
        std::iter::once(case.to_string()).chain(columns.iter().map(|(_, of)| value(of))).collect()
    });
    Listing {
        title: "The codes side by side".into(),
        caption: match options.device {
            None => "Blocks of 4 KiB, counted.".into(),
            Some(_) => "Blocks of 4 KiB, counted; latencies in milliseconds, simulated.".into(),
        },
        rows: rows.collect(),
        head: std::iter::once("code".to_string())
            .chain(columns.iter().map(|(head, _)| head.clone()))
            .collect(),
    }
}
