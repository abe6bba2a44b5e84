//! `pantile chunks`: verifies and rebuilds raw chunks.

use crate::chunk_files::{self, Place, Present, Source, SourceArgs, doubt_in_words, in_words};
use crate::chunks::Watched;
use crate::describe::{count, set};
use crate::failure::{Failure, Outcome, Verdict};
use crate::files::{OutDir, cannot};
use crate::json::OUTPUT_VERSION;
use crate::progress::Progress;
use crate::sets;
use crate::terminal::{Terminal, print, print_json};
use clap::{Args, Subcommand};
use pantile::{Check, Checked, Codec, DoubtReason, ShardError};
use pantile_paths::NewFile;
use serde::Serialize;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

/// Check raw chunks, and rebuild missing or wrong ones
#[derive(Args)]
pub struct ChunksCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Verify(Verify),
    Rebuild(Rebuild),
}

/// Read raw chunks and say which are missing or wrong
///
/// Answers: are these chunks still right, and how many more can be lost? Chunks have no checksums:
/// all present chunks are read and checked against each other by the equations of the code, which
/// locate a wrong one if there are enough others. Nothing is written.
#[derive(Args)]
#[command(after_long_help = "\
Chunks are named as for 'pantile decode'. --length may be missing where the lengths of the chunks say enough.

Exit status: 0 all are there and fit one another, 1 some are missing or wrong and can be rebuilt, 2 more is missing than \
the code tolerates, or it is not certain which are wrong.

Examples:
  pantile chunks verify chunks
  pantile chunks verify from-ceph --as ceph:plugin=isa,k=4,m=2 --chunk 4K
  pantile chunks verify /data/3 --as seaweedfs
  pantile chunks verify chunks --json | jq .tolerated")]
struct Verify {
    #[command(flatten)]
    source: SourceArgs,
    /// Print JSON: each chunk, and how many more can be lost.
    #[arg(long)]
    json: bool,
}

/// Rebuild missing or wrong chunks from the others
///
/// Answers: give me these chunks back, not the file. All chunks are read and checked as by 'chunks
/// verify'. Missing or wrong ones are then computed, byte for byte as they were, written to new
/// files, and renamed when all are complete.
#[derive(Args)]
#[command(after_long_help = "\
Chunks are named as for 'pantile decode'. --length may be missing where the lengths of the chunks say enough. Nothing \
but chunks is written; of SeaweedFS's volumes .ecx, .ecj and .vif stay as they are.

Exit status: 0 all chunks are there and fit one another, 2 not all could be rebuilt, and nothing was written.

Examples:
  pantile chunks rebuild chunks
  pantile chunks rebuild from-ceph --as ceph:plugin=isa,k=4,m=2 --chunk 4K
  pantile chunks rebuild /data/3 --as seaweedfs
  pantile chunks rebuild chunks --no-check       only the missing ones, of others whose checksums are right")]
struct Rebuild {
    #[command(flatten)]
    source: SourceArgs,
    /// Do not check chunks, and read only as many as are necessary: only missing ones are rebuilt.
    #[arg(long, conflicts_with = "guess")]
    no_check: bool,
    /// Also replace chunks that are only probably wrong.
    #[arg(long)]
    guess: bool,
    /// Print JSON: each chunk with its state before the rebuild.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct ChunksJson<'a> {
    output_version: u32,
    code: &'a str,
    #[serde(rename = "as")]
    profile: Option<&'a str>,
    chunk: Option<usize>,
    length: u64,
    chunks: Vec<ChunkJson<'a>>,
    doubts: u64,
    first_doubt: Option<DoubtJson<'a>>,
    checked: bool,
    recoverable: bool,
    tolerated: usize,
}

#[derive(Serialize)]
struct ChunkJson<'a> {
    column: usize,
    path: String,
    is: &'static str,
    reason: Option<&'a str>,
    first: Option<u64>,
    bytes: Option<u64>,
}

#[derive(Serialize)]
struct DoubtJson<'a> {
    from: u64,
    columns: &'a [usize],
    reason: &'static str,
    evidence_bits: Option<u32>,
}

impl ChunksCommand {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        match self.what {
            What::Verify(command) => command.run(terminal),
            What::Rebuild(command) => command.run(terminal),
        }
    }
}

/// Chunks after they were read.
struct Examined {
    source: Source,
    present: Present,
    checked: Checked,
}

impl Examined {
    /// Reads all present chunks, unless the check is off.
    fn new(arguments: &SourceArgs, terminal: &Terminal, check: Check) -> Result<Examined, Failure> {
        let source = arguments.source_by_chunks()?;
        let mut present = Present::find(&source)?;
        let mut checked = Checked::default();
        if check != Check::Off {
            let message = format!("reading {}", sets::name(&source.place.folder.to_string_lossy()));
            let read = reading(&mut present, &message, terminal, |readers| {
                source.layout.verify(readers, source.length, check)
            });
            checked = read.map_err(|error| fault(error, &source.place))?;
        }
        Ok(Examined { source, present, checked })
    }

