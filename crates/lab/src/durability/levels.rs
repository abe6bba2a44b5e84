//! Reduction of sets of columns to a chain over their number.
//!
//! Level f stands for all tolerated sets of f lost columns. If every set of a level can be
//! examined, each is weighted by how often failures lead to it from the level below. A set that
//! takes longer to rebuild therefore has a greater weight. The chain then loses data exactly as
//! often as the array with its individual sets. Sets of equal rebuild time have equal weight, and
//! the share of fatal steps follows from the counts of the proof: with s(f) sets of f columns that
//! survive, 1 - s(f+1) (f+1) / (s(f) (n-f)). If there are too many sets, the share is taken from
//! these counts, and the time is the mean of a seeded sample.

use super::array::Array;
use super::chain::Chain;
use super::disks::Domains;
use pantile::plan::Certificate;
use pantile_sim::Random;
use std::collections::BTreeMap;

/// Method by which the rebuild times of a level were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Examined {
    /// Every set was examined.
    Each,
    /// One set was examined: all are alike.
    Alike,
    /// A number of sets drawn at random.
    Drawn(usize),
}

/// All tolerated sets of `lost` columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// Columns lost.
    pub lost: usize,
    /// Method by which it was examined.
    pub examined: Examined,
    /// Mean hours to rebuild all of them at once, over the sets.
    pub hours: f64,
    /// Share of further losses that are fatal.
    pub fatal_share: f64,
    /// Probability that a rebuild needs an unreadable sector.
    pub unreadable: f64,
    /// Rebuilds of j columns per hour, at index j - 1.
    pub rebuilds_per_hour: Vec<f64>,
    /// Losses of whole domains per hour that are a loss of data.
    pub fatal_domains_per_hour: f64,
    /// Losses of whole domains per hour that are no loss of data, by the number of columns lost
    /// afterwards.
    pub domains_per_hour: BTreeMap<usize, f64>,
}

/// Rate at which failures lead to each set, by the number of lost columns.
type Weights = BTreeMap<usize, BTreeMap<Vec<u16>, f64>>;

/// Maximum of work for one level, in steps of about a nanosecond.
const WORK_MOST: u64 = 2_500_000_000;

/// Method of drawing sets where there are too many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draws {
    pub seed: u64,
    /// Factor by which a level takes less work than usual.
    pub haste: u64,
}

/// Returns levels 0 to the highest that is examined.
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
                    // No drawn set survives, so that hardly any set of this size does: the next
                    // loss counts as fatal.
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

/// Returns the weighted means over sets; adds to `next` the weights of the sets that failures lead
/// to.
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
        // Share of visits in which a failure comes before the end of the rebuild.
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
        // Losses of a domain are proportional to the time spent with this set.
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
    /// Returns true if every set of `lost` columns can be examined.
    fn can_have_each(self, array: &Array<'_>, lost: usize) -> bool {
        let mut sets = 1u64;
        for i in 0..lost as u64 {
            sets = sets.saturating_mul(array.columns() as u64 - i) / (i + 1);
        }
        sets.saturating_mul(array.work(lost)) <= WORK_MOST / self.haste
    }

    /// Returns tolerated sets of `lost` columns, drawn evenly: 40 to 1000 are tried, as the work
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

/// Returns the share of fatal steps from `lost` columns, by the counts of the proof.
fn counted_share(certificate: &Certificate, lost: usize) -> Option<f64> {
    let survived = |lost: usize| Some(certificate.levels.get(lost.checked_sub(1)?)?.survived_share());
    let here = if lost == 0 { 1.0 } else { survived(lost)? };
    (here > 0.0).then_some(())?;
    // By shares of the sets: C(n, f+1) (f+1) = C(n, f) (n-f).
    Some((1.0 - survived(lost + 1)? / here).clamp(0.0, 1.0))
}

/// Returns the chain over the number of lost columns and, if spares are counted, of ready spares.
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
    // Of n + spares disks n - f work, some are ready, the others are on order. At most all disks
    // that do not work can be ready.
    let ready_most = spares + levels.len() - 1;
    let state = |f: usize, ready: usize| f * (ready_most + 1) + ready;
    // State 0 is the start: whole, with every spare ready; numbers count missing disks.
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

/// Adds the losses of domains; `there` returns the state with a number of lost columns, if it
/// exists.
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
