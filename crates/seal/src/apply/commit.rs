//! One commit: the change from a state of the set to the next, by a journal.
//!
//! New stripes and the new meta area are in free places, and are written and synced first. Blocks
//! of existing stripes and headers go into the journal. The rename of the journal commits
//! everything at once.

use crate::apply::journal::{self, JournalWriter, is_decided, journal_header};
use crate::apply::meta::Meta;
use crate::disk::{Access, DiskFile, resolve, set_back};
use crate::first::{Encoder, Output, check_free};
use crate::options::Progress;
use crate::report::{FileStatus, SealReport};
use crate::set::grid::{Geometry, Grid, Run};
use crate::set::names::{self, column_of, parent};
use crate::set::settle::{Listed, mark_changed};
use crate::set::shard::{Shard, open_shard_to_write};
use crate::set::verify::losses_of;
use crate::set::window::{Reader, Window, join, read_file_blocks};
use crate::set::{Set, header_of};
use crate::update::grid_of;
use crate::{Fault, FaultKind};
use pantile::Arena;
use pantile::{CellIndex, CellSet};
use pantile_format::{
    Column, Crc64, Entry, EntryKind, HEADER_BYTES, META_COPIES_APART_BYTES, Manifest, Mode, ShardHeader,
    Target, Timestamp,
};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Damaged shards and files that a report names.
const DAMAGED_MOST: usize = 100;

/// A block whose content changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) stripe: u64,
    pub(crate) lane: u32,
    /// The file, among those that change.
    pub(crate) part: u32,
    /// The index of the block in its file.
    pub(crate) block: u64,
}

/// A change of the set.
pub(crate) struct Commit<'s> {
    /// Ascending by stripe and lane.
    pub(crate) slots: &'s [Slot],
    /// Stripes for which the meta area leaves room, so that the next commit can append them.
    pub(crate) reserve_stripes: u64,
    /// When the tree was examined; this becomes the mtime of the shards.
    pub(crate) began: Timestamp,
    /// The files whose content is read.
    pub(crate) read: Listed<'s>,
    /// The geometry of a code with more data columns, if the set gets one; then nothing else
    /// changes.
    pub(crate) wider: Option<&'s Geometry>,
}

