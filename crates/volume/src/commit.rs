//! Makes memory durable: one commit at a time, each of which is one atomic change of the maps.
//!
//! A commit takes the sealed blocks of memory ([`crate::memory`]), or as many as the log and the
//! free stripes have room for, and goes through four phases:
//!
//! 1. gather: the current content of the stripes that are merged is fetched;
//! 2. compute: parity and the checksum of every block are computed;
//! 3. write: data, parity, headers, log blocks and the record are written, all at once;
//! 4. flush: every device that is present is flushed once.
//!
//! Then the maps are switched, replaced stripes and rows are freed, and memory is released. Nothing
//! that the maps point to is overwritten before the record that replaces it is durable: new stripes
//! and rows come from the free ones, and those that this commit frees are free for the next commit.

mod sealing;

use crate::cleaning::MERGES_MOST;
use crate::engine::{Engine, IoOwner, JobOwner};
use crate::fetch::{Later, Requester};
use crate::maps::{Change, Mapping, Row, RowCell, RowKind};
use crate::memory::Age;
use crate::notes::add_notes;
use crate::patch::Updates;
use crate::span::Place;
use crate::staging::StageId;
use crate::{
    Action, BLOCK_BYTES, BufferId, Compute, Computed, DeviceBlock, EpochId, Operand, Piece, Seed, Slot, Sum,
    Urgency, UserBlock,
};
use pantile_format::volume::{MEMBER_BYTES, RECORD_BLOCKS_MAX, RECORD_HEAD_BYTES};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Gather,
    Compute,
    Write,
    Flush,
}

/// A commit under way.
#[derive(Debug)]
pub(crate) struct Commit {
    /// The first generation that the commit writes.
    pub(crate) first_generation: u64,
    phase: Phase,
    pub(crate) stripes: Vec<StripeWrite>,
    /// Stripes that were written ahead of the commit.
    ahead: Vec<StageId>,
    pub(crate) rows: Vec<RowWrite>,
    changes: Vec<Change>,
    /// The number of fetches, computations or I/Os that the phase waits for.
    pub(crate) outstanding: usize,
    /// A block that a merge needs is lost: the commit is undone.
    pub(crate) hopeless: bool,
    pub(crate) members_changed: bool,
    /// It writes an empty record, which proves that the one before is durable.
    proves: bool,
    has_record: bool,
    /// The epoch that the commit ends.
    pub(crate) ends: Option<EpochId>,
    /// Stripes that are patched when the record of this commit is durable.
    pub(crate) patch: Option<Updates>,
    /// Its record names the blocks that went home before it, which the log then forgets.
    forgets_home: bool,
    /// It writes the blocks of the last record again, byte for byte, without a new record or
    /// change.
    again: bool,
    /// The blocks of the last record, for the devices that lack it.
    copies: Vec<(Slot, DeviceBlock, Vec<u8>)>,
}

impl Commit {
    /// Begins an empty commit.
    pub(crate) fn new(first_generation: u64) -> Commit {
        Commit {
            first_generation,
            phase: Phase::Gather,
            stripes: Vec::new(),
            ahead: Vec::new(),
            rows: Vec::new(),
            changes: Vec::new(),
            outstanding: 0,
            hopeless: false,
            members_changed: false,
            proves: false,
            has_record: false,
            ends: None,
            patch: None,
            forgets_home: false,
            again: false,
            copies: Vec::new(),
        }
    }

    /// Begins a commit whose record has the states of devices alone.
    pub(crate) fn of_members(generation: u64) -> Commit {
        Commit { members_changed: true, ..Commit::proof(generation) }
    }

    /// Begins a commit of an empty record.
    pub(crate) fn proof(generation: u64) -> Commit {
        Commit { proves: true, outstanding: 1, ..Commit::new(generation) }
    }
}

/// A stripe that is written as a whole.
#[derive(Debug)]
pub(crate) struct StripeWrite {
    pub(crate) logical: u32,
    physical: u32,
    generation: u64,
    /// Content by the block's place in the stripe.
    pub(crate) content: Vec<Option<Operand>>,
    /// Data and parity by cell and offset; empty until they are computed.
    blocks: Vec<Operand>,
    parity: Vec<BufferId>,
    checksums: Vec<u64>,
}

