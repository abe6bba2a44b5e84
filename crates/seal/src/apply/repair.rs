//! Repair in place: a bad block of an original is written where it is, so that its owner, inode,
//! hard links, holes and attributes stay, and a full disk has room.
//!
//! `NAME.repair` beside the shards is the journal of such a repair, with the old and the new bytes
//! of each block. It gets its name before the first block is written. It is removed when all blocks
//! are durable and each file has its mtime again.
//!
//! Invariant: a block in the journal holds its old bytes, its new bytes, or a mix of both that a
//! cut-off write left. If it holds anything else, another program wrote it, and the repair does not
//! touch it.
//!
//! A cut-off repair leaves a file with the time of the last write. [`finish`] restores the sealed
//! time only if the whole content is the sealed one, since another program may have changed the
//! file in the meantime.

use crate::apply::journal::{JournalWriter, Stream};
use crate::attributes::{Attribute, CAPABILITIES, Rights};
use crate::disk::{Disk, DiskFile, DiskSystem, Meta, MetaKind, exact_now, is_own};
use crate::heal::free_name;
use crate::options::Progress;
use crate::report::{FileStatus, HealReport, NotDone};
use crate::set::Set;
use crate::set::names::{NO_COLUMN, parent, shown_path, stray};
use crate::set::times::{is_rot_or_change, is_same_time, is_since};
use crate::set::tree::Way;
use crate::set::verify::{Damage, Scope, find_damage, within};
use crate::set::window::Window;
use crate::{Fault, FaultKind};
use pantile::CellIndex;
use pantile_format::{
    Crc64, EntryKind, FormatError, JournalHeader, Part, RecordKind, SetId, Spot, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::PathBuf;

/// The journal is finished and a new one begun once it has this many bytes.
const JOURNAL_BYTES_MOST: u64 = 64 << 20;
/// Limit of files in a journal, since each is open until it is durable.
const FILES_MOST: usize = 192;
/// Up to this many files are synced one by one.
const FEW: usize = 8;

/// A repair of originals that was cut off.
pub(crate) struct UnderRepair {
    pub(crate) path: PathBuf,
    /// The files that it names.
    pub(crate) entries: BTreeSet<usize>,
}

impl UnderRepair {
    /// Looks for the journal of a cut-off repair of this state of the set.
    ///
    /// Errors: `BadJournal` if a file of that name is not such a journal, or would write other
    /// content than the sealed one.
    pub(crate) fn found(set: &Set<'_>, progress: &dyn Progress) -> Result<Option<UnderRepair>, Fault> {
        let disk = set.world.disk;
        let name = set.names.repair();
        let Some(name) = name.file_name() else { return Ok(None) };
        let mut dirs = set.dirs.iter().chain([&set.names.dir]).map(|dir| dir.join(name));
        let Some(path) = dirs.find(|path| disk.meta(path).is_ok_and(|meta| meta.kind == MetaKind::File))
        else {
            return Ok(None);
        };
        let mut stream = Stream::open(disk, &path, progress)?;
        let header = stream.header()?;
        if header.set != set.manifest.set {
            return Err(stream.bad(invalid("set", "must be that of the shards beside it")));
        }
        if header.generation != set.manifest.generation {
            return Ok(None);
        }
        let mut entries = BTreeSet::new();
        while let Some(block) = next(set, &mut stream)? {
            entries.insert(block.entry);
        }
        Ok(Some(UnderRepair { path, entries }))
    }
}

fn invalid(field: &'static str, rule: &'static str) -> FormatError {
    FormatError::Invalid { part: Part::Journal, field, rule }
}

struct Block {
    entry: usize,
    offset: u64,
    new: Vec<u8>,
    /// The bytes before the repair; `None` if they could not be read.
    old: Option<Vec<u8>>,
}

/// Returns the next block of a journal; `None` after the last.
fn next(set: &Set<'_>, stream: &mut Stream<'_>) -> Result<Option<Block>, Fault> {
    let head = stream.head()?;
    match head.kind {
        RecordKind::End => return stream.end().map(|()| None),
        RecordKind::Original => {}
        _ => return Err(stream.bad(invalid("kind", "must be that of an original"))),
    }
    let spot = stream.spot()?;
    let payload = stream.bytes(head.payload_len as usize)?.to_vec();
    let block = set.manifest.block_len.bytes();
    let entry = usize::try_from(spot.entry).unwrap_or(usize::MAX);
    let Some(EntryKind::File { size, crcs, .. }) = set.manifest.entries.get(entry).map(|entry| &entry.kind)
    else {
        return Err(stream.bad(invalid("entry", "must be a file of the set")));
    };
    if spot.offset >= *size || !spot.offset.is_multiple_of(block) {
        return Err(stream.bad(invalid("offset", "must be that of a block of the file")));
    }
    let len = block.min(size - spot.offset) as usize;
    if payload.len() != len && payload.len() != 2 * len {
        return Err(stream.bad(invalid("payload length", "must be one block or two")));
    }
    let (new, old) = payload.split_at(len);
    let sealed = crcs.get((spot.offset / block) as usize);
    if sealed.is_some_and(|crc| *crc != crc_padded(new, block as usize)) {
        return Err(stream.bad(invalid("payload", "must be what was sealed")));
    }
    let old = (!old.is_empty()).then(|| old.to_vec());
    Ok(Some(Block { entry, offset: spot.offset, new: new.to_vec(), old }))
}

/// Returns the checksum of a block; the last block of a file is padded.
fn crc_padded(bytes: &[u8], block: usize) -> Crc64 {
    let mut padded = bytes.to_vec();
    padded.resize(block, 0);
    Crc64::of(&padded)
}

/// A file with blocks in the journal that is being written.
struct Planned {
    path: PathBuf,
    way: Way,
    there: Meta,
    attributes: Vec<Attribute>,
    blocks: u64,
    /// The file for the replaced blocks, if the original was touched since it was sealed.
    aside: Option<Aside>,
}

/// A sparse file that keeps the replaced blocks of another file, at their offsets.
struct Aside {
    file: Box<dyn DiskFile>,
    path: PathBuf,
}

/// Repairs in place the originals that qualify, and returns the others.
///
/// A file qualifies if it has the sealed size and mtime, and belongs to this user. If it was
/// touched since it was sealed, at most one block of sixteen may differ: otherwise it counts as
/// another file. Files that cannot be opened for writing, or not be repaired in place for another
/// reason, are returned too.
///
/// Errors: `Cancelled`, and faults of the journal once it has its name.
pub(crate) fn heal_in_place(
    set: &Set<'_>,
    files: Vec<(usize, Way)>,
    (damage, rights): (&Damage, Rights),
    report: &mut HealReport,
    progress: &mut dyn Progress,
) -> Result<Vec<(usize, Way)>, Fault> {
    let (here, mut rest): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|&(entry, way)| is_in_place(set, entry, way, damage));
    if here.is_empty() {
        return Ok(rest);
    }
    let block = set.manifest.block_len.bytes();
    let lost = |entry: &usize| damage.files.get(entry).map_or(0, |(lost, _)| lost * block);
    progress.phase("repairing blocks", here.iter().map(|(entry, _)| lost(entry)).sum());
    let mut window = Window::new(&set.geometry, set.geometry.window_stripes().min(set.manifest.stripes));
    let mut batch: Option<Repairing<'_, '_>> = None;
    for (entry, way) in here {
        let repairing = match batch.take().map_or_else(|| Repairing::new(set, rights), Ok) {
            Ok(repairing) => batch.insert(repairing),
            // No journal can be written beside the shards, so the file is written as a whole.
            Err(_) => {
                rest.push((entry, way));
                continue;
            }
        };
        match repairing.plan((entry, way), damage, &mut window, progress) {
            Ok(()) => {}
            Err(error) if matches!(error.kind, FaultKind::Cancelled) => {
                batch.take().into_iter().for_each(Repairing::abandon);
                return Err(error);
            }
            Err(_) => rest.push((entry, way)),
        }
        if repairing.is_full() {
            batch.take().map_or(Ok(()), |batch| batch.run(&mut rest, report, progress))?;
        }
    }
    batch.map_or(Ok(()), |batch| batch.run(&mut rest, report, progress))?;
    rest.sort_unstable_by_key(|(entry, _)| *entry);
    Ok(rest)
}

