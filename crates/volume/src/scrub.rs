//! Scrub: reads and verifies all metadata and everything that the maps point to. Bad parts are
//! reported and, with repair, written again.
//!
//! First come superblocks, journals and snapshots ([`metadata`]), then the log, then stripes. A
//! scrub with repair ends with a snapshot, which replaces all records, and writes all three
//! superblocks: bad ones are good then, without a note of each.
//!
//! A stripe is judged in two steps. The first uses checksums: a block that differs from its chunk's
//! header, or a header that differs from the maps, identifies the device. If all checksums are
//! right, the second step uses the code: parity is computed from the data and must have the
//! checksums of the written parity. If it does not, memory or a computation was wrong when the
//! stripe was written. Each column is then tried as the only wrong one: if one fits it is
//! *located*, if several fit the stripe is *ambiguous*, if none fits it is *unlocatable*. A located
//! column is written again only if it has parity alone, so users' data are never replaced on this
//! evidence. It must also differ in so many places that a larger error looks the same less than
//! once in 2^40 ([`Locator::evidence_bits`]).
//!
//! A scrub of one device ([`device`]) reads what that device holds and verifies it by checksums.
//! The scrub of all devices is suspended meanwhile.

mod device;
mod kept;
mod metadata;

use self::metadata::Metadata;
use crate::engine::{Engine, IoOwner, JobOwner};
use crate::maps::Mapping;
use crate::span::Place;
use crate::{
    Action, BadMetadata, BufferId, Compute, Computed, DeviceScrub, IoResult, Operand, Scrub, ScrubStatus,
    Seed, Slot, Sum, Urgency,
};
use pantile_code::CellIndex;
use pantile_format::volume::EventKind;
use pantile_plan::{CellSet, EVIDENCE_BITS_LEAST, Locator};
use std::collections::{BTreeMap, BTreeSet};

/// The most blocks that are read at a time: 8 MiB.
const WINDOW_BLOCKS: u64 = 2048;

const SUPERBLOCKS: u32 = 3;

/// Windows between two records of a scrub's position: half a GiB of stripes.
const RECORDED_WINDOWS: u64 = 64;

/// The scrubs of a volume: of each kind the last one.
#[derive(Debug, Default)]
pub(crate) struct Scrubs {
    /// The scrub that reads, if one does, else the last one.
    current: Option<Scrubbing>,
    /// The scrub of all devices, suspended for the scrub of one, with nothing under way.
    aside: Option<Scrubbing>,
    /// The last scrub of one device. A wanted one is here too: it may have to wait before it
    /// begins.
    of_device: Option<DeviceScrub>,
}

/// A scrub that is running, paused or over.
#[derive(Debug)]
struct Scrubbing {
    /// The device, for a scrub of one device.
    only: Option<Slot>,
    /// For a scrub of one device: its journal has records that only a comparison with others could
    /// judge.
    has_old_records: bool,
    /// For a scrub of one device: the device was lost meanwhile.
    is_interrupted: bool,
    status: ScrubStatus,
    metadata: Metadata,
    /// The snapshot that ends a repair has been requested.
    mends: bool,
    next_row: u32,
    next_stripe: u32,
    checking: BTreeMap<u32, Checking>,
    /// Cells of rows that are being read: their buffer, checksum and generation.
    rows: BTreeMap<(u32, usize), RowCheck>,
    outstanding: usize,
    /// Stages with names up to this one must be recorded before the scrub begins; else it would
    /// miss their stripes.
    barrier: u64,
    /// Bad stripes that must be written again.
    flagged: BTreeSet<u32>,
    /// The number of such stripes that were written again from their other chunks.
    repaired: u64,
    /// Stripes with more losses than the code tolerates.
    beyond_repair: BTreeSet<u32>,
    /// The number of bad stripes that only a guess could repair.
    unnamed: u64,
    /// Numbers of stripes that were repaired, and that could not be, before a restart.
    before: (u64, u64),
    /// Position and findings at the last moment when nothing was under way.
    at_rest: (u32, ScrubStatus),
    windows: u64,
}

#[derive(Debug)]
struct RowCheck {
    buffer: BufferId,
    expected: u64,
    generation: u64,
}

#[derive(Debug)]
struct Checking {
    mapping: Mapping,
    /// The device that alone was read, if so.
    only: Option<Slot>,
    /// Blocks that were read, kept until the equations have been checked.
    blocks: BTreeMap<Place, BufferId>,
    scratch: Vec<BufferId>,
    /// The trial of each column; empty in the first step.
    trials: Vec<Trial>,
}

