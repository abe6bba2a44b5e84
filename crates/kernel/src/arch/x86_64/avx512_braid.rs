//! The code of [`crate::braid`]: AVX-512, assembled for each program when it is compiled.
//!
//! Held sum j lies in `zmm(2j)` and `zmm(2j + 1)`; `zmm28` to `zmm31` are the swept sum and what is read, and later sums of rows in
//! turn. Where what is, is known while the code is made: cells that are empty have none, a column or a row starts with its first load,
//! a sum that a register still holds is not loaded again, and rows that are finished late wait in registers that no column needs
//! before they wait in slots.
//!
//! Where the system forbids to execute memory that was written (SELinux without `execmem`, `MemoryDenyWriteExecute` of systemd),
//! there is no code, and the grids of a [`crate::weave`] do the work.

use super::assembler::{Assembler, Executable, Pair, TILE_SLICES};
use crate::braid::{Braid, Place, Row, SLICE_BYTES, Target, Unfinished};
use crate::scratch::with_scratch;

/// The pairs that no column has.
const ROW: Pair = 28;
const READ: Pair = 30;

/// The alignment that stores past the cache need.
const LINE_BYTES: usize = 64;

/// A braid as functions of its own, one that stores to the cache and one that stores past it.
#[derive(Debug)]
pub(crate) struct Code {
    functions: Executable,
    /// The buffers whose pointers they take.
    buffers: Vec<usize>,
    /// Buffers that are fetched ahead, for a tile.
    ahead: Vec<usize>,
    /// Buffers that may be stored past the cache.
    last: Vec<usize>,
    slots: usize,
}

impl Code {
    /// `None` if the system gives no memory that may be executed. The machine must have AVX-512 F.
    pub(crate) fn new(braid: &Braid) -> Option<Code> {
        let last = braid.last();
        let read: Vec<usize> = (0..braid.buffers.len()).filter(|buffer| !last.contains(buffer)).collect();
        let of_row = read.len().div_ceil(TILE_SLICES * braid.rows().count().max(1));
        // What is left of the list names the last one again.
        let len = TILE_SLICES * braid.rows().count() * of_row;
        let ahead = (0..len).map(|i| braid.buffers[read[i.min(read.len() - 1)]]).collect();
        let number = |&buffer: &usize| braid.buffers[buffer];
        Some(Code {
            functions: Executable::new(&assemble(braid, None), &assemble(braid, Some(of_row)))?,
            buffers: braid.buffers.clone(),
            ahead,
            last: last.iter().map(number).collect(),
            slots: braid.slots,
        })
    }

    /// Carries out the braid on `len` bytes of every buffer. The last slice may begin within the one before it: what it does again comes
    /// out the same, because whatever a slice makes it makes before it reads it.
    ///
    /// # Safety
    ///
    /// The machine has AVX-512 F. `buffer(i)` is valid for reads and writes of `len` bytes, a slice at least, and apart from the
    /// others, for every buffer of the braid.
    pub(crate) unsafe fn run(&self, streaming: bool, buffer: impl Fn(usize) -> *mut u8, len: usize) {
        assert!(len >= SLICE_BYTES, "whoever runs a braid looks whether there is a slice");
        let streaming = streaming && self.last.iter().all(|&i| buffer(i).addr().is_multiple_of(LINE_BYTES));
        let ahead = if streaming { &self.ahead[..] } else { &[] };
        with_scratch(self.buffers.len() + ahead.len(), self.slots * SLICE_BYTES, |pointers, slots| {
            let named = self.buffers.iter().chain(ahead);
            pointers.iter_mut().zip(named).for_each(|(pointer, &i)| *pointer = buffer(i));
            let (pointers, slots) = (pointers.as_ptr(), slots.as_mut_ptr().cast());
            let function = if streaming { self.functions.second() } else { self.functions.first() };
            let whole = len / SLICE_BYTES * SLICE_BYTES;
            // SAFETY: the caller's promise for the buffers, of which those that are stored past the cache start a line; the slots
            // are ours, and start one. The code touches nothing else but registers that a function may.
            unsafe { function(pointers, 0, whole, slots) };
            if streaming {
                super::fence();
            }
            if whole < len {
                // SAFETY: as above.
                unsafe { self.functions.first()(pointers, len - SLICE_BYTES, len, slots) };
            }
        });
    }
}

fn pair_of(column: usize) -> Pair {
    2 * column as Pair
}

