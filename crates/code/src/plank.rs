//! The limits up to which Plank's generator rows g^0, g^1, g^2, ... are MDS, which prove every
//! limit of `raidq`.
//!
//! Parity p of data column i has the coefficient g_p^i. The code is MDS exactly if no square minor
//! of that matrix is zero. Column i has i-th powers, so a minor on data columns {i1 < i2 < ..} is
//! zero exactly if the minor shifted to begin at 0 is. So only minors that contain data column 0
//! are tested. With U_k = g_x^k + g_y^k:
//!
//! - 2 x 2, {0, k} on {x, y}: zero if U_k = 0.
//! - 3 x 3, {0, j, k} on {x, y, z}: zero if the slopes (g_x^k + g_z^k) / U_k are equal for j and k.
//! - 4 x 4, {0, j, j', k}: zero if the points (slope to y, slope to z) of j, j' and k are on one
//!   line. That is so if two lines from k to earlier points have the same direction.
//!
//! Each new column k is compared with the earlier ones by a table of slopes, in O(n^2) for a limit
//! of n. Source: the RAIDq paper (Chen, Yang, Cheng, HotStorage 2013), which names codes of such
//! rows after Plank; the scan and the limits 125 and 164 are Pantile's, found by trying all 32,640
//! irreducible X^2 + bX + c.

use pantile_gf::{Gf, Matrix};
use std::collections::HashMap;

/// The most data columns of any Plank code: the powers of an element of GF(2^8) repeat after 255.
pub const MOST_DATA: usize = 255;

/// An element of a [`Tower`]: the coefficients of T^0, T^1, T^2.
pub type Element = [Gf; 3];

/// GF(2^8)\[T\] / (T^d - (c_{d-1} T^{d-1} + ... + c_0)) for d = 1, 2, 3: bytes, GF(2^16) or
/// GF(2^24).
#[derive(Clone, Debug)]
pub struct Tower {
    modulus: Vec<Gf>,
}

impl Tower {
    /// GF(2^8) itself.
    pub fn bytes() -> Tower {
        Tower { modulus: vec![Gf::ZERO] }
    }

    /// GF(2^16) by X^2 = bX + c, `None` if the polynomial has a root and so defines no field.
    pub fn quadratic(b: Gf, c: Gf) -> Option<Tower> {
        let has_root = (0..=255).map(Gf).any(|x| x * x == b * x + c);
        (!has_root).then(|| Tower { modulus: vec![c, b] })
    }

    /// GF(2^24) by Y^3 = a; a is no cube in GF(2^8), because 3 divides 255 and a has order 255.
    pub fn cubic() -> Tower {
        Tower { modulus: vec![pantile_gf::ALPHA, Gf::ZERO, Gf::ZERO] }
    }

    /// The degree over GF(2^8), which is the number of rows per column of a code.
    pub fn degree(&self) -> usize {
        self.modulus.len()
    }

    /// An element of GF(2^8).
    pub fn embed(&self, byte: Gf) -> Element {
        [byte, Gf::ZERO, Gf::ZERO]
    }

    /// T times a byte.
    pub fn root(&self, factor: Gf) -> Element {
        [Gf::ZERO, factor, Gf::ZERO]
    }

    /// The product.
    pub fn product(&self, x: Element, y: Element) -> Element {
        let d = self.degree();
        let mut long = [Gf::ZERO; 5];
        for i in 0..d {
            for j in 0..d {
                long[i + j] += x[i] * y[j];
            }
        }
        for high in (d..2 * d - 1).rev() {
            let carry = std::mem::take(&mut long[high]);
            self.modulus.iter().enumerate().for_each(|(t, &m)| long[high - d + t] += carry * m);
        }
        [long[0], long[1], long[2]]
    }

    /// x^exponent.
    pub fn pow(&self, mut x: Element, mut exponent: u64) -> Element {
        let mut result = self.embed(Gf::ONE);
        while exponent > 0 {
            if exponent & 1 == 1 {
                result = self.product(result, x);
            }
            x = self.product(x, x);
            exponent >>= 1;
        }
        result
    }

    /// The matrix of a multiplication by an element, on coefficients from the lowest power up.
    pub fn matrix(&self, x: Element) -> Matrix {
        let d = self.degree();
        let mut columns = vec![x];
        (1..d).for_each(|s| columns.push(self.product(columns[s - 1], self.root(Gf::ONE))));
        Matrix::from_fn(d, d, |t, s| columns[s][t])
    }

    fn quotient(&self, x: Element, y: Element) -> Element {
        self.product(x, self.pow(y, (1 << (8 * self.degree())) - 2))
    }
}

fn sum(x: Element, y: Element) -> Element {
    [x[0] + y[0], x[1] + y[1], x[2] + y[2]]
}