    /// Returns the missing or wrong columns, ascending.
    fn bad(&self) -> Vec<usize> {
        let mut bad = self.present.lost_columns();
        bad.extend(self.checked.wrong.iter().map(|wrong| wrong.column));
        bad.sort_unstable();
        bad
    }

    /// Returns the reason why not all chunks can be rebuilt; `None` if they can.
    fn loss(&self, arguments: &SourceArgs) -> Option<String> {
        if let Some(doubt) = &self.checked.first_doubt {
            let guess = format!("pantile chunks rebuild {} --guess", arguments.words());
            return Some(doubt_in_words(doubt, &self.source.place, &guess));
        }
        let lost = self.present.lost_columns();
        let planned = Codec::new(self.source.layout.code()).decoder(&lost);
        planned.err().map(|error| format!("chunks {} are missing: {error}", set(&lost)))
    }

    /// Returns the number of further chunks of which any set can be lost. It is a lower bound for a
    /// code that tolerates some larger sets.
    fn tolerated(&self, arguments: &SourceArgs) -> usize {
        match self.loss(arguments) {
            Some(_) => 0,
            None => self.source.layout.code().claim().tolerance.saturating_sub(self.bad().len()),
        }
    }

    /// Returns each bad chunk as a line, then a sentence about all.
    fn text(&self, arguments: &SourceArgs) -> String {
        let Examined { source: Source { place, layout, .. }, present, checked } = self;
        let mut text = String::new();
        for (column, why) in &present.lost {
            let _ = writeln!(text, "{}: {why}", place.shown(*column));
        }
        for wrong in &checked.wrong {
            let _ = writeln!(text, "{}: {}", place.shown(wrong.column), in_words(wrong));
        }
        let columns = layout.code().columns();
        let bad = self.bad().len();
        let _ = write!(text, "{} of {}: ", count(columns, "chunk"), layout.code());
        let _ = match (bad, checked.doubts) {
            (0, 0) => write!(text, "all are there and fit one another."),
            (0, _) => write!(text, "all are there."),
            _ => write!(text, "{} missing, {} wrong.", present.lost.len(), checked.wrong.len()),
        };
        if checked.doubts > 0 {
            let stripes = count(checked.doubts as usize, "stripe");
            let _ = write!(text, " The chunks do not fit one another in {stripes}.");
        }
        if !checked.is_complete && checked.doubts == 0 {
            text.push_str(" Not all of them could be checked: too few are there.");
        }
        if self.loss(arguments).is_none() {
            let _ = write!(text, " Any {} more can be lost.", self.tolerated(arguments));
            if bad > 0 {
                let _ = write!(text, " To make them again: pantile chunks rebuild {}", arguments.words());
            }
        }
        text.push('\n');
        text
    }

    fn print_json(&self, arguments: &SourceArgs) -> Result<(), Failure> {
        let Examined { source: Source { place, layout, length }, present, checked } = self;
        let chunk = |column: usize| {
            let lost = present.lost.iter().find(|(of, _)| *of == column);
            let wrong = checked.wrong.iter().find(|wrong| wrong.column == column);
            ChunkJson {
                column,
                path: place.path(column).display().to_string(),
                is: match (lost, wrong) {
                    (Some(_), _) => "missing",
                    (None, Some(_)) => "wrong",
                    (None, None) => "good",
                },
                reason: lost.map(|(_, why)| why.as_str()),
                first: wrong.map(|wrong| wrong.first),
                bytes: wrong.map(|wrong| wrong.bytes),
            }
        };
        let doubt = checked.first_doubt.as_ref().map(|doubt| DoubtJson {
            from: doubt.from,
            columns: &doubt.columns,
            reason: match doubt.reason {
                DoubtReason::NotLocated => "not located",
                DoubtReason::FewBytes { .. } => "few bytes",
                DoubtReason::Exchange => "exchange",
            },
            evidence_bits: match doubt.reason {
                DoubtReason::FewBytes { evidence_bits } => Some(evidence_bits),
                DoubtReason::NotLocated | DoubtReason::Exchange => None,
            },
        });
        print_json(&ChunksJson {
            output_version: OUTPUT_VERSION,
            code: layout.code().spec(),
            profile: layout.profile(),
            chunk: layout.chunk(),
            length: *length,
            chunks: (0..layout.code().columns()).map(chunk).collect(),
            doubts: checked.doubts,
            first_doubt: doubt,
            checked: checked.is_complete,
            recoverable: self.loss(arguments).is_none(),
            tolerated: self.tolerated(arguments),
        })
    }
}

fn fault(error: ShardError, place: &Place) -> Failure {
    chunk_files::failure(error, ("read", &place.folder), place, "read")
}

