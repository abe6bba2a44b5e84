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

/// Defines `fft::<C, STORES, FINISH>`, a [`FftKernel`](crate::fft::FftKernel): visits of C vectors of each column, then single ones, then what is left. `live` is as in
/// [`define_change`].
macro_rules! define_fft {
    ($feature:literal, $coefficient:ty, $again:path, $load_column:path, $store:path, $live:ty, $whole:expr, |$left:ident| $rest:expr, $zero:ident, $xor:ident, |$a:ident, $b:ident, $d:ident| $xor3:expr, |$x:ident, $m:ident| $product:expr) => {
        /// # Safety
        ///
        /// As [`FftKernel`](crate::fft::FftKernel).
        #[target_feature(enable = $feature)]
        unsafe fn fft<const C: usize, const STORES: u8, const FINISH: u8>(job: &FftJob<'_, $coefficient>) {
            const { assert!(!is_past(STORES) || (C * VECTOR).is_multiple_of(LINE), "whole lines go past the cache") };
            let mut at = 0;
            while job.len - at >= C * VECTOR {
                // SAFETY: that many bytes are left.
                unsafe { fft_visit::<C, STORES, FINISH>(job, at, $whole) };
                at += C * VECTOR;
            }
            while job.len - at >= VECTOR {
                // SAFETY: as above.
                unsafe { fft_visit::<1, STORES, FINISH>(job, at, $whole) };
                at += VECTOR;
            }
            if at < job.len {
                let $left = job.len - at;
                // SAFETY: as above, and fewer than a vector.
                unsafe { fft_visit::<1, SHORT, FINISH>(job, at, $rest) };
            }
        }

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
            for (columns, factors) in job.quads.iter().zip(job.quad_factors) {
                let columns = columns.map(|column| column.at(at));
                for_each_column!(c < C {
                    // SAFETY: a column is valid for the live bytes.
                    let [v0, v1, v2, v3] = unsafe { [$load_column(columns[0], c, live), $load_column(columns[1], c, live), $load_column(columns[2], c, live), $load_column(columns[3], c, live)] };
                    let (e1, o1) = ($xor(v0, v1), $xor(v2, v3));
                    let a3 = $xor(e1, o1);
                    let e0 = {
                        let ($x, $m) = (e1, &factors[0]);
                        $xor(v0, $product)
                    };
                    let a2 = {
                        let ($x, $m) = (o1, &factors[1]);
                        let ($a, $b, $d) = (e0, v2, $product);
                        $xor3
                    };
                    let $m = &factors[2];
                    states[0][c] = {
                        let $x = a2;
                        let ($a, $b, $d) = (states[0][c], e0, $product);
                        $xor3
                    };
                    states[1][c] = {
                        let $x = a3;
                        let ($a, $b, $d) = (states[1][c], e1, $product);
                        $xor3
                    };
                    states[2][c] = $xor(states[2][c], a2);
                    states[3][c] = $xor(states[3][c], a3);
                });
            }
            for (columns, factors) in job.pairs.iter().zip(job.pair_factors) {
                let columns = columns.map(|column| column.at(at));
                for_each_column!(c < C {
                    // SAFETY: as above.
                    let [v0, v1] = unsafe { [$load_column(columns[0], c, live), $load_column(columns[1], c, live)] };
                    let e1 = $xor(v0, v1);
                    let e0 = {
                        let ($x, $m) = (e1, &factors[0]);
                        $xor(v0, $product)
                    };
                    let $m = &factors[1];
                    states[0][c] = {
                        let $x = e0;
                        $xor(states[0][c], $product)
                    };
                    states[1][c] = {
                        let $x = e1;
                        $xor(states[1][c], $product)
                    };
                    states[2][c] = $xor(states[2][c], e0);
                    states[3][c] = $xor(states[3][c], e1);
                });
            }
            let $m = job.factor;
            if let Some(columns) = job.at_origin {
                let columns = columns.map(|column| column.at(at));
                for_each_column!(c < C {
                    // SAFETY: as above.
                    let [v0, v1, v2, v3] = unsafe { [$load_column(columns[0], c, live), $load_column(columns[1], c, live), $load_column(columns[2], c, live), $load_column(columns[3], c, live)] };
                    let (e1, o1) = ($xor(v0, v1), $xor(v2, v3));
                    let a2 = {
                        let $x = o1;
                        let ($a, $b, $d) = (v0, v2, $product);
                        $xor3
                    };
                    states[0][c] = $xor(states[0][c], v0);
                    states[1][c] = $xor(states[1][c], e1);
                    states[2][c] = $xor(states[2][c], a2);
                    let ($a, $b, $d) = (states[3][c], e1, o1);
                    states[3][c] = $xor3;
                });
            }
            if FINISH == VALUES {
                for_each_column!(c < C {
                    let [a0, a1, a2, a3] = [states[0][c], states[1][c], states[2][c], states[3][c]];
                    let $x = $xor(a1, a3);
                    let o1 = $x;
                    let ($a, $b, $d) = (a0, a2, $product);
                    let o0 = $xor3;
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
    };
}
