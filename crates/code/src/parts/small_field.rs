//! GF(2^w), w = 2 .. 8, for the coefficients of bit matrices: a number is a polynomial, bit x its
//! coefficient of a^x.
//!
//! The matrix of an element e has the bits of e a^x in column x, so it takes the bits of v to those
//! of e v. The polynomials are those of gf-complete, on which Jerasure computes; a = 2 generates
//! every non-zero element of each.
//!
//! These fields are not subfields of GF(2^8), and need not be: what a code takes from here is bits.

/// The word lengths that have a polynomial here.
pub(crate) const WORDS: std::ops::RangeInclusive<usize> = 2..=8;

const POLYNOMIALS: [usize; 7] = [0x7, 0xb, 0x13, 0x25, 0x43, 0x89, 0x11d];

/// The field of one word length.
pub(crate) struct SmallField {
    word: usize,
    /// Entry i is a^i, for i up to twice the order.
    powers: Vec<usize>,
    /// For each non-zero element its power of a.
    logs: Vec<usize>,
    /// For each element the ones of its matrix.
    ones: Vec<u32>,
}

impl SmallField {
    /// The field of 2^`word` elements; `word` is one of [`WORDS`].
    pub(crate) fn new(word: usize) -> SmallField {
        let (size, polynomial) = (1 << word, POLYNOMIALS[word - WORDS.start()]);
        let times_a = |element: &usize| {
            let shifted = element << 1;
            Some(if shifted < size { shifted } else { shifted ^ polynomial })
        };
        let powers: Vec<usize> = std::iter::successors(Some(1), times_a).take(2 * (size - 1)).collect();
        let mut logs = vec![0; size];
        powers[..size - 1].iter().enumerate().for_each(|(i, &power)| logs[power] = i);
        let mut field = SmallField { word, powers, logs, ones: Vec::new() };
        field.ones = (0..size).map(|e| field.columns(e).map(usize::count_ones).sum()).collect();
        field
    }

    /// The number of elements.
    pub(crate) fn size(&self) -> usize {
        self.logs.len()
    }

    pub(crate) fn product(&self, a: usize, b: usize) -> usize {
        if a == 0 || b == 0 { 0 } else { self.powers[self.logs[a] + self.logs[b]] }
    }

    /// The element whose product with this one, which is not 0, is 1.
    pub(crate) fn inverse(&self, element: usize) -> usize {
        assert!(element != 0, "0 has no inverse");
        self.powers[self.size() - 1 - self.logs[element]]
    }

    /// The columns of the element's matrix: bit r of entry x is row r of column x.
    pub(crate) fn columns(&self, element: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.word).map(move |x| self.product(element, 1 << x))
    }

    /// How many ones the element's matrix has.
    pub(crate) fn ones(&self, element: usize) -> u32 {
        self.ones[element]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By school multiplication, without tables.
    fn long_product(word: usize, a: usize, b: usize) -> usize {
        let product = (0..word).filter(|i| b >> i & 1 == 1).fold(0, |sum, i| sum ^ a << i);
        let polynomial = POLYNOMIALS[word - 2];
        (word..2 * word)
            .rev()
            .fold(product, |rest, i| if rest >> i & 1 == 1 { rest ^ polynomial << (i - word) } else { rest })
    }

    #[test]
    fn the_tables_multiply_polynomials() {
        for word in WORDS {
            let field = SmallField::new(word);
            assert_eq!(field.size(), 1 << word);
            for a in 0..field.size() {
                assert!(
                    (0..field.size()).all(|b| field.product(a, b) == long_product(word, a, b)),
                    "2^{word}: {a}"
                );
                assert!(a == 0 || long_product(word, a, field.inverse(a)) == 1, "2^{word}: 1/{a}");
            }
        }
    }

    #[test]
    fn a_matrix_multiplies_by_its_element() {
        for word in WORDS {
            let field = SmallField::new(word);
            for e in 0..field.size() {
                let columns: Vec<usize> = field.columns(e).collect();
                for v in 0..field.size() {
                    let image = (0..word).filter(|x| v >> x & 1 == 1).fold(0, |sum, x| sum ^ columns[x]);
                    assert_eq!(image, field.product(e, v), "2^{word}: {e} * {v}");
                }
            }
        }
    }
}
