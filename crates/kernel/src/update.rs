//! The change of one buffer, added to others in one pass.

use crate::dot::Mode;
use crate::scan::xor_into;
use crate::{Dot, ProgramError, ShapeError, Tier};

/// Bytes of a tile: the old content, the new one and eight targets of it lie in the first-level cache together.
const TILE_BYTES: usize = 2048;

/// Replaces one buffer and adds coefficients times the change to others.
///
/// Immutable, `Send + Sync` and reusable.
#[derive(Debug)]
pub struct Update {
    dot: Dot,
    buffers: usize,
    changed: usize,
    targets: Vec<usize>,
}

impl Update {
    /// The update of buffer `changed` of `buffers`; `targets` are other buffers, each once, with their coefficients.
    ///
    /// Errors: a buffer that does not exist, a target that is named twice or changed itself.
    pub fn new(buffers: usize, changed: usize, targets: &[(usize, u8)]) -> Result<Update, ProgramError> {
        Update::with_tier(Tier::best(), buffers, changed, targets)
    }

    /// As [`Update::new`], for a tier of the caller's choice. Errors: also if this machine lacks the tier.
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
        let rows: Vec<Vec<(usize, u8)>> = targets.iter().map(|&(_, c)| vec![(0, c)]).collect();
        let dot = Dot::with_tier(tier, 1, &rows)?;
        Ok(Update { dot, buffers, changed, targets: targets.iter().map(|target| target.0).collect() })
    }

    /// Writes `new` to the changed buffer, and adds what that changes to every target.
    ///
    /// Shape: buffers and `new` of one length; any length, any alignment.
    /// Errors: a count or a length is wrong; nothing is written then.
    /// Cost: no allocation, no lock; one pass over the old and the new content and over the targets.
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
        for (tile, new) in new.chunks(TILE_BYTES).enumerate() {
            let start = tile * TILE_BYTES;
            // SAFETY: the changed buffer exists and is as long as `new`; nothing else is borrowed from it now.
            let changed = unsafe { &mut (&mut *base.add(self.changed))[start..start + new.len()] };
            // The old content becomes the change, the change goes to the targets, the new content takes its place.
            xor_into(changed, new);
            let source = changed.as_ptr();
            // SAFETY: every target exists, is as long as `new`, is written once and is not the changed buffer; the
            // changed buffer is only read meanwhile.
            unsafe {
                let target = |o: usize| (*base.add(self.targets[o])).as_mut_ptr().add(start);
                self.dot.run_streaming(Mode::Accumulate, false, |_| source, target, new.len());
            }
            changed.copy_from_slice(new);
        }
        Ok(())
    }
}
