//! Codes of bit matrices: columns of w rows, only XORs. Stored in packets, their columns are the
//! chunks of Jerasure.
//!
//! A matrix of w x w bits for each parity i and data column j defines which rows of the column are
//! summed in each row of the parity. The user order is column by column, because that is the order
//! of bytes in a Jerasure chunk: w packets, one of each row, repeatedly.
//!
//! Minimum density codes have two parities, the first the XOR of the rows. The matrices X_j of the
//! second have as few ones as is possible if any two columns can be lost: k w + k - 1. If P and
//! data column j are lost, X_j must be invertible; if data columns i and j are lost, X_i + X_j must
//! be.

use super::binary_field::BinaryField;
use super::chains::is_prime;
use crate::{Arguments, CodeBuilder, CodeError, Hint};

/// Returns the code in which row r of parity i is the XOR of the rows `ones(i, r, j)` of each data
/// column j.
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

/// Returns the code in which parity i is the sum of the data columns times `coefficients[i]`. A
/// column is a list of field elements: row r has bit r of each.
pub(crate) fn of_coefficients(field: &BinaryField, coefficients: &[Vec<usize>]) -> CodeBuilder {
    let columns = |row: &Vec<usize>| row.iter().map(|&c| field.columns(c).collect()).collect();
    let columns: Vec<Vec<Vec<usize>>> = coefficients.iter().map(columns).collect();
    let word = field.word();
    bit_matrices((coefficients[0].len(), coefficients.len()), word, |i, r, j| {
        let columns = &columns[i][j];
        (0..word).filter(move |&x| columns[x] >> r & 1 == 1)
    })
}

/// Returns the code whose first parity is the XOR of each row. Row r of its second parity is the
/// XOR of the rows `ones(r, j)` of each data column j.
pub(crate) fn minimum_density(
    k: usize,
    word: usize,
    ones: impl Fn(usize, usize) -> Vec<usize>,
) -> CodeBuilder {
    bit_matrices((k, 2), word, |i, r, j| if i == 0 { vec![r] } else { ones(r, j) })
}

/// The word lengths of a family, one for each prime.
pub(crate) struct Words {
    /// The difference: word length plus this is a prime.
    pub prime_less: usize,
    /// The rule, as messages state it.
    pub rule: &'static str,
    /// A word length that is accepted although it does not follow the rule.
    pub tolerated: Option<usize>,
}

impl Words {
    /// Takes the arguments k and w; w defaults to the least word length of at least k. Returns
    /// both, and the arguments of the canonical spec.
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

    /// Returns the least word length for k data columns. Jerasure and Ceph refuse w = 2.
    fn least(&self, k: usize) -> usize {
        (k.max(3)..).find(|&word| self.fits(word)).expect("there is always a larger prime")
    }
}

/// The most data columns, about as many as array codes have.
const COLUMNS_MAX: usize = 64;

/// The most rows, as in Ceph. With 257 rows and more than 20 data columns the first plan for two
/// lost columns is dense and takes seconds.
const WORD_MAX: usize = 257;
