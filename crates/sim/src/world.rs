//! Devices, memory and time: performs actions in the order and at the speed that the seed decides.
//!
//! Every action waits until it is due; [`World::step`] performs the earliest one and returns its
//! event. Replies and releases are performed at once. If the engine breaks a rule towards its
//! driver, the world returns a [`Breach`].

use std::collections::{BTreeMap, BTreeSet};

use pantile_gf::Gf;
use pantile_volume::{
    Action, BLOCK_BYTES, BufferId, Compute, Computed, DeviceBlock, EpochId, Event, Failure, Found, IoId,
    IoResult, JobId, Operand, Piece, Reply, Request, RequestId, Seed, Slot, Stretch, Urgency, UserBlock,
};

use crate::content::{Content, Data, data_checksum};
use crate::disk::{Disk, FlushMark, Ticket};
use crate::memory::Memory;
use crate::{Breach, Random, Trace};

/// The parameters of a world.
#[derive(Clone, Debug)]
pub struct WorldConfig {
    /// The volume's identity, which seeds all checksums.
    pub volume: [u8; 16],
    /// The number of devices.
    pub devices: u32,
    /// The length of each device in blocks.
    pub device_blocks: u64,
    /// True if a crash can tear blocks.
    pub tears: bool,
}

/// Fake devices under a virtual clock.
pub struct World {
    volume: [u8; 16],
    random: Random,
    now_ns: u64,
    pace: Pace,
    disks: Vec<Disk>,
    /// By slot, the device that an empty one, or an earlier one, has replaced.
    earlier: Vec<Option<Disk>>,
    /// The factor by which each device is slower than usual.
    slowness: Vec<u64>,
    served: Option<Served>,
    counts: Vec<Counts>,
    memory: Memory,
    pending: BTreeMap<(u64, u64), Pending>,
    given: u64,
    names: BTreeSet<(bool, u64)>,
    open: BTreeMap<RequestId, Expected>,
    next_request: u64,
    trace: Trace,
}

/// Kind of operation on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IoKind {
    /// A read of data.
    Read,
    /// A read of metadata.
    ReadBytes,
    /// A write.
    Write,
    /// A flush.
    Flush,
}

impl IoKind {
    /// All kinds of operations.
    pub const ALL: [IoKind; 4] = [IoKind::Read, IoKind::ReadBytes, IoKind::Write, IoKind::Flush];
}

/// Counts of operations that a device was given, performed or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    ios: [u64; 4],
    blocks: [u64; 4],
}

impl Counts {
    /// Returns the number of operations of a kind.
    pub fn ios(&self, kind: IoKind) -> u64 {
        self.ios[kind as usize]
    }

    /// Returns the number of blocks of these operations.
    pub fn blocks(&self, kind: IoKind) -> u64 {
        self.blocks[kind as usize]
    }

    /// Adds the counts of another device or run.
    pub fn add(&mut self, other: &Counts) {
        for kind in IoKind::ALL {
            self.ios[kind as usize] += other.ios(kind);
            self.blocks[kind as usize] += other.blocks(kind);
        }
    }
}

/// An answer to a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The request.
    pub request: RequestId,
    /// The answer, with contents in the place of buffers.
    pub told: Told,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// The content of each block.
    Blocks(Vec<Option<Data>>),
    /// Done.
    Done,
    /// An epoch has begun.
    Begun {
        /// The epoch.
        epoch: EpochId,
        /// Its first block.
        first: UserBlock,
        /// The number of blocks.
        count: u64,
    },
    /// Refused.
    Failed(Failure),
}

/// A request with contents in the place of buffers.
pub type Ask = Request<Vec<Data>>;

/// The real outcome of a write that is due, whatever is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// The write is performed and reported done.
    Honest,
    /// The write is reported done, and dropped.
    Lost,
    /// The write is reported done, and performed at this place.
    Misdirected(DeviceBlock),
    /// The write is refused with a media error, and dropped.
    Refused,
}

/// A sudden end of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kill {
    /// The process dies; the devices keep their caches, and each sector of a write in flight lands
    /// or does not.
    Process,
    /// The power fails: unflushed writes are treated as in a crash.
    Power,
}

