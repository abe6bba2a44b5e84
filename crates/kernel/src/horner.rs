//! Horner's rule over columns: parities with powers as coefficients, also for elements of two or
//! three bytes in planes.
//!
//! Each parity has a *state*, which is updated from the last column to the first: state =
//! step * state + column. A step is the product of every plane with a byte, a shift of the planes
//! with a product for each, or the product with the root of a quadratic polynomial. So a column
//! costs one product per plane and state (the quadratic step: two for its two planes), however high
//! the powers are. Engines with cheap products by one or two have kernels for the [`classes`] of
//! factors that codes have. All states of all planes stay in registers, and every column is read
//! once.
//!
//! A lost column is a column of zeros. Then the states are sums from which a small matrix computes
//! the lost columns. This second half is done while the states are in registers if the engine can
//! do that, otherwise over tiles of scratch.

use crate::streams::FewStreams;

/// The number of states of a kernel.
pub(crate) const STATES: usize = 4;

/// The most planes of an element.
pub(crate) const PLANES_MOST: usize = 3;

/// The factor of a state from column to column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HornerStep {
    /// One: the state is the plain sum.
    One,
    /// The product of every plane with a byte.
    Byte(u8),
    /// Plane t becomes `factors[t]` times plane t - `by`, modulo the number of planes.
    Shift {
        /// The shift: 1 or 2, and less than the number of planes; anything else is an error.
        by: usize,
        /// One factor per plane; the others are ignored.
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
    /// The planes of an element: 2 or 3.
    pub planes: usize,
    /// The buffers of each column, plane by plane, the column of power 0 first; `None` is a column
    /// of zeros.
    pub columns: Vec<Option<Vec<usize>>>,
    /// The step of each state; there are four.
    pub steps: Vec<HornerStep>,
    /// The outputs: of states, plane by plane of the first state, then of the next.
    pub outputs: HornerOutputs,
}

/// The outputs computed from the states.
#[derive(Clone, Debug)]
pub enum HornerOutputs {
    /// The states, stored in these buffers.
    States(Vec<usize>),
    /// Outputs, each with a coefficient for each plane of each state.
    Solved {
        /// For each plane of each state, a buffer that is added to it.
        adds: Vec<Option<usize>>,
        /// The outputs.
        rows: Vec<(usize, Vec<u8>)>,
    },
}

/// The kinds of steps, by which kernels are chosen: one digit per state.
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

    /// The factor of each plane; for a quadratic step, c and b.
    pub(crate) fn factors(self) -> [u8; PLANES_MOST] {
        match self {
            HornerStep::One => [1; PLANES_MOST],
            HornerStep::Byte(g) => [g; PLANES_MOST],
            HornerStep::Shift { factors, .. } => factors,
            HornerStep::Quadratic { b, c } => [c, b, 0],
        }
    }
}

/// Returns the kinds of four states, as digits of four bits.
pub(crate) const fn kinds(of: [u32; STATES]) -> u32 {
    of[0] | of[1] << 4 | of[2] << 8 | of[3] << 12
}

/// The kinds for which there are kernels. Two planes: the last state is multiplied by the root of a
/// quadratic polynomial. Three planes: the last two states are shifted by one plane and by two, or
/// by two and by one.
pub(crate) const SQUARE: u32 = kinds([ONE, BYTE, BYTE, QUADRATIC]);
pub(crate) const CUBE: u32 = kinds([ONE, BYTE, SHIFT_1, SHIFT_2]);
pub(crate) const CUBE_BACK: u32 = kinds([ONE, BYTE, SHIFT_2, SHIFT_1]);

/// Returns the plane of a state from which a step of this kind computes plane `t`. In a quadratic
/// step, the planes after the first also have a product of the first added.
pub(crate) const fn plane_before(kind: u32, t: usize, planes: usize) -> usize {
    match kind {
        ONE | BYTE => t,
        QUADRATIC => planes - 1,
        SHIFT_1 => (t + planes - 1) % planes,
        _ => (t + planes - 2 % planes) % planes,
    }
}

/// The classes of factors, for kernels in which a product by one or two is less work: two bits per
/// plane of each state.
pub(crate) const UNIT: u32 = 1;
pub(crate) const TWO: u32 = 2;

/// Returns the classes of factors. All factors other than [`UNIT`] and [`TWO`] have one class, and
/// so have planes that do not exist.
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

/// Returns the class of the factor of a plane of a state.
pub(crate) const fn class_of(classes: u32, p: usize, t: usize) -> u32 {
    classes >> (2 * (p * PLANES_MOST + t)) & 3
}

/// The classes for kernels that do not depend on the factors.
pub(crate) const ANY_CLASSES: u32 = 0;

/// The classes of the factors that RAIDq has, for states of the kinds [`SQUARE`] and [`CUBE`].
pub(crate) const SQUARE_CLASSES: u32 = classes(2, [[1; 3], [2; 3], [OTHER; 3], [1, OTHER, OTHER]]);
pub(crate) const CUBE_CLASSES: u32 = classes(3, [[1; 3], [2; 3], [2, 1, 1], [2, 2, 1]]);
const OTHER: u8 = 3;

/// One pointer per plane of each state.
pub(crate) type Planes<P> = [P; STATES * PLANES_MOST];

/// A kernel: updates the states of a job over its columns.
///
/// # Safety
///
/// Pointers that are not null are valid for `len` bytes, those of `states` or of the solution's
/// outputs for writes; these overlap nothing, except that `start` may be `states`. There are as
/// many planes as the kernel was chosen for; stores are aligned to a vector if the kernel streams.
pub(crate) type HornerKernel = unsafe fn(&HornerJob<'_>);

/// The arguments of a kernel.
pub(crate) struct HornerJob<'a> {
    /// The columns, the last first, with one pointer per plane; null for zeros.
    pub(crate) columns: &'a [[*const u8; PLANES_MOST]],
    /// Three factors per state, in the form of the engine.
    pub(crate) factors: &'a [[u64; PLANES_MOST]; STATES],
    /// The initial states; all null for zeros.
    pub(crate) start: &'a Planes<*const u8>,
    /// The columns that are added at the end; null for none.
    pub(crate) adds: &'a Planes<*const u8>,
    /// The outputs of the states, if they are stored.
    pub(crate) states: &'a Planes<*mut u8>,
    /// The outputs that are computed from the states, if the states are not stored.
    pub(crate) solution: Solution<'a>,
    /// The length of every buffer in bytes.
    pub(crate) len: usize,
}

/// Outputs that are sums of products over all planes of states. A block has one output per plane.
pub(crate) struct Solution<'a> {
    /// The outputs, block by block.
    pub(crate) outputs: &'a [*mut u8],
    /// The block without products: the first state minus the blocks before it.
    pub(crate) left: usize,
    /// Bit p: state p is in use.
    pub(crate) uses: u32,
    /// The coefficients in the form of the engine: for each plane of each other block, one per
    /// plane of each state in use.
    pub(crate) matrices: &'a [u64],
}

/// The kernels of an engine, and its form of a coefficient.
pub(crate) struct HornerEngine {
    pub(crate) cached: HornerKernel,
    /// The kernel for columns from memory, some at a time.
    pub(crate) group: HornerKernel,
    pub(crate) streaming: HornerKernel,
    /// The kernels that also solve, through the cache and past it, if they are known to be fast.
    pub(crate) solving: Option<[HornerKernel; 2]>,
    pub(crate) few_streams: Option<FewStreams>,
    pub(crate) factor: fn(u8) -> u64,
}
