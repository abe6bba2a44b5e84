//! `pantile unseal`: restores the sealed files.

use crate::describe::{count, directories};
use crate::failure::{Outcome, Verdict};
use crate::sets::{self, IncludeArgs, SetArgs, Shown, Versioned};
use crate::terminal::{Terminal, print, print_json};
use clap::Args;
use pantile_seal::{FaultKind, NotDone, UnsealOptions, UnsealReport, unseal};
use std::fmt::Write;
use std::path::PathBuf;

/// Restore the sealed files from any sufficient part of the shards
///
/// Answers: give me my files back. Any sufficient number of shards works, in any order and from any
/// directories. Missing or damaged blocks are computed from the others, and every block is checked.
#[derive(Args)]
#[command(after_long_help = "\
Existing files with the same content are left as they are; others in the way are not replaced without \
--overwrite. One file that cannot be restored does not stop the others; the status is then not 0. Without checksums \
the equations of the code are checked first, and a file that contradicts them is repaired or not restored. Exit status 2: \
more is lost than the code tolerates, or the wrong blocks cannot be located.

Owners and groups are restored as far as the system allows, and with them the sealed permissions; a file whose \
owner cannot be restored gets none that the umask denies. --modes restores all permissions, and with the owner also \
setuid and setgid bits and capabilities.

Not kept: times other than that of the last change.

Examples:
  pantile unseal shards --to restored
  pantile unseal shards --to restored --include photos/2026/ --include '*.raw'
  pantile unseal /disk3/photos.02.shard /disk4 --to restored")]
pub struct Unseal {
    #[command(flatten)]
    set: SetArgs,
    /// The directory of the restored tree; created if necessary.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    #[command(flatten)]
    include: IncludeArgs,
    /// Replace existing files of other content.
    #[arg(long)]
    overwrite: bool,
    /// Give restored files all their sealed permissions: setuid and setgid with their owner, and
    /// those that the umask denies.
    #[arg(long)]
    modes: bool,
    /// Print only one line for each path that is not restored, and no progress.
    #[arg(long, short)]
    quiet: bool,
    /// Print JSON: the restored files.
    #[arg(long)]
    json: bool,
}

impl Unseal {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        let options = UnsealOptions {
            set: self.set.into_paths()?,
            target: self.to,
            overwrite: self.overwrite,
            select: self.include.into_select(),
            modes: self.modes,
        };
        let mut progress = Shown::unless(self.quiet, terminal);
        let result = unseal(&options, &mut progress);
        progress.end();
        let show = |report: &UnsealReport| match (self.json, self.quiet) {
            (true, _) => print_json(&Versioned::new(report)),
            (false, true) => print(&not_restored(&report.not_restored)),
            (false, false) => print(&text(report, &options.target)),
        };
        match result {
            Ok(report) => show(&report).map(|()| Verdict::Good),
            Err(error) => {
                if let FaultKind::NotRestored { report, .. } = &error.kind {
                    show(report)?;
                }
                Err(sets::failure(&error))
            }
        }
    }
}

fn not_restored(paths: &[NotDone]) -> String {
    let mut out = String::new();
    for failed in paths {
        let _ = writeln!(out, "Not restored: {}: {}.", sets::name(&failed.path), sets::name(&failed.reason));
    }
    out
}

/// Most paths that the text lists.
const LINES_MOST: usize = 30;

fn text(report: &UnsealReport, target: &std::path::Path) -> String {
    let mut out = format!(
        "Restored {} ({}), {} and {} to {}.\n",
        count(report.files as usize, "file"),
        sets::bytes(report.file_bytes),
        directories(report.dirs),
        count(report.links as usize, "link"),
        sets::name(&target.display().to_string())
    );
    out.push_str(&not_restored(&report.not_restored[..report.not_restored.len().min(LINES_MOST)]));
    let more = report.not_restored_count.saturating_sub(LINES_MOST as u64);
    if more > 0 {
        let _ = writeln!(out, "... and {more} more; --json lists them");
    }
    for lost in report.not_kept.iter().take(LINES_MOST) {
        let _ = writeln!(out, "Not kept: {}: {}.", sets::name(&lost.path), sets::name(&lost.reason));
    }
    if report.hard_links > 0 {
        let _ = writeln!(out, "{} as hard links.", count(report.hard_links as usize, "other name"));
    }
    match report.already_there {
        0 => {}
        1 => out.push_str("1 file or link was there already with the same content.\n"),
        some => _ = writeln!(out, "{some} files and links were there already with the same content."),
    }
    if report.blocks_reconstructed > 0 {
        let _ = writeln!(
            out,
            "{} missing or damaged, computed from others.",
            count(report.blocks_reconstructed as usize, "block")
        );
    }
    if report.blind {
        out.push_str(
            "The set has no checksums, and so many shards are lost that no equation of the code is left: silent damage in the \
             others would not have been seen.\n",
        );
    } else if report.unchecked {
        out.push_str(
            "The set has no checksums: blocks were judged by the equations of the code, as far as the shards at hand \
             allow.\n",
        );
    }
    out
}
