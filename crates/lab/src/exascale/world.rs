//! One run: clients, servers with queues and devices, links; events in integer nanoseconds.
//!
//! Every client has at most one request under way. Its progress is stored in the inputs and
//! outputs queued for it. Memory is a few bytes per client and 32 bytes per queued input or
//! output, and few events are pending at a time.
//!
//! Links are serial, so messages reach a server in the order in which they were sent: each is
//! queued at once, with the time of its arrival. Only an idle server needs a wake-up for it; a
//! busy one costs no pending event.
//!
//! The chains, per write of a client (q parities):
//!
//! * raid0: write data;
//! * std: read old data, write data, then at every parity's server side by side: read old parity,
//!   write parity;
//! * wcl: write data into the cache zone, and at the same time at every parity's server: read
//!   parity, write parity;
//! * delayed: all clients of an application write. After the last, every filled unit is read where
//!   it was written and sent to the server of each of its parities. Each parity of each stripe is
//!   written once, and then all clients continue.
//!
//! Place of a write: an application has its own file. Its clients' writes number `n` are side by
//! side from the beginning of a stripe on; with own regions, one after the other in the client's
//! region. The placement decides the server of a unit and those of its parities. Writes in one
//! unit change the same range of its parities, so that the end of an epoch reads, sends and writes
//! whole units; if stripes of a round are aligned, their parities are one write: Figure 2 on the
//! wire.

use super::model::{Device, Log, Message, Placement, Run, Scheme, ns_of};
use pantile_sim::Random;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

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
    /// Transfers of units or parts of units from a server to that of a parity.
    pub sent_to_parity: u64,
    /// Their bytes, without headers.
    pub bytes_to_parity: u64,
}

impl Operations {
    /// Returns all reads and writes except those that bring data back from the cache zone.
    pub fn all(&self) -> u64 {
        self.data_reads + self.data_writes + self.parity_reads + self.parity_writes + self.user_reads
    }
}

/// Results of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Bytes acknowledged in each batch after the warm-up.
    pub batches: Vec<u64>,
    /// Nanoseconds of a batch.
    pub batch_ns: u64,
    /// Operations of devices, from the beginning.
    pub operations: Operations,
    /// Accesses of each server.
    pub per_server: Vec<u64>,
    /// Time of the last event, in nanoseconds from the beginning.
    pub ended_ns: u64,
    /// Number of events: arrivals at a server, completed inputs and outputs, and all steps of
    /// clients and applications.
    pub events: u64,
}

/// Step that follows an input or output.
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
    /// The client; at the end of an epoch the application.
    who: u32,
    /// The unit, at the end of an epoch.
    unit: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// The first operation of a server's queue has arrived, and the server waits for it.
    Wake { server: u16 },
    /// A device has completed the operation with this index, and has a free channel.
    Done { server: u16, io: u32 },
    /// An operation that was merged with another is done.
    Merged { server: u16, io: u32 },
    /// A client begins its next write.
    Begin { client: u32 },
    /// A unit has arrived at the server of a parity.
    UnitCame { app: u32 },
    /// An application begins its next epoch.
    Epoch { app: u32 },
}

