//! Walks the sources and lists the present files, with directories before their content.

use crate::disk::{Disk, EPOCH, FileId, Meta, MetaKind, next_tick};
use crate::report::LeftUnread;
use crate::set::names::{LOCK, is_own, path_of, set_of, stray_of};
use crate::set::select::Patterns;
use crate::set::times::is_since;
use crate::set::window::join;
use crate::{Fault, FaultKind, attributes};
use pantile_format::{Entry, EntryKind, Fields, LeftOut, Source, Timestamp};
use rustix::io::Errno;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Result of the walk.
pub(crate) struct Tree {
    pub(crate) sources: Vec<Source>,
    /// When the walk began: files that change later may differ from their sealed state.
    pub(crate) began: Timestamp,
    /// Files without extents and checksums.
    pub(crate) entries: Vec<Entry>,
    /// The ctime of each entry, or the time at which a directory above it may have been renamed, if
    /// that is later.
    ///
    /// A renamed directory moves its content, but changes only its own ctime and that of its
    /// parent.
    pub(crate) ctimes: Vec<Timestamp>,
    /// The ctime of each entry itself, when it was described.
    pub(crate) seen: Vec<Timestamp>,
    /// Paths that are neither files, directories nor links, and files of other sets in the
    /// directory of the shards.
    pub(crate) skipped: Vec<PathBuf>,
    /// Paths that are too long for any system to open, with everything below them: the first
    /// [`TOO_LONG_MOST`], and the number of all.
    pub(crate) too_long: (Vec<PathBuf>, u64),
    /// Paths that cannot be read now, with everything below them.
    pub(crate) unreadable: Vec<Unreadable>,
    /// Indices of entries that keep their sealed state because they cannot be read now.
    pub(crate) kept: HashSet<usize>,
    /// Temporary files of sets, left by killed commands; they are not part of the tree.
    pub(crate) strays: Vec<PathBuf>,
    /// The patterns of paths that are left out, as requested.
    pub(crate) left_out: LeftOut,
    /// The number of paths that a pattern leaves out; a directory counts once, whatever it
    /// contains.
    pub(crate) excluded: u64,
    /// Mount points of other file systems; what is mounted there was left out.
    pub(crate) other_systems: Vec<PathBuf>,
}

/// A path that cannot be read now.
pub(crate) struct Unreadable {
    pub(crate) source: u32,
    /// The path below the source.
    path: Vec<u8>,
    full: PathBuf,
    is_dir: bool,
    error: std::io::Error,
}

impl Unreadable {
    pub(crate) fn report(&self) -> LeftUnread {
        let mut exclude = String::from("/");
        for c in crate::set::names::shown(&self.path).chars() {
            // A character that has a meaning in patterns is escaped.
            if matches!(c, '*' | '?' | '[' | ']' | '\\' | '!' | '#' | ' ') {
                exclude.push('\\');
            }
            exclude.push(c);
        }
        exclude.extend(self.is_dir.then_some('/'));
        LeftUnread {
            path: crate::set::names::shown_path(&self.full),
            reason: self.error.to_string(),
            exclude,
        }
    }
}

/// True if an error concerns only the path.
fn is_of_path(error: &std::io::Error) -> bool {
    const DAMAGED: [Errno; 3] = [Errno::IO, Errno::UCLEAN, Errno::BADMSG];
    error.kind() == std::io::ErrorKind::PermissionDenied
        || Errno::from_io_error(error).is_some_and(|errno| DAMAGED.contains(&errno))
}

/// True for the blocks of a file that `heal` replaced, beside that file.
fn is_replaced(name: &Path, names: &[PathBuf]) -> bool {
    const END: &[u8] = b".replaced-blocks";
    let name = name.as_os_str().as_bytes();
    let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let numbered = name[..name.len() - digits].strip_suffix(b".").filter(|_| digits > 0);
    let file = numbered.unwrap_or(name).strip_suffix(END);
    file.is_some_and(|file| names.binary_search(&path_of(file).to_path_buf()).is_ok())
}

/// The longest path below a source that a system opens.
const PATH_BYTES_MOST: usize = 4095;

/// The number of too long paths that are kept in the list.
const TOO_LONG_MOST: usize = 100;

