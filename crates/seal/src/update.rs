//! Seals again: only changes are read, computed and written, in one commit.
//!
//! A changed file keeps its blocks and gets more as it grows; a renamed file keeps all of them; new
//! files take free blocks, then new stripes. All refusals, such as an unreadable file or too little
//! room, come before the first write. All content is read before the one rename that commits the
//! whole change. So after a kill or failure at any moment the set has the whole old tree or the
//! whole new one. Only without room for that there are several commits (`apply::portions`).
//!
//! Invariant: parity is only computed from blocks that are known to be as sealed before or now.

use crate::apply::commit::{Slot, appended};
use crate::apply::journal::remove_leftovers;
use crate::apply::portions;
use crate::apply::rename::{give_names_back, is_called_like_one};
use crate::arrange::{Arrangement, arrange, check_room, forget, widen};
use crate::fault::sentences::{columns, counted, paths, words};
use crate::first::{check_free, describe, left_out};
use crate::options::{FEW, FilesMax, Progress, SealOptions};
use crate::report::{Change, FileStatus, PathChange, SealReport, ShardStatus};
use crate::set::bound::{Bound, data_columns, widened};
use crate::set::grid::{Allocator, Apart, Grid};
use crate::set::select::Patterns;
use crate::set::settle::{Listed, write_back};
use crate::set::shard::read_front;
use crate::set::times::{is_later, is_rot_or_change, is_same_time, is_since};
use crate::set::tree::{Tree, let_times_pass};
use crate::set::window::{Reader, join, read_file_blocks};
use crate::set::{Original, Set, mode_name};
use crate::{Fault, FaultKind};
use pantile_format::{Crc64, Entry, EntryKind, Extent, Features, LeftOut, Manifest, Mode, Timestamp};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Bytes of a file that are read at a time to find its changes.
const SCAN_BYTES: usize = 1 << 20;

/// The present tree, and the work to seal it.
struct Plan {
    /// Entries of the present tree. Files have their extents, and checksums as far as they are
    /// known.
    next: Vec<Entry>,
    /// Indices of the entries whose content is read.
    fresh: Vec<usize>,
    /// The ctime of each entry when it was listed.
    seen: Vec<Timestamp>,
    /// Entries whose content is at another path now: index in the old tree, index in the new one.
    moved: Vec<(usize, usize)>,
    /// The blocks whose content changes.
    slots: Vec<Slot>,
    /// The files whose content changes.
    parts: Vec<Part>,
    stripes: u64,
    /// When the walk of the tree began.
    began: Timestamp,
    /// Patterns of paths that are left out from now on.
    left_out: LeftOut,
    /// True if files were read that proved unchanged. A commit then saves the next seal from
    /// reading them again.
    read_in_vain: bool,
}

/// A file whose content changes: its index in the old tree, and in the new one.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub(crate) old: Option<usize>,
    pub(crate) new: Option<usize>,
}

/// Brings a set up to date. `None` if its code got more columns for more sources: then the set must
/// be opened and updated again.
pub(crate) fn update(
    mut set: Set<'_>,
    options: &SealOptions,
    mut tree: Tree,
    progress: &mut dyn Progress,
) -> Result<Option<SealReport>, Fault> {
    let Arrangement { wider, forgotten } = arrange(&set, options, &mut tree)?;
    set.refuse_if_shards_closed()?;
    check_settings(&set, options, &tree)?;
    let places = tree.sources.iter().take(set.manifest.sources.len());
    let places: Vec<PathBuf> = places.map(|s| crate::set::names::path_of(&s.path).to_path_buf()).collect();
    set.refuse_exchanged(&places, |disks| set.seal_command(disks))?;
    if options.removed_max == FilesMax::Half {
        check_not_emptied(&set, &tree, &forgotten)?;
    }
    let broken: Vec<usize> = (set.status.keys().copied())
        .filter(|column| {
            let whole = set.shards[*column]
                .as_ref()
                .is_some_and(|shard| shard.checks_whole && read_front(&*shard.file).is_ok());
            !whole || !set.status[column].1.is_usable()
        })
        .collect();
    let is_missing = |column: &usize| set.status[column].1 == ShardStatus::Missing;
    let missing: Vec<usize> = broken.iter().copied().filter(is_missing).collect();
    if !missing.is_empty() {
        let dir = &set.names.dir;
        let what = format!("the shards of columns {} are not in {}", columns(&missing), dir.display());
        return Err(Fault::new(FaultKind::Damaged, what).at(dir).hint(format!(
            "of one that was moved to another disk leave a symbolic link there, under its name; if one is lost, run '{}' first",
            set.command("heal")
        )));
    }
    if !broken.is_empty() {
        return Err(Fault::needs_heal(&broken, 0, &set.command("heal")));
    }
    if let Some(code) = &wider {
        check_room(&set, code, &tree)?;
    }
    if !options.dry_run {
        remove_leftovers(&set)?;
        give_names_back(&mut set, true)?;
        check_names(&set)?;
    }
    if let Some(code) = wider {
        if !options.dry_run {
            let before = set.manifest.clone();
            widen(&mut set, &code, &before, tree.began, progress)?;
            set.record_state(options.records.as_deref());
        }
        return Ok(None);
    }
    let before = set.manifest.clone();
    set.sources = tree.sources.iter().map(|s| crate::set::names::path_of(&s.path).to_path_buf()).collect();
    keep_fields(&mut tree, &set.manifest);
    let began = tree.began;
    set.manifest.sources = tree.sources.clone();
    set.manifest.features = before.features.known();
    set.manifest.features.ignorable |= Features::OWNERS;
    set.manifest.set_left_out(&tree.left_out);
    if set.manifest.mode == Mode::Beside {
        set.look_at_originals();
    }
    tree.keep_first_names(&set.manifest.entries);
    leave_out_unreadable(&set, &mut tree, options)?;
    let mut report = left_out(&tree);
    let plan = Plan::new(&set, tree, (options, &forgotten), &mut report, progress)?;
    if options.dry_run {
        return Ok(Some(plan.rehearsal(&set, &before, report)));
    }
    for &(old, new) in &plan.moved {
        let entry = &plan.next[new];
        set.originals[old] = Some(Original { path: path_now(&set, entry), status: FileStatus::Unchanged });
    }
    plan.execute(&mut set, &before, &mut report, progress)?;
    forget(&mut set, &forgotten, began, &mut report, progress)?;
    report.shard_bytes_read = set.shard_bytes_read.load(Ordering::Relaxed);
    report.source_bytes_read += set.source_bytes_read.load(Ordering::Relaxed);
    Ok(Some(describe(report, set.world.disk, &set.manifest, &set.geometry, &set.names)))
}

