//! Reads, writes and flushes of files without threads: one io_uring for all devices of a pool.
//!
//! A request goes to the ring if its device has no layer ([`Device::direct_file`]) and the request
//! is valid: aligned, within the device, and of not too many pieces. Callers wait for completions
//! in the ring, so that neither the request nor its completion wakes a thread. A worker repeats
//! each request that the system did not complete in full, and reports the error; so errors are
//! generated in one place. Only the error of a flush is final, because the system reports it once.
//!
//! Without io_uring (forbidden, or a kernel before 5.11) there is no ring, and workers do all
//! requests.
//!
//! Invariant: `flights` holds all memory that the system may still write to or read from, even
//! after the pool is dropped.

use crate::pool::{Op, Priority, Queued, Slot};
use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::event::{EventfdFlags, eventfd};
use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most requests that are submitted to the system in one call.
const SUBMISSIONS: u32 = 64;

/// Capacity of the completion queue, above which the system uses a list of its own: enough for 64
/// devices with 32 requests each.
const COMPLETIONS: u32 = 4096;

/// The most pieces that the system takes in one write (UIO_MAXIOV).
const PIECES_MAX: usize = 1024;

/// Name of the bell in completions.
const BELL: u64 = u64::MAX;

/// A request that is in the system.
struct Flight {
    slot: Arc<Slot>,
    queued: Queued,
    begun: Instant,
    len: usize,
    /// The iovecs that the system reads during a write.
    _pieces: Vec<IoSlice<'static>>,
}

/// A request whose end the system has reported.
pub(crate) struct Landed {
    pub(crate) slot: Arc<Slot>,
    pub(crate) queued: Queued,
    pub(crate) begun: Instant,
    /// True if the whole operation was done.
    pub(crate) whole: bool,
    /// Number of the system's error; 0 if it ended short.
    pub(crate) errno: i32,
}

#[derive(Default)]
struct Flights {
    /// Requests by index; the index is their name in the ring.
    all: Vec<Option<Flight>>,
    free: Vec<usize>,
}

/// An io_uring and its requests.
pub(crate) struct Ring {
    ring: IoUring,
    /// Requests in the system. This lock also guards both queues of the ring.
    flights: Mutex<Flights>,
    count: AtomicUsize,
    /// True if an entry has not been submitted to the system yet.
    waiting: AtomicBool,
    bell: OwnedFd,
}

impl Ring {
    /// Makes a ring; `None` if the system permits none.
    pub(crate) fn new() -> Option<Arc<Ring>> {
        let ring = IoUring::builder().setup_cqsize(COMPLETIONS).build(SUBMISSIONS).ok()?;
        // Without these features completions could be lost, or a wait would have no time limit.
        if !(ring.params().is_feature_nodrop() && ring.params().is_feature_ext_arg()) {
            return None;
        }
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
        let (flights, count, waiting) = (Mutex::default(), AtomicUsize::new(0), AtomicBool::new(false));
        let ring = Ring { ring, flights, count, waiting, bell };
        let guard = ring.lock();
        let armed = ring.arm(&guard);
        drop(guard);
        armed.then(|| Arc::new(ring))
    }

    fn lock(&self) -> MutexGuard<'_, Flights> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of requests in the system.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Adds an entry to the submission queue.
    fn push(&self, _held: &MutexGuard<'_, Flights>, entry: &squeue::Entry) -> bool {
        // SAFETY: the caller has the lock, so this is the only entry being written. It points into
        // `flights`, or to the bell, which lives as long as the ring.
        let push = || unsafe { self.ring.submission_shared().push(entry) }.is_ok();
        let pushed = push() || {
            let _ = self.ring.submit();
            push()
        };
        self.waiting.store(true, Ordering::Release);
        pushed
    }

    /// Submits all waiting entries to the system in one call. Those that it does not accept now are
    /// submitted at the next wait.
    pub(crate) fn kick(&self) {
        if self.waiting.swap(false, Ordering::AcqRel) {
            let _ = self.ring.submit();
        }
    }

    /// Adds a poll of the bell, so that the bell ends a wait.
    fn arm(&self, held: &MutexGuard<'_, Flights>) -> bool {
        const READABLE: u32 = 1; // POLLIN
        let poll = opcode::PollAdd::new(Fd(self.bell.as_raw_fd()), READABLE).build();
        self.push(held, &poll.user_data(BELL))
    }