impl Event {
    /// Packs an event into 51 bits.
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

/// Pending events, the soonest first; events of one nanosecond in the order in which they were
/// added.
#[derive(Default)]
struct Agenda {
    pending: BinaryHeap<Reverse<(u64, u64)>>,
    noted: u64,
}

impl Agenda {
    fn note(&mut self, at: u64, event: Event) {
        self.noted += 1;
        // The low 13 bits of the count keep the order of events in one nanosecond. There are never
        // so many of them; if there were, the order would still be total.
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

/// Operations of a server, in the order of their arrival.
#[derive(Default)]
struct Queue {
    here: VecDeque<Io>,
    /// Operations on their way, each with its time of arrival; they follow those in `here`.
    coming: VecDeque<(u64, Io)>,
}

impl Queue {
    /// Adds an operation that arrives no earlier than all others.
    fn push(&mut self, at: u64, io: Io) {
        self.coming.push_back((at, io));
    }

    /// Adds an operation that begins at this server now, before all operations on their way, of
    /// which there can be very many.
    fn push_here(&mut self, now: u64, io: Io) {
        while let Some(&(at, io)) = self.coming.front()
            && at <= now
        {
            self.coming.pop_front();
            self.here.push_back(io);
        }
        self.here.push_back(io);
    }

    /// Removes the first operation that has arrived, if it is wanted.
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

    /// Returns the arrival of the first operation on its way.
    fn comes_at(&self) -> Option<u64> {
        self.coming.front().map(|(at, _)| *at)
    }
}

struct Server {
    queue: Queue,
    /// Time of the pending wake-up, if any.
    wakes_at: Option<u64>,
    busy: u32,
    last_in_log: bool,
    in_free: u64,
    out_free: u64,
}

#[derive(Clone, Copy)]
struct Client {
    app: u32,
    /// Unfinished parts of the request under way.
    left: u16,
    writes: u32,
    /// The unit of the application's file that the client writes.
    unit: u64,
}

struct App {
    first: u32,
    clients: u32,
    left: u32,
    start: u16,
    /// Random bits that choose the servers of its stripes.
    draw: u64,
}

/// The state of a run.
pub(super) struct World<'r> {
    run: &'r Run,
    device: &'r Device,
    random: Random,
    now: u64,
    agenda: Agenda,
    handled: u64,
    /// Active inputs and outputs; `free` lists the unused indexes.
    ios: Vec<Io>,
    free: Vec<u32>,
    servers: Vec<Server>,
    per_server: Vec<u64>,
    clients: Vec<Client>,
    apps: Vec<App>,
    operations: Operations,
    bytes_done: u64,
    /// Strides that visit all servers before they return: numbers coprime to the number of servers.
    steps: Vec<u64>,
    /// Number of writes that a stripe still lacks, by application and stripe, if data is moved
    /// back.
    unfilled: HashMap<(u32, u64), u32>,
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
            steps: steps(run.servers.into()),
            unfilled: HashMap::new(),
        };
        let mut first = 0;
        for app in 0..count {
            let clients = (u64::from(run.clients) * u64::from(app + 1) / u64::from(count)) as u32 - first;
            let start = world.random.below(run.servers.into()) as u16;
            let draw = world.random.bits();
            world.apps.push(App { first, clients, left: 0, start, draw });
            (0..clients).for_each(|_| world.clients.push(Client { app, left: 0, writes: 0, unit: 0 }));
            first += clients;
        }
        // Clients begin at different moments.
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

    /// Runs until the batches are done, or earlier if `is_enough` of them or the events run out.
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
            // The wake-up of a server is not counted: the operation that begins counts as the
            // event.
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

    /// Returns the unit of the application's file for a client's next write.
    fn next_unit(&self, client: u32) -> u64 {
        let run = self.run;
        let Client { app, writes, .. } = self.clients[client as usize];
        let first = self.apps[app as usize].first;
        let (place, unit) = (u64::from(client - first), u64::from(run.unit_bytes));
        if run.has_own_regions && run.scheme != Scheme::Delayed {
            let of_each = u64::from(run.writes_each.unwrap_or(1));
            return (place * of_each + u64::from(writes)) * u64::from(run.write_bytes) / unit;
        }
        let beside = place * u64::from(run.bytes_of_write(writes)) / unit;
        u64::from(writes) * self.units_apart(app) + beside
    }

    /// Returns the distance between the units of two rounds of writes: whole stripes.
    fn units_apart(&self, app: u32) -> u64 {
        self.units(app, self.run.write_bytes).div_ceil(self.run.stripe.data()) * self.run.stripe.data()
    }

    /// Returns the number of units that a round of writes of an application fills, the last
    /// perhaps in part.
    fn units(&self, app: u32, write_bytes: u32) -> u64 {
        let all = u64::from(self.apps[app as usize].clients) * u64::from(write_bytes);
        all.div_ceil(self.run.unit_bytes.into()).max(1)
    }

    /// Returns the bytes of a unit that a round of writes fills.
    fn filled(&self, app: u32, write_bytes: u32, unit: u64) -> u32 {
        let all = u64::from(self.apps[app as usize].clients) * u64::from(write_bytes);
        let of_unit = u64::from(self.run.unit_bytes);
        (all - (unit * of_unit).min(all)).min(of_unit) as u32
    }

