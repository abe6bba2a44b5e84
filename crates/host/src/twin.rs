//! A twin: a device that still works and its replacement, used as one device.
//!
//! The volume continues to use the old device while the new one becomes a copy of it, byte for
//! byte, with every block at the same offset. Reads go to the old device first. A write goes to the
//! old device and, in the part that is already copied, to the new one. So the old device is
//! complete at every moment, and the copy costs no redundancy.
//!
//! First the new device gets a mark in the places of its superblocks: it is a copy under
//! construction and no member. When everything is copied, it is read back and compared with the old
//! device. [`Twin::finish`] then holds writes back, flushes the new device, overwrites the marks
//! with the superblocks of the old device, flushes, and reads them back. Only then the caller
//! records that the new device is the member; from then on the old device is neither read nor
//! written. After a crash before that record the old device is the member, after it the new one.
//!
//! Invariants: `copied` never decreases. A write and a copy of the same range never run at the same
//! time. Before the new device is recorded, every write of an acknowledged flush is durable on the
//! old one; at that moment these writes are durable on the new one, too.
//!
//! A failure of the new device ends the replacement and does no harm: the old device serves alone
//! again. The same holds if the new device hangs: no request waits longer for it than [`HANGS`],
//! which is less than the volume's deadline, after which the volume would give up both. A failure
//! of the old device is an error of the twin, as without the new one, except that the new device
//! then answers reads of copied blocks.

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

/// Bytes copied in one step. A write to the range that is being copied waits for the step.
pub(crate) const STEP_BYTES: usize = 1 << 20;

/// Longest wait of `finish` for writes that have begun.
const WRITES_END: Duration = Duration::from_secs(3);

/// Time limit of the new device for a step of the copy, or for a write of the volume.
const HANGS: Duration = Duration::from_secs(20);

/// Time limit of each device for an operation while `finish` holds writes back. All of these
/// operations together take less than the volume's deadline, because a device that hangs gets no
/// further operation.
const HELD: Duration = Duration::from_secs(5);

/// Time limit of the flush of a complete copy; no request waits for it.
const COPY_FLUSHED: Duration = Duration::from_secs(600);

/// State of a replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The old device is the member and is being copied.
    Copies,
    /// The new device is the member; the old one is not used any more.
    Retired,
    /// The old device is the member and stays it.
    Abandoned(Ended),
}

/// Reason why a replacement ended without the new device as the member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The new device failed.
    Failed(DeviceError),
    /// The new device read back other bytes than were written to it.
    Differs {
        /// The offset of the first block that differs, in bytes.
        at: u64,
    },
    /// The folder could not be changed to name the new device.
    NotNamed,
    /// The operator cancelled it.
    Cancelled,
}

/// Time limits for the devices.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    hangs: Duration,
    held: Duration,
    copy_flushed: Duration,
}

impl Patience {
    pub(crate) const USUAL: Patience = Patience { hangs: HANGS, held: HELD, copy_flushed: COPY_FLUSHED };
}

/// Two devices that the volume uses as one.
pub(crate) struct Twin {
    old: Arc<dyn Device>,
    new: Arc<dyn Device>,
    /// The new device with time limits, used until it is the member.
    asked: Timely,
    patience: Patience,
    len_bytes: u64,
    /// Offsets of the superblocks in bytes, ascending.
    withheld: Vec<u64>,
    /// The block that is written there during the copy; zeros for a volume whose format has no
    /// mark.
    mark: AlignedBuf,
    state: Mutex<State>,
    moved: Condvar,
    /// Offsets in bytes of blocks that the old device could not read when they were copied.
    unreadable: Mutex<BTreeSet<u64>>,
}

struct State {
    phase: Phase,
    /// True if the mark is on the new device.
    marked: bool,
    /// All bytes before this offset are on the new device, except the superblocks.
    copied: u64,
    /// The range that is being copied or compared.
    copying: Range<u64>,
    /// True if the copied bytes are durable on the new device.
    flushed: bool,
    /// All bytes before this offset were read back and found equal.
    verified: u64,
    /// True while superblocks are copied: no write may begin.
    finishing: bool,
    /// Pending writes: their names and ranges.
    writes: Vec<(u64, Range<u64>)>,
    named: u64,
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// This many bytes were copied or compared.
    Copied(u64),
    /// Everything is copied and compared, except the superblocks.
    Ready,
    /// The replacement has ended, with or without success.
    Over,
}

/// A pending write. No step of the copy may overlap it.
struct Writing<'t> {
    twin: &'t Twin,
    name: u64,
    phase: Phase,
    is_copied: bool,
}

/// Lets writes begin again when `finish` ends, in any way.
struct Finishing<'t>(&'t Twin);

impl Twin {
    /// Pairs two devices. `len_bytes`: the used length of both, neither of which is shorter.
    /// `withheld`: offsets of the superblocks, one block each. `mark`: the block written there
    /// during the copy; empty: zeros.
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

