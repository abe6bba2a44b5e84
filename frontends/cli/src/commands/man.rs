//! `pantile man`: what `man pantile` shows.

use super::Cli;
use crate::failure::{Failure, Outcome, Verdict};
use clap::{Args, CommandFactory};
use pantile_seal::disk::is_led_to_by_nobody_else;
use std::path::PathBuf;

/// Write the manual pages to a directory, one for each command
///
/// They say what `--help` says, and replace pages of the same names. tools/install.sh puts them
/// below its prefix.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  pantile man .")]
pub struct Man {
    /// A directory that is there.
    directory: PathBuf,
}

impl Man {
    pub fn run(self) -> Outcome {
        if !is_led_to_by_nobody_else(&self.directory) {
            return Err(Failure::Input(format!(
                "others may write to {} or to a directory on its way, and could put links in the place of pages; name \
                 another directory.",
                self.directory.display()
            )));
        }
        clap_mangen::generate_to(Cli::command(), &self.directory)
            .map_err(|error| Failure::file("write manual pages to", &self.directory, &error))?;
        Ok(Verdict::Good)
    }
}
