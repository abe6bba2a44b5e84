//! A device that still works and its replacement, as one device.
//!
//! The volume goes on with the old device while the new one becomes a copy of it, byte for byte,
//! with every block at the same offset. Reads go to the old device first. A write goes to the old
//! device and, where the copy has passed, to the new one. So the old device is complete at every
//! moment, and the copy costs no redundancy.
//!
//! The first thing that the new device gets is a mark in the places of its superblocks: it is a
//! copy under way and no member. When all is copied it is read back and compared with the old
//! device. [`Twin::finish`] then holds writes back, flushes the new device, writes the superblocks
//! of the old one over the marks, flushes and reads them back. Only then its caller records that
//! the new device is the member; from then on the old device is neither read nor written. A crash
//! before that record leaves the old device, one after it the new one.
//!
//! Invariants: `copied` never shrinks. No write and no copy overlap in time and place. Before the
//! new device is named, the old one has all copied writes of an acknowledged flush; when it is
//! named, they are durable on the new one.
//!
//! A failure of the new device ends the replacement and does no harm: the old device goes on alone.
//! So does a hang: no request waits longer for the new device than [`HANGS`], which is less than a
//! volume's patience with a device; the volume would give up both. A failure of the old device is
//! an error of the twin, as without the new one, except that reads of copied blocks are then
//! answered by the new device.

use crate::folder::FRONT_BYTES;
use crate::locks::lock;
use crate::memory::BLOCK;
use crate::timely::Timely;
use pantile_device::{AlignedBuf, Device, DeviceError, Identity, Part, PartMut, Remedy};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Bytes copied at a time. A write to a place that is being copied waits for this much.
pub(crate) const STEP_BYTES: usize = 1 << 20;

/// Longest wait of a finish for writes that have begun.
const WRITES_END: Duration = Duration::from_secs(3);

/// Longest time of the new device for a copy, or for a write beside it.
const HANGS: Duration = Duration::from_secs(20);

/// Longest time of each device for an operation while a finish holds writes back. All of them
/// together take less than a volume's patience with a device, since one that hangs gets no further
/// operation.
const HELD: Duration = Duration::from_secs(5);

/// Time for the flush of a whole copy; nothing waits for it.
const COPY_FLUSHED: Duration = Duration::from_secs(600);

/// State of a replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The old device is the member, and is being copied.
    Copies,
    /// The new device is the member.
    Retired,
    /// The old device is the member for good.
    Abandoned(Ended),
}

/// Reason why a replacement ended without the new device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The new device failed.
    Failed(DeviceError),
    /// It read back other bytes than were written to it.
    Differs {
        /// The first block that differs, in bytes.
        at: u64,
    },
    /// The folder could not be changed to name it.
    NotNamed,
    /// The operator cancelled it.
    Cancelled,
}

/// Time limits for devices.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    hangs: Duration,
    held: Duration,
    copy_flushed: Duration,
}

impl Patience {
    pub(crate) const USUAL: Patience = Patience { hangs: HANGS, held: HELD, copy_flushed: COPY_FLUSHED };
}

/// Two devices, of which the volume sees one.
pub(crate) struct Twin {
    old: Arc<dyn Device>,
    new: Arc<dyn Device>,
    /// The new device while it is no member.
    asked: Timely,
    patience: Patience,
    len_bytes: u64,
    /// Blocks of the superblocks, ascending.
    withheld: Vec<u64>,
    /// The block written there while the new device is a copy under way; zeros for a volume whose
    /// format has no mark.
    mark: AlignedBuf,
    state: Mutex<State>,
    moved: Condvar,
    /// Blocks that the old device could not read when they were copied, in bytes.
    unreadable: Mutex<BTreeSet<u64>>,
}

struct State {
    phase: Phase,
    /// The mark is on the new device.
    marked: bool,
    /// Everything before it is on the new device, but for superblocks.
    copied: u64,
    /// The range that is being copied or compared.
    copying: Range<u64>,
    /// The copied bytes are durable there.
    flushed: bool,
    /// Everything before it was read back and found equal.
    verified: u64,
    /// The superblocks are being copied: no write begins.
    finishing: bool,
    /// Writes under way, by name.
    writes: Vec<(u64, Range<u64>)>,
    named: u64,
}

/// The result of a step of copying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Copied or compared, in bytes.
    Copied(u64),
    /// Only superblocks are left.
    Ready,
    /// The replacement is over, one way or the other.
    Over,
}

/// A write that copies must not overlap.
struct Writing<'t> {
    twin: &'t Twin,
    name: u64,
    phase: Phase,
    is_copied: bool,
}

