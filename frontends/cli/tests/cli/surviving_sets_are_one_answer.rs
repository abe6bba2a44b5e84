//! Claim: the surviving sets of devices are the same in all commands: `prove` with a placement,
//! `status` of a new volume with it, `durability` and `advise`.

use crate::common::*;
use pantile::Code;
use pantile::code::{ColumnRole, families};
use serde_json::Value;

/// Sets of one device more than the tolerance: devices in a set, number of sets, and number of
/// survivable sets.
type Next = Option<(u64, u64, u64)>;

fn number(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_f64().map(|number| number as u64)).expect("a number")
}

/// Returns the tolerance and the level above it by `prove`.
fn proved(spec: &str, placement: &str, tolerance: usize) -> (u64, Next) {
    let most = (tolerance + 1).to_string();
    let found = json(&["prove", spec, "--placement", placement, "--max-lost", &most, "--json"]);
    assert_eq!(found["placement"], placement, "{spec}");
    let any = number(&found["proved_tolerance"]);
    let level = &found["tolerance"][any as usize];
    let next = level.is_object().then(|| {
        let of = |name: &str| number(&level[name]);
        (of("lost"), of("sets"), of("survived"))
    });
    (any, next)
}

/// Returns the volume's placement, its tolerance and the next level by `create` and `status`.
fn of_a_volume(spec: &str, placement: Option<&str>) -> (String, u64, Next) {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("v");
    let root = root.to_str().expect("a path");
    let mut order = vec!["create", root, "--code", spec, "--size", "4M", "--json"];
    order.extend(placement.iter().flat_map(|placement| ["--placement", placement]));
    let made = json(&order);
    let found = json(&["status", root, "--json"]);
    assert_eq!(made["placement"], found["placement"], "{spec}");
    let (margin, of) = (&found["margin"], |value: &Value, name: &str| number(&value[name]));
    let next = &margin["next"];
    let next = next.is_object().then(|| (of(next, "devices"), of(next, "sets"), of(next, "survived")));
    (found["placement"].as_str().expect("a word").to_string(), of(margin, "any_more"), next)
}

/// Returns the tolerance and the next level by `durability`, which counts fatal sets.
fn durable(spec: &str, placement: &str, next: Next) -> (u64, Next) {
    let found = json(&["durability", spec, "--placement", placement, "--cycles", "0", "--json"]);
    let measures = found.as_array().expect("a list");
    let of = |quantity: &str| {
        let found = measures.iter().find(|measure| measure["quantity"] == quantity);
        found.map(|measure| number(&measure["value"]))
    };
    let any = of("any so many columns may be lost").expect("it is told");
    let next = next.map(|(devices, sets, _)| {
        (devices, sets, sets - of(&format!("fatal sets of {devices}")).expect("it is told"))
    });
    (any, next)
}

#[test]
fn prove_status_and_durability_agree_for_every_family() {
    let mut lossy = 0;
    for spec in families().iter().flat_map(|family| family.examples) {
        let code = Code::parse(spec).expect("an example");
        let is_large = code.columns() > 16 || code.cell_count() > 300;
        if is_large || code.claim().tolerance == 0 || code.check_stores().is_err() {
            continue;
        }
        let mut of_fixed = None;
        for placement in ["fixed", "rotated"] {
            if placement == "rotated" && !code.columns_are_interchangeable() {
                continue;
            }
            let (any, next) = proved(spec, placement, code.claim().tolerance);
            let volume = of_a_volume(spec, Some(placement));
            assert_eq!(volume, (placement.to_string(), any, next), "{spec}: status, prove");
            assert_eq!(durable(spec, placement, next), (any, next), "{spec} {placement}: durability, prove");
            lossy += usize::from(of_fixed.is_some_and(|fixed| fixed != next));
            of_fixed = Some(next);
        }
    }
    assert!(lossy >= 3, "{lossy}");
}

/// Returns the tolerance by `replay`, as far as it is proved.
fn replayed(spec: &str, trace: &str) -> u64 {
    let found = json(&["replay", trace, "--codes", spec, "--json"]);
    let measures = found.as_array().expect("a list").iter();
    let of = |measure: &&Value| measure["quantity"] == "any so many devices may be lost, proved";
    number(&measures.into_iter().find(of).expect("it is counted")["value"])
}

/// Each example of each family, in the placement that `create` chooses.
#[test]
fn prove_status_durability_replay_and_advise_have_one_tolerance_for_every_family() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace");
    let trace = trace.to_str().expect("a path");
    text(&["pantile-lab", "generate", "zipf", "--requests", "50", "--out", trace]);
    let (mut missing, mut advised) = (Vec::new(), std::collections::HashSet::new());
    for family in families() {
        for spec in family.examples {
            let code = Code::parse(spec).expect("an example");
            let devices =
                (0..code.columns()).filter(|&column| code.role(column) == ColumnRole::Device).count();
            // dcode:9,raw is only for study: no volume has it.
            let stores = code.check_stores().is_ok();
            let (placement, any, _) = match stores {
                true => of_a_volume(spec, None),
                false => ("fixed".to_string(), code.claim().tolerance as u64, None),
            };
            let (proved, _) = proved(spec, &placement, code.claim().tolerance);
            assert_eq!(proved, any, "{spec} {placement}: prove, status");
            assert_eq!(durable(spec, &placement, None).0, any, "{spec} {placement}: durability, status");
            let (disks, survive) = (devices.to_string(), any.max(1).to_string());
            let more = ["--codes", spec, "--trace", trace, "--json"];
            let asked = [&["advise", "--disks", &disks, "--survive", &survive][..], &more].concat();
            if any == 0 || code.columns() > devices || !stores {
                missing.push(*spec);
                let run = pantile(&asked);
                assert_eq!(run.status, 2, "{spec}: {}", run.stderr);
                continue;
            }
            // Candidates of the wide codes take minutes; each family has a narrow one.
            if code.columns() > 16 {
                continue;
            }
            advised.insert(family.name);
            assert_eq!(replayed(spec, trace), any, "{spec}: replay, status");
            let answer = json(&asked);
            let codes = answer["codes"].as_array().expect("a list");
            let is_it = |one: &&Value| {
                let same = one["same"].as_array().expect("a list");
                one["code"] == *spec || same.iter().any(|other| other == spec)
            };
            let found = codes.iter().find(is_it).unwrap_or_else(|| panic!("{spec} is missing in {answer}"));
            let told = (found["placement"].as_str(), number(&found["tolerance"]));
            assert_eq!(told, (Some(&*placement), any), "{spec}: advise, status");
        }
    }
    for spec in ["mirror:7", "mirror:8"] {
        assert_eq!(replayed(spec, trace), proved(spec, "fixed", 7).0, "{spec}: replay, prove");
    }
    // No code is advised for zero losses, or with an add-on beside every disk.
    assert_eq!(
        missing,
        ["raid0:1", "raid0:4", "dcode:9,raw", "raidp:5", "raidp:8,weighted", "raidp:8,stack=2"]
    );
    assert_eq!(advised.len(), families().len() - 2, "{advised:?}");
}

