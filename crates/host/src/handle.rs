//! Handle of a client: reads and writes of any range of bytes, by any number of threads at once.
//!
//! The volume has only whole blocks. A write of a part of a block reads the block, changes it, and
//! writes it back. Between its read and its write no other write of the block may pass, or the
//! other's bytes would be lost; [`Gate`] makes them wait. All other requests need no lock, because
//! the engine handles them in the order in which they come.
//!
//! Bound: writes that are pending or not durable yet occupy memory of a bounded pool. If the pool
//! is empty, the writer waits, and the engine is asked to free memory.

use crate::HostError;
use crate::direct::Direct;
use crate::engine::Engine;
use crate::epochs::{Epoch, EpochOptions, EpochWish, Rules};
use crate::inbox::{Awaited, Inbox, Message, answer};
use crate::locks::{lock, wait};
use crate::long::LongRead;
use crate::memory::{BLOCK, Block};
use pantile_device::{AlignedBuf, BufferPool};
use pantile_volume::{EpochId, Extent, Request, UserBlock};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Most blocks of one request to the engine; longer requests are split.
const PIECE_BLOCKS: u64 = 256;

/// Longest wait of a writer for memory before it asks the engine to free some.
const PATIENCE: Duration = Duration::from_millis(20);

/// Longest total wait of a writer for memory, without its flushes. A flush ends when a device that
/// hangs is given up, or when a full device has space again.
const MEMORY_DEADLINE: Duration = Duration::from_secs(300);

/// A client's access to a running volume. Cloning is cheap; all clones share one state.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
    epoch: Option<EpochId>,
}

struct Shared {
    inbox: Arc<Inbox>,
    direct: Arc<Direct>,
    len_bytes: u64,
    memory: BufferPool,
    gate: Gate,
    reads: Permits,
}

type Waiting = Awaited<Vec<Option<Block>>>;

impl Handle {
    pub(crate) fn new(
        (inbox, direct): (Arc<Inbox>, Arc<Direct>),
        len_bytes: u64,
        write_bytes: usize,
        read_bytes: usize,
    ) -> Handle {
        let memory = BufferPool::new(write_bytes.max(PIECE_BLOCKS as usize * BLOCK * 2));
        let reads = Permits::new(read_bytes.max(PIECE_BLOCKS as usize * BLOCK));
        Handle {
            shared: Arc::new(Shared { inbox, direct, len_bytes, memory, gate: Gate::default(), reads }),
            epoch: None,
        }
    }

    /// Returns the bytes of pending writes, and of buffers kept for further ones.
    pub(crate) fn write_bytes(&self) -> u64 {
        self.shared.memory.held_bytes() as u64
    }

    /// Returns the length of the volume.
    pub fn len_bytes(&self) -> u64 {
        self.shared.len_bytes
    }

