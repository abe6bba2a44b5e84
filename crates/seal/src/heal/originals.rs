//! Originals of a set sealed beside them: missing ones made anew, rotten ones put right,
//! directories and links among them.

use super::not_done;
use crate::SealError;
use crate::attributes::{self, Rights, SETUID_SETGID, give};
use crate::batch::{self, Batch, Written};
use crate::disk::{DiskFile, FileId, Meta as FileMeta, MetaKind, is_own, within_group};
use crate::links::is_led_to_by_nobody_else;
use crate::names::parent;
use crate::options::Progress;
use crate::report::{FileStatus, HealReport, NotDone};
use crate::set::Set;
use crate::times::is_since;
use crate::tree::{Way, closed_dirs, is_read_by_all, is_shown};
use crate::unseal::{make_parents, open_made, restore, sealed_attributes};
use crate::verify::Damage;
use crate::window::Window;
use pantile_format::{EntryKind, Timestamp};
use pantile_trust::{Caller, SOMEBODY};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// The rights of an owner.
const OF_OWNER: u32 = 0o700;

/// An original to be healed.
#[derive(Clone, Copy)]
struct Original<'p> {
    /// Of the manifest.
    entry: usize,
    path: &'p Path,
    way: Way,
    /// Whether the directories above it let everybody see it when it was sealed.
    was_shown: bool,
    /// Whether its own mode let everybody read it, too.
    was_open: bool,
}

/// What is in the place of an original, and what was written.
struct Restored {
    there: Option<FileMeta>,
    /// Whether what is there was put there, or touched, since this user sealed it.
    is_touched: bool,
    blocks: u64,
}

