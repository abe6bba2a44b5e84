//! Chunks as other systems cut them: one stream for each column, equal byte by byte to those of the
//! system of a [`Profile`].
//!
//! The data columns of such codes hold user data only, and the data fill one chunk after another.
//! Nothing is stored beside the chunks: they can be read back with the profile, the length of
//! chunks and that of the data.

use crate::checked::{Check, Checked, Lengths, Purpose, Stripes};
use crate::codec::Codec;
use crate::coder::Coder;
use crate::fragments;
use crate::shards::{ShardError, read_up_to};
use crate::words::Words;
use pantile_code::Code;
use pantile_code::foreign::{Cut, Fragments, Profile, Rows};
use std::fmt;
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

/// The most bytes of a stripe, all columns together, which coding keeps in memory.
const STRIPE_BYTES_MOST: usize = 1 << 30;

/// Bytes of each chunk, about, that are worked on at once where chunks are pieces of one stripe.
const WINDOW_BYTES: usize = 256 << 10;

/// Why chunks cannot have a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkError {
    /// The system has no such chunks.
    Multiple {
        /// The length asked for.
        given: usize,
        /// The length must be a multiple of this.
        of: usize,
    },
    /// The name of the profile says how long they are.
    Fixed {
        /// The length asked for.
        given: usize,
        /// The length that the profile has.
        cell: usize,
    },
    /// The layout has blocks of its own.
    None,
    /// A stripe would take more memory than is given to one.
    Stripe {
        /// The length of a chunk.
        chunk: usize,
        /// Columns of the code.
        columns: usize,
    },
}

impl fmt::Display for ChunkError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChunkError::Multiple { given, of } => {
                let next = (*given).max(1).checked_next_multiple_of(*of).unwrap_or(*of);
                write!(out, "chunks of {given} bytes are no multiple of {of} bytes; take {next}")
            }
            ChunkError::Fixed { given, cell } => {
                write!(out, "chunks of {given} bytes where the profile has cells of {cell}; change its name")
            }
            ChunkError::None => {
                write!(out, "this layout has blocks of its own lengths; leave the length of chunks out")
            }
            ChunkError::Stripe { chunk, columns } => write!(
                out,
                "{columns} chunks of {chunk} bytes are more than {STRIPE_BYTES_MOST} bytes of memory; take shorter ones"
            ),
        }
    }
}

impl std::error::Error for ChunkError {}

/// Cuts data into the chunks of a profile, and puts them together.
///
/// ```
/// use pantile::{Chunks, code::foreign::Profile};
///
/// let profile = Profile::parse("ceph:plugin=isa k=4 m=2")?;
/// let chunks = Chunks::new(&profile, Some(32))?;
/// let mut files = vec![Vec::new(); 6];
/// let mut writers: Vec<&mut dyn std::io::Write> = files.iter_mut().map(|file| file as _).collect();
/// assert_eq!(chunks.encode(&mut &b"what must not be lost"[..], &mut writers)?, 21);
/// assert!(files.iter().all(|file| file.len() == 32));
///
/// let mut readers: Vec<Box<&[u8]>> = files.iter().map(|file| Box::new(&file[..])).collect();
/// let mut readers: Vec<Option<&mut dyn std::io::Read>> =
///     readers.iter_mut().enumerate().map(|(i, file)| (i > 1).then_some(file as _)).collect();
/// let mut data = Vec::new();
/// chunks.decode(&mut readers, &mut data, 21)?;
/// assert_eq!(data, b"what must not be lost");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Chunks {
    coder: Coder,
    /// The columns of data, in the order in which the data fill them.
    data: Vec<usize>,
    shape: Shape,
    /// Headers before the chunk of each stripe.
    fragments: Option<Fragments>,
    check: Check,
}

/// How long chunks are.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// Stripes of chunks of one length, the last one filled up with zeros or not.
    Stripes { chunk: usize, is_filled: bool },
    /// One stripe; coded in windows of each chunk.
    Pieces { multiple_of: usize, window: usize },
    /// A stripe for each segment of so many bytes, in pieces.
    /// Coded are multiples of `whole`.
    Segments { bytes: usize, multiple_of: usize, whole: usize },
    /// Stripes of large blocks as long as the data fill them, then of small ones; coded in windows.
    Blocks { large: usize, small: usize, window: usize },
}

