//! `pantile compare`: codes side by side, by cost and tolerance.

use crate::args;
use crate::commands::prove;
use crate::describe;
use crate::failure::{Failure, Outcome, Verdict};
use crate::interrupt;
use crate::json::OUTPUT_VERSION;
use crate::progress::Progress;
use crate::render::table::Table;
use crate::terminal::{Terminal, print, print_json};
use clap::{Args, ValueEnum};
use pantile::{Code, Effort};
use pantile_lab::compare::{self, Line, Options, Stage};
use serde::Serialize;

/// Compare codes by space, tolerance, updates, rebuild and encoding
///
/// Answers: which of these codes suits my disks? Each line is one code. Every number is counted
/// from its equations and plans, the same ones that store data, not taken from a paper.
#[derive(Args)]
#[command(after_long_help = "\
Columns:
  overhead   bytes stored per byte of user data        rate    user data per byte stored
  claimed    columns that can be lost, as claimed      proved  the same, proved (with --prove)
  updates    parity elements changed by one data element: mean and most
  rebuild    elements read to rebuild one column, as a share of the stripe's data: mean and worst
  xor, mult  additions and multiplications of elements to encode, per data element

Rebuild numbers are those of the best plan found with --effort; '~' marks a bound: the search could not prove that no \
plan reads less. Of a stripe of more than 1500 cells some columns of each kind are planned, and '*' says so. With --prove, exit status 1 means that a claim was contradicted.

Examples:
  pantile compare dcode:7 rdp:8 raid6:6 rs:6+2
  pantile compare rs:12+4 lrc:12,2,2 shec:12,4,4 --sort rebuild
  pantile compare shec:6,4,3 cauchy:6+4 --prove --json")]
pub struct Compare {
    /// The codes: specs such as dcode:7, or paths of code files.
    #[arg(required = true, num_args = 1..)]
    codes: Vec<String>,
    /// Order the lines by this column instead of as given.
    #[arg(long, value_enum, value_name = "COLUMN")]
    sort: Option<Sort>,
    /// Order from large to small.
    #[arg(long, requires = "sort")]
    reverse: bool,
    /// Prove how many columns can be lost, on all cores, up to one more than claimed.
    #[arg(long)]
    prove: bool,
    /// Effort of the search for cheaper rebuilds: fast, thorough, or a number of search steps per
    /// column.
    #[arg(long, value_name = "EFFORT", default_value = "fast", value_parser = args::effort)]
    effort: Effort,
    /// Plan the rebuild of every column, even if the stripe is large.
    #[arg(long)]
    all_columns: bool,
    /// Print JSON: one object per code.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sort {
    Code,
    Columns,
    Overhead,
    Rate,
    Claimed,
    Updates,
    Rebuild,
    Worst,
    Xor,
    Mult,
}

#[derive(Serialize)]
struct CompareJson {
    output_version: u32,
    codes: Vec<Line>,
}

impl Compare {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        let codes: Vec<Code> = self
            .codes
            .iter()
            .map(|text| args::code(text, self.effort.into()))
            .collect::<Result<_, Failure>>()?;
        interrupt::listen();
        let progress = Progress::start(terminal, "comparing");
        let options = Options {
            effort: self.effort,
            all_columns: self.all_columns,
            proves: self.prove,
            threads: prove::threads(),
        };
        let mut lines = Vec::new();
        for code in &codes {
            let hear = |stage, done, of| {
                let (what, unit) = match stage {
                    Stage::Rebuilds => ("rebuilds".to_string(), "columns"),
                    Stage::Sets { lost } => (describe::count(lost, "lost column"), "sets"),
                };
                progress.set(format!("{code}: {what}"), unit, done, of);
                !interrupt::asked()
            };
            lines.push(compare::line(code, &options, &hear).ok_or_else(ended)?);
        }
        drop(progress);
        if let Some(sort) = self.sort {
            lines.sort_by(|a, b| order(sort, a, b));
            if self.reverse {
                lines.reverse();
            }
        }
        let holds = lines.iter().all(|line| line.proved.as_ref().is_none_or(|p| p.holds));
        match self.json {
            true => print_json(&CompareJson { output_version: OUTPUT_VERSION, codes: lines })?,
            false => print(&table(&lines, self.prove, terminal))?,
        }
        Ok(if holds { Verdict::Good } else { Verdict::Bad })
    }
}

