//! Columns in which the elements of a code are the bits of words.
//!
//! Bit matrices, and array codes as small, have one, two or four elements in each column: w bits, of one word of GF(2^w) where there is a field. Here a byte of a column is 8/w words, the first of them in
//! its lowest bits, and bit i of a word is one of element i: as if packets had a bit. So every byte stands for itself, as with codes over GF(2^8): columns have any length, and any byte range of all columns is a
//! stripe. Two outputs share each look-up (`nibbles.rs` of the kernel), which is what makes it worth having where a product by GF(2^8) is two look-ups for one output.

use crate::codec::{Codec, Decoders, RecoverError, Recovery};
use crate::stripe::StripeError;
use pantile_code::Code;
use pantile_kernel::{NibbleMap, Nibbles, Program, ShapeError, Update};
use pantile_plan::{BitSums, CellSet, PlanError};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Encodes, reconstructs and updates stripes of one code whose columns are words.
///
/// A stripe is one buffer per column, all of one length, which may be any. What it makes for a pattern of losses it keeps, within bounds as those that [`Codec`] names; cheap to clone and share.
///
/// ```
/// use pantile::Codec;
///
/// let codec = Codec::parse("crs:3+2,w=4")?.in_words()?;
/// let mut columns = [*b"one", *b"two", *b"six", [0; 3], [0; 3]];
/// let mut stripe: Vec<&mut [u8]> = columns.iter_mut().map(|column| &mut column[..]).collect();
/// codec.encode(&mut stripe)?;
///
/// stripe[0].fill(0);
/// stripe[2].fill(0);
/// codec.reconstruct(&mut stripe, &[0, 2])?;
/// assert_eq!([&columns[0], &columns[2]], [b"one", b"six"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct WordCodec {
    inner: Arc<Inner>,
}

struct Inner {
    codec: Codec,
    /// Rows of each column: 1, 2 or 4.
    word_bits: usize,
    encode: OnceLock<WordProgram>,
    /// For each column, if it has data.
    updates: Vec<OnceLock<Update>>,
    columns: Decoders<WordProgram>,
}

/// A program of a [`WordCodec`], over its columns.
#[derive(Debug)]
pub struct WordProgram(Program);

impl AsRef<Program> for WordProgram {
    fn as_ref(&self) -> &Program {
        &self.0
    }
}

impl WordProgram {
    fn run(&self, columns: &mut [&mut [u8]]) -> Result<(), StripeError> {
        self.0.run(columns).map_err(of_words)
    }
}

impl Recovery<WordProgram> {
    /// Computes the lost columns in place, from the others; no other buffer is changed. The plan is that of the elements, which are bits.
    ///
    /// Errors: buffers that are not columns of the code, of one length; nothing is then written.
    /// Cost: no lock, and no allocation after the first run on a thread.
    pub fn run(&self, columns: &mut [&mut [u8]]) -> Result<(), StripeError> {
        self.program().run(columns)
    }
}

/// Why the columns of a code are no words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordsError {
    /// A column has another number of elements than a word that bytes have room for has bits.
    Rows {
        /// The column.
        column: usize,
        /// Its elements.
        rows: usize,
        /// What it may have: 0 if 1, 2 or 4.
        need: usize,
    },
    /// Some sum has an element more or less than once, with a coefficient of GF(2^8).
    Coefficients,
    /// A column has elements of both kinds, data and parity.
    Shared {
        /// The column.
        column: usize,
    },
}

impl fmt::Display for WordsError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WordsError::Rows { column, rows, need: 0 } => {
                write!(
                    out,
                    "column {column} has {rows} elements, but words of 1, 2 or 4 bits fill bytes; take packets, or a code such as crs with w=4"
                )
            }
            WordsError::Rows { column, rows, need } => {
                write!(
                    out,
                    "column {column} has {rows} elements, column 0 has {need}; words have one length in all columns, so take packets"
                )
            }
            WordsError::Coefficients => {
                write!(
                    out,
                    "the code multiplies by elements of GF(2^8), so that bits of its bytes are no elements; use its columns as they are"
                )
            }
            WordsError::Shared { column } => {
                write!(
                    out,
                    "column {column} has data and parity, which would be bits of one byte; take packets"
                )
            }
        }
    }
}

impl std::error::Error for WordsError {}