/// True if an original is the sealed file with damage, and not another file.
fn is_in_place(set: &Set<'_>, entry: usize, way: Way, damage: &Damage) -> bool {
    let EntryKind::File { size, .. } = set.manifest.entries[entry].kind else { return false };
    let Some(original) = &set.originals[entry] else { return false };
    let Ok(there) = set.world.disk.meta(&original.path) else { return false };
    let lost = damage.files.get(&entry).map_or(0, |(lost, _)| *lost);
    let is_touched = is_touched(set, way, &there);
    // Only the owner of the file can restore its mtime.
    let may_be = is_own(&there) || rustix::process::geteuid().is_root();
    original.status == FileStatus::Unchanged
        && original.path == set.original_path(entry)
        && may_be
        && is_same_time(set.manifest.entries[entry].mtime, there.mtime)
        && (!is_touched || is_rot_or_change(lost, set.manifest.block_len.blocks(size)))
}

/// True if a file was changed since it was sealed, or may have been moved to its place.
pub(crate) fn is_touched(set: &Set<'_>, way: Way, there: &Meta) -> bool {
    set.sealed_at.is_none_or(|at| is_since(there.ctime, at) || way.is_moved_since(at))
}

/// Returns the lost blocks of a file: stripes, cell, and the index in the file of the first block.
fn lost_runs(set: &Set<'_>, entry: usize, damage: &Damage) -> Vec<(Range<u64>, CellIndex, u64)> {
    let EntryKind::File { extents, .. } = &set.manifest.entries[entry].kind else { return Vec::new() };
    let mut runs = Vec::new();
    let mut first = 0;
    for extent in extents {
        let cell = set.geometry.lanes[extent.lane.0 as usize];
        let stripes = extent.first.0..extent.first.0 + extent.count;
        for (run, lost) in damage.cells.overlapping(&stripes) {
            if lost.contains(cell) {
                let run = within(run, &stripes);
                let block = first + run.start - stripes.start;
                runs.push((run, cell, block));
            }
        }
        first += extent.count;
    }
    runs
}

