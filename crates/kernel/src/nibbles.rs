//! Sums of linear maps of half bytes: a byte is two *nibbles*, and a map does the same to both.
//!
//! That is what a code comes to whose words have four bits, two or one, where words lie side by side in bytes. A product by a coefficient of GF(2^8) is two look-ups of 16 entries for each
//! output, of the low and of the high nibble. A map leaves each nibble in its place, so the eight bits of an entry have room for two outputs: a look-up by the low nibble adds to the low ones of
//! both, one by the high nibble, in the same table, to the high ones. That is half of the look-ups and of the sums; a last step puts halves together.
//!
//! Outputs go in passes of four at most: pairs, and if their number is odd one that has its two look-ups for itself, or none where it is what is *left* of a plain sum of sources when others
//! are taken from it, as the parity of ones leaves the last of three lost columns.
//!
//! Invariants: every form gives the bytes of the portable one, which maps nibble by nibble.

use std::mem::MaybeUninit;
use std::ops::Range;

use crate::dispatch;
use crate::engine::{Job, Kernel, MAX_OUTPUTS, MAX_SOURCES};
use crate::order::reading_order;
use crate::{ProgramError, Tier};

/// Outputs of a pass.
const MOST: usize = 4;

/// Bytes of every buffer that all passes work on before the next, if there are several.
const TILE_BYTES: usize = 16 * 1024;

/// A linear map of four bits over GF(2), the same for both nibbles of a byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NibbleMap {
    /// The image of each bit, the lowest first, four bits each.
    images: u16,
}

impl NibbleMap {
    /// Maps everything to nothing.
    pub const ZERO: NibbleMap = NibbleMap { images: 0 };

    /// Maps everything to itself.
    pub const IDENTITY: NibbleMap = NibbleMap { images: 0x8421 };

    /// The map whose row r says of which bits bit r of the result is the sum, the lowest bit for the lowest. What a row has beyond four bits is not looked at.
    #[inline]
    pub fn from_rows(rows: [u8; 4]) -> NibbleMap {
        let rows = rows.map(|row| u16::from(row & 15));
        let mut bits = rows[0] | rows[1] << 4 | rows[2] << 8 | rows[3] << 12;
        // Transposed: what is above the diagonal takes the place of what is below it, of each square of two and then of two by two such squares.
        let swapped = (bits ^ bits >> 3) & 0x0a0a;
        bits ^= swapped ^ swapped << 3;
        let swapped = (bits ^ bits >> 6) & 0x00cc;
        NibbleMap { images: bits ^ swapped ^ swapped << 6 }
    }

    /// What it makes of a byte.
    pub fn of(self, byte: u8) -> u8 {
        let bit = |j: usize| if byte >> j & 1 == 1 { self.image(j % 4) << (j / 4 * 4) } else { 0 };
        (0..8).fold(0, |sum, j| sum ^ bit(j))
    }

    fn image(self, j: usize) -> u8 {
        (self.images >> (4 * j) & 15) as u8
    }

    /// Whether it is nothing or the identity, so that no look-up is needed.
    fn is_plain(self) -> bool {
        self == NibbleMap::ZERO || self == NibbleMap::IDENTITY
    }

    fn plus(self, other: NibbleMap) -> NibbleMap {
        NibbleMap { images: self.images ^ other.images }
    }
}

/// What is computed: output o is the sum over the sources s of `maps[s * outputs.len() + o]` of each.
#[derive(Clone, Copy, Debug)]
pub struct Nibbles<'a> {
    /// Buffers that are read, each once.
    pub sources: &'a [usize],
    /// Buffers that are written: none of the sources, each once.
    pub outputs: &'a [usize],
    /// Source after source, a map for each output.
    pub maps: &'a [NibbleMap],
}

