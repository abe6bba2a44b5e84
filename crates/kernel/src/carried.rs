//! Horner's rule compiled for one tier: its kernels, called for any number of columns, and the
//! outputs that are computed from the states.

use crate::dispatch::horner_engine;
use crate::dot::Dot;
use crate::horner::{
    Horner, HornerEngine, HornerJob, HornerKernel, HornerOutputs, PLANES_MOST, Planes, STATES, Solution,
    classes, kinds,
};
use crate::scratch::with_scratch;
use crate::stores::Mode;
use crate::streams::FewStreams;
use crate::tier::Tier;

/// The bytes of a tile of every state if outputs are computed from states: 12 such tiles and the
/// outputs fill half of the first-level cache.
const TILE_BYTES: usize = 1024;

/// The bytes of a tile of every state if few columns are read at a time. 12 such tiles fill a tenth
/// of a second-level cache. 4 KiB are as good; 16 KiB lose a sixth of the speed.
const FEW_TILE_BYTES: usize = 8 * 1024;

const NO_SOLUTION: Solution<'static> = Solution { outputs: &[], left: 0, uses: 0, matrices: &[] };

const NOTHING: Planes<*const u8> = [std::ptr::null(); STATES * PLANES_MOST];
const NOWHERE: Planes<*mut u8> = [std::ptr::null_mut(); STATES * PLANES_MOST];

/// Horner's rule compiled for one tier.
#[derive(Debug)]
pub(crate) struct Carried {
    planes: usize,
    columns: Vec<Option<Vec<usize>>>,
    factors: [[u64; PLANES_MOST]; STATES],
    cached: HornerKernel,
    group: HornerKernel,
    streaming: HornerKernel,
    few_streams: Option<FewStreams>,
    to: To,
}

#[derive(Debug)]
enum To {
    States(Vec<usize>),
    Solved { dot: Dot, at_once: Option<AtOnce>, adds: Vec<Option<usize>>, outputs: Vec<usize> },
}

/// Kernels that compute outputs from states while these are in registers.
#[derive(Debug)]
struct AtOnce {
    /// The kernels that store through the cache and past it.
    kernels: [HornerKernel; 2],
    /// As in [`Solution`].
    left: usize,
    uses: u32,
    matrices: Vec<u64>,
}

impl AtOnce {
    /// Returns the kernels; `None` if the engine has none, if the outputs are not blocks, or if
    /// there are more outputs than states.
    fn new(engine: &HornerEngine, planes: usize, rows: &[(usize, Vec<u8>)]) -> Option<AtOnce> {
        let kernels = engine.solving?;
        let states = STATES * planes;
        let are_whole = rows.iter().all(|row| row.1.len() == states);
        if !are_whole || !rows.len().is_multiple_of(planes) || rows.len() > states {
            return None;
        }
        let rows: Vec<&[u8]> = rows.iter().map(|row| &row.1[..]).collect();
        let is_used = |p: usize| rows.iter().any(|row| row[p * planes..][..planes].iter().any(|&c| c != 0));
        let used: Vec<usize> = (0..STATES).filter(|&p| is_used(p)).collect();
        let left = left_block(planes, &rows);
        let others = rows.chunks(planes).enumerate().filter(|&(block, _)| block != left);
        let coefficients = others
            .flat_map(|(_, block)| block)
            .flat_map(|row| used.iter().flat_map(|&p| row[p * planes..][..planes].iter().copied()));
        Some(AtOnce {
            kernels,
            left,
            uses: used.iter().map(|p| 1 << p).sum(),
            matrices: coefficients.map(engine.factor).collect(),
        })
    }
}

/// Returns the index of the block that is the first state, a plain sum, minus the blocks before it:
/// the last lost column of data. Returns the number of blocks if there is no such block.
fn left_block(planes: usize, rows: &[&[u8]]) -> usize {
    let total =
        |block: usize, t: usize, s: usize| (0..=block).fold(0, |total, b| total ^ rows[b * planes + t][s]);
    let is_left = |block: &usize| {
        let mut all = (0..planes).flat_map(|t| (0..STATES * planes).map(move |s| (t, s)));
        all.all(|(t, s)| total(*block, t, s) == u8::from(t == s))
    };
    let blocks = rows.len() / planes;
    (0..blocks).find(is_left).unwrap_or(blocks)
}

