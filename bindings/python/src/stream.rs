//! Streams of any length in bounded memory: file objects of Python, as the library's readers and
//! writers; chunks as other systems store them.
//!
//! Coding runs without the interpreter's lock, which is taken for each call of a file object.

use crate::code::Code;
use crate::error;
use crate::plan::check_column;
use pantile::code::foreign::Profile;
use pantile::{Check, ShardError};
use pyo3::exceptions::{PyBlockingIOError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// A file object: whatever has `read`, `write` or `seek`, as far as the call needs them.
pub struct Stream(Py<PyAny>);

/// One entry for each column, `None` where there is none.
pub type Streams = Vec<Option<Stream>>;

impl FromPyObject<'_, '_> for Stream {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Stream> {
        match object.is_none() {
            false => Ok(Stream(object.to_owned().unbind())),
            true => Err(PyTypeError::new_err(
                "None where a file object is needed; give one that has read or write",
            )),
        }
    }
}

impl Stream {
    /// Calls the object, unless a handler of a signal raises.
    fn with<R>(&self, call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<R>) -> io::Result<R> {
        Python::attach(|py| {
            py.check_signals()?;
            Ok(call(self.0.bind(py))?)
        })
    }
}

impl Read for Stream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.with(|object| {
            let read = object.call_method1("read", (to.len(),))?;
            if read.is_none() {
                return Err(would_block("read"));
            }
            let bytes: PyBackedBytes = read.extract()?;
            match to.get_mut(..bytes.len()) {
                Some(to) => to.copy_from_slice(&bytes),
                None => return Err(too_much("read", bytes.len(), to.len())),
            }
            Ok(bytes.len())
        })
    }
}

