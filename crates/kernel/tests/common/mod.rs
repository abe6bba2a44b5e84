//! What more than one test of programs needs.
#![allow(dead_code, reason = "each test file takes its part")]

use pantile_kernel::Step;

/// A buffer as the plain sum of others.
pub fn xor(target: usize, terms: impl IntoIterator<Item = usize>) -> Step {
    Step { target, terms: terms.into_iter().map(|buffer| (buffer, 1)).collect() }
}

/// The zig-zag of a double recovery: row and column sums of a square in turn, each with the one before. The buffers, and the steps.
pub fn zig_zag(side: usize, links: usize) -> (usize, Vec<Step>) {
    let data = side * side;
    let steps = (0..links)
        .map(|i| {
            let of = |c: usize| if i.is_multiple_of(2) { i / 2 * side + c } else { c * side + i / 2 };
            xor(data + i, (0..side).map(of).chain((i > 0).then(|| data + i - 1)))
        })
        .collect();
    (data + links, steps)
}

#[cfg(all(target_os = "linux", not(miri)))]
pub mod system {
    //! Declared here rather than through the libc crate: functions whose C signatures POSIX fixes, and numbers of Linux.

    use std::ffi::{c_int, c_void};

    unsafe extern "C" {
        pub fn mmap(
            address: *mut c_void,
            len: usize,
            protection: c_int,
            flags: c_int,
            file: c_int,
            offset: i64,
        ) -> *mut c_void;
        pub fn mprotect(address: *mut c_void, len: usize, protection: c_int) -> c_int;
        pub fn munmap(address: *mut c_void, len: usize) -> c_int;
    }

    pub const PROT_NONE: c_int = 0;
    pub const PROT_READ_WRITE: c_int = 3;
    pub const PROT_READ_EXECUTE: c_int = 5;
    pub const MAP_PRIVATE_ANONYMOUS: c_int = 0x22;
    pub const PAGE_BYTES: usize = 4096;
}
