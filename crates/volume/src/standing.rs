//! State that flushed data depend on now: lost devices, and known bad content on the others.
//!
//! A stripe can be read as long as the equations tolerate the loss of all devices that lack it or
//! have a bad chunk of it; a log row as long as these are at most t devices. The volume opens as
//! long as one device has good maps. [`margin`] counts how many more devices can fail so that all
//! of these can still be read. So a device never counts for content that it does not have.

use crate::engine::Engine;
use crate::maps::{Mapping, Row, RowKind};
use crate::{Bearing, Slot, UserBlock};
use pantile_code::CellIndex;
use pantile_format::volume::{LogicalStripe, MemberState, RowsAhead};
use pantile_gf::choose;
use pantile_plan::SetTally;
use std::collections::{BTreeMap, BTreeSet};

/// Patterns of bad chunks that are counted one by one; any more are combined into one pattern with
/// all of their devices.
const PATTERNS_MOST: usize = 32;

/// The most sets that are tried; what is not tried is not claimed.
const SETS_MOST: u64 = 50_000;

/// The most products in GF(2^8) for these trials: half a second of one processor.
const PRODUCTS_MOST: f64 = 5e10;

/// The most fatal sets that are reported.
const NAMED_MOST: usize = 8;

/// The state that flushed data depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Devices that are lost or not rebuilt yet.
    pub lost: Vec<Slot>,
    /// Cells of every stripe that some of these devices have, because they were rebuilt ahead.
    pub there: BTreeMap<Slot, Vec<CellIndex>>,
    /// Sets of devices on which one stripe has bad chunks, without stripes that have lost data
    /// already; no set contains another.
    pub bad: Vec<BTreeSet<Slot>>,
    /// Chunks that are known to be bad, by device.
    pub bad_chunks: BTreeMap<Slot, u64>,
    /// The number of devices that can fail with all of the log still readable; `None`: the log is
    /// empty.
    pub log_more: Option<u32>,
    /// The number of devices that can fail with good maps left on another.
    pub maps_more: u32,
}

impl Standing {
    /// Returns the state after these devices are lost, too.
    ///
    /// The log and the maps may have nothing on them: each lost device still counts as one of those
    /// that they tolerate.
    pub fn without(&self, slots: &[Slot]) -> Standing {
        let more: Vec<Slot> = slots.iter().filter(|slot| !self.lost.contains(slot)).copied().collect();
        let less = |tolerated: u32| tolerated.saturating_sub(more.len() as u32);
        Standing {
            lost: self.lost.iter().chain(&more).copied().collect(),
            there: self.there_without(|slot| slots.contains(&slot)),
            log_more: self.log_more.map(less),
            maps_more: less(self.maps_more),
            ..self.clone()
        }
    }

    /// Returns the cells rebuilt ahead on devices that are not gone.
    fn there_without(&self, is_gone: impl Fn(Slot) -> bool) -> BTreeMap<Slot, Vec<CellIndex>> {
        let there = self.there.iter().filter(|(slot, _)| !is_gone(**slot));
        there.map(|(&slot, cells)| (slot, cells.clone())).collect()
    }
}

/// The number of devices that can fail in addition to those that are lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Margin {
    /// Devices that are lost or not rebuilt yet.
    pub lost: Vec<Slot>,
    /// True if the code tolerates the loss of these.
    pub survives: bool,
    /// The number of devices that can fail, whichever they are.
    pub any_more: u32,
    /// The number of devices that can fail with all of the log still readable; `None`: the log is
    /// empty.
    pub log_any_more: Option<u32>,
    /// The smallest number of devices of which not every set can fail, for stripes alone, and its
    /// sets. `None`: not counted, because there are too many sets, or because the log or the maps
    /// tolerate less.
    pub next: Option<NextLoss>,
}

/// Sets of one more device than the stripes always tolerate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextLoss {
    /// The number of devices in a set.
    pub devices: u32,
    /// The number of such sets of the devices that are left.
    pub sets: u64,
    /// The number of these sets that can fail.
    pub survived: u64,
    /// Some of the sets that cannot fail without loss.
    pub fatal: Vec<Vec<Slot>>,
}

