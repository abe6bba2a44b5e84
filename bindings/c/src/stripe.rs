//! A stripe of C: a pointer for each column. It is checked here, once, and turned into the buffers
//! of cells that the facade works on.
//!
//! Invariants: a slice is made only of a column whose pointer is not NULL and whose length fits in
//! memory, and only if the call reads or writes it. It is exclusive only if the call writes it; it
//! overlaps no other column then (`check_apart`).

use crate::answer::{Answer, Fault, PantileStatus, list};
use pantile::{Buffer, BufferList, CellIndex, Code};
use smallvec::SmallVec;
use std::cell::Cell;
use std::ffi::c_void;
use std::ops::Range;

/// Columns by number: no code has more than 258. Filled in place, as a list that is moved takes
/// its room along.
pub(crate) type Columns = SmallVec<[usize; 512]>;

/// The access of a call to a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// None; the pointer is not read.
    None,
    Read,
    Write,
}

/// The columns of a stripe of a code.
#[derive(Clone, Copy)]
pub(crate) struct Stripe<'s> {
    code: &'s Code,
    columns: &'s [*mut u8],
    element: usize,
}

/// Memory that is read or written.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    start: usize,
    len: usize,
    is_written: bool,
    /// The column; `None` for what is passed beside them.
    column: Option<u32>,
}

impl Span {
    /// Of a list that is read.
    pub(crate) fn of<T>(list: &[T]) -> Span {
        Span::beside(list.as_ptr().cast(), size_of_val(list), false)
    }

    /// Of memory beside the columns.
    pub(crate) fn beside(bytes: *const c_void, len: usize, is_written: bool) -> Span {
        Span { start: bytes.addr(), len, is_written, column: None }
    }
}

