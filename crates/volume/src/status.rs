//! A report of a volume's state at any time, as plain numbers.

use crate::maps::{RowCell, RowKind};
use crate::{Engine, EpochId, Slot, UserBlock, histories_are_forgotten};
use pantile_code::CellIndex;
use pantile_format::volume::{DeviceNote, EventNote, HistoryId, MemberState, RangeNote};
use pantile_plan::{CellSet, Costs, Effort, Request};
use std::collections::{BTreeMap, BTreeSet};

/// The work of a device since the volume was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Blocks that were read, whether good or wrong.
    pub blocks_read: u64,
    /// Blocks and headers that were read and are wrong.
    pub checksum_errors: u64,
    /// Reads that failed.
    pub media_errors: u64,
    /// Chunks and log blocks that a failed read has found to be bad. Each counts once until it is
    /// written or can be read again.
    pub unreadable_chunks: u64,
}

/// Membership of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// The device has everything.
    Present,
    /// The device is missing.
    Lost,
    /// The blocks that the device lacks are being rebuilt.
    Rebuilding {
        /// Logical stripes that the rebuild has passed.
        done_stripes: u64,
        /// Logical stripes of which the rows rebuilt ahead are rebuilt, so that they tolerate one
        /// more loss; `None`: no rows are rebuilt ahead.
        ahead_stripes: Option<u64>,
        /// All logical stripes.
        total_stripes: u64,
    },
}

/// One device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceStatus {
    /// Its slot.
    pub slot: Slot,
    /// Its membership.
    pub state: DeviceState,
    /// Its work.
    pub counts: DeviceCounts,
    /// Its history, including the time before the volume was opened.
    pub known: DeviceNote,
}

/// Metadata of a device that a scrub has found to be bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadMetadata {
    /// The device.
    pub slot: Slot,
    /// The number of its three superblocks that are bad.
    pub superblocks: u32,
    /// A record that the next opening would replay is bad.
    pub journal: bool,
    /// The maps that the superblock refers to are bad.
    pub snapshot: bool,
    /// The text of a code that no family names is bad.
    pub definition: bool,
}

/// Position and findings of a scrub: in stripes, in blocks of the log, and in metadata by device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubStatus {
    /// The number of logical stripes that are judged.
    pub done: u64,
    /// The number of all logical stripes.
    pub total: u64,
    /// True if bad stripes and blocks are written again.
    pub repair: bool,
    /// True if the scrub is paused and waits for a command.
    pub paused: bool,
    /// True if the scrub has not ended.
    pub running: bool,
    /// Stripes without a fault.
    pub clean: u64,
    /// Stripes with blocks that differ from their checksums.
    pub checksum: u64,
    /// Stripes with blocks that cannot be read, and no wrong ones.
    pub unreadable: u64,
    /// Stripes whose equations do not hold, and exactly one column explains it.
    pub located: u64,
    /// Stripes whose equations do not hold, and several columns could explain it.
    pub ambiguous: u64,
    /// Stripes whose equations do not hold, and no single column explains it.
    pub unlocatable: u64,
    /// Blocks of the log that are judged; each copy and each parity block counts.
    pub log_blocks: u64,
    /// Blocks of the log that differ from their checksums.
    pub log_checksum: u64,
    /// Blocks of the log that cannot be read.
    pub log_unreadable: u64,
    /// Devices whose superblocks, journal, snapshot or text of the code are bad.
    pub metadata: Vec<BadMetadata>,
    /// The number of these devices, even if a restart has forgotten which they are.
    pub metadata_devices: u64,
    /// When it began: seconds since 1970, 0 if it is not known.
    pub begun_at: i64,
    /// When it ended or was stopped: seconds since 1970, 0 if it is not known or not yet.
    pub ended_at: i64,
    /// True if it was stopped before its end.
    pub stopped: bool,
    /// Bad stripes that have been written again.
    pub repaired: u64,
    /// Bad stripes that cannot be repaired, or only by a guess.
    pub left: u64,
}

impl ScrubStatus {
    /// Returns true if the scrub has found a fault.
    pub fn is_bad(&self) -> bool {
        let stripes = self.checksum + self.unreadable + self.located + self.ambiguous + self.unlocatable;
        stripes + self.log_checksum + self.log_unreadable > 0 || self.metadata_devices > 0
    }
}

/// A scrub of one device ([`Scrub::Device`](crate::Scrub::Device)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceScrub {
    /// The device.
    pub slot: Slot,
    /// The number of logical stripes that are judged.
    pub done: u64,
    /// The number of all logical stripes.
    pub total: u64,
    /// True if the scrub has not ended.
    pub running: bool,
    /// Chunks, blocks of the log and parts of the metadata that the scrub found to be bad.
    pub found: u64,
    /// Stripes with bad chunks that could not be written again.
    pub left: u64,
}

/// State of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochState {
    /// It waits for blocks that were dirty before it began.
    Beginning,
    /// It takes writes.
    Open,
    /// Pending parity of the epoch is being made.
    Ending,
    /// The record that ends the epoch is being written.
    Sealing,
}

