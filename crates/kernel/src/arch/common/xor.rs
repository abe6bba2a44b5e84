//! Loops of XORs without products, written once for the vectors of every instruction set: for
//! [`crate::xor_rows`], and for changes in packets ([`crate::update`]).

/// Defines `rows::<C, STREAMING>`, a [`RowLoop`](crate::xor_rows::RowLoop), and `spread::<C>`, a
/// [`SpreadLoop`](crate::packets::SpreadLoop), both of slices of C vectors.
macro_rules! define_xor_loops {
    ($feature:literal, $bytes:expr, $zero:ident, $load:ident, $store:ident, $stream:ident, $xor:ident, $xor3:expr) => {
        /// Computes all rows for `visits` slices of C vectors.
        ///
        /// # Safety
        ///
        /// As [`RowLoop`](crate::xor_rows::RowLoop).
        #[target_feature(enable = $feature)]
        pub(crate) unsafe fn rows<const C: usize, const STREAMING: bool>(
            program: &XorRows,
            table: &mut [*mut u8],
            visits: usize,
        ) {
            const SLICE: usize = $bytes;
            let buffers = program.buffers().len();
            for visit in 0..visits {
                // SAFETY: the caller's promise; slots are moved back below.
                unsafe { slice_of_rows::<C, STREAMING>(program, table, visit * C * SLICE) };
                table[buffers..].iter_mut().for_each(|slot| *slot = slot.wrapping_sub(C * SLICE));
            }
            let done = visits * C * SLICE;
            table[..buffers].iter_mut().for_each(|place| *place = place.wrapping_add(done));
            table[buffers..].iter_mut().for_each(|slot| *slot = slot.wrapping_add(done));
        }

        /// Computes all rows, for the C vectors from offset `at` of every buffer and from offset 0
        /// of every slot.
        ///
        /// # Safety
        ///
        /// The places of the table are valid for the live bytes; goals that are not read again are
        /// aligned if STREAMING.
        #[inline]
        #[target_feature(enable = $feature)]
        unsafe fn slice_of_rows<const C: usize, const STREAMING: bool>(
            program: &XorRows,
            table: &[*mut u8],
            at: usize,
        ) {
            let mut words = program.words().as_ptr();
            let mut sums = [$zero(); C];
            for row in program.rows() {
                if !row.carries {
                    sums = [$zero(); C];
                }
                // SAFETY: the words hold the counted sources of the rows, which name places of the
                // table. Places of slots are moved back as `at` advances, so that `at` may be added
                // to every place.
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
        /// As [`SpreadLoop`](crate::packets::SpreadLoop), for slices of C vectors.
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
