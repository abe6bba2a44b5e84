//! Networks of butterflies: additive FFTs of up to 256 points over the columns of a stripe,
//! computed tile by tile.
//!
//! A [`Network`] is a list of transforms between *slots*, which are scratch buffers as long as a
//! tile, and the buffers of a stripe. Each transform has T points, a power of two, and log2 T
//! levels of T / 2 butterflies, (lo, hi) -> (lo + f (lo + hi), lo + hi) from values to
//! coefficients, or the reverse. Up to four levels are done while columns are in registers. So a
//! transform of 128 points reads and writes its slots twice for 448 products. All slots of a tile
//! stay in the caches.
//!
//! As in [`crate::fft`] nothing is assumed about the points. If the first factor of each level is
//! zero, as for the coset of 0, its products are skipped.
//!
//! Invariants: a run reads no slot that it has not written, and no buffer that a later step writes;
//! every buffer is written once. The bytes after the last whole tile are processed as a shorter
//! tile.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

use crate::buffers::Uses;
use crate::error::ProgramError;
use crate::portable::product;
use crate::scratch::with_scratch;
use crate::tier::Tier;

/// The most points of a transform: all elements of the field.
const POINTS_MOST: usize = 256;

/// The most slots of a network: twice the number that decoding with the most points needs.
const SLOTS_MOST: usize = 2048;

/// The most levels of a kernel.
const LEVELS_MOST: u32 = 4;

/// The most lanes of a kernel.
pub(crate) const LANES_MOST: usize = 1 << LEVELS_MOST;

/// The most bytes of all slots, for tiles longer than the shortest. Few slots then fit the
/// first-level cache, many the second-level cache; shorter tiles would cost more, because of the
/// fixed work per step. NOTES.md has the figures.
const SLOTS_BYTES: usize = 64 * 1024;

/// The shortest tile, and the longest.
const TILE_BYTES_LEAST: usize = 256;
const TILE_BYTES_MOST: usize = 2048;

/// Transforms over columns, one after another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// The number of slots, which are numbered from 0.
    pub slots: usize,
    /// The steps, in this order.
    pub steps: Vec<NetworkStep>,
}

/// One step of a [`Network`]. A transform has T points, one more than its number of factors. There
/// are T / 2 factors of level 0, then half as many for each later level. Factor j of level i is for
/// the 2^i butterflies of points at the distance 2^i that start at point j 2^(i+1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkStep {
    /// Converts values at T points to coefficients.
    Inverse {
        /// The values.
        from: Lanes,
        /// The T - 1 factors.
        factors: Vec<u8>,
        /// The first of T slots.
        to: usize,
        /// True if the coefficients are added to the slots, instead of replacing their content.
        adds: bool,
    },
    /// Converts T coefficients to values.
    Forward {
        /// The first of T slots.
        from: usize,
        /// The T - 1 factors.
        factors: Vec<u8>,
        /// The values. A lane without a buffer is not computed, if that saves work.
        to: Lanes,
    },
    /// Multiplies each lane by its factor.
    Scale {
        /// The first of the slots, one for each factor; `None` for zeros.
        from: Option<usize>,
        /// For each lane, the buffer that is added before the product, or none.
        plus: Vec<Option<usize>>,
        /// The factors, one for each lane.
        factors: Vec<u8>,
        /// The products; a lane without a buffer is not computed.
        to: Lanes,
    },
}

/// The locations of values, lane by lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// Consecutive slots, from this one on.
    Slots(usize),
    /// In buffers; `None` reads as zeros, and is not stored.
    Buffers(Vec<Option<usize>>),
}

impl NetworkStep {
    /// Returns the slots that are read, as ranges: the input, and the slots that are added to.
    fn slots_read(&self) -> impl Iterator<Item = Range<usize>> {
        let firsts = match self {
            NetworkStep::Inverse { from, to, adds, .. } => {
                let from = if let Lanes::Slots(first) = from { Some(*first) } else { None };
                [from, adds.then_some(*to)]
            }
            NetworkStep::Forward { from, .. } => [Some(*from), None],
            NetworkStep::Scale { from, .. } => [*from, None],
        };
        let lanes = self.lanes();
        firsts.into_iter().flatten().map(move |first| first..first.saturating_add(lanes))
    }