/// Counts the devices that can fail in addition to those that are lost.
pub fn margin(bearing: &Bearing, standing: &Standing) -> Margin {
    let lost = standing.lost.clone();
    let there_but = |pattern: &BTreeSet<Slot>| {
        let there = standing.there_without(|slot| pattern.contains(&slot)).into_values().flatten();
        let mut there: Vec<CellIndex> = there.collect();
        there.sort_unstable();
        there
    };
    let survives = bearing.bears_but(&lost, &there_but(&BTreeSet::new()));
    let log_any_more = standing.log_more;
    let mut margin = Margin { lost, survives, any_more: 0, log_any_more, next: None };
    if !survives {
        return margin;
    }
    // Counted without any bad chunk, or with each pattern of bad chunks.
    let patterns: Vec<BTreeSet<Slot>> = match &standing.bad[..] {
        [] => vec![BTreeSet::new()],
        bad => bad.to_vec(),
    };
    let without = |set: &[Slot], pattern: &BTreeSet<Slot>| -> Vec<Slot> {
        let all: BTreeSet<Slot> = margin.lost.iter().chain(set).chain(pattern).copied().collect();
        all.into_iter().collect()
    };
    let there: Vec<Vec<CellIndex>> = patterns.iter().map(there_but).collect();
    let bears = |set: &[Slot]| {
        let mut patterns = patterns.iter().zip(&there);
        patterns.all(|(pattern, there)| bearing.bears_but(&without(set, pattern), there))
    };
    let here: Vec<Slot> =
        (0..bearing.devices()).map(Slot).filter(|slot| !margin.lost.contains(slot)).collect();
    let gone = patterns.iter().map(|pattern| without(&[], pattern).len()).max().unwrap_or(0);
    let most = log_any_more.map_or(standing.maps_more, |log| log.min(standing.maps_more));
    // Sets within the tolerance need no trial: this was proved when the volume was created.
    let mut more = bearing.tolerance().saturating_sub(gone) as u32;
    let (mut tried, mut spent) = (0, 0.0);
    let next = loop {
        let devices = more + 1;
        let sets = choose(here.len() as u64, devices.into());
        tried += sets;
        spent += patterns.len() as f64 * sets as f64 * bearing.products(gone + devices as usize);
        let is_too_much = tried > SETS_MOST || spent > PRODUCTS_MOST;
        if more > most || devices as usize > here.len() || is_too_much {
            break None;
        }
        let slots = |set: &[usize]| set.iter().map(|&at| here[at]).collect::<Vec<Slot>>();
        let tally = SetTally::of(here.len(), devices as usize, (sets, NAMED_MOST), |set| bears(&slots(set)));
        let fatal = tally.fatal.iter().map(|set| slots(set)).collect();
        let next = NextLoss { devices, sets, survived: tally.survived, fatal };
        if next.survived < next.sets {
            break Some(next);
        }
        more += 1;
    };
    // A stripe with more bad chunks than the code tolerates may still be read in part, and less of
    // it with one device fewer.
    let is_read_in_part = !bears(&[]);
    margin.any_more = if is_read_in_part { 0 } else { more.min(most) };
    margin.next = next;
    margin
}

impl Engine {
    pub(crate) fn standing(&self) -> Standing {
        let lost = &self.not_whole() | &self.members.unrecorded(self.records.last());
        let beheaded = self.with_bad_superblocks();
        let bad = &self.maps.notes().bad;
        let counts = bad.slots().map(|slot| (slot, self.bad_chunks(slot))).filter(|&(_, count)| count > 0);
        let bad_maps = self.with_bad_maps();
        let has_maps = |slot: &Slot| !lost.contains(slot) && !bad_maps.contains(slot);
        let maps = (0..self.geometry.slots() as u32).map(Slot).filter(has_maps).count() as u32;
        Standing {
            bad: self.bad_patterns(&beheaded),
            bad_chunks: counts.collect(),
            log_more: self.log_more(&lost, &beheaded),
            maps_more: maps.saturating_sub(1),
            there: self.cells_ahead(),
            lost: lost.into_iter().collect(),
        }
    }

