//! The additive FFT of four or eight points over columns: what lets a Reed-Solomon code whose
//! points lie in cosets of a subspace do with a fraction of the products of a dense matrix.
//!
//! Columns are taken in *groups* of T = 4 or 8, the values of a polynomial of degree less than T at
//! y + 0, y + 1, y + b, y + b + 1 (and the same with b' added). log2 T levels of T / 2 butterflies,
//! (lo, hi) -> (lo + f (lo + hi), lo + hi), turn them into its coefficients in the basis of Lin,
//! Chung and Han: 1, X, X^2 + X, X (X^2 + X) for T = 4. That is a product for a column where T = 4,
//! and three for two columns where T = 8. The coefficients of all groups add up to T *states*, in
//! registers; every column is read once. Outputs are the values of the states at the points of the
//! *origin*, the coset of 0, or rows of coefficients of the states: what is lost.
//!
//! Nothing here relies on what the points are: any factors are carried out as told above, and
//! [`Fft::expanded`] is what they come to. Kernels want those of the origin as they are in a Cantor
//! basis, b^2 + b = 1 and b'^2 + b' = b: most are zero then.

use std::mem::MaybeUninit;
use std::ops::Range;

use crate::engine::{Engine, MAX_SOURCES};
use crate::portable::product;
use crate::scratch::with_scratch;
use crate::terms::{Groups, SUMS_BYTES, WIDE, are_lost, groups_that_gain};

/// Points of a group, and states, at most.
pub(crate) const POINTS_MOST: usize = 8;

/// The same of a group whose states can be solved.
pub(crate) const POINTS: usize = 4;

/// Factors of a group: of level 0, half as many as points, then of each level half as many.
const FACTORS_MOST: usize = POINTS_MOST - 1;

/// States of columns, and what is made of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fft {
    /// Points of each group: 4 or 8. What a group has beyond is not looked at.
    pub points: usize,
    /// The columns.
    pub groups: Vec<FftGroup>,
    /// Columns at the origin, and its factors, which [`FftOutputs::Values`] have, too.
    pub origin: FftGroup,
    /// What the states become.
    pub outputs: FftOutputs,
}

/// Columns side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FftGroup {
    /// The buffers, point by point; `None` is a column of zeros.
    pub columns: [Option<usize>; POINTS_MOST],
    /// The factors of butterflies, level by level. Those of level 0 are of neighbours; each later
    /// one is of pairs that lie twice as far apart as those before.
    pub factors: [u8; FACTORS_MOST],
}

/// What becomes of the states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FftOutputs {
    /// The values at the points of the origin, of those that have a buffer.
    Values([Option<usize>; POINTS_MOST]),
    /// Buffers, no more than points, each with its coefficient of each state.
    Solved(Vec<(usize, [u8; POINTS_MOST])>),
}

/// The butterflies of a group of so many points, from level 0 on: the places of lo and hi, and
/// which factor.
pub(crate) fn butterflies(points: usize) -> impl DoubleEndedIterator<Item = (usize, usize, usize)> {
    (0..points.ilog2()).flat_map(move |level| {
        let (distance, first_factor) = (1 << level, points - (points >> level));
        let places = (0..points).filter(move |place| place & distance == 0);
        places.map(move |lo| (lo, lo + distance, first_factor + (lo >> (level + 1))))
    })
}

impl Fft {
    /// Groups, the origin last.
    fn all_groups(&self) -> impl Iterator<Item = &FftGroup> {
        self.groups.iter().chain([&self.origin])
    }

    /// What a column of a group adds to each state.
    fn states_of(&self, group: &FftGroup, column: usize) -> [u8; POINTS_MOST] {
        let mut states = std::array::from_fn(|i| u8::from(i == column));
        for (lo, hi, factor) in butterflies(self.points) {
            states[hi] ^= states[lo];
            states[lo] ^= product(group.factors[factor], states[hi]);
        }
        states
    }

    /// The values at the origin, each with its coefficient of each state.
    fn values(&self) -> [[u8; POINTS_MOST]; POINTS_MOST] {
        let mut rows: [[u8; POINTS_MOST]; POINTS_MOST] =
            std::array::from_fn(|i| std::array::from_fn(|state| u8::from(i == state)));
        for (lo, hi, factor) in butterflies(self.points).rev() {
            for state in 0..self.points {
                rows[lo][state] ^= product(self.origin.factors[factor], rows[hi][state]);
                rows[hi][state] ^= rows[lo][state];
            }
        }
        rows
    }

