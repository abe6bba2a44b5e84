//! The lines that streaming code prefetches: tiles of separate buffers, or lines of columns of
//! packets.
//!
//! Invariants: each line is fetched once, before the code writes to it; only lines that fill up the
//! last tile are fetched again.

use std::ops::Range;

use super::assembler::{Assembler, Columns, Level, Slice, Tile};
use super::cpu::Kind;
use super::forms::LINE;
use crate::code::braid::Braid;
use crate::code::form::Form;

/// The bytes of a tile over all streams, unless 256 bytes of each stream are more.
///
/// Measured with chunks of 1 MiB and tiles of 256, 512 and 1024 bytes of each stream, as a share of
/// the limit. AVX-512 on Zen 4: D-Code(7) 0.75, 0.78, 0.86; D-Code(13) 0.87, 0.86, 0.84; RDP(14)
/// 0.83, 0.88, 0.81; D-Code(17) 0.81, 0.69, 0.69; RDP(18) 0.93, 0.81, 0.75; D-Code(23) 0.74, 0.70,
/// 0.61. Sapphire Rapids, D-Code(13), 256 bytes to 2 KiB: 0.97, 0.99, 0.94, 0.90. Without prefetch:
/// 0.77 on Sapphire Rapids and 0.35 on Zen 4. AVX2 on Zen 3: D-Code(13) 0.5, 0.56, 0.45; D-Code(7)
/// 0.66, 0.6, 0.57. Ice Lake, into the first-level cache, in GB/s: D-Code(13) 10.3, 12.6, 11.5;
/// RDP(14) 11.8, 14.3, 13.1; D-Code(7) 15.3, 15.9, 14.3.
const TILES_BYTES: usize = 96 * 1024;

/// Returns the bytes of each of `streams` streams in a tile: their share of [`TILES_BYTES`], from
/// 256 to 1024.
fn tile_bytes(streams: usize) -> usize {
    1 << (TILES_BYTES / streams.max(1)).clamp(256, 1024).ilog2()
}

/// Returns the tiles that a braid on separate buffers prefetches, and the list of buffers to fetch.
/// Each slice fetches the next tile of its share of the entries. Only buffers that are read before
/// they are written are fetched.
pub(super) fn fetched(braid: &Braid) -> (Tile, Vec<usize>) {
    let made = braid.targets();
    let read: Vec<usize> = (0..braid.buffers.len()).filter(|buffer| !made.contains(buffer)).collect();
    let slices = tile_bytes(read.len()) / Form::Braid(braid).slice().bytes();
    let of_slice = read.len().div_ceil(slices);
    // The end of the list repeats the last buffer.
    let ahead = (0..slices * of_slice).map(|i| read[i.min(read.len() - 1)]).collect();
    (Tile { into: fetched_into(), slices, of_slice, pointers: braid.buffers.len() }, ahead)
}

/// Returns the cache into which tiles are fetched.
///
/// Measured with chunks of 1 MiB, into the second-level and into the first-level cache. Ice Lake,
/// GB/s: D-Code(13) 10.2 and 12.6; RDP(14) 11.3 and 14.2; RDP(18) 9.6 and 11.8; with AVX2 11.0 and
/// 13.6, 11.0 and 14.1, 9.2 and 12.6. With the first-level cache a stripe in the third-level cache
/// loses 2 to 6 %. Sapphire Rapids: 0.94 to 0.99 of the limit, and 0.81. Other processors were not
/// measured.
pub(super) fn fetched_into() -> Level {
    match Kind::of_this_processor() {
        Kind::IceLake => Level::First,
        Kind::SapphireRapids | Kind::Zen3 | Kind::Zen4 | Kind::Zen5 => Level::Second,
    }
}

/// The least distance between the bytes being read and those being fetched, if it is more than one
/// packet of each buffer. Measured on Ice Lake, D-Code(13), packets of 128 bytes (22 KB), 64 KiB of
/// each column from memory, in GB/s of encode and of two lost columns: one packet ahead 12.5 and
/// 13.4; two packets 14.1 and 14.0; none 8.9 and 12.9.
const AHEAD_BYTES: usize = 48 * 1024;

