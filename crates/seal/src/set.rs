//! Finding and opening a set: its shards, their states, and the manifest that they agree on.

pub(crate) mod bound;
pub(crate) mod bounds;
pub(crate) mod copies;
mod exchanged;
mod found;
pub(crate) mod grid;
mod hard_links;
mod journals;
pub(crate) mod names;
mod places;
pub(crate) mod renamed;
pub(crate) mod select;
pub(crate) mod settle;
pub(crate) mod shard;
pub(crate) mod share;
mod states;
pub(crate) mod survival;
pub(crate) mod times;
pub(crate) mod tree;
pub(crate) mod unhealed;
pub(crate) mod verify;
pub(crate) mod window;

use crate::apply::lock::Lock;
use crate::apply::repair::UnderRepair;
use crate::disk::{Access, Disk, EPOCH, Meta, MetaKind, exact_now, resolve, spelt_one_way, why_unmounted};
use crate::fault::sentences::{counted, words};
use crate::options::{Progress, SetPaths};
use crate::pin::Pin;
use crate::report::{
    FileStatus, ListedPath, Listing, NewerState, SetInfo, ShardReport, ShardStatus, Superfluous, Survival,
    Unfinished,
};
use crate::set::bounds::{Bounds, Codes};
use crate::set::grid::{Geometry, Grid};
use crate::set::names::{Names, column_of, parent, path_of, shown};
use crate::set::select::Select;
use crate::set::shard::{Candidate, Shard, Unusable, is_for_now, need};
use crate::set::survival::{Damaged, Lying, survival};
use crate::set::times::{is_later, is_rot_or_change, is_same_time};
use crate::set::tree::{Moves, Way};
use crate::set::verify::Damage;
use crate::{Fault, FaultKind, World};
pub(crate) use found::manifests_in;
use found::{choose, directories, find, home, open_root};
use journals::finish_journals;
use pantile::{CellSet, Code, Codec};
use pantile_format::{
    BODY_OFFSET, CodeRecord, Crc64, EntryKind, FormatError, Manifest, Mode, Part, ShardHeader, Timestamp,
};
use places::Found;
pub(crate) use places::{Places, disk_name};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

/// An original file, with the result of its comparison with the sealed state.
#[derive(Clone, Debug)]
pub(crate) struct Original {
    pub(crate) path: PathBuf,
    pub(crate) status: FileStatus,
}

pub(crate) struct Set<'w> {
    pub(crate) world: World<'w>,
    pub(crate) manifest: Manifest,
    pub(crate) geometry: Geometry,
    pub(crate) grid: Grid,
    /// By column; `None` if the shard is lost, or not stored in this mode.
    pub(crate) shards: Vec<Option<Shard>>,
    /// Path and status by column, for the shards that are stored in this mode.
    pub(crate) status: BTreeMap<usize, (PathBuf, ShardStatus)>,
    /// Further files that hold a shard of the set.
    pub(crate) superfluous: Vec<Superfluous>,
    /// Columns of shards that are one generation behind, in which the change to this generation was
    /// prepared.
    pub(crate) waiting: Vec<usize>,
    /// By entry; filled when originals are examined.
    pub(crate) originals: Vec<Option<Original>>,
    /// Time of the last seal, from the shards of this state; `None` without any.
    ///
    /// A later change of a file of any kind can mean other content, whatever its mtime is. So can a
    /// change of a directory above the file.
    ///
    /// The time is taken before the first write. A copied shard can look younger than it is, never
    /// older. A time in the future comes from a wrong clock, and a shard longer than its length
    /// from a cut-off change: in both cases any file may have changed since.
    pub(crate) sealed_at: Option<Timestamp>,
    /// Present places of the sources.
    pub(crate) sources: Vec<PathBuf>,
    /// The named directories of shards.
    pub(crate) dirs: Vec<PathBuf>,
    /// True if checksums judge blocks.
    pub(crate) judge: bool,
    /// A pin that the manifest and the blocks must match too.
    pub(crate) pin: Option<Pin>,
    /// Without checksums: true if columns located without certainty count as lost.
    pub(crate) guess: bool,
    pub(crate) names: Names,
    /// Bounds for reading the set.
    bounds: Bounds,
    /// Bytes read from shards.
    pub(crate) shard_bytes_read: AtomicU64,
    /// Bytes read from originals as data beside parity.
    pub(crate) source_bytes_read: AtomicU64,
    /// The origin of the places of the sources.
    pub(crate) places: Places,
    /// By source: true if the caller named its place.
    named: Vec<bool>,
    /// By hard link, the entry of the file with its content.
    pub(crate) files: HashMap<usize, usize>,
    /// By file whose own name is lost, a hard link through which it is read.
    pub(crate) read_by: HashMap<usize, usize>,
    /// Journals of decided, unfinished changes that this command only reports.
    pending: Vec<PathBuf>,
    /// A repair of originals that was cut off.
    pub(crate) repair: Option<UnderRepair>,
    /// The lock until the set is closed; an empty lock if the caller holds it, or if the set is
    /// only read.
    lock: Lock,
    /// By column: the metadata of each shard when it was opened.
    opened: Vec<Option<Meta>>,
    /// Files of the set that cannot be opened now, with the errors.
    closed: Vec<(PathBuf, String)>,
}

