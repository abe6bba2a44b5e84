//! Serves a volume over NBD as a plug-in of nbdkit, which implements the protocol.
//!
//! nbdkit's process holds the volume of `volume=FOLDER`. Its threads read and write through one
//! [`Handle`], concurrently. Orders come over the control socket, which is
//! opened with the volume.
//!
//! A fault while the volume is opened is one line on standard error: `pantile-fault ` and an
//! [`Answer`] in JSON, for the command that waits for the server.
//!
//! This is the entry module: nbdkit's table of functions is made by a macro that needs `unsafe`.

#![allow(missing_docs, reason = "the one public function is made by the macro")]

use nbdkit::{Error, ExtentHandle, ExtentType, Flags, FuaFlags, Result, Server, ThreadModel, plugin};
use pantile_host::{
    Admitted, Answer, Clients, ControlServer, Deaths, ENDED, EpochId, Failure, Folder, FolderError, Handle,
    HostError, LEFT_BEHIND, MEMORY_LEAST, Permit, REQUEST_BYTES_MAX, SERVING, Service, TOLD_TO_STOP,
    harmless, threads_waiting_for_devices,
};
use std::io::Write;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

/// Numbers of the system's errors that clients receive.
const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EIO: i32 = 5;
const ENOMEM: i32 = 12;
const EINVAL: i32 = 22;
const EBUSY: i32 = 16;
const ENOSPC: i32 = 28;
const ESHUTDOWN: i32 = 108;

/// Longest wait for another process that holds the volume, and the time between two attempts.
const BETWEEN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Time for nbdkit to end by itself after the volume is closed. Requests in progress are refused at
/// that point, and their answers take a moment.
const LEAVING: Duration = Duration::from_secs(1);

/// State of the process: before the first client, nbdkit calls functions without a place for our
/// data.
static STATE: Mutex<State> = Mutex::new(State {
    folder: None,
    stays: false,
    evicts_slow: false,
    deaths: Deaths { of_its_own: 0, by_clients: 0 },
    reads_only: false,
    memory_bytes: None,
    running: None,
});

/// The requests in progress of all clients.
static CLIENTS: LazyLock<Clients> = LazyLock::new(|| Clients::new(Clients::USUAL));

/// The lock that a thread holds while it closes the volume; a second thread waits until that is
/// done.
static PUTTING_AWAY: Mutex<()> = Mutex::new(());

unsafe extern "C" {
    /// Ends the process at once. No code of nbdkit runs any more, even if threads wait on
    /// connections.
    safe fn _exit(status: i32) -> !;
    /// Ends a socket's connection, or its listening. Any number is safe: for another file the call
    /// returns an error.
    safe fn shutdown(file: i32, how: i32) -> i32;
}

/// SHUT_RDWR.
const BOTH_WAYS: i32 = 2;

struct State {
    folder: Option<PathBuf>,
    stays: bool,
    evicts_slow: bool,
    deaths: Deaths,
    reads_only: bool,
    memory_bytes: Option<u64>,
    running: Option<Running>,
}

struct Running {
    service: Arc<Service>,
    control: Option<ControlServer>,
}

/// One connection of a client.
struct Connection {
    handle: Handle,
    admitted: Admitted,
}

impl Connection {
    /// Waits until a request of `len` bytes may run. Errors: it is longer than the longest allowed
    /// one.
    fn begin(&self, len: usize) -> Result<Permit<'_>> {
        match len as u64 <= REQUEST_BYTES_MAX {
            true => Ok(self.admitted.take(len as u64)),
            false => {
                Err(told(EINVAL, format!("{len} bytes are more than the {REQUEST_BYTES_MAX} of a request")))
            }
        }
    }
}

