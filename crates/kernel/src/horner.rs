//! Horner's rule over columns: parities made of powers, also for elements of two or three bytes in
//! planes.
//!
//! A *state* per parity is carried from the last column to the first: state = step * state +
//! column. The step is one of three: a byte's product on every plane, a shift of the planes with a
//! product for each, or the product with the root of a quadratic polynomial. So a column costs one
//! product per plane and state (two planes of the quadratic step: two), however large the powers
//! would be. Engines with cheap products by one or two have kernels for the [`classes`] of factors
//! that codes have. All states of all planes stay in registers, and every column is read once.
//!
//! A lost column is a column of zeros. Then the states are sums from which a small matrix computes
//! the lost columns. This second half is done while the states are in registers if the engine can,
//! or else over tiles of scratch.

use crate::streams::FewStreams;

/// States that a kernel carries.
pub(crate) const STATES: usize = 4;

/// Planes of an element at most.
pub(crate) const PLANES_MOST: usize = 3;

/// The factor of a state from column to column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HornerStep {
    /// One: the state is the plain sum.
    One,
    /// A byte on every plane.
    Byte(u8),
    /// Plane t becomes `factors[t]` times plane t - by, around the end.
    Shift {
        /// 1 or 2, less than the planes; anything else is an error.
        by: usize,
        /// One per plane; the others are not looked at.
        factors: [u8; PLANES_MOST],
    },
    /// Planes (lo, hi) become (c hi, lo + b hi).
    Quadratic {
        /// The coefficient of X in X^2 = bX + c.
        b: u8,
        /// The constant.
        c: u8,
    },
}

/// Parities by Horner's rule, or lost columns computed from them.
#[derive(Clone, Debug)]
pub struct Horner {
    /// Planes of an element: 2 or 3.
    pub planes: usize,
    /// The buffers of each column, plane by plane, the column of power 0 first; `None` is a column
    /// of zeros.
    pub columns: Vec<Option<Vec<usize>>>,
    /// The step of each state; there are four.
    pub steps: Vec<HornerStep>,
    /// Where the states go: plane by plane of the first state, then of the next.
    pub outputs: HornerOutputs,
}

/// The outputs computed from the states.
#[derive(Clone, Debug)]
pub enum HornerOutputs {
    /// They are stored in these buffers.
    States(Vec<usize>),
    /// Outputs, each with its coefficient of each plane of each state.
    Solved {
        /// For each plane of each state, a buffer that is added to it.
        adds: Vec<Option<usize>>,
        /// The outputs.
        rows: Vec<(usize, Vec<u8>)>,
    },
}

/// The kind of a step, as kernels are chosen by it: a digit per state.
pub(crate) const ONE: u32 = 0;
pub(crate) const BYTE: u32 = 1;
pub(crate) const SHIFT_1: u32 = 2;
pub(crate) const SHIFT_2: u32 = 3;
pub(crate) const QUADRATIC: u32 = 4;

impl HornerStep {
    pub(crate) fn kind(self) -> u32 {
        match self {
            HornerStep::One => ONE,
            HornerStep::Byte(_) => BYTE,
            HornerStep::Shift { by: 1, .. } => SHIFT_1,
            HornerStep::Shift { .. } => SHIFT_2,
            HornerStep::Quadratic { .. } => QUADRATIC,
        }
    }

    /// The factor of each plane; of a quadratic step c and b.
    pub(crate) fn factors(self) -> [u8; PLANES_MOST] {
        match self {
            HornerStep::One => [1; PLANES_MOST],
            HornerStep::Byte(g) => [g; PLANES_MOST],
            HornerStep::Shift { factors, .. } => factors,
            HornerStep::Quadratic { b, c } => [c, b, 0],
        }
    }
}

/// The kinds of four states, a digit of four bits each.
pub(crate) const fn kinds(of: [u32; STATES]) -> u32 {
    of[0] | of[1] << 4 | of[2] << 8 | of[3] << 12
}

/// The kinds that kernels have. Two planes: the last state is multiplied by the root of a quadratic
/// polynomial. Three planes: the last two states are shifted by one plane and by two, or by two and
/// by one.
pub(crate) const SQUARE: u32 = kinds([ONE, BYTE, BYTE, QUADRATIC]);
pub(crate) const CUBE: u32 = kinds([ONE, BYTE, SHIFT_1, SHIFT_2]);
pub(crate) const CUBE_BACK: u32 = kinds([ONE, BYTE, SHIFT_2, SHIFT_1]);

