//! The engine's thread: performs the volume's actions one after the other, and reports the result
//! of each to it.
//!
//! Only this thread changes the volume; others only look up the locations of blocks
//! ([`crate::direct`]). It waits only in [`IoPool::wait`]: completions of devices end the wait, and
//! so do messages, whose sender calls [`IoPool::wake`]. Short computations are done here, because a
//! hand-over costs more than they do; [`Workers`] do long ones.
//!
//! Invariant: the end of each I/O and computation of the volume is reported to it exactly once.
//! When a device is lost, every I/O pending on it is reported with it; a later answer of the device
//! is dropped.

mod claiming;
mod exchange;
mod flights;
mod pace;
mod reads;
mod rest;
mod shortage;
mod transfers;

use self::claiming::Claiming;
use self::flights::Flights;
use self::pace::{Pace, Speeds};
use self::reads::FailedReads;
use self::rest::Rest;
use self::shortage::Shortage;
use self::transfers::{Flight, Purpose, len_bytes};
use crate::ahead::{Ahead, Early};
use crate::direct::{Direct, SharedVolume};
use crate::epochs::{EpochReport, EpochWish, Watches};
use crate::gather::Wanted;
use crate::inbox::{Answer, Inbox, Message};
use crate::latency::{Kind, Latency};
use crate::memory::{BLOCK, Block, Buffers, Table};
use crate::slowness::Slow;
use crate::work::{Task, Workers};
use crate::{HostError, HostOptions};
use pantile_device::{
    AlignedBuf, Completion, Device, DeviceError, Identity, IoPool, Layer, Layered, Op, OpKind, Site,
};
use pantile_format::volume::{Claimant, Superblock};
use pantile_volume::{
    Action, DeviceBlock, EpochId, Event, EventKind, Extent, Found, Geometry, IoId, IoResult, Losses, Reason,
    Reply, Request, RequestId, Scrub, Slot, Standing, State, Status, Urgency, UserBlock,
};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// Largest computation on the engine's thread, in bytes: some ten microseconds of arithmetic. With
/// busy processors, the two hand-overs to another thread and back cost more than that. 512 KiB made
/// sequential reads 8 % faster and degraded reads 3 %; this half of it leaves the thread to other
/// requests.
const INLINE_BYTES_MAX: usize = 256 * 1024;

/// Bytes of completions that are handled, and mostly verified, before their readers are answered
/// and new requests begin. Without this limit devices would be idle while all data that they
/// returned at once is verified.
const TURN_BYTES: u64 = 256 * 1024;

/// Time limit for devices to end their operations when a volume stops.
const CLOSE_DEADLINE: Duration = Duration::from_secs(30);

/// Time limit for closing, and for a silent device that the volume can spare, while a user waits
/// for the end. The device is caught up at the next start. So `pantile stop` answers within ten
/// seconds.
const HURRIED: Duration = Duration::from_secs(4);

/// Interval of the checks for late devices.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A single request is hanging after this many deadlines, even if its device answers others.
const OLDEST_DEADLINES: u32 = 4;

/// Interval at which the current time is passed to the volume.
const TIME_EVERY: Duration = Duration::from_secs(1);

/// ETIMEDOUT.
const TIMED_OUT: i32 = 110;

/// Returns the current time in seconds since 1970.
pub(crate) fn unix_time() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() as i64)
}

/// Returns the reason for giving a device up, as the other devices record it.
pub(crate) fn reason_of(error: Option<&DeviceError>) -> (Reason, i32) {
    match error {
        None => (Reason::OPERATOR, 0),
        Some(DeviceError::Gone { errno: TIMED_OUT, .. }) => (Reason::HANGS, TIMED_OUT),
        Some(DeviceError::NoSpace { errno, .. }) => (Reason::NO_SPACE, *errno),
        Some(DeviceError::FlushFailed { errno, .. }) => (Reason::WRITE_FAILED, *errno),
        Some(DeviceError::Media { at, errno } | DeviceError::System { at, errno })
            if matches!(at.op, OpKind::Write | OpKind::Flush) =>
        {
            (Reason::WRITE_FAILED, *errno)
        }
        Some(
            DeviceError::Gone { errno, .. }
            | DeviceError::Media { errno, .. }
            | DeviceError::System { errno, .. }
            | DeviceError::ReadOnly { errno, .. },
        ) => (Reason::GONE, *errno),
        Some(_) => (Reason::GONE, 0),
    }
}

