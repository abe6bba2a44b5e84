//! `pantile-lab`: the papers' evaluations run again, as tables, JSON and a page.

use crate::Arguments;
use crate::commands::completions::Completions;
use crate::commands::search::Search;
use crate::commands::shown::{Shown, answer, can_write, only};
use crate::commands::{exascale, lab_delayed, lab_engine, lab_raidq, replay};
use crate::failure::{Failure, Outcome, Verdict};
use crate::progress::Progress;
use crate::terminal::{Color, Terminal};
use clap::{Args, CommandFactory, Parser, Subcommand};
use pantile_kernel::Tier;
use pantile_lab::Report;
use pantile_lab::exascale as wcl;
use pantile_lab::papers::{
    dcode_engine, dcode_load, dcode_read, executed, raidp, raidp_engine, raidq, recovery, shec,
};

/// Experiments of the papers on erasure codes, run again beside their numbers.
///
/// Answers: are the papers right, and what are the numbers of my codes? The lab counts the plans
/// that volumes execute.
#[derive(Parser)]
#[command(name = "pantile-lab", version, max_term_width = 100, subcommand_required = true)]
#[command(arg_required_else_help = true, disable_help_subcommand = false)]
#[command(after_help = "\
Exit status: that of all commands, see 'pantile --help'. Codes for your disks and your workload: 'pantile advise', 'pantile replay' and \
'pantile durability'.")]
#[command(after_long_help = "\
JSON: a list of {\"experiment\", \"case\", \"quantity\", \"kind\", \"published\", \"line\", \"value\", \"deviation\"}; published and line are null where \
no document prints a number, value where it is infinite or where only the published number stands; deviation is value / published - 1.

Kinds: measured (it ran), counted (in plans and equations), simulated (a model ran), computed (a formula), fitted (a formula with a \
constant chosen to meet the document), published (the document's number alone).

Examples:
  pantile-lab papers --html papers.html
  pantile-lab dcode-load --json
  pantile-lab shec --all
  pantile-lab search raidq4 --norm-one --top 3")]
pub struct Lab {
    /// When to use colours; they are also off when NO_COLOR is set.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    color: Color,
    #[command(subcommand)]
    what: What,
}

impl Arguments for Lab {
    fn color(&self) -> Color {
        self.color
    }
}

/// Returns the definition of the command.
pub fn definition() -> clap::Command {
    Lab::command()
}

#[derive(Subcommand)]
enum What {
    /// D-Code, section IV: load balancing factor and I/O cost of array codes under reads and small
    /// writes
    DcodeLoad(DcodeLoad),
    /// D-Code, section V: read speed of a healthy array and of one that lost a disk
    DcodeRead(DcodeRead),
    /// D-Code, sections IV and V on the volume's own engine in virtual time, and on your disks
    DcodeEngine(lab_engine::Engine),
    /// Fewest reads to rebuild each disk, by family and prime, against closed forms
    Recovery(Shown),
    /// RAIDq: most data disks of each construction, and tables 2 to 4 on this machine
    Raidq(lab_raidq::Raidq),
    /// SHEC: recovery overhead, fatal sets, durability
    Shec(Shown),
    /// RAIDP: layout, recovery time, network and storage, tolerance
    Raidp(Raidp),
    /// All of the above in one report
    Papers(Papers),
    /// The Write Cache Layer paper's simulation: gains of a cache layer and of delayed parity
    Exascale(exascale::Exascale),
    /// Delayed parity: its gains, the data that can be lost, and for how long, by model and by real
    /// volume
    Delayed(lab_delayed::LabDelayed),
    /// Generate a trace: the D-Code paper's tuples, hot spots, a stream, checkpoint bursts
    Generate(replay::Generate),
    Search(Search),
    Completions(Completions),
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
    /// Also read real volumes of devices in memory, as slow as the model's disks: about three
    /// minutes.
    #[arg(long)]
    execute: bool,
    /// Milliseconds that an element takes with --execute. The longer, the less late wake-ups
    /// matter.
    #[arg(long, value_name = "MS", default_value_t = 16, requires = "execute", value_parser = clap::value_parser!(u64).range(1..=1000))]
    service: u64,
}

#[derive(Args)]
struct Papers {
    #[command(flatten)]
    shown: Shown,
    /// Omit measurements of this machine, so that every run gives the same bytes.
    #[arg(long)]
    no_throughput: bool,
}

#[derive(Args)]
struct Raidp {
    #[command(flatten)]
    shown: Shown,
    /// Also run volumes of RAIDP, of two and three copies and of RAID-6 on 16 disks in virtual
    /// time: write, write again, read, one disk lost, two lost.
    #[arg(long)]
    execute: bool,
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
            What::Raidp(of) => {
                let mut all = vec![mirrored];
                if of.execute {
                    let make = |threads| {
                        let options = raidp_engine::Options { threads, ..raidp_engine::Options::default() };
                        raidp_engine::run(&options).map_err(lab_engine::failed)
                    };
                    all.push((raidp_engine::NAME, Box::new(make)));
                }
                ("RAIDP", of.shown, all)
            }
            What::Search(search) => return search.run(terminal),
            What::Completions(completions) => return completions.run(),
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

/// Runs the model, and real volumes beside it.
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
