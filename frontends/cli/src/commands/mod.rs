//! One file per command; this one has their common parts: the top of the help, the groups of
//! commands, and the dispatch.

mod advise;
mod assemble;
mod assemble_scan;
mod attach;
mod bench;
mod ceph;
mod ceph_verify;
mod check_config;
mod chunks;
mod codes;
mod compare;
mod completions;
mod create;
mod decode;
pub mod delayed;
mod demo;
mod durability;
mod encode;
mod events;
mod exascale;
mod explain;
mod heal;
mod info;
mod keep;
pub mod lab;
mod lab_delayed;
mod lab_engine;
mod lab_raidq;
mod man;
mod members;
mod monitor;
mod moved;
mod plan;
mod plan_nodes;
mod prove;
mod replay;
mod scrub;
mod seal;
mod search;
mod serve;
mod show;
mod shown;
mod status;
mod status_all;
mod stop;
mod trace;
mod unseal;
mod verify;

use crate::Arguments;
pub use attach::attached_folders;
pub use seal::{files_max, set_code};

use crate::failure::Outcome;
use crate::render::table::hanging;
use crate::terminal::{Color, Terminal};
use clap::{CommandFactory, Parser, Subcommand};

const STATUS: &str = "\
Exit status:
  0    finished, and nothing is wrong
  1    finished, and found a problem: damage, or a proof below the claim
  2    refused: wrong arguments or files, no space, or more lost than the code tolerates
  3    the machine failed: a file, a disk, the terminal
  130  ended by Ctrl-C

A code is written family:arguments, such as raid6:8, rs:10+4 or shec:6,4,3, as 4+2 or RAID-6, or it is the path of \
a code file. 'pantile codes' lists the families; 'pantile COMMAND --help' explains a command with examples. The \
experiments of the papers are a program of their own, 'pantile-lab'.";

/// The commands as the help shows them: a heading, and names in the order of use.
pub const GROUPS: &[(&str, &[&str])] = &[
    ("Protect files, find and repair damage", &["seal", "verify", "heal", "unseal", "info"]),
    (
        "Volumes, disks that survive disks",
        &[
            "create",
            "serve",
            "status",
            "events",
            "attach",
            "detach",
            "stop",
            "fail",
            "replace",
            "add-spare",
            "remove-spare",
            "rebuild",
            "scrub",
            "delayed",
            "assemble",
            "demo",
        ],
    ),
    ("The whole machine", &["monitor", "check-config"]),
    (
        "Choose a code, look at it, check it",
        &["advise", "replay", "durability", "codes", "show", "explain", "prove", "plan", "compare", "bench"],
    ),
    ("Ceph and raw chunks", &["ceph", "encode", "decode", "chunks"]),
    ("This program", &["completions", "man", "help"]),
];

/// RAID-like volumes, parity for files, and tools to choose and check erasure codes.
#[derive(Parser)]
#[command(name = "pantile", version, after_help = STATUS, max_term_width = 100, subcommand_required = true)]
#[command(arg_required_else_help = true, disable_help_subcommand = false)]
pub struct Cli {
    /// When to use colours; they are also off when NO_COLOR is set.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub color: Color,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    Codes(codes::Codes),
    Show(show::Show),
    Explain(explain::Explain),
    Prove(prove::Prove),
    Plan(plan::PlanCommand),
    Compare(compare::Compare),
    Advise(Box<advise::Advise>),
    Bench(bench::Bench),
    Replay(Box<replay::Replay>),
    Durability(Box<durability::Durability>),
    #[command(hide = true)]
    Lab(moved::Lab),
    Ceph(ceph::Ceph),
    Encode(encode::Encode),
    Decode(decode::Decode),
    Chunks(chunks::ChunksCommand),
    Seal(seal::Seal),
    Verify(verify::Verify),
    Heal(heal::Heal),
    Unseal(unseal::Unseal),
    Info(info::Info),
    Demo(demo::Demo),
    Create(create::Create),
    Serve(serve::Serve),
    Status(status::Status),
    Events(events::Events),
    #[command(hide = true)]
    KeepServed(keep::KeepServed),
    Stop(stop::Stop),
    Attach(attach::Attach),
    Detach(attach::Detach),
    Fail(members::Fail),
    Replace(members::Replace),
    AddSpare(members::AddSpare),
    RemoveSpare(members::RemoveSpare),
    Rebuild(members::Rebuild),
    Scrub(scrub::Scrub),
    Delayed(delayed::Delayed),
    Assemble(assemble::Assemble),
    Monitor(monitor::Monitor),
    CheckConfig(check_config::CheckConfig),
    Completions(completions::Completions),
    Man(man::Man),
}

impl Arguments for Cli {
    fn color(&self) -> Color {
        self.color
    }
}

/// Returns the definition of the command, with its help in groups.
pub fn definition() -> clap::Command {
    let command = Cli::command();
    let listed = groups(&command, help_width());
    command.help_template(format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{listed}Options:\n{{options}}{{after-help}}"
    ))
}

/// Returns the width of the help: that of the terminal, 100 at most.
fn help_width() -> usize {
    const WIDEST: usize = 100;
    terminal_size::terminal_size().map_or(WIDEST, |(width, _)| usize::from(width.0).clamp(40, WIDEST))
}

