//! A device that still works and the one that is to take its place, as one device.
//!
//! The volume goes on with the old device while the new one becomes a copy of it, byte for byte:
//! places on a device mean the same on both. Reads go to the old device first. A write goes to the
//! old device, and, where the copy has passed, to the new one. So the old device has everything at
//! every moment, and nothing is as near to being lost as it would be without it.
//!
//! Superblocks are copied last. Until then the new device is nobody's: a crash leaves the old
//! device in the volume and beside it one that says nothing. [`Twin::finish`] holds writes back,
//! flushes the new device, copies the superblocks, flushes it again, and only then lets its caller
//! write down that the new device is the one; from then on the old device is neither read nor
//! written. A crash before that leaves the old device, one after it the new one.
//!
//! Invariants: `copied` never shrinks; no write and no copy overlap in time and place; what is
//! copied and was written before an acknowledged flush of the volume is on the old device until the
//! new one is named, and durable on the new one when it is.
//!
//! What fails on the new device ends the replacement and harms nobody: the old device goes on
//! alone. So does what hangs on it: nobody waits longer for the new device than [`HANGS`], which is
//! less than a volume waits before it gives a device up, and would give up both. What fails on the
//! old one is an error of the twin's, as it would be without the other; a read of what is copied is
//! then answered by the new device.

use crate::memory::BLOCK;
use crate::timely::Timely;
use pantile_device::{AlignedBuf, Device, DeviceError, Identity, Part, PartMut, Remedy};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Bytes copied at a time. A write to a place that is being copied waits for this much.
pub(crate) const STEP_BYTES: usize = 1 << 20;

/// How long a finish holds new writes back for those that have begun.
const WRITES_END: Duration = Duration::from_secs(3);

/// How long the new device may take for a copy, or for a write beside it.
const HANGS: Duration = Duration::from_secs(20);

/// How long each device may take for something while a finish holds writes back. All of it together
/// is less than a volume waits for a device that hangs.
const HELD: Duration = Duration::from_secs(5);

/// How long the flush of a whole copy may take, for which nobody waits.
const COPY_FLUSHED: Duration = Duration::from_secs(600);

/// How far a replacement is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The old device is the volume's, and is being copied.
    Copies,
    /// The new device is the volume's.
    Retired,
    /// The old device is the volume's for good: the new one failed, or (`None`) nobody could write
    /// down that it is the one.
    Abandoned(Option<DeviceError>),
}

/// A bug on purpose, to see that the test of crashes is not blind.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Writes go to the old device alone, wherever the copy is.
    ForgetsTheCopy,
    /// The new device is named before it is flushed.
    NamesUnflushed,
    /// Superblocks are copied with everything else.
    CopiesSuperblocksFirst,
    /// From the first step on only the new device is written to, as if the old one had been taken
    /// out.
    DropsTheOld,
}

/// How long devices may take.
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
    /// The new device while it is not the volume's.
    asked: Timely,
    patience: Patience,
    len_bytes: u64,
    /// Where superblocks lie, ascending.
    withheld: Vec<u64>,
    state: Mutex<State>,
    moved: Condvar,
    unreadable: AtomicU64,
    #[cfg(test)]
    pub(crate) bug: Option<Bug>,
}

struct State {
    phase: Phase,
    /// Everything before it is on the new device, but for superblocks.
    copied: u64,
    copying: Range<u64>,
    /// All of that is durable there.
    flushed: bool,
    /// The superblocks are being copied: no write begins.
    finishing: bool,
    /// Writes under way, by name.
    writes: Vec<(u64, Range<u64>)>,
    named: u64,
}

/// What a step of copying has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// So many bytes were copied.
    Copied(u64),
    /// Nothing is left but superblocks.
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

/// Lets writes begin again, whatever becomes of the finish.
struct Finishing<'t>(&'t Twin);

