//! x86-64: 32-byte vectors since 2013 (AVX2), one-instruction products since 2019 (GFNI), 64-byte vectors.

/// A loop over outputs 0..M that is written out. The compiler stops unrolling nested loops of this size, and then
/// keeps the sums in memory instead of registers: 31 instead of 55 GB/s with four outputs.
macro_rules! for_each_output {
    ($o:ident < $m:ident $body:block) => {
        for_each_output!(@ $o $m $body 0 1 2 3 4 5 6 7)
    };
    (@ $o:ident $m:ident $body:block $($n:literal)*) => {
        $(if $n < $m {
            #[allow(non_upper_case_globals)]
            const $o: usize = $n;
            $body
        })*
    };
}

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
