//! The events that a volume takes and the actions that it gives.

use pantile_format::volume::{EventKind, Reason};
use pantile_gf::Gf;

pub use pantile_format::volume::{DeviceBlock, Slot, UserBlock};

/// Bytes of a block: the unit of checksums, of the log and of atomic writes.
pub const BLOCK_BYTES: u64 = pantile_format::volume::BLOCK_BYTES as u64;

/// One block of memory that the driver holds.
///
/// The driver names buffers below [`ENGINE_BUFFERS`](crate::ENGINE_BUFFERS), which come with
/// writes; the volume names the others. A buffer that an action makes exists until it is released,
/// whether the action succeeds or not; only then can its name be used again.
///
/// The lower 32 bits of a name that the volume gives are an index for tables: no two buffers that
/// exist have the same, and it is lower than the largest number of buffers that ever existed at
/// once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub u64);

/// Names an input or output; never used twice by a [`Volume`](crate::Volume).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IoId(pub u64);

/// Names a computation; never used twice by a [`Volume`](crate::Volume).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(pub u64);

/// Names a user's request; chosen by the driver, unique among those not yet answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// Names an epoch of delayed parity: the number of its session times a million, plus its own
/// number. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EpochId(pub u64);

/// Inputs of a block's checksum beside its content; they differ from place to place and from write
/// to write.
///
/// The checksum is [`block_checksum`](pantile_format::volume::block_checksum): CRC-64/NVME over
/// volume id (16 bytes; given to the driver once), slot (4), address (8) and generation (8),
/// little-endian, then the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seed {
    /// The device.
    pub slot: Slot,
    /// The address of the block.
    pub address: DeviceBlock,
    /// The generation of the stripe or log write.
    pub generation: u64,
}

/// A user's request, for whole blocks; a front end completes partial ones with a read. `B` is the
/// content of a write: buffers for the volume, bytes for a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<B = Vec<BufferId>> {
    /// Reads blocks; answered with one buffer each (`None`: zeros, never written or trimmed).
    Read {
        /// The first block.
        first: UserBlock,
        /// The number of blocks.
        count: u32,
    },
    /// Writes blocks. The volume owns the buffers from now on.
    Write {
        /// The first block.
        first: UserBlock,
        /// One buffer per block.
        contents: B,
        /// Answer only when the write would survive a crash.
        durable: bool,
    },
    /// Forgets blocks: they read as zeros.
    Trim {
        /// The first block.
        first: UserBlock,
        /// The number of blocks.
        count: u64,
    },
    /// Answers when everything that was answered before would survive a crash.
    Flush,
    /// Begins an epoch of delayed parity over the stripes that these blocks touch. Answered with
    /// [`Reply::Begun`] when none of these stripes has dirty blocks any more.
    Begin {
        /// The first block.
        first: UserBlock,
        /// The number of blocks.
        count: u64,
        /// The most blocks with pending parity; beyond it writers wait until some parity is
        /// written.
        owed_blocks_max: u64,
    },
    /// A read, write, trim or flush of an epoch. A flush answers when the epoch's data are durable
    /// on the devices; parity stays pending.
    Within {
        /// The epoch.
        epoch: EpochId,
        /// The request.
        request: Box<Request<B>>,
    },
    /// Makes pending parity and seals the epoch. Answered when all of the epoch would survive a
    /// crash and every reader sees it.
    End {
        /// The epoch.
        epoch: EpochId,
    },
    /// Forgets the epoch: its range has the content from before its begin again.
    Abort {
        /// The epoch.
        epoch: EpochId,
    },
    /// Makes the parity of the writes up to a number from [`EpochStatus`](crate::EpochStatus) in
    /// advance. Answered when this has begun.
    Advance {
        /// The epoch.
        epoch: EpochId,
        /// The number of the last such write.
        through: u64,
    },
}

impl<B> Request<B> {
    /// Replaces the content of a write: a driver puts buffers in the place of bytes.
    pub fn map<C>(self, contents_of: &mut impl FnMut(B) -> C) -> Request<C> {
        match self {
            Request::Read { first, count } => Request::Read { first, count },
            Request::Write { first, contents, durable } => {
                Request::Write { first, contents: contents_of(contents), durable }
            }
            Request::Trim { first, count } => Request::Trim { first, count },
            Request::Flush => Request::Flush,
            Request::Begin { first, count, owed_blocks_max } => {
                Request::Begin { first, count, owed_blocks_max }
            }
            Request::Within { epoch, request } => {
                Request::Within { epoch, request: Box::new(request.map(contents_of)) }
            }
            Request::End { epoch } => Request::End { epoch },
            Request::Abort { epoch } => Request::Abort { epoch },
            Request::Advance { epoch, through } => Request::Advance { epoch, through },
        }
    }