impl Commit<'_> {
    /// Brings the set to the state of the manifest, to which the checksums of all content that is
    /// read are added.
    ///
    /// Errors: nothing is changed; or `Unfinished`, and the next command that opens the set
    /// finishes the change.
    pub(crate) fn run(
        &self,
        set: &mut Set<'_>,
        mut manifest: Manifest,
        report: &mut SealReport,
        progress: &mut dyn Progress,
    ) -> Result<(), Fault> {
        let journal = self.place_journal(set, &manifest)?;
        if meta_is_in_the_way(set, manifest.stripes) {
            // The meta area moves behind the stripes that are to be appended. Nothing else changes,
            // not even the time of the last seal.
            let began = set.sealed_at.unwrap_or(self.began);
            let moved = Commit {
                slots: &[],
                reserve_stripes: manifest.stripes,
                began,
                read: Listed::NONE,
                wider: None,
            };
            let mut same = set.manifest.clone();
            same.generation = manifest.generation;
            manifest.generation.0 += 1;
            moved.run(set, same, report, progress).map_err(|error| match error.kind {
                // The tree is as before, whether this command or the next one finishes the move.
                FaultKind::Unfinished(why) => *why,
                kind => Fault { kind, ..error },
            })?;
        }
        let outputs = open_outputs(set)?;
        let done = self.try_run(set, (&outputs, &journal), &mut manifest, report, progress);
        let decided = is_decided(set.world.disk, &journal, manifest.set, manifest.generation);
        if done.is_err() && !decided {
            // Best effort: appended bytes are not part of the set, and harmless.
            let _ = set.world.disk.remove(&names::temp(&journal));
            for output in &outputs {
                let live = set.shards[output.column].as_ref().and_then(|shard| shard.header.file_len());
                let _ = live.map(|len| output.file.set_len(len));
                set.sealed_at.iter().for_each(|&sealed_at| set_back(&*output.file, sealed_at));
            }
        }
        let finish = |error: Fault| match decided {
            true => Fault::unfinished(&journal, error),
            false => error,
        };
        let (headers, meta) = done.map_err(&finish)?;
        journal::finish(&set.world, &journal, &set.dirs).map_err(&finish)?;
        report.bytes_written += outputs.len() as u64 * 2 * HEADER_BYTES;
        for ((output, header), (_, table)) in outputs.into_iter().zip(headers).zip(meta.tables) {
            let Output { column, path, file } = output;
            set.shards[column] = Some(Shard { path, file, header, checks: Some(table), checks_whole: true });
        }
        set.grid = grid_of(&manifest);
        set.manifest = manifest;
        Ok(())
    }

    /// Does everything up to the rename of the journal.
    fn try_run(
        &self,
        set: &Set<'_>,
        (outputs, journal): (&[Output], &Path),
        manifest: &mut Manifest,
        report: &mut SealReport,
        progress: &mut dyn Progress,
    ) -> Result<(Vec<ShardHeader>, Meta), Fault> {
        let old_stripes = set.manifest.stripes;
        let journaled = self.slots.partition_point(|slot| slot.stripe < old_stripes);
        let grid = grid_of(manifest);
        let paths: Vec<PathBuf> = manifest
            .entries
            .iter()
            .map(|entry| join(&set.sources[entry.source as usize], &entry.path))
            .collect();
        let mut meta = Meta { tables: Vec::new() };
        for column in set.geometry.stored_columns() {
            let mut table = set.shards[column].as_ref().and_then(|s| s.checks.clone()).unwrap_or_default();
            let rows = if manifest.checksums { set.geometry.parity[column].len() } else { 0 };
            table.resize(rows * manifest.stripes as usize, Crc64(0));
            meta.tables.push((column, table));
        }
        // After a kill from here on the mtimes of the shards are too late; their length reveals
        // that.
        for output in outputs {
            let live = set.shards[output.column].as_ref().and_then(|shard| shard.header.file_len());
            let longer = live.map_or(Ok(()), |len| output.file.set_len(len.saturating_add(1)));
            longer.map_err(|e| Fault::io("resizing", &output.path, e))?;
        }
        if manifest.stripes > old_stripes {
            let encoder = Encoder { world: set.world, geometry: &set.geometry, grid: &grid, paths: &paths };
            let new = old_stripes..manifest.stripes;
            report.source_bytes_read +=
                encoder.encode(new, outputs, &mut manifest.entries, &mut meta, progress)?;
            report.bytes_written += (manifest.stripes - old_stripes) * set.geometry.stripe_bytes();
            report.stripes_touched += manifest.stripes - old_stripes;
        }
        let header = journal_header(manifest);
        let journal =
            JournalWriter::create(set.world.disk, journal.to_path_buf(), header, set.owner_of_all())?;
        let mut work = Changing { set, grid: &grid, paths: &paths, journal, meta, report };
        for group in groups(&self.slots[..journaled], set.geometry.window_stripes()) {
            if progress.cancelled() {
                return Err(Fault::cancelled());
            }
            work.change(&group, &mut manifest.entries)?;
            progress.advance((group.lanes.len() as u64) * group.len() * manifest.block_len.bytes());
        }
        let Changing { mut journal, meta, report, .. } = work;
        let changed = mark_changed(set.world, self.read, &paths, &mut manifest.entries);
        report.changed_meanwhile.extend(changed);
        let reserve = manifest.stripes.max(self.reserve_stripes);
        let place = |column: usize, _end: u64, len: u64| place(set, column, reserve, len);
        let geometry = self.wider.unwrap_or(&set.geometry);
        let more_columns = geometry.columns() - set.geometry.columns();
        let headers = meta.write(manifest, geometry, outputs, more_columns, place)?;
        // The journal refers to each shard by the column in its present name.
        let named = || outputs.iter().map(|output| Column(output.column as u32)).zip(&headers);
        for output in outputs {
            output.file.sync().map_err(|e| Fault::io("syncing", &output.path, e))?;
        }
        for copy in 0..pantile_format::HEADER_COPIES {
            for (column, header) in named() {
                let target = Target { column, offset: copy * HEADER_BYTES };
                journal.write(&[target], &header.encode())?;
            }
        }
        for (column, header) in named() {
            let len = header.file_len().unwrap_or_else(|| unreachable!("it was just written"));
            journal.length(Target { column, offset: len })?;
        }
        if progress.cancelled() {
            return Err(Fault::cancelled());
        }
        report.bytes_written += journal.len();
        report.bytes_written += headers.iter().filter_map(ShardHeader::meta_len).sum::<u64>();
        journal.commit(self.began)?;
        Ok((headers, meta))
    }

    /// Returns a place with room for the journal, where new stripes and meta areas have room too.
    pub(crate) fn place_journal(&self, set: &Set<'_>, manifest: &Manifest) -> Result<PathBuf, Fault> {
        let geometry = &set.geometry;
        let journaled = &self.slots[..self.slots.partition_point(|slot| slot.stripe < set.manifest.stripes)];
        let stripes = journaled.chunk_by(|a, b| a.stripe == b.stripe).count() as u64;
        let grid = grid_of(manifest);
        // Blocks that belong to no file are zero, and zeros are not written.
        let is_written =
            |slot: &&Slot| manifest.mode == Mode::Full && grid.owner(slot.lane, slot.stripe).is_some();
        let data = journaled.iter().filter(is_written).count() as u64;
        let blocks = parities(geometry).saturating_mul(stripes).saturating_add(data);
        place_journal(set, manifest, blocks.saturating_mul(manifest.block_len.bytes()))
    }
}