/// A part of every chunk that is coded at once.
#[derive(Clone, Copy)]
struct Part {
    /// Bytes of each column.
    coded: usize,
    /// The place in the data of the part of the first data column.
    start: u64,
    /// The distance in the data from one data column to the next.
    pitch: u64,
    /// The end of its data, if these end before the others.
    end: u64,
}

impl Part {
    /// The place in the data of the part of a data column, and the bytes of data there.
    fn data_of(&self, place: usize, data_len: u64) -> (u64, usize) {
        let start = (place as u64).saturating_mul(self.pitch).saturating_add(self.start);
        (start, data_len.min(self.end).saturating_sub(start).min(self.pitch).min(self.coded as u64) as usize)
    }
}

impl Chunks {
    /// The chunks of a profile, of that length, or of the one that its system takes.
    ///
    /// Profiles whose chunks are pieces of the whole data have stripes if a length is given.
    /// Errors: the system has no chunks of that length, or a stripe takes more than 1 GiB.
    pub fn new(profile: &Profile, chunk: Option<usize>) -> Result<Chunks, ChunkError> {
        let codec = Codec::new(&profile.code);
        let columns = profile.code.columns();
        let mut data: Vec<usize> =
            profile.code.data().iter().map(|&cell| profile.code.column_of(cell)).collect();
        data.dedup();
        // A window must be a multiple of this.
        let rows = profile.code.rows_max();
        let (coder, whole) = match profile.rows {
            Rows::Pieces => (Coder::Rows(codec), rows),
            Rows::Words => match Words::new(rows) {
                Some(words) => (Coder::Words(codec, Arc::new(words)), rows),
                None => unreachable!("words of a profile have 2 or 4 bytes, not {rows}"),
            },
            Rows::Packets(packet) => match codec.in_packets(packet) {
                Ok(packets) => (Coder::Packets(packets), packet * rows),
                Err(error) => unreachable!("packets of a profile have bytes: {error}"),
            },
        };
        let shape = match (profile.cut, chunk) {
            (Cut::Stripes { usual, multiple_of }, given) => {
                Shape::Stripes { chunk: multiple(given.unwrap_or(usual), multiple_of)?, is_filled: true }
            }
            (Cut::Cells { cell }, Some(given)) if given != cell => {
                return Err(ChunkError::Fixed { given, cell });
            }
            (Cut::Cells { cell }, _) => Shape::Stripes { chunk: cell, is_filled: false },
            (Cut::Pieces { multiple_of }, Some(given)) => {
                Shape::Stripes { chunk: multiple(given, multiple_of)?, is_filled: true }
            }
            (Cut::Pieces { multiple_of }, None) => {
                Shape::Pieces { multiple_of, window: WINDOW_BYTES.next_multiple_of(whole) }
            }
            (Cut::Segments { bytes, multiple_of }, given) => {
                let cell = piece_len(bytes as u64, data.len(), multiple_of) as usize;
                match given {
                    Some(given) if given != cell => return Err(ChunkError::Fixed { given, cell }),
                    _ => Shape::Segments { bytes, multiple_of, whole },
                }
            }
            (Cut::Blocks { .. }, Some(_)) => return Err(ChunkError::None),
            (Cut::Blocks { large, small }, None) => Shape::Blocks { large, small, window: WINDOW_BYTES },
        };
        let part = shape.room(data.len());
        match part.checked_mul(columns) {
            Some(bytes) if bytes <= STRIPE_BYTES_MOST => {
                Ok(Chunks { coder, data, shape, fragments: profile.fragments, check: Check::Certain })
            }
            _ => Err(ChunkError::Stripe { chunk: part, columns }),
        }
    }

    /// Replaces the treatment of chunks that do not fit one another when they are read:
    /// [`Check::Certain`] unless this is called.
    pub fn with_check(self, check: Check) -> Chunks {
        Chunks { check, ..self }
    }

    /// The code.
    pub fn code(&self) -> &Code {
        self.coder.codec().code()
    }

