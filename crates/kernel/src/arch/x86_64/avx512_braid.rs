//! The straight-line kernels of [`crate::braid`]: AVX-512, one for each number of columns.
//!
//! Held sum j lies in `zmm(2j)` and `zmm(2j + 1)`, the sum that is swept or was finished last in `zmm28` and `zmm29`; what
//! is read passes through `zmm30` and `zmm31`. They are written in assembly because 196 branches, each over a few
//! instructions on 32 live registers, are more than the compiler allocates without moving them about.
//!
//! `r15` is the table, `rdi` the places, `rax` the position in the buffers, `rsi` their end; `r12`, `r13` and `r14` walk over
//! the lists of plain terms, late terms and row links, as positions in the table. A kernel that streams also fetches the next
//! tile ahead: `r8` walks over that list, `r9` is where the tile begins. What is rare lies aside, after the loop, so that the
//! usual way jumps seldom. The offsets in the code are those of [`crate::braid::Layout`], which a test compares.

use std::arch::asm;

use crate::braid::{Braid, SLICE_BYTES};

/// Runs a table of as many columns over bytes `from..to` of every buffer.
///
/// # Safety
///
/// The machine has AVX-512 F. The places were filled for the table, for buffers of `to` bytes at least, valid for reads and
/// writes and apart from one another, and for slots that are aligned to a vector. `to - from` is a multiple of [`SLICE_BYTES`]. If the
/// kernel streams, buffers that are written and read no more are aligned to a vector.
pub(crate) type Kernel = unsafe fn(words: *const usize, places: *const *mut u8, from: usize, to: usize);

/// The kernel of a braid.
pub(crate) fn kernel(braid: &Braid, streaming: bool) -> Kernel {
    macro_rules! pick {
        ($($width:literal is $cached:ident $streamed:ident),*) => {
            match (braid.width, streaming) {
                $(($width, false) => $cached, ($width, true) => $streamed,)*
                _ => unreachable!("a braid has one of the widths that there are"),
            }
        };
    }
    pick!(
        4 is cached_4 streamed_4,
        5 is cached_5 streamed_5,
        6 is cached_6 streamed_6,
        7 is cached_7 streamed_7,
        8 is cached_8 streamed_8,
        10 is cached_10 streamed_10,
        11 is cached_11 streamed_11,
        12 is cached_12 streamed_12,
        13 is cached_13 streamed_13,
        14 is cached_14 streamed_14
    )
}

/// Adds two vectors at an address to two registers.
#[rustfmt::skip]
macro_rules! add {
    ($a:literal, $b:literal, $at:literal) => {
        concat!(
            "vpxorq zmm", $a, ", zmm", $a, ", zmmword ptr [", $at, "]\n",
            "vpxorq zmm", $b, ", zmm", $b, ", zmmword ptr [", $at, " + 64]\n",
        )
    };
}

/// Stores two registers to rcx + rdx.
#[rustfmt::skip]
macro_rules! store {
    (vmovdqu64, $a:literal, $b:literal, $past:expr) => {
        concat!(
            "vmovdqu64 zmmword ptr [rcx + rdx], zmm", $a, "\n",
            "vmovdqu64 zmmword ptr [rcx + rdx + 64], zmm", $b, "\n",
        )
    };
    (vmovntdq, $a:literal, $b:literal, $past:expr) => {
        concat!(
            $past, "\n",
            "jnz 8f\n",
            store!(vmovdqu64, $a, $b, ""),
            "jmp 9f\n",
            "8:\n",
            "vmovntdq zmmword ptr [rcx + rdx], zmm", $a, "\n",
            "vmovntdq zmmword ptr [rcx + rdx + 64], zmm", $b, "\n",
            "9:\n",
        )
    };
}

/// A column's start: zero, or a buffer.
#[rustfmt::skip]
macro_rules! start {
    (aside $j:literal, $a:literal, $b:literal) => {
        concat!(
            "301", $j, ":\n",
            "vmovdqu64 zmm", $a, ", zmmword ptr [rcx + rax]\n",
            "vmovdqu64 zmm", $b, ", zmmword ptr [rcx + rax + 64]\n",
            "jmp 302", $j, "b\n",
        )
    };
    ($w:literal, $j:literal, $a:literal, $b:literal) => {
        concat!(
            "mov rcx, [rdi + 8 * (14 * ", $w, " + 56 + ", $j, ")]\n",
            "vpxord zmm", $a, ", zmm", $a, ", zmm", $a, "\n",
            "vpxord zmm", $b, ", zmm", $b, ", zmm", $b, "\n",
            "test rcx, rcx\n",
            "jnz 301", $j, "f\n",
            "302", $j, ":\n",
        )
    };
}

