//! A system expanded over all its reads: each output is a sum of products over sources and starts.
//!
//! Solving ([`crate::solve`]) takes as many products: fewer for the sources, but more for the sums,
//! each of which is used as soon as it is computed. That limits the speed where a product is two
//! look-ups and registers are few. In both forms one output is the sum of ones minus other outputs.
//!
//! Invariants: the outputs are the same as those of the system.

use std::mem::MaybeUninit;

use crate::engine::{Engine, Job, Kernel, MAX_OUTPUTS, MAX_SOURCES};
use crate::order::reading_order;
use crate::portable::product;
use crate::system::System;

/// The most outputs.
const MOST: usize = 4;

/// A system compiled in expanded form, for an engine.
pub(crate) struct Expanded<C> {
    cached: Kernel<C>,
    /// The kernel for sources from memory; `None` if solving the system is faster there.
    streaming: Option<Kernel<C>>,
    /// The terms of the sum of ones, then the starts of the other sums.
    sources: Vec<u32>,
    in_ones: usize,
    /// The coefficients of all outputs except the last, one source after the other.
    coefficients: Vec<C>,
    /// A bit for each output that is subtracted from the sum of ones to give the last output.
    taken: u32,
}

impl<C: Copy> Expanded<C> {
    /// Compiles a system. `ones` is the sum of ones. `rows` are the outputs in the order in which
    /// they will be passed; the last one is that sum minus the `taken` outputs.
    ///
    /// Returns `None` if the engine has no kernel for this number of outputs, or if it cannot
    /// process that many sources in one call.
    pub(crate) fn new<E: Engine<Coefficient = C>>(
        engine: E,
        system: &System<'_>,
        ones: usize,
        rows: &[usize],
        taken: u32,
    ) -> Option<Expanded<C>> {
        let count = rows.len();
        let reads = system.sources.len() + system.starts.iter().flatten().count();
        let cached =
            engine.expanded_kernel(false, count).filter(|_| count <= MOST && reads <= MAX_SOURCES)?;
        let is_followed = engine.few_streams().is_some_and(|few| reads <= few.most);
        let streaming = engine.expanded_kernel(true, count).filter(|_| is_followed);
        let multiplied = &rows[..count - 1];
        let mut sources = Vec::with_capacity(reads);
        let mut coefficients = Vec::with_capacity(reads * multiplied.len());
        let mut solution = [0; MOST * MOST];
        for (line, &o) in solution.chunks_exact_mut(count).zip(multiplied) {
            line.copy_from_slice(&system.solution[o * count..][..count]);
        }
        let solution = &solution[..multiplied.len() * count];
        for s in reading_order(system.sources.len()) {
            sources.push(u32::try_from(system.sources[s]).ok()?);
            let of_sums = &system.coefficients[s * count..][..count];
            coefficients.extend(solution.chunks_exact(count).map(|own| {
                let of_source = own.iter().zip(of_sums).map(|(&c, &d)| product(c, d));
                E::coefficient(of_source.fold(0, |sum, product| sum ^ product))
            }));
        }
        let mut start = |sum: usize| {
            if let Some(buffer) = system.starts[sum] {
                sources.push(u32::try_from(buffer).ok()?);
                coefficients
                    .extend(multiplied.iter().map(|&o| E::coefficient(system.solution[o * count + sum])));
            }
            Some(())
        };
        start(ones)?;
        (0..count).filter(|&sum| sum != ones).try_for_each(start)?;
        let in_ones = system.sources.len() + usize::from(system.starts[ones].is_some());
        Some(Expanded { cached, streaming, sources, in_ones, coefficients, taken })
    }

    /// Returns the kernel for a run that does or does not stream; `None` if solving is faster.
    pub(crate) fn kernel(&self, streaming: bool) -> Option<Kernel<C>> {
        if streaming { self.streaming } else { Some(self.cached) }
    }

    /// Computes every output, by [`Expanded::kernel`].
    ///
    /// # Safety
    ///
    /// As `Solve::run`, with the outputs in the order that this was made for, and aligned if the
    /// kernel streams.
    #[inline]
    pub(crate) unsafe fn run(
        &self,
        kernel: Kernel<C>,
        outputs: &[*mut u8; MAX_OUTPUTS],
        buffer: impl Fn(usize) -> *mut u8,
        len: usize,
    ) {
        let mut pointers = [MaybeUninit::<*const u8>::uninit(); MAX_SOURCES];
        let pointers = &mut pointers[..self.sources.len()];
        for (pointer, &source) in pointers.iter_mut().zip(&self.sources) {
            pointer.write(buffer(source as usize).cast_const());
        }
        // SAFETY: the loop wrote every element of the slice, and MaybeUninit<T> has the layout of
        // T.
        let pointers = unsafe { &*(&raw const *pointers as *const [*const u8]) };
        let (sources, rest) = pointers.split_at(self.in_ones);
        // SAFETY: the caller's promise; the job has the shape that the kernel was asked for.
        unsafe {
            kernel(&Job {
                sources,
                rest,
                coefficients: &self.coefficients,
                first_is_plain: false,
                start: None,
                solution: &[],
                taken: self.taken,
                outputs,
                len,
            });
        }
    }
}
