//! A running volume: opened on devices, used by clients, controlled by its operator.

use crate::claim::Beating;
use crate::direct::{Direct, SharedVolume};
use crate::engine::{Engine, Report};
use crate::inbox::{Inbox, Message, answer};
use crate::locks::lock;
use crate::memory::BLOCK;
use crate::{Handle, HostError};
use pantile_device::{Device, IoPool, PoolOptions};
use pantile_format::volume::{Claimant, Superblock};
use pantile_volume::{EventKind, Found, Geometry, Losses, Reason, Scrub, Slot, Volume};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

/// Sizes and deadlines of a host.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// Limit of all following buffers together, in bytes ([`HostOptions::within`]); at least
    /// [`least_memory_bytes`].
    pub memory_bytes: u64,
    /// Limit of memory for writes that are not durable yet, in bytes.
    pub write_bytes: usize,
    /// Limit of memory for pending reads, in bytes.
    pub read_bytes: usize,
    /// Permits longer reads than requested if that is faster: the headers between chunks and, at
    /// most 16 MiB, the blocks behind a sequential read. False to count only what the volume needs.
    pub reads_more: bool,
    /// Limit of memory that the engine keeps for reuse, in bytes.
    pub kept_bytes: usize,
    /// Deadline of a device: if a request is pending and it answers nothing for this long, it is
    /// given up.
    pub device_deadline: Duration,
    /// After this time without a request, dirty blocks are made durable and blocks of a full log
    /// are written to stripes. After this time without a write, the devices record that all flushed
    /// data are durable.
    pub idle_after: Duration,
    /// Bytes a second that rebuild and scrub may read and write; `None`: no limit.
    pub background_bytes_per_s: Option<u64>,
    /// Lets reads avoid a device that is far slower than the others. If false, the choice of
    /// devices depends only on the requests.
    pub goes_around_slow: bool,
    /// Time for which a device must be far slower than the others before it is reported as slow.
    pub slow_after: Duration,
    /// Gives up a device that is reported as slow and takes 0.1 s or more for a read. Afterwards
    /// one more loss must be tolerated.
    pub evicts_slow: bool,
    /// Number of threads for long computations.
    pub workers: usize,
    /// Threads and queues of each device.
    pub io: PoolOptions,
}

/// Default limit of a volume's buffers in bytes.
pub const MEMORY_BYTES: u64 = 512 << 20;

/// Smallest limit of any volume; a volume with long stripes needs more.
pub const MEMORY_LEAST: u64 = 64 << 20;

/// Returns the smallest limit of a volume's buffers. Rebuild, scrub, a commit and readers each need
/// memory for a stripe, and for a second one that is under way.
pub fn least_memory_bytes(geometry: &Geometry) -> u64 {
    let stripe_blocks = geometry.code.cell_count() as u64 * u64::from(geometry.element_blocks());
    (8 * stripe_blocks * BLOCK as u64).max(MEMORY_LEAST)
}

impl HostOptions {
    /// Limits the buffers of the volume to this many bytes. Maps, checksums (a thirtieth of that)
    /// and the requests that its server holds are not included.
    pub fn within(self, memory_bytes: u64) -> HostOptions {
        let part = |of_32: u64| usize::try_from(memory_bytes / 32 * of_32).unwrap_or(usize::MAX);
        HostOptions { memory_bytes, write_bytes: part(10), read_bytes: part(3), kept_bytes: part(4), ..self }
    }

    /// Returns options for a volume of this many devices: the more devices, the fewer threads for
    /// each.
    pub fn for_devices(devices: usize) -> HostOptions {
        let per_device = (512 / devices.max(1)).clamp(4, 32);
        let io = PoolOptions {
            workers_per_device: per_device,
            background_workers_per_device: per_device / 2,
            // The engine limits its pending requests itself; a request above this depth is
            // repeated.
            depth_per_device: 1 << 16,
            ring: true,
        };
        let options = HostOptions {
            memory_bytes: 0,
            write_bytes: 0,
            read_bytes: 0,
            reads_more: true,
            kept_bytes: 0,
            device_deadline: Duration::from_secs(30),
            idle_after: Duration::from_secs(1),
            background_bytes_per_s: None,
            goes_around_slow: true,
            slow_after: Duration::from_secs(30),
            evicts_slow: false,
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            io,
        };
        options.within(MEMORY_BYTES)
    }
}