impl StripeWrite {
    pub(crate) fn new(logical: u32, physical: u32, generation: u64, per_stripe: usize) -> StripeWrite {
        let (content, blocks) = (vec![None; per_stripe], Vec::new());
        let (parity, checksums) = (Vec::new(), Vec::new());
        StripeWrite { logical, physical, generation, content, blocks, parity, checksums }
    }
}

/// Returns numbers as runs of consecutive ones: first and count.
pub(crate) fn runs_of(numbers: &BTreeSet<u32>) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((first, count)) if *first + *count == number => *count += 1,
            _ => runs.push((number, 1)),
        }
    }
    runs
}

/// A log row that is written.
#[derive(Debug)]
pub(crate) struct RowWrite {
    row: u32,
    generation: u64,
    kind: RowKind,
    pub(crate) blocks: Vec<Option<UserBlock>>,
    /// Slot and content of every block of the row.
    cells: Vec<(Slot, Operand)>,
    parity: Vec<BufferId>,
    checksums: Vec<u64>,
}

impl Engine {
    /// Returns the number of user blocks that one row of copies holds.
    ///
    /// While no more than t devices are lost a row uses all slots: any t + 1 of them include one
    /// that is present, so each block has a copy there. Beyond t only present devices are used.
    fn copies_per_row(&self) -> usize {
        let (slots, lost, tolerance) =
            (self.geometry.slots(), self.maps.absent().len(), self.geometry.tolerance());
        let devices = if lost <= tolerance { slots } else { slots - lost };
        (devices / (tolerance + 1)).max(1)
    }

    /// Returns how many of these blocks go to coded rows: none if such rows could not be read with
    /// the devices that are present. The last coded row is padded with zeros if its blocks would
    /// otherwise need more than one row of copies.
    fn coded(&self, blocks: usize) -> usize {
        if !self.planners.rows_bear.bears(&self.maps.absent()) {
            return 0;
        }
        let rest = blocks % self.planners.row.code().data().len();
        if rest > self.copies_per_row() { blocks } else { blocks - rest }
    }

    pub(crate) fn rows_needed(&self, blocks: usize) -> usize {
        let (full, coded) = (self.planners.row.code().data().len(), self.coded(blocks));
        coded.div_ceil(full) + (blocks - coded).div_ceil(self.copies_per_row())
    }

    /// Returns stripes to write as a whole although not all of their blocks are dirty. These are
    /// stripes that did not verify, and those merged to empty the log.
    fn forced(&self, patches_go_on: bool) -> BTreeSet<u32> {
        let merged = self.stripes_to_merge(patches_go_on);
        self.damage.suspects().chain(merged).collect()
    }

    /// Returns the bytes that a record has room for, beside the states of members and blocks that
    /// went home.
    pub(crate) fn record_room(&self) -> u64 {
        let blocks = u64::from(self.geometry.journal_blocks() / 4).min(u64::from(RECORD_BLOCKS_MAX));
        let members = (self.geometry.slots() * MEMBER_BYTES) as u64;
        let taken = members + self.forget_bytes() + RECORD_HEAD_BYTES as u64 + size_of::<u64>() as u64;
        (blocks * BLOCK_BYTES).saturating_sub(taken)
    }

    /// Returns the bytes that a stripe switch takes in a record, including the entries by which the
    /// log forgets the stripe's blocks.
    pub(crate) fn switch_bytes(&self) -> u64 {
        2 * 64 + 8 * self.geometry.slots() as u64
    }

