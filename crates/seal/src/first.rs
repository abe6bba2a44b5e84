//! Seals for the first time: temporary shards are written stripe by stripe, and a journal gives all
//! of them their names at once.

use crate::apply::journal::{self, JournalWriter, journal_header, remove_temporaries};
use crate::apply::meta::Meta;
use crate::disk::{Disk, DiskFile, set_back, spelt_one_way};
use crate::fault::sentences::{counted, list_most, paths, words};
use crate::options::{Progress, SealOptions};
use crate::report::{Change, PathChange, SealReport};
use crate::set::bound::{Bound, bind, data_columns, widened};
use crate::set::grid::{Allocator, Apart, Geometry, Grid, choose_block_len, exposed};
use crate::set::names::{Names, parent, path_of, temp};
use crate::set::settle::{Listed, mark_changed, write_back};
use crate::set::survival::{Damaged, Lying, survival};
use crate::set::tree::{Tree, Unreadable, let_times_pass};
use crate::set::window::{Reader, Window, join, read_file_blocks};
use crate::set::{file_bytes, manifests_in, mode_name, record_of};
use crate::{Fault, FaultKind, World, par};
use pantile::{CellIndex, Codec};
use pantile_format::{
    BODY_OFFSET, BlockLen, Column, Crc64, Entry, EntryKind, Features, Fields, Generation,
    META_COPIES_APART_BYTES, Manifest, Mode, SetId, Source, Timestamp,
};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A shard that is being written.
pub(crate) struct Output {
    pub(crate) column: usize,
    pub(crate) path: PathBuf,
    pub(crate) file: Box<dyn DiskFile>,
}

/// Writes blocks of new stripes from the sources to the shards.
pub(crate) struct Encoder<'a> {
    pub(crate) world: World<'a>,
    pub(crate) geometry: &'a Geometry,
    pub(crate) grid: &'a Grid,
    /// The path of each entry's original.
    pub(crate) paths: &'a [PathBuf],
}

