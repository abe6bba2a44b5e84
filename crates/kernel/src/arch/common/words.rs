//! Loops over words ([`crate::word_loops`]), written once for vectors of any instruction set.

/// Defines `split_words::<B>` and `join_words::<B>`, each a
/// [`WordLoop`](crate::word_loops::WordLoop) for words of B bytes.
///
/// `halves` returns the bytes of even and of odd places of two vectors, `zipped` its inverse.
macro_rules! define_word_loops {
    ($vector:ty, $load:ident, $store:ident, $halves:ident, $zipped:ident; $feature:literal, $coefficient:ty, $live:ty, $whole:expr, |$left:ident| $rest:expr, $zero:ident, $xor:ident, |$a:ident, $b:ident, $d:ident| $xor3:expr, |$x:ident, $c:ident| $product:expr) => {
        /// # Safety
        ///
        /// As [`WordLoop`](crate::word_loops::WordLoop).
        #[target_feature(enable = $feature)]
        unsafe fn split_words<const B: usize>(job: &WordJob<'_, $coefficient>) {
            for at in (0..job.len).step_by(VECTOR) {
                let mut x = [$zero(); B];
                for v in 0..B {
                    // SAFETY: B vectors for each of a row.
                    x[v] = unsafe { $load(job.words.add(B * at + v * VECTOR).cast()) };
                }
                // Once the bytes of even places come first, twice those of a word one by one.
                for _ in 0..B.ilog2() {
                    let y = x;
                    for v in 0..B / 2 {
                        (x[v], x[B / 2 + v]) = $halves(y[2 * v], y[2 * v + 1]);
                    }
                }
                let x = mapped_words(job.maps, x);
                for r in 0..B {
                    // SAFETY: the row has a vector here.
                    unsafe { $store(job.rows.add(r * job.pitch + at).cast(), x[r]) };
                }
            }
        }

        /// # Safety
        ///
        /// As [`WordLoop`](crate::word_loops::WordLoop).
        #[target_feature(enable = $feature)]
        unsafe fn join_words<const B: usize>(job: &WordJob<'_, $coefficient>) {
            for at in (0..job.len).step_by(VECTOR) {
                let mut x = [$zero(); B];
                for r in 0..B {
                    // SAFETY: the row has a vector here.
                    x[r] = unsafe { $load(job.rows.add(r * job.pitch + at).cast()) };
                }
                let mut x = mapped_words(job.maps, x);
                for _ in 0..B.ilog2() {
                    let y = x;
                    for v in 0..B / 2 {
                        (x[2 * v], x[2 * v + 1]) = $zipped(y[v], y[B / 2 + v]);
                    }
                }
                for v in 0..B {
                    // SAFETY: B vectors for each of a row.
                    unsafe { $store(job.words.add(B * at + v * VECTOR).cast(), x[v]) };
                }
            }
        }

        /// The images of words in vectors of their bytes.
        #[inline]
        #[target_feature(enable = $feature)]
        fn mapped_words<const B: usize>(maps: &Maps<$coefficient>, words: [$vector; B]) -> [$vector; B] {
            let mut images = [$zero(); B];
            for r in 0..B {
                for s in 0..B {
                    let ($x, $c) = (words[s], &maps[r][s]);
                    images[r] = $xor(images[r], $product);
                }
            }
            images
        }

        /// The loops over words of so many bytes.
        pub(super) fn loops_of_words(
            bytes: usize,
            map: fn([u8; 8]) -> $coefficient,
        ) -> Option<WordLoops<$coefficient>> {
            let [split, join]: [WordLoop<$coefficient>; 2] = match bytes {
                2 => [split_words::<2>, join_words::<2>],
                4 => [split_words::<4>, join_words::<4>],
                _ => return None,
            };
            Some(WordLoops { map, split, join, step: VECTOR })
        }
    };
}
