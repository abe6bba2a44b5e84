//! Machine code made at run time: the few instructions that sums need.
//!
//! Vectors have 256 or 512 bits; a slice has one or two of them. Registers have fixed roles. For
//! separate buffers `rdi` is the table of pointers, `rax` the position in the buffers, `rdx` their
//! end, `rcx` the slots, `r9` the buffer in use. In streaming code `r8` is the list of buffers that
//! a slice fetches ahead, `r10` one of them and `r11` the start of the next tile. For columns of
//! packets, each register but `rsp` and `rcx`, the slots, is the code's position in a column
//! ([`COLUMN_REGISTERS`]). Columns without a register are on the stack, above the counters of
//! remaining slices and packets.

use crate::code::braid::{Place, Vectors};

/// The fetches of streaming code. While it works on a tile, it fetches the next one, one stream
/// after the other. So memory is read in runs of several lines, although a slice has only a line or
/// two of each of a hundred streams.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tile {
    /// The cache to fetch into. All caches between this one and memory then have the line, too.
    pub(super) into: Level,
    /// The slices of a tile, a power of two.
    pub(super) slices: usize,
    /// The number of buffers of which one slice fetches the next tile.
    pub(super) of_slice: usize,
    /// The number of pointers in the table before those of the buffers that are fetched ahead.
    pub(super) pointers: usize,
}

/// A level of cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    First,
    Second,
}

/// The alignment of code and of its loops: a line of the cache.
pub(super) const CODE_ALIGN_BYTES: usize = 64;

/// The bytes to reserve per instruction, enough for most.
const INSTRUCTION_BYTES: usize = 10;

/// The consecutive vector registers of a slice of a sum, identified by the first.
pub(super) type Group = u8;

/// The vectors of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) vectors: Vectors,
    /// The number of vectors: one or two.
    pub(super) count: u8,
}

impl Slice {
    pub(super) const fn bytes(self) -> usize {
        self.count as usize * self.vectors.bytes()
    }
}

/// A function on separate buffers. Arguments: the table of pointers to the buffers, followed by
/// those to fetch ahead; the first byte and the end of the range; the slots.
pub(super) type Entry = unsafe extern "sysv64" fn(*const *mut u8, usize, usize, *mut u8);

/// A function on columns of packets. Arguments: the table of pointers to the columns; the packets
/// of each buffer, at least one; the slots.
pub(super) type PacketEntry = unsafe extern "sysv64" fn(*const *mut u8, usize, *mut u8);

/// The positions of buffers in columns of packets.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    /// For each buffer, its column and its row there.
    pub(super) cells: Vec<(usize, usize)>,
    /// The number of buffers of each column.
    pub(super) rows: Vec<usize>,
    /// The bytes of a packet, a multiple of a slice.
    pub(super) packet_bytes: usize,
    /// With prefetch: the distance in bytes between the addresses that two consecutive slices of a
    /// packet fetch.
    pub(super) fetch_step: Option<i32>,
}

/// The registers that point to columns, by the numbers of instructions: rax, rdx, rbx, rbp, rsi, r8
/// to r14, rdi and r15. `rdi` is the table at the start.
const COLUMN_REGISTERS: [u8; 14] = [0, 2, 3, 5, 6, 8, 9, 10, 11, 12, 13, 14, RDI, R15];
const RDI: u8 = 7;
/// In code that fetches and has several slices per packet: the index of the fetch position, which
/// grows per slice by the fetch step minus the slice.
const R14: u8 = 14;
/// Points to the columns that have no register, one after the other, if there are any.
const R15: u8 = 15;

/// The bytes on the stack below these columns: the counters of remaining slices of a packet and of
/// remaining packets.
const COUNTS_BYTES: i32 = 16;

impl Columns {
    /// True if each slice fetches at a different distance.
    fn has_index(&self, slice: Slice) -> bool {
        self.fetch_step.is_some() && self.slices(slice) > 1
    }

    /// Returns the registers of the first columns.
    fn registers(&self, slice: Slice) -> Vec<u8> {
        let is_free = |&register: &u8| register != R14 || !self.has_index(slice);
        let mut registers: Vec<u8> = COLUMN_REGISTERS.into_iter().filter(is_free).collect();
        if self.rows.len() > registers.len() {
            registers.pop(); // For all others.
        }
        registers.truncate(self.rows.len());
        registers
    }

    /// Returns the offset from `rsp` of a column without a register.
    fn on_stack(&self, column: usize, registers: usize) -> i32 {
        COUNTS_BYTES + 8 * (column - registers) as i32
    }

    fn slices(&self, slice: Slice) -> usize {
        self.packet_bytes / slice.bytes()
    }

    fn group_bytes(&self, column: usize) -> i32 {
        (self.rows[column] * self.packet_bytes) as i32
    }
}

/// The location of buffers.
enum Buffers {
    /// Separate buffers, at the pointers in the table; the number is the buffer to which r9 points.
    Anywhere(Option<usize>),
    /// Buffers in columns of packets.
    InColumns(InColumns),
}

/// The state of columns while code for them is emitted.
struct InColumns {
    columns: Columns,
    /// The registers of the first columns.
    registers: Vec<u8>,
    /// The column to which r15 points.
    pointed: Option<usize>,
    /// The position in the code where the loop over the slices of a packet begins.
    begin: usize,
}

/// A loop over slices that is being emitted.
pub(super) struct Assembler {
    slice: Slice,
    bytes: Vec<u8>,
    /// The position in the code where the loop begins.
    again: usize,
    buffers: Buffers,
    /// The vector of a slice that instructions process, if it is only one of two.
    half: Option<u8>,
}

/// An operand: the second source, or the destination.
#[derive(Clone, Copy)]
enum Operand {
    Register(u8),
    /// Memory at `r9 + rax`, plus a number of vectors.
    Buffer(i32),
    /// Memory at a register, plus a number of bytes.
    Cell(u8, i32),
    /// Memory at `rcx`, plus a number of vectors.
    Slot(i32),
}

/// A vector instruction: the prefix as a number (1 is 66, 2 is F3); true if its elements have 64
/// bits (where that matters); and the opcode.
#[derive(Clone, Copy)]
struct Vector(u8, bool, u8);