/// A layer that shows when a device is closed. It is dropped with the pool's last reference to the
/// device, even if other owners still hold the device.
struct Share {
    _held: Arc<()>,
}

impl Layer for Share {
    fn direct_file<'a>(&'a self, within: &'a dyn Device) -> Option<BorrowedFd<'a>> {
        within.direct_file()
    }
}

/// A slot and the device in it.
pub(crate) struct Member {
    /// The number of the device in the pool; `None`: the slot has no device.
    number: Option<usize>,
    /// Numbers of earlier devices of the slot that have not answered all requests.
    leaving: Vec<usize>,
    device: Weak<()>,
    path: Option<PathBuf>,
    identity: Option<Identity>,
    len_bytes: u64,
    /// Pending requests by token, with their start.
    owes: BTreeMap<u64, Instant>,
    answered_at: Instant,
    /// The error for which the last device of this slot was dropped.
    error: Option<DeviceError>,
    shortage: Shortage,
    pace: Pace,
    /// True if the last device of this slot was given up because it was slow.
    was_slow: bool,
    failed_reads: FailedReads,
    /// True if this host's claim was written to the device, so that a claim of another host was
    /// written later.
    is_claimed: bool,
}

/// Report on a device of a running volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberReport {
    /// Its path, or that of the last device of the slot.
    pub path: Option<PathBuf>,
    /// The system's number of the device, or of the last device of the slot.
    pub identity: Option<Identity>,
    /// True if the slot has a device.
    pub attached: bool,
    /// True if it is to be taken out because too many of its reads failed.
    pub fails_reads: bool,
    /// Its length.
    pub len_bytes: u64,
    /// The error for which it was given up, or its present shortage.
    pub error: Option<DeviceError>,
    /// True if it was given up because it was slow.
    pub was_slow: bool,
    /// True if a request waits for space or memory on it.
    pub is_short: bool,
    /// Durations of its last reads, if there were enough.
    pub reads: Option<Latency>,
    /// Durations of its last writes, if there were enough.
    pub writes: Option<Latency>,
    /// Duration of its reads divided by that of the other devices, if reads avoid it; otherwise 1.
    pub times_as_long: u32,
    /// Set if it has been far slower than the other devices for so long that it is reported as
    /// slow.
    pub slow: Option<Slow>,
}

/// State of a running volume at one moment.
#[derive(Clone, Debug)]
pub struct Report {
    /// Status of the volume.
    pub status: Status,
    /// Losses of devices and known bad content that affect flushed data.
    pub standing: Standing,
    /// Open epochs.
    pub epochs: Vec<EpochReport>,
    /// The devices, by slot.
    pub members: Vec<MemberReport>,
    /// Bytes a second that rebuild and scrub may read and write; `None`: no limit.
    pub throttle_bytes_per_s: Option<u64>,
    /// Number of blocks in the engine's memory.
    pub blocks_in_memory: usize,
    /// Limit of all buffers of the volume, in bytes.
    pub memory_bytes_max: u64,
    /// Bytes in buffers: of writes, reads, rebuild and scrub, including those kept for reuse.
    pub memory_bytes: u64,
    /// Number of stripes patched in place since the volume was opened; `None`: patches are not
    /// allowed.
    pub patched_stripes: Option<u64>,
    /// Number of blocks read directly by readers; the status counts them, too.
    pub blocks_read_directly: u64,
    /// Number of I/Os under way.
    pub ios: usize,
    /// Number of these I/Os of rebuild and scrub that wait for the throttle.
    pub ios_waiting: usize,
    /// Number of computations under way.
    pub computations: usize,
}

