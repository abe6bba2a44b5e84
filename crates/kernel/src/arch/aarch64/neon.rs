//! NEON: a product is two table look-ups of 16 entries, `tbl` by the low and by the high nibbles.
//!
//! The nibbles of a source are split once and shared by all outputs. Thirty-two registers: M times
//! [`COLUMNS`] sums, two nibbles for each column, two tables and a product in flight. No store
//! bypasses the cache. There are no kernels that solve or double: sums of products do their work.
//! The speed was not measured; the bytes are compared with the portable ones under emulation
//! (`tools/aarch64.sh`).

use std::arch::aarch64::*;

use crate::arch::common::forms::{CACHED, LINE, PAST, SHORT, is_past};
use crate::engine::{Engine, Job, Kernel, MAX_OUTPUTS, Summing};
use crate::horner::{
    CUBE, CUBE_CLASSES, HornerEngine, HornerJob, HornerKernel, ONE, QUADRATIC, SQUARE, SQUARE_CLASSES,
    STATES, UNIT, class_of, plane_before,
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
            "neon",
            Tables,
            usize,
            VECTOR,
            |left| left,
            zero,
            veorq_u8,
            |a, b, d| veorq_u8(a, veorq_u8(b, d)),
            |x, tables| product(tables, nibbles(x))
        );
    };
}

#[cfg(feature = "fft")]
mod transforms;

/// Bytes of a vector.
const VECTOR: usize = 16;

/// Columns of a visit, by the number of its outputs: at most 16 registers of sums.
const COLUMNS: [usize; MAX_OUTPUTS + 1] = [0, 4, 4, 4, 4, 2, 2, 2, 2];

/// A witness that the machine has NEON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neon(());

impl Neon {
    pub(crate) const TIER: Tier = Tier::Neon;

    pub(crate) fn new() -> Option<Neon> {
        std::arch::is_aarch64_feature_detected!("neon").then_some(Neon(()))
    }
}

/// The products of a coefficient with the 16 low and with the 16 high nibbles.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(crate) struct Tables {
    low: [u8; VECTOR],
    high: [u8; VECTOR],
}

impl Tables {
    /// A linear map of bytes, by the images of single bits.
    fn of(images: [u8; 8]) -> Tables {
        let [low, high] = portable::images_of_nibbles(images);
        Tables { low, high }
    }
}

/// The low and the high nibbles of each byte.
#[inline]
#[target_feature(enable = "neon")]
fn nibbles(x: uint8x16_t) -> (uint8x16_t, uint8x16_t) {
    (vandq_u8(x, vdupq_n_u8(15)), vshrq_n_u8::<4>(x))
}

/// The products of bytes by their nibbles.
#[inline]
#[target_feature(enable = "neon")]
fn product(tables: &Tables, (low, high): (uint8x16_t, uint8x16_t)) -> uint8x16_t {
    // SAFETY: both tables have the bytes of a vector.
    let (of_low, of_high) = unsafe { (vld1q_u8(tables.low.as_ptr()), vld1q_u8(tables.high.as_ptr())) };
    veorq_u8(vqtbl1q_u8(of_low, low), vqtbl1q_u8(of_high, high))
}

impl Engine for Neon {
    type Coefficient = Tables;

    /// Two look-ups, two sums and a load of two tables, as AVX2 has.
    const MULTIPLY_COST: usize = 8;

    const STREAM_ALIGN_BYTES: usize = 1;

    fn coefficient(c: u8) -> Tables {
        Tables { low: portable::LOW[usize::from(c)], high: portable::HIGH[usize::from(c)] }
    }

    fn kernel(self, _streaming: bool, shape: Summing) -> Kernel<Tables> {
        macro_rules! pick {
            ($($m:literal)*) => {
                match (shape.outputs, shape.ones) {
                    $(
                        ($m, false) => dot::<$m, { COLUMNS[$m] }, false> as Kernel<_>,
                        ($m, true) => dot::<$m, { COLUMNS[$m] }, true>,
                    )*
                    _ => unreachable!("a pass has 1 to {MAX_OUTPUTS} outputs"),
                }
            };
        }
        pick!(1 2 3 4 5 6 7 8)
    }