impl WordCodec {
    pub(crate) fn new(codec: &Codec) -> Result<WordCodec, WordsError> {
        let word_bits = word_bits(codec.code())?;
        let updates = (0..codec.code().columns()).map(|_| OnceLock::new()).collect();
        let inner = Inner {
            codec: codec.clone(),
            word_bits,
            encode: OnceLock::new(),
            updates,
            columns: Decoders::new(),
        };
        Ok(WordCodec { inner: Arc::new(inner) })
    }

    /// The code.
    pub fn code(&self) -> &Code {
        self.inner.codec.code()
    }

    /// The codec of stripes with each cell in one piece, which plans for this one.
    pub fn codec(&self) -> &Codec {
        &self.inner.codec
    }

    /// Bits of a word: 1, 2 or 4, the rows of each column.
    pub fn word_bits(&self) -> usize {
        self.inner.word_bits
    }

    /// Computes every parity column from the data columns, in place.
    ///
    /// Errors: buffers that are not columns of the code, of one length; nothing is then written.
    pub fn encode(&self, columns: &mut [&mut [u8]]) -> Result<(), StripeError> {
        let encode = self.inner.encode.get_or_init(|| {
            let parity = CellSet::of_cells(self.code(), self.code().parity());
            match self.sums_of(&parity) {
                Ok(sums) => self.compile(&sums),
                Err(error) => unreachable!("data determine parity: {error}"),
            }
        });
        encode.run(columns)
    }

    /// As [`Codec::decoder`].
    pub fn decoder(&self, lost: &[usize]) -> Result<Arc<Recovery<WordProgram>>, PlanError> {
        self.inner.columns.get(lost, |lost| self.decoder_anew(lost))
    }

    /// As [`Codec::decoder_anew`].
    pub fn decoder_anew(&self, lost: &[usize]) -> Result<Recovery<WordProgram>, PlanError> {
        let cells = self.codec().cells_of(lost)?;
        let sums = self.sums_of(&cells)?;
        let program = self.compile(&sums);
        Ok(Recovery::of_sums(sums, program))
    }

    /// Recomputes the given columns from the others, in place.
    ///
    /// Errors: too many are lost, the code lacks one of them, or the buffers are not its columns, of one length; nothing is then written.
    pub fn reconstruct(&self, columns: &mut [&mut [u8]], lost: &[usize]) -> Result<(), RecoverError> {
        self.check(columns)?;
        match self.inner.columns.known(lost) {
            Some(known) => known.run(columns)?,
            None => self.decoder(lost)?.run(columns)?,
        }
        Ok(())
    }

    /// Replaces the content of one data column and adds the change to every parity column.
    ///
    /// The stripe must have been true before. To change a part of a column, pass that range of bytes of all columns.
    /// Errors: a column that has no data, buffers that are not columns of the code, or `new` of another length; nothing is then written.
    pub fn update(&self, columns: &mut [&mut [u8]], column: usize, new: &[u8]) -> Result<(), StripeError> {
        let need = self.check(columns)?;
        if column >= columns.len() || !self.has_data(column) {
            return Err(StripeError::NoDataColumn { column, columns: columns.len() });
        }
        if new.len() != need {
            return Err(StripeError::NewLength { have: new.len(), need });
        }
        self.inner.updates[column].get_or_init(|| self.updating(column)).run(columns, new).map_err(of_words)
    }

    /// The length of all columns.
    fn check(&self, columns: &[&mut [u8]]) -> Result<usize, StripeError> {
        let (have, need) = (columns.len(), self.code().columns());
        if have != need {
            return Err(StripeError::ColumnCount { have, need });
        }
        let need = columns.first().map_or(0, |column| column.len());
        match columns.iter().position(|column| column.len() != need) {
            None => Ok(need),
            Some(column) => Err(StripeError::UnequalColumns { column, have: columns[column].len(), need }),
        }
    }

    /// Whether a column has data; it has no parity then.
    fn has_data(&self, column: usize) -> bool {
        let first = column * self.inner.word_bits;
        self.code().data().iter().any(|cell| cell.usize() == first)
    }