    /// Fills `into` with the bytes at `offset`.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), HostError> {
        let long = self.begin_read(offset, into.len())?;
        if self.epoch.is_none() && self.shared.direct.read(offset, into, long.as_ref()).is_some() {
            return Ok(());
        }
        self.read_by_engine(offset, into)
    }

    /// Does the same as [`read`](Self::read) for a buffer that is given away and returned filled:
    /// the fastest way to read much data. Blocks that are adjacent on a device are read into it
    /// without a copy: all blocks with codes of one row, such as raid6 and cauchy; fewer with array
    /// codes.
    ///
    /// The result has the same length. If a device was late, it is another buffer, which belongs to
    /// no pool; the given one then stays with the volume until the device answers, or for ever if
    /// the volume ends first. After an error no buffer is returned.
    pub fn read_buffer(&self, offset: u64, buffer: AlignedBuf) -> Result<AlignedBuf, HostError> {
        let len = buffer.len();
        let long = self.begin_read(offset, len)?;
        let mut buffer = Some(buffer);
        let direct = &self.shared.direct;
        let is_read =
            self.epoch.is_none() && direct.read_buffer(offset, &mut buffer, long.as_ref()).is_some();
        match buffer {
            Some(buffer) if is_read => Ok(buffer),
            left => {
                let mut buffer = left.unwrap_or_else(|| AlignedBuf::zeroed(len));
                self.read_by_engine(offset, &mut buffer)?;
                Ok(buffer)
            }
        }
    }

    fn begin_read(&self, offset: u64, len: usize) -> Result<Option<LongRead<'_>>, HostError> {
        self.check(offset, len as u64)?;
        let blocks = blocks_of(offset, offset + len as u64);
        Ok(self.shared.direct.long_read(blocks.end - blocks.start))
    }

    fn read_by_engine(&self, offset: u64, into: &mut [u8]) -> Result<(), HostError> {
        let blocks = blocks_of(offset, offset + into.len() as u64);
        let mut under_way: VecDeque<(Range<u64>, Permit<'_>, Waiting)> = VecDeque::new();
        let mut take = |(range, _permit, waiting): (Range<u64>, Permit<'_>, Waiting)| {
            copy_out(&waiting.wait()?, range, offset, into);
            Ok::<(), HostError>(())
        };
        for blocks in pieces(blocks) {
            let bytes = (blocks.end - blocks.start) as usize * BLOCK;
            // A reader holds no permit while it waits for another one, or two readers could wait
            // for each other.
            let permit = loop {
                match (self.shared.reads.try_take(bytes), under_way.pop_front()) {
                    (Some(permit), Some(first)) => {
                        under_way.push_front(first);
                        break permit;
                    }
                    (Some(permit), None) => break permit,
                    (None, Some(first)) => take(first)?,
                    (None, None) => break self.shared.reads.take(bytes),
                }
            };
            let (first, count) = (UserBlock(blocks.start), (blocks.end - blocks.start) as u32);
            under_way.push_back((blocks, permit, self.ask(Request::Read { first, count })));
        }
        under_way.into_iter().try_for_each(take)
    }

    /// Writes `data` at `offset`. `durable`: the call returns when the write would survive a crash.
    pub fn write(&self, offset: u64, data: &[u8], durable: bool) -> Result<(), HostError> {
        self.check(offset, data.len() as u64)?;
        self.write_from(offset, data.len() as u64, durable, |range, into| {
            into.copy_from_slice(&data[range]);
        })
    }

    /// Writes zeros to a range. Its whole blocks no longer take space.
    pub fn zero(&self, offset: u64, len: u64, durable: bool) -> Result<(), HostError> {
        self.check(offset, len)?;
        let whole = whole_blocks(offset, offset + len);
        if whole.is_empty() {
            return self.write_from(offset, len, durable, |_, into| into.fill(0));
        }
        let (start, end) = (whole.start * BLOCK as u64, whole.end * BLOCK as u64);
        self.write_from(offset, start - offset, false, |_, into| into.fill(0))?;
        self.write_from(end, offset + len - end, false, |_, into| into.fill(0))?;
        self.forget(whole)?;
        if durable { self.flush() } else { Ok(()) }
    }

    /// Discards a range. Its whole blocks read as zeros afterwards, partial ones are unchanged.
    pub fn trim(&self, offset: u64, len: u64) -> Result<(), HostError> {
        self.check(offset, len)?;
        self.forget(whole_blocks(offset, offset + len))
    }

    /// Makes all writes durable that were acknowledged before the call.
    pub fn flush(&self) -> Result<(), HostError> {
        self.ask(Request::Flush).wait().map(drop)
    }

    /// Returns the extents of a range, in order: their lengths in bytes, and true for a hole.
    ///
    /// No data are read. A hole reads as zeros. A block that is partly in the range has the kind of
    /// the whole block.
    pub fn extents(&self, offset: u64, len: u64) -> Result<Vec<(u64, bool)>, HostError> {
        self.check(offset, len)?;
        if self.epoch.is_some() {
            // The maps do not have the writes of an epoch.
            return Ok(vec![(len, false)]);
        }
        let end = offset + len;
        let blocks = blocks_of(offset, end);
        let (first, count) = (UserBlock(blocks.start), blocks.end - blocks.start);
        let (answer, waiting) = answer();
        let call = move |engine: &mut Engine| answer.give(engine.extents(first, count));
        self.shared.inbox.push(Message::Call(Box::new(call)));
        let mut at = blocks.start * BLOCK as u64;
        let cut = |extent: Extent| {
            let from = at.max(offset);
            at += extent.blocks * BLOCK as u64;
            (at.min(end) - from, extent.hole)
        };
        Ok(waiting.wait()?.into_iter().map(cut).collect())
    }

    fn forget(&self, blocks: Range<u64>) -> Result<(), HostError> {
        if blocks.is_empty() {
            return Ok(());
        }
        let (first, count) = (UserBlock(blocks.start), blocks.end - blocks.start);
        let waiting = self.shared.gate.pass(blocks, || self.ask(Request::Trim { first, count }));
        waiting.wait().map(drop)
    }

    /// Writes `len` bytes at `offset`. `fill` copies them from their offset in the request.
    fn write_from(
        &self,
        offset: u64,
        len: u64,
        durable: bool,
        fill: impl Fn(Range<usize>, &mut [u8]),
    ) -> Result<(), HostError> {
        let end = offset + len;
        let mut under_way = Vec::new();
        for blocks in pieces(blocks_of(offset, end)) {
            // Memory is taken first: a writer that holds a block must not wait for writers that
            // have memory and wait for the block.
            let mut data = self.memory((blocks.end - blocks.start) as usize * BLOCK)?;
            let first = blocks.start * BLOCK as u64;
            let (from, to) = (offset.max(first), end.min(blocks.end * BLOCK as u64));
            let write = |data: &mut AlignedBuf| {
                fill(
                    (from - offset) as usize..(to - offset) as usize,
                    &mut data[(from - first) as usize..(to - first) as usize],
                );
            };
            let edges = partial_blocks(from, to);
            let first = UserBlock(blocks.start);
            under_way.push(if edges.is_empty() {
                write(&mut data);
                self.shared.gate.pass(blocks, || self.ask(Request::Write { first, contents: data, durable }))
            } else {
                let _held = self.shared.gate.hold(&edges);
                for &edge in &edges {
                    let found = self.ask(Request::Read { first: UserBlock(edge), count: 1 }).wait()?;
                    let place = (edge - blocks.start) as usize * BLOCK;
                    let into = &mut data[place..place + BLOCK];
                    match found.first() {
                        Some(Some(block)) => into.copy_from_slice(block.bytes()),
                        _ => into.fill(0),
                    }
                }
                write(&mut data);
                let others = blocks.clone().filter(|block| !edges.contains(block));
                self.shared
                    .gate
                    .pass_those(others, || self.ask(Request::Write { first, contents: data, durable }))
            });
        }
        under_way.into_iter().try_for_each(|waiting| waiting.wait().map(drop))
    }

    /// Waits until a write gets memory.
    fn memory(&self, bytes: usize) -> Result<AlignedBuf, HostError> {
        let memory = &self.shared.memory;
        if let Some(buffer) = memory.take(bytes) {
            return Ok(buffer);
        }
        let mut waited = Duration::ZERO;
        loop {
            let begun = Instant::now();
            if let Some(buffer) = memory.take_until(bytes, begun + PATIENCE) {
                return Ok(buffer);
            }
            waited += begun.elapsed();
            if waited > MEMORY_DEADLINE {
                return Err(HostError::NoMemory { max_bytes: memory.max_bytes() });
            }
            // Small writes can hold more memory than the engine has in its count, so it may not
            // free enough by itself.
            self.flush()?;
        }
    }

    /// Begins an epoch of delayed parity. Until it ends, only its own requests write to its range,
    /// and other readers do not see its writes.
    ///
    /// Errors: `EpochsOverlap`.
    pub fn begin(&self, options: &EpochOptions) -> Result<Epoch, HostError> {
        let (offset, len) = options.range.unwrap_or((0, self.len_bytes()));
        self.check(offset, len)?;
        let blocks = blocks_of(offset, offset + len);
        let EpochOptions { age_max, idle_max, on_timeout, .. } = *options;
        let wish = EpochWish {
            first: UserBlock(blocks.start),
            count: blocks.end - blocks.start,
            owed_blocks_max: options.owed_bytes_max / BLOCK as u64,
            rules: Rules { age_max, idle_max, on_timeout },
        };
        let (answer, waiting) = answer();
        let begin = move |engine: &mut crate::engine::Engine| engine.begin_epoch(wish, answer);
        self.shared.inbox.push(Message::Call(Box::new(begin)));
        let (id, first, count) = waiting.wait()?;
        Ok(Epoch::new(self.within(id), id, first, count))
    }

    /// Returns a handle that writes in an epoch. Any number of handles may write in one epoch.
    pub fn within(&self, epoch: EpochId) -> Handle {
        Handle { shared: self.shared.clone(), epoch: Some(epoch) }
    }

    /// Ends or aborts an epoch.
    pub(crate) fn close_epoch(&self, epoch: EpochId, seal: bool) -> Result<(), HostError> {
        let (answer, waiting) = answer();
        let close = move |engine: &mut crate::engine::Engine| engine.close_epoch(epoch, seal, answer);
        self.shared.inbox.push(Message::Call(Box::new(close)));
        waiting.wait().map(drop)
    }

    /// Ends an epoch by its policy: the client that began it is gone.
    pub(crate) fn leave_epoch(&self, epoch: EpochId) {
        let leave = move |engine: &mut crate::engine::Engine| engine.leave_epoch(epoch);
        self.shared.inbox.push(Message::Call(Box::new(leave)));
    }

    fn ask(&self, request: Request<AlignedBuf>) -> Waiting {
        let request = match self.epoch {
            Some(epoch) => Request::Within { epoch, request: Box::new(request) },
            None => request,
        };
        let (answer, waiting) = answer();
        self.shared.inbox.push(Message::User { request, answer });
        waiting
    }

    fn check(&self, offset: u64, len: u64) -> Result<(), HostError> {
        let end_bytes = offset.saturating_add(len);
        let len_bytes = self.shared.len_bytes;
        if end_bytes > len_bytes { Err(HostError::OutOfRange { end_bytes, len_bytes }) } else { Ok(()) }
    }
}

