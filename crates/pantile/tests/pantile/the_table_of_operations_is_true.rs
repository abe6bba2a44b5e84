//! Claim: docs/programs.md names only existing calls, each in the column of its language. It
//! explains each empty field, and lists every function of C, method of Python's codec, and public call
//! of codecs and plans in Go and Java.

#![cfg(not(miri))]

use std::path::{Path, PathBuf};

const LANGUAGES: usize = 6;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the text of all sources in a folder, of files with this extension.
fn sources(folder: &str, kind: &str) -> String {
    let mut all = String::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|extension| extension == kind) => {
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

/// Returns the calls of the Go module: functions by name, methods behind that of their type.
fn calls_of_go() -> Vec<String> {
    let source = sources("bindings/go", "go");
    let calls = source.lines().filter_map(|line| {
        let line = line.strip_prefix("func ")?;
        match line.strip_prefix('(') {
            Some(method) => {
                let (owner, name) = method.split_once(") ")?;
                Some(format!("{}.{}", owner.rsplit(['*', ' ']).next()?, name.split('(').next()?))
            }
            None => Some(line.split('(').next()?.to_string()),
        }
    });
    let is_public =
        |call: &String| call.rsplit('.').next().is_some_and(|name| name.starts_with(char::is_uppercase));
    calls.filter(is_public).collect()
}

/// Returns the public calls of the Java classes for codecs and plans.
fn calls_of_java() -> Vec<String> {
    let of_class = |class: &str| {
        let source = read(&format!("bindings/java/src/pantile/{class}.java"));
        let calls = source.lines().filter_map(|line| {
            let name = line.trim().strip_prefix("public ")?.split_once('(')?.0.rsplit(' ').next()?;
            Some(match name == class {
                true => format!("new {class}"),
                false => format!("{class}.{name}"),
            })
        });
        calls.collect::<Vec<String>>()
    };
    [of_class("Codec"), of_class("Plan")].concat()
}

/// Returns the names between backquotes.
fn calls(field: &str) -> Vec<&str> {
    field.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_call_is_there_and_every_empty_field_is_explained() {
    let crates = ["pantile", "code", "plan", "host"];
    let rust: String = crates.iter().map(|name| sources(&format!("crates/{name}/src"), "rs")).collect();
    let (header, stub) =
        (read("bindings/c/include/pantile.h"), read("bindings/python/python/pantile/__init__.pyi"));
    let (go, java) = (calls_of_go(), calls_of_java());
    let last = |call: &str, by: &str| call.rsplit(by).next().expect("a name").to_string();
    let is_there = |language: usize, call: &str| match language {
        0 => rust.contains(&format!("pub fn {}", last(call, "::"))),
        1 => header.contains(&format!("{call}(")),
        2 => {
            let name = last(call, ".");
            ["def ", "class "].iter().any(|kind| stub.contains(&format!("{kind}{name}(")))
                || stub.contains(&format!("class {name}:"))
        }
        3 => go.iter().any(|one| one == call),
        4 => java.iter().any(|one| one == call),
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
    // Calls about the library itself.
    let others = ["Version", "Codec.version"];
    let of_go =
        calls_of_go().into_iter().filter(|call| !call.contains("Test") && !call.contains("Benchmark"));
    let of_go: Vec<String> = of_go
        .filter(|call| {
            !call.contains('.') && call != "Encode" || call.starts_with("Codec.") || call.starts_with("Plan.")
        })
        .collect();
    for (language, calls) in [(3, of_go), (4, calls_of_java())] {
        assert!(calls.len() > 18, "{calls:?}");
        for call in calls.iter().filter(|call| !others.contains(&call.as_str())) {
            assert!(column(language).contains(&format!("`{call}`")), "{call} stands nowhere");
        }
    }
}