/// Lets writes begin again, however the finish ends.
struct Finishing<'t>(&'t Twin);

impl Twin {
    /// `len_bytes`: the used length of both devices, neither of which is shorter. `withheld`:
    /// offsets of the superblocks, one block each. `mark`: the block written there during the copy;
    /// empty: zeros.
    pub(crate) fn new(
        (old, new): (Arc<dyn Device>, Arc<dyn Device>),
        len_bytes: u64,
        mut withheld: Vec<u64>,
        mark: &[u8],
        patience: Patience,
    ) -> Twin {
        let mut mark_block = AlignedBuf::zeroed(BLOCK);
        mark_block[..mark.len()].copy_from_slice(mark);
        withheld.sort_unstable();
        let state = State {
            phase: Phase::Copies,
            marked: false,
            copied: 0,
            copying: 0..0,
            flushed: false,
            verified: 0,
            finishing: false,
            writes: Vec::new(),
            named: 0,
        };
        Twin {
            asked: Timely::new(new.clone(), patience.hangs),
            patience,
            old,
            new,
            len_bytes,
            withheld,
            mark: mark_block,
            state: Mutex::new(state),
            moved: Condvar::new(),
            unreadable: Mutex::default(),
        }
    }

    /// Returns its state and the number of bytes copied.
    pub(crate) fn progress(&self) -> (Phase, u64) {
        let state = self.lock();
        (state.phase.clone(), state.copied)
    }

    /// Returns the number of bytes that were read back and found equal.
    pub(crate) fn verified_bytes(&self) -> u64 {
        self.lock().verified
    }

    /// True if everything but superblocks is copied, was flushed, and was read back.
    pub(crate) fn is_copied(&self) -> bool {
        let state = self.lock();
        state.phase == Phase::Copies && state.flushed && state.verified == self.len_bytes
    }

    /// Ends the replacement, if it has not ended: the old device goes on alone.
    pub(crate) fn cancel(&self) {
        self.abandon(Ended::Cancelled);
    }

    /// Wipes the marks from the new device, which is no member, and makes its front blank.
    pub(crate) fn let_go_of_new(&self) {
        self.wipe_withheld();
        let front = AlignedBuf::zeroed(FRONT_BYTES.min(self.len_bytes) as usize);
        // If it cannot be written, it is not offered again before the operator names it.
        let _ = self.asked.within(self.patience.held).write_at(0, &[front.whole()]);
    }

    /// Returns the number of blocks that the old device could not read when they were copied. They
    /// are zeros on the new one, and found bad as such.
    pub(crate) fn unreadable_blocks(&self) -> u64 {
        lock(&self.unreadable).len() as u64
    }

    /// Copies the next [`STEP_BYTES`], flushes the copy, or compares the next [`STEP_BYTES`] of
    /// both devices. One thread calls it, after the writes to the old device that did not pass the
    /// twin.
    /// not pass the twin.
    ///
    /// Errors: the old device does not answer. The next step tries the place again.
    pub(crate) fn step(&self) -> Result<Step, DeviceError> {
        let (range, compares) = {
            let mut state = self.lock();
            if state.phase != Phase::Copies {
                return Ok(Step::Over);
            }
            let compares = state.flushed;
            let from = if compares { state.verified } else { state.copied };
            if !state.marked {
                drop(state);
                return Ok(self.mark_new());
            }
            if from == self.len_bytes {
                drop(state);
                // Most of what a finish has to flush, while no write waits for it.
                return Ok(if compares { Step::Ready } else { self.flush_copy() });
            }
            let range = from..(from + STEP_BYTES as u64).min(self.len_bytes);
            // From here on no write begins there; those that have begun end.
            state.copying = range.clone();
            while state.writes.iter().any(|(_, other)| overlap(other, &range)) {
                state = self.wait(state);
            }
            (range, compares)
        };
        let result = self.read_old(&range).map(|(bytes, unreadable)| match compares {
            true => self.compare(&range, &bytes, &unreadable),
            false => {
                lock(&self.unreadable).extend(unreadable);
                self.write_copy(range.start, &bytes).map_err(Ended::Failed)
            }
        });
        let mut state = self.lock();
        state.copying = 0..0;
        let step = match result {
            Ok(Ok(())) => {
                *if compares { &mut state.verified } else { &mut state.copied } = range.end;
                Ok(Step::Copied(range.end - range.start))
            }
            Ok(Err(why)) => {
                if state.phase == Phase::Copies {
                    state.phase = Phase::Abandoned(why);
                }
                Ok(Step::Over)
            }
            Err(error) => Err(error),
        };
        drop(state);
        self.moved.notify_all();
        step
    }

