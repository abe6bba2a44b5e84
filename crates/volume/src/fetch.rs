//! Fetching one block: from its place if it verifies there, else from the other blocks of its
//! codeword.
//!
//! A block in a stripe and the blocks at the same offset of the stripe's other cells are a codeword
//! of the volume's code. A block in the log is part of a codeword of the log code, or one of t + 1
//! copies. A fetch reads the cheapest set that yields the block with the present losses. Every
//! block that is read is verified by its checksum under the generation in the maps. A block that
//! fails is lost like one on a dead device, and the fetch is planned again.

use crate::delayed::OwedId;
use crate::engine::{Engine, IoOwner, JobOwner};
use crate::maps::{Mapping, RowKind};
use crate::span::Place;
use crate::{
    Action, BufferId, Compute, Computed, DeviceBlock, IoResult, Operand, RequestId, Seed, Slot, Sum, Urgency,
    UserBlock,
};
use pantile_code::CellIndex;
use pantile_plan::{CellSet, Costs, Effort, Plan, Planner, Request};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Names a fetch within the engine.
pub(crate) type FetchId = u64;

/// The requester of a block, and where its result goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requester {
    User(RequestId, usize),
    Commit {
        stripe: usize,
        place: u32,
    },
    /// Old content of a stripe, for a patch that replaces a part of it.
    Update {
        update: usize,
        place: Place,
    },
    /// The content in the log of a block whose stripe is patched.
    PatchOf {
        update: usize,
        place: Place,
    },
    /// The content in the log of a block that goes home.
    Home {
        block: UserBlock,
    },
    /// A block of a log row that is written again.
    CommitRow {
        row: usize,
        index: usize,
    },
    /// A block of an epoch's stripe that was settled at this version of the stripe.
    Epoch {
        id: RequestId,
        index: usize,
        owed: OwedId,
        version: u64,
    },
    /// The content from before the epoch of a block that the epoch has not written.
    Settle {
        owed: OwedId,
        index: usize,
    },
    /// The check of a cell while a volume is opened.
    Verify,
    /// A block of a stripe that is rebuilt for devices that lack it.
    Rebuild {
        logical: u32,
        index: usize,
    },
    /// A cell of a log row that is rebuilt for a device that lacks it.
    RebuildRow {
        row: u32,
        cell: usize,
    },
}

/// The most blocks of stripes that are verified as a whole at a time: 32 MiB, or one stripe.
const LATER_SPAN_BLOCKS: usize = 8192;

/// Fetches that wait for room while a volume is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Later {
    VerifyStripe {
        logical: u32,
        mapping: Mapping,
    },
    /// A block of a stripe in which a block is bad.
    VerifyCell {
        logical: u32,
        mapping: Mapping,
        cell: CellIndex,
        offset: u32,
    },
    VerifyRowCell {
        row: u32,
        cell: usize,
    },
    /// A block of a stripe that is written again.
    Again {
        block: UserBlock,
        stripe: usize,
        place: u32,
    },
    /// A block of a row that is written again; `row` is the index of the row in the commit.
    AgainRow {
        number: u32,
        row: usize,
        index: usize,
    },
}

impl Later {
    /// Returns true if it verifies the last record, rather than gather blocks to write again.
    pub(crate) fn verifies(&self) -> bool {
        !matches!(self, Later::Again { .. } | Later::AgainRow { .. })
    }
}

/// The codeword that a block belongs to.
#[derive(Clone, Debug)]
pub(crate) enum Word {
    Stripe { logical: u32, mapping: Mapping, offset: u32 },
    Row { row: u32, generation: u64, kind: RowKind, cells: Vec<(Slot, DeviceBlock, u64)> },
}

