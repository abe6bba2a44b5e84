//! Constant parameters of the loops of all architectures.

/// The bytes of a cache line, which is also the unit of stores past the cache.
pub(crate) const LINE: usize = crate::packets::LINE_BYTES;

/// The ways in which a kernel stores: `CACHED` through the cache; `SHORT` the same, for less than a
/// vector; `PAST` and all higher numbers past the cache. Architectures define more numbers in
/// between and above.
pub(crate) const CACHED: u8 = 0;
/// Through the cache, for less than a vector, in kernels that also process single whole vectors.
/// Both are compiled separately, so that whole vectors need no code for parts. Where a mask costs
/// nothing (AVX-512, two vectors and more), a separate form gains nothing.
pub(crate) const SHORT: u8 = 3;
pub(crate) const PAST: u8 = 4;

/// True if kernels of this form store past the cache.
pub(crate) const fn is_past(stores: u8) -> bool {
    stores >= PAST
}
