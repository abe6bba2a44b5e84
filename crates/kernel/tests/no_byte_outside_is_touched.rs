//! Claim: no kernel reads or writes a byte outside its buffers, at any small length, at either end of a page.
//!
//! Every buffer ends where a page begins, or begins where a page ends, that may not be touched: a load or a store
//! one byte too far ends the process. Where Miri cannot be had this is what covers the vector tiers; it covers the portable
//! one and the helpers as well.

#![cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]

mod common;

use common::system::{MAP_PRIVATE_ANONYMOUS, PAGE_BYTES, PROT_NONE, PROT_READ_WRITE, mmap, mprotect, munmap};
use common::{xor, zig_zag};
use pantile_kernel::measure::XorLimit;
use pantile_kernel::{
    Dot, Horner, HornerOutputs, HornerStep, Program, Step, Stores, System, Tier, Update, equal,
    first_nonzero, first_nonzero_any, xor_into,
};

/// Pages of `count` buffers, a forbidden one before each and after the last.
struct Fenced {
    base: *mut u8,
    count: usize,
}

impl Fenced {
    fn new(count: usize) -> Fenced {
        let len = (2 * count + 1) * PAGE_BYTES;
        // SAFETY: a new mapping of ours.
        let base = unsafe { mmap(std::ptr::null_mut(), len, PROT_NONE, MAP_PRIVATE_ANONYMOUS, -1, 0) };
        assert_ne!(base as isize, -1, "memory for the test");
        let base = base.cast::<u8>();
        for i in 0..count {
            // SAFETY: a page of the mapping.
            let status =
                unsafe { mprotect(base.add((2 * i + 1) * PAGE_BYTES).cast(), PAGE_BYTES, PROT_READ_WRITE) };
            assert_eq!(status, 0);
        }
        Fenced { base, count }
    }

    /// Buffers of `len` bytes that end, or that begin, at a forbidden page.
    fn views(&mut self, len: usize, at_end: bool) -> Vec<&mut [u8]> {
        let shift = if at_end { PAGE_BYTES - len } else { 0 };
        let start = |i: usize| self.base.wrapping_add((2 * i + 1) * PAGE_BYTES + shift);
        // SAFETY: each view lies in a page of its own, which is readable, writable and zeroed at first.
        (0..self.count).map(|i| unsafe { std::slice::from_raw_parts_mut(start(i), len) }).collect()
    }
}

impl Drop for Fenced {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, unmapped once.
        unsafe { munmap(self.base.cast(), (2 * self.count + 1) * PAGE_BYTES) };
    }
}

/// Calls `each` with fenced buffers of every small length, at both ends of their pages.
fn everywhere(count: usize, mut each: impl FnMut(&mut [&mut [u8]])) {
    let mut fenced = Fenced::new(count);
    for len in (0..=513).chain([1023, 1024, 1025, 4095, 4096]) {
        for at_end in [false, true] {
            each(&mut fenced.views(len, at_end));
        }
    }
}

const STORES: [Stores; 2] = [Stores::Cached, Stores::Streaming];

#[test]
fn by_dot_products() {
    for tier in Tier::available() {
        let row =
            |o: usize| (0..5).map(|s| (s, if o == 0 { 1 } else { (o * 31 + s * 7) as u8 | 2 })).collect();
        let dense = (1..=8).map(|outputs| (0..outputs).map(row).collect::<Vec<Vec<(usize, u8)>>>());
        // Kernels of their own.
        let powers =
            [0, 4].map(|one: usize| vec![row(0), (0..5usize).map(|s| (s, 1 << s.abs_diff(one))).collect()]);
        for rows in dense.chain(powers) {
            for stores in STORES {
                let dot = Dot::with_tier(tier, 5, &rows).unwrap().with_stores(stores);
                everywhere(5 + rows.len(), |views| {
                    let (sources, outputs) = views.split_at_mut(5);
                    let sources: Vec<&[u8]> = sources.iter().map(|view| &**view).collect();
                    dot.apply(&sources, outputs).unwrap();
                    dot.accumulate(&sources, outputs).unwrap();
                });
            }
        }
    }
}

