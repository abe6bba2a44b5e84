//! Restores files block by block, from shards, originals or computed blocks.

use crate::apply::mark::Mark;
use crate::apply::sparse::Sparse;
use crate::attributes::{Attribute, Rights, give, give_sealed, has, of_fields};
use crate::disk::{
    Access, Disk, DiskFile, FileId, Meta, MetaKind, PRIVATE_DIR, ROOT_DIR, SETGID, is_own, within_group,
};
use crate::options::{Progress, UnsealOptions};
use crate::report::{Losses, NotDone, UnsealReport};
use crate::set::Set;
use crate::set::names::{LOCK, NO_COLUMN, parent, path_of, shown, stray, stray_of};
use crate::set::times::is_same_time;
use crate::set::verify::{Damage, Scope, find_damage};
use crate::set::window::{Window, join};
use crate::update::size_of;
use crate::{Fault, FaultKind};
use pantile::CellSet;
use pantile_format::{EntryKind, Mode};
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Result of restoring a file.
#[derive(Default)]
pub(crate) struct Restored {
    pub(crate) reconstructed: u64,
    /// Stripes with an unrecoverable block of the file, and their lost cells. The bytes of these
    /// blocks were not passed to the sink.
    pub(crate) gone: Vec<(Range<u64>, CellSet)>,
}

impl Restored {
    fn add_gone(&mut self, stripes: Range<u64>, lost: &CellSet) {
        match self.gone.last_mut() {
            Some((run, of_run)) if run.end == stripes.start && of_run == lost => run.end = stripes.end,
            _ => self.gone.push((stripes, lost.clone())),
        }
    }
}

pub(crate) fn sealed_attributes(set: &Set<'_>, index: usize) -> Vec<Attribute> {
    of_fields(&set.manifest.entries[index].fields)
}

/// Passes the recoverable content of a file on, piece by piece in order.
///
/// `damage` has the blocks known to be wrong, in a set without checksums.
pub(crate) fn restore(
    set: &Set<'_>,
    entry: usize,
    damage: Option<&Damage>,
    window: &mut Window,
    mut sink: impl FnMut(u64, &[u8]) -> Result<(), Fault>,
) -> Result<Restored, Fault> {
    let mut restored = Restored::default();
    let EntryKind::File { size, extents, .. } = &set.manifest.entries[entry].kind else {
        return Ok(restored);
    };
    let block = set.manifest.block_len.bytes();
    let lost = set.lost_cells();
    let mut offset = 0;
    for extent in extents {
        let cell = set.geometry.lanes[extent.lane.0 as usize];
        let end = extent.first.0 + extent.count;
        let mut at = extent.first.0;
        while at < end {
            window.move_to(at..end.min(at + set.geometry.window_stripes()), &lost);
            damage.iter().for_each(|damage| damage.add_to(window));
            set.obtain(window, &[cell])?;
            let gone = |i: usize| (!window.have[i].contains(cell)).then(|| window.lost[i].clone());
            for group in window.groups(gone) {
                let first = offset + group.start as u64 * block;
                if !window.have[group.start].contains(cell) {
                    let stripes = at + group.start as u64..at + group.end as u64;
                    restored.add_gone(stripes, &window.lost[group.start]);
                    continue;
                }
                let bytes = window.bytes(group);
                let within = (bytes.len() as u64).min(size.saturating_sub(first)) as usize;
                sink(first, &window.arena.get(cell.usize())[bytes][..within])?;
            }
            restored.reconstructed += window.lost.iter().filter(|lost| lost.contains(cell)).count() as u64;
            offset += window.count() as u64 * block;
            at = window.stripes.end;
        }
    }
    restored.reconstructed -=
        restored.gone.iter().map(|(stripes, _)| stripes.end - stripes.start).sum::<u64>();
    Ok(restored)
}

