//! Codes that are MDS because their generator is a Cauchy matrix, up to factors of rows and
//! columns: a proof without a single set of columns.
//!
//! Let no coefficient g_ij of parity i and data j be zero, and let the matrix of their inverses
//! have rank 2: 1 / g_ij = u_i . v_j with u_i and v_j of two coordinates. Cauchy's determinant,
//! written without division, says of any n rows and n columns
//!
//! ```text
//! det [1 / (u_i . v_j)]
//!     =  product over i < i' of [u_i u_i']  x  product over j < j' of [v_j v_j']
//!        /  product over i, j of (u_i . v_j)
//! ```
//!
//! up to the sign, where [a b] = a_1 b_2 - a_2 b_1. So no minor is zero if no two rows of the
//! inverses are proportional, and no two columns; and a systematic code whose minors are all
//! different from zero survives any m lost columns. If no coordinate is zero, g_ij is 1 / (x_i +
//! y_j) up to a factor of the row and of the column. A zero coordinate is a point at infinity.
//!
//! All systematic Reed-Solomon codes of two parities and more have this form, also after scaling
//! columns (R. M. Roth, G. Seroussi, "On generator matrices of MDS codes", 1985). The test looks
//! only at the coefficients, not at the code's family.

use pantile_code::Code;
use pantile_gf::{Gf, Matrix};

/// True if Cauchy's determinant proves that any m columns can be lost, with m parities. `false`
/// proves nothing.
///
/// Cost: a few operations per coefficient.
pub(crate) fn is_cauchy(code: &Code) -> bool {
    let (k, m) = (code.data().len(), code.parity().len());
    let has_one_row = code.rows_max() == 1 && code.cell_count() == code.columns() && k + m == code.columns();
    // Codes of one parity, or of copies of one, are cheap to prove by counting.
    has_one_row && k > 1 && m > 1 && encodes(code) && no_minor_is_zero(code.generator())
}

/// True if each equation defines one parity and there are no further equations. A code that was
/// built by hand can have more.
fn encodes(code: &Code) -> bool {
    let (equations, parity) = (code.equations(), code.parity());
    let coefficient = |i: usize, j: usize| equations[i].coefficient(parity[j]);
    equations.len() == parity.len()
        && Matrix::from_fn(parity.len(), parity.len(), coefficient).rank() == parity.len()
}

fn no_minor_is_zero(generator: &Matrix) -> bool {
    let (rows, columns) = (generator.rows(), generator.columns());
    if (0..rows).any(|i| generator.row(i).iter().any(|g| g.is_zero())) {
        return false;
    }
    // Divide each row of the inverses by its first element, and call the result r_i. If the rank is
    // 2, then r_i = r_0 + f_i b with b = r_1 - r_0.
    let inverse = |i: usize, j: usize| generator.get(i, 0) / generator.get(i, j);
    let beyond = |i: usize, j: usize| inverse(i, j) + inverse(0, j);
    let Some(pivot) = (1..columns).find(|&j| !beyond(1, j).is_zero()) else { return false };
    let factor = |i: usize| beyond(i, pivot) / beyond(1, pivot);
    let has_rank_2 = (0..rows).all(|i| (0..columns).all(|j| beyond(i, j) == factor(i) * beyond(1, j)));
    // Two rows are proportional if their factors f_i are equal; two columns, if the ratio of b to
    // r_0 is equal in both.
    has_rank_2
        && are_distinct((0..rows).map(factor))
        && are_distinct((0..columns).map(|j| beyond(1, j) / inverse(0, j)))
}

