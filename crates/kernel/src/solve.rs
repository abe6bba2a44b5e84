//! Sums of products, and a small system solved before anything is stored: how an MDS code decodes.
//!
//! Lost buffers follow from as many parities: the sum of what is left under each parity, the parity itself added, is the
//! same sum over the lost ones; its matrix is m x m. Solved in registers, (k - m) m + m^2 products take the place of the
//! k m of final coefficients for each source; a parity of ones saves m of the k - m and, because the last lost buffer is
//! what the others leave of it, m of the m^2.

use crate::portable::product;
use crate::schedule::{Engine, Kernel, MAX_OUTPUTS, Terms};

/// Outputs that follow from sums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System {
    /// As many sums as outputs.
    pub sums: Vec<SystemSum>,
    /// Each output, and its coefficient of each sum.
    pub outputs: Vec<(usize, Vec<u8>)>,
}

/// A sum of products.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemSum {
    /// A buffer that is added as it is; it stands in no other sum.
    pub start: Option<usize>,
    /// Buffers with their coefficients; the buffers are the same in every sum, and in the same order.
    pub terms: Vec<(usize, u8)>,
}

impl System {
    /// Each output over the sources: what the system comes to.
    pub(crate) fn expanded(&self) -> Vec<(usize, Vec<(usize, u8)>)> {
        self.outputs
            .iter()
            .map(|(output, coefficients)| {
                let parts = self.sums.iter().zip(coefficients).flat_map(|(sum, &c)| {
                    let start = sum.start.map(|start| (start, c));
                    start.into_iter().chain(sum.terms.iter().map(move |&(buffer, d)| (buffer, product(c, d))))
                });
                (*output, parts.collect())
            })
            .collect()
    }

    /// Whether all sums have the same sources.
    fn is_uniform(&self) -> bool {
        let Some(first) = self.sums.first() else { return false };
        let is_like = |sum: &SystemSum| {
            sum.terms.len() == first.terms.len()
                && sum.terms.iter().zip(&first.terms).all(|(own, other)| own.0 == other.0)
        };
        self.sums.len() == self.outputs.len()
            && self.sums.iter().all(is_like)
            && self.outputs.iter().all(|(_, coefficients)| coefficients.len() == self.sums.len())
    }
}

/// A system compiled for an engine.
pub(crate) struct Solve<E: Engine> {
    engine: E,
    /// Leaves the sums.
    sum: Kernel<E::Coefficient>,
    cached: Kernel<E::Coefficient>,
    streaming: Kernel<E::Coefficient>,
    sources: Vec<usize>,
    coefficients: Vec<E::Coefficient>,
    /// Coefficients per source.
    width: usize,
    starts: Vec<Option<usize>>,
    solution: Vec<E::Coefficient>,
    taken: u32,
    outputs: Vec<usize>,
}

impl<E: Engine> Solve<E> {
    /// `None` if the engine has no kernel for such a system.
    pub(crate) fn new(engine: E, system: &System) -> Option<Solve<E>> {
        let count = system.sums.len();
        if !system.is_uniform() || count > MAX_OUTPUTS {
            return None;
        }
        let ones_at = system.sums.iter().position(|sum| sum.terms.iter().all(|term| term.1 == 1));
        let ones = ones_at.is_some();
        // The sum of ones first.
        let mut order: [usize; MAX_OUTPUTS] = std::array::from_fn(|sum| sum);
        order[..=ones_at.unwrap_or(0)].rotate_right(usize::from(ones));
        let last = ones_at.and_then(|at| by_sum(system, at));
        let mut outputs: [usize; MAX_OUTPUTS] = std::array::from_fn(|o| o);
        if let Some((last, _)) = last {
            outputs[last..count].rotate_left(1);
        }
        let (order, outputs) = (&order[..count], &outputs[..count]);
        // All others come before it, and stay where they are.
        let taken = last.map_or(0, |(_, others)| others);
        let kernel = |streaming| engine.solving_kernel(count, ones, streaming, last.is_some());
        let multiplied = &order[usize::from(ones)..];
        // A recovery that is planned for one stripe must not take longer to compile than to run: nothing grows here.
        let terms = system.sums[0].terms.len();
        let mut coefficients = Vec::with_capacity(terms * multiplied.len());
        for t in 0..terms {
            coefficients.extend(multiplied.iter().map(|&sum| E::coefficient(system.sums[sum].terms[t].1)));
        }
        let mut solution = Vec::with_capacity(count * count);
        for &o in outputs {
            solution.extend(order.iter().map(|&sum| E::coefficient(system.outputs[o].1[sum])));
        }
        Some(Solve {
            engine,
            sum: engine.kernel(count, ones, false),
            cached: kernel(false)?,
            streaming: kernel(true)?,
            sources: system.sums[0].terms.iter().map(|term| term.0).collect(),
            coefficients,
            width: multiplied.len(),
            starts: order.iter().map(|&sum| system.sums[sum].start).collect(),
            solution,
            taken,
            outputs: outputs.iter().map(|&o| system.outputs[o].0).collect(),
        })
    }

