//! AVX-512 with GFNI: one affine transformation per product, two products folded into a sum by one
//! `vpternlogq`.
//!
//! A visit takes C columns of 64 bytes from each source, so that one fetched line draws its
//! neighbours in and the broadcast of a coefficient is shared by C products. M outputs times C
//! columns is at most 16 registers of sums; a pair of sources takes 2 C, two matrices and two
//! products take 4: C = 4 up to M = 4, C = 2 up to M = 8. Where hardware follows few streams, those
//! from behind the cache are taken by two columns, which lets it follow some more. Where the
//! second-level cache wants a line of each stream in turn (Ice Lake), few sources are taken so,
//! with all of their matrices in registers.

use std::arch::x86_64::*;

use super::avx2_gfni;
use super::cpu::{self, Kind};
use super::forms::{
    self, CACHED, CACHED_LATER, CACHED_NEXT, LAST_BY_SUM, LINE, LOOKING, PAST, PAST_AHEAD, PAST_LATER,
    PAST_NEXT, PLAIN, SHORT, SOLVED, WAYS, fetched_ahead_bytes, is_past,
};
use crate::engine::{Engine, Job, Kernel, MAX_OUTPUTS, Solving, Summing};
use crate::horner::{
    ANY_CLASSES, CUBE, CUBE_BACK, CUBE_CLASSES, HornerEngine, HornerJob, HornerKernel, ONE, QUADRATIC,
    SQUARE, SQUARE_CLASSES, STATES, UNIT, class_of, plane_before,
};
use crate::packets::Walk;
use crate::streams::{FewStreams, Groups};
use crate::tier::Tier;
use crate::word_loops::WordLoops;
use crate::xor_rows::XorRows;

/// Defines a loop that is common to architectures: its own arguments, then this engine's
/// arithmetic.
macro_rules! with_arithmetic {
    ($define:ident!($($own:tt)*)) => {
        $define!(
            $($own)*;
            "avx512f,avx512bw,gfni",
            u64,
            u64,
            !0,
            |left| !0 >> (VECTOR - left),
            _mm512_setzero_si512,
            _mm512_xor_si512,
            |a, b, d| _mm512_ternarylogic_epi64::<XOR3>(a, b, d),
            |x, matrix| _mm512_gf2p8affine_epi64_epi8::<0>(x, _mm512_set1_epi64(*matrix as i64))
        );
    };
}

#[cfg(feature = "fft")]
mod transforms;
mod words;

/// Bytes of a vector.
const VECTOR: usize = 64;

/// Columns of a visit, by the number of its outputs.
const COLUMNS: [usize; MAX_OUTPUTS + 1] = [0, 4, 4, 4, 4, 2, 2, 2, 2];

/// Columns of a visit for sources that hardware prefetches.
const FEW_COLUMNS: [usize; MAX_OUTPUTS + 1] = [0, 2, 2, 2, 2, 2, 2, 2, 2];

/// Columns of a visit for more than [`WAYS`] sources from the cache (Zen 4). Also used where the
/// scalar work of a visit counts: sums are computed as fast as sources are read (Zen 5), or two
/// threads share the issue slots of a core (Ice Lake).
const WIDE_COLUMNS: [usize; MAX_OUTPUTS + 1] = [0, 8, 8, 6, 4, 3, 2, 2, 2];

/// Columns of a visit to the rest after wider ones.
const REST_COLUMNS: usize = 4;

/// a ^ b ^ c as the truth table of `vpternlogq`.
const XOR3: i32 = 0x96;

/// The matrix that leaves bytes as they are.
const IDENTITY: u64 = forms::AFFINE_MATRICES[1];

/// A witness that the machine has AVX-512 F and BW, and GFNI.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512Gfni(());

impl Avx512Gfni {
    pub(crate) const TIER: Tier = Tier::Avx512Gfni;

    pub(crate) fn new() -> Option<Avx512Gfni> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("gfni");
        has.then_some(Avx512Gfni(()))
    }
}

impl Engine for Avx512Gfni {
    type Coefficient = u64;

    const MULTIPLY_COST: usize = 2;