/// Calls `work` with a reader for each present chunk, from its beginning, with progress.
fn reading<T>(
    present: &mut Present,
    message: &str,
    terminal: &Terminal,
    work: impl FnOnce(&mut [Option<&mut dyn Read>]) -> Result<T, ShardError>,
) -> Result<T, ShardError> {
    let progress = Progress::start(terminal, message);
    let is_open = |file: &Option<File>| file.is_some();
    let first = present.files.iter().position(is_open);
    let mut watched = Vec::new();
    for (column, file) in present.files.iter_mut().enumerate() {
        let Some(file) = file else {
            watched.push(None);
            continue;
        };
        let place = |error| ShardError::Shard { column, error };
        file.seek(SeekFrom::Start(0)).map_err(place)?;
        // Progress counts the first chunk only, which stands for all.
        let len = if first == Some(column) { file.metadata().map_err(place)?.len() } else { 0 };
        watched.push(Some(Watched::new(file, &progress, message, len)));
    }
    let mut readers: Vec<Option<&mut dyn Read>> =
        watched.iter_mut().map(|file| file.as_mut().map(|file| -> &mut dyn Read { file })).collect();
    work(&mut readers)
}

impl Verify {
    fn run(self, terminal: &Terminal) -> Outcome {
        let examined = Examined::new(&self.source, terminal, Check::Certain)?;
        match self.json {
            true => examined.print_json(&self.source)?,
            false => print(&examined.text(&self.source))?,
        }
        match (examined.loss(&self.source), examined.bad().is_empty()) {
            (Some(loss), _) => Err(Failure::Losses(loss)),
            (None, true) => Ok(Verdict::Good),
            (None, false) => Ok(Verdict::Bad),
        }
    }
}

impl Rebuild {
    fn run(self, terminal: &Terminal) -> Outcome {
        let check = match (self.no_check, self.guess) {
            (true, _) => Check::Off,
            (false, true) => Check::Probable,
            (false, false) => Check::Certain,
        };
        let mut examined = Examined::new(&self.source, terminal, check)?;
        let bad = examined.bad();
        let loss = examined.loss(&self.source);
        if self.json {
            examined.print_json(&self.source)?;
        }
        if let Some(loss) = loss {
            return Err(Failure::Losses(format!("nothing was written: {loss}")));
        }
        if !bad.is_empty() {
            rebuild(&mut examined, &bad, check, terminal)?;
        }
        if self.json {
            return Ok(Verdict::Good);
        }
        let Examined { source: Source { place, layout, .. }, checked, .. } = &examined;
        let mut text = String::new();
        for &column in &bad {
            let _ = writeln!(text, "{}: rebuilt", place.shown(column));
        }
        let unchecked = match checked.is_complete || self.no_check {
            true => "",
            false => " Not all that were read could be checked: too few were there.",
        };
        let code = layout.code();
        let _ = match bad.len() {
            0 => writeln!(text, "No chunk of {code} is missing or wrong; nothing was written.{unchecked}"),
            made => writeln!(text, "{} of {code} rebuilt.{unchecked}", count(made, "chunk")),
        };
        print(&text)?;
        Ok(Verdict::Good)
    }
}

/// Writes the missing chunks and the wrong ones again.
fn rebuild(examined: &mut Examined, bad: &[usize], check: Check, terminal: &Terminal) -> Result<(), Failure> {
    let Examined { source: Source { place, layout, length }, present, .. } = examined;
    let out = OutDir::open(&place.folder, true);
    let out = out.map_err(|error| Failure::file("write to", &place.folder, &error))?;
    let mut new: Vec<Option<NewFile>> = Vec::new();
    for column in 0..layout.code().columns() {
        new.push(if bad.contains(&column) { Some(out.create(place.name(column))?) } else { None });
    }
    let mut writers: Vec<Option<&mut dyn Write>> =
        new.iter_mut().map(|file| file.as_mut().map(|file| -> &mut dyn Write { file })).collect();
    let message = format!("rebuilding {}", sets::name(&place.folder.to_string_lossy()));
    let done =
        reading(present, &message, terminal, |readers| layout.rebuild(readers, &mut writers, *length, check));
    let is_new = |checked: &Checked| checked.wrong.iter().any(|wrong| !bad.contains(&wrong.column));
    match done {
        Err(ShardError::Doubt(_)) => return Err(changed(place)),
        Err(error) => return Err(fault(error, place)),
        Ok(checked) if is_new(&checked) => return Err(changed(place)),
        Ok(_) => {}
    }
    let new: Vec<(PathBuf, NewFile)> =
        new.into_iter().enumerate().filter_map(|(column, file)| Some((place.path(column), file?))).collect();
    for (path, file) in &new {
        file.file().sync_all().map_err(|error| cannot("write", path, &error))?;
    }
    new.into_iter().try_for_each(|(path, file)| out.give_name(file, &path))
}

fn changed(place: &Place) -> Failure {
    Failure::Damage(format!(
        "{}: a chunk was changed while it was read; nothing was written",
        place.folder.display()
    ))
}
