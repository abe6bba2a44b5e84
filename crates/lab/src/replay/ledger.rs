//! The devices under a trace: every action of a volume's engine is counted by cause, and answered
//! at once or after its time.
//!
//! There are no bytes: the checksum of a block is a function of its place and generation, so that
//! it is always right. Background operations wait in [`Ledger::background`] until the
//! [driver](super::driven) takes them out.

use super::counts::{BLOCK_BYTES, Blocks, Cause, Counts};
use super::latency::Clock;
use crate::engine::Devices;
use pantile_format::volume::{
    ChunkHeader, HistoryId, LogicalStripe, Member, MemberState, PhysicalStripe, Place, RecordNumber, Session,
    SnapshotBlocks, SnapshotHead, SnapshotItem, SnapshotRef, Superblock,
};
use pantile_format::{FormatError, Generation};
use pantile_volume::{
    Action, Birth, BufferId, Computed, DeviceBlock, ENGINE_BUFFERS, Event, Geometry, IoId, IoResult, Operand,
    Piece, Reply, RequestId, Seed, Slot, Urgency, format_volume,
};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::convert::Infallible;

/// Kind of the requests under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Serving {
    Reads,
    /// Writes, or no requests.
    Writes,
}

/// Devices of which only the traffic is counted, and the requests under way.
pub(super) struct Ledger {
    pub geometry: Geometry,
    /// Content of the devices while the volume is opened; none of it is read later.
    metadata: Metadata,
    /// Stripe and generation of the content of each physical stripe that was written since the
    /// volume began.
    stripes: HashMap<u32, (u32, u64)>,
    pub counts: Counts,
    /// Blocks so far, read and written.
    pub moved: u64,
    pub serving: Serving,
    pub unanswered: HashSet<RequestId>,
    pub refused: bool,
    /// Device of each block that was read for users and not delivered yet.
    for_users: HashMap<BufferId, Slot>,
    /// Number of blocks that a commit read from each device.
    gathered: BTreeMap<Slot, u64>,
    /// Buffers of users' blocks that the log already contains.
    logged: HashSet<BufferId>,
    /// Background actions, which no request waits for yet.
    pub background: VecDeque<Action>,
    /// Virtual time, if latencies are requested.
    clock: Option<Clock>,
    /// Time of the engine's last answer to a request.
    pub answered_ns: u64,
}

impl Devices for Ledger {
    type Fault = Infallible;

    fn perform(&mut self, action: Action) -> Result<Option<Event>, Infallible> {
        Ok(match action {
            Action::Read { urgency: Urgency::Background, .. }
            | Action::ReadBytes { urgency: Urgency::Background, .. }
            | Action::Write { urgency: Urgency::Background, .. } => {
                self.background.push_back(action);
                None
            }
            other => self.take(other),
        })
    }

    fn step(&mut self) -> Option<Event> {
        self.clock.as_mut().and_then(Clock::next)
    }

    fn now_ns(&self) -> u64 {
        self.clock.as_ref().map_or(0, Clock::now_ns)
    }
}

impl Ledger {
    /// Returns the devices of a volume that was written once.
    ///
    /// Errors: no volume has this shape.
    pub fn written_once(geometry: Geometry) -> Result<Ledger, FormatError> {
        let metadata = written_once(&geometry)?;
        Ok(Ledger::holding(geometry, metadata))
    }

    /// Returns the devices of a volume that was never written.
    ///
    /// Errors: no volume has this shape.
    pub fn never_written(geometry: Geometry) -> Result<Ledger, FormatError> {
        let metadata = never_written(&geometry)?;
        Ok(Ledger::holding(geometry, metadata))
    }

    fn holding(geometry: Geometry, metadata: Metadata) -> Ledger {
        Ledger {
            counts: Counts::new(geometry.slots()),
            geometry,
            metadata,
            stripes: HashMap::new(),
            moved: 0,
            serving: Serving::Writes,
            unanswered: HashSet::new(),
            refused: false,
            for_users: HashMap::new(),
            gathered: BTreeMap::new(),
            logged: HashSet::new(),
            background: VecDeque::new(),
            clock: None,
            answered_ns: 0,
        }
    }

