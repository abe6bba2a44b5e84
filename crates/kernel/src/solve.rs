//! Sums of products, and a small system that is solved before anything is stored, as for decoding
//! an MDS code.
//!
//! Lost buffers are computed from as many parities. For each parity, the sum of the parity and the
//! terms of the surviving sources equals the sum of the terms of the lost buffers; the matrix of
//! these terms is m x m. Solving in registers takes (k - m) m + m^2 products for each source
//! instead of k m with final coefficients. A parity whose coefficients are all ones saves k - m
//! products for the sums. The last lost buffer is then the sum of ones minus the others, which
//! saves m of the m^2 products. With such a parity both ways take (m - 1) k products, and some
//! engines are faster with final coefficients ([`crate::expand`]).

use crate::engine::{Engine, Kernel, MAX_OUTPUTS, Solving, Summing};
use crate::expand::Expanded;
use crate::order::reading_order;
use crate::system::System;
use crate::terms::{Terms, far_kernel, group_kernel};

/// The start of a sum that starts at zero.
const NO_START: u32 = u32::MAX;

/// A system compiled for an engine.
pub(crate) struct Solve<E: Engine> {
    engine: E,
    /// The kernel that leaves the sums. `group` is the same for sources from memory, while the sums
    /// stay in the cache.
    sum: Kernel<E::Coefficient>,
    group: Kernel<E::Coefficient>,
    cached: Kernel<E::Coefficient>,
    streaming: Kernel<E::Coefficient>,
    /// The cached and the streaming kernel for far streams.
    far: [Option<Kernel<E::Coefficient>>; 2],
    /// The number of sums, which is that of outputs.
    count: usize,
    sources: Vec<usize>,
    /// The coefficients of the sums, `width` for each source, then the solution. Empty if the
    /// expanded form is used in every run.
    coefficients: Vec<E::Coefficient>,
    first_is_plain: bool,
    width: usize,
    /// The buffer with which each sum starts, or [`NO_START`].
    starts: [u32; MAX_OUTPUTS],
    /// The number of sums that start with a buffer.
    started: usize,
    taken: u32,
    outputs: [u32; MAX_OUTPUTS],
    /// The expanded form, which replaces the fields above where it is faster.
    expanded: Option<Expanded<E::Coefficient>>,
}

impl<E: Engine> Solve<E> {
    /// Compiles a system, which must be complete; `None` if the engine has no kernel for it. It is
    /// boxed here, because a move takes longer than writing it.
    pub(crate) fn new(engine: E, system: &System<'_>) -> Option<Box<Solve<E>>> {
        assert!(system.is_whole(), "the caller checks the shape of the system");
        let count = system.starts.len();
        if count == 0 || count > MAX_OUTPUTS {
            return None;
        }
        let is_ones =
            |&sum: &usize| (0..system.sources.len()).all(|s| system.coefficients[s * count + sum] == 1);
        let ones_at = (0..count).find(is_ones);
        let ones = ones_at.is_some();
        // The sum of ones comes first.
        let mut order: [usize; MAX_OUTPUTS] = std::array::from_fn(|sum| sum);
        order[..=ones_at.unwrap_or(0)].rotate_right(usize::from(ones));
        let last = ones_at.and_then(|at| by_sum(system, at));
        let mut rows: [usize; MAX_OUTPUTS] = std::array::from_fn(|o| o);
        if let Some((last, _)) = last {
            rows[last..count].rotate_left(1);
        }
        let (order, rows) = (&order[..count], &rows[..count]);
        // All other outputs come before the last one, and keep their order.
        let taken = last.map_or(0, |(_, others)| others);
        let last_by_sum = last.is_some();
        let solved = &rows[..count - usize::from(last_by_sum)];
        let has_zeros = solved.iter().any(|&o| system.solution[o * count..][..count].contains(&0));
        let started = system.starts.iter().flatten().count();
        let reads = system.sources.len() + started;
        let summing = Summing { outputs: count, ones, reads };
        let shape = Solving { outputs: count, ones, last_by_sum, has_zeros, reads };
        let (cached, streaming) = (engine.solving_kernel(false, shape)?, engine.solving_kernel(true, shape)?);
        // With two outputs and no zeros the expanded form saves no products.
        let expanded = last.zip(ones_at).filter(|_| count > 2 || has_zeros);
        let expanded =
            expanded.and_then(|((_, taken), ones)| Expanded::new(engine, system, ones, rows, taken));
        let multiplied = &order[usize::from(ones)..];
        let mut coefficients = Vec::new();
        // A system that always runs in expanded form needs no coefficients for solving.
        if expanded.as_ref().is_none_or(|expanded| expanded.kernel(true).is_none()) {
            coefficients.reserve_exact(system.sources.len() * multiplied.len() + count * count);
            for s in reading_order(system.sources.len()) {
                let of_source = &system.coefficients[s * count..][..count];
                coefficients.extend(multiplied.iter().map(|&sum| E::coefficient(of_source[sum])));
            }
            for &o in rows {
                let of_sums = order.iter().map(|&sum| system.solution[o * count + sum]);
                coefficients.extend(of_sums.map(E::coefficient));
            }
        }
        let (mut starts, mut outputs) = ([NO_START; MAX_OUTPUTS], [0; MAX_OUTPUTS]);
        for (start, buffer) in starts.iter_mut().zip(order.iter().map(|&sum| system.starts[sum])) {
            let numbered = |buffer| u32::try_from(buffer).ok().filter(|&buffer| buffer != NO_START);
            *start = buffer.map_or(Some(NO_START), numbered)?;
        }
        for (output, &o) in outputs.iter_mut().zip(rows) {
            *output = u32::try_from(system.outputs[o]).ok()?;
        }
        Some(Box::new(Solve {
            engine,
            sum: engine.kernel(false, summing),
            group: group_kernel(engine, summing),
            cached,
            streaming,
            far: [false, true].map(|streaming| {
                let streams = system.sources.len() + count;
                far_kernel(engine, streams, || engine.far_solving_kernel(streaming, shape))
            }),
            count,
            sources: reading_order(system.sources.len()).map(|s| system.sources[s]).collect(),
            coefficients,
            first_is_plain: E::PLAIN_FIRST
                && ones
                && system.coefficients.get(..count).is_some_and(|first| first.iter().all(|&c| c == 1)),
            width: multiplied.len(),
            started,
            starts,
            taken,
            outputs,
            expanded,
        }))
    }