/// The engine: the volume, its devices, its memory and its clients.
pub(crate) struct Engine {
    volume: Arc<SharedVolume>,
    direct: Arc<Direct>,
    geometry: Geometry,
    pool: Arc<IoPool>,
    inbox: Arc<Inbox>,
    memory: Memory,
    workers: Workers,
    members: Vec<Member>,
    flights: Flights,
    computations: usize,
    clients: FxHashMap<RequestId, Answer<Vec<Option<Block>>>>,
    epochs: Watches,
    ahead: Ahead,
    reads_more: bool,
    rest: Rest,
    speeds: Speeds,
    deadline: Duration,
    times: Times,
    life: Life,
    pub(crate) claim: Claim,
}

/// The memory blocks of a volume.
struct Memory {
    table: Table,
    buffers: Buffers,
    /// Limit of all buffers of the volume.
    bytes_max: u64,
}

/// Times of the last calls of work that is done at intervals.
struct Times {
    looked_at: Instant,
    /// Time of the last call that passed the current time to the volume.
    told_time_at: Instant,
}

/// Begin and end of the engine's thread.
struct Life {
    /// The caller that waits until the volume is open.
    opened: Option<Answer<()>>,
    /// True if a caller waits for the end of the volume.
    hurries: bool,
    stop: bool,
}

/// The claim of this host to the volume.
#[derive(Default)]
pub(crate) struct Claim {
    under_way: Option<Claiming>,
    /// The host that has taken the volume.
    pub(crate) taken: Arc<OnceLock<Claimant>>,
}

impl Engine {
    /// Begins to open a volume on the devices of its slots.
    pub(crate) fn new(
        geometry: Geometry,
        devices: Vec<Option<Arc<dyn Device>>>,
        (volume, direct): (Arc<SharedVolume>, Arc<Direct>),
        options: &HostOptions,
        (pool, inbox): (Arc<IoPool>, Arc<Inbox>),
        opened: Answer<()>,
    ) -> Result<Engine, HostError> {
        let workers = Workers::new(options.workers)
            .map_err(|error| HostError::Thread { errno: error.raw_os_error().unwrap_or(0) })?;
        let now = Instant::now();
        let mut engine = Engine {
            speeds: Speeds::new(direct.latencies(), geometry.slots(), options),
            volume,
            direct,
            pool,
            inbox,
            memory: Memory {
                table: Table::new(),
                buffers: Buffers::new(options.kept_bytes),
                bytes_max: options.memory_bytes,
            },
            workers,
            members: Vec::new(),
            flights: Flights::new(options.background_bytes_per_s, now),
            computations: 0,
            clients: FxHashMap::default(),
            epochs: Watches::default(),
            ahead: Ahead::default(),
            reads_more: options.reads_more,
            rest: Rest::new(options.idle_after, now),
            deadline: options.device_deadline,
            times: Times { looked_at: now, told_time_at: now },
            life: Life { opened: Some(opened), hurries: false, stop: false },
            claim: Claim::default(),
            geometry,
        };
        engine.volume.tell_time(unix_time());
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
        let identity = Some(device.identity());
        let held = Arc::new(());
        let weak = Arc::downgrade(&held);
        let device: Arc<dyn Device> = Arc::new(Layered::with(device, Share { _held: held }));
        let number = self.pool.attach(device.clone())?;
        self.direct.attach(slot, device);
        self.speeds.forget(slot);
        let empty = Member::empty(Instant::now());
        self.members[slot.0 as usize] =
            Member { number: Some(number), device: weak, path, identity, len_bytes, ..empty };
        Ok(())
    }

