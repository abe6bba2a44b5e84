//! `pantile lab`: runs the command of `pantile-lab`.

use crate::failure::{Failure, Outcome, note};
use clap::Args;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Run an experiment of the program 'pantile-lab'
///
/// Replay and durability are commands of 'pantile'.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct Lab {
    /// The command and its arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

impl Lab {
    /// Replaces this process by the program that has the command.
    pub fn run(self) -> Outcome {
        let first =
            self.arguments.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
        let name = match first.as_str() {
            "replay" | "durability" => "pantile",
            _ => "pantile-lab",
        };
        note(&format!("lab: run '{}'", format!("{name} {first}").trim_end()));
        let own = std::env::current_exe().map_err(|error| Failure::System(format!("/proc: {error}")))?;
        let error = Command::new(own.with_file_name(name)).args(&self.arguments).exec();
        Err(match error.kind() {
            ErrorKind::NotFound => Failure::Input(format!(
                "the experiments are a program of their own, {name}, which is not installed beside this one; install it there"
            )),
            _ => Failure::System(format!("{name} cannot be run: {error}.")),
        })
    }
}
