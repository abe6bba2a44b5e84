//! One device of a pool: its waiting requests, its requests in the ring, and its workers.

use super::{Done, Op, Over, PoolOptions, Priority, Refusal, Rejected, Request, release};
use crate::device::site;
use crate::ring::{Landed, Ring};
use crate::{Completion, Device, DeviceError};
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Stack of a worker: enough for a system call and a list of slices; a volume of 64 devices has
/// 2048 workers.
const STACK_BYTES: usize = 128 * 1024;

/// Number of times that an idle worker yields and looks for work again before it sleeps. The thread
/// that takes its completion often submits the next request, and waking a sleeper costs a system
/// call. NOTES.md has the figures.
pub(super) const LOOKS: u32 = 2;

/// Time for which an idle worker waits for work before it ends, if the ring serves its device.
const LINGERS: Duration = Duration::from_secs(1);

/// EINTR, EAGAIN, EINVAL, EOPNOTSUPP and ECANCELED: the system has not flushed, so a worker does.
const NOT_FLUSHED: [i32; 5] = [4, 11, 22, 95, 125];
/// One device, its waiting requests, and its workers.
pub(crate) struct Slot {
    number: usize,
    pub(super) device: Arc<dyn Device>,
    options: PoolOptions,
    pub(super) flushes: Flushes,
    /// By priority, the number of accepted requests whose completions are not taken.
    pub(super) accepted: Arc<[AtomicUsize; 2]>,
    state: Mutex<State>,
    work: Condvar,
    /// Notified when the last worker ends.
    ended: Condvar,
}

/// Executor of flushes for a device that the ring serves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flushes {
    ByWorker,
    ByRing,
}

#[derive(Default)]
pub(crate) struct State {
    /// Waiting requests without flushes, by priority, in order of arrival.
    queues: [VecDeque<Queued>; 2],
    flushes: Vec<Queued>,
    flush_runs: bool,
    background_runs: usize,
    /// Number of requests in the ring, by priority.
    pub(super) ring_runs: [usize; 2],
    /// Requests that wait for room in the ring, by priority. Invariant: while one waits here, the
    /// ring has a request of the same device and priority.
    ring_waits: [VecDeque<Queued>; 2],
    closing: bool,
    workers: usize,
    idle: usize,
    /// Number of idle workers that were woken and have not started yet. Invariant: called <= idle.
    called: usize,
    threads: Vec<JoinHandle<()>>,
}

pub(crate) struct Queued {
    pub(crate) request: Request,
    since: Instant,
}

/// Next task of a worker.
enum Job {
    One(Queued),
    /// One flush of the device for all of these requests.
    Flush(Vec<Queued>),
}