/// Restores the whole tree as far as possible; a lost file does not stop the others.
///
/// Without checksums the equations are checked first: errors that they locate with certainty are
/// repaired on the way. A file with an error that they cannot locate is not restored.
///
/// Errors: `NotRestored` if any path is missing in the end, with the worst reason.
pub(crate) fn unseal(
    set: &Set<'_>,
    options: &UnsealOptions,
    progress: &mut dyn Progress,
) -> Result<UnsealReport, Fault> {
    let target = &options.target;
    let chosen = set.chosen_with_dirs(&options.select)?;
    let all = || (0..set.manifest.entries.len()).collect();
    let entries: Vec<usize> = chosen.clone().unwrap_or_else(all);
    // Existing paths are examined before any is created.
    let _ = set.world.disk.root(target, Access::Write);
    let state = crate::pin::told(&set.manifest);
    let [mark, temp] = [Some(NO_COLUMN), None].map(|column| stray(target, set.manifest.set, column));
    refuse_early(set, &entries, options)?;
    let made =
        set.world.disk.make_root(target, PRIVATE_DIR).map_err(|e| Fault::io("creating", target, e))?.made;
    let _lock = set.lock(target)?;
    let contents = chosen.as_deref().map(|chosen| {
        let mut files: Vec<usize> = chosen.iter().map(|&entry| set.content_of(entry)).collect();
        files.sort_unstable();
        files.dedup();
        files
    });
    let no_check = |lost| set.geometry.checker(lost).locator().checks().is_empty();
    let blind = !set.knows_blocks() && no_check(&set.lost_cells());
    let damage = if set.knows_blocks() {
        None
    } else {
        Some(find_damage(set, Scope::of(contents.as_deref()), progress)?)
    };
    let size = |&entry: &usize| match set.manifest.entries[entry].kind {
        EntryKind::File { size, .. } => size,
        _ => 0,
    };
    progress.phase("restoring", entries.iter().map(size).sum());
    let mark = Mark::found(set.world.disk, mark, &temp, state);
    let is_target = |entry: &usize| set.restored_path(*entry).is_empty();
    let root = made.and_then(|id| Some((entries.iter().copied().find(is_target)?, id)));
    // With several sources, the sealed rights of their common top directory are unknown.
    let rights = Rights::of_new(set.world.disk, options.modes);
    let opened = made.filter(|_| root.is_none()).and_then(|_| {
        let was = set.world.disk.meta(target).ok()?;
        Some((target.clone(), was))
    });
    let mut work = Unsealing {
        set,
        options,
        window: Window::new(&set.geometry, set.geometry.window_stripes().min(set.manifest.stripes)),
        report: UnsealReport { unchecked: !set.knows_blocks(), blind, ..UnsealReport::default() },
        made: root.into_iter().collect(),
        fresh: made.is_some(),
        mark,
        opened: opened.into_iter().collect(),
        dirs: None,
        rights,
        damage,
        lost: Damage::default(),
        doubtful: None,
        failed: None,
        placed: HashMap::new(),
    };
    if let Some((_, id)) = root {
        work.mark.add(set.world.disk, id, &[]);
    }
    let is_name = |entry: &usize| matches!(set.manifest.entries[*entry].kind, EntryKind::HardLink { .. });
    let (names, others): (Vec<usize>, Vec<usize>) = entries.iter().partition(|entry| is_name(entry));
    for &entry in others.iter().chain(&names) {
        if progress.cancelled() {
            work.leave();
            return Err(Fault::cancelled());
        }
        match work.entry(entry, progress) {
            Err(error) if error.ends_all() => {
                work.leave();
                return Err(error);
            }
            Err(error) => work.fail(entry, error),
            Ok(()) => {}
        }
    }
    work.finish()
}

struct Unsealing<'a, 'w> {
    set: &'a Set<'w>,
    options: &'a UnsealOptions,
    window: Window,
    report: UnsealReport,
    /// New directories, by entry, with their identities.
    made: Vec<(usize, FileId)>,
    /// True if the target is new.
    fresh: bool,
    /// The mark of this run. It also names the directories of an earlier run that was cut off.
    mark: Mark,
    /// Directories that were made writable for their owner, with their metadata before.
    opened: Vec<(PathBuf, Meta)>,
    /// The entry of each directory by its restored path, once that is needed.
    dirs: Option<HashMap<Vec<u8>, usize>>,
    /// The rights that may be given.
    rights: Rights,
    /// Findings of the equations, in a set without checksums.
    damage: Option<Damage>,
    /// Losses beyond the tolerance of the code.
    lost: Damage,
    /// The first file in doubt, and a stripe that contradicts the equations.
    doubtful: Option<(PathBuf, u64)>,
    /// The first other fault by which a path could not be restored.
    failed: Option<Fault>,
    /// The restored path of each file, by entry, for further names of it.
    placed: HashMap<usize, PathBuf>,
}

