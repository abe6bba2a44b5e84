//! The additive FFT of four points over columns: what a Reed-Solomon code whose points lie in cosets of a subspace costs a quarter of a dense matrix by.
//!
//! Columns are taken in *groups* of four, the values of a polynomial of degree 3 at y, y + 1, y + b and y + b + 1 (b^2 + b = 1). Three factors (y, y + b and y^2 + y) and
//! four products turn them into its coefficients in the basis 1, X, X^2 + X, X (X^2 + X) of Lin, Chung and Han. The coefficients of all groups add up to four
//! *states*, in registers; every column is read once. Outputs are the values of the states at the points 0, 1, b and b + 1, for one product, or rows of
//! coefficients of the states: what is lost.
//!
//! Nothing here relies on what y and b are: any factors are carried out as the head says, and [`Fft::expanded`] is what they come to.

use std::mem::MaybeUninit;
use std::ops::Range;

use crate::engine::{Engine, MAX_SOURCES};
use crate::portable::product;
use crate::scratch::with_scratch;
use crate::terms::{Groups, SUMS_BYTES, WIDE, are_lost, groups_that_gain};

/// Points of a group, and states.
pub(crate) const POINTS: usize = 4;

/// Groups of one kernel call.
const GROUPS_MOST: usize = MAX_SOURCES / POINTS;

/// States of columns, and what is made of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fft {
    /// The columns.
    pub groups: Vec<FftGroup>,
    /// Columns at the points 0, 1, b and b + 1, where a coefficient costs less; `None` is a column of zeros.
    pub at_origin: [Option<usize>; POINTS],
    /// b, for these columns and for [`FftOutputs::Values`].
    pub factor: u8,
    /// What the states become.
    pub outputs: FftOutputs,
}

/// Four columns side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FftGroup {
    /// The buffers at y, y + 1, y + b and y + b + 1; `None` is a column of zeros.
    pub columns: [Option<usize>; POINTS],
    /// y, y + b, and y^2 + y.
    pub factors: [u8; 3],
}

/// What becomes of the states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FftOutputs {
    /// The values at the points 0, 1, b and b + 1, of those that have a buffer.
    Values([Option<usize>; POINTS]),
    /// At most four buffers, each with its coefficient of each state.
    Solved(Vec<(usize, [u8; POINTS])>),
}

impl FftGroup {
    /// What a column adds to each state.
    fn states_of(&self, column: usize) -> [u8; POINTS] {
        let v: [u8; POINTS] = std::array::from_fn(|i| u8::from(i == column));
        let [y, y_b, w] = self.factors;
        let (e1, o1) = (v[0] ^ v[1], v[2] ^ v[3]);
        let (e0, o0) = (v[0] ^ product(y, e1), v[2] ^ product(y_b, o1));
        let (a2, a3) = (e0 ^ o0, e1 ^ o1);
        [e0 ^ product(w, a2), e1 ^ product(w, a3), a2, a3]
    }
}

impl Fft {
    /// Columns and the factors of each group, those at the origin last.
    fn all_groups(&self) -> impl Iterator<Item = FftGroup> {
        let at_origin = FftGroup { columns: self.at_origin, factors: [0, self.factor, 0] };
        self.groups.iter().copied().chain([at_origin])
    }

    /// Each output and its coefficient of each state.
    fn rows(&self) -> Vec<(usize, [u8; POINTS])> {
        let b = self.factor;
        match &self.outputs {
            FftOutputs::Solved(rows) => rows.clone(),
            FftOutputs::Values(buffers) => {
                let rows = [[1, 0, 0, 0], [1, 1, 0, 0], [1, b, 1, b], [1, b ^ 1, 1, b ^ 1]];
                buffers.iter().zip(rows).filter_map(|(buffer, row)| Some(((*buffer)?, row))).collect()
            }
        }
    }

    /// Each output over the columns: what the states come to.
    pub fn expanded(&self) -> Vec<(usize, Vec<(usize, u8)>)> {
        let over = |row: [u8; POINTS]| {
            let of_group = |group: FftGroup| {
                let columns = group.columns.into_iter().enumerate();
                columns.filter_map(move |(i, buffer)| {
                    let states = group.states_of(i).into_iter().zip(row);
                    Some((buffer?, states.fold(0, |sum, (a, c)| sum ^ product(a, c))))
                })
            };
            self.all_groups().flat_map(of_group).collect()
        };
        self.rows().into_iter().map(|(output, row)| (output, over(row))).collect()
    }

    /// The buffers that are read.
    pub(crate) fn reads(&self) -> impl Iterator<Item = usize> {
        self.all_groups().flat_map(|group| group.columns).flatten()
    }

