//! Runs requests, on threads for each device or in one io_uring for all, and returns completions.
//!
//! Reads, writes and flushes of a file without layers go to the ring ([`crate::ring`]) if the
//! system has one: then neither the request nor its completion wakes a thread. The ring gets at
//! most as many requests of a device at a time as the device would have threads; further ones wait.
//! All other requests, and those that the ring does not complete in full, are for threads. The
//! threads of a device that the ring serves end when they have nothing to do, so that their number
//! does not grow with the devices. Flushes are an exception, because the system hands them to
//! threads of its own: those of the first eight devices ([`FLUSHED_BY_WORKERS`]) are for the pool's
//! threads, which are faster.
//!
//! Each device has its own queue and its own workers, so a device that hangs delays only its own
//! requests. Workers start when there is work for them and, without a ring, stay. A worker takes,
//! in this order: a user's flush, a user's request, a background flush, a background request.
//! Background requests never occupy more than their share of the workers, so a user's request
//! always finds a worker that is not busy with a rebuild.
//!
//! Order: requests of one device run concurrently, in any order. A caller that needs an order waits
//! for the first completion. A flush covers every operation whose completion was taken before the
//! flush was submitted. All waiting flushes become one flush of the device, which covers them
//! because it begins later. A flush that is submitted while another runs waits for the next.
//!
//! Bound: of each device and priority at most `depth_per_device` requests are accepted whose
//! completions have not been taken. So queues and completions are bounded, and background requests
//! that are not served cannot block a user's.
//!
//! Not here, on purpose: retries, timeouts, fairness between priorities. Completions have their
//! durations; the volume decides.

mod slot;

use self::slot::{Flushes, LOOKS};
pub(crate) use self::slot::{Queued, Slot};
use crate::device::site;
use crate::ring::{Landed, Ring};
use crate::{AlignedBuf, Device, DeviceError, OpKind};
use std::any::Any;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Number of devices, the first ones, whose flushes are done by workers although the ring could do
/// them.
///
/// Measured on six devices, random durable writes of 4 KiB, eight at a time: 1.1 times as many as
/// with the ring.
const FLUSHED_BY_WORKERS: usize = 8;

/// Threads that perform requests on a set of devices, and a ring for requests that need no thread.
/// All methods may be called from any thread.
///
/// Dropping it waits for all accepted requests, however long that takes; see
/// [`shutdown`](Self::shutdown).
pub struct IoPool {
    options: PoolOptions,
    /// The devices. Their index is the number that requests name; it is never used twice.
    slots: RwLock<Vec<Option<Arc<Slot>>>>,
    done: Arc<Done>,
    /// The ring for requests that need no thread. `None` if the system has none, or the options
    /// exclude it.
    ring: Option<Arc<Ring>>,
}

/// Sizes of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolOptions {
    /// The most threads of a device: the most operations that a device gets at a time.
    pub workers_per_device: usize,
    /// The most of them that may be busy with background requests.
    pub background_workers_per_device: usize,
    /// The most requests of one device and priority that are accepted and whose completions are not
    /// taken.
    pub depth_per_device: usize,
    /// Sends reads and writes of plain files to an io_uring, if there is one, instead of to
    /// threads.
    pub ring: bool,
}

/// An operation, its device and its priority.
#[derive(Debug)]
pub struct Request {
    /// The caller's name for the request; the completion has the same.
    pub token: u64,
    /// Number of the device, from [`IoPool::attach`].
    pub device: usize,
    /// Priority of the request.
    pub priority: Priority,
    /// Operation to perform.
    pub op: Op,
}

/// Priorities: the kinds of callers that wait for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Priority {
    /// A user.
    User,
    /// Rebuild, scrub, cleaning: served if no user's request waits.
    Background,
}