#[derive(Debug)]
pub(crate) struct Fetch {
    pub(crate) block: UserBlock,
    pub(crate) requester: Requester,
    word: Word,
    wanted: CellIndex,
    /// Cells that cannot be read: those that are absent, and those that were read and are bad.
    lost: CellSet,
    /// Cells on slow devices, treated as lost as long as the block can be computed without them.
    avoided: CellSet,
    /// Cells on devices that did not have them when this was last looked up. A rebuilt device has
    /// them later.
    absent: CellSet,
    have: BTreeMap<CellIndex, BufferId>,
    /// Reads under way.
    asked: BTreeMap<CellIndex, BufferId>,
    /// The number of chunk headers that are being read.
    headers: usize,
    plan: Option<Arc<Plan>>,
    result: Option<(BufferId, Option<u64>)>,
}

/// The checksums of one chunk, from its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkSums {
    pub(crate) generation: u64,
    pub(crate) sums: Vec<u64>,
}

impl Engine {
    /// Begins to fetch a block that is mapped to the log or to a stripe.
    pub(crate) fn fetch(&mut self, block: UserBlock, requester: Requester) {
        let (word, wanted) = match self.maps.log_place(block) {
            Some(log) => {
                let row = &self.maps.rows()[&log.row];
                let address = self.geometry.row_block(log.row);
                let copies = self.geometry.tolerance() + 1;
                let (range, wanted) = match row.kind {
                    RowKind::Coded => (0..row.cells.len(), log.index),
                    RowKind::Copies => (log.index as usize * copies..(log.index as usize + 1) * copies, 0),
                };
                let cells = row.cells[range].iter().map(|c| (c.slot, address, c.checksum)).collect();
                (
                    Word::Row { row: log.row, generation: row.generation, kind: row.kind, cells },
                    CellIndex(wanted),
                )
            }
            None => {
                self.fetch_from_stripe(block, requester);
                return;
            }
        };
        self.start(block, requester, word, wanted);
    }

    /// Begins to fetch a block from its mapped stripe, even if the log has it.
    pub(crate) fn fetch_from_stripe(&mut self, block: UserBlock, requester: Requester) {
        let (logical, place) = self.geometry.locate(block);
        let Some(mapping) = self.maps.mapping(logical) else {
            unreachable!("unmapped blocks are zeros and are not fetched")
        };
        let (cell, offset) = self.geometry.cell_of(place);
        self.fetch_cell(block, requester, logical, mapping, cell, offset);
    }

    /// Begins to fetch a block of a stripe, data or parity.
    pub(crate) fn fetch_cell(
        &mut self,
        block: UserBlock,
        requester: Requester,
        logical: u32,
        mapping: Mapping,
        cell: CellIndex,
        offset: u32,
    ) {
        self.pins.pin(mapping.physical);
        self.start(block, requester, Word::Stripe { logical, mapping, offset }, cell);
    }

    /// Begins to fetch one cell of a log row, data or parity.
    pub(crate) fn fetch_row_cell(&mut self, number: u32, cell: usize, requester: Requester) {
        let Some(row) = self.maps.row(number).cloned() else { return };
        let address = self.geometry.row_block(number);
        let copies = self.geometry.tolerance() + 1;
        let (range, wanted) = match row.kind {
            RowKind::Coded => (0..row.cells.len(), cell),
            RowKind::Copies => (cell / copies * copies..(cell / copies + 1) * copies, cell % copies),
        };
        let cells = row.cells[range].iter().map(|c| (c.slot, address, c.checksum)).collect();
        let word = Word::Row { row: number, generation: row.generation, kind: row.kind, cells };
        self.start(row.any_block(), requester, word, CellIndex(wanted as u32));
    }

    /// Verifies every block of a stripe, including parity.
    pub(crate) fn verify_stripe(&mut self, logical: u32) {
        let Some(mapping) = self.maps.mapping(logical) else { return };
        self.reads.fetch_later([Later::VerifyStripe { logical, mapping }]);
    }

    /// Verifies the blocks of a stripe one by one, because not all of them can be read.
    pub(crate) fn verify_cells(
        &mut self,
        logical: u32,
        mapping: Mapping,
        places: impl Iterator<Item = Place>,
    ) {
        self.reads.fetch_later(places.map(|(cell, offset)| Later::VerifyCell {
            logical,
            mapping,
            cell,
            offset,
        }));
    }