    /// The buffers that are written.
    pub(crate) fn writes(&self) -> impl Iterator<Item = usize> {
        let (values, rows): (&[Option<usize>], &[_]) = match &self.outputs {
            FftOutputs::Values(buffers) => (buffers, &[]),
            FftOutputs::Solved(rows) => (&[], rows),
        };
        values.iter().flatten().copied().chain(rows.iter().map(|row| row.0))
    }

    /// Whether there are outputs, and no more rows than states.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.writes().count(), 1..=POINTS)
    }
}

/// What a kernel makes of the states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    /// They are stored as they are.
    States,
    /// Their values.
    Values,
    /// Rows of coefficients.
    Rows,
    /// Four rows, the last of which is what the others leave of the last state and has no coefficients.
    RowsAndWhatIsLeft,
}

/// Where a kernel reads a column: `mask` is all ones, and at zeros, of which there are only as many as a visit reads, nothing.
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
/// Columns that are not zeros and pointers that are not null where they may be are valid for `len` bytes, those of `outputs` for writes; these overlap nothing, except that
/// `start` may be `outputs`. They are aligned to [`Engine::STREAM_ALIGN_BYTES`] if the kernel stores past the cache. The machine has the engine that made the kernel, and
/// the job what it finishes.
pub(crate) type FftKernel<C> = unsafe fn(&FftJob<'_, C>);

/// What a kernel is given.
pub(crate) struct FftJob<'a, C> {
    /// The columns of each group.
    pub(crate) quads: &'a [[Column; POINTS]],
    /// y, y + b and y^2 + y of each.
    pub(crate) quad_factors: &'a [[C; 3]],
    /// The columns of each group that has no others.
    pub(crate) pairs: &'a [[Column; 2]],
    /// y and y^2 + y + 1, or y + b and y^2 + y, of each.
    pub(crate) pair_factors: &'a [[C; 2]],
    /// Those at the origin, if there are any.
    pub(crate) at_origin: Option<&'a [Column; POINTS]>,
    /// b.
    pub(crate) factor: &'a C,
    /// The states so far; `None`: zeros.
    pub(crate) start: Option<&'a [*const u8; POINTS]>,
    /// Four for states and for values, of which those may be null; else one for each row.
    pub(crate) outputs: &'a [*mut u8],
    /// Row by row, its coefficient of each state.
    pub(crate) solution: &'a [[C; POINTS]],
    /// Bytes of every buffer.
    pub(crate) len: usize,
}

/// Compiled for an engine.
pub(crate) struct Butterflies<E: Engine> {
    engine: E,
    /// Leave states.
    states: FftKernel<E::Coefficient>,
    /// Through the cache and past it; the same for columns that lie far.
    finish: [FftKernel<E::Coefficient>; 2],
    far: [Option<FftKernel<E::Coefficient>>; 2],
    quads: Vec<[Option<usize>; POINTS]>,
    quad_factors: Vec<[E::Coefficient; 3]>,
    pairs: Vec<[Option<usize>; 2]>,
    pair_factors: Vec<[E::Coefficient; 2]>,
    at_origin: [Option<usize>; POINTS],
    factor: E::Coefficient,
    /// As in [`FftJob`].
    outputs: [Option<usize>; POINTS],
    rows: usize,
    solution: Vec<[E::Coefficient; POINTS]>,
    reads: usize,
}

