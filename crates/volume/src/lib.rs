//! A volume as a state machine: events in, actions out. It decides; a driver performs.
//!
//! The design, its words and the reasons are in `docs/decisions/0001-volume.md`. This crate knows
//! no bytes of user data, no files, no clock and no threads. Its formats are defined byte by byte
//! in `pantile_format::volume`. Buffers are numbers; parity and checksums are actions whose results
//! come back as events. A driver (`pantile-host` with real bytes, `pantile-sim` with virtual time)
//! must:
//!
//! * perform every action, in any order and at any speed, and report each exactly once;
//! * keep a buffer until [`Action::Release`]; a buffer that an action fills exists from then on;
//! * let a [`Action::Flush`] cover every write to the device that was *reported done* before the
//!   flush was given.
//!
//! The same events give the same actions, byte for byte.
#![forbid(unsafe_code)]

mod anew;
mod api;
mod bad;
mod bearing;
mod cleaning;
mod commit;
mod contents;
mod damage;
mod delayed;
mod engine;
mod extents;
mod fetch;
mod geometry;
mod headers;
mod holders;
mod io;
mod journal;
mod lookup;
mod maps;
mod members;
mod memory;
mod notes;
mod open;
mod pace;
mod patch;
mod pins;
mod proof;
mod reads;
mod records;
mod rings;
mod room;
mod scrub;
mod service;
mod snapshots;
mod span;
mod staging;
mod standing;
mod status;
mod stored;
mod verification;
mod volume;

pub use anew::{Anew, ChunkFound, maps_anew, superblocks_again};
pub use api::*;
pub use bearing::Bearing;
pub use cleaning::LOG_AGE;
pub use engine::ENGINE_BUFFERS;
pub use extents::Extent;
pub use geometry::{Geometry, NewVolume};
pub use lookup::{Lookup, Mixture, Source, Stretch};
pub use memory::{DIRTY_BLOCKS_MARK, DIRTY_BLOCKS_MOST};
pub use open::{Birth, OpenError, choose_side, format_volume, histories_are_forgotten};
pub use pantile_format::volume::{DeviceNote, EventKind, EventNote, RangeNote, Reason};
pub use standing::{Margin, NextLoss, Standing, margin};
pub use status::{
    BadMetadata, DeviceCounts, DeviceScrub, DeviceState, DeviceStatus, EpochState, EpochStatus, Losses,
    ScrubStatus, Status,
};
pub use volume::{State, Volume};

use engine::Engine;
use open::Opening;
