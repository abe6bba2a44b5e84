//! A small world: random writes, reads, trims and flushes against a model, with a crash at a random moment in which
//! unflushed writes are kept or dropped one by one and devices are lost, again and again on the same disks.

use pantile_code::Code;
use pantile_format::Generation;
use pantile_format::volume::{ChunkHeader, HistoryId, VolumeId, block_checksum};
use pantile_gf::Gf;
use pantile_volume::*;
use std::collections::BTreeMap;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// A block of user data is 16 bytes here; the engine cannot tell.
const CONTENT: usize = 16;
const VOLUME: VolumeId = VolumeId(*b"a little volume!");

type Content = Vec<u8>;

#[derive(Clone, Default)]
struct Disk {
    durable: BTreeMap<u64, Content>,
    unflushed: Vec<(u64, Content)>,
    gone: bool,
}

impl Disk {
    fn read(&self, at: u64) -> Content {
        let newest = self.unflushed.iter().rev().find(|(a, _)| *a == at).map(|(_, c)| c);
        newest.or_else(|| self.durable.get(&at)).cloned().unwrap_or_else(|| vec![0; CONTENT])
    }

    fn flush(&mut self) {
        for (at, content) in self.unflushed.drain(..) {
            self.durable.insert(at, content);
        }
    }

    fn crash(&mut self, random: &mut Random) {
        let keep = random.below(4);
        for (at, content) in std::mem::take(&mut self.unflushed) {
            let kept = match keep {
                0 => false,
                1 => true,
                _ => random.below(2) == 0,
            };
            if kept {
                self.durable.insert(at, content);
            }
        }
    }
}

fn checksum(content: &[u8], seed: Seed) -> u64 {
    block_checksum(VOLUME, seed.slot, seed.address, Generation(seed.generation), content).0
}

struct World {
    disks: Vec<Disk>,
    buffers: BTreeMap<BufferId, Content>,
    pending: Vec<Action>,
    replies: Vec<(RequestId, Reply, Vec<Option<Content>>)>,
    random: Random,
    /// Every chunk header ever written, by generation.
    headers: BTreeMap<(Generation, Slot), Vec<u8>>,
    journal: DeviceBlock,
    /// Records that went on at the beginning of the ring, one for each device.
    around: usize,
}

impl World {
    /// A generation names one content: what it does not name apart cannot be told apart after a crash.
    fn watch(&mut self, slot: Slot, at: DeviceBlock, bytes: &[u8]) {
        self.around += usize::from(at == self.journal && !bytes.starts_with(b"PANTRECD"));
        let Ok(header) = ChunkHeader::decode(bytes, VOLUME) else { return };
        let old = self.headers.insert((header.generation, slot), bytes.to_vec());
        assert!(old.is_none_or(|old| old == bytes), "{:?} is used twice", header.generation);
    }

    fn content(&self, operand: Operand) -> Content {
        match operand {
            Operand::Zeros => vec![0; CONTENT],
            Operand::Buffer(buffer) => self.buffers[&buffer].clone(),
        }
    }

    /// Takes actions from an engine: replies and releases at once and in order, the rest later and in any order.
    fn take(&mut self, action: Action) {
        match action {
            Action::Reply(id, reply) => {
                let contents = match &reply {
                    Reply::Read(blocks) => {
                        blocks.iter().map(|b| b.map(|b| self.buffers[&b].clone())).collect()
                    }
                    _ => Vec::new(),
                };
                self.replies.push((id, reply, contents));
            }
            Action::Release(buffer) => {
                self.buffers.remove(&buffer);
            }
            other => self.pending.push(other),
        }
    }

