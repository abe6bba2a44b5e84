//! What the two output streams can show: colour, width, progress.

use crate::failure::Failure;
use anstyle::Style;
use clap::ValueEnum;
use serde::Serialize;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;

/// Columns of text when nobody is looking, so that output in files and tests does not depend on a
/// window.
const WIDTH_WITHOUT_TERMINAL: usize = 100;

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// When standard output is a terminal and NO_COLOR is not set.
    #[default]
    Auto,
    /// Always, for a pager that understands it.
    Always,
    /// Never.
    Never,
}

/// What can be shown.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    /// Whether standard output takes colours.
    pub colour: bool,
    /// Characters in a line.
    pub width: usize,
    /// Whether standard error is a terminal, on which a progress bar may move.
    pub progress: bool,
}

impl Terminal {
    pub fn of_environment(color: Color) -> Terminal {
        let is_terminal = std::io::stdout().is_terminal();
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let colour = match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => is_terminal && !set("NO_COLOR") && !is_dumb,
        };
        let width = match terminal_size::terminal_size() {
            Some((width, _)) if is_terminal => usize::from(width.0).max(40),
            _ => WIDTH_WITHOUT_TERMINAL,
        };
        Terminal { colour, width, progress: std::io::stderr().is_terminal() && !is_dumb }
    }

    /// The text in a style, or plain.
    pub fn paint(&self, style: Style, text: impl std::fmt::Display) -> String {
        match self.colour {
            true => format!("{}{text}{}", style.render(), style.render_reset()),
            false => text.to_string(),
        }
    }

    pub fn bold(&self, text: impl std::fmt::Display) -> String {
        self.paint(Style::new().bold(), text)
    }

    pub fn dim(&self, text: impl std::fmt::Display) -> String {
        self.paint(Style::new().dimmed(), text)
    }
}

/// Writes the answer to standard output. A reader that has had enough, as `head` has, is no fault.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::file("write to", Path::new("standard output"), &error))
        }
        _ => Ok(()),
    }
}

/// Writes the answer as JSON, one document and a line feed.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    print(&crate::json::text(value))
}