/// Removes files that are to be read but cannot be from the tree, and keeps their sealed state.
fn leave_out_unreadable(set: &Set<'_>, tree: &mut Tree, options: &SealOptions) -> Result<(), Fault> {
    let old = &set.manifest.entries;
    let by_path: HashMap<(u32, &[u8]), &Entry> =
        old.iter().map(|entry| ((entry.source, entry.path.as_slice()), entry)).collect();
    let is_read = |entry: &Entry, ctime| {
        let known = by_path.get(&(entry.source, entry.path.as_slice()));
        !known.is_some_and(|known| is_as_sealed(known, entry)) || is_to_be_read(set, options, ctime)
    };
    tree.leave_out_unreadable(set.world.disk, is_read)?;
    tree.keep_sealed(old);
    Ok(())
}

/// True if a file has its sealed size and mtime.
fn is_as_sealed(sealed: &Entry, now: &Entry) -> bool {
    matches!(sealed.kind, EntryKind::File { .. })
        && is_same_time(sealed.mtime, now.mtime)
        && size_of(sealed) == size_of(now)
}

/// True if a file is read although it has its sealed size and mtime.
///
/// A program can set mtimes, and an exchange of two files of one size changes only the ctimes.
/// Without checksums the content cannot be compared.
fn is_to_be_read(set: &Set<'_>, options: &SealOptions, ctime: Timestamp) -> bool {
    options.read_all || set.sealed_at.filter(|_| set.judge).is_some_and(|at| is_since(ctime, at))
}

fn check_settings(set: &Set<'_>, options: &SealOptions, tree: &Tree) -> Result<(), Fault> {
    let manifest = &set.manifest;
    let differs = |what: &str, have: String, given: String| {
        Err(Fault::request(format!("the set was sealed with {what} {have}, not {given}")).hint(format!(
            "leave {what} out to update it, or seal into another directory or under another name"
        )))
    };
    // The code that the user named may since have got more columns for more sources.
    let is_it = |code: &pantile::Code| {
        let have = set.geometry.codec.code();
        let grown = || {
            widened(code, data_columns(have).len())
                .is_ok_and(|wider| wider.fingerprint() == have.fingerprint())
        };
        code.fingerprint() == have.fingerprint() || grown()
    };
    if let Some(code) = options.code.as_ref().filter(|code| !is_it(code)) {
        return differs("the code", manifest.code.spec.clone(), code.spec().into());
    }
    if let Some(mode) = options.mode
        && mode != manifest.mode
    {
        return differs("the mode", mode_name(manifest.mode).into(), mode_name(mode).into());
    }
    if let Some(given) = options.checksums
        && given != manifest.checksums
    {
        let word = |on: bool| String::from(if on { "on" } else { "off" });
        return differs("checksums", word(manifest.checksums), word(given));
    }
    if let Some(given) = options.block_len
        && given != manifest.block_len.bytes()
    {
        return differs("the block length", manifest.block_len.bytes().to_string(), given.to_string());
    }
    manifest.features.check_writable().map_err(|error| Fault::format(&set.names.dir, error))?;
    let places = |sources: &[pantile_format::Source]| -> Vec<PathBuf> {
        sources.iter().map(|source| crate::set::names::path_of(&source.path).to_path_buf()).collect()
    };
    let names = |sources: &[pantile_format::Source]| -> Vec<Vec<u8>> {
        sources.iter().map(|source| source.prefix.clone()).collect()
    };
    let (have, given) = (places(&manifest.sources), places(&tree.sources));
    // If each source has separate columns, new sources follow those of the set.
    let known = &tree.sources[..tree.sources.len().min(manifest.sources.len())];
    let is_bound = Bound::of(&set.geometry, manifest.mode, &manifest.sources).is_some();
    if names(&manifest.sources) != names(if is_bound { known } else { &tree.sources }) {
        let what = format!("the set was sealed from {}, not from {}", paths(&have), paths(&given));
        return Err(Fault::request(what).hint(
            "give exactly these paths to update it, and seal others as a set of their own, in another directory or under \
             another name",
        ));
    }
    Ok(())
}

