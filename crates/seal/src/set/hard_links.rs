//! Hard links: which file has the content of an entry, and the present state of the names.

use super::{Original, Set, same};
use crate::report::FileStatus;
use crate::set::times::is_same_time;
use crate::update::size_of;

impl Set<'_> {
    /// Returns the file that has the content of an entry: the entry itself, or the file of which it
    /// is a hard link.
    pub(crate) fn content_of(&self, entry: usize) -> usize {
        self.files.get(&entry).copied().unwrap_or(entry)
    }

    /// Distinguishes hard links from files that replaced one. A file whose own name is lost is read
    /// through one of its hard links.
    pub(super) fn look_at_hard_links(&mut self) {
        self.read_by.clear();
        let mut links: Vec<(usize, usize)> = self.files.iter().map(|(&link, &file)| (link, file)).collect();
        links.sort_unstable();
        for (link, file) in links {
            let is_there = |original: &Original| original.status == FileStatus::Unchanged;
            let Some(own) = self.originals[link].clone().filter(is_there) else { continue };
            let Ok(meta) = self.world.disk.meta(&own.path) else { continue };
            let entry = &self.manifest.entries[file];
            let looks_sealed = meta.size == size_of(entry)
                && (is_same_time(entry.mtime, meta.mtime) || self.is_under_repair(file));
            let path = self.original_path(file);
            if let Some(original) = &mut self.originals[file]
                && (original.status, &original.path) == (FileStatus::Missing, &path)
                && looks_sealed
            {
                original.path = own.path.clone();
                self.read_by.insert(file, link);
            }
            let of = self.originals[file].as_ref().and_then(|of| self.world.disk.meta(&of.path).ok());
            let status = same(of.is_some_and(|of| of.id == meta.id));
            self.originals[link] = Some(Original { path: own.path, status });
        }
    }
}
