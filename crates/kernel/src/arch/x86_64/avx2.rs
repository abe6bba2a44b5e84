//! AVX2 without GFNI: a product is two table look-ups of 16 entries, `vpshufb` by the low and by
//! the high nibbles.
//!
//! The nibbles of a source are split once and shared by all outputs. Sixteen registers: M times C
//! sums, 2 C nibbles, the mask, and a table and a product in flight; the tables come from the
//! first-level cache.

use std::arch::x86_64::*;

use super::cpu::{self, Kind};
use super::forms::{
    self, CACHED, CACHED_LATER, EXPANDED, LAST_BY_SUM, LINE, LOOKING, PAST, PAST_AHEAD, PAST_NEXT, PLAIN,
    SHORT, SOLVED, WAYS, is_past,
};
use super::partial;
use super::zip::{halves, zipped};
use crate::engine::{Engine, Job, Kernel, MAX_OUTPUTS, Solving, Summing};
use crate::horner::{
    CUBE, CUBE_CLASSES, HornerEngine, HornerJob, HornerKernel, PLANES_MOST, QUADRATIC, SQUARE,
    SQUARE_CLASSES, STATES, TWO, UNIT, class_of, plane_before,
};
use crate::packets::Walk;
use crate::portable;
use crate::streams::FewStreams;
use crate::tier::Tier;
use crate::word_loops::{Maps, WordJob, WordLoop, WordLoops};
use crate::xor_rows::XorRows;

/// Defines a loop that is common to architectures: its own arguments, then this engine's
/// arithmetic.
macro_rules! with_arithmetic {
    ($define:ident!($($own:tt)*)) => {
        $define!(
            $($own)*;
            "avx2",
            Tables,
            usize,
            VECTOR,
            |left| left,
            _mm256_setzero_si256,
            _mm256_xor_si256,
            |a, b, d| _mm256_xor_si256(_mm256_xor_si256(a, b), d),
            |x, matrix| product(matrix.wide(), nibbles(x, _mm256_set1_epi8(15)))
        );
    };
}

#[cfg(feature = "fft")]
mod transforms;

/// Bytes of a vector.
const VECTOR: usize = 32;

/// Columns of a visit, by the number of its outputs.
const COLUMNS: [usize; MAX_OUTPUTS + 1] = [0, 4, 3, 2, 2, 1, 1, 1, 1];

/// Columns of a visit that stores past the cache. Such stores must fill whole lines: if other
/// stores come between the parts of a line, each part is written to memory on its own. Two outputs
/// gain up to 1.8 times the speed of three columns, five and six outputs twice that of one column.
const PAST_COLUMNS: [usize; MAX_OUTPUTS + 1] = [0, 4, 2, 2, 2, 2, 2, 2, 2];

/// Columns of a visit, for a plain sum of more than [`WAYS`] sources from the cache.
const WIDE_COLUMNS: [usize; 2] = [0, 16];

/// Columns of a visit to the rest after wider ones.
const REST_COLUMNS: usize = 4;

/// Columns that [`doubled`] takes at a time: 4 vectors of both sums, of a source and of the
/// doubling.
const DOUBLED: usize = 4;

/// The term added to a doubled byte whose highest bit was set.
const OVERFLOW: u8 = portable::product(128, 2);

/// A term that a doubled sum carries from the first doubling to the last. A look-up gives zero for
/// a byte whose highest bit is set, so it adds [`OVERFLOW`] to all others: each doubling adds one
/// too many. `KEPT` is a third of it, so that doubling and that excess leave `KEPT` unchanged. A
/// comparison and a mask would be an instruction more.
const KEPT: u8 = portable::product(OVERFLOW, 0xf4);

const _: () = assert!(portable::product(KEPT, 3) == OVERFLOW);

/// A witness that the machine has AVX2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

impl Avx2 {
    pub(crate) const TIER: Tier = Tier::Avx2;

    pub(crate) fn new() -> Option<Avx2> {
        is_x86_feature_detected!("avx2").then_some(Avx2(()))
    }
}