    /// Computes every output.
    ///
    /// # Safety
    ///
    /// Every buffer of the system is valid for reads, outputs for writes of `len` bytes; outputs
    /// overlap nothing.
    #[inline]
    pub(crate) unsafe fn run(&self, streaming: bool, buffer: impl Fn(usize) -> *mut u8, len: usize) {
        let mut start = [std::ptr::null(); MAX_OUTPUTS];
        let mut outputs = [std::ptr::null_mut(); MAX_OUTPUTS];
        for i in 0..self.count {
            if self.starts[i] != NO_START {
                start[i] = buffer(self.starts[i] as usize).cast_const();
            }
            outputs[i] = buffer(self.outputs[i] as usize);
        }
        let can_stream =
            || outputs.iter().all(|pointer| pointer.addr().is_multiple_of(E::STREAM_ALIGN_BYTES));
        let streaming = streaming && can_stream();
        if let Some(expanded) = &self.expanded
            && let Some(kernel) = expanded.kernel(streaming)
        {
            // SAFETY: the caller's promise; alignment was looked at.
            unsafe { expanded.run(kernel, &outputs, buffer, len) };
            if streaming {
                self.engine.fence();
            }
            return;
        }
        let (coefficients, solution) = self.coefficients.split_at(self.sources.len() * self.width);
        let terms = Terms {
            sources: &self.sources,
            coefficients,
            first_is_plain: self.first_is_plain,
            width: self.width,
            outputs: self.count,
            doubles: false,
            streams: self.sources.len() + self.started + self.count,
            sum: if streaming { self.group } else { self.sum },
            finish: if streaming { self.streaming } else { self.cached },
            far: self.far[usize::from(streaming)],
            solution,
            taken: self.taken,
        };
        let start = (Some(&start), self.started);
        // SAFETY: the caller's promise; the engine is a witness of its instructions, and the job
        // has the kernel's shape.
        unsafe { terms.run(self.engine, streaming, start, &outputs, |s| buffer(s).cast_const(), len) };
        if streaming {
            self.engine.fence();
        }
    }
}

impl<E: Engine> std::fmt::Debug for Solve<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Solve")
            .field("sources", &self.sources)
            .field("outputs", &&self.outputs[..self.count])
            .finish_non_exhaustive()
    }
}

