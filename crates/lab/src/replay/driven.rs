//! One code under a trace: what the volume's own engine does to its devices.
//!
//! [`Counter`](super::Counter) multiplies plans, which suffices where every write is made durable
//! by itself. What the policy `wcl` reads and writes depends on what is dirty together, what the
//! log holds and when it is emptied; what a rebuild does, on what is written meanwhile. So the
//! engine of `pantile_volume` is driven here: it takes the trace as requests, and every action that
//! it gives is counted and answered at once. There are no bytes: the checksum of a block is a
//! function of where and of which generation it is, so that it is always the right one.
//!
//! Circumstances, under which a real volume does the same block for block: one request at a time,
//! the next when the volume does nothing any more; a flush after every so many requests; a rebuild
//! as fast as it can go, or so many blocks of it per request. A volume that gets its next request
//! while it still writes gathers more at a time: what is counted here is then the most that it can
//! cost.
//!
//! It begins as a volume that was written once, from the first block to the last, and whose log is
//! empty.

use super::ReplayError;
use super::counts::{BLOCK_BYTES, Blocks, Cause, Counts};
use super::latency::{Clock, Latencies};
use super::trace::Request;
use crate::exascale::Device;
use pantile::Code;
use pantile_format::volume::{
    ChunkHeader, HistoryId, LogicalStripe, Member, MemberState, PhysicalStripe, Place, RecordNumber, Session,
    SnapshotBlocks, SnapshotHead, SnapshotItem, SnapshotRef, Superblock, VolumeId,
};
use pantile_format::{Column, Crc64, FormatError, Generation};
use pantile_volume::{
    Action, Bearing, Birth, BufferId, Computed, DeviceBlock, ENGINE_BUFFERS, Event, Found, Geometry, IoId,
    IoResult, Operand, Piece, Policy, Reply, RequestId, Seed, Slot, State, Urgency, UserBlock, Volume,
    format_volume,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

/// Stripes of the largest volume that is driven: what the engine knows of so many takes some 100
/// MB.
pub const STRIPES_MOST: u64 = 1 << 21;

/// Blocks of one request to the engine; a host cuts longer ones.
const PIECE_BLOCKS: u64 = 256;

/// Under what circumstances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circumstances {
    /// A flush comes after so many requests, and after the last.
    pub flush_every: u64,
    /// Devices that are lost from a request on, counted from 0.
    pub lost: Vec<usize>,
    /// That request.
    pub lost_at: u64,
    /// Before this request, after a flush, an empty device comes in place of the first of them;
    /// when it is rebuilt, one for the next.
    pub rebuilt_at: Option<u64>,
    /// Blocks of the rebuild that are read and written per request; all of it at once without.
    pub rebuild_pace: Option<u64>,
}

impl Default for Circumstances {
    /// Every request durable before the next, nothing lost.
    fn default() -> Circumstances {
        Circumstances { flush_every: 1, lost: Vec::new(), lost_at: 0, rebuilt_at: None, rebuild_pace: None }
    }
}

/// What there is to say at the end beside the counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// Blocks of users that the log still holds.
    pub log_blocks: u64,
    /// Blocks that writes read and wrote, with all that followed from them.
    pub moved_blocks: u64,
    /// Blocks that users wrote, as often as they did.
    pub user_blocks: u64,
    /// The requests that were taken while devices were being rebuilt.
    pub requests_while_rebuilding: u64,
    /// Requests that reach beyond the end of the volume: they were left out.
    pub requests_beyond: u64,
}

/// A volume of a policy that holds so many bytes: as `pantile create` would number it, of these
/// elements.
///
/// Errors: no volume has this shape, or it has more than [`STRIPES_MOST`] stripes.
pub fn geometry(
    code: &Code,
    policy: Policy,
    element_bytes: u64,
    space_bytes: u64,
) -> Result<Geometry, ReplayError> {
    let element_blocks = u32::try_from(element_bytes / BLOCK_BYTES).unwrap_or(u32::MAX);
    let stripe_bytes = (code.data().len() as u64).saturating_mul(element_bytes).max(1);
    let stripes = space_bytes.div_ceil(stripe_bytes).max(1);
    if stripes > STRIPES_MOST {
        return Err(ReplayError::TooLong { space_bytes, most_bytes: STRIPES_MOST * stripe_bytes });
    }
    let volume = VolumeId(*b"pantile-the-lab-");
    Geometry::new(pantile_host::numbers(code, policy, volume, element_blocks, stripes))
        .map_err(ReplayError::Shape)
}