    /// Chooses the blocks of the commit and the places they go to. Stripes that are wholly dirty,
    /// or must be written again, go to free places, and the rest goes to the log. If the log has no
    /// room, the fullest stripes are merged home; the others wait.
    fn begin_commit(&mut self) {
        let per_stripe = self.geometry.stripe_blocks() as usize;
        let patches_go_on = self.patching.take_turn();
        let kept = if patches_go_on { self.rows_for_patches() } else { 0 };
        let free_rows = self.maps.free_rows().len().saturating_sub(self.pins.row_count() + kept);
        let by_stripe = self.memory.committing_stripes();
        let is_full = |count: usize| count == per_stripe;
        let usable = self.maps.free().iter().filter(|stripe| !self.pins.holds(*stripe));
        let most = by_stripe.len() + self.damage.suspects().len() + MERGES_MOST;
        let mut free: Vec<u32> = usable.take(most).collect();
        free.reverse();
        // Stripes to clean are chosen first: they make room in the log.
        let switch_bytes = self.switch_bytes();
        let mut room = self.record_room();
        let mut chosen: BTreeSet<u32> = BTreeSet::new();
        let full = by_stripe.iter().filter(|(_, count)| is_full(**count)).map(|(&logical, _)| logical);
        let (ahead, unready) = self.staging.by_state(self.memory.staged(Age::Committing));
        let ahead: BTreeMap<u32, StageId> = ahead
            .into_iter()
            .filter(|_| {
                let fits = room >= switch_bytes;
                room -= if fits { switch_bytes } else { 0 };
                fits
            })
            .collect();
        let forced: Vec<u32> = self.forced(patches_go_on).into_iter().chain(full).collect();
        let mut gathers_left = (self.reads.room().gather / per_stripe).max(1);
        let is_later = self.stages_wait() && self.stage_place().is_some();
        let later = self.memory.leave_to_staging(is_later);
        let staged = self.memory.staged(Age::Committing);
        let is_staged = |l: &u32| staged.contains_key(l) || later.contains(l);
        for logical in forced.into_iter().filter(|logical| !is_staged(logical)) {
            let gathers = usize::from(!by_stripe.get(&logical).is_some_and(|&count| is_full(count)));
            let fits = chosen.len() < free.len() && room >= switch_bytes && gathers <= gathers_left;
            if fits && chosen.insert(logical) {
                room -= switch_bytes;
                gathers_left -= gathers;
            }
        }
        let late = staged.keys().filter(|logical| !ahead.contains_key(logical));
        let mut waiting: BTreeSet<u32> = late.copied().chain(unready).chain(later.iter().copied()).collect();
        let mut rank: Vec<(usize, u32)> = Vec::new();
        let mut logged = 0;
        let block_bytes = 24 + 16 * (self.geometry.tolerance() as u64 + 1).max(2);
        let is_open = |l: &u32| !chosen.contains(l) && !ahead.contains_key(l) && !waiting.contains(l);
        let others: Vec<(u32, usize)> =
            by_stripe.iter().map(|(&l, &n)| (l, n)).filter(|(l, _)| is_open(l)).collect();
        for (logical, count) in others {
            let bytes = count as u64 * block_bytes;
            if is_full(count) || room < switch_bytes {
                waiting.insert(logical);
            } else if room < bytes {
                // The record has no room to name each block of the stripe: the stripe is merged.
                if chosen.len() < free.len() && gathers_left > 0 && !self.is_beyond_repair(logical) {
                    chosen.insert(logical);
                    gathers_left -= 1;
                    room -= switch_bytes;
                } else {
                    waiting.insert(logical);
                }
            } else {
                room -= bytes.max(switch_bytes);
                logged += count;
                let in_log = self.maps.logged_of(logical);
                rank.push((count + in_log as usize, logical));
            }
        }
        rank.sort_unstable();
        while self.rows_needed(logged) > free_rows {
            let Some((_, logical)) = rank.pop() else { break };
            logged -= by_stripe[&logical];
            let in_log = self.maps.logged_of(logical);
            let count = in_log + by_stripe[&logical] as u32;
            if patches_go_on && self.is_left_to_patches(count, logical) {
                waiting.insert(logical);
            } else if chosen.len() < free.len() && gathers_left > 0 && !self.is_beyond_repair(logical) {
                chosen.insert(logical);
                gathers_left -= 1;
            } else {
                waiting.insert(logical);
            }
        }
        self.patching.set_logged(logged);
        let first_generation = self.maps.generation();
        self.memory.take(&waiting, room);
        let mut commit = Commit {
            ahead: ahead.values().copied().collect(),
            members_changed: self.records.take_wanted(),
            ..Commit::new(first_generation)
        };
        let mut generation = first_generation;
        for &logical in &chosen {
            let Some(physical) = free.pop() else { break };
            // Nobody else takes the place while it is not yet mapped.
            self.pins.pin(physical);
            commit.stripes.push(StripeWrite::new(logical, physical, generation, per_stripe));
            generation += 1;
        }
        let taken = self.memory.taken();
        let logged = taken.blocks.stripes().filter(|(l, _)| !chosen.contains(l) && !ahead.contains_key(l));
        let to_log: Vec<(UserBlock, Operand)> = logged
            .flat_map(|(logical, blocks)| {
                let first = u64::from(logical) * per_stripe as u64;
                blocks.iter().map(move |&(place, content)| (UserBlock(first + u64::from(place)), content))
            })
            .collect();
        commit.rows = self.fill_rows(&to_log, generation);
        self.cleaning.rows_are_written(commit.rows.len());
        self.maps.use_generations(commit.stripes.len() + commit.rows.len());
        let is_empty = commit.stripes.is_empty() && commit.rows.is_empty() && self.memory.taken().is_empty();
        let is_empty = is_empty && commit.ahead.is_empty() && !self.has_gone_home();
        if is_empty && !commit.members_changed {
            self.end_cleaning();
            // Reads under way hold the rows and free stripes; the commit is tried again when they
            // end. If nothing is under way, the log is full of blocks of broken stripes, and dirty
            // blocks have no place to go.
            let is_stuck = !waiting.is_empty() && self.is_idle() && self.damage.has_broken();
            self.service.fail_if(is_stuck);
            self.give_up_if_failed();
            return;
        }
        let mut wanted = Vec::new();
        for (stripe, write) in commit.stripes.iter().enumerate() {
            let first = u64::from(write.logical) * per_stripe as u64;
            wanted.extend(
                (0..per_stripe as u32)
                    .map(|place| (UserBlock(first + u64::from(place)), Requester::Commit { stripe, place })),
            );
        }
        commit.outstanding = wanted.len() + 1;
        self.commit = Some(commit);
        self.gather(wanted);
        self.phase_part_done();
    }

