//! Coefficients compiled for the machine, found again by content: the one module that calls the
//! kernels.
//!
//! Each thread keeps the matrices that it used last, so nothing is locked, shared or inherited
//! half-made by a child process. Bounds for each thread: [`KEPT_MOST`] matrices and
//! [`KEPT_BYTES_MOST`] bytes of their tables, except that the last one is kept at any size.

use std::cell::RefCell;
use std::rc::Rc;

use pantile_kernel::Dot;
use smallvec::SmallVec;

use crate::{refuse, tables};

/// More patterns of losses than a program is busy with at a time; searching them takes less than
/// compiling one.
const KEPT_MOST: usize = 32;

/// A table of 255 times 128 coefficients, or all of many small ones.
const KEPT_BYTES_MOST: usize = 1 << 20;

/// Where a matrix comes from. Equal origins of equal shapes are equal matrices.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Origin<'a> {
    /// A table in a form that `tables.rs` knows, row by row.
    Table(&'a [u8]),
    /// The coefficients themselves, row by row.
    Coefficients(&'a [u8]),
    /// One row of ones.
    Xor,
    /// A row of ones, and one of the powers of 2.
    Pq,
}

/// A matrix, outputs x sources.
#[derive(Clone, Copy)]
pub struct Matrix<'a> {
    /// The function of ISA-L that it is for, to be named when something is wrong.
    pub call: &'static str,
    pub sources: usize,
    pub outputs: usize,
    pub origin: Origin<'a>,
}

struct Kept {
    sources: usize,
    outputs: usize,
    /// Which of the origins.
    kind: std::mem::Discriminant<Origin<'static>>,
    content: Box<[u8]>,
    dot: Rc<Dot>,
}

thread_local! {
    /// Used last first.
    static KEPT: RefCell<Vec<Kept>> = const { RefCell::new(Vec::new()) };
}

impl Origin<'_> {
    fn content(&self) -> &[u8] {
        match *self {
            Origin::Table(content) | Origin::Coefficients(content) => content,
            Origin::Xor | Origin::Pq => &[],
        }
    }

    fn kind(&self) -> std::mem::Discriminant<Origin<'static>> {
        std::mem::discriminant(&match self {
            Origin::Table(_) => Origin::Table(&[]),
            Origin::Coefficients(_) => Origin::Coefficients(&[]),
            Origin::Xor => Origin::Xor,
            Origin::Pq => Origin::Pq,
        })
    }
}

