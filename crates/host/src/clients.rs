//! Limits of all clients together: connections, and bytes of requests under way.
//!
//! Bytes are shared fairly. A connection may exceed its share only while others do not ask. A
//! connection that waits for its first request is served as soon as bytes are free, because those
//! above their share get no more before. So a client that asks for much, or does not read its
//! answers, makes only itself wait.
//!
//! Only requests that the volume works on are counted. A request that waits here, or whose answer
//! the client does not read, occupies a buffer of nbdkit, one for each of its threads. `pantile
//! serve` chooses the number of threads and the longest request so that these buffers fit the same
//! bound.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The longest request that a client may send: NBD's default.
pub const REQUEST_BYTES_MAX: u64 = 32 << 20;

/// Limits of all clients together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// Connections at a time.
    pub connections: u32,
    /// Bytes of requests that are worked on at a time.
    pub bytes: u64,
}

/// Connections and requests under way.
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

/// A connection; it counts until it is dropped.
pub struct Admitted {
    shared: Arc<Shared>,
    id: u64,
}

/// Bytes of a request that is under way; they count until it is dropped.
pub struct Permit<'a> {
    of: &'a Admitted,
    bytes: u64,
}

impl Clients {
    /// The default limits.
    pub const USUAL: ClientLimits = ClientLimits { connections: 64, bytes: 256 << 20 };

    /// Returns the state without connections.
    pub fn new(limits: ClientLimits) -> Clients {
        let held = Held { limits, next: 0, bytes: 0, of: HashMap::new() };
        Clients { shared: Arc::new(Shared { held: Mutex::new(held), freed: Condvar::new() }) }
    }

    /// Changes the limits.
    pub fn change(&self, change: impl FnOnce(&mut ClientLimits)) {
        change(&mut self.shared.held().limits);
    }

    /// Counts one connection more. Errors: the limit, if it is reached.
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
        // Numbers are changed as a whole.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// True if a connection may have so many bytes more now.
    fn has_room(&self, id: u64, bytes: u64) -> bool {
        let own = self.of.get(&id).map_or(0, |of| of.bytes);
        let active = self.of.values().filter(|of| of.bytes > 0 || of.waiting > 0).count().max(1) as u64;
        let is_fair = own == 0 || own + bytes <= self.limits.bytes / active;
        is_fair && self.bytes + bytes <= self.limits.bytes
    }
}

impl Admitted {
    /// Waits until a request of so many bytes may be under way.
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

    /// A moment in which a request that may go on does: what is asserted to wait is asserted in
    /// vain at worst.
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
        // Alone it may have everything.
        let all = (0..10).map(|_| greedy.take(100)).collect::<Vec<_>>();
        let (told, tells) = channel();
        let waiting = greedy.clone();
        let more = spawn(move || {
            let _permit = waiting.take(100);
            told.send(()).expect("it is heard");
        });
        sleep(MOMENT);
        assert!(tells.try_recv().is_err(), "there is nothing left");
        // One of its requests ends. The other connection asks, too, and has it: the greedy one has
        // more than its share.
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
