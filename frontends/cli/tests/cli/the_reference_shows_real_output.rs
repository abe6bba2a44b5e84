//! Every `console` block of docs/cli.md, docs/chunks.md and docs/ceph-report.md is the output of
//! its command in the repository; every one of docs/advise.md is its output in a separate folder.
//!
//! After an intended change: `PANTILE_BLESS=1 cargo test -p pantile-cli
//! the_reference_shows_real_output`.

use crate::common::*;
use std::path::Path;

#[test]
fn every_console_block_is_what_is_printed() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let own = tempfile::tempdir().expect("a folder");
    for (name, least, folder) in [
        ("cli.md", 12, repository.as_path()),
        ("chunks.md", 3, &repository),
        ("ceph-report.md", 1, &repository),
        ("advise.md", 2, own.path()),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
        let page = std::fs::read_to_string(&path).expect("the reference is there");
        let shown = with_real_output(&page, folder);
        if std::env::var_os("PANTILE_BLESS").is_some() {
            std::fs::write(&path, &shown).expect("the reference can be written");
            continue;
        }
        for (i, (written, real)) in page.lines().zip(shown.lines()).enumerate() {
            assert_eq!(written, real, "docs/{name}, line {}", i + 1);
        }
        assert_eq!(page, shown);
        assert!(page.matches("\n$ pantile ").count() >= least, "docs/{name} has examples");
    }
}

/// Returns the page with the present output of each command in its console blocks.
fn with_real_output(page: &str, folder: &Path) -> String {
    let mut out = String::new();
    let mut in_block = false;
    for line in page.lines() {
        match (in_block, line) {
            (false, _) => {
                out.push_str(&format!("{line}\n"));
                in_block = line == "```console";
            }
            (true, "```") => {
                out.push_str("```\n");
                in_block = false;
            }
            (true, _) => {
                let of_lab = line.strip_prefix("$ ").filter(|line| line.starts_with("pantile-lab "));
                if let Some(command) = line.strip_prefix("$ pantile ").or(of_lab) {
                    if !out.ends_with("```console\n") {
                        out.push('\n');
                    }
                    out.push_str(&format!("{line}\n{}", printed(command, folder)));
                }
            }
        }
    }
    out
}

/// Returns the output of a command, or its fault, up to the limit of `| head -N`.
fn printed(command: &str, folder: &Path) -> String {
    let (command, lines) = match command.split_once(" | head -") {
        Some((command, lines)) => (command, lines.parse().expect("head -N")),
        None => (command, usize::MAX),
    };
    let arguments: Vec<&str> = command.split(' ').collect();
    let run = pantile_in(folder, &arguments);
    let mut out = String::new();
    // If there is an answer, standard error has only progress, and only on a slow machine.
    let shown = if run.stdout.is_empty() { &run.stderr } else { &run.stdout };
    for line in shown.lines().take(lines) {
        out.push_str(&format!("{line}\n"));
    }
    out
}