/// Numbers of results of a computation that belong to the trial of one column.
#[derive(Clone, Copy, Debug)]
struct Trial {
    checksums: usize,
    compared: usize,
}

impl Engine {
    /// Starts, pauses, resumes or stops the scrub.
    pub(crate) fn scrub(&mut self, wish: Scrub) {
        match wish {
            Scrub::Start { repair } => {
                let fresh = self.fresh_scrub(repair);
                // Only a scrub with repair does everything that a scrub of one device does.
                let Scrubs { current, aside, of_device } = &mut self.scrubs;
                *of_device = of_device.filter(|scrub| !(scrub.running && repair));
                *aside = None;
                match current {
                    Some(Scrubbing { only: Some(_), .. }) if !repair => *aside = Some(fresh),
                    // Reads under way end first; then the scrub begins again.
                    Some(scrub) if scrub.outstanding > 0 => {
                        let (checking, rows) =
                            (std::mem::take(&mut scrub.checking), std::mem::take(&mut scrub.rows));
                        *scrub = Scrubbing { checking, rows, outstanding: scrub.outstanding, ..fresh };
                    }
                    current => *current = Some(fresh),
                }
                self.event(EventKind::SCRUB_BEGUN, None, 0);
            }
            Scrub::Device(slot) => self.want_device_scrub(slot),
            Scrub::Pause | Scrub::Resume | Scrub::Stop => {
                let mut ends = false;
                if let Some(scrub) = self.whole_scrub_mut() {
                    ends = wish == Scrub::Stop && scrub.status.running;
                    scrub.status.paused = wish == Scrub::Pause && scrub.status.running;
                    scrub.status.running &= wish != Scrub::Stop;
                    scrub.status.stopped |= ends;
                }
                if ends {
                    self.note_scrub_end();
                }
            }
        }
        self.want_record_of_notes();
    }

    /// Makes the state of a scrub that is about to begin.
    fn fresh_scrub(&mut self, repair: bool) -> Scrubbing {
        let total = u64::from(self.geometry.logical_stripes());
        let begun_at = self.noting.now();
        let status = ScrubStatus { total, repair, running: true, begun_at, ..ScrubStatus::default() };
        Scrubbing::new(status, Metadata::new(self.io.next_id()), self.io.counter())
    }

    /// Begins the next part of the scrub if none is under way.
    pub(crate) fn drive_scrub(&mut self) {
        loop {
            self.turn_to_device_scrub();
            let Some(scrub) = &mut self.scrubs.current else { return };
            if scrub.outstanding > 0
                || !scrub.status.running
                || scrub.status.paused
                || self.service.has_failed()
            {
                return;
            }
            if scrub.is_interrupted {
                self.end_device_scrub(false);
                continue;
            }
            if self.staging.has_one_before(scrub.barrier) {
                self.memory.want_commit();
                self.drive_commit();
                return;
            }
            let next = scrub.next_stripe;
            if self.is_redoing() || self.patching.is_locked(next) {
                return;
            }
            let Some(scrub) = &mut self.scrubs.current else { return };
            scrub.at_rest = (scrub.next_stripe, scrub.status.clone());
            scrub.windows += 1;
            // The position is recorded now and then, so that a scrub does not restart from zero
            // after a crash.
            self.records.want_if(scrub.only.is_none() && scrub.windows.is_multiple_of(RECORDED_WINDOWS));
            scrub.outstanding = 1;
            if !scrub.metadata.is_over() {
                if !self.scrub_metadata() {
                    self.scrub_part_done();
                    return;
                }
            } else if scrub.next_row < self.geometry.log_rows() {
                self.scrub_rows();
            } else if scrub.next_stripe < self.geometry.logical_stripes() {
                self.scrub_stripes();
            } else {
                scrub.outstanding = 0;
                let begins = scrub.status.repair && !std::mem::replace(&mut scrub.mends, true);
                let is_sound = scrub.status.metadata.is_empty() && !scrub.has_old_records;
                if begins && !(scrub.only.is_some() && is_sound) {
                    // The maps have been written to every device again, and so will be the
                    // superblocks.
                    let without_text = scrub.status.metadata.iter().filter(|bad| bad.definition);
                    self.snapshots.lack_text(without_text.map(|bad| bad.slot));
                    self.snapshots.want_everywhere();
                    self.drive_commit();
                }
                let (mut has_ended, mut is_of_device) = (false, false);
                if let Some(scrub) = &mut self.scrubs.current {
                    let mends = self.snapshots.is_pending();
                    let repairs = scrub.flagged.iter().any(|logical| self.damage.is_suspect(*logical));
                    scrub.status.running = scrub.status.repair && (mends || repairs);
                    (has_ended, is_of_device) = (!scrub.status.running, scrub.only.is_some());
                }
                match (has_ended, is_of_device) {
                    (true, true) => {
                        self.end_device_scrub(true);
                        continue;
                    }
                    (true, false) => self.note_scrub_end(),
                    (false, _) => {}
                }
                return;
            }
            self.scrub_part_done();
        }
    }

