//! Epochs of delayed parity: their writes, their pending parity, and their ends.
//!
//! An epoch holds a range of whole stripes. Its data are written to free places ([`owed`]) that the
//! maps do not know, without parity. So a crash or an abort needs no work, other readers get the
//! content from before the epoch, and committed blocks share no stripe with blocks without parity.
//! The end of the epoch makes the pending parity and switches all stripes with one record.
//!
//! Invariants:
//!
//! * a logical stripe is in at most one epoch, and no other writer has dirty blocks in it;
//! * blocks with pending parity stay within the epoch's budget, except for the last write, which is
//!   then not answered yet, and for stripes that a loss keeps from being encoded;
//! * the stripes of an epoch fit one record, and leave the places free that commits need.
//!
//! There are no clocks here: the driver says when to make parity in advance, and ends or aborts the
//! epochs of silent users.

mod ending;
mod owed;
mod within;

pub(crate) use self::owed::OwedId;
use self::owed::{InMemory, Owed};
use crate::engine::Engine;
use crate::{
    BufferId, EpochId, EpochState, EpochStatus, Failure, Reply, Request, RequestId, Slot, UserBlock,
};
use pantile_format::Crc64;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Blocks of data that epochs keep in memory so that their parity can be computed without reads: 32
/// MiB.
const DATA_BLOCKS_MOST: usize = 8192;

/// Blocks of parity that is computed and not written: 64 MiB.
const PARITY_BLOCKS_MOST: usize = 16384;

/// Blocks of stripes that are being settled (their parity is made and written) at a time, unless it
/// is one stripe: 32 MiB.
const SETTLING_BLOCKS_MOST: u64 = 8192;

/// The number of a session times this is the base of the numbers of its epochs.
const EPOCHS_OF_SESSION: u64 = 1_000_000;

/// All epochs, and their blocks in memory.
#[derive(Debug)]
pub(crate) struct Delayed {
    epochs: BTreeMap<EpochId, Epoch>,
    stripes: BTreeMap<OwedId, Owed>,
    beginning: BTreeMap<RequestId, EpochId>,
    reads: BTreeMap<u64, EpochRead>,
    /// Writes that are done and not answered, because too much parity is pending.
    blocked: VecDeque<(RequestId, EpochId)>,
    /// Requests that wait for a free place or a generation, and the requests after them.
    stalled: VecDeque<(RequestId, Request)>,
    begun: u64,
    /// Counts writes to stripes.
    writes: u64,
    /// Stripes with data in memory, ordered by their last write.
    in_memory: BTreeSet<(u64, OwedId)>,
    memory: InMemory,
    data_blocks_most: usize,
    parity_blocks_most: usize,
    settling_blocks: u64,
    /// Stripes whose logical stripe is also mapped to another place.
    extra_places: usize,
    wasted: u64,
}

/// A range whose parity is delayed.
#[derive(Debug)]
struct Epoch {
    first: u32,
    end: u32,
    owed_blocks_max: u64,
    state: EpochState,
    stripes: BTreeMap<u32, OwedId>,
    /// Stripes trimmed as a whole before the writes in `stripes`.
    unmapped: BTreeSet<u32>,
    /// Stripes whose parity is pending and can be made, by the number of the first write that lacks
    /// it.
    owed: BTreeMap<u64, OwedId>,
    /// Stripes of the epoch that have lost a block.
    lost: BTreeSet<OwedId>,
    owed_blocks: u64,
    /// The number of stripes with an activity under way.
    active: usize,
    /// Parity is made in advance for the writes up to this number.
    advance_through: u64,
    /// Devices that were written to since their last flush.
    unflushed: BTreeSet<Slot>,
    round: Option<Round>,
    flushes: Vec<RequestId>,
    ends: Vec<RequestId>,
    wasted: u64,
}

/// A flush under way: first the stripes are written, then the devices flushed.
#[derive(Debug)]
struct Round {
    requests: Vec<RequestId>,
    /// By stripe, the version that must be written.
    stripes: BTreeMap<OwedId, u64>,
    flushing: Option<usize>,
}

/// A block of an epoch that is read from a device.
#[derive(Debug)]
struct EpochRead {
    id: RequestId,
    index: usize,
    owed: OwedId,
    physical: u32,
    at: usize,
    expected: u64,
    buffer: BufferId,
}

/// A stripe in the end record of an epoch.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) logical: u32,
    pub(crate) physical: u32,
    pub(crate) generation: u64,
    pub(crate) digests: Vec<Option<Crc64>>,
}

