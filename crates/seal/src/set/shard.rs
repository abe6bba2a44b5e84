//! One file that is a shard, or looks like one: its header, manifest and checksums, and the next
//! change, if one is prepared in it.

use crate::disk::{Access, Disk, DiskFile, MetaKind, resolve};
use crate::set::bounds::{Bounds, COMBINED_BYTES_MAX, MANIFEST_BYTES_MAX, read_stored};
use crate::set::copies::{last_copies, read_pieces};
use crate::set::names::{SHARD, parent};
use pantile_format::{
    Crc64, CrcStream, FormatError, HEADER_BYTES, HEADER_COPIES, Manifest, PIECE_BYTES, Part, SetId,
    ShardHeader, Timestamp, pieces_of,
};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

/// A shard that can be read.
pub(crate) struct Shard {
    pub(crate) path: PathBuf,
    pub(crate) file: Box<dyn DiskFile>,
    pub(crate) header: ShardHeader,
    /// One checksum per parity block, [`Crc64::UNKNOWN`] where the table is damaged; `None` if the
    /// whole table is damaged.
    pub(crate) checks: Option<Vec<Crc64>>,
    /// True if no part of the table is damaged.
    pub(crate) checks_whole: bool,
}

impl Shard {
    /// True if the change to the next generation was prepared in the shard.
    pub(crate) fn holds_next(&self) -> bool {
        self.file.meta().is_ok_and(|meta| holds_next(&*self.file, &self.header, meta.size))
    }
}

/// Reads the header; returns true with it if all copies of it are good and equal.
///
/// If no copy at the start is good, the copy at the end is used; if that is not good either, the
/// good parts of all copies are combined.
pub(crate) fn read_header(file: &dyn DiskFile) -> Result<(ShardHeader, bool), FormatError> {
    let error = match read_front(file) {
        Ok((header, all_good)) => {
            let last = header.copy_offsets().into_iter().skip(HEADER_COPIES as usize);
            let is_good = last
                .map(|at| copy_at(file, at))
                .all(|copy| ShardHeader::decode(&copy).as_ref() == Ok(&header));
            return Ok((header, all_good && is_good));
        }
        Err(error) => error,
    };
    let front: Vec<Vec<u8>> = (0..HEADER_COPIES).map(|copy| copy_at(file, copy * HEADER_BYTES)).collect();
    for last in last_copies(file) {
        if let Ok(header) = ShardHeader::decode(&last) {
            return Ok((header, false));
        }
        let copies: Vec<&[u8]> = front.iter().chain([&last]).map(Vec::as_slice).collect();
        if let Some(header) = ShardHeader::combine(&copies) {
            return Ok((header, false));
        }
    }
    let copies: Vec<&[u8]> = front.iter().map(Vec::as_slice).collect();
    ShardHeader::combine(&copies).map(|header| (header, false)).ok_or(error)
}

/// Returns the bytes of the header copy at an offset.
fn copy_at(file: &dyn DiskFile, at: u64) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES as usize];
    let have = file.read_at(&mut bytes, at).unwrap_or(0);
    bytes.truncate(have);
    bytes
}

/// Reads the header only from the copies at the start of the shard, which a commit writes; returns
/// true with it if these are good and equal.
///
/// If two good copies differ, the newer one is used: a commit writes one after the other.
pub(crate) fn read_front(file: &dyn DiskFile) -> Result<(ShardHeader, bool), FormatError> {
    let mut best: Option<ShardHeader> = None;
    let mut first_error = None;
    let mut all_good = true;
    for copy in 0..HEADER_COPIES {
        match ShardHeader::decode(&copy_at(file, copy * HEADER_BYTES)) {
            Ok(header) => {
                all_good &= best.as_ref().is_none_or(|best| *best == header);
                if best.as_ref().is_none_or(|best| best.generation < header.generation) {
                    best = Some(header);
                }
            }
            Err(error) => {
                all_good = false;
                first_error.get_or_insert(error);
            }
        }
    }
    match (best, first_error) {
        (Some(header), _) => Ok((header, all_good)),
        (None, Some(error)) => Err(error),
        (None, None) => unreachable!("there is at least one copy"),
    }
}

/// A file that looks like a shard.
pub(crate) struct Candidate {
    pub(crate) path: PathBuf,
    pub(crate) len: u64,
    pub(crate) mtime: Option<Timestamp>,
    /// `None` if it cannot be opened.
    pub(crate) file: Option<Box<dyn DiskFile>>,
    pub(crate) header: Result<(ShardHeader, bool), Unusable>,
}

