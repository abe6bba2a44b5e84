//! A window: the blocks of all cells of some consecutive stripes in memory, and their states.
//!
//! `have` are the blocks in the buffer that are right; `lost` are the blocks that are unreadable or
//! not as sealed. Blocks are judged when they are read: by checksum, or without checksums by the
//! success of the read.

use crate::attributes::{acl_in, acl_of};
use crate::disk::Disk;
use crate::report::FileStatus;
use crate::set::Set;
use crate::set::grid::Run;
use crate::set::names::path_of;
use crate::{Fault, par};
use pantile::Arena;
use pantile::{CellIndex, CellSet, Costs, PlanError};
use pantile_format::{Crc64, Entry, EntryKind};
use std::io::ErrorKind;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering;

pub(crate) struct Window {
    pub(crate) arena: Arena,
    /// The stripes that the window holds at present.
    pub(crate) stripes: Range<u64>,
    /// By stripe: the cells whose blocks in the buffer are right.
    pub(crate) have: Vec<CellSet>,
    /// By stripe: the cells whose blocks are lost.
    pub(crate) lost: Vec<CellSet>,
    pub(crate) block: usize,
    nothing: CellSet,
}

impl Window {
    /// Allocates room for this many stripes.
    pub(crate) fn new(geometry: &crate::set::grid::Geometry, stripes_most: u64) -> Window {
        let block = geometry.block();
        Window {
            arena: Arena::new(geometry.cell_count(), block * stripes_most as usize),
            stripes: 0..0,
            have: Vec::new(),
            lost: Vec::new(),
            block,
            nothing: geometry.no_cells(),
        }
    }

    /// Moves to other stripes, whose cells are all unknown except for the `lost` ones.
    pub(crate) fn move_to(&mut self, stripes: Range<u64>, lost: &CellSet) {
        let count = (stripes.end - stripes.start) as usize;
        assert!(count * self.block <= self.arena.len(), "the window is too small");
        self.stripes = stripes;
        self.have = vec![self.nothing.clone(); count];
        self.lost = vec![lost.clone(); count];
    }

    pub(crate) fn count(&self) -> usize {
        self.have.len()
    }

    pub(crate) fn bytes(&self, part: Range<usize>) -> Range<usize> {
        part.start * self.block..part.end * self.block
    }

    pub(crate) fn block(&self, cell: CellIndex, index: usize) -> &[u8] {
        &self.arena.get(cell.usize())[self.bytes(index..index + 1)]
    }

    /// Returns the buffers of all cells, cut to some of the stripes.
    pub(crate) fn cells(&mut self, part: Range<usize>) -> Vec<&mut [u8]> {
        let bytes = self.bytes(part);
        self.arena.all_mut().into_iter().map(|cell| &mut cell[bytes.clone()]).collect()
    }

    /// Returns the indices in the window of some of its stripes.
    pub(crate) fn places(&self, stripes: &Range<u64>) -> Range<usize> {
        (stripes.start - self.stripes.start) as usize..(stripes.end - self.stripes.start) as usize
    }

    /// Returns the longest runs of stripes in which `key` is equal, in order.
    pub(crate) fn groups<K: PartialEq>(&self, key: impl Fn(usize) -> K) -> Vec<Range<usize>> {
        let mut groups: Vec<Range<usize>> = Vec::new();
        for i in 0..self.count() {
            match groups.last_mut() {
                Some(group) if key(group.start) == key(i) => group.end = i + 1,
                _ => groups.push(i..i + 1),
            }
        }
        groups
    }
}

/// A cell that is read: its buffer, and the result.
struct Reading<'b> {
    cell: CellIndex,
    buffer: &'b mut [u8],
    good: Vec<bool>,
}

