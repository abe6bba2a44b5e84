//! GF(2^w), w = 2 .. 32, for the coefficients of bit matrices: a number is a polynomial, and its
//! bit x is the coefficient of a^x.
//!
//! The matrix of an element e has the bits of e a^x in column x, so it maps the bits of v to those
//! of e v. The polynomials are those of gf-complete, which Jerasure uses; in each field a = 2
//! generates every non-zero element.
//!
//! These fields are not subfields of GF(2^8). They need not be: a code uses only their bit
//! matrices.

/// The word lengths that have a polynomial here.
pub(crate) const WORDS: std::ops::RangeInclusive<usize> = 2..=32;

/// The polynomials for w = 2 to 32, without the term a^w.
const POLYNOMIALS: [usize; 31] = [
    0x3, 0x3, 0x3, 0x5, 0x3, 0x9, 0x1d, 0x11, 0x9, 0x5, 0x53, 0x1b, 0x443, 0x3, 0x100b, 0x9, 0x81, 0x27, 0x9,
    0x5, 0x3, 0x21, 0x87, 0x9, 0x47, 0x27, 0x9, 0x5, 0x80_0007, 0x9, 0x40_0007,
];

/// The longest words that have tables.
const TABLES_WORD_MAX: usize = 8;

/// The field of one word length.
pub(crate) struct BinaryField {
    word: usize,
    /// Entry i is a^i, for 0 <= i < 2 (2^word - 1); empty without tables.
    powers: Vec<usize>,
    /// For each non-zero element e, the i with a^i = e; empty without tables.
    logs: Vec<usize>,
}

impl BinaryField {
    /// The field of 2^`word` elements; `word` is one of [`WORDS`].
    pub(crate) fn new(word: usize) -> BinaryField {
        let mut field = BinaryField { word, powers: Vec::new(), logs: Vec::new() };
        if word <= TABLES_WORD_MAX {
            let order = field.size() - 1;
            field.powers = std::iter::successors(Some(1), |&element| Some(field.times_a(element)))
                .take(2 * order)
                .collect();
            field.logs = vec![0; field.size()];
            field.powers[..order].iter().enumerate().for_each(|(i, &power)| field.logs[power] = i);
        }
        field
    }

    /// The number of bits of an element.
    pub(crate) fn word(&self) -> usize {
        self.word
    }

    /// The number of elements.
    pub(crate) fn size(&self) -> usize {
        1 << self.word
    }

    fn times_a(&self, element: usize) -> usize {
        let (shifted, top) = (element << 1, 1 << self.word);
        if shifted < top { shifted } else { shifted ^ top ^ POLYNOMIALS[self.word - WORDS.start()] }
    }

    pub(crate) fn product(&self, a: usize, b: usize) -> usize {
        if a == 0 || b == 0 {
            0
        } else if self.logs.is_empty() {
            self.columns(a)
                .enumerate()
                .fold(0, |sum, (x, column)| if b >> x & 1 == 1 { sum ^ column } else { sum })
        } else {
            self.powers[self.logs[a] + self.logs[b]]
        }
    }

    /// The inverse of an element that is not 0: its power 2^w - 2.
    pub(crate) fn inverse(&self, element: usize) -> usize {
        assert!(element != 0, "0 has no inverse");
        if !self.logs.is_empty() {
            return self.powers[self.size() - 1 - self.logs[element]];
        }
        let squares = std::iter::successors(Some(element), |&square| Some(self.product(square, square)));
        squares.take(self.word).skip(1).fold(1, |product, square| self.product(product, square))
    }

    /// The powers of an element, from 1 on, without end.
    pub(crate) fn powers(&self, element: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(1), move |&power| Some(self.product(power, element)))
    }

    /// The columns of the element's matrix: bit r of entry x is row r of column x.
    pub(crate) fn columns(&self, element: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(element), |&column| Some(self.times_a(column))).take(self.word)
    }

    /// The number of ones in the element's matrix.
    pub(crate) fn ones(&self, element: usize) -> u32 {
        self.columns(element).map(usize::count_ones).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplies by the schoolbook method.
    fn long_product(word: usize, a: usize, b: usize) -> usize {
        let product = (0..word).filter(|i| b >> i & 1 == 1).fold(0u64, |sum, i| sum ^ (a as u64) << i);
        let polynomial = 1u64 << word | POLYNOMIALS[word - 2] as u64;
        let reduced = (word..2 * word)
            .rev()
            .fold(product, |rest, i| if rest >> i & 1 == 1 { rest ^ polynomial << (i - word) } else { rest });
        reduced as usize
    }

    /// Returns all elements for short words, and elements of each bit length for long words.
    fn elements(word: usize) -> Vec<usize> {
        let size = 1usize << word;
        match word {
            0..=8 => (0..size).collect(),
            _ => {
                (0..200usize).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % size) >> (i % word)).collect()
            }
        }
    }

    #[test]
    fn products_are_those_of_polynomials() {
        for word in WORDS {
            let field = BinaryField::new(word);
            let elements = elements(word);
            for &a in &elements {
                assert!(
                    elements.iter().all(|&b| field.product(a, b) == long_product(word, a, b)),
                    "2^{word}: {a}"
                );
                assert!(a == 0 || long_product(word, a, field.inverse(a)) == 1, "2^{word}: 1/{a}");
            }
        }
    }

    #[test]
    fn a_matrix_multiplies_by_its_element() {
        for word in WORDS {
            let field = BinaryField::new(word);
            let elements = elements(word);
            for &e in &elements {
                let columns: Vec<usize> = field.columns(e).collect();
                for &v in &elements {
                    let image = (0..word).filter(|x| v >> x & 1 == 1).fold(0, |sum, x| sum ^ columns[x]);
                    assert_eq!(image, field.product(e, v), "2^{word}: {e} * {v}");
                }
            }
        }
    }

    /// If a polynomial were reducible, the powers of 2 would repeat too soon.
    #[test]
    fn two_generates_every_field() {
        for word in WORDS {
            let field = BinaryField::new(word);
            let order = field.size() - 1;
            let power = |exponent: usize| {
                (0..word).rev().fold(1, |power, bit| {
                    let square = field.product(power, power);
                    if exponent >> bit & 1 == 1 { field.product(square, 2) } else { square }
                })
            };
            assert_eq!(power(order), 1, "2^{word}");
            let primes = (2..=order.isqrt()).filter(|&p| order.is_multiple_of(p));
            let proper = primes.flat_map(|p| [order / p, p]).chain((order > 1).then_some(1));
            assert!(proper.into_iter().all(|exponent| power(exponent) != 1), "2^{word}");
        }
    }
}