const XOR: Vector = Vector(1, true, 0xef);
const COPY: Vector = Vector(1, true, 0x6f);
const LOAD: Vector = Vector(2, true, 0x6f);
const STORE: Vector = Vector(2, true, 0x7f);
const STORE_PAST: Vector = Vector(1, false, 0xe7);

impl Assembler {
    pub(super) fn new(slice: Slice, tile: Option<&Tile>) -> Assembler {
        let mut code =
            Assembler { slice, bytes: Vec::new(), again: 0, buffers: Buffers::Anywhere(None), half: None };
        code.put(&[0x48, 0x89, 0xf0]); // mov rax, rsi
        code.bytes.resize(CODE_ALIGN_BYTES, 0x90); // nop
        code.again = code.bytes.len();
        if let Some(tile) = tile {
            let len_bytes = code.len_bytes(tile);
            code.put(&[0x49, 0x89, 0xc0]); // mov r8, rax
            code.put(&[0x49, 0xc1, 0xe8, slice.bytes().ilog2() as u8]); // shr r8, ..
            code.put(&[0x41, 0x83, 0xe0, tile.slices as u8 - 1]); // and r8d, ..
            code.put(&[0x4d, 0x69, 0xc0]).number(8 * tile.of_slice as i32); // imul r8, r8, ..
            code.put(&[0x4d, 0x8d, 0x84, 0x38]).number(8 * tile.pointers as i32); // lea r8, [r8 + rdi + ..]
            code.put(&[0x49, 0x89, 0xc3]); // mov r11, rax
            code.put(&[0x49, 0x81, 0xe3]).number(-len_bytes); // and r11, ..
            code.put(&[0x49, 0x81, 0xc3]).number(len_bytes); // add r11, ..
        }
        code
    }

    /// Works like `new`, for columns of packets: the function is a [`PacketEntry`].
    pub(super) fn of_columns(slice: Slice, columns: Columns) -> Assembler {
        let registers = columns.registers(slice);
        let mut code =
            Assembler { slice, bytes: Vec::new(), again: 0, buffers: Buffers::Anywhere(None), half: None };
        code.put(&[0x53, 0x55, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57]); // push rbx, rbp, r12 to r15
        code.put(&[0x48, 0x89, 0xd1]); // mov rcx, rdx
        for column in (registers.len()..columns.rows.len()).rev() {
            code.put(&[0xff, 0xb7]).number(8 * column as i32); // push [rdi + ..]
        }
        code.put(&[0x56, 0x56]); // push rsi; push rsi
        // The register of the table is overwritten last.
        for is_table in [false, true] {
            for (column, &register) in registers.iter().enumerate().filter(|&(_, &r)| (r == RDI) == is_table)
            {
                // mov register, [rdi + ..]
                code.put(&[0x48 | register >> 3 << 2, 0x8b, 2 << 6 | (register & 7) << 3 | RDI])
                    .number(8 * column as i32);
            }
        }
        code.bytes.resize(code.bytes.len().next_multiple_of(CODE_ALIGN_BYTES), 0x90); // nop
        code.again = code.bytes.len();
        let slices = columns.slices(slice);
        if slices > 1 {
            code.put(&[0x48, 0xc7, 0x04, 0x24]).number(slices as i32); // mov qword [rsp], ..
        }
        if columns.has_index(slice) {
            code.put(&[0x45, 0x31, 0xf6]); // xor r14d, r14d
        }
        let begin = code.bytes.len();
        code.buffers = Buffers::InColumns(InColumns { columns, registers, pointed: None, begin });
        code
    }

    /// Emits the end of a function on columns.
    fn finish_columns(&mut self, InColumns { columns, registers, begin, .. }: &InColumns) {
        let (slice, slices) = (self.slice.bytes() as i32, columns.slices(self.slice));
        let packet = columns.packet_bytes as i32;
        if slices > 1 {
            self.go_on(columns, registers, |_| slice);
            if let Some(step) = columns.fetch_step {
                self.put(&[0x49, 0x81, 0xc6]).number(step - slice); // add r14, ..
            }
            self.put(&[0x48, 0xff, 0x0c, 0x24]); // dec qword [rsp]
            self.jump_unless_zero(*begin);
            self.go_on(columns, registers, |column| columns.group_bytes(column) - packet);
        } else {
            self.go_on(columns, registers, |column| columns.group_bytes(column));
        }
        self.put(&[0x48, 0xff, 0x4c, 0x24, 0x08]); // dec qword [rsp + 8]
        self.jump_unless_zero(self.again);
        self.put(&[0x48, 0x81, 0xc4]).number(columns.on_stack(columns.rows.len(), registers.len())); // add rsp, ..
        self.put(&[0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5d, 0x5b]); // pop r15 to r12, rbp, rbx
        self.put(&[0xc5, 0xf8, 0x77, 0xc3]); // vzeroupper; ret
    }

    /// Moves the position in each column forward by its number of bytes.
    fn go_on(&mut self, columns: &Columns, registers: &[u8], bytes: impl Fn(usize) -> i32) {
        for column in 0..columns.rows.len() {
            match registers.get(column) {
                // add register, ..
                Some(register) => self.put(&[0x48 | register >> 3, 0x81, 3 << 6 | register & 7]),
                // add qword [rsp + ..], ..
                None => {
                    let on_stack = columns.on_stack(column, registers.len()).to_le_bytes();
                    self.put(&[0x48, 0x81, 0x84, 0x24]).put(&on_stack)
                }
            }
            .number(bytes(column));
        }
    }

    fn jump_unless_zero(&mut self, to: usize) {
        let end = self.bytes.len() + 6;
        self.put(&[0x0f, 0x85]).number(to as i32 - end as i32); // jnz
    }

    /// Returns the bytes of the whole function.
    pub(super) fn finished(mut self) -> Vec<u8> {
        if let Buffers::InColumns(columns) = std::mem::replace(&mut self.buffers, Buffers::Anywhere(None)) {
            self.finish_columns(&columns);
            return self.bytes;
        }
        let slice_bytes = self.slice.bytes() as i32;
        self.put(&[0x48, 0x05]).number(slice_bytes); // add rax, ..
        self.put(&[0x48, 0x39, 0xd0]); // cmp rax, rdx
        let end = self.bytes.len() + 6;
        let again = self.again as i32 - end as i32;
        self.put(&[0x0f, 0x82]).number(again); // jb again
        self.put(&[0xc5, 0xf8, 0x77]); // vzeroupper
        self.put(&[0xc3]); // ret
        self.bytes
    }

