//! Traces of block devices: one small interface and nine formats, recognised by content; and any
//! other format with a request a line, whose [`Columns`] the user names.
//!
//! | format | what it looks like | times |
//! | --- | --- | --- |
//! | MSR Cambridge CSV | `128166372003061629,hm,0,Read,383496192,32768,413` | 100 ns |
//! | SPC | `0,20941264,8192,W,0.551706`: unit, sector, bytes | seconds |
//! | Alibaba 2020 | `419,W,8792731648,16384,1577808000000046` | microseconds |
//! | Tencent 2018 | `1538323200,12910952,128,0,1283`: sectors, 0 reads | seconds |
//! | Systor '17 | `1455592257.006301,0.000117,R,0,1048576,4096` | seconds |
//! | blkparse text | `8,0 1 1 0.000000000 697 Q W 223490 + 8 [jbd2]`: queued ones | seconds |
//! | fio iolog 2 | `fio version 2 iolog`, then `file write OFFSET LEN`, `file wait MICROSECONDS` | microseconds |
//! | fio iolog 3 | `fio version 3 iolog`, then `TIME file write OFFSET LEN` | microseconds (fio 3.33) |
//! | CloudPhysics vscsi 1, 2 | records of 32 or 40 bytes, sectors of 512 bytes | microseconds |
//!
//! Reading is streaming: a trace of any length takes the memory of one line. A line that cannot be
//! read is an item with its number and text, and reading goes on after it.
//!
//! A volume is a disk, a device, a unit, a LUN or a file, by the format. One of a trace is read:
//! [`TraceOptions::volume`], or the only one.

mod columns;
mod packed;
mod volumes;

pub use columns::{Columns, ColumnsError};
pub use packed::unpacked;
pub use volumes::{SeveralVolumes, Volumes};

use super::lines;
use columns::Places;
use std::fmt;
use std::io::{self, BufRead, Read};
use volumes::Tally;

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Microseconds since the first request of the trace.
    pub at_us: u64,
    /// The first byte.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// True for a write, false for a read.
    pub is_write: bool,
}

/// A line, or a record of a binary format, that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Number of the line, from 1.
    pub number: u64,
    /// Its text, cut to 120 characters.
    pub text: String,
    /// Its fault.
    pub reason: &'static str,
}

impl fmt::Display for BadLine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}: {}: {:?}", self.number, self.reason, self.text)
    }
}

/// Reason why a trace cannot be read at all.
#[derive(Debug)]
pub enum TraceError {
    /// Reading failed.
    Io(io::Error),
    /// It begins like none of the formats.
    Unknown {
        /// Its first line, cut.
        begins: String,
    },
    /// A named column that its first line does not have.
    NoColumn {
        /// The name.
        name: String,
        /// The first line, cut.
        begins: String,
    },
    /// A volume was requested, and requests do not name theirs.
    NoVolumes,
}

impl fmt::Display for TraceError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceError::Io(error) => error.fmt(out),
            TraceError::Unknown { begins } => write!(
                out,
                "it begins with {begins:?}, which is no trace of MSR Cambridge, SPC, Alibaba, Tencent, Systor '17, blkparse, fio (iolog 2 or 3) \
                 or CloudPhysics (vscsi); convert it to one of these, or name its columns with --columns"
            ),
            TraceError::NoColumn { name, begins } => write!(
                out,
                "its first line {begins:?} has no column '{name}'; write a name of it in --columns, or the number of the column"
            ),
            TraceError::NoVolumes => out.write_str(
                "its requests do not say which volume they are of; leave out --volume, or name the column with --columns volume=",
            ),
        }
    }
}

impl TraceError {
    /// Returns the command that unpacks a compressed trace, by the first bytes of the file.
    pub fn unpacked_by(&self) -> Option<&'static str> {
        let TraceError::Unknown { begins } = self else { return None };
        // Characters as the message shows them: control characters are question marks.
        let magics = [("\u{fffd}7zXZ", "xz -dc"), ("BZh", "bzip2 -dc")];
        magics.into_iter().find(|(magic, _)| begins.starts_with(magic)).map(|(_, tool)| tool)
    }
}

impl std::error::Error for TraceError {}

impl From<io::Error> for TraceError {
    fn from(error: io::Error) -> TraceError {
        TraceError::Io(error)
    }
}