/// What the requests under way are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Serving {
    Reads,
    /// Or nothing.
    Writes,
}

/// Drives a volume with one trace.
pub struct Driven {
    volume: Volume,
    geometry: Geometry,
    circumstances: Circumstances,
    /// What the devices hold while the volume is opened; nothing of it is read later.
    metadata: Metadata,
    /// By place, whose content it holds and of which generation; else it is as the volume began.
    stripes: HashMap<u32, (u32, u64)>,
    counts: Counts,
    /// Blocks so far, read and written.
    moved: u64,
    ending: Ending,
    requests: u64,
    names: u64,
    serving: Serving,
    unanswered: HashSet<RequestId>,
    refused: bool,
    /// Blocks read for users and not delivered yet: which device they came from.
    for_users: HashMap<BufferId, Slot>,
    /// Blocks that a commit read, by device and stripe; of the log without a stripe.
    gathered: BTreeMap<(Slot, Option<u32>), u64>,
    /// Stripes that are written as a whole and not in part.
    whole: BTreeSet<u32>,
    /// Users' blocks of which the log has a copy.
    logged: HashSet<BufferId>,
    /// What is done of the rebuild when its time has come.
    background: VecDeque<Action>,
    is_rebuilding: bool,
    /// Devices that come when the one before is rebuilt.
    to_come: VecDeque<usize>,
    /// Virtual time, where latencies are asked for.
    clock: Option<Clock>,
    /// When the engine last answered a request.
    answered_ns: u64,
    latencies: Latencies,
}

impl Driven {
    /// Opens a volume that was written once.
    ///
    /// Errors: what is lost cannot be recovered.
    pub fn new(geometry: Geometry, circumstances: Circumstances) -> Result<Driven, ReplayError> {
        let metadata = written_once(&geometry).map_err(ReplayError::Shape)?;
        Driven::open(geometry, circumstances, metadata)
    }

    /// Opens a volume that nobody has written to.
    ///
    /// Errors: what is lost cannot be recovered.
    pub fn on_nothing(geometry: Geometry, circumstances: Circumstances) -> Result<Driven, ReplayError> {
        let metadata = never_written(&geometry).map_err(ReplayError::Shape)?;
        Driven::open(geometry, circumstances, metadata)
    }

    fn open(
        geometry: Geometry,
        circumstances: Circumstances,
        metadata: Metadata,
    ) -> Result<Driven, ReplayError> {
        let slots: Vec<Slot> = circumstances.lost.iter().map(|&device| Slot(device as u32)).collect();
        if !Bearing::new(&geometry.code, geometry.placement).bears(&slots) {
            return Err(ReplayError::Unbearable { lost: circumstances.lost });
        }
        let there = vec![true; geometry.slots()];
        let mut driven = Driven {
            volume: Volume::open(geometry.clone(), &there, HistoryId([1; 16])),
            counts: Counts::new(geometry.slots()),
            geometry,
            circumstances,
            metadata,
            stripes: HashMap::new(),
            moved: 0,
            ending: Ending::default(),
            requests: 0,
            names: 0,
            serving: Serving::Writes,
            unanswered: HashSet::new(),
            refused: false,
            for_users: HashMap::new(),
            gathered: BTreeMap::new(),
            whole: BTreeSet::new(),
            logged: HashSet::new(),
            background: VecDeque::new(),
            is_rebuilding: false,
            to_come: VecDeque::new(),
            clock: None,
            answered_ns: 0,
            latencies: Latencies::new(),
        };
        driven.act();
        assert_eq!(driven.volume.state(), State::Serving, "a volume that the lab has written is opened");
        driven.metadata = Metadata::new();
        if driven.circumstances.lost_at == 0 {
            driven.lose();
        }
        // What opening costs is not the trace's.
        driven.counts = Counts::new(driven.geometry.slots());
        driven.moved = 0;
        Ok(driven)
    }

    /// From now on operations take the time of such devices, and requests have latencies: of each
    /// alone, from its issue until it is answered or, where a flush is its turn, durable.
    pub fn timed(mut self, device: &Device) -> Driven {
        self.clock = Some(Clock::new(device.clone(), self.geometry.slots()));
        self
    }

    /// Latencies so far; none without a clock.
    pub fn latencies(&self) -> Option<&Latencies> {
        self.clock.as_ref().map(|_| &self.latencies)
    }