    /// Returns the length of a chunk of one stripe; `None` where the data are one stripe, whatever
    /// their length.
    pub fn chunk_len(&self) -> Option<usize> {
        match self.shape {
            Shape::Stripes { chunk, .. } => Some(chunk),
            Shape::Segments { bytes, multiple_of, .. } => {
                Some(piece_len(bytes as u64, self.data.len(), multiple_of) as usize)
            }
            Shape::Pieces { .. } | Shape::Blocks { .. } => None,
        }
    }

    /// True if the data are one stripe, read and written at several positions at once: use
    /// [`Chunks::encode_at`] and [`Chunks::decode_at`]; streams are not possible.
    pub fn is_one_stripe(&self) -> bool {
        self.chunk_len().is_none()
    }

    /// Returns the bytes of the whole chunk of a column, all stripes together, for `data_len` bytes
    /// of data.
    pub fn len_of(&self, column: usize, data_len: u64) -> u64 {
        let k = self.data.len() as u64;
        match self.shape {
            Shape::Stripes { chunk, .. } => {
                let stripe = k.saturating_mul(chunk as u64);
                let (full, rest) = (data_len / stripe, (data_len % stripe) as usize);
                full.saturating_mul(chunk as u64).saturating_add(self.len_in(column, rest) as u64)
            }
            Shape::Pieces { multiple_of, .. } => piece_len(data_len, self.data.len(), multiple_of),
            Shape::Segments { bytes, multiple_of, .. } => {
                let of = |have: u64| match have {
                    0 => 0,
                    _ => piece_len(have, self.data.len(), multiple_of) + self.header_len(),
                };
                let bytes = bytes as u64;
                (data_len / bytes).saturating_mul(of(bytes)).saturating_add(of(data_len % bytes))
            }
            Shape::Blocks { large, small, .. } => {
                let rows = |len: u64, block: usize| len / k.saturating_mul(block as u64);
                let of_large = rows(data_len, large).saturating_mul(large as u64);
                let rest = data_len - of_large.saturating_mul(k);
                let of_small = rest.div_ceil(k * small as u64).saturating_mul(small as u64);
                of_large.saturating_add(of_small)
            }
        }
    }

    /// The most bytes of data for which every chunk has this length; `None` if the lengths of
    /// chunks differ, or none has this one, or headers have the length of the data.
    pub fn data_len_of(&self, chunk_len: u64) -> Option<u64> {
        if self.fragments.is_some() {
            return None;
        }
        let len = chunk_len.checked_mul(self.data.len() as u64)?;
        let is_filled = !matches!(self.shape, Shape::Stripes { is_filled: false, .. });
        (is_filled && self.len_of(0, len) == chunk_len).then_some(len)
    }

    /// Returns the bytes of a chunk in a stripe that has `have` bytes of data: 0 if it has none.
    fn len_in(&self, column: usize, have: usize) -> usize {
        match (self.shape, self.data.iter().position(|&of| of == column)) {
            (_, _) if have == 0 => 0,
            (Shape::Stripes { chunk, is_filled: false }, Some(place)) => {
                have.saturating_sub(place * chunk).min(chunk)
            }
            (Shape::Stripes { chunk, is_filled: false }, None) => have.min(chunk),
            (Shape::Stripes { chunk, .. }, _) => chunk,
            (shape, _) => shape.room(self.data.len()),
        }
    }

    fn header_len(&self) -> u64 {
        self.fragments.map_or(0, |_| fragments::HEADER_BYTES as u64)
    }

    /// Returns the header of a column before its bytes of a part.
    fn header(&self, column: usize, part: &Part, data_len: u64) -> Vec<u8> {
        let of_part = data_len.min(part.end).saturating_sub(part.start);
        self.fragments.map_or(Vec::new(), |of| fragments::header(&of, column, part.pitch as usize, of_part))
    }

