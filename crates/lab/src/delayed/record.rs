//! Measurements of a real volume with checkpoints: the text that `crates/host/examples/delayed`
//! prints and `benches/volume` keeps.
//!
//! Lines before the table state the circumstances. The table has a heading, and a row for each
//! code and size of a piece. Ratios are computed again from the rates, so that a record cannot
//! contradict itself.

use crate::Report;
use crate::figure::{Figure, Heat, HeatRow, Listing, number};
use std::fmt;

/// The name of the experiment.
pub const NAME: &str = "delayed-record";

/// The committed record.
pub const COMMITTED: &str = include_str!("../../records/delayed.txt");

/// Maximum of rows in a record: the program writes two for each code, and has a few dozen codes. A
/// row becomes eight measures and lines of two figures, some hundred times its bytes.
pub const ROWS_MAX: usize = 2000;

/// Maximum of lines before the table.
pub const CIRCUMSTANCES_MAX: usize = 200;

/// Upper bound of rates, in pieces a second: a clock of nanoseconds cannot measure more.
const RATE_MAX: f64 = 1e9;

/// Lower bound of rates: one piece in days. Ratios of rates within the bounds can be printed.
const RATE_MIN: f64 = 1e-6;

/// A record.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The command, the machine, and its other load.
    pub circumstances: Vec<String>,
    /// Rows by code and piece.
    pub rows: Vec<Row>,
}

/// Rates of one code and piece size, in pieces a second.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The code.
    pub code: String,
    /// The size of a piece, as `128 KiB`.
    pub piece: String,
    /// Rate without an epoch, each write durable.
    pub wcl: f64,
    /// Rate in an epoch, including its end.
    pub delayed: f64,
    /// Rate of the same disks without a volume.
    pub bare: f64,
}

impl Row {
    /// Returns the gain of delayed parity.
    pub fn delayed_over_wcl(&self) -> f64 {
        self.delayed / self.wcl
    }

    fn ratios(&self) -> [f64; 2] {
        [self.delayed_over_wcl(), self.bare / self.wcl]
    }

    fn case(&self) -> String {
        format!("{} {}", self.code, self.piece)
    }
}

const RATIOS: [&str; 2] = ["delayed/wcl", "bare disks/wcl"];

/// Reason why a text is no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// There is no heading, or nothing beneath it.
    Empty,
    /// More rows, or more lines before them, than the maximum.
    TooMany {
        /// Rows or lines.
        what: &'static str,
        /// The maximum.
        most: usize,
    },
    /// A row that cannot be read.
    Row {
        /// Its number, from 1.
        number: usize,
        /// Its text, or the beginning of it.
        text: String,
    },
}

impl fmt::Display for RecordError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::Empty => {
                write!(
                    out,
                    "the record has no table; give what 'cargo run --release -p pantile-host --example delayed' prints"
                )
            }
            RecordError::TooMany { what, most } => {
                write!(out, "the record has more than {most} {what}, and no more are read")
            }
            RecordError::Row { number, text } => write!(
                out,
                "line {number} of the record, {text:?}, is no row of it: code, piece, unit and at least three rates above 0, up to {RATE_MAX:e}"
            ),
        }
    }
}

impl std::error::Error for RecordError {}

impl Record {
    /// Reads a record.
    ///
    /// Errors: no table; a row without its rates; more rows or lines than are read.
    pub fn parse(text: &str) -> Result<Record, RecordError> {
        let is_head = |line: &&str| line.starts_with("code ");
        let circumstances: Vec<String> = text
            .lines()
            .take_while(|line| !is_head(line))
            .map(str::trim)
            .filter(|l| !l.is_empty())
            .map(String::from)
            .take(CIRCUMSTANCES_MAX + 1)
            .collect();
        if circumstances.len() > CIRCUMSTANCES_MAX {
            return Err(RecordError::TooMany { what: "lines before its table", most: CIRCUMSTANCES_MAX });
        }
        let mut rows = Vec::new();
        let table = text.lines().enumerate().skip_while(|(_, line)| !is_head(line)).skip(1);
        for (at, line) in table.filter(|(_, line)| !line.trim().is_empty()) {
            let bad = || RecordError::Row { number: at + 1, text: line.chars().take(60).collect() };
            if rows.len() == ROWS_MAX {
                return Err(RecordError::TooMany { what: "rows", most: ROWS_MAX });
            }
            rows.push(row(line).ok_or_else(bad)?);
        }
        if rows.is_empty() { Err(RecordError::Empty) } else { Ok(Record { circumstances, rows }) }
    }

    /// Returns the cells in which delayed parity is slower than wcl.
    pub fn lost_cells(&self) -> Vec<String> {
        let lost = self.rows.iter().filter(|row| row.delayed < row.wcl);
        lost.map(|row| format!("{} ({:.2})", row.case(), row.delayed_over_wcl())).collect()
    }

