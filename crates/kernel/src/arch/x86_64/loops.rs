//! Loops that are written once for vectors of 32 and of 64 bytes: of [`crate::weave`] over slices, of [`crate::update`], of [`crate::horner`] and of [`crate::fft`].

/// Defines `rows::<C, STREAMING>`, the rows of a weave for one slice of C vectors.
macro_rules! define_rows {
    ($feature:literal, $vector:ty, $bytes:expr, $zero:ident, $load:ident, $store:ident, $stream:ident, $xor:ident, $xor3:expr) => {
        /// The rows of a weave, for the C vectors from `at` of every buffer and from 0 of every slot.
        ///
        /// # Safety
        ///
        /// The places of the table are valid for them; goals that nothing reads again are aligned if STREAMING.
        #[inline]
        #[target_feature(enable = $feature)]
        unsafe fn rows<const C: usize, const STREAMING: bool>(weave: &Weave, table: &[*mut u8], at: usize) {
            let mut words = weave.words().as_ptr();
            let mut sums = [$zero(); C];
            for row in weave.rows() {
                if !row.carries {
                    sums = [$zero(); C];
                }
                // SAFETY: the words hold what the rows count, and name places of the table. Places of slots are moved
                // back as `at` advances, so that `at` may be added to every place.
                unsafe {
                    for _ in 0..row.sources / 2 {
                        let x = table.get_unchecked(*words as usize).wrapping_add(at);
                        let y = table.get_unchecked(*words.add(1) as usize).wrapping_add(at);
                        words = words.add(2);
                        for c in 0..C {
                            let x = $load(x.add(c * $bytes).cast());
                            let y = $load(y.add(c * $bytes).cast());
                            sums[c] = $xor3(sums[c], x, y);
                        }
                    }
                    if row.sources % 2 == 1 {
                        let x = table.get_unchecked(*words as usize).wrapping_add(at);
                        words = words.add(1);
                        for c in 0..C {
                            sums[c] = $xor(sums[c], $load(x.add(c * $bytes).cast()));
                        }
                    }
                    let to = table.get_unchecked(row.to.place as usize).wrapping_add(at);
                    for c in 0..C {
                        if STREAMING && row.to.is_last {
                            $stream(to.add(c * $bytes).cast(), sums[c]);
                        } else {
                            $store(to.add(c * $bytes).cast(), sums[c]);
                        }
                    }
                }
            }
        }
    };
}

/// Defines `change::<M, ONES>`, the kernel of [`Engine::change_kernel`](crate::engine::Engine::change_kernel): visits of so many columns, then single ones,
/// then what is left. `live` is how an engine says which bytes count.
macro_rules! define_change {
    ($feature:literal, $coefficient:ty, $columns:literal, $load:path, $store:path, $live:ty, $whole:expr, |$left:ident| $rest:expr, $xor:ident, |$x:ident, $c:ident| $product:expr) => {
        /// # Safety
        ///
        /// As [`Kernel`], for M outputs and two sources, of which the first is valid for writes; no two buffers of the job overlap.
        #[target_feature(enable = $feature)]
        unsafe fn change<const M: usize, const ONES: bool>(job: &Job<'_, $coefficient>) {
            debug_assert_eq!((job.sources.len(), job.coefficients.len()), (2, M - usize::from(ONES)));
            let mut at = 0;
            while job.len - at >= $columns * VECTOR {
                // SAFETY: that many bytes are left.
                unsafe { change_visit::<M, $columns, ONES>(job, at, $whole) };
                at += $columns * VECTOR;
            }
            while job.len - at >= VECTOR {
                // SAFETY: as above.
                unsafe { change_visit::<M, 1, ONES>(job, at, $whole) };
                at += VECTOR;
            }
            if at < job.len {
                let $left = job.len - at;
                // SAFETY: as above, and fewer than a vector.
                unsafe { change_visit::<M, 1, ONES>(job, at, $rest) };
            }
        }

        /// C columns from `at`, or the live bytes of one.
        ///
        /// # Safety
        ///
        /// As [`change`]; the columns, or the live bytes, lie inside.
        #[inline]
        #[target_feature(enable = $feature)]
        unsafe fn change_visit<const M: usize, const C: usize, const ONES: bool>(
            job: &Job<'_, $coefficient>,
            at: usize,
            live: $live,
        ) {
            // SAFETY: the caller's promise: two sources, M outputs and as many coefficients, less one if ONES.
            unsafe {
                let changed = *job.sources.get_unchecked(0);
                let new = $load(*job.sources.get_unchecked(1), at, live);
                let mut change: [_; C] = $load(changed, at, live);
                for c in 0..C {
                    change[c] = $xor(change[c], new[c]);
                }
                $store(changed.cast_mut(), at, live, new);
                for_each_output!(o < M {
                    let mut sum: [_; C] = $load(job.outputs[o].cast_const(), at, live);
                    if ONES && o == 0 {
                        for c in 0..C {
                            sum[c] = $xor(sum[c], change[c]);
                        }
                    } else {
                        let $c = job.coefficients.get_unchecked(o - usize::from(ONES));
                        for c in 0..C {
                            let $x = change[c];
                            sum[c] = $xor(sum[c], $product);
                        }
                    }
                    $store(job.outputs[o], at, live, sum);
                });
            }
        }
    };
}

