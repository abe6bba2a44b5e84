//! Devices whose operations have a time limit, for callers that must not wait for ever.
//!
//! The engine submits requests to its devices and never waits for a single one. Other callers wait
//! for the answer: they read superblocks, claims or the content of a new device. [`Timely`] limits
//! that wait: another thread does the operation, with its own memory. When the limit expires, the
//! caller gets the error of a device that is gone.
//!
//! Invariants: a thread that waits for a device keeps it open; while an answer is late, further
//! requests to the device are refused at once. So a device that hangs costs one time limit and one
//! thread, for any number of requests.

use crate::locks::{lock, wait, wait_for};
use pantile_device::{AlignedBuf, Device, DeviceError, Identity, OpKind, Part, PartMut, Site};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{SendError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Longest wait for an answer: longer than disks need to spin up, shorter than the deadline of a
/// device in a running volume.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// ETIMEDOUT.
const TIMED_OUT: i32 = 110;

/// Number of late operations by the name of the device.
static LATE: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());

/// Notified when a late operation ends.
static ENDED: Condvar = Condvar::new();

type Job = Box<dyn FnOnce() + Send>;

/// State of an answer.
enum Wait<T> {
    UnderWay,
    There(T),
    /// The caller no longer waits.
    Late,
}

/// A device whose operations have a time limit; the engine does not use this type.
pub(crate) struct Timely {
    device: Arc<dyn Device>,
    patience: Duration,
    /// Senders to idle threads.
    idle: Arc<Mutex<Vec<Sender<Job>>>>,
}

impl Timely {
    pub(crate) fn new(device: Arc<dyn Device>, patience: Duration) -> Timely {
        Timely { device, patience, idle: Arc::default() }
    }

    /// Wraps a device with the limit [`PATIENCE`].
    pub(crate) fn of(device: &Arc<dyn Device>) -> Timely {
        Timely::new(device.clone(), PATIENCE)
    }

    /// Returns the same device and threads with another limit.
    pub(crate) fn within(&self, patience: Duration) -> Timely {
        Timely { device: self.device.clone(), patience, idle: self.idle.clone() }
    }

    /// Calls `what` on a separate thread once the device has no late operation.
    pub(crate) fn when_it_answers(&self, what: impl FnOnce(&dyn Device) + Send + 'static) {
        let device = self.device.clone();
        let job = move || {
            let mut late = lock(&LATE);
            while late.contains_key(&name_of(device.identity())) {
                late = wait(&ENDED, late);
            }
            drop(late);
            what(&*device);
        };
        // If no thread can be started, it is not called, as after a crash.
        let _ = std::thread::Builder::new().name("late".into()).spawn(job);
    }

    fn ask<T: Send + 'static>(
        &self,
        (op, offset_bytes, len_bytes): (OpKind, u64, u64),
        what: impl FnOnce(&dyn Device) -> Result<T, DeviceError> + Send + 'static,
    ) -> Result<T, DeviceError> {
        let at = || Site { device: self.device.path().to_path_buf(), op, offset_bytes, len_bytes };
        let device = self.device.clone();
        let job = move || {
            let result = what(&*device);
            // The device is closed before the caller gets the result, because the caller may open
            // it again.
            drop(device);
            result
        };
        within(name_of(self.device.identity()), self.patience, at, job, |job| self.give(job))
    }

    fn give(&self, mut job: Job) -> std::io::Result<()> {
        loop {
            let Some(idle) = lock(&self.idle).pop() else { break };
            match idle.send(job) {
                Ok(()) => return Ok(()),
                Err(SendError(back)) => job = back,
            }
        }
        let idle = Arc::downgrade(&self.idle);
        let work = move || {
            loop {
                job();
                let (sender, next) = channel();
                match idle.upgrade() {
                    Some(idle) => lock(&idle).push(sender),
                    None => return,
                }
                match next.recv() {
                    Ok(given) => job = given,
                    // No `Timely` uses the threads any more.
                    Err(_) => return,
                }
            }
        };
        std::thread::Builder::new().name("timely".into()).spawn(work).map(drop)
    }
}

/// Opens a device by `open`, with a time limit.
pub(crate) fn open_within<T: Send + 'static>(
    path: &Path,
    patience: Duration,
    open: impl FnOnce(&Path) -> Result<T, DeviceError> + Send + 'static,
) -> Result<T, DeviceError> {
    let own = path.to_path_buf();
    let at = || Site { device: path.to_path_buf(), op: OpKind::Open, offset_bytes: 0, len_bytes: 0 };
    let give = |job: Job| std::thread::Builder::new().name("opening".into()).spawn(job).map(drop);
    within(path.display().to_string(), patience, at, move || open(&own), give)
}