/// The reason why a file cannot be used as a shard.
#[derive(Clone)]
pub(crate) enum Unusable {
    Format(FormatError),
    /// The error of opening the file, or the kind of file that it is instead.
    System(String),
    /// A temporary error, after which the content is unknown.
    Now(String),
}

impl Candidate {
    /// Opens a file of any kind. A shard that cannot be opened counts as lost, and does not stop
    /// the work.
    pub(crate) fn open(disk: &dyn Disk, path: PathBuf) -> Candidate {
        let opened = open_shard(disk, &path).and_then(|file| file.meta().map(|meta| (file, meta)));
        let unusable = |reason: String, path: PathBuf| {
            let header = Err(Unusable::System(reason));
            Candidate { path, len: 0, mtime: None, file: None, header }
        };
        match opened {
            Ok((file, meta)) if meta.kind == MetaKind::File => {
                let header = read_header(&*file).map_err(Unusable::Format);
                Candidate { len: meta.size, mtime: Some(meta.mtime), header, file: Some(file), path }
            }
            Ok((_, meta)) if meta.kind == MetaKind::Dir => unusable("it is a directory".into(), path),
            Ok(_) => unusable("it is a device, a pipe or a socket".into(), path),
            Err(error) => {
                let is_link = disk.meta(&path).is_ok_and(|meta| meta.kind == MetaKind::Symlink);
                let reason = match resolve(disk, &path) {
                    Ok(to) if is_link => format!("the link leads to {}: {error}", to.display()),
                    _ => format!("it cannot be opened: {error}"),
                };
                let header = match is_for_now(&error) {
                    true => Err(Unusable::Now(reason)),
                    false => Err(Unusable::System(reason)),
                };
                Candidate { path, len: 0, mtime: None, file: None, header }
            }
        }
    }

    /// True if the change to the next generation was prepared in the shard.
    pub(crate) fn holds_next(&self) -> bool {
        let (Ok((header, _)), Some(file)) = (&self.header, &self.file) else { return false };
        holds_next(&**file, header, self.len)
    }

    pub(crate) fn set(&self) -> Option<SetId> {
        self.header.as_ref().ok().map(|(header, _)| header.set)
    }

    /// Returns the manifest, if it is intact and within the limit.
    pub(crate) fn manifest(&self, bounds: Bounds) -> Result<Manifest, FormatError> {
        let (Ok((header, _)), Some(file)) = (&self.header, &self.file) else {
            return Err(FormatError::NotPantile { part: Part::Manifest });
        };
        bounds.check_manifest(header.manifest_len)?;
        let copy = |at: u64| {
            // The first bytes repeat the length of the manifest, so that other content is refused
            // before that much memory is used.
            let begin = (at, Manifest::BEGIN_BYTES.min(header.manifest_len));
            let begin = read_stored(&**file, begin, self.len, Part::Manifest)?;
            match Manifest::announced(&begin) {
                Some((.., len)) if len == header.manifest_len => {}
                _ => return Err(FormatError::Checksum { part: Part::Manifest }),
            }
            let bytes = read_stored(&**file, (at, header.manifest_len), self.len, Part::Manifest)?;
            if Crc64::of(&bytes) != header.manifest_crc {
                return Err(FormatError::Checksum { part: Part::Manifest });
            }
            Ok(bytes)
        };
        let mut error = FormatError::NotPantile { part: Part::Manifest };
        for at in header.meta_copies() {
            match copy(at) {
                Ok(bytes) => return manifest_under(&bytes, header),
                Err(e) => error = e,
            }
        }
        Err(error)
    }

