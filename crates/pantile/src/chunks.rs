//! Chunks as other systems cut them: one stream for each column, byte for byte what the system of a
//! [`Profile`] would store.
//!
//! The data columns of such codes hold user data and nothing else, and the data fill one chunk
//! after another. Nothing is stored beside the chunks: who knows the profile, the length of chunks
//! and that of the data can read them back.

use crate::codec::{Codec, RecoverError};
use crate::packets::PacketCodec;
use crate::recovery::{PacketRecovery, Recovery};
use crate::shards::{ShardError, read_up_to};
use crate::stripe::{StripeError, split_columns};
use crate::words::{rows_of_words, words_of_rows};
use pantile_code::Code;
use pantile_code::foreign::{Cut, Profile, Rows};
use pantile_plan::PlanError;
use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

/// The most bytes of a stripe, all columns together: what coding keeps in memory.
const STRIPE_BYTES_MOST: usize = 1 << 30;

/// About so many bytes of each chunk are worked on at once where chunks are pieces of one stripe.
const WINDOW_BYTES: usize = 256 << 10;

/// Why chunks cannot have a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkError {
    /// The system has no such chunks.
    Multiple {
        /// The length asked for.
        given: usize,
        /// What it must be a multiple of.
        of: usize,
    },
    /// The name of the profile says how long they are.
    Fixed {
        /// The length asked for.
        given: usize,
        /// The length that the profile has.
        cell: usize,
    },
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
}

/// How long chunks are.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// Stripes of chunks of one length, the last one filled up with zeros or not.
    Stripes { chunk: usize, is_filled: bool },
    /// One stripe; coded in windows of each chunk.
    Pieces { multiple_of: usize, window: usize },
}

/// A code on whole columns.
#[derive(Clone, Debug)]
enum Coder {
    Rows(Codec),
    Packets(PacketCodec),
    BitsOfWords(Codec),
}

enum Decoder {
    Rows(Code, Arc<Recovery>),
    Packets(Arc<PacketRecovery>),
    BitsOfWords(Code, Arc<Recovery>),
}

impl Coder {
    fn codec(&self) -> &Codec {
        match self {
            Coder::Rows(codec) | Coder::BitsOfWords(codec) => codec,
            Coder::Packets(packets) => packets.codec(),
        }
    }

    fn encode(&self, columns: &mut [&mut [u8]]) -> Result<(), ShardError> {
        let coded = match self {
            Coder::Rows(codec) => in_pieces(codec.code(), columns, |cells| codec.encode(cells)),
            Coder::Packets(packets) => packets.encode(columns),
            Coder::BitsOfWords(codec) => in_bits(codec.code(), columns, |cells| codec.encode(cells)),
        };
        coded.map_err(|error| ShardError::from(RecoverError::Stripe(error)))
    }

    fn decoder(&self, lost: &[usize]) -> Result<Decoder, PlanError> {
        Ok(match self {
            Coder::Rows(codec) => Decoder::Rows(codec.code().clone(), codec.decoder(lost)?),
            Coder::Packets(packets) => Decoder::Packets(packets.decoder(lost)?),
            Coder::BitsOfWords(codec) => Decoder::BitsOfWords(codec.code().clone(), codec.decoder(lost)?),
        })
    }
}

impl Decoder {
    fn run(&self, columns: &mut [&mut [u8]]) -> Result<(), ShardError> {
        let coded = match self {
            Decoder::Rows(code, recovery) => in_pieces(code, columns, |cells| recovery.run(cells)),
            Decoder::Packets(recovery) => recovery.run(columns),
            Decoder::BitsOfWords(code, recovery) => in_bits(code, columns, |cells| recovery.run(cells)),
        };
        coded.map_err(|error| ShardError::from(RecoverError::Stripe(error)))
    }
}

/// Codes columns whose rows lie one behind the other.
fn in_pieces(
    code: &Code,
    columns: &mut [&mut [u8]],
    work: impl FnOnce(&mut [&mut [u8]]) -> Result<(), StripeError>,
) -> Result<(), StripeError> {
    let row_bytes = columns.first().map_or(0, |column| column.len() / code.rows_max());
    work(&mut split_columns(code, columns, row_bytes)?)
}

