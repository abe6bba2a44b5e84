//! Heals the originals of a set that was sealed beside them. Bad blocks are repaired in place;
//! missing and exchanged files, directories and links are written again.

use super::not_done;
use crate::apply::batch::{self, Batch, Written};
use crate::apply::repair::{heal_in_place, is_touched};
use crate::apply::sparse::Sparse;
use crate::attributes::{self, Rights, SETUID_SETGID, give, give_sealed};
use crate::disk::{DiskFile, FileId, Meta as FileMeta, MetaKind, within_group};
use crate::options::Progress;
use crate::report::{FileStatus, HealReport, NotDone};
use crate::set::Set;
use crate::set::times::is_since;
use crate::set::tree::Way;
use crate::set::verify::{Damage, within};
use crate::set::window::Window;
use crate::unseal::{make_parents, open_made, restore};
use crate::update::size_of;
use crate::{Fault, FaultKind};
use pantile_format::{Entry, EntryKind, Timestamp};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

/// An original to be healed.
#[derive(Clone, Copy)]
struct Original<'p> {
    /// Index in the manifest.
    entry: usize,
    path: &'p Path,
    way: Way,
}

/// The state of the original that is to be replaced, and the number of blocks that were computed
/// for it.
struct Restored {
    there: Option<FileMeta>,
    blocks: u64,
}

/// Heals the originals that are missing, and those that rotted under an unchanged mtime.
pub(super) fn heal_files(
    set: &Set<'_>,
    files: Vec<(usize, Way)>,
    (damage, rights): (&Damage, Rights),
    report: &mut HealReport,
    progress: &mut dyn Progress,
) -> Result<(), Fault> {
    let doubtful = Doubt::new(set, damage).of(&files);
    let files = heal_in_place(set, files, (damage, rights), report, progress)?;
    let sizes = files.iter().map(|&(entry, _)| size_of(&set.manifest.entries[entry]));
    progress.phase("healing files", sizes.sum());
    let mut window = Window::new(&set.geometry, set.geometry.window_stripes().min(set.manifest.stripes));
    let mut batch = Batch::new(set.world.disk, set.manifest.set);
    let mut dirs = Vec::new();
    let mut not_kept = Vec::new();
    // Directories that got new names; each is synced once.
    let mut named = BTreeSet::new();
    let filled = filled_dirs(set, &files);
    let empty_roots = empty_roots(set, &files);
    let is_name =
        |&(entry, _): &(usize, Way)| matches!(set.manifest.entries[entry].kind, EntryKind::HardLink { .. });
    let (names, files): (Vec<_>, Vec<_>) = files.into_iter().partition(is_name);
    for (entry, way) in files {
        let path = set.original_path(entry);
        let original = Original { entry, path: &path, way };
        let mut heal = |batch: &mut Batch<'_>| match progress.cancelled() {
            true => Err(Fault::cancelled()),
            false => {
                let tell = (batch, &mut not_kept);
                heal_file(set, original, (damage, rights), &mut window, tell, progress)
            }
        };
        let mut done = heal(&mut batch);
        if done.as_ref().is_err_and(|error| matches!(error.kind, FaultKind::Full)) && !batch.is_empty() {
            // Finishing the batch frees the space of the replaced files.
            batch.finish(|outcome| take(report, outcome));
            done = heal(&mut batch);
        }
        match done {
            Ok(Done::Waits) => {}
            Ok(Done::Dir(made)) => {
                dirs.push((entry, made));
                report.files_healed.push(crate::set::names::shown_path(&path));
            }
            Ok(Done::Named(dir)) => {
                named.extend(dir);
                report.files_healed.push(crate::set::names::shown_path(&path));
            }
            Err(error) if matches!(error.kind, FaultKind::Cancelled) => {
                batch.end(|outcome| take(report, outcome));
                return Err(error);
            }
            Err(error) => report.not_healed.push(not_done(&path, &error)),
        }
        if batch.is_full() {
            batch.finish(|outcome| take(report, outcome));
        }
    }
    batch.end(|outcome| take(report, outcome));
    heal_names(set, &names, &mut named, report);
    for dir in named {
        if let Err(error) = set.world.disk.sync_dir(&dir) {
            report.not_healed.push(not_done(&dir, &Fault::io("syncing", &dir, error)));
        }
    }
    // From the innermost directory outwards: a new file in a directory changes its time, and the
    // mode of a directory may forbid new files.
    report.not_kept.extend(not_kept);
    for made in dirs.into_iter().rev() {
        finish_dir(set, made, rights, report);
    }
    for root in empty_roots {
        finish_dir(set, root, rights, report);
    }
    give_times_back(set, filled);
    let is_healed = |file: &NotDone| report.files_healed.contains(&file.path);
    report.doubtful.extend(doubtful.into_iter().filter(is_healed));
    Ok(())
}

