//! `pantile man`: what `man pantile` shows.

use super::Cli;
use crate::failure::{Failure, Outcome, Verdict};
use crate::files;
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
        self.write(&command)?;
        Ok(Verdict::Good)
    }

    /// Writes the pages of a command and of those below it.
    fn write(&self, command: &clap::Command) -> Result<(), Failure> {
        let below = command.get_subcommands().filter(|below| !below.is_hide_set());
        below.into_iter().try_for_each(|below| self.write(below))?;
        let page = clap_mangen::Man::new(command.clone());
        let path = self.directory.join(page.get_filename());
        let mut text = Vec::new();
        let written = page.render(&mut text).and_then(|()| files::write_whole(&path, &text));
        written.map_err(|error| Failure::file("write", &path, &error))
    }
}