    /// Returns the phase and the number of bytes copied.
    pub(crate) fn progress(&self) -> (Phase, u64) {
        let state = self.lock();
        (state.phase.clone(), state.copied)
    }

    /// Returns the number of bytes that were read back and found equal.
    pub(crate) fn verified_bytes(&self) -> u64 {
        self.lock().verified
    }

    /// True if all bytes except the superblocks are copied, flushed, and verified.
    pub(crate) fn is_copied(&self) -> bool {
        let state = self.lock();
        state.phase == Phase::Copies && state.flushed && state.verified == self.len_bytes
    }

    /// Ends the replacement, if it has not ended: the old device serves alone again.
    pub(crate) fn cancel(&self) {
        self.abandon(Ended::Cancelled);
    }

    /// Overwrites the marks and the front of the new device, which is no member, with zeros.
    pub(crate) fn let_go_of_new(&self) {
        self.wipe_withheld();
        let front = AlignedBuf::zeroed(FRONT_BYTES.min(self.len_bytes) as usize);
        // If it cannot be written, it is not used again before the operator names it.
        let _ = self.asked.within(self.patience.held).write_at(0, &[front.whole()]);
    }

    /// Returns the number of blocks that the old device could not read when they were copied. On
    /// the new device they are zeros, so their checksums show that they are bad.
    pub(crate) fn unreadable_blocks(&self) -> u64 {
        lock(&self.unreadable).len() as u64
    }

    /// Performs the next step: copies [`STEP_BYTES`], flushes the copy, or compares [`STEP_BYTES`]
    /// of both devices. Only one thread may call it, and only after all writes to the old device
    /// that bypassed the twin have ended.
    ///
    /// Errors: the old device does not answer. The next call repeats the step.
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
                // This flushes most data of the copy, so that `finish`, which holds writes back,
                // has less to flush.
                return Ok(if compares { Step::Ready } else { self.flush_copy() });
            }
            let range = from..(from + STEP_BYTES as u64).min(self.len_bytes);
            // From now on no write begins in the range; pending ones are waited for.
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

    /// Writes the marks to the new device, durably: from then on it is no member of any volume.
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

    /// Compares a range of the new device with the bytes of the old one. Superblocks are skipped,
    /// and blocks that the old one could not read, now or when they were copied.
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

    /// Makes the new device the member. `name` records that durably; during that call no write
    /// runs.
    ///
    /// Returns true if the new device is the member from now on. Otherwise the old one is, for one
    /// of two reasons: the new one failed, or the old one did not read or did not end its writes.
    /// After the latter `finish` can be called again.
    ///
    /// Errors: those of `name`; then the old device is the member.
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
                // A device hangs. When it has answered or was given up, `finish` is called again.
                drop(state);
                return Ok(false);
            }
            state = self.moved.wait_timeout(state, left).expect("nothing panics under the lock").0;
        }
        drop(state);
        let Ok(superblocks) = self.read_superblocks() else { return Ok(false) };
        let flush = || self.flush_new(self.patience.held);
        // The data are made durable before the superblocks that describe them.
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

    /// Waits until no step copies in the range and `finish` is not running, then begins a write
    /// there.
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

    /// Performs an operation on both devices, or on the only one that is in use.
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

    /// Reads a range of the old device, with zeros for unreadable blocks. Returns the offsets of
    /// these, too.
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

    /// Writes a copy, except superblocks. Zeros are not written if the new device has zeros there,
    /// so that it stays sparse.
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

    /// Writes to the new device, except in the places of superblocks.
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

    /// Returns the parts of a range that are not places of superblocks.
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
                // An unreadable superblock becomes zeros: the other two suffice.
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

    /// Compares the superblocks on the new device with these blocks.
    fn compare_superblocks(&self, blocks: &[AlignedBuf]) -> Result<(), Ended> {
        let new = self.asked.within(self.patience.held);
        self.withheld.iter().zip(blocks).try_for_each(|(&at, block)| {
            let mut there = AlignedBuf::zeroed(BLOCK);
            new.read_at(at, there.whole_mut()).map_err(Ended::Failed)?;
            if there[..] == block[..] { Ok(()) } else { Err(Ended::Differs { at }) }
        })
    }

    /// Overwrites marks and superblocks of the new device with zeros. It must not be mistaken for
    /// the old one, which is written to from now on. If the new device hangs, that happens when it
    /// answers.
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

    /// Returns an identity of its own: while the twin is the member, neither device alone is.
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

    /// Flushes the member. `finish` flushes the new device itself, after all writes.
    fn flush(&self) -> Result<(), DeviceError> {
        match self.progress().0 {
            Phase::Retired => self.new.flush(),
            _ => self.old.flush(),
        }
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DeviceError> {
        let discard = |device: &dyn Device| device.discard(offset_bytes, len_bytes);
        // A discarded block may keep its content, but superblocks must not be discarded.
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
