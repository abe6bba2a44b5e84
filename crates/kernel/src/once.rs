//! Sums of products by a matrix that is not compiled, for calls that take less time than compiling
//! it.
//!
//! Unlike [`Dot`](crate::Dot), it compiles, stores and allocates nothing, and makes no use of far
//! streams, of zeros or of rows over different sources.

use std::mem::MaybeUninit;
use std::sync::OnceLock;

use crate::arch::native::*;
use crate::engine::{Engine, Job, MAX_OUTPUTS, MAX_SOURCES, Summing};
use crate::portable::product;
use crate::tier::Tier;

/// A matrix of coefficients at equal steps in memory, outputs x sources.
#[derive(Clone, Copy, Debug)]
pub struct Grid<'a> {
    /// The bytes, from the coefficient of output 0 and source 0 on.
    pub bytes: &'a [u8],
    /// The distance from the coefficient of an output to that of the next one, in bytes.
    pub output_step: usize,
    /// The distance from the coefficient of a source to that of the next one, in bytes.
    pub source_step: usize,
}

impl Grid<'_> {
    #[inline]
    fn at(&self, output: usize, source: usize) -> u8 {
        self.bytes[output * self.output_step + source * self.source_step]
    }
}

/// The start of each sum.
#[derive(Clone, Copy, Debug)]
pub enum Start<'a> {
    /// Zero.
    Zero,
    /// The content of each output.
    Outputs,
    /// The content of other buffers, one for each output.
    Others(&'a [*const u8]),
}

/// [`sum_once_with`] for one tier.
type SumOnce = unsafe fn(Grid<'_>, Start<'_>, &[*const u8], &[*mut u8], usize);

/// Computes `outputs[o] = start[o] + sum over s of coefficient(o, s) * sources[s]`.
///
/// Cost: no allocation, no lock; some nanoseconds, and about one per coefficient, before the first
/// byte is processed. There is one pass over the sources per eight outputs. Panics if the grid or
/// `start` is too short.
///
/// # Safety
///
/// Every source and start is valid for reads and every output for writes of `len` bytes, and
/// initialised where it is a start. An output overlaps no source, no start of others and no other
/// output.
#[inline]
pub unsafe fn sum_once(
    grid: Grid<'_>,
    start: Start<'_>,
    sources: &[*const u8],
    outputs: &[*mut u8],
    len: usize,
) {
    static BEST: OnceLock<SumOnce> = OnceLock::new();
    // SAFETY: the caller's promise.
    unsafe { BEST.get_or_init(|| of_tier(Tier::best()))(grid, start, sources, outputs, len) }
}

/// Works like [`sum_once`], for a tier that the caller chooses; the portable tier if this machine
/// lacks it.
///
/// # Safety
///
/// As [`sum_once`].
pub unsafe fn sum_once_with(
    tier: Tier,
    grid: Grid<'_>,
    start: Start<'_>,
    sources: &[*const u8],
    outputs: &[*mut u8],
    len: usize,
) {
    // SAFETY: the caller's promise.
    unsafe { of_tier(tier)(grid, start, sources, outputs, len) }
}

fn of_tier(tier: Tier) -> SumOnce {
    macro_rules! by_engine {
        ([$($name:ident)*]) => {
            match tier {
                // SAFETY, for each: a promise as that of `sum_once`, and the engine was there when
                // the function was picked.
                $(tier if tier == $name::TIER && $name::new().is_some() => |grid, start, sources, outputs, len| {
                    if let Some(engine) = $name::new() {
                        unsafe { by_passes(engine, grid, start, sources, outputs, len) }
                    }
                },)*
                _ => by_bytes,
            }
        };
    }
    for_engines!(by_engine())
}

/// Computes passes of up to [`MAX_OUTPUTS`] outputs. It is a separate function for each engine: the
/// coefficients take several pages of stack, which other engines need not touch.
///
/// # Safety
///
/// As [`sum_once`].
#[inline(never)]
unsafe fn by_passes<E: Engine>(
    engine: E,
    grid: Grid<'_>,
    start: Start<'_>,
    sources: &[*const u8],
    outputs: &[*mut u8],
    len: usize,
) {
    let mut room = [const { MaybeUninit::<E::Coefficient>::uninit() }; MAX_SOURCES * MAX_OUTPUTS];
    let mut first = 0;
    while first < outputs.len() {
        let count = MAX_OUTPUTS.min(outputs.len() - first);
        let is_ones = |o: &usize| (0..sources.len()).all(|s| grid.at(first + o, s) == 1);
        // An output whose coefficients are all ones needs none stored, and comes first.
        let ones_at = (0..count).find(is_ones);
        let (skipped, ones) = (ones_at.unwrap_or(count), ones_at.is_some());
        let outputs = &outputs[first..];
        let mut to: [*mut u8; MAX_OUTPUTS] =
            std::array::from_fn(|o| outputs.get(o).map_or(std::ptr::null_mut(), |output| *output));
        let mut begin = to.map(|output| output.cast_const());
        if let Start::Others(start) = start {
            begin[..count].copy_from_slice(&start[first..first + count]);
        }
        if ones && skipped > 0 {
            to[..=skipped].rotate_right(1);
            begin[..=skipped].rotate_right(1);
        }
        let mut begins = !matches!(start, Start::Zero);
        let mut taken = 0;
        loop {
            let group = &sources[taken..sources.len().min(taken + MAX_SOURCES)];
            let mut used = 0;
            for source in taken..taken + group.len() {
                for output in (0..count).filter(|&output| output != skipped) {
                    room[used].write(E::coefficient(grid.at(first + output, source)));
                    used += 1;
                }
            }
            // SAFETY: the loop wrote so many.
            let coefficients = unsafe { &*(&raw const room[..used] as *const [E::Coefficient]) };
            let kernel = engine.kernel(false, Summing { outputs: count, ones, reads: group.len() });
            let job = Job {
                sources: group,
                rest: &[],
                coefficients,
                first_is_plain: false,
                start: begins.then_some(&begin),
                solution: &[],
                taken: 0,
                outputs: &to,
                len,
            };
            // SAFETY: the caller's promise; outputs of the group before are the start of this one.
            // The engine is a witness of its instructions, and the job has the shape that the
            // kernel was picked for.
            unsafe { kernel(&job) };
            taken += group.len();
            if taken == sources.len() {
                break;
            }
            begin = to.map(|pointer| pointer.cast_const());
            begins = true;
        }
        first += count;
    }
}

