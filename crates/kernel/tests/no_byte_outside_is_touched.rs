//! Claim: no kernel reads or writes a byte outside its buffers, at any small length, at either end
//! of a page.
//!
//! Every buffer ends or begins at a page that must not be accessed: a load or a store one byte too
//! far ends the process. Without Miri this test covers the vector tiers; it covers the portable one
//! and the helpers as well.
//!
//! A file of its own, so that a crash names its program.

#![cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]

#[path = "kernel/common/mod.rs"]
mod common;

use common::system::{MAP_PRIVATE_ANONYMOUS, PAGE_BYTES, PROT_NONE, PROT_READ_WRITE, mmap, mprotect, munmap};
use common::{xor, zig_zag};
use pantile_kernel::measure::XorLimit;
use pantile_kernel::{
    Dot, Horner, HornerOutputs, HornerStep, Packets, Program, Step, Stores, System, Tier, Update, WordMap,
    first_nonzero, first_nonzero_any, xor_into,
};
use std::num::NonZeroUsize;

/// The memory of `count` buffers, a forbidden page before each and after the last.
struct Fenced {
    base: *mut u8,
    count: usize,
    bytes: usize,
}

impl Fenced {
    /// `bytes`: a multiple of a page.
    fn new(count: usize, bytes: usize) -> Fenced {
        let len = count * (bytes + PAGE_BYTES) + PAGE_BYTES;
        // SAFETY: a new mapping of ours.
        let base = unsafe { mmap(std::ptr::null_mut(), len, PROT_NONE, MAP_PRIVATE_ANONYMOUS, -1, 0) };
        assert_ne!(base as isize, -1, "memory for the test");
        let base = base.cast::<u8>();
        for i in 0..count {
            let first = PAGE_BYTES + i * (bytes + PAGE_BYTES);
            // SAFETY: pages of the mapping.
            let status = unsafe { mprotect(base.add(first).cast(), bytes, PROT_READ_WRITE) };
            assert_eq!(status, 0);
        }
        Fenced { base, count, bytes }
    }

    /// Buffers of `len` bytes that end, or begin, at a forbidden page: buffer i at a distance of i
    /// times `shift` bytes, modulo a page.
    fn views(&mut self, len: usize, at_end: bool, shift: usize) -> Vec<&mut [u8]> {
        let start = |i: usize| {
            let shift = i * shift % PAGE_BYTES;
            let inside = if at_end { self.bytes - len - shift } else { shift };
            self.base.wrapping_add(PAGE_BYTES + i * (self.bytes + PAGE_BYTES) + inside)
        };
        // SAFETY: each view lies in pages of its own, which are readable, writable and zeroed at
        // first.
        (0..self.count).map(|i| unsafe { std::slice::from_raw_parts_mut(start(i), len) }).collect()
    }
}

impl Drop for Fenced {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, unmapped once.
        unsafe { munmap(self.base.cast(), self.count * (self.bytes + PAGE_BYTES) + PAGE_BYTES) };
    }
}

/// Calls `each` with fenced buffers of every small length, at both ends of their pages.
fn everywhere(count: usize, mut each: impl FnMut(&mut [&mut [u8]])) {
    let mut fenced = Fenced::new(count, PAGE_BYTES);
    for len in (0..=513).chain([1023, 1024, 1025, 4095, 4096]) {
        for at_end in [false, true] {
            each(&mut fenced.views(len, at_end, 0));
        }
    }
}

/// Calls `each` with lengths from `len` on, which take other kernels, over buffers that begin
/// together in their pages or apart.
fn from_len_on(count: usize, len: usize, mut each: impl FnMut(&mut [&mut [u8]])) {
    let mut fenced = Fenced::new(count, len.next_multiple_of(PAGE_BYTES) + 2 * PAGE_BYTES);
    for len in [0, 1, 63, 64, 65, 127, 128, 129, 200, 255, 256, 257, 511].map(|more| len + more) {
        for (at_end, shift) in [(false, 0), (false, 256), (true, 0), (true, 256)] {
            each(&mut fenced.views(len, at_end, shift));
        }
    }
}

