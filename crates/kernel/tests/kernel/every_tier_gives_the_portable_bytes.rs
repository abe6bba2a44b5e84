//! Claim: for every matrix, length, alignment, store policy and mode, every tier of this machine
//! writes exactly the bytes that the portable tier writes, and no other byte.

// Miri has no tier to compare with; it runs the unit tests of the schedule instead.
#![cfg(not(miri))]

use crate::common::{first_unpainted, paint};
use pantile_kernel::{Dot, Stores, Tier};

type Rows = Vec<Vec<(usize, u8)>>;

/// The bytes around every buffer that must not change.
const GUARD_BYTES: usize = 64;

/// A small random generator with a printed seed (SplitMix64; Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Returns a coefficient that is often 0 or 1.
    fn coefficient(&mut self) -> u8 {
        match self.below(4) {
            0 => 0,
            1 => 1,
            _ => self.next() as u8,
        }
    }

    /// Returns rows in which a coefficient is present with a probability of `percent` %; some rows
    /// are all ones, some are empty.
    fn rows(&mut self, sources: usize, outputs: usize, percent: usize) -> Rows {
        (0..outputs)
            .map(|_| {
                let kind = self.below(8);
                let mut row = Vec::new();
                for source in 0..sources {
                    if kind != 0 && (kind == 1 || self.below(100) < percent) {
                        row.push((source, if kind <= 2 { 1 } else { self.coefficient() }));
                    }
                }
                row
            })
            .collect()
    }
}

/// Memory with a pattern that depends on the offset from a page boundary, so that equal calls give
/// equal buffers and guards.
struct Painted {
    memory: Vec<u8>,
    page: usize,
    places: Vec<usize>,
    len: usize,
}

impl Painted {
    /// Returns painted memory for `count` buffers. Buffer i starts at `i * distance + shift(i)`
    /// from the end of the first guard.
    fn new(
        count: usize,
        len: usize,
        distance: usize,
        seed: usize,
        shift: impl Fn(usize) -> usize,
    ) -> Painted {
        assert!(distance >= len + 64 + 2 * GUARD_BYTES);
        let mut memory = vec![0; count * distance + 2 * 4096];
        let page = memory.as_ptr().align_offset(4096);
        paint(&mut memory, 4096 - page + seed);
        let places = (0..count).map(|i| i * distance + shift(i)).collect();
        Painted { memory, page, places, len }
    }

    fn starts(&self) -> Vec<usize> {
        self.places.iter().map(|place| self.page + GUARD_BYTES + place).collect()
    }

    fn views(&self) -> Vec<&[u8]> {
        self.starts().into_iter().map(|start| &self.memory[start..start + self.len]).collect()
    }

    fn views_mut(&mut self) -> Vec<&mut [u8]> {
        let (starts, len) = (self.starts(), self.len);
        let mut rest = self.memory.as_mut_slice();
        let mut passed = 0;
        let mut views = Vec::new();
        for start in starts {
            let (_, tail) = rest.split_at_mut(start - passed);
            let (view, tail) = tail.split_at_mut(len);
            views.push(view);
            rest = tail;
            passed = start + len;
        }
        views
    }

    /// Panics if a byte outside the buffers has changed.
    fn check_guards(&self, seed: usize, what: &str) {
        let mut from = 0;
        for start in self.starts().into_iter().chain([self.memory.len()]) {
            let changed = first_unpainted(&self.memory[from..start], from + 4096 - self.page + seed);
            assert_eq!(changed.map(|i| from + i), None, "{what}: a byte outside the buffers changed");
            from = start + self.len;
        }
    }
}

#[test]
fn a_byte_that_changed_outside_is_noticed_wherever_it_is() {
    for (len, at) in [(0, 7), (1, 250), (251, 3), (800, 600)] {
        let mut bytes = vec![0; len];
        paint(&mut bytes, at);
        assert_eq!(first_unpainted(&bytes, at), None);
        for i in 0..len {
            bytes[i] ^= 1;
            assert_eq!(first_unpainted(&bytes, at), Some(i));
            bytes[i] ^= 1;
        }
    }
}

fn fast_tiers() -> Vec<Tier> {
    Tier::available().into_iter().filter(|&tier| tier != Tier::Portable).collect()
}

/// The positions of the buffers of a case.
struct Layout<'a> {
    len: usize,
    distance: usize,
    source_shift: &'a dyn Fn(usize) -> usize,
    output_shift: &'a dyn Fn(usize) -> usize,
}