    /// Returns the request within an epoch, or the request itself.
    pub fn innermost(&self) -> &Request<B> {
        match self {
            Request::Within { request, .. } => request.innermost(),
            request => request,
        }
    }
}

/// An event that the volume takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A user's request.
    Request(RequestId, Request),
    /// An action with an [`IoId`] is done.
    IoDone(IoId, IoResult),
    /// A computation is done.
    Computed(JobId, Computed),
    /// A device is not present any more: it was pulled out, failed by its operator, or declared
    /// dead by the driver.
    DeviceGone(Slot),
    /// A device answers in a slot that was lost. The volume catches it up without further events.
    DeviceCame(Slot, Found),
    /// A command for the scrub.
    Scrub(Scrub),
    /// The volume is about to be stopped. A record says how far a rebuild is and proves that the
    /// last change is durable; the next flush waits for this record.
    Settle,
    /// A device takes this many times as long for a read as the others do; 1: as long. Reads avoid
    /// it if that costs less.
    Pace(Slot, u32),
    /// No write came for a while; reads do not count. If no record proves that the last change is
    /// durable, one is written, and later openings do not take that change for one that a crash cut
    /// off.
    Still,
    /// No request came for a while; this includes [`Event::Still`]. Until the next request the
    /// content of memory is made durable, and stripes with many blocks in the log are merged, so
    /// that the log has room for the next burst. The log stays as it is while a device is lost or
    /// rebuilt.
    Idle,
    /// An operator knows of a device's errors so far: only later ones are counted from now on.
    ClearErrors(Slot),
    /// An event that only the driver knows, for the volume to record; for example the state of a
    /// copy that will replace a working device. After `COPY_TAKEN` the slot has another device.
    Happened {
        /// The slot, if the event is about a device.
        slot: Option<Slot>,
        /// One of the kinds `COPY_*`, `SPARE_TAKEN` or `SERVER_KILLED`.
        what: EventKind,
        /// The reason of a failure.
        reason: Reason,
        /// The system's error number that came with it; 0: none.
        errno: i32,
    },
}

/// Content of a device that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Found {
    /// The device is blank, or its content is useless: all of it is rebuilt.
    Blank,
    /// The device has its content from when it was lost. This must be of the same volume and slot,
    /// and of a history that the present one continues.
    Stale,
}

/// Commands for the scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scrub {
    /// Begin at the first stripe; a scrub under way begins again.
    Start {
        /// Write bad stripes and blocks again.
        repair: bool,
    },
    /// Scrub one device before anything else, with repair. Its superblocks, journal, maps, log
    /// blocks and chunks are read, and other devices only to rebuild what is bad. The last scrub of
    /// all devices keeps its position and findings, and continues afterwards. A scrub of all
    /// devices with repair that is started meanwhile replaces this one. Ignored while a scrub of
    /// one device is under way.
    Device(Slot),
    /// Pause, and keep the position.
    Pause,
    /// Continue after a pause.
    Resume,
    /// Stop, and forget the position; findings stay visible.
    Stop,
}

/// The result of an input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IoResult {
    /// The result of a read of blocks: the checksum of each block under its seed, in order.
    Checksums(Vec<u64>),
    /// The result of a read of metadata: its bytes.
    Bytes(Vec<u8>),
    /// A write, flush or discard is done.
    Done,
    /// These bytes cannot be read or written, but the device still answers.
    MediaError,
    /// The device does not answer any more.
    Gone,
}

/// The result of a computation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Computed {
    /// The checksums that were asked for, in the order of [`Compute::checksums`].
    pub checksums: Vec<u64>,
    /// For each pair in [`Compute::differing`], the number of bytes that differ.
    pub differing: Vec<u64>,
}

/// The source of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// A buffer.
    Buffer(BufferId),
    /// A block of zeros.
    Zeros,
}

/// One sum: `into` = sum of coefficient * operand, byte by byte over a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    /// The buffer that is made.
    pub into: BufferId,
    /// Buffers that exist, or are made by an earlier step of the same computation.
    pub terms: Vec<(Operand, Gf)>,
}

/// A computation over blocks: first the sums in order, then checksums and comparisons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compute {
    /// The sums.
    pub sums: Vec<Sum>,
    /// The checksums that are wanted.
    pub checksums: Vec<(Operand, Seed)>,
    /// Pairs of blocks; the number of bytes in which the blocks of each pair differ is wanted.
    pub differing: Vec<(Operand, Operand)>,
}

