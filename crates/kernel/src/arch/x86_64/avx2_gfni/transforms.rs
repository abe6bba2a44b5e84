//! Additive FFTs, and networks of them, with AVX2 and GFNI.

use super::*;
use crate::arch::common::fft::{ROWS, ROWS_AND_LEFT, STATES_ALONE, VALUES};
use crate::arch::common::network::{TO_BUFFERS, TO_PAST, TO_SLOTS, is_first};
use crate::arch::x86_64::partial::{load, store};
use crate::fft::{FftEngine, FftJob, FftKernel, Finish, POINTS, POINTS_MOST, VISIT_BYTES_MOST};
use crate::network::{LANES_MOST, NetworkEngine, NetworkJob, NetworkKernel, To};

/// The columns of a visit of an additive FFT, for four points and for eight.
const FFT_COLUMNS: [usize; 2] = [2, 2];

impl FftEngine for Avx2Gfni {
    fn fft_kernel(self, streaming: bool, points: usize, finish: Finish) -> Option<FftKernel<u64>> {
        match forms::stores(streaming) {
            PAST | PAST_NEXT => pick_fft!(points, finish, PAST_NEXT by FFT_COLUMNS),
            PAST_AHEAD => pick_fft!(points, finish, PAST_AHEAD by FFT_COLUMNS),
            _ => pick_fft!(points, finish, CACHED by FFT_COLUMNS),
        }
    }
}

with_arithmetic!(define_fft!(
    partial::load::<C, CACHED>,
    partial::load_column::<C, STORES>,
    partial::store::<C, STORES>
));

with_arithmetic!(define_network!(Avx2Gfni, 3, load, store, TO_BUFFERS));