/// The most packets ahead.
pub(super) const AHEAD_MOST: usize = 8;

/// The lines of later packets that the slices of a packet fetch.
pub(super) struct Ahead {
    /// The lines that the first slice fetches: the column of each, and its offset from the start of
    /// the column's packets. They are ordered in rounds of two lines of each column. One column
    /// after the other is slower from memory (Ice Lake, D-Code(13), packets of 128 bytes): encode
    /// 11.3 instead of 14.2 GB/s, two lost columns 13.2 instead of 16.8; with AVX2 11.7 instead of
    /// 13.3, and 13.0 instead of 15.7.
    pub(super) lines: Vec<(usize, i32)>,
    /// The bytes by which the fetch offset grows from slice to slice.
    pub(super) step: i32,
}

impl Ahead {
    pub(super) fn new(form: Form, slice: Slice, columns: &Columns, kind: Kind) -> Ahead {
        let group: usize = columns.rows.iter().map(|rows| rows * columns.packet_bytes).sum();
        let (groups, (lines, step)) = match kind {
            Kind::Zen3 => (1, Ahead::parts(form, slice, columns)),
            _ => ((AHEAD_BYTES / group.max(1)).clamp(1, AHEAD_MOST), Ahead::packets(form, slice, columns)),
        };
        let begin = |column: usize| groups * columns.rows[column] * columns.packet_bytes;
        let mut lines: Vec<(usize, i32)> =
            lines.into_iter().map(|(column, at)| (column, (begin(column) + at) as i32)).collect();
        lines.sort_by_key(|&(column, at)| ((at as usize - begin(column)) / (2 * LINE), column));
        Ahead { lines, step: step as i32 }
    }

    /// Returns the lines if each slice fetches whole packets, different from those of the other
    /// slices. With S slices, the first fetches rows 0, S, 2 S and so on, the second rows 1, S + 1,
    /// 2 S + 1. So memory is read in runs of several lines, although a slice processes only a line
    /// or two of each packet. If most rows of a block of S rows are not read, none of the block is
    /// fetched.
    fn packets(form: Form, slice: Slice, columns: &Columns) -> (Vec<(usize, usize)>, usize) {
        let slices = columns.packet_bytes / slice.bytes();
        let is_read = rows_read(form, columns);
        let mut lines = Vec::new();
        for (column, &rows) in columns.rows.iter().enumerate() {
            for first in (0..rows).step_by(slices) {
                let of_block = first..rows.min(first + slices);
                let read = of_block.clone().filter(|&row| is_read[column][row]).count();
                if 2 * read >= of_block.len() {
                    let start = first * columns.packet_bytes;
                    lines.extend((0..columns.packet_bytes).step_by(LINE).map(|at| (column, start + at)));
                }
            }
        }
        (lines, columns.packet_bytes)
    }

    /// Returns the lines if each slice fetches a part of the column, in order, up to the last row
    /// that is read in any column. The hardware prefetcher then follows. Zen 3 drops fetches that
    /// it has no room for (a loop of fetches alone runs at 40 to 55 GB/s, of loads at 17 to 20),
    /// but follows 13 streams of ascending lines well.
    ///
    /// Measured with D-Code(13) from memory, staggered, on a busy host, in GB/s; two runs, each of
    /// encode and of two lost columns. Packets of 128 bytes: whole packets two ahead 8.0 and 8.5,
    /// 6.9 and 7.7; one ahead 9.5 and 11.5, 7.5 and 7.7; parts 10.9 and 11.5, 9.7 and 10.3. Packets
    /// of 512 bytes: two ahead 7.7 and 8.5, 5.1 and 6.2; one ahead 9.3 and 7.9, 6.8 and 7.6; parts
    /// 11.0 and 9.4, 8.4 and 7.0. The limit is 14 to 22. Loads instead of fetches are not better.
    fn parts(form: Form, slice: Slice, columns: &Columns) -> (Vec<(usize, usize)>, usize) {
        let slices = columns.packet_bytes / slice.bytes();
        let is_read = rows_read(form, columns);
        let rows = is_read.iter().filter_map(|rows| rows.iter().rposition(|&is_read| is_read)).max();
        let step = (rows.map_or(0, |last| last + 1) * columns.packet_bytes).div_ceil(slices);
        let step = step.next_multiple_of(LINE);
        let read = (0..columns.rows.len()).filter(|&column| is_read[column].contains(&true));
        (read.flat_map(|column| (0..step).step_by(LINE).map(move |at| (column, at))).collect(), step)
    }
}

