//! Codes of the most common shape: k data columns and m parity columns of one row each, defined by
//! an m x k matrix.

use crate::CodeBuilder;
use pantile_gf::{Gf, Matrix};

/// Builds a code of data columns 0..k-1, then one parity column per row of the matrix. A cell with
/// a zero coefficient is not in the equation.
pub(crate) fn systematic(coefficients: &Matrix) -> CodeBuilder {
    let (k, m) = (coefficients.columns(), coefficients.rows());
    let mut code = CodeBuilder::uniform(k + m, 1);
    for r in 0..m {
        let row: Vec<((usize, usize), Gf)> =
            coefficients.row(r).iter().enumerate().map(|(j, &c)| ((0, j), c)).collect();
        code.define((0, k + r), row);
    }
    code
}
