//! Sums of buffers, with the common parts of several computed once (EVENODD's adjuster).
//!
//! Places are numbered: first the buffers in use, then sums that are not buffers.

use crate::arch::native::cpu::counting;

/// The number that stands for no place.
pub(crate) const NONE: u32 = u32::MAX;

/// Steps: each target, with the buffers of which it is the sum; these can be earlier targets.
pub(crate) type Steps = Vec<(usize, Vec<usize>)>;

/// A place to be computed as the sum of buffers and of earlier sums.
#[derive(Debug)]
pub(crate) struct Sum {
    pub(crate) out: u32,
    pub(crate) terms: Vec<u32>,
}

/// The steps of a program of XORs alone.
#[derive(Debug)]
pub(crate) struct SharedSums {
    buffers: Vec<usize>,
    sums: Vec<Sum>,
}

impl SharedSums {
    /// Compiles `steps`: targets, each with the buffers of which it is the sum, in an order in
    /// which they can be computed.
    pub(crate) fn new(steps: &[(usize, Vec<usize>)]) -> SharedSums {
        let (buffers, place_of) = numbered(steps);
        let place = |buffer: usize| place_of[buffer];
        let sums: Vec<Sum> = steps
            .iter()
            .map(|(target, terms)| Sum {
                out: place(*target),
                terms: odd(terms.iter().map(|&t| place(t)).collect()),
            })
            .collect();
        let first_new = buffers.len() as u32;
        SharedSums { buffers, sums: shared(sums, first_new) }
    }

    /// Returns the buffers in use, ascending, which are the first places.
    pub(crate) fn buffers(&self) -> &[usize] {
        &self.buffers
    }

    /// Returns the sums, in an order in which they can be computed.
    pub(crate) fn sums(&self) -> &[Sum] {
        &self.sums
    }

    /// Returns the number of places: buffers, and sums that are not buffers.
    pub(crate) fn places(&self) -> usize {
        let outs = self.sums.iter().map(|sum| sum.out as usize + 1);
        outs.max().unwrap_or(0).max(self.buffers.len())
    }
}

/// Returns the buffers in use, ascending, and the place of each buffer.
pub(crate) fn numbered(steps: &[(usize, Vec<usize>)]) -> (Vec<usize>, Vec<u32>) {
    let named = || steps.iter().flat_map(|(target, terms)| terms.iter().chain([target])).copied();
    let mut place_of = vec![NONE; named().max().map_or(0, |most| most + 1)];
    named().for_each(|buffer| place_of[buffer] = 0);
    let mut buffers = Vec::with_capacity(place_of.len());
    for (buffer, place) in place_of.iter_mut().enumerate().filter(|(_, place)| **place != NONE) {
        *place = buffers.len() as u32;
        buffers.push(buffer);
    }
    (buffers, place_of)
}

/// Returns the terms that occur an odd number of times, ascending.
pub(crate) fn odd(mut terms: Vec<u32>) -> Vec<u32> {
    terms.sort_unstable();
    let mut kept = 0;
    for i in 0..terms.len() {
        match kept > 0 && terms[kept - 1] == terms[i] {
            true => kept -= 1,
            false => {
                terms[kept] = terms[i];
                kept += 1;
            }
        }
    }
    terms.truncate(kept);
    terms
}

/// The most work to find common parts in a program, in compared words of 64 places.
const SHARING_EFFORT: usize = 1 << 24;

/// Computes common parts of several sums once, the largest first. New sums are numbered from
/// `next`.
///
/// Cost: O(sums^2) comparisons of bit sets, plus O(sums) for each sum that a common part changes.
fn shared(sums: Vec<Sum>, next: u32) -> Vec<Sum> {
    shared_within(SHARING_EFFORT, sums, next)
}

/// Computes common parts within a limit of work, at which it stops with the sums found so far.
fn shared_within(effort: usize, sums: Vec<Sum>, next: u32) -> Vec<Sum> {
    if sums.len() * sums.len() / 2 * (next as usize / 64 + 1) > effort {
        return sums;
    }
    let outs = sums.iter().map(|sum| sum.out).collect();
    let sets = Sets::of(&sums, next as usize);
    let (outs, sets) = counting(
        #[inline(always)]
        || CommonParts::of(outs, sets, next).shared(effort),
    );
    outs.into_iter().zip(0..).map(|(out, row)| Sum { out, terms: bits(sets.row(row)).collect() }).collect()
}

/// The common parts of each sum with others, updated while sums change.
struct CommonParts {
    /// The targets of the sums, in order.
    outs: Vec<u32>,
    /// The terms of each sum.
    sets: Sets,
    /// For each sum, the most terms that it shares with an earlier sum, and the first such sum; 1
    /// if it shares fewer than 2 terms.
    most: Vec<(u32, usize)>,
    /// The number of the next new sum.
    next: u32,
    /// The number of words that were compared.
    effort: usize,
}