    /// Performs one pending action, if there is one.
    fn step(&mut self) -> Option<Event> {
        if self.pending.is_empty() {
            return None;
        }
        let action = self.pending.swap_remove(self.random.below(self.pending.len()));
        Some(match action {
            Action::Read { io, slot, at, into, generation, .. } => {
                let disk = &self.disks[slot.0 as usize];
                if disk.gone {
                    return Some(Event::IoDone(io, IoResult::Gone));
                }
                let mut sums = Vec::new();
                for (i, buffer) in into.into_iter().enumerate() {
                    let address = DeviceBlock(at.0 + i as u64);
                    let content = disk.read(address.0);
                    sums.push(checksum(&content, Seed { slot, address, generation }));
                    self.buffers.insert(buffer, content);
                }
                Event::IoDone(io, IoResult::Checksums(sums))
            }
            Action::ReadBytes { io, slot, at, blocks } => {
                let disk = &self.disks[slot.0 as usize];
                if disk.gone {
                    return Some(Event::IoDone(io, IoResult::Gone));
                }
                let mut bytes = Vec::new();
                for block in 0..u64::from(blocks) {
                    let mut content = disk.read(at.0 + block);
                    content.resize(BLOCK_BYTES as usize, 0);
                    bytes.extend(content);
                }
                Event::IoDone(io, IoResult::Bytes(bytes))
            }
            Action::Write { io, slot, at, pieces, .. } => {
                let mut address = at.0;
                let mut writes = Vec::new();
                for piece in pieces {
                    match piece {
                        Piece::Block(operand) => {
                            writes.push((address, self.content(operand)));
                            address += 1;
                        }
                        Piece::Bytes(bytes) => {
                            self.watch(slot, at, &bytes);
                            for chunk in bytes.chunks(BLOCK_BYTES as usize) {
                                writes.push((address, chunk.to_vec()));
                                address += 1;
                            }
                        }
                    }
                }
                let disk = &mut self.disks[slot.0 as usize];
                if disk.gone {
                    return Some(Event::IoDone(io, IoResult::Gone));
                }
                disk.unflushed.extend(writes);
                Event::IoDone(io, IoResult::Done)
            }
            Action::Flush { io, slot } => {
                let disk = &mut self.disks[slot.0 as usize];
                if disk.gone {
                    return Some(Event::IoDone(io, IoResult::Gone));
                }
                disk.flush();
                Event::IoDone(io, IoResult::Done)
            }
            Action::Compute { job, work } => {
                for sum in work.sums {
                    let mut into = vec![0u8; CONTENT];
                    for (operand, c) in sum.terms {
                        let content = self.content(operand);
                        into.iter_mut().zip(&content).for_each(|(x, &y)| *x ^= (c * Gf(y)).0);
                    }
                    self.buffers.insert(sum.into, into);
                }
                let sums = work.checksums.iter().map(|&(o, seed)| checksum(&self.content(o), seed)).collect();
                Event::Computed(job, Computed::Checksums(sums))
            }
            Action::Release(_) | Action::Reply(..) => unreachable!("performed at once"),
        })
    }
}

fn small(spec: &str) -> Geometry {
    Geometry::new(NewVolume {
        volume: VOLUME,
        code: Code::parse(spec).unwrap(),
        element_blocks: 2,
        logical_stripes: 6,
        spare_stripes: 3,
        log_rows: 12,
        journal_blocks: 24,
    })
    .unwrap()
}

/// So much log that records are longer than a block, in the shortest journal.
fn with_long_records(spec: &str) -> Geometry {
    Geometry::new(NewVolume {
        volume: VOLUME,
        code: Code::parse(spec).unwrap(),
        element_blocks: 64,
        logical_stripes: 6,
        spare_stripes: 3,
        log_rows: 160,
        journal_blocks: 16,
    })
    .unwrap()
}

/// What may be read of one block: its content when last known durable, and everything written since.
///
/// After a crash any of them may be what is there; the first write of a life makes its own content the newest.
#[derive(Default)]
struct Known {
    contents: Vec<Content>,
    /// Contents before this one cannot be read any more in this life.
    floor: usize,
}

type Acceptable = BTreeMap<u64, Known>;

fn written(acceptable: &mut Acceptable, block: u64, content: Content) {
    if let Some(known) = acceptable.get_mut(&block) {
        known.contents.push(content);
        known.floor = known.contents.len() - 1;
    }
}

