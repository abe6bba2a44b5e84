//! The change of one buffer, added to others by one kernel.

use crate::engine::{Engine, Job, Kernel, MAX_OUTPUTS};

/// A change compiled for an engine.
pub(crate) struct Change<E: Engine> {
    kernel: Kernel<E::Coefficient>,
    /// The coefficients of the targets, without that of the first one if it is 1.
    coefficients: Vec<E::Coefficient>,
    targets: Vec<usize>,
}

impl<E: Engine> Change<E> {
    /// Compiles a change; `None` if the engine has no kernel for this number of targets.
    pub(crate) fn new(engine: E, targets: &[(usize, u8)]) -> Option<Change<E>> {
        let mut targets: Vec<(usize, u8)> = targets.iter().copied().filter(|target| target.1 != 0).collect();
        let plain = targets.iter().position(|target| target.1 == 1);
        targets[..plain.map_or(0, |at| at + 1)].rotate_right(usize::from(plain.is_some()));
        let kernel = engine.change_kernel(targets.len(), plain.is_some())?;
        let multiplied = &targets[usize::from(plain.is_some())..];
        let coefficients = multiplied.iter().map(|target| E::coefficient(target.1)).collect();
        Some(Change { kernel, coefficients, targets: targets.iter().map(|target| target.0).collect() })
    }

    /// Writes `new` to `changed`, and adds the change to every target.
    ///
    /// # Safety
    ///
    /// All are valid for `len` bytes, `changed` and targets for reads and writes, and no two
    /// overlap.
    #[inline]
    pub(crate) unsafe fn run(
        &self,
        changed: *mut u8,
        new: *const u8,
        target: impl Fn(usize) -> *mut u8,
        len: usize,
    ) {
        let mut outputs = [std::ptr::null_mut(); MAX_OUTPUTS];
        outputs.iter_mut().zip(&self.targets).for_each(|(output, &t)| *output = target(t));
        let job = Job {
            sources: &[changed.cast_const(), new],
            rest: &[],
            coefficients: &self.coefficients,
            first_is_plain: false,
            start: None,
            solution: &[],
            taken: 0,
            outputs: &outputs,
            len,
        };
        // SAFETY: the caller's promise; the engine that made the kernel is a witness of its
        // instructions, and the job has the shape that it was made for.
        unsafe { (self.kernel)(&job) };
    }
}

impl<E: Engine> std::fmt::Debug for Change<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Change").field("targets", &self.targets).finish_non_exhaustive()
    }
}
