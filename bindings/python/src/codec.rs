//! Bytes: encode, reconstruct, update, verify, locate.

use crate::code::{Code, CodeLike};
use crate::error;
use crate::memory::{Access, Borrows, Bytes, Lent, NewBytes};
use crate::plan::check_column;
use crate::stream::{Checked, Stream, Streams, check_of, readers, run, some_writers, writers};
use pantile::{Buffer, CellSet, Check, ShardError, StripeError, Use, Verdict};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Encodes, reconstructs, updates and checks stripes of one code.
///
/// A shard is one column: its cells in row order, all of one length. Shards are given as a list
/// with one entry for each column, ``None`` where it is lost; an entry is any object with a
/// contiguous buffer. The interpreter's lock is released while bytes move: other threads must not
/// write to the buffers then. Calls of this library that would are refused with ``BusyError``.
///
/// A code that must not store is refused unless ``for_study`` is true.
///
/// >>> codec = pantile.Codec("rs:4+2")
/// >>> shards = codec.encode(b"what must not be lost")
/// >>> shards[1] = shards[4] = None
/// >>> codec.join(codec.reconstruct(shards), 21)
/// b'what must not be lost'
#[pyclass(frozen, module = "pantile")]
pub struct Codec {
    inner: pantile::Codec,
    /// Memory above the shards of the last `encode`: see [`Codec::keep_room`].
    above: Mutex<Option<Py<PyBytes>>>,
}

/// The cells that a small write changes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    DataAndParity,
    Parity,
}

impl Written {
    fn content(self) -> &'static str {
        match self {
            Written::DataAndParity => "the new content",
            Written::Parity => "the change",
        }
    }
}

/// Smaller shards come from memory that is kept anyway.
const ROOM_BYTES_LEAST: usize = 8 << 10;

/// The most bytes of a stripe of a stream.
const STRIPE_BYTES_MOST: usize = 1 << 30;

/// One entry for each column.
type Shards<'py> = Vec<Option<Bound<'py, PyAny>>>;

/// The shards of a call.
struct Given {
    /// The buffers, and the access to each.
    buffers: Vec<(Bytes, Access)>,
    /// By column: which buffer.
    of_column: Vec<Option<usize>>,
    /// Bytes of a cell.
    element: usize,
}

impl Given {
    /// Takes the shards of a code, and the access to each.
    fn new(code: &pantile::Code, shards: &Shards<'_>, access: impl Fn(usize) -> Access) -> PyResult<Given> {
        let need = code.columns();
        if shards.len() != need {
            return Err(error::of_shards(ShardError::Count { have: shards.len(), need }));
        }
        let (mut buffers, mut of_column) = (Vec::new(), Vec::new());
        for (column, shard) in shards.iter().enumerate() {
            of_column.push(match shard {
                None => None,
                Some(object) => {
                    let what = || format!("the shard of column {column}");
                    let bytes = Bytes::of(object, what)?;
                    let access = access(column);
                    if access == Access::Write {
                        bytes.check_writable(what)?;
                    }
                    buffers.push((bytes, access));
                    Some(buffers.len() - 1)
                }
            });
        }
        let there = || (0..need).filter_map(|column| Some((column, buffers[of_column[column]?].0.len())));
        // A column without cells does not show the length.
        let Some((first, len)) = there().find(|&(column, _)| code.rows(column) > 0) else {
            return Err(error::of_shards(ShardError::NonePresent));
        };
        let element = len / code.rows(first);
        match there().find(|&(column, have)| have != code.rows(column) * element) {
            None => Ok(Given { buffers, of_column, element }),
            Some((column, have)) => {
                let need = code.rows(column) * element;
                Err(error::of_shards(ShardError::Length { column, have, need }))
            }
        }
    }

    fn lost(&self) -> Vec<usize> {
        (0..self.of_column.len()).filter(|&column| self.of_column[column].is_none()).collect()
    }

    /// Refuses a stripe with a lost column.
    fn check_all(&self) -> PyResult<()> {
        match self.lost().first() {
            None => Ok(()),
            Some(column) => Err(error::ShapeError::new_err(format!(
                "the shard of column {column} is None; all shards are needed here: reconstruct it first"
            ))),
        }
    }

