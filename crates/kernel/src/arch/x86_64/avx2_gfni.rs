//! AVX2 with GFNI: one affine transformation per product, for machines without 64-byte vectors.
//!
//! Sixteen registers: M outputs times C columns of sums, C of the source, one matrix and one
//! product. There is no sum of three, so sources are taken one at a time.

use std::arch::x86_64::*;

use super::cpu;
use super::forms::{
    self, CACHED, CACHED_LATER, LAST_BY_SUM, LINE, PAST, PAST_AHEAD, PAST_NEXT, PLAIN, SHORT, SOLVED, is_past,
};
use super::partial;
use super::zip::{halves, zipped};
use crate::engine::{Engine, Job, Kernel, MAX_OUTPUTS, Solving, Summing};
use crate::horner::{
    ANY_CLASSES, CUBE, CUBE_BACK, CUBE_CLASSES, HornerEngine, HornerJob, HornerKernel, ONE, QUADRATIC,
    SQUARE, SQUARE_CLASSES, STATES, UNIT, class_of, plane_before,
};
use crate::streams::FewStreams;
use crate::tier::Tier;
use crate::word_loops::{Maps, WordJob, WordLoop, WordLoops};

/// Defines a loop that is common to architectures: its own arguments, then this engine's
/// arithmetic.
macro_rules! with_arithmetic {
    ($define:ident!($($own:tt)*)) => {
        $define!(
            $($own)*;
            "avx2,gfni",
            u64,
            usize,
            VECTOR,
            |left| left,
            _mm256_setzero_si256,
            _mm256_xor_si256,
            |a, b, d| _mm256_xor_si256(_mm256_xor_si256(a, b), d),
            |x, matrix| _mm256_gf2p8affine_epi64_epi8::<0>(x, _mm256_set1_epi64x(*matrix as i64))
        );
    };
}

#[cfg(feature = "fft")]
mod transforms;

/// Bytes of a vector.
const VECTOR: usize = 32;

/// Columns of a visit, by the number of its outputs.
const COLUMNS: [usize; MAX_OUTPUTS + 1] = [0, 4, 4, 3, 2, 2, 2, 1, 1];

/// Columns of a visit that stores past the cache, by whole lines (`avx2.rs`): three outputs gain a
/// tenth to two thirds.
const PAST_COLUMNS: [usize; MAX_OUTPUTS + 1] = [0, 4, 4, 2, 2, 2, 2, 2, 2];

/// A witness that the machine has AVX2 and GFNI.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2Gfni(());

impl Avx2Gfni {
    pub(crate) const TIER: Tier = Tier::Avx2Gfni;

    pub(crate) fn new() -> Option<Avx2Gfni> {
        let has = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("gfni");
        has.then_some(Avx2Gfni(()))
    }
}

impl Engine for Avx2Gfni {
    type Coefficient = u64;

    const MULTIPLY_COST: usize = 3;

    const STREAM_ALIGN_BYTES: usize = LINE;

    fn coefficient(c: u8) -> u64 {
        forms::affine_matrix(c)
    }

    /// Kernels without prefetch are missing: processors that want them have AVX-512 (Zen 5).
    fn kernel(self, streaming: bool, shape: Summing) -> Kernel<u64> {
        let kernel = match forms::stores(streaming) {
            PAST | PAST_NEXT => pick_dot!(shape, PAST_NEXT by PAST_COLUMNS; 1 2 3 4 5 6 7 8),
            PAST_AHEAD => pick_dot!(shape, PAST_AHEAD by PAST_COLUMNS; 1 2 3 4 5 6 7 8),
            _ => pick_dot!(shape, CACHED by COLUMNS; 1 2 3 4 5 6 7 8),
        };
        kernel.unwrap_or_else(|| unreachable!("a pass has 1 to 8 outputs"))
    }

    fn solving_kernel(self, streaming: bool, shape: Solving) -> Option<Kernel<u64>> {
        match forms::stores(streaming) {
            PAST | PAST_NEXT => pick_solving!(shape, PAST_NEXT by PAST_COLUMNS, 0; 2 3 4),
            PAST_AHEAD => pick_solving!(shape, PAST_AHEAD by PAST_COLUMNS, 0; 2 3 4),
            _ => pick_solving!(shape, CACHED by COLUMNS, 0; 2 3 4),
        }
    }

    fn change_kernel(self, outputs: usize, ones: bool) -> Option<Kernel<u64>> {
        pick_change!(outputs, ones; 1 2 3 4 5 6 7 8)
    }

    fn word_loops(self, bytes: usize) -> Option<WordLoops<u64>> {
        loops_of_words(bytes, forms::matrix_of)
    }

    fn few_streams(self) -> Option<FewStreams> {
        cpu::few_streams()
    }

    fn fence(self) {
        cpu::fence();
    }
}

with_arithmetic!(define_word_loops!(__m256i, _mm256_loadu_si256, _mm256_storeu_si256, halves, zipped));

with_arithmetic!(define_change!(4, partial::load::<C, CACHED>, partial::store::<C, CACHED>));

/// # Safety
///
/// As [`Kernel`], for M outputs, the first of them of ones if `ONES`; outputs aligned to [`VECTOR`]
/// unless `STORES` is [`CACHED`].
#[target_feature(enable = "avx2,gfni")]
unsafe fn dot<const M: usize, const C: usize, const ONES: bool, const STORES: u8, const FORM: u8>(
    job: &Job<'_, u64>,
) {
    const { assert!(!is_past(STORES) || (C * VECTOR).is_multiple_of(LINE), "whole lines go past the cache") };
    assert_eq!(job.coefficients.len(), job.sources.len() * (M - usize::from(ONES)));
    let mut at = 0;
    while job.len - at >= C * VECTOR {
        // SAFETY: at + C * VECTOR <= len.
        unsafe { visit::<M, C, ONES, STORES, FORM>(job, at, VECTOR) };
        at += C * VECTOR;
    }
    while job.len - at >= VECTOR {
        // SAFETY: at + VECTOR <= len.
        unsafe { visit::<M, 1, ONES, STORES, FORM>(job, at, VECTOR) };
        at += VECTOR;
    }
    if at < job.len {
        // SAFETY: len - at < VECTOR bytes are left.
        unsafe { visit::<M, 1, ONES, SHORT, FORM>(job, at, job.len - at) };
    }
}