    /// Writes the stripes and rows of the last record again, because a device that is present lacks
    /// a part of them.
    ///
    /// Called while a volume is opened, before anything else is written: the state before the
    /// record is still whole, so the opening can return to it if this fails.
    pub(crate) fn begin_again(
        &mut self,
        stripes: &[u32],
        rows: &[u32],
        copies: Vec<(Slot, DeviceBlock, Vec<u8>)>,
    ) {
        let per_stripe = self.geometry.stripe_blocks() as usize;
        let mut commit =
            Commit { outstanding: 1, again: true, copies, ..Commit::new(self.maps.generation()) };
        for &logical in stripes {
            let Some(mapping) = self.maps.mapping(logical) else { continue };
            let Mapping { physical, generation } = mapping;
            // A device that fails during this commit lacks the blocks that are written again.
            commit.first_generation = commit.first_generation.min(generation);
            commit.stripes.push(StripeWrite::new(logical, physical, generation, per_stripe));
        }
        for &number in rows {
            let Some(row) = self.maps.row(number) else { continue };
            commit.first_generation = commit.first_generation.min(row.generation);
            commit.rows.push(RowWrite {
                row: number,
                generation: row.generation,
                kind: row.kind,
                blocks: row.blocks.clone(),
                cells: row.cells.iter().map(|c| (c.slot, Operand::Zeros)).collect(),
                parity: Vec::new(),
                checksums: Vec::new(),
            });
        }
        let places: Vec<(usize, u32)> =
            (0..commit.stripes.len()).flat_map(|s| (0..per_stripe as u32).map(move |p| (s, p))).collect();
        let blocks: Vec<(usize, u32, usize)> = commit
            .rows
            .iter()
            .enumerate()
            .flat_map(|(r, row)| (0..row.blocks.len()).map(move |i| (r, row.row, i)))
            .collect();
        commit.outstanding += places.len() + blocks.len();
        let logicals: Vec<u32> = commit.stripes.iter().map(|s| s.logical).collect();
        self.commit = Some(commit);
        for (stripe, place) in places {
            let block =
                UserBlock(u64::from(logicals[stripe]) * self.geometry.stripe_blocks() + u64::from(place));
            self.reads.fetch_later([Later::Again { block, stripe, place }]);
        }
        let rows = blocks.into_iter().map(|(row, number, index)| Later::AgainRow { number, row, index });
        self.reads.fetch_later(rows);
        self.begin_later();
        self.phase_part_done();
    }