impl Nibbles<'_> {
    /// Errors: there is not one map for each source and output; a source is named twice.
    pub(crate) fn check(&self) -> Result<(), ProgramError> {
        let (sources, outputs) = (self.sources.len(), self.outputs.len());
        if sources.checked_mul(outputs) != Some(self.maps.len()) {
            return Err(ProgramError::MapCount { have: self.maps.len(), sources, outputs });
        }
        let is_again = |&(at, source): &(usize, &usize)| self.sources[..at].contains(source);
        match self.sources.is_sorted_by(|a, b| a < b) {
            true => Ok(()),
            false => match self.sources.iter().enumerate().find(is_again) {
                Some((_, &source)) => Err(ProgramError::SourceTwice { source }),
                None => Ok(()),
            },
        }
    }

    fn map(&self, source: usize, output: usize) -> NibbleMap {
        self.maps[source * self.outputs.len() + output]
    }
}

/// What two maps make of each nibble: of the first in the low half of an entry, of the second in the high half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(16))]
pub(crate) struct Table(pub(crate) [u8; 16]);

impl Table {
    fn of(low: NibbleMap, high: NibbleMap) -> Table {
        let image = |j: usize| u64::from(low.image(j) | high.image(j) << 4);
        // Bytes n of the pattern for bit j are one where n has it: no product carries from byte to byte.
        let first = (image(0) * 0x0100_0100_0100_0100)
            ^ (image(1) * 0x0101_0000_0101_0000)
            ^ (image(2) * 0x0101_0101_0000_0000);
        let second = first ^ (image(3) * 0x0101_0101_0101_0101);
        let mut table = [0; 16];
        table[..8].copy_from_slice(&first.to_le_bytes());
        table[8..].copy_from_slice(&second.to_le_bytes());
        Table(table)
    }
}

/// How the outputs of a pass are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// Outputs that share tables two by two.
    pub(crate) pairs: usize,
    /// What follows them.
    pub(crate) odd: Odd,
}

/// The output of a pass that is in no pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Odd {
    /// There is none.
    No,
    /// It has two tables of its own for each source: of its low nibble, and of its high one.
    Alone,
    /// It is what is left of the plain sum of the first sources of a job when the outputs that are `taken` are taken from it.
    Left,
}

/// The kernel of an instruction set for a form, whose stores go past the cache if told so, by whole lines then, so that outputs begin at lines, and are ordered before what follows. In its job,
/// `rest` are the sources that are in no plain sum, and what `start` has is added to the outputs.
pub(crate) type NibbleKernels = fn(streaming: bool, form: Form) -> Kernel<Table>;

/// Sums compiled for one tier.
pub(crate) enum NibbleSums {
    Portable(Maps),
    Passes(Vec<Pass>),
}

/// Map by map, as the caller wrote them.
pub(crate) struct Maps {
    sources: Vec<usize>,
    outputs: Vec<usize>,
    /// What each makes of a nibble.
    images: Vec<[u8; 16]>,
}

/// Some outputs, found together, of the sources that they have something of.
pub(crate) struct Pass {
    cached: Kernel<Table>,
    streaming: Kernel<Table>,
    /// Their buffers, in the order of the form.
    outputs: Vec<usize>,
    /// Buffers in the order in which they are read.
    sources: Vec<usize>,
    /// How many of them come first and are in the plain sum.
    plain: usize,
    taken: u32,
    tables: Vec<Table>,
    /// Tables of one source.
    width: usize,
}

impl NibbleSums {
    /// Of sums that were checked; `None` if this machine lacks the tier.
    pub(crate) fn new(tier: Tier, nibbles: &Nibbles<'_>) -> Option<NibbleSums> {
        if !dispatch::is_available(tier) {
            return None;
        }
        let count = nibbles.outputs.len();
        Some(match dispatch::nibble_kernels(tier) {
            Some(kernels) => {
                let some = |from: usize| from..(from + MOST).min(count);
                let passes = (0..count).step_by(MOST).map(|from| Pass::new(kernels, nibbles, some(from)));
                NibbleSums::Passes(passes.collect())
            }
            None => NibbleSums::Portable(Maps {
                sources: nibbles.sources.to_vec(),
                outputs: nibbles.outputs.to_vec(),
                images: nibbles.maps.iter().map(|&map| Table::of(map, NibbleMap::ZERO).0).collect(),
            }),
        })
    }

