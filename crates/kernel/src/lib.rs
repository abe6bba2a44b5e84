//! Moves bytes fast and exactly like the portable version.
//!
//! One idea: everything that an erasure code does to bytes is a matrix of GF(2^8) coefficients
//! times a column of buffers. A [`Dot`] is such a matrix compiled once for one instruction set;
//! applying it allocates nothing. There are also the few scans that callers need (the first byte
//! that is not zero, plain XOR) and the [`Arena`], which lays buffers out so that many streams do
//! not compete for one cache set.
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
//! Without the feature `run-time-code`, programs of XORs never become machine code of their own:
//! they run in loops over rows, at some 0.6 to 0.8 of the speed, and nothing in the process is
//! written and executed. Without the feature `fft` there are no additive FFTs, and no networks of
//! them; sums of products give the same bytes.
//!
//! The kernel knows no codes, no data and parity, and no I/O. The portable tier is the
//! specification: every other tier must give the same bytes for every length and alignment. This
//! crate is one of the few with `unsafe`.

#![deny(unsafe_op_in_unsafe_fn)]
#![allow(
    clippy::needless_range_loop,
    reason = "kernels index registers by output and column, as the text does"
)]
#![cfg_attr(
    not(all(target_arch = "x86_64", not(miri))),
    allow(dead_code, reason = "no engine looks at what it would be given here")
)]

mod arch;
mod arena;
mod buffers;
#[cfg(feature = "fft")]
mod butterflies;
mod carried;
mod change;
mod choice;
// Code is compiled in if it is enabled, and if the processor has an assembler here.
#[cfg(all(feature = "run-time-code", target_arch = "x86_64", not(miri)))]
mod code;
#[cfg(not(all(feature = "run-time-code", target_arch = "x86_64", not(miri))))]
#[path = "no_code.rs"]
mod code;
mod dispatch;
mod dot;
mod engine;
mod error;
mod expand;
#[cfg(feature = "fft")]
mod fft;
mod horner;
pub mod measure;
#[cfg(feature = "fft")]
mod network;
mod once;
mod order;
mod packet_program;
mod packets;
mod portable;
mod program;
mod scan;
mod schedule;
mod scratch;
mod solve;
mod stores;
mod streams;
mod sum_graph;
mod sums;
mod system;
mod terms;
mod tier;
mod update;
mod word_loops;
mod word_maps;
mod words;
mod xor;
mod xor_rows;

pub use arena::Arena;
pub use buffers::{Buffer, BufferList, Use};
pub use choice::ForcedTierError;
pub use dot::Dot;
pub use error::{DotError, ProgramError, ShapeError};
#[cfg(feature = "fft")]
pub use fft::{Fft, FftGroup, FftOutputs};
pub use horner::{Horner, HornerOutputs, HornerStep};
#[cfg(feature = "fft")]
pub use network::{Lanes, Network, NetworkStep};
pub use once::{Grid, Start, sum_once, sum_once_with};
pub use packet_program::PacketProgram;
pub use packets::Packets;
pub use program::{Program, Step};
pub use scan::{are_apart, first_nonzero, first_nonzero_any, xor_into};
pub use stores::Stores;
pub use system::System;
pub use tier::Tier;
pub use update::Update;
pub use words::WordMap;
