//! Stripes that are written ahead of the commit that maps them, so that devices are busy while a
//! user still writes.
//!
//! A stripe that is wholly dirty gets a free place, parity and checksums at once, and is written
//! there. Nothing maps to it yet. The commit that takes it finds it written and only names it in
//! its record; the commit's flush covers it, because a commit takes only stripes whose writes have
//! all been reported. While so much is being written ahead that reads would be delayed, more
//! stripes wait for their turn, and commits leave them waiting: a commit that wrote them all at
//! once would leave devices idle while it encodes them. A stripe that is written to or trimmed
//! before a commit takes it is *dropped*: its place becomes free when its last write is reported,
//! and its generation is never used.
//!
//! Invariants: the place of a staged stripe is pinned; a device that is lost misses the generations
//! of all staged stripes; no device is admitted while there are staged stripes.

use crate::engine::{Engine, IoOwner, JobOwner};
use crate::fetch::ChunkSums;
use crate::memory::Age;
use crate::{Action, BufferId, Compute, Computed, DeviceBlock, Operand, Piece, Seed, Slot, Sum, Urgency};
use pantile_format::Crc64;
use std::collections::BTreeMap;

/// Places beyond those of the user's stripes that staging leaves to merges, so that a commit can
/// always proceed.
pub(crate) const PLACES_LEFT: usize = 2;

/// The most blocks of stripes that are being written ahead: 16 MiB; a quarter of the spare places
/// is another limit. With fewer, a device that serves many writes at once is idle until the next
/// ones are computed. More make nothing faster: a flush waits for all of them, and memory fills
/// meanwhile.
const UNDER_WAY_BLOCKS: u64 = 4096;

/// Stripes that may be written ahead even if they have more blocks than that, as far as places
/// allow. Every device then has some chunks to write while parity of the next stripe is computed.
const UNDER_WAY_STRIPES: u64 = 16;

/// Stripes written ahead are worth a flush if they have at least this part of the dirty blocks that
/// start a commit: 4 MiB.
const WRITTEN_SHARE: usize = 4;

/// Names a staged stripe within the engine.
pub(crate) type StageId = u64;

/// A stripe that is written, or being written, to a place that nothing maps to yet.
#[derive(Debug)]
pub(crate) struct Staged {
    pub(crate) logical: u32,
    pub(crate) physical: u32,
    pub(crate) generation: u64,
    /// Data and parity; released when they are written.
    blocks: Vec<Operand>,
    pub(crate) checksums: Vec<u64>,
    pub(crate) digests: Vec<Option<Crc64>>,
    outstanding: usize,
    dropped: bool,
}

impl Staged {
    /// Makes a stripe whose parity must be computed.
    fn new(logical: u32, physical: u32, generation: u64, blocks: Vec<Operand>) -> Staged {
        let (checksums, digests) = (Vec::new(), Vec::new());
        let (outstanding, dropped) = (1, false);
        Staged { logical, physical, generation, blocks, checksums, digests, outstanding, dropped }
    }

    fn is_written(&self) -> bool {
        self.outstanding == 0
    }
}

/// All stripes that are written, or being written, to places that nothing maps to yet.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    stripes: BTreeMap<StageId, Staged>,
    /// The number of stripes whose writes have not all been reported.
    under_way: u64,
}

impl Staging {
    pub(crate) fn len(&self) -> usize {
        self.stripes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.stripes.is_empty()
    }

    pub(crate) fn under_way(&self) -> u64 {
        self.under_way
    }

    pub(crate) fn get(&self, id: StageId) -> Option<&Staged> {
        self.stripes.get(&id)
    }

    /// Tests whether there is a stage with a name up to this one.
    pub(crate) fn has_one_before(&self, name: u64) -> bool {
        self.stripes.first_key_value().is_some_and(|(&id, _)| id <= name)
    }

    fn generations(&self) -> impl Iterator<Item = u64> {
        self.stripes.values().map(|staged| staged.generation)
    }