    /// Verifies the blocks of a log row one by one.
    pub(crate) fn verify_row(&mut self, number: u32) {
        let cells = self.maps.row(number).map_or(0, |row| row.cells.len());
        self.reads.fetch_later((0..cells).map(|cell| Later::VerifyRowCell { row: number, cell }));
    }

    /// Begins waiting fetches, as many as can be under way.
    pub(crate) fn begin_later(&mut self) {
        self.begin_what_waits();
        if self.verify_failed() {
            self.reads.give_up_verifying();
        }
        while let Some(later) = self.reads.next_later(self.spans_at_once()) {
            match later {
                Later::VerifyStripe { logical, mapping } => self.verify_together(logical, mapping),
                Later::VerifyCell { logical, mapping, cell, offset } => {
                    let block = UserBlock(u64::from(logical) * self.geometry.stripe_blocks());
                    self.fetch_cell(block, Requester::Verify, logical, mapping, cell, offset);
                }
                Later::VerifyRowCell { row, cell } => self.fetch_row_cell(row, cell, Requester::Verify),
                Later::Again { block, stripe, place } => {
                    self.fetch_from_stripe(block, Requester::Commit { stripe, place });
                }
                Later::AgainRow { number, row, index } => {
                    self.fetch_from_row(number, index, Requester::CommitRow { row, index });
                }
            }
        }
    }

    /// Begins reads that wait, as far as there is room now.
    pub(crate) fn begin_what_waits(&mut self) {
        for urgency in [Urgency::User, Urgency::Background] {
            while let Some(id) = self.reads.next_span(urgency) {
                self.begin_span(id);
            }
        }
        let cells = self.geometry.slots().max(self.geometry.code.cell_count());
        while let Some(id) = self.reads.next_fetch(cells) {
            self.advance(id);
        }
    }

    /// Returns the number of stripes that can be verified at the same time.
    fn spans_at_once(&self) -> usize {
        let blocks = self.geometry.code.cell_count() * self.geometry.element_blocks() as usize;
        (LATER_SPAN_BLOCKS / blocks).max(1)
    }

    /// Begins to fetch a block of a log row, even if the row is not current.
    pub(crate) fn fetch_from_row(&mut self, number: u32, index: usize, requester: Requester) {
        let Some(row) = self.maps.row(number).cloned() else { return };
        let address = self.geometry.row_block(number);
        let copies = self.geometry.tolerance() + 1;
        let (range, wanted) = match row.kind {
            RowKind::Coded => (0..row.cells.len(), index as u32),
            RowKind::Copies => (index * copies..(index + 1) * copies, 0),
        };
        let cells = row.cells[range].iter().map(|c| (c.slot, address, c.checksum)).collect();
        let word = Word::Row { row: number, generation: row.generation, kind: row.kind, cells };
        self.start(row.any_block(), requester, word, CellIndex(wanted));
    }

    fn start(&mut self, block: UserBlock, requester: Requester, word: Word, wanted: CellIndex) {
        let absent = self.absent_cells(&word);
        let mut lost = absent.clone();
        let avoided = self.slow_cells(&word, requester);
        avoided.iter().for_each(|cell| lost.insert(cell));
        let id = self.io.next_id();
        let fetch = Fetch {
            block,
            requester,
            word,
            wanted,
            lost,
            avoided,
            absent,
            have: BTreeMap::new(),
            asked: BTreeMap::new(),
            headers: 0,
            plan: None,
            result: None,
        };
        let cells = self.planner(&fetch.word).code().cell_count();
        if self.reads.add_fetch(id, fetch, cells) {
            self.advance(id);
        }
    }

    /// Returns the cells of a codeword whose devices do not have them now.
    fn absent_cells(&self, word: &Word) -> CellSet {
        let code = self.planner(word).code();
        let is_absent = |&cell: &CellIndex| {
            let slot = self.cell_place(word, cell).0;
            !match word {
                Word::Stripe { logical, mapping, .. } => {
                    self.maps.has_row(slot, mapping.generation, *logical, code.cell(cell).row)
                }
                Word::Row { generation, .. } => self.maps.has(slot, *generation, None),
            }
        };
        CellSet::of_cells(code, &code.cells().filter(is_absent).collect::<Vec<CellIndex>>())
    }

