//! Copies the source of the volume and applies `bugs.patch` to the copy.
//!
//! The lines of a hunk are looked for in the whole file: its numbers can be stale, its text cannot.

use std::path::{Path, PathBuf};
use std::{env, fs};

const VOLUME: &str = "../../../volume/src";

fn main() {
    println!("cargo::rerun-if-changed={VOLUME}");
    println!("cargo::rerun-if-changed=bugs.patch");
    let copy = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names it")).join("volume");
    let _ = fs::remove_dir_all(&copy);
    copy_sources(Path::new(VOLUME), &copy);
    let patch = fs::read_to_string("bugs.patch").expect("bugs.patch");
    for of_file in patch.split("--- a/crates/volume/src/").skip(1) {
        apply(of_file, &copy);
    }
    // An included file has no attributes and no documentation of a crate.
    edit(&copy.join("lib.rs"), |text| {
        let is_inner = |line: &&str| line.starts_with("//!") || line.starts_with("#![");
        text.lines().filter(|line| !is_inner(line)).map(|line| format!("{line}\n")).collect()
    });
}

fn copy_sources(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory of the copy");
    for entry in fs::read_dir(from).expect("the source of the volume") {
        let path = entry.expect("an entry").path();
        let copy = to.join(path.file_name().expect("a name"));
        match path.is_dir() {
            true => copy_sources(&path, &copy),
            false => drop(fs::copy(&path, &copy).expect("a file of the copy")),
        }
    }
}

/// Applies the hunks of one file.
fn apply(of_file: &str, copy: &Path) {
    let (name, rest) = of_file.split_once('\n').expect("the name of a file");
    edit(&copy.join(name), |mut text| {
        for hunk in rest.split("\n@@ ").skip(1) {
            let lines = || hunk.lines().skip(1).filter(|line| !line.starts_with("+++"));
            let of = |signs: [char; 2]| -> String {
                lines().filter_map(|line| line.strip_prefix(signs)).map(|line| format!("{line}\n")).collect()
            };
            let (before, after) = (of([' ', '-']), of([' ', '+']));
            assert_eq!(
                text.matches(&before).count(),
                1,
                "bugs.patch: {name} must have these lines once; change the hunk with them:\n{before}"
            );
            text = text.replace(&before, &after);
        }
        text
    });
}

fn edit(path: &Path, change: impl FnOnce(String) -> String) {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    fs::write(path, change(text)).expect("the copy can be written");
}
