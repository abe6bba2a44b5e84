//! `pantile lab`: the papers' evaluations run again, as tables, JSON and a page.

use crate::commands::durability;
use crate::commands::prove::threads;
use crate::commands::{exascale, lab_delayed, lab_engine, lab_raidq, replay};
use crate::csv;
use crate::failure::{Failure, Outcome, Verdict};
use crate::files;
use crate::progress::Progress;
use crate::render::table::{Table, wrap};
use crate::terminal::{Terminal, print, print_json};
use clap::{Args, Subcommand};
use pantile_kernel::Tier;
use pantile_lab::exascale as wcl;
use pantile_lab::figure::{Figure, Listing, Quote, number};
use pantile_lab::html::deviation;
use pantile_lab::papers::{dcode_engine, dcode_load, dcode_read, executed, raidp, raidq, recovery, shec};
use pantile_lab::{Measure, Nearness, Report, page};
use std::path::{Path, PathBuf};

/// Run the experiments of the papers again, beside their numbers
///
/// Answers: are the papers right, and what would they say of my codes? The lab counts the plans
/// that volumes execute.
#[derive(Args)]
#[command(after_long_help = "\
JSON: a list of {\"experiment\", \"case\", \"quantity\", \"kind\", \"published\", \"line\", \"value\", \"deviation\"}; published and line are null where \
no document prints a number, value where it is infinite or where only the published number stands; deviation is value / published - 1.

Kinds: measured (it ran), counted (in plans and equations), simulated (a model ran), computed (a formula), fitted (a formula with a \
constant chosen to meet the document), published (the document's number alone).

Examples:
  pantile lab papers --html papers.html
  pantile lab dcode-load --json
  pantile lab shec --all
  pantile lab durability rs:10+4 lrc:12,2,2 mirror:3")]
pub struct Lab {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// D-Code, section IV: load balancing factor and I/O cost of array codes under reads and small
    /// writes
    DcodeLoad(DcodeLoad),
    /// D-Code, section V: read speed of a healthy array and of one that lost a disk
    DcodeRead(DcodeRead),
    /// D-Code, sections IV and V on the volume's own engine in virtual time, and on disks of yours
    DcodeEngine(lab_engine::Engine),
    /// Fewest reads to rebuild each disk, by family and prime, against closed forms
    Recovery(Shown),
    /// RAIDq: most data disks of each construction, and tables 2 to 4 on this machine
    Raidq(lab_raidq::Raidq),
    /// SHEC: recovery overhead, fatal sets, durability
    Shec(Shown),
    /// RAIDP: layout, recovery time, network and storage, tolerance
    Raidp(Shown),
    /// All of the above in one report
    Papers(Papers),
    /// One trace, many codes: what each would do to your disks
    Replay(replay::Replay),
    /// The Write Cache Layer paper's simulation: what a cache layer and delayed parity buy
    Exascale(exascale::Exascale),
    /// What delayed parity buys, what exactly can be lost, and for how long: model, real volume,
    /// both held together
    Delayed(lab_delayed::LabDelayed),
    /// Make a trace up: the D-Code paper's tuples, hot spots, a stream, checkpoint bursts
    Generate(replay::Generate),
    /// How likely codes are to lose data on your disks: exact fatal sets in a Markov chain, and a
    /// Monte Carlo
    Durability(Box<durability::Durability>),
}

/// How results are shown.
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
    /// Threads; they change no number.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
}

#[derive(Args)]
struct DcodeLoad {
    #[command(flatten)]
    shown: Shown,
    /// Runs of the Monte Carlo, of 2000 requests each.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Its seed.
    #[arg(long, value_name = "N", default_value_t = 2015)]
    seed: u64,
}

#[derive(Args)]
struct DcodeRead {
    #[command(flatten)]
    shown: Shown,
    /// Read real volumes of devices in memory as well, as slow as the model's disks: about three
    /// minutes.
    #[arg(long)]
    execute: bool,
    /// Milliseconds that an element takes with --execute: the longer, the less waking up late
    /// matters.
    #[arg(long, value_name = "MS", default_value_t = 16, requires = "execute", value_parser = clap::value_parser!(u64).range(1..=1000))]
    service: u64,
}

#[derive(Args)]
struct Papers {
    #[command(flatten)]
    shown: Shown,
    /// Leave out what measures this machine, so that every run gives the same bytes.
    #[arg(long)]
    no_throughput: bool,
}

type Experiment = (&'static str, Box<dyn FnOnce(usize) -> Result<Report, Failure>>);

fn experiment(name: &'static str, run: impl FnOnce(usize) -> Report + 'static) -> Experiment {
    (name, Box::new(move |threads| Ok(run(threads))))
}

impl Lab {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        let load = |runs: u32, seed: u64| -> Experiment {
            let make =
                move |threads| dcode_load::run(&dcode_load::Options { runs: runs as usize, seed, threads });
            experiment(dcode_load::NAME, make)
        };
        let raidq = |kernels: Option<Vec<Tier>>| -> Experiment {
            let make = move |_| Ok(raidq::run(&lab_raidq::speeds(&kernels.unwrap_or_default())?));
            (raidq::NAME, Box::new(make))
        };
        let read = experiment(dcode_read::NAME, dcode_read::run);
        let fewest = experiment(recovery::NAME, recovery::run);
        let shingled = experiment(shec::NAME, shec::run);
        let mirrored = experiment(raidp::NAME, raidp::run);
        let (title, shown, experiments) = match self.what {
            What::DcodeLoad(of) => ("Load balance and I/O cost", of.shown, vec![load(of.runs, of.seed)]),
            What::DcodeRead(DcodeRead { shown, execute: true, service }) => {
                return execute(shown, service, terminal);
            }
            What::DcodeRead(of) => ("Read speed of array codes", of.shown, vec![read]),
            What::DcodeEngine(of) => return of.run(terminal),
            What::Recovery(shown) => ("Fewest reads to rebuild a disk", shown, vec![fewest]),
            What::Raidq(of) if of.speeds => return lab_raidq::print_speeds(),
            What::Raidq(of) => {
                let kernels = of.kernels();
                ("RAIDq", of.shown, vec![raidq(kernels)])
            }
            What::Shec(shown) => ("SHEC", shown, vec![shingled]),
            What::Raidp(shown) => ("RAIDP", shown, vec![mirrored]),
            What::Durability(of) => return of.run(terminal),
            What::Papers(of) => {
                let asked: Experiment = (
                    dcode_engine::NAME,
                    Box::new(|threads| {
                        let options = dcode_engine::Options { threads, ..dcode_engine::Options::quick() };
                        dcode_engine::run(&options).map_err(lab_engine::failed)
                    }),
                );
                let kernels = (!of.no_throughput).then(lab_raidq::usual);
                let cached = experiment(wcl::NAME, |threads| {
                    let options = wcl::Options { threads, ..wcl::Options::quick() };
                    wcl::run(&options, &|_, _| ())
                });
                let all =
                    vec![load(30, 2015), read, asked, fewest, raidq(kernels), shingled, cached, mirrored];
                ("The papers, run again", of.shown, all)
            }
            What::Replay(replay) => return replay.run(terminal),
            What::Exascale(exascale) => return exascale.run(terminal),
            What::Delayed(delayed) => return delayed.run(terminal),
            What::Generate(generate) => return generate.run(),
        };
        if let Some(file) = &shown.html {
            can_write(file)?;
        }
        let threads = shown.threads();
        let of = experiments.len() as u64;
        let progress = Progress::start(terminal, "running experiments");
        let mut reports = Vec::new();
        for (done, (name, make)) in experiments.into_iter().enumerate() {
            progress.set(name, "experiments", done as u64, of);
            reports.push(make(threads)?);
        }
        drop(progress);
        answer(title, &shown, &reports, terminal)?;
        Ok(Verdict::Good)
    }
}

/// The model, and volumes beside it.
fn execute(shown: Shown, service_ms: u64, terminal: &Terminal) -> Outcome {
    if let Some(file) = &shown.html {
        can_write(file)?;
    }
    let mut report = dcode_read::run(shown.threads());
    let progress = Progress::start(terminal, "reading volumes");
    let service = std::time::Duration::from_millis(service_ms);
    let options = executed::Options { service, ..executed::Options::default() };
    let added = executed::add(&mut report, &options, &|done, of| {
        progress.set("reading volumes", "states", done, of);
    });
    drop(progress);
    added.map_err(|error| Failure::System(format!("--execute: {error}.")))?;
    answer("Read speed of array codes", &shown, &[report.clone()], terminal)?;
    only(report, "executed", "Executed", &shown, terminal)?;
    Ok(Verdict::Good)
}

/// Prints the cases that end in a word: no paper prints their numbers, so they would be hidden
/// without --all.
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
    report.title = title.into();
    print(&text(&report, true, terminal))
}

