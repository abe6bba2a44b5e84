//! Words of 16 and 32 bits as rows of bytes: a basis of their field over GF(2^8).
//!
//! Jerasure's codes over GF(2^16) and GF(2^32) multiply the little-endian words of a chunk. Both
//! fields contain GF(2^8): one of their elements, g, is a root of its polynomial 0x11d, and byte b
//! is the sum of the g^i for the bits i of b. So a word is a sum of 2 or 4 bytes times 1, a, a^2,
//! .., with a = 2, and multiplying words by an element is a matrix of bytes. Row r of a column has
//! the byte of a^r of each word ([`Rows::Words`](crate::foreign::Rows)): a code of words is one of
//! 2 or 4 rows. Every root gives another basis; here g is the first among the powers of 2^((2^w -
//! 1) / 255).

use crate::CodeBuilder;
use crate::parts::binary_field::BinaryField;
use pantile_gf::Gf;

/// Bits of a byte.
const BITS: usize = 8;

/// The polynomial of GF(2^8), whose root the subfield is made of.
const POLYNOMIAL: usize = 0x11d;

/// The basis of words of one length.
#[derive(Clone, Debug)]
pub struct WordBasis {
    rows_of_bits: Vec<u32>,
    words_of_bits: Vec<u32>,
}

impl WordBasis {
    /// The basis of words of so many bytes, as many as there are rows; `None` unless 2 or 4.
    pub fn new(bytes: usize) -> Option<WordBasis> {
        matches!(bytes, 2 | 4).then(|| WordBasis::of(&BinaryField::new(BITS * bytes)))
    }

    fn of(field: &BinaryField) -> WordBasis {
        let step = power(field, 2, (field.size() - 1) / 255);
        let is_root = |element: &usize| {
            let terms = field.powers(*element).enumerate().take(BITS + 1);
            terms.filter(|(i, _)| POLYNOMIAL >> i & 1 == 1).fold(0, |sum, (_, term)| sum ^ term) == 0
        };
        let root =
            field.powers(step).take(255).find(is_root).expect("a field of 2^8n has 2^8 elements of GF(2^8)");
        let words_of_bits: Vec<u32> = field
            .powers(2)
            .take(field.word() / BITS)
            .flat_map(|place| {
                field.powers(root).take(BITS).map(move |byte| field.product(place, byte) as u32)
            })
            .collect();
        WordBasis { rows_of_bits: inverse(&words_of_bits), words_of_bits }
    }

    /// For each bit of a word the bytes of its rows: that of row r in byte r of a number.
    pub fn rows_of_bits(&self) -> &[u32] {
        &self.rows_of_bits
    }

    /// For each bit of such bytes, those of row 0 first, its word: the inverse.
    pub fn words_of_bits(&self) -> &[u32] {
        &self.words_of_bits
    }

    /// The bytes of the rows of a word.
    fn rows(&self, word: usize) -> impl Iterator<Item = Gf> {
        let bits = self.rows_of_bits.iter().enumerate().filter(|(bit, _)| word >> bit & 1 == 1);
        let rows = bits.fold(0, |sum, (_, rows)| sum ^ rows);
        rows.to_le_bytes().into_iter().take(self.rows_of_bits.len() / BITS).map(Gf)
    }
}

