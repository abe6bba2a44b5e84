//! I/O of the engine: it joins the volume's I/Os into fewer and longer ones, and reports the result
//! of each to the volume.
//!
//! The result of a joined I/O is reported for each of its parts. If a joined I/O fails, its parts
//! are repeated one by one.

use super::pace::PROBE;
use super::{Engine, INLINE_BYTES_MAX};
use crate::gather::{GAP_BLOCKS_MAX, Wanted, cut, join};
use crate::inbox::Message;
use crate::latency::Kind;
use crate::memory::{BLOCK, Block};
use crate::work::checksum;
use pantile_device::{Completion, Op, Priority, Refusal, Remedy, Request as IoRequest, Segment};
use pantile_volume::{BufferId, DeviceBlock, Event, IoId, IoResult, Piece, Seed, Slot, Urgency};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pause before a request is repeated that failed for lack of space or memory.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// Purpose of an I/O.
pub(super) enum Purpose {
    Blocks { into: Vec<BufferId>, generation: u64 },
    Bytes,
    Write,
    Flush,
}

pub(super) struct Flight {
    pub(super) slot: Slot,
    pub(super) at: DeviceBlock,
    pub(super) blocks: u64,
    pub(super) purpose: Purpose,
}

impl Engine {
    pub(super) fn want(&mut self, wanted: Wanted, purpose: Purpose) {
        let Wanted { slot, at, blocks, .. } = wanted;
        self.flights.add(wanted.io, Flight { slot, at, blocks, purpose });
        self.flights.want(wanted);
    }

    /// Gives the volume's new I/Os to the devices, adjacent ones joined.
    pub(super) fn begin_wanted(&mut self) {
        let gap_max = if self.reads_more { GAP_BLOCKS_MAX } else { 0 };
        for group in join(self.flights.take_wanted(), gap_max) {
            let Some(first) = group.first() else { continue };
            let (io, slot, at, urgency) = (first.io, first.slot, first.at, first.urgency);
            self.flights.join(group.iter().map(|one| one.io).collect());
            let blocks = group.last().map_or(0, Wanted::end) - at.0;
            let is_write = first.write.is_some();
            let segments = group.into_iter().filter_map(|one| one.write).flatten();
            let op = if is_write { write_op(at, segments.collect()) } else { self.read_op(at, blocks) };
            self.begin(io, slot, op, urgency);
        }
    }

    fn read_op(&self, at: DeviceBlock, blocks: u64) -> Op {
        let buffer = self.memory.buffers.take(blocks as usize);
        Op::Read { offset_bytes: at.0 * BLOCK as u64, range: 0..blocks as usize * BLOCK, buffer }
    }

