//! The code of [`crate::braid`] and of [`crate::straight`]: AVX2 or AVX-512, assembled for each program once it is worth it.
//!
//! A straight line says itself what each instruction is; there is code of it for columns of packets alone. Of a braid, held sum j lies in registers 2j and 2j + 1; the last four are the swept sum and what is read, and later sums of rows in
//! turn. Where what is, is known while the code is made: cells that are empty have none, a column or a row starts with its first load,
//! a sum that a register still holds is not loaded again, and rows that are finished late wait in registers that no column needs
//! before they wait in slots.
//!
//! Where the system forbids to execute memory that was written (SELinux without `execmem`, `MemoryDenyWriteExecute` of systemd),
//! there is no code, and a [`crate::weave`] does the work.

use std::ops::Range;

use super::assembler::{Assembler, CODE_ALIGN_BYTES, Columns, Entry, Group, Level, PacketEntry, Slice, Tile};
use super::{Kind, LINE};
use crate::braid::{Braid, Place, Row, Target, Unfinished, Vectors};
use crate::dispatch::Form;
use crate::executable::Executable;
use crate::packets::Packets;
use crate::parts::Parts;
use crate::scratch::with_scratch;
use crate::straight::{OPS_MOST, Op, Straight};
use crate::sums::{SharedSums, Steps};

/// The pairs that no column has: of the row, and of what is read.
fn own_pairs(vectors: Vectors) -> [Group; 2] {
    [pair_of(vectors.held_most()), pair_of(vectors.held_most() + 1)]
}

/// What a tile of all streams may hold, if it has more than the 256 bytes of each that it has at least. AVX-512, Zen 4, chunks of 1 MiB, tiles of 256, 512, 1024 bytes of each stream, share of the limit:
/// D-Code(7) 0.75, 0.78, 0.86; D-Code(13) 0.87, 0.86, 0.84; RDP(14) 0.83, 0.88, 0.81; D-Code(17) 0.81, 0.69, 0.69; RDP(18) 0.93, 0.81, 0.75; D-Code(23) 0.74, 0.70,
/// 0.61. Sapphire Rapids, D-Code(13), 256 bytes to 2 KiB: 0.97, 0.99, 0.94, 0.90; nothing fetched ahead: 0.77 (there), 0.35 (Zen 4). AVX2, Zen 3, D-Code(13): 0.5, 0.56, 0.45;
/// D-Code(7): 0.66, 0.6, 0.57. Ice Lake, into the first-level cache, GB/s: D-Code(13) 10.3, 12.6, 11.5; RDP(14) 11.8, 14.3, 13.1; D-Code(7) 15.3, 15.9, 14.3.
const TILES_BYTES: usize = 96 * 1024;

impl<'a> Form<'a> {
    fn slice(self) -> Slice {
        match self {
            Form::Braid(braid) => Slice { vectors: braid.vectors, count: 2 },
            Form::Straight(straight) => Slice { vectors: straight.vectors, count: 1 },
        }
    }

