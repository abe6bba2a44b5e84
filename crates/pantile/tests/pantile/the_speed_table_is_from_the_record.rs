//! Claim: the figures in README.md's section "Speed" are those of the committed record, every losing cell included.

#![cfg(not(miri))]

use std::path::Path;
use std::process::Command;

#[test]
fn the_readme_has_what_the_script_makes_of_the_record() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let run = Command::new("python3").arg(root.join("benches/compare/table.py")).arg("--check").output();
    let output = run.expect("python3, which the tests of this repository need");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