    /// Returns the staged stripes of one age of memory that are written, and those that are not.
    pub(crate) fn by_state(&self, of: &BTreeMap<u32, StageId>) -> (Vec<(u32, StageId)>, Vec<u32>) {
        let is_written = |id: &StageId| self.stripes.get(id).is_some_and(Staged::is_written);
        let written = of.iter().filter(|(_, id)| is_written(id)).map(|(&l, &id)| (l, id)).collect();
        let others = of.iter().filter(|(_, id)| !is_written(id)).map(|(&l, _)| l).collect();
        (written, others)
    }

    fn begin(&mut self, id: StageId, staged: Staged) {
        self.stripes.insert(id, staged);
        self.under_way += 1;
    }

    /// Drops a stripe that no commit will take: its place becomes free when its last write is
    /// reported.
    fn give_up(&mut self, id: StageId) {
        if let Some(staged) = self.stripes.get_mut(&id) {
            staged.dropped = true;
        }
    }

    /// Returns true if a dropped stripe does not need its place any more.
    fn is_over(&self, id: StageId) -> bool {
        self.stripes.get(&id).is_some_and(|staged| staged.dropped && staged.is_written())
    }

    /// Notes the number of writes of a stripe that have begun; `true`: there are none.
    fn writes(&mut self, id: StageId, writes: usize, checksums: &[u64], digests: Vec<Option<Crc64>>) -> bool {
        let Some(staged) = self.stripes.get_mut(&id) else { return false };
        staged.outstanding = writes;
        if !staged.dropped {
            staged.checksums = checksums.to_vec();
            staged.digests = digests;
        }
        writes == 0
    }

    /// Notes that a write is reported; `true`: it was the last.
    fn io_done(&mut self, id: StageId) -> bool {
        let Some(staged) = self.stripes.get_mut(&id) else { return false };
        staged.outstanding -= 1;
        staged.outstanding == 0
    }

    /// Ends the writes of a stripe; returns its blocks, which nothing reads any more.
    fn end(&mut self, id: StageId) -> Vec<Operand> {
        let Some(staged) = self.stripes.get_mut(&id) else { return Vec::new() };
        self.under_way -= 1;
        std::mem::take(&mut staged.blocks)
    }
}

impl Engine {
    /// Notes a write to a dirty stripe. If it is now wholly dirty, it is written ahead, at once or
    /// later.
    pub(crate) fn stage_if_whole(&mut self, logical: u32) {
        if self.memory.dirty_blocks_of(logical) as u64 == self.geometry.stripe_blocks()
            && self.stage_place().is_some()
        {
            self.memory.stage_later(logical);
            self.drive_staging();
        }
    }

    /// Writes waiting stripes ahead, committing ones first, unless the devices have enough to do.
    pub(crate) fn drive_staging(&mut self) {
        while !self.stages_wait() {
            let Some((from, logical)) = self.memory.next_to_stage() else { return };
            let Some(physical) = self.stage_place() else { return };
            self.stage(from, logical, physical);
        }
    }

    /// Returns true if so much is being written ahead that more of it waits.
    pub(crate) fn stages_wait(&self) -> bool {
        let most = (UNDER_WAY_BLOCKS / self.geometry.stripe_blocks()).max(UNDER_WAY_STRIPES);
        let most = most.min(self.spare_places() / 4);
        self.staging.under_way() >= most.max(1)
    }

    /// Returns a free place to write a stripe ahead; `None`: it must wait for the commit, which
    /// writes it.
    pub(crate) fn stage_place(&self) -> Option<u32> {
        let room = self.stage_places() > self.staging.len();
        if !room || self.service.has_failed() || self.members.have_arrivals() || self.generations_left() == 0
        {
            return None;
        }
        self.maps.free().iter().find(|place| !self.pins.holds(*place))
    }

    /// Returns the number of stripes that may be written ahead between two commits.
    fn stage_places(&self) -> usize {
        (self.spare_places() as usize).saturating_sub(self.delayed.places() + PLACES_LEFT)
    }

