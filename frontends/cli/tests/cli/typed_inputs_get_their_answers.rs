//! Every input of `tests/typed.txt`, as users type it, ends with its status and prints its words.

use crate::common::*;
use std::path::Path;

/// Splits a line of a shell into words: spaces separate them, except between single quotes.
fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let (mut is_quoted, mut is_new) = (false, true);
    for c in line.chars() {
        match c {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => {
                is_new = true;
                continue;
            }
            c if is_new => words.push(c.to_string()),
            c => words.last_mut().expect("a word was begun").push(c),
        }
        is_new = is_new && c == '\'';
    }
    words
}

/// Makes a volume `tank` on its own files, a volume `pool` on six disks, a sealed set `shards` of
/// `photos`, a trace, and blank disks.
fn prepare(at: &Path) {
    std::fs::create_dir(at.join("photos")).expect("a directory");
    std::fs::write(at.join("photos/a"), "x").expect("a file");
    std::fs::create_dir(at.join("films")).expect("a directory");
    std::fs::write(at.join("films/b"), "y").expect("a file");
    std::fs::write(at.join("file"), "x").expect("a file");
    std::fs::write(at.join("t.gz"), [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]).expect("a file");
    std::fs::write(at.join("t.zst"), [0x28, 0xb5, 0x2f, 0xfd, 4, 0]).expect("a file");
    std::fs::write(at.join("t.xz"), b"\xfd7zXZ\0\0\x04").expect("a file");
    let mut ext4 = vec![0; 64 << 20];
    ext4[0x438..0x43a].copy_from_slice(&[0x53, 0xef]);
    std::fs::write(at.join("full"), ext4).expect("a file");
    let disks = (1..=6).map(|nth| format!("d{nth}")).chain((1..=6).map(|nth| format!("e{nth}")));
    for disk in disks.chain([String::from("new")]) {
        std::fs::File::create(at.join(disk)).and_then(|file| file.set_len(64 << 20)).expect("a disk");
    }
    for command in [
        "create tank --size 16M",
        "create pool e1 e2 e3 e4 e5 e6",
        "seal photos --code rs:2+2 --out shards",
        "pantile-lab generate zipf --requests 100 --out t",
    ] {
        let run = pantile_in(at, &command.split(' ').collect::<Vec<_>>());
        assert_eq!(run.status, 0, "{command}: {}", run.stderr);
    }
}

/// A command that is typed after `lab` runs, and the message names the program that has it.
#[test]
fn lab_names_the_program_of_a_command_and_runs_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let generate = ["lab", "generate", "zipf", "--requests", "3"];
    for (typed, named) in [
        (&generate[..], "pantile: lab: run 'pantile-lab generate'\n"),
        (&["lab", "durability", "raid6:4", "--cycles", "0"], "pantile: lab: run 'pantile durability'\n"),
        (&["lab", "--help"], "pantile: lab: run 'pantile-lab --help'\n"),
    ] {
        let run = pantile_in(folder.path(), typed);
        assert_eq!((run.status, run.stderr.as_str()), (0, named), "{typed:?}");
        assert!(!run.stdout.is_empty(), "{typed:?}");
    }
    // Without an installed `pantile-lab`, the fault says so.
    let alone = folder.path().join("pantile");
    std::fs::copy(env!("CARGO_BIN_EXE_pantile"), &alone).expect("a copy");
    let run = std::process::Command::new(&alone).args(generate).output().expect("it runs");
    let said = String::from_utf8(run.stderr).expect("UTF-8");
    assert_eq!(run.status.code(), Some(2), "{said}");
    assert!(said.contains("pantile-lab, which is not installed"), "{said}");
}

#[test]
fn every_input_of_the_table_gets_its_answer() {
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/typed.txt");
    let table = std::fs::read_to_string(table).expect("the table is there");
    let folder = tempfile::tempdir().expect("a folder");
    prepare(folder.path());
    let (mut held, mut wrong) = (0, Vec::new());
    for row in table.lines().filter(|row| !row.is_empty() && !row.starts_with('#')) {
        let (command, answer) = row.split_once(" => ").unwrap_or_else(|| panic!("no answer: {row}"));
        let (status, pieces) = answer.split_once(' ').unwrap_or((answer, ""));
        let typed = words(command);
        let run = pantile_in(folder.path(), &typed.iter().map(String::as_str).collect::<Vec<_>>());
        let said = format!("{}{}", run.stdout, run.stderr);
        let is_said = pieces.split(" | ").all(|piece| said.contains(piece));
        if run.status.to_string() != status || !is_said {
            wrong.push(format!("pantile {command}\n  expected: {answer}\n  got:      {} {said}", run.status));
        }
        held += 1;
    }
    assert!(wrong.is_empty(), "{} of {held} inputs:\n{}", wrong.len(), wrong.join("\n"));
    assert!(held >= 150, "only {held} inputs are held");
}

#[test]
fn a_line_of_the_table_is_split_as_a_shell_does() {
    assert_eq!(words("show 'ceph:k=1 m=2' x"), ["show", "ceph:k=1 m=2", "x"]);
    assert_eq!(words("create  a"), ["create", "a"]);
}