    /// Takes a block of a row that is written again; `None`: it is lost.
    pub(crate) fn gathered_for_row(&mut self, row: usize, index: usize, content: Option<Operand>) {
        let copies = self.geometry.tolerance() + 1;
        let Some(commit) = &mut self.commit else { return };
        commit.hopeless |= content.is_none();
        let row = &mut commit.rows[row];
        if let Some(content) = content {
            let cells = match row.kind {
                RowKind::Coded => index..index + 1,
                RowKind::Copies => index * copies..(index + 1) * copies,
            };
            row.cells[cells].iter_mut().for_each(|cell| cell.1 = content);
            // The delivery took a reference to the buffer; it is released with the parity.
            if let Operand::Buffer(buffer) = content {
                row.parity.push(buffer);
            }
        }
        self.phase_part_done();
    }

    /// Lays blocks out in log rows: full rows in the log code, the rest as copies.
    pub(crate) fn fill_rows(
        &mut self,
        blocks: &[(UserBlock, Operand)],
        mut generation: u64,
    ) -> Vec<RowWrite> {
        let full = self.planners.row.code().data().len();
        let columns = self.geometry.slots();
        let copies = self.geometry.tolerance() + 1;
        let usable = self.maps.free_rows().iter().filter(|row| !self.pins.holds_row(*row));
        let mut free: Vec<u32> = usable.take(self.rows_needed(blocks.len())).collect();
        free.reverse();
        let mut rows = Vec::new();
        let split = self.coded(blocks.len());
        for part in blocks[..split].chunks(full) {
            let Some(row) = free.pop() else { break };
            let mut cells: Vec<(Slot, Operand)> =
                (0..columns).map(|c| (self.geometry.row_slot(row, c), Operand::Zeros)).collect();
            for (column, &(_, content)) in part.iter().enumerate() {
                cells[column].1 = content;
            }
            rows.push(RowWrite {
                row,
                generation,
                kind: RowKind::Coded,
                blocks: part
                    .iter()
                    .map(|(b, _)| Some(*b))
                    .chain(std::iter::repeat(None))
                    .take(full)
                    .collect(),
                cells,
                parity: Vec::new(),
                checksums: Vec::new(),
            });
            generation += 1;
        }
        for part in blocks[split..].chunks(self.copies_per_row()) {
            let Some(row) = free.pop() else { break };
            let mut present: Vec<Slot> = (0..columns)
                .map(|c| self.geometry.row_slot(row, c))
                .filter(|slot| self.maps.is_present(*slot))
                .collect();
            // Present devices get copies first. If there are too few of them, the rest goes to
            // absent devices and is lost at once: no more than t copies.
            let absent =
                (0..columns).map(|c| self.geometry.row_slot(row, c)).filter(|s| !present.contains(s));
            let absent: Vec<Slot> = absent.collect();
            present.extend(absent);
            let cells = part
                .iter()
                .enumerate()
                .flat_map(|(i, &(_, content))| (0..copies).map(move |c| (i * copies + c, content)))
                .map(|(i, content)| (present[i], content))
                .collect();
            rows.push(RowWrite {
                row,
                generation,
                kind: RowKind::Copies,
                blocks: part.iter().map(|(b, _)| Some(*b)).collect(),
                cells,
                parity: Vec::new(),
                checksums: Vec::new(),
            });
            generation += 1;
        }
        rows
    }

    /// Gets blocks of stripes that are written as a whole: from the memory that the commit has
    /// taken, else from the devices.
    pub(crate) fn gather(&mut self, wanted: Vec<(UserBlock, Requester)>) {
        let mut elsewhere = Vec::new();
        for (block, requester) in wanted {
            let (logical, place) = self.geometry.locate(block);
            match self.memory.taken().content(logical, place) {
                Some(content) => self.deliver(requester, block, Some(content)),
                None => elsewhere.push((block, requester)),
            }
        }
        self.resolve_all(elsewhere);
    }

    /// Takes a block of a stripe; `None`: it is lost.
    pub(crate) fn gathered(&mut self, stripe: usize, place: u32, content: Option<Operand>) {
        let Some(commit) = &mut self.commit else { return };
        commit.stripes[stripe].content[place as usize] = content;
        commit.hopeless |= content.is_none();
        self.phase_part_done();
    }

