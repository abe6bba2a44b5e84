//! `pantile decode`: restores a file from raw chunks.

use crate::chunk_files::{self, Present, Source, SourceArgs, doubt_in_words};
use crate::chunks::Watched;
use crate::describe::{count, set};
use crate::failure::{Failure, Outcome, Verdict};
use crate::files::{self, OutDir};
use crate::json::OUTPUT_VERSION;
use crate::progress::Progress;
use crate::sets;
use crate::terminal::{Terminal, print, print_json};
use clap::Args;
use pantile::{Check, Checked, ShardError};
use serde::Serialize;
use std::ffi::OsStr;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Restore a file from raw chunks, even if some are missing or wrong
///
/// Answers: what was in these chunks? Missing chunks, and those of a wrong length, are decoded
/// around, as many as the code tolerates. If more are present than necessary, all are read and
/// checked against each other before anything is written: a wrong one is named and decoded around
/// if the code can locate it. Otherwise nothing is written, and the status is 2.
#[derive(Args)]
#[command(after_long_help = "\
chunks.txt in the folder says how the chunks were made. Where it is missing, or the chunks come from another system, \
--code or --as, --chunk and --length say it; what is given on the command line counts. The chunk of column N is the \
file chunk.N; with --as seaweedfs it is NAME.ec00, NAME.ec01 and so on, and NAME.vif says the length if it is there.

Chunks have no checksums: they are checked by the equations of the code. Of f missing and e wrong chunks the wrong \
ones are located if 2e + f is at most the number that the code tolerates. --out - writes each stripe after it was checked.

Exit status: 0 the file is right, as far as chunks to spare can say; 2 too many chunks are missing, or it is not certain \
which are wrong.

Examples:
  pantile decode chunks --out trace.csv
  pantile decode chunks --out - | sha256sum
  pantile decode chunks --out trace.csv --no-check
  pantile decode from-ceph --as ceph:plugin=isa,k=4,m=2 --chunk 4K --length 1000000 --out object
  pantile decode /data/3 --as seaweedfs --size 1073741824 --out 3.dat")]
pub struct Decode {
    #[command(flatten)]
    source: SourceArgs,
    /// The restored file; - for standard output.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace the file if it exists.
    #[arg(long)]
    overwrite: bool,
    /// Do not check chunks, and read only as many as are necessary: for chunks whose checksums were
    /// checked already.
    #[arg(long, conflicts_with = "guess")]
    no_check: bool,
    /// Also decode around chunks that are only probably wrong.
    #[arg(long)]
    guess: bool,
    /// Print JSON: the decoded chunks and data; not with --out -.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct DecodeJson<'a> {
    output_version: u32,
    code: &'a str,
    #[serde(rename = "as")]
    profile: Option<&'a str>,
    chunk: Option<usize>,
    length: u64,
    lost: Vec<LostJson<'a>>,
    wrong: Vec<WrongJson>,
    checked: bool,
}

#[derive(Serialize)]
struct LostJson<'a> {
    column: usize,
    reason: &'a str,
}

#[derive(Serialize)]
struct WrongJson {
    column: usize,
    first: u64,
    bytes: u64,
}