/// Codes columns of words by their rows of bits.
fn in_bits(
    code: &Code,
    columns: &mut [&mut [u8]],
    work: impl FnOnce(&mut [&mut [u8]]) -> Result<(), StripeError>,
) -> Result<(), StripeError> {
    let bits = code.rows_max();
    let mut rows: Vec<Vec<u8>> = columns.iter().map(|column| vec![0; column.len()]).collect();
    rows.iter_mut().zip(&*columns).for_each(|(rows, words)| rows_of_words(words, bits, rows));
    in_pieces(code, &mut rows.iter_mut().map(|rows| &mut rows[..]).collect::<Vec<_>>(), work)?;
    columns.iter_mut().zip(&rows).for_each(|(words, rows)| words_of_rows(rows, bits, words));
    Ok(())
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
        // What a window must be a multiple of.
        let rows = profile.code.rows_max();
        let (coder, whole) = match profile.rows {
            Rows::Pieces => (Coder::Rows(codec), rows),
            Rows::BitsOfWords => (Coder::BitsOfWords(codec), rows),
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
        };
        let (Shape::Stripes { chunk: part, .. } | Shape::Pieces { window: part, .. }) = shape;
        match part.checked_mul(columns) {
            Some(bytes) if bytes <= STRIPE_BYTES_MOST => Ok(Chunks { coder, data, shape }),
            _ => Err(ChunkError::Stripe { chunk: part, columns }),
        }
    }

    /// The code.
    pub fn code(&self) -> &Code {
        self.coder.codec().code()
    }

    /// The length of a chunk of one stripe; `None` where there is one stripe of whatever length the
    /// data have.
    pub fn chunk_len(&self) -> Option<usize> {
        match self.shape {
            Shape::Stripes { chunk, .. } => Some(chunk),
            Shape::Pieces { .. } => None,
        }
    }

    /// Whether data are read and written at several places at once: [`Chunks::encode_at`] and
    /// [`Chunks::decode_at`] are then the calls, and streams will not do.
    pub fn is_one_stripe(&self) -> bool {
        self.chunk_len().is_none()
    }

    /// Bytes of the whole chunk of a column, all stripes together, for so many bytes of data.
    pub fn len_of(&self, column: usize, data_len: u64) -> u64 {
        let k = self.data.len() as u64;
        match self.shape {
            Shape::Stripes { chunk, .. } => {
                let stripe = k.saturating_mul(chunk as u64);
                let (full, rest) = (data_len / stripe, (data_len % stripe) as usize);
                full.saturating_mul(chunk as u64).saturating_add(self.len_in(column, rest) as u64)
            }
            Shape::Pieces { multiple_of, .. } => {
                let piece = data_len.div_ceil(k);
                piece.checked_next_multiple_of(multiple_of as u64).unwrap_or(u64::MAX)
            }
        }
    }

    /// Bytes of a chunk in a stripe that has so many bytes of data: 0 if it has none.
    fn len_in(&self, column: usize, have: usize) -> usize {
        match (self.shape, self.data.iter().position(|&of| of == column)) {
            (_, _) if have == 0 => 0,
            (Shape::Stripes { chunk, is_filled: false }, Some(place)) => {
                have.saturating_sub(place * chunk).min(chunk)
            }
            (Shape::Stripes { chunk, is_filled: false }, None) => have.min(chunk),
            (Shape::Stripes { chunk, .. }, _) => chunk,
            (Shape::Pieces { window, .. }, _) => window,
        }
    }

    /// Encodes a stream to its end, stripe after stripe; the bytes of data.
    ///
    /// Shape: one writer per column. Errors: reading or writing fails; what was written by then
    /// stays. Cost: memory for one stripe.
    ///
    /// # Panics
    ///
    /// If there is but one stripe ([`Chunks::is_one_stripe`]).
    pub fn encode(&self, data: &mut dyn Read, chunks: &mut [&mut dyn Write]) -> Result<u64, ShardError> {
        let chunk = self.chunk_len().expect("one stripe is for encode_at");
        self.check(chunks.len())?;
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

    /// Decodes chunks, of which the lost ones are `None`, to `data_len` bytes.
    ///
    /// Errors: too much is lost, a chunk ends too soon, reading or writing fails; what was written
    /// by then stays. Cost: memory for one stripe.
    ///
    /// # Panics
    ///
    /// If there is but one stripe ([`Chunks::is_one_stripe`]).
    pub fn decode(
        &self,
        chunks: &mut [Option<&mut dyn Read>],
        data: &mut dyn Write,
        data_len: u64,
    ) -> Result<(), ShardError> {
        let chunk = self.chunk_len().expect("one stripe is for decode_at");
        let decoder = self.decoder(chunks)?;
        let mut stripe = vec![vec![0; chunk]; self.code().columns()];
        let mut left = data_len;
        while left > 0 {
            let have = left.min((self.data.len() * chunk) as u64) as usize;
            let coded = self.len_in(self.data[0], have);
            read_all(chunks, &mut stripe, |column| self.len_in(column, have))?;
            if let Some(decoder) = &decoder {
                decoder.run(&mut views(&mut stripe, coded))?;
            }
            for (place, &column) in self.data.iter().enumerate() {
                let part = have.saturating_sub(place * chunk).min(chunk);
                data.write_all(&stripe[column][..part]).map_err(ShardError::Data)?;
            }
            left -= have as u64;
        }
        Ok(())
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
        let Shape::Pieces { window, .. } = self.shape else {
            let read = self.encode(&mut data.take(data_len), chunks)?;
            return match read == data_len {
                true => Ok(()),
                false => Err(ShardError::Data(io::ErrorKind::UnexpectedEof.into())),
            };
        };
        self.check(chunks.len())?;
        let piece = self.len_of(0, data_len);
        let mut stripe = vec![vec![0; window]; self.code().columns()];
        let mut from = 0;
        while from < piece {
            let coded = (piece - from).min(window as u64) as usize;
            for (place, &column) in self.data.iter().enumerate() {
                let start = (place as u64 * piece).saturating_add(from);
                let there = data_len.saturating_sub(start).min(coded as u64) as usize;
                let (full, rest) = stripe[column][..coded].split_at_mut(there);
                let read = data.seek(SeekFrom::Start(start)).and_then(|_| data.read_exact(full));
                read.map_err(ShardError::Data)?;
                rest.fill(0);
            }
            self.coder.encode(&mut views(&mut stripe, coded))?;
            for (column, writer) in chunks.iter_mut().enumerate() {
                let part = &stripe[column][..coded];
                writer.write_all(part).map_err(|error| ShardError::Shard { column, error })?;
            }
            from += coded as u64;
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
    ) -> Result<(), ShardError> {
        let Shape::Pieces { window, .. } = self.shape else {
            return self.decode(chunks, data, data_len);
        };
        let decoder = self.decoder(chunks)?;
        let piece = self.len_of(0, data_len);
        let mut stripe = vec![vec![0; window]; self.code().columns()];
        let mut from = 0;
        while from < piece {
            let coded = (piece - from).min(window as u64) as usize;
            read_all(chunks, &mut stripe, |_| coded)?;
            if let Some(decoder) = &decoder {
                decoder.run(&mut views(&mut stripe, coded))?;
            }
            for (place, &column) in self.data.iter().enumerate() {
                let start = (place as u64 * piece).saturating_add(from);
                let there = data_len.saturating_sub(start).min(coded as u64) as usize;
                if there > 0 {
                    let part = &stripe[column][..there];
                    let written = data.seek(SeekFrom::Start(start)).and_then(|_| data.write_all(part));
                    written.map_err(ShardError::Data)?;
                }
            }
            from += coded as u64;
        }
        Ok(())
    }

    fn check(&self, have: usize) -> Result<(), ShardError> {
        let need = self.code().columns();
        if have == need { Ok(()) } else { Err(ShardError::Count { have, need }) }
    }

    /// What recovers the chunks that are lost; `None` where none is.
    fn decoder(&self, chunks: &[Option<&mut dyn Read>]) -> Result<Option<Decoder>, ShardError> {
        self.check(chunks.len())?;
        let lost: Vec<usize> = (0..chunks.len()).filter(|&column| chunks[column].is_none()).collect();
        match lost.is_empty() {
            true => Ok(None),
            false => self.coder.decoder(&lost).map(Some).map_err(ShardError::Plan),
        }
    }
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

/// Reads the next part of every chunk that is there, and zeros behind it.
fn read_all(
    chunks: &mut [Option<&mut dyn Read>],
    stripe: &mut [Vec<u8>],
    len: impl Fn(usize) -> usize,
) -> Result<(), ShardError> {
    for (column, (chunk, buffer)) in chunks.iter_mut().zip(stripe).enumerate() {
        if let Some(chunk) = chunk {
            let (part, rest) = buffer.split_at_mut(len(column));
            chunk.read_exact(part).map_err(|error| ShardError::Shard { column, error })?;
            rest.fill(0);
        }
    }
    Ok(())
}
