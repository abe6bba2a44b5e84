//! A trace of the user: opened, unpacked, read once, identified by its content.

use crate::failure::{Failure, note};
use crate::files;
use crate::interrupt;
use crate::progress::Progress;
use crate::sets;
use crate::terminal::Terminal;
use clap::Args;
use pantile::Code;
use pantile_format::CrcStream;
use pantile_lab::replay::generate::Workload;
use pantile_lab::replay::{
    Columns, Format, Options, ReplayError, Replayed, Seen, SeveralVolumes, Trace, TraceError, TraceOptions,
    Writer, run, unpacked,
};
use std::io::{BufRead, BufReader, Cursor, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The part of a trace that is read.
#[derive(Args)]
pub struct Part {
    /// The volume whose requests are read, if a trace has several: hm_0, a device as 8,0, a LUN, a
    /// file of fio.
    #[arg(long, value_name = "NAME")]
    volume: Option<String>,
    /// Fields of a trace in an unknown format: columns by number or name, with units, such as
    /// time=1:ms,kind=2,offset=3:sectors,size=4,volume=5.
    #[arg(long, value_name = "FIELDS")]
    columns: Option<Columns>,
}

impl Part {
    /// Returns the first of these options that was given.
    pub fn option(&self) -> Option<&'static str> {
        match (&self.volume, &self.columns) {
            (Some(_), _) => Some("--volume"),
            (_, Some(_)) => Some("--columns"),
            _ => None,
        }
    }

    fn options(&self) -> TraceOptions {
        TraceOptions { volume: self.volume.clone(), columns: self.columns.clone() }
    }

    /// Returns the name of a trace, with that of the volume.
    pub fn of(&self, path: &Path) -> String {
        match &self.volume {
            Some(volume) => format!("{}, volume {volume}", path.display()),
            None => path.display().to_string(),
        }
    }
}

/// An open trace.
pub struct Given {
    path: PathBuf,
    trace: Trace<Box<dyn BufRead>>,
    taken: Arc<Taken>,
    /// Length of a file; 0 if unknown.
    len_bytes: u64,
}

/// Results of codes for a trace.
pub struct Played {
    pub seen: Seen,
    /// Results, in the order of the codes.
    pub replayed: Vec<Replayed>,
    /// Length and checksum of the trace.
    pub content: String,
}

impl Given {
    /// Opens a trace, packed or not; '-' is standard input.
    pub fn open(path: &Path, part: &Part) -> Result<Given, Failure> {
        let taken = Arc::new(Taken::default());
        let mut len_bytes = 0;
        let from: Box<dyn Read> = match path {
            path if path == Path::new("-") => {
                Box::new(files::stdin().map_err(|error| Failure::Input(named(path, &error)))?)
            }
            path => {
                let file = files::input(path)
                    .map_err(|error| Failure::Input(format!("{}: {error}; name a trace", path.display())))?;
                len_bytes = file.metadata().map_or(0, |metadata| metadata.len());
                Box::new(file)
            }
        };
        let counting = Counting { from, taken: Arc::clone(&taken) };
        let from = unpacked(Box::new(BufReader::with_capacity(1 << 20, counting))).map_err(TraceError::Io);
        let trace = from.and_then(|from| Trace::open_with(from, &part.options())).map_err(|error| {
            Failure::Input(match error {
                TraceError::Io(error) if error.kind() == ErrorKind::InvalidData => named(path, &error),
                TraceError::Io(error) => format!("{}; name a trace", named(path, &error)),
                other => match other.unpacked_by() {
                    Some(tool) => format!(
                        "{} is compressed; unpack it, or read it from a pipe as '-': {tool} {}",
                        sets::name(&path.to_string_lossy()),
                        sets::quoted(path)
                    ),
                    None => named(path, &other),
                },
            })
        })?;
        Ok(Given { path: path.to_path_buf(), trace, taken, len_bytes })
    }

    /// Reads a trace, and returns the byte after the last one that a request reaches.
    pub fn end(mut self) -> Result<u64, Failure> {
        let mut end = 0;
        while let Some(item) = self.trace.next_item().map_err(|error| unread(&self.path, &error))? {
            end = item.map_or(end, |request| end.max(request.offset + request.len));
        }
        Ok(end)
    }

