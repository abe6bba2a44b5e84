//! One run: clients, servers with queues and devices, links; events in integer nanoseconds.
//!
//! Every client has at most one request under way. Where it stands is in the inputs and outputs
//! that are queued for it; so memory is a few bytes per client and 24 bytes per queued input or
//! output, and few events are pending at a time.
//!
//! Links are serial, so what is sent to a server comes in the order in which it was sent: it is
//! queued at once, with the time at which it will be there. Only a server without work needs to be
//! woken for it, and a busy one costs no pending event.
//!
//! The chains, per write of a client (q parities):
//!
//! * raid0: write data;
//! * std: read old data, write data, then at every parity's server side by side: read old parity,
//!   write parity;
//! * wcl: write data into the cache zone, and at the same time at every parity's server: read
//!   parity, write parity;
//! * delayed: all clients of an application write; when the last has, every unit that they filled
//!   is read and sent to the parities' servers, and each parity is written once; then all go on.

use super::model::{Device, Log, Placement, Run, Scheme};
use pantile_sim::Random;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Inputs and outputs of devices, counted exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    /// Reads of data, also of whole units at the end of an epoch.
    pub data_reads: u64,
    /// Writes of data.
    pub data_writes: u64,
    /// Reads that clients asked for.
    pub user_reads: u64,
    /// Reads of parity.
    pub parity_reads: u64,
    /// Writes of parity.
    pub parity_writes: u64,
    /// Reads and writes that bring data back from the cache zone.
    pub move_back: u64,
    /// Writes of clients that were acknowledged.
    pub acknowledged: u64,
    /// Epochs that ended.
    pub epochs: u64,
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Bytes acknowledged in each batch after the first, which is left out.
    pub batches: Vec<u64>,
    /// Nanoseconds of a batch.
    pub batch_ns: u64,
    /// Everything that devices did, from the beginning.
    pub operations: Operations,
    /// Accesses of each server.
    pub per_server: Vec<u64>,
    /// When the last event was, in nanoseconds from the beginning.
    pub ended_ns: u64,
    /// Events: inputs and outputs that came to a server, that a device did, and everything that
    /// clients and applications did.
    pub events: u64,
}

/// What happens when an input or output is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// A client has read.
    Read,
    /// raid0, wcl: a part of the client's request is done.
    Part,
    /// std: old data is read.
    WriteData,
    /// std: data is written; the parities follow.
    Parities,
    /// Old parity is read.
    WriteParity,
    /// delayed: a client's write is done.
    Wrote,
    /// delayed: a unit is read.
    UnitRead,
    /// delayed: a parity is written.
    ParityWritten,
    /// Data moved back: a unit is read, and then written with its share of parity.
    MovedRead,
    /// The end of moving.
    Moved,
}

#[derive(Clone, Copy, Debug)]
struct Io {
    bytes: u32,
    is_write: bool,
    in_log: bool,
    then: Then,
    /// A client; of an epoch's end an application.
    who: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// The first of a server's queue has come, and the server waits for it.
    Wake { server: u16 },
    /// A device has done one, and has a channel free: an index into those being done.
    Done { server: u16, io: u32 },
    /// One that was merged with another is done.
    Merged { server: u16, io: u32 },
    /// A client begins its next write.
    Begin { client: u32 },
    /// A unit has come to the parity's server.
    UnitCame { app: u32 },
    /// An application begins its next epoch.
    Epoch { app: u32 },
}

impl Event {
    /// In 51 bits.
    fn pack(self) -> u64 {
        let (kind, server, number) = match self {
            Event::Wake { server } => (0, server, 0),
            Event::Done { server, io } => (1, server, io),
            Event::Merged { server, io } => (2, server, io),
            Event::Begin { client } => (3, 0, client),
            Event::UnitCame { app } => (4, 0, app),
            Event::Epoch { app } => (5, 0, app),
        };
        kind << 48 | u64::from(server) << 32 | u64::from(number)
    }