    /// Returns devices with most superblocks bad: an opening would take them for empty ones and
    /// rebuild them.
    pub(crate) fn with_bad_superblocks(&self) -> BTreeSet<Slot> {
        let found = self.bad_metadata().filter(|bad| 2 * bad.superblocks > SUPERBLOCKS);
        found.map(|bad| bad.slot).collect()
    }

    /// Returns devices whose maps an opening could not use.
    pub(crate) fn with_bad_maps(&self) -> BTreeSet<Slot> {
        let is_bad = |bad: &&BadMetadata| bad.superblocks > 0 || bad.journal || bad.snapshot;
        self.bad_metadata().filter(is_bad).map(|bad| bad.slot).collect()
    }

    /// Returns the bad metadata that scrubs of this session have found and not written again.
    fn bad_metadata(&self) -> impl Iterator<Item = &BadMetadata> {
        let is_mended = |status: &ScrubStatus| status.repair && !status.running && !status.stopped;
        let status = self.scrubs.current.iter().chain(&self.scrubs.aside).map(|scrub| &scrub.status);
        status.filter(move |status| !is_mended(status)).flat_map(|status| &status.metadata)
    }

    fn scrub_rows(&mut self) {
        let Some(scrub) = &mut self.scrubs.current else { return };
        let mut reads = Vec::new();
        let from = scrub.next_row;
        scrub.next_row = self.geometry.log_rows();
        for (&number, row) in self.maps.rows().range(from..) {
            if reads.len() as u64 >= WINDOW_BLOCKS {
                scrub.next_row = number;
                break;
            }
            for (index, cell) in row.cells.iter().enumerate() {
                if scrub.is_of(cell.slot) && self.maps.has(cell.slot, row.generation, None) {
                    reads.push((number, index, cell.slot, cell.checksum, row.generation));
                }
            }
        }
        scrub.outstanding += reads.len();
        for (row, cell, slot, expected, generation) in reads {
            let buffer = self.io.new_buffer();
            if let Some(scrub) = &mut self.scrubs.current {
                scrub.rows.insert((row, cell), RowCheck { buffer, expected, generation });
            }
            let io = self.io.new_io(slot, IoOwner::ScrubRow { row, cell });
            let (at, urgency) = (self.geometry.row_block(row), Urgency::Background);
            self.io.act(Action::Read { io, slot, at, into: vec![buffer], generation, urgency });
        }
    }

    pub(crate) fn scrubbed_row_cell(&mut self, row: u32, cell: usize, slot: Slot, result: &IoResult) {
        let Some(scrub) = &mut self.scrubs.current else { return };
        let Some(RowCheck { buffer, expected, generation }) = scrub.rows.remove(&(row, cell)) else { return };
        scrub.status.log_blocks += 1;
        self.io.release(buffer);
        let is_good = matches!(result, IoResult::Checksums(sums) if sums[..] == [expected]);
        // A row that was freed in between may have been written again.
        let current = self.maps.row_as_of(row, generation);
        if is_good && current.is_some() {
            self.row_block_is_good(slot, row);
        }
        let current = self.maps.row_as_of(row, generation);
        if let (false, Some(current), true) = (is_good, current, self.maps.has(slot, generation, None)) {
            let homes: BTreeSet<u32> =
                current.blocks.iter().flatten().map(|&block| self.geometry.locate(block).0).collect();
            let is_wrong = *result != IoResult::MediaError;
            self.noting.count_unreadable(slot, !is_wrong);
            self.noting.count_wrong(slot, u64::from(is_wrong));
            if let Some(scrub) = &mut self.scrubs.current {
                scrub.status.log_checksum += u64::from(is_wrong);
                scrub.status.log_unreadable += u64::from(!is_wrong);
                if scrub.status.repair {
                    homes.into_iter().for_each(|logical| self.repair_for_scrub(logical));
                }
            }
            self.row_block_is_bad(slot, row, generation, result);
        }
        self.scrub_part_done();
    }