/// Defines `carry::<D, C, U, K, F, STORES, SOLVES>`, a [`HornerKernel`](crate::horner::HornerKernel) for products by matrices: visits of C vectors of each plane, then
/// single ones, then what is left. `live` is as in [`define_change`].
macro_rules! define_carry {
    ($feature:literal, $again:path, $load:path, $store:path, $live:ty, $whole:expr, |$left:ident| $rest:expr, $zero:ident, $xor:ident, |$a:ident, $b:ident, $d:ident| $xor3:expr, |$x:ident, $c:ident| $product:expr) => {
        /// # Safety
        ///
        /// As [`HornerKernel`], for D planes, states of the kinds K and factors of the classes F; U columns are written out. The states are stored, or the solution made of
        /// them.
        #[target_feature(enable = $feature)]
        unsafe fn carry<
            const D: usize,
            const C: usize,
            const U: usize,
            const K: u32,
            const F: u32,
            const STORES: u8,
            const SOLVES: bool,
        >(
            job: &HornerJob<'_>,
        ) {
            const { assert!(!is_past(STORES) || VECTOR.is_multiple_of(LINE), "whole lines go past the cache") };
            let mut at = 0;
            while job.len - at >= C * VECTOR {
                // SAFETY: that many bytes are left.
                unsafe { carry_visit::<D, C, U, K, F, STORES, SOLVES>(job, at, $whole) };
                at += C * VECTOR;
            }
            while job.len - at >= VECTOR {
                // SAFETY: as above.
                unsafe { carry_visit::<D, 1, 1, K, F, STORES, SOLVES>(job, at, $whole) };
                at += VECTOR;
            }
            if at < job.len {
                let $left = job.len - at;
                // SAFETY: as above, and fewer than a vector.
                unsafe { carry_visit::<D, 1, 1, K, F, SHORT, SOLVES>(job, at, $rest) };
            }
            if is_past(STORES) {
                super::fence();
            }
        }

        /// # Safety
        ///
        /// As [`carry`]; C vectors from `at`, or the live bytes of one, lie inside. Stores past the cache have whole ones.
        #[inline]
        #[target_feature(enable = $feature)]
        unsafe fn carry_visit<
            const D: usize,
            const C: usize,
            const U: usize,
            const K: u32,
            const F: u32,
            const STORES: u8,
            const SOLVES: bool,
        >(
            job: &HornerJob<'_>,
            at: usize,
            live: $live,
        ) {
            let mut state = [[[$zero(); C]; D]; STATES];
            if !job.start[0].is_null() {
                for_each_state!(p {
                    for t in 0..D {
                        // SAFETY: the states before are all there, valid for the live bytes.
                        state[p][t] = unsafe { $again(job.start[p * D + t], at, live) };
                    }
                });
            }
            let mut columns = job.columns;
            while U > 1 && columns.len() >= U {
                for_each_column!(u < U {
                    carry_column!(state, job.factors, columns[u], $zero, |plane| $load(plane, at, live), $xor, |$a, $b, $d| $xor3, |$x, $c| $product);
                });
                columns = &columns[U..];
            }
            for column in columns {
                carry_column!(state, job.factors, column, $zero, |plane| $load(plane, at, live), $xor, |$a, $b, $d| $xor3, |$x, $c| $product);
            }
            for_each_state!(p {
                for t in 0..D {
                    if !job.adds[p * D + t].is_null() {
                        // SAFETY: what is added is valid for the live bytes.
                        let y: [_; C] = unsafe { $again(job.adds[p * D + t], at, live) };
                        for c in 0..C {
                            state[p][t][c] = $xor(state[p][t][c], y[c]);
                        }
                    }
                    if !SOLVES {
                        // SAFETY: there is a pointer for each plane of each state, valid for the live bytes.
                        unsafe { $store(job.states[p * D + t], at, live, state[p][t]) };
                    }
                }
            });
            if !SOLVES {
                return;
            }
            const { assert!(!SOLVES || K & 15 == ONE, "what others leave of the first state is the last") };
            let solution = &job.solution;
            let mut left = state[0];
            let mut matrices = solution.matrices.as_ptr();
            for (block, outputs) in solution.outputs.chunks_exact(D).enumerate() {
                for t in 0..D {
                    let mut sum = [$zero(); C];
                    if block == solution.left {
                        sum = left[t];
                    } else {
                        for_each_state!(p {
                            if solution.uses & 1 << p != 0 {
                                for s in 0..D {
                                    // SAFETY: there is one per plane of each state in use, for each plane of each block that has products.
                                    let $c = unsafe { *matrices };
                                    matrices = matrices.wrapping_add(1);
                                    for c in 0..C {
                                        let $x = state[p][s][c];
                                        sum[c] = $xor(sum[c], $product);
                                    }
                                }
                            }
                        });
                        for c in 0..C {
                            left[t][c] = $xor(left[t][c], sum[c]);
                        }
                    }
                    // SAFETY: there is a pointer for each output, valid for the live bytes.
                    unsafe { $store(outputs[t], at, live, sum) };
                }
            }
        }
    };
}