    /// Each output and its coefficient of each state.
    fn rows(&self) -> Vec<(usize, [u8; POINTS_MOST])> {
        match &self.outputs {
            FftOutputs::Solved(rows) => rows.clone(),
            FftOutputs::Values(buffers) => {
                let values = buffers[..self.points].iter().zip(self.values());
                values.filter_map(|(buffer, row)| Some(((*buffer)?, row))).collect()
            }
        }
    }

    /// Each output over the columns: what the states come to.
    pub fn expanded(&self) -> Vec<(usize, Vec<(usize, u8)>)> {
        let over = |row: [u8; POINTS_MOST]| {
            let of_group = |group: &FftGroup| {
                let columns = group.columns[..self.points].iter().enumerate();
                let of_column = |(i, buffer): (usize, &Option<usize>)| {
                    let states = self.states_of(group, i).into_iter().zip(row);
                    Some(((*buffer)?, states.take(self.points).fold(0, |sum, (a, c)| sum ^ product(a, c))))
                };
                columns.filter_map(of_column).collect::<Vec<_>>()
            };
            self.all_groups().flat_map(of_group).collect()
        };
        self.rows().into_iter().map(|(output, row)| (output, over(row))).collect()
    }

    /// The buffers that are read.
    pub(crate) fn reads(&self) -> impl Iterator<Item = usize> {
        self.all_groups().flat_map(|group| &group.columns[..self.points]).flatten().copied()
    }

    /// The buffers that are written.
    pub(crate) fn writes(&self) -> impl Iterator<Item = usize> {
        let (values, rows): (&[Option<usize>], &[_]) = match &self.outputs {
            FftOutputs::Values(buffers) => (&buffers[..self.points], &[]),
            FftOutputs::Solved(rows) => (&[], rows),
        };
        values.iter().flatten().copied().chain(rows.iter().map(|row| row.0))
    }

    /// Whether it has 4 or 8 points.
    pub(crate) fn has_points(&self) -> bool {
        matches!(self.points, 4 | 8)
    }

    /// Whether there are outputs, and no more than states.
    pub(crate) fn has_outputs(&self) -> bool {
        (1..=self.points).contains(&self.writes().count())
    }

    /// The factors of the origin that are not zero, if they are those of a Cantor basis: b, and of
    /// eight points b' and b' + b as well.
    fn origin_factors(&self) -> Option<&[u8]> {
        match (self.points, &self.origin.factors) {
            (4, [0, _, 0, ..]) => Some(&self.origin.factors[1..2]),
            (8, &[0, b, c, d, 0, e, 0]) if d == b ^ c && e == b => Some(&self.origin.factors[1..4]),
            _ => None,
        }
    }
}

/// What a kernel makes of the states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    /// They are stored as they are.
    States,
    /// Their values.
    Values,
    /// Rows of coefficients; of four points.
    Rows,
    /// Four rows, the last of which is what the others leave of the last state and has no
    /// coefficients.
    RowsAndWhatIsLeft,
}

/// Where a kernel reads a column: `mask` is all ones, and at zeros, of which there are only as many
/// as a visit reads, nothing.
#[derive(Clone, Copy)]
pub(crate) struct Column {
    base: *const u8,
    mask: usize,
}

/// Bytes of a column that a visit reads at most.
pub(crate) const VISIT_BYTES_MOST: usize = 512;

#[repr(align(64))]
struct Zeros([u8; VISIT_BYTES_MOST]);

static ZEROS: Zeros = Zeros([0; VISIT_BYTES_MOST]);

impl Column {
    const ZERO: Column = Column { base: ZEROS.0.as_ptr(), mask: 0 };

    fn new(buffer: Option<*mut u8>) -> Column {
        buffer.map_or(Column::ZERO, |base| Column { base: base.cast_const(), mask: !0 })
    }

    /// Where to read what is at `at`.
    #[inline(always)]
    pub(crate) fn at(self, at: usize) -> *const u8 {
        self.base.wrapping_add(at & self.mask)
    }
}