/// Returns, for each row of each column, true if the code reads the content that it had before the
/// run. Rows that the code writes first are in a near cache.
fn rows_read(form: Form, columns: &Columns) -> Vec<Vec<bool>> {
    let made = form.targets();
    let mut is_read: Vec<Vec<bool>> = columns.rows.iter().map(|&rows| vec![false; rows]).collect();
    for (buffer, &(column, row)) in columns.cells.iter().enumerate() {
        is_read[column][row] = !made.contains(&buffer);
    }
    is_read
}

/// The lines that streaming code fetches.
pub(super) enum Fetch {
    /// Tiles of separate buffers.
    Tiles { tile: Tile, spread: Spread },
    /// Lines of columns of packets.
    Packets { into: Level, lines: Vec<(usize, i32)>, spread: Spread },
}

/// The fetches of a slice, spread evenly over its reads. Rows differ in their number of terms. With
/// the same number of fetches in each row, rows of few terms fetched in bursts, which delayed all
/// loads. RDP(18), chunks of 1 MiB, tiles of 4 slices: 0.59 of the limit; spread evenly 0.81, and
/// 0.93 with 2 slices.
pub(super) struct Spread {
    /// The number of all fetches.
    of: usize,
    /// The number of terms of all rows.
    terms: usize,
    swept: usize,
    done: usize,
}

impl Spread {
    /// Spreads `of` fetches over `terms` terms.
    pub(super) fn new(of: usize, terms: usize) -> Spread {
        Spread { of, terms, swept: 0, done: 0 }
    }

    /// Returns the indices of the fetches to emit before the next term.
    fn due(&mut self) -> Range<usize> {
        self.swept += 1;
        let due = self.of * self.swept / self.terms;
        std::mem::replace(&mut self.done, due)..due
    }
}

impl Fetch {
    /// Emits the fetches that come before the next term.
    pub(super) fn before_a_term(&mut self, code: &mut Assembler) {
        match self {
            Fetch::Tiles { tile, spread } => spread.due().for_each(|which| code.fetch(tile, which)),
            Fetch::Packets { into, lines, spread } => {
                for &(column, at) in &lines[spread.due()] {
                    code.fetch_line(*into, column, at);
                }
            }
        }
    }

    pub(super) fn has_fetched_all(&self) -> bool {
        let (Fetch::Tiles { spread, .. } | Fetch::Packets { spread, .. }) = self;
        spread.swept == spread.terms
    }
}

#[cfg(all(test, target_os = "linux"))]
pub(super) mod tests {
    use super::*;
    use crate::code::braid::{Place, Vectors, tests::zig_zag};
    use crate::code::straight::Straight;
    use crate::sums::SharedSums;

    #[test]
    fn tiles_of_many_streams_are_short() {
        assert_eq!([1, 35, 99, 143, 256, 5000].map(tile_bytes), [1024, 1024, 512, 512, 256, 256]);
    }

    #[test]
    fn a_slice_fetches_its_share_and_never_in_bursts() {
        for (of_slice, terms) in [(1, 1), (1, 9), (7, 9), (9, 7), (36, 143), (72, 306), (100, 3)] {
            let mut spread = Spread::new(of_slice, terms);
            let due: Vec<Range<usize>> = (0..terms).map(|_| spread.due()).collect();
            let all: Vec<usize> = due.iter().cloned().flatten().collect();
            assert_eq!(all, (0..of_slice).collect::<Vec<_>>(), "{of_slice} over {terms}");
            assert!(due.iter().all(|due| due.len() <= of_slice.div_ceil(terms)), "{of_slice} over {terms}");
        }
    }