    /// Returns the slots that are written.
    fn slots_written(&self) -> Option<Range<usize>> {
        let first = match self {
            NetworkStep::Inverse { to, .. } => *to,
            NetworkStep::Forward { to: Lanes::Slots(first), .. }
            | NetworkStep::Scale { to: Lanes::Slots(first), .. } => *first,
            _ => return None,
        };
        Some(first..first.saturating_add(self.lanes()))
    }

    /// Returns the buffers that are read.
    fn buffers_read(&self) -> impl Iterator<Item = usize> {
        let buffers: &[Option<usize>] = match self {
            NetworkStep::Inverse { from: Lanes::Buffers(buffers), .. } => buffers,
            NetworkStep::Scale { plus, .. } => plus,
            _ => &[],
        };
        buffers.iter().flatten().copied()
    }

    /// Returns the buffers that are written.
    fn buffers_written(&self) -> impl Iterator<Item = usize> {
        let buffers: &[Option<usize>] = match self {
            NetworkStep::Forward { to: Lanes::Buffers(buffers), .. }
            | NetworkStep::Scale { to: Lanes::Buffers(buffers), .. } => buffers,
            _ => &[],
        };
        buffers.iter().flatten().copied()
    }

    /// Returns the number of lanes: T, or the number of factors.
    fn lanes(&self) -> usize {
        match self {
            NetworkStep::Inverse { factors, .. } | NetworkStep::Forward { factors, .. } => factors.len() + 1,
            NetworkStep::Scale { factors, .. } => factors.len(),
        }
    }

    /// Returns the lengths of the lists of buffers of the step, if it has any.
    fn listed(&self) -> [Option<usize>; 2] {
        let listed = |lanes: &Lanes| match lanes {
            Lanes::Slots(_) => None,
            Lanes::Buffers(buffers) => Some(buffers.len()),
        };
        match self {
            NetworkStep::Inverse { from: lanes, .. } | NetworkStep::Forward { to: lanes, .. } => {
                [listed(lanes), None]
            }
            NetworkStep::Scale { plus, to, .. } => [listed(to), Some(plus.len())],
        }
    }
}

impl Network {
    /// Checks the assumptions of a run; returns the use of each buffer.
    pub(crate) fn check(&self, buffers: usize) -> Result<Uses, ProgramError> {
        if self.slots > SLOTS_MOST {
            return Err(ProgramError::TooManySlots { have: self.slots, most: SLOTS_MOST });
        }
        let mut has_content = vec![false; self.slots];
        let mut uses = Uses::new(buffers);
        for (step, what) in self.steps.iter().enumerate() {
            let lanes = what.lanes();
            let is_transform = !matches!(what, NetworkStep::Scale { .. });
            if is_transform && !(lanes.is_power_of_two() && (2..=POINTS_MOST).contains(&lanes)) {
                return Err(ProgramError::NetworkPoints { step, have: lanes, most: POINTS_MOST });
            }
            if let Some(&have) = what.listed().iter().flatten().find(|&&have| have != lanes) {
                return Err(ProgramError::NetworkLanes { step, have, need: lanes });
            }
            let in_range = |slots: &Range<usize>| match slots.end <= self.slots {
                true => Ok(()),
                false => Err(ProgramError::SlotOutOfRange {
                    step,
                    slot: slots.end.saturating_sub(1),
                    slots: self.slots,
                }),
            };
            for slots in what.slots_read() {
                in_range(&slots)?;
                if let Some(slot) = slots.clone().find(|&slot| !has_content[slot]) {
                    return Err(ProgramError::SlotUnwritten { step, slot });
                }
                // Slots are written either in place, lane by lane, or apart from those that are
                // read.
                let overlaps = |to: Range<usize>| to != slots && to.start < slots.end && slots.start < to.end;
                if what.slots_written().is_some_and(overlaps) {
                    return Err(ProgramError::SlotsOverlap { step });
                }
            }
            if let NetworkStep::Inverse { from: Lanes::Slots(first), to, adds: true, .. } = what
                && first == to
            {
                return Err(ProgramError::SlotsOverlap { step });
            }
            if let Some(slots) = what.slots_written() {
                in_range(&slots)?;
                has_content[slots].fill(true);
            }
            let in_buffers = |buffer: usize| match buffer < buffers {
                true => Ok(buffer),
                false => Err(ProgramError::BufferOutOfRange { step, buffer, buffers }),
            };
            for buffer in what.buffers_read() {
                uses.add_read(in_buffers(buffer)?);
            }
            for target in what.buffers_written() {
                if !uses.add_written(in_buffers(target)?) {
                    return Err(ProgramError::TargetInUse { step, target });
                }
            }
        }
        Ok(uses)
    }