/// Treatment of a decided, unfinished change.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pending {
    /// The change is finished first.
    Done,
    /// The change is reported; nothing is written.
    Told,
    /// The command is refused, since the set is a mixture of two states; nothing is written.
    Refused,
}

/// Options of opening a set.
pub(crate) struct Opening<'a> {
    pub(crate) paths: &'a SetPaths,
    /// True to lock out other commands that write.
    pub(crate) alone: bool,
    /// True to ignore checksums.
    pub(crate) ignore_checksums: bool,
    /// True if the caller holds the lock already.
    pub(crate) locked: bool,
    pub(crate) pending: Pending,
}

impl<'a> Opening<'a> {
    /// Returns the options for a command that changes the set.
    pub(crate) fn to_write(paths: &'a SetPaths) -> Opening<'a> {
        Opening { paths, alone: true, ignore_checksums: false, locked: false, pending: Pending::Done }
    }

    /// Returns the options for a command that only reads.
    pub(crate) fn to_read(paths: &'a SetPaths, pending: Pending) -> Opening<'a> {
        Opening { paths, alone: false, ignore_checksums: false, locked: false, pending }
    }
}

/// Refuses files that exist and cannot be opened now, each with the error.
fn refuse_closed(closed: &[&(PathBuf, String)]) -> Result<(), Fault> {
    let Some((path, reason)) = closed.first() else { return Ok(()) };
    let what = format!(
        "{} of the set cannot be opened now; the first, {}: {reason}. Nothing was judged and nothing written, for they may \
         be as good as ever",
        counted(closed.len() as u64, "file", "files"),
        path.display()
    );
    Err(Fault::new(FaultKind::System, what)
        .at(path)
        .hint("make them readable; of a disk that does not answer take the link or the name away, then heal"))
}

impl<'w> Set<'w> {
    /// Finishes journals, then opens the set.
    ///
    /// Errors: no shard, several sets, no shard with a good manifest, an unknown code.
    pub(crate) fn open(
        world: World<'w>,
        opening: &Opening<'_>,
        progress: &dyn Progress,
    ) -> Result<Set<'w>, Fault> {
        let disk = world.disk;
        let paths = opening.paths;
        let access = if opening.alone { Access::Write } else { Access::Read };
        let dirs = directories(disk, &paths.paths, access)?;
        let (held, pending) = finish_journals(world, &dirs, opening, progress)?;
        let candidates = find(disk, &paths.paths)?;
        let is_refused = opening.pending == Pending::Refused || candidates.is_empty();
        if let Some(journal) = pending.first().filter(|_| is_refused) {
            return Err(Fault::pending(journal));
        }
        if candidates.is_empty() {
            return Err(Fault::no_shards(&paths.paths));
        }
        let bounds = Bounds::new(paths.effort);
        let mut codes = Codes::new(bounds);
        let pin = paths.pin.as_deref().map(|path| Pin::open(disk, path)).transpose()?;
        let manifest = choose(disk, &candidates, (paths, pin.as_ref()), &mut codes)?;
        let codec = Codec::new(&codes.make(&manifest.code)?);
        let cells = codec.code().cell_count();
        bounds.check_stripe(cells, manifest.block_len.bytes())?;
        Bounds::check_stripes(manifest.stripes, cells, manifest.block_len.bytes())
            .map_err(|error| Fault::format(&candidates[0].path, error))?;
        let geometry = Geometry::new(&codec, manifest.mode, manifest.block_len);
        if geometry.lanes.len() != manifest.lanes as usize {
            let rule = "must be the number of data cells of the code";
            let error = FormatError::Invalid { part: Part::Manifest, field: "lanes", rule };
            return Err(Fault::format(&candidates[0].path, error));
        }
        pin.iter().try_for_each(|pin| pin.check(&manifest, geometry.cell_count()))?;
        let home = home(&candidates, manifest.set);
        let names = Names::new(home, manifest.name.clone(), geometry.columns());
        let record =
            paths.records.as_ref().and_then(|records| crate::records::record_of(disk, records, manifest.set));
        if opening.alone
            && record.as_ref().is_some_and(|record| record.manifest != crate::pin::told(&manifest))
        {
            progress.warn("these shards are not of the state that you sealed last");
        }
        let Found { paths: sources, named, places } =
            places::find(disk, &manifest, (&paths.disks, !opening.alone), record.as_ref())?;
        let files = manifest.hard_links().filter_map(|(link, file)| Some((link, file?))).collect();
        warn_of_writers(disk, &dirs, progress);
        let mut opened = Set {
            world,
            grid: Grid::new(geometry.lanes.len(), &manifest.entries),
            shards: (0..geometry.columns()).map(|_| None).collect(),
            status: BTreeMap::new(),
            superfluous: Vec::new(),
            waiting: Vec::new(),
            sealed_at: None,
            originals: vec![None; manifest.entries.len()],
            sources,
            dirs,
            judge: manifest.checksums && !opening.ignore_checksums,
            pin,
            guess: false,
            names,
            bounds,
            geometry,
            manifest,
            shard_bytes_read: AtomicU64::new(0),
            source_bytes_read: AtomicU64::new(0),
            places,
            named,
            files,
            read_by: HashMap::new(),
            pending,
            repair: None,
            lock: held,
            opened: Vec::new(),
            closed: Vec::new(),
        };
        opened.closed = (candidates.iter())
            .filter(|c| c.path.file_name().and_then(|file| column_of(file, &opened.manifest.name)).is_some())
            .filter_map(|c| match &c.header {
                Err(Unusable::Now(reason)) => Some((c.path.clone(), reason.clone())),
                _ => None,
            })
            .collect();
        opened.assign(candidates);
        opened.opened = opened.metas();
        opened.repair = UnderRepair::found(&opened, progress)?;
        match (&opened.repair, opening.pending) {
            (Some(repair), Pending::Refused) => {
                return Err(Fault::pending(&repair.path));
            }
            (Some(repair), Pending::Told) => opened.pending.push(repair.path.clone()),
            _ => {}
        }
        if opened.manifest.mode == Mode::Beside {
            opened.look_at_originals();
        }
        Ok(opened)
    }

    /// Locks a directory against other commands until the result is dropped, so that it can be
    /// written to. Temporary files of all commands have the same names.
    pub(crate) fn lock(&self, dir: &Path) -> Result<Lock, Fault> {
        self.lock.with(self.world.disk, dir)
    }

    /// Refuses to judge or write while files of the set cannot be opened: they may be intact.
    pub(crate) fn refuse_if_closed(&mut self) -> Result<(), Fault> {
        for index in 0..self.manifest.entries.len() {
            let Some(original) = &self.originals[index] else { continue };
            let is_file = matches!(self.manifest.entries[index].kind, EntryKind::File { .. });
            if !is_file || original.status != FileStatus::Unchanged {
                continue;
            }
            if let Some(error) = self.world.disk.open(&original.path).err().filter(is_for_now) {
                self.closed.push((original.path.clone(), error.to_string()));
            }
        }
        refuse_closed(&self.closed.iter().collect::<Vec<_>>())
    }

    /// Refuses to write while shards of the set cannot be opened.
    pub(crate) fn refuse_if_shards_closed(&self) -> Result<(), Fault> {
        let is_shard =
            |path: &Path| path.file_name().is_some_and(|file| column_of(file, &self.manifest.name).is_some());
        let closed: Vec<&(PathBuf, String)> = self.closed.iter().filter(|(path, _)| is_shard(path)).collect();
        refuse_closed(&closed)
    }

    /// Returns the real directory of a column's shard, or the one where it belongs.
    pub(crate) fn dir_of(&self, column: usize) -> PathBuf {
        let path =
            self.status.get(&column).map_or_else(|| self.names.shard(column), |(path, _)| path.clone());
        parent(&resolve(self.world.disk, &path).unwrap_or(path))
    }

    /// Accepts the present directories of shards, for file systems without links.
    pub(crate) fn keep_apart(&mut self) {
        let shards = self.shards.iter().enumerate();
        let paths = shards.filter_map(|(column, shard)| Some((column, parent(&shard.as_ref()?.path))));
        self.names.elsewhere = paths.filter(|(_, dir)| self.dirs.contains(dir)).collect();
    }

    /// Returns the directories of the shards, that of the set first.
    pub(crate) fn shard_dirs(&self) -> Vec<PathBuf> {
        let mut dirs = vec![self.names.dir.clone()];
        dirs.extend(self.status.keys().map(|&column| self.dir_of(column)));
        let mut seen = HashSet::new();
        dirs.retain(|dir| seen.insert(dir.clone()));
        dirs
    }

    fn metas(&self) -> Vec<Option<Meta>> {
        self.shards.iter().map(|shard| shard.as_ref()?.file.meta().ok()).collect()
    }

    /// Refuses all that was read if another command has changed the set meanwhile.
    pub(crate) fn refuse_if_changed(&self) -> Result<(), Fault> {
        let state = |meta: &Option<Meta>| meta.map(|meta| (meta.size, meta.mtime));
        let now = self.metas();
        match self.opened.iter().map(state).eq(now.iter().map(state)) {
            true => Ok(()),
            false => Err(Fault::busy(&self.names.dir)),
        }
    }

    /// Refuses to restore from original files that no user has named: otherwise the maker of the
    /// set could learn their content from the result.
    pub(crate) fn refuse_unnamed_sources(&self) -> Result<(), Fault> {
        let is_file = |index: usize| matches!(self.manifest.entries[index].kind, EntryKind::File { .. });
        let is_there =
            |original: &Option<Original>| original.as_ref().is_some_and(|o| o.status != FileStatus::Missing);
        let mut originals = self.originals.iter().enumerate();
        let would_read = originals.any(|(index, original)| is_file(index) && is_there(original));
        match self.manifest.mode == Mode::Full || self.places.are_known() || !would_read {
            true => Ok(()),
            false => Err(Fault::places_unknown(self.disks())),
        }
    }

    /// True if the user named this directory of shards.
    pub(crate) fn is_named(&self, dir: &Path) -> bool {
        let id = |dir: &Path| self.world.disk.meta(dir).map(|meta| meta.id).ok();
        id(dir).is_some_and(|found| self.dirs.iter().any(|named| id(named) == Some(found)))
    }

    /// Gives every column its best shard, and notes its condition.
    fn assign(&mut self, candidates: Vec<Candidate>) {
        self.sealed_at = sealed_at(&candidates, &self.manifest);
        let mut found: BTreeMap<usize, Vec<(Candidate, ShardStatus)>> = BTreeMap::new();
        for column in self.geometry.stored_columns() {
            self.status.insert(column, (self.names.shard(column), ShardStatus::Missing));
            found.insert(column, Vec::new());
        }
        for candidate in candidates {
            let column = match &candidate.header {
                Ok((header, _)) if header.set == self.manifest.set => Some(header.column.0 as usize),
                _ => candidate.path.file_name().and_then(|file| column_of(file, &self.manifest.name)),
            };
            let Some((column, found)) = column.and_then(|c| Some((c, found.get_mut(&c)?))) else { continue };
            let status = self.judge_shard(&candidate, column);
            found.push((candidate, status));
        }
        found.into_iter().for_each(|(column, found)| self.assign_column(column, found));
    }

    /// The status of a column is that of the file with its own name, not that of a copy. If that
    /// file is unusable, a copy is read instead; copies that are not needed are superfluous.
    fn assign_column(&mut self, column: usize, mut found: Vec<(Candidate, ShardStatus)>) {
        let rank = |status: &ShardStatus| match status {
            ShardStatus::Good => 0,
            ShardStatus::HeaderCopyDamaged => 1,
            ShardStatus::MetaDamaged => 2,
            ShardStatus::Truncated { .. } => 3,
            ShardStatus::Newer { .. } | ShardStatus::Stale { .. } => 4,
            ShardStatus::Unreadable { .. } => 5,
            ShardStatus::OtherSet { .. } => 6,
            ShardStatus::Missing => 7,
        };
        let own = self.names.shard(column);
        let bears_own = |candidate: &Candidate| candidate.path.file_name() == own.file_name();
        found.sort_by_key(|(candidate, status)| (rank(status), !bears_own(candidate), candidate.path != own));
        let Some(first) = found.first() else { return };
        let before = self.manifest.generation.0.wrapping_sub(1);
        let waits = |(candidate, status): &(Candidate, ShardStatus)| {
            *status == ShardStatus::Stale { generation: before } && candidate.holds_next()
        };
        if found.iter().any(waits) {
            self.waiting.push(column);
        }
        let (told, status) = found.iter().find(|(candidate, _)| bears_own(candidate)).unwrap_or(first);
        let (told, mut status) = (told.path.clone(), status.clone());
        let used = match status.is_usable() {
            true => Some(told.clone()),
            false => found.iter().find(|(_, s)| s.is_usable()).map(|(candidate, _)| candidate.path.clone()),
        };
        let elsewhere = used.as_ref().filter(|used| **used != told && self.misnamed(column, used).is_some());
        if let (ShardStatus::Unreadable { reason }, Some(used)) = (&mut status, elsewhere) {
            // Without a header only the name shows the column, and the names were exchanged.
            let of = used.display();
            reason.push_str(&format!(
                "; that of this column is {of}, and this may be the one of another column"
            ));
        }
        // One file can have several paths, such as a link to it.
        let counted: Vec<PathBuf> =
            [Some(&told), used.as_ref()].into_iter().flatten().map(|p| spelt_one_way(p)).collect();
        for (candidate, status) in found {
            if Some(&candidate.path) == used.as_ref() {
                let (checks, checks_whole) = candidate.checks().unzip();
                let checks_whole = checks_whole.unwrap_or(false);
                let Candidate { path, header: Ok((header, _)), file: Some(file), .. } = candidate else {
                    continue;
                };
                self.shards[column] = Some(Shard { path, file, header, checks, checks_whole });
            } else if candidate.set() == Some(self.manifest.set)
                && !counted.contains(&spelt_one_way(&candidate.path))
            {
                let path = crate::set::names::shown_path(&candidate.path);
                self.superfluous.push(Superfluous { path, column: column as u64, status });
            }
        }
        self.status.insert(column, (told, status));
    }

    /// Returns the traces of a cut-off change whose journal was not found.
    pub(crate) fn unfinished(&self) -> Option<Unfinished> {
        let wide =
            |columns: Vec<usize>| columns.into_iter().map(|column| column as u64).collect::<Vec<u64>>();
        let here =
            self.shards.iter().enumerate().filter_map(|(column, shard)| Some((column, shard.as_ref()?)));
        let (now, next) = (self.manifest.generation.0, self.manifest.generation.0.checked_add(1)?);
        let (newer, usable) = (wide(self.newer()), wide(here.clone().map(|(column, _)| column).collect()));
        let (generation, have, lack) = match (newer.is_empty(), self.waiting.is_empty()) {
            (false, _) => (next, newer, usable),
            (true, false) => (now, usable, wide(self.waiting.clone())),
            (true, true) => {
                let lack: Vec<usize> =
                    here.filter(|(_, shard)| shard.holds_next()).map(|(column, _)| column).collect();
                (next, Vec::new(), wide(lack))
            }
        };
        let journal = self.names.journal().file_name()?.to_string_lossy().into_owned();
        (!lack.is_empty()).then_some(Unfinished { journal, generation, have, lack })
    }

    /// Returns the columns of shards that have the next generation.
    pub(crate) fn newer(&self) -> Vec<usize> {
        let next = self.manifest.generation.0.checked_add(1);
        let is_newer = |status: &ShardStatus| matches!(status, ShardStatus::Newer { generation } if Some(*generation) == next);
        self.status.iter().filter(|(_, (_, status))| is_newer(status)).map(|(&column, _)| column).collect()
    }

    /// Returns the latest state of which shards were found, if these shards do not suffice for it.
    pub(crate) fn newer_state(&self) -> Option<NewerState> {
        let generation = |status: &ShardStatus| match status {
            ShardStatus::Newer { generation } => Some(*generation),
            _ => None,
        };
        let latest = self.status.values().filter_map(|(_, status)| generation(status)).max()?;
        let (have, lack): (Vec<usize>, Vec<usize>) =
            self.status.keys().partition(|column| generation(&self.status[column].1) == Some(latest));
        let wide = |columns: Vec<usize>| columns.into_iter().map(|column| column as u64).collect();
        Some(NewerState { generation: latest, have: wide(have), lack: wide(lack) })
    }

    /// Returns the path that a shard should have, if it has the name of another column or another
    /// spelling of its own name.
    pub(crate) fn misnamed(&self, column: usize, path: &Path) -> Option<PathBuf> {
        let own = self.names.shard(column);
        let (file, own) = (path.file_name()?, own.file_name()?);
        (column_of(file, &self.names.name).is_some() && file != own).then(|| path.with_file_name(own))
    }

    fn judge_shard(&self, candidate: &Candidate, column: usize) -> ShardStatus {
        let (header, whole) = match &candidate.header {
            Ok(found) => found,
            Err(Unusable::Format(FormatError::Truncated { have, need, .. })) => {
                return ShardStatus::Truncated { have: *have, need: *need };
            }
            Err(Unusable::Format(error)) => return ShardStatus::Unreadable { reason: error.to_string() },
            Err(Unusable::System(reason) | Unusable::Now(reason)) => {
                return ShardStatus::Unreadable { reason: reason.clone() };
            }
        };
        if header.set != self.manifest.set {
            return ShardStatus::OtherSet { set: header.set.to_string() };
        }
        if header.generation > self.manifest.generation {
            return ShardStatus::Newer { generation: header.generation.0 };
        }
        if header.generation < self.manifest.generation {
            return ShardStatus::Stale { generation: header.generation.0 };
        }
        let rows = self.geometry.stored[column].len();
        let parity = if self.manifest.checksums { self.geometry.parity[column].len() } else { 0 };
        let fits = header.columns as usize == self.geometry.columns()
            && header.stored_rows as usize == rows
            && header.block_len == self.manifest.block_len
            && header.stripes == self.manifest.stripes
            && Some(header.checks_len) == self.manifest.stripes.checked_mul(8 * parity as u64);
        if !fits {
            return ShardStatus::Unreadable { reason: "its header contradicts the manifest".into() };
        }
        if candidate.len < need(header) {
            return ShardStatus::Truncated { have: candidate.len, need: need(header) };
        }
        match (candidate.manifest(self.bounds), candidate.checks()) {
            (Ok(manifest), Some((_, true))) if manifest == self.manifest && candidate.has_whole_copies() => {
                match whole {
                    true => ShardStatus::Good,
                    false => ShardStatus::HeaderCopyDamaged,
                }
            }
            _ => ShardStatus::MetaDamaged,
        }
    }

    /// Takes the originals of a new state that has only these entries of the one before.
    pub(crate) fn keep_entries(&mut self, kept: &[usize]) {
        self.originals = kept.iter().map(|&index| self.originals[index].take()).collect();
        self.files = self.manifest.hard_links().filter_map(|(link, file)| Some((link, file?))).collect();
        self.read_by.clear();
    }

    /// Takes the originals of a new state.
    pub(crate) fn look_again(&mut self) {
        self.keep_entries(&[]);
        self.originals = vec![None; self.manifest.entries.len()];
        if self.manifest.mode == Mode::Beside {
            self.look_at_originals();
        }
    }

    /// Compares every original with its sealed state, by size and time of modification.
    pub(crate) fn look_at_originals(&mut self) {
        for index in 0..self.manifest.entries.len() {
            let path = self.original_path(index);
            let entry = &self.manifest.entries[index];
            let meta = match self.world.disk.meta(&path) {
                Err(error) if is_for_now(&error) => {
                    if self.manifest.mode == Mode::Beside {
                        self.closed.push((path, error.to_string()));
                    }
                    self.originals[index] = None;
                    continue;
                }
                found => found.ok(),
            };
            let status = match (&entry.kind, meta) {
                (_, None) => FileStatus::Missing,
                (EntryKind::File { size, .. }, Some(meta)) => same(
                    meta.kind == MetaKind::File
                        && meta.size == *size
                        && (is_same_time(entry.mtime, meta.mtime) || self.is_under_repair(index)),
                ),
                (EntryKind::Dir, Some(meta)) => same(meta.kind == MetaKind::Dir),
                (EntryKind::Symlink { target }, Some(Meta { kind: MetaKind::Symlink, .. })) => {
                    same(self.world.disk.read_link(&path).is_ok_and(|to| to == path_of(target)))
                }
                (EntryKind::Symlink { .. }, Some(_)) => FileStatus::Changed,
                (EntryKind::HardLink { .. }, Some(meta)) => same(meta.kind == MetaKind::File),
            };
            self.originals[index] = Some(Original { path, status });
        }
        self.look_at_hard_links();
    }

    /// True if an original has the mtime of a cut-off repair, which is no evidence of a change.
    fn is_under_repair(&self, entry: usize) -> bool {
        self.repair.as_ref().is_some_and(|repair| repair.entries.contains(&entry))
    }

    /// True if an original without a later mtime may be either rotten or changed: it has the sealed
    /// size, and few of its blocks differ. A file that changed while it was sealed counts as
    /// changed.
    pub(crate) fn is_rot_or_change(&self, entry: usize, different: u64) -> bool {
        let sealed = &self.manifest.entries[entry];
        let EntryKind::File { size, .. } = sealed.kind else { return false };
        let there =
            self.originals[entry].as_ref().and_then(|original| self.world.disk.meta(&original.path).ok());
        let is_alike = |meta: Meta| {
            meta.kind == MetaKind::File && meta.size == size && !is_later(sealed.mtime, meta.mtime)
        };
        self.judge
            && !sealed.fields.is_unsettled()
            && there.is_some_and(is_alike)
            && is_rot_or_change(different, self.manifest.block_len.blocks(size))
    }

    /// Returns each entry with the directories on its path, from its source down. The directory of
    /// the shards is excluded, since sealing itself writes to it.
    ///
    /// Cost: each directory is examined once, with those above it.
    pub(crate) fn ways(&self, entries: impl Iterator<Item = usize>) -> Vec<(usize, Way)> {
        let own = spelt_one_way(&self.names.dir);
        let mut known: HashMap<PathBuf, Way> = HashMap::new();
        let mut way_to = |index: usize| {
            let entry = &self.manifest.entries[index];
            let source = &self.sources[entry.source as usize];
            let dir = parent(&self.original_path(index));
            *known.entry(dir).or_insert_with_key(|dir| self.way(source, dir, &own))
        };
        entries.map(|entry| (entry, way_to(entry))).collect()
    }

    fn way(&self, source: &Path, dir: &Path, own: &Path) -> Way {
        let mut dirs: Vec<(PathBuf, Meta)> = Vec::new();
        // A root within the source is already open, but may have been renamed before that.
        let mut next = Some(dir);
        while let Some(dir) = next.filter(|dir| dir.starts_with(source)) {
            let Ok(way) = self.world.disk.way(dir) else { return Way::Unknown };
            let root = dir.ancestors().nth(way.len() - 1);
            dirs.extend(dir.ancestors().map(Path::to_path_buf).zip(way.into_iter().rev()));
            next = root.and_then(Path::parent);
        }
        let within = dirs.iter().rev().filter(|(path, _)| path != own);
        let moves = within.fold(Moves::default(), |moves, (_, meta)| moves.through(meta));
        // If there are no directories, the source is a file.
        match dirs.is_empty() && self.world.disk.meta(dir).is_err() {
            true => Way::Unknown,
            false => Way::To { moved_at: moves.moved_at },
        }
    }

    /// Returns a command on the set, as a user types it.
    pub(crate) fn command(&self, word: &str) -> String {
        let dir = &self.names.dir;
        let mut command = format!("pantile {word} {}", words([dir]));
        if found::manifests_in(self.world.disk, dir).len() > 1 {
            command += &format!(" --name {}", words([&PathBuf::from(shown(&self.manifest.name))]));
        }
        command
    }

    /// True if a single block can be judged, by its checksum or a pin.
    pub(crate) fn knows_blocks(&self) -> bool {
        self.judge || self.pin.is_some()
    }

    /// Path of an entry's original.
    pub(crate) fn original_path(&self, entry: usize) -> PathBuf {
        let entry = &self.manifest.entries[entry];
        let source = &self.sources[entry.source as usize];
        if entry.path.is_empty() { source.clone() } else { source.join(path_of(&entry.path)) }
    }

    /// Path of a restored entry, below the target.
    pub(crate) fn restored_path(&self, entry: usize) -> Vec<u8> {
        restored_path(&self.manifest, entry)
    }

    /// Returns the owner and group for new shards and journals that root writes: the common owner
    /// of all present shards, and the group of the first one.
    pub(crate) fn owner_of_all(&self) -> Option<(u32, u32)> {
        let mut metas = self.shards.iter().flatten().map(|shard| shard.file.meta());
        let first = metas.next()?.ok()?;
        let is_of_one = metas.all(|meta| meta.is_ok_and(|meta| meta.owner == first.owner));
        (rustix::process::geteuid().is_root() && is_of_one).then_some((first.owner, first.group))
    }

    /// Returns the cells of lost columns.
    pub(crate) fn lost_cells(&self) -> CellSet {
        let mut lost = self.geometry.no_cells();
        for (column, cells) in self.geometry.stored.iter().enumerate() {
            if self.shards[column].is_none() {
                cells.iter().for_each(|&cell| lost.insert(cell));
            }
        }
        lost
    }

    pub(crate) fn shard_reports(&self) -> Vec<ShardReport> {
        let report = |(&column, (path, status)): (&usize, &(PathBuf, ShardStatus))| ShardReport {
            column: column as u64,
            path: crate::set::names::shown_path(&path),
            status: status.clone(),
            wrong_blocks: 0,
            first_wrong: None,
            misnamed: (self.misnamed(column, path).filter(|_| status.is_usable()))
                .map(|own| crate::set::names::shown_path(&own)),
        };
        self.status.iter().map(report).collect()
    }

    /// Returns the tolerance of disk failures, by the present places of shards and sources. The
    /// damage is that of a scan, or else what the sizes and times of files show.
    pub(crate) fn survival(&self, damage: Option<&Damage>) -> Survival {
        let gone = self.gone();
        let is_there = |index: &usize| !gone[*index] && self.world.disk.meta(&self.sources[*index]).is_ok();
        let source = |index| Some(index).filter(is_there).map(|index| self.sources[index].as_path());
        let shard = |column: usize| (column, self.shards[column].as_ref().map(|shard| shard.path.clone()));
        let lying = Lying {
            sources: (0..self.sources.len()).map(source).collect(),
            shards: self.geometry.stored_columns().map(shard).collect(),
            damage: Damaged::of(self, damage),
        };
        survival(self.world.disk, &self.geometry, &self.manifest, &lying)
    }

    /// Returns by source true if nothing is left of it: it is emptied, and nothing else is in its
    /// folder but what a new disk has.
    pub(crate) fn gone(&self) -> Vec<bool> {
        let is_bare = |path: &PathBuf| {
            let names = self.world.disk.list(path).unwrap_or_default();
            names.iter().all(|name| name.as_os_str() == "lost+found")
        };
        let sources = self.emptied().into_iter().zip(&self.sources);
        sources.map(|(is_emptied, path)| is_emptied && is_bare(path)).collect()
    }

    /// Returns by source true if the source has sealed files and none of them is in it.
    pub(crate) fn emptied(&self) -> Vec<bool> {
        let mut files = vec![(0, 0); self.sources.len()];
        for (entry, original) in self.manifest.entries.iter().zip(&self.originals) {
            if let (EntryKind::File { .. }, Some(original)) = (&entry.kind, original) {
                let (sealed, there) = &mut files[entry.source as usize];
                let is_in_it = || original.path.starts_with(&self.sources[entry.source as usize]);
                *sealed += 1;
                *there += usize::from(match original.status {
                    FileStatus::Missing => false,
                    FileStatus::Renamed => is_in_it(),
                    _ => true,
                });
            }
        }
        files.into_iter().map(|(sealed, there)| sealed > 0 && there == 0).collect()
    }

    /// Returns the reason to believe that the disk of a path is not mounted: `/etc/fstab` names its
    /// mount point, or a disk of the set is below the mount point of the path.
    pub(crate) fn unmounted(&self, path: &Path) -> Option<String> {
        let is_known = why_unmounted(self.world.disk, path);
        if is_known.is_some() {
            return is_known;
        }
        let at = self.world.disk.mount_point(path);
        let disks = self.sources.iter().cloned().chain(self.shard_dirs());
        let mut mounted = disks.map(|disk| self.world.disk.mount_point(&disk));
        let like = mounted.find(|mounted| *mounted != at && mounted.starts_with(&at))?;
        Some(format!("no disk is mounted there, as at {}", like.display()))
    }

    /// Returns the folder of a lost shard whose disk is most likely not mounted, and the reason to
    /// believe that. A folder with a shard of the set is never returned.
    pub(crate) fn unmounted_folder(&self, column: usize) -> Option<(PathBuf, String)> {
        let dir = self.dir_of(column);
        let disk = self.world.disk;
        let is_empty =
            self.shards[column].is_none() && crate::spread::named_so(disk, &dir, &self.names.name).is_empty();
        let reason = is_empty.then(|| self.unmounted(&dir)).flatten()?;
        Some((dir, reason))
    }

    /// Lists the sealed paths.
    pub(crate) fn list(&self, select: &Select) -> Result<Listing, Fault> {
        let all = (0..self.manifest.entries.len()).collect();
        let chosen = self.chosen(select)?.unwrap_or(all);
        let listed = |index: usize| {
            let entry = &self.manifest.entries[index];
            let (kind, bytes, target) = match &entry.kind {
                EntryKind::File { size, .. } => ("file", *size, None),
                EntryKind::Dir => ("dir", 0, None),
                EntryKind::Symlink { target } => ("link", 0, Some(shown(target))),
                EntryKind::HardLink { .. } => {
                    let file = self.content_of(index);
                    let size = crate::update::size_of(&self.manifest.entries[file]);
                    ("hard-link", size, Some(shown(&self.restored_path(file))))
                }
            };
            ListedPath {
                path: shown(&self.restored_path(index)),
                kind: kind.into(),
                bytes,
                mode: entry.mode,
                mtime_s: entry.mtime.seconds,
                mtime_ns: entry.mtime.nanos,
                target,
            }
        };
        Ok(Listing {
            set: self.manifest.set.to_string(),
            name: shown(&self.manifest.name),
            generation: self.manifest.generation.0,
            paths: chosen.into_iter().map(listed).collect(),
        })
    }

    pub(crate) fn info(&self) -> SetInfo {
        let count = |want: fn(&EntryKind) -> bool| {
            self.manifest.entries.iter().filter(|entry| want(&entry.kind)).count() as u64
        };
        let (exposed, exposed_count) = match self.manifest.mode {
            Mode::Beside => crate::first::names_exposed(&self.geometry, &self.manifest),
            Mode::Full => Default::default(),
        };
        let left_out = self.manifest.left_out();
        SetInfo {
            exposed,
            exposed_count,
            survival: self.survival(None),
            set: self.manifest.set.to_string(),
            name: shown(&self.manifest.name),
            generation: self.manifest.generation.0,
            code: self.manifest.code.spec.clone(),
            mode: mode_name(self.manifest.mode).into(),
            checksums: self.manifest.checksums,
            block_len: self.manifest.block_len.bytes(),
            stripes: self.manifest.stripes,
            lanes: self.manifest.lanes.into(),
            sources: self.manifest.sources.iter().map(|source| shown(&source.path)).collect(),
            disk_names: self.disk_names(),
            sources_known: self.places.are_known(),
            files: count(|kind| matches!(kind, EntryKind::File { .. })),
            dirs: count(|kind| matches!(kind, EntryKind::Dir)),
            links: count(|kind| matches!(kind, EntryKind::Symlink { .. })),
            hard_links: count(|kind| matches!(kind, EntryKind::HardLink { .. })),
            file_bytes: file_bytes(&self.manifest),
            shards: self.shard_reports(),
            pending: self.pending.iter().map(|journal| journal.display().to_string()).collect(),
            left_out: left_out.patterns,
            one_file_system: left_out.other_systems,
        }
    }
}

/// Path of a restored entry of a manifest, below the target.
pub(crate) fn restored_path(manifest: &Manifest, entry: usize) -> Vec<u8> {
    let entry = &manifest.entries[entry];
    let prefix = &manifest.sources[entry.source as usize].prefix;
    let parts: Vec<&[u8]> = [prefix.as_slice(), &entry.path].into_iter().filter(|p| !p.is_empty()).collect();
    parts.join(&b'/')
}

/// See [`Set::sealed_at`].
fn sealed_at(candidates: &[Candidate], manifest: &Manifest) -> Option<Timestamp> {
    let of_state = candidates.iter().filter_map(|candidate| {
        let (header, _) = candidate.header.as_ref().ok()?;
        let is_of_it = header.set == manifest.set && header.generation == manifest.generation;
        is_of_it.then_some((candidate.mtime?, candidate.len > need(header)))
    });
    let (first, last, longer) = of_state.fold((None, None, false), |(first, last, longer), (mtime, more)| {
        let first = first.map_or(mtime, |first: Timestamp| first.min(mtime));
        (Some(first), last.max(Some(mtime)), longer || more)
    });
    let is_known = !longer && last.is_some_and(|last| last <= exact_now());
    first.map(|first| if is_known { first } else { EPOCH })
}

fn same(same: bool) -> FileStatus {
    if same { FileStatus::Unchanged } else { FileStatus::Changed }
}

pub(crate) fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Full => "full",
        Mode::Beside => "beside",
    }
}