/// Runs one matrix on every tier, in both modes and with both kinds of calls, and compares the
/// results.
fn check(sources: usize, rows: &Rows, layout: &Layout, stores: &[Stores], what: &str) {
    let data = Painted::new(sources, layout.len, layout.distance, 3, layout.source_shift);
    let outputs = || Painted::new(rows.len(), layout.len, layout.distance, 7, layout.output_shift);
    let portable = Dot::with_tier(Tier::Portable, sources, rows).unwrap();
    let (mut applied, mut accumulated) = (outputs(), outputs());
    portable.apply(&data.views(), &mut applied.views_mut()).unwrap();
    portable.accumulate(&data.views(), &mut accumulated.views_mut()).unwrap();
    applied.check_guards(7, what);
    for tier in fast_tiers() {
        for &policy in stores {
            let what = format!("{what} {tier} {policy:?} len {}", layout.len);
            let dot = Dot::with_tier(tier, sources, rows).unwrap().with_stores(policy);
            let mut out = outputs();
            dot.apply(&data.views(), &mut out.views_mut()).unwrap();
            assert!(out.views() == applied.views(), "{what}: apply differs");
            out.check_guards(7, &what);

            let mut out = outputs();
            dot.accumulate(&data.views(), &mut out.views_mut()).unwrap();
            assert!(out.views() == accumulated.views(), "{what}: accumulate differs");
            out.check_guards(7, &what);

            let mut out = outputs();
            let from: Vec<*const u8> = data.views().iter().map(|view| view.as_ptr()).collect();
            let to: Vec<*mut u8> = out.views_mut().iter_mut().map(|view| view.as_mut_ptr()).collect();
            // SAFETY: the pointers come from views of `len` bytes; the outputs lie in memory of
            // their own.
            unsafe { dot.apply_raw(&from, &to, layout.len) };
            assert!(out.views() == applied.views(), "{what}: apply_raw differs");
            out.check_guards(7, &what);
        }
    }
}

#[test]
fn at_every_length_and_offset() {
    let rows: Rows = vec![
        (0..5).map(|s| (s, 1)).collect(),
        (0..5).map(|s| (s, 2u8.pow(s as u32))).collect(),
        vec![(0, 0x8e), (2, 0xff), (3, 1), (4, 0x1d)],
    ];
    for len in 0..=257 {
        for offset in 0..64 {
            let layout = Layout {
                len,
                distance: 512,
                source_shift: &|s| (offset + s * 7) % 64,
                output_shift: &|o| (offset * 3 + o * 5) % 64,
            };
            check(5, &rows, &layout, &[Stores::Cached], &format!("offset {offset}"));
        }
    }
}

#[test]
fn at_every_length_and_count_of_outputs() {
    let mut random = Random(0x5eed_0001);
    // Few sources, and more sources than a first-level cache has ways; the latter are read with
    // wider visits.
    for (sources, longest, stores) in [(3, 400, Stores::Streaming), (9, 900, Stores::Cached)] {
        for outputs in 1..=8 {
            let rows: Rows =
                (0..outputs).map(|_| (0..sources).map(|s| (s, random.next() as u8 | 2)).collect()).collect();
            let mut with_ones = rows.clone();
            with_ones[outputs / 2] = (0..sources).map(|s| (s, 1)).collect();
            for len in 0..=longest {
                let layout =
                    Layout { len, distance: 1152, source_shift: &|s| s * 9 % 64, output_shift: &|_| 0 };
                check(sources, &rows, &layout, &[stores], &format!("{outputs} outputs"));
                check(sources, &with_ones, &layout, &[stores], &format!("{outputs} outputs, one of ones"));
            }
        }
    }
}

#[test]
fn for_random_matrices_of_every_shape() {
    let seed = 0x5eed_0002;
    let mut random = Random(seed);
    for sources in (1..=40).chain([63, 64, 65, 100, 255]) {
        for outputs in 1..=12 {
            for percent in [15, 60, 100] {
                let rows = random.rows(sources, outputs, percent);
                let (a, b) = (random.below(64), random.below(64));
                let len = random.below(700);
                let layout = Layout {
                    len,
                    distance: 1024,
                    source_shift: &|s| (a + s * 13) % 64,
                    output_shift: &|o| (b + o * 29) % 64,
                };
                let what = format!("seed {seed:#x}, {outputs} x {sources}, {percent} % dense");
                check(sources, &rows, &layout, &[Stores::Cached, Stores::Streaming], &what);
            }
        }
    }
}