/// Devices with a queue each.
struct Served {
    service_ns: ServiceNs,
    /// The time at which each device has finished all its operations.
    free_at_ns: Vec<u64>,
    worked_ns: u64,
}

/// The nanoseconds that a device takes for an operation of a kind, by first block and number of
/// blocks.
type ServiceNs = Box<dyn FnMut(Slot, IoKind, DeviceBlock, u64) -> u64>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Blocks(u32),
    Done,
    Begun,
}

#[derive(Debug)]
enum Pending {
    Read { io: IoId, slot: Slot, at: DeviceBlock, into: Vec<BufferId>, generation: u64 },
    ReadBytes { io: IoId, slot: Slot, at: DeviceBlock, blocks: u32 },
    Write { io: IoId, slot: Slot, at: DeviceBlock, count: u64, ticket: Option<Ticket>, uses: Vec<BufferId> },
    Flush { io: IoId, slot: Slot, mark: FlushMark },
    Compute { job: JobId, work: Compute },
    Notice(Slot),
}

impl Pending {
    /// Returns the kind of an operation on a device, its first block, and the number of blocks.
    fn extent(&self) -> Option<(IoKind, DeviceBlock, u64)> {
        match *self {
            Pending::Read { at, ref into, .. } => Some((IoKind::Read, at, into.len() as u64)),
            Pending::ReadBytes { at, blocks, .. } => Some((IoKind::ReadBytes, at, u64::from(blocks))),
            Pending::Write { at, count, .. } => Some((IoKind::Write, at, count)),
            Pending::Flush { .. } => Some((IoKind::Flush, DeviceBlock(0), 0)),
            Pending::Compute { .. } | Pending::Notice(_) => None,
        }
    }
}

/// Speeds of actions. A seed has one of several, because each allows other races.
#[derive(Clone, Copy, Debug)]
enum Pace {
    /// Every action takes equally long: first in, first out.
    Even,
    /// Like good devices: reads, writes and flushes of 50 to 150 us, 1 to 3 us for a computation.
    Usual,
    /// Any time from 1 us to 65 ms, so any order.
    Wild,
}

impl World {
    /// Makes a world with devices of zeros, at time 0.
    pub fn new(config: &WorldConfig, seed: u64) -> World {
        let disk = if config.tears { Disk::new } else { Disk::without_tears };
        let disks = (0..config.devices).map(|_| disk(config.device_blocks)).collect();
        World::with_disks(config, seed, disks)
    }

    /// Makes a world with these devices, at time 0.
    pub fn with_disks(config: &WorldConfig, seed: u64, disks: Vec<Disk>) -> World {
        let mut random = Random::new(seed);
        let pace = *random.pick(&[Pace::Even, Pace::Usual, Pace::Wild, Pace::Wild]).expect("there are paces");
        World {
            volume: config.volume,
            random,
            now_ns: 0,
            pace,
            slowness: vec![1; disks.len()],
            served: None,
            counts: vec![Counts::default(); disks.len()],
            earlier: vec![None; disks.len()],
            disks,
            memory: Memory::default(),
            pending: BTreeMap::new(),
            given: 0,
            names: BTreeSet::new(),
            open: BTreeMap::new(),
            next_request: 1,
            trace: Trace::default(),
        }
    }

    /// Lets every device perform one operation at a time from now on, in order. The operation takes
    /// the time `service_ns` of the device, the kind, the first block and the number of blocks; a
    /// computation takes no time. Such a run measures time, and has no randomness in it.
    pub fn serve(&mut self, service_ns: impl FnMut(Slot, IoKind, DeviceBlock, u64) -> u64 + 'static) {
        let free_at_ns = vec![self.now_ns; self.disks.len()];
        self.served = Some(Served { service_ns: Box::new(service_ns), free_at_ns, worked_ns: 0 });
    }

    /// Returns the time of all operations since [`World::serve`], of all devices together.
    pub fn worked_ns(&self) -> u64 {
        self.served.as_ref().map_or(0, |served| served.worked_ns)
    }

