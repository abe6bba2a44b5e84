//! Sealing again: only what changed is read, computed and written.
//!
//! A changed file keeps its blocks and gets others as it grows; new files take what was free before, then new
//! stripes. The change is made in batches, each a commit: in mode full a batch is some whole files whose journal is
//! about 64 MiB, so that every file is at any moment sealed in its old or its new state. In mode beside one batch is
//! everything: a stripe whose old content is gone in several files can only be encoded at once, and the journal holds
//! parity alone.
//!
//! Invariant: parity is never computed from a block that is not known to be what was sealed or what is sealed now.

use crate::SealError;
use crate::commit::{Commit, Slot};
use crate::first::describe;
use crate::grid::{Allocator, Grid};
use crate::journal::remove_temporaries;
use crate::options::{Progress, SealOptions};
use crate::report::SealReport;
use crate::set::{Set, mode_name};
use crate::tree::{Tree, let_times_pass};
use crate::window::{join, read_file_blocks};
use pantile_format::{Crc64, Entry, EntryKind, Extent, Manifest, Mode};
use std::collections::{HashMap, HashSet};

/// The journal of one batch is about this long; a single larger file makes it longer.
const JOURNAL_BYTES: u64 = 64 << 20;

/// Bytes of a file that are read at a time to see what changed in it.
const SCAN_BYTES: usize = 1 << 20;

/// What becomes of one file, to be committed as a whole.
struct Unit {
    /// Of the tree as it is now; `None` for a file that is gone.
    next: Option<usize>,
    /// Of the manifest as it was; `None` for a new file.
    old: Option<usize>,
    /// The blocks whose content changes.
    slots: Vec<Slot>,
}

/// The tree as it is now, and what must be done for it to be sealed.
struct Plan {
    /// By entry of the tree; files have their extents, and checksums as far as they are known.
    next: Vec<Entry>,
    /// Entries whose checksums are known from reading them once.
    scanned: HashSet<usize>,
    /// Old entries by the new ones that replace them, files only.
    replaces: HashMap<usize, usize>,
    units: Vec<Unit>,
    stripes: u64,
}

pub(crate) fn update(
    mut set: Set<'_>,
    options: &SealOptions,
    tree: Tree,
    progress: &mut dyn Progress,
) -> Result<SealReport, SealError> {
    check_settings(&set, options, &tree)?;
    check_not_emptied(&set, &tree)?;
    let broken: Vec<usize> = (set.status.keys().copied())
        .filter(|&column| set.shards[column].as_ref().is_none_or(|shard| shard.checks.is_none()))
        .collect();
    if !broken.is_empty() {
        return Err(SealError::NeedsHeal { columns: broken, blocks: 0 });
    }
    remove_temporaries(set.world.disk, &set.names)?;
    give_names_back(&mut set)?;
    let skipped = tree.skipped.iter().take(100).map(|path| path.display().to_string()).collect();
    let mut report = SealReport { skipped, ..SealReport::default() };
    let before = set.manifest.clone();
    set.sources = tree.sources.iter().map(|s| crate::names::path_of(&s.path).to_path_buf()).collect();
    set.manifest.sources = tree.sources.clone();
    if set.manifest.mode == Mode::Beside {
        set.look_at_originals();
    }
    let plan = Plan::new(&set, tree, &mut report, progress)?;
    plan.execute(&mut set, &before, &mut report, progress)?;
    let fresh: HashSet<usize> = plan.units.iter().filter_map(|unit| unit.next).collect();
    let mut fresh = plan.next.iter().enumerate().filter(|(i, _)| fresh.contains(i)).map(|(_, entry)| entry);
    let changed = |entry: &Entry| {
        let EntryKind::File { size, .. } = entry.kind else { return false };
        let path = join(&set.sources[entry.source as usize], &entry.path);
        !set.world.disk.meta(&path).is_ok_and(|meta| meta.size == size && meta.mtime == entry.mtime)
    };
    report.changed_meanwhile = fresh
        .by_ref()
        .filter(|entry| changed(entry))
        .take(100)
        .map(|entry| join(&set.sources[entry.source as usize], &entry.path).display().to_string())
        .collect();
    report.shard_bytes_read = set.shard_bytes_read.load(std::sync::atomic::Ordering::Relaxed);
    Ok(describe(report, &set.manifest, &set.geometry, &set.names))
}