    /// Adds a buffer for results.
    fn add(&mut self, column: usize, bytes: Bytes, what: impl Fn() -> String) -> PyResult<()> {
        bytes.check_writable(what)?;
        self.of_column[column] = Some(self.buffers.len());
        self.buffers.push((bytes, Access::Write));
        Ok(())
    }
}

/// The columns of a call as the cells of a stripe, absent where there is no buffer.
fn cut<'b>(
    code: &pantile::Code,
    columns: impl IntoIterator<Item = Option<Lent<'b>>>,
    element: usize,
) -> Vec<Buffer<'b>> {
    let mut cells = Vec::with_capacity(code.cell_count());
    for (column, lent) in columns.into_iter().enumerate() {
        let rows = code.rows(column);
        match lent {
            None => cells.extend((0..rows).map(|_| Buffer::Absent)),
            Some(Lent::Read(bytes)) => {
                cells.extend((0..rows).map(|row| Buffer::Read(&bytes[row * element..][..element])));
            }
            Some(Lent::Write(mut rest)) => cells.extend((0..rows).map(|_| {
                let (cell, later) = std::mem::take(&mut rest).split_at_mut(element);
                rest = later;
                Buffer::Write(cell)
            })),
        }
    }
    cells
}

/// The buffers of a call in the order of the columns.
fn by_column<'b>(of_column: &[Option<usize>], lent: Vec<Lent<'b>>) -> Vec<Option<Lent<'b>>> {
    let mut lent: Vec<Option<Lent<'b>>> = lent.into_iter().map(Some).collect();
    of_column.iter().map(|index| lent[(*index)?].take()).collect()
}

impl Codec {
    fn code(&self) -> &pantile::Code {
        self.inner.code()
    }

    /// Calls with the checks that shards leave which are not there, and all cells, without the
    /// interpreter's lock.
    fn with_cells<R: Send>(
        &self,
        py: Python<'_>,
        given: &Given,
        borrows: &Borrows<'_>,
        call: impl FnOnce(&pantile::Checker, &[&[u8]]) -> PyResult<R> + Send,
    ) -> PyResult<R> {
        let (code, element) = (self.code(), given.element);
        let erased = CellSet::of_columns(code, &given.lost());
        let columns: Vec<Option<&[u8]>> =
            given.of_column.iter().map(|index| index.map(|index| borrows.read(index))).collect();
        py.detach(|| {
            let checker = self.inner.checker(&erased).map_err(error::of_plan)?;
            // Erased cells are not looked at, but have a length.
            let nothing = vec![0; if erased.is_empty() { 0 } else { element }];
            let content = |cell| {
                let at = code.cell(cell);
                columns[at.column].map_or(&nothing[..], |bytes| &bytes[at.row * element..][..element])
            };
            let cells: Vec<&[u8]> = code.cells().map(content).collect();
            call(&checker, &cells)
        })
    }

