//! Additive FFTs, and networks of them, with NEON.

use super::*;
use crate::arch::common::fft::{ROWS, ROWS_AND_LEFT, STATES_ALONE, VALUES};
use crate::arch::common::network::{TO_BUFFERS, TO_PAST, TO_SLOTS, is_first};
use crate::fft::{FftEngine, FftJob, FftKernel, Finish, POINTS, POINTS_MOST, VISIT_BYTES_MOST};
use crate::network::{LANES_MOST, NetworkEngine, NetworkJob, NetworkKernel, To};

/// The columns of a visit of an additive FFT, for four points and for eight.
const FFT_COLUMNS: [usize; 2] = [4, 2];

impl FftEngine for Neon {
    fn fft_kernel(self, _streaming: bool, points: usize, finish: Finish) -> Option<FftKernel<Tables>> {
        pick_fft!(points, finish, CACHED by FFT_COLUMNS)
    }
}

with_arithmetic!(define_fft!(load::<C, STORES>, load_column::<C, STORES>, store::<C, STORES>));

with_arithmetic!(define_network!(Neon, 3, load, store, TO_BUFFERS));
