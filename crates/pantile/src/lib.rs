//! The facade: encode, reconstruct, update, verify and locate on real bytes, for any code.
//!
//! ```
//! use pantile::Codec;
//!
//! let codec = Codec::parse("rs:4+2")?;
//! let mut cells = vec![vec![0u8; 4096]; codec.code().cell_count()];
//! for (i, cell) in cells.iter_mut().take(4).enumerate() {
//!     cell.fill(i as u8 + 1);
//! }
//! let mut stripe: Vec<&mut [u8]> = cells.iter_mut().map(Vec::as_mut_slice).collect();
//! codec.encode(&mut stripe)?;
//!
//! stripe[0].fill(0xee); // two columns are gone
//! stripe[5].fill(0xee);
//! codec.reconstruct(&mut stripe, &[0, 5])?;
//! assert!(stripe[0].iter().all(|&byte| byte == 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which call when
//!
//! | you have | call |
//! |---|---|
//! | bytes to cut into one shard per column, or such shards | [`Codec::split`], [`Codec::restore`], [`Codec::join`], [`Codec::verify`] |
//! | a stream of any length, in bounded memory | [`Codec::encode_stream`], [`Codec::decode_stream`] |
//! | shards of a stream that are lost or wrong | [`Codec::verify_stream`], [`Codec::rebuild_stream`] |
//! | chunks as Ceph, HDFS, Swift, ISA-L, zfec, SeaweedFS and others have them | [`Chunks`] |
//! | buffers of your own, one per cell | [`Codec::encode`], [`Codec::reconstruct`] |
//! | some buffers that are read-only or absent | [`Codec::encode_given`], [`Codec::decoder_of`], [`Recovery::run_given`] |
//! | a small write | [`Codec::update`] |
//! | some cells wanted, reads of different cost | [`Codec::recovery`], with the reads of [`Codec::planner`] |
//! | whole columns lost, many stripes | [`Codec::decoder`], once, and [`Recovery::run`] for each |
//! | a stripe with an error somewhere | [`Codec::checker`] |
//! | whole columns of an array code stored as streams | [`Codec::in_packets`] |
//!
//! `examples/` stores a file and restores it, locates a corrupt shard, does a small write, and
//! chooses a code.
//!
//! # Shapes
//!
//! A stripe is one buffer per cell, all of one length, numbered by [`CellIndex`]: column by column,
//! each from row 0. For a code of one row per column that is one buffer per column.
//! [`split_columns`] cuts column buffers into cells. Equations hold byte by byte, so any byte range
//! of a stripe is a stripe. Systems that store whole columns of an array code can interleave their
//! elements ([`Codec::in_packets`]): a column is then one stream. All calls are faster except
//! changes of single elements.
//!
//! # Cost
//!
//! Plans are compiled once per pattern of losses and kept, within bounds that [`Codec`] names; a
//! codec is cheap to clone and share between threads. Compiled programs are immutable, and those
//! for whole columns are found without a lock; [`Codec::decoder`] returns one as a handle.
//!
//! # Features
//!
//! Both are on by default, and no byte depends on them. With `run-time-code` array codes become
//! machine code after some use; without it no generated code is executed, and they reach 0.6 to 0.8
//! of the speed. With `fft` wide codes of the family lch are computed by additive FFTs, without it
//! by sums of products.
#![forbid(unsafe_code)]

/// The page of the registry, whose example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Page;

mod cache;
mod checked;
mod chunks;
mod codec;
mod coder;
#[cfg(feature = "fft")]
mod cosets;
#[cfg(not(feature = "fft"))]
#[path = "no_cosets.rs"]
mod cosets;
mod fragments;
mod locate;
mod packets;
mod plank;
mod program;
mod recovery;
mod shards;
mod shelf;
mod stripe;
#[cfg(feature = "fft")]
mod transforms;
pub mod words;

pub use checked::{Check, Checked, Doubt, DoubtReason, WrongColumn};
pub use chunks::{ChunkError, Chunks};
pub use codec::{Codec, RecoverError};
pub use locate::{Checker, Finding, Verdict};
pub use packets::{DEFAULT_PACKET_BYTES, PacketCodec};
pub use pantile_code as code;
pub use pantile_code::{Cell, CellIndex, Code, CodeError, CodeSpec};
pub use pantile_gf as gf;
pub use pantile_kernel::{Arena, Buffer, BufferList, Stores, Tier, Use};
pub use pantile_plan as plan;
pub use pantile_plan::{
    CellSet, Costs, EVIDENCE_BITS_LEAST, Effort, NotRecoverable, Optimality, Plan, PlanError,
};
pub use recovery::{PacketRecovery, Recovery};
pub use shards::ShardError;
pub use stripe::{StripeError, split_columns};
