//! What the loops of all architectures are told by constants.

/// What an additive FFT finishes: [`Finish`](crate::fft::Finish).
pub(crate) const STATES_ALONE: u8 = 0;
pub(crate) const VALUES: u8 = 1;
pub(crate) const ROWS: u8 = 2;
pub(crate) const ROWS_AND_LEFT: u8 = 3;

/// Whether a factor is the first of its level, of so many points.
pub(crate) const fn is_first(points: usize, factor: usize) -> bool {
    factor < points && (points - factor).is_power_of_two()
}

/// Where kernels of networks store: [`To`](crate::network::To).
pub(crate) const TO_SLOTS: u8 = 0;
pub(crate) const TO_BUFFERS: u8 = 1;
pub(crate) const TO_PAST: u8 = 2;

/// Bytes of a line of any cache, and what goes past it as a whole.
pub(crate) const LINE: usize = crate::packets::LINE_BYTES;

/// How a kernel stores: through the cache; the same, of less than a vector; and, from here on, past
/// it. Architectures have others between and behind them.
pub(crate) const CACHED: u8 = 0;
/// Through the cache, of less than a vector, where whole ones are taken one at a time, too: these
/// are compiled apart, without what only this needs. A mask costs nothing (AVX-512, two vectors and
/// more).
pub(crate) const SHORT: u8 = 3;
pub(crate) const PAST: u8 = 4;

/// Whether kernels store past the cache.
pub(crate) const fn is_past(stores: u8) -> bool {
    stores >= PAST
}