/// Carries out one job.
///
/// # Safety
///
/// Columns that are not zeros and pointers that are not null where they may be are valid for `len`
/// bytes, those of `outputs` for writes; these overlap nothing, except that `start` may be
/// `outputs`. They are aligned to [`Engine::STREAM_ALIGN_BYTES`] if the kernel stores past the
/// cache. The machine has the engine that made the kernel, and the job has its points, and what it
/// finishes.
pub(crate) type FftKernel<C> = unsafe fn(&FftJob<'_, C>);

/// What a kernel of T points is given.
pub(crate) struct FftJob<'a, C> {
    /// T columns of each group.
    pub(crate) wholes: &'a [Column],
    /// T - 1 of each, as in [`FftGroup`].
    pub(crate) whole_factors: &'a [C],
    /// T / 2 columns of each group that has no others.
    pub(crate) halves: &'a [Column],
    /// T / 2 - 1 of each, as of a group of so many points, and then that by which its coefficients
    /// go into the first half of the states: that of the last level, and 1 more for the first half
    /// of a group.
    pub(crate) half_factors: &'a [C],
    /// The four at the origin, if there are any; of four points.
    pub(crate) at_origin: Option<&'a [Column; POINTS]>,
    /// The factors of the origin that are not zero.
    pub(crate) origin_factors: &'a [C],
    /// The states so far; `None`: zeros.
    pub(crate) start: Option<&'a [*const u8; POINTS_MOST]>,
    /// T for states and for values, of which those may be null; else one for each row.
    pub(crate) outputs: &'a [*mut u8],
    /// Row by row, its coefficient of each of four states.
    pub(crate) solution: &'a [[C; POINTS]],
    /// Bytes of every buffer.
    pub(crate) len: usize,
}

/// Compiled for an engine.
pub(crate) struct Butterflies<E: Engine> {
    engine: E,
    points: usize,
    /// Leave states.
    states: FftKernel<E::Coefficient>,
    /// Through the cache and past it; the same for columns that lie far.
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

impl<E: Engine> Butterflies<E> {
    /// `None` if the engine has no kernels for it.
    pub(crate) fn new(engine: E, fft: &Fft) -> Option<Box<Butterflies<E>>> {
        assert!(fft.has_points() && fft.has_outputs(), "whoever compiles it looks at its shape first");
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
        // Eight points are encoded only.
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
                // Of each level but the last, those of this half.
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

    /// Groups with columns in one half or in both.
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
                // Those that are null stay so.
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
                    // apart, and the part before wrote what is read of it.
                    unsafe { self.run_part(kernel, part, |i| buffer(i).wrapping_add(at)) };
                }
            }
        });
    }

    /// One kernel call over groups of at most [`MAX_SOURCES`] columns.
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
        // Those with columns in both halves come first.
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

/// What one kernel call does.
struct Part<'a> {
    groups: Range<usize>,
    start: Option<&'a [*const u8; POINTS_MOST]>,
    /// Whether it makes the outputs, and reads what is at the origin.
    is_last: bool,
    outputs: &'a [*mut u8],
    len: usize,
}

/// What those groups have of a list with so much for each.
fn some<'a, T>(list: &'a [T], groups: &Range<usize>, each: usize) -> &'a [T] {
    &list[groups.start * each..groups.end * each]
}

/// The columns of so many buffers, in a place for them.
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

impl<E: Engine> std::fmt::Debug for Butterflies<E> {
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
    //! Columns some at a time, as on processors that follow few streams, and past the cache, give
    //! what the steps give.

    use super::*;
    use crate::arch::x86_64::{Kind, tests::on};
    use crate::{Dot, Tier};

    /// b and b' of the field: b^2 + b = 1, b'^2 + b' = b.
    const BASIS: [u8; 2] = [214, 152];

    fn origin(points: usize) -> FftGroup {
        let [b, c] = BASIS;
        let factors = if points == 4 { [0, b, 0, 0, 0, 0, 0] } else { [0, b, c, c ^ b, 0, b, 0] };
        FftGroup { columns: [None; POINTS_MOST], factors }
    }

    /// So many groups, of which every third lacks a column and every fifth a half; values, or so
    /// many rows.
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
        let Some(engine) = crate::arch::x86_64::avx2::Avx2::new() else {
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