/// A piece of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// One block of a buffer.
    Block(Operand),
    /// Metadata, a multiple of [`BLOCK_BYTES`] long.
    Bytes(Vec<u8>),
}

/// The urgency of an input or output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Urgency {
    /// A user waits for the operation.
    User,
    /// The operation is for a rebuild, a scrub, or a merge ahead of need.
    Background,
}

/// An action for the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Reads consecutive blocks, one buffer each, and reports their checksums.
    Read {
        /// The name of the read.
        io: IoId,
        /// The device.
        slot: Slot,
        /// The first block.
        at: DeviceBlock,
        /// One buffer per block.
        into: Vec<BufferId>,
        /// The generation that seeds the checksums.
        generation: u64,
        /// The urgency of the read.
        urgency: Urgency,
    },
    /// Reads consecutive blocks of metadata.
    ReadBytes {
        /// The name of the read.
        io: IoId,
        /// The device.
        slot: Slot,
        /// The first block.
        at: DeviceBlock,
        /// The number of blocks.
        blocks: u32,
        /// The urgency of the read.
        urgency: Urgency,
    },
    /// Writes consecutive blocks.
    Write {
        /// The name of the write.
        io: IoId,
        /// The device.
        slot: Slot,
        /// The first block.
        at: DeviceBlock,
        /// The content.
        pieces: Vec<Piece>,
        /// The urgency of the write.
        urgency: Urgency,
    },
    /// Makes all writes to the device that were reported done survive a crash.
    Flush {
        /// The name of the flush.
        io: IoId,
        /// The device.
        slot: Slot,
    },
    /// Performs a computation.
    Compute {
        /// The name of the computation.
        job: JobId,
        /// The sums, checksums and comparisons.
        work: Compute,
    },
    /// Releases a buffer that is not needed any more.
    Release(BufferId),
    /// Answers a user.
    Reply(RequestId, Reply),
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The content of each block; `None` is zeros. The driver copies it before it performs a later
    /// `Release`.
    Read(Vec<Option<BufferId>>),
    /// The request is done.
    Done,
    /// An epoch has begun. It holds whole stripes.
    Begun {
        /// The name of the epoch.
        epoch: EpochId,
        /// The first block of the epoch.
        first: UserBlock,
        /// The number of blocks.
        count: u64,
    },
    /// The request was refused or failed. It may be done in part.
    Failed(Failure),
}

/// The reason why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The request reaches beyond the end of the volume.
    OutOfRange {
        /// The end of the volume: the first block that does not exist.
        end: UserBlock,
    },
    /// A block is lost: more devices are lost or bad than the code tolerates.
    Lost {
        /// The first such block.
        block: UserBlock,
    },
    /// Too many devices are gone to make anything durable.
    NotDurable,
    /// The volume could not be opened.
    NotOpen,
    /// The volume is open read only.
    ReadOnly,
    /// An open epoch holds blocks of the range; others can write to it only when the epoch has
    /// ended.
    Busy {
        /// The epoch.
        epoch: EpochId,
    },
    /// Open epochs hold a part of the range.
    EpochsOverlap {
        /// The epochs.
        epochs: Vec<EpochId>,
    },
    /// There is no such epoch: it has ended, or the volume was opened again since then.
    NoSuchEpoch {
        /// The epoch.
        epoch: EpochId,
    },
    /// The epoch is ending and takes no more requests.
    EpochEnding {
        /// The epoch.
        epoch: EpochId,
    },
    /// The request is not within the range that the epoch holds.
    OutsideEpoch {
        /// The epoch.
        epoch: EpochId,
        /// The first block of the epoch.
        first: UserBlock,
        /// The first block behind the epoch.
        end: UserBlock,
    },
    /// Blocks of the epoch were stored on devices that were lost, or rotted, before their parity
    /// was made. No other blocks are lost.
    EpochLost {
        /// The epoch.
        epoch: EpochId,
        /// The ranges of these blocks, as first block and count.
        ranges: Vec<(UserBlock, u64)>,
    },
    /// The record that must switch all stripes of an epoch has no room for more of them.
    EpochFull {
        /// The epoch.
        epoch: EpochId,
        /// The most stripes that one record can switch.
        stripes: u64,
    },
    /// There is no free place for a stripe, except those that cleaning needs.
    NoRoom {
        /// The epoch.
        epoch: EpochId,
    },
}
