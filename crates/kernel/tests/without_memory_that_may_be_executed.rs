//! Claim: a process that must not execute written memory, as under systemd's
//! `MemoryDenyWriteExecute`, computes the same results in other forms.
//!
//! A separate test program, because the prohibition is for the whole process and cannot be undone.
#![cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]

#[path = "kernel/common/mod.rs"]
mod common;

use common::system::{
    MAP_PRIVATE_ANONYMOUS, PAGE_BYTES, PROT_READ_EXECUTE, PROT_READ_WRITE, mmap, mprotect, munmap,
};
use common::zig_zag;
use pantile_kernel::{Program, Tier};
use std::ffi::{c_int, c_ulong};

unsafe extern "C" {
    fn prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int;
}

const PR_SET_MDWE: c_int = 65;
const PR_MDWE_REFUSE_EXEC_GAIN: c_ulong = 1;

const LEN: usize = 1000;

fn run(program: &Program) -> Vec<Vec<u8>> {
    let mut cells: Vec<Vec<u8>> =
        (0..program.buffers()).map(|i| (0..LEN).map(|at| (at * 7 + i * 13) as u8).collect()).collect();
    let mut views: Vec<&mut [u8]> = cells.iter_mut().map(Vec::as_mut_slice).collect();
    program.run(&mut views).unwrap();
    cells
}

/// True if this process can still execute written memory.
fn may_execute_what_was_written() -> bool {
    // SAFETY: a mapping of this test's own, which nobody writes to or executes.
    unsafe {
        let page = mmap(std::ptr::null_mut(), PAGE_BYTES, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, -1, 0);
        let answer = mprotect(page, PAGE_BYTES, PROT_READ_EXECUTE);
        munmap(page, PAGE_BYTES);
        answer == 0
    }
}

#[test]
fn programs_do_without_code_of_their_own() {
    let (buffers, steps) = zig_zag(7, 14);
    let compile = |tier| {
        let program = Program::with_tier(tier, buffers, &steps).unwrap();
        program.prepare();
        program
    };
    let has_code = |program: &Program| format!("{program:?}").contains("Executable(");
    let tiers = || Tier::available().into_iter().filter(|&tier| tier != Tier::Portable);
    let before: Vec<Program> = tiers().map(compile).collect();
    // If code can be made, it is made; otherwise the rest of this test proves nothing.
    let makes_code = cfg!(feature = "run-time-code") && may_execute_what_was_written();
    assert!(before.iter().all(|program| has_code(program) == makes_code));
    // SAFETY: forbids something to this process, and touches no memory.
    if unsafe { prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) } != 0 {
        println!("this system is older than Linux 6.3 and forbids nothing: left out");
        return;
    }
    let wanted = run(&compile(Tier::Portable));
    for (tier, before) in tiers().zip(&before) {
        let after = compile(tier);
        assert!(!has_code(&after), "{tier}");
        assert!(run(&after) == wanted, "{tier}");
        assert!(run(before) == wanted, "{tier}: code that was made before stays");
    }
}
