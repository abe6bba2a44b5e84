//! Sums of products for matrices that are found by content: the one module that calls the kernels.
//!
//! A matrix is used as it is the first time, and compiled when it comes again or buffers are large.
//! Each thread keeps what it used last, so nothing is locked, shared or inherited half-made by a
//! child process. Bounds: [`KEPT_MOST`] matrices and [`KEPT_BYTES_MOST`] bytes of their tables for
//! each thread; the last used matrix is kept whatever its size.

use std::cell::RefCell;
use std::rc::Rc;
use std::slice;

use pantile_kernel::{Dot, Grid, Start, are_apart, sum_once};
use smallvec::SmallVec;

use crate::{refuse, tables};

/// The most compiled matrices that a thread keeps: more than the patterns of losses that a program
/// works on at a time.
const KEPT_MOST: usize = 32;

/// The most bytes of tables that a thread keeps: one table of 255 times 128 coefficients, or many
/// small tables.
const KEPT_BYTES_MOST: usize = 1 << 20;

/// Number of matrices that were used once and are remembered by a hash.
const SEEN_MOST: usize = 8;

/// Bytes of all buffers of a call from which on its matrix is compiled at once: the handling of
/// streams from memory in a compiled matrix gains more than compiling costs.
const LARGE_BYTES: usize = 2 << 20;

/// Where a matrix comes from. Equal origins of equal shapes are equal matrices.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Origin<'a> {
    /// A table in a form that `tables.rs` knows, row by row.
    Table(&'a [u8]),
    /// One row of ones.
    Xor,
    /// A row of ones, and one of the powers of 2.
    Pq,
}

/// A matrix, outputs x sources.
#[derive(Clone, Copy)]
pub struct Matrix<'a> {
    /// The called function of ISA-L, for messages.
    pub call: &'static str,
    pub sources: usize,
    pub outputs: usize,
    pub origin: Origin<'a>,
}

/// A compiled matrix that a thread keeps.
struct Kept {
    sources: usize,
    outputs: usize,
    /// The variant of its [`Origin`].
    kind: std::mem::Discriminant<Origin<'static>>,
    content: Box<[u8]>,
    /// The hash of a table of nibbles.
    number: Option<u64>,
    dot: Rc<Dot>,
}

/// The matrices of a thread.
struct Memory {
    /// The compiled matrices, the last used first.
    kept: Vec<Kept>,
    /// Hashes of matrices that were used once, and the index of the one that is replaced next.
    seen: [u64; SEEN_MOST],
    next: usize,
}

thread_local! {
    static MEMORY: RefCell<Memory> =
        const { RefCell::new(Memory { kept: Vec::new(), seen: [0; SEEN_MOST], next: 0 }) };
}

/// A row of ones, and a row of the powers of 2 until they repeat.
static PQ: [[u8; PQ_MOST]; 2] = ones_and_powers();

const PQ_MOST: usize = 255;

const fn ones_and_powers() -> [[u8; PQ_MOST]; 2] {
    let mut rows = [[1; PQ_MOST]; 2];
    let mut source = 1;
    while source < PQ_MOST {
        rows[1][source] = pantile_gf::ALPHA.times(pantile_gf::Gf(rows[1][source - 1])).0;
        source += 1;
    }
    rows
}

impl Origin<'_> {
    fn content(&self) -> &[u8] {
        match *self {
            Origin::Table(content) => content,
            Origin::Xor | Origin::Pq => &[],
        }
    }

    fn kind(&self) -> std::mem::Discriminant<Origin<'static>> {
        std::mem::discriminant(&match self {
            Origin::Table(_) => Origin::Table(&[]),
            Origin::Xor => Origin::Xor,
            Origin::Pq => Origin::Pq,
        })
    }
}

