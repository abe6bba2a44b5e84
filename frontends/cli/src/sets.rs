//! Shared parts of the commands on sealed sets: choice of the set, progress, exit statuses of
//! errors, tables.

mod losses;
mod shown;

pub use self::losses::{exposed, losses, survival};
pub use self::shown::Shown;
use crate::args::Reading;
use crate::describe::count;
use crate::failure::Failure;
use crate::json::OUTPUT_VERSION;
use crate::machine::all;
pub use crate::records::records;
use crate::render::table::Table;
use crate::terminal::Terminal;
use crate::volumes;
use clap::Args;
pub use pantile_host::{harmless as name, is_harmless, quoted};
use pantile_seal::{
    DiskAt, Fault, FaultKind, FileReport, FileStatus, Select, SetPaths, ShardReport, ShardStatus,
    ShareReport, StripeFinding, StripeVerdict, VerifyReport, path_text, ranges,
};
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The set of a command.
#[derive(Args)]
pub struct SetArgs {
    /// The directory of the shards, or shards by their paths, in any number and order.
    #[arg(required = true, value_name = "DIR|SHARD", num_args = 1..)]
    paths: Vec<PathBuf>,
    /// The name of the set, where shards of several lie together; or its UUID, of which the first 8
    /// digits are enough.
    #[arg(long, value_name = "NAME|UUID")]
    name: Option<OsString>,
    /// Where a disk of the set is now, if it was moved; 'pantile info' shows the names of disks.
    /// With a NAME alone 'pantile heal' heals that disk and no other.
    #[arg(long = "disk", value_name = "NAME=PATH")]
    disks: Vec<OsString>,
    /// A pin that 'seal --pin' wrote and you kept elsewhere: what does not have its digests is
    /// refused, or counts as lost.
    #[arg(long, value_name = "FILE")]
    pin: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
}

impl SetArgs {
    /// Separates disks from paths. Errors: a disk without its path.
    pub fn into_paths(self) -> Result<SetPaths, Failure> {
        let (name, effort) = (self.name.map(path_text), self.reading.effort);
        let disks =
            self.disks.iter().map(|text| disk(text).map_err(Failure::Input)).collect::<Result<_, _>>()?;
        let SetArgs { paths, pin, .. } = self;
        Ok(SetPaths { paths, name, disks, pin, effort, records: records() })
    }

    /// Removes and returns the disks that were named without a path.
    pub fn take_chosen_disks(&mut self) -> Vec<OsString> {
        let is_chosen = |text: &mut OsString| !text.as_bytes().contains(&b'=');
        self.disks.extract_if(.., is_chosen).collect()
    }

    /// Returns the options that name the set again, for proposed commands.
    pub fn hint(&self) -> Hint {
        let mut words: Vec<String> = self.paths.iter().map(quoted).collect();
        words.extend(self.name.iter().map(|name| format!("--name {}", quoted(name))));
        words.extend(self.disks.iter().map(|text| format!("--disk {}", quoted(text))));
        Hint { set: words.join(" "), is_moved: !self.disks.is_empty() }
    }
}

/// Reads a disk and its path from `NAME=PATH`.
pub fn disk(text: &OsString) -> Result<DiskAt, String> {
    let bytes = text.as_bytes();
    let part = |bytes: &[u8]| OsStr::from_bytes(bytes).to_os_string();
    match bytes.iter().position(|&byte| byte == b'=') {
        Some(at) if at > 0 && at + 1 < bytes.len() => {
            Ok(DiskAt { name: part(&bytes[..at]), path: part(&bytes[at + 1..]).into() })
        }
        _ => {
            Err(format!("--disk {}: say where the disk is now, such as --disk films=/mnt/new", quoted(text)))
        }
    }
}

/// Returns the option that gives the path of a disk.
pub fn disk_words(at: &DiskAt) -> String {
    let mut word = at.name.clone();
    word.push("=");
    word.push(&at.path);
    format!("--disk {}", quoted(word))
}

/// The paths of a set that a command works on.
#[derive(Args, Clone)]
pub struct IncludeArgs {
    /// Only what fits a pattern as in a .gitignore, such as '*.raw' or photos/2026/; may be given
    /// several times.
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
}

