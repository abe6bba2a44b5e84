//! The change of one buffer, added to others in one pass.

use crate::buffers::Buffer;
use crate::dispatch::{Changer, Sweep};
use crate::dot::Dot;
use crate::error::{ProgramError, ShapeError};
use crate::packets::Packets;
use crate::scan::xor_into;
use crate::scratch::with_scratch;
use crate::stores::Mode;
use crate::tier::Tier;

/// The bytes of a tile, for updates in several steps: the old content, the new one and eight
/// targets fit the first-level cache together.
const TILE_BYTES: usize = 2048;

/// Replaces one buffer and adds coefficients times the change to others.
///
/// Immutable, `Send + Sync` and reusable.
#[derive(Debug)]
pub struct Update {
    buffers: usize,
    changed: usize,
    targets: Vec<usize>,
    how: How,
    /// The loop that adds the change to targets in packets, if all coefficients are 1.
    plain: Option<Sweep>,
}

#[derive(Debug)]
enum How {
    /// In one kernel call, which reads and writes every buffer once.
    Whole(Changer),
    /// Step by step: the matrix computes the terms that are added to the targets, from one source.
    Steps(Dot),
}

impl Update {
    /// Compiles the update of buffer `changed` of `buffers`. `targets` are other buffers, each
    /// once, with their coefficients.
    ///
    /// Errors: a buffer that does not exist, a target that is named twice or changed itself.
    pub fn new(buffers: usize, changed: usize, targets: &[(usize, u8)]) -> Result<Update, ProgramError> {
        Update::with_tier(Tier::best(), buffers, changed, targets)
    }

    /// Works like [`Update::new`], for a tier that the caller chooses. Errors: also if this machine
    /// lacks the tier.
    pub fn with_tier(
        tier: Tier,
        buffers: usize,
        changed: usize,
        targets: &[(usize, u8)],
    ) -> Result<Update, ProgramError> {
        for (step, buffer) in targets.iter().map(|target| target.0).chain([changed]).enumerate() {
            if buffer >= buffers {
                return Err(ProgramError::BufferOutOfRange { step, buffer, buffers });
            }
        }
        for (step, &(target, _)) in targets.iter().enumerate() {
            if target == changed || targets[..step].iter().any(|earlier| earlier.0 == target) {
                return Err(ProgramError::TargetInUse { step, target });
            }
        }
        let steps = || {
            let rows: Vec<Vec<(usize, u8)>> = targets.iter().map(|&(_, c)| vec![(0, c)]).collect();
            Dot::with_tier(tier, 1, &rows)
        };
        let how = match Changer::new(tier, targets) {
            Some(changer) => How::Whole(changer),
            None => How::Steps(steps()?),
        };
        let plain = Sweep::new(tier).filter(|_| targets.iter().all(|target| target.1 == 1));
        Ok(Update { buffers, changed, targets: targets.iter().map(|target| target.0).collect(), how, plain })
    }

    /// Writes `new` to the changed buffer, and adds the change to every target.
    ///
    /// Shape: buffers and `new` of one length; any length, any alignment. Errors: a count or a
    /// length is wrong; nothing is then written. Cost: no allocation, no lock; one pass over the
    /// old and the new content and over the targets.
    pub fn run(&self, buffers: &mut [&mut [u8]], new: &[u8]) -> Result<(), ShapeError> {
        if buffers.len() != self.buffers {
            return Err(ShapeError::BufferCount { have: buffers.len(), need: self.buffers });
        }
        let need = new.len();
        for index in self.targets.iter().copied().chain([self.changed]) {
            if buffers[index].len() != need {
                return Err(ShapeError::BufferLen { index, have: buffers[index].len(), need });
            }
        }
        let base = buffers.as_mut_ptr();
        // SAFETY: called with the changed buffer and targets only, which exist; each call borrows
        // one slice.
        let buffer = |i: usize| unsafe { (*base.add(i)).as_mut_ptr() };
        // SAFETY: these are as long as `new`, and borrowed exclusively beside it, so no two
        // overlap: no target is named twice or is the changed buffer.
        unsafe { self.change(buffer, new) };
        Ok(())
    }

