//! Claim: on columns of packets, every program and every update on every tier of this machine
//! writes the same bytes as the portable tier on contiguous buffers, and no other byte. Invalid
//! columns are refused.

// Miri has no tier to compare with.
#![cfg(not(miri))]

use crate::common::{Random, number, random_bits, random_grid, xor, zig_zag};
use pantile_kernel::{PacketProgram, Packets, Program, ProgramError, ShapeError, Step, Stores, Tier, Update};
use std::num::NonZeroUsize;

/// The bytes around every column that must not change.
const GUARD_BYTES: usize = 128;

fn packets(rows: &[usize], bytes: usize) -> Packets {
    Packets::new(rows, NonZeroUsize::new(bytes).expect("a packet has bytes")).expect("few buffers")
}

/// Memory with consecutive columns, each at a given offset from a cache line.
struct Columns {
    memory: Vec<u8>,
    ranges: Vec<std::ops::Range<usize>>,
}

impl Columns {
    fn new(packets: &Packets, groups: usize, shift: impl Fn(usize) -> usize) -> Columns {
        Columns::with_pitch(64, packets, groups, shift)
    }

    /// Returns memory in which the guard before each column starts at a multiple of the pitch, and
    /// column c starts `shift(c)` bytes after its guard.
    fn with_pitch(pitch: usize, packets: &Packets, groups: usize, shift: impl Fn(usize) -> usize) -> Columns {
        let lens = (0..packets.columns()).map(|c| packets.rows(c) * packets.bytes() * groups);
        let mut end = 0;
        let mut ranges: Vec<std::ops::Range<usize>> = Vec::new();
        for (c, len) in lens.enumerate() {
            let start = end + GUARD_BYTES + shift(c);
            ranges.push(start..start + len);
            end = (start + len + GUARD_BYTES).next_multiple_of(pitch);
        }
        let mut memory = vec![0u8; end + 64];
        let line = memory.as_ptr().align_offset(64);
        memory.iter_mut().enumerate().for_each(|(i, byte)| *byte = ((i + 64 - line) * 7 % 251) as u8);
        ranges.iter_mut().for_each(|range| *range = range.start + line..range.end + line);
        Columns { memory, ranges }
    }

    fn views(&mut self) -> Vec<&mut [u8]> {
        let (mut rest, mut passed) = (&mut self.memory[..], 0);
        let mut views = Vec::new();
        for range in &self.ranges {
            let (_, tail) = rest.split_at_mut(range.start - passed);
            let (view, tail) = tail.split_at_mut(range.len());
            views.push(view);
            (rest, passed) = (tail, range.end);
        }
        views
    }

    /// Returns each buffer as contiguous bytes.
    fn pieces(&self, packets: &Packets, groups: usize) -> Vec<Vec<u8>> {
        let piece = |buffer: usize| {
            let (column, row) = packets.cell(buffer);
            let at = |group: usize| {
                self.ranges[column].start + group * packets.group_bytes(column) + row * packets.bytes()
            };
            (0..groups)
                .flat_map(|group| self.memory[at(group)..][..packets.bytes()].iter().copied())
                .collect()
        };
        (0..packets.buffers()).map(piece).collect()
    }

    fn put(&mut self, packets: &Packets, pieces: &[Vec<u8>]) {
        for (buffer, piece) in pieces.iter().enumerate() {
            let (column, row) = packets.cell(buffer);
            for (group, packet) in piece.chunks(packets.bytes()).enumerate() {
                let at =
                    self.ranges[column].start + group * packets.group_bytes(column) + row * packets.bytes();
                self.memory[at..][..packet.len()].copy_from_slice(packet);
            }
        }
    }
}

fn check(steps: &[Step], packets: &Packets, groups: usize, shift: impl Fn(usize) -> usize, what: &str) {
    check_with(|| Columns::new(packets, groups, &shift), steps, packets, groups, what);
}

