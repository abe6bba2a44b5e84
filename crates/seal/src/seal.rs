//! The entry of sealing: it decides between a first seal and an update.

use crate::apply::journal::{has_shards, set_of_journal};
use crate::apply::lock::{Lock, lock};
use crate::disk::{Access, ROOT_DIR, why_unmounted};
use crate::first::{first_seal, refuse_idle};
use crate::naming::{self, Given};
use crate::options::{Progress, SealOptions, SetPaths};
use crate::records::record_of;
use crate::report::SealReport;
use crate::set::names::{Names, column_of, path_of};
use crate::set::tree::{Own, Tree};
use crate::set::{Opening, Pending, Set, disk_name, manifests_in, warn_of_writers};
use crate::{Fault, FaultKind, World, spread};
use pantile_format::{Manifest, Source};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const NAME_BYTES_MOST: usize = 200;

/// The number of times that a file is read again if it changed while it was read.
const TRIES: usize = 2;

pub(crate) fn seal(
    world: World<'_>,
    options: &SealOptions,
    progress: &mut dyn Progress,
) -> Result<SealReport, Fault> {
    let given = naming::given(world.disk, options)?;
    let name = set_name(world, options, &given)?;
    check_name(&name)?;
    if let Some(given) = options.block_len {
        pantile_format::BlockLen::new(given).ok_or_else(|| Fault::block_len(given))?;
    }
    if options.dry_run {
        return rehearse(world, options, name, given, progress);
    }
    let mut held = None;
    let made = outs(options).map(|out| {
        let made = world.disk.make_root(out, ROOT_DIR).map(|made| made.path);
        made.map_err(|error| Fault::io("creating", out, error))
    });
    let made: Result<Vec<PathBuf>, Fault> = made.collect();
    let is_made = made.is_ok();
    let done = made.and_then(|dirs| seal_into(world, options, (&dirs, name), given, &mut held, progress));
    // The lock is a file in the directory: only the command that holds the lock removes the
    // directories.
    let had_lock = held.take().is_some();
    if done.is_err() && (had_lock || !is_made) {
        outs(options).for_each(|out| world.disk.unmake_root(out));
    }
    done
}

/// Returns the directories of the shards, as named.
fn outs(options: &SealOptions) -> impl Iterator<Item = &PathBuf> {
    std::iter::once(&options.out).chain(&options.more_out)
}

/// Refuses to begin a set in the folder of a disk that is not mounted: its shards would be on the
/// disk above.
fn refuse_unmounted(world: World<'_>, options: &SealOptions) -> Result<(), Fault> {
    let found = outs(options).find_map(|out| Some((out, why_unmounted(world.disk, out)?)));
    let Some((out, why)) = found else { return Ok(()) };
    let what = format!("{why}; no shard was written to {}", out.display());
    Err(Fault::request(what).at(out).hint("mount the disk, or name another directory"))
}

/// Returns the name of the set: the given one, else that of the first path. If only disks were
/// named, it is the name of the only set in the directory, if that set has one of them.
fn set_name(world: World<'_>, options: &SealOptions, given: &[Given]) -> Result<Vec<u8>, Fault> {
    if let Some(name) = &options.name {
        return Ok(name.as_bytes().to_vec());
    }
    if let Some(first) = given.first().filter(|_| !options.sources.is_empty()) {
        return Ok(first.real.file_name().map(|name| name.as_bytes().to_vec()).unwrap_or_default());
    }
    let mut names = options.disks.iter().map(|at| at.name.as_bytes());
    let in_each = outs(options).map(|out| manifests_in(world.disk, out));
    let mut sets = in_each.into_iter().find(|sets| !sets.is_empty()).unwrap_or_default();
    let is_of = |set: &Manifest, name: &[u8], real: &Path| {
        set.sources.iter().any(|source| disk_name(source) == name || path_of(&source.path) == real)
    };
    let mut has_one = |set: &Manifest| {
        given.is_empty() || names.by_ref().zip(given).any(|(name, at)| is_of(set, name, &at.real))
    };
    match (sets.pop(), sets.len(), options.disks.first()) {
        (Some(set), 0, _) if has_one(&set) => Ok(set.name),
        (_, _, Some(first)) => Ok(first.name.as_bytes().to_vec()),
        (_, _, None) => Err(Fault::no_sources()),
    }
}

