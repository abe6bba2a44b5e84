//! The facade for C: `include/pantile.h` is the page, this is what stands behind it.
//!
//! Nothing is decided here. A call checks what it is given, hands it to the facade and says what
//! came of it:
//!
//! * every function is run by [`answer::answer`], which turns a refusal into a status and a
//!   sentence, and a panic into [`PantileStatus::Panic`]: none goes on into C;
//! * a stripe is checked once ([`stripe::Stripe`]): counts, NULL, lengths, overlap; what is written
//!   and what is read become slices only behind that, and only where they are used;
//! * lists are given by [`answer::List`]: the room, how many there are, and nothing written if it
//!   does not fit.
//!
//! Invariants: a handle never changes once it is made; no state but a thread's own scratch lies
//! outside of handles; `tests/the_header_is_true.rs` compares every function, structure and
//! constant with the header, and `tests/abi.txt` with what was promised before.
//!
//! `unsafe` is here because C is: each block relies on what the header asks of the caller, and says
//! which sentence of it.

// The header is the documentation of what is exported, and says what each pointer must be.
#![allow(missing_docs, clippy::missing_safety_doc, reason = "include/pantile.h documents all of it")]

mod answer;
mod code;
mod codec;
mod locate;
mod plan;
mod prove;
mod stripe;

pub use answer::*;
pub use code::*;
pub use codec::*;
pub use locate::*;
pub use plan::*;
pub use prove::*;
