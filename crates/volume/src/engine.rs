//! The engine: requests, memory, and who waits for what.
//!
//! What a user reads is, newest first: dirty memory, memory of the commit under way, the log, the stripe, zeros. Writes are
//! answered from memory; [`crate::commit`] makes them durable.

use crate::commit::Commit;
use crate::fetch::{ChunkSums, Fetch, FetchId, Requester};
use crate::geometry::Planners;
use crate::journal::Snapshot;
use crate::maps::{Mapping, Maps};
use crate::{
    Action, BufferId, Computed, Event, Failure, Geometry, IoId, IoResult, JobId, Operand, Reply, Request,
    RequestId, Slot, UserBlock,
};
use pantile_code::CellIndex;
use pantile_format::Generation;
use pantile_format::volume::{MemberState, Superblock};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Dirty blocks that start a commit although nobody waits for one.
const DIRTY_BLOCKS_MARK: usize = 4096;

/// Buffers that the engine names start here; the driver's own stay below.
pub const ENGINE_BUFFERS: u64 = 1 << 63;

/// Chunk headers kept in memory.
const HEADERS_MOST: usize = 4096;

/// What an input or output was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IoOwner {
    FetchCell { fetch: FetchId, cell: CellIndex, buffer: BufferId },
    FetchHeader { fetch: FetchId, cell: CellIndex, logical: u32, mapping: Mapping, slot: Slot },
    CommitWrite,
    CommitFlush,
    Snapshot,
}

/// What a computation was for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JobOwner {
    Fetch { fetch: FetchId, scratch: Vec<BufferId> },
    CommitStripe(usize),
    CommitRow(usize),
}

/// Content in memory: newest writes and trims that are not in a commit yet, or that one commit takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dirty {
    /// `Zeros` for a block trimmed by itself.
    pub(crate) blocks: BTreeMap<UserBlock, Operand>,
    /// Logical stripes trimmed as a whole, before the writes in `blocks`.
    pub(crate) unmapped: BTreeSet<u32>,
}

impl Dirty {
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.unmapped.is_empty()
    }
}

#[derive(Debug)]
struct UserRead {
    first: UserBlock,
    blocks: Vec<Option<Option<Operand>>>,
    missing: usize,
    lost: Option<UserBlock>,
}

/// A volume.
#[derive(Debug)]
pub struct Engine {
    pub(crate) geometry: Geometry,
    pub(crate) planners: Planners,
    pub(crate) maps: Maps,
    /// Written or trimmed, not yet part of what is being made durable.
    pub(crate) dirty: Dirty,
    /// Being made durable, by one commit after another.
    pub(crate) sealed: Dirty,
    /// Answered when `sealed` is durable.
    pub(crate) sealed_waiters: Vec<RequestId>,
    /// Wait for what is dirty now.
    pub(crate) waiters: Vec<RequestId>,
    pub(crate) commit: Option<Commit>,
    pub(crate) fetches: BTreeMap<FetchId, Fetch>,
    reads: BTreeMap<RequestId, UserRead>,
    ios: BTreeMap<IoId, (Slot, IoOwner)>,
    jobs: BTreeMap<JobId, JobOwner>,
    actions: VecDeque<Action>,
    references: BTreeMap<BufferId, u32>,
    /// Physical stripes that a fetch is reading.
    pub(crate) pins: BTreeMap<u32, u32>,
    pub(crate) sums: BTreeMap<(u32, Slot), ChunkSums>,
    /// Logical stripes with a block that did not verify.
    pub(crate) repair: BTreeSet<u32>,
    pub(crate) log_suspect: bool,
    /// A device's state has changed and no record says so yet.
    pub(crate) members_changed: bool,
    /// More devices are gone than the code can bear.
    pub(crate) failed: bool,
    counter: u64,
    /// The number of the next record, and where it goes in the ring.
    pub(crate) record: u64,
    pub(crate) journal_head: u32,
    /// Blocks of the ring that hold records newer than the snapshot.
    pub(crate) journal_used: u32,
    /// As it is on the devices; each has it with its own slot.
    pub(crate) superblock: Superblock,
    pub(crate) snapshot: Option<Snapshot>,
    /// Blocks that could not be had while the volume was opened.
    verify_lost: usize,
}