/// Seals into existing directories; `held` receives the lock on them.
fn seal_into(
    world: World<'_>,
    options: &SealOptions,
    (dirs, name): (&[PathBuf], Vec<u8>),
    given: Vec<Given>,
    held: &mut Option<Lock>,
    progress: &mut dyn Progress,
) -> Result<SealReport, Fault> {
    *held = Some(lock(world.disk, dirs, &[])?);
    // A directory without a shard may be the folder of a disk that is not mounted.
    let link = |is_sealed: bool, progress: &mut dyn Progress| {
        let all = spread::with_linked(world.disk, dirs, &name);
        let is_linked = |dir: &&PathBuf| is_sealed || spread::has_shards(world.disk, dir, &name);
        let dirs: Vec<PathBuf> = all.iter().filter(is_linked).cloned().collect();
        if all.len() > 1 {
            spread::link_others(world.disk, (&all, &name), &dirs, progress);
        }
    };
    let (name_shown, effort) = (crate::set::names::shown(&name), options.effort);
    let records = options.records.clone();
    let paths =
        SetPaths { paths: dirs.to_vec(), name: Some(name_shown), effort, records, ..SetPaths::default() };
    let opening = Opening { locked: true, ..Opening::to_write(&paths) };
    let done = if exists(world, dirs, &name)? {
        link(false, progress);
        reseal(world, options, &opening, &given, (dirs, &name), progress)
    } else {
        refuse_unmounted(world, options)?;
        let sources = naming::first(&given)?;
        warn_of_writers(world.disk, dirs, progress);
        let left_out = options.left_out.clone().unwrap_or_default();
        let tree = Tree::walk(world.disk, sources, &Own::new(dirs.to_vec(), name.clone(), left_out)?)?;
        first_seal(world, options, (dirs, name.clone()), tree, progress)
    };
    let again = SealOptions { read_all: false, ..options.clone() };
    let done = done.and_then(|report| {
        settle(report, || reseal(world, &again, &opening, &given, (dirs, &name), progress))
    });
    link(done.is_ok(), progress);
    if let (Ok(report), Some(records)) = (&done, &options.records) {
        // Best effort: without a record heal asks where the originals are.
        let _ = crate::records::keep_manifest(world.disk, records, &report.stored_manifest);
        let _ = crate::records::note(world.disk, records, (&report.set, &report.manifest), &report.places);
    }
    done
}

/// Seals again the files that changed while they were read, a few times at most; returns one report
/// of all.
///
/// Errors: the set has an unfinished change, or the user ended the command. After any other fault
/// the set is in the state of the last seal, whose report names the files.
fn settle(
    mut report: SealReport,
    mut again: impl FnMut() -> Result<SealReport, Fault>,
) -> Result<SealReport, Fault> {
    for _ in 0..TRIES {
        if report.changed_meanwhile.is_empty() {
            break;
        }
        match again() {
            Ok(next) => {
                report.damaged.retain(|path| !next.damaged.contains(path));
                report = SealReport {
                    damaged: [report.damaged, next.damaged.clone()].concat(),
                    first_time: report.first_time,
                    added: report.added + next.added,
                    changed: report.changed,
                    removed: report.removed + next.removed,
                    renamed: report.renamed + next.renamed,
                    unchanged: report.unchanged,
                    source_bytes_read: report.source_bytes_read + next.source_bytes_read,
                    shard_bytes_read: report.shard_bytes_read + next.shard_bytes_read,
                    bytes_written: report.bytes_written + next.bytes_written,
                    stripes_touched: report.stripes_touched + next.stripes_touched,
                    widened_from: report.widened_from.or(next.widened_from.clone()),
                    ..next
                }
            }
            Err(error) if matches!(error.kind, FaultKind::Unfinished(_) | FaultKind::Cancelled) => {
                return Err(error);
            }
            Err(_) => break,
        }
    }
    Ok(report)
}

/// Brings a set up to date. It takes several commits if the code must first get more columns.
fn reseal(
    world: World<'_>,
    options: &SealOptions,
    opening: &Opening<'_>,
    given: &[Given],
    (dirs, name): (&[PathBuf], &[u8]),
    progress: &mut dyn Progress,
) -> Result<SealReport, Fault> {
    let mut widened_from = None;
    loop {
        let mut set = Set::open(world, opening, progress)?;
        set.keep_apart();
        crate::apply::repair::finish(&mut set, progress)?;
        if let Some(repair) = &set.repair {
            let path = &repair.path;
            let what = format!("a repair of files was cut off, and {} says how it goes on", path.display());
            return Err(Fault::new(FaultKind::Pending, what)
                .at(path)
                .hint(format!("run '{}' first", set.command("heal"))));
        }
        refuse_idle(dirs, &set.manifest.code.spec, set.geometry.stored_columns().count())?;
        let sources = named(&set, options, given)?;
        let tree = Tree::walk(world.disk, sources, &own(&set, options, dirs, name)?)?;
        let had = set.manifest.code.spec.clone();
        match crate::update::update(set, options, tree, progress)? {
            Some(report) => return Ok(SealReport { widened_from, ..report }),
            None => widened_from = widened_from.or(Some(had)),
        }
    }
}

