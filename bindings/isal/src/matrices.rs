//! ISA-L's arithmetic on single bytes and small matrices.

use std::ffi::c_int;
use std::slice;

use pantile_gf::{ALPHA, Gf};
use smallvec::SmallVec;

use crate::compiled::add_multiples;
use crate::trace::{Call, count};
use crate::{mds, refuse};

/// The most rows of a matrix that is inverted without an allocation.
const ROWS: usize = 32;

/// Bytes of such a matrix and its inverse.
const WORK_BYTES: usize = 2 * ROWS * ROWS;

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

/// Writes the generator of a systematic code of `k` data blocks, `m` blocks in all, row-major: the
/// identity, then the powers of 1, 2, 4, ...
///
/// The code is not MDS for all sizes; a sentence reports that if `PANTILE_ISAL_WARN` asks for it.
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

/// Writes the generator of a systematic code of `k` data blocks, `m` blocks in all, row-major: the
/// identity, then 1 / (row ^ column).
///
/// The code is MDS up to m = 256.
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

/// Inverts an n x n matrix, which becomes the identity on the way. Returns -1 if it is singular;
/// both matrices then have the state at which the elimination stopped.
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

/// Inverts by Gauss-Jordan elimination with the first row that has a pivot; `false` at a column
/// without a pivot.
///
/// Both matrices are side by side, a line of `work` for each row, so that the multiples of a
/// pivot's row are added to all other rows in one sum.
fn invert(n: usize, input: &mut [u8], output: &mut [u8]) -> bool {
    let width = 2 * n;
    let mut work: SmallVec<[u8; WORK_BYTES]> = SmallVec::from_elem(0, n * width);
    for (row, line) in work.chunks_exact_mut(width).enumerate() {
        line[..n].copy_from_slice(&input[row * n..][..n]);
        line[n + row] = 1;
    }
    let done = eliminate(n, &mut work);
    for (row, line) in work.chunks_exact(width).enumerate() {
        input[row * n..][..n].copy_from_slice(&line[..n]);
        output[row * n..][..n].copy_from_slice(&line[n..]);
    }
    done
}

/// Eliminates as [`invert`], on lines that have both matrices.
fn eliminate(n: usize, work: &mut [u8]) -> bool {
    let width = 2 * n;
    let mut factors: SmallVec<[u8; ROWS]> = SmallVec::new();
    let mut pivot_line: SmallVec<[u8; 2 * ROWS]> = SmallVec::from_elem(0, width);
    for column in 0..n {
        let Some(pivot) = (column..n).find(|&row| work[row * width + column] != 0) else { return false };
        let factor = inverse(work[pivot * width + column]);
        if pivot != column {
            let (before, from) = work.split_at_mut(pivot * width);
            before[column * width..][..width].swap_with_slice(&mut from[..width]);
        }
        pivot_line.copy_from_slice(&work[column * width..][..width]);
        factors.clear();
        factors.extend((0..n).map(|row| work[row * width + column]));
        // To the line of the pivot, factor - 1 times itself is added, so that it becomes factor
        // times itself. To each other line, that line times the other line's own first entry is
        // added.
        for (row, by) in factors.iter_mut().enumerate() {
            *by = match row == column {
                true => factor ^ 1,
                false => (Gf(*by) * Gf(factor)).0,
            };
        }
        add_multiples(&factors, &pivot_line, work);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Inverts entry by entry, in the order of ISA-L.
    fn invert_by_bytes(n: usize, input: &mut [u8], output: &mut [u8]) -> bool {
        output.fill(0);
        (0..n).for_each(|i| output[i * n + i] = 1);
        for i in 0..n {
            if input[i * n + i] == 0 {
                let Some(j) = (i + 1..n).find(|j| input[j * n + i] != 0) else { return false };
                for k in 0..n {
                    input.swap(i * n + k, j * n + k);
                    output.swap(i * n + k, j * n + k);
                }
            }
            let by = Gf(inverse(input[i * n + i]));
            for matrix in [&mut *input, &mut *output] {
                matrix[i * n..][..n].iter_mut().for_each(|entry| *entry = (Gf(*entry) * by).0);
            }
            for j in (0..n).filter(|&j| j != i) {
                let by = Gf(input[j * n + i]);
                for matrix in [&mut *input, &mut *output] {
                    (0..n).for_each(|k| matrix[j * n + k] ^= (by * Gf(matrix[i * n + k])).0);
                }
            }
        }
        true
    }

    #[test]
    fn inverses_and_what_a_singular_matrix_leaves_are_those_of_single_bytes() {
        let mut state = 1u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let mut singular = 0;
        for n in (1..=24).chain([60, 130]) {
            for round in 0..8 {
                // Few values make rows alike, and zeros where pivots are looked for.
                let mask = [0xff, 3, 1, 1, 0xff, 3, 1, 1][round];
                let matrix: Vec<u8> = (0..n * n).map(|_| random() & mask).collect();
                let (mut a, mut b) = (matrix.clone(), matrix);
                let (mut x, mut y) = (vec![7; n * n], vec![9; n * n]);
                let done = invert(n, &mut a, &mut x);
                assert_eq!(done, invert_by_bytes(n, &mut b, &mut y), "{n}");
                assert!(a == b && x == y, "{n} {round}");
                singular += usize::from(!done);
            }
        }
        assert!((20..180).contains(&singular), "{singular} singular");
    }
}