/// The files that the walk leaves out. In a directory of shards within a source these are the files
/// of sets, and the directory itself if it has nothing else.
pub(crate) struct Own {
    pub(crate) dirs: Vec<PathBuf>,
    pub(crate) name: Vec<u8>,
    /// The requested patterns, which apply below each source.
    left_out: LeftOut,
    patterns: Patterns,
}

/// The last times at which the directories on a path may have been renamed.
#[derive(Clone, Copy, Default)]
pub(crate) struct Moves {
    /// The last time at which any of the directories may have been renamed; `None` if none was.
    pub(crate) moved_at: Option<Timestamp>,
    /// The ctime of the innermost directory.
    changed_at: Option<Timestamp>,
}

/// The directories on the path to an original.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    /// A directory was missing.
    Unknown,
    /// All directories exist.
    To {
        /// The last time at which a directory may have been renamed; `None` if none was.
        moved_at: Option<Timestamp>,
    },
}

impl Way {
    /// True if a directory on the path may have been renamed since a time.
    pub(crate) fn is_moved_since(&self, at: Timestamp) -> bool {
        match self {
            Way::Unknown => true,
            Way::To { moved_at } => moved_at.is_some_and(|moved_at| is_since(moved_at, at)),
        }
    }
}

impl Moves {
    /// Continues into a directory. A rename changes the ctimes of the directory and of its parent,
    /// while a file that is created or removed in it does not change the parent. The parent of a
    /// source is unknown: the source counts as renamed if its ctime and mtime differ, since changes
    /// of its content set both.
    pub(crate) fn through(self, dir: &Meta) -> Moves {
        let own = match self.changed_at {
            Some(parent) => Some(dir.ctime.min(parent)),
            None => (dir.ctime != dir.mtime).then_some(dir.ctime),
        };
        Moves { moved_at: self.moved_at.max(own), changed_at: Some(dir.ctime) }
    }
}

impl Tree {
    /// Walks the sources. Links are not followed.
    pub(crate) fn walk(disk: &dyn Disk, sources: Vec<Source>, own: &Own) -> Result<Tree, Fault> {
        let mut tree = Tree {
            sources: Vec::new(),
            began: next_tick(),
            entries: Vec::new(),
            ctimes: Vec::new(),
            seen: Vec::new(),
            skipped: Vec::new(),
            too_long: (Vec::new(), 0),
            unreadable: Vec::new(),
            kept: HashSet::new(),
            strays: Vec::new(),
            left_out: own.left_out.clone(),
            excluded: 0,
            other_systems: Vec::new(),
        };
        for (index, source) in sources.iter().enumerate() {
            tree.visit(disk, index as u32, path_of(&source.path), own)?;
        }
        tree.sources = sources;
        Ok(tree)
    }

