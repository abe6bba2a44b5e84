//! Loops that are written once for vectors of 32 and of 64 bytes: of [`crate::weave`] over slices, and of [`crate::update`].

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