impl Server for Connection {
    fn name() -> &'static str {
        "pantile"
    }

    fn longname() -> Option<&'static str> {
        Some("Pantile volume")
    }

    fn version() -> Option<&'static str> {
        Some(env!("CARGO_PKG_VERSION"))
    }

    fn config_help() -> Option<&'static str> {
        Some(
            "volume=FOLDER  (required) The folder of the volume.\n\
             read-only=BOOL Serve the volume read-only, and write nothing to its devices.\n\
             stays=BOOL     Go on when the process that started nbdkit in the foreground ends.\n\
             evict-slow=BOOL  Give up a device that takes far longer than the others, if one more can be lost then.\n\
             memory=BYTES   Limit of the volume's buffers in bytes, without those of requests; 536870912 by default.\n\
             connections=NUMBER  Limit of connections at a time; 64 by default.\n\
             outstanding=BYTES   Limit of the bytes of requests in progress; 268435456 by default.\n\
             deaths=NUMBER  Deaths of servers before this one, for 'pantile status'.\n\
             client-deaths=NUMBER  Deaths of nbdkit by clients that disconnected, for the same.",
        )
    }

    fn magic_config_key() -> Option<&'static str> {
        Some("volume")
    }

    fn config(key: &str, value: &str) -> Result<()> {
        match key {
            "volume" => {
                // nbdkit can change its directory when it goes into the background.
                let path = std::path::absolute(value).map_err(|error| told(EINVAL, error))?;
                state().folder = Some(path);
                Ok(())
            }
            "stays" => {
                state().stays = nbdkit::parse_bool(value)?;
                Ok(())
            }
            "evict-slow" => {
                state().evicts_slow = nbdkit::parse_bool(value)?;
                Ok(())
            }
            "read-only" => {
                state().reads_only = nbdkit::parse_bool(value)?;
                Ok(())
            }
            "memory" => {
                let wrong =
                    || told(EINVAL, format!("memory={value}: give bytes, {MEMORY_LEAST} at the least"));
                let bytes = value.parse().ok().filter(|bytes| *bytes >= MEMORY_LEAST).ok_or_else(wrong)?;
                state().memory_bytes = Some(bytes);
                Ok(())
            }
            "connections" => {
                let wrong = || told(EINVAL, format!("connections={value}: give a number from 1 to 65536"));
                let number = value.parse().ok().filter(|number| (1..=65536).contains(number));
                let number: u32 = number.ok_or_else(wrong)?;
                CLIENTS.change(|limits| limits.connections = number);
                Ok(())
            }
            "outstanding" => {
                let wrong = || told(EINVAL, format!("outstanding={value}: give bytes, 1048576 at the least"));
                let bytes = value.parse().ok().filter(|bytes| *bytes >= 1 << 20).ok_or_else(wrong)?;
                CLIENTS.change(|limits| limits.bytes = bytes);
                Ok(())
            }
            "deaths" => {
                state().deaths.of_its_own = number(key, value)?;
                Ok(())
            }
            "client-deaths" => {
                state().deaths.by_clients = number(key, value)?;
                Ok(())
            }
            _ => Err(told(EINVAL, format!("there is no parameter {key}; give volume=FOLDER"))),
        }
    }

    fn config_complete() -> Result<()> {
        match state().folder {
            Some(_) => Ok(()),
            None => Err(told(EINVAL, "which volume? give volume=FOLDER")),
        }
    }

    fn thread_model() -> Result<ThreadModel> {
        Ok(ThreadModel::Parallel)
    }

    /// Opens the volume after the fork, since threads do not survive one.
    fn after_fork() -> Result<()> {
        guarded(|| {
            let folder = state().folder.clone().unwrap_or_default();
            // One statement each, because every call takes the lock until its statement ends.
            let deaths = state().deaths;
            let evicts_slow = state().evicts_slow;
            let reads_only = state().reads_only;
            let memory_bytes = state().memory_bytes;
            let running = start(&folder, deaths, evicts_slow, reads_only, memory_bytes);
            let running = running.map_err(|error| {
                let told_to_the_command =
                    Answer::Fault { kind: error.kind(), text: harmless(&error.to_string()) };
                if let Ok(line) = serde_json::to_string(&told_to_the_command) {
                    say(&format!("pantile-fault {line}"));
                }
                told(EIO, error)
            })?;
            if state().stays {
                // nbdkit in the foreground asks for a signal when its parent ends; this thread, the
                // first, cancels that.
                rustix::process::set_parent_process_death_signal(None)
                    .map_err(|errno| told(errno.raw_os_error(), errno))?;
            }
            let service = running.service.clone();
            state().running = Some(running);
            say(SERVING);
            let wait = move || {
                if !service.wait_for_end() {
                    // Clients cannot be served any more. The keeper starts another process, as
                    // after any fault of this one.
                    say(
                        "pantile: the volume has ended by a fault of pantile itself; what was flushed is safe, please report it",
                    );
                    std::process::abort();
                }
                // The keeper of the server reads from this line that it is not to be restarted.
                match service.taken_by() {
                    Some(other) => say(&format!(
                        "{ENDED}process {} on host '{}', which reaches the same devices by another path, serves the volume since this server stood still.",
                        other.process, other.host
                    )),
                    None => say(TOLD_TO_STOP),
                }
                // Closed here and not in `unload`, which nbdkit calls after the last client has
                // left: an idle client can stay for ever.
                put_away();
                leave_behind();
                nbdkit::shutdown();
                std::thread::sleep(LEAVING);
                _exit(0);
            };
            let thread = std::thread::Builder::new().name("watch".into()).spawn(wait);
            thread.map(drop).map_err(|error| told(EIO, error))
        })
    }

    /// Closes the volume: nbdkit's last call, after all clients are gone.
    fn unload() {
        put_away();
    }

    fn open(_readonly: bool) -> Result<Box<dyn Server>> {
        guarded(|| {
            let handle = match &state().running {
                Some(running) => running.service.handle(),
                None => return Err(told(ESHUTDOWN, HostError::Stopped)),
            };
            let export = nbdkit::export_name();
            let export = export.map_err(|_| told(ENOENT, "the name of an export is UTF-8"))?;
            let handle = match epoch_of(&export)? {
                Some(epoch) => {
                    let handle = handle.within(epoch);
                    if let Err(error @ HostError::Failed(Failure::NoSuchEpoch { .. })) = handle.flush() {
                        return Err(told(ENOENT, error));
                    }
                    handle
                }
                None => handle,
            };
            let admitted = CLIENTS.admit().map_err(|most| {
                let text = format!(
                    "{most} clients are connected, the most that this server takes; close one, or serve with more --connections"
                );
                told(EBUSY, text)
            })?;
            Ok(Box::new(Connection { handle, admitted }) as Box<dyn Server>)
        })
    }

    fn get_size(&self) -> Result<i64> {
        Ok(self.handle.len_bytes() as i64)
    }

    fn can_write(&self) -> Result<bool> {
        Ok(!state().reads_only)
    }

    fn can_flush(&self) -> Result<bool> {
        Ok(true)
    }

    fn can_fua(&self) -> Result<FuaFlags> {
        Ok(FuaFlags::Native)
    }

    fn can_trim(&self) -> Result<bool> {
        Ok(true)
    }

    fn can_zero(&self) -> Result<bool> {
        Ok(true)
    }

    /// Zeros are a change of the maps, at any length.
    fn can_fast_zero(&self) -> Result<bool> {
        Ok(true)
    }

    /// All connections use one volume, and a flush covers the answered writes of all of them.
    fn can_multi_conn(&self) -> Result<bool> {
        Ok(true)
    }

    fn is_rotational(&self) -> Result<bool> {
        Ok(false)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<()> {
        let _permit = self.begin(into.len())?;
        answer(|| self.handle.read(offset, into))
    }

    fn write_at(&self, data: &[u8], offset: u64, flags: Flags) -> Result<()> {
        let _permit = self.begin(data.len())?;
        answer(|| self.handle.write(offset, data, flags.contains(Flags::FUA)))
    }

    fn can_extents(&self) -> Result<bool> {
        Ok(true)
    }

    fn extents(&self, len: u32, offset: u64, flags: Flags, into: &mut ExtentHandle) -> Result<()> {
        let mut extents = Vec::new();
        answer(|| {
            extents = self.handle.extents(offset, len.into())?;
            Ok(())
        })?;
        let most = if flags.contains(Flags::REQ_ONE) { 1 } else { extents.len() };
        let mut at = offset;
        for (len, hole) in extents.into_iter().take(most) {
            into.add(at, len, if hole { ExtentType::HoleZero } else { ExtentType::Allocated })?;
            at += len;
        }
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        answer(|| self.handle.flush())
    }

    fn trim(&self, len: u32, offset: u64, flags: Flags) -> Result<()> {
        answer(|| {
            self.handle.trim(offset, len.into())?;
            if flags.contains(Flags::FUA) { self.handle.flush() } else { Ok(()) }
        })
    }

    fn zero(&self, len: u32, offset: u64, flags: Flags) -> Result<()> {
        answer(|| self.handle.zero(offset, len.into(), flags.contains(Flags::FUA)))
    }
}