/// Returns the number of parity blocks of a stripe.
pub(crate) fn parities(geometry: &Geometry) -> u64 {
    (geometry.cell_count() - geometry.lanes.len()) as u64
}

/// Returns the path of a journal of so many bytes: in the directory of the set, or if another shard
/// has a disk with more room, beside that one.
///
/// Errors: a lack of free space for new stripes, the journal, or the new meta areas beside the live
/// ones.
pub(crate) fn place_journal(set: &Set<'_>, manifest: &Manifest, bytes: u64) -> Result<PathBuf, Fault> {
    let appended = appended(set, manifest.stripes - set.manifest.stripes);
    let metas = metas(set, manifest.encode().len() as u64, manifest.stripes);
    let others: Vec<(PathBuf, u64)> = appended.chain(metas).collect();
    let fits = |dir: PathBuf| check_free(set.world.disk, others.iter().cloned().chain([(dir, bytes)]));
    let own = set.names.journal();
    let Err(full) = fits(set.names.dir.clone()) else { return Ok(own) };
    let beside = set.shards.iter().flatten().filter_map(|shard| beside_shard(set, &shard.path, &own));
    let mut roomy = beside.filter(|journal| fits(parent(journal)).is_ok());
    roomy.next().ok_or(full)
}

/// Returns the path of a journal beside a shard in another directory, if a command that finds the
/// shard through its link finds such a journal too.
fn beside_shard(set: &Set<'_>, shard: &Path, own: &Path) -> Option<PathBuf> {
    let disk = set.world.disk;
    let real = resolve(disk, shard).ok()?;
    let is_named_so = real.file_name().is_some_and(|file| column_of(file, &set.names.name).is_some());
    let journal = parent(&real).join(own.file_name()?);
    let is_free = is_named_so && parent(&real) != set.names.dir && disk.meta(&journal).is_err();
    (is_free && disk.root(&parent(&real), Access::Write).is_ok()).then_some(journal)
}

/// Returns for each shard its directory, and the bytes of a new meta area: two copies of the
/// metadata, and a gap between them.
pub(crate) fn metas(
    set: &Set<'_>,
    manifest_bytes: u64,
    stripes: u64,
) -> impl Iterator<Item = (PathBuf, u64)> {
    let meta = 2 * manifest_bytes + META_COPIES_APART_BYTES + 4 * HEADER_BYTES;
    let checks = move |column: usize| stripes.saturating_mul(16 * set.geometry.parity[column].len() as u64);
    set.geometry.stored_columns().map(move |column| (set.dir_of(column), checks(column) + meta))
}

/// Returns for each shard its directory, and the bytes that new stripes add to it.
pub(crate) fn appended(set: &Set<'_>, stripes: u64) -> impl Iterator<Item = (PathBuf, u64)> {
    let block = set.manifest.block_len.bytes();
    let bytes = move |column: usize| stripes.saturating_mul(set.geometry.stored[column].len() as u64 * block);
    set.geometry.stored_columns().map(move |column| (set.dir_of(column), bytes(column)))
}

