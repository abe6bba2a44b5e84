//! Additive FFTs, and networks of them, of NEON.

use super::*;
use crate::arch::common::fft::{ROWS, ROWS_AND_LEFT, STATES_ALONE, VALUES};
use crate::arch::common::network::{TO_BUFFERS, TO_PAST, TO_SLOTS, is_first};
use crate::fft::{FftEngine, FftJob, FftKernel, Finish, POINTS, POINTS_MOST, VISIT_BYTES_MOST};
use crate::network::{LANES_MOST, NetworkEngine, NetworkJob, NetworkKernel, To};

/// Columns of a visit of an additive FFT of four points, and of eight.
const FFT_COLUMNS: [usize; 2] = [4, 2];

impl FftEngine for Neon {
    fn fft_kernel(self, _streaming: bool, points: usize, finish: Finish) -> Option<FftKernel<Tables>> {
        pick_fft!(points, finish, CACHED by FFT_COLUMNS)
    }
}

define_fft!(
    "neon",
    Tables,
    load::<C, STORES>,
    load_column::<C, STORES>,
    store::<C, STORES>,
    usize,
    VECTOR,
    |left| left,
    zero,
    veorq_u8,
    |a, b, d| veorq_u8(a, veorq_u8(b, d)),
    |x, tables| product(tables, nibbles(x))
);

define_network!(
    Neon, 3;
    "neon",
    Tables,
    load,
    store,
    TO_BUFFERS,
    usize,
    VECTOR,
    |left| left,
    zero,
    veorq_u8,
    |x, tables| product(tables, nibbles(x))
);
