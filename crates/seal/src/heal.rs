//! Repairs the findings of a scan. Lost shards are rebuilt and bad originals restored, each as a
//! temporary file that is then renamed.

mod originals;

use self::originals::{heal_files, is_to_be_healed};
use crate::apply::lock::Lock;
use crate::apply::meta::Meta;
use crate::apply::rename::give_names_back;
use crate::attributes::Rights;
use crate::disk::{
    Access, Disk, DiskFile, MetaKind, ROOT_DIR, is_own, resolve, set_back, spelt_one_way, why_unmounted,
};
use crate::fault::sentences::words;
use crate::first::{Output, write_cells};
use crate::options::{HealOptions, Progress};
use crate::report::{FileReport, FileStatus, HealReport, NotDone, Renamed, ShardStatus, VerifyReport};
use crate::set::names::{column_of, parent, stray, stray_of};
use crate::set::shard::{Shard, read_header};
use crate::set::tree::Way;
use crate::set::unhealed;
use crate::set::verify::{Damage, Scope, scan, scan_part};
use crate::set::window::Window;
use crate::set::{Places, Set};
use crate::{Fault, FaultKind};
use pantile::CellIndex;
use pantile_format::{BODY_OFFSET, Crc64, Entry, EntryKind, Mode, ShardHeader};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Repairs the set as far as it can be.
pub(crate) fn heal(
    set: &mut Set<'_>,
    options: &HealOptions,
    progress: &mut dyn Progress,
) -> Result<HealReport, Fault> {
    if !options.select.is_all() {
        return heal_part(set, options, progress);
    }
    if let Some(path) = set.first_original(&options.set.paths) {
        return Err(Fault::request(format!("{} is an original of the set, and no shard", path.display()))
            .at(path)
            .hint("to heal it alone, name it behind --: 'pantile heal DIR -- PATH'"));
    }
    // This comes before the scan, which takes long. A missing directory needs no lock yet.
    set.manifest.features.check_writable().map_err(|error| Fault::format(&set.names.dir, error))?;
    let held = lock_out(set, options)?;
    crate::apply::repair::finish(set, progress)?;
    let (found, damage) = scan(set, progress)?;
    open_sources(set, found.needs_heal)?;
    // Directories are examined before the first write or removal, which changes them.
    let files: Vec<(usize, Way)> = match set.manifest.mode {
        Mode::Full => Vec::new(),
        Mode::Beside => {
            let entries = 0..set.manifest.entries.len();
            set.ways(entries.filter(|&entry| is_to_be_healed(set, entry, &damage)))
        }
    };
    let mut report = before_healing(set, found, &damage);
    let missing = missing(set, 0..set.manifest.entries.len());
    unhealed::record(set, &missing);
    let files = hold_back(set, files, options, &mut report);
    report.strays_removed = remove_strays(set);
    let mut columns = columns_to_write(set, &report.found, &damage);
    if report.found.losses.is_some() {
        // These shards stay as they are: with the journal of an unfinished change, the lost content
        // may be recovered from them.
        let kept = [set.waiting.clone(), set.newer()].concat();
        columns.retain(|column| !kept.contains(column));
    }
    if !options.yes {
        keep_newer(set, &mut columns, &mut report);
    }
    hold_back_unmounted_shards(set, &mut columns, options, &mut report);
    report.shards_renamed = give_names_back(set, false)?;
    name_misnamed(set, &mut report);
    let _held_since = match &options.out {
        Some(out) if held.is_none() && !columns.is_empty() => {
            // If this fails, each shard for this directory is reported.
            let _ = set.world.disk.make_root(out, ROOT_DIR);
            lock_out(set, options)?
        }
        _ => None,
    };
    let disk = set.world.disk;
    let name = set.names.name.clone();
    let has_none = |dir: &PathBuf| crate::spread::named_so(disk, dir, &name).is_empty();
    let elsewhere = columns.iter().map(|&column| set.dir_of(column)).filter(|dir| *dir != set.names.dir);
    let new: Vec<PathBuf> = elsewhere.filter(has_none).collect();
    let out = options.out.clone().filter(|out| !columns.is_empty() && has_none(out));
    heal_shards(set, &columns, options, &damage, &mut report, progress)?;
    let mut all = set.shard_dirs();
    // The other directories show where a shard is that got another place.
    let out = out.filter(|out| !has_none(out));
    all.extend(out.iter().filter(|out| !all.contains(out)).cloned().collect::<Vec<PathBuf>>());
    let is_linked = |dir: &&PathBuf| {
        let is_new = (out.is_some() || new.contains(dir)) && !has_none(dir);
        is_new || crate::spread::has_links(disk, dir, &name)
    };
    let linked: Vec<PathBuf> = all.iter().filter(is_linked).cloned().collect();
    crate::spread::link_others(disk, (&all, &name), &linked, progress);
    if set.manifest.mode == Mode::Beside {
        let done = heal_files(set, files, (&damage, rights(set, options)), &mut report, progress);
        unhealed::record(set, &missing);
        done?;
    }
    verdict(report)
}

