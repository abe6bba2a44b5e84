//! The kernels of additive FFTs, called for any number of columns, in caches or in memory.
//!
//! Groups of columns are processed together as long as the processor follows that many streams.
//! Otherwise the states of a tile are kept in scratch, like the sums of [`crate::terms`].

use std::mem::MaybeUninit;
use std::ops::Range;

use crate::engine::MAX_SOURCES;
use crate::fft::{
    Column, Fft, FftEngine, FftGroup, FftJob, FftKernel, FftOutputs, Finish, POINTS, POINTS_MOST,
};
use crate::scratch::with_scratch;
use crate::streams::Groups;
use crate::terms::{SUMS_BYTES, WIDE, are_lost, groups_that_gain};

/// An additive FFT compiled for an engine.
pub(crate) struct Butterflies<E: FftEngine> {
    engine: E,
    points: usize,
    /// The kernel that leaves states.
    states: FftKernel<E::Coefficient>,
    /// The kernels that store results through the cache and past it; then the same for far columns.
    finish: [FftKernel<E::Coefficient>; 2],
    far: [Option<FftKernel<E::Coefficient>>; 2],
    /// As in [`FftJob`].
    wholes: Vec<Option<usize>>,
    whole_factors: Vec<E::Coefficient>,
    halves: Vec<Option<usize>>,
    half_factors: Vec<E::Coefficient>,
    at_origin: [Option<usize>; POINTS],
    origin_factors: Vec<E::Coefficient>,
    outputs: [Option<usize>; POINTS_MOST],
    rows: usize,
    solution: Vec<[E::Coefficient; POINTS]>,
    reads: usize,
}

impl<E: FftEngine> Butterflies<E> {
    /// Compiles an FFT; `None` if the engine has no kernels for it.
    pub(crate) fn new(engine: E, fft: &Fft) -> Option<Box<Butterflies<E>>> {
        assert!(fft.has_points() && fft.has_outputs(), "the caller checks the shape of the FFT");
        let points = fft.points;
        let half = points / 2;
        let mut outputs = [None; POINTS_MOST];
        let mut solution = Vec::new();
        let (finish, rows) = match &fft.outputs {
            FftOutputs::Values(buffers) => {
                outputs = *buffers;
                (Finish::Values, points)
            }
            FftOutputs::Solved(rows) => {
                outputs.iter_mut().zip(rows).for_each(|(output, row)| *output = Some(row.0));
                let of_four = |row: &[u8; POINTS_MOST]| [row[0], row[1], row[2], row[3]];
                let total = rows.iter().fold([0; POINTS], |total, (_, row)| {
                    std::array::from_fn(|state| total[state] ^ row[state])
                });
                let is_left = rows.len() == POINTS && total == [0, 0, 0, 1];
                let solved = &rows[..rows.len() - usize::from(is_left)];
                solution.extend(solved.iter().map(|(_, row)| of_four(row).map(E::coefficient)));
                (if is_left { Finish::RowsAndWhatIsLeft } else { Finish::Rows }, rows.len())
            }
        };
        let columns_at_origin = &fft.origin.columns[..points];
        // With eight points there are only encoders.
        if points != POINTS && (finish != Finish::Values || columns_at_origin.iter().any(Option::is_some)) {
            return None;
        }
        let (mut wholes, mut whole_factors) = (
            Vec::with_capacity(points * fft.groups.len()),
            Vec::with_capacity((points - 1) * fft.groups.len()),
        );
        let (mut halves, mut half_factors) = (Vec::new(), Vec::new());
        for FftGroup { columns, factors } in &fft.groups {
            let (columns, factors) = (&columns[..points], &factors[..points - 1]);
            let is_there = [&columns[..half], &columns[half..]].map(|half| half.iter().any(Option::is_some));
            if is_there == [true; 2] {
                wholes.extend_from_slice(columns);
                whole_factors.extend(factors.iter().map(|&factor| E::coefficient(factor)));
            } else if let Some(second) = is_there.iter().position(|&is_there| is_there) {
                halves.extend_from_slice(&columns[second * half..][..half]);
                // Of each level except the last, the factors of this half.
                let mut level = factors;
                for width in (1..points.ilog2()).rev().map(|level| 1 << level) {
                    let (of_level, others) = level.split_at(width);
                    half_factors.extend(
                        of_level[second * width / 2..][..width / 2].iter().map(|&f| E::coefficient(f)),
                    );
                    level = others;
                }
                half_factors.push(E::coefficient(level[0] ^ u8::from(second == 0)));
            }
        }
        let kernel = |streaming, finish| engine.fft_kernel(streaming, points, finish);
        Some(Box::new(Butterflies {
            engine,
            points,
            states: kernel(false, Finish::States)?,
            finish: [kernel(false, finish)?, kernel(true, finish)?],
            far: [false, true].map(|streaming| engine.far_fft_kernel(streaming, points, finish)),
            wholes,
            whole_factors,
            halves,
            half_factors,
            at_origin: std::array::from_fn(|i| columns_at_origin[i]),
            origin_factors: fft.origin_factors()?.iter().map(|&factor| E::coefficient(factor)).collect(),
            outputs,
            rows,
            solution,
            reads: fft.reads().count(),
        }))
    }

