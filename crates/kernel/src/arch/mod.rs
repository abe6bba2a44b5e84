//! One folder per architecture, one file per instruction set.
//!
//! Outside x86-64, and under Miri, which knows none of these instructions, only the portable tier exists.

pub(crate) fn has_avx2() -> bool {
    false
}

pub(crate) fn has_avx2_gfni() -> bool {
    false
}

pub(crate) fn has_avx512_gfni() -> bool {
    false
}