impl Shown {
    /// How many threads were asked for.
    pub fn threads(&self) -> usize {
        self.threads.map_or_else(threads, |threads| threads as usize)
    }
}

/// Prints reports in the form that was asked for.
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

/// The page, written aside and moved into place: a failure leaves what was there.
pub fn write_page(file: &Path, title: &str, reports: &[Report], threads: usize) -> Result<(), Failure> {
    let command: Vec<String> = std::env::args().skip(1).map(|word| quoted(&word)).collect();
    let inputs = [("version", env!("CARGO_PKG_VERSION").to_string()), ("threads", threads.to_string())]
        .map(|(name, value)| (name.to_string(), value));
    let text = page(title, &format!("pantile {}", command.join(" ")), &inputs, reports);
    files::write_whole(file, text.as_bytes()).map_err(|error| cannot_write(file, &error))
}

/// A word as a shell takes it for one.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=+:,./%@".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Says now that the page cannot be written, rather than after hours of work.
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

fn cannot_write(file: &Path, error: &std::io::Error) -> Failure {
    Failure::System(format!("--html: cannot write {}: {error}; name another file.", file.display()))
}

fn text(report: &Report, all: bool, terminal: &Terminal) -> String {
    let mut out = format!("{}\n\n", terminal.bold(&report.title));
    for paragraph in &report.text {
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
