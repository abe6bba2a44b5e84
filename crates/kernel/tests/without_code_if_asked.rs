//! With `PANTILE_NO_CODE` no program becomes code, and all compute the same by other ways.
//!
//! A file of its own: what is asked here, is asked of the whole process, once.
#![cfg(not(miri))]

#[path = "kernel/common/mod.rs"]
mod common;

use common::zig_zag;
use pantile_kernel::{Program, Tier};

const LEN: usize = 1000;

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

#[test]
fn no_code_is_made_if_none_is_wanted() {
    // SAFETY: no other thread of this process looks at variables: this is its only test, and nothing has run yet.
    unsafe { std::env::set_var("PANTILE_NO_CODE", "1") };
    let (_, wanted) = run(Tier::Portable);
    for tier in Tier::available() {
        let (program, cells) = run(tier);
        assert!(!format!("{program:?}").contains("Executable("), "{tier}");
        assert!(cells == wanted, "{tier}");
    }
}
