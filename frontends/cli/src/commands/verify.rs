//! `pantile verify`: reads a sealed set and reports its faults.

use crate::failure::{Failure, Outcome, Verdict};
use crate::machine::all::{self, AllArgs, Task};
use crate::sets::{self, SetArgs, Shown, Versioned};
use crate::terminal::{Terminal, print, print_json};
use clap::Args;
use pantile_seal::{VerifyOptions, VerifyReport, verify};

/// Read a sealed set and report missing, damaged or changed data
///
/// Answers: is everything still there and right, and if not, can it be repaired? Every block is
/// read and judged by its checksum; with --ignore-checksums, or without checksums in the set, by
/// the equations of the code, which locate silent damage without any knowledge of the content.
/// Checksums find accidents; they do not resist a forger. Nothing is written. If a change was
/// interrupted after its commit, nothing is judged (status 1), and 'pantile heal' completes the
/// change.
#[derive(Args)]
#[command(after_long_help = "\
Exit status: 0 clean, 1 damaged and repairable, 2 more is lost than the code tolerates.

Examples:
  pantile verify shards
  pantile verify /disk1/photos.00.shard /disk2/photos.01.shard ...
  pantile verify shards --quiet                for a nightly job: says nothing if all is well
  pantile verify shards --ignore-checksums     locate silent damage by parity alone
  pantile verify --all                         every set of /etc/pantile/pantile.toml
  pantile verify shards --json | jq .recoverable")]
pub struct Verify {
    #[command(flatten)]
    set: SetArgs,
    #[command(flatten)]
    all: AllArgs,
    /// Judge by the equations of the code alone, as if there were no checksums.
    #[arg(long)]
    ignore_checksums: bool,
    /// Print only one line for each fault, and no progress.
    #[arg(long, short)]
    quiet: bool,
    /// Print JSON: shards, files, findings, losses.
    #[arg(long)]
    json: bool,
}

impl Verify {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        if let Some(config) = self.all.all {
            return all::run(Task::Verify, &config, terminal);
        }
        let report = Examination {
            set: self.set,
            ignore_checksums: self.ignore_checksums,
            quiet: self.quiet,
            json: self.json,
            closing: "",
        }
        .run(terminal)?;
        match (report.clean, report.recoverable) {
            (true, _) if report.survival.is_unborne => Ok(Verdict::Bad),
            (true, _) => Ok(Verdict::Good),
            (false, true) => Ok(Verdict::Bad),
            (false, false) => Err(Failure::Losses(sets::losses(report.losses.as_ref()))),
        }
    }
}

/// Reads a set and prints its faults, for `verify` and `heal --dry-run`.
pub(super) struct Examination {
    pub set: SetArgs,
    /// Judge by the equations alone.
    pub ignore_checksums: bool,
    /// Print only one line for each fault, and no progress.
    pub quiet: bool,
    pub json: bool,
    /// Last line of the text.
    pub closing: &'static str,
}

impl Examination {
    pub(super) fn run(self, terminal: &Terminal) -> Result<VerifyReport, Failure> {
        let hint = self.set.hint();
        let options = VerifyOptions { set: self.set.into_paths()?, ignore_checksums: self.ignore_checksums };
        let mut progress = Shown::unless(self.quiet, terminal);
        let result = verify(&options, &mut progress);
        progress.end();
        let report = result.map_err(|error| sets::failure(&error))?;
        match (self.json, self.quiet) {
            (true, _) => print_json(&Versioned::new(&report))?,
            (false, true) => print(&sets::faults(&report))?,
            (false, false) => {
                print(&format!("{}{}", sets::verification(&report, &hint, terminal), self.closing))?;
            }
        }
        Ok(report)
    }
}
