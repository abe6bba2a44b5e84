//! Codes of bit matrices: columns of w rows, only XORs, whose columns in packets are the chunks of
//! Jerasure.
//!
//! A matrix of w x w bits for each parity i and data column j says which rows of the column are in
//! which row of the parity. The user's elements go column by column, because that is the order of a
//! chunk of Jerasure's: w packets, one of each row, again and again.
//!
//! Minimum density codes have two parities, the first the XOR of the rows. The matrices X_j of the
//! second have as few ones as is possible if any two columns can be lost: k w + k - 1. With P and
//! one data column, or with two data columns i and j, that is the case when X_j and X_i + X_j are
//! invertible.

use super::binary_field::BinaryField;
use super::chains::is_prime;
use crate::{Arguments, CodeBuilder, CodeError, Hint};

/// The code in which row r of parity i is the XOR of the rows `ones(i, r, j)` of each data column
/// j.
pub(crate) fn bit_matrices<Rows: IntoIterator<Item = usize>>(
    (k, m): (usize, usize),
    word: usize,
    ones: impl Fn(usize, usize, usize) -> Rows,
) -> CodeBuilder {
    let mut code = CodeBuilder::uniform(k + m, word);
    for (i, r) in (0..m).flat_map(|i| (0..word).map(move |r| (i, r))) {
        code.define_xor((r, k + i), (0..k).flat_map(|j| ones(i, r, j).into_iter().map(move |x| (x, j))));
    }
    code.user_order((0..k).flat_map(|j| (0..word).map(move |x| (x, j))));
    code
}

/// The code in which parity i is the sum of the data columns times `coefficients[i]`, elements of a
/// field as bits: row r of a column is bit r of its elements.
pub(crate) fn of_coefficients(field: &BinaryField, coefficients: &[Vec<usize>]) -> CodeBuilder {
    let columns = |row: &Vec<usize>| row.iter().map(|&c| field.columns(c).collect()).collect();
    let columns: Vec<Vec<Vec<usize>>> = coefficients.iter().map(columns).collect();
    let word = field.word();
    bit_matrices((coefficients[0].len(), coefficients.len()), word, |i, r, j| {
        let columns = &columns[i][j];
        (0..word).filter(move |&x| columns[x] >> r & 1 == 1)
    })
}

/// The code whose first parity is the XOR of each row; in row r of its second are the rows `ones(r,
/// j)` of data column j.
pub(crate) fn minimum_density(
    k: usize,
    word: usize,
    ones: impl Fn(usize, usize) -> Vec<usize>,
) -> CodeBuilder {
    bit_matrices((k, 2), word, |i, r, j| if i == 0 { vec![r] } else { ones(r, j) })
}

/// The words of a family, one for each prime.
pub(crate) struct Words {
    /// Word length plus this is a prime.
    pub prime_less: usize,
    /// Name of the sum in messages.
    pub rule: &'static str,
    /// The one word that is taken although it does not follow the rule.
    pub tolerated: Option<usize>,
}

impl Words {
    /// Takes k and then w, of which the least that has k rows is left out; both, and the canonical
    /// spec's arguments.
    pub(crate) fn take(&self, arguments: &mut Arguments) -> Result<(usize, usize, String), CodeError> {
        let more = "use raid6, rs or cauchy for more";
        let k = arguments.count("k, the number of data columns,", 1, COLUMNS_MAX, more)?;
        let usual = self.least(k);
        let hint = Hint { below: "Jerasure has none with fewer rows", above: "Ceph has none with more rows" };
        let most = WORD_MAX - self.prime_less;
        let word = arguments.count_value("w", self.least(1), most, hint)?.unwrap_or(usual);
        arguments.finish()?;
        if !self.fits(word) && self.tolerated != Some(word) {
            return Err(arguments
                .unsuitable(format!("{}, and {word} is not; the least for k={k} is w={usual}", self.rule)));
        }
        if word < k {
            return Err(arguments.unsuitable(format!(
                "w={word} has room for {word} data columns, not {k}; leave w out for w={usual}"
            )));
        }
        let spec = if word == usual { format!("{k}") } else { format!("{k},w={word}") };
        Ok((k, word, spec))
    }

    fn fits(&self, word: usize) -> bool {
        is_prime(word + self.prime_less)
    }

    /// The least word for so many data columns. Jerasure and Ceph refuse w = 2.
    fn least(&self, k: usize) -> usize {
        (k.max(3)..).find(|&word| self.fits(word)).expect("there is always a larger prime")
    }
}

/// The most data columns, about as many as array codes have.
const COLUMNS_MAX: usize = 64;

/// The most rows, as in Ceph. With so many and more than 20 data columns a first plan for two of
/// them is dense and takes seconds.
const WORD_MAX: usize = 257;