impl<'a> Matrix<'a> {
    /// Returns the coefficients in place, if they are at equal distances, as in a table of nibbles.
    fn grid(&self) -> Option<Grid<'a>> {
        match self.origin {
            Origin::Table(table) => {
                let (output_step, source_step) = (tables::SLOT_BYTES * self.sources, tables::SLOT_BYTES);
                Some(Grid { bytes: table.get(1..)?, output_step, source_step })
            }
            Origin::Xor => Some(Grid { bytes: &[1], output_step: 0, source_step: 0 }),
            Origin::Pq if self.sources <= PQ_MOST => {
                Some(Grid { bytes: PQ.as_flattened(), output_step: PQ_MOST, source_step: 1 })
            }
            Origin::Pq => None,
        }
    }

    /// Returns true if a kept matrix is this one.
    fn is(&self, kept: &Kept) -> bool {
        (kept.sources, kept.outputs) == (self.sources, self.outputs)
            && kept.kind == self.origin.kind()
            && *kept.content == *self.origin.content()
    }

    /// Computes every output.
    ///
    /// # Safety
    ///
    /// As [`sum_once`].
    unsafe fn sum(&self, sources: &[*const u8], outputs: &[*mut u8], len: usize) {
        let bytes = len.saturating_mul(self.sources + self.outputs);
        // An origin without content is found at once, and small sums gain nothing if they are
        // compiled.
        if self.origin.content().is_empty()
            && bytes < LARGE_BYTES
            && let Some(grid) = self.grid()
        {
            // SAFETY: the caller's promise.
            return unsafe { sum_once(grid, Start::Zero, sources, outputs, len) };
        }
        // A thread that ends has nothing to keep it in.
        let found = MEMORY.try_with(|memory| self.find(&mut memory.borrow_mut(), bytes));
        match found.unwrap_or_else(|_| Err(self.compile())) {
            // SAFETY: the caller's promise.
            Ok(grid) => unsafe { sum_once(grid, Start::Zero, sources, outputs, len) },
            // SAFETY: as above.
            Err(dot) => unsafe { dot.apply_raw(sources, outputs, len) },
        }
    }

    /// Returns the matrix as it is, or compiled.
    fn find(&self, memory: &mut Memory, bytes: usize) -> Result<Grid<'a>, Rc<Dot>> {
        if let Some(first) = memory.kept.first()
            && self.is(first)
        {
            return Err(first.dot.clone());
        }
        let number = tables::number_of_nibbles(self.origin.content());
        if let Some(at) = memory.kept.iter().position(|kept| kept.number == number && self.is(kept)) {
            memory.kept[..=at].rotate_right(1);
            return Err(memory.kept[0].dot.clone());
        }
        if let Some(number) = number
            && let Some(grid) = self.grid()
            && bytes < LARGE_BYTES
            && !memory.seen.contains(&number)
        {
            memory.seen[memory.next % SEEN_MOST] = number;
            memory.next += 1;
            return Ok(grid);
        }
        let dot = self.compile();
        let (sources, outputs, kind) = (self.sources, self.outputs, self.origin.kind());
        let content = self.origin.content().into();
        memory.kept.insert(0, Kept { sources, outputs, kind, content, number, dot: dot.clone() });
        let filled = |kept: &[Kept]| kept.iter().map(|kept| kept.content.len()).sum::<usize>();
        while memory.kept.len() > 1
            && (memory.kept.len() > KEPT_MOST || filled(&memory.kept) > KEPT_BYTES_MOST)
        {
            memory.kept.pop();
        }
        Err(dot)
    }

    fn compile(&self) -> Rc<Dot> {
        let coefficients = match self.origin {
            Origin::Table(table) => tables::coefficients_for(self.call, table),
            Origin::Xor => vec![1; self.sources],
            Origin::Pq => {
                let powers = (0..self.sources).map(|source| PQ[1][source % PQ_MOST]);
                std::iter::repeat_n(1, self.sources).chain(powers).collect()
            }
        };
        let row = |row: usize| {
            let row = &coefficients[row * self.sources..][..self.sources];
            row.iter().copied().enumerate().collect()
        };
        let rows: Vec<Vec<(usize, u8)>> = (0..self.outputs).map(row).collect();
        Rc::new(Dot::new(self.sources, &rows).expect("no row is longer than there are sources"))
    }

    /// Computes each output as the matrix's sum of products of the sources.
    ///
    /// Outputs may overlap sources and one another: the sources are read as they were, the outputs
    /// written one after the other.
    ///
    /// # Safety
    ///
    /// Sources are null or valid for reads, outputs for writes, of `len` bytes.
    pub unsafe fn apply(&self, sources: &[*const u8], outputs: &[*mut u8], len: usize) {
        if len == 0 {
            return;
        }
        refuse_null(self.call, sources, outputs);
        if are_apart(sources, outputs, len) {
            // SAFETY: not null, and apart.
            return unsafe { self.sum(sources, outputs, len) };
        }
        let mut results = vec![0; outputs.len() * len];
        let made: Vec<*mut u8> = results.chunks_exact_mut(len).map(<[u8]>::as_mut_ptr).collect();
        // SAFETY: results are new memory, apart from sources and from one another.
        unsafe { self.sum(sources, &made, len) };
        for (result, &output) in results.chunks_exact(len).zip(outputs) {
            // SAFETY: valid for writes, and results are apart from all outputs.
            unsafe { output.copy_from_nonoverlapping(result.as_ptr(), len) };
        }
    }

    /// Adds the matrix's sums to the content of `start`, and writes the results to buffers of this
    /// library; for matrices that are no table.
    ///
    /// # Safety
    ///
    /// All buffers are valid for `len` bytes, and outputs are apart from all others.
    pub unsafe fn add_to(&self, start: &[*const u8], sources: &[*const u8], outputs: &[*mut u8], len: usize) {
        match self.grid() {
            // SAFETY: the caller's promise.
            Some(grid) => unsafe { sum_once(grid, Start::Others(start), sources, outputs, len) },
            None => {
                // SAFETY: as above.
                unsafe { self.compile().apply_raw(sources, outputs, len) };
                for (&start, &output) in start.iter().zip(outputs) {
                    // SAFETY: as above, and apart.
                    let (start, output) = unsafe {
                        (slice::from_raw_parts(start, len), slice::from_raw_parts_mut(output, len))
                    };
                    pantile_kernel::xor_into(output, start);
                }
            }
        }
    }
}