    /// Returns the cells of a log row that are on slow devices, for a user's read; empty for other
    /// codewords. Blocks of stripes are read together ([`crate::span`]) and come here only after a
    /// fault.
    fn slow_cells(&self, word: &Word, requester: Requester) -> CellSet {
        let code = self.planner(word).code();
        let is_avoided = matches!((word, requester), (Word::Row { .. }, Requester::User(..)));
        let is_slow = |cell: &CellIndex| is_avoided && self.members.is_slow(self.cell_place(word, *cell).0);
        CellSet::of_cells(code, &code.cells().filter(is_slow).collect::<Vec<CellIndex>>())
    }

    /// Makes a fetch read the slow cells that it avoided, because the block cannot be computed
    /// without them. `false`: it avoided none.
    fn reads_slow_cells(&mut self, id: FetchId) -> bool {
        let Some(fetch) = self.reads.fetch_mut(id) else { return false };
        let had_some = !fetch.avoided.is_empty();
        let avoided: Vec<CellIndex> = fetch.avoided.iter().collect();
        for cell in avoided {
            fetch.avoided.remove(cell);
            if !fetch.absent.contains(cell) {
                fetch.lost.remove(cell);
            }
        }
        had_some
    }

    fn planner(&self, word: &Word) -> &Planner {
        match word {
            Word::Stripe { .. } => &self.planners.stripe,
            Word::Row { kind: RowKind::Coded, .. } => &self.planners.row,
            Word::Row { kind: RowKind::Copies, .. } => &self.planners.copies,
        }
    }

    fn cell_place(&self, word: &Word, cell: CellIndex) -> (Slot, DeviceBlock) {
        match word {
            Word::Stripe { mapping, offset, .. } => self.geometry.cell_block(mapping.physical, cell, *offset),
            Word::Row { cells, .. } => (cells[cell.usize()].0, cells[cell.usize()].1),
        }
    }

    /// Returns the checksum that a cell must have, if it is known.
    fn expected(&self, word: &Word, cell: CellIndex) -> Option<u64> {
        match word {
            Word::Row { cells, .. } => Some(cells[cell.usize()].2),
            Word::Stripe { mapping, offset, .. } => self.expected_in_stripe(*mapping, (cell, *offset)),
        }
    }

    /// Plans the missing blocks and reads them; ends the fetch if none is missing.
    pub(crate) fn advance(&mut self, id: FetchId) {
        loop {
            let Some(fetch) = self.reads.fetch(id) else { return };
            let word = fetch.word.clone();
            let (lost, wanted) = (fetch.lost.clone(), fetch.wanted);
            let plan = match &word {
                Word::Stripe { .. } => self.planners.recover_in_stripe(&lost, &BTreeSet::from([wanted])),
                Word::Row { .. } => {
                    let (costs, effort) = (&Costs::uniform(), Effort::Fast);
                    let request = Request { lost: &lost, wanted: &[wanted], costs, effort };
                    self.planner(&word).recover(&request).ok().map(Arc::new)
                }
            };
            let Some(plan) = plan else {
                if self.reads_slow_cells(id) {
                    continue;
                }
                self.abandon(id);
                return;
            };
            let missing: Vec<CellIndex> = plan
                .reads
                .iter()
                .copied()
                .filter(|c| !fetch.have.contains_key(c) && !fetch.asked.contains_key(c))
                .collect();
            let idle = fetch.asked.is_empty() && fetch.headers == 0;
            if let Some(fetch) = self.reads.fetch_mut(id) {
                fetch.plan = Some(plan);
            }
            if missing.is_empty() {
                if idle {
                    self.combine(id);
                }
                return;
            }
            let mut failed = false;
            for cell in missing {
                failed |= !self.ask(id, &word, cell);
            }
            if !failed {
                return;
            }
        }
    }