/// Returns the top directories of sources without any file, such as new disks, if they are to be
/// restored.
fn empty_roots(set: &Set<'_>, files: &[(usize, Way)]) -> Vec<(usize, FileId)> {
    let entries = &set.manifest.entries;
    let emptied = set.emptied();
    let restored: HashSet<u32> = files.iter().map(|&(index, _)| entries[index].source).collect();
    let is_root = |(_, entry): &(usize, &Entry)| {
        entry.path.is_empty() && emptied[entry.source as usize] && restored.contains(&entry.source)
    };
    let there = |(index, _)| Some((index, set.world.disk.meta(&set.original_path(index)).ok()?));
    let roots = entries.iter().enumerate().filter(is_root).filter_map(there);
    roots.filter(|(_, meta)| meta.kind == MetaKind::Dir).map(|(index, meta)| (index, meta.id)).collect()
}

/// Returns the existing directories in which files are restored, with their present metadata.
///
/// Sources themselves are excluded: their times show a rename of the whole source, and stay as they
/// are.
fn filled_dirs(set: &Set<'_>, files: &[(usize, Way)]) -> Vec<(usize, FileMeta)> {
    let entries = &set.manifest.entries;
    let above = |&(index, _): &(usize, Way)| {
        let at = entries[index].path.iter().rposition(|&byte| byte == b'/')?;
        Some((entries[index].source, &entries[index].path[..at]))
    };
    let filled: HashSet<(u32, &[u8])> = files.iter().filter_map(above).collect();
    let is_filled =
        |index: &usize| filled.contains(&(entries[*index].source, entries[*index].path.as_slice()));
    let described = |index| Some((index, set.world.disk.meta(&set.original_path(index)).ok()?));
    let there = (0..entries.len()).filter(is_filled).filter_map(described);
    there.filter(|(_, meta)| meta.kind == MetaKind::Dir).collect()
}

/// Gives each directory its sealed mtime if its content is exactly the sealed one again, else the
/// mtime from before the restoration. Best effort: failure loses nothing.
fn give_times_back(set: &Set<'_>, filled: Vec<(usize, FileMeta)>) {
    let disk = set.world.disk;
    let mut sealed: HashSet<(u32, &[u8])> = HashSet::new();
    let mut below: HashMap<(u32, &[u8]), usize> = HashMap::new();
    for entry in set.manifest.entries.iter().filter(|_| !filled.is_empty()) {
        sealed.insert((entry.source, &entry.path));
        if let Some(at) = entry.path.iter().rposition(|&byte| byte == b'/') {
            *below.entry((entry.source, &entry.path[..at])).or_default() += 1;
        }
    }
    for (index, was) in filled {
        let (path, entry) = (set.original_path(index), &set.manifest.entries[index]);
        let is_sealed = |name: &PathBuf| {
            let named = [entry.path.as_slice(), name.as_os_str().as_encoded_bytes()].join(&b'/');
            sealed.contains(&(entry.source, named.as_slice()))
        };
        let names = disk.list(&path).unwrap_or_default();
        let is_whole = below.get(&(entry.source, entry.path.as_slice())) == Some(&names.len())
            && names.iter().all(is_sealed);
        let time = if is_whole { entry.mtime } else { was.mtime };
        if let Ok(now) = disk.meta(&path)
            && (now.kind, now.id) == (MetaKind::Dir, was.id)
            && now.mtime != time
        {
            let _ = disk.set_time(&path, time);
        }
    }
}

/// Gives a new directory its attributes, mode and time, once its content is complete.
fn finish_dir(set: &Set<'_>, (index, made): (usize, FileId), rights: Rights, report: &mut HealReport) {
    let (disk, path, entry) = (set.world.disk, set.original_path(index), &set.manifest.entries[index]);
    let done = open_made(disk, &path, made).and_then(|dir| {
        let sealed = (&set.manifest, index);
        let mode = give_sealed(&*dir, sealed, rights, &path, &mut report.not_kept);
        dir.set_meta(mode, entry.mtime)
    });
    if let Err(error) = done {
        // The top directory of a disk can belong to root.
        let is_root = entry.path.is_empty();
        let error = Fault::io("setting the mode of", &path, error);
        let report = if is_root { &mut report.not_kept } else { &mut report.not_healed };
        report.push(not_done(&path, &error));
    }
}

