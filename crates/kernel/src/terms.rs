//! The terms of a pass or of a system, over any number of streams, in caches or in memory.
//!
//! Two traversals, chosen per call because they depend on lengths and addresses:
//! * few streams: the whole length at once, by a kernel that prefetches if streams come from beyond
//!   the second-level cache and are too many for the prefetchers;
//! * more sources than [`MAX_SOURCES`], or more streams than the processor's prefetchers follow:
//!   groups of sources, with the partial sums of a tile in scratch.
//!
//! Invariants: every byte of an output is stored through its own pointer exactly once per call;
//! scratch is written before it is read.

use std::mem::MaybeUninit;
use std::ops::Range;

use crate::engine::{Engine, Job, Kernel, MAX_OUTPUTS, MAX_SOURCES, Summing};
use crate::scratch::with_scratch;
use crate::streams::{FewStreams, Groups, are_apart};

/// The most bytes of all sums of a tile.
pub(crate) const SUMS_BYTES: usize = 256 * 1024;

/// The groups for sources that are too many for one kernel call, on processors that follow many
/// streams.
pub(crate) const WIDE: Groups = Groups { reads: MAX_SOURCES, tile_bytes: 2048 };

/// Returns the kernel for far streams, if `streams` may be too many for the processor.
pub(crate) fn far_kernel<E: Engine>(
    engine: E,
    streams: usize,
    kernel: impl FnOnce() -> Option<Kernel<E::Coefficient>>,
) -> Option<Kernel<E::Coefficient>> {
    engine.few_streams().filter(|few| streams > few.most_far).and_then(|_| kernel())
}

/// Returns the kernel for groups of streams. On processors that follow many streams it does not
/// prefetch: their groups are large, and the hardware prefetchers suffice.
pub(crate) fn group_kernel<E: Engine>(engine: E, shape: Summing) -> Kernel<E::Coefficient> {
    let fetching = engine.few_streams().and_then(|_| engine.group_kernel(shape));
    fetching.unwrap_or_else(|| engine.kernel(false, shape))
}

/// The terms of a pass, or of a system that is solved at the end, which kernels process in one call
/// or in several.
pub(crate) struct Terms<'a, C> {
    pub(crate) sources: &'a [usize],
    /// The field of the same name of a [`Job`].
    pub(crate) coefficients: &'a [C],
    /// The field of the same name of a [`Job`].
    pub(crate) first_is_plain: bool,
    /// The number of coefficients per source.
    pub(crate) width: usize,
    /// The number of sums, and of outputs.
    pub(crate) outputs: usize,
    /// True if the kernels double.
    pub(crate) doubles: bool,
    /// The number of buffers of a stripe: sources, starts and outputs, each once.
    pub(crate) streams: usize,
    /// The kernel that leaves sums.
    pub(crate) sum: Kernel<C>,
    /// The kernel that adds the last terms and writes the outputs.
    pub(crate) finish: Kernel<C>,
    /// Like `finish`, for far streams, if the engine has such a kernel: [`Engine::far_kernel`].
    pub(crate) far: Option<Kernel<C>>,
    /// As in a [`Job`], for the last kernel.
    pub(crate) solution: &'a [C],
    /// As in a [`Job`], for the last kernel.
    pub(crate) taken: u32,
}

/// The pointers to the initial sums, and the number of these sums that are read.
type Start<'a> = (Option<&'a [*const u8; MAX_OUTPUTS]>, usize);