    /// Emits a fetch of the next tile of buffer `which` among those that a slice fetches ahead. The
    /// code must have been begun with this tile.
    pub(super) fn fetch(&mut self, tile: &Tile, which: usize) {
        assert!(which < tile.of_slice, "the table has no more pointers for a slice");
        self.put(&[0x4d, 0x8b, 0x90]).number(8 * which as i32); // mov r10, [r8 + ..]
        let prefetch = match tile.into {
            Level::First => 0x8c,  // prefetcht0 [r10 + r11 + ..]
            Level::Second => 0x94, // prefetcht1
        };
        for at in (0..self.len_bytes(tile)).step_by(64) {
            self.put(&[0x43, 0x0f, 0x18, prefetch, 0x1a]).number(at);
        }
    }

    /// Emits a fetch of a line of a column, `at` bytes from the start of its packets. With each
    /// slice the distance grows by the fetch step of the columns. Only for code on columns that
    /// fetches.
    pub(super) fn fetch_line(&mut self, level: Level, column: usize, at: i32) {
        let (has_index, base) = match &self.buffers {
            Buffers::InColumns(c) => {
                let has_index = c.columns.has_index(self.slice);
                (has_index, self.column(column))
            }
            Buffers::Anywhere(_) => unreachable!("tiles are fetched of buffers that are anywhere"),
        };
        let prefetch = match level {
            Level::First => 1,  // prefetcht0
            Level::Second => 2, // prefetcht1
        };
        match has_index {
            true => {
                let register = 2 << 6 | prefetch << 3 | 4;
                self.put(&[0x42 | base >> 3, 0x0f, 0x18, register, (R14 & 7) << 3 | base & 7]).number(at);
            }
            false => {
                if base > 7 {
                    self.put(&[0x41]);
                }
                self.put(&[0x0f, 0x18]).cell(prefetch << 3, base, at, 1);
            }
        }
    }

    pub(super) fn slice(&self) -> Slice {
        self.slice
    }

    /// Makes later instructions process only one vector of a slice that has two: a group is then
    /// one register.
    pub(super) fn take_half(&mut self, half: u8) {
        assert!(half < self.slice.count, "a slice has no other vectors");
        self.half = Some(half);
    }

    /// Returns the number of registers of a group.
    fn group_len(&self) -> u8 {
        if self.half.is_some() { 1 } else { self.slice.count }
    }

    /// Reserves room for this number of further instructions.
    pub(super) fn reserve(&mut self, instructions: usize) {
        self.bytes.reserve(instructions * INSTRUCTION_BYTES);
    }

    pub(super) fn load(&mut self, to: Group, from: Place) {
        self.with_place(LOAD, to, None, from);
    }

    pub(super) fn store(&mut self, from: Group, to: Place) {
        self.with_place(STORE, from, None, to);
    }

    /// Works like `store`, past the cache: for buffers that start at a cache line.
    pub(super) fn store_past(&mut self, from: Group, to: Place) {
        self.with_place(STORE_PAST, from, None, to);
    }

    /// Emits: a group becomes the sum of another group, if any, and a place.
    pub(super) fn sum(&mut self, to: Group, other: Option<Group>, from: Place) {
        match other {
            Some(_) => self.with_place(XOR, to, other, from),
            None => self.load(to, from),
        }
    }

    /// Emits: a group becomes the sum of two groups.
    pub(super) fn sum_of(&mut self, to: Group, one: Group, other: Group) {
        for i in 0..self.group_len() {
            self.vector(XOR, to + i, one + i, Operand::Register(other + i));
        }
    }

    pub(super) fn zero(&mut self, group: Group) {
        self.sum_of(group, group, group);
    }

    pub(super) fn copy(&mut self, to: Group, from: Group) {
        for i in 0..self.group_len() {
            self.vector(COPY, to + i, 0, Operand::Register(from + i));
        }
    }

    fn len_bytes(&self, tile: &Tile) -> i32 {
        (tile.slices * self.slice.bytes()) as i32
    }

    fn put<const N: usize>(&mut self, bytes: &[u8; N]) -> &mut Assembler {
        self.bytes.extend_from_slice(bytes);
        self
    }

    fn number(&mut self, number: i32) {
        self.put(&number.to_le_bytes());
    }

    /// Emits an instruction for each vector of a place. `first` is the other source of an
    /// instruction that has two.
    fn with_place(&mut self, vector: Vector, group: Group, first: Option<Group>, place: Place) {
        let count = self.slice.count;
        let operands = match place {
            Place::Slot(slot) => [0, 1].map(|i| Operand::Slot(count as i32 * slot as i32 + i)),
            Place::Buffer(buffer) => self.buffer(buffer),
        };
        let of_half = &operands[self.half.unwrap_or(0) as usize..];
        for (i, &operand) in (0..self.group_len()).zip(of_half) {
            self.vector(vector, group + i, first.map_or(0, |first| first + i), operand);
        }
    }

    /// Returns the first two vectors of a buffer, after emitting the load of its pointer if needed.
    fn buffer(&mut self, buffer: usize) -> [Operand; 2] {
        match &mut self.buffers {
            Buffers::Anywhere(pointed) => {
                if pointed.replace(buffer) != Some(buffer) {
                    self.put(&[0x4c, 0x8b, 0x8f]).number(8 * buffer as i32); // mov r9, [rdi + ..]
                }
                [0, 1].map(Operand::Buffer)
            }
            Buffers::InColumns(InColumns { columns, .. }) => {
                let (column, row) = columns.cells[buffer];
                let at = (row * columns.packet_bytes) as i32;
                let register = self.column(column);
                [0, self.slice.vectors.bytes() as i32].map(|half| Operand::Cell(register, at + half))
            }
        }
    }

    /// Returns the register that points to a column, after emitting the load of r15 if needed.
    fn column(&mut self, column: usize) -> u8 {
        let Buffers::InColumns(InColumns { columns, registers, pointed, .. }) = &mut self.buffers else {
            unreachable!("buffers are anywhere")
        };
        match registers.get(column) {
            Some(&register) => register,
            None => {
                let on_stack = columns.on_stack(column, registers.len());
                if pointed.replace(column) != Some(column) {
                    self.put(&[0x4c, 0x8b, 0xbc, 0x24]).number(on_stack); // mov r15, [rsp + ..]
                }
                R15
            }
        }
    }