    /// Returns the parts of `data_len` bytes of data, in order.
    fn parts(&self, data_len: u64) -> impl Iterator<Item = Part> + use<> {
        let (shape, k, piece) = (self.shape, self.data.len() as u64, self.len_of(0, data_len));
        let (mut start, mut within) = (0u64, 0u64);
        std::iter::from_fn(move || {
            let left = data_len.saturating_sub(start);
            if left == 0 {
                return None;
            }
            let (block, pitch, window) = match shape {
                Shape::Segments { bytes, multiple_of, whole } => {
                    let have = left.min(bytes as u64);
                    let pitch = piece_len(have, k as usize, multiple_of);
                    let coded = (pitch as usize).next_multiple_of(whole);
                    let part = Part { coded, start, pitch, end: start + have };
                    start += have;
                    return Some(part);
                }
                Shape::Stripes { chunk, is_filled: false } => (left.min(chunk as u64), chunk as u64, chunk),
                Shape::Stripes { chunk, .. } => (chunk as u64, chunk as u64, chunk),
                Shape::Pieces { window, .. } => (piece, piece, window),
                Shape::Blocks { large, small, window } => {
                    let is_large = left >= k.saturating_mul(large as u64);
                    let block = if is_large { large } else { small } as u64;
                    (block, block, window)
                }
            };
            let coded = (block - within).min(window as u64);
            let part =
                Part { coded: coded as usize, start: start.saturating_add(within), pitch, end: u64::MAX };
            within += coded;
            if within == block {
                (start, within) = (start.saturating_add(k.saturating_mul(pitch)), 0);
            }
            Some(part)
        })
    }

    /// Bytes of a column in its chunk, of a part.
    fn stored(&self, column: usize, part: &Part, data_len: u64) -> usize {
        match (self.shape, self.data.iter().position(|&of| of == column)) {
            (Shape::Stripes { is_filled: false, .. }, Some(place)) => part.data_of(place, data_len).1,
            (Shape::Segments { .. }, _) => part.pitch as usize,
            _ => part.coded,
        }
    }

    /// A stripe of zeros, with room for any part.
    fn empty_stripe(&self) -> Vec<Vec<u8>> {
        vec![vec![0; self.shape.room(self.data.len())]; self.code().columns()]
    }

    /// Encodes a stream to its end, stripe after stripe; returns the number of data bytes.
    ///
    /// Shape: one writer per column. Errors: reading or writing fails; bytes written before stay.
    /// Cost: memory for one stripe.
    ///
    /// # Panics
    ///
    /// If there is but one stripe ([`Chunks::is_one_stripe`]).
    pub fn encode(&self, data: &mut dyn Read, chunks: &mut [&mut dyn Write]) -> Result<u64, ShardError> {
        let chunk = self.chunk_len().expect("one stripe is for encode_at");
        self.check_count(chunks.len())?;
        if let Shape::Segments { bytes, .. } = self.shape {
            return self.encode_segments(data, chunks, bytes);
        }
        let mut stripe = vec![vec![0; chunk]; self.code().columns()];
        let mut total = 0;
        loop {
            let mut have = 0;
            for (place, &column) in self.data.iter().enumerate() {
                let buffer = &mut stripe[column];
                // The end of a stream is asked for once.
                let is_open = have == place * chunk;
                let read = if is_open { read_up_to(data, buffer).map_err(ShardError::Data)? } else { 0 };
                buffer[read..].fill(0);
                have += read;
            }
            if have == 0 {
                return Ok(total);
            }
            total += have as u64;
            // The longest of them: all are coded as far as that.
            let coded = self.len_in(self.data[0], have);
            self.coder.encode(&mut views(&mut stripe, coded))?;
            for (column, writer) in chunks.iter_mut().enumerate() {
                let part = &stripe[column][..self.len_in(column, have)];
                writer.write_all(part).map_err(|error| ShardError::Shard { column, error })?;
            }
            if have < self.data.len() * chunk {
                return Ok(total);
            }
        }
    }

    fn encode_segments(
        &self,
        data: &mut dyn Read,
        chunks: &mut [&mut dyn Write],
        bytes: usize,
    ) -> Result<u64, ShardError> {
        let (mut segment, mut total) = (vec![0; bytes], 0);
        loop {
            let have = read_up_to(data, &mut segment).map_err(ShardError::Data)?;
            self.encode_parts(&mut Cursor::new(&segment[..have]), have as u64, chunks)?;
            total += have as u64;
            if have < bytes {
                return Ok(total);
            }
        }
    }

