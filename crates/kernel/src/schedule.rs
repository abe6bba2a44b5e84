//! Schedules rows of coefficients as passes of a vector engine, for every instruction set.
//!
//! A *pass* computes up to [`MAX_OUTPUTS`] outputs in one sweep over the union of their sources,
//! with all sums in registers. Rows share a pass if reading the sources once saves more than the
//! zero coefficients cost that fill the gaps in the rows. A row that is all ones over the pass
//! comes first and is plain XOR.
//!
//! A single pass runs over the whole length at once. Several passes run tile by tile, so that
//! shared sources stay in the first-level cache. `terms.rs` describes how a pass reads many
//! streams.
//!
//! Invariants: each output belongs to exactly one pass or is empty.

use std::cmp::Reverse;

use crate::engine::{Engine, Kernel, MAX_OUTPUTS, Summing};
use crate::order::reading_order;
use crate::portable::product;
use crate::stores::Mode;
use crate::terms::{Terms, far_kernel, group_kernel};

/// The most bytes of all sources and outputs of a tile, if several passes share it.
const SHARED_TILE_FOOTPRINT_BYTES: usize = 24 * 1024;

/// Rows compiled into passes.
pub(crate) struct Schedule<E: Engine> {
    engine: E,
    passes: Vec<Pass<E>>,
    /// The rows without coefficients.
    empty: Vec<usize>,
    /// The number of streams of all passes: sources that are read and outputs.
    streams: usize,
}

struct Pass<E: Engine> {
    cached: Kernel<E::Coefficient>,
    group: Kernel<E::Coefficient>,
    streaming: Kernel<E::Coefficient>,
    /// The cached and the streaming kernel for far streams.
    far: [Option<Kernel<E::Coefficient>>; 2],
    /// The cached and the streaming kernel that double, for outputs that are not added to. Sources
    /// are then in the order of the doubling.
    doubling: Option<[Kernel<E::Coefficient>; 2]>,
    sources: Vec<usize>,
    coefficients: Vec<E::Coefficient>,
    /// The field of the same name of a [`Job`](crate::engine::Job).
    first_is_plain: bool,
    /// The number of coefficients per source.
    width: usize,
    outputs: Vec<usize>,
}

impl<E: Engine> Schedule<E> {
    /// Compiles rows whose sources are ascending and that have no zero coefficient.
    pub(crate) fn new(engine: E, rows: &[Vec<(usize, u8)>]) -> Schedule<E> {
        let passes: Vec<Pass<E>> =
            clusters(engine, rows).iter().map(|cluster| Pass::new(engine, rows, cluster)).collect();
        let empty: Vec<usize> = (0..rows.len()).filter(|&o| rows[o].is_empty()).collect();
        let mut used: Vec<usize> = rows.iter().flatten().map(|(source, _)| *source).collect();
        used.sort_unstable();
        used.dedup();
        let streams = used.len() + rows.len();
        Schedule { engine, passes, empty, streams }
    }

    /// True if all outputs are computed in one sweep over their sources.
    pub(crate) fn is_one_pass(&self) -> bool {
        self.passes.len() == 1 && self.empty.is_empty()
    }

    /// Computes every output.
    ///
    /// # Safety
    ///
    /// As `Program::run`.
    #[inline]
    pub(crate) unsafe fn run(
        &self,
        mode: Mode,
        streaming: bool,
        source: impl Fn(usize) -> *const u8,
        mut output: impl FnMut(usize) -> *mut u8,
        len: usize,
    ) {
        if mode == Mode::Apply {
            for &o in &self.empty {
                // SAFETY: the output is valid for writes of `len` bytes.
                unsafe { output(o).write_bytes(0, len) };
            }
        }
        match &self.passes[..] {
            [] => {}
            // SAFETY: the caller promises valid buffers, their disjointness and, by `Mode`,
            // initialisation.
            [pass] => unsafe { pass.run(self.engine, mode, streaming, source, output, len) },
            // SAFETY: as above.
            _ => unsafe { self.run_tiles(mode, streaming, source, output, len) },
        }
        if streaming {
            self.engine.fence();
        }
    }

    /// Runs all passes over each tile.
    ///
    /// # Safety
    ///
    /// As `Program::run`.
    #[inline(never)]
    unsafe fn run_tiles(
        &self,
        mode: Mode,
        streaming: bool,
        source: impl Fn(usize) -> *const u8,
        mut output: impl FnMut(usize) -> *mut u8,
        len: usize,
    ) {
        let tile = self.shared_tile();
        let mut at = 0;
        while at < len {
            let n = tile.min(len - at);
            for pass in &self.passes {
                // SAFETY: every buffer is valid for `len >= at + n` bytes, so the moved pointers
                // stay inside and are valid for n bytes. The caller promises the disjointness and,
                // by `Mode`, initialisation.
                unsafe {
                    pass.run(self.engine, mode, streaming, |s| source(s).add(at), |o| output(o).add(at), n)
                };
            }
            at += n;
        }
    }

