//! The thread of a connection: it starts requests as they come, any number at a time, and answers
//! each exactly once.
//!
//! A server that answers nothing for [`SILENCE`] while requests are pending is given up: the
//! connection is closed, and every request ends with an error. The same happens when the connection
//! breaks. It is not reopened below a device: writes that were answered and not flushed can be lost
//! with the server, and only the volume knows how to catch a member up.

use super::library::{Connection, NOT_CONNECTED, Request};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

/// Longest silence of a server with pending requests. It is the time that most disks need to spin
/// up, and a third of a volume's deadline for a device.
pub(super) const SILENCE: Duration = Duration::from_secs(10);

/// A request is given up after this many times [`SILENCE`], even if others are answered.
const OLDEST_SILENCES: u32 = 4;

/// Time limit for closing a connection.
const FAREWELL: Duration = Duration::from_millis(200);

/// ETIMEDOUT.
const TIMED_OUT: i32 = 110;

/// A request for the thread of the connection.
struct Command {
    request: Request,
    answer: Sender<Result<(), i32>>,
}

// SAFETY: the memory of a request is borrowed by `Line::ask`, which waits until this is dropped or
// answered.
unsafe impl Send for Command {}

/// The callers' end of the connection's thread.
pub(super) struct Line {
    commands: Option<Sender<Command>>,
    bell: Arc<OwnedFd>,
    /// The number of the error that ended the connection; 0: it has not ended.
    ended: Arc<AtomicI32>,
}

struct Flight {
    answer: Sender<Result<(), i32>>,
    since: Instant,
}

/// State of the connection's thread.
///
/// Invariant: fields are dropped in this order. The connection is closed before a caller learns
/// that its request has ended, and libnbd accesses no memory after that.
struct Driver {
    connection: Connection,
    flights: HashMap<u64, Flight>,
    commands: Receiver<Command>,
    answered_at: Instant,
    bell: Arc<OwnedFd>,
    ended: Arc<AtomicI32>,
    silence: Duration,
}

impl Line {
    /// Starts the thread of a connection.
    pub(super) fn new(connection: Connection, silence: Duration) -> io::Result<Line> {
        let (sender, commands) = channel();
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let ended = Arc::new(AtomicI32::new(0));
        let driver = Driver {
            connection,
            flights: HashMap::new(),
            commands,
            answered_at: Instant::now(),
            bell: bell.clone(),
            ended: ended.clone(),
            silence,
        };
        std::thread::Builder::new().name("server".into()).spawn(move || driver.run())?;
        Ok(Line { commands: Some(sender), bell, ended })
    }

    /// Performs requests concurrently, and waits for the end of all of them. Returns the first
    /// error, as a number of the system, and whether the connection has ended.
    ///
    /// # Safety
    ///
    /// The memory of the requests is valid during this call, and nothing else uses it.
    pub(super) unsafe fn ask(&self, requests: impl Iterator<Item = Request>) -> Result<(), Refused> {
        let Some(commands) = &self.commands else { return Err(self.gone()) };
        let begin = |request| {
            let (answer, waits) = channel();
            // A command that is not accepted is dropped, and its answer with it.
            drop(commands.send(Command { request, answer }));
            waits
        };
        let waiting: Vec<Receiver<Result<(), i32>>> = requests.map(begin).collect();
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        let mut result = Ok(());
        // Every request is waited for: until its end its memory is in use by libnbd.
        for waits in waiting {
            let ended = match waits.recv() {
                Ok(answer) => answer.map_err(Refused::ByServer),
                Err(_) => Err(self.gone()),
            };
            result = result.and(ended);
        }
        result
    }

    fn gone(&self) -> Refused {
        match self.ended.load(Ordering::Acquire) {
            0 => Refused::Gone(NOT_CONNECTED),
            errno => Refused::Gone(errno),
        }
    }
}

/// Why a request is not done, with a number of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// The server has reported this error.
    ByServer(i32),
    /// The connection has ended.
    Gone(i32),
}

impl Drop for Line {
    /// Ends the thread; no request is pending.
    fn drop(&mut self) {
        self.commands = None;
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

impl Driver {
    fn run(mut self) {
        loop {
            match self.begin_all() {
                Err(TryRecvError::Disconnected) => return self.farewell(),
                Err(TryRecvError::Empty) | Ok(()) => {}
            }
            if self.connection.is_over() {
                return self.ended.store(NOT_CONNECTED, Ordering::Release);
            }
            self.answer_all();
            let Some(left) = self.patience_left(Instant::now()) else {
                return self.ended.store(TIMED_OUT, Ordering::Release);
            };
            self.connection.wait(Some(self.bell.as_fd()), left);
            let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        }
    }

    /// Starts all requests that have come.
    fn begin_all(&mut self) -> Result<(), TryRecvError> {
        loop {
            let Command { request, answer } = self.commands.try_recv()?;
            if self.flights.is_empty() {
                self.answered_at = Instant::now();
            }
            // SAFETY: the caller keeps the memory and waits for the answer, which is given, or
            // dropped with the flight, after the request completed or the connection was cut.
            match unsafe { self.connection.begin(request) } {
                Ok(name) => drop(self.flights.insert(name, Flight { answer, since: Instant::now() })),
                // All pending requests end with the error of the connection.
                Err(_) if self.connection.is_over() => {}
                Err(errno) => drop(answer.send(Err(errno))),
            }
        }
    }

    fn answer_all(&mut self) {
        while let Some((name, result)) = self.connection.completed() {
            self.answered_at = Instant::now();
            let Some(flight) = self.flights.remove(&name) else { continue };
            let _ = flight.answer.send(result);
        }
    }

    /// Returns how long the server may still be silent; `None`: it was silent for too long.
    fn patience_left(&self, now: Instant) -> Option<Duration> {
        let oldest = self.flights.values().map(|flight| flight.since).min();
        let Some(oldest) = oldest else { return Some(Duration::from_secs(3600)) };
        let until = (self.answered_at + self.silence).min(oldest + self.silence * OLDEST_SILENCES);
        until.checked_duration_since(now).filter(|left| !left.is_zero())
    }

    fn farewell(&mut self) {
        self.connection.disconnect();
        let until = Instant::now() + FAREWELL;
        while !self.connection.is_over() && Instant::now() < until {
            self.connection.wait(None, until.saturating_duration_since(Instant::now()));
        }
    }
}
