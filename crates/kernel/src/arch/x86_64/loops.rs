//! Loops that are written once for vectors of 32 and of 64 bytes: of [`crate::change`], of
//! [`crate::horner`] and of [`crate::fft`].

/// Defines `change::<M, ONES>`, the kernel of
/// [`Engine::change_kernel`](crate::engine::Engine::change_kernel): visits of so many columns, then
/// single ones, then what is left. `live` is how an engine says which bytes count.
macro_rules! define_change {
    ($feature:literal, $coefficient:ty, $columns:literal, $load:path, $store:path, $live:ty, $whole:expr, |$left:ident| $rest:expr, $xor:ident, |$x:ident, $c:ident| $product:expr) => {
        /// # Safety
        ///
        /// As [`Kernel`], for M outputs and two sources, of which the first is valid for writes; no
        /// two buffers of the job overlap.
        #[target_feature(enable = $feature)]
        unsafe fn change<const M: usize, const ONES: bool>(job: &Job<'_, $coefficient>) {
            assert_eq!((job.sources.len(), job.coefficients.len()), (2, M - usize::from(ONES)));
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
            // SAFETY: the caller's promise: two sources, M outputs and as many coefficients, less
            // one if ONES.
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

/// Defines `carry::<D, C, U, K, F, STORES, SOLVES>`, a
/// [`HornerKernel`](crate::horner::HornerKernel) for products by matrices: visits of C vectors of
/// each plane, then single ones, then what is left. `live` is as in [`define_change`].
macro_rules! define_carry {
    ($feature:literal, $again:path, $load:path, $store:path, $live:ty, $whole:expr, |$left:ident| $rest:expr, $zero:ident, $xor:ident, |$a:ident, $b:ident, $d:ident| $xor3:expr, |$x:ident, $c:ident| $product:expr) => {
        /// # Safety
        ///
        /// As [`HornerKernel`], for D planes, states of the kinds K and factors of the classes F; U
        /// columns are written out. The states are stored, or the solution made of them.
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
                super::cpu::fence();
            }
        }

        /// # Safety
        ///
        /// As [`carry`]; C vectors from `at`, or the live bytes of one, lie inside. Stores past the
        /// cache have whole ones.
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
                        // SAFETY: there is a pointer for each plane of each state, valid for the
                        // live bytes.
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
                                    // SAFETY: there is one per plane of each state in use, for each
                                    // plane of each block that has products.
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

/// Defines `fft::<C, STORES, FINISH>` and `fft8::<C, STORES, FINISH>`,
/// [`FftKernel`](crate::fft::FftKernel)s of four and of eight points: visits of C vectors of each
/// column, then single ones, then what is left. `live` is as in [`define_change`].
macro_rules! define_fft {
    ($feature:literal, $coefficient:ty, $again:path, $load_column:path, $store:path, $live:ty, $whole:expr, |$left:ident| $rest:expr, $zero:ident, $xor:ident, |$a:ident, $b:ident, $d:ident| $xor3:expr, |$x:ident, $m:ident| $product:expr) => {
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
                        // SAFETY: there are four outputs; what is there is valid for the live
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
                    // SAFETY: there are eight outputs; what is there is valid for the live bytes,
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

/// Defines `inverse::<P, BUFFERS, ADDS, ZEROS>`, `forward::<P, TO, ZEROS>` and `scale::<SLOTS,
/// TO>`, [`NetworkKernel`](crate::network::NetworkKernel)s of P lanes, and a
/// [`NetworkEngine`](crate::network::NetworkEngine) that has them for up to so many levels: vector
/// by vector, which have nothing to do with one another. `live` is as in [`define_change`].
macro_rules! define_network {
    ($engine:ident, $levels:literal $(, $most:literal)?; $feature:literal, $coefficient:ty, $load:ident, $store:ident, $past:expr, $live:ty, $whole:expr, |$left:ident| $rest:expr, $zero:ident, $xor:ident, |$x:ident, $m:ident| $product:expr) => {
        impl NetworkEngine for $engine {
            type Factor = $coefficient;

            const LEVELS: u32 = $levels;

            fn factor(f: u8) -> $coefficient {
                <$engine as Engine>::coefficient(f)
            }

            fn inverse(self, levels: u32, buffers: bool, adds: bool, zeros: bool) -> NetworkKernel<$coefficient> {
                macro_rules! of {
                    ($lanes:literal) => {
                        match (buffers, adds, zeros) {
                            (false, false, false) => inverse::<$lanes, false, false, false>,
                            (false, false, true) => inverse::<$lanes, false, false, true>,
                            // Zeros are left out where decoding has them.
                            (false, true, _) => inverse::<$lanes, false, true, false>,
                            (true, false, _) => inverse::<$lanes, true, false, false>,
                            (true, true, _) => inverse::<$lanes, true, true, false>,
                        }
                    };
                }
                match levels {
                    1 => of!(2),
                    2 => of!(4),
                    $(4 => of!($most),)?
                    _ => of!(8),
                }
            }

            fn forward(self, levels: u32, to: To, zeros: bool) -> NetworkKernel<$coefficient> {
                macro_rules! of {
                    ($lanes:literal) => {
                        match (to, zeros) {
                            (To::Slots, false) => forward::<$lanes, TO_SLOTS, false>,
                            (To::Slots, true) => forward::<$lanes, TO_SLOTS, true>,
                            (To::Buffers, false) => forward::<$lanes, TO_BUFFERS, false>,
                            (To::Buffers, true) => forward::<$lanes, TO_BUFFERS, true>,
                            (To::Past, false) => forward::<$lanes, $past, false>,
                            (To::Past, true) => forward::<$lanes, $past, true>,
                        }
                    };
                }
                match levels {
                    1 => of!(2),
                    2 => of!(4),
                    $(4 => of!($most),)?
                    _ => of!(8),
                }
            }

            fn scale(self, slots: bool, to: To) -> NetworkKernel<$coefficient> {
                match (slots, to) {
                    (false, To::Slots) => scale::<false, TO_SLOTS>,
                    (false, To::Buffers) => scale::<false, TO_BUFFERS>,
                    (false, To::Past) => scale::<false, $past>,
                    (true, To::Slots) => scale::<true, TO_SLOTS>,
                    (true, To::Buffers) => scale::<true, TO_BUFFERS>,
                    (true, To::Past) => scale::<true, $past>,
                }
            }

            fn fence(self) {
                super::cpu::fence();
            }
        }

        /// # Safety
        ///
        /// As [`NetworkKernel`].
        #[target_feature(enable = $feature)]
        unsafe fn inverse<const P: usize, const BUFFERS: bool, const ADDS: bool, const ZEROS: bool>(
            job: &NetworkJob<'_, $coefficient>,
        ) {
            let columns: [*const u8; P] =
                std::array::from_fn(|i| if BUFFERS { job.column(i) } else { job.slot(i) });
            let targets: [*mut u8; P] = std::array::from_fn(|i| job.target(i));
            each_vector!(job.len, $whole, |$left| $rest, |at, live| {
                // SAFETY: so many bytes are left.
                unsafe { inverse_visit::<P, BUFFERS, ADDS, ZEROS, STORES>(job, &columns, &targets, at, live) };
            });
        }

        /// # Safety
        ///
        /// As [`NetworkKernel`]; a vector from `at`, or the live bytes of one, lie inside.
        #[inline]
        #[target_feature(enable = $feature)]
        unsafe fn inverse_visit<const P: usize, const BUFFERS: bool, const ADDS: bool, const ZEROS: bool, const STORES: u8>(
            job: &NetworkJob<'_, $coefficient>,
            columns: &[*const u8; P],
            targets: &[*mut u8; P],
            at: usize,
            live: $live,
        ) {
            let factors = &job.factors[..P - 1];
            let mut v = [$zero(); LANES_MOST];
            for_each_lane!(i < P {
                if BUFFERS {
                    _mm_prefetch::<_MM_HINT_T0>(columns[i].wrapping_add(at + job.ahead).cast());
                }
                // SAFETY: a column is valid for the live bytes.
                [v[i]] = unsafe { $load::<1, STORES>(columns[i], at, live) };
            });
            let v = &mut v;
            each_level!(P, up, |lo, hi, f| {
                v[hi] = $xor(v[lo], v[hi]);
                if !(ZEROS && is_first(P, f)) {
                    let ($x, $m) = (v[hi], &factors[f]);
                    v[lo] = $xor(v[lo], $product);
                }
            });
            for_each_lane!(i < P {
                let to = targets[i];
                if ADDS {
                    // SAFETY: what is added to was written before, and is valid for the live bytes.
                    let [before] = unsafe { $load::<1, STORES>(to, at, live) };
                    v[i] = $xor(v[i], before);
                }
                // SAFETY: a slot is valid for the live bytes.
                unsafe { $store::<1, STORES>(to, at, live, [v[i]]) };
            });
        }

        /// # Safety
        ///
        /// As [`NetworkKernel`].
        #[target_feature(enable = $feature)]
        unsafe fn forward<const P: usize, const TO: u8, const ZEROS: bool>(job: &NetworkJob<'_, $coefficient>) {
            let columns: [*const u8; P] = std::array::from_fn(|i| job.slot(i));
            let targets: [*mut u8; P] =
                std::array::from_fn(|i| if TO == TO_SLOTS { job.target(i) } else { job.output(i) });
            each_vector!(job.len, $whole, |$left| $rest, |at, live| {
                // SAFETY: so many bytes are left.
                unsafe { forward_visit::<P, TO, ZEROS, STORES>(job, &columns, &targets, at, live) };
            });
        }

        /// # Safety
        ///
        /// As [`NetworkKernel`]; a vector from `at`, or the live bytes of one, lie inside.
        #[inline]
        #[target_feature(enable = $feature)]
        unsafe fn forward_visit<const P: usize, const TO: u8, const ZEROS: bool, const STORES: u8>(
            job: &NetworkJob<'_, $coefficient>,
            columns: &[*const u8; P],
            targets: &[*mut u8; P],
            at: usize,
            live: $live,
        ) {
            let factors = &job.factors[..P - 1];
            let mut v = [$zero(); LANES_MOST];
            for_each_lane!(i < P {
                // SAFETY: a slot is valid for the live bytes.
                [v[i]] = unsafe { $load::<1, STORES>(columns[i], at, live) };
            });
            let v = &mut v;
            each_level!(P, back, |lo, hi, f| {
                if !(ZEROS && is_first(P, f)) {
                    let ($x, $m) = (v[hi], &factors[f]);
                    v[lo] = $xor(v[lo], $product);
                }
                v[hi] = $xor(v[lo], v[hi]);
            });
            for_each_lane!(i < P {
                let to = targets[i];
                if TO == TO_SLOTS || !to.is_null() {
                    // SAFETY: what is there is valid for the live bytes, and aligned if a whole
                    // vector goes past the cache.
                    unsafe {
                        if TO == TO_PAST && STORES != SHORT {
                            $store::<1, PAST>(to, at, live, [v[i]]);
                        } else {
                            $store::<1, STORES>(to, at, live, [v[i]]);
                        }
                    }
                }
            });
        }

        /// # Safety
        ///
        /// As [`NetworkKernel`].
        #[target_feature(enable = $feature)]
        unsafe fn scale<const SLOTS: bool, const TO: u8>(job: &NetworkJob<'_, $coefficient>) {
            for (lane, $m) in job.factors.iter().enumerate() {
                let to = if TO == TO_SLOTS { job.target(lane) } else { job.output(lane) };
                if to.is_null() {
                    continue;
                }
                let (from, plus) = (job.slot(lane), job.column(lane));
                each_vector!(job.len, $whole, |$left| $rest, |at, live| {
                    // SAFETY: what is read and written is valid for the live bytes, and aligned if
                    // a whole vector goes past the cache.
                    unsafe {
                        let [plus] = $load::<1, STORES>(plus, at, live);
                        let $x = if SLOTS { $xor($load::<1, STORES>(from, at, live)[0], plus) } else { plus };
                        if TO == TO_PAST && STORES != SHORT {
                            $store::<1, PAST>(to, at, live, [$product]);
                        } else {
                            $store::<1, STORES>(to, at, live, [$product]);
                        }
                    }
                });
            }
        }
    };
}

/// Does something to each whole vector of so many bytes, and to what is left: at a place, of which
/// so much is live, STORES being as kernels that store through the cache have it.
macro_rules! each_vector {
    ($len:expr, $whole:expr, |$left:ident| $rest:expr, |$at:ident, $live:ident| $done:expr) => {
        let mut $at = 0;
        while $len - $at >= VECTOR {
            const STORES: u8 = CACHED;
            let $live = $whole;
            $done;
            $at += VECTOR;
        }
        if $at < $len {
            const STORES: u8 = SHORT;
            let $left = $len - $at;
            let $live = $rest;
            $done;
        }
    };
}

/// As [`for_each_output`], for the lanes of a network.
macro_rules! for_each_lane {
    ($o:ident < $m:ident $body:block) => {
        for_each_output!(@ $o $m $body 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
}

/// The butterflies of 2, 4, 8 or 16 lanes, level by level, from level 0 on or back: the lanes of
/// each and which factor, written out.
macro_rules! each_level {
    ($points:ident, $way:tt, |$lo:ident, $hi:ident, $f:ident| $body:expr) => {
        if $points == 2 {
            each_level!(@ $way $lo $hi $f $body; [0 1 0]);
        }
        if $points == 4 {
            each_level!(@ $way $lo $hi $f $body; [0 1 0 2 3 1] [0 2 2 1 3 2]);
        }
        if $points == 8 {
            each_level!(@ $way $lo $hi $f $body; [0 1 0 2 3 1 4 5 2 6 7 3] [0 2 4 1 3 4 4 6 5 5 7 5] [0 4 6 1 5 6 2 6 6 3 7 6]);
        }
        if $points == 16 {
            each_level!(@ $way $lo $hi $f $body;
                [0 1 0 2 3 1 4 5 2 6 7 3 8 9 4 10 11 5 12 13 6 14 15 7]
                [0 2 8 1 3 8 4 6 9 5 7 9 8 10 10 9 11 10 12 14 11 13 15 11]
                [0 4 12 1 5 12 2 6 12 3 7 12 8 12 13 9 13 13 10 14 13 11 15 13]
                [0 8 14 1 9 14 2 10 14 3 11 14 4 12 14 5 13 14 6 14 14 7 15 14]);
        }
    };
    (@ up $lo:ident $hi:ident $f:ident $body:expr; $($level:tt)*) => {
        $(each_level!(@@ $lo $hi $f $body; $level);)*
    };
    (@ back $lo:ident $hi:ident $f:ident $body:expr; $first:tt $($level:tt)*) => {
        each_level!(@ back $lo $hi $f $body; $($level)*);
        each_level!(@@ $lo $hi $f $body; $first);
    };
    (@ back $lo:ident $hi:ident $f:ident $body:expr;) => {};
    (@@ $lo:ident $hi:ident $f:ident $body:expr; [$($l:literal $h:literal $factor:literal)*]) => {
        $({
            let ($lo, $hi, $f): (usize, usize, usize) = const { ($l, $h, $factor) };
            $body;
        })*
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

/// From four values to four coefficients, by the factors of both pairs and of the two pairs of
/// pairs.
macro_rules! four_butterflies {
    ($v0:ident, $v1:ident, $v2:ident, $v3:ident, [$f0:expr, $f1:expr, $f2:expr], $xor:ident, |$x:ident, $m:ident| $product:expr) => {
        butterfly!($v0, $v1, $f0, $xor, |$x, $m| $product);
        butterfly!($v2, $v3, $f1, $xor, |$x, $m| $product);
        butterfly!($v0, $v2, $f2, $xor, |$x, $m| $product);
        butterfly!($v1, $v3, $f2, $xor, |$x, $m| $product);
    };
}

/// Adds the coefficients of half of a group: as they are to the second half of the states, and
/// times a factor to the first.
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
