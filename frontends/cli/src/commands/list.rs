//! `pantile list`: what is sealed.

use crate::failure::{Outcome, Verdict};
use crate::sets::{self, IncludeArgs, SetArgs, Versioned};
use crate::terminal::{Terminal, print, print_json};
use clap::Args;
use pantile_seal::{ListedPath, list};
use std::fmt::Write;

/// List what is sealed in a set
///
/// Answers: is that file in there, and as of when? Only headers and one manifest are read. A change
/// that was cut off after it was decided is finished first.
#[derive(Args)]
#[command(after_long_help = "\
Permissions, bytes, time of the last change (UTC) and path, directories before what they hold. The paths are those that \
'heal SET -- PATH' and --include take.

Examples:
  pantile list shards
  pantile list shards --include photos/2026/
  pantile list shards --json | jq -r '.paths[] | select(.bytes > 1000000) | .path'")]
pub struct List {
    #[command(flatten)]
    set: SetArgs,
    #[command(flatten)]
    include: IncludeArgs,
    /// Print JSON: the set and its paths.
    #[arg(long)]
    json: bool,
}

impl List {
    pub fn run(self, _terminal: &Terminal) -> Outcome {
        let listing = list(&self.set.into_paths()?, &self.include.into_select());
        let listing = listing.map_err(|error| sets::failure(&error))?;
        match self.json {
            true => print_json(&Versioned::new(&listing))?,
            false => {
                let mut out = String::new();
                listing.paths.iter().for_each(|path| line(&mut out, path));
                print(&out)?;
            }
        }
        Ok(Verdict::Good)
    }
}

fn line(out: &mut String, entry: &ListedPath) {
    let kind = match entry.kind.as_str() {
        "dir" => 'd',
        "link" => 'l',
        _ => '-',
    };
    let path = if entry.path.is_empty() { "." } else { &entry.path };
    let (mode, bytes, time) = (permissions(entry.mode), entry.bytes, time(entry.mtime_s));
    let _ = write!(out, "{kind}{mode} {bytes:>14}  {time}  {}", sets::name(path));
    if let Some(target) = &entry.target {
        let leads = if entry.kind == "hard-link" { "link to" } else { "->" };
        let _ = write!(out, " {leads} {}", sets::name(target));
    }
    out.push('\n');
}

/// As `ls -l` writes them.
fn permissions(mode: u32) -> String {
    const LETTERS: [char; 3] = ['r', 'w', 'x'];
    let mut text: Vec<char> =
        (0..9).map(|i| if mode & 0o400 >> i == 0 { '-' } else { LETTERS[i % 3] }).collect();
    for (bit, at, letter) in [(0o4000, 2, 's'), (0o2000, 5, 's'), (0o1000, 8, 't')] {
        if mode & bit != 0 {
            text[at] = if text[at] == 'x' { letter } else { letter.to_ascii_uppercase() };
        }
    }
    text.into_iter().collect()
}

/// Seconds since 1970 as a date and time of day, UTC. Source: Hinnant, "chrono-compatible low-level
/// date algorithms".
fn time(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // From the first of March of the year 0, so that the day of a leap year comes last.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::{permissions, time};

    #[test]
    fn times_and_permissions_are_those_that_ls_shows() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00"),
            (951_826_154, "2000-02-29 12:09:14"),
            (1_709_251_199, "2024-02-29 23:59:59"),
            (-1, "1969-12-31 23:59:59"),
            (4_102_444_800, "2100-01-01 00:00:00"),
        ] {
            assert_eq!(time(seconds), text);
        }
        assert_eq!(time(i64::MAX / 100_000).len(), 19 + 3);
        for (mode, text) in [(0o644, "rw-r--r--"), (0o7777, "rwsrwsrwt"), (0o6000, "--S--S---")] {
            assert_eq!(permissions(mode), text);
        }
    }
}