impl CommonParts {
    #[inline(always)]
    fn of(outs: Vec<u32>, sets: Sets, next: u32) -> CommonParts {
        let most = vec![(1, 0); outs.len()];
        let mut parts = CommonParts { outs, sets, most, next, effort: 0 };
        for b in 0..parts.outs.len() {
            parts.compare(b);
        }
        parts
    }

    #[inline(always)]
    fn shared(mut self, effort: usize) -> (Vec<u32>, Sets) {
        let mut part: Vec<u64> = Vec::new();
        let (mut users, mut is_changed): (Vec<usize>, Vec<bool>) = (Vec::new(), Vec::new());
        while let Some((size, a, b)) = self.largest() {
            part.clear();
            part.extend(self.sets.row(a).iter().zip(self.sets.row(b)).map(|(x, y)| x & y));
            users.clear();
            users.extend((0..self.outs.len()).filter(|&sum| self.sets.has(sum, &part)));
            // If the first sum is itself the common part, its result is used by the others.
            let first = users[0];
            let lends = count(self.sets.row(first)) == size;
            let out = if lends { self.outs[first] } else { self.next };
            if !lends {
                self.sets.make_room(self.next);
                part.resize(self.sets.stride, 0);
            }
            for &user in users.iter().skip(usize::from(lends)) {
                self.sets.row_mut(user).iter_mut().zip(&part).for_each(|(word, taken)| *word &= !taken);
                // The term may already be in the sum: a term that is added twice vanishes.
                self.sets.toggle(user, out);
            }
            if lends {
                users.remove(0);
            } else {
                self.insert(first, &part);
                users.iter_mut().for_each(|user| *user += 1);
                users.insert(0, first);
            }
            self.compare_again(&users, &mut is_changed);
            if self.effort > effort {
                break;
            }
        }
        (self.outs, self.sets)
    }

    /// Returns the size of the largest common part, and the first two sums that have it; `None` if
    /// no two sums share two terms.
    #[inline(always)]
    fn largest(&self) -> Option<(u32, usize, usize)> {
        let larger = |largest: (u32, usize, usize), (b, &(size, a)): (usize, &(u32, usize))| {
            if size > largest.0 { (size, a, b) } else { largest }
        };
        let largest = self.most.iter().enumerate().fold((1, 0, 0), larger);
        (largest.0 > 1).then_some(largest)
    }

    /// Inserts a new sum of these terms at index `at`; it is not yet compared with others.
    fn insert(&mut self, at: usize, terms: &[u64]) {
        self.outs.insert(at, self.next);
        self.next += 1;
        self.sets.insert(at, terms);
        self.most.insert(at, (1, 0));
        for (_, partner) in self.most.iter_mut().filter(|(_, partner)| *partner >= at) {
            *partner += 1;
        }
    }

    /// Updates the entries that depend on the changed sums, which are ascending.
    #[inline(always)]
    fn compare_again(&mut self, changed: &[usize], is_changed: &mut Vec<bool>) {
        is_changed.clear();
        is_changed.resize(self.outs.len(), false);
        changed.iter().for_each(|&sum| is_changed[sum] = true);
        for b in 0..self.outs.len() {
            let (size, partner) = self.most[b];
            if is_changed[b] || size > 1 && is_changed[partner] {
                self.compare(b);
                continue;
            }
            for &a in changed.iter().take_while(|&&a| a < b) {
                let found = self.common(a, b);
                let (size, partner) = self.most[b];
                if found > size || found == size && size > 1 && a < partner {
                    self.most[b] = (found, a);
                }
            }
        }
    }

    /// Compares a sum with all earlier sums.
    #[inline(always)]
    fn compare(&mut self, b: usize) {
        self.most[b] = (1, 0);
        for a in 0..b {
            let found = self.common(a, b);
            if found > self.most[b].0 {
                self.most[b] = (found, a);
            }
        }
    }

    #[inline(always)]
    fn common(&mut self, a: usize, b: usize) -> u32 {
        self.effort += self.sets.stride;
        count_common(self.sets.row(a), self.sets.row(b))
    }
}

/// Sets of places: one row of bits for each, all of one length.
#[derive(Clone, Debug)]
pub(crate) struct Sets {
    pub(crate) stride: usize,
    pub(crate) words: Vec<u64>,
}

impl Sets {
    /// Returns the terms of sums as sets; all places are below `places`.
    pub(crate) fn of(sums: &[Sum], places: usize) -> Sets {
        let mut sets = Sets::new(sums.len(), places);
        for (row, sum) in sums.iter().enumerate() {
            sum.terms.iter().for_each(|&term| sets.toggle(row, term));
        }
        sets
    }