/// Columns `at .. at + C * 32` of every output, or the `live` bytes from `at` if C is 1.
///
/// # Safety
///
/// As [`dot`]; `at + (C - 1) * VECTOR + live <= len`, and `live` is VECTOR unless C is 1 and STORES
/// is SHORT.
#[inline]
#[target_feature(enable = "avx2,gfni")]
unsafe fn visit<const M: usize, const C: usize, const ONES: bool, const STORES: u8, const FORM: u8>(
    job: &Job<'_, u64>,
    at: usize,
    live: usize,
) {
    let mut sums = [[_mm256_setzero_si256(); C]; M];
    if let Some(start) = job.start {
        for_each_output!(o < M {
            if !start[o].is_null() {
                // SAFETY: `start` has M pointers that are valid or null, and the columns lie
                // inside, by the caller's promise.
                sums[o] = unsafe { partial::load::<C, CACHED>(start[o], at, live) };
            }
        });
    }
    let mut matrices = job.coefficients.as_ptr();
    for &source in job.sources {
        // SAFETY: the source is valid for the columns. `matrices` walks over the coefficients, of
        // which there are M (less one if ONES) per source.
        unsafe {
            let x = partial::load::<C, STORES>(source, at, live);
            for_each_output!(o < M {
                if ONES && o == 0 {
                    for c in 0..C {
                        sums[o][c] = _mm256_xor_si256(sums[o][c], x[c]);
                    }
                } else {
                    let a = _mm256_set1_epi64x(*matrices.add(o - usize::from(ONES)) as i64);
                    for c in 0..C {
                        sums[o][c] = _mm256_xor_si256(sums[o][c], _mm256_gf2p8affine_epi64_epi8::<0>(x[c], a));
                    }
                }
            });
            matrices = matrices.add(M - usize::from(ONES));
        }
    }
    if FORM == PLAIN {
        for_each_output!(o < M {
            // SAFETY: the M outputs are valid for the columns; streaming stores are aligned because
            // the outputs are and `at` is a multiple of VECTOR.
            unsafe { partial::store::<C, STORES>(job.outputs[o], at, live, sums[o]) };
        });
        return;
    }
    let mut left = sums[0];
    for_each_output!(o < M {
        if FORM & LAST_BY_SUM != 0 && o == M - 1 {
            // SAFETY: as above.
            unsafe { partial::store::<C, STORES>(job.outputs[o], at, live, left) };
        } else {
            let mut solved = [_mm256_setzero_si256(); C];
            let row = &job.solution[o * M..(o + 1) * M];
            for_each_output!(j < M {
                let a = _mm256_set1_epi64x(row[j] as i64);
                for c in 0..C {
                    solved[c] = _mm256_xor_si256(solved[c], _mm256_gf2p8affine_epi64_epi8::<0>(sums[j][c], a));
                }
            });
            if FORM & LAST_BY_SUM != 0 && job.taken >> o & 1 == 1 {
                for c in 0..C {
                    left[c] = _mm256_xor_si256(left[c], solved[c]);
                }
            }
            // SAFETY: as above.
            unsafe { partial::store::<C, STORES>(job.outputs[o], at, live, solved) };
        }
    });
}

/// The kernels that carry states of these kinds over elements of `planes` planes: a vector of each,
/// of which states fill half of the registers, or three quarters. That is half a line of each
/// plane, which does not go past the cache.
pub(crate) fn horner(planes: usize, kinds_of_states: u32, classes_of_factors: u32) -> Option<HornerEngine> {
    macro_rules! kernels {
        ($d:literal, $kinds:ident, $classes:ident) => {
            [
                carry::<$d, 1, 1, $kinds, $classes, CACHED, false> as HornerKernel,
                carry::<$d, 1, 1, $kinds, $classes, CACHED_LATER, false>,
                carry::<$d, 1, 1, $kinds, $classes, CACHED, true>,
                carry::<$d, 1, 1, $kinds, $classes, CACHED_LATER, true>,
            ]
        };
    }
    let [cached, streaming, solving @ ..] = match (planes, kinds_of_states, classes_of_factors) {
        (2, SQUARE, SQUARE_CLASSES) => kernels!(2, SQUARE, SQUARE_CLASSES),
        (3, CUBE, CUBE_CLASSES) => kernels!(3, CUBE, CUBE_CLASSES),
        (2, SQUARE, _) => kernels!(2, SQUARE, ANY_CLASSES),
        (3, CUBE, _) => kernels!(3, CUBE, ANY_CLASSES),
        (3, CUBE_BACK, _) => kernels!(3, CUBE_BACK, ANY_CLASSES),
        _ => return None,
    };
    Some(HornerEngine {
        cached,
        group: cached,
        streaming,
        solving: Some(solving),
        few_streams: cpu::few_streams(),
        factor: forms::affine_matrix,
    })
}

with_arithmetic!(define_carry!(
    partial::load::<C, CACHED>,
    partial::load::<C, STORES>,
    partial::store::<C, STORES>,
    |x, matrix| _mm256_gf2p8affine_epi64_epi8::<0>(x, _mm256_set1_epi64x(matrix as i64))
));