    /// Marks the new device as a copy under way, durably: from here on it is no member of any
    /// volume.
    fn mark_new(&self) -> Step {
        let write = |&at: &u64| self.asked.write_at(at, &[self.mark.whole()]);
        let written = self.withheld.iter().try_for_each(write).and_then(|()| self.asked.flush());
        self.goes_on(written, |state| state.marked = true)
    }

    fn flush_copy(&self) -> Step {
        let flushed = self.flush_new(self.patience.copy_flushed);
        self.goes_on(flushed, |state| state.flushed = true)
    }

    fn goes_on(&self, done: Result<(), DeviceError>, then: impl FnOnce(&mut State)) -> Step {
        match done {
            Ok(()) => {
                then(&mut self.lock());
                Step::Copied(0)
            }
            Err(error) => {
                self.abandon(Ended::Failed(error));
                Step::Over
            }
        }
    }

    /// Compares a range of the new device with the bytes of the old one, except superblocks and
    /// blocks that the old one could not read, now or when it was copied.
    fn compare(&self, range: &Range<u64>, bytes: &AlignedBuf, unreadable: &[u64]) -> Result<(), Ended> {
        let mut there = AlignedBuf::zeroed(bytes.len());
        self.asked.read_at(range.start, there.whole_mut()).map_err(Ended::Failed)?;
        if there[..] == bytes[..] {
            return Ok(());
        }
        let before = lock(&self.unreadable).clone();
        let blocks = there.chunks_exact(BLOCK).zip(bytes.chunks_exact(BLOCK));
        let mut differing = (range.start..).step_by(BLOCK).zip(blocks).filter(|(_, (a, b))| a != b);
        let is_excused =
            |at: &u64| self.withheld.contains(at) || unreadable.contains(at) || before.contains(at);
        match differing.find(|(at, _)| !is_excused(at)) {
            Some((at, _)) => Err(Ended::Differs { at }),
            None => Ok(()),
        }
    }