/// Finds, without checksums, the files that are computed from other files without a check.
struct Doubt<'s, 'w> {
    set: &'s Set<'w>,
    damage: &'s Damage,
    /// By entry: true if the file was touched since it was sealed.
    touched: HashMap<usize, bool>,
}

impl<'s, 'w> Doubt<'s, 'w> {
    fn new(set: &'s Set<'w>, damage: &'s Damage) -> Doubt<'s, 'w> {
        Doubt { set, damage, touched: HashMap::new() }
    }

    /// Returns the files with a block that is computed from a touched file, if no spare equation
    /// could reveal that this file is wrong.
    fn of(&mut self, files: &[(usize, Way)]) -> Vec<NotDone> {
        if self.set.knows_blocks() {
            return Vec::new();
        }
        let told = |(entry, from): (usize, usize)| NotDone {
            path: crate::set::names::shown_path(&self.set.original_path(entry)),
            reason: format!(
                "it was computed without checksums from {}, which was touched since it was sealed, and may be wrong",
                crate::set::names::shown_path(&self.set.original_path(from))
            ),
        };
        let from: Vec<(usize, usize)> =
            files.iter().filter_map(|&(entry, _)| Some((entry, self.touched_source(entry)?))).collect();
        from.into_iter().map(told).collect()
    }

    fn touched_source(&mut self, entry: usize) -> Option<usize> {
        let EntryKind::File { extents, .. } = &self.set.manifest.entries[entry].kind else { return None };
        for extent in extents {
            let cell = self.set.geometry.lanes[extent.lane.0 as usize];
            let stripes = extent.first.0..extent.first.0 + extent.count;
            for (run, wrong) in self.damage.cells.overlapping(&stripes) {
                let mut lost = self.set.lost_cells();
                wrong.iter().for_each(|cell| lost.insert(cell));
                let has_checks = || !self.set.geometry.checker(&lost).locator().checks().is_empty();
                if !wrong.contains(cell) || has_checks() {
                    continue;
                }
                let lanes: Vec<u32> = (0u32..)
                    .zip(&self.set.geometry.lanes)
                    .filter(|(_, cell)| !lost.contains(**cell))
                    .map(|(lane, _)| lane)
                    .collect();
                for lane in lanes {
                    for of_lane in self.set.grid.runs(lane, within(run, &stripes)) {
                        if self.is_touched(of_lane.entry) {
                            return Some(of_lane.entry);
                        }
                    }
                }
            }
        }
        None
    }

    fn is_touched(&mut self, entry: usize) -> bool {
        let set = self.set;
        *self.touched.entry(entry).or_insert_with(|| {
            let way = set.ways(std::iter::once(entry)).first().map_or(Way::Unknown, |&(_, way)| way);
            let there = set.world.disk.meta(&set.original_path(entry));
            there.is_ok_and(|there| is_touched(set, way, &there))
        })
    }
}

/// Notes the result for an original.
fn take(report: &mut HealReport, outcome: batch::Outcome) {
    match outcome {
        Ok(named) => {
            report.blocks_repaired += named.blocks;
            report.files_healed.push(crate::set::names::shown_path(&named.path));
            report.kept_aside.extend(named.aside.map(|aside| crate::set::names::shown_path(&aside)));
        }
        Err((path, error)) => report.not_healed.push(not_done(&path, &error)),
    }
}

/// True if an original is missing or rotten, and its whole content can be recovered with certainty.
pub(super) fn is_to_be_healed(set: &Set<'_>, index: usize, damage: &Damage) -> bool {
    let (lost, gone) = damage.files.get(&set.content_of(index)).copied().unwrap_or((0, 0));
    let Some(original) = &set.originals[index] else { return false };
    let broken = match original.status {
        FileStatus::Missing => true,
        // The content of a hard link is that of its file, which is healed.
        FileStatus::Unchanged => lost > 0 && set.content_of(index) == index,
        FileStatus::Changed
        | FileStatus::RotOrChange
        | FileStatus::Renamed
        | FileStatus::New
        | FileStatus::Rotten => false,
    };
    broken && gone == 0 && damage.doubt(set, set.content_of(index)).is_none()
}

