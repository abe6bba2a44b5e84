//! Sums for a straight line that is made in the time in which it runs once or twice: a stripe that waits for its first recovery waits for that, too.
//!
//! Of what sums have in common the largest parts are taken, no more of them than there are sums; what a sum shares is looked up again only when it would be next, for
//! mostly it has become less. Sums stay in their order, each part before the first sum that has it.
//!
//! Invariants: the sums come to what the steps say, whatever was taken for a common part.

use crate::dispatch::counting;
use crate::straight::Lists;
use crate::sums::{bits, numbered, odd};
use crate::weave::NONE;

/// Terms of a common part at least: fewer, in two sums, cost as much as they save.
const TERMS_LEAST: u32 = 3;

/// Words of sets that are compared before the first part is taken, at most: some microseconds.
const COMPARED_MOST: usize = 1 << 14;

/// Steps as sums of places, each after those that it needs; and the buffers in use, ascending: the first places.
pub(crate) fn drafted(steps: &[(usize, Vec<usize>)]) -> (Vec<usize>, Lists) {
    let (buffers, place_of) = numbered(steps);
    // With the common parts that there may be.
    let words = (buffers.len() + steps.len()).div_ceil(64);
    let make = match words {
        _ if words * steps.len() * steps.len() / 2 > COMPARED_MOST => as_they_are,
        0..=1 => Draft::<1>::lists,
        2 => Draft::<2>::lists,
        3 => Draft::<3>::lists,
        4 => Draft::<4>::lists,
        5..=8 => Draft::<8>::lists,
        9..=16 => Draft::<16>::lists,
        _ => as_they_are,
    };
    let lists = make(steps, &place_of, buffers.len());
    (buffers, lists)
}

/// Without common parts.
fn as_they_are(steps: &[(usize, Vec<usize>)], place_of: &[u32], buffers: usize) -> Lists {
    let mut lists = Lists::new(buffers);
    for (target, terms) in steps {
        let terms = odd(terms.iter().map(|&term| place_of[term]).collect());
        lists.push(place_of[*target], terms.into_iter());
    }
    lists
}

/// Sums as sets of up to 64 W places.
struct Draft<const W: usize> {
    outs: Vec<u32>,
    sets: Vec<[u64; W]>,
    /// For each sum the most terms that it shared with one before it when that was looked up, and which one.
    most: Vec<(u32, usize)>,
    /// The place of the next part.
    next: u32,
}

impl<const W: usize> Draft<W> {
    fn lists(steps: &[(usize, Vec<usize>)], place_of: &[u32], buffers: usize) -> Lists {
        counting(
            #[inline(always)]
            || {
                let mut draft = Draft::<W>::new(steps, place_of, buffers);
                for _ in 0..steps.len() {
                    draft.take_largest();
                }
                draft.ordered(steps.len())
            },
        )
    }

    #[inline(always)]
    fn new(steps: &[(usize, Vec<usize>)], place_of: &[u32], buffers: usize) -> Draft<W> {
        let room = 2 * steps.len();
        let mut draft = Draft {
            outs: Vec::with_capacity(room),
            sets: Vec::with_capacity(room),
            most: Vec::with_capacity(room),
            next: buffers as u32,
        };
        for (target, terms) in steps {
            let mut set = [0; W];
            terms.iter().for_each(|&term| toggle(&mut set, place_of[term]));
            draft.push(place_of[*target], set);
        }
        draft
    }

    #[inline(always)]
    fn push(&mut self, out: u32, set: [u64; W]) {
        self.outs.push(out);
        self.sets.push(set);
        self.most.push(self.most_shared(self.sets.len() - 1));
    }

    /// The most terms that a sum shares with one before it, and which one.
    #[inline(always)]
    fn most_shared(&self, sum: usize) -> (u32, usize) {
        let mut most = (0, 0);
        let own = &self.sets[sum];
        for (other, set) in self.sets[..sum].iter().enumerate() {
            // Words in a loop: what iterators are made of may be compiled on its own, and without the instruction that counts bits.
            let mut common = 0;
            for i in 0..W {
                common += (own[i] & set[i]).count_ones();
            }
            if common > most.0 {
                most = (common, other);
            }
        }
        most
    }

    /// Computes the largest common part once, if there is one that is large enough.
    #[inline(always)]
    fn take_largest(&mut self) {
        let part: [u64; W] = loop {
            let mut largest = (0, 0);
            for (sum, &(size, _)) in self.most.iter().enumerate() {
                if size > largest.0 {
                    largest = (size, sum);
                }
            }
            let (size, sum) = largest;
            if size < TERMS_LEAST {
                return;
            }
            let found = self.most_shared(sum);
            self.most[sum] = found;
            // Else it has become less, so there is an end.
            if found.0 >= size {
                break std::array::from_fn(|i| self.sets[sum][i] & self.sets[found.1][i]);
            }
        };
        // A sum that is the part itself lends what it comes to. None that has all its terms is one that it needs, for then it would need itself.
        let lender = self.sets.iter().position(|set| *set == part);
        let out = lender.map_or(self.next, |lender| self.outs[lender]);
        for (sum, set) in self.sets.iter_mut().enumerate() {
            let has_all = set.iter().zip(&part).all(|(word, part)| part & !word == 0);
            if has_all && Some(sum) != lender {
                set.iter_mut().zip(&part).for_each(|(word, part)| *word &= !part);
                // It may have been there already: what is added twice is gone.
                toggle(set, out);
            }
        }
        if lender.is_none() {
            self.next += 1;
            self.push(out, part);
        }
    }