impl IncludeArgs {
    pub fn is_given(&self) -> bool {
        !self.include.is_empty()
    }

    pub fn into_select(self) -> Select {
        Select { patterns: self.include, ..Select::default() }
    }
}

/// Proposed commands that run as printed.
pub struct Hint {
    set: String,
    is_moved: bool,
}

impl Hint {
    pub fn heal(&self) -> String {
        format!("pantile heal {}", self.set)
    }

    pub fn verify(&self) -> String {
        format!("pantile verify {}", self.set)
    }

    /// Returns the command that repairs the found damage, with the paths of the originals if no
    /// record has them.
    pub fn heal_found(&self, report: &VerifyReport) -> String {
        let mut command = self.heal();
        if report.mode == "beside" && !report.sources_known {
            command.extend(named(report).map(|disk| format!(" {disk}")));
        }
        command
    }

    /// Returns the command that restores a file to another place, so that the current one stays.
    pub fn unseal(&self, file: &str) -> String {
        let mut pattern = String::from("/");
        for c in file.chars() {
            if "*?[]\\".contains(c) {
                pattern.push('\\');
            }
            pattern.push(c);
        }
        format!("pantile unseal {} --include {} --to as-sealed", self.set, quoted(pattern))
    }

    /// Returns the command that seals the current content of the sources.
    pub fn seal(&self, report: &VerifyReport) -> String {
        let sources: Vec<String> = match self.is_moved {
            true => named(report).collect(),
            false => report.sources.iter().map(quoted).collect(),
        };
        let is_usable = |shard: &&ShardReport| shard.status.is_usable();
        let shard = report.shards.iter().find(is_usable).or(report.shards.first());
        let dir = shard.and_then(|shard| Path::new(&shard.path).parent());
        let dir = dir.filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut command = format!("pantile seal {} --out {}", sources.join(" "), quoted(dir));
        let of_source = report.sources.first().and_then(|source| Path::new(source).file_name());
        if self.is_moved || of_source != Some(OsStr::new(&report.name)) {
            let _ = write!(command, " --name {}", quoted(&report.name));
        }
        command
    }
}

/// Returns the options that name the disks of a report with their paths.
fn named(report: &VerifyReport) -> impl Iterator<Item = String> {
    let at = |(name, path): (&String, &String)| DiskAt { name: name.into(), path: path.into() };
    report.disk_names.iter().zip(&report.sources).map(at).map(|at| disk_words(&at))
}

/// A report in JSON, after the version of the output.
#[derive(Serialize)]
pub struct Versioned<'r, T: Serialize> {
    output_version: u32,
    #[serde(flatten)]
    report: &'r T,
}