/// The code in which parity i is the sum of the data columns times `coefficients[i]`, elements of a
/// field of words.
pub(crate) fn of_coefficients(field: &BinaryField, coefficients: &[Vec<usize>]) -> CodeBuilder {
    let (k, m, rows) = (coefficients[0].len(), coefficients.len(), field.word() / BITS);
    let basis = WordBasis::of(field);
    let mut code = CodeBuilder::uniform(k + m, rows);
    for (i, coefficients) in coefficients.iter().enumerate() {
        // Of each data column and each of its rows, the bytes in the rows of the parity.
        let products: Vec<Vec<Vec<Gf>>> = coefficients
            .iter()
            .map(|&c| {
                field
                    .powers(2)
                    .take(rows)
                    .map(|place| basis.rows(field.product(c, place)).collect())
                    .collect()
            })
            .collect();
        for r in 0..rows {
            let terms = products.iter().enumerate().flat_map(|(j, of_column)| {
                of_column.iter().enumerate().map(move |(t, bytes)| ((t, j), bytes[r]))
            });
            code.define((r, k + i), terms.filter(|&(_, byte)| byte != Gf::ZERO));
        }
    }
    code.user_order((0..k).flat_map(|j| (0..rows).map(move |t| (t, j))));
    code
}

/// An element times itself, so many times.
fn power(field: &BinaryField, element: usize, exponent: usize) -> usize {
    let squares = std::iter::successors(Some(element), |&square| Some(field.product(square, square)));
    let bits = squares.take(field.word()).enumerate().filter(|(bit, _)| exponent >> bit & 1 == 1);
    bits.fold(1, |product, (_, square)| field.product(product, square))
}

/// The images of the bits under the inverse of a linear map: of independent images the sums that
/// are one bit each.
fn inverse(images: &[u32]) -> Vec<u32> {
    let mut sums: Vec<(u32, u32)> =
        images.iter().enumerate().map(|(bit, &image)| (image, 1 << bit)).collect();
    for bit in 0..sums.len() {
        let has_bit = |sum: &(u32, u32)| sum.0 >> bit & 1 == 1;
        let pivot = (bit..sums.len()).find(|&at| has_bit(&sums[at])).expect("a basis is independent");
        sums.swap(bit, pivot);
        let (image, of) = sums[bit];
        let others = sums.iter_mut().enumerate().filter(|(at, sum)| *at != bit && has_bit(sum));
        others.for_each(|(_, sum)| *sum = (sum.0 ^ image, sum.1 ^ of));
    }
    sums.into_iter().map(|(_, of)| of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(bytes: usize) -> impl Iterator<Item = usize> {
        (0..200usize).map(move |i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BITS * bytes))
    }

    #[test]
    fn rows_of_a_word_give_the_word_back() {
        for bytes in [2, 4] {
            let basis = WordBasis::new(bytes).unwrap();
            for word in words(bytes) {
                let rows = basis.rows(word).enumerate();
                let bits = rows.flat_map(|(r, byte)| {
                    (0..BITS).filter(move |b| byte.0 >> b & 1 == 1).map(move |b| BITS * r + b)
                });
                assert_eq!(bits.fold(0, |sum, bit| sum ^ basis.words_of_bits()[bit] as usize), word);
            }
        }
        assert!(WordBasis::new(3).is_none());
    }

    /// Parity in stored elements depends on it.
    #[test]
    fn the_subfield_is_made_of_the_same_root_for_ever() {
        let roots = [2, 4].map(|bytes| WordBasis::new(bytes).unwrap().words_of_bits()[1]);
        assert_eq!(roots, [0xe10b, 0x2e3e_5986]);
    }

    /// A byte of the subfield multiplies each row by itself, as in GF(2^8).
    #[test]
    fn a_byte_of_the_subfield_multiplies_row_by_row() {
        for bytes in [2, 4] {
            let field = BinaryField::new(BITS * bytes);
            let basis = WordBasis::of(&field);
            for factor in [1, 2, 3, 0x1d, 0x80, 0xff] {
                let bits = (0..BITS).filter(|b| factor >> b & 1 == 1);
                let element = bits.fold(0, |sum, b| sum ^ basis.words_of_bits()[b] as usize);
                for word in words(bytes) {
                    let wanted: Vec<Gf> = basis.rows(word).map(|byte| byte * Gf(factor)).collect();
                    assert!(basis.rows(field.product(word, element)).eq(wanted), "{factor} times {word}");
                }
            }
        }
    }
}
