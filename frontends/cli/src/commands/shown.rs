//! Reports as text, JSON, CSV and pages, for all commands with reports.

use crate::Program;
use crate::commands::prove::threads;
use crate::csv;
use crate::failure::Failure;
use crate::files;
use crate::render::table::{Table, wrap};
use crate::terminal::{Terminal, print, print_json};
use clap::Args;
use pantile_lab::figure::{Figure, Listing, Quote, number};
use pantile_lab::html::deviation;
use pantile_lab::{Measure, Nearness, Report, page};
use std::path::{Path, PathBuf};

/// Form of the output.
#[derive(Args)]
pub struct Shown {
    /// Print every number, not only those that a paper prints.
    #[arg(long)]
    pub all: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Print every number as comma-separated values, for a spreadsheet or a program.
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Write a self-contained page with pictures.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Number of threads; it changes no result.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
}

/// Prints the cases that end in a word. No paper has their numbers, so they would be hidden without
/// --all.
pub fn only(
    mut report: Report,
    word: &str,
    title: &str,
    shown: &Shown,
    terminal: &Terminal,
) -> Result<(), Failure> {
    if shown.json || shown.csv || shown.all {
        return Ok(());
    }
    report.measures.retain(|measure| measure.case.ends_with(word));
    report.figures.clear();
    report.text.clear();
    report.answer.clear();
    report.title = title.into();
    print(&text(&report, true, terminal))
}

impl Shown {
    /// Returns the number of threads, by default that of the cores.
    pub fn threads(&self) -> usize {
        self.threads.map_or_else(threads, |threads| threads as usize)
    }
}

/// Prints reports in the requested form.
pub fn answer(title: &str, shown: &Shown, reports: &[Report], terminal: &Terminal) -> Result<(), Failure> {
    if let Some(file) = &shown.html {
        write_page(file, title, reports, shown.threads())?;
    }
    if shown.json {
        let all: Vec<&Measure> = reports.iter().flat_map(|report| &report.measures).collect();
        return print_json(&all);
    }
    if shown.csv {
        return print(&csv::measures(reports));
    }
    for report in reports {
        print(&text(report, shown.all, terminal))?;
    }
    if reports.iter().any(|report| report.published().next().is_some()) {
        print(&format!("{}\n", wrap(&Nearness::of(reports).sentence(), terminal.width).join("\n")))?;
    }
    match &shown.html {
        Some(file) => print(&format!("{} holds the pictures and every number.\n", file.display())),
        None => Ok(()),
    }
}

/// Writes the page to a new file and renames it: a failure keeps the old page.
pub fn write_page(file: &Path, title: &str, reports: &[Report], threads: usize) -> Result<(), Failure> {
    let inputs = [("version", env!("CARGO_PKG_VERSION").to_string()), ("threads", threads.to_string())]
        .map(|(name, value)| (name.to_string(), value));
    let text = page(title, &command(), &inputs, reports);
    files::write_whole(file, text.as_bytes()).map_err(|error| cannot_write(file, &error))
}

/// Returns the command that runs, in shell syntax.
pub fn command() -> String {
    let words: Vec<String> = std::env::args().skip(1).map(|word| quoted(&word)).collect();
    format!("{} {}", Program::current().name(), words.join(" "))
}

/// Returns a word in shell syntax.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=+:,./%@".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Tests if the page can be written, before hours of work.
pub fn can_write(file: &Path) -> Result<(), Failure> {
    if std::fs::metadata(file).is_ok_and(|found| found.is_dir()) {
        return Err(Failure::Input(format!(
            "--html: {} is a directory; name a file in it, such as {}",
            file.display(),
            file.join("report.html").display()
        )));
    }
    files::can_write(file).map_err(|error| cannot_write(file, &error))
}

pub fn cannot_write(file: &Path, error: &std::io::Error) -> Failure {
    Failure::System(format!("--html: cannot write {}: {error}; name another file.", file.display()))
}

fn text(report: &Report, all: bool, terminal: &Terminal) -> String {
    let mut out = format!("{}\n\n", terminal.bold(&report.title));
    for paragraph in paragraphs(report) {
        wrap(paragraph, terminal.width).iter().for_each(|line| {
            out.push_str(line);
            out.push('\n');
        });
        out.push('\n');
    }
    for figure in &report.figures {
        match figure {
            Figure::Listing(listing) => out.push_str(&self::listing(listing, terminal)),
            Figure::Quote(quote) => out.push_str(&self::quote(quote, terminal)),
            _ => {}
        }
    }
    let shown: Vec<&Measure> =
        report.measures.iter().filter(|measure| all || measure.published.is_some()).collect();
    let mut table = Table::new(&["case", "quantity", ">published", ">here", "kind", ">deviation", "remark"]);
    let value = |value: Option<f64>| value.map_or("-".to_string(), number);
    for measure in &shown {
        table.row(vec![
            measure.case.clone(),
            measure.quantity.clone(),
            value(measure.published),
            value(measure.value),
            measure.kind.name().to_string(),
            measure.deviation.map_or("-".to_string(), deviation),
            measure.note.clone().unwrap_or_default(),
        ]);
    }
    if !shown.is_empty() {
        out.push_str(&table.render(terminal));
    }
    let more = report.measures.len() - shown.len();
    if more > 0 {
        out.push_str(&format!("{more} more numbers with --all.\n"));
    }
    out.push('\n');
    out
}

/// Returns the answer of a report, if it has one, and its text.
pub fn paragraphs(report: &Report) -> impl Iterator<Item = &String> {
    Some(&report.answer).filter(|answer| !answer.is_empty()).into_iter().chain(&report.text)
}

pub fn listing(listing: &Listing, terminal: &Terminal) -> String {
    let mut table = Table::new(&listing.head.iter().map(String::as_str).collect::<Vec<_>>());
    listing.rows.iter().for_each(|row| table.row(row.clone()));
    let caption = wrap(&listing.caption, terminal.width).join("\n");
    format!("{}\n{}\n{caption}\n\n", terminal.bold(&listing.title), table.render(terminal))
}

fn quote(quote: &Quote, terminal: &Terminal) -> String {
    let lines = quote.lines.iter().map(|line| format!("    {line}\n")).collect::<String>();
    let caption = wrap(&quote.caption, terminal.width).join("\n");
    format!("{}\n{lines}{caption}\n\n", terminal.bold(&quote.title))
}