impl<'r, T: Serialize> Versioned<'r, T> {
    pub fn new(report: &'r T) -> Versioned<'r, T> {
        Versioned { output_version: OUTPUT_VERSION, report }
    }
}

/// Returns the failure of a run for a fault of a sealed set.
pub fn failure(fault: &Fault) -> Failure {
    let instead = match (&fault.kind, &fault.path) {
        (FaultKind::NoShards(paths), _) => instead_of_set(paths),
        (FaultKind::NoSource, Some(path)) if !path.exists() => Some(no_source(path)),
        _ => None,
    };
    instead.map_or_else(|| verdict(&fault.kind, name(&fault.to_string())), Failure::Input)
}

/// Describes a path that was named as a sealed set and is none.
fn instead_of_set(paths: &[PathBuf]) -> Option<String> {
    let shown = |path: &Path| name(&path.to_string_lossy());
    if let Some(vol) = paths.iter().find(|path| volumes::is_volume(path)) {
        let word = quoted(vol);
        let (asked, _) = crate::failure::asked_command();
        let instead = match asked.rsplit(' ').next().unwrap_or_default() {
            "verify" => format!("pantile scrub {word}"),
            "heal" => format!("pantile scrub {word} --repair"),
            "unseal" => format!("pantile serve {word}"),
            _ => format!("pantile status {word}"),
        };
        return Some(format!("{} is a volume, not a sealed set: '{instead}'", shown(vol)));
    }
    let missing = paths.iter().find(|path| !path.exists())?;
    Some(format!("{} does not exist; name the directory of the shards, or the shards", shown(missing)))
}

/// Describes a missing path that was to be sealed, with the likely reasons.
fn no_source(path: &Path) -> String {
    let shown = name(&path.to_string_lossy());
    format!("{shown} does not exist; mount it first if it is a disk, and quote a name that has blanks")
}

fn verdict(kind: &FaultKind, text: String) -> Failure {
    match kind {
        FaultKind::NotRestored { why, .. } => verdict(&why.kind, text),
        FaultKind::Unfinished(why) if matches!(why.kind, FaultKind::Cancelled) => Failure::Interrupted(text),
        FaultKind::Cancelled => Failure::Interrupted(text),
        FaultKind::System
        | FaultKind::Busy
        | FaultKind::Changed
        | FaultKind::NotHealed(_)
        | FaultKind::Unfinished(_) => Failure::System(text),
        FaultKind::TooMuchLost { .. } | FaultKind::Lost | FaultKind::HealedInDoubt(_) => {
            Failure::Losses(text)
        }
        FaultKind::Damaged
        | FaultKind::NeedsHeal
        | FaultKind::Suspect
        | FaultKind::Pending
        | FaultKind::BadJournal => Failure::Damage(text),
        // A path that does not exist, or has another kind than expected, is a wrong argument.
        FaultKind::NotThere => Failure::Input(format!("{text}; name a path that is there")),
        FaultKind::NoDirectory => {
            Failure::Input(format!("{text}; a file is where a directory is needed, name another path"))
        }
        FaultKind::Request
        | FaultKind::NoShards(_)
        | FaultKind::NoSource
        | FaultKind::PlacesUnknown(_)
        | FaultKind::Full => Failure::Input(text),
    }
}

/// Returns a number of bytes in the largest unit that keeps three digits.
pub fn bytes(value: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if value < 1024 {
        return count(value as usize, "byte");
    }
    let mut scaled = value as f64 / 1024.0;
    let mut unit = 0;
    while scaled >= 999.5 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    match scaled {
        s if s < 9.995 => format!("{s:.2} {}", UNITS[unit]),
        s if s < 99.95 => format!("{s:.1} {}", UNITS[unit]),
        s => format!("{s:.0} {}", UNITS[unit]),
    }
}

/// Returns the shards as a table. `all` includes the good ones.
pub fn shards(shards: &[ShardReport], all: bool, terminal: &Terminal) -> String {
    let mut table = Table::new(&[">column", "status", ">wrong blocks", "first at", "shard"]);
    let mut good = 0;
    for shard in shards {
        let is_good = is_good(shard);
        good += usize::from(is_good);
        if is_good && !all {
            continue;
        }
        table.row(vec![
            shard.column.to_string(),
            match &shard.status {
                ShardStatus::Good if shard.wrong_blocks > 0 => "damaged".to_string(),
                ShardStatus::Good if shard.misnamed.is_some() => "good, but under a wrong name".to_string(),
                status => shard_status(status),
            },
            shard.wrong_blocks.to_string(),
            shard.first_wrong.map_or(String::new(), |place| format!("byte {}", place.offset)),
            name(&shard.path),
        ]);
    }
    match good == shards.len() && !all {
        true if good == 1 => "The one shard is good.\n".to_string(),
        true => format!("All {} are good.\n", count(good, "shard")),
        false => format!("{}{good} of {} good.\n", table.render(terminal), count(shards.len(), "shard")),
    }
}

/// True if nothing is wrong with a shard.
pub fn is_good(shard: &ShardReport) -> bool {
    shard.status == ShardStatus::Good && shard.wrong_blocks == 0 && shard.misnamed.is_none()
}

/// Returns one sentence for each superfluous file of a shard that `is_told` selects.
pub fn superfluous(report: &VerifyReport, is_told: impl Fn(&str) -> bool) -> String {
    let mut out = String::new();
    for file in report.superfluous.iter().filter(|file| is_told(&file.path)) {
        let what = match &file.status {
            ShardStatus::Good | ShardStatus::HeaderCopyDamaged | ShardStatus::MetaDamaged => "a copy",
            ShardStatus::Stale { .. } => "an older state",
            ShardStatus::Newer { .. } => "a newer state",
            _ => "a broken copy",
        };
        let shard = report.shards.iter().find(|shard| shard.column == file.column);
        let shard = shard.map_or(String::new(), |shard| format!(", {}", name(&shard.path)));
        let (path, column) = (name(&file.path), file.column);
        let _ = writeln!(out, "{path} is superfluous: {what} of the shard of column {column}{shard}.");
    }
    out
}

pub fn shard_status(status: &ShardStatus) -> String {
    match status {
        ShardStatus::Good => "good".into(),
        ShardStatus::HeaderCopyDamaged => "one header copy damaged".into(),
        ShardStatus::MetaDamaged => "manifest or check table damaged".into(),
        ShardStatus::Missing => "missing".into(),
        ShardStatus::Truncated { have, need } => format!("truncated: {have} of {need} bytes"),
        ShardStatus::OtherSet { set } => format!("of another set, {set}"),
        ShardStatus::Stale { generation } => format!("stale: generation {generation}"),
        ShardStatus::Newer { generation } => format!("newer: generation {generation}"),
        ShardStatus::Unreadable { reason } => format!("unreadable: {}", name(reason)),
    }
}

/// Returns the files with findings as a table of at most `most` lines.
pub fn files(files: &[FileReport], most: usize, terminal: &Terminal) -> String {
    let mut table = Table::new(&["original", ">lost blocks", ">unrecoverable", "file"]);
    for file in files.iter().take(most) {
        table.row(vec![
            file_status(file.status).to_string(),
            file.lost_blocks.to_string(),
            file.unrecoverable_blocks.to_string(),
            name(&file.path),
        ]);
    }
    let mut out = table.render(terminal);
    if files.len() > most {
        let _ = writeln!(out, "... and {} more; --json lists them", files.len() - most);
    }
    out
}

fn findings(findings: &[StripeFinding], all: u64, terminal: &Terminal) -> String {
    const LINES_MOST: usize = 30;
    let columns = |columns: &[u64]| ranges(columns.iter().copied());
    let mut table = Table::new(&[">stripe", "bytes", "what the equations say"]);
    for finding in findings.iter().take(LINES_MOST) {
        let verdict = match &finding.verdict {
            StripeVerdict::Located { columns: wrong, certain: true, .. } => {
                format!("column {} is wrong", columns(wrong))
            }
            StripeVerdict::Located { columns: wrong, evidence_bits: 0, certain: false } => {
                format!("column {} would explain it, and so might others; left as it is", columns(wrong))
            }
            StripeVerdict::Located { columns: wrong, evidence_bits, certain: false } => {
                format!(
                    "column {} is probably wrong; a larger error looks so once in 2^{evidence_bits}, left as it is",
                    columns(wrong)
                )
            }
            StripeVerdict::Ambiguous { examples: [one, other] } => {
                format!("ambiguous: column {} or column {} would explain it", columns(one), columns(other))
            }
            StripeVerdict::Unlocatable => "more is wrong than can be located".into(),
        };
        table.row(vec![finding.stripe.to_string(), format!("{}..{}", finding.start, finding.end), verdict]);
    }
    let mut out = table.render(terminal);
    let more = all.saturating_sub(findings.len().min(LINES_MOST) as u64);
    if more > 0 {
        let _ = writeln!(out, "... and {more} more places");
    }
    out
}

/// Returns a sentence on the progress of a verification by shares.
fn share_read(share: &ShareReport) -> String {
    let days = share.oldest.map(|time| all::now().saturating_sub(time) / 86_400);
    match (share.never, days) {
        (0, Some(0)) => "Every stripe was read and good within the last day.\n\n".into(),
        (0, Some(days)) => {
            format!("Every stripe was read and good within the last {}.\n\n", count(days as usize + 1, "day"))
        }
        (never, _) => format!("{} not yet read and found good.\n\n", count(never as usize, "stripe")),
    }
}

/// Returns the result of `verify` as text.
pub fn verification(report: &VerifyReport, hint: &Hint, terminal: &Terminal) -> String {
    const FILES_MOST: usize = 30;
    const RENAMED_MOST: usize = 100;
    let mut out = format!(
        "{} ({}, {}), generation {}: {} read, {} checked by {}.\n\n",
        terminal.bold(name(&report.name)),
        report.code,
        report.mode,
        report.generation,
        bytes(report.bytes_read),
        count(report.stripes as usize, "stripe"),
        match (report.by_pin, report.by_checksums) {
            (true, _) => "the pin",
            (false, true) => "checksums",
            (false, false) => "the equations of the code",
        }
    );
    if let Some(share) = &report.share {
        out.push_str(&share_read(share));
    }
    if !report.partial {
        out.push_str(&shards(&report.shards, false, terminal));
        out.push_str(&superfluous(report, |_| true));
    }
    if !report.findings.is_empty() {
        out.push('\n');
        out.push_str(&findings(&report.findings, report.finding_count, terminal));
    }
    if !report.files.is_empty() {
        out.push('\n');
        out.push_str(&files(&report.files, FILES_MOST, terminal));
    }
    if report.mode == "beside" {
        out.push('\n');
        for (disk, source) in report.disk_names.iter().zip(&report.sources) {
            let _ = writeln!(out, "Originals: {} ({})", name(source), name(disk));
        }
    }
    for source in report.sources_missing.iter().filter(|_| report.mode != "beside") {
        let _ = writeln!(
            out,
            "\nThe originals were not compared: {} is not there. Is it mounted? --disk NAME=PATH says where it is now.",
            name(source)
        );
    }
    if report.sources_seen {
        let _ = writeln!(out, "\n{} as sealed.", count(report.files_unchanged as usize, "original file"));
        let newer = report.files.iter().filter(|f| {
            matches!(
                f.status,
                FileStatus::New | FileStatus::Changed | FileStatus::RotOrChange | FileStatus::Renamed
            )
        });
        match newer.count() {
            0 if !report.sources_searched && !report.partial => out.push_str(
                "New and renamed files were not looked for, since there is no record that you sealed this set here: \
                 say where its disks are with --disk to have them searched.\n",
            ),
            0 => {}
            // Sealing refuses a set that has newer shards.
            newer if report.newer.is_some() => {
                let _ = writeln!(out, "{} new or changed since.", count(newer, "path"));
            }
            newer => {
                let _ = writeln!(
                    out,
                    "{} new or changed since; '{}' protects {}.",
                    count(newer, "path"),
                    hint.seal(report),
                    if newer == 1 { "it" } else { "them" }
                );
            }
        }
    }
    for file in report.renamed.iter().take(RENAMED_MOST) {
        let _ = writeln!(out, "{} is called {} now.", name(&file.from), name(&file.to));
    }
    let unclear = report.files.iter().filter(|f| f.status == FileStatus::RotOrChange).count();
    if unclear > 0 {
        let _ = writeln!(
            out,
            "{} of an earlier time than was sealed, with all blocks but few as sealed: rot or change? 'pantile heal' leaves it, 'pantile seal' \
             seals it only with --accept-changes, 'pantile unseal' restores the sealed content.",
            count(unclear, "file")
        );
    }
    if let Some(newer) = &report.newer {
        let numbers = |columns: &[u64]| ranges(columns.iter().copied());
        let _ = writeln!(
            out,
            "The shards of columns {} are newer, of generation {}, and too few: bring the others of that generation ({}) before \
             anything is written over them.",
            numbers(&newer.have),
            newer.generation,
            numbers(&newer.lack)
        );
    }
    for source in &report.sources_emptied {
        let at = report.sources.iter().position(|path| path == source);
        let disk = at.and_then(|at| report.disk_names.get(at)).map_or("NAME", String::as_str);
        let is_replaced = report.sources_replaced.contains(source);
        let (source, word) = (name(source), quoted(disk));
        if is_replaced {
            let _ = writeln!(
                out,
                "Nothing that was sealed of disk {} is in {source}, where an empty disk is mounted: 'heal' writes the files \
                 there. If they are elsewhere, say --disk {word}=PATH.",
                name(disk)
            );
            continue;
        }
        let _ = writeln!(
            out,
            "Nothing that was sealed of disk {} is there: is {source} mounted? If the disk was replaced, mount the new one \
             there; if it is elsewhere now, say --disk {word}=PATH.",
            name(disk)
        );
    }
    for folder in &report.folders_unmounted {
        let folder = name(folder);
        let _ = writeln!(
            out,
            "No disk is mounted at {folder}, where shards are missing: mount it. If the disk is lost, mount a new one there; if the \
             shards are elsewhere now, name that folder too."
        );
    }
    out.push_str(&exposed(&report.exposed, report.exposed_count));
    if !report.partial {
        out.push_str(&survival(&report.survival, (&report.code, &report.mode)));
    }
    let verdict = match (report.clean, report.recoverable) {
        (true, _) if report.survival.is_unborne => {
            "Verdict: clean, but one of the sources would not come back whole if it were lost.".to_string()
        }
        // A set that holds the data is judged by its shards; the originals may be elsewhere.
        (true, _) if report.files.iter().any(|file| file.status == FileStatus::Missing) => {
            "Verdict: clean; all shards are there and right.".to_string()
        }
        (true, _) if report.share.is_some() => {
            "Verdict: clean as far as it was read; no file or shard is missing.".to_string()
        }
        (true, _) => "Verdict: clean; nothing is missing and nothing is wrong.".to_string(),
        (false, true) if !report.needs_heal => changed_only(report, hint),
        (false, true) if report.newer.is_some() => newer_only(report, hint),
        (false, true) if report.mode == "beside" && !report.sources_missing.is_empty() => format!(
            "Verdict: damaged, and all of it can be repaired when {} is there: mount it, or make it for a new disk; then run '{}'.",
            name(&report.sources_missing[0]),
            hint.heal_found(report)
        ),
        (false, true) if report.sources_emptied.len() > report.sources_replaced.len() => format!(
            "Verdict: damaged, and all of it can be repaired when the disk of {}, or a new one, is mounted there; then run '{}'.",
            name(unmounted(report)),
            hint.heal_found(report)
        ),
        (false, true) if !report.folders_unmounted.is_empty() => format!(
            "Verdict: damaged, and all of it can be repaired when the disk of {} is mounted; then run '{}'.",
            name(&report.folders_unmounted[0]),
            hint.heal_found(report)
        ),
        (false, true) if only_misnamed(report) => {
            format!(
                "Verdict: nothing is damaged, but shards have the names of others: run '{}'.",
                hint.heal_found(report)
            )
        }
        (false, true) if only_missing(report) => missing_only(report, hint),
        (false, true) if report.needs_seal => format!(
            "Verdict: damaged, and all of it can be repaired: run '{}', then '{}' for what was changed since.",
            hint.heal_found(report),
            hint.seal(report)
        ),
        (false, true) => {
            format!("Verdict: damaged, and all of it can be repaired: run '{}'.", hint.heal_found(report))
        }
        (false, false) => format!("Verdict: {}.", losses(report.losses.as_ref())),
    };
    let _ = write!(out, "\n{verdict}\n{}", missing_originals(report, hint));
    out
}

/// Returns the command that restores missing originals of a set that holds the data; empty if none
/// is missing. `heal` repairs only the shards of such a set, and the next seal forgets the missing
/// files.
pub fn missing_originals(report: &VerifyReport, hint: &Hint) -> String {
    let missing = report.files.iter().filter(|file| file.status == FileStatus::Missing);
    let missing: Vec<&FileReport> = missing.filter(|_| report.mode != "beside").collect();
    let Some(first) = missing.first() else { return String::new() };
    let (are, it) = if missing.len() == 1 { ("is", "it") } else { ("are", "the first") };
    format!(
        "{} {are} missing, and 'heal' repairs shards alone: '{}' restores {it}; the next seal forgets what is missing.\n",
        count(missing.len(), "sealed original"),
        hint.unseal(&first.path)
    )
}

/// Returns the verdict if shards are newer than the state that can be restored: heal leaves them,
/// unless an option says otherwise.
pub fn newer_only(report: &VerifyReport, hint: &Hint) -> String {
    let newer = report.newer.as_ref().map_or(report.generation, |newer| newer.generation);
    format!(
        "Verdict: some shards are of generation {newer}, and too few to read it. Bring the others of generation {newer}; or run \
         '{} --yes' to repair generation {} and lose what was sealed since.",
        hint.heal_found(report),
        report.generation
    )
}

/// True if wrong names of shards are the only fault.
fn only_misnamed(report: &VerifyReport) -> bool {
    let is_whole = |s: &ShardReport| s.status == ShardStatus::Good && s.wrong_blocks == 0;
    let lost = report
        .files
        .iter()
        .any(|file| file.lost_blocks > 0 || (report.mode == "beside" && file.status == FileStatus::Missing));
    !report.needs_seal && report.findings.is_empty() && !lost && report.shards.iter().all(is_whole)
}

/// True if sealed files of disks that are there are missing, and nothing is rotten or lost beside.
fn only_missing(report: &VerifyReport) -> bool {
    let is_rotten = |file: &FileReport| match file.status {
        FileStatus::Rotten | FileStatus::RotOrChange => true,
        FileStatus::Unchanged => file.lost_blocks > 0,
        FileStatus::Missing | FileStatus::Changed | FileStatus::Renamed | FileStatus::New => false,
    };
    report.mode == "beside"
        && report.sources_emptied.is_empty()
        && report.findings.is_empty()
        && report.shards.iter().all(is_good)
        && !report.files.iter().any(is_rotten)
}

/// Returns the verdict if files are missing, which the user may have deleted.
fn missing_only(report: &VerifyReport, hint: &Hint) -> String {
    let missing = report.files.iter().filter(|file| file.status == FileStatus::Missing).count();
    let (are, they) = if missing == 1 { ("is", "it was") } else { ("are", "they were") };
    format!(
        "Verdict: {} {are} missing. If {they} deleted on purpose, run '{}'; if not, run '{}' first, which restores {}.",
        count(missing, "sealed path"),
        hint.seal(report),
        hint.heal_found(report),
        if missing == 1 { "it" } else { "them" }
    )
}

/// True if nothing is missing or damaged, and some files were changed or renamed since the seal.
pub fn is_changed_only(report: &VerifyReport) -> bool {
    let may_be_rot = report.files.iter().any(|file| file.status == FileStatus::RotOrChange);
    report.needs_seal
        && report.recoverable
        && !report.needs_heal
        && !may_be_rot
        && report.newer.is_none()
        && report.finding_count == 0
        && report.sources_missing.is_empty()
        && report.sources_emptied.is_empty()
        && !report.survival.is_unborne
}

/// Returns the verdict if files were changed since the seal, and nothing else is wrong.
pub fn changed_only(report: &VerifyReport, hint: &Hint) -> String {
    if let Some(file) = report.files.iter().find(|file| file.status == FileStatus::RotOrChange) {
        return format!(
            "Verdict: nothing else is damaged, but some files are rotten or were changed, and only you know which: \
             '{}' restores the sealed content, '{} --accept-changes' seals the current content.",
            hint.unseal(&file.path),
            hint.seal(report)
        );
    }
    format!(
        "Verdict: nothing is damaged, but files were changed since they were sealed: run '{}'.",
        hint.seal(report)
    )
}

/// Returns the first source that is emptied, and where no empty disk is mounted.
fn unmounted(report: &VerifyReport) -> &str {
    let mut emptied = report.sources_emptied.iter();
    emptied.find(|source| !report.sources_replaced.contains(source)).map_or("", String::as_str)
}

/// Returns the disks of which nothing that was sealed is at its place, and their paths.
fn emptied(report: &VerifyReport) -> Vec<(&str, &str)> {
    let disks = report.sources.iter().zip(&report.disk_names);
    let emptied = disks.filter(|(path, _)| report.sources_emptied.contains(path));
    emptied.map(|(path, disk)| (disk.as_str(), path.as_str())).collect()
}

/// True if a file is on a disk: paths of a set of several disks begin with the name of one.
fn is_on_disk(report: &VerifyReport, file: &FileReport, disk: &str) -> bool {
    let rest = file.path.strip_prefix(disk);
    report.disk_names.len() == 1 || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the faults of a set, one per line.
pub fn faults(report: &VerifyReport, ignore_changes: bool) -> String {
    let mut out = String::new();
    for shard in report.shards.iter().filter(|_| !report.partial) {
        let (path, column) = (name(&shard.path), shard.column);
        if shard.status != ShardStatus::Good {
            let _ = writeln!(out, "shard {column}: {}: {path}", shard_status(&shard.status));
        }
        if shard.wrong_blocks > 0 {
            let blocks = count(shard.wrong_blocks as usize, "wrong block");
            let _ = writeln!(out, "shard {column}: {blocks}: {path}");
        }
        if let Some(own) = &shard.misnamed {
            let _ = writeln!(out, "shard {column}: under a wrong name: {path} should be {}", name(own));
        }
    }
    let emptied = emptied(report);
    for (disk, path) in &emptied {
        let _ = writeln!(out, "disk {}: nothing that was sealed is in {}", name(disk), name(path));
    }
    let is_of_those = |file: &FileReport| emptied.iter().any(|(disk, _)| is_on_disk(report, file, disk));
    let files = report.files.iter().filter(|file| file.status != FileStatus::Missing || !is_of_those(file));
    for file in files {
        let is_fault = match file.status {
            FileStatus::New => false,
            FileStatus::Unchanged => file.lost_blocks > 0,
            FileStatus::Changed | FileStatus::Renamed if ignore_changes => false,
            FileStatus::Missing
            | FileStatus::Changed
            | FileStatus::Rotten
            | FileStatus::RotOrChange
            | FileStatus::Renamed => report.mode == "beside" || file.lost_blocks > 0,
        };
        if is_fault {
            let lost = match (file.lost_blocks, file.unrecoverable_blocks) {
                (0, _) => String::new(),
                (lost, 0) => format!(", {}", count(lost as usize, "lost block")),
                (lost, gone) => format!(", {}, {gone} of them for good", count(lost as usize, "lost block")),
            };
            let _ = writeln!(out, "file {}{lost}: {}", file_status(file.status), name(&file.path));
        }
    }
    for finding in report
        .findings
        .iter()
        .filter(|finding| !matches!(finding.verdict, StripeVerdict::Located { certain: true, .. }))
    {
        let (stripe, start, end) = (finding.stripe, finding.start, finding.end);
        let _ = writeln!(
            out,
            "stripe {stripe}: bytes {start}..{end} contradict the equations, at an unknown place"
        );
    }
    out
}

fn file_status(status: FileStatus) -> &'static str {
    match status {
        FileStatus::Unchanged => "unchanged",
        FileStatus::Changed => "changed",
        FileStatus::Missing => "missing",
        FileStatus::New => "new",
        FileStatus::Rotten => "rotten",
        FileStatus::RotOrChange => "rot or change?",
        FileStatus::Renamed => "renamed",
    }
}

#[cfg(test)]
mod tests {
    use super::{OsStr, OsStrExt, bytes, name};