/// Refuses other files with the name of a shard: the journal identifies shards by their names.
fn check_names(set: &Set<'_>) -> Result<(), Fault> {
    for (column, shard) in set.shards.iter().enumerate() {
        let (Some(shard), name) = (shard, set.names.shard(column)) else { continue };
        if shard.path != name {
            return Err(name_taken(&name, &shard.path));
        }
    }
    match set.superfluous.iter().find(|copy| is_called_like_one(set, copy.path.as_ref())) {
        Some(copy) => Err(name_taken(copy.path.as_ref(), &set.names.shard(copy.column as usize))),
        None => Ok(()),
    }
}

fn name_taken(path: &Path, shard: &Path) -> Fault {
    let (called, is) = (path.display(), shard.display());
    Fault::request(format!("{called} is called like a shard of the set, but that shard is {is}"))
        .at(path)
        .hint("move it away and run the command again")
}

/// Refuses a seal because more files of a source were changed than the user permits.
fn many_changed(source: &Path, changed: u64, of: u64) -> Fault {
    let shown = source.display();
    let what =
        format!("{changed} of the {of} sealed files of {shown} were changed: by malware? Nothing was sealed");
    let hint = "look at some of them; 'pantile unseal --include PATH' restores sealed content as far as the parity allows; if \
                they were changed on purpose, say --changed-max 100% to seal them";
    Fault::request(what).at(source).hint(hint)
}

/// Refuses a seal because more files of a source are gone than the user permits. Most likely a disk
/// is not mounted, such as that of a directory that is empty now.
fn many_removed(source: &Path, emptied: Option<&Path>, (removed, of): (u64, u64)) -> Fault {
    let shown = source.display();
    let what = match emptied {
        Some(dir) => format!(
            "{} is empty now, and {removed} files that are sealed in it are gone from {shown}: is a disk not mounted there? \
             Nothing was changed",
            dir.display()
        ),
        None => format!(
            "{removed} of the {of} files that are sealed of {shown} are gone: is a disk not mounted? Nothing was changed"
        ),
    };
    Fault::request(what).at(source).hint("if they were removed, say --removed-max 100% to seal without them")
}

/// Refuses a seal that would forget files that `heal` was asked to restore and did not.
fn not_restored(heal: &str, lost: &[PathBuf]) -> Fault {
    let count = counted(lost.len() as u64, "file", "files");
    let what =
        format!("{count} that 'heal' did not restore would be forgotten, such as {}", lost[0].display());
    Fault::request(what).at(&lost[0]).hint(format!(
        "run '{heal}' again; if that cannot restore them, or they were removed, say --removed-max 100% to seal without them"
    ))
}

/// Refuses to forget a whole source: it is more likely not mounted than empty.
fn check_not_emptied(set: &Set<'_>, tree: &Tree, forgotten: &[usize]) -> Result<(), Fault> {
    let kept = tree.sources.iter().enumerate().filter(|(index, _)| !forgotten.contains(index));
    for (index, source) in kept {
        let files = |entries: &[Entry]| {
            let is_own = |e: &&Entry| e.source as usize == index && matches!(e.kind, EntryKind::File { .. });
            entries.iter().any(|entry| is_own(&entry))
        };
        let holds_anything = tree.entries.iter().any(|e| e.source as usize == index && !e.path.is_empty());
        if files(&set.manifest.entries) && !files(&tree.entries) && !holds_anything {
            let is_own = |e: &&Entry| e.source as usize == index && matches!(e.kind, EntryKind::File { .. });
            let removed = set.manifest.entries.iter().filter(is_own).count() as u64;
            let source = crate::set::names::path_of(&source.path);
            return Err(many_removed(source, None, (removed, removed)));
        }
    }
    Ok(())
}

/// The number of suspect files that a fault names.
const SHOWN: usize = 5;

/// Returns the fault of files that may be damaged or changed. The hint has the option that seals
/// them as they are, and the command that restores the first.
fn suspect(
    all: &[PathBuf],
    (one, several): (&str, &str),
    fact: &str,
    (accept, command): (&str, String),
) -> Fault {
    let shown = &all[..all.len().min(SHOWN)];
    let more = if all.len() > shown.len() { ", .." } else { "" };
    let what = format!("{} {fact} ({}{more})", counted(all.len() as u64, one, several), paths(shown));
    Fault::new(FaultKind::Suspect, what)
        .at(&all[0])
        .hint(format!("if that was changed, {accept}; if not, it is damaged: run '{command}'"))
}

