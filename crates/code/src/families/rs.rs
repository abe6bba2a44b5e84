//! Reed-Solomon with the eight coefficient matrices that existing systems write with.
//!
//! - `cauchy1` (default), ISA-L's `gf_gen_cauchy1_matrix`, Ceph's `isa` cauchy and Hadoop's `rs`: 1
//!   / ((k + r) xor j). The numbers k + r and j are all distinct, so it is a Cauchy matrix and MDS
//!   for every k + m <= 256.
//! - `jerasure`, Ceph's `jerasure` and `shec` plugins: [`reed_sol_van`], MDS by construction for
//!   k + m <= 256.
//! - `vandermonde`, ISA-L's `gf_gen_rs_matrix` and Ceph's `isa` reed_sol_van: (2^r)^j. **Not** MDS
//!   for all sizes.
//! - `backblaze`, Backblaze's JavaReedSolomon and klauspost/reedsolomon: data j is the value at j
//!   of a polynomial of degree below k, parity r its value at k + r. Any k values are a
//!   polynomial's, so it is MDS for k + m <= 256.
//! - `zfec`, zfec's and Tahoe-LAFS's: the same with the places 0, 1, 2, 4, 8, .. (0 and the powers
//!   of 2), so MDS for k + m <= 256.
//! - `par1`, PAR1's and klauspost's `WithPAR1Matrix`: (j + 1)^r. Columns 0, 1 and 2 have
//!   1 + 2 + 3 = 0, a vanishing minor of rows 0, 1 and 3. So m is at most 3 here: minors of powers
//!   0, 1 and 2 do not vanish, as below.
//! - `bch`, Hadoop's `rs-legacy`: data j is the coefficient of x^(m+j) of a polynomial that has the
//!   roots 2^0 .. 2^(m-1), parity r that of x^r. A product with m roots in a row has no fewer than
//!   m + 1 coefficients that are not 0 as long as the 2^i are different, so it is MDS for k + m <=
//!   255.
//!
//! `liberasurecode` is the matrix of its own backend, liberasurecode_rs_vand, over GF(2^16):
//! `backblaze` there, and then each column divided by its entry in the first parity, which changes
//! no minor to 0. It has 2 rows, as `jerasure` with w=16.
//!
//! The entry 2^(rj) is symmetric in r and j, so k and m may change places in the question which
//! sizes are MDS:
//!
//! - With k or m up to 3 every minor is one of powers {0, 1, 2} of distinct elements, non-zero up
//!   to the order 255.
//! - With 4 rows the minors on powers {0, 1, 3} need 1 + 2^j + 2^l != 0. The first failure is 1 +
//!   2^10 + 2^21, so at most 21 on the other side.
//! - 5 x 5 has no vanishing minor. 5 x 6 has one, and 6 x 6 contains it.
//!
//! So the limit is 21 for m = 4, 5 for m = 5, 4 for m = 6..21, and 3 from there on; larger sizes
//! are refused with a set of columns that would be fatal. ISA-L documents the hazard and leaves it
//! to the caller; its own bounds (m <= 4, k <= 21 for m = 4) agree.
//!
//! With `jerasure` and `w=16` or `w=32` the same over GF(2^16) and GF(2^32), for chunks that exist:
//! 2 or 4 rows, the bytes of little-endian words in a basis over GF(2^8) ([`crate::words`]).
//! Matrices of elements add and multiply as the elements do, so these are MDS, too.

use super::{Family, Width, long_words};
use crate::parts::binary_field::BinaryField;
use crate::parts::one_row;
use crate::parts::reed_sol_van::{reed_sol_van, reed_sol_van_over};
use crate::words::of_coefficients;
use crate::{Arguments, Claim, Code, CodeError};
use pantile_gf::{Gf, Matrix};

pub(super) const FAMILY: Family = Family {
    name: "rs",
    summary: "Reed-Solomon as ISA-L and Ceph write it: any m columns can be lost",
    forms: &[
        "rs:k+m",
        "rs:k+m,vandermonde",
        "rs:k+m,jerasure",
        "rs:k+m,jerasure,w=W",
        "rs:k+m,backblaze",
        "rs:k+m,zfec",
        "rs:k+m,par1",
        "rs:k+m,liberasurecode",
        "rs:k+m,bch",
    ],
    examples: &["rs:6+3", "rs:10+4,vandermonde", "rs:6+4,jerasure", "rs:6+3,backblaze", "rs:6+3,zfec", "rs:6+3,bch"],
    small: &["rs:2+1", "rs:10+4", "rs:5+4,vandermonde", "rs:3+2,jerasure,w=16", "rs:2+1,jerasure,w=32", "rs:3+2,liberasurecode"],
    width: Width::DataPlus(3),
    source: "Intel ISA-L erasure_code (cauchy1, rs); Plank's jerasure (reed_sol_van); Backblaze JavaReedSolomon; \
             Rizzo's fec, in zfec; PAR1; Hadoop (rs-legacy)",
    build,
};