    fn shared_tile(&self) -> usize {
        (SHARED_TILE_FOOTPRINT_BYTES / self.streams).clamp(1024, 8192) / 256 * 256
    }
}

impl<E: Engine> Pass<E> {
    fn new(engine: E, rows: &[Vec<(usize, u8)>], cluster: &[usize]) -> Pass<E> {
        let mut sources: Vec<usize> =
            cluster.iter().flat_map(|&o| &rows[o]).map(|(source, _)| *source).collect();
        sources.sort_unstable();
        sources.dedup();
        let ones_at = cluster.iter().position(|&o| is_ones(&rows[o]) && rows[o].len() == sources.len());
        let mut outputs = cluster.to_vec();
        if let Some(at) = ones_at {
            outputs[..=at].rotate_right(1);
        }
        let ones = ones_at.is_some();
        let multiplied = &outputs[usize::from(ones)..];
        let rises = match *multiplied {
            [output] if ones && rows[output].len() == sources.len() => rises_by_doubling(&rows[output]),
            _ => None,
        };
        let kernels = |_| Some([engine.doubling_kernel(false)?, engine.doubling_kernel(true)?]);
        let doubling = rises.and_then(kernels);
        if doubling.is_some() && rises == Some(true) {
            sources.reverse();
        }
        if doubling.is_none() {
            sources = reading_order(sources.len()).map(|s| sources[s]).collect();
        }
        // The first column of extended Cauchy matrices is all ones.
        let is_plain = |&source: &usize| multiplied.iter().all(|&o| coefficient_of(&rows[o], source) == 1);
        let may_be_plain = E::PLAIN_FIRST && ones && !multiplied.is_empty() && doubling.is_none();
        let plain = may_be_plain.then(|| sources.iter().position(is_plain)).flatten();
        if let Some(at) = plain {
            sources[..=at].rotate_right(1);
        }
        let coefficients = sources
            .iter()
            .flat_map(|&source| {
                multiplied.iter().map(move |&o| E::coefficient(coefficient_of(&rows[o], source)))
            })
            .collect();
        let shape = Summing { outputs: outputs.len(), ones, reads: sources.len() };
        Pass {
            cached: engine.kernel(false, shape),
            group: group_kernel(engine, shape),
            streaming: engine.kernel(true, shape),
            far: [false, true].map(|streaming| {
                let streams = sources.len() + outputs.len();
                far_kernel(engine, streams, || engine.far_kernel(streaming, shape))
            }),
            doubling,
            width: multiplied.len(),
            sources,
            coefficients,
            first_is_plain: plain.is_some(),
            outputs,
        }
    }

    /// # Safety
    ///
    /// As `Program::run`, for the sources and outputs of this pass.
    #[inline]
    unsafe fn run(
        &self,
        engine: E,
        mode: Mode,
        streaming: bool,
        source: impl Fn(usize) -> *const u8,
        mut output: impl FnMut(usize) -> *mut u8,
        len: usize,
    ) {
        let mut outputs = [std::ptr::null_mut(); MAX_OUTPUTS];
        for (pointer, &o) in outputs.iter_mut().zip(&self.outputs) {
            *pointer = output(o);
        }
        let doubling = self.doubling.filter(|_| mode == Mode::Apply);
        let ([cached, past], group, far) = match doubling {
            Some(kernels) => (kernels, kernels[0], [None; 2]),
            None => ([self.cached, self.streaming], self.group, self.far),
        };
        // In a short call the work before the kernel takes as long as the kernel. So alignment is
        // checked only for calls that stream.
        let is_past = streaming && outputs.iter().all(|pointer| pointer.addr() % E::STREAM_ALIGN_BYTES == 0);
        let terms = Terms {
            sources: &self.sources,
            coefficients: &self.coefficients,
            first_is_plain: self.first_is_plain,
            width: self.width,
            outputs: self.outputs.len(),
            doubles: doubling.is_some(),
            streams: self.sources.len() + self.outputs.len(),
            sum: if streaming { group } else { cached },
            finish: if is_past { past } else { cached },
            far: far[usize::from(is_past)],
            solution: &[],
            taken: 0,
        };
        let start;
        let (start, starts) = match mode {
            Mode::Apply => (None, 0),
            Mode::Accumulate => {
                start = outputs.map(|pointer| pointer.cast_const());
                (Some(&start), self.outputs.len())
            }
        };
        // SAFETY: the caller's promise, restated for the gathered pointers. The engine that made
        // the kernels is a witness of its instructions, and coefficients were laid out for the same
        // shape.
        unsafe { terms.run(engine, streaming, (start, starts), &outputs, source, len) };
    }
}