    fn change_kernel(self, outputs: usize, ones: bool) -> Option<Kernel<Tables>> {
        pick_change!(outputs, ones; 1 2 3 4 5 6 7 8)
    }

    fn word_loops(self, bytes: usize) -> Option<WordLoops<Tables>> {
        loops_of_words(bytes, Tables::of)
    }

    fn few_streams(self) -> Option<FewStreams> {
        None
    }

    fn fence(self) {}
}

/// # Safety
///
/// As [`Kernel`], for M outputs, the first of them of ones if `ONES`.
#[target_feature(enable = "neon")]
unsafe fn dot<const M: usize, const C: usize, const ONES: bool>(job: &Job<'_, Tables>) {
    assert_eq!(job.coefficients.len(), job.sources.len() * (M - usize::from(ONES)));
    let mut at = 0;
    while job.len - at >= C * VECTOR {
        // SAFETY: at + C * VECTOR <= len.
        unsafe { visit::<M, C, ONES, CACHED>(job, at, VECTOR) };
        at += C * VECTOR;
    }
    while job.len - at >= VECTOR {
        // SAFETY: at + VECTOR <= len.
        unsafe { visit::<M, 1, ONES, CACHED>(job, at, VECTOR) };
        at += VECTOR;
    }
    if at < job.len {
        // SAFETY: len - at < VECTOR bytes are left.
        unsafe { visit::<M, 1, ONES, SHORT>(job, at, job.len - at) };
    }
}

/// C vectors of every output from `at`, or the `live` bytes from `at` if STORES is SHORT.
///
/// # Safety
///
/// As [`dot`]; what is read and written lies inside.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn visit<const M: usize, const C: usize, const ONES: bool, const STORES: u8>(
    job: &Job<'_, Tables>,
    at: usize,
    live: usize,
) {
    let mut sums = [[vdupq_n_u8(0); C]; M];
    if let Some(start) = job.start {
        for_each_output!(o < M {
            // SAFETY: `start` has M pointers, null only for engines that solve, valid for the
            // columns.
            sums[o] = unsafe { load::<C, STORES>(start[o], at, live) };
        });
    }
    let mut tables = job.coefficients.as_ptr();
    for &source in job.sources {
        // SAFETY: the source is valid for the columns.
        let x = unsafe { load::<C, STORES>(source, at, live) };
        let split = x.map(|x| nibbles(x));
        for_each_output!(o < M {
            if ONES && o == 0 {
                for c in 0..C {
                    sums[o][c] = veorq_u8(sums[o][c], x[c]);
                }
            } else {
                // SAFETY: `tables` walks over the coefficients, of which there are M (less one if
                // ONES) per source.
                let tables = unsafe { &*tables.add(o - usize::from(ONES)) };
                for c in 0..C {
                    sums[o][c] = veorq_u8(sums[o][c], product(tables, split[c]));
                }
            }
        });
        tables = tables.wrapping_add(M - usize::from(ONES));
    }
    for_each_output!(o < M {
        // SAFETY: the M outputs are valid for the columns.
        unsafe { store::<C, STORES>(job.outputs[o], at, live, sums[o]) };
    });
}

/// C columns from `pointer + at`; if C is 1 and STORES is SHORT, its first `live` bytes followed by
/// zeros.
///
/// # Safety
///
/// `pointer + at` is valid for reads of C vectors, or of `live <= VECTOR` bytes if C is 1 and
/// STORES is SHORT.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn load<const C: usize, const STORES: u8>(
    pointer: *const u8,
    at: usize,
    live: usize,
) -> [uint8x16_t; C] {
    let mut columns = [vdupq_n_u8(0); C];
    for (c, column) in columns.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *column = unsafe { load_column::<C, STORES>(pointer.add(at), c, live) };
    }
    columns
}