impl Plan {
    fn new(
        set: &Set<'_>,
        tree: Tree,
        (options, forgotten): (&SealOptions, &[usize]),
        report: &mut SealReport,
        progress: &mut dyn Progress,
    ) -> Result<Plan, Fault> {
        let old = &set.manifest.entries;
        let by_path: HashMap<(u32, &[u8]), usize> =
            old.iter().enumerate().map(|(i, entry)| ((entry.source, entry.path.as_slice()), i)).collect();
        let mut plan = Plan {
            next: tree.entries,
            fresh: Vec::new(),
            seen: tree.seen,
            moved: Vec::new(),
            slots: Vec::new(),
            parts: Vec::new(),
            stripes: set.manifest.stripes,
            began: tree.began,
            left_out: tree.left_out,
            read_in_vain: false,
        };
        let to_be_read =
            |index: usize| !tree.kept.contains(&index) && is_to_be_read(set, options, tree.ctimes[index]);
        let sealed_as = sealed_as(&plan.next, &set.manifest, &by_path);
        let mut fresh: Vec<(usize, Option<usize>)> = Vec::new();
        let mut kept: HashSet<usize> = HashSet::new();
        for (index, entry) in plan.next.iter_mut().enumerate() {
            let known = by_path.get(&(entry.source, entry.path.as_slice())).copied();
            report.added += u64::from(known.is_none_or(|i| !is_one_kind(&old[i], entry)));
            report.changed += u64::from(known.is_some_and(|i| leads_elsewhere(&old[i], entry)));
            if matches!(entry.kind, EntryKind::HardLink { .. }) {
                report.unchanged += u64::from(known.is_some_and(|i| is_one_kind(&old[i], entry)));
            }
            if !matches!(entry.kind, EntryKind::File { .. }) {
                continue;
            }
            let before = sealed_as.get(&index).copied();
            kept.extend(before);
            match before.map(|i| &old[i]) {
                Some(before)
                    if tree.kept.contains(&index) || is_as_sealed(before, entry) && !to_be_read(index) =>
                {
                    entry.kind = before.kind.clone();
                    report.unchanged += 1;
                }
                _ => fresh.push((index, before)),
            }
        }
        let paths: HashMap<(u32, &[u8]), &Entry> =
            plan.next.iter().map(|entry| ((entry.source, entry.path.as_slice()), entry)).collect();
        let is_there = |e: &Entry| {
            let now = paths.get(&(e.source, e.path.as_slice()));
            now.is_some_and(|now| is_one_kind(e, now))
        };
        report.removed = old.iter().filter(|entry| !is_there(entry)).count() as u64;
        drop(paths);
        let is_gone = |i: &usize| matches!(old[*i].kind, EntryKind::File { .. }) && !kept.contains(i);
        let mut gone: Vec<usize> = (0..old.len()).filter(is_gone).collect();
        let_times_pass(fresh.iter().map(|&(index, _)| &plan.next[index]));
        if !fresh.is_empty() {
            let files: Vec<usize> = fresh.iter().map(|&(index, _)| index).collect();
            let paths: Vec<PathBuf> = plan.next.iter().map(|entry| path_now(set, entry)).collect();
            write_back(set.world, Listed { files: &files, seen: &plan.seen }, &paths)?;
        }
        plan.find_moved(set, &mut fresh, &mut gone, report, progress)?;
        plan.check_removed(set, (&gone, &fresh), options, forgotten)?;
        plan.check_changed(set, &fresh, options)?;
        for &i in &gone {
            plan.slots.extend(slots_of(extents_of(&old[i]), 0, plan.parts.len()));
            plan.parts.push(Part { old: Some(i), new: None });
        }
        plan.place(set, &fresh, options, report, progress)?;
        Ok(plan)
    }

    /// Refuses more changed files than the user permits: most likely the user did not change them.
    /// A file that only has to be read again is not counted.
    fn check_changed(
        &self,
        set: &Set<'_>,
        fresh: &[(usize, Option<usize>)],
        options: &SealOptions,
    ) -> Result<(), Fault> {
        let Some(most) = options.changed_max else { return Ok(()) };
        let old = &set.manifest.entries;
        for (index, root) in set.sources.iter().enumerate() {
            let is_own = |entry: &Entry| entry.source as usize == index;
            let is_changed = |&&(now, before): &&(usize, Option<usize>)| {
                before.is_some_and(|before| {
                    is_own(&old[before]) && !is_as_sealed(&old[before], &self.next[now])
                })
            };
            let changed = fresh.iter().filter(is_changed).count() as u64;
            let is_file = |entry: &&Entry| is_own(entry) && matches!(entry.kind, EntryKind::File { .. });
            let of = old.iter().filter(is_file).count() as u64;
            if most.is_exceeded(changed, of) {
                return Err(many_changed(root, changed, of));
            }
        }
        Ok(())
    }

    /// Returns the files among those that are gone of which another source has a new file of the
    /// same size and time: they were moved there.
    fn moved_away(&self, old: &[Entry], gone: &[usize], fresh: &[(usize, Option<usize>)]) -> HashSet<usize> {
        let mut arrived: HashMap<u64, Vec<&Entry>> = HashMap::new();
        let new = fresh.iter().filter(|(_, before)| before.is_none()).map(|&(index, _)| &self.next[index]);
        new.for_each(|entry| arrived.entry(size_of(entry)).or_default().push(entry));
        let mut is_moved = |&i: &usize| {
            let is_it = |new: &&Entry| new.source != old[i].source && is_same_time(old[i].mtime, new.mtime);
            let of_size = arrived.get_mut(&size_of(&old[i]))?;
            of_size.iter().position(is_it).map(|at| of_size.swap_remove(at))
        };
        gone.iter().copied().filter(|i| is_moved(i).is_some()).collect()
    }