/// The machine code of a braid; one that streams fetches so many buffers ahead in a row.
fn assemble(braid: &Braid, ahead: Option<usize>) -> Vec<u8> {
    let mut code = Assembler::new(ahead.map(|of_row| (braid.buffers.len(), braid.rows().count() * of_row)));
    let store = |code: &mut Assembler, from: Pair, to: Target| match to.is_last && ahead.is_some() {
        true => code.store_past(from, to.place),
        false => code.store(from, to.place),
    };
    // Sums that registers still hold, by where they belong: of columns for good, of rows until their pair is taken again.
    let mut results: Vec<(Place, Pair)> = Vec::new();
    let columns = braid.batches.iter().map(|batch| batch.starts.len()).max().unwrap_or(0);
    let mut free = (columns..).map(pair_of).take_while(|&pair| pair < ROW);
    let mut fetched = 0;
    for batch in &braid.batches {
        let mut held: Vec<bool> = batch.starts.iter().map(Option::is_some).collect();
        for (j, start) in batch.starts.iter().enumerate() {
            start.iter().for_each(|&start| code.load(pair_of(j), start));
        }
        for row in &batch.rows {
            for _ in 0..ahead.unwrap_or(0) {
                code.fetch(fetched);
                fetched += 1;
            }
            sweep(&mut code, row, &mut held);
            row.forwards.iter().for_each(|&j| add_or_copy(&mut code, &mut held[j], pair_of(j), ROW));
            // Batches fill the registers, and read what waits from its slot.
            let waits = braid.batches.len() == 1 && matches!(row.to.place, Place::Slot(_));
            match if waits { free.next() } else { None } {
                Some(pair) => {
                    code.copy(pair, ROW);
                    results.push((row.to.place, pair));
                }
                None => store(&mut code, ROW, row.to),
            }
        }
        (0..held.len()).filter(|&j| !held[j]).map(pair_of).for_each(|pair| code.sum_of(pair, pair, pair));
        batch.to.iter().enumerate().for_each(|(j, &to)| store(&mut code, pair_of(j), to));
    }
    let held_by = |results: &[(Place, Pair)], place| results.iter().find(|r| r.0 == place).map(|r| r.1);
    let (mut before, mut next) = (None, ROW);
    for link in &braid.links {
        let carried = before.filter(|_| link.carries);
        let to = match link.of {
            Unfinished::Column(j) => {
                carried.iter().for_each(|&before| code.sum_of(pair_of(j), pair_of(j), before));
                pair_of(j)
            }
            Unfinished::Waiting(own) => {
                let to = next;
                next = ROW + READ - next;
                results.retain(|&(_, pair)| pair != to);
                match (held_by(&results, own), carried) {
                    (Some(pair), Some(before)) => code.sum_of(to, before, pair),
                    (Some(pair), None) => code.copy(to, pair),
                    (None, carried) => code.sum(to, carried, own),
                }
                to
            }
        };
        for &term in &link.late {
            match held_by(&results, term) {
                Some(pair) => code.sum_of(to, to, pair),
                None => code.sum(to, Some(to), term),
            }
        }
        store(&mut code, to, link.to);
        // A row that nobody outside wants goes back to where it waited.
        results.retain(|&(place, _)| place != link.to.place);
        results.push((link.to.place, to));
        before = Some(to);
    }
    code.finished()
}

/// Leaves the sum of a row in [`ROW`], and adds its cells to their columns. What is read first stays where it is read to.
fn sweep(code: &mut Assembler, row: &Row, held: &mut [bool]) {
    let mut has_sum = false;
    for &term in &row.plain {
        code.sum(ROW, has_sum.then_some(ROW), term);
        has_sum = true;
    }
    for (j, cell) in row.cells.iter().enumerate() {
        let Some(cell) = *cell else { continue };
        let to = match (held[j], has_sum) {
            (false, _) => pair_of(j),
            (true, false) => ROW,
            (true, true) => READ,
        };
        code.load(to, cell);
        if to != ROW {
            add_or_copy(code, &mut has_sum, ROW, to);
        }
        if to != pair_of(j) {
            code.sum_of(pair_of(j), pair_of(j), to);
        }
        (held[j], has_sum) = (true, true);
    }
    if !has_sum {
        code.sum_of(ROW, ROW, ROW);
    }
}

/// Adds to a pair that holds something, or makes it hold the other.
fn add_or_copy(code: &mut Assembler, holds: &mut bool, to: Pair, from: Pair) {
    if *holds {
        code.sum_of(to, to, from)
    } else {
        code.copy(to, from)
    }
    *holds = true;
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::braid::tests::zig_zag;

    #[test]
    fn all_that_is_read_is_in_the_list_of_a_tile() {
        for (n, links) in [(2, 4), (5, 9), (13, 26), (14, 27)] {
            let braid = Braid::new(&zig_zag(n, links)).expect("few enough sums");
            let Some(code) = Code::new(&braid) else {
                return println!("this system gives no code: left out");
            };
            let mut fetched = code.ahead.clone();
            fetched.dedup();
            let last = |buffer: &usize| code.last.contains(buffer);
            let read: Vec<usize> = code.buffers.iter().copied().filter(|buffer| !last(buffer)).collect();
            assert_eq!(fetched, read, "{n}, {links}");
        }
    }
}