/// Returns the form of stores, as [`forms::stores`], for a number of sums of products. Zen 3 loses
/// by storing several sums past the cache, a line or less of each in turn: page-aligned, a sixth to
/// a half.
fn stores(streaming: bool, outputs: usize) -> u8 {
    match Kind::of_this_processor() {
        Kind::Zen3 if streaming && outputs > 1 => CACHED_LATER,
        _ => forms::stores(streaming),
    }
}

/// True if sums of products that [`stores`] keeps in the cache are better stored past it, for many
/// sources that begin at different places of their pages. Zen 3, 1 MiB staggered, two columns of
/// raid6:16 solved, share of the limit in three runs: through the cache by three vectors 0.60,
/// 0.65, 0.61, by two 0.91, 0.90, 0.84, past it by two 1.05, 0.90, 1.21; page-aligned 0.90, 0.96,
/// 0.92; 0.93, 0.77, 0.83; 0.92, 0.76, 0.82. (4,2) is alike, but has too few streams for this
/// choice: staggered 0.79, 0.83, 1.04, page-aligned 0.86, 0.79, 0.74.
fn is_stored_past_apart(streaming: bool, outputs: usize) -> bool {
    streaming && outputs == 2 && Kind::of_this_processor() == Kind::Zen3
}

/// The products of a coefficient with the 16 low and with the 16 high nibbles.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct Tables {
    low: [u8; 16],
    high: [u8; 16],
}

impl Tables {
    /// A linear map of bytes, by the images of single bits.
    fn of(images: [u8; 8]) -> Tables {
        let [low, high] = portable::images_of_nibbles(images);
        Tables { low, high }
    }

    /// Both tables, twice side by side.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn wide(&self) -> (__m256i, __m256i) {
        // SAFETY: both are 16 bytes long, and aligned.
        let wide =
            |table: &[u8; 16]| _mm256_broadcastsi128_si256(unsafe { _mm_load_si128(table.as_ptr().cast()) });
        (wide(&self.low), wide(&self.high))
    }
}

/// The low and the high nibbles of each byte.
#[inline]
#[target_feature(enable = "avx2")]
fn nibbles(x: __m256i, mask: __m256i) -> (__m256i, __m256i) {
    (_mm256_and_si256(x, mask), _mm256_and_si256(_mm256_srli_epi64::<4>(x), mask))
}

/// The products of bytes by their nibbles.
#[inline]
#[target_feature(enable = "avx2")]
fn product((low_table, high_table): (__m256i, __m256i), (low, high): (__m256i, __m256i)) -> __m256i {
    _mm256_xor_si256(_mm256_shuffle_epi8(low_table, low), _mm256_shuffle_epi8(high_table, high))
}

/// Adds a product to columns. A kernel that looks skips a product by zero, and adds the columns
/// unchanged for a product by one. Lost parities have such products, and the branches go the same
/// way in each visit. The first column is checked everywhere: solving three without the check is
/// 13 % slower, by the compiler's choices.
#[inline]
#[target_feature(enable = "avx2")]
fn with_product<const C: usize, const FORM: u8>(
    mut columns: [__m256i; C],
    table: &Tables,
    whole: [__m256i; C],
    split: [(__m256i, __m256i); C],
) -> [__m256i; C] {
    if table.low[1] == 0 {
        return columns;
    }
    if FORM & LOOKING != 0 && table.low[1] == 1 {
        for c in 0..C {
            columns[c] = _mm256_xor_si256(columns[c], whole[c]);
        }
        return columns;
    }
    let tables = table.wide();
    for c in 0..C {
        columns[c] = _mm256_xor_si256(columns[c], product(tables, split[c]));
    }
    columns
}

impl Engine for Avx2 {
    type Coefficient = Tables;

    const MULTIPLY_COST: usize = 8;

    const STREAM_ALIGN_BYTES: usize = LINE;

    const PLAIN_FIRST: bool = true;

    fn coefficient(c: u8) -> Tables {
        Tables { low: portable::LOW[usize::from(c)], high: portable::HIGH[usize::from(c)] }
    }

