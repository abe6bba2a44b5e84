//! `pantile verify`: reads a sealed set and reports its faults.

use crate::args;
use crate::failure::{Failure, Outcome, Verdict};
use crate::machine::all::{self, AllArgs, Task};
use crate::sets::{self, SetArgs, Shown, Versioned};
use crate::terminal::{Terminal, print, print_json};
use clap::Args;
use pantile_seal::{Share, VerifyOptions, VerifyReport, verify};
use std::ffi::OsString;

/// Read a sealed set and report missing, damaged or changed data
///
/// Answers: is everything still there and right, and if not, can it be repaired? Every block is
/// read and judged by its checksum; with --ignore-checksums, or without checksums in the set, by
/// the equations of the code, which locate silent damage without any knowledge of the content.
/// Checksums find accidents; they do not resist a forger. Nothing is written, except with --share.
/// If a change was interrupted after its commit, nothing is judged (status 1), and 'pantile heal'
/// completes the change.
#[derive(Args)]
#[command(mut_arg("all", |all| all.exclusive(false).conflicts_with_all(ONE_SET)))]
#[command(mut_arg("paths", |paths| paths.required_unless_present("all").required(false)))]
#[command(after_long_help = "\
Exit status: 0 clean, 1 damaged and repairable, 2 more is lost than the code tolerates.

Examples:
  pantile verify shards
  pantile verify /disk1/photos.00.shard /disk2/photos.01.shard ...
  pantile verify shards --quiet                for a nightly job: says nothing if all is well
  pantile verify shards --quiet --ignore-changes    the same of files in use: rot alone
  pantile verify shards --ignore-checksums     locate silent damage by parity alone
  pantile verify shards --share 3% --older-than 10d    each night a part, the oldest first
  pantile verify --all                         every set of /etc/pantile/pantile.toml; with --quiet, too
  pantile verify shards --json | jq .recoverable")]
pub struct Verify {
    #[command(flatten)]
    set: SetArgs,
    #[command(flatten)]
    all: AllArgs,
    /// Judge by the equations of the code alone, as if there were no checksums.
    #[arg(long)]
    ignore_checksums: bool,
    /// Read only this share of the blocks: those that were read the longest ago. NAME.verified
    /// beside the shards stores which.
    #[arg(long, value_name = "P%", value_parser = share)]
    share: Option<u32>,
    /// With --share: leave out what was read and good within this time, such as 10d.
    #[arg(long, value_name = "TIME", requires = "share", value_parser = args::seconds)]
    older_than: Option<u64>,
    /// Count files that were changed or renamed since the seal as good. Rot, missing files and
    /// missing shards are not.
    #[arg(long)]
    ignore_changes: bool,
    /// Print only one line for each fault, and no progress.
    #[arg(long, short)]
    quiet: bool,
    /// Print JSON: shards, files, findings, losses.
    #[arg(long)]
    json: bool,
}

impl Verify {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        let share = self.share.map(|millionths| {
            let older_than_s = self.older_than.unwrap_or(0);
            Share { millionths, older_than_s }
        });
        if let Some(config) = self.all.all {
            let mut more = share.map_or_else(Vec::new, share_words);
            more.extend(self.ignore_changes.then(|| "--ignore-changes".into()));
            more.extend(self.quiet.then(|| "--quiet".into()));
            return all::run(Task::Verify, &config, &more, terminal);
        }
        let report = Examination {
            set: self.set,
            ignore_checksums: self.ignore_checksums,
            ignore_changes: self.ignore_changes,
            share,
            quiet: self.quiet,
            json: self.json,
            closing: "",
        }
        .run(terminal)?;
        match (report.clean, report.recoverable) {
            (true, _) if report.survival.is_unborne => Ok(Verdict::Bad),
            (true, _) => Ok(Verdict::Good),
            (false, true) if self.ignore_changes && sets::is_changed_only(&report) => Ok(Verdict::Good),
            (false, true) => Ok(Verdict::Bad),
            (false, false) => Err(Failure::Losses(sets::losses(report.losses.as_ref()))),
        }
    }
}

/// Options that name one set, or the form of one report.
const ONE_SET: [&str; 7] = ["paths", "name", "disks", "pin", "effort", "ignore_checksums", "json"];

/// Reads a share in percent, in millionths.
fn share(text: &str) -> Result<u32, String> {
    let percent: Option<f64> = text.strip_suffix('%').and_then(|number| number.trim().parse().ok());
    let in_range = percent.filter(|percent| *percent > 0.0 && *percent <= 100.0);
    let millionths = in_range.map(|percent| ((percent * 10_000.0).ceil()) as u32);
    millionths.ok_or_else(|| "expected a share such as 3% or 0.5%".into())
}

/// Returns the options that name a share again.
fn share_words(share: Share) -> Vec<OsString> {
    let percent = format!("{}%", f64::from(share.millionths) / 10_000.0);
    ["--share".into(), percent.into(), "--older-than".into(), format!("{}s", share.older_than_s).into()]
        .into()
}

/// Reads a set and prints its faults, for `verify` and `heal --dry-run`.
pub(super) struct Examination {
    pub set: SetArgs,
    /// Judge by the equations alone.
    pub ignore_checksums: bool,
    /// Print no line for changed files if quiet.
    pub ignore_changes: bool,
    /// Read only a part.
    pub share: Option<Share>,
    /// Print only one line for each fault, and no progress.
    pub quiet: bool,
    pub json: bool,
    /// Last line of the text.
    pub closing: &'static str,
}

impl Examination {
    pub(super) fn run(self, terminal: &Terminal) -> Result<VerifyReport, Failure> {
        let hint = self.set.hint();
        let (ignore_checksums, share) = (self.ignore_checksums, self.share);
        let options = VerifyOptions { set: self.set.into_paths()?, ignore_checksums, share };
        let mut progress = Shown::unless(self.quiet, terminal);
        let result = verify(&options, &mut progress);
        progress.end();
        let report = result.map_err(|error| sets::failure(&error))?;
        match (self.json, self.quiet) {
            (true, _) => print_json(&Versioned::new(&report))?,
            (false, true) => print(&sets::faults(&report, self.ignore_changes))?,
            (false, false) => {
                print(&format!("{}{}", sets::verification(&report, &hint, terminal), self.closing))?;
            }
        }
        Ok(report)
    }
}