    /// Returns the nanoseconds since the beginning.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Returns the devices.
    pub fn disks(&self) -> &[Disk] {
        &self.disks
    }

    /// Returns the devices, to create or damage them.
    pub fn disks_mut(&mut self) -> &mut [Disk] {
        &mut self.disks
    }

    /// Returns the counts of each device so far.
    pub fn counts(&self) -> &[Counts] {
        &self.counts
    }

    /// Returns the events so far.
    pub fn trace(&mut self) -> &mut Trace {
        &mut self.trace
    }

    /// Returns true if no action waits.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Returns the number of requests without an answer.
    pub fn open_requests(&self) -> usize {
        self.open.len()
    }

    /// Returns the number of buffers that the engine holds.
    pub fn buffers_held(&self) -> usize {
        self.memory.held().len()
    }

    /// Returns the largest number of buffers that existed at a time.
    pub fn buffers_most(&self) -> usize {
        self.memory.most()
    }

    /// Checks that the engine, at rest with everything flushed, holds no more than `most` buffers.
    pub fn check_leaks(&self, most: usize) -> Result<(), Breach> {
        match self.memory.held().next() {
            Some(first) if self.buffers_held() > most => {
                Err(Breach::BuffersLeaked { held: self.buffers_held(), most, first })
            }
            _ => Ok(()),
        }
    }

    /// Makes the event for a user's request.
    pub fn ask(&mut self, ask: &Ask) -> (RequestId, Event) {
        let id = RequestId(self.next_request);
        self.next_request += 1;
        let memory = &mut self.memory;
        let request = ask
            .clone()
            .map(&mut |contents| contents.into_iter().map(|content| memory.hand_out(content)).collect());
        let expected = match *ask.innermost() {
            Ask::Read { count, .. } => Expected::Blocks(count),
            Ask::Begin { .. } => Expected::Begun,
            _ => Expected::Done,
        };
        self.open.insert(id, expected);
        self.trace.line(format_args!("{} ask {} {}", self.now_ns, id.0, Asked(&request)));
        (id, Event::Request(id, request))
    }

    /// Takes an action of the engine. Returns an answer at once; everything else happens in later
    /// steps.
    pub fn perform(&mut self, action: Action) -> Result<Option<Answer>, Breach> {
        match action {
            Action::Read { io, slot, at, into, generation, urgency } => {
                self.take_name(true, io.0)?;
                self.check_range(io, slot, at, into.len() as u64)?;
                into.iter().try_for_each(|&buffer| self.memory.promise(buffer))?;
                self.count(slot, IoKind::Read, into.len() as u64);
                self.give(Some(slot), urgency, Pending::Read { io, slot, at, into, generation });
            }
            Action::ReadBytes { io, slot, at, blocks, urgency } => {
                self.take_name(true, io.0)?;
                self.check_range(io, slot, at, u64::from(blocks))?;
                self.count(slot, IoKind::ReadBytes, u64::from(blocks));
                self.give(Some(slot), urgency, Pending::ReadBytes { io, slot, at, blocks });
            }
            Action::Write { io, slot, at, pieces, urgency } => self.write(io, slot, at, &pieces, urgency)?,
            Action::Flush { io, slot } => {
                self.take_name(true, io.0)?;
                let mark =
                    self.disks.get(slot.0 as usize).ok_or(Breach::NoSuchDevice { slot })?.begin_flush();
                self.count(slot, IoKind::Flush, 0);
                self.give(Some(slot), Urgency::User, Pending::Flush { io, slot, mark });
            }
            Action::Compute { job, work } => {
                self.take_name(false, job.0)?;
                self.begin_compute(&work)?;
                self.give(None, Urgency::User, Pending::Compute { job, work });
            }
            Action::Release(buffer) => self.memory.release(buffer)?,
            Action::Reply(request, reply) => return self.answer(request, reply).map(Some),
        }
        Ok(None)
    }