/// Restores the hard links of files: missing ones, and those that still lead to a replaced file.
///
/// `named` gets the directories that are to be synced.
fn heal_names(
    set: &Set<'_>,
    missing: &[(usize, Way)],
    named: &mut BTreeSet<PathBuf>,
    report: &mut HealReport,
) {
    let disk = set.world.disk;
    let is_missing: HashSet<usize> = missing.iter().map(|(entry, _)| *entry).collect();
    let healed: HashSet<String> = report.files_healed.iter().cloned().collect();
    let mut links: Vec<(usize, usize)> = set.files.iter().map(|(&link, &file)| (link, file)).collect();
    links.sort_unstable();
    for (link, file) in links {
        let (path, of) = (set.original_path(link), set.original_path(file));
        let is_old = || {
            let was_one =
                matches!(&set.originals[link], Some(original) if original.status == FileStatus::Unchanged);
            let id = |path: &Path| disk.meta(path).map(|meta| meta.id).ok();
            was_one && healed.contains(&crate::set::names::shown_path(&of)) && id(&path) != id(&of)
        };
        if !is_missing.contains(&link) && !is_old() {
            continue;
        }
        match give_other_name(set, file, &of, &path) {
            Ok(dir) => {
                named.insert(dir);
                report.files_healed.push(crate::set::names::shown_path(&path));
            }
            Err(error) => report.not_healed.push(not_done(&path, &error)),
        }
    }
}

/// Makes a path a hard link to an intact file, in place of any file there; returns the directory,
/// which must be synced.
fn give_other_name(set: &Set<'_>, file: usize, of: &Path, path: &Path) -> Result<PathBuf, Fault> {
    let disk = set.world.disk;
    let entry = &set.manifest.entries[file];
    let is_there = disk.meta(of).is_ok_and(|meta| meta.kind == MetaKind::File && meta.size == size_of(entry));
    if !is_there {
        return Err(Fault::io(
            "naming",
            path,
            std::io::Error::other(format!("{} is not there", of.display())),
        ));
    }
    let dir = make_parents(set, &set.sources[entry.source as usize], path)?;
    let temp = crate::set::names::stray(&dir, set.manifest.set, None);
    let _ = disk.remove(&temp);
    let named = disk
        .add_name(of, &temp)
        .and_then(|()| disk.rename(&temp, path).inspect_err(|_| drop(disk.remove(&temp))));
    named.map_err(|e| Fault::io("naming", path, e)).map(|()| dir)
}

/// Returns a hard link that still leads to a file whose own name is lost.
fn other_name(set: &Set<'_>, file: usize, damage: &Damage) -> Option<PathBuf> {
    let link = set.read_by.get(&file)?;
    let is_right = damage.files.get(&file).is_none_or(|(lost, _)| *lost == 0) || !set.knows_blocks();
    is_right.then(|| set.original_path(*link))
}

/// Progress of restoring an original.
enum Done {
    /// The file is written, and waits in the batch for its name.
    Waits,
    /// The directory exists; its mode and time are set when its content is complete.
    Dir(FileId),
    /// Finished, except that this directory, if any, must be synced.
    Named(Option<PathBuf>),
}

