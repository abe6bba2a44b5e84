//! Sums three at a time, as they come: what runs first, until rows or code are worth making.
//!
//! A *bundle* has three sums at most. Each buffer that any of them reads is in one of seven lists, by which of the three read it, so that it is read once for
//! all; a list is added up and then added to its sums. Sums that have half of all buffers read 7 so where each on its own reads 12, without a search for what they have in common.
//! Steps share a bundle if they follow one another and none reads what one before it makes.
//!
//! Invariants: the sums come to what the steps say; all of a bundle is read before any of it is stored.

use std::ops::BitXor;

/// Sums of a bundle at most.
pub(crate) const SUMS_MOST: usize = 3;

/// Lists of a bundle.
pub(crate) const LISTS: usize = (1 << SUMS_MOST) - 1;

/// Up to three sums: first their lists, then their targets lie in the places of [`Bundles`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bundle {
    /// Places of each list; the first is read by the first sum alone, the one numbered `i` by those whose bits `i + 1` has.
    pub(crate) lens: [u32; LISTS],
    pub(crate) sums: usize,
    /// A bit for each sum that no later bundle reads.
    pub(crate) last: u32,
}

/// Steps as bundles.
#[derive(Debug)]
pub(crate) struct Bundles {
    bundles: Vec<Bundle>,
    places: Vec<u32>,
}

/// The bytes of each buffer that a loop takes: `bytes` of every one of so many packets, which begin `pitch` bytes apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    pub(crate) packets: usize,
    pub(crate) pitch: usize,
    pub(crate) bytes: usize,
}

/// In what a buffer has been seen for the bundle that is made: a bit for each sum that reads it, and one of its own.
const SEEN: u8 = 1 << SUMS_MOST;

impl Bundles {
    /// `steps`: each a target and the buffers whose sum it is, in an order in which they can be done. A buffer that stands twice in a sum is not in it.
    ///
    /// Cost: some nanoseconds for each buffer of a sum.
    pub(crate) fn new(steps: &[(usize, Vec<usize>)]) -> Bundles {
        let named = steps.iter().flat_map(|(target, terms)| terms.iter().chain([target]));
        let buffers = named.max().map_or(0, |most| most + 1);
        let mut made = Bundles {
            bundles: Vec::with_capacity(steps.len()),
            places: Vec::with_capacity(steps.iter().map(|(_, terms)| terms.len() + 1).sum()),
        };
        let mut readers = vec![0u8; buffers];
        let mut rest = steps;
        while !rest.is_empty() {
            let sums = (1..SUMS_MOST.min(rest.len()))
                .find(|&next| {
                    rest[next].1.iter().any(|term| rest[..next].iter().any(|(made, _)| made == term))
                })
                .unwrap_or(SUMS_MOST.min(rest.len()));
            let (bundle, later) = rest.split_at(sums);
            made.push(bundle, &mut readers);
            rest = later;
        }
        made.mark_last();
        made
    }

    /// Leaves `readers` as it was: zeros.
    fn push(&mut self, steps: &[(usize, Vec<usize>)], readers: &mut [u8]) {
        let mut bundle = Bundle { sums: steps.len(), ..Bundle::default() };
        // First all buffers that are read, as they come; then by lists.
        let mut seen = Vec::with_capacity(steps.iter().map(|(_, terms)| terms.len()).sum());
        for (sum, (_, terms)) in steps.iter().enumerate() {
            for &term in terms {
                if readers[term] == 0 {
                    seen.push(term as u32);
                    readers[term] = SEEN;
                }
                readers[term] ^= 1 << sum;
            }
        }
        let list = |readers: &[u8], place: u32| usize::from(readers[place as usize] & !SEEN).checked_sub(1);
        for &place in &seen {
            if let Some(list) = list(readers, place) {
                bundle.lens[list] += 1;
            }
        }
        let first = self.places.len();
        let mut next = [first; LISTS];
        for list in 1..LISTS {
            next[list] = next[list - 1] + bundle.lens[list - 1] as usize;
        }
        self.places.resize(next[LISTS - 1] + bundle.lens[LISTS - 1] as usize, 0);
        for &place in &seen {
            if let Some(list) = list(readers, place) {
                self.places[next[list]] = place;
                next[list] += 1;
            }
            readers[place as usize] = 0;
        }
        self.places.extend(steps.iter().map(|(target, _)| *target as u32));
        self.bundles.push(bundle);
    }

