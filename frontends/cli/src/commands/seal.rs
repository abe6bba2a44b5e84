//! `pantile seal`: protects files by shards.

use crate::args;
use crate::describe::count;
use crate::failure::{Failure, Outcome, Verdict, note};
use crate::machine::all::{self, AllArgs, Task};
use crate::sets::{self, Shown, Versioned};
use crate::terminal::{Terminal, print, print_json};
use crate::typed;
use clap::Args;
use pantile::Code;
use pantile_seal::{Change, FilesMax, LeftOut, Mode, SealOptions, SealReport, SetPaths, pin_sealed, seal};
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Protect files with parity, or bring an existing set up to date
///
/// Answers: how do I make these files survive lost disks and silent damage? Seal writes one shard
/// per column of the code into a directory, or into several on different disks. Run again, it reads
/// and writes only the changes. With --beside the shards hold parity only, and the original files
/// stay the data: seal each disk as a PATH, and give each parity an --out of its own.
#[derive(Args)]
#[command(mut_arg("all", |all| all.exclusive(false).conflicts_with_all(ONE_SET)))]
#[command(mut_arg("out", |out| out.required_unless_present("all").required(false)))]
#[command(after_long_help = "\
Sizes are bytes, or 64K, 1MiB, 1.5G (powers of 1024). Killed at any moment, the set has either the \
whole old or the whole new state; Ctrl-C, a full disk or a file that cannot be read leave the old one. Where parity \
has no room for one step, several are taken, and this is true of each file. Sealing again \
needs free space for the changes: the new blocks and the parity of their stripes. A renamed file is not sealed again.

Examples:
  pantile seal photos --code rs:10+4 --out shards       14 shards, any 10 restore everything
  mv shards/photos.03.shard /disk3 && ln -s /disk3/photos.03.shard shards
  pantile seal photos --out shards                      later: seal the changes
  pantile seal --out shards                             the same, with the paths of the last seal
  pantile seal photos --out shards --dry-run            list the changes
  pantile seal home --code rs:4+2 --out shards --exclude '*.tmp' --exclude /.cache/ --one-file-system
  pantile seal films --code raid6:8 --out parity --beside --block 1M
  pantile seal --beside --disk films=/disk1 --disk music=/disk2 --code raid6:2 --out /parity --name pool
  pantile seal --disk films=/mnt/new --out /parity      films has moved, the others have not
  pantile seal --beside /disk1 /disk2 --code raid6:2 --name pool --out /par1/pool --out /par2/pool
  pantile seal --all                                    every set of /etc/pantile/pantile.toml; with --quiet, too
  pantile seal letters.txt taxes --code rdp:6 --out backup --name papers")]
