//! Loops of sums alone, written once for vectors of 32 and of 64 bytes: of [`crate::weave`] over slices, of [`crate::bundle`], and of changes in packets ([`crate::update`]).

/// Defines `rows::<C, STREAMING>`, the rows of a weave for one slice of C vectors; `bundles::<C, STREAMING>`, a [`BundleLoop`](crate::dispatch::BundleLoop), and `spread::<C>`, a
/// [`SpreadLoop`](crate::dispatch::SpreadLoop), of slices of C vectors.
macro_rules! define_xor_loops {
    ($feature:literal, $bytes:expr, $zero:ident, $load:ident, $store:ident, $stream:ident, $xor:ident, $xor3:expr) => {
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

        /// # Safety
        ///
        /// As [`BundleLoop`](crate::dispatch::BundleLoop), for slices of C vectors; targets that nothing reads again begin lines if STREAMING.
        #[target_feature(enable = $feature)]
        pub(crate) unsafe fn bundles<const C: usize, const STREAMING: bool>(
            bundles: &[Bundle],
            table: &[*mut u8],
            from: usize,
            walk: Walk,
        ) {
            for packet in 0..walk.packets {
                let mut at = packet * walk.pitch + from;
                let end = at + walk.bytes;
                while at < end {
                    let mut places = table.as_ptr();
                    for bundle in bundles {
                        // SAFETY: the caller's promise; places are those of this bundle.
                        places = unsafe {
                            match bundle.sums {
                                1 => bundle_of::<1, C, STREAMING>(bundle, places, at),
                                2 => bundle_of::<2, C, STREAMING>(bundle, places, at),
                                _ => bundle_of::<3, C, STREAMING>(bundle, places, at),
                            }
                        };
                    }
                    at += C * $bytes;
                }
            }
        }

        /// N sums, for the C vectors from `at`; and the places of what follows.
        ///
        /// # Safety
        ///
        /// As [`bundles`]: the places are those of the bundle.
        #[inline]
        #[target_feature(enable = $feature)]
        unsafe fn bundle_of<const N: usize, const C: usize, const STREAMING: bool>(
            bundle: &Bundle,
            mut places: *const *mut u8,
            at: usize,
        ) -> *const *mut u8 {
            let mut sums = [[$zero(); C]; N];
            let lists = (1 << N) - 1;
            for_each_list!(LIST < lists {
                let mut total = [$zero(); C];
                // SAFETY: there are so many places in the list.
                unsafe {
                    for _ in 0..bundle.lens[LIST] / 2 {
                        let (x, y) = ((*places).wrapping_add(at), (*places.add(1)).wrapping_add(at));
                        places = places.add(2);
                        for c in 0..C {
                            let (x, y) = ($load(x.add(c * $bytes).cast()), $load(y.add(c * $bytes).cast()));
                            total[c] = $xor3(total[c], x, y);
                        }
                    }
                    if bundle.lens[LIST] % 2 == 1 {
                        let x = (*places).wrapping_add(at);
                        places = places.add(1);
                        for c in 0..C {
                            total[c] = $xor(total[c], $load(x.add(c * $bytes).cast()));
                        }
                    }
                }
                for n in 0..N {
                    if (LIST + 1) >> n & 1 == 1 {
                        for c in 0..C {
                            sums[n][c] = $xor(sums[n][c], total[c]);
                        }
                    }
                }
            });
            for n in 0..N {
                // SAFETY: the targets follow the lists.
                unsafe {
                    let to = (*places.add(n)).wrapping_add(at);
                    for c in 0..C {
                        if STREAMING && bundle.last >> n & 1 == 1 {
                            $stream(to.add(c * $bytes).cast(), sums[n][c]);
                        } else {
                            $store(to.add(c * $bytes).cast(), sums[n][c]);
                        }
                    }
                }
            }
            // SAFETY: as above.
            unsafe { places.add(N) }
        }

        /// # Safety
        ///
        /// As [`SpreadLoop`](crate::dispatch::SpreadLoop), for slices of C vectors.
        #[target_feature(enable = $feature)]
        pub(crate) unsafe fn spread<const C: usize>(
            changed: *mut u8,
            targets: &[*mut u8],
            (new, new_pitch): (*const u8, usize),
            from: usize,
            walk: Walk,
        ) {
            for packet in 0..walk.packets {
                let new = new.wrapping_add(packet * new_pitch + from);
                let first = packet * walk.pitch + from;
                let mut done = 0;
                while done < walk.bytes {
                    let at = first + done;
                    // SAFETY: the caller's promise.
                    unsafe {
                        let old = changed.wrapping_add(at);
                        let mut change = [$load(old.cast()); C];
                        for c in 0..C {
                            let new = $load(new.add(done + c * $bytes).cast());
                            change[c] = $xor($load(old.add(c * $bytes).cast()), new);
                            $store(old.add(c * $bytes).cast(), new);
                        }
                        for target in targets {
                            let target = target.wrapping_add(at);
                            for c in 0..C {
                                let to = target.add(c * $bytes);
                                $store(to.cast(), $xor($load(to.cast()), change[c]));
                            }
                        }
                    }
                    done += C * $bytes;
                }
            }
        }
    };
}
