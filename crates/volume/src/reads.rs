//! Reads under way: users' reads, spans of stripes and single fetches, and the queues of those that
//! wait.
//!
//! Spans and fetches wait for room before they read: a degraded read of one chunk of a volume of 64
//! devices reads 15 MiB. There is no deadlock: once begun, neither waits for another, and if none
//! is under way the next one begins, however large it is. Users' spans go before those of the
//! background, which may use half of the room.
//!
//! A user's read is answered when all of its blocks have been requested and have arrived.

use crate::fetch::{Fetch, FetchId, Later};
use crate::room::Room;
use crate::span::{Span, SpanId};
use crate::{EpochId, Operand, RequestId, Urgency, UserBlock};
use std::collections::{BTreeMap, VecDeque};

/// The most later fetches that are under way at a time. If the block itself is bad, each reads as
/// many others as the code needs: with 64 devices these hold 64 MiB.
const LATER_FETCHES: usize = 256;

/// A user's read that is not answered yet.
#[derive(Debug)]
pub(crate) struct UserRead {
    pub(crate) first: UserBlock,
    pub(crate) epoch: Option<EpochId>,
    blocks: Vec<Option<Option<Operand>>>,
    /// The number of blocks that have not arrived, plus one until all have been requested.
    missing: usize,
    lost: Option<UserBlock>,
}

impl UserRead {
    /// Returns the first block that is lost.
    pub(crate) fn lost(&self) -> Option<UserBlock> {
        self.lost
    }

    /// Returns the contents; `None`: the block is lost.
    pub(crate) fn into_contents(self) -> Vec<Option<Operand>> {
        self.blocks.into_iter().map(Option::flatten).collect()
    }
}

/// Reads that are under way or waiting.
#[derive(Debug)]
pub(crate) struct Reads {
    room: Room,
    users: BTreeMap<RequestId, UserRead>,
    spans: BTreeMap<SpanId, Span>,
    /// The number of blocks of spans that have begun.
    span_blocks: usize,
    /// Spans that wait for room, by urgency, users' first.
    waiting_spans: [VecDeque<SpanId>; 2],
    fetches: BTreeMap<FetchId, Fetch>,
    /// Fetches that wait for room.
    waiting_fetches: VecDeque<FetchId>,
    /// Fetches that begin when fewer fetches are under way.
    later: VecDeque<Later>,
}

impl Reads {
    /// Makes an empty set of reads.
    pub(crate) fn within(room: Room) -> Reads {
        Reads {
            room,
            users: BTreeMap::new(),
            spans: BTreeMap::new(),
            span_blocks: 0,
            waiting_spans: Default::default(),
            fetches: BTreeMap::new(),
            waiting_fetches: VecDeque::new(),
            later: VecDeque::new(),
        }
    }

    /// Returns the room for blocks, by their use.
    pub(crate) fn room(&self) -> &Room {
        &self.room
    }

    pub(crate) fn set_room(&mut self, room: Room) {
        self.room = room;
    }

    /// Returns true if nothing is being read, except by users' reads.
    pub(crate) fn are_idle(&self) -> bool {
        self.fetches.is_empty() && self.later.is_empty() && self.spans.is_empty()
    }

    pub(crate) fn begin_user(&mut self, id: RequestId, first: UserBlock, count: u32, epoch: Option<EpochId>) {
        let (blocks, missing) = (vec![None; count as usize], count as usize + 1);
        self.users.insert(id, UserRead { first, epoch, blocks, missing, lost: None });
    }

    pub(crate) fn user(&self, id: RequestId) -> Option<&UserRead> {
        self.users.get(&id)
    }

    /// Takes a block of a user's read, or (`None`) notes that it is lost; returns the read if it is
    /// complete.
    pub(crate) fn user_had(
        &mut self,
        id: RequestId,
        index: usize,
        block: UserBlock,
        content: Option<Operand>,
    ) -> Option<UserRead> {
        let read = self.users.get_mut(&id)?;
        read.blocks[index] = Some(content);
        if content.is_none() {
            read.lost = Some(read.lost.map_or(block, |lost| lost.min(block)));
        }
        self.user_part_done(id)
    }