    #[test]
    fn a_name_cannot_command_the_terminal_or_lie_about_its_letters() {
        assert_eq!(name("plain é 漢.txt"), "plain é 漢.txt");
        assert_eq!(name("a\nb\x1b[2Jc\u{202e}txt"), "a\\nb\\u{1b}[2Jc\\u{202e}txt");
        assert_eq!(name("a\u{61c}b\u{e0041}"), "a\\u{61c}b\\u{e0041}");
    }

    /// The shell reads a proposed command as the intended words, even if another user chose the
    /// name of a source.
    #[test]
    fn a_word_of_a_command_is_the_same_to_a_shell_and_nothing_to_a_terminal() {
        for word in ["a b", "a\nb", "\x1b]0;x\x07'\\", "\u{202e}gpj", "é 漢", "\u{9b}31m7"] {
            let quoted = super::quoted(word);
            assert_eq!(name(&quoted), quoted);
            let read =
                std::process::Command::new("bash").args(["-c", &format!("printf %s {quoted}")]).output();
            assert_eq!(read.expect("a shell").stdout, word.as_bytes(), "{quoted}");
        }
        assert_eq!(super::quoted(OsStr::from_bytes(b"a\xff")), "$'a\\377'");
    }

    #[test]
    fn bytes_keep_three_digits() {
        let cases = [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1023, "1023 bytes"),
            (1024, "1.00 KiB"),
            (10 << 10, "10.0 KiB"),
            (1000 << 10, "0.98 MiB"),
            (300 << 30, "300 GiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        cases.into_iter().for_each(|(value, text)| assert_eq!(bytes(value), text));
    }
}