/// Adds to each output the product of its coefficient and the one source.
///
/// Overlaps are as in [`Matrix::apply`].
///
/// # Safety
///
/// The source is null or valid for reads, outputs for reads and writes, of `len` bytes.
pub unsafe fn add_product(
    call: &'static str,
    column: Grid<'_>,
    source: *const u8,
    outputs: &[*mut u8],
    len: usize,
) {
    if len == 0 {
        return;
    }
    refuse_null(call, &[source], outputs);
    if are_apart(&[source], outputs, len) {
        // SAFETY: valid and apart, and read before they are written.
        return unsafe { sum_once(column, Start::Outputs, &[source], outputs, len) };
    }
    let mut products = vec![0; outputs.len() * len];
    let made: Vec<*mut u8> = products.chunks_exact_mut(len).map(<[u8]>::as_mut_ptr).collect();
    // SAFETY: products are new memory.
    unsafe { sum_once(column, Start::Zero, &[source], &made, len) };
    for (product, &output) in products.chunks_exact(len).zip(outputs) {
        // SAFETY: valid, and no other code uses it until the next output.
        let output = unsafe { slice::from_raw_parts_mut(output, len) };
        pantile_kernel::xor_into(output, product);
    }
}

/// Writes the coefficient times the source to the destination.
///
/// # Safety
///
/// Both are valid for `len` bytes.
pub unsafe fn multiply(coefficient: u8, source: *const u8, destination: *mut u8, len: usize) {
    let grid = Grid { bytes: &[coefficient], output_step: 0, source_step: 0 };
    if are_apart(&[source], &[destination], len) {
        // SAFETY: the caller's promise, and apart.
        return unsafe { sum_once(grid, Start::Zero, &[source], &[destination], len) };
    }
    let mut product = vec![0; len];
    // SAFETY: the product is new memory, apart from both.
    unsafe {
        sum_once(grid, Start::Zero, &[source], &[product.as_mut_ptr()], len);
        destination.copy_from_nonoverlapping(product.as_ptr(), len);
    }
}

/// Adds to each line of `work`, as long as the line that is given, its own multiple of that line.
pub fn add_multiples(factors: &[u8], line: &[u8], work: &mut [u8]) {
    let grid = Grid { bytes: factors, output_step: 1, source_step: 0 };
    let lines: SmallVec<[*mut u8; 32]> = work.chunks_exact_mut(line.len()).map(<[u8]>::as_mut_ptr).collect();
    // SAFETY: lines of `work` are apart, and the one that is given is borrowed beside them.
    unsafe { sum_once(grid, Start::Outputs, &[line.as_ptr()], &lines, line.len()) }
}

/// Returns the vectors as sources, which are only read.
pub fn as_sources(vectors: &[*mut u8]) -> &[*const u8] {
    // SAFETY: the two pointers have one layout.
    unsafe { slice::from_raw_parts(vectors.as_ptr().cast(), vectors.len()) }
}

fn refuse_null(call: &'static str, sources: &[*const u8], outputs: &[*mut u8]) {
    let null = |what, number| {
        refuse::abort(format_args!("{call}: {what} {number} is a null pointer; give a buffer"))
    };
    if let Some(number) = sources.iter().position(|source| source.is_null()) {
        null("source", number);
    }
    if let Some(number) = outputs.iter().position(|output| output.is_null()) {
        null("output", number);
    }
}

/// Returns the offset of the first byte that is not zero; `None` if all are zero.
pub fn first_nonzero(bytes: &[u8]) -> Option<usize> {
    pantile_kernel::first_nonzero(bytes, 0)
}