fn heal_file(
    set: &Set<'_>,
    original: Original<'_>,
    (damage, rights): (&Damage, Rights),
    window: &mut Window,
    (batch, not_kept): (&mut Batch<'_>, &mut Vec<NotDone>),
    progress: &mut dyn Progress,
) -> Result<Done, Fault> {
    let (disk, path) = (set.world.disk, original.path);
    let entry = &set.manifest.entries[original.entry];
    let dir = make_parents(set, &set.sources[entry.source as usize], path)?;
    let size = match &entry.kind {
        EntryKind::Dir => {
            // The directory is private until its content is complete: only then may other users see
            // it.
            let made = disk.make_private_dir(path).map_err(|e| Fault::io("creating", path, e))?;
            return Ok(Done::Dir(made));
        }
        EntryKind::Symlink { target } => {
            let owner = set.manifest.owner_of(original.entry);
            disk.make_link(crate::set::names::path_of(target), path, (entry.mtime, owner))
                .map_err(|e| Fault::io("creating", path, e))?;
            return Ok(Done::Named(None));
        }
        EntryKind::HardLink { .. } => unreachable!("names are given when all files are there"),
        EntryKind::File { size, .. } => *size,
    };
    if let Some(name) = other_name(set, original.entry, damage) {
        let dir = give_other_name(set, original.entry, &name, path)?;
        return Ok(Done::Named(Some(dir)));
    }
    let temp = batch.temp(&dir);
    let done = batch.create(&dir, &temp).and_then(|file| {
        let made = (&*temp, &*file);
        let restored = write_original(set, original, made, (damage, rights), (window, not_kept), progress);
        match restored {
            Ok(restored) => Ok((file, restored)),
            Err(error) => {
                let _ = file.discard();
                Err(error)
            }
        }
    });
    let (file, Restored { there, blocks }) = done?;
    // Rot changes no times. A file with changed times may come from a program that sets mtimes
    // back, or from another directory that was renamed to this path.
    let is_kept = there.is_some_and(|there| set.sealed_at.is_none_or(|at| original.is_since(&there, at)));
    let (path, mtime) = (path.to_path_buf(), entry.mtime);
    batch.add(Written { file, path, temp, dir, size, mtime, there, is_kept, blocks });
    Ok(Done::Waits)
}

impl Original<'_> {
    /// True if the present file was changed since a time, or may have been moved to its path since.
    fn is_since(&self, there: &FileMeta, at: Timestamp) -> bool {
        is_since(there.ctime, at) || self.way.is_moved_since(at)
    }
}

fn write_original(
    set: &Set<'_>,
    original: Original<'_>,
    (temp, file): (&Path, &dyn DiskFile),
    (damage, rights): (&Damage, Rights),
    (window, not_kept): (&mut Window, &mut Vec<NotDone>),
    progress: &mut dyn Progress,
) -> Result<Restored, Fault> {
    let (index, path) = (original.entry, original.path);
    let entry = &set.manifest.entries[index];
    let mut sparse = Sparse::new(file);
    let sink = |offset: u64, bytes: &[u8]| {
        if progress.cancelled() {
            return Err(Fault::cancelled());
        }
        progress.advance(bytes.len() as u64);
        sparse.write(bytes, offset).map_err(|e| Fault::io("writing", temp, e))
    };
    let restored = restore(set, index, Some(damage), window, sink)?;
    sparse.end(size_of(entry)).map_err(|e| Fault::io("writing", temp, e))?;
    let mut lost = Damage::default();
    lost.take_gone(set, index, &restored.gone);
    if let Some(losses) = lost.losses(set) {
        return Err(Fault::too_much_lost(losses, None));
    }
    // The old file is examined through the opened directory in which it will be replaced, since
    // names may be exchanged.
    let seen = file.beside(path.file_name()).ok();
    let there = seen.as_ref().and_then(|seen| seen.meta().ok());
    // A file of another owner may have been placed there to get the sealed content.
    let owner = set.manifest.owner_of(index).map(|(owner, _)| owner);
    let is_of_owner = |there: &FileMeta| owner.is_none_or(|owner| owner == there.owner);
    let mode = match seen.zip(there).filter(|(_, there)| is_of_owner(there)) {
        None => give_sealed(file, (&set.manifest, index), rights, path, not_kept),
        Some((seen, there)) => {
            // Best effort: only root may give files away.
            let owned = file.set_owner(there.owner, there.group).is_ok();
            // A replaced file keeps its own rights. Since the maker of the set chose the new
            // content, it does not run with the owner's rights (setuid) unless that was requested.
            let rights = if rights.are_asked_for() { Rights::ALL } else { Rights::BUT_PROGRAMS };
            if rights.of_mode(there.mode) != there.mode {
                let why =
                    "its setuid and setgid bits were not kept; --modes keeps them, chmod sets them again";
                not_kept.push(NotDone { path: crate::set::names::shown_path(path), reason: why.into() });
            }
            // If the owner could not be set, the file must not get setuid or setgid.
            let mode = match owned {
                true => there.mode,
                false => within_group(file, rights.of_mode(there.mode & !SETUID_SETGID)),
            };
            let found = seen.attributes().map_err(|e| Fault::io("reading attributes of", path, e))?;
            give(file, &attributes::kept(found), (mode, rights), path, not_kept)
        }
    };
    file.set_meta(mode, entry.mtime).map_err(|e| Fault::io("setting the mode of", temp, e))?;
    Ok(Restored { there, blocks: restored.reconstructed })
}
