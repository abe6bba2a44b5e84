//! Runs a volume on real devices: performs what the engine decides.
//!
//! [`Host`] has one thread that owns the engine of `pantile_volume`, an I/O pool of `pantile_device`, and the memory that the engine knows
//! by number. [`Handle`] is what clients read and write through.
//!
//! What is deliberately not here: redundancy (the engine decides), protocols (front ends speak them).
#![forbid(unsafe_code)]

mod engine;
mod error;
mod handle;
mod host;
mod inbox;
mod memory;
mod throttle;
mod work;

pub use engine::{MemberReport, Report};
pub use error::HostError;
pub use handle::Handle;
pub use host::{Host, HostOptions};