/// Makes a new set with a name, and places its shards in the directories in turn.
pub(crate) fn first_seal(
    world: World<'_>,
    options: &SealOptions,
    (dirs, name): (&[PathBuf], Vec<u8>),
    mut tree: Tree,
    progress: &mut dyn Progress,
) -> Result<SealReport, Fault> {
    let others = || manifests_in(world.disk, &dirs[0]);
    let code = options.code.as_ref().ok_or_else(|| code_needed(options, &name, &others()))?;
    code.check_stores().map_err(|error| Fault::request(error.to_string()))?;
    let mode = options.mode.unwrap_or(Mode::Full);
    if mode == Mode::Beside && code.parity().is_empty() {
        let what = format!("{} has no parity, and only parity is stored beside files", code.spec());
        return Err(Fault::request(what).hint("choose a code that has some, such as raid6:4"));
    }
    let is_bound = mode == Mode::Beside && tree.sources.len() > 1 && !options.shared;
    let have = data_columns(code).len();
    let wider =
        (is_bound && tree.sources.len() > have).then(|| widened(code, tree.sources.len())).transpose()?;
    let code = wider.as_ref().unwrap_or(code);
    if is_bound {
        bind(code, &mut tree.sources)?;
    }
    tree.leave_out_unreadable(world.disk, |_, _| true)?;
    let codec = Codec::new(code);
    let sizes = |entry: &Entry| if let EntryKind::File { size, .. } = entry.kind { size } else { 0 };
    let bytes: u64 = tree.entries.iter().map(sizes).sum();
    let block_len = match options.block_len {
        Some(given) => BlockLen::new(given).ok_or_else(|| Fault::block_len(given))?,
        None => choose_block_len(bytes, code.cell_count()),
    };
    let geometry = Geometry::new(&codec, mode, block_len);
    let mut names = Names::new(dirs[0].clone(), name, geometry.columns());
    refuse_idle(dirs, code.spec(), geometry.stored_columns().count())?;
    names.elsewhere = geometry.stored_columns().zip(dirs.iter().cloned().cycle()).collect();
    let lanes = geometry.lanes.len();
    let blocks = |entry: &Entry| block_len.blocks(sizes(entry));
    let bound = Bound::of(&geometry, mode, &tree.sources);
    let mut allocator = match &bound {
        Some(bound) => {
            let files: Vec<(u32, u64)> =
                tree.entries.iter().map(|entry| (entry.source, blocks(entry))).collect();
            Allocator::new_bound(&Grid::new(lanes, &[]), 0, bound, &files)
        }
        None => Allocator::new(&Grid::new(lanes, &[]), 0, tree.entries.iter().map(blocks).sum()),
    };
    let apart = (mode == Mode::Beside).then(|| Apart::new(&geometry));
    let mut order: Vec<usize> = (0..tree.entries.len()).collect();
    if mode == Mode::Beside && bound.is_none() {
        // The largest file comes first, while there is still enough room to keep its blocks in
        // different columns.
        order.sort_by_key(|&index| std::cmp::Reverse(sizes(&tree.entries[index])));
    }
    for index in order {
        let entry = &mut tree.entries[index];
        let (count, source) = (blocks(entry), entry.source);
        if let EntryKind::File { extents, .. } = &mut entry.kind {
            *extents = match (&bound, &apart) {
                (Some(bound), _) => allocator.take_on(count, bound.lanes(source)),
                (None, Some(apart)) => allocator.take_apart(count, &[], apart),
                (None, None) => allocator.take(count),
            };
        }
    }
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|e| Fault::io("drawing a UUID for", &names.dir, e.into()))?;
    (id[6], id[8]) = (id[6] & 0x0f | 0x40, id[8] & 0x3f | 0x80);
    let widened_from = wider.as_ref().and(options.code.as_ref()).map(|code| code.spec().into());
    let mut report = SealReport { first_time: true, widened_from, ..left_out(&tree) };
    let mut manifest = Manifest {
        features: Features { ignorable: Features::OWNERS, ..Features::default() },
        fields: Fields::default(),
        set: SetId(id),
        generation: Generation(1),
        mode,
        checksums: options.checksums.unwrap_or(true),
        block_len,
        stripes: allocator.stripes,
        lanes: lanes as u32,
        code: record_of(code),
        name: names.name.clone(),
        sources: tree.sources,
        entries: tree.entries,
    };
    manifest.set_left_out(&tree.left_out);
    check_room(world, &geometry, &manifest, &names)?;
    report.added = manifest.entries.len() as u64;
    if options.dry_run {
        let added = |index: usize| {
            let path = crate::set::names::shown(&crate::set::restored_path(&manifest, index));
            PathChange { path, is: Change::Added, from: None }
        };
        (report.dry_run, report.stripes_touched) = (true, manifest.stripes);
        report.changes = (0..manifest.entries.len()).map(added).collect();
        return Ok(describe(report, world.disk, &manifest, &geometry, &names));
    }
    make_checksums(&geometry, &mut manifest)?;
    let times = (tree.began, tree.seen.as_slice());
    let done = write_all(world, &geometry, &names, &mut manifest, times, &mut report, progress);
    if done.is_err() && world.disk.meta(&names.journal()).is_err() {
        // Best effort: the first error is more helpful than that of the removal.
        let _ = remove_temporaries(world.disk, &names);
    }
    done?;
    Ok(describe(report, world.disk, &manifest, &geometry, &names))
}

/// The files whose loss alone exceeds the tolerance of the code: the first 100, and their number.
pub(crate) fn names_exposed(geometry: &Geometry, manifest: &Manifest) -> (Vec<String>, u64) {
    let exposed = exposed(geometry, &manifest.entries);
    let name = |&index: &usize| crate::set::names::shown(&crate::set::restored_path(manifest, index));
    (exposed.iter().take(100).map(name).collect(), exposed.len() as u64)
}

/// Returns the first 100 of some paths, as text.
fn shown(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().take(100).map(|path| crate::set::names::shown_path(&path)).collect()
}

/// Returns a report of the paths that the walk left out.
pub(crate) fn left_out(tree: &Tree) -> SealReport {
    SealReport {
        skipped: shown(&tree.skipped),
        too_long: shown(&tree.too_long.0),
        too_long_count: tree.too_long.1,
        unreadable: tree.unreadable.iter().take(100).map(Unreadable::report).collect(),
        unreadable_count: tree.unreadable.len() as u64,
        strays: shown(&tree.strays),
        other_systems: shown(&tree.other_systems),
        excluded: tree.excluded,
        ..SealReport::default()
    }
}