/// Looks for obstacles before anything is written.
fn refuse_early(set: &Set<'_>, entries: &[usize], options: &UnsealOptions) -> Result<(), Fault> {
    for &index in entries {
        let entry = &set.manifest.entries[index];
        let path = join(&options.target, &set.restored_path(index));
        let Ok(meta) = set.world.disk.meta(&path) else { continue };
        let fits = match &entry.kind {
            // The target itself may be a link to a directory, because the user named it.
            EntryKind::Dir => meta.kind == MetaKind::Dir || path == options.target,
            EntryKind::File { size, .. } => {
                meta.kind == MetaKind::File && (options.overwrite || meta.size == *size)
            }
            // A hard link has the size of its file, which is checked when that file is restored.
            EntryKind::HardLink { .. } => meta.kind == MetaKind::File,
            EntryKind::Symlink { target } => {
                let same = || set.world.disk.read_link(&path).is_ok_and(|to| to == path_of(target));
                meta.kind == MetaKind::Symlink && (options.overwrite || same())
            }
        };
        if !fits {
            let asked = options.overwrite || !is_kind(&entry.kind, &meta);
            return Err(Fault::in_the_way(&path, asked));
        }
    }
    Ok(())
}

/// True if an existing path is of the sealed kind.
fn is_kind(kind: &EntryKind, there: &Meta) -> bool {
    match kind {
        EntryKind::Dir => there.kind == MetaKind::Dir,
        EntryKind::File { .. } | EntryKind::HardLink { .. } => there.kind == MetaKind::File,
        EntryKind::Symlink { .. } => there.kind == MetaKind::Symlink,
    }
}

impl Unsealing<'_, '_> {
    /// Ends early. If the target is the only new directory, it gets its sealed rights at once, as
    /// its content already has them. Otherwise the next run finishes all directories.
    fn leave(&mut self) {
        let disk = self.set.world.disk;
        let &[(index, id)] = self.made.as_slice() else { return };
        if self.fresh && self.set.restored_path(index).is_empty() {
            self.mark.take(disk);
            let target = self.options.target.clone();
            let _ = open_made(disk, &target, id).and_then(|dir| {
                let mode = self.give_attributes(index, &*dir, &target);
                dir.set_meta(mode, self.set.manifest.entries[index].mtime)
            });
        }
    }

    fn entry(&mut self, index: usize, progress: &mut dyn Progress) -> Result<(), Fault> {
        let path = join(&self.options.target, &self.set.restored_path(index));
        let disk = self.set.world.disk;
        // A file with the name of a temporary file would later be removed as the leftover of a
        // killed command.
        if path.file_name().is_some_and(|name| name == LOCK || stray_of(name).is_some()) {
            return Err(Fault::in_the_way(&path, true));
        }
        match &self.set.manifest.entries[index].kind {
            EntryKind::Dir => {
                match disk.meta(&path) {
                    Ok(meta) if meta.kind == MetaKind::Dir || path == self.options.target => {
                        let is_unfinished = self.mark.has(meta.id, &self.set.restored_path(index));
                        if is_unfinished && meta.mode & !SETGID == PRIVATE_DIR {
                            self.made.push((index, meta.id));
                        }
                        self.report.dirs += u64::from(self.fresh && path == self.options.target);
                    }
                    // A link that appeared in the meantime would divert the content to another
                    // directory.
                    Ok(_) => return Err(self.in_the_way(index, &path)),
                    Err(_) => {
                        let made = self
                            .in_opened(&path, |path| disk.make_private_dir(path))
                            .map_err(|e| Fault::io("creating", &path, e))?;
                        self.mark.add(disk, made, &self.set.restored_path(index));
                        self.made.push((index, made));
                        self.report.dirs += 1;
                    }
                }
            }
            EntryKind::Symlink { target } => self.link(index, path_of(target), &path)?,
            EntryKind::File { .. } => {
                self.file(index, &path, progress)?;
            }
            EntryKind::HardLink { .. } => self.other_name(index, &path, progress)?,
        }
        Ok(())
    }