pub struct Seal {
    /// Files and directories to protect.
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// A disk of the set by its name, with its current path.
    ///
    /// Paths are named by their last component. If no PATH is given, disks without an option are
    /// expected at the path of the last seal.
    #[arg(long = "disk", value_name = "NAME=PATH")]
    disks: Vec<OsString>,
    /// The code of a new set: raid5 (one parity) or raid6 (two) with --beside, a spec such as
    /// rs:10+4, or the path of a code file.
    #[arg(long, value_name = "CODE")]
    code: Option<String>,
    #[command(flatten)]
    reading: args::Reading,
    /// The directory of the shards, created if necessary. Given several times, each directory gets
    /// shards in turn, and links to the others.
    #[arg(long, value_name = "DIR", required = true)]
    out: Vec<PathBuf>,
    #[command(flatten)]
    all: AllArgs,
    /// Write parity only; the original files remain the data, in their place.
    #[arg(long)]
    beside: bool,
    /// Store no checksums; silent damage is then located by the equations of the code alone.
    #[arg(long)]
    no_checksums: bool,
    /// Bytes of a block, a power of two from 4K to 1M; by default chosen from the amount of data.
    #[arg(long, value_name = "SIZE", value_parser = args::size)]
    block: Option<u64>,
    /// The name of the set; by default that of the first path, or of the target if it is a link.
    #[arg(long, value_name = "NAME")]
    name: Option<OsString>,
    /// Accept the paths as the sealed ones at a new place.
    #[arg(long, hide_short_help = true)]
    moved: bool,
    /// Read every file, and seal changed content again even if size and times are unchanged.
    #[arg(long)]
    read_all: bool,
    /// Forget the sources of the set that are not named. With several sources beside parity, each
    /// has a column of its own.
    #[arg(long)]
    forget: bool,
    /// With --beside, let several sources share all columns of a new set, as one source does.
    /// Parity is shorter, but a source that is lost as a whole, as with its disk, cannot be
    /// restored.
    #[arg(long, requires = "beside")]
    shared: bool,
    /// Also seal files of an earlier time in which only a few blocks differ, which can be damage as
    /// well as a change.
    #[arg(long)]
    accept_changes: bool,
    /// Write digests of the whole set to a file. Keep it where no user who can write to the shards
    /// can write: checksums find accidents and do not resist a forger, --pin of verify and heal
    /// does.
    #[arg(long, value_name = "FILE")]
    pin: Option<PathBuf>,
    /// Leave out paths that match a pattern as in a .gitignore at the top of each PATH, such as
    /// '*.tmp' or /cache/; may be given several times. The set keeps patterns and --one-file-system
    /// until either is given again, which replaces both.
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Leave out other file systems below each PATH.
    #[arg(long)]
    one_file_system: bool,
    /// Remove all exclusions of the set.
    #[arg(long, conflicts_with_all = ["exclude", "one_file_system"], hide_short_help = true)]
    exclude_none: bool,
    /// Largest number of files of a PATH that may be gone and forgotten: a number, or a share such
    /// as 30%. By default ten, or half of them; ten for a directory that is empty now.
    #[arg(long, value_name = "N|P%", value_parser = files_max)]
    removed_max: Option<FilesMax>,
    /// Largest number of files of a PATH that may be changed, a number or a share such as 20%; more
    /// are refused, as after malware. No limit by default.
    #[arg(long, value_name = "N|P%", value_parser = files_max, hide_short_help = true)]
    changed_max: Option<FilesMax>,
    /// Only print the changes; write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print only one line for each path that was not sealed in its current state, and no progress.
    #[arg(long, short)]
    quiet: bool,
    /// Print JSON: the files and bytes that were read, written and sealed.
    #[arg(long)]
    json: bool,
}

impl Seal {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        if let Some(config) = self.all.all {
            let more: Vec<OsString> = self.quiet.then(|| "--quiet".into()).into_iter().collect();
            return all::run(Task::Seal, &config, &more, terminal);
        }
        let outs = self.out.clone();
        outs.iter().try_for_each(|out| refuse_swapped(&self.paths, out))?;
        let sources = self.beside.then_some(self.paths.len() + self.disks.len());
        let mut named = self.out.into_iter();
        let mut options = SealOptions::new(self.paths, named.next().unwrap_or_default());
        options.more_out = named.collect();
        let code = self.code.as_deref().map(|code| code_beside(code, sources, self.reading));
        options.code = code.transpose()?;
        let disks = self.disks.iter().map(|text| sets::disk(text).map_err(Failure::Input));
        options.disks = disks.collect::<Result<_, _>>()?;
        options.effort = self.reading.effort;
        options.mode = self.beside.then_some(Mode::Beside);
        options.checksums = self.no_checksums.then_some(false);
        options.block_len = self.block;
        options.name = self.name;
        options.records = sets::records();
        (options.moved, options.read_all) = (self.moved, self.read_all);
        (options.forget, options.shared) = (self.forget, self.shared);
        options.accept_changes = self.accept_changes;
        let leave_out = LeftOut { patterns: self.exclude, other_systems: self.one_file_system };
        options.left_out = (self.exclude_none || !leave_out.is_nothing()).then_some(leave_out);
        (options.removed_max, options.dry_run) = (self.removed_max.unwrap_or_default(), self.dry_run);
        options.changed_max = self.changed_max;
        let mut progress = Shown::unless(self.quiet, terminal);
        let result = seal(&options, &mut progress);
        let pinned = match (&result, &self.pin) {
            (Ok(report), Some(file)) if !report.dry_run => {
                let set = SetPaths { name: Some(report.set.clone()), paths: outs, ..SetPaths::default() };
                Some(pin_sealed(&set, report, file, &mut progress))
            }
            _ => None,
        };
        progress.end();
        let report = result.map_err(|error| sets::failure(&error))?;
        if let Some(before) = &report.widened_from {
            let code = sets::name(&report.code);
            note(&format!(
                "{} became {code}, so that each source has a column of its own.",
                sets::name(before)
            ));
        }
        let pinned = pinned.transpose().map_err(|error| sets::failure(&error))?;
        if report.tolerance == 0 {
            note(&warning(&report.code));
        }
        match (self.json, self.quiet) {
            (true, _) => print_json(&Versioned::new(&report))?,
            (false, true) => print(&left_out(&report, ""))?,
            (false, false) => print(&text(&report, terminal))?,
        }
        if let Some(pinned) = pinned {
            note(&format!(
                "pinned: {}, {} in {}; keep it where no user who can write to the shards can",
                count(pinned.blocks as usize, "block"),
                sets::bytes(pinned.bytes),
                sets::name(&pinned.path)
            ));
        }
        let is_whole = !report.survival.is_unborne
            && report.changed_meanwhile.is_empty()
            && report.damaged.is_empty()
            && report.too_long_count + report.unreadable_count == 0;
        Ok(if is_whole { Verdict::Good } else { Verdict::Bad })
    }
}

