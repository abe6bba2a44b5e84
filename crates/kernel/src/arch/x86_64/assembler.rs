//! Machine code made at run time: the few instructions that a braid needs.
//!
//! Vectors are of 512 bits and come in pairs, the two lines of a slice. Registers have fixed duties: `rdi` is the table of
//! pointers, `rax` the position in the buffers, `rdx` their end, `rcx` the slots, `r9` the buffer in use; where code streams, `r8` is what a
//! slice fetches ahead, `r10` one buffer of it and `r11` where the next tile begins.

use crate::braid::{Place, SLICE_BYTES};

/// What code that streams fetches ahead. While it works on a tile, it fetches the next one into the second-level cache, stream after
/// stream: so memory sees runs of some lines, where a slice has two lines of each of a hundred streams.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tile {
    /// Slices of a tile, a power of two.
    pub(super) slices: usize,
    /// Buffers of which a slice fetches the next tile.
    pub(super) of_slice: usize,
    /// Pointers of the table that come before those that are fetched ahead.
    pub(super) pointers: usize,
}

impl Tile {
    fn len_bytes(&self) -> i32 {
        (self.slices * SLICE_BYTES) as i32
    }
}

/// What code and its loops begin at: a line of the cache.
pub(super) const CODE_ALIGN_BYTES: usize = 64;

/// Two vector registers, one after the other: a slice of a sum. Named by the first.
pub(super) type Pair = u8;

/// Buffers as pointers, then those that are fetched ahead; the bytes from and to which the code works; the slots.
pub(super) type Entry = unsafe extern "sysv64" fn(*const *mut u8, usize, usize, *mut u8);

/// A loop over slices in the making.
pub(super) struct Assembler {
    bytes: Vec<u8>,
    /// Where the loop begins.
    again: usize,
    /// The buffer that r9 points to.
    buffer: Option<usize>,
}

/// A second source, or a destination.
#[derive(Clone, Copy)]
enum Operand {
    Register(u8),
    /// `r9 + rax + 64 * line`.
    Buffer(i32),
    /// `rcx + 64 * line`.
    Slot(i32),
}

/// A vector instruction: the prefix as a number (1 is 66, 2 is F3), whether its elements have 64 bits, the opcode.
#[derive(Clone, Copy)]
struct Vector(u8, bool, u8);

const XOR: Vector = Vector(1, true, 0xef);
const COPY: Vector = Vector(1, true, 0x6f);
const LOAD: Vector = Vector(2, true, 0x6f);
const STORE: Vector = Vector(2, true, 0x7f);
const STORE_PAST: Vector = Vector(1, false, 0xe7);

impl Assembler {
    pub(super) fn new(tile: Option<&Tile>) -> Assembler {
        let mut code = Assembler { bytes: Vec::new(), again: 0, buffer: None };
        code.put(&[0x48, 0x89, 0xf0]); // mov rax, rsi
        code.bytes.resize(CODE_ALIGN_BYTES, 0x90); // nop
        code.again = code.bytes.len();
        if let Some(tile) = tile {
            code.put(&[0x49, 0x89, 0xc0]); // mov r8, rax
            code.put(&[0x49, 0xc1, 0xe8, SLICE_BYTES.ilog2() as u8]); // shr r8, ..
            code.put(&[0x41, 0x83, 0xe0, tile.slices as u8 - 1]); // and r8d, ..
            code.put(&[0x4d, 0x69, 0xc0]).number(8 * tile.of_slice as i32); // imul r8, r8, ..
            code.put(&[0x4d, 0x8d, 0x84, 0x38]).number(8 * tile.pointers as i32); // lea r8, [r8 + rdi + ..]
            code.put(&[0x49, 0x89, 0xc3]); // mov r11, rax
            code.put(&[0x49, 0x81, 0xe3]).number(-tile.len_bytes()); // and r11, ..
            code.put(&[0x49, 0x81, 0xc3]).number(tile.len_bytes()); // add r11, ..
        }
        code
    }

    /// The whole function.
    pub(super) fn finished(mut self) -> Vec<u8> {
        self.put(&[0x48, 0x05]).number(SLICE_BYTES as i32); // add rax, ..
        self.put(&[0x48, 0x39, 0xd0]); // cmp rax, rdx
        let end = self.bytes.len() + 6;
        let again = self.again as i32 - end as i32;
        self.put(&[0x0f, 0x82]).number(again); // jb again
        self.put(&[0xc5, 0xf8, 0x77]); // vzeroupper
        self.put(&[0xc3]); // ret
        self.bytes
    }