    /// Refuses to forget more files than the user permits: most likely their disk is not mounted.
    fn check_removed(
        &self,
        set: &Set<'_>,
        (gone, fresh): (&[usize], &[(usize, Option<usize>)]),
        options: &SealOptions,
        forgotten: &[usize],
    ) -> Result<(), Fault> {
        let old = &set.manifest.entries;
        let patterns = Patterns::of(&self.left_out)?;
        // Paths that are left out from now on do not count as gone.
        let links: HashSet<(u32, &[u8])> = (self.next.iter())
            .filter(|entry| matches!(entry.kind, EntryKind::HardLink { .. }))
            .map(|entry| (entry.source, entry.path.as_slice()))
            .collect();
        let is_gone = |entry: &&Entry| {
            !patterns.has_below(&entry.path, false) && !links.contains(&(entry.source, entry.path.as_slice()))
        };
        if options.removed_max != FilesMax::Percent(100) {
            let unhealed = crate::set::unhealed::recorded(set);
            let lost: Vec<PathBuf> = gone
                .iter()
                .filter(|&i| unhealed.contains(i) && is_gone(&&old[*i]))
                .map(|&i| set.original_path(i))
                .collect();
            if !lost.is_empty() {
                return Err(not_restored(&set.command("heal"), &lost));
            }
        }
        let moved = self.moved_away(old, gone, fresh);
        let gone = gone.iter().filter(|i| !moved.contains(i));
        let gone: Vec<&Entry> = gone.map(|&i| &old[i]).filter(is_gone).collect();
        for (index, root) in set.sources.iter().enumerate().filter(|(index, _)| !forgotten.contains(index)) {
            let is_own = |entry: &&Entry| {
                entry.source as usize == index && matches!(entry.kind, EntryKind::File { .. })
            };
            let gone: Vec<&Entry> = gone.iter().copied().filter(is_own).collect();
            let (removed, of) = (gone.len() as u64, old.iter().filter(is_own).count() as u64);
            let refuse = |emptied: Option<PathBuf>, removed| {
                Err(many_removed(root, emptied.as_deref(), (removed, of)))
            };
            let are_all = removed > 0 && removed == of && options.removed_max == FilesMax::Half;
            if are_all || options.removed_max.is_exceeded(removed, of) {
                return refuse(None, removed);
            }
            if options.removed_max != FilesMax::Half {
                continue;
            }
            // The mount point of an unmounted disk exists, and is empty.
            let mut below: HashMap<&[u8], u64> = HashMap::new();
            for entry in &gone {
                let slashes = entry.path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
                slashes.for_each(|(at, _)| *below.entry(&entry.path[..at]).or_default() += 1);
            }
            let mut is_filled: HashSet<&[u8]> = HashSet::new();
            for entry in self.next.iter().filter(|entry| entry.source as usize == index) {
                let above = entry.path.iter().rposition(|&byte| byte == b'/');
                is_filled.extend(above.map(|at| &entry.path[..at]));
            }
            let is_emptied = |entry: &&Entry| {
                let own = entry.source as usize == index && entry.kind == EntryKind::Dir;
                own && below.get(entry.path.as_slice()).is_some_and(|&count| count > FEW)
                    && !is_filled.contains(entry.path.as_slice())
            };
            if let Some(dir) = self.next.iter().find(is_emptied) {
                let removed = below[dir.path.as_slice()];
                return refuse(Some(join(root, &dir.path)), removed);
            }
        }
        Ok(())
    }

    /// Reports the planned changes, path by path.
    fn rehearsal(&self, set: &Set<'_>, before: &Manifest, mut report: SealReport) -> SealReport {
        let mut manifest =
            Manifest { entries: self.next.clone(), stripes: self.stripes, ..set.manifest.clone() };
        manifest.generation.0 += u64::from(!self.is_nothing(&manifest, before));
        let old = &before.entries;
        let by_path: HashMap<(u32, &[u8]), &Entry> =
            old.iter().map(|entry| ((entry.source, entry.path.as_slice()), entry)).collect();
        let was: HashMap<usize, usize> = self.moved.iter().map(|&(old, new)| (new, old)).collect();
        let fresh: HashSet<usize> = self.fresh.iter().copied().collect();
        let name = |manifest: &Manifest, index| {
            crate::set::names::shown(&crate::set::restored_path(manifest, index))
        };
        for (index, entry) in self.next.iter().enumerate() {
            let known = by_path.get(&(entry.source, entry.path.as_slice())).filter(|e| is_one_kind(e, entry));
            let (is, from) = match (known, was.get(&index)) {
                (_, Some(&from)) => (Change::Renamed, Some(name(before, from))),
                (None, None) => (Change::Added, None),
                (Some(known), None) if leads_elsewhere(known, entry) => (Change::Changed, None),
                (Some(known), None)
                    if fresh.contains(&index)
                        && (!set.judge || known.kind != entry.kind || known.mtime != entry.mtime) =>
                {
                    (Change::Changed, None)
                }
                (Some(_), None) => continue,
            };
            report.changes.push(PathChange { path: name(&manifest, index), is, from });
        }
        let now: HashMap<(u32, &[u8]), &Entry> =
            self.next.iter().map(|entry| ((entry.source, entry.path.as_slice()), entry)).collect();
        let renamed: HashSet<usize> = self.moved.iter().map(|&(old, _)| old).collect();
        for (index, entry) in old.iter().enumerate().filter(|(index, _)| !renamed.contains(index)) {
            let here = now.get(&(entry.source, entry.path.as_slice()));
            if !here.is_some_and(|now| is_one_kind(entry, now)) {
                report.changes.push(PathChange {
                    path: name(before, index),
                    is: Change::Removed,
                    from: None,
                });
            }
        }
        let stripes: HashSet<u64> = self.slots.iter().map(|slot| slot.stripe).collect();
        (report.dry_run, report.stripes_touched) = (true, stripes.len() as u64);
        report.shard_bytes_read = set.shard_bytes_read.load(Ordering::Relaxed);
        report.source_bytes_read += set.source_bytes_read.load(Ordering::Relaxed);
        describe(report, set.world.disk, &manifest, &set.geometry, &set.names)
    }