/// Returns the entries among these whose originals are missing, beside their parity.
fn missing(set: &Set<'_>, entries: impl Iterator<Item = usize>) -> Vec<usize> {
    let is_missing = |&entry: &usize| {
        let original = set.originals[entry].as_ref();
        original.is_some_and(|original| original.status == FileStatus::Missing)
    };
    entries.filter(|_| set.manifest.mode == Mode::Beside).filter(is_missing).collect()
}

/// Repairs some originals beside their parity, but no shard.
fn heal_part(
    set: &mut Set<'_>,
    options: &HealOptions,
    progress: &mut dyn Progress,
) -> Result<HealReport, Fault> {
    if set.manifest.mode == Mode::Full {
        return Err(Fault::request(
            "the set holds the data itself, so that heal mends its shards, and no single originals",
        )
        .hint("to get files back from it, use 'pantile unseal' with --include"));
    }
    let mut chosen = set.chosen_with_dirs(&options.select)?.unwrap_or_default();
    // The content of a hard link is that of its file.
    let files: Vec<usize> = chosen.iter().map(|&entry| set.content_of(entry)).collect();
    chosen.extend(files);
    chosen.sort_unstable();
    chosen.dedup();
    crate::apply::repair::finish(set, progress)?;
    let (found, damage) = scan_part(set, Scope::Entries(&chosen), progress)?;
    open_sources(set, found.needs_heal)?;
    let broken = chosen.iter().copied().filter(|&entry| is_to_be_healed(set, entry, &damage));
    let files = set.ways(broken);
    let mut report = before_healing(set, found, &damage);
    let missing = missing(set, chosen.iter().copied());
    unhealed::record(set, &missing);
    let files = hold_back(set, files, options, &mut report);
    let done = heal_files(set, files, (&damage, rights(set, options)), &mut report, progress);
    unhealed::record(set, &missing);
    done?;
    verdict(report)
}

/// Returns the rights of originals that are written again.
fn rights(set: &Set<'_>, options: &HealOptions) -> Rights {
    Rights::of_new(set.world.disk, options.modes)
}

/// Returns the report of a heal that has written nothing yet.
fn before_healing(set: &Set<'_>, found: VerifyReport, damage: &Damage) -> HealReport {
    HealReport {
        left_changed: left_changed(set, &found),
        found,
        shards_renamed: Vec::new(),
        moved_aside: Vec::new(),
        shards_written: Vec::new(),
        files_healed: Vec::new(),
        kept_aside: Vec::new(),
        kept_blocks: Vec::new(),
        blocks_repaired: 0,
        stripes_guessed: damage.stripes_guessed(),
        blocks_left: damage.blocks_left(),
        not_healed: Vec::new(),
        doubtful: Vec::new(),
        not_kept: Vec::new(),
        strays_removed: Vec::new(),
    }
}

/// Returns the originals that were changed since they were sealed.
fn left_changed(set: &Set<'_>, found: &VerifyReport) -> Vec<String> {
    let is_left = |file: &&FileReport| {
        set.manifest.mode == Mode::Beside
            && matches!(file.status, FileStatus::Changed | FileStatus::RotOrChange)
    };
    found.files.iter().filter(is_left).map(|file| file.path.clone()).collect()
}

/// Returns the report, or a fault that contains it.
fn verdict(report: HealReport) -> Result<HealReport, Fault> {
    match report.found.losses.clone() {
        Some(losses) => Err(Fault::too_much_lost(losses, Some(report))),
        None if report.not_healed.is_empty() && report.doubtful.is_empty() => Ok(report),
        None if report.not_healed.is_empty() => {
            let what = with_first("files that were healed and may be wrong", &report.doubtful);
            Err(Fault::new(FaultKind::HealedInDoubt(Box::new(report)), what))
        }
        None => {
            let what = with_first("shards and files that could not be healed", &report.not_healed);
            Err(Fault::new(FaultKind::NotHealed(Box::new(report)), what))
        }
    }
}