    fn visit(&mut self, disk: &dyn Disk, source: u32, root: &Path, own: &Own) -> Result<(), Fault> {
        // Paths below the source that are still to be visited, with the times of the directories
        // above. The next one is taken from the end.
        let mut todo: Vec<(Vec<u8>, Moves)> = vec![(Vec::new(), Moves::default())];
        let mut device = None;
        // The first name of each file with several names.
        let mut first_names: HashMap<FileId, Vec<u8>> = HashMap::new();
        while let Some((path, above)) = todo.pop() {
            let full = join(root, &path);
            if path.len() > PATH_BYTES_MOST {
                let (paths, count) = &mut self.too_long;
                *count += 1;
                if paths.len() < TOO_LONG_MOST {
                    paths.push(full);
                }
                continue;
            }
            // All sealed properties of the path are read through this one descriptor, so that an
            // exchange of names cannot mix two files.
            let seen = match disk.look(&full) {
                Ok(seen) => seen,
                // The file was deleted after the directory was read.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && !path.is_empty() => continue,
                Err(error) if is_of_path(&error) && !path.is_empty() => {
                    self.unreadable.push(Unreadable { source, path, full, is_dir: false, error });
                    continue;
                }
                Err(error) => return Err(Fault::io("reading", &full, error)),
            };
            let meta = seen.meta().map_err(|e| Fault::io("reading", &full, e))?;
            let is_stray = full.file_name().is_some_and(|name| name == LOCK || stray_of(name).is_some());
            if is_stray && !path.is_empty() && matches!(meta.kind, MetaKind::File | MetaKind::Symlink) {
                self.strays.push(full);
                continue;
            }
            if !path.is_empty() && own.patterns.has(&path, meta.kind == MetaKind::Dir) {
                self.excluded += 1;
                continue;
            }
            let is_mounted = *device.get_or_insert(meta.id.device) != meta.id.device;
            let kind = match meta.kind {
                MetaKind::Dir => EntryKind::Dir,
                MetaKind::File => match first_names.get(&meta.id) {
                    Some(first) => EntryKind::HardLink { to: first.clone() },
                    None => EntryKind::File { size: meta.size, extents: vec![], crcs: vec![] },
                },
                MetaKind::Symlink => {
                    let target = seen.target().map_err(|e| Fault::io("reading", &full, e))?;
                    EntryKind::Symlink { target: target.as_os_str().as_bytes().to_vec() }
                }
                MetaKind::Other => {
                    self.skipped.push(full);
                    continue;
                }
            };
            let ctime = above.moved_at.map_or(meta.ctime, |moved_at| moved_at.max(meta.ctime));
            if kind == EntryKind::Dir && is_mounted && own.left_out.other_systems {
                self.other_systems.push(full.clone());
            } else if kind == EntryKind::Dir {
                // The directory of the shards is skipped in the check for renames, since sealing
                // itself writes to it. If it is renamed, the shards move with it.
                let here = if own.dirs.contains(&full) { above } else { above.through(&meta) };
                let mut names = match seen.names() {
                    Err(error) if is_of_path(&error) && !path.is_empty() => {
                        let (path, full) = (path.clone(), full.clone());
                        self.unreadable.push(Unreadable { source, path, full, is_dir: true, error });
                        Vec::new()
                    }
                    names => names.map_err(|e| Fault::io("reading", &full, e))?,
                };
                if own.dirs.contains(&full) {
                    let others = own.leave_out(&mut names);
                    self.skipped.extend(others.iter().map(|name| full.join(name)));
                    if names.is_empty() && !path.is_empty() {
                        continue;
                    }
                }
                for name in names.iter().rev().filter(|name| !is_replaced(name, &names)) {
                    let mut below = path.clone();
                    if !below.is_empty() {
                        below.push(b'/');
                    }
                    below.extend_from_slice(name.as_os_str().as_bytes());
                    todo.push((below, here));
                }
            }
            let mut fields = match kind {
                EntryKind::Symlink { .. } | EntryKind::HardLink { .. } => Fields::default(),
                _ => match seen.attributes() {
                    Ok(found) => attributes::to_fields(&attributes::kept(found)),
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound && !path.is_empty() => {
                        continue;
                    }
                    Err(error) if is_of_path(&error) && !path.is_empty() => {
                        let is_dir = kind == EntryKind::Dir;
                        self.unreadable.push(Unreadable { source, path, full, is_dir, error });
                        continue;
                    }
                    Err(error) => return Err(Fault::io("reading attributes of", &full, error)),
                },
            };
            if meta.names > 1 && matches!(kind, EntryKind::File { .. }) {
                first_names.insert(meta.id, path.clone());
            }
            if !matches!(kind, EntryKind::HardLink { .. }) {
                fields.push_owner((meta.owner, meta.group));
            }
            self.entries.push(Entry { source, path, mode: meta.mode, mtime: meta.mtime, kind, fields });
            self.ctimes.push(ctime);
            self.seen.push(meta.ctime);
        }
        Ok(())
    }
}

