//! What is written once for the vectors of every architecture that has some: loops as macros, which
//! an engine calls with its own loads, stores, sums and products.

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
