//! What is written once for the vectors of every architecture that has some: loops as macros, which
//! an engine calls with its own loads, stores, sums and products.
//!
//! An engine's `with_arithmetic!` gives a loop, behind what is the loop's own: the instructions
//! that it needs, the type of coefficients, how it says which bytes count (the type, all of a
//! vector, the first so many), zero, the sum of two vectors and of three, and a vector times a
//! coefficient.

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
mod xor;

pub(crate) mod forms;
