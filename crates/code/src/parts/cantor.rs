//! The elements of GF(2^8) numbered along a Cantor basis: b_0 = 1, and b_{i+1} is the smaller
//! solution of x^2 + x = b_i; the other one is larger by 1.
//!
//! Point n is p(n), the sum of the b_i over the bits i that are set in n. So p(n) + p(n') = p(n xor
//! n'), and p(0) .. p(255) are all elements, each once.
//!
//! f(x) = x^2 + x maps b_{i+1} to b_i and b_0 to 0, so f applied t times maps p(n) to p(n / 2^t),
//! with the quotient rounded down. It is a monic polynomial of degree 2^t that is zero at p(0) ..
//! p(2^t - 1). These points are a subspace, and the polynomial is the product of (x + v) over it.
//! It is additive, constant on every coset of the subspace, and its derivative is 1.
//!
//! Source: D. G. Cantor, "On arithmetical algorithms over finite fields" (Journal of Combinatorial
//! Theory A 50, 1989). All this is true for either solution of the equation; the points, and so the
//! stored bytes, depend on the choice.

use pantile_gf::{Gf, ORDER};

/// The number of points, which is that of the elements of the field.
pub(crate) const POINTS: usize = ORDER + 1;

const BASIS: [Gf; 8] = [Gf(1), Gf(0xd6), Gf(0x98), Gf(0x92), Gf(0x56), Gf(0xc8), Gf(0x58), Gf(0xe6)];

/// p(n) for n below [`POINTS`].
pub(crate) fn point(n: usize) -> Gf {
    assert!(n < POINTS, "the field has no point {n}");
    (0..BASIS.len()).filter(|i| n >> i & 1 == 1).map(|i| BASIS[i]).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f(x: Gf) -> Gf {
        x * x + x
    }

    #[test]
    fn each_of_the_basis_is_the_smaller_solution_for_the_one_before() {
        assert_eq!(BASIS[0], Gf::ONE);
        for pair in BASIS.windows(2) {
            let solutions: Vec<Gf> = (0..=255).map(Gf).filter(|&x| f(x) == pair[0]).collect();
            assert_eq!(solutions, [pair[1], pair[1] + Gf::ONE]);
        }
        assert!((0..=255).all(|x| f(Gf(x)) != BASIS[7]), "the basis ends where the field does");
    }

    #[test]
    fn the_points_are_all_elements_and_additive() {
        let mut seen = [false; POINTS];
        assert!((0..POINTS).all(|n| !std::mem::replace(&mut seen[point(n).0 as usize], true)));
        for n in 0..POINTS {
            assert!((0..POINTS).all(|other| point(n) + point(other) == point(n ^ other)));
        }
    }

    #[test]
    fn the_subspace_polynomial_halves_numbers_and_has_the_derivative_1() {
        for t in 0..8 {
            let size = 1 << t;
            for n in 0..POINTS {
                let product: Gf = (0..size).map(|v| point(n) + point(v)).product();
                assert_eq!(product, point(n >> t), "2^{t} points at {n}");
                assert_eq!(product, (0..t).fold(point(n), |x, _| f(x)));
            }
            // The derivative of an additive polynomial is its coefficient of X: the product of its
            // zeros other than 0.
            assert_eq!((1..size).map(point).product::<Gf>(), Gf::ONE);
        }
    }
}