    /// Returns the number of groups with columns in one half or in both.
    fn groups(&self) -> usize {
        self.wholes.len() / self.points + self.halves.len() / (self.points / 2)
    }

    /// Computes every output.
    ///
    /// # Safety
    ///
    /// Every buffer is valid for reads, outputs for writes of `len` bytes; outputs overlap nothing.
    #[inline]
    pub(crate) unsafe fn run(&self, streaming: bool, buffer: impl Fn(usize) -> *mut u8, len: usize) {
        let outputs = self.outputs.map(|output| output.map_or(std::ptr::null_mut(), &buffer));
        let is_aligned = |output: &*mut u8| output.addr().is_multiple_of(E::STREAM_ALIGN_BYTES);
        let streaming = streaming && outputs.iter().all(is_aligned);
        let sources = || {
            let columns = self.wholes.iter().chain(&self.halves).chain(&self.at_origin);
            columns.flatten().map(|&i| buffer(i).cast_const())
        };
        let gain = || groups_that_gain(self.engine, streaming, false, self.reads, sources(), len);
        let is_too_long = self.groups() > MAX_SOURCES / self.points;
        match if streaming { gain() } else { None }.or(is_too_long.then_some(WIDE)) {
            // SAFETY: the caller's promise.
            Some(tiles) => unsafe { self.run_tiles(tiles, streaming, outputs, buffer, len) },
            None => {
                let streams = self.reads + self.rows;
                let are_lost = || are_lost(self.engine, streaming, self.reads, streams, sources(), len);
                let far = self.far[usize::from(streaming)].filter(|_| are_lost());
                let kernel = far.unwrap_or(self.finish[usize::from(streaming)]);
                let outputs = &outputs[..self.rows];
                let part = Part { groups: 0..self.groups(), start: None, is_last: true, outputs, len };
                // SAFETY: the caller's promise; the columns are at most MAX_SOURCES.
                unsafe { self.run_part(kernel, part, buffer) };
            }
        }
        if streaming {
            self.engine.fence();
        }
    }

