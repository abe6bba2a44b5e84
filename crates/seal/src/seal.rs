//! The way in to sealing: for the first time, or again.

use crate::disk::{Access, ROOT_DIR};
use crate::first::first_seal;
use crate::journal::{has_shards, set_of_journal};
use crate::lock::{Lock, lock};
use crate::names::{Names, column_of};
use crate::naming::{self, Given};
use crate::options::{Progress, SealOptions, SetPaths};
use crate::records::record_of;
use crate::report::SealReport;
use crate::set::{Opening, Pending, Set, disk_name, manifests_in, warn_of_writers};
use crate::tree::{Own, Tree};
use crate::{SealError, World};
use pantile_format::{Manifest, Source};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const NAME_BYTES_MOST: usize = 200;

pub(crate) fn seal(
    world: World<'_>,
    options: &SealOptions,
    progress: &mut dyn Progress,
) -> Result<SealReport, SealError> {
    let given = naming::given(world.disk, options)?;
    let name = set_name(world, options, &given)?;
    check_name(&name)?;
    if let Some(given) = options.block_len {
        pantile_format::BlockLen::new(given).ok_or(SealError::BlockLen { given })?;
    }
    if options.dry_run {
        return rehearse(world, options, name, given, progress);
    }
    let mut held = None;
    let (done, is_made) = match world.disk.make_root(&options.out, ROOT_DIR) {
        Ok(out) => (seal_into(world, options, (out.path, name), given, &mut held, progress), true),
        Err(error) => (Err(SealError::io("creating", &options.out, error)), false),
    };
    // Who does not have the lock leaves the directories to whoever has it.
    // The file by which it is locked lies in the directory.
    let had_lock = held.take().is_some();
    if done.is_err() && (had_lock || !is_made) {
        world.disk.unmake_root(&options.out);
    }
    done
}

/// Returns the name of the set: as given, else that of the first path. If only disks were named it
/// is that of the one set in the directory, if it has one of them.
fn set_name(world: World<'_>, options: &SealOptions, given: &[Given]) -> Result<Vec<u8>, SealError> {
    if let Some(name) = &options.name {
        return Ok(name.as_bytes().to_vec());
    }
    if let Some(first) = given.first().filter(|_| !options.sources.is_empty()) {
        return Ok(first.real.file_name().map(|name| name.as_bytes().to_vec()).unwrap_or_default());
    }
    let names = options.disks.iter().map(|at| at.name.as_bytes());
    let mut sets = manifests_in(world.disk, &options.out);
    let has_one = |set: &Manifest| {
        names.clone().count() == 0
            || names.clone().any(|name| set.sources.iter().any(|s| disk_name(s) == name))
    };
    match (sets.pop(), sets.len(), options.disks.first()) {
        (Some(set), 0, _) if has_one(&set) => Ok(set.name),
        (_, _, Some(first)) => Ok(first.name.as_bytes().to_vec()),
        (_, _, None) => Err(SealError::NoSources),
    }
}

/// Seals into a directory that is there; `held` gets the lock on it.
fn seal_into(
    world: World<'_>,
    options: &SealOptions,
    (out, name): (PathBuf, Vec<u8>),
    given: Vec<Given>,
    held: &mut Option<Lock>,
    progress: &mut dyn Progress,
) -> Result<SealReport, SealError> {
    *held = Some(lock(world.disk, std::slice::from_ref(&out), &[])?);
    let exists = exists(world, &out, &name)?;
    let done = if exists {
        let (name_shown, effort) = (crate::names::shown(&name), options.effort);
        let records = options.records.clone();
        let paths = SetPaths { name: Some(name_shown), effort, records, ..SetPaths::dir(&out) };
        let opening = Opening { locked: true, ..Opening::to_write(&paths) };
        reseal(world, options, &opening, &given, (&out, &name), progress)
    } else {
        let sources = naming::first(&given)?;
        warn_of_writers(world.disk, std::slice::from_ref(&out), progress);
        let own = Own::new(out.clone(), name.clone(), options.left_out.clone().unwrap_or_default())?;
        let tree = Tree::walk(world.disk, sources, &own)?;
        first_seal(world, options, Names { dir: out, name, columns: 0 }, tree, progress)
    };
    if let (Ok(report), Some(records)) = (&done, &options.records) {
        // Without a record heal asks where the originals are.
        let _ = crate::records::keep_manifest(world.disk, records, &report.stored_manifest);
        let _ = crate::records::note(world.disk, records, (&report.set, &report.manifest), &report.places);
    }
    done
}