    /// Finds what is not read again.
    fn mark_last(&mut self) {
        let mut is_read = vec![false; self.places.iter().max().map_or(0, |&most| most as usize + 1)];
        let mut end = self.places.len();
        for bundle in self.bundles.iter_mut().rev() {
            let targets = end - bundle.sums;
            for (sum, &target) in self.places[targets..end].iter().enumerate() {
                bundle.last |= u32::from(!is_read[target as usize]) << sum;
            }
            let first = targets - bundle.lens.iter().sum::<u32>() as usize;
            self.places[first..targets].iter().for_each(|&place| is_read[place as usize] = true);
            end = first;
        }
    }

    #[cfg_attr(
        not(all(target_arch = "x86_64", not(miri))),
        allow(dead_code, reason = "no engine runs it here")
    )]
    pub(crate) fn bundles(&self) -> &[Bundle] {
        &self.bundles
    }

    /// The buffers of every bundle: list by list, then its targets.
    pub(crate) fn places(&self) -> &[u32] {
        &self.places
    }
}

/// Does what loops of vectors leave of every packet, from its byte number `from` on: by eight bytes, and one by one.
///
/// # Safety
///
/// The table is as long as [`Bundles::places`], and each of its pointers valid for reads and writes of those bytes.
pub(crate) unsafe fn bundle_bytes(bundles: &Bundles, table: &[*mut u8], from: usize, walk: Walk) {
    assert_eq!(table.len(), bundles.places.len());
    for packet in 0..walk.packets {
        let (mut at, end) = (packet * walk.pitch + from, packet * walk.pitch + walk.bytes);
        while end - at >= size_of::<u64>() {
            // SAFETY: the caller's promise.
            unsafe { word::<u64>(bundles, table, at) };
            at += size_of::<u64>();
        }
        while at < end {
            // SAFETY: as above.
            unsafe { word::<u8>(bundles, table, at) };
            at += 1;
        }
    }
}