    /// Takes a read, write or flush, which starts with the next [`kick`](Self::kick) or
    /// [`wait`](Self::wait). Returns a request that a worker has to do.
    pub(crate) fn begin(&self, slot: &Arc<Slot>, queued: Queued) -> Result<(), Queued> {
        let Some(file) = slot.file() else { return Err(queued) };
        let mut queued = queued;
        let fits = |offset: u64, len: usize| {
            let block = slot.block_len_bytes();
            let end = offset.checked_add(len as u64).is_some_and(|end| end <= slot.len_bytes());
            len > 0 && end && offset.is_multiple_of(block) && (len as u64).is_multiple_of(block)
        };
        let (entry, len, pieces) = match &mut queued.request.op {
            Op::Read { offset_bytes, buffer, range } => {
                let into = &mut buffer[range.clone()];
                if !fits(*offset_bytes, into.len()) || !is_aligned(into.as_ptr(), slot) {
                    return Err(queued);
                }
                let len = into.len();
                let Ok(bytes) = u32::try_from(len) else { return Err(queued) };
                (
                    opcode::Read::new(Fd(file), into.as_mut_ptr(), bytes).offset(*offset_bytes).build(),
                    len,
                    Vec::new(),
                )
            }
            Op::Write { offset_bytes, parts } => {
                let bytes = parts.iter().map(|part| &part.buffer[part.range.clone()]);
                let len = bytes.clone().map(<[u8]>::len).sum();
                let each = |piece: &[u8]| {
                    (piece.len() as u64).is_multiple_of(slot.block_len_bytes())
                        && is_aligned(piece.as_ptr(), slot)
                };
                let fits = fits(*offset_bytes, len) && parts.len() <= PIECES_MAX && bytes.clone().all(each);
                if !fits || i32::try_from(len).is_err() {
                    return Err(queued);
                }
                // SAFETY: the bytes lie in buffers that the request shares and that `flights` has
                // until the system is done with them; a buffer's bytes do not move when it does.
                let forever =
                    |piece: &[u8]| unsafe { std::slice::from_raw_parts(piece.as_ptr(), piece.len()) };
                let pieces: Vec<IoSlice<'static>> = bytes.map(|piece| IoSlice::new(forever(piece))).collect();
                // An IoSlice is an iovec, by its own documentation.
                let write = opcode::Writev::new(Fd(file), pieces.as_ptr().cast(), pieces.len() as u32);
                (write.offset(*offset_bytes).build(), len, pieces)
            }
            Op::Flush => (opcode::Fsync::new(Fd(file)).flags(FsyncFlags::DATASYNC).build(), 0, Vec::new()),
            _ => return Err(queued),
        };
        let mut flights = self.lock();
        let name = flights.free.pop().unwrap_or_else(|| {
            flights.all.push(None);
            flights.all.len() - 1
        });
        let flight = Flight { slot: slot.clone(), queued, begun: Instant::now(), len, _pieces: pieces };
        flights.all[name] = Some(flight);
        self.count.fetch_add(1, Ordering::AcqRel);
        if self.push(&flights, &entry.user_data(name as u64)) {
            return Ok(());
        }
        self.count.fetch_sub(1, Ordering::AcqRel);
        flights.free.push(name);
        Err(flights.all[name].take().expect("it was just put there").queued)
    }

    /// Takes the requests that have ended.
    pub(crate) fn landed(&self) -> Vec<Landed> {
        let mut flights = self.lock();
        // SAFETY: the lock makes this the only access to the queue.
        let entries: Vec<cqueue::Entry> = unsafe { self.ring.completion_shared() }.collect();
        let mut landed = Vec::with_capacity(entries.len());
        for entry in entries {
            if entry.user_data() == BELL {
                let _ = rustix::io::read(&self.bell, &mut [0; 8]);
                self.arm(&flights);
                continue;
            }
            let name = entry.user_data() as usize;
            let Some(flight) = flights.all.get_mut(name).and_then(Option::take) else { continue };
            flights.free.push(name);
            self.count.fetch_sub(1, Ordering::AcqRel);
            let Flight { slot, queued, begun, len, .. } = flight;
            let whole = usize::try_from(entry.result()).is_ok_and(|done| done == len);
            landed.push(Landed { slot, queued, begun, whole, errno: 0.max(-entry.result()) });
        }
        landed
    }

    /// Waits for a completion, the bell, or the time limit; sometimes returns early.
    pub(crate) fn wait(&self, at_most: Duration) {
        let time = Timespec::new().sec(at_most.as_secs()).nsec(at_most.subsec_nanos());
        let _ = self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time));
    }

    /// Ends the present wait, or the next one.
    pub(crate) fn ring_bell(&self) {
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Returns the numbers of devices with requests in the system.
    pub(crate) fn busy(&self) -> Vec<usize> {
        let mut numbers: Vec<usize> =
            self.lock().all.iter().flatten().map(|flight| flight.slot.number()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }
}

impl Landed {
    pub(crate) fn priority(&self) -> Priority {
        self.queued.request.priority
    }
}

/// True if memory is aligned for direct I/O: at a multiple of the block length.
fn is_aligned(start: *const u8, slot: &Slot) -> bool {
    (start as usize as u64).is_multiple_of(slot.block_len_bytes())
}
