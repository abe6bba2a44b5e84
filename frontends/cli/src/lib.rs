//! The commands `pantile` and `pantile-lab`: arguments become calls of the facade, results become
//! text or JSON.
//!
//! Every printed number is computed by `pantile` and its crates; this crate decides words, order,
//! width and colour. Three rules hold for every command:
//!
//! * standard output has only the answer, so that it can be piped; progress and faults go to
//!   standard error;
//! * a fault is one line: the fact, the limit, and the next step ([`failure`]);
//! * the exit status gives the kind of the answer ([`failure::Failure`], [`failure::Verdict`]).
#![forbid(unsafe_code)]

mod args;
mod chunk_files;
mod chunks;
mod commands;
mod csv;
mod describe;
mod devices;
mod failure;
mod files;
mod interrupt;
mod json;
mod machine;
mod progress;
mod records;
mod render;
mod sets;
mod space;
mod terminal;
mod typed;
mod volumes;

use clap::Parser;
use std::process::ExitCode;
use std::sync::OnceLock;
use terminal::{Color, Terminal};

/// Runs `pantile` with the arguments of the process.
pub fn pantile() -> ExitCode {
    run(Program::Pantile, |cli: commands::Cli, terminal| commands::run(cli.command, terminal))
}

/// Runs `pantile-lab` with the arguments of the process.
pub fn pantile_lab() -> ExitCode {
    run(Program::Lab, |cli: commands::lab::Lab, terminal| cli.run(terminal))
}

/// The program that the process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    /// `pantile`: files, volumes, codes, advice.
    Pantile,
    /// `pantile-lab`: the experiments of the papers.
    Lab,
}

static PROGRAM: OnceLock<Program> = OnceLock::new();

impl Program {
    fn current() -> Program {
        PROGRAM.get().copied().unwrap_or(Program::Pantile)
    }

    fn name(self) -> &'static str {
        match self {
            Program::Pantile => "pantile",
            Program::Lab => "pantile-lab",
        }
    }

    fn definition(self) -> clap::Command {
        match self {
            Program::Pantile => commands::definition(),
            Program::Lab => commands::lab::definition(),
        }
    }
}

/// Parsed arguments of a program.
trait Arguments: Parser {
    fn color(&self) -> Color;
}

fn run<A: Arguments>(program: Program, act: impl FnOnce(A, &Terminal) -> failure::Outcome) -> ExitCode {
    let _ = PROGRAM.set(program);
    failure::shorten_panics();
    interrupt::outlive_limits();
    let read = program.definition().try_get_matches().and_then(|matches| A::from_arg_matches(&matches));
    let arguments = match read {
        Ok(arguments) => arguments,
        Err(error) => return failure::usage(&error),
    };
    // An unavailable kernel would otherwise be replaced without notice.
    if let Err(error) = pantile::Tier::forced() {
        return failure::Failure::input(error).report();
    }
    let terminal = Terminal::of_environment(arguments.color());
    match act(arguments, &terminal) {
        Ok(verdict) => verdict.exit_code(),
        Err(failure) => failure.report(),
    }
}