impl Carried {
    /// Compiles Horner's rule for a tier; `None` if the tier has no kernel for such states.
    pub(crate) fn new(tier: Tier, horner: &Horner) -> Option<Carried> {
        if horner.steps.len() != STATES || horner.columns.len() > COLUMNS_MOST {
            return None;
        }
        if horner.columns.iter().flatten().any(|column| column.len() != horner.planes) {
            return None;
        }
        let kinds = kinds(std::array::from_fn(|p| horner.steps[p].kind()));
        let factors: [_; STATES] = std::array::from_fn(|p| horner.steps[p].factors());
        let classes = classes(horner.planes, factors);
        let engine = horner_engine(tier, horner.planes, kinds, classes)?;
        let factors = factors.map(|of_state| of_state.map(engine.factor));
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
                let at_once = AtOnce::new(&engine, horner.planes, rows);
                let outputs = rows.iter().map(|row| row.0).collect();
                To::Solved { dot, at_once, adds: adds.clone(), outputs }
            }
        };
        // The last column comes first. Absent columns at the end are skipped, because states stay
        // zero up to the first column.
        let columns = horner.columns.iter().rev().skip_while(|column| column.is_none()).cloned().collect();
        Some(Carried {
            planes: horner.planes,
            columns,
            factors,
            cached: engine.cached,
            group: engine.group,
            streaming: engine.streaming,
            few_streams: engine.few_streams,
            to,
        })
    }

    /// Returns the buffers that are read, and those that are written.
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
    /// Every buffer that is read or written is valid for `len` bytes; those written overlap
    /// nothing.
    pub(crate) unsafe fn run(&self, streaming: bool, buffer: impl Fn(usize) -> *mut u8, len: usize) {
        let mut columns = [[std::ptr::null(); PLANES_MOST]; COLUMNS_MOST];
        for (pointers, column) in columns.iter_mut().zip(&self.columns) {
            for (pointer, &i) in pointers.iter_mut().zip(column.iter().flatten()) {
                *pointer = buffer(i).cast_const();
            }
        }
        let columns = &mut columns[..self.columns.len()];
        let few = self.few_streams.filter(|few| streaming && few.loses(columns.len() * self.planes, len));
        match (&self.to, few) {
            (To::States(to), None) => {
                let states = planes_of(to, &buffer);
                let kernel = kernel_into(&states, streaming, [self.cached, self.streaming]);
                let job = self.job(columns, &NOTHING, &states, len);
                // SAFETY: the caller's promise; the kernel is of a tier that this machine has.
                unsafe { kernel(&job) };
            }
            (To::Solved { at_once: Some(at_once), adds, outputs: to, .. }, None) => {
                let adds = planes_added(adds, &buffer);
                let outputs = planes_of(to, &buffer);
                let outputs = &outputs[..to.len()];
                let &AtOnce { kernels, left, uses, ref matrices } = at_once;
                let kernel = kernel_into(outputs, streaming, kernels);
                let solution = Solution { outputs, left, uses, matrices };
                let job = HornerJob { solution, ..self.job(columns, &adds, &NOWHERE, len) };
                // SAFETY: as above.
                unsafe { kernel(&job) };
            }
            // SAFETY: the caller's promise.
            _ => unsafe { self.run_tiles(streaming, few, columns, buffer, len) },
        }
    }

    /// Returns a job that starts from zeros and stores the states.
    fn job<'a>(
        &'a self,
        columns: &'a [[*const u8; PLANES_MOST]],
        adds: &'a Planes<*const u8>,
        states: &'a Planes<*mut u8>,
        len: usize,
    ) -> HornerJob<'a> {
        HornerJob {
            columns,
            factors: &self.factors,
            start: &NOTHING,
            adds,
            states,
            solution: NO_SOLUTION,
            len,
        }
    }

    /// Runs tile by tile, with states in scratch: so that outputs can be computed from them, or a
    /// few columns processed at a time.
    ///
    /// # Safety
    ///
    /// As [`Carried::run`], for the pointers of the columns.
    unsafe fn run_tiles(
        &self,
        streaming: bool,
        few: Option<FewStreams>,
        columns: &mut [[*const u8; PLANES_MOST]],
        buffer: impl Fn(usize) -> *mut u8,
        len: usize,
    ) {
        let (tile, at_once) = match few {
            Some(few) => (FEW_TILE_BYTES, few.groups.reads / self.planes),
            None => (TILE_BYTES, columns.len().max(1)),
        };
        let groups = columns.len().div_ceil(at_once).max(1);
        let states = STATES * self.planes;
        let (mut adds, mut outputs) = match &self.to {
            To::States(to) => (NOTHING, planes_of(to, &buffer)),
            To::Solved { adds, .. } => (planes_added(adds, &buffer), NOWHERE),
        };
        let finish = kernel_into(&outputs, streaming, [self.cached, self.streaming]);
        with_scratch(0, states * tile, |_, lines| {
            let first = lines.as_mut_ptr().cast::<u8>();
            let states: Planes<*mut u8> = std::array::from_fn(|i| first.wrapping_add(i * tile));
            let so_far = states.map(|state| state.cast_const());
            for at in (0..len).step_by(tile) {
                let n = tile.min(len - at);
                for g in 0..groups {
                    let columns =
                        &columns[columns.len().min(g * at_once)..columns.len().min((g + 1) * at_once)];
                    let is_last = g + 1 == groups;
                    let (kernel, to) = match &self.to {
                        To::States(_) if is_last => (finish, &outputs),
                        _ if few.is_some() => (self.group, &states),
                        _ => (self.cached, &states),
                    };
                    let start = if g == 0 { &NOTHING } else { &so_far };
                    let adds = if is_last { &adds } else { &NOTHING };
                    let job = HornerJob { start, ..self.job(columns, adds, to, n) };
                    // SAFETY: the caller's promise, for n bytes from `at`; the scratch is ours and
                    // apart, and the group before wrote all of it that is read.
                    unsafe { kernel(&job) };
                }
                if let To::Solved { dot, outputs, .. } = &self.to {
                    let source = |s: usize| states[s].cast_const();
                    let output = |o: usize| buffer(outputs[o]).wrapping_add(at);
                    // SAFETY: as above; the kernel wrote n bytes of each state.
                    unsafe { dot.run_streaming(Mode::Apply, streaming, source, output, n) };
                }
                let read = columns.iter_mut().flatten().chain(&mut adds);
                read.filter(|pointer| !pointer.is_null())
                    .for_each(|pointer| *pointer = pointer.wrapping_add(n));
                outputs.iter_mut().for_each(|output| *output = output.wrapping_add(n));
            }
        });
    }
}