    /// Returns the cells of every stripe that devices under rebuild have, because they were rebuilt
    /// ahead.
    pub(crate) fn cells_ahead(&self) -> BTreeMap<Slot, Vec<CellIndex>> {
        let (code, ends) = (&self.geometry.code, u64::from(self.geometry.logical_stripes()));
        let slots = (0..self.geometry.slots() as u32).map(Slot);
        let ahead = slots.map(|slot| (slot, self.maps.rows_ahead(slot)));
        let unrecorded = self.members.unrecorded(self.records.last());
        let done = ahead
            .filter(|(slot, ahead)| ahead.rows != 0 && ahead.until.0 == ends && !unrecorded.contains(slot));
        // Such rows exist only under a fixed placement.
        let cells = |(slot, ahead): (Slot, RowsAhead)| {
            let rows = (0..).zip(code.column_cells(slot.0 as usize));
            let there = rows.filter(|&(row, _)| ahead.has(LogicalStripe(0), row)).map(|(_, cell)| cell);
            (slot, there.collect())
        };
        done.map(cells).collect()
    }

    /// Counts the devices that can fail in addition to those that are lost.
    pub(crate) fn margin(&self) -> Margin {
        margin(&self.planners.stripes_bear, &self.standing())
    }

    pub(crate) fn not_whole(&self) -> BTreeSet<Slot> {
        let members = (0..).map(Slot).zip(self.maps.members());
        members.filter(|(_, state)| **state != MemberState::Present).map(|(slot, _)| slot).collect()
    }

    /// Returns the number of bad chunks of mapped stripes and bad blocks of log rows in use on a
    /// device.
    fn bad_chunks(&self, slot: Slot) -> u64 {
        let bad = &self.maps.notes().bad;
        let runs = bad.stripes_of(slot).into_iter().flat_map(|stripes| stripes.runs());
        let stripes = runs.map(|(first, last)| self.maps.stripes().mapped_within(first, last).count() as u64);
        let rows = self.maps.rows().keys().filter(|&&row| bad.has_row(slot, row));
        stripes.sum::<u64>() + rows.count() as u64
    }

    /// Returns the sets of devices on which one stripe has bad chunks; each set includes `always`,
    /// the devices that count as bad as a whole.
    fn bad_patterns(&self, always: &BTreeSet<Slot>) -> Vec<BTreeSet<Slot>> {
        let runs = self.maps.notes().bad.stripes_by_devices().into_iter();
        // Stripes that have lost data already are reported separately.
        let counts = |(logical, _)| !self.has_lost_data(logical);
        let mapped =
            runs.filter(|&(first, last, _)| self.maps.stripes().mapped_within(first, last).any(counts));
        let all: BTreeSet<BTreeSet<Slot>> = mapped.map(|(_, _, slots)| &slots | always).collect();
        let mut all: Vec<BTreeSet<Slot>> = all.into_iter().chain([always.clone()]).collect();
        all.sort_by_key(|slots| std::cmp::Reverse(slots.len()));
        let mut largest: Vec<BTreeSet<Slot>> = Vec::new();
        for slots in all {
            if slots.is_empty() || largest.iter().any(|other| slots.is_subset(other)) {
                continue;
            }
            if largest.len() < PATTERNS_MOST {
                largest.push(slots);
            } else {
                largest[PATTERNS_MOST - 1].extend(slots);
            }
        }
        largest
    }

    /// Returns how many more devices can fail with all of the log still readable, beside those that
    /// count as lost.
    fn log_more(&self, lost: &BTreeSet<Slot>, beheaded: &BTreeSet<Slot>) -> Option<u32> {
        // The log is rebuilt before any rows of stripes are.
        let ahead = self.cells_ahead();
        let lacking = lost.iter().filter(|slot| !ahead.contains_key(slot));
        let gone: BTreeSet<Slot> = lacking.chain(beheaded).copied().collect();
        if gone.is_empty() && !self.maps.notes().bad.has_rows() {
            return (!self.maps.rows().is_empty()).then(|| self.geometry.tolerance() as u32);
        }
        self.maps.rows().iter().map(|(&number, row)| self.row_more(number, row, &gone)).min()
    }