fn are_distinct(elements: impl Iterator<Item = Gf>) -> bool {
    let mut seen = [false; 256];
    elements.into_iter().all(|element| !std::mem::replace(&mut seen[usize::from(element.0)], true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prove::{ProveOptions, prove};
    use pantile_code::{Claim, CodeBuilder};

    fn code_of(generator: &Matrix) -> Code {
        let (m, k) = (generator.rows(), generator.columns());
        let mut builder = CodeBuilder::uniform(k + m, 1);
        for i in 0..m {
            builder.define((0, k + i), (0..k).map(|j| ((0, j), generator.get(i, j))).collect::<Vec<_>>());
        }
        builder.finish("made up", "custom", Claim { tolerance: 0, mds: false })
    }

    /// True if every square submatrix has full rank. Tries all of them.
    fn is_superregular(generator: &Matrix) -> bool {
        let (m, k) = (generator.rows(), generator.columns());
        let of_size =
            |n: usize, most: usize| (0u32..1 << most).filter(move |set| set.count_ones() as usize == n);
        let places = |set: u32| (0..32).filter(move |i| set >> i & 1 == 1).collect::<Vec<usize>>();
        (1..=m.min(k)).all(|n| {
            of_size(n, m).all(|rows| {
                of_size(n, k).all(|columns| {
                    let (rows, columns) = (places(rows), places(columns));
                    Matrix::from_fn(n, n, |i, j| generator.get(rows[i], columns[j])).rank() == n
                })
            })
        })
    }

    #[test]
    fn small_matrices_are_judged_right() {
        // Points that all differ, and sets with two equal points; both include infinity (1 : 0),
        // scaled.
        let mut state = 1u32;
        let mut random = move |most: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % most
        };
        let mut said = [0; 2];
        for case in 0..3000 {
            let (m, k) = (2 + random(3) as usize, 2 + random(4) as usize);
            let few = [8, 256][random(2) as usize];
            let mut point = || [Gf(random(few) as u8), Gf(random(2) as u8)];
            let (us, vs): (Vec<_>, Vec<_>) =
                ((0..m).map(|_| point()).collect(), (0..k).map(|_| point()).collect());
            let dot = |i: usize, j: usize| us[i][0] * vs[j][1] + us[i][1] * vs[j][0];
            if (0..m).any(|i| (0..k).any(|j| dot(i, j).is_zero())) {
                continue;
            }
            let scale = |n: usize| Gf((case * 7 + n * 31) as u8 | 1);
            let mut generator = Matrix::from_fn(m, k, |i, j| scale(i) * scale(j + 9) / dot(i, j));
            if case % 3 == 0 {
                generator.set(random(m as u32) as usize, random(k as u32) as usize, Gf(random(256) as u8));
            }
            let is_so = is_superregular(&generator);
            let says = is_cauchy(&code_of(&generator));
            assert!(is_so || !says, "{generator:?}");
            said[usize::from(says)] += 1;
            if case % 3 > 0 {
                assert_eq!(is_so, says, "a Cauchy matrix is known by its points: {generator:?}");
            }
        }
        assert!(said.iter().all(|&count| count > 150), "{said:?}");
    }

    #[test]
    fn reed_solomon_codes_of_any_size_are_proved_and_no_set_is_looked_at() {
        for spec in
            ["rs:10+4", "rs:100+50", "cauchy:250+2", "raid6:250", "lch:128+128", "lch:29+51", "lch:200+17"]
        {
            let code = Code::parse(spec).unwrap();
            let options = ProveOptions { sets_most: 0, sample: 0, ..ProveOptions::default() };
            let certificate = prove(&code, &options, &|_, _, _| true);
            let m = code.parity().len();
            assert_eq!((certificate.tolerance(), certificate.tolerance_by_cauchy), (m, m), "{spec}");
            assert_eq!((certificate.levels.len(), certificate.cut), (m + 1, false), "{spec}");
            assert_eq!(certificate.levels[m].survived, 0, "{spec}");
            let first = prove(&code, &ProveOptions { lost_most: Some(1), ..options }, &|_, _, _| true);
            assert_eq!((first.tolerance(), first.levels.len(), first.cut), (m, 1, true), "{spec}");
        }
    }

    #[test]
    fn equations_that_say_no_parity_are_counted() {
        let mut builder = CodeBuilder::uniform(4, 1);
        [2, 3].iter().for_each(|&column| builder.parity_cell((0, column)));
        for _ in 0..2 {
            builder.equation([((0, 0), Gf(1)), ((0, 1), Gf(2)), ((0, 2), Gf(1)), ((0, 3), Gf(1))]);
        }
        let code = builder.finish("twice the same", "custom", Claim { tolerance: 0, mds: false });
        let certificate = prove(&code, &ProveOptions::default(), &|_, _, _| true);
        assert_eq!((certificate.tolerance(), certificate.tolerance_by_cauchy), (1, 0));
    }

    #[test]
    fn other_matrices_and_single_parities_are_counted() {
        for spec in [
            "lrc:6,2,2",
            "shec:6,4,3",
            "dcode:5",
            "rdp:6",
            "raidq:8+4",
            "raidq:8+3",
            "rs:6+3,vandermonde",
            "raid5:9",
            "mirror:4",
        ] {
            let Ok(code) = Code::parse(spec) else { panic!("{spec}") };
            assert!(!is_cauchy(&code), "{spec}");
        }
    }
}