    /// Emits the last bytes of an instruction on a cell. A displacement of one byte counts in
    /// `unit`.
    fn cell(&mut self, register: u8, base: u8, at: i32, unit: i32) -> &mut Assembler {
        // A shift, as the unit is a power of two: a division would take as long as all the rest.
        let short = u8::try_from(at >> unit.trailing_zeros()).ok();
        let short = short.filter(|&number| number < 128 && at & (unit - 1) == 0);
        let mode = if short.is_some() { 1 } else { 2 };
        self.put(&[mode << 6 | register | base & 7]);
        if base & 7 == 4 {
            self.put(&[0x24]); // r12 alone
        }
        match short {
            Some(number) => self.put(&[number]),
            None => {
                self.number(at);
                self
            }
        }
    }

    /// Emits an instruction: the prefix, the opcode and the operands. `first` is as in
    /// `with_place`.
    fn vector(&mut self, Vector(prefix, wide, opcode): Vector, register: u8, first: u8, operand: Operand) {
        match self.slice.vectors {
            Vectors::Ymm => self.vex(prefix, register, first, operand),
            Vectors::Zmm => self.evex(prefix, wide, register, first, operand),
        }
        self.put(&[opcode]);
        let register = (register & 7) << 3;
        let bytes = self.slice.vectors.bytes() as i32;
        // A displacement of one byte counts in vectors of 512 bits, or in bytes.
        let unit = if self.slice.vectors == Vectors::Zmm { bytes } else { 1 };
        let short = |vectors: i32| u8::try_from(vectors * bytes / unit).ok().filter(|&number| number < 128);
        match operand {
            Operand::Register(other) => self.put(&[3 << 6 | register | (other & 7)]),
            Operand::Buffer(vectors) => {
                let number = short(vectors).unwrap_or_else(|| unreachable!("a slice has two vectors"));
                self.put(&[1 << 6 | register | 4, 1, number])
            }
            Operand::Cell(base, at) => self.cell(register, base, at, unit),
            Operand::Slot(vectors) => match short(vectors) {
                Some(number) => self.put(&[1 << 6 | register | 1, number]),
                None => {
                    self.put(&[2 << 6 | register | 1]).number(vectors * bytes);
                    self
                }
            },
        };
    }

    /// Emits the prefix of an instruction on 256 bits.
    fn vex(&mut self, prefix: u8, register: u8, first: u8, operand: Operand) {
        let not = |register: u8| (!register >> 3) & 1;
        let base = match operand {
            Operand::Register(other) => not(other),
            Operand::Buffer(_) => 0,
            Operand::Cell(base, _) => not(base),
            Operand::Slot(_) => 1,
        };
        let rest = (!first & 15) << 3 | 1 << 2 | prefix;
        match base {
            0 => self.put(&[0xc4, not(register) << 7 | 1 << 6 | 1, rest]),
            _ => self.put(&[0xc5, not(register) << 7 | rest]),
        };
    }