#[test]
fn advise_proposes_the_volume_that_create_makes() {
    let found = json(&["advise", "--disks", "8", "--survive", "2", "--json"]);
    let codes = found["codes"].as_array().expect("a list");
    let mut counted = 0;
    for code in codes {
        let spec = code["code"].as_str().expect("a spec");
        let command = code["commands"][0].as_str().expect("a command");
        assert!(!command.contains("--placement"), "{command}");
        let (placement, any, next) = of_a_volume(spec, None);
        assert_eq!(
            (code["placement"].as_str(), number(&code["tolerance"])),
            (Some(&*placement), any),
            "{spec}"
        );
        if let Some((devices, sets, survived)) = next.filter(|_| code["next"].is_object()) {
            let of = |name: &str| number(&code["next"][name]);
            let told = (of("devices"), of("sets"), of("survived"));
            assert_eq!(told, (devices, sets, survived), "{spec}: advise, status");
            counted += usize::from(survived > 0);
        }
    }
    assert!(counted >= 2, "{counted}");
}

#[test]
fn create_says_in_one_line_what_a_placement_gives_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = |name: &str, arguments: &[&str]| {
        let root = folder.path().join(name);
        let order = ["create", root.to_str().expect("a path"), "--size", "4M"];
        text(&[&order[..], arguments].concat())
    };
    let fixed = said("a", &["--code", "shec:6,4,3"]);
    let line = "Columns are fixed: of 120 sets of 3 devices 110 can be lost, with --placement rotated 60; \
                the busiest device carries 1.7 times the mean load.\n";
    assert!(fixed.contains(line), "{fixed}");
    let rotated = said("b", &["--code", "shec:6,4,3", "--placement", "rotated"]);
    let line = "Columns are rotated: of 120 sets of 3 devices 60 can be lost, with --placement fixed 110; \
                its busiest device would carry 1.7 times the mean load.\n";
    assert!(rotated.contains(line), "{rotated}");
    assert!(!said("c", &["--code", "raid6:4"]).contains("Columns"), "nothing is given up");
    let root = folder.path().join("d");
    let order = ["create", root.to_str().expect("a path"), "--size", "4M", "--code", "raidp:4"];
    let run = pantile(&[&order[..], &["--placement", "rotated"]].concat());
    assert_fault(&run, 2, &["raidp:4", "cannot change places", "leave out --placement"], "raidp");
    let run = pantile(&[&order[..], &["--placement", "turned"]].concat());
    assert_eq!(run.status, 2, "{}", run.stderr);
    assert!(run.stderr.contains("'turned' is no placement: write fixed, rotated"), "{}", run.stderr);
}

/// Files in one folder are on one disk, under any name.
#[test]
fn create_and_status_warn_of_devices_that_fail_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("v");
    let root = root.to_str().expect("a path");
    let made = text(&["create", root, "--size", "4M", "--code", "raid6:4"]);
    let warning = made.lines().find(|line| line.starts_with("All 6 devices are on ")).expect("a warning");
    let end = ": its loss loses all data, although any 2 devices can fail.";
    assert!(warning.ends_with(end), "{warning}");
    assert!(text(&["status", root]).lines().any(|line| line == warning), "status says it, too");
    let disks = &json(&["status", root, "--json"])["disks"];
    assert_eq!(disks["warning"], warning);
    assert_eq!(disks["disks"].as_array().map(Vec::len), Some(1));
    assert_eq!(disks["disks"][0]["devices"], serde_json::json!([0, 1, 2, 3, 4, 5]));
    assert_eq!(disks["losses"][0]["survived"], 0);
    // A volume without tolerance promises none.
    let bare = folder.path().join("w");
    let bare = text(&["create", bare.to_str().expect("a path"), "--size", "4M", "--code", "raid0:2"]);
    assert!(!bare.contains("although"), "{bare}");
}

#[test]
fn a_certificate_states_its_placement() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("shec.json");
    let file = file.to_str().expect("a path");
    for placement in ["fixed", "rotated", "rotated:3"] {
        let said = text(&["prove", "shec:6,4,3", "--placement", placement, "--certificate", file]);
        assert_eq!(said.contains("Sets are sets of devices"), placement != "fixed", "{said}");
        let found: Value = serde_json::from_slice(&std::fs::read(file).expect("it is there")).expect("JSON");
        assert_eq!(found["placement"], placement);
    }
}