    /// Drops the metadata: the volume is open and reads none of it again.
    pub fn opened(&mut self) {
        self.metadata = Metadata::new();
    }

    /// Clears the counts of the operations before the trace.
    pub fn forget(&mut self) {
        self.counts = Counts::new(self.geometry.slots());
        self.moved = 0;
    }

    /// Makes operations take the time of `clock`.
    pub fn run_on(&mut self, clock: Clock) {
        self.clock = Some(clock);
    }

    /// Returns true if operations take time.
    pub fn is_timed(&self) -> bool {
        self.clock.is_some()
    }

    /// Counts an action, of a request or in the background, and answers it: at once, or after its
    /// time.
    pub fn take(&mut self, action: Action) -> Option<Event> {
        match action {
            Action::Read { io, slot, at, into, generation, urgency } => {
                self.note_read(slot, &into, urgency);
                let address = |i: u64| DeviceBlock(at.0 + i);
                let sums = (0..into.len() as u64)
                    .map(|i| checksum(Seed { slot, address: address(i), generation }))
                    .collect();
                self.done(io, (slot, at, into.len() as u64, false), IoResult::Checksums(sums))
            }
            Action::ReadBytes { io, slot, at, blocks, urgency } => {
                let cause = if urgency == Urgency::Background { Cause::Rebuild } else { Cause::Checksums };
                self.count(slot, cause, Blocks { read: blocks.into(), written: 0 });
                let bytes = self.stored(slot, at, blocks);
                self.done(io, (slot, at, blocks.into(), false), IoResult::Bytes(bytes))
            }
            Action::Write { io, slot, at, pieces, urgency } => {
                let blocks = self.note_write(slot, at, &pieces, urgency);
                self.done(io, (slot, at, blocks, true), IoResult::Done)
            }
            Action::Flush { io, slot } => {
                let event = Event::IoDone(io, IoResult::Done);
                let Some(clock) = &mut self.clock else { return Some(event) };
                clock.flush(slot.0 as usize, event);
                None
            }
            Action::Compute { job, work } => {
                let checksums = work.checksums.iter().map(|&(_, seed)| checksum(seed)).collect();
                let differing = vec![0; work.differing.len()];
                Some(Event::Computed(job, Computed { checksums, differing }))
            }
            Action::Release(buffer) => {
                self.logged.remove(&buffer);
                None
            }
            Action::Reply(id, reply) => {
                self.answered(id, &reply);
                None
            }
        }
    }

    fn done(
        &mut self,
        io: IoId,
        (slot, at, blocks, is_write): (Slot, DeviceBlock, u64, bool),
        result: IoResult,
    ) -> Option<Event> {
        let event = Event::IoDone(io, result);
        let Some(clock) = &mut self.clock else { return Some(event) };
        clock.begin(slot.0 as usize, at.0, blocks, is_write, event);
        None
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

    /// Counts the cause of each read, now that the use of its block is known.
    pub fn settle(&mut self) {
        for (_, slot) in std::mem::take(&mut self.for_users) {
            self.count(slot, Cause::Degraded, Blocks { read: 1, written: 0 });
        }
        for (slot, read) in std::mem::take(&mut self.gathered) {
            self.count(slot, Cause::MoveBack, Blocks { read, written: 0 });
        }
    }

    fn count(&mut self, slot: Slot, cause: Cause, blocks: Blocks) {
        self.moved += blocks.read + blocks.written;
        *self.counts.devices[slot.0 as usize].entry(cause).or_default() += blocks;
    }

    fn note_read(&mut self, slot: Slot, into: &[BufferId], urgency: Urgency) {
        let read = into.len() as u64;
        if urgency == Urgency::Background {
            self.count(slot, Cause::Rebuild, Blocks { read, written: 0 });
        } else if self.serving == Serving::Reads {
            self.for_users.extend(into.iter().map(|&buffer| (buffer, slot)));
        } else {
            *self.gathered.entry(slot).or_default() += read;
        }
    }

    /// Counts a write by the causes of its blocks, and returns their number.
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

    /// Returns the cause of a write to a log row or a chunk, by its content and its place.
    fn cause_of(&mut self, slot: Slot, place: Option<Place>, content: Operand) -> Cause {
        let of_user = match content {
            Operand::Buffer(buffer) if buffer.0 < ENGINE_BUFFERS => Some(buffer),
            _ => None,
        };
        let is_parity = match place {
            // The log holds a user's block once; its other blocks serve recovery.
            Some(Place::Log(_)) => of_user.is_none_or(|buffer| !self.logged.insert(buffer)),
            Some(Place::Element { stripe, row, .. }) => {
                let code = &self.geometry.code;
                let column = self.geometry.column(stripe.0 as u32, slot);
                code.column_cells(column).nth(row as usize).is_none_or(|cell| code.is_parity(cell))
            }
            _ => unreachable!("blocks are written to the log and to chunks"),
        };
        match (is_parity, of_user) {
            (true, _) => Cause::Parity,
            (false, Some(_)) => Cause::User,
            (false, None) => Cause::MoveBack,
        }
    }

    /// Records the stripe and generation of a chunk's new content.
    fn keep_header(&mut self, bytes: &[u8]) {
        let Ok(header) = ChunkHeader::decode(bytes, self.geometry.volume) else {
            unreachable!("the volume writes headers that it can read")
        };
        let physical = header.physical.0 as u32;
        self.stripes.insert(physical, (header.logical.0 as u32, header.generation.0));
    }

    /// Returns the stripe and generation of the content of a physical stripe.
    fn holder(&self, physical: u32) -> (u32, u64) {
        self.stripes.get(&physical).copied().unwrap_or((physical, first_generation(physical)))
    }

    /// Returns metadata: of the volume as it began, or the header of a chunk.
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
        let sum = |i: u64| checksum(Seed { slot, address: DeviceBlock(first + i), generation });
        let sums = (0..zones.shape().chunk_blocks()).map(sum);
        self.geometry.chunk_header(slot, (physical, logical), generation, sums).encode()
    }
}