pub(crate) fn file_bytes(manifest: &Manifest) -> u64 {
    let size = |kind: &EntryKind| if let EntryKind::File { size, .. } = kind { *size } else { 0 };
    manifest.entries.iter().map(|entry| size(&entry.kind)).sum()
}

pub(crate) fn record_of(code: &Code) -> CodeRecord {
    CodeRecord {
        spec: code.spec().into(),
        version: code.version().into(),
        fingerprint: code.fingerprint(),
        definition: code.definition().map(str::to_string),
    }
}

/// Warns once of directories of shards that other users can write to.
pub(crate) fn warn_of_writers(disk: &dyn Disk, dirs: &[PathBuf], progress: &dyn Progress) {
    let writers = dirs.iter().map(|dir| {
        disk.meta(dir).ok().and_then(|meta| pantile_paths::other_writer(meta.owner, meta.group, meta.mode))
    });
    if let Some((dir, writer)) = dirs.iter().zip(writers).find_map(|(dir, writer)| Some((dir, writer?))) {
        let dir = crate::set::names::shown_path(dir);
        progress.warn(&format!("{writer} can change the shards in {dir}; --pin detects it"));
    }
}

/// Returns the header of a shard in a state of its set, still without the places of its meta area.
pub(crate) fn header_of(manifest: &Manifest, geometry: &Geometry, column: usize) -> ShardHeader {
    ShardHeader {
        features: manifest.features,
        set: manifest.set,
        generation: manifest.generation,
        column: pantile_format::Column(column as u32),
        columns: geometry.columns() as u32,
        stored_rows: geometry.stored[column].len() as u32,
        block_len: manifest.block_len,
        stripes: manifest.stripes,
        meta_offset: BODY_OFFSET,
        manifest_len: 0,
        manifest_crc: Crc64(0),
        checks_len: 0,
        checks_crc: Crc64(0),
        pieces_len: 0,
        pieces_crc: Crc64(0),
    }
}
