//! The loop of changes ([`crate::change`]), written once for vectors of any instruction set.

/// Defines `change::<M, ONES>`, the kernel of
/// [`Engine::change_kernel`](crate::engine::Engine::change_kernel): visits of several columns, then
/// of single ones, then of the last bytes. `live` is the engine's mask of the bytes to process.
macro_rules! define_change {
    ($columns:literal, $load:path, $store:path; $feature:literal, $coefficient:ty, $live:ty, $whole:expr, |$left:ident| $rest:expr, $zero:ident, $xor:ident, |$a:ident, $b:ident, $d:ident| $xor3:expr, |$x:ident, $c:ident| $product:expr) => {
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

        /// Processes C columns from `at`, or the live bytes of one.
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
            // SAFETY: the caller's promise: two sources, M outputs and M coefficients, less one if
            // ONES.
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