    pub(crate) fn phase_part_done(&mut self) {
        let Some(commit) = &mut self.commit else { return };
        commit.outstanding -= 1;
        if commit.outstanding > 0 {
            return;
        }
        match commit.phase {
            Phase::Gather if commit.hopeless => self.undo_commit(),
            Phase::Gather => {
                if self.patch_gathered() {
                    self.compute_commit();
                }
            }
            Phase::Compute => {
                if !self.patch_goes_on() {
                    self.write_commit();
                }
            }
            Phase::Write => self.flush_commit(),
            Phase::Flush => self.finish_commit(),
        }
    }

    pub(crate) fn commit_io_done(&mut self) {
        self.phase_part_done();
    }

    /// Undoes a commit in which a stripe to be merged has lost a block. Its blocks wait for the
    /// next commit. The stripe counts as broken, and its writes go to the log from now on.
    pub(crate) fn undo_commit(&mut self) {
        let Some(commit) = self.commit.take() else { return };
        let mut lost = Vec::new();
        for stripe in commit.stripes {
            if !commit.again {
                self.pins.unpin(stripe.physical);
            }
            let places = (0..).zip(&stripe.content).filter(|(_, content)| content.is_none());
            let places: Vec<u32> = places.map(|(place, _)| place).collect();
            if !places.is_empty() {
                let missing: Vec<Place> = places.iter().map(|&place| self.geometry.cell_of(place)).collect();
                self.break_stripe(stripe.logical, missing);
                let first = u64::from(stripe.logical) * self.geometry.stripe_blocks();
                lost.extend(places.into_iter().map(|place| UserBlock(first + u64::from(place))));
            }
            stripe.content.into_iter().flatten().for_each(|content| self.io.release_operand(content));
        }
        for row in commit.rows {
            row.parity.into_iter().for_each(|buffer| self.io.release(buffer));
        }
        self.memory.undo_commit();
        self.records.want_if(commit.members_changed);
        if let Some(updates) = commit.patch {
            self.patch_undone(updates);
        }
        if !commit.again {
            self.note_lost(&lost);
        }
        // While a volume is opened, the caller goes back to the state before the last record.
        self.service.fail_if(commit.again);
    }

    /// Begins to compute the parity and checksums of everything that the commit writes.
    fn compute_commit(&mut self) {
        let Some(mut commit) = self.commit.take() else { return };
        commit.phase = Phase::Compute;
        let patch = commit.patch.as_mut();
        let mut jobs = patch.map_or(Vec::new(), |updates| self.compute_updates(updates));
        commit.outstanding = commit.stripes.len() + commit.rows.len() + jobs.len() + 1;
        for (index, stripe) in commit.stripes.iter_mut().enumerate() {
            let content: Vec<Operand> = stripe.content.iter().map(|c| c.unwrap_or(Operand::Zeros)).collect();
            let (blocks, parity, work) = self.encoded(stripe.physical, stripe.generation, &content);
            (stripe.blocks, stripe.parity) = (blocks, parity);
            jobs.push((JobOwner::CommitStripe(index), work));
        }
        jobs.extend(self.compute_rows(&mut commit.rows));
        self.commit = Some(commit);
        for (owner, work) in jobs {
            self.io.compute(owner, work);
        }
        self.phase_part_done();
    }

    /// Returns the computations of the parity and checksums of rows.
    pub(crate) fn compute_rows(&mut self, rows: &mut [RowWrite]) -> Vec<(JobOwner, Compute)> {
        let mut jobs = Vec::new();
        let encode = self.planners.encode_row.clone();
        for (index, row) in rows.iter_mut().enumerate() {
            let mut sums = Vec::new();
            if row.kind == RowKind::Coded {
                for step in &encode.steps {
                    let into = self.io.new_buffer();
                    row.parity.push(into);
                    let terms = step.terms.iter().map(|&(cell, c)| (row.cells[cell.usize()].1, c)).collect();
                    sums.push(Sum { into, terms });
                    row.cells[step.target.usize()].1 = Operand::Buffer(into);
                }
            }
            let (address, generation) = (self.geometry.row_block(row.row), row.generation);
            let checksums = row
                .cells
                .iter()
                .map(|&(slot, content)| (content, Seed { slot, address, generation }))
                .collect();
            jobs.push((JobOwner::CommitRow(index), Compute { sums, checksums, ..Compute::default() }));
        }
        jobs
    }