/// Returns the number of paths as text, and the first path with its reason.
fn with_first(which: &str, all: &[NotDone]) -> String {
    let first = all.first().map_or(String::new(), |one| format!("; the first, {}: {}", one.path, one.reason));
    format!("{which}: {}{first}", all.len())
}

/// Leaves shards of a later state unwritten: that state can be recovered once its other shards
/// return.
fn keep_newer(set: &Set<'_>, columns: &mut Vec<usize>, report: &mut HealReport) {
    let Some(newer) = set.newer_state() else { return };
    let have = set.manifest.generation.0;
    let lack = newer.lack.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    // If a change was cut off, the present shards already hold what the later state lacks.
    let unfinished = set.unfinished().filter(|unfinished| unfinished.generation == newer.generation);
    let journal = unfinished.map_or_else(String::new, |unfinished| {
        format!(" or, if that change was cut off, the directory of its journal, {},", unfinished.journal)
    });
    columns.retain(|column| {
        let Some((path, ShardStatus::Newer { generation })) = set.status.get(column) else { return true };
        let reason = format!(
            "it is of generation {generation}, newer than {have}, the newest recoverable one: bring the shards of generation {} of \
             columns {lack}{journal} or say --yes to write generation {have} over it",
            newer.generation
        );
        report.not_healed.push(NotDone { path: path.display().to_string(), reason });
        false
    });
}

/// Returns the originals that can be healed. There are none if only the set names their place.
/// There are none either if there are shards of a later state without a readable manifest: the
/// present files may have been sealed in that state, but the restored ones were not.
fn hold_back(
    set: &Set<'_>,
    files: Vec<(usize, Way)>,
    options: &HealOptions,
    report: &mut HealReport,
) -> Vec<(usize, Way)> {
    let have = set.manifest.generation.0;
    let reason = match set.newer_state().filter(|_| !options.yes) {
        _ if !set.places.are_known() => {
            let disks: Vec<String> =
                set.disk_names().iter().map(|name| format!("--disk {name}=PATH")).collect();
            format!("only the set says that it belongs there: say where it is, by {}", disks.join(" "))
        }
        Some(newer) => format!(
            "shards of generation {} are there, of which no manifest can be read: bring another shard of that generation, or say \
             --yes to put back what generation {have} had",
            newer.generation
        ),
        None => {
            let files = hold_back_missing(set, files, report);
            return hold_back_unmounted(set, files, options, report);
        }
    };
    for (entry, _) in files {
        let reason = reason.clone();
        let path = crate::set::names::shown_path(&set.original_path(entry));
        report.not_healed.push(NotDone { path, reason });
    }
    Vec::new()
}

/// Leaves out the originals of a disk whose folder is missing: its parent may be on another disk,
/// which the originals would fill.
fn hold_back_missing(set: &Set<'_>, files: Vec<(usize, Way)>, report: &mut HealReport) -> Vec<(usize, Way)> {
    let entries = &set.manifest.entries;
    let is_dir = |index: usize| {
        let is_root = |entry: &&Entry| entry.source as usize == index && entry.path.is_empty();
        entries.iter().find(is_root).is_none_or(|root| root.kind == EntryKind::Dir)
    };
    let is_gone = |path: &Path| {
        set.world.disk.root(path, Access::Read).is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    let gone: Vec<bool> =
        set.sources.iter().enumerate().map(|(index, path)| is_dir(index) && is_gone(path)).collect();
    let source = |(entry, _): &(usize, Way)| entries[*entry].source as usize;
    let (held, files): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| gone[source(file)]);
    for source in held.iter().map(source).collect::<BTreeSet<_>>() {
        let path = &set.sources[source];
        let reason = format!(
            "the folder is not there: mount its disk; if it has none of its own, or a new one, run 'mkdir -p {}', and heal \
             again",
            words([path])
        );
        report.not_healed.push(NotDone { path: crate::set::names::shown_path(path), reason });
    }
    files
}

/// Leaves out the originals of a disk that is not mounted: its folder is empty, and restored files
/// would fill another disk.
fn hold_back_unmounted(
    set: &Set<'_>,
    files: Vec<(usize, Way)>,
    options: &HealOptions,
    report: &mut HealReport,
) -> Vec<(usize, Way)> {
    if options.yes {
        return files;
    }
    let emptied = set.emptied();
    let disks = set.sources.iter().zip(emptied);
    let why: Vec<Option<String>> =
        disks.map(|(path, emptied)| emptied.then(|| set.unmounted(path)).flatten()).collect();
    let source = |(entry, _): &(usize, Way)| set.manifest.entries[*entry].source as usize;
    let (held, files): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| why[source(file)].is_some());
    for source in held.iter().map(source).collect::<BTreeSet<_>>() {
        let Some(why) = &why[source] else { continue };
        let reason = format!(
            "nothing that was sealed is in the folder and {why}: mount the disk, or say --yes to restore into the folder"
        );
        report.not_healed.push(NotDone { path: crate::set::names::shown_path(&set.sources[source]), reason });
    }
    files
}

