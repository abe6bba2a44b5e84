//! One element of GF(2^8) and its arithmetic, by logarithm tables built at compile time.

use std::fmt;
use std::iter::{Product, Sum};
use std::ops::{Add, AddAssign, Div, Mul, MulAssign};

/// The field polynomial x^8 + x^4 + x^3 + x^2 + 1.
pub const POLYNOMIAL: u16 = 0x11d;

/// The number of non-zero elements, which is the order of [`ALPHA`].
pub const ORDER: usize = 255;

/// The generator a = x = 0x02, whose powers are the coefficients of RAID-6's Q.
pub const ALPHA: Gf = Gf(2);

/// An element of GF(2^8). Addition is XOR, so every element is its own negative.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Gf(pub u8);

struct Tables {
    /// a^i for i in 0..510, so that the sum of two logarithms needs no reduction.
    exp: [u8; 510],
    /// log[a^i] = i for i in 0..255; log[0] is never used.
    log: [u8; 256],
}

const TABLES: Tables = {
    let mut exp = [0u8; 510];
    let mut log = [0u8; 256];
    let mut value: u16 = 1;
    let mut i = 0;
    while i < ORDER {
        exp[i] = value as u8;
        exp[i + ORDER] = value as u8;
        log[value as usize] = i as u8;
        value <<= 1;
        if value & 0x100 != 0 {
            value ^= POLYNOMIAL;
        }
        i += 1;
    }
    Tables { exp, log }
};

impl Gf {
    /// The additive identity.
    pub const ZERO: Gf = Gf(0);
    /// The multiplicative identity.
    pub const ONE: Gf = Gf(1);

    /// a^exponent; any integer, negative exponents included.
    pub fn alpha_pow(exponent: i64) -> Gf {
        Gf(TABLES.exp[exponent.rem_euclid(ORDER as i64) as usize])
    }

    /// The logarithm to base a in 0..255, `None` for zero.
    pub fn log(self) -> Option<usize> {
        (self.0 != 0).then(|| TABLES.log[self.0 as usize] as usize)
    }

    /// The multiplicative inverse, `None` for zero.
    pub fn inverse(self) -> Option<Gf> {
        self.log().map(|log| Gf(TABLES.exp[ORDER - log]))
    }

    /// self^exponent, with 0^0 = 1.
    pub fn pow(self, exponent: u64) -> Gf {
        match self.log() {
            None if exponent == 0 => Gf::ONE,
            None => Gf::ZERO,
            Some(log) => Gf(TABLES.exp[(log as u64 * (exponent % ORDER as u64) % ORDER as u64) as usize]),
        }
    }

    /// The square root. There is exactly one: squaring is a bijection in characteristic 2.
    pub fn sqrt(self) -> Gf {
        self.pow(128)
    }

    /// The smallest e > 0 with self^e = 1, `None` for zero.
    pub fn order(self) -> Option<usize> {
        self.log().map(|log| ORDER / gcd(log, ORDER))
    }

    /// The product, as a function that constants can use at compile time.
    pub const fn times(self, other: Gf) -> Gf {
        if self.0 == 0 || other.0 == 0 {
            return Gf::ZERO;
        }
        let sum = TABLES.log[self.0 as usize] as usize + TABLES.log[other.0 as usize] as usize;
        Gf(TABLES.exp[sum])
    }

    /// True if this is zero.
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if a == 0 { b } else { gcd(b % a, a) }
}

// In characteristic 2 addition is XOR.
#[allow(clippy::suspicious_arithmetic_impl)]
impl Add for Gf {
    type Output = Gf;
    fn add(self, other: Gf) -> Gf {
        Gf(self.0 ^ other.0)
    }
}

#[allow(clippy::suspicious_op_assign_impl)]
impl AddAssign for Gf {
    fn add_assign(&mut self, other: Gf) {
        self.0 ^= other.0;
    }
}

impl Mul for Gf {
    type Output = Gf;
    fn mul(self, other: Gf) -> Gf {
        self.times(other)
    }
}

impl MulAssign for Gf {
    fn mul_assign(&mut self, other: Gf) {
        *self = *self * other;
    }
}

/// Panics on division by zero, as integer division does.
#[allow(clippy::suspicious_arithmetic_impl)]
impl Div for Gf {
    type Output = Gf;
    fn div(self, other: Gf) -> Gf {
        match other.inverse() {
            Some(inverse) => self * inverse,
            None => panic!("division by zero in GF(2^8)"),
        }
    }
}

impl Sum for Gf {
    fn sum<I: Iterator<Item = Gf>>(terms: I) -> Gf {
        terms.fold(Gf::ZERO, Add::add)
    }
}

impl Product for Gf {
    fn product<I: Iterator<Item = Gf>>(factors: I) -> Gf {
        factors.fold(Gf::ONE, Mul::mul)
    }
}

impl fmt::Debug for Gf {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:02x}", self.0)
    }
}

impl fmt::Display for Gf {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:02x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shift-and-reduce multiplication, the definition against which the tables are tested.
    fn schoolbook(a: u8, b: u8) -> u8 {
        let mut product: u16 = 0;
        for bit in 0..8 {
            if b >> bit & 1 == 1 {
                product ^= (a as u16) << bit;
            }
        }
        for bit in (8..16).rev() {
            if product >> bit & 1 == 1 {
                product ^= POLYNOMIAL << (bit - 8);
            }
        }
        product as u8
    }

    #[test]
    fn all_products_are_the_schoolbook_products() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!((Gf(a) * Gf(b)).0, schoolbook(a, b), "{a} * {b}");
            }
        }
    }

    #[test]
    fn inverse_power_and_root_agree_with_multiplication() {
        assert_eq!(Gf::ZERO.inverse(), None);
        assert_eq!(Gf::ZERO.pow(0), Gf::ONE);
        assert_eq!(Gf::ZERO.pow(3), Gf::ZERO);
        for x in (1..=255).map(Gf) {
            assert_eq!(x * x.inverse().unwrap(), Gf::ONE);
            assert_eq!(x.sqrt() * x.sqrt(), x);
            assert_eq!(x.pow(5), x * x * x * x * x);
            assert_eq!(x.pow(255 * 7 + 2), x * x);
            assert_eq!(Gf::alpha_pow(x.log().unwrap() as i64), x);
            let order = x.order().unwrap();
            assert_eq!(x.pow(order as u64), Gf::ONE);
            assert!((1..order).all(|e| x.pow(e as u64) != Gf::ONE));
        }
    }

    #[test]
    fn roots_of_alpha_are_those_of_the_raidq_paper() {
        assert_eq!(ALPHA.sqrt(), Gf(0x85));
        assert_eq!(Gf::alpha_pow(129), Gf(0x17));
        assert_eq!(Gf::alpha_pow(85), Gf(0xd6));
        assert_eq!(Gf::alpha_pow(-1) * ALPHA, Gf::ONE);
    }
}