/// One operation with its buffers, which come back with the completion.
#[derive(Debug)]
pub enum Op {
    /// Fills a range of a buffer.
    Read {
        /// First byte on the device.
        offset_bytes: u64,
        /// Buffer that is filled.
        buffer: AlignedBuf,
        /// Range of the buffer that is filled.
        range: Range<usize>,
    },
    /// Writes segments one after another, as one operation.
    Write {
        /// First byte on the device.
        offset_bytes: u64,
        /// Segments of buffers, in order.
        parts: Vec<Segment>,
    },
    /// See [`Device::flush`].
    Flush,
    /// See [`Device::discard`].
    Discard {
        /// First byte on the device.
        offset_bytes: u64,
        /// Length of the range in bytes.
        len_bytes: u64,
    },
    /// See [`Device::zero`].
    Zero {
        /// First byte on the device.
        offset_bytes: u64,
        /// Length of the range in bytes.
        len_bytes: u64,
    },
}

/// A range of a buffer that may be written to several devices at a time.
#[derive(Debug, Clone)]
pub struct Segment {
    /// The buffer.
    pub buffer: Arc<AlignedBuf>,
    /// The range of the buffer.
    pub range: Range<usize>,
}

/// A completed request.
#[derive(Debug)]
pub struct Completion {
    /// Token of the request.
    pub token: u64,
    /// Device of the request.
    pub device: usize,
    /// Priority of the request.
    pub priority: Priority,
    /// Operation of the request, with its buffers.
    pub op: Op,
    /// Result from the device.
    pub result: Result<(), DeviceError>,
    /// Time from acceptance to start.
    pub queued: Duration,
    /// Time from start to end.
    pub service: Duration,
}

/// A request that was refused: it never runs and has no completion.
#[derive(Debug)]
pub struct Rejected {
    /// The request, with its buffers. It is boxed to keep the result of successful calls small.
    pub request: Box<Request>,
    /// Reason of the refusal.
    pub why: Refusal,
}

/// Reason why a request is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The device has `depth_per_device` requests of that priority: take completions first.
    Full,
    /// The number is of no device, or of a detached one.
    Detached,
}

/// The rest of a pool after [`IoPool::shutdown`].
#[derive(Debug)]
pub struct Drained {
    /// Completions that were not taken before.
    pub completions: Vec<Completion>,
    /// Devices that had not finished by the deadline. Their threads end when the device answers.
    pub stuck: Vec<usize>,
}

impl Default for PoolOptions {
    /// Returns options for devices that perform best with 32 operations at a time.
    fn default() -> Self {
        Self { workers_per_device: 32, background_workers_per_device: 16, depth_per_device: 256, ring: true }
    }
}

impl Segment {
    /// Returns a segment of the whole buffer.
    pub fn whole(buffer: AlignedBuf) -> Self {
        let range = 0..buffer.len();
        Self { buffer: Arc::new(buffer), range }
    }
}

impl Op {
    /// Kind of the operation.
    pub fn kind(&self) -> OpKind {
        match self {
            Self::Read { .. } => OpKind::Read,
            Self::Write { .. } => OpKind::Write,
            Self::Flush => OpKind::Flush,
            Self::Discard { .. } => OpKind::Discard,
            Self::Zero { .. } => OpKind::Zero,
        }
    }

    fn offset_bytes(&self) -> u64 {
        match self {
            Self::Read { offset_bytes, .. }
            | Self::Write { offset_bytes, .. }
            | Self::Discard { offset_bytes, .. }
            | Self::Zero { offset_bytes, .. } => *offset_bytes,
            Self::Flush => 0,
        }
    }

    fn len_bytes(&self) -> u64 {
        match self {
            Self::Read { range, .. } => range.len() as u64,
            Self::Write { parts, .. } => parts.iter().map(|part| part.range.len() as u64).sum(),
            Self::Discard { len_bytes, .. } | Self::Zero { len_bytes, .. } => *len_bytes,
            Self::Flush => 0,
        }
    }

    /// Panics in the caller's thread, not in a worker, if a range is wrong.
    fn assert_ranges(&self) {
        let within = |range: &Range<usize>, len| range.start <= range.end && range.end <= len;
        let all_within = match self {
            Self::Read { buffer, range, .. } => within(range, buffer.len()),
            Self::Write { parts, .. } => parts.iter().all(|part| within(&part.range, part.buffer.len())),
            _ => true,
        };
        assert!(all_within, "a range outside of its buffer: {self:?}");
    }