const NOTHING: Element = [Gf::ZERO; 3];

/// A minor that is zero: the loss of these data columns is fatal if only these parities remain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VanishingMinor {
    /// The data columns, ascending from 0. The last number is also the largest number of data
    /// columns for which the code is MDS.
    pub data: Vec<usize>,
    /// The indices of the parities.
    pub parities: Vec<usize>,
}

impl VanishingMinor {
    /// The largest number of data columns with which the code does not have this minor.
    pub fn limit(&self) -> usize {
        self.data[self.data.len() - 1]
    }

    /// Returns m columns whose loss is fatal in a code with one data column more than the limit.
    pub fn fatal_columns(&self, parities: usize) -> Vec<usize> {
        let k = self.limit() + 1;
        let lost = (0..parities).filter(|p| !self.parities.contains(p)).map(|p| k + p);
        self.data.iter().copied().chain(lost).collect()
    }
}

/// Returns the first minor that is zero, in the rows of powers of 3 or 4 generators; `None` if
/// there is none up to 255 data columns.
///
/// Cost: O(limit^2) products in the tower.
pub fn first_vanishing_minor(field: &Tower, generators: &[Element]) -> Option<VanishingMinor> {
    let m = generators.len();
    let mut powers = vec![vec![field.embed(Gf::ONE); m]];
    let mut slopes: HashMap<([usize; 3], Element), usize> = HashMap::new();
    let mut points: Vec<(Element, Element)> = vec![(NOTHING, NOTHING)];
    for k in 1..MOST_DATA {
        let next: Vec<Element> =
            powers[k - 1].iter().zip(generators).map(|(&p, &g)| field.product(p, g)).collect();
        let fault = |mut data: Vec<usize>, parities: Vec<usize>| {
            data.push(k);
            Some(VanishingMinor { data, parities })
        };
        for x in 0..m {
            if let Some(y) = (x + 1..m).find(|&y| next[x] == next[y]) {
                return fault(vec![0], vec![x, y]);
            }
        }
        let slope =
            |x: usize, y: usize, z: usize| field.quotient(sum(next[x], next[z]), sum(next[x], next[y]));
        for x in 0..m {
            for y in x + 1..m {
                for z in y + 1..m {
                    if let Some(j) = slopes.insert(([x, y, z], slope(x, y, z)), k) {
                        return fault(vec![0, j], vec![x, y, z]);
                    }
                }
            }
        }
        if m == 4 {
            let point = (slope(0, 1, 2), slope(0, 1, 3));
            let mut lines: HashMap<Option<Element>, usize> = HashMap::new();
            for (j, earlier) in points.iter().enumerate().skip(1) {
                let (dx, dy) = (sum(point.0, earlier.0), sum(point.1, earlier.1));
                let direction = (dx != NOTHING).then(|| field.quotient(dy, dx));
                if let Some(other) = lines.insert(direction, j) {
                    return fault(vec![0, other, j], vec![0, 1, 2, 3]);
                }
            }
            points.push(point);
        }
        powers.push(next);
    }
    None
}

/// The largest number of data columns for which the rows of powers of [1, a, a^1/2, X] are MDS,
/// with X^2 = bX + c.
///
/// `None` if X^2 + bX + c has a root in GF(2^8) and so defines no X. Cost: about 50 microseconds.
pub fn limit_of_fourth_generator(b: Gf, c: Gf) -> Option<usize> {
    limit_of_fourth_generator_from(b, c, 0)
}

/// Returns [`limit_of_fourth_generator`] if it is at least `least`; otherwise `None`, in most cases
/// much sooner.
///
/// A search over all 32,640 irreducible X^2 + bX + c takes seconds on one core; each polynomial can
/// be tested separately.
///
/// ```
/// use pantile_code::plank::limit_of_fourth_generator_from;
/// use pantile_gf::Gf;
///
/// assert_eq!(limit_of_fourth_generator_from(Gf(0xfe), Gf(0x72), 100), Some(164));
/// assert_eq!(limit_of_fourth_generator_from(Gf(0x08), Gf(0x01), 100), None); // 92
/// ```
pub fn limit_of_fourth_generator_from(b: Gf, c: Gf, least: usize) -> Option<usize> {
    Tower::quadratic(b, c)?;
    let slopes = Slopes::new(b, c);
    let limit = slopes.limit_of_small_minors();
    if limit < least {
        return None;
    }
    let limit = slopes.limit_of_lines(limit);
    (limit >= least).then_some(limit)
}

