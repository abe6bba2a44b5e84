//! `pantile unseal`: restores the sealed files.

use crate::failure::{Outcome, Verdict};
use crate::sets::{self, SetArgs, Shown, Versioned};
use crate::terminal::{Terminal, print, print_json};
use clap::Args;
use pantile_seal::{UnsealOptions, UnsealReport, unseal};
use std::fmt::Write;
use std::path::PathBuf;

/// Restore the sealed files from any sufficient part of the shards
///
/// Answers: give me my files back. Any shards that the code can do with are enough, in any order and from any
/// directories; what is missing or damaged is computed from the others, and every block is checked on the way.
#[derive(Args)]
#[command(after_long_help = "\
Files that are there already with the same content are left as they are; others in the way are not replaced without \
--overwrite. Exit status 4: more is lost than the code can bear.

Examples:
  pantile unseal shards --to restored
  pantile unseal /disk3/photos.02.shard /disk4 --to restored")]
pub struct Unseal {
    #[command(flatten)]
    set: SetArgs,
    /// The directory in which the tree is restored; made if it is not there.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Replace files of other content that are in the way.
    #[arg(long)]
    overwrite: bool,
    /// Print JSON: what was restored.
    #[arg(long)]
    json: bool,
}

impl Unseal {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        let options =
            UnsealOptions { set: self.set.into_paths(), target: self.to, overwrite: self.overwrite };
        let mut progress = Shown::new(terminal);
        let result = unseal(&options, &mut progress);
        progress.end();
        let report = result.map_err(|error| sets::failure(&error))?;
        match self.json {
            true => print_json(&Versioned::new(&report))?,
            false => print(&text(&report, &options.target))?,
        }
        Ok(Verdict::Good)
    }
}

fn text(report: &UnsealReport, target: &std::path::Path) -> String {
    let mut out = format!(
        "Restored {} files ({}), {} directories and {} links to {}.\n",
        report.files,
        sets::bytes(report.file_bytes),
        report.dirs,
        report.links,
        target.display()
    );
    if report.already_there > 0 {
        let _ = writeln!(out, "{} files were there already with the same content.", report.already_there);
    }
    if report.blocks_reconstructed > 0 {
        let _ = writeln!(
            out,
            "{} blocks were missing or damaged and were computed from others.",
            report.blocks_reconstructed
        );
    }
    if report.unchecked {
        out.push_str("The set has no checksums: the content could not be checked block by block.\n");
    }
    out
}
