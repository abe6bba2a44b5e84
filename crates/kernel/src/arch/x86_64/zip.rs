//! Bytes of even and of odd places, apart and together, in 32-byte vectors.

use std::arch::x86_64::*;

/// The order of the quarters of a vector in which those of two halves change places.
const CROSSED: i32 = 0b11_01_10_00;

/// The bytes of even and of odd places of two vectors.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn halves(a: __m256i, b: __m256i) -> (__m256i, __m256i) {
    let apart =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
    let (a, b) = (_mm256_shuffle_epi8(a, apart), _mm256_shuffle_epi8(b, apart));
    let (even, odd) = (_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
    (_mm256_permute4x64_epi64::<CROSSED>(even), _mm256_permute4x64_epi64::<CROSSED>(odd))
}

/// The inverse of [`halves`].
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn zipped(even: __m256i, odd: __m256i) -> (__m256i, __m256i) {
    let even = _mm256_permute4x64_epi64::<CROSSED>(even);
    let odd = _mm256_permute4x64_epi64::<CROSSED>(odd);
    (_mm256_unpacklo_epi8(even, odd), _mm256_unpackhi_epi8(even, odd))
}