    /// Ice Lake: rows that share few sources are faster in one pass, with products by zero. 64 KiB,
    /// lrc:12,2,2 24 -> 33 GB/s, shec:6,4,3 31 -> 40, from memory 9.8 -> 12.5, 8.6 -> 11.1. Four
    /// rows of five sources each beside two of twenty lose a quarter in the first-level cache by
    /// that, and are left apart.
    fn load_cost(self) -> usize {
        match Kind::of_this_processor() {
            Kind::IceLake => 5,
            Kind::SapphireRapids | Kind::Zen3 | Kind::Zen4 | Kind::Zen5 => 2,
        }
    }

    const STREAM_ALIGN_BYTES: usize = VECTOR;

    fn coefficient(c: u8) -> u64 {
        forms::affine_matrix(c)
    }

    fn kernel(self, streaming: bool, shape: Summing) -> Kernel<u64> {
        let kernel = match forms::stores(streaming) {
            PAST_NEXT => pick_dot!(shape, PAST_NEXT by FEW_COLUMNS; 1 2 3 4 5 6 7 8),
            PAST_AHEAD => pick_dot!(shape, PAST_AHEAD by COLUMNS; 1 2 3 4 5 6 7 8),
            PAST => pick_dot!(shape, PAST by COLUMNS; 1 2 3 4 5 6 7 8),
            _ => match Kind::of_this_processor() {
                Kind::Zen4 if shape.reads > WAYS => pick_dot!(shape, CACHED by WIDE_COLUMNS; 1 2 3 4 5 6 7 8),
                Kind::Zen5 if shape.outputs <= 2 => pick_dot!(shape, CACHED by WIDE_COLUMNS; 1 2),
                Kind::IceLake if shape.ones || !(2..=4).contains(&shape.outputs) => {
                    pick_dot!(shape, CACHED by WIDE_COLUMNS; 1 2 3 4 5 6 7 8)
                }
                _ => pick_dot!(shape, CACHED by COLUMNS; 1 2 3 4 5 6 7 8),
            },
        };
        kernel.unwrap_or_else(|| unreachable!("a pass has 1 to 8 outputs"))
    }

    /// Looking for zeros costs a dense solution 4 %. Streams from behind L2 wait for lines, not for
    /// products. While it solves two or three outputs, Zen 4 requests too few lines, and gains 2 to
    /// 8 % by prefetch. With more page-aligned buffers than the first-level cache has ways
    /// prefetched lines would evict one another, and visits are wide instead.
    fn solving_kernel(self, streaming: bool, shape: Solving) -> Option<Kernel<u64>> {
        match forms::stores(streaming) {
            PAST_NEXT => pick_solving!(shape, PAST_NEXT by FEW_COLUMNS, 0; 2 3 4),
            PAST_AHEAD => pick_solving!(shape, PAST_AHEAD by COLUMNS, 0; 2 3 4),
            PAST => pick_solving!(shape, PAST by COLUMNS, 0; 2 3 4),
            _ => match (Kind::of_this_processor(), shape.has_zeros) {
                (Kind::Zen4, true) if shape.reads > WAYS => {
                    pick_solving!(shape, CACHED by WIDE_COLUMNS, LOOKING; 2 3 4)
                }
                (Kind::Zen4, false) if shape.reads > WAYS => {
                    pick_solving!(shape, CACHED by WIDE_COLUMNS, 0; 2 3 4)
                }
                (Kind::Zen4, true) if shape.outputs <= 3 => {
                    pick_solving!(shape, CACHED_LATER by COLUMNS, LOOKING; 2 3)
                }
                (Kind::Zen4, false) if shape.outputs <= 3 => {
                    pick_solving!(shape, CACHED_LATER by COLUMNS, 0; 2 3)
                }
                (_, true) => pick_solving!(shape, CACHED by COLUMNS, LOOKING; 2 3 4),
                (_, false) => pick_solving!(shape, CACHED by COLUMNS, 0; 2 3 4),
            },
        }
    }