    /// Takes a request: does all that follows from it, and the flush if it is its turn.
    pub fn push(&mut self, request: &Request) {
        if self.requests == self.circumstances.lost_at && self.requests > 0 {
            self.lose();
        }
        if self.circumstances.rebuilt_at == Some(self.requests) {
            self.bring_back();
        }
        self.requests += 1;
        if request.offset + request.len > self.geometry.user_blocks() * BLOCK_BYTES {
            self.ending.requests_beyond += 1;
            return;
        }
        self.refused = false;
        let (before, begun_ns) = (self.moved, self.now_ns());
        let end_byte = request.offset + request.len;
        let (begin, end) = (request.offset / BLOCK_BYTES, end_byte.div_ceil(BLOCK_BYTES));
        if request.is_write {
            let cuts = [(request.offset, begin), (end_byte, end - 1)];
            let mut edges: Vec<u64> =
                cuts.iter().filter(|(byte, _)| !byte.is_multiple_of(BLOCK_BYTES)).map(|cut| cut.1).collect();
            edges.dedup();
            edges.into_iter().for_each(|edge| self.read(edge, edge + 1));
            self.write(begin, end);
        } else {
            self.read(begin, end);
        }
        if self.requests.is_multiple_of(self.circumstances.flush_every.max(1)) {
            self.flush();
        }
        if self.clock.is_some() && !self.refused {
            self.latencies.add(request.is_write, self.answered_ns.saturating_sub(begun_ns));
        }
        self.go_on_rebuilding(self.circumstances.rebuild_pace.unwrap_or(u64::MAX));
        self.counts.refused += u64::from(self.refused);
        self.counts.note_request(self.moved - before);
    }

    /// Flushes, lets the rebuild end, and tells what it came to.
    pub fn finish(mut self) -> (Counts, Ending) {
        self.flush();
        self.go_on_rebuilding(u64::MAX);
        self.ending.log_blocks = self.volume.status().map_or(0, |status| status.log_blocks);
        (self.counts, self.ending)
    }

    /// Requests between two flushes.
    pub fn flush_every(&self) -> u64 {
        self.circumstances.flush_every
    }

    fn read(&mut self, begin: u64, end: u64) {
        self.serving = Serving::Reads;
        for first in (begin..end).step_by(PIECE_BLOCKS as usize) {
            let count = (end - first).min(PIECE_BLOCKS) as u32;
            self.request(pantile_volume::Request::Read { first: UserBlock(first), count });
        }
        self.serve();
        self.serving = Serving::Writes;
    }

    fn write(&mut self, begin: u64, end: u64) {
        self.ending.user_blocks += end - begin;
        let before = self.moved;
        for first in (begin..end).step_by(PIECE_BLOCKS as usize) {
            let count = (end - first).min(PIECE_BLOCKS);
            let buffers = (0..count).map(|i| BufferId(self.names + i)).collect();
            self.names += count;
            self.request(pantile_volume::Request::Write { first: UserBlock(first), buffers, durable: false });
            // One after the other, so that no more is in memory than there must be.
            self.serve();
        }
        self.ending.moved_blocks += self.moved - before;
    }

    fn flush(&mut self) {
        let before = self.moved;
        self.request(pantile_volume::Request::Flush);
        self.serve();
        self.ending.moved_blocks += self.moved - before;
    }

    fn request(&mut self, request: pantile_volume::Request) {
        let id = RequestId(self.names);
        self.names += 1;
        self.unanswered.insert(id);
        self.volume.handle(Event::Request(id, request));
    }

    /// Does what the volume wants until it wants nothing; of a rebuild only what a request waits
    /// for.
    fn serve(&mut self) {
        self.act();
        while !self.unanswered.is_empty() {
            let Some(action) = self.background.pop_front() else {
                // What it waits for cannot come.
                self.unanswered.clear();
                self.refused = true;
                break;
            };
            self.perform(action);
            self.act();
        }
        self.settle();
    }

    fn lose(&mut self) {
        for device in self.circumstances.lost.clone() {
            self.volume.handle(Event::DeviceGone(Slot(device as u32)));
            self.act();
        }
        self.settle();
    }

    /// After a flush: else it would be a matter of chance which stripes are written anew for other
    /// reasons before the rebuild looks at them.
    fn bring_back(&mut self) {
        self.flush();
        self.to_come = self.circumstances.lost.iter().copied().collect();
        self.next_comes();
        if self.circumstances.rebuild_pace.is_none() {
            self.go_on_rebuilding(u64::MAX);
        }
    }

