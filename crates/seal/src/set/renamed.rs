//! Renamed originals, and copies of lost originals.
//!
//! A file holds a lost original if its path was not sealed, it has the sealed size, and every block
//! has the sealed checksum and fits the pin. Without checksums no such file is recognised. The file
//! is read instead of the original. It counts as the *renamed* original only if a copy cannot look
//! the same:
//!
//! * The disk is alive: the file is in the same source, or another file of the original's source is
//!   still at its place.
//! * Its directory exists, or was renamed as a whole: then all its files are in one directory of
//!   the same source, each under its own name.
//! * The match is unique: no other lost original has this content, and no other new file has it.
//!
//! Otherwise the original is lost, and heal restores it. That costs the space of a file, while a
//! copy that counted as a rename would leave the original lost.

use crate::Fault;
use crate::disk::MetaKind;
use crate::options::Progress;
use crate::report::FileStatus;
use crate::set::names::parent;
use crate::set::verify::tree_now;
use crate::set::window::{join, read_source};
use crate::set::{Original, Set};
use pantile_format::{Crc64, Entry, EntryKind, Mode};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 1 << 20;

/// A file at a path that was not sealed.
struct Candidate {
    source: u32,
    path: PathBuf,
    size: u64,
}

/// Finds files that hold lost originals, reads them instead of these, and reports renames.
///
/// Cost: reads the files whose paths were not sealed, if a lost original has their size and their
/// first blocks.
pub(crate) fn find_renamed(set: &mut Set<'_>, progress: &mut dyn Progress) -> Result<(), Fault> {
    if set.manifest.mode != Mode::Beside || !set.judge {
        return Ok(());
    }
    // Lost originals by content and size. Only the names distinguish originals with one content.
    let mut by_content: HashMap<(u64, &[Crc64]), Vec<usize>> = HashMap::new();
    for index in 0..set.manifest.entries.len() {
        let EntryKind::File { size, .. } = set.manifest.entries[index].kind else { continue };
        if size > 0 && is_missing(set, index) && !set.read_by.contains_key(&index) {
            by_content.entry((size, crcs(set, index))).or_default().push(index);
        }
    }
    let mut missing: HashMap<u64, Vec<Vec<usize>>> = HashMap::new();
    for ((size, _), of) in by_content {
        missing.entry(size).or_default().push(of);
    }
    if missing.is_empty() {
        return Ok(());
    }
    missing.values_mut().for_each(|contents| contents.sort_unstable());
    let alive = sources_alive(set);
    let candidates = candidates(set, &missing);
    progress.phase("looking for renamed files", candidates.iter().map(|candidate| candidate.size).sum());
    let mut found: HashMap<usize, Vec<Candidate>> = HashMap::new();
    for candidate in candidates {
        let Some(contents) = missing.get(&candidate.size) else { continue };
        let firsts: Vec<usize> = contents.iter().map(|of| of[0]).collect();
        if let Some(at) = holds_one_of(set, &candidate.path, &firsts, progress)?
            && fits_pin(set, firsts[at], &candidate.path, progress)?
        {
            found.entry(firsts[at]).or_default().push(candidate);
        }
    }
    let of_content: HashMap<usize, &[usize]> =
        missing.values().flatten().map(|of| (of[0], of.as_slice())).collect();
    let mut pairs = pair(set, &of_content, &found);
    pairs.retain(|&index, became| {
        let source = set.manifest.entries[index].source;
        became.source == source || alive.contains(&source)
    });
    for (first, copies) in &found {
        for &index in of_content[first] {
            let (path, status) = match pairs.get(&index) {
                Some(candidate) => (candidate.path.clone(), FileStatus::Renamed),
                None => (copies[0].path.clone(), FileStatus::Missing),
            };
            set.originals[index] = Some(Original { path, status });
        }
    }
    Ok(())
}

fn is_missing(set: &Set<'_>, index: usize) -> bool {
    matches!(&set.originals[index], Some(original) if original.status == FileStatus::Missing)
}

/// Returns the checksums of a file's blocks.
fn crcs<'s>(set: &'s Set<'_>, index: usize) -> &'s [Crc64] {
    match &set.manifest.entries[index].kind {
        EntryKind::File { crcs, .. } => crcs.as_slice(),
        _ => &[],
    }
}