    /// Sweeps over tiles, some groups at a time, with states in scratch.
    ///
    /// # Safety
    ///
    /// As [`Butterflies::run`].
    #[inline(never)]
    unsafe fn run_tiles(
        &self,
        tiles: Groups,
        streaming: bool,
        outputs: [*mut u8; POINTS_MOST],
        buffer: impl Fn(usize) -> *mut u8,
        len: usize,
    ) {
        let at_once = (tiles.reads / self.points).max(1);
        let count = self.groups().div_ceil(at_once).max(1);
        let tile = tiles.tile_bytes.min(SUMS_BYTES / self.points);
        with_scratch(0, self.points * tile, |_, lines| {
            let first = lines.as_mut_ptr().cast::<u8>();
            // Pointers past the states are never used.
            let states: [*mut u8; POINTS_MOST] = std::array::from_fn(|i| first.wrapping_add(i * tile));
            let so_far = states.map(|state| state.cast_const());
            for at in (0..len).step_by(tile) {
                let n = tile.min(len - at);
                // Null pointers stay null.
                let outputs =
                    outputs.map(|output| if output.is_null() { output } else { output.wrapping_add(at) });
                for g in 0..count {
                    let is_last = g + 1 == count;
                    let part = Part {
                        groups: self.groups().min(g * at_once)..self.groups().min((g + 1) * at_once),
                        start: (g > 0).then_some(&so_far),
                        is_last,
                        outputs: if is_last { &outputs[..self.rows] } else { &states[..self.points] },
                        len: n,
                    };
                    let kernel = if is_last { self.finish[usize::from(streaming)] } else { self.states };
                    // SAFETY: the caller's promise, for n bytes from `at`; scratch is ours and
                    // apart, and the part before wrote all of it that is read.
                    unsafe { self.run_part(kernel, part, |i| buffer(i).wrapping_add(at)) };
                }
            }
        });
    }

    /// Makes one kernel call, over groups of at most [`MAX_SOURCES`] columns.
    ///
    /// # Safety
    ///
    /// As [`FftKernel`].
    #[inline]
    unsafe fn run_part(
        &self,
        kernel: FftKernel<E::Coefficient>,
        part: Part<'_>,
        buffer: impl Fn(usize) -> *mut u8,
    ) {
        let (points, half) = (self.points, self.points / 2);
        // Groups with columns in both halves come first.
        let count = self.wholes.len() / points;
        let wholes = part.groups.start.min(count)..part.groups.end.min(count);
        let halves = part.groups.start - wholes.start..part.groups.end - wholes.end;
        let mut whole_columns = [MaybeUninit::uninit(); MAX_SOURCES];
        let mut half_columns = [MaybeUninit::uninit(); MAX_SOURCES];
        let at_origin = self.at_origin.map(|i| Column::new(i.map(&buffer)));
        let has_origin = part.is_last && self.at_origin != [None; POINTS];
        let job = FftJob {
            wholes: written(&mut whole_columns, some(&self.wholes, &wholes, points), &buffer),
            whole_factors: some(&self.whole_factors, &wholes, points - 1),
            halves: written(&mut half_columns, some(&self.halves, &halves, half), &buffer),
            half_factors: some(&self.half_factors, &halves, half),
            at_origin: has_origin.then_some(&at_origin),
            origin_factors: &self.origin_factors,
            start: part.start,
            outputs: part.outputs,
            solution: &self.solution,
            len: part.len,
        };
        // SAFETY: the caller's promise.
        unsafe { kernel(&job) };
    }
}

/// The work of one kernel call.
struct Part<'a> {
    groups: Range<usize>,
    start: Option<&'a [*const u8; POINTS_MOST]>,
    /// True if the call writes the outputs and reads the columns at the origin.
    is_last: bool,
    outputs: &'a [*mut u8],
    len: usize,
}

/// Returns the entries of some groups in a list with `each` entries for every group.
fn some<'a, T>(list: &'a [T], groups: &Range<usize>, each: usize) -> &'a [T] {
    &list[groups.start * each..groups.end * each]
}

/// Writes the columns of some buffers to a list of the caller.
fn written<'a>(
    place: &'a mut [MaybeUninit<Column>; MAX_SOURCES],
    buffers: &[Option<usize>],
    buffer: impl Fn(usize) -> *mut u8,
) -> &'a [Column] {
    let place = &mut place[..buffers.len()];
    for (place, i) in place.iter_mut().zip(buffers) {
        place.write(Column::new(i.map(&buffer)));
    }
    // SAFETY: the loop wrote every element of the slice, and MaybeUninit<T> has the layout of T.
    unsafe { &*(&raw const *place as *const [Column]) }
}

