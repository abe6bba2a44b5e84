//! Verification by shares: the least recently read stripes come first.
//!
//! `NAME.verified` beside the shards is a text: the set's UUID in the first line, then one line for
//! each run of stripes, with its first stripe, its end, and the second since 1970 in which it was
//! read and found good. Stripes that are not listed come first: they were never read, or had
//! damage. A file that cannot be parsed lists no stripes.

use crate::Fault;
use crate::disk::{Access, Disk, DiskFile};
use crate::options::Share;
use crate::report::ShareReport;
use crate::set::Set;
use crate::set::names::temp;
use rangemap::RangeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The most bytes of the file that are read: some 20,000 runs.
const BYTES_MOST: u64 = 1 << 20;
/// The most runs that the file lists. If damage in many places would exceed it, all stripes of the
/// share are listed as never read.
const RUNS_MOST: usize = 10_000;
const MILLION: u64 = 1_000_000;

/// The stripes that one verification reads, and the file that records them.
pub(crate) struct Picked {
    /// Ascending, not adjoining.
    pub(crate) stripes: Vec<Range<u64>>,
    read: RangeMap<u64, u64>,
    path: PathBuf,
    file: Box<dyn DiskFile>,
    is_kept: bool,
}

/// Returns the stripes to read next, and creates the file that will record them.
///
/// Errors: the directory of the shards cannot be written.
pub(crate) fn pick(set: &Set<'_>, share: Share) -> Result<Picked, Fault> {
    let (disk, path) = (set.world.disk, set.names.verified());
    disk.root(&set.names.dir, Access::Write).map_err(|e| Fault::io("opening", &set.names.dir, e))?;
    let file = disk.create(&temp(&path)).map_err(|e| Fault::io("creating", &path, e))?;
    let read = parsed(disk, &path, &set.manifest.set.to_string(), set.manifest.stripes).unwrap_or_default();
    let stripes = next(&read, set.manifest.stripes, share, now());
    Ok(Picked { stripes, read, path, file, is_kept: false })
}

impl Picked {
    /// Records that the stripes were read, except for those with damage.
    pub(crate) fn keep(
        mut self,
        set: &Set<'_>,
        damaged: impl Iterator<Item = Range<u64>>,
    ) -> Result<ShareReport, Fault> {
        self.stripes.iter().for_each(|run| self.read.insert(run.clone(), now()));
        damaged.for_each(|run| self.read.remove(run));
        if self.read.iter().count() > RUNS_MOST {
            self.stripes.iter().for_each(|run| self.read.remove(run.clone()));
        }
        let mut text = format!("{}\n", set.manifest.set);
        for (run, time) in self.read.iter() {
            let _ = writeln!(text, "{} {} {time}", run.start, run.end);
        }
        let failed = |e| Fault::io("writing", &self.path, e);
        self.file.write_at(text.as_bytes(), 0).map_err(failed)?;
        self.file.sync().map_err(failed)?;
        self.file.give_name(&self.path).map_err(failed)?;
        self.is_kept = true;
        let all = set.manifest.stripes;
        Ok(ShareReport {
            stripes: self.stripes.iter().map(|run| run.end - run.start).sum(),
            never: self.read.gaps(&(0..all)).map(|run| run.end - run.start).sum(),
            oldest: self.read.iter().map(|(_, &time)| time).min(),
        })
    }
}

impl Drop for Picked {
    fn drop(&mut self) {
        if !self.is_kept {
            // Best effort: the next run creates the temporary file again.
            let _ = self.file.discard();
        }
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Returns by stripe the second in which it was read; `None` if there is no such file of this set.
fn parsed(disk: &dyn Disk, path: &Path, set: &str, stripes: u64) -> Option<RangeMap<u64, u64>> {
    let file = disk.open(path).ok()?;
    let mut bytes = vec![0; usize::try_from(file.meta().ok()?.size.min(BYTES_MOST)).ok()?];
    let len = file.read_at(&mut bytes, 0).ok()?;
    let mut lines = std::str::from_utf8(&bytes[..len]).ok()?.lines();
    if lines.next()? != set {
        return None;
    }
    let mut read = RangeMap::new();
    for line in lines {
        let mut numbers = line.split(' ').map(|number| number.parse::<u64>().ok());
        let (first, end, time) = (numbers.next()??, numbers.next()??, numbers.next()??);
        if first >= end || end > stripes {
            return None;
        }
        read.insert(first..end, time);
    }
    Some(read)
}

/// Returns the runs of stripes to read, ascending: the least recently read ones.
fn next(read: &RangeMap<u64, u64>, stripes: u64, share: Share, now: u64) -> Vec<Range<u64>> {
    let all = 0..stripes;
    let mut runs: Vec<(u64, Range<u64>)> = read.gaps(&all).map(|run| (0, run)).collect();
    // A time in the future was set by a wrong clock.
    let is_due = |time: u64| time > now || now - time >= share.older_than_s;
    let due = read.iter().filter(|(_, time)| is_due(**time));
    runs.extend(due.map(|(run, &time)| (if time > now { 0 } else { time }, run.clone())));
    runs.sort_unstable_by_key(|(time, run)| (*time, run.start));
    let part = u128::from(stripes) * u128::from(share.millionths.min(MILLION as u32)) / u128::from(MILLION);
    let mut left = (part as u64).max(1);
    let mut picked = RangeMap::new();
    for (_, run) in runs {
        let end = run.end.min(run.start.saturating_add(left));
        left -= end - run.start;
        picked.insert(run.start..end, ());
        if left == 0 {
            break;
        }
    }
    picked.iter().map(|(run, ())| run.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stripe_is_read_in_turn_the_oldest_first() {
        let share = Share { millionths: 300_000, older_than_s: 100 };
        let mut read: RangeMap<u64, u64> = RangeMap::new();
        let mut night = |now: u64, damaged: Option<u64>| {
            let picked = next(&read, 10, share, now);
            picked.iter().for_each(|run| read.insert(run.clone(), now));
            damaged.into_iter().for_each(|at| read.remove(at..at + 1));
            picked.into_iter().map(|run| (run.start, run.end)).collect::<Vec<_>>()
        };
        assert_eq!(night(1000, None), [(0, 3)]);
        assert_eq!(night(1001, Some(4)), [(3, 6)]);
        assert_eq!(night(1002, None), [(4, 5), (6, 8)], "damage is read again first");
        assert_eq!(night(1003, None), [(8, 10)]);
        assert!(night(1004, None).is_empty(), "all were read lately");
        assert_eq!(night(1100, None), [(0, 3)]);
        assert_eq!(night(1103, None), [(3, 6)], "4 was read a night later, so 6 is not reached");
        assert_eq!(night(5, None), [(0, 3)], "times in the future count as none");
    }
}
