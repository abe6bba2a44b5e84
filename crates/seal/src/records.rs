//! What this user sealed on this machine: a file for each set in a directory of hers, which nobody
//! else can write.
//!
//! A set names the places of its originals, and whoever made it may have named any place. A record
//! says which directories these were when the set was sealed here. It fits as long as they are the
//! same: a path that leads elsewhere now, by a link or because something else was put there, does
//! not fit, and neither does anything on another machine. Nor does a record count that lies in a
//! directory of another user, at any depth.
//!
//! A record is a text: a line for the format, a line for the [`state`] of the set, then a line for
//! each source. That has `dir` or `file`; of the directory, or of that in which the file lies, the
//! number of its inode and the time at which that was made, or the number of its device where the
//! file system does not keep that time; and the path of the source. What is not there counts as a
//! file, so that no record of a directory fits. A record is written anew by each seal. Its time of
//! modification tells since when what was not touched is what that state has: when the seal began;
//! or what the record before told, if a file that was touched since counts as unchanged and was not
//! read.

use crate::bounds::{Bounds, read_stored};
use crate::disk::{Access, Disk, DiskFile, EPOCH, Identity, Meta, MetaKind, ROOT_DIR};
use crate::links::is_led_to_by_nobody_else;
use crate::names::{parent, temp};
use crate::shard::manifest_under;
use pantile_format::{Crc64, Manifest, Part, SetId, ShardHeader, Timestamp};
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

const FIRST_LINE: &str = "pantile record 3\n";
const FIRST_LINE_V2: &str = "pantile record 2\n";
/// What the line of the state begins with.
const STATE: &str = "state ";

/// As many sources as a manifest can name have less.
const BYTES_MOST: u64 = 1 << 20;

/// Notes where the sources of a set are, and that they are as this state has them as far as they
/// were not touched since a time.
///
/// Best effort: without a record the person is asked to name them when they are to be repaired.
pub(crate) fn note(
    disk: &dyn Disk,
    records: &Path,
    (set, state): (&str, &str),
    sources: &[PathBuf],
    at: Timestamp,
) -> io::Result<()> {
    if !is_led_to_by_nobody_else(records) {
        return Ok(());
    }
    let text = format!("{FIRST_LINE}{STATE}{state}\n{}", describe(disk, sources)?);
    disk.make_root(records, ROOT_DIR)?;
    let path = records.join(set);
    if !is_ours(&disk.meta(records)?, MetaKind::Dir) {
        return Ok(());
    }
    let file = disk.create(&temp(&path))?;
    file.write_at(text.as_bytes(), 0)?;
    file.set_meta(file.meta()?.mode, at)?;
    file.sync()?;
    file.give_name(&path)?;
    disk.sync_dir(records)
}

/// Keeps a copy of the manifest of a set, by which it is read where its shards have lost theirs.
///
/// A copy of this generation stays as it is.
pub(crate) fn keep_manifest(disk: &dyn Disk, records: &Path, manifest: &[u8]) -> io::Result<()> {
    let Some((set, generation, len)) = Manifest::announced(manifest) else { return Ok(()) };
    disk.make_root(records, ROOT_DIR)?;
    let path = manifest_path(records, set);
    let mut begin = [0; Manifest::BEGIN_BYTES as usize];
    let is_kept = |file: Box<dyn DiskFile>| {
        let have = file.read_at(&mut begin, 0)?;
        Ok(Manifest::announced(&begin[..have]) == Some((set, generation, len)) && file.meta()?.size == len)
    };
    if disk.open(&path).and_then(is_kept).unwrap_or(false) {
        return Ok(());
    }
    let file = disk.create(&temp(&path))?;
    file.write_at(manifest, 0)?;
    file.sync()?;
    file.give_name(&path)?;
    disk.sync_dir(records)
}

/// The copy of the manifest that shards of these headers have, if it was kept and is whole.
pub(crate) fn kept_manifest(
    disk: &dyn Disk,
    records: &Path,
    headers: &[&ShardHeader],
    bounds: Bounds,
) -> Option<Manifest> {
    disk.root(records, Access::Read).ok()?;
    let file = disk.open(&manifest_path(records, headers.first()?.set)).ok()?;
    let len = file.meta().ok()?.size;
    bounds.check_manifest(len).ok()?;
    let bytes = read_stored(&*file, (0, len), len, Part::Manifest).ok()?;
    let crc = Crc64::of(&bytes);
    let header = headers.iter().find(|header| (header.manifest_len, header.manifest_crc) == (len, crc))?;
    manifest_under(&bytes, header).ok()
}

/// The name of the copy of a set's manifest.
fn manifest_path(records: &Path, set: SetId) -> PathBuf {
    records.join(format!("{set}.manifest"))
}

