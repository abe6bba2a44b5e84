//! The loops over words, with bytes of two vectors in any order by one `vpermt2b`: on machines that
//! have it, which all are with AVX-512 and GFNI.

use std::arch::x86_64::*;

use crate::word_loops::{Maps, WordJob, WordLoop, WordLoops};

define_word_loops!(
    __m512i, _mm512_loadu_si512, _mm512_storeu_si512, halves, zipped;
    "avx512f,avx512bw,avx512vbmi,gfni",
    u64,
    u64,
    !0,
    |left| left,
    _mm512_setzero_si512,
    _mm512_xor_si512,
    |a, b, d| _mm512_xor_si512(_mm512_xor_si512(a, b), d),
    |x, matrix| _mm512_gf2p8affine_epi64_epi8::<0>(x, _mm512_set1_epi64(*matrix as i64))
);

/// Bytes of a vector.
const VECTOR: usize = 64;

/// Places of bytes in two vectors, one behind the other.
const EVEN: [u8; VECTOR] = places(2, 0);
const ODD: [u8; VECTOR] = places(2, 1);
const FIRST: [u8; VECTOR] = zipped_places(0);
const SECOND: [u8; VECTOR] = zipped_places(VECTOR / 2);

/// The bytes of even and of odd places of two vectors.
#[inline]
#[target_feature(enable = "avx512f,avx512vbmi")]
fn halves(a: __m512i, b: __m512i) -> (__m512i, __m512i) {
    (taken(a, b, &EVEN), taken(a, b, &ODD))
}

/// The inverse of [`halves`].
#[inline]
#[target_feature(enable = "avx512f,avx512vbmi")]
fn zipped(even: __m512i, odd: __m512i) -> (__m512i, __m512i) {
    (taken(even, odd, &FIRST), taken(even, odd, &SECOND))
}

#[inline]
#[target_feature(enable = "avx512f,avx512vbmi")]
fn taken(a: __m512i, b: __m512i, places: &[u8; VECTOR]) -> __m512i {
    // SAFETY: the places are a vector long.
    let places = unsafe { _mm512_loadu_si512(places.as_ptr().cast()) };
    _mm512_permutex2var_epi8(a, places, b)
}

const fn places(step: usize, first: usize) -> [u8; VECTOR] {
    let mut places = [0; VECTOR];
    let mut i = 0;
    while i < VECTOR {
        places[i] = (step * i + first) as u8;
        i += 1;
    }
    places
}

const fn zipped_places(first: usize) -> [u8; VECTOR] {
    let mut places = [0; VECTOR];
    let mut i = 0;
    while i < VECTOR {
        places[i] = (i % 2 * VECTOR + first + i / 2) as u8;
        i += 1;
    }
    places
}

/// As `loops_of_words`; `None` also on a machine without that instruction.
pub(super) fn loops(bytes: usize, map: fn([u8; 8]) -> u64) -> Option<WordLoops<u64>> {
    is_x86_feature_detected!("avx512vbmi").then(|| loops_of_words(bytes, map)).flatten()
}
