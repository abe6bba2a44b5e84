//! Layouts of raw chunks: code, division of the data, and the small text that records both.
//!
//! `docs/chunks.md` describes names and text; [`crate::chunk_files`] handles the files.

use crate::args::{self, Reading};
use crate::failure::Failure;
use crate::files::{self, OutDir};
use crate::interrupt;
use crate::progress::Progress;
use crate::sets;
use pantile::code::foreign::Profile;
use pantile::{Check, Checked, Chunks, Code, Codec, ShardError};
use std::fmt::Write as _;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// File name of the text that records the layout of chunks.
pub const MADE: &str = "chunks.txt";
/// Name of the code file beside it, for a code that only a text defines.
const DEFINITION: &str = "chunks.code";
/// First line of the text.
const FIRST: &str = "pantile-chunks 1";
/// Longest text that is read.
const MADE_BYTES_MOST: u64 = 64 << 10;
/// Default length of a chunk in a stripe; with codes of several rows, of each cell.
const CHUNK_USUAL: usize = 64 << 10;
/// Largest memory for one stripe.
const STRIPE_BYTES_MOST: usize = 1 << 30;

/// Layout of chunks.
pub struct Layout {
    /// The layout as the user named it: `code rs:10+4` or `as ceph:plugin=isa k=8 m=3`.
    named: Named,
    cut: Cut,
}

enum Named {
    Code,
    As(String),
}

enum Cut {
    /// Pantile's own layout: elements in user order, the last stripe padded with zeros.
    Own { codec: Codec, element: usize },
    /// The layout of another system.
    Theirs(Chunks),
}

/// Options that describe the layout of chunks.
#[derive(clap::Args)]
pub struct LayoutArgs {
    /// The code: a spec, the name that another system gives it, or the path of a code file.
    #[arg(long, value_name = "CODE", conflicts_with = "profile")]
    code: Option<String>,
    /// Chunks exactly as another system has them, such as 'ceph:plugin=isa k=8 m=3',
    /// hdfs:RS-6-3-1024k, 'isal:cauchy k=10 m=4', 'jerasure:cauchy_good k=6 m=3 w=8 packetsize=64',
    /// 'klauspost:RS(10,4)' or seaweedfs.
    #[arg(long = "as", value_name = "PROFILE", id = "profile")]
    profile: Option<String>,
    /// Bytes of a chunk in each stripe; 64K unless given, or what the system takes.
    #[arg(long, value_name = "SIZE", value_parser = args::size)]
    chunk: Option<u64>,
    #[command(flatten)]
    reading: Reading,
}

impl LayoutArgs {
    pub fn is_given(&self) -> bool {
        self.code.is_some() || self.profile.is_some()
    }

    /// True if a chunk length is given; it alone does not determine a layout.
    pub fn has_chunk(&self) -> bool {
        self.chunk.is_some()
    }

    /// Returns the name of another system's chunks, as given.
    pub fn profile(&self) -> Option<&str> {
        self.profile.as_deref()
    }

    /// Returns the options in shell syntax, each after a blank.
    pub fn words(&self) -> String {
        let mut words = String::new();
        for (option, value) in [("--code", &self.code), ("--as", &self.profile)] {
            if let Some(value) = value {
                let _ = write!(words, " {option} {}", sets::quoted(value));
            }
        }
        if let Some(chunk) = self.chunk {
            let _ = write!(words, " --chunk {chunk}");
        }
        words
    }

    pub fn layout(&self) -> Result<Layout, Failure> {
        self.layout_as(self.profile.as_deref())
    }

    /// Returns the same as `layout` with another profile.
    pub fn layout_as(&self, profile: Option<&str>) -> Result<Layout, Failure> {
        let chunk = match self.chunk.map(usize::try_from) {
            None => None,
            Some(Ok(chunk)) if chunk <= STRIPE_BYTES_MOST => Some(chunk),
            Some(_) => {
                return Err(Failure::Input(format!(
                    "--chunk: at most {STRIPE_BYTES_MOST} bytes are possible"
                )));
            }
        };
        match (&self.code, profile) {
            (Some(code), _) => Layout::own(args::code(code, self.reading)?, chunk),
            (None, Some(profile)) => Layout::theirs(profile, chunk),
            (None, None) => Err(Failure::Input(
                "--code or --as is missing: which code? for example --code rs:10+4 or --as hdfs:RS-6-3-1024k"
                    .into(),
            )),
        }
    }

