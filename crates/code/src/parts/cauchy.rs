//! The extended Cauchy matrix whose first two rows are RAID-6's P and Q.
//!
//! With x_i = a^-i, y_0 = 0 and y_j = a^j, the matrix 1/(x_i + y_j), j = 0..4, is Cauchy as long as
//! all x_i and y_j differ: then every square minor is non-zero. The powers a^-i, i = 0..250, are
//! 251 of the 255 non-zero elements, and the other four are exactly a^1 .. a^4. With zero that is
//! the whole field, so 251 columns and five such rows are the most. A row of ones above keeps all
//! minors non-zero (it is the Cauchy row of y = infinity), and so does scaling each row to begin
//! with 1. The row y_0 becomes a^i.

use pantile_gf::{Gf, Matrix};

/// The most data columns: with more, a^-i would repeat one of a^1 .. a^4.
pub(crate) const MOST_DATA: usize = 251;

/// The most rows: ones, and one for each of the five y.
pub(crate) const MOST_ROWS: usize = 6;

/// Returns the first m rows over k columns.
pub(crate) fn extended_cauchy(k: usize, m: usize) -> Matrix {
    assert!(k <= MOST_DATA && m <= MOST_ROWS, "the elements x and y must differ");
    let y = |row: usize| if row == 1 { Gf::ZERO } else { Gf::alpha_pow(row as i64 - 1) };
    Matrix::from_fn(m, k, |row, i| match row {
        0 => Gf::ONE,
        _ => (Gf::ONE + y(row)) / (Gf::alpha_pow(-(i as i64)) + y(row)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_begin_as_snapraid_prints_them() {
        let matrix = extended_cauchy(8, 6);
        let printed: [[u8; 8]; 6] = [
            [1; 8],
            [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80],
            [0x01, 0xf5, 0xd2, 0xc4, 0x9a, 0x71, 0xf1, 0x7f],
            [0x01, 0xbb, 0xa6, 0xd7, 0xc7, 0x07, 0xce, 0x82],
            [0x01, 0x97, 0x7f, 0x9c, 0x7c, 0x18, 0xbd, 0xa2],
            [0x01, 0x2b, 0x3f, 0xcf, 0x73, 0x2c, 0xd6, 0xed],
        ];
        assert_eq!(matrix, Matrix::from_fn(6, 8, |r, c| Gf(printed[r][c])));
    }

    #[test]
    fn all_x_and_y_differ_at_the_limit() {
        let mut seen = [false; 256];
        let x = (0..MOST_DATA as i64).map(|i| Gf::alpha_pow(-i));
        let y = (0..MOST_ROWS as i64 - 1).map(|j| if j == 0 { Gf::ZERO } else { Gf::alpha_pow(j) });
        assert!(x.chain(y).all(|element| !std::mem::replace(&mut seen[element.0 as usize], true)));
    }
}