/// The engine's thread. It closes its devices when it ends.
type Thread = JoinHandle<()>;

/// A running volume. When dropped it ends abruptly, as by [`Host::kill`].
pub struct Host {
    handle: Handle,
    inbox: Arc<Inbox>,
    geometry: Geometry,
    thread: Mutex<Option<Thread>>,
    panicked: Arc<AtomicBool>,
    taken: Arc<OnceLock<Claimant>>,
}

impl Host {
    /// Opens a volume on its devices, which are given by slot, and serves it.
    ///
    /// `fresh`: 16 random bytes. Errors: the engine cannot open these devices, one is too short or
    /// in two slots, or no thread can be started.
    pub fn open(
        geometry: Geometry,
        devices: Vec<Option<Arc<dyn Device>>>,
        fresh: pantile_format::volume::HistoryId,
        options: &HostOptions,
    ) -> Result<Host, HostError> {
        Host::begin(geometry, devices, fresh, (options, None), Volume::open)
    }

    /// Does the same as [`Host::open`], and keeps writing the claim that the caller has put on the
    /// devices.
    ///
    /// Errors: `Taken` if another host has claimed the devices since.
    pub(crate) fn open_claimed(
        geometry: Geometry,
        devices: Vec<Option<Arc<dyn Device>>>,
        fresh: pantile_format::volume::HistoryId,
        options: &HostOptions,
        beating: Beating,
    ) -> Result<Host, HostError> {
        Host::begin(geometry, devices, fresh, (options, Some(beating)), Volume::open)
    }

    /// Opens the devices of a volume to report its state. Nothing is written, and no client is
    /// served.
    pub fn look(
        geometry: Geometry,
        devices: Vec<Option<Arc<dyn Device>>>,
        options: &HostOptions,
    ) -> Result<Host, HostError> {
        let nobody = pantile_format::volume::HistoryId([0; 16]);
        Host::begin(geometry, devices, nobody, (options, None), |geometry, there, _| {
            Volume::look(geometry, there)
        })
    }

    /// Opens the devices of a volume read-only. Nothing is written to them, so they need not be
    /// writable.
    pub fn open_to_read(
        geometry: Geometry,
        devices: Vec<Option<Arc<dyn Device>>>,
        options: &HostOptions,
    ) -> Result<Host, HostError> {
        let nobody = pantile_format::volume::HistoryId([0; 16]);
        let open = |geometry, there: &[bool], _| Volume::open_to_read(geometry, there);
        Host::begin(geometry, devices, nobody, (options, None), open)
    }

