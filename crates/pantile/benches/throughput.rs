//! Throughput of encode, rebuild and locate on one core, in bytes of user data per second.
//!
//! `cargo bench -p pantile --bench throughput`. It prints a table of medians over nine interleaved
//! repeats, and tests nothing.

use pantile::{CellIndex, CellSet, Codec, Costs};
use std::time::Instant;

const ELEMENT_BYTES: usize = 64 * 1024;
const REPEATS: usize = 9;

fn main() {
    println!(
        "{:<16} {:>12} {:>14} {:>14} {:>16}",
        "code", "encode GB/s", "rebuild 1", "rebuild most", "locate and fix"
    );
    for spec in [
        "raid6:8",
        "rs:10+4",
        "cauchy:12+4",
        "shec:6,4,3",
        "raidq:16+4",
        "lrc:12,2,2",
        "dcode:7",
        "dcode:13",
        "rdp:14",
    ] {
        let codec = Codec::parse(spec).expect("the specs of this table are good");
        let code = codec.code().clone();
        let mut cells = vec![vec![0u8; ELEMENT_BYTES]; code.cell_count()];
        let mut state = 1u64;
        for &cell in code.data() {
            for byte in &mut cells[cell.usize()] {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                *byte = (state >> 56) as u8;
            }
        }
        let mut views: Vec<&mut [u8]> = cells.iter_mut().map(Vec::as_mut_slice).collect();
        codec.encode(&mut views).expect("a stripe");
        let bytes = code.data().len() * ELEMENT_BYTES;
        let encode = best(|| codec.encode(&mut views).expect("a stripe"));
        let rebuild = |lost: &[usize], views: &mut Vec<&mut [u8]>| {
            let lost = CellSet::of_columns(&code, lost);
            let wanted: Vec<CellIndex> = lost.iter().collect();
            let recovery = codec.recovery(&lost, &wanted, &Costs::uniform()).expect("survivable");
            best(|| recovery.run(views).expect("a stripe"))
        };
        let one = rebuild(&[0], &mut views);
        let most: Vec<usize> = (0..code.claim().tolerance).collect();
        let all = rebuild(&most, &mut views);
        // As many columns as can be located with certainty are wrong in every byte.
        let checker = codec.checker(&CellSet::empty(&code)).expect("a set of this code");
        let wrong = checker.locator().errors_certain();
        let mut times = Vec::new();
        for _ in 0..REPEATS {
            for column in 0..wrong {
                for cell in code.column_cells(column) {
                    views[cell.usize()].iter_mut().enumerate().for_each(|(i, b)| *b ^= (i % 255) as u8 + 1);
                }
            }
            let start = Instant::now();
            let shared: Vec<&[u8]> = views.iter().map(|v| &**v).collect();
            let findings = checker.locate(&shared).expect("a stripe");
            checker.correct(&mut views, &findings, |_| true).expect("a stripe");
            times.push(start.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        let rate = |seconds: f64| bytes as f64 / seconds / 1e9;
        println!(
            "{spec:<16} {:>12.1} {:>14.1} {:>14.1} {:>9.2} ({wrong} bad)",
            rate(encode),
            rate(one),
            rate(all),
            rate(times[REPEATS / 2])
        );
    }
}

/// The median seconds of one call.
fn best(mut call: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..REPEATS)
        .map(|_| {
            let start = Instant::now();
            (0..8).for_each(|_| call());
            start.elapsed().as_secs_f64() / 8.0
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[REPEATS / 2]
}
