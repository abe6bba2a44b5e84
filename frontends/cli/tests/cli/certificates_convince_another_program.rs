//! Claim: a program that shares no code with `prove` accepts its certificates, for every family,
//! and refuses changed ones.

use crate::common::*;
use std::path::Path;
use std::process::Command;

/// Returns status and output of the checker.
fn check(file: &Path, arguments: &[&str]) -> (i32, String) {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reference/check_certificate.py");
    let run = Command::new("python3").arg(program).arg(file).args(arguments).output();
    let output = run.expect("python3, which the tests of this repository need");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn another_program_accepts_a_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("certificate.json");
    let mut checked = 0;
    for family in pantile::code::families() {
        for spec in family.examples.iter().chain(family.small) {
            let code = pantile::Code::parse(spec).unwrap();
            if code.columns() > 20 || code.rows_max() > 8 {
                continue;
            }
            let run = pantile(&["prove", spec, "--certificate", file.to_str().unwrap()]);
            assert_eq!(run.status, 0, "{spec}: {}", run.stderr);
            let claim = code.claim().tolerance.to_string();
            let (status, said) = check(&file, &["--claim", &claim]);
            assert_eq!(status, 0, "{spec}: {said}");
            assert!(!said.contains("not shown"), "{spec}: {said}");
            checked += 1;
        }
    }
    assert!(checked > 40, "{checked}");
}

#[test]
fn a_changed_certificate_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("certificate.json");
    for spec in ["rs:4+2", "dcode:5", "shec:6,4,3", "raidq:4+3"] {
        let run = pantile(&["prove", spec, "--certificate", file.to_str().unwrap()]);
        assert_eq!(run.status, 0, "{spec}: {}", run.stderr);
        let good: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let refused = |what: &str, change: &dyn Fn(&mut serde_json::Value)| {
            let mut bad = good.clone();
            change(&mut bad);
            assert_ne!(bad, good, "{spec}: {what} changes nothing");
            std::fs::write(&file, serde_json::to_vec(&bad).unwrap()).unwrap();
            let (status, said) = check(&file, &[]);
            assert!(status == 1 || status == 2, "{spec}: {what}: {status}, {said}");
        };
        refused("one more column", &|c| c["tolerance"] = (c["tolerance"].as_u64().unwrap() + 1).into());
        refused("a coefficient", &|c| {
            let term = &mut c["equations"][0][1][2];
            *term = (term.as_u64().unwrap() % 255 + 1).into();
        });
        refused("a term", &|c| drop(c["equations"][1].as_array_mut().unwrap().pop()));
        refused("the codeword", &|c| drop(c["codeword"]["cells"].as_array_mut().unwrap().pop()));
        refused("the version", &|c| c["version"] = 2.into());
        refused("the evidence", &|c| match c["evidence"]["kind"].as_str().unwrap() {
            "cauchy" => c["evidence"]["parities"][1] = c["evidence"]["parities"][0].clone(),
            "sets" => c["evidence"]["equations"][1] = serde_json::json!([0]),
            _ => c["evidence"]["kind"] = "word of honour".into(),
        });
        std::fs::write(&file, b"{").unwrap();
        assert_eq!(check(&file, &[]).0, 2);
    }
}

/// An attacker can have written a certificate.
#[test]
fn forged_certificates_are_checked_soon_and_shown_without_escapes() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("certificate.json");
    let run = pantile(&["prove", "rs:4+2", "--certificate", file.to_str().unwrap()]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let good: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let said = |name: &str, value: serde_json::Value| {
        let mut bad = good.clone();
        bad[name] = value;
        std::fs::write(&file, serde_json::to_vec(&bad).unwrap()).unwrap();
        check(&file, &[])
    };
    let (status, text) = said("code", "any 9 of 9 columns can be lost\n\u{1b}[2J".into());
    assert!(
        status == 0 && text.starts_with("any 9 of 9 columns can be lost\\n\\x1b[2J: any 2 of 6 "),
        "{text}"
    );
    let (status, text) = said("rows", serde_json::json!([1_000_000_000, 1, 1, 1, 1, 1]));
    assert!(status == 1 && text.contains("more than 65536 cells"), "{text}");
    let elsewhere = serde_json::json!({ "columns": [-1, 0, 1], "cells": [[0, -1, 1]] });
    let (status, text) = said("codeword", elsewhere);
    assert!(status == 1 && text.contains("columns that do not exist"), "{text}");
    std::fs::write(&file, "[".repeat(200_000)).unwrap();
    let (status, text) = check(&file, &[]);
    assert!(status == 2 && text.starts_with("no certificate"), "{text}");
}

#[test]
fn a_certificate_that_cannot_be_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("certificate.json");
    for options in [["--sets", "5"], ["--max-lost", "1"]] {
        let arguments =
            [&["prove", "dcode:7"], &options[..], &["--certificate", file.to_str().unwrap()]].concat();
        assert_fault(&pantile(&arguments), 2, &["--certificate", "proved exactly", "--sets"], "too few sets");
        assert!(!file.exists());
    }
}