    fn scrub_stripes(&mut self) {
        let Some(scrub) = &mut self.scrubs.current else { return };
        let only = scrub.only;
        let whole = self.geometry.code.cell_count() as u64 * u64::from(self.geometry.element_blocks());
        let stripe_blocks = match only {
            Some(_) => whole.div_ceil(self.geometry.slots() as u64),
            None => whole,
        };
        let mut wanted = Vec::new();
        let mut blocks = 0;
        while scrub.next_stripe < self.geometry.logical_stripes() && blocks < WINDOW_BLOCKS {
            let logical = scrub.next_stripe;
            if self.patching.is_locked(logical) {
                break;
            }
            scrub.next_stripe += 1;
            match self.maps.mapping(logical) {
                Some(mapping) => {
                    blocks += stripe_blocks;
                    wanted.push((logical, mapping));
                }
                None => scrub.status.done += 1,
            }
        }
        scrub.outstanding += wanted.len();
        for &(logical, mapping) in &wanted {
            // The headers of the stripe stay in memory until it is judged.
            self.pins.pin(mapping.physical);
            let (blocks, scratch, trials) = (BTreeMap::new(), Vec::new(), Vec::new());
            scrub.checking.insert(logical, Checking { mapping, only, blocks, scratch, trials });
        }
        wanted.into_iter().for_each(|(logical, mapping)| self.check_stripe(logical, mapping, only));
    }

    /// Judges a stripe of which all, or all of one device, has been read. `bad`: devices with
    /// something wrong, and true if any of that could be read.
    pub(crate) fn stripe_checked(
        &mut self,
        logical: u32,
        mapping: Mapping,
        bad: &BTreeMap<Slot, bool>,
        found: BTreeMap<Place, BufferId>,
    ) {
        let is_current = self.maps.mapping(logical) == Some(mapping);
        let checking = self.scrubs.current.as_ref().and_then(|scrub| scrub.checking.get(&logical));
        let only = checking.and_then(|checking| checking.only);
        let read = (0..self.geometry.slots() as u32).map(Slot);
        let read = read.filter(|slot| only.is_none_or(|only| only == *slot));
        for slot in read.filter(|slot| !bad.contains_key(slot)) {
            if is_current && self.maps.has(slot, mapping.generation, Some(logical)) {
                self.chunk_is_good(slot, logical);
            }
        }
        let should = |slot: &Slot| self.maps.has(*slot, mapping.generation, Some(logical));
        let judged: Vec<bool> =
            bad.iter().filter(|(slot, _)| should(slot)).map(|(_, &wrong)| wrong).collect();
        let is_bad = is_current && !judged.is_empty();
        let is_wrong = is_bad && judged.contains(&true);
        let is_whole =
            found.len() == self.geometry.code.cell_count() * self.geometry.element_blocks() as usize;
        if !is_current || is_bad || !bad.is_empty() || !is_whole || only.is_some() {
            let Some(scrub) = &mut self.scrubs.current else { return };
            scrub.status.checksum += u64::from(is_wrong);
            scrub.status.unreadable += u64::from(is_bad && !is_wrong);
            scrub.status.clean += u64::from(!is_bad);
            let repair = is_bad && scrub.status.repair;
            self.stripe_judged(logical, repair);
            return;
        }
        let encode = self.planners.encode_stripe.clone();
        let blocks = found;
        blocks.values().for_each(|&buffer| self.io.hold(buffer));
        let (mut sums, mut checksums, mut scratch) = (Vec::new(), Vec::new(), Vec::new());
        for offset in 0..self.geometry.element_blocks() {
            let mut made = BTreeMap::new();
            self.add_steps(&encode.steps, &blocks, offset, &mut made, &mut sums, &mut scratch);
            checksums
                .extend(made.iter().map(|(&cell, &buffer)| self.seeded(mapping, (cell, offset), buffer)));
        }
        let Some(scrub) = &mut self.scrubs.current else { return };
        if let Some(checking) = scrub.checking.get_mut(&logical) {
            (checking.blocks, checking.scratch) = (blocks, scratch);
        }
        self.io.compute(JobOwner::ScrubStripe(logical), Compute { sums, checksums, ..Compute::default() });
    }

