//! Machine code made at run time: the few instructions that a braid needs.
//!
//! Vectors are of 256 or of 512 bits and come in pairs, the two halves of a slice. Registers have fixed duties: `rdi` is the table of
//! pointers, `rax` the position in the buffers, `rdx` their end, `rcx` the slots, `r9` the buffer in use; where code streams, `r8` is what a
//! slice fetches ahead, `r10` one buffer of it and `r11` where the next tile begins.

use crate::braid::{Place, Vectors};

/// What code that streams fetches ahead. While it works on a tile, it fetches the next one, stream after
/// stream: so memory sees runs of some lines, where a slice has a line or two of each of a hundred streams.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tile {
    /// The cache that it is fetched into. All others between that and memory have it then, too.
    pub(super) into: Level,
    /// Slices of a tile, a power of two.
    pub(super) slices: usize,
    /// Buffers of which a slice fetches the next tile.
    pub(super) of_slice: usize,
    /// Pointers of the table that come before those that are fetched ahead.
    pub(super) pointers: usize,
}

/// A cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    First,
    Second,
}

/// What code and its loops begin at: a line of the cache.
pub(super) const CODE_ALIGN_BYTES: usize = 64;

/// Two vector registers, one after the other: a slice of a sum. Named by the first.
pub(super) type Pair = u8;

/// Buffers as pointers, then those that are fetched ahead; the bytes from and to which the code works; the slots.
pub(super) type Entry = unsafe extern "sysv64" fn(*const *mut u8, usize, usize, *mut u8);

/// A loop over slices in the making.
pub(super) struct Assembler {
    vectors: Vectors,
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
    /// `r9 + rax`, and so many vectors.
    Buffer(i32),
    /// `rcx`, and so many vectors.
    Slot(i32),
}

/// A vector instruction: the prefix as a number (1 is 66, 2 is F3), whether its elements have 64 bits where that is asked, the opcode.
#[derive(Clone, Copy)]
struct Vector(u8, bool, u8);

const XOR: Vector = Vector(1, true, 0xef);
const COPY: Vector = Vector(1, true, 0x6f);
const LOAD: Vector = Vector(2, true, 0x6f);
const STORE: Vector = Vector(2, true, 0x7f);
const STORE_PAST: Vector = Vector(1, false, 0xe7);

impl Assembler {
    pub(super) fn new(vectors: Vectors, tile: Option<&Tile>) -> Assembler {
        let mut code = Assembler { vectors, bytes: Vec::new(), again: 0, buffer: None };
        code.put(&[0x48, 0x89, 0xf0]); // mov rax, rsi
        code.bytes.resize(CODE_ALIGN_BYTES, 0x90); // nop
        code.again = code.bytes.len();
        if let Some(tile) = tile {
            let len_bytes = code.len_bytes(tile);
            code.put(&[0x49, 0x89, 0xc0]); // mov r8, rax
            code.put(&[0x49, 0xc1, 0xe8, vectors.slice_bytes().ilog2() as u8]); // shr r8, ..
            code.put(&[0x41, 0x83, 0xe0, tile.slices as u8 - 1]); // and r8d, ..
            code.put(&[0x4d, 0x69, 0xc0]).number(8 * tile.of_slice as i32); // imul r8, r8, ..
            code.put(&[0x4d, 0x8d, 0x84, 0x38]).number(8 * tile.pointers as i32); // lea r8, [r8 + rdi + ..]
            code.put(&[0x49, 0x89, 0xc3]); // mov r11, rax
            code.put(&[0x49, 0x81, 0xe3]).number(-len_bytes); // and r11, ..
            code.put(&[0x49, 0x81, 0xc3]).number(len_bytes); // add r11, ..
        }
        code
    }

    /// The whole function.
    pub(super) fn finished(mut self) -> Vec<u8> {
        let slice_bytes = self.vectors.slice_bytes() as i32;
        self.put(&[0x48, 0x05]).number(slice_bytes); // add rax, ..
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
        let prefetch = match tile.into {
            Level::First => 0x8c,  // prefetcht0 [r10 + r11 + ..]
            Level::Second => 0x94, // prefetcht1
        };
        for at in (0..self.len_bytes(tile)).step_by(64) {
            self.put(&[0x43, 0x0f, 0x18, prefetch, 0x1a]).number(at);
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

    fn len_bytes(&self, tile: &Tile) -> i32 {
        (tile.slices * self.vectors.slice_bytes()) as i32
    }

    fn put(&mut self, bytes: &[u8]) -> &mut Assembler {
        self.bytes.extend(bytes);
        self
    }

    fn number(&mut self, number: i32) {
        self.put(&number.to_le_bytes());
    }

    /// An instruction for both halves of a place.
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

    /// An instruction: the prefix, the opcode, the operands. `first` is the other source of an instruction that has two.
    fn vector(&mut self, Vector(prefix, wide, opcode): Vector, register: u8, first: u8, operand: Operand) {
        match self.vectors {
            Vectors::Ymm => self.vex(prefix, register, first, operand),
            Vectors::Zmm => self.evex(prefix, wide, register, first, operand),
        }
        self.put(&[opcode]);
        let register = (register & 7) << 3;
        let bytes = self.vectors.bytes() as i32;
        // A displacement of one byte counts in vectors of 512 bits, or in bytes.
        let unit = if self.vectors == Vectors::Zmm { bytes } else { 1 };
        let short = |vectors: i32| u8::try_from(vectors * bytes / unit).ok().filter(|&number| number < 128);
        match operand {
            Operand::Register(other) => self.put(&[3 << 6 | register | (other & 7)]),
            Operand::Buffer(vectors) => {
                let number = short(vectors).unwrap_or_else(|| unreachable!("a slice has two vectors"));
                self.put(&[1 << 6 | register | 4, 1, number])
            }
            Operand::Slot(vectors) => match short(vectors) {
                Some(number) => self.put(&[1 << 6 | register | 1, number]),
                None => {
                    self.put(&[2 << 6 | register | 1]).number(vectors * bytes);
                    self
                }
            },
        };
    }

    /// The prefix of an instruction on 256 bits.
    fn vex(&mut self, prefix: u8, register: u8, first: u8, operand: Operand) {
        let not = |register: u8| (!register >> 3) & 1;
        let base = match operand {
            Operand::Register(other) => not(other),
            Operand::Buffer(_) => 0,
            Operand::Slot(_) => 1,
        };
        let rest = (!first & 15) << 3 | 1 << 2 | prefix;
        match base {
            0 => self.put(&[0xc4, not(register) << 7 | 1 << 6 | 1, rest]),
            _ => self.put(&[0xc5, not(register) << 7 | rest]),
        };
    }

    /// The prefix of an instruction on 512 bits.
    fn evex(&mut self, prefix: u8, wide: bool, register: u8, first: u8, operand: Operand) {
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
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(lines: &[&str]) -> Vec<u8> {
        let bytes = lines.iter().flat_map(|line| line.split(' '));
        bytes.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
    }

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
        let mut code = Assembler::new(Vectors::Zmm, Some(&tile));
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
        let mut code = Assembler::new(Vectors::Ymm, None);
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
