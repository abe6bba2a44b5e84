//! Sums one after the other, in a loop over small slices of all buffers: the form in which XORs run
//! until they have machine code.
//!
//! Each sum is a *row*: a list of sources and one target. A common part of several sums (EVENODD's
//! adjuster) is a separate sum in a slot. If a row adds the sum of the row before, that sum is
//! still in registers.
//!
//! Invariants: all rows are computed for one slice of the buffers, of [`SLICE_BYTES_MOST`] at most,
//! before the next slice; a slot is written before it is read; every target is stored once per
//! slice.

use crate::sum_graph::SumGraph;
use crate::sums::{NONE, SharedSums};

/// The most bytes of a slice: eight vectors of the engine with the shortest ones, four of that with
/// the longest.
pub(crate) const SLICE_BYTES_MOST: usize = 256;

/// A vector loop over rows, for `visits` slices of its width. Afterwards the table points to the
/// bytes after these slices.
///
/// # Safety
///
/// The machine has the instructions. The table has the places of the rows. Buffers are valid for
/// reads and writes of all slices and apart from one another, slots for those of one slice; goals
/// that are not read again are aligned to a vector if the loop streams.
pub(crate) type RowLoop = unsafe fn(&XorRows, &mut [*mut u8], usize);

/// Compiled sums. Places are indices in a table of pointers: the buffers in use, then the slots.
#[derive(Debug, Default)]
pub(crate) struct XorRows {
    rows: Vec<Row>,
    /// The sources of the rows, one row after the other.
    words: Vec<u32>,
    /// The buffers in use, ascending; they are the first places of the table.
    buffers: Vec<usize>,
    slots: usize,
}

/// A row: one sum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// The number of its sources in `words`.
    pub(crate) sources: u32,
    /// True if the sum of the row before is added: it is still in registers.
    pub(crate) carries: bool,
    pub(crate) to: Goal,
}

/// The destination of a sum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    /// A buffer or a slot.
    pub(crate) place: u32,
    /// True if the place is not read again, so that it may be stored past the cache.
    pub(crate) is_last: bool,
}

impl XorRows {
    /// Compiles one row for each sum.
    pub(crate) fn new(shared: &SharedSums) -> XorRows {
        let mut graph = SumGraph::new(shared);
        let mut made = XorRows { buffers: shared.buffers().to_vec(), ..XorRows::default() };
        let mut last_out = NONE;
        for (sum, of) in shared.sums().iter().enumerate() {
            let first = made.words.len();
            let mut carries = false;
            for &term in &of.terms {
                match graph.made_by[term as usize] {
                    Some(_) if term == last_out => carries = true,
                    Some(by) => made.words.push(graph.result(by)),
                    None => made.words.push(term),
                }
            }
            let is_last = of.out < graph.buffers && graph.users(of.out).is_empty();
            let to = Goal { place: graph.result(sum), is_last };
            made.rows.push(Row { sources: (made.words.len() - first) as u32, carries, to });
            last_out = of.out;
        }
        made.slots = graph.slots as usize;
        made
    }

    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    pub(crate) fn words(&self) -> &[u32] {
        &self.words
    }

    /// The buffers in use, ascending.
    pub(crate) fn buffers(&self) -> &[usize] {
        &self.buffers
    }

    /// Returns the number of slots, of [`SLICE_BYTES_MOST`] bytes each, that a run needs.
    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    /// The goals that are buffers and may be stored past the cache.
    pub(crate) fn last_goals(&self) -> impl Iterator<Item = u32> + '_ {
        self.rows.iter().map(|row| row.to).filter(|goal| goal.is_last).map(|goal| goal.place)
    }
}

/// Runs the rows on `len` bytes at the places of the table, one byte at a time: for the bytes after
/// the last whole vector.
///
/// # Safety
///
/// Every place is valid for `len <= SLICE_BYTES_MOST` bytes, and places overlap nothing.
pub(crate) unsafe fn run_bytes(program: &XorRows, table: &[*mut u8], len: usize) {
    for i in 0..len {
        let mut words = program.words.iter();
        let mut sum = 0;
        for row in &program.rows {
            sum = if row.carries { sum } else { 0 };
            // SAFETY: i < len at every place.
            words
                .by_ref()
                .take(row.sources as usize)
                .for_each(|&place| sum ^= unsafe { table[place as usize].add(i).read() });
            // SAFETY: as above.
            unsafe { table[row.to.place as usize].add(i).write(sum) };
        }
    }
}

#[cfg(test)]
mod tests {
    //! Tests of the rows themselves, run one byte at a time, so that every machine and Miri can run
    //! them.

    use super::*;
    use crate::sum_graph::tests::{contents, steps};

    fn check(steps: &[(usize, Vec<usize>)]) {
        let program = XorRows::new(&SharedSums::new(steps));
        let (mut have, wanted) = contents(steps);
        let mut slots = vec![[0u8; 3]; program.slots()];
        let cells = have.as_mut_ptr();
        // SAFETY: each pointer is to a buffer of its own.
        let mut table: Vec<*mut u8> =
            program.buffers().iter().map(|&i| unsafe { cells.add(i).cast() }).collect();
        table.extend(slots.iter_mut().map(|slot| slot.as_mut_ptr()));
        // SAFETY: the table has the places of the rows, each of 3 bytes and apart from the others.
        unsafe { run_bytes(&program, &table, 3) };
        assert_eq!(have, wanted);
    }

    #[test]
    fn rows_give_the_sums() {
        for (rows, columns) in [(1, 2), (3, 4), (4, 7), (5, 16), (3, 31)] {
            for chain in [false, true] {
                check(&steps(rows, columns, chain));
            }
        }
    }

    #[test]
    fn common_parts_of_sums_are_computed_once() {
        let steps = [(5, vec![0, 1, 2, 3]), (6, vec![0, 1, 2, 4]), (7, vec![0, 1, 2])];
        let program = XorRows::new(&SharedSums::new(&steps));
        // 0 + 1 + 2 goes into a slot. The next row adds it from registers; two more rows read it.
        assert_eq!((program.rows().len(), program.words().len()), (4, 3 + 1 + 2 + 1));
        assert!(program.rows()[1].carries);
    }
}
