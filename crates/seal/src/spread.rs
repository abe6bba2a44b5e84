//! A set whose shards are in several directories, as on several disks. Each directory has a link to
//! every shard in the others, so that the path of any of them is enough to find the set.
//!
//! The links are a convenience and are made when the work is done. Without them, as on a file
//! system that has none, the user must name all directories.

use crate::disk::{Access, Disk, MetaKind, exact_now, resolve};
use crate::links::kernel_path;
use crate::options::Progress;
use crate::set::names::{Names, column_of, parent, shown_path, temp};
use crate::set::shard::{open_shard, read_header};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Gives each directory links to those shards of the set that are in other directories of `all`,
/// each link under the shard's own name.
pub(crate) fn link_others(
    disk: &dyn Disk,
    (all, name): (&[PathBuf], &[u8]),
    dirs: &[PathBuf],
    progress: &dyn Progress,
) {
    let (mut shards, columns) = shards_in(disk, all, name);
    let names = |dir: PathBuf| Names::new(dir, name.to_vec(), columns);
    let here: Vec<PathBuf> = dirs.iter().filter_map(|dir| kernel_path(dir).ok()).collect();
    // If a link of the user leads to a shard, the shard can have any name. It gets its own name
    // here.
    for (&column, real) in shards.iter_mut().filter(|(_, real)| here.contains(&parent(real))) {
        let own = names(parent(real)).shard(column);
        if *real != own && give_name(disk, real, &own).is_ok() {
            *real = own;
        }
    }
    all.iter().for_each(|dir| remove_idle(disk, &names(dir.clone()), &shards));
    for dir in dirs {
        let names = names(dir.clone());
        let here = kernel_path(dir).unwrap_or_else(|_| dir.clone());
        let apart = shards.iter().filter(|(_, real)| parent(real) != here);
        let failed = apart.filter_map(|(&column, real)| link(disk, real, &names.shard(column)).err()).next();
        if let Some(error) = failed {
            let dir = shown_path(&dir);
            progress.warn(&format!(
                "{dir} has no links to the shards in the other directories ({error}); name all directories in each command"
            ));
        }
    }
}

/// Returns the directories, and those that links in them lead to, if these also have links back to
/// shards of the set.
pub(crate) fn with_linked(disk: &dyn Disk, dirs: &[PathBuf], name: &[u8]) -> Vec<PathBuf> {
    let mut all = dirs.to_vec();
    let here: Vec<PathBuf> = dirs.iter().filter_map(|dir| kernel_path(dir).ok()).collect();
    for path in dirs.iter().flat_map(|dir| named_so(disk, dir, name)) {
        let real = resolve(disk, &path).and_then(|real| kernel_path(&parent(&real)));
        let is_new = |dir: &PathBuf| !here.contains(dir) && !all.contains(dir) && has_links(disk, dir, name);
        all.extend(real.ok().filter(is_new));
    }
    all
}

/// True for a directory with shards of the set that are no links.
pub(crate) fn has_shards(disk: &dyn Disk, dir: &Path, name: &[u8]) -> bool {
    named_so(disk, dir, name).iter().any(|path| disk.read_link(path).is_err())
}

/// True for a directory that has links to shards of the set.
pub(crate) fn has_links(disk: &dyn Disk, dir: &Path, name: &[u8]) -> bool {
    named_so(disk, dir, name).iter().any(|path| disk.read_link(path).is_ok())
}

/// Looks in directories for files that are named as shards of the set. Returns one path for each
/// column that a header states, and the number of columns of the code, 0 if no header can be read.
fn shards_in(disk: &dyn Disk, dirs: &[PathBuf], name: &[u8]) -> (BTreeMap<usize, PathBuf>, usize) {
    let mut shards = BTreeMap::new();
    let mut columns = 0;
    let mut paths: Vec<PathBuf> = dirs.iter().flat_map(|dir| named_so(disk, dir, name)).collect();
    // Files come before links: a link may lead to the former place of a shard.
    paths.sort_by_key(|path| disk.read_link(path).is_ok());
    for path in paths {
        let header = open_shard(disk, &path).ok().and_then(|file| read_header(&*file).ok());
        let real = resolve(disk, &path).and_then(|real| kernel_path(&real));
        if let (Some((header, _)), Ok(real)) = (header, real) {
            columns = columns.max(header.columns as usize);
            shards.entry(header.column.0 as usize).or_insert(real);
        }
    }
    (shards, columns)
}

/// Returns the paths in a directory with the name of a shard of the set.
pub(crate) fn named_so(disk: &dyn Disk, dir: &Path, name: &[u8]) -> Vec<PathBuf> {
    let files = disk.list(dir).unwrap_or_default();
    let is_named = |file: &PathBuf| column_of(file.as_os_str(), name).is_some();
    files.into_iter().filter(is_named).map(|file| dir.join(file)).collect()
}

/// Removes links that lead nowhere to shards that have other names: those of other columns, or
/// temporary ones of a change that was cut off. The other links show where a lost shard belongs.
fn remove_idle(disk: &dyn Disk, names: &Names, shards: &BTreeMap<usize, PathBuf>) {
    let has_other_name = |path: &Path| {
        let Ok(to) = resolve(disk, path) else { return false };
        let has_shard = |dir: PathBuf| shards.values().any(|real| parent(real) == dir);
        disk.meta(&temp(&to)).is_ok() || kernel_path(&parent(&to)).is_ok_and(has_shard)
    };
    for path in named_so(disk, &names.dir, &names.name) {
        let is_own = shards.keys().any(|&column| names.shard(column) == path);
        if !is_own && is_idle(disk, &path) && has_other_name(&path) {
            let _ = disk.remove(&path);
        }
    }
}

/// True for a link without a target.
fn is_idle(disk: &dyn Disk, path: &Path) -> bool {
    let is_link = disk.meta(path).is_ok_and(|meta| meta.kind == MetaKind::Symlink);
    is_link && resolve(disk, path).is_ok_and(|to| disk.meta(&to).is_err())
}

/// Renames a shard to a free name, or over a link without a target.
fn give_name(disk: &dyn Disk, from: &Path, to: &Path) -> std::io::Result<()> {
    disk.root(&parent(to), Access::Write)?;
    match is_idle(disk, to) || disk.meta(to).is_err() {
        true => disk.rename(from, to),
        false => Err(std::io::ErrorKind::AlreadyExists.into()),
    }
}

/// Makes a link to a shard at a free path, or replaces another link there.
fn link(disk: &dyn Disk, real: &Path, path: &Path) -> std::io::Result<()> {
    disk.root(&parent(path), Access::Write)?;
    if disk.read_link(path).is_ok_and(|to| to != real) {
        disk.remove(path)?;
    }
    match disk.meta(path) {
        Ok(_) => Ok(()),
        Err(_) => disk.make_link(real, path, (exact_now(), None)),
    }
}
