//! Claim: docs/speed.md and README.md's table of speed agree with the committed records, including
//! cells where Pantile loses.

#![cfg(not(miri))]

use std::path::Path;
use std::process::Command;

#[test]
fn the_pages_have_what_the_script_makes_of_the_record() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let run = Command::new("python3").arg(root.join("benches/compare/table.py")).arg("--check").output();
    let output = run.expect("python3, which the tests of this repository need");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
