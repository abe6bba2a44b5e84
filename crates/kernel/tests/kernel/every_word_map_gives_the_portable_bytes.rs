//! Claim: every tier maps and splits words, and joins and maps rows, as the definition does, at
//! every length, and joining by the inverse map gives the words back.

use crate::common::{Random, first_unpainted, paint};
use pantile_kernel::{Tier, WordMap};

/// Bytes around a result that must stay as they were painted.
const GUARD_BYTES: usize = 64;

/// A map by random images of bits, and its inverse: each a product of exchanges that are undone in
/// turn.
fn inverse_maps(random: &mut Random, bits: usize) -> [Vec<u32>; 2] {
    let mut images: Vec<u32> = (0..bits).map(|bit| 1 << bit).collect();
    let mut inverse = images.clone();
    for _ in 0..200 {
        // Image i has image j added; in the inverse that comes first.
        let (i, j) = (random.below(bits), random.below(bits));
        if i != j {
            images[i] ^= images[j];
            inverse.iter_mut().for_each(|image| *image ^= (*image >> i & 1) << j);
        }
    }
    [images, inverse]
}

fn image(images: &[u32], word: u32) -> u32 {
    let bits = images.iter().enumerate().filter(|(bit, _)| word >> bit & 1 == 1);
    bits.fold(0, |sum, (_, image)| sum ^ image)
}

/// The rows of words after a map, by the definition.
fn rows_of(words: &[u8], images: &[u32]) -> Vec<u8> {
    let bytes = images.len() / 8;
    let pitch = words.len() / bytes;
    let mut rows = vec![0; words.len()];
    for (at, word) in words.chunks_exact(bytes).enumerate() {
        let number = word.iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte));
        let of_word = image(images, number).to_le_bytes();
        (0..bytes).for_each(|r| rows[r * pitch + at] = of_word[r]);
    }
    rows
}

/// The content that `write` makes in a painted buffer, around which nothing changes.
fn guarded(len: usize, write: impl Fn(&mut [u8])) -> Vec<u8> {
    let mut painted = vec![0; len + 2 * GUARD_BYTES];
    paint(&mut painted, 0);
    write(&mut painted[GUARD_BYTES..][..len]);
    assert_eq!(first_unpainted(&painted[..GUARD_BYTES], 0), None);
    assert_eq!(first_unpainted(&painted[GUARD_BYTES + len..], GUARD_BYTES + len), None);
    painted[GUARD_BYTES..][..len].to_vec()
}

#[test]
fn words_are_split_and_joined_by_every_tier() {
    let mut random = Random(0x77_6f72_6473);
    for bits in [16, 32] {
        let bytes = bits / 8;
        let [images, inverse] = inverse_maps(&mut random, bits);
        let lengths: Vec<usize> = match cfg!(miri) {
            true => vec![0, 1, 5],
            false => (0..=300).chain([511, 512, 1000]).collect(),
        };
        for tier in Tier::available() {
            let [map, back] = [&images, &inverse].map(|images| WordMap::with_tier(tier, images).unwrap());
            assert_eq!(map.bytes(), bytes);
            for &count in &lengths {
                let words: Vec<u8> = (0..bytes * count).map(|_| random.next() as u8).collect();
                let rows = guarded(words.len(), |rows| map.split(&words, rows));
                assert_eq!(rows, rows_of(&words, &images), "{tier}: {count} words of {bits} bits");
                let joined = guarded(words.len(), |words| back.join(&rows, words));
                assert_eq!(joined, words, "{tier}: {count} words of {bits} bits");
            }
        }
    }
}

#[test]
#[should_panic(expected = "a byte of each row is a word")]
fn half_a_word_is_refused() {
    let images: Vec<u32> = (0..16).map(|bit| 1 << bit).collect();
    WordMap::new(&images).split(&[0; 3], &mut [0; 3]);
}
