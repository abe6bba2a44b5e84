//! Sums of maps of half bytes ([`crate::nibbles`]): two outputs from each look-up.
//!
//! The nibbles of a source are split once; each pair of outputs has one table for both of them. What registers hold beside the sums of a visit (two for a pair, one for an odd output): the mask, the
//! nibbles of a column, a table or two.

use std::arch::x86_64::*;

use super::super::{CACHED, CACHED_LATER, Kind, LINE, PAST_NEXT, SHORT, fence, is_past, partial};
use super::VECTOR;
use crate::engine::{Job, Kernel, MAX_OUTPUTS};
use crate::nibbles::{Form, Odd, Table};

/// Pairs of a pass at most.
const PAIRS: usize = 2;

/// Columns of a visit: what registers have room for, by trial. Past the cache go whole lines, so that three are two there.
const FEW_COLUMNS: usize = 4;
const COLUMNS: usize = 3;
const PAIRS_COLUMNS: usize = 2;

/// What [`visit`] does with an odd output: [`Odd`] as a number.
const NONE: u8 = 0;
const ALONE: u8 = 1;
const LEFT: u8 = 2;

/// As sums of products are stored ([`super::stores`]), by fewer kinds: measured on Zen 3 alone.
pub(crate) fn kernel(streaming: bool, form: Form) -> Kernel<Table> {
    let is_several = form.pairs > 0;
    match (streaming, is_several && Kind::of_this_processor() == Kind::Zen3) {
        (false, _) => of_form::<CACHED>(form),
        (true, true) => of_form::<CACHED_LATER>(form),
        (true, false) => of_form::<PAST_NEXT>(form),
    }
}

fn of_form<const STORES: u8>(form: Form) -> Kernel<Table> {
    match (form.pairs, form.odd) {
        (0, Odd::Alone) => sums::<0, ALONE, FEW_COLUMNS, STORES>,
        (0, Odd::Left) => sums::<0, LEFT, FEW_COLUMNS, STORES>,
        (1, Odd::No) => sums::<1, NONE, FEW_COLUMNS, STORES>,
        (1, Odd::Alone) if is_past(STORES) => sums::<1, ALONE, PAIRS_COLUMNS, STORES>,
        (1, Odd::Alone) => sums::<1, ALONE, COLUMNS, STORES>,
        (1, Odd::Left) => sums::<1, LEFT, FEW_COLUMNS, STORES>,
        (2, Odd::No) => sums::<2, NONE, PAIRS_COLUMNS, STORES>,
        _ => unreachable!("a pass has 1 to 4 outputs, of four two pairs"),
    }
}

/// # Safety
///
/// As [`Kernel`], for so many pairs and such an odd output; outputs aligned to [`LINE`] where `STORES` go past the cache.
#[target_feature(enable = "avx2")]
unsafe fn sums<const P: usize, const ODD: u8, const C: usize, const STORES: u8>(job: &Job<'_, Table>) {
    assert!(!is_past(STORES) || const { (C * VECTOR).is_multiple_of(LINE) }, "whole lines go past the cache");
    assert_eq!(job.coefficients.len(), (job.sources.len() + job.rest.len()) * const { width(P, ODD) });
    let mut at = 0;
    while job.len - at >= C * VECTOR {
        // SAFETY: at + C * VECTOR <= len.
        unsafe { visit::<P, ODD, C, STORES>(job, at, VECTOR) };
        at += C * VECTOR;
    }
    while job.len - at >= VECTOR {
        // SAFETY: at + VECTOR <= len.
        unsafe { visit::<P, ODD, 1, STORES>(job, at, VECTOR) };
        at += VECTOR;
    }
    if at < job.len {
        // SAFETY: len - at < VECTOR bytes are left.
        unsafe { visit::<P, ODD, 1, SHORT>(job, at, job.len - at) };
    }
    if is_past(STORES) {
        fence();
    }
}

/// Tables of a source.
const fn width(pairs: usize, odd: u8) -> usize {
    pairs + if odd == ALONE { 2 } else { 0 }
}

/// The sums of a visit. Those that a form has not cost nothing.
struct Sums<const C: usize> {
    /// Of the low nibbles of sources: those of the first of a pair in the low halves, of the second in the high ones.
    low: [[__m256i; C]; PAIRS],
    /// The same of the high nibbles.
    high: [[__m256i; C]; PAIRS],
    odd: [__m256i; C],
}