    pub fn reading(&self) -> Reading {
        self.reading
    }
}

impl Layout {
    fn own(code: Code, chunk: Option<usize>) -> Result<Layout, Failure> {
        let rows = code.rows_max();
        let chunk = chunk.unwrap_or(CHUNK_USUAL.next_multiple_of(rows));
        if chunk == 0 || !chunk.is_multiple_of(rows) {
            return Err(Failure::Input(format!(
                "--chunk: {chunk} bytes are not {rows} equal elements, one for each row of {code}; take {}",
                chunk.max(1).next_multiple_of(rows)
            )));
        }
        let element = chunk / rows;
        if element.saturating_mul(code.cell_count()) > STRIPE_BYTES_MOST {
            return Err(Failure::Input(format!(
                "--chunk: {} columns of {chunk} bytes are more than {STRIPE_BYTES_MOST} bytes of memory; take shorter chunks",
                code.columns()
            )));
        }
        Ok(Layout { named: Named::Code, cut: Cut::Own { codec: Codec::new(&code), element } })
    }

    fn theirs(profile: &str, chunk: Option<usize>) -> Result<Layout, Failure> {
        let profile = Profile::parse(profile).map_err(|error| Failure::Input(format!("--as: {error}")))?;
        let chunks =
            Chunks::new(&profile, chunk).map_err(|error| Failure::Input(format!("--chunk: {error}")))?;
        Ok(Layout { named: Named::As(profile.name), cut: Cut::Theirs(chunks) })
    }

    pub fn code(&self) -> &Code {
        match &self.cut {
            Cut::Own { codec, .. } => codec.code(),
            Cut::Theirs(chunks) => chunks.code(),
        }
    }

    /// Returns the name of another system's chunks.
    pub fn profile(&self) -> Option<&str> {
        match &self.named {
            Named::Code => None,
            Named::As(name) => Some(name),
        }
    }

    /// Returns the bytes of a chunk in a stripe; `None` if there is only one stripe.
    pub fn chunk(&self) -> Option<usize> {
        match &self.cut {
            Cut::Own { codec, element } => Some(element * codec.code().rows_max()),
            Cut::Theirs(chunks) => chunks.chunk_len(),
        }
    }

    /// Returns the length of a column's file in bytes.
    pub fn len_of(&self, column: usize, data_len: u64) -> u64 {
        match &self.cut {
            Cut::Own { codec, element } => codec.shard_len(column, *element, data_len),
            Cut::Theirs(chunks) => chunks.len_of(column, data_len),
        }
    }

    pub fn encode(&self, data: &mut dyn Read, chunks: &mut [&mut dyn Write]) -> Result<u64, ShardError> {
        match &self.cut {
            Cut::Own { codec, element } => codec.encode_stream(data, chunks, *element),
            Cut::Theirs(theirs) => theirs.encode(data, chunks),
        }
    }

    /// Encodes a file of known length, as `encode` does.
    pub fn encode_file<D: Read + Seek>(
        &self,
        data: &mut D,
        len: u64,
        chunks: &mut [&mut dyn Write],
    ) -> Result<u64, ShardError> {
        match &self.cut {
            Cut::Theirs(theirs) if theirs.is_one_stripe() => {
                theirs.encode_at(data, len, chunks).map(|()| len)
            }
            _ => self.encode(data, chunks),
        }
    }

