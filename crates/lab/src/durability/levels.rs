//! From sets of columns to the chain over their number.
//!
//! Level f stands for all sets of f columns that may be lost. Where every set of a level can be
//! looked at, each has the weight with which failures lead to it from the level below, one not
//! rebuilt in time for longer a greater one: the chain then loses data exactly as often as the
//! array does that knows its sets. Sets of the same rebuild time have the same weight, and the
//! share of fatal steps is then the one that the proof's counts give: with s(f) sets of f columns
//! that survive, 1 - s(f+1) (f+1) / (s(f) (n-f)). Where there are too many sets, the share is taken
//! from these counts, and the time is the mean of a seeded sample.

use super::array::Array;
use super::chain::Chain;
use super::disks::Domains;
use pantile::plan::Certificate;
use pantile_sim::Random;
use std::collections::BTreeMap;

/// How the rebuild times of a level were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Examined {
    /// Every set.
    Each,
    /// One set: all are alike.
    Alike,
    /// So many sets drawn at random.
    Drawn(usize),
}

/// All sets of so many columns that may be lost.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// Columns lost.
    pub lost: usize,
    /// How it was examined.
    pub examined: Examined,
    /// The mean hours to rebuild all of them at once, over the sets.
    pub hours: f64,
    /// The share of further losses that are fatal.
    pub fatal_share: f64,
    /// The probability that a rebuild meets a sector that it cannot do without.
    pub unreadable: f64,
    /// Entry j - 1: rebuilds of j columns per hour.
    pub rebuilds_per_hour: Vec<f64>,
    /// Losses of whole domains per hour that lose data.
    pub fatal_domains_per_hour: f64,
    /// Those that do not, by the columns that are lost then.
    pub domains_per_hour: BTreeMap<usize, f64>,
}

/// By the number of lost columns: how often failures lead to each set of so many.
type Weights = BTreeMap<usize, BTreeMap<Vec<u16>, f64>>;

/// Work that one level may take, in steps of about a nanosecond.
const WORK_MOST: u64 = 2_500_000_000;

/// How sets are drawn where there are too many, and how soon there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draws {
    pub seed: u64,
    /// A level may take so many times less work than usual.
    pub haste: u64,
}

/// Levels 0 to the highest that is looked at.
pub(super) fn levels(array: &mut Array<'_>, certificate: &Certificate, draws: Draws) -> Vec<Level> {
    let columns = array.columns();
    let mut weights = Some(Weights::from([(0, BTreeMap::from([(Vec::new(), 1.0)]))]));
    let mut levels = Vec::new();
    for lost in 0..=array.top {
        let sets = match (array.is_alike, weights.take()) {
            (true, _) => vec![((0..lost as u16).collect::<Vec<u16>>(), 1.0)],
            (false, Some(mut known)) if lost == 0 || draws.can_have_each(array, lost) => {
                let sets = known.remove(&lost).unwrap_or_default().into_iter().collect::<Vec<_>>();
                weights = Some(known);
                sets
            }
            _ => {
                let sets = draws.of(array, lost);
                if sets.is_empty() {
                    // Hardly any set survives: none that was drawn. The next loss is taken for
                    // fatal.
                    array.top = lost - 1;
                    if let Some(last) = levels.last_mut() {
                        let last: &mut Level = last;
                        last.fatal_share = 1.0;
                    }
                    break;
                }
                let sum = sets.len() as f64;
                let of = |set: &Vec<u16>, j: usize| array.loss(set).hours[j];
                let mean = |j| sets.iter().map(|(set, _)| of(set, j)).sum::<f64>() / sum;
                let hours = (0..lost).map(mean).collect();
                let level =
                    Level { examined: Examined::Drawn(sets.len()), ..level(array, lost, &sets, None) };
                let fatal_share = match lost == array.top {
                    true => 1.0,
                    false => counted_share(certificate, lost).unwrap_or(level.fatal_share),
                };
                levels.push(Level { fatal_share, ..level });
                if !array.is_alike {
                    array.take_mean_hours(lost, hours);
                }
                continue;
            }
        };
        let mut next = weights.take().unwrap_or_default();
        let wants_next = !array.is_alike && lost < array.top && draws.can_have_each(array, lost + 1);
        let level = level(array, lost, &sets, wants_next.then_some(&mut next));
        let examined = if array.is_alike { Examined::Alike } else { Examined::Each };
        levels.push(Level { examined, ..level });
        weights = wants_next.then_some(next);
        if lost == columns {
            break;
        }
    }
    levels
}