    fn seeded(&self, mapping: Mapping, (cell, offset): Place, buffer: BufferId) -> (Operand, Seed) {
        let (slot, address) = self.geometry.cell_block(mapping.physical, cell, offset);
        (Operand::Buffer(buffer), Seed { slot, address, generation: mapping.generation })
    }

    /// Adds the steps of a plan for the blocks of one offset. Computed blocks take precedence over
    /// those that were read.
    fn add_steps(
        &mut self,
        steps: &[pantile_plan::Step],
        blocks: &BTreeMap<Place, BufferId>,
        offset: u32,
        made: &mut BTreeMap<CellIndex, BufferId>,
        sums: &mut Vec<Sum>,
        scratch: &mut Vec<BufferId>,
    ) {
        for step in steps {
            let into = self.io.new_buffer();
            let of = |cell: CellIndex| made.get(&cell).copied().unwrap_or_else(|| blocks[&(cell, offset)]);
            let terms = step.terms.iter().map(|&(cell, c)| (Operand::Buffer(of(cell)), c)).collect();
            sums.push(Sum { into, terms });
            made.insert(step.target, into);
            scratch.push(into);
        }
    }

    pub(crate) fn scrub_computed(&mut self, logical: u32, computed: &Computed) {
        let Computed { checksums: found, differing } = computed;
        let Some(checking) = self.scrubs.current.as_ref().and_then(|scrub| scrub.checking.get(&logical))
        else {
            return;
        };
        let (mapping, trials) = (checking.mapping, checking.trials.clone());
        if trials.is_empty() {
            let encode = self.planners.encode_stripe.clone();
            let mut parity: Vec<CellIndex> = encode.steps.iter().map(|step| step.target).collect();
            parity.sort_unstable();
            let places = (0..self.geometry.element_blocks())
                .flat_map(|offset| parity.iter().map(move |&cell| (cell, offset)));
            let expected = places.map(|place| self.expected_in_stripe(mapping, place));
            if expected.eq(found.iter().copied().map(Some)) {
                if let Some(scrub) = &mut self.scrubs.current {
                    scrub.status.clean += 1;
                }
                self.stripe_judged(logical, false);
            } else {
                self.try_columns(logical, mapping);
            }
            return;
        }
        // Each trial has returned pairs of checksums that must be equal, and the number of bytes of
        // its column that differ.
        let (mut sums, mut counts) = (&found[..], &differing[..]);
        let mut explained = Vec::new();
        for (column, trial) in trials.iter().enumerate() {
            let (pairs, later) = sums.split_at(trial.checksums);
            let (bytes, later_counts) = counts.split_at(trial.compared);
            (sums, counts) = (later, later_counts);
            if trial.checksums > 0 && pairs.chunks_exact(2).all(|pair| pair[0] == pair[1]) {
                explained.push((column, bytes));
            }
        }
        let repair = matches!(explained[..], [(column, bytes)] if self.is_surely_wrong(column, bytes));
        if let Some(scrub) = &mut self.scrubs.current {
            match explained.len() {
                0 => scrub.status.unlocatable += 1,
                1 => scrub.status.located += 1,
                _ => scrub.status.ambiguous += 1,
            }
            scrub.unnamed += u64::from(!repair);
        }
        let explained: Vec<usize> = explained.into_iter().map(|(column, _)| column).collect();
        self.equations_do_not_hold(logical, mapping, &explained);
        let repair = repair && self.scrubs.current.as_ref().is_some_and(|scrub| scrub.status.repair);
        self.stripe_judged(logical, repair);
    }

    /// Notes a stripe with right checksums whose equations do not hold. The one column that
    /// explains it is bad. If no single one does, all columns with parity are, because they can
    /// recover nothing.
    fn equations_do_not_hold(&mut self, logical: u32, mapping: Mapping, explained: &[usize]) {
        let code = self.geometry.code.clone();
        let has_parity = |column: &usize| code.column_cells(*column).any(|cell| code.is_parity(cell));
        let columns: Vec<usize> = match explained {
            [column] => vec![*column],
            _ => (0..code.columns()).filter(has_parity).collect(),
        };
        for column in columns {
            let slot = self.geometry.slot(mapping.physical, column);
            self.chunk_is_bad(slot, logical, mapping, &IoResult::Checksums(Vec::new()));
        }
    }