    /// The first sums in their order, which are the steps, and each other one where it is needed.
    #[inline(always)]
    fn ordered(&self, steps: usize) -> Lists {
        let mut made_by = vec![NONE; self.next as usize];
        (0..).zip(&self.outs).for_each(|(sum, &out)| made_by[out as usize] = sum);
        let mut lists = Lists::new(self.next as usize);
        // Sums that wait for those above them.
        let mut waiting: Vec<usize> = Vec::new();
        for step in 0..steps {
            waiting.push(step);
            while let Some(&sum) = waiting.last() {
                assert!(waiting.len() <= self.outs.len(), "no sum needs itself");
                let needed = bits(&self.sets[sum]).find(|&term| made_by[term as usize] != NONE);
                match needed {
                    _ if made_by[self.outs[sum] as usize] == NONE => {
                        waiting.pop();
                    }
                    Some(term) => waiting.push(made_by[term as usize] as usize),
                    None => {
                        lists.push(self.outs[sum], bits(&self.sets[sum]));
                        made_by[self.outs[sum] as usize] = NONE;
                        waiting.pop();
                    }
                }
            }
        }
        lists
    }
}

#[inline(always)]
fn toggle<const W: usize>(set: &mut [u64; W], place: u32) {
    set[place as usize / 64] ^= 1 << (place % 64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::tests::{dense, evaluated};

    /// The sums of a draft as steps: places that are no buffers have numbers past those of all.
    fn steps_of(steps: &[(usize, Vec<usize>)]) -> Vec<(usize, Vec<usize>)> {
        let (buffers, lists) = drafted(steps);
        let number = |place: u32| buffers.get(place as usize).copied().unwrap_or(1_000_000 + place as usize);
        (0..lists.outs.len())
            .map(|sum| (number(lists.outs[sum]), lists.terms(sum).iter().map(|&t| number(t)).collect()))
            .collect()
    }

    fn check(steps: &[(usize, Vec<usize>)]) -> Vec<(usize, Vec<usize>)> {
        let drafted = steps_of(steps);
        // What is read is there: a target or a part that came before, or what nothing makes.
        for (at, (_, terms)) in drafted.iter().enumerate() {
            let is_made_later = |term: &usize| drafted[at..].iter().any(|(target, _)| target == term);
            assert!(!terms.iter().any(is_made_later), "{terms:?}");
        }
        let (made, wanted) = (evaluated(&drafted), evaluated(steps));
        assert!(wanted.iter().all(|(target, sum)| made[target] == *sum));
        drafted
    }

    #[test]
    fn drafts_come_to_the_steps() {
        for (k, m, rows) in [(3, 2, 2), (6, 3, 4), (10, 4, 4), (16, 3, 5), (16, 4, 8)] {
            let steps = dense(k, m, rows);
            let parts = check(&steps).len() - steps.len();
            assert!(k == 3 || parts > 0 && parts <= steps.len(), "{parts} parts");
        }
        // A sum that others have whole lends itself, also one that comes later, and one that is there twice.
        let common: Vec<usize> = (0..9).collect();
        let more = |term: usize| common.iter().copied().chain([term]).collect::<Vec<_>>();
        let lent =
            [(20, more(9)), (21, common.clone()), (22, more(10)), (23, common.clone()), (24, vec![20, 3])];
        assert_eq!(check(&lent).len(), lent.len());
        // Chains, terms that stand twice, and sums of nothing.
        check(&[
            (20, vec![0, 1, 2]),
            (21, vec![20, 0, 1, 2, 3]),
            (22, vec![21, 20, 4]),
            (23, vec![22, 0, 1, 2]),
        ]);
        check(&[(9, vec![0, 0, 1]), (10, vec![]), (11, vec![9, 9]), (12, vec![10])]);
    }

    #[test]
    fn random_drafts_come_to_the_steps() {
        let mut below = crate::weave::tests::below(11);
        for _ in 0..if cfg!(miri) { 5 } else { 300 } {
            let (buffers, sums, sparse) = (1 + below(150), 1 + below(40), 1 + below(4));
            let steps: Vec<(usize, Vec<usize>)> = (0..sums)
                .map(|i| (buffers + i, (0..buffers + i).filter(|_| below(sparse) == 0).collect()))
                .collect();
            check(&steps);
        }
    }

    #[test]
    fn what_is_too_much_is_left_as_it_is() {
        let steps: Vec<(usize, Vec<usize>)> = (0..900).map(|i| (10 + i, vec![0, 1, 2, 3])).collect();
        assert_eq!(check(&steps), steps);
        // Two sums that share everything, of more places than a set has.
        let wide: Vec<(usize, Vec<usize>)> = (0..2).map(|i| (2000 + i, (0..1100).collect())).collect();
        assert_eq!(check(&wide), wide);
    }
}
