//! ISA-L's RAID functions: P, the sum of all sources, and Q, the sum of 2^j times source j.
//!
//! `array` lists the sources, then P, then Q. 0 is success; As in ISA-L's functions, 1 means too
//! few vectors, or a length that is no multiple of the required number. Buffers need no alignment
//! here.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::slice;

use smallvec::SmallVec;

use crate::compiled::{Matrix, Origin, as_sources, first_nonzero};
use crate::refuse;
use crate::trace::{Call, count};

/// The result of a call: 0 is success.
type Status = c_int;

/// Bytes of parity that a check computes before it compares them: a page of each vector stays in
/// the cache.
const CHECKED_BYTES: usize = 4096;

/// Returns the vectors and their length. The result is `None` if they are too few or null, or their
/// length is no multiple of `unit`; if ISA-L has no rule for the case, a sentence is written.
///
/// # Safety
///
/// `array` is null or valid for reads of `vects` pointers.
unsafe fn vectors<'a>(
    call: &str,
    [vects, fewest, len, unit]: [c_int; 4],
    array: *const *mut c_void,
) -> Option<(&'a [*mut u8], usize)> {
    if vects < fewest || len % unit != 0 {
        return None;
    }
    let length = usize::try_from(len).ok()?;
    if array.is_null() {
        refuse::say(format_args!("{call}: the array is a null pointer; give {vects} vectors"));
        return None;
    }
    // SAFETY: not null, and the caller's promise.
    let vectors = unsafe { slice::from_raw_parts(array.cast::<*mut u8>(), vects as usize) };
    if length > 0
        && let Some(null) = vectors.iter().position(|vector| vector.is_null())
    {
        refuse::say(format_args!("{call}: vector {null} is a null pointer; give {len} bytes"));
        return None;
    }
    Some((vectors, length))
}

/// # Safety
///
/// The vectors are valid for `len` bytes.
unsafe fn generate(call: &'static str, origin: Origin<'_>, parities: usize, vectors: &[*mut u8], len: usize) {
    let (sources, outputs) = vectors.split_at(vectors.len() - parities);
    let matrix = Matrix { call, sources: sources.len(), outputs: parities, origin };
    // SAFETY: the caller's promise.
    unsafe { matrix.apply(as_sources(sources), outputs, len) }
}

/// Returns the offset of the first wrong byte of a parity, and which parity it is: P before Q.
///
/// # Safety
///
/// The vectors are valid for `len` bytes.
unsafe fn first_mismatch(
    call: &'static str,
    origin: Origin<'_>,
    parities: usize,
    vectors: &[*mut u8],
    len: usize,
) -> Option<(usize, usize)> {
    let sources = &vectors[..vectors.len() - parities];
    let matrix = Matrix { call, sources: sources.len(), outputs: parities, origin };
    // Stored parity plus computed parity: zero if they are the same.
    let mut sums = [const { MaybeUninit::<[u8; CHECKED_BYTES]>::uninit() }; 2];
    let made = sums.each_mut().map(|sum| sum.as_mut_ptr().cast::<u8>());
    let mut moved: SmallVec<[*mut u8; 32]> = vectors.into();
    let mut start = 0;
    while start < len {
        let bytes = CHECKED_BYTES.min(len - start);
        let (from, is) = moved.split_at(sources.len());
        // SAFETY: so many bytes of each vector follow the pointers, and the sums have room for
        // them.
        unsafe { matrix.add_to(as_sources(is), as_sources(from), &made[..parities], bytes) };
        let mismatch = |parity: usize| {
            // SAFETY: that was just written.
            let sum = unsafe { slice::from_raw_parts(made[parity], bytes) };
            first_nonzero(sum).map(|at| (start + at, parity))
        };
        if let Some(first) = (0..parities).filter_map(mismatch).min() {
            return Some(first);
        }
        start += bytes;
        moved.iter_mut().for_each(|vector| *vector = vector.wrapping_add(bytes));
    }
    None
}

macro_rules! raid {
    ($($call:ident($fewest:literal, $unit:literal) by $verb:ident: $($name:ident)*;)*) => {$($(
        /// See the module: 0 is success.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(vects: c_int, len: c_int, array: *const *mut c_void) -> Status {
            count(Call::$call);
            let call = stringify!($name);
            // SAFETY: the contract of ISA-L's function.
            unsafe {
                match vectors(call, [vects, $fewest, len, $unit], array) {
                    Some((vectors, len)) => $verb(call, vectors, len),
                    None => 1,
                }
            }
        }
    )*)*};
}

raid! {
    xor_gen(3, 1) by make_xor: xor_gen xor_gen_base xor_gen_sse xor_gen_avx;
    pq_gen(4, 32) by make_pq: pq_gen pq_gen_avx2;
    pq_gen(4, 16) by make_pq: pq_gen_sse pq_gen_avx;
    pq_gen(4, 1) by make_pq_words: pq_gen_base;
    xor_check(2, 1) by check_xor: xor_check xor_check_base xor_check_sse;
    pq_check(4, 16) by check_pq: pq_check pq_check_sse;
    pq_check(4, 1) by locate_pq: pq_check_base;
}

unsafe fn make_xor(call: &'static str, vectors: &[*mut u8], len: usize) -> Status {
    // SAFETY: the caller's promise, here and in the functions that follow.
    unsafe { generate(call, Origin::Xor, 1, vectors, len) };
    0
}

unsafe fn make_pq(call: &'static str, vectors: &[*mut u8], len: usize) -> Status {
    // SAFETY: as above.
    unsafe { generate(call, Origin::Pq, 2, vectors, len) };
    0
}

/// Computes P and Q of whole machine words and leaves the bytes behind them, as ISA-L's function of
/// this name does.
unsafe fn make_pq_words(call: &'static str, vectors: &[*mut u8], len: usize) -> Status {
    // SAFETY: as above.
    unsafe { make_pq(call, vectors, len - len % size_of::<usize>()) }
}

unsafe fn check_xor(call: &'static str, vectors: &[*mut u8], len: usize) -> Status {
    // SAFETY: as above.
    c_int::from(unsafe { first_mismatch(call, Origin::Xor, 1, vectors, len) }.is_some())
}

unsafe fn check_pq(call: &'static str, vectors: &[*mut u8], len: usize) -> Status {
    // SAFETY: as above.
    c_int::from(unsafe { first_mismatch(call, Origin::Pq, 2, vectors, len) }.is_some())
}

/// Returns the offset of the first wrong byte, with the lowest bit set for P and the next for Q.
unsafe fn locate_pq(call: &'static str, vectors: &[*mut u8], len: usize) -> Status {
    // SAFETY: as above.
    match unsafe { first_mismatch(call, Origin::Pq, 2, vectors, len) } {
        Some((at, parity)) => at as c_int | if parity == 0 { 1 } else { 2 },
        None => 0,
    }
}
