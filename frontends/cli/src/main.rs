//! The `pantile` command: arguments become calls of the facade, results become text or JSON.
//!
//! It translates and nothing more. Every number it prints was computed by `pantile` and its crates;
//! what is decided here is words, order, width and colour. Three rules hold for every command:
//!
//! * standard output carries the answer and nothing else, so that it can be piped; progress and
//!   faults go to standard error;
//! * a fault is one line that says what is wrong, what the limit is and what to do ([`failure`]);
//! * the exit status says which kind of answer it is ([`failure::Failure`], [`failure::Verdict`]).
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

use std::process::ExitCode;

fn main() -> ExitCode {
    failure::shorten_panics();
    interrupt::outlive_limits();
    let cli = match commands::parse() {
        Ok(cli) => cli,
        Err(error) => return failure::usage(&error),
    };
    // A kernel that is asked for and not there would else be another in silence.
    if let Err(error) = pantile::Tier::forced() {
        return failure::Failure::input(error).report();
    }
    let terminal = terminal::Terminal::of_environment(cli.color);
    match commands::run(cli.command, &terminal) {
        Ok(verdict) => verdict.exit_code(),
        Err(failure) => failure.report(),
    }
}