    /// Returns true if the stripes written ahead take so many places that a commit should free
    /// some, and they are worth a flush.
    pub(crate) fn stages_need_commit(&self) -> bool {
        let staged = self.staging.len();
        self.are_worth_a_flush(staged) && 2 * staged >= self.stage_places()
    }

    pub(crate) fn are_worth_a_flush(&self, stripes: usize) -> bool {
        stripes * self.geometry.stripe_blocks() as usize >= self.memory.mark() / WRITTEN_SHARE
    }

    /// Returns the number of places beyond those of the user's stripes.
    fn spare_places(&self) -> u64 {
        (self.geometry.physical_stripes() - self.geometry.logical_stripes()).into()
    }

    fn stage(&mut self, from: Age, logical: u32, physical: u32) {
        let content = self.memory.begin_to_stage(from, logical);
        for operand in &content {
            if let Operand::Buffer(buffer) = operand {
                self.io.hold(*buffer);
            }
        }
        self.pins.pin(physical);
        let generation = self.maps.new_generation();
        // The blocks include the parity.
        let (blocks, _, work) = self.encoded(physical, generation, &content);
        let id = self.io.next_id();
        self.staging.begin(id, Staged::new(logical, physical, generation, blocks));
        self.memory.is_staged(from, logical, id);
        self.io.compute(JobOwner::Stage(id), work);
    }

    /// Returns how many more generations can be given before a record or snapshot must contain one
    /// as high. After a crash an opening does not give any generation a second time, and it knows
    /// only the largest number that can have been given without a record.
    pub(crate) fn generations_left(&self) -> u64 {
        let many = u64::from(self.geometry.physical_stripes()) + u64::from(self.geometry.log_rows());
        many.saturating_sub(self.records.unrecorded(self.maps.generation()))
    }

    /// Drops the stage of a stripe that is written to.
    pub(crate) fn unstage(&mut self, logical: u32) {
        let Some(id) = self.memory.unstage(logical) else { return };
        self.staging.give_up(id);
        self.clear_dropped(id);
    }

    pub(crate) fn stage_computed(&mut self, id: StageId, computed: &Computed) {
        let Computed { checksums: sums, .. } = computed;
        let Some(staged) = self.staging.get(id) else { return };
        let (mut writes, mut digests) = (Vec::new(), Vec::new());
        if !staged.dropped {
            let &Staged { logical, physical, generation, ref blocks, .. } = staged;
            (writes, digests) = self.chunk_writes(logical, physical, generation, blocks, sums);
        }
        let is_done = self.staging.writes(id, writes.len(), sums, digests);
        for (slot, at, pieces) in writes {
            let io = self.io.new_io(slot, IoOwner::StageWrite(id));
            self.io.act(Action::Write { io, slot, at, pieces, urgency: Urgency::User });
        }
        if is_done {
            self.stage_written(id);
        }
    }

    pub(crate) fn stage_io_done(&mut self, id: StageId) {
        if self.staging.io_done(id) {
            self.stage_written(id);
        }
    }

    fn stage_written(&mut self, id: StageId) {
        self.staging.end(id).into_iter().for_each(|content| self.io.release_operand(content));
        self.clear_dropped(id);
    }

    fn clear_dropped(&mut self, id: StageId) {
        if self.staging.is_over(id) {
            self.free_staged(id);
        }
    }

    /// Ends a stage; its place may be used by any stripe, or is kept by the caller.
    pub(crate) fn free_staged(&mut self, id: StageId) -> Option<Staged> {
        let staged = self.staging.stripes.remove(&id)?;
        self.pins.unpin(staged.physical);
        Some(staged)
    }

