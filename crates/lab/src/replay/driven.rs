//! Drives the volume's own engine with a trace and counts the operations of its devices, for one
//! code.
//!
//! [`Counter`](super::Counter) multiplies plans, which suffices if every write is made durable in
//! place. The reads and writes of a volume also depend on the blocks that are dirty together, and
//! on the content of the log and the time of its emptying. Those of a rebuild depend on concurrent
//! writes. So the engine of `pantile_volume` is driven here: it takes the trace as requests, and a
//! [ledger](super::ledger) counts every action that it returns.
//!
//! A real volume does the same block for block under these circumstances:
//!
//! * one request at a time, the next when the volume is idle;
//! * a flush after a fixed number of requests;
//! * a rebuild as fast as possible, or of a fixed number of blocks per request.
//!
//! A volume that gets its next request while it still writes commits more at a time: the counts
//! here are then an upper bound.
//!
//! The volume starts as one that was written once, from the first block to the last, with an empty
//! log.

use super::ReplayError;
use super::counts::{BLOCK_BYTES, Counts};
use super::latency::{Clock, Latencies};
use super::ledger::{Ledger, Serving};
use super::trace::Request;
use crate::engine::{Devices, Engine, opened};
use crate::exascale::Device;
use pantile::Code;
use pantile::code::Placement;
use pantile_format::volume::VolumeId;
use pantile_volume::{Bearing, BufferId, Event, Found, Geometry, RequestId, Slot, State, UserBlock};
use std::collections::VecDeque;

/// Maximum of stripes of a driven volume: the engine then takes some 100 MB.
pub const STRIPES_MOST: u64 = 1 << 21;

/// Blocks of one request to the engine; a host cuts longer ones.
const PIECE_BLOCKS: u64 = 256;

/// Circumstances of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circumstances {
    /// Number of requests between flushes; a last flush comes at the end.
    pub flush_every: u64,
    /// Devices lost from request `lost_at` on, counted from 0.
    pub lost: Vec<usize>,
    /// Request before which devices are lost.
    pub lost_at: u64,
    /// Request before which, after a flush, an empty device replaces the first lost one; after its
    /// rebuild, another replaces the next.
    pub rebuilt_at: Option<u64>,
    /// Blocks of the rebuild that are read and written per request; `None`: the rebuild runs at
    /// once.
    pub rebuild_pace: Option<u64>,
}

impl Default for Circumstances {
    /// Returns circumstances in which each request is durable before the next and no device is
    /// lost.
    fn default() -> Circumstances {
        Circumstances { flush_every: 1, lost: Vec::new(), lost_at: 0, rebuilt_at: None, rebuild_pace: None }
    }
}

/// State of the volume at the end of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// Blocks of users that the log still holds.
    pub log_blocks: u64,
    /// Blocks that devices read and wrote for writes and flushes.
    pub moved_blocks: u64,
    /// Blocks that users wrote, counted at each write.
    pub user_blocks: u64,
    /// Requests that were taken while devices were being rebuilt.
    pub requests_while_rebuilding: u64,
    /// Requests that reach beyond the end of the volume; they were left out.
    pub requests_beyond: u64,
}

/// Returns a volume for `space_bytes` of data, with elements of `element_bytes` and otherwise the
/// numbers that `pantile create` chooses.
///
/// Errors: no volume has this shape, or it has more than [`STRIPES_MOST`] stripes.
pub fn geometry(
    (code, placement): (&Code, Placement),
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
    Geometry::new(pantile_host::numbers((code, placement), volume, element_blocks, stripes))
        .map_err(ReplayError::Shape)
}

/// Drives a volume with one trace.
pub struct Driven {
    engine: Engine<Ledger>,
    circumstances: Circumstances,
    ending: Ending,
    requests: u64,
    names: u64,
    is_rebuilding: bool,
    /// Devices to be attached, each after the one before is rebuilt.
    to_come: VecDeque<usize>,
    latencies: Latencies,
}

impl Driven {
    /// Opens a volume that was written once.
    ///
    /// Errors: lost content cannot be recovered.
    pub fn new(geometry: Geometry, circumstances: Circumstances) -> Result<Driven, ReplayError> {
        Driven::open(Ledger::written_once(geometry).map_err(ReplayError::Shape)?, circumstances)
    }

    /// Opens a volume that was never written.
    ///
    /// Errors: lost content cannot be recovered.
    pub fn on_nothing(geometry: Geometry, circumstances: Circumstances) -> Result<Driven, ReplayError> {
        Driven::open(Ledger::never_written(geometry).map_err(ReplayError::Shape)?, circumstances)
    }

    /// Returns the placement of the columns of a stripe on devices.
    pub fn placement(&self) -> Placement {
        self.engine.devices.geometry.placement
    }

    fn open(ledger: Ledger, circumstances: Circumstances) -> Result<Driven, ReplayError> {
        let geometry = ledger.geometry.clone();
        let slots: Vec<Slot> = circumstances.lost.iter().map(|&device| Slot(device as u32)).collect();
        if !Bearing::new(&geometry.code, geometry.placement).bears(&slots) {
            return Err(ReplayError::Unbearable { lost: circumstances.lost });
        }
        let mut driven = Driven {
            engine: Engine { volume: opened(&geometry), devices: ledger },
            circumstances,
            ending: Ending::default(),
            requests: 0,
            names: 0,
            is_rebuilding: false,
            to_come: VecDeque::new(),
            latencies: Latencies::new(),
        };
        driven.rest();
        let state = driven.engine.volume.state();
        assert_eq!(state, State::Serving, "a volume that the lab has written is opened");
        driven.engine.devices.opened();
        if driven.circumstances.lost_at == 0 {
            driven.lose();
        }
        driven.engine.devices.forget();
        Ok(driven)
    }

