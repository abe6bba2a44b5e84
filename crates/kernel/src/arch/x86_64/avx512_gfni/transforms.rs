//! Additive FFTs, and networks of them, with AVX-512 and GFNI.

use super::*;
use crate::arch::common::fft::{ROWS, ROWS_AND_LEFT, STATES_ALONE, VALUES};
use crate::arch::common::network::{TO_BUFFERS, TO_PAST, TO_SLOTS, is_first};
use crate::fft::{FftEngine, FftJob, FftKernel, Finish, POINTS, POINTS_MOST, VISIT_BYTES_MOST};
use crate::network::{LANES_MOST, NetworkEngine, NetworkJob, NetworkKernel, To};

/// The columns of a visit of an additive FFT, for four points and for eight.
const FFT_COLUMNS: [usize; 2] = [4, 2];

impl FftEngine for Avx512Gfni {
    fn fft_kernel(self, streaming: bool, points: usize, finish: Finish) -> Option<FftKernel<u64>> {
        match forms::stores(streaming) {
            PAST_NEXT => pick_fft!(points, finish, PAST_NEXT by FFT_COLUMNS),
            PAST_AHEAD => pick_fft!(points, finish, PAST_AHEAD by FFT_COLUMNS),
            PAST => pick_fft!(points, finish, PAST by FFT_COLUMNS),
            _ => pick_fft!(points, finish, CACHED by FFT_COLUMNS),
        }
    }

    /// Uses the kernel for far columns on Ice Lake, like other kernels: staggered chunks of 64 KiB
    /// of 12 and 16 columns gain 10 % and more.
    fn far_fft_kernel(self, streaming: bool, points: usize, finish: Finish) -> Option<FftKernel<u64>> {
        match (Kind::of_this_processor(), streaming) {
            (Kind::IceLake, true) => pick_fft!(points, finish, PAST_LATER by FFT_COLUMNS),
            (Kind::IceLake, false) => pick_fft!(points, finish, CACHED_LATER by FFT_COLUMNS),
            _ => None,
        }
    }
}

with_arithmetic!(define_fft!(load::<C, CACHED>, load_column::<C, STORES>, store::<C, STORES>));

with_arithmetic!(define_network!(Avx512Gfni, 4, 16, load, store, TO_PAST));