/// True if new stripes would overwrite a live meta area.
fn meta_is_in_the_way(set: &Set<'_>, stripes: u64) -> bool {
    stripes > set.manifest.stripes
        && set.shards.iter().flatten().any(|shard| {
            let header = &shard.header;
            header.meta_offset < header.block_offset(stripes, 0)
        })
}

/// Returns the first offset for a meta area that is behind the blocks of that many stripes and does
/// not overlap the live one.
fn place(set: &Set<'_>, column: usize, stripes: u64, len: u64) -> u64 {
    let header = header_of(&set.manifest, &set.geometry, column);
    let end = header.block_offset(stripes, 0);
    match &set.shards[column] {
        Some(shard) => {
            let live = shard.header.meta_offset;
            let live_end = shard.header.file_len().unwrap_or(live);
            if end + len <= live || live_end <= end { end } else { live_end }
        }
        None => end,
    }
}

fn open_outputs(set: &Set<'_>) -> Result<Vec<Output>, Fault> {
    let mut outputs = Vec::new();
    for column in set.geometry.stored_columns() {
        let Some(shard) = &set.shards[column] else {
            return Err(Fault::needs_heal(&[column], 0, &set.command("heal")));
        };
        let path = shard.path.clone();
        let read = shard.file.meta().map_err(|e| Fault::io("reading", &path, e))?;
        let is_read = |file: &dyn DiskFile| file.meta().is_ok_and(|meta| meta.id == read.id);
        let file = open_shard_to_write(set.world.disk, &path, is_read)
            .map_err(|e| Fault::io("opening", &path, e))?;
        outputs.push(Output { column, path, file });
    }
    Ok(outputs)
}

/// Consecutive stripes in which the same lanes change.
struct Group {
    stripes: Range<u64>,
    lanes: Vec<u32>,
}

impl Group {
    fn len(&self) -> u64 {
        self.stripes.end - self.stripes.start
    }
}

fn groups(slots: &[Slot], stripes_most: u64) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for stripe in slots.chunk_by(|a, b| a.stripe == b.stripe) {
        let at = stripe[0].stripe;
        let lanes: Vec<u32> = stripe.iter().map(|slot| slot.lane).collect();
        match groups.last_mut() {
            Some(last) if last.stripes.end == at && last.lanes == lanes && last.len() < stripes_most => {
                last.stripes.end += 1;
            }
            _ => groups.push(Group { stripes: at..at + 1, lanes }),
        }
    }
    groups
}

/// Writes changed blocks of existing stripes to the journal.
struct Changing<'a, 'w> {
    set: &'a Set<'w>,
    grid: &'a Grid,
    paths: &'a [PathBuf],
    journal: JournalWriter<'w>,
    meta: Meta,
    report: &'a mut SealReport,
}

impl Changing<'_, '_> {
    fn change(&mut self, group: &Group, entries: &mut [Entry]) -> Result<(), Fault> {
        let geometry = &self.set.geometry;
        let new = self.read_new(group, entries)?;
        let mut window = Window::new(geometry, group.len());
        window.move_to(group.stripes.clone(), &self.set.lost_cells());
        let changed: Vec<CellIndex> = group.lanes.iter().map(|&lane| geometry.lanes[lane as usize]).collect();
        let parity = match self.add_delta(&mut window, &changed, &new) {
            Some(parity) => parity,
            None => {
                window.move_to(group.stripes.clone(), &self.set.lost_cells());
                self.encode_again(&mut window, &changed, &new)?
            }
        };
        for &cell in changed.iter().chain(&parity) {
            self.log(&window, cell)?;
        }
        self.report.stripes_touched += group.len();
        Ok(())
    }

    /// Reads the new content of the changed lanes, and notes the checksums of files.
    fn read_new(&mut self, group: &Group, entries: &mut [Entry]) -> Result<Arena, Fault> {
        let block = self.set.geometry.block();
        let mut new = Arena::new(group.lanes.len(), group.len() as usize * block);
        for (i, &lane) in group.lanes.iter().enumerate() {
            for run in self.grid.runs(lane, group.stripes.clone()) {
                let from = (run.first - group.stripes.start) as usize * block;
                let bytes = &mut new.get_mut(i)[from..from + run.count as usize * block];
                let path = &self.paths[run.entry];
                let entry = &mut entries[run.entry];
                let reader = Reader::of_listed(self.set.world.disk);
                let read = read_file_blocks(reader, path, entry, block, run.block, bytes)
                    .map_err(|e| Fault::source("reading", path, e))?;
                self.report.source_bytes_read += read.bytes;
                // A file that changed after it was scanned is sealed as it is read now, and
                // reported as changed.
                let found: Vec<Crc64> = bytes.chunks_exact(block).map(Crc64::of).collect();
                for (block, found) in (run.block..).zip(found) {
                    if let EntryKind::File { crcs, .. } = &mut entry.kind
                        && let Some(crc) = crcs.get_mut(block as usize)
                    {
                        *crc = found;
                    }
                }
            }
        }
        Ok(new)
    }

