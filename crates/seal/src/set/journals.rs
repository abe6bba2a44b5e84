//! The journals that are found when a set is opened: commands that write finish them, commands that
//! read report them.

use super::found::is_uuid;
use super::{Opening, Pending};
use crate::apply::journal::{has_shards, is_to_be_done, journals, replay};
use crate::apply::lock::{Lock, lock, refuse_if_locked};
use crate::disk::{Access, Disk, spelt_one_way};
use crate::options::Progress;
use crate::set::names::{Names, parent, set_of, shown};
use crate::set::shard::behind_links;
use crate::{Fault, FaultKind, World};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// For a command that writes: locks the directories, and those behind links to shards, and applies
/// their journals. For any other command: only lists the journals with work left.
pub(super) fn finish_journals(
    world: World<'_>,
    dirs: &[PathBuf],
    opening: &Opening<'_>,
    progress: &dyn Progress,
) -> Result<(Lock, Vec<PathBuf>), Fault> {
    let pending = || -> Result<Vec<PathBuf>, Fault> {
        let mut pending = Vec::new();
        for dir in dirs {
            pending.extend(journals(world.disk, dir)?);
        }
        // Journals can also be in the directories of shards to which links lead.
        let real = dirs.iter().flat_map(|dir| behind_links(world.disk, dir));
        pending.extend(real.filter_map(|shard| journal_beside(world.disk, &shard)));
        let mut seen = HashSet::new();
        pending.retain(|journal| seen.insert(spelt_one_way(journal)));
        // If a name selects the set, journals of other sets are ignored.
        let name = opening.paths.name.as_deref();
        pending.retain(|path| {
            let file = path.file_name().and_then(crate::set::names::journal_name);
            let of = || crate::apply::journal::set_of_journal(world.disk, path);
            name.is_none_or(|name| {
                file.is_some_and(|file| shown(file) == name) || of().is_some_and(|set| is_uuid(set, name))
            })
        });
        let mut of_shards = Vec::new();
        for journal in pending {
            // A file that is not a journal may also have such a name.
            if has_shards(world.disk, &journal, dirs)? {
                of_shards.push(journal);
            }
        }
        Ok(of_shards)
    };
    let named = &opening.paths.paths;
    let lock = || lock(world.disk, dirs, named);
    let mut held = Lock::default();
    match (opening.alone, opening.locked) {
        (_, true) => {}
        (true, false) => held = lock()?,
        (false, false) => refuse_if_locked(world.disk, dirs, named)?,
    }
    let found = pending()?;
    if opening.pending != Pending::Done {
        let mut left = Vec::new();
        for journal in found {
            if is_to_be_done(&world, &journal, dirs, progress)? {
                left.push(journal);
            }
        }
        return Ok((held, left));
    }
    if found.is_empty() {
        return Ok((held, Vec::new()));
    }
    for dir in dirs.iter().chain(&found.iter().map(|journal| parent(journal)).collect::<Vec<_>>()) {
        world.disk.root(dir, Access::Write).map_err(|e| Fault::io("opening", dir, e))?;
    }
    let only_now = if opening.alone || opening.locked { None } else { Some(lock()?) };
    // The journals are listed again, since another command may have finished them before the lock
    // was taken.
    pending()?.iter().try_for_each(|journal| {
        replay(&world, journal, dirs, progress).map(|_| ()).map_err(|error| match error.kind {
            FaultKind::BadJournal => error,
            _ => Fault::unfinished(journal, error),
        })
    })?;
    drop(only_now);
    Ok((held, Vec::new()))
}

/// Returns the journal in the directory of a shard, of the set to which the shard belongs by its
/// name.
fn journal_beside(disk: &dyn Disk, shard: &Path) -> Option<PathBuf> {
    let name = set_of(shard.file_name()?)?;
    let journal = Names::new(parent(shard), name, 0).journal();
    disk.meta(&journal).is_ok().then_some(journal)
}
