//! Names of disks: the name under which a set knows a sealed path.
//!
//! A path is named by its last component, and by more of its components if several paths would get
//! one name; `--disk NAME=PATH` sets the name. An existing set keeps its names: it recognises a
//! path by `--disk`, by its sealed or last recorded place, or by its name.

use crate::Fault;
use crate::disk::{Access, Disk, MetaKind};
use crate::fault::sentences::paths;
use crate::links::kernel_path;
use crate::options::SealOptions;
use crate::records::Record;
use crate::set::disk_name;
use crate::set::names::{parent, path_of, shown};
use pantile_format::{Fields, Source};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The longest name that a directory can have.
const NAME_BYTES_MOST: usize = 255;

/// A path that the user named to be sealed.
#[derive(Clone)]
pub(crate) struct Given {
    /// As it was given.
    pub(crate) path: PathBuf,
    /// Absolute, without links.
    pub(crate) real: PathBuf,
    /// The name that was given with it.
    name: Option<Vec<u8>>,
    is_dir: bool,
}

/// Opens the paths to be sealed.
pub(crate) fn given(disk: &dyn Disk, options: &SealOptions) -> Result<Vec<Given>, Fault> {
    let plain = options.sources.iter().map(|path| (path, None));
    let named = options.disks.iter().map(|at| (&at.path, Some(at.name.as_bytes().to_vec())));
    let mut all = Vec::new();
    for (path, name) in plain.chain(named) {
        let (real, is_dir) = open_source(disk, path)?;
        if let Some(name) = name.as_ref().filter(|name| !is_name(name)) {
            return Err(Fault::request(format!("'{}' cannot be the name of a disk", shown(name))).hint(
                "it becomes a folder when the set is restored: not empty, without '/', and at most 255 bytes",
            ));
        }
        all.push(Given { path: path.clone(), real, name, is_dir });
    }
    check(&all)?;
    Ok(all)
}

fn is_name(name: &[u8]) -> bool {
    let is_component = !name.is_empty() && name != b"." && name != b"..";
    is_component && name.len() <= NAME_BYTES_MOST && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
}

/// Refuses paths that would be sealed twice.
fn check(all: &[Given]) -> Result<(), Fault> {
    for (at, inner) in all.iter().enumerate() {
        if let Some(first) = all[..at].iter().find(|first| first.real == inner.real) {
            return Err(same_name(&first.path, &inner.path));
        }
        let contains = |outer: &&Given| outer.real != inner.real && inner.real.starts_with(&outer.real);
        if let Some(outer) = all.iter().find(contains) {
            let (inner, outer) = (&inner.path, outer.path.display());
            return Err(Fault::request(format!(
                "{} lies in {outer} and would be sealed twice",
                inner.display()
            ))
            .at(inner)
            .hint("leave it out, or seal it as a set of its own"));
        }
    }
    Ok(())
}

fn same_name(first: &Path, second: &Path) -> Fault {
    let (first, second) = (first.display(), second.display());
    Fault::request(format!("{first} and {second} are one place, or have one name"))
        .hint("give each path once, with a name of its own: --disk NAME=PATH")
}

/// Opens a source, or the directory of a file, to be read; returns its path without links, and true
/// if it is a directory.
fn open_source(disk: &dyn Disk, path: &Path) -> Result<(PathBuf, bool), Fault> {
    let bad = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => Fault::no_source(path),
        _ => Fault::io("opening", path, error),
    };
    let real = kernel_path(path).map_err(bad)?;
    match disk.root(&real, Access::Read) {
        Ok(_) => return Ok((real, true)),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {}
        Err(error) => return Err(bad(error)),
    }
    disk.root(&parent(&real), Access::Read).map_err(bad)?;
    match disk.meta(&real).map_err(bad)?.kind {
        MetaKind::File => Ok((real, false)),
        _ => Err(Fault::no_source(path)),
    }
}

/// Returns the sources of a new set. A single directory is restored as the target itself, unless
/// the user gave it a name.
pub(crate) fn first(given: &[Given]) -> Result<Vec<Source>, Fault> {
    match given {
        [] => Err(Fault::no_sources()),
        [Given { real, name: None, is_dir: true, .. }] => {
            Ok(vec![source(real, Vec::new(), Fields::default())])
        }
        given => {
            let names = new_names(&given.iter().collect::<Vec<_>>(), &[])?;
            Ok(given.iter().zip(names).map(|(at, name)| source(&at.real, name, Fields::default())).collect())
        }
    }
}

