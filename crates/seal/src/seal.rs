//! The way in to sealing: for the first time, or again.

use crate::disk::{Access, ROOT_DIR};
use crate::first::first_seal;
use crate::journal::{has_shards, set_of_journal};
use crate::lock::{Lock, lock};
use crate::names::{Names, column_of};
use crate::options::{Progress, SealOptions, SetPaths};
use crate::report::SealReport;
use crate::set::{Opening, Pending, Set, warn_of_writers};
use crate::tree::{Own, Tree, sources};
use crate::{SealError, World};
use pantile_format::Source;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const NAME_BYTES_MOST: usize = 200;

pub(crate) fn seal(
    world: World<'_>,
    options: &SealOptions,
    progress: &mut dyn Progress,
) -> Result<SealReport, SealError> {
    let sources = sources(&world, &options.sources)?;
    let name = match &options.name {
        Some(name) => name.as_bytes().to_vec(),
        None => {
            let first = crate::names::path_of(&sources[0].1.path);
            first.file_name().map(|name| name.as_bytes().to_vec()).unwrap_or_default()
        }
    };
    check_name(&name)?;
    if let Some(given) = options.block_len {
        pantile_format::BlockLen::new(given).ok_or(SealError::BlockLen { given })?;
    }
    if options.dry_run {
        return rehearse(world, options, name, sources, progress);
    }
    let mut held = None;
    let (done, is_made) = match world.disk.make_root(&options.out, ROOT_DIR) {
        Ok(out) => (seal_into(world, options, out.path, name, sources, &mut held, progress), true),
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

/// Seals into a directory that is there; `held` gets the lock on it.
fn seal_into(
    world: World<'_>,
    options: &SealOptions,
    out: PathBuf,
    name: Vec<u8>,
    sources: Vec<(PathBuf, Source)>,
    held: &mut Option<Lock>,
    progress: &mut dyn Progress,
) -> Result<SealReport, SealError> {
    *held = Some(lock(world.disk, std::slice::from_ref(&out), &[])?);
    let exists = exists(world, &out, &name)?;
    let sources: Vec<_> = sources.into_iter().map(|(_, source)| source).collect();
    let done = if exists {
        let (name_shown, effort) = (crate::names::shown(&name), options.effort);
        let records = options.records.clone();
        let paths = SetPaths { name: Some(name_shown), effort, records, ..SetPaths::dir(&out) };
        let opening = Opening { locked: true, ..Opening::to_write(&paths) };
        reseal(world, options, &opening, &sources, (&out, &name), progress)
    } else {
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
    sources: &[Source],
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
        let tree = Tree::walk(world.disk, sources.to_vec(), &own(&set, options, out, name)?)?;
        let had = set.manifest.code.spec.clone();
        match crate::update::update(set, options, tree, progress)? {
            Some(report) => return Ok(SealReport { widened_from, ..report }),
            None => widened_from = widened_from.or(Some(had)),
        }
    }
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
    sources: Vec<(PathBuf, Source)>,
    progress: &mut dyn Progress,
) -> Result<SealReport, SealError> {
    let (out, is_there) = match world.disk.root(&options.out, Access::Read) {
        Ok(out) => (out, true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => (options.out.clone(), false),
        Err(error) => return Err(SealError::io("opening", &options.out, error)),
    };
    let sources: Vec<_> = sources.into_iter().map(|(_, source)| source).collect();
    if is_there && exists(world, &out, &name)? {
        let paths = SetPaths {
            name: Some(crate::names::shown(&name)),
            effort: options.effort,
            ..SetPaths::dir(&out)
        };
        let set = Set::open(world, &Opening::to_read(&paths, Pending::Refused), progress)?;
        let tree = Tree::walk(world.disk, sources, &own(&set, options, &out, &name)?)?;
        let report = crate::update::update(set, options, tree, progress)?;
        return report.ok_or(SealError::NotRehearsed);
    }
    let own = Own::new(out.clone(), name.clone(), options.left_out.clone().unwrap_or_default())?;
    let tree = Tree::walk(world.disk, sources, &own)?;
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
