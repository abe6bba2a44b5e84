//! The code of [`crate::code::braid`] and of [`crate::code::straight`]: AVX2 or AVX-512, assembled
//! for each program once it is worth it.
//!
//! A straight line names each instruction; it has code for columns of packets only. In a braid,
//! held sum j is in registers 2j and 2j + 1; the last four are the swept sum and the source, and
//! later sums of rows in turn. Places are known while the code is made. Empty cells have no code, a
//! column or a row starts with its first load, and a sum still in a register is not loaded again.
//! Rows that are finished late wait in registers that no column needs, or else in slots.
//!
//! If the system forbids execution of written memory (SELinux without `execmem`,
//! `MemoryDenyWriteExecute` of systemd), there is no code, and [`crate::xor_rows`] do the work.

use super::ahead::{AHEAD_MOST, Ahead, Fetch, Spread, fetched, fetched_into};
use super::assembler::{Assembler, CODE_ALIGN_BYTES, Columns, Entry, Group, PacketEntry, Slice, Tile};
use super::cpu::Kind;
use super::forms::LINE;
use crate::code::braid::{Braid, Place, Row, Target, Unfinished, Vectors};
use crate::code::executable::Executable;
use crate::code::form::Form;
use crate::code::straight::{OPS_MOST, Op, Straight};
use crate::packets::Packets;
use crate::scratch::with_scratch;

/// The pairs that no column has: of the row, and of the source.
fn own_pairs(vectors: Vectors) -> [Group; 2] {
    [pair_of(vectors.held_most()), pair_of(vectors.held_most() + 1)]
}

impl<'a> Form<'a> {
    pub(super) fn slice(self) -> Slice {
        match self {
            Form::Braid(braid) => Slice { vectors: braid.vectors, count: 2 },
            Form::Straight(straight) => Slice { vectors: straight.vectors, count: 1 },
        }
    }

    /// The buffers in use, ascending.
    pub(super) fn buffers(self) -> &'a [usize] {
        match self {
            Form::Braid(braid) => &braid.buffers,
            Form::Straight(straight) => &straight.buffers,
        }
    }

    pub(super) fn slots_bytes(self) -> usize {
        let slots = match self {
            Form::Braid(braid) => braid.slots,
            Form::Straight(straight) => straight.slots,
        };
        slots * self.slice().bytes()
    }

    /// The slice of code that streams columns of packets: whole lines, if its own is less and that
    /// is not too much code. Where each half of a line goes past the cache on its own, the second
    /// comes when the first has left. Zen 3, bit matrices of w = 4, 1 MiB, encode: 0.65 of the
    /// limit stored to the cache, 0.96 past it by lines.
    pub(super) fn streaming_slice(self, columns: &Columns) -> Slice {
        let own = self.slice();
        match self {
            Form::Straight(straight)
                if 2 * own.bytes() == LINE
                    && columns.packet_bytes.is_multiple_of(LINE)
                    && 2 * straight.ops.len() <= OPS_MOST =>
            {
                Slice { count: 2, ..own }
            }
            _ => own,
        }
    }

    /// As `slots_bytes`, for such slices.
    pub(super) fn streaming_slots_bytes(self, slice: Slice) -> usize {
        match self {
            Form::Straight(straight) if slice != self.slice() => {
                (straight.slots + straight.targets().len()) * slice.bytes()
            }
            _ => self.slots_bytes(),
        }
    }

    /// Buffers that it writes, by their numbers in `buffers`.
    pub(super) fn targets(self) -> Vec<usize> {
        match self {
            Form::Braid(braid) => braid.targets(),
            Form::Straight(straight) => straight.targets(),
        }
    }

    /// Returns the number of reads, before which lines can be fetched.
    pub(super) fn terms(self) -> usize {
        match self {
            Form::Braid(braid) => braid.rows().map(Row::terms).sum(),
            Form::Straight(straight) => straight.terms(),
        }
    }
}

/// Functions that do the same: one that stores to the cache, and one that stores past it.
#[derive(Debug)]
struct Functions {
    code: Executable,
    /// Where the one that stores past the cache begins; the other begins at 0.
    streaming: usize,
}

