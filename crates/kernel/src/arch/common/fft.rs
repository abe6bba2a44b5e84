//! The loops of additive FFTs of four and of eight points ([`crate::fft`]), written once for
//! vectors of any instruction set.

/// The results of an additive FFT, as constants for [`Finish`](crate::fft::Finish).
pub(crate) const STATES_ALONE: u8 = 0;
pub(crate) const VALUES: u8 = 1;
pub(crate) const ROWS: u8 = 2;
pub(crate) const ROWS_AND_LEFT: u8 = 3;

/// Defines `fft::<C, STORES, FINISH>` and `fft8::<C, STORES, FINISH>`,
/// [`FftKernel`](crate::fft::FftKernel)s of four and of eight points. They make visits of C vectors
/// of each column, then of single vectors, then of the last bytes. `live` is as in
/// [`define_change`].
macro_rules! define_fft {
    ($again:path, $load_column:path, $store:path; $feature:literal, $coefficient:ty, $live:ty, $whole:expr, |$left:ident| $rest:expr, $zero:ident, $xor:ident, |$a:ident, $b:ident, $d:ident| $xor3:expr, |$x:ident, $m:ident| $product:expr) => {
        define_fft!(@visits fft, fft_visit, $feature, $coefficient, $live, $whole, |$left| $rest);
        define_fft!(@visits fft8, fft8_visit, $feature, $coefficient, $live, $whole, |$left| $rest);

        /// # Safety
        ///
        /// As [`fft`]; C vectors from `at`, or the live bytes of one, lie inside. Stores past the
        /// cache have whole ones.
        #[inline]
        #[target_feature(enable = $feature)]
        unsafe fn fft_visit<const C: usize, const STORES: u8, const FINISH: u8>(
            job: &FftJob<'_, $coefficient>,
            at: usize,
            live: $live,
        ) {
            let mut states = [[$zero(); C]; POINTS];
            if let Some(start) = job.start {
                for_each_state!(p {
                    // SAFETY: the states before are all there, valid for the live bytes.
                    states[p] = unsafe { $again(start[p], at, live) };
                });
            }
            for (columns, factors) in job.wholes.as_chunks::<4>().0.iter().zip(job.whole_factors.as_chunks::<3>().0) {
                let columns = columns.map(|column| column.at(at));
                for_each_column!(c < C {
                    // SAFETY: a column is valid for the live bytes.
                    let [v0, v1, v2, v3] = unsafe { columns_of!($load_column, columns, c, live; 0 1 2 3) };
                    butterfly!(v0, v1, &factors[0], $xor, |$x, $m| $product);
                    let v3 = $xor(v2, v3);
                    // The sum of three values does two steps of the second butterfly and one of the
                    // next.
                    let hi = {
                        let ($x, $m) = (v3, &factors[1]);
                        let ($a, $b, $d) = (v0, v2, $product);
                        $xor3
                    };
                    states[2][c] = $xor(states[2][c], hi);
                    states[0][c] = {
                        let ($x, $m) = (hi, &factors[2]);
                        let ($a, $b, $d) = (states[0][c], v0, $product);
                        $xor3
                    };
                    let hi = $xor(v1, v3);
                    states[3][c] = $xor(states[3][c], hi);
                    states[1][c] = {
                        let ($x, $m) = (hi, &factors[2]);
                        let ($a, $b, $d) = (states[1][c], v1, $product);
                        $xor3
                    };
                });
            }
            for (columns, factors) in job.halves.as_chunks::<2>().0.iter().zip(job.half_factors.as_chunks::<2>().0) {
                let columns = columns.map(|column| column.at(at));
                for_each_column!(c < C {
                    // SAFETY: as above.
                    let [v0, v1] = unsafe { columns_of!($load_column, columns, c, live; 0 1) };
                    butterfly!(v0, v1, &factors[0], $xor, |$x, $m| $product);
                    add_half!(states, 2, c, [v0, v1], &factors[1], $xor, |$x, $m| $product; 0 1);
                });
            }
            let b = &job.origin_factors[0];
            if let Some(columns) = job.at_origin {
                let columns = columns.map(|column| column.at(at));
                for_each_column!(c < C {
                    // SAFETY: as above.
                    let [v0, v1, v2, v3] = unsafe { columns_of!($load_column, columns, c, live; 0 1 2 3) };
                    let (e1, o1) = ($xor(v0, v1), $xor(v2, v3));
                    let hi = {
                        let ($x, $m) = (o1, b);
                        let ($a, $b, $d) = (v0, v2, $product);
                        $xor3
                    };
                    states[0][c] = $xor(states[0][c], v0);
                    states[1][c] = $xor(states[1][c], e1);
                    states[2][c] = $xor(states[2][c], hi);
                    let ($a, $b, $d) = (states[3][c], e1, o1);
                    states[3][c] = $xor3;
                });
            }
            if FINISH == VALUES {
                for_each_column!(c < C {
                    let [a0, a1, a2, a3] = [states[0][c], states[1][c], states[2][c], states[3][c]];
                    let o1 = $xor(a1, a3);
                    let o0 = {
                        let ($x, $m) = (o1, b);
                        let ($a, $b, $d) = (a0, a2, $product);
                        $xor3
                    };
                    states[1][c] = $xor(a0, a1);
                    states[2][c] = o0;
                    states[3][c] = $xor(o0, o1);
                });
            }
            if FINISH == VALUES || FINISH == STATES_ALONE {
                for_each_state!(p {
                    if FINISH == STATES_ALONE || !job.outputs[p].is_null() {
                        // SAFETY: there are four outputs; present ones are valid for the live
                        // bytes, and aligned if STORES go past the cache.
                        unsafe { $store(job.outputs[p], at, live, states[p]) };
                    }
                });
                return;
            }
            let mut left = states[POINTS - 1];
            for (&output, row) in job.outputs.iter().zip(job.solution) {
                let mut solved = [$zero(); C];
                for_each_state!(p {
                    let $m = &row[p];
                    for_each_column!(c < C {
                        let $x = states[p][c];
                        solved[c] = $xor(solved[c], $product);
                    });
                });
                if FINISH == ROWS_AND_LEFT {
                    for_each_column!(c < C {
                        left[c] = $xor(left[c], solved[c]);
                    });
                }
                // SAFETY: as above.
                unsafe { $store(output, at, live, solved) };
            }
            if FINISH == ROWS_AND_LEFT {
                // SAFETY: as above; there are four outputs.
                unsafe { $store(job.outputs[POINTS - 1], at, live, left) };
            }
        }

        /// # Safety
        ///
        /// As [`fft8`]; as [`fft_visit`].
        #[inline]
        #[target_feature(enable = $feature)]
        unsafe fn fft8_visit<const C: usize, const STORES: u8, const FINISH: u8>(
            job: &FftJob<'_, $coefficient>,
            at: usize,
            live: $live,
        ) {
            const { assert!(FINISH == VALUES || FINISH == STATES_ALONE, "eight points are not solved") };
            let mut states = [[$zero(); C]; POINTS_MOST];
            if let Some(start) = job.start {
                for_each_output!(p < POINTS_MOST {
                    // SAFETY: the states before are all there, valid for the live bytes.
                    states[p] = unsafe { $again(start[p], at, live) };
                });
            }
            for (columns, factors) in job.wholes.as_chunks::<8>().0.iter().zip(job.whole_factors.as_chunks::<7>().0) {
                let columns = columns.map(|column| column.at(at));
                for_each_column!(c < C {
                    // SAFETY: a column is valid for the live bytes.
                    let [v0, v1, v2, v3] = unsafe { columns_of!($load_column, columns, c, live; 0 1 2 3) };
                    four_butterflies!(v0, v1, v2, v3, [&factors[0], &factors[1], &factors[4]], $xor, |$x, $m| $product);
                    // SAFETY: as above.
                    let [v4, v5, v6, v7] = unsafe { columns_of!($load_column, columns, c, live; 4 5 6 7) };
                    four_butterflies!(v4, v5, v6, v7, [&factors[2], &factors[3], &factors[5]], $xor, |$x, $m| $product);
                    let $m = &factors[6];
                    let (lo, hi) = ([v0, v1, v2, v3], [$xor(v0, v4), $xor(v1, v5), $xor(v2, v6), $xor(v3, v7)]);
                    for_each_state!(p {
                        states[p + 4][c] = $xor(states[p + 4][c], hi[p]);
                        let $x = hi[p];
                        let ($a, $b, $d) = (states[p][c], lo[p], $product);
                        states[p][c] = $xor3;
                    });
                });
            }
            for (columns, factors) in job.halves.as_chunks::<4>().0.iter().zip(job.half_factors.as_chunks::<4>().0) {
                let columns = columns.map(|column| column.at(at));
                for_each_column!(c < C {
                    // SAFETY: as above.
                    let [v0, v1, v2, v3] = unsafe { columns_of!($load_column, columns, c, live; 0 1 2 3) };
                    four_butterflies!(v0, v1, v2, v3, [&factors[0], &factors[1], &factors[2]], $xor, |$x, $m| $product);
                    add_half!(states, 4, c, [v0, v1, v2, v3], &factors[3], $xor, |$x, $m| $product; 0 1 2 3);
                });
            }
            if FINISH == VALUES {
                let [b, b2, b2_b] = [&job.origin_factors[0], &job.origin_factors[1], &job.origin_factors[2]];
                for_each_column!(c < C {
                    let [a0, a1, a2, a3] = [states[0][c], states[1][c], states[2][c], states[3][c]];
                    let [a4, a5, a6, a7] = [$xor(states[4][c], a0), $xor(states[5][c], a1), $xor(states[6][c], a2), $xor(states[7][c], a3)];
                    let (a2, a3) = ($xor(a2, a0), $xor(a3, a1));
                    fly_back!(a4, a6, b, $xor, |$x, $m| $product);
                    fly_back!(a5, a7, b, $xor, |$x, $m| $product);
                    let a1 = $xor(a1, a0);
                    fly_back!(a2, a3, b, $xor, |$x, $m| $product);
                    fly_back!(a4, a5, b2, $xor, |$x, $m| $product);
                    fly_back!(a6, a7, b2_b, $xor, |$x, $m| $product);
                    let values = [a0, a1, a2, a3, a4, a5, a6, a7];
                    for_each_output!(p < POINTS_MOST {
                        states[p][c] = values[p];
                    });
                });
            }
            for_each_output!(p < POINTS_MOST {
                if FINISH == STATES_ALONE || !job.outputs[p].is_null() {
                    // SAFETY: there are eight outputs; present ones are valid for the live bytes,
                    // and aligned if STORES go past the cache.
                    unsafe { $store(job.outputs[p], at, live, states[p]) };
                }
            });
        }
    };
    (@visits $fft:ident, $visit:ident, $feature:literal, $coefficient:ty, $live:ty, $whole:expr, |$left:ident| $rest:expr) => {
        /// # Safety
        ///
        /// As [`FftKernel`](crate::fft::FftKernel).
        #[target_feature(enable = $feature)]
        unsafe fn $fft<const C: usize, const STORES: u8, const FINISH: u8>(job: &FftJob<'_, $coefficient>) {
            const { assert!(!is_past(STORES) || (C * VECTOR).is_multiple_of(LINE), "whole lines go past the cache") };
            const { assert!(C * VECTOR <= VISIT_BYTES_MOST, "zeros are no longer") };
            let mut at = 0;
            while job.len - at >= C * VECTOR {
                // SAFETY: that many bytes are left.
                unsafe { $visit::<C, STORES, FINISH>(job, at, $whole) };
                at += C * VECTOR;
            }
            while job.len - at >= VECTOR {
                // SAFETY: as above.
                unsafe { $visit::<1, STORES, FINISH>(job, at, $whole) };
                at += VECTOR;
            }
            if at < job.len {
                let $left = job.len - at;
                // SAFETY: as above, and fewer than a vector.
                unsafe { $visit::<1, SHORT, FINISH>(job, at, $rest) };
            }
        }
    };
}