    /// Emits the prefix of an instruction on 512 bits.
    fn evex(&mut self, prefix: u8, wide: bool, register: u8, first: u8, operand: Operand) {
        // The high bits of the numbers of 32 registers, inverted.
        let not = |register: u8, bit: u8| (!register >> bit) & 1;
        let (index, base) = match operand {
            Operand::Register(other) => (not(other, 4), not(other, 3)),
            Operand::Buffer(_) => (1, 0),
            Operand::Cell(base, _) => (1, not(base, 3)),
            Operand::Slot(_) => (1, 1),
        };
        self.put(&[
            0x62,
            not(register, 3) << 7 | index << 6 | base << 5 | not(register, 4) << 4 | 1,
            u8::from(wide) << 7 | (!first & 15) << 3 | 1 << 2 | prefix,
            2 << 5 | not(first, 4) << 3,
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(vectors: Vectors) -> Slice {
        Slice { vectors, count: 2 }
    }

    fn bytes_of(lines: &[&str]) -> Vec<u8> {
        let bytes = lines.iter().flat_map(|line| line.split(' '));
        bytes.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
    }

    #[test]
    #[rustfmt::skip]
    fn instructions_are_those_of_an_assembler() {
        // The output of GNU as 2.40, line by line, without the 61 bytes before the loop.
        let golden = [
            "48 89 f0", // mov rax,rsi
            "49 89 c0", // mov r8,rax
            "49 c1 e8 07", // shr r8,0x7
            "41 83 e0 03", // and r8d,0x3
            "4d 69 c0 d0 00 00 00", // imul r8,r8,0xd0
            "4d 8d 84 38 48 05 00 00", // lea r8,[r8+rdi*1+0x548]
            "49 89 c3", // mov r11,rax
            "49 81 e3 00 fe ff ff", // and r11,0xfffffffffffffe00
            "49 81 c3 00 02 00 00", // add r11,0x200
            "4d 8b 90 18 00 00 00", // mov r10,QWORD PTR [r8+0x18]
            "43 0f 18 94 1a 00 00 00 00", // prefetcht1 BYTE PTR [r10+r11*1+0x0]
            "43 0f 18 94 1a 40 00 00 00", // prefetcht1 BYTE PTR [r10+r11*1+0x40]
            "43 0f 18 94 1a 80 00 00 00", // prefetcht1 BYTE PTR [r10+r11*1+0x80]
            "43 0f 18 94 1a c0 00 00 00", // prefetcht1 BYTE PTR [r10+r11*1+0xc0]
            "43 0f 18 94 1a 00 01 00 00", // prefetcht1 BYTE PTR [r10+r11*1+0x100]
            "43 0f 18 94 1a 40 01 00 00", // prefetcht1 BYTE PTR [r10+r11*1+0x140]
            "43 0f 18 94 1a 80 01 00 00", // prefetcht1 BYTE PTR [r10+r11*1+0x180]
            "43 0f 18 94 1a c0 01 00 00", // prefetcht1 BYTE PTR [r10+r11*1+0x1c0]
            "4d 8b 90 00 00 00 00", // mov r10,QWORD PTR [r8+0x0]
            "43 0f 18 8c 1a 00 00 00 00", // prefetcht0 BYTE PTR [r10+r11*1+0x0]
            "43 0f 18 8c 1a 40 00 00 00", // prefetcht0 BYTE PTR [r10+r11*1+0x40]
            "4c 8b 8f 48 00 00 00", // mov r9,QWORD PTR [rdi+0x48]
            "62 41 fe 48 6f 54 01 00", // vmovdqu64 zmm26,ZMMWORD PTR [r9+rax*1+0x0]
            "62 41 fe 48 6f 5c 01 01", // vmovdqu64 zmm27,ZMMWORD PTR [r9+rax*1+0x40]
            "62 71 fe 48 7f 41 0a", // vmovdqu64 ZMMWORD PTR [rcx+0x280],zmm8
            "62 71 fe 48 7f 49 0b", // vmovdqu64 ZMMWORD PTR [rcx+0x2c0],zmm9
            "62 e1 fe 48 7f 81 00 20 00 00", // vmovdqu64 ZMMWORD PTR [rcx+0x2000],zmm16
            "62 e1 fe 48 7f 89 40 20 00 00", // vmovdqu64 ZMMWORD PTR [rcx+0x2040],zmm17
            "62 51 7d 48 e7 64 01 00", // vmovntdq ZMMWORD PTR [r9+rax*1+0x0],zmm12
            "62 51 7d 48 e7 6c 01 01", // vmovntdq ZMMWORD PTR [r9+rax*1+0x40],zmm13
            "4c 8b 8f 40 05 00 00", // mov r9,QWORD PTR [rdi+0x540]
            "62 41 ed 40 ef 74 01 00", // vpxorq zmm30,zmm18,ZMMWORD PTR [r9+rax*1+0x0]
            "62 41 e5 40 ef 7c 01 01", // vpxorq zmm31,zmm19,ZMMWORD PTR [r9+rax*1+0x40]
            "62 f1 dd 48 ef 61 00", // vpxorq zmm4,zmm4,ZMMWORD PTR [rcx+0x0]
            "62 f1 d5 48 ef 69 01", // vpxorq zmm5,zmm5,ZMMWORD PTR [rcx+0x40]
            "62 01 9d 40 ef e6", // vpxorq zmm28,zmm28,zmm30
            "62 01 95 40 ef ef", // vpxorq zmm29,zmm29,zmm31
            "62 d1 8d 48 ef c0", // vpxorq zmm0,zmm14,zmm8
            "62 d1 85 48 ef c9", // vpxorq zmm1,zmm15,zmm9
            "62 61 fd 48 6f e2", // vmovdqa64 zmm28,zmm2
            "62 61 fd 48 6f eb", // vmovdqa64 zmm29,zmm3
            "62 11 fd 48 6f d6", // vmovdqa64 zmm10,zmm30
            "62 11 fd 48 6f df", // vmovdqa64 zmm11,zmm31
            "48 05 80 00 00 00", // add rax,0x80
            "48 39 d0", // cmp rax,rdx
            "0f 82 c0 fe ff ff", // jb 40 <again>
            "c5 f8 77", // vzeroupper
            "c3", // ret
        ];
        let bytes = bytes_of(&golden);
        let tile = Tile { into: Level::Second, slices: 4, of_slice: 26, pointers: 169 };
        let mut code = Assembler::new(pairs(Vectors::Zmm), Some(&tile));
        code.fetch(&tile, 3);
        code.fetch(&Tile { into: Level::First, slices: 1, ..tile }, 0);
        code.load(26, Place::Buffer(9));
        code.store(8, Place::Slot(5));
        code.store(16, Place::Slot(64));
        code.store_past(12, Place::Buffer(9));
        code.sum(30, Some(18), Place::Buffer(168));
        code.sum(4, Some(4), Place::Slot(0));
        code.sum_of(28, 28, 30);
        code.sum_of(0, 14, 8);
        code.copy(28, 2);
        code.copy(10, 30);
        let code = code.finished();
        assert_eq!((&code[..3], &code[3..64], &code[64..]), (&bytes[..3], &[0x90; 61][..], &bytes[3..]));
    }

    /// Returns code for 15 columns and 7 buffers: in some columns with registers, and in both
    /// without.
    fn code_of_columns(vectors: Vectors) -> Vec<u8> {
        let cells = vec![(0, 0), (8, 2), (12, 1), (14, 0), (13, 5), (13, 6), (9, 1)];
        let mut code = Assembler::of_columns(
            pairs(vectors),
            Columns { cells, rows: vec![7; 15], packet_bytes: 1536, fetch_step: None },
        );
        code.fetch_line(Level::First, 0, 0x2a00);
        code.load(10, Place::Buffer(0));
        code.sum(12, Some(8), Place::Buffer(1));
        code.fetch_line(Level::Second, 9, 0x5a00);
        code.store(6, Place::Buffer(2));
        code.load(2, Place::Buffer(3));
        code.store_past(14, Place::Buffer(4));
        code.store_past(14, Place::Buffer(5));
        code.load(2, Place::Buffer(6));
        code.store(2, Place::Slot(1));
        code.finished()
    }

    /// The beginning of code for columns, as GNU objdump 2.40 disassembles it.
    #[rustfmt::skip]
    const PUSHES: [&str; 7] = [
        "53", // push rbx
        "55", // push rbp
        "41 54", // push r12
        "41 55", // push r13
        "41 56", // push r14
        "41 57", // push r15
        "48 89 d1", // mov rcx,rdx
    ];

    /// The loads of columns into registers, except rdi, which has the table, and r15.
    #[rustfmt::skip]
    const LOADS: [&str; 12] = [
        "48 8b 87 00 00 00 00", // mov rax,QWORD PTR [rdi+0x0]
        "48 8b 97 08 00 00 00", // mov rdx,QWORD PTR [rdi+0x8]
        "48 8b 9f 10 00 00 00", // mov rbx,QWORD PTR [rdi+0x10]
        "48 8b af 18 00 00 00", // mov rbp,QWORD PTR [rdi+0x18]
        "48 8b b7 20 00 00 00", // mov rsi,QWORD PTR [rdi+0x20]
        "4c 8b 87 28 00 00 00", // mov r8,QWORD PTR [rdi+0x28]
        "4c 8b 8f 30 00 00 00", // mov r9,QWORD PTR [rdi+0x30]
        "4c 8b 97 38 00 00 00", // mov r10,QWORD PTR [rdi+0x38]
        "4c 8b 9f 40 00 00 00", // mov r11,QWORD PTR [rdi+0x40]
        "4c 8b a7 48 00 00 00", // mov r12,QWORD PTR [rdi+0x48]
        "4c 8b af 50 00 00 00", // mov r13,QWORD PTR [rdi+0x50]
        "4c 8b b7 58 00 00 00", // mov r14,QWORD PTR [rdi+0x58]
    ];

    /// The end of code for columns.
    #[rustfmt::skip]
    const POPS: [&str; 8] = [
        "41 5f", // pop r15
        "41 5e", // pop r14
        "41 5d", // pop r13
        "41 5c", // pop r12
        "5d", // pop rbp
        "5b", // pop rbx
        "c5 f8 77", // vzeroupper
        "c3", // ret
    ];

    /// Returns `add register, number` for each register that points to a column, except r15.
    fn adds(number: &str) -> Vec<u8> {
        let adds = [
            "48 81 c0", // rax
            "48 81 c2", // rdx
            "48 81 c3", // rbx
            "48 81 c5", // rbp
            "48 81 c6", // rsi
            "49 81 c0", // r8
            "49 81 c1", // r9
            "49 81 c2", // r10
            "49 81 c3", // r11
            "49 81 c4", // r12
            "49 81 c5", // r13
            "49 81 c6", // r14
            "48 81 c7", // rdi
        ];
        adds.iter().flat_map(|add| bytes_of(&[add, number])).collect()
    }

    /// Returns both parts, the second of which begins at a cache line.
    fn aligned(begin: &[&[u8]], rest: &[&[u8]]) -> Vec<u8> {
        let mut code = begin.concat();
        code.resize(code.len().next_multiple_of(CODE_ALIGN_BYTES), 0x90); // nop
        [code, rest.concat()].concat()
    }

    #[test]
    #[rustfmt::skip]
    fn instructions_on_columns_are_those_of_an_assembler() {
        let begin = [
            "ff b7 70 00 00 00", // push QWORD PTR [rdi+0x70]
            "ff b7 68 00 00 00", // push QWORD PTR [rdi+0x68]
            "56", // push rsi
            "56", // push rsi
        ];
        let body = [
            "48 c7 04 24 0c 00 00 00", // mov QWORD PTR [rsp],0xc
            "0f 18 88 00 2a 00 00", // prefetcht0 BYTE PTR [rax+0x2a00]
            "62 71 fe 48 6f 50 00", // vmovdqu64 zmm10,ZMMWORD PTR [rax+0x0]
            "62 71 fe 48 6f 58 01", // vmovdqu64 zmm11,ZMMWORD PTR [rax+0x40]
            "62 51 bd 48 ef 63 30", // vpxorq zmm12,zmm8,ZMMWORD PTR [r11+0xc00]
            "62 51 b5 48 ef 6b 31", // vpxorq zmm13,zmm9,ZMMWORD PTR [r11+0xc40]
            "41 0f 18 94 24 00 5a 00 00", // prefetcht1 BYTE PTR [r12+0x5a00]
            "62 f1 fe 48 7f 77 18", // vmovdqu64 ZMMWORD PTR [rdi+0x600],zmm6
            "62 f1 fe 48 7f 7f 19", // vmovdqu64 ZMMWORD PTR [rdi+0x640],zmm7
            "4c 8b bc 24 18 00 00 00", // mov r15,QWORD PTR [rsp+0x18]
            "62 d1 fe 48 6f 57 00", // vmovdqu64 zmm2,ZMMWORD PTR [r15+0x0]
            "62 d1 fe 48 6f 5f 01", // vmovdqu64 zmm3,ZMMWORD PTR [r15+0x40]
            "4c 8b bc 24 10 00 00 00", // mov r15,QWORD PTR [rsp+0x10]
            "62 51 7d 48 e7 77 78", // vmovntdq ZMMWORD PTR [r15+0x1e00],zmm14
            "62 51 7d 48 e7 7f 79", // vmovntdq ZMMWORD PTR [r15+0x1e40],zmm15
            "62 51 7d 48 e7 b7 00 24 00 00", // vmovntdq ZMMWORD PTR [r15+0x2400],zmm14
            "62 51 7d 48 e7 bf 40 24 00 00", // vmovntdq ZMMWORD PTR [r15+0x2440],zmm15
            "62 d1 fe 48 6f 54 24 18", // vmovdqu64 zmm2,ZMMWORD PTR [r12+0x600]
            "62 d1 fe 48 6f 5c 24 19", // vmovdqu64 zmm3,ZMMWORD PTR [r12+0x640]
            "62 f1 fe 48 7f 51 02", // vmovdqu64 ZMMWORD PTR [rcx+0x80],zmm2
            "62 f1 fe 48 7f 59 03", // vmovdqu64 ZMMWORD PTR [rcx+0xc0],zmm3
        ];
        let golden = aligned(
            &[&bytes_of(&PUSHES), &bytes_of(&begin), &bytes_of(&LOADS), &bytes_of(&["48 8b bf 60 00 00 00"])], // mov rdi,QWORD PTR [rdi+0x60]
            &[
                &bytes_of(&body),
                &adds("80 00 00 00"),
                &bytes_of(&[
                    "48 81 84 24 10 00 00 00 80 00 00 00", // add QWORD PTR [rsp+0x10],0x80
                    "48 81 84 24 18 00 00 00 80 00 00 00", // add QWORD PTR [rsp+0x18],0x80
                    "48 ff 0c 24", // dec QWORD PTR [rsp]
                    "0f 85 eb fe ff ff", // jne 0x88
                ]),
                &adds("00 24 00 00"),
                &bytes_of(&[
                    "48 81 84 24 10 00 00 00 00 24 00 00", // add QWORD PTR [rsp+0x10],0x2400
                    "48 81 84 24 18 00 00 00 00 24 00 00", // add QWORD PTR [rsp+0x18],0x2400
                    "48 ff 4c 24 08", // dec QWORD PTR [rsp+0x8]
                    "0f 85 65 fe ff ff", // jne 0x80
                    "48 81 c4 20 00 00 00", // add rsp,0x20
                ]),
                &bytes_of(&POPS),
            ],
        );
        assert_eq!(code_of_columns(Vectors::Zmm), golden);
        let body = [
            "0f 18 88 00 2a 00 00", // prefetcht0 BYTE PTR [rax+0x2a00]
            "c5 7e 6f 50 00", // vmovdqu ymm10,YMMWORD PTR [rax+0x0]
            "c5 7e 6f 58 20", // vmovdqu ymm11,YMMWORD PTR [rax+0x20]
            "c4 41 3d ef a3 00 0c 00 00", // vpxor ymm12,ymm8,YMMWORD PTR [r11+0xc00]
            "c4 41 35 ef ab 20 0c 00 00", // vpxor ymm13,ymm9,YMMWORD PTR [r11+0xc20]
            "41 0f 18 94 24 00 5a 00 00", // prefetcht1 BYTE PTR [r12+0x5a00]
            "c5 fe 7f b7 00 06 00 00", // vmovdqu YMMWORD PTR [rdi+0x600],ymm6
            "c5 fe 7f bf 20 06 00 00", // vmovdqu YMMWORD PTR [rdi+0x620],ymm7
            "4c 8b bc 24 18 00 00 00", // mov r15,QWORD PTR [rsp+0x18]
            "c4 c1 7e 6f 57 00", // vmovdqu ymm2,YMMWORD PTR [r15+0x0]
            "c4 c1 7e 6f 5f 20", // vmovdqu ymm3,YMMWORD PTR [r15+0x20]
            "4c 8b bc 24 10 00 00 00", // mov r15,QWORD PTR [rsp+0x10]
            "c4 41 7d e7 b7 00 1e 00 00", // vmovntdq YMMWORD PTR [r15+0x1e00],ymm14
            "c4 41 7d e7 bf 20 1e 00 00", // vmovntdq YMMWORD PTR [r15+0x1e20],ymm15
            "c4 41 7d e7 b7 00 24 00 00", // vmovntdq YMMWORD PTR [r15+0x2400],ymm14
            "c4 41 7d e7 bf 20 24 00 00", // vmovntdq YMMWORD PTR [r15+0x2420],ymm15
            "c4 c1 7e 6f 94 24 00 06 00 00", // vmovdqu ymm2,YMMWORD PTR [r12+0x600]
            "c4 c1 7e 6f 9c 24 20 06 00 00", // vmovdqu ymm3,YMMWORD PTR [r12+0x620]
            "c5 fe 7f 51 40", // vmovdqu YMMWORD PTR [rcx+0x40],ymm2
            "c5 fe 7f 59 60", // vmovdqu YMMWORD PTR [rcx+0x60],ymm3
        ];
        let bytes = bytes_of(&body);
        assert_eq!(&code_of_columns(Vectors::Ymm)[0x88..0x88 + bytes.len()], bytes);
    }

    #[test]
    fn a_slice_fetches_other_packets_than_the_one_before_by_an_index() {
        let columns = Columns {
            packet_bytes: 1536,
            rows: vec![7; 14],
            cells: vec![(10, 0), (11, 0)],
            fetch_step: Some(1536),
        };
        let mut code = Assembler::of_columns(pairs(Vectors::Zmm), columns);
        let begin = code.bytes.len();
        assert_eq!(code.bytes[begin - 3..], bytes_of(&["45 31 f6"])); // xor r14d,r14d
        code.fetch_line(Level::First, 0, 0x2a00);
        code.fetch_line(Level::Second, 9, 0x5a00);
        code.fetch_line(Level::First, 10, 0x5a00);
        let golden = [
            "42 0f 18 8c 30 00 2a 00 00", // prefetcht0 BYTE PTR [rax+r14*1+0x2a00]
            "43 0f 18 94 34 00 5a 00 00", // prefetcht1 BYTE PTR [r12+r14*1+0x5a00]
            "43 0f 18 8c 35 00 5a 00 00", // prefetcht0 BYTE PTR [r13+r14*1+0x5a00]
        ];
        assert_eq!(code.bytes[begin..], bytes_of(&golden));
        // The index takes the register of a column, so of 14 columns two are on the stack.
        code.load(2, Place::Buffer(1));
        let code = code.finished();
        let has = |bytes: &str| {
            let bytes = bytes_of(&[bytes]);
            code.windows(bytes.len()).filter(|window| *window == bytes).count()
        };
        assert_eq!(has("49 81 c6 80 05 00 00"), 1); // add r14,0x580
        assert_eq!(has("49 81 c6 80 00 00 00"), 0); // add r14,0x80
        // push QWORD PTR [rdi+0x68], [rdi+0x60], and no [rdi+0x58]
        assert_eq!(["ff b7 68 00 00 00", "ff b7 60 00 00 00", "ff b7 58 00 00 00"].map(has), [1, 1, 0]);
    }

    #[test]
    #[rustfmt::skip]
    fn packets_of_a_slice_in_as_many_columns_as_registers_need_no_count() {
        let begin = ["56", "56"]; // push rsi
        let last = [
            "4c 8b bf 68 00 00 00", // mov r15,QWORD PTR [rdi+0x68]
            "48 8b bf 60 00 00 00", // mov rdi,QWORD PTR [rdi+0x60]
        ];
        let body = [
            "62 f1 fe 48 6f 57 02", // vmovdqu64 zmm2,ZMMWORD PTR [rdi+0x80]
            "62 f1 fe 48 6f 5f 03", // vmovdqu64 zmm3,ZMMWORD PTR [rdi+0xc0]
            "62 d1 fe 48 6f 67 02", // vmovdqu64 zmm4,ZMMWORD PTR [r15+0x80]
            "62 d1 fe 48 6f 6f 03", // vmovdqu64 zmm5,ZMMWORD PTR [r15+0xc0]
        ];
        let end = [
            "49 81 c7 00 01 00 00", // add r15,0x100
            "48 ff 4c 24 08", // dec QWORD PTR [rsp+0x8]
            "0f 85 77 ff ff ff", // jne 0x80
            "48 81 c4 10 00 00 00", // add rsp,0x10
        ];
        let golden = aligned(
            &[&bytes_of(&PUSHES), &bytes_of(&begin), &bytes_of(&LOADS), &bytes_of(&last)],
            &[&bytes_of(&body), &adds("00 01 00 00"), &bytes_of(&end), &bytes_of(&POPS)],
        );
        let columns = Columns { packet_bytes: 128, rows: vec![2; 14], cells: vec![(12, 1), (13, 1)], fetch_step: None };
        let mut code = Assembler::of_columns(pairs(Vectors::Zmm), columns);
        code.load(2, Place::Buffer(0));
        code.load(4, Place::Buffer(1));
        assert_eq!(code.finished(), golden);
    }

    #[test]
    #[rustfmt::skip]
    fn instructions_on_one_vector_are_those_of_an_assembler() {
        let of = |vectors: Vectors| {
            let columns = Columns { packet_bytes: 64, rows: vec![3, 40], cells: vec![(0, 2), (1, 39)], fetch_step: None };
            let mut code = Assembler::of_columns(Slice { vectors, count: 1 }, columns);
            let begin = code.bytes.len();
            code.load(15, Place::Buffer(0));
            code.sum(7, Some(15), Place::Buffer(1));
            code.sum(8, Some(8), Place::Slot(3));
            code.store(9, Place::Slot(4));
            code.sum_of(3, 12, 7);
            code.copy(11, 2);
            code.zero(14);
            code.store(15, Place::Buffer(1));
            code.bytes[begin..].to_vec()
        };
        // As GNU objdump 2.40 disassembles it.
        let golden = [
            "c5 7e 6f b8 80 00 00 00", // vmovdqu ymm15,YMMWORD PTR [rax+0x80]
            "c5 85 ef ba c0 09 00 00", // vpxor ymm7,ymm15,YMMWORD PTR [rdx+0x9c0]
            "c5 3d ef 41 60", // vpxor ymm8,ymm8,YMMWORD PTR [rcx+0x60]
            "c5 7e 7f 89 80 00 00 00", // vmovdqu YMMWORD PTR [rcx+0x80],ymm9
            "c5 9d ef df", // vpxor ymm3,ymm12,ymm7
            "c5 7d 6f da", // vmovdqa ymm11,ymm2
            "c4 41 0d ef f6", // vpxor ymm14,ymm14,ymm14
            "c5 7e 7f ba c0 09 00 00", // vmovdqu YMMWORD PTR [rdx+0x9c0],ymm15
        ];
        assert_eq!(of(Vectors::Ymm), bytes_of(&golden));
        let golden = [
            "62 71 fe 48 6f 78 02", // vmovdqu64 zmm15,ZMMWORD PTR [rax+0x80]
            "62 f1 85 48 ef 7a 27", // vpxorq zmm7,zmm15,ZMMWORD PTR [rdx+0x9c0]
            "62 71 bd 48 ef 41 03", // vpxorq zmm8,zmm8,ZMMWORD PTR [rcx+0xc0]
            "62 71 fe 48 7f 49 04", // vmovdqu64 ZMMWORD PTR [rcx+0x100],zmm9
            "62 f1 9d 48 ef df", // vpxorq zmm3,zmm12,zmm7
            "62 71 fd 48 6f da", // vmovdqa64 zmm11,zmm2
            "62 51 8d 48 ef f6", // vpxorq zmm14,zmm14,zmm14
            "62 71 fe 48 7f 7a 27", // vmovdqu64 ZMMWORD PTR [rdx+0x9c0],zmm15
        ];
        assert_eq!(of(Vectors::Zmm), bytes_of(&golden));
    }

    #[test]
    #[rustfmt::skip]
    fn instructions_on_256_bits_are_those_of_an_assembler() {
        // As above, from the loop on.
        let golden = [
            "4c 8b 8f 48 00 00 00", // mov r9,QWORD PTR [rdi+0x48]
            "c4 41 7e 6f 64 01 00", // vmovdqu ymm12,YMMWORD PTR [r9+rax*1+0x0]
            "c4 41 7e 6f 6c 01 20", // vmovdqu ymm13,YMMWORD PTR [r9+rax*1+0x20]
            "c5 7e 7f 41 40", // vmovdqu YMMWORD PTR [rcx+0x40],ymm8
            "c5 7e 7f 49 60", // vmovdqu YMMWORD PTR [rcx+0x60],ymm9
            "c5 fe 7f 91 80 00 00 00", // vmovdqu YMMWORD PTR [rcx+0x80],ymm2
            "c5 fe 7f 99 a0 00 00 00", // vmovdqu YMMWORD PTR [rcx+0xa0],ymm3
            "c4 c1 7d e7 74 01 00", // vmovntdq YMMWORD PTR [r9+rax*1+0x0],ymm6
            "c4 c1 7d e7 7c 01 20", // vmovntdq YMMWORD PTR [r9+rax*1+0x20],ymm7
            "4c 8b 8f 40 05 00 00", // mov r9,QWORD PTR [rdi+0x540]
            "c4 41 2d ef 74 01 00", // vpxor ymm14,ymm10,YMMWORD PTR [r9+rax*1+0x0]
            "c4 41 25 ef 7c 01 20", // vpxor ymm15,ymm11,YMMWORD PTR [r9+rax*1+0x20]
            "c5 dd ef 61 00", // vpxor ymm4,ymm4,YMMWORD PTR [rcx+0x0]
            "c5 d5 ef 69 20", // vpxor ymm5,ymm5,YMMWORD PTR [rcx+0x20]
            "c4 41 1d ef e6", // vpxor ymm12,ymm12,ymm14
            "c4 41 15 ef ef", // vpxor ymm13,ymm13,ymm15
            "c4 c1 2d ef c0", // vpxor ymm0,ymm10,ymm8
            "c4 c1 25 ef c9", // vpxor ymm1,ymm11,ymm9
            "c5 7d 6f e2", // vmovdqa ymm12,ymm2
            "c5 7d 6f eb", // vmovdqa ymm13,ymm3
            "c4 c1 7d 6f d6", // vmovdqa ymm2,ymm14
            "c4 c1 7d 6f df", // vmovdqa ymm3,ymm15
            "48 05 40 00 00 00", // add rax,0x40
            "48 39 d0", // cmp rax,rdx
            "0f 82 6f ff ff ff", // jb 40 <again>
            "c5 f8 77", // vzeroupper
            "c3", // ret
        ];
        let mut code = Assembler::new(pairs(Vectors::Ymm), None);
        code.load(12, Place::Buffer(9));
        code.store(8, Place::Slot(1));
        code.store(2, Place::Slot(2));
        code.store_past(6, Place::Buffer(9));
        code.sum(14, Some(10), Place::Buffer(168));
        code.sum(4, Some(4), Place::Slot(0));
        code.sum_of(12, 12, 14);
        code.sum_of(0, 10, 8);
        code.copy(12, 2);
        code.copy(2, 14);
        assert_eq!(code.finished()[64..], bytes_of(&golden));
    }
}