/// Returns the last output that is the sum `ones` minus other outputs, and a bit for each of these.
///
/// If lost buffers add up to the sum of ones, x_1 + .. + x_m = s, their rows of the solution do,
/// too. The set of these outputs is found by trying all sets, of which there are few.
fn by_sum(system: &System<'_>, ones: usize) -> Option<(usize, u32)> {
    let count = system.outputs.len();
    if count > 6 {
        return None;
    }
    let set = (1u32..1 << count).rev().find(|set| {
        (0..count).all(|sum| {
            let members = (0..count).filter(|o| set >> o & 1 == 1);
            members.fold(0, |total, o| total ^ system.solution[o * count + sum]) == u8::from(sum == ones)
        })
    })?;
    let last = set.ilog2() as usize;
    Some((last, set & !(1 << last)))
}

#[cfg(all(test, target_arch = "x86_64", not(miri)))]
mod tests {
    //! Tests of systems that are solved in groups of sources, as if the processor followed few
    //! streams and as if it followed many.

    use super::*;
    use crate::arch::x86_64::cpu::Kind;
    use crate::arch::x86_64::cpu::tests::{on, on_each};
    use crate::arch::x86_64::{Avx2, Avx2Gfni, Avx512Gfni};
    use crate::engine::tests::{SaysWho, calls};
    use crate::streams::FEW_STREAMS;
    use crate::{Dot, Tier};

    #[test]
    fn systems_solved_in_groups_give_what_their_steps_give() {
        on_each(|| {
            Avx2::new().into_iter().for_each(check);
            Avx2Gfni::new().into_iter().for_each(check);
            Avx512Gfni::new().into_iter().for_each(check);
        });
    }

    #[test]
    fn kernels_suit_where_the_streams_of_a_system_are() {
        // Sources, then the starts of sums, then outputs.
        let kernels = |sources: usize, count: usize, len: usize, pitch: usize, streaming: bool| {
            let system = System {
                sources: &(0..sources).collect::<Vec<_>>(),
                coefficients: &vec![2; sources * count],
                starts: &(0..count).map(|sum| Some(sources + sum)).collect::<Vec<_>>(),
                outputs: &(0..count).map(|o| sources + count + o).collect::<Vec<_>>(),
                solution: &vec![2; count * count],
            };
            let solve = Solve::new(SaysWho(FEW_STREAMS), &system).unwrap();
            // SAFETY: the kernels of this engine touch nothing, and no pointer is moved but by
            // wrapping.
            calls(pitch, |at| unsafe { solve.run(streaming, at, len) })
        };
        let apart = |len: usize| len + 256;
        assert_eq!(kernels(12, 4, 48 << 10, apart(48 << 10), false), ["solves far"], "with starts");
        assert_eq!(kernels(5, 4, 3 << 15, apart(3 << 15), false), ["solves"], "few");
        assert_eq!(kernels(12, 4, 1 << 16, 1 << 16, false), ["solves"], "not apart");
        assert_eq!(kernels(12, 4, 1 << 15, apart(1 << 15), false), ["solves"], "stay in the second cache");
        assert_eq!(kernels(12, 4, 1 << 16, apart(1 << 16), true), ["solves far past"]);
        assert_eq!(kernels(5, 4, 3 << 15, apart(3 << 15), true), ["solves past"], "few");
        assert_eq!(kernels(13, 4, 1 << 16, apart(1 << 16), true), ["group", "solves past"]);
        assert_eq!(kernels(13, 4, 1 << 16, (1 << 16) + 272, true), ["solves far"], "not aligned");
        assert_eq!(
            kernels(66, 2, 1 << 10, apart(1 << 10), false),
            ["cached", "solves"],
            "more than one call takes"
        );
    }