    /// Returns the trace of a named workload.
    pub fn named(workload: Workload) -> Result<Given, Failure> {
        let path = PathBuf::from(format!("the workload '{}'", workload.name()));
        let fails = |error: &dyn std::fmt::Display| Failure::System(named(&path, error));
        let write = || {
            let mut bytes = Vec::new();
            let mut writer = Writer::new(&mut bytes, Format::Fio3)?;
            workload.requests().iter().try_for_each(|request| writer.push(&request))?;
            writer.finish()?;
            Ok(bytes)
        };
        let bytes: Vec<u8> = write().map_err(|error: std::io::Error| fails(&error))?;
        let (taken, len_bytes) = (Arc::new(Taken::default()), bytes.len() as u64);
        let counting = Counting { from: Box::new(Cursor::new(bytes)), taken: Arc::clone(&taken) };
        let from: Box<dyn BufRead> = Box::new(BufReader::new(counting));
        let trace = Trace::open(from).map_err(|error| fails(&error))?;
        Ok(Given { path, trace, taken, len_bytes })
    }

    /// Replays the trace on codes, and shows the lines that cannot be read.
    pub fn play(mut self, codes: &[Code], options: &Options, terminal: &Terminal) -> Result<Played, Failure> {
        interrupt::listen();
        let progress = Progress::start(terminal, "replaying");
        let ended = AtomicBool::new(false);
        let done = run(&mut self.trace, codes, options, &|requests| {
            let message = format!("{requests} requests of {}", self.path.display());
            let done = self.taken.bytes.load(Ordering::Relaxed);
            // The length of standard input is unknown; only requests are shown.
            let of = if self.len_bytes == 0 { 0 } else { self.len_bytes.max(done) };
            progress.set(message, "bytes", done, of);
            ended.fetch_or(interrupt::asked(), Ordering::Relaxed);
            !ended.load(Ordering::Relaxed)
        });
        drop(progress);
        let (seen, replayed) = done.map_err(|error| match error {
            ReplayError::Shape(error) => Failure::Input(error.to_string()),
            ReplayError::Lost(_) | ReplayError::Unbearable { .. } => {
                Failure::Losses(format!("--lost: {error}"))
            }
            ReplayError::TooLong { .. } => Failure::Input(format!("--space: {error}")),
            ReplayError::NoDevice { .. } => Failure::Input(format!("--lost: {error}")),
            ReplayError::Trace(TraceError::Io(error)) => unread(&self.path, &error),
            ReplayError::Trace(error) => Failure::Input(named(&self.path, &error)),
        })?;
        if ended.into_inner() {
            // Numbers of a part of the trace would look like those of all of it, above all in a
            // picture and in JSON.
            return Err(Failure::Interrupted(format!(
                "the replay was ended after {} requests, before the end of the trace; nothing is printed or written",
                seen.requests
            )));
        }
        for bad in &seen.first_bad {
            note(&named(&self.path, bad));
        }
        let others = self.trace.others();
        if seen.requests == 0 && !others.found.is_empty() {
            let why = format!("it holds no request of this --volume; it has {others}");
            return Err(Failure::Input(named(&self.path, &why)));
        }
        if seen.requests == 0 {
            return Err(Failure::Input(named(&self.path, &"it holds no request that reads or writes")));
        }
        Ok(Played { seen, replayed, content: self.taken.told() })
    }
}

/// Returns the failure of reading a trace: a wrong choice of its volume or format, or a read error.
fn unread(path: &Path, error: &std::io::Error) -> Failure {
    let is_of_several = error.get_ref().is_some_and(|error| error.is::<SeveralVolumes>());
    match is_of_several || error.kind() == ErrorKind::InvalidData {
        true => Failure::Input(named(path, error)),
        false => Failure::System(named(path, error)),
    }
}

fn named(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

/// Progress of reading a trace.
struct Taken {
    bytes: AtomicU64,
    crc: Mutex<CrcStream>,
}

impl Default for Taken {
    fn default() -> Taken {
        Taken { bytes: AtomicU64::new(0), crc: Mutex::new(CrcStream::new()) }
    }
}

impl Taken {
    /// Returns length and checksum, which identify the trace.
    fn told(&self) -> String {
        let crc = self.crc.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).crc();
        format!("{} bytes, CRC-64/NVME {:016x}", self.bytes.load(Ordering::Relaxed), crc.0)
    }
}

/// A trace that is being read.
struct Counting {
    from: Box<dyn Read>,
    taken: Arc<Taken>,
}

impl Read for Counting {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let n = self.from.read(into)?;
        self.taken.bytes.fetch_add(n as u64, Ordering::Relaxed);
        self.taken.crc.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).update(&into[..n]);
        Ok(n)
    }
}
