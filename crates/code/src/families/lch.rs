//! Reed-Solomon codes whose points are in cosets of a subspace, so that an additive FFT computes
//! all parities at once.
//!
//! T is the least power of two >= m, and p(n) is point n of the Cantor basis of
//! [`cantor`](crate::parts::cantor). Parity i is at x_i = p(i), data j at y_j = p(T + j), so T + k
//! <= 256. V is the set of p(0) .. p(T-1), and s(X) is the product of (X + v) over V. The
//! coefficient of data j in parity i is
//!
//! c_ij = s(y_j) / (x_i + y_j) = p((T + j) / T) / p((T + j) xor i), the quotient rounded down.
//!
//! All x and y differ, so this is a Cauchy matrix with its columns scaled by s(y_j), which is not
//! 0: MDS. For m = 1, s(X) = X and the coefficients are 1. The rows depend on m only through T.
//!
//! The points p(gT) .. p(gT + T-1) are a coset of V, and the columns at these points are a group.
//! The polynomial of degree < T that has the values d_j of a group at its y_j is the sum of d_j
//! (s(X) + s(y_j)) / (X + y_j), as s is constant on the coset and has the derivative 1. On V, where
//! s is 0, it has the values sum of c_ij d_j. So the T parities are the values on V of the sum of
//! the polynomials of all groups of data; with the group of the parities, the polynomials add up to
//! 0. For a polynomial g of degree < T, the sum of g(point) * cell over a stripe with T parities is
//! 0 (write g by its values on V); for g = 1: the T parities add up to the sum of all data.
//!
//! The basis of Lin, Chung and Han is X_i = the product over the bits t of i of f^t(X), f(X) =
//! X^2 + X. The conversion from values on a coset to coefficients A_i in this basis, or back, has
//! log2 T levels of T/2 products each. For T = 4, with v0 .. v3 at y, y + 1, y + b, y + b + 1 and b
//! = p(2) = 0xd6:
//!
//! ```text
//! e1 = v0 + v1    e0 = v0 + y e1          A2 = e0 + o0    A0 = e0 + (y^2 + y) A2
//! o1 = v2 + v3    o0 = v2 + (y + b) o1    A3 = e1 + o1    A1 = e1 + (y^2 + y) A3
//! ```
//!
//! The A, summed over all data groups, give the four parities: A0; A0 + A1; A0 + A2 + b (A1 + A3);
//! and the third plus A1 and A3. The tests below compare this with the coefficients. This file does
//! not decide whether and how bytes are processed in this way.
//!
//! Source: S.-J. Lin, W.-H. Chung, Y. S. Han, "Novel Polynomial Basis and Its Application to
//! Reed-Solomon Erasure Codes" (FOCS 2014, arXiv 1404.3458); S. Gao, T. Mateer, "Additive fast
//! Fourier transforms over finite fields" (IEEE Transactions on Information Theory 56, 2010).
//! Leopard (C. Taylor) uses the same idea and the same Cantor basis, but its bytes are coordinates
//! along the basis, so its chunks differ.

use super::{Family, Width};
use crate::parts::cantor::{POINTS, point};
use crate::parts::one_row;
use crate::{Arguments, Claim, Code, CodeError};
use pantile_gf::Matrix;

pub(super) const FAMILY: Family = Family {
    name: "lch",
    summary: "Reed-Solomon whose parities an additive FFT computes: any m columns can be lost",
    forms: &["lch:k+m"],
    examples: &["lch:8+4", "lch:12+4", "lch:20+8"],
    small: &["lch:4+1", "lch:5+2", "lch:6+3", "lch:9+4", "lch:5+6"],
    width: Width::DataPlus(3),
    source: "Lin, Chung, Han, Novel Polynomial Basis (FOCS 2014); Cantor (1989)",
    build,
};

fn build(arguments: &mut Arguments) -> Result<Code, CodeError> {
    let (k, m) = arguments.sum()?;
    arguments.finish()?;
    arguments.in_range("m, the number of parity columns,", m, 1, POINTS / 2, "use rs for more")?;
    arguments.in_range("k, the number of data columns,", k, 1, POINTS - 1, "k + m is at most 256")?;
    let most = POINTS - group_len(m);
    if k > most {
        let instead = match k + m <= POINTS {
            true => format!("use rs:{k}+{m}"),
            false => "rs, too, has at most 256 columns".into(),
        };
        return Err(arguments.unsuitable(format!("at most {most} data columns go with {m} parities; {instead}")));
    }
    let code = one_row::systematic(&coefficients(k, m));
    Ok(code.finish(format!("lch:{k}+{m}"), "lch", Claim { tolerance: m, mds: true }))
}

/// Returns T, the number of points of a group.
fn group_len(m: usize) -> usize {
    m.next_power_of_two()
}