#[test]
fn by_maps_of_words() {
    for tier in Tier::available() {
        for bits in [16, 32] {
            let images: Vec<u32> = (0..bits).map(|bit| 0x9e37_79b9 << (bit % 7) ^ 1 << bit).collect();
            let map = WordMap::with_tier(tier, &images).unwrap();
            everywhere(2, |views| {
                // Whole words at the end that is fenced.
                let rest = views[0].len() % map.bytes();
                let is_at_start = views[0].as_ptr().addr().is_multiple_of(PAGE_BYTES);
                let part = if is_at_start { 0..views[0].len() - rest } else { rest..views[0].len() };
                let [words, rows] = views else { unreachable!("two views") };
                map.split(&words[part.clone()], &mut rows[part.clone()]);
                map.join(&rows[part.clone()], &mut words[part]);
            });
        }
    }
}

const STORES: [Stores; 2] = [Stores::Cached, Stores::Streaming];

#[test]
fn by_dot_products() {
    for (tier, sources) in Tier::available().into_iter().flat_map(|tier| [(tier, 5), (tier, 9)]) {
        let row = |o: usize| {
            (0..sources).map(|s| (s, if o == 0 { 1 } else { (o * 31 + s * 7) as u8 | 2 })).collect()
        };
        let dense = (1..=8).map(|outputs| (0..outputs).map(row).collect::<Vec<Vec<(usize, u8)>>>());
        // Kernels of their own.
        let powers = [0, 4].map(|one: usize| {
            vec![row(0), (0..5usize).map(|s| (s, 1 << s.abs_diff(one))).collect::<Vec<(usize, u8)>>()]
        });
        // The third source as it is in every row.
        let plain = (2..=4).map(|outputs| {
            let mut rows: Vec<Vec<(usize, u8)>> = (0..outputs).map(row).collect();
            rows.iter_mut().for_each(|row| row[2].1 = 1);
            rows
        });
        for rows in dense.chain(powers.into_iter().filter(|_| sources == 5)).chain(plain) {
            for stores in STORES {
                let dot = Dot::with_tier(tier, sources, &rows).unwrap().with_stores(stores);
                everywhere(sources + rows.len(), |views| {
                    let (sources, outputs) = views.split_at_mut(sources);
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
    // Links of both kinds; rows that wait in registers, in slots where these are too few, and from
    // one batch for the next.
    let zig_zags = [4, 9, 15].map(|side| zig_zag(side, 2 * side));
    for tier in Tier::available() {
        for stores in STORES {
            for (buffers, steps) in [&(24, grid.clone())].into_iter().chain(&zig_zags) {
                let new = || Program::with_tier(tier, *buffers, steps).unwrap().with_stores(stores);
                // The first form, the form after much work, and the prepared form.
                everywhere(*buffers, |views| new().run(views).unwrap());
                let program = new();
                everywhere(*buffers, |views| program.run(views).unwrap());
                program.prepare();
                everywhere(*buffers, |views| program.run(views).unwrap());
            }
            for steps in [&steps[..], &mixed] {
                let program = Program::with_tier(tier, 11, steps).unwrap().with_stores(stores);
                everywhere(11, |views| program.run(views).unwrap());
            }
            for (sources, count) in [4, 8].into_iter().flat_map(|s| (2..=4).map(move |count| (s, count))) {
                for kind in KINDS {
                    let program = solving(tier, sources, count, kind).with_stores(stores);
                    everywhere(sources + 8, |views| program.run(views).unwrap());
                }
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

/// The variants of a system: a sum of ones; an output that is the sum of ones less others; zeros
/// and ones in the solution.
const KINDS: [(bool, bool, bool); 5] = [
    (false, false, false),
    (true, false, false),
    (true, true, false),
    (true, false, true),
    (false, false, true),
];

/// A system of `count` over `sources` sources, four buffers of sums after them, and outputs.
fn solving(
    tier: Tier,
    sources: usize,
    count: usize,
    (ones, last_by_sum, has_zeros): (bool, bool, bool),
) -> Program {
    let of_sum =
        |i: usize| if ones && i.is_multiple_of(count) { 1 } else { (i % count * 9 + i / count + 2) as u8 };
    let mut solution: Vec<u8> = (0..count * count).map(|i| (i / count * 5 + i % count + 2) as u8).collect();
    if has_zeros {
        solution[count - 1] = 0;
        solution[count] = 1;
    }
    if last_by_sum {
        for sum in 0..count {
            let others = (0..count - 1).fold(0, |total, o| total ^ solution[o * count + sum]);
            solution[(count - 1) * count + sum] = others ^ u8::from(sum == 0);
        }
    }
    let system = System {
        sources: &(0..sources).collect::<Vec<_>>(),
        coefficients: &(0..sources * count).map(of_sum).collect::<Vec<_>>(),
        starts: &(sources..sources + count).map(Some).collect::<Vec<_>>(),
        outputs: &(sources + 4..sources + 4 + count).collect::<Vec<_>>(),
        solution: &solution,
    };
    Program::solving_with_tier(tier, sources + 8, &system).unwrap()
}

#[test]
fn by_programs_for_columns_of_packets() {
    // Each buffer in two sums, and in many.
    let bits = |side: usize| -> (usize, Vec<Step>) {
        let data = side * side;
        let is_in =
            |i: usize, b: usize| (data * i + b + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40 & 1 == 1;
        let of = |i: usize| (0..data).filter(move |&b| is_in(i, b));
        (data + 2 * side, (0..2 * side).map(|i| xor(data + i, of(i))).collect())
    };
    let all = [(4, 128, false), (9, 64, false), (15, 256, false), (17, 128, false), (5, 7, false)];
    for (side, bytes, is_dense) in all.into_iter().chain([(4, 32, true), (9, 128, true), (7, 96, true)]) {
        let (buffers, steps) = if is_dense { bits(side) } else { zig_zag(side, 2 * side) };
        let rows = [vec![side; side], vec![buffers - side * side]].concat();
        let packets = Packets::new(&rows, NonZeroUsize::new(bytes).unwrap()).unwrap();
        for (tier, stores) in
            Tier::available().into_iter().flat_map(|tier| STORES.map(|stores| (tier, stores)))
        {
            let new = || {
                let program = Program::with_tier(tier, buffers, &steps).unwrap().with_stores(stores);
                program.in_packets(packets.clone()).unwrap()
            };
            // The first form, and the prepared form.
            let (first, lasting) = (new(), new());
            lasting.prepare();
            let mut fenced =
                Fenced::new(rows.len(), (4 * 2 * side * bytes).next_multiple_of(PAGE_BYTES) + PAGE_BYTES);
            let places = [(false, 0), (false, 256), (true, 0), (true, 256), (true, 1)];
            for (groups, program) in (0..4).flat_map(|groups| [(groups, &first), (groups, &lasting)]) {
                for (at_end, shift) in places {
                    let len = |c: usize| groups * packets.group_bytes(c);
                    // As long as the last column, of which all but that one have a part, at the
                    // same end.
                    let views = fenced.views(len(rows.len() - 1), at_end, shift);
                    let mut columns: Vec<&mut [u8]> = views
                        .into_iter()
                        .enumerate()
                        .map(|(c, view)| {
                            let unused = view.len() - len(c);
                            if at_end { &mut view[unused..] } else { &mut view[..len(c)] }
                        })
                        .collect();
                    program.run(&mut columns).unwrap();
                }
            }
        }
    }
}

#[test]
fn by_changes_in_columns_of_packets() {
    for bytes in [1, 31, 32, 63, 64, 65, 96, 127, 128, 200] {
        let layout = Packets::new(&[2; 5], NonZeroUsize::new(bytes).unwrap()).unwrap();
        for tier in Tier::available() {
            let update = Update::with_tier(tier, 10, 1, &[(2, 1), (5, 1), (9, 1)]).unwrap();
            let mut fenced = Fenced::new(7, (8 * bytes).next_multiple_of(PAGE_BYTES));
            for (groups, at_end) in (0..4).flat_map(|groups| [(groups, false), (groups, true)]) {
                let mut views = fenced.views(2 * groups * bytes, at_end, 0);
                // The new content is half as long as a column, and begins or ends where the column
                // does.
                let new = views.pop().unwrap();
                let new = if at_end { &new[groups * bytes..] } else { &new[..groups * bytes] };
                views.truncate(5);
                update.run_packets(&layout, &mut views, new).unwrap();
            }
        }
    }
}

/// Sources, and bytes of each: groups and tiles, where the processor follows few streams; more than
/// the second-level cache has.
const MANY: [(usize, Stores, usize); 2] = [(20, Stores::Streaming, 20_000), (16, Stores::Cached, 50_000)];

#[test]
fn by_what_reads_many_streams_from_far_away() {
    for (sources, stores, len) in MANY {
        for tier in Tier::available().into_iter().filter(|&tier| tier != Tier::Portable) {
            for count in 2..=4 {
                let coefficient = |o: usize, s: usize| if o == 0 { 1 } else { (o * 31 + s * 7) as u8 | 2 };
                let row = |o: usize| (0..sources).map(|s| (s, coefficient(o, s))).collect();
                let rows: Vec<Vec<(usize, u8)>> = (0..count).map(row).collect();
                let dot = Dot::with_tier(tier, sources, &rows).unwrap().with_stores(stores);
                from_len_on(sources + count, len, |views| {
                    let (sources, outputs) = views.split_at_mut(sources);
                    let sources: Vec<&[u8]> = sources.iter().map(|view| &**view).collect();
                    dot.apply(&sources, outputs).unwrap();
                    dot.accumulate(&sources, outputs).unwrap();
                });
                for kind in KINDS {
                    let program = solving(tier, sources, count, kind).with_stores(stores);
                    from_len_on(sources + 8, len, |views| program.run(views).unwrap());
                }
            }
        }
    }
}

#[test]
fn by_the_helpers() {
    let limit = XorLimit::new(11, &[0, 1, 2, 3, 4, 5, 6, 7, 8], &[9, 10]);
    everywhere(11, |views| {
        for order in limit.orders(0, Stores::Streaming) {
            limit.run(order, views).unwrap();
        }
        views.iter_mut().for_each(|view| view.fill(0));
        let (a, b) = views.split_at_mut(1);
        xor_into(a[0], b[0]);
        assert_eq!(a[0], b[0]);
        let shared: Vec<&[u8]> = b.iter().map(|view| &**view).collect();
        assert_eq!(first_nonzero(a[0], 0), None);
        assert_eq!(first_nonzero_any(&shared, 0), None);
        if let Some(last) = a[0].last_mut() {
            *last = 1;
            assert_eq!(first_nonzero(a[0], 0), Some(a[0].len() - 1));
        }
    });
}

#[cfg(feature = "fft")]
mod transforms {
    use super::*;
    use pantile_kernel::{Fft, FftGroup, FftOutputs, Lanes, Network, NetworkStep};

    #[test]
    fn by_ffts_and_networks() {
        for tier in Tier::available() {
            for stores in STORES {
                for (points, rows) in [(4, None), (4, Some(3)), (4, Some(4)), (8, None)] {
                    let program = transform(tier, points, 3, rows).with_stores(stores);
                    everywhere(program.buffers(), |views| program.run(views).unwrap());
                }
            }
            for (points, stores) in
                [2, 8, 32].into_iter().flat_map(|points| STORES.map(|stores| (points, stores)))
            {
                let network = network(points);
                let program =
                    Program::network_with_tier(tier, 5 * points, &network).unwrap().with_stores(stores);
                everywhere(program.buffers(), |views| program.run(views).unwrap());
            }
        }
    }

    #[test]
    fn by_ffts_of_many_columns_from_far_away() {
        for (columns, stores, len) in MANY {
            for tier in Tier::available().into_iter().filter(|&tier| tier != Tier::Portable) {
                for (points, rows) in [(4, None), (4, Some(4)), (8, None)] {
                    let program = transform(tier, points, columns / points, rows).with_stores(stores);
                    from_len_on(program.buffers(), len, |views| program.run(views).unwrap());
                }
            }
        }
    }

    /// Every kind of step between buffers and slots, with `points` points, and every third buffer
    /// missing.
    fn network(points: usize) -> Network {
        let factors: Vec<u8> = (0..points - 1).map(|i| (i * 57 + 8) as u8).collect();
        let lanes = |group: usize| -> Vec<Option<usize>> {
            (0..points).map(|i| (i % 3 != 2).then_some(group * points + i)).collect()
        };
        let buffers = |group: usize| Lanes::Buffers(lanes(group));
        let scale = |from, to| NetworkStep::Scale { from, plus: lanes(1), factors: vec![2; points], to };
        let forward = |to| NetworkStep::Forward { from: 0, factors: factors.clone(), to };
        let inverse = |from, adds| NetworkStep::Inverse { from, factors: factors.clone(), to: 0, adds };
        let steps = vec![
            inverse(buffers(0), false),
            inverse(buffers(1), true),
            forward(Lanes::Slots(points)),
            scale(Some(points), buffers(2)),
            scale(None, buffers(3)),
            scale(None, Lanes::Slots(points)),
            inverse(Lanes::Slots(points), true),
            forward(buffers(4)),
        ];
        Network { slots: 2 * points, steps }
    }

    /// An FFT of whole groups except one that lacks a column and one that is a half, of four
    /// columns at the origin, and of its outputs. If a tier has no kernels, its steps.
    fn transform(tier: Tier, points: usize, groups: usize, rows: Option<usize>) -> Program {
        let column = |g: usize, i: usize| match g {
            1 if i == 2 => None,
            2 if i < points / 2 => None,
            _ => (i < points).then_some(points * g + i),
        };
        let group = |g: usize| FftGroup {
            columns: std::array::from_fn(|i| column(g, i)),
            factors: std::array::from_fn(|i| (g * 4 + i * 57 + 8) as u8),
        };
        let first = points * groups;
        let output = |o: usize| first + 4 + o;
        let outputs = match rows {
            None => FftOutputs::Values(std::array::from_fn(|i| (i < points).then_some(output(i)))),
            Some(count) => {
                let row = |o: usize| std::array::from_fn(|i| (o * 31 + i * 7) as u8 | 2);
                let mut rows: Vec<(usize, [u8; 8])> = (0..count).map(|o| (output(o), row(o))).collect();
                if let [a, b, c, d] = &mut rows[..] {
                    d.1 = std::array::from_fn(|i| u8::from(i == 3) ^ a.1[i] ^ b.1[i] ^ c.1[i]);
                }
                FftOutputs::Solved(rows)
            }
        };
        let factors = if points == 4 { [0, 214, 0, 0, 0, 0, 0] } else { [0, 214, 152, 152 ^ 214, 0, 214, 0] };
        let columns = std::array::from_fn(|i| (rows.is_some() && i < 4).then_some(first + i));
        let origin = FftGroup { columns, factors };
        let fft = Fft { points, groups: (0..groups).map(group).collect(), origin, outputs };
        let made = Program::fft_with_tier(tier, output(points), &fft).unwrap();
        let steps =
            || fft.expanded().into_iter().map(|(target, terms)| Step { target, terms }).collect::<Vec<_>>();
        made.unwrap_or_else(|| Program::with_tier(tier, output(points), &steps()).unwrap())
    }
}
