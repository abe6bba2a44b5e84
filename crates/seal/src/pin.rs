//! Pins: digests of the content of a set, which the user keeps elsewhere.
//!
//! Checksums find accidents, but every writer of the shards can adapt them. A pin holds the BLAKE3
//! digest of the manifest and of every block of one state of the set. A block with another digest
//! is lost, whatever its checksum says, and a computed block counts only if it has the digest.
//! Another manifest than the pinned one is refused before any use.
//!
//! Memory: the digests of one window of stripes. The file is `docs/pin-format.md`.

use crate::disk::{Access, Disk, DiskFile};
use crate::options::Progress;
use crate::report::PinReport;
use crate::set::Set;
use crate::set::names;
use crate::set::window::Window;
use crate::{Fault, FaultKind};
use pantile::CellIndex;
use pantile_format::{DIGEST_BYTES, FormatError, Manifest, PIN_HEADER_BYTES, Part, PinHeader};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Bytes of a pin that are read at a time.
const PIECE_BYTES: u64 = 1 << 20;

/// A pin that a set is compared with.
pub(crate) struct Pin {
    header: PinHeader,
    file: Box<dyn DiskFile>,
    /// The path as the user named it.
    path: PathBuf,
}

impl Pin {
    /// Opens a pin. Errors: it is no pin, or is damaged.
    pub(crate) fn open(disk: &dyn Disk, path: &Path) -> Result<Pin, Fault> {
        let failed = |e| Fault::io("reading", path, e);
        let format = |error| Fault::format(path, error);
        let place = place(disk, path, Access::Read).map_err(failed)?;
        let file = disk.open(&place).map_err(failed)?;
        let mut bytes = [0; PIN_HEADER_BYTES as usize];
        let have = file.read_at(&mut bytes, 0).map_err(failed)?;
        let header = PinHeader::decode(&bytes[..have]).map_err(format)?;
        let (len, part) = (file.meta().map_err(failed)?.size, Part::Pin);
        match header.file_len() {
            Some(need) if len < need => return Err(format(FormatError::Truncated { part, have: len, need })),
            Some(need) if len > need => {
                let rule = "must be what the digests need, and nothing behind them";
                return Err(format(FormatError::Invalid { part, field: "length", rule }));
            }
            _ => {}
        }
        // A pin has no holes. A forger could make a file of holes of any length at no cost, and
        // reading it would take long.
        if !file.is_stored(0, len) {
            return Err(format(FormatError::NotStored { part, len_bytes: len }));
        }
        let end = len - DIGEST_BYTES;
        let mut told = [0; DIGEST_BYTES as usize];
        file.read_at(&mut told, end).map_err(failed)?;
        if digest_of(&*file, end).map_err(failed)? != told {
            return Err(format(FormatError::Checksum { part }));
        }
        Ok(Pin { header, file, path: path.to_path_buf() })
    }

    /// True if a manifest is the pinned one.
    pub(crate) fn is_of(&self, manifest: &Manifest) -> bool {
        digest_of_manifest(manifest) == self.header.manifest
    }

    /// Refuses a state or a manifest that is not the pinned one.
    pub(crate) fn check(&self, manifest: &Manifest, cells: usize) -> Result<(), Fault> {
        let header = &self.header;
        let fits = header.set == manifest.set
            && header.generation == manifest.generation
            && header.block_len == manifest.block_len
            && header.stripes == manifest.stripes
            && header.cells as usize == cells;
        if !fits {
            return Err(Fault::request(format!(
                "{} pins generation {} of set {}, and what lies here is generation {} of set {}",
                self.path.display(),
                header.generation.0,
                header.set,
                manifest.generation.0,
                manifest.set
            ))
            .at(&self.path)
            .hint("name the pin of this state, or bring that state back"));
        }
        match self.is_of(manifest) {
            true => Ok(()),
            false => Err(Fault::new(
                FaultKind::Lost,
                format!(
                    "the manifest of the set is not the one that {} pins: it was changed since",
                    self.path.display()
                ),
            )
            .at(&self.path)
            .hint("bring the shards of an unchanged copy")),
        }
    }

    /// Returns for each block of a cell in some stripes true if it is as pinned; false for blocks
    /// that are not in the pin.
    pub(crate) fn fits(&self, cell: CellIndex, stripes: Range<u64>, blocks: &[u8]) -> Vec<bool> {
        let block = self.header.block_len.bytes() as usize;
        let mut digests = vec![0; blocks.len() / block * DIGEST_BYTES as usize];
        let at = self.header.digest_offset(cell.0, stripes.start);
        let have = at.map(|at| self.file.read_at(&mut digests, at));
        let all_there = matches!(have, Some(Ok(have)) if have == digests.len());
        let digests = digests.chunks_exact(DIGEST_BYTES as usize);
        let pairs = blocks.chunks_exact(block).zip(digests);
        pairs.map(|(block, digest)| all_there && blake3::hash(block).as_bytes()[..] == *digest).collect()
    }
}