/// Leaves out the shards of a disk that is not mounted: they would fill another disk.
fn hold_back_unmounted_shards(
    set: &Set<'_>,
    columns: &mut Vec<usize>,
    options: &HealOptions,
    report: &mut HealReport,
) {
    if options.yes {
        return;
    }
    let out = options.out.as_ref().map(|out| Some((out.clone(), why_unmounted(set.world.disk, out)?)));
    columns.retain(|&column| {
        let held = out.clone().unwrap_or_else(|| set.unmounted_folder(column));
        let Some((dir, why)) = held else { return true };
        let reason = format!("{why}: mount the disk, or say --yes to write the shard into the folder");
        report.not_healed.push(NotDone { path: crate::set::names::shown_path(&dir), reason });
        false
    });
}

/// Opens the sources for writing, if that is permitted.
///
/// Errors: originals would have to be read or repaired at places that only the set names.
fn open_sources(set: &Set<'_>, needs_heal: bool) -> Result<(), Fault> {
    let is_there = |source: &PathBuf| set.world.disk.meta(source).is_ok();
    if set.places.are_known() {
        set.open_sources_to_write();
    } else if set.manifest.mode == Mode::Beside && needs_heal && set.sources.iter().any(is_there) {
        return Err(Fault::places_unknown(set.disks()));
    }
    Ok(())
}

/// Locks the output directory for lost shards, if it exists.
fn lock_out(set: &Set<'_>, options: &HealOptions) -> Result<Option<Lock>, Fault> {
    match &options.out {
        Some(out) if set.world.disk.root(out, Access::Write).is_ok() => set.lock(out).map(Some),
        _ => Ok(None),
    }
}

/// Removes temporary files of killed commands on this set, beside shards and in the sources.
fn remove_strays(set: &Set<'_>) -> Vec<String> {
    let disk = set.world.disk;
    let mut found: Vec<PathBuf> = Vec::new();
    for dir in set.dirs.iter().cloned().chain(set.shard_dirs()).collect::<BTreeSet<_>>() {
        let names = disk.list(&dir).unwrap_or_default();
        found.extend(names.iter().map(|name| dir.join(name)));
    }
    found.extend(crate::set::verify::tree_now(set).map(|tree| tree.strays).unwrap_or_default());
    let own = set.manifest.set.to_string();
    found.retain(|path| path.file_name().and_then(stray_of) == Some(own.as_str()));
    found.sort_unstable();
    found.dedup();
    // Best effort: leftover files are harmless.
    found.retain(|path| disk.remove(path).is_ok());
    let _ = crate::apply::journal::remove_leftovers(set);
    found.iter().map(|path| crate::set::names::shown_path(&path)).collect()
}

/// Reports the shards that could not get their own names back.
fn name_misnamed(set: &Set<'_>, report: &mut HealReport) {
    for (column, (path, status)) in &set.status {
        if let Some(own) = set.misnamed(*column, path).filter(|_| status.is_usable()) {
            report.not_healed.push(NotDone {
                path: crate::set::names::shown_path(&path),
                reason: format!("its own name, {}, is taken; move what stands there away", own.display()),
            });
        }
    }
}

/// Returns the columns of damaged shards that can be improved.
fn columns_to_write(set: &Set<'_>, found: &VerifyReport, damage: &Damage) -> Vec<usize> {
    let stripes = set.manifest.stripes;
    found
        .shards
        .iter()
        .filter(|shard| shard.status != ShardStatus::Good || shard.wrong_blocks > 0)
        .map(|shard| shard.column as usize)
        .filter(|&column| {
            let gone = damage.stripes_gone(|cell| set.geometry.place[cell.usize()].0 == column);
            let lost = set.shards[column].is_none();
            // Without checksums no mark would show that a block was not recovered, or that it
            // depends on doubtful blocks.
            let marked = set.manifest.checksums || (gone == 0 && (damage.doubtful.is_empty() || !lost));
            marked && (gone < stripes || stripes == 0)
        })
        .collect()
}