impl Matrix<'_> {
    fn dot(&self) -> Rc<Dot> {
        // A thread that is ending keeps nothing.
        KEPT.try_with(|kept| self.find(&mut kept.borrow_mut())).unwrap_or_else(|_| Rc::new(self.compile()))
    }

    fn find(&self, kept: &mut Vec<Kept>) -> Rc<Dot> {
        let (kind, content) = (self.origin.kind(), self.origin.content());
        let is_it = |kept: &Kept| {
            (kept.sources, kept.outputs) == (self.sources, self.outputs)
                && kept.kind == kind
                && *kept.content == *content
        };
        match kept.iter().position(is_it) {
            Some(0) => {}
            Some(at) => kept[..=at].rotate_right(1),
            None => {
                let dot = Rc::new(self.compile());
                let (sources, outputs) = (self.sources, self.outputs);
                kept.insert(0, Kept { sources, outputs, kind, content: content.into(), dot });
                let bytes = |kept: &[Kept]| kept.iter().map(|kept| kept.content.len()).sum::<usize>();
                while kept.len() > 1 && (kept.len() > KEPT_MOST || bytes(kept) > KEPT_BYTES_MOST) {
                    kept.pop();
                }
            }
        }
        kept[0].dot.clone()
    }

    fn compile(&self) -> Dot {
        let coefficients = match self.origin {
            Origin::Table(table) => tables::coefficients_for(self.call, table),
            Origin::Coefficients(coefficients) => coefficients.to_vec(),
            Origin::Xor => vec![1; self.sources],
            Origin::Pq => {
                let powers = (0..self.sources).map(|source| pantile_gf::ALPHA.pow(source as u64).0);
                std::iter::repeat_n(1, self.sources).chain(powers).collect()
            }
        };
        let row = |row: usize| {
            let row = &coefficients[row * self.sources..][..self.sources];
            row.iter().copied().enumerate().collect()
        };
        let rows: Vec<Vec<(usize, u8)>> = (0..self.outputs).map(row).collect();
        Dot::new(self.sources, &rows).expect("no row is longer than there are sources")
    }

    /// Every output is what the matrix makes of the sources.
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
        self.refuse_null(sources, outputs);
        let dot = self.dot();
        if are_apart(sources, outputs, len) {
            // SAFETY: not null, and apart.
            return unsafe { dot.apply_raw(sources, outputs, len) };
        }
        let mut results = vec![0; outputs.len() * len];
        let made: Vec<*mut u8> = results.chunks_exact_mut(len).map(<[u8]>::as_mut_ptr).collect();
        // SAFETY: results are new memory, apart from sources and from one another.
        unsafe { dot.apply_raw(sources, &made, len) };
        for (result, &output) in results.chunks_exact(len).zip(outputs) {
            // SAFETY: valid for writes, and results are apart from all outputs.
            unsafe { output.copy_from_nonoverlapping(result.as_ptr(), len) };
        }
    }

    /// What the matrix makes of the one source is added to the outputs.
    ///
    /// Overlaps are as in [`Matrix::apply`].
    ///
    /// # Safety
    ///
    /// The source is null or valid for reads, outputs for reads and writes, of `len` bytes.
    pub unsafe fn accumulate(&self, source: *const u8, outputs: &[*mut u8], len: usize) {
        if len == 0 {
            return;
        }
        self.refuse_null(&[source], outputs);
        if are_apart(&[source], outputs, len) {
            // SAFETY: valid, and apart from every output.
            let source = unsafe { std::slice::from_raw_parts(source, len) };
            // SAFETY: each output is valid and apart from the source and the others.
            let slices = outputs.iter().map(|&output| unsafe { std::slice::from_raw_parts_mut(output, len) });
            let mut slices: SmallVec<[&mut [u8]; 32]> = slices.collect();
            return self.dot().accumulate(&[source], &mut slices).expect("the matrix has this shape");
        }
        let mut products = vec![0; outputs.len() * len];
        let made: Vec<*mut u8> = products.chunks_exact_mut(len).map(<[u8]>::as_mut_ptr).collect();
        // SAFETY: products are new memory.
        unsafe { self.dot().apply_raw(&[source], &made, len) };
        for (product, &output) in products.chunks_exact(len).zip(outputs) {
            // SAFETY: valid, and looked at by nobody else until the next output.
            let output = unsafe { std::slice::from_raw_parts_mut(output, len) };
            pantile_kernel::xor_into(output, product);
        }
    }

    fn refuse_null(&self, sources: &[*const u8], outputs: &[*mut u8]) {
        let null = |what, number| {
            refuse::abort(format_args!("{}: {what} {number} is a null pointer; give a buffer", self.call))
        };
        if let Some(number) = sources.iter().position(|source| source.is_null()) {
            null("source", number);
        }
        if let Some(number) = outputs.iter().position(|output| output.is_null()) {
            null("output", number);
        }
    }
}

/// The first byte at or after `from` that is not zero.
pub fn first_nonzero(bytes: &[u8]) -> Option<usize> {
    pantile_kernel::first_nonzero(bytes, 0)
}

/// True if no output shares bytes with a source or with another output.
fn are_apart(sources: &[*const u8], outputs: &[*mut u8], len: usize) -> bool {
    outputs.iter().enumerate().all(|(number, output)| {
        let far = |other: usize| other.abs_diff(output.addr()) >= len;
        let sources_are = sources.iter().fold(true, |all, source| all & far(source.addr()));
        sources_are && outputs[..number].iter().all(|other| far(other.addr()))
    })
}