/// Carries the states of [`define_carry`] over a column.
macro_rules! carry_column {
    ($state:ident, $factors:expr, $column:expr, $zero:ident, |$plane:ident| $load:expr, $xor:ident, |$a:ident, $b:ident, $d:ident| $xor3:expr, |$x:ident, $c:ident| $product:expr) => {
        let mut column = [[$zero(); C]; D];
        if !$column[0].is_null() {
            for t in 0..D {
                let $plane = $column[t];
                // SAFETY: a column is there with all its planes, valid for the live bytes.
                column[t] = unsafe { $load };
            }
        }
        for_each_state!(p {
            let old = $state[p];
            for t in 0..D {
                let kind = K >> (4 * p) & 15;
                let is_product = kind != ONE && class_of(F, p, t) != UNIT;
                let $c = $factors[p][t];
                for c in 0..C {
                    let $x = old[plane_before(kind, t, D)][c];
                    let ($a, $d) = (if is_product { $product } else { $x }, column[t][c]);
                    $state[p][t][c] = if kind == QUADRATIC && t > 0 {
                        let $b = old[0][c];
                        $xor3
                    } else {
                        $xor($a, $d)
                    };
                }
            }
        });
    };
}

/// Defines `fft::<C, STORES, FINISH>` and `fft8::<C, STORES, FINISH>`, [`FftKernel`](crate::fft::FftKernel)s of four and of eight points: visits of C vectors of each
/// column, then single ones, then what is left. `live` is as in [`define_change`].
macro_rules! define_fft {
    ($feature:literal, $coefficient:ty, $again:path, $load_column:path, $store:path, $live:ty, $whole:expr, |$left:ident| $rest:expr, $zero:ident, $xor:ident, |$a:ident, $b:ident, $d:ident| $xor3:expr, |$x:ident, $m:ident| $product:expr) => {
        define_fft!(@visits fft, fft_visit, $feature, $coefficient, $live, $whole, |$left| $rest);
        define_fft!(@visits fft8, fft8_visit, $feature, $coefficient, $live, $whole, |$left| $rest);

        /// # Safety
        ///
        /// As [`fft`]; C vectors from `at`, or the live bytes of one, lie inside. Stores past the cache have whole ones.
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
                    // The sum of three takes two steps of the second butterfly and one of the next.
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
                        // SAFETY: there are four outputs; what is there is valid for the live bytes, and aligned if STORES go past the cache.
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
                    // SAFETY: there are eight outputs; what is there is valid for the live bytes, and aligned if STORES go past the cache.
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

/// Vector c of some columns.
macro_rules! columns_of {
    ($load_column:path, $columns:ident, $c:ident, $live:ident; $($i:literal)*) => {
        [$($load_column($columns[$i], $c, $live)),*]
    };
}

/// From two values to two coefficients: (lo, hi) become (lo + f (lo + hi), lo + hi).
macro_rules! butterfly {
    ($lo:ident, $hi:ident, $factor:expr, $xor:ident, |$x:ident, $m:ident| $product:expr) => {
        let $hi = $xor($lo, $hi);
        let $lo = {
            let ($x, $m) = ($hi, $factor);
            $xor($lo, $product)
        };
    };
}

/// And back.
macro_rules! fly_back {
    ($lo:ident, $hi:ident, $factor:expr, $xor:ident, |$x:ident, $m:ident| $product:expr) => {
        let $lo = {
            let ($x, $m) = ($hi, $factor);
            $xor($lo, $product)
        };
        let $hi = $xor($lo, $hi);
    };
}

/// From four values to four coefficients, by the factors of both pairs and of the two pairs of pairs.
macro_rules! four_butterflies {
    ($v0:ident, $v1:ident, $v2:ident, $v3:ident, [$f0:expr, $f1:expr, $f2:expr], $xor:ident, |$x:ident, $m:ident| $product:expr) => {
        butterfly!($v0, $v1, $f0, $xor, |$x, $m| $product);
        butterfly!($v2, $v3, $f1, $xor, |$x, $m| $product);
        butterfly!($v0, $v2, $f2, $xor, |$x, $m| $product);
        butterfly!($v1, $v3, $f2, $xor, |$x, $m| $product);
    };
}

/// Adds the coefficients of half of a group: as they are to the second half of the states, and times a factor to the first.
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