    /// Returns the number of products per byte of a buffer that a dense matrix could compute in the
    /// same time, so that callers can choose between both.
    ///
    /// An estimate: measured in the first-level and second-level caches, codes of 24 to 256
    /// columns, within a third (NOTES.md).
    pub fn products_of_sums(&self, tier: Tier) -> usize {
        let (of_product, of_lane) = match tier {
            Tier::Portable => (24, 12),
            // NEON was not measured; it has the products of AVX2.
            Tier::Neon | Tier::Avx2 => (4, 6),
            Tier::Avx2Gfni => (6, 6),
            Tier::Avx512Gfni => (6, 16),
        };
        let quarters = self.steps.iter().map(|step| {
            let lanes = step.lanes();
            let products = match step {
                NetworkStep::Scale { factors, .. } => factors.len(),
                _ => lanes / 2 * lanes.ilog2() as usize,
            };
            products * of_product + lanes * of_lane
        });
        quarters.sum::<usize>() / 4
    }

    /// True if a step after this one reads some of these slots before they are written again.
    fn is_read_later(&self, step: usize, slots: &Range<usize>) -> bool {
        slots.clone().any(|slot| {
            for later in &self.steps[step + 1..] {
                if later.slots_read().any(|read| read.contains(&slot)) {
                    return true;
                }
                if later.slots_written().is_some_and(|written| written.contains(&slot)) {
                    return false;
                }
            }
            false
        })
    }
}

/// A kernel: runs one job over its lanes.
///
/// # Safety
///
/// The places that the kernel reads are valid for reads, and those that it writes for writes, of
/// `len` bytes: slots of `from` and `to`, and of buffers from `at` on. Written places overlap only
/// places read at the same lane. The machine has the engine that made the kernel; outputs are
/// aligned to 64 bytes if it stores past the cache.
pub(crate) type NetworkKernel<C> = unsafe fn(&NetworkJob<'_, C>);

/// The arguments of a kernel. The kind of the kernel decides which locations it uses.
pub(crate) struct NetworkJob<'a, C> {
    /// The first slot that is read; `from_stride` is the distance between slots in bytes.
    pub(crate) from: *const u8,
    pub(crate) from_stride: usize,
    /// The buffers that are read, or null for zeros; `zeros` points to `len` zero bytes.
    pub(crate) columns: &'a [*mut u8],
    pub(crate) zeros: *const u8,
    /// The first slot that is written; `to_stride` is the distance between slots in bytes.
    pub(crate) to: *mut u8,
    pub(crate) to_stride: usize,
    /// The buffers that are written, or null for none.
    pub(crate) outputs: &'a [*mut u8],
    /// The factors, as in a step.
    pub(crate) factors: &'a [C],
    /// The offset in buffers at which the job begins.
    pub(crate) at: usize,
    /// The distance in bytes by which buffers are fetched ahead.
    pub(crate) ahead: usize,
    /// The length of each lane in bytes.
    pub(crate) len: usize,
}

impl<C> NetworkJob<'_, C> {
    /// Returns the address of lane `i` in the buffers that are read, at the offset of the job.
    #[inline(always)]
    pub(crate) fn column(&self, i: usize) -> *const u8 {
        let buffer = self.columns[i];
        if buffer.is_null() { self.zeros } else { buffer.wrapping_add(self.at) }
    }

    /// Returns the address of lane `i` in the slots that are read.
    #[inline(always)]
    pub(crate) fn slot(&self, i: usize) -> *const u8 {
        self.from.wrapping_add(i * self.from_stride)
    }

    /// Returns the address of lane `i` in the slots that are written.
    #[inline(always)]
    pub(crate) fn target(&self, i: usize) -> *mut u8 {
        self.to.wrapping_add(i * self.to_stride)
    }

    /// Returns the address of lane `i` in the buffers that are written, or null.
    #[inline(always)]
    pub(crate) fn output(&self, i: usize) -> *mut u8 {
        let output = self.outputs[i];
        if output.is_null() { output } else { output.wrapping_add(self.at) }
    }
}