/// Rebuilds shards. If root does so among the shards of a user, that user gets them.
fn heal_shards(
    set: &Set<'_>,
    columns: &[usize],
    options: &HealOptions,
    damage: &Damage,
    report: &mut HealReport,
    progress: &mut dyn Progress,
) -> Result<(), Fault> {
    if columns.is_empty() {
        return Ok(());
    }
    let disk = set.world.disk;
    let mut outputs: Vec<Replacement> = Vec::new();
    for &column in columns {
        match replacement(set, column, options) {
            Ok(output) => match outputs.iter().find(|other| other.path == output.path) {
                None => outputs.push(output),
                Some(other) => report.not_healed.push(NotDone {
                    path: crate::set::names::shown_path(&output.path),
                    reason: format!("the shard of column {} is rebuilt at this place", other.column),
                }),
            },
            Err((path, reason)) => {
                report.not_healed.push(NotDone { path: crate::set::names::shown_path(&path), reason })
            }
        }
    }
    let done = write_shards(set, (&outputs, set.owner_of_all()), damage, report, progress);
    if done.is_err() {
        for output in &outputs {
            let _ = disk.remove(&output.temp);
        }
    }
    done
}

/// A shard that is to be rebuilt, and where.
struct Replacement {
    column: usize,
    /// True if a change was prepared in the present shard: then all bytes behind its blocks stay
    /// where they are.
    is_prepared: bool,
    /// The file to be replaced: the target of a link, not the link.
    path: PathBuf,
    temp: PathBuf,
    /// The path to which a foreign file at the shard's path is moved first; `None` if there is
    /// none.
    aside: Option<PathBuf>,
}

/// Returns where a shard is rebuilt; or the path where it cannot be, and the reason.
fn replacement(
    set: &Set<'_>,
    column: usize,
    options: &HealOptions,
) -> Result<Replacement, (PathBuf, String)> {
    let disk = set.world.disk;
    let home = set.names.shard(column);
    // A broken shard under the name of another column is not replaced at its present path.
    let bears_another = |found: &Path| {
        let named = found.file_name().and_then(|file| column_of(file, &set.names.name));
        named.is_some_and(|named| named != column)
    };
    // At a shard's path there may be the copy of another shard. It is moved aside, not replaced.
    let copy = |path: &Path| {
        let copy =
            set.superfluous.iter().find(|copy| copy.status.is_usable() && Path::new(&copy.path) == path);
        copy.map(|copy| format!("of-column-{}", copy.column))
    };
    let aside = |path: &Path, whose: &str| Some(free_name(disk, path, whose));
    let (path, aside) = match (&set.shards[column], &options.out, set.status.get(&column)) {
        // A shard that can be read is rebuilt where it is, even if it has another name than its
        // own.
        (Some(shard), _, Some((told, _))) if *told == shard.path => (shard.path.clone(), None),
        (None, Some(out), known) => {
            let path = out.join(home.file_name().unwrap_or_default());
            match known.filter(|(found, _)| spelt_one_way(found) == spelt_one_way(&path)) {
                // Any other file at that path is foreign, most likely of another set.
                None if disk.meta(&path).is_ok() => {
                    let reason = "a file stands there that is none of the set's; move it away, or heal to another directory";
                    return Err((path, reason.into()));
                }
                Some((_, ShardStatus::OtherSet { set: other })) => {
                    let to = aside(&path, &format!("of-{other}"));
                    (path, to)
                }
                _ => (path, None),
            }
        }
        // Data of another set is moved aside, not replaced.
        (_, _, Some((found, ShardStatus::OtherSet { set: other }))) if *found == home => {
            let to = aside(&home, &format!("of-{other}"));
            (home, to)
        }
        // Names were exchanged. Without a header the column of this file is unknown.
        (Some(shard), _, Some((found, ShardStatus::Unreadable { .. })))
            if *found == home && set.misnamed(column, &shard.path).is_some() =>
        {
            let to = aside(&home, "of-unknown-column");
            (home, to)
        }
        (_, _, Some((found, status)))
            if !matches!(status, ShardStatus::Missing | ShardStatus::OtherSet { .. })
                && !bears_another(found) =>
        {
            (found.clone(), None)
        }
        (_, _, _) => {
            let to = copy(&home).and_then(|whose| aside(&home, &whose));
            (home, to)
        }
    };
    let refuse = |reason: String| Err((path.clone(), reason));
    let others = || {
        let good = set.shards.iter().enumerate().filter_map(|(other, shard)| Some((other, shard.as_ref()?)));
        good.filter(|(other, _)| *other != column)
    };
    let holds = |(_, shard): &(usize, &Shard)| *shard.path == *path;
    if let Some((other, _)) = others().find(holds) {
        return refuse(format!(
            "the shard of column {other} has this name; give it its own, or heal again when that is rebuilt"
        ));
    }
    let (to, aside) = match aside {
        Some(_) => (path.clone(), aside),
        None => match behind_link(set, column, &path) {
            Ok(Behind::This(to)) => (to, None),
            Ok(Behind::Stranger) => (path.clone(), Some(free_name(disk, &path, "link"))),
            Err(reason) => return refuse(reason),
        },
    };
    let lies_there = |(_, shard): &(usize, &Shard)| resolve(disk, &shard.path).is_ok_and(|path| path == to);
    if let Some((other, _)) = others().find(lies_there) {
        return refuse(format!("its link leads to {}, where the shard of column {other} lies", to.display()));
    }
    let dir = parent(&to);
    if to == path
        && let Err(error) = disk.make_dir(&dir)
    {
        return refuse(format!("{} cannot be made: {error}", dir.display()));
    }
    if disk.meta(&to).is_ok_and(|meta| meta.kind == MetaKind::Other) {
        let what =
            "a device, a pipe or a socket stands where the shard belongs; it was left as it is: move it away";
        return refuse(what.into());
    }
    if disk.meta(&to).is_ok_and(|meta| meta.kind == MetaKind::Dir) {
        return refuse("a directory stands where the shard belongs; move it away".into());
    }
    let temp = stray(&dir, set.manifest.set, Some(column));
    let is_prepared = set.shards[column].as_ref().is_some_and(Shard::holds_next);
    Ok(Replacement { column, is_prepared, path: to, temp, aside })
}