impl Tree {
    /// Opens the files that are to be read, and leaves out those that cannot be opened.
    ///
    /// Errors: `ChangedMeanwhile` if one is gone; `CannotRead` if no file can be read at all.
    pub(crate) fn leave_out_unreadable(
        &mut self,
        disk: &dyn Disk,
        is_read: impl Fn(&Entry, Timestamp) -> bool,
    ) -> Result<(), Fault> {
        let mut stays = vec![true; self.entries.len()];
        let mut files = 0;
        for (index, entry) in self.entries.iter().enumerate() {
            if !matches!(entry.kind, EntryKind::File { .. }) {
                continue;
            }
            files += 1;
            let full = join(path_of(&self.sources[entry.source as usize].path), &entry.path);
            match is_read(entry, self.ctimes[index]).then(|| disk.open(&full)) {
                None | Some(Ok(_)) => {}
                Some(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => {
                    return Err(Fault::changed(&full));
                }
                Some(Err(error)) => {
                    (stays[index], files) = (false, files - 1);
                    let (source, path) = (entry.source, entry.path.clone());
                    self.unreadable.push(Unreadable { source, path, full, is_dir: false, error });
                }
            }
        }
        // The other names of an unreadable file cannot be read either.
        let closed: HashMap<(u32, &[u8]), ErrorKind> =
            self.unreadable.iter().map(|u| ((u.source, u.path.as_slice()), u.error.kind())).collect();
        let mut links = Vec::new();
        for (index, entry) in self.entries.iter().enumerate() {
            let EntryKind::HardLink { to } = &entry.kind else { continue };
            if let Some(&kind) = closed.get(&(entry.source, to.as_slice())) {
                stays[index] = false;
                let full = join(path_of(&self.sources[entry.source as usize].path), &entry.path);
                let (source, path, error) = (entry.source, entry.path.clone(), kind.into());
                links.push(Unreadable { source, path, full, is_dir: false, error });
            }
        }
        self.unreadable.extend(links);
        if files == 0 && !self.unreadable.is_empty() {
            let count = self.unreadable.len();
            let Unreadable { full, error, .. } = self.unreadable.swap_remove(0);
            return Err(Fault::new(
                FaultKind::System,
                format!(
                    "{count} of the files to be sealed cannot be read; the first, {}: {error}. Nothing was changed",
                    full.display()
                ),
            )
            .at(full)
            .hint("make them readable, or leave them out"));
        }
        let mut each = stays.iter();
        self.entries.retain(|_| *each.next().unwrap_or(&true));
        let mut each = stays.iter();
        self.ctimes.retain(|_| *each.next().unwrap_or(&true));
        let mut each = stays.iter();
        self.seen.retain(|_| *each.next().unwrap_or(&true));
        Ok(())
    }

    /// Keeps the sealed state of all unreadable paths, since they may still exist.
    pub(crate) fn keep_sealed(&mut self, sealed: &[Entry]) {
        let unread: HashSet<(u32, &[u8])> =
            self.unreadable.iter().map(|unread| (unread.source, unread.path.as_slice())).collect();
        let there: HashSet<(u32, &[u8])> =
            self.entries.iter().map(|entry| (entry.source, entry.path.as_slice())).collect();
        let is_unread = |entry: &&Entry| {
            let ends = entry.path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
            !there.contains(&(entry.source, entry.path.as_slice()))
                && ends
                    .chain([entry.path.len()])
                    .any(|end| unread.contains(&(entry.source, &entry.path[..end])))
        };
        let mut kept: Vec<Entry> = sealed.iter().filter(is_unread).cloned().collect();
        self.keep_content(&mut kept, sealed);
        self.kept.extend(self.entries.len()..self.entries.len() + kept.len());
        self.ctimes.extend(kept.iter().map(|_| EPOCH));
        self.seen.extend(kept.iter().map(|_| EPOCH));
        self.entries.extend(kept);
    }

    /// Gives kept hard links their sealed content, if the file that had it is gone.
    fn keep_content(&self, kept: &mut [Entry], sealed: &[Entry]) {
        let is_link = |entry: &&Entry| matches!(entry.kind, EntryKind::HardLink { .. });
        if !kept.iter().any(|entry| is_link(&entry)) {
            return;
        }
        let files = |entries: &[Entry]| -> HashMap<(u32, Vec<u8>), Entry> {
            let files = entries.iter().filter(|entry| matches!(entry.kind, EntryKind::File { .. }));
            files.map(|entry| ((entry.source, entry.path.clone()), entry.clone())).collect()
        };
        let (mut there, had) = (files(&self.entries), files(sealed));
        there.extend(files(kept));
        let mut instead: HashMap<(u32, Vec<u8>), Vec<u8>> = HashMap::new();
        for entry in kept {
            let EntryKind::HardLink { to } = &entry.kind else { continue };
            let file = (entry.source, to.clone());
            if there.contains_key(&file) {
                continue;
            }
            match (instead.get(&file), had.get(&file)) {
                (Some(first), _) => entry.kind = EntryKind::HardLink { to: first.clone() },
                (None, Some(had)) => {
                    (entry.kind, entry.fields) = (had.kind.clone(), had.fields.clone());
                    instead.insert(file, entry.path.clone());
                }
                (None, None) => {}
            }
        }
    }

    /// Keeps the content of a file with several names at the name that had it when it was sealed.
    pub(crate) fn keep_first_names(&mut self, sealed: &[Entry]) {
        let had: HashSet<(u32, &[u8])> = (sealed.iter())
            .filter(|entry| matches!(entry.kind, EntryKind::File { .. }))
            .map(|entry| (entry.source, entry.path.as_slice()))
            .collect();
        // By the name that has the content now, the entry of the name that had it.
        let mut instead: HashMap<(u32, Vec<u8>), usize> = HashMap::new();
        for (index, entry) in self.entries.iter().enumerate() {
            let EntryKind::HardLink { to } = &entry.kind else { continue };
            let is_better = had.contains(&(entry.source, entry.path.as_slice()))
                && !had.contains(&(entry.source, to.as_slice()));
            if is_better {
                instead.entry((entry.source, to.clone())).or_insert(index);
            }
        }
        if instead.is_empty() {
            return;
        }
        for index in 0..self.entries.len() {
            let entry = &self.entries[index];
            match &entry.kind {
                EntryKind::File { .. } => {
                    let Some(&first) = instead.get(&(entry.source, entry.path.clone())) else { continue };
                    let to = self.entries[first].path.clone();
                    let kind = std::mem::replace(&mut self.entries[index].kind, EntryKind::HardLink { to });
                    self.entries[first].kind = kind;
                    self.entries[first].fields = std::mem::take(&mut self.entries[index].fields);
                }
                EntryKind::HardLink { to } => {
                    let Some(&first) = instead.get(&(entry.source, to.clone())) else { continue };
                    if first != index {
                        let to = self.entries[first].path.clone();
                        self.entries[index].kind = EntryKind::HardLink { to };
                    }
                }
                EntryKind::Dir | EntryKind::Symlink { .. } => {}
            }
        }
    }
}

impl Own {
    /// Errors: a pattern that cannot be parsed, or too many patterns.
    pub(crate) fn new(dirs: Vec<PathBuf>, name: Vec<u8>, left_out: LeftOut) -> Result<Own, Fault> {
        Ok(Own { patterns: Patterns::of(&left_out)?, dirs, name, left_out })
    }