/// Loads vector c of some columns.
macro_rules! columns_of {
    ($load_column:path, $columns:ident, $c:ident, $live:ident; $($i:literal)*) => {
        [$($load_column($columns[$i], $c, $live)),*]
    };
}

/// Converts two values to two coefficients: (lo, hi) become (lo + f (lo + hi), lo + hi).
macro_rules! butterfly {
    ($lo:ident, $hi:ident, $factor:expr, $xor:ident, |$x:ident, $m:ident| $product:expr) => {
        let $hi = $xor($lo, $hi);
        let $lo = {
            let ($x, $m) = ($hi, $factor);
            $xor($lo, $product)
        };
    };
}

/// Reverts [`butterfly`]: converts two coefficients to two values.
macro_rules! fly_back {
    ($lo:ident, $hi:ident, $factor:expr, $xor:ident, |$x:ident, $m:ident| $product:expr) => {
        let $lo = {
            let ($x, $m) = ($hi, $factor);
            $xor($lo, $product)
        };
        let $hi = $xor($lo, $hi);
    };
}

/// Converts four values to four coefficients, with one factor for each pair and one for the pairs
/// of pairs.
macro_rules! four_butterflies {
    ($v0:ident, $v1:ident, $v2:ident, $v3:ident, [$f0:expr, $f1:expr, $f2:expr], $xor:ident, |$x:ident, $m:ident| $product:expr) => {
        butterfly!($v0, $v1, $f0, $xor, |$x, $m| $product);
        butterfly!($v2, $v3, $f1, $xor, |$x, $m| $product);
        butterfly!($v0, $v2, $f2, $xor, |$x, $m| $product);
        butterfly!($v1, $v3, $f2, $xor, |$x, $m| $product);
    };
}