    fn write(
        &mut self,
        io: IoId,
        slot: Slot,
        at: DeviceBlock,
        pieces: &[Piece],
        urgency: Urgency,
    ) -> Result<(), Breach> {
        self.take_name(true, io.0)?;
        let mut contents = Vec::new();
        let mut uses = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Block(Operand::Zeros) => contents.push(Content::ZEROS),
                &Piece::Block(Operand::Buffer(buffer)) => {
                    contents.push(Content::of_data(self.memory.begin_use(buffer)?));
                    uses.push(buffer);
                }
                Piece::Bytes(bytes) => {
                    let blocks = bytes.chunks_exact(BLOCK_BYTES as usize);
                    if !blocks.remainder().is_empty() {
                        return Err(Breach::NotBlocks { name: io.0 });
                    }
                    contents.extend(blocks.map(Content::of_bytes));
                }
            }
        }
        let count = contents.len() as u64;
        self.check_range(io, slot, at, count)?;
        self.count(slot, IoKind::Write, count);
        let disk = &mut self.disks[slot.0 as usize];
        let ticket = disk.is_present().then(|| disk.begin_write(at, contents));
        self.give(Some(slot), urgency, Pending::Write { io, slot, at, count, ticket, uses });
        Ok(())
    }

    fn begin_compute(&mut self, work: &Compute) -> Result<(), Breach> {
        let mut made = BTreeSet::new();
        for sum in &work.sums {
            for buffer in buffers_of(sum.terms.iter().map(|&(operand, _)| operand)) {
                if !made.contains(&buffer) {
                    self.memory.begin_use(buffer)?;
                }
            }
            self.memory.promise(sum.into)?;
            made.insert(sum.into);
        }
        let summed = work.checksums.iter().map(|&(operand, _)| operand);
        for buffer in buffers_of(summed.chain(work.differing.iter().flat_map(|&(a, b)| [a, b]))) {
            if !made.contains(&buffer) {
                self.memory.begin_use(buffer)?;
            }
        }
        Ok(())
    }

    fn answer(&mut self, request: RequestId, reply: Reply) -> Result<Answer, Breach> {
        let expected = self.open.remove(&request).ok_or(Breach::NotAsked { request })?;
        let told = match (reply, expected) {
            (Reply::Failed(failure), _) => Told::Failed(failure),
            (Reply::Done, Expected::Done) => Told::Done,
            (Reply::Begun { epoch, first, count }, Expected::Begun) => Told::Begun { epoch, first, count },
            (Reply::Read(blocks), Expected::Blocks(count)) if blocks.len() == count as usize => {
                let content =
                    |block: &Option<BufferId>| block.map(|buffer| self.memory.get(buffer)).transpose();
                Told::Blocks(blocks.iter().map(content).collect::<Result<_, _>>()?)
            }
            _ => return Err(Breach::WrongAnswer { request }),
        };
        self.trace.line(format_args!("{} answer {}: {}", self.now_ns, request.0, Answered(&told)));
        Ok(Answer { request, told })
    }

    /// Returns the identity of the volume, which seeds the checksums.
    pub(crate) fn volume(&self) -> &[u8; 16] {
        &self.volume
    }

    /// Returns the content of a stretch for a user who reads a device without the engine; `None`:
    /// it is incomplete or wrong.
    pub fn look(&mut self, stretch: &Stretch) -> Option<Vec<Data>> {
        let disk = &self.disks[stretch.slot.0 as usize];
        let found = disk.read(stretch.at, u64::from(stretch.blocks()), &mut self.random);
        let found = found.ok().filter(|_| disk.is_present())?;
        let is_right =
            |(content, (seed, sum)): (&Content, (Seed, u64))| content.checksum(&self.volume, seed) == sum;
        let counts = found.iter().zip(stretch.checks()).all(is_right);
        counts.then(|| found.iter().map(Content::data).collect())
    }

    /// Ends a request whose read succeeded without the engine.
    pub fn answered_by_device(&mut self, request: RequestId, blocks: Vec<Option<Data>>) -> Answer {
        self.open.remove(&request);
        let told = Told::Blocks(blocks);
        self.trace.line(format_args!("{} found {}: {}", self.now_ns, request.0, Answered(&told)));
        Answer { request, told }
    }

    fn take_name(&mut self, io: bool, name: u64) -> Result<(), Breach> {
        if self.names.insert((io, name)) { Ok(()) } else { Err(Breach::NameUsedTwice { name }) }
    }

    fn check_range(&self, io: IoId, slot: Slot, at: DeviceBlock, count: u64) -> Result<(), Breach> {
        let disk = self.disks.get(slot.0 as usize).ok_or(Breach::NoSuchDevice { slot })?;
        if count == 0 {
            return Err(Breach::NotBlocks { name: io.0 });
        }
        match at.0.checked_add(count) {
            Some(end) if end <= disk.blocks() => Ok(()),
            _ => Err(Breach::BeyondTheEnd { slot, at, count, blocks: disk.blocks() }),
        }
    }

    fn count(&mut self, slot: Slot, kind: IoKind, blocks: u64) {
        let counts = &mut self.counts[slot.0 as usize];
        counts.ios[kind as usize] += 1;
        counts.blocks[kind as usize] += blocks;
    }

    fn give(&mut self, slot: Option<Slot>, urgency: Urgency, pending: Pending) {
        let mut takes_ns = match (self.pace, slot) {
            (Pace::Even, _) => 1_000,
            (Pace::Usual, Some(_)) => self.random.between(50_000, 150_000),
            (Pace::Usual, None) => self.random.between(1_000, 3_000),
            (Pace::Wild, _) => 1_000 << self.random.below(16) | self.random.below(1_000),
        };
        if urgency == Urgency::Background {
            takes_ns *= 2;
        }
        if let Some(slot) = slot {
            takes_ns *= self.slowness[slot.0 as usize];
        }
        if let Some(served) = &mut self.served {
            takes_ns = match (slot, pending.extent()) {
                (Some(slot), Some((kind, at, blocks))) => {
                    let work_ns =
                        (served.service_ns)(slot, kind, at, blocks) * self.slowness[slot.0 as usize];
                    served.worked_ns += work_ns;
                    let free_at_ns = &mut served.free_at_ns[slot.0 as usize];
                    *free_at_ns = self.now_ns.max(*free_at_ns) + work_ns;
                    *free_at_ns - self.now_ns
                }
                _ => 0,
            };
        }
        self.given += 1;
        self.trace.line(format_args!("{} give {} {}", self.now_ns, self.given, Given(&pending)));
        self.pending.insert((self.now_ns + takes_ns, self.given), pending);
    }

    /// Returns place and length of the write that is due next; `None` if the next action is no
    /// write that a fault can affect.
    pub fn next_write(&self) -> Option<(Slot, DeviceBlock, u64)> {
        match self.pending.first_key_value()?.1 {
            &Pending::Write { slot, at, count, ticket: Some(_), .. }
                if self.disks[slot.0 as usize].is_present() =>
            {
                Some((slot, at, count))
            }
            _ => None,
        }
    }

    /// Performs the next due action, and returns its event; `None`: none waits. For a write, `lie`
    /// is what really happens.
    pub fn step(&mut self, lie: Lie) -> Option<Event> {
        let ((due_ns, order), pending) = self.pending.pop_first()?;
        self.now_ns = self.now_ns.max(due_ns);
        let event = match pending {
            Pending::Read { io, slot, at, into, generation } => {
                Event::IoDone(io, self.read(slot, at, &into, generation))
            }
            Pending::ReadBytes { io, slot, at, blocks } => {
                Event::IoDone(io, self.read_bytes(slot, at, blocks))
            }
            Pending::Write { io, slot, ticket, uses, .. } => {
                uses.iter().for_each(|&buffer| self.memory.end_use(buffer));
                Event::IoDone(io, self.end_write(slot, ticket, lie))
            }
            Pending::Flush { io, slot, mark } => {
                let disk = &mut self.disks[slot.0 as usize];
                if disk.is_present() {
                    disk.end_flush(mark);
                }
                Event::IoDone(io, if disk.is_present() { IoResult::Done } else { IoResult::Gone })
            }
            Pending::Compute { job, work } => Event::Computed(job, self.compute(&work)),
            Pending::Notice(slot) => Event::DeviceGone(slot),
        };
        let lied = if lie == Lie::Honest { String::new() } else { format!(" {lie:?}") };
        self.trace.line(format_args!("{} done {order} {}{lied}", self.now_ns, Happened(&event)));
        Some(event)
    }

    fn read(&mut self, slot: Slot, at: DeviceBlock, into: &[BufferId], generation: u64) -> IoResult {
        let disk = &self.disks[slot.0 as usize];
        let contents = disk.read(at, into.len() as u64, &mut self.random);
        let (true, Ok(contents)) = (disk.is_present(), contents) else {
            into.iter().for_each(|&buffer| self.memory.fill(buffer, None));
            return self.failed(slot);
        };
        let mut sums = Vec::with_capacity(into.len());
        for ((content, &buffer), address) in contents.iter().zip(into).zip(at.0..) {
            let seed = Seed { slot, address: DeviceBlock(address), generation };
            sums.push(content.checksum(&self.volume, seed));
            self.memory.fill(buffer, Some(content.data()));
        }
        IoResult::Checksums(sums)
    }

    fn read_bytes(&mut self, slot: Slot, at: DeviceBlock, blocks: u32) -> IoResult {
        let disk = &self.disks[slot.0 as usize];
        match disk.read(at, u64::from(blocks), &mut self.random) {
            Ok(contents) if disk.is_present() => {
                let mut bytes = Vec::with_capacity(blocks as usize * BLOCK_BYTES as usize);
                contents.iter().for_each(|content| content.append_to(&mut bytes));
                IoResult::Bytes(bytes)
            }
            _ => self.failed(slot),
        }
    }

    fn failed(&self, slot: Slot) -> IoResult {
        if self.disks[slot.0 as usize].is_present() { IoResult::MediaError } else { IoResult::Gone }
    }

    fn end_write(&mut self, slot: Slot, ticket: Option<Ticket>, lie: Lie) -> IoResult {
        let disk = &mut self.disks[slot.0 as usize];
        let (true, Some(ticket)) = (disk.is_present(), ticket) else { return IoResult::Gone };
        match lie {
            Lie::Honest => disk.land(ticket),
            Lie::Lost | Lie::Refused => disk.lose(ticket),
            Lie::Misdirected(to) => disk.misdirect(ticket, to),
        }
        if lie == Lie::Refused { IoResult::MediaError } else { IoResult::Done }
    }

    fn compute(&mut self, work: &Compute) -> Computed {
        let mut made: BTreeMap<BufferId, Data> = BTreeMap::new();
        let value = |memory: &Memory, made: &BTreeMap<BufferId, Data>, operand| match operand {
            Operand::Zeros => [0; 16],
            Operand::Buffer(buffer) => match made.get(&buffer) {
                Some(&data) => data,
                None => memory.get(buffer).expect("it was filled when the computation was given"),
            },
        };
        for sum in &work.sums {
            let mut total = [0; 16];
            for &(operand, coefficient) in &sum.terms {
                add_times(&mut total, coefficient, &value(&self.memory, &made, operand));
            }
            made.insert(sum.into, total);
        }
        let sums = work
            .checksums
            .iter()
            .map(|&(operand, seed)| data_checksum(&value(&self.memory, &made, operand), &self.volume, seed));
        let checksums = sums.collect();
        let differing = work.differing.iter().map(|&(a, b)| {
            let [a, b] = [a, b].map(|operand| value(&self.memory, &made, operand));
            a.iter().zip(&b).filter(|(a, b)| a != b).count() as u64
        });
        let differing = differing.collect();
        self.end_compute(work, &made);
        Computed { checksums, differing }
    }

    fn end_compute(&mut self, work: &Compute, made: &BTreeMap<BufferId, Data>) {
        let terms = work.sums.iter().flat_map(|sum| sum.terms.iter().map(|&(operand, _)| operand));
        let compared = work.differing.iter().flat_map(|&(a, b)| [a, b]);
        let operands = terms.chain(work.checksums.iter().map(|&(operand, _)| operand)).chain(compared);
        buffers_of(operands)
            .filter(|buffer| !made.contains_key(buffer))
            .for_each(|buffer| self.memory.end_use(buffer));
        made.iter().for_each(|(&buffer, &data)| self.memory.fill(buffer, Some(data)));
    }

    /// Pulls a device out. With `told`, an event reports it at some time; otherwise operations find
    /// that it is gone.
    pub fn pull_out(&mut self, slot: Slot, told: bool) {
        self.trace.line(format_args!(
            "{} pull out {}{}",
            self.now_ns,
            slot.0,
            if told { ", told" } else { "" }
        ));
        self.disks[slot.0 as usize].vanish(&mut self.random);
        if told {
            self.give(None, Urgency::User, Pending::Notice(slot));
        }
    }

    /// Puts a device back with its content, or an empty one in its place. No operation on it may be
    /// under way; the caller sends the event if an engine runs.
    pub fn put_back(&mut self, slot: Slot, found: Found) {
        self.trace.line(format_args!("{} put back {}, {found:?}", self.now_ns, slot.0));
        let disk = &mut self.disks[slot.0 as usize];
        let empty = match found {
            Found::Stale => return disk.return_stale(),
            Found::Blank if disk.tears() => Disk::new(disk.blocks()),
            Found::Blank => Disk::without_tears(disk.blocks()),
        };
        self.earlier[slot.0 as usize] = Some(std::mem::replace(disk, empty));
    }

    /// Exchanges a device for the one that had its slot before; `false`: there is none.
    pub(crate) fn exchange_for_earlier(&mut self, slot: Slot) -> bool {
        let Some(earlier) = &mut self.earlier[slot.0 as usize] else { return false };
        self.trace.line(format_args!("{} exchange {} for the earlier one", self.now_ns, slot.0));
        std::mem::swap(&mut self.disks[slot.0 as usize], earlier);
        true
    }

    /// Returns true if a device of this slot was replaced, and still exists.
    pub(crate) fn has_earlier(&self, slot: Slot) -> bool {
        self.earlier[slot.0 as usize].is_some()
    }

    /// Returns true if no operation on a device and no event about it is under way.
    pub fn is_quiet(&self, slot: Slot) -> bool {
        let of = |pending: &Pending| match *pending {
            Pending::Read { slot, .. }
            | Pending::ReadBytes { slot, .. }
            | Pending::Write { slot, .. }
            | Pending::Flush { slot, .. }
            | Pending::Notice(slot) => Some(slot),
            Pending::Compute { .. } => None,
        };
        self.pending.values().all(|pending| of(pending) != Some(slot))
    }

    /// Slows a device down by a factor; 1 is the usual speed.
    pub fn slow_down(&mut self, slot: Slot, times: u64) {
        self.trace.line(format_args!("{} slow down {} by {times}", self.now_ns, slot.0));
        self.slowness[slot.0 as usize] = times;
    }

    /// Ends the engine: its memory, actions and requests are gone.
    pub fn kill(&mut self, kill: Kill) {
        self.trace.line(format_args!("{} kill {kill:?}", self.now_ns));
        for disk in &mut self.disks {
            match kill {
                Kill::Process => disk.abandon(&mut self.random),
                Kill::Power => disk.crash(&mut self.random),
            }
        }
        self.memory.clear();
        self.pending.clear();
        self.names.clear();
        self.open.clear();
    }
}