    fn unpack(packed: u64) -> Event {
        let (server, number) = ((packed >> 32) as u16, packed as u32);
        match packed >> 48 & 7 {
            0 => Event::Wake { server },
            1 => Event::Done { server, io: number },
            2 => Event::Merged { server, io: number },
            3 => Event::Begin { client: number },
            4 => Event::UnitCame { app: number },
            _ => Event::Epoch { app: number },
        }
    }
}

/// What is to happen, the soonest first, and of one nanosecond the one that was noted first.
#[derive(Default)]
struct Agenda {
    pending: BinaryHeap<Reverse<(u64, u64)>>,
    noted: u64,
}

impl Agenda {
    fn note(&mut self, at: u64, event: Event) {
        self.noted += 1;
        // The low bits of the count: more than so many events are not noted for one nanosecond, and
        // if they are, the order is still one.
        self.pending.push(Reverse((at, (self.noted & 0x1fff) << 51 | event.pack())));
    }

    fn first_at(&self) -> Option<u64> {
        self.pending.peek().map(|Reverse((at, _))| *at)
    }

    fn take(&mut self) -> Option<(u64, Event)> {
        let Reverse((at, packed)) = self.pending.pop()?;
        Some((at, Event::unpack(packed)))
    }
}

/// What a server has to do, in the order of its coming.
#[derive(Default)]
struct Queue {
    here: VecDeque<Io>,
    /// With the time at which each comes; behind `here`.
    coming: VecDeque<(u64, Io)>,
}

impl Queue {
    /// What comes at a time that is not before that of any other.
    fn push(&mut self, at: u64, io: Io) {
        self.coming.push_back((at, io));
    }

    /// What is made here and now: before all that is still on its way, of which there may be very
    /// much.
    fn push_here(&mut self, now: u64, io: Io) {
        while let Some(&(at, io)) = self.coming.front()
            && at <= now
        {
            self.coming.pop_front();
            self.here.push_back(io);
        }
        self.here.push_back(io);
    }

    /// The first that is here.
    fn pop_if(&mut self, now: u64, is_wanted: impl Fn(&Io) -> bool) -> Option<Io> {
        if let Some(&io) = self.here.front() {
            return if is_wanted(&io) { self.here.pop_front() } else { None };
        }
        let &(at, io) = self.coming.front()?;
        if at > now || !is_wanted(&io) {
            return None;
        }
        self.coming.pop_front();
        Some(io)
    }

    /// When the first comes, if none is here.
    fn comes_at(&self) -> Option<u64> {
        self.coming.front().map(|(at, _)| *at)
    }
}

struct Server {
    queue: Queue,
    /// When it is to be woken, if it is.
    wakes_at: Option<u64>,
    busy: u32,
    last_in_log: bool,
    in_free: u64,
    out_free: u64,
}

#[derive(Clone, Copy)]
struct Client {
    app: u32,
    /// Parts of the request under way.
    left: u16,
    server: u16,
    writes: u32,
}

struct App {
    first: u32,
    clients: u32,
    left: u32,
    start: u16,
}

/// The state of a run.
pub(super) struct World<'r> {
    run: &'r Run,
    device: &'r Device,
    random: Random,
    now: u64,
    agenda: Agenda,
    handled: u64,
    /// Inputs and outputs being done, and free places among them.
    ios: Vec<Io>,
    free: Vec<u32>,
    servers: Vec<Server>,
    per_server: Vec<u64>,
    clients: Vec<Client>,
    apps: Vec<App>,
    operations: Operations,
    bytes_done: u64,
}

/// Nanoseconds for so many bytes.
fn ns_of(bytes: u64, bytes_per_s: u64) -> u64 {
    // Messages and units are far below the 18 GB at which this would overflow.
    bytes * 1_000_000_000 / bytes_per_s.max(1)
}

