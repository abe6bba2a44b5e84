//! The set to which paths refer: the files there that look like shards, and the manifest of the
//! newest recoverable state.

use super::states::newest;
use crate::disk::{Access, Disk, spelt_one_way};
use crate::fault::sentences::counted;
use crate::options::SetPaths;
use crate::pin::Pin;
use crate::set::bounds::{Bounds, Codes};
use crate::set::names::{column_of, parent, set_of, shown};
use crate::set::shard::{Candidate, Unusable, is_called_shard};
use crate::{Fault, FaultKind};
use pantile_format::{FormatError, Manifest, SetId};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Returns the directories among the paths, and those of the files among them, each once and in its
/// first spelling.
pub(super) fn directories(disk: &dyn Disk, paths: &[PathBuf], access: Access) -> Result<Vec<PathBuf>, Fault> {
    let mut dirs = Vec::new();
    let mut seen = HashSet::new();
    for path in paths {
        let dir = if open_root(disk, path, access)? { path.clone() } else { parent(path) };
        if seen.insert(spelt_one_way(&dir)) {
            dirs.push(dir);
        }
    }
    Ok(dirs)
}

/// Opens a directory, or the directory of a file, as a root; returns true for a directory. Links
/// are followed.
pub(super) fn open_root(disk: &dyn Disk, path: &Path, access: Access) -> Result<bool, Fault> {
    let failed = |e| Fault::io("opening", path, e);
    let error = match disk.root(path, access) {
        Ok(_) => return Ok(true),
        Err(error) => error,
    };
    // A link without a target is a lost shard.
    if matches!(error.kind(), ErrorKind::NotADirectory | ErrorKind::NotFound)
        && disk.root(&parent(path), access).is_ok()
        && disk.meta(path).is_ok()
    {
        return Ok(false);
    }
    Err(failed(error))
}

/// Returns every file that looks like a shard; of several paths of one name in a directory only
/// one.
pub(super) fn find(disk: &dyn Disk, paths: &[PathBuf]) -> Result<Vec<Candidate>, Fault> {
    let mut files: Vec<PathBuf> = Vec::new();
    for path in paths {
        if !open_root(disk, path, Access::Read)? {
            files.push(path.clone());
            continue;
        }
        for name in disk.list(path).map_err(|e| Fault::io("reading", path, e))? {
            if is_called_shard(name.as_os_str()) {
                files.push(path.join(name));
            }
        }
    }
    let mut seen = HashSet::new();
    let mut spelt = HashMap::new();
    files.retain(|path| {
        let dir = parent(path);
        let dir = spelt.entry(dir).or_insert_with_key(|dir| spelt_one_way(dir)).clone();
        seen.insert((dir, path.file_name().map(std::ffi::OsStr::to_os_string)))
    });
    // Each shard remains open, besides the files that are written.
    const OTHERS: u64 = 32;
    let (need, most) = (files.len() as u64 + OTHERS, crate::system::open_files_most());
    if need > most {
        return Err(Fault::new(
            FaultKind::System,
            format!("{need} open files are needed at once, but this process may have {most}"),
        )
        .hint("raise the limit (ulimit -n), or name fewer shards. Nothing was judged"));
    }
    Ok(files.into_iter().map(|path| Candidate::open(disk, path)).collect())
}

fn by_set(candidates: &[Candidate]) -> BTreeMap<SetId, Vec<&Candidate>> {
    let mut sets: BTreeMap<SetId, Vec<&Candidate>> = BTreeMap::new();
    for candidate in candidates {
        if let Some(set) = candidate.set() {
            sets.entry(set).or_default().push(candidate);
        }
    }
    sets
}

/// Returns the manifests of the sets that have good shards in a directory.
pub(crate) fn manifests_in(disk: &dyn Disk, dir: &Path) -> Vec<Manifest> {
    let candidates = find(disk, &[dir.to_path_buf()]).unwrap_or_default();
    let sets = by_set(&candidates);
    let bounds = Bounds::new(None);
    let mut codes = Codes::new(bounds);
    let newest = |shards: &Vec<&Candidate>| newest(disk, shards, (bounds, None, None), &mut codes).ok();
    sets.values().filter_map(newest).collect()
}