    /// With one or two outputs a kernel of Zen 4 waits for lines even with prefetch, and loses; so
    /// does Ice Lake. Zen 5 gains by prefetch if it stores past the cache, and by two columns if it
    /// stores through it. Ice Lake reads sources from its third-level cache when it stores past the
    /// caches: that is nearer than memory, so the prefetch distance is shorter.
    fn far_kernel(self, streaming: bool, shape: Summing) -> Option<Kernel<u64>> {
        match (Kind::of_this_processor(), streaming) {
            (Kind::Zen5, true) => pick_dot!(shape, PAST_LATER by COLUMNS; 1 2 3 4),
            (Kind::Zen5, false) => pick_dot!(shape, CACHED by FEW_COLUMNS; 2 3 4),
            (Kind::Zen4, false) => pick_dot!(shape, CACHED_LATER by FEW_COLUMNS; 3 4 5 6 7 8),
            (Kind::IceLake, true) => pick_dot!(shape, PAST_LATER by FEW_COLUMNS; 1 2 3 4 5 6 7 8),
            (Kind::IceLake, false) => pick_dot!(shape, CACHED_LATER by WIDE_COLUMNS; 3 4 5 6 7 8),
            _ => None,
        }
    }

    /// Where half of the products are left out, a visit of two columns is over before the lines
    /// that it asked for are there.
    fn far_solving_kernel(self, streaming: bool, shape: Solving) -> Option<Kernel<u64>> {
        match (Kind::of_this_processor(), streaming) {
            (Kind::Zen5, true) => pick_solving!(shape, PAST_LATER by COLUMNS, 0; 2 3 4),
            (Kind::Zen5, false) => pick_solving!(shape, CACHED by FEW_COLUMNS, 0; 2 3 4),
            (Kind::Zen4 | Kind::IceLake, false) if shape.has_zeros => {
                pick_solving!(shape, CACHED_LATER by COLUMNS, LOOKING; 3 4)
            }
            (Kind::Zen4 | Kind::IceLake, false) => pick_solving!(shape, CACHED_LATER by FEW_COLUMNS, 0; 3 4),
            (Kind::IceLake, true) => pick_solving!(shape, PAST_LATER by FEW_COLUMNS, 0; 2 3 4),
            _ => None,
        }
    }

    fn group_kernel(self, shape: Summing) -> Option<Kernel<u64>> {
        match Kind::of_this_processor() {
            Kind::Zen5 | Kind::IceLake => None,
            _ => pick_dot!(shape, CACHED_NEXT by FEW_COLUMNS; 1 2 3 4 5 6 7 8),
        }
    }

    fn change_kernel(self, outputs: usize, ones: bool) -> Option<Kernel<u64>> {
        pick_change!(outputs, ones; 1 2 3 4 5 6 7 8)
    }

    fn word_loops(self, bytes: usize) -> Option<WordLoops<u64>> {
        words::loops(bytes, forms::matrix_of).or_else(|| avx2_gfni::loops_of_words(bytes, forms::matrix_of))
    }

    fn few_streams(self) -> Option<FewStreams> {
        cpu::few_streams()
    }

    fn fence(self) {
        cpu::fence();
    }
}

define_xor_loops!(
    "avx512f",
    VECTOR,
    _mm512_setzero_si512,
    _mm512_loadu_si512,
    _mm512_storeu_si512,
    _mm512_stream_si512,
    _mm512_xor_si512,
    _mm512_ternarylogic_epi64::<XOR3>
);

with_arithmetic!(define_change!(4, load::<C, CACHED>, store::<C, CACHED>));

/// # Safety
///
/// As [`Kernel`], for M outputs, the first of them of ones if `ONES`; outputs aligned to [`VECTOR`]
/// if `STORES` go past the cache.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
unsafe fn dot<const M: usize, const C: usize, const ONES: bool, const STORES: u8, const FORM: u8>(
    job: &Job<'_, u64>,
) {
    assert_eq!(job.coefficients.len(), job.sources.len() * (M - usize::from(ONES)));
    let mut at = 0;
    while job.len - at >= C * VECTOR {
        // SAFETY: at + C * VECTOR <= len.
        unsafe { visit::<M, C, ONES, STORES, FORM>(job, at, !0) };
        at += C * VECTOR;
    }
    while C > REST_COLUMNS && job.len - at >= REST_COLUMNS * VECTOR {
        // SAFETY: at + REST_COLUMNS * VECTOR <= len.
        unsafe { visit::<M, REST_COLUMNS, ONES, STORES, FORM>(job, at, !0) };
        at += REST_COLUMNS * VECTOR;
    }
    while job.len - at >= VECTOR {
        // SAFETY: at + VECTOR <= len.
        unsafe { visit::<M, 1, ONES, STORES, FORM>(job, at, !0) };
        at += VECTOR;
    }
    if at < job.len {
        let mask = !0 >> (VECTOR - (job.len - at));
        // SAFETY: the mask has a bit for each of the len - at < VECTOR bytes that are left.
        unsafe { visit::<M, 1, ONES, CACHED, FORM>(job, at, mask) };
    }
}