/// The most parities of long words: there are w / 8 dense equations for each.
const MOST_OF_WORDS: usize = 8;

const MATRICES: [&str; 8] =
    ["cauchy1", "vandermonde", "jerasure", "backblaze", "zfec", "par1", "liberasurecode", "bch"];

fn build(arguments: &mut Arguments) -> Result<Code, CodeError> {
    let (k, m) = arguments.sum()?;
    let words = long_words(arguments)?;
    let named: Vec<&str> = MATRICES.into_iter().filter(|name| arguments.flag(name)).collect();
    arguments.finish()?;
    if named.len() > 1 {
        return Err(arguments.unsuitable(format!("{} exclude each other", named.join(" and "))));
    }
    arguments.in_range("k, the number of data columns,", k, 1, 255, "k + m is at most 256")?;
    arguments.in_range("m, the number of parity columns,", m, 1, 255, "k + m is at most 256")?;
    arguments.in_range("k + m", k + m, 2, 256, "GF(2^8) has no more elements")?;
    let name = named.first().copied().unwrap_or("cauchy1");
    if let Some(field) = words {
        if name != "jerasure" {
            return Err(arguments.unsuitable("w=16 and w=32 are jerasure's: write rs:k+m,jerasure,w=16".into()));
        }
        arguments.in_range("m, the number of parity columns,", m, 1, MOST_OF_WORDS, "w=8 goes further")?;
        let spec = format!("rs:{k}+{m},jerasure,w={}", field.word());
        let code = of_coefficients(&field, &reed_sol_van_over(&field, k, m));
        return Ok(code.finish(spec, "rs", Claim { tolerance: m, mds: true }));
    }
    if name == "liberasurecode" {
        arguments.in_range("m, the number of parity columns,", m, 1, MOST_OF_WORDS, "rs:k+m goes further")?;
        let field = BinaryField::new(16);
        let code = of_coefficients(&field, &interpolated_words(&field, k, m));
        return Ok(code.finish(format!("rs:{k}+{m},{name}"), "rs", Claim { tolerance: m, mds: true }));
    }
    let matrix = match name {
        "vandermonde" => {
            refuse_beyond_limit(arguments, k, m)?;
            Matrix::from_fn(m, k, isa_vandermonde)
        }
        "jerasure" => reed_sol_van(k, m),
        "backblaze" => interpolated(k, m, |i| Gf(i as u8)),
        "zfec" => interpolated(k, m, |i| if i == 0 { Gf::ZERO } else { Gf::alpha_pow(i as i64 - 1) }),
        "par1" => {
            let why = "with 4 the loss of columns 0, 1 and 2 is fatal beside that of parity 2; rs:k+m goes further";
            arguments.in_range("m, the number of parity columns,", m, 1, 3, why)?;
            Matrix::from_fn(m, k, |r, j| (0..r).fold(Gf::ONE, |power, _| power * Gf((j + 1) as u8)))
        }
        "bch" => {
            arguments.in_range("k + m", k + m, 2, 255, "2^255 is 2^0; rs:k+m goes further")?;
            remainders(k, m)
        }
        _ => Matrix::from_fn(m, k, |r, j| cauchy1(k, r, j)),
    };
    let option = if name == "cauchy1" { String::new() } else { format!(",{name}") };
    let spec = format!("rs:{k}+{m}{option}");
    Ok(one_row::systematic(&matrix).finish(spec, "rs", Claim { tolerance: m, mds: true }))
}

/// Values at places k, k + 1, .. of the polynomial that has given values at places 0 .. k-1.
///
/// After Lagrange: the product of (place of k + r - place of i) / (place of j - place of i) over
/// all i but j.
fn interpolated(k: usize, m: usize, place: impl Fn(usize) -> Gf) -> Matrix {
    let product = |x: usize, but: usize| -> Gf {
        (0..k).filter(|&i| i != but).fold(Gf::ONE, |product, i| product * (place(x) + place(i)))
    };
    Matrix::from_fn(m, k, |r, j| product(k + r, j) / product(j, j))
}

