//! The additive FFT of four or eight points over columns. It saves most products of a Reed-Solomon
//! code whose points are in cosets of a subspace, compared with a dense matrix.
//!
//! Columns are processed in *groups* of T = 4 or 8. A group has the values of a polynomial of
//! degree less than T at y + 0, y + 1, y + b, y + b + 1 (and for T = 8 at the same points plus b').
//! Butterflies, (lo, hi) -> (lo + f (lo + hi), lo + hi), convert the values to coefficients in the
//! basis of Lin, Chung and Han (for T = 4: 1, X, X^2 + X, X (X^2 + X)), in log2 T levels of T / 2
//! butterflies. That is one product per column for T = 4, and three products per two columns for T
//! = 8. The coefficients of all groups are added up in T *states*, in registers; every column is
//! read once. Outputs are the values of the states at the points of the *origin*, the coset of 0,
//! or rows of coefficients of the states, for lost columns.
//!
//! Nothing is assumed about the points: any factors are processed as above, and [`Fft::expanded`]
//! is the matrix of the result. Only the factors of the origin must be those of a Cantor basis,
//! b^2 + b = 1 and b'^2 + b' = b, for kernels to exist: most of them are then zero.

use crate::engine::Engine;
use crate::portable::product;

/// The most points of a group, and the most states.
pub(crate) const POINTS_MOST: usize = 8;

/// The number of points of a group for which outputs can be solved from states.
pub(crate) const POINTS: usize = 4;

/// The most factors of a group: one for every two points at level 0, then half as many at each next
/// level.
pub(crate) const FACTORS_MOST: usize = POINTS_MOST - 1;

/// An additive FFT: the states of columns, and the outputs that are computed from them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fft {
    /// The points of each group: 4 or 8. Further columns of a group are not read.
    pub points: usize,
    /// The columns.
    pub groups: Vec<FftGroup>,
    /// The columns at the origin, and the factors of the origin, which [`FftOutputs::Values`] use,
    /// too.
    pub origin: FftGroup,
    /// The outputs computed from the states.
    pub outputs: FftOutputs,
}

/// The columns at the points of one coset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FftGroup {
    /// The buffers, point by point; `None` is a column of zeros.
    pub columns: [Option<usize>; POINTS_MOST],
    /// The factors of butterflies, level by level. Butterflies of level 0 combine neighbours; each
    /// later level doubles the distance.
    pub factors: [u8; FACTORS_MOST],
}

/// The outputs computed from the states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FftOutputs {
    /// The values at those points of the origin that have a buffer.
    Values([Option<usize>; POINTS_MOST]),
    /// At most as many buffers as points, each with a coefficient for each state.
    Solved(Vec<(usize, [u8; POINTS_MOST])>),
}

/// Returns the butterflies of a group of `points` points, from level 0 on: the indices of lo, hi
/// and the factor.
pub(crate) fn butterflies(points: usize) -> impl DoubleEndedIterator<Item = (usize, usize, usize)> {
    (0..points.ilog2()).flat_map(move |level| {
        let (distance, first_factor) = (1 << level, points - (points >> level));
        let places = (0..points).filter(move |place| place & distance == 0);
        places.map(move |lo| (lo, lo + distance, first_factor + (lo >> (level + 1))))
    })
}

impl Fft {
    /// Returns all groups, the origin last.
    fn all_groups(&self) -> impl Iterator<Item = &FftGroup> {
        self.groups.iter().chain([&self.origin])
    }

    /// Returns the term that a column of a group adds to each state.
    fn states_of(&self, group: &FftGroup, column: usize) -> [u8; POINTS_MOST] {
        let mut states = std::array::from_fn(|i| u8::from(i == column));
        for (lo, hi, factor) in butterflies(self.points) {
            states[hi] ^= states[lo];
            states[lo] ^= product(group.factors[factor], states[hi]);
        }
        states
    }

    /// Returns the values at the origin, each with a coefficient for each state.
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

    /// Returns each output with its coefficient for each state.
    fn rows(&self) -> Vec<(usize, [u8; POINTS_MOST])> {
        match &self.outputs {
            FftOutputs::Solved(rows) => rows.clone(),
            FftOutputs::Values(buffers) => {
                let values = buffers[..self.points].iter().zip(self.values());
                values.filter_map(|(buffer, row)| Some(((*buffer)?, row))).collect()
            }
        }
    }

    /// Returns each output as a sum over the columns: the matrix of the whole FFT.
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

    /// Returns the buffers that are read.
    pub(crate) fn reads(&self) -> impl Iterator<Item = usize> {
        self.all_groups().flat_map(|group| &group.columns[..self.points]).flatten().copied()
    }

    /// Returns the buffers that are written.
    pub(crate) fn writes(&self) -> impl Iterator<Item = usize> {
        let (values, rows): (&[Option<usize>], &[_]) = match &self.outputs {
            FftOutputs::Values(buffers) => (&buffers[..self.points], &[]),
            FftOutputs::Solved(rows) => (&[], rows),
        };
        values.iter().flatten().copied().chain(rows.iter().map(|row| row.0))
    }