/// Options of one set, or the form of one report.
const ONE_SET: [&str; 22] = [
    "paths",
    "disks",
    "code",
    "effort",
    "out",
    "beside",
    "no_checksums",
    "block",
    "name",
    "moved",
    "read_all",
    "forget",
    "shared",
    "accept_changes",
    "pin",
    "exclude",
    "one_file_system",
    "exclude_none",
    "removed_max",
    "changed_max",
    "dry_run",
    "json",
];

/// Checks the code of a new set; `sources`: the number of those beside which parity is written.
pub fn set_code(text: &str, sources: Option<usize>) -> Result<(), Failure> {
    code_beside(text, sources, args::Reading::default()).map(drop)
}

/// Reads a code. One without numbers gets a data column for each source beside which parity is
/// written.
fn code_beside(text: &str, sources: Option<usize>, reading: args::Reading) -> Result<Code, Failure> {
    /// The most parities of a family without numbers.
    const PARITIES_MOST: usize = 4;
    let given = args::code(text, reading);
    let (Err(_), Some(sources)) = (&given, sources) else { return given };
    let is_parity = |code: &Code, column| code.column_cells(column).all(|cell| code.is_parity(cell));
    let data = |code: &Code| (0..code.columns()).filter(|&column| !is_parity(code, column)).count();
    let counted = |disks| args::code_on(text, Some(disks), reading).ok();
    let mut codes = (sources + 1..=sources + PARITIES_MOST).filter_map(counted);
    codes.find(|code| data(code) == sources).map_or(given, Ok)
}

/// Refuses swapped arguments: shards as the files to seal, and a directory of other files for the
/// shards.
fn refuse_swapped(paths: &[PathBuf], out: &Path) -> Result<(), Failure> {
    let holds_others = out.is_dir() && !typed::holds_shards(out) && !typed::is_empty(out);
    match paths {
        [path] if typed::holds_only_shards(path) && holds_others => Err(Failure::Input(format!(
            "{} holds shards of a sealed set and {} holds none; to seal the latter: pantile seal {} --out {}",
            sets::name(&path.to_string_lossy()),
            sets::name(&out.to_string_lossy()),
            sets::quoted(out),
            sets::quoted(path)
        ))),
        _ => Ok(()),
    }
}

/// Reads a number of files, or a percentage of them.
pub fn files_max(text: &str) -> Result<FilesMax, String> {
    let (digits, is_share) = text.strip_suffix('%').map_or((text, false), |digits| (digits, true));
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    match digits.parse::<u64>() {
        Ok(share) if is_number && is_share && share <= 100 => Ok(FilesMax::Percent(share)),
        Ok(number) if is_number && !is_share => Ok(FilesMax::Files(number)),
        _ => Err("expected a number of files such as 200, or a share of them from 0% to 100%".into()),
    }
}

/// Returns the warning on a code that tolerates no loss, or not every one.
fn warning(code: &str) -> String {
    let fact = match code.starts_with("raid0:") {
        true => "has no parity: damage is noticed, and nothing that is lost or damaged can be repaired",
        false => "does not survive every loss of one shard",
    };
    format!("warning: {} {fact}; codes such as raid6:4 survive any two.", sets::name(code))
}

/// Most changes that the text lists.
const CHANGES_MOST: usize = 30;

