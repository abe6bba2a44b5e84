//! The engine's thread: takes what the volume decides and does it, one action after the other, and tells it what came of each.
//!
//! Everything that changes the volume happens on this thread, so the volume needs no locks. It waits in one place,
//! [`IoPool::wait`]: completions of devices end the wait, and so do messages, whose sender calls [`IoPool::wake`]. Short computations are
//! done here, because handing over costs more than they do; long ones by [`Workers`].
//!
//! Invariant: each I/O and computation of the volume is reported to it exactly once, whatever the device does. A device that
//! goes is reported with every I/O that it still owes; what it answers later is dropped.

use crate::inbox::{Answer, Ask, Inbox, Message};
use crate::memory::{BLOCK, Block, Buffers, Table};
use crate::throttle::Throttle;
use crate::work::{Matrices, Task, Workers, checksum};
use crate::{HostError, HostOptions};
use pantile_device::{
    Completion, Device, DeviceError, IoPool, Op, OpKind, Priority, Refusal, Remedy, Request as IoRequest,
    Segment, Site,
};
use pantile_volume::{
    Action, BufferId, Computed, DeviceBlock, Event, Found, Geometry, IoId, IoResult, Losses, Piece, Reply,
    Request, RequestId, Scrub, Seed, Slot, State, Status, Urgency, Volume,
};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Work below this is done on the engine's thread: a hand-over costs some microseconds, as much as 64 KiB of arithmetic.
const INLINE_BYTES_MAX: usize = 64 * 1024;

/// How often devices are looked at that owe an answer.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How long a request waits that the system was short of something for (space, memory) before it is tried again.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// One that answers others may owe one request this many deadlines before it counts as hanging.
const OLDEST_DEADLINES: u32 = 4;

/// ETIMEDOUT.
const TIMED_OUT: i32 = 110;

/// What an I/O is for.
enum Purpose {
    Blocks { into: Vec<BufferId>, at: DeviceBlock, generation: u64 },
    Bytes,
    Write,
    Flush,
}

struct Flight {
    slot: Slot,
    purpose: Purpose,
}

/// A slot and the device in it.
pub(crate) struct Member {
    /// The number in the pool; `None`: there is no device.
    number: Option<usize>,
    device: Weak<dyn Device>,
    path: Option<PathBuf>,
    len_bytes: u64,
    /// Since when it owes what.
    owes: BTreeMap<u64, Instant>,
    answered_at: Instant,
    /// Why the last device of this slot was dropped.
    error: Option<DeviceError>,
    /// Since when its writes fail for want of space or memory.
    short_since: Option<Instant>,
}

/// A device of a running volume, as its host sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberReport {
    /// Its path; of the last one, if it is gone.
    pub path: Option<PathBuf>,
    /// Whether there is a device.
    pub attached: bool,
    /// Its length.
    pub len_bytes: u64,
    /// Why it was given up, or what it is short of.
    pub error: Option<DeviceError>,
}

/// A running volume at one moment.
#[derive(Clone, Debug)]
pub struct Report {
    /// What the engine says.
    pub status: Status,
    /// The devices, by slot.
    pub members: Vec<MemberReport>,
    /// Bytes a second that rebuild and scrub may read and write.
    pub throttle_bytes_per_s: Option<u64>,
    /// Blocks of memory that the engine holds.
    pub blocks_in_memory: usize,
    /// I/O under way.
    pub ios: usize,
}

/// The engine and everything that it needs.
pub(crate) struct Engine {
    volume: Volume,
    geometry: Geometry,
    pool: Arc<IoPool>,
    inbox: Arc<Inbox>,
    table: Table,
    buffers: Buffers,
    matrices: Arc<Matrices>,
    workers: Workers,
    members: Vec<Member>,
    flights: HashMap<u64, Flight>,
    clients: HashMap<RequestId, Answer<Vec<Option<Block>>>>,
    requests: u64,
    throttle: Throttle,
    /// Background I/O that waits for its turn.
    background: VecDeque<IoRequest>,
    /// Requests to be tried again.
    again: VecDeque<(Instant, IoRequest)>,
    deadline: Duration,
    looked_at: Instant,
    opened: Option<Answer<()>>,
    stop: bool,
}

