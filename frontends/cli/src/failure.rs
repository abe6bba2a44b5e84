//! End of a run: the verdict if it worked, one line of text if it did not.

use crate::Program;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::fmt::Display;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Result of a run without a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Good: status 0.
    Good,
    /// The question was answered, and the answer is bad: status 1.
    Bad,
    /// The user ended the run; results up to there are printed: status 130, as in shells.
    Interrupted,
}

impl Verdict {
    pub fn exit_code(self) -> ExitCode {
        ExitCode::from(match self {
            Verdict::Good => 0,
            Verdict::Bad => 1,
            Verdict::Interrupted => 130,
        })
    }
}

pub type Outcome = Result<Verdict, Failure>;

/// The reason why a run failed. Its text gives the user the fact, the limit, and the next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Wrong arguments, or a wrong file of the user: status 2.
    Input(String),
    /// A failed system call or program: status 3.
    System(String),
    /// Losses beyond the code's tolerance: status 2, as for any request that cannot be met.
    Losses(String),
    /// Damaged data that must be repaired first: status 1.
    Damage(String),
    /// The user ended the run: status 130.
    Interrupted(String),
}

impl Failure {
    /// Returns the failure for a wrong input, with the text of the error.
    pub fn input(fact: impl Display) -> Failure {
        Failure::Input(fact.to_string())
    }

    /// Returns the failure for a file that could not be read or written.
    pub fn file(verb: &str, path: &Path, error: &std::io::Error) -> Failure {
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        if error.kind() == FileTooLarge {
            return Failure::Input(format!(
                "cannot {verb} {}: it would be longer than this process (ulimit -f) or its file system lets a file be; raise the \
                 limit, or name another place",
                path.display()
            ));
        }
        if matches!(error.kind(), StorageFull | QuotaExceeded) {
            return Failure::Input(format!(
                "cannot {verb} {}: its file system is full; free some space, or name another place",
                path.display()
            ));
        }
        Failure::System(format!("cannot {verb} {}: {error}.", path.display()))
    }

    /// Prints the line and returns the exit status.
    pub fn report(&self) -> ExitCode {
        note(&sentence(self.text()));
        ExitCode::from(self.status())
    }

    /// Returns the reason.
    pub fn text(&self) -> &str {
        match self {
            Failure::Input(text) | Failure::System(text) | Failure::Losses(text) => text,
            Failure::Damage(text) | Failure::Interrupted(text) => text,
        }
    }

    /// Returns the exit status.
    pub fn status(&self) -> u8 {
        match self {
            Failure::Damage(_) => 1,
            Failure::Input(_) | Failure::Losses(_) => 2,
            Failure::System(_) => 3,
            Failure::Interrupted(_) => 130,
        }
    }
}

/// Writes a line to standard error, safe for a terminal. A closed standard error is ignored.
pub fn note(text: &str) {
    let _ =
        writeln!(std::io::stderr().lock(), "{}: {}", Program::current().name(), crate::terminal::shown(text));
}

/// Returns one line of bounded length that ends with a full stop and has no control characters.
fn sentence(text: &str) -> String {
    const HEAD: usize = 320;
    const TAIL: usize = 140;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut characters: Vec<char> = crate::sets::name(&line).chars().collect();
    if characters.len() > HEAD + TAIL {
        characters.splice(HEAD..characters.len() - TAIL, "...".chars());
    }
    if !matches!(characters.last(), Some('.' | '?' | '!')) {
        characters.push('.');
    }
    characters.into_iter().collect()
}

/// Prints panics as one line as well, with status 101; RUST_BACKTRACE=1 still prints the stack.
pub fn shorten_panics() {
    if std::env::var_os("RUST_BACKTRACE").is_none() {
        std::panic::set_hook(Box::new(|panic| {
            let text = format!("a fault of pantile itself, not of yours: {panic}; please report it");
            note(&sentence(&text));
        }));
    }
}

/// Ends a run whose arguments clap did not accept, or that asked for help.
pub fn usage(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(2)
        }
        kind => {
            let (asked, command) = asked_command();
            let rendered = crate::typed::reasons(&error.render().to_string());
            let line = match answer(error, kind, &asked, &command) {
                Some(answer) => format!("{answer}; see '{asked} --help'."),
                None => usage_line(&rendered, &asked),
            };
            Failure::Input(line).report()
        }
    }
}

