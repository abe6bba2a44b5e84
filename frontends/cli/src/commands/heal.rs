//! `pantile heal`: repairs a sealed set.

use super::verify::Examination;
use crate::describe::count;
use crate::failure::{Failure, Outcome, Verdict};
use crate::sets::{self, Hint, IncludeArgs, SetArgs, Shown, Versioned};
use crate::terminal::{Terminal, print, print_json};
use clap::Args;
use pantile_seal::{FaultKind, FileReport, FileStatus, HealOptions, HealReport, Losses, Select, heal};
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;

/// Repair missing or damaged data, as far as the code can
///
/// Answers: make it whole again. Damaged blocks are repaired in place, lost shards are rebuilt. A
/// file that you have changed since sealing is never touched. If a file was touched without a new
/// time of modification, its current content is kept beside the repaired file. Everything
/// repairable is repaired, even if the rest is not.
#[derive(Args)]
#[command(after_long_help = "\
Exit status: 0 whole again, 1 (--dry-run) there is something to repair, or originals that were renamed were left, \
2 not all could be repaired.
Ctrl-C ends between two stripes; nothing is lost, and the next run goes on.

Originals beside their parity are written to where you sealed them on this machine, or where --disk says. \
The replaced content of a file touched since its seal is kept beside it: its blocks as FILE.replaced-blocks, or all of it \
as FILE.before-heal if a new file takes its place. A shard's link is followed if it leads to a \
shard of the set, and moved aside if not.

Shards that were moved to other disks are found by a symbolic link in the directory, or if their directories are named \
too; those that are not found are rebuilt beside the others.

Examples:
  pantile heal shards --dry-run              list the repairs
  pantile heal shards                        repair
  pantile heal parity -- photos/a.raw        one original beside its parity; a directory, too
  pantile heal parity --include '*.raw'
  pantile heal parity --disk films           one disk alone, after it was replaced
  pantile heal parity --disk films=/mnt/new  all, with disk films there from now on
  pantile heal /disk1 /disk2 --out /disk9    rebuild lost shards on another disk")]
pub struct Heal {
    #[command(flatten)]
    set: SetArgs,
    /// Originals beside their parity that are healed alone, files or directories; nothing more is
    /// read than necessary.
    #[arg(last = true, value_name = "PATH")]
    only: Vec<PathBuf>,
    #[command(flatten)]
    include: IncludeArgs,
    /// Only print the faults and whether they can be repaired; write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Judge by the equations of the code alone, as if there were no checksums.
    #[arg(long)]
    ignore_checksums: bool,
    /// Also overwrite shards that are newer than the state that can be restored, and fill folders
    /// of disks that are not mounted.
    #[arg(long)]
    yes: bool,
    /// Without checksums: also repair blocks that are only probably wrong, where too few are wrong
    /// to be certain.
    #[arg(long, conflicts_with = "dry_run")]
    guess: bool,
    /// Directory for shards that are lost entirely; by default that of the others.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Give restored originals their sealed permissions, even those that the umask denies.
    #[arg(long)]
    modes: bool,
    /// Print only one line for each fault with its repair, and no progress.
    #[arg(long, short)]
    quiet: bool,
    /// Print JSON: the faults and their repairs.
    #[arg(long)]
    json: bool,
}

/// The answer if some faults could not be repaired.
#[derive(Serialize)]
struct PartlyJson<'r> {
    losses: Option<&'r Losses>,
    healed: Option<&'r HealReport>,
}

