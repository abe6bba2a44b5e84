//! Present places of the disks of a set.
//!
//! A set stores the names of its disks. The present path of a disk comes from the caller (`--disk
//! NAME=PATH`), else from the record in the state directory of the user who sealed. Paths that only
//! the set itself names are shown and read, but not searched or written to.

use super::{Set, open_root};
use crate::Fault;
use crate::disk::{Access, Disk, spelt_one_way};
use crate::fault::sentences::words;
use crate::links::kernel_path;
use crate::options::DiskAt;
use crate::records::{Record, note, record_of};
use crate::set::names::{parent, path_of, shown};
use pantile_format::{EntryKind, Manifest, Source};
use rustix::io::Errno;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The origin of the places of disks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Places {
    /// The caller named all places.
    Named,
    /// The places that the caller did not name are in this user's record of the set.
    Recorded,
    /// Some places come from the set alone. Its maker may have named any place, so these are not
    /// searched or written to.
    Claimed,
}

impl Places {
    /// True if sources may be searched for new files, and originals written.
    pub(crate) fn are_known(self) -> bool {
        self != Places::Claimed
    }
}

/// The places of the disks, in the order of the sources.
pub(crate) struct Found {
    pub(crate) paths: Vec<PathBuf>,
    /// By source: true if the caller named its place.
    pub(crate) named: Vec<bool>,
    pub(crate) places: Places,
}

/// Returns the name of a disk: the name under which it is restored. A source that is restored as
/// the target itself has the last component of its path as name.
pub(crate) fn disk_name(source: &Source) -> Vec<u8> {
    match source.prefix.is_empty() {
        false => source.prefix.clone(),
        true => path_of(&source.path).file_name().map_or(b"disk".to_vec(), |name| name.as_bytes().to_vec()),
    }
}

/// Returns the index of the source that is meant, and its path; in a set of one disk any name means
/// that disk.
fn meant(sources: &[Source], at: &DiskAt) -> Option<(usize, PathBuf)> {
    called(sources, at).or_else(|| (sources.len() == 1).then(|| (0, at.path.clone())))
}

/// Returns the index of the source with the name, and its path.
///
/// In `a=b=/x`, the longest name that a disk has is used.
fn called(sources: &[Source], at: &DiskAt) -> Option<(usize, PathBuf)> {
    let text = [at.name.as_bytes(), b"=", at.path.as_os_str().as_bytes()].concat();
    let rest =
        |source: &Source| Some(text.strip_prefix(disk_name(source).as_slice())?.strip_prefix(b"=")?.to_vec());
    let found = sources.iter().enumerate().filter_map(|(index, source)| Some((index, rest(source)?)));
    let (index, rest) = found.min_by_key(|(_, rest)| rest.len())?;
    Some((index, path_of(&rest).to_path_buf()))
}

/// Finds the places of the disks: as named, else as recorded, else as the set states.
///
/// With `is_read`, for a command that only reads, any name means the disk of a set of one.
///
/// Errors: a name of a disk that the set does not have; a named disk that is missing. For a file it
/// is enough that its directory exists.
pub(crate) fn find(
    disk: &dyn Disk,
    manifest: &Manifest,
    (named, is_read): (&[DiskAt], bool),
    record: Option<&Record>,
) -> Result<Found, Fault> {
    let sources = &manifest.sources;
    let mut paths: Vec<Option<PathBuf>> = vec![None; sources.len()];
    for at in named {
        let found = if is_read { meant(sources, at) } else { called(sources, at) };
        let Some((index, path)) = found else {
            let known: Vec<String> = sources.iter().map(|source| shown(&disk_name(source))).collect();
            return Err(Fault::unknown_disk(at.name.as_bytes(), &known));
        };
        let needed = source_dir(manifest, index, &path);
        if disk.root(&needed, Access::Read).is_err() {
            return Err(Fault::no_source(&needed));
        }
        paths[index] = Some(path);
    }
    let named: Vec<bool> = paths.iter().map(Option::is_some).collect();
    let is_led_away = |index: usize, path: &Path| {
        let opened = disk.root_through_no_link(&source_dir(manifest, index, path), Access::Read);
        // A missing disk stays missing.
        opened.is_err_and(|error| Errno::from_io_error(&error) == Some(Errno::LOOP))
    };
    let mut places = if named.iter().all(|is| *is) { Places::Named } else { Places::Recorded };
    let mut found = Vec::new();
    for (index, path) in paths.into_iter().enumerate() {
        let recorded = record.and_then(|record| record.path_of(&sources[index].prefix));
        let path = match (path, recorded) {
            (Some(path), _) => path,
            (None, recorded) => {
                let path = recorded.unwrap_or(path_of(&sources[index].path)).to_path_buf();
                // The path is examined in any case, since that also opens it.
                if is_led_away(index, &path) || recorded.is_none() {
                    places = Places::Claimed;
                }
                path
            }
        };
        found.push(path);
    }
    for (index, path) in found.iter().enumerate().filter(|(index, _)| named[*index]) {
        let is_same = |other: &usize| *other != index && spelt_one_way(&found[*other]) == spelt_one_way(path);
        if let Some(other) = (0..found.len()).find(is_same) {
            let [one, two] = [index, other].map(|at| shown(&disk_name(&sources[at])));
            let what = format!("{} is named as disk {one}, and disk {two} is there", path.display());
            return Err(Fault::request(what).at(path).hint("each disk of a set has a folder of its own"));
        }
    }
    Ok(Found { paths: found, named, places })
}