    /// Ends a part of a user's read: all blocks have been requested, or one has arrived. Returns
    /// the read if it is complete.
    pub(crate) fn user_part_done(&mut self, id: RequestId) -> Option<UserRead> {
        let read = self.users.get_mut(&id)?;
        read.missing -= 1;
        if read.missing == 0 { self.users.remove(&id) } else { None }
    }

    /// Returns true if there is room to read this many blocks together.
    fn has_room(&self, blocks: usize, urgency: Urgency) -> bool {
        let most = if urgency == Urgency::User { self.room.spans } else { self.room.spans / 2 };
        self.span_blocks == 0 || self.span_blocks + blocks <= most
    }

    /// Adds a span; `true`: it begins now.
    pub(crate) fn add_span(&mut self, id: SpanId, span: Span) -> bool {
        let (blocks, urgency) = (span.blocks(), span.urgency());
        let begins = self.waiting_spans[urgency as usize].is_empty() && self.has_room(blocks, urgency);
        match begins {
            true => self.span_blocks += blocks,
            false => self.waiting_spans[urgency as usize].push_back(id),
        }
        self.spans.insert(id, span);
        begins
    }

    /// Takes the next span that has room now.
    pub(crate) fn next_span(&mut self, urgency: Urgency) -> Option<SpanId> {
        let &id = self.waiting_spans[urgency as usize].front()?;
        let blocks = self.spans.get(&id).map_or(0, Span::blocks);
        if !self.has_room(blocks, urgency) {
            return None;
        }
        self.span_blocks += blocks;
        self.waiting_spans[urgency as usize].pop_front()
    }

    pub(crate) fn span(&self, id: SpanId) -> Option<&Span> {
        self.spans.get(&id)
    }

    pub(crate) fn span_mut(&mut self, id: SpanId) -> Option<&mut Span> {
        self.spans.get_mut(&id)
    }

    /// Takes a span that has come to its end; its blocks stay in memory until
    /// [`Reads::span_is_over`].
    pub(crate) fn end_span(&mut self, id: SpanId) -> Option<Span> {
        self.spans.remove(&id)
    }

    /// Gives back the room of a span: this many blocks.
    pub(crate) fn span_is_over(&mut self, blocks: usize) {
        self.span_blocks -= blocks;
    }

    /// Adds a fetch that may read this many cells; `true`: it begins now.
    pub(crate) fn add_fetch(&mut self, id: FetchId, fetch: Fetch, cells: usize) -> bool {
        self.fetches.insert(id, fetch);
        let under_way = self.fetches.len() - self.waiting_fetches.len();
        // The new fetch is already counted in `under_way`.
        let begins = under_way * cells <= self.room.fetches.max(cells);
        if !begins {
            self.waiting_fetches.push_back(id);
        }
        begins
    }

    /// Takes the next fetch that has room now. Each may read this many cells.
    pub(crate) fn next_fetch(&mut self, cells: usize) -> Option<FetchId> {
        let under_way = self.fetches.len() - self.waiting_fetches.len();
        if under_way > 0 && (under_way + 1) * cells > self.room.fetches {
            return None;
        }
        self.waiting_fetches.pop_front()
    }

    pub(crate) fn fetch(&self, id: FetchId) -> Option<&Fetch> {
        self.fetches.get(&id)
    }

    pub(crate) fn fetch_mut(&mut self, id: FetchId) -> Option<&mut Fetch> {
        self.fetches.get_mut(&id)
    }

    pub(crate) fn end_fetch(&mut self, id: FetchId) -> Option<Fetch> {
        self.fetches.remove(&id)
    }

    /// Queues fetches that begin when fewer are under way.
    pub(crate) fn fetch_later(&mut self, later: impl IntoIterator<Item = Later>) {
        self.later.extend(later);
    }

    /// Drops the queued fetches of a verification: one lost block decides it.
    pub(crate) fn give_up_verifying(&mut self) {
        self.later.retain(|later| !later.verifies());
    }

    /// Returns the next queued fetch, if few fetches are under way; the check of a whole stripe
    /// only if fewer than `spans_most` spans are.
    pub(crate) fn next_later(&mut self, spans_most: usize) -> Option<Later> {
        let is_span = matches!(self.later.front(), Some(Later::VerifyStripe { .. }));
        if self.fetches.len() >= LATER_FETCHES || is_span && self.spans.len() >= spans_most {
            return None;
        }
        self.later.pop_front()
    }
}
