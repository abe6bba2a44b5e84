//! The sentences: each with the fact, the limit, and what to do.

use super::SealError;
use crate::report::{Losses, Unfinished};
use pantile_format::LeftOut;
use std::fmt;
use std::path::PathBuf;

impl fmt::Display for SealError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SealError::Io { doing, path, error } => write!(out, "{doing} {} failed: {error}", path.display()),
            SealError::NoSpace { path, need: Some(need), free: Some(free) } => write!(
                out,
                "{} has {free} bytes free, but {need} are needed; free some, or choose another directory. \
                 Nothing was changed",
                path.display()
            ),
            SealError::NoSpace { path, .. } => write!(
                out,
                "the file system of {} is full; free some space and run the command again. What was sealed \
                 before is as it was",
                path.display()
            ),
            SealError::TooManyPatterns { count } => write!(
                out,
                "{count} patterns of what is left out are too many; a set has at most {} of {} bytes in all: leave out directories \
                 instead of what is in them",
                LeftOut::PATTERNS_MOST,
                LeftOut::BYTES_MOST
            ),
            SealError::TooLarge { path, most: Some(most) } => write!(
                out,
                "{} would be longer than {most} bytes, the most that this process may write to a file; raise that (ulimit -f) and \
                 run the command again. What was sealed before is as it was",
                path.display()
            ),
            SealError::TooLarge { path, most: None } => write!(
                out,
                "{} would be longer than its file system lets a file be; choose a directory on another, or seal by a code of more \
                 columns. What was sealed before is as it was",
                path.display()
            ),
            SealError::StripeTooLong { need, most, suffices_steps } => write!(
                out,
                "a stripe of the set has {need} bytes, and no more than {most} are held in memory for a set that may be \
                 somebody else's; if you trust it, --effort {suffices_steps} allows that"
            ),
            SealError::NoMemory { need, block_len } => write!(
                out,
                "the checksums of blocks of {block_len} bytes need {need} bytes of memory, which are not to be had; choose \
                 larger blocks, up to 1048576 bytes. Nothing was changed"
            ),
            SealError::Cancelled => write!(out, "ended on request; what was sealed before is as it was"),
            SealError::BadPattern { pattern, why } => write!(
                out,
                "the pattern '{pattern}' cannot be read: {why}; patterns are those of a .gitignore, such as '*.tmp', \
                 '/cache/' or 'photos/**/*.raw'"
            ),
            SealError::NothingMeant { what } => {
                write!(
                    out,
                    "nothing that is sealed fits '{what}'; 'pantile info --files' shows the paths of a set"
                )
            }
            SealError::OriginalNamed { path } => write!(
                out,
                "{} is an original of the set, and no shard; to heal it alone, name it behind --: \
                 'pantile heal DIR -- PATH'",
                path.display()
            ),
            SealError::NotRehearsed => write!(
                out,
                "a source that is new needs a column that the set does not have yet, and what is sealed then cannot be told before: \
                 leave out --dry-run, or the new source"
            ),
            SealError::NoOriginals => write!(
                out,
                "the set holds the data itself, so that heal mends its shards, and no single originals; to get files back \
                 from it, use 'pantile unseal' with --include"
            ),
            SealError::ManyRemoved { source, emptied: Some(dir), removed, .. } => write!(
                out,
                "{} is empty now, and {removed} files that are sealed in it are gone from {}: is a disk not mounted there? \
                 Nothing was changed; if they were removed, say --removed-max 100% to seal without them",
                dir.display(),
                source.display()
            ),
            SealError::ManyRemoved { source, emptied: None, removed, of } => write!(
                out,
                "{removed} of the {of} files that are sealed of {} are gone: is a disk not mounted? Nothing was changed; if \
                 they were removed, say --removed-max 100% to seal without them",
                source.display()
            ),
            SealError::Busy { dir } => {
                write!(out, "another command works in {}; wait until it has ended", dir.display())
            }
            SealError::NoSources => write!(out, "nothing to seal was named; name a directory or files"),
            SealError::BadSource { path } => write!(
                out,
                "{} is not there, or is neither a file nor a directory: is it mounted? Name what is there",
                path.display()
            ),
            SealError::SameName { first, second } => write!(
                out,
                "{} and {} are one place, or have one name; give each path once, with a name of its own: \
                 --disk NAME=PATH",
                first.display(),
                second.display()
            ),
            SealError::BadDiskName { name } => write!(
                out,
                "'{name}' cannot be the name of a disk; it becomes a folder when the set is restored: not empty, without \
                 '/', and at most 255 bytes"
            ),
            SealError::UnknownDisk { name, known } => {
                write!(out, "the set has no disk called {name}; it has {}", known.join(", "))
            }
            SealError::UnclearDisks { names, paths: given } => write!(
                out,
                "nothing tells which of {} is where ({}); say it with --disk {}=PATH and so on",
                names.join(", "),
                paths(given),
                names.first().map_or("NAME", String::as_str)
            ),
            SealError::Nested { inner, outer } => write!(
                out,
                "{} lies in {} and would be sealed twice; leave it out, or seal it as a set of its own",
                inner.display(),
                outer.display()
            ),
            SealError::SourcesNotNamed { disks } => write!(
                out,
                "the set says that its originals are {}, but you have no record of sealing it on this machine; nothing was \
                 written: say where each disk is with --disk NAME=PATH",
                paths(&disks.iter().map(|at| at.path.clone()).collect::<Vec<_>>())
            ),
            SealError::CannotOpen { path, reason, count } => write!(
                out,
                "{} of the set cannot be opened now; the first, {}: {reason}. Nothing was judged and nothing written, for they may \
                 be as good as ever: make them readable; of a disk that does not answer take the link or the name away, then heal",
                counted(*count as u64, "file", "files"),
                path.display()
            ),
            SealError::OpenFiles { need, most } => write!(
                out,
                "{need} open files are needed at once, but this process may have {most}; raise the limit (ulimit -n), or name fewer shards. \
                 Nothing was judged"
            ),
            SealError::Pending { journal } => write!(
                out,
                "a change of the set was cut off after it was decided, and {} says how it goes on; nothing was judged, for the shards \
                 may be of two states: heal finishes it, and so do seal and unseal",
                journal.display()
            ),
            SealError::RepairCutOff { journal } => write!(
                out,
                "a repair of files was cut off, and {} says how it goes on: run 'pantile heal' on this set first",
                journal.display()
            ),
            SealError::BadName { name } => write!(
                out,
                "'{name}' cannot be the name of a set; a name is part of a file name: not empty, without '/', \
                 and at most 200 bytes"
            ),
            SealError::CodeNeeded { out: dir, name, others } => {
                write!(out, "there is no set named '{name}' in {}", dir.display())?;
                let others: Vec<String> = others
                    .iter()
                    .map(|(name, sources)| format!("'{name}', sealed from {}", paths(sources)))
                    .collect();
                match others.is_empty() {
                    true => write!(
                        out,
                        ", and a new one needs a code: say --code raid5 for one parity, raid6 for two, or another such as \
                         rs:10+4; if its shards were moved to other disks, leave a symbolic link to each there, under its name"
                    ),
                    false => write!(
                        out,
                        ", but {}; to update it give its paths, and its name by --name; a new set needs a code, such as rs:10+4",
                        list_most(&others)
                    ),
                }
            }
            SealError::StudyOnly(error) => error.fmt(out),
            SealError::TooFewColumns { spec, columns, sources } => write!(
                out,
                "beside the originals each of {sources} sources has a data column of its own, and {spec} has {columns}, which cannot be \
                 more without computing all parity anew; seal to another directory with a code of {sources} data columns or more, such \
                 as {}",
                match sources {
                    0..=255 => format!("raid6:{sources}"),
                    _ => "one of several sets".into(),
                }
            ),
            SealError::SourceNotNamed { name, path, new: None } => write!(
                out,
                "disk {name} of the set, sealed from {}, was not named; name it, say where it is now (--disk {name}=PATH), \
                 or that it is to be forgotten (--forget)",
                path.display()
            ),
            SealError::SourceNotNamed { name, path, new: Some(new) } => write!(
                out,
                "disk {name} of the set, sealed from {}, was not named, and {} is not known: if they are the same, say \
                 --disk {name}={} in the place of that path; if not, name both, or say --forget",
                path.display(),
                new.display(),
                new.display()
            ),
            SealError::NoParity { spec } => write!(
                out,
                "{spec} has no parity, and only parity is stored beside files; choose a code that has some, such as raid6:4"
            ),
            SealError::Differs { what, have, given } => write!(
                out,
                "the set was sealed with {what} {have}, not {given}; leave {what} out to update it, or seal \
                 into another directory or under another name"
            ),
            SealError::OtherSource { name, have, given } => write!(
                out,
                "disk {name} of the set was sealed from {}, not from {}; if that is the same tree, which was moved, say \
                 --moved or --disk {name}={}; another one needs a --name of its own, for it would take the place of what is sealed",
                have.display(),
                given.display(),
                given.display()
            ),
            SealError::Disguised { first, count } => {
                let more = if *count > first.len() { ", .." } else { "" };
                write!(
                    out,
                    "{} something else than was sealed, though sizes and times of modification are as they were ({}{more}): if that was \
                     changed, say --read-all to seal it; if not, it is damaged: get back from the set what was sealed, by 'pantile unseal'",
                    counted(*count as u64, "file holds", "files hold"),
                    paths(first)
                )
            }
            SealError::RotOrChange { first, count } => {
                let more = if *count > first.len() { ", .." } else { "" };
                write!(
                    out,
                    "{} the size that was sealed, and in all blocks but few what was sealed ({}{more}): if that was changed, say \
                     --accept-changes to seal it; if not, it is damaged: get back from the set what was sealed, by 'pantile unseal'",
                    counted(*count as u64, "file has", "files have"),
                    paths(first)
                )
            }
            SealError::OtherPinned { path, pinned, here } => write!(
                out,
                "{} pins generation {} of set {}, and what lies here is generation {} of set {}; name the pin of this state, or \
                 bring that state back",
                path.display(),
                pinned.1,
                pinned.0,
                here.1,
                here.0
            ),
            SealError::ManifestNotPinned { path } => write!(
                out,
                "the manifest of the set is not the one that {} pins: somebody changed what the set says of itself; bring the shards \
                 of a copy that nobody changed",
                path.display()
            ),
            SealError::OtherSources { have, given } => write!(
                out,
                "the set was sealed from {}, not from {}; give exactly these paths to update it, and seal others as a set of \
                 their own, in another directory or under another name",
                paths(have),
                paths(given)
            ),
            SealError::NameTaken { path, shard } => write!(
                out,
                "{} is called like a shard of the set, but that shard is {}; move it away and run the command again",
                path.display(),
                shard.display()
            ),
            SealError::JournalNameTaken { path, set: None } => write!(
                out,
                "{} is no journal of Pantile that can be read, but has the name that the journal of the set would get; it was not \
                 touched: move it away, or seal under another name (--name)",
                path.display()
            ),
            SealError::JournalNameTaken { path, set: Some(set) } => write!(
                out,
                "{} tells of a change of the set {set}, of whose shards none is there; it was not touched: leave a symbolic link to \
                 each of these shards there, and any command finishes the change, or move it away, or seal under another name (--name)",
                path.display()
            ),
            SealError::BlockLen { given } => {
                write!(
                    out,
                    "a block of {given} bytes is not possible; choose a power of two from 4096 to 1048576"
                )
            }
            SealError::Code { spec, error } => {
                write!(out, "the set's code {spec} cannot be made by this program: {error}")
            }
            SealError::OtherConstruction { spec, set, here } => write!(
                out,
                "the set was sealed by construction {} of {spec} (fingerprint {:016x}), this program has \
                 construction {} ({:016x}); use the version of pantile that sealed it",
                set.0, set.1, here.0, here.1
            ),
            SealError::NoShards { paths } => {
                write!(
                    out,
                    "there is no shard in {}; name the directory of the shards, or the shards; if their disk was replaced, \
                     name another one's directory, or seal again as the first time if it had all of them",
                    self::paths(paths)
                )
            }
            SealError::NoGoodShard { path, error } => write!(
                out,
                "no shard there can be used; the first, {}: {error}. One good shard is needed to know the set",
                path.display()
            ),
            SealError::NoShardOpens { path, reason } => write!(
                out,
                "no shard there can be opened; the first, {}: {reason}. One good shard is needed to know the set",
                path.display()
            ),
            SealError::SeveralSets { sets } => {
                let sets: Vec<String> = sets
                    .iter()
                    .map(|(name, set, count)| {
                        format!("'{name}' ({set}, {})", counted(*count as u64, "shard", "shards"))
                    })
                    .collect();
                write!(
                    out,
                    "shards of several sets lie there: {}; choose one: --name takes the name or the UUID",
                    sets.join(", ")
                )
            }
            SealError::Format { path, error } => write!(out, "{}: {error}", path.display()),
            SealError::NeedsHeal { columns, blocks } => {
                write!(out, "the set must be whole before it is brought up to date, but ")?;
                match columns.is_empty() {
                    true => write!(out, "{blocks} of its blocks are damaged")?,
                    false => write!(out, "the shards of columns {} cannot be used", self::columns(columns))?,
                }
                write!(out, "; heal it first")
            }
            SealError::ShardsElsewhere { dir, columns } => write!(
                out,
                "the shards of columns {} are not in {}; of one that was moved to another disk leave a symbolic link there, \
                 under its name; if one is lost, heal it first",
                self::columns(columns),
                dir.display()
            ),
            SealError::BadJournal { path, error } => write!(
                out,
                "{}: {error}. A journal by this name tells of a change of the set that was under way; if this is a file of your own, \
                 move it away; else restore it from a copy, or move it away and heal the set",
                path.display()
            ),
            SealError::TooMuchLost { losses, healed } => {
                losses.fmt(out)?;
                match healed {
                    Some(healed) if healed.blocks_repaired > 0 => {
                        let blocks = counted(healed.blocks_repaired, "block", "blocks");
                        write!(out, ". What could be repaired was: {blocks}")
                    }
                    _ => Ok(()),
                }
            }
            SealError::InTheWay { path, asked: false } => write!(
                out,
                "{} is in the way and differs from what was sealed; move it, choose another target, or say --overwrite",
                path.display()
            ),
            SealError::InTheWay { path, asked: true } => write!(
                out,
                "{} is in the way and is of another kind than what was sealed, so it is not overwritten; move it away, \
                 or choose another target",
                path.display()
            ),
            SealError::Doubtful { path, stripe } => write!(
                out,
                "{} cannot be restored with certainty: the set has no checksums, and stripe {stripe} contradicts the \
                 equations of the code without showing which of its blocks is wrong; verify names all such stripes, and \
                 if you know which shard is wrong, name only the others",
                path.display()
            ),
            SealError::NotRestored { why, report } => {
                why.fmt(out)?;
                let (lost, others) = (report.not_restored_count, report.files + report.already_there);
                write!(out, ". Paths not restored: {lost}; files restored: {others}")
            }
            SealError::NotHealed { report } => {
                write!(out, "shards and files that could not be healed: {}", report.not_healed.len())?;
                match report.not_healed.first() {
                    Some(first) => write!(out, "; the first, {}: {}", first.path, first.reason),
                    None => Ok(()),
                }
            }
            SealError::HealedInDoubt { report } => {
                write!(out, "files that were healed and may be wrong: {}", report.doubtful.len())?;
                match report.doubtful.first() {
                    Some(first) => write!(out, "; the first, {}: {}", first.path, first.reason),
                    None => Ok(()),
                }
            }
            SealError::NotWithoutOriginals { path } => write!(
                out,
                "the set holds parity only, and {} is missing or changed beyond what parity can restore; \
                 heal repairs originals where they are",
                path.display()
            ),
            SealError::ChangedMeanwhile { path } => {
                write!(
                    out,
                    "{} changed or went away while it was being read; run the command again. What was sealed before \
                     is as it was",
                    path.display()
                )
            }
            SealError::CannotRead { path, error, count } => write!(
                out,
                "{count} of the files to be sealed cannot be read; the first, {}: {error}. Nothing was changed; make \
                 them readable, or leave them out",
                path.display()
            ),
            SealError::Unfinished { journal, error } => {
                write!(out, "the new state is decided but not all of it is in the shards yet: ")?;
                match &**error {
                    SealError::NoSpace { path, .. } => {
                        write!(out, "the file system of {} is full", path.display())?;
                    }
                    SealError::Cancelled => write!(out, "it was ended on request")?,
                    error => error.fmt(out)?,
                }
                let is_cancelled = matches!(**error, SealError::Cancelled);
                let when = if is_cancelled { "Any" } else { "When that is mended, any" };
                write!(out, ". {when} command on the set finishes it first, as {} says", journal.display())
            }
        }
    }
}