    fn begin(
        geometry: Geometry,
        devices: Vec<Option<Arc<dyn Device>>>,
        fresh: pantile_format::volume::HistoryId,
        (options, beating): (&HostOptions, Option<Beating>),
        open: impl FnOnce(Geometry, &[bool], pantile_format::volume::HistoryId) -> Volume,
    ) -> Result<Host, HostError> {
        let there: Vec<bool> = devices.iter().map(Option::is_some).collect();
        let least = least_memory_bytes(&geometry);
        let options = &match options.memory_bytes < least {
            true => options.clone().within(least),
            false => options.clone(),
        };
        let mut volume = open(geometry.clone(), &there, fresh);
        volume.keep_within(options.memory_bytes);
        let pool = Arc::new(IoPool::new(options.io));
        let inbox = Arc::new(Inbox::new(pool.clone()));
        let (opened, opening) = answer();
        let volume = Arc::new(SharedVolume::new(volume));
        let direct = Arc::new(Direct::new(volume.clone(), &geometry, inbox.clone()));
        let shared = (volume, direct.clone());
        let taken = Arc::new(OnceLock::new());
        let mut engine =
            Engine::new(geometry.clone(), devices, shared, options, (pool, inbox.clone()), opened)?;
        engine.claim.taken = taken.clone();
        beating.into_iter().for_each(|beating| engine.claim(beating));
        let builder = std::thread::Builder::new().name("engine".into());
        let (panicked, left) = (Arc::new(AtomicBool::new(false)), inbox.clone());
        let told = panicked.clone();
        let run = move || {
            if catch_unwind(AssertUnwindSafe(|| engine.run())).is_err() {
                // From now on each request is answered with `Stopped`.
                told.store(true, Ordering::Release);
                left.close();
            }
        };
        let thread = builder
            .spawn(run)
            .map_err(|error| HostError::Thread { errno: error.raw_os_error().unwrap_or(0) })?;
        let len_bytes = geometry.user_blocks() * BLOCK as u64;
        let handle = Handle::new((inbox.clone(), direct), len_bytes, options.write_bytes, options.read_bytes);
        let host = Host { handle, inbox, geometry, thread: Mutex::new(Some(thread)), panicked, taken };
        match opening.wait() {
            Ok(()) => Ok(host),
            Err(error) => {
                host.kill();
                let taken = host.taken_by().map(|by| HostError::Taken { host: by.host, process: by.process });
                Err(taken.unwrap_or(error))
            }
        }
    }

    /// True if the engine has panicked: every later request fails with [`HostError::Stopped`] until
    /// the volume is opened again.
    pub fn has_panicked(&self) -> bool {
        self.panicked.load(Ordering::Acquire)
    }

    /// Returns a client's handle.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Returns the geometry of the volume.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Returns the state of the engine.
    pub fn report(&self) -> Result<Report, HostError> {
        let report = self.call(|engine| engine.report())?;
        Ok(Report { memory_bytes: report.memory_bytes + self.handle.write_bytes(), ..report })
    }

    /// Returns the losses if these devices were lost, too.
    pub fn losses(&self, also: Vec<Slot>) -> Result<Losses, HostError> {
        self.call(move |engine| engine.losses(&also))
    }

    /// Returns the content of a device that comes to a slot, by its newest superblock.
    pub(crate) fn found(&self, slot: Slot, own: Superblock) -> Result<Found, HostError> {
        self.call(move |engine| engine.found(slot, &own))
    }

    /// True if no block is dirty and nothing is being rebuilt or waits for repair.
    pub fn is_clean(&self) -> Result<bool, HostError> {
        self.call(|engine| Ok(engine.is_clean()))
    }

    /// Gives up a device with too many failed reads, if all data can be read without it. True if it
    /// was given up.
    pub fn give_up_unreadable(&self, slot: Slot) -> Result<bool, HostError> {
        self.call(move |engine| engine.give_up_unreadable(slot))
    }

    /// Gives up a device that was overwritten, if all data can be read without it. True if it was
    /// given up.
    pub(crate) fn give_up_overwritten(&self, slot: Slot) -> Result<bool, HostError> {
        self.call(move |engine| engine.give_up_overwritten(slot))
    }

    /// Declares a device failed and closes it.
    pub fn fail(&self, slot: Slot) -> Result<(), HostError> {
        self.call(move |engine| engine.fail(slot))
    }

    /// Puts a device into an empty slot. The engine rebuilds the data that it lacks.
    pub fn attach(&self, slot: Slot, device: Arc<dyn Device>, found: Found) -> Result<(), HostError> {
        self.call(move |engine| engine.attach(slot, device, found))
    }

    /// Exchanges the device of a slot for one with the same content, as [`Engine::exchange`] does.
    pub(crate) fn exchange(
        &self,
        slot: Slot,
        device: Arc<dyn Device>,
        is_read_directly: bool,
    ) -> Result<(), HostError> {
        self.call(move |engine| engine.exchange(slot, device, is_read_directly))
    }