    #[test]
    fn sums_of_ones_are_expanded_where_that_is_faster() {
        let Some(engine) = Avx2::new() else { return println!("this machine has no AVX2: left out") };
        // Returns true if runs through the cache use the expanded form; the same for runs past the
        // cache; and true if any run solves.
        let ways = |sources: usize, count: usize, has_zeros: bool, adds_up: bool| {
            let mut solution: Vec<u8> = (0..count * count).map(|i| (i * 11 + 2) as u8).collect();
            solution[1] *= u8::from(!has_zeros);
            for sum in (0..count).filter(|_| adds_up) {
                let others = (0..count - 1).fold(0, |total, o| total ^ solution[o * count + sum]);
                solution[(count - 1) * count + sum] = others ^ u8::from(sum == 0);
            }
            let system = System {
                sources: &(0..sources).collect::<Vec<_>>(),
                coefficients: &(0..sources * count)
                    .map(|i| if i % count == 0 { 1 } else { 2 })
                    .collect::<Vec<_>>(),
                starts: &(0..count).map(|sum| Some(sources + sum)).collect::<Vec<_>>(),
                outputs: &(0..count).map(|o| sources + count + o).collect::<Vec<_>>(),
                solution: &solution,
            };
            let solve = Solve::new(engine, &system).unwrap();
            let expanded = |streaming| solve.expanded.as_ref().and_then(|e| e.kernel(streaming)).is_some();
            (expanded(false), expanded(true), !solve.coefficients.is_empty())
        };
        on(Kind::Zen3, || {
            assert_eq!(ways(3, 3, false, true), (true, true, false));
            assert_eq!(ways(9, 4, true, true), (true, true, false), "13 streams are followed");
            assert_eq!(ways(10, 4, false, true), (true, false, true), "14 are not");
            assert_eq!(ways(10, 4, false, false), (false, false, true));
            assert_eq!(ways(2, 2, true, true), (true, false, true));
            assert_eq!(ways(2, 2, false, true), (false, false, true));
            assert_eq!(ways(61, 3, true, true), (true, false, true));
            assert_eq!(ways(62, 3, true, true), (false, false, true), "more than one call takes");
        });
        on(Kind::Zen4, || assert_eq!(ways(3, 3, false, true), (true, false, true)));
    }

    fn check<E: Engine>(engine: E) {
        for (sources, count, len) in [
            (7, 2, 20_000),
            (5, 2, 12_001),
            (12, 2, 9_000),
            (8, 4, 16_384),
            (5, 3, 5_003),
            (9, 3, 4_999),
            (12, 4, 70_001),
            (16, 3, 65_600),
            (20, 4, 131_073),
            (66, 2, 17_000),
        ] {
            // The second sum is of ones; one sum in three has no start. Some systems take the first
            // source with coefficient 1 in all sums.
            let coefficient = |sum: usize, t: usize| match sum == 1 || t == 0 && sources % 3 == 2 {
                true => 1,
                false => (sum * 41 + t * 13) as u8 | 2,
            };
            let of_sum = |o: usize, sum: usize| {
                if o == 0 && sum == 0 { 0 } else { (o * 29 + sum * 7 + 3) as u8 }
            };
            let system = System {
                sources: &(0..sources).collect::<Vec<_>>(),
                coefficients: &(0..sources * count)
                    .map(|i| coefficient(i % count, i / count))
                    .collect::<Vec<_>>(),
                starts: &(0..count).map(|sum| (sum % 3 != 2).then_some(sources + sum)).collect::<Vec<_>>(),
                outputs: &(0..count).map(|o| sources + count + o).collect::<Vec<_>>(),
                solution: &(0..count * count).map(|i| of_sum(i / count, i % count)).collect::<Vec<_>>(),
            };
            let pitch = usize::next_multiple_of(len, 64) + 64;
            let buffers = sources + 2 * count;
            let mut memory: Vec<u8> = (0..buffers * pitch + 64).map(|i| (i * 7 + i / 251) as u8).collect();
            let shift = memory.as_ptr().align_offset(64);
            let slices: Vec<&[u8]> =
                (0..sources + count).map(|i| &memory[shift + i * pitch..][..len]).collect();
            let expanded: Vec<Vec<(usize, u8)>> =
                system.expanded().into_iter().map(|(_, terms)| terms).collect();
            let mut wanted = vec![vec![0; len]; count];
            let mut views: Vec<&mut [u8]> = wanted.iter_mut().map(Vec::as_mut_slice).collect();
            let steps = Dot::with_tier(Tier::Portable, slices.len(), &expanded).unwrap();
            steps.apply(&slices, &mut views).unwrap();
            let solve = Solve::new(engine, &system).unwrap();
            let base = memory.as_mut_ptr().wrapping_add(shift);
            for streaming in [true, false] {
                // SAFETY: buffers lie in `memory`, apart from one another.
                unsafe { solve.run(streaming, |i| base.wrapping_add(i * pitch), len) };
                for (o, wanted) in wanted.iter().enumerate() {
                    let at = shift + (sources + count + o) * pitch;
                    let what = format!("{sources} sources, output {o} of {count}, streaming {streaming}");
                    assert!(&memory[at..at + len] == wanted, "{what}");
                    memory[at..at + len].fill(0x5a);
                }
            }
        }
    }
}