/// The destination of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    Slots,
    Buffers,
    /// Past the cache.
    Past,
}

/// An instruction set that can run networks. A value of the type is the witness that the machine
/// has it.
pub(crate) trait NetworkEngine: Copy {
    /// A factor in the form of the kernels.
    type Factor: Copy;

    /// The most levels for which the registers suffice, at most [`LEVELS_MOST`].
    const LEVELS: u32;

    /// Prepares a factor.
    fn factor(f: u8) -> Self::Factor;

    /// Returns the kernel from values in buffers or in slots to coefficients in slots, which may be
    /// added to the content of the slots. With `zeros` the first factor of each level is zero, and
    /// the kernel skips its product.
    fn inverse(self, levels: u32, buffers: bool, adds: bool, zeros: bool) -> NetworkKernel<Self::Factor>;

    /// Returns the kernel from coefficients in slots to values.
    fn forward(self, levels: u32, to: To, zeros: bool) -> NetworkKernel<Self::Factor>;

    /// Returns the kernel that multiplies slots (or zeros) plus buffers by factors, for any number
    /// of lanes.
    fn scale(self, slots: bool, to: To) -> NetworkKernel<Self::Factor>;

    /// Orders stores past the cache before everything that follows.
    fn fence(self);
}

/// A network compiled for an engine.
pub(crate) struct Flights<E: NetworkEngine> {
    engine: E,
    /// The number of slots: those of the network, then some for results between passes.
    slots: usize,
    passes: Vec<Pass<E::Factor>>,
    factors: Vec<E::Factor>,
    /// The places of all passes.
    places: Vec<Place>,
    /// For each buffer, the index of its first place, while passes are added.
    first_places: BTreeMap<usize, usize>,
    /// The outputs that may be stored past the cache.
    past: Vec<usize>,
}

/// A buffer of a pass. A run requests the pointer of each buffer only once: a second request would
/// invalidate the first pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    None,
    /// A buffer at its first place.
    Buffer(usize),
    /// The buffer of an earlier place, given by its index.
    Again(usize),
}

/// The work of one kernel call per tile.
struct Pass<C> {
    /// The kernels that store through the cache, and past it if that is possible.
    kernels: [NetworkKernel<C>; 2],
    /// The first slot that is read, and the distance to the next one in slots; `to` is the same for
    /// slots that are written.
    from: (usize, usize),
    to: (usize, usize),
    /// Ranges in the lists `places` and `factors` of [`Flights`].
    columns: Range<usize>,
    outputs: Range<usize>,
    factors: Range<usize>,
}

/// The location of the lanes of a transform between passes.
#[derive(Clone, Copy)]
enum Side<'a> {
    Slots(usize),
    Buffers(&'a [Option<usize>]),
}

impl<'a> Side<'a> {
    fn of(lanes: &'a Lanes) -> Side<'a> {
        match lanes {
            Lanes::Slots(first) => Side::Slots(*first),
            Lanes::Buffers(buffers) => Side::Buffers(buffers),
        }
    }
}

/// Returns the number of levels of each pass, at most `most`. The number of passes is the least
/// possible, and their sizes differ as little as possible.
fn levels_of_passes(levels: u32, most: u32) -> impl DoubleEndedIterator<Item = (u32, u32)> {
    let passes = levels.div_ceil(most);
    (0..passes).map(move |pass| {
        let first = |pass: u32| (levels * pass).div_ceil(passes);
        (first(pass), first(pass + 1) - first(pass))
    })
}

impl<E: NetworkEngine> Flights<E> {
    /// Compiles a network that was checked.
    pub(crate) fn new(engine: E, network: &Network) -> Flights<E> {
        let mut flights = Flights {
            engine,
            slots: network.slots,
            passes: Vec::new(),
            factors: Vec::new(),
            places: Vec::new(),
            first_places: BTreeMap::new(),
            past: Vec::new(),
        };
        let steps = || network.steps.iter().enumerate();
        let last_reads: BTreeMap<usize, usize> =
            steps().flat_map(|(step, what)| what.buffers_read().map(move |buffer| (buffer, step))).collect();
        for (step, what) in steps() {
            let reads_later = |buffer: usize| last_reads.get(&buffer).is_some_and(|&last| last > step);
            let may_pass = !what.buffers_written().any(reads_later);
            if may_pass {
                flights.past.extend(what.buffers_written());
            }
            let points = what.lanes();
            match what {
                NetworkStep::Inverse { from, factors, to, adds } => {
                    // Between passes results are in the target slots, unless the result is added to
                    // these.
                    let between = if *adds { network.slots } else { *to };
                    flights.inverse(Side::of(from), factors, between, *to, *adds);
                }
                NetworkStep::Forward { from, factors, to } => {
                    let between = match to {
                        Lanes::Slots(first) => *first,
                        Lanes::Buffers(_) if network.is_read_later(step, &(*from..from + points)) => {
                            network.slots
                        }
                        Lanes::Buffers(_) => *from,
                    };
                    flights.forward(*from, factors, between, Side::of(to), may_pass);
                }
                NetworkStep::Scale { from, plus, factors, to } => {
                    flights.scale(*from, plus, factors, Side::of(to), may_pass);
                }
            }
        }
        flights.first_places = BTreeMap::new();
        flights
    }