/// Adds the coefficients of half of a group: unchanged to the second half of the states, and times
/// a factor to the first half.
macro_rules! add_half {
    ($states:ident, $half:literal, $c:ident, $values:expr, $factor:expr, $xor:ident, |$x:ident, $m:ident| $product:expr; $($i:literal)*) => {
        let (values, $m) = ($values, $factor);
        $(
            let $x = values[$i];
            $states[$i + $half][$c] = $xor($states[$i + $half][$c], $x);
            $states[$i][$c] = $xor($states[$i][$c], $product);
        )*
    };
}

/// Picks the `fft` or `fft8` of a module for a way of storing, with the number of columns for each
/// number of points; `None` for other results.
macro_rules! pick_fft {
    ($points:expr, $finish:expr, $stores:ident by $columns:ident) => {
        match ($points, $finish) {
            (4, Finish::States) => Some(fft::<{ $columns[0] }, $stores, STATES_ALONE> as FftKernel<_>),
            (4, Finish::Values) => Some(fft::<{ $columns[0] }, $stores, VALUES>),
            (4, Finish::Rows) => Some(fft::<{ $columns[0] }, $stores, ROWS>),
            (4, Finish::RowsAndWhatIsLeft) => Some(fft::<{ $columns[0] }, $stores, ROWS_AND_LEFT>),
            (8, Finish::States) => Some(fft8::<{ $columns[1] }, $stores, STATES_ALONE>),
            (8, Finish::Values) => Some(fft8::<{ $columns[1] }, $stores, VALUES>),
            _ => None,
        }
    };
}