    /// Computes every output, or adds it to what is there.
    ///
    /// # Safety
    ///
    /// `buffer(i)` is valid for reads and writes of `len` bytes for every source and output, and apart from the others.
    pub(crate) unsafe fn run(
        &self,
        streaming: bool,
        adds: bool,
        buffer: impl Fn(usize) -> *mut u8 + Copy,
        len: usize,
    ) {
        match self {
            // SAFETY: the caller's promise.
            NibbleSums::Portable(maps) => unsafe { maps.run(adds, buffer, len) },
            NibbleSums::Passes(passes) => {
                let tile = if passes.len() > 1 { TILE_BYTES } else { len.max(1) };
                for at in (0..len).step_by(tile) {
                    for pass in passes {
                        let of_tile = move |i: usize| buffer(i).wrapping_add(at);
                        // SAFETY: the caller's promise, for the tile, which ends by `len`.
                        unsafe { pass.run(streaming, adds, of_tile, tile.min(len - at)) };
                    }
                }
            }
        }
    }
}

impl Maps {
    /// # Safety
    ///
    /// As [`NibbleSums::run`].
    unsafe fn run(&self, adds: bool, buffer: impl Fn(usize) -> *mut u8, len: usize) {
        for (o, &output) in self.outputs.iter().enumerate() {
            let output = buffer(output);
            if !adds {
                // SAFETY: the output is valid for writes of `len` bytes.
                unsafe { output.write_bytes(0, len) };
            }
            // SAFETY: it is valid and initialised, and overlaps nothing.
            let output = unsafe { std::slice::from_raw_parts_mut(output, len) };
            for (s, &source) in self.sources.iter().enumerate() {
                // SAFETY: the source is valid for reads of `len` bytes and does not overlap the output.
                let source = unsafe { std::slice::from_raw_parts(buffer(source), len) };
                let images = &self.images[s * self.outputs.len() + o];
                let image = |nibble: u8| images[usize::from(nibble)];
                output.iter_mut().zip(source).for_each(|(o, s)| *o ^= image(s & 15) | image(s >> 4) << 4);
            }
        }
    }
}

impl std::fmt::Debug for NibbleSums {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let passes = match self {
            NibbleSums::Portable(_) => 0,
            NibbleSums::Passes(passes) => passes.len(),
        };
        f.debug_struct("NibbleSums").field("passes", &passes).finish_non_exhaustive()
    }
}

impl Pass {
    /// The outputs of these numbers, at most [`MOST`].
    fn new(kernels: NibbleKernels, nibbles: &Nibbles<'_>, outputs: Range<usize>) -> Pass {
        let has = |&s: &usize| outputs.clone().any(|o| nibbles.map(s, o) != NibbleMap::ZERO);
        let mut used = Vec::with_capacity(nibbles.sources.len());
        used.extend((0..nibbles.sources.len()).filter(has));
        let count = used.len();
        let left = if count <= MAX_SOURCES { left_of_a_sum(nibbles, &used, outputs.clone()) } else { None };
        let mut order = [0; MOST];
        let order = &mut order[..outputs.len()];
        order.iter_mut().zip(outputs.clone()).for_each(|(place, output)| *place = output);
        let mut taken = 0;
        let odd = match left {
            Some(subset) => {
                // The last of the subset is left when the others are taken, which keep their places.
                let last = subset.ilog2() as usize;
                order[last..].rotate_left(1);
                taken = u32::from(subset & !(1 << last));
                Odd::Left
            }
            None if outputs.len() % 2 == 1 => Odd::Alone,
            None => Odd::No,
        };
        let form = Form { pairs: outputs.len() / 2, odd };
        let width = form.pairs + if odd == Odd::Alone { 2 } else { 0 };
        let mut tables = Vec::with_capacity(width * count);
        let mut sources = Vec::with_capacity(count);
        let mut add = |i: usize| {
            let s = used[i];
            sources.push(nibbles.sources[s]);
            let map = |place: usize| nibbles.map(s, order[place]);
            tables.extend((0..form.pairs).map(|pair| Table::of(map(2 * pair), map(2 * pair + 1))));
            if odd == Odd::Alone {
                let map = map(outputs.len() - 1);
                tables.extend([Table::of(map, NibbleMap::ZERO), Table::of(NibbleMap::ZERO, map)]);
            }
        };
        let mut plain = count;
        match left {
            None => reading_order(count).for_each(add),
            Some(subset) => {
                let is_in =
                    |&i: &usize| sum_of(nibbles, outputs.clone(), subset, used[i]) == NibbleMap::IDENTITY;
                reading_order(count).filter(is_in).for_each(&mut add);
                reading_order(count).filter(|i| !is_in(i)).for_each(&mut add);
                plain = (0..count).filter(is_in).count();
            }
        }
        let buffers = order.iter().map(|&o| nibbles.outputs[o]).collect();
        let (cached, streaming) = (kernels(false, form), kernels(true, form));
        Pass { cached, streaming, outputs: buffers, sources, plain, taken, tables, width }
    }

