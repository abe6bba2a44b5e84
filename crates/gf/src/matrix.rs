//! Dense matrices over GF(2^8), and the incremental elimination that proofs and plans use.

use crate::Gf;
use std::fmt;
use std::ops::Mul;

/// A dense matrix over GF(2^8), row-major.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Matrix {
    rows: usize,
    columns: usize,
    entries: Vec<Gf>,
}

impl Matrix {
    /// The all-zero matrix.
    pub fn zero(rows: usize, columns: usize) -> Matrix {
        Matrix { rows, columns, entries: vec![Gf::ZERO; rows * columns] }
    }

    /// The identity.
    pub fn identity(size: usize) -> Matrix {
        Matrix::from_fn(size, size, |r, c| if r == c { Gf::ONE } else { Gf::ZERO })
    }

    /// The matrix whose entry at (r, c) is `entry(r, c)`.
    pub fn from_fn(rows: usize, columns: usize, entry: impl Fn(usize, usize) -> Gf) -> Matrix {
        let entries = (0..rows * columns).map(|i| entry(i / columns, i % columns)).collect();
        Matrix { rows, columns, entries }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// One row as a slice.
    #[inline]
    pub fn row(&self, row: usize) -> &[Gf] {
        &self.entries[row * self.columns..(row + 1) * self.columns]
    }

    /// The entry at (row, column).
    #[inline]
    pub fn get(&self, row: usize, column: usize) -> Gf {
        self.entries[row * self.columns + column]
    }

    /// Replaces the entry at (row, column).
    pub fn set(&mut self, row: usize, column: usize, value: Gf) {
        self.entries[row * self.columns + column] = value;
    }

    /// The rank, by elimination on a copy.
    pub fn rank(&self) -> usize {
        let mut echelon = Echelon::new(self.columns);
        (0..self.rows).filter(|&r| echelon.insert(self.row(r).to_vec())).count()
    }

    /// The inverse of a square matrix, `None` if it is singular.
    pub fn inverse(&self) -> Option<Matrix> {
        assert_eq!(self.rows, self.columns, "only a square matrix has an inverse");
        let n = self.rows;
        let augmented = |i: usize| match (i / (2 * n), i % (2 * n)) {
            (r, c) if c < n => self.get(r, c),
            (r, c) if c - n == r => Gf::ONE,
            _ => Gf::ZERO,
        };
        let mut work: Vec<Gf> = (0..2 * n * n).map(augmented).collect();
        eliminate(n, &mut work).then(|| Matrix::from_fn(n, n, |r, c| work[(2 * r + 1) * n + c]))
    }
}

/// Brings the first `rows` columns of a row-major matrix of `rows` rows to the identity, by
/// operations on whole rows: [A | B] becomes [I | A^-1 B]. Returns `false`, and leaves the matrix
/// partly reduced, if these columns are linearly dependent.
///
/// With `rows` = 0 the result is `true`. Panics if the number of entries is not a multiple of
/// `rows`, or if a row has fewer than `rows` entries. Cost: rows^2 x columns products; allocates
/// nothing.
pub fn eliminate(rows: usize, entries: &mut [Gf]) -> bool {
    if rows == 0 {
        return true;
    }
    let columns = entries.len() / rows;
    assert_eq!(entries.len(), rows * columns, "a matrix has rows of one length");
    assert!(columns >= rows, "a matrix of {rows} rows and {columns} columns cannot become the identity");
    for pivot in 0..rows {
        let Some(found) = (pivot..rows).find(|&r| !entries[r * columns + pivot].is_zero()) else {
            return false;
        };
        if found != pivot {
            (0..columns).for_each(|c| entries.swap(pivot * columns + c, found * columns + c));
        }
        let scale = Gf::ONE / entries[pivot * columns + pivot];
        if scale != Gf::ONE {
            entries[pivot * columns..][..columns].iter_mut().for_each(|x| *x *= scale);
        }
        for r in (0..rows).filter(|&r| r != pivot) {
            let (above, below) = entries.split_at_mut(r.max(pivot) * columns);
            let (row, base) = match r < pivot {
                true => (&mut above[r * columns..][..columns], &below[..columns]),
                false => (&mut below[..columns], &above[pivot * columns..][..columns]),
            };
            let factor = row[pivot];
            // The pivot row is zero before the pivot.
            add_scaled(&mut row[pivot..], &base[pivot..], factor);
        }
    }
    true
}

impl Mul for &Matrix {
    type Output = Matrix;
    fn mul(self, other: &Matrix) -> Matrix {
        assert_eq!(self.columns, other.rows, "inner dimensions of a product must agree");
        Matrix::from_fn(self.rows, other.columns, |r, c| {
            (0..self.columns).map(|i| self.get(r, i) * other.get(i, c)).sum()
        })
    }
}

impl fmt::Debug for Matrix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        (0..self.rows).try_for_each(|r| writeln!(out, "{:?}", self.row(r)))
    }
}