    /// Works like [`Update::run`], with buffers that are used only with the access that each
    /// grants: the changed buffer and the targets are written; the others may be absent.
    pub fn run_given(&self, buffers: &mut [Buffer<'_>], new: &[u8]) -> Result<(), ShapeError> {
        self.check_given(buffers, self.targets.iter().copied().chain([self.changed]), new.len())?;
        let base = buffers.as_mut_ptr();
        // SAFETY: as in `run`.
        let buffer = |i: usize| unsafe { (*base.add(i)).as_mut_ptr() };
        // SAFETY: as in `run`: `check_given` saw that each of them is there to be written, and as
        // long as `new`.
        unsafe { self.change(buffer, new) };
        Ok(())
    }

    /// Adds a change (old content plus new content of the changed buffer) to every target. The
    /// changed buffer is not accessed and may be absent.
    ///
    /// Errors and cost: those of [`Update::run_given`].
    pub fn add_change_given(&self, buffers: &mut [Buffer<'_>], change: &[u8]) -> Result<(), ShapeError> {
        self.check_given(buffers, self.targets.iter().copied(), change.len())?;
        let base = buffers.as_mut_ptr();
        for (tile, change) in change.chunks(TILE_BYTES).enumerate() {
            // The zeros become the change.
            let mut changed = [0; TILE_BYTES];
            let changed_buffer = changed.as_mut_ptr();
            let buffer = |i: usize| match i == self.changed {
                true => changed_buffer,
                // SAFETY: as in `run`; every target has `TILE_BYTES` times `tile` bytes and more.
                false => unsafe { (*base.add(i)).as_mut_ptr().add(tile * TILE_BYTES) },
            };
            // SAFETY: as in `run_given`; the changed buffer is one of our own, which is as long as
            // a tile.
            unsafe { self.change(buffer, change) };
        }
        Ok(())
    }

    /// Returns an error if a buffer to be written is absent or read-only, or does not have the
    /// length of the content.
    fn check_given(
        &self,
        buffers: &[Buffer<'_>],
        written: impl Iterator<Item = usize>,
        need: usize,
    ) -> Result<(), ShapeError> {
        if buffers.len() != self.buffers {
            return Err(ShapeError::BufferCount { have: buffers.len(), need: self.buffers });
        }
        for index in written {
            let Buffer::Write(bytes) = &buffers[index] else {
                return Err(ShapeError::BufferGiven { index, is_written: true });
            };
            if bytes.len() != need {
                return Err(ShapeError::BufferLen { index, have: bytes.len(), need });
            }
        }
        Ok(())
    }

    /// Works like [`Update::run`], on buffers in columns of packets. `new` is the new content,
    /// contiguous.
    ///
    /// Errors: those of [`Packets::groups`]; the columns do not have the number of buffers of the
    /// update; `new` is not as long as a buffer. Nothing is then written.
    pub fn run_packets(
        &self,
        packets: &Packets,
        columns: &mut [&mut [u8]],
        new: &[u8],
    ) -> Result<(), ShapeError> {
        let (groups, bytes) = (packets.groups(columns)?, packets.bytes());
        if packets.buffers() != self.buffers {
            return Err(ShapeError::BufferCount { have: packets.buffers(), need: self.buffers });
        }
        if new.len() != groups * bytes {
            return Err(ShapeError::SourceLen { index: 0, have: new.len(), need: groups * bytes });
        }
        let base = columns.as_mut_ptr();
        // SAFETY: called with columns that exist, by `groups`; each call borrows one slice.
        let column = |c: usize| unsafe { (*base.add(c)).as_mut_ptr() };
        if let Some(sweep) = self.plain {
            let (walks, walk) = packets.walks(groups);
            with_scratch(self.targets.len(), 0, |targets, _| {
                for group in 0..walks {
                    let buffer = packets.group(column, group);
                    targets
                        .iter_mut()
                        .zip(&self.targets)
                        .for_each(|(place, &target)| *place = buffer(target));
                    let new = new[group * bytes..].as_ptr();
                    // SAFETY: packets lie in their columns, by `groups`; no target is named twice
                    // or is the changed buffer, and `new` is borrowed beside them.
                    unsafe { sweep.spread(buffer(self.changed), targets, new, walk) };
                }
            });
            return Ok(());
        }
        for (group, new) in new.chunks_exact(bytes).enumerate() {
            // SAFETY: packets lie in their columns, by `groups`, and no two overlap, as above.
            unsafe { self.change(packets.group(column, group), new) };
        }
        Ok(())
    }

    /// # Safety
    ///
    /// The changed buffer and every target are valid for reads and writes of the length of `new`,
    /// and apart from one another and from `new`.
    unsafe fn change(&self, buffer: impl Fn(usize) -> *mut u8, new: &[u8]) {
        match &self.how {
            // SAFETY: the caller's promise.
            How::Whole(changer) => unsafe {
                changer.run(buffer(self.changed), new.as_ptr(), buffer, new.len())
            },
            // SAFETY: as above.
            How::Steps(dot) => unsafe { self.change_by_steps(dot, buffer, new) },
        }
    }

    /// Runs tile by tile: the old content is replaced by the change, the change is added to the
    /// targets, then the new content replaces it.
    ///
    /// # Safety
    ///
    /// As `change`.
    unsafe fn change_by_steps(&self, dot: &Dot, buffer: impl Fn(usize) -> *mut u8, new: &[u8]) {
        for (tile, new) in new.chunks(TILE_BYTES).enumerate() {
            let start = tile * TILE_BYTES;
            // SAFETY: the changed buffer is long enough, and not borrowed otherwise now.
            let changed =
                unsafe { std::slice::from_raw_parts_mut(buffer(self.changed).add(start), new.len()) };
            xor_into(changed, new);
            let source = changed.as_ptr();
            // SAFETY: every target is long enough, is written once and is not the changed buffer;
            // the changed buffer is only read meanwhile.
            unsafe {
                let target = |o: usize| buffer(self.targets[o]).add(start);
                dot.run_streaming(Mode::Accumulate, false, |_| source, target, new.len());
            }
            changed.copy_from_slice(new);
        }
    }
}