impl<'s> Stripe<'s> {
    /// Errors: another number of columns than the code has; elements of no byte, or of more than
    /// fit in memory.
    ///
    /// # Safety
    ///
    /// `columns` is NULL or valid for reads of its length in pointers as long as the stripe lasts.
    pub(crate) unsafe fn new(
        code: &'s Code,
        columns: *const *mut c_void,
        count: usize,
        element: usize,
    ) -> Result<Stripe<'s>, Fault> {
        check_count(code, count)?;
        check_element(code, element)?;
        // SAFETY: the caller's promise.
        let columns = unsafe { list(columns.cast::<*mut u8>(), count, "columns") }?;
        Ok(Stripe { code, columns, element })
    }

    pub(crate) fn element(&self) -> usize {
        self.element
    }

    pub(crate) fn is_there(&self, column: usize) -> bool {
        !self.columns[column].is_null()
    }

    /// The columns that are NULL.
    pub(crate) fn absent(&self) -> impl Iterator<Item = usize> {
        (0..self.columns.len()).filter(|&column| !self.is_there(column))
    }

    /// Refuses a column that is NULL, or does not fit in memory from where it begins, or overlaps
    /// something where one of both is written: another column, what is `beside` them, or the list
    /// of the columns itself, which is read as long as the call lasts.
    ///
    /// Most columns stand one behind the other, upwards or downwards, with nothing else among them.
    /// Only others are compared.
    #[inline]
    pub(crate) fn check(&self, access: impl Fn(usize) -> Access, beside: &[Span]) -> Answer {
        let (mut low, mut high, mut in_order) = (usize::MAX, 0, true);
        for (column, pointer) in self.columns.iter().enumerate() {
            if access(column) == Access::None {
                continue;
            }
            let (start, len) = (pointer.addr(), self.code.rows(column) * self.element);
            let end = start.wrapping_add(len);
            in_order &= start != 0 && end >= start && (start >= high || end <= low);
            (low, high) = (low.min(start), high.max(end));
        }
        let is_outside = |span: &Span| {
            span.start >= high || span.start.checked_add(span.len).is_some_and(|end| end <= low)
        };
        if in_order && is_outside(&Span::of(self.columns)) && beside.iter().all(is_outside) {
            return Ok(());
        }
        self.check_all(access, beside)
    }

    /// Checks columns in any order.
    #[inline(never)]
    fn check_all(&self, access: impl Fn(usize) -> Access, beside: &[Span]) -> Answer {
        // Filled in place: moving it costs more than all other checks.
        let mut spans = SmallVec::<[Span; 512]>::new();
        for (column, pointer) in self.columns.iter().enumerate() {
            let is_written = match access(column) {
                Access::None => continue,
                access => access == Access::Write,
            };
            if pointer.is_null() {
                return Err(Fault::new(
                    PantileStatus::NullPointer,
                    format!("column {column} is NULL, and it is needed; pass its buffer"),
                ));
            }
            let len = self.code.rows(column) * self.element;
            spans.push(Span { start: pointer.addr(), len, is_written, column: Some(column as u32) });
        }
        spans.extend_from_slice(beside);
        spans.push(Span::of(self.columns));
        check_apart(&mut spans)
    }

    /// A part of a cell of a column, from `within` of the element.
    fn pointer(&self, column: usize, row: usize, from: usize) -> *mut u8 {
        self.columns[column].wrapping_add(row * self.element + from)
    }

    /// A part of a cell, to be read.
    ///
    /// # Safety
    ///
    /// `check` accepted the column as read or written; the caller of C keeps the columns valid, as
    /// the header requires; nothing writes to it while it is borrowed.
    pub(crate) unsafe fn read(&self, column: usize, row: usize, within: &Range<usize>) -> &'s [u8] {
        // SAFETY: the caller's promise: rows x element bytes, of which this is a part.
        unsafe { std::slice::from_raw_parts(self.pointer(column, row, within.start), within.len()) }
    }

    /// A part of a cell, to be written.
    ///
    /// # Safety
    ///
    /// `check` accepted the column as written, so it overlaps nothing; this part of it is borrowed
    /// once only; the caller of C keeps the columns valid, as the header requires.
    pub(crate) unsafe fn write(&self, column: usize, row: usize, within: &Range<usize>) -> &'s mut [u8] {
        // SAFETY: the caller's promise: rows x element bytes, of which this is a part.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(column, row, within.start), within.len()) }
    }

    /// Calls for every cell with its column and row, ascending.
    #[inline]
    fn for_each_cell(&self, mut call: impl FnMut(CellIndex, usize, usize)) {
        if self.code.rows_max() == 1 && self.code.cell_count() == self.columns.len() {
            (0..self.columns.len()).for_each(|column| call(CellIndex(column as u32), column, 0));
            return;
        }
        let mut cell = 0;
        for column in 0..self.columns.len() {
            for row in 0..self.code.rows(column) {
                call(CellIndex(cell), column, row);
                cell += 1;
            }
        }
    }

    /// Every cell with its column and row, ascending.
    pub(crate) fn cells(&self) -> impl Iterator<Item = (CellIndex, usize, usize)> + use<'s> {
        let code = self.code;
        let places =
            (0..self.columns.len()).flat_map(|column| (0..code.rows(column)).map(move |row| (column, row)));
        (0..).map(CellIndex).zip(places).map(|(cell, (column, row))| (cell, column, row))
    }

    /// Runs a program on the cells of a byte range of the elements, some of which have no buffer of
    /// the caller. `give` returns the kind of each cell, and `run` gets the buffers.
    ///
    /// Where some are not given and are written all the same (`may_be_aside`), these go to memory
    /// of the thread, of which a MiB is kept: the range is then done in tiles.
    #[inline]
    pub(crate) fn run(
        &self,
        within: Range<usize>,
        may_be_aside: bool,
        give: impl Fn(CellIndex, usize) -> Given,
        mut run: impl FnMut(&mut [Buffer<'_>], Range<usize>) -> Answer,
    ) -> Answer {
        let mut aside = 0;
        if may_be_aside {
            self.for_each_cell(|cell, column, _| aside += usize::from(give(cell, column) == Given::Aside));
        }
        let tile = match aside {
            0 => within.len(),
            some => (SCRATCH_BYTES / some).clamp(TILE_BYTES_LEAST, within.len().max(TILE_BYTES_LEAST)),
        };
        let mut kept = KEPT.try_with(Cell::take).unwrap_or_default();
        let needed = aside * tile.min(within.len());
        if kept.scratch.len() < needed {
            kept.scratch.resize(needed, 0);
        }
        let mut answer = Ok(());
        let mut start = within.start;
        while start < within.end && answer.is_ok() {
            let part = start..within.end.min(start.saturating_add(tile));
            let mut scratch = kept.scratch.chunks_exact_mut(part.len());
            answer = kept.buffers.with(|buffers| {
                buffers.reserve(self.code.cell_count());
                self.for_each_cell(|cell, column, row| {
                    buffers.push(match give(cell, column) {
                        Given::Nothing => Buffer::Absent,
                        // SAFETY: `check` accepted the column for this use.
                        Given::Read => Buffer::Read(unsafe { self.read(column, row, &part) }),
                        // SAFETY: as above; each cell comes once.
                        Given::Write => Buffer::Write(unsafe { self.write(column, row, &part) }),
                        Given::Aside => match scratch.next() {
                            Some(scratch) => Buffer::Write(scratch),
                            None => unreachable!("there is a tile of scratch for each"),
                        },
                    });
                });
                run(buffers, part.clone())
            });
            start = part.end;
        }
        // A thread that is ending keeps nothing.
        let _ = KEPT.try_with(|cell| cell.set(kept));
        answer
    }
}

/// The buffer of a cell in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    Nothing,
    Read,
    Write,
    /// Memory of the thread.
    Aside,
}