/// What a record tells.
pub(crate) struct Record {
    /// Since when what was not touched is what the state has that this user sealed last here.
    /// Shards tell a time, too, but whoever may write to them may set it.
    at: Timestamp,
    /// That state; older records do not have it.
    state: Option<String>,
    /// Whether its sources are where they were.
    pub(crate) fits: bool,
}

/// A state of a set as a record tells of it: by the digest of its manifest; without checksums also
/// by the first time of its shards, since nothing in the manifest is of what files hold.
pub(crate) fn state(manifest: &Manifest, digest: &str, sealed_at: Option<Timestamp>) -> String {
    match sealed_at.filter(|_| !manifest.checksums) {
        Some(at) => format!("{digest} of {}.{:09}", at.seconds, at.nanos),
        None => digest.into(),
    }
}

impl Record {
    /// Since when what was not touched is what a state has.
    pub(crate) fn known_since(&self, state: impl FnOnce() -> String) -> Timestamp {
        let is_of_it = self.state.as_ref().is_some_and(|noted| *noted == state());
        if is_of_it { self.at } else { EPOCH }
    }
}

/// This user's record of a set, if there is one.
pub(crate) fn record_of(disk: &dyn Disk, records: &Path, set: &str, sources: &[PathBuf]) -> Option<Record> {
    let found = || {
        disk.root(records, Access::Read)?;
        let (text, at) = read(disk, &records.join(set))?;
        // Whoever may exchange a directory on the way may put another one of this user there, in
        // which she restored what somebody else made.
        let is_hers = is_ours(&disk.meta(records)?, MetaKind::Dir) && is_led_to_by_nobody_else(records);
        let with_state = text.strip_prefix(FIRST_LINE).and_then(|rest| rest.strip_prefix(STATE));
        let (state, lines) = match with_state.and_then(|rest| rest.split_once('\n')) {
            Some((state, lines)) => (Some(state.to_string()), Some(lines)),
            None => (None, text.strip_prefix(FIRST_LINE_V2)),
        };
        let fits = || {
            lines.is_some_and(|lines| describe(disk, sources).is_ok_and(|now| now == lines))
                || describe_v1(disk, sources).is_some_and(|now| now == text)
        };
        Ok::<Option<Record>, io::Error>(is_hers.then(|| Record { at, state, fits: fits() }))
    };
    found().unwrap_or(None)
}

/// A line for each source, in the versions of the format that have paths.
fn describe(disk: &dyn Disk, sources: &[PathBuf]) -> io::Result<String> {
    let mut text = String::new();
    for source in sources {
        // A file is made anew whenever it is healed or saved; the directory that it lies in stays.
        // Which name it has there counts as well: another name would be another file.
        let is_dir = disk.meta(source).is_ok_and(|meta| meta.kind == MetaKind::Dir);
        let kind = if is_dir { "dir" } else { "file" };
        let dir = if is_dir { source.clone() } else { parent(source) };
        let path = source.as_os_str().as_encoded_bytes().escape_ascii();
        let _ = writeln!(text, "{kind} {} {path}", identity(disk, &dir)?);
    }
    Ok(text)
}

/// The same as version 1 has it, which tells of a file only the directory that it lies in; `None`
/// if a source is no directory.
fn describe_v1(disk: &dyn Disk, sources: &[PathBuf]) -> Option<String> {
    let mut text = String::from("pantile record 1\n");
    for source in sources {
        let is_dir = disk.meta(source).is_ok_and(|meta| meta.kind == MetaKind::Dir);
        let _ = writeln!(text, "source {}", identity(disk, source).ok().filter(|_| is_dir)?);
    }
    Some(text)
}

fn identity(disk: &dyn Disk, dir: &Path) -> io::Result<String> {
    let Identity { id, born } = disk.identity(dir)?;
    Ok(match born {
        Some(born) => format!("{} born {}.{:09}", id.inode, born.seconds, born.nanos),
        None => format!("{} device {}", id.inode, id.device),
    })
}

fn read(disk: &dyn Disk, path: &Path) -> io::Result<(String, Timestamp)> {
    let file = disk.open(path)?;
    let meta = file.meta()?;
    if !is_ours(&meta, MetaKind::File) || meta.size > BYTES_MOST {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let mut bytes = vec![0; meta.size as usize];
    let have = file.read_at(&mut bytes, 0)?;
    bytes.truncate(have);
    let text = String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok((text, meta.mtime))
}

/// Whether nobody but this user, and root, can have written it.
pub(crate) fn is_ours(meta: &Meta, kind: MetaKind) -> bool {
    const OTHERS_WRITE: u32 = 0o022;
    meta.kind == kind && meta.owner == rustix::process::geteuid().as_raw() && meta.mode & OTHERS_WRITE == 0
}