    /// Runs the engine's thread. At its end all devices are closed, except those that hang.
    pub(crate) fn run(mut self) {
        let (mut messages, mut completions) = (VecDeque::new(), Vec::new());
        let mut landed: VecDeque<Completion> = VecDeque::new();
        loop {
            self.tell_time(Instant::now());
            self.inbox.take(&mut messages);
            messages.drain(..).for_each(|message| self.message(message));
            self.perform();
            self.say_opened();
            if self.life.stop {
                break;
            }
            let deadline = self.timers(Instant::now());
            // A timer may have generated actions of the volume.
            self.perform();
            match landed.is_empty() {
                true => self.pool.wait(&mut completions, deadline),
                false => self.pool.poll(&mut completions),
            };
            landed.extend(completions.drain(..));
            let mut bytes = 0;
            while bytes < TURN_BYTES
                && let Some(completion) = landed.pop_front()
            {
                bytes += len_bytes(&completion.op);
                self.completed(completion);
            }
        }
        self.inbox.close();
        let mut devices = Vec::new();
        for (slot, member) in (0..).map(Slot).zip(&mut self.members) {
            // A device that was just exchanged holds the new device open.
            member.leaving.drain(..).for_each(|before| drop(self.pool.detach(before)));
            if let Some(number) = member.number.take() {
                self.direct.detach(slot);
                self.pool.detach(number);
                devices.push(member.device.clone());
            } else if member.fell_short() {
                // A device that was given up a moment ago may still answer and be closed.
                devices.push(member.device.clone());
            }
        }
        // An operation under way keeps its device open until its completion is taken.
        let deadline = Instant::now() + if self.life.hurries { HURRIED } else { CLOSE_DEADLINE };
        while devices.iter().any(|device| device.strong_count() > 0) && Instant::now() < deadline {
            self.pool.wait(&mut completions, Instant::now() + Duration::from_millis(1));
            completions.clear();
            self.direct.sweep();
        }
    }

    fn message(&mut self, message: Message) {
        match message {
            Message::User { request, answer } => self.user(request, answer),
            Message::Read { io, result, blocks } => {
                if self.flights.get(io.0).is_some() {
                    blocks.into_iter().for_each(|(id, block)| self.memory.table.fill(id, block));
                    self.io_over(io, result);
                }
            }
            Message::Computed { job, made, result } => {
                self.computations -= 1;
                made.into_iter().for_each(|(id, block)| self.memory.table.fill(id, block));
                self.volume.handle(Event::Computed(job, result));
            }
            Message::Call(call) => {
                // A report shows the state after all possible actions have begun.
                self.perform();
                call(self);
            }
        }
    }

    fn user(&mut self, request: Request<AlignedBuf>, answer: Answer<Vec<Option<Block>>>) {
        match *request.innermost() {
            Request::Write { first, ref contents, .. } => {
                self.ahead.forget(first, (contents.len() / BLOCK) as u64);
            }
            Request::Trim { first, count } => self.ahead.forget(first, count),
            _ => {}
        }
        match request {
            Request::Read { first, count } if self.epochs.is_empty() => {
                return self.read(first, count, answer);
            }
            Request::Within { epoch, .. } => self.epochs.asked(epoch, Instant::now()),
            _ => {}
        }
        let request = request.map(&mut |data| self.memory.table.name(Block::all_of(data)));
        let id = self.tell(request);
        self.clients.insert(id, answer);
    }

    /// Reads blocks of a volume without epochs, from a read-ahead if there is one, and reads ahead
    /// of the next request.
    fn read(&mut self, first: UserBlock, count: u32, answer: Answer<Vec<Option<Block>>>) {
        let early = self.ahead.take(first, count);
        if early.is_some() {
            self.direct.was_read_ahead();
        }
        match early {
            Some(Early::There(blocks)) => {
                // The answered request counts, although the volume did not get it.
                self.rest.asked(true);
                answer.give(Ok(blocks));
            }
            Some(Early::UnderWay(id)) => drop(self.clients.insert(id, answer)),
            None => {
                let id = self.tell(Request::Read { first, count });
                self.clients.insert(id, answer);
            }
        }
        if !self.reads_more {
            return;
        }
        let end = UserBlock(self.geometry.user_blocks());
        for (first, count) in self.ahead.asked(first, count, end) {
            let id = self.tell(Request::Read { first, count });
            self.ahead.begun(first, count, id);
        }
    }

