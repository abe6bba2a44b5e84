//! Shards: whole columns, as a storage system keeps them, one buffer or one stream for each.
//!
//! A shard is the cells of one column, in row order, each of one *element length*: for a code of
//! one row per column the shard is its one cell. User data fill the data cells in user order, the
//! first element length of bytes the first cell, and so on; behind the end of the data there are
//! zeros. A stream of more data than one stripe is cut into stripes, and a shard is then its part
//! of each stripe, one after the other.
//!
//! Shards can be read back with the code, the element length and the length of the data; nothing
//! else is stored.

use crate::checked::{Check, Checked, Doubt, Lengths, Purpose, Stripes, bare};
use crate::codec::{Codec, RecoverError};
use crate::coder::Coder;
use crate::stripe::{StripeError, split_columns};
use pantile_code::CellIndex;
use pantile_kernel::Buffer;
use pantile_plan::{CellSet, PlanError};
use std::fmt;
use std::io::{self, Read, Write};

/// Why shards could not be made, recovered or joined.
#[derive(Debug)]
pub enum ShardError {
    /// There must be one shard, or one place for it, per column.
    Count {
        /// Shards given.
        have: usize,
        /// Columns of the code.
        need: usize,
    },
    /// A shard has another length than the others ask for.
    Length {
        /// The column.
        column: usize,
        /// Its length in bytes.
        have: usize,
        /// The required length: rows times the element length, which the first present shard
        /// decides.
        need: usize,
    },
    /// No shard is there that says how long elements are.
    NonePresent,
    /// The shards hold fewer bytes of data than were asked for.
    TooShort {
        /// Bytes of data that they hold.
        have: usize,
        /// Bytes asked for.
        need: usize,
    },
    /// Elements of a stream have at least one byte.
    NoElement,
    /// Too much is missing.
    Plan(PlanError),
    /// A stripe does not satisfy its equations, and its error was not located.
    Doubt(Doubt),
    /// Reading the data, or writing it.
    Data(io::Error),
    /// Reading a shard, or writing it; the end of a shard before the end of the data is
    /// `UnexpectedEof`.
    Shard {
        /// The column.
        column: usize,
        /// The error of the system.
        error: io::Error,
    },
}

impl fmt::Display for ShardError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShardError::Count { have, need } => {
                write!(
                    out,
                    "the code has {need} columns, {have} shards were given; give one per column, None where it is lost"
                )
            }
            ShardError::Length { column, have, need } => {
                write!(
                    out,
                    "the shard of column {column} has {have} bytes where {need} are needed; all shards must be of one stripe"
                )
            }
            ShardError::NonePresent => {
                write!(out, "no shard is there that says how long elements are; give at least one")
            }
            ShardError::TooShort { have, need } => {
                write!(
                    out,
                    "the shards hold {have} bytes of data, {need} were asked for; ask for as many as were split"
                )
            }
            ShardError::NoElement => write!(out, "elements of 0 bytes; give at least 1"),
            ShardError::Plan(error) => error.fmt(out),
            ShardError::Doubt(doubt) => doubt.fmt(out),
            ShardError::Data(error) => write!(out, "the data: {error}"),
            ShardError::Shard { column, error } if error.kind() == io::ErrorKind::UnexpectedEof => write!(
                out,
                "the shard of column {column} ends before the data do; leave it out as lost, or give the length of \
                 the data as they were encoded"
            ),
            ShardError::Shard { column, error } => write!(out, "the shard of column {column}: {error}"),
        }
    }
}

impl std::error::Error for ShardError {}

impl From<RecoverError> for ShardError {
    fn from(error: RecoverError) -> ShardError {
        match error {
            RecoverError::Plan(error) => ShardError::Plan(error),
            RecoverError::Stripe(error) => of_shards(error),
        }
    }
}

impl From<StripeError> for ShardError {
    fn from(error: StripeError) -> ShardError {
        of_shards(error)
    }
}