    /// # Safety
    ///
    /// As [`NibbleSums::run`].
    unsafe fn run(&self, streaming: bool, adds: bool, buffer: impl Fn(usize) -> *mut u8, len: usize) {
        let mut outputs = [std::ptr::null_mut(); MAX_OUTPUTS];
        outputs.iter_mut().zip(&self.outputs).for_each(|(to, &output)| *to = buffer(output));
        let start = outputs.map(|output| output.cast_const());
        let is_one_call = self.sources.len() <= MAX_SOURCES;
        let are_lines =
            || outputs[..self.outputs.len()].iter().all(|output| output.addr().is_multiple_of(64));
        let streams = streaming && is_one_call && are_lines();
        let kernel = if streams { self.streaming } else { self.cached };
        let mut pointers = [MaybeUninit::<*const u8>::uninit(); MAX_SOURCES];
        // A sum of nothing is a call, too.
        let mut from = 0;
        while from == 0 || from < self.sources.len() {
            let to = (from + MAX_SOURCES).min(self.sources.len());
            let pointers = &mut pointers[..to - from];
            for (pointer, &source) in pointers.iter_mut().zip(&self.sources[from..to]) {
                pointer.write(buffer(source).cast_const());
            }
            // SAFETY: the loop wrote every element of the slice, and MaybeUninit<T> has the layout of T.
            let pointers = unsafe { &*(&raw const *pointers as *const [*const u8]) };
            let (sources, rest) = pointers.split_at(self.plain.min(to - from));
            let job = Job {
                sources,
                rest,
                coefficients: &self.tables[from * self.width..to * self.width],
                first_is_plain: false,
                start: (adds || from > 0).then_some(&start),
                solution: &[],
                taken: self.taken,
                outputs: &outputs,
                len,
            };
            // SAFETY: the caller's promise; the job has the form that the kernel was asked for, and what it starts from are its outputs.
            unsafe { kernel(&job) };
            from = to.max(1);
        }
    }
}

/// Some outputs, a bit each, whose sum is a plain sum of sources; the fewest such. Asked for where a number of outputs is odd.
fn left_of_a_sum(nibbles: &Nibbles<'_>, sources: &[usize], outputs: Range<usize>) -> Option<u8> {
    let is_plain =
        |subset: u8| sources.iter().all(|&s| sum_of(nibbles, outputs.clone(), subset, s).is_plain());
    let subsets = if outputs.len() % 2 == 1 { 1..1u8 << outputs.len() } else { 0..0 };
    subsets.filter(|&subset| is_plain(subset)).min_by_key(|subset| subset.count_ones())
}