    fn kernel(self, streaming: bool, shape: Summing) -> Kernel<Tables> {
        let kernel = match stores(streaming, shape.outputs) {
            CACHED_LATER => pick_dot!(shape, CACHED_LATER by COLUMNS; 2 3 4 5 6 7 8),
            PAST_NEXT => pick_dot!(shape, PAST_NEXT by PAST_COLUMNS; 1 2 3 4 5 6 7 8),
            PAST_AHEAD => pick_dot!(shape, PAST_AHEAD by PAST_COLUMNS; 1 2 3 4 5 6 7 8),
            PAST => pick_dot!(shape, PAST by PAST_COLUMNS; 1 2 3 4 5 6 7 8),
            _ if shape.ones
                && shape.outputs == 1
                && shape.reads > WAYS
                && matches!(Kind::of_this_processor(), Kind::Zen3 | Kind::Zen4) =>
            {
                pick_dot!(shape, CACHED by WIDE_COLUMNS; 1)
            }
            _ => pick_dot!(shape, CACHED by COLUMNS; 1 2 3 4 5 6 7 8),
        };
        kernel.unwrap_or_else(|| unreachable!("a pass has 1 to 8 outputs"))
    }

    fn solving_kernel(self, streaming: bool, shape: Solving) -> Option<Kernel<Tables>> {
        match (stores(streaming, shape.outputs), shape.has_zeros && shape.outputs < 4) {
            (CACHED_LATER, false) => pick_solving!(shape, CACHED_LATER by COLUMNS, 0; 2 3 4),
            (CACHED_LATER, true) => pick_solving!(shape, CACHED_LATER by COLUMNS, LOOKING; 2 3),
            (PAST_NEXT, false) => pick_solving!(shape, PAST_NEXT by PAST_COLUMNS, 0; 2 3 4),
            (PAST_NEXT, true) => pick_solving!(shape, PAST_NEXT by PAST_COLUMNS, LOOKING; 2 3),
            (PAST_AHEAD, false) => pick_solving!(shape, PAST_AHEAD by PAST_COLUMNS, 0; 2 3 4),
            (PAST_AHEAD, true) => pick_solving!(shape, PAST_AHEAD by PAST_COLUMNS, LOOKING; 2 3),
            (PAST, false) => pick_solving!(shape, PAST by PAST_COLUMNS, 0; 2 3 4),
            (PAST, true) => pick_solving!(shape, PAST by PAST_COLUMNS, LOOKING; 2 3),
            (_, false) => pick_solving!(shape, CACHED by COLUMNS, 0; 2 3 4),
            (_, true) => pick_solving!(shape, CACHED by COLUMNS, LOOKING; 2 3),
        }
    }

    fn expanded_kernel(self, streaming: bool, outputs: usize) -> Option<Kernel<Tables>> {
        match stores(streaming, outputs) {
            CACHED => pick_expanded!(outputs, CACHED by COLUMNS; 2 3 4),
            CACHED_LATER => pick_expanded!(outputs, CACHED_LATER by COLUMNS; 3 4),
            // Stores past the cache were not measured.
            _ => None,
        }
    }

    fn far_kernel(self, streaming: bool, shape: Summing) -> Option<Kernel<Tables>> {
        match is_stored_past_apart(streaming, shape.outputs) {
            true => pick_dot!(shape, PAST_NEXT by PAST_COLUMNS; 2),
            false => None,
        }
    }

    fn far_solving_kernel(self, streaming: bool, shape: Solving) -> Option<Kernel<Tables>> {
        match (is_stored_past_apart(streaming, shape.outputs), shape.has_zeros) {
            (true, false) => pick_solving!(shape, PAST_NEXT by PAST_COLUMNS, 0; 2),
            (true, true) => pick_solving!(shape, PAST_NEXT by PAST_COLUMNS, LOOKING; 2),
            (false, _) => None,
        }
    }