    pub(in crate::arch::x86_64) fn braids() -> impl Iterator<Item = Braid> {
        // Adds to each sum three buffers that no other sum has.
        let mut wider = zig_zag(5, 9);
        wider.iter_mut().enumerate().for_each(|(i, step)| step.1.extend((0..3).map(|own| 100 + 3 * i + own)));
        let zig_zags = [(2, 4), (5, 9), (13, 26), (14, 27), (15, 30), (23, 46)];
        let all = zig_zags.into_iter().map(|(n, links)| zig_zag(n, links)).chain([wider]);
        all.flat_map(|steps| {
            [Vectors::Ymm, Vectors::Zmm]
                .map(|vectors| Braid::new(&SharedSums::new(&steps), vectors).expect("few enough sums"))
        })
    }

    #[test]
    fn slices_fetch_all_packets_that_are_read_together_and_no_other_column() {
        // Three columns of five rows, of which the last is written, and a column of sums.
        let sum = |target: usize, from: std::ops::Range<usize>| (target, from.collect::<Vec<usize>>());
        let steps: Vec<(usize, Vec<usize>)> = (0..3)
            .map(|c| sum(5 * c + 4, 5 * c..5 * c + 4))
            .chain((0..4).map(|r| (15 + r, (0..3).map(|c| 5 * c + r).collect())))
            .collect();
        let braid = Braid::new(&SharedSums::new(&steps), Vectors::Zmm).expect("few enough sums");
        let cells = braid.buffers.iter().map(|&buffer| (buffer / 5, buffer % 5)).collect();
        for slices in [1, 2, 4] {
            let packet_bytes = slices * (2 * braid.vectors.bytes());
            let columns =
                Columns { cells: Vec::clone(&cells), rows: vec![5, 5, 5, 4], packet_bytes, fetch_step: None };
            let ahead = Ahead::new(Form::Braid(&braid), Form::Braid(&braid).slice(), &columns, Kind::IceLake);
            let groups = (AHEAD_BYTES / (19 * packet_bytes)).clamp(1, AHEAD_MOST);
            let mut fetched: Vec<(usize, usize)> = Vec::new();
            for slice in 0..slices {
                for &(column, at) in &ahead.lines {
                    let at = at as usize + slice * ahead.step as usize;
                    fetched.push((column, at - groups * columns.rows[column] * packet_bytes));
                }
            }
            fetched.sort_unstable();
            let count = fetched.len();
            fetched.dedup();
            assert_eq!(fetched.len(), count, "no line twice");
            let read =
                (0..3).flat_map(|column| (0..4 * packet_bytes).step_by(LINE).map(move |at| (column, at)));
            assert_eq!(fetched, read.collect::<Vec<_>>(), "{slices} slices");
        }
    }

    #[test]
    fn rows_made_by_the_code_are_not_fetched() {
        // Columns of two rows. The third is computed from the first two, and the fourth from the
        // third.
        let steps = [(4, vec![0, 2]), (5, vec![1, 3]), (6, vec![4, 0, 1, 2]), (7, vec![5, 4, 1, 0])];
        let sums = SharedSums::new(&steps);
        let braid =
            Braid::new(&SharedSums::new(&crate::sum_graph::tests::steps(4, 7, false)), Vectors::Ymm).unwrap();
        let straight = Straight::new(&sums, Vectors::Ymm).expect("few enough sums");
        let form = Form::Straight(&straight);
        let cells = form.buffers().iter().map(|&buffer| (buffer / 2, buffer % 2)).collect();
        let columns = Columns { cells, rows: vec![2; 4], packet_bytes: 64, fetch_step: None };
        let (lines, _) = Ahead::parts(form, form.streaming_slice(&columns), &columns);
        let mut fetched: Vec<usize> = lines.iter().map(|line| line.0).collect();
        fetched.dedup();
        assert_eq!(fetched, [0, 1]);
        assert!(braid.targets().iter().all(|buffer| !super::fetched(&braid).1.contains(buffer)));
    }