/// Returns the sources of an existing set: those that it knows, in its order, then new ones. If
/// only disks were named, all other disks are taken from the places in the record.
///
/// Errors: a path that is recognised only by its name, unless the disks were `moved`; several moved
/// disks that cannot be matched with the paths.
pub(crate) fn again(
    disk: &dyn Disk,
    (mut given, moved): (Vec<Given>, bool),
    known: &[Source],
    record: Option<&Record>,
) -> Result<Vec<Source>, Fault> {
    // For each given path, the index of the known source that it is.
    let mut is: Vec<Option<usize>> = vec![None; given.len()];
    let only_named = given.iter().all(|at| at.name.is_some());
    for (at, given) in given.iter().enumerate() {
        let Some(name) = &given.name else { continue };
        claim(&mut is, at, known.iter().position(|source| disk_name(source) == *name));
    }
    // The only disk of a set is recognised by any name.
    if let (1, [Given { name: Some(_), .. }]) = (known.len(), &given[..]) {
        is[0] = Some(0);
    }
    let is_place = |source: &Source, real: &Path| {
        path_of(&source.path) == real
            || record.and_then(|record| record.path_of(&source.prefix)).is_some_and(|path| path == real)
    };
    for (at, path) in given.iter().enumerate() {
        let place = known.iter().position(|source| is_place(source, &path.real));
        let is_free = is[at].is_none() && !is.contains(&place);
        if let (Some(name), Some(place), true) = (&path.name, place, is_free) {
            return Err(other_name(&path.path, &disk_name(&known[place]), name));
        }
        claim(&mut is, at, place);
    }
    let is_sole = matches!(known, [only] if only.prefix.is_empty()) && given.len() == 1;
    for (at, path) in given.iter().enumerate() {
        if is[at].is_some() || path.name.is_some() {
            continue;
        }
        let is_called = |source: &Source| is_sole || Some(disk_name(source)) == last_name(&path.real);
        claim(&mut is, at, known.iter().position(is_called));
        if let Some(index) = is[at].filter(|_| !moved) {
            let have = path_of(&known[index].path).to_path_buf();
            let name = shown(&disk_name(&known[index]));
            let (have, given) = (have.display(), path.path.display());
            let what = format!("disk {name} of the set was sealed from {have}, not from {given}");
            return Err(Fault::request(what).at(&path.path).hint(format!(
                "if that is the same tree, which was moved, say --moved or --disk {name}={given}; another one needs a --name \
                 of its own, for it would take the place of what is sealed"
            )));
        }
    }
    let free: Vec<usize> = (0..known.len()).filter(|index| !is.contains(&Some(*index))).collect();
    let new: Vec<usize> =
        (0..given.len()).filter(|&at| is[at].is_none() && given[at].name.is_none()).collect();
    match (moved, &free[..], &new[..]) {
        (true, &[index], &[at]) => is[at] = Some(index),
        (true, [_, ..], [_, ..]) => {
            let names: Vec<String> = free.iter().map(|&index| shown(&disk_name(&known[index]))).collect();
            let given: Vec<PathBuf> = new.iter().map(|&at| given[at].path.clone()).collect();
            let what = format!("nothing tells which of {} is where ({})", names.join(", "), paths(&given));
            let hint = format!("say it with --disk {}=PATH and so on", names[0]);
            return Err(Fault::request(what).hint(hint));
        }
        _ => {}
    }
    for index in free.into_iter().filter(|_| only_named) {
        let Some(path) = record.and_then(|record| record.path_of(&known[index].prefix)) else { continue };
        let (real, is_dir) = open_source(disk, path)?;
        given.push(Given { path: path.to_path_buf(), real, name: None, is_dir });
        is.push(Some(index));
    }
    if given.is_empty() {
        return Err(Fault::no_sources());
    }
    check(&given)?;
    let unknown: Vec<&Given> =
        given.iter().zip(&is).filter(|(_, is)| is.is_none()).map(|(at, _)| at).collect();
    let mut names = new_names(&unknown, known)?.into_iter();
    let mut sources = Vec::new();
    for (at, is) in given.iter().zip(&is) {
        sources.push(match is {
            Some(index) => {
                (*index, source(&at.real, known[*index].prefix.clone(), known[*index].fields.clone()))
            }
            None => (known.len(), source(&at.real, names.next().unwrap_or_default(), Fields::default())),
        });
    }
    sources.sort_by_key(|(index, _)| *index);
    Ok(sources.into_iter().map(|(_, source)| source).collect())
}

/// Refuses a second name for a disk: what was restored or recorded has the first one.
fn other_name(path: &Path, has: &[u8], given: &[u8]) -> Fault {
    let (shown_path, has, given) = (path.display(), shown(has), shown(given));
    let what =
        format!("the disk at {shown_path} is called {has} in this set, not {given}, and keeps its name");
    Fault::request(what).at(path).hint(format!("say --disk {has}={shown_path}"))
}