    /// Reads one cell, or the header that has its checksum. `false`: the cell is lost, plan again.
    fn ask(&mut self, id: FetchId, word: &Word, cell: CellIndex) -> bool {
        let (slot, at) = self.cell_place(word, cell);
        if !self.maps.is_present(slot) {
            self.lose(id, cell);
            return false;
        }
        if self.expected(word, cell).is_some() {
            let buffer = self.io.new_buffer();
            let generation = match word {
                Word::Stripe { mapping, .. } => mapping.generation,
                Word::Row { generation, .. } => *generation,
            };
            let io = self.io.new_io(slot, IoOwner::FetchCell { fetch: id, cell, buffer });
            let urgency = self.urgency_of(id);
            self.io.act(Action::Read { io, slot, at, into: vec![buffer], generation, urgency });
            if let Some(fetch) = self.reads.fetch_mut(id) {
                fetch.asked.insert(cell, buffer);
            }
            return true;
        }
        let Word::Stripe { logical, mapping, .. } = word else { unreachable!("rows carry their checksums") };
        if self.known_sums(*mapping, slot).is_some() {
            // The chunk was rebuilt in part: the row with this cell could not be.
            self.chunk_is_bad(slot, *logical, *mapping, &IoResult::Checksums(Vec::new()));
            self.lose(id, cell);
            return false;
        }
        let blocks = self.geometry.header_blocks(slot);
        let owner = IoOwner::FetchHeader { fetch: id, cell, logical: *logical, mapping: *mapping, slot };
        let io = self.io.new_io(slot, owner);
        let at = self.geometry.chunk_start(mapping.physical, slot);
        let urgency = self.urgency_of(id);
        self.io.act(Action::ReadBytes { io, slot, at, blocks, urgency });
        if let Some(fetch) = self.reads.fetch_mut(id) {
            fetch.headers += 1;
        }
        true
    }

    /// Returns the urgency of a fetch: reads for a rebuild are in the background.
    fn urgency_of(&self, id: FetchId) -> Urgency {
        match self.reads.fetch(id).map(|fetch| fetch.requester) {
            Some(Requester::Rebuild { .. } | Requester::RebuildRow { .. }) => Urgency::Background,
            _ => Urgency::User,
        }
    }

    fn lose(&mut self, id: FetchId, cell: CellIndex) {
        if let Some(fetch) = self.reads.fetch_mut(id) {
            fetch.lost.insert(cell);
        }
    }

    /// Takes a cell that has been read, or could not be.
    pub(crate) fn cell_read(&mut self, id: FetchId, cell: CellIndex, buffer: BufferId, result: &IoResult) {
        let Some(fetch) = self.reads.fetch_mut(id) else { return };
        fetch.asked.remove(&cell);
        let word = fetch.word.clone();
        // If the device was lost meanwhile, the expected checksum is not known any more.
        let is_known = self.expected(&word, cell).is_some();
        let is_kept = is_known && self.reads.fetch(id).is_some_and(|fetch| self.is_kept(fetch));
        let good = match result {
            IoResult::Checksums(sums) => sums.len() == 1 && self.expected(&word, cell) == Some(sums[0]),
            _ => false,
        };
        let slot = self.cell_place(&word, cell).0;
        match result {
            IoResult::MediaError => self.noting.count_unreadable(slot, true),
            IoResult::Checksums(_) if !good => self.noting.count_wrong(slot, u64::from(is_kept)),
            _ => self.noting.count_read(slot, u64::from(good)),
        }
        if good {
            if let Some(fetch) = self.reads.fetch_mut(id) {
                fetch.have.insert(cell, buffer);
            }
        } else {
            self.io.release(buffer);
            self.lose(id, cell);
            if *result != IoResult::Gone {
                if is_kept {
                    self.word_is_bad(&word, slot, result);
                }
                self.suspect(&word);
            }
        }
        self.advance(id);
    }

    fn word_is_bad(&mut self, word: &Word, slot: Slot, result: &IoResult) {
        match *word {
            Word::Stripe { logical, mapping, .. } => self.chunk_is_bad(slot, logical, mapping, result),
            Word::Row { row, generation, .. } => self.row_block_is_bad(slot, row, generation, result),
        }
    }