/// Item of a trace: a request, or a bad line.
pub type Item = Result<Request, BadLine>;

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// MSR Cambridge CSV.
    Msr,
    /// SPC, in the form of the UMass repository.
    Spc,
    /// Alibaba's block traces of 2020.
    Alibaba,
    /// Tencent's block traces of 2018.
    Tencent,
    /// LUNs of a virtual desktop, published with Systor '17.
    Systor,
    /// Output of blkparse.
    Blkparse,
    /// fio iolog, version 2.
    Fio2,
    /// fio iolog, version 3.
    Fio3,
    /// CloudPhysics vscsi, version 1.
    Vscsi1,
    /// CloudPhysics vscsi, version 2.
    Vscsi2,
    /// Any other, by named columns.
    Columns,
}

impl Format {
    /// Formats that can also be written.
    pub const WRITABLE: [Format; 5] =
        [Format::Msr, Format::Fio2, Format::Fio3, Format::Vscsi1, Format::Vscsi2];

    /// Returns the name that options use.
    pub fn name(self) -> &'static str {
        match self {
            Format::Msr => "msr",
            Format::Spc => "spc",
            Format::Alibaba => "alibaba",
            Format::Tencent => "tencent",
            Format::Systor => "systor",
            Format::Blkparse => "blkparse",
            Format::Fio2 => "fio2",
            Format::Fio3 => "fio3",
            Format::Vscsi1 => "vscsi1",
            Format::Vscsi2 => "vscsi2",
            Format::Columns => "columns",
        }
    }
}

/// Parts of a trace that are read. By default all of a trace of one volume, by its format.
#[derive(Clone, Debug, Default)]
pub struct TraceOptions {
    /// Name of the only volume that is read.
    pub volume: Option<String>,
    /// Columns of a line, for a trace of no known format.
    pub columns: Option<Columns>,
}

/// A trace being read.
pub struct Trace<R> {
    /// The bytes read to recognise the format, and the rest.
    from: io::Chain<io::Cursor<Vec<u8>>, R>,
    format: Format,
    line: Vec<u8>,
    /// True if the line is longer than the maximum: `line` is its beginning, and the rest is
    /// skipped.
    is_cut: bool,
    /// Lines or records so far.
    number: u64,
    /// Time of the first request, in the unit of the format; of fio 2 the waited time.
    first: Option<u64>,
    waited_us: u64,
    ended: bool,
    places: Option<Places>,
    wanted: Option<Vec<u8>>,
    /// Volume of the last line; empty if the format has none.
    volume: Vec<u8>,
    /// The only volume so far and its requests, if none was requested.
    only: Option<(Vec<u8>, u64)>,
    others: Tally,
}

impl<R: BufRead> Trace<R> {
    /// Opens a trace of one volume, of a known format.
    ///
    /// Errors: those of [`Trace::open_with`].
    pub fn open(from: R) -> Result<Trace<R>, TraceError> {
        Trace::open_with(from, &TraceOptions::default())
    }

    /// Opens a trace and recognises its format.
    ///
    /// Errors: it cannot be read, or is of no known format; it lacks a requested column, or
    /// requests do not name their volumes. An empty file is an MSR trace without requests.
    pub fn open_with(mut from: R, options: &TraceOptions) -> Result<Trace<R>, TraceError> {
        // A pipe returns the bytes written so far: one read can be a part of the first line.
        let mut begin = Vec::new();
        from.by_ref().take(BEGIN_BYTES).read_to_end(&mut begin)?;
        let line = begin.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii();
        let no_column = |name| TraceError::NoColumn { name, begins: cut(line) };
        let places = options.columns.as_ref().map(|columns| columns.places(line).map_err(no_column));
        let places = places.transpose()?;
        let format = if places.is_some() { Format::Columns } else { recognise(&begin)? };
        let has_volumes = match &options.columns {
            Some(columns) => columns.have_volumes(),
            None => !matches!(format, Format::Vscsi1 | Format::Vscsi2),
        };
        if options.volume.is_some() && !has_volumes {
            return Err(TraceError::NoVolumes);
        }
        let mut trace = Trace {
            from: io::Cursor::new(begin).chain(from),
            format,
            line: Vec::new(),
            is_cut: false,
            number: 0,
            first: None,
            waited_us: 0,
            ended: false,
            places,
            wanted: options.volume.as_ref().map(|name| name.clone().into_bytes()),
            volume: Vec::new(),
            only: None,
            others: Tally::default(),
        };
        if matches!(format, Format::Fio2 | Format::Fio3) {
            trace.next_line()?;
        }
        Ok(trace)
    }