#[test]
fn by_programs_of_every_kind() {
    let steps =
        [xor(6, [0, 1, 2]), xor(7, [3, 4, 5]), xor(8, [0, 3, 6]), xor(9, [1, 4, 7]), xor(10, [8, 2, 5])];
    let mixed =
        [Step { target: 6, terms: vec![(0, 3), (1, 1)] }, Step { target: 7, terms: vec![(6, 9), (2, 1)] }];
    // Rows and columns of a square with a hole, each column with a row.
    let grid: Vec<Step> = (0..4)
        .map(|r| xor(16 + r, (0..4).skip(usize::from(r == 2)).map(|c| 4 * r + c)))
        .chain((0..4).map(|c| xor(20 + c, (0..5).skip(usize::from(c == 1)).map(|r| c + 4 * r))))
        .collect();
    // Links of both kinds; rows that wait in registers, in slots where these are too few, and from one batch for the next.
    let zig_zags = [4, 9, 15].map(|side| zig_zag(side, 2 * side));
    for tier in Tier::available() {
        for stores in STORES {
            for (buffers, steps) in [&(24, grid.clone())].into_iter().chain(&zig_zags) {
                let program = Program::with_tier(tier, *buffers, steps).unwrap().with_stores(stores);
                everywhere(*buffers, |views| program.run(views).unwrap());
                program.prepare();
                everywhere(*buffers, |views| program.run(views).unwrap());
            }
            for steps in [&steps[..], &mixed] {
                let program = Program::with_tier(tier, 11, steps).unwrap().with_stores(stores);
                everywhere(11, |views| program.run(views).unwrap());
            }
            for count in 2..=4 {
                let of_sum = |i: usize| (i % count * 9 + i / count + 1) as u8;
                let of_output = |i: usize| (i / count * 5 + i % count + 2) as u8;
                let system = System {
                    sources: &[0, 1, 2, 3],
                    coefficients: &(0..4 * count).map(of_sum).collect::<Vec<_>>(),
                    starts: &(4..4 + count).map(Some).collect::<Vec<_>>(),
                    outputs: &(8..8 + count).collect::<Vec<_>>(),
                    solution: &(0..count * count).map(of_output).collect::<Vec<_>>(),
                };
                let program = Program::solving_with_tier(tier, 12, &system).unwrap().with_stores(stores);
                everywhere(12, |views| program.run(views).unwrap());
            }
            for (planes, last) in [
                (2, [HornerStep::Byte(7), HornerStep::Quadratic { b: 8, c: 1 }]),
                (
                    3,
                    [
                        HornerStep::Shift { by: 1, factors: [2, 1, 1] },
                        HornerStep::Shift { by: 2, factors: [2, 2, 1] },
                    ],
                ),
            ] {
                let first = 3 * planes;
                let columns =
                    (0..3).map(|i| (i != 1).then(|| (i * planes..(i + 1) * planes).collect())).collect();
                let rows = (0..planes).map(|o| (first + 4 * planes + o, vec![3; 4 * planes])).collect();
                for outputs in [
                    HornerOutputs::States((first..first + 4 * planes).collect()),
                    HornerOutputs::Solved { adds: (first..first + 4 * planes).map(Some).collect(), rows },
                ] {
                    let steps = vec![HornerStep::One, HornerStep::Byte(2), last[0], last[1]];
                    let horner = Horner { planes, columns: Vec::clone(&columns), steps, outputs };
                    let buffers = first + 5 * planes;
                    if let Some(program) = Program::horner_with_tier(tier, buffers, &horner).unwrap() {
                        let program = program.with_stores(stores);
                        everywhere(buffers, |views| program.run(views).unwrap());
                    }
                }
            }
        }
        let update = Update::with_tier(tier, 4, 0, &[(1, 1), (2, 7)]).unwrap();
        everywhere(5, |views| {
            let (cells, new) = views.split_at_mut(4);
            update.run(cells, new[0]).unwrap();
        });
    }
}

#[test]
fn by_the_helpers() {
    let limit = XorLimit::new(5, &[0, 1, 2], &[3, 4]);
    everywhere(5, |views| {
        for order in limit.orders(1 << 20) {
            limit.run(order, views).unwrap();
        }
        views.iter_mut().for_each(|view| view.fill(0));
        let (a, b) = views.split_at_mut(1);
        xor_into(a[0], b[0]);
        assert!(equal(a[0], b[0]));
        let shared: Vec<&[u8]> = b.iter().map(|view| &**view).collect();
        assert_eq!(first_nonzero(a[0], 0), None);
        assert_eq!(first_nonzero_any(&shared, 0), None);
        if let Some(last) = a[0].last_mut() {
            *last = 1;
            assert_eq!(first_nonzero(a[0], 0), Some(a[0].len() - 1));
        }
    });
}