    fn doubling_kernel(self, streaming: bool) -> Option<Kernel<Tables>> {
        Some(match forms::stores(streaming) {
            PAST_NEXT => doubled::<PAST_NEXT>,
            PAST_AHEAD => doubled::<PAST_AHEAD>,
            PAST => doubled::<PAST>,
            _ => doubled::<CACHED>,
        })
    }

    fn group_kernel(self, shape: Summing) -> Option<Kernel<Tables>> {
        match stores(true, shape.outputs) {
            CACHED_LATER => pick_dot!(shape, CACHED_LATER by COLUMNS; 2 3 4 5 6 7 8),
            _ => None,
        }
    }

    fn change_kernel(self, outputs: usize, ones: bool) -> Option<Kernel<Tables>> {
        pick_change!(outputs, ones; 1 2 3 4 5 6 7 8)
    }

    fn word_loops(self, bytes: usize) -> Option<WordLoops<Tables>> {
        loops_of_words(bytes, Tables::of)
    }

    fn few_streams(self) -> Option<FewStreams> {
        cpu::few_streams()
    }

    fn fence(self) {
        cpu::fence();
    }
}

define_xor_loops!(
    "avx2",
    VECTOR,
    _mm256_setzero_si256,
    _mm256_loadu_si256,
    _mm256_storeu_si256,
    _mm256_stream_si256,
    _mm256_xor_si256,
    |a, b, c| _mm256_xor_si256(a, _mm256_xor_si256(b, c))
);

with_arithmetic!(define_word_loops!(__m256i, _mm256_loadu_si256, _mm256_storeu_si256, halves, zipped));

with_arithmetic!(define_change!(2, partial::load::<C, CACHED>, partial::store::<C, CACHED>));