impl Twin {
    /// `len_bytes`: what the volume uses of the devices, neither of which is shorter. `withheld`:
    /// where superblocks lie, in bytes, one block each. The new device has none.
    pub(crate) fn new(
        old: Arc<dyn Device>,
        new: Arc<dyn Device>,
        len_bytes: u64,
        mut withheld: Vec<u64>,
        patience: Patience,
    ) -> Twin {
        withheld.sort_unstable();
        let state = State {
            phase: Phase::Copies,
            copied: 0,
            copying: 0..0,
            flushed: false,
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
            state: Mutex::new(state),
            moved: Condvar::new(),
            unreadable: AtomicU64::new(0),
            #[cfg(test)]
            bug: None,
        }
    }

    /// How far it is, and how many bytes are copied.
    pub(crate) fn progress(&self) -> (Phase, u64) {
        let state = self.lock();
        (state.phase.clone(), state.copied)
    }

    /// Whether everything but superblocks is copied, and was flushed.
    pub(crate) fn is_copied(&self) -> bool {
        let state = self.lock();
        state.phase == Phase::Copies && state.flushed
    }

    /// Blocks that the old device could not read when they were copied. They are zeros on the new
    /// one, which is as bad and is found so.
    pub(crate) fn unreadable_blocks(&self) -> u64 {
        self.unreadable.load(Ordering::Relaxed)
    }

    /// Copies the next [`STEP_BYTES`], or flushes the copy. By one thread at a time, and not before
    /// writes to the old device have ended that did not pass the twin.
    ///
    /// Errors: the old device does not answer. The place is tried again by the next step.
    pub(crate) fn step(&self) -> Result<Step, DeviceError> {
        let range = {
            let mut state = self.lock();
            if state.phase != Phase::Copies {
                return Ok(Step::Over);
            }
            if state.copied == self.len_bytes {
                drop(state);
                // Most of what a finish has to flush, while nobody waits for it.
                return Ok(self.flush_copy());
            }
            let range = state.copied..(state.copied + STEP_BYTES as u64).min(self.len_bytes);
            // From here on no write begins there; those that have begun end.
            state.copying = range.clone();
            while state.writes.iter().any(|(_, other)| overlap(other, &range)) {
                state = self.wait(state);
            }
            range
        };
        let read = self.read_old(&range);
        let written = read.as_ref().map_err(Clone::clone).map(|bytes| self.write_copy(range.start, bytes));
        let mut state = self.lock();
        state.copying = 0..0;
        let step = match written {
            Ok(Ok(())) => {
                state.copied = range.end;
                Ok(Step::Copied(range.end - range.start))
            }
            Ok(Err(error)) => {
                state.phase = Phase::Abandoned(Some(error));
                Ok(Step::Over)
            }
            Err(error) => Err(error),
        };
        drop(state);
        self.moved.notify_all();
        step
    }

    fn flush_copy(&self) -> Step {
        match self.flush_new(self.patience.copy_flushed) {
            Ok(()) => {
                self.lock().flushed = true;
                Step::Ready
            }
            Err(error) => {
                self.abandon(Some(error));
                Step::Over
            }
        }
    }

