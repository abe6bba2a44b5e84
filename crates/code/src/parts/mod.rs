//! Parts that several families share: coefficient matrices, points, fields of words, bit matrices,
//! chains of array codes, and proof by enumeration.

pub(crate) mod binary_field;
pub(crate) mod bit_matrices;
pub(crate) mod cantor;
pub(crate) mod cauchy;
pub(crate) mod chains;
pub(crate) mod one_row;
pub(crate) mod reed_sol_van;
pub(crate) mod tolerance;

/// The most columns that any code has, named or from a file: `raidq:255+3`.
pub(crate) const MOST_COLUMNS: usize = 258;