    /// Returns true if only the expected content can have been written where a fetch reads. Stripes
    /// that are read are pinned. But an epoch writes its own stripes again in the same place, and a
    /// row of the log that became free may be written before its readers are done. Wrong content
    /// then says nothing about the device.
    fn is_kept(&self, fetch: &Fetch) -> bool {
        match (&fetch.word, fetch.requester) {
            (Word::Stripe { .. }, Requester::Epoch { owed, version, .. }) => {
                self.is_settled_as_of(owed, version)
            }
            (Word::Stripe { .. }, _) => true,
            (Word::Row { row, generation, .. }, _) => self.maps.row_as_of(*row, *generation).is_some(),
        }
    }

    /// Takes the header of a cell's chunk, which has been read or could not be.
    pub(crate) fn header_read(
        &mut self,
        id: FetchId,
        cell: CellIndex,
        logical: u32,
        mapping: Mapping,
        slot: Slot,
        result: &IoResult,
    ) {
        let sums = match result {
            IoResult::Bytes(bytes) => self.chunk_sums(bytes, logical, mapping, slot),
            _ => None,
        };
        let known = sums.is_some();
        let is_kept = self.reads.fetch(id).is_some_and(|fetch| self.is_kept(fetch));
        self.count_header(slot, result, known || !is_kept);
        if let Some(sums) = sums {
            self.headers.keep(mapping.physical, slot, sums, &self.pins);
        }
        let Some(fetch) = self.reads.fetch_mut(id) else { return };
        fetch.headers -= 1;
        if !known {
            let word = fetch.word.clone();
            self.lose(id, cell);
            if *result != IoResult::Gone {
                if is_kept {
                    self.word_is_bad(&word, slot, result);
                }
                self.suspect(&word);
            }
        }
        self.advance(id);
    }

    pub(crate) fn count_header(&mut self, slot: Slot, result: &IoResult, is_good: bool) {
        self.noting.count_unreadable(slot, *result == IoResult::MediaError);
        let is_wrong = matches!(result, IoResult::Bytes(_)) && !is_good;
        self.noting.count_wrong(slot, u64::from(is_wrong));
    }

    /// Suspects the codeword of a block that should be good and was not. The next commit writes its
    /// stripe again, or the stripes of all blocks of its log row.
    fn suspect(&mut self, word: &Word) {
        match word {
            Word::Stripe { logical, mapping, .. } => self.suspect_stripe(*logical, *mapping),
            Word::Row { row, generation, .. } => {
                if let Some(row) = self.maps.row_as_of(*row, *generation) {
                    let homes = row.blocks.iter().flatten().map(|&block| self.geometry.locate(block).0);
                    homes.for_each(|home| self.damage.suspect(home));
                }
            }
        }
    }

    pub(crate) fn suspect_stripe(&mut self, logical: u32, mapping: Mapping) {
        let is_current = self.maps.mapping(logical) == Some(mapping);
        if is_current {
            self.damage.suspect(logical);
        }
    }

    /// Computes the block from the blocks that the plan reads, unless the block itself was read.
    fn combine(&mut self, id: FetchId) {
        let Some(fetch) = self.reads.fetch(id) else { return };
        let Some(plan) = fetch.plan.clone() else { return };
        if let Some(&buffer) = fetch.have.get(&fetch.wanted) {
            self.finish_fetch(id, Some(buffer));
            return;
        }
        let (word, wanted) = (fetch.word.clone(), fetch.wanted);
        let mut made: BTreeMap<CellIndex, BufferId> = fetch.have.clone();
        let mut sums = Vec::new();
        let mut scratch = Vec::new();
        for step in &plan.steps {
            let into = self.io.new_buffer();
            let terms = step.terms.iter().map(|&(cell, c)| (Operand::Buffer(made[&cell]), c)).collect();
            sums.push(Sum { into, terms });
            made.insert(step.target, into);
            scratch.push(into);
        }
        let result = made[&wanted];
        scratch.retain(|&b| b != result);
        let (slot, address) = self.cell_place(&word, wanted);
        let generation = match &word {
            Word::Stripe { mapping, .. } => mapping.generation,
            Word::Row { generation, .. } => *generation,
        };
        let expected = self.expected(&word, wanted);
        let checksums = match expected {
            Some(_) => vec![(Operand::Buffer(result), Seed { slot, address, generation })],
            None => Vec::new(),
        };
        if let Some(fetch) = self.reads.fetch_mut(id) {
            fetch.result = Some((result, expected));
        }
        self.io.compute(
            JobOwner::Fetch { fetch: id, scratch },
            Compute { sums, checksums, ..Compute::default() },
        );
    }