impl<E: FftEngine> std::fmt::Debug for Butterflies<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Butterflies { points, wholes, halves, outputs, .. } = self;
        let named = [("wholes", wholes), ("halves", halves)];
        let mut shown = f.debug_struct("Butterflies");
        shown.field("points", points).field("outputs", outputs);
        named.into_iter().for_each(|(name, columns)| {
            shown.field(name, columns);
        });
        shown.finish_non_exhaustive()
    }
}

#[cfg(all(test, target_arch = "x86_64", not(miri)))]
mod tests {
    //! Checks that processing some columns at a time (as on processors that follow few streams) and
    //! storing past the cache give the results of the steps.

    use super::*;
    use crate::arch::x86_64::cpu::{Kind, tests::on};
    use crate::fft::FACTORS_MOST;
    use crate::{Dot, Tier};

    /// b and b' of the field: b^2 + b = 1, b'^2 + b' = b.
    const BASIS: [u8; 2] = [214, 152];

    fn origin(points: usize) -> FftGroup {
        let [b, c] = BASIS;
        let factors = if points == 4 { [0, b, 0, 0, 0, 0, 0] } else { [0, b, c, c ^ b, 0, b, 0] };
        FftGroup { columns: [None; POINTS_MOST], factors }
    }

    /// Returns an FFT of `groups` groups, of which every third lacks a column and every fifth lacks
    /// a half. Its outputs are the values, or `rows` rows.
    fn fft(points: usize, groups: usize, rows: Option<usize>) -> Fft {
        let column = |g: usize, i: usize| match (g % 3, g % 5) {
            (2, _) if i == 1 => None,
            (_, 4) if i >= points / 2 => None,
            (_, 3) if i < points / 2 => None,
            _ => (i < points).then_some(points * g + i),
        };
        let group = |g: usize| FftGroup {
            columns: std::array::from_fn(|i| column(g, i)),
            factors: std::array::from_fn(|i| (g * 4 + i * 57 + 8) as u8),
        };
        let first = points * groups;
        let output = |o: usize| first + POINTS + o;
        let outputs = match rows {
            None => FftOutputs::Values(std::array::from_fn(|i| (i != 5 && i < points).then_some(output(i)))),
            Some(rows) => {
                let row = |o: usize| std::array::from_fn(|i| (o * 31 + i * 7) as u8 | 2);
                let mut rows: Vec<_> = (0..rows).map(|o| (output(o), row(o))).collect();
                if let [a, b, c, d] = &mut rows[..] {
                    d.1 = std::array::from_fn(|i| u8::from(i == 3) ^ a.1[i] ^ b.1[i] ^ c.1[i]);
                }
                FftOutputs::Solved(rows)
            }
        };
        let columns = std::array::from_fn(|i| (rows.is_some() && i != 1 && i < POINTS).then_some(first + i));
        let origin = FftGroup { columns, ..origin(points) };
        Fft { points, groups: (0..groups).map(group).collect(), origin, outputs }
    }