/// Originals that are missing, or that rotted under an unchanged time of modification.
pub(super) fn heal_files(
    set: &Set<'_>,
    files: Vec<(usize, Way)>,
    (damage, rights): (&Damage, Rights),
    report: &mut HealReport,
    progress: &mut dyn Progress,
) -> Result<(), SealError> {
    let size_of = |&(entry, _): &(usize, Way)| match set.manifest.entries[entry].kind {
        EntryKind::File { size, .. } => size,
        _ => 0,
    };
    progress.phase("healing files", files.iter().map(size_of).sum());
    let mut window = Window::new(&set.geometry, set.geometry.window_stripes().min(set.manifest.stripes));
    let mut batch = Batch::new(set.world.disk, set.manifest.set);
    let mut dirs = Vec::new();
    let mut closed_anew = HashSet::new();
    let mut not_kept = Vec::new();
    let mut left_alone: HashSet<PathBuf> = HashSet::new();
    let filled = filled_dirs(set, &files);
    let closed = closed_dirs(&set.manifest.entries);
    for (entry, way) in files {
        let path = set.original_path(entry);
        let was_shown = is_shown(&set.manifest.entries[entry], &closed);
        let was_open = is_read_by_all(&set.manifest.entries[entry], &closed);
        let original = Original { entry, path: &path, way, was_shown, was_open };
        let refused = refuse_as_others_say(set)
            .and_then(|()| refuse_below_others(set, original, &dirs))
            .and_then(|()| refuse_if_told(set, original, &dirs));
        if let Err(error) = refused {
            report.not_healed.push(not_done(&path, &error));
            left_alone.insert(parent(&path));
            continue;
        }
        let mut heal = |batch: &mut Batch<'_>| match progress.cancelled() {
            true => Err(SealError::Cancelled),
            false => {
                let tell = (batch, &mut not_kept);
                heal_file(set, original, (damage, rights), &mut window, tell, progress)
            }
        };
        let mut done = heal(&mut batch);
        if matches!(done, Err(SealError::NoSpace { .. })) && !batch.is_empty() {
            // What the files that wait replace is room, too.
            batch.finish(|outcome| take(report, outcome));
            done = heal(&mut batch);
        }
        match done {
            Ok(Done::Waits) => {}
            Ok(Done::Dir(made)) => {
                dirs.push((entry, made));
                if !is_for_others(set, original) {
                    closed_anew.insert(entry);
                }
                report.files_healed.push(crate::names::shown_path(&path));
            }
            Ok(Done::Link) => report.files_healed.push(crate::names::shown_path(&path)),
            Err(error @ SealError::Cancelled) => {
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
    // From the innermost: what is made in a directory changes its time, and its mode may forbid it.
    report.not_kept.extend(not_kept);
    for made in dirs.into_iter().rev() {
        let is_closed = closed_anew.contains(&made.0);
        finish_dir(set, made, if is_closed { rights.of_owner_alone() } else { rights }, report);
        if is_closed {
            let path = crate::names::shown_path(&set.original_path(made.0));
            report.not_kept.push(NotDone { path, reason: format!("{PLACE_OF_OTHERS}{FOR_HEALER}") });
        }
    }
    let is_left = |index: &usize| left_alone.contains(&set.original_path(*index));
    give_times_back(set, filled.into_iter().filter(|(index, _)| !is_left(index)).collect());
    Ok(())
}

/// The directories that are there and in which something is put back, with what they are now.
///
/// The source itself is none: its times show whether it was renamed as a whole, and are left alone.
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

/// Gives directories the times that they were sealed with, as far as each holds exactly what was
/// sealed again; else the time that it had before something was put back. Best effort: nothing is
/// lost with it.
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

/// Why something that is made anew is for whoever heals alone.
const PLACE_OF_OTHERS: &str = "others may have put what is there, or a directory on its way, and not everybody could \
                               read it when it was sealed";
const FOR_HEALER: &str = ": it is for who healed it alone; chown and chmod give it to others";

/// Whether a directory that is made anew may be for others: everybody could read it when it was
/// sealed, or nobody else can have put a directory on its way.
fn is_for_others(set: &Set<'_>, original: Original<'_>) -> bool {
    original.was_open || is_way_hers(set, original)
}

/// Gives a directory that was made anew its attributes, mode and time, when everything is in it.
fn finish_dir(set: &Set<'_>, (index, made): (usize, FileId), rights: Rights, report: &mut HealReport) {
    let (disk, path, entry) = (set.world.disk, set.original_path(index), &set.manifest.entries[index]);
    let done = open_made(disk, &path, made).and_then(|dir| {
        let given = (within_group(&*dir, rights.of_mode(entry.mode)), rights);
        let sealed = sealed_attributes(set, index).unwrap_or_default();
        let mode = give(&*dir, &sealed, given, &path, &mut report.not_kept);
        dir.set_meta(mode, entry.mtime)
    });
    if let Err(error) = done {
        let error = SealError::io("setting the mode of", &path, error);
        report.not_healed.push(not_done(&path, &error));
    }
}

/// Notes what became of an original.
fn take(report: &mut HealReport, outcome: batch::Outcome) {
    match outcome {
        Ok(named) => {
            report.blocks_repaired += named.blocks;
            report.files_healed.push(crate::names::shown_path(&named.path));
            report.kept_aside.extend(named.aside.map(|aside| crate::names::shown_path(&aside)));
        }
        Err((path, error)) => report.not_healed.push(not_done(&path, &error)),
    }
}

/// Whether an original is missing or rotten, and can be had whole and for certain.
pub(super) fn is_to_be_healed(set: &Set<'_>, index: usize, damage: &Damage) -> bool {
    let (lost, gone) = damage.files.get(&index).copied().unwrap_or((0, 0));
    let Some(original) = &set.originals[index] else { return false };
    let broken = match original.status {
        FileStatus::Missing => true,
        FileStatus::Unchanged => lost > 0,
        FileStatus::Changed
        | FileStatus::RotOrChange
        | FileStatus::Renamed
        | FileStatus::New
        | FileStatus::Rotten => false,
    };
    broken && gone == 0 && damage.doubt(set, index).is_none()
}

/// How far an original is healed.
enum Done {
    /// It is written, and waits for its name in the batch.
    Waits,
    /// It is there; its mode and time are set when all is in it.
    Dir(FileId),
    /// It is there.
    Link,
}

/// Repairs one original.
fn heal_file(
    set: &Set<'_>,
    original: Original<'_>,
    (damage, rights): (&Damage, Rights),
    window: &mut Window,
    (batch, not_kept): (&mut Batch<'_>, &mut Vec<NotDone>),
    progress: &mut dyn Progress,
) -> Result<Done, SealError> {
    let (disk, path) = (set.world.disk, original.path);
    let entry = &set.manifest.entries[original.entry];
    let dir = make_parents(set, &set.sources[entry.source as usize], path)?;
    let size = match &entry.kind {
        EntryKind::Dir => {
            // Private until everything is in it: what it may inherit is for others to see only
            // then.
            let made = disk.make_private_dir(path).map_err(|e| SealError::io("creating", path, e))?;
            return Ok(Done::Dir(made));
        }
        EntryKind::Symlink { target } => {
            disk.make_link(crate::names::path_of(target), path, entry.mtime)
                .map_err(|e| SealError::io("creating", path, e))?;
            return Ok(Done::Link);
        }
        EntryKind::File { size, .. } => *size,
    };
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
    let (file, Restored { there, is_touched, blocks }) = done?;
    // Rot leaves no trace in times. What does may be the work of a program that sets the time of
    // modification back, or lie in another directory, which was renamed to this. Only her own
    // record tells her time, and only shards that nobody else can write tell her content.
    let is_kept = there.is_some_and(|there| {
        let since_shards = set.sealed_at.is_some_and(|at| original.is_since(&there, at));
        is_touched || since_shards || !set.is_hers_alone()
    });
    let (path, mtime) = (path.to_path_buf(), entry.mtime);
    batch.add(Written { file, path, temp, dir, size, mtime, there, is_kept, blocks });
    Ok(Done::Waits)
}

impl Original<'_> {
    /// Whether what is there was changed since a time, or may have been moved there.
    fn is_since(&self, there: &FileMeta, at: Timestamp) -> bool {
        is_since(there.ctime, at) || self.way.is_moved_since(at)
    }
}

/// Writes an original to a temporary file.
fn write_original(
    set: &Set<'_>,
    original: Original<'_>,
    (temp, file): (&Path, &dyn DiskFile),
    (damage, rights): (&Damage, Rights),
    (window, not_kept): (&mut Window, &mut Vec<NotDone>),
    progress: &mut dyn Progress,
) -> Result<Restored, SealError> {
    let (index, path) = (original.entry, original.path);
    let entry = &set.manifest.entries[index];
    let sink = |offset: u64, bytes: &[u8]| {
        if progress.cancelled() {
            return Err(SealError::Cancelled);
        }
        progress.advance(bytes.len() as u64);
        file.write_at(bytes, offset).map_err(|e| SealError::io("writing", temp, e))
    };
    let restored = restore(set, index, Some(damage), window, sink)?;
    let mut lost = Damage::default();
    lost.take_gone(set, index, &restored.gone);
    if let Some(losses) = lost.losses(set) {
        return Err(SealError::TooMuchLost { losses: Box::new(losses), healed: None });
    }
    // By one descriptor, in the directory in which it will be replaced: names may be exchanged. What
    // is not at home there was moved, perhaps, to have its owner given what shards of another say.
    let seen = file.beside(path.file_name()).ok();
    let there = seen.as_ref().and_then(|seen| seen.meta().ok());
    let above = file.above().map_err(|e| SealError::io("reading", temp, e))?;
    let is_at_home = |there: &FileMeta| Caller::or_by_sudo().is_at_home(there, &above);
    if let Some(there) = there.filter(|there| set.put_by_another().is_some() && !is_at_home(there)) {
        return Err(SealError::PlaceOfAnother { path: path.to_path_buf(), owner: there.owner });
    }
    let is_where_it_was = above.first().is_some_and(|dir| set.was_sealed_in(original.way, dir.id));
    let is_touched = there.is_some_and(|there| !is_where_it_was || set.may_be_touched(&there));
    let is_way_hers = is_way_hers(set, original);
    // Whoever put a file there, or a directory on its way, must not be given what she could not
    // read.
    let is_place_theirs = original.was_open || is_way_hers || (there.is_some() && !is_touched);
    let is_content_sealed = set.is_content_sealed();
    // Nor must the owner of a file be given what she has not seen, which is another's by now.
    let is_moved = there.is_some_and(|there| is_touched && !is_at_home(&there));
    let is_for_others = is_place_theirs && is_content_sealed && !is_moved;
    // Best effort: only root may give files away.
    let owned = is_for_others && there.is_some_and(|meta| file.set_owner(meta.owner, meta.group).is_ok());
    // Its own rights are what whoever may change them wants; another's are no wider than the umask.
    let is_chosen_by_nobody_else = set.is_hers_alone() && is_way_hers;
    let kept = if is_chosen_by_nobody_else { Rights::ALL } else { Rights::BUT_PROGRAMS };
    let (mode, rights) = there.map_or((entry.mode, rights), |meta| (meta.mode, kept));
    let narrow = mode & entry.mode & OF_OWNER;
    let is_less = rights.of_mode(mode) != narrow || there.is_some_and(|there| !is_own(&there));
    let (mode, given) = if is_for_others { (mode, rights) } else { (narrow, rights.of_owner_alone()) };
    if !is_for_others && is_less {
        let why = match is_content_sealed {
            true if is_moved => "its owner is not that of the directory, and others may have put it there",
            true => PLACE_OF_OTHERS,
            false => {
                "others may have made the shards, or put other files in the place of those that were read, and without \
                 checksums it could tell what is in another file"
            }
        };
        let why = format!("{why}{FOR_HEALER}");
        not_kept.push(NotDone { path: crate::names::shown_path(path), reason: why });
    }
    if there.is_some_and(|meta| rights.of_mode(meta.mode) != meta.mode) {
        let why = "its setuid and setgid bits were not kept: others may write to its shards or to a directory on \
                   its way, and could choose what runs as its owner; chmod sets them again";
        not_kept.push(NotDone { path: crate::names::shown_path(path), reason: why.into() });
    }
    // Without its owner, a program must not run as its owner.
    let mode = if owned { mode } else { within_group(file, given.of_mode(mode & !SETUID_SETGID)) };
    // Those that it has now, like its mode; those that were sealed if it is not there.
    let attributes = match seen {
        Some(seen) => {
            attributes::kept(seen.attributes().map_err(|e| SealError::io("reading attributes of", path, e))?)
        }
        None => sealed_attributes(set, index).unwrap_or_default(),
    };
    let mode = give(file, &attributes, (mode, given), path, not_kept);
    file.set_meta(mode, entry.mtime).map_err(|e| SealError::io("setting the mode of", temp, e))?;
    Ok(Restored { there, is_touched, blocks: restored.reconstructed })
}

/// Refuses to write originals as shards say that another user can have put where they are, whoever
/// heals: they may be the shards of another set, of which nothing is for whoever can look into the
/// sources. Root who is alone in a name space of users sees directories of root outside as
/// another's, and is not refused.
fn refuse_as_others_say(set: &Set<'_>) -> Result<(), SealError> {
    let caller = Caller::alone();
    match set.put_by_another().filter(|_| !caller.is_root() || caller.rules_others()) {
        Some(owner) => Err(SealError::OfAnother { path: set.names.dir.clone(), owner }),
        None => Ok(()),
    }
}

/// By record: refuses to make or replace anything in directories that may have been moved since it
/// was sealed, and are not at home.
fn refuse_below_others(
    set: &Set<'_>,
    original: Original<'_>,
    made: &[(usize, FileId)],
) -> Result<(), SealError> {
    let (disk, path) = (set.world.disk, original.path);
    if set.trust.is_named() {
        return Ok(());
    }
    // It was sealed before what lies in it, so it was made by now; whatever has its path later is
    // another.
    let dir = parent(path);
    let is_made = |found: &FileMeta| made.iter().any(|(_, made)| *made == found.id);
    let source = &set.sources[set.manifest.entries[original.entry].source as usize];
    let depth = dir.strip_prefix(source).map_or(0, |below| below.components().count());
    let above = disk.above(&dir).map_err(|e| SealError::io("reading", &dir, e))?;
    let is_where_it_was =
        above.first().is_some_and(|dir| set.was_sealed_in(original.way, dir.id) || is_made(dir));
    // One of root's counts as that of the user in whose directory it lies, and so does one's own.
    let caller = Caller::or_by_sudo();
    let is_bad = |at: &usize| !is_made(&above[*at]) && !caller.may_fill(&above[*at], &above[at + 1..]);
    match (0..depth.min(above.len())).find(is_bad).filter(|_| !is_where_it_was) {
        Some(at) => {
            let mut owners = above[at..].iter().map(|dir| dir.owner);
            let owner = owners.find(|&owner| !caller.trusts(owner)).unwrap_or(SOMEBODY);
            Err(SealError::PlaceOfAnother { path: path.to_path_buf(), owner })
        }
        None => Ok(()),
    }
}

/// Refuses to make what lay where not everybody could see it in a directory that others may have
/// put there: its name tells something already, and so does where a link leads to. What lies there
/// is no reason to make it, since its name may be a guess; but whoever names the source says that
/// it is as it was.
fn refuse_if_told(set: &Set<'_>, original: Original<'_>, made: &[(usize, FileId)]) -> Result<(), SealError> {
    let (disk, path) = (set.world.disk, original.path);
    let is_named = || set.trust.is_named() && disk.meta(path).is_ok();
    if original.was_shown || is_named() || is_way_hers(set, original) {
        return Ok(());
    }
    // From here on the path leads to no other directory.
    let dir = disk.meta(&parent(path)).map(|dir| dir.id);
    let is_same = |dir| set.was_sealed_in(original.way, dir) || made.iter().any(|(_, made)| *made == dir);
    match dir.is_ok_and(is_same) {
        true => Ok(()),
        false => Err(SealError::NotShown { path: path.to_path_buf() }),
    }
}

/// Whether nobody but this user can have put there what is found in the place of an original: each
/// directory from the source on is hers.
fn is_way_hers(set: &Set<'_>, original: Original<'_>) -> bool {
    let path = original.path;
    let source = &set.sources[set.manifest.entries[original.entry].source as usize];
    let caller = Caller::alone();
    let is_hers = |dir: &Path| {
        let is_hers = |meta: FileMeta| is_own(&meta) && !caller.is_of_another(&meta);
        set.world.disk.meta(dir).is_ok_and(|meta| meta.kind == MetaKind::Dir && is_hers(meta))
    };
    // The source may be the file itself.
    let top = if path == source { parent(source) } else { source.clone() };
    let mut dirs = path.ancestors().skip(1).take_while(|dir| dir.starts_with(&top));
    dirs.all(is_hers) && is_led_to_by_nobody_else(&parent(source))
}
