//! Moves bytes fast and exactly like the portable version.
//!
//! One idea: everything that an erasure code does to bytes is a matrix of GF(2^8) coefficients
//! times a column of buffers. A [`Dot`] is such a matrix compiled once for one instruction set;
//! applying it allocates nothing. Beside it live the few scans that callers need (where bytes stop
//! being zero, plain XOR, equality) and the [`Arena`], which lays buffers out so that many streams
//! do not fight for one cache set.
//!
//! ```
//! use pantile_kernel::Dot;
//! // P = a + b, Q = a + 2b over GF(2^8) with the polynomial 0x11d.
//! let dot = Dot::new(2, &[vec![(0, 1), (1, 1)], vec![(0, 1), (1, 2)]])?;
//! let (a, b) = ([1, 2, 3], [0x80, 5, 6]);
//! let (mut p, mut q) = ([0; 3], [0; 3]);
//! dot.apply(&[&a, &b], &mut [&mut p, &mut q])?;
//! assert_eq!(p, [0x81, 7, 5]);
//! assert_eq!(q, [1 ^ 0x1d, 2 ^ 10, 3 ^ 12]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! It knows nothing of codes, of data and parity, or of I/O. The portable tier is the
//! specification: every other tier must give the same bytes for every length and alignment. This
//! room is one of the few with `unsafe`.

#![deny(unsafe_op_in_unsafe_fn)]
#![allow(
    clippy::needless_range_loop,
    reason = "kernels index registers by output and column, as the text does"
)]

mod arch;
mod arena;
#[cfg_attr(not(all(target_arch = "x86_64", not(miri))), allow(dead_code, reason = "no engine runs it here"))]
mod braid;
mod buffers;
mod dispatch;
mod dot;
#[cfg_attr(not(all(target_arch = "x86_64", not(miri))), allow(dead_code, reason = "no engine runs it here"))]
mod engine;
#[cfg_attr(not(all(target_arch = "x86_64", not(miri))), allow(dead_code, reason = "no engine runs it here"))]
mod executable;
#[cfg_attr(not(all(target_arch = "x86_64", not(miri))), allow(dead_code, reason = "no engine runs it here"))]
mod expand;
#[cfg_attr(not(all(target_arch = "x86_64", not(miri))), allow(dead_code, reason = "no engine runs it here"))]
mod fft;
#[cfg_attr(not(all(target_arch = "x86_64", not(miri))), allow(dead_code, reason = "no engine runs it here"))]
mod horner;
pub mod measure;
#[cfg_attr(not(all(target_arch = "x86_64", not(miri))), allow(dead_code, reason = "no engine runs it here"))]
mod network;
mod order;
mod packets;
mod portable;
mod program;
mod scan;
#[cfg_attr(not(all(target_arch = "x86_64", not(miri))), allow(dead_code, reason = "no engine runs it here"))]
mod schedule;
mod scratch;
#[cfg_attr(not(all(target_arch = "x86_64", not(miri))), allow(dead_code, reason = "no engine runs it here"))]
mod solve;
#[cfg_attr(not(all(target_arch = "x86_64", not(miri))), allow(dead_code, reason = "no engine runs it here"))]
mod straight;
#[cfg_attr(not(all(target_arch = "x86_64", not(miri))), allow(dead_code, reason = "no engine runs it here"))]
mod sum_graph;
mod sums;
#[cfg_attr(not(all(target_arch = "x86_64", not(miri))), allow(dead_code, reason = "no engine runs it here"))]
mod terms;
mod tier;
mod update;
mod xor;
#[cfg_attr(not(all(target_arch = "x86_64", not(miri))), allow(dead_code, reason = "no engine runs it here"))]
mod xor_rows;

pub use arena::Arena;
pub use buffers::{Buffer, BufferList, Use};
pub use dot::{Dot, DotError, ShapeError, Stores};
pub use fft::{Fft, FftGroup, FftOutputs};
pub use horner::{Horner, HornerOutputs, HornerStep};
pub use network::{Lanes, Network, NetworkStep};
pub use packets::{PacketProgram, Packets};
pub use program::{Program, ProgramError, Step};
pub use scan::{equal, first_nonzero, first_nonzero_any, xor_into};
pub use solve::System;
pub use tier::{ForcedTierError, Tier};
pub use update::Update;
