//! Metadata stored in several copies, combined from the undamaged parts of each copy.
//!
//! A set has its manifest in every shard, and its header two or three times in each. Damage seldom
//! hits the same part of all copies. Manifest and check table have a checksum for each piece, so an
//! intact copy of a piece can be used by itself. Headers have one checksum for the whole: the
//! places where the copies differ are found, and combinations of their contents are tried until the
//! checksum matches.
//!
//! Invariant: nothing is returned whose checksum does not match. With a checksum of 64 bits and at
//! most `TRIES_MOST` combinations, the probability of an error is 1 in 2^51.

use crate::Crc64;

/// Length of a piece: the bytes of the manifest or of a check table that one checksum covers.
pub const PIECE_BYTES: u64 = 4096;

/// Length of the units in which copies are compared. Shorter than a sector, and long enough that
/// damaged units do not agree by chance.
const GRAIN_BYTES: usize = 64;

/// The most combinations that are tried.
const TRIES_MOST: u64 = 1 << 13;

/// The most bytes of all combinations that are tried, except the first of each call, which is
/// always tried. That is less than a second of checksums, however long the copies are.
const TRIED_BYTES_MOST: u64 = 4 << 30;

/// Returns the checksums of the pieces of some bytes. The last piece may be shorter.
pub fn piece_sums(bytes: &[u8]) -> Vec<Crc64> {
    bytes.chunks(PIECE_BYTES as usize).map(Crc64::of).collect()
}

/// Returns the number of pieces that so many bytes have.
pub fn pieces_of(len: u64) -> u64 {
    len.div_ceil(PIECE_BYTES)
}

/// A run of bytes in which the same copies agree with each other from end to end.
struct Region {
    from: usize,
    to: usize,
    /// For each distinct content the first copy that has it, the most frequent content first.
    variants: Vec<usize>,
}

/// Combines damaged copies of one content into bytes that `is_good` accepts. The copies have equal
/// lengths.
///
/// `None` if no combination that was tried is good. Cost: at most `TRIES_MOST` checks of
/// `TRIED_BYTES_MOST` bytes in all; one check if in each place at most a minority of the copies is
/// damaged.
pub fn combine(copies: &[&[u8]], is_good: impl FnMut(&[u8]) -> bool) -> Option<Vec<u8>> {
    combine_within(copies, &mut { TRIED_BYTES_MOST }, is_good)
}

/// Works like [`combine`], within the remaining bytes that may be tried.
fn combine_within(
    copies: &[&[u8]],
    left_bytes: &mut u64,
    mut is_good: impl FnMut(&[u8]) -> bool,
) -> Option<Vec<u8>> {
    let first = *copies.first()?;
    if copies.iter().any(|copy| copy.len() != first.len()) {
        return None;
    }
    // With two copies, two adjacent damaged places look like one. So each grain is chosen by itself
    // if the number of combinations permits that.
    let fine = regions(copies, false);
    let choices =
        fine.iter().fold(1u64, |product, region| product.saturating_mul(region.variants.len() as u64));
    let regions = if choices <= TRIES_MOST { fine } else { regions(copies, true) };
    let mut bytes = first.to_vec();
    let put = |bytes: &mut Vec<u8>, region: &Region, variant: usize| {
        bytes[region.from..region.to]
            .copy_from_slice(&copies[region.variants[variant]][region.from..region.to]);
    };
    regions.iter().for_each(|region| put(&mut bytes, region, 0));
    let mut choice = vec![0; regions.len()];
    for _ in 0..TRIES_MOST {
        if is_good(&bytes) {
            return Some(bytes);
        }
        *left_bytes = left_bytes.checked_sub(bytes.len() as u64)?;
        // The next combination, counted as a number whose digits are variants.
        let mut at = 0;
        loop {
            let region = regions.get(at)?;
            choice[at] += 1;
            if choice[at] < region.variants.len() {
                put(&mut bytes, region, choice[at]);
                break;
            }
            choice[at] = 0;
            put(&mut bytes, region, 0);
            at += 1;
        }
    }
    None
}

/// Returns the places where the copies differ, by grains, or by runs of grains in which the same
/// copies agree.
fn regions(copies: &[&[u8]], joined: bool) -> Vec<Region> {
    let len = copies[0].len();
    let mut regions: Vec<(Region, Vec<usize>)> = Vec::new();
    for from in (0..len).step_by(GRAIN_BYTES) {
        let to = (from + GRAIN_BYTES).min(len);
        // For each copy, the first copy that has the same bytes.
        let classes: Vec<usize> = (0..copies.len())
            .map(|i| (0..i).find(|&j| copies[j][from..to] == copies[i][from..to]).unwrap_or(i))
            .collect();
        if classes.iter().all(|&class| class == 0) {
            continue;
        }
        if let Some((region, known)) = regions.last_mut()
            && joined
            && region.to == from
            && *known == classes
        {
            region.to = to;
            continue;
        }
        let count = |variant: usize| classes.iter().filter(|&&class| class == variant).count();
        let mut variants: Vec<usize> = (0..copies.len()).filter(|&i| classes[i] == i).collect();
        variants.sort_by_key(|&variant| std::cmp::Reverse(count(variant)));
        regions.push((Region { from, to, variants }, classes));
    }
    regions.into_iter().map(|(region, _)| region).collect()
}