    /// Computes every output.
    ///
    /// # Safety
    ///
    /// Every buffer of the system is valid for reads, outputs for writes of `len` bytes; outputs overlap nothing.
    pub(crate) unsafe fn run(&self, streaming: bool, buffer: impl Fn(usize) -> *mut u8, len: usize) {
        let mut start = [std::ptr::null(); MAX_OUTPUTS];
        for (pointer, s) in start.iter_mut().zip(&self.starts) {
            *pointer = s.map_or(std::ptr::null(), |s| buffer(s).cast_const());
        }
        let mut outputs = [std::ptr::null_mut(); MAX_OUTPUTS];
        outputs.iter_mut().zip(&self.outputs).for_each(|(pointer, &o)| *pointer = buffer(o));
        let can_stream = outputs.iter().all(|pointer| pointer.addr().is_multiple_of(E::STREAM_ALIGN_BYTES));
        let streaming = streaming && can_stream;
        let terms = Terms {
            sources: &self.sources,
            coefficients: &self.coefficients,
            width: self.width,
            outputs: self.outputs.len(),
            sum: self.sum,
            finish: if streaming { self.streaming } else { self.cached },
            solution: &self.solution,
            taken: self.taken,
        };
        let start = (Some(&start), self.starts.iter().flatten().count());
        // SAFETY: the caller's promise; the engine is a witness of its instructions, and the job has the kernel's shape.
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
            .field("outputs", &self.outputs)
            .finish_non_exhaustive()
    }
}

/// An output that is the sum `ones` less other outputs, and a bit for each of these; the last one that can be had so.
///
/// The rows of all outputs that enter the sum of ones with a start add up to that sum: x_1 + .. + x_m = s, so the rows
/// of the solution do too. Which outputs these are is found by trying all sets of them, of which there are few.
fn by_sum(system: &System, ones: usize) -> Option<(usize, u32)> {
    let count = system.outputs.len();
    if count > 6 {
        return None;
    }
    let set = (1u32..1 << count).rev().find(|set| {
        (0..count).all(|sum| {
            let members = system.outputs.iter().enumerate().filter(|(o, _)| set >> o & 1 == 1);
            members.fold(0, |total, (_, output)| total ^ output.1[sum]) == u8::from(sum == ones)
        })
    })?;
    let last = set.ilog2() as usize;
    Some((last, set & !(1 << last)))
}

#[cfg(all(test, target_arch = "x86_64", not(miri)))]
mod tests {
    //! Systems solved in groups of sources: on this machine taken for one that follows few streams, wherever it is tested.

    use super::*;
    use crate::arch::x86_64::{avx2::Avx2, avx2_gfni::Avx2Gfni, avx512_gfni::Avx512Gfni};
    use crate::schedule::tests::FollowsFew;
    use crate::{Dot, Tier};

    /// As many sums as outputs, the second one of ones; one sum in three has no start.
    fn system(sources: usize, count: usize) -> System {
        let coefficient = |sum: usize, t: usize| if sum == 1 { 1 } else { (sum * 41 + t * 13) as u8 | 2 };
        let terms = |sum: usize| (0..sources).map(|t| (t, coefficient(sum, t))).collect();
        let start = |sum: usize| (sum % 3 != 2).then_some(sources + sum);
        let sums = (0..count).map(|sum| SystemSum { start: start(sum), terms: terms(sum) }).collect();
        let row = |o: usize| {
            (0..count).map(|sum| if o == 0 && sum == 0 { 0 } else { (o * 29 + sum * 7 + 3) as u8 }).collect()
        };
        System { sums, outputs: (0..count).map(|o| (sources + count + o, row(o))).collect() }
    }

    #[test]
    fn systems_solved_in_groups_give_what_their_steps_give() {
        Avx2::new().into_iter().for_each(check);
        Avx2Gfni::new().into_iter().for_each(check);
        Avx512Gfni::new().into_iter().for_each(check);
    }

    fn check<E: Engine>(engine: E) {
        for (sources, count, len) in [
            (7, 2, 20_000),
            (8, 4, 16_384),
            (12, 4, 70_001),
            (16, 3, 65_600),
            (20, 4, 131_073),
            (66, 2, 17_000),
        ] {
            let system = system(sources, count);
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
            let solve = Solve::new(FollowsFew(engine), &system).unwrap();
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