    /// Makes a path a hard link to its file. If that file was not restored, or the file system has
    /// no hard links, the path becomes a separate file.
    fn other_name(&mut self, index: usize, path: &Path, progress: &mut dyn Progress) -> Result<(), Fault> {
        let disk = self.set.world.disk;
        let file = self.set.content_of(index);
        let id = |path: &Path| disk.meta(path).ok().map(|meta| meta.id);
        let Some(of) = self.placed.get(&file).cloned() else { return self.file(file, path, progress) };
        if id(&of).is_some() && id(&of) == id(path) {
            self.report.already_there += 1;
            return Ok(());
        }
        if id(path).is_some() && !self.options.overwrite {
            return self.file(file, path, progress);
        }
        let temp = self.temp(path);
        let _ = disk.remove(&temp);
        let named = self
            .in_opened(&temp, |temp| disk.add_name(&of, temp))
            .and_then(|()| disk.rename(&temp, path).inspect_err(|_| drop(disk.remove(&temp))));
        match named {
            Ok(()) => self.report.hard_links += 1,
            Err(_) => self.file(file, path, progress)?,
        }
        Ok(())
    }

    fn link(&mut self, index: usize, to: &Path, path: &Path) -> Result<(), Fault> {
        let disk = self.set.world.disk;
        if disk.read_link(path).is_ok_and(|there| there == to) {
            self.report.already_there += 1;
            return Ok(());
        }
        if !self.options.overwrite && disk.meta(path).is_ok() {
            return Err(self.in_the_way(index, path));
        }
        // A file that appeared in the meantime is only replaced on request.
        let temp = if self.options.overwrite { self.temp(path) } else { path.to_path_buf() };
        if self.options.overwrite {
            // A killed command can have left this file.
            let _ = disk.remove(&temp);
        }
        let dress = (self.set.manifest.entries[index].mtime, self.set.manifest.owner_of(index));
        self.in_opened(&temp, |temp| disk.make_link(to, temp, dress))
            .map_err(|e| Fault::io("creating", path, e))?;
        if self.options.overwrite {
            disk.rename(&temp, path).map_err(|e| {
                let _ = disk.remove(&temp);
                Fault::io("creating", path, e)
            })?;
        }
        self.report.links += 1;
        Ok(())
    }

    /// The temporary file in the directory of a path.
    fn temp(&self, path: &Path) -> PathBuf {
        stray(&parent(path), self.set.manifest.set, None)
    }

    fn in_the_way(&self, index: usize, path: &Path) -> Fault {
        let kind = &self.set.manifest.entries[index].kind;
        let is_other = self.set.world.disk.meta(path).is_ok_and(|there| !is_kind(kind, &there));
        Fault::in_the_way(path, self.options.overwrite || is_other)
    }

    /// Creates something at a path. An earlier run may have given its directory a read-only mode:
    /// then the directory is made writable for its owner, and gets its mode again at the end.
    fn in_opened<T>(
        &mut self,
        path: &Path,
        make: impl Fn(&Path) -> std::io::Result<T>,
    ) -> std::io::Result<T> {
        match make(path) {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied && self.open_dir(path) => {
                make(path)
            }
            done => done,
        }
    }