/// As [`interpolated`] at 0, 1, 2, .. of a larger field; then columns are scaled so that the first
/// parity is a plain sum.
fn interpolated_words(field: &BinaryField, k: usize, m: usize) -> Vec<Vec<usize>> {
    let product = |x: usize, but: usize| -> usize {
        (0..k).filter(|&i| i != but).fold(1, |product, i| field.product(product, x ^ i))
    };
    // The divisor of Lagrange is the same in each row of a column, and falls out.
    let first: Vec<usize> = (0..k).map(|j| field.inverse(product(k, j))).collect();
    (0..m).map(|r| (0..k).map(|j| field.product(product(k + r, j), first[j])).collect()).collect()
}

/// Column j: the remainder of x^(m+j) by (x + 1)(x + 2)(x + 4) .. (x + 2^(m-1)), from its constant
/// on.
fn remainders(k: usize, m: usize) -> Matrix {
    // Without the leading coefficient, which is 1.
    let mut divisor = vec![Gf::ONE];
    for i in 0..m {
        let root = Gf::alpha_pow(i as i64);
        let times_x = std::iter::once(Gf::ZERO).chain(divisor.iter().copied());
        let times_root = divisor.iter().map(|&c| root * c).chain(std::iter::once(Gf::ZERO));
        divisor = times_x.zip(times_root).map(|(a, b)| a + b).collect();
    }
    divisor.truncate(m);
    let mut columns: Vec<Vec<Gf>> = vec![divisor.clone()];
    while columns.len() < k {
        let last = &columns[columns.len() - 1];
        let top = last[m - 1];
        let times_x = std::iter::once(Gf::ZERO).chain(last.iter().copied());
        columns.push(times_x.zip(&divisor).map(|(a, &b)| a + top * b).collect());
    }
    Matrix::from_fn(m, k, |r, j| columns[j][r])
}

/// ISA-L's `gf_gen_cauchy1_matrix`: data j in parity r over k data columns.
pub(super) fn cauchy1(k: usize, r: usize, j: usize) -> Gf {
    Gf::ONE / Gf(((k + r) ^ j) as u8)
}

/// ISA-L's `gf_gen_rs_matrix`: data j in parity r.
pub(super) fn isa_vandermonde(r: usize, j: usize) -> Gf {
    Gf::alpha_pow((r * j) as i64)
}

/// The most data columns for which ISA-L's Vandermonde rows are MDS; the derivation is at the head
/// of this file.
pub(super) fn vandermonde_limit(m: usize) -> usize {
    match m {
        1..=3 => 256 - m,
        4 => 21,
        5 => 5,
        6..=21 => 4,
        _ => 3.min(256 - m),
    }
}

fn refuse_beyond_limit(arguments: &Arguments, k: usize, m: usize) -> Result<(), CodeError> {
    let limit = vandermonde_limit(m);
    if k <= limit {
        return Ok(());
    }
    let (data, kept) = vanishing_minor(limit + 1, m).expect("one data column more has a vanishing minor");
    let lost = (0..m).filter(|r| !kept.contains(r)).map(|r| limit + 1 + r);
    Err(CodeError::NotMds {
        spec: arguments.spec().into(),
        rows: format!("ISA-L's Vandermonde matrix with {m} parities"),
        k,
        limit,
        fatal: data.into_iter().chain(lost).collect(),
        instead: format!("Use rs:{k}+{m}, whose Cauchy matrix holds for every size."),
    })
}

/// The first vanishing 3 x 3 minor of the last data column; smaller ones do not exist within 256
/// columns.
fn vanishing_minor(k: usize, m: usize) -> Option<([usize; 3], [usize; 3])> {
    let rows = (0..m).flat_map(move |a| (a + 1..m).flat_map(move |b| (b + 1..m).map(move |c| [a, b, c])));
    let columns = (0..k).flat_map(move |a| (a + 1..k).map(move |b| [a, b, k - 1])).filter(|c| c[1] < c[2]);
    let pairs = columns.flat_map(|columns| rows.clone().map(move |rows| (columns, rows)));
    pairs.into_iter().find(|(columns, rows)| {
        Matrix::from_fn(3, 3, |r, c| isa_vandermonde(rows[r], columns[c])).rank() < 3
    })
}
