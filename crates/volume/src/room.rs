//! How many blocks a volume has in memory for what, so that all of them together stay within a
//! bound.
//!
//! What is read together (spans) and blocks that are fetched one by one wait for room before they
//! read: a degraded read of one chunk of a volume of 64 devices reads 15 MiB. Waiting cannot go in
//! circles, since neither waits for another once it has begun; and one always has room, however
//! large.

use crate::Urgency;
use crate::engine::Engine;
use crate::fetch::FetchId;
use crate::span::SpanId;
use std::collections::VecDeque;

/// Blocks in memory, by what they serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Dirty blocks that start a commit; writes are answered up to eight times as many.
    pub(crate) dirty_mark: usize,
    /// Data of epochs that are kept so that parity needs no reading.
    pub(crate) epoch_data: usize,
    /// Parity of epochs that is made and not written.
    pub(crate) epoch_parity: usize,
    /// Blocks of stripes that one commit reads to write them as a whole, unless it is one stripe.
    /// Each is in memory until the commit ends.
    pub(crate) gather: usize,
    /// Blocks that are read together.
    spans: usize,
    /// Blocks that are fetched one by one, with those that each needs if it is bad.
    fetches: usize,
    /// Chunk headers, beside those in use.
    pub(crate) headers: usize,
}

impl Room {
    /// Of a bound in blocks: with 512 MiB 16 MiB start a commit.
    pub(crate) fn within(blocks: usize) -> Room {
        Room {
            dirty_mark: (blocks / 32).max(1),
            epoch_data: blocks / 16,
            epoch_parity: blocks / 8,
            gather: blocks / 16,
            spans: blocks / 16 * 3,
            fetches: blocks / 16,
            headers: blocks / 4,
        }
    }
}

/// What waits for room, and what has it.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) room: Room,
    /// Blocks of spans that have begun.
    span_blocks: usize,
    /// By urgency, users' first.
    spans: [VecDeque<SpanId>; 2],
    fetches: VecDeque<FetchId>,
}

impl Waiting {
    pub(crate) fn new(room: Room) -> Waiting {
        Waiting { room, span_blocks: 0, spans: Default::default(), fetches: VecDeque::new() }
    }

    /// Whether so many blocks may be read together now. The background has half of the room.
    fn has_room(&self, blocks: usize, urgency: Urgency) -> bool {
        let most = if urgency == Urgency::User { self.room.spans } else { self.room.spans / 2 };
        self.span_blocks == 0 || self.span_blocks + blocks <= most
    }
}

impl Engine {
    /// Begins a span, or lets it wait for room.
    pub(crate) fn begin_in_turn(&mut self, id: SpanId, blocks: usize, urgency: Urgency) {
        let queue = urgency as usize;
        if self.waiting_for_room.spans[queue].is_empty() && self.waiting_for_room.has_room(blocks, urgency) {
            self.waiting_for_room.span_blocks += blocks;
            self.begin_span(id);
        } else {
            self.waiting_for_room.spans[queue].push_back(id);
        }
    }

    /// A span that had begun is over.
    pub(crate) fn span_is_over(&mut self, blocks: usize) {
        self.waiting_for_room.span_blocks -= blocks;
    }

    /// Advances a fetch for the first time, or lets it wait for room.
    pub(crate) fn fetch_in_turn(&mut self, id: FetchId, cells: usize) {
        let under_way = self.fetches.len() - self.waiting_for_room.fetches.len();
        // It is among them already.
        if under_way * cells <= self.waiting_for_room.room.fetches.max(cells) {
            self.advance(id);
        } else {
            self.waiting_for_room.fetches.push_back(id);
        }
    }

    /// Begins what waits, as far as there is room now.
    pub(crate) fn begin_what_waits(&mut self) {
        for urgency in [Urgency::User, Urgency::Background] {
            while let Some(&id) = self.waiting_for_room.spans[urgency as usize].front() {
                let blocks = self.span_blocks(id);
                if !self.waiting_for_room.has_room(blocks, urgency) {
                    break;
                }
                self.waiting_for_room.spans[urgency as usize].pop_front();
                self.waiting_for_room.span_blocks += blocks;
                self.begin_span(id);
            }
        }
        let cells = self.geometry.slots().max(self.geometry.code.cell_count());
        while let Some(&id) = self.waiting_for_room.fetches.front() {
            let under_way = self.fetches.len() - self.waiting_for_room.fetches.len();
            if under_way > 0 && (under_way + 1) * cells > self.waiting_for_room.room.fetches {
                break;
            }
            self.waiting_for_room.fetches.pop_front();
            self.advance(id);
        }
    }
}