impl Heal {
    pub fn run(mut self, terminal: &Terminal) -> Outcome {
        let disks = self.set.take_chosen_disks();
        let hint = self.set.hint();
        let is_named = !self.only.is_empty();
        let select = Select { paths: self.only.clone(), disks, ..self.include.clone().into_select() };
        if self.dry_run && !select.is_all() {
            return Err(Failure::Input(
                "--dry-run looks at the whole set; leave out the paths that are to be healed alone".into(),
            ));
        }
        if self.dry_run {
            return self.rehearse(terminal);
        }
        let mut again = hint.heal();
        if let Some(out) = &self.out {
            again.push_str(&format!(" --out {}", sets::quoted(out)));
        }
        if self.ignore_checksums {
            again.push_str(" --ignore-checksums");
        }
        let options = HealOptions {
            set: self.set.into_paths()?,
            ignore_checksums: self.ignore_checksums,
            out: self.out,
            guess: self.guess,
            yes: self.yes,
            select,
            modes: self.modes,
        };
        let mut progress = Shown::unless(self.quiet, terminal);
        let result = heal(&options, &mut progress);
        progress.end();
        match result {
            Ok(report) => {
                match (self.json, self.quiet) {
                    (true, _) => print_json(&Versioned::new(&report))?,
                    (false, true) => print(&lines(&report))?,
                    (false, false) => print(&text(&report, &hint, terminal))?,
                }
                match report.blocks_left {
                    // The next seal forgets the names, so the user decides.
                    0 if !report.found.renamed.is_empty() => Ok(Verdict::Bad),
                    // A file that was named was not given its sealed content.
                    0 if is_named && !report.left_changed.is_empty() => Ok(Verdict::Bad),
                    0 => Ok(Verdict::Good),
                    left => Err(Failure::Losses(format!(
                        "wrong, but without a certain repair: {}. Nothing was written in their stripes; 'pantile verify --ignore-checksums' says where, 'pantile heal --guess' repairs what is probable",
                        count(left as usize, "block")
                    ))),
                }
            }
            Err(error) => {
                if let FaultKind::PlacesUnknown(disks) = &error.kind {
                    let sources: Vec<String> =
                        disks.iter().map(|at| format!(" {}", sets::disk_words(at))).collect();
                    return Err(Failure::Input(format!(
                        "you have no record of sealing this set on this machine, so that only the set says where its originals \
                         are; nothing was written. To repair them there: {again}{}",
                        sources.concat()
                    )));
                }
                let (losses, healed) = match &error.kind {
                    FaultKind::TooMuchLost { losses, healed } => (Some(&**losses), healed.as_deref()),
                    FaultKind::NotHealed(report) | FaultKind::HealedInDoubt(report) => {
                        (None, Some(&**report))
                    }
                    _ => return Err(sets::failure(&error)),
                };
                match (self.json, healed) {
                    (true, _) => print_json(&Versioned::new(&PartlyJson { losses, healed }))?,
                    (false, Some(report)) if self.quiet => print(&lines(report))?,
                    (false, Some(report)) => print(&text(report, &hint, terminal))?,
                    (false, None) => {}
                }
                Err(sets::failure(&error))
            }
        }
    }

    /// Prints the faults that a repair would mend.
    fn rehearse(self, terminal: &Terminal) -> Outcome {
        let yes = self.yes;
        let report = Examination {
            set: self.set,
            ignore_checksums: self.ignore_checksums,
            ignore_changes: false,
            share: None,
            quiet: self.quiet,
            json: self.json,
            closing: "Nothing was healed (--dry-run).\n",
        }
        .run(terminal)?;
        match (report.clean || !report.needs_heal, report.recoverable) {
            (true, _) => Ok(Verdict::Good),
            // Ends with the status of a real run.
            (false, true) if report.newer.is_some() && !yes => {
                Err(Failure::System("shards of a newer generation are there; see the verdict".into()))
            }
            (false, true) => Ok(Verdict::Bad),
            (false, false) => Err(Failure::Losses(sets::losses(report.losses.as_ref()))),
        }
    }
}

/// Returns each fault with its repair, one per line.
fn lines(report: &HealReport) -> String {
    let mut out = String::new();
    let mut line = |what: &str, path: &str| {
        let _ = writeln!(out, "{what}: {}", sets::name(path));
    };
    report.shards_renamed.iter().for_each(|shard| line("shard renamed", &shard.to));
    report.moved_aside.iter().for_each(|file| line("moved aside", &file.to));
    report.shards_written.iter().for_each(|path| line("shard repaired", path));
    report.files_healed.iter().for_each(|path| line("file healed", path));
    report.kept_aside.iter().for_each(|path| line("kept", path));
    report.kept_blocks.iter().for_each(|path| line("kept the replaced blocks", path));
    report.left_changed.iter().for_each(|path| line("changed since it was sealed, left alone", path));
    for file in beyond_repair(report) {
        line("not recovered", &format!("{}: {}", file.path, blocks_beyond(file)));
    }
    for failed in &report.not_healed {
        line("not healed", &format!("{}: {}", failed.path, failed.reason));
    }
    for file in &report.doubtful {
        line("healed, may be wrong", &format!("{}: {}", file.path, file.reason));
    }
    for file in &report.found.renamed {
        line("renamed, left alone", &format!("{} to {}", file.from, file.to));
    }
    if report.blocks_left > 0 {
        line("blocks that could not be repaired", &report.blocks_left.to_string());
    }
    out
}

/// Returns the files with blocks that the code cannot recover.
fn beyond_repair(report: &HealReport) -> Vec<&FileReport> {
    report.found.files.iter().filter(|file| file.unrecoverable_blocks > 0).collect()
}

fn blocks_beyond(file: &FileReport) -> String {
    format!("{} lost beyond what the code tolerates", count(file.unrecoverable_blocks as usize, "block"))
}

/// Adds a line for each item, up to a number that a terminal shows.
fn list<T>(out: &mut String, items: &[T], line: impl Fn(&T) -> String) {
    const LINES_MOST: usize = 30;
    items.iter().take(LINES_MOST).for_each(|item| {
        let _ = writeln!(out, "  {}", line(item));
    });
    let more = items.len().saturating_sub(LINES_MOST);
    if more > 0 {
        let _ = writeln!(out, "  ...        and {more} more; --json lists them");
    }
}