impl<'r> World<'r> {
    pub(super) fn new(run: &'r Run, seed: u64) -> World<'r> {
        let servers = (0..run.servers)
            .map(|_| Server {
                queue: Queue::default(),
                wakes_at: None,
                busy: 0,
                last_in_log: false,
                in_free: 0,
                out_free: 0,
            })
            .collect();
        let per_app = run.clients_per_app.clamp(1, run.clients.max(1));
        let count = (run.clients / per_app).max(1);
        let mut world = World {
            run,
            device: &run.device,
            random: Random::new(seed),
            now: 0,
            agenda: Agenda::default(),
            handled: 0,
            ios: Vec::new(),
            free: Vec::new(),
            servers,
            per_server: vec![0; run.servers as usize],
            clients: Vec::with_capacity(run.clients as usize),
            apps: Vec::with_capacity(count as usize),
            operations: Operations::default(),
            bytes_done: 0,
        };
        let mut first = 0;
        for app in 0..count {
            let clients = (u64::from(run.clients) * u64::from(app + 1) / u64::from(count)) as u32 - first;
            let start = world.random.below(run.servers.into()) as u16;
            world.apps.push(App { first, clients, left: 0, start });
            (0..clients).for_each(|_| world.clients.push(Client { app, left: 0, server: 0, writes: 0 }));
            first += clients;
        }
        // They do not begin at one moment.
        const SPREAD_NS: u64 = 10_000_000;
        if run.scheme == Scheme::Delayed {
            (0..count).for_each(|app| {
                let at = world.random.below(SPREAD_NS);
                world.at(at, Event::Epoch { app });
            });
        } else {
            (0..run.clients).for_each(|client| {
                let at = world.random.below(SPREAD_NS);
                world.at(at, Event::Begin { client });
            });
        }
        world
    }

    fn at(&mut self, after_ns: u64, event: Event) {
        self.agenda.note(self.now + after_ns, event);
    }

    /// Runs until as many batches are done, or fewer if `is_enough` of them or the events run out.
    pub(super) fn run(mut self, is_enough: impl Fn(&[u64]) -> bool) -> Outcome {
        let batch_ns = self.run.batch_ns;
        let (mut batches, mut before, mut end) = (Vec::new(), 0, batch_ns * (1 + self.run.warm_up_batches));
        let mut is_warm = false;
        while let Some(time) = self.agenda.first_at() {
            while time >= end {
                if is_warm {
                    batches.push(self.bytes_done - before);
                }
                is_warm = true;
                before = self.bytes_done;
                end += batch_ns;
                if time < end {
                    break;
                }
            }
            let over = batches.len() as u64 >= self.run.batches_most || self.handled >= self.run.events_most;
            if over || is_enough(&batches) {
                break;
            }
            let Some((time, event)) = self.agenda.take() else { break };
            self.now = time;
            // A server that is woken begins what came, which counts when it begins.
            self.handled += u64::from(!matches!(event, Event::Wake { .. }));
            self.handle(event);
        }
        Outcome {
            batches,
            batch_ns,
            operations: self.operations,
            per_server: self.per_server,
            ended_ns: self.now,
            events: self.handled,
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Wake { server } => {
                if self.servers[server as usize].wakes_at == Some(self.now) {
                    self.servers[server as usize].wakes_at = None;
                }
                self.start(server);
            }
            Event::Done { server, io } => {
                let io = self.take(io);
                self.servers[server as usize].busy -= 1;
                self.done(server, io);
                self.start(server);
            }
            Event::Merged { server, io } => {
                let io = self.take(io);
                self.done(server, io);
            }
            Event::Begin { client } if self.has_done_all(client) => {}
            Event::Begin { client } => self.begin(client),
            Event::UnitCame { app } => {
                self.apps[app as usize].left -= 1;
                if self.apps[app as usize].left == 0 {
                    self.seal(app);
                }
            }
            Event::Epoch { app } if self.has_done_all(self.apps[app as usize].first) => {}
            Event::Epoch { app } => self.epoch(app),
        }
    }

    fn has_done_all(&self, client: u32) -> bool {
        self.run.writes_each.is_some_and(|most| self.clients[client as usize].writes >= most)
    }

    fn keep(&mut self, io: Io) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.ios[place as usize] = io;
                place
            }
            None => {
                self.ios.push(io);
                self.ios.len() as u32 - 1
            }
        }
    }

    fn take(&mut self, place: u32) -> Io {
        self.free.push(place);
        self.ios[place as usize]
    }

    /// The server of a client's next write, and whether that is by chance.
    fn data_server(&mut self, client: u32) -> u16 {
        match self.run.placement {
            Placement::Random => self.random.below(self.run.servers.into()) as u16,
            Placement::Striped => {
                let Client { app, writes, .. } = self.clients[client as usize];
                let App { first, clients, start, .. } = self.apps[app as usize];
                let place = u64::from(writes) * u64::from(clients) + u64::from(client - first);
                let unit = place * u64::from(self.run.write_bytes) / u64::from(self.run.unit_bytes);
                ((u64::from(start) + unit) % u64::from(self.run.servers)) as u16
            }
        }
    }

    /// The server of parity number `i` of what an application writes now.
    fn parity_server(&mut self, app: u32, i: u32) -> u16 {
        let servers = u64::from(self.run.servers);
        match self.run.placement {
            Placement::Random => self.random.below(servers) as u16,
            Placement::Striped => {
                let start = u64::from(self.apps[app as usize].start);
                ((start + 2 * servers - 1 - u64::from(i)) % servers) as u16
            }
        }
    }

    /// When bytes that leave now have come: through the sender's link and the receiver's, each
    /// serving one at a time.
    fn transfer(&mut self, from: Option<u16>, to: Option<u16>, bytes: u64) -> u64 {
        let network = &self.run.network;
        let bytes = bytes + network.header_bytes;
        let out = match from {
            Some(server) => {
                let free = &mut self.servers[server as usize].out_free;
                *free = self.now.max(*free) + ns_of(bytes, network.server_bytes_per_s);
                *free
            }
            None => self.now + ns_of(bytes, network.client_bytes_per_s),
        };
        let came = out + network.latency_ns;
        match to {
            Some(server) => {
                let free = &mut self.servers[server as usize].in_free;
                // Both ends work at once on a long message: the receiver is busy for its length,
                // not after it.
                *free = came.max(*free + ns_of(bytes, network.server_bytes_per_s));
                *free
            }
            None => came,
        }
    }

    fn send(&mut self, from: Option<u16>, to: u16, bytes: u64, io: Io) {
        let came = self.transfer(from, Some(to), bytes);
        self.servers[to as usize].queue.push(came, io);
        self.start(to);
    }

    fn begin(&mut self, client: u32) {
        let run = self.run;
        let bytes = run.write_bytes;
        if run.reads_per_mille > 0 && self.random.below(1000) < u64::from(run.reads_per_mille) {
            let server = self.random.below(run.servers.into()) as u16;
            let io = Io { bytes, is_write: false, in_log: false, then: Then::Read, who: client };
            self.send(None, server, 0, io);
            return;
        }
        let server = self.data_server(client);
        let app = self.clients[client as usize].app;
        let parities = self.parities(client);
        let state = &mut self.clients[client as usize];
        (state.server, state.writes) = (server, state.writes + 1);
        match run.scheme {
            Scheme::Raid0 => {
                state.left = 1;
                let io = Io { bytes, is_write: true, in_log: false, then: Then::Part, who: client };
                self.send(None, server, bytes.into(), io);
            }
            Scheme::Std => {
                state.left = parities as u16;
                let io = Io { bytes, is_write: false, in_log: false, then: Then::WriteData, who: client };
                self.send(None, server, bytes.into(), io);
            }
            Scheme::Wcl => {
                state.left = 1 + parities as u16;
                let io = Io { bytes, is_write: true, in_log: true, then: Then::Part, who: client };
                self.send(None, server, bytes.into(), io);
                for i in 0..parities {
                    let parity = self.parity_server(app, i);
                    let io =
                        Io { bytes, is_write: false, in_log: false, then: Then::WriteParity, who: client };
                    self.send(None, parity, bytes.into(), io);
                }
            }
            Scheme::Delayed => {
                let io = Io { bytes, is_write: true, in_log: true, then: Then::Wrote, who: client };
                self.send(None, server, bytes.into(), io);
            }
        }
    }

    /// Parities that a client's next write changes: by the code, unit after unit.
    fn parities(&self, client: u32) -> u32 {
        let of = &self.run.parities;
        let place = self.clients[client as usize].writes.wrapping_add(client);
        of[place as usize % of.len()]
    }

    fn enqueue(&mut self, server: u16, io: Io) {
        self.servers[server as usize].queue.push_here(self.now, io);
        self.start(server);
    }

    /// Begins what the device has a channel for.
    fn start(&mut self, server: u16) {
        while self.servers[server as usize].busy < self.device.channels {
            let now = self.now;
            let state = &mut self.servers[server as usize];
            let Some(io) = state.queue.pop_if(now, |_| true) else {
                let Some(came) = state.queue.comes_at() else { return };
                if state.wakes_at.is_none_or(|at| at > came) {
                    state.wakes_at = Some(came);
                    self.agenda.note(came, Event::Wake { server });
                }
                return;
            };
            self.handled += 1;
            let in_order = self.run.log == Log::Sequential && io.in_log && io.is_write;
            let follows = in_order && self.servers[server as usize].last_in_log;
            self.servers[server as usize].last_in_log = io.in_log && io.is_write;
            self.servers[server as usize].busy += 1;
            self.count(server, &io);
            let mut bytes = u64::from(io.bytes);
            // Neighbours in the log that wait are written with it.
            let mut merged = Vec::new();
            while in_order && merged.len() + 1 < self.device.merge_most as usize {
                let queue = &mut self.servers[server as usize].queue;
                let Some(next) = queue.pop_if(now, |io| io.in_log && io.is_write) else { break };
                self.handled += 1;
                bytes += u64::from(next.bytes);
                self.count(server, &next);
                merged.push(next);
            }
            let ns = self.service_ns(io.is_write, bytes, follows);
            let io = self.keep(io);
            self.at(ns, Event::Done { server, io });
            for one in merged {
                let io = self.keep(one);
                self.at(ns, Event::Merged { server, io });
            }
        }
    }

    /// How long a device takes; `follows`: it is where the last one ended.
    fn service_ns(&mut self, is_write: bool, bytes: u64, follows: bool) -> u64 {
        if let Some(times) = &self.device.service {
            // A log does not say what followed what: the fastest that was seen did.
            let quantile = if follows { 0 } else { self.random.below(65_536) };
            return times.at(is_write, bytes, quantile);
        }
        let position = match follows {
            true => 0,
            false => self.device.position_ns * (500 + self.random.below(1000)) / 1000,
        };
        let rate = if is_write { self.device.write_bytes_per_s } else { self.device.read_bytes_per_s };
        position + ns_of(bytes, rate)
    }

    fn count(&mut self, server: u16, io: &Io) {
        self.per_server[server as usize] += 1;
        let counts = &mut self.operations;
        *match (io.then, io.is_write) {
            (Then::Read, _) => &mut counts.user_reads,
            (Then::MovedRead | Then::Moved, _) => &mut counts.move_back,
            (Then::WriteParity, _) => &mut counts.parity_reads,
            (Then::ParityWritten, _) => &mut counts.parity_writes,
            (Then::Part, true) if !io.in_log && self.run.scheme != Scheme::Raid0 => &mut counts.parity_writes,
            (_, true) => &mut counts.data_writes,
            (_, false) => &mut counts.data_reads,
        } += 1;
    }

    fn done(&mut self, server: u16, io: Io) {
        let Io { bytes, who, .. } = io;
        match io.then {
            Then::Read => {
                self.bytes_done += u64::from(bytes);
                let came = self.transfer(Some(server), None, bytes.into());
                self.at(came - self.now, Event::Begin { client: who });
            }
            Then::Part => {
                let client = &mut self.clients[who as usize];
                client.left -= 1;
                if client.left == 0 {
                    self.acknowledge(who);
                }
            }
            Then::WriteData => {
                self.enqueue(server, Io { is_write: true, then: Then::Parities, ..io });
            }
            Then::Parities => {
                let (app, parities) = (self.clients[who as usize].app, self.clients[who as usize].left);
                if parities == 0 {
                    self.acknowledge(who);
                }
                for i in 0..u32::from(parities) {
                    let parity = self.parity_server(app, i);
                    let io = Io { bytes, is_write: false, in_log: false, then: Then::WriteParity, who };
                    self.send(Some(server), parity, bytes.into(), io);
                }
            }
            Then::WriteParity => {
                self.enqueue(server, Io { is_write: true, then: Then::Part, ..io });
            }
            Then::Wrote => {
                let app = self.clients[who as usize].app;
                self.apps[app as usize].left -= 1;
                if self.apps[app as usize].left == 0 {
                    self.end(app);
                }
            }
            Then::UnitRead => {
                let parity = self.parity_server(who, 0);
                let came = self.transfer(Some(server), Some(parity), bytes.into());
                self.at(came - self.now, Event::UnitCame { app: who });
            }
            Then::ParityWritten => {
                self.apps[who as usize].left -= 1;
                if self.apps[who as usize].left == 0 {
                    let app = &self.apps[who as usize];
                    let writes = u64::from(app.clients);
                    self.operations.acknowledged += writes;
                    self.operations.epochs += 1;
                    self.bytes_done += writes * u64::from(self.run.write_bytes);
                    let came = self.transfer(None, None, 0);
                    self.at(came - self.now, Event::Epoch { app: who });
                }
            }
            Then::MovedRead => {
                self.enqueue(server, Io { is_write: true, in_log: false, then: Then::Moved, ..io });
            }
            Then::Moved => {}
        }
    }

    fn acknowledge(&mut self, client: u32) {
        self.operations.acknowledged += 1;
        self.bytes_done += u64::from(self.run.write_bytes);
        if self.run.move_back && self.run.scheme == Scheme::Wcl {
            let server = self.clients[client as usize].server;
            let bytes = self.run.write_bytes;
            self.enqueue(
                server,
                Io { bytes, is_write: false, in_log: true, then: Then::MovedRead, who: client },
            );
        }
        let came = self.transfer(None, None, 0);
        self.at(came - self.now, Event::Begin { client });
    }

    fn epoch(&mut self, app: u32) {
        let App { first, clients, .. } = self.apps[app as usize];
        self.apps[app as usize].left = clients;
        (first..first + clients).for_each(|client| self.begin(client));
    }

    /// The master has ended the epoch: what was written is read, unit by unit.
    fn end(&mut self, app: u32) {
        let all = u64::from(self.apps[app as usize].clients) * u64::from(self.run.write_bytes);
        let unit = all.min(self.run.unit_bytes.into());
        let units = all.div_ceil(unit);
        self.apps[app as usize].left = units as u32;
        for i in 0..units {
            let server = match self.run.placement {
                Placement::Random => self.random.below(self.run.servers.into()) as u16,
                Placement::Striped => {
                    ((u64::from(self.apps[app as usize].start) + i) % u64::from(self.run.servers)) as u16
                }
            };
            let io =
                Io { bytes: unit as u32, is_write: false, in_log: false, then: Then::UnitRead, who: app };
            self.send(None, server, 0, io);
        }
    }

    /// All units are there: every parity is written once.
    fn seal(&mut self, app: u32) {
        let all = u64::from(self.apps[app as usize].clients) * u64::from(self.run.write_bytes);
        let unit = all.min(self.run.unit_bytes.into());
        let parities = self.run.parities.iter().copied().max().unwrap_or(0);
        self.apps[app as usize].left = parities.max(1);
        for i in 0..parities.max(1) {
            let server = self.parity_server(app, i);
            let io =
                Io { bytes: unit as u32, is_write: true, in_log: false, then: Then::ParityWritten, who: app };
            self.enqueue(server, io);
        }
        if self.run.move_back {
            for i in 0..all.div_ceil(unit) {
                let server =
                    ((u64::from(self.apps[app as usize].start) + i) % u64::from(self.run.servers)) as u16;
                let io =
                    Io { bytes: unit as u32, is_write: false, in_log: true, then: Then::MovedRead, who: 0 };
                self.enqueue(server, io);
            }
        }
    }
}