    pub(super) fn segments(&self, pieces: Vec<Piece>) -> Vec<Segment> {
        let mut parts: Vec<Segment> = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Block(operand) => self.memory.table.operand(operand).gather(&mut parts),
                Piece::Bytes(bytes) => {
                    let mut buffer = self.memory.buffers.take(bytes.len().div_ceil(BLOCK));
                    buffer[..bytes.len()].copy_from_slice(&bytes);
                    parts.push(Segment { buffer: Arc::new(buffer), range: 0..bytes.len() });
                }
            }
        }
        parts
    }

    pub(super) fn begin(&mut self, io: IoId, slot: Slot, op: Op, urgency: Urgency) {
        let Some(device) = self.members[slot.0 as usize].number else {
            self.all_over(io.0, &IoResult::Gone);
            return;
        };
        let priority = match urgency {
            Urgency::User => Priority::User,
            Urgency::Background => Priority::Background,
        };
        let request = IoRequest { token: io.0, device, priority, op };
        match priority {
            Priority::User => self.submit(request),
            Priority::Background => {
                self.flights.put_in_background(request);
                self.begin_background(Instant::now());
            }
        }
    }

    /// Starts background I/O that the throttle permits now.
    pub(super) fn begin_background(&mut self, now: Instant) {
        while let Some(request) = self.flights.next_in_background(now) {
            self.submit(request);
        }
    }

    pub(super) fn submit(&mut self, request: IoRequest) {
        let now = Instant::now();
        let Some(mut request) = self.past_fence(request, now) else { return };
        let Some(flight) = self.flights.get(request.token) else { return };
        let member = &mut self.members[flight.slot.0 as usize];
        // I/O that waited during an exchange goes to the new device.
        request.device = member.number.unwrap_or(request.device);
        let token = request.token;
        match self.pool.submit(request) {
            Ok(()) => {
                if member.owes.is_empty() {
                    member.answered_at = now;
                }
                member.owes.insert(token, now);
            }
            Err(rejected) => match rejected.why {
                Refusal::Full => self.flights.try_again(now + RETRY_AFTER, *rejected.request),
                Refusal::Detached => self.all_over(token, &IoResult::Gone),
            },
        }
    }

    /// Reports the same result to the volume for all parts of a joined I/O.
    fn all_over(&mut self, token: u64, result: &IoResult) {
        self.flights.take_parts(token).into_iter().for_each(|io| self.io_over(io, result.clone()));
    }

    /// Reports the end of an I/O to the volume, unless it was reported before.
    pub(super) fn io_over(&mut self, io: IoId, result: IoResult) {
        if self.flights.end(io) {
            self.volume.handle(Event::IoDone(io, result));
        }
    }

    pub(super) fn completed(&mut self, completion: Completion) {
        let Some(completion) = self.claim_done(completion) else { return };
        let Completion { token, op, result, device, priority, service, .. } = completion;
        if token & PROBE != 0 {
            return self.probed(token, service);
        }
        let Some(flight) = self.flights.get(token) else { return };
        let slot = flight.slot;
        let kind = match op {
            Op::Read { .. } => Some(Kind::Read),
            Op::Write { .. } => Some(Kind::Write),
            _ => None,
        };
        // An alarm on a late read is ignored here: devices are compared at each look anyway.
        if let Some(kind) = kind {
            self.speeds.note(slot, kind, service);
        }
        let member = &mut self.members[slot.0 as usize];
        member.owes.remove(&token);
        member.answered_at = Instant::now();
        let Err(error) = result else {
            member.ends(token);
            self.done(token, op);
            return;
        };
        let remedy = error.remedy();
        if matches!(remedy, Remedy::MakeSpace | Remedy::Retry) {
            member.falls_short(token, error);
            let request = IoRequest { token, device, priority, op };
            self.flights.try_again(Instant::now() + RETRY_AFTER, request);
            return;
        }
        member.ends(token);
        match remedy {
            Remedy::RepairRange => match self.flights.take_joined(token) {
                Some(parts) => self.each_alone(parts, device, priority, op),
                // A failed write cannot be repaired: the volume counts the device as lost. It is
                // closed, so that another device, or the same one when it works again, can take the
                // slot.
                None if matches!(op, Op::Write { .. }) => self.drop_device(slot, Some(error)),
                None => self.io_over(IoId(token), IoResult::MediaError),
            },
            _ => self.drop_device(slot, Some(error)),
        }
    }

    /// Repeats each part of a failed joined I/O separately.
    fn each_alone(&mut self, parts: Vec<IoId>, device: usize, priority: Priority, op: Op) {
        let places = parts
            .iter()
            .filter_map(|io| self.flights.get(io.0).map(|flight| (io.0, flight.at, flight.blocks)));
        let places: Vec<(u64, DeviceBlock, u64)> = places.collect();
        let ops: Vec<Op> = match op {
            Op::Write { parts, .. } => {
                let segments = cut(parts, places.iter().map(|(.., blocks)| *blocks));
                places.iter().zip(segments).map(|((_, at, _), segments)| write_op(*at, segments)).collect()
            }
            _ => places.iter().map(|(_, at, blocks)| self.read_op(*at, *blocks)).collect(),
        };
        for ((token, ..), op) in places.into_iter().zip(ops) {
            self.submit(IoRequest { token, device, priority, op });
        }
    }

    /// Handles a successful I/O.
    fn done(&mut self, token: u64, op: Op) {
        let parts = self.flights.take_parts(token);
        let Op::Read { offset_bytes, buffer, .. } = op else {
            parts.into_iter().for_each(|io| self.io_over(io, IoResult::Done));
            return;
        };
        let buffer = Arc::new(buffer);
        let mut checks = Vec::new();
        for io in parts {
            let Some(flight) = self.flights.get_mut(io) else { continue };
            let start = (flight.at.0 * BLOCK as u64 - offset_bytes) as usize;
            let range = start..start + flight.blocks as usize * BLOCK;
            match &mut flight.purpose {
                Purpose::Blocks { into, generation } => {
                    let seed = Seed { slot: flight.slot, address: flight.at, generation: *generation };
                    checks.push((io, seed, std::mem::take(into), Block::all_in(&buffer, range)));
                }
                Purpose::Bytes => self.io_over(io, IoResult::Bytes(buffer[range].to_vec())),
                Purpose::Write | Purpose::Flush => self.io_over(io, IoResult::Done),
            }
        }
        let (volume, len) = (self.geometry.volume, buffer.len());
        let check = move || {
            let read = |(io, seed, into, blocks): (IoId, Seed, Vec<BufferId>, Vec<Block>)| {
                let sums = blocks.iter().zip(seed.address.0..).map(|(block, at)| {
                    checksum(volume, Seed { address: DeviceBlock(at), ..seed }, block.bytes())
                });
                let result = IoResult::Checksums(sums.collect());
                Message::Read { io, result, blocks: into.into_iter().zip(blocks).collect() }
            };
            checks.into_iter().map(read).collect::<Vec<Message>>()
        };
        match len <= INLINE_BYTES_MAX {
            true => check().into_iter().for_each(|message| self.message(message)),
            false => self.give(check),
        }
    }
}

pub(super) fn write_op(at: DeviceBlock, parts: Vec<Segment>) -> Op {
    Op::Write { offset_bytes: at.0 * BLOCK as u64, parts }
}

pub(super) fn len_bytes(op: &Op) -> u64 {
    match op {
        Op::Read { range, .. } => range.len() as u64,
        Op::Write { parts, .. } => parts.iter().map(|part| part.range.len() as u64).sum(),
        _ => 0,
    }
}