/// Returns the kernel for these outputs: past the cache if streaming and all pointers are aligned,
/// otherwise through it.
fn kernel_into(outputs: &[*mut u8], streaming: bool, kernels: [HornerKernel; 2]) -> HornerKernel {
    let can_stream = outputs.iter().all(|output| output.addr().is_multiple_of(64));
    kernels[usize::from(streaming && can_stream)]
}

/// Returns the buffers that are added to each plane of each state.
fn planes_added(buffers: &[Option<usize>], buffer: impl Fn(usize) -> *mut u8) -> Planes<*const u8> {
    let mut planes = NOTHING;
    for (plane, i) in planes.iter_mut().zip(buffers) {
        *plane = i.map_or(std::ptr::null(), |i| buffer(i).cast_const());
    }
    planes
}

/// Returns the buffer of each plane of each state.
fn planes_of(buffers: &[usize], buffer: impl Fn(usize) -> *mut u8) -> Planes<*mut u8> {
    let mut planes = NOWHERE;
    planes.iter_mut().zip(buffers).for_each(|(plane, &i)| *plane = buffer(i));
    planes
}

/// The most columns of a run: their pointers are on the stack.
const COLUMNS_MOST: usize = 256;

#[cfg(all(test, target_arch = "x86_64", not(miri)))]
mod tests {
    //! Checks that processing some columns at a time (as on machines that follow few streams) gives
    //! the same results as all columns at once. Also checks that solutions from states in registers
    //! equal those from states in scratch. Every engine has a kernel for these factors.

    use super::*;
    use crate::arch::x86_64::cpu::{Kind, tests::on};
    use crate::horner::HornerStep;