    fn run(&mut self, device: &dyn Device) -> Result<(), DeviceError> {
        match self {
            Self::Read { offset_bytes, buffer, range } => {
                device.read_at(*offset_bytes, buffer.part_mut(range.clone()))
            }
            Self::Write { offset_bytes, parts } => match &parts[..] {
                [only] => device.write_at(*offset_bytes, &[only.buffer.part(only.range.clone())]),
                parts => {
                    let parts: Vec<_> =
                        parts.iter().map(|part| part.buffer.part(part.range.clone())).collect();
                    device.write_at(*offset_bytes, &parts)
                }
            },
            Self::Flush => device.flush(),
            Self::Discard { offset_bytes, len_bytes } => device.discard(*offset_bytes, *len_bytes),
            Self::Zero { offset_bytes, len_bytes } => device.zero(*offset_bytes, *len_bytes),
        }
    }
}

impl IoPool {
    /// Makes a pool without devices.
    ///
    /// Panics: unless workers > background workers > 0 (or both are 1), and the depth is not 0.
    pub fn new(options: PoolOptions) -> Self {
        let PoolOptions { workers_per_device: all, background_workers_per_device: some, .. } = options;
        assert!(some > 0 && (some < all || all == 1) && options.depth_per_device > 0, "{options:?}");
        let ring = if options.ring { Ring::new() } else { None };
        let done = Arc::new(Done { ring: ring.clone(), ..Done::default() });
        Self { options, slots: RwLock::default(), done, ring }
    }

    /// Adds a device and returns its number. Numbers are given from 0 and never reused.
    ///
    /// Errors: `SameDevice` if it is attached already, under any name; `System` if no thread can be
    /// started.
    pub fn attach(&self, device: Arc<dyn Device>) -> Result<usize, DeviceError> {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = slots.iter().flatten().find(|slot| slot.device.identity() == device.identity()) {
            let known_as = known.device.path().to_path_buf();
            return Err(DeviceError::SameDevice { at: site(device.path(), OpKind::Open, 0, 0), known_as });
        }
        let by_workers = slots.iter().flatten().filter(|slot| slot.flushes == Flushes::ByWorker).count();
        let flushes = if by_workers < FLUSHED_BY_WORKERS { Flushes::ByWorker } else { Flushes::ByRing };
        let slot = Arc::new(Slot::new(slots.len(), device, self.options, flushes));
        if self.ring.is_none() || slot.file().is_none() {
            // The first worker starts now, so that a system without threads fails here and not at a
            // request.
            slot.spawn(&mut slot.lock(), &self.done).map_err(|error| {
                let at = site(slot.device.path(), OpKind::Open, 0, 0);
                DeviceError::System { at, errno: error.raw_os_error().unwrap_or(0) }
            })?;
        }
        slots.push(Some(slot));
        Ok(slots.len() - 1)
    }

    /// Removes a device. Requests that have not begun are returned; those that run will still
    /// complete.
    ///
    /// The device is closed when its last worker ends and the completions of its requests in the
    /// ring are taken. No caller waits for that, so a device that hangs can be detached. Does
    /// nothing for a number without a device.
    pub fn detach(&self, device: usize) -> Vec<Request> {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        let Some(slot) = slots.get_mut(device).and_then(Option::take) else { return Vec::new() };
        slot.close();
        slot.take_queued(|_| true)
    }

    /// Accepts a request, or returns it. Never blocks on a device. The request may start only at
    /// the next wait or poll, so that several are submitted in one system call.
    ///
    /// Panics: if a range is not within its buffer.
    pub fn submit(&self, request: Request) -> Result<(), Rejected> {
        request.op.assert_ranges();
        match self.slot(request.device) {
            Some(slot) => slot.accept(request, &self.done, self.ring.as_deref()),
            None => Err(Rejected { request: Box::new(request), why: Refusal::Detached }),
        }
    }

