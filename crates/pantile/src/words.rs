//! Chunks of words as rows of bytes, and back.
//!
//! Jerasure's codes over GF(2^16) and GF(2^32) multiply the little-endian words of a chunk. Here
//! such a code has a row for each byte of a word, in a basis
//! ([`Rows::Words`](pantile_code::foreign::Rows)), so its chunks are taken apart before they are
//! coded and put together afterwards. Byte i of row r is byte r of word i in the basis.

use pantile_code::words::WordBasis;
use pantile_kernel::WordMap;

/// The change of basis for words of one length.
#[derive(Debug)]
pub struct Words {
    to_rows: WordMap,
    to_words: WordMap,
}

impl Words {
    /// For words of so many bytes, as many as the code has rows; `None` unless 2 or 4.
    pub fn new(bytes: usize) -> Option<Words> {
        let basis = WordBasis::new(bytes)?;
        let [to_rows, to_words] = [basis.rows_of_bits(), basis.words_of_bits()].map(WordMap::new);
        Some(Words { to_rows, to_words })
    }

    /// Takes a chunk apart: `rows` are written one behind the other.
    ///
    /// # Panics
    ///
    /// Unless both have the same length, and whole words.
    pub fn split(&self, chunk: &[u8], rows: &mut [u8]) {
        self.to_rows.split(chunk, rows);
    }

    /// Puts a chunk together: the inverse of [`Words::split`].
    ///
    /// # Panics
    ///
    /// As that.
    pub fn join(&self, rows: &[u8], chunk: &mut [u8]) {
        self.to_words.join(rows, chunk);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_taken_apart_is_put_together() {
        for bytes in [2, 4] {
            let words = Words::new(bytes).unwrap();
            let chunk: Vec<u8> = (0..bytes * 333).map(|i| (i * 151 + i / 7) as u8).collect();
            let (mut rows, mut back) = (vec![0; chunk.len()], vec![0; chunk.len()]);
            words.split(&chunk, &mut rows);
            assert_ne!(rows, chunk);
            words.join(&rows, &mut back);
            assert_eq!(back, chunk);
        }
        assert!(Words::new(8).is_none());
    }
}