    /// Returns the check table from both copies, and true if all of it is good. A checksum that is
    /// good in neither copy is [`Crc64::UNKNOWN`], if the piece table shows which part is damaged.
    pub(crate) fn checks(&self) -> Option<(Vec<Crc64>, bool)> {
        let (header, _) = self.header.as_ref().ok()?;
        let file = &**self.file.as_ref()?;
        let copies: Vec<u64> = header.meta_copies().iter().map(|at| at + header.manifest_len).collect();
        for &at in &copies {
            let whole = read_stored(file, (at, header.checks_len), self.len, Part::Header).ok();
            if let Some(bytes) = whole.filter(|bytes| Crc64::of(bytes) == header.checks_crc) {
                return Some((crcs(&bytes), true));
            }
        }
        if header.checks_len > COMBINED_BYTES_MAX {
            return None;
        }
        let sums = self.piece_sums()?;
        let of_checks = sums.get(pieces_of(header.manifest_len) as usize..)?;
        let copies: Option<Vec<_>> =
            copies.iter().map(|&at| read_pieces(file, at, header.checks_len, self.len)).collect();
        let copies = copies?;
        let (mut table, mut is_whole) = (Vec::new(), true);
        for (index, sum) in of_checks.iter().enumerate() {
            let mut pieces = copies.iter().filter_map(|copy| copy[index].as_ref());
            let good = pieces.find(|bytes| Crc64::of(bytes) == *sum);
            is_whole &= good.is_some();
            let left = header.checks_len - 8 * table.len() as u64;
            let unknown = || vec![Crc64::UNKNOWN; left.min(PIECE_BYTES) as usize / 8];
            table.extend(good.map_or_else(unknown, |bytes| crcs(bytes)));
        }
        Some((table, is_whole))
    }

    /// Returns the piece table, if a copy of it is good.
    pub(crate) fn piece_sums(&self) -> Option<Vec<Crc64>> {
        let (header, _) = self.header.as_ref().ok()?;
        let file = &**self.file.as_ref()?;
        header.meta_copies().into_iter().find_map(|copy| {
            let at = copy.checked_add(header.manifest_len)?.checked_add(header.checks_len)?;
            let bytes = read_stored(file, (at, header.pieces_len), self.len, Part::Header).ok()?;
            (Crc64::of(&bytes) == header.pieces_crc).then(|| crcs(&bytes))
        })
    }

    /// True if all copies of manifest, check table and piece table are as the header states.
    pub(crate) fn has_whole_copies(&self) -> bool {
        let (Ok((header, _)), Some(file)) = (&self.header, &self.file) else { return false };
        header.meta_copies().into_iter().all(|at| has_meta_at(&**file, header, at))
    }
}

/// True if a shard has an intact copy of the meta area that a header describes.
pub(crate) fn has_meta(file: &dyn DiskFile, header: &ShardHeader) -> bool {
    header.meta_copies().into_iter().any(|at| has_meta_at(file, header, at))
}

/// True if manifest, check table and piece table are intact in the copy that begins at `meta`.
fn has_meta_at(file: &dyn DiskFile, header: &ShardHeader, meta: u64) -> bool {
    const BUFFER_BYTES: u64 = 1 << 20;
    let is_there = |at: u64, len: u64, crc: Crc64| {
        // A header can announce any length, but a commit writes all these bytes: a hole is not a
        // copy.
        if !file.is_stored(at, len) {
            return false;
        }
        let mut sum = CrcStream::new();
        let mut buffer = vec![0; len.min(BUFFER_BYTES) as usize];
        let mut done = 0;
        while done < len {
            let piece = &mut buffer[..(len - done).min(BUFFER_BYTES) as usize];
            if file.read_at(piece, at.saturating_add(done)).ok() != Some(piece.len()) {
                return false;
            }
            sum.update(piece);
            done += piece.len() as u64;
        }
        sum.crc() == crc
    };
    // The checksum alone does not identify a manifest: since each manifest ends with its own
    // checksum, the checksum of the whole is always the same.
    let mut begin = [0; Manifest::BEGIN_BYTES as usize];
    let have = file.read_at(&mut begin, meta).unwrap_or(0);
    let checks = meta.saturating_add(header.manifest_len);
    let pieces = checks.saturating_add(header.checks_len);
    Manifest::announced(&begin[..have]) == Some((header.set, header.generation, header.manifest_len))
        && is_there(meta, header.manifest_len, header.manifest_crc)
        && is_there(checks, header.checks_len, header.checks_crc)
        && is_there(pieces, header.pieces_len, header.pieces_crc)
}

fn crcs(bytes: &[u8]) -> Vec<Crc64> {
    let crc = |bytes: &[u8]| Crc64(u64::from_le_bytes(bytes.try_into().expect("chunks of 8")));
    bytes.chunks_exact(8).map(crc).collect()
}

/// Decodes a manifest, and checks that it agrees with the header of a shard.
pub(crate) fn manifest_under(bytes: &[u8], header: &ShardHeader) -> Result<Manifest, FormatError> {
    let manifest = Manifest::decode(bytes)?;
    let agree = manifest.set == header.set
        && manifest.generation == header.generation
        && manifest.stripes == header.stripes
        && manifest.block_len == header.block_len;
    let rule = "must agree with the header of its shard";
    agree.then_some(manifest).ok_or(FormatError::Invalid { part: Part::Manifest, field: "set", rule })
}

