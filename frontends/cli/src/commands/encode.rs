//! `pantile encode`: makes raw chunks of a file.

use crate::chunk_files::{self, Place};
use crate::chunks::{Layout, LayoutArgs, MADE, Watched};
use crate::describe::count;
use crate::failure::{Failure, Outcome, Verdict};
use crate::files::{self, OutDir};
use crate::json::OUTPUT_VERSION;
use crate::progress::Progress;
use crate::sets;
use crate::terminal::{Terminal, print, print_json};
use clap::Args;
use pantile_paths::NewFile;
use serde::Serialize;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};

/// Make raw chunks of a file, one for each column of a code
///
/// Answers: give me the chunks that Ceph, HDFS, ISA-L, Jerasure, klauspost or SeaweedFS would make
/// of this file, or those of any code here. A small text beside the chunks records their layout,
/// and 'pantile decode' needs nothing else. Chunks have no checksums; 'pantile seal' protects
/// files.
#[derive(Args)]
#[command(after_long_help = "\
The chunk of column N is the file chunk.N in the folder of --out, which is made if it is not there; with --as \
seaweedfs it is NAME.ec00, NAME.ec01 and so on, for a file NAME.dat. chunks.txt says how they were made. All are written under other names first: what is there before stays whole until all is done. \
docs/chunks.md has the layouts byte by byte.

Examples:
  pantile encode trace.csv --code rs:10+4 --chunk 64K --out chunks
  pantile encode trace.csv --as ceph:plugin=isa,k=4,m=2 --chunk 4K --out like-ceph
  pantile encode trace.csv --as hdfs:RS-6-3-1024k --out like-hdfs
  pantile encode trace.csv --as seaweedfs --out like-seaweedfs
  pantile encode - --code raid6:4 --out from-a-pipe")]
pub struct Encode {
    /// The file; - for standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    layout: LayoutArgs,
    /// The folder of the chunks.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Replace existing chunks.
    #[arg(long)]
    overwrite: bool,
    /// Print JSON: the chunks and their layout.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct EncodeJson<'a> {
    output_version: u32,
    code: &'a str,
    #[serde(rename = "as")]
    profile: Option<&'a str>,
    chunk: Option<usize>,
    length: u64,
    chunks: Vec<ChunkJson>,
}

#[derive(Serialize)]
struct ChunkJson {
    column: usize,
    path: String,
    bytes: u64,
}

/// The data to encode.
enum Source {
    /// A file and its length in bytes.
    File(File, u64),
    /// A stream of unknown length.
    Stream(Box<dyn Read>),
}

impl Encode {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        let layout = self.layout.layout()?;
        layout.code().check_stores().map_err(Failure::input)?;
        let source = self.source(&layout)?;
        let columns = layout.code().columns();
        let place = Place::of_new(&self.out, &layout, &self.file);
        let out = OutDir::make(&self.out, self.overwrite);
        let out = out.map_err(|error| Failure::file("make", &self.out, &error))?;
        out.check_free((0..columns).map(|column| place.name(column)))?;
        out.check_free(layout.texts())?;
        let mut new = Vec::with_capacity(columns);
        for column in 0..columns {
            new.push(out.create(place.name(column))?);
        }
        let len = self.encode((&layout, &place), source, &mut new, terminal)?;
        for (column, file) in new.iter().enumerate() {
            let synced = file.file().sync_all();
            synced.map_err(|error| files::cannot("write", &place.path(column), &error))?;
        }
        // Until the end, chunks of two encodings can be mixed, so the text that would describe them
        // is removed.
        if self.overwrite {
            out.remove(MADE)?;
        }
        for (column, file) in new.into_iter().enumerate() {
            out.give_name(file, &place.path(column))?;
        }
        layout.write_made(&out, len)?;
        self.answer(&layout, &place, len)
    }

    /// Opens the data to encode.
    fn source(&self, layout: &Layout) -> Result<Source, Failure> {
        let source = if self.file.as_os_str() == "-" {
            let stdin = files::stdin().map_err(|error| Failure::file("read", &self.file, &error))?;
            Source::Stream(Box::new(BufReader::new(stdin)))
        } else {
            let opened = files::input(&self.file).and_then(|file| Ok((file.metadata()?, file)));
            let (meta, file) = opened.map_err(|error| not_there(&self.file, &error))?;
            if meta.is_dir() {
                return Err(Failure::Input(format!(
                    "{} is a directory; 'pantile seal' takes those",
                    self.file.display()
                )));
            }
            match meta.is_file() {
                true => Source::File(file, meta.len()),
                false => Source::Stream(Box::new(file)),
            }
        };
        match source {
            Source::Stream(_) if layout.chunk().is_none() => Err(Failure::Input(
                "these chunks are pieces of the whole data, whose length must be known first; name a file, or give \
                 stripes with --chunk"
                    .into(),
            )),
            source => Ok(source),
        }
    }

    fn encode(
        &self,
        (layout, place): (&Layout, &Place),
        source: Source,
        files: &mut [NewFile],
        terminal: &Terminal,
    ) -> Result<u64, Failure> {
        let message = format!("encoding {}", sets::name(&self.file.to_string_lossy()));
        let progress = Progress::start(terminal, message.as_str());
        let mut writers: Vec<&mut dyn Write> =
            files.iter_mut().map(|file| -> &mut dyn Write { file }).collect();
        let coded = match source {
            Source::Stream(stream) => {
                layout.encode(&mut Watched::new(stream, &progress, &message, 0), &mut writers)
            }
            Source::File(file, len) => {
                layout.encode_file(&mut Watched::new(file, &progress, &message, len), len, &mut writers)
            }
        };
        coded.map_err(|error| chunk_files::failure(error, ("read", &self.file), place, "write"))
    }

    fn answer(&self, layout: &Layout, place: &Place, len: u64) -> Outcome {
        let code = layout.code();
        let columns = 0..code.columns();
        if self.json {
            let chunk = |column| ChunkJson {
                column,
                path: place.path(column).display().to_string(),
                bytes: layout.len_of(column, len),
            };
            print_json(&EncodeJson {
                output_version: OUTPUT_VERSION,
                code: code.spec(),
                profile: layout.profile(),
                chunk: layout.chunk(),
                length: len,
                chunks: columns.map(chunk).collect(),
            })?;
            return Ok(Verdict::Good);
        }
        let stored: u64 = columns.map(|column| layout.len_of(column, len)).sum();
        let theirs = layout.profile().map(|profile| format!(" ({profile})")).unwrap_or_default();
        print(&format!(
            "{} of {code}{theirs} in {}: {len} bytes of data, {stored} bytes in all. Any {} may be lost.\n",
            count(code.columns(), "chunk"),
            sets::name(&self.out.to_string_lossy()),
            code.claim().tolerance,
        ))?;
        Ok(Verdict::Good)
    }
}

fn not_there(path: &Path, error: &std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            Failure::Input(format!("there is no file {}; name one, or - for standard input", path.display()))
        }
        _ => Failure::file("read", path, error),
    }
}
