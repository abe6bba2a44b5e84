//! Whose the shards of a set are, and what follows for whoever writes to them, or takes what they
//! say of rights: the rules of `docs/security.md`.

use super::Set;
use crate::SealError;
use crate::disk::{Access, Disk, FileId, Meta, MetaKind, resolve};
use crate::names::parent;
use crate::shard::Candidate;
use crate::times::is_since;
use crate::tree::Way;
use pantile_format::Mode;
use pantile_trust::{Caller, Found, SOMEBODY};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

impl Set<'_> {
    /// Whether nobody but this user can have changed the shards, or put them where they are: then
    /// what they say of her files is what she sealed.
    ///
    /// Asked once: what was opened stays.
    pub(crate) fn is_hers_alone(&self) -> bool {
        *self.is_hers_alone.get_or_init(|| self.find_whether_hers_alone())
    }

    fn find_whether_hers_alone(&self) -> bool {
        let (disk, caller) = (self.world.disk, Caller::or_by_sudo());
        let is_ours =
            |meta: io::Result<Meta>, kind| meta.is_ok_and(|meta| crate::records::is_ours(&meta, kind));
        let is_hers = |(_, found): (&Path, Option<(Meta, &Path)>)| {
            found.is_some_and(|(file, dir)| {
                is_ours(Ok(file), MetaKind::File)
                    && is_ours(disk.meta(dir), MetaKind::Dir)
                    && put_by(disk, &caller, &file, dir) == file.owner
            })
        };
        self.dirs.iter().all(|dir| is_ours(disk.meta(dir), MetaKind::Dir))
            && self.shards_and_dirs().all(is_hers)
    }

    /// Refuses to read originals for shards that another user can have put there. She can have them
    /// say what she guesses, sees when they are read, and what becomes of the set tells whether it
    /// is right. Root, who reads everything, is never asked to; others name the sources.
    ///
    /// What is there is not asked, since a refusal shows, too.
    pub(crate) fn refuse_to_read(&self) -> Result<(), SealError> {
        match self.putter.filter(|_| self.manifest.mode == Mode::Beside) {
            Some(owner) if Caller::alone().rules_others() => {
                Err(SealError::OfAnother { path: self.names.dir.clone(), owner })
            }
            Some(_) if !self.trust.is_named() => {
                Err(SealError::SourcesNotNamed { sources: self.sources.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Whether what is computed of shards and originals can only be what was sealed. Whoever makes
    /// shards can make them so that one original, which she cannot read, is told by another or
    /// taken for what she sealed; but not so that it has a checksum that she had to know before.
    ///
    /// Nor must an original be another one by now, in which another user put what she likes: asked
    /// when all is read that something is computed of.
    pub(crate) fn is_content_sealed(&self) -> bool {
        let is_as_sealed =
            || self.trust.is_sealed_here && self.is_hers_alone() && !self.is_misled.load(Ordering::Relaxed);
        self.manifest.mode == Mode::Full || self.knows_blocks() || is_as_sealed()
    }

    /// Finds the directories that cannot have been moved, before anything is written to them. From
    /// here on their paths lead to no others.
    pub(super) fn look_for_moves(&mut self) {
        let Some(at) = self.trust.recorded.filter(|_| !self.knows_blocks()) else { return };
        let mut ways = self.ways(0..self.manifest.entries.len());
        ways.retain(|(_, way)| !way.is_moved_since(at));
        self.unmoved = ways.iter().map(|(entry, _)| parent(&self.original_path(*entry))).collect();
    }

    /// Whether an original was sealed in a directory, by the record: the way to it ends there, and
    /// was not moved since.
    pub(crate) fn was_sealed_in(&self, way: Way, dir: FileId) -> bool {
        way.is_to(dir) && self.trust.recorded.is_some_and(|at| !way.is_moved_since(at))
    }

    /// Whether a file may have been touched since it was sealed, by the record.
    pub(crate) fn may_be_touched(&self, there: &Meta) -> bool {
        self.trust.recorded.is_none_or(|at| is_since(there.ctime, at))
    }

    /// Notes that an original was read: whether others may have put another there since it was
    /// sealed.
    pub(crate) fn note_read(&self, path: &Path, read: &Meta) {
        if self.knows_blocks() || self.is_misled.load(Ordering::Relaxed) {
            return;
        }
        let (dir, caller) = (parent(path), Caller::or_by_sudo());
        let is_untouched = !self.may_be_touched(read) && self.unmoved.contains(&dir);
        // What she did to her own is what she wants.
        let is_hers = || caller.is_me(put_by(self.world.disk, &caller, read, &dir));
        if !is_untouched && !is_hers() {
            self.is_misled.store(true, Ordering::Relaxed);
        }
    }

    /// All that says something of the set, each with the directory in which it really lies: also a
    /// shard that cannot be used may be the one whose manifest counts.
    fn shards_and_dirs(&self) -> impl Iterator<Item = (&Path, Option<(Meta, &Path)>)> {
        self.told.iter().map(|Told { path, found }| {
            (path.as_path(), found.as_ref().map(|(file, dir)| (*file, dir.as_path())))
        })
    }

    /// Whether whoever owns the shards made all that they say: then what they say of rights is what
    /// that user wanted. Otherwise who wrote the manifest may have put shards under it that are not
    /// for everybody to read.
    pub(crate) fn is_of_one_alone(&self) -> bool {
        let caller = Caller::alone();
        let with_above = |(file, dir): (Meta, &Path)| Some((file, self.world.disk.above(dir).ok()?));
        let all: Option<Vec<(Meta, Vec<Meta>)>> =
            self.shards_and_dirs().map(|(_, found)| found.and_then(with_above)).collect();
        let Some(all) = all else { return false };
        let first = all.first().map(|(file, _)| file.owner);
        let is_for_all = |(file, above): &(Meta, Vec<Meta>)| {
            let can_go = above.iter().all(|dir| Found::from(dir).is_searched_by_all());
            can_go && Found::from(file).is_for_everybody()
        };
        let is_of_first = |(file, above): &(Meta, Vec<Meta>)| {
            Some(file.owner) == first
                && !Caller::of(file.owner).is_of_another(file)
                && caller.is_at_home(file, above)
        };
        all.iter().all(is_for_all) || all.iter().all(is_of_first)
    }

    /// Refuses to write to shards that another user put where they are, and of root's those that
    /// another user can have put there: what is done by them would be what that user says.
    ///
    /// Shards of several owners are nobody's to be brought up to date: what is made of those of one
    /// would be another's. A directory of another user counts as its owner's, whoever owns the
    /// shards in it: what root has restored for that user can lie there.
    pub(crate) fn refuse_shards_of_others(&self) -> Result<(), SealError> {
        let caller = Caller::or_by_sudo();
        let mut of_another = None;
        let (mut owners, mut putters) = (BTreeSet::new(), BTreeSet::new());
        for (shard, found) in self.shards_and_dirs() {
            let of_somebody = || SealError::OfAnother { path: shard.to_path_buf(), owner: SOMEBODY };
            let (file, dir) = found.ok_or_else(of_somebody)?;
            let putter = told_by(self.world.disk, &caller, &file, dir);
            putters.insert(putter);
            owners.insert(file.owner);
            if !caller.trusts(putter) {
                of_another = of_another.or(Some((shard.to_path_buf(), putter)));
            }
            let dir = self.world.disk.meta(dir).map_err(|e| SealError::io("reading", dir, e))?;
            if !caller.may_change(&file, &dir) {
                return Err(SealError::OfAnother { path: shard.to_path_buf(), owner: file.owner });
            }
        }
        let is_of_several = owners.len().max(putters.len()) > 1;
        match of_another.filter(|_| caller.rules_others() || is_of_several) {
            Some((path, owner)) => Err(SealError::OfAnother { path, owner }),
            None => Ok(()),
        }
    }

    /// The user whom the caller does not trust and who can have put shards where they are; `None`
    /// if that is nobody. Told of what was opened, which stays.
    pub(crate) fn put_by_another(&self) -> Option<u32> {
        self.putter
    }

    /// Whose a shard or journal is that root makes: the user who owns all the shards that are
    /// there, and the group of the first of them.
    pub(crate) fn owner_of_all(&self) -> Option<(u32, u32)> {
        let mut metas = self.shards.iter().flatten().map(|shard| shard.file.meta());
        let first = metas.next()?.ok()?;
        let is_of_one = metas.all(|meta| meta.is_ok_and(|meta| meta.owner == first.owner));
        (Caller::alone().is_root() && is_of_one).then_some((first.owner, first.group))
    }
}

/// What says something of a set.
pub(crate) struct Told {
    path: PathBuf,
    /// How it was opened, and the directory in which it really lies; `None` if that is not to be
    /// told any more.
    found: Option<(Meta, PathBuf)>,
}

impl Told {
    pub(super) fn by(disk: &dyn Disk, shard: &Candidate) -> Told {
        let found = || Some((shard.file.as_ref()?.meta().ok()?, parent(&resolve(disk, &shard.path).ok()?)));
        Told { path: shard.path.clone(), found: found() }
    }
}

/// The directory of a source and all above it, that of the source itself first: the source, or the
/// directory in which it lies if it is a file.
fn above_source(disk: &dyn Disk, source: &Path) -> io::Result<Vec<Meta>> {
    let is_dir = disk.meta(source).is_ok_and(|meta| meta.kind == MetaKind::Dir);
    disk.above(&if is_dir { source.to_path_buf() } else { parent(source) })
}

/// Whether everybody may search a source, and all directories above it.
pub(crate) fn is_searched_by_all(disk: &dyn Disk, source: &Path) -> bool {
    let is_searched = |dir: &Meta| Found::from(dir).is_searched_by_all();
    above_source(disk, source).is_ok_and(|above| above.iter().all(is_searched))
}

/// Whether a user whom the caller does not trust can put another directory in the place of that of
/// a source.
pub(crate) fn may_be_exchanged(disk: &dyn Disk, source: &Path) -> bool {
    let caller = Caller::or_by_sudo();
    let Ok(above) = above_source(disk, source) else { return true };
    let above: Vec<Found> = above.iter().skip(1).map(Found::from).collect();
    !above.iter().all(|dir| caller.trusts(dir.owner)) || !caller.are_kept(&above)
}

/// Who knows what a file holds.
#[derive(Clone, Copy)]
pub(crate) struct Readers {
    is_everybody: bool,
    /// The user who alone can have put the file where it is; `None` if that is not one user.
    owner: Option<u32>,
}

impl Readers {
    /// Of a file that is there or gone, which everybody could read or not.
    pub(crate) fn of(disk: &dyn Disk, path: &Path, is_everybody: bool) -> Readers {
        Readers { is_everybody, owner: sole_putter(disk, path) }
    }

    /// Whether nobody learns by one file what another holds.
    pub(crate) fn know(self, other: Readers) -> bool {
        (self.is_everybody && other.is_everybody) || (self.owner.is_some() && self.owner == other.owner)
    }
}

/// The user who alone can have put a file where it is. Of a file that is gone the nearest directory
/// on its way that is still there tells. Users whom the caller trusts count as root.
fn sole_putter(disk: &dyn Disk, path: &Path) -> Option<u32> {
    let caller = Caller::or_by_sudo();
    let as_one = |owner: u32| if caller.trusts(owner) { 0 } else { owner };
    if let Ok(file) = disk.meta(path) {
        let above = disk.above(&parent(path)).ok()?;
        return caller.is_at_home(&file, &above).then(|| as_one(file.owner));
    }
    let above = path.ancestors().skip(1).find_map(|dir| disk.above(dir).ok())?;
    let (dir, above) = above.split_first()?;
    caller.is_dir_at_home(dir, above).then(|| as_one(dir.owner))
}

/// The user whom the caller does not trust and who can have put any of these where it is.
pub(super) fn putter(disk: &dyn Disk, told: &[Told]) -> Option<u32> {
    let caller = Caller::or_by_sudo();
    let putter =
        |told: &Told| told.found.as_ref().map_or(SOMEBODY, |(file, dir)| told_by(disk, &caller, file, dir));
    told.iter().map(putter).find(|&owner| !caller.trusts(owner))
}

/// Who can have put a shard or journal into a directory, or have changed it there.
pub(crate) fn told_by(disk: &dyn Disk, caller: &Caller, shard: &Meta, dir: &Path) -> u32 {
    let is_open = caller.trusts(shard.owner) && caller.is_of_another(shard);
    if is_open { SOMEBODY } else { put_by(disk, caller, shard, dir) }
}

/// As [`refuse_dir_of_others`], of a directory that may still have to be made.
pub(crate) fn refuse_place_of_others(disk: &dyn Disk, dir: &Path) -> Result<(), SealError> {
    let full = std::path::absolute(dir).unwrap_or_else(|_| dir.to_path_buf());
    let there = full.ancestors().find(|above| disk.root(above, Access::Read).is_ok());
    there.map_or(Ok(()), |above| refuse_dir_of_others(disk, above))
}

/// Refuses a directory in which another user can put shards, or exchange them. Root writes to no
/// set there: what its shards say is what that user likes to have done.
pub(crate) fn refuse_dir_of_others(disk: &dyn Disk, dir: &Path) -> Result<(), SealError> {
    let caller = Caller::or_by_sudo();
    if !caller.rules_others() {
        return Ok(());
    }
    let above = disk.above(dir).map_err(|e| SealError::io("reading", dir, e))?;
    let own = Found { owner: 0, group: 0, mode: 0 };
    match caller.put_by(own, &above) {
        owner if caller.trusts(owner) => Ok(()),
        owner => Err(SealError::OfAnother { path: dir.to_path_buf(), owner }),
    }
}

/// Who can have put a file into a directory, by where that is now: see [`Caller::put_by`]. If
/// nobody can tell, somebody.
pub(crate) fn put_by(disk: &dyn Disk, caller: &Caller, file: &Meta, dir: &Path) -> u32 {
    if !caller.trusts(file.owner) {
        return file.owner;
    }
    disk.above(dir).map_or(SOMEBODY, |above| caller.put_by(file, &above))
}
