//! Claim: with `PANTILE_NO_CODE` no program becomes machine code, also not in packets, and all give
//! the same results in other forms.
//!
//! A separate test program, because the variable is read once for the whole process.
#![cfg(not(miri))]

#[path = "kernel/common/mod.rs"]
mod common;

use common::zig_zag;
use pantile_kernel::{Packets, Program, Tier};
use std::num::NonZeroUsize;

const LEN: usize = 1000;

const PACKET_BYTES: usize = 100;

fn run(tier: Tier) -> (Program, Vec<Vec<u8>>) {
    let (buffers, steps) = zig_zag(7, 14);
    let program = Program::with_tier(tier, buffers, &steps).unwrap();
    program.prepare();
    let mut cells: Vec<Vec<u8>> =
        (0..buffers).map(|i| (0..LEN).map(|at| (at * 7 + i * 13) as u8).collect()).collect();
    let mut views: Vec<&mut [u8]> = cells.iter_mut().map(Vec::as_mut_slice).collect();
    program.run(&mut views).unwrap();
    (program, cells)
}

/// Runs the program with all buffers in one column.
fn run_in_packets(tier: Tier) -> Vec<Vec<u8>> {
    let (buffers, steps) = zig_zag(7, 14);
    let packets = Packets::new(&[buffers], NonZeroUsize::new(PACKET_BYTES).unwrap()).unwrap();
    let program = Program::with_tier(tier, buffers, &steps).unwrap().in_packets(packets).unwrap();
    program.prepare();
    let cell = |i: usize, at: usize| (at * 7 + i * 13) as u8;
    let place = |i: usize, at: usize| (at / PACKET_BYTES * buffers + i) * PACKET_BYTES + at % PACKET_BYTES;
    let each = || (0..buffers).flat_map(|i| (0..LEN).map(move |at| (i, at)));
    let mut column = vec![0u8; buffers * LEN];
    each().for_each(|(i, at)| column[place(i, at)] = cell(i, at));
    program.run(&mut [&mut column]).unwrap();
    assert!(!format!("{program:?}").contains("Executable("), "{tier}");
    (0..buffers).map(|i| (0..LEN).map(|at| column[place(i, at)]).collect()).collect()
}

#[test]
fn no_code_is_made_if_none_is_wanted() {
    // SAFETY: no other thread of this process reads variables: this is its only test, and nothing
    // has run yet.
    unsafe { std::env::set_var("PANTILE_NO_CODE", "1") };
    let (_, wanted) = run(Tier::Portable);
    for tier in Tier::available() {
        let (program, cells) = run(tier);
        assert!(!format!("{program:?}").contains("Executable("), "{tier}");
        assert!(cells == wanted, "{tier}");
        assert!(run_in_packets(tier) == wanted, "{tier}: in packets");
    }
}
