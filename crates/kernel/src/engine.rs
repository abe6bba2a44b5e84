//! The interface of an instruction set: kernels, and the jobs that they do.
//!
//! An [`Engine`] picks a kernel by the shape of a computation and by the place of its streams;
//! `schedule.rs` makes passes of rows, `solve.rs` systems, and `terms.rs` calls the kernels of
//! both.
//!
//! Invariants: kernels of one shape give the same bytes; a kernel that stores past the cache is
//! given aligned outputs.

use crate::streams::FewStreams;
use crate::word_loops::WordLoops;

/// Outputs of one pass: the most that 16 or 32 vector registers hold beside the sources.
pub(crate) const MAX_OUTPUTS: usize = 8;

/// Sources of one kernel call. With far more, streams outnumber the entries of the TLB: 120 streams
/// from memory lose a quarter. With fewer, groups only cost.
pub(crate) const MAX_SOURCES: usize = 64;

/// An instruction set that can run passes. A value of the type is the witness that the machine has
/// it.
pub(crate) trait Engine: Copy {
    /// A coefficient as the kernels want it.
    type Coefficient: Copy;

    /// The cost of multiplying and adding one vector, in halves of the cost of loading one.
    const MULTIPLY_COST: usize;

    /// The alignment that streaming stores need.
    const STREAM_ALIGN_BYTES: usize;

    /// True if a source that all sums add without a product comes first, so that a kernel need not
    /// multiply it: worth it if products limit the speed.
    const PLAIN_FIRST: bool = false;

    /// Returns the cost of a vector of a source in each further pass that reads it, in the same
    /// halves: of the load, and of the pass's other work for it.
    fn load_cost(self) -> usize {
        2
    }

    /// Prepares a coefficient.
    fn coefficient(c: u8) -> Self::Coefficient;

    /// The kernel for sums of this shape. If `streaming`, stores go past the cache and outputs must
    /// be aligned to `STREAM_ALIGN_BYTES`.
    fn kernel(self, streaming: bool, shape: Summing) -> Kernel<Self::Coefficient>;

    /// Returns a kernel as [`Engine::kernel`] that solves before it stores ([`Job::solution`]);
    /// `None` if the engine has none for this number of outputs.
    fn solving_kernel(self, _streaming: bool, _shape: Solving) -> Option<Kernel<Self::Coefficient>> {
        None
    }

    /// Returns the kernel for an expanded system ([`Job::rest`]): all outputs are sums of products
    /// of sources and starts, and the last one is the sum of ones less others. It has as many
    /// products as solving, and none of sums that were just made. Stores as those of
    /// [`Engine::kernel`]. `None` if the engine solves such systems as fast, or has none for this
    /// number of outputs.
    fn expanded_kernel(self, _streaming: bool, _outputs: usize) -> Option<Kernel<Self::Coefficient>> {
        None
    }

    /// Returns the kernel for two outputs by doubling. The first output is of ones. The second has
    /// a power of 2 for each source, falling by one from source to source to 1 for the last. A
    /// doubling of the sum for each source replaces a product, and coefficients are not read. The
    /// `start` of the second output is doubled, too. `None` if products are as cheap.
    fn doubling_kernel(self, _streaming: bool) -> Option<Kernel<Self::Coefficient>> {
        None
    }

    /// Returns a kernel as [`Engine::kernel`], for far streams that are too many for the
    /// prefetchers: the kernel fetches them itself, or reads fewer columns at a time. `None` if the
    /// engine has none for this number of outputs.
    fn far_kernel(self, _streaming: bool, _shape: Summing) -> Option<Kernel<Self::Coefficient>> {
        None
    }

    /// As [`Engine::solving_kernel`], for such streams.
    fn far_solving_kernel(self, _streaming: bool, _shape: Solving) -> Option<Kernel<Self::Coefficient>> {
        None
    }

    /// Returns a kernel as [`Engine::kernel`] with cached stores, for one group of sources from
    /// memory, whose sums stay in the cache for the next group: the kernel prefetches the lines
    /// that it reads next. `None` if the engine has none for this number of outputs.
    fn group_kernel(self, _shape: Summing) -> Option<Kernel<Self::Coefficient>> {
        None
    }

    /// Returns the kernel of an update. Source 1 replaces source 0, which is valid for writes, and
    /// each output has its coefficient times the difference added; the first one without a product
    /// if `ones`. It starts from its outputs, and no two buffers overlap. `None` if the engine has
    /// none for this number of outputs.
    fn change_kernel(self, _outputs: usize, _ones: bool) -> Option<Kernel<Self::Coefficient>> {
        None
    }

    /// Returns the loops over words of so many bytes, 2 or 4; `None` if the engine has none.
    fn word_loops(self, _bytes: usize) -> Option<WordLoops<Self::Coefficient>> {
        None
    }

    /// Limits for many streams, if the processor follows few.
    fn few_streams(self) -> Option<FewStreams>;