/// Returns for each lost original the new file that it may have become, as far as names determine
/// it.
fn pair<'c>(
    set: &Set<'_>,
    of_content: &HashMap<usize, &[usize]>,
    found: &'c HashMap<usize, Vec<Candidate>>,
) -> HashMap<usize, &'c Candidate> {
    let mut pairs: HashMap<usize, &Candidate> = HashMap::new();
    // By lost directory: its lost files.
    let mut gone: HashMap<PathBuf, Vec<usize>> = HashMap::new();
    for (first, copies) in found {
        for &index in of_content[first] {
            let dir = parent(&set.original_path(index));
            let is_alive = set.world.disk.meta(&dir).is_ok_and(|meta| meta.kind == MetaKind::Dir);
            match (is_alive, of_content[first], copies.as_slice()) {
                (true, [_], [alone]) => drop(pairs.insert(index, alone)),
                (true, ..) => {}
                (false, ..) => gone.entry(dir).or_default().push(index),
            }
        }
    }
    let mut files: HashMap<PathBuf, usize> = HashMap::new();
    for (index, entry) in set.manifest.entries.iter().enumerate().filter(|_| !gone.is_empty()) {
        if matches!(entry.kind, EntryKind::File { size, .. } if size > 0) {
            *files.entry(parent(&set.original_path(index))).or_default() += 1;
        }
    }
    let first_of: HashMap<usize, usize> =
        of_content.iter().flat_map(|(&first, of)| of.iter().map(move |&index| (index, first))).collect();
    for (dir, lost) in gone {
        if files.get(&dir) != Some(&lost.len()) {
            continue;
        }
        // Returns the copies of a file that have its name and are in its source, by their
        // directory.
        let copies = |index: usize| {
            let (source, path) = (set.manifest.entries[index].source, set.original_path(index));
            let is_so = move |candidate: &&Candidate| {
                candidate.source == source && candidate.path.file_name() == path.file_name()
            };
            found[&first_of[&index]].iter().filter(is_so)
        };
        let in_dir = |to: &Path| -> Option<Vec<(usize, &Candidate)>> {
            let of = |&index: &usize| Some((index, copies(index).find(|copy| parent(&copy.path) == *to)?));
            lost.iter().map(of).collect()
        };
        let dirs: HashSet<PathBuf> = copies(lost[0]).map(|copy| parent(&copy.path)).collect();
        let mut whole = dirs.iter().filter_map(|to| in_dir(to));
        if let (Some(renamed), None) = (whole.next(), whole.next()) {
            pairs.extend(renamed);
        }
    }
    pairs
}

/// Returns the sources that still have a file at its place.
fn sources_alive(set: &Set<'_>) -> HashSet<u32> {
    let is_there = |(entry, original): &(&Entry, &Option<Original>)| {
        matches!(entry.kind, EntryKind::File { .. })
            && original.as_ref().is_some_and(|original| original.status != FileStatus::Missing)
    };
    let there = set.manifest.entries.iter().zip(&set.originals).filter(is_there);
    there.map(|(entry, _)| entry.source).collect()
}

/// Returns the files at paths that were not sealed, if a missing file has their size.
fn candidates(set: &Set<'_>, missing: &HashMap<u64, Vec<Vec<usize>>>) -> Vec<Candidate> {
    let Some(tree) = tree_now(set) else { return Vec::new() };
    let known: HashSet<(u32, &[u8])> =
        set.manifest.entries.iter().map(|entry| (entry.source, entry.path.as_slice())).collect();
    let candidate = |entry: &Entry| match entry.kind {
        EntryKind::File { size, .. } if missing.contains_key(&size) => {
            let is_new = !known.contains(&(entry.source, entry.path.as_slice()));
            let path = join(&set.sources[entry.source as usize], &entry.path);
            is_new.then_some(Candidate { source: entry.source, path, size })
        }
        _ => None,
    };
    tree.entries.iter().filter_map(candidate).collect()
}

/// True if every block of a file fits the pin of an entry, or there is no pin.
fn fits_pin(set: &Set<'_>, entry: usize, path: &Path, progress: &mut dyn Progress) -> Result<bool, Fault> {
    let Some(pin) = &set.pin else { return Ok(true) };
    let entry = &set.manifest.entries[entry];
    let EntryKind::File { extents, .. } = &entry.kind else { return Ok(false) };
    let block = set.geometry.block();
    let step = (PIECE_BYTES / block).max(1) as u64;
    let mut bytes = vec![0; step as usize * block];
    let mut first_block = 0;
    for extent in extents {
        let cell = set.geometry.lanes[extent.lane.0 as usize];
        let end = extent.first.0 + extent.count;
        let mut at = extent.first.0;
        while at < end {
            if progress.cancelled() {
                return Err(Fault::cancelled());
            }
            let here = step.min(end - at);
            let bytes = &mut bytes[..here as usize * block];
            let read = read_source(set, path, entry, first_block, bytes);
            let is_whole = read.is_ok_and(|read| read.whole);
            if !is_whole || !pin.fits(cell, at..at + here, bytes).into_iter().all(|fits| fits) {
                return Ok(false);
            }
            at += here;
            first_block += here;
        }
    }
    Ok(true)
}

/// Returns the index in `entries` of one whose content is that of a file, block by block.
fn holds_one_of(
    set: &Set<'_>,
    path: &Path,
    entries: &[usize],
    progress: &mut dyn Progress,
) -> Result<Option<usize>, Fault> {
    let crcs = |index: usize| crcs(set, index);
    let mut left: Vec<usize> = (0..entries.len()).collect();
    let Some(&first) = entries.first() else { return Ok(None) };
    let (blocks, block) = (crcs(first).len(), set.geometry.block());
    let step = (PIECE_BYTES / block).max(1);
    let mut bytes = vec![0; step * block];
    let mut at = 0;
    while at < blocks && !left.is_empty() {
        if progress.cancelled() {
            return Err(Fault::cancelled());
        }
        let here = step.min(blocks - at);
        let bytes = &mut bytes[..here * block];
        // An unreadable file is not recognised.
        let read = read_source(set, path, &set.manifest.entries[first], at as u64, bytes);
        if !read.is_ok_and(|read| read.whole) {
            return Ok(None);
        }
        let found: Vec<Crc64> = bytes.chunks_exact(block).map(Crc64::of).collect();
        left.retain(|&i| crcs(entries[i])[at..].starts_with(&found));
        progress.advance(bytes.len() as u64);
        at += here;
    }
    Ok(left.first().copied())
}