    /// Returns true if a column that alone explains the differences is surely wrong, and can be
    /// rebuilt.
    ///
    /// `differing`: for each offset and each cell of the column, the number of bytes that would
    /// change.
    fn is_surely_wrong(&self, column: usize, differing: &[u64]) -> bool {
        let code = &self.geometry.code;
        // Users' data are never rebuilt on this evidence: they have their checksums.
        if !code.column_cells(column).all(|cell| code.is_parity(cell)) {
            return false;
        }
        // The largest number of differing bytes of any cell, for each offset: the column differs in
        // at least as many places.
        let most = |cells: &[u64]| cells.iter().copied().max().unwrap_or(0);
        let places: u64 = differing.chunks(code.rows(column).max(1)).map(most).sum();
        let places = usize::try_from(places).unwrap_or(usize::MAX);
        Locator::new(code, code.claim().tolerance, &CellSet::empty(code))
            .is_ok_and(|locator| locator.evidence_bits(1, places) >= EVIDENCE_BITS_LEAST)
    }

    /// Tries each column as the wrong one, because all checksums are right and the equations do not
    /// hold.
    fn try_columns(&mut self, logical: u32, mapping: Mapping) {
        let blocks = match self.scrubs.current.as_ref().and_then(|scrub| scrub.checking.get(&logical)) {
            Some(checking) => checking.blocks.clone(),
            None => return,
        };
        let code = self.geometry.code.clone();
        let encode = self.planners.encode_stripe.clone();
        let (mut sums, mut checksums, mut scratch, mut trials) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut differing = Vec::new();
        for column in 0..code.columns() {
            let wanted: BTreeSet<CellIndex> = code.column_cells(column).collect();
            let plan = self.planners.recover_in_stripe(&CellSet::of_columns(&code, &[column]), &wanted);
            let before = (checksums.len(), differing.len());
            for offset in 0..if plan.is_some() { self.geometry.element_blocks() } else { 0 } {
                let mut recovered = BTreeMap::new();
                let steps = plan.as_ref().map(|plan| plan.steps.clone()).unwrap_or_default();
                self.add_steps(&steps, &blocks, offset, &mut recovered, &mut sums, &mut scratch);
                let mut made = recovered.clone();
                self.add_steps(&encode.steps, &blocks, offset, &mut made, &mut sums, &mut scratch);
                let pair = |&cell: &CellIndex| {
                    (Operand::Buffer(recovered[&cell]), Operand::Buffer(blocks[&(cell, offset)]))
                };
                differing.extend(wanted.iter().map(pair));
                for step in &encode.steps {
                    let cell = step.target;
                    let there = recovered.get(&cell).copied().unwrap_or_else(|| blocks[&(cell, offset)]);
                    checksums.push(self.seeded(mapping, (cell, offset), made[&cell]));
                    checksums.push(self.seeded(mapping, (cell, offset), there));
                }
            }
            let (checksums, compared) = (checksums.len() - before.0, differing.len() - before.1);
            trials.push(Trial { checksums, compared });
        }
        if let Some(checking) =
            self.scrubs.current.as_mut().and_then(|scrub| scrub.checking.get_mut(&logical))
        {
            checking.trials = trials;
            checking.scratch.extend(scratch);
        }
        self.io.compute(JobOwner::ScrubStripe(logical), Compute { sums, checksums, differing });
    }

    fn stripe_judged(&mut self, logical: u32, repair: bool) {
        let Some(scrub) = &mut self.scrubs.current else { return };
        scrub.status.done += 1;
        if let Some(checking) = scrub.checking.remove(&logical) {
            self.pins.unpin(checking.mapping.physical);
            let buffers = checking.blocks.into_values().chain(checking.scratch);
            buffers.collect::<Vec<_>>().into_iter().for_each(|buffer| self.io.release(buffer));
        }
        if repair {
            self.repair_for_scrub(logical);
        }
        self.scrub_part_done();
    }

    /// Makes a stripe suspect, so that it is written again, even if that failed before.
    fn repair_for_scrub(&mut self, logical: u32) {
        self.scrubs.current.iter_mut().for_each(|scrub| _ = scrub.flagged.insert(logical));
        self.damage.retry(logical);
    }

    fn scrub_part_done(&mut self) {
        if let Some(scrub) = &mut self.scrubs.current {
            scrub.outstanding -= 1;
        }
    }
}