/// Returns the epoch that an export's name chooses: `epoch-7`. The volume itself has the empty
/// name.
fn epoch_of(export: &str) -> Result<Option<EpochId>> {
    if export.is_empty() {
        return Ok(None);
    }
    let number = export.strip_prefix("epoch-").and_then(|number| number.parse().ok());
    let unknown = || format!("there is no export '{export}'; leave the name empty, or write epoch-NUMBER");
    number.map(|number| Some(EpochId(number))).ok_or_else(|| told(ENOENT, unknown()))
}

fn number(key: &str, value: &str) -> Result<u32> {
    value.parse().map_err(|_| told(EINVAL, format!("{key}={value}: give a number")))
}

/// Writes a line to the log or a terminal ([`harmless`]). If there is no space for it, the server
/// continues.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", harmless(line));
}

fn state() -> std::sync::MutexGuard<'static, State> {
    // A panic under the lock leaves no half-done change: fields are set as a whole.
    STATE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Makes all writes durable and closes the devices; later requests of clients are refused.
fn put_away() {
    let _one = PUTTING_AWAY.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let running = state().running.take();
    let Some(Running { service, control }) = running else { return };
    if let Err(error) = service.stop() {
        say(&format!("pantile: {error}"));
    }
    drop(control);
}

/// Releases log and sockets if threads wait for a device that does not answer. The system keeps
/// such a process, with all its open files, until the threads have ended. The log gets a line about
/// it, the next server can use log and sockets, and clients are disconnected.
fn leave_behind() {
    let until = Instant::now() + LEAVING;
    while threads_waiting_for_devices() > 0 && Instant::now() < until {
        std::thread::sleep(LOOK_EVERY);
    }
    if threads_waiting_for_devices() == 0 {
        return;
    }
    say(LEFT_BEHIND);
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    for file in open {
        let is_socket =
            std::fs::read_link(file.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"));
        let number = file.file_name().to_str().and_then(|name| name.parse().ok());
        number.filter(|&number| is_socket && number > 2).into_iter().for_each(|number| {
            shutdown(number, BOTH_WAYS);
        });
    }
    // In the foreground the lock on standard error belongs to another process.
    let log = std::io::stderr().as_fd().try_clone_to_owned().map(std::fs::File::from);
    if state().stays
        && let Ok(log) = log
    {
        let _ = log.unlock();
    }
}

fn start(
    folder: &std::path::Path,
    deaths: Deaths,
    evicts_slow: bool,
    reads_only: bool,
    memory_bytes: Option<u64>,
) -> std::result::Result<Running, FolderError> {
    let begun = Instant::now();
    let mut taken = loop {
        match Folder::open(folder) {
            // A command on a volume that is not served holds it for a moment.
            Err(FolderError::Busy { .. }) if begun.elapsed() < BETWEEN => std::thread::sleep(LOOK_EVERY),
            result => break result?,
        }
    };
    if let Some(bytes) = memory_bytes {
        taken.keep_within(bytes);
    }
    let service = match reads_only {
        true => Service::start_to_read(taken, None)?,
        false => Service::start(taken, None)?,
    };
    let service = Arc::new(service);
    service.serves(deaths);
    service.evict_slow(evicts_slow)?;
    match ControlServer::start(folder, service.clone()) {
        Ok(control) => Ok(Running { service, control: Some(control) }),
        // A folder that cannot be written has no place for a socket; 'pantile status' then opens
        // the volume itself.
        Err(error) if reads_only => {
            say(&format!("pantile: takes no orders: {error}"));
            Ok(Running { service, control: None })
        }
        Err(error) => {
            // The first error is the one to report.
            let _ = service.stop();
            Err(error)
        }
    }
}

/// Returns an error in nbdkit's form: a text on standard error, which may be a terminal, and a
/// number for clients. The text can have foreign names, such as the host of a claim.
fn told(errno: i32, text: impl ToString) -> Error {
    Error::new(errno, harmless(&text.to_string()))
}

fn answer(what: impl FnOnce() -> std::result::Result<(), HostError>) -> Result<()> {
    guarded(|| {
        what().map_err(|error| {
            let errno = match &error {
                HostError::OutOfRange { .. } => EINVAL,
                HostError::NoMemory { .. } => ENOMEM,
                // NBD has no number for busy, and nbdkit would replace it by EINVAL.
                HostError::Failed(Failure::Busy { .. }) => EPERM,
                HostError::Failed(Failure::OutsideEpoch { .. }) => EINVAL,
                HostError::Failed(Failure::EpochFull { .. } | Failure::NoRoom { .. }) => ENOSPC,
                HostError::Failed(Failure::ReadOnly) => EPERM,
                HostError::Stopped => ESHUTDOWN,
                _ => EIO,
            };
            told(errno, error)
        })
    })
}

/// Runs a function, and turns a panic into the failure of one request: inside nbdkit it would end
/// the process with all clients.
fn guarded<T>(what: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(what))
        .unwrap_or_else(|_| Err(told(EIO, "a fault of pantile itself, not of yours; please report it")))
}

plugin!(Connection {
    after_fork,
    can_extents,
    can_fast_zero,
    can_flush,
    can_fua,
    can_multi_conn,
    can_trim,
    can_write,
    can_zero,
    config,
    config_complete,
    extents,
    flush,
    is_rotational,
    thread_model,
    trim,
    unload,
    write_at,
    zero
});
