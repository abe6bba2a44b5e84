//! Whose the shards of a set are, and what follows for whoever writes to them, or takes what they
//! say of rights: the rules of `docs/security.md`.

use super::Set;
use crate::SealError;
use crate::disk::{Meta, MetaKind, resolve};
use crate::names::parent;
use crate::shard::Shard;
use pantile_trust::{Caller, Found};
use std::collections::BTreeSet;
use std::io;

impl Set<'_> {
    /// Whether nobody but this user can have changed the shards: then what they say of her files is
    /// what she sealed.
    pub(crate) fn is_hers_alone(&self) -> bool {
        let is_ours =
            |meta: io::Result<Meta>, kind| meta.is_ok_and(|meta| crate::records::is_ours(&meta, kind));
        let mut shards = self.shards.iter().flatten();
        self.dirs.iter().all(|dir| is_ours(self.world.disk.meta(dir), MetaKind::Dir))
            && shards.all(|shard| is_ours(shard.file.meta(), MetaKind::File))
    }

    /// The usable shards, each with the directory in which it really lies.
    fn shards_and_dirs(&self) -> impl Iterator<Item = (&Shard, io::Result<(Meta, Meta)>)> {
        let disk = self.world.disk;
        let metas =
            move |shard: &Shard| Ok((shard.file.meta()?, disk.meta(&parent(&resolve(disk, &shard.path)?))?));
        self.shards.iter().flatten().map(move |shard| (shard, metas(shard)))
    }

    /// Whether whoever owns the shards made all that they say: then what they say of rights is what
    /// that user wanted. Otherwise who wrote the manifest may have put shards under it that are not
    /// for everybody to read.
    pub(crate) fn is_of_one_alone(&self) -> bool {
        let caller = Caller::alone();
        let all: Option<Vec<(Meta, Meta)>> = self.shards_and_dirs().map(|(_, metas)| metas.ok()).collect();
        let Some(all) = all else { return false };
        let first = all.first().map(|(file, _)| file.owner);
        all.iter().all(|(file, _)| Found::from(file).is_for_everybody())
            || all.iter().all(|(file, dir)| Some(file.owner) == first && caller.is_of_one_alone(file, dir))
    }

    /// Refuses to write to shards that another user put where they are. For whom root writes: the
    /// user whose shards they are, all of them; `None` if they are the caller's or root's.
    ///
    /// Shards of several owners are nobody's to be brought up to date: what is made of those of one
    /// would be another's.
    pub(crate) fn owner_to_write_for(&self) -> Result<Option<u32>, SealError> {
        let caller = Caller::or_by_sudo();
        let mut of_another = None;
        let mut owners = BTreeSet::new();
        for (shard, metas) in self.shards_and_dirs() {
            let (file, dir) = metas.map_err(|e| SealError::io("reading", &shard.path, e))?;
            owners.insert(file.owner);
            if !caller.trusts(file.owner) {
                of_another = of_another.or(Some((shard.path.clone(), file.owner)));
            }
            if !caller.may_change(&file, &dir) {
                return Err(SealError::OfAnother { path: shard.path.clone(), owner: file.owner });
            }
        }
        match of_another {
            Some((path, owner)) if owners.len() > 1 => Err(SealError::OfAnother { path, owner }),
            of_another => Ok(of_another.map(|(_, owner)| owner)),
        }
    }

    /// Whose a shard is that root makes anew: of whoever owns all the others.
    pub(crate) fn owner_of_all(&self) -> Option<u32> {
        let mut owners =
            self.shards.iter().flatten().map(|shard| shard.file.meta().ok().map(|meta| meta.owner));
        let first = owners.next()?;
        first.filter(|_| Caller::alone().is_root() && owners.all(|owner| owner == first))
    }
}
