//! The machine code of [`crate::code::braid`] and of [`crate::code::straight`], with AVX2 or
//! AVX-512. It is assembled for each program after some use.
//!
//! A straight line defines each instruction; it has code only for columns of packets. In a braid,
//! held sum j is in registers 2j and 2j + 1. The last four registers are for the swept sum and the
//! source, and later for sums of rows in turn. Places are constants in the code. Empty cells have
//! no code, a column or a row starts with its first load, and a sum that is still in a register is
//! not loaded again. Rows that are finished late wait in registers that no column needs, or in
//! slots.
//!
//! If the system forbids execution of written memory (SELinux without `execmem`,
//! `MemoryDenyWriteExecute` of systemd), there is no code, and [`crate::xor_rows`] is used.

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

/// Returns the register pairs that no column uses: that of the row, and that of the source.
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

    /// Returns the buffers in use, ascending.
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

    /// Returns the slice of code that streams columns of packets: a whole line, if the usual slice
    /// is less and the code does not become too long. If the halves of a line are stored past the
    /// cache separately, the first has left before the second comes. Zen 3, bit matrices of w = 4,
    /// 1 MiB, encode: 0.65 of the limit with stores to the cache, 0.96 past it by whole lines.
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

    /// Returns the bytes of slots for code with this slice.
    pub(super) fn streaming_slots_bytes(self, slice: Slice) -> usize {
        match self {
            Form::Straight(straight) if slice != self.slice() => {
                (straight.slots + straight.targets().len()) * slice.bytes()
            }
            _ => self.slots_bytes(),
        }
    }

    /// Returns the buffers that the code writes, as indices in `buffers`.
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

/// Two functions with the same results: one stores to the cache, the other past it.
#[derive(Debug)]
struct Functions {
    code: Executable,
    /// The offset of the function that stores past the cache; the other one is at 0.
    streaming: usize,
}

impl Functions {
    /// Returns `None` if the system gives no executable memory, or if the process has the most
    /// pieces of code already.
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

/// The functions of a braid, for separate buffers.
#[derive(Debug)]
pub(crate) struct Code {
    functions: Functions,
    /// The buffers whose pointers the functions take.
    buffers: Vec<usize>,
    /// The buffers that are fetched ahead, for one tile.
    ahead: Vec<usize>,
    /// The buffers that may be stored past the cache.
    last: Vec<usize>,
    slots_bytes: usize,
    slice_bytes: usize,
}

impl Code {
    /// Compiles a braid; `None` as [`Functions::new`]. The machine must have AVX2, or AVX-512 F for
    /// such vectors.
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

    /// Returns the least length of a buffer in bytes.
    pub(crate) fn slice_bytes(&self) -> usize {
        self.slice_bytes
    }

    /// Runs the braid on `len` bytes of every buffer. The last slice may overlap the one before it.
    /// Repeating the work gives the same result, because a slice writes each place before it reads
    /// it.
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

/// The functions of sums, for columns of packets.
#[derive(Debug)]
pub(crate) struct PacketCode {
    functions: Functions,
    /// The columns whose pointers the functions take.
    columns: Vec<usize>,
    slots_bytes: usize,
}

impl PacketCode {
    /// Compiles a form. `None` as [`Code::new`], and also if packets are not whole slices, or if a
    /// column is so long that an instruction cannot address its last buffer.
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

    /// Computes the sums for `groups` packets of every buffer.
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

/// The most bytes of one packet of each buffer of a column: a displacement can address these and
/// some packets ahead.
const GROUP_BYTES_MOST: usize = i32::MAX as usize / (3 + AHEAD_MOST);

fn pair_of(column: usize) -> Group {
    2 * column as Group
}

/// Returns the machine code of a braid for separate buffers; it streams if there is a tile.
fn assemble(braid: &Braid, tile: Option<Tile>) -> Vec<u8> {
    let form = Form::Braid(braid);
    let spread = |tile: &Tile| Spread::new(tile.of_slice, form.terms());
    let streams = tile.map(|tile| Fetch::Tiles { spread: spread(&tile), tile });
    assembled(form, Assembler::new(form.slice(), tile.as_ref()), streams)
}

/// Returns the machine code of a form for columns of packets; it streams if it fetches ahead.
fn assemble_columns(form: Form, slice: Slice, columns: &Columns, ahead: Option<Ahead>) -> Vec<u8> {
    let columns = Columns { fetch_step: ahead.as_ref().map(|ahead| ahead.step), ..columns.clone() };
    let terms = form.terms() * usize::from(slice.count / form.slice().count);
    let streams = ahead.map(|Ahead { lines, .. }| {
        let spread = Spread::new(lines.len(), terms);
        Fetch::Packets { into: fetched_into(), lines, spread }
    });
    assembled(form, Assembler::of_columns(slice, columns), streams)
}

/// Works like [`assemble_columns`], for code that streams.
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
    // Results go past the cache only if slices are whole lines; otherwise the rest of a line would
    // come too late.
    let stores_past = streams.is_some() && code.slice().bytes().is_multiple_of(LINE);
    // If the line runs once for each of two vectors, its results wait in slots after its other
    // slots, and later steps read them there.
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
    // Stores the waiting results, line by line. No register is in use any more.
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
    // Register pairs that no batch uses for columns: rows may wait there. With several batches
    // there are none, because the last batch is full.
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

/// Code that is being emitted, with the content of registers at this point.
struct Sums {
    code: Assembler,
    /// The fetches of streaming code.
    streams: Option<Fetch>,
    /// Places whose content is also in a register pair: for columns to the end, for rows until the
    /// pair is used again.
    kept: Vec<(Place, Group)>,
    /// The register pairs of the row and of the source.
    row: Group,
    read: Group,
}

impl Sums {
    /// Emits the fetches that come before the next term.
    fn fetch(&mut self) {
        self.streams.iter_mut().for_each(|streams| streams.before_a_term(&mut self.code));
    }

    /// Emits a store of a pair. Other pairs then no longer have the content of the place.
    fn store(&mut self, from: Group, to: Target) {
        self.kept.retain(|kept| kept.0 != to.place);
        match to.is_last && self.streams.is_some() {
            true => self.code.store_past(from, to.place),
            false => self.code.store(from, to.place),
        }
    }

    /// Emits: a pair becomes the sum of another pair, if any, and a term, which is read from a
    /// register if it is in one.
    fn add(&mut self, to: Group, other: Option<Group>, term: Place) {
        let kept = self.kept.iter().find(|kept| kept.0 == term).map(|kept| kept.1);
        match (kept, other) {
            (Some(pair), Some(other)) => self.code.sum_of(to, other, pair),
            (Some(pair), None) => self.code.copy(to, pair),
            (None, other) => self.code.sum(to, other, term),
        }
    }

    /// Records that only this pair has the content of a place. A place can get new content: a row
    /// that is not an output goes back to the slot in which it waited.
    fn keep(&mut self, place: Place, pair: Group) {
        self.kept.retain(|kept| kept.0 != place);
        self.kept.push((place, pair));
    }

    /// Emits a sweep: leaves the sum of a row in the pair of the row, and adds its cells to their
    /// columns. The first source stays in the register into which it is read.
    fn sweep(&mut self, row: &Row, held: &mut [bool]) {
        let (row_pair, read_pair) = (self.row, self.read);
        let mut has_sum = false;
        for &term in &row.plain {
            self.fetch();
            // The terms of a row are never in registers already: rows of several batches wait in
            // slots.
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

    /// Emits an addition to a pair, or a copy if the pair is still empty.
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