impl fmt::Display for Losses {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "more is lost than the code can bear: columns {} are missing of {} (the first is {}), and {} cannot be had whole",
            numbers(&self.columns),
            counted(self.stripes, "stripe", "stripes"),
            self.first_stripe,
            counted(self.file_count, "file", "files")
        )?;
        if let Some(first) = self.files.first() {
            write!(out, " (the first is {first})")?;
        }
        // In mode full columns are shards; beside originals a column may be a file.
        let (word, of) = match self.holders.is_empty() {
            true => ("columns ", numbers(&self.columns)),
            false => ("", list_most(&self.holders)),
        };
        let sets: Vec<String> = match self.holders.is_empty() {
            true => self.enough.iter().take(SETS_SHOWN).map(|set| format!("{{{}}}", numbers(set))).collect(),
            false => {
                self.enough_holders.iter().take(SETS_SHOWN).map(|set| format!("{{{}}}", list(set))).collect()
            }
        };
        match (self.any, sets.is_empty()) {
            (true, _) if self.bring_back > 1 && self.enough_count == 1 => {
                write!(out, "; bring back all of {word}{of}")?;
            }
            (true, _) => write!(out, "; bring back any {} of {word}{of}", self.bring_back)?,
            (false, false) => {
                write!(out, "; bring back {} of {word}{of}: {}", self.bring_back, sets.join(" or "))?;
                match self.enough_count.saturating_sub(sets.len() as u64) {
                    0 => {}
                    more => write!(out, " or one of {more} other sets")?,
                }
            }
            (false, true) => {}
        }
        self.unfinished.as_ref().map_or(Ok(()), |unfinished| unfinished.fmt(out))
    }
}

