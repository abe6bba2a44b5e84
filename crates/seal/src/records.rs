//! The record of each set that this user sealed on this machine, with the places of its sources and
//! a copy of its manifest.
//!
//! A set names the places of its originals, and its maker may have named any place. A record has
//! the places of this user's disks, so that later commands need no `--disk`.
//!
//! The record is a text. It has a line for the format, a line with the digest of the manifest that
//! was sealed last, and two lines for each disk: its name (empty if it is restored as the target
//! itself) and its path. In these lines `\` and line feeds are written `\\` and `\n`. Each seal
//! writes the record again, and so does `heal` with a `--disk`.

use crate::disk::{Access, Disk, DiskFile, ROOT_DIR};
use crate::set::bounds::{Bounds, read_stored};
use crate::set::names::temp;
use crate::set::shard::manifest_under;
use pantile_format::{Crc64, Manifest, Part, SetId, ShardHeader};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

const FIRST_LINE: &str = "pantile record 5";
const MANIFEST: &str = "manifest ";
const DISK: &str = "disk ";
const AT: &str = "at ";

/// The longest record that is read: longer than the paths of all sources that a manifest names.
const BYTES_MOST: u64 = 1 << 20;

/// A record of a set.
pub(crate) struct Record {
    /// The digest of the manifest that this user sealed last.
    pub(crate) manifest: String,
    /// The names and last places of the disks.
    pub(crate) disks: Vec<(Vec<u8>, PathBuf)>,
}

impl Record {
    /// Returns the last place of a disk.
    pub(crate) fn path_of(&self, name: &[u8]) -> Option<&Path> {
        self.disks.iter().find(|(known, _)| known == name).map(|(_, path)| path.as_path())
    }
}

/// Writes the record of a set.
///
/// Best effort: without a record the user must name the sources when they are to be repaired.
pub(crate) fn note(
    disk: &dyn Disk,
    records: &Path,
    (set, manifest): (&str, &str),
    disks: &[(Vec<u8>, PathBuf)],
) -> io::Result<()> {
    let mut text = format!("{FIRST_LINE}\n{MANIFEST}{manifest}\n").into_bytes();
    let mut line = |word: &str, value: &[u8]| {
        text.extend_from_slice(word.as_bytes());
        for &byte in value {
            match byte {
                b'\\' => text.extend_from_slice(b"\\\\"),
                b'\n' => text.extend_from_slice(b"\\n"),
                byte => text.push(byte),
            }
        }
        text.push(b'\n');
    };
    for (name, path) in disks {
        line(DISK, name);
        line(AT, path.as_os_str().as_bytes());
    }
    write(disk, records, &records.join(set), &text)
}

/// Returns this user's record of a set, if there is one.
pub(crate) fn record_of(disk: &dyn Disk, records: &Path, set: SetId) -> Option<Record> {
    disk.root(records, Access::Read).ok()?;
    let file = disk.open(&records.join(set.to_string())).ok()?;
    let len = file.meta().ok()?.size;
    if len > BYTES_MOST {
        return None;
    }
    let mut bytes = vec![0; len as usize];
    let have = file.read_at(&mut bytes, 0).ok()?;
    let mut lines = bytes[..have].split(|&byte| byte == b'\n');
    if lines.next()? != FIRST_LINE.as_bytes() {
        return None;
    }
    let manifest = lines.next()?.strip_prefix(MANIFEST.as_bytes())?;
    let manifest = String::from_utf8(manifest.to_vec()).ok()?;
    let mut disks = Vec::new();
    while let Some(name) = lines.next().and_then(|line| line.strip_prefix(DISK.as_bytes())) {
        let path = lines.next()?.strip_prefix(AT.as_bytes())?;
        disks.push((value(name), PathBuf::from(OsString::from_vec(value(path)))));
    }
    Some(Record { manifest, disks })
}

/// Returns the name or path that a line of a record encodes.
fn value(line: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(line.len());
    let mut rest = line.iter();
    while let Some(&byte) = rest.next() {
        bytes.push(match (byte, byte == b'\\') {
            (_, true) => match rest.next() {
                Some(b'n') => b'\n',
                _ => b'\\',
            },
            (byte, false) => byte,
        });
    }
    bytes
}

/// Keeps a copy of the manifest of a set, for shards that have lost theirs.
///
/// An existing copy of the same generation is not replaced.
pub(crate) fn keep_manifest(disk: &dyn Disk, records: &Path, manifest: &[u8]) -> io::Result<()> {
    let Some((set, generation, len)) = Manifest::announced(manifest) else { return Ok(()) };
    disk.make_root(records, ROOT_DIR)?;
    let path = manifest_path(records, set);
    let mut begin = [0; Manifest::BEGIN_BYTES as usize];
    let is_kept = |file: Box<dyn DiskFile>| {
        let have = file.read_at(&mut begin, 0)?;
        Ok(Manifest::announced(&begin[..have]) == Some((set, generation, len)) && file.meta()?.size == len)
    };
    match disk.open(&path).and_then(is_kept) {
        Ok(true) => Ok(()),
        _ => write(disk, records, &path, manifest),
    }
}

/// Returns the kept copy of the manifest that these headers describe, if it is intact.
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

/// Returns the path of the copy of a set's manifest.
fn manifest_path(records: &Path, set: SetId) -> PathBuf {
    records.join(format!("{set}.manifest"))
}

fn write(disk: &dyn Disk, records: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    disk.make_root(records, ROOT_DIR)?;
    let file = disk.create(&temp(path))?;
    file.write_at(bytes, 0)?;
    file.sync()?;
    file.give_name(path)?;
    disk.sync_dir(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::SystemDisk;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_record_gives_back_any_paths_and_is_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let records = dir.path().join("records");
        let set = SetId([7; 16]);
        let odd = OsString::from_vec(b"/a\nb\\n\\\xff".to_vec());
        let disks = [(vec![], PathBuf::from("/plain")), (b"a\nb\\".to_vec(), PathBuf::from(odd))];
        note(&SystemDisk::new(), &records, (&set.to_string(), "digest"), &disks).unwrap();
        let record = record_of(&SystemDisk::new(), &records, set).unwrap();
        assert_eq!((record.manifest.as_str(), &record.disks[..]), ("digest", &disks[..]));
        let mode = std::fs::metadata(records.join(set.to_string())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(record_of(&SystemDisk::new(), &records, SetId([8; 16])).is_none());
    }
}
