//! Files of raw chunks: names, presence, and messages about wrong ones.

use crate::args;
use crate::chunks::{Layout, LayoutArgs, MADE, small_text};
use crate::failure::{Failure, note};
use crate::files;
use crate::interrupt;
use crate::sets;
use pantile::{Checked, Doubt, DoubtReason, ShardError, WrongColumn};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// True if a profile is SeaweedFS's, with or without a shape.
fn is_seaweedfs(profile: &str) -> bool {
    profile.trim() == "seaweedfs" || profile.starts_with("seaweedfs:")
}

/// The files of some chunks.
#[derive(Clone)]
pub struct Place {
    pub folder: PathBuf,
    /// SeaweedFS's name of the volume, such as `3` or `photos_3`; `None`: chunks are `chunk.N`.
    volume: Option<String>,
}

impl Place {
    /// Returns the paths of the chunks that `encode` makes of a file.
    pub fn of_new(folder: &Path, layout: &Layout, file: &Path) -> Place {
        let is_theirs = layout.profile().is_some_and(is_seaweedfs);
        let name = || file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let volume = is_theirs.then(|| name().strip_suffix(".dat").map_or_else(name, str::to_string));
        Place { folder: folder.to_path_buf(), volume }
    }

    /// Returns the files that a path names: a folder, or for SeaweedFS also the path of a volume
    /// without `.ecNN`.
    fn named(path: &Path, profile: Option<&str>) -> Result<Place, Failure> {
        let is_folder = is_folder(path)?;
        if !profile.is_some_and(is_seaweedfs) {
            return match is_folder {
                Some(true) => Ok(Place { folder: path.to_path_buf(), volume: None }),
                Some(false) => Err(Failure::Input(format!(
                    "{} is no folder; name the one that has the chunks",
                    path.display()
                ))),
                None => Err(Failure::Input(format!("there is no folder {}", path.display()))),
            };
        }
        if is_folder == Some(true) {
            return Place::only_volume(path);
        }
        let folder = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let volumes = if is_folder_there(folder) { volumes(folder)? } else { BTreeSet::new() };
        match path.file_name().and_then(|name| name.to_str()).filter(|&name| volumes.contains(name)) {
            Some(name) => Ok(Place { folder: folder.to_path_buf(), volume: Some(name.to_string()) }),
            None => Err(Failure::Input(format!(
                "there are no shards {}.ec00, .ec01, ..; name their folder, or the path of the volume without .ecNN",
                path.display()
            ))),
        }
    }

    fn only_volume(folder: &Path) -> Result<Place, Failure> {
        let found = volumes(folder)?;
        let mut names = found.iter();
        match (names.next(), names.next()) {
            (Some(one), None) => Ok(Place { folder: folder.to_path_buf(), volume: Some(one.clone()) }),
            (None, _) => Err(Failure::Input(format!(
                "{} has no shards .ec00, .ec01, .. of a SeaweedFS volume",
                folder.display()
            ))),
            (Some(one), Some(other)) => Err(Failure::Input(format!(
                "{} has shards of several volumes ({one}, {other}); name one of them, such as {}",
                folder.display(),
                folder.join(one).display()
            ))),
        }
    }

    /// Returns the file name of a column. Numbers are not padded, as in `ceph-erasure-code-tool`
    /// and klauspost's examples.
    pub fn name(&self, column: usize) -> String {
        match &self.volume {
            None => format!("chunk.{column}"),
            Some(volume) => format!("{volume}.ec{column:02}"),
        }
    }

    pub fn path(&self, column: usize) -> PathBuf {
        self.folder.join(self.name(column))
    }

    /// Returns the path of a column, safe for a terminal.
    pub fn shown(&self, column: usize) -> String {
        sets::name(&self.path(column).to_string_lossy())
    }

    /// Returns the paths of columns in words.
    fn all_shown(&self, columns: &[usize]) -> String {
        columns.iter().map(|&column| self.shown(column)).collect::<Vec<_>>().join(", ")
    }
}

/// True if a path is a folder; `None` if it does not exist.
fn is_folder(path: &Path) -> Result<Option<bool>, Failure> {
    match std::fs::metadata(path) {
        Ok(meta) => Ok(Some(meta.is_dir())),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(Failure::file("read", path, &error)),
    }
}

fn is_folder_there(path: &Path) -> bool {
    is_folder(path).is_ok_and(|found| found == Some(true))
}

/// Returns the names of the SeaweedFS volumes whose shards are in a folder.
fn volumes(folder: &Path) -> Result<BTreeSet<String>, Failure> {
    let cannot = |error| Failure::file("read", folder, &error);
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).map_err(cannot)? {
        let name = entry.map_err(cannot)?.file_name();
        let Some((volume, number)) = name.to_str().and_then(|name| name.rsplit_once(".ec")) else { continue };
        if !volume.is_empty() && number.len() == 2 && number.bytes().all(|byte| byte.is_ascii_digit()) {
            found.insert(volume.to_string());
        }
    }
    Ok(found)
}