/// # Safety
///
/// As [`Kernel`], for M outputs, the first of them of ones if `ONES`; outputs aligned to [`VECTOR`]
/// where `STORES` go past the cache.
#[target_feature(enable = "avx2")]
unsafe fn dot<const M: usize, const C: usize, const ONES: bool, const STORES: u8, const FORM: u8>(
    job: &Job<'_, Tables>,
) {
    const { assert!(!is_past(STORES) || (C * VECTOR).is_multiple_of(LINE), "whole lines go past the cache") };
    let terms = job.sources.len() + if FORM == EXPANDED { job.rest.len() } else { 0 };
    assert_eq!(job.coefficients.len(), terms * (M - usize::from(ONES)));
    let mut at = 0;
    while job.len - at >= C * VECTOR {
        // SAFETY: at + C * VECTOR <= len.
        unsafe { visit::<M, C, ONES, STORES, FORM>(job, at, VECTOR) };
        at += C * VECTOR;
    }
    while C > REST_COLUMNS && job.len - at >= REST_COLUMNS * VECTOR {
        // SAFETY: at + REST_COLUMNS * VECTOR <= len.
        unsafe { visit::<M, REST_COLUMNS, ONES, STORES, FORM>(job, at, VECTOR) };
        at += REST_COLUMNS * VECTOR;
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

/// # Safety
///
/// As [`Kernel`], for two outputs; outputs aligned to [`VECTOR`] where `STORES` go past the cache.
#[target_feature(enable = "avx2")]
unsafe fn doubled<const STORES: u8>(job: &Job<'_, Tables>) {
    let mut at = 0;
    while job.len - at >= DOUBLED * VECTOR {
        // SAFETY: at + DOUBLED * VECTOR <= len.
        unsafe { visit_doubled::<DOUBLED, STORES>(job, at, VECTOR) };
        at += DOUBLED * VECTOR;
    }
    while job.len - at >= VECTOR {
        // SAFETY: at + VECTOR <= len.
        unsafe { visit_doubled::<1, STORES>(job, at, VECTOR) };
        at += VECTOR;
    }
    if at < job.len {
        // SAFETY: len - at < VECTOR bytes are left.
        unsafe { visit_doubled::<1, CACHED>(job, at, job.len - at) };
    }
}

/// As [`visit`], for [`doubled`].
///
/// # Safety
///
/// As [`visit`] with two outputs.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn visit_doubled<const C: usize, const STORES: u8>(job: &Job<'_, Tables>, at: usize, live: usize) {
    let zero = _mm256_setzero_si256();
    let overflow = _mm256_set1_epi8(OVERFLOW as i8);
    let kept = _mm256_set1_epi8(KEPT as i8);
    let mut sources = job.sources.iter();
    let [mut plain, mut doubled] = match job.start {
        // SAFETY: both pointers are valid for the columns.
        Some(start) => [0, 1].map(|o| unsafe { partial::load::<C, CACHED>(start[o], at, live) }),
        None => {
            // SAFETY: the source is valid for the columns.
            let first = sources.next().map(|&source| unsafe { partial::load::<C, STORES>(source, at, live) });
            [first.unwrap_or([zero; C]); 2]
        }
    };
    doubled = doubled.map(|d| _mm256_xor_si256(d, kept));
    for &source in sources {
        // SAFETY: as above.
        let x = unsafe { partial::load::<C, STORES>(source, at, live) };
        for c in 0..C {
            let twice = _mm256_add_epi8(doubled[c], doubled[c]);
            let one_too_many = _mm256_shuffle_epi8(overflow, doubled[c]);
            doubled[c] = _mm256_xor_si256(_mm256_xor_si256(twice, x[c]), one_too_many);
            plain[c] = _mm256_xor_si256(plain[c], x[c]);
        }
    }
    doubled = doubled.map(|d| _mm256_xor_si256(d, kept));
    // SAFETY: both outputs are valid for the columns; streaming stores are aligned because the
    // outputs are and `at` is a multiple of VECTOR.
    unsafe {
        partial::store::<C, STORES>(job.outputs[0], at, live, plain);
        partial::store::<C, STORES>(job.outputs[1], at, live, doubled);
    }
}

/// Columns `at .. at + C * 32` of every output, or the `live` bytes from `at` if C is 1.
///
/// # Safety
///
/// As [`dot`]; `at + (C - 1) * VECTOR + live <= len`, and `live` is VECTOR unless C is 1 and STORES
/// is SHORT.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn visit<const M: usize, const C: usize, const ONES: bool, const STORES: u8, const FORM: u8>(
    job: &Job<'_, Tables>,
    at: usize,
    live: usize,
) {
    let nibble = _mm256_set1_epi8(15);
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
    let mut tables = job.coefficients.as_ptr();
    let mut sources = job.sources.iter();
    if let Some(&first) = sources.as_slice().first().filter(|_| ONES && job.first_is_plain) {
        sources.next();
        // SAFETY: as below.
        unsafe {
            let x = partial::load::<C, STORES>(first, at, live);
            tables = tables.add(M - usize::from(ONES));
            for_each_output!(o < M {
                for c in 0..C {
                    sums[o][c] = _mm256_xor_si256(sums[o][c], x[c]);
                }
            });
        }
    }
    for &source in sources {
        // SAFETY: the source is valid for the columns. `tables` walks over the coefficients, of
        // which there are M (less one if ONES) per source.
        unsafe {
            let x = partial::load::<C, STORES>(source, at, live);
            let split = x.map(|x| nibbles(x, nibble));
            for_each_output!(o < M {
                if ONES && o == 0 {
                    for c in 0..C {
                        sums[o][c] = _mm256_xor_si256(sums[o][c], x[c]);
                    }
                } else {
                    let tables = (*tables.add(o - usize::from(ONES))).wide();
                    for c in 0..C {
                        sums[o][c] = _mm256_xor_si256(sums[o][c], product(tables, split[c]));
                    }
                }
            });
            tables = tables.add(M - usize::from(ONES));
        }
    }
    if FORM == EXPANDED {
        for &source in job.rest {
            // SAFETY: as above; the coefficients of these follow.
            unsafe {
                let split = partial::load::<C, STORES>(source, at, live).map(|x| nibbles(x, nibble));
                for_each_output!(o < M {
                    if o != 0 {
                        let tables = (*tables.add(o - 1)).wide();
                        for c in 0..C {
                            sums[o][c] = _mm256_xor_si256(sums[o][c], product(tables, split[c]));
                        }
                    }
                });
                tables = tables.add(M - 1);
            }
        }
        let mut left = sums[0];
        for_each_output!(o < M {
            if o != 0 {
                if job.taken >> (o - 1) & 1 == 1 {
                    for c in 0..C {
                        left[c] = _mm256_xor_si256(left[c], sums[o][c]);
                    }
                }
                // SAFETY: as below.
                unsafe { partial::store::<C, STORES>(job.outputs[o - 1], at, live, sums[o]) };
            }
        });
        // SAFETY: as below.
        unsafe { partial::store::<C, STORES>(job.outputs[M - 1], at, live, left) };
        return;
    }
    if FORM == PLAIN {
        for_each_output!(o < M {
            // SAFETY: the M outputs are valid for the columns; streaming stores are aligned because
            // the outputs are and `at` is a multiple of VECTOR.
            unsafe { partial::store::<C, STORES>(job.outputs[o], at, live, sums[o]) };
        });
        return;
    }
    // Split once for all outputs, into memory, from where look-ups load the halves.
    let mut split = [[(nibble, nibble); C]; M];
    for_each_output!(o < M {
        for c in 0..C {
            split[o][c] = nibbles(sums[o][c], nibble);
        }
    });
    let mut left = sums[0];
    for_each_output!(o < M {
        if FORM & LAST_BY_SUM != 0 && o == M - 1 {
            // SAFETY: as above.
            unsafe { partial::store::<C, STORES>(job.outputs[o], at, live, left) };
        } else {
            let mut solved = [_mm256_setzero_si256(); C];
            let row = &job.solution[o * M..(o + 1) * M];
            // Up to three are written out: the compiler leaves sums in registers then. Four are too
            // many for them, and a loop is faster.
            if M < 4 {
                for_each_output!(j < M {
                    solved = with_product::<C, FORM>(solved, &row[j], sums[j], split[j]);
                });
            } else {
                for ((table, split), sum) in row.iter().zip(split).zip(sums) {
                    solved = with_product::<C, FORM>(solved, table, sum, split);
                }
            }
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

/// The kernel that carries states of these kinds over elements of `planes` planes, for the factors
/// that RAIDq has: most are one or two, and a plane that is moved or doubled costs one to four
/// instructions where a product costs nine. Where all are products, sums of many rows are as fast.
pub(crate) fn horner(planes: usize, kinds_of_states: u32, classes_of_factors: u32) -> Option<HornerEngine> {
    macro_rules! kernels {
        ($d:literal, $kinds:ident, $classes:ident) => {{
            // A visit has half a line of each plane: past the cache that loses up to a half.
            let streaming = carry::<$d, $kinds, $classes, CACHED_LATER> as HornerKernel;
            (carry::<$d, $kinds, $classes, CACHED> as HornerKernel, streaming)
        }};
    }
    let (cached, streaming) = match (planes, kinds_of_states, classes_of_factors) {
        (2, SQUARE, SQUARE_CLASSES) => kernels!(2, SQUARE, SQUARE_CLASSES),
        (3, CUBE, CUBE_CLASSES) => kernels!(3, CUBE, CUBE_CLASSES),
        _ => return None,
    };
    Some(HornerEngine {
        cached,
        group: cached,
        streaming,
        solving: None,
        few_streams: cpu::few_streams(),
        factor: u64::from,
    })
}

/// True if any plane of a state is doubled: all of them carry [`KEPT`] then, which doubling leaves
/// unchanged.
const fn is_doubled(classes: u32, p: usize) -> bool {
    class_of(classes, p, 0) == TWO || class_of(classes, p, 1) == TWO || class_of(classes, p, 2) == TWO
}

/// True if [`KEPT`] stays unchanged in every doubled state: none has another product, or a sum of
/// two planes.
const fn can_be_kept(planes: usize, kinds: u32, classes: u32) -> bool {
    let mut i = 0;
    while i < STATES * planes {
        let (p, t) = (i / planes, i % planes);
        if is_doubled(classes, p) && (class_of(classes, p, t) == 0 || kinds >> (4 * p) & 15 == QUADRATIC) {
            return false;
        }
        i += 1;
    }
    true
}

/// # Safety
///
/// As [`HornerKernel`], for D planes, states of the kinds K and factors of the classes F.
#[target_feature(enable = "avx2")]
unsafe fn carry<const D: usize, const K: u32, const F: u32, const STORES: u8>(job: &HornerJob<'_>) {
    const { assert!(can_be_kept(D, K, F)) };
    let tables = job.factors.map(|of_state| of_state.map(|factor| Avx2::coefficient(factor as u8)));
    let mut at = 0;
    while job.len - at >= VECTOR {
        // SAFETY: at + VECTOR <= len.
        unsafe { carry_visit::<D, K, F, STORES>(job, &tables, at, VECTOR) };
        at += VECTOR;
    }
    if at < job.len {
        // SAFETY: len - at < VECTOR bytes are left.
        unsafe { carry_visit::<D, K, F, SHORT>(job, &tables, at, job.len - at) };
    }
    if is_past(STORES) {
        cpu::fence();
    }
}

/// One vector of every plane: states alone fill half of the registers, or three quarters.
///
/// # Safety
///
/// As [`carry`]; `at + live <= len`, and `live` is VECTOR, or less if STORES is SHORT.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn carry_visit<const D: usize, const K: u32, const F: u32, const STORES: u8>(
    job: &HornerJob<'_>,
    tables: &[[Tables; PLANES_MOST]; STATES],
    at: usize,
    live: usize,
) {
    let nibble = _mm256_set1_epi8(15);
    let overflow = _mm256_set1_epi8(OVERFLOW as i8);
    let kept = _mm256_set1_epi8(KEPT as i8);
    let mut state = [[_mm256_setzero_si256(); D]; STATES];
    let has_start = !job.start[0].is_null();
    for_each_state!(p {
        for t in 0..D {
            if has_start {
                // SAFETY: the states before are all there, valid for the live bytes.
                [state[p][t]] = unsafe { partial::load::<1, CACHED>(job.start[p * D + t], at, live) };
            }
            if const { is_doubled(F, p) } {
                state[p][t] = _mm256_xor_si256(state[p][t], kept);
            }
        }
    });
    for column in job.columns {
        let mut x = [_mm256_setzero_si256(); D];
        if !column[0].is_null() {
            for t in 0..D {
                // SAFETY: a column is there with all its planes, valid for the live bytes.
                [x[t]] = unsafe { partial::load::<1, STORES>(column[t], at, live) };
            }
        }
        for_each_state!(p {
            let old = state[p];
            for t in 0..D {
                let kind = K >> (4 * p) & 15;
                let from = old[plane_before(kind, t, D)];
                let plus = if kind == QUADRATIC && t > 0 { _mm256_xor_si256(old[0], x[t]) } else { x[t] };
                let times = match class_of(F, p, t) {
                    UNIT => from,
                    TWO => {
                        let one_too_many = _mm256_shuffle_epi8(overflow, from);
                        _mm256_xor_si256(_mm256_add_epi8(from, from), one_too_many)
                    }
                    _ => product(tables[p][t].wide(), nibbles(from, nibble)),
                };
                state[p][t] = _mm256_xor_si256(times, plus);
            }
        });
    }
    for_each_state!(p {
        for t in 0..D {
            if const { is_doubled(F, p) } {
                state[p][t] = _mm256_xor_si256(state[p][t], kept);
            }
            if !job.adds[p * D + t].is_null() {
                // SAFETY: the added column is valid for the live bytes.
                let [y] = unsafe { partial::load::<1, CACHED>(job.adds[p * D + t], at, live) };
                state[p][t] = _mm256_xor_si256(state[p][t], y);
            }
            // SAFETY: there is a pointer for each plane of each state, valid for the live bytes,
            // and aligned if the kernel stores past the cache.
            unsafe { partial::store::<1, STORES>(job.states[p * D + t], at, live, [state[p][t]]) };
        }
    });
}