impl Engine {
    /// Begins to open a volume on the devices of its slots.
    pub(crate) fn new(
        geometry: Geometry,
        devices: Vec<Option<Arc<dyn Device>>>,
        volume: Volume,
        options: &HostOptions,
        (pool, inbox): (Arc<IoPool>, Arc<Inbox>),
        opened: Answer<()>,
    ) -> Result<Engine, HostError> {
        let workers = Workers::new(options.workers)
            .map_err(|error| HostError::Thread { errno: error.raw_os_error().unwrap_or(0) })?;
        let now = Instant::now();
        let mut engine = Engine {
            volume,
            pool,
            inbox,
            table: Table::new(),
            buffers: Buffers::new(options.kept_bytes),
            matrices: Arc::default(),
            workers,
            members: Vec::new(),
            flights: HashMap::new(),
            clients: HashMap::new(),
            requests: 0,
            throttle: Throttle::new(options.background_bytes_per_s, now),
            background: VecDeque::new(),
            again: VecDeque::new(),
            deadline: options.device_deadline,
            looked_at: now,
            opened: Some(opened),
            stop: false,
            geometry,
        };
        for (index, device) in devices.into_iter().enumerate() {
            engine.members.push(Member::empty(now));
            if let Some(device) = device {
                engine.put(Slot(index as u32), device)?;
            }
        }
        Ok(engine)
    }

    /// Puts a device into a slot that has none.
    fn put(&mut self, slot: Slot, device: Arc<dyn Device>) -> Result<(), HostError> {
        let need = self.geometry.device_blocks(slot) * BLOCK as u64;
        if device.len_bytes() < need {
            return Err(HostError::TooShort { slot, have: device.len_bytes(), need });
        }
        let (path, len_bytes) = (Some(device.path().to_path_buf()), device.len_bytes());
        // A share of our own, so that its end can be seen whatever others hold.
        let device: Arc<dyn Device> = Arc::new(device);
        let weak = Arc::downgrade(&device);
        let number = self.pool.attach(device)?;
        let member =
            Member { number: Some(number), device: weak, path, len_bytes, ..Member::empty(Instant::now()) };
        self.members[slot.0 as usize] = member;
        Ok(())
    }

    /// The life of the engine's thread. Gives the devices that were open.
    pub(crate) fn run(mut self) -> Vec<Weak<dyn Device>> {
        let (mut messages, mut completions) = (VecDeque::new(), Vec::new());
        loop {
            self.inbox.take(&mut messages);
            messages.drain(..).for_each(|message| self.message(message));
            self.perform();
            self.say_opened();
            if self.stop {
                break;
            }
            let deadline = self.timers(Instant::now());
            // A timer may have given the volume something to say.
            self.perform();
            self.pool.wait(&mut completions, deadline);
            completions.drain(..).for_each(|completion| self.completed(completion));
        }
        self.inbox.close();
        let mut devices = Vec::new();
        for member in &mut self.members {
            if let Some(number) = member.number.take() {
                self.pool.detach(number);
                devices.push(member.device.clone());
            }
        }
        devices
    }

    fn message(&mut self, message: Message) {
        match message {
            Message::User { ask, answer } => self.user(ask, answer),
            Message::Read { io, result, blocks } => {
                if self.flights.contains_key(&io.0) {
                    blocks.into_iter().for_each(|(id, block)| self.table.fill(id, block));
                    self.io_over(io, result);
                }
            }
            Message::Computed { job, made, result } => {
                made.into_iter().for_each(|(id, block)| self.table.fill(id, block));
                self.volume.handle(Event::Computed(job, result));
            }
            Message::Call(call) => call(self),
        }
    }

    fn user(&mut self, ask: Ask, answer: Answer<Vec<Option<Block>>>) {
        let request = match ask {
            Ask::Read { first, count } => Request::Read { first, count },
            Ask::Write { first, data, durable } => {
                Request::Write { first, buffers: self.table.name(Block::all_of(data)), durable }
            }
            Ask::Trim { first, count } => Request::Trim { first, count },
            Ask::Flush => Request::Flush,
        };
        self.requests += 1;
        let id = RequestId(self.requests);
        self.clients.insert(id, answer);
        self.volume.handle(Event::Request(id, request));
    }

    fn say_opened(&mut self) {
        if self.opened.is_none() {
            return;
        }
        let result = match self.volume.state() {
            State::Opening => return,
            State::Serving => Ok(()),
            State::Refused(error) => Err(HostError::Open(error)),
        };
        self.stop |= result.is_err();
        self.opened.take().into_iter().for_each(|answer| answer.give(result.clone()));
    }