/// C columns of every output; if C is 1, its first `live` bytes.
///
/// # Safety
///
/// As [`sums`]; `at` and C columns, or `live` bytes, lie within the buffers.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn visit<const P: usize, const ODD: u8, const C: usize, const STORES: u8>(
    job: &Job<'_, Table>,
    at: usize,
    live: usize,
) {
    let nothing = [_mm256_setzero_si256(); C];
    let mut sums = Sums { low: [nothing; PAIRS], high: [nothing; PAIRS], odd: nothing };
    let mut tables = job.coefficients.as_ptr();
    for &source in job.sources {
        // SAFETY: the source is valid for the columns, and there are tables for each.
        unsafe { add::<P, ODD, C, STORES>(&mut sums, source, at, live, tables) };
        tables = tables.wrapping_add(width(P, ODD));
    }
    if ODD == LEFT {
        for &source in job.rest {
            // SAFETY: as above. The odd sum takes nothing of these.
            unsafe { add::<P, NONE, C, STORES>(&mut sums, source, at, live, tables) };
            tables = tables.wrapping_add(width(P, ODD));
        }
    }
    let mask = _mm256_set1_epi8(15);
    let mut odd = sums.odd;
    let put = |o: usize, mut columns: [__m256i; C]| {
        if let Some(start) = job.start {
            // SAFETY: what is added to is valid for the columns.
            let before = unsafe { partial::load::<C, CACHED>(start[o], at, live) };
            for c in 0..C {
                columns[c] = _mm256_xor_si256(columns[c], before[c]);
            }
        }
        // SAFETY: the outputs are valid for the columns; streaming stores are aligned because the outputs are and `at` is a multiple of VECTOR.
        unsafe { partial::store::<C, STORES>(job.outputs[o], at, live, columns) };
    };
    for pair in 0..P {
        let (mut first, mut second) = (nothing, nothing);
        for c in 0..C {
            let (low, high) = (sums.low[pair][c], sums.high[pair][c]);
            let high_of_first = _mm256_slli_epi64::<4>(_mm256_and_si256(high, mask));
            first[c] = _mm256_or_si256(_mm256_and_si256(low, mask), high_of_first);
            let low_of_second = _mm256_and_si256(_mm256_srli_epi64::<4>(low), mask);
            second[c] = _mm256_or_si256(low_of_second, _mm256_andnot_si256(mask, high));
        }
        if ODD == LEFT {
            for (i, columns) in [(2 * pair, first), (2 * pair + 1, second)] {
                if job.taken >> i & 1 == 1 {
                    for c in 0..C {
                        odd[c] = _mm256_xor_si256(odd[c], columns[c]);
                    }
                }
            }
        }
        put(2 * pair, first);
        put(2 * pair + 1, second);
    }
    if ODD != NONE {
        put(2 * P, odd);
    }
}

/// Adds what a source has for each sum.
///
/// # Safety
///
/// The source is valid for the columns, and `tables` for those of one source.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn add<const P: usize, const ODD: u8, const C: usize, const STORES: u8>(
    sums: &mut Sums<C>,
    source: *const u8,
    at: usize,
    live: usize,
    tables: *const Table,
) {
    const { assert!(P <= PAIRS && 2 * P < MAX_OUTPUTS) };
    let mask = _mm256_set1_epi8(15);
    // SAFETY: the caller's promise.
    let table = |t: usize| unsafe { _mm256_broadcastsi128_si256(_mm_load_si128(tables.add(t).cast())) };
    for c in 0..C {
        // SAFETY: the caller's promise.
        let x = unsafe { partial::load_column::<C, STORES>(source.add(at), c, live) };
        if ODD == LEFT {
            sums.odd[c] = _mm256_xor_si256(sums.odd[c], x);
        }
        if P == 0 && ODD != ALONE {
            continue;
        }
        let (low, high) = super::nibbles(x, mask);
        for pair in 0..P {
            let table = table(pair);
            sums.low[pair][c] = _mm256_xor_si256(sums.low[pair][c], _mm256_shuffle_epi8(table, low));
            sums.high[pair][c] = _mm256_xor_si256(sums.high[pair][c], _mm256_shuffle_epi8(table, high));
        }
        if ODD == ALONE {
            sums.odd[c] =
                _mm256_xor_si256(sums.odd[c], super::product((table(P), table(P + 1)), (low, high)));
        }
    }
}
