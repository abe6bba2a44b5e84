//! `pantile completions`: what a shell needs to complete the command.

use super::Cli;
use crate::failure::{Outcome, Verdict};
use crate::terminal::print;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// Print the completion script for a shell
///
/// The script completes commands, options and their values. Where it belongs depends on the shell.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  pantile completions bash > /etc/bash_completion.d/pantile
  pantile completions zsh > ~/.zfunc/_pantile
  pantile completions fish > ~/.config/fish/completions/pantile.fish")]
pub struct Completions {
    /// The shell.
    shell: Shell,
}

impl Completions {
    pub fn run(self) -> Outcome {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "pantile", &mut script);
        print(&String::from_utf8_lossy(&script))?;
        Ok(Verdict::Good)
    }
}