impl Set<'_> {
    /// Returns the bytes read of shards and originals, for any purpose.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.shard_bytes_read.load(Ordering::Relaxed) + self.source_bytes_read.load(Ordering::Relaxed)
    }

    /// Reads cells of some stripes of the window and notes which blocks are right. Cells that are
    /// already known to be lost are not read.
    pub(crate) fn read(&self, window: &mut Window, cells: &[CellIndex], part: Range<usize>) {
        let bytes = window.bytes(part.clone());
        let first = window.stripes.start + part.start as u64;
        let stripes = first..first + part.len() as u64;
        let wanted = |cell: &CellIndex| part.clone().any(|i| !window.lost[i].contains(*cell));
        let cells: Vec<CellIndex> = cells.iter().copied().filter(wanted).collect();
        let indices: Vec<usize> = cells.iter().map(|cell| cell.usize()).collect();
        let (_, buffers) = window.arena.split(&[], &indices);
        let mut readings: Vec<Reading<'_>> = cells
            .iter()
            .zip(buffers)
            .map(|(&cell, buffer)| Reading { cell, buffer: &mut buffer[bytes.clone()], good: Vec::new() })
            .collect();
        let work = |reading: &mut Reading<'_>| {
            reading.good = self.read_cell(reading.cell, stripes.clone(), reading.buffer);
            Ok::<(), std::convert::Infallible>(())
        };
        let Ok(()) = par::for_each(self.world.threads, readings.iter_mut().collect(), work);
        let verdicts: Vec<(CellIndex, Vec<bool>)> = readings.into_iter().map(|r| (r.cell, r.good)).collect();
        for (cell, good) in verdicts {
            for (i, good) in part.clone().zip(good) {
                if window.lost[i].contains(cell) {
                    continue;
                }
                if good { window.have[i].insert(cell) } else { window.lost[i].insert(cell) }
            }
        }
    }

    /// Reads one cell of consecutive stripes; returns for each block whether it is as sealed.
    fn read_cell(&self, cell: CellIndex, stripes: Range<u64>, buffer: &mut [u8]) -> Vec<bool> {
        let mut good = match self.geometry.place[cell.usize()] {
            (column, Some(row)) => self.read_stored(column, row, stripes.clone(), buffer),
            (_, None) => self.read_originals(cell, stripes.clone(), buffer),
        };
        if self.judge {
            let blocks = buffer.chunks_exact(self.geometry.block());
            for ((good, stripe), block) in good.iter_mut().zip(stripes.clone()).zip(blocks) {
                *good = *good && self.expected(cell, stripe) == Some(Crc64::of(block));
            }
        }
        if let Some(pin) = &self.pin {
            let fits = pin.fits(cell, stripes, buffer);
            good.iter_mut().zip(fits).for_each(|(good, fits)| *good = *good && fits);
        }
        good
    }

    fn read_stored(&self, column: usize, row: u32, stripes: Range<u64>, buffer: &mut [u8]) -> Vec<bool> {
        let block = self.geometry.block();
        let count = buffer.len() / block;
        let Some(shard) = &self.shards[column] else { return vec![false; count] };
        let read = |bytes: &mut [u8], stripe: u64| {
            let have = shard.file.read_at(bytes, shard.header.block_offset(stripe, row)).unwrap_or(0);
            self.shard_bytes_read.fetch_add(have as u64, Ordering::Relaxed);
            have == bytes.len()
        };
        if shard.header.stored_rows == 1 && read(buffer, stripes.start) {
            return vec![true; count];
        }
        // If there are several rows, or a sector is unreadable: block by block.
        buffer.chunks_exact_mut(block).zip(stripes).map(|(bytes, stripe)| read(bytes, stripe)).collect()
    }

    /// Reads a data cell from the original files; free blocks are filled with zeros.
    fn read_originals(&self, cell: CellIndex, stripes: Range<u64>, buffer: &mut [u8]) -> Vec<bool> {
        let block = self.geometry.block();
        let mut good = vec![true; buffer.len() / block];
        buffer.fill(0);
        let Some(lane) = self.geometry.lane_of[cell.usize()] else { return vec![false; good.len()] };
        for run in self.grid.runs(lane, stripes.clone()) {
            let (from, to) =
                ((run.first - stripes.start) as usize, (run.first - stripes.start + run.count) as usize);
            let bytes = &mut buffer[from * block..to * block];
            match &self.originals[run.entry] {
                Some(original) if original.status == FileStatus::Unchanged || self.knows_blocks() => {
                    self.read_run(&original.path, run, bytes, &mut good[from..to]);
                }
                _ => good[from..to].fill(false),
            }
        }
        good
    }

    /// Reads blocks of an original in one piece, and after an error one by one: an unreadable
    /// sector then costs only its own block.
    fn read_run(&self, path: &Path, run: Run, bytes: &mut [u8], good: &mut [bool]) {
        let entry = &self.manifest.entries[run.entry];
        match read_source(self, path, entry, run.block, bytes) {
            // If the file is shorter, a part of the blocks may still be right: checksums, if any,
            // judge them.
            Ok(read) => good.fill(read.whole || self.knows_blocks()),
            // A file that cannot be opened is not read block by block.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {
                bytes.fill(0);
                good.fill(false);
            }
            Err(_) => {
                let blocks = bytes.chunks_exact_mut(self.geometry.block());
                for ((bytes, good), block) in blocks.zip(good).zip(run.block..) {
                    let read = read_source(self, path, entry, block, bytes);
                    *good = read.is_ok_and(|read| read.whole || self.knows_blocks());
                    if !*good {
                        bytes.fill(0);
                    }
                }
            }
        }
    }

    /// Returns the sealed checksum of a block.
    pub(crate) fn expected(&self, cell: CellIndex, stripe: u64) -> Option<Crc64> {
        match self.geometry.lane_of[cell.usize()] {
            Some(lane) => match self.grid.owner(lane, stripe) {
                Some((entry, block)) => crc_of(&self.manifest.entries[entry], block),
                None => Some(self.geometry.zero_crc),
            },
            None => {
                let checks = self.shards[self.geometry.place[cell.usize()].0].as_ref()?.checks.as_ref()?;
                let crc = checks.get(self.geometry.check_index(cell, stripe)).copied();
                crc.filter(|&crc| crc != Crc64::UNKNOWN)
            }
        }
    }

    /// Provides the cells `want` in the window: reads them, and computes lost blocks from the
    /// cheapest others.
    ///
    /// Afterwards a wanted block that is not in `have` cannot be computed from the blocks that are
    /// left.
    pub(crate) fn obtain(&self, window: &mut Window, want: &[CellIndex]) -> Result<(), Fault> {
        let whole = 0..window.count();
        self.read(window, want, whole);
        let mut todo = window.groups(|i| window.lost[i].clone());
        todo.reverse();
        while let Some(group) = todo.pop() {
            let lost = window.lost[group.start].clone();
            let wanted: Vec<CellIndex> = want.iter().copied().filter(|&cell| lost.contains(cell)).collect();
            let wanted = self.recoverable(&lost, wanted);
            if wanted.is_empty() {
                continue;
            }
            let codec = &self.geometry.codec;
            let Ok(recovery) = codec.recovery(&lost, &wanted, &Costs::uniform()) else { continue };
            let missing = |cell: &CellIndex| group.clone().any(|i| !window.have[i].contains(*cell));
            let reads: Vec<CellIndex> = recovery.plan().reads.iter().copied().filter(missing).collect();
            self.read(window, &reads, group.clone());
            let as_before = |i: &usize| window.lost[*i] == lost;
            if !group.clone().all(|i| as_before(&i)) {
                // A block that the plan reads proved to be lost too. Each part of the stripes gets
                // a new plan.
                let parts = window.groups(|i| window.lost[i].clone());
                let parts = parts.into_iter().map(|p| p.start.max(group.start)..p.end.min(group.end));
                todo.extend(parts.filter(|p| p.start < p.end));
                continue;
            }
            let run = recovery.run(&mut window.cells(group.clone()));
            run.unwrap_or_else(|error| unreachable!("a window is a stripe: {error}"));
            for i in group {
                for &cell in &wanted {
                    if self.is_right(window, cell, i) {
                        window.have[i].insert(cell);
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the wanted cells that can be computed from the cells that are not lost.
    pub(crate) fn recoverable(&self, lost: &CellSet, mut wanted: Vec<CellIndex>) -> Vec<CellIndex> {
        while !wanted.is_empty() {
            match self.geometry.codec.recovery(lost, &wanted, &Costs::uniform()) {
                Ok(_) => break,
                Err(PlanError::NotRecoverable(error)) => {
                    let before = wanted.len();
                    wanted.retain(|cell| !error.unrecoverable.contains(cell));
                    if wanted.len() == before {
                        wanted.clear();
                    }
                }
                Err(error) => unreachable!("cells of the code are wanted, each once: {error}"),
            }
        }
        wanted
    }

    /// True if a computed block is as sealed, or if there is neither pin nor checksum to check it.
    fn is_right(&self, window: &Window, cell: CellIndex, i: usize) -> bool {
        let stripe = window.stripes.start + i as u64;
        if let Some(pin) = &self.pin
            && pin.fits(cell, stripe..stripe + 1, window.block(cell, i)) != [true]
        {
            return false;
        }
        let expected = self.expected(cell, stripe);
        !self.judge || expected.is_none_or(|expected| expected == Crc64::of(window.block(cell, i)))
    }
}

/// Result of reading some blocks of a file.
pub(crate) struct FileRead {
    /// Number of bytes read; the rest of the buffer is zeros.
    pub(crate) bytes: u64,
    /// True if all bytes were read.
    pub(crate) whole: bool,
}

/// Reads blocks of an original file, with zeros after its sealed size, and counts the bytes.
pub(crate) fn read_source(
    set: &Set<'_>,
    path: &Path,
    entry: &Entry,
    first_block: u64,
    bytes: &mut [u8],
) -> std::io::Result<FileRead> {
    let reader = Reader { disk: set.world.disk, is_listed: false };
    let read = read_file_blocks(reader, path, entry, set.geometry.block(), first_block, bytes)?;
    set.source_bytes_read.fetch_add(read.bytes, Ordering::Relaxed);
    Ok(read)
}

/// The way in which originals are read, and the state that they must have.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'d> {
    pub(crate) disk: &'d dyn Disk,
    /// True if the entry was listed by this command. Then the file must still have the listed
    /// permissions: a private file that replaced a public one must not be sealed as public.
    pub(crate) is_listed: bool,
}

impl<'d> Reader<'d> {
    /// Returns the reader for entries that this command has listed.
    pub(crate) fn of_listed(disk: &'d dyn Disk) -> Reader<'d> {
        Reader { disk, is_listed: true }
    }
}

/// As [`read_source`], without a set.
///
/// Errors: the permissions of the file are no longer the listed ones.
pub(crate) fn read_file_blocks(
    reader: Reader<'_>,
    path: &Path,
    entry: &Entry,
    block: usize,
    first_block: u64,
    bytes: &mut [u8],
) -> std::io::Result<FileRead> {
    let EntryKind::File { size, .. } = &entry.kind else {
        return Ok(FileRead { bytes: 0, whole: false });
    };
    let offset = first_block * block as u64;
    let within = size.saturating_sub(offset).min(bytes.len() as u64) as usize;
    let file = reader.disk.open(path)?;
    let there = file.meta()?;
    if reader.is_listed && (there.mode != entry.mode || acl_of(&*file)?.as_deref() != acl_in(&entry.fields)) {
        return Err(std::io::Error::other(
            "its rights were changed just now, or another file took its place",
        ));
    }
    let have = file.read_at(&mut bytes[..within], offset)?;
    bytes[have..].fill(0);
    Ok(FileRead { bytes: have as u64, whole: have == within })
}

/// Returns the checksum of a block of a file.
pub(crate) fn crc_of(entry: &Entry, block: u64) -> Option<Crc64> {
    match &entry.kind {
        EntryKind::File { crcs, .. } => crcs.get(block as usize).copied(),
        _ => None,
    }
}

/// Returns the path of an entry, given that of its source.
pub(crate) fn join(root: &Path, relative: &[u8]) -> std::path::PathBuf {
    if relative.is_empty() { root.to_path_buf() } else { root.join(path_of(relative)) }
}
