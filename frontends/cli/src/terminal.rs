//! Abilities of the two output streams: colour, width, progress.

use crate::failure::Failure;
use crate::sets;
use anstyle::Style;
use clap::ValueEnum;
use serde::Serialize;
use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;

/// Columns of text without a terminal, so that output in files and tests does not depend on a
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

/// Abilities of the two output streams.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    /// True if standard output shows colours.
    pub colour: bool,
    /// Characters per line.
    pub width: usize,
    /// True if standard output is a terminal, so that no line may be wider.
    pub is_terminal: bool,
    /// True if standard error is a terminal, which can show a progress bar.
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
        Terminal { colour, width, is_terminal, progress: std::io::stderr().is_terminal() && !is_dumb }
    }

    /// Returns the text in a style, or plain.
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

/// Returns a text that is safe for a terminal: of control characters only line feeds, tabs and our
/// styles remain, and none that hides the order of the text ([`sets::name`]).
///
/// Foreign text can imitate a style. Where colours are off, or a colour has a meaning, foreign
/// names go through [`sets::name`] first.
pub fn shown(text: &str) -> Cow<'_, str> {
    let is_plain = |c| sets::is_harmless(c) || c == '\n' || c == '\t';
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let len = style_len(rest).unwrap_or(c.len_utf8());
        let (part, after) = rest.split_at(len);
        match is_plain(c) || c.len_utf8() < len {
            true => out.push_str(part),
            false => out.push_str(&sets::name(part)),
        }
        rest = after;
    }
    Cow::Owned(out)
}

/// Returns the length of the style that a text begins with: ESC, `[`, numbers, `m`.
fn style_len(text: &str) -> Option<usize> {
    let numbers = text.strip_prefix("\x1b[")?;
    let end = numbers.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    numbers[end..].starts_with('m').then_some(end + 3)
}

/// Writes the answer to standard output, safe for a terminal ([`shown`]). A reader that ends early,
/// such as `head`, is no fault.
///
/// On a terminal sentences are wrapped to its width.
pub fn print(text: &str) -> Result<(), Failure> {
    let terminal = Terminal::of_environment(Color::Auto);
    match std::io::stdout().is_terminal() {
        true => write_out(&wrapped(&shown(text), terminal.width)),
        false => write_out(&shown(text)),
    }
}

/// Wraps lines that are too wide at blanks, with the indent of the first line. Lines of tables and
/// drawings, recognized by two blanks or a frame, stay as they are.
fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let bare = line.trim_end_matches('\n');
        let indent = bare.len() - bare.trim_start().len();
        let is_prose = !bare[indent..].contains("  ") && !bare.contains(['│', '─', '┌', '└', '\t']);
        if !is_prose || visible(bare) <= width {
            out.push_str(line);
            continue;
        }
        let mut used = indent;
        out.push_str(&bare[..indent]);
        for (nth, word) in bare[indent..].split(' ').enumerate() {
            let len = visible(word);
            if nth > 0 && used + 1 + len > width {
                out.push('\n');
                out.push_str(&bare[..indent]);
                used = indent;
            } else if nth > 0 {
                out.push(' ');
                used += 1;
            }
            out.push_str(word);
            used += len;
        }
        out.push_str(&line[bare.len()..]);
    }
    out
}

/// Returns the number of visible characters of a text, without its styles.
fn visible(text: &str) -> usize {
    let (mut rest, mut seen) = (text, 0);
    while let Some(c) = rest.chars().next() {
        let style = style_len(rest);
        seen += usize::from(style.is_none());
        rest = &rest[style.unwrap_or(c.len_utf8())..];
    }
    seen
}

fn write_out(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::file("write to", Path::new("standard output"), &error))
        }
        _ => Ok(()),
    }
}

/// Writes the answer as one JSON document and a line feed, with every text unchanged.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    write_out(&crate::json::text(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_wrapped_and_columns_are_not() {
        let sentence = "  one two three four\n";
        assert_eq!(wrapped(sentence, 11), "  one two\n  three\n  four\n");
        assert_eq!(wrapped(sentence, 20), sentence);
        let styled = "\x1b[1mone\x1b[0m two\n";
        assert_eq!(wrapped(styled, 7), styled);
        assert_eq!(wrapped("one  two three\n│ a b c d │\n", 8), "one  two three\n│ a b c d │\n");
        assert_eq!(wrapped("unbreakable", 4), "unbreakable");
    }

    #[test]
    fn control_characters_are_shown_and_styles_are_kept() {
        let plain = "a\tb\n  ┌─ ä\n";
        assert!(matches!(shown(plain), Cow::Borrowed(same) if same == plain));
        let styled = "\x1b[1mbold\x1b[0m \x1b[38;5;1mred\x1b[0m\n";
        assert_eq!(shown(styled), styled);
        for (foreign, as_shown) in [
            ("\x1b]0;owned\x07\n", "\\u{1b}]0;owned\\u{7}\n"),
            ("\x1b[2J", "\\u{1b}[2J"),
            ("\x1b[1;", "\\u{1b}[1;"),
            ("a\rb\u{9b}2Jc\u{202e}", "a\\rb\\u{9b}2Jc\\u{202e}"),
        ] {
            assert_eq!(shown(foreign), as_shown);
            assert_eq!(shown(as_shown), as_shown, "once is enough");
        }
    }
}