    /// Returns empty sets, of places below `places`.
    pub(crate) fn new(rows: usize, places: usize) -> Sets {
        let stride = places.div_ceil(64).max(1);
        Sets { stride, words: vec![0; rows * stride] }
    }

    #[inline(always)]
    pub(crate) fn row(&self, row: usize) -> &[u64] {
        &self.words[row * self.stride..][..self.stride]
    }

    #[inline(always)]
    fn row_mut(&mut self, row: usize) -> &mut [u64] {
        &mut self.words[row * self.stride..][..self.stride]
    }

    #[inline(always)]
    pub(crate) fn toggle(&mut self, row: usize, place: u32) {
        self.words[row * self.stride + place as usize / 64] ^= 1 << (place % 64);
    }

    /// True if a row contains all places of a set.
    #[inline(always)]
    fn has(&self, row: usize, set: &[u64]) -> bool {
        self.row(row).iter().zip(set).all(|(word, part)| part & !word == 0)
    }

    /// Extends the rows so that they can contain a place.
    fn make_room(&mut self, place: u32) {
        let stride = place as usize / 64 + 1;
        if stride > self.stride {
            let rows = self.words.len() / self.stride;
            let mut wider = vec![0; rows * stride];
            for (to, from) in wider.chunks_exact_mut(stride).zip(self.words.chunks_exact(self.stride)) {
                to[..self.stride].copy_from_slice(from);
            }
            (self.stride, self.words) = (stride, wider);
        }
    }

    fn insert(&mut self, at: usize, row: &[u64]) {
        let at = at * self.stride;
        self.words.splice(at..at, row.iter().copied());
    }
}

/// Returns the places in a set, ascending.
#[inline(always)]
pub(crate) fn bits(set: &[u64]) -> impl Iterator<Item = u32> + '_ {
    set.iter().zip(0..).flat_map(|(&word, at)| {
        let mut rest = word;
        std::iter::from_fn(move || {
            let bit = (rest != 0).then(|| 64 * at + rest.trailing_zeros());
            rest &= rest.wrapping_sub(1);
            bit
        })
    })
}

#[inline(always)]
fn count(set: &[u64]) -> u32 {
    let mut count = 0;
    for word in set {
        count += word.count_ones();
    }
    count
}