    /// The outputs of a test program.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Made {
        /// The states themselves.
        States,
        /// Outputs that are not blocks.
        Rows,
        /// Blocks, of which the third is the first state minus the others.
        Blocks,
        /// Two blocks, from all states except the second.
        OfSome,
    }

    fn horner(planes: usize, columns: usize, made: Made) -> Horner {
        let steps = match planes {
            2 => vec![
                HornerStep::One,
                HornerStep::Byte(2),
                HornerStep::Byte(29),
                HornerStep::Quadratic { b: 7, c: 1 },
            ],
            _ => vec![
                HornerStep::One,
                HornerStep::Byte(2),
                HornerStep::Shift { by: 1, factors: [2, 1, 1] },
                HornerStep::Shift { by: 2, factors: [2, 2, 1] },
            ],
        };
        let states = STATES * planes;
        let column = |c: usize| (c % 5 != 3).then(|| (0..planes).map(|t| c * planes + t).collect());
        let first = columns * planes;
        let outputs = if made == Made::States {
            HornerOutputs::States((first..first + states).collect())
        } else {
            let count = match made {
                Made::States | Made::Rows => states - 1,
                Made::Blocks => states,
                Made::OfSome => 2 * planes,
            };
            let is_used = |s: usize| made != Made::OfSome || s / planes != 1;
            let coefficient = |o: usize, s: usize| if is_used(s) { (o * 31 + s * 7) as u8 } else { 0 };
            let coefficient = |o: usize, s: usize| match o.checked_sub(2 * planes).filter(|&t| t < planes) {
                Some(t) if made == Made::Blocks => {
                    u8::from(s == t) ^ coefficient(t, s) ^ coefficient(planes + t, s)
                }
                _ => coefficient(o, s),
            };
            let row = |o: usize| (first + states + o, (0..states).map(|s| coefficient(o, s)).collect());
            let adds = (0..states).map(|s| (s % 3 != 1).then_some(first + s)).collect();
            HornerOutputs::Solved { adds, rows: (0..count).map(row).collect() }
        };
        Horner { planes, columns: (0..columns).map(column).collect(), steps, outputs }
    }

    #[test]
    fn every_way_gives_the_same() {
        let large = [
            (2, 7, 16_384),
            (2, 4, 1_025),
            (2, 16, 40_001),
            (3, 5, 33_000),
            (3, 12, 20_032),
            (2, 60, 16_500),
        ];
        let small = [0, 1, 63, 64, 65, 127, 128, 129, 193].map(|len| [(2, 5, len), (3, 9, len)]);
        for (planes, columns, len) in large.into_iter().chain(small.into_iter().flatten()) {
            let all = [Made::States, Made::Rows, Made::Blocks, Made::OfSome];
            for (made, streaming) in all.into_iter().flat_map(|made| [(made, false), (made, true)]) {
                let horner = horner(planes, columns, made);
                let buffers = columns * planes + 2 * STATES * planes;
                let pitch = usize::next_multiple_of(len, 64) + 64;
                let painted: Vec<u8> = (0..buffers * pitch + 64).map(|i| (i * 11 + i / 253) as u8).collect();
                let kinds = Kind::ALL;
                let tiers = Tier::available().into_iter().filter(|&tier| tier != Tier::Portable);
                let mut results =
                    tiers.flat_map(|tier| kinds.map(|kind| (tier, kind))).map(|(tier, kind)| {
                        let carried = on(kind, || Carried::new(tier, &horner)).expect("factors of RAIDq");
                        let mut memory = painted.clone();
                        let shift = memory.as_ptr().align_offset(64);
                        memory.copy_within(..buffers * pitch, shift);
                        let base = memory.as_mut_ptr().wrapping_add(shift);
                        // SAFETY: buffers lie in `memory`, apart from one another.
                        unsafe { carried.run(streaming, |i| base.wrapping_add(i * pitch), len) };
                        (tier, kind, memory[shift..shift + buffers * pitch].to_vec())
                    });
                let Some((.., first)) = results.next() else { return println!("no tier has a kernel") };
                for (tier, kind, result) in results {
                    let what = format!("{planes} planes, {columns} columns, {len}, {made:?}");
                    assert!(result == first, "{what}, {tier} on {kind:?}");
                }
            }
        }
    }

    #[test]
    fn the_last_lost_column_has_no_products() {
        for planes in [2, 3] {
            let left = |made| match horner(planes, 3, made).outputs {
                HornerOutputs::Solved { rows, .. } => {
                    left_block(planes, &rows.iter().map(|row| &row.1[..]).collect::<Vec<_>>())
                }
                HornerOutputs::States(_) => unreachable!("outputs are solved"),
            };
            assert_eq!((left(Made::Blocks), left(Made::OfSome)), (2, 2), "{planes} planes");
        }
    }
}
