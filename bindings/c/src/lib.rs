//! The facade for C. `include/pantile.h` documents it.
//!
//! Nothing is decided here. A call checks its arguments, hands them to the facade and returns the
//! result:
//!
//! * every function is run by [`answer::answer`], which turns a refusal into a status and a
//!   sentence, and a panic into [`PantileStatus::Panic`]: none goes on into C;
//! * a stripe is checked once ([`stripe::Stripe`]): counts, NULL, lengths, overlap; columns become
//!   slices only after that, and only where they are read or written;
//! * lists are given by [`answer::List`]: the room, how many there are, and nothing written if it
//!   does not fit.
//!
//! Invariants: a handle never changes once it is made, but an epoch, which is locked. Outside of
//! handles there is only a thread's own scratch. `tests/the_header_is_true.rs` compares every
//! function, structure and constant with the header, and `tests/abi.txt` with the interface
//! promised before.
//!
//! `unsafe` is needed for C's pointers: each block relies on a requirement of the header, and says
//! which sentence it is.

// The header documents every export and says which pointers are valid.
#![allow(missing_docs, clippy::missing_safety_doc, reason = "include/pantile.h documents all of it")]

mod answer;
mod code;
mod codec;
mod epoch;
mod locate;
mod plan;
mod prove;
mod stream;
mod stripe;

pub use answer::*;
pub use code::*;
pub use codec::*;
pub use epoch::*;
pub use locate::*;
pub use plan::*;
pub use prove::*;
pub use stream::*;