/// The file that is replaced when a shard is rebuilt.
enum Behind {
    /// The file at this path: the usual one, or the target of a link.
    This(PathBuf),
    /// A link to a file that is not a shard of this set: the maker of the link must not decide
    /// where other users write.
    Stranger,
}

/// Returns the file that a write to a shard's path reaches; or the reason why there is none.
fn behind_link(set: &Set<'_>, column: usize, path: &Path) -> Result<Behind, String> {
    let disk = set.world.disk;
    let to = resolve(disk, path).map_err(|error| error.to_string())?;
    if to == path {
        return Ok(Behind::This(to));
    }
    let dir = parent(&to);
    // The target is missing. Then the user must have named its directory, or else have sealed the
    // set on this machine and made the link, whose target must have the shard's name.
    let is_meant = || {
        let is_shard = to.file_name() == set.names.shard(column).file_name();
        let is_own_link = || disk.meta(path).is_ok_and(|link| is_own(&link));
        set.places == Places::Recorded && is_shard && is_own_link()
    };
    // A new disk has the former mount point, but no directories: the missing one is created. If its
    // parent is missing too, the disk is most likely not mounted, and no file is written there.
    let is_made = || disk.root(&parent(&dir), Access::Read).is_ok() && disk.make_root(&dir, ROOT_DIR).is_ok();
    if disk.list(&dir).is_err() && !(is_meant() && is_made()) {
        return Err(format!(
            "it is a link to {}, whose directory is not there: mount its disk, or on a new one 'mkdir -p {}'",
            to.display(),
            dir.display()
        ));
    }
    // A link to the shard of another column is refused by the caller.
    let is_read = || {
        let mut used = set.shards.iter().flatten();
        used.any(|shard| resolve(disk, &shard.path).is_ok_and(|path| path == to))
    };
    let is_ours = match disk.open(&to) {
        Ok(file) => read_header(&*file).is_ok_and(|(header, _)| {
            header.set == set.manifest.set && (header.column.0 as usize == column || is_read())
        }),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound && (set.is_named(&dir) || is_meant()),
    };
    match is_ours && disk.root(&dir, Access::Write).is_ok() {
        true => Ok(Behind::This(to)),
        false => Ok(Behind::Stranger),
    }
}

/// Returns a free name that begins with the name of a file.
pub(crate) fn free_name(disk: &dyn Disk, path: &Path, whose: &str) -> PathBuf {
    let name = |more: u32| {
        let mut name = path.as_os_str().to_os_string();
        name.push(format!(".{whose}"));
        if more > 0 {
            name.push(format!(".{more}"));
        }
        PathBuf::from(name)
    };
    let is_free = |name: &PathBuf| disk.meta(name).is_err();
    (0..).map(name).find(is_free).unwrap_or_else(|| unreachable!("one is free"))
}