    /// Fetches the next tile of one of the buffers that a slice fetches ahead: of code that was begun with this tile.
    pub(super) fn fetch(&mut self, tile: &Tile, which: usize) {
        debug_assert!(which < tile.of_slice, "the table has no more pointers for a slice");
        self.put(&[0x4d, 0x8b, 0x90]).number(8 * which as i32); // mov r10, [r8 + ..]
        for at in (0..tile.len_bytes()).step_by(64) {
            self.put(&[0x43, 0x0f, 0x18, 0x94, 0x1a]).number(at); // prefetcht1 [r10 + r11 + ..]
        }
    }

    pub(super) fn load(&mut self, to: Pair, from: Place) {
        self.with_place(LOAD, to, [0, 0], from);
    }

    pub(super) fn store(&mut self, from: Pair, to: Place) {
        self.with_place(STORE, from, [0, 0], to);
    }

    /// As `store`, past the cache: for buffers that start a line.
    pub(super) fn store_past(&mut self, from: Pair, to: Place) {
        self.with_place(STORE_PAST, from, [0, 0], to);
    }

    /// A pair as the sum of one, if any, and a place.
    pub(super) fn sum(&mut self, to: Pair, other: Option<Pair>, from: Place) {
        match other {
            Some(other) => self.with_place(XOR, to, [other, other + 1], from),
            None => self.load(to, from),
        }
    }

    /// A pair as the sum of two.
    pub(super) fn sum_of(&mut self, to: Pair, one: Pair, other: Pair) {
        self.vector(XOR, to, one, Operand::Register(other));
        self.vector(XOR, to + 1, one + 1, Operand::Register(other + 1));
    }

    pub(super) fn zero(&mut self, pair: Pair) {
        self.sum_of(pair, pair, pair);
    }

    pub(super) fn copy(&mut self, to: Pair, from: Pair) {
        self.vector(COPY, to, 0, Operand::Register(from));
        self.vector(COPY, to + 1, 0, Operand::Register(from + 1));
    }

    fn put(&mut self, bytes: &[u8]) -> &mut Assembler {
        self.bytes.extend(bytes);
        self
    }

    fn number(&mut self, number: i32) {
        self.put(&number.to_le_bytes());
    }

    /// An instruction for both lines of a place.
    fn with_place(&mut self, vector: Vector, pair: Pair, first: [u8; 2], place: Place) {
        let operands = match place {
            Place::Slot(slot) => [2 * slot as i32, 2 * slot as i32 + 1].map(Operand::Slot),
            Place::Buffer(buffer) => {
                if self.buffer != Some(buffer) {
                    self.put(&[0x4c, 0x8b, 0x8f]).number(8 * buffer as i32); // mov r9, [rdi + ..]
                    self.buffer = Some(buffer);
                }
                [0, 1].map(Operand::Buffer)
            }
        };
        self.vector(vector, pair, first[0], operands[0]);
        self.vector(vector, pair + 1, first[1], operands[1]);
    }

    /// An instruction on 512 bits: the EVEX prefix, the opcode, the operands. `first` is the other source of an instruction that
    /// has two.
    fn vector(&mut self, Vector(prefix, wide, opcode): Vector, register: u8, first: u8, operand: Operand) {
        // The bits of a register of 32 that do not fit its place, inverted.
        let not = |register: u8, bit: u8| (!register >> bit) & 1;
        let (index, base) = match operand {
            Operand::Register(other) => (not(other, 4), not(other, 3)),
            Operand::Buffer(_) => (1, 0),
            Operand::Slot(_) => (1, 1),
        };
        self.put(&[
            0x62,
            not(register, 3) << 7 | index << 6 | base << 5 | not(register, 4) << 4 | 1,
            u8::from(wide) << 7 | (!first & 15) << 3 | 1 << 2 | prefix,
            2 << 5 | not(first, 4) << 3,
            opcode,
        ]);
        let register = (register & 7) << 3;
        match operand {
            Operand::Register(other) => self.put(&[3 << 6 | register | (other & 7)]),
            // Positions that fit a byte count in vectors.
            Operand::Buffer(line) => self.put(&[1 << 6 | register | 4, 1, line as u8]),
            Operand::Slot(line) if line < 128 => self.put(&[1 << 6 | register | 1, line as u8]),
            Operand::Slot(line) => {
                self.put(&[2 << 6 | register | 1]).number(64 * line);
                self
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn instructions_are_those_of_an_assembler() {
        // Line by line what GNU as 2.40 makes of it, the 61 bytes before the loop left out.
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
            "0f 82 d9 fe ff ff", // jb 40 <again>
            "c5 f8 77", // vzeroupper
            "c3", // ret
        ];
        let bytes: Vec<u8> = golden
            .iter()
            .flat_map(|line| line.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()))
            .collect();
        let tile = Tile { slices: 4, of_slice: 26, pointers: 169 };
        let mut code = Assembler::new(Some(&tile));
        code.fetch(&tile, 3);
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
}