/// A cell: nothing, or a buffer that is added to its row and to its column.
#[rustfmt::skip]
macro_rules! cell {
    ($w:literal, $i:literal, $j:literal, $a:literal, $b:literal) => {
        concat!(
            "mov rcx, [rdi + 8 * (", $i, " * ", $w, " + ", $j, ")]\n",
            "test rcx, rcx\n",
            "jz 2f\n",
            "vmovdqu64 zmm30, zmmword ptr [rcx + rax]\n",
            "vmovdqu64 zmm31, zmmword ptr [rcx + rax + 64]\n",
            "vpxorq zmm28, zmm28, zmm30\n",
            "vpxorq zmm", $a, ", zmm", $a, ", zmm30\n",
            "vpxorq zmm29, zmm29, zmm31\n",
            "vpxorq zmm", $b, ", zmm", $b, ", zmm31\n",
            "2:\n",
        )
    };
}

/// What a row fetches ahead, if the kernel streams: runs of a tile from some sources.
#[rustfmt::skip]
macro_rules! ahead {
    (vmovdqu64, $w:literal) => {
        ""
    };
    (vmovntdq, $w:literal) => {
        concat!(
            "mov r11, [r15 + 8 * (20 * ", $w, " + 67)]\n",
            "add r11, r8\n",
            "2:\n",
            "mov rcx, [rdi + r8]\n",
            "add r8, 8\n",
            "prefetcht1 [rcx + r9]\n",
            "prefetcht1 [rcx + r9 + 64]\n",
            "prefetcht1 [rcx + r9 + 128]\n",
            "prefetcht1 [rcx + r9 + 192]\n",
            "prefetcht1 [rcx + r9 + 256]\n",
            "prefetcht1 [rcx + r9 + 320]\n",
            "prefetcht1 [rcx + r9 + 384]\n",
            "prefetcht1 [rcx + r9 + 448]\n",
            "cmp r8, r11\n",
            "jne 2b\n",
        )
    };
}

/// Where a slice is in the list of what is fetched ahead (r8), and the next tile (r9).
#[rustfmt::skip]
macro_rules! ahead_of_slice {
    (vmovdqu64, $w:literal) => {
        ""
    };
    (vmovntdq, $w:literal) => {
        concat!(
            "mov r8, rax\n",
            "shr r8, 7\n",
            "and r8, 3\n",
            "imul r8, [r15 + 8 * (20 * ", $w, " + 66)]\n",
            "add r8, [r15 + 8 * (20 * ", $w, " + 65)]\n",
            "mov r9, rax\n",
            "and r9, -512\n",
            "add r9, 512\n",
        )
    };
}

/// How a row starts: with its first plain term, or as zero.
#[rustfmt::skip]
macro_rules! first {
    ($w:literal, $i:literal) => {
        concat!(
            "mov rcx, [rdi + 8 * (14 * ", $w, " + 4 * ", $i, ")]\n",
            "vpxord zmm28, zmm28, zmm28\n",
            "vpxord zmm29, zmm29, zmm29\n",
            "test rcx, rcx\n",
            "jnz 312", $i, "f\n",
            "313", $i, ":\n",
        )
    };
    (aside $i:literal) => {
        concat!(
            "312", $i, ":\n",
            "vmovdqu64 zmm28, zmmword ptr [rcx + rax]\n",
            "vmovdqu64 zmm29, zmmword ptr [rcx + rax + 64]\n",
            "jmp 313", $i, "b\n",
        )
    };
}

/// A row: its plain terms, its cells, its goal.
#[rustfmt::skip]
macro_rules! row {
    ($store:ident, $w:literal, $i:literal, [$(($j:literal $a:literal $b:literal))*]) => {
        concat!(
            "mov r10, [r15 + 8 * (14 * ", $w, " + 4 * ", $i, ")]\n",
            "test r10, r10\n",
            "jz 901f\n",
            first!($w, $i),
            ahead!($store, $w),
            "test r10b, 8\n",
            "jnz 303", $i, "f\n",
            "304", $i, ":\n",
            $(cell!($w, $i, $j, $a, $b),)*
            "mov rdx, [r15 + 8 * (14 * ", $w, " + 4 * ", $i, " + 2)]\n",
            "mov rcx, [rdi + 8 * (14 * ", $w, " + 4 * ", $i, " + 1)]\n",
            "and rdx, rax\n",
            "test r10b, 2\n",
            "jnz 314", $i, "f\n",
            "315", $i, ":\n",
            store!($store, "28", "29", "test r10b, 1"),
        )
    };
    (aside $w:literal, $i:literal, $a:literal, $b:literal) => {
        concat!(
            first!(aside $i),
            "303", $i, ":\n",
            "mov r11, [r15 + 8 * (14 * ", $w, " + 4 * ", $i, " + 3)]\n",
            "2:\n",
            "mov rcx, [rdi + r12]\n",
            "add r12, 8\n",
            add!("28", "29", "rcx + rax"),
            "cmp r12, r11\n",
            "jne 2b\n",
            "jmp 304", $i, "b\n",
            "314", $i, ":\n",
            "vpxorq zmm", $a, ", zmm", $a, ", zmm28\n",
            "vpxorq zmm", $b, ", zmm", $b, ", zmm29\n",
            "jmp 315", $i, "b\n",
        )
    };
}

