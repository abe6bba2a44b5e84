//! Selection of paths: patterns in the words of a `.gitignore`, and paths by their names.
//!
//! A pattern without a slash is a name at any depth; one with a slash is a path from the top. `*`
//! does not match a slash, `**` does. A pattern that ends in a slash matches only directories. A
//! directory includes its content. Of several matching patterns the last one decides, and one that
//! begins with `!` excludes.

use crate::Fault;
use crate::disk::MetaKind;
use crate::links::kernel_path;
use crate::set::names::{parent, path_of, shown};
use crate::set::{Set, disk_name};
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use pantile_format::{EntryKind, Extent, LeftOut, Mode, Source};
use std::collections::HashSet;
use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The paths of a set that a command works on; all paths if none is named.
#[derive(Clone, Debug, Default)]
pub struct Select {
    /// Patterns, matched with the paths in the restored tree.
    pub patterns: Vec<String>,
    /// Files and directories, by their path in the restored tree or by that of the original.
    pub paths: Vec<PathBuf>,
    /// Disks of the set by their names, with all their content.
    pub disks: Vec<OsString>,
}

impl Select {
    /// True if no path is named, so that all are selected.
    pub fn is_all(&self) -> bool {
        self.patterns.is_empty() && self.paths.is_empty() && self.disks.is_empty()
    }
}

/// Compiled patterns.
#[derive(Clone)]
pub(crate) struct Patterns(Gitignore);

impl Patterns {
    /// Errors: the first pattern that cannot be parsed.
    pub(crate) fn new(lines: &[String]) -> Result<Patterns, Fault> {
        let bad = |line: &str, why: &str| {
            Fault::request(format!("the pattern '{line}' cannot be read: {why}"))
                .hint("patterns are those of a .gitignore, such as '*.tmp', '/cache/' or 'photos/**/*.raw'")
        };
        let mut builder = GitignoreBuilder::new("");
        for line in lines {
            let is_nothing = line.trim().is_empty() || line.starts_with('#');
            if is_nothing || line.contains('\n') {
                return Err(bad(line, "it is empty, a remark, or more than one line"));
            }
            builder.add_line(None, line).map_err(|error| bad(line, &error.to_string()))?;
        }
        builder.build().map(Patterns).map_err(|error| bad("", &error.to_string()))
    }

    /// Compiles the patterns of a set. Errors: also too many patterns.
    pub(crate) fn of(left_out: &LeftOut) -> Result<Patterns, Fault> {
        match left_out.fits() {
            true => Patterns::new(&left_out.patterns),
            false => Err(Fault::request(format!(
                "{} patterns of what is left out are too many; a set has at most {} of {} bytes in all",
                left_out.patterns.len(),
                LeftOut::PATTERNS_MOST,
                LeftOut::BYTES_MOST
            ))
            .hint("leave out directories instead of what is in them")),
        }
    }

    /// True if a pattern matches the path itself; the caller checks the directories above it.
    pub(crate) fn has(&self, path: &[u8], is_dir: bool) -> bool {
        self.0.matched(path_of(path), is_dir).is_ignore()
    }

    /// True if a pattern matches the path, or a directory above it.
    pub(crate) fn has_below(&self, path: &[u8], is_dir: bool) -> bool {
        !path.is_empty() && self.0.matched_path_or_any_parents(path_of(path), is_dir).is_ignore()
    }
}