/// Runs a job on another thread, and waits for it with a time limit.
fn within<T: Send + 'static>(
    name: String,
    patience: Duration,
    at: impl Fn() -> Site,
    what: impl FnOnce() -> Result<T, DeviceError> + Send + 'static,
    give: impl FnOnce(Job) -> std::io::Result<()>,
) -> Result<T, DeviceError> {
    let hangs = || DeviceError::Gone { at: at(), errno: TIMED_OUT };
    if lock(&LATE).contains_key(&name) {
        return Err(hangs());
    }
    let shared = Arc::new((Mutex::new(Wait::UnderWay), Condvar::new()));
    let (told, own_name) = (shared.clone(), name.clone());
    let job = move || {
        let result = what();
        let mut wait = lock(&told.0);
        if matches!(*wait, Wait::Late) {
            drop(result);
            let mut late = lock(&LATE);
            if let Some(count) = late.get_mut(&own_name) {
                *count -= 1;
                late.retain(|_, count| *count > 0);
            }
            ENDED.notify_all();
            return;
        }
        *wait = Wait::There(result);
        told.1.notify_all();
    };
    give(Box::new(job))
        .map_err(|error| DeviceError::System { at: at(), errno: error.raw_os_error().unwrap_or(0) })?;
    let until = Instant::now() + patience;
    let mut waits = lock(&shared.0);
    loop {
        if let Wait::There(_) = *waits {
            break;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            *waits = Wait::Late;
            *lock(&LATE).entry(name).or_insert(0) += 1;
            return Err(hangs());
        }
        waits = wait_for(&shared.1, waits, left);
    }
    match std::mem::replace(&mut *waits, Wait::Late) {
        Wait::There(result) => result,
        Wait::UnderWay | Wait::Late => Err(hangs()),
    }
}

fn name_of(identity: Identity) -> String {
    format!("{identity:?}")
}

impl Device for Timely {
    fn path(&self) -> &Path {
        self.device.path()
    }

    fn len_bytes(&self) -> u64 {
        self.device.len_bytes()
    }

    fn block_len_bytes(&self) -> u32 {
        self.device.block_len_bytes()
    }

    fn identity(&self) -> Identity {
        self.device.identity()
    }

    fn read_at(&self, offset_bytes: u64, mut into: PartMut<'_>) -> Result<(), DeviceError> {
        let len = into.len();
        let read = self.ask((OpKind::Read, offset_bytes, len as u64), move |device| {
            let mut bytes = AlignedBuf::zeroed(len);
            device.read_at(offset_bytes, bytes.whole_mut()).map(|()| bytes)
        })?;
        into.copy_from_slice(&read[..len]);
        Ok(())
    }

    fn write_at(&self, offset_bytes: u64, parts: &[Part<'_>]) -> Result<(), DeviceError> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let (mut bytes, mut at) = (AlignedBuf::zeroed(len), 0);
        for part in parts {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        self.ask((OpKind::Write, offset_bytes, len as u64), move |device| {
            device.write_at(offset_bytes, &[bytes.whole()])
        })
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.ask((OpKind::Flush, 0, 0), |device| device.flush())
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DeviceError> {
        self.ask((OpKind::Discard, offset_bytes, len_bytes), move |device| {
            device.discard(offset_bytes, len_bytes)
        })
    }

    fn zero(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DeviceError> {
        self.ask((OpKind::Zero, offset_bytes, len_bytes), move |device| device.zero(offset_bytes, len_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Gate;
    use pantile_device::MemoryDevice;

    fn block(of: u8) -> AlignedBuf {
        let mut block = AlignedBuf::zeroed(4096);
        block.fill(of);
        block
    }

    #[test]
    fn a_device_that_hangs_costs_one_patience_and_answers_again_when_it_does() {
        let memory: Arc<dyn Device> = Arc::new(MemoryDevice::new("m", 1 << 20));
        let gated = Gate::before(memory.clone());
        let patience = Duration::from_millis(300);
        let timely = Timely::new(gated.clone(), patience);
        timely.write_at(4096, &[block(5).whole(), block(6).whole()]).expect("memory");
        gated.layer().keep(OpKind::Write, 0..4096);
        let begun = Instant::now();
        let hangs = timely.write_at(0, &[block(7).whole()]);
        assert!(matches!(hangs, Err(DeviceError::Gone { errno: TIMED_OUT, .. })), "{hangs:?}");
        let (first, mut found) = (begun.elapsed(), block(0));
        assert!(first >= patience && first < patience * 20, "{first:?}");
        // Later callers are refused at once, whichever function they call.
        let begun = Instant::now();
        let others: Vec<Timely> = (0..100).map(|_| Timely::new(gated.clone(), patience)).collect();
        assert!(others.iter().all(|other| other.flush().is_err()));
        assert!(begun.elapsed() < patience * 20, "each waited");
        let (told, done) = channel();
        timely.when_it_answers(move |device| {
            let read = device.read_at(0, found.whole_mut()).map(|()| found[0]);
            let _ = told.send(read);
        });
        gated.layer().open();
        assert_eq!(done.recv_timeout(Duration::from_secs(30)), Ok(Ok(7)), "it was done at last, and first");
        let mut found = AlignedBuf::zeroed(8192);
        timely.read_at(4096, found.whole_mut()).expect("it answers");
        assert_eq!((found[0], found[4096]), (5, 6));
    }

    #[test]
    fn opening_a_device_that_hangs_ends() {
        let (go_on, waits) = channel::<()>();
        let path = Path::new("/dev/that-hangs");
        let brief = Duration::from_millis(200);
        let open = open_within(path, brief, move |_| {
            let _ = waits.recv();
            Ok(())
        });
        assert!(matches!(open, Err(DeviceError::Gone { .. })), "{open:?}");
        assert!(open_within(path, brief * 100, |_| Ok(())).is_err(), "it has not ended");
        drop(go_on);
        let begun = Instant::now();
        while open_within(path, brief, |_| Ok(())).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(30), "it is refused for ever");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