    pub(crate) fn stripe_computed(&mut self, index: usize, computed: &Computed) {
        let Computed { checksums: sums, .. } = computed;
        if let Some(commit) = &mut self.commit {
            commit.stripes[index].checksums.clone_from(sums);
        }
        self.phase_part_done();
    }

    pub(crate) fn row_computed(&mut self, index: usize, computed: &Computed) {
        let Computed { checksums: sums, .. } = computed;
        if let Some(commit) = &mut self.commit {
            commit.rows[index].checksums.clone_from(sums);
        }
        self.phase_part_done();
    }

    /// Writes chunks, rows and the record, all at once.
    fn write_commit(&mut self) {
        let Some(mut commit) = self.commit.take() else { return };
        if commit.patch.as_ref().is_some_and(|updates| updates.has_lost) {
            self.commit = Some(commit);
            return self.undo_commit();
        }
        commit.phase = Phase::Write;
        let present: Vec<Slot> =
            (0..self.geometry.slots() as u32).map(Slot).filter(|slot| self.maps.is_present(*slot)).collect();
        let mut writes: Vec<(Slot, DeviceBlock, Vec<Piece>)> = Vec::new();
        let mut changes: Vec<Change> = Vec::new();
        let per_stripe = self.geometry.stripe_blocks();
        if !commit.again && !present.is_empty() {
            changes = self.forgets_of_home();
            commit.forgets_home = true;
        }
        for (first, count) in runs_of(&self.memory.taken().unmapped) {
            changes.push(Change::Unmap { first, count });
            let (first, count) = (UserBlock(u64::from(first) * per_stripe), u64::from(count) * per_stripe);
            changes.push(Change::Forget { first, count });
        }
        let mut switch = |logical: u32, physical, generation, digests| {
            let first = UserBlock(u64::from(logical) * per_stripe);
            changes.push(Change::Forget { first, count: per_stripe });
            changes.push(Change::Switch { logical, physical, generation, digests });
        };
        for stripe in &commit.stripes {
            let StripeWrite { logical, physical, generation, ref blocks, ref checksums, .. } = *stripe;
            let (chunks, digests) = self.chunk_writes(logical, physical, generation, blocks, checksums);
            writes.extend(chunks);
            switch(logical, physical, generation, digests);
        }
        for staged in commit.ahead.iter().filter_map(|&id| self.staging.get(id)) {
            switch(staged.logical, staged.physical, staged.generation, staged.digests.clone());
        }
        let unmapped = match commit.ends {
            Some(epoch) => {
                let (ended, unmapped) = self.ended_stripes(epoch);
                ended.into_iter().for_each(|stripe| {
                    switch(stripe.logical, stripe.physical, stripe.generation, stripe.digests);
                });
                unmapped
            }
            None => BTreeSet::new(),
        };
        for (first, count) in runs_of(&unmapped) {
            changes.push(Change::Unmap { first, count });
            let (first, count) = (UserBlock(u64::from(first) * per_stripe), u64::from(count) * per_stripe);
            changes.push(Change::Forget { first, count });
        }
        for row in &commit.rows {
            let cells: Vec<RowCell> = row
                .cells
                .iter()
                .zip(&row.checksums)
                .map(|(&(slot, _), &checksum)| RowCell { slot, checksum })
                .collect();
            for &(slot, content) in row.cells.iter().filter(|(slot, _)| present.contains(slot)) {
                writes.push((slot, self.geometry.row_block(row.row), vec![Piece::Block(content)]));
            }
            let content =
                Row { kind: row.kind, generation: row.generation, cells, blocks: row.blocks.clone() };
            changes.push(Change::Row { row: row.row, content });
        }
        if let Some(updates) = &commit.patch {
            let patches = self.patches_of(updates);
            // A device that is lost from here on may have a part of the patches.
            let lowest = patches.iter().map(|patch| patch.generation).min();
            commit.first_generation = lowest.unwrap_or(u64::MAX).min(commit.first_generation);
            changes.extend(patches.into_iter().map(Change::Patch));
        }
        if commit.members_changed {
            changes.extend(self.maps.member_entries().map(Change::Member));
        }
        if !commit.again && !present.is_empty() && (!changes.is_empty() || commit.proves) {
            let notes = self.notes_for_record();
            add_notes(&mut changes, notes);
        }
        if commit.again {
            changes.clear();
            let copies = std::mem::take(&mut commit.copies);
            writes.extend(copies.into_iter().map(|(slot, at, bytes)| (slot, at, vec![Piece::Bytes(bytes)])));
        } else if !present.is_empty() && (!changes.is_empty() || commit.proves) {
            commit.has_record = true;
            let runs = self.write_record(&changes);
            for &slot in &present {
                writes.extend(runs.iter().map(|(at, bytes)| (slot, *at, vec![Piece::Bytes(bytes.clone())])));
            }
        }
        commit.changes = changes;
        commit.outstanding = writes.len() + 1;
        self.commit = Some(commit);
        for (slot, at, pieces) in writes {
            let io = self.io.new_io(slot, IoOwner::CommitWrite);
            self.io.act(Action::Write { io, slot, at, pieces, urgency: Urgency::User });
        }
        self.phase_part_done();
    }