/// The late terms of a link, up to r10.
#[rustfmt::skip]
macro_rules! late {
    ($a:literal, $b:literal) => {
        concat!(
            "2:\n",
            "mov rdx, [r15 + r13 + 8]\n",
            "mov rcx, [rdi + r13]\n",
            "add r13, 16\n",
            "and rdx, rax\n",
            add!($a, $b, "rcx + rdx"),
            "cmp r13, r10\n",
            "jne 2b\n",
        )
    };
}

/// The row links before column `j`, up to r11.
#[rustfmt::skip]
macro_rules! row_links {
    ($store:ident, $j:literal) => {
        concat!(
            "305", $j, ":\n",
            "mov rcx, [rdi + r14 + 8]\n",
            "mov r9, [r15 + r14]\n",
            "vmovdqa64 zmm30, zmmword ptr [rcx]\n",
            "vmovdqa64 zmm31, zmmword ptr [rcx + 64]\n",
            "test r9b, 1\n",
            "jz 2f\n",
            "vpxorq zmm30, zmm30, zmm28\n",
            "vpxorq zmm31, zmm31, zmm29\n",
            "2:\n",
            "vmovdqa64 zmm28, zmm30\n",
            "vmovdqa64 zmm29, zmm31\n",
            "test r9b, 2\n",
            "jnz 306", $j, "f\n",
            "307", $j, ":\n",
            "mov rdx, [r15 + r14 + 32]\n",
            "mov rcx, [rdi + r14 + 24]\n",
            "and rdx, rax\n",
            store!($store, "28", "29", "test r9b, 8"),
            "add r14, 40\n",
            "cmp r14, r11\n",
            "jne 305", $j, "b\n",
        )
    };
    (aside $j:literal) => {
        concat!("306", $j, ":\n", "mov r10, [r15 + r14 + 16]\n", late!("28", "29"), "jmp 307", $j, "b\n",)
    };
}

/// A column link, and the row links before it.
#[rustfmt::skip]
macro_rules! link {
    ($store:ident, $w:literal, $j:literal, $a:literal, $b:literal) => {
        concat!(
            "mov r8, [r15 + 8 * (15 * ", $w, " + 56 + 5 * ", $j, ")]\n",
            "test r8b, 4\n",
            "jz 3f\n",
            "mov r11, [r15 + 8 * (15 * ", $w, " + 56 + 5 * ", $j, " + 1)]\n",
            row_links!($store, $j),
            "3:\n",
            "test r8b, 1\n",
            "jz 2f\n",
            "vpxorq zmm", $a, ", zmm", $a, ", zmm28\n",
            "vpxorq zmm", $b, ", zmm", $b, ", zmm29\n",
            "2:\n",
            "test r8b, 2\n",
            "jnz 308", $j, "f\n",
            "309", $j, ":\n",
            "mov rdx, [r15 + 8 * (15 * ", $w, " + 56 + 5 * ", $j, " + 4)]\n",
            "mov rcx, [rdi + 8 * (15 * ", $w, " + 56 + 5 * ", $j, " + 3)]\n",
            "and rdx, rax\n",
            store!($store, $a, $b, "test r8b, 8"),
            "vmovdqa64 zmm28, zmm", $a, "\n",
            "vmovdqa64 zmm29, zmm", $b, "\n",
        )
    };
    (aside $w:literal, $j:literal, $a:literal, $b:literal) => {
        concat!(
            "308", $j, ":\n",
            "mov r10, [r15 + 8 * (15 * ", $w, " + 56 + 5 * ", $j, " + 2)]\n",
            late!($a, $b),
            "jmp 309", $j, "b\n",
            row_links!(aside $j),
        )
    };
}