    /// Orders streaming stores before everything that follows.
    fn fence(self);
}

/// The shape of the sums of a kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summing {
    /// Sums, and outputs, in `1..=MAX_OUTPUTS`.
    pub(crate) outputs: usize,
    /// True if output 0 is the plain sum of the sources and has no coefficients.
    pub(crate) ones: bool,
    /// Sources, and starts of sums if there always are some.
    pub(crate) reads: usize,
}

/// The shape of the systems that a kernel solves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Solving {
    /// Sums, and outputs.
    pub(crate) outputs: usize,
    /// True if sum 0 is of ones.
    pub(crate) ones: bool,
    /// True if the last output has no row in the solution: it is sum 0 less the others.
    pub(crate) last_by_sum: bool,
    /// True if the solution has zeros: a kernel may look for them.
    pub(crate) has_zeros: bool,
    /// Sources, and starts of sums.
    pub(crate) reads: usize,
}

/// Computes one job.
///
/// # Safety
///
/// Every pointer of the job is valid for `len` bytes, or null where null is allowed: sources and
/// `start` for reads, outputs for writes. An output overlaps no source and no other output;
/// `start[o]` is `outputs[o]` or overlaps no output. The machine has the engine that made the
/// kernel, and the job has the shape that the engine made it for.
pub(crate) type Kernel<C> = unsafe fn(&Job<'_, C>);

/// `outputs[o] = start[o] + sum over t of coefficient(t, o) * sources[t]`.
pub(crate) struct Job<'a, C> {
    /// One pointer per term, already at the first byte of the job.
    pub(crate) sources: &'a [*const u8],
    /// For kernels of expanded systems: terms that are not in the sum of ones.
    pub(crate) rest: &'a [*const u8],
    /// Term by term, the coefficients of the outputs in order (without the output of ones).
    pub(crate) coefficients: &'a [C],
    /// True if the first source is added to each sum without a product. Its coefficients are still
    /// there, as ones.
    pub(crate) first_is_plain: bool,
    /// The sums so far; `None` means zero, and so does null to the kernels of an engine that
    /// solves, if they do not double.
    pub(crate) start: Option<&'a [*const u8; MAX_OUTPUTS]>,
    /// For kernels that solve: for each output, its coefficient of each sum.
    pub(crate) solution: &'a [C],
    /// For kernels that solve, expanded or not: the outputs that are taken from sum 0 to leave the
    /// last output.
    pub(crate) taken: u32,
    /// Where the sums go. Entries past the number of outputs are not read.
    pub(crate) outputs: &'a [*mut u8; MAX_OUTPUTS],
    /// Bytes of every buffer.
    pub(crate) len: usize,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An engine that follows `most` streams, whose kernels note their calls and touch no memory.
    #[derive(Clone, Copy)]
    pub(crate) struct SaysWho(pub(crate) FewStreams);

    thread_local! {
        /// The names of the kernels called, in order.
        static CALLED: std::cell::RefCell<Vec<&'static str>> = const { std::cell::RefCell::new(Vec::new()) };
    }

    fn called(kernel: &'static str) {
        CALLED.with_borrow_mut(|called| called.push(kernel));
    }

    impl Engine for SaysWho {
        type Coefficient = u8;

        const MULTIPLY_COST: usize = 2;

        const STREAM_ALIGN_BYTES: usize = 64;

        fn coefficient(c: u8) -> u8 {
            c
        }

        fn kernel(self, streaming: bool, _: Summing) -> Kernel<u8> {
            if streaming { |_| called("past") } else { |_| called("cached") }
        }

        fn far_kernel(self, streaming: bool, _: Summing) -> Option<Kernel<u8>> {
            Some(if streaming { |_| called("far past") } else { |_| called("far") })
        }

        fn group_kernel(self, _: Summing) -> Option<Kernel<u8>> {
            Some(|_| called("group"))
        }

        fn doubling_kernel(self, streaming: bool) -> Option<Kernel<u8>> {
            Some(if streaming { |_| called("doubles past") } else { |_| called("doubles") })
        }

        fn solving_kernel(self, streaming: bool, _: Solving) -> Option<Kernel<u8>> {
            Some(if streaming { |_| called("solves past") } else { |_| called("solves") })
        }

        fn far_solving_kernel(self, streaming: bool, _: Solving) -> Option<Kernel<u8>> {
            Some(if streaming { |_| called("solves far past") } else { |_| called("solves far") })
        }

        fn few_streams(self) -> Option<FewStreams> {
            Some(self.0)
        }

        fn fence(self) {}
    }

    /// The kernels that something calls over buffers that begin `pitch` bytes apart, the first of
    /// them with a page.
    pub(crate) fn calls(pitch: usize, run: impl FnOnce(&dyn Fn(usize) -> *mut u8)) -> Vec<&'static str> {
        run(&|i| std::ptr::without_provenance_mut((1 << 20) + i * pitch));
        CALLED.take()
    }
}