fn ended() -> Failure {
    Failure::Interrupted("the comparison was ended before it had all numbers; nothing is printed".into())
}

fn order(sort: Sort, a: &Line, b: &Line) -> std::cmp::Ordering {
    let by = |key: fn(&Line) -> f64| key(a).total_cmp(&key(b));
    match sort {
        Sort::Code => a.code.cmp(&b.code),
        Sort::Columns => a.columns.cmp(&b.columns),
        Sort::Overhead => by(|l| l.overhead),
        Sort::Rate => by(|l| l.rate),
        Sort::Claimed => a.claim.tolerance.cmp(&b.claim.tolerance),
        Sort::Updates => by(|l| l.parities_updated.mean),
        Sort::Rebuild => by(|l| l.rebuild.mean_share),
        Sort::Worst => by(|l| l.rebuild.worst_share),
        Sort::Xor => by(|l| l.encode.additions_per_element),
        Sort::Mult => by(|l| l.encode.multiplications_per_element),
    }
}

fn table(lines: &[Line], with_proof: bool, terminal: &Terminal) -> String {
    let mut head = vec!["code", ">columns", ">overhead", ">rate", ">claimed"];
    if with_proof {
        head.push(">proved");
    }
    head.extend([">updates", ">most", ">rebuild", ">worst", ">xor", ">mult"]);
    let mut table = Table::new(&head);
    for line in lines {
        let mut row = vec![
            line.code.clone(),
            line.columns.to_string(),
            format!("{:.3}", line.overhead),
            format!("{:.1} %", 100.0 * line.rate),
            line.claim.tolerance.to_string(),
        ];
        if let Some(proved) = &line.proved {
            let mark = if proved.exact { "" } else { "+" };
            row.push(match proved.holds {
                true => format!("{}{mark}", proved.tolerance),
                false => format!("{} BELOW", proved.tolerance),
            });
        }
        let mark = if line.rebuild.bound { "~" } else { "" };
        let sampled = if line.rebuild.planned < line.columns { "*" } else { "" };
        let share = |share: f64| match line.rebuild.rebuildable {
            true => format!("{mark}{:.1} %{sampled}", 100.0 * share),
            false => "not".to_string(),
        };
        row.extend([
            format!("{:.2}", line.parities_updated.mean),
            line.parities_updated.most.to_string(),
            share(line.rebuild.mean_share),
            share(line.rebuild.worst_share),
            format!("{:.2}", line.encode.additions_per_element),
            format!("{:.2}", line.encode.multiplications_per_element),
        ]);
        table.row(row);
    }
    let mut out = table.render(terminal);
    out.push_str(
        "\nrebuild, worst: elements read to rebuild one column, as a share of the stripe's data (mean, worst column).\n",
    );
    if lines.iter().any(|line| line.rebuild.bound) {
        out.push_str("~: a bound: a cheaper plan is not ruled out; '--effort thorough' looks longer.\n");
    }
    let sampled: Vec<String> = lines
        .iter()
        .filter(|line| line.rebuild.planned < line.columns)
        .map(|line| format!("{} of {} of {}", line.rebuild.planned, line.columns, line.code))
        .collect();
    if !sampled.is_empty() {
        let sampled = sampled.join(", ");
        out.push_str(&format!("*: sampled columns ({sampled}); '--all-columns' plans all.\n"));
    }
    if lines.iter().any(|line| line.proved.as_ref().is_some_and(|p| !p.exact)) {
        out.push_str("+: proved so far; the next level was sampled ('pantile prove CODE' takes the time to count it).\n");
    }
    if lines.iter().any(|line| !line.rebuild.rebuildable) {
        out.push_str("not: the loss of a single column is fatal.\n");
    }
    out
}
