//! A system expanded over all its reads: each output is a sum of products of sources and of starts.
//!
//! Solving ([`crate::solve`]) takes as many products: it saves some of the sources and spends them
//! on the sums, each of which is read as soon as it is made. That limits the speed where a product
//! is two look-ups and registers are few. One output is the sum of ones less others, in both forms.
//!
//! Invariants: the outputs are those of the system.

use std::mem::MaybeUninit;

use crate::engine::{Engine, Job, Kernel, MAX_OUTPUTS, MAX_SOURCES};
use crate::order::reading_order;
use crate::portable::product;
use crate::system::System;

/// Outputs at most.
const MOST: usize = 4;

/// A system compiled for an engine that takes it so.
pub(crate) struct Expanded<C> {
    cached: Kernel<C>,
    /// `None` where from memory a system that is solved is faster.
    streaming: Option<Kernel<C>>,
    /// The terms of the sum of ones, and then the starts of other sums.
    sources: Vec<u32>,
    in_ones: usize,
    /// Those of all outputs but the last, source after source.
    coefficients: Vec<C>,
    /// The outputs that are taken from the sum of ones to leave the last one.
    taken: u32,
}

impl<C: Copy> Expanded<C> {
    /// `ones` is the sum of ones, `rows` the outputs in the order in which they will be given, the
    /// last of them that sum less the `taken` outputs.
    ///
    /// Returns `None` if the engine has no kernel for this number of outputs, or takes that many
    /// sources in no single call.
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

    /// The kernel for such a run; `None` if solving is faster.
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
