//! `pantile man`: manual pages.

use super::{Cli, GROUPS, lab};
use crate::failure::{Failure, Outcome, Verdict};
use crate::files::OutDir;
use clap::{Args, CommandFactory};
use std::fmt::Write;
use std::path::PathBuf;

/// Write the manual pages of pantile and pantile-lab to a directory, one for each command
///
/// The pages have the text of `--help`, and replace pages of the same names. tools/install.sh
/// installs them below its prefix.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  pantile man .")]
pub struct Man {
    /// An existing directory.
    directory: PathBuf,
}

impl Man {
    pub fn run(self) -> Outcome {
        let out = OutDir::open(&self.directory, true);
        let out = out.map_err(|error| Failure::file("write to", &self.directory, &error))?;
        for command in [Cli::command(), lab::definition()] {
            let mut command = command.disable_help_subcommand(true);
            command.build();
            write(&out, &command)?;
        }
        Ok(Verdict::Good)
    }
}

/// Writes the pages of a command and of its subcommands.
fn write(out: &OutDir, command: &clap::Command) -> Result<(), Failure> {
    let below = command.get_subcommands().filter(|below| !below.is_hide_set());
    below.into_iter().try_for_each(|below| write(out, below))?;
    let page = clap_mangen::Man::new(command.clone());
    out.write_whole(&page.get_filename(), &text(&page, command)?)
}

/// Returns a page: the sections of the definition, then those of the long help.
fn text(page: &clap_mangen::Man, command: &clap::Command) -> Result<Vec<u8>, Failure> {
    let mut out = Vec::new();
    let mut render = || -> std::io::Result<()> {
        page.render_title(&mut out)?;
        page.render_name_section(&mut out)?;
        page.render_synopsis_section(&mut out)?;
        page.render_description_section(&mut out)?;
        if command.get_opts().next().is_some() || command.get_positionals().next().is_some() {
            page.render_options_section(&mut out)?;
        }
        if command.get_subcommands().any(|below| !below.is_hide_set()) {
            page.render_subcommands_section(&mut out)?;
        }
        out.extend_from_slice(sections(command).as_bytes());
        Ok(())
    };
    render().map_err(Failure::input)?;
    Ok(out)
}

/// Returns NOTES, EXIT STATUS, EXAMPLES and SEE ALSO of a command.
fn sections(command: &clap::Command) -> String {
    let behind = command.get_after_long_help().or(command.get_after_help());
    let behind = behind.map(ToString::to_string).unwrap_or_default();
    let (notes, examples) = behind.split_once("Examples:\n").unwrap_or((&behind, ""));
    let (mut status, mut rest): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    let mut is_status = false;
    for line in notes.lines() {
        is_status = line.starts_with("Exit status") || (is_status && line.starts_with("  "));
        match is_status {
            true => status.extend(Some(without_title(line)).filter(|line| !line.is_empty())),
            false => rest.push(line),
        }
    }
    let mut out = String::new();
    section(&mut out, "NOTES", &rest);
    match status.is_empty() {
        true => out.push_str(".SH \"EXIT STATUS\"\nThat of all commands: see pantile(1).\n"),
        false => section(&mut out, "\"EXIT STATUS\"", &status),
    }
    section(&mut out, "EXAMPLES", &examples.lines().collect::<Vec<_>>());
    let see = see_also(command.get_display_name().unwrap_or(command.get_name()));
    let _ = writeln!(out, ".SH \"SEE ALSO\"\n{see}");
    out
}

/// Returns a line without the title that its section already has.
fn without_title(line: &str) -> &str {
    line.strip_prefix("Exit status:").map_or(line, str::trim_start)
}

/// Writes a section; indented lines and lists keep their lines.
fn section(out: &mut String, title: &str, lines: &[&str]) {
    let first = lines.iter().position(|line| !line.is_empty());
    let Some(first) = first else { return };
    let _ = writeln!(out, ".SH {title}");
    let mut is_kept = false;
    for line in &lines[first..] {
        let wants = line.starts_with("  ");
        if wants != is_kept && !line.is_empty() {
            out.push_str(if wants { ".nf\n" } else { ".fi\n" });
            is_kept = wants;
        }
        match line.is_empty() {
            true => out.push_str(".PP\n"),
            false => {
                let _ = writeln!(out, "{}", roff(line));
                if !wants {
                    out.push_str(".br\n");
                }
            }
        }
    }
    if is_kept {
        out.push_str(".fi\n");
    }
}

/// Returns a line that roff prints as it is.
fn roff(line: &str) -> String {
    let text = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    if text.starts_with('.') { format!("\\&{text}") } else { text }
}

/// Returns the pages of the other commands of a group, and the page of the program.
fn see_also(name: &str) -> String {
    if name.starts_with("pantile-lab") {
        return "pantile\\-lab(1), pantile(1)".into();
    }
    let own = name.strip_prefix("pantile-").unwrap_or(name);
    let group = GROUPS
        .iter()
        .find(|(_, names)| names.iter().any(|name| own == *name || own.starts_with(&format!("{name}-"))));
    let others = group.into_iter().flat_map(|(_, names)| names.iter().copied());
    let others = others.filter(|other| *other != own && *other != "help");
    let pages: Vec<String> = std::iter::once("pantile".to_string())
        .filter(|page| *page != name)
        .chain(others.map(|other| format!("pantile\\-{other}")))
        .map(|page| {
            format!(
                "{}(1)",
                page.replace("add-", "add\\-").replace("remove-", "remove\\-").replace("call-", "call\\-")
            )
        })
        .collect();
    match pages.is_empty() {
        true => "The pages of the commands above; /usr/share/doc/pantile has those of the formats.".into(),
        false => pages.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_examples_as_they_are_and_its_sections() {
        let mut root = Cli::command().disable_help_subcommand(true);
        root.build();
        let seal = sections(root.find_subcommand("seal").expect("a command"));
        let examples = seal.split_once(".SH EXAMPLES\n.nf\n").expect("a section").1;
        assert!(examples.starts_with("  pantile seal photos"), "{examples}");
        assert!(seal.contains(".SH \"EXIT STATUS\"") && seal.contains("pantile\\-verify(1)"), "{seal}");
        let rebuild = sections(root.find_subcommand("rebuild").expect("a command"));
        assert!(
            rebuild.contains("STATUS\"\n0 everything is whole")
                && rebuild.contains("pantile\\-add\\-spare(1)"),
            "{rebuild}"
        );
        let all = sections(&root);
        assert!(all.contains("  130  ended by Ctrl\\-C"), "{all}");
    }
}