    fn row_more(&self, number: u32, row: &Row, gone: &BTreeSet<Slot>) -> u32 {
        let tolerance = self.geometry.tolerance();
        let is_gone = |slot: Slot| gone.contains(&slot) || self.maps.notes().bad.has_row(slot, number);
        let missing = match row.kind {
            RowKind::Coded => row.cells.iter().filter(|cell| is_gone(cell.slot)).count(),
            RowKind::Copies => {
                let blocks = row.cells.chunks(tolerance + 1).zip(&row.blocks);
                let live = blocks.filter(|(_, block)| block.is_some());
                let missing = live.map(|(of, _)| of.iter().filter(|cell| is_gone(cell.slot)).count());
                missing.max().unwrap_or(0)
            }
        };
        tolerance.saturating_sub(missing) as u32
    }

    /// Returns true if some blocks of a stripe are known to be lost.
    fn has_lost_data(&self, logical: u32) -> bool {
        let per_stripe = self.geometry.stripe_blocks();
        let first = UserBlock(u64::from(logical) * per_stripe);
        self.damage.is_broken(logical) || self.maps.notes().lost_within(first, per_stripe).next().is_some()
    }

    /// Returns the number of stripes that cannot be read in full without some devices, and of which
    /// more can be read with them. Stripes that have lost data already count only if `with_lost`.
    pub(crate) fn stripes_at_risk(&self, without: &BTreeSet<Slot>, with_lost: bool) -> u64 {
        let counts = |&(logical, _): &(u32, Mapping)| with_lost || !self.has_lost_data(logical);
        let absent: BTreeSet<Slot> = self.maps.absent().into_iter().collect();
        let mut stripes = 0;
        for (first, last, slots) in self.maps.notes().bad.stripes_by_devices() {
            let (before, after) = (&slots | &absent, &slots | without);
            let all: Vec<Slot> = after.union(&before).copied().collect();
            if all.len() > before.len() && !self.planners.stripes_bear.bears(&all) {
                stripes += self.maps.stripes().mapped_within(first, last).filter(counts).count() as u64;
            }
        }
        stripes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantile_code::{Code, Placement, families};
    use pantile_plan::{ProveOptions, prove};

    fn bearing(spec: &str, placement: Placement) -> Bearing {
        Bearing::new(&Code::parse(spec).expect("a spec"), placement)
    }

    fn standing(lost: &[u32]) -> Standing {
        let lost = lost.iter().copied().map(Slot).collect();
        Standing { lost, maps_more: u32::MAX, ..Standing::default() }
    }

    fn slots(slots: &[u32]) -> BTreeSet<Slot> {
        slots.iter().copied().map(Slot).collect()
    }

    #[test]
    fn a_code_with_two_parities_tolerates_two() {
        let raid6 = bearing("raid6:6", Placement::ROTATED);
        let whole = margin(&raid6, &standing(&[]));
        assert_eq!((whole.any_more, whole.survives), (2, true));
        let next = whole.next.expect("counted");
        assert_eq!((next.devices, next.sets, next.survived), (3, 56, 0));
        let one = margin(&raid6, &standing(&[3]));
        assert_eq!(one.any_more, 1);
        let next = one.next.expect("counted");
        assert_eq!((next.devices, next.sets, next.survived), (2, 21, 0));
        let gone = margin(&raid6, &standing(&[3, 4, 5]));
        assert!(!gone.survives && gone.next.is_none());
    }

    #[test]
    fn a_stripe_counts_with_its_bad_chunks() {
        let raid6 = bearing("raid6:4", Placement::ROTATED);
        let with = |bad: &[&[u32]], lost: &[u32]| {
            let bad = bad.iter().map(|of| slots(of)).collect();
            margin(&raid6, &Standing { bad, ..standing(lost) })
        };
        assert_eq!(with(&[&[1]], &[]).any_more, 1);
        assert_eq!(with(&[&[1]], &[1]).any_more, 1, "it is lost already");
        assert_eq!(with(&[&[1]], &[2]).any_more, 0);
        // Bad chunks on two devices, in different stripes: with one more device lost no stripe
        // lacks three.
        let apart = with(&[&[1], &[2]], &[]);
        assert_eq!(apart.any_more, 1);
        assert_eq!(apart.next.expect("counted").survived, 1, "the two of them");
        let both = with(&[&[1, 2]], &[]);
        assert_eq!((both.any_more, both.survives), (0, true));
        assert_eq!(both.next.expect("counted").survived, 2, "of single devices those two");
        let beyond = with(&[&[1, 2, 3]], &[]);
        assert_eq!((beyond.any_more, beyond.survives), (0, true));
    }

    #[test]
    fn the_log_and_the_maps_count_where_they_tolerate_less() {
        let raidp = bearing("raidp:6", Placement::Fixed);
        let stripes = margin(&raidp, &standing(&[8]));
        let with = |log_more, maps_more| margin(&raidp, &Standing { log_more, maps_more, ..standing(&[8]) });
        assert_eq!((stripes.any_more, stripes.log_any_more), (2, None));
        let log = with(Some(1), 9);
        assert_eq!((log.any_more, log.log_any_more, log.next), (1, Some(1), None));
        assert_eq!(with(Some(5), 0).any_more, 0);
        assert_eq!(with(Some(5), 9), Margin { log_any_more: Some(5), ..stripes });
    }

    /// Sets of five of 40 devices, and of four of 39, are too many to try.
    #[test]
    fn a_margin_beyond_the_search_is_not_promised() {
        let wide = bearing("rs:36+4", Placement::ROTATED);
        for (lost, any_more) in [(&[][..], 4), (&[7], 3)] {
            let margin = margin(&wide, &standing(lost));
            assert_eq!((margin.any_more, margin.next), (any_more, None));
        }
    }

    /// In codes with thousands of elements fatal sets are known without an elimination, and counts
    /// that take billions of products are not made.
    #[test]
    fn a_code_of_thousands_of_elements_is_counted_where_that_is_cheap() {
        let clay = bearing("clay:10,4,13", Placement::ROTATED);
        let whole = margin(&clay, &standing(&[]));
        let next = whole.next.expect("no five are tolerated");
        assert_eq!((whole.any_more, next.devices, next.sets, next.survived), (4, 5, 2002, 0));
        assert_eq!(clay.products(5), 0.0);
        let more = bearing("xorbas:10,6,5", Placement::ROTATED);
        assert_eq!(more.products(5), 16.0 * 25.0 * 6.0, "sixteen turns of five by five in six equations");
    }

    /// Tests the examples of every family, under a fixed and a rotated placement.
    #[test]
    fn the_count_of_a_new_volume_is_that_of_the_proof_for_every_family_and_placement() {
        let mut compared = [0, 0];
        for spec in families().iter().flat_map(|family| family.examples) {
            let code = Code::parse(spec).expect("an example");
            for placement in [Placement::Fixed, Placement::ROTATED] {
                if code.columns() > 24 || placement != Placement::Fixed && !code.columns_are_interchangeable()
                {
                    continue;
                }
                let options = ProveOptions {
                    placement,
                    lost_most: Some(code.claim().tolerance + 1),
                    ..ProveOptions::default()
                };
                let proved = prove(&code, &options, &|_, _, _| true);
                let found = margin(&bearing(spec, placement), &standing(&[]));
                assert_eq!(found.any_more as usize, proved.tolerance(), "{spec} {placement}");
                if let (Some(level), Some(next)) = (proved.levels.get(proved.tolerance()), found.next) {
                    assert_eq!(
                        (next.sets, next.survived),
                        (level.sets, level.survived),
                        "{spec} {placement}"
                    );
                    compared[placement.number() as usize] += 1;
                }
            }
        }
        assert!(compared[0] >= 40 && compared[1] >= 40, "{compared:?}");
    }

    /// Under a rotated placement a set is survived only if all of its rotations are.
    #[test]
    fn turning_can_only_lower_the_count() {
        let of = |placement| margin(&bearing("shec:6,4,3", placement), &standing(&[])).next.expect("counted");
        let (fixed, turned) = (of(Placement::Fixed), of(Placement::ROTATED));
        assert!(turned.survived < fixed.survived, "{turned:?} {fixed:?}");
    }
}
