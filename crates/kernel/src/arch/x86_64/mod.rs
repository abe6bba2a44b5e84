//! x86-64: 32-byte vectors since 2013 (AVX2), one-instruction products since 2019 (GFNI), 64-byte vectors.

/// A loop over outputs 0..M that is written out. The compiler stops unrolling nested loops of this size, and then
/// keeps the sums in memory instead of registers: 31 instead of 55 GB/s with four outputs.
macro_rules! for_each_output {
    ($o:ident < $m:ident $body:block) => {
        for_each_output!(@ $o $m $body 0 1 2 3 4 5 6 7)
    };
    (@ $o:ident $m:ident $body:block $($n:literal)*) => {
        $(if $n < $m {
            #[allow(non_upper_case_globals)]
            const $o: usize = $n;
            $body
        })*
    };
}

/// As [`for_each_output`], for the columns of a grid.
macro_rules! for_each_column {
    ($o:ident < $m:ident $body:block) => {
        for_each_output!(@ $o $m $body 0 1 2 3 4 5 6 7 8 9 10 11 12 13)
    };
}

/// As [`for_each_output`], for the states of Horner's rule.
macro_rules! for_each_state {
    ($p:ident $body:block) => {
        for_each_state!(@ $p $body 0 1 2 3)
    };
    (@ $p:ident $body:block $($n:literal)*) => {
        $({
            #[allow(non_upper_case_globals)]
            const $p: usize = $n;
            $body
        })*
    };
}

#[macro_use]
mod loops;

pub(crate) mod avx2;
pub(crate) mod avx2_gfni;
pub(crate) mod avx512_braid;
pub(crate) mod avx512_gfni;
mod partial;

use std::arch::x86_64::{__cpuid, __cpuid_count, _mm_sfence};
use std::sync::OnceLock;

use crate::portable;

/// Multiplication by c as the 8 x 8 bit matrix that `vgf2p8affineqb` takes.
///
/// The instruction computes bit i of its result as the parity of `matrix.byte[7 - i] & x`. Bit i of c * x is the sum
/// over j of x_j times bit i of c * 2^j, so byte 7 - i has bit j = bit i of c * 2^j.
/// Source: Intel SDM, volume 2, GF2P8AFFINEQB; checked against the portable table by every kernel test.
fn affine_matrix(c: u8) -> u64 {
    AFFINE_MATRICES[usize::from(c)]
}

/// All of them: a recovery that is planned for one stripe must not take longer to compile than to run.
static AFFINE_MATRICES: [u64; 256] = affine_matrices();

const fn affine_matrices() -> [u64; 256] {
    let mut matrices = [0; 256];
    let mut c = 0;
    while c < 256 {
        let mut j = 0;
        while j < 8 {
            let image = portable::product(c as u8, 1 << j);
            let mut i = 0;
            while i < 8 {
                matrices[c] |= ((image >> i & 1) as u64) << (8 * (7 - i) + j);
                i += 1;
            }
            j += 1;
        }
        c += 1;
    }
    matrices
}

/// Distance of the prefetch into the first-level cache when streaming, for want of hardware that follows many
/// streams: 16 % gained at (16,4) from memory. 512 and 2048 bytes gain less, and `prefetchnta` loses 25 %; NOTES.md.
const PREFETCH_AHEAD_BYTES: usize = 1024;

/// Orders streaming stores before everything that follows.
pub(crate) fn fence() {
    // SAFETY: SSE is part of x86-64.
    unsafe { _mm_sfence() };
}

/// The associativity of the first-level data cache; 8, the smallest of the last ten years, if the processor does
/// not say. Asked once: CPUID traps into a hypervisor.
///
/// Source: Intel SDM, CPUID leaf 4; AMD APM volume 3, leaf 0x8000001d, which has the same fields.
fn cache_ways() -> usize {
    static WAYS: OnceLock<usize> = OnceLock::new();
    *WAYS.get_or_init(|| {
        cache_ways_of_leaf(0, 4).or_else(|| cache_ways_of_leaf(0x8000_0000, 0x8000_001d)).unwrap_or(8)
    })
}

#[allow(unused_unsafe, reason = "CPUID became a safe function after the oldest compiler that we support")]
fn cache_ways_of_leaf(range: u32, leaf: u32) -> Option<usize> {
    // SAFETY: every x86-64 processor has CPUID, and answers zeros for sub-leaves that it lacks.
    let last = unsafe { __cpuid(range) }.eax;
    if last < leaf {
        return None;
    }
    // SAFETY: as above.
    (0..8)
        .map(|index| unsafe { __cpuid_count(leaf, index) })
        .take_while(|cache| cache.eax & 31 != 0)
        .find_map(|cache| {
            let (kind, level) = (cache.eax & 31, cache.eax >> 5 & 7);
            let is_first_data = level == 1 && (kind == 1 || kind == 3);
            is_first_data.then_some((cache.ebx >> 22) as usize + 1)
        })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_first_level_cache_has_a_plausible_associativity() {
        assert!((2..=64).contains(&super::cache_ways()), "{}", super::cache_ways());
    }
}