    /// True if there is nothing to write.
    fn is_nothing(&self, manifest: &Manifest, before: &Manifest) -> bool {
        self.slots.is_empty() && unchanged(manifest, before) && !self.read_in_vain
    }

    /// Finds the new files whose content was sealed under another path, and removes them from
    /// `fresh` and `gone`: they keep their blocks.
    ///
    /// Without checksums equal content cannot be recognised, so such files are sealed again.
    fn find_moved(
        &mut self,
        set: &Set<'_>,
        fresh: &mut Vec<(usize, Option<usize>)>,
        gone: &mut Vec<usize>,
        report: &mut SealReport,
        progress: &mut dyn Progress,
    ) -> Result<(), Fault> {
        if !set.judge {
            return Ok(());
        }
        let old = &set.manifest.entries;
        let is_bound = Bound::of(&set.geometry, set.manifest.mode, &set.manifest.sources).is_some();
        let mut by_size: HashMap<u64, Vec<usize>> = HashMap::new();
        for &i in gone.iter().filter(|&&i| size_of(&old[i]) > 0) {
            by_size.entry(size_of(&old[i])).or_default().push(i);
        }
        let may_be = |index: usize| by_size.contains_key(&size_of(&self.next[index]));
        let candidates = fresh.iter().filter(|&&(index, before)| before.is_none() && may_be(index));
        let bytes: u64 = candidates.map(|&(index, _)| size_of(&self.next[index])).sum();
        if bytes > 0 {
            progress.phase("looking for renamed files", bytes);
        }
        let mut found: HashMap<usize, usize> = HashMap::new();
        for &(index, before) in fresh.iter() {
            let entry = &self.next[index];
            let (None, Some(same_size)) = (before, by_size.get_mut(&size_of(entry))) else { continue };
            // In another source, the kept blocks would be on the columns of the former source.
            let may_stay = |i: &usize| !is_bound || old[*i].source == entry.source;
            let starts_so = |i: &usize, crcs: &[Crc64]| may_stay(i) && crcs_of(&old[*i]).starts_with(crcs);
            let hope = |crcs: &[Crc64]| same_size.iter().any(|i| starts_so(i, crcs));
            let Some(crcs) = scan_file(set, entry, report, progress, hope)? else { continue };
            if let Some(at) = same_size.iter().position(|i| starts_so(i, &crcs)) {
                found.insert(index, same_size.remove(at));
            }
        }
        for (&index, &i) in &found {
            self.next[index].kind = old[i].kind.clone();
        }
        let taken: HashSet<usize> = found.values().copied().collect();
        fresh.retain(|(index, _)| !found.contains_key(index));
        gone.retain(|i| !taken.contains(i));
        report.renamed = found.len() as u64;
        self.moved = found.into_iter().map(|(index, i)| (i, index)).collect();
        Ok(())
    }