impl Engine {
    pub(crate) fn resume(
        geometry: Geometry,
        maps: Maps,
        superblock: Superblock,
        record: u64,
        journal_head: u32,
    ) -> Result<Engine, pantile_code::CodeError> {
        let geometry_journal = geometry.journal_blocks();
        Ok(Engine {
            planners: Planners::new(&geometry)?,
            geometry,
            maps,
            dirty: Dirty::default(),
            sealed: Dirty::default(),
            sealed_waiters: Vec::new(),
            waiters: Vec::new(),
            commit: None,
            fetches: BTreeMap::new(),
            reads: BTreeMap::new(),
            ios: BTreeMap::new(),
            jobs: BTreeMap::new(),
            actions: VecDeque::new(),
            references: BTreeMap::new(),
            pins: BTreeMap::new(),
            sums: BTreeMap::new(),
            repair: BTreeSet::new(),
            log_suspect: false,
            members_changed: false,
            failed: false,
            counter: 0,
            record,
            journal_head,
            // Until the next snapshot all of the ring may hold records that are still needed.
            journal_used: geometry_journal / 2 + 1,
            superblock,
            snapshot: None,
            verify_lost: 0,
        })
    }

    /// Enters a new session, whose superblock the caller makes durable before anything else is written.
    pub(crate) fn enter_session(&mut self, superblock: Superblock) {
        self.maps.generation = self.maps.generation.max(superblock.generation_floor.0);
        self.superblock = superblock;
    }

    pub(crate) fn next_record(&self) -> u64 {
        self.record
    }

    /// A device does not answer when the volume is opened.
    pub(crate) fn missing_at_start(&mut self, slot: Slot) {
        self.device_gone(slot);
    }

    /// Takes an event while nothing may be written yet.
    pub(crate) fn handle_while_opening(&mut self, event: Event) {
        match event {
            Event::IoDone(io, result) => self.io_done(io, &result),
            Event::Computed(job, computed) => self.computed(job, &computed),
            Event::DeviceGone(slot) => self.device_gone(slot),
            Event::Request(..) => {}
        }
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.ios.is_empty() && self.jobs.is_empty() && self.fetches.is_empty()
    }

    pub(crate) fn verify_failed(&self) -> bool {
        self.verify_lost > 0 || self.failed
    }

    /// Whether something that a present device should hold did not verify.
    pub(crate) fn has_suspects(&self) -> bool {
        !self.repair.is_empty() || self.log_suspect
    }

    /// The numbers of the volume.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Asserts what must hold between events.
    pub fn check(&self) {
        self.maps.check(&self.geometry);
    }

    /// Takes an event. The actions that follow are had from [`Engine::next_action`].
    pub fn handle(&mut self, event: Event) {
        match event {
            Event::Request(id, request) => self.request(id, request),
            Event::IoDone(io, result) => self.io_done(io, &result),
            Event::Computed(job, computed) => self.computed(job, &computed),
            Event::DeviceGone(slot) => self.device_gone(slot),
        }
        self.drive_commit();
    }

