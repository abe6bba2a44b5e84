//! Chunks of words as rows of bits, and back.
//!
//! Jerasure's codes over GF(2^16) and GF(2^32) multiply the little-endian words of a chunk. Here
//! such a code has a row for each bit of a word
//! ([`Rows::BitsOfWords`](pantile_code::foreign::Rows)), so its chunks are taken apart before they
//! are coded and put together afterwards. Byte i of row r has bit r of the words 8i .. 8i + 7.

/// Splits words of `bits` bits into rows of bits: `rows` are `bits` rows, one behind the other.
///
/// # Panics
///
/// Unless both have the same length, a multiple of `bits` bytes, and `bits` is a multiple of 8.
pub fn rows_of_words(words: &[u8], bits: usize, rows: &mut [u8]) {
    let row_bytes = row_bytes(words.len(), rows.len(), bits);
    for (at, eight) in words.chunks_exact(bits).enumerate() {
        for lane in 0..bits / 8 {
            let bytes = std::array::from_fn(|word| eight[word * (bits / 8) + lane]);
            for (row, byte) in transposed(bytes).into_iter().enumerate() {
                rows[(8 * lane + row) * row_bytes + at] = byte;
            }
        }
    }
}

/// Puts words of `bits` bits together: the inverse of [`rows_of_words`].
///
/// # Panics
///
/// As that.
pub fn words_of_rows(rows: &[u8], bits: usize, words: &mut [u8]) {
    let row_bytes = row_bytes(words.len(), rows.len(), bits);
    for (at, eight) in words.chunks_exact_mut(bits).enumerate() {
        for lane in 0..bits / 8 {
            let bytes = std::array::from_fn(|row| rows[(8 * lane + row) * row_bytes + at]);
            for (word, byte) in transposed(bytes).into_iter().enumerate() {
                eight[word * (bits / 8) + lane] = byte;
            }
        }
    }
}

fn row_bytes(words: usize, rows: usize, bits: usize) -> usize {
    assert!(bits > 0 && bits.is_multiple_of(8), "words are of whole bytes");
    assert!(words == rows && words.is_multiple_of(bits), "eight words are a byte of each row");
    words / bits
}

/// Bit j of byte i becomes bit i of byte j.
fn transposed(bytes: [u8; 8]) -> [u8; 8] {
    let mut square = u64::from_le_bytes(bytes);
    // Squares of 1, 2 and 4 bits change places across the diagonal.
    for (distance, mask) in
        [(7, 0x00aa_00aa_00aa_00aa), (14, 0x0000_cccc_0000_cccc), (28, 0x0000_0000_f0f0_f0f0)]
    {
        let differ = (square ^ square >> distance) & mask;
        square ^= differ ^ differ << distance;
    }
    square.to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_r_has_bit_r_of_each_word() {
        for bits in [16, 32] {
            let words: Vec<u8> = (0..bits * 5).map(|i| (i * 151 + i / 7) as u8).collect();
            let mut rows = vec![0; words.len()];
            rows_of_words(&words, bits, &mut rows);
            for (n, word) in words.chunks(bits / 8).enumerate() {
                for r in 0..bits {
                    let of_word = word[r / 8] >> (r % 8) & 1;
                    let of_row = rows[r * 5 + n / 8] >> (n % 8) & 1;
                    assert_eq!(of_word, of_row, "bit {r} of word {n} of {bits} bits");
                }
            }
            let mut back = vec![0; words.len()];
            words_of_rows(&rows, bits, &mut back);
            assert_eq!(back, words);
        }
    }
}
