//! Bugs on purpose: each breaks one rule that keeps flushed content, and the simulation must find
//! it.

use crate::engine::Engine;
use crate::maps::Mapping;
use crate::patch::{Updates, in_runs};
use crate::{Action, DeviceBlock, Piece, Slot};
use std::cell::Cell;
use std::collections::BTreeMap;

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Bug {
    /// A commit does not flush the last device that is present.
    SkipsFlush,
    /// Every eighth record is written at the place of the one behind it.
    SwapsRecords,
    /// A stripe is written to the place that another stripe of the same commit is about to free.
    ReusesFreedTooEarly,
    /// A device that comes back counts as present at once.
    TrustsStaleDevice,
    /// A device that had a slot before another one counts as that other one.
    TakesEarlierDevice,
    /// Blocks of a device are used without a comparison.
    DropsChecksum,
    /// Checksums are seeded with no generation, and headers of any generation count.
    ForgetsGeneration,
    /// Requests are answered although a device was lost and no record says so; the next record for
    /// another reason does.
    AnswersBeforeLossIsRecorded,
    /// The cursor of a rebuild moves when its writes are done, without a flush.
    MovesCursorBeforeFlush,
    /// Rows that are rebuilt ahead count before any is written. Not in [`Bug::ALL`]: worlds are at
    /// rest when the margin is tested.
    CountsRowsAheadTooEarly,
    /// A physical stripe that is being read is written to.
    IgnoresPins,
    /// The superblock that refers to a snapshot is written without a flush of the snapshot.
    RefersToUnflushedSnapshot,
    /// A session has the number of the one before.
    KeepsSessionNumber,
    /// The last record counts without a check of its blocks.
    BelievesLastRecord,
    /// Records overwrite the oldest of the ring that no snapshot has.
    OverrunsJournal,
    /// Generations of a forgotten record are given again.
    GivesGenerationsAgain,
    /// A flush is answered when the writes of its commit are done.
    AnswersBeforeFlush,
    /// Scrub calls everything clean.
    ScrubSeesNothing,
    /// The scrub of one device does not read its blocks of the log.
    ScrubOfOneSkipsLog,
    /// The lookup of a block gives its devices although memory has newer content.
    LooksPastMemory,
    /// A record is written beside the one whose durability it states.
    ProvesTooEarly,
    /// The margin is one device too high.
    PromisesOneMore,
    /// The margin leaves the log out.
    LeavesLogOut,
    /// The margin counts known bad chunks as good.
    TakesBadForGood,
    /// An epoch ends before the writes of its parity have been reported, so that no flush covers
    /// them. With epochs only, as those below, and not in [`Bug::ALL`] but in [`Bug::OF_EPOCHS`].
    EndsBeforeParity,
    /// The record of an end leaves out the last stripe.
    EndsInPart,
    /// Others may write to blocks of an epoch.
    LetsOthersWrite,
    /// The place of a stripe of an epoch that is aborted is free although its last write is not
    /// reported.
    FreesEpochTooEarly,
    /// Blocks of an epoch that only a lost device had are not reported as lost.
    ForgetsEpochLosses,
    /// Parity that was made in advance counts although the data have changed.
    KeepsStaleParity,
    /// A patch is written home together with the record that speaks of it. With patches only, as
    /// those below, and not in [`Bug::ALL`] but in [`Bug::OF_PATCHES`].
    GoesHomeTooEarly,
    /// The rows of a patch are free as soon as it is home, before a record says so.
    FreesPatchRowsTooEarly,
    /// A device that is lost while a patch is under way counts as one that has it.
    TrustsUnpatchedDevice,
    /// A session that begins without a device that may have the history keeps it. Shown by volumes
    /// that run in two places, and not in [`Bug::ALL`].
    KeepsHistory,
}

impl Bug {
    /// All that a volume without patches and epochs can have.
    pub const ALL: [Bug; 23] = [
        Bug::SkipsFlush,
        Bug::SwapsRecords,
        Bug::ReusesFreedTooEarly,
        Bug::TrustsStaleDevice,
        Bug::TakesEarlierDevice,
        Bug::DropsChecksum,
        Bug::ForgetsGeneration,
        Bug::AnswersBeforeLossIsRecorded,
        Bug::MovesCursorBeforeFlush,
        Bug::IgnoresPins,
        Bug::RefersToUnflushedSnapshot,
        Bug::KeepsSessionNumber,
        Bug::BelievesLastRecord,
        Bug::OverrunsJournal,
        Bug::GivesGenerationsAgain,
        Bug::AnswersBeforeFlush,
        Bug::ScrubSeesNothing,
        Bug::ScrubOfOneSkipsLog,
        Bug::LooksPastMemory,
        Bug::ProvesTooEarly,
        Bug::PromisesOneMore,
        Bug::LeavesLogOut,
        Bug::TakesBadForGood,
    ];

    /// All that a volume can have in its patches.
    pub const OF_PATCHES: [Bug; 3] =
        [Bug::GoesHomeTooEarly, Bug::FreesPatchRowsTooEarly, Bug::TrustsUnpatchedDevice];

    /// All that a volume can have in its epochs.
    pub const OF_EPOCHS: [Bug; 6] = [
        Bug::EndsBeforeParity,
        Bug::EndsInPart,
        Bug::LetsOthersWrite,
        Bug::FreesEpochTooEarly,
        Bug::ForgetsEpochLosses,
        Bug::KeepsStaleParity,
    ];
}

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Runs something with a bug in every volume of this thread.
pub fn with<T>(bug: Option<Bug>, run: impl FnOnce() -> T) -> T {
    struct Before(Option<Bug>);
    impl Drop for Before {
        fn drop(&mut self) {
            PLANTED.set(self.0);
        }
    }
    let _before = Before(PLANTED.replace(bug));
    run()
}

/// Returns true if volumes of this thread have a bug. Every line of `bugs.patch` asks it.
pub(crate) fn has(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Returns the writes of a patch that goes home together with its record.
pub(crate) fn written_too_early(engine: &Engine, updates: &Updates) -> Vec<(Slot, DeviceBlock, Vec<Piece>)> {
    let mut pieces = BTreeMap::new();
    for update in updates.stripes.iter().filter(|_| has(Bug::GoesHomeTooEarly)) {
        let Mapping { physical, generation } = update.mapping;
        for &(cell, offset) in &update.places {
            let at = engine.geometry.cell_block(physical, cell, offset);
            pieces.insert(at, (1, Piece::Block(update.content((cell, offset)))));
        }
        for (&slot, sums) in &update.sums {
            let (header, _) = engine.chunk_header(update.logical, physical, generation, slot, sums);
            let at = (slot, engine.geometry.chunk_start(physical, slot));
            pieces.insert(at, (engine.geometry.header_blocks(slot).into(), Piece::Bytes(header)));
        }
    }
    pieces.retain(|(slot, _), _| engine.maps.is_present(*slot));
    in_runs(pieces)
}

/// Removes the generation from the checksums of an action.
pub(crate) fn forget_generation(action: &mut Action) {
    match action {
        Action::Read { generation, .. } => *generation = 0,
        Action::Compute { work, .. } => work.checksums.iter_mut().for_each(|(_, seed)| seed.generation = 0),
        _ => {}
    }
}