/// The fields of SeaweedFS's `.vif` that determine chunks. It is JSON; 64-bit numbers are strings.
struct VolumeInfo {
    profile: Option<String>,
    length: Option<u64>,
}

impl VolumeInfo {
    /// Reads the `.vif` of a volume; both fields are `None` without such a file.
    fn read(place: &Place) -> Result<VolumeInfo, Failure> {
        let none = VolumeInfo { profile: None, length: None };
        let Some(volume) = &place.volume else { return Ok(none) };
        let path = place.folder.join(format!("{volume}.vif"));
        let text = match small_text(&path) {
            Ok(text) if text.is_empty() => return Ok(none),
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(none),
            Err(error) => return Err(Failure::file("read", &path, &error)),
        };
        let info: Value = serde_json::from_str(&text).map_err(|error| {
            Failure::Input(format!("{}: {error}; it is no .vif of SeaweedFS", path.display()))
        })?;
        let number = |of: &Value, names: [&str; 2]| {
            let value = names.iter().find_map(|name| of.get(name))?;
            value.as_u64().or_else(|| value.as_str()?.parse().ok()).filter(|&number| number > 0)
        };
        let config =
            info.get("ecShardConfig").or_else(|| info.get("ec_shard_config")).unwrap_or(&Value::Null);
        let shards = number(config, ["dataShards", "data_shards"])
            .zip(number(config, ["parityShards", "parity_shards"]));
        let is_uniform = number(config, ["blockSize", "block_size"]).is_some();
        let (k, m) = shards.unwrap_or((10, 4));
        let uniform = if is_uniform { " uniform" } else { "" };
        let profile = (shards.is_some() || is_uniform).then(|| format!("seaweedfs:{k}+{m}{uniform}"));
        Ok(VolumeInfo { profile, length: number(&info, ["datFileSize", "dat_file_size"]) })
    }
}

/// The chunks of a command line.
#[derive(clap::Args)]
pub struct SourceArgs {
    /// The folder of the chunks; with --as seaweedfs also the path of a volume, such as /data/3.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    #[command(flatten)]
    layout: LayoutArgs,
    /// Length of the data in bytes.
    #[arg(long, value_name = "SIZE", value_parser = args::size, visible_alias = "size")]
    length: Option<u64>,
}

/// Chunks, and their layout.
pub struct Source {
    pub place: Place,
    pub layout: Layout,
    pub length: u64,
}

impl SourceArgs {
    /// Returns the options that name the same chunks to another command.
    pub fn words(&self) -> String {
        let length = self.length.map(|length| format!(" --length {length}")).unwrap_or_default();
        format!("{}{}{length}", sets::quoted(&self.folder), self.layout.words())
    }

    /// Returns layout and data length, from the command line or from the text beside the chunks.
    pub fn source(&self) -> Result<Source, Failure> {
        self.find(|_, _| {
            Err(Failure::Input(
                "--length is missing: how many bytes do the data have? what follows them in the chunks are zeros"
                    .into(),
            ))
        })
    }

    /// Returns the same as `source`, but a chunk length suffices in place of the data length: data
    /// of any length are padded to the same chunks.
    pub fn source_by_chunks(&self) -> Result<Source, Failure> {
        self.find(|place, layout| {
            let len_of = |column| files::found(&place.path(column)).and_then(|file| file.metadata());
            let lens: Vec<u64> = (0..layout.code().columns())
                .filter_map(|column| len_of(column).ok().filter(|meta| meta.is_file()).map(|meta| meta.len()))
                .collect();
            let most = lens.iter().copied().max_by_key(|len| lens.iter().filter(|other| *other == len).count());
            most.and_then(|len| layout.data_len_of(len)).ok_or_else(|| {
                Failure::Input(
                    "--length is missing: how many bytes do the data have? the lengths of the chunks do not say it"
                        .into(),
                )
            })
        })
    }

    fn find(
        &self,
        length_of: impl FnOnce(&Place, &Layout) -> Result<u64, Failure>,
    ) -> Result<Source, Failure> {
        if !self.layout.is_given() {
            let folder = Place::named(&self.folder, None)?.folder;
            if self.layout.has_chunk() {
                return Err(Failure::Input("--chunk is of the code; give --code or --as, too".into()));
            }
            let Some((layout, length)) = Layout::read(&folder, self.layout.reading())? else {
                return Err(Failure::Input(format!(
                    "{} has no {MADE} that says how the chunks were made; give --code or --as, --chunk and --length",
                    folder.display()
                )));
            };
            let place = Place::named(&folder, layout.profile())?;
            return Ok(Source { place, layout, length: self.length.unwrap_or(length) });
        }
        let place = Place::named(&self.folder, self.layout.profile())?;
        let info = VolumeInfo::read(&place)?;
        // A shape on the command line takes precedence.
        let is_open = self.layout.profile().is_some_and(|profile| profile.trim() == "seaweedfs");
        let profile = info.profile.as_deref().filter(|_| is_open).or(self.layout.profile());
        let layout = self.layout.layout_as(profile)?;
        let length = match self.length.or(info.length) {
            Some(length) => length,
            None => length_of(&place, &layout)?,
        };
        Ok(Source { place, layout, length })
    }
}

