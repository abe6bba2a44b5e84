//! Shared parts of the tests of programs.
#![allow(dead_code, reason = "each test file takes its part")]

use pantile_kernel::Step;

/// Returns a step that sets a buffer to the plain sum of others.
pub fn xor(target: usize, terms: impl IntoIterator<Item = usize>) -> Step {
    Step { target, terms: terms.into_iter().map(|buffer| (buffer, 1)).collect() }
}

/// Two periods of the painted pattern, so that a whole period starts at each offset of the first.
const PERIODS: [u8; 2 * 251] = {
    let mut periods = [0; 2 * 251];
    let mut i = 0;
    while i < periods.len() {
        periods[i] = (i % 251) as u8;
        i += 1;
    }
    periods
};

/// Fills bytes with a pattern of period 251, starting with byte `at` of the pattern. It copies
/// whole periods, because painting takes most of the time of these tests.
pub fn paint(bytes: &mut [u8], at: usize) {
    for part in bytes.chunks_mut(251) {
        part.copy_from_slice(&PERIODS[at % 251..][..part.len()]);
    }
}

/// Returns the offset of the first byte that differs from the pattern of [`paint`].
pub fn first_unpainted(bytes: &[u8], at: usize) -> Option<usize> {
    let is_painted = |part: &[u8]| *part == PERIODS[at % 251..][..part.len()];
    let period = bytes.chunks(251).position(|part| !is_painted(part))? * 251;
    (period..bytes.len()).find(|i| bytes[*i] != ((i + at) % 251) as u8)
}

/// Returns the number of buffers and the steps of a zig-zag, as in a double recovery. It has row
/// and column sums of a square in turn, where each also adds the sum before it.
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

/// Returns a number from the environment, for runs with more or other cases.
pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// A small random generator with a printed seed (SplitMix64; Steele, Lea and Flood 2014).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// Returns sums of the rows and columns of a grid with holes. Each sum also has separate buffers
/// and earlier results. Every program is different, so it gets new code.
pub fn random_grid(random: &mut Random) -> (usize, Vec<Step>) {
    let most = [15, 32][random.below(2)];
    let (rows, columns) = (1 + random.below(20), 1 + random.below(most));
    let (filled, own, links) = (random.below(101), random.below(3), random.below(4));
    let mut sums: Vec<Vec<usize>> = vec![Vec::new(); rows + columns];
    for cell in 0..rows * columns {
        if random.below(100) < filled {
            sums[cell / columns].push(cell);
            sums[rows + cell % columns].push(cell);
        }
    }
    let mut buffers = rows * columns;
    for sum in &mut sums {
        let extra = random.below(own + 1);
        sum.extend(buffers..buffers + extra);
        buffers += extra;
    }
    // The sums are shuffled, so that rows need columns and columns need rows.
    for i in (1..sums.len()).rev() {
        sums.swap(i, random.below(i + 1));
    }
    let first = buffers;
    let mut steps = Vec::new();
    for (i, mut terms) in sums.into_iter().enumerate() {
        for _ in 0..links.min(i) {
            // The sum just before is chosen more often than others.
            terms.push(first + if random.below(3) > 0 { i - 1 } else { random.below(i) });
        }
        terms.sort_unstable();
        terms.dedup();
        steps.push(xor(first + i, terms));
    }
    (first + steps.len(), steps)
}

/// Returns sums of many buffers each, with large common parts and with earlier results, as in bit
/// matrices.
pub fn random_bits(random: &mut Random) -> (usize, Vec<Step>) {
    let (buffers, sums) = (1 + random.below(90), 2 + random.below(40));
    let (percent, before) = (15 + random.below(60), random.below(3));
    let sum = |i: usize, random: &mut Random| {
        let own = (0..buffers).filter(|_| random.below(100) < percent).collect::<Vec<_>>();
        let results = (0..before.min(i)).map(|_| buffers + random.below(i)).collect::<Vec<_>>();
        let mut terms = [own, results].concat();
        terms.sort_unstable();
        terms.dedup();
        xor(buffers + i, terms)
    };
    (buffers + sums, (0..sums).map(|i| sum(i, random)).collect())
}

#[cfg(all(target_os = "linux", not(miri)))]
pub mod system {
    //! Declared here rather than through the libc crate: functions whose C signatures POSIX fixes,
    //! and constants of Linux.

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