fn coefficients(k: usize, m: usize) -> Matrix {
    let t = group_len(m);
    Matrix::from_fn(m, k, |i, j| point((t + j) / t) / point((t + j) ^ i))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantile_gf::Gf;

    const SIZES: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

    /// Returns the coefficients of T parities over the largest number of data columns.
    fn full(t: usize) -> Matrix {
        coefficients(POINTS - t, t)
    }

    fn column(matrix: &Matrix, j: usize) -> Vec<Gf> {
        (0..matrix.rows()).map(|i| matrix.get(i, j)).collect()
    }

    /// Returns the data of the group of data column j, if only column j is not 0.
    fn group_of(j: usize, t: usize) -> Vec<Gf> {
        (0..t).map(|place| if place == j % t { Gf::ONE } else { Gf::ZERO }).collect()
    }

    #[test]
    fn the_coefficients_are_those_of_the_definition() {
        for t in SIZES {
            let matrix = full(t);
            for j in 0..matrix.columns() {
                let y = point(t + j);
                let s: Gf = (0..t).map(|v| y + point(v)).product();
                assert!((0..t).all(|i| matrix.get(i, j) == s / (point(i) + y)), "{t} parities, data {j}");
            }
        }
    }

    #[test]
    fn one_parity_is_the_plain_sum_and_no_other_is() {
        assert_eq!(full(1), Matrix::from_fn(1, 255, |_, _| Gf::ONE));
        for t in &SIZES[1..] {
            let matrix = full(*t);
            assert!((0..*t).all(|i| !matrix.row(i).contains(&Gf::ONE)), "{t} parities");
        }
    }

    #[test]
    fn fewer_parities_are_the_first_rows() {
        for m in 1..=128 {
            let (few, all) = (coefficients(POINTS - group_len(m), m), full(group_len(m)));
            assert!((0..m).all(|i| few.row(i) == all.row(i)), "{m} parities");
        }
    }

    /// The equations of a code with T parities have the powers of the points, below T, as
    /// coefficients. For the power 0, all cells add up to 0.
    #[test]
    fn a_stripe_is_orthogonal_to_the_powers_of_its_points() {
        for t in SIZES {
            let matrix = full(t);
            for j in 0..matrix.columns() {
                for power in 0..t as u64 {
                    let parities: Gf = (0..t).map(|i| point(i).pow(power) * matrix.get(i, j)).sum();
                    assert_eq!(parities, point(t + j).pow(power), "{t} parities, data {j}, power {power}");
                }
            }
        }
    }

    /// Checks the formulas at the head of this file: the computation of a kernel for four parities.
    #[test]
    fn four_parities_are_the_transform_of_groups_of_four() {
        let (matrix, b) = (full(4), point(2));
        for j in 0..matrix.columns() {
            let (y, v) = (point(4 + j / 4 * 4), group_of(j, 4));
            let (e1, o1) = (v[0] + v[1], v[2] + v[3]);
            let (e0, o0) = (v[0] + y * e1, v[2] + (y + b) * o1);
            let (a2, a3) = (e0 + o0, e1 + o1);
            let (a0, a1) = (e0 + (y * y + y) * a2, e1 + (y * y + y) * a3);
            let third = a0 + a2 + b * (a1 + a3);
            assert_eq!(column(&matrix, j), [a0, a0 + a1, third, third + a1 + a3], "data {j}");
        }
    }

    /// Converts values on the group that begins with point `first` to coefficients of the LCH
    /// basis.
    fn inverse_transform(values: &mut [Gf], first: usize) {
        for level in 0..values.len().ilog2() {
            for pair in pairs(values.len(), level) {
                let high = values[pair] + values[pair + (1 << level)];
                values[pair + (1 << level)] = high;
                values[pair] += point((first + pair) >> level) * high;
            }
        }
    }

    fn transform(coefficients: &mut [Gf], first: usize) {
        for level in (0..coefficients.len().ilog2()).rev() {
            for pair in pairs(coefficients.len(), level) {
                let high = coefficients[pair + (1 << level)];
                coefficients[pair] += point((first + pair) >> level) * high;
                coefficients[pair + (1 << level)] = high + coefficients[pair];
            }
        }
    }

    fn pairs(len: usize, level: u32) -> impl Iterator<Item = usize> {
        (0..len).filter(move |place| place >> level & 1 == 0)
    }

    #[test]
    fn the_groups_of_a_stripe_add_up_to_zero_in_the_lch_basis() {
        for t in SIZES {
            let matrix = full(t);
            for j in 0..matrix.columns() {
                let (mut data, mut parities) = (group_of(j, t), column(&matrix, j));
                inverse_transform(&mut data, t + j / t * t);
                inverse_transform(&mut parities, 0);
                assert_eq!(data, parities, "{t} parities, data {j}");
                transform(&mut data, 0);
                assert_eq!(data, column(&matrix, j), "{t} parities, data {j}");
            }
        }
    }

    #[test]
    fn a_refusal_says_the_limit_and_what_to_use() {
        for (spec, said) in [
            ("lch:249+5", "at most 248 data columns go with 5 parities; use rs:249+5."),
            ("lch:253+4", "at most 252 data columns go with 4 parities; rs, too, has at most 256 columns."),
            ("lch:129+65", "at most 128 data columns go with 65 parities; use rs:129+65."),
            ("lch:1+129", "m, the number of parity columns, is 129, but 1 to 128 is possible; use rs for more."),
            ("lch:256+1", "k, the number of data columns, is 256, but 1 to 255 is possible; k + m is at most 256."),
        ] {
            assert_eq!(Code::parse(spec).expect_err(spec).to_string(), format!("lch: {said}"));
        }
        for m in 1..=128 {
            let most = POINTS - group_len(m);
            assert!(Code::parse(&format!("lch:{most}+{m}")).is_ok(), "{m} parities");
            assert!(Code::parse(&format!("lch:{}+{m}", most + 1)).is_err(), "{m} parities");
        }
    }
}