/// Fills the part of a report that is the same for every seal.
pub(crate) fn describe(
    mut report: SealReport,
    disk: &dyn Disk,
    manifest: &Manifest,
    geometry: &Geometry,
    names: &Names,
) -> SealReport {
    let is_file = |entry: &&Entry| matches!(entry.kind, EntryKind::File { .. });
    report.set = manifest.set.to_string();
    report.name = crate::set::names::shown(&manifest.name);
    report.code = manifest.code.spec.clone();
    report.mode = mode_name(manifest.mode).into();
    report.tolerance = geometry.codec.code().claim().tolerance as u64;
    report.generation = manifest.generation.0;
    report.manifest = crate::pin::told(manifest);
    report.stored_manifest = if report.dry_run { Vec::new() } else { manifest.encode() };
    let place = |source: &Source| (source.prefix.clone(), path_of(&source.path).to_path_buf());
    report.places = manifest.sources.iter().map(place).collect();
    report.files = manifest.entries.iter().filter(is_file).count() as u64;
    report.file_bytes = file_bytes(manifest);
    let is_link = |entry: &&Entry| matches!(entry.kind, EntryKind::HardLink { .. });
    report.hard_links = manifest.entries.iter().filter(is_link).count() as u64;
    report.stripes = manifest.stripes;
    report.block_len = manifest.block_len.bytes();
    report.shard_bytes = manifest.stripes * geometry.stripe_bytes();
    if manifest.mode == Mode::Beside {
        (report.exposed, report.exposed_count) = names_exposed(geometry, manifest);
    }
    let lying = Lying {
        sources: manifest.sources.iter().map(|source| Some(path_of(&source.path))).collect(),
        shards: geometry.stored_columns().map(|c| (c, Some(names.shard(c)))).collect(),
        damage: Damaged::default(),
    };
    report.survival = survival(disk, geometry, manifest, &lying);
    report.shards =
        geometry.stored_columns().map(|c| crate::set::names::shown_path(&names.shard(c))).collect();
    report
}

/// Returns the fault of a new set without a code, with the commands that the user can have meant.
/// `others` are the existing sets in the directory.
fn code_needed(options: &SealOptions, name: &[u8], others: &[Manifest]) -> Fault {
    let out = &options.out;
    let what = format!("there is no set named '{}' in {}", crate::set::names::shown(name), out.display());
    let sources = |set: &Manifest| -> Vec<PathBuf> {
        set.sources.iter().map(|source| path_of(&source.path).to_path_buf()).collect()
    };
    let from = |set: &Manifest| {
        let name = crate::set::names::shown(&set.name);
        format!("'{name}', sealed from {}", paths(&sources(set)))
    };
    let mut from: Vec<String> = others.iter().map(from).collect();
    from.sort_unstable();
    if from.is_empty() {
        return Fault::request(format!("{what}, and a new one needs a code"))
            .hint(
                "say --code raid5 for one parity, raid6 for two, or another such as rs:10+4; if its shards were moved to \
                 other disks, leave a symbolic link to each there, under its name",
            )
            .at(out);
    }
    let fault = Fault::request(format!("{what}, but {}", list_most(&from))).at(out);
    let named = options.sources.iter().chain(options.disks.iter().map(|disk| &disk.path));
    let new = |set: &Manifest| -> Vec<PathBuf> {
        let have = sources(set);
        named.clone().filter(|path| !have.contains(&spelt_one_way(path))).cloned().collect()
    };
    let grows = |set: &&Manifest| {
        let is_apart = set.sources.iter().all(|source| !source.fields.columns().is_empty());
        set.mode == Mode::Beside && is_apart && !new(set).is_empty()
    };
    match others {
        [set] if grows(&set) => {
            let all = [sources(set), new(set)].concat();
            fault.hint(format!(
                "to add what you named to it, run 'pantile seal {} --out {} --name {}'; to update it give its paths alone; a \
                 new set needs a code, as in --code raid6",
                words(&all),
                words([out]),
                words([&path_of(&set.name).to_path_buf()])
            ))
        }
        _ => fault.hint(
            "to update one give its paths in this order, and its name by --name; a new set needs a code, as in --code raid6",
        ),
    }
}

