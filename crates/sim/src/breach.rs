//! Rules between engine and driver that an engine can break, whatever the contents are.

use std::fmt;

use pantile_volume::{BufferId, DeviceBlock, RequestId, Slot};

/// A rule between engine and driver that the engine has broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Breach {
    /// A buffer that does not exist, or exists no more.
    BufferUnknown {
        /// The buffer.
        buffer: BufferId,
    },
    /// A buffer is used before the action that fills it was reported done.
    BufferNotFilled {
        /// The buffer.
        buffer: BufferId,
    },
    /// A buffer is made although it exists.
    BufferMadeTwice {
        /// The buffer.
        buffer: BufferId,
    },
    /// The engine makes a buffer under a name from the driver's range.
    BufferOfTheDriver {
        /// The buffer.
        buffer: BufferId,
    },
    /// A buffer is released while an action makes or uses it.
    ReleasedInUse {
        /// The buffer.
        buffer: BufferId,
    },
    /// Buffers are left although the engine is at rest and everything is flushed.
    BuffersLeaked {
        /// Buffers left.
        held: usize,
        /// Buffers allowed.
        most: usize,
        /// The first of them.
        first: BufferId,
    },
    /// The name of an I/O or computation is used again.
    NameUsedTwice {
        /// The name.
        name: u64,
    },
    /// An I/O of no blocks, or of bytes that are not whole blocks.
    NotBlocks {
        /// The name of the input or output.
        name: u64,
    },
    /// There is no such device.
    NoSuchDevice {
        /// The slot.
        slot: Slot,
    },
    /// An I/O beyond the end of the device.
    BeyondTheEnd {
        /// The slot.
        slot: Slot,
        /// The first block.
        at: DeviceBlock,
        /// The number of blocks.
        count: u64,
        /// The length of the device.
        blocks: u64,
    },
    /// A request is answered that was not made, or was answered before.
    NotAsked {
        /// The request.
        request: RequestId,
    },
    /// A read is answered without blocks or with the wrong number of blocks, or another request is
    /// answered with blocks.
    WrongAnswer {
        /// The request.
        request: RequestId,
    },
}

impl fmt::Display for Breach {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Breach::BufferUnknown { buffer } => write!(out, "buffer {} does not exist", buffer.0),
            Breach::BufferNotFilled { buffer } => {
                write!(out, "buffer {} is used before what fills it is reported done", buffer.0)
            }
            Breach::BufferMadeTwice { buffer } => {
                write!(out, "buffer {} is made although it exists", buffer.0)
            }
            Breach::BufferOfTheDriver { buffer } => {
                write!(out, "buffer {} is made by the engine under a number of the driver's", buffer.0)
            }
            Breach::ReleasedInUse { buffer } => {
                write!(out, "buffer {} is released while an action makes or uses it", buffer.0)
            }
            Breach::BuffersLeaked { held, most, first } => write!(
                out,
                "{held} buffers are left when all is flushed and done, {most} may be; the first is {}",
                first.0
            ),
            Breach::NameUsedTwice { name } => write!(out, "the name {name} is used for a second action"),
            Breach::NotBlocks { name } => write!(out, "action {name} is not of at least one whole block"),
            Breach::NoSuchDevice { slot } => write!(out, "there is no slot {}", slot.0),
            Breach::BeyondTheEnd { slot, at, count, blocks } => write!(
                out,
                "{count} blocks at {} of slot {} reach beyond its end, which is {blocks}",
                at.0, slot.0
            ),
            Breach::NotAsked { request } => write!(out, "request {} is answered but not open", request.0),
            Breach::WrongAnswer { request } => {
                write!(out, "request {} is answered with what its kind does not have", request.0)
            }
        }
    }
}