    /// Removes the files of sets from the names in the directory of the shards; returns those of
    /// other sets.
    fn leave_out(&self, names: &mut Vec<PathBuf>) -> Vec<PathBuf> {
        let sets: BTreeSet<Vec<u8>> = names.iter().filter_map(|name| set_of(name.as_os_str())).collect();
        let is_of_set =
            |name: &Path, set: &[u8]| is_own(name.as_os_str(), set) && set != self.name.as_slice();
        names.retain(|name| !is_own(name.as_os_str(), &self.name) && name.as_os_str() != LOCK);
        let (others, rest) =
            std::mem::take(names).into_iter().partition(|name| sets.iter().any(|set| is_of_set(name, set)));
        *names = rest;
        others
    }
}

/// Waits until the clock has passed the mtimes of the files, so that a later change gets a later
/// time.
///
/// A file that is read within one clock tick of its last change could be changed again without a
/// new mtime, and the change would look like rot. File systems that store whole seconds have ticks
/// of up to two seconds.
///
/// At least one tick passes in any case: the clock that stamps files may be that far behind the
/// clock that gave the start of the walk, and later changes must not look older than that start.
pub(crate) fn let_times_pass<'e>(files: impl Iterator<Item = &'e Entry>) {
    const TICK: Duration = Duration::from_millis(20);
    const COARSE_TICK: Duration = Duration::from_secs(2);
    let now = SystemTime::now();
    let mut wait = Duration::ZERO;
    for entry in files {
        wait = wait.max(TICK);
        let tick = if entry.mtime.nanos == 0 { COARSE_TICK } else { TICK };
        let Ok(seconds) = u64::try_from(entry.mtime.seconds) else { continue };
        let Some(past) = UNIX_EPOCH.checked_add(Duration::new(seconds, entry.mtime.nanos) + tick) else {
            continue;
        };
        // Any later change replaces an mtime that is in the future.
        match past.duration_since(now) {
            Ok(left) if left <= tick => wait = wait.max(left),
            _ => {}
        }
    }
    std::thread::sleep(wait);
}
