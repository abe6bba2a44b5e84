//! AVX2 without GFNI: a product is two table look-ups of 16 entries, `vpshufb` by the low and by the high nibbles.
//!
//! The nibbles of a source are split once and shared by all outputs. Sixteen registers: M times C sums, 2 C
//! nibbles, the mask, and a table and a product in flight; the tables come from the first-level cache.

use std::arch::x86_64::*;

use super::{AHEAD, CACHED, PAST, partial};
use crate::portable;
use crate::schedule::{Engine, FewStreams, Job, Kernel};
use crate::weave::Weave;

/// Bytes of a vector.
const VECTOR: usize = 32;

/// A witness that the machine has AVX2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

impl Avx2 {
    pub(crate) fn new() -> Option<Avx2> {
        is_x86_feature_detected!("avx2").then_some(Avx2(()))
    }
}

/// The products of a coefficient with the 16 low and with the 16 high nibbles.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct Tables {
    low: [u8; 16],
    high: [u8; 16],
}

impl Engine for Avx2 {
    type Coefficient = Tables;

    const MULTIPLY_COST: usize = 8;

    const STREAM_ALIGN_BYTES: usize = VECTOR;

    fn coefficient(c: u8) -> Tables {
        Tables { low: portable::LOW[usize::from(c)], high: portable::HIGH[usize::from(c)] }
    }

    fn kernel(self, outputs: usize, ones: bool, streaming: bool) -> Kernel<Tables> {
        pick_dot!(outputs, ones, streaming; 1 with 4, 2 with 3, 3 with 2, 4 with 2, 5 with 1, 6 with 1, 7 with 1, 8 with 1)
    }

    fn few_streams(self) -> Option<FewStreams> {
        super::few_streams()
    }

    fn fence(self) {
        super::fence();
    }
}

define_rows!(
    "avx2",
    __m256i,
    VECTOR,
    _mm256_setzero_si256,
    _mm256_loadu_si256,
    _mm256_storeu_si256,
    _mm256_stream_si256,
    _mm256_xor_si256,
    |a, b, c| _mm256_xor_si256(_mm256_xor_si256(a, b), c)
);

/// `visits` slices of C vectors of a weave without grids.
///
/// # Safety
///
/// As [`crate::dispatch::Loop`].
#[target_feature(enable = "avx2")]
pub(crate) unsafe fn weave<const C: usize, const STREAMING: bool>(
    weave: &Weave,
    table: &mut [*mut u8],
    cells: &mut [*mut u8],
    visits: usize,
) {
    debug_assert!(cells.is_empty() && weave.grids().is_empty());
    let buffers = weave.buffers().len();
    for visit in 0..visits {
        // SAFETY: the caller's promise; slots are moved back below.
        unsafe { rows::<C, STREAMING>(weave, table, visit * C * VECTOR) };
        table[buffers..].iter_mut().for_each(|slot| *slot = slot.wrapping_sub(C * VECTOR));
    }
    table[..buffers].iter_mut().for_each(|place| *place = place.wrapping_add(visits * C * VECTOR));
    table[buffers..].iter_mut().for_each(|slot| *slot = slot.wrapping_add(visits * C * VECTOR));
}

/// # Safety
///
/// As [`Kernel`], for M outputs, the first of them of ones if `ONES`; outputs aligned to [`VECTOR`] unless `STORES` is [`CACHED`].
#[target_feature(enable = "avx2")]
unsafe fn dot<const M: usize, const C: usize, const ONES: bool, const STORES: u8>(job: &Job<'_, Tables>) {
    debug_assert_eq!(job.coefficients.len(), job.sources.len() * (M - usize::from(ONES)));
    let mut at = 0;
    while job.len - at >= C * VECTOR {
        // SAFETY: at + C * VECTOR <= len.
        unsafe { visit::<M, C, ONES, STORES>(job, at, VECTOR) };
        at += C * VECTOR;
    }
    while job.len - at >= VECTOR {
        // SAFETY: at + VECTOR <= len.
        unsafe { visit::<M, 1, ONES, STORES>(job, at, VECTOR) };
        at += VECTOR;
    }
    if at < job.len {
        // SAFETY: len - at < VECTOR bytes are left.
        unsafe { visit::<M, 1, ONES, CACHED>(job, at, job.len - at) };
    }
}

/// Columns `at .. at + C * 32` of every output, or the `live` bytes from `at` if C is 1.
///
/// # Safety
///
/// As [`dot`]; `at + (C - 1) * VECTOR + live <= len`, and `live` is VECTOR unless C is 1 and STORES is CACHED.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn visit<const M: usize, const C: usize, const ONES: bool, const STORES: u8>(
    job: &Job<'_, Tables>,
    at: usize,
    live: usize,
) {
    let nibble = _mm256_set1_epi8(15);
    let mut sums = [[_mm256_setzero_si256(); C]; M];
    if let Some(start) = job.start {
        for_each_output!(o < M {
            // SAFETY: `start` has M valid pointers, and the columns lie inside, by the caller's promise.
            sums[o] = unsafe { partial::load::<C, CACHED>(start[o], at, live) };
        });
    }
    let mut tables = job.coefficients.as_ptr();
    for &source in job.sources {
        // SAFETY: the source is valid for the columns. `tables` walks over the coefficients, of which there are M
        // (less one if ONES) per source.
        unsafe {
            let x = partial::load::<C, STORES>(source, at, live);
            let low = x.map(|x| _mm256_and_si256(x, nibble));
            let high = x.map(|x| _mm256_and_si256(_mm256_srli_epi64::<4>(x), nibble));
            for_each_output!(o < M {
                if ONES && o == 0 {
                    for c in 0..C {
                        sums[o][c] = _mm256_xor_si256(sums[o][c], x[c]);
                    }
                } else {
                    let table = tables.add(o - usize::from(ONES));
                    let low_table = _mm256_broadcastsi128_si256(_mm_load_si128((&raw const (*table).low).cast()));
                    let high_table = _mm256_broadcastsi128_si256(_mm_load_si128((&raw const (*table).high).cast()));
                    for c in 0..C {
                        let product = _mm256_xor_si256(
                            _mm256_shuffle_epi8(low_table, low[c]),
                            _mm256_shuffle_epi8(high_table, high[c]),
                        );
                        sums[o][c] = _mm256_xor_si256(sums[o][c], product);
                    }
                }
            });
            tables = tables.add(M - usize::from(ONES));
        }
    }
    for_each_output!(o < M {
        // SAFETY: the M outputs are valid for the columns; streaming stores are aligned because the outputs are and
        // `at` is a multiple of VECTOR.
        unsafe { partial::store::<C, STORES>(job.outputs[o], at, live, sums[o]) };
    });
}