/// Returns the blocks that a range of bytes touches.
fn blocks_of(start: u64, end: u64) -> Range<u64> {
    match start < end {
        true => start / BLOCK as u64..end.div_ceil(BLOCK as u64),
        false => 0..0,
    }
}

/// Returns the blocks that a range of bytes holds completely.
fn whole_blocks(start: u64, end: u64) -> Range<u64> {
    let (first, behind) = (start.div_ceil(BLOCK as u64), end / BLOCK as u64);
    if first < behind { first..behind } else { 0..0 }
}

/// Returns the blocks that a range of bytes touches in part: none, one or two.
fn partial_blocks(start: u64, end: u64) -> Vec<u64> {
    let whole = whole_blocks(start, end);
    let touched = blocks_of(start, end);
    let mut partial: Vec<u64> = [touched.start, touched.end.saturating_sub(1)].to_vec();
    partial.dedup();
    partial.retain(|block| touched.contains(block) && !whole.contains(block));
    partial
}

/// Splits blocks into requests to the engine.
fn pieces(blocks: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let end = blocks.end;
    blocks.step_by(PIECE_BLOCKS as usize).map(move |first| first..end.min(first + PIECE_BLOCKS))
}

/// Copies blocks that were read to their offset in a request that begins at `offset`.
fn copy_out(found: &[Option<Block>], blocks: Range<u64>, offset: u64, into: &mut [u8]) {
    let end = offset + into.len() as u64;
    for (index, block) in blocks.zip(found) {
        let start = index * BLOCK as u64;
        let (from, to) = (start.max(offset), (start + BLOCK as u64).min(end));
        let into = &mut into[(from - offset) as usize..(to - offset) as usize];
        match block {
            Some(block) => {
                into.copy_from_slice(&block.bytes()[(from - start) as usize..(to - start) as usize])
            }
            None => into.fill(0),
        }
    }
}