    fn inverse(&mut self, from: Side<'_>, factors: &[u8], between: usize, to: usize, adds: bool) {
        let points = factors.len() + 1;
        let passes: Vec<_> = levels_of_passes(points.ilog2(), E::LEVELS).collect();
        let last = passes.len() - 1;
        for (pass, &(level, levels)) in passes.iter().enumerate() {
            let source = if pass == 0 { from } else { Side::Slots(between) };
            let target = if pass == last { to } else { between };
            self.pass_of(points, level, levels, factors, |flights, lanes, range, zeros| {
                let adds = adds && pass == last;
                let (first, stride) = lanes;
                let count = 1 << levels;
                let (columns, from) = match source {
                    Side::Buffers(buffers) => {
                        let columns = (0..count).map(|i| buffers[first + i * stride]);
                        (flights.noted(columns), (0, 0))
                    }
                    Side::Slots(slot) => (0..0, (slot + first, stride)),
                };
                let is_buffers = matches!(source, Side::Buffers(_));
                let kernel = match is_buffers
                    && flights.places[columns.clone()].iter().all(|&place| place == Place::None)
                {
                    true if adds => return,
                    true => fill as NetworkKernel<_>,
                    false => flights.engine.inverse(levels, is_buffers, adds, zeros),
                };
                let to = (target + first, stride);
                flights.passes.push(Pass {
                    kernels: [kernel; 2],
                    from,
                    to,
                    columns,
                    outputs: 0..0,
                    factors: range,
                });
            });
        }
        if adds && last > 0 {
            self.slots = self.slots.max(between + points);
        }
    }

    fn forward(&mut self, from: usize, factors: &[u8], between: usize, to: Side<'_>, may_pass: bool) {
        let points = factors.len() + 1;
        let passes: Vec<_> = levels_of_passes(points.ilog2(), E::LEVELS).rev().collect();
        let last = passes.len() - 1;
        for (pass, &(level, levels)) in passes.iter().enumerate() {
            let source = if pass == 0 { from } else { between };
            let target = if pass == last { to } else { Side::Slots(between) };
            self.pass_of(points, level, levels, factors, |flights, (first, stride), range, zeros| {
                let count = 1 << levels;
                let (outputs, to) = match target {
                    Side::Slots(slot) => (0..0, (slot + first, stride)),
                    Side::Buffers(buffers) => {
                        let outputs = (0..count).map(|i| buffers[first + i * stride]);
                        if outputs.clone().all(|output| output.is_none()) {
                            return;
                        }
                        (flights.noted(outputs), (0, 0))
                    }
                };
                let kernel = |to| flights.engine.forward(levels, to, zeros);
                let kernels = match target {
                    Side::Slots(_) => [kernel(To::Slots); 2],
                    Side::Buffers(_) => {
                        [kernel(To::Buffers), kernel(if may_pass { To::Past } else { To::Buffers })]
                    }
                };
                let from = (source + first, stride);
                flights.passes.push(Pass { kernels, from, to, columns: 0..0, outputs, factors: range });
            });
        }
        if last > 0 {
            self.slots = self.slots.max(between + points);
        }
    }