fn check_with(columns: impl Fn() -> Columns, steps: &[Step], packets: &Packets, groups: usize, what: &str) {
    let mut wanted = columns();
    let mut pieces = wanted.pieces(packets, groups);
    let mut views: Vec<&mut [u8]> = pieces.iter_mut().map(Vec::as_mut_slice).collect();
    Program::with_tier(Tier::Portable, packets.buffers(), steps).unwrap().run(&mut views).unwrap();
    wanted.put(packets, &pieces);
    for tier in Tier::available() {
        for stores in [Stores::Cached, Stores::Streaming] {
            let program = Program::with_tier(tier, packets.buffers(), steps).unwrap().with_stores(stores);
            let program: PacketProgram = program.in_packets(packets.clone()).unwrap();
            for when in ["at first", "prepared"] {
                let mut have = columns();
                // The number of bytes before the first line differs between allocations.
                program.run(&mut have.views()).unwrap();
                let of = |columns: &Columns| {
                    let (first, last) =
                        (columns.ranges[0].start, columns.ranges[columns.ranges.len() - 1].end);
                    columns.memory[first - GUARD_BYTES..last + GUARD_BYTES].to_vec()
                };
                assert!(
                    of(&have) == of(&wanted),
                    "{what}, {packets:?}, {groups} groups, {tier}, {stores:?}, {when}"
                );
                program.prepare();
            }
        }
    }
}

/// Distributes buffers over columns, some of which have none.
fn random_rows(random: &mut Random, buffers: usize) -> Vec<usize> {
    let most = [1, 2, 5, 13, 60][random.below(5)];
    let mut rows = Vec::new();
    let mut left = buffers;
    while left > 0 {
        let here = random.below(most + 1).min(left);
        rows.push(here);
        left -= here;
    }
    rows
}

/// `PANTILE_GRIDS` sets the number of grids, `PANTILE_SEED` their seed.
#[test]
fn for_random_grids_in_random_columns() {
    let seed = number("PANTILE_SEED").unwrap_or(0x5eed_0031);
    for grid in 0..number("PANTILE_GRIDS").unwrap_or(300) {
        let mut random = Random(seed + grid);
        let (buffers, steps) = random_grid(&mut random);
        let rows = random_rows(&mut random, buffers);
        let bytes = [64, 128, 256, 384, 512, 1, 60, 200][random.below(8)];
        let groups = random.below(5);
        let shift = random.below(2) * random.below(64);
        check(&steps, &packets(&rows, bytes), groups, |c| shift * c % 64, &format!("seed {}", seed + grid));
    }
}

/// `PANTILE_GRIDS` sets the number of programs, `PANTILE_SEED` their seed.
#[test]
fn for_random_bits_in_random_columns() {
    let seed = number("PANTILE_SEED").unwrap_or(0x5eed_0032);
    for matrix in 0..number("PANTILE_GRIDS").unwrap_or(200) {
        let mut random = Random(seed + matrix);
        let (buffers, steps) = random_bits(&mut random);
        let rows = random_rows(&mut random, buffers);
        let bytes = [32, 64, 96, 128, 256, 512, 33][random.below(7)];
        let packets = packets(&rows, bytes);
        // Sometimes more groups than fit in a copy.
        let groups = if random.below(8) == 0 { 40 } else { random.below(5) };
        // Columns that begin at the same offset of their pages, and at others.
        let (pitch, shift) = ([64, 4096][random.below(2)], random.below(2) * random.below(64));
        let shift = |c: usize| if pitch == 64 { shift * c % 64 } else { shift };
        let columns = || Columns::with_pitch(pitch, &packets, groups, shift);
        check_with(columns, &steps, &packets, groups, &format!("seed {}", seed + matrix));
    }
}

#[test]
fn for_every_number_of_columns_and_of_rows() {
    // As many columns as there are registers, one more, and many more; displacements of one byte
    // and of four bytes.
    for columns in (1..=18).chain([30]) {
        for rows in [1, 2, 13, 40] {
            let data = rows * columns;
            let mut steps: Vec<Step> =
                (0..rows).map(|r| xor(data + r, (0..columns).map(|c| c * rows + r))).collect();
            steps.extend((0..columns).map(|c| xor(data + rows + c, (0..rows).map(|r| c * rows + r))));
            let layout = [vec![rows; columns], vec![rows, columns]].concat();
            for bytes in [128, 512] {
                check(&steps, &packets(&layout, bytes), 3, |_| 0, "rows and columns");
            }
        }
    }
}