    /// Returns the server of a position in a stripe; positions count units of data, then parities.
    fn seat(&self, app: u32, stripe: u64, position: u64) -> u16 {
        let servers = u64::from(self.run.servers);
        let App { start, draw, .. } = self.apps[app as usize];
        let seat = match self.run.placement {
            Placement::Striped => {
                let width = self.run.stripe.data() + self.run.stripe.parities();
                // If the width is a multiple of the number of servers, all stripes would have their
                // parity on the same servers.
                let step = if width.is_multiple_of(servers) { 1 } else { width % servers };
                u64::from(start) + stripe % servers * step + position
            }
            Placement::Aligned => {
                let stripes = self.units_apart(app) / self.run.stripe.data();
                u64::from(start) + stripe / stripes % servers + position
            }
            Placement::Random => {
                let drawn = mixed(draw ^ mixed(stripe));
                let step = self.steps[(drawn >> 32) as usize % self.steps.len()];
                drawn % servers + position % servers * step
            }
        };
        (seat % servers) as u16
    }

    /// Returns the server of a unit.
    fn home(&self, app: u32, unit: u64) -> u16 {
        let data = self.run.stripe.data();
        self.seat(app, unit / data, unit % data)
    }

    /// Returns the server of a parity of a unit's stripe.
    fn parity_home(&self, app: u32, unit: u64, parity: u32) -> u16 {
        let data = self.run.stripe.data();
        self.seat(app, unit / data, data + u64::from(parity))
    }

    /// Returns the parities that a unit changes.
    fn changed(&self, unit: u64) -> &'r [u32] {
        let run: &'r Run = self.run;
        run.stripe.changed(unit % run.stripe.data())
    }