    /// Calls `each` for every kernel of one pass of a transform. The arguments are its first lane
    /// and the distance of the next one, the range of its factors, and true if the first factors
    /// are zero.
    fn pass_of(
        &mut self,
        points: usize,
        level: u32,
        levels: u32,
        factors: &[u8],
        mut each: impl FnMut(&mut Self, (usize, usize), Range<usize>, bool),
    ) {
        let stride = 1 << level;
        for block in (0..points).step_by(stride << levels) {
            let start = self.factors.len();
            let mut zeros = true;
            for i in 0..levels {
                let of_level = points - (points >> (level + i)) + (block >> (level + i + 1));
                let some = &factors[of_level..][..1 << (levels - 1 - i)];
                zeros &= some[0] == 0;
                self.factors.extend(some.iter().map(|&factor| E::factor(factor)));
            }
            let range = start..self.factors.len();
            for first in block..block + stride {
                each(self, (first, stride), range.clone(), zeros);
            }
        }
    }

    fn scale(
        &mut self,
        from: Option<usize>,
        plus: &[Option<usize>],
        factors: &[u8],
        to: Side<'_>,
        may_pass: bool,
    ) {
        let start = self.factors.len();
        self.factors.extend(factors.iter().map(|&factor| E::factor(factor)));
        let columns = self.noted(plus.iter().copied());
        let (outputs, to, kinds) = match to {
            Side::Slots(slot) => (0..0, (slot, 1), [To::Slots; 2]),
            Side::Buffers(buffers) => {
                let past = if may_pass { To::Past } else { To::Buffers };
                (self.noted(buffers.iter().copied()), (0, 0), [To::Buffers, past])
            }
        };
        let kernels = kinds.map(|kind| self.engine.scale(from.is_some(), kind));
        let factors = start..self.factors.len();
        self.passes.push(Pass { kernels, from: (from.unwrap_or(0), 1), to, columns, outputs, factors });
    }

    fn noted(&mut self, buffers: impl Iterator<Item = Option<usize>>) -> Range<usize> {
        let start = self.places.len();
        for buffer in buffers {
            let place = match buffer {
                None => Place::None,
                Some(buffer) => match self.first_places.entry(buffer) {
                    Entry::Occupied(first) => Place::Again(*first.get()),
                    Entry::Vacant(first) => {
                        first.insert(self.places.len());
                        Place::Buffer(buffer)
                    }
                },
            };
            self.places.push(place);
        }
        start..self.places.len()
    }

    /// Returns the bytes of a tile.
    fn tile_bytes(&self) -> usize {
        let fitting = SLOTS_BYTES / (self.slots + 1) / 64 * 64;
        fitting.clamp(TILE_BYTES_LEAST, TILE_BYTES_MOST)
    }

    /// Runs every step.
    ///
    /// # Safety
    ///
    /// Every buffer is valid for reads, and those that are written for writes of `len` bytes; they
    /// are apart from one another.
    pub(crate) unsafe fn run(&self, streaming: bool, buffer: impl Fn(usize) -> *mut u8, len: usize) {
        let streaming = streaming && self.past.iter().all(|&output| buffer(output).addr().is_multiple_of(64));
        let tile = self.tile_bytes();
        with_scratch(self.places.len(), (self.slots + 1) * tile, |table, lines| {
            for (i, &place) in self.places.iter().enumerate() {
                table[i] = match place {
                    Place::None => std::ptr::null_mut(),
                    Place::Buffer(i) => buffer(i),
                    Place::Again(earlier) => table[earlier],
                };
            }
            let first = lines.as_mut_ptr().cast::<u8>();
            let zeros = first.wrapping_add(self.slots * tile);
            // SAFETY: scratch has a tile beyond the slots.
            unsafe { zeros.write_bytes(0, tile) };
            for at in (0..len).step_by(tile) {
                let n = tile.min(len - at);
                for pass in &self.passes {
                    let job = NetworkJob {
                        from: first.wrapping_add(pass.from.0 * tile),
                        from_stride: pass.from.1 * tile,
                        columns: &table[pass.columns.clone()],
                        zeros,
                        to: first.wrapping_add(pass.to.0 * tile),
                        to_stride: pass.to.1 * tile,
                        outputs: &table[pass.outputs.clone()],
                        factors: &self.factors[pass.factors.clone()],
                        at,
                        ahead: tile,
                        len: n,
                    };
                    // SAFETY: buffers by the caller's promise, `at + n <= len`; slots are lines of
                    // scratch, `tile >= n` bytes each. Outputs are aligned if the kernel stores
                    // past the cache: tiles are multiples of 64 bytes.
                    unsafe { pass.kernels[usize::from(streaming)](&job) };
                }
            }
        });
        if streaming {
            self.engine.fence();
        }
    }
}

impl<E: NetworkEngine> std::fmt::Debug for Flights<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (slots, passes, places) = (self.slots, self.passes.len(), &self.places);
        f.debug_struct("Flights")
            .field("slots", &slots)
            .field("passes", &passes)
            .field("places", places)
            .finish()
    }
}