/// True if an error of opening or describing a file is temporary, so that the content remains
/// unknown: too little memory, too many open files, no permission, a disk without an answer.
pub(crate) fn is_for_now(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let errors = [Errno::IO, Errno::NOMEM, Errno::NFILE, Errno::MFILE];
    error.kind() == io::ErrorKind::PermissionDenied
        || Errno::from_io_error(error).is_some_and(|errno| errors.contains(&errno))
}

/// Opens for reading the shard at a path, or at the target of its links.
pub(crate) fn open_shard(disk: &dyn Disk, path: &Path) -> io::Result<Box<dyn DiskFile>> {
    disk.open(&resolve(disk, path)?)
}

/// Opens for writing the shard at a path or at the target of its links, if it is the expected one.
/// Only then its directory becomes a root for writing.
pub(crate) fn open_shard_to_write(
    disk: &dyn Disk,
    path: &Path,
    is_meant: impl Fn(&dyn DiskFile) -> bool,
) -> io::Result<Box<dyn DiskFile>> {
    let other = || io::Error::other("another file is there than was found before");
    let to = resolve(disk, path)?;
    let seen = disk.open(&to)?;
    if !is_meant(&*seen) {
        return Err(other());
    }
    if to != path {
        disk.root(&parent(&to), Access::Write)?;
    }
    let file = disk.open_write(&to)?;
    let found = file.meta()?;
    if found.id == seen.meta()?.id { Ok(file) } else { Err(other()) }
}

/// True if a shard has the manifest of the next generation: a change was prepared in it, and may be
/// decided. That manifest is right behind the live meta area, or at the start of a stripe before or
/// behind it.
fn holds_next(file: &dyn DiskFile, header: &ShardHeader, len: u64) -> bool {
    const PLACES_MOST: u64 = 1 << 16;
    let (Some(end), Some(live_end)) = (header.body_end(), header.file_len()) else { return false };
    let stripe = u64::from(header.stored_rows.max(1)).saturating_mul(header.block_len.bytes());
    let last = len.saturating_sub(end) / stripe;
    let stripes = (last.saturating_sub(PLACES_MOST)..=last).rev().map(|i| end + i * stripe);
    let mut left_bytes = len.min(MANIFEST_BYTES_MAX);
    [live_end].into_iter().chain(stripes).any(|at| is_next_at(file, header, (at, len), &mut left_bytes))
}

/// True if the manifest of the next generation is at an offset. Only bytes that begin like a
/// manifest are read as a whole, and at most `left_bytes` for all offsets together.
fn is_next_at(
    file: &dyn DiskFile,
    header: &ShardHeader,
    (at, file_len): (u64, u64),
    left_bytes: &mut u64,
) -> bool {
    let begin = read_stored(file, (at, Manifest::BEGIN_BYTES), file_len, Part::Manifest);
    let Some((set, generation, need)) = begin.ok().and_then(|begin| Manifest::announced(&begin)) else {
        return false;
    };
    let is_next = set == header.set && Some(generation.0) == header.generation.0.checked_add(1);
    let Some(left) = left_bytes.checked_sub(need).filter(|_| is_next) else { return false };
    *left_bytes = left;
    let bytes = read_stored(file, (at, need), file_len, Part::Manifest);
    bytes.is_ok_and(|bytes| Manifest::decode(&bytes).is_ok())
}

/// Returns the least length of a shard.
pub(crate) fn need(header: &ShardHeader) -> u64 {
    header.file_len().unwrap_or(u64::MAX)
}

/// True if a file has the name of a shard.
pub(crate) fn is_called_shard(name: &OsStr) -> bool {
    name.as_encoded_bytes().ends_with(SHARD.as_bytes())
}

/// Returns the shards behind links in a directory. Other files, and links without a target, are
/// omitted.
pub(crate) fn behind_links(disk: &dyn Disk, dir: &Path) -> Vec<PathBuf> {
    let names = disk.list(dir).unwrap_or_default();
    let shards = names.into_iter().filter(|name| is_called_shard(name.as_os_str()));
    shards.filter_map(|name| led_to(disk, &dir.join(name))).collect()
}

/// Returns the target of a link; `None` for any other file.
pub(crate) fn led_to(disk: &dyn Disk, path: &Path) -> Option<PathBuf> {
    resolve(disk, path).ok().filter(|to| to != path)
}