    fn say_opened(&mut self) {
        if self.life.opened.is_none() {
            return;
        }
        let result = match self.volume.state() {
            State::Opening => return,
            State::Serving => Ok(()),
            State::Refused(error) => Err(HostError::Open(error)),
        };
        self.life.stop |= result.is_err();
        self.life.opened.take().into_iter().for_each(|answer| answer.give(result.clone()));
    }

    /// Performs the actions of the volume until there are none.
    fn perform(&mut self) {
        loop {
            while let Some(action) = self.volume.next_action() {
                self.act(action);
            }
            if !self.flights.has_wanted() {
                break;
            }
            self.begin_wanted();
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Read { io, slot, at, into, generation, urgency } => {
                let blocks = into.len() as u64;
                self.want(
                    Wanted { io, slot, at, blocks, urgency, write: None },
                    Purpose::Blocks { into, generation },
                );
            }
            Action::ReadBytes { io, slot, at, blocks, urgency } => {
                let wanted = Wanted { io, slot, at, blocks: blocks.into(), urgency, write: None };
                self.want(wanted, Purpose::Bytes);
            }
            Action::Write { io, slot, at, pieces, urgency } => {
                let segments = self.segments(pieces);
                let bytes: usize = segments.iter().map(|segment| segment.range.len()).sum();
                let blocks = (bytes / BLOCK) as u64;
                self.want(Wanted { io, slot, at, blocks, urgency, write: Some(segments) }, Purpose::Write);
            }
            Action::Flush { io, slot } => {
                let flight = Flight { slot, at: DeviceBlock(0), blocks: 0, purpose: Purpose::Flush };
                self.flights.add(io, flight);
                self.begin(io, slot, Op::Flush, Urgency::User);
            }
            Action::Compute { job, work } => {
                // I/O is started before the computations, so that devices work meanwhile.
                self.begin_wanted();
                let task =
                    Task::new(self.geometry.volume, work, |operand| self.memory.table.operand(operand));
                self.compute(job, task);
            }
            Action::Release(buffer) => self.memory.table.release(buffer),
            Action::Reply(id, reply) => self.reply(id, reply),
        }
    }

    fn compute(&mut self, job: pantile_volume::JobId, task: Task) {
        self.computations += 1;
        let (matrices, buffers, bytes) = (self.direct.matrices(), self.memory.buffers.clone(), task.bytes());
        let run = move || {
            let outcome = task.run(&matrices, &buffers);
            Message::Computed { job, made: outcome.made, result: outcome.computed }
        };
        match bytes <= INLINE_BYTES_MAX {
            true => self.message(run()),
            false => self.give(move || vec![run()]),
        }
    }

    /// Gives a computation to another thread. If it panics, so does the engine: a request that
    /// depends on its result would wait for ever.
    fn give(&self, job: impl FnOnce() -> Vec<Message> + Send + 'static) {
        let inbox = self.inbox.clone();
        self.workers.give(move || match catch_unwind(AssertUnwindSafe(job)) {
            Ok(messages) => messages.into_iter().for_each(|message| inbox.push(message)),
            Err(payload) => inbox.push(Message::Call(Box::new(|_| resume_unwind(payload)))),
        });
    }