fn buffers_of(operands: impl Iterator<Item = Operand>) -> impl Iterator<Item = BufferId> {
    operands.filter_map(|operand| match operand {
        Operand::Buffer(buffer) => Some(buffer),
        Operand::Zeros => None,
    })
}

pub(crate) fn add_times(total: &mut Data, coefficient: Gf, data: &Data) {
    for (total, &byte) in total.iter_mut().zip(data) {
        *total ^= (coefficient * Gf(byte)).0;
    }
}

/// A line of the trace about a request.
struct Asked<'a>(&'a Request);

impl std::fmt::Display for Asked<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Request::Read { first, count } => write!(out, "read {}+{count}", first.0),
            Request::Write { first, contents: buffers, durable } => {
                let durable = if *durable { " durable" } else { "" };
                write!(out, "write {}+{}{durable}", first.0, buffers.len())
            }
            Request::Trim { first, count } => write!(out, "trim {}+{count}", first.0),
            Request::Flush => out.write_str("flush"),
            Request::Begin { first, count, owed_blocks_max } => {
                write!(out, "begin {}+{count} owing {owed_blocks_max}", first.0)
            }
            Request::Within { epoch, request } => write!(out, "in epoch {}: {}", epoch.0, Asked(request)),
            Request::End { epoch } => write!(out, "end epoch {}", epoch.0),
            Request::Abort { epoch } => write!(out, "abort epoch {}", epoch.0),
            Request::Advance { epoch, through } => write!(out, "advance epoch {} to {through}", epoch.0),
        }
    }
}