/// Writes zeros to all lanes of a pass that has no column.
///
/// # Safety
///
/// As [`NetworkKernel`].
unsafe fn fill<C>(job: &NetworkJob<'_, C>) {
    for lane in 0..job.columns.len() {
        // SAFETY: written places are valid for `len` bytes, by the caller's promise.
        unsafe { job.target(lane).write_bytes(0, job.len) };
    }
}

/// The portable engine, which works byte by byte and specifies the results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

impl NetworkEngine for Portable {
    type Factor = u8;

    const LEVELS: u32 = LEVELS_MOST;

    fn factor(f: u8) -> u8 {
        f
    }

    fn inverse(self, _levels: u32, buffers: bool, adds: bool, _zeros: bool) -> NetworkKernel<u8> {
        match (buffers, adds) {
            (false, false) => portable_inverse::<false, false>,
            (false, true) => portable_inverse::<false, true>,
            (true, false) => portable_inverse::<true, false>,
            (true, true) => portable_inverse::<true, true>,
        }
    }

    fn forward(self, _levels: u32, to: To, _zeros: bool) -> NetworkKernel<u8> {
        if to == To::Slots { portable_forward::<true> } else { portable_forward::<false> }
    }

    fn scale(self, slots: bool, to: To) -> NetworkKernel<u8> {
        match (slots, to == To::Slots) {
            (false, false) => portable_scale::<false, false>,
            (false, true) => portable_scale::<false, true>,
            (true, false) => portable_scale::<true, false>,
            (true, true) => portable_scale::<true, true>,
        }
    }

    fn fence(self) {}
}

/// # Safety
///
/// As [`NetworkKernel`].
unsafe fn portable_inverse<const BUFFERS: bool, const ADDS: bool>(job: &NetworkJob<'_, u8>) {
    let points = job.factors.len() + 1;
    for i in 0..job.len {
        let mut values = [0; LANES_MOST];
        for lane in 0..points {
            let from = if BUFFERS { job.column(lane) } else { job.slot(lane) }.wrapping_add(i);
            // SAFETY: read places are valid for `len` bytes, by the caller's promise.
            values[lane] = unsafe { *from };
        }
        for (lo, hi, factor) in crate::fft::butterflies(points) {
            values[hi] ^= values[lo];
            values[lo] ^= product(job.factors[factor], values[hi]);
        }
        for lane in 0..points {
            let to = job.target(lane).wrapping_add(i);
            // SAFETY: as above, for writes; a place that is added to was written before.
            unsafe { *to = values[lane] ^ if ADDS { *to } else { 0 } };
        }
    }
}

/// # Safety
///
/// As [`NetworkKernel`].
unsafe fn portable_forward<const SLOTS: bool>(job: &NetworkJob<'_, u8>) {
    let points = job.factors.len() + 1;
    for i in 0..job.len {
        let mut values = [0; LANES_MOST];
        for lane in 0..points {
            // SAFETY: read places are valid for `len` bytes, by the caller's promise.
            values[lane] = unsafe { *job.slot(lane).wrapping_add(i) };
        }
        for (lo, hi, factor) in crate::fft::butterflies(points).rev() {
            values[lo] ^= product(job.factors[factor], values[hi]);
            values[hi] ^= values[lo];
        }
        for lane in 0..points {
            let to = if SLOTS { job.target(lane) } else { job.output(lane) };
            if !to.is_null() {
                // SAFETY: as above, for writes.
                unsafe { *to.wrapping_add(i) = values[lane] };
            }
        }
    }
}

