//! Gives shards their own names back, since lost shards are rebuilt under their own names, and the
//! journal identifies shards by name.
//!
//! Invariant: every step renames one shard to a free name under which shards of this set are found.
//! After a kill between two steps all shards are found, and the next command continues.

use crate::Fault;
use crate::report::{Renamed, ShardStatus};
use crate::set::Set;
use crate::set::names::{column_of, parent};
use std::path::{Path, PathBuf};

/// Renames the shards that have the name of another column. With `all`, shards in the set's
/// directory that have any other name are renamed too. If a shard's own name belongs to a file that
/// is not such a shard, both keep their names.
pub(crate) fn give_names_back(set: &mut Set<'_>, all: bool) -> Result<Vec<Renamed>, Fault> {
    let before: Vec<Option<PathBuf>> =
        set.shards.iter().map(|shard| shard.as_ref().map(|shard| shard.path.clone())).collect();
    let mut broken = Vec::new();
    loop {
        let wrong: Vec<(usize, PathBuf)> =
            (0..set.shards.len()).filter_map(|column| Some((column, own_name(set, column, all)?))).collect();
        let free = wrong.iter().find(|(_, own)| set.world.disk.meta(own).is_err());
        let step = free.cloned().or_else(|| Some((circle(set, &wrong)?, PathBuf::new())));
        match step {
            None => match broken_holder(set, &wrong) {
                Some(column) => {
                    broken.push(column);
                    rename_broken(set, column, parked_name(set, column))?;
                }
                None => break,
            },
            // One shard of a cycle gets a temporary name, so that the others can get theirs.
            Some((column, to)) if to.as_os_str().is_empty() => rename(set, column, parked_name(set, column))?,
            Some((column, to)) => rename(set, column, to)?,
        }
    }
    for column in broken {
        let own =
            set.status[&column].0.with_file_name(set.names.shard(column).file_name().unwrap_or_default());
        if set.world.disk.meta(&own).is_err() {
            rename_broken(set, column, own)?;
        }
    }
    let pairs = before.into_iter().zip(&set.shards);
    let moved = pairs.filter_map(|(from, shard)| {
        let (from, to) = (from?, &shard.as_ref()?.path);
        (from != *to).then(|| Renamed::new(&from, to))
    });
    Ok(moved.collect())
}

/// Returns the path that the shard of a column should have, if it must be renamed.
fn own_name(set: &Set<'_>, column: usize, all: bool) -> Option<PathBuf> {
    let path = &set.shards[column].as_ref()?.path;
    let here = || parent(path) == set.names.dir;
    set.misnamed(column, path).or_else(|| {
        let own = set.names.shard(column);
        (all && here() && *path != own).then_some(own)
    })
}

/// Returns the column of a broken shard that has another shard's own name. Its column is known from
/// its header.
fn broken_holder(set: &Set<'_>, wrong: &[(usize, PathBuf)]) -> Option<usize> {
    let is_known = |status: &ShardStatus| matches!(status, ShardStatus::Truncated { .. });
    let is_read = |path: &Path| set.shards.iter().flatten().any(|shard| shard.path == path);
    let mut broken = set.status.iter().filter(|(_, (path, status))| is_known(status) && !is_read(path));
    let found = broken.find(|(column, (path, _))| wrong.iter().any(|(of, own)| of != *column && own == path));
    found.map(|(column, _)| *column)
}

/// Renames a broken shard.
fn rename_broken(set: &mut Set<'_>, column: usize, to: PathBuf) -> Result<(), Fault> {
    let disk = set.world.disk;
    let Some((from, _)) = set.status.get_mut(&column) else { return Ok(()) };
    disk.rename(from, &to).map_err(|e| Fault::io("renaming", from, e))?;
    let dir = parent(&to);
    *from = to;
    disk.sync_dir(&dir).map_err(|e| Fault::io("syncing", &dir, e))
}

/// Returns a shard in a cycle of shards that have each other's names.
fn circle(set: &Set<'_>, wrong: &[(usize, PathBuf)]) -> Option<usize> {
    let path = |column: usize| set.shards[column].as_ref().map(|shard| shard.path.as_path());
    let holder = |name: &Path| wrong.iter().find(|(column, _)| path(*column) == Some(name));
    let returns = |first: &&(usize, PathBuf)| {
        let mut at = holder(&first.1);
        for _ in 0..wrong.len() {
            match at {
                Some((column, _)) if *column == first.0 => return true,
                Some((_, own)) => at = holder(own),
                None => return false,
            }
        }
        false
    };
    wrong.iter().find(returns).map(|(column, _)| *column)
}

/// Returns a free name beside a shard that still denotes its column: the column number has more
/// digits than in any regular name.
fn parked_name(set: &Set<'_>, column: usize) -> PathBuf {
    let read = set.shards[column].as_ref().map(|shard| &shard.path);
    let path = read.or_else(|| set.status.get(&column).map(|(path, _)| path));
    let dir = path.map_or_else(|| set.names.dir.clone(), |path| parent(path));
    let name = |more: usize| dir.join(set.names.with_digits_more(column, more));
    (1..)
        .map(name)
        .find(|name| set.world.disk.meta(name).is_err())
        .unwrap_or_else(|| unreachable!("one is free"))
}

fn rename(set: &mut Set<'_>, column: usize, to: PathBuf) -> Result<(), Fault> {
    let disk = set.world.disk;
    let Some(shard) = &mut set.shards[column] else { return Ok(()) };
    let from = std::mem::replace(&mut shard.path, to.clone());
    disk.rename(&from, &to).map_err(|e| Fault::io("renaming", &from, e))?;
    let dir = parent(&to);
    disk.sync_dir(&dir).map_err(|e| Fault::io("syncing", &dir, e))?;
    if let Some((told, _)) = set.status.get_mut(&column).filter(|(told, _)| *told == from) {
        *told = to;
    }
    Ok(())
}

/// True if a file has the name of a shard of the set, with any number.
pub(crate) fn is_called_like_one(set: &Set<'_>, path: &Path) -> bool {
    path.file_name().is_some_and(|file| column_of(file, &set.names.name).is_some())
}
