//! Originals that `heal` was asked to restore and that are still missing. `seal` does not forget
//! them.
//!
//! `NAME.unhealed` beside the shards is a text: the set's UUID and generation in the first line,
//! then the number of an entry of the manifest in each line. It is written before the first
//! original is restored, and removed when none is missing. A seal makes another generation, for
//! which it says nothing.

use crate::disk::{Access, Disk};
use crate::set::Set;
use crate::set::names::{Names, temp};
use pantile_format::EntryKind;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

/// The most bytes of the file that are read: two million entries.
const BYTES_MOST: u64 = 16 << 20;

/// Records these entries and those that are recorded, as far as they are missing now. Best effort:
/// without the record a seal knows only what `--removed-max` permits.
pub(crate) fn record(set: &Set<'_>, more: &[usize]) {
    if !set.places.are_known() {
        return;
    }
    let mut all = recorded(set);
    all.extend(more);
    all.retain(|&entry| {
        let is_file = matches!(set.manifest.entries[entry].kind, EntryKind::File { .. });
        let there = set.world.disk.meta(&set.original_path(entry));
        is_file && there.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    });
    let mut text = head(set);
    for entry in &all {
        let _ = writeln!(text, "{entry}");
    }
    for path in paths(set) {
        let _ = match all.is_empty() {
            true => set.world.disk.remove(&path),
            false => write(set.world.disk, &path, &text),
        };
    }
}

/// Returns the entries that are recorded for this state of the set.
pub(crate) fn recorded(set: &Set<'_>) -> BTreeSet<usize> {
    let read = |path: &Path| {
        let file = set.world.disk.open(path).ok()?;
        let mut bytes = vec![0; usize::try_from(file.meta().ok()?.size.min(BYTES_MOST)).ok()?];
        let len = file.read_at(&mut bytes, 0).ok()?;
        let text = std::str::from_utf8(&bytes[..len]).ok()?.strip_prefix(&head(set))?;
        let entries = text.lines().filter_map(|line| line.parse::<usize>().ok());
        Some(entries.filter(|&entry| entry < set.manifest.entries.len()).collect::<Vec<usize>>())
    };
    paths(set).iter().filter_map(|path| read(path)).flatten().collect()
}

fn head(set: &Set<'_>) -> String {
    format!("{} {}\n", set.manifest.set, set.manifest.generation.0)
}

/// Returns a path in each directory of shards.
fn paths(set: &Set<'_>) -> Vec<PathBuf> {
    let names = |dir| Names::new(dir, set.names.name.clone(), set.names.columns);
    set.shard_dirs().into_iter().map(|dir| names(dir).unhealed()).collect()
}

fn write(disk: &dyn Disk, path: &Path, text: &str) -> io::Result<()> {
    disk.root(&crate::set::names::parent(path), Access::Write)?;
    let file = disk.create(&temp(path))?;
    let named =
        file.write_at(text.as_bytes(), 0).and_then(|_| file.sync()).and_then(|()| file.give_name(path));
    if named.is_err() {
        let _ = file.discard();
    }
    named
}