    fn updating(&self, column: usize) -> Update {
        let (code, width) = (self.code(), self.inner.word_bits);
        let position = |bit: usize| code.data().iter().position(|cell| cell.usize() == column * width + bit);
        let positions: Vec<Option<usize>> = (0..width).map(position).collect();
        let mut rows = vec![0; code.cell_count()];
        for (row, cell) in code.parity().iter().enumerate() {
            for (bit, position) in positions.iter().enumerate() {
                let has = position.is_some_and(|position| !code.generator().get(row, position).is_zero());
                rows[cell.usize()] |= u8::from(has) << bit;
            }
        }
        let maps = rows.chunks_exact(width).map(|rows| map_of(width, |r| rows[r])).enumerate();
        let targets: Vec<(usize, NibbleMap)> = maps.filter(|&(_, map)| map != NibbleMap::ZERO).collect();
        match Update::nibbles(code.columns(), column, &targets) {
            Ok(update) => update,
            Err(error) => unreachable!("parity is in other columns: {error}"),
        }
    }

    /// What makes some columns of the others.
    fn sums_of(&self, cells: &CellSet) -> Result<BitSums, PlanError> {
        match self.codec().planner().sums(cells)? {
            Some(sums) => Ok(sums),
            None => {
                unreachable!("a code of words is of XORs, and has at most four cells in each of 258 columns")
            }
        }
    }

    /// The program of sums that give every cell of some columns, and have none of these.
    fn compile(&self, sums: &BitSums) -> WordProgram {
        let width = self.inner.word_bits;
        let outputs: Vec<usize> =
            sums.cells().iter().step_by(width).map(|cell| cell.usize() / width).collect();
        // No word of bits has a part of a column: both are powers of two.
        let mask = (1 << width) - 1;
        let of_column = |row: &[u64], column: usize| {
            let first = column * width;
            (row[first / 64] >> (first % 64)) as u8 & mask
        };
        let mut reads = vec![0; self.code().cell_count().div_ceil(64)];
        for place in 0..sums.cells().len() {
            reads.iter_mut().zip(sums.row(place)).for_each(|(all, own)| *all |= own);
        }
        let columns = self.code().columns();
        let mut sources = Vec::with_capacity(columns);
        sources.extend((0..columns).filter(|&column| of_column(&reads, column) != 0));
        let mut maps = vec![NibbleMap::ZERO; sources.len() * outputs.len()];
        for output in 0..outputs.len() {
            let rows: [&[u64]; 4] = std::array::from_fn(|r| sums.row(output * width + r % width));
            for (&source, maps) in sources.iter().zip(maps.chunks_exact_mut(outputs.len())) {
                maps[output] = map_of(width, |r| of_column(rows[r], source));
            }
        }
        let nibbles = Nibbles { sources: &sources, outputs: &outputs, maps: &maps };
        match Program::nibbles(columns, &nibbles) {
            Ok(program) => WordProgram(program.with_stores(self.codec().stores())),
            Err(error) => unreachable!("what is lost is no sum of lost cells: {error}"),
        }
    }
}

impl fmt::Debug for WordCodec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "WordCodec({}, {} bits)", self.code(), self.word_bits())
    }
}

/// The bits of its words, if the columns of a code can be such.
fn word_bits(code: &Code) -> Result<usize, WordsError> {
    let bits = code.rows(0);
    if ![1, 2, 4].contains(&bits) {
        return Err(WordsError::Rows { column: 0, rows: bits, need: 0 });
    }
    if let Some(column) = (0..code.columns()).find(|&column| code.rows(column) != bits) {
        return Err(WordsError::Rows { column, rows: code.rows(column), need: bits });
    }
    if !code.is_xor() {
        return Err(WordsError::Coefficients);
    }
    let mut is_data = vec![false; code.cell_count()];
    code.data().iter().for_each(|cell| is_data[cell.usize()] = true);
    let is_shared = |cells: &[bool]| cells.iter().any(|&cell| cell != cells[0]);
    match is_data.chunks_exact(bits).position(is_shared) {
        None => Ok(bits),
        Some(column) => Err(WordsError::Shared { column }),
    }
}

/// The map of half bytes of words of so many bits, whose rows say which of these bits they are the sums of.
#[inline]
fn map_of(width: usize, row: impl Fn(usize) -> u8) -> NibbleMap {
    NibbleMap::from_rows(std::array::from_fn(|bit| row(bit % width) << (bit / width * width)))
}

/// What a kernel says of columns.
fn of_words(error: ShapeError) -> StripeError {
    match error {
        ShapeError::BufferCount { have, need } => StripeError::ColumnCount { have, need },
        ShapeError::BufferLen { index, have, need } => {
            StripeError::UnequalColumns { column: index, have, need }
        }
        other => unreachable!("columns are counted and measured: {other}"),
    }
}