impl Functions {
    /// Returns `None` if the system gives no executable memory, or the process has its most pieces
    /// of code.
    fn new(mut storing: Vec<u8>, streaming: Vec<u8>) -> Option<Functions> {
        let second = storing.len().next_multiple_of(CODE_ALIGN_BYTES);
        storing.resize(second, 0xcc); // int3
        storing.extend(streaming);
        Some(Functions { code: Executable::new(&storing)?, streaming: second })
    }

    fn start(&self, streaming: bool) -> *const u8 {
        self.code.start().wrapping_add(if streaming { self.streaming } else { 0 })
    }
}

/// A braid as functions of its own.
#[derive(Debug)]
pub(crate) struct Code {
    functions: Functions,
    /// The buffers whose pointers they take.
    buffers: Vec<usize>,
    /// Buffers that are fetched ahead, for a tile.
    ahead: Vec<usize>,
    /// Buffers that may be stored past the cache.
    last: Vec<usize>,
    slots_bytes: usize,
    slice_bytes: usize,
}

impl Code {
    /// `None` as [`Functions::new`]. The machine must have AVX2, or AVX-512 F for such vectors.
    pub(crate) fn new(braid: &Braid) -> Option<Code> {
        let form = Form::Braid(braid);
        let (tile, ahead) = fetched(braid);
        let number = |buffer: usize| braid.buffers[buffer];
        Some(Code {
            functions: Functions::new(assemble(braid, None), assemble(braid, Some(tile)))?,
            buffers: braid.buffers.clone(),
            ahead: ahead.into_iter().map(number).collect(),
            last: braid.last().into_iter().map(number).collect(),
            slots_bytes: form.slots_bytes(),
            slice_bytes: form.slice().bytes(),
        })
    }

    /// Bytes of each buffer that it takes at least.
    pub(crate) fn slice_bytes(&self) -> usize {
        self.slice_bytes
    }

    /// Carries out the braid on `len` bytes of every buffer. The last slice may begin within the
    /// one before it: its work is done twice with the same result, because a slice writes each
    /// place before it reads it.
    ///
    /// # Safety
    ///
    /// The machine has the vectors. `buffer(i)` is valid for reads and writes of `len` bytes, a
    /// slice at least, and apart from the others, for every buffer of the braid.
    pub(crate) unsafe fn run(&self, streaming: bool, buffer: impl Fn(usize) -> *mut u8, len: usize) {
        let slice = self.slice_bytes;
        assert!(len >= slice, "the caller checks that there is a whole slice");
        let streaming = streaming && self.last.iter().all(|&i| buffer(i).addr().is_multiple_of(LINE));
        let ahead = if streaming { &self.ahead[..] } else { &[] };
        with_scratch(self.buffers.len() + ahead.len(), self.slots_bytes, |pointers, slots| {
            let named = self.buffers.iter().chain(ahead);
            pointers.iter_mut().zip(named).for_each(|(pointer, &i)| *pointer = buffer(i));
            let (pointers, slots) = (pointers.as_ptr(), slots.as_mut_ptr().cast());
            let function = self.entry(streaming);
            let whole = len / slice * slice;
            // SAFETY: the caller's promise for the buffers, of which those stored past the cache
            // start at a line; the slots are ours, and start at one. The code uses only registers
            // that a function may change.
            unsafe { function(pointers, 0, whole, slots) };
            if streaming {
                super::cpu::fence();
            }
            if whole < len {
                // SAFETY: as above.
                unsafe { self.entry(false)(pointers, len - slice, len, slots) };
            }
        });
    }

    fn entry(&self, streaming: bool) -> Entry {
        // SAFETY: both functions are of this type, and are not written any more.
        unsafe { std::mem::transmute::<*const u8, Entry>(self.functions.start(streaming)) }
    }
}

/// Sums as functions for columns of packets.
#[derive(Debug)]
pub(crate) struct PacketCode {
    functions: Functions,
    /// The columns whose pointers they take.
    columns: Vec<usize>,
    slots_bytes: usize,
}

