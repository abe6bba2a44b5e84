//! Detects files that change while they are read.
//!
//! A store into a mapped page that is already dirty does not change the mtime. So the pages of
//! recently changed files are written back before they are read: the system then write-protects
//! them, and the next store changes the mtime. After the reading each file must be as it was
//! listed.

use crate::disk::exact_now;
use crate::set::names::shown_path;
use crate::{Fault, World, par};
use pantile_format::{Entry, EntryKind, Timestamp};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Seconds after its last change during which a file may have dirty pages. It is twenty times 30 s,
/// after which Linux writes dirty pages back (`vm.dirty_expire_centisecs`).
const RECENT_SECONDS: i64 = 600;

/// Up to this many files are written back one by one; more files, by writing back their file
/// systems.
const FEW: usize = 32;

/// The most paths that a report lists.
const SHOWN_MOST: usize = 100;

/// The files that are read, and their state when they were listed.
#[derive(Clone, Copy)]
pub(crate) struct Listed<'l> {
    /// Entries of the tree.
    pub(crate) files: &'l [usize],
    /// The ctime of each entry when it was listed.
    pub(crate) seen: &'l [Timestamp],
}

impl Listed<'static> {
    pub(crate) const NONE: Listed<'static> = Listed { files: &[], seen: &[] };
}

/// Writes back the pending pages of recently changed files.
///
/// Files that were not changed recently cost no system call. Call it at least one tick of the clock
/// after the last change.
pub(crate) fn write_back(world: World<'_>, listed: Listed<'_>, paths: &[PathBuf]) -> Result<(), Fault> {
    let since = exact_now().seconds - RECENT_SECONDS;
    // A time in the future does not reveal the age of the change.
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

/// Writes back the file systems of some files; false if one of them refuses.
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

/// Marks the files that differ from their listed state. The next seal then reads them again, and no
/// command counts their present content as damage. Returns the first paths.
///
/// A changed ctime counts as a difference too, since a program can set the mtime back.
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

/// Returns the time one nanosecond before another. No file system truncates the later time to it.
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