impl Decode {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        let is_stream = self.out.as_os_str() == "-";
        if is_stream && self.json {
            return Err(Failure::Input(
                "--json and --out - both take standard output; name a file with --out".into(),
            ));
        }
        let source = self.source.source()?;
        let Source { place, layout, length } = &source;
        let len = *length;
        let free = match is_stream || self.overwrite {
            true => None,
            false => Some(self.free_place()?),
        };
        let mut present = Present::find(&source)?;
        let message = format!("decoding {}", sets::name(&self.source.folder.to_string_lossy()));
        let progress = Progress::start(terminal, message.as_str());
        let lost = present.lost_columns();
        let mut readers: Vec<Option<&mut dyn Read>> = present
            .files
            .iter_mut()
            .map(|file| file.as_mut().map(|file| -> &mut dyn Read { file }))
            .collect();
        let fault = |error| self.fault(error, &source, &lost);
        let check = match (self.no_check, self.guess) {
            (true, _) => Check::Off,
            (false, true) => Check::Probable,
            (false, false) => Check::Certain,
        };
        if is_stream {
            if layout.chunk().is_none() {
                return Err(Failure::Input(
                    "these chunks are pieces of the whole data, which is written at many places at once; name a file with --out"
                        .into(),
                ));
            }
            let out = BufWriter::new(std::io::stdout().lock());
            let mut out = Watched::new(out, &progress, &message, len);
            let done = layout.decode(&mut readers, &mut out, len, check);
            // Data that were decoded before a fault are right, and are written as well.
            let flushed = out.flush().map_err(ShardError::Data);
            let checked = done.and_then(|checked| flushed.map(|()| checked)).map_err(fault)?;
            drop(progress);
            present.tell(place, &checked);
            return Ok(Verdict::Good);
        }
        let cannot = |verb, error: &_| files::cannot(verb, &self.out, error);
        let mut new = match &free {
            Some((dir, name)) => dir.create(name)?,
            None => files::create(&self.out)?,
        };
        let mut out = Watched::new(&mut new, &progress, &message, len);
        let checked = layout.decode_file(&mut readers, &mut out, len, check).map_err(fault)?;
        drop(progress);
        new.file().sync_all().map_err(|error| cannot("write", &error))?;
        files::give_name(new, free.is_none()).map_err(|error| cannot("name", &error))?;
        self.answer(&source, &present, &checked)
    }

    fn fault(&self, error: ShardError, source: &Source, lost: &[usize]) -> Failure {
        if let ShardError::Doubt(doubt) = &error {
            let out = sets::quoted(&self.out);
            let guess = format!("pantile decode {} --out {out} --guess", self.source.words());
            let written = match self.out.as_os_str() == "-" {
                true => "what was written before is right",
                false => "nothing was written",
            };
            return Failure::Losses(format!("{written}: {}", doubt_in_words(doubt, &source.place, &guess)));
        }
        match chunk_files::failure(error, ("write", &self.out), &source.place, "read") {
            Failure::Losses(said) => Failure::Losses(format!("chunks {} are missing: {said}", set(lost))),
            other => other,
        }
    }

    /// Returns the directory of a new file that replaces nothing, and its name there.
    fn free_place(&self) -> Result<(OutDir, &OsStr), Failure> {
        let name = self.out.file_name().ok_or_else(|| files::is_there_already(&self.out))?;
        let dir = OutDir::open(self.out.parent().unwrap_or(Path::new("")), false);
        let dir = dir.map_err(|error| Failure::file("create", &self.out, &error))?;
        dir.check_free([name])?;
        Ok((dir, name))
    }

    fn answer(&self, source: &Source, present: &Present, checked: &Checked) -> Outcome {
        let Source { place, layout, length } = source;
        if self.json {
            let lost = present.lost.iter().map(|(column, reason)| LostJson { column: *column, reason });
            let wrong = checked.wrong.iter();
            let wrong = wrong.map(|w| WrongJson { column: w.column, first: w.first, bytes: w.bytes });
            print_json(&DecodeJson {
                output_version: OUTPUT_VERSION,
                code: layout.code().spec(),
                profile: layout.profile(),
                chunk: layout.chunk(),
                length: *length,
                lost: lost.collect(),
                wrong: wrong.collect(),
                checked: checked.is_complete,
            })?;
            return Ok(Verdict::Good);
        }
        present.tell(place, checked);
        let used = present.files.iter().flatten().count() - checked.wrong.len();
        let unchecked = match checked.is_complete || self.no_check {
            true => "",
            false => " Not all of them could be checked: too few are there.",
        };
        print(&format!(
            "{length} bytes in {}, from {} of {}.{unchecked}\n",
            sets::name(&self.out.to_string_lossy()),
            count(used, "chunk"),
            layout.code(),
        ))?;
        Ok(Verdict::Good)
    }
}
