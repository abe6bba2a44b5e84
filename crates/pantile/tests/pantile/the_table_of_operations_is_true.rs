//! Claim: docs/programs.md names only existing calls, each in the column of its language. It
//! explains each empty field, and lists every function of C and every method of Python's codec.

#![cfg(not(miri))]

use std::path::{Path, PathBuf};

const LANGUAGES: usize = 4;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the text of all sources in a folder.
fn sources(folder: &str) -> String {
    let mut all = String::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|extension| extension == "rs") => {
                    all += &std::fs::read_to_string(&path).expect("a source");
                }
                false => {}
            }
        }
    }
    all
}

/// Returns the rows of the table, with one field per language.
fn rows() -> Vec<(String, [String; LANGUAGES])> {
    let page = read("docs/programs.md");
    let rows = page.lines().filter(|line| line.starts_with("| ")).skip(2);
    let split = |line: &str| {
        let mut fields = line.trim_matches('|').split(" | ").map(|field| field.trim().to_string());
        let name = fields.next().expect("an operation");
        let fields: Vec<String> = fields.collect();
        let count = fields.len();
        let fields = fields.try_into();
        (name, fields.unwrap_or_else(|_| panic!("{count} fields in {line}")))
    };
    rows.map(split).collect()
}

/// Returns the names between backquotes.
fn calls(field: &str) -> Vec<&str> {
    field.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_call_is_there_and_every_empty_field_is_explained() {
    let crates = ["pantile", "code", "plan", "host"];
    let rust: String = crates.iter().map(|name| sources(&format!("crates/{name}/src"))).collect();
    let (header, stub) =
        (read("bindings/c/include/pantile.h"), read("bindings/python/python/pantile/__init__.pyi"));
    let last = |call: &str, by: &str| call.rsplit(by).next().expect("a name").to_string();
    let is_there = |language: usize, call: &str| match language {
        0 => rust.contains(&format!("pub fn {}", last(call, "::"))),
        1 => header.contains(&format!("{call}(")),
        2 => {
            let name = last(call, ".");
            ["def ", "class "].iter().any(|kind| stub.contains(&format!("{kind}{name}(")))
                || stub.contains(&format!("class {name}:"))
        }
        _ => root().join(format!("frontends/cli/src/commands/{call}.rs")).exists(),
    };
    let rows = rows();
    assert!(rows.len() > 20, "{} rows", rows.len());
    for (name, fields) in &rows {
        for (language, field) in fields.iter().enumerate() {
            let explains =
                field.starts_with("none: ") || field.starts_with("not yet: ") || field == "in each call";
            let calls = calls(field);
            assert!(explains || !calls.is_empty(), "{name}: field {language} is empty: '{field}'");
            // The explanation in an empty field can name other calls of that language.
            for call in calls {
                assert!(is_there(language, call), "{name}: {call} is not there");
            }
        }
    }
}

#[test]
fn every_function_of_c_and_method_of_the_codec_stands_somewhere() {
    let rows = rows();
    let column = |language: usize| -> String {
        rows.iter().map(|(_, fields)| format!("{} ", fields[language])).collect()
    };
    let (header, stub) =
        (read("bindings/c/include/pantile.h"), read("bindings/python/python/pantile/__init__.pyi"));
    let of_c = column(1);
    let declared = header.lines().filter_map(|line| {
        let (before, _) = line.split_once('(')?;
        let name = before.split([' ', '*']).next_back()?;
        (before.contains(' ') && !line.starts_with([' ', '/']) && name.starts_with("pantile_"))
            .then_some(name)
    });
    let declared: Vec<&str> = declared.collect();
    assert!(declared.len() > 28, "{declared:?}");
    // Calls about the library itself, and the call that frees a handle.
    let others = ["pantile_version", "pantile_status_name", "pantile_code_free"];
    for name in declared.iter().filter(|name| !others.contains(name)) {
        assert!(of_c.contains(&format!("`{name}`")), "{name} stands nowhere");
    }
    let of_python = column(2);
    let codec =
        stub.split("class Codec:").nth(1).expect("the codec").split("\nclass ").next().expect("its end");
    for line in codec.lines() {
        let Some((name, _)) = line.trim().strip_prefix("def ").and_then(|line| line.split_once('(')) else {
            continue;
        };
        assert!(
            name.starts_with("__") || of_python.contains(&format!("`Codec.{name}`")),
            "Codec.{name} stands nowhere"
        );
    }
}
