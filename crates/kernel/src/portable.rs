//! The specification: GF(2^8) products by table, one byte at a time.
//!
//! Every other tier must produce exactly these bytes; nothing here is fast, everything here can be checked by
//! eye. The field is GF(2)\[x\] modulo x^8 + x^4 + x^3 + x^2 + 1 (0x11d), a byte's bit i is the coefficient of
//! x^i. Invariant: `product(c, x) == LOW[c][x & 15] ^ HIGH[c][x >> 4]`, because multiplying by c is linear over
//! GF(2) and x = (x & 15) + (x & 0xf0).
//!
//! It deliberately knows no schedule: rows are evaluated in the order in which the caller wrote them, so that a
//! mistake in the schedule of the fast tiers cannot be shared with their judge.

use crate::dot::Mode;

/// x^8 is replaced by x^4 + x^3 + x^2 + 1.
const REDUCTION: u8 = 0x1d;

/// `LOW[c][n]` is c times the byte n, for n < 16.
pub(crate) const LOW: [[u8; 16]; 256] = nibble_products(0);

/// `HIGH[c][n]` is c times the byte n << 4, for n < 16.
pub(crate) const HIGH: [[u8; 16]; 256] = nibble_products(4);

/// c times x in GF(2^8).
#[inline]
pub(crate) const fn product(c: u8, x: u8) -> u8 {
    LOW[c as usize][(x & 15) as usize] ^ HIGH[c as usize][(x >> 4) as usize]
}

/// Rows as the caller wrote them: the portable program.
#[derive(Debug)]
pub(crate) struct Rows(Vec<Vec<(usize, u8)>>);

impl Rows {
    pub(crate) fn new(rows: &[Vec<(usize, u8)>]) -> Rows {
        Rows(rows.to_vec())
    }

    /// Each output is computed by itself.
    pub(crate) fn is_one_pass(&self) -> bool {
        false
    }

    /// Computes every output, one after the other; it stores through the cache only.
    ///
    /// # Safety
    ///
    /// As `Program::run`.
    pub(crate) unsafe fn run(
        &self,
        mode: Mode,
        _streaming: bool,
        source: impl Fn(usize) -> *const u8,
        mut output: impl FnMut(usize) -> *mut u8,
        len: usize,
    ) {
        for (o, row) in self.0.iter().enumerate() {
            let output = output(o);
            if mode == Mode::Apply {
                // SAFETY: the output is valid for writes of `len` bytes.
                unsafe { output.write_bytes(0, len) };
            }
            // SAFETY: the output is valid, initialised (just now, or by the caller's promise), and overlaps nothing.
            let output = unsafe { std::slice::from_raw_parts_mut(output, len) };
            for &(s, coefficient) in row {
                // SAFETY: the source is valid for reads of `len` bytes and does not overlap the output.
                let source = unsafe { std::slice::from_raw_parts(source(s), len) };
                multiply_add(coefficient, source, output);
            }
        }
    }
}

/// `destination[i] ^= coefficient * source[i]`.
fn multiply_add(coefficient: u8, source: &[u8], destination: &mut [u8]) {
    assert_eq!(source.len(), destination.len());
    match coefficient {
        0 => {}
        1 => destination.iter_mut().zip(source).for_each(|(d, s)| *d ^= s),
        _ => {
            let row: [u8; 256] = std::array::from_fn(|x| product(coefficient, x as u8));
            destination.iter_mut().zip(source).for_each(|(d, s)| *d ^= row[usize::from(*s)]);
        }
    }
}

const fn nibble_products(shift: u32) -> [[u8; 16]; 256] {
    let mut table = [[0; 16]; 256];
    let mut c = 0;
    while c < 256 {
        // c * (n << shift) is the sum of c * x^(bit + shift) over the bits of n, so row n follows from row
        // n without its highest bit.
        let mut power = c as u8;
        let mut step = 0;
        while step < shift {
            power = double(power);
            step += 1;
        }
        let mut bit = 1;
        while bit < 16 {
            let mut rest = 0;
            while rest < bit {
                table[c][bit + rest] = table[c][rest] ^ power;
                rest += 1;
            }
            power = double(power);
            bit *= 2;
        }
        c += 1;
    }
    table
}

const fn double(x: u8) -> u8 {
    (x << 1) ^ (REDUCTION * (x >> 7))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplies as one does on paper: carry-less, then the remainder by 0x11d.
    fn schoolbook(a: u8, b: u8) -> u8 {
        let mut wide = 0u16;
        for bit in 0..8 {
            if b >> bit & 1 == 1 {
                wide ^= u16::from(a) << bit;
            }
        }
        for bit in (8..15).rev() {
            if wide >> bit & 1 == 1 {
                wide ^= 0x11d << (bit - 8);
            }
        }
        u8::try_from(wide).expect("a remainder has degree below 8")
    }

    #[test]
    fn every_product_is_the_schoolbook_product() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(product(a, b), schoolbook(a, b), "{a} * {b}");
            }
        }
    }

    #[test]
    fn multiply_add_adds_the_product_to_what_was_there() {
        let source: Vec<u8> = (0..=255).collect();
        // Miri sees the same accesses for each.
        for coefficient in (0..=255).step_by(if cfg!(miri) { 51 } else { 1 }) {
            let mut destination: Vec<u8> = (0..256).map(|i| (i % 251) as u8).collect();
            let before = destination.clone();
            multiply_add(coefficient, &source, &mut destination);
            for x in 0..256 {
                assert_eq!(destination[x], before[x] ^ schoolbook(coefficient, x as u8));
            }
        }
    }
}