/// Returns the checksum of a block that a volume of the lab has written.
fn checksum(seed: Seed) -> u64 {
    let Seed { slot, address, generation } = seed;
    [u64::from(slot.0), address.0, generation].iter().fold(0x9e37_79b9_7f4a_7c15, |sum: u64, &part| {
        (sum ^ part).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(29)
    })
}

/// Returns the generation of a stripe that was written once, when the volume was filled.
fn first_generation(physical: u32) -> u64 {
    u64::from(physical) + 1
}

/// Blocks of metadata by place; all others are zeros.
type Metadata = HashMap<(Slot, DeviceBlock), Vec<u8>>;

/// Returns the metadata of a new volume.
fn never_written(geometry: &Geometry) -> Result<Metadata, FormatError> {
    let birth = Birth { history: HistoryId([1; 16]), name: "lab".into(), created: 0 };
    let mut metadata = Metadata::new();
    for (slot, at, bytes) in format_volume(geometry, &birth)? {
        for (block, bytes) in (at.0..).zip(bytes.chunks(BLOCK_BYTES as usize)) {
            metadata.insert((slot, DeviceBlock(block)), bytes.to_vec());
        }
    }
    Ok(metadata)
}

/// Returns the metadata of a volume whose logical stripes are all mapped, each to the physical
/// stripe of the same number.
fn written_once(geometry: &Geometry) -> Result<Metadata, FormatError> {
    let slots: Vec<Slot> = (0..geometry.slots() as u32).map(Slot).collect();
    let stripes = geometry.logical_stripes();
    let head = SnapshotHead {
        volume: geometry.volume,
        session: Session(1),
        record: RecordNumber(0),
        next_generation: Generation(first_generation(stripes)),
    };
    let members = slots
        .iter()
        .map(|&slot| SnapshotItem::Member(Member { slot, state: MemberState::Present, first_update: 0 }));
    let mapped = (0..stripes).map(|stripe| SnapshotItem::Stripe {
        logical: LogicalStripe(stripe.into()),
        physical: PhysicalStripe(stripe.into()),
        generation: Generation(first_generation(stripe)),
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
    // The device that is asked first is the last one; the others have equal content.
    let last = slots[slots.len() - 1];
    let first = geometry.zones(last).snapshot(0).first.0;
    metadata.extend((first..).zip(snapshot).map(|(block, bytes)| ((last, DeviceBlock(block)), bytes)));
    Ok(metadata)
}