fn write_shards(
    set: &Set<'_>,
    (replacements, owner): (&[Replacement], Option<(u32, u32)>),
    damage: &Damage,
    report: &mut HealReport,
    progress: &mut dyn Progress,
) -> Result<(), Fault> {
    let disk = set.world.disk;
    let mut columns: Vec<&Replacement> = Vec::new();
    let mut outputs = Vec::new();
    for replacement in replacements {
        let Replacement { column, path, temp, .. } = replacement;
        match disk.create(temp).map_err(|e| Fault::io("creating", temp, e)) {
            Ok(file) => {
                let prepared = set.shards[*column].as_ref().filter(|_| replacement.is_prepared);
                let copied = prepared.map_or(Ok(()), |shard| copy_behind_blocks(shard, &*file));
                outputs.push(Output { column: *column, path: temp.clone(), file });
                columns.push(replacement);
                if let Err(error) = copied {
                    let failed = vec![(*column, Fault::io("writing", temp, error))];
                    give_up(disk, failed, &mut outputs, &mut columns, report);
                }
            }
            Err(error) => report.not_healed.push(not_done(path, &error)),
        }
    }
    if columns.is_empty() {
        return Ok(());
    }
    let mut meta = Meta::empty(&set.geometry, &set.manifest);
    let want: Vec<CellIndex> =
        outputs.iter().flat_map(|output| set.geometry.stored[output.column].iter().copied()).collect();
    let stripe_bytes = want.len() as u64 * set.manifest.block_len.bytes();
    let stripes = set.manifest.stripes;
    progress.phase("healing shards", stripes * stripe_bytes);
    let step = set.geometry.window_stripes();
    let mut window = Window::new(&set.geometry, step.min(stripes));
    let lost = set.lost_cells();
    let mut at = 0;
    while at < stripes {
        if progress.cancelled() {
            return Err(Fault::cancelled());
        }
        window.move_to(at..stripes.min(at + step), &lost);
        damage.add_to(&mut window);
        set.obtain(&mut window, &want)?;
        forget_doubtful(&mut window, damage);
        let failed = write_window(set, &mut window, &outputs, &mut meta, report);
        give_up(disk, failed, &mut outputs, &mut columns, report);
        if outputs.is_empty() {
            return Ok(());
        }
        progress.advance(window.count() as u64 * stripe_bytes);
        at = window.stripes.end;
    }
    finish_shards(set, (&mut columns, &mut outputs), &meta, owner, report);
    Ok(())
}

/// Leaves out the shards that cannot be written, so that a fault of one target does not stop the
/// others.
fn give_up(
    disk: &dyn Disk,
    failed: Vec<(usize, Fault)>,
    outputs: &mut Vec<Output>,
    columns: &mut Vec<&Replacement>,
    report: &mut HealReport,
) {
    for (column, error) in failed {
        outputs.retain(|output| output.column != column);
        for replacement in columns.extract_if(.., |replacement| replacement.column == column) {
            // Best effort: the next heal removes it.
            let _ = disk.remove(&replacement.temp);
            report.not_healed.push(not_done(&replacement.path, &error));
        }
    }
}

/// Copies the bytes behind the blocks of a shard: its meta area, and the bytes that a possibly
/// decided change has appended. Unreadable bytes are lost.
fn copy_behind_blocks(shard: &Shard, to: &dyn DiskFile) -> std::io::Result<()> {
    const PIECE_BYTES: usize = 1 << 20;
    let mut at = shard.header.body_end().unwrap_or(BODY_OFFSET);
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match shard.file.read_at(&mut piece, at) {
            Ok(0) | Err(_) => return Ok(()),
            Ok(have) => to.write_at(&piece[..have], at)?,
        }
        at += PIECE_BYTES as u64;
    }
}

fn not_done(path: &Path, error: &Fault) -> NotDone {
    NotDone { path: crate::set::names::shown_path(&path), reason: error.to_string() }
}

/// Counts the computed blocks of doubtful stripes as lost: they are as doubtful as their inputs.
fn forget_doubtful(window: &mut Window, damage: &Damage) {
    for run in damage.doubtful_in(window.stripes.clone()) {
        for i in window.places(&run) {
            let lost = window.lost[i].clone();
            lost.iter().for_each(|cell| window.have[i].remove(cell));
        }
    }
}