/// Notes that a path is a known source, unless either was matched before.
fn claim(is: &mut [Option<usize>], at: usize, index: Option<usize>) {
    if is[at].is_none() && !is.contains(&index) {
        is[at] = index;
    }
}

fn source(real: &Path, prefix: Vec<u8>, fields: Fields) -> Source {
    Source { path: real.as_os_str().as_bytes().to_vec(), prefix, fields }
}

fn last_name(path: &Path) -> Option<Vec<u8>> {
    path.file_name().map(|name| name.as_bytes().to_vec())
}

/// Returns names for paths that a set does not know yet, all different.
fn new_names(given: &[&Given], known: &[Source]) -> Result<Vec<Vec<u8>>, Fault> {
    let mut taken: Vec<Vec<u8>> = known.iter().map(disk_name).collect();
    for at in given {
        let Some(name) = &at.name else { continue };
        if taken.contains(name) {
            let first = given.iter().find(|first| first.name.as_ref() == Some(name));
            let first = first.map_or(at.path.clone(), |first| first.path.clone());
            return Err(same_name(&first, &at.path));
        }
        taken.push(name.clone());
    }
    let lasts: Vec<Option<Vec<u8>>> = given.iter().map(|at| last_name(&at.real)).collect();
    let mut names = Vec::new();
    for (at, last) in given.iter().zip(&lasts) {
        let name = match (&at.name, last) {
            (Some(name), _) => name.clone(),
            (None, None) => return Err(Fault::no_source(&at.path)),
            (None, Some(last)) => {
                let others = given.iter().zip(&lasts).filter(|(other, _)| other.name.is_none());
                let is_alone = others.filter(|(_, other)| *other == &Some(last.clone())).count() == 1;
                let name = longer_names(&at.real)
                    .skip(usize::from(!is_alone))
                    .find(|name| is_name(name) && !taken.contains(name));
                let name = name.unwrap_or_else(|| numbered(last, &taken));
                taken.push(name.clone());
                name
            }
        };
        names.push(name);
    }
    Ok(names)
}

/// Returns the last component of a path, then the last two, and so on: `films`, `disk1-films`, ..
fn longer_names(path: &Path) -> impl Iterator<Item = Vec<u8>> {
    let parts: Vec<Vec<u8>> = path
        .components()
        .filter_map(|part| match part {
            std::path::Component::Normal(part) => Some(part.as_bytes().to_vec()),
            _ => None,
        })
        .collect();
    (1..=parts.len()).map(move |count| parts[parts.len() - count..].join(&b'-'))
}

fn numbered(last: &[u8], taken: &[Vec<u8>]) -> Vec<u8> {
    let short = &last[..last.len().min(NAME_BYTES_MOST - 20)];
    let name = |number: u32| [short, format!("-{number}").as_bytes()].concat();
    (2..).map(name).find(|name| !taken.contains(name)).unwrap_or_else(|| unreachable!("one is free"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &str, name: Option<&str>) -> Given {
        Given { path: path.into(), real: path.into(), name: name.map(|name| name.into()), is_dir: true }
    }

    fn names(given: &[Given], known: &[&str]) -> Vec<String> {
        let known: Vec<Source> =
            known.iter().map(|name| source(Path::new("/k"), (*name).into(), Fields::default())).collect();
        let names = new_names(&given.iter().collect::<Vec<_>>(), &known).unwrap();
        names.into_iter().map(|name| String::from_utf8(name).unwrap()).collect()
    }

    #[test]
    fn names_are_the_shortest_that_tell_paths_apart() {
        let pool = [at("/disk1/films", None), at("/disk2/films", None), at("/disk3/music", None)];
        assert_eq!(names(&pool, &[]), ["disk1-films", "disk2-films", "music"]);
        let turned: Vec<Given> = pool.iter().rev().cloned().collect();
        assert_eq!(names(&turned, &[]), ["music", "disk2-films", "disk1-films"]);
        assert_eq!(names(&[at("/disk2/films", None)], &["films"]), ["disk2-films"]);
        assert_eq!(names(&[at("/a", Some("films")), at("/films", None)], &[]), ["films", "films-2"]);
        assert_eq!(names(&[at("/a/b/films", None), at("/c/b/films", None)], &[]), ["b-films", "c-b-films"]);
        let same = [at("/a", Some("x")), at("/b", Some("x"))];
        let refused = new_names(&same.iter().collect::<Vec<_>>(), &[]);
        assert!(refused.unwrap_err().what.contains("one place, or have one name"));
    }
}