/// An epoch of delayed parity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpochStatus {
    /// The name of the epoch.
    pub epoch: EpochId,
    /// The first block that the epoch holds.
    pub first: UserBlock,
    /// The number of blocks that it holds.
    pub count: u64,
    /// The state of the epoch.
    pub state: EpochState,
    /// The number of stripes that the epoch has written.
    pub stripes: u64,
    /// The number of these stripes with pending parity.
    pub owed_stripes: u64,
    /// The number of blocks in these stripes that the epoch has written: the loss of a device can
    /// lose them.
    pub owed_blocks: u64,
    /// The most such blocks.
    pub owed_blocks_max: u64,
    /// The number of the newest write. From it and `oldest` a driver with a clock derives the age
    /// of pending parity.
    pub newest: u64,
    /// The number of the oldest write with pending parity; `None`: no parity is pending.
    pub oldest: Option<u64>,
    /// Stripes whose parity was written in vain, because their data changed afterwards.
    pub wasted_stripes: u64,
    /// Blocks that were lost with devices before their parity was made, as first block and count.
    pub lost: Vec<(UserBlock, u64)>,
}

/// The status of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The devices by slot.
    pub devices: Vec<DeviceStatus>,
    /// Blocks in memory that are not durable.
    pub dirty_blocks: u64,
    /// Epochs of delayed parity that are open.
    pub epochs: Vec<EpochStatus>,
    /// Stripes of epochs, open or ended, whose parity was written in vain: their data changed
    /// afterwards, or they were aborted.
    pub wasted_stripes: u64,
    /// Blocks of epochs in memory, including parity.
    pub epoch_blocks_in_memory: u64,
    /// Rows of the log that are in use.
    pub log_rows_used: u64,
    /// All rows of the log.
    pub log_rows: u64,
    /// Blocks of users in the log.
    pub log_blocks: u64,
    /// User blocks in the log that are lost, because more devices are lost than the log tolerates.
    pub log_blocks_lost: u64,
    /// Physical stripes in use.
    pub stripes_used: u64,
    /// Physical stripes that nothing is mapped to.
    pub free_stripes: u64,
    /// Logical stripes with more losses than the code tolerates.
    pub broken_stripes: u64,
    /// Logical stripes that wait to be written again because something in them did not verify.
    pub suspect_stripes: u64,
    /// Blocks rebuilt on devices that came, since they came.
    pub rebuilt_blocks: u64,
    /// The scrub, if there was one since the volume was opened.
    pub scrub: Option<ScrubStatus>,
    /// The last scrub of one device since the volume was opened. Also `None` if that device was
    /// lost meanwhile, or a scrub of all devices took its place.
    pub device_scrub: Option<DeviceScrub>,
    /// More devices were lost than the code tolerates: nothing more is written until the volume is
    /// opened again.
    pub failed: bool,
    /// The next generation: no durable write has this generation or a higher one.
    pub next_generation: u64,
    /// The volume was opened read only, on purpose: nothing is written.
    pub reads_only: bool,
    /// Devices that were present when the volume was opened, but ran separately and take no part,
    /// with their histories.
    pub apart: Vec<(Slot, HistoryId)>,
    /// True if a device that was only away may count among these although it never ran: too many
    /// others were lost since.
    pub histories_forgotten: bool,
    /// Blocks that are lost or suspect, ascending.
    pub ranges: Vec<RangeNote>,
    /// Events, the oldest first, as far as they are known.
    pub events: Vec<EventNote>,
    /// True if there were older events but no device had them.
    pub notes_lost: bool,
}

/// The losses that lost devices alone cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Losses {
    /// True if the equations tolerate the losses: all stripes can be read and written.
    pub bears: bool,
    /// Stripes that cannot be read in full without these devices, because the others have bad
    /// blocks. With these devices more of each can be read.
    pub stripes: u64,
    /// Lost blocks in the log. The log tolerates as many losses as the code always tolerates, which
    /// may be fewer than these.
    pub log_blocks: u64,
}

impl Engine {
    /// Returns the losses if these devices are lost, too, beside those that are.
    pub(crate) fn losses(&self, also: &[Slot]) -> Losses {
        let lost = self.absent_with(also);
        let all: Vec<Slot> = lost.iter().copied().collect();
        let bears = self.planners.stripes_bear.bears(&all);
        let stripes = self.stripes_at_risk(&lost, false);
        if all.len() <= self.geometry.tolerance() && !self.maps.notes().bad.has_rows() {
            return Losses { bears, stripes, log_blocks: 0 };
        }
        // For each set of lost cells of a row: which of its user blocks are lost.
        let mut known: BTreeMap<Vec<CellIndex>, Vec<bool>> = BTreeMap::new();
        let copies = self.geometry.tolerance() + 1;
        let mut log_blocks = 0;
        for (&number, row) in self.maps.rows() {
            let is_lost = |cell: &RowCell| {
                let is_bad = self.maps.notes().bad.has_row(cell.slot, number);
                is_bad || lost.contains(&cell.slot) || !self.maps.has(cell.slot, row.generation, None)
            };
            let gone: Vec<bool> = match row.kind {
                RowKind::Copies => row.cells.chunks(copies).map(|of| of.iter().all(is_lost)).collect(),
                RowKind::Coded => {
                    let cells = (0..).map(CellIndex).zip(&row.cells).filter(|(_, cell)| is_lost(cell));
                    let cells: Vec<CellIndex> = cells.map(|(cell, _)| cell).collect();
                    known.entry(cells).or_insert_with_key(|cells| self.gone_in_row(cells)).clone()
                }
            };
            let live = row.blocks.iter().zip(gone).filter(|(block, gone)| block.is_some() && *gone);
            log_blocks += live.count() as u64;
        }
        Losses { bears, stripes, log_blocks }
    }

