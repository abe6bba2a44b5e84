//! Tables of coefficients in ISA-L's three forms: written, recognised, and read.
//!
//! Three forms are in use, and a table is in one of them as a whole:
//!
//! * *nibbles*, 32 bytes a coefficient c: c times 0..16, then c times 0, 16, .. 240. Written by
//!   `ec_init_tables` here and in every libisal up to 2.30.
//! * *matrices*, 32 bytes a coefficient: four times the 8 x 8 matrix of bits that `vgf2p8affineqb`
//!   multiplies by c with. libisal after 2.31 on processors with GFNI.
//! * *packed matrices*, 8 bytes a coefficient, the rest of the 32 unwritten. libisal 2.31 there.
//!
//! Nibbles cannot be confused with matrices. Zero is written as zeros in every form. A matrix of a
//! non-zero c is invertible; each word of nibbles, read as a matrix, has a zero row or a zero first
//! byte. Matrices and packed matrices can be confused in one case, which is refused: four packed
//! coefficients in a row are equal and followed by zeros.

use crate::refuse;
use pantile_gf::Gf;

/// Bytes of a table for each coefficient, whatever the form.
pub const SLOT_BYTES: usize = 32;

type Slot = [u8; SLOT_BYTES];

/// The table of nibbles of every coefficient.
static NIBBLES: [Slot; 256] = nibbles_of_all();

/// Each coefficient's matrix as a little-endian word.
static MATRICES: [[u8; 8]; 256] = matrices_of_all();

const fn nibbles_of_all() -> [Slot; 256] {
    let mut all = [[0; SLOT_BYTES]; 256];
    let mut c = 0;
    while c < 256 {
        let mut nibble = 0;
        while nibble < 16 {
            all[c][nibble] = Gf(c as u8).times(Gf(nibble as u8)).0;
            all[c][16 + nibble] = Gf(c as u8).times(Gf((nibble << 4) as u8)).0;
            nibble += 1;
        }
        c += 1;
    }
    all
}

const fn matrices_of_all() -> [[u8; 8]; 256] {
    let mut all = [[0; 8]; 256];
    let mut c = 0;
    while c < 256 {
        // Bit j of the row for output bit i says whether c * x^j has bit i; the row of bit 0 is
        // last.
        let mut i = 0;
        while i < 8 {
            let mut j = 0;
            while j < 8 {
                all[c][7 - i] |= ((Gf(c as u8).times(Gf(1 << j)).0 >> i) & 1) << j;
                j += 1;
            }
            i += 1;
        }
        c += 1;
    }
    all
}

/// Writes the table of a coefficient.
pub fn write(coefficient: u8, slot: &mut Slot) {
    *slot = NIBBLES[usize::from(coefficient)];
}

/// Returns the coefficient of a slot of nibbles; `None` if the slot has another form.
pub fn from_nibbles(slot: &Slot) -> Option<u8> {
    (*slot == NIBBLES[usize::from(slot[1])]).then_some(slot[1])
}

/// Returns true if the first slot of a table has nibbles. The result is `false` also if the first
/// coefficient is zero, which is written alike in every form.
pub fn starts_with_nibbles(slot: &Slot) -> bool {
    slot[0] == 0 && slot[1] != 0
}

/// Returns the coefficient of a table of one slot, in any form.
pub fn from_slot(slot: &Slot) -> Option<u8> {
    from_nibbles(slot).or_else(|| coefficients(slot)?.first().copied())
}

/// Returns a hash of the coefficients of a table of nibbles, never 0; `None` if the table has
/// another form.
///
/// Different tables can have the same hash, though seldom.
pub fn number_of_nibbles(table: &[u8]) -> Option<u64> {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let (slots, _) = table.as_chunks::<SLOT_BYTES>();
    let (mut number, mut weight, mut differs) = (0u64, STEP, false);
    for slot in slots {
        let nibbles = &NIBBLES[usize::from(slot[1])];
        differs |= slot != nibbles;
        number = number.wrapping_add(weight.wrapping_mul(u64::from(slot[1]) + 1));
        weight = weight.wrapping_add(STEP << 1);
    }
    (!differs).then_some(number | 1)
}

