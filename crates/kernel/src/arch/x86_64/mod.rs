//! x86-64: 32-byte vectors since 2013 (AVX2), one-instruction products since 2019 (GFNI), 64-byte vectors.

pub(crate) mod avx2;
pub(crate) mod avx2_gfni;
pub(crate) mod avx512_gfni;
mod partial;

use crate::portable;

/// Multiplication by c as the 8 x 8 bit matrix that `vgf2p8affineqb` takes.
///
/// The instruction computes bit i of its result as the parity of `matrix.byte[7 - i] & x`. Bit i of c * x is the sum
/// over j of x_j times bit i of c * 2^j, so byte 7 - i has bit j = bit i of c * 2^j.
/// Source: Intel SDM, volume 2, GF2P8AFFINEQB; checked against the portable table by every kernel test.
fn affine_matrix(c: u8) -> u64 {
    let mut matrix = 0;
    for j in 0..8 {
        let image = portable::product(c, 1 << j);
        for i in 0..8 {
            matrix |= u64::from(image >> i & 1) << (8 * (7 - i) + j);
        }
    }
    matrix
}
