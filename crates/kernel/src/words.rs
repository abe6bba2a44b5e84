//! Words of 2 or 4 bytes as rows of bytes, with a linear map over bits on the way.
//!
//! Row r has byte r of the image of each word: words split into rows, and rows join to words. With
//! the map of a change of basis a product in a field of words becomes some products of bytes, which
//! all other programs here are made of.

use crate::dispatch::MappedWords;
use crate::error::DotError;
use crate::tier::Tier;
use crate::word_loops::BYTES_MOST;

/// A linear map of words over bits, before they split into rows or after rows have joined.
///
/// Immutable, `Send + Sync` and reusable.
#[derive(Debug)]
pub struct WordMap {
    bytes: usize,
    /// For each byte of a word its image, as long as the others are zero.
    images: Box<[[u32; 256]; BYTES_MOST]>,
    /// `None` of the portable tier.
    mapped: Option<MappedWords>,
}

impl WordMap {
    /// The map under which the word with bit i alone has the image `images[i]`, for
    /// [`Tier::best`].
    ///
    /// # Panics
    ///
    /// Unless there are 16 or 32 images.
    pub fn new(images: &[u32]) -> WordMap {
        WordMap::with_tier(Tier::best(), images).expect("the best tier is one of this machine")
    }

    /// As [`WordMap::new`], for a tier of the caller's choice. Errors: this machine lacks the tier.
    pub fn with_tier(tier: Tier, images: &[u32]) -> Result<WordMap, DotError> {
        assert!(matches!(images.len(), 16 | 32), "an image for each bit of 2 or 4 bytes");
        let bytes = images.len() / 8;
        let mapped = match tier {
            Tier::Portable => None,
            _ => Some(MappedWords::new(tier, images).ok_or(DotError::TierUnavailable { tier })?),
        };
        let mut of_bytes = Box::new([[0; 256]; BYTES_MOST]);
        for (of_byte, images) in of_bytes.iter_mut().zip(images.chunks_exact(8)) {
            for byte in 0..256 {
                let bits = (0..8).filter(|bit| byte >> bit & 1 == 1);
                of_byte[byte] = bits.fold(0, |image, bit| image ^ images[bit]);
            }
        }
        Ok(WordMap { bytes, images: of_bytes, mapped })
    }

    /// Bytes of a word, and rows.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Maps little-endian words, and splits them into rows, one behind the other.
    ///
    /// # Panics
    ///
    /// Unless both are of the same length, and whole words.
    pub fn split(&self, words: &[u8], rows: &mut [u8]) {
        let pitch = self.row_bytes(words.len(), rows.len());
        let done = self.mapped.as_ref().map_or(0, |mapped| {
            // SAFETY: both are `bytes` times `pitch` bytes long, apart by their borrows; `words` is
            // read only.
            unsafe { mapped.split(words.as_ptr(), rows.as_mut_ptr(), pitch) }
        });
        for (at, word) in words.chunks_exact(self.bytes).enumerate().skip(done) {
            let image = self.image(word.iter().copied());
            (0..self.bytes).for_each(|r| rows[r * pitch + at] = image[r]);
        }
    }

    /// Joins rows, one behind the other, to little-endian words, and maps these.
    ///
    /// # Panics
    ///
    /// As [`WordMap::split`].
    pub fn join(&self, rows: &[u8], words: &mut [u8]) {
        let pitch = self.row_bytes(words.len(), rows.len());
        let done = self.mapped.as_ref().map_or(0, |mapped| {
            // SAFETY: as in `split`, with `rows` read only.
            unsafe { mapped.join(rows.as_ptr(), words.as_mut_ptr(), pitch) }
        });
        for (at, word) in words.chunks_exact_mut(self.bytes).enumerate().skip(done) {
            let image = self.image((0..self.bytes).map(|r| rows[r * pitch + at]));
            word.copy_from_slice(&image[..self.bytes]);
        }
    }

    /// The image of a word, byte by byte.
    fn image(&self, word: impl Iterator<Item = u8>) -> [u8; BYTES_MOST] {
        let images = word.zip(self.images.iter()).map(|(byte, of_byte)| of_byte[usize::from(byte)]);
        images.fold(0, |sum, image| sum ^ image).to_le_bytes()
    }

    fn row_bytes(&self, words: usize, rows: usize) -> usize {
        assert!(words == rows && words.is_multiple_of(self.bytes), "a byte of each row is a word");
        words / self.bytes
    }
}