/// Returns true if coefficients are 1, 2, 4 and so on from the first to the last, false if from the
/// last to the first, `None` otherwise.
fn rises_by_doubling(row: &[(usize, u8)]) -> Option<bool> {
    let powers = || std::iter::successors(Some(1), |&power| Some(product(power, 2)));
    let coefficients = || row.iter().map(|term| term.1);
    let rises = coefficients().zip(powers()).all(|(coefficient, power)| coefficient == power);
    let falls = || coefficients().rev().zip(powers()).all(|(coefficient, power)| coefficient == power);
    (rises || falls()).then_some(rises)
}

/// Returns the rows that share each pass. Each row that is not empty occurs once; a cluster has at
/// most [`MAX_OUTPUTS`] rows.
///
/// Cost: O(rows^2) comparisons of supports, once per matrix.
fn clusters<E: Engine>(engine: E, rows: &[Vec<(usize, u8)>]) -> Vec<Vec<usize>> {
    let mut clusters: Vec<Cluster> = Vec::new();
    for (o, row) in rows.iter().enumerate().filter(|(_, row)| !row.is_empty()) {
        let mut cluster = Cluster::of(o, row);
        // A cluster that has grown may suit others that the row did not suit.
        while let Some((i, joined)) = best_joined(engine, &clusters, &cluster) {
            clusters.remove(i);
            cluster = joined;
        }
        clusters.push(cluster);
    }
    clusters.into_iter().flat_map(|cluster| evenly_split(cluster.rows)).collect()
}

/// Returns the index of the cluster that saves most by sharing a pass with `other`, and both
/// joined; `None` if none saves anything.
fn best_joined<E: Engine>(engine: E, clusters: &[Cluster], other: &Cluster) -> Option<(usize, Cluster)> {
    let joined = clusters.iter().enumerate().map(|(i, cluster)| (i, cluster, cluster.with(other)));
    let saving = |(i, cluster, joined): (usize, &Cluster, Cluster)| {
        let apart = cluster.cost(engine) + other.cost(engine);
        Some((apart.checked_sub(joined.cost(engine)).filter(|&saved| saved > 0)?, i, joined))
    };
    joined
        .filter_map(saving)
        .max_by_key(|(saved, i, _)| (*saved, Reverse(*i)))
        .map(|(_, i, joined)| (i, joined))
}

/// Rows that share a pass, or several passes if there are many rows.
struct Cluster {
    rows: Vec<usize>,
    /// The sources of all rows, as a bit set.
    union: Vec<u64>,
    /// The most sources of a row of ones.
    longest_ones: usize,
}

impl Cluster {
    fn of(o: usize, row: &[(usize, u8)]) -> Cluster {
        let mut union = Vec::new();
        for (source, _) in row {
            let word = source / 64;
            if union.len() <= word {
                union.resize(word + 1, 0);
            }
            union[word] |= 1 << (source % 64);
        }
        Cluster { rows: vec![o], union, longest_ones: if is_ones(row) { row.len() } else { 0 } }
    }

    fn with(&self, other: &Cluster) -> Cluster {
        let words = self.union.len().max(other.union.len());
        let word = |cluster: &Cluster, i: usize| cluster.union.get(i).copied().unwrap_or(0);
        Cluster {
            rows: self.rows.iter().chain(&other.rows).copied().collect(),
            union: (0..words).map(|i| word(self, i) | word(other, i)).collect(),
            longest_ones: self.longest_ones.max(other.longest_ones),
        }
    }

    /// Returns the cost in halves of a vector load: each source is loaded once, and multiplied for
    /// each row; an XOR costs one half.
    fn cost<E: Engine>(&self, engine: E) -> usize {
        let sources: usize = self.union.iter().map(|word| word.count_ones() as usize).sum();
        let plain = usize::from(self.longest_ones == sources);
        sources * (engine.load_cost() + plain + (self.rows.len() - plain) * E::MULTIPLY_COST)
    }
}

fn evenly_split(rows: Vec<usize>) -> Vec<Vec<usize>> {
    let parts = rows.len().div_ceil(MAX_OUTPUTS);
    (0..parts).map(|p| rows[p * rows.len() / parts..(p + 1) * rows.len() / parts].to_vec()).collect()
}

fn is_ones(row: &[(usize, u8)]) -> bool {
    row.iter().all(|(_, coefficient)| *coefficient == 1)
}

fn coefficient_of(row: &[(usize, u8)], source: usize) -> u8 {
    row.binary_search_by_key(&source, |(s, _)| *s).map_or(0, |at| row[at].1)
}