    pub(crate) fn fetch_computed(&mut self, id: FetchId, scratch: Vec<BufferId>, computed: &Computed) {
        scratch.into_iter().for_each(|buffer| self.io.release(buffer));
        let Some(fetch) = self.reads.fetch_mut(id) else { return };
        let Some((buffer, expected)) = fetch.result.take() else { return };
        let Computed { checksums: sums, .. } = computed;
        if expected.is_some_and(|e| sums.first() != Some(&e)) {
            self.io.release(buffer);
            self.abandon(id);
        } else {
            self.finish_fetch(id, Some(buffer));
            self.io.release(buffer);
        }
    }

    /// Ends a fetch whose block is lost. If the block has moved meanwhile, or a device has been
    /// rebuilt, it is looked up again.
    fn abandon(&mut self, id: FetchId) {
        let Some(fetch) = self.reads.fetch(id) else { return };
        if !fetch.asked.is_empty() || fetch.headers > 0 {
            // Reads under way still name this fetch; their reports come back here.
            return;
        }
        let (block, requester) = (fetch.block, fetch.requester);
        let moved = match &fetch.word {
            Word::Stripe { logical, mapping, .. } => {
                self.maps.mapping(*logical) != Some(*mapping) || self.maps.is_logged(block)
            }
            Word::Row { generation, .. } => {
                self.maps.log_place(block).and_then(|l| self.maps.row(l.row)).map(|r| r.generation)
                    != Some(*generation)
            }
        };
        let absent = self.absent_cells(&fetch.word);
        let returned: Vec<CellIndex> = fetch.absent.iter().filter(|&cell| !absent.contains(cell)).collect();
        if !moved && !returned.is_empty() {
            // A device that has been rebuilt since may replace one that was lost since.
            if let Some(fetch) = self.reads.fetch_mut(id) {
                returned.iter().for_each(|&cell| fetch.lost.remove(cell));
                absent.iter().for_each(|cell| fetch.lost.insert(cell));
                fetch.absent = absent;
            }
            self.advance(id);
            return;
        }
        self.finish_fetch_quietly(id);
        if moved
            && matches!(requester, Requester::User(..) | Requester::Commit { .. } | Requester::Settle { .. })
        {
            self.resolve(block, requester);
        } else {
            self.deliver(requester, block, None);
        }
    }

    fn finish_fetch(&mut self, id: FetchId, buffer: Option<BufferId>) {
        let Some(fetch) = self.reads.fetch(id) else { return };
        let (block, requester) = (fetch.block, fetch.requester);
        if let Some(buffer) = buffer {
            self.io.hold(buffer);
        }
        self.finish_fetch_quietly(id);
        match buffer {
            Some(buffer) => {
                self.deliver(requester, block, Some(Operand::Buffer(buffer)));
                self.io.release(buffer);
            }
            None => self.deliver(requester, block, None),
        }
    }

    fn finish_fetch_quietly(&mut self, id: FetchId) {
        let Some(fetch) = self.reads.end_fetch(id) else { return };
        fetch.have.into_values().for_each(|buffer| self.io.release(buffer));
        if let Some((buffer, _)) = fetch.result {
            self.io.release(buffer);
        }
        if let Word::Stripe { mapping, .. } = fetch.word {
            self.pins.unpin(mapping.physical);
        }
    }
}
