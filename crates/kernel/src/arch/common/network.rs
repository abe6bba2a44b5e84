//! The loops of networks of transforms ([`crate::network`]), written once for vectors of any
//! instruction set.

/// The destinations of kernels of networks: [`To`](crate::network::To).
pub(crate) const TO_SLOTS: u8 = 0;
pub(crate) const TO_BUFFERS: u8 = 1;
pub(crate) const TO_PAST: u8 = 2;

/// True if the factor with this index is the first of its level, in a transform of `points` points.
pub(crate) const fn is_first(points: usize, factor: usize) -> bool {
    factor < points && (points - factor).is_power_of_two()
}

/// Defines `inverse::<P, BUFFERS, ADDS, ZEROS>`, `forward::<P, TO, ZEROS>` and `scale::<SLOTS,
/// TO>`, [`NetworkKernel`](crate::network::NetworkKernel)s of P lanes, and a
/// [`NetworkEngine`](crate::network::NetworkEngine) that has them for several numbers of levels.
/// They process one vector at a time, independent of the others. `live` is as in [`define_change`].
macro_rules! define_network {
    ($engine:ident, $levels:literal $(, $most:literal)?, $load:ident, $store:ident, $past:ident; $feature:literal, $coefficient:ty, $live:ty, $whole:expr, |$left:ident| $rest:expr, $zero:ident, $xor:ident, |$a:ident, $b:ident, $d:ident| $xor3:expr, |$x:ident, $m:ident| $product:expr) => {
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
                            // Operations with zeros are skipped in the cases that occur in
                            // decoding.
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
                crate::arch::native::cpu::fence();
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
                // SAFETY: this number of bytes is left.
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
                    crate::arch::native::cpu::fetch(columns[i].wrapping_add(at + job.ahead));
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
                    // SAFETY: the slots that are added to were written before, and are valid for
                    // the live bytes.
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
                // SAFETY: this number of bytes is left.
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
                    // SAFETY: present outputs are valid for the live bytes, and aligned if a whole
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
                    // SAFETY: the places read and written are valid for the live bytes, and aligned
                    // if a whole vector goes past the cache.
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

/// Runs `$done` on each whole vector of `$len` bytes, and on the rest: `$at` is the position,
/// `$live` the mask, and STORES the form of kernels that store through the cache.
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

/// Works like [`for_each_output`], for the lanes of a network.
macro_rules! for_each_lane {
    ($o:ident < $m:ident $body:block) => {
        for_each_output!(@ $o $m $body 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
}

/// Runs the butterflies of 2, 4, 8 or 16 lanes, level by level, upwards or downwards. The lanes and
/// the index of the factor of each butterfly are written out.
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