/// Lives are `length` times as long as is good for a small volume. Gives the number of records that went around the end
/// of a ring.
fn run(spec: &str, geometry: Geometry, length: usize, seed: u64) -> usize {
    let mut random = Random(seed);
    let mut world = World {
        disks: vec![Disk::default(); geometry.slots()],
        buffers: BTreeMap::new(),
        pending: Vec::new(),
        replies: Vec::new(),
        random: Random(seed ^ 0xabcd),
        headers: BTreeMap::new(),
        journal: geometry.zones(Slot(0)).journal().first,
        around: 0,
    };
    let birth = Birth { history: HistoryId([7; 16]), name: "little".into(), created: 0 };
    for (slot, at, bytes) in format_volume(&geometry, &birth).unwrap() {
        world.disks[slot.0 as usize].durable.insert(at.0, bytes);
    }
    let mut acceptable: Acceptable = (0..geometry.user_blocks())
        .map(|block| (block, Known { contents: vec![vec![0; CONTENT]], floor: 0 }))
        .collect();
    let mut next_buffer = 1;
    let mut next_request = 1;
    let mut lost = 0;
    let lives = 1 + random.below(4);
    for life in 0..=lives {
        // Open, perhaps with a device missing for good.
        if life > 0 && lost < geometry.tolerance() && random.below(3) == 0 {
            let victim = random.below(world.disks.len());
            lost += usize::from(!world.disks[victim].gone);
            world.disks[victim].gone = true;
        }
        let there: Vec<bool> = world.disks.iter().map(|d| !d.gone).collect();
        let crash_at = length * random.below(400);
        let mut steps = 0;
        let mut opening = Opening::new(geometry.clone(), &there);
        let engine = loop {
            while let Some(action) = opening.next_action() {
                world.take(action);
            }
            if let Some(done) = opening.finish() {
                break Some(done.unwrap_or_else(|e| panic!("{spec} seed {seed}: {e}")));
            }
            steps += 1;
            // A crash while opening, in all but the last life.
            if life < lives && life > 0 && random.below(200) == 0 {
                break None;
            }
            match world.step() {
                Some(event) => opening.handle(event),
                None => panic!("{spec} seed {seed}: opening has nothing to do and is not done"),
            }
        };
        let mut waiting: BTreeMap<RequestId, Request> = BTreeMap::new();
        // Content that a flush in flight will make durable.
        let mut flushing: BTreeMap<RequestId, BTreeMap<u64, usize>> = BTreeMap::new();
        // What was acceptable when a read was asked for; so is all that is written later.
        let mut reading: BTreeMap<RequestId, Vec<Vec<Content>>> = BTreeMap::new();
        if let Some(mut engine) = engine {
            let last = life == lives;
            loop {
                if !last && steps >= crash_at + 30 {
                    break;
                }
                steps += 1;
                if last && steps > 100_000 {
                    panic!("{spec} seed {seed}: the last life does not end");
                }
                let busy = last && steps > 200 * length;
                if !busy && random.below(3) == 0 && waiting.len() < 6 {
                    let first = random.below(geometry.user_blocks() as usize) as u64;
                    let room = (geometry.user_blocks() - first) as usize;
                    let long = if random.below(3) == 0 { 2 * geometry.stripe_blocks() as usize } else { 5 };
                    let count = 1 + random.below(room.min(long));
                    let request = match random.below(10) {
                        0..=4 => {
                            let mut buffers = Vec::new();
                            for block in first..first + count as u64 {
                                let content: Content = (0..CONTENT).map(|_| random.next() as u8).collect();
                                written(&mut acceptable, block, content.clone());
                                world.buffers.insert(BufferId(next_buffer), content);
                                buffers.push(BufferId(next_buffer));
                                next_buffer += 1;
                            }
                            Request::Write { first: UserBlock(first), buffers, durable: random.below(4) == 0 }
                        }
                        5 => {
                            for block in first..first + count as u64 {
                                written(&mut acceptable, block, vec![0; CONTENT]);
                            }
                            Request::Trim { first: UserBlock(first), count: count as u64 }
                        }
                        6 | 7 => Request::Flush,
                        _ => Request::Read { first: UserBlock(first), count: count as u32 },
                    };
                    let id = RequestId(next_request);
                    next_request += 1;
                    let durable = matches!(request, Request::Flush | Request::Write { durable: true, .. });
                    if durable {
                        flushing.insert(id, acceptable.iter().map(|(&b, k)| (b, k.floor)).collect());
                    }
                    if let Request::Read { first, count } = request {
                        let then = (first.0..first.0 + u64::from(count)).map(|b| {
                            let known = &acceptable[&b];
                            known.contents[known.floor..].to_vec()
                        });
                        reading.insert(id, then.collect());
                    }
                    waiting.insert(id, request.clone());
                    engine.handle(Event::Request(id, request));
                } else if !busy && lost < geometry.tolerance() && random.below(150 * length) == 0 {
                    let victim = random.below(world.disks.len());
                    if !world.disks[victim].gone {
                        world.disks[victim].gone = true;
                        lost += 1;
                        if random.below(2) == 0 {
                            engine.handle(Event::DeviceGone(Slot(victim as u32)));
                        }
                    }
                } else if let Some(event) = world.step() {
                    engine.handle(event);
                } else if busy {
                    break;
                }
                while let Some(action) = engine.next_action() {
                    world.take(action);
                }
                engine.check();
                for (id, reply, contents) in std::mem::take(&mut world.replies) {
                    let request =
                        waiting.remove(&id).unwrap_or_else(|| panic!("{spec} seed {seed}: answered twice"));
                    let mark = flushing.remove(&id);
                    match (request, reply) {
                        (Request::Flush | Request::Write { durable: true, .. }, Reply::Done) => {
                            for (block, index) in mark.unwrap() {
                                // Older contents can never come back. Marks of other flushes move along.
                                let known = acceptable.get_mut(&block).unwrap();
                                let cut = index.min(known.contents.len() - 1);
                                known.contents.drain(..cut);
                                known.floor -= cut;
                                for other in flushing.values_mut() {
                                    if let Some(i) = other.get_mut(&block) {
                                        *i = i.saturating_sub(cut);
                                    }
                                }
                            }
                        }
                        (Request::Write { .. } | Request::Trim { .. }, Reply::Done) => {}
                        (Request::Read { first, .. }, Reply::Read(_)) => {
                            for (i, content) in contents.into_iter().enumerate() {
                                let block = first.0 + i as u64;
                                let content = content.unwrap_or_else(|| vec![0; CONTENT]);
                                let then = reading[&id][i].contains(&content);
                                assert!(
                                    then || acceptable[&block].contents.contains(&content),
                                    "{spec} seed {seed} life {life}: block {block} reads old or foreign content"
                                );
                            }
                        }
                        (request, reply) => panic!("{spec} seed {seed}: {request:?} was answered {reply:?}"),
                    }
                }
            }
            if last {
                assert!(waiting.is_empty(), "{spec} seed {seed}: never answered: {waiting:?}\n{engine:?}");
                // Everything, once more.
                let count = geometry.user_blocks() as u32;
                engine.handle(Event::Request(RequestId(0), Request::Read { first: UserBlock(0), count }));
                loop {
                    while let Some(action) = engine.next_action() {
                        world.take(action);
                    }
                    match world.step() {
                        Some(event) => engine.handle(event),
                        None => break,
                    }
                }
                let (_, reply, contents) = world.replies.pop().expect("an answer");
                assert!(matches!(reply, Reply::Read(_)), "{spec} seed {seed}: {reply:?}");
                for (block, content) in contents.into_iter().enumerate() {
                    let content = content.unwrap_or_else(|| vec![0; CONTENT]);
                    let known = &acceptable[&(block as u64)];
                    assert!(
                        known.contents[known.floor..].contains(&content),
                        "{spec} seed {seed}: block {block} is wrong at the end"
                    );
                }
                return world.around;
            }
        }
        // The crash: memory is gone, unflushed writes are kept or not.
        world.pending.clear();
        world.buffers.clear();
        world.replies.clear();
        world.disks.iter_mut().for_each(|disk| disk.crash(&mut random));
        acceptable.values_mut().for_each(|known| known.floor = 0);
    }
    unreachable!("the last life ends by itself")
}

#[test]
fn random_worlds_lose_nothing_that_was_flushed() {
    let seeds = std::env::var("SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(300);
    let first: u64 = std::env::var("FIRST_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(0);
    for spec in ["raid6:3", "mirror:3", "raid5:2", "rs:3+3", "dcode:5", "raidp:4", "raidq:2+4", "lrc:4,2,1"] {
        for seed in first..first + seeds {
            run(spec, small(spec), 1, seed);
        }
    }
}

#[test]
fn records_that_go_around_the_end_of_the_ring_are_found_again() {
    let around: usize = (0..24).map(|seed| run("mirror:3", with_long_records("mirror:3"), 30, seed)).sum();
    assert!(around >= 10, "only {around} writes went around");
}