/// Counts the common places of two sets. It is a loop, because parts of iterators may be compiled
/// as separate functions, without the instruction that counts bits.
#[inline(always)]
fn count_common(a: &[u64], b: &[u64]) -> u32 {
    let mut count = 0;
    for i in 0..a.len().min(b.len()) {
        count += (a[i] & b[i]).count_ones();
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_of(terms: &[u32]) -> Vec<u64> {
        let mut set = vec![0; terms.iter().max().map_or(0, |&most| most as usize / 64 + 1)];
        terms.iter().for_each(|&t| set[t as usize / 64] |= 1 << (t % 64));
        set
    }

    fn contains(set: &[u64], term: u32) -> bool {
        set.get(term as usize / 64).is_some_and(|word| word >> (term % 64) & 1 == 1)
    }

    /// The reference: finds common parts by comparing all pairs again each time.
    fn shared_plainly(mut sums: Vec<Sum>, mut next: u32) -> Vec<Sum> {
        loop {
            let sets: Vec<Vec<u64>> = sums.iter().map(|sum| set_of(&sum.terms)).collect();
            let (mut size, mut pair) = (1, (0, 0));
            for b in 1..sets.len() {
                for a in 0..b {
                    let found = count_common(&sets[a], &sets[b]);
                    if found > size {
                        (size, pair) = (found, (a, b));
                    }
                }
            }
            if size < 2 {
                return sums;
            }
            let part: Vec<u64> = sets[pair.0].iter().zip(&sets[pair.1]).map(|(x, y)| x & y).collect();
            let users: Vec<usize> =
                (0..sets.len()).filter(|&s| count_common(&sets[s], &part) == size).collect();
            let first = users[0];
            let lends = sums[first].terms.len() as u32 == size;
            let out = if lends { sums[first].out } else { next };
            for &user in users.iter().skip(usize::from(lends)) {
                sums[user].terms.retain(|&t| !contains(&part, t));
                sums[user].terms.push(out);
                sums[user].terms = odd(std::mem::take(&mut sums[user].terms));
            }
            if !lends {
                let terms: Vec<u32> = (0..next).filter(|&t| contains(&part, t)).collect();
                sums.insert(first, Sum { out, terms });
                next += 1;
            }
        }
    }

    /// Returns the buffer of a place, or a number above those of all buffers.
    fn number(shared: &SharedSums, place: u32) -> usize {
        shared.buffers().get(place as usize).copied().unwrap_or(1_000_000 + place as usize)
    }

    #[test]
    fn sums_come_to_what_was_asked_for() {
        use crate::sum_graph::tests::{dense, evaluated};
        let mut steps = dense(10, 3, 8);
        // Two sums are equal: the result of one is used by the other.
        steps[7].1 = steps[3].1.clone();
        let shared = SharedSums::new(&steps);
        assert!(shared.places() > shared.buffers().len(), "there are common parts");
        let made: Vec<(usize, Vec<usize>)> = shared
            .sums()
            .iter()
            .map(|sum| (number(&shared, sum.out), sum.terms.iter().map(|&t| number(&shared, t)).collect()))
            .collect();
        let (made, wanted) = (evaluated(&made), evaluated(&steps));
        assert!(wanted.iter().all(|(target, sum)| made[target] == *sum));
    }

    #[test]
    fn updated_common_parts_equal_those_found_by_comparing_all_pairs() {
        let mut random = crate::sum_graph::tests::below(7);
        let mut below = |n: u32| random(n as usize) as u32;
        let (mut parts, mut lent) = (0, 0);
        for _ in 0..if cfg!(miri) { 3 } else { 400 } {
            let (count, sources) = (1 + below(24), 2 + below(90));
            let groups: Vec<Vec<u32>> =
                (0..3).map(|_| (0..below(9)).map(|_| below(sources)).collect()).collect();
            // Sums of sources, of groups of sources that several sums share, and of earlier sums.
            let sums = |below: &mut dyn FnMut(u32) -> u32| -> Vec<Sum> {
                (0..count)
                    .map(|i| {
                        let mut terms: Vec<u32> = (0..below(8)).map(|_| below(sources + i)).collect();
                        groups.iter().filter(|_| below(3) == 0).for_each(|group| terms.extend(group));
                        Sum { out: sources + i, terms: odd(terms) }
                    })
                    .collect()
            };
            let begin = sums(&mut below);
            let copy = begin.iter().map(|sum| Sum { out: sum.out, terms: sum.terms.clone() }).collect();
            let (found, wanted) = (shared(begin, sources + count), shared_plainly(copy, sources + count));
            let flat = |sums: &[Sum]| sums.iter().map(|s| (s.out, s.terms.clone())).collect::<Vec<_>>();
            assert_eq!(flat(&found), flat(&wanted));
            parts += found.len() - count as usize;
            let takes = |sum: &Sum| sum.terms.iter().any(|&t| t >= sources && t < sources + count);
            lent += found.iter().filter(|sum| takes(sum)).count();
        }
        assert!(cfg!(miri) || parts > 200 && lent > 200, "{parts} parts, {lent} lent");
    }

    #[test]
    fn sums_are_right_at_every_limit_of_work() {
        // Sum i has three places for each bit that is set in i.
        let (count, bits) = (30u32, 5u32);
        let places = |i: u32| (0..3 * bits).filter(move |place| i >> (place / 3) & 1 == 1);
        let sums = || -> Vec<Sum> {
            (0..count).map(|i| Sum { out: 3 * bits + i, terms: places(i).collect() }).collect()
        };
        let of = |effort: usize| {
            let found = shared_within(effort, sums(), 3 * bits + count);
            let mut value: Vec<u64> = (0..64).map(|place| 1 << (place % 64)).collect();
            value.resize(1000, 0);
            for sum in &found {
                value[sum.out as usize] = sum.terms.iter().fold(0, |total, &t| total ^ value[t as usize]);
            }
            for i in 0..count {
                let wanted = places(i).fold(0, |total, place| total | 1u64 << place);
                assert_eq!(value[(3 * bits + i) as usize], wanted, "sum {i}, effort {effort}");
            }
            found.iter().map(|sum| sum.terms.len()).sum::<usize>()
        };
        let terms: Vec<usize> = (450..2500).step_by(50).map(of).collect();
        let (all, least) = (terms[0], of(SHARING_EFFORT));
        assert!(terms.is_sorted_by(|a, b| a >= b) && terms.last() == Some(&least));
        assert!(terms.iter().filter(|&&terms| least < terms && terms < all).count() > 3, "{terms:?}");
    }

    #[test]
    fn sums_beyond_the_limit_of_work_are_left_unchanged() {
        let sums = (0..6000).map(|i| Sum { out: 10 + i, terms: vec![0, 1, 2, 3] }).collect();
        assert!(shared(sums, 6010).iter().all(|sum| sum.terms == [0, 1, 2, 3]));
    }
}
