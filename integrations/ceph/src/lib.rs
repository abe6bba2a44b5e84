//! Erasure-code plug-ins for Ceph: the Rust half of one shared object, which Ceph loads as
//! `libec_pantile.so`, `libec_shec.so` or `libec_jerasure.so`.
//!
//! The other half is C++ in `plugin/`: one shim for each generation of Ceph's plug-in interface,
//! which turns its sets, maps and buffers into the plain arguments of [`border`] and decides
//! nothing. Here a profile becomes a pool ([`profile`]: code, chunk sizes, refusals and their
//! reasons). A pool encodes, decodes, adds deltas and selects the chunks to read ([`pool`]).
//! Placement groups with the same code share one pool ([`kept`]).
//!
//! Invariants: shard i is column i of the code; every call is caught ([`border`]), so that nothing
//! unwinds into Ceph; the plans kept for patterns of losses are at most 64 MiB for each process
//! ([`kept::POOLS_MOST`]).
//!
//! Deliberately not here: Ceph's types.

pub mod border;
pub mod kept;
pub mod pool;
pub mod profile;
mod shards;

pub use shards::{SHARDS_MOST, Shards};