    /// `update` and `update_parity`.
    fn small_write<'py>(
        &self,
        py: Python<'py>,
        shards: Shards<'py>,
        position: usize,
        content: &Bound<'py, PyAny>,
        offset: usize,
        written: Written,
    ) -> PyResult<()> {
        let code = self.code();
        let Some(&cell) = code.data().get(position) else {
            let data = code.data().len();
            return Err(error::of_stripe(StripeError::NoSuchPosition { position, data }));
        };
        let reached = py.detach(|| {
            let mut reached = vec![false; code.cell_count()];
            reached[cell.usize()] = written == Written::DataAndParity;
            for (row, parity) in code.parity().iter().enumerate() {
                reached[parity.usize()] = code.generator().get(row, position).0 != 0;
            }
            reached
        });
        let is_written = |column: usize| code.column_cells(column).any(|c| reached[c.usize()]);
        let access = |column| if is_written(column) { Access::Write } else { Access::Read };
        let mut given = Given::new(code, &shards, access)?;
        if written == Written::DataAndParity
            && let Some(column) = given.lost().into_iter().find(|&column| is_written(column))
        {
            return Err(error::ShapeError::new_err(format!(
                "the shard of column {column} is None, and the change reaches it; reconstruct it first"
            )));
        }
        let content = Bytes::of(content, || written.content().into())?;
        let (len, element) = (content.len(), given.element);
        let Some(end) = offset.checked_add(len).filter(|&end| end <= element) else {
            return Err(error::ShapeError::new_err(format!(
                "{len} bytes from byte {offset} on reach beyond a cell of {element} bytes; write them cell by cell"
            )));
        };
        given.buffers.push((content, Access::Read));
        let mut borrows = Borrows::new(&given.buffers)?;
        let mut lent = borrows.split();
        let Some(Lent::Read(content)) = lent.pop() else { unreachable!("the last buffer is the content") };
        let cells = cut(code, by_column(&given.of_column, lent), element);
        // Cells that are reached and absent are computed into memory of the call.
        let is_missing = |pair: &(&Buffer<'_>, &bool)| *pair.1 && !matches!(pair.0, Buffer::Write(_));
        let missing = cells.iter().zip(&reached).filter(is_missing).count();
        let mut aside = vec![0; missing * len];
        let mut aside = aside.chunks_mut(len.max(1));
        let mut part: Vec<Buffer<'_>> = cells
            .into_iter()
            .zip(reached)
            .map(|(cell, is_reached)| match cell {
                Buffer::Write(bytes) if is_reached => Buffer::Write(&mut bytes[offset..end]),
                _ if is_reached => Buffer::Write(aside.next().unwrap_or_default()),
                _ => Buffer::Absent,
            })
            .collect();
        let run = || match written {
            Written::DataAndParity => self.inner.update_given(&mut part, position, content),
            Written::Parity => self.inner.add_change_given(&mut part, position, content),
        };
        py.detach(run).map_err(error::of_stripe)
    }

    /// Splits data into given buffers.
    fn encode_to(
        &self,
        py: Python<'_>,
        data: Bytes,
        out: &[Bound<'_, PyAny>],
        element: usize,
    ) -> PyResult<()> {
        let code = self.code();
        let shards: Shards<'_> = out.iter().cloned().map(Some).collect();
        let mut given = Given::new(code, &shards, |_| Access::Write)?;
        if given.element != element {
            let column = (0..code.columns()).find(|&column| code.rows(column) > 0).unwrap_or(0);
            let (have, need) = (code.rows(column) * given.element, code.rows(column) * element);
            return Err(error::of_shards(ShardError::Length { column, have, need }));
        }
        given.buffers.push((data, Access::Read));
        let mut borrows = Borrows::new(&given.buffers)?;
        let mut lent = borrows.split();
        let Some(Lent::Read(data)) = lent.pop() else { unreachable!("the last buffer is the data") };
        let mut cells = cut(code, by_column(&given.of_column, lent), element);
        py.detach(|| self.inner.split_given(data, &mut cells)).map_err(error::of_stripe)
    }

    /// Has the room of new shards stay with the process when they are freed.
    ///
    /// C's allocator gives back what is free at the end of its heap, and the fresh pages of
    /// the next shards take many times as long as encoding. So something that is never touched
    /// stays above them. Where it does not come to lie there, nothing is gained.
    fn keep_room<'py>(&self, py: Python<'py>, shards: &NewBytes<'py>, len: usize) -> PyResult<()> {
        let mut above = self.above.lock().unwrap_or_else(|e| e.into_inner());
        let is_there = above.as_ref().is_some_and(|above| shards.are_below(above.bind(py)));
        if len >= ROOM_BYTES_LEAST && !is_there {
            let new = NewBytes::new(py, vec![len])?.into_objects().pop();
            *above = new.map(Bound::unbind);
        }
        Ok(())
    }

    /// Refuses a stripe that takes more memory than is given to one.
    fn check_stripe(&self, element_len: usize) -> PyResult<()> {
        let most = STRIPE_BYTES_MOST / self.code().cell_count();
        match element_len <= most {
            true => Ok(()),
            false => Err(PyValueError::new_err(format!(
                "an element_len of {element_len} makes stripes of more than {STRIPE_BYTES_MOST} bytes, which are kept \
                 in memory; give at most {most}"
            ))),
        }
    }

    /// Returns true for a column with a cell of parity.
    fn has_parity(&self, column: usize) -> bool {
        self.code().column_cells(column).any(|cell| self.code().is_parity(cell))
    }
}

