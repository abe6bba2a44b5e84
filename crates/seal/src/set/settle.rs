//! Files that change while they are read.
//!
//! A store into a mapped page that is dirty already sets no time. So the pages of files that were
//! changed recently are written back before they are read: the system then protects them, and the
//! next store sets a time. After the reading each file must be as it was listed.

use crate::disk::exact_now;
use crate::set::names::shown_path;
use crate::{Fault, World, par};
use pantile_format::{Entry, EntryKind, Timestamp};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Seconds after its last change in which a file can have dirty pages: twenty times 30 s, after
/// which Linux writes dirty pages back (`vm.dirty_expire_centisecs`).
const RECENT_SECONDS: i64 = 600;

/// Up to so many files are written back one by one, more by file system.
const FEW: usize = 32;

/// The most paths that a report lists.
const SHOWN_MOST: usize = 100;

/// Files that are read, and how they were listed.
#[derive(Clone, Copy)]
pub(crate) struct Listed<'l> {
    /// Entries of the tree.
    pub(crate) files: &'l [usize],
    /// Time of the last change of each entry, when it was listed.
    pub(crate) seen: &'l [Timestamp],
}

impl Listed<'static> {
    pub(crate) const NONE: Listed<'static> = Listed { files: &[], seen: &[] };
}

/// Writes the pending pages of recently changed files back.
///
/// Other files cost no system call. Call it one tick of the clock after the last change.
pub(crate) fn write_back(world: World<'_>, listed: Listed<'_>, paths: &[PathBuf]) -> Result<(), Fault> {
    let since = exact_now().seconds - RECENT_SECONDS;
    // A time in the future says nothing of the age.
    let is_recent = |index: &&usize| listed.seen[**index].seconds >= since;
    let recent: Vec<&Path> =
        listed.files.iter().filter(is_recent).map(|&index| paths[index].as_path()).collect();
    if recent.len() > FEW && write_systems_back(world, &recent) {
        return Ok(());
    }
    par::for_each(world.threads, recent, |path| {
        let file = world.disk.open(path).map_err(|e| Fault::source("reading", path, e))?;
        file.write_back().map_err(|e| Fault::source("writing back", path, e))
    })
}

/// Writes the file systems of some files back; false if one refuses.
fn write_systems_back(world: World<'_>, files: &[&Path]) -> bool {
    let mut devices: HashMap<u64, &Path> = HashMap::new();
    let mut last = None;
    for file in files {
        let Some(dir) = file.parent().filter(|dir| last != Some(*dir)) else { continue };
        last = Some(dir);
        match world.disk.meta(dir) {
            Ok(meta) => devices.entry(meta.id.device).or_insert(dir),
            Err(_) => return false,
        };
    }
    let sync = |dir: &&Path| world.disk.open_system(dir).and_then(|system| system.sync()).is_ok();
    devices.values().all(sync)
}

/// Marks the files that are not as they were listed, so that the next seal reads them again and no
/// command takes their present content for damage; returns the first paths.
///
/// A changed time of change counts as well: a program can set the time of modification back.
pub(crate) fn mark_changed(
    world: World<'_>,
    listed: Listed<'_>,
    paths: &[PathBuf],
    entries: &mut [Entry],
) -> Vec<String> {
    let mut changed = Vec::new();
    for &index in listed.files {
        let entry = &mut entries[index];
        let EntryKind::File { size, .. } = entry.kind else { continue };
        let now = world.disk.meta(&paths[index]);
        let is_as_listed = |now: &crate::disk::Meta| {
            (now.size, now.mtime, now.ctime) == (size, entry.mtime, listed.seen[index])
        };
        if now.as_ref().is_ok_and(is_as_listed) {
            continue;
        }
        entry.fields.set_unsettled();
        entry.mtime = just_before(entry.mtime);
        if changed.len() < SHOWN_MOST {
            changed.push(shown_path(&paths[index]));
        }
    }
    changed
}

/// The time one nanosecond before another: no file system cuts the later one to it.
fn just_before(time: Timestamp) -> Timestamp {
    match time.nanos {
        0 => Timestamp { seconds: time.seconds.saturating_sub(1), nanos: 999_999_999 },
        nanos => Timestamp { nanos: nanos - 1, ..time },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::times::is_same_time;

    #[test]
    fn the_time_of_a_marked_file_is_that_of_no_listed_one() {
        for (seconds, nanos) in [(1_700_000_000, 0), (1_700_000_001, 123_456_789), (0, 0), (-1, 1)] {
            let listed = Timestamp { seconds, nanos };
            assert!(!is_same_time(just_before(listed), listed), "{listed:?}");
        }
    }
}
