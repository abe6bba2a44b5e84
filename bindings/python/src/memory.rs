//! Memory of Python's objects, by the buffer protocol: borrowed, made, and used without the
//! interpreter's lock.
//!
//! An object that has exported its buffer neither moves nor frees it until the export is released:
//! a `bytearray` refuses to be resized, a `memoryview` to be released. Other code can still write
//! to it. The rules here:
//!
//! * within a call no buffer that is written overlaps another one ([`Borrows::new`]);
//! * between calls of this module, of any threads, the same: a buffer that one call writes is
//!   neither read nor written by another at the same time; the later call is refused
//!   ([`BusyError`]);
//! * other code that writes to a buffer while a call works on it is the caller's to prevent, as
//!   with any library that releases the lock. Lengths and addresses are fixed, so no memory outside
//!   the buffers is touched; the result of the call is then undefined.
#![allow(unsafe_code)]

use crate::error::{BusyError, ShapeError};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};
use std::ops::Range;
use std::sync::Mutex;

/// The exported bytes of an object.
pub struct Bytes {
    buffer: PyUntypedBuffer,
}

impl Bytes {
    /// Returns the bytes of an object, which a refusal calls `what`.
    ///
    /// Errors: it has no buffer (`TypeError`), or one that is not in one piece (`ShapeError`).
    pub fn of(object: &Bound<'_, PyAny>, what: impl Fn() -> String) -> PyResult<Bytes> {
        // A memoryview fills in what some exporters leave out, such as arrays of ctypes.
        let view = || PyUntypedBuffer::get(PyMemoryView::from(object)?.as_any());
        let buffer = PyUntypedBuffer::get(object).or_else(|_| view()).map_err(|error| {
            let (kind, py) = (object.get_type(), object.py());
            let why = match error.is_instance_of::<PyTypeError>(py) {
                true => "which has no buffer".to_string(),
                false => format!("whose buffer is refused: {}", error.value(py)),
            };
            PyTypeError::new_err(format!(
                "{} is {kind}, {why}; give bytes, bytearray, memoryview or a numpy array",
                what()
            ))
        })?;
        if !buffer.is_c_contiguous() {
            return Err(ShapeError::new_err(format!(
                "{} is not contiguous in memory; give a copy in one piece (bytes, numpy.ascontiguousarray)",
                what()
            )));
        }
        Ok(Bytes { buffer })
    }

    /// Refuses bytes that must not be written.
    pub fn check_writable(&self, what: impl Fn() -> String) -> PyResult<()> {
        match self.buffer.readonly() {
            true => Err(ShapeError::new_err(format!(
                "{} is read-only and is to be written; give a bytearray, or a numpy array that is writeable",
                what()
            ))),
            false => Ok(()),
        }
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.buffer.len_bytes()
    }

    fn start(&self) -> *mut u8 {
        // An empty buffer may have no address.
        match self.len() {
            0 => std::ptr::NonNull::dangling().as_ptr(),
            _ => self.buffer.buf_ptr().cast(),
        }
    }

    fn span(&self) -> Range<usize> {
        let start = self.start().addr();
        start..start + self.len()
    }
}

/// The access of a call to one of its buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads it.
    Read,
    /// Writes it.
    Write,
}

/// A stretch of memory that a call works on.
#[derive(Clone, Debug)]
struct Span {
    bytes: Range<usize>,
    access: Access,
    call: u64,
}

/// The stretches of all calls that are under way, and the number of the last one.
///
/// One for the process, as Python's memory is: threads hand the same object to several codecs.
static UNDER_WAY: Mutex<(Vec<Span>, u64)> = Mutex::new((Vec::new(), 0));

/// The buffers of one call, until it is dropped.
pub struct Borrows<'b> {
    call: u64,
    buffers: &'b [(Bytes, Access)],
}