    #[test]
    fn every_way_gives_the_same() {
        let sizes = [(0, 300), (1, 64), (2, 1_000), (5, 17_000), (6, 70_001), (21, 20_032)];
        let made = [(4, None), (4, Some(3)), (4, Some(4)), (8, None)];
        for ((groups, len), (points, rows)) in
            sizes.into_iter().flat_map(|size| made.map(|made| (size, made)))
        {
            let fft = fft(points, groups, rows);
            let buffers = points * groups + POINTS + points;
            let pitch = usize::next_multiple_of(len, 64) + 64;
            let painted: Vec<u8> = (0..buffers * pitch + 64).map(|i| (i * 11 + i / 253) as u8).collect();
            let expanded = fft.expanded();
            let sources: Vec<&[u8]> = (0..buffers).map(|i| &painted[i * pitch..][..len]).collect();
            let terms: Vec<_> = expanded.iter().map(|(_, terms)| terms.clone()).collect();
            let mut wanted = vec![vec![0; len]; expanded.len()];
            let mut views: Vec<&mut [u8]> = wanted.iter_mut().map(Vec::as_mut_slice).collect();
            Dot::with_tier(Tier::Portable, buffers, &terms).unwrap().apply(&sources, &mut views).unwrap();
            let tiers = Tier::available().into_iter().filter(|&tier| tier != Tier::Portable);
            for (tier, kind) in tiers.flat_map(|tier| Kind::ALL.map(|kind| (tier, kind))) {
                for streaming in [false, true] {
                    let mut memory = painted.clone();
                    let shift = memory.as_ptr().align_offset(64);
                    memory.copy_within(..buffers * pitch, shift);
                    let base = memory.as_mut_ptr().wrapping_add(shift);
                    on(kind, || {
                        let transform =
                            crate::dispatch::Transform::new(tier, &fft).expect("every tier has kernels");
                        // SAFETY: buffers lie in `memory`, apart from one another.
                        unsafe { transform.run(streaming, |i| base.wrapping_add(i * pitch), len) };
                    });
                    for ((output, _), wanted) in expanded.iter().zip(&wanted) {
                        let what = format!("{groups} groups of {points}, {len}, {rows:?}, output {output}");
                        let made = &memory[shift + output * pitch..][..len];
                        assert!(made == wanted, "{what}, {tier} on {kind:?}, streaming {streaming}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_group_of_one_half_is_a_half() {
        let Some(engine) = crate::arch::x86_64::Avx2::new() else {
            return println!("no AVX2: left out");
        };
        for points in [4, 8] {
            let half = points / 2;
            let group = |at: std::ops::Range<usize>| FftGroup {
                columns: std::array::from_fn(|i| at.contains(&i).then_some(i)),
                factors: [8; FACTORS_MOST],
            };
            let groups =
                vec![group(0..half), group(0..0), group(half + 1..points), group(half - 1..half + 1)];
            let outputs = FftOutputs::Values(std::array::from_fn(|i| (i == 0).then_some(8)));
            let fft = Fft { points, groups, origin: origin(points), outputs };
            let made = Butterflies::new(engine, &fft).unwrap();
            let columns = |at: &[std::ops::Range<usize>]| {
                let of_half = |at: &std::ops::Range<usize>| {
                    let at = at.clone();
                    let all = if at.end <= half { 0..half } else { half..points };
                    all.map(move |i| at.contains(&i).then_some(i))
                };
                at.iter().flat_map(of_half).collect::<Vec<_>>()
            };
            assert_eq!(made.halves, columns(&[0..half, half + 1..points]), "{points} points");
            assert_eq!(made.wholes, columns(&[half - 1..half, half..half + 1]), "{points} points");
        }
    }

    #[test]
    fn there_are_kernels_for_the_origin_of_a_cantor_basis_only() {
        let tier = Tier::available().into_iter().find(|&tier| tier != Tier::Portable);
        let Some(tier) = tier else { return println!("no tier has kernels: left out") };
        let has_kernels = |fft: &Fft| crate::dispatch::Transform::new(tier, fft).is_some();
        for points in [4, 8] {
            assert!(has_kernels(&fft(points, 2, None)));
            for i in 0..points - 1 {
                let mut other = fft(points, 2, None);
                other.origin.factors[i] ^= 1;
                assert_eq!(has_kernels(&other), points == 4 && i == 1, "{points} points, factor {i}");
            }
        }
        assert!(
            has_kernels(&fft(4, 2, Some(4))) && !has_kernels(&fft(8, 2, Some(4))),
            "eight are not solved"
        );
    }
}