/// Returns a line for each command under the heading of its group.
fn groups(root: &clap::Command, width: usize) -> String {
    /// Width of the column of names.
    const INDENT: usize = 16;
    let mut out = String::new();
    for (heading, names) in GROUPS {
        out.push_str(&format!("{heading}:\n"));
        for name in *names {
            let about = root.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map_or("Explain a command".to_string(), ToString::to_string);
            let first = format!("  {name:<width$}", width = INDENT - 2);
            out.push_str(&hanging(&first, about.lines().next().unwrap_or_default(), INDENT, width));
        }
        out.push('\n');
    }
    out
}

/// Runs a command to its verdict.
pub fn run(command: Command, terminal: &Terminal) -> Outcome {
    match command {
        Command::Codes(command) => command.run(terminal),
        Command::Show(command) => command.run(terminal),
        Command::Explain(command) => command.run(terminal),
        Command::Prove(command) => command.run(terminal),
        Command::Plan(command) => command.run(terminal),
        Command::Compare(command) => command.run(terminal),
        Command::Advise(command) => command.run(terminal),
        Command::Bench(command) => command.run(terminal),
        Command::Replay(command) => command.run(terminal),
        Command::Durability(command) => command.run(terminal),
        Command::Lab(command) => command.run(),
        Command::Ceph(command) => command.run(terminal),
        Command::Encode(command) => command.run(terminal),
        Command::Decode(command) => command.run(terminal),
        Command::Chunks(command) => command.run(terminal),
        Command::Seal(command) => command.run(terminal),
        Command::Verify(command) => command.run(terminal),
        Command::Heal(command) => command.run(terminal),
        Command::Unseal(command) => command.run(terminal),
        Command::Info(command) => command.run(terminal),
        Command::Demo(command) => command.run(terminal),
        Command::Create(command) => command.run(terminal),
        Command::Serve(command) => command.run(),
        Command::Status(command) => command.run(terminal),
        Command::Events(command) => command.run(),
        Command::KeepServed(command) => command.run(),
        Command::Stop(command) => command.run(),
        Command::Attach(command) => command.run(),
        Command::Detach(command) => command.run(),
        Command::Fail(command) => command.run(),
        Command::Replace(command) => command.run(),
        Command::AddSpare(command) => command.run(),
        Command::RemoveSpare(command) => command.run(),
        Command::Rebuild(command) => command.run(terminal),
        Command::Scrub(command) => command.run(terminal),
        Command::Delayed(command) => command.run(terminal),
        Command::Assemble(command) => command.run(terminal),
        Command::Monitor(command) => command.run(),
        Command::CheckConfig(command) => command.run(),
        Command::Completions(command) => command.run(),
        Command::Man(command) => command.run(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let root = Cli::command();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let mut known: Vec<&str> = root
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
            .map(clap::Command::get_name)
            .collect();
        known.push("help");
        grouped.sort_unstable();
        known.sort_unstable();
        assert_eq!(grouped, known);
    }

    #[test]
    fn no_line_of_the_groups_is_wider_than_the_terminal() {
        for width in [60, 80, 100] {
            let text = groups(&Cli::command(), width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
        }
        let text = groups(&Cli::command(), 80);
        let lines = text.lines().count();
        assert!(lines <= 60, "{lines} lines are more than a screen");
    }

    /// Returns the arguments of each `pantile` in a line of a shell: words without quotes, up to a
    /// pipe, a redirection or a remark.
    fn calls(line: &str) -> Vec<Vec<&str>> {
        let line = line.trim_start().split("  ").next().unwrap_or_default();
        let parts =
            line.split([';', '|', '&']).map(|part| part.trim().split(" > ").next().unwrap_or_default());
        let parts = parts.filter(|part| part.starts_with("pantile ") || part.starts_with("pantile-lab "));
        parts.map(|part| part.split(' ').map(|word| word.trim_matches(['\'', '"'])).collect()).collect()
    }

    fn examples(command: &clap::Command) -> Vec<String> {
        let help = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
        let own = help.split_once("Examples:\n").map_or("", |(_, examples)| examples).lines();
        let mut found: Vec<String> = own.map(str::to_string).collect();
        found.extend(command.get_subcommands().flat_map(examples));
        found
    }

    /// Every example parses; `tests/cli/examples_of_the_help_work.rs` runs them.
    #[test]
    fn every_example_of_the_help_is_understood() {
        let mut lines = examples(&Cli::command());
        lines.extend(examples(&lab::definition()));
        let calls: Vec<Vec<&str>> = lines.iter().flat_map(|line| calls(line)).collect();
        assert!(calls.len() > 80, "only {}: {calls:?}", calls.len());
        for call in calls {
            let read = match call[0] {
                "pantile" => Cli::try_parse_from(&call).map(drop),
                _ => lab::Lab::try_parse_from(&call).map(drop),
            };
            if let Err(error) = read {
                panic!("{call:?}: {error}");
            }
        }
    }

    #[test]
    fn a_line_of_a_shell_is_taken_apart() {
        assert_eq!(calls("  pantile codes --json | jq -r '.x[]'"), [["pantile", "codes", "--json"]]);
        assert_eq!(calls("  a b; pantile show x > f        why").concat(), ["pantile", "show", "x"]);
        assert_eq!(calls("  pantile a && pantile b").len(), 2);
        assert!(calls("  nbdcopy disk.img vol").is_empty());
    }
}