    /// Appends the available completions, and returns their number.
    ///
    /// Panics: with the panic of a device, if there was one.
    pub fn poll(&self, into: &mut Vec<Completion>) -> usize {
        self.kick();
        let landed = self.landed();
        let mut ended = self.done.lock();
        ended.list.extend(landed);
        self.done.take(ended, into)
    }

    /// Waits for at least one completion, a [`wake`](Self::wake) or the deadline. Appends the
    /// completions, and returns their number.
    ///
    /// Panics: with the panic of a device, if there was one.
    pub fn wait(&self, into: &mut Vec<Completion>, deadline: Instant) -> usize {
        self.kick();
        let landed = self.landed();
        let mut ended = self.done.lock();
        ended.list.extend(landed);
        let mut looked = 0;
        while ended.list.is_empty() && !ended.woken && ended.panic.is_none() {
            let ring = self.ring.as_ref().filter(|ring| ring.count() > 0 && !ended.in_ring);
            if ring.is_none() && looked < LOOKS {
                looked += 1;
                drop(ended);
                std::thread::yield_now();
                ended = self.done.lock();
                continue;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return 0;
            }
            if let Some(ring) = ring {
                ended.in_ring = true;
                drop(ended);
                ring.wait(left);
                let landed = self.landed();
                ended = self.done.lock();
                ended.in_ring = false;
                ended.list.extend(landed);
                if ended.waiting > 0 {
                    // One of the threads that wait on the condition variable now waits in the ring
                    // instead.
                    self.done.ready.notify_all();
                }
                continue;
            }
            ended.waiting += 1;
            ended = self.done.ready.wait_timeout(ended, left).unwrap_or_else(PoisonError::into_inner).0;
            ended.waiting -= 1;
        }
        ended.woken = false;
        self.done.take(ended, into)
    }

    /// Makes one [`wait`](Self::wait), the present or the next one, return at once, because there
    /// is other work for its thread.
    pub fn wake(&self) {
        let mut ended = self.done.lock();
        // A thread that was already woken, for a completion or a wake, handles this one, too.
        let call = !ended.woken && ended.list.is_empty();
        ended.woken = true;
        self.done.call(ended, call);
    }

    /// Returns the number of requests of a device that are accepted and whose completions are not
    /// taken.
    pub fn outstanding(&self, device: usize) -> usize {
        let slot = self.slot(device);
        slot.map_or(0, |slot| slot.accepted.iter().map(|count| count.load(Ordering::Acquire)).sum())
    }

    /// Refuses further requests and finishes the accepted ones. Devices that have not finished at
    /// the deadline are left behind.
    pub fn shutdown(self, deadline: Instant) -> Drained {
        let stuck = self.close(Some(deadline));
        self.done.lock().list.extend(self.landed());
        let mut completions = Vec::new();
        self.done.take(self.done.lock(), &mut completions);
        Drained { completions, stuck }
    }

    fn slot(&self, device: usize) -> Option<Arc<Slot>> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner).get(device)?.clone()
    }

    /// Ends all workers. Returns the devices that had not finished at the deadline.
    fn close(&self, deadline: Option<Instant>) -> Vec<usize> {
        let slots: Vec<_> =
            self.slots.write().unwrap_or_else(PoisonError::into_inner).drain(..).flatten().collect();
        slots.iter().for_each(|slot| slot.close());
        let mut stuck: Vec<usize> =
            slots.iter().filter(|slot| !slot.join(deadline)).map(|slot| slot.number()).collect();
        let numbers: Vec<usize> = slots.iter().map(|slot| slot.number()).collect();
        stuck.extend(self.close_ring(&numbers, deadline));
        stuck.sort_unstable();
        stuck.dedup();
        stuck
    }

    /// Waits for the requests of some devices in the ring. Returns the devices with requests left
    /// at the deadline. Requests of detached devices are not waited for.
    fn close_ring(&self, devices: &[usize], deadline: Option<Instant>) -> Vec<usize> {
        let Some(ring) = &self.ring else { return Vec::new() };
        let mut busy: Vec<usize>;
        loop {
            busy = ring.busy();
            busy.retain(|number| devices.contains(number));
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if busy.is_empty() || left.is_some_and(|left| left.is_zero()) {
                break;
            }
            ring.wait(left.unwrap_or(Duration::from_secs(1)));
            let landed = self.landed();
            self.done.lock().list.extend(landed);
        }
        if ring.count() > 0 {
            // The system may still write to the buffers, so they and the ring are never freed.
            std::mem::forget(ring.clone());
        }
        busy
    }

    /// Submits the requests in the ring to the system.
    fn kick(&self) {
        self.ring.iter().filter(|ring| ring.count() > 0).for_each(|ring| ring.kick());
    }

    /// Collects operations that the system has ended. Those that it could not do go to a worker.
    fn landed(&self) -> Vec<Over> {
        let Some(ring) = self.ring.as_ref().filter(|ring| ring.count() > 0) else { return Vec::new() };
        let over = |landed: Landed| {
            let (slot, priority) = (landed.slot.clone(), landed.priority());
            slot.lock().ring_runs[priority as usize] -= 1;
            let over = slot.landed(landed, &self.done);
            slot.goes_on(priority, &self.done, ring);
            over
        };
        let over = ring.landed().into_iter().filter_map(over).collect();
        ring.kick();
        over
    }
}

