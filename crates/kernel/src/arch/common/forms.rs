//! Constant parameters of the loops of all architectures.

/// Bytes of a line of any cache, and the unit of stores past it.
pub(crate) const LINE: usize = crate::packets::LINE_BYTES;

/// How a kernel stores: through the cache; the same, of less than a vector; and, from here on, past
/// it. Architectures have others between and behind them.
pub(crate) const CACHED: u8 = 0;
/// Through the cache, of less than a vector, for kernels that take whole vectors one at a time,
/// too. These are compiled apart, without the code for parts. A mask costs nothing (AVX-512, two
/// vectors and more).
pub(crate) const SHORT: u8 = 3;
pub(crate) const PAST: u8 = 4;

/// True if kernels of this form store past the cache.
pub(crate) const fn is_past(stores: u8) -> bool {
    stores >= PAST
}
