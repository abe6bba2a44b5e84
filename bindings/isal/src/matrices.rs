//! ISA-L's arithmetic on single bytes and small matrices.

use std::ffi::c_int;
use std::slice;

use pantile_gf::{ALPHA, Gf};

use crate::trace::{Call, count};
use crate::{mds, refuse};

/// The product of two elements of GF(2^8).
#[unsafe(no_mangle)]
pub extern "C" fn gf_mul(a: u8, b: u8) -> u8 {
    count(Call::gf_mul);
    (Gf(a) * Gf(b)).0
}

/// The inverse of an element; 0 for 0.
#[unsafe(no_mangle)]
pub extern "C" fn gf_inv(a: u8) -> u8 {
    count(Call::gf_inv);
    inverse(a)
}

fn inverse(a: u8) -> u8 {
    Gf(a).inverse().unwrap_or(Gf::ZERO).0
}

/// The generator of a systematic code of `k` data blocks, `m` blocks in all, row-major: the
/// identity, then the powers of 1, 2, 4, ...
///
/// Not MDS for all sizes: a warning says so.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gf_gen_rs_matrix(a: *mut u8, m: c_int, k: c_int) {
    count(Call::gf_gen_rs_matrix);
    // SAFETY: the caller's promise.
    unsafe {
        generator("gf_gen_rs_matrix", a, m, k, |row, column, k| ALPHA.pow(((row - k) * column) as u64))
    };
    if let (Ok(m), Ok(k)) = (usize::try_from(m), usize::try_from(k)) {
        mds::warn(k, m.saturating_sub(k));
    }
}

/// The generator of a systematic code of `k` data blocks, `m` blocks in all, row-major: the
/// identity, then 1 / (row ^ column).
///
/// MDS up to m = 256.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gf_gen_cauchy1_matrix(a: *mut u8, m: c_int, k: c_int) {
    count(Call::gf_gen_cauchy1_matrix);
    let entry = |row: usize, column: usize, _| Gf(inverse((row ^ column) as u8));
    // SAFETY: the caller's promise.
    unsafe { generator("gf_gen_cauchy1_matrix", a, m, k, entry) };
}

/// # Safety
///
/// `a` is null or valid for writes of m * k bytes.
unsafe fn generator(name: &str, a: *mut u8, m: c_int, k: c_int, parity: impl Fn(usize, usize, usize) -> Gf) {
    let (Ok(m), Ok(k)) = (usize::try_from(m), usize::try_from(k)) else { return };
    if m == 0 || k == 0 {
        return;
    }
    if a.is_null() {
        refuse::abort(format_args!("{name}: the matrix is a null pointer; give m * k = {} bytes", m * k));
    }
    // SAFETY: not null, and the caller's promise.
    let rows = unsafe { slice::from_raw_parts_mut(a, m * k) };
    for (row, entries) in rows.chunks_exact_mut(k).enumerate() {
        for (column, entry) in entries.iter_mut().enumerate() {
            *entry = if row < k { u8::from(row == column) } else { parity(row, column, k).0 };
        }
    }
}

/// Inverts an n x n matrix, which becomes the identity on the way; -1 if it is singular, with both
/// matrices as far as the elimination came.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gf_invert_matrix(in_mat: *mut u8, out_mat: *mut u8, n: c_int) -> c_int {
    count(Call::gf_invert_matrix);
    let Ok(n) = usize::try_from(n) else { return 0 };
    if n == 0 {
        return 0;
    }
    if in_mat.is_null() || out_mat.is_null() || in_mat.addr().abs_diff(out_mat.addr()) < n * n {
        refuse::say(format_args!(
            "gf_invert_matrix: the matrices are null or overlap; give two of n * n = {} bytes each",
            n * n
        ));
        return -1;
    }
    // SAFETY: not null and apart, and by contract n * n bytes each.
    let (input, output) =
        unsafe { (slice::from_raw_parts_mut(in_mat, n * n), slice::from_raw_parts_mut(out_mat, n * n)) };
    if invert(n, input, output) { 0 } else { -1 }
}

/// Gauss and Jordan, the first row that has a pivot at a time; `false` at a column without one.
fn invert(n: usize, input: &mut [u8], output: &mut [u8]) -> bool {
    output.fill(0);
    (0..n).for_each(|i| output[i * n + i] = 1);
    for column in 0..n {
        let Some(pivot) = (column..n).find(|&row| input[row * n + column] != 0) else { return false };
        let factor = Gf(inverse(input[pivot * n + column]));
        let factors: Vec<Gf> = (0..n).map(|row| Gf(input[row * n + column])).collect();
        for matrix in [&mut *input, &mut *output] {
            if pivot != column {
                (0..n).for_each(|c| matrix.swap(pivot * n + c, column * n + c));
            }
            let scaled = matrix[column * n..][..n].iter_mut();
            scaled.for_each(|entry| *entry = (Gf(*entry) * factor).0);
            let scaled = matrix[column * n..][..n].to_vec();
            for row in (0..n).filter(|&row| row != column) {
                // The rows were swapped, the factors were read before.
                let factor = if row == pivot { factors[column] } else { factors[row] };
                let entries = matrix[row * n..][..n].iter_mut().zip(&scaled);
                entries.for_each(|(entry, &by)| *entry ^= (factor * Gf(by)).0);
            }
        }
    }
    true
}
