//! Originals that have another name now: their content is there, so they are not lost.
//!
//! A file is recognised as `seal` recognises it: nothing lies at its path, a path that was not
//! sealed holds a file of its size, and every block of that has the checksum that was sealed, and
//! fits the pin that the set is held against. Without checksums nothing tells, and nothing is
//! recognised. Nor is what another user may have put there than whoever owns the directory that the
//! original was in: a checksum is met by whoever knows the content.

use crate::SealError;
use crate::names::parent;
use crate::options::Progress;
use crate::report::FileStatus;
use crate::set::{Original, Set, put_by};
use crate::tree::Way;
use crate::verify::tree_now;
use crate::window::{join, read_source};
use pantile_format::{Crc64, Entry, EntryKind, Mode};
use pantile_trust::Caller;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Read at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Finds the originals that were renamed and lets them be read at their new paths.
///
/// Reads the files of paths that were not sealed, as far as a missing file has their size and their
/// start.
pub(crate) fn find_renamed(set: &mut Set<'_>, progress: &mut dyn Progress) -> Result<(), SealError> {
    if set.manifest.mode != Mode::Beside || !set.judge {
        return Ok(());
    }
    let mut missing: HashMap<u64, Vec<usize>> = HashMap::new();
    for (index, entry) in set.manifest.entries.iter().enumerate() {
        let is_missing =
            matches!(&set.originals[index], Some(original) if original.status == FileStatus::Missing);
        match entry.kind {
            EntryKind::File { size, .. } if is_missing && size > 0 => {
                missing.entry(size).or_default().push(index)
            }
            _ => {}
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let candidates = candidates(set, &missing);
    progress.phase("looking for renamed files", candidates.iter().map(|(_, size)| size).sum());
    let mut owners = Owners::default();
    for (path, size) in candidates {
        let Some(same_size) = missing.get_mut(&size) else { continue };
        // Asked before it is read: who has a file of hers read that holds a guess sees how far.
        let putter = putter(set, &path);
        let is_of_whom_it_was = |index: &usize| match putter {
            Putter::Trusted => true,
            Putter::Alone(user) => owners.of(set, *index) == Some(user),
            Putter::Unknown => false,
        };
        let may_be: Vec<usize> = same_size.iter().copied().filter(is_of_whom_it_was).collect();
        if let Some(at) = holds_one_of(set, &path, &may_be, progress)?
            && fits_pin(set, may_be[at], &path, progress)?
        {
            let index = may_be[at];
            same_size.retain(|&other| other != index);
            set.originals[index] = Some(Original { path, status: FileStatus::Renamed });
        }
    }
    Ok(())
}

/// Files at paths that were not sealed, of the size of one that is missing.
fn candidates(set: &Set<'_>, missing: &HashMap<u64, Vec<usize>>) -> Vec<(PathBuf, u64)> {
    let Some(tree) = tree_now(set) else { return Vec::new() };
    let known: HashSet<(u32, &[u8])> =
        set.manifest.entries.iter().map(|entry| (entry.source, entry.path.as_slice())).collect();
    let candidate = |entry: &Entry| match entry.kind {
        EntryKind::File { size, .. } if missing.contains_key(&size) => {
            let is_new = !known.contains(&(entry.source, entry.path.as_slice()));
            is_new.then(|| (join(&set.sources[entry.source as usize], &entry.path), size))
        }
        _ => None,
    };
    tree.entries.iter().filter_map(candidate).collect()
}

/// Who can have put a file where it is.
enum Putter {
    /// Nobody but whom the caller trusts.
    Trusted,
    /// This user, and nobody else but those.
    Alone(u32),
    Unknown,
}

fn putter(set: &Set<'_>, path: &Path) -> Putter {
    let (disk, caller) = (set.world.disk, Caller::or_by_sudo());
    let Ok(found) = disk.meta(path) else { return Putter::Unknown };
    let putter = put_by(disk, &caller, &found, &parent(path));
    let is_at_home = || disk.above(&parent(path)).is_ok_and(|above| caller.is_at_home(&found, &above));
    match caller.trusts(putter) {
        true => Putter::Trusted,
        false if is_at_home() => Putter::Alone(putter),
        false => Putter::Unknown,
    }
}

/// Whose the directories are in which originals were sealed, by path; none of one that is not there
/// any more, or has another in its place: nothing tells whose that was.
#[derive(Default)]
struct Owners(HashMap<PathBuf, Option<u32>>);

impl Owners {
    fn of(&mut self, set: &Set<'_>, entry: usize) -> Option<u32> {
        let dir = parent(&set.original_path(entry));
        *self.0.entry(dir).or_insert_with_key(|dir| {
            let was_in = set.world.disk.meta(dir).ok()?;
            let way = set.ways([entry].into_iter()).pop().map_or(Way::Unknown, |(_, way)| way);
            set.was_sealed_in(way, was_in.id).then_some(was_in.owner)
        })
    }
}

/// Whether every block of a file is what the pin says of an entry; without a pin it is.
fn fits_pin(
    set: &Set<'_>,
    entry: usize,
    path: &Path,
    progress: &mut dyn Progress,
) -> Result<bool, SealError> {
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
                return Err(SealError::Cancelled);
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

/// Which of these entries a file holds, every block of it.
fn holds_one_of(
    set: &Set<'_>,
    path: &Path,
    entries: &[usize],
    progress: &mut dyn Progress,
) -> Result<Option<usize>, SealError> {
    let crcs = |index: usize| match &set.manifest.entries[index].kind {
        EntryKind::File { crcs, .. } => crcs.as_slice(),
        _ => &[],
    };
    let mut left: Vec<usize> = (0..entries.len()).collect();
    let Some(&first) = entries.first() else { return Ok(None) };
    let (blocks, block) = (crcs(first).len(), set.geometry.block());
    let step = (PIECE_BYTES / block).max(1);
    let mut bytes = vec![0; step * block];
    let mut at = 0;
    while at < blocks && !left.is_empty() {
        if progress.cancelled() {
            return Err(SealError::Cancelled);
        }
        let here = step.min(blocks - at);
        let bytes = &mut bytes[..here * block];
        // What cannot be read is not recognised.
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