    fn reply(&mut self, id: RequestId, reply: Reply) {
        let reply = match reply {
            Reply::Begun { epoch, first, count } => return self.epochs.begun(id, epoch, first, count),
            Reply::Failed(failure) => match self.epochs.not_begun(id, failure) {
                Some(failure) => Reply::Failed(failure),
                None => return,
            },
            reply => reply,
        };
        let result = match reply {
            Reply::Read(buffers) => {
                Ok(buffers.into_iter().map(|buffer| buffer.map(|id| self.memory.table.get(id))).collect())
            }
            Reply::Done | Reply::Begun { .. } => Ok(Vec::new()),
            Reply::Failed(failure) => Err(HostError::Failed(failure)),
        };
        match self.clients.remove(&id) {
            Some(answer) => answer.give(result),
            None => self.ahead.came(id, result.ok()),
        }
    }

    /// Passes the current time to the volume, accurate to a second or two. This replaces a read of
    /// the clock for each event.
    fn tell_time(&mut self, now: Instant) {
        if now.saturating_duration_since(self.times.told_time_at) >= TIME_EVERY {
            self.times.told_time_at = now;
            self.volume.tell_time(unix_time());
        }
    }

    /// Gives a device up: reports that, and the end of each request pending on the device, to the
    /// volume.
    fn drop_device(&mut self, slot: Slot, error: Option<DeviceError>) {
        let (reason, errno) = reason_of(error.as_ref());
        self.drop_device_for(slot, reason, errno, error);
    }

    fn drop_device_for(&mut self, slot: Slot, reason: Reason, errno: i32, error: Option<DeviceError>) {
        let member = &mut self.members[slot.0 as usize];
        let Some(number) = member.number.take() else { return };
        member.owes.clear();
        (member.error, member.shortage) = (error, Shortage::default());
        (member.pace, member.failed_reads) = (Pace::default(), FailedReads::default());
        self.direct.detach(slot);
        drop(self.pool.detach(number));
        member.leaving.drain(..).for_each(|before| drop(self.pool.detach(before)));
        self.speeds.forget(slot);
        let owed = self.flights.give_up(slot, number);
        self.volume.tell_why(slot, reason, errno);
        self.volume.handle(Event::DeviceGone(slot));
        owed.into_iter().for_each(|token| self.io_over(IoId(token), IoResult::Gone));
        self.flights.forget_ended();
    }

    /// Does all work that is due, and returns the time of the next call.
    fn timers(&mut self, now: Instant) -> Instant {
        self.begin_background(now);
        while let Some(request) = self.flights.next_again(now) {
            self.submit(request);
        }
        if now >= self.times.looked_at + LOOK_EVERY {
            self.times.looked_at = now;
            self.direct.sweep();
            self.drop_those_that_hang(now);
            self.look_at_shortages(now);
            self.look_at_fence(now);
            self.let_go_of_drained();
            self.look_at_pace();
            self.look_at_failed_reads(now);
        }
        self.look_at_epochs(now);
        let idle_at = self.look_whether_idle(now);
        let still_at = self.look_whether_still(now);
        let owes = |member: &Member| !member.owes.is_empty() || !member.leaving.is_empty();
        let owing = self.members.iter().any(owes) || !self.epochs.is_empty();
        let looks = owing || self.direct.has_late() || self.has_slow() || self.holds_writes();
        let next = now + if looks { LOOK_EVERY } else { Duration::from_secs(3600) };
        let others = still_at.into_iter().chain(self.beat(now)).chain(self.flights.next_at());
        others.fold(next.min(idle_at), Instant::min)
    }

    /// Reports to the volume that no client has requests; returns the time of the next check.
    fn look_whether_idle(&mut self, now: Instant) -> Instant {
        let is_asked = !self.clients.is_empty() || self.life.opened.is_some();
        let (is_idle, next) = self.rest.is_idle(now, self.direct.all_blocks_read(), is_asked);
        if is_idle {
            self.ahead.clear();
            self.volume.handle(Event::Idle);
        }
        next
    }