    /// Returns the format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns the skipped volumes so far, with their requests.
    pub fn others(&self) -> Volumes {
        self.others.listed(false)
    }

    /// Returns the next request or bad line; `None` at the end.
    ///
    /// Errors: reading failed; the trace is of [`SeveralVolumes`] and none was requested.
    pub fn next_item(&mut self) -> io::Result<Option<Item>> {
        while let Some(item) = self.next_of_any()? {
            if item.is_err() || self.is_taken()? {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    /// Returns true if the last request is of the volume that is read.
    fn is_taken(&mut self) -> io::Result<bool> {
        if let Some(wanted) = &self.wanted {
            let is_wanted = *wanted == self.volume;
            if !is_wanted {
                self.others.add(&self.volume, 1);
            }
            return Ok(is_wanted);
        }
        let (only, requests) = self.only.get_or_insert_with(|| (self.volume.clone(), 0));
        *requests += 1;
        if *only == self.volume {
            return Ok(true);
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, self.several()))
    }

    /// Counts the volumes of the requests so far and of the following ones, for a part of a
    /// second.
    fn several(&mut self) -> SeveralVolumes {
        const LOOKED_AT: usize = 1_000_000;
        if let Some((only, requests)) = self.only.take() {
            self.others.add(&only, requests - 1);
        }
        self.others.add(&self.volume, 1);
        for _ in 0..LOOKED_AT {
            match self.next_of_any() {
                Ok(Some(Ok(_))) => self.others.add(&self.volume, 1),
                Ok(Some(Err(_))) => {}
                Ok(None) => return SeveralVolumes(self.others.listed(false)),
                Err(_) => break,
            }
        }
        SeveralVolumes(self.others.listed(true))
    }

    /// Returns the next request of any volume, or bad line; `None` at the end.
    fn next_of_any(&mut self) -> io::Result<Option<Item>> {
        if matches!(self.format, Format::Vscsi1 | Format::Vscsi2) {
            return self.next_record();
        }
        while self.next_line()? {
            let line = std::mem::take(&mut self.line);
            let text = line.trim_ascii();
            let parsed = match self.format {
                _ if self.is_cut => Err("it has 64 KiB or more"),
                Format::Fio2 | Format::Fio3 => self.fio(text),
                _ => self.one_a_line(text),
            };
            let item = match parsed {
                Ok(None) => None,
                Ok(Some(request)) => Some(Ok(request)),
                Err(reason) => Some(Err(self.bad(text, reason))),
            };
            self.line = line;
            if item.is_some() {
                return Ok(item);
            }
        }
        Ok(None)
    }

    /// Reads the next line; returns false at the end.
    fn next_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        // A line without end is a binary file, not a trace: only this much of it is kept.
        let taken = self.from.by_ref().take(LINE_BYTES_MOST).read_until(b'\n', &mut self.line)?;
        self.number += u64::from(taken > 0);
        self.is_cut = taken as u64 == LINE_BYTES_MOST && self.line.last() != Some(&b'\n');
        if self.is_cut {
            self.from.skip_until(b'\n')?;
        }
        Ok(taken > 0)
    }

    fn bad(&self, text: &[u8], reason: &'static str) -> BadLine {
        BadLine { number: self.number, text: cut(text), reason }
    }

    /// Returns the microseconds since the first request, for a time with `per_us` units in a
    /// microsecond.
    fn since_first(&mut self, time: u64, per_us: u64) -> u64 {
        let first = *self.first.get_or_insert(time);
        time.saturating_sub(first) / per_us
    }

    fn one_a_line(&mut self, line: &[u8]) -> Parsed {
        let is_first = self.number == 1;
        let said = match &self.places {
            Some(places) => places.parse(line, is_first, &mut self.volume)?,
            None => lines::parse(self.format, line, is_first, &mut self.volume)?,
        };
        let Some(said) = said else { return Ok(None) };
        let at_us = self.since_first(said.time, lines::times_per_us(self.format));
        request(at_us, said.offset, said.len, said.is_write)
    }

    fn fio(&mut self, line: &[u8]) -> Parsed {
        if line.is_empty() {
            return Ok(None);
        }
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let time = match self.format {
            Format::Fio3 => Some(words.next().and_then(number).ok_or("its time is no number")?),
            _ => None,
        };
        let (file, action) = (words.next().ok_or("it has no file")?, words.next().ok_or("it has no action")?);
        let is_write = match action {
            b"read" => false,
            b"write" => true,
            b"wait" => {
                let us = words.next().and_then(number).ok_or("it waits for no number of microseconds")?;
                self.waited_us = self.waited_us.saturating_add(us);
                return Ok(None);
            }
            b"add" | b"open" | b"close" | b"sync" | b"datasync" | b"trim" => return Ok(None),
            _ => return Err("its action is unknown"),
        };
        self.volume.clear();
        self.volume.extend_from_slice(file);
        let offset = words.next().and_then(number).ok_or("its offset is no number")?;
        let len = words.next().and_then(number).ok_or("its length is no number")?;
        let at_us = match time {
            Some(time) => self.since_first(time, 1),
            None => self.waited_us,
        };
        request(at_us, offset, len, is_write)
    }

    fn next_record(&mut self) -> io::Result<Option<Item>> {
        let len = if self.format == Format::Vscsi1 { 32 } else { 40 };
        while !self.ended {
            let mut record = [0u8; 40];
            let have = fill(&mut self.from, &mut record[..len])?;
            if have == 0 {
                break;
            }
            self.number += 1;
            if have < len {
                self.ended = true;
                return Ok(Some(Err(self.bad(&record[..have], "the last record is cut"))));
            }
            let u16_at = |at: usize| u16::from_le_bytes([record[at], record[at + 1]]);
            let u32_at =
                |at: usize| u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]]);
            let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
            let (command, bytes, sector, time) = match self.format {
                Format::Vscsi1 => (u16_at(12), u32_at(4), u64_at(16), u64_at(24)),
                _ => (u16_at(0), u32_at(8), u64_at(16), u64_at(24)),
            };
            let is_write = match command {
                0x08 | 0x28 | 0xa8 | 0x88 => false,
                0x0a | 0x2a | 0xaa | 0x8a => true,
                // Commands without data, such as a test of readiness.
                _ => continue,
            };
            let at_us = self.since_first(time, 1);
            let parsed = sector.checked_mul(512).ok_or("its sector is beyond 2^64 bytes");
            let parsed = parsed.and_then(|offset| request(at_us, offset, bytes.into(), is_write));
            match parsed {
                Ok(None) => continue,
                Ok(Some(request)) => return Ok(Some(Ok(request))),
                Err(reason) => return Ok(Some(Err(self.bad(&record[..len], reason)))),
            }
        }
        Ok(None)
    }
}

