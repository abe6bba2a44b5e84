//! The matrix `reed_sol_van` of Plank's jerasure library, over GF(2^8) and the larger fields of
//! Jerasure. Ceph's plugins jerasure and shec use it.
//!
//! An extended Vandermonde matrix of k + m rows - the first (1,0,..,0), the last (0,..,0,1), row i
//! between them i^0, i^1, ... - is brought by column operations to the identity in its top k rows.
//! Any k of its rows stay independent, so the m rows below have no singular square minor. Then
//! columns and rows are divided by non-zero elements so that the first parity row and the first
//! column become 1, which keeps this property. The order of the operations does not change the
//! result of the elimination, but the two scalings do; these are jerasure's.

use super::binary_field::BinaryField;
use pantile_gf::{Gf, Matrix};

/// Returns the m parity rows over k data columns in GF(2^8); k + m <= 256.
pub(crate) fn reed_sol_van(k: usize, m: usize) -> Matrix {
    let rows = reed_sol_van_over(&BinaryField::new(8), k, m);
    Matrix::from_fn(m, k, |r, j| Gf(rows[r][j] as u8))
}

/// Returns the m parity rows over k data columns; k + m is at most the number of elements.
pub(crate) fn reed_sol_van_over(field: &BinaryField, k: usize, m: usize) -> Vec<Vec<usize>> {
    assert!(k >= 1 && m >= 1 && k + m <= field.size(), "a row for each element and no more");
    let mut table = extended_vandermonde(field, k + m, k);
    for i in 1..k {
        let pivot_row = (i..k + m).find(|&r| table[r][i] != 0).expect("the columns are independent");
        table.swap(i, pivot_row);
        let scale = field.inverse(table[i][i]);
        let factors: Vec<usize> = (0..k).map(|j| if j == i { 0 } else { table[i][j] }).collect();
        // The rows above are already unit vectors with zero in column i.
        for row in &mut table[i..] {
            let pivot = field.product(row[i], scale);
            row[i] = pivot;
            if pivot != 0 {
                let terms = row.iter_mut().zip(&factors);
                terms.for_each(|(entry, &factor)| *entry ^= field.product(factor, pivot));
            }
        }
    }
    let mut parity = table.split_off(k);
    let scales: Vec<usize> = parity[0].iter().map(|&entry| field.inverse(entry)).collect();
    for row in &mut parity {
        row.iter_mut().zip(&scales).for_each(|(entry, &scale)| *entry = field.product(*entry, scale));
        let scale = field.inverse(row[0]);
        row.iter_mut().for_each(|entry| *entry = field.product(*entry, scale));
    }
    parity
}

fn extended_vandermonde(field: &BinaryField, rows: usize, columns: usize) -> Vec<Vec<usize>> {
    let unit = |place: usize| (0..columns).map(|j| usize::from(j == place)).collect();
    (0..rows)
        .map(|i| match i {
            0 => unit(0),
            _ if i == rows - 1 => unit(columns - 1),
            _ => field.powers(i).take(columns).collect(),
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