    fn next_comes(&mut self) {
        let Some(device) = self.to_come.pop_front() else { return };
        self.is_rebuilding = true;
        self.volume.handle(Event::DeviceCame(Slot(device as u32), Found::Blank));
        self.act();
        self.settle();
    }

    /// Does so many blocks of the rebuild, or somewhat more.
    fn go_on_rebuilding(&mut self, blocks: u64) {
        let stop = self.moved.saturating_add(blocks);
        while self.is_rebuilding && self.moved < stop {
            match self.background.pop_front() {
                Some(action) => {
                    self.perform(action);
                    self.act();
                    self.settle();
                }
                None => {
                    // What is left is perhaps not the rebuild's but a commit's, which a flush ends.
                    self.is_rebuilding = false;
                    self.next_comes();
                }
            }
        }
        self.ending.requests_while_rebuilding += u64::from(self.is_rebuilding);
    }

    /// Performs everything but what nobody waits for.
    fn act(&mut self) {
        loop {
            while let Some(action) = self.volume.next_action() {
                match action {
                    Action::Read { urgency: Urgency::Background, .. }
                    | Action::ReadBytes { urgency: Urgency::Background, .. }
                    | Action::Write { urgency: Urgency::Background, .. } => self.background.push_back(action),
                    other => self.perform(other),
                }
            }
            let Some(event) = self.clock.as_mut().and_then(Clock::next) else { return };
            self.volume.handle(event);
        }
    }

    fn now_ns(&self) -> u64 {
        self.clock.as_ref().map_or(0, Clock::now_ns)
    }

    /// Answers an operation: at once, or when it has taken its time.
    fn done(
        &mut self,
        io: IoId,
        (slot, at, blocks, is_write): (Slot, DeviceBlock, u64, bool),
        result: IoResult,
    ) {
        let event = Event::IoDone(io, result);
        match &mut self.clock {
            None => self.volume.handle(event),
            Some(clock) => clock.begin(slot.0 as usize, at.0, blocks, is_write, event),
        }
    }

    /// Counts an action and answers it.
    fn perform(&mut self, action: Action) {
        match action {
            Action::Read { io, slot, at, into, generation, urgency } => {
                self.note_read(slot, at, &into, urgency);
                let address = |i: u64| DeviceBlock(at.0 + i);
                let sums = (0..into.len() as u64)
                    .map(|i| checksum(Seed { slot, address: address(i), generation }))
                    .collect();
                self.done(io, (slot, at, into.len() as u64, false), IoResult::Checksums(sums));
            }
            Action::ReadBytes { io, slot, at, blocks, urgency } => {
                let cause = if urgency == Urgency::Background { Cause::Rebuild } else { Cause::Checksums };
                self.count(slot, cause, Blocks { read: blocks.into(), written: 0 });
                let bytes = self.stored(slot, at, blocks);
                self.done(io, (slot, at, blocks.into(), false), IoResult::Bytes(bytes));
            }
            Action::Write { io, slot, at, pieces, urgency } => {
                let blocks = self.note_write(slot, at, &pieces, urgency);
                self.done(io, (slot, at, blocks, true), IoResult::Done);
            }
            Action::Flush { io, slot } => {
                let event = Event::IoDone(io, IoResult::Done);
                match &mut self.clock {
                    None => self.volume.handle(event),
                    Some(clock) => clock.flush(slot.0 as usize, event),
                }
            }
            Action::Compute { job, work } => {
                let checksums = work.checksums.iter().map(|&(_, seed)| checksum(seed)).collect();
                let differing = vec![0; work.differing.len()];
                self.volume.handle(Event::Computed(job, Computed { checksums, differing }));
            }
            Action::Release(buffer) => _ = self.logged.remove(&buffer),
            Action::Reply(id, reply) => self.answered(id, &reply),
        }
    }

    fn answered(&mut self, id: RequestId, reply: &Reply) {
        self.unanswered.remove(&id);
        self.answered_ns = self.now_ns();
        match reply {
            Reply::Read(buffers) => {
                for buffer in buffers.iter().flatten() {
                    if let Some(slot) = self.for_users.remove(buffer) {
                        self.count(slot, Cause::User, Blocks { read: 1, written: 0 });
                    }
                }
            }
            Reply::Done | Reply::Begun { .. } => {}
            Reply::Failed(_) => self.refused = true,
        }
    }

