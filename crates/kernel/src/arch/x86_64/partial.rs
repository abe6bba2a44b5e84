//! Loads and stores of 32-byte columns of which the last one may be short, since AVX2 has no byte
//! masks.

use std::arch::x86_64::*;

use super::forms::{fetched_ahead_bytes, is_past};

/// Bytes of a vector.
const VECTOR: usize = 32;

/// Loads C columns from `pointer + at`; if C is 1, its first `live` bytes followed by zeros. May
/// prefetch later columns.
///
/// # Safety
///
/// `pointer + at` is valid for reads of C vectors, or of `live <= VECTOR` bytes if C is 1.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn load<const C: usize, const STORES: u8>(
    pointer: *const u8,
    at: usize,
    live: usize,
) -> [__m256i; C] {
    let mut columns = [_mm256_setzero_si256(); C];
    for (c, column) in columns.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *column = unsafe { load_column::<C, STORES>(pointer.add(at), c, live) };
    }
    columns
}

/// Loads column c of C from `pointer`, like [`load`].
///
/// # Safety
///
/// As [`load`], for that column.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn load_column<const C: usize, const STORES: u8>(
    pointer: *const u8,
    c: usize,
    live: usize,
) -> __m256i {
    // SAFETY: the caller's promise; a prefetch may name any address. The buffer of the short case
    // is VECTOR bytes long and live < VECTOR.
    unsafe {
        let source = pointer.add(c * VECTOR);
        let ahead = const { fetched_ahead_bytes(STORES) };
        if ahead > 0 && c.is_multiple_of(2) {
            _mm_prefetch::<_MM_HINT_T0>(source.wrapping_add(ahead).cast());
        }
        if C > 1 || live == VECTOR {
            _mm256_loadu_si256(source.cast())
        } else {
            let mut short = [0u8; VECTOR];
            std::ptr::copy_nonoverlapping(source, short.as_mut_ptr(), live);
            _mm256_loadu_si256(short.as_ptr().cast())
        }
    }
}

/// Stores C columns at `pointer + at`; if C is 1, only its first `live` bytes.
///
/// # Safety
///
/// `pointer + at` is valid for writes of C vectors, or of `live <= VECTOR` bytes if C is 1. Where
/// STORES go past the cache, it is aligned to VECTOR and `live` is VECTOR.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn store<const C: usize, const STORES: u8>(
    pointer: *mut u8,
    at: usize,
    live: usize,
    columns: [__m256i; C],
) {
    for (c, column) in columns.into_iter().enumerate() {
        // SAFETY: the caller's promise; the buffer of the short case is VECTOR bytes long and live
        // < VECTOR.
        unsafe {
            let target = pointer.add(at + c * VECTOR);
            if is_past(STORES) {
                _mm256_stream_si256(target.cast(), column);
            } else if C > 1 || live == VECTOR {
                _mm256_storeu_si256(target.cast(), column);
            } else {
                let mut short = [0u8; VECTOR];
                _mm256_storeu_si256(short.as_mut_ptr().cast(), column);
                std::ptr::copy_nonoverlapping(short.as_ptr(), target, live);
            }
        }
    }
}