/// A journal that is being written, and the files that it names.
struct Repairing<'s, 'w> {
    set: &'s Set<'w>,
    rights: Rights,
    journal: JournalWriter<'w>,
    planned: BTreeMap<usize, Planned>,
}

impl<'s, 'w> Repairing<'s, 'w> {
    fn new(set: &'s Set<'w>, rights: Rights) -> Result<Repairing<'s, 'w>, Fault> {
        let manifest = &set.manifest;
        let header = JournalHeader { set: manifest.set, generation: manifest.generation };
        let journal = JournalWriter::create(set.world.disk, set.names.repair(), header, set.owner_of_all())?;
        Ok(Repairing { set, rights, journal, planned: BTreeMap::new() })
    }

    fn is_full(&self) -> bool {
        self.planned.len() >= FILES_MOST || self.journal.len() >= JOURNAL_BYTES_MOST
    }

    /// Removes the journal; no file was written to yet.
    fn abandon(self) {
        self.journal.abandon();
        let asides = self.planned.into_values().filter_map(|planned| planned.aside);
        asides.for_each(|aside| drop(aside.file.discard()));
    }

    /// Writes the present and the sealed bytes of the lost blocks of a file to the journal.
    fn plan(
        &mut self,
        (entry, way): (usize, Way),
        damage: &Damage,
        window: &mut Window,
        progress: &mut dyn Progress,
    ) -> Result<(), Fault> {
        let (set, disk, path) = (self.set, self.set.world.disk, self.set.original_path(entry));
        let EntryKind::File { size, .. } = set.manifest.entries[entry].kind else { return Ok(()) };
        let file = disk.open_write(&path).map_err(|e| Fault::io("opening", &path, e))?;
        let described = file.meta().and_then(|there| Ok((there, file.attributes()?)));
        let (there, attributes) = described.map_err(|e| Fault::io("reading", &path, e))?;
        let aside = is_touched(set, way, &there).then(|| self.aside(&path)).transpose()?;
        let mut planned = Planned { path, way, there, attributes, blocks: 0, aside };
        let done = self.plan_blocks((entry, size), &*file, &mut planned, (damage, window), progress);
        match (done, planned.aside.take()) {
            (Ok(()), aside) => {
                planned.aside = aside;
                self.planned.insert(entry, planned);
                Ok(())
            }
            (Err(error), aside) => {
                aside.into_iter().for_each(|aside| drop(aside.file.discard()));
                Err(error)
            }
        }
    }