/// Allocates the checksums of all blocks, still unknown. A file of holes can have more blocks than
/// memory can hold checksums for.
fn make_checksums(geometry: &Geometry, manifest: &mut Manifest) -> Result<(), Fault> {
    if !manifest.checksums {
        return Ok(());
    }
    // The encoded manifest contains a second copy of the checksums.
    let need = 2 * data_checksum_bytes(manifest) + parity_checksum_bytes(geometry, manifest);
    let is_room = Vec::<u8>::new().try_reserve_exact(usize::try_from(need).unwrap_or(usize::MAX)).is_ok();
    if !is_room {
        let block = manifest.block_len.bytes();
        return Err(Fault::request(format!(
            "the checksums of blocks of {block} bytes need {need} bytes of memory, which are not available"
        ))
        .hint("choose larger blocks, up to 1048576 bytes. Nothing was changed"));
    }
    for entry in &mut manifest.entries {
        if let EntryKind::File { size, crcs, .. } = &mut entry.kind {
            *crcs = vec![Crc64(0); manifest.block_len.blocks(*size) as usize];
        }
    }
    Ok(())
}

fn data_checksum_bytes(manifest: &Manifest) -> u64 {
    let size = |entry: &Entry| if let EntryKind::File { size, .. } = entry.kind { size } else { 0 };
    let blocks: u64 = manifest.entries.iter().map(|entry| manifest.block_len.blocks(size(entry))).sum();
    if manifest.checksums { blocks.saturating_mul(8) } else { 0 }
}

fn parity_checksum_bytes(geometry: &Geometry, manifest: &Manifest) -> u64 {
    8 * manifest.stripes * geometry.parity.iter().map(|p| p.len() as u64).sum::<u64>()
}

/// Checks the free room, before anything is allocated for each block. The manifest has no checksums
/// yet.
fn check_room(
    world: World<'_>,
    geometry: &Geometry,
    manifest: &Manifest,
    names: &Names,
) -> Result<(), Fault> {
    // Each shard has two copies of the metadata, and a gap between them.
    let manifest_bytes = manifest.encode().len() as u64 + data_checksum_bytes(manifest);
    let meta = 2 * manifest_bytes + META_COPIES_APART_BYTES + BODY_OFFSET + 4096;
    let need = |column: usize| {
        let blocks = geometry.stored[column].len() as u64 * manifest.block_len.bytes();
        let checks = if manifest.checksums { 16 * geometry.parity[column].len() as u64 } else { 0 };
        (parent(&names.shard(column)), manifest.stripes.saturating_mul(blocks + checks).saturating_add(meta))
    };
    check_free(world.disk, geometry.stored_columns().map(need))
}

/// Refuses directories for which a set has no shard: the user may count on one there.
pub(crate) fn refuse_idle(dirs: &[PathBuf], code: &str, shards: usize) -> Result<(), Fault> {
    let Some(idle) = dirs.get(shards) else { return Ok(()) };
    let what = format!(
        "{code} has {} in this set, and {} directories are named: none is left for {}",
        counted(shards as u64, "shard", "shards"),
        dirs.len(),
        idle.display()
    );
    Err(Fault::request(what).at(idle).hint("name no more directories; another code makes another set"))
}

/// Refuses the work if it needs more than the free room on the file system of a directory.
pub(crate) fn check_free(disk: &dyn Disk, needs: impl Iterator<Item = (PathBuf, u64)>) -> Result<(), Fault> {
    let mut systems: HashMap<Option<u64>, (PathBuf, u64)> = HashMap::new();
    for (dir, need) in needs {
        let device = disk.meta(&dir).ok().map(|meta| meta.id.device);
        let (_, all) = systems.entry(device).or_insert((dir, 0));
        *all = all.saturating_add(need);
    }
    for (path, need) in systems.into_values() {
        match disk.free_bytes(&path) {
            Ok(free) if free < need => {
                let what = format!("{} has {free} bytes free, but {need} are needed", path.display());
                return Err(Fault::new(FaultKind::Full, what)
                    .at(path)
                    .hint("free some, or choose another directory. Nothing was changed"));
            }
            _ => {}
        }
    }
    Ok(())
}