impl Set<'_> {
    /// Returns the selected entries, ascending; `None` if all are selected.
    ///
    /// Errors: a pattern or path that matches no entry.
    pub(crate) fn chosen(&self, select: &Select) -> Result<Option<Vec<usize>>, Fault> {
        if select.is_all() {
            return Ok(None);
        }
        let names: Vec<Vec<u8>> = (0..self.manifest.entries.len()).map(|i| self.restored_path(i)).collect();
        let is_dir = |index: usize| self.manifest.entries[index].kind == EntryKind::Dir;
        let mut meant = vec![false; names.len()];
        for pattern in &select.patterns {
            let one = Patterns::new(std::slice::from_ref(&pattern.trim_start_matches('!').to_string()))?;
            if !names.iter().enumerate().any(|(index, name)| one.has_below(name, is_dir(index))) {
                return Err(self.nothing_meant(pattern));
            }
        }
        let patterns = Patterns::new(&select.patterns)?;
        for (index, name) in names.iter().enumerate() {
            meant[index] = patterns.has_below(name, is_dir(index));
        }
        for disk in &select.disks {
            let is_it =
                |source: &Source| disk_name(source) == disk.as_bytes() || self.manifest.sources.len() == 1;
            let Some(source) = self.manifest.sources.iter().position(is_it) else {
                return Err(Fault::unknown_disk(disk.as_bytes(), &self.disk_names()));
            };
            for (index, entry) in self.manifest.entries.iter().enumerate() {
                meant[index] |= entry.source as usize == source;
            }
        }
        for path in &select.paths {
            let here = absolute(path);
            // A path can be given by its name, or by its spelling in reports.
            let texts = [shown(path.as_os_str().as_encoded_bytes()), path.to_string_lossy().into_owned()];
            let texts = texts.map(|text| text.trim_start_matches("./").trim_end_matches('/').to_string());
            let mut found = false;
            for (index, name) in names.iter().enumerate() {
                let name = shown(name);
                let is_below = |text: &String| {
                    let rest = name.strip_prefix(text.as_str()).filter(|_| !text.is_empty());
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                };
                if texts.iter().any(is_below) || self.original_path(index).starts_with(&here) {
                    (meant[index], found) = (true, true);
                }
            }
            if !found {
                return Err(self.nothing_meant(&texts[0]));
            }
        }
        Ok(Some((0..names.len()).filter(|&index| meant[index]).collect()))
    }

    /// Reports a pattern or path without a match in the set.
    fn nothing_meant(&self, what: &str) -> Fault {
        Fault::request(format!("nothing that is sealed fits '{what}'"))
            .hint(format!("'{} --files' shows the paths of the set", self.command("info")))
    }

    /// Returns the first of these paths that is the path of an original of the set.
    pub(crate) fn first_original<'p>(&self, paths: &'p [PathBuf]) -> Option<&'p PathBuf> {
        let entries = 0..self.manifest.entries.len();
        let is_original = |path: &&PathBuf| {
            let here = absolute(path);
            self.manifest.mode == Mode::Beside
                && self.sources.iter().any(|source| here.starts_with(source))
                && entries.clone().any(|entry| self.original_path(entry) == here)
                && self.world.disk.meta(path).is_ok_and(|meta| meta.kind == MetaKind::File)
        };
        paths.iter().find(is_original)
    }

    /// As [`chosen`](Set::chosen), with the directories above the entries.
    pub(crate) fn chosen_with_dirs(&self, select: &Select) -> Result<Option<Vec<usize>>, Fault> {
        let Some(chosen) = self.chosen(select)? else { return Ok(None) };
        let mut dirs: HashSet<Vec<u8>> = HashSet::new();
        for &index in &chosen {
            let mut name = self.restored_path(index);
            while !name.is_empty() {
                let at = name.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
                name.truncate(at);
                if !dirs.insert(name.clone()) {
                    break;
                }
            }
        }
        let is_meant: HashSet<usize> = chosen.into_iter().collect();
        let is_above = |index: usize| {
            self.manifest.entries[index].kind == EntryKind::Dir && dirs.contains(&self.restored_path(index))
        };
        let all = 0..self.manifest.entries.len();
        Ok(Some(all.filter(|index| is_meant.contains(index) || is_above(*index)).collect()))
    }

    /// Returns the stripes of some entries, ascending; with `None` those of all entries.
    pub(crate) fn stripes_of(&self, entries: Option<&[usize]>) -> Vec<Range<u64>> {
        let Some(entries) = entries else { return std::iter::once(0..self.manifest.stripes).collect() };
        let extents = entries.iter().flat_map(|&index| match &self.manifest.entries[index].kind {
            EntryKind::File { extents, .. } => extents.as_slice(),
            _ => &[],
        });
        let range = |extent: &Extent| extent.first.0..extent.first.0 + extent.count;
        let mut ranges: Vec<Range<u64>> = extents.map(range).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        joined
    }
}

/// Returns the target of a path whose last components need not exist. Links of other users are not
/// followed: a path through them is never that of an original.
fn absolute(path: &Path) -> PathBuf {
    let full = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let Some(name) = full.file_name() else { return full };
    let above = parent(&full);
    // The nearest existing directory is spelt without links, as sources are.
    match kernel_path(&above) {
        Ok(real) => real.join(name),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => absolute(&above).join(name),
        Err(_) => above.join(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(lines: &[&str]) -> Patterns {
        Patterns::new(&lines.iter().map(|line| line.to_string()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn patterns_are_those_of_gitignore() {
        let cases: &[(&[&str], &str, bool, bool)] = &[
            (&["*.tmp"], "a/b.tmp", false, true),
            (&["*.tmp"], "a/b.tmp2", false, false),
            (&["/cache"], "cache", true, true),
            (&["/cache"], "a/cache", true, false),
            (&["cache/"], "a/cache/x", false, true),
            (&["cache/"], "a/cache", false, false),
            (&["a/*/x"], "a/b/x", false, true),
            (&["a/*/x"], "a/b/c/x", false, false),
            (&["a/**/x"], "a/b/c/x", false, true),
            (&["*.jpg", "!keep.jpg"], "d/keep.jpg", false, false),
            (&["*.jpg", "!keep.jpg"], "d/other.jpg", false, true),
        ];
        for (lines, path, is_dir, meant) in cases {
            assert_eq!(patterns(lines).has_below(path.as_bytes(), *is_dir), *meant, "{lines:?} {path}");
        }
        assert!(patterns(&["*.jpg"]).has_below(b"d/\xff.jpg", false), "a name that is not UTF-8");
        for bad in ["", "  ", "# remark", "a\nb", "a{b"] {
            assert!(Patterns::new(&[bad.to_string()]).is_err() || bad == "a{b", "{bad:?}");
        }
    }
}
