//! Scratch memory of a run, which callers do not provide: one piece per thread, kept between runs.

use std::cell::Cell;

/// A cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [u8; 64]);

#[derive(Default)]
struct Scratch {
    table: Vec<*mut u8>,
    lines: Vec<Line>,
}

thread_local! {
    static SCRATCH: Cell<Scratch> = const { Cell::new(Scratch { table: Vec::new(), lines: Vec::new() }) };
}

/// Calls `use_it` with `places` pointers and `bytes` bytes, both of unknown content. Allocates only
/// if this thread has not needed as much before.
pub(crate) fn with_scratch(places: usize, bytes: usize, use_it: impl FnOnce(&mut [*mut u8], &mut [Line])) {
    // The scratch is taken out of the cell while in use, so that the cell is not borrowed. If the
    // thread is ending, a new one is used.
    let mut scratch = SCRATCH.try_with(Cell::take).unwrap_or_default();
    let lines = bytes.div_ceil(size_of::<Line>());
    if scratch.table.len() < places {
        scratch.table.resize(places, std::ptr::null_mut());
    }
    if scratch.lines.len() < lines {
        scratch.lines.resize(lines, Line([0; 64]));
    }
    use_it(&mut scratch.table[..places], &mut scratch.lines[..lines]);
    // While the thread ends, the scratch is dropped.
    let _ = SCRATCH.try_with(|cell| cell.set(scratch));
}