    /// Returns the padded data length that makes every chunk this long; `None` if the chunk length
    /// does not determine it.
    pub fn data_len_of(&self, chunk_len: u64) -> Option<u64> {
        let Cut::Own { codec, element } = &self.cut else {
            let Cut::Theirs(theirs) = &self.cut else { return None };
            return theirs.data_len_of(chunk_len);
        };
        let stripes = chunk_len / self.chunk()? as u64;
        let data_len = stripes.checked_mul(codec.code().data().len() as u64)?.checked_mul(*element as u64)?;
        (stripes * self.chunk()? as u64 == chunk_len).then_some(data_len)
    }

    pub fn decode(
        &self,
        chunks: &mut [Option<&mut dyn Read>],
        data: &mut dyn Write,
        len: u64,
        check: Check,
    ) -> Result<Checked, ShardError> {
        match &self.cut {
            Cut::Own { codec, element } => codec.decode_stream_with(chunks, data, *element, len, check),
            Cut::Theirs(theirs) => theirs.clone().with_check(check).decode(chunks, data, len),
        }
    }

    /// Decodes into a file, as `decode` does.
    pub fn decode_file<D: Write + Seek>(
        &self,
        chunks: &mut [Option<&mut dyn Read>],
        data: &mut D,
        len: u64,
        check: Check,
    ) -> Result<Checked, ShardError> {
        match &self.cut {
            Cut::Theirs(theirs) => theirs.clone().with_check(check).decode_at(chunks, data, len),
            Cut::Own { .. } => self.decode(chunks, data, len, check),
        }
    }

    pub fn verify(
        &self,
        chunks: &mut [Option<&mut dyn Read>],
        len: u64,
        check: Check,
    ) -> Result<Checked, ShardError> {
        match &self.cut {
            Cut::Own { codec, element } => codec.verify_stream(chunks, *element, len, check),
            Cut::Theirs(theirs) => theirs.clone().with_check(check).verify(chunks, len),
        }
    }

    /// Computes each chunk that has a writer.
    pub fn rebuild(
        &self,
        chunks: &mut [Option<&mut dyn Read>],
        rebuilt: &mut [Option<&mut dyn Write>],
        len: u64,
        check: Check,
    ) -> Result<Checked, ShardError> {
        match &self.cut {
            Cut::Own { codec, element } => codec.rebuild_stream(chunks, rebuilt, *element, len, check),
            Cut::Theirs(theirs) => theirs.clone().with_check(check).rebuild(chunks, rebuilt, len),
        }
    }

