//! The specification: GF(2^8) products without any instruction that a processor might lack.
//!
//! Every other tier must produce exactly these bytes; everything here can be checked by eye. The
//! field is GF(2)\[x\] modulo x^8 + x^4 + x^3 + x^2 + 1 (0x11d), a byte's bit i is the coefficient
//! of x^i. Invariant: `product(c, x) == LOW[c][x & 15] ^ HIGH[c][x >> 4]`, because multiplying by c
//! is linear over GF(2) and x = (x & 15) + (x & 0xf0).
//!
//! A sum of products is computed by Horner's rule over the bits of the coefficients: from bit 7
//! down, the sum so far is doubled, and every source whose coefficient has the bit is added. That
//! takes XORs and seven doublings for any number of sources, on tiles of bytes that compilers turn
//! into vector code. The bytes left over are taken one at a time, by table. It deliberately knows
//! no schedule: rows are evaluated in the caller's order, so that a mistake in the schedule of the
//! fast tiers cannot be shared with their judge.

use crate::stores::Mode;

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

/// A linear map of bytes, given by the images of single bits, as those of the 16 low and of the 16
/// high nibbles.
pub(crate) fn images_of_nibbles(images: [u8; 8]) -> [[u8; 16]; 2] {
    [0, 4].map(|shift| {
        std::array::from_fn(|nibble| {
            let bits = (0..4).filter(|bit| nibble >> bit & 1 == 1);
            bits.fold(0, |image, bit| image ^ images[shift + bit])
        })
    })
}

/// Bytes that are summed at a time: eight registers of 16 bytes.
const TILE_BYTES: usize = 128;

type Tile = [u8; TILE_BYTES];

/// Rows as the caller wrote them: the portable program.
#[derive(Debug)]
pub(crate) struct Rows(Vec<Row>);

#[derive(Debug)]
struct Row {
    /// Sources, each with its coefficient.
    terms: Vec<(usize, u8)>,
    /// For each bit, from 7 down, the sources whose coefficient has it; none before the highest bit
    /// of any.
    by_bit: Vec<Vec<usize>>,
}

impl Row {
    fn new(terms: &[(usize, u8)]) -> Row {
        let of_bit =
            |bit: u32| terms.iter().filter(|term| term.1 >> bit & 1 == 1).map(|term| term.0).collect();
        let by_bit = (0..8).rev().map(of_bit).skip_while(Vec::is_empty).collect();
        Row { terms: terms.to_vec(), by_bit }
    }

    /// The sum of products on a tile.
    ///
    /// # Safety
    ///
    /// `source(s)` is valid for reads of a tile, for every source of the row.
    #[inline(always)]
    unsafe fn tile(&self, source: impl Fn(usize) -> *const Tile) -> Tile {
        let mut sum = [0; TILE_BYTES];
        for (step, sources) in self.by_bit.iter().enumerate() {
            if step > 0 {
                sum.iter_mut().for_each(|byte| *byte = double(*byte));
            }
            for &s in sources {
                // SAFETY: the caller's promise; a tile has no alignment.
                add(&mut sum, unsafe { &*source(s) });
            }
        }
        sum
    }

    /// The sum of products on one byte.
    fn byte(&self, source: impl Fn(usize) -> u8) -> u8 {
        self.terms.iter().fold(0, |sum, &(s, coefficient)| sum ^ product(coefficient, source(s)))
    }
}

#[inline(always)]
fn add(sum: &mut Tile, other: &Tile) {
    sum.iter_mut().zip(other).for_each(|(sum, other)| *sum ^= other);
}

impl Rows {
    pub(crate) fn new(rows: &[Vec<(usize, u8)>]) -> Rows {
        Rows(rows.iter().map(|row| Row::new(row)).collect())
    }

    /// Each output is computed by itself.
    pub(crate) fn is_one_pass(&self) -> bool {
        false
    }

    /// Computes every output, tile by tile; it stores through the cache only.
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
        let whole = len / TILE_BYTES * TILE_BYTES;
        for at in (0..whole).step_by(TILE_BYTES) {
            for (o, row) in self.0.iter().enumerate() {
                // SAFETY: `at + TILE_BYTES <= len`, for which sources are valid for reads.
                let mut sum = unsafe { row.tile(|s| source(s).wrapping_add(at).cast::<Tile>()) };
                // SAFETY: the output is valid for `len` bytes, and overlaps nothing.
                let to = unsafe { output(o).add(at).cast::<Tile>() };
                if mode == Mode::Accumulate {
                    // SAFETY: as above; by the caller's promise it is initialised.
                    add(&mut sum, &unsafe { to.read() });
                }
                // SAFETY: as above.
                unsafe { to.write(sum) };
            }
        }
        for (o, row) in self.0.iter().enumerate() {
            for at in whole..len {
                // SAFETY: `at < len`, for which sources are valid for reads.
                let sum = row.byte(|s| unsafe { source(s).add(at).read() });
                // SAFETY: the output is valid for `len` bytes, and overlaps nothing.
                let to = unsafe { output(o).add(at) };
                // SAFETY: as above; when accumulating, the output is initialised by the caller's
                // promise.
                unsafe { to.write(if mode == Mode::Accumulate { sum ^ to.read() } else { sum }) };
            }
        }
    }
}

const fn nibble_products(shift: u32) -> [[u8; 16]; 256] {
    let mut table = [[0; 16]; 256];
    let mut c = 0;
    while c < 256 {
        // c * (n << shift) is the sum of c * x^(bit + shift) over the bits of n, so row n follows
        // from row n without its highest bit.
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

/// 2 times x: its highest bit, if it has one, comes back as x^8. As a mask and not as a product,
/// which vectors lack.
#[inline(always)]
const fn double(x: u8) -> u8 {
    (x << 1) ^ ((x.cast_signed() >> 7).cast_unsigned() & REDUCTION)
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
    fn tiles_and_bytes_give_the_same_sums() {
        // Each coefficient with another one; tiles, and bytes behind them.
        let len = 2 * TILE_BYTES + 77;
        let sources: Vec<Vec<u8>> =
            (0..3).map(|s| (0..len).map(|i| (i * (s + 3) + i / 251 + s) as u8).collect()).collect();
        for coefficient in (0..=255u8).step_by(if cfg!(miri) { 51 } else { 1 }) {
            let terms = [(0, coefficient), (2, coefficient.rotate_left(3)), (1, 1)];
            let rows = Rows::new(&[terms.to_vec()]);
            for mode in [Mode::Apply, Mode::Accumulate] {
                let before: Vec<u8> = (0..len).map(|i| (i % 249) as u8).collect();
                let mut output = before.clone();
                let (to, from) = (output.as_mut_ptr(), |s: usize| sources[s].as_ptr());
                // SAFETY: sources and the output have `len` bytes, and lie apart.
                unsafe { rows.run(mode, false, from, |_| to, len) };
                for i in 0..len {
                    let start = if mode == Mode::Apply { 0 } else { before[i] };
                    let sum = terms.iter().fold(start, |sum, &(s, c)| sum ^ schoolbook(c, sources[s][i]));
                    assert_eq!(output[i], sum, "{coefficient}, byte {i}, {mode:?}");
                }
            }
        }
    }
}