    /// Makes the parent directory of a path writable, if it has its sealed state.
    fn open_dir(&mut self, path: &Path) -> bool {
        let (disk, dir) = (self.set.world.disk, parent(path));
        let set = self.set;
        let entries = &set.manifest.entries;
        let dirs = self.dirs.get_or_insert_with(|| {
            let dirs = (0..entries.len()).filter(|&index| entries[index].kind == EntryKind::Dir);
            dirs.map(|index| (set.restored_path(index), index)).collect()
        });
        let Ok(below) = dir.strip_prefix(&self.options.target) else { return false };
        let Some(&index) = dirs.get(below.as_os_str().as_encoded_bytes()) else { return false };
        let entry = &entries[index];
        let Ok(opened) = disk.open_dir(&dir) else { return false };
        let Ok(there) = opened.meta() else { return false };
        let rights = [self.rights, self.rights.of_owner()];
        let is_as_sealed = is_own(&there)
            && rights.iter().any(|rights| (there.mode & !SETGID) == rights.of_mode(entry.mode) & !SETGID);
        if !is_as_sealed || opened.set_meta(PRIVATE_DIR, entry.mtime).is_err() {
            return false;
        }
        self.opened.push((dir, there));
        true
    }

    fn file(&mut self, index: usize, path: &Path, progress: &mut dyn Progress) -> Result<(), Fault> {
        let disk = self.set.world.disk;
        if let Some(stripe) = self.damage.as_ref().and_then(|damage| damage.doubt(self.set, index)) {
            self.doubtful.get_or_insert((path.to_path_buf(), stripe));
            self.note(
                index,
                &format!("stripe {stripe} contradicts the equations, and the wrong block cannot be located"),
            );
            return Ok(());
        }
        let temp = self.temp(path);
        if temp == path {
            return Err(self.in_the_way(index, path));
        }
        // A file with the right content is left as it is, however often the command is run.
        let compared = match disk.meta(path) {
            Ok(there) if self.may_be_right(index, &there) => Some(self.compare(index, path, progress)?),
            Ok(_) if !self.options.overwrite => return Err(self.in_the_way(index, path)),
            _ => None,
        };
        let right = match compared {
            Some((restored, true)) if self.is_dressed(index, path) => Some(restored),
            Some((restored, _)) if !self.options.overwrite && !restored.gone.is_empty() => Some(restored),
            Some((_, false)) if !self.options.overwrite => return Err(self.in_the_way(index, path)),
            _ => None,
        };
        let done = match right {
            Some(restored) => Ok((restored, None)),
            None => self.write(index, &temp, progress).map(|(restored, file)| (restored, Some(file))),
        };
        let (restored, file) = match done {
            Ok((restored, file)) if restored.gone.is_empty() => (restored, file),
            unfinished => {
                if let Ok((_, Some(file))) = &unfinished {
                    let _ = file.discard();
                }
                let gone = unfinished?.0.gone;
                self.note(index, "more of it is lost than the code tolerates");
                self.lost.take_gone(self.set, index, &gone);
                return Ok(());
            }
        };
        self.report.blocks_reconstructed += restored.reconstructed;
        self.placed.entry(index).or_insert_with(|| path.to_path_buf());
        let Some(file) = file else {
            self.report.already_there += 1;
            return Ok(());
        };
        if let Err(error) = crate::apply::batch::name(&*file, path, self.options.overwrite) {
            let _ = file.discard();
            return Err(error);
        }
        self.report.files += 1;
        if let EntryKind::File { size, .. } = self.set.manifest.entries[index].kind {
            self.report.file_bytes += size;
        }
        Ok(())
    }

    fn write(
        &mut self,
        index: usize,
        temp: &Path,
        progress: &mut dyn Progress,
    ) -> Result<(Restored, Box<dyn DiskFile>), Fault> {
        let disk = self.set.world.disk;
        let file =
            self.in_opened(temp, |temp| disk.create(temp)).map_err(|e| Fault::io("creating", temp, e))?;
        let mut sparse = Sparse::new(&*file);
        let sink = |offset: u64, bytes: &[u8]| {
            if progress.cancelled() {
                return Err(Fault::cancelled());
            }
            progress.advance(bytes.len() as u64);
            sparse.write(bytes, offset).map_err(|e| Fault::io("writing", temp, e))
        };
        let restored = restore(self.set, index, self.damage.as_ref(), &mut self.window, sink);
        let size = size_of(&self.set.manifest.entries[index]);
        let restored = restored.and_then(|restored| {
            sparse.end(size).map_err(|e| Fault::io("writing", temp, e)).map(|()| restored)
        });
        let done = restored.and_then(|restored| {
            if restored.gone.is_empty() {
                let path = join(&self.options.target, &self.set.restored_path(index));
                let mode = self.give_attributes(index, &*file, &path);
                let entry = &self.set.manifest.entries[index];
                file.set_meta(mode, entry.mtime).map_err(|e| Fault::io("setting the mode of", temp, e))?;
            }
            Ok(restored)
        });
        match done {
            Ok(restored) => Ok((restored, file)),
            Err(error) => {
                let _ = file.discard();
                Err(error)
            }
        }
    }