    fn plan_blocks(
        &mut self,
        (entry, size): (usize, u64),
        file: &dyn DiskFile,
        planned: &mut Planned,
        (damage, window): (&Damage, &mut Window),
        progress: &mut dyn Progress,
    ) -> Result<(), Fault> {
        let set = self.set;
        let (block, lost) = (set.manifest.block_len.bytes(), set.lost_cells());
        for (stripes, cell, first) in lost_runs(set, entry, damage) {
            let mut at = stripes.start;
            while at < stripes.end {
                if progress.cancelled() {
                    return Err(Fault::cancelled());
                }
                window.move_to(at..stripes.end.min(at + set.geometry.window_stripes()), &lost);
                damage.add_to(window);
                set.obtain(window, &[cell])?;
                for i in 0..window.count() {
                    let offset = (first + at - stripes.start + i as u64) * block;
                    let len = block.min(size.saturating_sub(offset)) as usize;
                    if !window.have[i].contains(cell) {
                        return Err(Fault::changed(&planned.path));
                    }
                    let new = &window.block(cell, i)[..len];
                    let mut old = vec![0; len];
                    let is_read = file.read_at(&mut old, offset).is_ok_and(|have| have == len);
                    if let Some(aside) = planned.aside.as_ref().filter(|_| is_read) {
                        let written = aside.file.write_at(&old, offset);
                        written.map_err(|e| Fault::io("writing", &aside.path, e))?;
                    }
                    let spot = Spot { entry: entry as u64, offset };
                    self.journal.original(spot, new, is_read.then_some(&old))?;
                    planned.blocks += 1;
                    progress.advance(len as u64);
                }
                at = window.stripes.end;
            }
        }
        Ok(())
    }

    /// Creates the file for the replaced blocks of an original that was touched since it was
    /// sealed.
    fn aside(&self, path: &std::path::Path) -> Result<Aside, Fault> {
        let disk = self.set.world.disk;
        let set: SetId = self.set.manifest.set;
        let temp = stray(&parent(path), set, Some(NO_COLUMN - 1 - self.planned.len()));
        let file = disk.create(&temp).map_err(|e| Fault::io("creating", &temp, e))?;
        Ok(Aside { file, path: free_name(disk, path, "replaced-blocks") })
    }

    /// Names the journal, applies it, and removes it. Files of which no block was written are added
    /// to `rest`.
    fn run(
        mut self,
        rest: &mut Vec<(usize, Way)>,
        report: &mut HealReport,
        progress: &mut dyn Progress,
    ) -> Result<(), Fault> {
        let disk = self.set.world.disk;
        let failed: Vec<usize> = (self.planned.iter())
            .filter(|(_, planned)| {
                planned.aside.as_ref().is_some_and(|aside| !is_named(disk, planned, aside))
            })
            .map(|(&entry, _)| entry)
            .collect();
        for entry in failed {
            rest.extend(self.planned.remove(&entry).map(|planned| {
                planned.aside.into_iter().for_each(|aside| drop(aside.file.discard()));
                (entry, planned.way)
            }));
        }
        let (path, planned, rights) = (self.set.names.repair(), self.planned, self.rights);
        if let Err(error) = self.journal.commit(exact_now()) {
            // Without its name the journal has no effect; with it, the next command applies it.
            if disk.meta(&path).is_ok() {
                return Err(error);
            }
            rest.extend(planned.into_iter().map(|(entry, planned)| (entry, planned.way)));
            return Ok(());
        }
        let mut dress = |file: &dyn DiskFile, entry: usize| match planned.get(&entry) {
            Some(planned) => dress(file, planned, rights, &mut report.not_kept),
            None => Ok(()),
        };
        let allowed = |entry: usize, meta: &Meta| {
            let there = planned.get(&entry).map(|planned| planned.there);
            there.is_some_and(|there| (there.id, there.ctime) == (meta.id, meta.ctime))
        };
        let done = apply(self.set, &path, &allowed, &mut dress, progress)?;
        remove(disk, &path)?;
        for (entry, planned) in planned {
            match done.get(&entry) {
                Some(Ok(())) => {
                    report.blocks_repaired += planned.blocks;
                    report.files_healed.push(shown_path(&planned.path));
                    let aside = planned.aside.map(|aside| shown_path(&aside.path));
                    report.kept_blocks.extend(aside);
                }
                Some(Err(error)) if matches!(error.kind, FaultKind::Changed) => {
                    let path = shown_path(&planned.path);
                    report.not_healed.push(NotDone { path, reason: error.to_string() });
                }
                Some(Err(_)) | None => rest.push((entry, planned.way)),
            }
        }
        Ok(())
    }
}