    /// Makes the new device the volume's. `name` writes down that it is, so that it survives a
    /// crash; while it runs nothing is written.
    ///
    /// Returns whether the new device is the volume's from now on. If it is not, the old one is:
    /// the new one failed, or the old one does not read or does not end its writes, and then it may
    /// be tried again. Errors: those of `name`; the old device is the volume's, and the new one
    /// says nothing. Cost: writes are held back for [`WRITES_END`] and four times [`HELD`] at the
    /// most, and as long as `name` takes.
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
                // A device hangs. It is given up, or answers, and then it is tried again.
                drop(state);
                return Ok(false);
            }
            state = self.moved.wait_timeout(state, left).expect("nothing panics under the lock").0;
        }
        drop(state);
        let Ok(superblocks) = self.read_superblocks() else { return Ok(false) };
        let flush = || self.flush_new(self.patience.held);
        // What they speak of is durable before they are.
        let written = flush().and_then(|()| self.write_superblocks(&superblocks)).and_then(|()| flush());
        if let Err(error) = written {
            self.take_superblocks_back();
            self.abandon(Some(error));
            return Ok(false);
        }
        if let Err(error) = name() {
            self.take_superblocks_back();
            self.abandon(None);
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

    fn abandon(&self, error: Option<DeviceError>) {
        let mut state = self.lock();
        if state.phase == Phase::Copies {
            state.phase = Phase::Abandoned(error);
        }
    }

    /// A write begins when nothing is copied where it goes.
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

    /// Does something to both devices, or to the one that counts.
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
        #[cfg(test)]
        if self.bug == Some(Bug::DropsTheOld) && writing.is_copied {
            return on_new();
        }
        on_old()?;
        #[cfg(test)]
        if self.bug == Some(Bug::ForgetsTheCopy) {
            return Ok(());
        }
        if writing.is_copied
            && let Err(error) = on_new()
        {
            self.abandon(Some(error));
        }
        Ok(())
    }

    /// What the old device has in a range; zeros where it cannot read.
    fn read_old(&self, range: &Range<u64>) -> Result<AlignedBuf, DeviceError> {
        let mut bytes = AlignedBuf::zeroed((range.end - range.start) as usize);
        match self.old.read_at(range.start, bytes.whole_mut()) {
            Err(error) if error.remedy() == Remedy::RepairRange => {}
            result => return result.map(|()| bytes),
        }
        for start in (0..bytes.len()).step_by(BLOCK) {
            let place = start..start + BLOCK;
            match self.old.read_at(range.start + start as u64, bytes.part_mut(place.clone())) {
                Err(error) if error.remedy() == Remedy::RepairRange => {
                    bytes[place].fill(0);
                    self.unreadable.fetch_add(1, Ordering::Relaxed);
                }
                result => result?,
            }
        }
        Ok(bytes)
    }

    /// Writes a copy, but for superblocks. What is zeros already is left alone: a new device may be
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

    /// Writes to the new device all but the blocks that are withheld.
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

    /// The parts of a range between blocks that are withheld.
    fn gaps(&self, range: Range<u64>) -> Vec<Range<u64>> {
        #[cfg(test)]
        if self.bug == Some(Bug::CopiesSuperblocksFirst) {
            return vec![range];
        }
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

    /// What the old device has where superblocks lie.
    fn read_superblocks(&self) -> Result<Vec<AlignedBuf>, DeviceError> {
        let old = Timely::new(self.old.clone(), self.patience.held);
        let read = |&at: &u64| {
            let mut block = AlignedBuf::zeroed(BLOCK);
            match old.read_at(at, block.whole_mut()) {
                // One that cannot be read is one of three.
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

    /// The old device is written to from now on: the new one must not pass for it, whenever it does
    /// what it owes.
    fn take_superblocks_back(&self) {
        if wipe(&self.asked.within(self.patience.held), &self.withheld).is_err() {
            let withheld = self.withheld.clone();
            self.asked.when_it_answers(move |new| drop(wipe(new, &withheld)));
        }
    }

    fn flush_new(&self, patience: Duration) -> Result<(), DeviceError> {
        #[cfg(test)]
        if self.bug == Some(Bug::NamesUnflushed) {
            return Ok(());
        }
        self.asked.within(patience).flush()
    }
}

/// Makes blocks zeros.
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

    /// Neither is attached by itself while the twin is.
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

    /// Of the device that counts. The new one is flushed by the finish, which waits for all writes.
    fn flush(&self) -> Result<(), DeviceError> {
        match self.progress().0 {
            Phase::Retired => self.new.flush(),
            #[cfg(test)]
            _ if self.bug == Some(Bug::DropsTheOld) => self.new.flush().and_then(|()| self.old.flush()),
            _ => self.old.flush(),
        }
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DeviceError> {
        let discard = |device: &dyn Device| device.discard(offset_bytes, len_bytes);
        // A block may read as before afterwards, so what is withheld may stay.
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