    /// Gives a new file its sealed attributes; returns the mode that it may have.
    fn give_attributes(&mut self, index: usize, made: &dyn DiskFile, path: &Path) -> u32 {
        let sealed = (&self.set.manifest, index);
        give_sealed(made, sealed, self.rights, path, &mut self.report.not_kept)
    }

    /// True if an existing path is a file of the sealed size.
    fn may_be_right(&self, index: usize, there: &Meta) -> bool {
        let EntryKind::File { size, .. } = self.set.manifest.entries[index].kind else { return false };
        there.kind == MetaKind::File && there.size == size
    }

    /// True if a file with the right content can stay: its metadata is as sealed, or it is not to
    /// be overwritten. The metadata is not corrected in place, since the file may have another name
    /// elsewhere.
    fn is_dressed(&self, index: usize, path: &Path) -> bool {
        if !self.options.overwrite {
            return true;
        }
        let Ok(file) = self.set.world.disk.open(path) else { return false };
        let entry = &self.set.manifest.entries[index];
        let sealed = sealed_attributes(self.set, index);
        let Ok(there) = file.meta() else { return false };
        let owner = self.set.manifest.owner_of(index);
        let is_owners = owner == Some((there.owner, there.group));
        // Root also restores the owner.
        let may_be = is_owners || owner.is_none() || !rustix::process::geteuid().is_root();
        let rights = if is_owners { self.rights.of_owner() } else { self.rights };
        may_be && is_same_time(entry.mtime, there.mtime) && has(&*file, &sealed, (entry.mode, rights))
    }

    /// Compares an existing file with its sealed content as far as that can be recovered; nothing
    /// is written.
    fn compare(
        &mut self,
        index: usize,
        path: &Path,
        progress: &mut dyn Progress,
    ) -> Result<(Restored, bool), Fault> {
        let disk = self.set.world.disk;
        let file = disk.open(path).map_err(|e| Fault::io("opening", path, e))?;
        let mut there = Vec::new();
        let mut is_equal = true;
        let sink = |offset: u64, bytes: &[u8]| {
            if progress.cancelled() {
                return Err(Fault::cancelled());
            }
            progress.advance(bytes.len() as u64);
            there.resize(bytes.len(), 0);
            let have = file.read_at(&mut there, offset).map_err(|e| Fault::io("reading", path, e))?;
            is_equal &= there[..have] == *bytes;
            Ok(())
        };
        let restored = restore(self.set, index, self.damage.as_ref(), &mut self.window, sink)?;
        Ok((restored, is_equal))
    }

    /// Notes a path that could not be restored.
    fn fail(&mut self, index: usize, error: Fault) {
        self.note(index, &error.to_string());
        self.failed.get_or_insert(error);
    }

    fn note(&mut self, index: usize, reason: &str) {
        self.report.not_restored_count += 1;
        let path = shown(&self.set.restored_path(index));
        self.report.not_restored.push(NotDone { path, reason: reason.into() });
    }