fn check_settings(set: &Set<'_>, options: &SealOptions, tree: &Tree) -> Result<(), SealError> {
    let manifest = &set.manifest;
    let differs = |what, have: String, given: String| Err(SealError::Differs { what, have, given });
    if let Some(code) = &options.code
        && code.fingerprint() != manifest.code.fingerprint
    {
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
    let names = |sources: &[pantile_format::Source]| -> Vec<Vec<u8>> {
        sources.iter().map(|source| source.prefix.clone()).collect()
    };
    if names(&manifest.sources) != names(&tree.sources) {
        let list = |sources: &[pantile_format::Source]| {
            let paths: Vec<String> = sources.iter().map(|s| crate::names::shown(&s.path)).collect();
            paths.join(", ")
        };
        return differs("the sources", list(&manifest.sources), list(&tree.sources));
    }
    Ok(())
}

/// Shards that were renamed within their directory: the journal knows them by their names.
fn give_names_back(set: &mut Set<'_>) -> Result<(), SealError> {
    let (disk, names) = (set.world.disk, &set.names);
    for (column, shard) in set.shards.iter_mut().enumerate() {
        let Some(shard) = shard else { continue };
        let name = names.shard(column);
        if shard.path == name {
            continue;
        }
        if disk.meta(&name).is_ok() {
            let (have, given) = (name.display().to_string(), shard.path.display().to_string());
            return Err(SealError::Differs { what: "the name of a shard", have, given });
        }
        disk.rename(&shard.path, &name).map_err(|e| SealError::io("renaming", &shard.path, e))?;
        disk.sync_dir(&names.dir).map_err(|e| SealError::io("syncing", &names.dir, e))?;
        shard.path = name;
    }
    Ok(())
}

/// Refuses to forget a whole source: it is more likely not mounted than empty.
fn check_not_emptied(set: &Set<'_>, tree: &Tree) -> Result<(), SealError> {
    for (index, source) in tree.sources.iter().enumerate() {
        let files = |entries: &[Entry]| {
            let is_own = |e: &&Entry| e.source as usize == index && matches!(e.kind, EntryKind::File { .. });
            entries.iter().any(|entry| is_own(&entry))
        };
        let holds_anything = tree.entries.iter().any(|e| e.source as usize == index && !e.path.is_empty());
        if files(&set.manifest.entries) && !files(&tree.entries) && !holds_anything {
            let path = crate::names::path_of(&source.path).to_path_buf();
            return Err(SealError::BadSource { path });
        }
    }
    Ok(())
}

impl Plan {
    fn new(
        set: &Set<'_>,
        tree: Tree,
        report: &mut SealReport,
        progress: &mut dyn Progress,
    ) -> Result<Plan, SealError> {
        let old = &set.manifest.entries;
        let by_path: HashMap<(u32, &[u8]), usize> =
            old.iter().enumerate().map(|(i, entry)| ((entry.source, entry.path.as_slice()), i)).collect();
        let mut plan = Plan {
            next: tree.entries,
            scanned: HashSet::new(),
            replaces: HashMap::new(),
            units: Vec::new(),
            stripes: set.manifest.stripes,
        };
        let mut fresh: Vec<(usize, Option<usize>)> = Vec::new();
        for (index, entry) in plan.next.iter_mut().enumerate() {
            let known = by_path.get(&(entry.source, entry.path.as_slice())).copied();
            report.added += u64::from(known.is_none());
            let EntryKind::File { size, .. } = entry.kind else { continue };
            let before = known.filter(|&i| matches!(old[i].kind, EntryKind::File { .. }));
            if let Some(i) = before {
                plan.replaces.insert(index, i);
            }
            match before.map(|i| &old[i]) {
                Some(before) if before.mtime == entry.mtime && size_of(before) == size => {
                    entry.kind = before.kind.clone();
                    report.unchanged += 1;
                }
                _ => fresh.push((index, before)),
            }
        }
        let kept: HashSet<usize> = plan.replaces.values().copied().collect();
        let paths: HashSet<(u32, &[u8])> =
            plan.next.iter().map(|entry| (entry.source, entry.path.as_slice())).collect();
        report.removed =
            old.iter().filter(|e| !paths.contains(&(e.source, e.path.as_slice()))).count() as u64;
        drop(paths);
        for (i, entry) in old.iter().enumerate() {
            if matches!(entry.kind, EntryKind::File { .. }) && !kept.contains(&i) {
                plan.units.push(Unit { next: None, old: Some(i), slots: slots_of(extents_of(entry), 0) });
            }
        }
        plan.place(set, &fresh, report, progress)?;
        Ok(plan)
    }

    /// Gives every new and changed file its blocks, and finds out which of them change.
    fn place(
        &mut self,
        set: &Set<'_>,
        fresh: &[(usize, Option<usize>)],
        report: &mut SealReport,
        progress: &mut dyn Progress,
    ) -> Result<(), SealError> {
        let old = &set.manifest.entries;
        let block_len = set.manifest.block_len;
        let blocks = |entry: &Entry| block_len.blocks(size_of(entry));
        let more = |&(index, before): &(usize, Option<usize>)| {
            blocks(&self.next[index]).saturating_sub(before.map_or(0, |i| blocks(&old[i])))
        };
        let mut allocator = Allocator::new(&set.grid, set.manifest.stripes, fresh.iter().map(more).sum());
        self.stripes = allocator.stripes;
        let changed = fresh.iter().filter(|(_, before)| before.is_some());
        progress.phase("looking for changes", changed.map(|&(index, _)| size_of(&self.next[index])).sum());
        let_times_pass(fresh.iter().map(|&(index, _)| &self.next[index]));
        for &(index, before) in fresh {
            let count = blocks(&self.next[index]);
            let mut extents: Vec<Extent> = before.map(|i| extents_of(&old[i]).to_vec()).unwrap_or_default();
            let dropped = cut(&mut extents, count);
            let had: u64 = extents.iter().map(|extent| extent.count).sum();
            let crcs = match before {
                Some(_) if set.judge => {
                    report.source_bytes_read += size_of(&self.next[index]);
                    self.scanned.insert(index);
                    scan_file(set, &self.next[index], progress)?
                }
                _ => vec![Crc64(0); if set.manifest.checksums { count as usize } else { 0 }],
            };
            let old_crcs = before.map_or(&[][..], |i| crcs_of(&old[i]));
            let same = |block: u64| {
                block < had && set.judge && old_crcs.get(block as usize) == crcs.get(block as usize)
            };
            let mut slots = slots_of(&extents, 0);
            slots.retain(|slot| !same(slot.block));
            let added = allocator.take(count - had);
            slots.extend(slots_of(&added, had));
            slots.extend(slots_of(&dropped, count));
            added.into_iter().for_each(|extent| append(&mut extents, extent));
            let size = size_of(&self.next[index]);
            self.next[index].kind = EntryKind::File { size, extents, crcs };
            report.changed += u64::from(before.is_some());
            self.units.push(Unit { next: Some(index), old: before, slots });
        }
        Ok(())
    }

    /// Commits batch by batch.
    fn execute(
        &self,
        set: &mut Set<'_>,
        before: &Manifest,
        report: &mut SealReport,
        progress: &mut dyn Progress,
    ) -> Result<(), SealError> {
        let batches = self.batches(set);
        let bytes = |unit: &Unit| unit.slots.len() as u64 * set.manifest.block_len.bytes();
        progress.phase("sealing changes", self.units.iter().map(bytes).sum());
        let mut next = self.next.clone();
        let mut done = vec![false; self.units.len()];
        let last = batches.len() - 1;
        for (number, batch) in batches.iter().enumerate() {
            batch.iter().for_each(|&unit| done[unit] = true);
            let added = self.units.iter().zip(&done).any(|(unit, done)| *done && unit.next.is_some());
            let removing = number < last && !added;
            let (entries, origin) = self.entries_after(before, &next, &done, removing);
            let mut manifest = set.manifest.clone();
            manifest.entries = entries;
            let grows = batch.iter().any(|&unit| self.grows(unit, before.stripes));
            if grows {
                manifest.stripes = self.stripes;
            }
            manifest.generation.0 += 1;
            if batch.is_empty()
                && unchanged(&manifest, before)
                && set.manifest.generation == before.generation
            {
                return Ok(());
            }
            let mut slots: Vec<Slot> =
                batch.iter().flat_map(|&unit| self.units[unit].slots.clone()).collect();
            slots.sort_unstable_by_key(|slot| (slot.stripe, slot.lane));
            let scanned = (0..origin.len()).filter(|&i| origin[i].is_some_and(|n| self.scanned.contains(&n)));
            let commit = Commit { scanned: scanned.collect(), slots, reserve_stripes: self.stripes };
            let committed = commit.run(set, manifest, report, progress)?;
            // Checksums of new files are known only now.
            for (entry, origin) in committed.iter().zip(&origin) {
                if let Some(origin) = origin {
                    next[*origin] = entry.clone();
                }
            }
        }
        Ok(())
    }

    fn grows(&self, unit: usize, stripes: u64) -> bool {
        self.units[unit].slots.iter().any(|slot| slot.stripe >= stripes)
    }

    /// Units by batch: what needs new stripes, then the others, and what is gone last, so that a file that was renamed is
    /// in the set under one of its names at any time. What is gone but in the way of a new path goes first. At least
    /// one batch, for entries without content.
    fn batches(&self, set: &Set<'_>) -> Vec<Vec<usize>> {
        let all = 0..self.units.len();
        if set.manifest.mode == Mode::Beside {
            return vec![all.collect()];
        }
        let stripes = set.manifest.stripes;
        let block = set.manifest.block_len.bytes();
        let parity = set.geometry.cell_count() as u64 - set.geometry.lanes.len() as u64;
        let journal = |unit: &usize| {
            let old = self.units[*unit].slots.iter().filter(|slot| slot.stripe < stripes).count() as u64;
            old * block * (1 + parity)
        };
        let pack = |units: Vec<usize>, batches: &mut Vec<Vec<usize>>| {
            let (mut batch, mut bytes) = (Vec::new(), 0u64);
            for unit in units {
                if !batch.is_empty() && bytes.saturating_add(journal(&unit)) > JOURNAL_BYTES {
                    batches.push(std::mem::take(&mut batch));
                    bytes = 0;
                }
                bytes += journal(&unit);
                batch.push(unit);
            }
            if !batch.is_empty() {
                batches.push(batch);
            }
        };
        let (gone, rest): (Vec<usize>, Vec<usize>) = all.partition(|&unit| self.units[unit].next.is_none());
        let (growing, others): (Vec<usize>, Vec<usize>) =
            rest.into_iter().partition(|&unit| self.grows(unit, stripes));
        let (in_the_way, gone): (Vec<usize>, Vec<usize>) =
            gone.into_iter().partition(|&unit| self.is_in_the_way(&set.manifest, unit));
        let mut batches = Vec::new();
        pack(in_the_way, &mut batches);
        if !growing.is_empty() {
            batches.push(growing);
        }
        pack(others, &mut batches);
        pack(gone, &mut batches);
        if batches.is_empty() {
            batches.push(Vec::new());
        }
        batches
    }

    /// The entries once the units that are `done` are; for each the entry of the tree that it is.
    fn entries_after(
        &self,
        before: &Manifest,
        next: &[Entry],
        done: &[bool],
        removing: bool,
    ) -> (Vec<Entry>, Vec<Option<usize>>) {
        let is_done = |(_, done): &(&Unit, &bool)| **done;
        if removing {
            let gone: HashSet<usize> =
                self.units.iter().zip(done).filter(is_done).filter_map(|(unit, _)| unit.old).collect();
            let left = before.entries.iter().enumerate().filter(|(i, _)| !gone.contains(i));
            return left.map(|(_, entry)| (entry.clone(), None)).unzip();
        }
        let waiting: HashSet<usize> =
            self.units.iter().zip(done).filter(|u| !is_done(u)).filter_map(|(unit, _)| unit.next).collect();
        let entry =
            |(index, entry): (usize, &Entry)| match (waiting.contains(&index), self.replaces.get(&index)) {
                (false, _) => Some((entry.clone(), Some(index))),
                (true, Some(&old)) => Some((before.entries[old].clone(), None)),
                (true, None) => None,
            };
        let mut entries: Vec<(Entry, Option<usize>)> = next.iter().enumerate().filter_map(entry).collect();
        // What is gone keeps its name until its own batch, and so do the directories that it lies in.
        let gone = self.units.iter().zip(done).filter(|u| !is_done(u) && u.0.next.is_none());
        let kept: Vec<&Entry> =
            gone.filter_map(|(unit, _)| unit.old.map(|old| &before.entries[old])).collect();
        let known: HashSet<(u32, &[u8])> = next.iter().map(|e| (e.source, e.path.as_slice())).collect();
        let holds = |dir: &Entry| kept.iter().any(|e| e.source == dir.source && is_below(&e.path, &dir.path));
        let dirs = before.entries.iter().filter(|e| {
            matches!(e.kind, EntryKind::Dir) && !known.contains(&(e.source, e.path.as_slice())) && holds(e)
        });
        entries.extend(dirs.chain(kept.iter().copied()).map(|entry| (entry.clone(), None)));
        entries.into_iter().unzip()
    }

    /// Whether the path of a file that is gone is needed otherwise: for a directory, or below what is no directory now.
    fn is_in_the_way(&self, before: &Manifest, unit: usize) -> bool {
        let Some(old) = self.units[unit].old.map(|old| &before.entries[old]) else { return false };
        self.next.iter().any(|entry| {
            entry.source == old.source
                && (entry.path == old.path
                    || is_below(&entry.path, &old.path)
                    || (!matches!(entry.kind, EntryKind::Dir) && is_below(&old.path, &entry.path)))
        })
    }
}

/// Whether a path lies below a directory.
fn is_below(path: &[u8], dir: &[u8]) -> bool {
    path.len() > dir.len() && path.starts_with(dir) && path[dir.len()] == b'/'
}

/// Whether two manifests say the same of the tree.
fn unchanged(a: &Manifest, b: &Manifest) -> bool {
    a.entries == b.entries && a.sources == b.sources
}

fn size_of(entry: &Entry) -> u64 {
    if let EntryKind::File { size, .. } = entry.kind { size } else { 0 }
}

fn extents_of(entry: &Entry) -> &[Extent] {
    if let EntryKind::File { extents, .. } = &entry.kind { extents } else { &[] }
}

fn crcs_of(entry: &Entry) -> &[Crc64] {
    if let EntryKind::File { crcs, .. } = &entry.kind { crcs } else { &[] }
}

/// The blocks of extents, the first of which is block `first` of the file.
fn slots_of(extents: &[Extent], first: u64) -> Vec<Slot> {
    let places =
        extents.iter().flat_map(|x| (x.first.0..x.first.0 + x.count).map(|stripe| (stripe, x.lane.0)));
    places.zip(first..).map(|((stripe, lane), block)| Slot { stripe, lane, block }).collect()
}

/// Cuts extents to so many blocks; what was cut off.
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

/// Adds an extent, joined to the last one if they touch.
fn append(extents: &mut Vec<Extent>, new: Extent) {
    match extents.last_mut() {
        Some(last) if last.lane == new.lane && last.first.0 + last.count == new.first.0 => {
            last.count += new.count
        }
        _ => extents.push(new),
    }
}

/// The checksums of a file's blocks as it is now.
fn scan_file(set: &Set<'_>, entry: &Entry, progress: &mut dyn Progress) -> Result<Vec<Crc64>, SealError> {
    let path = join(&set.sources[entry.source as usize], &entry.path);
    let block = set.geometry.block();
    let count = set.manifest.block_len.blocks(size_of(entry));
    let step = (SCAN_BYTES / block).max(1) as u64;
    let mut bytes = vec![0; step as usize * block];
    let mut crcs = Vec::with_capacity(count as usize);
    let mut at = 0;
    while at < count {
        if progress.cancelled() {
            return Err(SealError::Cancelled);
        }
        let here = step.min(count - at);
        let bytes = &mut bytes[..here as usize * block];
        read_file_blocks(set.world.disk, &path, entry, block, at, bytes)
            .map_err(|e| SealError::io("reading", &path, e))?;
        crcs.extend(bytes.chunks_exact(block).map(Crc64::of));
        progress.advance(bytes.len() as u64);
        at += here;
    }
    Ok(crcs)
}

/// The grid of a manifest.
pub(crate) fn grid_of(manifest: &Manifest) -> Grid {
    Grid::new(manifest.lanes as usize, &manifest.entries)
}