/// Columns `at .. at + C * 64` of every output.
///
/// # Safety
///
/// As [`dot`]; `at + C * VECTOR <= len`, or C is 1, STORES is CACHED and `mask` has bit i only if
/// at + i < len.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,gfni")]
unsafe fn visit<const M: usize, const C: usize, const ONES: bool, const STORES: u8, const FORM: u8>(
    job: &Job<'_, u64>,
    at: usize,
    mask: u64,
) {
    let width = M - usize::from(ONES);
    let mut sums = [[_mm512_setzero_si512(); C]; M];
    if let Some(start) = job.start {
        for_each_output!(o < M {
            if !start[o].is_null() {
                // SAFETY: `start` has M pointers that are valid or null, and the columns lie
                // inside, by the caller's promise.
                sums[o] = unsafe { load::<C, CACHED>(start[o], at, mask) };
            }
        });
    }
    let mut sources = job.sources.as_ptr();
    let mut matrices = job.coefficients.as_ptr();
    macro_rules! take_two {
        () => {
            let x = load::<C, STORES>(*sources, at, mask);
            let y = load::<C, STORES>(*sources.add(1), at, mask);
            sources = sources.add(2);
            for_each_output!(o < M {
                if ONES && o == 0 {
                    for c in 0..C {
                        sums[o][c] = _mm512_ternarylogic_epi64::<XOR3>(sums[o][c], x[c], y[c]);
                    }
                } else {
                    let a = _mm512_set1_epi64(*matrices.add(o - usize::from(ONES)) as i64);
                    let b = _mm512_set1_epi64(*matrices.add(o - usize::from(ONES) + width) as i64);
                    for c in 0..C {
                        let ax = _mm512_gf2p8affine_epi64_epi8::<0>(x[c], a);
                        let by = _mm512_gf2p8affine_epi64_epi8::<0>(y[c], b);
                        sums[o][c] = _mm512_ternarylogic_epi64::<XOR3>(sums[o][c], ax, by);
                    }
                }
            });
            matrices = matrices.add(2 * width);
        };
    }
    // SAFETY: both pointers walk over their slices: 2 sources and 2 * width coefficients per round,
    // of which there are sources.len() / 2, then once 1 and width if the number is odd; the slices
    // are exactly that long. The loads stay inside the sources by the caller's promise.
    unsafe {
        let mut rounds = job.sources.len() / 2;
        // Prefetchers do worst with two streams that take turns in one instruction: see `order.rs`.
        if rounds == 2 {
            take_two!();
            rounds = 1;
        }
        for _ in 0..rounds {
            take_two!();
        }
        if job.sources.len() % 2 == 1 {
            let x = load::<C, STORES>(*sources, at, mask);
            for_each_output!(o < M {
                if ONES && o == 0 {
                    for c in 0..C {
                        sums[o][c] = _mm512_xor_si512(sums[o][c], x[c]);
                    }
                } else {
                    let a = _mm512_set1_epi64(*matrices.add(o - usize::from(ONES)) as i64);
                    for c in 0..C {
                        sums[o][c] = _mm512_xor_si512(sums[o][c], _mm512_gf2p8affine_epi64_epi8::<0>(x[c], a));
                    }
                }
            });
        }
    }
    if FORM == PLAIN {
        for_each_output!(o < M {
            // SAFETY: the M outputs are valid for the columns, or for the bytes of the mask;
            // streaming stores are aligned because the outputs are and `at` is a multiple of
            // VECTOR.
            unsafe { store::<C, STORES>(job.outputs[o], at, mask, sums[o]) };
        });
        return;
    }
    let mut left = sums[0];
    for_each_output!(o < M {
        if FORM & LAST_BY_SUM != 0 && o == M - 1 {
            // SAFETY: as above.
            unsafe { store::<C, STORES>(job.outputs[o], at, mask, left) };
        } else {
            let row = &job.solution[o * M..(o + 1) * M];
            let mut solved = [_mm512_setzero_si512(); C];
            for (j, &matrix) in row.iter().enumerate() {
                if FORM & LOOKING != 0 && matrix == 0 {
                    continue;
                }
                if FORM & LOOKING != 0 && matrix == IDENTITY {
                    for c in 0..C {
                        solved[c] = _mm512_xor_si512(solved[c], sums[j][c]);
                    }
                    continue;
                }
                let a = _mm512_set1_epi64(matrix as i64);
                for c in 0..C {
                    solved[c] = _mm512_xor_si512(solved[c], _mm512_gf2p8affine_epi64_epi8::<0>(sums[j][c], a));
                }
            }
            if FORM & LAST_BY_SUM != 0 && job.taken >> o & 1 == 1 {
                for c in 0..C {
                    left[c] = _mm512_xor_si512(left[c], solved[c]);
                }
            }
            // SAFETY: as above.
            unsafe { store::<C, STORES>(job.outputs[o], at, mask, solved) };
        }
    });
}