#[pymethods]
impl Codec {
    #[new]
    #[pyo3(signature = (code, *, for_study=false))]
    fn new(py: Python<'_>, code: CodeLike, for_study: bool) -> PyResult<Codec> {
        let code = code.code()?;
        if !for_study {
            code.check_stores().map_err(error::of_code)?;
        }
        Ok(Codec { inner: py.detach(|| pantile::Codec::new(&code)), above: Mutex::new(None) })
    }

    /// The code.
    #[getter(code)]
    fn its_code(&self) -> Code {
        Code { inner: self.code().clone() }
    }

    /// Returns the length of a cell, in bytes, with which one stripe holds `data_len` bytes of
    /// data: at least 1.
    fn element_len(&self, data_len: usize) -> usize {
        self.inner.element_len_for(data_len)
    }

    /// Splits data into the shards of one stripe, parity included; behind the data there are zeros.
    ///
    /// ``out`` has a writable buffer for each column, of the length that its shard has, which are
    /// filled and returned instead of new ``bytes``.
    ///
    /// >>> [len(shard) for shard in pantile.Codec("rs:4+2").encode(bytes(1000))]
    /// [250, 250, 250, 250, 250, 250]
    #[pyo3(signature = (data, *, out=None))]
    fn encode<'py>(
        &self,
        py: Python<'py>,
        data: &Bound<'py, PyAny>,
        out: Option<Vec<Bound<'py, PyAny>>>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let data = Bytes::of(data, || "the data".into())?;
        let code = self.code();
        let element = self.inner.element_len_for(data.len());
        if let Some(out) = out {
            self.encode_to(py, data, &out, element)?;
            return Ok(out);
        }
        let buffers = [(data, Access::Read)];
        let borrows = Borrows::new(&buffers)?;
        let mut shards = NewBytes::new(py, (0..code.columns()).map(|c| code.rows(c) * element).collect())?;
        self.keep_room(py, &shards, code.rows_max() * element)?;
        {
            let columns: Vec<_> = shards.contents().into_iter().map(|b| Some(Lent::Write(b))).collect();
            let mut cells = cut(code, columns, element);
            py.detach(|| self.inner.split_given(borrows.read(0), &mut cells)).map_err(error::of_stripe)?;
        }
        Ok(shards.into_objects().into_iter().map(Bound::into_any).collect())
    }

    /// Computes every parity cell of a stripe in place: shards that hold parity are written, the
    /// others are read.
    ///
    /// >>> shards = [b"data", b"more", bytearray(4)]
    /// >>> pantile.Codec("raid5:2").encode_into(shards)
    /// >>> bytes(a ^ b for a, b in zip(*shards[:2])) == shards[2]
    /// True
    fn encode_into(&self, py: Python<'_>, shards: Shards<'_>) -> PyResult<()> {
        let access = |column| if self.has_parity(column) { Access::Write } else { Access::Read };
        let given = Given::new(self.code(), &shards, access)?;
        given.check_all()?;
        let mut borrows = Borrows::new(&given.buffers)?;
        let mut cells = cut(self.code(), by_column(&given.of_column, borrows.split()), given.element);
        py.detach(|| self.inner.encode_given(&mut cells)).map_err(error::of_stripe)
    }

    /// All shards, those that are lost (``None``) rebuilt from those that are there.
    ///
    /// Present shards are returned as the same objects. With ``wanted`` only those columns are
    /// rebuilt, and the other lost ones stay ``None``. ``into`` has writable buffers, by column,
    /// that are filled instead of new ``bytes``. Raises ``NotRecoverable`` if too much is lost.
    ///
    /// >>> codec = pantile.Codec("dcode:5")
    /// >>> shards = codec.encode(b"a" * 100)
    /// >>> codec.reconstruct([None, *shards[1:4], None]) == shards
    /// True
    #[pyo3(signature = (shards, *, wanted=None, into=BTreeMap::new()))]
    fn reconstruct<'py>(
        &self,
        py: Python<'py>,
        mut shards: Shards<'py>,
        wanted: Option<Vec<usize>>,
        into: BTreeMap<usize, Bound<'py, PyAny>>,
    ) -> PyResult<Shards<'py>> {
        let code = self.code();
        let mut given = Given::new(code, &shards, |_| Access::Read)?;
        let (lost, element) = (given.lost(), given.element);
        let wanted = wanted.unwrap_or_else(|| lost.clone());
        wanted.iter().try_for_each(|&column| check_column(code, column))?;
        let wanted: Vec<usize> = lost.iter().copied().filter(|column| wanted.contains(column)).collect();
        if let Some(column) = into.keys().find(|column| !wanted.contains(column)) {
            return Err(PyValueError::new_err(format!(
                "a buffer is given for column {column}, which is not made: lost and wanted are {wanted:?}"
            )));
        }
        if wanted.is_empty() {
            return Ok(shards);
        }
        let recovery = py.detach(|| self.inner.decoder_of(&lost, &wanted)).map_err(error::of_plan)?;
        // Intermediate cells on the way to the wanted ones need room, too.
        let is_made = |column: usize| {
            wanted.contains(&column) || code.column_cells(column).any(|c| recovery.use_of(c) != Use::Unused)
        };
        let made: Vec<usize> =
            lost.iter().copied().filter(|c| !into.contains_key(c) && is_made(*c)).collect();
        for (&column, object) in &into {
            let what = || format!("the buffer for column {column}");
            let bytes = Bytes::of(object, what)?;
            let (have, need) = (bytes.len(), code.rows(column) * element);
            if have != need {
                return Err(error::of_shards(ShardError::Length { column, have, need }));
            }
            given.add(column, bytes, what)?;
        }
        let mut new = NewBytes::new(py, made.iter().map(|&column| code.rows(column) * element).collect())?;
        {
            let mut borrows = Borrows::new(&given.buffers)?;
            let mut columns = by_column(&given.of_column, borrows.split());
            for (&column, bytes) in made.iter().zip(new.contents()) {
                columns[column] = Some(Lent::Write(bytes));
            }
            let mut cells = cut(code, columns, element);
            py.detach(|| recovery.run_given(&mut cells)).map_err(error::of_stripe)?;
        }
        for (column, object) in made.into_iter().zip(new.into_objects()) {
            if wanted.contains(&column) {
                shards[column] = Some(object.into_any());
            }
        }
        for (column, object) in into {
            shards[column] = Some(object);
        }
        Ok(shards)
    }

    /// Writes new bytes over part of a data cell, and the change to every parity that it reaches.
    ///
    /// ``position`` counts data cells in user order, ``offset`` bytes within the cell. The stripe
    /// must have been true before. Columns that neither hold the cell nor such a parity are not
    /// looked at, and may be ``None`` or read-only.
    ///
    /// >>> codec = pantile.Codec("rs:4+2")
    /// >>> shards = [bytearray(shard) for shard in codec.encode(b"0123456789abcdef")]
    /// >>> codec.update(shards, 1, b"xy", offset=2)
    /// >>> codec.join(shards, 16), codec.verify(shards)
    /// (b'012345xy89abcdef', True)
    #[pyo3(signature = (shards, position, new, *, offset=0))]
    fn update<'py>(
        &self,
        py: Python<'py>,
        shards: Shards<'py>,
        position: usize,
        new: &Bound<'py, PyAny>,
        offset: usize,
    ) -> PyResult<()> {
        self.small_write(py, shards, position, new, offset, Written::DataAndParity)
    }

    /// Adds the change of part of a data cell, old bytes XOR new ones, to every parity that it
    /// reaches and that is there.
    ///
    /// As ``update``, for parity that is kept apart from data: the data cell is not looked at, and
    /// may be ``None``, as may parities.
    ///
    /// >>> codec = pantile.Codec("rs:4+2")
    /// >>> shards = [bytearray(shard) for shard in codec.encode(b"0123456789abcdef")]
    /// >>> codec.update_parity([None, None, None, None, *shards[4:]], 1, b"\x4d", offset=2)
    /// >>> shards[1][2] ^= 0x4d
    /// >>> codec.verify(shards)
    /// True
    #[pyo3(signature = (shards, position, change, *, offset=0))]
    fn update_parity<'py>(
        &self,
        py: Python<'py>,
        shards: Shards<'py>,
        position: usize,
        change: &Bound<'py, PyAny>,
        offset: usize,
    ) -> PyResult<()> {
        self.small_write(py, shards, position, change, offset, Written::Parity)
    }

    /// True if the shards of a stripe that are there fit one another.
    ///
    /// ``ValueError`` if so many are ``None`` that nothing is left to check the others.
    ///
    /// >>> codec = pantile.Codec("rs:4+2")
    /// >>> shards = codec.encode(b"abcdefgh")
    /// >>> codec.verify(shards), codec.verify([None, *shards[1:]])
    /// (True, True)
    fn verify(&self, py: Python<'_>, shards: Shards<'_>) -> PyResult<bool> {
        let given = Given::new(self.code(), &shards, |_| Access::Read)?;
        let borrows = Borrows::new(&given.buffers)?;
        let lost = given.lost();
        self.with_cells(py, &given, &borrows, |checker, cells| {
            if checker.locator().checks().is_empty() {
                return Err(PyValueError::new_err(format!(
                    "{} shards are None, and no equation is left to check the others",
                    lost.len()
                )));
            }
            Ok(checker.first_fault(cells).map_err(error::of_stripe)?.is_none())
        })
    }

    /// Returns every byte range, the same in every cell, in which the shards do not fit one
    /// another, with its explanation; empty where they do.
    ///
    /// Shards that are ``None`` are left out. Repair certain findings by ``reconstruct`` without
    /// the columns that are named.
    ///
    /// >>> codec = pantile.Codec("rs:6+4")
    /// >>> shards = codec.encode(bytes(60_000))
    /// >>> shards[3] = shards[3][:500] + b"a lie of 20 bytes .." + shards[3][520:]
    /// >>> codec.locate(shards)
    /// [Finding(bytes 500 to 520: columns [3], certain)]
    fn locate(&self, py: Python<'_>, shards: Shards<'_>) -> PyResult<Vec<Finding>> {
        let given = Given::new(self.code(), &shards, |_| Access::Read)?;
        let borrows = Borrows::new(&given.buffers)?;
        let findings = self.with_cells(py, &given, &borrows, |checker, cells| {
            checker.locate(cells).map_err(error::of_stripe)
        })?;
        Ok(findings.into_iter().map(Finding::of).collect())
    }

    /// Corrects in place what ``locate`` found and is certain; the number of bytes of cells in which
    /// something was corrected.
    ///
    /// Each range is checked again first: where its columns do not explain all of it, nothing of it
    /// is changed. Shards that are ``None`` are left out; the others have to be writable.
    ///
    /// >>> codec = pantile.Codec("rs:6+4")
    /// >>> shards = [bytearray(shard) for shard in codec.encode(bytes(60_000))]
    /// >>> shards[3][500:520] = b"a lie of 20 bytes .."
    /// >>> codec.correct(shards, codec.locate(shards)), codec.verify(shards)
    /// (20, True)
    fn correct(
        &self,
        py: Python<'_>,
        shards: Shards<'_>,
        findings: Vec<PyRef<'_, Finding>>,
    ) -> PyResult<usize> {
        let code = self.code();
        let given = Given::new(code, &shards, |_| Access::Write)?;
        let erased = CellSet::of_columns(code, &given.lost());
        let element = given.element;
        let findings: Vec<pantile::Finding> = findings.iter().map(|finding| finding.inner()).collect();
        let mut borrows = Borrows::new(&given.buffers)?;
        let cells = cut(code, by_column(&given.of_column, borrows.split()), element);
        py.detach(|| {
            let checker = self.inner.checker(&erased).map_err(error::of_plan)?;
            let missing = cells.iter().filter(|cell| !matches!(cell, Buffer::Write(_))).count();
            let mut aside = vec![0; missing * element];
            let mut aside = aside.chunks_mut(element.max(1));
            let mut cells: Vec<&mut [u8]> = cells
                .into_iter()
                .map(|cell| match cell {
                    Buffer::Write(bytes) => bytes,
                    _ => aside.next().unwrap_or_default(),
                })
                .collect();
            let is_certain = |finding: &pantile::Finding| finding.verdict.is_certain();
            checker.correct(&mut cells, &findings, is_certain).map_err(error::of_stripe)
        })
    }

    /// Puts data together from all shards of a stripe: as many bytes as were encoded.
    fn join<'py>(
        &self,
        py: Python<'py>,
        shards: Shards<'py>,
        data_len: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let code = self.code();
        let given = Given::new(code, &shards, |_| Access::Read)?;
        given.check_all()?;
        let mut borrows = Borrows::new(&given.buffers)?;
        let cells = cut(code, by_column(&given.of_column, borrows.split()), given.element);
        let mut new = NewBytes::new(py, vec![data_len])?;
        let data = new.contents().remove(0);
        py.detach(|| self.inner.join_given(&cells, data)).map_err(|error| match error {
            StripeError::Holds { have, need } => error::of_shards(ShardError::TooShort { have, need }),
            other => error::of_stripe(other),
        })?;
        match new.into_objects().pop() {
            Some(data) => Ok(data),
            None => unreachable!("one object was made"),
        }
    }

    /// Encodes a stream to its end, stripe by stripe; the number of bytes read.
    ///
    /// ``source`` is a file object that is read, ``sinks`` has one for each column that gets its
    /// shard. ``element_len`` is the length of a cell of a stripe, of which one is in memory;
    /// decoding needs the same. The last stripe is filled up with zeros.
    ///
    /// >>> import io
    /// >>> codec = pantile.Codec("rs:4+2")
    /// >>> shards = [io.BytesIO() for _ in range(6)]
    /// >>> codec.encode_stream(io.BytesIO(bytes(1_000_000)), shards, element_len=4096)
    /// 1000000
    /// >>> len(shards[5].getvalue())
    /// 253952
    #[pyo3(signature = (source, sinks, *, element_len=65536))]
    fn encode_stream(
        &self,
        py: Python<'_>,
        mut source: Stream,
        mut sinks: Vec<Stream>,
        element_len: usize,
    ) -> PyResult<u64> {
        self.check_stripe(element_len)?;
        run(py, || self.inner.encode_stream(&mut source, &mut writers(&mut sinks), element_len))
    }

    /// Decodes the shards of a stream, ``None`` where one is lost, to ``data_len`` bytes.
    ///
    /// Shards are checked against each other before their data are written. One that is wrong is
    /// computed from the others and named in the result; ``NotLocated`` is raised if it is not
    /// certain which one is wrong. ``check="probable"`` takes the probable one, and ``"off"``
    /// checks nothing and reads only the shards that decoding needs. What a file object raises is
    /// raised.
    ///
    /// >>> import io
    /// >>> codec = pantile.Codec("rs:4+3")
    /// >>> shards = [io.BytesIO() for _ in range(7)]
    /// >>> _ = codec.encode_stream(io.BytesIO(b"a byte or more" * 1000), shards)
    /// >>> shards = [io.BytesIO(shard.getvalue()) for shard in shards]
    /// >>> shards[0].getbuffer()[10:19] = b"NINE LIES"
    /// >>> back = io.BytesIO()
    /// >>> codec.decode_stream([*shards[:6], None], back, 14_000).wrong
    /// [WrongColumn(0: 9 bytes from byte 10 on)]
    /// >>> back.getvalue() == b"a byte or more" * 1000
    /// True
    #[pyo3(signature = (sources, sink, data_len, *, element_len=65536, check="certain"))]
    fn decode_stream(
        &self,
        py: Python<'_>,
        mut sources: Streams,
        mut sink: Stream,
        data_len: u64,
        element_len: usize,
        check: &str,
    ) -> PyResult<Checked> {
        self.check_stripe(element_len)?;
        let check = check_of(check)?;
        let sources = &mut sources;
        let decode =
            || self.inner.decode_stream_with(&mut readers(sources), &mut sink, element_len, data_len, check);
        Ok(run(py, decode)?.into())
    }

    /// Computes the shards of a stream that have a sink, lost or wrong, from the others.
    ///
    /// ``sinks`` has a file object or ``None`` for each column. The rest is as of
    /// ``decode_stream``.
    #[pyo3(signature = (sources, sinks, data_len, *, element_len=65536, check="certain"))]
    fn rebuild_stream(
        &self,
        py: Python<'_>,
        mut sources: Streams,
        mut sinks: Streams,
        data_len: u64,
        element_len: usize,
        check: &str,
    ) -> PyResult<Checked> {
        self.check_stripe(element_len)?;
        let check = check_of(check)?;
        let rebuild = || {
            let (sources, sinks) = (&mut readers(&mut sources), &mut some_writers(&mut sinks));
            self.inner.rebuild_stream(sources, sinks, element_len, data_len, check)
        };
        Ok(run(py, rebuild)?.into())
    }

    /// Reads all shards of a stream that are there, and reports those that are wrong.
    ///
    /// Errors that are not located are counted.
    #[pyo3(signature = (sources, data_len, *, element_len=65536))]
    fn verify_stream(
        &self,
        py: Python<'_>,
        mut sources: Streams,
        data_len: u64,
        element_len: usize,
    ) -> PyResult<Checked> {
        self.check_stripe(element_len)?;
        let verify =
            || self.inner.verify_stream(&mut readers(&mut sources), element_len, data_len, Check::Certain);
        Ok(run(py, verify)?.into())
    }

    /// A codec is pickled as its code, without its plans.
    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<((Code,), Bound<'py, PyDict>)> {
        let options = PyDict::new(py);
        options.set_item("for_study", self.code().check_stores().is_err())?;
        Ok(((self.its_code(),), options))
    }

    fn __repr__(&self) -> String {
        format!("Codec('{}')", self.code())
    }
}