    /// Returns the names of the texts that are written beside the chunks.
    pub fn texts(&self) -> impl Iterator<Item = &'static str> {
        [MADE].into_iter().chain(self.made(0).1.map(|_| DEFINITION))
    }

    /// Returns the text that records the layout, and the text of the code file that it needs.
    pub fn made(&self, data_len: u64) -> (String, Option<&str>) {
        let code = self.code();
        let definition = code.definition().filter(|_| matches!(self.named, Named::Code));
        let mut text = format!("{FIRST}\n");
        let _ = match (&self.named, definition) {
            (Named::As(profile), _) => writeln!(text, "as {profile}"),
            (Named::Code, Some(_)) => writeln!(text, "code {DEFINITION}"),
            (Named::Code, None) => writeln!(text, "code {code}"),
        };
        let _ = writeln!(text, "equations {:016x}", code.fingerprint());
        if let Some(chunk) = self.chunk() {
            let _ = writeln!(text, "chunk {chunk}");
        }
        let _ = writeln!(text, "length {data_len}");
        (text, definition)
    }

    /// Reads the layout and the data length of the chunks in a folder. `None` if the folder has no
    /// such text.
    pub fn read(folder: &Path, reading: Reading) -> Result<Option<(Layout, u64)>, Failure> {
        let path = folder.join(MADE);
        let wrong = |what: String| {
            Failure::Input(format!(
                "{}: {what}; give --code or --as, --chunk and --length instead",
                path.display()
            ))
        };
        let text = match small_text(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(wrong(error.to_string())),
            Err(error) => return Err(Failure::file("read", &path, &error)),
        };
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        if first != FIRST {
            return Err(wrong(match first.starts_with("pantile-chunks ") {
                true => format!("'{first}' is a version that this program does not read"),
                false => format!("the first line is not '{FIRST}'"),
            }));
        }
        let (mut named, mut equations, mut chunk, mut length) = (None, None, None, None);
        for line in lines {
            let (key, value) = line.split_once(' ').unwrap_or((line, ""));
            let is_new = match key {
                "code" | "as" => named.replace((key, value)).is_none(),
                "equations" => equations.replace(value).is_none(),
                "chunk" => chunk.replace(value).is_none(),
                "length" => length.replace(value).is_none(),
                _ => return Err(wrong(format!("the line '{line}' is not known"))),
            };
            if !is_new {
                return Err(wrong(format!("there are two lines '{key}'")));
            }
        }
        let number = |key: &str, text: &str| -> Result<u64, Failure> {
            let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|_| is_plain).ok_or_else(|| wrong(format!("'{text}' is no {key}")))
        };
        let (Some((kind, name)), Some(length)) = (named, length) else {
            return Err(wrong("there is no line 'code' or 'as', or no line 'length'".into()));
        };
        let length = number("length", length)?;
        let chunk = chunk.map(|text| number("chunk", text)).transpose()?;
        let chunk = chunk.map(|chunk| usize::try_from(chunk).unwrap_or(usize::MAX));
        let layout = match (kind, name) {
            ("as", profile) => Layout::theirs(profile, chunk)?,
            (_, DEFINITION) => Layout::own(args::code_file(&folder.join(DEFINITION), reading)?, chunk)?,
            // A spec is parsed as such and never opened as a path.
            (_, spec) => Layout::own(Code::parse(spec).map_err(|error| wrong(error.to_string()))?, chunk)?,
        };
        let ours = format!("{:016x}", layout.code().fingerprint());
        match equations.is_none_or(|theirs| theirs == ours) {
            true => Ok(Some((layout, length))),
            false => {
                Err(wrong(format!("the equations of {} are {ours} here, others than those", layout.code())))
            }
        }
    }

    /// Writes the definition of a code that only a text defines, then the text that records the
    /// layout.
    pub fn write_made(&self, folder: &OutDir, data_len: u64) -> Result<(), Failure> {
        let (text, definition) = self.made(data_len);
        let files = definition.map(|text| (DEFINITION, text)).into_iter().chain([(MADE, text.as_str())]);
        files.into_iter().try_for_each(|(name, text)| folder.write_whole(name, text.as_bytes()))
    }
}

/// Reads a text of bounded length.
pub fn small_text(path: &Path) -> io::Result<String> {
    let file = files::found(path)?;
    let mut text = String::new();
    file.take(MADE_BYTES_MOST + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MADE_BYTES_MOST {
        true => Err(io::Error::new(io::ErrorKind::InvalidData, "it is too long")),
        false => Ok(text),
    }
}

/// A file or stream that reports its progress, and returns an error after the user asks to end.
pub struct Watched<'p, F> {
    file: F,
    progress: &'p Progress,
    message: &'p str,
    at: u64,
    len: u64,
}

impl<'p, F> Watched<'p, F> {
    /// Wraps a file of `len` bytes; 0 if the length is unknown.
    pub fn new(file: F, progress: &'p Progress, message: &'p str, len: u64) -> Watched<'p, F> {
        interrupt::listen();
        Watched { file, progress, message, at: 0, len }
    }

    fn moved(&mut self, bytes: usize) {
        self.at += bytes as u64;
        if self.len > 0 {
            self.progress.set(self.message, "bytes", self.at.min(self.len), self.len);
        }
    }
}

fn go_on() -> io::Result<()> {
    match interrupt::asked() {
        true => Err(io::Error::other("interrupted")),
        false => Ok(()),
    }
}

impl<F: Read> Read for Watched<'_, F> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        go_on()?;
        let read = self.file.read(into)?;
        self.moved(read);
        Ok(read)
    }
}

impl<F: Write> Write for Watched<'_, F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        go_on()?;
        let written = self.file.write(bytes)?;
        self.moved(written);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl<F: Seek> Seek for Watched<'_, F> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}