    /// Adds the change to the parity cells that depend on it, and returns these cells. `None` if
    /// the old content is not known to be as sealed, or if encoding again reads less.
    ///
    /// An error in the old content that is added to parity would make the equations blame the new
    /// block. Without checksums only the whole stripe reveals such an error.
    fn add_delta(
        &mut self,
        window: &mut Window,
        changed: &[CellIndex],
        new: &Arena,
    ) -> Option<Vec<CellIndex>> {
        let (set, geometry) = (self.set, &self.set.geometry);
        let code = geometry.codec.code();
        let generator = code.generator();
        let positions: Vec<usize> = changed.iter().filter_map(|&cell| code.data_position(cell)).collect();
        let reached: Vec<CellIndex> = code
            .parity()
            .iter()
            .enumerate()
            .filter(|(row, _)| positions.iter().any(|&p| !generator.get(*row, p).is_zero()))
            .map(|(_, &cell)| cell)
            .collect();
        let cheaper = changed.len() + reached.len() <= geometry.lanes.len() - changed.len();
        // Beside the originals the old content of a changed file no longer exists. That of an
        // unchanged file is judged like any block.
        let is_there = |run: Run| {
            set.originals[run.entry].as_ref().is_some_and(|original| original.status == FileStatus::Unchanged)
        };
        let may_be_had = |cell: &CellIndex| {
            let lane = geometry.lane_of[cell.usize()];
            lane.is_some_and(|lane| set.grid.runs(lane, window.stripes.clone()).all(is_there))
        };
        let had = set.manifest.mode == Mode::Full || changed.iter().all(may_be_had);
        if !had || !set.judge || !cheaper {
            return None;
        }
        let reads: Vec<CellIndex> = changed.iter().chain(&reached).copied().collect();
        let whole = 0..window.count();
        set.read(window, &reads, whole);
        self.note_damaged(window);
        let had = (0..window.count()).all(|i| reads.iter().all(|&cell| window.have[i].contains(cell)));
        if !had {
            return None;
        }
        let len = window.count() * window.block;
        for (i, &position) in positions.iter().enumerate() {
            let mut cells = window.cells(0..window.count());
            let update = geometry.codec.update(&mut cells, position, &new.get(i)[..len]);
            update.unwrap_or_else(|e| unreachable!("a window is a stripe: {e}"));
        }
        Some(reached)
    }

    /// Computes all parity from the new content and the other blocks, repaired in memory where they
    /// are damaged.
    ///
    /// Errors: `TooMuchLost` if another block of a stripe cannot be recovered; `NeedsHeal` if,
    /// without checksums, the old stripe contradicts its equations or has a missing block.
    fn encode_again(
        &mut self,
        window: &mut Window,
        changed: &[CellIndex],
        new: &Arena,
    ) -> Result<Vec<CellIndex>, Fault> {
        let (set, geometry) = (self.set, &self.set.geometry);
        let code = geometry.codec.code();
        let others: Vec<CellIndex> =
            geometry.lanes.iter().copied().filter(|cell| !changed.contains(cell)).collect();
        if !set.judge {
            self.check_others(window)?;
        }
        // Blocks that satisfied the equations are not read again: only the content that was checked
        // is known to be right.
        if !(0..window.count()).all(|i| others.iter().all(|&cell| window.have[i].contains(cell))) {
            set.obtain(window, &others)?;
            self.note_damaged(window);
        }
        for i in 0..window.count() {
            if let Some(cell) = others.iter().find(|&&cell| !window.have[i].contains(cell)) {
                let stripe = window.stripes.start + i as u64;
                let owner = geometry.lane_of[cell.usize()].and_then(|lane| set.grid.owner(lane, stripe));
                let files: Vec<usize> = owner.map(|(entry, _)| entry).into_iter().collect();
                return Err(Fault::too_much_lost(losses_of(set, &window.lost[i], stripe, &files), None));
            }
        }
        let len = window.count() * window.block;
        for (i, &cell) in changed.iter().enumerate() {
            window.arena.get_mut(cell.usize())[..len].copy_from_slice(&new.get(i)[..len]);
        }
        let encode = geometry.codec.encode(&mut window.cells(0..window.count()));
        encode.unwrap_or_else(|e| unreachable!("a window is a stripe: {e}"));
        Ok(code.parity().to_vec())
    }