    /// Makes the new device the member. `name` records that durably; while it runs nothing is
    /// written.
    ///
    /// Returns true if the new device is the member from now on. Otherwise the old one is: the new
    /// one failed, or the old one does not read or does not end its writes, and then `finish` can
    /// be called again.
    ///
    /// Errors: those of `name`; the old device is the member.
    ///
    /// Cost: writes are held back for at most [`WRITES_END`] and four times [`HELD`], and as long
    /// as `name` takes.
    pub(crate) fn finish<E>(&self, name: impl FnOnce() -> Result<(), E>) -> Result<bool, E> {
        if !self.is_copied() {
            return Ok(false);
        }
        let mut state = self.lock();
        state.finishing = true;
        let _held = Finishing(self);
        let until = Instant::now() + WRITES_END;
        while !state.writes.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // A device hangs. It is given up, or answers, and then `finish` is called again.
                drop(state);
                return Ok(false);
            }
            state = self.moved.wait_timeout(state, left).expect("nothing panics under the lock").0;
        }
        drop(state);
        let Ok(superblocks) = self.read_superblocks() else { return Ok(false) };
        let flush = || self.flush_new(self.patience.held);
        // The data that superblocks describe are durable before them.
        let written = flush().and_then(|()| self.write_superblocks(&superblocks)).and_then(|()| flush());
        let written = written.map_err(Ended::Failed).and_then(|()| self.compare_superblocks(&superblocks));
        if let Err(why) = written {
            self.wipe_withheld();
            self.abandon(why);
            return Ok(false);
        }
        if let Err(error) = name() {
            self.wipe_withheld();
            self.abandon(Ended::NotNamed);
            return Err(error);
        }
        self.lock().phase = Phase::Retired;
        Ok(true)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under the lock")
    }

    fn wait<'g>(&self, state: MutexGuard<'g, State>) -> MutexGuard<'g, State> {
        self.moved.wait(state).expect("nothing panics under the lock")
    }

    fn abandon(&self, why: Ended) {
        let mut state = self.lock();
        if state.phase == Phase::Copies {
            state.phase = Phase::Abandoned(why);
        }
    }

    /// Waits until nothing is copied in the range, and begins a write there.
    fn begin_write(&self, range: Range<u64>) -> Writing<'_> {
        let mut state = self.lock();
        while state.finishing || overlap(&state.copying, &range) {
            state = self.wait(state);
        }
        let name = state.named;
        state.named += 1;
        let (phase, is_copied) = (state.phase.clone(), range.start < state.copied);
        state.writes.push((name, range));
        Writing { twin: self, name, phase, is_copied }
    }

    /// Does an operation on both devices, or on the one that counts.
    fn on_both(
        &self,
        offset: u64,
        len: u64,
        on_old: impl FnOnce() -> Result<(), DeviceError>,
        on_new: impl FnOnce() -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let writing = self.begin_write(offset..offset + len);
        match writing.phase {
            Phase::Retired => return on_new(),
            Phase::Abandoned(_) => return on_old(),
            Phase::Copies => {}
        }
        on_old()?;
        if writing.is_copied
            && let Err(error) = on_new()
        {
            self.abandon(Ended::Failed(error));
        }
        Ok(())
    }

    /// Reads a range of the old device; unreadable blocks are zeros. Returns them, too.
    fn read_old(&self, range: &Range<u64>) -> Result<(AlignedBuf, Vec<u64>), DeviceError> {
        let mut unreadable = Vec::new();
        let mut bytes = AlignedBuf::zeroed((range.end - range.start) as usize);
        match self.old.read_at(range.start, bytes.whole_mut()) {
            Err(error) if error.remedy() == Remedy::RepairRange => {}
            result => return result.map(|()| (bytes, unreadable)),
        }
        for start in (0..bytes.len()).step_by(BLOCK) {
            let place = start..start + BLOCK;
            match self.old.read_at(range.start + start as u64, bytes.part_mut(place.clone())) {
                Err(error) if error.remedy() == Remedy::RepairRange => {
                    bytes[place].fill(0);
                    unreadable.push(range.start + start as u64);
                }
                result => result?,
            }
        }
        Ok((bytes, unreadable))
    }

    /// Writes a copy, except superblocks. Zeros are not written over zeros: a new device can be
    /// sparse.
    fn write_copy(&self, offset: u64, bytes: &AlignedBuf) -> Result<(), DeviceError> {
        if bytes.iter().all(|&byte| byte == 0) {
            let mut there = AlignedBuf::zeroed(bytes.len());
            let is_read = self.asked.read_at(offset, there.whole_mut()).is_ok();
            if is_read && there.iter().all(|&byte| byte == 0) {
                return Ok(());
            }
        }
        self.write_around(offset, &[bytes.whole()])
    }

    /// Writes to the new device, except the superblocks.
    fn write_around(&self, offset: u64, parts: &[Part<'_>]) -> Result<(), DeviceError> {
        let len: u64 = parts.iter().map(|part| part.bytes().len() as u64).sum();
        let gaps = self.gaps(offset..offset + len);
        if let [whole] = &gaps[..]
            && *whole == (offset..offset + len)
        {
            return self.asked.write_at(offset, parts);
        }
        if gaps.is_empty() {
            return Ok(());
        }
        let mut bytes = AlignedBuf::zeroed(len as usize);
        let mut at = 0;
        for part in parts {
            bytes[at..at + part.bytes().len()].copy_from_slice(part.bytes());
            at += part.bytes().len();
        }
        gaps.into_iter().try_for_each(|gap| {
            let place = (gap.start - offset) as usize..(gap.end - offset) as usize;
            self.asked.write_at(gap.start, &[bytes.part(place)])
        })
    }

    /// Returns the parts of a range between superblocks.
    fn gaps(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let (mut gaps, mut at) = (Vec::new(), range.start);
        for &start in self.withheld.iter().filter(|&&start| overlap(&(start..start + BLOCK as u64), &range)) {
            if at < start {
                gaps.push(at..start);
            }
            at = start + BLOCK as u64;
        }
        if at < range.end {
            gaps.push(at..range.end);
        }
        gaps
    }

    /// Reads the superblocks of the old device.
    fn read_superblocks(&self) -> Result<Vec<AlignedBuf>, DeviceError> {
        let old = Timely::new(self.old.clone(), self.patience.held);
        let read = |&at: &u64| {
            let mut block = AlignedBuf::zeroed(BLOCK);
            match old.read_at(at, block.whole_mut()) {
                // One that is unreadable is one of three.
                Err(error) if error.remedy() == Remedy::RepairRange => block.fill(0),
                result => result?,
            }
            Ok(block)
        };
        self.withheld.iter().map(read).collect()
    }

    fn write_superblocks(&self, blocks: &[AlignedBuf]) -> Result<(), DeviceError> {
        let new = self.asked.within(self.patience.held);
        self.withheld.iter().zip(blocks).try_for_each(|(&at, block)| new.write_at(at, &[block.whole()]))
    }

    /// Compares the superblocks of the new device with these.
    fn compare_superblocks(&self, blocks: &[AlignedBuf]) -> Result<(), Ended> {
        let new = self.asked.within(self.patience.held);
        self.withheld.iter().zip(blocks).try_for_each(|(&at, block)| {
            let mut there = AlignedBuf::zeroed(BLOCK);
            new.read_at(at, there.whole_mut()).map_err(Ended::Failed)?;
            if there[..] == block[..] { Ok(()) } else { Err(Ended::Differs { at }) }
        })
    }

    /// Wipes marks and superblocks of the new device: it must not pass for the old one, which is
    /// written to from now on. If it hangs, it is wiped when it answers.
    fn wipe_withheld(&self) {
        if wipe(&self.asked.within(self.patience.held), &self.withheld).is_err() {
            let withheld = self.withheld.clone();
            self.asked.when_it_answers(move |new| drop(wipe(new, &withheld)));
        }
    }

    fn flush_new(&self, patience: Duration) -> Result<(), DeviceError> {
        self.asked.within(patience).flush()
    }
}