impl Default for Delayed {
    fn default() -> Delayed {
        Delayed {
            epochs: BTreeMap::new(),
            stripes: BTreeMap::new(),
            beginning: BTreeMap::new(),
            reads: BTreeMap::new(),
            blocked: VecDeque::new(),
            stalled: VecDeque::new(),
            begun: 0,
            writes: 0,
            in_memory: BTreeSet::new(),
            memory: InMemory::default(),
            data_blocks_most: DATA_BLOCKS_MOST,
            parity_blocks_most: PARITY_BLOCKS_MOST,
            settling_blocks: 0,
            extra_places: 0,
            wasted: 0,
        }
    }
}

impl Delayed {
    /// Limits the blocks of data and of parity in memory.
    pub(crate) fn keep(&mut self, data_blocks: usize, parity_blocks: usize) {
        (self.data_blocks_most, self.parity_blocks_most) = (data_blocks, parity_blocks);
    }

    /// Returns the number of places that epochs take in addition to those of mapped stripes.
    pub(crate) fn places(&self) -> usize {
        self.extra_places
    }

    /// Tests whether no epoch is open and nothing of an ended one is pending.
    pub(crate) fn is_empty(&self) -> bool {
        self.epochs.is_empty() && self.stripes.is_empty()
    }

    /// Returns the number of stripes whose parity was written in vain.
    pub(crate) fn wasted_stripes(&self) -> u64 {
        self.wasted
    }

    pub(crate) fn blocks_in_memory(&self) -> usize {
        self.memory.data_blocks + self.memory.parity_blocks
    }
}

impl Engine {
    /// Returns the epoch that holds some of the blocks that a request from outside of it would
    /// write.
    pub(crate) fn epoch_in_the_way(&self, request: &Request) -> Option<EpochId> {
        let (first, count) = match request {
            Request::Write { first, contents: buffers, .. } => (*first, buffers.len() as u64),
            Request::Trim { first, count } => (*first, *count),
            _ => return None,
        };
        if count == 0 || self.delayed.epochs.is_empty() {
            return None;
        }
        let (from, _) = self.geometry.locate(first);
        let (to, _) = self.geometry.locate(UserBlock(first.0 + count - 1));
        let in_the_way = |epoch: &&Epoch| from < epoch.end && epoch.first <= to;
        self.delayed.epochs.iter().find(|(_, epoch)| in_the_way(epoch)).map(|(&id, _)| id)
    }

    /// Handles a request of a kind that only epochs have.
    pub(crate) fn delayed_request(&mut self, id: RequestId, request: Request) {
        if !self.delayed.stalled.is_empty() && matches!(request, Request::Within { .. } | Request::End { .. })
        {
            self.delayed.stalled.push_back((id, request));
            return;
        }
        match request {
            Request::Begin { first, count, owed_blocks_max } => self.begin(id, first, count, owed_blocks_max),
            Request::Within { epoch, request } => self.within(id, epoch, *request),
            Request::End { epoch } => self.end_epoch(id, epoch),
            Request::Abort { epoch } => self.abort_epoch(id, epoch),
            Request::Advance { epoch, through } => match self.delayed.epochs.get_mut(&epoch) {
                Some(known) => {
                    known.advance_through = known.advance_through.max(through);
                    self.reply(id, Reply::Done);
                }
                None => self.refuse_within(id, Failure::NoSuchEpoch { epoch }),
            },
            _ => unreachable!("only requests of epochs come here"),
        }
    }

    fn refuse_within(&mut self, id: RequestId, failure: Failure) {
        self.reply(id, Reply::Failed(failure));
    }

    fn begin(&mut self, id: RequestId, first: UserBlock, count: u64, owed_blocks_max: u64) {
        let end = first.0.checked_add(count).filter(|&end| count > 0 && end <= self.geometry.user_blocks());
        let Some(end) = end else {
            let end = UserBlock(self.geometry.user_blocks());
            return self.refuse_within(id, Failure::OutOfRange { end });
        };
        let (first, end) = (self.geometry.locate(first).0, self.geometry.locate(UserBlock(end - 1)).0 + 1);
        let overlaps = self.delayed.epochs.iter().filter(|(_, epoch)| first < epoch.end && epoch.first < end);
        let epochs: Vec<EpochId> = overlaps.map(|(&id, _)| id).collect();
        if self.service.has_failed() {
            return self.refuse_within(id, Failure::NotDurable);
        }
        if !epochs.is_empty() {
            return self.refuse_within(id, Failure::EpochsOverlap { epochs });
        }
        self.delayed.begun += 1;
        let epoch = EpochId(self.snapshots.superblock().session.0 * EPOCHS_OF_SESSION + self.delayed.begun);
        let new = Epoch {
            first,
            end,
            owed_blocks_max,
            state: EpochState::Beginning,
            stripes: BTreeMap::new(),
            unmapped: BTreeSet::new(),
            owed: BTreeMap::new(),
            lost: BTreeSet::new(),
            owed_blocks: 0,
            active: 0,
            advance_through: 0,
            unflushed: BTreeSet::new(),
            round: None,
            flushes: Vec::new(),
            ends: Vec::new(),
            wasted: 0,
        };
        self.delayed.epochs.insert(epoch, new);
        self.delayed.beginning.insert(id, epoch);
        // From now on no other user writes to the range, so when the flush is answered nothing in
        // it is dirty.
        self.flush(id);
    }