impl Drop for IoPool {
    fn drop(&mut self) {
        self.close(None);
    }
}

/// Completions of all devices.
#[derive(Default)]
struct Done {
    ended: Mutex<Ended>,
    ready: Condvar,
    /// The ring, in which one caller may wait instead of on `ready`.
    ring: Option<Arc<Ring>>,
}

#[derive(Default)]
struct Ended {
    list: Vec<Over>,
    waiting: usize,
    /// True while a caller waits in the ring.
    in_ring: bool,
    woken: bool,
    panic: Option<Box<dyn Any + Send>>,
}

/// A completion, and the counters of accepted requests, decremented when the completion is taken.
struct Over {
    completion: Completion,
    accepted: Arc<[AtomicUsize; 2]>,
}

impl Done {
    fn lock(&self) -> MutexGuard<'_, Ended> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, over: impl IntoIterator<Item = Over>) {
        let mut ended = self.lock();
        // The thread that was woken for an earlier completion takes the whole list.
        let call = ended.list.is_empty() && !ended.woken;
        ended.list.extend(over);
        self.call(ended, call);
    }

    /// Wakes a waiting thread, if `first` is true.
    fn call(&self, ended: MutexGuard<'_, Ended>, first: bool) {
        let (waits, in_ring) = (ended.waiting > 0, ended.in_ring);
        drop(ended);
        match &self.ring {
            Some(ring) if first && in_ring => ring.ring_bell(),
            _ if first && waits => self.ready.notify_one(),
            _ => {}
        }
    }

    /// Records that the ring has taken a request. If a caller waits, the request is submitted at
    /// once, otherwise at the next wait. A caller that waits on `ready` is moved to the ring.
    fn has_taken(&self, ring: &Ring) {
        let ended = self.lock();
        let (waits, in_ring) = (ended.waiting > 0, ended.in_ring);
        drop(ended);
        if waits || in_ring {
            ring.kick();
        }
        if waits && !in_ring {
            self.ready.notify_one();
        }
    }

    fn panicked(&self, payload: Box<dyn Any + Send>) {
        let mut ended = self.lock();
        ended.panic.get_or_insert(payload);
        let in_ring = ended.in_ring;
        drop(ended);
        self.ready.notify_all();
        self.ring.iter().filter(|_| in_ring).for_each(|ring| ring.ring_bell());
    }

    fn take(&self, mut ended: MutexGuard<'_, Ended>, into: &mut Vec<Completion>) -> usize {
        let (list, panic) = (std::mem::take(&mut ended.list), ended.panic.take());
        drop(ended);
        let count = list.len();
        into.extend(list.into_iter().map(|over| {
            release(&over.accepted, over.completion.priority);
            over.completion
        }));
        match panic {
            Some(payload) => resume_unwind(payload),
            None => count,
        }
    }
}

fn release(accepted: &[AtomicUsize; 2], priority: Priority) {
    accepted[priority as usize].fetch_sub(1, Ordering::AcqRel);
}
