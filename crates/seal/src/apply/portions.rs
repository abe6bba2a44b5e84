//! A change in several commits, if no disk has room for the journal of the whole change.
//!
//! Each commit has some of the files: first those that are gone, in the old tree; then the new tree,
//! at first without some of its new files. Files that are gone or changed and have blocks of the
//! same stripes are in one commit: what one of them had there is needed to compute parity without
//! the other, and is no longer there.
//!
//! After a kill between two commits the set has each file either as it was sealed before or as it is
//! now, and the next seal continues.

use crate::apply::commit::{Commit, Slot, parities, place_journal};
use crate::options::Progress;
use crate::report::SealReport;
use crate::set::Set;
use crate::set::settle::Listed;
use crate::update::Part;
use crate::{Fault, FaultKind};
use pantile_format::{Entry, EntryKind, Manifest, Mode, Timestamp};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;

/// A change of the tree of a set.
pub(crate) struct Change<'p> {
    /// Entries of the new tree.
    pub(crate) next: &'p [Entry],
    /// The files whose content changes.
    pub(crate) parts: &'p [Part],
    /// Ascending by stripe and lane.
    pub(crate) slots: &'p [Slot],
    /// The files of the new tree whose content is read.
    pub(crate) read: Listed<'p>,
    /// When the tree was examined.
    pub(crate) began: Timestamp,
}