fn text(report: &HealReport, hint: &Hint, terminal: &Terminal) -> String {
    let title = terminal.bold(sets::name(&report.found.name));
    let mut strays = String::new();
    for path in &report.strays_removed {
        let _ = writeln!(strays, "  removed    {} (left by a command that was killed)", sets::name(path));
    }
    let is_aside = |path: &str| report.moved_aside.iter().any(|file| file.from == path);
    let superfluous = sets::superfluous(&report.found, |path| !is_aside(path));
    if report.found.partial && report.found.clean {
        return format!("{title}: what was named was whole; there was nothing to repair.\n");
    }
    if report.found.clean {
        let missing = sets::missing_originals(&report.found, hint);
        return format!("{strays}{title} was whole; there was nothing to repair.\n{superfluous}{missing}");
    }
    let mut out = format!("{title} ({})\n\n{strays}", report.found.code);
    if report.found.mode == "beside" {
        for source in &report.found.sources {
            let _ = writeln!(out, "  originals  {}", sets::name(source));
        }
    }
    let _ = writeln!(out, "  repaired   {}", count(report.blocks_repaired as usize, "block"));
    if report.stripes_guessed > 0 {
        let _ = writeln!(
            out,
            "  guessed    what is wrong in {} stripes, as asked: look at their files",
            report.stripes_guessed
        );
    }
    for shard in &report.shards_renamed {
        let (from, to) = (sets::name(&shard.from), sets::name(&shard.to));
        let _ = writeln!(out, "  renamed    {to} (its name was {from})");
    }
    for file in &report.moved_aside {
        let (from, to) = (sets::name(&file.from), sets::name(&file.to));
        let _ = writeln!(
            out,
            "  moved      {from} aside to {to} (it is, or leads to, something else than this shard)"
        );
    }
    for path in &report.shards_written {
        let _ = writeln!(out, "  shard      {}", sets::name(path));
    }
    list(&mut out, &report.files_healed, |path| format!("file       {}", sets::name(path)));
    list(&mut out, &report.not_kept, |lost| {
        format!("not kept   {}: {}", sets::name(&lost.path), sets::name(&lost.reason))
    });
    list(&mut out, &report.kept_aside, |path| {
        let why = "what was there: it was touched since it was sealed; remove it if it is only damaged";
        format!("kept       {} ({why})", sets::name(path))
    });
    list(&mut out, &report.kept_blocks, |path| {
        let why = "only the replaced blocks, at their offsets: the file was touched since it was sealed";
        format!("kept       {} ({why})", sets::name(path))
    });
    list(&mut out, &report.left_changed, |path| {
        let is_doubtful = |file: &FileReport| file.path == *path && file.status == FileStatus::RotOrChange;
        let why = match report.found.files.iter().any(is_doubtful) {
            true => "rotten, or changed since it was sealed; see the verdict",
            false => {
                "changed since it was sealed; seal again to protect its new state, or move it away and heal again for the sealed one"
            }
        };
        format!("left alone {} ({why})", sets::name(path))
    });
    list(&mut out, &report.found.renamed, |file| {
        let (from, to) = (sets::name(&file.from), sets::name(&file.to));
        let what = "seal again to protect its new name, remove that file to have this one healed";
        format!("left alone {from} (renamed to {to}; {what})")
    });
    if report.blocks_left > 0 {
        let _ = writeln!(out, "  not fixed  {}", count(report.blocks_left as usize, "block"));
    }
    list(&mut out, &beyond_repair(report), |file| {
        format!("not recovered {}: {}", sets::name(&file.path), blocks_beyond(file))
    });
    list(&mut out, &report.not_healed, |failed| {
        format!("not healed {}: {}", sets::name(&failed.path), sets::name(&failed.reason))
    });
    list(&mut out, &report.doubtful, |file| {
        format!("may be wrong {}: {}", sets::name(&file.path), sets::name(&file.reason))
    });
    let verdict = match report.blocks_left == 0 && report.not_healed.is_empty() {
        true if !report.doubtful.is_empty() => {
            "Verdict: all is there, but what was computed from touched files may be wrong.".to_string()
        }
        true if !report.found.needs_heal => sets::changed_only(&report.found, hint),
        true if report.found.needs_seal => {
            let seal = hint.seal(&report.found);
            format!("Verdict: whole again, but for what was changed since: run '{seal}'.")
        }
        true if report.found.partial => {
            "Verdict: what was named is whole again; nothing else was looked at.".to_string()
        }
        true => "Verdict: whole again.".to_string(),
        false => "Verdict: not whole.".to_string(),
    };
    let missing = sets::missing_originals(&report.found, hint);
    let _ = write!(out, "\n{superfluous}{verdict}\n{missing}");
    out
}