    /// The buffers in use, ascending.
    fn buffers(self) -> &'a [usize] {
        match self {
            Form::Braid(braid) => &braid.buffers,
            Form::Straight(straight) => &straight.buffers,
        }
    }

    fn slots_bytes(self) -> usize {
        let slots = match self {
            Form::Braid(braid) => braid.slots,
            Form::Straight(straight) => straight.slots,
        };
        slots * self.slice().bytes()
    }

    /// The slice of code that streams columns of packets: whole lines, if its own is less and that is not too much code. Where each half of a line goes past the cache on its own, the
    /// second comes when the first has left. Zen 3, bit matrices of w = 4, 1 MiB, encode: 0.65 of the limit stored to the cache, 0.96 past it by lines.
    fn streaming_slice(self, columns: &Columns) -> Slice {
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
    fn streaming_slots_bytes(self, slice: Slice) -> usize {
        match self {
            Form::Straight(straight) if slice != self.slice() => {
                (straight.slots + straight.targets().len()) * slice.bytes()
            }
            _ => self.slots_bytes(),
        }
    }

    /// Buffers that it writes, by their numbers in `buffers`.
    fn targets(self) -> Vec<usize> {
        match self {
            Form::Braid(braid) => braid.targets(),
            Form::Straight(straight) => straight.targets(),
        }
    }

    /// What it reads, before which something may be fetched.
    fn terms(self) -> usize {
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
    /// Where either begins, if it was made.
    storing: Option<usize>,
    streaming: Option<usize>,
}

impl Functions {
    /// `None` if the system gives no memory that may be executed, or the process has as many pieces of code as it may.
    fn new(mut storing: Vec<u8>, streaming: Vec<u8>) -> Option<Functions> {
        let second = storing.len().next_multiple_of(CODE_ALIGN_BYTES);
        storing.resize(second, 0xcc); // int3
        storing.extend(streaming);
        Some(Functions { code: Executable::new(&storing)?, storing: Some(0), streaming: Some(second) })
    }

    /// As `new`, of one alone.
    fn one(code: Vec<u8>, streaming: bool) -> Option<Functions> {
        let [storing, streaming] = [!streaming, streaming].map(|is_it| is_it.then_some(0));
        Some(Functions { code: Executable::new(&code)?, storing, streaming })
    }

    /// Panics if it was not made.
    fn start(&self, streaming: bool) -> *const u8 {
        let at = if streaming { self.streaming } else { self.storing };
        self.code.start().wrapping_add(at.expect("who makes one function runs that one"))
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

    /// Carries out the braid on `len` bytes of every buffer. The last slice may begin within the one before it: what it does again comes
    /// out the same, because whatever a slice makes it makes before it reads it.
    ///
    /// # Safety
    ///
    /// The machine has the vectors. `buffer(i)` is valid for reads and writes of `len` bytes, a slice at least, and apart from the
    /// others, for every buffer of the braid.
    pub(crate) unsafe fn run(&self, streaming: bool, buffer: impl Fn(usize) -> *mut u8, len: usize) {
        let slice = self.slice_bytes;
        assert!(len >= slice, "whoever runs code looks whether there is a slice");
        let streaming = streaming && self.last.iter().all(|&i| buffer(i).addr().is_multiple_of(LINE));
        let ahead = if streaming { &self.ahead[..] } else { &[] };
        with_scratch(self.buffers.len() + ahead.len(), self.slots_bytes, |pointers, slots| {
            let named = self.buffers.iter().chain(ahead);
            pointers.iter_mut().zip(named).for_each(|(pointer, &i)| *pointer = buffer(i));
            let (pointers, slots) = (pointers.as_ptr(), slots.as_mut_ptr().cast());
            let function = self.entry(streaming);
            let whole = len / slice * slice;
            // SAFETY: the caller's promise for the buffers, of which those that are stored past the cache start a line; the slots
            // are ours, and start one. The code touches nothing else but registers that a function may.
            unsafe { function(pointers, 0, whole, slots) };
            if streaming {
                super::fence();
            }
            if whole < len {
                // SAFETY: as above.
                unsafe { self.entry(false)(pointers, len - slice, len, slots) };
            }
        });
    }

    fn entry(&self, streaming: bool) -> Entry {
        // SAFETY: both functions are of this type, and nobody writes to them any more.
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
    /// As [`Code::new`]; `None` also if packets are not whole slices, or a column is so long that an instruction does not reach its last buffer.
    pub(crate) fn new(form: Form, packets: &Packets) -> Option<PacketCode> {
        PacketCode::with(form, packets, |layout| {
            let storing = assemble_columns(form, form.slice(), layout, None);
            Functions::new(storing, assemble_streaming(form, layout))
        })
    }

    /// Of one function alone, which is to be run with the same stores.
    pub(crate) fn draft(line: &Straight, packets: &Packets, streaming: bool) -> Option<PacketCode> {
        let form = Form::Straight(line);
        PacketCode::with(form, packets, |layout| {
            let code = match streaming {
                true => assemble_streaming(form, layout),
                false => assemble_columns(form, form.slice(), layout, None),
            };
            Functions::one(code, streaming)
        })
    }

    fn with(
        form: Form,
        packets: &Packets,
        functions: impl FnOnce(&Columns) -> Option<Functions>,
    ) -> Option<PacketCode> {
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
        let functions = functions(&layout)?;
        let slots_bytes = form.slots_bytes().max(form.streaming_slots_bytes(form.streaming_slice(&layout)));
        Some(PacketCode { functions, columns, slots_bytes })
    }

    /// Computes the sums on `groups` packets of every buffer.
    ///
    /// # Safety
    ///
    /// The machine has the vectors. `column(c)` is valid for reads and writes of so many packets of each of its buffers, and apart from the others, for every column in
    /// which a sum has a buffer. What streams has lines: [`Packets::has_lines`].
    pub(crate) unsafe fn run(&self, streaming: bool, column: impl Fn(usize) -> *mut u8, groups: usize) {
        if groups == 0 {
            return;
        }
        with_scratch(self.columns.len(), self.slots_bytes, |pointers, slots| {
            pointers.iter_mut().zip(&self.columns).for_each(|(pointer, &c)| *pointer = column(c));
            // SAFETY: both functions are of this type, and nobody writes to them any more.
            let function =
                unsafe { std::mem::transmute::<*const u8, PacketEntry>(self.functions.start(streaming)) };
            // SAFETY: the caller's promise for the columns, which start lines where they are stored past the cache; the slots are ours, and start one. The
            // code touches nothing else but its stack, of some hundred bytes, and registers that it gives back where a function must.
            unsafe { function(pointers.as_ptr(), groups, slots.as_mut_ptr().cast()) };
            if streaming {
                super::fence();
            }
        });
    }
}

/// Sums over parts of columns of packets, each as a function of its own.
#[derive(Debug)]
pub(crate) struct PartsCode {
    /// Of which none streams.
    parts: Vec<PacketCode>,
    packets: Packets,
    /// Columns that are the caller's; the others are of sums that a part leaves to the next.
    own: usize,
    /// Groups that a part takes before the next one does.
    groups: usize,
    /// Of them, a column of sums.
    left_bytes: usize,
}

/// What a part leaves to the next at most: a line of each set of a first-level cache.
const LEFT_BYTES: usize = 4096;

impl PartsCode {
    /// As [`PacketCode::new`]; `None` also if sums of one group are more than stay near, if parts are too many sums for a line, and on processors where it was not measured.
    pub(crate) fn new(parts: Parts, vectors: Vectors) -> Option<PartsCode> {
        let group = parts.packets.group_bytes(parts.own);
        if Kind::of_this_processor() != Kind::Zen3 || group > LEFT_BYTES {
            return None;
        }
        let code = |steps: &Steps| {
            let straight = Straight::new(&SharedSums::new(steps), vectors)?;
            PacketCode::draft(&straight, &parts.packets, false)
        };
        let groups = LEFT_BYTES / group;
        Some(PartsCode {
            parts: parts.steps.iter().map(code).collect::<Option<_>>()?,
            left_bytes: (groups * group).next_multiple_of(LINE),
            groups,
            own: parts.own,
            packets: parts.packets,
        })
    }

    /// As [`PacketCode::run`], through the cache.
    ///
    /// # Safety
    ///
    /// As [`PacketCode::run`].
    pub(crate) unsafe fn run(&self, column: impl Fn(usize) -> *mut u8, groups: usize) {
        let places = self.parts.iter().map(|part| part.columns.len()).sum();
        let slots_bytes = self.parts.iter().map(|part| part.slots_bytes).max().unwrap_or(0);
        let slots_bytes = slots_bytes.next_multiple_of(LINE);
        let left_bytes = self.left_bytes * (self.packets.columns() - self.own);
        with_scratch(places, slots_bytes + left_bytes, |pointers, lines| {
            let slots = lines.as_mut_ptr().cast::<u8>();
            let left = |c: usize| slots.wrapping_add(slots_bytes + (c - self.own) * self.left_bytes);
            let named = || self.parts.iter().flat_map(|part| &part.columns);
            pointers
                .iter_mut()
                .zip(named())
                .for_each(|(pointer, &c)| *pointer = if c < self.own { column(c) } else { left(c) });
            let mut at = 0;
            while at < groups {
                let taken = self.groups.min(groups - at);
                let mut of_part = pointers.as_ptr();
                for part in &self.parts {
                    // SAFETY: as in `PacketCode::run`. A column of sums has `groups` packets of each of its buffers, which is at least what is taken.
                    unsafe {
                        let function =
                            std::mem::transmute::<*const u8, PacketEntry>(part.functions.start(false));
                        function(of_part, taken, slots.cast());
                    }
                    of_part = of_part.wrapping_add(part.columns.len());
                }
                for (pointer, &c) in pointers.iter_mut().zip(named()).filter(|(_, c)| **c < self.own) {
                    *pointer = pointer.wrapping_add(taken * self.packets.group_bytes(c));
                }
                at += taken;
            }
        });
    }
}

/// What a column may have of one packet of each of its buffers, and of some ahead: within reach of a displacement.
const GROUP_BYTES_MOST: usize = i32::MAX as usize / (3 + AHEAD_MOST);

fn pair_of(column: usize) -> Group {
    2 * column as Group
}

/// What a tile has of each of so many streams: as much as [`TILES_BYTES`] take.
fn tile_bytes(streams: usize) -> usize {
    1 << (TILES_BYTES / streams.max(1)).clamp(256, 1024).ilog2()
}

/// What a braid fetches ahead of buffers that are anywhere: its tiles, and the buffers of which the slices of one fetch the next, slice after slice. These are all that are
/// read before they are written.
fn fetched(braid: &Braid) -> (Tile, Vec<usize>) {
    let made = braid.targets();
    let read: Vec<usize> = (0..braid.buffers.len()).filter(|buffer| !made.contains(buffer)).collect();
    let slices = tile_bytes(read.len()) / Form::Braid(braid).slice().bytes();
    let of_slice = read.len().div_ceil(slices);
    // What is left of the list names the last one again.
    let ahead = (0..slices * of_slice).map(|i| read[i.min(read.len() - 1)]).collect();
    (Tile { into: fetched_into(), slices, of_slice, pointers: braid.buffers.len() }, ahead)
}

/// The cache that tiles are fetched into. Chunks of 1 MiB, GB/s, into the second-level cache and into the first: Ice Lake, D-Code(13) 10.2 and 12.6, RDP(14) 11.3 and 14.2, RDP(18) 9.6 and 11.8; AVX2 11.0 and
/// 13.6, 11.0 and 14.1, 9.2 and 12.6; a stripe that the third-level cache holds loses 2 to 6 % by it. Sapphire Rapids: 0.94 to 0.99 of the limit and 0.81. Others were not measured.
fn fetched_into() -> Level {
    match Kind::of_this_processor() {
        Kind::IceLake => Level::First,
        Kind::SapphireRapids | Kind::Zen3 | Kind::Zen4 | Kind::Zen5 => Level::Second,
    }
}

/// What lies between what is read and what is fetched, if that is more than one packet of each buffer. Ice Lake, D-Code(13), packets of 128 bytes (22 KB), 64 KiB of each column from memory, GB/s of encode and two
/// columns lost: one ahead 12.5 and 13.4, two 14.1 and 14.0, none 8.9 and 12.9.
const AHEAD_BYTES: usize = 48 * 1024;

/// Packets ahead at most.
const AHEAD_MOST: usize = 8;

/// The machine code of a braid for buffers that are anywhere, which streams if there are tiles.
fn assemble(braid: &Braid, tile: Option<Tile>) -> Vec<u8> {
    let form = Form::Braid(braid);
    let spread = |tile: &Tile| Spread { of: tile.of_slice, terms: form.terms(), swept: 0, done: 0 };
    let streams = tile.map(|tile| Fetch::Tiles { spread: spread(&tile), tile });
    assembled(form, Assembler::new(form.slice(), tile.as_ref()), streams)
}

/// The same for columns of packets, which streams if it fetches.
fn assemble_columns(form: Form, slice: Slice, columns: &Columns, ahead: Option<Ahead>) -> Vec<u8> {
    let columns = Columns { fetch_step: ahead.as_ref().map(|ahead| ahead.step), ..columns.clone() };
    let terms = form.terms() * usize::from(slice.count / form.slice().count);
    let streams = ahead.map(|Ahead { lines, .. }| {
        let spread = Spread { of: lines.len(), terms, swept: 0, done: 0 };
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

/// What the slices of a packet fetch of the packets ahead.
struct Ahead {
    /// Of the first slice, as columns and places from where the packets of the column begin. Two lines of each column in turn: column after column, from memory, Ice Lake, D-Code(13) in packets of 128 bytes 14.2 -> 11.3 GB/s
    /// (encode), 16.8 -> 13.2 (two lost); AVX2 13.3 -> 11.7, 15.7 -> 13.0.
    lines: Vec<(usize, i32)>,
    /// How much further each next slice fetches.
    step: i32,
}

impl Ahead {
    fn new(form: Form, slice: Slice, columns: &Columns, kind: Kind) -> Ahead {
        let group: usize = columns.rows.iter().map(|rows| rows * columns.packet_bytes).sum();
        let (groups, (lines, step)) = match kind {
            Kind::Zen3 => (1, Ahead::parts(form, slice, columns)),
            _ => ((AHEAD_BYTES / group.max(1)).clamp(1, AHEAD_MOST), Ahead::packets(form, slice, columns)),
        };
        let begin = |column: usize| groups * columns.rows[column] * columns.packet_bytes;
        let mut lines: Vec<(usize, i32)> =
            lines.into_iter().map(|(column, at)| (column, (begin(column) + at) as i32)).collect();
        lines.sort_by_key(|&(column, at)| ((at as usize - begin(column)) / (2 * LINE), column));
        Ahead { lines, step: step as i32 }
    }

    /// Each slice takes whole packets, and other ones: of S slices the first takes those of rows 0, S, 2 S, and so on, the second those of rows 1, S + 1, 2 S + 1. So memory sees
    /// runs of some lines, where a slice reads a line or two of each packet. Rows that are mostly not read are left out, S at a time.
    fn packets(form: Form, slice: Slice, columns: &Columns) -> (Vec<(usize, usize)>, usize) {
        let slices = columns.packet_bytes / slice.bytes();
        let is_read = rows_read(form, columns);
        let mut lines = Vec::new();
        for (column, &rows) in columns.rows.iter().enumerate() {
            for first in (0..rows).step_by(slices) {
                let of_block = first..rows.min(first + slices);
                let read = of_block.clone().filter(|&row| is_read[column][row]).count();
                if 2 * read >= of_block.len() {
                    let start = first * columns.packet_bytes;
                    lines.extend((0..columns.packet_bytes).step_by(LINE).map(|at| (column, start + at)));
                }
            }
        }
        (lines, columns.packet_bytes)
    }

    /// Each slice takes a part of the column, the first the first, up to the last row that is read of any: what hardware goes on with by itself. Zen 3 gives up fetches that it has no room for (a loop of nothing
    /// else runs at 40 to 55 GB/s, loads at 17 to 20), and follows 13 streams of ascending lines well. D-Code(13) from memory, staggered, encode and two columns lost, GB/s, a busy host, two runs: packets of 128
    /// bytes, whole packets two ahead 8.0 and 8.5, 6.9 and 7.7, one ahead 9.5 and 11.5, 7.5 and 7.7, parts 10.9 and 11.5, 9.7 and 10.3; of 512 bytes 7.7 and 8.5, 5.1 and 6.2; 9.3 and 7.9, 6.8 and 7.6; 11.0 and 9.4, 8.4 and
    /// 7.0 (limit 14 to 22). Loads in place of fetches are no better.
    fn parts(form: Form, slice: Slice, columns: &Columns) -> (Vec<(usize, usize)>, usize) {
        let slices = columns.packet_bytes / slice.bytes();
        let is_read = rows_read(form, columns);
        let rows = is_read.iter().filter_map(|rows| rows.iter().rposition(|&is_read| is_read)).max();
        let step = (rows.map_or(0, |last| last + 1) * columns.packet_bytes).div_ceil(slices);
        let step = step.next_multiple_of(LINE);
        let read = (0..columns.rows.len()).filter(|&column| is_read[column].contains(&true));
        (read.flat_map(|column| (0..step).step_by(LINE).map(move |at| (column, at))).collect(), step)
    }
}

/// For each row of each column, whether the code reads what is there before. What it makes itself and then reads is near.
fn rows_read(form: Form, columns: &Columns) -> Vec<Vec<bool>> {
    let made = form.targets();
    let mut is_read: Vec<Vec<bool>> = columns.rows.iter().map(|&rows| vec![false; rows]).collect();
    for (buffer, &(column, row)) in columns.cells.iter().enumerate() {
        is_read[column][row] = !made.contains(&buffer);
    }
    is_read
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
    // Where a slice has two vectors, what is made of the first waits in slots past the line's own, and is read there.
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
    // Pairs that no batch has columns for: rows may wait there. Beside several batches there are none, for the last is full.
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

/// Code in the making, and what registers hold while it runs.
struct Sums {
    code: Assembler,
    /// Of code that streams: what it fetches.
    streams: Option<Fetch>,
    /// Sums by where they belong: of columns for good, of rows until their pair is taken again.
    kept: Vec<(Place, Group)>,
    /// The pairs of the row and of what is read.
    row: Group,
    read: Group,
}

/// What code that streams fetches.
enum Fetch {
    /// Tiles of buffers that are anywhere.
    Tiles { tile: Tile, spread: Spread },
    /// Lines of columns.
    Packets { into: Level, lines: Vec<(usize, i32)>, spread: Spread },
}

/// What a slice fetches ahead, spread evenly over what it reads. Batches differ in how much their rows read: where each row fetched as much, rows of few
/// terms fetched in bursts that stood in the way of all loads (RDP(18), chunks of 1 MiB, tiles of 4 slices: 0.59 of the limit; evenly 0.81, with
/// 2 slices 0.93).
struct Spread {
    /// How much there is to fetch.
    of: usize,
    /// Terms of all rows.
    terms: usize,
    swept: usize,
    done: usize,
}

impl Spread {
    /// What is due before one more term.
    fn due(&mut self) -> Range<usize> {
        self.swept += 1;
        let due = self.of * self.swept / self.terms;
        std::mem::replace(&mut self.done, due)..due
    }
}

impl Fetch {
    /// Fetches what is due before a term is read.
    fn before_a_term(&mut self, code: &mut Assembler) {
        match self {
            Fetch::Tiles { tile, spread } => spread.due().for_each(|which| code.fetch(tile, which)),
            Fetch::Packets { into, lines, spread } => {
                for &(column, at) in &lines[spread.due()] {
                    code.fetch_line(*into, column, at);
                }
            }
        }
    }

    fn has_fetched_all(&self) -> bool {
        let (Fetch::Tiles { spread, .. } | Fetch::Packets { spread, .. }) = self;
        spread.swept == spread.terms
    }
}

impl Sums {
    /// What is due before a term is read.
    fn fetch(&mut self) {
        self.streams.iter_mut().for_each(|streams| streams.before_a_term(&mut self.code));
    }

    /// Stores a pair. What another one holds of the place is no longer what belongs there.
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

    /// Notes that a pair holds what belongs to a place, and nothing else does: a row that nobody outside wants goes back to where it waited.
    fn keep(&mut self, place: Place, pair: Group) {
        self.kept.retain(|kept| kept.0 != place);
        self.kept.push((place, pair));
    }

    /// Leaves the sum of a row in the pair of the row, and adds its cells to their columns. What is read first stays where it is read to.
    fn sweep(&mut self, row: &Row, held: &mut [bool]) {
        let (row_pair, read_pair) = (self.row, self.read);
        let mut has_sum = false;
        for &term in &row.plain {
            self.fetch();
            // Nothing is kept yet of what a row reads: rows of several batches wait in slots.
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::braid::tests::zig_zag;

    #[test]
    fn tiles_of_many_streams_are_short() {
        assert_eq!([1, 35, 99, 143, 256, 5000].map(tile_bytes), [1024, 1024, 512, 512, 256, 256]);
    }

    #[test]
    fn a_slice_fetches_its_share_and_never_in_bursts() {
        for (of_slice, terms) in [(1, 1), (1, 9), (7, 9), (9, 7), (36, 143), (72, 306), (100, 3)] {
            let mut spread = Spread { of: of_slice, terms, swept: 0, done: 0 };
            let due: Vec<Range<usize>> = (0..terms).map(|_| spread.due()).collect();
            let all: Vec<usize> = due.iter().cloned().flatten().collect();
            assert_eq!(all, (0..of_slice).collect::<Vec<_>>(), "{of_slice} over {terms}");
            assert!(due.iter().all(|due| due.len() <= of_slice.div_ceil(terms)), "{of_slice} over {terms}");
        }
    }

    fn braids() -> impl Iterator<Item = Braid> {
        // Three buffers more in each sum, which no other has.
        let mut wider = zig_zag(5, 9);
        wider.iter_mut().enumerate().for_each(|(i, step)| step.1.extend((0..3).map(|own| 100 + 3 * i + own)));
        let zig_zags = [(2, 4), (5, 9), (13, 26), (14, 27), (15, 30), (23, 46)];
        let all = zig_zags.into_iter().map(|(n, links)| zig_zag(n, links)).chain([wider]);
        all.flat_map(|steps| {
            [Vectors::Ymm, Vectors::Zmm]
                .map(|vectors| Braid::new(&SharedSums::new(&steps), vectors).expect("few enough sums"))
        })
    }

    #[test]
    fn slices_fetch_all_packets_that_are_read_together_and_no_other_column() {
        // Three columns of five rows, of which the last is written, and a column of sums.
        let sum = |target: usize, from: std::ops::Range<usize>| (target, from.collect::<Vec<usize>>());
        let steps: Vec<(usize, Vec<usize>)> = (0..3)
            .map(|c| sum(5 * c + 4, 5 * c..5 * c + 4))
            .chain((0..4).map(|r| (15 + r, (0..3).map(|c| 5 * c + r).collect())))
            .collect();
        let braid = Braid::new(&SharedSums::new(&steps), Vectors::Zmm).expect("few enough sums");
        let cells = braid.buffers.iter().map(|&buffer| (buffer / 5, buffer % 5)).collect();
        for slices in [1, 2, 4] {
            let packet_bytes = slices * (2 * braid.vectors.bytes());
            let columns =
                Columns { cells: Vec::clone(&cells), rows: vec![5, 5, 5, 4], packet_bytes, fetch_step: None };
            let ahead = Ahead::new(Form::Braid(&braid), Form::Braid(&braid).slice(), &columns, Kind::IceLake);
            let groups = (AHEAD_BYTES / (19 * packet_bytes)).clamp(1, AHEAD_MOST);
            let mut fetched: Vec<(usize, usize)> = Vec::new();
            for slice in 0..slices {
                for &(column, at) in &ahead.lines {
                    let at = at as usize + slice * ahead.step as usize;
                    fetched.push((column, at - groups * columns.rows[column] * packet_bytes));
                }
            }
            fetched.sort_unstable();
            let count = fetched.len();
            fetched.dedup();
            assert_eq!(fetched.len(), count, "no line twice");
            let read =
                (0..3).flat_map(|column| (0..4 * packet_bytes).step_by(LINE).map(move |at| (column, at)));
            assert_eq!(fetched, read.collect::<Vec<_>>(), "{slices} slices");
        }
    }

    #[test]
    fn what_is_made_and_then_read_is_not_fetched() {
        // Columns of two rows. The third is made of the first two, and the fourth of the third.
        let steps = [(4, vec![0, 2]), (5, vec![1, 3]), (6, vec![4, 0, 1, 2]), (7, vec![5, 4, 1, 0])];
        let sums = SharedSums::new(&steps);
        let braid =
            Braid::new(&SharedSums::new(&crate::weave::tests::steps(4, 7, false)), Vectors::Ymm).unwrap();
        let straight = Straight::new(&sums, Vectors::Ymm).expect("few enough sums");
        let form = Form::Straight(&straight);
        let cells = form.buffers().iter().map(|&buffer| (buffer / 2, buffer % 2)).collect();
        let columns = Columns { cells, rows: vec![2; 4], packet_bytes: 64, fetch_step: None };
        let (lines, _) = Ahead::parts(form, form.streaming_slice(&columns), &columns);
        let mut fetched: Vec<usize> = lines.iter().map(|line| line.0).collect();
        fetched.dedup();
        assert_eq!(fetched, [0, 1]);
        assert!(braid.targets().iter().all(|buffer| !super::fetched(&braid).1.contains(buffer)));
    }

    #[test]
    fn packets_of_which_most_are_written_are_not_fetched() {
        // Two columns of five rows that are read, and three that are written.
        let column = |c: usize| (8 * c + 5, (8 * c..8 * c + 5).collect::<Vec<usize>>());
        let row = |target: usize, r: usize| (target, vec![r, 8 + r]);
        let steps = [column(0), column(1), row(6, 0), row(7, 1), row(14, 2), row(15, 3)];
        let braid = Braid::new(&SharedSums::new(&steps), Vectors::Zmm).expect("few enough sums");
        let cells = braid.buffers.iter().map(|&buffer| (buffer / 8, buffer % 8)).collect();
        let packet_bytes = 4 * (2 * braid.vectors.bytes());
        let columns = Columns { cells, rows: vec![8; 2], packet_bytes, fetch_step: None };
        let (lines, step) = Ahead::packets(Form::Braid(&braid), Form::Braid(&braid).slice(), &columns);
        let mut rows: Vec<usize> = lines.iter().map(|line| line.1 / packet_bytes).collect();
        rows.dedup();
        // Rows 0 to 3, one for each slice, and of rows 4 to 7 none for the sake of one.
        assert_eq!((rows, step), (vec![0], packet_bytes));
    }

    #[test]
    fn parts_of_columns_follow_one_another_up_to_the_last_row_that_is_read() {
        // Three columns of six rows, of which the last is written, and a column of sums.
        let steps: Vec<(usize, Vec<usize>)> = (0..3)
            .map(|c| (6 * c + 5, (6 * c..6 * c + 5).collect()))
            .chain((0..5).map(|r| (18 + r, (0..3).map(|c| 6 * c + r).collect())))
            .collect();
        let sums = SharedSums::new(&steps);
        let braid = Braid::new(&sums, Vectors::Ymm).expect("few enough sums");
        let straight = Straight::new(&sums, Vectors::Ymm).expect("few enough sums");
        for form in [Form::Braid(&braid), Form::Straight(&straight)] {
            let cells = form.buffers().iter().map(|&buffer| (buffer / 6, buffer % 6)).collect();
            let columns = Columns { cells, rows: vec![6, 6, 6, 5], packet_bytes: 128, fetch_step: None };
            let slices = 128 / form.slice().bytes();
            let (lines, step) = Ahead::parts(form, form.slice(), &columns);
            assert_eq!(step, (5 * 128usize).div_ceil(slices).next_multiple_of(LINE));
            for column in 0..3 {
                let of_slice = |slice: usize| {
                    let own = lines.iter().filter(move |line| line.0 == column);
                    own.map(move |line| line.1 + slice * step)
                };
                let fetched: Vec<usize> = (0..slices).flat_map(of_slice).collect();
                assert_eq!(fetched, (0..slices * step).step_by(LINE).collect::<Vec<_>>());
            }
            assert!(lines.iter().all(|line| line.0 < 3));
        }
    }

    #[test]
    fn all_that_is_read_is_fetched() {
        for braid in braids() {
            let mut fetched = fetched(&braid).1;
            fetched.dedup();
            let mut read: Vec<usize> = Vec::new();
            let rows = braid.rows().flat_map(|row| row.plain.iter().chain(row.cells.iter().flatten()));
            let starts = braid.batches.iter().flat_map(|batch| batch.starts.iter().flatten());
            let late = braid.links.iter().flat_map(|link| &link.late);
            read.extend(rows.chain(starts).chain(late).filter_map(|place| match place {
                Place::Buffer(buffer) => Some(*buffer),
                Place::Slot(_) => None,
            }));
            read.sort_unstable();
            read.dedup();
            read.retain(|buffer| !braid.targets().contains(buffer));
            assert_eq!(fetched, read);
        }
    }

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