/// Returns the answer to an unknown word that is a command or option of another tool.
fn answer(error: &clap::Error, kind: ErrorKind, asked: &str, command: &clap::Command) -> Option<String> {
    let word = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        _ => None,
    };
    match kind {
        ErrorKind::InvalidSubcommand => crate::typed::command(word(ContextKind::InvalidSubcommand)?),
        ErrorKind::UnknownArgument => crate::typed::argument(asked, command, word(ContextKind::InvalidArg)?),
        _ => None,
    }
}

/// Returns the command that the arguments name, such as `pantile ceph report`, and its definition.
pub fn asked_command() -> (String, clap::Command) {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    command_of(&words, Program::current().definition())
}

/// Finds the command among the words: options before it, and their values, are skipped; the word
/// after it is a subcommand or none.
fn command_of(words: &[String], mut command: clap::Command) -> (String, clap::Command) {
    let mut path = command.get_name().to_string();
    let mut is_top = true;
    for word in words {
        match command.find_subcommand(word).cloned() {
            Some(next) => {
                path = format!("{path} {}", next.get_name());
                (command, is_top) = (next, false);
            }
            None if is_top => {}
            None => break,
        }
    }
    (path, command)
}

/// Returns clap's paragraphs as one line: the fault, its tips, and the command that prints the
/// help. Clap does not name the command of a wrong value.
fn usage_line(rendered: &str, asked: &str) -> String {
    let mut line = String::new();
    let mut help = match rendered.contains("\n\nUsage: ") {
        true => format!("{} --help", Program::current().name()),
        false => format!("{asked} --help"),
    };
    for paragraph in rendered.split("\n\n") {
        let text = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some(usage) = text.strip_prefix("Usage: ") {
            let is_command = |word: &&str| word.starts_with(|c: char| c.is_ascii_lowercase());
            let words: Vec<&str> = usage.split(' ').take_while(is_command).collect();
            if words.len() > 1 {
                help = format!("{} --help", words.join(" "));
            }
        } else if let Some(fault) = text.strip_prefix("error: ") {
            line.push_str(fault.trim_end_matches('.'));
        } else if text.contains("as a value, use '-- ") {
            // Clap's tip for a value that begins with a dash would make it an argument of its own.
        } else if text.starts_with("tip: ") || text.starts_with("[possible") {
            line.push_str(&format!("; {}", text.replace(" tip: ", "; ").trim_start_matches("tip: ")));
        }
    }
    format!("{line}; see '{help}'.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_of_usage_is_one_line_that_names_the_help() {
        let rendered = "error: unexpected argument '--lots' found\n\n  tip: a similar argument exists: '--lost'\n\n\
                        Usage: pantile plan --lost <LOST> <CODE>\n\nFor more information, try '--help'.\n";
        let line = usage_line(rendered, "pantile");
        assert_eq!(
            line,
            "unexpected argument '--lots' found; a similar argument exists: '--lost'; see 'pantile plan --help'."
        );
    }

    #[test]
    fn the_help_that_is_named_is_that_of_the_command() {
        for (words, path) in [
            ("prove raid6:4 --max-lost 0", "pantile prove"),
            ("--color never ceph report dump --effort x", "pantile ceph report"),
            ("plan prove --effort -1", "pantile plan"),
            ("--color sometimes", "pantile"),
        ] {
            let words: Vec<String> = words.split(' ').map(str::to_string).collect();
            assert_eq!(command_of(&words, crate::commands::definition()).0, path);
        }
    }

    #[test]
    fn a_sentence_is_one_line_with_a_full_stop() {
        assert_eq!(sentence("one\n  two"), "one two.");
        assert_eq!(sentence("is it?"), "is it?");
        assert_eq!(sentence("a \x1b[31mb\u{202e}c"), "a \\u{1b}[31mb\\u{202e}c.");
        assert!(sentence(&"x".repeat(100_000)).len() < 500);
    }
}