/// The directory of a source: the source itself, or its parent if it is a file.
fn source_dir(manifest: &Manifest, index: usize, path: &Path) -> PathBuf {
    let is_file = manifest.entries.iter().any(|entry| {
        entry.source as usize == index
            && entry.path.is_empty()
            && matches!(entry.kind, EntryKind::File { .. })
    });
    if is_file { parent(path) } else { path.to_path_buf() }
}

impl Set<'_> {
    /// Opens the sources for writing, so that originals can be repaired.
    pub(crate) fn open_sources_to_write(&self) {
        for (index, path) in self.sources.iter().enumerate() {
            // A missing directory stays lost.
            let _ = match self.named[index] {
                true => open_root(self.world.disk, path, Access::Write).map(drop),
                false => (self.world.disk)
                    .root_through_no_link(&source_dir(&self.manifest, index, path), Access::Write)
                    .map_err(|e| Fault::io("opening", path, e)),
            };
        }
    }

    /// Returns the names of the disks, as reports show them.
    pub(crate) fn disk_names(&self) -> Vec<String> {
        self.manifest.sources.iter().map(|source| shown(&disk_name(source))).collect()
    }

    /// Records the places that the caller named, if this user has a record of the set. Best effort:
    /// they can be named again.
    pub(crate) fn record_disks(&self, records: Option<&Path>) {
        let (disk, set) = (self.world.disk, self.manifest.set);
        let Some(records) = records.filter(|_| self.named.contains(&true)) else { return };
        let Some(record) = record_of(disk, records, set) else { return };
        let place = |(source, path): (&Source, &PathBuf)| {
            (source.prefix.clone(), kernel_path(path).unwrap_or_else(|_| path.clone()))
        };
        let disks: Vec<_> = self.manifest.sources.iter().zip(&self.sources).map(place).collect();
        let is_whole = disks.iter().all(|(_, path)| path.is_absolute());
        if is_whole && disks != record.disks {
            let _ = note(disk, records, (&set.to_string(), &record.manifest), &disks);
        }
    }

    /// Records the present state of the set as the last one that this user sealed, if there is a
    /// record.
    pub(crate) fn record_state(&self, records: Option<&Path>) {
        let (disk, set) = (self.world.disk, self.manifest.set);
        let Some(records) = records else { return };
        let Some(record) = record_of(disk, records, set) else { return };
        let manifest = crate::pin::told(&self.manifest);
        // Best effort: a later command warns that the state differs from the recorded one.
        let _ = note(disk, records, (&set.to_string(), &manifest), &record.disks);
    }

    /// Returns the command that seals the set again, with these options.
    pub(crate) fn seal_command(&self, disks: &str) -> String {
        let name = PathBuf::from(shown(&self.manifest.name));
        format!("pantile seal{disks} --out {} --name {}", words([&self.names.dir]), words([&name]))
    }

    /// Returns the option that names the place of a disk.
    pub(crate) fn disk_option(&self, index: usize, place: &Path) -> String {
        let mut option = path_of(&disk_name(&self.manifest.sources[index])).as_os_str().to_os_string();
        option.push("=");
        option.push(place);
        format!(" --disk {}", words([&PathBuf::from(option)]))
    }

    /// Refuses to seal the places that only the set itself names.
    pub(crate) fn unrecorded(&self) -> Fault {
        let places = self.manifest.sources.iter().map(|source| path_of(&source.path)).enumerate();
        let options: String = places.map(|(index, place)| self.disk_option(index, place)).collect();
        let what = "nothing to seal was named, and you have no record of sealing this set on this machine";
        let hint = "say where each disk is now; with the places of the last seal that is";
        Fault::request(what).hint(format!("{hint} '{}'", self.seal_command(&options)))
    }

    /// Returns the disks with their present places.
    pub(crate) fn disks(&self) -> Vec<DiskAt> {
        let at = |(source, path): (&Source, &PathBuf)| DiskAt {
            name: path_of(&disk_name(source)).as_os_str().to_os_string(),
            path: path.clone(),
        };
        self.manifest.sources.iter().zip(&self.sources).map(at).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantile_format::Fields;

    fn source(path: &str, prefix: &str) -> Source {
        Source { path: path.into(), prefix: prefix.into(), fields: Fields::default() }
    }

    #[test]
    fn a_disk_is_known_by_its_whole_name() {
        let two = [source("/x/a", "a"), source("/y", "a=b")];
        let at = |name: &str, path: &str| DiskAt { name: name.into(), path: path.into() };
        assert_eq!(meant(&two, &at("a", "/new")), Some((0, "/new".into())));
        assert_eq!(meant(&two, &at("a", "b=/new")), Some((1, "/new".into())));
        assert_eq!(meant(&two, &at("c", "/new")), None);
        assert_eq!(meant(&[source("/x/photos", "")], &at("any", "/new")), Some((0, "/new".into())));
        assert_eq!(disk_name(&source("/x/photos", "")), b"photos");
    }
}
