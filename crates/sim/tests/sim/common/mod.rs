//! A toy volume to test the simulation: the same blocks on every device, and bugs that can be
//! planted.
//!
//! Each user block has two places on each device: a block of data and, behind it, a block of
//! metadata with block, version and checksum. A commit writes new versions to free places, flushes
//! every device, then switches. So places in use are durable and never overwritten. A superblock,
//! smaller than a sector, holds the session: a device with an older session missed a write, and its
//! content does not count. (A loss needs no record: the others continue to newer versions.) Opening
//! takes the newest verified version of each block, copies it to all devices, flushes, and only
//! then begins a session. The tolerance of n devices is n - 1.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pantile_format::Crc64;
use pantile_sim::{Config, Engine, FIRST_ENGINE_BUFFER, Fault, Refusal, Start};
use pantile_volume::{
    Action, BufferId, Compute, Computed, DeviceBlock, Event, Failure, IoId, IoResult, JobId, Operand, Piece,
    Reply, Request, RequestId, Seed, Slot, Urgency, UserBlock,
};

/// Blocks of the toy's volume.
pub const USER_BLOCKS: u64 = 24;

/// Blocks of each device.
pub const DEVICE_BLOCKS: u64 = 1 + 4 * USER_BLOCKS;

/// Dirty blocks that start a commit.
const DIRTY_MOST: usize = 12;

/// A bug that can be planted in a toy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Answers a flush when everything is written but not flushed.
    AnswersBeforeFlush,
    /// Flushes all devices but the last.
    ForgetsOneFlush,
    /// Opens with the content of a device that missed writes, if it has the newest version.
    TrustsStaleDevice,
    /// Opens with the content of the first device, even an old one.
    ReadsStaleMirror,
    /// Returns the block before in reads of several blocks.
    GivesOtherBlock,
    /// Returns versions whose data it has not verified.
    TakesTornBlock,
    /// Returns content whatever its checksum is.
    DropsChecksum,
    /// Overwrites places in use.
    WritesInPlace,
    /// Serves after opening without bringing the devices to one state.
    SkipsCatchUp,
    /// Releases a buffer while it is being written.
    ReleasesTooEarly,
    /// Keeps the buffers of overwritten blocks in memory.
    Leaks,
    /// Waits for a device that is gone.
    WaitsForever,
    /// Visits its blocks in the order of a table with a random hash.
    HashOrder,
}

/// A toy volume: a mirror of one or more devices.
pub struct Toy {
    bug: Option<Bug>,
    devices: u32,
    present: BTreeSet<Slot>,
    session: u64,
    phase: Phase,
    opened: bool,
    actions: VecDeque<Action>,
    next: u64,
    ios: BTreeMap<IoId, Purpose>,
    /// Versions that were verified when the volume was opened: (block, place) -> devices that have
    /// it, and its version.
    found: BTreeMap<(u64, u64), BTreeMap<Slot, Meta>>,
    sessions: BTreeMap<Slot, u64>,
    copies: Vec<Copy>,
    in_use: BTreeMap<u64, InUse>,
    version: u64,
    dirty: BTreeMap<u64, Operand>,
    commit: BTreeMap<u64, Operand>,
    /// The targets of the commit: place, version and checksum for each device.
    targets: BTreeMap<u64, InUse>,
    waiters: Vec<RequestId>,
    commit_waiters: Vec<RequestId>,
    held: VecDeque<(RequestId, Request)>,
    reads: BTreeMap<RequestId, UserRead>,
    /// The number of holders of a buffer beyond the first.
    more_holders: BTreeMap<BufferId, u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    ReadingMetadata,
    ReadingData,
    Copying,
    FlushingCopies,
    WritingSession,
    FlushingSession,
    Idle,
    Computing,
    Writing,
    Flushing,
}