#[test]
fn for_streams_at_page_boundaries() {
    let seed = 0x5eed_0003;
    let mut random = Random(seed);
    for sources in [9, 12, 13, 16, 17, 20, 31, 40, 70] {
        for outputs in [1, 2, 3, 4, 5, 8, 9, 12] {
            for len in [1023, 2047, 2048, 3072, 4096 + 64, 9000 + random.below(300)] {
                let rows = random.rows(sources, outputs, 100);
                let what = format!("seed {seed:#x}, {outputs} x {sources}");
                for shift in [0, 1] {
                    let layout =
                        Layout { len, distance: 16384, source_shift: &|_| shift, output_shift: &|_| shift };
                    check(sources, &rows, &layout, &[Stores::Cached, Stores::Streaming], &what);
                }
            }
        }
    }
}

/// The second parity of RAID-6, for which there are separate kernels, and rows that only look like
/// it.
#[test]
fn for_powers_of_two_beside_ones() {
    let powers = |count: usize| -> Vec<u8> {
        let twice = |&power: &u8| Some(power << 1 ^ if power & 128 == 0 { 0 } else { 0x1d });
        std::iter::successors(Some(1), twice).take(count).collect()
    };
    for sources in [2, 3, 4, 16, 64, 65, 130, 256] {
        let ones: Vec<(usize, u8)> = (0..sources).map(|s| (s, 1)).collect();
        let rising: Vec<(usize, u8)> = (0..sources).zip(powers(sources)).collect();
        let falling: Vec<(usize, u8)> =
            rising.iter().map(|&(s, power)| (sources - 1 - s, power)).rev().collect();
        let later: Vec<(usize, u8)> = (0..sources).zip(powers(sources + 1).split_off(1)).collect();
        let with_a_gap = [&rising[..1], &rising[2..]].concat();
        let rows = [&rising[..], &falling, &later, &with_a_gap, &rising[..sources - 1], &falling[1..]];
        for (kind, row) in rows.into_iter().enumerate() {
            let rows: Rows = vec![row.to_vec(), ones.clone()];
            let lens = match sources {
                ..5 => (0..160).collect(),
                16 | 65 => vec![1024, 4096 + 33, 40_000],
                _ => vec![300],
            };
            for len in lens {
                let distance = (len + 4096) / 4096 * 4096 + 4096;
                for shift in [0, 3] {
                    let layout =
                        Layout { len, distance, source_shift: &|s| s * 64 % 4096, output_shift: &|_| shift };
                    let what = format!("{sources} sources, kind {kind}");
                    check(sources, &rows, &layout, &[Stores::Cached, Stores::Streaming], &what);
                }
            }
        }
    }
}

#[test]
fn for_sparse_matrices_in_many_passes() {
    let seed = 0x5eed_0004;
    let mut random = Random(seed);
    for (sources, outputs) in [(30, 12), (64, 30), (130, 50)] {
        for len in [100, 1024, 5000, 20001] {
            let mut rows = random.rows(sources, outputs, 8);
            rows[0] = (0..sources).map(|s| (s, 1)).collect();
            let layout = Layout { len, distance: 20480, source_shift: &|_| 0, output_shift: &|_| 0 };
            check(
                sources,
                &rows,
                &layout,
                &[Stores::Auto],
                &format!("seed {seed:#x}, {outputs} x {sources}"),
            );
        }
    }
}

#[test]
fn for_lengths_that_stream_by_themselves() {
    let seed = 0x5eed_0005;
    let mut random = Random(seed);
    for (sources, outputs, len) in [(4, 2, (1 << 20) + 17), (16, 4, (1 << 18) + 4096), (20, 9, (1 << 18) + 1)]
    {
        let rows = random.rows(sources, outputs, 100);
        for shift in [0, 3] {
            let layout = Layout {
                len,
                distance: (len + 4096) / 4096 * 4096 + 4096,
                source_shift: &|_| 0,
                output_shift: &|_| shift,
            };
            check(
                sources,
                &rows,
                &layout,
                &[Stores::Auto],
                &format!("seed {seed:#x}, {outputs} x {sources}"),
            );
        }
    }
}

#[test]
fn a_row_without_coefficients_gives_zeros_and_adds_nothing() {
    for tier in Tier::available() {
        let dot = Dot::with_tier(tier, 2, &[vec![], vec![(1, 0)], vec![(0, 5), (0, 5)]]).unwrap();
        let mut out = [[9u8; 100]; 3];
        let [a, b, c] = &mut out;
        dot.accumulate(&[&[1; 100], &[2; 100]], &mut [a, b, c]).unwrap();
        assert_eq!(out, [[9; 100]; 3]);
        let [a, b, c] = &mut out;
        dot.apply(&[&[1; 100], &[2; 100]], &mut [a, b, c]).unwrap();
        assert_eq!(out, [[0; 100]; 3]);
    }
}