impl Change<'_> {
    /// Brings the set to the state of the manifest, by one commit if there is room for its journal.
    ///
    /// Errors: as [`Commit::run`]; if there were commits before, their changes stay.
    pub(crate) fn run(
        &self,
        set: &mut Set<'_>,
        manifest: Manifest,
        report: &mut SealReport,
        progress: &mut dyn Progress,
    ) -> Result<(), Fault> {
        let whole = Commit {
            slots: self.slots,
            reserve_stripes: manifest.stripes,
            began: self.began,
            read: self.read,
            wider: None,
        };
        let full = match whole.place_journal(set, &manifest) {
            Err(fault) if matches!(fault.kind, FaultKind::Full) => fault,
            _ => return whole.run(set, manifest, report, progress),
        };
        let (portions, turn) = self.portions(set, &manifest).ok_or(full)?;
        let last = portions.iter().copied().max().unwrap_or(0);
        let mut next = self.next.to_vec();
        let old = set.manifest.entries.clone();
        for portion in 0..=last {
            self.seal_portion(
                set,
                &manifest,
                (&old, &mut next),
                (&portions, portion, turn..last + 1),
                report,
                progress,
            )
            .map_err(|fault| match fault.kind {
                FaultKind::Full if portion > 0 => {
                    fault.hint("free some and seal again: a part of the changes is sealed")
                }
                _ => fault,
            })?;
        }
        Ok(())
    }

    /// Returns for each part the number of its commit, and the number of the first commit of the new
    /// tree; `None` if some commit lacks room.
    fn portions(&self, set: &Set<'_>, manifest: &Manifest) -> Option<(Vec<usize>, usize)> {
        let old_stripes = set.manifest.stripes;
        let block = manifest.block_len.bytes();
        let in_full = u64::from(manifest.mode == Mode::Full);
        let mut need = vec![0; self.parts.len()];
        // By part: the first part of its group, which is in one commit.
        let mut first: Vec<usize> = (0..self.parts.len()).collect();
        let mut is_appended = vec![false; self.parts.len()];
        for slots in self.slots.chunk_by(|a, b| a.stripe == b.stripe) {
            let here: BTreeSet<usize> = slots.iter().map(|slot| slot.part as usize).collect();
            if slots[0].stripe >= old_stripes {
                here.iter().for_each(|&part| is_appended[part] = true);
                continue;
            }
            let data = slots.iter().filter(|slot| self.parts[slot.part as usize].new.is_some());
            data.for_each(|slot| need[slot.part as usize] += in_full * block);
            let (had, new): (Vec<usize>, Vec<usize>) =
                here.into_iter().partition(|&part| self.parts[part].old.is_some());
            // Parity is written once for those that are in one commit.
            let apart = had.first().into_iter().chain(&new);
            apart.for_each(|&part| need[part] += parities(&set.geometry) * block);
            for pair in had.windows(2) {
                let [a, b] = [group(&first, pair[0]), group(&first, pair[1])];
                first[a.max(b)] = a.min(b);
            }
        }
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for part in 0..self.parts.len() {
            groups.entry(group(&first, part)).or_default().push(part);
        }
        let is_gone = |part: &usize| self.parts[*part].new.is_none();
        let is_new = |part: &usize| self.parts[*part].old.is_none() && !is_appended[*part];
        let (gone, rest): (Vec<_>, Vec<_>) =
            groups.into_values().partition(|group| group.iter().all(is_gone));
        let (new, rest): (Vec<_>, Vec<_>) = rest.into_iter().partition(|group| group.iter().all(is_new));
        let needs = |group: &Vec<usize>| group.iter().map(|&part| need[part]).sum::<u64>();
        let turns_at = gone.len();
        let units: Vec<Vec<usize>> = gone.into_iter().chain([rest.concat()]).chain(new).collect();
        let fits = |bytes: u64| place_journal(set, manifest, bytes).is_ok();
        let mut most = units.iter().map(needs).max().filter(|&least| fits(least))?.max(block);
        let all: u64 = units.iter().map(needs).sum();
        while most < all && fits(2 * most) {
            most *= 2;
        }
        let mut portions = vec![0; self.parts.len()];
        let (mut portion, mut sum, mut turn) = (0, 0, 0);
        for (at, unit) in units.iter().enumerate() {
            sum += needs(unit);
            if sum > most {
                (portion, sum) = (portion + 1, needs(unit));
            }
            turn = if at == turns_at { portion } else { turn };
            unit.iter().for_each(|&part| portions[part] = portion);
        }
        Some((portions, turn))
    }

    /// Seals the files of one portion. `next` gets the checksums of what was read.
    fn seal_portion(
        &self,
        set: &mut Set<'_>,
        manifest: &Manifest,
        (old, next): (&[Entry], &mut [Entry]),
        (portions, portion, new_tree): (&[usize], usize, Range<usize>),
        report: &mut SealReport,
        progress: &mut dyn Progress,
    ) -> Result<(), Fault> {
        let parts = || self.parts.iter().zip(portions);
        let later = || parts().filter(|(_, at)| **at > portion).map(|(part, _)| part);
        let is_of_old_tree = portion < new_tree.start;
        let mut entries = if is_of_old_tree { set.manifest.entries.clone() } else { next.to_vec() };
        for part in later().filter(|_| !is_of_old_tree) {
            if let (Some(before), Some(index)) = (part.old, part.new) {
                let Entry { source, path, .. } = entries[index].clone();
                entries[index] = Entry { source, path, ..old[before].clone() };
            }
        }
        let done = parts().filter(|(_, at)| **at <= portion).map(|(part, _)| part);
        let absent: Vec<&Entry> = match is_of_old_tree {
            true => done.filter_map(|part| Some(&old[part.old?])).collect(),
            false => {
                later().filter(|part| part.old.is_none()).filter_map(|part| Some(&next[part.new?])).collect()
            }
        };
        let absent: HashSet<(u32, &[u8])> =
            absent.into_iter().map(|entry| (entry.source, entry.path.as_slice())).collect();
        let is_there = |entry: &Entry| match &entry.kind {
            EntryKind::HardLink { to } => !absent.contains(&(entry.source, to.as_slice())),
            _ => !absent.contains(&(entry.source, entry.path.as_slice())),
        };
        let kept: Vec<usize> = (0..entries.len()).filter(|&index| is_there(&entries[index])).collect();
        let entries: Vec<Entry> = kept.iter().map(|&index| entries[index].clone()).collect();
        let is_read: HashSet<usize> = match is_of_old_tree {
            true => HashSet::new(),
            false => parts().filter(|(_, at)| **at == portion).filter_map(|(part, _)| part.new).collect(),
        };
        let files: Vec<usize> = (0..kept.len()).filter(|&at| is_read.contains(&kept[at])).collect();
        let seen: Vec<Timestamp> = match is_of_old_tree {
            true => Vec::new(),
            false => kept.iter().map(|&index| self.read.seen[index]).collect(),
        };
        let is_now = |slot: &&Slot| portions[slot.part as usize] == portion;
        let slots: Vec<Slot> = self.slots.iter().filter(is_now).copied().collect();
        let stripes = if is_of_old_tree { set.manifest.stripes } else { manifest.stripes };
        let generation = pantile_format::Generation(set.manifest.generation.0 + 1);
        let commit = Commit {
            slots: &slots,
            reserve_stripes: stripes,
            // Until the last commit, what is still to be sealed counts as changed since.
            began: set.sealed_at.filter(|_| portion + 1 < new_tree.end).unwrap_or(self.began),
            read: Listed { files: &files, seen: &seen },
            wider: None,
        };
        commit.run(set, Manifest { generation, stripes, entries, ..manifest.clone() }, report, progress)?;
        for &at in &files {
            next[kept[at]] = set.manifest.entries[at].clone();
        }
        match is_of_old_tree {
            true => set.keep_entries(&kept),
            false => set.look_again(),
        }
        Ok(())
    }
}

/// Returns the first part of a group.
fn group(first: &[usize], mut part: usize) -> usize {
    while first[part] != part {
        part = first[part];
    }
    part
}