    /// Gives every new and changed file its blocks, and finds the blocks that changed.
    fn place(
        &mut self,
        set: &Set<'_>,
        fresh: &[(usize, Option<usize>)],
        options: &SealOptions,
        report: &mut SealReport,
        progress: &mut dyn Progress,
    ) -> Result<(), Fault> {
        let (mut disguised, mut rot_or_change): (Vec<PathBuf>, Vec<PathBuf>) = Default::default();
        let old = &set.manifest.entries;
        let block_len = set.manifest.block_len;
        let blocks = |entry: &Entry| block_len.blocks(size_of(entry));
        let more = |&(index, before): &(usize, Option<usize>)| {
            blocks(&self.next[index]).saturating_sub(before.map_or(0, |i| blocks(&old[i])))
        };
        let bound = Bound::of(&set.geometry, set.manifest.mode, &set.manifest.sources);
        let mut allocator = match &bound {
            Some(bound) => {
                let files: Vec<(u32, u64)> =
                    fresh.iter().map(|file| (self.next[file.0].source, more(file))).collect();
                Allocator::new_bound(&set.grid, set.manifest.stripes, bound, &files)
            }
            None => Allocator::new(&set.grid, set.manifest.stripes, fresh.iter().map(more).sum()),
        };
        // This is the least room needed; it is checked before memory for each block is allocated.
        let more_stripes = allocator.stripes.saturating_sub(set.manifest.stripes);
        check_free(set.world.disk, appended(set, more_stripes))?;
        let apart = (set.manifest.mode == Mode::Beside).then(|| Apart::new(&set.geometry));
        let changed = fresh.iter().filter(|(_, before)| before.is_some());
        progress.phase("looking for changes", changed.map(|&(index, _)| size_of(&self.next[index])).sum());
        for &(index, before) in fresh {
            let count = blocks(&self.next[index]);
            let mut extents: Vec<Extent> = before.map(|i| extents_of(&old[i]).to_vec()).unwrap_or_default();
            let dropped = cut(&mut extents, count);
            let had: u64 = extents.iter().map(|extent| extent.count).sum();
            let scanned = match before {
                Some(_) if set.judge => scan_file(set, &self.next[index], report, progress, |_| true)?,
                _ => None,
            };
            let unknown = || vec![Crc64(0); if set.manifest.checksums { count as usize } else { 0 }];
            let crcs = scanned.unwrap_or_else(unknown);
            let old_crcs = before.map_or(&[][..], |i| crcs_of(&old[i]));
            let same = |block: u64| {
                block < had && set.judge && old_crcs.get(block as usize) == crcs.get(block as usize)
            };
            let part = self.parts.len();
            self.parts.push(Part { old: before, new: Some(index) });
            self.slots.extend(slots_of(&extents, 0, part).into_iter().filter(|slot| !same(slot.block)));
            let added = match (&bound, &apart) {
                (Some(bound), _) => allocator.take_on(count - had, bound.lanes(self.next[index].source)),
                (None, Some(apart)) => allocator.take_apart(count - had, &extents, apart),
                (None, None) => allocator.take(count - had),
            };
            self.slots.extend(slots_of(&added, had, part));
            self.slots.extend(slots_of(&dropped, count, part));
            added.into_iter().for_each(|extent| append(&mut extents, extent));
            let size = size_of(&self.next[index]);
            let looks_so = before.is_some_and(|i| {
                size_of(&old[i]) == size && is_same_time(old[i].mtime, self.next[index].mtime)
            });
            let as_before = looks_so && (0..count).all(same);
            let is_alike =
                |i: usize| size_of(&old[i]) == size && !is_later(old[i].mtime, self.next[index].mtime);
            let may_be_rot = set.judge && before.is_some_and(is_alike);
            let different = || (0..count).filter(|&block| !same(block)).count() as u64;
            if looks_so && !as_before && !options.read_all {
                disguised.push(path_now(set, &self.next[index]));
            } else if may_be_rot
                && !before.is_some_and(|i| old[i].fields.is_unsettled())
                && is_rot_or_change(different(), count)
                && !(options.read_all || options.accept_changes)
            {
                rot_or_change.push(path_now(set, &self.next[index]));
            }
            self.next[index].kind = EntryKind::File { size, extents, crcs };
            self.read_in_vain |= as_before;
            report.unchanged += u64::from(as_before);
            report.changed += u64::from(before.is_some() && !as_before);
            self.fresh.push(index);
        }
        if !disguised.is_empty() {
            // A time of its own tells a changed file from rot in others, which --read-all would
            // seal.
            let accept = match disguised.len() {
                1..=SHOWN => format!("run 'touch {}' and seal again", words(&disguised)),
                _ => "say --read-all to seal all that is there".into(),
            };
            return Err(suspect(
                &disguised,
                ("file holds", "files hold"),
                "something else than was sealed, though sizes and times of modification are as they were",
                (&accept, set.command("heal")),
            ));
        }
        if !rot_or_change.is_empty() {
            return Err(suspect(
                &rot_or_change,
                ("file has", "files have"),
                "an earlier time than was sealed, its size, and in all blocks but few its content",
                ("say --accept-changes to seal it", format!("{} --to as-sealed", set.command("unseal"))),
            ));
        }
        self.stripes = allocator.stripes;
        self.slots.sort_unstable_by_key(|slot| (slot.stripe, slot.lane));
        Ok(())
    }

    fn execute(
        &self,
        set: &mut Set<'_>,
        before: &Manifest,
        report: &mut SealReport,
        progress: &mut dyn Progress,
    ) -> Result<(), Fault> {
        let mut manifest = set.manifest.clone();
        manifest.entries = self.next.clone();
        if self.is_nothing(&manifest, before) {
            return Ok(());
        }
        manifest.stripes = self.stripes;
        manifest.generation.0 += 1;
        progress.phase("sealing changes", self.slots.len() as u64 * set.manifest.block_len.bytes());
        let change = portions::Change {
            next: &self.next,
            parts: &self.parts,
            read: Listed { files: &self.fresh, seen: &self.seen },
            slots: &self.slots,
            began: self.began,
        };
        change.run(set, manifest, report, progress)
    }
}

/// True if two manifests have equal trees and patterns.
fn unchanged(a: &Manifest, b: &Manifest) -> bool {
    a.entries == b.entries && a.sources == b.sources && a.left_out() == b.left_out()
}

/// Copies the fields of the set's sources to the sources of the tree.
fn keep_fields(tree: &mut Tree, manifest: &Manifest) {
    for source in &mut tree.sources {
        if let Some(known) = manifest.sources.iter().find(|known| known.prefix == source.prefix) {
            source.fields = known.fields.clone();
        }
    }
}