/// Returns the coefficients of a whole table, one for each 32 bytes. The result is `None` if the
/// table is of no known form, or of two forms with different coefficients.
pub fn coefficients(table: &[u8]) -> Option<Vec<u8>> {
    let (slots, _) = table.as_chunks::<SLOT_BYTES>();
    if let Some(all) = slots.iter().map(from_nibbles).collect() {
        return Some(all);
    }
    if let Some(all) = slots.iter().map(from_matrices).collect::<Option<Vec<u8>>>() {
        let quarter = slots.len().div_ceil(4);
        let may_be_packed = slots.len() > 1 && all[quarter..].iter().all(|&c| c == 0);
        return (!may_be_packed).then_some(all);
    }
    let (words, _) = table[..8 * slots.len()].as_chunks::<8>();
    words.iter().map(from_matrix).collect()
}

/// Returns the coefficients of the table of a call. ISA-L's functions can refuse a table only by
/// ending the process.
pub fn coefficients_for(call: &str, table: &[u8]) -> Vec<u8> {
    coefficients(table).unwrap_or_else(|| {
        refuse::abort(format_args!(
            "{call}: the table of {} coefficients is of no form that is known, or could be of two; make it with \
             ec_init_tables of this library",
            table.len() / SLOT_BYTES
        ))
    })
}

fn from_matrices(slot: &Slot) -> Option<u8> {
    let (words, _) = slot.as_chunks::<8>();
    words.iter().all(|word| *word == words[0]).then(|| from_matrix(&words[0]))?
}

/// Returns the coefficient of a matrix: the product with 1 is its first column.
fn from_matrix(word: &[u8; 8]) -> Option<u8> {
    let c = word.iter().fold(0, |c, row| (c << 1) | (row & 1));
    (MATRICES[usize::from(c)] == *word).then_some(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_matrices(coefficients: &[u8]) -> Vec<u8> {
        coefficients.iter().flat_map(|&c| MATRICES[usize::from(c)].repeat(4)).collect()
    }

    fn packed(coefficients: &[u8], rest: u8) -> Vec<u8> {
        let mut table: Vec<u8> = coefficients.iter().flat_map(|&c| MATRICES[usize::from(c)]).collect();
        table.resize(SLOT_BYTES * coefficients.len(), rest);
        table
    }

    #[test]
    fn every_coefficient_is_read_in_every_form() {
        for c in 0..=255 {
            let all = [c, 7, 142, 1, c ^ 1];
            let nibbles: Vec<u8> = all.iter().flat_map(|&c| NIBBLES[usize::from(c)]).collect();
            for table in [nibbles, in_matrices(&all), packed(&all, 0), packed(&all, 0xa5)] {
                assert_eq!(coefficients(&table).as_deref(), Some(&all[..]));
                let slot = table[..SLOT_BYTES].try_into().unwrap();
                assert_eq!(starts_with_nibbles(slot), c != 0 && from_nibbles(slot).is_some(), "{c}");
            }
        }
    }

    #[test]
    fn a_matrix_multiplies_as_the_field_does() {
        for c in 0..=255 {
            for x in 0..=255 {
                let bit = |i: usize| ((MATRICES[usize::from(c)][7 - i] & x).count_ones() as u8 & 1) << i;
                assert_eq!((0..8).map(bit).sum::<u8>(), (Gf(c) * Gf(x)).0);
            }
        }
    }

    #[test]
    fn tables_of_no_form_or_of_two_are_refused() {
        let mut table = in_matrices(&[3, 4]);
        table[9] ^= 1;
        table[40] ^= 1;
        assert_eq!(coefficients(&table), None);
        assert_eq!(coefficients(&[0x55; 64]), None);
        let mut nibbles = NIBBLES[9];
        nibbles[31] ^= 0x80;
        assert_eq!(coefficients(&nibbles), None);
        // Four ones, or a one and three zeros.
        assert_eq!(coefficients(&packed(&[1, 1, 1, 1], 0)), None);
        assert_eq!(coefficients(&in_matrices(&[1, 0, 0, 0])), None);
        assert_eq!(coefficients(&packed(&[1, 1, 1, 1], 0xa5)), Some(vec![1; 4]));
    }
}