impl PacketCode {
    /// As [`Code::new`]; `None` also if packets are not whole slices, or a column is so long that
    /// an instruction does not reach its last buffer.
    pub(crate) fn new(form: Form, packets: &Packets) -> Option<PacketCode> {
        if !packets.bytes().is_multiple_of(form.slice().bytes()) {
            return None;
        }
        let cells = form.buffers().iter().map(|&buffer| packets.cell(buffer));
        let mut columns: Vec<usize> = cells.clone().map(|(column, _)| column).collect();
        columns.sort_unstable();
        columns.dedup();
        if columns.iter().any(|&column| packets.group_bytes(column) > GROUP_BYTES_MOST) {
            return None;
        }
        let place = |column: usize| columns.partition_point(|&c| c < column);
        let layout = Columns {
            cells: cells.map(|(column, row)| (place(column), row)).collect(),
            rows: columns.iter().map(|&column| packets.rows(column)).collect(),
            packet_bytes: packets.bytes(),
            fetch_step: None,
        };
        let storing = assemble_columns(form, form.slice(), &layout, None);
        let functions = Functions::new(storing, assemble_streaming(form, &layout))?;
        let slots_bytes = form.slots_bytes().max(form.streaming_slots_bytes(form.streaming_slice(&layout)));
        Some(PacketCode { functions, columns, slots_bytes })
    }

    /// Computes the sums on `groups` packets of every buffer.
    ///
    /// # Safety
    ///
    /// The machine has the vectors. `column(c)` is valid for reads and writes of `groups` packets
    /// of each of its buffers, and apart from the others, for every column in which a sum has a
    /// buffer. Streaming code gets whole lines: [`Packets::has_lines`].
    pub(crate) unsafe fn run(&self, streaming: bool, column: impl Fn(usize) -> *mut u8, groups: usize) {
        if groups == 0 {
            return;
        }
        with_scratch(self.columns.len(), self.slots_bytes, |pointers, slots| {
            pointers.iter_mut().zip(&self.columns).for_each(|(pointer, &c)| *pointer = column(c));
            // SAFETY: both functions are of this type, and are not written any more.
            let function =
                unsafe { std::mem::transmute::<*const u8, PacketEntry>(self.functions.start(streaming)) };
            // SAFETY: the caller's promise for the columns, which start at lines if they are stored
            // past the cache; the slots are ours, and start at one. The code uses only its stack,
            // of some hundred bytes, and registers that it restores where a function must.
            unsafe { function(pointers.as_ptr(), groups, slots.as_mut_ptr().cast()) };
            if streaming {
                super::cpu::fence();
            }
        });
    }
}

/// Bytes of a column from one packet of each of its buffers, at most: this and some packets ahead
/// are within reach of a displacement.
const GROUP_BYTES_MOST: usize = i32::MAX as usize / (3 + AHEAD_MOST);

fn pair_of(column: usize) -> Group {
    2 * column as Group
}

/// The machine code of a braid for buffers that are anywhere, which streams if there are tiles.
fn assemble(braid: &Braid, tile: Option<Tile>) -> Vec<u8> {
    let form = Form::Braid(braid);
    let spread = |tile: &Tile| Spread::new(tile.of_slice, form.terms());
    let streams = tile.map(|tile| Fetch::Tiles { spread: spread(&tile), tile });
    assembled(form, Assembler::new(form.slice(), tile.as_ref()), streams)
}

/// The machine code of a form for columns of packets, which streams if it fetches.
fn assemble_columns(form: Form, slice: Slice, columns: &Columns, ahead: Option<Ahead>) -> Vec<u8> {
    let columns = Columns { fetch_step: ahead.as_ref().map(|ahead| ahead.step), ..columns.clone() };
    let terms = form.terms() * usize::from(slice.count / form.slice().count);
    let streams = ahead.map(|Ahead { lines, .. }| {
        let spread = Spread::new(lines.len(), terms);
        Fetch::Packets { into: fetched_into(), lines, spread }
    });
    assembled(form, Assembler::of_columns(slice, columns), streams)
}

/// As [`assemble_columns`], to stream.
fn assemble_streaming(form: Form, columns: &Columns) -> Vec<u8> {
    let slice = form.streaming_slice(columns);
    let ahead = Ahead::new(form, slice, columns, Kind::of_this_processor());
    assemble_columns(form, slice, columns, Some(ahead))
}

fn assembled(form: Form, code: Assembler, streams: Option<Fetch>) -> Vec<u8> {
    match form {
        Form::Braid(braid) => braided(braid, code, streams),
        Form::Straight(straight) => straightened(straight, code, streams),
    }
}

