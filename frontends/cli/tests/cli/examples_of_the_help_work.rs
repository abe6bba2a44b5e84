//! The examples of the help run as shown, if they need no devices and no sets.
//!
//! Omitted are commands that need disks, a served volume, a sealed set, or files of the user
//! ([`NEED_MORE`], [`OWN_FILES`]): a test beside the commands parses them.

use crate::common::*;
use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Commands that need a volume, disks, a sealed set, files to seal, or a dump of a cluster.
const NEED_MORE: [&str; 26] = [
    "add-spare",
    "assemble",
    "attach",
    "ceph",
    "check-config",
    "chunks",
    "create",
    "decode",
    "delayed",
    "demo",
    "detach",
    "events",
    "fail",
    "heal",
    "info",
    "monitor",
    "rebuild",
    "remove-spare",
    "replace",
    "scrub",
    "seal",
    "serve",
    "status",
    "stop",
    "unseal",
    "verify",
];

/// Examples with these words need a measurement of the user, or write outside the folder of this
/// test.
const OWN_FILES: [&str; 3] = ["--service", "--record", "--execute"];

/// A command that is still running after this time has accepted its arguments.
const LONG_ENOUGH: Duration = Duration::from_secs(3);

/// Returns the arguments of each `pantile` in the examples, without remarks, pipes and
/// redirections.
fn examples() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/commands");
    let mut found = Vec::new();
    for file in std::fs::read_dir(folder).expect("the sources are there") {
        let text = std::fs::read_to_string(file.expect("an entry").path()).expect("a source");
        let lines = text.lines().filter(|line| line.starts_with("  pantile")).map(str::trim_start);
        for line in lines {
            let line = line.trim_end_matches("\")]").split("  ").next().unwrap_or_default();
            let parts = line.split([';', '|', '&']).filter_map(|part| command_of(part.trim()));
            found.extend(parts.map(|part| part.split(" > ").next().unwrap_or_default().to_string()));
        }
    }
    found
}

/// Returns the words after `pantile`, or `pantile-lab` with its words.
fn command_of(part: &str) -> Option<&str> {
    part.strip_prefix("pantile ").or_else(|| part.starts_with("pantile-lab ").then_some(part))
}

#[test]
fn examples_without_volume_or_set_work_as_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = pantile_in(
        folder.path(),
        &["pantile-lab", "generate", "zipf", "--requests", "20000", "--out", "trace.csv"],
    );
    assert_eq!(made.status, 0, "{}", made.stderr);
    // The other traces and the code file of the examples. A compressed trace is recognized by its
    // content.
    let file = |name: &str, text: String| std::fs::write(folder.path().join(name), text).expect("a file");
    let trace = std::fs::read_to_string(folder.path().join("trace.csv")).expect("a trace");
    file("trace.csv.gz", trace.replace(",trace,0,", ",hm,0,"));
    file("own.csv", "0.5,W,2048,8192\n7.25,R,8,4096\n".into());
    file("mine.code", text(&["show", "raid6:6", "--text"]));
    let (mut done, mut cut, mut left_out) = (0, 0, 0);
    for example in examples() {
        let words: Vec<&str> = example.split(' ').collect();
        if NEED_MORE.contains(&words[0]) || words.iter().any(|word| OWN_FILES.contains(word)) {
            left_out += 1;
            continue;
        }
        let said = folder.path().join("said");
        let mut run = command(&words)
            .current_dir(folder.path())
            // Commands that read standard input get the trace.
            .stdin(File::open(folder.path().join("trace.csv")).expect("the trace"))
            .stdout(Stdio::null())
            .stderr(File::create(&said).expect("a file"))
            .spawn()
            .expect("the built command can be run");
        let begun = Instant::now();
        let status = loop {
            match run.try_wait().expect("it can be waited for") {
                Some(status) => break status.code(),
                None if begun.elapsed() > LONG_ENOUGH => {
                    run.kill().and_then(|()| run.wait()).expect("it ends");
                    cut += 1;
                    break Some(0);
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let said = std::fs::read_to_string(said).expect("a text");
        assert_eq!(status, Some(0), "pantile {example}\n{said}");
        done += 1;
    }
    println!("{done} examples, {cut} of them cut short after {LONG_ENOUGH:?}; {left_out} left out");
    assert!(done >= 40 && left_out < 120, "{done} examples, {left_out} left out");
}