    /// Makes operations take the time of such devices. Requests then have latencies: each alone,
    /// from its issue until it is answered or, if a flush follows it, durable.
    pub fn timed(mut self, device: &Device) -> Driven {
        let ledger = &mut self.engine.devices;
        ledger.run_on(Clock::new(device.clone(), ledger.geometry.slots()));
        self
    }

    /// Returns the latencies so far; `None` without a clock.
    pub fn latencies(&self) -> Option<&Latencies> {
        self.engine.devices.is_timed().then_some(&self.latencies)
    }

    /// Runs a request with all that follows from it, and the flush if one is due.
    pub fn push(&mut self, request: &Request) {
        if self.requests == self.circumstances.lost_at && self.requests > 0 {
            self.lose();
        }
        if self.circumstances.rebuilt_at == Some(self.requests) {
            self.bring_back();
        }
        self.requests += 1;
        if request.offset + request.len > self.engine.devices.geometry.user_blocks() * BLOCK_BYTES {
            self.ending.requests_beyond += 1;
            return;
        }
        self.engine.devices.refused = false;
        let (before, begun_ns) = (self.moved(), self.engine.devices.now_ns());
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
        let ledger = &self.engine.devices;
        if ledger.is_timed() && !ledger.refused {
            self.latencies.add(request.is_write, ledger.answered_ns.saturating_sub(begun_ns));
        }
        self.go_on_rebuilding(self.circumstances.rebuild_pace.unwrap_or(u64::MAX));
        let ledger = &mut self.engine.devices;
        ledger.counts.refused += u64::from(ledger.refused);
        ledger.counts.note_request(ledger.moved - before);
    }

    /// Flushes, ends the rebuild, and returns the results.
    pub fn finish(mut self) -> (Counts, Ending) {
        self.flush();
        self.go_on_rebuilding(u64::MAX);
        self.ending.log_blocks = self.engine.volume.status().map_or(0, |status| status.log_blocks);
        (self.engine.devices.counts, self.ending)
    }

    /// Returns the number of requests between two flushes.
    pub fn flush_every(&self) -> u64 {
        self.circumstances.flush_every
    }

    fn read(&mut self, begin: u64, end: u64) {
        self.engine.devices.serving = Serving::Reads;
        for first in (begin..end).step_by(PIECE_BLOCKS as usize) {
            let count = (end - first).min(PIECE_BLOCKS) as u32;
            self.request(pantile_volume::Request::Read { first: UserBlock(first), count });
        }
        self.serve();
        self.engine.devices.serving = Serving::Writes;
    }

    fn write(&mut self, begin: u64, end: u64) {
        self.ending.user_blocks += end - begin;
        let before = self.moved();
        for first in (begin..end).step_by(PIECE_BLOCKS as usize) {
            let count = (end - first).min(PIECE_BLOCKS);
            let buffers = (0..count).map(|i| BufferId(self.names + i)).collect();
            self.names += count;
            self.request(pantile_volume::Request::Write {
                first: UserBlock(first),
                contents: buffers,
                durable: false,
            });
            // Each piece is served before the next, to keep memory small.
            self.serve();
        }
        self.ending.moved_blocks += self.moved() - before;
    }

    fn flush(&mut self) {
        let before = self.moved();
        self.request(pantile_volume::Request::Flush);
        self.serve();
        self.ending.moved_blocks += self.moved() - before;
    }

    fn request(&mut self, request: pantile_volume::Request) {
        let id = RequestId(self.names);
        self.names += 1;
        self.engine.devices.unanswered.insert(id);
        self.engine.volume.handle(Event::Request(id, request));
    }

    /// Runs the volume until it is idle. Background work runs only as far as a request waits for
    /// it.
    fn serve(&mut self) {
        self.rest();
        while !self.engine.devices.unanswered.is_empty() {
            if !self.does_more() {
                // There is nothing left to run, so the request will not be answered.
                self.engine.devices.unanswered.clear();
                self.engine.devices.refused = true;
                break;
            }
        }
        self.engine.devices.settle();
    }

    /// Advances until only background work is left.
    fn rest(&mut self) {
        let Ok(()) = self.engine.rest();
    }

    /// Runs the next background action and all that follows; false if there is none.
    fn does_more(&mut self) -> bool {
        let Some(action) = self.engine.devices.background.pop_front() else { return false };
        if let Some(event) = self.engine.devices.take(action) {
            self.engine.volume.handle(event);
        }
        self.rest();
        true
    }

    fn moved(&self) -> u64 {
        self.engine.devices.moved
    }

    fn lose(&mut self) {
        for device in self.circumstances.lost.clone() {
            self.engine.volume.handle(Event::DeviceGone(Slot(device as u32)));
            self.rest();
        }
        self.engine.devices.settle();
    }

    /// Attaches empty devices after a flush; otherwise chance would decide which stripes are
    /// rewritten for other reasons before the rebuild reaches them.
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
        self.engine.volume.handle(Event::DeviceCame(Slot(device as u32), Found::Blank));
        self.rest();
        self.engine.devices.settle();
    }

    /// Runs at least `blocks` blocks of the rebuild, or somewhat more.
    fn go_on_rebuilding(&mut self, blocks: u64) {
        let stop = self.moved().saturating_add(blocks);
        while self.is_rebuilding && self.moved() < stop {
            if self.does_more() {
                self.engine.devices.settle();
            } else {
                // What remains can belong to a commit, which the next flush completes.
                self.is_rebuilding = false;
                self.next_comes();
            }
        }
        self.ending.requests_while_rebuilding += u64::from(self.is_rebuilding);
    }
}