enum Purpose {
    Superblock(Slot),
    Metadata(Slot, u64, u64),
    Verify(Slot, u64, u64, Meta, BufferId),
    CopyRead(usize, Slot, BufferId),
    Phase(Slot),
    UserRead(BlockRead, Slot, BufferId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Meta {
    block: u64,
    version: u64,
    zeros: bool,
    sum: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct InUse {
    place: u64,
    version: u64,
    zeros: bool,
    sums: BTreeMap<Slot, u64>,
}

/// A block that some devices lack.
struct Copy {
    block: u64,
    from: InUse,
    to: Vec<Slot>,
    buffer: Option<BufferId>,
    tried: BTreeSet<Slot>,
}

/// A block of a user's read that is under way.
struct BlockRead {
    request: RequestId,
    index: usize,
    block: u64,
    from: InUse,
    tried: BTreeSet<Slot>,
}

struct UserRead {
    contents: Vec<Option<Operand>>,
    made: Vec<BufferId>,
    missing: usize,
    lost: bool,
}

fn address(block: u64, place: u64) -> DeviceBlock {
    DeviceBlock(1 + 4 * block + 2 * place)
}

fn sealed(fields: &[u64]) -> Vec<u8> {
    let mut bytes: Vec<u8> = fields.iter().flat_map(|field| field.to_le_bytes()).collect();
    bytes.extend(Crc64::of(&bytes).0.to_le_bytes());
    bytes.resize(4096, 0);
    bytes
}

fn unsealed<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let word = |i: usize| u64::from_le_bytes(bytes[i * 8..][..8].try_into().unwrap());
    (Crc64::of(&bytes[..N * 8]).0 == word(N)).then(|| std::array::from_fn(word))
}

impl Meta {
    fn bytes(self) -> Vec<u8> {
        sealed(&[self.block, self.version, u64::from(self.zeros), self.sum])
    }

    fn of(bytes: &[u8]) -> Option<Meta> {
        unsealed(bytes).map(|[block, version, zeros, sum]| Meta { block, version, zeros: zeros == 1, sum })
    }
}

impl Toy {
    /// Makes or opens a toy.
    pub fn start(start: Start<'_>, bug: Option<Bug>) -> Result<Toy, Refusal> {
        if start.session == 0 {
            let superblock = pantile_sim::Content::of_bytes(&sealed(&[1]));
            start.disks.iter_mut().for_each(|disk| disk.put(DeviceBlock(0), superblock.clone()));
        }
        let present = (0..).map(Slot).zip(start.disks.iter()).filter(|(_, disk)| disk.is_present());
        let mut toy = Toy {
            bug,
            devices: start.disks.len() as u32,
            present: present.map(|(slot, _)| slot).collect(),
            session: 0,
            phase: Phase::ReadingMetadata,
            opened: false,
            actions: VecDeque::new(),
            next: 0,
            ios: BTreeMap::new(),
            found: BTreeMap::new(),
            sessions: BTreeMap::new(),
            copies: Vec::new(),
            in_use: BTreeMap::new(),
            version: 0,
            dirty: BTreeMap::new(),
            commit: BTreeMap::new(),
            targets: BTreeMap::new(),
            waiters: Vec::new(),
            commit_waiters: Vec::new(),
            held: VecDeque::new(),
            reads: BTreeMap::new(),
            more_holders: BTreeMap::new(),
        };
        toy.read_metadata();
        Ok(toy)
    }

    /// Returns the world for a toy.
    pub fn config(devices: u32) -> Config {
        let mut config = Config::small(devices, DEVICE_BLOCKS, USER_BLOCKS, devices - 1);
        config.faults.retain(|fault| !matches!(fault, Fault::Returns | Fault::Replaced));
        config
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn name(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn io(&mut self, purpose: Purpose) -> IoId {
        let io = IoId(self.name());
        self.ios.insert(io, purpose);
        io
    }

    fn buffer(&mut self) -> BufferId {
        BufferId(FIRST_ENGINE_BUFFER + self.name())
    }

    fn read_metadata(&mut self) {
        for slot in self.present.clone() {
            let io = self.io(Purpose::Superblock(slot));
            self.actions.push_back(Action::ReadBytes {
                io,
                slot,
                at: DeviceBlock(0),
                blocks: 1,
                urgency: Urgency::User,
            });
            for (block, place) in places() {
                let io = self.io(Purpose::Metadata(slot, block, place));
                let at = DeviceBlock(address(block, place).0 + 1);
                self.actions.push_back(Action::ReadBytes { io, slot, at, blocks: 1, urgency: Urgency::User });
            }
        }
    }

    fn read_data(&mut self) {
        self.phase = Phase::ReadingData;
        let newest = self.sessions.values().copied().max().unwrap_or(0);
        self.session = newest;
        let trusts = self.has(Bug::TrustsStaleDevice) || self.has(Bug::ReadsStaleMirror);
        self.sessions.retain(|_, &mut session| session == newest || trusts);
        for ((block, place), by) in std::mem::take(&mut self.found) {
            by.into_iter().for_each(|(slot, meta)| self.verify(slot, block, place, meta));
        }
    }

    fn verify(&mut self, slot: Slot, block: u64, place: u64, meta: Meta) {
        if !self.sessions.contains_key(&slot) {
            return;
        }
        if meta.zeros || self.has(Bug::TakesTornBlock) {
            self.found.entry((block, place)).or_default().insert(slot, meta);
            return;
        }
        let buffer = self.buffer();
        let io = self.io(Purpose::Verify(slot, block, place, meta, buffer));
        self.read(io, slot, address(block, place), buffer, meta.version);
    }

    fn read(&mut self, io: IoId, slot: Slot, at: DeviceBlock, buffer: BufferId, generation: u64) {
        let into = vec![buffer];
        self.actions.push_back(Action::Read { io, slot, at, into, generation, urgency: Urgency::User });
    }

    fn write(&mut self, slot: Slot, at: DeviceBlock, pieces: Vec<Piece>) {
        let io = self.io(Purpose::Phase(slot));
        self.actions.push_back(Action::Write { io, slot, at, pieces, urgency: Urgency::User });
    }

    /// Takes the newest version of each block and copies it to every device.
    fn choose(&mut self) {
        self.phase = Phase::Copying;
        (0..USER_BLOCKS).for_each(|block| self.choose_for(block));
        self.spoil_the_forgotten();
    }

    fn choose_for(&mut self, block: u64) {
        let first = self.present.first().copied().filter(|_| self.has(Bug::ReadsStaleMirror));
        let newest = (0..2).filter_map(|place| {
            let by = self.found.get(&(block, place))?.iter();
            let by = by.filter(|&(slot, _)| first.is_none_or(|first| *slot == first));
            Some((by.map(|(_, meta)| meta.version).max()?, place))
        });
        let Some((version, place)) = newest.max() else { return };
        let by: BTreeMap<Slot, Meta> = self.found[&(block, place)]
            .iter()
            .filter(|(_, meta)| meta.version == version)
            .map(|(&slot, &meta)| (slot, meta))
            .collect();
        let zeros = by.values().any(|meta| meta.zeros);
        let sums = by.iter().map(|(&slot, meta)| (slot, meta.sum)).collect();
        let from = InUse { place, version, zeros, sums };
        self.version = self.version.max(version);
        self.in_use.insert(block, from.clone());
        let to: Vec<Slot> = self.present.iter().copied().filter(|slot| !by.contains_key(slot)).collect();
        if to.is_empty() || self.has(Bug::SkipsCatchUp) {
            return;
        }
        let index = self.copies.len();
        self.copies.push(Copy { block, from, to, buffer: None, tried: BTreeSet::new() });
        if zeros { self.copy(index) } else { self.read_copy(index) }
    }

    /// Gives up a version whose only good copy has gone bad since it was found: no user was
    /// promised that version.
    fn forget(&mut self, index: usize) {
        let Copy { block, ref from, ref mut to, .. } = self.copies[index];
        let place = from.place;
        to.clear();
        self.found.remove(&(block, place));
        self.in_use.remove(&block);
        for slot in self.present.clone() {
            self.spoil(slot, block, place);
        }
        self.choose_for(block);
    }

    fn read_copy(&mut self, index: usize) {
        let Copy { block, ref from, ref tried, .. } = self.copies[index];
        let may = |slot: &&Slot| self.present.contains(slot) && !tried.contains(slot);
        let Some(&slot) = from.sums.keys().find(may) else { return self.forget(index) };
        let (at, generation) = (address(block, from.place), from.version);
        let buffer = self.buffer();
        let io = self.io(Purpose::CopyRead(index, slot, buffer));
        self.read(io, slot, at, buffer, generation);
    }

    fn copy(&mut self, index: usize) {
        let Copy { block, ref from, ref mut to, buffer, .. } = self.copies[index];
        let (at, from) = (address(block, from.place), from.clone());
        let Some(buffer) = buffer else {
            let to = std::mem::take(to);
            return to.iter().for_each(|&slot| self.write_version(slot, block, &from, Operand::Zeros, 0));
        };
        let operand = Operand::Buffer(buffer);
        let seeds = to.iter().map(|&slot| (operand, Seed { slot, address: at, generation: from.version }));
        let work = Compute { checksums: seeds.collect(), ..Compute::default() };
        self.actions.push_back(Action::Compute { job: JobId(index as u64), work });
    }

    fn write_copy(&mut self, index: usize, sums: &[u64]) {
        let Copy { block, ref from, ref mut to, buffer, .. } = self.copies[index];
        let (from, to, operand) =
            (from.clone(), std::mem::take(to), Operand::Buffer(buffer.expect("it was read")));
        to.iter().zip(sums).for_each(|(&slot, &sum)| self.write_version(slot, block, &from, operand, sum));
    }

    fn write_version(&mut self, slot: Slot, block: u64, version: &InUse, operand: Operand, sum: u64) {
        let meta = Meta { block, version: version.version, zeros: version.zeros, sum };
        let pieces = vec![Piece::Block(operand), Piece::Bytes(meta.bytes())];
        self.write(slot, address(block, version.place), pieces);
        if let Some(in_use) = self.in_use.get_mut(&block).filter(|in_use| in_use.version == version.version) {
            in_use.sums.insert(slot, sum);
        }
    }

    /// Overwrites old content of a device that missed a write, so that it cannot be found later.
    fn spoil_the_forgotten(&mut self) {
        let stale: Vec<Slot> =
            self.present.iter().copied().filter(|slot| !self.sessions.contains_key(slot)).collect();
        for (block, place) in places() {
            if self.in_use.get(&block).is_none_or(|kept| kept.place != place) {
                stale.iter().for_each(|&slot| self.spoil(slot, block, place));
            }
        }
    }

    fn spoil(&mut self, slot: Slot, block: u64, place: u64) {
        let at = DeviceBlock(address(block, place).0 + 1);
        self.write(slot, at, vec![Piece::Bytes(vec![0; 4096])]);
    }

    fn flush_all(&mut self, phase: Phase) {
        self.phase = phase;
        let mut slots: Vec<Slot> = self.present.iter().copied().collect();
        if self.has(Bug::ForgetsOneFlush) && slots.len() == self.devices as usize {
            slots.pop();
        }
        for slot in slots {
            let io = self.io(Purpose::Phase(slot));
            self.actions.push_back(Action::Flush { io, slot });
        }
    }

    fn write_session(&mut self) {
        self.phase = Phase::WritingSession;
        self.session += 1;
        let bytes = sealed(&[self.session]);
        for slot in self.present.clone() {
            self.write(slot, DeviceBlock(0), vec![Piece::Bytes(bytes.clone())]);
        }
    }

    /// Continues: everything of the phase is done when only users' reads are under way.
    fn advance(&mut self) {
        if self.ios.values().any(|purpose| !matches!(purpose, Purpose::UserRead(..))) {
            return;
        }
        match self.phase {
            Phase::ReadingMetadata => self.read_data(),
            Phase::ReadingData => self.choose(),
            Phase::Copying if self.copies.iter().all(|copy| copy.to.is_empty()) => {
                let buffers: Vec<BufferId> = self.copies.drain(..).filter_map(|copy| copy.buffer).collect();
                buffers.into_iter().for_each(|buffer| self.actions.push_back(Action::Release(buffer)));
                self.flush_all(Phase::FlushingCopies);
            }
            Phase::FlushingCopies => self.write_session(),
            Phase::WritingSession => self.flush_all(Phase::FlushingSession),
            Phase::FlushingSession => {
                self.phase = Phase::Idle;
                self.opened = true;
                std::mem::take(&mut self.held)
                    .into_iter()
                    .for_each(|(id, request)| self.request(id, request));
                self.begin_commit();
                return;
            }
            Phase::Writing if self.has(Bug::AnswersBeforeFlush) => {
                self.answer_waiters();
                self.flush_all(Phase::Flushing);
            }
            Phase::Writing => self.flush_all(Phase::Flushing),
            Phase::Flushing => self.finish(),
            Phase::Idle | Phase::Computing | Phase::Copying => return,
        }
        self.advance();
    }

    fn begin_commit(&mut self) {
        if self.phase != Phase::Idle || (self.waiters.is_empty() && self.dirty.len() < DIRTY_MOST) {
            return;
        }
        self.phase = Phase::Computing;
        self.commit = std::mem::take(&mut self.dirty);
        self.commit_waiters = std::mem::take(&mut self.waiters);
        let mut checksums = Vec::new();
        for (&block, &operand) in &self.commit {
            self.version += 1;
            let place = match self.in_use.get(&block) {
                Some(in_use) if self.bug == Some(Bug::WritesInPlace) => in_use.place,
                Some(in_use) => 1 - in_use.place,
                None => 0,
            };
            let zeros = operand == Operand::Zeros;
            let version = self.version;
            let seed = |slot| Seed { slot, address: address(block, place), generation: version };
            checksums.extend(self.present.iter().map(|&slot| (operand, seed(slot))));
            let sums = self.present.iter().map(|&slot| (slot, 0)).collect();
            self.targets.insert(block, InUse { place, version, zeros, sums });
        }
        let job = JobId((1 << 32) + self.name());
        self.actions.push_back(Action::Compute { job, work: Compute { checksums, ..Compute::default() } });
    }

    fn write_commit(&mut self, sums: &[u64]) {
        self.phase = Phase::Writing;
        let mut sums = sums.iter();
        let mut writes = Vec::new();
        for (&block, target) in &mut self.targets {
            for (&slot, sum) in &mut target.sums {
                *sum = *sums.next().expect("one was asked for each");
                writes.push((slot, block, *sum));
            }
        }
        if self.has(Bug::HashOrder) {
            let shuffled: std::collections::HashSet<_> = writes.drain(..).collect();
            writes.extend(shuffled);
        }
        for (slot, block, sum) in writes {
            let (operand, target) = (self.commit[&block], self.targets[&block].clone());
            if self.present.contains(&slot) {
                self.write_version(slot, block, &target, operand, sum);
            }
        }
        if self.has(Bug::ReleasesTooEarly) {
            self.release_commit();
        }
    }

    fn finish(&mut self) {
        self.phase = Phase::Idle;
        self.in_use.append(&mut self.targets);
        self.release_commit();
        self.answer_waiters();
        self.begin_commit();
    }

    fn release_commit(&mut self) {
        for operand in std::mem::take(&mut self.commit).into_values() {
            self.release(operand);
        }
    }

    fn answer_waiters(&mut self) {
        let waiters = std::mem::take(&mut self.commit_waiters);
        waiters.into_iter().for_each(|id| self.actions.push_back(Action::Reply(id, Reply::Done)));
    }

    fn release(&mut self, operand: Operand) {
        let Operand::Buffer(buffer) = operand else { return };
        match self.more_holders.get_mut(&buffer) {
            None => self.actions.push_back(Action::Release(buffer)),
            Some(1) => drop(self.more_holders.remove(&buffer)),
            Some(more) => *more -= 1,
        }
    }

    fn put(&mut self, block: u64, operand: Operand) {
        if let Some(old) = self.dirty.insert(block, operand)
            && !self.has(Bug::Leaks)
        {
            self.release(old);
        }
    }

    fn request(&mut self, id: RequestId, request: Request) {
        if !self.is_ready() {
            return self.held.push_back((id, request));
        }
        let (first, count) = match &request {
            Request::Read { first, count } => (first.0, u64::from(*count)),
            Request::Write { first, contents: buffers, .. } => (first.0, buffers.len() as u64),
            Request::Trim { first, count } => (first.0, *count),
            _ => (0, 0),
        };
        if first.checked_add(count).is_none_or(|end| end > USER_BLOCKS) {
            if let Request::Write { contents: buffers, .. } = request {
                buffers.into_iter().for_each(|buffer| self.release(Operand::Buffer(buffer)));
            }
            let failure = Failure::OutOfRange { end: UserBlock(USER_BLOCKS) };
            return self.actions.push_back(Action::Reply(id, Reply::Failed(failure)));
        }
        match request {
            Request::Read { .. } => return self.user_read(id, first, count),
            Request::Write { contents: buffers, durable, .. } => {
                for (block, buffer) in (first..).zip(buffers) {
                    self.put(block, Operand::Buffer(buffer));
                }
                match durable {
                    true => self.waiters.push(id),
                    false => self.actions.push_back(Action::Reply(id, Reply::Done)),
                }
            }
            Request::Trim { .. } => {
                (first..first + count).for_each(|block| self.put(block, Operand::Zeros));
                self.actions.push_back(Action::Reply(id, Reply::Done));
            }
            // A toy has no epochs.
            _ => self.waiters.push(id),
        }
        self.begin_commit();
    }

    fn user_read(&mut self, id: RequestId, first: u64, count: u64) {
        let read = UserRead {
            contents: vec![None; count as usize],
            made: Vec::new(),
            missing: count as usize,
            lost: false,
        };
        self.reads.insert(id, read);
        for (index, mut block) in (first..first + count).enumerate() {
            if index == 3 && self.has(Bug::GivesOtherBlock) {
                block -= 1;
            }
            self.read_block(id, index, block, BTreeSet::new());
        }
    }

    fn read_block(&mut self, request: RequestId, index: usize, block: u64, tried: BTreeSet<Slot>) {
        if let Some(&operand) = self.dirty.get(&block).or_else(|| self.commit.get(&block)) {
            if let Operand::Buffer(buffer) = operand {
                *self.more_holders.entry(buffer).or_default() += 1;
                self.reads.get_mut(&request).expect("the read is open").made.push(buffer);
            }
            return self.found_block(request, index, Some(operand));
        }
        let Some(from) = self.in_use.get(&block).filter(|in_use| !in_use.zeros).cloned() else {
            return self.found_block(request, index, Some(Operand::Zeros));
        };
        // Reads are spread over the devices.
        let mut slots: Vec<Slot> =
            from.sums.keys().copied().filter(|slot| self.present.contains(slot)).collect();
        let turn = request.0 as usize % slots.len().max(1);
        slots.rotate_left(turn);
        let Some(&slot) = slots.iter().find(|slot| !tried.contains(slot)) else {
            return self.found_block(request, index, None);
        };
        let buffer = self.buffer();
        let (at, generation) = (address(block, from.place), from.version);
        let io = self.io(Purpose::UserRead(BlockRead { request, index, block, from, tried }, slot, buffer));
        self.read(io, slot, at, buffer, generation);
    }

    fn found_block(&mut self, request: RequestId, index: usize, operand: Option<Operand>) {
        let read = self.reads.get_mut(&request).expect("the read is open");
        read.missing -= 1;
        read.lost |= operand.is_none();
        read.contents[index] = operand;
        if read.missing == 0 {
            let read = self.reads.remove(&request).expect("the read is open");
            self.answer_read(request, read);
        }
    }

    fn answer_read(&mut self, request: RequestId, read: UserRead) {
        let reply = match read.lost {
            true => Reply::Failed(Failure::Lost { block: UserBlock(0) }),
            false => Reply::Read(
                read.contents
                    .iter()
                    .map(|operand| match operand {
                        Some(Operand::Buffer(buffer)) => Some(*buffer),
                        _ => None,
                    })
                    .collect(),
            ),
        };
        self.actions.push_back(Action::Reply(request, reply));
        read.made.into_iter().for_each(|buffer| self.release(Operand::Buffer(buffer)));
    }

    fn io_done(&mut self, io: IoId, result: IoResult) {
        match self.ios.remove(&io).expect("it is under way") {
            Purpose::Superblock(slot) => {
                let session = if let IoResult::Bytes(bytes) = &result { unsealed(bytes) } else { None };
                if let Some([session]) = session {
                    self.sessions.insert(slot, session);
                }
                self.lost_if_gone(slot, &result);
            }
            Purpose::Metadata(slot, block, place) => {
                let meta = if let IoResult::Bytes(bytes) = &result { Meta::of(bytes) } else { None };
                if let Some(meta) = meta.filter(|meta| meta.block == block) {
                    self.found.entry((block, place)).or_default().insert(slot, meta);
                }
                self.lost_if_gone(slot, &result);
            }
            Purpose::Verify(slot, block, place, meta, buffer) => {
                if result == IoResult::Checksums(vec![meta.sum]) {
                    self.found.entry((block, place)).or_default().insert(slot, meta);
                }
                self.release(Operand::Buffer(buffer));
                self.lost_if_gone(slot, &result);
            }
            Purpose::CopyRead(index, slot, buffer) => {
                self.lost_if_gone(slot, &result);
                if result == IoResult::Checksums(vec![self.copies[index].from.sums[&slot]]) {
                    self.copies[index].buffer = Some(buffer);
                    self.copy(index);
                } else {
                    self.release(Operand::Buffer(buffer));
                    self.copies[index].tried.insert(slot);
                    self.read_copy(index);
                }
            }
            Purpose::Phase(slot) => match result {
                IoResult::Done => {}
                IoResult::Gone if self.has(Bug::WaitsForever) => {
                    self.ios.insert(io, Purpose::Phase(slot));
                }
                _ => self.lose(slot),
            },
            Purpose::UserRead(read, slot, buffer) => {
                self.lost_if_gone(slot, &result);
                self.block_read(read, slot, buffer, &result);
            }
        }
    }

    fn block_read(&mut self, mut read: BlockRead, slot: Slot, buffer: BufferId, result: &IoResult) {
        let drops = self.has(Bug::DropsChecksum) || self.has(Bug::TakesTornBlock);
        if matches!(result, IoResult::Checksums(sums) if sums[0] == read.from.sums[&slot] || drops) {
            self.reads.get_mut(&read.request).expect("the read is open").made.push(buffer);
            return self.found_block(read.request, read.index, Some(Operand::Buffer(buffer)));
        }
        self.release(Operand::Buffer(buffer));
        // Another version may be in use now, and this one overwritten.
        match self.in_use.get(&read.block) == Some(&read.from) {
            true => drop(read.tried.insert(slot)),
            false => read.tried.clear(),
        }
        self.read_block(read.request, read.index, read.block, read.tried);
    }

    fn lost_if_gone(&mut self, slot: Slot, result: &IoResult) {
        if *result == IoResult::Gone {
            self.lose(slot);
        }
    }

    fn lose(&mut self, slot: Slot) {
        self.present.remove(&slot);
        self.sessions.remove(&slot);
    }
}

impl Engine for Toy {
    fn handle(&mut self, event: Event) {
        match event {
            Event::Request(id, request) => self.request(id, request),
            Event::IoDone(io, result) => self.io_done(io, result),
            Event::DeviceGone(slot) => self.lose(slot),
            Event::Computed(job, Computed { checksums: sums, .. }) if job.0 < 1 << 32 => {
                self.write_copy(job.0 as usize, &sums);
            }
            Event::Computed(_, Computed { checksums: sums, .. }) => self.write_commit(&sums),
            // A toy catches devices up when it is started, and does not scrub.
            Event::DeviceCame(..)
            | Event::Scrub(..)
            | Event::Settle
            | Event::Still
            | Event::Idle
            | Event::Pace(..)
            | Event::ClearErrors(_)
            | Event::Happened { .. } => {}
        }
        self.advance();
    }

    fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn is_ready(&self) -> bool {
        self.opened
    }

    fn is_clean(&self) -> bool {
        self.opened && self.present.len() == self.devices as usize
    }
}

fn places() -> impl Iterator<Item = (u64, u64)> {
    (0..USER_BLOCKS).flat_map(|block| [(block, 0), (block, 1)])
}