/// Returns the manifest of the set to which the paths refer, in its newest recoverable generation.
pub(super) fn choose(
    disk: &dyn Disk,
    candidates: &[Candidate],
    (paths, pin): (&SetPaths, Option<&Pin>),
    codes: &mut Codes,
) -> Result<Manifest, Fault> {
    let sets = by_set(candidates);
    let mut manifests: Vec<(usize, Manifest)> = Vec::new();
    let mut first_error = None;
    for shards in sets.values() {
        match newest(disk, shards, (Bounds::new(paths.effort), pin, paths.records.as_deref()), codes) {
            Ok(manifest) => manifests.push((shards.len(), manifest)),
            Err(error) => first_error = first_error.or(Some((shards[0].path.clone(), error))),
        }
    }
    if let Some(name) = &paths.name {
        manifests.retain(|(_, m)| shown(&m.name) == *name || is_uuid(m.set, name));
    }
    manifests.sort_by_key(|(shards, _)| std::cmp::Reverse(*shards));
    let of_first = candidates.iter().filter(|c| c.set() == manifests.first().map(|(_, m)| m.set));
    let columns: Vec<usize> =
        of_first.filter_map(|c| column_of(c.path.file_name()?, &manifests.first()?.1.name)).collect();
    // A shard of another set at the path of a shard of this set is a fault of this set, and is
    // reported.
    let strays = |manifest: &Manifest| {
        let own = |c: &&Candidate| c.set() == Some(manifest.set);
        candidates.iter().filter(own).all(|c| {
            let file = c.path.file_name();
            let column = file.and_then(|file| column_of(file, &manifests[0].1.name));
            // If this set also has a shard for that column, the other shard belongs to another set
            // that the paths include.
            column.is_some_and(|column| !columns.contains(&column))
        })
    };
    if manifests.len() > 1
        && (manifests[0].0 == manifests[1].0 || !manifests[1..].iter().all(|(_, m)| strays(m)))
    {
        let said = |(count, m): &(usize, Manifest)| {
            format!("'{}' ({}, {})", shown(&m.name), m.set, counted(*count as u64, "shard", "shards"))
        };
        let sets: Vec<String> = manifests.iter().map(said).collect();
        return Err(Fault::request(format!("shards of several sets are there: {}", sets.join(", ")))
            .hint("choose one: --name takes the name or the UUID"));
    }
    if manifests.is_empty() {
        // A shard without a readable header is recognised by its file name.
        let is_meant = |path: &Path| match (&paths.name, path.file_name()) {
            (Some(name), Some(file)) => set_of(file).is_some_and(|set| shown(&set) == *name),
            (name, _) => name.is_none(),
        };
        let meant = || candidates.iter().filter(|c| is_meant(&c.path));
        let of_format = meant().find_map(|c| match &c.header {
            Err(Unusable::Format(error)) => Some((c.path.clone(), error.clone())),
            _ => None,
        });
        let of_system = meant().find_map(|c| match &c.header {
            Err(Unusable::System(reason) | Unusable::Now(reason)) => Some((c.path.clone(), reason.clone())),
            _ => None,
        });
        let first_error = first_error.filter(|(path, _)| is_meant(path));
        return match (first_error.or(of_format), of_system) {
            (Some((path, error)), _) => {
                // A file that is not a shard, or has a newer format, was named by mistake; a
                // damaged shard is a loss.
                let kind = match error {
                    FormatError::NotPantile { .. } | FormatError::Newer { .. } => FaultKind::Request,
                    _ => FaultKind::Lost,
                };
                Err(no_good_shard(kind, "used", &path, &error.to_string()))
            }
            (None, Some((path, reason))) => Err(no_good_shard(FaultKind::System, "opened", &path, &reason)),
            (None, None) => Err(Fault::no_shards(&paths.paths)),
        };
    }
    Ok(manifests.swap_remove(0).1)
}

/// Returns the directory where lost shards belong: the one with most of the other shards, and among
/// equals the first one.
pub(super) fn home(candidates: &[Candidate], set: SetId) -> PathBuf {
    let mut dirs: Vec<(PathBuf, usize)> = Vec::new();
    for dir in candidates.iter().filter(|c| c.set() == Some(set)).map(|c| parent(&c.path)) {
        match dirs.iter_mut().find(|(known, _)| *known == dir) {
            Some((_, count)) => *count += 1,
            None => dirs.push((dir, 1)),
        }
    }
    dirs.into_iter().rev().max_by_key(|(_, count)| *count).map(|(dir, _)| dir).unwrap_or_default()
}

/// True if a text is the UUID of a set, or so many of its first digits that a match by chance is
/// unlikely.
pub(super) fn is_uuid(set: SetId, text: &str) -> bool {
    const DIGITS_LEAST: usize = 8;
    text.len() >= DIGITS_LEAST && set.to_string().starts_with(text)
}

fn no_good_shard(kind: FaultKind, word: &str, path: &Path, why: &str) -> Fault {
    let what = format!("no shard there can be {word}; the first, {}: {why}", path.display());
    Fault::new(kind, what).at(path).hint("one good shard is needed to know the set")
}