/// The usable chunks, open, and the reason why each of the others is not usable.
pub struct Present {
    pub files: Vec<Option<File>>,
    /// Columns without a usable chunk, each with the reason.
    pub lost: Vec<(usize, String)>,
}

impl Present {
    /// Opens the chunks. A chunk whose length does not fit its layout counts as lost.
    pub fn find(source: &Source) -> Result<Present, Failure> {
        let Source { place, layout, length } = source;
        let mut present = Present { files: Vec::new(), lost: Vec::new() };
        let mut other_lengths = Vec::new();
        for column in 0..layout.code().columns() {
            let need = layout.len_of(column, *length);
            let found = files::found(&place.path(column)).and_then(|file| Ok((file.metadata()?, file)));
            let why = match found {
                Ok((meta, file)) if meta.len() == need => {
                    present.files.push(Some(file));
                    continue;
                }
                Ok((meta, _)) => {
                    let have = meta.len();
                    other_lengths.push((column, have, need));
                    format!("it has {have} bytes, not {need}")
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => "it is missing".into(),
                Err(error) => error.to_string(),
            };
            present.files.push(None);
            present.lost.push((column, why));
        }
        let columns = layout.code().columns();
        let none = present.files.iter().all(Option::is_none);
        match other_lengths.first() {
            Some((column, have, need)) if none => Err(Failure::Input(format!(
                "{} has {have} bytes where these arguments make {need}, and no chunk has the length that they make; \
                 give the code, --chunk and --length with which it was made",
                place.path(*column).display()
            ))),
            None if present.lost.len() == columns => Err(Failure::Losses(format!(
                "{} has no chunk of {}; chunks are named {} to {}",
                place.folder.display(),
                layout.code(),
                place.name(0),
                place.name(columns - 1)
            ))),
            _ => Ok(present),
        }
    }

    pub fn lost_columns(&self) -> Vec<usize> {
        self.lost.iter().map(|&(column, _)| column).collect()
    }

    /// Reports unused chunks on standard error.
    pub fn tell(&self, place: &Place, checked: &Checked) {
        for (column, why) in &self.lost {
            note(&format!("{}: {why}; it is computed from the others.", place.shown(*column)));
        }
        for wrong in &checked.wrong {
            note(&format!(
                "{}: {}; it is computed from the others.",
                place.shown(wrong.column),
                in_words(wrong)
            ));
        }
    }
}

/// Returns the wrong range of a chunk in words.
pub fn in_words(wrong: &WrongColumn) -> String {
    match wrong.bytes {
        1 => format!("its byte {} is wrong", wrong.first),
        bytes => format!("{bytes} of its bytes are wrong, the first is byte {}", wrong.first),
    }
}

/// Returns a stripe with an uncertain error in words; `guess` is the command that decodes around
/// the probable one.
pub fn doubt_in_words(doubt: &Doubt, place: &Place, guess: &str) -> String {
    let Doubt { from, columns, reason } = doubt;
    let named = place.all_shown(columns);
    let is = if columns.len() == 1 { "is" } else { "are" };
    match reason {
        DoubtReason::NotLocated => format!(
            "at byte {from} of each chunk the chunks do not fit one another, and the code cannot tell which are wrong"
        ),
        DoubtReason::FewBytes { evidence_bits } => format!(
            "{named} {is} probably wrong behind byte {from}, but only in a few bytes: a larger error looks so once in \
             2^{evidence_bits}; if that will do: {guess}"
        ),
        DoubtReason::Exchange => format!(
            "behind byte {from} {named} {is} wrong, or others have each other's names; if they have their own: {guess}"
        ),
    }
}

/// Describes a failure to read or make chunks with the user's file names. `data` is the verb and
/// the path of the data, `verb` that of chunks.
pub fn failure(error: ShardError, data: (&str, &Path), place: &Place, verb: &str) -> Failure {
    if interrupt::asked() {
        return Failure::Interrupted("interrupted; nothing was changed".into());
    }
    match error {
        ShardError::Data(error) => Failure::file(data.0, data.1, &error),
        ShardError::Shard { column, error } => Failure::file(verb, &place.path(column), &error),
        ShardError::Plan(error) => Failure::Losses(error.to_string()),
        other => Failure::input(other),
    }
}
