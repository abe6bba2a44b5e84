//! Additive FFTs, and networks of them, of AVX2 with GFNI.

use super::*;
use crate::arch::common::fft::{ROWS, ROWS_AND_LEFT, STATES_ALONE, VALUES};
use crate::arch::common::network::{TO_BUFFERS, TO_PAST, TO_SLOTS, is_first};
use crate::arch::x86_64::partial::{load, store};
use crate::fft::{FftEngine, FftJob, FftKernel, Finish, POINTS, POINTS_MOST, VISIT_BYTES_MOST};
use crate::network::{LANES_MOST, NetworkEngine, NetworkJob, NetworkKernel, To};

/// Columns of a visit of an additive FFT of four points, and of eight.
const FFT_COLUMNS: [usize; 2] = [2, 2];

impl FftEngine for Avx2Gfni {
    fn fft_kernel(self, streaming: bool, points: usize, finish: Finish) -> Option<FftKernel<u64>> {
        match forms::stores(streaming) {
            PAST | PAST_NEXT => pick_fft!(points, finish, PAST_NEXT by FFT_COLUMNS),
            PAST_AHEAD => pick_fft!(points, finish, PAST_AHEAD by FFT_COLUMNS),
            _ => pick_fft!(points, finish, CACHED by FFT_COLUMNS),
        }
    }
}

define_fft!(
    "avx2,gfni",
    u64,
    partial::load::<C, CACHED>,
    partial::load_column::<C, STORES>,
    partial::store::<C, STORES>,
    usize,
    VECTOR,
    |left| left,
    _mm256_setzero_si256,
    _mm256_xor_si256,
    |a, b, d| _mm256_xor_si256(_mm256_xor_si256(a, b), d),
    |x, matrix| _mm256_gf2p8affine_epi64_epi8::<0>(x, _mm256_set1_epi64x(*matrix as i64))
);

define_network!(
    Avx2Gfni, 3;
    "avx2,gfni",
    u64,
    load,
    store,
    TO_BUFFERS,
    usize,
    VECTOR,
    |left| left,
    _mm256_setzero_si256,
    _mm256_xor_si256,
    |x, matrix| _mm256_gf2p8affine_epi64_epi8::<0>(x, _mm256_set1_epi64x(*matrix as i64))
);