/// Turns a codec's error on buffers that were counted and measured here into one on shards.
fn of_shards(error: StripeError) -> ShardError {
    match error {
        StripeError::ColumnCount { have, need } => ShardError::Count { have, need },
        StripeError::ColumnLength { column, have, need } => ShardError::Length { column, have, need },
        other => unreachable!("shards are counted and measured before they are cut: {other}"),
    }
}

impl Codec {
    /// Returns the element length, in bytes, with which one stripe holds `data_len` bytes of data:
    /// at least 1.
    pub fn element_len_for(&self, data_len: usize) -> usize {
        data_len.div_ceil(self.code().data().len()).max(1)
    }

    /// Splits data into the shards of one stripe, parity included; behind the data there are zeros.
    ///
    /// Shape: one shard per column, of rows x [`Codec::element_len_for`] bytes each.
    /// Cost: a copy of the data and one encoding; memory for all shards.
    ///
    /// ```
    /// let codec = pantile::Codec::parse("rs:4+2")?;
    /// let mut shards: Vec<Option<Vec<u8>>> = codec.split(b"what must not be lost").into_iter().map(Some).collect();
    /// shards[1] = None;
    /// shards[4] = None;
    /// codec.restore(&mut shards)?;
    /// let shards: Vec<Vec<u8>> = shards.into_iter().flatten().collect();
    /// assert_eq!(codec.join(&shards, 21)?, b"what must not be lost");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn split(&self, data: &[u8]) -> Vec<Vec<u8>> {
        let element = self.element_len_for(data.len());
        let mut shards = self.empty_shards(element);
        let mut views: Vec<&mut [u8]> = shards.iter_mut().map(Vec::as_mut_slice).collect();
        match self.fill(&mut views, element, data) {
            Ok(()) => shards,
            Err(error) => unreachable!("the shards were made for this code: {error}"),
        }
    }

    /// Joins the data of all shards of a stripe: the first bytes, as many as were split.
    ///
    /// Errors: the shards are not one stripe of the code, or hold fewer bytes. Parity is not looked
    /// at.
    pub fn join<S: AsRef<[u8]>>(&self, shards: &[S], data_len: usize) -> Result<Vec<u8>, ShardError> {
        let element = self.element_len_of(shards.iter().map(|shard| Some(shard.as_ref().len())))?;
        let have = self.code().data().len() * element;
        if have < data_len {
            return Err(ShardError::TooShort { have, need: data_len });
        }
        let mut data = vec![0; data_len];
        let cells: Vec<Buffer<'_>> = self.views(shards, element).map(Buffer::Read).collect();
        self.join_given(&cells, &mut data).map_err(of_shards)?;
        Ok(data)
    }

    /// Rebuilds the lost shards (`None`) from the others.
    ///
    /// Errors: more shards are lost than the code can recover; the shards are not of one stripe.
    /// Nothing is changed then. Cost: memory for the lost shards; plan and program are kept for the
    /// next call with the same losses.
    pub fn restore(&self, shards: &mut [Option<Vec<u8>>]) -> Result<(), ShardError> {
        let element = self.element_len_of(shards.iter().map(|shard| shard.as_ref().map(Vec::len)))?;
        let lost: Vec<usize> = (0..shards.len()).filter(|&column| shards[column].is_none()).collect();
        // Checked before anything is rebuilt, so that an error changes nothing.
        self.decoder(&lost).map_err(ShardError::Plan)?;
        for &column in &lost {
            shards[column] = Some(vec![0; self.code().rows(column) * element]);
        }
        let mut views: Vec<&mut [u8]> = shards.iter_mut().flatten().map(Vec::as_mut_slice).collect();
        let mut cells = split_columns(self.code(), &mut views, element).map_err(of_shards)?;
        Ok(self.reconstruct(&mut cells, &lost)?)
    }

    /// True if all shards of a stripe fit one another.
    ///
    /// `false`: at least one shard is wrong; [`Codec::checker`] names it if the code can. Errors:
    /// the shards are not of one stripe. Cost: products of one encoding; no copy.
    pub fn verify<S: AsRef<[u8]>>(&self, shards: &[S]) -> Result<bool, ShardError> {
        let element = self.element_len_of(shards.iter().map(|shard| Some(shard.as_ref().len())))?;
        let cells: Vec<&[u8]> = self.views(shards, element).collect();
        let checker = self.checker(&CellSet::empty(self.code())).map_err(ShardError::Plan)?;
        Ok(checker.first_fault(&cells).map_err(of_shards)?.is_none())
    }

    /// Returns the bytes of the shard of a column that [`Codec::encode_stream`] makes of `data_len`
    /// bytes of data.
    pub fn shard_len(&self, column: usize, element_len: usize, data_len: u64) -> u64 {
        let stripes = data_len.div_ceil(self.stripe_len(element_len));
        stripes.saturating_mul(self.code().rows(column) as u64).saturating_mul(element_len as u64)
    }

    /// Encodes a stream to its end, and writes each shard's part of stripe after stripe; returns
    /// the number of data bytes.
    ///
    /// Shape: one writer per column. The last stripe is filled up with zeros; no data make no
    /// stripe. Errors: reading or writing fails; bytes written before stay. Cost: memory for one
    /// stripe.
    pub fn encode_stream(
        &self,
        data: &mut dyn Read,
        shards: &mut [&mut dyn Write],
        element_len: usize,
    ) -> Result<u64, ShardError> {
        self.check_stream(shards.len(), element_len)?;
        let mut stripe = self.empty_shards(element_len);
        let mut block = vec![0; self.code().data().len() * element_len];
        let mut total = 0;
        loop {
            let have = read_up_to(data, &mut block).map_err(ShardError::Data)?;
            if have == 0 {
                return Ok(total);
            }
            total += have as u64;
            let mut views: Vec<&mut [u8]> = stripe.iter_mut().map(Vec::as_mut_slice).collect();
            self.fill(&mut views, element_len, &block[..have])?;
            for (column, (shard, bytes)) in shards.iter_mut().zip(&stripe).enumerate() {
                shard.write_all(bytes).map_err(|error| ShardError::Shard { column, error })?;
            }
            if have < block.len() {
                return Ok(total);
            }
        }
    }

    /// Decodes a stream: reads shards stripe by stripe, computes the lost ones (`None`) and writes
    /// `data_len` bytes; the shards that were wrong.
    ///
    /// As [`Codec::decode_stream_with`], with [`Check::Certain`].
    pub fn decode_stream(
        &self,
        shards: &mut [Option<&mut dyn Read>],
        data: &mut dyn Write,
        element_len: usize,
        data_len: u64,
    ) -> Result<Checked, ShardError> {
        self.decode_stream_with(shards, data, element_len, data_len, Check::Certain)
    }

    /// Decodes a stream, with this treatment of shards that do not fit one another.
    ///
    /// Each stripe is checked before it is written. Errors: too much is lost, a stripe has an error
    /// that is not located ([`ShardError::Doubt`]), a shard ends before the data do, reading or
    /// writing fails; bytes written before stay. Cost: memory for one stripe; all shards are read,
    /// and the check costs one encoding. [`Check::Off`] saves it, and reads only the shards that
    /// decoding needs.
    pub fn decode_stream_with(
        &self,
        shards: &mut [Option<&mut dyn Read>],
        data: &mut dyn Write,
        element_len: usize,
        data_len: u64,
        check: Check,
    ) -> Result<Checked, ShardError> {
        self.check_stream(shards.len(), element_len)?;
        let mut stripes = Stripes::new(&self.coder(), shards, check, Purpose::Data)?;
        let mut stripe = self.empty_shards(element_len);
        let mut left = data_len;
        while left > 0 {
            let len = |column| self.code().rows(column) * element_len;
            stripes.next(shards, &mut stripe, &Lengths { stored: &len, coded: &len, header: &bare })?;
            let here = left.min(self.stripe_len(element_len));
            let joined = self.join(&stripe, here as usize)?;
            data.write_all(&joined).map_err(ShardError::Data)?;
            left -= here;
        }
        Ok(stripes.end())
    }

    /// Computes shards of a stream from the others: those for which there is a writer, lost or
    /// wrong.
    ///
    /// Each is byte for byte as it was encoded. The rest is as of [`Codec::decode_stream_with`].
    pub fn rebuild_stream(
        &self,
        shards: &mut [Option<&mut dyn Read>],
        rebuilt: &mut [Option<&mut dyn Write>],
        element_len: usize,
        data_len: u64,
        check: Check,
    ) -> Result<Checked, ShardError> {
        self.check_stream(shards.len(), element_len)?;
        self.check_stream(rebuilt.len(), element_len)?;
        let mut stripes = Stripes::new(&self.coder(), shards, check, Purpose::Columns)?;
        let mut stripe = self.empty_shards(element_len);
        for _ in 0..data_len.div_ceil(self.stripe_len(element_len)) {
            let len = |column| self.code().rows(column) * element_len;
            stripes.next(shards, &mut stripe, &Lengths { stored: &len, coded: &len, header: &bare })?;
            for (column, (writer, bytes)) in rebuilt.iter_mut().zip(&stripe).enumerate() {
                let Some(writer) = writer else { continue };
                writer.write_all(bytes).map_err(|error| ShardError::Shard { column, error })?;
            }
        }
        Ok(stripes.end())
    }

    /// Reads all shards of a stream that are there, and reports those that are wrong.
    ///
    /// Errors that are not located are counted, and do not end the call. Errors: a shard ends
    /// before the data do, or reading fails. Cost: as of [`Codec::decode_stream_with`].
    pub fn verify_stream(
        &self,
        shards: &mut [Option<&mut dyn Read>],
        element_len: usize,
        data_len: u64,
        check: Check,
    ) -> Result<Checked, ShardError> {
        self.check_stream(shards.len(), element_len)?;
        let mut stripes = Stripes::new(&self.coder(), shards, check, Purpose::Verification)?;
        let mut stripe = self.empty_shards(element_len);
        for _ in 0..data_len.div_ceil(self.stripe_len(element_len)) {
            let len = |column| self.code().rows(column) * element_len;
            stripes.verify_next(
                shards,
                &mut stripe,
                &Lengths { stored: &len, coded: &len, header: &bare },
            )?;
        }
        Ok(stripes.end())
    }

    fn coder(&self) -> Coder {
        Coder::Rows(self.clone())
    }

    /// Bytes of data in a stripe.
    fn stripe_len(&self, element_len: usize) -> u64 {
        (self.code().data().len() as u64).saturating_mul(element_len as u64).max(1)
    }

    /// Splits data into the cells of one stripe, in user order, parity included; behind the data
    /// there are zeros. As [`Codec::split`], into buffers of the caller's.
    ///
    /// Errors: buffers that are not a stripe, or not all to be written, or that hold fewer bytes;
    /// nothing is then written. Cost: a copy of the data and one encoding.
    pub fn split_given(&self, data: &[u8], cells: &mut [Buffer<'_>]) -> Result<(), StripeError> {
        let element = self.holding(cells, data.len())?;
        if let Some(cell) = cells.iter().position(|cell| !matches!(cell, Buffer::Write(_))) {
            return Err(StripeError::CellGiven { cell, is_written: true });
        }
        let mut rest = data;
        for &cell in self.code().data() {
            let Buffer::Write(target) = &mut cells[cell.usize()] else { continue };
            let (here, later) = rest.split_at(rest.len().min(element));
            target[..here.len()].copy_from_slice(here);
            target[here.len()..].fill(0);
            rest = later;
        }
        self.encode_given(cells)
    }

    /// Fills `data` from all shards of a stripe. As [`Codec::join`], with buffers of the caller;
    /// cells of parity may be absent.
    ///
    /// Errors: buffers that are not a stripe, or hold fewer bytes, or lack a cell of data; nothing
    /// is then written.
    pub fn join_given(&self, cells: &[Buffer<'_>], data: &mut [u8]) -> Result<(), StripeError> {
        let element = self.holding(cells, data.len())?;
        let content = |cell: CellIndex| match &cells[cell.usize()] {
            Buffer::Absent => None,
            Buffer::Read(bytes) => Some(*bytes),
            Buffer::Write(bytes) => Some(&**bytes),
        };
        let lacks = |&&cell: &&CellIndex| content(cell).is_none();
        if let Some(cell) = self.code().data().iter().find(lacks) {
            return Err(StripeError::CellGiven { cell: cell.usize(), is_written: false });
        }
        let parts = data.chunks_mut(element.max(1));
        for (part, bytes) in parts.zip(self.code().data().iter().filter_map(|&cell| content(cell))) {
            part.copy_from_slice(&bytes[..part.len()]);
        }
        Ok(())
    }

    /// Returns the element length of a stripe of which some buffers are given, if it holds
    /// `data_len` bytes of data.
    fn holding(&self, cells: &[Buffer<'_>], data_len: usize) -> Result<usize, StripeError> {
        let need = self.code().cell_count();
        if cells.len() != need {
            return Err(StripeError::CellCount { have: cells.len(), need });
        }
        let mut there = cells.iter().enumerate().filter_map(|(cell, given)| Some((cell, given.len_bytes()?)));
        let element = there.next().map_or(0, |(_, len)| len);
        if let Some((cell, have)) = there.find(|&(_, len)| len != element) {
            return Err(StripeError::UnequalLengths { cell, have, need: element });
        }
        let have = self.code().data().len() * element;
        match data_len <= have {
            true => Ok(element),
            false => Err(StripeError::Holds { have, need: data_len }),
        }
    }

    /// Fills shards of one stripe with data, and computes parity.
    fn fill(&self, shards: &mut [&mut [u8]], element: usize, data: &[u8]) -> Result<(), ShardError> {
        let cells = split_columns(self.code(), shards, element).map_err(of_shards)?;
        let mut cells: Vec<Buffer<'_>> = cells.into_iter().map(Buffer::Write).collect();
        self.split_given(data, &mut cells).map_err(of_shards)
    }

    /// The cells of shards.
    fn views<'s, S: AsRef<[u8]>>(
        &self,
        shards: &'s [S],
        element: usize,
    ) -> impl Iterator<Item = &'s [u8]> + use<'s, '_, S> {
        self.code().cells().map(move |cell| {
            let at = self.code().cell(cell);
            &shards[at.column].as_ref()[at.row * element..][..element]
        })
    }

    /// A stripe of zeros.
    fn empty_shards(&self, element: usize) -> Vec<Vec<u8>> {
        (0..self.code().columns()).map(|column| vec![0; self.code().rows(column) * element]).collect()
    }

    fn check_stream(&self, have: usize, element_len: usize) -> Result<(), ShardError> {
        let need = self.code().columns();
        match (have == need, element_len) {
            (false, _) => Err(ShardError::Count { have, need }),
            (true, 0) => Err(ShardError::NoElement),
            (true, _) => Ok(()),
        }
    }

    /// The element length that the shards which are there agree on.
    fn element_len_of(
        &self,
        lens: impl ExactSizeIterator<Item = Option<usize>> + Clone,
    ) -> Result<usize, ShardError> {
        let need = self.code().columns();
        if lens.len() != need {
            return Err(ShardError::Count { have: lens.len(), need });
        }
        let rows = |column: usize| self.code().rows(column);
        let there = || lens.clone().enumerate().filter_map(|(column, len)| Some((column, len?)));
        // A column without cells does not show the length.
        let Some((first, len)) = there().find(|&(column, _)| rows(column) > 0) else {
            return Err(ShardError::NonePresent);
        };
        let element = len / rows(first);
        match there().find(|&(column, have)| have != rows(column) * element) {
            None => Ok(element),
            Some((column, have)) => Err(ShardError::Length { column, have, need: rows(column) * element }),
        }
    }
}

/// Reads until the buffer is full or there is no more; how much that was.
pub(crate) fn read_up_to(from: &mut dyn Read, into: &mut [u8]) -> io::Result<usize> {
    let mut have = 0;
    while have < into.len() {
        match from.read(&mut into[have..]) {
            Ok(0) => break,
            Ok(read) => have += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(have)
}
