//! The volume with bugs on purpose: the source of `pantile-volume` with `bugs.patch` applied.
//!
//! `build.rs` makes the copy, so that no decision of the volume itself asks for a bug.
#![forbid(unsafe_code)]
#![allow(missing_docs, unused, clippy::all, reason = "the volume itself is held to them")]

mod planted;

include!(concat!(env!("OUT_DIR"), "/volume/lib.rs"));

use planted::has;
pub use planted::{Bug, with};