/// Combines bytes from copies, piece by piece, by the checksums of the pieces. If no copy of a
/// piece is good, its copies are combined; the piece is `None` if that fails, too.
///
/// Copies that are shorter than the whole have only the first pieces.
pub fn combine_pieces(copies: &[&[u8]], len: usize, sums: &[Crc64]) -> Vec<Option<Vec<u8>>> {
    let piece = |index: usize| {
        let from = index * PIECE_BYTES as usize;
        from..(from + PIECE_BYTES as usize).min(len)
    };
    let mut left_bytes = TRIED_BYTES_MOST;
    (0..pieces_of(len as u64) as usize)
        .map(|index| {
            let sum = *sums.get(index)?;
            let there: Vec<&[u8]> = copies.iter().filter_map(|copy| copy.get(piece(index))).collect();
            let whole = there.iter().find(|bytes| Crc64::of(bytes) == sum).map(|bytes| bytes.to_vec());
            whole.or_else(|| combine_within(&there, &mut left_bytes, |bytes| Crc64::of(bytes) == sum))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn content(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i % 251) as u8 ^ (i / 251) as u8).collect()
    }

    /// Returns copies, each damaged in a part that is intact in others.
    fn damaged(content: &[u8], copies: usize, burst: usize) -> Vec<Vec<u8>> {
        (0..copies)
            .map(|i| {
                let mut copy = content.to_vec();
                let from = content.len() * i / copies;
                let to = (from + burst).min(content.len());
                copy[from..to].iter_mut().for_each(|byte| *byte = byte.wrapping_mul(7) ^ 0x5a);
                copy
            })
            .collect()
    }

    #[test]
    fn copies_damaged_in_different_parts_make_one_good_one() {
        for (copies, len, burst) in [(2, 4096, 500), (2, 10_000, 3000), (3, 4096, 700), (6, 50_000, 4096)] {
            let good = content(len);
            let sum = Crc64::of(&good);
            let bad = damaged(&good, copies, burst);
            let views: Vec<&[u8]> = bad.iter().map(Vec::as_slice).collect();
            assert!(views.iter().all(|copy| Crc64::of(copy) != sum));
            assert_eq!(
                combine(&views, |bytes| Crc64::of(bytes) == sum),
                Some(good),
                "{copies} {len} {burst}"
            );
        }
    }

    #[test]
    fn content_that_no_copy_has_is_not_invented() {
        let good = content(5000);
        let sum = Crc64::of(&good);
        let mut bad = damaged(&good, 3, 600);
        bad.iter_mut().for_each(|copy| copy[77] ^= 1);
        let views: Vec<&[u8]> = bad.iter().map(Vec::as_slice).collect();
        assert_eq!(combine(&views, |bytes| Crc64::of(bytes) == sum), None);
        assert_eq!(combine(&[], |_| true), None);
        assert_eq!(combine(&[&good, &good[1..]], |_| true), None);
    }

    #[test]
    fn long_copies_are_tried_less_often() {
        let good = content(4 << 20);
        let mut bad = good.clone();
        (0..20).for_each(|place| bad[place * 100_000] ^= 1);
        let mut tries = 0u64;
        let mut never = |_: &[u8]| {
            tries += 1;
            false
        };
        assert_eq!(combine(&[&good, &bad], &mut never), None);
        assert_eq!(tries, TRIED_BYTES_MOST / (4 << 20) + 1);
    }

    #[test]
    fn pieces_are_judged_one_by_one() {
        let good = content(3 * 4096 + 100);
        let sums = piece_sums(&good);
        assert_eq!(sums.len() as u64, pieces_of(good.len() as u64));
        // More places are damaged than combinations could be tried for: each piece is combined by
        // itself.
        let mut copies = vec![good.clone(); 2];
        for (i, copy) in copies.iter_mut().enumerate() {
            (0..good.len()).filter(|at| at / 4096 % 2 == i).step_by(130).for_each(|at| copy[at] ^= 0x81);
        }
        let views: Vec<&[u8]> = copies.iter().map(Vec::as_slice).collect();
        let pieces = combine_pieces(&views, good.len(), &sums);
        assert_eq!(pieces.into_iter().flatten().flatten().collect::<Vec<u8>>(), good);
        assert_eq!(combine(&views, |bytes| Crc64::of(bytes) == Crc64::of(&good)), None);
        // A copy that is cut off has the pieces before the cut.
        let cut = combine_pieces(&[&good[..4096 + 5]], good.len(), &sums);
        let is_there: Vec<bool> = cut.iter().map(Option::is_some).collect();
        assert_eq!(is_there, [true, false, false, false]);
    }

    proptest! {
        #[test]
        fn whatever_is_combined_is_good(
            len in 0usize..3000,
            hits in proptest::collection::vec((0usize..3, any::<prop::sample::Index>(), any::<u8>()), 0..12),
        ) {
            let good = content(len);
            let mut copies = vec![good.clone(); 3];
            for (copy, at, value) in hits {
                if len > 0 {
                    copies[copy][at.index(len)] = value;
                }
            }
            let views: Vec<&[u8]> = copies.iter().map(Vec::as_slice).collect();
            if let Some(found) = combine(&views, |bytes| Crc64::of(bytes) == Crc64::of(&good)) {
                prop_assert_eq!(found, good);
            }
        }
    }
}