    /// Returns the arrival of bytes that leave now, through the sender's link and the receiver's,
    /// each serving one message at a time.
    fn transfer(&mut self, from: Option<u16>, to: Option<u16>, message: Message, bytes: u64) -> u64 {
        let network = &self.run.network;
        let bytes = bytes + network.messages.bytes(message);
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
                // Both ends work at once on a long message: the receiver is busy during its
                // length, not after it.
                *free = came.max(*free + ns_of(bytes, network.server_bytes_per_s));
                *free
            }
            None => came,
        }
    }

    fn send(&mut self, from: Option<u16>, to: u16, message: Message, bytes: u64, io: Io) {
        let came = self.transfer(from, Some(to), message, bytes);
        self.servers[to as usize].queue.push(came, io);
        self.start(to);
    }

    fn begin(&mut self, client: u32) {
        let run = self.run;
        if run.reads_per_mille > 0 && self.random.below(1000) < u64::from(run.reads_per_mille) {
            let server = self.random.below(run.servers.into()) as u16;
            let bytes = run.write_bytes;
            let io = Io { bytes, is_write: false, in_log: false, then: Then::Read, who: client, unit: 0 };
            self.send(None, server, Message::Read, 0, io);
            return;
        }
        let unit = self.next_unit(client);
        let app = self.clients[client as usize].app;
        let server = self.home(app, unit);
        let changed = self.changed(unit);
        let state = &mut self.clients[client as usize];
        let bytes = run.bytes_of_write(state.writes);
        (state.unit, state.writes) = (unit, state.writes + 1);
        let data = Io { bytes, is_write: true, in_log: true, then: Then::Part, who: client, unit: 0 };
        match run.scheme {
            Scheme::Raid0 => {
                state.left = 1;
                self.send(None, server, Message::Write, bytes.into(), Io { in_log: false, ..data });
            }
            Scheme::Std => {
                state.left = changed.len() as u16;
                let io = Io { is_write: false, in_log: false, then: Then::WriteData, ..data };
                self.send(None, server, Message::Write, bytes.into(), io);
            }
            Scheme::Wcl => {
                state.left = 1 + changed.len() as u16;
                self.send(None, server, Message::Write, bytes.into(), data);
                for &parity in changed {
                    let io = Io { is_write: false, in_log: false, then: Then::WriteParity, ..data };
                    let home = self.parity_home(app, unit, parity);
                    self.send(None, home, Message::Write, bytes.into(), io);
                }
            }
            Scheme::Delayed => {
                let io = Io { then: Then::Wrote, ..data };
                self.send(None, server, Message::Write, bytes.into(), io);
            }
        }
    }

    /// Counts a part of a unit that goes from its server to that of a parity.
    fn count_sent(&mut self, bytes: u32) {
        self.operations.sent_to_parity += 1;
        self.operations.bytes_to_parity += u64::from(bytes);
    }

    fn enqueue(&mut self, server: u16, io: Io) {
        self.servers[server as usize].queue.push_here(self.now, io);
        self.start(server);
    }

    /// Begins operations while the device has a free channel.
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
            // Waiting neighbours in the log are written with it.
            let mut merged = Vec::new();
            while in_order && merged.len() + 1 < self.device.merge_most as usize {
                let queue = &mut self.servers[server as usize].queue;
                let Some(next) = queue.pop_if(now, |io| io.in_log && io.is_write) else { break };
                self.handled += 1;
                bytes += u64::from(next.bytes);
                self.count(server, &next);
                merged.push(next);
            }
            let ns = self.device.service_ns(io.is_write, bytes, follows, &mut self.random);
            let io = self.keep(io);
            self.at(ns, Event::Done { server, io });
            for one in merged {
                let io = self.keep(one);
                self.at(ns, Event::Merged { server, io });
            }
        }
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
                let came = self.transfer(Some(server), None, Message::Data, bytes.into());
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
                let Client { app, unit, .. } = self.clients[who as usize];
                let changed = self.changed(unit);
                if changed.is_empty() {
                    self.acknowledge(who);
                }
                for &parity in changed {
                    let io = Io { is_write: false, then: Then::WriteParity, ..io };
                    let home = self.parity_home(app, unit, parity);
                    self.count_sent(bytes);
                    self.send(Some(server), home, Message::Write, bytes.into(), io);
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
                let unit = self.epoch_unit(who, u64::from(io.unit));
                for &parity in self.changed(unit) {
                    let home = self.parity_home(who, unit, parity);
                    self.count_sent(bytes);
                    let came = self.transfer(Some(server), Some(home), Message::Write, bytes.into());
                    self.at(came - self.now, Event::UnitCame { app: who });
                }
            }
            Then::ParityWritten => {
                self.apps[who as usize].left -= 1;
                if self.apps[who as usize].left == 0 {
                    self.acknowledge_epoch(who);
                }
            }
            Then::MovedRead => {
                self.enqueue(server, Io { is_write: true, in_log: false, then: Then::Moved, ..io });
            }
            Then::Moved => {}
        }
    }

    fn acknowledge(&mut self, client: u32) {
        let Client { app, unit, writes, .. } = self.clients[client as usize];
        self.operations.acknowledged += 1;
        self.bytes_done += u64::from(self.run.bytes_of_write(writes - 1));
        if self.run.move_back && self.run.scheme == Scheme::Wcl {
            self.fill(app, unit, writes - 1);
        }
        let came = self.transfer(None, None, Message::Written, 0);
        self.at(came - self.now, Event::Begin { client });
    }

    fn acknowledge_epoch(&mut self, app: u32) {
        let writes = u64::from(self.apps[app as usize].clients);
        self.operations.acknowledged += writes;
        self.operations.epochs += 1;
        self.bytes_done += writes * u64::from(self.epoch_write_bytes(app));
        let came = self.transfer(None, None, Message::Written, 0);
        self.at(came - self.now, Event::Epoch { app });
    }

    /// Counts a write of a stripe. After the last one of the round, the stripe is moved back: its
    /// units and parities are read and written as a whole.
    fn fill(&mut self, app: u32, unit: u64, round: u32) {
        let data = self.run.stripe.data();
        let bytes = self.run.bytes_of_write(round);
        let stripe = unit / data;
        let (first, units) = (u64::from(round) * self.units_apart(app), self.units(app, bytes));
        let begin = stripe * data - first;
        let held = (units - begin).min(data);
        let clients = u64::from(self.apps[app as usize].clients);
        // Writes of the round that begin in the stripe.
        let until =
            |unit: u64| (unit * u64::from(self.run.unit_bytes)).div_ceil(u64::from(bytes)).min(clients);
        let writes = (until(begin + held) - until(begin)) as u32;
        let left = self.unfilled.entry((app, stripe)).or_insert(writes);
        *left -= 1;
        if *left > 0 {
            return;
        }
        self.unfilled.remove(&(app, stripe));
        for i in 0..held {
            let bytes = self.filled(app, bytes, begin + i);
            let home = self.home(app, stripe * data + i);
            self.move_unit(home, bytes, Then::MovedRead);
        }
        for parity in self.run.stripe.written(held) {
            let bytes = self.filled(app, bytes, begin);
            let home = self.parity_home(app, stripe * data, parity);
            self.move_unit(home, bytes, Then::MovedRead);
        }
    }

    /// Moves a unit back on its server: read and written, or only written if it was just read.
    fn move_unit(&mut self, server: u16, bytes: u32, then: Then) {
        let is_write = then == Then::Moved;
        self.enqueue(server, Io { bytes, is_write, in_log: !is_write, then, who: 0, unit: 0 });
    }

    fn epoch(&mut self, app: u32) {
        let App { first, clients, .. } = self.apps[app as usize];
        self.apps[app as usize].left = clients;
        (first..first + clients).for_each(|client| self.begin(client));
    }

    /// Returns the bytes of each write of the epoch that an application is in, or has just ended.
    fn epoch_write_bytes(&self, app: u32) -> u32 {
        self.run.bytes_of_write(self.clients[self.apps[app as usize].first as usize].writes - 1)
    }

    /// Returns the number, within the application's file, of unit `i` of the epoch that the
    /// application is in or has just ended.
    fn epoch_unit(&self, app: u32, i: u64) -> u64 {
        let round = self.clients[self.apps[app as usize].first as usize].writes - 1;
        u64::from(round) * self.units_apart(app) + i
    }

    /// Ends an epoch by its master: the written units are read, one by one, on their servers.
    fn end(&mut self, app: u32) {
        let bytes = self.epoch_write_bytes(app);
        let units = self.units(app, bytes);
        let sent: usize = (0..units).map(|i| self.changed(self.epoch_unit(app, i)).len()).sum();
        if sent == 0 {
            // No unit has a parity.
            self.acknowledge_epoch(app);
            return;
        }
        self.apps[app as usize].left = sent as u32;
        for i in (0..units).filter(|&i| !self.changed(self.epoch_unit(app, i)).is_empty()).collect::<Vec<_>>()
        {
            let home = self.home(app, self.epoch_unit(app, i));
            let bytes = self.filled(app, bytes, i);
            let io =
                Io { bytes, is_write: false, in_log: false, then: Then::UnitRead, who: app, unit: i as u32 };
            self.send(None, home, Message::Read, 0, io);
        }
    }

    /// Writes every parity of every stripe once, when all units have arrived. Units read for it
    /// are still in memory and can be moved back.
    fn seal(&mut self, app: u32) {
        let run = self.run;
        let (data, write_bytes) = (run.stripe.data(), self.epoch_write_bytes(app));
        let units = self.units(app, write_bytes);
        let mut parities: Vec<(u16, u32)> = Vec::new();
        for begin in (0..units).step_by(data as usize) {
            let unit = self.epoch_unit(app, begin);
            let bytes = self.filled(app, write_bytes, begin);
            for parity in run.stripe.written((units - begin).min(data)) {
                let home = self.parity_home(app, unit, parity);
                match parities.iter_mut().find(|one| one.0 == home && run.placement == Placement::Aligned) {
                    // Extends the write of the stripe before.
                    Some(one) => one.1 = one.1.saturating_add(bytes),
                    None => parities.push((home, bytes)),
                }
            }
        }
        self.apps[app as usize].left = parities.len() as u32;
        for (home, bytes) in parities {
            let then = Then::ParityWritten;
            self.enqueue(home, Io { bytes, is_write: true, in_log: false, then, who: app, unit: 0 });
        }
        if run.move_back {
            for i in 0..units {
                let home = self.home(app, self.epoch_unit(app, i));
                let bytes = self.filled(app, write_bytes, i);
                self.move_unit(home, bytes, Then::Moved);
            }
        }
    }
}

/// Returns strides that reach every one of `servers` servers.
fn steps(servers: u64) -> Vec<u64> {
    let divisor = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    (1..=servers.max(1)).filter(|&step| divisor(step, servers.max(1)) == 1).collect()
}

/// Returns pseudorandom bits: the finaliser of SplitMix64.
fn mixed(bits: u64) -> u64 {
    let bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}