    /// Reports once to the volume that writes have stopped, even if reads go on. Until then returns
    /// the time of the next check.
    fn look_whether_still(&mut self, now: Instant) -> Option<Instant> {
        let (is_still, next) = self.rest.is_still(now, self.life.opened.is_some());
        if is_still {
            self.volume.handle(Event::Still);
        }
        next
    }

    fn drop_those_that_hang(&mut self, now: Instant) {
        let for_longer = |deadline: Duration| -> Vec<Slot> {
            let hangs = |member: &Member| {
                let since = |then| now.saturating_duration_since(then);
                let oldest = member.owes.values().next();
                let is_forgotten = |&oldest| since(oldest) > self.deadline * OLDEST_DEADLINES;
                oldest.is_some_and(|oldest| since(member.answered_at) > deadline || is_forgotten(oldest))
            };
            (0..).map(Slot).zip(&self.members).filter(|(_, one)| hangs(one)).map(|(slot, _)| slot).collect()
        };
        let mut hanging = for_longer(self.deadline);
        if self.life.hurries {
            let silent = for_longer(HURRIED.min(self.deadline));
            if !silent.is_empty() && self.volume.can_spare(&silent).unwrap_or(false) {
                hanging = silent;
            }
        }
        for slot in hanging {
            let device = self.members[slot.0 as usize].path.clone().unwrap_or_default();
            let at = Site { device, op: OpKind::Read, offset_bytes: 0, len_bytes: 0 };
            self.drop_device(slot, Some(DeviceError::Gone { at, errno: TIMED_OUT }));
        }
    }

    /// Ends the thread after this message.
    pub(crate) fn stop(&mut self) {
        self.life.stop = true;
    }

    /// Gives a device up that the operator has declared failed.
    pub(crate) fn fail(&mut self, slot: Slot) -> Result<(), HostError> {
        self.known(slot)?;
        self.drop_device(slot, None);
        Ok(())
    }

    /// Puts a device into an empty slot.
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

    /// Clears the errors of a device, which the operator has seen.
    pub(crate) fn clear_errors(&mut self, slot: Slot) -> Result<(), HostError> {
        self.known(slot)?;
        self.volume.handle(Event::ClearErrors(slot));
        Ok(())
    }

    /// Records an event that only the host knows.
    pub(crate) fn note_event(&mut self, slot: Option<Slot>, what: EventKind, (reason, errno): (Reason, i32)) {
        self.volume.handle(Event::Happened { slot, what, reason, errno });
    }

    /// Ends work that only a running volume needs; the next flush waits for it.
    pub(crate) fn settle(&mut self) {
        self.volume.handle(Event::Settle);
    }

    pub(crate) fn set_throttle(&mut self, bytes_per_s_max: Option<u64>) {
        let now = Instant::now();
        self.flights.set_bytes_per_s_max(bytes_per_s_max, now);
        self.begin_background(now);
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.volume.is_clean()
    }

    /// Passes a request to the volume. The volume answers only when its next action is taken, so
    /// the caller may register the client afterwards.
    fn tell(&mut self, request: Request) -> RequestId {
        let id = self.rest.asked(matches!(request, Request::Read { .. }));
        self.volume.handle(Event::Request(id, request));
        id
    }

    /// Begins an epoch.
    pub(crate) fn begin_epoch(&mut self, wish: EpochWish, answer: Answer<(EpochId, UserBlock, u64)>) {
        let EpochWish { first, count, owed_blocks_max, rules } = wish;
        let id = self.tell(Request::Begin { first, count, owed_blocks_max });
        self.epochs.beginning(id, rules, answer);
    }

    /// Ends or aborts an epoch.
    pub(crate) fn close_epoch(&mut self, epoch: EpochId, seal: bool, answer: Answer<Vec<Option<Block>>>) {
        self.epochs.closing(epoch);
        let request = if seal { Request::End { epoch } } else { Request::Abort { epoch } };
        let id = self.tell(request);
        self.clients.insert(id, answer);
    }

