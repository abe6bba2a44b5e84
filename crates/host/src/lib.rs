//! Runs a volume on real devices: performs the actions that the engine decides.
//!
//! [`Host`] has one thread that owns the engine of `pantile_volume`, an I/O pool of
//! `pantile_device`, and the memory that the engine names by numbers. Clients read and write
//! through a [`Handle`]. [`Folder`] has the paths of the devices of a volume. [`Service`] is a
//! running volume with its folder; it executes an operator's [`Order`]s, in process or over the
//! control socket.
//!
//! Not here, on purpose: redundancy (the engine decides) and protocols (front ends implement them).
#![forbid(unsafe_code)]

mod ahead;
mod claim;
mod clients;
mod config;
mod control;
mod direct;
mod disks;
mod engine;
mod epochs;
mod error;
mod fault;
mod find;
mod folder;
mod found;
#[cfg(test)]
mod gate;
mod gather;
mod geometry;
mod handle;
mod health;
mod host;
mod inbox;
mod latency;
mod left;
mod locks;
mod long;
mod margin;
mod memory;
mod new_dir;
mod opening;
mod private;
mod scan;
mod scratch;
mod served;
mod service;
mod signature;
mod slowness;
mod superblocks;
mod survey;
mod text;
mod throttle;
mod timely;
mod twin;
mod work;

pub use clients::{Admitted, ClientLimits, Clients, Permit, REQUEST_BYTES_MAX};
pub use config::{Config, Place};
pub use control::{
    Answer, CONTROL_SOCKET, ControlServer, DeviceReport, DeviceWord, ENDED, EventReport, FirstPassReport,
    LatencyReport, MetadataReport, Order, RangeReport, RebuildReport, ReplacementReport, SERVING,
    ScrubReport, ServerReport, SlowReport, StatusReport, TOLD_TO_STOP, Verdict, VerificationReport, order,
    order_until, order_within,
};
pub use disks::{DiskLosses, DiskReport, DisksReport};
pub use engine::{MemberReport, Report};
pub use epochs::{Epoch, EpochOptions, EpochReport, LostRange, OnTimeout};
pub use error::HostError;
pub use fault::{FaultKind, FolderError};
pub use find::{DeviceUse, FoundVolume, FoundVolumes, files_of, find_volumes, idle_devices, use_of_device};
pub use folder::{Assembled, Folder, NewDevices, NewFolder, Opened, wipe};
pub use geometry::{numbers, usual_geometry, usual_placement};
pub use handle::Handle;
pub use health::{Finding, FindingKind, of_lost, when};
pub use host::{Host, HostOptions, MEMORY_BYTES, MEMORY_LEAST, least_memory_bytes};
pub use latency::Latency;
pub use left::{LEFT_BEHIND, threads_waiting_for_devices};
pub use margin::{Margin, NextLoss};
pub use new_dir::ScratchFolder;
pub use opening::export_len;
pub use pantile_device::{AlignedBuf, BufferPool, absolute_path, is_server, path_in};
pub use pantile_volume::{EpochId, Failure, Geometry, Slot};
pub use private::{SocketFault, remove_dead_socket};
pub use scan::Plan;
pub use scratch::open_scratch;
pub use served::{EpochError, ServedEpoch, nbd_uri};
pub use service::{Deaths, Service};
pub use slowness::Slow;
pub use text::{harmless, is_harmless, quoted};

/// The text of `examples/checkpoint.rs`, a program that writes checkpoints in epochs of delayed
/// parity; for pages that quote it.
pub const CHECKPOINT_EXAMPLE: &str = include_str!("../examples/checkpoint.rs");