fn straightened(straight: &Straight, mut code: Assembler, mut streams: Option<Fetch>) -> Vec<u8> {
    let halves = code.slice().count;
    // Not where slices are no whole lines, of which the rest would come too late.
    let stores_past = streams.is_some() && code.slice().bytes().is_multiple_of(LINE);
    // Where a slice has two vectors, the results of the first wait in slots past the line's own,
    // and are read there.
    let waiting = if halves > 1 { straight.targets() } else { Vec::new() };
    let slot_of = |buffer: usize| waiting.iter().position(|&target| target == buffer);
    let place = |place: Place| match place {
        Place::Buffer(buffer) => slot_of(buffer).map_or(place, |slot| Place::Slot(straight.slots + slot)),
        Place::Slot(_) => place,
    };
    code.reserve(usize::from(halves) * straight.ops.len() + 4 * waiting.len());
    for half in 0..halves {
        if halves > 1 {
            code.take_half(half);
        }
        for &op in &straight.ops {
            if op.reads().is_some() {
                streams.iter_mut().for_each(|streams| streams.before_a_term(&mut code));
            }
            match op {
                Op::Zero(to) => code.zero(to),
                Op::Copy(to, from) => code.copy(to, from),
                Op::Load(to, from) => code.load(to, place(from)),
                Op::Add(to, other, from) => code.sum(to, Some(other), place(from)),
                Op::Sum(to, [one, other]) => code.sum_of(to, one, other),
                Op::Store(from, to) if to.is_last && stores_past && halves == 1 => {
                    code.store_past(from, to.place);
                }
                Op::Store(from, to) => code.store(from, place(to.place)),
            }
        }
    }
    // Line by line. No register is in use any more.
    for (slot, &buffer) in waiting.iter().enumerate() {
        for half in 0..halves {
            code.take_half(half);
            code.load(half, Place::Slot(straight.slots + slot));
        }
        for half in 0..halves {
            code.take_half(half);
            code.store_past(half, Place::Buffer(buffer));
        }
    }
    assert!(streams.is_none_or(|streams| streams.has_fetched_all()), "each term fetches its share");
    code.finished()
}

fn braided(braid: &Braid, code: Assembler, streams: Option<Fetch>) -> Vec<u8> {
    let [row_pair, read_pair] = own_pairs(braid.vectors);
    let mut sums = Sums { row: row_pair, read: read_pair, code, streams, kept: Vec::new() };
    // Pairs that no batch has columns for: rows may wait there. Beside several batches there are
    // none, for the last is full.
    let columns = braid.batches.iter().map(|batch| batch.starts.len()).max().unwrap_or(0);
    let mut free = (columns..).map(pair_of).take_while(|&pair| pair < row_pair).peekable();
    for batch in &braid.batches {
        let mut held: Vec<bool> = batch.starts.iter().map(Option::is_some).collect();
        for (j, start) in batch.starts.iter().enumerate() {
            start.iter().for_each(|&start| sums.code.load(pair_of(j), start));
        }
        for row in &batch.rows {
            sums.sweep(row, &mut held);
            match free.next_if(|_| matches!(row.to.place, Place::Slot(_))) {
                Some(pair) => {
                    sums.code.copy(pair, row_pair);
                    sums.keep(row.to.place, pair);
                }
                None => sums.store(row_pair, row.to),
            }
        }
        (0..held.len()).filter(|&j| !held[j]).for_each(|j| sums.code.zero(pair_of(j)));
        batch.to.iter().enumerate().for_each(|(j, &to)| sums.store(pair_of(j), to));
    }
    let (mut before, mut next) = (None, row_pair);
    for link in &braid.links {
        let carried = before.filter(|_| link.carries);
        let to = match link.of {
            Unfinished::Column(j) => {
                carried.iter().for_each(|&before| sums.code.sum_of(pair_of(j), pair_of(j), before));
                pair_of(j)
            }
            Unfinished::Waiting(own) => {
                let to = next;
                next = row_pair + read_pair - next;
                sums.kept.retain(|&(_, pair)| pair != to);
                sums.add(to, carried, own);
                to
            }
        };
        link.late.iter().for_each(|&term| sums.add(to, Some(to), term));
        sums.store(to, link.to);
        sums.keep(link.to.place, to);
        before = Some(to);
    }
    assert!(sums.streams.is_none_or(|streams| streams.has_fetched_all()), "each term fetches its share");
    sums.code.finished()
}

/// Code in the making, and the content of registers while it runs.
struct Sums {
    code: Assembler,
    /// The fetches of streaming code.
    streams: Option<Fetch>,
    /// Sums by their places: of columns to the end, of rows until their pair is taken again.
    kept: Vec<(Place, Group)>,
    /// The pairs of the row and of the source.
    row: Group,
    read: Group,
}