    #[test]
    fn packets_of_which_most_are_written_are_not_fetched() {
        // Two columns of five rows that are read, and three that are written.
        let column = |c: usize| (8 * c + 5, (8 * c..8 * c + 5).collect::<Vec<usize>>());
        let row = |target: usize, r: usize| (target, vec![r, 8 + r]);
        let steps = [column(0), column(1), row(6, 0), row(7, 1), row(14, 2), row(15, 3)];
        let braid = Braid::new(&SharedSums::new(&steps), Vectors::Zmm).expect("few enough sums");
        let cells = braid.buffers.iter().map(|&buffer| (buffer / 8, buffer % 8)).collect();
        let packet_bytes = 4 * (2 * braid.vectors.bytes());
        let columns = Columns { cells, rows: vec![8; 2], packet_bytes, fetch_step: None };
        let (lines, step) = Ahead::packets(Form::Braid(&braid), Form::Braid(&braid).slice(), &columns);
        let mut rows: Vec<usize> = lines.iter().map(|line| line.1 / packet_bytes).collect();
        rows.dedup();
        // Of rows 0 to 3 each slice fetches one; of rows 4 to 7 only one is read, so none is
        // fetched.
        assert_eq!((rows, step), (vec![0], packet_bytes));
    }

    #[test]
    fn parts_of_columns_follow_one_another_up_to_the_last_row_that_is_read() {
        // Three columns of six rows, of which the last is written, and a column of sums.
        let steps: Vec<(usize, Vec<usize>)> = (0..3)
            .map(|c| (6 * c + 5, (6 * c..6 * c + 5).collect()))
            .chain((0..5).map(|r| (18 + r, (0..3).map(|c| 6 * c + r).collect())))
            .collect();
        let sums = SharedSums::new(&steps);
        let braid = Braid::new(&sums, Vectors::Ymm).expect("few enough sums");
        let straight = Straight::new(&sums, Vectors::Ymm).expect("few enough sums");
        for form in [Form::Braid(&braid), Form::Straight(&straight)] {
            let cells = form.buffers().iter().map(|&buffer| (buffer / 6, buffer % 6)).collect();
            let columns = Columns { cells, rows: vec![6, 6, 6, 5], packet_bytes: 128, fetch_step: None };
            let slices = 128 / form.slice().bytes();
            let (lines, step) = Ahead::parts(form, form.slice(), &columns);
            assert_eq!(step, (5 * 128usize).div_ceil(slices).next_multiple_of(LINE));
            for column in 0..3 {
                let of_slice = |slice: usize| {
                    let own = lines.iter().filter(move |line| line.0 == column);
                    own.map(move |line| line.1 + slice * step)
                };
                let fetched: Vec<usize> = (0..slices).flat_map(of_slice).collect();
                assert_eq!(fetched, (0..slices * step).step_by(LINE).collect::<Vec<_>>());
            }
            assert!(lines.iter().all(|line| line.0 < 3));
        }
    }

    #[test]
    fn all_that_is_read_is_fetched() {
        for braid in braids() {
            let mut fetched = fetched(&braid).1;
            fetched.dedup();
            let mut read: Vec<usize> = Vec::new();
            let rows = braid.rows().flat_map(|row| row.plain.iter().chain(row.cells.iter().flatten()));
            let starts = braid.batches.iter().flat_map(|batch| batch.starts.iter().flatten());
            let late = braid.links.iter().flat_map(|link| &link.late);
            read.extend(rows.chain(starts).chain(late).filter_map(|place| match place {
                Place::Buffer(buffer) => Some(*buffer),
                Place::Slot(_) => None,
            }));
            read.sort_unstable();
            read.dedup();
            read.retain(|buffer| !braid.targets().contains(buffer));
            assert_eq!(fetched, read);
        }
    }
}
