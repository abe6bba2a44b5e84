//! Commands in messages work as they are printed: those for a volume name its folder, not a
//! placeholder.

use crate::common::*;
use std::path::{Path, PathBuf};

/// Commands that need a volume, or another argument.
const NEED_MORE: [&str; 12] = [
    "serve",
    "stop",
    "status",
    "rebuild",
    "replace",
    "scrub",
    "fail",
    "add-spare",
    "remove-spare",
    "events",
    "attach",
    "assemble",
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => sources(&path, found),
            false => found.extend(path.extension().is_some_and(|end| end == "rs").then_some(path)),
        }
    }
}

/// Returns the code of a source file without comments, help pages and tests.
fn messages(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut out = String::new();
    let mut is_help = false;
    for line in text.lines() {
        is_help |= line.contains("after_long_help") || line.contains("const STATUS");
        if !is_help && !line.trim_start().starts_with("//") {
            out.push_str(line);
            out.push('\n');
        }
        is_help &= !line.ends_with("\")]") && !line.ends_with("\";");
    }
    out
}

#[test]
fn no_message_leaves_the_volume_of_its_command_out() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for folder in ["crates/host/src", "crates/volume/src", "frontends/cli/src"] {
        sources(&repository.join(folder), &mut found);
    }
    let (mut wrong, mut commands) = (Vec::new(), 0);
    for path in found.iter().filter(|path| !path.ends_with("tests.rs") && !path.ends_with("typed.rs")) {
        let text = messages(&std::fs::read_to_string(path).expect("a source"));
        let quoted = text.split("'pantile ").skip(1).filter_map(|rest| rest.split('\'').next());
        for command in quoted {
            commands += 1;
            let words: Vec<&str> = command.split_whitespace().collect();
            let is_left_out = words.len() == 1 && NEED_MORE.contains(&words[0]);
            let is_option = words.get(1).is_some_and(|word| word.starts_with("--"))
                && NEED_MORE.contains(&words[0])
                && !words[1].starts_with("--all")
                && !words[1].starts_with("--scan");
            if is_left_out || is_option || words.contains(&"VOL") {
                wrong.push(format!("{}: 'pantile {command}'", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(commands > 60, "{commands}: the sources are read");
}

#[test]
fn the_command_of_a_message_has_the_folder_and_works() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let at = |arguments: &[&str]| pantile_in(folder, arguments);
    assert_eq!(at(&["create", "my vol", "--size", "8M", "--code", "raid6:3"]).status, 0);
    let run = at(&["scrub", "my vol", "--pause"]);
    assert_fault(&run, 2, &["no scrub is under way; begin one with: pantile scrub my\\ vol"], "--pause");
    let run = at(&["replace", "my vol", "1", "--cancel"]);
    assert_fault(&run, 2, &["'pantile status my\\ vol' shows what is replaced"], "--cancel");
    assert_fault(&at(&["delayed", "start", "my vol"]), 2, &["'pantile serve my\\ vol' starts it"], "delayed");

    // The spare is filled with other content.
    let spare = folder.join("a spare");
    std::fs::File::create(&spare).and_then(|file| file.set_len(32 << 20)).expect("a file");
    assert_eq!(at(&["add-spare", "my vol", "a spare"]).status, 0);
    std::fs::write(&spare, vec![7; 32 << 20]).expect("it writes");
    let run = at(&["status", "my vol"]);
    let said = &run.stdout;
    let command =
        format!("pantile remove-spare my\\ vol {}", spare.display().to_string().replace(' ', "\\ "));
    assert!(run.status == 1 && said.contains(&format!("'{command}'")) && !said.contains("VOL"), "{said}");
    let shell = |command: &str| {
        let own = Path::new(env!("CARGO_BIN_EXE_pantile")).parent().expect("a folder");
        let path = format!("{}:{}", own.display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = std::process::Command::new("sh");
        let output = shell.args(["-c", command]).current_dir(folder).env("PATH", path).output();
        output.expect("a shell").status.code()
    };
    assert_eq!(shell(&command), Some(0), "{command}");
    assert_eq!(at(&["status", "my vol"]).status, 0);
}