    /// True if the FFT has 4 or 8 points.
    pub(crate) fn has_points(&self) -> bool {
        matches!(self.points, 4 | 8)
    }

    /// True if there are outputs, at most as many as states.
    pub(crate) fn has_outputs(&self) -> bool {
        (1..=self.points).contains(&self.writes().count())
    }

    /// Returns the factors of the origin that are not zero, if they are those of a Cantor basis.
    /// These are b, and with eight points also b' and b' + b.
    pub(crate) fn origin_factors(&self) -> Option<&[u8]> {
        match (self.points, &self.origin.factors) {
            (4, [0, _, 0, ..]) => Some(&self.origin.factors[1..2]),
            (8, &[0, b, c, d, 0, e, 0]) if d == b ^ c && e == b => Some(&self.origin.factors[1..4]),
            _ => None,
        }
    }
}

/// The results of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    /// The states, stored unchanged.
    States,
    /// The values at the origin.
    Values,
    /// Rows of coefficients over the states; only with four points.
    Rows,
    /// Four rows, of which the last is the last state minus the other rows and has no coefficients.
    RowsAndWhatIsLeft,
}

/// A pointer to a column of a kernel: `mask` is all ones; or zero for a column of zeros, which has
/// only the bytes of one visit.
#[derive(Clone, Copy)]
pub(crate) struct Column {
    base: *const u8,
    mask: usize,
}

/// The most bytes of a column that a visit reads.
pub(crate) const VISIT_BYTES_MOST: usize = 512;

#[repr(align(64))]
struct Zeros([u8; VISIT_BYTES_MOST]);

static ZEROS: Zeros = Zeros([0; VISIT_BYTES_MOST]);

impl Column {
    pub(crate) const ZERO: Column = Column { base: ZEROS.0.as_ptr(), mask: 0 };

    pub(crate) fn new(buffer: Option<*mut u8>) -> Column {
        buffer.map_or(Column::ZERO, |base| Column { base: base.cast_const(), mask: !0 })
    }

    /// Returns the pointer to the bytes at `at`.
    #[inline(always)]
    pub(crate) fn at(self, at: usize) -> *const u8 {
        self.base.wrapping_add(at & self.mask)
    }
}

/// A kernel: runs one job.
///
/// # Safety
///
/// Columns that are not zeros, and other pointers that are not null, are valid for `len` bytes,
/// those of `outputs` for writes. These overlap nothing, except that `start` may be `outputs`. They
/// are aligned to [`Engine::STREAM_ALIGN_BYTES`] if the kernel stores past the cache. The machine
/// has the engine that made the kernel, and the job has its points and its kind of outputs.
pub(crate) type FftKernel<C> = unsafe fn(&FftJob<'_, C>);

/// The arguments of a kernel of T points.
pub(crate) struct FftJob<'a, C> {
    /// The T columns of each group with columns in both halves.
    pub(crate) wholes: &'a [Column],
    /// The T - 1 factors of each of these groups, as in [`FftGroup`].
    pub(crate) whole_factors: &'a [C],
    /// The T / 2 columns of each group with columns in only one half.
    pub(crate) halves: &'a [Column],
    /// The factors of each of these groups. They are T / 2 - 1, as for a group of half the points;
    /// then the factor with which its coefficients are added to the first half of the states. That
    /// is the factor of the last level, plus 1 for the first half of a group.
    pub(crate) half_factors: &'a [C],
    /// The four columns at the origin, if there are any; only with four points.
    pub(crate) at_origin: Option<&'a [Column; POINTS]>,
    /// The factors of the origin that are not zero.
    pub(crate) origin_factors: &'a [C],
    /// The states so far; `None` for zeros.
    pub(crate) start: Option<&'a [*const u8; POINTS_MOST]>,
    /// T outputs for states and for values, of which those for values may be null; otherwise one
    /// output per row.
    pub(crate) outputs: &'a [*mut u8],
    /// For each row, its coefficients for the four states.
    pub(crate) solution: &'a [[C; POINTS]],
    /// The length of every buffer in bytes.
    pub(crate) len: usize,
}

/// An instruction set with kernels of additive FFTs.
pub(crate) trait FftEngine: Engine {
    /// Returns the kernel of 4 or of 8 points, which stores past the cache if `streaming`; `None`
    /// if the engine has none.
    fn fft_kernel(
        self,
        streaming: bool,
        points: usize,
        finish: Finish,
    ) -> Option<FftKernel<Self::Coefficient>>;

    /// Returns a kernel as [`FftEngine::fft_kernel`], for far columns that are more streams than
    /// the prefetchers follow; `None` if that kernel is to be used.
    fn far_fft_kernel(
        self,
        _streaming: bool,
        _points: usize,
        _finish: Finish,
    ) -> Option<FftKernel<Self::Coefficient>> {
        None
    }
}