impl Sums {
    /// Emits the fetches due before a term is read.
    fn fetch(&mut self) {
        self.streams.iter_mut().for_each(|streams| streams.before_a_term(&mut self.code));
    }

    /// Stores a pair. Other pairs no longer hold the content of the place.
    fn store(&mut self, from: Group, to: Target) {
        self.kept.retain(|kept| kept.0 != to.place);
        match to.is_last && self.streams.is_some() {
            true => self.code.store_past(from, to.place),
            false => self.code.store(from, to.place),
        }
    }

    /// A pair as the sum of one, if any, and a term, from wherever it is.
    fn add(&mut self, to: Group, other: Option<Group>, term: Place) {
        let kept = self.kept.iter().find(|kept| kept.0 == term).map(|kept| kept.1);
        match (kept, other) {
            (Some(pair), Some(other)) => self.code.sum_of(to, other, pair),
            (Some(pair), None) => self.code.copy(to, pair),
            (None, other) => self.code.sum(to, other, term),
        }
    }

    /// Notes that only this pair holds the content of a place: a row that is not an output goes
    /// back to the slot where it waited.
    fn keep(&mut self, place: Place, pair: Group) {
        self.kept.retain(|kept| kept.0 != place);
        self.kept.push((place, pair));
    }

    /// Leaves the sum of a row in the pair of the row, and adds its cells to their columns. The
    /// first source stays in the register into which it is read.
    fn sweep(&mut self, row: &Row, held: &mut [bool]) {
        let (row_pair, read_pair) = (self.row, self.read);
        let mut has_sum = false;
        for &term in &row.plain {
            self.fetch();
            // The reads of a row are not kept yet: rows of several batches wait in slots.
            self.code.sum(row_pair, has_sum.then_some(row_pair), term);
            has_sum = true;
        }
        for (j, cell) in row.cells.iter().enumerate() {
            let Some(cell) = *cell else { continue };
            let to = match (held[j], has_sum) {
                (false, _) => pair_of(j),
                (true, false) => row_pair,
                (true, true) => read_pair,
            };
            self.fetch();
            self.code.load(to, cell);
            if to != row_pair {
                self.add_or_copy(&mut has_sum, row_pair, to);
            }
            if to != pair_of(j) {
                self.code.sum_of(pair_of(j), pair_of(j), to);
            }
            (held[j], has_sum) = (true, true);
        }
        if !has_sum {
            self.code.zero(row_pair);
        }
        row.forwards.iter().for_each(|&j| self.add_or_copy(&mut held[j], pair_of(j), row_pair));
    }

    /// Adds to a pair that holds something, or makes it hold the other.
    fn add_or_copy(&mut self, holds: &mut bool, to: Group, from: Group) {
        match *holds {
            true => self.code.sum_of(to, to, from),
            false => self.code.copy(to, from),
        }
        *holds = true;
    }
}

#[cfg(test)]
mod disassembled;

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::arch::x86_64::ahead::tests::braids;

    #[test]
    fn the_code_fetches_what_the_table_has_for_a_slice_and_nothing_else() {
        for braid in braids() {
            let (tile, ahead) = fetched(&braid);
            assert_eq!(ahead.len(), tile.slices * tile.of_slice);
            let code = assemble(&braid, Some(tile));
            let numbers_after = |instruction: &[u8]| -> Vec<i32> {
                let len = instruction.len();
                let found = code.windows(len + 4).filter(|bytes| bytes[..len] == *instruction);
                found.map(|bytes| i32::from_le_bytes(bytes[len..].try_into().unwrap())).collect()
            };
            let pointers: Vec<i32> = (0..tile.of_slice as i32).map(|which| 8 * which).collect();
            assert_eq!(numbers_after(&[0x4d, 0x8b, 0x90]), pointers, "mov r10, [r8 + ..]");
            let first = 8 * braid.buffers.len() as i32;
            assert_eq!(numbers_after(&[0x4d, 0x8d, 0x84, 0x38]), [first], "lea r8, [r8 + rdi + ..]");
            assert_eq!(numbers_after(&[0x4d, 0x69, 0xc0]), [8 * tile.of_slice as i32], "imul r8, r8, ..");
        }
    }
}