impl<'b> Borrows<'b> {
    /// Borrows all of them, or none.
    ///
    /// Errors: one that is written overlaps another of them (`ValueError`), or is used by a call
    /// that is under way (`BusyError`); as is one that is read and written there.
    /// Cost: the number of buffers times those of calls under way where something is written.
    pub fn new(buffers: &'b [(Bytes, Access)]) -> PyResult<Borrows<'b>> {
        let mut spans: Vec<(Range<usize>, Access)> = buffers
            .iter()
            .map(|(bytes, access)| (bytes.span(), *access))
            .filter(|s| !s.0.is_empty())
            .collect();
        spans.sort_by_key(|(bytes, _)| bytes.start);
        let (mut read_end, mut written_end) = (0, 0);
        for (bytes, access) in &spans {
            if bytes.start < written_end || (*access == Access::Write && bytes.start < read_end) {
                return Err(PyValueError::new_err(
                    "two buffers of one call share memory, and one of them is to be written; give buffers of their own",
                ));
            }
            let end = if *access == Access::Write { &mut written_end } else { &mut read_end };
            *end = bytes.end.max(*end);
        }
        let mut under_way = UNDER_WAY.lock().unwrap_or_else(|e| e.into_inner());
        let (others, last) = &mut *under_way;
        let meets = |(bytes, access): &(Range<usize>, Access)| {
            others.iter().any(|other| {
                (*access == Access::Write || other.access == Access::Write)
                    && bytes.start < other.bytes.end
                    && other.bytes.start < bytes.end
            })
        };
        if spans.iter().any(meets) {
            return Err(BusyError::new_err(
                "a buffer is in use by a call of another thread that writes it, or is to be written while one reads it; \
                 wait for that call, or give a copy",
            ));
        }
        *last += 1;
        let call = *last;
        others.extend(spans.into_iter().map(|(bytes, access)| Span { bytes, access, call }));
        Ok(Borrows { call, buffers })
    }

    /// The bytes of one that is read.
    pub fn read(&self, index: usize) -> &[u8] {
        let (bytes, _) = &self.buffers[index];
        // SAFETY: the export keeps address and length while `bytes` lives, which is longer than
        // self. Nothing that was handed out by `write` is part of it: spans of this call were
        // compared (`write` panics where nothing was to be written), and no other call of this
        // module writes it until self is dropped. Code outside of this module is bound by the page.
        unsafe { std::slice::from_raw_parts(bytes.start(), bytes.len()) }
    }

    /// All buffers as they may be used; those that are written once only, as self is lent.
    pub fn split(&mut self) -> Vec<Lent<'_>> {
        let lend = |(bytes, access): &(Bytes, Access)| match access {
            // SAFETY: as in `read`.
            Access::Read => Lent::Read(unsafe { std::slice::from_raw_parts(bytes.start(), bytes.len()) }),
            // SAFETY: the buffer is not read-only (requests for `Write` check it), and it overlaps
            // no other of this call or of another one under way. Self is lent exclusively, so that
            // neither `read` nor `split` gives it out a second time.
            Access::Write => {
                Lent::Write(unsafe { std::slice::from_raw_parts_mut(bytes.start(), bytes.len()) })
            }
        };
        self.buffers.iter().map(lend).collect()
    }
}

impl Drop for Borrows<'_> {
    fn drop(&mut self) {
        let mut under_way = UNDER_WAY.lock().unwrap_or_else(|e| e.into_inner());
        under_way.0.retain(|span| span.call != self.call);
    }
}

/// The bytes of a buffer, as far as the call may use them.
pub enum Lent<'b> {
    /// To be read.
    Read(&'b [u8]),
    /// To be written.
    Write(&'b mut [u8]),
}

/// New `bytes` objects, filled before any other code sees them.
pub struct NewBytes<'py> {
    objects: Vec<Bound<'py, PyBytes>>,
    lens: Vec<usize>,
}

impl<'py> NewBytes<'py> {
    /// One object of each length. Errors: `MemoryError`.
    pub fn new(py: Python<'py>, lens: Vec<usize>) -> PyResult<NewBytes<'py>> {
        let make = |&len: &usize| -> PyResult<Bound<'py, PyBytes>> {
            let len = ffi::Py_ssize_t::try_from(len)
                .map_err(|_| PyValueError::new_err("more bytes than an object of Python can have"))?;
            // SAFETY: without a source the function makes an object of this length, or returns null
            // with an exception; the result is owned and of type bytes.
            unsafe {
                let object = ffi::PyBytes_FromStringAndSize(std::ptr::null(), len);
                Ok(Bound::from_owned_ptr_or_err(py, object)?.cast_into_unchecked())
            }
        };
        let objects = lens.iter().map(make).collect::<PyResult<Vec<_>>>()?;
        Ok(NewBytes { objects, lens })
    }

    /// Returns true if all of them stand below another object.
    pub fn are_below(&self, other: &Bound<'_, PyBytes>) -> bool {
        let start = |object: &Bound<'_, PyBytes>| object.as_bytes().as_ptr().addr();
        self.objects.iter().all(|object| start(object) < start(other))
    }

    /// Their content, to be written as a whole: it is whatever C left there.
    pub fn contents(&mut self) -> Vec<&mut [u8]> {
        let content = |(object, &len): (&Bound<'py, PyBytes>, &usize)| {
            if len == 0 {
                // All empty objects are one.
                return &mut [][..];
            }
            // SAFETY: a new object of more than one byte has no other reference, so its content may
            // be filled; an object of one byte is made here, too, without given content. It has
            // `len` bytes, which memory from C's allocator holds, and lives as long as self, which
            // is lent exclusively.
            unsafe { std::slice::from_raw_parts_mut(ffi::PyBytes_AsString(object.as_ptr()).cast(), len) }
        };
        self.objects.iter().zip(&self.lens).map(content).collect()
    }

    /// The objects, filled.
    pub fn into_objects(self) -> Vec<Bound<'py, PyBytes>> {
        self.objects
    }
}