/// A request, nothing, or the fault of a line.
pub(super) type Parsed = Result<Option<Request>, &'static str>;

const LINE_BYTES_MOST: u64 = 64 * 1024;

/// Longer than eight records of 40 bytes, and than the six fields of a first line.
const BEGIN_BYTES: u64 = 1024;

/// Maximum of the length of a request.
const LEN_MOST: u64 = 1 << 32;

pub(super) fn request(at_us: u64, offset: u64, len: u64, is_write: bool) -> Parsed {
    match offset.checked_add(len) {
        None => Err("it ends beyond 2^64 bytes"),
        Some(_) if len > LEN_MOST => Err("it is longer than 4 GiB"),
        Some(_) if len == 0 => Ok(None),
        Some(_) => Ok(Some(Request { at_us, offset, len, is_write })),
    }
}

pub(super) fn number(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii();
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then(|| value.checked_mul(10)?.checked_add(digit.into())).flatten()
    })
}

fn fill(from: &mut impl io::Read, into: &mut [u8]) -> io::Result<usize> {
    let mut have = 0;
    while have < into.len() {
        match from.read(&mut into[have..]) {
            Ok(0) => break,
            Ok(n) => have += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(have)
}

fn cut(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(&text[..text.len().min(400)]).replace(|c: char| c.is_control(), "?");
    text.chars().take(120).collect()
}

fn recognise(begin: &[u8]) -> Result<Format, TraceError> {
    if begin.starts_with(b"fio version 2 iolog") {
        return Ok(Format::Fio2);
    }
    if begin.starts_with(b"fio version 3 iolog") {
        return Ok(Format::Fio3);
    }
    let line = begin.split(|&byte| byte == b'\n').next().unwrap_or(&[]);
    let is_text = line.iter().all(|&byte| byte == b'\t' || byte == b'\r' || (b' '..=b'~').contains(&byte));
    if begin.is_empty() {
        return Ok(Format::Msr);
    }
    let of_lines = if lines::is_blkparse(line) { Some(Format::Blkparse) } else { lines::recognise(line) };
    if let (true, Some(format)) = (is_text, of_lines) {
        return Ok(format);
    }
    // The version is the high byte of the second half-word of both kinds of records, at different
    // positions.
    let version = |at: usize, len: usize, version: u8| {
        let records = begin.chunks_exact(len).take(8);
        begin.len() >= len && records.into_iter().all(|record| record[at + 1] == version)
    };
    if version(2, 40, 2) {
        return Ok(Format::Vscsi2);
    }
    if version(14, 32, 1) {
        return Ok(Format::Vscsi1);
    }
    Err(TraceError::Unknown { begins: cut(line) })
}

/// Writes a trace in one of the [`Format::WRITABLE`].
pub struct Writer<W: io::Write> {
    to: W,
    format: Format,
    count: u32,
    last_us: u64,
}

impl<W: io::Write> Writer<W> {
    /// Writes the head of the trace.
    pub fn new(mut to: W, format: Format) -> io::Result<Writer<W>> {
        match format {
            Format::Fio2 => to.write_all(b"fio version 2 iolog\n/dev/trace add\n/dev/trace open\n")?,
            Format::Fio3 => to.write_all(b"fio version 3 iolog\n0 /dev/trace add\n0 /dev/trace open\n")?,
            _ => {}
        }
        Ok(Writer { to, format, count: 0, last_us: 0 })
    }

    /// Adds a request; times do not go back. vscsi has sectors of 512 bytes only: offsets and
    /// lengths are rounded up to them.
    pub fn push(&mut self, request: &Request) -> io::Result<()> {
        let Request { at_us, offset, len, is_write } = *request;
        let verb = if is_write { "write" } else { "read" };
        match self.format {
            Format::Msr => {
                let kind = if is_write { "Write" } else { "Read" };
                writeln!(
                    self.to,
                    "{},trace,0,{kind},{offset},{len},0",
                    128_166_372_000_000_000 + at_us * 10
                )?;
            }
            Format::Fio2 => {
                let wait = at_us.saturating_sub(self.last_us);
                if wait > 0 {
                    writeln!(self.to, "/dev/trace wait {wait} 0")?;
                }
                writeln!(self.to, "/dev/trace {verb} {offset} {len}")?;
            }
            Format::Fio3 => writeln!(self.to, "{at_us} /dev/trace {verb} {offset} {len}")?,
            Format::Vscsi1 | Format::Vscsi2 => {
                let command: u16 = if is_write { 0x2a } else { 0x28 };
                let bytes = u32::try_from(len.next_multiple_of(512)).unwrap_or(u32::MAX / 512 * 512);
                let sector = offset.div_ceil(512);
                let mut record = Vec::with_capacity(40);
                if self.format == Format::Vscsi1 {
                    [self.count, bytes, 1].iter().for_each(|x| record.extend(x.to_le_bytes()));
                    [command, 1 << 8].iter().for_each(|x| record.extend(x.to_le_bytes()));
                    [sector, at_us].iter().for_each(|x| record.extend(x.to_le_bytes()));
                } else {
                    [command, 2 << 8].iter().for_each(|x| record.extend(x.to_le_bytes()));
                    [self.count, bytes, 1].iter().for_each(|x| record.extend(x.to_le_bytes()));
                    [sector, at_us, 0].iter().for_each(|x| record.extend(x.to_le_bytes()));
                }
                self.to.write_all(&record)?;
            }
            Format::Spc
            | Format::Alibaba
            | Format::Tencent
            | Format::Systor
            | Format::Blkparse
            | Format::Columns => {
                let name = self.format.name();
                return Err(io::Error::new(
                    io::ErrorKind::Unsupported,
                    format!("{name} is read, not written; write one of Format::WRITABLE"),
                ));
            }
        }
        self.last_us = self.last_us.max(at_us);
        self.count = self.count.wrapping_add(1);
        Ok(())
    }

    /// Ends the trace.
    pub fn finish(mut self) -> io::Result<()> {
        self.to.flush()
    }
}