    /// Decodes chunks, of which the lost ones are `None`, to `data_len` bytes; the chunks that were
    /// wrong.
    ///
    /// Each stripe is checked before it is written, unless [`Chunks::with_check`] says otherwise.
    /// Errors: too much is lost, a stripe has an error that is not located ([`ShardError::Doubt`]),
    /// a chunk ends too soon, reading or writing fails; earlier output stays. Cost: memory
    /// for one stripe; one encoding for the check.
    ///
    /// # Panics
    ///
    /// If there is but one stripe ([`Chunks::is_one_stripe`]).
    pub fn decode(
        &self,
        chunks: &mut [Option<&mut dyn Read>],
        data: &mut dyn Write,
        data_len: u64,
    ) -> Result<Checked, ShardError> {
        assert!(!self.is_one_stripe(), "one stripe is for decode_at");
        self.decode_to(chunks, data_len, |_, bytes| data.write_all(bytes))
    }

    fn decode_to(
        &self,
        chunks: &mut [Option<&mut dyn Read>],
        data_len: u64,
        mut put: impl FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> Result<Checked, ShardError> {
        let mut stripes = Stripes::new(&self.coder, chunks, self.check, Purpose::Data)?;
        let mut stripe = self.empty_stripe();
        for part in self.parts(data_len) {
            self.next(&mut stripes, chunks, &mut stripe, &part, data_len)?;
            for (place, &column) in self.data.iter().enumerate() {
                let (start, there) = part.data_of(place, data_len);
                if there > 0 {
                    put(start, &stripe[column][..there]).map_err(ShardError::Data)?;
                }
            }
        }
        Ok(stripes.end())
    }

    fn next(
        &self,
        stripes: &mut Stripes,
        chunks: &mut [Option<&mut dyn Read>],
        stripe: &mut [Vec<u8>],
        part: &Part,
        data_len: u64,
    ) -> Result<(), ShardError> {
        let stored = |column| self.stored(column, part, data_len);
        let header = |column| self.header(column, part, data_len);
        stripes.next(chunks, stripe, &Lengths { stored: &stored, coded: &|_| part.coded, header: &header })
    }

    /// Computes chunks from the others: those for which there is a writer, lost or wrong.
    ///
    /// Each is byte for byte as it was encoded. The rest is as of [`Chunks::decode`], for any
    /// profile.
    pub fn rebuild(
        &self,
        chunks: &mut [Option<&mut dyn Read>],
        rebuilt: &mut [Option<&mut dyn Write>],
        data_len: u64,
    ) -> Result<Checked, ShardError> {
        self.check_count(rebuilt.len())?;
        let mut stripes = Stripes::new(&self.coder, chunks, self.check, Purpose::Columns)?;
        let mut stripe = self.empty_stripe();
        for part in self.parts(data_len) {
            self.next(&mut stripes, chunks, &mut stripe, &part, data_len)?;
            for (column, writer) in rebuilt.iter_mut().enumerate() {
                let Some(writer) = writer else { continue };
                let bytes = &stripe[column][..self.stored(column, &part, data_len)];
                let header = self.header(column, &part, data_len);
                let written = writer.write_all(&header).and_then(|()| writer.write_all(bytes));
                written.map_err(|error| ShardError::Shard { column, error })?;
            }
        }
        Ok(stripes.end())
    }

    /// Reads all chunks that are there, and reports those that are wrong.
    ///
    /// Errors that are not located are counted, and do not end the call. Errors: a chunk cannot be
    /// read or ends too soon. Cost: as of [`Chunks::decode`].
    pub fn verify(&self, chunks: &mut [Option<&mut dyn Read>], data_len: u64) -> Result<Checked, ShardError> {
        let mut stripes = Stripes::new(&self.coder, chunks, self.check, Purpose::Verification)?;
        let mut stripe = self.empty_stripe();
        for part in self.parts(data_len) {
            let stored = |column| self.stored(column, &part, data_len);
            let header = |column| self.header(column, &part, data_len);
            let lengths = Lengths { stored: &stored, coded: &|_| part.coded, header: &header };
            stripes.verify_next(chunks, &mut stripe, &lengths)?;
        }
        Ok(stripes.end())
    }

    /// As [`Chunks::encode`], of so many bytes of data that can be read anywhere, for any profile.
    ///
    /// Errors: as there; and data that end too soon. Cost: memory for a window of each chunk.
    pub fn encode_at<D: Read + Seek>(
        &self,
        data: &mut D,
        data_len: u64,
        chunks: &mut [&mut dyn Write],
    ) -> Result<(), ShardError> {
        if !self.is_one_stripe() {
            let read = self.encode(&mut data.take(data_len), chunks)?;
            return match read == data_len {
                true => Ok(()),
                false => Err(ShardError::Data(io::ErrorKind::UnexpectedEof.into())),
            };
        }
        self.check_count(chunks.len())?;
        self.encode_parts(data, data_len, chunks)
    }

    fn encode_parts<D: Read + Seek>(
        &self,
        data: &mut D,
        data_len: u64,
        chunks: &mut [&mut dyn Write],
    ) -> Result<(), ShardError> {
        let mut stripe = self.empty_stripe();
        for part in self.parts(data_len) {
            for (place, &column) in self.data.iter().enumerate() {
                let (start, there) = part.data_of(place, data_len);
                let (full, rest) = stripe[column][..part.coded].split_at_mut(there);
                rest.fill(0);
                if there > 0 {
                    let read = data.seek(SeekFrom::Start(start)).and_then(|_| data.read_exact(full));
                    read.map_err(ShardError::Data)?;
                }
            }
            self.coder.encode(&mut views(&mut stripe, part.coded))?;
            for (column, writer) in chunks.iter_mut().enumerate() {
                let header = self.header(column, &part, data_len);
                let bytes = &stripe[column][..self.stored(column, &part, data_len)];
                let written = writer.write_all(&header).and_then(|()| writer.write_all(bytes));
                written.map_err(|error| ShardError::Shard { column, error })?;
            }
        }
        Ok(())
    }

    /// As [`Chunks::decode`], into data that can be written anywhere, for any profile.
    ///
    /// Errors and cost: as there and as of [`Chunks::encode_at`].
    pub fn decode_at<D: Write + Seek>(
        &self,
        chunks: &mut [Option<&mut dyn Read>],
        data: &mut D,
        data_len: u64,
    ) -> Result<Checked, ShardError> {
        if !self.is_one_stripe() {
            return self.decode(chunks, data, data_len);
        }
        self.decode_to(chunks, data_len, |start, bytes| {
            data.seek(SeekFrom::Start(start)).and_then(|_| data.write_all(bytes))
        })
    }

    fn check_count(&self, have: usize) -> Result<(), ShardError> {
        let need = self.code().columns();
        if have == need { Ok(()) } else { Err(ShardError::Count { have, need }) }
    }
}

impl Shape {
    /// The most bytes of a column that are in memory, with so many columns of data.
    fn room(self, columns: usize) -> usize {
        match self {
            Shape::Stripes { chunk, .. } => chunk,
            Shape::Pieces { window, .. } | Shape::Blocks { window, .. } => window,
            Shape::Segments { bytes, multiple_of, whole } => {
                (piece_len(bytes as u64, columns, multiple_of) as usize).next_multiple_of(whole)
            }
        }
    }
}

/// Returns the length of each of so many equal pieces of data.
fn piece_len(data_len: u64, pieces: usize, multiple_of: usize) -> u64 {
    data_len.div_ceil(pieces as u64).checked_next_multiple_of(multiple_of as u64).unwrap_or(u64::MAX)
}

fn multiple(given: usize, of: usize) -> Result<usize, ChunkError> {
    match given > 0 && given.is_multiple_of(of) {
        true => Ok(given),
        false => Err(ChunkError::Multiple { given, of }),
    }
}

/// The first bytes of every column.
fn views(stripe: &mut [Vec<u8>], len: usize) -> Vec<&mut [u8]> {
    stripe.iter_mut().map(|column| &mut column[..len]).collect()
}
