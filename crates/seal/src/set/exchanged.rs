//! Disks of a set at each other's places, as after an exchange of mount points.
//!
//! Such disks look damaged: `heal` would copy each to the other, and `seal` would forget both.

use crate::Fault;
use crate::disk::MetaKind;
use crate::set::times::is_same_time;
use crate::set::window::join;
use crate::set::{Places, Set};
use pantile_format::{Entry, EntryKind, Mode};
use std::path::{Path, PathBuf};

/// The most files of a disk that are looked for.
const FILES_MOST: usize = 64;

impl Set<'_> {
    /// Refuses disks of which most files are at the place of another one, where the other one's
    /// files are elsewhere too. `proposed` returns the command with these options.
    pub(crate) fn refuse_exchanged(
        &self,
        places: &[PathBuf],
        proposed: impl Fn(&str) -> String,
    ) -> Result<(), Fault> {
        if self.manifest.mode != Mode::Beside {
            return Ok(());
        }
        let now: Vec<usize> = (0..places.len()).map(|index| self.place_of(index, places)).collect();
        let mut taken = now.clone();
        taken.sort_unstable();
        taken.dedup();
        let Some(first) = (0..now.len()).find(|&index| now[index] != index) else { return Ok(()) };
        // Two disks cannot have one place.
        if taken.len() < now.len() {
            return Ok(());
        }
        let is_named = |index: &usize| now[*index] != *index || self.places != Places::Recorded;
        let option = |index: usize| self.disk_option(index, &places[now[index]]);
        let options: String = (0..now.len()).filter(is_named).map(option).collect();
        let [name, other] = [first, now[first]].map(|index| self.disk_names()[index].clone());
        let what = format!(
            "disks exchanged their mount points: the files of disk {name} are in {}, the place of disk {other}; nothing was \
             judged and nothing written",
            places[now[first]].display()
        );
        let hint = format!("if that is so for good, run '{}', which is remembered", proposed(&options));
        Err(Fault::request(what).at(&places[first]).hint(hint))
    }

    /// Returns the index of the place that has most files of a source, by their paths, sizes and
    /// times; its own if there is none.
    fn place_of(&self, index: usize, places: &[PathBuf]) -> usize {
        let is_own = |entry: &&Entry| {
            let is_file = matches!(entry.kind, EntryKind::File { size, .. } if size > 0);
            entry.source as usize == index && is_file && !entry.path.is_empty()
        };
        let files: Vec<&Entry> = self.manifest.entries.iter().filter(is_own).collect();
        let step = files.len().div_ceil(FILES_MOST).max(1);
        let picked: Vec<&Entry> = files.into_iter().step_by(step).collect();
        let is_there = |place: &Path, entry: &Entry| {
            let EntryKind::File { size, .. } = entry.kind else { return false };
            self.world.disk.meta(&join(place, &entry.path)).is_ok_and(|there| {
                there.kind == MetaKind::File && there.size == size && is_same_time(entry.mtime, there.mtime)
            })
        };
        let has_most = |at: &usize| {
            picked.iter().filter(|entry| is_there(&places[*at], entry)).count() * 2 > picked.len()
        };
        let others = (0..places.len()).filter(|at| *at != index);
        [index].into_iter().chain(others).find(has_most).unwrap_or(index)
    }
}