/// Returns the digest of a manifest; no forger can make another manifest with the same digest.
pub(crate) fn digest_of_manifest(manifest: &Manifest) -> [u8; DIGEST_BYTES as usize] {
    *blake3::hash(&manifest.encode()).as_bytes()
}

/// The digest of a manifest in hexadecimal digits.
pub(crate) fn told(manifest: &Manifest) -> String {
    digest_of_manifest(manifest).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the path of a pin, and opens its directory as a root.
fn place(disk: &dyn Disk, path: &Path, access: Access) -> std::io::Result<PathBuf> {
    let name = path.file_name().ok_or(std::io::ErrorKind::InvalidInput)?;
    Ok(disk.root(&names::parent(path), access)?.join(name))
}

/// Returns the digest of the first bytes of a file.
fn digest_of(file: &dyn DiskFile, len: u64) -> std::io::Result<[u8; DIGEST_BYTES as usize]> {
    let mut hasher = blake3::Hasher::new();
    let mut piece = vec![0; PIECE_BYTES.min(len) as usize];
    let mut at = 0;
    while at < len {
        let piece = &mut piece[..PIECE_BYTES.min(len - at) as usize];
        if file.read_at(piece, at)? < piece.len() {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        hasher.update(piece);
        at += piece.len() as u64;
    }
    Ok(*hasher.finalize().as_bytes())
}

/// Writes a pin of the present set, in place of any file of that name.
///
/// Reads every block. Errors: `NeedsHeal` if one is damaged, which must not be pinned.
pub(crate) fn pin(set: &Set<'_>, path: &Path, progress: &mut dyn Progress) -> Result<PinReport, Fault> {
    let disk = set.world.disk;
    let path = &place(disk, path, Access::Write).map_err(|e| Fault::io("opening", path, e))?;
    let temp = names::temp(path);
    let done = write_pin(set, &temp, progress);
    let done = done.and_then(|(report, file)| {
        file.give_name(path).map_err(|e| Fault::io("renaming", &temp, e))?;
        let dir = names::parent(path);
        disk.sync_dir(&dir).map_err(|e| Fault::io("syncing", &dir, e))?;
        Ok(PinReport { path: path.display().to_string(), ..report })
    });
    if done.is_err() {
        let _ = disk.remove(&temp);
    }
    done
}

fn write_pin(
    set: &Set<'_>,
    temp: &Path,
    progress: &mut dyn Progress,
) -> Result<(PinReport, Box<dyn DiskFile>), Fault> {
    let cells: Vec<CellIndex> = set.geometry.codec.code().cells().collect();
    let header = PinHeader {
        set: set.manifest.set,
        generation: set.manifest.generation,
        block_len: set.manifest.block_len,
        stripes: set.manifest.stripes,
        cells: cells.len() as u32,
        manifest: digest_of_manifest(&set.manifest),
    };
    let Some(len) = header.file_len() else { unreachable!("a set that is there has a pin that fits a file") };
    let failed = |e| Fault::io("writing", temp, e);
    let file = set.world.disk.create(temp).map_err(|e| Fault::io("creating", temp, e))?;
    file.write_at(&header.encode(), 0).map_err(failed)?;
    let stripe_bytes = cells.len() as u64 * header.block_len.bytes();
    progress.phase("pinning", header.stripes * stripe_bytes);
    let (step, lost) = (set.geometry.window_stripes(), set.lost_cells());
    let mut window = Window::new(&set.geometry, step.min(header.stripes));
    let mut at = 0;
    while at < header.stripes {
        if progress.cancelled() {
            return Err(Fault::cancelled());
        }
        window.move_to(at..header.stripes.min(at + step), &lost);
        let all = 0..window.count();
        set.read(&mut window, &cells, all);
        let wrong: usize = window.lost.iter().map(|lost| lost.iter().count()).sum();
        if wrong > 0 {
            return Err(Fault::needs_heal(&[], wrong as u64, &set.command("heal")));
        }
        for &cell in &cells {
            let blocks = &window.arena.get(cell.usize())[window.bytes(0..window.count())];
            let digests = blocks.chunks_exact(window.block).map(|block| *blake3::hash(block).as_bytes());
            let digests: Vec<u8> = digests.flatten().collect();
            let Some(place) = header.digest_offset(cell.0, at) else {
                unreachable!("the whole pin fits a file")
            };
            file.write_at(&digests, place).map_err(failed)?;
        }
        progress.advance(window.count() as u64 * stripe_bytes);
        at = window.stripes.end;
    }
    let end = len - DIGEST_BYTES;
    file.write_at(&digest_of(&*file, end).map_err(failed)?, end).map_err(failed)?;
    file.sync().map_err(|e| Fault::io("syncing", temp, e))?;
    let blocks = header.stripes * cells.len() as u64;
    let report = PinReport { path: String::new(), generation: header.generation.0, blocks, bytes: len };
    Ok((report, file))
}