/// The finding on a byte range that fails a check.
#[pyclass(frozen, get_all, module = "pantile")]
#[derive(Clone)]
pub struct Finding {
    /// The first byte, counted within each cell.
    start: usize,
    /// The byte behind the last.
    end: usize,
    /// ``located``, ``ambiguous`` or ``unlocatable``.
    kind: &'static str,
    /// The columns that explain the whole range, if it is located.
    columns: Vec<usize>,
    /// A larger error looks so with a chance of at most one in 2 to this power.
    evidence_bits: u32,
    /// True if it can be repaired without a guess.
    is_certain: bool,
    /// Two explanations, if it is ambiguous.
    examples: Vec<Vec<usize>>,
}

impl Finding {
    /// The finding as the library has it.
    fn inner(&self) -> pantile::Finding {
        let verdict = match self.kind {
            "located" => Verdict::Located {
                columns: self.columns.clone(),
                evidence_bits: self.evidence_bits,
                certain: self.is_certain,
            },
            _ => Verdict::Unlocatable,
        };
        pantile::Finding { range: self.start..self.end, verdict }
    }

    fn of(finding: pantile::Finding) -> Finding {
        let (kind, columns, evidence_bits, is_certain, examples) = match finding.verdict {
            Verdict::Located { columns, evidence_bits, certain } => {
                ("located", columns, evidence_bits, certain, Vec::new())
            }
            Verdict::Ambiguous { examples } => ("ambiguous", Vec::new(), 0, false, examples.into()),
            Verdict::Unlocatable => ("unlocatable", Vec::new(), 0, false, Vec::new()),
        };
        let (start, end) = (finding.range.start, finding.range.end);
        Finding { start, end, kind, columns, evidence_bits, is_certain, examples }
    }
}

#[pymethods]
impl Finding {
    fn __repr__(&self) -> String {
        let what = match (self.kind, self.is_certain) {
            ("located", true) => format!("columns {:?}, certain", self.columns),
            ("located", false) => format!("columns {:?}, not certain", self.columns),
            (kind, _) => kind.to_string(),
        };
        format!("Finding(bytes {} to {}: {what})", self.start, self.end)
    }
}