/// # Safety
///
/// `pointer + at` is valid for writes of C vectors, or of the bytes of the mask if C is 1; aligned
/// if STORES go past the cache.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn store<const C: usize, const STORES: u8>(
    pointer: *mut u8,
    at: usize,
    mask: u64,
    columns: [__m512i; C],
) {
    for (c, column) in columns.into_iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe {
            let target = pointer.add(at + c * VECTOR);
            if is_past(STORES) {
                _mm512_stream_si512(target.cast(), column);
            } else if C > 1 || mask == !0 {
                _mm512_storeu_si512(target.cast(), column);
            } else {
                _mm512_mask_storeu_epi8(target.cast(), mask, column);
            }
        }
    }
}

/// # Safety
///
/// `pointer + at` is valid for reads of C vectors, or of the bytes of the mask if C is 1.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn load<const C: usize, const STORES: u8>(pointer: *const u8, at: usize, mask: u64) -> [__m512i; C] {
    let mut columns = [_mm512_setzero_si512(); C];
    for (c, column) in columns.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *column = unsafe { load_column::<C, STORES>(pointer.add(at), c, mask) };
    }
    columns
}

/// Column c of C from `pointer`, as [`load`].
///
/// # Safety
///
/// As [`load`], for that column.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn load_column<const C: usize, const STORES: u8>(pointer: *const u8, c: usize, mask: u64) -> __m512i {
    // SAFETY: the caller's promise; a prefetch may name any address.
    unsafe {
        let source = pointer.add(c * VECTOR);
        let ahead = const { fetched_ahead_bytes(STORES) };
        if ahead > 0 {
            _mm_prefetch::<_MM_HINT_T0>(source.wrapping_add(ahead).cast());
        }
        if C > 1 || mask == !0 {
            _mm512_loadu_si512(source.cast())
        } else {
            _mm512_maskz_loadu_epi8(mask, source.cast())
        }
    }
}

/// Vectors of each plane that [`carry`] takes at a time, by the number of planes. They must leave a
/// register for each state of each plane, for each plane of a column, and for factors. Twice the
/// vectors would spill a third of the factors of three planes.
const CARRIED: [usize; 4] = [0, 0, 2, 1];

/// Vectors on Zen 5; one vector of three planes at a time was not measured there.
const CARRIED_ZEN5: usize = 2;

/// Columns read at a time from memory, by the number of planes, each by an instruction of its own:
/// few enough streams to be followed. Horner's rule fixes the order of columns, so `order.rs`
/// cannot help. Two planes gain nothing on Zen 4, and lose on Ice Lake, which gains 5 % from three
/// in the cache.
const WRITTEN_OUT: [usize; 4] = [0, 0, 1, 4];
const WRITTEN_OUT_ZEN5: [usize; 4] = [0, 0, 6, 5];