/// What the sum of some outputs, a bit each, has of a source.
fn sum_of(nibbles: &Nibbles<'_>, outputs: Range<usize>, subset: u8, source: usize) -> NibbleMap {
    let in_subset = outputs.enumerate().filter(|&(i, _)| subset >> i & 1 == 1);
    in_subset.fold(NibbleMap::ZERO, |sum, (_, output)| sum.plus(nibbles.map(source, output)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weave::tests::below;
    use crate::{Program, Stores, Update};

    /// Bit by bit, as on paper: bit r of a nibble of the result is the sum of the bits that its row names.
    fn by_rows(rows: [u8; 4], byte: u8) -> u8 {
        (0..8).fold(0, |to, bit| {
            let nibble = byte >> (bit / 4 * 4) & 15;
            to | ((rows[bit % 4] & nibble).count_ones() as u8 & 1) << bit
        })
    }

    fn some_map(random: &mut impl FnMut(usize) -> usize) -> NibbleMap {
        match random(8) {
            0 => NibbleMap::ZERO,
            1 => NibbleMap::IDENTITY,
            _ => NibbleMap { images: random(1 << 16) as u16 },
        }
    }

    #[test]
    fn a_map_does_to_both_nibbles_what_its_rows_say() {
        let mut random = below(1);
        for _ in 0..if cfg!(miri) { 3 } else { 500 } {
            let rows = [0; 4].map(|_| random(16) as u8);
            let map = NibbleMap::from_rows(rows.map(|row| row | 0x50));
            let other = some_map(&mut random);
            let table = Table::of(map, other).0;
            for byte in 0..=255 {
                assert_eq!(map.of(byte), by_rows(rows, byte), "{rows:?} of {byte}");
                assert_eq!(map.plus(other).of(byte), map.of(byte) ^ other.of(byte));
                if let Some(entry) = table.get(usize::from(byte)) {
                    assert_eq!(*entry, map.of(byte) | other.of(byte) << 4);
                }
            }
        }
        assert_eq!([NibbleMap::ZERO.of(0xa7), NibbleMap::IDENTITY.of(0xa7)], [0, 0xa7]);
        assert_eq!(NibbleMap::from_rows([1, 2, 4, 8]), NibbleMap::IDENTITY);
    }

    /// Sources, outputs, and whether a sum of outputs is to be a plain one.
    fn some_maps(
        random: &mut impl FnMut(usize) -> usize,
        sources: usize,
        outputs: usize,
        plain: bool,
    ) -> Vec<NibbleMap> {
        let mut maps: Vec<NibbleMap> = (0..sources * outputs).map(|_| some_map(random)).collect();
        // The first of each pass, with some of the others of it.
        for from in (0..outputs).step_by(MOST).filter(|_| plain) {
            let others: Vec<usize> =
                (from + 1..outputs.min(from + MOST)).filter(|_| random(2) == 1).collect();
            for of_source in maps.chunks_exact_mut(outputs) {
                let sum = if random(4) == 0 { NibbleMap::ZERO } else { NibbleMap::IDENTITY };
                of_source[from] = others.iter().fold(sum, |sum, &o| sum.plus(of_source[o]));
            }
        }
        maps
    }

    #[test]
    fn every_tier_maps_as_the_definition_says() {
        let mut random = below(7);
        let lens: &[usize] =
            if cfg!(miri) { &[0, 5] } else { &[0, 1, 31, 32, 33, 95, 96, 127, 128, 129, 300, 1000] };
        let shapes: &[(usize, usize)] = if cfg!(miri) {
            &[(3, 2)]
        } else {
            &[
                (0, 1),
                (0, 4),
                (1, 1),
                (5, 1),
                (4, 2),
                (6, 3),
                (7, 3),
                (10, 4),
                (12, 5),
                (3, 6),
                (9, 7),
                (4, 9),
                (64, 3),
                (65, 3),
                (130, 4),
            ]
        };
        let cases = shapes.iter().flat_map(|&shape| lens.iter().map(move |&len| (shape, len)));
        // Of passes that take turns tile by tile, several tiles and a part of one.
        let tiled = [(6, 5), (3, 9)].into_iter().map(|shape| (shape, 2 * TILE_BYTES + 97));
        for (((sources, outputs), len), plain) in
            cases.chain(tiled.filter(|_| !cfg!(miri))).flat_map(|case| [(case, false), (case, true)])
        {
            let maps = some_maps(&mut random, sources, outputs, plain);
            let buffers = sources + outputs;
            // Outputs first and last, so that numbers are no places.
            let numbers: Vec<usize> = (0..buffers).map(|i| (i + 1) % buffers.max(1)).collect();
            let (reads, writes) = numbers.split_at(sources);
            let nibbles = Nibbles { sources: reads, outputs: writes, maps: &maps };
            let before: Vec<Vec<u8>> =
                (0..buffers).map(|_| (0..len).map(|_| random(256) as u8).collect()).collect();
            let mut wanted = before.clone();
            for (o, &output) in writes.iter().enumerate() {
                wanted[output] = (0..len)
                    .map(|at| {
                        reads
                            .iter()
                            .enumerate()
                            .fold(0, |sum, (s, &source)| sum ^ nibbles.map(s, o).of(before[source][at]))
                    })
                    .collect();
            }
            for tier in Tier::available() {
                for stores in [Stores::Cached, Stores::Streaming] {
                    let program =
                        Program::nibbles_with_tier(tier, buffers, &nibbles).unwrap().with_stores(stores);
                    let mut found = before.clone();
                    let mut views: Vec<&mut [u8]> = found.iter_mut().map(Vec::as_mut_slice).collect();
                    program.run(&mut views).unwrap();
                    assert!(
                        found == wanted,
                        "{sources} sources, {outputs} outputs, {len} bytes, plain {plain}, {tier}, {stores:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn streams_that_begin_lines_give_the_same() {
        use crate::scratch::Line;
        let mut random = below(3);
        let lens: &[usize] = if cfg!(miri) { &[70] } else { &[431, 2 * TILE_BYTES + 97] };
        let cases = (1..=5).flat_map(|outputs| [(outputs, false), (outputs, true)]);
        for ((outputs, plain), &len) in cases.flat_map(|case| lens.iter().map(move |len| (case, len))) {
            let maps = some_maps(&mut random, 6, outputs, plain);
            let numbers: Vec<usize> = (0..6 + outputs).collect();
            let nibbles = Nibbles { sources: &numbers[..6], outputs: &numbers[6..], maps: &maps };
            let mut line = || Line([0; 64].map(|_: u8| random(256) as u8));
            let lines = len.div_ceil(64) + 1;
            let before: Vec<Vec<Line>> =
                numbers.iter().map(|_| (0..lines).map(|_| line()).collect()).collect();
            let run = |tier, stores| {
                let program = Program::nibbles_with_tier(tier, numbers.len(), &nibbles).unwrap();
                let mut found = before.clone();
                let mut views: Vec<&mut [u8]> = found
                    .iter_mut()
                    .map(|lines| {
                        // SAFETY: lines are bytes side by side, and there are more than `len`.
                        unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), len) }
                    })
                    .collect();
                program.with_stores(stores).run(&mut views).unwrap();
                found.concat().into_iter().flat_map(|line| line.0).collect::<Vec<u8>>()
            };
            let wanted = run(Tier::Portable, Stores::Cached);
            for tier in Tier::available() {
                let check = || {
                    assert!(
                        run(tier, Stores::Streaming) == wanted,
                        "{outputs} outputs, plain {plain}, {tier}"
                    );
                };
                #[cfg(all(target_arch = "x86_64", not(miri)))]
                crate::arch::x86_64::tests::on_each(check);
                check();
            }
        }
    }

    #[test]
    fn a_pass_reads_only_what_it_has_something_of() {
        let kernels: NibbleKernels = |_, _| |_| ();
        let maps: Vec<NibbleMap> = (0..3 * 6)
            .map(|i| if i / 6 == i % 6 / 2 { NibbleMap { images: 0x1248 } } else { NibbleMap::ZERO })
            .collect();
        let nibbles = Nibbles { sources: &[3, 4, 9], outputs: &[0, 1, 2, 5, 6, 7], maps: &maps };
        let reads = [0..4, 4..6].map(|outputs| Pass::new(kernels, &nibbles, outputs).sources);
        assert_eq!(reads, [vec![3, 4], vec![9]]);
    }

    #[test]
    fn a_plain_sum_of_outputs_leaves_the_last_of_them() {
        // Three outputs of two sources; the first and the third together are the second source.
        let [a, b, c] = [0x1234, 0x4321, 0x7777].map(|images| NibbleMap { images });
        let left = b.plus(NibbleMap::IDENTITY);
        let maps = [a, c, a, b, c, left];
        let nibbles = Nibbles { sources: &[0, 1], outputs: &[2, 3, 4], maps: &maps };
        assert_eq!(left_of_a_sum(&nibbles, &[0, 1], 0..3), Some(0b101));
        // Of two outputs nothing is left: a pair costs less.
        let plain = Nibbles { sources: &[0], outputs: &[1, 2], maps: &[NibbleMap::IDENTITY; 2] };
        assert_eq!(left_of_a_sum(&plain, &[0], 0..2), None);
        let kernels: NibbleKernels = |_, _| |_| ();
        let pass = Pass::new(kernels, &nibbles, 0..3);
        assert_eq!((pass.outputs.as_slice(), pass.taken, pass.width), ([2, 3, 4].as_slice(), 0b01, 1));
        assert_eq!((pass.sources.as_slice(), pass.plain), ([1, 0].as_slice(), 1));
        let [of_second, of_first] = [Table::of(b, c), Table::of(a, c)];
        assert_eq!(pass.tables, [of_second, of_first]);
        // The second alone is plain: it goes last.
        let maps = [a, NibbleMap::IDENTITY, c];
        let nibbles = Nibbles { sources: &[5], outputs: &[7, 8, 9], maps: &maps };
        let pass = Pass::new(kernels, &nibbles, 0..3);
        assert_eq!((pass.outputs.as_slice(), pass.taken, pass.plain), ([7, 9, 8].as_slice(), 0, 1));
    }

    #[test]
    fn an_update_adds_what_the_change_maps_to() {
        let mut random = below(11);
        for (targets, len) in [(0, 9), (1, 0), (1, 40), (3, 5000), (6, 2048), (11, 2049)] {
            if cfg!(miri) && len > 100 {
                continue;
            }
            let maps: Vec<(usize, NibbleMap)> =
                (0..targets).map(|t| ((t + 2) % (targets + 1), some_map(&mut random))).collect();
            let changed = (1 + targets) % (targets + 1);
            let changed = if maps.iter().any(|map| map.0 == changed) { targets + 1 } else { changed };
            let mut bytes = || (0..len).map(|_| random(256) as u8).collect::<Vec<u8>>();
            let before: Vec<Vec<u8>> = (0..targets + 2).map(|_| bytes()).collect();
            let new = bytes();
            let mut wanted = before.clone();
            for &(target, map) in &maps {
                for at in 0..len {
                    wanted[target][at] ^= map.of(before[changed][at] ^ new[at]);
                }
            }
            wanted[changed].copy_from_slice(&new);
            for tier in Tier::available() {
                let update = Update::nibbles_with_tier(tier, targets + 2, changed, &maps).unwrap();
                let mut found = before.clone();
                let mut views: Vec<&mut [u8]> = found.iter_mut().map(Vec::as_mut_slice).collect();
                update.run(&mut views, &new).unwrap();
                assert!(found == wanted, "{targets} targets, {len} bytes, {tier}");
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let error = |sources: &[usize], outputs: &[usize], maps: usize| {
            let maps = vec![NibbleMap::IDENTITY; maps];
            Program::nibbles(4, &Nibbles { sources, outputs, maps: &maps }).unwrap_err()
        };
        assert_eq!(error(&[0, 1], &[2], 3), ProgramError::MapCount { have: 3, sources: 2, outputs: 1 });
        assert_eq!(
            error(&[0, 4], &[2], 2),
            ProgramError::BufferOutOfRange { step: 0, buffer: 4, buffers: 4 }
        );
        assert_eq!(error(&[0, 1], &[1], 2), ProgramError::TargetInUse { step: 0, target: 1 });
        assert_eq!(error(&[0], &[2, 2], 2), ProgramError::TargetInUse { step: 1, target: 2 });
        assert_eq!(error(&[3, 0, 3], &[2], 3), ProgramError::SourceTwice { source: 3 });
        let many = Update::nibbles(1 << 33, 1 << 32, &[]).unwrap_err();
        assert!(matches!(many, ProgramError::TooManyBuffers { .. }));
        let error = Update::nibbles(3, 1, &[(0, NibbleMap::ZERO), (1, NibbleMap::ZERO)]).unwrap_err();
        assert_eq!(error, ProgramError::TargetInUse { step: 1, target: 1 });
    }
}
