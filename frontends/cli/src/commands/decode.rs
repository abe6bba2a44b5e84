//! `pantile decode`: a file from raw chunks.

use crate::chunks::{self, Layout, LayoutArgs, MADE, Present, Watched};
use crate::describe::{count, set};
use crate::failure::{Failure, Outcome, Verdict};
use crate::files::{self, NewFile, OutDir};
use crate::json::OUTPUT_VERSION;
use crate::progress::Progress;
use crate::sets;
use crate::terminal::{Terminal, print, print_json};
use clap::Args;
use pantile_seal::disk::describe_real;
use serde::Serialize;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::PathBuf;

/// Put a file together from raw chunks, with any that are missing computed from the others
///
/// Answers: what was in these chunks? Chunks that are missing, or have another length than they
/// should, are decoded around, as many as the code can bear. What is wrong inside a chunk is not
/// seen: chunks have no checksums.
#[derive(Args)]
#[command(after_long_help = "\
chunks.txt in the folder says how the chunks were made. Where it is missing, or the chunks come from another system, \
--code or --as, --chunk and --length say it; what is given on the command line counts. The chunk of column N is the \
file chunk.N.

Examples:
  pantile decode chunks --out trace.csv
  pantile decode chunks --out - | sha256sum
  pantile decode from-ceph --as ceph:plugin=isa,k=4,m=2 --chunk 4K --length 1000000 --out object")]
pub struct Decode {
    /// The folder of the chunks.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    layout: LayoutArgs,
    /// Bytes of the data.
    #[arg(long, value_name = "SIZE", value_parser = crate::args::size)]
    length: Option<u64>,
    /// The file that is made; - for standard output.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace the file if it is there.
    #[arg(long)]
    overwrite: bool,
    /// Print JSON: what was decoded; not with --out -.
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
}

#[derive(Serialize)]
struct LostJson<'a> {
    column: usize,
    reason: &'a str,
}

impl Decode {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        let is_stream = self.out.as_os_str() == "-";
        if is_stream && self.json {
            return Err(Failure::Input(
                "--json and --out - both take standard output; name a file with --out".into(),
            ));
        }
        let (layout, len) = self.how()?;
        let free = match is_stream || self.overwrite {
            true => None,
            false => Some(self.free_place()?),
        };
        let mut present = Present::find(&self.folder, &layout, len)?;
        let lost: Vec<usize> = present.lost.iter().map(|&(column, _)| column).collect();
        if lost.len() == layout.code().columns() {
            return Err(Failure::Losses(format!(
                "{} has no chunk of {}; chunks are named chunk.0 to chunk.{}",
                self.folder.display(),
                layout.code(),
                lost.len() - 1
            )));
        }
        let message = format!("decoding {}", sets::name(&self.folder.to_string_lossy()));
        let progress = Progress::start(terminal, message.as_str());
        let mut readers: Vec<Option<&mut dyn Read>> = present
            .files
            .iter_mut()
            .map(|file| file.as_mut().map(|file| -> &mut dyn Read { file }))
            .collect();
        let fault = |error| {
            let failure = chunks::failure(error, ("write", &self.out), &self.folder, "read");
            match failure {
                Failure::Losses(said) => {
                    Failure::Losses(format!("chunks {} are missing: {said}", set(&lost)))
                }
                other => other,
            }
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
            let done = layout.decode(&mut readers, &mut out, len);
            done.and_then(|()| out.flush().map_err(pantile::ShardError::Data)).map_err(fault)?;
            drop(progress);
            present.tell(&self.folder);
            return Ok(Verdict::Good);
        }
        let cannot = |verb, error| files::cannot(verb, &self.out, &error);
        let mut new = match &free {
            Some((dir, name)) => dir.create(name)?,
            None => NewFile::create(&self.out)?,
        };
        let mut out = Watched::new(&mut new, &progress, &message, len);
        layout.decode_file(&mut readers, &mut out, len).map_err(fault)?;
        drop(progress);
        new.sync().map_err(|error| cannot("write", error))?;
        new.give_name().map_err(|error| cannot("name", error))?;
        self.answer(&layout, len, &present)
    }

    /// The directory in which a file is made that replaces nothing, and its name there.
    fn free_place(&self) -> Result<(OutDir, &OsStr), Failure> {
        let name = self.out.file_name().ok_or_else(|| files::is_there_already(&self.out))?;
        let dir = OutDir::of(&self.out, false);
        let dir = dir.map_err(|error| Failure::file("create", &self.out, &error))?;
        dir.check_free([name])?;
        Ok((dir, name))
    }

    /// How the chunks were made and how long the data are: as given, or as the text beside them
    /// says.
    fn how(&self) -> Result<(Layout, u64), Failure> {
        let meta = describe_real(&self.folder);
        match meta {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => {
                return Err(Failure::Input(format!(
                    "{} is no folder; name the one that has the chunks",
                    self.folder.display()
                )));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Failure::Input(format!("there is no folder {}", self.folder.display())));
            }
            Err(error) => return Err(Failure::file("read", &self.folder, &error)),
        }
        if !self.layout.is_given() {
            if self.layout.has_chunk() {
                return Err(Failure::Input("--chunk is of the code; give --code or --as, too".into()));
            }
            let Some((layout, length)) = Layout::read(&self.folder, self.layout.reading())? else {
                return Err(Failure::Input(format!(
                    "{} has no {MADE} that says how the chunks were made; give --code or --as, --chunk and --length",
                    self.folder.display()
                )));
            };
            return Ok((layout, self.length.unwrap_or(length)));
        }
        match self.length {
            Some(length) => Ok((self.layout.layout()?, length)),
            None => Err(Failure::Input(
                "--length is missing: how many bytes do the data have? what follows them in the chunks are zeros".into(),
            )),
        }
    }

    fn answer(&self, layout: &Layout, len: u64, present: &Present) -> Outcome {
        if self.json {
            print_json(&DecodeJson {
                output_version: OUTPUT_VERSION,
                code: layout.code().spec(),
                profile: layout.profile(),
                chunk: layout.chunk(),
                length: len,
                lost: present
                    .lost
                    .iter()
                    .map(|(column, reason)| LostJson { column: *column, reason })
                    .collect(),
            })?;
            return Ok(Verdict::Good);
        }
        present.tell(&self.folder);
        let used = present.files.iter().filter(|file: &&Option<File>| file.is_some()).count();
        print(&format!(
            "{len} bytes in {}, from {} of {}.\n",
            sets::name(&self.out.to_string_lossy()),
            count(used, "chunk"),
            layout.code(),
        ))?;
        Ok(Verdict::Good)
    }
}