/// target += factor * source, entry by entry.
pub(crate) fn add_scaled(target: &mut [Gf], source: &[Gf], factor: Gf) {
    if factor.is_zero() {
        return;
    }
    for (x, &y) in target.iter_mut().zip(source) {
        *x += factor * y;
    }
}

/// A growing set of independent vectors, stored so that a test of one more vector costs O(rank *
/// length).
///
/// Invariant: each kept vector has entry 1 at its pivot, and zero at the pivots of all earlier
/// vectors.
#[derive(Clone, Debug)]
pub struct Echelon {
    length: usize,
    vectors: Vec<(usize, Vec<Gf>)>,
}

impl Echelon {
    /// The empty set of vectors of the given length.
    pub fn new(length: usize) -> Echelon {
        Echelon { length, vectors: Vec::new() }
    }

    /// The number of independent vectors so far.
    pub fn rank(&self) -> usize {
        self.vectors.len()
    }

    /// Adds a vector. Returns `false`, and changes nothing, if it is a combination of the vectors
    /// already inserted.
    pub fn insert(&mut self, mut vector: Vec<Gf>) -> bool {
        assert_eq!(vector.len(), self.length);
        self.reduce(&mut vector);
        let Some(pivot) = vector.iter().position(|x| !x.is_zero()) else { return false };
        let scale = Gf::ONE / vector[pivot];
        vector[pivot..].iter_mut().for_each(|x| *x *= scale);
        self.vectors.push((pivot, vector));
        true
    }

    /// True if the vector is a combination of the vectors already inserted.
    pub fn contains(&self, vector: &[Gf]) -> bool {
        let mut rest = vector.to_vec();
        self.reduce(&mut rest);
        rest.iter().all(|x| x.is_zero())
    }

    /// Removes the vectors inserted last until `rank` remain, as the undo of a depth-first search.
    pub fn truncate(&mut self, rank: usize) {
        self.vectors.truncate(rank);
    }

    fn reduce(&self, vector: &mut [Gf]) {
        for (pivot, base) in &self.vectors {
            let factor = vector[*pivot];
            add_scaled(vector, base, factor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seed: u64, rows: usize, columns: usize) -> Matrix {
        let mut state = seed;
        let values: Vec<Gf> = (0..rows * columns)
            .map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                Gf((state >> 56) as u8)
            })
            .collect();
        Matrix::from_fn(rows, columns, |r, c| values[r * columns + c])
    }

    #[test]
    fn elimination_solves_for_every_right_side() {
        for (size, right) in [(0, 0), (1, 0), (1, 3), (2, 5), (5, 1), (9, 4)] {
            let (a, x) = (sample(77 + size as u64, size, size), sample(99, size, right));
            let b = &a * &x;
            let mut work: Vec<Gf> = (0..size).flat_map(|r| [a.row(r), b.row(r)].concat()).collect();
            assert!(eliminate(size, &mut work), "size {size}");
            let wanted: Vec<Gf> =
                (0..size).flat_map(|r| [Matrix::identity(size).row(r), x.row(r)].concat()).collect();
            assert_eq!(work, wanted, "size {size}");
        }
        assert!(!eliminate(2, &mut [Gf(3), Gf(5), Gf(3), Gf(5)]));
        // The first pivot is found in the second row.
        let mut swapped = [Gf(0), Gf(2), Gf(7), Gf(1), Gf(0), Gf(9)];
        assert!(eliminate(2, &mut swapped));
        assert_eq!(swapped, [Gf(1), Gf(0), Gf(9), Gf(0), Gf(1), Gf(7) / Gf(2)]);
    }

    #[test]
    fn a_matrix_times_its_inverse_is_the_identity() {
        let mut invertible = 0;
        for seed in 0..200 {
            let size = 1 + seed as usize % 8;
            let matrix = sample(seed, size, size);
            match matrix.inverse() {
                Some(inverse) => {
                    assert_eq!(&matrix * &inverse, Matrix::identity(size));
                    assert_eq!(matrix.rank(), size);
                    invertible += 1;
                }
                None => assert!(matrix.rank() < size),
            }
        }
        assert!(invertible > 150);
    }

    #[test]
    fn a_repeated_combination_adds_no_rank_and_truncate_undoes_it() {
        let base = sample(7, 3, 6);
        let mut echelon = Echelon::new(6);
        assert!((0..3).all(|r| echelon.insert(base.row(r).to_vec())));
        let sum: Vec<Gf> = (0..6).map(|c| base.get(0, c) * Gf(9) + base.get(2, c)).collect();
        assert!(echelon.contains(&sum));
        assert!(!echelon.insert(sum.clone()));
        echelon.truncate(2);
        assert_eq!(echelon.rank(), 2);
        assert!(echelon.insert(sum));
    }
}