    /// True if earlier devices of a slot, from before an exchange, have no pending operations.
    pub(crate) fn is_drained(&self, slot: Slot) -> Result<bool, HostError> {
        self.call(move |engine| engine.is_drained(slot))
    }

    /// Sets [`HostOptions::evicts_slow`].
    pub fn set_evicts_slow(&self, evicts_slow: bool) -> Result<(), HostError> {
        self.call(move |engine| {
            engine.set_evicts_slow(evicts_slow);
            Ok(())
        })
    }

    /// Starts, pauses, resumes or stops the scrub.
    pub fn scrub(&self, what: Scrub) -> Result<(), HostError> {
        self.call(move |engine| {
            engine.scrub(what);
            Ok(())
        })
    }

    /// Returns the host that has taken the volume from this one and so ended it.
    pub fn taken_by(&self) -> Option<Claimant> {
        self.taken.get().cloned()
    }

    /// Clears a device's errors, which an operator has seen; the counters begin again at 0. Errors:
    /// `NoSuchSlot`.
    pub fn clear_errors(&self, slot: Slot) -> Result<(), HostError> {
        self.call(move |engine| engine.clear_errors(slot))
    }

    /// Records an event that only the host knows, of the kinds `COPY_*`, `SPARE_TAKEN` and
    /// `SERVER_KILLED`.
    pub(crate) fn note_event(
        &self,
        slot: Option<Slot>,
        what: EventKind,
        why: (Reason, i32),
    ) -> Result<(), HostError> {
        self.call(move |engine| {
            engine.note_event(slot, what, why);
            Ok(())
        })
    }

    /// Limits the bytes a second that rebuild and scrub read and write; `None`: no limit.
    pub fn set_throttle(&self, bytes_per_s_max: Option<u64>) -> Result<(), HostError> {
        self.call(move |engine| {
            engine.set_throttle(bytes_per_s_max);
            Ok(())
        })
    }

    /// Ends in order: all acknowledged writes are made durable, then the devices are closed.
    /// Devices that lack space get the same deadline as a hanging device.
    ///
    /// Errors: the writes could not be made durable; the host has ended anyway.
    pub fn stop(&self) -> Result<(), HostError> {
        self.hurry();
        let settle = || {
            self.call(|engine| {
                engine.settle();
                Ok(())
            })
        };
        // Users' writes come first: a stripe that is being patched can be settled afterwards.
        let flushed = self.handle.flush().and_then(|()| settle()).and_then(|()| self.handle.flush());
        self.kill();
        match flushed {
            // It was stopped already.
            Err(HostError::Stopped) => Ok(()),
            other => other,
        }
    }

    /// Prepares the end: from now on a request waits for space no longer than for a device that
    /// hangs.
    pub(crate) fn hurry(&self) {
        // It has ended already.
        let _ = self.call(|engine| {
            engine.hurry();
            Ok(())
        });
    }

    /// Ends at once, like a crash of the process: unflushed data may be lost. Waits until the
    /// attached devices are closed.
    pub fn kill(&self) {
        let thread = lock(&self.thread).take();
        let Some(thread) = thread else { return };
        self.inbox.push(Message::Call(Box::new(Engine::stop)));
        drop(thread.join());
    }

    #[cfg(test)]
    pub(crate) fn call_to_panic(&self) -> Result<(), HostError> {
        self.call(|_| panic!("planted in the engine"))
    }

    /// Blocks the engine's thread, as if its process were stopped, until the other end is dropped.
    #[cfg(test)]
    pub(crate) fn stand_still(&self, until: std::sync::mpsc::Receiver<()>) {
        self.inbox.push(Message::Call(Box::new(move |_| {
            let _ = until.recv();
        })));
    }

    fn call<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Engine) -> Result<T, HostError> + Send + 'static,
    ) -> Result<T, HostError> {
        let (answer, waiting) = answer();
        self.inbox.push(Message::Call(Box::new(move |engine| answer.give(what(engine)))));
        waiting.wait()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.kill();
    }
}