impl<E: Engine> Butterflies<E> {
    /// `None` if the engine has no kernels for it.
    pub(crate) fn new(engine: E, fft: &Fft) -> Option<Box<Butterflies<E>>> {
        debug_assert!(fft.is_whole(), "whoever compiles it looks at its shape first");
        let mut outputs = [None; POINTS];
        let mut solution = Vec::new();
        let (finish, rows) = match &fft.outputs {
            FftOutputs::Values(buffers) => {
                outputs = *buffers;
                (Finish::Values, POINTS)
            }
            FftOutputs::Solved(rows) => {
                outputs.iter_mut().zip(rows).for_each(|(output, row)| *output = Some(row.0));
                let total = rows.iter().fold([0; POINTS], |total, (_, row)| {
                    std::array::from_fn(|state| total[state] ^ row[state])
                });
                let is_left = rows.len() == POINTS && total == [0, 0, 0, 1];
                let solved = &rows[..rows.len() - usize::from(is_left)];
                solution.extend(solved.iter().map(|(_, row)| row.map(E::coefficient)));
                (if is_left { Finish::RowsAndWhatIsLeft } else { Finish::Rows }, rows.len())
            }
        };
        let (mut quads, mut quad_factors) =
            (Vec::with_capacity(fft.groups.len()), Vec::with_capacity(fft.groups.len()));
        let (mut pairs, mut pair_factors) = (Vec::new(), Vec::new());
        for FftGroup { columns, factors: [y, y_b, w] } in &fft.groups {
            let [v0, v1, v2, v3] = *columns;
            match ([v0, v1], [v2, v3]) {
                ([None, None], [None, None]) => {}
                (lower, [None, None]) => {
                    pairs.push(lower);
                    pair_factors.push([*y, w ^ 1].map(E::coefficient));
                }
                ([None, None], upper) => {
                    pairs.push(upper);
                    pair_factors.push([*y_b, *w].map(E::coefficient));
                }
                _ => {
                    quads.push(*columns);
                    quad_factors.push([*y, *y_b, *w].map(E::coefficient));
                }
            }
        }
        Some(Box::new(Butterflies {
            engine,
            states: engine.fft_kernel(false, Finish::States)?,
            finish: [engine.fft_kernel(false, finish)?, engine.fft_kernel(true, finish)?],
            far: [false, true].map(|streaming| engine.far_fft_kernel(streaming, finish)),
            quads,
            quad_factors,
            pairs,
            pair_factors,
            at_origin: fft.at_origin,
            factor: E::coefficient(fft.factor),
            outputs,
            rows,
            solution,
            reads: fft.reads().count(),
        }))
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
            let columns =
                self.quads.iter().flatten().chain(self.pairs.iter().flatten()).chain(&self.at_origin);
            columns.flatten().map(|&i| buffer(i).cast_const())
        };
        let gain = || groups_that_gain(self.engine, streaming, self.reads, sources(), len);
        let groups = self.quads.len() + self.pairs.len();
        match if streaming { gain() } else { None }.or((groups > GROUPS_MOST).then_some(WIDE)) {
            // SAFETY: the caller's promise.
            Some(tiles) => unsafe { self.run_tiles(tiles, streaming, outputs, buffer, len) },
            None => {
                let streams = self.reads + self.rows;
                let are_lost = || are_lost(self.engine, streaming, self.reads, streams, sources(), len);
                let far = self.far[usize::from(streaming)].filter(|_| are_lost());
                let kernel = far.unwrap_or(self.finish[usize::from(streaming)]);
                let part = Part {
                    groups: 0..groups,
                    start: None,
                    is_last: true,
                    outputs: &outputs[..self.rows],
                    len,
                };
                // SAFETY: the caller's promise; there are at most GROUPS_MOST groups.
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
        outputs: [*mut u8; POINTS],
        buffer: impl Fn(usize) -> *mut u8,
        len: usize,
    ) {
        let groups = self.quads.len() + self.pairs.len();
        let at_once = (tiles.reads / POINTS).max(1);
        let count = groups.div_ceil(at_once).max(1);
        let tile = tiles.tile_bytes.min(SUMS_BYTES / POINTS);
        with_scratch(0, POINTS * tile, |_, lines| {
            let first = lines.as_mut_ptr().cast::<u8>();
            let states: [*mut u8; POINTS] = std::array::from_fn(|i| first.wrapping_add(i * tile));
            let so_far = states.map(|state| state.cast_const());
            for at in (0..len).step_by(tile) {
                let n = tile.min(len - at);
                // Those that are null stay so.
                let outputs =
                    outputs.map(|output| if output.is_null() { output } else { output.wrapping_add(at) });
                for g in 0..count {
                    let is_last = g + 1 == count;
                    let part = Part {
                        groups: groups.min(g * at_once)..groups.min((g + 1) * at_once),
                        start: (g > 0).then_some(&so_far),
                        is_last,
                        outputs: if is_last { &outputs[..self.rows] } else { &states },
                        len: n,
                    };
                    let kernel = if is_last { self.finish[usize::from(streaming)] } else { self.states };
                    // SAFETY: the caller's promise, for n bytes from `at`; scratch is ours and apart, and the part before wrote what is read of it.
                    unsafe { self.run_part(kernel, part, |i| buffer(i).wrapping_add(at)) };
                }
            }
        });
    }

    /// One kernel call over at most [`GROUPS_MOST`] groups.
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
        // Quads come first.
        let split = |range: &Range<usize>| {
            let quads = range.start.min(self.quads.len())..range.end.min(self.quads.len());
            (quads.clone(), range.start - quads.start..range.end - quads.end)
        };
        let (quads, pairs) = split(&part.groups);
        let mut quad_columns = [MaybeUninit::uninit(); GROUPS_MOST];
        let mut pair_columns = [MaybeUninit::uninit(); GROUPS_MOST];
        let at_origin = columns(&self.at_origin, &buffer);
        let has_origin = part.is_last && self.at_origin != [None; POINTS];
        let job = FftJob {
            quads: written(&mut quad_columns, &self.quads[quads.clone()], &buffer),
            quad_factors: &self.quad_factors[quads],
            pairs: written(&mut pair_columns, &self.pairs[pairs.clone()], &buffer),
            pair_factors: &self.pair_factors[pairs],
            at_origin: has_origin.then_some(&at_origin),
            factor: &self.factor,
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
    start: Option<&'a [*const u8; POINTS]>,
    /// Whether it makes the outputs, and reads what is at the origin.
    is_last: bool,
    outputs: &'a [*mut u8],
    len: usize,
}

fn columns<const N: usize>(buffers: &[Option<usize>; N], buffer: impl Fn(usize) -> *mut u8) -> [Column; N] {
    buffers.map(|i| Column::new(i.map(&buffer)))
}

/// The columns of so many groups, in a place for them.
fn written<'a, const N: usize>(
    place: &'a mut [MaybeUninit<[Column; N]>; GROUPS_MOST],
    groups: &[[Option<usize>; N]],
    buffer: impl Fn(usize) -> *mut u8,
) -> &'a [[Column; N]] {
    let place = &mut place[..groups.len()];
    for (place, group) in place.iter_mut().zip(groups) {
        place.write(columns(group, &buffer));
    }
    // SAFETY: the loop wrote every element of the slice, and MaybeUninit<T> has the layout of T.
    unsafe { &*(&raw const *place as *const [[Column; N]]) }
}