/// Finds for each file the sealed entry with its content: that of its own path, or the file of
/// which its path was a hard link. Each sealed content is used for one file only.
fn sealed_as(
    next: &[Entry],
    sealed: &Manifest,
    by_path: &HashMap<(u32, &[u8]), usize>,
) -> HashMap<usize, usize> {
    let is_file = |entry: &Entry| matches!(entry.kind, EntryKind::File { .. });
    let at = |entry: &Entry| by_path.get(&(entry.source, entry.path.as_slice())).copied();
    let files = || next.iter().enumerate().filter(|(_, entry)| is_file(entry));
    let own = files().filter_map(|(index, entry)| Some((index, at(entry)?)));
    let mut found: HashMap<usize, usize> = own.filter(|&(_, i)| is_file(&sealed.entries[i])).collect();
    let mut taken: HashSet<usize> = found.values().copied().collect();
    let links: HashMap<usize, usize> =
        sealed.hard_links().filter_map(|(link, file)| Some((link, file?))).collect();
    for (index, entry) in files().filter(|_| !links.is_empty()) {
        let file = at(entry).and_then(|i| links.get(&i).copied());
        if let Some(file) = file.filter(|file| !taken.contains(file)) {
            taken.insert(file);
            found.insert(index, file);
        }
    }
    found
}

/// True if two entries of one path are both files, both directories or both symbolic links.
fn is_one_kind(a: &Entry, b: &Entry) -> bool {
    let is_file = |kind: &EntryKind| matches!(kind, EntryKind::File { .. } | EntryKind::HardLink { .. });
    std::mem::discriminant(&a.kind) == std::mem::discriminant(&b.kind) || is_file(&a.kind) && is_file(&b.kind)
}

/// True if two symbolic links have different targets.
fn leads_elsewhere(a: &Entry, b: &Entry) -> bool {
    matches!((&a.kind, &b.kind), (EntryKind::Symlink { target: a }, EntryKind::Symlink { target: b }) if a != b)
}

fn path_now(set: &Set<'_>, entry: &Entry) -> PathBuf {
    join(&set.sources[entry.source as usize], &entry.path)
}

/// Returns the bytes of a file; zero for any other entry.
pub(crate) fn size_of(entry: &Entry) -> u64 {
    if let EntryKind::File { size, .. } = entry.kind { size } else { 0 }
}

fn extents_of(entry: &Entry) -> &[Extent] {
    if let EntryKind::File { extents, .. } = &entry.kind { extents } else { &[] }
}

fn crcs_of(entry: &Entry) -> &[Crc64] {
    if let EntryKind::File { crcs, .. } = &entry.kind { crcs } else { &[] }
}

/// Returns the blocks of extents of a part as slots; the first is block `first` of the file.
fn slots_of(extents: &[Extent], first: u64, part: usize) -> Vec<Slot> {
    let places =
        extents.iter().flat_map(|x| (x.first.0..x.first.0 + x.count).map(|stripe| (stripe, x.lane.0)));
    places
        .zip(first..)
        .map(|((stripe, lane), block)| Slot { stripe, lane, part: part as u32, block })
        .collect()
}

/// Cuts extents to that many blocks; returns the rest.
fn cut(extents: &mut Vec<Extent>, blocks: u64) -> Vec<Extent> {
    let mut left = blocks;
    let mut dropped = Vec::new();
    for extent in extents.iter_mut() {
        let keep = extent.count.min(left);
        if keep < extent.count {
            let first = pantile_format::Stripe(extent.first.0 + keep);
            dropped.push(Extent { lane: extent.lane, first, count: extent.count - keep });
        }
        extent.count = keep;
        left -= keep;
    }
    extents.retain(|extent| extent.count > 0);
    dropped
}

/// Adds an extent, and joins it to the last one if they are adjacent.
fn append(extents: &mut Vec<Extent>, new: Extent) {
    match extents.last_mut() {
        Some(last) if last.lane == new.lane && last.first.0 + last.count == new.first.0 => {
            last.count += new.count
        }
        _ => extents.push(new),
    }
}

/// Returns the checksums of a file's present blocks; `None` as soon as `hope` is false for the
/// checksums read so far.
fn scan_file(
    set: &Set<'_>,
    entry: &Entry,
    report: &mut SealReport,
    progress: &mut dyn Progress,
    hope: impl Fn(&[Crc64]) -> bool,
) -> Result<Option<Vec<Crc64>>, Fault> {
    let path = path_now(set, entry);
    let block = set.geometry.block();
    let count = set.manifest.block_len.blocks(size_of(entry));
    let step = (SCAN_BYTES / block).max(1) as u64;
    let mut bytes = vec![0; step as usize * block];
    let mut crcs = Vec::with_capacity(count as usize);
    let mut at = 0;
    while at < count {
        if progress.cancelled() {
            return Err(Fault::cancelled());
        }
        let here = step.min(count - at);
        let bytes = &mut bytes[..here as usize * block];
        let reader = Reader::of_listed(set.world.disk);
        let read = read_file_blocks(reader, &path, entry, block, at, bytes)
            .map_err(|e| Fault::source("reading", &path, e))?;
        report.source_bytes_read += read.bytes;
        crcs.extend(bytes.chunks_exact(block).map(Crc64::of));
        progress.advance(read.bytes);
        at += here;
        if !hope(&crcs) {
            return Ok(None);
        }
    }
    Ok(Some(crcs))
}

pub(crate) fn grid_of(manifest: &Manifest) -> Grid {
    Grid::new(manifest.lanes as usize, &manifest.entries)
}
