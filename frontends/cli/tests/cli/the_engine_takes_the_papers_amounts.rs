//! Claim: `pantile-lab dcode-engine` runs the requests of the D-Code paper with all codes at all
//! its primes: 2000 reads without a lost disk, and 200 for each lost disk. docs/lab.md has the
//! results.

use crate::common::*;
use serde_json::Value;

/// Runs on one of the command's three disk models: the one that gives the percentages of the paper.
#[test]
fn all_primes_are_asked_the_papers_requests() {
    let arguments = ["pantile-lab", "dcode-engine", "--disks", "element"];
    let answer = json(&[&arguments[..], &["--json"]].concat());
    let measures = answer.as_array().expect("a list");
    assert!(measures.iter().all(|m| m["experiment"] == "dcode-engine" && m["kind"] == "measured"));
    let find = |case: &str, quantity: &str| -> &Value {
        let found = measures.iter().find(|m| m["case"] == case && m["quantity"] == quantity);
        found.unwrap_or_else(|| panic!("no {case}: {quantity}"))
    };
    let value = |case: &str, quantity: &str| find(case, quantity)["value"].as_f64().expect("a number");
    for p in [5, 7, 11, 13] {
        for rival in ["D-Code", "X-Code", "RDP", "EVENODD", "H-Code", "HDP"] {
            let case = format!("{rival} p={p}");
            for workload in ["1:0", "7:3", "1:1"] {
                assert!(value(&format!("{case} {workload}"), "cost per request") > 1.0, "{case}");
            }
            for state in ["healthy", "one disk lost"] {
                let quantity = format!("{state}, elements per service time");
                assert!(value(&format!("{case} element"), &quantity) > 1.0, "{case}, {state}");
            }
        }
        // The text states the same.
        for rival in ["RDP", "H-Code", "HDP"] {
            let percent = value(&format!("{rival} p={p} element"), "D-Code faster, healthy, per cent");
            assert!(percent > 0.0, "{rival} p={p}: {percent}");
        }
    }
    let kept = value("element", "D-Code before or behind another code as the text says");
    let docs = include_str!("../../../../docs/lab.md");
    let sentence = format!("at the paper's amounts {kept}, ");
    let page = docs.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains(&sentence), "docs/lab.md lacks {sentence:?}");
}