impl Slot {
    pub(super) fn new(
        number: usize,
        device: Arc<dyn Device>,
        options: PoolOptions,
        flushes: Flushes,
    ) -> Self {
        let (state, work, ended) = (Mutex::default(), Condvar::new(), Condvar::new());
        Self { number, device, options, flushes, accepted: Arc::default(), state, work, ended }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn number(&self) -> usize {
        self.number
    }

    pub(crate) fn len_bytes(&self) -> u64 {
        self.device.len_bytes()
    }

    pub(crate) fn block_len_bytes(&self) -> u64 {
        u64::from(self.device.block_len_bytes())
    }

    /// Returns the file of the device for direct I/O; `None` if the device is more than a file.
    pub(crate) fn file(&self) -> Option<RawFd> {
        self.device.direct_file().map(|file| file.as_raw_fd())
    }

    pub(super) fn accept(
        self: &Arc<Self>,
        request: Request,
        done: &Arc<Done>,
        ring: Option<&Ring>,
    ) -> Result<(), Rejected> {
        let mut state = self.lock();
        let accepted = &self.accepted[request.priority as usize];
        let why = match () {
            () if state.closing => Some(Refusal::Detached),
            // The count is only increased under this lock, so it cannot exceed the bound.
            () if accepted.load(Ordering::Acquire) >= self.options.depth_per_device => Some(Refusal::Full),
            () => None,
        };
        if let Some(why) = why {
            return Err(Rejected { request: Box::new(request), why });
        }
        accepted.fetch_add(1, Ordering::AcqRel);
        let (priority, queued) = (request.priority, Queued { request, since: Instant::now() });
        match ring.filter(|_| self.is_for_ring(&queued.request.op)) {
            Some(_) if !self.has_room(&state, &queued) => {
                state.ring_waits[priority as usize].push_back(queued);
            }
            Some(ring) => {
                state.ring_runs[priority as usize] += 1;
                drop(state);
                match ring.begin(self, queued) {
                    Ok(()) => done.has_taken(ring),
                    Err(queued) => {
                        self.lock().ring_runs[priority as usize] -= 1;
                        self.queue(self.lock(), queued, done);
                        // Another request may already wait for room in the ring, which this one has
                        // just left.
                        self.goes_on(priority, done, ring);
                    }
                }
            }
            None => self.queue(state, queued, done),
        }
        Ok(())
    }

    /// True if the ring performs operations of this kind for this device.
    fn is_for_ring(&self, op: &Op) -> bool {
        let is_served = match op {
            Op::Read { .. } | Op::Write { .. } => true,
            Op::Flush => self.flushes == Flushes::ByRing,
            _ => false,
        };
        is_served && self.file().is_some()
    }

    /// True if the ring has room for one more request of this device. Flushes are few, so they
    /// always have room.
    fn has_room(&self, state: &State, queued: &Queued) -> bool {
        let runs_most = match queued.request.priority {
            Priority::User => self.options.workers_per_device,
            Priority::Background => self.options.background_workers_per_device,
        };
        let runs = state.ring_runs[queued.request.priority as usize];
        matches!(queued.request.op, Op::Flush) || runs < runs_most
    }

    /// Gives waiting requests to the ring while it has room.
    pub(super) fn goes_on(self: &Arc<Self>, priority: Priority, done: &Arc<Done>, ring: &Ring) {
        loop {
            let mut state = self.lock();
            let waits = &state.ring_waits[priority as usize];
            if !waits.front().is_some_and(|queued| self.has_room(&state, queued)) {
                return;
            }
            let Some(queued) = state.ring_waits[priority as usize].pop_front() else { return };
            state.ring_runs[priority as usize] += 1;
            drop(state);
            if let Err(queued) = ring.begin(self, queued) {
                let mut state = self.lock();
                state.ring_runs[priority as usize] -= 1;
                self.queue(state, queued, done);
            }
        }
    }

    /// Handles the end of a request in the ring. Returns its completion; `None`: it failed or ended
    /// short, and a worker repeats it from the start. A flush that failed is not repeated.
    pub(super) fn landed(self: &Arc<Self>, landed: Landed, done: &Arc<Done>) -> Option<Over> {
        if matches!(landed.queued.request.op, Op::Flush) && !NOT_FLUSHED.contains(&landed.errno) {
            let errno = Some(landed.errno).filter(|_| !landed.whole);
            let result = self.device.flushed_directly(errno);
            return Some(self.over(landed.queued, result, landed.begun));
        }
        if landed.whole {
            return Some(self.over(landed.queued, Ok(()), landed.begun));
        }
        let state = self.lock();
        if !state.closing {
            self.queue(state, landed.queued, done);
            return None;
        }
        drop(state);
        let op = &landed.queued.request.op;
        let at = site(self.device.path(), op.kind(), op.offset_bytes(), op.len_bytes());
        let error = DeviceError::Gone { at, errno: landed.errno };
        Some(self.over(landed.queued, Err(error), landed.begun))
    }

    /// Gives a request to the workers.
    fn queue(self: &Arc<Self>, mut state: MutexGuard<'_, State>, queued: Queued, done: &Arc<Done>) {
        let is_first = state.workers == 0;
        if is_first && let Err(error) = self.spawn(&mut state, done) {
            drop(state);
            let op = &queued.request.op;
            let at = site(self.device.path(), op.kind(), op.offset_bytes(), op.len_bytes());
            let error = DeviceError::System { at, errno: error.raw_os_error().unwrap_or(0) };
            done.push([self.over(queued, Err(error), Instant::now())]);
            return;
        }
        if !state.push(queued, self.options) || is_first {
            return;
        }
        if state.idle > state.called {
            state.called += 1;
            // The lock is released first: the woken thread needs it at once.
            drop(state);
            self.work.notify_one();
        } else if state.workers < self.options.workers_per_device {
            // If no thread can be started, the request waits for an existing worker.
            let _ = self.spawn(&mut state, done);
        }
    }

    pub(super) fn spawn(self: &Arc<Self>, state: &mut State, done: &Arc<Done>) -> std::io::Result<()> {
        let (slot, done) = (self.clone(), done.clone());
        let name = format!("io-{}-{}", self.number, state.workers);
        state.threads.retain(|thread| !thread.is_finished());
        let builder = std::thread::Builder::new().name(name).stack_size(STACK_BYTES);
        state.threads.push(builder.spawn(move || slot.work(&done))?);
        state.workers += 1;
        Ok(())
    }

    /// Runs a worker until it ends.
    fn work(&self, done: &Done) {
        let lingers = done.ring.is_some() && self.file().is_some();
        let mut state = self.lock();
        let mut looked = 0;
        loop {
            if let Some(job) = state.next(self.options) {
                drop(state);
                let (flush, background) = (job.is_flush(), job.is_background());
                self.run(job, done);
                state = self.lock();
                state.flush_runs &= !flush;
                state.background_runs -= usize::from(background);
                looked = 0;
            } else if state.closing {
                // Remaining requests wait for a busy worker, which will look again.
                break;
            } else if looked < LOOKS {
                looked += 1;
                drop(state);
                std::thread::yield_now();
                state = self.lock();
            } else {
                state.idle += 1;
                let mut ends = false;
                state = match lingers {
                    true => {
                        let waited = self.work.wait_timeout(state, LINGERS);
                        let (state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
                        ends = waited.timed_out();
                        state
                    }
                    false => self.work.wait(state).unwrap_or_else(PoisonError::into_inner),
                };
                state.idle -= 1;
                // A worker that was woken meanwhile stays.
                ends &= state.called == 0;
                state.called = state.called.saturating_sub(1).min(state.idle);
                if ends && !state.has_work() {
                    break;
                }
            }
        }
        state.workers -= 1;
        if state.workers == 0 {
            self.ended.notify_all();
        }
    }

    fn run(&self, job: Job, done: &Done) {
        let begun = Instant::now();
        match job {
            Job::One(mut queued) => match self.call(&mut queued.request.op) {
                Ok(result) => done.push([self.over(queued, result, begun)]),
                Err(payload) => done.panicked(payload),
            },
            Job::Flush(all) => match self.call(&mut Op::Flush) {
                Ok(result) => {
                    done.push(all.into_iter().map(|queued| self.over(queued, result.clone(), begun)))
                }
                Err(payload) => done.panicked(payload),
            },
        }
    }

    /// Performs an operation, and catches the panic of a device: it is passed on to the caller, who
    /// would otherwise wait for ever.
    fn call(&self, op: &mut Op) -> std::thread::Result<Result<(), DeviceError>> {
        catch_unwind(AssertUnwindSafe(|| op.run(&*self.device)))
    }

    pub(super) fn over(&self, queued: Queued, result: Result<(), DeviceError>, begun: Instant) -> Over {
        let Queued { request: Request { token, device, priority, op }, since } = queued;
        let (queued, service) = (begun - since, begun.elapsed());
        let completion = Completion { token, device, priority, op, result, queued, service };
        Over { completion, accepted: self.accepted.clone() }
    }

    /// Removes the requests that `which` accepts from the queues, the oldest first within each
    /// queue.
    pub(super) fn take_queued(&self, mut which: impl FnMut(&Request) -> bool) -> Vec<Request> {
        let mut state = self.lock();
        let mut taken = Vec::new();
        let State { queues, ring_waits, flushes, .. } = &mut *state;
        taken.extend(flushes.extract_if(.., |queued| which(&queued.request)));
        for queue in queues.iter_mut().chain(ring_waits) {
            let (out, keep): (Vec<_>, Vec<_>) = queue.drain(..).partition(|queued| which(&queued.request));
            *queue = keep.into();
            taken.extend(out);
        }
        drop(state);
        let requests = taken.into_iter().map(|queued| queued.request);
        requests.inspect(|request| release(&self.accepted, request.priority)).collect()
    }

    pub(super) fn close(&self) {
        self.lock().closing = true;
        self.work.notify_all();
    }

    /// Waits for the workers to end; false if some have not ended at the deadline.
    pub(super) fn join(&self, deadline: Option<Instant>) -> bool {
        let mut state = self.lock();
        while state.workers > 0 {
            state = match deadline {
                None => self.ended.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return false;
                    }
                    self.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        // Threads hold the device until they have ended, and the caller may open it again at once.
        threads.into_iter().for_each(|thread| drop(thread.join()));
        true
    }
}

impl State {
    /// Queues a request. Returns true if it gives work to another worker.
    fn push(&mut self, queued: Queued, options: PoolOptions) -> bool {
        let priority = queued.request.priority;
        if matches!(queued.request.op, Op::Flush) {
            self.flushes.push(queued);
            return !self.flush_runs && self.flushes.len() == 1;
        }
        let queue = &mut self.queues[priority as usize];
        queue.push_back(queued);
        let waiting = queue.len();
        priority == Priority::User || self.background_runs + waiting <= options.background_workers_per_device
    }

    fn has_work(&self) -> bool {
        !self.flushes.is_empty() || self.queues.iter().any(|queue| !queue.is_empty())
    }

    fn next(&mut self, options: PoolOptions) -> Option<Job> {
        let flush_waits = |state: &Self, priority| {
            !state.flush_runs && state.flushes.iter().any(|queued| queued.request.priority == priority)
        };
        if !flush_waits(self, Priority::User) {
            if let Some(queued) = self.queues[Priority::User as usize].pop_front() {
                return Some(Job::One(queued));
            }
            if !flush_waits(self, Priority::Background) {
                if self.background_runs == options.background_workers_per_device {
                    return None;
                }
                let queued = self.queues[Priority::Background as usize].pop_front()?;
                self.background_runs += 1;
                return Some(Job::One(queued));
            }
        }
        self.flush_runs = true;
        Some(Job::Flush(std::mem::take(&mut self.flushes)))
    }
}

impl Job {
    fn is_flush(&self) -> bool {
        matches!(self, Self::Flush(_))
    }

    /// True if the job counts against the share of background requests. Flushes do not, since only
    /// one runs at a time.
    fn is_background(&self) -> bool {
        matches!(self, Self::One(queued) if queued.request.priority == Priority::Background)
    }
}