#[test]
fn for_zig_zags_and_products() {
    for side in [2, 5, 13, 15, 17] {
        let (buffers, steps) = zig_zag(side, 2 * side);
        let rows = [vec![side; side], vec![buffers - side * side]].concat();
        check(&steps, &packets(&rows, 256), 2, |c| c, "a zig-zag");
    }
    let step = |target, terms: &[(usize, u8)]| Step { target, terms: terms.to_vec() };
    // Programs of one stage and of several; also with one row per column.
    let one = [step(4, &[(0, 3), (1, 1), (2, 9)]), step(5, &[(0, 1), (1, 7), (3, 2)])];
    let two = [&one[..], &[step(6, &[(4, 5), (3, 1)])]].concat();
    for bytes in [1, 63, 64, 300] {
        for rows in [vec![2, 2, 1, 2], vec![1; 7]] {
            for steps in [&one[..], &two] {
                check(steps, &packets(&rows, bytes), 3, |c| c * 5 % 64, "products");
            }
        }
    }
}

#[test]
fn an_update_goes_to_every_packet() {
    // Updates with products; with coefficient 1 only, in columns with equal and with different
    // numbers of rows; with more targets than one kernel processes; and without a target.
    let products: &[(usize, u8)] = &[(0, 1), (4, 0x8e), (8, 3)];
    let many: Vec<(usize, u8)> = (4..16).map(|target| (target, 1)).collect();
    let none: &[(usize, u8)] = &[];
    for (rows, targets) in [
        (vec![3, 0, 2, 4], products),
        (vec![3, 3, 0, 3], products),
        (vec![3, 0, 2, 4], &[(0, 1), (4, 1), (8, 1)][..]),
        (vec![4, 4, 0, 4, 4], &many),
        (vec![4, 4], &[(2, 1)]),
        (vec![2, 2], none),
    ] {
        for bytes in [1, 7, 31, 32, 40, 64, 95, 96, 128, 200, 512] {
            let layout = packets(&rows, bytes);
            let buffers = layout.buffers();
            for tier in Tier::available() {
                let update = Update::with_tier(tier, buffers, 3, targets).unwrap();
                for groups in 0..4 {
                    let mut columns = Columns::new(&layout, groups, |c| c * 3);
                    let before = columns.pieces(&layout, groups);
                    let new: Vec<u8> = (0..groups * bytes).map(|i| (i * 13 % 241) as u8 ^ 0x55).collect();
                    update.run_packets(&layout, &mut columns.views(), &new).unwrap();
                    let mut wanted = before.clone();
                    let mut views: Vec<&mut [u8]> = wanted.iter_mut().map(Vec::as_mut_slice).collect();
                    let portable = Update::with_tier(Tier::Portable, buffers, 3, targets).unwrap();
                    portable.run(&mut views, &new).unwrap();
                    let what = format!("{rows:?}, {bytes} bytes, {tier}, {groups} groups");
                    assert!(columns.pieces(&layout, groups) == wanted, "{what}");
                    assert!(groups == 0 || wanted != before, "{what}");
                }
                let mut columns = Columns::new(&layout, 2, |_| 0);
                let before = columns.memory.clone();
                let have = 2 * bytes - 1;
                let error = update.run_packets(&layout, &mut columns.views(), &vec![0; have]).unwrap_err();
                assert_eq!(error, ShapeError::SourceLen { index: 0, have, need: 2 * bytes });
                assert!(columns.memory == before, "nothing is written on error");
            }
        }
    }
}

#[test]
fn columns_that_are_none_are_refused() {
    let program = || Program::new(4, &[xor(3, [0, 1, 2])]).unwrap();
    let error = program().in_packets(packets(&[2, 1], 8)).unwrap_err();
    assert_eq!(error, ProgramError::PacketBuffers { have: 3, need: 4 });
    let program = program().in_packets(packets(&[2, 2], 8)).unwrap();
    let (mut a, mut b) = ([1u8; 32], [2u8; 24]);
    assert_eq!(program.run(&mut [&mut a]), Err(ShapeError::BufferCount { have: 1, need: 2 }));
    let refused = program.run(&mut [&mut a, &mut b]);
    assert_eq!(refused, Err(ShapeError::Packets { index: 1, have: 24, multiple_of: 16 }));
    let refused = program.run(&mut [&mut a, &mut b[..16]]);
    assert_eq!(refused, Err(ShapeError::BufferLen { index: 1, have: 16, need: 32 }));
    assert_eq!((a, b), ([1; 32], [2; 24]), "nothing is written on error");
}