/// Makes the file of replaced blocks durable under its name; false on failure.
fn is_named(disk: &dyn Disk, planned: &Planned, aside: &Aside) -> bool {
    let Planned { there, .. } = planned;
    let mode = match aside.file.set_owner(there.owner, there.group) {
        Ok(()) => Rights::BUT_PROGRAMS.of_mode(there.mode),
        Err(_) => 0o600,
    };
    let done = (aside.file.set_meta(mode, there.mtime))
        .and_then(|()| aside.file.sync())
        .and_then(|()| aside.file.give_free_name(&aside.path))
        .and_then(|()| disk.sync_dir(&parent(&aside.path)));
    done.is_ok()
}

/// Restores mode and mtime of a file after the writes, by which the system removes setuid bits and
/// capabilities.
fn dress(
    file: &dyn DiskFile,
    planned: &Planned,
    rights: Rights,
    not_kept: &mut Vec<NotDone>,
) -> io::Result<()> {
    let Planned { there, attributes, path, .. } = planned;
    let kept = if rights.are_asked_for() { Rights::ALL } else { Rights::BUT_PROGRAMS };
    let mode = kept.of_mode(there.mode);
    file.set_meta(mode, there.mtime)?;
    let mut tell = |reason: &str| {
        not_kept.push(NotDone { path: shown_path(path), reason: reason.into() });
    };
    if mode != there.mode {
        tell("its setuid and setgid bits were not kept; --modes keeps them, chmod sets them again");
    }
    if let Some((name, value)) = attributes.iter().find(|(name, _)| name == CAPABILITIES) {
        let is_there = || file.attributes().is_ok_and(|now| now.iter().any(|(now, _)| now == name));
        let is_given = rights.are_asked_for() && file.set_attribute(name, Some(value)).is_ok();
        if !is_given && !is_there() {
            tell("its capabilities were not kept; --modes keeps them, setcap sets them again");
        }
    }
    Ok(())
}

/// A file that is being written to.
struct Written {
    entry: usize,
    path: PathBuf,
    file: Box<dyn DiskFile>,
    fault: Option<Fault>,
}

/// Restores the mode and mtime of a file, given its entry.
type Dress<'a> = dyn FnMut(&dyn DiskFile, usize) -> io::Result<()> + 'a;

/// The outcome of each file.
type Done = BTreeMap<usize, Result<(), Fault>>;

/// Writes the blocks of a journal to the files that are `allowed`, and makes each file durable
/// after `dress` has restored its mode and mtime.
fn apply(
    set: &Set<'_>,
    path: &std::path::Path,
    allowed: &dyn Fn(usize, &Meta) -> bool,
    dress: &mut Dress<'_>,
    progress: &dyn Progress,
) -> Result<Done, Fault> {
    let disk = set.world.disk;
    let mut stream = Stream::open(disk, path, progress)?;
    stream.header()?;
    let (mut done, mut open) = (Done::new(), Vec::<Written>::new());
    let mut systems: BTreeMap<u64, Option<Box<dyn DiskSystem>>> = BTreeMap::new();
    // A hard link of a file that was written here was changed by this repair only.
    let mut written_here = BTreeSet::new();
    while let Some(block) = next(set, &mut stream)? {
        if open.last().is_none_or(|written| written.entry != block.entry) {
            if open.len() >= FILES_MOST {
                settle(std::mem::take(&mut open), dress, &systems, &mut done);
            }
            let original = set.original_path(block.entry);
            let may_be = |meta: &Meta| written_here.contains(&meta.id) || allowed(block.entry, meta);
            match opened(disk, &original, may_be) {
                Ok((file, meta)) => {
                    written_here.insert(meta.id);
                    systems
                        .entry(meta.id.device)
                        .or_insert_with(|| disk.open_system(&parent(&original)).ok());
                    open.push(Written { entry: block.entry, path: original, file, fault: None });
                }
                Err(error) => {
                    done.entry(block.entry).or_insert(Err(error));
                    continue;
                }
            }
        }
        if let Some(written) = open.last_mut().filter(|written| written.fault.is_none()) {
            written.fault = write(written, &block).err();
        }
    }
    settle(open, dress, &systems, &mut done);
    Ok(done)
}