/// Writes the blocks of the columns and notes their checksums. A lost block keeps its checksum, or
/// gets the one for unknown content, so that it still counts as lost later.
fn write_window(
    set: &Set<'_>,
    window: &mut Window,
    outputs: &[Output],
    meta: &mut Meta,
    report: &mut HealReport,
) -> Vec<(usize, Fault)> {
    let mut failed = Vec::new();
    for output in outputs {
        let cells = &set.geometry.stored[output.column];
        for i in 0..window.count() {
            for &cell in cells {
                let have = window.have[i].contains(cell);
                report.blocks_repaired += u64::from(have && window.lost[i].contains(cell));
                let stripe = window.stripes.start + i as u64;
                if !have {
                    let bytes = window.bytes(i..i + 1);
                    // The present bytes may be nearly right, so they are kept for examination.
                    let kept = set.shards[output.column].as_ref().zip(set.geometry.place[cell.usize()].1);
                    let buffer = &mut window.arena.get_mut(cell.usize())[bytes];
                    buffer.fill(0);
                    if let Some((shard, row)) = kept {
                        let _ = shard.file.read_at(buffer, shard.header.block_offset(stripe, row));
                    }
                }
                if set.manifest.checksums && set.geometry.lane_of[cell.usize()].is_none() {
                    // A copied block keeps its checksum, since it may be wrong without anyone
                    // noticing.
                    let crc = match have && (set.judge || window.lost[i].contains(cell)) {
                        true => Crc64::of(window.block(cell, i)),
                        false => set.expected(cell, stripe).unwrap_or(Crc64::UNKNOWN),
                    };
                    let table = meta.tables.iter_mut().find(|(column, _)| *column == output.column);
                    if let Some((_, table)) = table {
                        table[set.geometry.check_index(cell, stripe)] = crc;
                    }
                }
            }
        }
        if let Err(e) = write_cells(window, cells, &*output.file, window.stripes.start, window.block) {
            failed.push((output.column, Fault::io("writing", &output.path, e)));
        }
    }
    failed
}

/// Writes the headers, sets the owner, syncs and renames the finished shards.
fn finish_shards(
    set: &Set<'_>,
    (columns, outputs): (&mut Vec<&Replacement>, &mut Vec<Output>),
    meta: &Meta,
    owner: Option<(u32, u32)>,
    report: &mut HealReport,
) {
    let disk = set.world.disk;
    let prepared: Vec<usize> = (columns.iter())
        .filter_map(|replacement| replacement.is_prepared.then_some(replacement.column))
        .collect();
    let place = |column: usize, end: u64, len: u64| {
        let prepared = prepared.contains(&column);
        let live = set.shards[column].as_ref().filter(|_| prepared).map(|shard| &shard.header);
        let fits = |header: &&ShardHeader| header.meta_len() == Some(len);
        live.filter(fits).map_or(end, |header| header.meta_offset)
    };
    let finish = |output: &Output| {
        for header in meta.write(&set.manifest, &set.geometry, std::slice::from_ref(output), 0, place)? {
            let twice = [header.encode(), header.encode()].concat();
            output.file.write_at(&twice, 0).map_err(|e| Fault::io("writing", &output.path, e))?;
        }
        // The shards get the time of the last seal: a file that was touched before this heal must
        // still count as touched.
        set.sealed_at.iter().for_each(|&time| set_back(&*output.file, time));
        if let Some((owner, group)) = owner {
            let given = output.file.set_owner(owner, group);
            given.map_err(|e| Fault::io("setting the owner of", &output.path, e))?;
        }
        output.file.sync().map_err(|e| Fault::io("syncing", &output.path, e))
    };
    let failed = outputs.iter().filter_map(|output| Some((output.column, finish(output).err()?))).collect();
    give_up(disk, failed, outputs, columns, report);
    for replacement in columns.iter() {
        match give_name(set, replacement, &mut report.moved_aside) {
            Ok(()) => report.shards_written.push(crate::set::names::shown_path(&replacement.path)),
            Err(error) => {
                let _ = disk.remove(&replacement.temp);
                report.not_healed.push(not_done(&replacement.path, &error));
            }
        }
    }
}

fn give_name(set: &Set<'_>, replacement: &Replacement, moved_aside: &mut Vec<Renamed>) -> Result<(), Fault> {
    let disk = set.world.disk;
    let Replacement { path, temp, aside, .. } = replacement;
    if let Some(aside) = aside {
        disk.rename(path, aside).map_err(|e| Fault::io("renaming", path, e))?;
        moved_aside.push(Renamed::new(path, aside));
    }
    disk.rename(temp, path).map_err(|e| Fault::io("renaming", temp, e))?;
    let dir = parent(path);
    disk.sync_dir(&dir).map_err(|e| Fault::io("syncing", &dir, e))
}
