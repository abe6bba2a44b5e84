//! `pantile man`: what `man pantile` shows.

use super::Cli;
use crate::failure::{Failure, Outcome, Verdict};
use crate::files::OutDir;
use clap::{Args, CommandFactory};
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
        let mut command = Cli::command().disable_help_subcommand(true);
        command.build();
        let out = OutDir::open(&self.directory, true);
        let out = out.map_err(|error| Failure::file("write to", &self.directory, &error))?;
        write(&out, &command)?;
        Ok(Verdict::Good)
    }
}

/// Writes the pages of a command and of those below it.
fn write(out: &OutDir, command: &clap::Command) -> Result<(), Failure> {
    let below = command.get_subcommands().filter(|below| !below.is_hide_set());
    below.into_iter().try_for_each(|below| write(out, below))?;
    let page = clap_mangen::Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text).map_err(Failure::input)?;
    out.write_whole(&page.get_filename(), &text)
}