/// The kernels that carry states of these kinds over elements of `planes` planes. For the factors
/// of RAIDq products by one are left out: Ice Lake encodes 3 to 15 % faster.
pub(crate) fn horner(planes: usize, kinds_of_states: u32, classes_of_factors: u32) -> Option<HornerEngine> {
    macro_rules! kernels {
        ($d:literal, $kinds:ident, $classes:ident) => {{
            let cached = carry::<$d, { CARRIED[$d] }, 1, $kinds, $classes, CACHED, false> as HornerKernel;
            let written_out =
                carry::<$d, { CARRIED[$d] }, { WRITTEN_OUT[$d] }, $kinds, $classes, CACHED, false>;
            let past_ahead = carry::<$d, { CARRIED[$d] }, 1, $kinds, $classes, PAST_AHEAD, false>;
            let solving = [
                carry::<$d, { CARRIED[$d] }, { WRITTEN_OUT[$d] }, $kinds, $classes, CACHED, true>,
                carry::<$d, { CARRIED[$d] }, 1, $kinds, $classes, PAST_AHEAD, true>,
            ];
            match Kind::of_this_processor() {
                Kind::SapphireRapids => ([cached, cached, past_ahead], None),
                Kind::IceLake => ([written_out, written_out, past_ahead], Some(solving)),
                Kind::Zen5 => {
                    let carried = [
                        carry::<$d, CARRIED_ZEN5, 1, $kinds, $classes, CACHED, false>,
                        carry::<$d, CARRIED_ZEN5, { WRITTEN_OUT_ZEN5[$d] }, $kinds, $classes, CACHED, false>,
                        carry::<$d, CARRIED_ZEN5, { WRITTEN_OUT_ZEN5[$d] }, $kinds, $classes, PAST, false>,
                    ];
                    (carried, None)
                }
                Kind::Zen3 | Kind::Zen4 => {
                    let past =
                        carry::<$d, { CARRIED[$d] }, { WRITTEN_OUT[$d] }, $kinds, $classes, PAST_NEXT, false>;
                    ([cached, written_out, past], None)
                }
            }
        }};
    }
    // Of other factors (`cbrt=paper`, `b=`, code files): fewer kernels.
    macro_rules! plain_kernels {
        ($d:literal, $kinds:ident) => {{
            let cached = carry::<$d, { CARRIED[$d] }, 1, $kinds, ANY_CLASSES, CACHED, false> as HornerKernel;
            let past = match forms::stores(true) {
                PAST_AHEAD => carry::<$d, { CARRIED[$d] }, 1, $kinds, ANY_CLASSES, PAST_AHEAD, false>,
                _ => carry::<$d, { CARRIED[$d] }, 1, $kinds, ANY_CLASSES, PAST_NEXT, false>,
            };
            ([cached, cached, past], None)
        }};
    }
    let ([cached, group, streaming], solving) = match (planes, kinds_of_states, classes_of_factors) {
        (2, SQUARE, SQUARE_CLASSES) => kernels!(2, SQUARE, SQUARE_CLASSES),
        (3, CUBE, CUBE_CLASSES) => kernels!(3, CUBE, CUBE_CLASSES),
        (2, SQUARE, _) => plain_kernels!(2, SQUARE),
        (3, CUBE, _) => plain_kernels!(3, CUBE),
        (3, CUBE_BACK, _) => plain_kernels!(3, CUBE_BACK),
        _ => return None,
    };
    let written_out = match Kind::of_this_processor() {
        Kind::Zen5 => WRITTEN_OUT_ZEN5[planes],
        _ => WRITTEN_OUT[planes],
    };
    let few_streams = cpu::few_streams().map(|few| match written_out {
        1 => few,
        columns => FewStreams { groups: Groups { reads: columns * planes, ..few.groups }, ..few },
    });
    Some(HornerEngine { cached, group, streaming, solving, few_streams, factor: forms::affine_matrix })
}

with_arithmetic!(define_carry!(load::<C, CACHED>, load::<C, STORES>, store::<C, STORES>, |x, matrix| {
    _mm512_gf2p8affine_epi64_epi8::<0>(x, _mm512_set1_epi64(matrix as i64))
}));