    /// What was read is told apart when it is known what became of it.
    fn settle(&mut self) {
        for (_, slot) in std::mem::take(&mut self.for_users) {
            self.count(slot, Cause::Degraded, Blocks { read: 1, written: 0 });
        }
        for ((slot, stripe), read) in std::mem::take(&mut self.gathered) {
            let cause = match (self.geometry.policy, stripe) {
                (Policy::Wcl, _) => Cause::MoveBack,
                (Policy::Inplace, Some(stripe)) if self.whole.contains(&stripe) => Cause::Degraded,
                (Policy::Inplace, _) => Cause::ReadModifyWrite,
            };
            self.count(slot, cause, Blocks { read, written: 0 });
        }
        self.whole.clear();
    }

    fn count(&mut self, slot: Slot, cause: Cause, blocks: Blocks) {
        self.moved += blocks.read + blocks.written;
        *self.counts.devices[slot.0 as usize].entry(cause).or_default() += blocks;
    }

    fn note_read(&mut self, slot: Slot, at: DeviceBlock, into: &[BufferId], urgency: Urgency) {
        let read = into.len() as u64;
        if urgency == Urgency::Background {
            self.count(slot, Cause::Rebuild, Blocks { read, written: 0 });
        } else if self.serving == Serving::Reads {
            self.for_users.extend(into.iter().map(|&buffer| (buffer, slot)));
        } else {
            let stripe = match self.geometry.zones(slot).place(at) {
                Some(Place::Element { stripe, .. }) => Some(stripe.0 as u32),
                _ => None,
            };
            *self.gathered.entry((slot, stripe)).or_default() += read;
        }
    }

    /// Counts a write by the causes of its blocks, and tells how many there are.
    fn note_write(&mut self, slot: Slot, at: DeviceBlock, pieces: &[Piece], urgency: Urgency) -> u64 {
        let mut causes: BTreeMap<Cause, u64> = BTreeMap::new();
        let mut block = at.0;
        for piece in pieces {
            let place = self.geometry.zones(slot).place(DeviceBlock(block));
            let (mut cause, written) = match piece {
                Piece::Bytes(bytes) => {
                    let is_header = matches!(place, Some(Place::ChunkHeader { .. }));
                    if is_header {
                        self.keep_header(bytes);
                    }
                    let cause = if is_header { Cause::Checksums } else { Cause::Journal };
                    (cause, bytes.len() as u64 / BLOCK_BYTES)
                }
                Piece::Block(content) => (self.cause_of(slot, place, *content), 1),
            };
            if urgency == Urgency::Background {
                cause = Cause::Rebuild;
            }
            *causes.entry(cause).or_default() += written;
            block += written;
        }
        for (cause, written) in causes {
            self.count(slot, cause, Blocks { read: 0, written });
        }
        block - at.0
    }

    /// Why a block is written to a log row or a chunk: by what is in it, and where it goes.
    fn cause_of(&mut self, slot: Slot, place: Option<Place>, content: Operand) -> Cause {
        let of_user = match content {
            Operand::Buffer(buffer) if buffer.0 < ENGINE_BUFFERS => Some(buffer),
            _ => None,
        };
        let is_parity = match place {
            // The log has one block of a user once; what else is there is for when it is lost.
            Some(Place::Log(_)) => of_user.is_none_or(|buffer| !self.logged.insert(buffer)),
            Some(Place::Element { stripe, row, .. }) => {
                let code = &self.geometry.code;
                let column = self.geometry.column(stripe.0 as u32, slot);
                code.column_cells(column).nth(row as usize).is_none_or(|cell| code.is_parity(cell))
            }
            _ => unreachable!("blocks are written to the log and to chunks"),
        };
        match (is_parity, of_user, self.geometry.policy) {
            (true, ..) => Cause::Parity,
            (false, Some(_), _) => Cause::User,
            (false, None, Policy::Wcl) => Cause::MoveBack,
            (false, None, Policy::Inplace) => Cause::Degraded,
        }
    }

    /// Remembers whose content a chunk has got.
    fn keep_header(&mut self, bytes: &[u8]) {
        let Ok(header) = ChunkHeader::decode(bytes, self.geometry.volume) else {
            unreachable!("the volume writes headers that it can read")
        };
        let physical = header.physical.0 as u32;
        let now = (header.logical.0 as u32, header.generation.0);
        if self.holder(physical) != now {
            self.whole.insert(physical);
            self.stripes.insert(physical, now);
        }
    }

    /// Whose content a place holds, and of which generation.
    fn holder(&self, physical: u32) -> (u32, u64) {
        self.stripes.get(&physical).copied().unwrap_or((physical, first_generation(physical)))
    }