/// A column link of a braid without row links in which nothing carries.
#[rustfmt::skip]
macro_rules! plain_link {
    ($store:ident, $w:literal, $j:literal, $a:literal, $b:literal) => {
        concat!(
            "mov r8, [r15 + 8 * (15 * ", $w, " + 56 + 5 * ", $j, ")]\n",
            "mov rcx, [rdi + 8 * (15 * ", $w, " + 56 + 5 * ", $j, " + 3)]\n",
            "mov rdx, rax\n",
            "test r8b, 18\n",
            "jnz 310", $j, "f\n",
            "311", $j, ":\n",
            store!($store, $a, $b, "test r8b, 8"),
        )
    };
    (aside $w:literal, $j:literal, $a:literal, $b:literal) => {
        concat!(
            "310", $j, ":\n",
            "test r8b, 2\n",
            "jz 3f\n",
            "mov r10, [r15 + 8 * (15 * ", $w, " + 56 + 5 * ", $j, " + 2)]\n",
            late!($a, $b),
            "3:\n",
            "mov rdx, [r15 + 8 * (15 * ", $w, " + 56 + 5 * ", $j, " + 4)]\n",
            "mov rcx, [rdi + 8 * (15 * ", $w, " + 56 + 5 * ", $j, " + 3)]\n",
            "and rdx, rax\n",
            "jmp 311", $j, "b\n",
        )
    };
}

macro_rules! define_kernel {
    ($name:ident $store:ident $w:literal $columns:tt) => {
        define_kernel!(@ $name $store $w $columns $columns [
            (0 0 1) (1 2 3) (2 4 5) (3 6 7) (4 8 9) (5 10 11) (6 12 13) (7 14 15) (8 16 17) (9 18 19) (10 20 21)
            (11 22 23) (12 24 25) (13 26 27)
        ]);
    };
    (
        @ $name:ident $store:ident $w:literal
        [$(($j:literal $a:literal $b:literal))*] $columns:tt [$(($i:literal $c:literal $d:literal))*]
    ) => {
        /// # Safety
        ///
        /// As [`Kernel`].
        #[target_feature(enable = "avx512f")]
        unsafe fn $name(words: *const usize, places: *const *mut u8, from: usize, to: usize) {
            debug_assert_eq!((to - from) % SLICE_BYTES, 0);
            if from >= to {
                return;
            }
            // SAFETY: the caller's promise: every place is valid for the bytes from `from` to `to`, slots for
            // a slice, and the table says where its lists end. The code touches no stack, and no register but those named.
            unsafe {
                asm!(
                    concat!(
                        "904:\n",
                        "mov r12, [r15 + 8 * (20 * ", $w, " + 61)]\n",
                        "mov r14, [r15 + 8 * (20 * ", $w, " + 62)]\n",
                        "mov r13, [r15 + 8 * (20 * ", $w, " + 63)]\n",
                        ahead_of_slice!($store, $w),
                        $(start!($w, $j, $a, $b),)*
                        $(row!($store, $w, $i, $columns),)*
                        "901:\n",
                        "cmp qword ptr [r15 + 8 * (20 * ", $w, " + 64)], 0\n",
                        "je 902f\n",
                        $(link!($store, $w, $j, $a, $b),)*
                        "mov r8, [r15 + 8 * (20 * ", $w, " + 56)]\n",
                        "test r8b, 4\n",
                        "jz 903f\n",
                        "mov r11, [r15 + 8 * (20 * ", $w, " + 57)]\n",
                        row_links!($store, 99),
                        "jmp 903f\n",
                        "902:\n",
                        $(plain_link!($store, $w, $j, $a, $b),)*
                        "903:\n",
                        "add rax, 128\n",
                        "cmp rax, rsi\n",
                        "jb 904b\n",
                        "jmp 905f\n",
                        $(start!(aside $j, $a, $b),)*
                        $(row!(aside $w, $i, $c, $d),)*
                        $(link!(aside $w, $j, $a, $b),)*
                        $(plain_link!(aside $w, $j, $a, $b),)*
                        row_links!(aside 99),
                        "905:\n",
                        "vzeroupper\n",
                    ),
                    in("rdi") places,
                    in("r15") words,
                    in("rsi") to,
                    inout("rax") from => _,
                    out("rcx") _, out("rdx") _, out("r8") _, out("r9") _, out("r10") _, out("r11") _,
                    out("r12") _, out("r13") _, out("r14") _,
                    out("zmm0") _, out("zmm1") _, out("zmm2") _, out("zmm3") _, out("zmm4") _, out("zmm5") _,
                    out("zmm6") _, out("zmm7") _, out("zmm8") _, out("zmm9") _, out("zmm10") _, out("zmm11") _,
                    out("zmm12") _, out("zmm13") _, out("zmm14") _, out("zmm15") _, out("zmm16") _, out("zmm17") _,
                    out("zmm18") _, out("zmm19") _, out("zmm20") _, out("zmm21") _, out("zmm22") _, out("zmm23") _,
                    out("zmm24") _, out("zmm25") _, out("zmm26") _, out("zmm27") _, out("zmm28") _, out("zmm29") _,
                    out("zmm30") _, out("zmm31") _,
                    options(nostack),
                );
            }
        }
    };
}