/// The slopes of the rows of [1, a, a^1/2, X], with r = a^1/2: all their denominators are in
/// GF(2^8).
struct Slopes {
    /// (1 + r^k) / (1 + a^k) = 1 / (1 + r^k): distinct up to k = 254, because r is a generator.
    first: Vec<Gf>,
    /// (1 + X^k) / (1 + a^k), for the parities {0, 1, 3}.
    second: Vec<(Gf, Gf)>,
    /// (1 + X^k) / (1 + r^k), for {0, 2, 3}.
    third: Vec<(Gf, Gf)>,
    /// (1 + (X/r)^k) / (1 + r^k), for {1, 2, 3}, each row divided by r^k.
    fourth: Vec<(Gf, Gf)>,
}

impl Slopes {
    fn new(b: Gf, c: Gf) -> Slopes {
        let root = pantile_gf::ALPHA.sqrt();
        let mut power = (Gf::ONE, Gf::ZERO);
        let mut slopes = Slopes { first: vec![Gf::ZERO], second: vec![], third: vec![], fourth: vec![] };
        slopes.second.push((Gf::ZERO, Gf::ZERO));
        slopes.third.push((Gf::ZERO, Gf::ZERO));
        slopes.fourth.push((Gf::ZERO, Gf::ZERO));
        for k in 1..MOST_DATA {
            power = (c * power.1, power.0 + b * power.1);
            let root_power = root.pow(k as u64);
            let by_root = Gf::ONE / (Gf::ONE + root_power);
            let by_alpha = by_root * by_root;
            let scaled = Gf::ONE / root_power;
            slopes.first.push(by_root);
            slopes.second.push(((power.0 + Gf::ONE) * by_alpha, power.1 * by_alpha));
            slopes.third.push(((power.0 + Gf::ONE) * by_root, power.1 * by_root));
            slopes.fourth.push(((power.0 * scaled + Gf::ONE) * by_root, power.1 * scaled * by_root));
        }
        slopes
    }

    /// The limit from minors of size 2 and 3 that contain X. Minors without X give no limit,
    /// because [1, a, a^1/2] is MDS up to 255.
    fn limit_of_small_minors(&self) -> usize {
        let mut seen = vec![false; 3 << 16];
        // A slope of zero, or of one, is a 2 x 2 minor that is zero, of X with 1, a or a^1/2.
        let (zero, one) = ((Gf::ZERO, Gf::ZERO), (Gf::ONE, Gf::ZERO));
        for k in 1..MOST_DATA {
            let (second, third, fourth) = (self.second[k], self.third[k], self.fourth[k]);
            let pair = second == zero || second == one || third == one;
            let mut repeated =
                |table: usize, slope: (Gf, Gf)| std::mem::replace(&mut seen[table << 16 | key(slope)], true);
            if pair || repeated(0, second) || repeated(1, third) || repeated(2, fourth) {
                return k;
            }
        }
        MOST_DATA
    }

    /// The limit from minors of size 4, if it is below `most`.
    fn limit_of_lines(&self, most: usize) -> usize {
        let mut last_seen = vec![0u8; 1 << 16];
        for k in 1..most {
            let (x, y) = (self.first[k], self.second[k]);
            for j in 1..k {
                let run = Gf::ONE / (x + self.first[j]);
                let earlier = self.second[j];
                let direction = ((y.0 + earlier.0) * run, (y.1 + earlier.1) * run);
                if std::mem::replace(&mut last_seen[key(direction)], k as u8) == k as u8 {
                    return k;
                }
            }
        }
        most
    }
}

fn key((low, high): (Gf, Gf)) -> usize {
    usize::from(high.0) << 8 | usize::from(low.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantile_gf::ALPHA;

    #[test]
    fn the_powers_of_x_are_those_printed_in_the_raidq_paper() {
        // GF(2^16) = GF(2^8)[X] / (X^2 + a^3 X + 1).
        let field = Tower::quadratic(Gf::alpha_pow(3), Gf::ONE).unwrap();
        let x = field.root(Gf::ONE);
        let printed = [0x0001u16, 0x0100, 0x0801, 0x4108, 0x3a41, 0x8c3a];
        for (exponent, &element) in printed.iter().enumerate() {
            let power = field.pow(x, exponent as u64);
            assert_eq!(u16::from(power[1].0) << 8 | u16::from(power[0].0), element, "X^{exponent}");
            assert!((0..2).all(|t| field.matrix(power).get(t, 0) == power[t]), "X^{exponent} as a matrix");
        }
        assert_eq!(field.pow(x, 257), field.embed(Gf::ONE), "X has order 257");
    }

    #[test]
    fn y_is_a_cube_root_of_alpha() {
        let field = Tower::cubic();
        for factor in [Gf::ONE, Gf::alpha_pow(85)] {
            assert_eq!(field.pow(field.root(factor), 3), field.embed(ALPHA));
        }
        assert_eq!(field.pow(field.root(Gf::ONE), 765), field.embed(Gf::ONE), "Y has order 765");
    }
}