    /// Metadata: of the volume as it began, or the header of a chunk.
    fn stored(&self, slot: Slot, at: DeviceBlock, blocks: u32) -> Vec<u8> {
        let zones = self.geometry.zones(slot);
        let Some(Place::ChunkHeader { stripe, .. }) = zones.place(at) else {
            let block = |i: u32| self.metadata.get(&(slot, DeviceBlock(at.0 + u64::from(i))));
            let zeros = [0; BLOCK_BYTES as usize];
            return (0..blocks).flat_map(|i| block(i).map_or(&zeros[..], |bytes| bytes).to_vec()).collect();
        };
        let physical = stripe.0 as u32;
        let (logical, generation) = self.holder(physical);
        let first = at.0 + u64::from(self.geometry.header_blocks(slot));
        let sum = |i: u64| Crc64(checksum(Seed { slot, address: DeviceBlock(first + i), generation }));
        let header = ChunkHeader {
            volume: self.geometry.volume,
            slot,
            physical: PhysicalStripe(physical.into()),
            logical: LogicalStripe(logical.into()),
            generation: Generation(generation),
            column: Column(self.geometry.column(physical, slot) as u32),
            checksums: (0..zones.shape().chunk_blocks()).map(sum).collect(),
        };
        header.encode()
    }
}

/// The checksum of whatever a volume of the lab has written there.
fn checksum(seed: Seed) -> u64 {
    let Seed { slot, address, generation } = seed;
    [u64::from(slot.0), address.0, generation].iter().fold(0x9e37_79b9_7f4a_7c15, |sum: u64, &part| {
        (sum ^ part).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(29)
    })
}

/// Of a stripe that nothing but the filling has written.
fn first_generation(physical: u32) -> u64 {
    u64::from(physical) + 1
}

/// Blocks that are not of users, by where they lie; the others are zeros.
type Metadata = HashMap<(Slot, DeviceBlock), Vec<u8>>;

/// The metadata of a new volume.
fn never_written(geometry: &Geometry) -> Result<Metadata, FormatError> {
    let birth = Birth { history: HistoryId([1; 16]), name: "lab".into(), created: 0, patches: false };
    let mut metadata = Metadata::new();
    for (slot, at, bytes) in format_volume(geometry, &birth)? {
        for (block, bytes) in (at.0..).zip(bytes.chunks(BLOCK_BYTES as usize)) {
            metadata.insert((slot, DeviceBlock(block)), bytes.to_vec());
        }
    }
    Ok(metadata)
}

/// The metadata of a volume all of whose stripes are mapped, each to the place of its own number.
fn written_once(geometry: &Geometry) -> Result<Metadata, FormatError> {
    let slots: Vec<Slot> = (0..geometry.slots() as u32).map(Slot).collect();
    let stripes = geometry.logical_stripes();
    let head = SnapshotHead {
        volume: geometry.volume,
        session: Session(1),
        record: RecordNumber(0),
        next_generation: Generation(first_generation(stripes)),
    };
    let members =
        slots.iter().map(|&slot| SnapshotItem::Member(Member { slot, state: MemberState::Present }));
    let mapped = (0..stripes).map(|stripe| SnapshotItem::Stripe {
        logical: LogicalStripe(stripe.into()),
        physical: PhysicalStripe(stripe.into()),
        generation: Generation(first_generation(stripe)),
        is_marked: false,
    });
    let mut encoder = SnapshotBlocks::new(head, geometry.zones(Slot(0)).shape(), members.chain(mapped));
    let snapshot: Vec<Vec<u8>> = encoder.by_ref().collect();
    let sum = encoder.done().expect("all blocks were taken");
    let reference = SnapshotRef {
        area: 0,
        record: RecordNumber(0),
        blocks: sum.blocks,
        crc: sum.crc,
        replay_at: 0,
        session: Session(1),
    };
    let mut metadata = never_written(geometry)?;
    for ((slot, at), bytes) in &mut metadata {
        if let Some(Place::Superblock(_)) = geometry.zones(*slot).place(*at) {
            *bytes = Superblock { snapshot: Some(reference), ..Superblock::decode(bytes)? }.encode();
        }
    }
    // The device that is asked first is the last one; the others have the same.
    let last = slots[slots.len() - 1];
    let first = geometry.zones(last).snapshot(0).first.0;
    metadata.extend((first..).zip(snapshot).map(|(block, bytes)| ((last, DeviceBlock(block)), bytes)));
    Ok(metadata)
}