    /// Returns the blocks of a stripe by cell and offset, and those of them that are parity. Also
    /// returns the computation of the parity and of all checksums.
    pub(crate) fn encoded(
        &mut self,
        physical: u32,
        generation: u64,
        content: &[Operand],
    ) -> (Vec<Operand>, Vec<BufferId>, Compute) {
        let encode = self.planners.encode_stripe.clone();
        let element = self.geometry.element_blocks();
        let mut blocks = vec![Operand::Zeros; self.geometry.code.cell_count() * element as usize];
        for (place, &content) in content.iter().enumerate() {
            let (cell, offset) = self.geometry.cell_of(place as u32);
            blocks[cell.usize() * element as usize + offset as usize] = content;
        }
        let (mut sums, mut parity) = (Vec::new(), Vec::new());
        for offset in 0..element as usize {
            for step in &encode.steps {
                let into = self.io.new_buffer();
                parity.push(into);
                let at = |cell: pantile_code::CellIndex| cell.usize() * element as usize + offset;
                let terms = step.terms.iter().map(|&(cell, c)| (blocks[at(cell)], c)).collect();
                sums.push(Sum { into, terms });
                blocks[at(step.target)] = Operand::Buffer(into);
            }
        }
        let places =
            self.geometry.code.cells().flat_map(|cell| (0..element).map(move |offset| (cell, offset)));
        let checksums = places
            .map(|(cell, offset)| {
                let (slot, address) = self.geometry.cell_block(physical, cell, offset);
                (
                    blocks[cell.usize() * element as usize + offset as usize],
                    Seed { slot, address, generation },
                )
            })
            .collect();
        (blocks, parity, Compute { sums, checksums, ..Compute::default() })
    }

    /// Returns the writes of a stripe's chunks to the devices that are present, and the digests of
    /// their headers by slot.
    #[allow(clippy::type_complexity)]
    pub(crate) fn chunk_writes(
        &self,
        logical: u32,
        physical: u32,
        generation: u64,
        blocks: &[Operand],
        checksums: &[u64],
    ) -> (Vec<(Slot, DeviceBlock, Vec<Piece>)>, Vec<Option<Crc64>>) {
        let element = self.geometry.element_blocks() as usize;
        let (mut writes, mut digests) = (Vec::new(), vec![None; self.geometry.slots()]);
        for slot in self.present() {
            let column = self.geometry.column(physical, slot);
            let cells: Vec<usize> = self.geometry.code.column_cells(column).map(|c| c.usize()).collect();
            let sums: Vec<u64> =
                cells.iter().flat_map(|c| checksums[c * element..(c + 1) * element].to_vec()).collect();
            let (header, digest) = self.chunk_header(logical, physical, generation, slot, &sums);
            digests[slot.0 as usize] = Some(digest);
            let mut pieces = vec![Piece::Bytes(header)];
            for c in cells {
                pieces.extend(blocks[c * element..(c + 1) * element].iter().map(|&o| Piece::Block(o)));
            }
            writes.push((slot, self.geometry.chunk_start(physical, slot), pieces));
        }
        (writes, digests)
    }

    /// Returns the first generation that a device which is lost now may lack.
    pub(crate) fn first_unrecorded_generation(&self) -> u64 {
        let commit = self.commit.as_ref().map_or(self.maps.generation(), |commit| commit.first_generation);
        let staged = self.staging.generations();
        let patched = self.patched_generation();
        staged.chain(self.owed_generations()).chain(patched).fold(commit, u64::min)
    }

    /// Keeps the checksums of all chunks of a stripe that has just become the valid one.
    pub(crate) fn keep_stripe_sums(&mut self, physical: u32, generation: u64, checksums: &[u64]) {
        let element = self.geometry.element_blocks() as usize;
        for slot in (0..self.geometry.slots() as u32).map(Slot) {
            let column = self.geometry.column(physical, slot);
            let cells = self.geometry.code.column_cells(column).map(|c| c.usize());
            let sums = cells.flat_map(|c| checksums[c * element..(c + 1) * element].to_vec()).collect();
            self.headers.keep(physical, slot, ChunkSums { generation, sums }, &self.pins);
        }
    }
}
