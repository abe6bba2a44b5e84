//! Memory that a run needs and no caller should give: one piece per thread, kept between runs.

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
/// when this thread has not needed so much before.
pub(crate) fn with_scratch(places: usize, bytes: usize, use_it: impl FnOnce(&mut [*mut u8], &mut [Line])) {
    // Taken out while in use, so that the cell is not borrowed; if the thread is ending, a fresh
    // one is used.
    let mut scratch = SCRATCH.try_with(Cell::take).unwrap_or_default();
    let lines = bytes.div_ceil(size_of::<Line>());
    if scratch.table.len() < places {
        scratch.table.resize(places, std::ptr::null_mut());
    }
    if scratch.lines.len() < lines {
        scratch.lines.resize(lines, Line([0; 64]));
    }
    use_it(&mut scratch.table[..places], &mut scratch.lines[..lines]);
    // A thread that is ending keeps nothing.
    let _ = SCRATCH.try_with(|cell| cell.set(scratch));
}
