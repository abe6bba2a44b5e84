//! From a tier to the program that runs on it.

use crate::dot::Mode;
use crate::{Stores, Tier, portable};

/// A matrix compiled for one tier.
#[derive(Debug)]
pub(crate) enum Program {
    Portable(Rows),
}

/// Rows as the caller wrote them: the portable program.
#[derive(Debug)]
pub(crate) struct Rows(Vec<Vec<(usize, u8)>>);

impl Program {
    /// Compiles tidy rows; `None` if this machine lacks the tier.
    pub(crate) fn new(tier: Tier, rows: &[Vec<(usize, u8)>]) -> Option<Program> {
        match tier {
            Tier::Portable => Some(Program::Portable(Rows(rows.to_vec()))),
            _ => None,
        }
    }

    /// Computes every output.
    ///
    /// # Safety
    ///
    /// `source(s)` for every source of a row and `output(o)` for every row are valid for reads and for writes of
    /// `len` bytes; outputs overlap neither sources nor one another, and are initialised if `mode` accumulates.
    pub(crate) unsafe fn run(
        &self,
        mode: Mode,
        _stores: Stores,
        source: impl Fn(usize) -> *const u8,
        mut output: impl FnMut(usize) -> *mut u8,
        len: usize,
    ) {
        match self {
            Program::Portable(Rows(rows)) => {
                for (o, row) in rows.iter().enumerate() {
                    // SAFETY: the caller's promise.
                    unsafe { run_row(row, mode, &source, output(o), len) };
                }
            }
        }
    }
}

/// # Safety
///
/// As [`Program::run`], for one row.
unsafe fn run_row(
    row: &[(usize, u8)],
    mode: Mode,
    source: &impl Fn(usize) -> *const u8,
    output: *mut u8,
    len: usize,
) {
    if mode == Mode::Apply {
        // SAFETY: the output is valid for `len` bytes.
        unsafe { output.write_bytes(0, len) };
    }
    // SAFETY: the output is valid, initialised (just now, or by the caller's promise), and overlaps nothing else.
    let output = unsafe { std::slice::from_raw_parts_mut(output, len) };
    for &(s, coefficient) in row {
        // SAFETY: the source is valid for reads of `len` bytes and does not overlap the output.
        portable::multiply_add(coefficient, unsafe { std::slice::from_raw_parts(source(s), len) }, output);
    }
}