/// Memory that a thread keeps between calls, so that they allocate nothing.
#[derive(Default)]
struct Kept {
    buffers: BufferList,
    scratch: Vec<u8>,
}

thread_local! {
    static KEPT: Cell<Kept> = const { Cell::new(Kept { buffers: BufferList::new(), scratch: Vec::new() }) };
}

/// Bytes that a thread keeps for cells without a buffer of the caller, unless there are so many
/// that each would have less than [`TILE_BYTES_LEAST`].
const SCRATCH_BYTES: usize = 1 << 20;

/// Less is slow.
const TILE_BYTES_LEAST: usize = 4096;

/// Refuses memory that is written and overlaps other memory. No allocation, sorts in place.
fn check_apart(spans: &mut [Span]) -> Answer {
    spans.sort_unstable_by_key(|span| span.start);
    // The ends of the spans passed so far: of all, and of those written.
    let (mut all, mut written): (Option<Span>, Option<Span>) = (None, None);
    for span in spans.iter().filter(|span| span.len > 0) {
        let Some(end) = span.start.checked_add(span.len) else {
            return Err(Fault::bad_argument(format!(
                "{} of {} bytes ends beyond the address space; pass its length",
                name(span),
                span.len
            )));
        };
        let before = if span.is_written { all } else { written };
        if let Some(before) = before
            && before.start + before.len > span.start
        {
            return Err(Fault::new(
                PantileStatus::Overlap,
                format!(
                    "{} and {} overlap; what is written needs memory of its own",
                    name(&before),
                    name(span)
                ),
            ));
        }
        let reaches = |most: &Option<Span>| most.is_none_or(|most| most.start + most.len < end);
        if reaches(&all) {
            all = Some(*span);
        }
        if span.is_written && reaches(&written) {
            written = Some(*span);
        }
    }
    Ok(())
}

fn name(span: &Span) -> String {
    span.column.map_or("the memory beside the columns".to_string(), |column| format!("column {column}"))
}

pub(crate) fn check_count(code: &Code, count: usize) -> Answer {
    let need = code.columns();
    match count == need {
        true => Ok(()),
        false => Err(Fault::bad_argument(format!(
            "the code has {need} columns, {count} pointers were given; give one per column"
        ))),
    }
}

pub(crate) fn check_element(code: &Code, element: usize) -> Answer {
    if element == 0 {
        return Err(Fault::bad_argument("elements of 0 bytes; give at least 1"));
    }
    let most = isize::MAX as usize / code.cell_count();
    match element <= most {
        true => Ok(()),
        false => Err(Fault::bad_argument(format!(
            "elements of {element} bytes do not fit in memory; give at most {most}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apart(spans: &[(usize, usize, bool)]) -> Result<(), PantileStatus> {
        let mut spans: Vec<Span> = spans
            .iter()
            .enumerate()
            .map(|(i, &(start, len, is_written))| Span { start, len, is_written, column: Some(i as u32) })
            .collect();
        check_apart(&mut spans).map_err(|fault| fault.status)
    }

    #[test]
    fn only_what_is_written_must_be_apart() {
        let overlap = Err(PantileStatus::Overlap);
        assert_eq!(apart(&[]), Ok(()));
        assert_eq!(apart(&[(0, 10, true), (10, 10, true), (20, 1, false)]), Ok(()));
        assert_eq!(apart(&[(0, 10, true), (9, 10, false)]), overlap);
        assert_eq!(apart(&[(9, 10, true), (0, 10, false)]), overlap);
        assert_eq!(apart(&[(0, 10, false), (5, 10, false), (0, 10, false)]), Ok(()));
        assert_eq!(apart(&[(0, 100, false), (5, 10, false), (50, 1, true)]), overlap, "behind a short one");
        assert_eq!(apart(&[(0, 100, true), (5, 10, false)]), overlap);
        assert_eq!(apart(&[(0, 100, false), (100, 10, true), (20, 90, false)]), overlap);
        assert_eq!(apart(&[(7, 0, true), (0, 10, true)]), Ok(()), "no byte");
        assert_eq!(apart(&[(usize::MAX - 3, 5, false)]), Err(PantileStatus::BadArgument));
    }
}