impl fmt::Display for Unfinished {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unfinished { journal, generation, have, lack } = self;
        let fewer = numbers(if have.len() < lack.len() { have } else { lack });
        let (lack, have) = (numbers(lack), numbers(have));
        match have.is_empty() {
            false => write!(
                out,
                ". But a change was cut off: the shards of columns {have} are of generation {generation}, those of columns {lack} of the \
                 one before. Its journal, {journal}, lies in another directory, the one that was sealed into, with links to \
                 these shards; any command that is told that directory finishes it. Only if there is none, move the shards of \
                 columns {fewer} away, and heal what is left"
            ),
            true => write!(
                out,
                ". But a change to generation {generation} was under way in the shards of columns {lack}: if there is a journal, {journal}, in \
                 another directory, the one that was sealed into, with links to these shards, any command that is told that directory \
                 finishes it"
            ),
        }
    }
}

/// Sets that a sentence names.
const SETS_SHOWN: usize = 4;

/// A list that is cut off where a sentence would be.
fn list_most(items: &[String]) -> String {
    const MOST: usize = 6;
    match items.len() {
        len if len > MOST => format!("{} and {} others", items[..MOST].join(", "), len - MOST),
        _ => items.join(", "),
    }
}

/// A number, and the word for one or for several.
fn counted(number: u64, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

fn paths(paths: &[PathBuf]) -> String {
    list(&paths.iter().map(|path| path.display()).collect::<Vec<_>>())
}

fn list<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<String>>().join(", ")
}

/// Numbers as a person writes them: `0-3, 7`.
pub fn ranges(numbers: impl IntoIterator<Item = u64>) -> String {
    let mut parts: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match parts.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let part = |&(first, last): &(u64, u64)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}-{last}"),
    };
    parts.iter().map(part).collect::<Vec<_>>().join(", ")
}

fn columns(columns: &[usize]) -> String {
    ranges(columns.iter().map(|&column| column as u64))
}

fn numbers(numbers: &[u64]) -> String {
    ranges(numbers.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn many_numbers_are_a_few_ranges() {
        assert_eq!(ranges(95..256), "95-255");
        assert_eq!(ranges([0, 1, 2, 5, 7, 8]), "0-2, 5, 7, 8");
        assert_eq!(ranges([u64::MAX]), u64::MAX.to_string());
        assert_eq!(ranges([3, 1, 2]), "3, 1, 2");
    }
}