    /// Ends an epoch by its policy, because the client that began it is gone.
    pub(crate) fn leave_epoch(&mut self, epoch: EpochId) {
        if let Some(seal) = self.epochs.seals(epoch) {
            self.by_policy(epoch, seal);
        }
    }

    fn by_policy(&mut self, epoch: EpochId, seal: bool) {
        self.epochs.closing(epoch);
        let request = if seal { Request::End { epoch } } else { Request::Abort { epoch } };
        let id = self.tell(request);
        // If it cannot be sealed, it is aborted: no client is left to write the lost data again.
        self.epochs.closed_by_policy(id, epoch, seal);
    }

    /// Writes parity that has been pending for too long, and ends epochs without requests.
    fn look_at_epochs(&mut self, now: Instant) {
        if self.epochs.is_empty() {
            return;
        }
        let open = self.volume.epochs();
        for (epoch, through) in self.epochs.aged(&open, now) {
            self.tell(Request::Advance { epoch, through });
        }
        for (epoch, seal) in self.epochs.silent(now) {
            self.by_policy(epoch, seal);
        }
        for epoch in self.epochs.hopeless() {
            self.tell(Request::Abort { epoch });
        }
    }

    pub(crate) fn extents(&self, first: UserBlock, count: u64) -> Result<Vec<Extent>, HostError> {
        self.volume.extents(first, count).ok_or(HostError::Stopped)
    }

    pub(crate) fn losses(&self, also: &[Slot]) -> Result<Losses, HostError> {
        self.volume.losses(also).ok_or(HostError::Stopped)
    }

    pub(crate) fn found(&self, slot: Slot, own: &Superblock) -> Result<Found, HostError> {
        self.volume.found(slot, own).ok_or(HostError::Stopped)
    }

    pub(crate) fn report(&self) -> Result<Report, HostError> {
        let members = (0..).map(Slot).zip(&self.members).map(|(slot, member)| MemberReport {
            path: member.path.clone(),
            identity: member.identity,
            attached: member.number.is_some(),
            fails_reads: member.failed_reads.are_too_many(),
            len_bytes: member.len_bytes,
            error: member.error.clone(),
            was_slow: member.was_slow,
            is_short: !member.shortage.is_over(),
            reads: self.speeds.of(slot, Kind::Read),
            writes: self.speeds.of(slot, Kind::Write),
            times_as_long: member.pace.times,
            slow: self.speeds.slow(slot),
        });
        let mut status = self.volume.status().ok_or(HostError::Stopped)?;
        for (slot, device) in (0..).map(Slot).zip(&mut status.devices) {
            device.counts.blocks_read += self.direct.blocks_read(slot);
        }
        Ok(Report {
            epochs: self.epochs.reports(&self.volume.epochs(), Instant::now()),
            standing: self.volume.standing().ok_or(HostError::Stopped)?,
            status,
            members: members.collect(),
            throttle_bytes_per_s: self.flights.bytes_per_s_max(),
            blocks_in_memory: self.memory.table.len(),
            memory_bytes_max: self.memory.bytes_max,
            memory_bytes: (self.memory.buffers.bytes() + self.direct.bytes_in_memory()) as u64,
            patched_stripes: self.volume.patched_stripes(),
            blocks_read_directly: self.direct.all_blocks_read(),
            ios: self.flights.len(),
            ios_waiting: self.flights.waiting(),
            computations: self.computations,
        })
    }
}

impl Member {
    fn empty(now: Instant) -> Member {
        Member {
            number: None,
            leaving: Vec::new(),
            device: Weak::new(),
            path: None,
            identity: None,
            len_bytes: 0,
            owes: BTreeMap::new(),
            answered_at: now,
            error: None,
            shortage: Shortage::default(),
            pace: Pace::default(),
            was_slow: false,
            failed_reads: FailedReads::default(),
            is_claimed: false,
        }
    }
}