impl<E: Engine> std::fmt::Debug for Schedule<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.passes.iter().map(|pass| (&pass.sources, &pass.outputs, pass.width)))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    //! Tests of the schedule with a scalar engine, so that every machine and Miri can run them.
    //! They also use every engine of this machine, as if the processor followed few streams and as
    //! if it followed many.

    use super::*;
    use crate::engine::Job;
    use crate::engine::tests::{SaysWho, calls};
    use crate::streams::{FEW_STREAMS, FewStreams, Groups};
    use crate::{Dot, Tier, portable};

    /// A scalar engine for which few streams already need groups.
    #[derive(Clone, Copy)]
    struct Scalar;

    impl Engine for Scalar {
        type Coefficient = u8;

        const MULTIPLY_COST: usize = 2;

        const STREAM_ALIGN_BYTES: usize = 1;

        fn coefficient(c: u8) -> u8 {
            c
        }

        fn kernel(self, _streaming: bool, shape: Summing) -> Kernel<u8> {
            macro_rules! pick {
                ($($m:literal)*) => {
                    match (shape.outputs, shape.ones) {
                        $(($m, false) => scalar::<$m, false>, ($m, true) => scalar::<$m, true>,)*
                        _ => unreachable!("a pass has 1 to 8 outputs"),
                    }
                };
            }
            pick!(1 2 3 4 5 6 7 8)
        }

        fn few_streams(self) -> Option<FewStreams> {
            Some(FewStreams {
                most: 8,
                most_apart: 8,
                most_apart_doubling: 8,
                len_least: 1024,
                groups: Groups { reads: 4, tile_bytes: 1024 },
                most_far: 8,
                ways: [0; 2],
                far_bytes: 0,
                most_far_bytes: usize::MAX,
            })
        }

        fn fence(self) {}
    }

    /// # Safety
    ///
    /// As [`Kernel`].
    unsafe fn scalar<const M: usize, const ONES: bool>(job: &Job<'_, u8>) {
        let width = M - usize::from(ONES);
        assert_eq!(job.coefficients.len(), job.sources.len() * width);
        for at in 0..job.len {
            for o in 0..M {
                // SAFETY: at < len, o < M.
                let mut sum = job.start.map_or(0, |start| unsafe { start[o].add(at).read() });
                for (t, source) in job.sources.iter().enumerate() {
                    let c =
                        if ONES && o == 0 { 1 } else { job.coefficients[t * width + o - usize::from(ONES)] };
                    // SAFETY: at < len.
                    sum ^= portable::product(c, unsafe { source.add(at).read() });
                }
                // SAFETY: at < len, o < M.
                unsafe { job.outputs[o].add(at).write(sum) };
            }
        }
    }

    type Rows = Vec<Vec<(usize, u8)>>;

    fn dense(sources: usize, outputs: usize) -> Rows {
        let coefficient = |o: usize, s: usize| if o == 1 { 1 } else { (o * 37 + s * 11) as u8 | 2 };
        (0..outputs).map(|o| (0..sources).map(|s| (s, coefficient(o, s))).collect()).collect()
    }

    /// Compares with the portable tier, over buffers at page boundaries in one allocation.
    fn check<E: Engine>(engine: E, sources: usize, rows: &Rows, len: usize) {
        check_over(engine, sources, rows, len, len.next_multiple_of(4096));
    }

    /// Compares with the portable tier, over buffers that begin `pitch` bytes apart.
    fn check_over<E: Engine>(engine: E, sources: usize, rows: &Rows, len: usize, pitch: usize) {
        let memory: Vec<u8> =
            (0..(sources + rows.len() + 1) * pitch + 4096).map(|i| (i % 251) as u8).collect();
        let page = memory.as_ptr().addr().next_multiple_of(4096) - memory.as_ptr().addr();
        let data: Vec<&[u8]> = (0..sources).map(|s| &memory[page + s * pitch..][..len]).collect();
        let portable = Dot::with_tier(Tier::Portable, sources, rows).unwrap();
        for (mode, streaming) in
            [(Mode::Apply, false), (Mode::Apply, true), (Mode::Accumulate, false), (Mode::Accumulate, true)]
        {
            let mut wanted: Vec<Vec<u8>> =
                (0..rows.len()).map(|o| memory[page + (sources + o) * pitch..][..len].to_vec()).collect();
            let mut views: Vec<&mut [u8]> = wanted.iter_mut().map(Vec::as_mut_slice).collect();
            match mode {
                Mode::Apply => portable.apply(&data, &mut views).unwrap(),
                Mode::Accumulate => portable.accumulate(&data, &mut views).unwrap(),
            }
            let mut copy = memory.clone();
            let shift = copy.as_ptr().addr().next_multiple_of(4096) - copy.as_ptr().addr();
            copy.copy_within(page..memory.len() - 4096 + page, shift);
            let base = copy.as_mut_ptr().wrapping_add(shift);
            let at = |i: usize| base.wrapping_add(i * pitch);
            // SAFETY: buffers are disjoint ranges of `copy`, each of them `len` bytes long.
            unsafe {
                let schedule = Schedule::new(engine, rows);
                schedule.run(mode, streaming, |s| at(s).cast_const(), |o| at(sources + o), len);
            }
            for (o, wanted) in wanted.iter().enumerate() {
                assert!(&copy[shift + (sources + o) * pitch..][..len] == wanted, "{mode:?} output {o}");
            }
        }
    }

    fn check_everywhere(sources: usize, rows: &Rows, len: usize) {
        check(Scalar, sources, rows, len);
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            use crate::arch::x86_64::{Avx2, Avx2Gfni, Avx512Gfni};
            crate::arch::x86_64::cpu::tests::on_each(|| {
                Avx2::new().into_iter().for_each(|engine| check(engine, sources, rows, len));
                Avx2Gfni::new().into_iter().for_each(|engine| check(engine, sources, rows, len));
                Avx512Gfni::new().into_iter().for_each(|engine| check(engine, sources, rows, len));
            });
        }
    }

    #[test]
    fn streamed_sources_in_groups_give_the_portable_bytes() {
        let counts: &[usize] = if cfg!(miri) { &[13] } else { &[7, 8, 9, 13, 15, 16, 17, 25, 40] };
        for &sources in counts {
            for outputs in if cfg!(miri) { 2..=2 } else { 1..=8 } {
                for len in if cfg!(miri) { [2050].as_slice() } else { &[1023, 2050, 16 * 1024 + 1] } {
                    check_everywhere(sources, &dense(sources, outputs), *len);
                }
            }
        }
        if !cfg!(miri) {
            // Lengths above that of a tile, for many outputs and for few.
            check_everywhere(14, &dense(14, 5), 40_000);
            check_everywhere(17, &dense(17, 2), 140_001);
            check_everywhere(70, &dense(70, 1), 66_000);
        }
    }

    /// Returns a row of ones, and a row of rising or falling powers of 2.
    fn ones_and_powers(sources: usize, rises: bool) -> Rows {
        let mut powers: Vec<u8> =
            std::iter::successors(Some(1), |&power| Some(product(power, 2))).take(sources).collect();
        if !rises {
            powers.reverse();
        }
        vec![(0..sources).zip(powers).collect(), (0..sources).map(|s| (s, 1)).collect()]
    }

    #[test]
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    fn powers_of_two_are_doubled_and_nothing_else_is() {
        use crate::arch::x86_64::Avx2;
        for sources in [14, 17, 40] {
            for rises in [true, false] {
                check_everywhere(sources, &ones_and_powers(sources, rises), 70_001);
            }
        }
        let Some(engine) = Avx2::new() else { return };
        let doubles = |rows: &Rows| Pass::new(engine, rows, &[0, 1]).doubling.is_some();
        let rows = |change: &dyn Fn(&mut Rows)| {
            let mut rows = ones_and_powers(6, true);
            change(&mut rows);
            rows
        };
        assert!(doubles(&rows(&|_| ())) && doubles(&ones_and_powers(6, false)));
        let others: [&dyn Fn(&mut Rows); 4] = [
            &|rows| rows[0][3].1 ^= 1,
            &|rows| rows[0].truncate(5),
            &|rows| rows[0] = rows[0].split_off(1),
            &|rows| rows[1].truncate(5),
        ];
        others.into_iter().for_each(|change| assert!(!doubles(&rows(change))));
    }

    #[test]
    #[cfg_attr(
        miri,
        ignore = "minutes there; streamed_sources_in_groups_give_the_portable_bytes takes the same way with fewer sources"
    )]
    fn more_sources_than_one_call_takes_give_the_portable_bytes() {
        for sources in [64, 65, 128, 129, 255] {
            for outputs in [2, 3] {
                for len in [70, 1024, 2048, 2049, 5000] {
                    check_everywhere(sources, &dense(sources, outputs), len);
                }
            }
        }
    }

    #[test]
    fn several_passes_over_tiles_give_the_portable_bytes() {
        let rows: Rows =
            (0..12).map(|o| (0..3).map(|s| ((o * 5 + s * 7) % 30, (o + s) as u8)).collect()).collect();
        let tidy: Rows = rows
            .into_iter()
            .map(|mut row: Vec<(usize, u8)>| {
                row.sort_unstable();
                row.retain(|(_, coefficient)| *coefficient != 0);
                row
            })
            .collect();
        for len in if cfg!(miri) { [1100].as_slice() } else { &[0, 1, 1024, 9000] } {
            check_everywhere(30, &tidy, *len);
        }
    }

    #[test]
    fn a_source_that_all_take_as_it_is_comes_first_where_that_pays() {
        for (sources, outputs, at) in [(5, 2, 0), (7, 3, 4), (18, 4, 17), (65, 3, 64)] {
            let mut rows = dense(sources, outputs);
            rows.iter_mut().for_each(|row| row[at].1 = 1);
            for len in if cfg!(miri) { [70].as_slice() } else { &[1, 33, 300, 20_001] } {
                check_everywhere(sources, &rows, *len);
            }
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            if let Some(engine) = crate::arch::x86_64::Avx2::new() {
                let cluster: Vec<usize> = (0..outputs).collect();
                let pass = Pass::new(engine, &rows, &cluster);
                assert_eq!((pass.first_is_plain, pass.sources[0]), (true, at));
                assert!(!Pass::new(engine, &dense(sources, outputs), &cluster).first_is_plain);
            }
        }
        if !cfg!(miri) {
            // Outputs that are added to are streams of the first group, too.
            let mut rows = dense(6, 8);
            rows.iter_mut().for_each(|row| row[2].1 = 1);
            check_everywhere(6, &rows, 20_001);
        }
    }

    #[test]
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    fn many_streams_from_behind_the_second_cache_give_the_portable_bytes() {
        use crate::arch::x86_64::{Avx512Gfni, cpu::Kind, cpu::tests::on};
        let Some(engine) = Avx512Gfni::new() else { return };
        for (sources, outputs, more) in [(14, 3, 0), (16, 4, 1), (17, 5, 63), (20, 4, 64), (33, 8, 130)] {
            let len = FEW_STREAMS.far_bytes.div_ceil(sources + outputs).next_multiple_of(256) + more;
            let pitch = len.next_multiple_of(4096) + 256;
            let rows = dense(sources, outputs);
            for kind in [Kind::Zen4, Kind::Zen5, Kind::IceLake] {
                on(kind, || check_over(engine, sources, &rows, len, pitch));
            }
        }
    }

    #[test]
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    fn two_sums_of_many_streams_that_lie_apart_give_the_portable_bytes() {
        use crate::arch::x86_64::{Avx2, cpu::Kind, cpu::tests::on};
        let Some(engine) = Avx2::new() else { return };
        for (sources, more) in [(10, 0), (12, 63), (16, 64)] {
            let len = 20_480 + more;
            let shape = Summing { outputs: 2, ones: false, reads: sources };
            on(Kind::Zen3, || {
                check_over(engine, sources, &dense(sources, 2), len, len.next_multiple_of(4096) + 256);
                assert!(
                    engine.far_kernel(true, shape).is_some() && engine.far_kernel(false, shape).is_none()
                );
            });
        }
    }

    #[test]
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    fn few_sources_from_behind_the_first_cache_give_the_portable_bytes() {
        use crate::arch::x86_64::{Avx512Gfni, cpu::Kind, cpu::tests::on};
        let Some(engine) = Avx512Gfni::new() else { return };
        for (sources, outputs) in (1..=13).flat_map(|sources| (2..=4).map(move |outputs| (sources, outputs)))
        {
            let mut rows = dense(sources, outputs);
            let len = (48 << 10) / (sources + outputs) + 64 + sources;
            on(Kind::IceLake, || check_over(engine, sources, &rows, len, len + 13));
            rows[outputs - 1].iter_mut().for_each(|term| term.1 = 1);
            on(Kind::IceLake, || check_over(engine, sources, &rows, len, len + 13));
        }
    }

    #[test]
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    fn kernels_for_one_kind_of_processor_give_what_visits_give_at_every_length() {
        use crate::arch::x86_64::{Avx512Gfni, cpu::Kind, cpu::tests::on};
        #[derive(Clone, PartialEq)]
        #[repr(align(64))]
        struct Lines([u8; 448]);
        let Some(engine) = Avx512Gfni::new() else { return };
        let memory: Vec<u8> = (0..40 * 400).map(|i| (i * 31 + i / 257) as u8).collect();
        let coefficients: Vec<u64> =
            (0..17 * 8).map(|i| Avx512Gfni::coefficient((i * 5 + 3) as u8)).collect();
        let run = |kernel: Kernel<u64>, sources: usize, (count, width): (usize, usize), len: usize| {
            let mut to = vec![Lines([0xa5; 448]); count];
            let mut outputs = [std::ptr::null_mut(); MAX_OUTPUTS];
            outputs.iter_mut().zip(&mut to).for_each(|(pointer, to)| *pointer = to.0.as_mut_ptr());
            let pointers: Vec<_> = (0..sources).map(|s| memory[s * 400 + s * 7 % 64..].as_ptr()).collect();
            let start = std::array::from_fn(|o| match o % 3 {
                2 => std::ptr::null(),
                _ => memory[(20 + o) * 400 + o..].as_ptr(),
            });
            // SAFETY: every buffer is 400 bytes long and begins less than 64 bytes later, so that
            // it is valid for the length; outputs begin a line.
            unsafe {
                kernel(&Job {
                    sources: &pointers,
                    rest: &[],
                    coefficients: &coefficients[..sources * width],
                    first_is_plain: false,
                    start: Some(&start),
                    solution: &coefficients[..count * count],
                    taken: 0b11,
                    outputs: &outputs,
                    len,
                });
            }
            to
        };
        let shapes = (1..=MAX_OUTPUTS).flat_map(|outputs| [(outputs, false), (outputs, true)]);
        for (kind, (outputs, ones)) in [Kind::Zen4, Kind::Zen5, Kind::IceLake]
            .into_iter()
            .flat_map(|kind| shapes.clone().map(move |shape| (kind, shape)))
        {
            let summing = |reads| Summing { outputs, ones, reads };
            let solving = |last_by_sum, has_zeros, reads| crate::engine::Solving {
                outputs,
                ones,
                last_by_sum,
                has_zeros,
                reads,
            };
            let (sum_by_visits, solution_by_visits) = on(Kind::SapphireRapids, || {
                let solution = [false, true]
                    .map(|last_by_sum| engine.solving_kernel(false, solving(last_by_sum && ones, false, 17)));
                (engine.kernel(false, summing(17)), solution)
            });
            let by_visits = |last_by_sum| solution_by_visits[usize::from(last_by_sum)];
            let (far_solving, near_solving, far, near, group) = on(kind, || {
                let far_solving = [(false, false), (false, ones), (true, false), (true, ones)].map(
                    |(streaming, last_by_sum)| {
                        let shape = solving(last_by_sum, false, 17);
                        engine.far_solving_kernel(streaming, shape).zip(by_visits(last_by_sum))
                    },
                );
                let near_solving = [false, ones].map(|last_by_sum| {
                    [(2, false), (2, true), (17, false), (17, true)].map(|(reads, has_zeros)| {
                        let near = engine.solving_kernel(false, solving(last_by_sum, has_zeros, reads));
                        near.zip(by_visits(last_by_sum))
                    })
                });
                let far = [false, true].map(|streaming| engine.far_kernel(streaming, summing(17)));
                let near = [2, 17].map(|reads| Some(engine.kernel(false, summing(reads))));
                let with_other = |kernel: Option<_>| kernel.zip(Some(sum_by_visits));
                let group = with_other(engine.group_kernel(summing(17)));
                (far_solving, near_solving, far.map(with_other), near.map(with_other), group)
            });
            let wanted = match kind {
                Kind::Zen4 => ([outputs > 2, false], true, [outputs == 3 || outputs == 4, false]),
                Kind::IceLake => {
                    ([outputs > 2, true], false, [3..=4, 2..=4].map(|some| some.contains(&outputs)))
                }
                _ => (
                    [2..=4, 1..=4].map(|some| some.contains(&outputs)),
                    false,
                    [(2..=4).contains(&outputs); 2],
                ),
            };
            let found =
                (far.map(|far| far.is_some()), group.is_some(), [0, 2].map(|s| far_solving[s].is_some()));
            assert_eq!(found, wanted, "{kind:?}, {outputs} outputs");
            let all = far_solving.into_iter().chain(near_solving.into_iter().flatten());
            for (kernel, other) in all.chain(far).chain(near).chain([group]).flatten() {
                // Every small number of sources, for kernels that are unrolled for each.
                for (sources, step) in [(1, 1), (2, 1), (17, 1)].into_iter().chain((3..=13).map(|s| (s, 47)))
                {
                    for len in (0..330).step_by(step) {
                        let shape = (outputs, outputs - usize::from(ones));
                        let what = format!("{sources} sources, {outputs} outputs, ones {ones}, {len} bytes");
                        let (found, wanted) =
                            (run(kernel, sources, shape, len), run(other, sources, shape, len));
                        assert!(found == wanted, "{what} on {kind:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn kernels_suit_where_their_streams_are() {
        let kernels_of_rows =
            |few: FewStreams, rows: &Rows, sources: usize, len: usize, pitch: usize, streaming: bool| {
                let schedule = Schedule::new(SaysWho(few), rows);
                calls(pitch, |at| {
                    let (source, output) = (|s| at(s).cast_const(), |o| at(sources + o));
                    // SAFETY: the kernels of this engine touch nothing, and no pointer is moved but
                    // by wrapping.
                    unsafe { schedule.run(Mode::Apply, streaming, source, output, len) };
                })
            };
        let kernels_of = |few: FewStreams, sources: usize, len: usize, pitch: usize, streaming: bool| {
            kernels_of_rows(few, &dense(sources, 3), sources, len, pitch, streaming)
        };
        let kernels =
            |sources, len, pitch, streaming| kernels_of(FEW_STREAMS, sources, len, pitch, streaming);
        let apart = |len: usize| len + 256;
        assert_eq!(kernels(10, 3 << 15, apart(3 << 15), false), ["far"]);
        assert_eq!(kernels(9, 3 << 15, apart(3 << 15), false), ["cached"], "few");
        assert_eq!(kernels(14, 1 << 16, 1 << 16, false), ["cached"], "not apart");
        assert_eq!(kernels(14, 1 << 15, apart(1 << 15), false), ["cached"], "stay in the second cache");
        assert_eq!(kernels(65, 1 << 10, apart(1 << 10), false), ["cached"; 2], "more than one call takes");
        assert_eq!(kernels(16, 1 << 16, apart(1 << 16), true), ["far past"]);
        assert_eq!(kernels(9, 3 << 15, apart(3 << 15), true), ["past"], "few");
        assert_eq!(kernels(17, 1 << 16, apart(1 << 16), true), ["group", "past"]);
        assert_eq!(kernels(14, 1 << 16, 1 << 16, true), ["group", "past"], "not apart");
        assert_eq!(kernels(16, 1 << 16, (1 << 16) + 272, true), ["far"], "not aligned");
        assert_eq!(kernels(17, 1 << 16, (1 << 16) + 272, true), ["group", "cached"], "not aligned");
        assert_eq!(kernels(24, 1 << 17, 1 << 17, true), ["group", "group", "past"].repeat(2), "two tiles");
        let doubling = |most_apart_doubling, sources: usize| {
            let few = FewStreams { most_apart_doubling, ..FEW_STREAMS };
            let rows = ones_and_powers(sources, true);
            kernels_of_rows(few, &rows, sources, 1 << 16, apart(1 << 16), true)
        };
        assert_eq!(doubling(16, 16), ["doubles past"]);
        assert_eq!(doubling(16, 17), ["doubles", "doubles past"]);
        assert_eq!(doubling(13, 14), ["doubles", "doubles past"], "follows fewer while it doubles");
        assert_eq!(doubling(13, 13), ["doubles past"]);
        let followed =
            FewStreams { most: usize::MAX, ways: [12, 13], most_far_bytes: 20 << 16, ..FEW_STREAMS };
        assert_eq!(kernels_of(followed, 17, 1 << 16, apart(1 << 16), true), ["far past"], "never groups");
        assert_eq!(kernels_of(followed, 18, 1 << 16, apart(1 << 16), true), ["past"], "farther");
        assert_eq!(kernels_of(followed, 18, 1 << 16, apart(1 << 16), false), ["cached"], "farther");
        assert_eq!(kernels_of(followed, 12, 1 << 16, 1 << 16, false), ["far"], "no more than ways");
        assert_eq!(kernels_of(followed, 13, 1 << 16, 1 << 16, false), ["cached"], "more than ways");
        assert_eq!(kernels_of(followed, 13, 1 << 16, 1 << 16, true), ["far past"], "no more than ways");
        assert_eq!(kernels_of(followed, 14, 1 << 16, 1 << 16, true), ["past"], "more than ways");
    }

    fn passes(rows: &Rows) -> Vec<Vec<usize>> {
        let mut passes = clusters(Scalar, rows);
        passes.sort_unstable();
        passes
    }

    #[test]
    fn dense_rows_share_passes_of_even_size() {
        assert_eq!(passes(&dense(10, 4)), [vec![0, 1, 2, 3]]);
        assert_eq!(passes(&dense(10, 9)), [vec![0, 1, 2, 3], vec![4, 5, 6, 7, 8]]);
    }

    #[test]
    fn rows_over_different_sources_do_not_share_a_pass() {
        let ones = |sources: &[usize]| sources.iter().map(|&s| (s, 1)).collect::<Vec<_>>();
        assert_eq!(passes(&vec![ones(&[0, 1]), ones(&[2, 3]), vec![], ones(&[1, 2])]), [[0], [1], [3]]);
        let q = vec![(0, 1), (1, 2), (2, 4), (3, 8)];
        assert_eq!(passes(&vec![ones(&[0, 1, 2, 3]), q.clone()]), [[0, 1]]);
        assert_eq!(passes(&vec![ones(&[4, 5, 6, 7]), q]), [[0], [1]]);
    }

    #[test]
    fn a_row_of_ones_over_the_whole_pass_comes_first_and_has_no_coefficients() {
        let pass = Pass::new(Scalar, &dense(5, 3), &[0, 1, 2]);
        assert_eq!(
            (pass.outputs.as_slice(), pass.width, pass.coefficients.len()),
            ([1, 0, 2].as_slice(), 2, 10)
        );
        let partial: Rows = vec![vec![(0, 1), (1, 1)], vec![(0, 3), (1, 5), (2, 7)]];
        let pass = Pass::new(Scalar, &partial, &[0, 1]);
        assert_eq!(
            (pass.width, pass.coefficients.as_slice()),
            (2, [1, 3, 0, 7, 1, 5].as_slice()),
            "sources 0, 2, 1"
        );
    }
}