/// # Safety
///
/// As [`NetworkKernel`].
unsafe fn portable_scale<const SLOTS: bool, const TO_SLOTS: bool>(job: &NetworkJob<'_, u8>) {
    for (lane, &factor) in job.factors.iter().enumerate() {
        let to = if TO_SLOTS { job.target(lane) } else { job.output(lane) };
        if to.is_null() {
            continue;
        }
        let plus = job.column(lane);
        for i in 0..job.len {
            // SAFETY: the caller promises `len` valid bytes for every place that is read or
            // written.
            unsafe {
                let from = if SLOTS { *job.slot(lane).wrapping_add(i) } else { 0 };
                *to.wrapping_add(i) = product(factor, from ^ *plus.wrapping_add(i));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Program;

    #[test]
    fn levels_are_shared_out_evenly() {
        let passes = |levels, most| levels_of_passes(levels, most).collect::<Vec<_>>();
        assert_eq!(passes(7, 4), [(0, 4), (4, 3)]);
        assert_eq!(passes(7, 3), [(0, 3), (3, 2), (5, 2)]);
        assert_eq!(passes(4, 3), [(0, 2), (2, 2)]);
        assert_eq!(passes(3, 4), [(0, 3)]);
        for (levels, most) in (1..=8).flat_map(|levels| [(levels, 3), (levels, 4)]) {
            let after = passes(levels, most).into_iter().try_fold(0, |at, (first, count)| {
                (first == at && (1..=most).contains(&count)).then_some(at + count)
            });
            assert_eq!(after, Some(levels), "{levels} levels, at most {most} at a time");
        }
    }

    /// A transform and its reverse, with addition and scaling, give the input, on every tier, under
    /// Miri, and beyond the end of a tile and of a vector.
    #[test]
    fn there_and_back_is_where_it_began() {
        let sizes = [(2usize, TILE_BYTES_MOST + 70), (8, 333), (32, 333)];
        for (points, len) in if cfg!(miri) { vec![(2, TILE_BYTES_MOST + 1), (8, 3)] } else { sizes.to_vec() }
        {
            let factors: Vec<u8> = (0..points - 1).map(|i| (i * 57 + 8) as u8).collect();
            let lanes = |group: usize| -> Vec<Option<usize>> {
                (0..points).map(|i| (group != 1 || i != 1).then_some(group * points + i)).collect()
            };
            let buffers = |group: usize| Lanes::Buffers(lanes(group));
            let inverse = |from, to, adds| NetworkStep::Inverse { from, factors: factors.clone(), to, adds };
            let network = Network {
                slots: 2 * points,
                steps: vec![
                    inverse(buffers(0), 0, false),
                    inverse(buffers(1), 0, true),
                    NetworkStep::Forward { from: 0, factors: factors.clone(), to: Lanes::Slots(points) },
                    NetworkStep::Scale {
                        from: Some(points),
                        plus: lanes(1),
                        factors: vec![2; points],
                        to: buffers(2),
                    },
                    NetworkStep::Forward { from: 0, factors: factors.clone(), to: buffers(3) },
                ],
            };
            let program = Program::network(4 * points, &network).unwrap();
            let mut cells: Vec<Vec<u8>> = (0..4 * points)
                .map(|i| (0..len).map(|at| (i * 37 + at * 11 + at / 7) as u8).collect())
                .collect();
            let before = cells.clone();
            let mut views: Vec<&mut [u8]> = cells.iter_mut().map(Vec::as_mut_slice).collect();
            program.run(&mut views).unwrap();
            assert!(cells[..2 * points] == before[..2 * points], "what is read is not written");
            for (i, at) in (0..points).flat_map(|i| (0..len).map(move |at| (i, at))) {
                let (first, second) = (before[i][at], if i == 1 { 0 } else { before[points + i][at] });
                assert_eq!(cells[3 * points + i][at], first ^ second, "{points} points, {i}, byte {at}");
                assert_eq!(cells[2 * points + i][at], product(2, first), "{points} points, {i}, byte {at}");
            }
        }
    }
}