fn opened(
    disk: &dyn Disk,
    path: &std::path::Path,
    allowed: impl Fn(&Meta) -> bool,
) -> Result<(Box<dyn DiskFile>, Meta), Fault> {
    let file = disk.open_write(path).map_err(|e| Fault::io("opening", path, e))?;
    let meta = file.meta().map_err(|e| Fault::io("reading", path, e))?;
    match meta.kind == MetaKind::File && allowed(&meta) {
        true => Ok((file, meta)),
        false => Err(Fault::changed(path)),
    }
}

/// Writes a block, unless another program has written to it.
fn write(written: &Written, block: &Block) -> Result<(), Fault> {
    let mut now = vec![0; block.new.len()];
    let is_read = written.file.read_at(&mut now, block.offset).is_ok_and(|have| have == now.len());
    if is_read && now == block.new {
        return Ok(());
    }
    let is_mix = |old: &Vec<u8>| {
        let mut bytes = now.iter().zip(old).zip(&block.new);
        bytes.all(|((now, old), new)| now == old || now == new)
    };
    if is_read && !block.old.as_ref().is_some_and(is_mix) {
        return Err(Fault::changed(&written.path));
    }
    let done = written.file.write_at(&block.new, block.offset);
    done.map_err(|e| Fault::io("writing", &written.path, e))
}

/// Restores the times of files and makes the files durable.
fn settle(
    open: Vec<Written>,
    dress: &mut Dress<'_>,
    systems: &BTreeMap<u64, Option<Box<dyn DiskSystem>>>,
    done: &mut Done,
) {
    let error = |written: &Written, e| Fault::io("syncing", &written.path, e);
    let mut dressed: Vec<Result<(), Fault>> =
        open.iter().map(|w| dress(&*w.file, w.entry).map_err(|e| error(w, e))).collect();
    let together: Option<Vec<_>> = systems.values().map(Option::as_ref).collect();
    match together.filter(|_| open.len() > FEW) {
        Some(systems) => {
            let fault = systems.into_iter().find_map(|system| system.sync().err());
            if let Some(fault) = fault {
                let of = |written| Err(error(written, io::Error::from(fault.kind())));
                dressed = open.iter().map(of).collect();
            }
        }
        None => {
            for (written, dressed) in open.iter().zip(&mut dressed) {
                if let Err(e) = written.file.sync() {
                    *dressed = Err(error(written, e));
                }
            }
        }
    }
    for (written, dressed) in open.into_iter().zip(dressed) {
        done.insert(written.entry, written.fault.map_or(dressed, Err));
    }
}

fn remove(disk: &dyn Disk, path: &std::path::Path) -> Result<(), Fault> {
    disk.remove(path).map_err(|e| Fault::io("removing", path, e))?;
    let dir = parent(path);
    disk.sync_dir(&dir).map_err(|e| Fault::io("syncing", &dir, e))
}

/// Finishes a repair that was cut off, if the places of the originals are known.
///
/// A file that then has its sealed content gets its sealed time. Any other was changed in the
/// meantime, and counts as changed.
pub(crate) fn finish(set: &mut Set<'_>, progress: &mut dyn Progress) -> Result<(), Fault> {
    let Some(path) = set.repair.as_ref().map(|repair| repair.path.clone()) else { return Ok(()) };
    if !set.places.are_known() {
        return Ok(());
    }
    set.open_sources_to_write();
    let size = |entry: usize| match set.manifest.entries[entry].kind {
        EntryKind::File { size, .. } => Some(size),
        _ => None,
    };
    let allowed = |entry: usize, meta: &Meta| Some(meta.size) == size(entry);
    let done = apply(set, &path, &allowed, &mut |_, _| Ok(()), progress)?;
    let entries: Vec<usize> =
        done.into_iter().filter_map(|(entry, done)| done.is_ok().then_some(entry)).collect();
    set.repair = Some(UnderRepair { path: path.clone(), entries: entries.iter().copied().collect() });
    set.look_at_originals();
    let damage = find_damage(set, Scope::Entries(&entries), progress)?;
    for entry in entries {
        if damage.files.get(&entry).is_none_or(|(lost, _)| *lost == 0) && damage.doubt(set, entry).is_none() {
            let path = set.original_path(entry);
            let time: Timestamp = set.manifest.entries[entry].mtime;
            let given = set.world.disk.open_write(&path).and_then(|file| {
                file.set_meta(file.meta()?.mode, time)?;
                file.sync()
            });
            given.map_err(|e| Fault::io("setting the time of", &path, e))?;
        }
    }
    remove(set.world.disk, &path)?;
    set.repair = None;
    set.look_at_originals();
    Ok(())
}