/// Returns the sources of an existing set, by the names that the set has for them.
fn named(set: &Set<'_>, options: &SealOptions, given: &[Given]) -> Result<Vec<Source>, Fault> {
    let disk = set.world.disk;
    let records = options.records.as_deref();
    let record = records.and_then(|records| record_of(disk, records, set.manifest.set));
    if given.is_empty() && record.is_none() {
        return Err(set.unrecorded());
    }
    naming::again(disk, (given.to_vec(), options.moved), &set.manifest.sources, record.as_ref())
}

/// Returns the patterns and files that are left out of the sources of an existing set: those that
/// the set stores, unless the caller gives others.
fn own(set: &Set<'_>, options: &SealOptions, dirs: &[PathBuf], name: &[u8]) -> Result<Own, Fault> {
    let left_out = options.left_out.clone().unwrap_or_else(|| set.manifest.left_out());
    Own::new([dirs, &set.shard_dirs()].concat(), name.to_vec(), left_out)
}

/// Reports the planned changes, and writes nothing.
fn rehearse(
    world: World<'_>,
    options: &SealOptions,
    name: Vec<u8>,
    given: Vec<Given>,
    progress: &mut dyn Progress,
) -> Result<SealReport, Fault> {
    let mut dirs = Vec::new();
    let mut there = Vec::new();
    for out in outs(options) {
        match world.disk.root(out, Access::Read) {
            Ok(dir) => there.push(dir),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Fault::io("opening", out, error)),
        }
        dirs.push(if there.len() > dirs.len() { there[dirs.len()].clone() } else { out.clone() });
    }
    if exists(world, &there, &name)? {
        let paths = SetPaths {
            paths: there,
            name: Some(crate::set::names::shown(&name)),
            effort: options.effort,
            ..SetPaths::default()
        };
        let set = Set::open(world, &Opening::to_read(&paths, Pending::Refused), progress)?;
        let sources = named(&set, options, &given)?;
        let tree = Tree::walk(world.disk, sources, &own(&set, options, &dirs, &name)?)?;
        let report = crate::update::update(set, options, tree, progress)?;
        return report.ok_or_else(|| {
            Fault::request(
                "a new source needs a column that the set does not have yet, and only then its changes can be listed",
            )
            .hint("leave out --dry-run, or the new source")
        });
    }
    refuse_unmounted(world, options)?;
    let own = Own::new(dirs.clone(), name.clone(), options.left_out.clone().unwrap_or_default())?;
    let tree = Tree::walk(world.disk, naming::first(&given)?, &own)?;
    first_seal(world, options, (&dirs, name), tree, progress)
}

fn check_name(name: &[u8]) -> Result<(), Fault> {
    let bad = name.is_empty() || name.len() > NAME_BYTES_MOST || name.contains(&b'/') || name.contains(&0);
    if bad || name == b"." || name == b".." {
        let what = format!("'{}' cannot be the name of a set", crate::set::names::shown(name));
        return Err(Fault::request(what)
            .hint("a name is part of a file name: not empty, without '/', and at most 200 bytes"));
    }
    Ok(())
}

/// Returns true if any of the directories has a file of a set of this name.
///
/// Errors: the only such file has the name of its journal.
fn exists(world: World<'_>, dirs: &[PathBuf], name: &[u8]) -> Result<bool, Fault> {
    let mut taken = None;
    for dir in dirs {
        let files = world.disk.list(dir).map_err(|e| Fault::io("reading", dir, e))?;
        let journal = Names::new(dir.clone(), name.to_vec(), 0).journal();
        if files.iter().any(|file| column_of(file.as_os_str(), name).is_some()) {
            return Ok(true);
        }
        if files.iter().any(|file| Some(file.as_os_str()) == journal.file_name()) {
            // The shards of a first seal that was decided may still have temporary names.
            if has_shards(world.disk, &journal, dirs)? {
                return Ok(true);
            }
            taken = Some(journal);
        }
    }
    match taken {
        None => Ok(false),
        Some(path) => {
            let set = set_of_journal(world.disk, &path).map(|set| set.to_string());
            let shown = path.display();
            Err(match set {
                None => Fault::request(format!(
                    "{shown} is no journal of Pantile that can be read, but has the name that the journal of the set would \
                     get; it was not touched"
                ))
                .hint("move it away, or seal under another name (--name)"),
                Some(set) => Fault::request(format!(
                    "{shown} records a change of the set {set}, but no shard of it is there; it was not touched"
                ))
                .hint(
                    "leave a symbolic link to each of these shards there, and any command finishes the change, or move it \
                     away, or seal under another name (--name)",
                ),
            }
            .at(path))
        }
    }
}
