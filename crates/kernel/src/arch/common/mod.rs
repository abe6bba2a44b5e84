//! Loops shared by all vector architectures, as macros that an engine calls with its own loads,
//! stores, sums and products.
//!
//! An engine's `with_arithmetic!` passes a loop these arguments, after the loop's own: the
//! instructions that it needs, the type of coefficients, and the form of a mask (the type, all
//! bytes of a vector, the first few). Then come zero, the sum of two vectors and of three, and a
//! vector times a coefficient.

#[macro_use]
mod pick;
#[macro_use]
mod carry;
#[macro_use]
mod change;
#[cfg(feature = "fft")]
#[macro_use]
pub(crate) mod fft;
#[cfg(feature = "fft")]
#[macro_use]
pub(crate) mod network;
#[macro_use]
mod words;
#[macro_use]
mod xor;

pub(crate) mod forms;