fn write_all(
    world: World<'_>,
    geometry: &Geometry,
    names: &Names,
    manifest: &mut Manifest,
    (began, seen): (Timestamp, &[Timestamp]),
    report: &mut SealReport,
    progress: &mut dyn Progress,
) -> Result<(), Fault> {
    remove_temporaries(world.disk, names)?;
    let paths: Vec<PathBuf> = manifest.entries.iter().map(|entry| source_path(manifest, entry)).collect();
    let mut outputs = Vec::new();
    for column in geometry.stored_columns() {
        let path = temp(&names.shard(column));
        let file = world.disk.create(&path).map_err(|e| Fault::io("creating", &path, e))?;
        outputs.push(Output { column, path, file });
    }
    let grid = Grid::new(geometry.lanes.len(), &manifest.entries);
    let encoder = Encoder { world, geometry, grid: &grid, paths: &paths };
    let mut meta = Meta::empty(geometry, manifest);
    progress.phase("sealing", file_bytes(manifest));
    let is_file = |index: &usize| matches!(manifest.entries[*index].kind, EntryKind::File { .. });
    let files: Vec<usize> = (0..manifest.entries.len()).filter(is_file).collect();
    let listed = Listed { files: &files, seen };
    let_times_pass(files.iter().map(|&index| &manifest.entries[index]));
    write_back(world, listed, &paths)?;
    let stripes = 0..manifest.stripes;
    report.source_bytes_read =
        encoder.encode(stripes, &outputs, &mut manifest.entries, &mut meta, progress)?;
    report.stripes_touched = manifest.stripes;
    report.bytes_written = manifest.stripes * geometry.stripe_bytes();
    report.changed_meanwhile = mark_changed(world, listed, &paths, &mut manifest.entries);
    progress.phase("syncing", 0);
    let place = |_column: usize, end: u64, _len: u64| end;
    let headers = meta.write(manifest, geometry, &outputs, 0, place)?;
    for (output, header) in outputs.iter().zip(&headers) {
        let twice = [header.encode(), header.encode()].concat();
        output.file.write_at(&twice, 0).map_err(|e| Fault::io("writing", &output.path, e))?;
    }
    for output in &outputs {
        set_back(&*output.file, began);
        output.file.sync().map_err(|e| Fault::io("syncing", &output.path, e))?;
    }
    let mut journal = JournalWriter::create(world.disk, names.journal(), journal_header(manifest), None)?;
    for output in &outputs {
        journal.replace(Column(output.column as u32))?;
    }
    if progress.cancelled() {
        return Err(Fault::cancelled());
    }
    for dir in names.dirs() {
        world.disk.sync_dir(dir).map_err(|e| Fault::io("syncing", dir, e))?;
    }
    journal.commit(began)?;
    let dirs: Vec<PathBuf> = names.dirs().into_iter().map(Path::to_path_buf).collect();
    journal::finish(&world, &names.journal(), &dirs)
}

fn source_path(manifest: &Manifest, entry: &Entry) -> PathBuf {
    join(path_of(&manifest.sources[entry.source as usize].path), &entry.path)
}