impl<E: Engine> std::fmt::Debug for Butterflies<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Butterflies")
            .field("quads", &self.quads)
            .field("pairs", &self.pairs)
            .field("outputs", &self.outputs)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, target_arch = "x86_64", not(miri)))]
mod tests {
    //! Columns some at a time, as on processors that follow few streams, and past the cache, give what the steps give.

    use super::*;
    use crate::arch::x86_64::{Kind, tests::on};
    use crate::{Dot, Tier};

    /// So many groups, of which every third lacks a column and every fifth two; values, or so many rows.
    fn fft(groups: usize, rows: Option<usize>) -> Fft {
        let group = |g: usize| FftGroup {
            columns: std::array::from_fn(|i| match (g % 3, g % 5, i) {
                (2, _, 1) | (_, 4, 2 | 3) => None,
                _ => Some(POINTS * g + i),
            }),
            factors: [g as u8 * 4 + 8, g as u8 * 4 + 9, 77],
        };
        let first = POINTS * groups;
        let outputs = match rows {
            None => FftOutputs::Values(std::array::from_fn(|i| Some(first + POINTS + i))),
            Some(rows) => {
                let row = |o: usize| std::array::from_fn(|i| (o * 31 + i * 7) as u8 | 2);
                let mut rows: Vec<_> = (0..rows).map(|o| (first + POINTS + o, row(o))).collect();
                if let [a, b, c, d] = &mut rows[..] {
                    d.1 = std::array::from_fn(|i| u8::from(i == 3) ^ a.1[i] ^ b.1[i] ^ c.1[i]);
                }
                FftOutputs::Solved(rows)
            }
        };
        let at_origin = std::array::from_fn(|i| (rows.is_some() && i != 1).then_some(first + i));
        Fft { groups: (0..groups).map(group).collect(), at_origin, factor: 214, outputs }
    }

    #[test]
    fn every_way_gives_the_same() {
        let sizes = [(0, 300), (1, 64), (2, 1_000), (5, 17_000), (6, 70_001), (21, 20_032)];
        for ((groups, len), rows) in
            sizes.into_iter().flat_map(|size| [None, Some(3), Some(4)].map(|rows| (size, rows)))
        {
            let fft = fft(groups, rows);
            let buffers = POINTS * groups + 2 * POINTS;
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
                        let what = format!("{groups} groups, {len}, {rows:?}, output {output}");
                        let made = &memory[shift + output * pitch..][..len];
                        assert!(made == wanted, "{what}, {tier} on {kind:?}, streaming {streaming}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_group_of_one_half_is_a_pair() {
        let group = |columns| FftGroup { columns, factors: [8, 9, 10] };
        let [a, b, c, d] = [0, 1, 2, 3].map(Some);
        let groups = vec![
            group([a, b, None, None]),
            group([None; POINTS]),
            group([None, None, c, None]),
            group([a, None, None, d]),
        ];
        let fft = Fft {
            groups,
            at_origin: [None; POINTS],
            factor: 214,
            outputs: FftOutputs::Values([Some(4), None, None, None]),
        };
        let Some(engine) = crate::arch::x86_64::avx2::Avx2::new() else {
            return println!("no AVX2: left out");
        };
        let made = Butterflies::new(engine, &fft).unwrap();
        assert_eq!((&made.pairs[..], &made.quads[..]), (&[[a, b], [c, None]][..], &[[a, None, None, d]][..]));
    }
}
