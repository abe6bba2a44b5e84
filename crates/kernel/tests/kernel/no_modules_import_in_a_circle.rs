//! Claim: imports between modules have no cycle, so a module can be read with knowledge of its
//! imports alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The path of a module, such as `["arch", "x86_64", "avx2"]`; the crate's root has none.
type Module = Vec<String>;

/// Collects the text of the modules of a folder, without comments, and without tests, which are at
/// the end.
fn modules(folder: &Path, above: &Module, all: &mut BTreeMap<Module, String>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let mut module = above.clone();
        if !["lib", "mod"].contains(&name.as_str()) {
            module.push(name);
        }
        if path.is_dir() {
            modules(&path, &module, all);
        } else {
            let text = std::fs::read_to_string(&path).expect("a source file");
            let tests = ["#[cfg(test)]", "#[cfg(all(test,"].iter().filter_map(|start| text.find(start)).min();
            let before_tests = &text[..tests.unwrap_or(text.len())];
            let lines = before_tests.lines().map(|line| line.split("//").next().unwrap_or_default());
            all.insert(module, lines.collect::<Vec<_>>().join("\n"));
        }
    }
}

/// Collects the paths that begin at this text; there are several if a path ends in braces.
fn leaves(text: &str, before: &Module, found: &mut Vec<Module>) {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let mut path = before.clone();
    if !name.is_empty() && name != "self" {
        path.push(name.to_string());
    }
    if let Some(rest) = rest.strip_prefix("::") {
        return leaves(rest, &path, found);
    }
    let Some(list) = rest.strip_prefix('{').filter(|_| name.is_empty()) else {
        return found.push(path);
    };
    let (mut depth, mut start) = (0, 0);
    for (at, c) in list.char_indices() {
        match c {
            ',' | '}' if depth == 0 => {
                leaves(list[start..at].trim_start(), &path, found);
                start = at + 1;
                if c == '}' {
                    return;
                }
            }
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
}

/// Returns all paths in a module's text that begin at the crate root, above the module or in it.
fn paths(module: &Module, text: &str) -> Vec<Module> {
    let parent = &module[..module.len().saturating_sub(1)];
    let mut found = Vec::new();
    for (word, base) in [("crate::", &[][..]), ("super::", parent), ("self::", &module[..])] {
        for (at, _) in text.match_indices(word) {
            let is_word = !text[..at].ends_with(|c: char| c.is_alphanumeric() || "_:$".contains(c));
            if is_word {
                leaves(&text[at + word.len()..], &base.to_vec(), &mut found);
            }
        }
    }
    found
}

/// Returns, for each module, the modules whose names its text uses.
fn imports() -> BTreeMap<Module, BTreeSet<Module>> {
    let mut texts = BTreeMap::new();
    modules(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &Vec::new(), &mut texts);
    let root = texts.remove(&Vec::new()).expect("the crate's root");
    // Files that have only tests are declared in the test part of their parent.
    let declared = |module: &Module| {
        let (name, parent) = module.split_last().expect("not the root");
        let parent = if parent.is_empty() { Some(&root) } else { texts.get(parent) };
        parent.is_none_or(|text| text.contains(&format!("mod {name}")))
    };
    let of_tests: Vec<Module> = texts.keys().filter(|module| !declared(module)).cloned().collect();
    of_tests.iter().for_each(|module| drop(texts.remove(module)));
    // `arch::native` stands for x86. An item that the root re-exports counts as one of the module
    // that defines it.
    let mut handed_on = BTreeMap::new();
    for line in root.split("pub use ").skip(1) {
        let mut found = Vec::new();
        leaves(line, &Vec::new(), &mut found);
        handed_on.extend(found.into_iter().map(|path| (path.last().cloned(), path[..1].to_vec())));
    }
    let module_of = |path: &Module| {
        let native = path.get(..2).is_some_and(|start| start == ["arch", "native"]);
        let path: Module = match native {
            true => ["arch", "x86_64"].map(String::from).into_iter().chain(path[2..].to_vec()).collect(),
            false => path.clone(),
        };
        let longest =
            (1..=path.len()).rev().map(|len| path[..len].to_vec()).find(|part| texts.contains_key(part));
        longest.or_else(|| handed_on.get(&path.first().cloned()).cloned())
    };
    texts
        .iter()
        .map(|(module, text)| {
            let used = paths(module, text);
            let used = used.iter().filter_map(module_of).filter(|used| used != module);
            (module.clone(), used.collect())
        })
        .collect()
}

#[test]
fn no_modules_import_in_a_circle() {
    let mut left = imports();
    assert!(left.len() > 40 && left.values().map(BTreeSet::len).sum::<usize>() > 100, "{left:?}");
    // Modules that import no remaining module are removed, as long as there are any.
    while let Some(free) =
        left.iter().find(|(_, used)| used.iter().all(|m| !left.contains_key(m))).map(|(m, _)| m.clone())
    {
        left.remove(&free);
    }
    let lines: Vec<String> = left
        .iter()
        .map(|(module, used)| {
            let used = used.iter().filter(|m| left.contains_key(*m)).map(|m| m.join("::"));
            format!("{} imports {}", module.join("::"), used.collect::<Vec<_>>().join(", "))
        })
        .collect();
    assert!(left.is_empty(), "in a circle, or above one:\n{}", lines.join("\n"));
}