/// A line of the trace about an answer.
struct Answered<'a>(&'a Told);

impl std::fmt::Display for Answered<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Told::Blocks(blocks) => blocks.iter().try_for_each(|block| match block {
                None => out.write_str(" zeros"),
                Some(data) => {
                    write!(out, " {:016x}", u64::from_be_bytes(data[..8].try_into().expect("8 of 16")))
                }
            }),
            told => write!(out, "{told:?}"),
        }
    }
}

/// A line of the trace about an action.
struct Given<'a>(&'a Pending);

impl std::fmt::Display for Given<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Pending::Read { io, slot, at, into, generation } => {
                write!(
                    out,
                    "io {} read slot {} at {}+{} generation {generation}",
                    io.0,
                    slot.0,
                    at.0,
                    into.len()
                )
            }
            Pending::ReadBytes { io, slot, at, blocks } => {
                write!(out, "io {} read bytes slot {} at {}+{blocks}", io.0, slot.0, at.0)
            }
            Pending::Write { io, slot, at, count, uses, .. } => {
                write!(out, "io {} write slot {} at {}+{count}, {} buffers", io.0, slot.0, at.0, uses.len())
            }
            Pending::Flush { io, slot, .. } => write!(out, "io {} flush slot {}", io.0, slot.0),
            Pending::Compute { job, work } => {
                write!(out, "job {} {} sums {} checksums", job.0, work.sums.len(), work.checksums.len())
            }
            Pending::Notice(slot) => write!(out, "notice that slot {} is gone", slot.0),
        }
    }
}