/// Returns the paths that were not sealed in their current state, one per line.
fn left_out(report: &SealReport, before: &str) -> String {
    let mut out = String::new();
    for path in &report.changed_meanwhile {
        let path = sets::name(path);
        let _ = writeln!(out, "{before}{path} changed while it was read; seal again to have its last state.");
    }
    for path in &report.skipped {
        let path = sets::name(path);
        let _ = writeln!(out, "{before}{path} is neither file, directory nor link, and was left out.");
    }
    for path in &report.too_long {
        let begin: String = sets::name(path).chars().take(100).collect();
        let _ = writeln!(
            out,
            "{before}{begin}... has more than 4,095 bytes below its source, and was left out with what is in it; shorten \
             the names above it and seal again."
        );
    }
    if report.too_long_count > report.too_long.len() as u64 {
        let _ = writeln!(out, "{before}{} paths in all are so long.", report.too_long_count);
    }
    for unread in &report.unreadable {
        let _ = writeln!(
            out,
            "{before}{} cannot be read ({}), and was left out; what was sealed of it before is kept. --exclude {} \
             leaves it out for good.",
            sets::name(&unread.path),
            unread.reason,
            sets::quoted(&unread.exclude)
        );
    }
    if report.unreadable_count > report.unreadable.len() as u64 {
        let _ = writeln!(out, "{before}{} paths in all cannot be read.", report.unreadable_count);
    }
    for path in &report.damaged {
        let dir = report.shards.first().and_then(|shard| Path::new(shard).parent());
        let dir = dir.filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let _ = writeln!(
            out,
            "{before}{} has wrong blocks, which were computed from the others; run 'pantile heal {} --name {}', and look at \
             its disk.",
            sets::name(path),
            sets::quoted(dir),
            sets::quoted(&report.name)
        );
    }
    for path in &report.strays {
        let path = sets::name(path);
        let _ = writeln!(out, "{before}{path} is what a command left that was killed, and was left out.");
    }
    out
}

fn text(report: &SealReport, terminal: &Terminal) -> String {
    let mut out = format!(
        "{} ({}), generation {}{}\n\n",
        terminal.bold(sets::name(&report.name)),
        report.code,
        report.generation,
        if report.dry_run { ", if it were sealed" } else { "" }
    );
    let mut line = |what: &str, value: String| {
        let _ = writeln!(out, "  {what:<10} {value}");
    };
    let names = match report.hard_links {
        0 => String::new(),
        names => format!(" with {}", count(names as usize, "other name")),
    };
    line(
        "sealed",
        format!("{}{names}, {}", count(report.files as usize, "file"), sets::bytes(report.file_bytes)),
    );
    line(
        "changes",
        format!(
            "{} added, {} changed, {} removed, {} unchanged",
            count(report.added as usize, "path"),
            report.changed,
            report.removed,
            report.unchanged
        ),
    );
    if report.renamed > 0 {
        line("renamed", format!("{} of those added had the content of a file that is gone", report.renamed));
    }
    line(
        "read",
        format!(
            "{} of files, {} of shards",
            sets::bytes(report.source_bytes_read),
            sets::bytes(report.shard_bytes_read)
        ),
    );
    line("written", sets::bytes(report.bytes_written));
    line("stripes", format!("{} of {} touched", report.stripes_touched, report.stripes));
    line(
        "shards",
        format!(
            "{}, {} in all, blocks of {}",
            report.shards.len(),
            sets::bytes(report.shard_bytes),
            sets::bytes(report.block_len)
        ),
    );
    if report.excluded > 0 {
        let paths = count(report.excluded as usize, "path");
        line(
            "excluded",
            format!("{paths}, as the set keeps it: 'pantile info' says what, --exclude-none ends it"),
        );
    }
    for path in &report.other_systems {
        let path = sets::name(path);
        let _ = writeln!(out, "\n{path} is on another file system, and what is in it was left out.");
    }
    out.push_str(&left_out(report, "\n"));
    if report.dry_run {
        out.push('\n');
        for change in report.changes.iter().take(CHANGES_MOST) {
            let what = match change.is {
                Change::Added => "add",
                Change::Changed => "change",
                Change::Removed => "remove",
                Change::Renamed => "rename",
            };
            let from = change.from.as_ref().map(|from| format!(" (it was {})", sets::name(from)));
            let path = if change.path.is_empty() { "." } else { &change.path };
            let _ = writeln!(out, "{what:<7} {}{}", sets::name(path), from.unwrap_or_default());
        }
        let more = report.changes.len().saturating_sub(CHANGES_MOST);
        if more > 0 {
            let _ = writeln!(out, "... and {more} more; --json lists them");
        }
        let _ = writeln!(out, "Nothing was sealed (--dry-run).");
    }
    out.push_str(&sets::exposed(&report.exposed, report.exposed_count));
    out.push_str(&sets::survival(&report.survival, (&report.code, &report.mode)));
    out
}