/// Which plane of a state a step of such a kind makes plane `t` of. The other planes of a quadratic
/// step than the first have the first added.
pub(crate) const fn plane_before(kind: u32, t: usize, planes: usize) -> usize {
    match kind {
        ONE | BYTE => t,
        QUADRATIC => planes - 1,
        SHIFT_1 => (t + planes - 1) % planes,
        _ => (t + planes - 2 % planes) % planes,
    }
}

/// The class of a factor, for kernels to which a product by one or by two is less work: two bits
/// per plane of each state.
pub(crate) const UNIT: u32 = 1;
pub(crate) const TWO: u32 = 2;

/// The classes of factors; those that are not [`UNIT`] or [`TWO`] are alike, and so are those of
/// planes that are none.
pub(crate) const fn classes(planes: usize, factors: [[u8; PLANES_MOST]; STATES]) -> u32 {
    let (mut classes, mut i) = (0, 0);
    while i < STATES * PLANES_MOST {
        let class = match factors[i / PLANES_MOST][i % PLANES_MOST] {
            1 => UNIT,
            2 => TWO,
            _ => 0,
        };
        if i % PLANES_MOST < planes {
            classes |= class << (2 * i);
        }
        i += 1;
    }
    classes
}

/// The class of the factor of a plane of a state.
pub(crate) const fn class_of(classes: u32, p: usize, t: usize) -> u32 {
    classes >> (2 * (p * PLANES_MOST + t)) & 3
}

/// Stands for factors that the kernel does not depend on.
pub(crate) const ANY_CLASSES: u32 = 0;

/// The classes of the factors that RAIDq has, for states of the kinds [`SQUARE`] and [`CUBE`].
pub(crate) const SQUARE_CLASSES: u32 = classes(2, [[1; 3], [2; 3], [OTHER; 3], [1, OTHER, OTHER]]);
pub(crate) const CUBE_CLASSES: u32 = classes(3, [[1; 3], [2; 3], [2, 1, 1], [2, 2, 1]]);
const OTHER: u8 = 3;

/// A pointer per plane of each state.
pub(crate) type Planes<P> = [P; STATES * PLANES_MOST];

/// Carries the states of a job over its columns.
///
/// # Safety
///
/// Pointers that are not null are valid for `len` bytes, those of `states` or of the solution's
/// outputs for writes; these overlap nothing, except that `start` may be `states`. There are as
/// many planes as the kernel was chosen for; stores are aligned to a vector if the kernel streams.
pub(crate) type HornerKernel = unsafe fn(&HornerJob<'_>);

/// The arguments of a kernel.
pub(crate) struct HornerJob<'a> {
    /// Last first, planes apart, null for zeros.
    pub(crate) columns: &'a [[*const u8; PLANES_MOST]],
    /// Three per state, as the engine takes them.
    pub(crate) factors: &'a [[u64; PLANES_MOST]; STATES],
    /// The states before the columns; all null for zeros.
    pub(crate) start: &'a Planes<*const u8>,
    /// The columns added after them; null for none.
    pub(crate) adds: &'a Planes<*const u8>,
    /// Where the states go, if they are stored.
    pub(crate) states: &'a Planes<*mut u8>,
    /// The outputs computed from the states, if these are not stored.
    pub(crate) solution: Solution<'a>,
    /// Bytes of every buffer.
    pub(crate) len: usize,
}

/// Outputs by products with all planes of states; a block has an output for each plane.
pub(crate) struct Solution<'a> {
    /// Block by block.
    pub(crate) outputs: &'a [*mut u8],
    /// The block without products: the first state less the blocks before it.
    pub(crate) left: usize,
    /// Bit p: state p is in use.
    pub(crate) uses: u32,
    /// For each plane of each other block, one per plane of each state in use, as the engine takes
    /// them.
    pub(crate) matrices: &'a [u64],
}

/// The kernels of an engine, and its form of a coefficient.
pub(crate) struct HornerEngine {
    pub(crate) cached: HornerKernel,
    /// For columns from memory, some at a time.
    pub(crate) group: HornerKernel,
    pub(crate) streaming: HornerKernel,
    /// Kernels that solve as well, through the cache and past it, if they were measured.
    pub(crate) solving: Option<[HornerKernel; 2]>,
    pub(crate) few_streams: Option<FewStreams>,
    pub(crate) factor: fn(u8) -> u64,
}