/// The means over sets with weights; into `next` the weights of the sets that failures lead to.
fn level(array: &Array<'_>, lost: usize, sets: &[(Vec<u16>, f64)], mut next: Option<&mut Weights>) -> Level {
    let others = (array.columns() - lost) as f64;
    let failures_per_hour = others * array.failures_per_hour();
    let domain_per_hour = array.disks.domains.as_ref().map_or(0.0, Domains::losses_per_hour);
    let (mut visited, mut fatal_domains, mut domains) = (0.0, 0.0, BTreeMap::new());
    let (mut weights, mut hours, mut failed, mut fatal, mut unreadable, mut rebuilt) =
        (0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
    let mut by_count = vec![[0.0; 2]; lost];
    for (set, weight) in sets {
        let loss = array.loss(set);
        weights += 1.0;
        // The share of visits that end with a failure before the rebuild does.
        let share = |hours: f64| failures_per_hour * hours / (failures_per_hour * hours + 1.0);
        let ends = loss.hours.last().map_or(1.0, |&hours| share(hours));
        hours += loss.hours.last().copied().unwrap_or(0.0);
        failed += weight * ends;
        fatal += weight * ends * loss.fatal_count as f64 / others;
        rebuilt += weight * (1.0 - ends);
        unreadable += weight * (1.0 - ends) * loss.unreadable;
        for (sums, &hours) in by_count.iter_mut().zip(&loss.hours) {
            sums[0] += weight * share(hours);
            sums[1] += weight / (failures_per_hour * hours + 1.0);
        }
        // A domain is lost in proportion to the time that is spent with this set.
        let hours = loss.hours.last().map_or(1.0 / failures_per_hour, |h| h / (1.0 + failures_per_hour * h));
        let (spent, flow) = (weight * hours, weight * hours * domain_per_hour);
        visited += spent;
        for group in array.groups.iter().filter(|group| group.iter().any(|c| set.binary_search(c).is_err())) {
            let Some(larger) = array.without(set, group) else {
                fatal_domains += flow;
                continue;
            };
            *domains.entry(larger.len()).or_insert(0.0) += flow;
            if let Some(next) = next.as_deref_mut() {
                *next.entry(larger.len()).or_default().entry(larger).or_insert(0.0) += flow;
            }
        }
        let Some(next) = next.as_deref_mut() else { continue };
        for column in 0..array.columns() as u16 {
            if let (Err(at), false) = (set.binary_search(&column), loss.is_fatal(column.into())) {
                let mut larger = set.clone();
                larger.insert(at, column);
                *next.entry(larger.len()).or_default().entry(larger).or_insert(0.0) += weight * ends / others;
            }
        }
    }
    Level {
        lost,
        examined: Examined::Each,
        hours: hours / weights,
        fatal_share: fatal / failed,
        unreadable: if rebuilt > 0.0 { unreadable / rebuilt } else { 0.0 },
        rebuilds_per_hour: by_count
            .iter()
            .map(|[failed, rebuilt]| failures_per_hour * rebuilt / failed)
            .collect(),
        fatal_domains_per_hour: fatal_domains / visited,
        domains_per_hour: domains.into_iter().map(|(columns, sum)| (columns, sum / visited)).collect(),
    }
}

impl Draws {
    /// Whether every set of so many columns can be looked at.
    fn can_have_each(self, array: &Array<'_>, lost: usize) -> bool {
        let mut sets = 1u64;
        for i in 0..lost as u64 {
            sets = sets.saturating_mul(array.columns() as u64 - i) / (i + 1);
        }
        sets.saturating_mul(array.work(lost)) <= WORK_MOST / self.haste
    }

    /// Sets of so many columns that may be lost, drawn evenly: 40 to 1000 are tried, as the work
    /// allows.
    fn of(self, array: &Array<'_>, lost: usize) -> Vec<(Vec<u16>, f64)> {
        let tries = (WORK_MOST / self.haste / 4 / array.work(lost)).clamp(40, 1000);
        let mut random = Random::new(self.seed ^ ((lost as u64) << 32));
        let draw = |_| {
            let mut columns: Vec<u16> = (0..array.columns() as u16).collect();
            for i in 0..lost {
                let j = random.between(i as u64, columns.len() as u64 - 1) as usize;
                columns.swap(i, j);
            }
            columns.truncate(lost);
            columns.sort_unstable();
            array.survives(&columns).then_some((columns, 1.0))
        };
        (0..tries).filter_map(draw).collect()
    }
}

/// The share of fatal steps from so many lost columns by the proof's counts.
fn counted_share(certificate: &Certificate, lost: usize) -> Option<f64> {
    let survived = |lost: usize| Some(certificate.levels.get(lost.checked_sub(1)?)?.survived_share());
    let here = if lost == 0 { 1.0 } else { survived(lost)? };
    (here > 0.0).then_some(())?;
    // By shares of the sets: C(n, f+1) (f+1) = C(n, f) (n-f).
    Some((1.0 - survived(lost + 1)? / here).clamp(0.0, 1.0))
}

/// The chain over the number of lost columns and, where spares are counted, of disks that stand
/// ready.
pub(super) fn chain(array: &Array<'_>, levels: &[Level]) -> Chain {
    let disks = array.disks;
    let Some(spares) = disks.spares else {
        let mut chain = Chain::new(levels.len());
        for (f, level) in levels.iter().enumerate() {
            fail(&mut chain, array, level, f, f + 1, f + 1 == levels.len());
            lose_domains(&mut chain, level, f, |lost| Some(lost).filter(|&lost| lost < levels.len()));
            if let Some(&rate) = level.rebuilds_per_hour.last() {
                chain.lose(f, 1, rate * level.unreadable);
                chain.add(f, 0, rate * (1.0 - level.unreadable));
            }
        }
        return chain;
    };
    // Of n + spares disks n - f work, some stand ready, the others are on order. No more can be
    // ready than are not at work.
    let ready_most = spares + levels.len() - 1;
    let state = |f: usize, ready: usize| f * (ready_most + 1) + ready;
    // State 0 is where the array starts: whole, with every spare ready; numbers count what is
    // missing.
    let numbered = |f: usize, ready: usize| match f {
        0 => spares - ready,
        _ => state(f, ready),
    };
    let mut chain = Chain::new(state(levels.len(), 0));
    for (f, level) in levels.iter().enumerate() {
        for ready in 0..=spares + f {
            let here = numbered(f, ready);
            let is_last = f + 1 == levels.len();
            let next = if is_last { here } else { numbered(f + 1, ready) };
            fail(&mut chain, array, level, here, next, is_last);
            let there = |lost: usize| (lost < levels.len()).then(|| numbered(lost, ready));
            lose_domains(&mut chain, level, here, there);
            let ordered = (spares + f - ready) as f64;
            if ordered > 0.0 {
                chain.add(here, numbered(f, ready + 1), ordered / disks.replace_hours);
            }
            let at_once = f.min(ready);
            if at_once > 0 {
                let rate = level.rebuilds_per_hour[at_once - 1];
                chain.lose(here, 1, rate * level.unreadable);
                let there = numbered(f - at_once, ready - at_once);
                chain.add(here, there, rate * (1.0 - level.unreadable));
            }
        }
    }
    chain
}

/// `there`: the state with so many lost columns, if there is one.
fn lose_domains(chain: &mut Chain, level: &Level, from: usize, there: impl Fn(usize) -> Option<usize>) {
    chain.lose(from, 0, level.fatal_domains_per_hour);
    for (&lost, &rate) in &level.domains_per_hour {
        match there(lost) {
            Some(to) => chain.add(from, to, rate),
            None => chain.lose(from, 0, rate),
        }
    }
}

fn fail(chain: &mut Chain, array: &Array<'_>, level: &Level, from: usize, to: usize, is_last: bool) {
    let rate = (array.columns() - level.lost) as f64 * array.failures_per_hour();
    let fatal = if is_last { 1.0 } else { level.fatal_share };
    chain.lose(from, 0, rate * fatal);
    if !is_last {
        chain.add(from, to, rate * (1.0 - fatal));
    }
}