    /// Does what the volume wants, until it wants nothing.
    fn perform(&mut self) {
        while let Some(action) = self.volume.next_action() {
            match action {
                Action::Read { io, slot, at, into, generation, urgency } => {
                    let op = self.read_op(at, into.len());
                    self.begin(io, slot, Purpose::Blocks { into, at, generation }, op, urgency);
                }
                Action::ReadBytes { io, slot, at, blocks, urgency } => {
                    let op = self.read_op(at, blocks as usize);
                    self.begin(io, slot, Purpose::Bytes, op, urgency);
                }
                Action::Write { io, slot, at, pieces, urgency } => {
                    let op = self.write_op(at, pieces);
                    self.begin(io, slot, Purpose::Write, op, urgency);
                }
                Action::Flush { io, slot } => self.begin(io, slot, Purpose::Flush, Op::Flush, Urgency::User),
                Action::Compute { job, work } => {
                    let task = Task::new(self.geometry.volume, work, |operand| self.table.operand(operand));
                    self.compute(job, task);
                }
                Action::Release(buffer) => self.table.release(buffer),
                Action::Reply(id, reply) => self.reply(id, reply),
            }
        }
    }

    fn read_op(&self, at: DeviceBlock, blocks: usize) -> Op {
        let buffer = self.buffers.take(blocks);
        Op::Read { offset_bytes: at.0 * BLOCK as u64, range: 0..blocks * BLOCK, buffer }
    }

