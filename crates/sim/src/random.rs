//! The only source of random choices: the same seed gives the same choices on every machine.
//!
//! The generator is splitmix64 (Steele, Lea, Flood 2014). It uses no floating point, so that no
//! mathematics library can make two machines choose differently.

/// A stream of choices.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Makes the stream of a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number in `0..bound`; 0 if the range is empty. The bias is below bound / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number in `least..=most`.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// Returns true in `of` out of `among` cases.
    pub fn chance(&mut self, of: u64, among: u64) -> bool {
        self.below(among) < of
    }

    /// Returns a number in `0..bound` whose order of magnitude is uniform: small numbers are hot,
    /// much as in Zipf's law.
    pub fn skewed(&mut self, bound: u64) -> u64 {
        let magnitude = self.below(u64::from(u64::BITS - bound.leading_zeros()) + 1);
        self.below(bound.min(1 << magnitude.min(63)))
    }

    /// Returns a random element; `None` if there is none.
    pub fn pick<'a, T>(&mut self, among: &'a [T]) -> Option<&'a T> {
        if among.is_empty() { None } else { Some(&among[self.below(among.len() as u64) as usize]) }
    }

    /// Returns an independent stream, so that more choices in one part of the world do not change
    /// those of another part.
    pub fn fork(&mut self) -> Random {
        Random(self.bits())
    }
}

/// Spreads a number over 64 bits, one to one.
pub(crate) fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Returns a hash of bytes. It is no CRC: blocks that end in their own CRC would all have the same.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(bytes.len() as u64, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(hash.rotate_left(5) ^ u64::from_le_bytes(word))
    })
}

/// Returns a cheaper hash of bytes that are whole words. It is no CRC either.
pub(crate) fn hash_words(bytes: &[u8]) -> u64 {
    let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    mix(words.fold(bytes.len() as u64, |hash, word| {
        (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_that_of_splitmix64() {
        let mut random = Random::new(1234567);
        let first = [random.bits(), random.bits(), random.bits()];
        assert_eq!(first, [6457827717110365317, 3203168211198807973, 9817491932198370423]);
    }

    #[test]
    fn blocks_that_end_in_their_own_checksum_have_different_hashes() {
        let sealed = |value: u8| {
            let mut block = vec![value; 504];
            block.extend(pantile_format::Crc64::of(&block).0.to_le_bytes());
            block
        };
        assert_eq!(pantile_format::Crc64::of(&sealed(1)), pantile_format::Crc64::of(&sealed(2)));
        assert_ne!(hash(&sealed(1)), hash(&sealed(2)));
    }

    #[test]
    fn choices_stay_in_range_and_reach_both_ends() {
        let mut random = Random::new(1);
        let mut seen = [false; 10];
        (0..1000).for_each(|_| seen[random.skewed(10) as usize] = true);
        assert_eq!(seen, [true; 10]);
        assert!((0..1000).all(|_| (3..=5).contains(&random.between(3, 5))));
        assert!((0..1000).all(|_| !random.chance(0, 7) && random.chance(7, 7)));
    }
}
