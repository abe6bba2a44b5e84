//! Limits of all clients together: connections, and bytes of pending requests.
//!
//! Bytes are shared fairly. A connection may exceed its share only while no other connection waits.
//! A connection that waits for its first request is served as soon as bytes are free, because
//! connections above their share get no more before. So a client that sends many requests, or does
//! not read its answers, delays only itself.
//!
//! Only requests that the volume is processing are counted. A request that waits here, or whose
//! answer the client does not read, occupies a buffer of nbdkit, one for each nbdkit thread.
//! `pantile serve` chooses the number of threads and the longest request so that these buffers stay
//! within the same bound.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The longest request that a client may send: NBD's default.
pub const REQUEST_BYTES_MAX: u64 = 32 << 20;

/// Limits of all clients together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// Most connections at a time.
    pub connections: u32,
    /// Most bytes of requests that are processed at a time.
    pub bytes: u64,
}

/// The connections, and the requests that are processed.
#[derive(Clone)]
pub struct Clients {
    shared: Arc<Shared>,
}

struct Shared {
    held: Mutex<Held>,
    freed: Condvar,
}

struct Held {
    limits: ClientLimits,
    next: u64,
    bytes: u64,
    of: HashMap<u64, Of>,
}

/// State of one connection.
#[derive(Default)]
struct Of {
    bytes: u64,
    waiting: u32,
}

/// An admitted connection; it counts until this value is dropped.
pub struct Admitted {
    shared: Arc<Shared>,
    id: u64,
}

/// Bytes of a request that is processed; they count until this value is dropped.
pub struct Permit<'a> {
    of: &'a Admitted,
    bytes: u64,
}

impl Clients {
    /// The default limits.
    pub const USUAL: ClientLimits = ClientLimits { connections: 64, bytes: 256 << 20 };

    /// Returns limits without any connection yet.
    pub fn new(limits: ClientLimits) -> Clients {
        let held = Held { limits, next: 0, bytes: 0, of: HashMap::new() };
        Clients { shared: Arc::new(Shared { held: Mutex::new(held), freed: Condvar::new() }) }
    }

    /// Changes the limits.
    pub fn change(&self, change: impl FnOnce(&mut ClientLimits)) {
        change(&mut self.shared.held().limits);
    }

    /// Adds a connection. Errors: the limit, if it is reached.
    pub fn admit(&self) -> Result<Admitted, u32> {
        let mut held = self.shared.held();
        if held.of.len() >= held.limits.connections as usize {
            return Err(held.limits.connections);
        }
        let id = held.next;
        held.next += 1;
        held.of.insert(id, Of::default());
        Ok(Admitted { shared: self.shared.clone(), id })
    }
}

impl Shared {
    fn held(&self) -> MutexGuard<'_, Held> {
        // A panic leaves the counts consistent: each change is one step.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// True if a connection may use this many more bytes now.
    fn has_room(&self, id: u64, bytes: u64) -> bool {
        let own = self.of.get(&id).map_or(0, |of| of.bytes);
        let active = self.of.values().filter(|of| of.bytes > 0 || of.waiting > 0).count().max(1) as u64;
        let is_fair = own == 0 || own + bytes <= self.limits.bytes / active;
        is_fair && self.bytes + bytes <= self.limits.bytes
    }
}

impl Admitted {
    /// Waits until a request of this many bytes may be processed.
    pub fn take(&self, bytes: u64) -> Permit<'_> {
        let mut held = self.shared.held();
        let bytes = bytes.min(held.limits.bytes);
        let wait = |held: &mut Held, by: i64| {
            let of = held.of.entry(self.id).or_default();
            of.waiting = of.waiting.saturating_add_signed(by as i32);
        };
        wait(&mut held, 1);
        while !held.has_room(self.id, bytes) {
            held = self.shared.freed.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        wait(&mut held, -1);
        held.bytes += bytes;
        held.of.entry(self.id).or_default().bytes += bytes;
        Permit { of: self, bytes }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut held = self.of.shared.held();
        held.bytes -= self.bytes;
        held.of.entry(self.of.id).or_default().bytes -= self.bytes;
        self.of.shared.freed.notify_all();
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.shared.held().of.remove(&self.id);
        self.shared.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread::{sleep, spawn};
    use std::time::Duration;

    /// Time after which a request that may go on has gone on. If a machine is too slow for that, a
    /// test that expects a wait passes without proof.
    const MOMENT: Duration = Duration::from_millis(50);

    #[test]
    fn one_connection_more_than_may_be_is_refused_until_one_ends() {
        let clients = Clients::new(ClientLimits { connections: 3, ..Clients::USUAL });
        let mut admitted: Vec<Admitted> = (0..3).map(|_| clients.admit().expect("room")).collect();
        assert_eq!(clients.admit().err(), Some(3));
        admitted.pop();
        assert!(clients.admit().is_ok());
    }

    #[test]
    fn a_changed_limit_holds_from_the_next_connection_on() {
        let clients = Clients::new(ClientLimits { connections: 1, ..Clients::USUAL });
        let _first = clients.admit().expect("room");
        clients.change(|limits| limits.connections = 2);
        let _second = clients.admit().expect("room");
        assert_eq!(clients.admit().err(), Some(2));
    }

    #[test]
    fn bytes_under_way_never_exceed_the_bound() {
        let clients = Clients::new(ClientLimits { connections: 8, bytes: 1000 });
        let threads: Vec<_> = (0..8u64)
            .flat_map(|of| {
                let admitted = Arc::new(clients.admit().expect("room"));
                (0..4u64).map(move |nth| (admitted.clone(), 40 * of + 10 * nth + 1))
            })
            .map(|(admitted, bytes)| {
                let clients = clients.clone();
                spawn(move || {
                    for _ in 0..500 {
                        let _permit = admitted.take(bytes);
                        assert!(clients.shared.held().bytes <= 1000);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
        assert_eq!(clients.shared.held().bytes, 0);
    }

    #[test]
    fn a_greedy_client_makes_only_itself_wait() {
        let clients = Clients::new(ClientLimits { connections: 2, bytes: 1000 });
        let greedy = Arc::new(clients.admit().expect("room"));
        let modest = clients.admit().expect("room");
        // Without other connections it may use all bytes.
        let all = (0..10).map(|_| greedy.take(100)).collect::<Vec<_>>();
        let (told, tells) = channel();
        let waiting = greedy.clone();
        let more = spawn(move || {
            let _permit = waiting.take(100);
            told.send(()).expect("it is heard");
        });
        sleep(MOMENT);
        assert!(tells.try_recv().is_err(), "there is nothing left");
        // One of its requests ends. The bytes go to the other connection, which waits too, because
        // the greedy one exceeds its share.
        let (one, rest) = {
            let mut all = all;
            (all.pop(), all)
        };
        drop(one);
        let permit = modest.take(100);
        assert!(clients.shared.held().bytes <= 1000);
        drop(permit);
        drop(rest);
        more.join().expect("it has its turn");
        tells.recv().expect("it had its turn");
    }

    #[test]
    fn a_request_longer_than_all_that_may_be_waits_until_it_is_alone_and_no_longer() {
        let clients = Clients::new(ClientLimits { connections: 2, bytes: 1000 });
        let one = clients.admit().expect("room");
        drop(one.take(5000));
        assert_eq!(clients.shared.held().bytes, 0);
    }
}
