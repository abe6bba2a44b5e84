//! Whose the shards of a set are, and what follows for whoever writes to them, or takes what they
//! say of rights: the rules of `docs/security.md`.

use super::Set;
use crate::SealError;
use crate::disk::{Disk, FileId, Meta, MetaKind, resolve};
use crate::names::parent;
use crate::shard::Shard;
use crate::times::is_since;
use crate::tree::Way;
use pantile_format::{EntryKind, Mode};
use pantile_trust::{Caller, Found, SOMEBODY};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

impl Set<'_> {
    /// Whether nobody but this user can have changed the shards, or put them where they are: then
    /// what they say of her files is what she sealed.
    ///
    /// Asked once, as is [`put_by_another`](Set::put_by_another): what was opened stays.
    pub(crate) fn is_hers_alone(&self) -> bool {
        *self.is_hers_alone.get_or_init(|| self.find_whether_hers_alone())
    }

    fn find_whether_hers_alone(&self) -> bool {
        let (disk, caller) = (self.world.disk, Caller::or_by_sudo());
        let is_ours =
            |meta: io::Result<Meta>, kind| meta.is_ok_and(|meta| crate::records::is_ours(&meta, kind));
        let is_hers = |(_, metas): (&Shard, io::Result<(Meta, PathBuf)>)| {
            metas.is_ok_and(|(file, dir)| {
                is_ours(Ok(file), MetaKind::File)
                    && is_ours(disk.meta(&dir), MetaKind::Dir)
                    && put_by(disk, &caller, &file, &dir) == file.owner
            })
        };
        self.dirs.iter().all(|dir| is_ours(disk.meta(dir), MetaKind::Dir))
            && self.shards_and_dirs().all(is_hers)
    }

    /// From here on what becomes of the set is shown to whoever can have put its shards there, who
    /// could learn by it what a file holds, or whether one is there: refuses originals that this
    /// user does not know anyway, unless the person named the sources.
    ///
    /// Whether there is one where that user cannot look is not asked, since a refusal shows, too.
    pub(crate) fn refuse_originals_of_others(&mut self) -> Result<(), SealError> {
        self.is_told = self.trust.recorded.is_some();
        let mut known = HashMap::new();
        for index in 0..self.manifest.entries.len() {
            let path = self.original_path(index);
            let dir = parent(&path);
            let hidden = *known.entry(dir).or_insert_with_key(|dir| self.hidden_by(dir));
            let is_file = matches!(self.manifest.entries[index].kind, EntryKind::File { .. });
            let meta = self.world.disk.meta(&path).ok().filter(|meta| is_file && meta.kind == MetaKind::File);
            let closed = meta.filter(|meta| !self.is_known(meta)).map(|meta| meta.owner);
            if let Some(owner) = hidden.or(closed) {
                return Err(SealError::OriginalOfAnother { path, owner });
            }
        }
        Ok(())
    }

    /// Whether a file may be read for what is computed.
    pub(crate) fn may_tell_of(&self, path: &Path, file: &Meta) -> bool {
        self.is_known(file) && self.hidden_by(&parent(path)).is_none()
    }

    /// Whether whoever is told what becomes of the set can read a file, where it can be looked at.
    fn is_known(&self, file: &Meta) -> bool {
        let told = self.told();
        told.is_none_or(|told| file.owner == told || Found::from(file).is_for_everybody())
    }

    /// Who owns a directory at or above this one in which whoever is told what becomes of the set
    /// cannot look.
    fn hidden_by(&self, dir: &Path) -> Option<u32> {
        const ALL_SEE: u32 = 0o055;
        let told = self.told()?;
        // What is not there hides nothing.
        let there = dir.ancestors().find_map(|dir| self.world.disk.above(dir).ok())?;
        let is_hidden = |dir: &&Meta| dir.owner != told && dir.mode & ALL_SEE != ALL_SEE;
        there.iter().find(is_hidden).map(|dir| dir.owner)
    }

    /// Who is told what becomes of the set, and is not trusted.
    fn told(&self) -> Option<u32> {
        if self.is_told && !self.trust.is_named() { self.put_by_another() } else { None }
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

    /// The usable shards, each with the directory in which it really lies.
    fn shards_and_dirs(&self) -> impl Iterator<Item = (&Shard, io::Result<(Meta, PathBuf)>)> {
        let disk = self.world.disk;
        let metas = move |shard: &Shard| Ok((shard.file.meta()?, parent(&resolve(disk, &shard.path)?)));
        self.shards.iter().flatten().map(move |shard| (shard, metas(shard)))
    }

    /// Whether whoever owns the shards made all that they say: then what they say of rights is what
    /// that user wanted. Otherwise who wrote the manifest may have put shards under it that are not
    /// for everybody to read.
    pub(crate) fn is_of_one_alone(&self) -> bool {
        let caller = Caller::alone();
        let with_dir = |(file, dir): (Meta, PathBuf)| Some((file, self.world.disk.meta(&dir).ok()?));
        let all: Option<Vec<(Meta, Meta)>> =
            self.shards_and_dirs().map(|(_, metas)| metas.ok().and_then(with_dir)).collect();
        let Some(all) = all else { return false };
        let first = all.first().map(|(file, _)| file.owner);
        all.iter().all(|(file, _)| Found::from(file).is_for_everybody())
            || all.iter().all(|(file, dir)| Some(file.owner) == first && caller.is_of_one_alone(file, dir))
    }

    /// Refuses to write to shards that another user put where they are. For whom root writes: the
    /// user whose shards they are, all of them; `None` if they are the caller's or root's.
    ///
    /// Shards of several owners are nobody's to be brought up to date: what is made of those of one
    /// would be another's. A directory of another user counts as its owner's, whoever owns the
    /// shards in it: what root has restored for that user can lie there.
    pub(crate) fn owner_to_write_for(&self) -> Result<Option<u32>, SealError> {
        let caller = Caller::or_by_sudo();
        let (mut of_another, mut for_user) = (None, None);
        let (mut owners, mut putters) = (BTreeSet::new(), BTreeSet::new());
        for (shard, metas) in self.shards_and_dirs() {
            let (file, dir) = metas.map_err(|e| SealError::io("reading", &shard.path, e))?;
            let putter = put_by(self.world.disk, &caller, &file, &dir);
            putters.insert(putter);
            owners.insert(file.owner);
            if !caller.trusts(putter) {
                of_another = of_another.or(Some((shard.path.clone(), putter)));
            }
            if !caller.trusts(file.owner) {
                for_user = Some(file.owner);
            }
            let dir = self.world.disk.meta(&dir).map_err(|e| SealError::io("reading", &dir, e))?;
            if !caller.may_change(&file, &dir) {
                return Err(SealError::OfAnother { path: shard.path.clone(), owner: file.owner });
            }
        }
        match of_another {
            Some((path, owner)) if owners.len().max(putters.len()) > 1 => {
                Err(SealError::OfAnother { path, owner })
            }
            _ => Ok(for_user),
        }
    }

    /// The user whom the caller does not trust and who can have put all shards where they are;
    /// `None` if that is nobody.
    pub(crate) fn put_by_another(&self) -> Option<u32> {
        *self.putter.get_or_init(|| self.find_putter())
    }

    fn find_putter(&self) -> Option<u32> {
        let caller = Caller::or_by_sudo();
        let putter = |(_, metas): (&Shard, io::Result<(Meta, PathBuf)>)| {
            metas.map_or(SOMEBODY, |(file, dir)| put_by(self.world.disk, &caller, &file, &dir))
        };
        self.shards_and_dirs().map(putter).find(|&owner| !caller.trusts(owner))
    }

    /// Whether the shards say what is written to originals that nobody has named: they are where
    /// only whoever root trusts can have put them, or all of one user whose every source is.
    pub(crate) fn may_say_what_is_written(&self) -> bool {
        let caller = Caller::or_by_sudo();
        let mut owners = BTreeSet::new();
        for (_, metas) in self.shards_and_dirs() {
            let Ok((file, dir)) = metas else { return false };
            owners.insert(put_by(self.world.disk, &caller, &file, &dir));
        }
        // What is not there would be made in the directory above.
        let is_of = |source: &PathBuf, owner: u32| {
            let found = self.world.disk.meta(source).or_else(|_| self.world.disk.meta(&parent(source)));
            found.is_ok_and(|meta| meta.owner == owner)
        };
        let is_of_one = |owner: u32| {
            owners.len() == 1 && caller.is_root() && self.sources.iter().all(|source| is_of(source, owner))
        };
        owners.iter().all(|&owner| caller.trusts(owner) || is_of_one(owner))
    }

    /// Refuses to write what is read to shards of root's that others may read, in a directory of a
    /// user who may have put them there.
    pub(crate) fn refuse_if_shown(&self) -> Result<(), SealError> {
        let caller = Caller::or_by_sudo();
        for (shard, metas) in self.shards_and_dirs() {
            let (file, dir) = metas.map_err(|e| SealError::io("reading", &shard.path, e))?;
            let owner = put_by(self.world.disk, &caller, &file, &dir);
            if caller.trusts(file.owner) && !caller.trusts(owner) && file.mode & 0o077 != 0 {
                return Err(SealError::OfAnother { path: dir, owner });
            }
        }
        Ok(())
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

/// Who can have put a file into a directory, by where that is now: see [`Caller::put_by`]. If
/// nobody can tell, somebody.
pub(crate) fn put_by(disk: &dyn Disk, caller: &Caller, file: &Meta, dir: &Path) -> u32 {
    if !caller.trusts(file.owner) {
        return file.owner;
    }
    disk.above(dir).map_or(SOMEBODY, |above| caller.put_by(file, &above))
}