impl Encoder<'_> {
    /// Reads the files of new stripes, computes parity and checksums, and writes all blocks to the
    /// shards; returns the number of bytes read.
    pub(crate) fn encode(
        &self,
        stripes: std::ops::Range<u64>,
        outputs: &[Output],
        entries: &mut [Entry],
        meta: &mut Meta,
        progress: &mut dyn Progress,
    ) -> Result<u64, Fault> {
        let step = self.geometry.window_stripes();
        let mut window = Window::new(self.geometry, step.min(stripes.end - stripes.start));
        let mut at = stripes.start;
        let mut bytes_read = 0;
        while at < stripes.end {
            if progress.cancelled() {
                return Err(Fault::cancelled());
            }
            window.move_to(at..stripes.end.min(at + step), &self.geometry.no_cells());
            let read = self.fill(&mut window, entries)?;
            self.compute(&mut window)?;
            self.write(&window, outputs, meta)?;
            progress.advance(read);
            bytes_read += read;
            at = window.stripes.end;
        }
        Ok(bytes_read)
    }

    /// Reads the data cells from the sources and notes the checksums of their blocks; returns the
    /// number of bytes read from files.
    fn fill(&self, window: &mut Window, entries: &mut [Entry]) -> Result<u64, Fault> {
        let block = self.geometry.block();
        let part = window.bytes(0..window.count());
        let stripes = window.stripes.clone();
        let indices: Vec<usize> = self.geometry.lanes.iter().map(|cell| cell.usize()).collect();
        let (_, buffers) = window.arena.split(&[], &indices);
        let mut lanes: Vec<(u32, &mut [u8], Vec<Crc64>)> = (0u32..)
            .zip(buffers)
            .map(|(lane, buffer)| (lane, &mut buffer[part.clone()], Vec::new()))
            .collect();
        let bytes_read = AtomicU64::new(0);
        let shared: &[Entry] = entries;
        let fill = |(lane, buffer, crcs): &mut (u32, &mut [u8], Vec<Crc64>)| {
            let mut filled = 0;
            for run in self.grid.runs(*lane, stripes.clone()) {
                let from = (run.first - stripes.start) as usize * block;
                let to = from + run.count as usize * block;
                buffer[filled..from].fill(0);
                let path = &self.paths[run.entry];
                let bytes = &mut buffer[from..to];
                let reader = Reader::of_listed(self.world.disk);
                // A file that became shorter is sealed as it is read, padded with zeros, and
                // reported as changed.
                let read = read_file_blocks(reader, path, &shared[run.entry], block, run.block, bytes)
                    .map_err(|e| Fault::source("reading", path, e))?;
                bytes_read.fetch_add(read.bytes, Ordering::Relaxed);
                if self.with_checksums(&shared[run.entry]) {
                    crcs.extend(bytes.chunks_exact(block).map(Crc64::of));
                }
                filled = to;
            }
            buffer[filled..].fill(0);
            Ok(())
        };
        par::for_each(self.world.threads, lanes.iter_mut().collect(), fill)?;
        for (lane, _, crcs) in lanes {
            let mut found = crcs.into_iter();
            for run in self.grid.runs(lane, stripes.clone()) {
                let EntryKind::File { crcs, .. } = &mut entries[run.entry].kind else { continue };
                for crc in crcs.iter_mut().skip(run.block as usize).take(run.count as usize) {
                    *crc = found.next().unwrap_or(*crc);
                }
            }
        }
        Ok(bytes_read.into_inner())
    }

    fn with_checksums(&self, entry: &Entry) -> bool {
        matches!(&entry.kind, EntryKind::File { crcs, .. } if !crcs.is_empty())
    }

    /// Computes the parity. Each thread computes a part of the bytes.
    fn compute(&self, window: &mut Window) -> Result<(), Fault> {
        let len = window.count() * window.block;
        let piece = len.div_ceil(self.world.threads.max(1)).next_multiple_of(4096);
        let mut parts: Vec<Vec<&mut [u8]>> = Vec::new();
        let mut rest = window.cells(0..window.count());
        while rest.first().is_some_and(|cell| !cell.is_empty()) {
            let here = piece.min(rest[0].len());
            let (part, behind) = rest.into_iter().map(|cell| cell.split_at_mut(here)).unzip();
            parts.push(part);
            rest = behind;
        }
        par::for_each(self.world.threads, parts, |mut part| {
            self.geometry
                .codec
                .encode(&mut part)
                .unwrap_or_else(|e| unreachable!("a window is a stripe: {e}"));
            Ok(())
        })
    }

    /// Writes every stored cell and notes the checksums of parity. Each thread writes some of the
    /// shards.
    fn write(&self, window: &Window, outputs: &[Output], meta: &mut Meta) -> Result<(), Fault> {
        let first = window.stripes.start;
        let tables = meta.parts(self.geometry, window.stripes.clone());
        let work: Vec<(&Output, &mut [Crc64])> = outputs.iter().zip(tables).collect();
        par::for_each(self.world.threads, work, |(output, table)| {
            let cells = &self.geometry.stored[output.column];
            let parity = &self.geometry.parity[output.column];
            if !table.is_empty() {
                for (i, row) in table.chunks_exact_mut(parity.len()).enumerate() {
                    let crcs = parity.iter().map(|&cell| Crc64::of(window.block(cell, i)));
                    row.iter_mut().zip(crcs).for_each(|(to, crc)| *to = crc);
                }
            }
            write_cells(window, cells, &*output.file, first, window.block)
                .map_err(|e| Fault::io("writing", &output.path, e))
        })
    }
}

/// Writes the stored cells of one column: `cells[row]` of every stripe of the window.
pub(crate) fn write_cells(
    window: &Window,
    cells: &[CellIndex],
    file: &dyn DiskFile,
    first: u64,
    block: usize,
) -> std::io::Result<()> {
    let rows = cells.len() as u64;
    let offset = |stripe: u64, row: u64| BODY_OFFSET + (stripe * rows + row) * block as u64;
    if let [cell] = cells {
        let bytes = &window.arena.get(cell.usize())[window.bytes(0..window.count())];
        return file.write_at(bytes, offset(first, 0));
    }
    for i in 0..window.count() {
        for (row, &cell) in cells.iter().enumerate() {
            file.write_at(window.block(cell, i), offset(first + i as u64, row as u64))?;
        }
    }
    Ok(())
}