impl<C> Terms<'_, C> {
    /// Processes all terms, in groups if that is faster or if one kernel call cannot process all.
    ///
    /// # Safety
    ///
    /// As [`Kernel`], for every source.
    #[inline]
    pub(crate) unsafe fn run(
        &self,
        engine: impl Engine,
        streaming: bool,
        start: Start<'_>,
        outputs: &[*mut u8; MAX_OUTPUTS],
        source: impl Fn(usize) -> *const u8,
        len: usize,
    ) {
        let reads = self.sources.len() + start.1;
        let sources = || self.sources.iter().map(|&s| source(s));
        let wide = (self.sources.len() > MAX_SOURCES).then_some(WIDE);
        let groups = match streaming || wide.is_some() {
            true => groups_that_gain(engine, streaming, self.doubles, reads, sources(), len).or(wide),
            false => None,
        };
        let Some(groups) = groups else {
            let are_lost = || are_lost(engine, streaming, reads, self.streams, sources(), len);
            let far = self.far.filter(|_| are_lost());
            let kernel = far.unwrap_or(self.finish);
            // SAFETY: the caller's promise; there are at most MAX_SOURCES sources.
            return unsafe { self.run_some(kernel, 0..self.sources.len(), start.0, outputs, source, len) };
        };
        // SAFETY: the caller's promise; no group has more than MAX_SOURCES sources.
        unsafe { self.run_grouped(groups, start, outputs, source, len) };
    }

    /// Sweeps over tiles, group by group, with partial sums in scratch.
    ///
    /// # Safety
    ///
    /// As [`Kernel`], for every source.
    #[inline(never)]
    unsafe fn run_grouped(
        &self,
        groups: Groups,
        (start, starts): Start<'_>,
        outputs: &[*mut u8; MAX_OUTPUTS],
        source: impl Fn(usize) -> *const u8,
        len: usize,
    ) {
        let reads = starts + self.sources.len();
        let count = reads.div_ceil(groups.reads);
        let tile = groups.tile_bytes.min(SUMS_BYTES / self.outputs.next_power_of_two());
        with_scratch(0, self.outputs * tile, |_, lines| {
            let first = lines.as_mut_ptr().cast::<u8>();
            // Pointers past the outputs are never used, so all are moved by wrapping; so are starts
            // that are null and stay so.
            let sums: [*mut u8; MAX_OUTPUTS] = std::array::from_fn(|o| first.wrapping_add(o * tile));
            let sums_so_far = sums.map(|pointer| pointer.cast_const());
            let mut at = 0;
            while at < len {
                let n = tile.min(len - at);
                let tile_outputs = outputs.map(|pointer| pointer.wrapping_add(at));
                let moved = |pointer: *const u8| {
                    if pointer.is_null() { pointer } else { pointer.wrapping_add(at) }
                };
                let tile_start = start.map(|start| start.map(moved));
                for g in 0..count {
                    let terms = |reads: usize| reads.saturating_sub(starts);
                    let range = terms(g * reads / count)..terms((g + 1) * reads / count);
                    let begin = if g == 0 { tile_start.as_ref() } else { Some(&sums_so_far) };
                    let (kernel, target) =
                        if g + 1 == count { (self.finish, &tile_outputs) } else { (self.sum, &sums) };
                    // SAFETY: sources are valid for `len >= at + n` bytes; targets and starts for n
                    // bytes: the outputs by the caller's promise, scratch because n <= tile, and it
                    // was written by the group before whenever it is read (g > 0). Scratch is ours,
                    // so it overlaps nothing of the caller's.
                    unsafe { self.run_some(kernel, range, begin, target, |s| source(s).wrapping_add(at), n) };
                }
                at += n;
            }
        });
    }

    /// Makes one kernel call over the terms of `range`, which are at most [`MAX_SOURCES`].
    ///
    /// # Safety
    ///
    /// As [`Kernel`], for the sources of the range.
    #[inline]
    unsafe fn run_some(
        &self,
        kernel: Kernel<C>,
        range: Range<usize>,
        start: Option<&[*const u8; MAX_OUTPUTS]>,
        outputs: &[*mut u8; MAX_OUTPUTS],
        source: impl Fn(usize) -> *const u8,
        len: usize,
    ) {
        let mut pointers = [MaybeUninit::<*const u8>::uninit(); MAX_SOURCES];
        let indices = &self.sources[range.clone()];
        let pointers = &mut pointers[..indices.len()];
        for (pointer, &s) in pointers.iter_mut().zip(indices) {
            pointer.write(source(s));
        }
        // SAFETY: the loop wrote every element of the slice, and MaybeUninit<T> has the layout of
        // T.
        let sources = unsafe { &*(&raw const *pointers as *const [*const u8]) };
        let coefficients = &self.coefficients[range.start * self.width..range.end * self.width];
        let (solution, taken) = (self.solution, self.taken);
        let first_is_plain = self.first_is_plain && range.start == 0;
        // SAFETY: the caller's promise.
        unsafe {
            kernel(&Job {
                sources,
                rest: &[],
                coefficients,
                first_is_plain,
                start,
                solution,
                taken,
                outputs,
                len,
            })
        };
    }
}

/// True if `streams` buffers, of which `reads` are read, are far streams and too many for the
/// processor's prefetchers. Streams that share sets of the first-level cache would evict prefetched
/// lines, so they do not count.
#[inline(never)]
pub(crate) fn are_lost(
    engine: impl Engine,
    streaming: bool,
    reads: usize,
    streams: usize,
    sources: impl Iterator<Item = *const u8>,
    len: usize,
) -> bool {
    let bytes = len.saturating_mul(streams);
    let is_far = |few: &FewStreams| (streaming || bytes > few.far_bytes) && bytes <= few.most_far_bytes;
    let few = engine.few_streams().filter(is_far);
    few.is_some_and(|few| {
        reads > few.most_far && (reads <= few.ways[usize::from(streaming)] || are_apart(sources))
    })
}

/// Returns the groups in which the processor follows `reads` reads, if it does not follow all of
/// them at once.
#[inline(never)]
pub(crate) fn groups_that_gain(
    engine: impl Engine,
    streaming: bool,
    doubles: bool,
    reads: usize,
    sources: impl Iterator<Item = *const u8>,
    len: usize,
) -> Option<Groups> {
    let few = engine.few_streams().filter(|few| streaming && few.loses(reads, len))?;
    let most_apart = if doubles { few.most_apart_doubling } else { few.most_apart };
    (reads > most_apart || !are_apart(sources)).then_some(few.groups)
}