    /// Sets times of directories last: every new file in one changes its time, and so does the
    /// removal of the mark from the target.
    fn finish(mut self) -> Result<UnsealReport, Fault> {
        let disk = self.set.world.disk;
        let mut made = std::mem::take(&mut self.made);
        made.sort_unstable();
        made.dedup();
        for (index, id) in made.into_iter().rev() {
            if self.set.restored_path(index).is_empty() {
                self.mark.take(disk);
            }
            let path = join(&self.options.target, &self.set.restored_path(index));
            let mtime = self.set.manifest.entries[index].mtime;
            let done = open_made(disk, &path, id).and_then(|dir| {
                let mode = self.give_attributes(index, &*dir, &path);
                dir.set_meta(mode, mtime)
            });
            if let Err(error) = done {
                self.fail(index, Fault::io("setting the mode of", &path, error));
            }
        }
        let rights = self.rights;
        for (path, was) in std::mem::take(&mut self.opened).into_iter().rev() {
            // A new target of several sources has no sealed rights: it gets those of a new
            // directory.
            let is_made = self.fresh && path == self.options.target;
            // Best effort: on failure the directory stays private to its owner.
            let _ = open_made(disk, &path, was.id).and_then(|dir| {
                let mode = match is_made {
                    false => was.mode,
                    true => {
                        let given = (within_group(&*dir, rights.of_mode(ROOT_DIR)), rights);
                        was.mode & SETGID | give(&*dir, &[], given, &path, &mut self.report.not_kept)
                    }
                };
                dir.set_meta(mode, was.mtime)
            });
        }
        self.mark.take(disk);
        disk.sync_dir(&self.options.target).map_err(|e| Fault::io("syncing", &self.options.target, e))?;
        let lost = |losses: Losses| match self.set.manifest.mode {
            Mode::Beside => {
                let path = losses.files.into_iter().next().unwrap_or_default();
                Fault::new(
                    FaultKind::Lost,
                    format!(
                        "the set holds parity only, and {path} is missing or changed beyond what parity can restore"
                    ),
                )
                .at(path)
                .hint("heal repairs originals where they are")
            }
            Mode::Full => Fault::too_much_lost(losses, None),
        };
        let doubtful = |(path, stripe): (PathBuf, u64)| {
            Fault::new(
                FaultKind::Lost,
                format!(
                    "{} cannot be restored with certainty: the set has no checksums, and stripe {stripe} contradicts the \
                     equations of the code without showing which of its blocks is wrong",
                    path.display()
                ),
            )
            .at(path)
            .hint("verify names all such stripes, and if you know which shard is wrong, name only the others")
        };
        let why = self.lost.losses(self.set).map(lost).or(self.doubtful.map(doubtful)).or(self.failed);
        match why {
            Some(why) => {
                let (lost, others) =
                    (self.report.not_restored_count, self.report.files + self.report.already_there);
                let what = format!("{why}. Paths not restored: {lost}; files restored: {others}");
                let path = why.path.clone();
                let kind = FaultKind::NotRestored { why: Box::new(why), report: Box::new(self.report) };
                Err(Fault { path, ..Fault::new(kind, what) })
            }
            None => Ok(self.report),
        }
    }
}

/// Opens a directory that this run created, to give it its rights.
///
/// Errors: another directory is at the path, which may be private to the user of this process.
pub(crate) fn open_made(disk: &dyn Disk, path: &Path, made: FileId) -> std::io::Result<Box<dyn DiskFile>> {
    let dir = disk.open_dir(path)?;
    match dir.meta()?.id == made {
        true => Ok(dir),
        false => Err(std::io::Error::other("another directory took its place; its rights stay as they are")),
    }
}

/// Returns the parent of a path, and creates it if it is missing. Every directory between `root`
/// and it must be a real directory.
pub(crate) fn make_parents(set: &Set<'_>, root: &Path, path: &Path) -> Result<PathBuf, Fault> {
    let dir = parent(path);
    let disk = set.world.disk;
    let mut missing: Vec<&Path> = Vec::new();
    // The search begins at the innermost directory: nearly always it exists, and then all above it
    // do.
    for above in dir.ancestors().take_while(|above| above.starts_with(root)) {
        match disk.meta(above) {
            Ok(meta) if meta.kind == MetaKind::Dir || above == root => break,
            Ok(_) => return Err(Fault::in_the_way(above, true)),
            Err(_) => missing.push(above),
        }
    }
    for above in missing.into_iter().rev() {
        disk.make_dir(above).map_err(|e| Fault::io("creating", above, e))?;
    }
    Ok(dir)
}