    /// The next thing to be done, until there is none.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn request(&mut self, id: RequestId, request: Request) {
        let end = match &request {
            Request::Read { first, count } => first.0.checked_add(u64::from(*count)),
            Request::Write { first, buffers, .. } => first.0.checked_add(buffers.len() as u64),
            Request::Trim { first, count } => first.0.checked_add(*count),
            Request::Flush => Some(0),
        };
        if end.is_none_or(|end| end > self.geometry.user_blocks()) {
            if let Request::Write { buffers, .. } = &request {
                buffers.iter().for_each(|&buffer| self.act(Action::Release(buffer)));
            }
            let end = UserBlock(self.geometry.user_blocks());
            self.reply(id, Reply::Failed(Failure::OutOfRange { end }));
            return;
        }
        match request {
            Request::Read { first, count } => self.user_read(id, first, count),
            Request::Write { first, buffers, durable } => {
                for (i, buffer) in buffers.into_iter().enumerate() {
                    self.references.insert(buffer, 1);
                    self.put(UserBlock(first.0 + i as u64), Operand::Buffer(buffer));
                }
                self.written(id, durable);
            }
            Request::Trim { first, count } => {
                self.trim(first, count);
                self.written(id, false);
            }
            Request::Flush => self.flush(id),
        }
    }

    fn written(&mut self, id: RequestId, durable: bool) {
        match (self.failed, durable) {
            (true, _) => self.reply(id, Reply::Failed(Failure::NotDurable)),
            (false, true) => self.flush(id),
            (false, false) => self.reply(id, Reply::Done),
        }
    }

    /// Answers when everything answered so far is durable.
    fn flush(&mut self, id: RequestId) {
        if self.failed {
            self.reply(id, Reply::Failed(Failure::NotDurable));
        } else if !self.dirty.is_empty() || self.members_changed {
            self.waiters.push(id);
        } else if !self.sealed.is_empty() || self.commit.is_some() {
            self.sealed_waiters.push(id);
        } else {
            self.reply(id, Reply::Done);
        }
    }

    fn put(&mut self, block: UserBlock, content: Operand) {
        if let Some(Operand::Buffer(old)) = self.dirty.blocks.insert(block, content) {
            self.release(old);
        }
    }

    fn trim(&mut self, first: UserBlock, count: u64) {
        let per_stripe = self.geometry.stripe_blocks();
        let end = first.0 + count;
        let mut at = first.0;
        while at < end {
            let (logical, place) = self.geometry.locate(UserBlock(at));
            let stop = end.min(at - u64::from(place) + per_stripe);
            if stop - at == per_stripe {
                let gone: Vec<UserBlock> =
                    self.dirty.blocks.range(UserBlock(at)..UserBlock(stop)).map(|(&b, _)| b).collect();
                for block in gone {
                    if let Some(Operand::Buffer(old)) = self.dirty.blocks.remove(&block) {
                        self.release(old);
                    }
                }
                self.dirty.unmapped.insert(logical);
            } else {
                (at..stop).for_each(|block| self.put(UserBlock(block), Operand::Zeros));
            }
            at = stop;
        }
    }

    fn user_read(&mut self, id: RequestId, first: UserBlock, count: u32) {
        let blocks = vec![None; count as usize];
        self.reads.insert(id, UserRead { first, blocks, missing: count as usize, lost: None });
        for i in 0..u64::from(count) {
            self.resolve(UserBlock(first.0 + i), Requester::User(id, i as usize));
        }
        if count == 0 {
            self.finish_read(id);
        }
    }

    /// Finds the newest content of a block, in memory or on the devices.
    pub(crate) fn resolve(&mut self, block: UserBlock, requester: Requester) {
        let (logical, _) = self.geometry.locate(block);
        if let Requester::User(..) = requester {
            let taken = self.commit.as_ref().map(|c| &c.taken);
            let found =
                [Some(&self.dirty), Some(&self.sealed), taken].into_iter().flatten().find_map(|memory| {
                    let trimmed = || memory.unmapped.contains(&logical).then_some(Operand::Zeros);
                    memory.blocks.get(&block).copied().or_else(trimmed)
                });
            if let Some(content) = found {
                self.deliver(requester, block, Some(content));
                return;
            }
        }
        if self.maps.log.contains_key(&block) || self.maps.stripes[logical as usize].is_some() {
            self.fetch(block, requester);
        } else {
            self.deliver(requester, block, Some(Operand::Zeros));
        }
    }

    /// A block is there, or (`None`) cannot be had.
    pub(crate) fn deliver(&mut self, requester: Requester, block: UserBlock, content: Option<Operand>) {
        if let Some(Operand::Buffer(buffer)) = content {
            self.hold(buffer);
        }
        match requester {
            Requester::User(id, index) => {
                let Some(read) = self.reads.get_mut(&id) else { return };
                read.blocks[index] = Some(content);
                read.missing -= 1;
                if content.is_none() {
                    read.lost.get_or_insert(block);
                }
                if read.missing == 0 {
                    self.finish_read(id);
                }
            }
            Requester::Commit { stripe, place } => self.gathered(stripe, place, content),
            Requester::CommitRow { row, index } => self.gathered_for_row(row, index, content),
            Requester::Verify => {
                self.verify_lost += usize::from(content.is_none());
                if let Some(Operand::Buffer(buffer)) = content {
                    self.release(buffer);
                }
            }
        }
    }

    fn finish_read(&mut self, id: RequestId) {
        let Some(read) = self.reads.remove(&id) else { return };
        let contents: Vec<Option<Operand>> = read.blocks.into_iter().map(Option::flatten).collect();
        let reply = match read.lost {
            Some(block) => Reply::Failed(Failure::Lost { block }),
            None => Reply::Read(
                contents
                    .iter()
                    .map(|content| match content {
                        Some(Operand::Buffer(buffer)) => Some(*buffer),
                        _ => None,
                    })
                    .collect(),
            ),
        };
        debug_assert!(read.first.0 < self.geometry.user_blocks() || contents.is_empty());
        self.reply(id, reply);
        for content in contents.into_iter().flatten() {
            if let Operand::Buffer(buffer) = content {
                self.release(buffer);
            }
        }
    }

    fn io_done(&mut self, io: IoId, result: &IoResult) {
        let Some((slot, owner)) = self.ios.remove(&io) else { return };
        if *result == IoResult::Gone {
            self.device_gone(slot);
        }
        match owner {
            IoOwner::FetchCell { fetch, cell, buffer } => self.cell_read(fetch, cell, buffer, result),
            IoOwner::FetchHeader { fetch, cell, logical, mapping, slot } => {
                self.header_read(fetch, cell, logical, mapping, slot, result);
            }
            IoOwner::CommitWrite | IoOwner::CommitFlush => {
                // A device that cannot write is lost, whatever else it can do.
                if *result == IoResult::MediaError {
                    self.device_gone(slot);
                }
                self.commit_io_done();
            }
            IoOwner::Snapshot => {
                if *result == IoResult::MediaError {
                    self.device_gone(slot);
                }
                self.snapshot_part_done();
            }
        }
    }

    fn computed(&mut self, job: JobId, computed: &Computed) {
        match self.jobs.remove(&job) {
            Some(JobOwner::Fetch { fetch, scratch }) => self.fetch_computed(fetch, scratch, computed),
            Some(JobOwner::CommitStripe(index)) => self.stripe_computed(index, computed),
            Some(JobOwner::CommitRow(index)) => self.row_computed(index, computed),
            None => {}
        }
    }

    /// A device is lost from the generation on that no flush of it has covered.
    fn device_gone(&mut self, slot: Slot) {
        let since = self.commit.as_ref().map_or(self.maps.generation, |commit| commit.first_generation);
        let missed_from = match self.maps.members[slot.0 as usize] {
            MemberState::Lost { .. } => return,
            MemberState::Present => Generation(since),
            MemberState::Rebuilding { missed_from, .. } => missed_from,
        };
        self.maps.members[slot.0 as usize] = MemberState::Lost { missed_from };
        self.members_changed = true;
        self.sums.retain(|&(_, s), _| s != slot);
        self.failed |= self.maps.absent().len() > self.geometry.tolerance();
    }

    /// Whether enough is dirty that a commit should start by itself.
    pub(crate) fn above_mark(&self) -> bool {
        self.dirty.blocks.len() >= DIRTY_BLOCKS_MARK
    }

    pub(crate) fn keep_sums(&mut self, physical: u32, slot: Slot, sums: ChunkSums) {
        if self.sums.len() >= HEADERS_MOST {
            self.sums.pop_first();
        }
        self.sums.insert((physical, slot), sums);
    }

    pub(crate) fn unpin(&mut self, physical: u32) {
        if let Some(count) = self.pins.get_mut(&physical) {
            *count -= 1;
            if *count == 0 {
                self.pins.remove(&physical);
            }
        }
    }

    pub(crate) fn act(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    pub(crate) fn reply(&mut self, id: RequestId, reply: Reply) {
        self.act(Action::Reply(id, reply));
    }

    pub(crate) fn next_id(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    pub(crate) fn new_buffer(&mut self) -> BufferId {
        let buffer = BufferId(ENGINE_BUFFERS + self.next_id());
        self.references.insert(buffer, 1);
        buffer
    }

    pub(crate) fn new_io(&mut self, slot: Slot, owner: IoOwner) -> IoId {
        let io = IoId(self.next_id());
        self.ios.insert(io, (slot, owner));
        io
    }

    pub(crate) fn new_job(&mut self, owner: JobOwner) -> JobId {
        let job = JobId(self.next_id());
        self.jobs.insert(job, owner);
        job
    }

    /// One more holder of a buffer.
    pub(crate) fn hold(&mut self, buffer: BufferId) {
        *self.references.entry(buffer).or_default() += 1;
    }

    /// One holder less; the last lets the driver have it back.
    pub(crate) fn release(&mut self, buffer: BufferId) {
        let Some(count) = self.references.get_mut(&buffer) else {
            unreachable!("buffer {buffer:?} is released more often than it is held")
        };
        *count -= 1;
        if *count == 0 {
            self.references.remove(&buffer);
            self.act(Action::Release(buffer));
        }
    }
}
