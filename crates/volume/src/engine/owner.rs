//! The purposes of I/O and computations, by which their results are assigned.

use crate::delayed::OwedId;
use crate::fetch::FetchId;
use crate::maps::Mapping;
use crate::span::SpanId;
use crate::staging::StageId;
use crate::{BufferId, EpochId, Slot};
use pantile_code::CellIndex;

/// The purpose of an input or output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IoOwner {
    FetchCell {
        fetch: FetchId,
        cell: CellIndex,
        buffer: BufferId,
    },
    FetchHeader {
        fetch: FetchId,
        cell: CellIndex,
        logical: u32,
        mapping: Mapping,
        slot: Slot,
    },
    SpanRun {
        span: SpanId,
        run: usize,
    },
    SpanHeader {
        span: SpanId,
        slot: Slot,
    },
    StageWrite(StageId),
    /// A write to a stripe of an epoch.
    OwedWrite(OwedId),
    /// A read from such a stripe, to make its parity.
    OwedRun {
        owed: OwedId,
        run: usize,
    },
    EpochFlush(EpochId),
    EpochRead(u64),
    CommitWrite,
    CommitFlush,
    Snapshot,
    UpdateHeader {
        update: usize,
        slot: Slot,
    },
    /// A write or flush of a patch.
    HomeWrite,
    /// A read of the header of a chunk that is patched.
    HomeHeader {
        patch: usize,
        slot: Slot,
    },
    RebuildRow,
    RebuildStripe(u32),
    RebuildFlush,
    ScrubRow {
        row: u32,
        cell: usize,
    },
    ScrubMetadata {
        round: u64,
        index: usize,
    },
}

/// The purpose of a computation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JobOwner {
    Fetch { fetch: FetchId, scratch: Vec<BufferId> },
    Span(SpanId),
    Stage(StageId),
    Owed(OwedId),
    CommitStripe(usize),
    CommitRow(usize),
    CommitUpdate(usize),
    RebuildStripe(u32),
    ScrubStripe(u32),
}