    /// Returns true if no more data is lost without these devices than is already. A device that is
    /// not rebuilt yet counts as lost. Cost: searches the log only if the stripes tolerate more
    /// losses than the log.
    pub(crate) fn can_spare(&self, also: &[Slot]) -> bool {
        let all: BTreeSet<Slot> = self.not_whole().into_iter().chain(also.iter().copied()).collect();
        let all_slots: Vec<Slot> = all.iter().copied().collect();
        let after = self.losses(&all_slots);
        let there = self.cells_ahead().into_iter().filter(|(slot, _)| !also.contains(slot));
        let mut there: Vec<CellIndex> = there.flat_map(|(_, cells)| cells).collect();
        there.sort_unstable();
        let bears = self.planners.stripes_bear.bears_but(&all_slots, &there);
        let keeps_stripes = bears && self.stripes_at_risk(&all, true) == 0;
        keeps_stripes && after.log_blocks <= self.losses(&[]).log_blocks
    }

    fn absent_with(&self, also: &[Slot]) -> BTreeSet<Slot> {
        self.maps.absent().into_iter().chain(also.iter().copied()).collect()
    }

    /// Returns for each user block of a coded row whether it is lost without some cells of the row.
    fn gone_in_row(&self, cells: &[CellIndex]) -> Vec<bool> {
        let planner = &self.planners.row;
        let lost = CellSet::of_cells(planner.code(), cells);
        let (costs, effort) = (&Costs::uniform(), Effort::Fast);
        let data = planner.code().data().iter();
        data.map(|&cell| {
            let request = Request { lost: &lost, wanted: &[cell], costs, effort };
            lost.contains(cell) && planner.recover(&request).is_err()
        })
        .collect()
    }

    pub(crate) fn status(&self) -> Status {
        let total_stripes = u64::from(self.geometry.logical_stripes());
        let unrecorded = self.members.unrecorded(self.records.last());
        let state = |slot: Slot, state: &MemberState| match state {
            // Until a record says that it is whole, a restart rebuilds it again.
            MemberState::Present if unrecorded.contains(&slot) => {
                DeviceState::Rebuilding { done_stripes: total_stripes, ahead_stripes: None, total_stripes }
            }
            MemberState::Present => DeviceState::Present,
            MemberState::Lost { .. } => DeviceState::Lost,
            MemberState::Rebuilding { cursor, ahead, .. } => DeviceState::Rebuilding {
                done_stripes: cursor.0,
                ahead_stripes: (ahead.rows != 0).then_some(ahead.until.0),
                total_stripes,
            },
        };
        let devices = (0..).map(Slot).zip(self.maps.members()).zip(self.noting.counts());
        Status {
            devices: devices
                .map(|((slot, member), &counts)| DeviceStatus {
                    slot,
                    state: state(slot, member),
                    counts,
                    known: self.device_note(slot),
                })
                .collect(),
            dirty_blocks: self.memory.blocks() as u64,
            epochs: self.epoch_statuses(),
            wasted_stripes: self.delayed.wasted_stripes(),
            epoch_blocks_in_memory: self.delayed.blocks_in_memory() as u64,
            log_rows_used: self.maps.rows().len() as u64,
            log_rows: self.geometry.log_rows().into(),
            log_blocks: self.maps.log_blocks() as u64,
            log_blocks_lost: self.losses(&[]).log_blocks,
            stripes_used: u64::from(self.geometry.physical_stripes()) - self.maps.free().len() as u64,
            free_stripes: self.maps.free().len() as u64,
            broken_stripes: self.damage.broken_stripes() as u64,
            suspect_stripes: self.damage.suspects().len() as u64,
            rebuilt_blocks: self.members.rebuilt_blocks(),
            scrub: self.scrub_status(),
            device_scrub: self.device_scrub_status(),
            failed: self.service.has_failed()
                && !(self.service.reads_only() && self.planners.stripes_bear.bears(&self.maps.absent())),
            reads_only: self.service.reads_only(),
            next_generation: self.maps.generation(),
            apart: self.members.apart().to_vec(),
            histories_forgotten: histories_are_forgotten(self.snapshots.superblock()),
            ranges: self.maps.notes().ranges(),
            events: self.maps.notes().events.iter().copied().collect(),
            notes_lost: self.maps.notes().are_lost,
        }
    }
}
