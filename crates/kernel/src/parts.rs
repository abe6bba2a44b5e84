//! Sums over columns of packets, a few columns at a time.
//!
//! Packets that begin at the same place of their pages lie in the same sets of the first-level cache. Where more columns are read than a set has ways, and each
//! line several times, a straight line ([`crate::straight`]) finds none of them there again. So the columns are taken in parts, each few enough, and every
//! part but the last leaves its sums to the next one, in a column of its own that is always near.
//!
//! Invariants: what a part reads of columns is what it says; a sum that is left is written before it is read; targets are written by the last part alone.

use crate::packets::Packets;
use crate::sums::Steps;

/// Columns that a part reads at most: with the sums that it is given and those that it leaves they fit the 8 ways of a set. Zen 3, 64 KiB page-aligned, encode, share of the limit with 3, 4, 5, 6 columns and all at once:
/// crs:10+4 0.38, 0.38, 0.43, 0.41, 0.37, with w=4 0.50, 0.52, 0.55, 0.51, 0.36; crs:16+4 0.36, 0.37, 0.37, 0.33, 0.20.
const COLUMNS_MOST: usize = 5;

/// Columns that are read and written at once, if there are no more. In two parts (9 columns) crs:6+3 loses a quarter, 7+3, 6+4 and 8+3 are as fast; 8+4 (12) goes from
/// 0.38 of the limit to 0.40 at 4 KiB and from 0.50 to 0.42 at 64 KiB, with w=4 from 0.39 to 0.54 and from 0.56 to 0.57, and decodes 0.7 to 1.8 times as fast.
const COLUMNS_TOGETHER: usize = 10;

/// The parts of a program.
#[derive(Debug)]
#[cfg_attr(
    not(all(target_arch = "x86_64", not(miri))),
    allow(dead_code, reason = "no vectors look at all of it here")
)]
pub(crate) struct Parts {
    /// The columns of the program, and then one of sums for each part but the last.
    pub(crate) packets: Packets,
    /// How many of them are the program's.
    pub(crate) own: usize,
    pub(crate) steps: Vec<Steps>,
}

impl Parts {
    /// `None` if there are so few columns that nothing is gained, or too many buffers.
    pub(crate) fn new(steps: &Steps, packets: &Packets) -> Option<Parts> {
        let own = packets.columns();
        let mut is_target = vec![false; packets.buffers()];
        steps.iter().for_each(|(target, _)| is_target[*target] = true);
        let column = |buffer: usize| packets.cell(buffer).0;
        let distinct = |mut columns: Vec<usize>| {
            columns.sort_unstable();
            columns.dedup();
            columns
        };
        let read = steps.iter().flat_map(|(_, terms)| terms).filter(|&&term| !is_target[term]);
        let columns = distinct(read.map(|&term| column(term)).collect());
        let written = distinct(steps.iter().map(|(target, _)| column(*target)).collect());
        let count = columns.len().div_ceil(COLUMNS_MOST);
        if count < 2 || columns.len() + written.len() <= COLUMNS_TOGETHER {
            return None;
        }
        // What is a target itself is there only when the last part has made it.
        let part_of = |buffer: usize| match is_target[buffer] {
            true => count - 1,
            false => columns.partition_point(|&c| c < column(buffer)) * count / columns.len(),
        };
        let rows = (0..own).map(|column| packets.rows(column));
        let rows: Vec<usize> = rows.chain(vec![steps.len(); count - 1]).collect();
        let left = |part: usize, step: usize| packets.buffers() + part * steps.len() + step;
        let of_part = |part: usize| {
            let step = |(step, (target, terms)): (usize, &(usize, Vec<usize>))| {
                let own = terms.iter().copied().filter(|&t| part_of(t) == part);
                let given = part.checked_sub(1).map(|before| left(before, step));
                (
                    if part + 1 < count { left(part, step) } else { *target },
                    given.into_iter().chain(own).collect(),
                )
            };
            steps.iter().enumerate().map(step).collect()
        };
        let packets = Packets::new(&rows, packets.bytes().try_into().ok()?).ok()?;
        Some(Parts { packets, own, steps: (0..count).map(of_part).collect() })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// `m` columns of dense sums of `k`, each of `rows` buffers; the last sum has one more term, the one before it.
    pub(crate) fn dense(k: usize, m: usize, rows: usize) -> Steps {
        let mixed = |number: usize| (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let is_term = |target: usize, source: usize| {
            (mixed(target) ^ mixed(source).rotate_left(29)).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 63 == 1
        };
        let mut steps: Steps = (0..m * rows)
            .map(|t| (k * rows + t, (0..k * rows).filter(|&source| is_term(t, source)).collect()))
            .collect();
        if let [.., before, last] = &mut steps[..] {
            last.1.push(before.0);
        }
        steps
    }

    /// Each target, and what was there before that it is the sum of.
    pub(crate) fn evaluated(steps: &[(usize, Vec<usize>)]) -> BTreeMap<usize, BTreeSet<usize>> {
        let mut made: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for (target, terms) in steps {
            let of_term = |term: &usize| made.get(term).cloned().unwrap_or_else(|| BTreeSet::from([*term]));
            let sum = terms.iter().map(of_term).fold(BTreeSet::new(), |sum, of_term| &sum ^ &of_term);
            assert!(made.insert(*target, sum).is_none(), "nothing is written twice");
        }
        made
    }

    fn packets(k: usize, m: usize, rows: usize) -> Packets {
        Packets::new(&vec![rows; k + m], 64.try_into().unwrap()).unwrap()
    }

    #[test]
    fn parts_make_the_same_sums_of_few_columns_each() {
        for (k, m, rows, count) in [(8, 3, 8, 2), (10, 4, 4, 2), (11, 4, 3, 3), (16, 4, 8, 4), (20, 4, 8, 4)]
        {
            let (steps, packets) = (dense(k, m, rows), packets(k, m, rows));
            let parts = Parts::new(&steps, &packets).unwrap();
            assert_eq!((parts.steps.len(), parts.own), (count, k + m));
            for (number, part) in parts.steps.iter().enumerate() {
                let column = |&buffer: &usize| parts.packets.cell(buffer).0;
                let read: BTreeSet<usize> = part.iter().flat_map(|(_, terms)| terms).map(column).collect();
                assert!(read.iter().filter(|&&column| column < k).count() <= COLUMNS_MOST, "{read:?}");
                let is_last = number + 1 == count;
                let is_own = |(target, _): &(usize, Vec<usize>)| column(target) < k + m;
                assert!(
                    part.iter().all(|step| is_own(step) == is_last),
                    "the last one alone writes columns of the program"
                );
            }
            let (made, wanted) = (evaluated(&parts.steps.concat()), evaluated(&steps));
            assert!(wanted.iter().all(|(target, sum)| made[target] == *sum));
        }
    }

    #[test]
    fn few_columns_are_not_parted() {
        assert!(Parts::new(&dense(5, 8, 8), &packets(5, 8, 8)).is_none());
        assert!(Parts::new(&dense(6, 4, 8), &packets(6, 4, 8)).is_none());
        assert!(Parts::new(&Vec::new(), &packets(9, 1, 2)).is_none());
    }
}