/// # Safety
///
/// As [`sum_once`].
#[inline(never)]
unsafe fn by_bytes(grid: Grid<'_>, start: Start<'_>, sources: &[*const u8], outputs: &[*mut u8], len: usize) {
    for (o, output) in outputs.iter().enumerate() {
        for at in 0..len {
            // SAFETY: `at` is below the length, for which all of them are valid.
            let byte = |pointer: *const u8| unsafe { pointer.add(at).read() };
            let begin = match start {
                Start::Zero => 0,
                Start::Outputs => byte(output.cast_const()),
                Start::Others(start) => byte(start[o]),
            };
            let terms = sources.iter().enumerate();
            let sum = terms.fold(begin, |sum, (s, &source)| sum ^ product(grid.at(o, s), byte(source)));
            // SAFETY: as above.
            unsafe { output.add(at).write(sum) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(len: usize, seed: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 31 + seed * 57 + i / 251 + 3) as u8).collect()
    }

    /// Checks the sums of every tier, with and without a start, over a grid with steps of 32 bytes.
    fn check(sources: usize, outputs: usize, len: usize, coefficient: impl Fn(usize, usize) -> u8) {
        let mut grid = vec![0xee; 32 * sources * outputs + 1];
        for o in 0..outputs {
            for s in 0..sources {
                grid[32 * (o * sources + s)] = coefficient(o, s);
            }
        }
        let grid = Grid { bytes: &grid, output_step: 32 * sources, source_step: 32 };
        let memory: Vec<Vec<u8>> = (0..sources).map(|s| bytes(len, s)).collect();
        let pointers: Vec<*const u8> = memory.iter().map(|source| source.as_ptr()).collect();
        let starts: Vec<Vec<u8>> = (0..outputs).map(|o| bytes(len, 1000 + o)).collect();
        let wanted = |o: usize, at: usize| {
            let terms = memory.iter().enumerate();
            terms.fold(0, |sum, (s, source)| sum ^ product(coefficient(o, s), source[at]))
        };
        for tier in Tier::available() {
            for begins in ["nothing", "others", "outputs"] {
                let mut results = match begins {
                    "outputs" => starts.clone(),
                    _ => vec![vec![0xa5; len]; outputs],
                };
                let to: Vec<*mut u8> = results.iter_mut().map(|result| result.as_mut_ptr()).collect();
                let begin: Vec<*const u8> = starts.iter().map(|start| start.as_ptr()).collect();
                let start = match begins {
                    "nothing" => Start::Zero,
                    "outputs" => Start::Outputs,
                    _ => Start::Others(&begin),
                };
                // SAFETY: every buffer is `len` bytes long, and outputs are new memory.
                unsafe { sum_once_with(tier, grid, start, &pointers, &to, len) };
                for (o, result) in results.iter().enumerate() {
                    for (at, &byte) in result.iter().enumerate() {
                        let start = if begins == "nothing" { 0 } else { starts[o][at] };
                        let what =
                            format!("{tier}: {sources} x {outputs}, {len} bytes on {begins}, {o} at {at}");
                        assert_eq!(byte, start ^ wanted(o, at), "{what}");
                    }
                }
            }
        }
    }

    #[test]
    fn sums_of_any_shape_are_the_portable_ones() {
        let lengths = if cfg!(miri) { [33].as_slice() } else { &[0, 1, 31, 64, 333] };
        for (sources, outputs) in
            [(0, 1), (0, 3), (1, 1), (1, 4), (2, 2), (10, 4), (64, 2), (130, 3), (5, 19)]
        {
            for &len in lengths {
                check(sources, outputs, len, |o, s| (o * 29 + s * 7 + 2) as u8);
            }
        }
    }

    #[test]
    fn an_output_of_ones_may_stand_anywhere() {
        for at in 0..4 {
            check(5, 4, 200, |o, s| if o == at { 1 } else { (o * 5 + s * 3) as u8 });
        }
        check(3, 9, 70, |_, _| 1);
        check(70, 2, 70, |o, s| if o == 1 { 1 } else { s as u8 });
    }
}