    pub(super) fn report(&self) -> Report {
        let mut report = Report::new(NAME, "A real volume, measured");
        report.say(
            "32 writers write a checkpoint in pieces to a range that was never written; every piece is durable when it is answered. wcl makes parity at once, delayed at the end of \
             the epoch, which is included. Bare: the same disks, each piece written and flushed, no volume. The disks are memory as slow as a disk: ratios are valid, rates are of no machine.",
        );
        self.circumstances.iter().for_each(|line| report.say(format!("The record says: {line}")));
        let lost = self.lost_cells();
        if !lost.is_empty() {
            report.say(format!("Slower with delayed parity than with wcl: {}.", lost.join(", ")));
        }
        for row in &self.rows {
            for (quantity, rate) in [("wcl", row.wcl), ("delayed", row.delayed), ("bare disks", row.bare)] {
                report.measured(row.case(), format!("{quantity}, pieces a second"), rate, None);
            }
            for (quantity, ratio) in RATIOS.into_iter().zip(row.ratios()) {
                let measure = report.measured(row.case(), quantity, ratio, None);
                measure.note =
                    (quantity == "delayed/wcl" && ratio < 1.0).then(|| "slower than without".into());
            }
        }
        let most = self.rows.iter().flat_map(Row::ratios).fold(1.0, f64::max);
        let heat_row = |row: &Row| HeatRow {
            name: row.case(),
            values: row.ratios().map(Some).to_vec(),
            shades: row.ratios().map(|ratio| Some((ratio - 1.0) / (most - 1.0))).to_vec(),
        };
        report.figures.push(Figure::Heat(Heat {
            title: "What was measured, as ratios".into(),
            caption: "Without shade: no gain, or a loss. Bare disks have no redundancy; they bound the speed of a volume.".into(),
            columns: RATIOS.map(String::from).to_vec(),
            rows: self.rows.iter().map(heat_row).collect(),
        }));
        report.figures.push(Figure::Listing(Listing {
            title: "Pieces a second".into(),
            caption: "Medians of three runs.".into(),
            head: ["code", "piece", ">wcl", ">delayed", ">bare disks", ">delayed/wcl"]
                .map(String::from)
                .to_vec(),
            rows: self
                .rows
                .iter()
                .map(|row| {
                    let numbers = [row.wcl, row.delayed, row.bare].map(|rate| format!("{rate:.0}"));
                    let ratio = number((100.0 * row.delayed_over_wcl()).round() / 100.0);
                    [row.code.clone(), row.piece.clone()].into_iter().chain(numbers).chain([ratio]).collect()
                })
                .collect(),
        }));
        report
    }
}

/// Maximum of the length of a code's name.
const CODE_BYTES_MAX: usize = 64;

fn row(line: &str) -> Option<Row> {
    let mut words = line.split_whitespace();
    let code = words.next().filter(|code| code.len() <= CODE_BYTES_MAX)?;
    let (size, unit) = (words.next()?, words.next()?);
    let size: u64 = size.parse().ok()?;
    let mut rate = || words.next()?.parse::<f64>().ok().filter(|rate| (RATE_MIN..=RATE_MAX).contains(rate));
    let (wcl, delayed, bare) = (rate()?, rate()?, rate()?);
    (unit == "K").then(|| Row { code: code.into(), piece: format!("{size} KiB"), wcl, delayed, bare })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_no_name_that_fills_a_page() {
        let line = |code: &str| row(&format!("{code} 128 K 1 2 3"));
        assert!(
            line(&"a".repeat(CODE_BYTES_MAX)).is_some() && line(&"a".repeat(CODE_BYTES_MAX + 1)).is_none()
        );
    }

    #[test]
    fn the_committed_record_is_read_and_its_ratios_are_those_of_its_rates() {
        let record = Record::parse(COMMITTED).expect("the record");
        assert!(record.rows.len() >= 8 && !record.circumstances.is_empty());
        let printed = COMMITTED.lines().filter(|line| line.contains(" K "));
        for (line, row) in printed.zip(&record.rows) {
            let last: Vec<f64> =
                line.split_whitespace().rev().take(2).filter_map(|word| word.parse().ok()).collect();
            let ours = [row.bare / row.wcl, row.delayed_over_wcl()];
            for (printed, ours) in last.into_iter().zip(ours) {
                assert!((printed - ours).abs() < 0.006, "{line}: {ours}");
            }
        }
        let report = record.report();
        let losing = record.rows.iter().filter(|row| row.delayed < row.wcl).count();
        assert_eq!(record.lost_cells().len(), losing);
        let noted =
            report.measures.iter().filter(|m| m.note.as_deref() == Some("slower than without")).count();
        assert_eq!(noted, losing);
    }

    #[test]
    fn more_than_the_program_ever_writes_is_refused() {
        let head = "code piece wcl delayed bare\n";
        let row = "a 4 K 1 1 1\n";
        let of = |rows: usize| Record::parse(&format!("{head}{}", row.repeat(rows)));
        assert_eq!(of(ROWS_MAX).map(|record| record.rows.len()), Ok(ROWS_MAX));
        let error = of(ROWS_MAX + 1).expect_err("one too many");
        assert_eq!(error.to_string(), "the record has more than 2000 rows, and no more are read");
        let lines = |lines: usize| Record::parse(&format!("{}{head}{row}", "a machine\n".repeat(lines)));
        assert!(lines(CIRCUMSTANCES_MAX).is_ok());
        assert!(matches!(lines(CIRCUMSTANCES_MAX + 1), Err(RecordError::TooMany { .. })));
    }

    #[test]
    fn bad_records_are_refused_with_the_bad_line() {
        assert_eq!(Record::parse(""), Err(RecordError::Empty));
        assert_eq!(Record::parse("a machine\n"), Err(RecordError::Empty));
        let head = "code piece wcl delayed bare\n";
        for row in [
            "raid5:5 4 K 1 2",
            "raid5:5 4 M 1 2 3",
            "raid5:5 x K 1 2 3",
            "raid5:5 4 K 1 0 3",
            "raid5:5 4 K 1 inf 3",
            "raid5:5 4 K 1 NaN 3",
            "raid5:5 4 K 1 1e300 3",
            "raid5:5 4 K 1 1e-300 3",
            "\u{0}",
        ] {
            let found = Record::parse(&format!("a machine\n{head}raid5:4 4 K 1 2 3\n{row}\n"));
            assert!(matches!(found, Err(RecordError::Row { number: 4, .. })), "{row}: {found:?}");
        }
    }
}