/// Does the word at this byte of all buffers.
///
/// # Safety
///
/// As [`bundle_bytes`], for the word.
unsafe fn word<T: Copy + Default + BitXor<Output = T>>(bundles: &Bundles, table: &[*mut u8], at: usize) {
    let mut rest = table;
    for bundle in &bundles.bundles {
        let mut sums = [T::default(); SUMS_MOST];
        for (list, &len) in bundle.lens.iter().enumerate() {
            let (own, later) = rest.split_at(len as usize);
            for place in own {
                // SAFETY: the caller's promise.
                let read = unsafe { place.add(at).cast::<T>().read_unaligned() };
                let of_sum = |sum: usize| (list + 1) >> sum & 1 == 1;
                (0..SUMS_MOST).filter(|&sum| of_sum(sum)).for_each(|sum| sums[sum] = sums[sum] ^ read);
            }
            rest = later;
        }
        let (targets, later) = rest.split_at(bundle.sums);
        for (target, sum) in targets.iter().zip(sums) {
            // SAFETY: as above.
            unsafe { target.add(at).cast::<T>().write_unaligned(sum) };
        }
        rest = later;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::Sweep;
    use crate::parts::tests::dense;
    use crate::tier::Tier;
    use crate::weave::tests::{contents, steps};

    type Steps = Vec<(usize, Vec<usize>)>;

    /// The buffers of a bundle, list by list, and its targets.
    fn parted(bundles: &Bundles) -> Vec<(Vec<Vec<u32>>, Vec<u32>)> {
        let mut places = bundles.places.iter().copied();
        let mut take = |n: usize| places.by_ref().take(n).collect::<Vec<u32>>();
        let of = |bundle: &Bundle| {
            (bundle.lens.iter().map(|&len| take(len as usize)).collect(), take(bundle.sums))
        };
        let parted = bundles.bundles.iter().map(of).collect();
        assert_eq!(places.next(), None);
        parted
    }

    /// Does them on packets of so many bytes, by all tiers, and compares with the steps.
    fn check(steps: &Steps, walk: Walk, shift: usize, streaming: bool) -> Bundles {
        let bundles = Bundles::new(steps);
        let (begin, wanted) = contents(steps);
        let cells = begin.len();
        let pitch = walk.pitch.max(walk.bytes);
        for sweep in Tier::available().into_iter().map(Sweep::new) {
            let stride = (pitch * walk.packets + shift).next_multiple_of(64) + 64;
            let mut memory = vec![0x55u8; cells * stride + 64];
            let start = memory.as_ptr().align_offset(64) + shift;
            let at = |cell: usize, packet: usize| start + cell * stride + packet * pitch;
            let each = || (0..cells).flat_map(|cell| (0..walk.packets).map(move |packet| (cell, packet)));
            let fill = |memory: &mut [u8], cells: &[[u8; 3]]| {
                for (cell, packet) in each() {
                    let bytes = &mut memory[at(cell, packet)..][..walk.bytes];
                    bytes.iter_mut().zip(packet..).for_each(|(byte, i)| *byte = cells[cell][i % 3]);
                }
            };
            fill(&mut memory, &begin);
            let mut made = memory.clone();
            fill(&mut made, &wanted);
            let base = memory.as_mut_ptr();
            let table: Vec<*mut u8> =
                bundles.places.iter().map(|&cell| base.wrapping_add(at(cell as usize, 0))).collect();
            // SAFETY: cells lie side by side, and have room for all packets.
            unsafe {
                match sweep {
                    Some(sweep) => sweep.run_bundles(&bundles, &table, streaming, walk),
                    None => bundle_bytes(&bundles, &table, 0, walk),
                }
            }
            assert!(memory == made, "{sweep:?}, {walk:?}");
        }
        bundles
    }

    const ONE: Walk = Walk { packets: 1, pitch: 0, bytes: 1 };

    #[test]
    fn bundles_come_to_the_steps() {
        for bytes in (1..if cfg!(miri) { 3 } else { 300 }).chain([512]) {
            let walk = Walk { packets: 3, pitch: 5 * bytes, bytes };
            check(&dense(4, 2, 3), walk, bytes % 5, false);
            check(&steps(4, 5, false), walk, 0, bytes % 64 == 0);
        }
        for (k, m, rows) in [(3, 2, 2), (6, 3, 4), (10, 4, 4)] {
            check(&dense(k, m, rows), ONE, 0, false);
        }
        // Chains, what stands twice, sums of nothing, and a target that is a source of its own sum.
        check(
            &vec![(20, vec![0, 1, 2]), (21, vec![20, 0, 1, 2, 3]), (22, vec![21, 20, 4]), (23, vec![22, 0])],
            ONE,
            0,
            false,
        );
        check(
            &vec![(9, vec![0, 0, 1]), (10, vec![]), (11, vec![9, 9]), (12, vec![10, 0, 0, 0])],
            ONE,
            0,
            false,
        );
        assert!(Bundles::new(&[]).bundles.is_empty());
    }

    #[test]
    fn random_bundles_come_to_the_steps() {
        let mut below = crate::weave::tests::below(5);
        for _ in 0..if cfg!(miri) { 3 } else { 200 } {
            let (buffers, sums, sparse) = (1 + below(60), 1 + below(20), 1 + below(4));
            let steps: Steps = (0..sums)
                .map(|i| (buffers + i, (0..buffers + i).filter(|_| below(sparse) == 0).collect()))
                .collect();
            let bytes = 1 + below(130);
            check(&steps, Walk { packets: 1 + below(3), pitch: bytes + below(70), bytes }, below(64), false);
        }
    }

    #[test]
    fn a_bundle_reads_each_buffer_once_and_nothing_that_it_makes() {
        let steps = dense(10, 4, 4);
        let parts = parted(&Bundles::new(&steps));
        assert_eq!(parts.iter().map(|(_, targets)| targets.len()).collect::<Vec<_>>(), [3, 3, 3, 3, 3, 1]);
        for (lists, _) in &parts {
            let mut all = lists.concat();
            let len = all.len();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), len);
        }
        let chain =
            vec![(9, vec![0, 1]), (10, vec![1, 2]), (11, vec![9, 3]), (12, vec![10, 3]), (13, vec![3])];
        let bundles = Bundles::new(&chain);
        let targets: Vec<Vec<u32>> = parted(&bundles).into_iter().map(|(_, targets)| targets).collect();
        assert_eq!(targets, [vec![9, 10], vec![11, 12, 13]]);
        // What is read again is not stored past the cache.
        assert_eq!(bundles.bundles.iter().map(|bundle| bundle.last).collect::<Vec<_>>(), [0, 0b111]);
    }
}
