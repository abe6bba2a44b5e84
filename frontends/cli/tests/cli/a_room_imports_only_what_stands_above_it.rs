//! ARCHITECTURE.md states of its table that a room imports only rooms above it. This test checks
//! that with the `Cargo.toml` files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The folders in which each folder is a room.
const BUILT: [&str; 4] = ["crates", "frontends", "bindings", "integrations"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The rooms of the table, in order, without the slash at the end.
fn rooms() -> Vec<String> {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the page is there");
    let rows =
        page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|(room, _)| room));
    rows.map(|room| room.trim_end_matches('/').to_string()).collect()
}

/// Returns the name of a package, and the names of our packages that it and its tests import.
fn package(folder: &Path) -> Option<(String, Vec<String>)> {
    let text = std::fs::read_to_string(folder.join("Cargo.toml")).ok()?;
    let (mut section, mut name, mut imports) = ("", None, Vec::new());
    for line in text.lines() {
        if let Some(head) = line.strip_prefix('[') {
            section = head.trim_end_matches(']');
        } else if let Some((key, value)) = line.split_once('=') {
            let key = key.trim().split('.').next().unwrap_or_default();
            match section {
                "package" if key == "name" => name = Some(value.trim().trim_matches('"').to_string()),
                "dependencies" | "dev-dependencies" | "build-dependencies" if key.starts_with("pantile") => {
                    imports.push(key.to_string());
                }
                _ => {}
            }
        }
    }
    Some((name?, imports))
}

fn folders(within: &str) -> Vec<String> {
    let entries = std::fs::read_dir(root().join(within)).expect("a folder");
    let folders = entries.map(|entry| entry.expect("an entry")).filter(|entry| entry.path().is_dir());
    folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_room_imports_only_what_stands_above_it() {
    let rooms = rooms();
    // The place of each package's room in the table.
    let mut places = BTreeMap::new();
    let mut imports = Vec::new();
    for (place, room) in rooms.iter().enumerate() {
        for folder in [room.clone(), format!("{room}/compare")] {
            if let Some((name, of)) = package(&root().join(&folder)) {
                assert_eq!(places.insert(name.clone(), place), None, "{name} is in two rooms");
                imports.push((place, folder, of));
            }
        }
    }
    assert!(imports.len() >= 15, "{imports:?}");
    for (place, folder, of) in imports {
        for name in of {
            let there =
                *places.get(&name).unwrap_or_else(|| panic!("{folder} imports {name}, which has no room"));
            assert!(
                there < place,
                "{folder} imports {name}, which does not stand above it in ARCHITECTURE.md"
            );
        }
    }
}

#[test]
fn every_folder_is_a_room() {
    let rooms = rooms();
    let mut folders_of_all: Vec<String> = Vec::new();
    for within in BUILT {
        folders_of_all.extend(folders(within).into_iter().map(|name| format!("{within}/{name}")));
    }
    let built = |name: &str| name.starts_with('.') || name == "target" || BUILT.contains(&name);
    folders_of_all.extend(folders("").into_iter().filter(|name| !built(name)));
    folders_of_all
        .iter()
        .for_each(|folder| assert!(rooms.contains(folder), "{folder} is not in ARCHITECTURE.md's table"));
}
