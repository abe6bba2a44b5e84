//! The matrix `reed_sol_van` of Plank's jerasure library, which Ceph's jerasure and shec plugins
//! write with.
//!
//! An extended Vandermonde matrix of k + m rows - the first (1,0,..,0), the last (0,..,0,1), row i
//! between them i^0, i^1, ... - is brought by column operations to the identity in its top k rows.
//! Any k of its rows stay independent, so the m rows below have no singular square minor, and
//! dividing columns and then rows by non-zero elements so that the first parity row and the first
//! column become 1 keeps that. The order of the operations does not change the result of the
//! elimination, but the two scalings do, and this is jerasure's.

use pantile_gf::{Gf, Matrix};

/// The m parity rows over k data columns; k + m <= 256.
pub(crate) fn reed_sol_van(k: usize, m: usize) -> Matrix {
    assert!(k >= 1 && m >= 1 && k + m <= 256, "a row for each element of GF(2^8) and no more");
    let mut table = extended_vandermonde(k + m, k);
    for i in 1..k {
        let pivot_row = (i..k + m).find(|&r| !table[r][i].is_zero()).expect("the columns are independent");
        table.swap(i, pivot_row);
        let scale = Gf::ONE / table[i][i];
        let factors: Vec<Gf> = (0..k).map(|j| if j == i { Gf::ZERO } else { table[i][j] }).collect();
        // Rows above are unit vectors already, zero in column i.
        for row in &mut table[i..] {
            let pivot = row[i] * scale;
            row[i] = pivot;
            if !pivot.is_zero() {
                row.iter_mut().zip(&factors).for_each(|(entry, &factor)| *entry += factor * pivot);
            }
        }
    }
    let parity = &table[k..];
    let entry = |r: usize, j: usize| parity[r][j] / parity[0][j];
    Matrix::from_fn(m, k, |r, j| entry(r, j) / entry(r, 0))
}

fn extended_vandermonde(rows: usize, columns: usize) -> Vec<Vec<Gf>> {
    (0..rows)
        .map(|i| match i {
            0 => (0..columns).map(|j| if j == 0 { Gf::ONE } else { Gf::ZERO }).collect(),
            _ if i == rows - 1 => {
                (0..columns).map(|j| if j == columns - 1 { Gf::ONE } else { Gf::ZERO }).collect()
            }
            _ => (0..columns).map(|j| Gf(i as u8).pow(j as u64)).collect(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_plus_four_is_the_matrix_that_ceph_writes_with() {
        let printed: [[u8; 6]; 4] = [
            [1; 6],
            [0x01, 0xe1, 0x97, 0xac, 0x52, 0xc8],
            [0x01, 0xa6, 0xc4, 0xee, 0x53, 0x92],
            [0x01, 0x7b, 0xf5, 0x8f, 0xf4, 0x8e],
        ];
        assert_eq!(reed_sol_van(6, 4), Matrix::from_fn(4, 6, |r, c| Gf(printed[r][c])));
    }
}