    fn flush_commit(&mut self) {
        let present: Vec<Slot> =
            (0..self.geometry.slots() as u32).map(Slot).filter(|slot| self.maps.is_present(*slot)).collect();
        if let Some(commit) = &mut self.commit {
            commit.phase = Phase::Flush;
            commit.outstanding = present.len() + 1;
        }
        for slot in present {
            let io = self.io.new_io(slot, IoOwner::CommitFlush);
            self.io.act(Action::Flush { io, slot });
        }
        self.phase_part_done();
    }

    /// Ends a commit whose record is durable: switches the maps and releases the memory.
    fn finish_commit(&mut self) {
        let Some(mut commit) = self.commit.take() else { return };
        let taken = self.memory.end_commit();
        let per_stripe = self.geometry.stripe_blocks();
        for change in &commit.changes {
            // States of members in the record are from the time it was written, and newer ones
            // stay. Notes took effect when they were made.
            if !matches!(change, Change::Member(_) | Change::Note(_)) {
                self.maps.apply(change);
            }
        }
        let newest = commit.changes.iter().filter_map(Change::generation).max();
        self.records.end_commit(commit.has_record, newest);
        if commit.forgets_home && commit.has_record {
            self.home_is_recorded();
        }
        if commit.again {
            // Suspect stripes have just been written again.
            self.damage.mend_suspects();
        }
        taken.unmapped.iter().for_each(|&logical| self.is_written_anew(logical, true));
        for stripe in &commit.stripes {
            let of_users = taken.blocks.stripe(stripe.logical).len() as u64;
            self.is_written_anew(stripe.logical, of_users == per_stripe);
        }
        for staged in commit.ahead.drain(..).filter_map(|id| self.free_staged(id)).collect::<Vec<_>>() {
            self.is_written_anew(staged.logical, true);
            self.keep_stripe_sums(staged.physical, staged.generation, &staged.checksums);
        }
        if let Some(updates) = commit.patch.take() {
            self.patch_finished(updates);
        }
        if let Some(epoch) = commit.ends {
            self.ended(epoch);
        }
        for stripe in commit.stripes {
            self.keep_stripe_sums(stripe.physical, stripe.generation, &stripe.checksums);
            if !commit.again {
                self.pins.unpin(stripe.physical);
            }
            stripe.content.into_iter().flatten().for_each(|content| self.io.release_operand(content));
            stripe.parity.into_iter().for_each(|buffer| self.io.release(buffer));
        }
        for row in commit.rows {
            row.parity.into_iter().for_each(|buffer| self.io.release(buffer));
        }
        self.forget_clean_stripes();
        if self.maps.notes().has_ranges() || self.damage.has_broken() {
            let written = taken.blocks.stripes().flat_map(|(logical, blocks)| {
                let first = u64::from(logical) * per_stripe;
                blocks.iter().map(move |&(place, _)| UserBlock(first + u64::from(place)))
            });
            let written: Vec<UserBlock> = written.collect();
            self.note_rewritten(&written);
            self.miss_no_longer(written.into_iter());
        }
        taken.blocks.into_values().for_each(|content| self.io.release_operand(content));
    }
}