/// Column c of C from `pointer`, as [`load`].
///
/// # Safety
///
/// As [`load`], for that column.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn load_column<const C: usize, const STORES: u8>(
    pointer: *const u8,
    c: usize,
    live: usize,
) -> uint8x16_t {
    // SAFETY: the caller's promise; the buffer of the short case is a vector long.
    unsafe {
        let source = pointer.add(c * VECTOR);
        if C > 1 || STORES != SHORT || live == VECTOR {
            return vld1q_u8(source);
        }
        let mut short = [0; VECTOR];
        std::ptr::copy_nonoverlapping(source, short.as_mut_ptr(), live);
        vld1q_u8(short.as_ptr())
    }
}

/// Stores C columns at `pointer + at`; if C is 1 and STORES is SHORT, the first `live` bytes of it.
///
/// # Safety
///
/// `pointer + at` is valid for writes of C vectors, or of `live <= VECTOR` bytes if C is 1 and
/// STORES is SHORT.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn store<const C: usize, const STORES: u8>(
    pointer: *mut u8,
    at: usize,
    live: usize,
    columns: [uint8x16_t; C],
) {
    for (c, column) in columns.into_iter().enumerate() {
        // SAFETY: the caller's promise; the buffer of the short case is a vector long.
        unsafe {
            let target = pointer.add(at + c * VECTOR);
            if C > 1 || STORES != SHORT || live == VECTOR {
                vst1q_u8(target, column);
            } else {
                let mut short = [0; VECTOR];
                vst1q_u8(short.as_mut_ptr(), column);
                std::ptr::copy_nonoverlapping(short.as_ptr(), target, live);
            }
        }
    }
}

/// Zeros.
#[inline]
#[target_feature(enable = "neon")]
fn zero() -> uint8x16_t {
    vdupq_n_u8(0)
}

/// Returns the kernel that carries states of these kinds over elements of `planes` planes, for the
/// factors of RAIDq; it only stores states.
pub(crate) fn horner(planes: usize, kinds_of_states: u32, classes_of_factors: u32) -> Option<HornerEngine> {
    let carry = match (planes, kinds_of_states, classes_of_factors) {
        (2, SQUARE, SQUARE_CLASSES) => {
            carry::<2, 2, 1, SQUARE, SQUARE_CLASSES, CACHED, false> as HornerKernel
        }
        (3, CUBE, CUBE_CLASSES) => carry::<3, 1, 1, CUBE, CUBE_CLASSES, CACHED, false>,
        _ => return None,
    };
    Some(HornerEngine {
        cached: carry,
        group: carry,
        streaming: carry,
        solving: None,
        few_streams: None,
        factor: u64::from,
    })
}

define_xor_loops!("neon", VECTOR, zero, vld1q_u8, vst1q_u8, vst1q_u8, veorq_u8, |a, b, c| veorq_u8(
    a,
    veorq_u8(b, c)
));

with_arithmetic!(define_word_loops!(uint8x16_t, vld1q_u8, vst1q_u8, halves, zipped));

/// The bytes of even and of odd places of two vectors.
#[inline]
#[target_feature(enable = "neon")]
fn halves(a: uint8x16_t, b: uint8x16_t) -> (uint8x16_t, uint8x16_t) {
    (vuzp1q_u8(a, b), vuzp2q_u8(a, b))
}

/// The inverse of [`halves`].
#[inline]
#[target_feature(enable = "neon")]
fn zipped(even: uint8x16_t, odd: uint8x16_t) -> (uint8x16_t, uint8x16_t) {
    (vzip1q_u8(even, odd), vzip2q_u8(even, odd))
}

with_arithmetic!(define_change!(4, load::<C, SHORT>, store::<C, SHORT>));

with_arithmetic!(define_carry!(load::<C, STORES>, load::<C, STORES>, store::<C, STORES>, |x, factor| {
    product(&Neon::coefficient(factor as u8), nibbles(x))
}));