/// Lets writes pass, except of blocks that another write is changing in part.
#[derive(Default)]
struct Gate {
    held: Mutex<BTreeSet<u64>>,
    freed: Condvar,
}

struct Held<'g> {
    gate: &'g Gate,
    blocks: Vec<u64>,
}

impl Gate {
    /// Submits a request to the engine when none of its blocks is held. `submit` does not wait.
    fn pass<T>(&self, blocks: Range<u64>, submit: impl FnOnce() -> T) -> T {
        let mut held = lock(&self.held);
        while held.range(blocks.clone()).next().is_some() {
            held = wait(&self.freed, held);
        }
        submit()
    }

    /// Does the same as [`pass`](Self::pass), for a few blocks that need not be adjacent.
    fn pass_those<T>(&self, blocks: impl Iterator<Item = u64> + Clone, submit: impl FnOnce() -> T) -> T {
        let mut held = lock(&self.held);
        while blocks.clone().any(|block| held.contains(&block)) {
            held = wait(&self.freed, held);
        }
        submit()
    }

    /// Holds some blocks, all at once, until the result is dropped.
    fn hold(&self, blocks: &[u64]) -> Held<'_> {
        let mut held = lock(&self.held);
        while blocks.iter().any(|block| held.contains(block)) {
            held = wait(&self.freed, held);
        }
        held.extend(blocks);
        Held { gate: self, blocks: blocks.to_vec() }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut held = lock(&self.gate.held);
        for block in &self.blocks {
            held.remove(block);
        }
        drop(held);
        self.gate.freed.notify_all();
    }
}