/// Writes zeros to blocks.
fn wipe(device: &dyn Device, blocks: &[u64]) -> Result<(), DeviceError> {
    let zeros = AlignedBuf::zeroed(BLOCK);
    blocks.iter().try_for_each(|&at| device.write_at(at, &[zeros.whole()]))?;
    device.flush()
}

impl Device for Twin {
    fn path(&self) -> &Path {
        self.old.path()
    }

    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn block_len_bytes(&self) -> u32 {
        self.old.block_len_bytes().max(self.new.block_len_bytes())
    }

    /// An identity of its own: neither device is a member by itself while the twin is.
    fn identity(&self) -> Identity {
        Identity::Memory { address: std::ptr::from_ref(self) as usize }
    }

    fn read_at(&self, offset_bytes: u64, mut into: PartMut<'_>) -> Result<(), DeviceError> {
        let end = offset_bytes + into.len() as u64;
        let (phase, copied) = self.progress();
        if phase == Phase::Retired {
            return self.new.read_at(offset_bytes, into);
        }
        match self.old.read_at(offset_bytes, into.again()) {
            Err(error) if phase == Phase::Copies && end <= copied => {
                self.asked.read_at(offset_bytes, into).map_err(|_| error)
            }
            result => result,
        }
    }

    fn write_at(&self, offset_bytes: u64, parts: &[Part<'_>]) -> Result<(), DeviceError> {
        let len = parts.iter().map(|part| part.bytes().len() as u64).sum();
        let is_retired = || self.lock().phase == Phase::Retired;
        self.on_both(
            offset_bytes,
            len,
            || self.old.write_at(offset_bytes, parts),
            || match is_retired() {
                true => self.new.write_at(offset_bytes, parts),
                false => self.write_around(offset_bytes, parts),
            },
        )
    }

    /// Flushes the device that counts. `finish` flushes the new one after all writes.
    fn flush(&self) -> Result<(), DeviceError> {
        match self.progress().0 {
            Phase::Retired => self.new.flush(),
            _ => self.old.flush(),
        }
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DeviceError> {
        let discard = |device: &dyn Device| device.discard(offset_bytes, len_bytes);
        // A discarded block may keep its content, so superblocks may stay.
        let gaps = self.gaps(offset_bytes..offset_bytes + len_bytes);
        let on_new = || gaps.iter().try_for_each(|gap| self.asked.discard(gap.start, gap.end - gap.start));
        self.on_both(offset_bytes, len_bytes, || discard(&*self.old), on_new)
    }

    fn zero(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DeviceError> {
        let gaps = self.gaps(offset_bytes..offset_bytes + len_bytes);
        let is_retired = || self.lock().phase == Phase::Retired;
        let on_new = || match is_retired() {
            true => self.new.zero(offset_bytes, len_bytes),
            false => gaps.iter().try_for_each(|gap| self.asked.zero(gap.start, gap.end - gap.start)),
        };
        self.on_both(offset_bytes, len_bytes, || self.old.zero(offset_bytes, len_bytes), on_new)
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.twin.lock().writes.retain(|(name, _)| *name != self.name);
        self.twin.moved.notify_all();
    }
}

impl Drop for Finishing<'_> {
    fn drop(&mut self) {
        self.0.lock().finishing = false;
        self.0.moved.notify_all();
    }
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

#[cfg(test)]
mod tests;
