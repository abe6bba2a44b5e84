//! The loops of [`crate::weave`] over slices, written once for vectors of 32 and of 64 bytes.

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