impl Write for Stream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.with(|object| {
            let written = object.call_method1("write", (PyBytes::new(object.py(), from),))?;
            match written.extract::<Option<usize>>()? {
                Some(written) if written > from.len() => Err(too_much("write", written, from.len())),
                Some(written) => Ok(written),
                // Where raw streams say that nothing was written, others do not count.
                None if object.is_instance(&object.py().import("io")?.getattr("RawIOBase")?)? => {
                    Err(would_block("write"))
                }
                None => Ok(from.len()),
            }
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Stream {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.with(|object| {
            let reached = match to {
                SeekFrom::Start(offset) => object.call_method1("seek", (offset,)),
                SeekFrom::Current(offset) => object.call_method1("seek", (offset, 1)),
                SeekFrom::End(offset) => object.call_method1("seek", (offset, 2)),
            };
            reached?.extract()
        })
    }
}

fn would_block(method: &str) -> PyErr {
    PyBlockingIOError::new_err(format!("{method}() has nothing to do; give a stream that blocks"))
}

fn too_much(method: &str, have: usize, most: usize) -> PyErr {
    PyValueError::new_err(format!("{method}() returned {have} bytes where at most {most} were asked for"))
}

/// Returns a reader for each column that is there.
pub fn readers(streams: &mut Streams) -> Vec<Option<&mut dyn Read>> {
    streams.iter_mut().map(|stream| stream.as_mut().map(|stream| stream as _)).collect()
}

/// Returns a writer for each column that is wanted.
pub fn some_writers(streams: &mut Streams) -> Vec<Option<&mut dyn Write>> {
    streams.iter_mut().map(|stream| stream.as_mut().map(|stream| stream as _)).collect()
}

/// Returns a writer for each column.
pub fn writers(streams: &mut [Stream]) -> Vec<&mut dyn Write> {
    streams.iter_mut().map(|stream| stream as _).collect()
}

/// Returns the treatment that a text names.
pub fn check_of(text: &str) -> PyResult<Check> {
    match text {
        "certain" => Ok(Check::Certain),
        "probable" => Ok(Check::Probable),
        "off" => Ok(Check::Off),
        _ => Err(PyValueError::new_err(format!("check is '{text}'; say 'certain', 'probable' or 'off'"))),
    }
}

/// Codes streams without the interpreter's lock.
pub fn run<R: Send>(py: Python<'_>, work: impl FnOnce() -> Result<R, ShardError> + Send) -> PyResult<R> {
    py.detach(work).map_err(|failed| error::of_stream(py, failed))
}

/// The result of reading the shards of a stream.
#[pyclass(frozen, get_all, module = "pantile")]
pub struct Checked {
    /// The shards that were wrong, ascending by column; they were computed from the others.
    wrong: Vec<WrongColumn>,
    /// The number of stripes with an error that was not located: only verification goes on behind
    /// one.
    doubts: u64,
    /// The place and the reason of the first of these.
    first_doubt: Option<String>,
    /// True if every shard that was read is in some equation that could be checked.
    is_complete: bool,
}

/// A shard of a stream that was wrong.
#[pyclass(frozen, get_all, module = "pantile")]
#[derive(Clone)]
pub struct WrongColumn {
    /// The column.
    column: usize,
    /// The offset of its first wrong byte.
    first: u64,
    /// The number of its wrong bytes.
    bytes: u64,
}

impl From<pantile::Checked> for Checked {
    fn from(checked: pantile::Checked) -> Checked {
        let wrong = checked.wrong.iter();
        Checked {
            wrong: wrong
                .map(|&pantile::WrongColumn { column, first, bytes }| WrongColumn { column, first, bytes })
                .collect(),
            doubts: checked.doubts,
            first_doubt: checked.first_doubt.map(|doubt| doubt.to_string()),
            is_complete: checked.is_complete,
        }
    }
}

#[pymethods]
impl Checked {
    fn __repr__(&self) -> String {
        let wrong: Vec<usize> = self.wrong.iter().map(|wrong| wrong.column).collect();
        let checked = if self.is_complete { "" } else { ", not all could be checked" };
        format!("Checked(wrong columns {wrong:?}, {} doubts{checked})", self.doubts)
    }
}

#[pymethods]
impl WrongColumn {
    fn __repr__(&self) -> String {
        format!("WrongColumn({}: {} bytes from byte {} on)", self.column, self.bytes, self.first)
    }
}

/// Chunks as another system stores them, byte for byte: of Ceph, HDFS, ISA-L, Jerasure, klauspost
/// or SeaweedFS.
///
/// ``profile`` is a name of docs/chunks.md. ``chunk_len`` is the length of a chunk in one stripe,
/// by default the one that the system takes. Chunks are file objects, in a list with one entry for
/// each column. They are read and written stripe by stripe, and checked against each other as those
/// of ``Codec.decode_stream``.
///
/// Where the chunks are pieces of the whole data (``chunk_len`` is ``None``), the data are a file
/// object that can ``seek``, and are all of it.
///
/// >>> import io
/// >>> chunks = pantile.Chunks("ceph:plugin=isa k=4 m=2", 32)
/// >>> files = [io.BytesIO() for _ in range(chunks.code.columns)]
/// >>> chunks.encode(io.BytesIO(b"what must not be lost"), files)
/// 21
/// >>> files = [None, *(io.BytesIO(file.getvalue()) for file in files[1:])]
/// >>> back = io.BytesIO()
/// >>> chunks.decode(files, back, 21)
/// Checked(wrong columns [], 0 doubts)
/// >>> back.getvalue()
/// b'what must not be lost'
#[pyclass(frozen, module = "pantile")]
pub struct Chunks {
    inner: pantile::Chunks,
    profile: String,
}

#[pymethods]
impl Chunks {
    #[new]
    #[pyo3(signature = (profile, chunk_len=None))]
    fn new(profile: &str, chunk_len: Option<usize>) -> PyResult<Chunks> {
        let profile = Profile::parse(profile).map_err(error::of_code)?;
        let inner = pantile::Chunks::new(&profile, chunk_len)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Chunks { inner, profile: profile.name })
    }

    /// The code.
    #[getter]
    fn code(&self) -> Code {
        Code { inner: self.inner.code().clone() }
    }

    /// The name of the layout.
    #[getter]
    fn profile(&self) -> &str {
        &self.profile
    }

    /// The length of a chunk in one stripe; ``None`` where the chunks are pieces of the whole data.
    #[getter]
    fn chunk_len(&self) -> Option<usize> {
        self.inner.chunk_len()
    }

    /// Returns the length of the whole chunk of a column, for ``data_len`` bytes of data.
    fn len_of(&self, column: usize, data_len: u64) -> PyResult<u64> {
        check_column(self.inner.code(), column)?;
        Ok(self.inner.len_of(column, data_len))
    }

    /// Encodes ``source`` to its end into one sink for each column; the number of bytes read.
    fn encode(&self, py: Python<'_>, mut source: Stream, mut sinks: Vec<Stream>) -> PyResult<u64> {
        self.inner.code().check_stores().map_err(error::of_code)?;
        run(py, || {
            let sinks = &mut writers(&mut sinks);
            if !self.inner.is_one_stripe() {
                return self.inner.encode(&mut source, sinks);
            }
            let len = source.seek(SeekFrom::End(0)).map_err(ShardError::Data)?;
            self.inner.encode_at(&mut source, len, sinks).map(|()| len)
        })
    }

    /// Decodes chunks, ``None`` where one is lost, to ``data_len`` bytes of data.
    ///
    /// ``check`` is as of ``Codec.decode_stream``.
    #[pyo3(signature = (sources, sink, data_len, *, check="certain"))]
    fn decode(
        &self,
        py: Python<'_>,
        mut sources: Streams,
        mut sink: Stream,
        data_len: u64,
        check: &str,
    ) -> PyResult<Checked> {
        let chunks = self.inner.clone().with_check(check_of(check)?);
        Ok(run(py, || chunks.decode_at(&mut readers(&mut sources), &mut sink, data_len))?.into())
    }

    /// Computes the chunks that have a sink, lost or wrong, from the others.
    #[pyo3(signature = (sources, sinks, data_len, *, check="certain"))]
    fn rebuild(
        &self,
        py: Python<'_>,
        mut sources: Streams,
        mut sinks: Streams,
        data_len: u64,
        check: &str,
    ) -> PyResult<Checked> {
        let chunks = self.inner.clone().with_check(check_of(check)?);
        let (sources, sinks) = (&mut sources, &mut sinks);
        Ok(run(py, || chunks.rebuild(&mut readers(sources), &mut some_writers(sinks), data_len))?.into())
    }

    /// Reads all chunks that are there, and reports those that are wrong.
    fn verify(&self, py: Python<'_>, mut sources: Streams, data_len: u64) -> PyResult<Checked> {
        Ok(run(py, || self.inner.verify(&mut readers(&mut sources), data_len))?.into())
    }

    fn __getnewargs__(&self) -> (&str, Option<usize>) {
        (&self.profile, self.inner.chunk_len())
    }

    fn __repr__(&self) -> String {
        format!("Chunks('{}')", self.profile)
    }
}