macro_rules! define_kernels {
    ($($cached:ident $streamed:ident $w:literal $columns:tt)*) => {
        $(
            define_kernel!($cached vmovdqu64 $w $columns);
            define_kernel!($streamed vmovntdq $w $columns);
        )*
    };
}

define_kernels!(
    cached_4 streamed_4 4 [
        (0 0 1) (1 2 3) (2 4 5) (3 6 7)
    ]
    cached_5 streamed_5 5 [
        (0 0 1) (1 2 3) (2 4 5) (3 6 7) (4 8 9)
    ]
    cached_6 streamed_6 6 [
        (0 0 1) (1 2 3) (2 4 5) (3 6 7) (4 8 9) (5 10 11)
    ]
    cached_7 streamed_7 7 [
        (0 0 1) (1 2 3) (2 4 5) (3 6 7) (4 8 9) (5 10 11) (6 12 13)
    ]
    cached_8 streamed_8 8 [
        (0 0 1) (1 2 3) (2 4 5) (3 6 7) (4 8 9) (5 10 11) (6 12 13) (7 14 15)
    ]
    cached_10 streamed_10 10 [
        (0 0 1) (1 2 3) (2 4 5) (3 6 7) (4 8 9) (5 10 11) (6 12 13) (7 14 15) (8 16 17) (9 18 19)
    ]
    cached_11 streamed_11 11 [
        (0 0 1) (1 2 3) (2 4 5) (3 6 7) (4 8 9) (5 10 11) (6 12 13) (7 14 15) (8 16 17) (9 18 19) (10 20 21)
    ]
    cached_12 streamed_12 12 [
        (0 0 1) (1 2 3) (2 4 5) (3 6 7) (4 8 9) (5 10 11) (6 12 13) (7 14 15) (8 16 17) (9 18 19) (10 20 21)
        (11 22 23)
    ]
    cached_13 streamed_13 13 [
        (0 0 1) (1 2 3) (2 4 5) (3 6 7) (4 8 9) (5 10 11) (6 12 13) (7 14 15) (8 16 17) (9 18 19) (10 20 21)
        (11 22 23) (12 24 25)
    ]
    cached_14 streamed_14 14 [
        (0 0 1) (1 2 3) (2 4 5) (3 6 7) (4 8 9) (5 10 11) (6 12 13) (7 14 15) (8 16 17) (9 18 19) (10 20 21)
        (11 22 23) (12 24 25) (13 26 27)
    ]
);

#[cfg(test)]
mod tests {
    use crate::braid::{CARRIES, HAS_LATE, HAS_PLAIN, HAS_ROW_LINKS, IS_FORWARDED, IS_LAST, IS_SLOT};
    use crate::braid::{Layout, ROW_IS_LAST, ROWS_MOST, SLICE_BYTES, TILE_SLICES, WIDTHS};

    #[test]
    fn the_code_has_the_numbers_of_the_layout() {
        for w in WIDTHS {
            let layout = Layout { width: w };
            assert_eq!(layout.cell(3, 2), 3 * w + 2);
            assert_eq!(layout.row(5), 14 * w + 4 * 5);
            assert_eq!(layout.start(2), 14 * w + 56 + 2);
            assert_eq!(layout.link(3), 15 * w + 56 + 5 * 3);
            assert_eq!(
                (layout.lists(), layout.is_chained(), layout.ahead()),
                (20 * w + 61, 20 * w + 64, 20 * w + 65)
            );
        }
        assert_eq!((ROWS_MOST, SLICE_BYTES, TILE_SLICES * SLICE_BYTES), (14, 128, 512));
        assert_eq!((CARRIES, HAS_LATE, HAS_ROW_LINKS, IS_LAST, IS_SLOT), (1, 2, 4, 8, 16));
        assert_eq!((ROW_IS_LAST, IS_FORWARDED, HAS_PLAIN), (1, 2, 8));
    }
}
