//! `pantile info`: shows the set of some shards, and its files.

use crate::describe::{count, directories};
use crate::failure::{Failure, Outcome, Verdict};
use crate::sets::{self, IncludeArgs, SetArgs, Versioned};
use crate::terminal::{Terminal, print, print_json};
use clap::Args;
use pantile_seal::{ListedPath, SetInfo, list, open_set};
use std::fmt::Write;

/// Show a sealed set: code, sources, and shards that are present
///
/// Answers: what is in these shards? Is that file in there, and as of when? Only headers and one
/// manifest are read; 'pantile verify' reads everything. If a change was interrupted after its
/// commit, it is named; with --files it is completed first, without --files nothing is written. The
/// status is 1 if a disk or a shard is lost or damaged, and 2 if too many are.
#[derive(Args)]
#[command(after_long_help = "\
With --files: permissions, bytes, time of the last change (UTC) and path, directories before what they hold. The paths are those that \
'heal SET -- PATH' and --include take.

Examples:
  pantile info shards
  pantile info shards --files
  pantile info shards --files --include photos/2026/
  pantile info shards --files --json | jq -r '.paths[] | select(.bytes > 1000000) | .path'
  pantile info /disk3/photos.02.shard --json | jq -r .code")]
pub struct Info {
    #[command(flatten)]
    set: SetArgs,
    /// List the files of the set.
    #[arg(long)]
    files: bool,
    #[command(flatten)]
    include: IncludeArgs,
    /// Print JSON: the set and its shards, with --files the set and its paths.
    #[arg(long)]
    json: bool,
}

impl Info {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        if self.files {
            return self.list();
        }
        if self.include.is_given() {
            return Err(Failure::Input("--include chooses among files; add --files".into()));
        }
        let hint = self.set.hint();
        let info = open_set(&self.set.into_paths()?).map_err(|error| sets::failure(&error))?;
        // Disks whose places are known from the set alone can be elsewhere on this machine.
        let is_gone = info.survival.gone > 0 && (info.sources_known || info.mode == "full");
        let is_lost = is_gone || !info.shards.iter().all(sets::is_good);
        let is_too_much = is_gone && info.survival.disks.is_empty() && info.survival.files > 0;
        match self.json {
            true => print_json(&Versioned::new(&info))?,
            false => {
                let what = "Verdict: a part of the set is lost or damaged: bring it back, or run";
                let verdict = (is_lost && !is_too_much).then(|| format!("\n{what} '{}'.\n", hint.heal()));
                print(&(text(&info, terminal) + &verdict.unwrap_or_default()))?;
            }
        }
        match is_too_much {
            true => Err(Failure::Losses(format!(
                "more is lost than {} tolerates; '{}' says what would suffice",
                sets::name(&info.code),
                hint.verify()
            ))),
            false if is_lost || info.survival.is_unborne => Ok(Verdict::Bad),
            false => Ok(Verdict::Good),
        }
    }
}

impl Info {
    fn list(self) -> Outcome {
        let listing = list(&self.set.into_paths()?, &self.include.into_select());
        let listing = listing.map_err(|error| sets::failure(&error))?;
        match self.json {
            true => print_json(&Versioned::new(&listing))?,
            false => {
                let mut out = String::new();
                listing.paths.iter().for_each(|path| listed(&mut out, path));
                print(&out)?;
            }
        }
        Ok(Verdict::Good)
    }
}

fn text(info: &SetInfo, terminal: &Terminal) -> String {
    let mut out = format!("{}\n\n", terminal.bold(sets::name(&info.name)));
    let mut line = |what: &str, value: String| {
        let _ = writeln!(out, "  {what:<10} {value}");
    };
    line("set", format!("{}, generation {}", info.set, info.generation));
    line("code", info.code.clone());
    line(
        "mode",
        match info.mode.as_str() {
            "beside" => "beside: parity only, the original files are the data".to_string(),
            _ => "full: the shards hold the data too".to_string(),
        },
    );
    line("checksums", if info.checksums { "yes" } else { "no" }.to_string());
    let names = match info.hard_links {
        0 => String::new(),
        names => format!(", {}", count(names as usize, "hard link")),
    };
    line(
        "content",
        format!(
            "{} ({}), {}, {}",
            count(info.files as usize, "file"),
            sets::bytes(info.file_bytes),
            directories(info.dirs),
            count(info.links as usize, "link")
        ) + &names,
    );
    line(
        "layout",
        format!("{} stripes of {} data blocks of {}", info.stripes, info.lanes, sets::bytes(info.block_len)),
    );
    for (disk, source) in info.disk_names.iter().zip(&info.sources) {
        line("disk", format!("{}, sealed from {}", sets::name(disk), sets::name(source)));
    }
    for pattern in &info.left_out {
        line("left out", sets::name(pattern));
    }
    if info.one_file_system {
        line("left out", "other file systems below the sources".into());
    }
    for journal in &info.pending {
        let what = "a change that was decided is not finished; 'pantile heal' does, or 'pantile seal'";
        let _ = writeln!(out, "  {:<10} {}: {what}", "pending", sets::name(journal));
    }
    out.push_str(&sets::exposed(&info.exposed, info.exposed_count));
    out.push_str(&sets::survival(&info.survival, (&info.code, &info.mode)));
    out.push('\n');
    out.push_str(&sets::shards(&info.shards, true, terminal));
    out
}

fn listed(out: &mut String, entry: &ListedPath) {
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

/// Returns permissions in the form of `ls -l`.
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

/// Returns seconds since 1970 as date and time of day, UTC. Source: Hinnant, "chrono-compatible
/// low-level date algorithms".
fn time(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Years begin on the first of March, so that the leap day is the last of its year.
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