/// A line of the trace about an event.
struct Happened<'a>(&'a Event);

impl std::fmt::Display for Happened<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Event::Request(id, _) => write!(out, "request {}", id.0),
            Event::IoDone(io, IoResult::Bytes(bytes)) => {
                write!(out, "io {} bytes {:016x}", io.0, crate::random::hash_words(bytes))
            }
            Event::IoDone(io, IoResult::Checksums(sums)) => {
                write!(out, "io {}", io.0)?;
                sums.iter().try_for_each(|sum| write!(out, " {sum:016x}"))
            }
            Event::IoDone(io, result) => write!(out, "io {} {result:?}", io.0),
            Event::Computed(job, Computed { checksums, differing }) => {
                write!(out, "job {}", job.0)?;
                checksums.iter().try_for_each(|sum| write!(out, " {sum:016x}"))?;
                differing.iter().try_for_each(|bytes| write!(out, " {bytes} bytes"))
            }
            Event::DeviceGone(slot) => write!(out, "slot {} is gone", slot.0),
            Event::DeviceCame(slot, found) => write!(out, "slot {} came, {found:?}", slot.0),
            Event::Scrub(wish) => write!(out, "scrub {wish:?}"),
            Event::Settle => write!(out, "settle"),
            Event::Still => write!(out, "still"),
            Event::Pace(slot, times) => write!(out, "device {} takes {times} times as long", slot.0),
            Event::Idle => write!(out, "idle"),
            Event::ClearErrors(slot) => write!(out, "device {} checked", slot.0),
            Event::Happened { slot: Some(slot), what, .. } => {
                write!(out, "event {} of device {}", what.0, slot.0)
            }
            Event::Happened { what, .. } => write!(out, "event {}", what.0),
        }
    }
}