    fn write_op(&self, at: DeviceBlock, pieces: Vec<Piece>) -> Op {
        let mut parts: Vec<Segment> = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Block(operand) => self.table.operand(operand).gather(&mut parts),
                Piece::Bytes(bytes) => {
                    let mut buffer = self.buffers.take(bytes.len().div_ceil(BLOCK));
                    buffer[..bytes.len()].copy_from_slice(&bytes);
                    parts.push(Segment { buffer: Arc::new(buffer), range: 0..bytes.len() });
                }
            }
        }
        Op::Write { offset_bytes: at.0 * BLOCK as u64, parts }
    }

    fn begin(&mut self, io: IoId, slot: Slot, purpose: Purpose, op: Op, urgency: Urgency) {
        self.flights.insert(io.0, Flight { slot, purpose });
        let Some(device) = self.members[slot.0 as usize].number else {
            self.io_over(io, IoResult::Gone);
            return;
        };
        let priority = match urgency {
            Urgency::User => Priority::User,
            Urgency::Background => Priority::Background,
        };
        let request = IoRequest { token: io.0, device, priority, op };
        match priority {
            Priority::User => self.submit(request),
            Priority::Background => {
                self.background.push_back(request);
                self.begin_background(Instant::now());
            }
        }
    }

    /// Begins the background I/O whose time has come.
    fn begin_background(&mut self, now: Instant) {
        while self.throttle.next_at() <= now {
            let Some(request) = self.background.pop_front() else { return };
            self.throttle.begin(len_bytes(&request.op), now);
            self.submit(request);
        }
    }

    fn submit(&mut self, request: IoRequest) {
        let Some(flight) = self.flights.get(&request.token) else { return };
        let member = &mut self.members[flight.slot.0 as usize];
        let token = request.token;
        match self.pool.submit(request) {
            Ok(()) => {
                let now = Instant::now();
                if member.owes.is_empty() {
                    member.answered_at = now;
                }
                member.owes.insert(token, now);
            }
            Err(rejected) => match rejected.why {
                Refusal::Full => self.again.push_back((Instant::now() + RETRY_AFTER, *rejected.request)),
                Refusal::Detached => self.io_over(IoId(token), IoResult::Gone),
            },
        }
    }

    /// Tells the volume the end of an I/O.
    fn io_over(&mut self, io: IoId, result: IoResult) {
        if self.flights.remove(&io.0).is_some() {
            self.volume.handle(Event::IoDone(io, result));
        }
    }

    fn completed(&mut self, completion: Completion) {
        let Completion { token, op, result, device, priority, .. } = completion;
        let io = IoId(token);
        let Some(flight) = self.flights.get(&token) else { return };
        let slot = flight.slot;
        let member = &mut self.members[slot.0 as usize];
        member.owes.remove(&token);
        member.answered_at = Instant::now();
        let Err(error) = result else {
            if matches!(op, Op::Write { .. }) && member.short_since.take().is_some() {
                member.error = None;
            }
            self.done(io, op);
            return;
        };
        match error.remedy() {
            Remedy::RepairRange => self.io_over(io, IoResult::MediaError),
            Remedy::MakeSpace | Remedy::Retry if !self.is_tired_of(slot, &error) => {
                let request = IoRequest { token, device, priority, op };
                self.again.push_back((Instant::now() + RETRY_AFTER, request));
            }
            _ => self.drop_device(slot, Some(error)),
        }
    }

    /// Whether a device has been failing for want of something as long as its deadline allows.
    fn is_tired_of(&mut self, slot: Slot, error: &DeviceError) -> bool {
        let member = &mut self.members[slot.0 as usize];
        let since = *member.short_since.get_or_insert_with(Instant::now);
        member.error = Some(error.clone());
        since.elapsed() > self.deadline
    }

    /// A device did what it should.
    fn done(&mut self, io: IoId, op: Op) {
        let Some(flight) = self.flights.get_mut(&io.0) else { return };
        match &mut flight.purpose {
            Purpose::Write | Purpose::Flush => self.io_over(io, IoResult::Done),
            Purpose::Bytes => {
                let bytes = op.into_read_buffer().map(|buffer| buffer.to_vec()).unwrap_or_default();
                self.io_over(io, IoResult::Bytes(bytes));
            }
            Purpose::Blocks { into, at, generation } => {
                let Some(buffer) = op.into_read_buffer() else { return };
                let seed = Seed { slot: flight.slot, address: *at, generation: *generation };
                let into = std::mem::take(into);
                let (volume, bytes) = (self.geometry.volume, buffer.len());
                let check = move || {
                    let blocks: Vec<(BufferId, Block)> =
                        into.into_iter().zip(Block::all_of(buffer)).collect();
                    let sums = blocks.iter().enumerate().map(|(i, (_, block))| {
                        let address = DeviceBlock(seed.address.0 + i as u64);
                        checksum(volume, Seed { address, ..seed }, block.bytes())
                    });
                    let result = IoResult::Checksums(sums.collect());
                    Message::Read { io, result, blocks }
                };
                match bytes <= INLINE_BYTES_MAX {
                    true => self.message(check()),
                    false => {
                        let inbox = self.inbox.clone();
                        self.workers.give(move || inbox.push(check()));
                    }
                }
            }
        }
    }

    fn compute(&mut self, job: pantile_volume::JobId, task: Task) {
        let (matrices, buffers, bytes) = (self.matrices.clone(), self.buffers.clone(), task.bytes());
        let run = move || {
            let outcome = task.run(&matrices, &buffers);
            Message::Computed { job, made: outcome.made, result: Computed::Checksums(outcome.checksums) }
        };
        match bytes <= INLINE_BYTES_MAX {
            true => self.message(run()),
            false => {
                let inbox = self.inbox.clone();
                self.workers.give(move || inbox.push(run()));
            }
        }
    }

    fn reply(&mut self, id: RequestId, reply: Reply) {
        let Some(answer) = self.clients.remove(&id) else { return };
        answer.give(match reply {
            Reply::Read(buffers) => {
                Ok(buffers.into_iter().map(|buffer| buffer.map(|id| self.table.get(id))).collect())
            }
            Reply::Done => Ok(Vec::new()),
            Reply::Failed(failure) => Err(HostError::Failed(failure)),
        });
    }

    /// Gives a device up: the volume is told, and gets an end for all that the device owes.
    fn drop_device(&mut self, slot: Slot, error: Option<DeviceError>) {
        let member = &mut self.members[slot.0 as usize];
        let Some(number) = member.number.take() else { return };
        member.owes.clear();
        member.error = error;
        drop(self.pool.detach(number));
        self.background.retain(|request| request.device != number);
        self.again.retain(|(_, request)| request.device != number);
        self.volume.handle(Event::DeviceGone(slot));
        let owed = self.flights.iter().filter(|(_, flight)| flight.slot == slot);
        let mut owed: Vec<u64> = owed.map(|(&token, _)| token).collect();
        owed.sort_unstable();
        owed.into_iter().for_each(|token| self.io_over(IoId(token), IoResult::Gone));
    }

    /// Does what is due, and says when it is to be called again.
    fn timers(&mut self, now: Instant) -> Instant {
        self.begin_background(now);
        while self.again.front().is_some_and(|(at, _)| *at <= now) {
            self.again.pop_front().into_iter().for_each(|(_, request)| self.submit(request));
        }
        if now >= self.looked_at + LOOK_EVERY {
            self.looked_at = now;
            self.drop_those_that_hang(now);
        }
        let owing = self.members.iter().any(|member| !member.owes.is_empty());
        let mut next = now + if owing { LOOK_EVERY } else { Duration::from_secs(3600) };
        if !self.background.is_empty() {
            next = next.min(self.throttle.next_at());
        }
        self.again.front().map_or(next, |(at, _)| next.min(*at))
    }

    fn drop_those_that_hang(&mut self, now: Instant) {
        for index in 0..self.members.len() {
            let member = &self.members[index];
            let Some(oldest) = member.owes.values().next() else { continue };
            let silent = now.saturating_duration_since(member.answered_at) > self.deadline;
            let forgotten = now.saturating_duration_since(*oldest) > self.deadline * OLDEST_DEADLINES;
            if silent || forgotten {
                let device = member.path.clone().unwrap_or_default();
                let at = Site { device, op: OpKind::Read, offset_bytes: 0, len_bytes: 0 };
                self.drop_device(Slot(index as u32), Some(DeviceError::Gone { at, errno: TIMED_OUT }));
            }
        }
    }

    /// Ends the thread after this message.
    pub(crate) fn stop(&mut self) {
        self.stop = true;
    }

    /// The operator says that a device has failed.
    pub(crate) fn fail(&mut self, slot: Slot) -> Result<(), HostError> {
        self.known(slot)?;
        self.drop_device(slot, None);
        Ok(())
    }

    /// A device comes into a slot that has none.
    pub(crate) fn attach(
        &mut self,
        slot: Slot,
        device: Arc<dyn Device>,
        found: Found,
    ) -> Result<(), HostError> {
        self.known(slot)?;
        if self.members[slot.0 as usize].number.is_some() {
            return Err(HostError::SlotTaken { slot });
        }
        self.put(slot, device)?;
        self.volume.handle(Event::DeviceCame(slot, found));
        Ok(())
    }

    fn known(&self, slot: Slot) -> Result<(), HostError> {
        match (slot.0 as usize) < self.members.len() {
            true => Ok(()),
            false => Err(HostError::NoSuchSlot { slot, slots: self.members.len() }),
        }
    }

    pub(crate) fn scrub(&mut self, what: Scrub) {
        self.volume.handle(Event::Scrub(what));
    }

    pub(crate) fn set_throttle(&mut self, bytes_per_s_max: Option<u64>) {
        let now = Instant::now();
        self.throttle.set(bytes_per_s_max, now);
        self.begin_background(now);
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.volume.is_clean()
    }

    pub(crate) fn losses(&self, also: &[Slot]) -> Result<Losses, HostError> {
        self.volume.losses(also).ok_or(HostError::Stopped)
    }

    pub(crate) fn report(&self) -> Result<Report, HostError> {
        let members = self.members.iter().map(|member| MemberReport {
            path: member.path.clone(),
            attached: member.number.is_some(),
            len_bytes: member.len_bytes,
            error: member.error.clone(),
        });
        Ok(Report {
            status: self.volume.status().ok_or(HostError::Stopped)?,
            members: members.collect(),
            throttle_bytes_per_s: self.throttle.bytes_per_s_max(),
            blocks_in_memory: self.table.len(),
            ios: self.flights.len(),
        })
    }
}

impl Member {
    fn empty(now: Instant) -> Member {
        let device: Weak<dyn Device> = Weak::<pantile_device::MemoryDevice>::new();
        Member {
            number: None,
            device,
            path: None,
            len_bytes: 0,
            owes: BTreeMap::new(),
            answered_at: now,
            error: None,
            short_since: None,
        }
    }
}

fn len_bytes(op: &Op) -> u64 {
    match op {
        Op::Read { range, .. } => range.len() as u64,
        Op::Write { parts, .. } => parts.iter().map(|part| part.range.len() as u64).sum(),
        _ => 0,
    }
}
