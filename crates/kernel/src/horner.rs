//! Horner's rule over columns: parities made of powers, also where an element is two or three bytes in as many planes.
//!
//! A *state* per parity is carried from the last column to the first: state = step * state + column. The step is a byte's
//! product on every plane, a shift of the planes with a product for each, or the product with the root of a quadratic
//! polynomial; so a column costs one product per plane and state (two planes of the quadratic step: two), however large
//! the powers would be. All states of all planes stay in registers, and every column is read once.
//!
//! A lost column is a column of zeros. Then the states are sums that a small matrix turns into what was lost: the
//! second half, over tiles of scratch.

use crate::dot::Mode;
use crate::scratch::with_scratch;
use crate::{Dot, Tier};

/// States that a kernel carries.
pub(crate) const STATES: usize = 4;

/// Planes of an element at most.
pub(crate) const PLANES_MOST: usize = 3;

/// Bytes of a tile of every state when there is something to solve: 12 of them and the outputs fill half a cache.
const TILE_BYTES: usize = 1024;

/// What a state is multiplied by from column to column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HornerStep {
    /// Nothing: the state is the plain sum.
    One,
    /// A byte on every plane.
    Byte(u8),
    /// Plane t becomes `factors[t]` times plane t - by, around the end.
    Shift {
        /// 1 or 2, less than the planes.
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

/// Parities by Horner's rule, or what was lost by way of them.
#[derive(Clone, Debug)]
pub struct Horner {
    /// Planes of an element: 2 or 3.
    pub planes: usize,
    /// The buffers of each column, plane by plane, the column of power 0 first; `None` is a column of zeros.
    pub columns: Vec<Option<Vec<usize>>>,
    /// The step of each state; there are four.
    pub steps: Vec<HornerStep>,
    /// Where the states go: plane by plane of the first state, then of the next.
    pub outputs: HornerOutputs,
}

/// What becomes of the states.
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
    fn kind(self) -> u32 {
        match self {
            HornerStep::One => ONE,
            HornerStep::Byte(_) => BYTE,
            HornerStep::Shift { by: 1, .. } => SHIFT_1,
            HornerStep::Shift { .. } => SHIFT_2,
            HornerStep::Quadratic { .. } => QUADRATIC,
        }
    }

    /// The factor of each plane; of a quadratic step c and b.
    fn factors(self) -> [u8; PLANES_MOST] {
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

/// Carries the states over `len` bytes: columns (last first, planes apart, null for zeros), three matrices per state, a
/// pointer per plane of each state to what is added to it at last (null for nothing), and one to store it.
///
/// # Safety
///
/// Pointers are valid for `len` bytes, null where a column is of zeros, the stored ones apart from everything. There are
/// as many planes as the kernel was chosen for; stores are aligned to a vector if the kernel streams.
pub(crate) type HornerKernel = unsafe fn(
    columns: &[[*const u8; PLANES_MOST]],
    matrices: &[[u64; PLANES_MOST]; STATES],
    adds: &[*const u8; STATES * PLANES_MOST],
    states: &[*mut u8; STATES * PLANES_MOST],
    len: usize,
);

/// Compiled for one tier.
#[derive(Debug)]
pub(crate) struct Carried {
    planes: usize,
    columns: Vec<Option<Vec<usize>>>,
    matrices: [[u64; PLANES_MOST]; STATES],
    cached: HornerKernel,
    streaming: HornerKernel,
    to: To,
}

#[derive(Debug)]
enum To {
    States(Vec<usize>),
    Solved { dot: Dot, adds: Vec<Option<usize>>, outputs: Vec<usize> },
}

/// A kernel and how it takes a coefficient.
pub(crate) struct HornerEngine {
    pub(crate) cached: HornerKernel,
    pub(crate) streaming: HornerKernel,
    pub(crate) matrix: fn(u8) -> u64,
}

impl Carried {
    /// `None` if the tier has no kernel for such states.
    pub(crate) fn new(tier: Tier, horner: &Horner) -> Option<Carried> {
        if horner.steps.len() != STATES || horner.columns.len() > COLUMNS_MOST {
            return None;
        }
        if horner.columns.iter().flatten().any(|column| column.len() != horner.planes) {
            return None;
        }
        let kinds = kinds(std::array::from_fn(|p| horner.steps[p].kind()));
        let engine = crate::dispatch::horner_engine(tier, horner.planes, kinds)?;
        let matrices = std::array::from_fn(|p| horner.steps[p].factors().map(engine.matrix));
        let states = STATES * horner.planes;
        let to = match &horner.outputs {
            HornerOutputs::States(buffers) if buffers.len() == states => To::States(buffers.clone()),
            HornerOutputs::States(_) => return None,
            HornerOutputs::Solved { adds, rows } => {
                if adds.len() != states {
                    return None;
                }
                let sparse: Vec<Vec<(usize, u8)>> =
                    rows.iter().map(|(_, row)| row.iter().copied().enumerate().collect()).collect();
                let dot = Dot::with_tier(tier, states, &sparse).ok()?;
                To::Solved { dot, adds: adds.clone(), outputs: rows.iter().map(|row| row.0).collect() }
            }
        };
        let mut columns = horner.columns.clone();
        columns.reverse();
        Some(Carried {
            planes: horner.planes,
            columns,
            matrices,
            cached: engine.cached,
            streaming: engine.streaming,
            to,
        })
    }

    /// The buffers that are read, and those that are written.
    pub(crate) fn buffers(&self) -> (Vec<usize>, Vec<usize>) {
        let mut reads: Vec<usize> = self.columns.iter().flatten().flatten().copied().collect();
        match &self.to {
            To::States(outputs) => (reads, outputs.clone()),
            To::Solved { adds, outputs, .. } => {
                reads.extend(adds.iter().flatten());
                (reads, outputs.clone())
            }
        }
    }

    /// # Safety
    ///
    /// Every buffer that is read or written is valid for `len` bytes; those written overlap nothing.
    pub(crate) unsafe fn run(&self, streaming: bool, buffer: impl Fn(usize) -> *mut u8, len: usize) {
        let mut columns = [[std::ptr::null(); PLANES_MOST]; COLUMNS_MOST];
        for (pointers, column) in columns.iter_mut().zip(&self.columns) {
            for (pointer, &i) in pointers.iter_mut().zip(column.iter().flatten()) {
                *pointer = buffer(i).cast_const();
            }
        }
        let columns = &mut columns[..self.columns.len()];
        let mut states = [std::ptr::null_mut(); STATES * PLANES_MOST];
        match &self.to {
            To::States(outputs) => {
                states.iter_mut().zip(outputs).for_each(|(state, &i)| *state = buffer(i));
                let can_stream =
                    outputs.iter().zip(&states).all(|(_, state)| state.addr().is_multiple_of(64));
                let kernel = if streaming && can_stream { self.streaming } else { self.cached };
                // SAFETY: the caller's promise; the kernel is of a tier that this machine has.
                unsafe {
                    kernel(columns, &self.matrices, &[std::ptr::null(); STATES * PLANES_MOST], &states, len)
                };
            }
            To::Solved { dot, adds, outputs } => {
                let count = STATES * self.planes;
                let mut added = [std::ptr::null(); STATES * PLANES_MOST];
                for (pointer, i) in added.iter_mut().zip(adds) {
                    *pointer = i.map_or(std::ptr::null(), |i| buffer(i).cast_const());
                }
                with_scratch(0, count * TILE_BYTES, |_, lines| {
                    let first = lines.as_mut_ptr().cast::<u8>();
                    states
                        .iter_mut()
                        .take(count)
                        .enumerate()
                        .for_each(|(i, state)| *state = first.wrapping_add(i * TILE_BYTES));
                    for start in (0..len).step_by(TILE_BYTES) {
                        let n = TILE_BYTES.min(len - start);
                        let source = |s: usize| states[s].cast_const();
                        let output = |o: usize| buffer(outputs[o]).wrapping_add(start);
                        // SAFETY: the caller's promise, for n bytes from `start`; the states are ours and apart, and the
                        // kernel writes n bytes of each before they are read.
                        unsafe {
                            (self.cached)(columns, &self.matrices, &added, &states, n);
                            dot.run_streaming(Mode::Apply, streaming, source, output, n);
                        }
                        let pointers = columns.iter_mut().flatten().chain(&mut added);
                        for pointer in pointers.filter(|pointer| !pointer.is_null()) {
                            *pointer = pointer.wrapping_add(n);
                        }
                    }
                });
            }
        }
    }
}

/// Columns of one run: their pointers are on the stack.
const COLUMNS_MOST: usize = 256;