/// Brings a set up to date, in as many commits as it takes to give the code the columns that it
/// needs.
fn reseal(
    world: World<'_>,
    options: &SealOptions,
    opening: &Opening<'_>,
    given: &[Given],
    (out, name): (&Path, &[u8]),
    progress: &mut dyn Progress,
) -> Result<SealReport, SealError> {
    let mut widened_from = None;
    loop {
        let mut set = Set::open(world, opening, progress)?;
        crate::repair::finish(&mut set, progress)?;
        if let Some(repair) = &set.repair {
            return Err(SealError::RepairCutOff { journal: repair.path.clone() });
        }
        let sources = named(&set, options, given)?;
        let tree = Tree::walk(world.disk, sources, &own(&set, options, out, name)?)?;
        let had = set.manifest.code.spec.clone();
        match crate::update::update(set, options, tree, progress)? {
            Some(report) => return Ok(SealReport { widened_from, ..report }),
            None => widened_from = widened_from.or(Some(had)),
        }
    }
}

/// The sources of a set that is there, by the names that it has for them.
fn named(set: &Set<'_>, options: &SealOptions, given: &[Given]) -> Result<Vec<Source>, SealError> {
    let disk = set.world.disk;
    let records = options.records.as_deref();
    let record = records.and_then(|records| record_of(disk, records, set.manifest.set));
    naming::again(disk, (given.to_vec(), options.moved), &set.manifest.sources, record.as_ref())
}

/// What is left out of the sources of a set that is there: what it keeps, unless told anew.
fn own(set: &Set<'_>, options: &SealOptions, out: &Path, name: &[u8]) -> Result<Own, SealError> {
    let left_out = options.left_out.clone().unwrap_or_else(|| set.manifest.left_out());
    Own::new(out.to_path_buf(), name.to_vec(), left_out)
}

/// Finds out what would be done, and makes nothing.
fn rehearse(
    world: World<'_>,
    options: &SealOptions,
    name: Vec<u8>,
    given: Vec<Given>,
    progress: &mut dyn Progress,
) -> Result<SealReport, SealError> {
    let (out, is_there) = match world.disk.root(&options.out, Access::Read) {
        Ok(out) => (out, true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => (options.out.clone(), false),
        Err(error) => return Err(SealError::io("opening", &options.out, error)),
    };
    if is_there && exists(world, &out, &name)? {
        let paths = SetPaths {
            name: Some(crate::names::shown(&name)),
            effort: options.effort,
            ..SetPaths::dir(&out)
        };
        let set = Set::open(world, &Opening::to_read(&paths, Pending::Refused), progress)?;
        let sources = named(&set, options, &given)?;
        let tree = Tree::walk(world.disk, sources, &own(&set, options, &out, &name)?)?;
        let report = crate::update::update(set, options, tree, progress)?;
        return report.ok_or(SealError::NotRehearsed);
    }
    let own = Own::new(out.clone(), name.clone(), options.left_out.clone().unwrap_or_default())?;
    let tree = Tree::walk(world.disk, naming::first(&given)?, &own)?;
    first_seal(world, options, Names { dir: out, name, columns: 0 }, tree, progress)
}

fn check_name(name: &[u8]) -> Result<(), SealError> {
    let bad = name.is_empty() || name.len() > NAME_BYTES_MOST || name.contains(&b'/') || name.contains(&0);
    if bad || name == b"." || name == b".." {
        return Err(SealError::BadName { name: crate::names::shown(name) });
    }
    Ok(())
}

/// Whether there is anything of a set of this name.
///
/// Errors: `JournalNameTaken` if there is nothing but a file that is called like its journal.
fn exists(world: World<'_>, out: &Path, name: &[u8]) -> Result<bool, SealError> {
    let files = world.disk.list(out).map_err(|e| SealError::io("reading", out, e))?;
    let journal = Names { dir: out.to_path_buf(), name: name.to_vec(), columns: 0 }.journal();
    let is_called_so = |file: &PathBuf| Some(file.as_os_str()) == journal.file_name();
    if files.iter().any(|file| column_of(file.as_os_str(), name).is_some()) {
        return Ok(true);
    }
    // The shards of a first seal that was decided may have temporary names still.
    match (files.iter().any(is_called_so), has_shards(world.disk, &journal, &[])?) {
        (false, _) => Ok(false),
        (true, true) => Ok(true),
        (true, false) => {
            let set = set_of_journal(world.disk, &journal).map(|set| set.to_string());
            Err(SealError::JournalNameTaken { path: journal, set })
        }
    }
}