    /// Reports the shards and the unchanged originals with wrong blocks in a window.
    fn note_damaged(&mut self, window: &Window) {
        let (set, geometry, lost) = (self.set, &self.set.geometry, self.set.lost_cells());
        for (i, stripe) in (0..window.count()).zip(window.stripes.clone()) {
            for cell in window.lost[i].iter().filter(|&cell| !lost.contains(cell)) {
                let path = match (geometry.place[cell.usize()], geometry.lane_of[cell.usize()]) {
                    ((column, Some(_)), _) => set.shards[column].as_ref().map(|shard| &shard.path),
                    (_, lane) => lane
                        .and_then(|lane| set.originals[set.grid.owner(lane, stripe)?.0].as_ref())
                        .filter(|original| original.status == FileStatus::Unchanged)
                        .map(|original| &original.path),
                };
                let Some(path) = path.map(names::shown_path) else { continue };
                let damaged = &mut self.report.damaged;
                if damaged.len() < DAMAGED_MOST && !damaged.contains(&path) {
                    damaged.push(path);
                }
            }
        }
    }

    /// Without checksums: checks that the old stripes satisfy their equations. In mode full no
    /// block can be missing, since each lost block weakens the check of the others.
    fn check_others(&self, window: &mut Window) -> Result<(), Fault> {
        let set = self.set;
        let all: Vec<CellIndex> = set.geometry.codec.code().cells().collect();
        let whole = 0..window.count();
        set.read(window, &all, whole);
        for group in window.groups(|i| window.lost[i].clone()) {
            let erased: CellSet = window.lost[group.start].clone();
            if set.manifest.mode == Mode::Full && !erased.is_empty() {
                return Err(Fault::needs_heal(&[], erased.len() as u64, &set.command("heal")));
            }
            let checker = set.geometry.checker(&erased);
            let cells = window.cells(group);
            let views: Vec<&[u8]> = cells.iter().map(|cell| &**cell).collect();
            let fault = checker.first_fault(&views);
            if fault.unwrap_or_else(|e| unreachable!("a window is a stripe: {e}")).is_some() {
                return Err(Fault::needs_heal(&[], 1, &set.command("heal")));
            }
        }
        Ok(())
    }

    /// Writes a cell of the window to the journal, and its checksum to the table if it is parity.
    fn log(&mut self, window: &Window, cell: CellIndex) -> Result<(), Fault> {
        let geometry = &self.set.geometry;
        let (column, row) = geometry.place[cell.usize()];
        if geometry.lane_of[cell.usize()].is_none() && self.set.manifest.checksums {
            let table = self.meta.tables.iter_mut().find(|(c, _)| *c == column);
            if let Some((_, table)) = table {
                for i in 0..window.count() {
                    let index = geometry.check_index(cell, window.stripes.start + i as u64);
                    table[index] = Crc64::of(window.block(cell, i));
                }
            }
        }
        let Some(row) = row else { return Ok(()) };
        let header = header_of(&self.set.manifest, geometry, column);
        let whole = geometry.stored[column].len() == 1;
        let pieces = if whole { 1 } else { window.count() };
        let per_piece = window.count() / pieces;
        for piece in 0..pieces {
            let first = window.stripes.start + (piece * per_piece) as u64;
            let target = Target { column: Column(column as u32), offset: header.block_offset(first, row) };
            let bytes =
                &window.arena.get(cell.usize())[window.bytes(piece * per_piece..(piece + 1) * per_piece)];
            // A run of zeros is one short record, not written out.
            if bytes.iter().all(|&byte| byte == 0) {
                self.journal.zero(target, bytes.len() as u64)?;
            } else {
                self.journal.write(&[target], bytes)?;
            }
        }
        Ok(())
    }
}