    /// Opens an epoch if `reply` answers the flush that it waits for.
    pub(crate) fn begun(&mut self, id: RequestId, reply: Reply) -> Reply {
        let Some(epoch) = self.delayed.beginning.remove(&id) else { return reply };
        let per_stripe = self.geometry.stripe_blocks();
        match (reply, self.delayed.epochs.get_mut(&epoch)) {
            (Reply::Done, Some(known)) => {
                known.state = EpochState::Open;
                let first = UserBlock(u64::from(known.first) * per_stripe);
                Reply::Begun { epoch, first, count: u64::from(known.end - known.first) * per_stripe }
            }
            (Reply::Done, None) => Reply::Failed(Failure::NoSuchEpoch { epoch }),
            (reply, _) => {
                self.delayed.epochs.remove(&epoch);
                reply
            }
        }
    }

    /// Returns the ranges of an epoch's blocks that are lost.
    fn losses_within(&self, epoch: EpochId) -> Vec<(UserBlock, u64)> {
        let Some(known) = self.delayed.epochs.get(&epoch) else { return Vec::new() };
        let per_stripe = self.geometry.stripe_blocks();
        let mut lost: Vec<UserBlock> = Vec::new();
        for stripe in known.lost.iter().filter_map(|id| self.delayed.stripes.get(id)) {
            let first = u64::from(stripe.logical) * per_stripe;
            let of_stripe =
                (0..per_stripe).filter(|&place| stripe.lost.contains(&self.owed_index(place as u32)));
            lost.extend(of_stripe.map(|place| UserBlock(first + place)));
        }
        lost.sort_unstable();
        ranges_of(lost.into_iter())
    }

    pub(crate) fn epoch_statuses(&self) -> Vec<EpochStatus> {
        let per_stripe = self.geometry.stripe_blocks();
        let status = |(&epoch, known): (&EpochId, &Epoch)| EpochStatus {
            epoch,
            first: UserBlock(u64::from(known.first) * per_stripe),
            count: u64::from(known.end - known.first) * per_stripe,
            state: known.state,
            stripes: known.stripes.len() as u64,
            owed_stripes: (known.owed.len() + known.lost.len()) as u64,
            owed_blocks: known.owed_blocks,
            owed_blocks_max: known.owed_blocks_max,
            newest: self.delayed.writes,
            oldest: known.owed.keys().next().copied(),
            wasted_stripes: known.wasted,
            lost: self.losses_within(epoch),
        };
        self.delayed.epochs.iter().map(status).collect()
    }

    pub(crate) fn check_delayed(&self) {
        for (id, owed) in &self.delayed.stripes {
            let physical = owed.physical;
            if owed.dropped {
                continue;
            }
            assert!(self.maps.free().contains(physical), "place {physical} of an epoch is mapped");
            assert!(self.pins.holds(physical), "place {physical} of an epoch is not held");
            let known = &self.delayed.epochs[&owed.epoch];
            assert!(known.first <= owed.logical && owed.logical < known.end, "stripe of no epoch");
            let listed = known.owed.values().any(|other| other == id) || known.lost.contains(id);
            assert_eq!(listed, !owed.settled, "stripe {} is settled or has pending parity", owed.logical);
        }
        for known in self.delayed.epochs.values() {
            let owed = known.stripes.values().map(|id| &self.delayed.stripes[id]);
            let blocks: u64 = owed.filter(|owed| !owed.settled).map(Owed::known_blocks).sum();
            assert_eq!(blocks, known.owed_blocks, "blocks owed");
        }
    }
}

/// Returns ascending blocks as ranges: first and count.
pub(crate) fn ranges_of(blocks: impl Iterator<Item = UserBlock>) -> Vec<(UserBlock, u64)> {
    let mut ranges: Vec<(UserBlock, u64)> = Vec::new();
    for block in blocks {
        match ranges.last_mut() {
            Some((first, count)) if first.0 + *count == block.0 => *count += 1,
            _ => ranges.push((block, 1)),
        }
    }
    ranges
}