/// Limits the bytes of pending reads.
struct Permits {
    free: Mutex<Free>,
    returned: Condvar,
}

struct Free {
    bytes: usize,
    /// Number of waiting threads; without any, a system call is saved.
    waiting: usize,
}

struct Permit<'p> {
    permits: &'p Permits,
    bytes: usize,
}

impl Permits {
    fn new(bytes: usize) -> Permits {
        Permits { free: Mutex::new(Free { bytes, waiting: 0 }), returned: Condvar::new() }
    }

    fn try_take(&self, bytes: usize) -> Option<Permit<'_>> {
        let mut free = lock(&self.free);
        free.bytes = free.bytes.checked_sub(bytes)?;
        Some(Permit { permits: self, bytes })
    }

    fn take(&self, bytes: usize) -> Permit<'_> {
        let mut free = lock(&self.free);
        while free.bytes < bytes {
            free.waiting += 1;
            free = wait(&self.returned, free);
            free.waiting -= 1;
        }
        free.bytes -= bytes;
        Permit { permits: self, bytes }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut free = lock(&self.permits.free);
        free.bytes += self.bytes;
        let call = free.waiting > 0;
        drop(free);
        if call {
            self.permits.returned.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_bytes_are_cut_into_blocks() {
        let b = BLOCK as u64;
        assert_eq!(blocks_of(0, 0), 0..0);
        assert_eq!(blocks_of(1, b + 1), 0..2);
        assert_eq!(whole_blocks(1, 2 * b), 1..2);
        assert!(whole_blocks(1, b + 1).is_empty());
        assert!(partial_blocks(0, b).is_empty());
        assert_eq!(partial_blocks(1, b), [0]);
        assert_eq!(partial_blocks(1, b + 1), [0, 1]);
        assert_eq!(partial_blocks(b, 3 * b - 1), [2]);
        assert_eq!(partial_blocks(b + 5, b + 9), [1]);
        assert!(partial_blocks(7, 7).is_empty());
        let cut: Vec<_> = pieces(3..3 + 2 * PIECE_BLOCKS + 1).collect();
        assert_eq!(cut, [3..259, 259..515, 515..516]);
    }

    #[test]
    fn held_blocks_do_not_pass() {
        let gate = Gate::default();
        let held = gate.hold(&[4, 9]);
        gate.pass(0..4, || ());
        gate.pass_those([5, 8].into_iter(), || ());
        std::thread::scope(|scope| {
            let passed = scope.spawn(|| gate.pass(3..5, Instant::now));
            std::thread::sleep(Duration::from_millis(30));
            let freed = Instant::now();
            drop(held);
            assert!(passed.join().expect("no panic") >= freed);
        });
    }
}
