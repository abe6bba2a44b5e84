//! The loop of Horner's rule ([`crate::horner`]), written once for the vectors of every instruction
//! set in which a product by two costs as much as any other.

/// Defines `carry::<D, C, U, K, F, STORES, SOLVES>`, a
/// [`HornerKernel`](crate::horner::HornerKernel): visits of C vectors of each plane, then of single
/// vectors, then of the last bytes. `live` is as in `define_change`.
macro_rules! define_carry {
    ($again:path, $load:path, $store:path, |$x:ident, $c:ident| $product:expr; $feature:literal, $coefficient:ty, $live:ty, $whole:expr, |$left:ident| $rest:expr, $zero:ident, $xor:ident, |$a:ident, $b:ident, $d:ident| $xor3:expr, |$_x:ident, $_m:ident| $_product:expr) => {
        /// # Safety
        ///
        /// As [`HornerKernel`], for D planes, states of the kinds K and factors of the classes F.
        /// Loops over U columns are unrolled. Either the states are stored, or the solution that is
        /// computed from them.
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
                        // SAFETY: the added column is valid for the live bytes.
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

/// Advances the states of [`define_carry`] by one column.
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
